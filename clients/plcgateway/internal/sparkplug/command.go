package sparkplug

// What comes in: commands and the state of the primary host. All of it is from outside, so all of it is checked, and a
// message is taken whole or not at all.

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"google.golang.org/protobuf/proto"

	sparkplugv1 "github.com/polyscan/polyscan/proto/sparkplug/v1"
)

const (
	// maxPayload bounds a message that is read, in bytes. A command to all inputs of a station has under 1 KiB.
	maxPayload = 64 << 10
	// maxString bounds a string of a command in bytes.
	maxString = 1024
)

// A Command is what a host asks for in one message.
type Command struct {
	// Device is -1 for the node itself, or which of the devices.
	Device int
	// Rebirth asks for births. Only the node can be asked.
	Rebirth bool
	// Writes are values for writable metrics, in the message's order, each metric at most once.
	Writes []Write
}

// A Write is a value for one metric, by its index. Value has the type that the metric declares.
type Write struct {
	Metric int
	Value  Value
}

// Subscriptions are the topics of commands, to be subscribed with QoS 1. Retained messages must not be asked for: a
// command that a broker keeps is given again to whoever comes, and it was meant once.
func (n *Node) Subscriptions() []string {
	return []string{
		Namespace + "/" + n.group + "/NCMD/" + n.id,
		Namespace + "/" + n.group + "/DCMD/" + n.id + "/+",
	}
}

// Command reads an NCMD or DCMD. It returns an error, and nothing else, where any part of the message is not what the
// births declared: a trigger whose id could not be read is no trigger.
func (n *Node) Command(topic string, payload []byte) (Command, error) {
	c := Command{Device: -1}
	switch rest, ok := strings.CutPrefix(topic, Namespace+"/"+n.group+"/"); {
	case !ok:
		return Command{}, fmt.Errorf("sparkplug: topic %.200q: not a command to this node", topic)
	case rest == "NCMD/"+n.id:
	default:
		id, ok := strings.CutPrefix(rest, "DCMD/"+n.id+"/")
		for i, d := range n.devices[1:] {
			if ok && d.ID == id {
				c.Device = i
			}
		}
		if c.Device < 0 {
			return Command{}, fmt.Errorf("sparkplug: topic %.200q: no device of this node", topic)
		}
	}
	if len(payload) > maxPayload {
		return Command{}, fmt.Errorf("sparkplug: command: %d bytes, at most %d", len(payload), maxPayload)
	}
	var p sparkplugv1.Payload
	if err := proto.Unmarshal(payload, &p); err != nil {
		return Command{}, fmt.Errorf("sparkplug: command: not a payload: %w", err)
	}
	if len(p.Metrics) == 0 {
		return Command{}, errors.New("sparkplug: command: no metrics")
	}
	d := n.devices[c.Device+1]
	seen := map[int]bool{}
	for _, m := range p.Metrics {
		switch {
		case m.GetIsHistorical():
			return Command{}, fmt.Errorf("sparkplug: command: %s is historical: commands are for now", called(m))
		case c.Device < 0 && m.GetName() == Rebirth && m.Alias == nil:
			b, ok := m.Value.(*sparkplugv1.Metric_BooleanValue)
			if !ok || !b.BooleanValue {
				return Command{}, fmt.Errorf("sparkplug: command: %s must be true", Rebirth)
			}
			c.Rebirth = true
			continue
		}
		j, err := n.find(c.Device+1, m)
		if err != nil {
			return Command{}, err
		}
		if !d.Metrics[j].Writable {
			return Command{}, fmt.Errorf("sparkplug: command: %s can't be written", d.Metrics[j].Name)
		}
		if seen[j] {
			return Command{}, fmt.Errorf("sparkplug: command: %s is there twice", d.Metrics[j].Name)
		}
		seen[j] = true
		v, err := read(d.Metrics[j], m)
		if err != nil {
			return Command{}, err
		}
		c.Writes = append(c.Writes, Write{j, v})
	}
	return c, nil
}

