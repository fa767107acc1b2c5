package mqtt

// Triggers under faults, with an oracle that knows the truth about each part.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
	"github.com/polyscan/polyscan/internal/seed"
	_ "github.com/polyscan/polyscan/internal/shorttest"
)

// TestFaults triggers for a while, as a PLC would by Sparkplug, while connections are cut, the way is held up and
// everything is sent twice or not at all. Of each trigger there is one answer, or the link was lost in between; a PASS
// is of a good part, and of the part that was triggered; no part is inspected twice.
func TestFaults(t *testing.T) {
	rounds := 2
	if !testing.Short() {
		rounds = 30
	}
	rnd := seed.New(t, 41, 7)
	addr := startBroker(t)
	w := startWay(t, addr)
	st, src := startStation(t, station.Config{HeartbeatTimeout: 500 * time.Millisecond, Deadline: 50 * time.Millisecond})
	h := startHost(t, addr)
	c, err := sparkplugClient(w.addr, Sparkplug{}, st)
	gateway(t, c, err)
	h.await("born", func() bool { return h.born && len(h.values) > 60 })
	h.beat()

	p := &ladder{h: h, parts: map[uint32]string{}, answers: map[uint32]string{},
		rnd: rand.New(rand.NewPCG(rnd.Uint64(), 1))}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.run(ctx) })
	for range rounds {
		p.answered(t, 30)
		switch rnd.IntN(4) {
		case 0:
			w.cut()
		case 1: // shorter than a heartbeat may be late, and longer
			w.hold(true)
			time.Sleep(time.Duration(rnd.IntN(900)) * time.Millisecond)
			w.hold(false)
		case 2:
			publish(t, h.cli, "spBv1.0/g/NCMD/n", dcmd("Node Control/Rebirth", true), false)
		case 3:
			w.hold(true)
			w.cut()
			w.hold(false)
		}
	}
	p.answered(t, 30)
	cancel()
	running.Wait()

	p.mu.Lock()
	defer p.mu.Unlock()
	counts := map[string]int{}
	for id := range p.parts {
		counts[p.answers[id]]++
	}
	if len(p.wrong) > 0 {
		t.Errorf("%d wrong answers: %v", len(p.wrong), p.wrong[0])
	}
	src.mu.Lock()
	defer src.mu.Unlock()
	for id, n := range src.inspects {
		if n != 1 {
			t.Errorf("trigger %d was inspected %d times", id, n)
		}
	}
	s := st.Snapshot()
	if n := s.Counters; n.Accepted != n.Pass+n.Fail+n.Reject+uint32(s.Running) {
		t.Errorf("%+v, %d running", n, s.Running)
	}
	t.Logf("%d triggers: %v; %d connections; %+v", len(p.parts), counts, c.Status().Connections, s.Counters)
}

// ladder is a PLC's program.
type ladder struct {
	h   *host
	rnd *rand.Rand

	mu      sync.Mutex
	parts   map[uint32]string // triggers that were set
	answers map[uint32]string // what each came to: PASS, FAIL, REJECT, or lost
	wrong   []string
	id      uint32
}

// send is a DCMD that may get lost or doubled, as with QoS 0 and 1.
func (p *ladder) send(ctx context.Context, pairs ...any) {
	n := 1
	switch p.rnd.IntN(20) {
	case 0:
		n = 0
	case 1:
		n = 2
	}
	for range n {
		p.h.cli.Publish(ctx, &paho.Publish{Topic: "spBv1.0/g/DCMD/n/S1", Payload: dcmd(pairs...)})
	}
}

