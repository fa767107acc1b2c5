package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/camera/internal/simulator"
	"github.com/polyscan/polyscan/clients/internal/cli"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Mistakes of a file are told with file, line and key.
func TestLineMistakes(t *testing.T) {
	for _, x := range []struct{ text, want string }{
		{"", "line.yaml:1: want cameras"},
		{"- a", "line.yaml:1: want cameras"},
		{"cameras: []", "line.yaml:1: cameras: want a list of 1 to 256"},
		{"defaults: {addr: x}", "line.yaml:1: cameras is missing"},
		{"cameras:\n- name: a\n", "line.yaml:2: source is missing"},
		{"cameras:\n- source: a\n", "line.yaml:2: name is missing"},
		{"port: 3\ncameras:\n- source: a\n", `line.yaml:1: "port" is not a setting`},
		{"cameras:\n- a\n", "line.yaml:2: want a mapping"},
		{"cameras:\n- name: a\n  source: a\n  adr: x", `line.yaml:4: "adr" is not a setting`},
		{"cameras:\n- name: a\n  source: a\n  json: true", `line.yaml:4: "json" is not a setting`},
		{"cameras:\n- name: a\n  source: a\n  limit: mean > 3", "line.yaml:2: camera a: missing flags: --addr=ADDR"},
		{"cameras:\n- name: a\n  source: a\n  addr: x:1", "line.yaml:2: camera a: give one of --regions FILE"},
		{"defaults: {addr: 'x:1', limit: mean > 3}\ncameras:\n- name: a\n  source: a\n\n  every: -1",
			"line.yaml:6: camera a: --every -1"},
		{"defaults: {addr: 'x:1', limit: mean > 3, every: -1}\ncameras:\n- name: a\n  source: a",
			"line.yaml:1: camera a: --every -1"},
		{"cameras:\n- name: a\n  source: a\n  every: x", `line.yaml:4: every: "x" is no whole number, in plain digits`},
		{"cameras:\n- name: a\n  source: a\n  part-lines: 10.7",
			`line.yaml:4: part-lines: "10.7" is no whole number, in plain digits`},
		{"cameras:\n- name: a\n  source: a\n  every: 01", `line.yaml:4: every: "01" is no whole number, in plain digits`},
		{"cameras:\n- name: a\n  source: a\n  every: +1", `line.yaml:4: every: "+1" is no whole number, in plain digits`},
		{"cameras:\n- name: a\n  source: a\n  every: '1'", `line.yaml:4: every: "1" in quotes is a text: want a number`},
		{"cameras:\n- name: a\n  source: a\n  every: 1h", `line.yaml:4: every: "1h" is no whole number`},
		{"cameras:\n- name: a\n  source: a\n  silence: 2", `line.yaml:4: silence: "2" is no time`},
		{"cameras:\n- name: a\n  source: a\n  every: 1\n  every: 2",
			"line.yaml:5: every is set a second time, first in line 4"},
		{"cameras:\n- name: a\n  source: a\n  set: [[1]]", "line.yaml:4: set: item 1 is not a plain value"},
		{"cameras:\n- name: a\n  source: a\n  silence:", "line.yaml:4: silence: the value is missing"},
		{"cameras:\n- name: a\n  source: a\n  http: ''", "line.yaml:4: \"http\" is not a setting"},
		{"cameras:\n- name: a\n  source: a\n  regions: ''", "line.yaml:4: regions: the value is empty"},
		{"defaults:\n  token-file: ''\ncameras:\n- name: a\n  source: a", "line.yaml:2: token-file: the value is empty"},
		{"cameras:\n- name: a\n  source: a\n  set: [a=1, '']", "line.yaml:4: set: the value is empty"},
		{"cameras:\n- name: a\n  source: '-'", "line.yaml:3: source: want one camera"},
		{"defaults: {name: a}\ncameras:\n- source: a", "line.yaml:1: name: each camera has its own"},
		{"defaults: {addr: 'x:1', limit: mean > 3}\ncameras:\n- name: a\n  source: a\n- name: a\n  source: b",
			"line.yaml:5: name a is taken, by the camera in line 3"},
		{"defaults: {addr: 'x:1', limit: mean > 3}\ncameras:\n- source: a\n  name: 'cam*'",
			`line.yaml:4: camera cam*: --name: "cam*" is no name of a stream: want 1 to 64 letters`},
		{"cameras: [", "line.yaml:1: did not find"},
		{"cameras:\n- name: a\n  source: a\ncameras:\n- name: b\n  source: b\n",
			"line.yaml:4: cameras is set a second time, first in line 1"},
		{"a: 1\n---\nb: 2", "line.yaml:2: a second document"},
	} {
		if _, err := parseLine("line.yaml", []byte(x.text), (*streamCmd).check); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: %v, want %s", x.text, err, x.want)
		}
	}
	r := start(t, "run", filepath.Join(t.TempDir(), "none.yaml"))
	if code := r.wait(); code != exitUsage || !strings.Contains(r.err.String(), "no such file") {
		t.Errorf("%d: %s", code, r.err)
	}
}

