package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/polyscan/polyscan/clients/camera/internal/gvcp"
	"github.com/polyscan/polyscan/clients/camera/internal/gvsp"
	"github.com/polyscan/polyscan/clients/camera/internal/simulator"
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
	s := startInspector(t, false)
	for _, keeps := range []bool{true, false} {
		t.Run(fmt.Sprint("keeps=", keeps), func(t *testing.T) {
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

// A part that lacks lines which no region needs is incomplete, too.
func TestLossElsewhere(t *testing.T) {
	s := startInspector(t, false)
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
		return strings.Contains(s,
			"streams again, from 127.26.0.2")
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
	for _, x := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"stream", addr, "--addr", s.addr, "-r", file}, exitLost, "another program controls it"},
		{[]string{"stream", silent.LocalAddr().String(), "--addr", s.addr, "-r", file}, exitLost, "doesn't answer"},
		{[]string{"stream", free, "--addr", s.addr}, exitUsage,
			"one of --regions FILE, --recipe NAME and --limit LIMIT"},
		{[]string{"stream", free, "--addr", s.addr, "--limit", "meen in [1, 2]"}, exitUsage, "meen"},
		{[]string{"stream", free, "--addr", s.addr, "-r", file, "--every=-1"}, exitUsage, "--every -1"},
		{[]string{"stream", free, "--addr", s.addr, "-r", file, "--packet-size", "577"}, exitUsage,
			"--packet-size 577"},
		{[]string{"stream", free, "--addr", s.addr, "-r", file + "x"}, exitUsage, "no such file"},
		{[]string{"stream", free, "--addr", s.addr, "-r", file, "--set", "Width=0"}, exitUsage, "must be 1 to 160"},
		{[]string{"stream", free, "--addr", s.addr, "--recipe", "none"}, exitLost, "none"},
		{[]string{"stream", free, "--addr", s.addr, "-r", file, "--transport", "shm"}, exitLost, "shared memory"},
		{[]string{"stream", free, "-r", file, "--addr", "127.0.0.1:1"}, exitLost, "refused"},
		{[]string{"set", free, "Width=161"}, exitUsage, "must be 1 to 160"},
		{[]string{"set", free, "PixelFormat=RGB8"}, exitUsage, "only be read"},
		{[]string{"features", free, "Nothing"}, exitUsage, "no feature of that name"},
		{[]string{"simulate", "--listen", "::1"}, exitUsage, "IPv4"},
		{[]string{"simulate", filepath.Join(t.TempDir())}, exitUsage, "no picture"},
		{[]string{"simulate", "--loss", "2"}, exitUsage, "0 to 1"},
		{[]string{"simulate", "--listen", addr}, exitUsage, "address already in use"},
		{[]string{"nothing"}, exitUsage, "unexpected"},
	} {
		t.Run(strings.Join(x.args[max(0, len(x.args)-2):], " "), func(t *testing.T) {
			r := start(t, x.args...)
			if code := r.wait(); code != x.code || !strings.Contains(r.err.String(), x.want) {
				t.Errorf("%d: %s\nwant %d: %s", code, r.err, x.code, x.want)
			}
		})
	}
}

// Formats that the server has no name for are refused by theirs.
func TestFormatRefused(t *testing.T) {
	if err := (gvsp.Geometry{Format: 0x01080009, Width: 4, Height: 4, Unit: 100}).Check(); err == nil ||
		!strings.Contains(err.Error(), "BayerRG8") {
		t.Errorf("%v", err)
	}
	for f, bits := range map[gvsp.PixelFormat]int{gvsp.Mono8: 0, gvsp.Mono10: 10, gvsp.Mono16: 16, gvsp.RGB8: 0,
		gvsp.BGR8: 0, gvsp.RGBa8: 0} {
		if l, err := f.Layout(); err != nil || l.Bits != bits || pixelFormat(f) == 0 {
			t.Errorf("%v: %+v, %v", f, l, err)
		}
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
	res, err := http.Get("http://" + at + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`camera_up{camera="T1"} 1`, `camera_parts_total{camera="T1",verdict="FAIL"} `,
		`camera_packets_total{camera="T1"} `,
		`camera_packet_events_total{camera="T1",event="lost"} 0`, `camera_verdict_seconds_count{camera="T1"} `,
		`camera_connections_total{camera="T1"} 1`} {
		if !strings.Contains(string(text), want) {
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
