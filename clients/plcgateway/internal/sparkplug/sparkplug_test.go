package sparkplug

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	sparkplugv1 "github.com/polyscan/polyscan/proto/sparkplug/v1"
)

var start = time.UnixMilli(1_700_000_000_123)

func testNode(t testing.TB) *Node {
	t.Helper()
	n, err := NewNode("line 1", "gate", []Metric{{Name: "Version", Type: String}}, []Device{
		{ID: "S1", Metrics: []Metric{
			{Name: "Trigger", Type: Boolean, Writable: true},
			{Name: "Trigger Id", Type: UInt64, Writable: true},
			{Name: "Heartbeat", Type: UInt16, Writable: true},
			{Name: "Part", Type: String, Writable: true},
			{Name: "Before", Type: UInt64, Group: 1},
			{Name: "Verdict", Type: UInt16, Group: 1},
			{Name: "Mean", Type: Float, Group: 1},
			{Name: "After", Type: UInt64, Group: 1},
		}},
		{ID: "S2", Metrics: []Metric{{Name: "Trigger", Type: Boolean, Writable: true}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func testValues() [][]Value {
	return [][]Value{
		{"v1"},
		{false, uint64(7), uint16(9), "part", uint64(3), uint16(0xA5C3), float32(1.5), uint64(3)},
		{true},
	}
}

func decode(t testing.TB, m Message) *sparkplugv1.Payload {
	t.Helper()
	var p sparkplugv1.Payload
	if err := proto.Unmarshal(m.Payload, &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

func names(p *sparkplugv1.Payload) string {
	var out []string
	for _, m := range p.Metrics {
		out = append(out, fmt.Sprintf("%s/%d", m.GetName(), m.GetAlias()))
	}
	return strings.Join(out, " ")
}

func TestBirths(t *testing.T) {
	n := testNode(t)
	will := n.Will()
	if will.Topic != "spBv1.0/line 1/NDEATH/gate" {
		t.Errorf("will on %q", will.Topic)
	}
	p := decode(t, will)
	if p.Seq != nil || p.Timestamp != nil || names(p) != "bdSeq/0" || p.Metrics[0].GetLongValue() != 0 ||
		p.Metrics[0].GetDatatype() != uint32(Int64) {
		t.Errorf("will: %v", p)
	}

	births := n.Birth(start, testValues())
	topics := []string{"spBv1.0/line 1/NBIRTH/gate", "spBv1.0/line 1/DBIRTH/gate/S1", "spBv1.0/line 1/DBIRTH/gate/S2"}
	lists := []string{
		"bdSeq/0 Node Control/Rebirth/0 Version/1",
		"Trigger/2 Trigger Id/3 Heartbeat/4 Part/5 Before/6 Verdict/7 Mean/8 After/9",
		"Trigger/10",
	}
	if len(births) != 3 {
		t.Fatalf("%d births", len(births))
	}
	for i, b := range births {
		p := decode(t, b)
		if b.Topic != topics[i] || names(p) != lists[i] || p.GetSeq() != uint64(i) || p.Seq == nil ||
			p.GetTimestamp() != 1_700_000_000_123 {
			t.Errorf("birth %d on %q: %v", i, b.Topic, p)
		}
		for _, m := range p.Metrics {
			if m.Datatype == nil || m.Timestamp == nil || m.Value == nil || m.IsNull != nil {
				t.Errorf("birth %d: %v lacks something", i, m)
			}
		}
	}
	if m := decode(t, births[0]).Metrics[1]; m.Alias != nil || m.GetBooleanValue() {
		t.Errorf("rebirth: %v: must have no alias and be false", m)
	}

	// The same connection keeps bdSeq, the next one has another; births begin at 0 again.
	if p := decode(t, n.Birth(start, testValues())[0]); p.Metrics[0].GetLongValue() != 0 || p.GetSeq() != 0 {
		t.Errorf("rebirth: %v", p)
	}
	for want := 1; want < 300; want++ {
		p := decode(t, n.Will())
		if n.Born() || p.Metrics[0].GetLongValue() != uint64(want%256) {
			t.Fatalf("connection %d: born %v, %v", want, n.Born(), p)
		}
		if b := decode(t, n.Birth(start, testValues())[0]); b.Metrics[0].GetLongValue() != uint64(want%256) {
			t.Fatalf("connection %d: %v", want, b)
		}
	}
}

func TestDataIsWhatChanged(t *testing.T) {
	n := testNode(t)
	n.Will()
	values := testValues()
	n.Birth(start, values)
	v := values[1]
	if m, ok := n.Data(start, 1, v); ok {
		t.Errorf("nothing changed: %v", decode(t, m))
	}
	v[2] = uint16(10)
	m, ok := n.Data(start, 1, v)
	if p := decode(t, m); !ok || m.Topic != "spBv1.0/line 1/DDATA/gate/S1" || names(p) != "/4" || p.GetSeq() != 3 {
		t.Errorf("data: %v", p)
	}
	// One of a group brings the others.
	v[4] = uint64(4)
	m, _ = n.Data(start, 1, v)
	if p := decode(t, m); names(p) != "/6 /7 /8 /9" {
		t.Errorf("group: %v", p)
	}
	v[6] = float32(math.NaN())
	if _, ok := n.Data(start, 1, v); !ok {
		t.Error("NaN is not news")
	}
	if _, ok := n.Data(start, 1, v); ok {
		t.Error("NaN is news for ever")
	}
	v[6] = nil
	m, _ = n.Data(start, 1, v)
	if p := decode(t, m); !p.Metrics[2].GetIsNull() || p.Metrics[2].Value != nil {
		t.Errorf("null: %v", p)
	}
	if m, ok := n.Data(start, 0, []Value{"v2"}); !ok || m.Topic != "spBv1.0/line 1/NDATA/gate" {
		t.Errorf("the node's data: %v", m)
	}
	// What was is no news, and changes nothing of what is.
	old := make([]Value, 8)
	old[4], old[5], old[7] = uint64(2), uint16(0x3C69), uint64(2)
	m = n.History(start, start.Add(-time.Minute), 1, old)
	p := decode(t, m)
	if names(p) != "/6 /7 /9" || p.GetTimestamp() != 1_700_000_000_123 {
		t.Errorf("history: %v", p)
	}
	for _, m := range p.Metrics {
		if !m.GetIsHistorical() || m.GetTimestamp() != 1_699_999_940_123 {
			t.Errorf("history: %v", m)
		}
	}
	if m, ok := n.Data(start, 1, v); ok {
		t.Errorf("after history: %v", decode(t, m))
	}
}

func TestSequenceWraps(t *testing.T) {
	n := testNode(t)
	n.Will()
	want := uint64(len(n.Birth(start, testValues())))
	for i := range 600 {
		m, ok := n.Data(start, 2, []Value{i%2 == 1})
		if p := decode(t, m); !ok || p.GetSeq() != want%256 || p.Seq == nil {
			t.Fatalf("data %d: seq %d, want %d", i, p.GetSeq(), want%256)
		}
		want++
	}
}

func TestNodeRefuses(t *testing.T) {
	for _, c := range []struct {
		group, id string
		devices   []Device
		says      string
	}{
		{"", "n", nil, "group"},
		{"g", "a/b", nil, "edge node"},
		{"g", "n", []Device{{ID: "+"}}, "device"},
		{"g", "n", []Device{{ID: "a\x00"}}, "control"},
		{"g", "n", []Device{{ID: strings.Repeat("a", 129)}}, "128"},
		{"g", "n", []Device{{ID: "a"}, {ID: "A"}}, "same id"},
		{"g", "n", []Device{{ID: "a", Metrics: []Metric{{Name: "bdSeq"}}}}, "bdSeq"},
		{"g", "n", []Device{{ID: "a", Metrics: []Metric{{Name: "x"}, {Name: "x"}}}}, "two metrics"},
	} {
		if _, err := NewNode(c.group, c.id, nil, c.devices); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q %q %v: %v, want %q", c.group, c.id, c.devices, err, c.says)
		}
	}
	n := testNode(t)
	n.Will()
	n.Birth(start, testValues())
	defer func() {
		if recover() == nil {
			t.Error("a value of another type: no panic")
		}
	}()
	n.Data(start, 2, []Value{1})
}

func command(ms ...*sparkplugv1.Metric) []byte {
	return encode(&sparkplugv1.Payload{Timestamp: proto.Uint64(1), Metrics: ms})
}

func named(name string) *sparkplugv1.Metric { return &sparkplugv1.Metric{Name: &name} }

func aliased(alias uint64) *sparkplugv1.Metric { return &sparkplugv1.Metric{Alias: &alias} }

func boolean(m *sparkplugv1.Metric, v bool) *sparkplugv1.Metric {
	m.Value = &sparkplugv1.Metric_BooleanValue{BooleanValue: v}
	return m
}

func long(m *sparkplugv1.Metric, v uint64) *sparkplugv1.Metric {
	m.Value = &sparkplugv1.Metric_LongValue{LongValue: v}
	return m
}

func integer(m *sparkplugv1.Metric, v uint32) *sparkplugv1.Metric {
	m.Value = &sparkplugv1.Metric_IntValue{IntValue: v}
	return m
}

func text(m *sparkplugv1.Metric, v string) *sparkplugv1.Metric {
	m.Value = &sparkplugv1.Metric_StringValue{StringValue: v}
	return m
}

const (
	ncmd = "spBv1.0/line 1/NCMD/gate"
	dcmd = "spBv1.0/line 1/DCMD/gate/S1"
)

func TestCommands(t *testing.T) {
	n := testNode(t)
	for _, c := range []struct {
		topic   string
		payload []byte
		want    string // of fmt, or what the error says
		bad     bool
	}{
		{topic: ncmd, payload: command(boolean(named(Rebirth), true)), want: "{-1 true []}"},
		{topic: dcmd, payload: command(boolean(aliased(2), true), long(aliased(3), 7)), want: "{0 false [{0 true} {1 7}]}"},
		{topic: dcmd, payload: command(integer(named("Heartbeat"), 65535), text(named("Part"), "a")),
			want: "{0 false [{2 65535} {3 a}]}"},
		{topic: dcmd, payload: command(long(named("Heartbeat"), 3)), want: "{0 false [{2 3}]}"},
		{topic: dcmd, payload: command(integer(named("Trigger Id"), math.MaxUint32)), want: "{0 false [{1 4294967295}]}"},
		{topic: "spBv1.0/line 1/DCMD/gate/S2", payload: command(boolean(named("Trigger"), false)),
			want: "{1 false [{0 false}]}"},

		{topic: ncmd, payload: command(boolean(named(Rebirth), false)), want: "must be true", bad: true},
		{topic: ncmd, payload: command(boolean(named("Trigger"), true)), want: "no metric", bad: true},
		{topic: dcmd, payload: command(boolean(named(Rebirth), true)), want: "no metric", bad: true},
		{topic: dcmd, payload: nil, want: "no metrics", bad: true},
		{topic: dcmd, payload: []byte{0xFF}, want: "not a payload", bad: true},
		{topic: dcmd, payload: make([]byte, maxPayload+1), want: "65536", bad: true},
		{topic: dcmd, payload: command(boolean(&sparkplugv1.Metric{}, true)), want: "without name", bad: true},
		{topic: dcmd, payload: command(integer(aliased(7), 0xA5C3)), want: "Verdict can't be written", bad: true},
		{topic: dcmd, payload: command(boolean(aliased(10), true)), want: "of alias 10", bad: true}, // of S2
		{topic: dcmd, payload: command(boolean(aliased(1), true)), want: "of alias 1", bad: true},   // of the node
		{topic: dcmd, payload: command(boolean(&sparkplugv1.Metric{Name: proto.String("Trigger"), Alias: proto.Uint64(3)},
			true)),
			want: "of alias 3", bad: true},
		{topic: dcmd, payload: command(boolean(aliased(2), true), boolean(named("Trigger"), true)), want: "twice", bad: true},
		{topic: dcmd, payload: command(integer(named("Trigger"), 1)), want: "Trigger: not a value", bad: true},
		{topic: dcmd, payload: command(integer(named("Heartbeat"), 65536)), want: "Heartbeat: not a value", bad: true},
		{topic: dcmd, payload: command(named("Heartbeat")), want: "Heartbeat: not a value", bad: true},
		{topic: dcmd, payload: command(text(named("Part"), strings.Repeat("x", maxString+1))), want: "Part: not", bad: true},
		{topic: dcmd, payload: command(&sparkplugv1.Metric{Name: proto.String("Trigger"), IsNull: proto.Bool(true),
			Value: &sparkplugv1.Metric_BooleanValue{BooleanValue: true}}), want: "not a value", bad: true},
		{topic: dcmd, payload: command(&sparkplugv1.Metric{Name: proto.String("Trigger"), IsHistorical: proto.Bool(true),
			Value: &sparkplugv1.Metric_BooleanValue{BooleanValue: true}}), want: "historical", bad: true},
		// A good part doesn't save a bad one.
		{topic: dcmd, payload: command(boolean(named("Trigger"), true), integer(named("Trigger Ib"), 1)), want: "Ib",
			bad: true},

		{topic: "spBv1.0/line 2/DCMD/gate/S1", want: "not a command", bad: true},
		{topic: "spBv1.0/line 1/DCMD/gate/S3", want: "no device", bad: true},
		{topic: "spBv1.0/line 1/DCMD/gate/", want: "no device", bad: true},
		{topic: "spBv1.0/line 1/DDATA/gate/S1", want: "no device", bad: true},
	} {
		got, err := n.Command(c.topic, c.payload)
		switch {
		case c.bad && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s %x: error %v, want one that says %q", c.topic, c.payload, err, c.want)
		case c.bad && fmt.Sprint(got) != "{0 false []}":
			t.Errorf("%s: an error and %v", c.want, got)
		case !c.bad && (err != nil || fmt.Sprint(got) != c.want):
			t.Errorf("%s: %v, %v, want %s", c.topic, got, err, c.want)
		}
	}
}

func TestHostState(t *testing.T) {
	h, err := NewHost("scada")
	if err != nil {
		t.Fatal(err)
	}
	if h.Topic() != "spBv1.0/STATE/scada" || h.Online() {
		t.Fatalf("new: %q, online %v", h.Topic(), h.Online())
	}
	for _, c := range []struct {
		topic, payload string
		online, bad    bool
	}{
		{payload: `{"online":true,"timestamp":100}`, online: true},
		{payload: `{"online":false,"timestamp":99}`, online: true}, // the will of a connection before
		{payload: `{"online":false,"timestamp":100}`},
		{payload: `{"online":true,"timestamp":99}`},
		{payload: `{"timestamp":200,"online":true,"more":1}`, online: true},
		{payload: `ONLINE`, bad: true}, // of Sparkplug 2
		{payload: `{"online":true,"timestamp":200}`, online: true},
		{payload: `{"online":true}`, bad: true},
		{payload: `{"online":true,"timestamp":200}`, online: true},
		{payload: `{"online":"true","timestamp":201}`, bad: true},
		{payload: `{"online":true,"timestamp":200}`, online: true},
		{payload: `{"online":true,"timestamp":-1}`, bad: true},
		{payload: ``, bad: true}, // a retained message that was cleared
		{topic: "spBv1.0/STATE/other", payload: `{"online":true,"timestamp":300}`, bad: true},
	} {
		topic := c.topic
		if topic == "" {
			topic = h.Topic()
		}
		if err := h.State(topic, []byte(c.payload)); (err != nil) != c.bad || h.Online() != c.online {
			t.Errorf("%s: online %v, %v", c.payload, h.Online(), err)
		}
	}
	if err := h.State(h.Topic(), []byte(`{"online":true,"timestamp":400}`)); err != nil || !h.Online() {
		t.Errorf("online %v, %v", h.Online(), err)
	}
	h.Lost()
	if h.Online() {
		t.Error("online after the connection was lost")
	}
	if _, err := NewHost("a/b"); err == nil {
		t.Error("an id with a slash: no error")
	}
}

// A receiver that applies what it gets has what was reported, whatever was reported.
func TestReceiverHasWhatWasSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, err := NewNode("g", "n", nil, []Device{{ID: "d", Metrics: []Metric{
			{Name: "a", Type: UInt16}, {Name: "b", Type: Float, Group: 1}, {Name: "c", Type: String, Group: 1},
			{Name: "d", Type: Boolean}, {Name: "e", Type: UInt64, Group: 2},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		draw := func() []Value {
			v := []Value{
				rapid.Uint16().Draw(t, "a"), rapid.Float32().Draw(t, "b"), rapid.StringMatching(`[a-c]{0,2}`).Draw(t, "c"),
				rapid.Bool().Draw(t, "d"), rapid.Uint64Range(0, 3).Draw(t, "e"),
			}
			if rapid.IntRange(0, 3).Draw(t, "null") == 0 {
				v[rapid.IntRange(0, 4).Draw(t, "which")] = nil
			}
			return v
		}
		has := map[uint64]Value{}
		seq := -1
		apply := func(m Message) {
			var p sparkplugv1.Payload
			if err := proto.Unmarshal(m.Payload, &p); err != nil {
				t.Fatal(err)
			}
			if int(p.GetSeq()) != (seq+1)%256 {
				t.Fatalf("seq %d after %d", p.GetSeq(), seq)
			}
			seq = int(p.GetSeq())
			for _, m := range p.Metrics {
				if m.GetIsHistorical() {
					continue
				}
				switch v := m.Value.(type) {
				case nil:
					has[m.GetAlias()] = nil
				case *sparkplugv1.Metric_BooleanValue:
					has[m.GetAlias()] = v.BooleanValue
				case *sparkplugv1.Metric_IntValue:
					has[m.GetAlias()] = uint16(v.IntValue)
				case *sparkplugv1.Metric_LongValue:
					has[m.GetAlias()] = v.LongValue
				case *sparkplugv1.Metric_FloatValue:
					has[m.GetAlias()] = v.FloatValue
				case *sparkplugv1.Metric_StringValue:
					has[m.GetAlias()] = v.StringValue
				}
			}
		}
		n.Will()
		v := draw()
		for _, m := range n.Birth(start, [][]Value{nil, v}) {
			apply(m)
		}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				seq = -1
				for _, m := range n.Birth(start, [][]Value{nil, v}) {
					apply(m)
				}
			case 1:
				apply(n.History(start, start, 1, draw()))
			default:
				v = draw()
				if m, ok := n.Data(start, 1, v); ok {
					apply(m)
				}
			}
			for j := range v {
				if !same(has[uint64(j+1)], v[j]) {
					t.Fatalf("metric %d: the receiver has %v, want %v", j, has[uint64(j+1)], v[j])
				}
			}
		}
	})
}

func FuzzCommand(f *testing.F) {
	f.Add(ncmd, command(boolean(named(Rebirth), true)))
	f.Add(dcmd, command(boolean(aliased(2), true), long(aliased(3), 7), integer(aliased(4), 5), text(aliased(5), "p")))
	f.Add(dcmd, command(&sparkplugv1.Metric{Name: proto.String("Part"), Alias: proto.Uint64(5), IsNull: proto.Bool(true)}))
	f.Add(dcmd, []byte{0x12, 0x00})
	f.Fuzz(func(t *testing.T, topic string, payload []byte) {
		n := testNode(t)
		c, err := n.Command(topic, payload)
		if err != nil {
			if c.Writes != nil || c.Rebirth {
				t.Fatalf("error %v and %v", err, c)
			}
			return
		}
		if !strings.HasPrefix(topic, "spBv1.0/line 1/") || c.Device < 0 && topic != ncmd || c.Rebirth && c.Device >= 0 {
			t.Fatalf("topic %q: %v", topic, c)
		}
		if !c.Rebirth && len(c.Writes) == 0 {
			t.Fatal("a command for nothing")
		}
		seen := map[int]bool{}
		for _, w := range c.Writes {
			m := n.devices[c.Device+1].Metrics[w.Metric]
			_ = n.devices[c.Device+1].metric(w.Metric, w.Value, nil) // panics where the type is another
			if !m.Writable || seen[w.Metric] || w.Value == nil {
				t.Fatalf("written: %s", m.Name)
			}
			seen[w.Metric] = true
		}
	})
}

func FuzzState(f *testing.F) {
	f.Add([]byte(`{"online":true,"timestamp":100}`))
	f.Add([]byte(`{"online":false,"timestamp":18446744073709551615}`))
	f.Add([]byte(`ONLINE`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		h, err := NewHost("h")
		if err != nil {
			t.Fatal(err)
		}
		if err := h.State(h.Topic(), payload); err != nil && h.Online() {
			t.Fatal("online by a message that can't be read")
		}
	})
}
