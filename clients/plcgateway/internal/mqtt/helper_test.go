package mqtt

// What tests are made of: a broker, a way to it that can be cut and held up, a host that follows an edge node, a source
// that knows the truth about each part.

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"
	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
	sparkplugv1 "github.com/polyscan/polyscan/proto/sparkplug/v1"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

var quiet = slog.New(slog.DiscardHandler)

func startBroker(t testing.TB) string {
	t.Helper()
	return startBrokerWith(t, new(auth.AllowHook), nil, listeners.Config{ID: "tcp", Address: "127.0.0.1:0"})
}

func startBrokerWith(t testing.TB, hook mochi.Hook, options any, cfg listeners.Config) string {
	t.Helper()
	s := mochi.New(&mochi.Options{Logger: quiet})
	if err := s.AddHook(hook, options); err != nil {
		t.Fatal(err)
	}
	l := listeners.NewTCP(cfg)
	if err := s.AddListener(l); err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return l.Address()
}

// way forwards connections to a broker.
type way struct {
	addr, to string

	mu    sync.Mutex
	cond  *sync.Cond
	held  bool
	conns map[net.Conn]bool
}

func startWay(t testing.TB, to string) *way {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &way{addr: l.Addr().String(), to: to, conns: map[net.Conn]bool{}}
	w.cond = sync.NewCond(&w.mu)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			w.mu.Lock()
			w.conns[in], w.conns[out] = true, true
			w.mu.Unlock()
			running.Go(func() { w.copy(in, out) })
			running.Go(func() { w.copy(out, in) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		w.hold(false)
		w.cut()
		running.Wait()
	})
	return w
}

func (w *way) copy(dst, src net.Conn) {
	b := make([]byte, 4096)
	for {
		n, err := src.Read(b)
		w.mu.Lock()
		for w.held && w.conns[dst] && w.conns[src] {
			w.cond.Wait()
		}
		w.mu.Unlock()
		if err == nil {
			_, err = dst.Write(b[:n])
		}
		if err != nil {
			break
		}
	}
	w.mu.Lock()
	delete(w.conns, dst)
	delete(w.conns, src)
	w.cond.Broadcast()
	w.mu.Unlock()
	src.Close()
	dst.Close()
}

// hold stops everything on the way, or lets it go on.
func (w *way) hold(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = on
	w.cond.Broadcast()
}

// cut ends the connections that there are.
func (w *way) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.Close()
		delete(w.conns, c)
	}
	w.cond.Broadcast()
}

// client is an MQTT client of the test's own.
func client(t testing.TB, addr, id string, received func(*paho.Publish), subscribe ...string) *paho.Client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	cli := paho.NewClient(paho.ClientConfig{ClientID: id, Conn: newConn(c),
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){
			func(r paho.PublishReceived) (bool, error) {
				received(r.Packet)
				return true, nil
			},
		}})
	if _, err := cli.Connect(t.Context(), &paho.Connect{ClientID: id, CleanStart: true, KeepAlive: 60}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cli.Disconnect(&paho.Disconnect{}) })
	var subs []paho.SubscribeOptions
	for _, s := range subscribe {
		subs = append(subs, paho.SubscribeOptions{Topic: s, QoS: 1})
	}
	if _, err := cli.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: subs}); err != nil {
		t.Fatal(err)
	}
	return cli
}

func publish(t testing.TB, cli *paho.Client, topic string, payload []byte, retain bool) {
	t.Helper()
	if _, err := cli.Publish(t.Context(), &paho.Publish{Topic: topic, Payload: payload, Retain: retain}); err != nil {
		t.Fatal(err)
	}
}

// host is a Sparkplug host application: it follows one edge node, checks its sequence numbers, and has its values.
type host struct {
	t   testing.TB
	cli *paho.Client

	mu      sync.Mutex
	changed chan struct{} // closed and made anew with each message
	born    bool
	seq     uint64
	bdSeq   uint64
	births  int
	deaths  []uint64
	names   map[uint64]string
	values  map[string]any // "S1/Result/Verdict"; without a device "Commands Refused"
	past    []map[string]any
	results []map[string]any // each message that had a result, of S1
	faults  []string
}

func startHost(t testing.TB, addr string) *host {
	h := &host{t: t, changed: make(chan struct{}), values: map[string]any{}, names: map[uint64]string{}}
	h.cli = client(t, addr, "host", h.received, "spBv1.0/g/+/n", "spBv1.0/g/+/n/+")
	t.Cleanup(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, f := range h.faults {
			t.Error(f)
		}
	})
	return h
}

