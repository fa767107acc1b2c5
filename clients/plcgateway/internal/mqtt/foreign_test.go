package mqtt

// Code of others on the other side: mosquitto as the broker, its clients, and the reference implementation's payloads
// for Node.js. CI's stage plc has them; elsewhere the test needs POLYSCAN_SPARKPLUG_NODE, a folder in which "npm ci"
// was run beside testdata/node/package.json, and mosquitto.

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

// asGateway in the environment makes the test binary a gateway at the broker that it names, to be killed.
const asGateway = "POLYSCAN_TEST_GATEWAY"

func TestMain(m *testing.M) {
	if broker := os.Getenv(asGateway); broker != "" {
		gatewayProcess(broker)
	}
	os.Exit(m.Run())
}

// gatewayProcess has one station whose truth is that of the tests; it says what it inspects.
func gatewayProcess(broker string) {
	cfg := station.Config{Name: "S1", HeartbeatTimeout: 500 * time.Millisecond, Values: []string{"U7.mean"},
		Slots: map[uint16]station.Recipe{1: {Slot: 1, Name: "board"}}}
	st, err := station.New(cfg, saying{newTruth()})
	if err != nil {
		panic(err)
	}
	st.Link(true)
	c, err := NewSparkplug(Config{Brokers: []string{broker}, ClientID: "gateway"},
		Sparkplug{Group: "g", Node: "n", PrimaryHost: "scada"}, "v1", []*station.Station{st},
		slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		panic(err)
	}
	go func() { // the test's end is the end of standard input
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Println("runs")
	c.Run(context.Background())
}

type saying struct{ *truth }

func (s saying) Inspect(j *station.Job) {
	fmt.Printf("inspected %d\n", j.TriggerID)
	s.truth.Inspect(j)
}

// child is a process of the test's.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{}

	mu      sync.Mutex
	lines   []string
	changed chan struct{}
}

func start(t *testing.T, dir string, env []string, name string, args ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(name, args...), ended: make(chan struct{}), changed: make(chan struct{})}
	c.cmd.Dir, c.cmd.Env = dir, append(os.Environ(), env...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		s := bufio.NewScanner(out)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			c.mu.Lock()
			c.lines = append(c.lines, s.Text())
			close(c.changed)
			c.changed = make(chan struct{})
			c.mu.Unlock()
		}
		c.cmd.Wait()
	}()
	t.Cleanup(c.kill)
	return c
}

func (c *child) signal(s syscall.Signal) { c.cmd.Process.Signal(s) }

func (c *child) kill() {
	c.signal(syscall.SIGKILL)
	<-c.ended
}

// next returns the first line from the n-th on for which ok says so, and its number.
func (c *child) next(what string, n int, ok func(string) bool) (string, int) {
	c.t.Helper()
	deadline := time.After(patience)
	for {
		c.mu.Lock()
		for ; n < len(c.lines); n++ {
			if ok(c.lines[n]) {
				defer c.mu.Unlock()
				return c.lines[n], n
			}
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-deadline:
			c.t.Fatalf("%s: no such line after %v", what, patience)
		}
	}
}

func (c *child) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lines)
}

// foreignHost is a host made of mosquitto's clients and Node.js.
type foreignHost struct {
	t      *testing.T
	port   string
	sub    *child // lines "TOPIC HEX"
	codec  *child
	read   int // lines of sub
	asked  int // of codec
	names  map[float64]string
	values map[string]any
	kinds  []string // of messages, without data
	seq    float64
	alive  bool
	beats  int
}

func (h *foreignHost) ask(line string) string {
	h.t.Helper()
	fmt.Fprintln(h.codec.in, line)
	answer, n := h.codec.next(line, h.asked, func(string) bool { return true })
	h.asked = n + 1
	if strings.HasPrefix(answer, "error") {
		h.t.Fatalf("%s: %s", line, answer)
	}
	return answer
}

