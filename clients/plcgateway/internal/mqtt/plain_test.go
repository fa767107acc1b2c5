package mqtt

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

// listener has the last message of each topic, and all of some.
type listener struct {
	t   testing.TB
	cli *paho.Client

	mu      sync.Mutex
	last    map[string]map[string]any
	results []map[string]any
}

func startListener(t testing.TB, addr string) *listener {
	l := &listener{t: t, last: map[string]map[string]any{}}
	l.cli = client(t, addr, "listener", l.received, "plant/line1/#")
	return l
}

func (l *listener) received(p *paho.Publish) {
	if strings.HasSuffix(p.Topic, "/command") {
		return
	}
	m := map[string]any{}
	if err := json.Unmarshal(p.Payload, &m); err != nil || p.Retain {
		l.t.Errorf("%s: %s: %v, retain %v", p.Topic, p.Payload, err, p.Retain)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	topic := strings.TrimPrefix(p.Topic, "plant/line1/")
	l.last[topic] = m
	if topic == "S1/result" {
		l.results = append(l.results, m)
		if m["sequence"] != m["sequence_again"] ||
			uint16(m["verdict_word"].(float64))^uint16(m["verdict_complement"].(float64)) != 0xFFFF {
			l.t.Errorf("torn: %s", p.Payload)
		}
	}
}

// is waits until members of a topic's last message have values; "bits.ready" is one within another.
func (l *listener) is(topic string, want ...any) {
	l.t.Helper()
	eventually(l.t, fmt.Sprintf("%s %v", topic, want), func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := 0; i < len(want); i += 2 {
			var v any = l.last[topic]
			for part := range strings.SplitSeq(want[i].(string), ".") {
				m, _ := v.(map[string]any)
				v = m[part]
			}
			if n, ok := want[i+1].(int); ok {
				want[i+1] = float64(n)
			}
			if !reflect.DeepEqual(v, want[i+1]) {
				return false
			}
		}
		return true
	})
}

func (l *listener) write(command string) {
	l.t.Helper()
	publish(l.t, l.cli, "plant/line1/S1/command", []byte(command), false)
}

func TestPlainHandshake(t *testing.T) {
	addr := startBroker(t)
	w := startWay(t, addr)
	st, src := startStation(t, station.Config{})
	l := startListener(t, addr)
	c, err := NewPlain(Config{Brokers: []string{"mqtt://" + w.addr}, ClientID: "gateway"}, "plant/line1",
		[]*station.Station{st}, quiet)
	gateway(t, c, err)
	l.is("gateway", "online", true)
	l.is("S1/status", "state", "preoperational", "missing", "not the holder", "bits.ready", false, "bits.online", true)
	l.is("S1/result", "verdict", "REJECT", "sequence", 0)
	l.write(`{"command": 11, "enable": true}`)
	l.is("S1/status", "command", "acknowledge error", "written.enable", true)
	l.write(`{"command": 2, "recipe_slot": 1}`)
	l.is("S1/status", "bits.ready", true, "recipe", "board", "recipe_version", 7, "holder", "mqtt gateway")
	l.write(`{"command": 0, "trigger": true, "trigger_id": 41, "part_id": "good-1"}`)
	l.is("S1/result", "verdict", "PASS", "verdict_word", 0xA5C3, "verdict_complement", 0x5A3C, "trigger_id", 41,
		"sequence", 1,
		"part_id", "good-1", "reason", "pass", "values", map[string]any{"U7.mean": 1.5, "gaps.max": nil})
	l.is("S1/status", "bits.results_valid", true, "counters.pass", 1)
	l.write(`{"trigger": false, "results_ack": true}`)
	// A result that was taken back is told as such: the topic's last message is never a verdict of before.
	l.is("S1/result", "verdict", "REJECT", "sequence", 0, "trigger_id", 0)

	for i, bad := range []string{`{"trigger": true, "trigger_id": -1}`, `{"trigger": true, "triger_id": 1}`,
		`{"trigger": 1}`,
		`{"trigger": true, "trigger": false}`, `{"trigger": null}`, `[]`, `{}`, `{"enable": true} {}`, `{"enable": true`, ``} {
		l.write(bad)
		l.is("S1/status", "commands_refused", i+1)
	}
	publish(t, l.cli, "plant/line1/S1/command", []byte(`{"enable": false}`), true) // kept by the broker: refused
	l.write(`{"results_ack": false, "trigger": true, "trigger_id": 42, "part_id": "wait-2"}`)
	j := <-src.waiting
	w.cut()
	eventually(t, "connected again", func() bool { return c.Status().Connections == 2 })
	j.Answer(outcome(j))
	l.is("S1/history", "trigger_id", 42, "verdict", "REJECT", "reason", "aborted")
	l.is("gateway", "online", true)
	l.is("S1/status", "state", "preoperational", "written.enable", false, "holder", "")
	l.is("S1/result", "verdict", "REJECT", "sequence", 0)
}

func TestPlainRefuses(t *testing.T) {
	for _, prefix := range []string{"", "a//b", "/a", "a/", "a/+", "#", "$SYS/a", strings.Repeat("a", 257)} {
		if _, err := NewPlain(Config{Brokers: []string{"mqtt://b"}, ClientID: "c"}, prefix, nil, quiet); err == nil {
			t.Errorf("prefix %q: no error", prefix)
		}
	}
	for _, cfg := range []Config{
		{ClientID: "c"}, {Brokers: []string{"mqtt://b"}}, {Brokers: []string{"tcp://b"}, ClientID: "c"},
		{Brokers: []string{"mqtt://"}, ClientID: "c"}, {Brokers: []string{"mqtt://user@b"}, ClientID: "c"},
		{Brokers: []string{"mqtt://b/x"}, ClientID: "c"}, {Brokers: []string{"b:1883"}, ClientID: "c"},
	} {
		if _, err := NewPlain(cfg, "a", nil, quiet); err == nil {
			t.Errorf("%+v: no error", cfg)
		}
	}
}

func FuzzParseCommand(f *testing.F) {
	f.Add([]byte(`{"enable":true,"trigger":true,"results_ack":false,"heartbeat":1,` +
		`"trigger_id":7,"part_id":"a","command":2,"recipe_slot":1,"recipe_version":3}`))
	f.Add([]byte(`{"trigger":true,"trigger":false}`))
	f.Add([]byte(`{"trigger":null}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		change, err := parseCommand(payload)
		if err != nil {
			if change != nil {
				t.Fatal("an error and a change")
			}
			return
		}
		var o station.Outputs
		change(&o)
		// What encoding/json makes of it is the same: nothing was left out or invented.
		var w writtenJSON
		if err := json.Unmarshal(payload, &w); err != nil {
			t.Fatal(err)
		}
		want := station.Outputs{
			Enable: w.Enable, Trigger: w.Trigger, ResultsAck: w.ResultsAck, Heartbeat: w.Heartbeat, TriggerID: w.TriggerID,
			PartID: w.PartID, Command: station.Command(w.Command), Slot: w.Slot, Version: w.Version,
		}
		if o != want {
			t.Fatalf("%+v, want %+v", o, want)
		}
	})
}
