package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopcua/opcua"
	"github.com/gopcua/opcua/ua"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/regionfile"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server"
)

// plcgateway runs the program, and returns what it wrote and its exit code.
func plcgateway(t *testing.T, ctx context.Context, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(ctx, args, strings.NewReader(""), &out, &errs)
	return out.String(), errs.String(), code
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "plcgateway.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

const (
	small = "servers: {hall: {addr: 'localhost:1'}}\nmodbus: {listen: ':0'}\n" +
		"stations:\n  - name: a\n    parts: c\n    recipes: {1: r}\n"
	many = "servers: {hall: {addr: 'localhost:1'}}\nmodbus: {listen: ':0'}\n" +
		"stations:\n  - name: a\n    parts: c\n    recipes: "
	oneStation = "stations:\n  - name: s\n    parts: p\n    recipes: {1: r}\n"
)

func TestConfigMistakes(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":         {"", ":1: the file is empty"},
		"no YAML":       {"a: [", ":1: "},
		"unknown":       {small + "    nam: x\n", ":7: field nam: there is no such setting"},
		"wrong type":    {small + "    deadline: x\n", ":7: deadline `x`: want a time with its unit, as 50ms"},
		"slot twice":    {many + "{01: q, 1: r}\n", ":6: recipes `01`: want a whole number, 1 to 65535, in plain digits"},
		"slot 1.0":      {many + "{1: q, 1.0: r}\n", ":6: recipes `1.0`: want a whole number"},
		"slot 0x1":      {many + "{0x1: q, 1: r}\n", ":6: recipes `0x1`: want a whole number"},
		"octal slot":    {many + "{010: r}\n", ":6: recipes `010`: want a whole number"},
		"slot 1.7":      {many + "{1.7: r}\n", ":6: recipes `1.7`: want a whole number"},
		"same slot":     {many + "{1: q, '1': r}\n", ":6: 1 is set a second time, first in line 6"},
		"slot 1.5":      {small + "    prepare: 1.5\n", ":7: prepare `1.5`: want a whole number"},
		"slot's quotes": {small + "    prepare: '1'\n", ":7: prepare `1`: want a whole number"},
		"slot's sign":   {small + "    prepare: +1\n", ":7: prepare `+1`: want a whole number"},
		"unit 1_0": {small + "    modbus: {unit: 1_0}\n",
			":7: unit `1_0`: want a whole number, 1 to 247, in plain digits"},
		"unit 256": {small + "    modbus: {unit: 256}\n",
			":7: unit `256`: want a whole number, 1 to 247, in plain digits"},
		"unit 1.9": {small + "    modbus: {unit: 1.9}\n",
			":7: unit `1.9`: want a whole number, 1 to 247, in plain digits"},
		"no slots":   {many + "r\n", ":6: recipes `r`: want settings, as KEY: VALUE"},
		"no section": {"servers: {h: x}\n" + oneStation, ":1: h `x`: want settings, as KEY: VALUE"},
		"no list":    {small + "    values: r.mean\n", ":7: values `r.mean`: want a list"},
		"list":       {many + "[r]\n", ":6: recipes: want settings, as KEY: VALUE, not a list"},
		"text alone": {"stations\n", ":1: `stations`: want settings, as KEY: VALUE"},
		"two files":  {small + "    modbus: {unit: 1}\n---\n{}\n", ":8: a second document; want one mapping"},
		"pattern": {strings.Replace(small, "parts: c", "parts: cam*", 1),
			`:5: station a: parts: "cam*" is no name of a stream: want 1 to 64 letters`},
		"space last": {strings.Replace(small, "parts: c", "parts: 'cam '", 1),
			`:5: station a: parts: "cam " is no name of a stream`},
		"recipe's name": {many + "{1: R 1}\n",
			`:6: station a: recipe "R 1": a name has 1 to 128 letters, digits, dots, underscores and hyphens`},
		"no unit of time": {small + "    deadline: 2\n", ":7: deadline `2`: want a time with its unit, as 50ms"},
		"slot's type":     {small + "    prepare: 70000\n", ":7: prepare `70000`: want a whole number, 1 to 65535"},
		"unit's type":     {small + "    modbus:\n      unit: 300\n", ":8: unit `300`: want a whole number, 1 to 247"},
		"long value": {small + "    deadline: half a minute\n    heartbeat: half a second\n",
			":7: deadline `half a ...`: want a time with its unit, as 50ms\n"},
		"no server":        {"stations: []", ":1: servers: there is none"},
		"no station":       {"servers: {hall: {addr: x}}\n\n", ":1: stations: there is none"},
		"server's address": {"servers:\n  hall:\n    addr: ''\nstations: []", ":3: server hall: addr is missing"},
		"token over text": {"servers:\n  hall: {addr: 'far:1', token-file: /none}\nstations: []",
			":2: server hall: dial far:1: token file: open /none"},
		"which server": {"servers: {a: {addr: x}, b: {addr: y}}\n" + oneStation,
			":3: station s: server is missing, and there are several"},
		"no such server": {small + "    server: yard\n", `:7: station a: server "yard": there is none of that name`},
		"no source": {"servers: {hall: {addr: x}}\nstations:\n  - name: s\n    recipes: {1: r}\n",
			":3: station s: want one of parts, resident and folder"},
		"two sources": {small + "    resident: r\n", ":4: station a: want one of parts, resident and folder"},
		"no folder": {"servers: {hall: {addr: x}}\nstations:\n  - name: s\n    folder: /none\n    recipes: {1: r}\n",
			":4: station s: folder /none: no such folder"},
		"no recipe": {"servers: {hall: {addr: x}}\nstations:\n  - name: s\n    parts: p\n",
			":3: station s: recipes: there is none"},
		"recipe": {"servers: {hall: {addr: x}}\nstations:\n  - name: s\n    parts: p\n    recipes:\n      1: r@0\n",
			`:6: station s: recipe "r@0": version "0" is no number from 1`},
		"prepare":   {small + "    prepare: 2\n", ":7: station a: prepare 2: no recipe has this slot"},
		"deadline":  {small + "    deadline: 2m\n", ":7: station a: deadline 2m0s: must be 1ms to 1m0s"},
		"heartbeat": {small + "    heartbeat: 10ms\n", ":7: station a: heartbeat 10ms: must be 100ms to 10s"},
		"value": {small + "    values:\n    - U7.mean\n    - U7.avg\n",
			`:9: station a: value "U7.avg": no statistic "avg"`},
		"unit": {small + "    modbus:\n      unit: 248\n", ":8: station a: unit 248: must be 1 to 247"},
		"unit twice": {small + "    modbus: {unit: 1}\n  - name: b\n    parts: c\n    recipes: {1: r}\n    modbus: {unit: 1}\n",
			":11: station b: unit 1 is that of a"},
		"name twice": {small + "  - name: a\n    parts: c\n    recipes: {1: r}\n",
			":7: station a: another one has this name"},
		"nowhere": {"servers: {h: {addr: x}}\n" + oneStation + "    modbus: {unit: 1}\n",
			":6: station s: modbus: the file has no modbus section"},
		"listen": {"modbus: {listen: 502}\n" + small[strings.Index(small, "stations"):],
			`:1: listen "502": want HOST:PORT`},
		"nowhere, OPC UA": {"servers: {h: {addr: x}}\n" + oneStation + "    opcua: true\n",
			":6: station s: opcua: the file has no opcua section"},
		"OPC UA, nobody": {"opcua:\n  listen: ':4840'\n  policies: [None]\n" + small, ":2: opcua: nobody may log in"},
		"OPC UA, policy": {"opcua:\n  listen: ':4840'\n  anonymous: true\n  policies: [None, Basic128Rsa15]\n" + small,
			`:4: opcua: policy "Basic128Rsa15": there are None, Basic256Sha256`},
		"OPC UA, secrets": {"opcua:\n  listen: ':4840'\n  anonymous: true\n" + small,
			":2: opcua: certificate and key are missing"},
		"OPC UA, trust": {"opcua:\n  listen: ':4840'\n  anonymous: true\n  certificate: c\n  key: k\n" +
			"  trusted: /none\n" + small, ":6: opcua: trusted /none: no such folder"},
		"OPC UA, users": {"opcua:\n  listen: ':4840'\n  policies: [None]\n  certificate: c\n  key: k\n" +
			"  users: /none\n" + small, ":6: opcua: users: open /none"},
		"word order": {small + "    modbus: {unit: 1, word-order: big}\n",
			`:7: word-order "big": want high-first or low-first`},
		"mqtt nowhere": {small + "    mqtt: true\n", ":7: station a: mqtt: the file has no mqtt section"},
		"mqtt broker": {"mqtt:\n  brokers: [tcp://b]\n  client-id: c\n  json: p\n" + small,
			`:2: mqtt: broker "tcp://b": want mqtt://host:port`},
		"mqtt client": {"mqtt: {brokers: ['mqtt://b'], json: p}\n" + small, ":1: mqtt: no client id"},
		"mqtt both": {"mqtt: {brokers: ['mqtt://b'], client-id: c}\n" + small,
			":1: mqtt: want one of sparkplug and json"},
		"mqtt node": {"mqtt: {brokers: ['mqtt://b'], client-id: c, sparkplug: {group: a/b, node: n}}\n" + small,
			`:1: mqtt: group "a/b"`},
		"mqtt password": {"mqtt: {brokers: ['mqtt://b'], client-id: c, json: p, password-file: /none}\n" + small,
			":1: mqtt: password-file: open /none"},
		"mqtt no password": {"mqtt: {brokers: ['mqtt://b'], client-id: c, json: p, user: u, password-file: /dev/null}\n" + small,
			":1: mqtt: password-file: /dev/null is empty"},
		"mqtt no user": {"mqtt: {brokers: ['mqtt://b'], client-id: c, json: p, password-file: app_test.go}\n" + small,
			":1: mqtt: password-file has no effect without user"},
		"mqtt in the clear": {"mqtt: {brokers: ['mqtt://b'], client-id: c, json: p, server-name: b}\n" + small,
			":1: mqtt: server-name has no effect: no broker is mqtts://host:port"},
		"OPC UA, trust of None": {"opcua:\n  listen: ':4840'\n  policies: [None]\n  anonymous: true\n  trusted: /\n" + small,
			":5: opcua: trusted has no effect"},
		"log": {"log-level: loud\nlog-format: xml\n" + small, `:1: log-level "loud"`},
		"all of them": {"log-level: loud\nlog-format: xml\n" + small + "    deadline: 2m\n",
			`:9: station a: deadline`},
		"no deadline":     {small + "    deadline: 0ms\n", ":7: station a: deadline 0s: must be 1ms to 1m0s"},
		"empty deadline":  {small + "    deadline:\n", ":7: station a: deadline 0s: must be"},
		"no heartbeat":    {small + "    heartbeat: 0s\n", ":7: station a: heartbeat 0s: must be 100ms to 10s"},
		"slot 0":          {small + "    prepare: 0\n", ":7: station a: prepare 0: no recipe has this slot"},
		"no protocol":     {small, ":4: station a: no PLC can reach it: want one of modbus, mqtt and opcua"},
		"protocol, empty": {small + "    modbus:\n", ":4: station a: no PLC can reach it"},
		"protocol, off":   {small + "    mqtt: false\n", ":4: station a: no PLC can reach it"},
		"no user":         {small, ":2: modbus: no station says modbus"},
		"no user, MQTT": {"mqtt:\n  brokers: ['mqtt://b']\n  client-id: c\n  json: p\n" + small +
			"    modbus: {unit: 1}\n", ":2: mqtt: no station says mqtt"},
		"no port": {"servers:\n  hall:\n    addr: far\n" + oneStation,
			`:3: server hall: addr "far": want HOST:PORT or unix:PATH`},
		"port 0": {"servers:\n  hall:\n    addr: far:0\n" + oneStation,
			`:3: server hall: addr "far:0": want HOST:PORT`},
		"large port": {"servers:\n  hall:\n    addr: far:65536\n" + oneStation,
			`:3: server hall: addr "far:65536": want HOST:PORT`},
		"named port": {"http: localhost:web\n" + small, `:1: http "localhost:web": want HOST:PORT`},
		"no listen":  {"modbus: {}\n" + oneStation, `:1: listen "": want HOST:PORT`},
		"same listen": {"http: ':502'\nmodbus: {listen: ':502'}\n" + oneStation,
			":2: listen :502: another section listens there"},
		"empty http":  {"http: ''\n" + small, ":1: http: it is empty"},
		"empty level": {"log-level:\n" + small, ":1: log-level: it is empty"},
		"empty token": {"servers:\n  hall:\n    addr: far:1\n    token-file: ''\n" + oneStation,
			":4: token-file: it is empty"},
		"empty order": {small + "    modbus: {unit: 1, word-order: ''}\n", ":7: word-order: it is empty"},
		"empty value": {small + "    values: ['']\n", `:7: station a: value ""`},
		"no policies": {"opcua: {listen: ':4840', anonymous: true, policies: []}\n" + small,
			":1: opcua: policies: there is none"},
		"address of http": {"http: x\n" + small, `:1: http "x": want HOST:PORT`},
	} {
		file := writeFile(t, c.text)
		_, errs, code := plcgateway(t, t.Context(), "--config", file)
		if code != exitUsage || !strings.Contains(errs, "plcgateway: "+file+c.want) {
			t.Errorf("%s: code %d:\n%swant %s", name, code, errs, c.want)
		}
	}
	if _, errs, code := plcgateway(t, t.Context(), "--config", "/none"); code != exitUsage ||
		!strings.Contains(errs, "/none") {
		t.Errorf("code %d, %s", code, errs)
	}
}

