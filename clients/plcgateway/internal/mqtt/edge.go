package mqtt

// Sparkplug B: an edge node, with a device for each station.

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/sparkplug"
	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

// Sparkplug says who an edge node is.
type Sparkplug struct {
	Group, Node string
	// PrimaryHost is the host application that has to be online; empty means that none has to be.
	PrimaryHost string
}

var errHostOffline = errors.New("the primary host is offline")

// edge speaks Sparkplug for stations.
type edge struct {
	node     *sparkplug.Node
	host     *sparkplug.Host // nil: none
	version  string
	stations []*bound
	log      *slog.Logger

	sending []uint32 // sequence that each station's data show
	refused uint64   // commands
	refusal string   // why the last one was
}

// The metrics of a station. Their order is that of receivers which apply one after the other: a result stands whole,
// between its two sequence numbers, before Results Valid says so.
const (
	controlEnable = iota
	controlTrigger
	controlResultsAck
	controlHeartbeat
	controlTriggerID
	controlPartID
	controlCommand
	controlSlot
	controlVersion
	controls
)

const resultGroup = 1

func metrics(cfg station.Config) (ms []sparkplug.Metric, result int) {
	in := func(name string, t sparkplug.Type) {
		ms = append(ms, sparkplug.Metric{Name: "Control/" + name, Type: t, Writable: true})
	}
	in("Enable", sparkplug.Boolean)
	in("Trigger", sparkplug.Boolean)
	in("Results Ack", sparkplug.Boolean)
	in("Heartbeat", sparkplug.UInt16)
	in("Trigger Id", sparkplug.UInt64)
	in("Part Id", sparkplug.String)
	in("Command", sparkplug.UInt16)
	in("Recipe Slot", sparkplug.UInt16)
	in("Recipe Version", sparkplug.UInt64)
	result = len(ms)
	group := resultGroup
	out := func(name string, t sparkplug.Type) {
		ms = append(ms, sparkplug.Metric{Name: name, Type: t, Group: group})
	}
	out("Result/Sequence Before", sparkplug.UInt64)
	out("Result/Trigger Id", sparkplug.UInt64)
	out("Result/Verdict", sparkplug.UInt16)
	out("Result/Verdict Complement", sparkplug.UInt16)
	out("Result/Reason", sparkplug.UInt16)
	out("Result/Reason Name", sparkplug.String)
	out("Result/Part Id", sparkplug.String)
	out("Result/Recipe", sparkplug.String)
	out("Result/Recipe Version", sparkplug.UInt64)
	out("Result/Failed Regions", sparkplug.UInt64)
	out("Result/First Failed", sparkplug.UInt64)
	out("Result/Latency us", sparkplug.UInt64)
	for _, v := range cfg.Values {
		out("Result/Values/"+v, sparkplug.Float)
	}
	out("Result/Sequence After", sparkplug.UInt64)
	group = 0
	out("Status/State", sparkplug.UInt16)
	out("Status/State Name", sparkplug.String)
	for _, name := range station.BitNames {
		out("Status/"+title(name), sparkplug.Boolean)
	}
	out("Status/Heartbeat", sparkplug.UInt16)
	out("Status/Command", sparkplug.UInt16)
	out("Status/Error", sparkplug.UInt16)
	out("Status/Error Name", sparkplug.String)
	out("Status/Missing", sparkplug.UInt16)
	out("Status/Missing Name", sparkplug.String)
	out("Status/Trigger Id", sparkplug.UInt64)
	out("Status/Recipe", sparkplug.String)
	out("Status/Recipe Version", sparkplug.UInt64)
	out("Status/Waiting", sparkplug.UInt16)
	out("Status/Running", sparkplug.UInt16)
	out("Status/Holder", sparkplug.String)
	for _, c := range counters(station.Counters{}) {
		out("Counters/"+c.name, sparkplug.UInt64)
	}
	return ms, result
}

// title makes "results_valid" "Results Valid".
func title(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, " ")
}

type counter struct {
	name  string
	value uint32
}

