package main

import (
	"bytes"
	"fmt"
	"image"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/camera/internal/gvcp"
	"github.com/polyscan/polyscan/clients/camera/internal/gvsp"
	"github.com/polyscan/polyscan/clients/camera/internal/simulator"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Every part of a camera comes with its verdict, in memory that the server shares and over the network.
func TestStream(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprint("shared=", shared), func(t *testing.T) {
			s := startInspector(t, shared)
			cam := simulate(t, func(*simulator.Config) {})
			transport := map[bool]string{false: "tcp", true: "shm"}[shared]
			r := start(t, "stream", cam.Addr().String(), "--addr", s.addr, "-r", regionsFile(t, 160, 120), "--json",
				"--count", "40",
				"--transport", transport)
			if code := r.wait(); code != exitFail { // some have spots
				t.Fatalf("%d: %s", code, r.err)
			}
			rows := r.rows(t)
			if i, m := checkRows(t, rows); len(rows) != 40 || i+m > 0 {
				t.Errorf("%d rows, %d incomplete, %d missing", len(rows), i, m)
			}
			if rows[3].Part != "T1-3" || rows[3].LatencyMS <= 0 {
				t.Errorf("%+v", rows[3])
			}
		})
	}
}

// What is lost comes again where the camera keeps it, and names its parts where it doesn't; never does a part pass that
// lacks something.
func TestLoss(t *testing.T) {
	t.Parallel()
	s := startInspector(t, false)
	for _, keeps := range []bool{true, false} {
		t.Run(fmt.Sprint("keeps=", keeps), func(t *testing.T) {
			t.Parallel()
			cam := simulate(t, func(c *simulator.Config) {
				c.Loss, c.Reorder, c.Duplicate, c.Seed, c.NoResend, c.Extended = 0.01, 0.02, 0.02, 3, !keeps, keeps
			})
			r := start(t, "stream", cam.Addr().String(), "--addr", s.addr, "-r", regionsFile(t, 160, 120), "--json",
				"--count", "120",
				"--packet-size", "576")
			if code := r.wait(); code != exitFail {
				t.Fatalf("%d: %s", code, r.err)
			}
			rows := r.rows(t)
			incomplete, missing := checkRows(t, rows)
			stats := cam.Stats()
			t.Logf("%d parts: %d incomplete, %d missing; %+v", len(rows), incomplete, missing, stats)
			if len(rows) != 120 || stats.Lost == 0 || stats.Reordered == 0 || stats.Doubled == 0 {
				t.Errorf("%d rows, %+v", len(rows), stats)
			}
			// A machine that is busy may be too late for some.
			if keeps && (stats.Resent == 0 || incomplete+missing > 30) || !keeps && incomplete == 0 {
				t.Errorf("%d incomplete, %+v", incomplete, stats)
			}
		})
	}
}

// A part that lacks lines which no region needs is incomplete, too, and those who watch the server see the same.
func TestLossElsewhere(t *testing.T) {
	s := startInspector(t, false)
	verdicts := watchVerdicts(t, s.addr)
	cam := simulate(t, func(c *simulator.Config) { c.Loss, c.Seed, c.NoResend = 0.01, 3, true })
	file := filepath.Join(t.TempDir(), "top.json")
	top := `[{"name": "top", "rings": [[[0, 0], [160, 0], [160, 1], [0, 1]]], "limits": ["mean in [1, 255]"]}]`
	if err := os.WriteFile(file, []byte(top), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, "stream", cam.Addr().String(), "--addr", s.addr, "-r", file, "--json", "--count", "100",
		"--packet-size", "576")
	if code := r.wait(); code != exitFail {
		t.Fatalf("%d: %s", code, r.err)
	}
	rows, incomplete := r.rows(t), 0
	for i, x := range rows {
		if x.Number != uint64(i) || (x.MissingLines == 0) != (x.Verdict == "PASS") {
			t.Fatalf("%+v", x)
		}
		if x.Verdict == verdictIncomplete {
			incomplete++
		}
	}
	if len(rows) != 100 || incomplete < 15 {
		t.Errorf("%d rows, %d of which are incomplete", len(rows), incomplete)
	}
	for i := 0; i < len(rows); i++ {
		if rows[i].Verdict == verdictMissing { // of which the server had nothing
			continue
		}
		x, v := rows[i], <-verdicts
		if x.Part != v.GetPartId() || (v.GetVerdict() == polyscanv1.Verdict_VERDICT_PASS) != (x.Verdict == "PASS") ||
			v.GetIncomplete() != (x.Verdict == verdictIncomplete) || int(v.GetMissingLines()) != x.MissingLines {
			t.Fatalf("watchers see %v, and the camera %+v", v, x)
		}
	}
}

