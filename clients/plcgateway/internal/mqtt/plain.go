package mqtt

// Plain JSON: three topics for each station, for those who have no Sparkplug.
//
//	PREFIX/STATION/command   in: what changes of the image, such as {"trigger": true, "trigger_id": 7}
//	PREFIX/STATION/result    out: the presented answer, and that none is presented any more
//	PREFIX/STATION/status    out: state, bits, counters; at least ten times a second, as the heartbeat moves
//	PREFIX/STATION/history   out: answers that nobody could be shown in time
//	PREFIX/gateway           out: {"online": true}; the broker says false when the connection ends

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eclipse/paho.golang/paho"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

// maxCommand bounds a command in bytes.
const maxCommand = 4096

// plain speaks JSON for stations.
type plain struct {
	prefix   string
	stations []*plainStation
	log      *slog.Logger
	refused  uint64
	refusal  string
}

type plainStation struct {
	*bound
	result  []byte // as it was published last
	status  []byte
	sending uint32
}

// NewPlain makes a client that speaks JSON under a prefix of topics. Nothing is done before Run.
func NewPlain(cfg Config, prefix string, stations []*station.Station, log *slog.Logger) (*Client, error) {
	if err := checkPrefix(prefix); err != nil {
		return nil, err
	}
	c := newClient(cfg, stations)
	p := &plain{prefix: prefix, log: log}
	for _, b := range c.stations {
		if strings.ContainsAny(b.cfg.Name, "+#/") {
			return nil, fmt.Errorf("mqtt: station %q: a name in a topic has none of + # /", b.cfg.Name)
		}
		p.stations = append(p.stations, &plainStation{bound: b})
	}
	var err error
	c.link, err = newLink(cfg, p, c.wake, log)
	return c, err
}

func checkPrefix(prefix string) error {
	for part := range strings.SplitSeq(prefix, "/") {
		if part == "" || strings.ContainsAny(part, "+#\x00") || !utf8.ValidString(part) || strings.HasPrefix(prefix, "$") {
			return fmt.Errorf("mqtt: prefix %q: want parts with a slash between them, without + and #", prefix)
		}
	}
	if len(prefix) > 256 {
		return fmt.Errorf("mqtt: prefix: %d bytes, at most 256", len(prefix))
	}
	return nil
}

func (p *plain) topic(s *plainStation, what string) string {
	return p.prefix + "/" + s.cfg.Name + "/" + what
}

func (p *plain) connecting() message {
	return message{p.prefix + "/gateway", []byte(`{"online":false}`)}
}

func (p *plain) subscriptions() []paho.SubscribeOptions {
	var out []paho.SubscribeOptions
	for _, s := range p.stations {
		out = append(out, commandTopic(p.topic(s, "command")))
	}
	return out
}

func (p *plain) connected(now time.Time) []message {
	for _, s := range p.stations {
		s.result, s.status = nil, nil
	}
	return append([]message{{p.prefix + "/gateway", []byte(`{"online":true}`)}}, p.look(now)...)
}

// resultJSON is an answer. Sequence stands at its begin and at its end.
type resultJSON struct {
	Sequence      uint32              `json:"sequence"`
	TriggerID     uint32              `json:"trigger_id"`
	Verdict       string              `json:"verdict"`
	Word          uint16              `json:"verdict_word"`
	Complement    uint16              `json:"verdict_complement"`
	Reason        string              `json:"reason"`
	PartID        string              `json:"part_id"`
	Recipe        string              `json:"recipe"`
	Version       uint64              `json:"recipe_version"`
	FailedRegions int                 `json:"failed_regions"`
	FirstFailed   int                 `json:"first_failed"`
	LatencyMicros int64               `json:"latency_us"`
	Values        map[string]*float32 `json:"values"`
	Answered      *time.Time          `json:"answered,omitempty"`
	SequenceAgain uint32              `json:"sequence_again"`
}

func resultOf(cfg station.Config, a station.Answer) []byte {
	r := resultJSON{
		Sequence: a.Sequence, TriggerID: a.TriggerID, Verdict: a.Verdict.String(), Word: uint16(a.Verdict),
		Complement: a.Complement(), Reason: a.Reason.String(), PartID: a.PartID, Recipe: a.Recipe.Name,
		Version: a.Recipe.Version, FailedRegions: a.FailedRegions, FirstFailed: a.FirstFailed,
		LatencyMicros: a.Latency.Microseconds(), Values: map[string]*float32{}, SequenceAgain: a.Sequence,
	}
	if !a.Steps.Answered.IsZero() {
		t := a.Steps.Answered.UTC()
		r.Answered = &t
	}
	for i, name := range cfg.Values {
		r.Values[name] = nil
		if v := a.Values[i]; !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) { // JSON has neither
			r.Values[name] = &v
		}
	}
	return mustJSON(r)
}

type statusJSON struct {
	State     string            `json:"state"`
	Bits      map[string]bool   `json:"bits"`
	Heartbeat uint16            `json:"heartbeat"`
	Command   string            `json:"command"`
	Error     string            `json:"error"`
	Missing   string            `json:"missing"`
	TriggerID uint32            `json:"trigger_id"`
	Recipe    string            `json:"recipe"`
	Version   uint64            `json:"recipe_version"`
	Waiting   int               `json:"waiting"`
	Running   int               `json:"running"`
	Holder    string            `json:"holder"`
	Counters  map[string]uint32 `json:"counters"`
	Written   writtenJSON       `json:"written"`
	Refused   uint64            `json:"commands_refused"`
	Refusal   string            `json:"last_refusal"`
	Lost      uint64            `json:"history_lost"`
}

