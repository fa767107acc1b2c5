package mqtt

import (
	"context"
	"log/slog"
	"sync"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

// Client binds stations to a broker.
type Client struct {
	link     *link
	stations []*bound
	wake     chan struct{}
}

// NewSparkplug makes a client that is an edge node, with a device for each station. Nothing is done before Run.
func NewSparkplug(cfg Config, s Sparkplug, version string, stations []*station.Station, log *slog.Logger) (*Client, error) {
	c := newClient(cfg, stations)
	e, err := newEdge(s, version, c.stations, log)
	if err != nil {
		return nil, err
	}
	c.link, err = newLink(cfg, e, c.wake, log)
	return c, err
}

func newClient(cfg Config, stations []*station.Station) *Client {
	c := &Client{wake: make(chan struct{}, 1)}
	for _, st := range stations {
		c.stations = append(c.stations, bind(st, "mqtt "+cfg.ClientID))
	}
	return c
}

// Run keeps a connection until ctx is done, and gives the stations up then.
func (c *Client) Run(ctx context.Context) {
	var following sync.WaitGroup
	defer following.Wait()
	for _, b := range c.stations {
		sub := b.st.Subscribe(eventBuffer)
		defer sub.Close()
		following.Go(func() { b.follow(sub, c.wake) })
	}
	c.link.run(ctx)
}

// Status is how the connection is. It is safe for concurrent use.
func (c *Client) Status() Status { return c.link.status() }