func (h *host) fault(format string, args ...any) {
	h.faults = append(h.faults, fmt.Sprintf(format, args...))
}

func (h *host) received(p *paho.Publish) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() {
		close(h.changed)
		h.changed = make(chan struct{})
	}()
	parts := strings.Split(p.Topic, "/")
	kind, device := parts[2], ""
	if len(parts) == 5 {
		device = parts[4] + "/"
	}
	if strings.HasSuffix(kind, "CMD") {
		return
	}
	var m sparkplugv1.Payload
	if err := proto.Unmarshal(p.Payload, &m); err != nil || p.Retain {
		h.fault("%s: %v, retain %v", p.Topic, err, p.Retain)
		return
	}
	switch kind {
	case "NDEATH":
		b := m.Metrics[0].GetLongValue()
		h.deaths = append(h.deaths, b)
		if b == h.bdSeq {
			h.born = false
		}
		return
	case "NBIRTH":
		h.born, h.seq, h.births, h.bdSeq = true, 0, h.births+1, m.Metrics[0].GetLongValue()
		h.names, h.values = map[uint64]string{}, map[string]any{}
		if m.GetSeq() != 0 {
			h.fault("NBIRTH with seq %d", m.GetSeq())
		}
	default:
		if !h.born {
			return // of a connection whose birth the host didn't see, or a message that its NDEATH overtook
		}
		if h.seq = (h.seq + 1) % 256; m.GetSeq() != h.seq {
			h.fault("%s: seq %d, want %d", p.Topic, m.GetSeq(), h.seq)
		}
	}
	result, past := map[string]any{}, map[string]any{}
	for _, x := range m.Metrics {
		name := h.names[x.GetAlias()]
		if strings.HasSuffix(kind, "BIRTH") {
			name = device + x.GetName()
			h.names[x.GetAlias()] = name
		} else if x.Name != nil || name == "" {
			h.fault("%s: metric %q of alias %d", p.Topic, x.GetName(), x.GetAlias())
		}
		var v any
		switch y := x.Value.(type) {
		case *sparkplugv1.Metric_BooleanValue:
			v = y.BooleanValue
		case *sparkplugv1.Metric_IntValue:
			v = uint64(y.IntValue)
		case *sparkplugv1.Metric_LongValue:
			v = y.LongValue
		case *sparkplugv1.Metric_FloatValue:
			v = y.FloatValue
		case *sparkplugv1.Metric_StringValue:
			v = y.StringValue
		}
		if x.GetIsHistorical() {
			past[name] = v
			continue
		}
		h.values[name] = v
		if strings.HasPrefix(name, "S1/Result/") {
			result[strings.TrimPrefix(name, "S1/Result/")] = v
		}
	}
	if len(past) > 0 {
		h.past = append(h.past, past)
	}
	if len(result) > 0 {
		h.results = append(h.results, result)
		word, complement := result["Verdict"].(uint64), result["Verdict Complement"].(uint64)
		if result["Sequence Before"] != result["Sequence After"] || word^complement != 0xFFFF {
			h.fault("a result that is torn: %v", result)
		}
	}
}

// await waits until ok.
func (h *host) await(what string, ok func() bool) {
	h.t.Helper()
	deadline := time.After(patience)
	for {
		h.mu.Lock()
		done, changed := ok(), h.changed
		h.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			h.mu.Lock()
			defer h.mu.Unlock()
			h.t.Fatalf("%s: not so after %v; born %v, births %d, deaths %v, values %v", what, patience, h.born, h.births,
				h.deaths,
				h.values)
		}
	}
}

// is waits until metrics of S1 have values.
func (h *host) is(want ...any) {
	h.t.Helper()
	h.await(fmt.Sprintf("%v", want), func() bool {
		for i := 0; i < len(want); i += 2 {
			if h.values["S1/"+want[i].(string)] != want[i+1] {
				return false
			}
		}
		return true
	})
}

// write sends a DCMD to S1: names and values in turn.
func (h *host) write(pairs ...any) {
	h.t.Helper()
	publish(h.t, h.cli, "spBv1.0/g/DCMD/n/S1", dcmd(pairs...), false)
}