// What settings mean on the host is looked at before anything starts: one that is wrong would wait for ever, as a
// camera that is away does.
func TestRunLooksFirst(t *testing.T) {
	dir := t.TempDir()
	regions := regionsFile(t, 160, 120)
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	bad := write("bad.json", "[{}]")
	write("a.png", "")
	for _, x := range []struct {
		settings string
		line     int
		want     string
	}{
		{"source: " + dir + "/none\n  limit: mean > 3", 5, dir + "/none: no such file"},
		{"source: " + dir + "/a.png\n  limit: mean > 3", 5, "a picture is no stream"},
		{"source: " + dir + "/\n  limit: mean > 3\n  set: [ExposureTiem=3]", 7, "--set: only cameras have it, and " + dir},
		{"source: " + dir + "/\n  limit: mean > 3\n  no-resend: true", 7, "--no-resend: only cameras have it"},
		{"source: LINE7\n  limit: mean > 3\n  layout: 640x480:Mono8", 7, "--layout: a camera says itself"},
		{"source: http://x/y\n  limit: mean > 3", 5, "want rtsp://"},
		{"source: LINE7\n  regions: " + dir + "/none.json", 6, dir + "/none.json: no such file"},
		{"source: LINE7\n  regions: " + bad, 6, bad + ": regions[0]"},
		{"source: LINE7\n  limit: [mean > 3, meen > 3]", 6, `--limit "meen > 3": `},
		{"source: LINE7\n  recipe: board@x", 6, "--recipe: "},
		{"source: LINE7\n  regions: " + regions + "\n  ca: " + dir + "/none.pem", 0, "none.pem"},
	} {
		file := write("line.yaml", "defaults:\n  addr: 127.0.0.1:1\ncameras:\n- name: one\n  "+x.settings+"\n")
		want := x.want
		if x.line > 0 {
			want = fmt.Sprintf("%s:%d: camera one: ", file, x.line)
		}
		r := start(t, "run", file)
		if code := r.wait(); code != exitUsage || !strings.Contains(r.err.String(), want) ||
			!strings.Contains(r.err.String(), x.want) || strings.Count(r.err.String(), "\n") != 1 {
			t.Errorf("%s: %d: %s, want %s and %s", x.settings, code, r.err, want, x.want)
		}
	}
}

// A list without a camera has the same exit code in both forms.
func TestListNothing(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"list"}, {"list", "--json"}} {
		r := start(t, args...)
		code := r.wait()
		want := exitVoid
		if strings.Contains(strings.ToLower(r.out.String()), "address") { // there is a camera in this network
			want = exitOK
		}
		if code != want || (want == exitVoid) != strings.Contains(r.err.String(), "no camera answers") {
			t.Errorf("%q: %d: %s%s", args, code, r.out, r.err)
		}
	}
}

// The file beside the systemd unit is one.
func TestLineExample(t *testing.T) {
	text, err := os.ReadFile("deploy/camera.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all, err := parseLine("camera.yaml", text, (*streamCmd).check)
	if err != nil || len(all) != 3 {
		t.Fatalf("%d cameras, %v", len(all), err)
	}
	if c := all[0]; len(c.Set) != 2 || c.Set[0] != "ExposureTime=500" || c.Recipe == "" || c.Addr != all[1].Addr {
		t.Errorf("%+v", c)
	}
}

// Pictures that a folder takes in before its server is there are parts.
func TestRunBeforeServer(t *testing.T) {
	t.Parallel()
	s := startInspector(t, false)
	s.stop()
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "line.yaml")
	text := fmt.Sprintf("cameras: [{name: in, source: %s, addr: '%s', limit: mean > 3, count: 2, reconnect: 100ms}]",
		dir, s.addr)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, "run", file, "--json")
	r.err.await(t, "that it waits", func(s string) bool { return strings.Contains(s, "first picture") })
	writePNG(t, filepath.Join(dir, "a.png"), picture(0))
	r.err.await(t, "that the server is away", func(s string) bool { return strings.Contains(s, "refused") })
	s.start()
	r.out.await(t, "the first part", func(s string) bool { return lines(s) == 1 })
	writePNG(t, filepath.Join(dir, "b.png"), picture(0))
	if code := r.wait(); code != exitOK || strings.Count(r.err.String(), "refused") != 1 {
		t.Errorf("%d: %s", code, r.err)
	}
	for i, x := range r.rows(t) {
		if x.Part != fmt.Sprintf("in-%d", i) || x.Data["file"] != []string{"a.png", "b.png"}[i] {
			t.Errorf("%+v", x)
		}
	}
}

