package mqtt

// The connection to a broker: made, kept, lost and made again.

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/paho"
)

const (
	// keepAlive in seconds: a broker that hears nothing for one and a half times as long publishes the will. The heartbeat
	// goes out ten times a second, so it is what a PLC notices first.
	keepAlive = 2
	// dialTimeout is for TCP and TLS, and packetTimeout for each answer of the broker until the connection stands.
	dialTimeout   = 3 * time.Second
	packetTimeout = 3 * time.Second
	// writeTimeout is how long a broker may leave a packet in the socket.
	writeTimeout = time.Second
	// firstRetry doubles up to lastRetry while no connection comes about.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
	// maxPacket bounds what the broker may send at once, in bytes.
	maxPacket = 256 << 10
	// inbox is how many messages wait to be read; the broker waits behind them.
	inbox = 64
	// tick is how often the stations are looked at, besides when they tell of something: their heartbeat moves as often.
	tick = 100 * time.Millisecond
)

// Config is a broker, and how to speak to it.
type Config struct {
	// Brokers are tried in turn: mqtt://host:port, or mqtts://host:port for TLS. Ports are 1883 and 8883 by default.
	Brokers  []string
	ClientID string
	// User and Password may be empty.
	User, Password string
	// TLS is for mqtts; nil means the system's authorities.
	TLS *tls.Config
}

// message is one to be published.
type message struct {
	Topic   string
	Payload []byte
}

// A protocol is what is spoken. Its methods are called from one goroutine.
type protocol interface {
	// connecting begins a connection; the broker publishes its will when the connection ends.
	connecting() (will message)
	subscriptions() []paho.SubscribeOptions
	// connected and look return what is to be published; look is called when a station tells of something, and each tick.
	connected(now time.Time) []message
	look(now time.Time) []message
	// received takes a message, and returns what is to be published at once. An error ends the connection.
	received(now time.Time, topic string, payload []byte) ([]message, error)
	// published is told that what was returned last went out.
	published()
	// lost ends a connection, also one that never stood.
	lost()
}

// link keeps a connection.
type link struct {
	cfg   Config
	urls  []*url.URL
	proto protocol
	wake  chan struct{}
	log   *slog.Logger

	mu sync.Mutex
	st Status
}

// Status is how a connection is.
type Status struct {
	// Connected: the broker took the connection and the subscriptions.
	Connected bool
	Broker    string // the one that is, or was last, tried
	Since     time.Time
	// Connections that stood, and why the last one ended or did not come about.
	Connections uint64
	Err         error
}

func newLink(cfg Config, p protocol, wake chan struct{}, log *slog.Logger) (*link, error) {
	if len(cfg.Brokers) == 0 {
		return nil, errors.New("mqtt: no broker")
	}
	if cfg.ClientID == "" {
		return nil, errors.New("mqtt: no client id") // without one the broker couldn't tell a connection from its predecessor
	}
	l := &link{cfg: cfg, proto: p, wake: wake, log: log}
	for _, b := range cfg.Brokers {
		u, err := parseBroker(b)
		if err != nil {
			return nil, err
		}
		l.urls = append(l.urls, u)
	}
	return l, nil
}

func parseBroker(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("mqtt: broker %q: %w", s, err)
	case u.Scheme != "mqtt" && u.Scheme != "mqtts" || u.Hostname() == "" || u.Path != "" || u.User != nil || u.RawQuery != "":
		return nil, fmt.Errorf("mqtt: broker %q: want mqtt://host:port or mqtts://host:port", s)
	case u.Port() == "" && u.Scheme == "mqtt":
		u.Host = net.JoinHostPort(u.Hostname(), "1883")
	case u.Port() == "":
		u.Host = net.JoinHostPort(u.Hostname(), "8883")
	}
	return u, nil
}

// status is for metrics and health.
func (l *link) status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.st
}

// run keeps a connection until ctx is done.
func (l *link) run(ctx context.Context) {
	wait := firstRetry
	for i := 0; ; i++ {
		u := l.urls[i%len(l.urls)]
		stood, err := l.connection(ctx, u)
		l.proto.lost()
		l.mu.Lock()
		l.st.Connected, l.st.Broker, l.st.Since, l.st.Err = false, u.String(), time.Now(), err
		l.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		l.log.Warn("mqtt connection lost", "broker", u.String(), "stood", stood, "error", err)
		if stood {
			wait = firstRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, lastRetry)
	}
}