func dcmd(pairs ...any) []byte {
	p := &sparkplugv1.Payload{Timestamp: proto.Uint64(uint64(time.Now().UnixMilli()))}
	for i := 0; i < len(pairs); i += 2 {
		m := &sparkplugv1.Metric{Name: proto.String(pairs[i].(string))}
		switch v := pairs[i+1].(type) {
		case bool:
			m.Value = &sparkplugv1.Metric_BooleanValue{BooleanValue: v}
		case int:
			m.Value = &sparkplugv1.Metric_LongValue{LongValue: uint64(v)}
		case string:
			m.Value = &sparkplugv1.Metric_StringValue{StringValue: v}
		}
		p.Metrics = append(p.Metrics, m)
	}
	b, err := proto.Marshal(p)
	if err != nil {
		panic(err)
	}
	return b
}

// beat writes the PLC's heartbeat until the test ends.
func (h *host) beat() {
	ctx, cancel := context.WithCancel(context.Background())
	var beating sync.WaitGroup
	beating.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-time.After(50 * time.Millisecond):
				h.cli.Publish(ctx, &paho.Publish{Topic: "spBv1.0/g/DCMD/n/S1", Payload: dcmd("Control/Heartbeat", 1+i%60000)})
			}
		}
	})
	h.t.Cleanup(func() {
		cancel()
		beating.Wait()
	})
}

// ready brings S1 to where a trigger is inspected.
func (h *host) ready() {
	h.t.Helper()
	h.write("Control/Command", int(station.AckError), "Control/Enable", true)
	h.is("Status/Command", uint64(station.AckError))
	h.write("Control/Command", 0)
	h.write("Control/Command", int(station.PrepareRecipe), "Control/Recipe Slot", 1)
	h.is("Status/Ready", true)
	h.write("Control/Command", 0)
}

// truth is a source that knows which parts are good: those whose id begins with "good". Jobs of parts that begin with
// "wait" are answered by the test.
type truth struct {
	mu       sync.Mutex
	jobs     int
	inspects map[uint32]int // by trigger id
	waiting  chan *station.Job
}

func newTruth() *truth {
	return &truth{inspects: map[uint32]int{}, waiting: make(chan *station.Job, 64)}
}

func (s *truth) Inspect(j *station.Job) {
	s.mu.Lock()
	s.jobs++
	s.inspects[j.TriggerID]++
	s.mu.Unlock()
	if strings.HasPrefix(j.PartID, "wait") {
		s.waiting <- j
		return
	}
	go j.Answer(outcome(j))
}

func outcome(j *station.Job) station.Outcome {
	o := station.Outcome{
		Reason: station.ReasonFail, PartID: j.PartID, Recipe: j.Recipe.Name, RecipeVersion: j.Recipe.Version,
		FailedRegions: 2, FirstFailed: 1, Values: []float32{1.5},
	}
	if strings.HasPrefix(j.PartID, "good") {
		o.Reason, o.FailedRegions, o.FirstFailed = station.ReasonPass, 0, 0
	}
	return o
}

func (s *truth) Prepare(context.Context, station.Recipe) (uint64, error) { return 7, nil }
func (s *truth) Unprepare(station.Recipe)                                {}
func (s *truth) Reset()                                                  {}

func startStation(t testing.TB, cfg station.Config) (*station.Station, *truth) {
	t.Helper()
	s := newTruth()
	cfg.Name = "S1"
	if cfg.Deadline == 0 {
		cfg.Deadline = patience
	}
	if cfg.HeartbeatTimeout == 0 {
		cfg.HeartbeatTimeout = 2 * patience
	}
	cfg.Slots = map[uint16]station.Recipe{1: {Slot: 1, Name: "board"}}
	cfg.Values = []string{"U7.mean", "gaps.max"}
	st, err := station.New(cfg, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	st.Link(true)
	return st, s
}

// gateway runs a client until the test ends, or until what it returns is called.
func gateway(t testing.TB, c *Client, err error) (stop func()) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

func sparkplugClient(addr string, s Sparkplug, st ...*station.Station) (*Client, error) {
	s.Group, s.Node = "g", "n"
	return NewSparkplug(Config{Brokers: []string{"mqtt://" + addr}, ClientID: "gateway"}, s, "v1", st, quiet)
}

// eventually polls what no event tells.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not so after %v", what, patience)
		}
	}
}

var _ io.Reader = (*conn)(nil)