// What a folder takes in while its stream can't begin, and is started again, are parts: here until its recipe is there.
func TestRunFolderAgain(t *testing.T) {
	s := startInspector(t, false)
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "line.yaml")
	text := fmt.Sprintf("cameras: [{name: in, source: %s, addr: '%s', recipe: later, count: 4, reconnect: 300ms}]", dir,
		s.addr)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	writePNG(t, filepath.Join(dir, "before.png"), picture(0))
	r := start(t, "run", file, "--json")
	r.err.await(t, "that it waits", func(s string) bool { return strings.Contains(s, "first picture") })
	writePNG(t, filepath.Join(dir, "a.png"), picture(0))
	r.err.await(t, "that there is no recipe", func(s string) bool { return strings.Contains(s, "later") })
	for _, name := range []string{"b.png", "c.png"} {
		writePNG(t, filepath.Join(dir, name), picture(0))
		time.Sleep(200 * time.Millisecond) // it is tried again meanwhile
	}
	c, err := clients.Dial(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in, err := cli.LoadInspection(regionsFile(t, 160, 120), false, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.PutRecipe(t.Context(), &polyscanv1.Recipe{Name: "later", RegionSet: in.GetRegionSet()}, nil); err != nil {
		t.Fatal(err)
	}
	r.out.await(t, "what had come", func(s string) bool { return lines(s) == 3 })
	writePNG(t, filepath.Join(dir, "d.png"), picture(0))
	if code := r.wait(); code != exitOK {
		t.Errorf("%d: %s", code, r.err)
	}
	for i, x := range r.rows(t) {
		if x.Part != fmt.Sprintf("in-%d", i) || x.Data["file"] != []string{"a.png", "b.png", "c.png", "d.png"}[i] {
			t.Errorf("%+v", x)
		}
	}
}

// Cameras of a file stream beside each other into their servers. One that isn't there yet is waited for, and a server
// that starts anew costs what it had.
func TestRun(t *testing.T) {
	t.Parallel()
	s, other := startInspector(t, false), startInspector(t, true)
	one := simulate(t, func(c *simulator.Config) { c.Serial, c.Rate = "ONE", 100 })
	l, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	later := l.LocalAddr().String()
	l.Close()
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web.Close()
	file := filepath.Join(t.TempDir(), "line.yaml")
	text := fmt.Sprintf(`defaults:
  addr: %s
  reconnect: 100ms
  regions: %s
cameras:
- {name: one, source: %s, set: [ExposureTime=50, Gain=3]}
- name: two
  source: %s
  addr: %s
`, s.addr, regionsFile(t, 160, 120), one.Addr(), later, other.addr)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, "run", file, "--json", "--http", web.Addr().String())
	count := func(name string) func(string) bool {
		n := strings.Count(r.out.String(), `"part":"`+name+"-")
		return func(s string) bool { return strings.Count(s, `"part":"`+name+"-") >= n+10 }
	}
	r.out.await(t, "parts of one", count("one"))
	r.err.await(t, "that two is away", func(s string) bool { return strings.Contains(s, "camera: two: ") })
	addr, err := net.ResolveUDPAddr("udp4", later)
	if err != nil {
		t.Fatal(err)
	}
	two := simulate(t, func(c *simulator.Config) { c.Addr, c.Serial, c.Rate = addr.AddrPort(), "TWO", 100 })
	r.out.await(t, "parts of two", count("two"))
	s.stop()
	r.out.await(t, "parts of two without the server of one", count("two"))
	s.start()
	r.err.await(t, "a new session of one", func(s string) bool {
		return strings.Contains(s,
			"camera: one: a new session")
	})
	r.out.await(t, "parts of one", count("one"))
	body := get(t, "http://"+web.Addr().String()+"/metrics")
	for _, want := range []string{`camera_up{camera="one"} 1`, `camera_up{camera="two"} 1`,
		`camera_verdict_seconds_count{camera="two"} `,
		`camera_parts_total{camera="two",verdict="PASS"} `} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is not in\n%s", want, body)
		}
	}
	r.cancel()
	if code := r.wait(); code != exitFail {
		t.Fatalf("%d: %s", code, r.err)
	}
	rows := map[string][]row{}
	for _, x := range r.rows(t) {
		name, _, _ := strings.Cut(x.Part, "-")
		rows[name] = append(rows[name], x)
	}
	for name, all := range rows {
		i, m := checkRows(t, all)
		t.Logf("%s: %d parts, %d incomplete, %d missing", name, len(all), i, m)
	}
	if two.Stats().Blocks == 0 {
		t.Error("the second camera did nothing")
	}
}