// publish sends a payload that Node.js encoded, with mosquitto's own client.
func (h *foreignHost) publish(topic string, metrics ...map[string]any) {
	h.t.Helper()
	j, err := json.Marshal(map[string]any{"timestamp": time.Now().UnixMilli(), "metrics": metrics})
	if err != nil {
		h.t.Fatal(err)
	}
	b, err := hex.DecodeString(h.ask("encode " + string(j)))
	if err != nil {
		h.t.Fatal(err)
	}
	h.raw(topic, b)
}

func (h *foreignHost) raw(topic string, payload []byte, args ...string) {
	h.t.Helper()
	cmd := exec.Command("mosquitto_pub", append([]string{"-p", h.port, "-t", topic, "-s"}, args...)...)
	cmd.Stdin = strings.NewReader(string(payload))
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("mosquitto_pub %s: %v: %s", topic, err, out)
	}
}

func (h *foreignHost) state(online bool) {
	h.raw("spBv1.0/STATE/scada", fmt.Appendf(nil, `{"online":%v,"timestamp":%d}`, online, time.Now().UnixMilli()), "-r",
		"-q", "1")
}

func metric(name, kind string, value any) map[string]any {
	return map[string]any{"name": name, "type": kind, "value": value}
}

func (h *foreignHost) write(metrics ...map[string]any) {
	h.t.Helper()
	h.beats++
	h.publish("spBv1.0/g/DCMD/n/S1", append(metrics, metric("Control/Heartbeat", "UInt16", h.beats))...)
}

// follow reads messages until ok, writing the heartbeat now and then where beat is set.
func (h *foreignHost) follow(what string, beat bool, ok func() bool) {
	h.t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			h.t.Fatalf("%s: not so after %v: %v, %v", what, patience, h.kinds, h.values)
		}
		if h.read == h.sub.count() {
			if beat {
				h.write()
			}
			time.Sleep(10 * time.Millisecond)
			continue
		}
		line, n := h.sub.next(what, h.read, func(string) bool { return true })
		h.read = n + 1
		topic, payload, _ := strings.Cut(line, " ")
		kind := strings.Split(topic, "/")[2]
		if strings.HasSuffix(kind, "CMD") || topic == "spBv1.0/STATE/scada" {
			continue
		}
		h.message(kind, topic, payload)
	}
}

func (h *foreignHost) message(kind, topic, payload string) {
	h.t.Helper()
	var p struct {
		Timestamp, Seq *float64
		Metrics        []struct {
			Name         string
			Alias        *float64
			Type         string
			Value        any
			IsHistorical bool
		}
	}
	if err := json.Unmarshal([]byte(h.ask("decode "+payload)), &p); err != nil {
		h.t.Fatalf("%s: %v", topic, err)
	}
	if !strings.HasSuffix(kind, "DATA") {
		h.kinds = append(h.kinds, kind)
	}
	switch kind {
	case "NDEATH":
		h.alive = false
		return
	case "NBIRTH":
		h.alive, h.seq, h.names, h.values = true, 0, map[float64]string{}, map[string]any{}
	default:
		if !h.alive {
			h.t.Errorf("%s of a node that is not alive", topic)
			return
		}
		h.seq = float64((int(h.seq) + 1) % 256)
	}
	if p.Seq == nil || *p.Seq != h.seq || p.Timestamp == nil {
		h.t.Errorf("%s: seq %v, want %v; timestamp %v", topic, p.Seq, h.seq, p.Timestamp)
	}
	for _, m := range p.Metrics {
		if m.IsHistorical {
			continue
		}
		name := m.Name
		if strings.HasSuffix(kind, "BIRTH") {
			if m.Alias != nil {
				h.names[*m.Alias] = name
			}
		} else {
			name = h.names[*m.Alias]
		}
		if name == "" || m.Type == "" || m.Type == "Unknown" {
			h.t.Errorf("%s: a metric without name or type: %+v", topic, m)
		}
		h.values[name] = m.Value
	}
	if v, ok := h.values["Result/Verdict"].(float64); ok {
		complement, _ := h.values["Result/Verdict Complement"].(float64)
		if uint16(v)^uint16(complement) != 0xFFFF || h.values["Result/Sequence Before"] != h.values["Result/Sequence After"] {
			h.t.Errorf("%s: torn: %v", topic, h.values)
		}
	}
}

