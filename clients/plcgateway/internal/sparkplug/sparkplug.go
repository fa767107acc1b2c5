// Package sparkplug is the edge node's side of Sparkplug B 3.0 without a network: topics, payloads, births with their
// sequence numbers and aliases, commands, and the state of the primary host. Whoever owns a connection hands over what
// it received and sends what it gets. Nothing here blocks, reads a clock, or is safe for concurrent use.
//
// An edge node has devices, and a device has metrics that are declared once. Each declared metric has an alias for as
// long as the process lives: births carry name and alias, data and commands the alias alone. Data is reported by
// exception: a metric travels when its value is another than the last that was sent.
package sparkplug

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	sparkplugv1 "github.com/polyscan/polyscan/proto/sparkplug/v1"
)

// Namespace is the first part of each topic.
const Namespace = "spBv1.0"

// Rebirth is the metric of an edge node that asks it for births.
const Rebirth = "Node Control/Rebirth"

const (
	bdSeq = "bdSeq"
	// maxID bounds an id in bytes; a topic has at most 65535.
	maxID = 128
)

// A Type is a Sparkplug data type by its number. Those that the gateway has no use for are missing, and UInt32 is on
// purpose: the specification puts it into one field of the payload and the reference implementation into another.
type Type uint32

const (
	Int64   Type = 4
	UInt16  Type = 6
	UInt64  Type = 8
	Float   Type = 9
	Boolean Type = 11
	String  Type = 12
)

// A Metric declares one value of a device.
type Metric struct {
	Name string
	Type Type
	// Writable metrics take commands.
	Writable bool
	// Group is 0, or the metric travels whenever one of the same group does, so that a message has all of them.
	Group int
}

// A Value is one of bool, uint16, uint64, float32 and string, as its metric's type has it, or nil for none.
type Value any

// A Device is a name and what it reports. An edge node's own metrics are those of the device without an ID.
type Device struct {
	ID      string
	Metrics []Metric
}

// A Message is ready to be published, with QoS 0 and not retained.
type Message struct {
	Topic   string
	Payload []byte
}

// A Node is an edge node.
type Node struct {
	group, id string
	devices   []*device
	byAlias   map[uint64]target
	bdSeq     uint8
	seq       uint8
	connected bool // Will was called: bdSeq is that of a connection
	born      bool // Birth was called since
}

type device struct {
	Device
	first  uint64 // alias of the first metric
	byName map[string]int
	sent   []Value
}

type target struct{ device, metric int }

// NewNode declares an edge node and its devices. own are metrics of the node itself; bdSeq and Node Control/Rebirth are
// added to them.
func NewNode(group, id string, own []Metric, devices []Device) (*Node, error) {
	n := &Node{group: group, id: id, byAlias: map[uint64]target{}}
	if err := checkID("group", group); err != nil {
		return nil, err
	}
	if err := checkID("edge node", id); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	alias := uint64(1) // 0 would be what an implementation without optional fields reads where there is no alias
	for i, d := range append([]Device{{Metrics: own}}, devices...) {
		if i > 0 {
			if err := checkID("device", d.ID); err != nil {
				return nil, err
			}
		}
		lower := strings.ToLower(d.ID)
		if seen[lower] {
			return nil, fmt.Errorf("sparkplug: device %q: another has the same id, but for capital letters", d.ID)
		}
		seen[lower] = true
		dev := &device{Device: d, first: alias, byName: map[string]int{}}
		for j, m := range d.Metrics {
			if m.Name == "" || m.Name == bdSeq || m.Name == Rebirth || !utf8.ValidString(m.Name) {
				return nil, fmt.Errorf("sparkplug: device %q: metric %q: not a name of its own", d.ID, m.Name)
			}
			if _, ok := dev.byName[m.Name]; ok {
				return nil, fmt.Errorf("sparkplug: device %q: two metrics are called %q", d.ID, m.Name)
			}
			dev.byName[m.Name] = j
			n.byAlias[alias] = target{i, j}
			alias++
		}
		n.devices = append(n.devices, dev)
	}
	return n, nil
}

// checkID refuses what can't be a part of a topic.
func checkID(what, id string) error {
	switch {
	case id == "" || len(id) > maxID:
		return fmt.Errorf("sparkplug: %s %q: an id has 1 to %d bytes", what, id, maxID)
	case !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl):
		return fmt.Errorf("sparkplug: %s %q: an id is UTF-8 without control characters", what, id)
	case strings.ContainsAny(id, "+/#"):
		return fmt.Errorf("sparkplug: %s %q: an id has none of + / #", what, id)
	}
	return nil
}

// topic of a message about the i-th device; 0 is the node.
func (n *Node) topic(kind string, i int) string {
	t := Namespace + "/" + n.group + "/N" + kind + "/" + n.id
	if i > 0 {
		t = Namespace + "/" + n.group + "/D" + kind + "/" + n.id + "/" + n.devices[i].ID
	}
	return t
}

// Will begins a connection: it returns the NDEATH that the broker publishes when the connection ends, which is the will
// of the CONNECT packet with QoS 1, not retained. Each call takes the next bdSeq. Nothing but births may follow.
func (n *Node) Will() Message {
	if n.connected {
		n.bdSeq++
	}
	n.connected, n.born = true, false
	// A will has no time: it is made long before it is sent.
	return Message{n.topic("DEATH", 0), encode(&sparkplugv1.Payload{Metrics: []*sparkplugv1.Metric{n.bdSeqMetric(nil)}})}
}