// What --print-config prints is the same configuration again, and so is the example beside the unit.
func TestPrintConfig(t *testing.T) {
	for _, file := range []string{writeFile(t, small+"    modbus: {unit: 1}\n"), "deploy/plcgateway.yaml"} {
		out, errs, code := plcgateway(t, t.Context(), "--config", file, "--print-config")
		if code != exitOK || errs != "" || !strings.Contains(out, "deadline: 50ms") {
			t.Fatalf("code %d: %s%s", code, out, errs)
		}
		again, _, _ := plcgateway(t, t.Context(), "--config", writeFile(t, out), "--print-config")
		if again != out {
			t.Errorf("%s\nthen\n%s", out, again)
		}
	}
}

// A station may take the settings of another one: its own defaults don't go over them.
func TestMergedStation(t *testing.T) {
	file := writeFile(t, strings.Replace(small, "- name", "- &a\n    name", 1)+
		"    deadline: 70ms\n    modbus: {unit: 1}\n"+
		"  - <<: *a\n    name: b\n    modbus: {unit: 2}\n")
	out, errs, _ := plcgateway(t, t.Context(), "--config", file, "--print-config")
	if strings.Count(out, "deadline: 70ms") != 2 {
		t.Errorf("%s%s", out, errs)
	}
}

func TestMapCommand(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"map"}, exitOK, "verdict_complement"},
		{[]string{"map", "--format", "csv", "--config", "deploy/plcgateway.yaml", "--station", "line-3"}, exitOK,
			"input register,40,2,value_1,REAL,U7.mean\n"},
		{[]string{"map", "--format", "st"}, exitOK, "END_VAR\n"},
		{[]string{"map", "--station", "x"}, exitUsage, "--station has no effect without --config"},
		{[]string{"map", "--config", "deploy/plcgateway.yaml", "--station", "x"}, exitUsage, "has none of that name"},
		{[]string{"simulate", "--count", "0"}, exitUsage, "plcgateway: --count 0: must be 1 or more\n"},
		{[]string{"simulate", "--poll", "0s"}, exitUsage, "plcgateway: --poll 0s: must be above 0\n"},
		{[]string{"simulate", "--parts", strings.Repeat("a", 32)}, exitUsage, `a9" has 33 bytes: must be at most 32`},
		{[]string{"simulate", "--addr", "127.0.0.1:1"}, exitAway, "127.0.0.1:1"},
		{nil, exitUsage, "--config"},
		{[]string{"--help"}, exitOK, "simulate"},
	} {
		if out, errs, code := plcgateway(t, t.Context(), c.args...); code != c.code ||
			!strings.Contains(out+errs, c.want) {
			t.Errorf("%v: code %d: %s%s", c.args, code, out, errs)
		}
	}
}