func counters(c station.Counters) []counter {
	return []counter{
		{"Accepted", c.Accepted}, {"Pass", c.Pass}, {"Fail", c.Fail}, {"Reject", c.Reject}, {"Missed", c.Missed},
		{"Overruns", c.Overruns}, {"Repeated", c.Repeated}, {"Dropped", c.Dropped},
	}
}

// values of a station, as metrics has them.
func values(cfg station.Config, s station.Snapshot, o station.Outputs) []sparkplug.Value {
	v := []sparkplug.Value{
		o.Enable, o.Trigger, o.ResultsAck, o.Heartbeat, uint64(o.TriggerID), o.PartID, uint16(o.Command), o.Slot, o.Version,
	}
	v = append(v, resultValues(cfg, s.Result)...)
	v = append(v, uint16(s.State), s.State.String())
	for i := range station.BitNames {
		v = append(v, s.Bits&(1<<i) != 0)
	}
	v = append(v, s.Heartbeat, uint16(s.Command), uint16(s.Error), s.Error.String(), uint16(s.Missing), s.Missing.String(),
		uint64(s.AcceptedID), s.Recipe.Name, s.Recipe.Version, uint16(s.Waiting), uint16(s.Running), s.Holder)
	for _, c := range counters(s.Counters) {
		v = append(v, uint64(c.value))
	}
	return v
}

func resultValues(cfg station.Config, a station.Answer) []sparkplug.Value {
	v := []sparkplug.Value{
		uint64(a.Sequence), uint64(a.TriggerID), uint16(a.Verdict), a.Complement(), uint16(a.Reason), a.Reason.String(),
		a.PartID, a.Recipe.Name, a.Recipe.Version, uint64(max(0, a.FailedRegions)), uint64(max(0, a.FirstFailed)),
		uint64(max(0, a.Latency.Microseconds())),
	}
	for i := range cfg.Values {
		if math.IsNaN(float64(a.Values[i])) {
			v = append(v, nil)
		} else {
			v = append(v, a.Values[i])
		}
	}
	return append(v, uint64(a.Sequence))
}