// connection is one, from dialling to its end.
func (l *link) connection(ctx context.Context, u *url.URL) (stood bool, err error) {
	dial := &net.Dialer{Timeout: dialTimeout}
	var c net.Conn
	if u.Scheme == "mqtts" {
		dialCtx, cancel := context.WithTimeout(ctx, dialTimeout)
		c, err = (&tls.Dialer{NetDialer: dial, Config: l.cfg.TLS}).DialContext(dialCtx, "tcp", u.Host)
		cancel()
	} else {
		c, err = dial.DialContext(ctx, "tcp", u.Host)
	}
	if err != nil {
		return false, err
	}
	defer c.Close()

	received := make(chan *paho.Publish, inbox)
	ended := make(chan error, 1)
	done := make(chan struct{})
	defer close(done)
	end := func(err error) {
		select {
		case ended <- err:
		default:
		}
	}
	packets := newConn(c)
	cli := paho.NewClient(paho.ClientConfig{
		ClientID: l.cfg.ClientID, Conn: packets, PacketTimeout: packetTimeout,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(r paho.PublishReceived) (bool, error) {
			select {
			case received <- r.Packet:
			case <-done:
			}
			return true, nil
		}},
		OnClientError: func(err error) { end(err) },
		OnServerDisconnect: func(d *paho.Disconnect) {
			err := fmt.Errorf("the broker disconnected: reason 0x%02x", d.ReasonCode)
			if d.Properties != nil && d.Properties.ReasonString != "" {
				err = fmt.Errorf("%w, %s", err, d.Properties.ReasonString)
			}
			end(err)
		},
	})
	will := l.proto.connecting()
	ack, err := cli.Connect(ctx, &paho.Connect{
		ClientID: l.cfg.ClientID, CleanStart: true, KeepAlive: keepAlive,
		Username: l.cfg.User, UsernameFlag: l.cfg.User != "",
		Password: []byte(l.cfg.Password), PasswordFlag: l.cfg.Password != "",
		WillMessage:    &paho.WillMessage{Topic: will.Topic, Payload: will.Payload, QoS: 1},
		WillProperties: &paho.WillProperties{},
		Properties: &paho.ConnectProperties{
			ReceiveMaximum: pointer(uint16(inbox)), MaximumPacketSize: pointer(uint32(maxPacket)), RequestProblemInfo: true,
		},
	})
	if err != nil {
		if ack != nil && ack.ReasonCode >= 0x80 {
			err = fmt.Errorf("the broker refused the connection: reason 0x%02x: %w", ack.ReasonCode, err)
		}
		return false, err
	}
	// Disconnect closes the connection in any case. Reason 4 leaves the will in force: whoever follows learns of the end.
	defer cli.Disconnect(&paho.Disconnect{ReasonCode: 4})
	if _, err := cli.Subscribe(ctx, &paho.Subscribe{Subscriptions: l.proto.subscriptions()}); err != nil {
		return false, fmt.Errorf("subscribe: %w", err)
	}
	l.mu.Lock()
	l.st.Connected, l.st.Broker, l.st.Since, l.st.Err = true, u.String(), time.Now(), nil
	l.st.Connections++
	l.mu.Unlock()
	l.log.Info("mqtt connected", "broker", u.String())

	publish := func(ms []message) error {
		for _, m := range ms {
			if _, err := cli.Publish(ctx, &paho.Publish{Topic: m.Topic, Payload: m.Payload}); err != nil {
				return fmt.Errorf("publish: %w", err)
			}
		}
		if err := packets.failed(); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		l.proto.published()
		return nil
	}
	if err := publish(l.proto.connected(time.Now())); err != nil {
		return true, err
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		var out []message
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		case err := <-ended:
			return true, err
		case p := <-received:
			if p.Retain && !l.retained(p.Topic) {
				l.log.Warn("mqtt message refused: it is retained, and a command is for now", "topic", p.Topic)
				continue
			}
			if out, err = l.proto.received(time.Now(), p.Topic, p.Payload); err != nil {
				return true, err
			}
		case <-l.wake:
			out = l.proto.look(time.Now())
		case <-ticker.C:
			out = l.proto.look(time.Now())
		}
		if err := publish(out); err != nil {
			return true, err
		}
	}
}

// retained says whether messages that the broker keeps are wanted on a topic.
func (l *link) retained(topic string) bool {
	for _, s := range l.proto.subscriptions() {
		if s.Topic == topic {
			return s.RetainHandling == keepRetained
		}
	}
	return false
}

// Values of paho.SubscribeOptions.RetainHandling.
const (
	keepRetained = 0
	noRetained   = 2
)

func pointer[T any](v T) *T { return &v }

// conn writes each packet whole and within a deadline, and bounds the packets that it reads: the client library asks
// for as much memory as the first bytes of a packet tell.
type conn struct {
	net.Conn

	mu  sync.Mutex
	out []byte
	err error // of the first packet that was not taken

	in     *bufio.Reader
	typed  bool // the first byte of a packet was read, its length follows
	length int  // as far as it was read
	shift  int
	left   int // of the packet's body
}

func newConn(c net.Conn) *conn { return &conn{Conn: c, in: bufio.NewReader(c)} }

// Lock begins a packet; the client library locks what it writes to, if it can.
func (c *conn) Lock() {
	c.mu.Lock()
	c.out = c.out[:0]
}

// Write must be called between Lock and Unlock.
func (c *conn) Write(p []byte) (int, error) {
	c.out = append(c.out, p...)
	return len(p), c.err
}

// Unlock sends the packet. A broker that doesn't take it loses its connection.
func (c *conn) Unlock() {
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = c.SetWriteDeadline(time.Now().Add(writeTimeout))
	}
	if c.err == nil {
		_, c.err = c.Conn.Write(c.out)
	}
	if c.err != nil {
		c.Conn.Close()
	}
}

// failed returns why a packet was not taken.
func (c *conn) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Read follows the packets as they pass. It must be called from one goroutine.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if c.left > 0 {
		n, err := c.in.Read(p[:min(len(p), c.left)])
		c.left -= n
		return n, err
	}
	b, err := c.in.ReadByte()
	if err != nil {
		return 0, err
	}
	p[0] = b
	if !c.typed {
		c.typed, c.length, c.shift = true, 0, 0
		return 1, nil
	}
	// Seven bits of the length in each byte, the lowest first.
	c.length |= int(b&0x7F) << c.shift
	c.shift += 7
	switch {
	case c.length > maxPacket:
		return 0, fmt.Errorf("mqtt: the broker sent a packet of %d bytes or more, at most %d", c.length, maxPacket)
	case b < 0x80:
		c.typed, c.left = false, c.length
	case c.shift > 21:
		return 0, errors.New("mqtt: the length of a packet has more than four bytes")
	}
	return 1, nil
}