// Output that got lost ends a command as it does in the other programs.
func TestMapLost(t *testing.T) {
	full, w := io.Pipe()
	full.Close()
	var errs strings.Builder
	if code := run(t.Context(), []string{"map"}, nil, w, &errs); code != exitUsage ||
		!strings.Contains(errs.String(), "standard output: ") {
		t.Errorf("code %d: %s", code, &errs)
	}
}

// Of no server there is one mistake to tell.
func TestNoServers(t *testing.T) {
	file := writeFile(t, "servers: {}\nmodbus: {listen: ':0'}\n"+oneStation+"    modbus: {unit: 1}\n")
	_, errs, code := plcgateway(t, t.Context(), "--config", file)
	if code != exitUsage || !strings.Contains(errs, "servers: there is none") || strings.Contains(errs, "several") {
		t.Errorf("code %d: %s", code, errs)
	}
}

// lines is a writer that tells of lines.
type lines struct {
	mu   sync.Mutex
	text string
	more chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(p)
	select {
	case l.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

// all is what was written.
func (l *lines) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}

// await returns the first submatch of a pattern once there is one.
func (l *lines) await(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	timeout := time.After(time.Minute)
	for {
		l.mu.Lock()
		m := re.FindStringSubmatch(l.text)
		l.mu.Unlock()
		if m != nil {
			return m[len(m)-1]
		}
		select {
		case <-l.more:
		case <-timeout:
			t.Fatalf("no %s in:\n%s", pattern, l.text)
		}
	}
}

// serveRecipe runs a server that has the recipe of a folder.
func serveRecipe(t *testing.T, dir string) (addr string) {
	srv, err := server.New(server.Config{Device: "cpu", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		if err := srv.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		<-served
	})
	putRecipe(t, l.Addr().String(), dir+"/regions.json")
	return l.Addr().String()
}

// TestSimulateAgain: a PLC whose gateway is started anew makes the link again, and ejects what passes meanwhile. Parts
// that passed the gate before they could be triggered are not triggered.
func TestSimulateAgain(t *testing.T) {
	const dir = "../../testdata/conveyor"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	file := writeFile(t, "servers: {hall: {addr: '"+serveRecipe(t, dir)+"'}}\nmodbus: {listen: '"+addr+"'}\n"+
		"stations:\n  - {name: desk, folder: "+dir+", recipes: {1: line}, deadline: 1m, heartbeat: 10s, modbus: {unit: 1}}\n")
	gateway := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		out, errs := &lines{more: make(chan struct{}, 1)}, &lines{more: make(chan struct{}, 1)}
		code := make(chan int, 1)
		go func() { code <- run(ctx, []string{"--config", file}, nil, out, errs) }()
		out.await(t, `Modbus TCP on (\S+)\n`)
		errs.await(t, "server found")
		return func() {
			cancel()
			if c := <-code; c != exitOK || strings.Contains(errs.all(), "server lost") { // it is the gateway that goes
				t.Errorf("code %d: %s", c, errs.all())
			}
		}
	}
	stop := gateway()
	sensor, parts := io.Pipe()
	out, errs := &lines{more: make(chan struct{}, 1)}, &lines{more: make(chan struct{}, 1)}
	code := make(chan int, 1)
	go func() {
		code <- run(t.Context(), []string{"simulate", "--addr", addr, "--recipe", "1", "--parts", "-", "--patience",
			"1m"}, sensor, out, errs)
	}()
	io.WriteString(parts, "frame_003\n")
	out.await(t, ` 1 .* PASS .* pass \[frame_003\]\n`)
	io.WriteString(parts, "frame_007\n")
	out.await(t, ` 2 .* FAIL    eject fail, 1 region \[frame_007\]\n`)
	stop()
	out.await(t, ` link: .*\n`)
	stop = gateway()
	io.WriteString(parts, "frame_004\nnobody\n")
	out.await(t, ` 3 .* PASS .* pass \[frame_004\]\n`)
	out.await(t, ` 4 .* REJECT  eject other part \[nobody\]\n`)
	parts.Close()
	if c := <-code; c != exitOK || !strings.HasSuffix(out.all(), "4 parts: 2 PASS, 1 FAIL, 1 REJECT\n") {
		t.Errorf("code %d: %s%s", c, out.all(), errs.all())
	}
	stop()
}

