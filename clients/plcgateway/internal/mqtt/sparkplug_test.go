package mqtt

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

func TestHandshake(t *testing.T) {
	addr := startBroker(t)
	st, src := startStation(t, station.Config{})
	h := startHost(t, addr)
	c, err := sparkplugClient(addr, Sparkplug{}, st)
	gateway(t, c, err)

	h.await("born", func() bool { return h.born && len(h.values) > 60 })
	h.is("Status/State", uint64(station.Preoperational), "Status/Ready", false, "Status/Online", true, "Status/Holder", "",
		"Result/Verdict", uint64(station.Reject), "Result/Sequence Before", uint64(0), "Result/Values/U7.mean", nil)
	h.ready()
	h.is("Status/Holder", "mqtt gateway", "Status/Recipe", "board", "Status/Recipe Version", uint64(7), "Control/Enable",
		true)

	h.write("Control/Trigger", true, "Control/Trigger Id", 41, "Control/Part Id", "good-1")
	h.is("Status/Results Valid", true, "Status/Trigger Ack", true, "Result/Trigger Id", uint64(41),
		"Result/Verdict", uint64(0xA5C3), "Result/Verdict Complement", uint64(0x5A3C), "Result/Reason Name", "pass",
		"Result/Part Id", "good-1", "Result/Recipe", "board", "Result/Recipe Version", uint64(7),
		"Result/Values/U7.mean", float32(1.5), "Result/Values/gaps.max", nil,
		"Result/Sequence Before", uint64(1), "Result/Sequence After", uint64(1), "Counters/Pass", uint64(1))
	h.write("Control/Trigger", false, "Control/Results Ack", true)
	h.is("Status/Results Valid", false, "Result/Verdict", uint64(station.Reject), "Result/Sequence After", uint64(0),
		"Status/Trigger Ack", false)

	// The same id, the same answer, no second inspection; also where the message comes twice.
	h.write("Control/Results Ack", false)
	for range 2 {
		h.write("Control/Trigger", true, "Control/Trigger Id", 41, "Control/Part Id", "good-1")
	}
	h.is("Result/Trigger Id", uint64(41), "Result/Sequence Before", uint64(1), "Counters/Repeated", uint64(1))
	h.write("Control/Trigger", false, "Control/Results Ack", true)
	h.is("Status/Results Valid", false)
	h.write("Control/Results Ack", false)

	h.write("Control/Trigger", true, "Control/Trigger Id", 42, "Control/Part Id", "bad-1")
	h.is("Result/Trigger Id", uint64(42), "Result/Verdict", uint64(station.Fail), "Result/Failed Regions", uint64(2),
		"Result/First Failed", uint64(1))
	src.mu.Lock()
	defer src.mu.Unlock()
	if src.jobs != 2 {
		t.Errorf("%d inspections of two parts", src.jobs)
	}
	eventually(t, "the timeline says when the answer was published",
		func() bool { return !st.Snapshot().Result.Steps.Read.IsZero() })
	if s := c.Status(); !s.Connected || s.Connections != 1 || s.Err != nil {
		t.Errorf("status %+v", s)
	}
}