func newEdge(s Sparkplug, version string, stations []*bound, log *slog.Logger) (*edge, error) {
	e := &edge{version: version, stations: stations, log: log, sending: make([]uint32, len(stations))}
	var devices []sparkplug.Device
	for _, b := range stations {
		ms, _ := metrics(b.cfg)
		devices = append(devices, sparkplug.Device{ID: b.cfg.Name, Metrics: ms})
	}
	var err error
	e.node, err = sparkplug.NewNode(s.Group, s.Node, []sparkplug.Metric{
		{Name: "Properties/Version", Type: sparkplug.String},
		{Name: "Commands Refused", Type: sparkplug.UInt64},
		{Name: "Last Refusal", Type: sparkplug.String},
		{Name: "History Lost", Type: sparkplug.UInt64},
	}, devices)
	if err != nil {
		return nil, err
	}
	if s.PrimaryHost != "" {
		if e.host, err = sparkplug.NewHost(s.PrimaryHost); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (e *edge) connecting() message {
	if e.host != nil {
		e.host.Lost()
	}
	return message(e.node.Will())
}

func (e *edge) subscriptions() []paho.SubscribeOptions {
	var out []paho.SubscribeOptions
	for _, t := range e.node.Subscriptions() {
		out = append(out, commandTopic(t))
	}
	if e.host != nil {
		out = append(out, paho.SubscribeOptions{Topic: e.host.Topic(), QoS: 1, RetainHandling: keepRetained})
	}
	return out
}

// commandTopic subscribes without what the broker keeps, and so that what is published to be kept can be told.
func commandTopic(topic string) paho.SubscribeOptions {
	return paho.SubscribeOptions{Topic: topic, QoS: 1, RetainHandling: noRetained, RetainAsPublished: true}
}

func (e *edge) connected(now time.Time) []message {
	if e.host != nil && !e.host.Online() {
		e.log.Info("sparkplug waits for its primary host", "topic", e.host.Topic())
		return nil
	}
	return e.births(now)
}

func (e *edge) births(now time.Time) []message {
	all := [][]sparkplug.Value{e.own()}
	for i, b := range e.stations {
		all = append(all, e.station(i, b))
	}
	return messages(e.node.Birth(now, all))
}

func messages(ms []sparkplug.Message) []message {
	out := make([]message, len(ms))
	for i, m := range ms {
		out[i] = message(m)
	}
	return out
}

// own are the values of the node.
func (e *edge) own() []sparkplug.Value {
	var lost uint64
	for _, b := range e.stations {
		b.mu.Lock()
		lost += b.lost
		b.mu.Unlock()
	}
	return []sparkplug.Value{e.version, e.refused, e.refusal, lost}
}

func (e *edge) station(i int, b *bound) []sparkplug.Value {
	s := b.st.Snapshot()
	e.sending[i] = s.Result.Sequence
	return values(b.cfg, s, b.written(s.Holder))
}

func (e *edge) published() {
	for i, b := range e.stations {
		b.published(e.sending[i])
		e.sending[i] = 0
	}
}

// look publishes what is new. What was goes first, so that the present is what is heard last.
func (e *edge) look(now time.Time) []message {
	if !e.node.Born() {
		return nil
	}
	var out []message
	for i, b := range e.stations {
		for _, a := range b.history() {
			taken := a.Steps.Answered
			_, result := metrics(b.cfg)
			v := append(make([]sparkplug.Value, result), resultValues(b.cfg, a)...)
			out = append(out, message(e.node.History(now, taken, i+1, v)))
		}
		if m, ok := e.node.Data(now, i+1, e.station(i, b)); ok {
			out = append(out, message(m))
		}
	}
	if m, ok := e.node.Data(now, 0, e.own()); ok {
		out = append(out, message(m))
	}
	return out
}

func (e *edge) received(now time.Time, topic string, payload []byte) ([]message, error) {
	if e.host != nil && topic == e.host.Topic() {
		if err := e.host.State(topic, payload); err != nil {
			e.log.Warn("sparkplug: the state of the primary host can't be read", "topic", topic, "error", err)
		}
		switch {
		case e.host.Online() && !e.node.Born():
			return e.births(now), nil
		case !e.host.Online() && e.node.Born():
			return nil, errHostOffline
		}
		return nil, nil
	}
	c, err := e.node.Command(topic, payload)
	switch {
	case err != nil:
	case !e.node.Born():
		err = errHostOffline
	case c.Device < 0:
		return e.births(now), nil
	default:
		err = e.write(e.stations[c.Device], c.Writes)
	}
	if err != nil {
		e.refused++
		e.refusal = strings.ToValidUTF8(err.Error(), "?")
		e.log.Warn("command refused", "topic", topic, "error", err)
	}
	return e.look(now), nil
}

// write applies a command whole.
func (e *edge) write(b *bound, writes []sparkplug.Write) error {
	for _, w := range writes {
		if id, ok := w.Value.(uint64); ok && w.Metric == controlTriggerID && id > math.MaxUint32 {
			return fmt.Errorf("Control/Trigger Id is %d, at most %d", id, uint32(math.MaxUint32))
		}
	}
	return b.write(func(o *station.Outputs) {
		for _, w := range writes {
			switch w.Metric {
			case controlEnable:
				o.Enable = w.Value.(bool)
			case controlTrigger:
				o.Trigger = w.Value.(bool)
			case controlResultsAck:
				o.ResultsAck = w.Value.(bool)
			case controlHeartbeat:
				o.Heartbeat = w.Value.(uint16)
			case controlTriggerID:
				o.TriggerID = uint32(w.Value.(uint64))
			case controlPartID:
				o.PartID = w.Value.(string)
			case controlCommand:
				o.Command = station.Command(w.Value.(uint16))
			case controlSlot:
				o.Slot = w.Value.(uint16)
			case controlVersion:
				o.Version = w.Value.(uint64)
			}
		}
	})
}

func (e *edge) lost() {
	for i, b := range e.stations {
		b.release()
		e.sending[i] = 0
	}
}