func (n *Node) bdSeqMetric(at *uint64) *sparkplugv1.Metric {
	return &sparkplugv1.Metric{
		Name: proto.String(bdSeq), Timestamp: at, Datatype: proto.Uint32(uint32(Int64)),
		Value: &sparkplugv1.Metric_LongValue{LongValue: uint64(n.bdSeq)},
	}
}

// Born says whether data may be sent.
func (n *Node) Born() bool { return n.born }

// Birth returns the births of the node and its devices: NBIRTH, then the DBIRTHs. values has those of the node at 0 and
// those of the i-th device at i+1, in the order of their declaration. A value of another type than declared is a
// mistake of the caller's, and panics.
func (n *Node) Birth(at time.Time, values [][]Value) []Message {
	n.seq, n.born = 0, true
	now := millis(at)
	ms := []*sparkplugv1.Metric{n.bdSeqMetric(&now), {
		Name: proto.String(Rebirth), Timestamp: &now, Datatype: proto.Uint32(uint32(Boolean)),
		Value: &sparkplugv1.Metric_BooleanValue{},
	}}
	var out []Message
	for i, d := range n.devices {
		d.sent = append(d.sent[:0], values[i]...)
		for j, m := range d.Metrics {
			wire := d.metric(j, values[i][j], &now)
			wire.Name = proto.String(m.Name)
			ms = append(ms, wire)
		}
		out = append(out, n.message("BIRTH", i, now, ms))
		ms = nil
	}
	return out
}

// Data returns what has changed of a device since its birth or the last data, with its groups, and false where nothing
// has. Device 0 is the node, i+1 the i-th device. It must not be called before Birth.
func (n *Node) Data(at time.Time, i int, values []Value) (Message, bool) {
	now := millis(at)
	d := n.devices[i]
	changed := map[int]bool{} // groups
	for j, m := range d.Metrics {
		if m.Group != 0 && !same(values[j], d.sent[j]) {
			changed[m.Group] = true
		}
	}
	var ms []*sparkplugv1.Metric
	for j, m := range d.Metrics {
		if changed[m.Group] || !same(values[j], d.sent[j]) {
			ms = append(ms, d.metric(j, values[j], &now))
		}
	}
	if len(ms) == 0 {
		return Message{}, false
	}
	copy(d.sent, values)
	return n.message("DATA", i, now, ms), true
}

// History returns data of a device that was true at taken and is not now: a receiver stores it, and doesn't act on it.
// Values that are nil are left out.
func (n *Node) History(at, taken time.Time, i int, values []Value) Message {
	then := millis(taken)
	var ms []*sparkplugv1.Metric
	for j, v := range values {
		if v == nil {
			continue
		}
		wire := n.devices[i].metric(j, v, &then)
		wire.IsHistorical = proto.Bool(true)
		ms = append(ms, wire)
	}
	return n.message("DATA", i, millis(at), ms)
}

// message takes the next sequence number.
func (n *Node) message(kind string, i int, now uint64, ms []*sparkplugv1.Metric) Message {
	if !n.born {
		panic("sparkplug: " + kind + " before the birth of the node")
	}
	p := &sparkplugv1.Payload{Timestamp: &now, Metrics: ms, Seq: proto.Uint64(uint64(n.seq))}
	n.seq++ // wraps to 0 behind 255
	return Message{n.topic(kind, i), encode(p)}
}

// metric is the j-th one of d without its name. Its data type is told in data as well as in births: the specification
// advises against the two bytes, but readers exist that find no value without them, such as the reference
// implementation for Node.js.
func (d *device) metric(j int, v Value, at *uint64) *sparkplugv1.Metric {
	declared := d.Metrics[j]
	m := &sparkplugv1.Metric{
		Alias: proto.Uint64(d.first + uint64(j)), Timestamp: at, Datatype: proto.Uint32(uint32(declared.Type)),
	}
	ok := false
	switch v := v.(type) {
	case nil:
		m.IsNull, ok = proto.Bool(true), true
	case bool:
		m.Value, ok = &sparkplugv1.Metric_BooleanValue{BooleanValue: v}, declared.Type == Boolean
	case uint16:
		m.Value, ok = &sparkplugv1.Metric_IntValue{IntValue: uint32(v)}, declared.Type == UInt16
	case uint64:
		m.Value, ok = &sparkplugv1.Metric_LongValue{LongValue: v}, declared.Type == UInt64
	case float32:
		m.Value, ok = &sparkplugv1.Metric_FloatValue{FloatValue: v}, declared.Type == Float
	case string:
		m.Value, ok = &sparkplugv1.Metric_StringValue{StringValue: strings.ToValidUTF8(v, "\uFFFD")}, declared.Type == String
	}
	if !ok {
		panic(fmt.Sprintf("sparkplug: %s: a %T for type %d", declared.Name, v, declared.Type))
	}
	return m
}

// same compares floats by their bits, so that NaN is not news for ever.
func same(a, b Value) bool {
	x, ok := a.(float32)
	y, too := b.(float32)
	if ok && too {
		return math.Float32bits(x) == math.Float32bits(y)
	}
	return a == b
}

func millis(t time.Time) uint64 { return uint64(max(0, t.UnixMilli())) }

// encode can't fail: strings are valid UTF-8.
func encode(p *sparkplugv1.Payload) []byte {
	b, err := proto.Marshal(p)
	if err != nil {
		panic(err)
	}
	return b
}