// What a camera says of its blocks is kept with the parts that begin in them: its clock, its counters of lines and of
// the encoder. Padding of lines is left out.
func TestChunks(t *testing.T) {
	s := startInspector(t, false)
	for _, pad := range []int{0, 3} {
		for _, extended := range []bool{false, true} {
			verdicts := watchVerdicts(t, s.addr)
			cam := simulate(t, func(c *simulator.Config) {
				c.Pad, c.Lines, c.Height, c.Rate, c.Extended = pad, true, 30, 400, extended
				c.Draw = func(block uint64, pixels []byte) {
					for i := range pixels {
						pixels[i] = 100
					}
				}
			})
			r := start(t, "stream", cam.Addr().String(), "--addr", s.addr, "--limit", "min >= 100", "--json", "--count",
				"30", "--part-lines", "20", "--every", "50", "--packet-size", "576", "--set", "ChunkModeActive=true")
			if code := r.wait(); code != exitOK {
				t.Fatalf("%d: %s%s", code, r.err, r.out)
			}
			for _, x := range r.rows(t) {
				// Those who watch the server see the same.
				v, kept := <-verdicts, fmt.Sprintf("block %d, timestamp %s, ChunkFrameID %s, ", x.Block,
					x.Data["timestamp"], x.Data["ChunkFrameID"])
				if v.GetPartId() != x.Part || !strings.HasPrefix(v.GetFrameId(), kept) ||
					!strings.Contains(v.GetFrameId(), "ChunkEncoderValue "+x.Data["ChunkEncoderValue"]) {
					t.Fatalf("watchers see %s of %q, want %s of %q", v.GetPartId(), v.GetFrameId(), x.Part, kept)
				}
				block := x.Number * 50 / 30
				want := map[string]string{"ChunkFrameID": fmt.Sprint(block + 1),
					"ChunkLineCounter": fmt.Sprint(block * 30), "ChunkEncoderValue": fmt.Sprint(block * 120),
					"ChunkTimestamp": x.Data["timestamp"], "timestamp": x.Data["timestamp"]}
				if !maps.Equal(x.Data, want) || x.Block != block+1 || x.Verdict != "PASS" {
					t.Fatalf("%+v, want %v", x, want)
				}
			}
		}
	}
}

// Chunks that are lost cost no line, and lost lines cost what is behind them alone.
func TestChunksLost(t *testing.T) {
	s := startInspector(t, false)
	cam := simulate(t, func(c *simulator.Config) { c.Loss, c.Seed, c.NoResend = 0.02, 5, true })
	r := start(t, "stream", cam.Addr().String(), "--addr", s.addr, "-r", regionsFile(t, 160, 120), "--json", "--count",
		"100",
		"--packet-size", "576", "--set", "ChunkModeActive=true")
	if code := r.wait(); code != exitFail {
		t.Fatalf("%d: %s", code, r.err)
	}
	rows := r.rows(t)
	incomplete, missing := checkRows(t, rows)
	with := 0
	for _, x := range rows {
		if id, ok := x.Data["ChunkFrameID"]; ok {
			with++
			if id != fmt.Sprint(x.Block) {
				t.Errorf("%+v", x)
			}
		}
	}
	t.Logf("%d incomplete, %d missing, %d with chunks", incomplete, missing, with)
	if incomplete == 0 || with < 50 {
		t.Errorf("%d incomplete, %d of %d with chunks", incomplete, with, len(rows))
	}
}

// Events that the camera tells of are counted by their names, and some are printed.
func TestEvents(t *testing.T) {
	s := startInspector(t, false)
	for _, extended := range []bool{false, true} {
		cam := simulate(t, func(c *simulator.Config) { c.Extended = extended })
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := l.Addr().String()
		l.Close()
		r := start(t, "stream", cam.Addr().String(), "--addr", s.addr, "-r", regionsFile(t, 160, 120), "--json",
			"--http", at, "--set", "EventNotification=On")
		r.out.await(t, "parts", func(s string) bool { return lines(s) >= 20 })
		text := get(t, "http://"+at+"/metrics")
		m := regexp.MustCompile(`camera_events_total\{camera="T1",event="EventFrameStart"\} (\d+)`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no events in\n%s", text)
		}
		if n, _ := strconv.Atoi(m[1]); n < 20 {
			t.Errorf("%d events", n)
		}
		r.cancel()
		r.wait()
		if !strings.Contains(r.err.String(), "the camera's event EventFrameStart, id 0x9001, of block 1") {
			t.Errorf("%s", r.err)
		}
		if st := cam.Stats(); st.Malformed > 0 {
			t.Errorf("%+v", st)
		}
	}
}