// find returns which metric of the device is meant: by its alias, by its name, or by both where they agree.
func (n *Node) find(device int, m *sparkplugv1.Metric) (int, error) {
	byName, named := n.devices[device].byName[m.GetName()]
	if m.Name != nil && *m.Name != "" && !named {
		return 0, fmt.Errorf("sparkplug: command: no metric %s", called(m))
	}
	if m.Alias == nil {
		if !named {
			return 0, errors.New("sparkplug: command: a metric without name and alias")
		}
		return byName, nil
	}
	t, ok := n.byAlias[*m.Alias]
	if !ok || t.device != device || named && t.metric != byName {
		return 0, fmt.Errorf("sparkplug: command: no metric %s", called(m))
	}
	return t.metric, nil
}

// called is how an error names a metric from outside.
func called(m *sparkplugv1.Metric) string {
	switch {
	case m.Alias == nil:
		return fmt.Sprintf("%.100q", m.GetName())
	case m.GetName() == "":
		return fmt.Sprintf("of alias %d", *m.Alias)
	}
	return fmt.Sprintf("%.100q of alias %d", *m.Name, *m.Alias)
}

// read returns a metric's value in the declared type. Integers may come in the field for 32 bits or in that for 64:
// hosts differ. They must fit, and nothing else is converted.
func read(declared Metric, m *sparkplugv1.Metric) (Value, error) {
	var integer uint64
	whole := false
	switch v := m.Value.(type) {
	case *sparkplugv1.Metric_IntValue:
		integer, whole = uint64(v.IntValue), true
	case *sparkplugv1.Metric_LongValue:
		integer, whole = v.LongValue, true
	}
	if !m.GetIsNull() {
		switch declared.Type {
		case Boolean:
			if v, ok := m.Value.(*sparkplugv1.Metric_BooleanValue); ok {
				return v.BooleanValue, nil
			}
		case UInt16:
			if whole && integer <= math.MaxUint16 {
				return uint16(integer), nil
			}
		case UInt64:
			if whole {
				return integer, nil
			}
		case String:
			if v, ok := m.Value.(*sparkplugv1.Metric_StringValue); ok && len(v.StringValue) <= maxString {
				return v.StringValue, nil
			}
		}
	}
	return nil, fmt.Errorf("sparkplug: command: %s: not a value of data type %d", declared.Name, declared.Type)
}

// A Host is what is known of the primary host. The zero value of online is false: a host is offline until it says
// otherwise.
type Host struct {
	id     string
	online bool
	since  uint64 // timestamp of the last message that counted
}

// NewHost returns a primary host that hasn't been heard of.
func NewHost(id string) (*Host, error) {
	if err := checkID("primary host", id); err != nil {
		return nil, err
	}
	return &Host{id: id}, nil
}

// Topic is where the host tells its state, retained, to be subscribed with QoS 1.
func (h *Host) Topic() string { return Namespace + "/STATE/" + h.id }

// Online says whether the host can be told anything.
func (h *Host) Online() bool { return h.online }

// Lost forgets what was known: a new connection hears it anew.
func (h *Host) Lost() { h.online = false }

// State reads a STATE message. One that is older than the last says nothing any more and is no error. One that can't be
// read is an error, and the host counts as offline.
func (h *Host) State(topic string, payload []byte) error {
	if topic != h.Topic() {
		return fmt.Errorf("sparkplug: topic %.200q: not the state of host %s", topic, h.id)
	}
	var s struct {
		Online    *bool   `json:"online"`
		Timestamp *uint64 `json:"timestamp"`
	}
	err := errors.New("more than a state has")
	if len(payload) <= maxPayload {
		err = json.Unmarshal(payload, &s)
	}
	if err == nil && (s.Online == nil || s.Timestamp == nil) {
		err = errors.New(`it needs "online" and "timestamp"`)
	}
	if err != nil {
		h.online = false
		return fmt.Errorf("sparkplug: state of host %s: %w", h.id, err)
	}
	if *s.Timestamp < h.since {
		return nil
	}
	h.online, h.since = *s.Online, *s.Timestamp
	return nil
}