// until sends again and again until the host has what is wanted. It reports false when time is over.
func (p *ladder) until(ctx context.Context, limit time.Duration, ok func(v func(string) any) bool, pairs ...any) bool {
	deadline := time.After(limit)
	for {
		p.h.mu.Lock()
		done, changed := p.h.born && ok(func(name string) any { return p.h.values["S1/"+name] }), p.h.changed
		p.h.mu.Unlock()
		if done {
			return true
		}
		p.send(ctx, pairs...)
		select {
		case <-changed:
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func is(name string, want any) func(func(string) any) bool {
	return func(v func(string) any) bool { return v(name) == want }
}

// run is the ladder: make ready, trigger, read, acknowledge.
func (p *ladder) run(ctx context.Context) {
	for ctx.Err() == nil {
		const step = 2 * time.Second
		ready := func() bool {
			p.h.mu.Lock()
			defer p.h.mu.Unlock()
			return p.h.born && p.h.values["S1/Status/Ready"] == true
		}
		// Everything is taken back before anything new is asked for.
		if !p.until(ctx, step, func(v func(string) any) bool {
			return v("Control/Trigger") == false && v("Control/Results Ack") == false && v("Control/Command") == uint64(0) &&
				v("Status/Trigger Ack") == false
		}, "Control/Trigger", false, "Control/Results Ack", false, "Control/Command", 0) {
			continue
		}
		p.h.mu.Lock()
		valid, state := p.h.values["S1/Status/Results Valid"] == true, p.h.values["S1/Status/State"]
		p.h.mu.Unlock()
		switch {
		case valid: // of a trigger that was given up
			p.until(ctx, step, is("Status/Results Valid", false), "Control/Results Ack", true)
			continue
		case state == uint64(station.Preoperational):
			p.until(ctx, step, is("Status/Command", uint64(station.AckError)), "Control/Enable", true, "Control/Command",
				int(station.AckError))
			continue
		case state == uint64(station.Initialized):
			p.until(ctx, step, is("Status/State", uint64(station.Ready)), "Control/Enable", true, "Control/Command",
				int(station.PrepareRecipe), "Control/Recipe Slot", 1)
			continue
		case !ready():
			p.until(ctx, step, is("Status/Ready", true), "Control/Enable", true)
			continue
		}
		p.trigger(ctx)
	}
}

func (p *ladder) trigger(ctx context.Context) {
	p.mu.Lock()
	p.id++
	id := p.id
	part := fmt.Sprintf("%s-%d", []string{"good", "bad"}[p.rnd.IntN(2)], id)
	p.parts[id] = part
	p.mu.Unlock()
	came := p.until(ctx, 300*time.Millisecond, func(v func(string) any) bool {
		return v("Status/Results Valid") == true && v("Result/Trigger Id") == uint64(id)
	}, "Control/Trigger", true, "Control/Trigger Id", int(id), "Control/Part Id", part)
	p.h.mu.Lock()
	word, complement := p.h.values["S1/Result/Verdict"], p.h.values["S1/Result/Verdict Complement"]
	gotID, gotPart := p.h.values["S1/Result/Trigger Id"], p.h.values["S1/Result/Part Id"]
	valid := p.h.born && p.h.values["S1/Status/Results Valid"] == true
	p.h.mu.Unlock()
	verdict := "lost"
	if w, ok := word.(uint64); came && ok && valid && complement == w^0xFFFF && gotID == uint64(id) {
		verdict = station.Verdict(w).String()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[id] = verdict
	if verdict == "PASS" && (!strings.HasPrefix(part, "good") || gotPart != part) ||
		verdict == "FAIL" && !strings.HasPrefix(part, "bad") {
		p.wrong = append(p.wrong, fmt.Sprintf("trigger %d, part %s: %s about %v", id, part, verdict, gotPart))
	}
}

// answered waits for n more answers that are not lost.
func (p *ladder) answered(t *testing.T, n int) {
	t.Helper()
	count := func() (n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, a := range p.answers {
			if a != "lost" {
				n++
			}
		}
		return n
	}
	want := count() + n
	eventually(t, fmt.Sprintf("%d answers", want), func() bool { return count() >= want })
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.wrong) > 0 {
		t.Fatalf("wrong: %v", p.wrong)
	}
}