func (h *foreignHost) is(want ...any) {
	h.t.Helper()
	h.follow(fmt.Sprintf("%v", want), true, func() bool {
		for i := 0; i < len(want); i += 2 {
			if h.values[want[i].(string)] != want[i+1] {
				return false
			}
		}
		return h.alive
	})
}

// ready brings the station to where a trigger is inspected.
func (h *foreignHost) ready() {
	h.t.Helper()
	h.write(metric("Control/Enable", "Boolean", true), metric("Control/Command", "UInt16", int(station.AckError)))
	h.is("Status/Command", float64(station.AckError))
	h.write(metric("Control/Command", "UInt16", 0))
	h.write(metric("Control/Command", "UInt16", int(station.PrepareRecipe)), metric("Control/Recipe Slot", "UInt16", 1))
	h.is("Status/Ready", true)
	h.write(metric("Control/Command", "UInt16", 0))
}

func (h *foreignHost) trigger(id int, part string) {
	h.t.Helper()
	h.write(metric("Control/Trigger", "Boolean", true), metric("Control/Trigger Id", "UInt64", id),
		metric("Control/Part Id", "String", part))
}

func (h *foreignHost) acknowledge() {
	h.t.Helper()
	h.write(metric("Control/Trigger", "Boolean", false), metric("Control/Results Ack", "Boolean", true))
	h.is("Status/Results Valid", false, "Status/Trigger Ack", false)
	h.write(metric("Control/Results Ack", "Boolean", false))
}