// Lines of a line camera make parts of another length than its blocks.
func TestLines(t *testing.T) {
	s := startInspector(t, false)
	cam := simulate(t, func(c *simulator.Config) {
		c.Lines, c.Height, c.Rate, c.Format = true, 30, 500, gvsp.Mono16
		c.Draw = func(block uint64, pixels []byte) { clear(pixels) }
	})
	r := start(t, "stream", cam.Addr().String(), "--addr", s.addr, "-r", regionsFile(t, 160, 120), "--json", "--count",
		"30",
		"--part-lines", "100", "--every", "70")
	if code := r.wait(); code != exitFail { // black isn't within the limit
		t.Fatalf("%d: %s", code, r.err)
	}
	for i, x := range r.rows(t) {
		if x.Number != uint64(i) || x.Verdict != "FAIL" || x.Block != uint64(i*70/30+1) || x.MissingLines != 0 {
			t.Fatalf("%+v", x)
		}
	}
}

// A camera whose cable is out for a moment goes on; the parts that it took meanwhile are missing by name.
func TestUnplugged(t *testing.T) {
	t.Parallel()
	s := startInspector(t, false)
	cam := simulate(t, func(c *simulator.Config) { c.Rate = 50 })
	r := start(t, "stream", cam.Addr().String(), "--addr", s.addr, "-r", regionsFile(t, 160, 120), "--json")
	r.out.await(t, "parts", func(s string) bool { return lines(s) >= 5 })
	before := cam.Stats().Blocks
	cam.Plug(false)
	for cam.Stats().Blocks < before+50 { // a second
		time.Sleep(5 * time.Millisecond) // between looks at what the camera did
	}
	cam.Plug(true)
	at := lines(r.out.String())
	r.out.await(t, "parts after it", func(s string) bool { return lines(s) >= at+70 })
	r.cancel()
	if code := r.wait(); code != exitFail {
		t.Fatalf("%d: %s", code, r.err)
	}
	rows := r.rows(t)
	_, missing := checkRows(t, rows)
	last := rows[len(rows)-1]
	if missing < 40 || last.Number != last.Block-1 {
		t.Errorf("%d of %d parts are missing; the last one is %+v\n%s", missing, len(rows), last, r.err)
	}
}

// Stage camera of .ci/run has the tests of streams run with a clock that is set back by an hour, and forth again, all
// the time: that it is, is seen here.
func TestHostClock(t *testing.T) {
	if os.Getenv("CAMERA_CLOCK") == "" {
		t.Skip("the clock is that of the host; stage camera of .ci/run has another")
	}
	for before := time.Now().Round(0); ; time.Sleep(time.Millisecond) {
		now := time.Now().Round(0)
		if now.Before(before.Add(-time.Minute)) {
			return
		}
		before = now
	}
}

// A camera that comes back at another address is found by its serial number.
func TestAddressChange(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the time until a camera counts as lost")
	}
	s := startInspector(t, false)
	if c, err := net.ListenUDP("udp4",
		net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.26.0.1:3956"))); err != nil {
		t.Skipf("port %d is taken: %v", gvcp.Port, err)
	} else {
		c.Close()
	}
	at := func(addr string) *simulator.Camera {
		return simulate(t, func(c *simulator.Config) {
			c.Addr, c.Serial, c.Rate = netip.MustParseAddrPort(addr), "MOVES-26", 50
		})
	}
	cam := at("127.26.0.1:3956")
	r := start(t, "stream", "127.26.0.1", "--addr", s.addr, "-r", regionsFile(t, 160, 120), "--json")
	r.out.await(t, "parts", func(s string) bool { return lines(s) >= 5 })
	cam.Close()
	at("127.26.0.2:3956")
	r.err.await(t, "the new address", func(s string) bool {
		return strings.Contains(s, "streams again, from 127.26.0.2")
	})
	n := lines(r.out.String())
	r.out.await(t, "parts after it", func(s string) bool { return lines(s) >= n+5 })
	r.cancel()
	if code := r.wait(); code != exitFail && code != exitOK {
		t.Fatalf("%d: %s", code, r.err)
	}
	for i, x := range r.rows(t) {
		if x.Number != uint64(i) || x.Verdict == verdictIncomplete {
			t.Fatalf("%+v", x)
		}
	}
}