// writtenJSON is the image as it holds; its members are those of a command.
type writtenJSON struct {
	Enable     bool   `json:"enable"`
	Trigger    bool   `json:"trigger"`
	ResultsAck bool   `json:"results_ack"`
	Heartbeat  uint16 `json:"heartbeat"`
	TriggerID  uint32 `json:"trigger_id"`
	PartID     string `json:"part_id"`
	Command    uint16 `json:"command"`
	Slot       uint16 `json:"recipe_slot"`
	Version    uint64 `json:"recipe_version"`
}

func (p *plain) statusOf(s *plainStation, snap station.Snapshot) []byte {
	o := s.written(snap.Holder)
	st := statusJSON{
		State: snap.State.String(), Bits: map[string]bool{}, Heartbeat: snap.Heartbeat, Command: snap.Command.String(),
		Error: snap.Error.String(), Missing: snap.Missing.String(), TriggerID: snap.AcceptedID, Recipe: snap.Recipe.Name,
		Version: snap.Recipe.Version, Waiting: snap.Waiting, Running: snap.Running, Holder: snap.Holder,
		Counters: map[string]uint32{}, Refused: p.refused, Refusal: p.refusal,
		Written: writtenJSON{
			o.Enable, o.Trigger, o.ResultsAck, o.Heartbeat, o.TriggerID, o.PartID, uint16(o.Command), o.Slot, o.Version,
		},
	}
	s.mu.Lock()
	st.Lost = s.lost
	s.mu.Unlock()
	for i, name := range station.BitNames {
		st.Bits[name] = snap.Bits&(1<<i) != 0
	}
	for _, c := range counters(snap.Counters) {
		st.Counters[strings.ToLower(c.name)] = c.value
	}
	return mustJSON(st)
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // there is no value of these types that JSON lacks
	}
	return b
}

func (p *plain) look(time.Time) []message {
	var out []message
	for _, s := range p.stations {
		for _, a := range s.history() {
			out = append(out, message{p.topic(s, "history"), resultOf(s.cfg, a)})
		}
		snap := s.st.Snapshot()
		s.sending = snap.Result.Sequence
		// The result is published before the status that says it is valid.
		if b := resultOf(s.cfg, snap.Result); !bytes.Equal(b, s.result) {
			s.result = b
			out = append(out, message{p.topic(s, "result"), b})
		}
		if b := p.statusOf(s, snap); !bytes.Equal(b, s.status) {
			s.status = b
			out = append(out, message{p.topic(s, "status"), b})
		}
	}
	return out
}

func (p *plain) published() {
	for _, s := range p.stations {
		s.bound.published(s.sending)
		s.sending = 0
	}
}

func (p *plain) received(now time.Time, topic string, payload []byte) ([]message, error) {
	err := fmt.Errorf("mqtt: topic %.200q: no station's command", topic)
	for _, s := range p.stations {
		if topic == p.topic(s, "command") {
			var change func(*station.Outputs)
			if change, err = parseCommand(payload); err == nil {
				err = s.write(change)
			}
			break
		}
	}
	if err != nil {
		p.refused++
		p.refusal = strings.ToValidUTF8(err.Error(), "?")
		p.log.Warn("command refused", "topic", topic, "error", err)
	}
	return p.look(now), nil
}

// parseCommand reads an object of what changes. It is taken whole or not at all: a member that isn't known, is there
// twice or has another type is an error, since a trigger whose id could not be read is no trigger.
func parseCommand(payload []byte) (func(*station.Outputs), error) {
	if len(payload) > maxCommand {
		return nil, fmt.Errorf("command: %d bytes, at most %d", len(payload), maxCommand)
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("command: not a JSON object")
	}
	var set []func(*station.Outputs)
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("command: %w", err)
		}
		name, _ := t.(string)
		if seen[name] {
			return nil, fmt.Errorf("command: %.50q is there twice", name)
		}
		seen[name] = true
		switch name {
		case "enable":
			err = member(d, &set, func(o *station.Outputs, v bool) { o.Enable = v })
		case "trigger":
			err = member(d, &set, func(o *station.Outputs, v bool) { o.Trigger = v })
		case "results_ack":
			err = member(d, &set, func(o *station.Outputs, v bool) { o.ResultsAck = v })
		case "heartbeat":
			err = member(d, &set, func(o *station.Outputs, v uint16) { o.Heartbeat = v })
		case "trigger_id":
			err = member(d, &set, func(o *station.Outputs, v uint32) { o.TriggerID = v })
		case "part_id":
			err = member(d, &set, func(o *station.Outputs, v string) { o.PartID = v })
		case "command":
			err = member(d, &set, func(o *station.Outputs, v uint16) { o.Command = station.Command(v) })
		case "recipe_slot":
			err = member(d, &set, func(o *station.Outputs, v uint16) { o.Slot = v })
		case "recipe_version":
			err = member(d, &set, func(o *station.Outputs, v uint64) { o.Version = v })
		default:
			err = errors.New("no such member")
		}
		if err != nil {
			return nil, fmt.Errorf("command: %.50q: %w", name, err)
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("command: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("command: more than one JSON object")
	}
	if len(set) == 0 {
		return nil, errors.New("command: no members")
	}
	return func(o *station.Outputs) {
		for _, f := range set {
			f(o)
		}
	}, nil
}

// member reads a value. null is no value: encoding/json would leave the variable as it is.
func member[T any](d *json.Decoder, set *[]func(*station.Outputs), f func(*station.Outputs, T)) error {
	var v *T
	if err := d.Decode(&v); err != nil {
		return err
	}
	if v == nil {
		return errors.New("null is no value")
	}
	*set = append(*set, func(o *station.Outputs) { f(o, *v) })
	return nil
}

func (p *plain) lost() {
	for _, s := range p.stations {
		s.release()
		s.sending = 0
	}
}