func TestForeignHost(t *testing.T) {
	node := os.Getenv("POLYSCAN_SPARKPLUG_NODE")
	if node == "" {
		t.Skip("POLYSCAN_SPARKPLUG_NODE is not set")
	}
	script, err := filepath.Abs("testdata/node/codec.js")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	conf := filepath.Join(t.TempDir(), "mosquitto.conf")
	settings := fmt.Appendf(nil, "listener %s 127.0.0.1\nallow_anonymous true\nuser root\nlog_dest none\n", port)
	if err := os.WriteFile(conf, settings, 0o600); err != nil {
		t.Fatal(err)
	}
	mosquitto := func() *child {
		c := start(t, "", nil, "mosquitto", "-c", conf)
		eventually(t, "mosquitto listens", func() bool {
			k, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err == nil {
				k.Close()
			}
			return err == nil
		})
		return c
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := func() *child {
		c := start(t, "", []string{asGateway + "=mqtt://127.0.0.1:" + port}, self)
		c.next("gateway", 0, func(s string) bool { return s == "runs" })
		return c
	}
	h := &foreignHost{t: t, port: port, names: map[float64]string{}, values: map[string]any{}}
	h.codec = start(t, node, nil, "node", script)
	listen := func() {
		h.sub = start(t, "", nil, "mosquitto_sub", "-p", port, "-t", "spBv1.0/#", "-F", "%t %x")
		h.read = 0
		h.raw("spBv1.0/STATE/probe", []byte("x"), "-r") // retained: it comes as soon as the subscription stands
		_, n := h.sub.next("subscribed", 0, func(s string) bool { return strings.HasPrefix(s, "spBv1.0/STATE/probe") })
		h.read = n + 1
	}
	broker := mosquitto()
	listen()
	gate := run()

	h.state(true)
	h.follow("births", false, func() bool { return slices.Equal(h.kinds, []string{"NBIRTH", "DBIRTH"}) })
	if h.values["bdSeq"] != 0.0 || h.values["Node Control/Rebirth"] != false ||
		h.values["Result/Verdict"] != float64(station.Reject) ||
		h.values["Result/Values/U7.mean"] != nil {
		t.Errorf("births: %v", h.values)
	}
	h.ready()
	h.trigger(1, "good-1")
	h.is("Result/Trigger Id", 1.0, "Result/Verdict", float64(0xA5C3), "Result/Part Id", "good-1",
		"Result/Values/U7.mean", 1.5,
		"Status/Results Valid", true, "Counters/Pass", 1.0)
	h.acknowledge()
	h.trigger(2, "bad-2")
	h.is("Result/Trigger Id", 2.0, "Result/Verdict", float64(station.Fail), "Result/Reason Name", "fail")
	h.acknowledge()
	h.trigger(2, "bad-2") // twice: one answer
	h.trigger(2, "bad-2")
	h.is("Result/Trigger Id", 2.0, "Counters/Accepted", 2.0, "Counters/Repeated", 1.0)
	h.acknowledge()

	h.kinds = nil
	h.publish("spBv1.0/g/NCMD/n", metric("Node Control/Rebirth", "Boolean", true))
	h.follow("rebirth", true, func() bool { return slices.Equal(h.kinds, []string{"NBIRTH", "DBIRTH"}) })
	h.is("Status/Ready", true, "bdSeq", 0.0)

	// The gateway is killed: the broker says so at once, and what follows is a new one that knows nothing.
	h.kinds = nil
	h.trigger(3, "wait-3")
	gate.next("inspected", 0, func(s string) bool { return s == "inspected 3" })
	gate.kill()
	h.follow("death", false, func() bool { return !h.alive })
	run()
	h.follow("births", false, func() bool { return slices.Equal(h.kinds, []string{"NDEATH", "NBIRTH", "DBIRTH"}) })
	h.trigger(3, "wait-3") // the PLC asks again: it has to acknowledge first
	h.is("Counters/Missed", 1.0, "Status/Results Valid", false, "Status/State", float64(station.Preoperational))
	h.write(metric("Control/Trigger", "Boolean", false))
	h.ready()
	h.trigger(4, "good-4")
	h.is("Result/Trigger Id", 4.0, "Result/Verdict", float64(0xA5C3))
	h.acknowledge()

	// The broker stands still for longer than a heartbeat may be late: the gateway is not ready, and its trigger is not
	// answered by what was before.
	broker.signal(syscall.SIGSTOP)
	time.Sleep(1500 * time.Millisecond)
	broker.signal(syscall.SIGCONT)
	h.follow("alive", true, func() bool { return h.alive && h.values["Status/Online"] == true })
	h.write(metric("Control/Trigger", "Boolean", false), metric("Control/Command", "UInt16", 0))
	h.ready()
	h.trigger(5, "bad-5")
	h.is("Result/Trigger Id", 5.0, "Result/Verdict", float64(station.Fail))
	h.acknowledge()

	// The primary host goes: so does the node, and comes back with it.
	h.kinds = nil
	h.state(false)
	h.follow("death", false, func() bool { return slices.Equal(h.kinds, []string{"NDEATH"}) })
	h.state(true)
	h.follow("births", false, func() bool { return slices.Equal(h.kinds, []string{"NDEATH", "NBIRTH", "DBIRTH"}) })
	if h.values["Status/State"] != float64(station.Preoperational) {
		t.Errorf("state %v", h.values["Status/State"])
	}

	// The broker is killed, and forgets everything.
	broker.kill()
	h.sub.kill()
	h.alive, h.kinds = false, nil
	mosquitto()
	listen()
	h.state(true)
	h.follow("births", false, func() bool { return slices.Equal(h.kinds, []string{"NBIRTH", "DBIRTH"}) })
	h.ready()
	h.trigger(6, "good-6")
	h.is("Result/Trigger Id", 6.0, "Result/Verdict", float64(0xA5C3))
}
