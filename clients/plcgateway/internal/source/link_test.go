package source

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// monitor is a server that shows heartbeats while it is not stuck.
type monitor struct {
	polyscanv1.UnimplementedMonitorServiceServer
	polyscanv1.UnimplementedRecipeServiceServer
	stuck    atomic.Bool
	verdicts chan *polyscanv1.WatchVerdict
	id       atomic.Pointer[string]
	began    atomic.Int64 // watches
	slow     atomic.Int64 // how long a recipe takes
}

func (m *monitor) GetRecipe(_ context.Context, r *polyscanv1.GetRecipeRequest) (*polyscanv1.GetRecipeResponse, error) {
	time.Sleep(time.Duration(m.slow.Load()))
	return &polyscanv1.GetRecipeResponse{Recipe: &polyscanv1.Recipe{Name: r.GetRecipe().GetName(), Version: 1}}, nil
}

func (m *monitor) Watch(_ *polyscanv1.WatchRequest, out grpc.ServerStreamingServer[polyscanv1.WatchResponse]) error {
	started := &polyscanv1.WatchResponse{Event: &polyscanv1.WatchResponse_Started{Started: &polyscanv1.WatchStarted{ServerId: "a"}}}
	if id := m.id.Load(); id != nil {
		started.GetStarted().ServerId = *id
	}
	if err := out.Send(started); err != nil {
		return err
	}
	m.began.Add(1)
	t := time.NewTicker(heartbeat)
	defer t.Stop()
	for {
		r := &polyscanv1.WatchResponse{Event: &polyscanv1.WatchResponse_Heartbeat{Heartbeat: &polyscanv1.Heartbeat{}}}
		select {
		case <-out.Context().Done():
			return out.Context().Err()
		case v := <-m.verdicts:
			r.Event = &polyscanv1.WatchResponse_Verdict{Verdict: v}
		case <-t.C:
		}
		if m.stuck.Load() {
			continue
		}
		if err := out.Send(r); err != nil {
			return err
		}
	}
}

// A server that says nothing any more, over a connection that stands: what runs is answered REJECT server lost, and no
// later than 200 ms after the last word, as is a trigger that comes behind it, at once. When the server is heard again,
// the next part is judged.
func TestServerLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &monitor{verdicts: make(chan *polyscanv1.WatchVerdict)}
		link, stopServer := serveLink(t, m)
		defer stopServer()
		src, err := link.Add(Config{Parts: "camera"})
		if err != nil {
			t.Fatal(err)
		}
		s, err := station.New(station.Config{
			Name: "gate", Deadline: 10 * time.Second, HeartbeatTimeout: time.Minute,
			Slots: map[uint16]station.Recipe{1: {Slot: 1, Name: "board"}},
		}, src)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		src.Attach(s)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			link.Run(ctx)
		}()
		defer func() {
			stop()
			<-done
		}()

		c, err := s.Acquire("plc")
		if err != nil {
			t.Fatal(err)
		}
		c.Enable(true)
		time.Sleep(time.Second)
		for _, cmd := range []station.Command{station.AckError, station.PrepareRecipe, station.Continuous} {
			if _, err := c.Do(t.Context(), cmd, station.CommandArgs{Slot: 1}); err != nil {
				t.Fatal(cmd, err)
			}
		}
		time.Sleep(time.Second)
		if snap := s.Snapshot(); snap.Missing != station.NoError || !link.Up() {
			t.Fatalf("not ready: %v", snap.Missing)
		}
		if _, err := c.Trigger(1, "A"); err != nil {
			t.Fatal(err)
		}
		m.stuck.Store(true)
		stuck := time.Now()
		time.Sleep(200 * time.Millisecond)
		r := s.Snapshot().Result
		if r.TriggerID != 1 || r.Verdict != station.Reject || r.Reason != station.ReasonServerLost {
			t.Errorf("200 ms after the last word: %+v", r)
		}
		if took := r.Steps.Answered.Sub(stuck); took > silence {
			t.Errorf("answered %v after the last word", took)
		}
		if err := c.Acknowledge(r.Sequence); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Trigger(2, "B"); err != nil {
			t.Fatal(err)
		}
		if r := s.Snapshot().Result; r.TriggerID != 2 || r.Reason != station.ReasonServerLost || r.Latency != 0 {
			t.Errorf("a trigger while the server is lost: %+v", r)
		}

		m.stuck.Store(false)
		if err := c.Acknowledge(0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if !link.Up() {
			t.Fatal("the server is not found again")
		}
		if _, err := c.Trigger(3, "D"); err != nil {
			t.Fatal(err)
		}
		m.verdicts <- &polyscanv1.WatchVerdict{
			Name: "camera", PartId: "D", Recipe: "board", RecipeVersion: 1, Verdict: polyscanv1.Verdict_VERDICT_PASS,
		}
		time.Sleep(time.Millisecond)
		if r := s.Snapshot().Result; r.TriggerID != 3 || r.Verdict != station.Pass {
			t.Errorf("behind the loss: %+v", r)
		}
	})
}