// A server that ends and starts anew costs the parts that it had, by name, and nothing more.
func TestServerRestart(t *testing.T) {
	s := startInspector(t, false)
	cam := simulate(t, func(c *simulator.Config) { c.Rate = 50 })
	r := start(t, "stream", cam.Addr().String(), "--addr", s.addr, "-r", regionsFile(t, 160, 120), "--json")
	r.out.await(t, "parts", func(s string) bool { return lines(s) >= 5 })
	s.stop()
	s.start()
	r.err.await(t, "a new session", func(s string) bool { return strings.Contains(s, "a new session") })
	n := lines(r.out.String())
	r.out.await(t, "parts after it", func(s string) bool { return lines(s) >= n+20 })
	r.cancel()
	if code := r.wait(); code != exitFail {
		t.Fatalf("%d: %s", code, r.err)
	}
	rows := r.rows(t)
	incomplete, missing := checkRows(t, rows)
	last := rows[len(rows)-1]
	if last.Number != last.Block-1 {
		t.Errorf("%d incomplete, %d missing; the last one is %+v", incomplete, missing, last)
	}
}

// A camera that has another program is refused, by that name, and so is a format that the server doesn't take.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := startInspector(t, false)
	cam := simulate(t, func(*simulator.Config) {})
	other, err := gvcp.Dial(cam.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Control(t.Context()); err != nil {
		t.Fatal(err)
	}
	file := regionsFile(t, 160, 120)
	addr := cam.Addr().String()
	silent, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	free := simulate(t, func(*simulator.Config) {}).Addr().String()
	drawn := filepath.Join(t.TempDir(), "drawn.json")
	text := `{"drawn_on":{"width":10,"height":10},"regions":[{"name":"a","rings":[[[1,1],[9,1],[9,9]]],"limits":["min > 3"]}]}`
	if err := os.WriteFile(drawn, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"stream", addr, "--addr", s.addr, "-r", file}, exitLost, "another program controls it"},
		{[]string{"stream", silent.LocalAddr().String(), "--addr", s.addr, "-r", file}, exitLost,
			fmt.Sprintf("camera: camera at %v: the camera doesn't answer\n", silent.LocalAddr())},
		{[]string{"stream", free, "--addr", s.addr}, exitUsage,
			"one of --regions FILE, --recipe NAME and --limit LIMIT"},
		{[]string{"stream", free, "--addr", s.addr, "--limit", "meen in [1, 2]"}, exitUsage,
			`camera: --limit "meen in [1, 2]": `},
		{[]string{"stream", free, "--addr", s.addr, "--limit", "blobs < 3"}, exitUsage,
			`camera: --limit "blobs < 3": blobs aren't found in line-scans`},
		{[]string{"stream", free, "--addr", s.addr, "--limit", `ncc of "golden" > 0.3`}, exitUsage,
			`camera: --limit: frames: "golden": `},
		{[]string{"stream", free, "--addr", s.addr, "--limit", "r.mean > 3", "--limit", "g.mean > 3"}, exitUsage,
			`camera: --limit "r.mean > 3": the frame has no red channel (GRAY8) (and 1 more)` + "\n"},
		{[]string{"stream", free, "--addr", s.addr, "-r", drawn}, exitUsage,
			"camera: the width of the frames = 160: must be 10: the regions were drawn on a frame of 10x10 pixels\n"},
		{[]string{"stream", free, "--addr", s.addr, "--recipe", "gone", "--reconnect", "0s"}, exitUsage,
			`camera: recipe "gone": not stored`},
		{[]string{"stream", free, "--addr", s.addr, "-r", file, "--every=-1"}, exitUsage, "--every -1"},
		{[]string{"stream", free, "--addr", s.addr, "-r", file, "--packet-size", "577"}, exitUsage,
			"--packet-size 577"},
		{[]string{"stream", free, "--addr", s.addr, "-r", file + "x"}, exitUsage, "no such file"},
		{[]string{"stream", free, "--addr", s.addr, "-r", file, "--set", "Width=0"}, exitUsage, "must be 1 to 160"},
		{[]string{"stream", free, "--addr", s.addr, "--recipe", "none@99"}, exitUsage, `recipe "none"`},
		{[]string{"stream", free, "--addr", s.addr, "-r", file, "--transport", "shm"}, exitLost, "shared memory"},
		{[]string{"stream", free, "-r", file, "--addr", "127.0.0.1:1"}, exitLost, "refused"},
		{[]string{"set", free, "Width=161"}, exitUsage, "must be 1 to 160"},
		{[]string{"set", free, "PixelFormat=RGB8"}, exitUsage, "only be read"},
		{[]string{"set", free, "Width"}, exitUsage, "feature Width: it is no command: its kind is Integer"},
		{[]string{"stream", "./nope.mkv", "--addr", s.addr, "-r", file}, exitUsage,
			"camera: ./nope.mkv: no such file or directory\n"},
		{[]string{"simulate", "--help"}, exitOK, "--loss=SHARE"},
		{[]string{"features", free, "Nothing"}, exitUsage, "no feature of that name"},
		{[]string{"simulate", "--listen", "::1"}, exitUsage, "IPv4"},
		{[]string{"simulate", filepath.Join(t.TempDir())}, exitUsage, "no frames (.png"},
		{[]string{"simulate", "--loss", "NaN"}, exitUsage, `camera: --loss: "NaN" is no number in plain digits`},
		{[]string{"simulate", "--loss", "1.5"}, exitUsage, "camera: --loss 1.5: must be 0 to 1"},
		{[]string{"simulate", "--reorder", "2"}, exitUsage, "camera: --reorder 2: must be 0 to 1"},
		{[]string{"simulate", "--duplicate=-1"}, exitUsage, "camera: --duplicate -1: must be 0 to 1"},
		{[]string{"simulate", "--rate", "NaN"}, exitUsage, `camera: --rate: "NaN" is no number in plain digits`},
		{[]string{"simulate", "--rate", "0.01"}, exitUsage, "camera: --rate 0.01: must be 0.1 to 100000"},
		{[]string{"simulate", "--width", "0"}, exitUsage, "camera: width 0: must be 1 to"},
		{[]string{"simulate", "--listen", addr}, exitUsage, "address already in use"},
		{[]string{"nothing"}, exitUsage, "unexpected"},
	} {
		t.Run(strings.Join(x.args[max(0, len(x.args)-2):], " "), func(t *testing.T) {
			r := start(t, x.args...)
			if code := r.wait(); code != x.code || !strings.Contains(r.err.String()+r.out.String(), x.want) {
				t.Errorf("%d: %s%s\nwant %d: %s", code, r.err, r.out, x.code, x.want)
			}
		})
	}
}