// From frames in a folder to a simulated PLC: it ejects exactly the bad one, and the log has each part's timeline.
func TestGateway(t *testing.T) {
	const dir = "../../testdata/conveyor"
	addrOfServer := serveRecipe(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	out, errs := &lines{more: make(chan struct{}, 1)}, &lines{more: make(chan struct{}, 1)}
	file := writeFile(t, "http: 127.0.0.1:0\nservers: {hall: {addr: '"+addrOfServer+"'}}\n"+
		"modbus: {listen: '127.0.0.1:0', word-order: low-first}\n"+
		"opcua: {listen: '127.0.0.1:0', policies: [None], anonymous: true}\n"+
		"stations:\n  - name: desk\n    folder: "+dir+"\n    recipes: {1: line}\n"+
		"    deadline: 1m\n    heartbeat: 10s\n    modbus: {unit: 7}\n    opcua: true\n")
	code := make(chan int, 1)
	go func() { code <- run(ctx, []string{"--config", file}, nil, out, errs) }()
	addr := out.await(t, `Modbus TCP on (\S+)\n`)
	uaURL := out.await(t, `OPC UA on (\S+)\n`)
	web := out.await(t, `metrics on (\S+)/metrics\n`)
	errs.await(t, "server found")
	simulated := func(args ...string) string {
		t.Helper()
		printed, said, code := plcgateway(t, t.Context(),
			append([]string{"simulate", "--addr", addr, "--unit", "7", "--word-order", "low-first", "--recipe", "1",
				"--every", "1ms", "--patience", "1m"}, args...)...)
		if code != exitOK {
			t.Fatalf("code %d: %s%s\n%s", code, printed, said, errs.text)
		}
		return printed
	}
	printed := simulated("--count", "12")
	for line := range strings.SplitSeq(printed, "\n") {
		if len(line) > 80 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	// A watch that a busy machine delays is a server that is lost, and a part that is ejected. Anything else is exact.
	if good := strings.Count(printed, " PASS "); !strings.Contains(printed, "server lost") &&
		(good != 11 || strings.Count(printed, "FAIL ") != 1 ||
			strings.Count(printed, "FAIL    eject fail, 1 region\n") != 1 || strings.Count(printed, "eject") != 1) {
		t.Errorf("%d PASS:\n%s", good, printed)
	}
	errs.await(t, `msg=part station=desk trigger=12 .* triggered=.* answered=.* presented=`)
	errs.await(t, `msg=acknowledged station=desk trigger=12 .* read=.* acked=`)
	log := writeFile(t, errs.all())
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"frame_003", "--log", log}, exitOK, `^part frame_003, trigger 4 of station desk: [A-Z]+, [a-z ]+; ` +
			`recipe line@1, 0 failed regions\n.*\n +[0-9.]+ ms  [0-9:.]{15}  acked +gateway: the PLC had acknowledged\n$`},
		{[]string{"--trigger", "12", "--station", "desk", "--log", log}, exitOK, `trigger 12 of station desk`},
		{[]string{"frame_003", "--station", "yard", "--log", log}, exitFail, `the log has no such part`},
		{[]string{"frame_003", "--log", log + "/none"}, exitUsage, `--log: open`},
		{nil, exitUsage, `want a PART or --trigger`},
	} {
		printed, said, code := plcgateway(t, t.Context(), append([]string{"timeline"}, c.args...)...)
		if code != c.code || !regexp.MustCompile(`(?s)`+c.want).MatchString(printed+said) {
			t.Errorf("timeline %v: code %d: %s%s", c.args, code, printed, said)
		}
	}
	if edges := simulated("--count", "1", "--first-id", "50", "--parts", "frame_00",
		"--edges"); !strings.Contains(edges, "results_valid 1") {
		t.Errorf("%s", edges)
	}
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz": "", "/metrics": `plcgateway_triggers_total{outcome="accepted",station="desk"} 13`,
	} {
		res, err := http.Get(web + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %v\n%s", path, err, body)
		}
	}
	errs.await(t, `msg=acknowledged station=desk trigger=50 .* acked=`)
	testPage(t, web)
	if n := countersOf(t, uaURL, "desk"); n != 13 {
		t.Errorf("over OPC UA %d triggers were accepted, want 13", n)
	}
	cancel()
	if c := <-code; c != exitOK {
		t.Errorf("code %d: %s", c, errs.text)
	}
}