// Recipes are looked for side by side when a server is back, and do not keep the stations waiting where it is the one
// that it was.
func TestRecheck(t *testing.T) {
	const stations, slots, slow = 6, 3, 20 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		m := &monitor{verdicts: make(chan *polyscanv1.WatchVerdict)}
		link, stop := serveLink(t, m)
		defer stop()
		var all []*station.Station
		recipes := map[uint16]station.Recipe{}
		for slot := range uint16(slots) {
			recipes[slot+1] = station.Recipe{Slot: slot + 1, Name: "board"}
		}
		for range stations {
			src, err := link.Add(Config{Parts: "camera"})
			if err != nil {
				t.Fatal(err)
			}
			s, err := station.New(station.Config{Name: "gate", HeartbeatTimeout: time.Hour, Slots: recipes}, src)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			src.Attach(s)
			all = append(all, s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			link.Run(ctx)
		}()
		defer func() {
			cancel()
			<-done
		}()
		time.Sleep(time.Second)
		for _, s := range all {
			c, err := s.Acquire("plc")
			if err != nil {
				t.Fatal(err)
			}
			for slot := range uint16(slots) {
				for _, cmd := range []station.Command{station.AckError, station.PrepareRecipe} {
					if _, err := c.Do(t.Context(), cmd, station.CommandArgs{Slot: slot + 1}); err != nil {
						t.Fatal(cmd, err)
					}
				}
			}
		}
		m.slow.Store(int64(slow))
		// ready says how long it takes, from when the server speaks again, until all stations have it.
		ready := func(id string) time.Duration {
			t.Helper()
			m.stuck.Store(true)
			for link.Up() {
				time.Sleep(time.Millisecond)
			}
			m.stuck.Store(false)
			m.id.Store(&id)
			began := m.began.Load()
			for m.began.Load() == began {
				time.Sleep(time.Millisecond)
			}
			from := time.Now()
			for _, s := range all {
				for s.Snapshot().Bits&station.ServerLost != 0 {
					time.Sleep(time.Millisecond)
				}
			}
			took := time.Since(from)
			time.Sleep(time.Second)
			return took
		}
		if took := ready("a"); took > time.Millisecond {
			t.Errorf("behind a silence: %v until the stations had their server", took)
		}
		if took := ready("b"); took > slow+time.Millisecond {
			t.Errorf("with another server: %v until the stations had it, a recipe takes %v", took, slow)
		}
	})
}

// serveLink runs a server, and makes the link to it.
func serveLink(t *testing.T, m *monitor) (link *Link, stop func()) {
	l := bufconn.Listen(1 << 16)
	srv := grpc.NewServer()
	polyscanv1.RegisterMonitorServiceServer(srv, m)
	polyscanv1.RegisterRecipeServiceServer(srv, m)
	go func() { _ = srv.Serve(l) }()
	link, err := Dial("hall", "passthrough:///hall", slog.New(slog.DiscardHandler), clients.WithDialOptions(
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) })))
	if err != nil {
		t.Fatal(err)
	}
	return link, srv.Stop
}