// What parts are missing for is told in the words of the command line: a lost connection, without gRPC's wrapping.
func TestWords(t *testing.T) {
	s := startInspector(t, false)
	s.stop()
	client, err := clients.Dial(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.GetDevice(t.Context())
	got := (&streamCmd{Addr: s.addr}).words(err, nil)
	want := fmt.Sprintf("%s: no connection: dial tcp %[1]s: connect: connection refused; is the server running there?", s.addr)
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// What a regions file says beside its regions holds, and what nobody would read of it is an error: a camera streams for
// verdicts.
func TestRegionsFileKeys(t *testing.T) {
	s := startInspector(t, false)
	addr := simulate(t, func(*simulator.Config) {}).Addr().String()
	for _, x := range []struct {
		keys, limits string
		code         int
		want         string
	}{
		{`"scale": {"mm_per_pixel": [0.5, 0.5]}`, `"limits": ["area in [25, 25] mm2"]`, exitOK, ""},
		{`"reductions": ["meen"]`, `"limits": ["mean >= 0.1"]`, exitUsage, `did you mean "mean"?`},
		{`"reductions": ["blobs(>= 128)"]`, `"limits": ["mean >= 0.1"]`, exitUsage, "blobs aren't found in line-scans"},
		{`"frames": {"golden": "kept"}`, `"limits": ["mean >= 0.1"]`, exitUsage, "is spoken of by no limit"},
		{`"name": "r"`, `"limits": ["meen < 3"]`, exitUsage, `r.json: regions[0] "a": limits[0] = "meen < 3": column 1`},
		{`"name": "r"`, `"limit": ["mean above 250"]`, exitUsage, `a key is ignored that looks like "limits"`},
	} {
		file := filepath.Join(t.TempDir(), "r.json")
		text := fmt.Sprintf(`{%s, "regions": [{"name": "a", "rings": [[[1, 1], [11, 1], [11, 11], [1, 11]]], %s}]}`,
			x.keys, x.limits)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := start(t, "stream", addr, "--addr", s.addr, "-r", file, "--count", "2")
		if code := r.wait(); code != x.code || !strings.Contains(r.err.String(), x.want) {
			t.Errorf("%s, %s: %d: %s\nwant %d: %s", x.keys, x.limits, code, r.err, x.code, x.want)
		}
	}
}

// The cameras of a file have errors of their regions by the file of these, too, and limits of their own by the flag.
func TestLineRefused(t *testing.T) {
	s := startInspector(t, false)
	dir := t.TempDir()
	regions, line := filepath.Join(dir, "r.json"), filepath.Join(dir, "line.yaml")
	text := `[{"name": "a", "rings": [[[1, 1], [11, 1], [11, 11], [1, 11]]], "limits": ["mean < 3", "meen < 3"]}]`
	if err := os.WriteFile(regions, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[string]string{"regions: " + regions: `line.yaml:1: camera a: ` + regions +
		`: regions[0] "a": limits[1] = "meen < 3": `,
		"limit: [mean < 3, meen < 3]": `line.yaml:1: camera a: --limit "meen < 3": `} {
		text := fmt.Sprintf("cameras: [{name: a, source: %s/, layout: 32x32:Mono8, addr: '%s', reconnect: 0s, %s}]", dir,
			s.addr, setting)
		if err := os.WriteFile(line, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := start(t, "run", line)
		if code := r.wait(); code != exitUsage || !strings.Contains(r.err.String(), want) {
			t.Errorf("%s: %d: %s", setting, code, r.err)
		}
	}
}

// A camera's Bayer frames have the colours of what it sees, in every format; of one that lost lines the rest comes, and
// it is incomplete.
func TestBayer(t *testing.T) {
	t.Parallel()
	s := startInspector(t, false)
	dir := t.TempDir()
	colour := image.NewNRGBA(image.Rect(0, 0, 512, 49)) // every second frame begins with an odd line
	for i := range 512 * 49 {
		copy(colour.Pix[4*i:], []byte{200, 100, 50, 255})
	}
	writePNG(t, filepath.Join(dir, "orange.png"), colour)
	for _, format := range []string{"BayerRG8", "BayerGR12", "BayerGB10p", "BayerBG16", "BayerGR12p", "YUV422_8",
		"YUV422_8_UYVY", "BGR8", "RGBa8"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			sim := simulateCmd{Source: dir, Format: format, Listen: "127.0.0.1:0", Serial: "B1", Rate: 100}
			cfg, err := sim.config(func(text string) { t.Error(text) })
			if err != nil {
				t.Fatal(err)
			}
			cfg.Loss, cfg.NoResend, cfg.Seed = 0.005, true, 5
			cam, err := simulator.Start(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer cam.Close()
			args := []string{"stream", cam.Addr().String(), "--addr", s.addr, "--json", "--count", "60",
				"--packet-size", "576"}
			// Its hue is 20, its saturation 75 %, its value 78.4 %, at every pixel.
			for _, l := range []string{"value.min >= 77", "value.max <= 80", "hue.mean in [18.5, 21.5]",
				"saturation.mean in [73, 77]"} {
				args = append(args, "--limit", l)
			}
			r := start(t, args...)
			if code := r.wait(); code != exitFail { // some are incomplete
				t.Fatalf("%d: %s", code, r.err)
			}
			count := map[string]int{}
			for _, x := range r.rows(t) {
				if count[x.Verdict]++; x.Verdict == "FAIL" || x.Verdict == "PASS" && x.MissingLines > 0 {
					t.Errorf("%+v", x)
				}
			}
			if count["PASS"] < 10 || count[verdictIncomplete] < 5 {
				t.Errorf("%v", count)
			}
			if !strings.HasPrefix(format, "Bayer") {
				return
			}
			cfg.Loss = 0.3 // single lines are left
			worse, err := simulator.Start(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer worse.Close()
			r = start(t, "stream", worse.Addr().String(), "--addr", s.addr, "--limit", "hue.mean in [18.5, 21.5]",
				"--count", "20", "--packet-size", "576")
			if code := r.wait(); code != exitFail || strings.Contains(r.out.String(), "PASS") ||
				strings.Contains(r.err.String(), "BAD") {
				t.Errorf("%d: %s%s", code, r.out, r.err)
			}
			r = start(t, "stream", cam.Addr().String(), "--addr", s.addr, "--limit", "mean > 0", "--part-lines", "98")
			if code := r.wait(); code != exitUsage || !strings.Contains(r.err.String(), "a frame of "+format+
				" is a part of its own") {
				t.Errorf("%d: %s", code, r.err)
			}
		})
	}
}

// Samples of a picture in all formats are those that a reader of single bits finds.
func TestRecode(t *testing.T) {
	const width = 8
	row := make([]byte, 3*width)
	for i := range row {
		row[i] = byte(37*i + 11)
	}
	for name, first := range map[string]string{"RG": "RGGB", "GR": "GRBG", "GB": "GBRG", "BG": "BGGR"} {
		for depth, wide := range map[string]int{"8": 8, "10": 16, "12": 16, "14": 16, "16": 16, "10p": 10, "12p": 12} {
			format, err := gvsp.ParseFormat("Bayer" + name + depth)
			if err != nil {
				t.Fatal(err)
			}
			bits, _ := strconv.Atoi(strings.TrimSuffix(depth, "p"))
			for y := range 3 {
				to := bytes.Repeat([]byte{0xa5}, gvsp.Geometry{Format: format, Width: width}.RowBytes())
				recode(to, format, row, gvsp.RGB8, width, y)
				for x := range width {
					got := 0
					for i := range wide {
						got |= int(to[(x*wide+i)/8]) >> ((x*wide + i) % 8) & 1 << i
					}
					v := row[3*x+strings.IndexByte("RGB", first[y%2*2+x%2])]
					if want := (int(v)<<8 | int(v)) >> (16 - bits); got != want {
						t.Fatalf("%v, row %d, pixel %d: %#x, want %#x", format, y, x, got, want)
					}
				}
			}
		}
	}
}

// Formats that the server has no name for are refused by theirs.
func TestFormatRefused(t *testing.T) {
	if err := (gvsp.Geometry{Format: 0x010c002b, Width: 4, Height: 4, Unit: 100}).Check(); err == nil ||
		!strings.Contains(err.Error(), "BayerRG12Packed") {
		t.Errorf("%v", err)
	}
	for name, want := range map[string]polyscanv1.PixelFormat{"BayerRG8": clients.BayerRG8,
		"BayerGB8": clients.BayerGB8, "BayerBG10": clients.BayerBG16LE, "BayerGR16": clients.BayerGR16LE,
		"BayerGR10p": clients.BayerGR10P,
		"BayerBG12p": clients.BayerBG12P} {
		if f, err := gvsp.ParseFormat(name); err != nil || pixelFormat(f) != want {
			t.Errorf("%s: %v, %v", name, pixelFormat(f), err)
		}
	}
	for f, bits := range map[gvsp.PixelFormat]int{gvsp.Mono8: 0, gvsp.Mono10: 10, gvsp.Mono16: 16, gvsp.RGB8: 0,
		gvsp.BGR8: 0, gvsp.RGBa8: 0, gvsp.Mono10p: 0,
		gvsp.Mono12p: 0, gvsp.YUV422: 0, gvsp.YUV422UY: 0} {
		if l, err := f.Layout(); err != nil || l.Bits != bits || pixelFormat(f) == 0 {
			t.Errorf("%v: %+v, %v", f, l, err)
		}
	}
}

// Packed pixels and YUV 4:2:2 go to the server as they are, which sees what the camera saw, in pieces of parts, too.
func TestCameraFormats(t *testing.T) {
	s := startInspector(t, false)
	for f, x := range map[gvsp.PixelFormat]struct {
		fill  byte
		limit string
	}{
		gvsp.Mono10p: {0x55, "mean in [340.9, 341.1]"}, gvsp.Mono12p: {0x55, "mean in [1364.9, 1365.1]"},
		gvsp.YUV422: {128, "mean in [127.9, 128.1]"}, gvsp.YUV422UY: {128, "mean in [127.9, 128.1]"},
	} {
		t.Run(f.String(), func(t *testing.T) {
			cam := simulate(t, func(c *simulator.Config) {
				c.Format, c.Pad, c.Lines, c.Height, c.Rate = f, 3, true, 30, 400
				c.Draw = func(_ uint64, pixels []byte) {
					for i := range pixels {
						pixels[i] = x.fill
					}
				}
			})
			r := start(t, "stream", cam.Addr().String(), "--addr", s.addr, "--limit", x.limit, "--json", "--count", "9",
				"--part-lines", "20", "--packet-size", "576")
			if code := r.wait(); code != exitOK || len(r.rows(t)) != 9 {
				t.Fatalf("%d: %s%s", code, r.err, r.out)
			}
		})
	}
}

// The table is what people read, with a summary below it.
func TestTable(t *testing.T) {
	s := startInspector(t, false)
	cam := simulate(t, func(*simulator.Config) {})
	r := start(t, "stream", cam.Addr().String(), "--addr", s.addr, "-r", regionsFile(t, 160, 120), "--count", "5",
		"--http", "127.0.0.1:0")
	if code := r.wait(); code != exitFail {
		t.Fatalf("%d: %s", code, r.err)
	}
	for _, want := range []string{"polyscan T1: 160 x 120 Mono8", "PART ", "T1-0                  PASS",
		"T1-4                  FAIL",
		"middle: mean ", "5 parts in ", "4 PASS, 1 FAIL, ", "no packet lost", "last packet to verdict p50"} {
		if !strings.Contains(r.out.String(), want) {
			t.Errorf("%q is not in\n%s", want, r.out)
		}
	}
}

func TestMetrics(t *testing.T) {
	s := startInspector(t, false)
	cam := simulate(t, func(*simulator.Config) {})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	r := start(t, "stream", cam.Addr().String(), "--addr", s.addr, "-r", regionsFile(t, 160, 120), "--json", "--http",
		at)
	r.out.await(t, "parts", func(s string) bool { return lines(s) >= 5 })
	text := get(t, "http://"+at+"/metrics")
	for _, want := range []string{`camera_up{camera="T1"} 1`, `camera_parts_total{camera="T1",verdict="FAIL"} `,
		`camera_packets_total{camera="T1"} `,
		`camera_packet_events_total{camera="T1",event="lost"} 0`, `camera_verdict_seconds_count{camera="T1"} `,
		`camera_connections_total{camera="T1"} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
}

func TestFeatures(t *testing.T) {
	cam := simulate(t, func(*simulator.Config) {})
	addr := cam.Addr().String()
	for _, x := range []struct {
		args []string
		want []string
	}{
		{[]string{"set", addr, "Width=80", "ExposureTime=250.5", "DeviceUserID=belt 3", "AcquisitionMode=SingleFrame",
			"AcquisitionStop"},
			[]string{"Width = 80\n", "ExposureTime = 250.5\n", "DeviceUserID = belt 3\n",
				"AcquisitionMode = SingleFrame\n"}},
		{[]string{"features", addr}, []string{"PayloadSize           9600 ",
			"Width                 80           integer", "AcquisitionStart      -            command", "belt 3"}},
		{[]string{"features", addr, "Width", "--json"}, []string{`"value": "80"`, `"settable": true`,
			`"category": "ImageFormatControl"`}},
	} {
		r := start(t, x.args...)
		if code := r.wait(); code != exitOK {
			t.Fatalf("%q: %d: %s", x.args, code, r.err)
		}
		for _, want := range x.want {
			if !strings.Contains(r.out.String(), want) {
				t.Errorf("%q: %q is not in\n%s", x.args, want, r.out)
			}
		}
	}
}

// A part is late by the clock of this program or by that of the server, of the budget that was asked for.
func TestLate(t *testing.T) {
	budget := 5 * time.Millisecond
	late := &polyscanv1.PartResult{Late: true, Times: &polyscanv1.PartTimes{Latency: durationpb.New(6 * budget)}}
	for _, x := range []struct {
		budget       *time.Duration
		o            outcome
		verdict, why string
	}{
		{&budget, outcome{verdict: "PASS", latency: budget}, "PASS", ""},
		{&budget, outcome{verdict: "PASS", latency: 2 * budget}, "LATE", "late: it took 10ms, --budget allows 5ms"},
		{&budget, outcome{verdict: "PASS", result: late}, "LATE", "late: it took 30ms, --budget allows 5ms"},
		{&budget, outcome{verdict: "FAIL", result: late, part: part{reason: "dark"}}, "FAIL",
			"dark; late: it took 30ms, --budget allows 5ms"},
		{nil, outcome{verdict: "PASS", latency: 2 * budget, result: late}, "PASS", ""},
	} {
		var out, errs screen
		s := newStream(&streamCmd{Budget: x.budget, JSON: true}, &env{stdout: &out, stderr: &errs}, newSeconds())
		s.tally.add(x.o)
		row := (&running{out: &out}).rows(t)[0]
		if row.Verdict != x.verdict || row.Why != x.why {
			t.Errorf("%+v: %+v", x, row)
		}
		if err := s.tally.summary(&out); (err == nil) != (x.verdict == "PASS") {
			t.Errorf("%+v: %v", x, err)
		}
	}
}