// A result travels whole: each message about one has all of it.
func TestResultIsWhole(t *testing.T) {
	addr := startBroker(t)
	st, _ := startStation(t, station.Config{})
	h := startHost(t, addr)
	c, err := sparkplugClient(addr, Sparkplug{}, st)
	gateway(t, c, err)
	h.await("born", func() bool { return h.born && len(h.values) > 60 })
	h.ready()
	for i := 1; i <= 300; i++ { // more than there are sequence numbers
		h.write("Control/Trigger", true, "Control/Trigger Id", i, "Control/Part Id",
			fmt.Sprint([]string{"good-", "bad-"}[i%2], i))
		h.is("Result/Trigger Id", uint64(i))
		h.write("Control/Trigger", false, "Control/Results Ack", true)
		h.is("Status/Results Valid", false)
		h.write("Control/Results Ack", false)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	size := len(h.results[0])
	for _, r := range h.results {
		if len(r) != size || size < 14 {
			t.Fatalf("%d metrics of %d: %v", len(r), size, r)
		}
		id := r["Trigger Id"].(uint64)
		want := uint64(station.Reject)
		switch {
		case id != 0 && id%2 == 0:
			want = uint64(station.Pass)
		case id != 0:
			want = uint64(station.Fail)
		}
		if r["Verdict"] != want {
			t.Errorf("trigger %d: %v", id, r)
		}
	}
}

func TestBrokerLost(t *testing.T) {
	addr := startBroker(t)
	w := startWay(t, addr)
	st, _ := startStation(t, station.Config{})
	h := startHost(t, addr)
	c, err := sparkplugClient(w.addr, Sparkplug{}, st)
	gateway(t, c, err)
	h.await("born", func() bool { return h.born && len(h.values) > 60 })
	h.ready()
	h.write("Control/Trigger", true, "Control/Trigger Id", 1, "Control/Part Id", "wait-1")
	h.is("Status/Busy", true)
	h.mu.Lock()
	if h.bdSeq != 0 {
		t.Errorf("bdSeq %d of the first connection", h.bdSeq)
	}
	h.mu.Unlock()

	w.cut()
	h.await("reborn", func() bool { return h.births == 2 && h.bdSeq == 1 && len(h.values) > 60 })
	h.await("dead", func() bool { return slices.Contains(h.deaths, 0) })
	h.is("Status/State", uint64(station.Preoperational), "Status/Ready", false, "Status/Busy", false, "Control/Enable",
		false,
		"Status/Holder", "", "Result/Verdict", uint64(station.Reject), "Result/Trigger Id", uint64(0))
	// The answer that nobody could be shown is history, and is no result.
	h.await("history", func() bool { return len(h.past) == 1 })
	h.mu.Lock()
	p := h.past[0]
	h.mu.Unlock()
	if p["S1/Result/Trigger Id"] != uint64(1) || p["S1/Result/Verdict"] != uint64(station.Reject) ||
		p["S1/Result/Reason Name"] != "aborted" {
		t.Errorf("history %v", p)
	}
	// Nothing is triggered before the PLC has acknowledged.
	h.write("Control/Trigger", true, "Control/Trigger Id", 2, "Control/Part Id", "good-2", "Control/Enable", true)
	h.is("Counters/Missed", uint64(1), "Status/Error", uint64(station.NotAcknowledged), "Status/Results Valid", false)
	h.write("Control/Trigger", false, "Control/Command", int(station.AckError))
	h.is("Status/Ready", true)
	h.write("Control/Trigger", true, "Control/Command", 0, "Control/Trigger Id", 3, "Control/Part Id", "good-3")
	h.is("Result/Trigger Id", uint64(3), "Result/Verdict", uint64(station.Pass))
}

// A broker that stands still delays nobody: the station answers, and is not ready as soon as the heartbeat is stale.
func TestBrokerStalls(t *testing.T) {
	addr := startBroker(t)
	w := startWay(t, addr)
	st, src := startStation(t, station.Config{HeartbeatTimeout: time.Second})
	h := startHost(t, addr)
	c, err := sparkplugClient(w.addr, Sparkplug{}, st)
	gateway(t, c, err)
	h.await("born", func() bool { return h.born && len(h.values) > 60 })
	h.beat()
	h.ready()
	h.write("Control/Trigger", true, "Control/Trigger Id", 1, "Control/Part Id", "wait-1")
	j := <-src.waiting
	w.hold(true)
	if !j.Answer(outcome(j)) {
		t.Error("the job had its answer")
	}
	eventually(t, "not ready", func() bool {
		s := st.Snapshot()
		return s.Bits&(station.ReadyBit|station.ResultsValid) == 0 && s.Result.Verdict == station.Reject
	})
	eventually(t, "given up", func() bool { return st.Snapshot().Holder == "" })
	w.hold(false)
	h.await("reborn", func() bool { return h.births > 1 && h.bdSeq > 0 && len(h.values) > 60 })
	h.ready()
}

func TestRebirth(t *testing.T) {
	addr := startBroker(t)
	st, _ := startStation(t, station.Config{})
	h := startHost(t, addr)
	c, err := sparkplugClient(addr, Sparkplug{}, st)
	gateway(t, c, err)
	h.await("born", func() bool { return h.born && len(h.values) > 60 })
	h.ready()
	for i := range 20 {
		publish(t, h.cli, "spBv1.0/g/NCMD/n", dcmd("Node Control/Rebirth", true), false)
		h.await("reborn", func() bool { return h.births >= 2+i && len(h.values) > 60 })
	}
	h.is("Status/Ready", true, "Control/Enable", true) // a rebirth changes nothing but what is known
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bdSeq != 0 || len(h.deaths) != 0 {
		t.Errorf("bdSeq %d, deaths %v", h.bdSeq, h.deaths)
	}
}

func TestPrimaryHost(t *testing.T) {
	addr := startBroker(t)
	st, _ := startStation(t, station.Config{})
	h := startHost(t, addr)
	c, err := sparkplugClient(addr, Sparkplug{PrimaryHost: "scada"}, st)
	state := func(online bool, at int) {
		publish(t, h.cli, "spBv1.0/STATE/scada", fmt.Appendf(nil, `{"online":%v,"timestamp":%d}`, online, at), true)
	}
	state(false, 50)
	gateway(t, c, err)
	eventually(t, "connected", func() bool { return c.Status().Connected })
	h.write("Control/Command", int(station.AckError)) // not now
	state(true, 100)
	h.await("born", func() bool { return h.born && len(h.values) > 60 })
	h.await("the first birth", func() bool { return h.births == 1 && h.bdSeq == 0 })
	h.is("Status/Holder", "")
	h.ready()
	state(false, 99) // older than what is known: the will of a connection that is gone
	h.write("Control/Trigger", true, "Control/Trigger Id", 1, "Control/Part Id", "good-1")
	h.is("Result/Verdict", uint64(station.Pass))

	state(false, 101)
	h.await("dead", func() bool { return slices.Contains(h.deaths, 0) && !h.born })
	eventually(t, "given up", func() bool { return st.Snapshot().Holder == "" })
	eventually(t, "connected again", func() bool { return c.Status().Connections == 2 })
	state(true, 102)
	h.await("reborn", func() bool { return h.births == 2 && h.born && len(h.values) > 60 })
	h.is("Status/State", uint64(station.Preoperational), "Status/Results Valid", false)
}

func TestRefusedCommands(t *testing.T) {
	addr := startBroker(t)
	st, _ := startStation(t, station.Config{})
	h := startHost(t, addr)
	// Kept by the broker from before: it would be given to each connection.
	publish(t, h.cli, "spBv1.0/g/DCMD/n/S1", dcmd("Control/Command", int(station.AckError)), true)
	c, err := sparkplugClient(addr, Sparkplug{}, st)
	gateway(t, c, err)
	h.await("born", func() bool { return h.born && len(h.values) > 60 })
	refused := func(n int, topic string, payload []byte, why string) {
		t.Helper()
		publish(t, h.cli, topic, payload, false)
		h.await(why, func() bool { return h.values["Commands Refused"] == uint64(n) })
		h.mu.Lock()
		defer h.mu.Unlock()
		if got := h.values["Last Refusal"].(string); !strings.HasPrefix(got, why) {
			t.Errorf("refused for %q, want %q", got, why)
		}
	}
	s1 := "spBv1.0/g/DCMD/n/S1"
	refused(1, s1, []byte{0xFF}, `sparkplug: command: not a payload`)
	refused(2, s1, dcmd("Control/Trigger", true, "Control/Trigger Ib", 1),
		`sparkplug: command: no metric "Control/Trigger Ib"`)
	refused(3, s1, dcmd("Result/Verdict", 0xA5C3), `sparkplug: command: Result/Verdict can't be written`)
	refused(4, s1, dcmd("Control/Trigger Id", 1<<32), `Control/Trigger Id is 4294967296, at most 4294967295`)
	refused(5, "spBv1.0/g/DCMD/n/S2", dcmd("Control/Trigger", true),
		`sparkplug: topic "spBv1.0/g/DCMD/n/S2": no device of this node`)
	if s := st.Snapshot(); s.Holder != "" {
		t.Errorf("refused commands acquired the station for %q", s.Holder)
	}
	// One that is published to be kept is refused while it is fresh, too.
	publish(t, h.cli, s1, dcmd("Control/Trigger", true), true)
	refused(6, s1, dcmd("Control/Heartbeat", 1<<16), `sparkplug: command: Control/Heartbeat: not a value of data type 6`)
	if s := st.Snapshot(); s.Holder != "" {
		t.Errorf("a retained command acquired the station for %q", s.Holder)
	}
	// Somebody else's station.
	other, err := st.Acquire("modbus 10.0.0.5")
	if err != nil {
		t.Fatal(err)
	}
	publish(t, h.cli, s1, dcmd("Control/Enable", true), false)
	h.await("refused", func() bool { return h.values["Commands Refused"] == uint64(7) })
	h.is("Control/Enable", false, "Status/Holder", "modbus 10.0.0.5")
	if !other.Held() {
		t.Error("the holder lost the station")
	}
}