func putRecipe(t testing.TB, addr, file string) {
	t.Helper()
	c, err := clients.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.PutRecipe(t.Context(), recipeOf(t, file), nil); err != nil {
		t.Fatal(err)
	}
}

// recipeOf makes the recipe "line" of a file of regions.
func recipeOf(t testing.TB, file string) *polyscanv1.Recipe {
	t.Helper()
	f, err := regionfile.Load(file, regionfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &polyscanv1.Recipe{Name: "line", RegionSet: &polyscanv1.RegionSet{}}
	for _, g := range f.Regions {
		region := &polyscanv1.Region{Name: g.Name, Limits: g.Limits}
		for _, ring := range g.Rings {
			var xy []float64
			for _, p := range ring {
				xy = append(xy, p[0], p[1])
			}
			region.Rings = append(region.Rings, &polyscanv1.Ring{Xy: xy})
		}
		r.RegionSet.Regions = append(r.RegionSet.Regions, region)
	}
	return r
}

// countersOf reads how many triggers a station has accepted, over OPC UA.
func countersOf(t *testing.T, url, station string) uint32 {
	t.Helper()
	c, err := opcua.NewClient(url)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	v, err := c.Node(ua.NewStringNodeID(3, station+"/Handshake/Accepted")).Value(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n, _ := v.Value().(uint32)
	return n
}

// TestJSONAlone: with log-format json whatever the program prints is a line of JSON, what keeps it from starting too.
func TestJSONAlone(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	const asks = "log-format: json\n"
	for name, c := range map[string]struct {
		text  string
		code  int
		lines int
		want  string
	}{
		"mistakes": {asks + small + "    deadline: 2m\n", exitUsage, 3, "deadline 2m0s: must be"},
		"no YAML":  {asks + "a: [", exitUsage, 1, ":2: "},
		"strange":  {"'log-format': \"json\"\nmodbas: 3\n", exitUsage, 1, "modbas"},
		"not there": {asks + small + "    modbus: {unit: 1}\nhttp: '" + busy.Addr().String() + "'\n", exitFail, 2,
			"in use"},
	} {
		stdout, stderr, code := plcgateway(t, t.Context(), "--config", writeFile(t, c.text))
		if code != c.code || stdout != "" || strings.Count(stderr, "\n") != c.lines ||
			!strings.Contains(stderr, c.want) {
			t.Errorf("%s: code %d\n%s%s", name, code, stdout, stderr)
		}
		for line := range strings.Lines(stderr) {
			var l struct{ Level, Msg string }
			if err := json.Unmarshal([]byte(line), &l); err != nil || l.Level == "" || l.Msg == "" {
				t.Errorf("%s: %v: %s", name, err, line)
			}
		}
	}
}
