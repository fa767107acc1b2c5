package main

// Both sides held to Aravis, and to Wireshark's dissectors. CAMERA_ARAVIS=1 asks for it, as stage camera of .ci/run
// does;
// it wants aravis-tools, aravis-tools-cli and tshark, and the right to capture.
//
//	CAMERA_ARAVIS=1 go test ./clients/camera -run '^TestAravis' -v

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/polyscan/polyscan/clients/camera/internal/gvcp"
	"github.com/polyscan/polyscan/clients/camera/internal/simulator"
)

const aravisAddr = "127.0.0.1"

func needAravis(t *testing.T) {
	t.Helper()
	if os.Getenv("CAMERA_ARAVIS") == "" {
		t.Skip("not asked for by CAMERA_ARAVIS; stage camera of .ci/run does")
	}
}

// startFake starts Aravis' camera, and waits until it answers.
func startFake(t *testing.T, args ...string) (stop func()) {
	t.Helper()
	out := newScreen()
	cmd := exec.Command("arv-fake-gv-camera-0.8", append([]string{"-i", aravisAddr}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(stop)
	for range 20 {
		if _, err := ask(t.Context(), netip.AddrPortFrom(netip.MustParseAddr(aravisAddr), gvcp.Port)); err == nil {
			return stop
		}
	}
	t.Fatalf("Aravis' camera doesn't answer:\n%s", out)
	return nil
}

// TestAravisCamera receives Aravis' camera. Each block that it counts is a part with a verdict, or one that says what
// it
// lacks: with the loss that it injects, some do.
func TestAravisCamera(t *testing.T) {
	needAravis(t)
	s := startInspector(t, true)
	for _, x := range []struct {
		name  string
		loss  int // of a thousand packets
		count int
		size  int
		args  []string
	}{
		{"512 x 512 at full rate", 0, 500, 512, []string{"--set", "AcquisitionFrameRate=1000"}},
		{"2048 x 1024 at 90 MB/s", 0, 120, 2048, []string{"--set", "Width=2048", "--set", "Height=1024", "--set",
			"AcquisitionFrameRate=43"}},
		{"2048 x 2048 in packets of 8000 bytes", 0, 60, 2048, []string{"--set", "Width=2048", "--set", "Height=2048",
			"--set", "AcquisitionFrameRate=20", "--packet-size", "8000"}},
		{"Bayer", 0, 50, 512, []string{"--set", "PixelFormat=BayerRG8"}},
		{"loss", 2, 200, 512, []string{"--set", "AcquisitionFrameRate=100"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			stop := startFake(t, "-r", fmt.Sprint(x.loss))
			defer stop()
			args := []string{"stream", aravisAddr, "--addr", s.addr, "-r", regionsFile(t, 512, 512), "--json",
				"--count", fmt.Sprint(x.count)}
			r := start(t, append(args, x.args...)...)
			if code := r.wait(); code != exitOK && code != exitFail {
				t.Fatalf("%d: %s", code, r.err)
			}
			rows := r.rows(t)
			if len(rows) != x.count {
				t.Fatalf("%d parts of %d: %s", len(rows), x.count, r.err)
			}
			bad := 0
			for i, o := range rows {
				if o.Number != uint64(i) {
					t.Fatalf("row %d: %+v", i, o)
				}
				if want := rows[0].Block + uint64(i); o.Block != want && o.Block != (want-1)%(1<<16-1)+1 {
					t.Fatalf("part %d is block %d, expected %d", i, o.Block, want)
				}
				switch o.Verdict {
				case "PASS", "FAIL":
					if o.MissingLines > 0 {
						t.Fatalf("%+v", o)
					}
				case verdictIncomplete, verdictMissing:
					bad++
					if o.MissingLines == 0 || !strings.Contains(o.Why, "lost") {
						t.Fatalf("%+v", o)
					}
				default:
					t.Fatalf("%+v", o)
				}
			}
			t.Logf("%d parts, %d of which lack lines", len(rows), bad)
			switch {
			case x.loss > 0 && bad == 0:
				t.Error("packets were lost, and no part shows it")
			case x.loss == 0 && bad > x.count/10: // of a machine that is busy
				t.Errorf("%d of %d parts lack lines", bad, x.count)
			}
		})
	}
}

// TestAravisPage runs the three commands at the top of docs/camera.md, at another port.
func TestAravisPage(t *testing.T) {
	needAravis(t)
	page, err := os.ReadFile("../../docs/camera.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```sh\n")
	text, _, _ = strings.Cut(text, "```")
	if lines(text) != 3 {
		t.Fatalf("the page begins with\n%s", text)
	}
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir, ".", "../../server/cmd/polyscand")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	text = strings.ReplaceAll(text, "localhost:7465", l.Addr().String())
	var said bytes.Buffer
	bash := exec.Command("bash", "-c", "trap 'kill $(jobs -p); wait' EXIT\n"+text)
	bash.Dir, bash.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	bash.Stdout, bash.Stderr = &said, &said
	if err := bash.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	if n := strings.Count(said.String(), " PASS "); n < 10 || !strings.Contains(said.String(), "10 parts in ") {
		t.Errorf("%d parts passed:\n%s", n, &said)
	}
}

func aravis(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// TestAravisTools holds our camera to what Aravis' tools make of it.
func TestAravisTools(t *testing.T) {
	needAravis(t)
	cam := simulate(t, func(c *simulator.Config) {
		c.Addr, c.Serial, c.Width, c.Height, c.Rate, c.Loss = netip.MustParseAddrPort(aravisAddr+":3956"), "ARV26", 512,
			512, 50, 0.002
	})
	if out := aravis(t, "arv-tool-0.8"); !strings.Contains(out, "polyscan-Simulator-ARV26 (127.0.0.1)") {
		t.Fatalf("arv-tool finds\n%s", out)
	}
	out := aravis(t, "arv-tool-0.8", "features")
	for _, want := range []string{"Integer      : [RW] 'Width'", "Enumeration  : [RO] 'PixelFormat'",
		"[WO] 'AcquisitionStart'", "'ExposureTime'"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in arv-tool's features:\n%s", want, out)
		}
	}
	out = aravis(t, "arv-tool-0.8", "control", "Width=256", "ExposureTime=333", "Width", "ExposureTime", "PayloadSize",
		"GevSCPSPacketSize")
	for _, want := range []string{"Width = 256 min:1 max:512", "ExposureTime = 333", fmt.Sprint("PayloadSize = ",
		256*512), "min:576 max:65532 inc:4"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in what arv-tool reads:\n%s", want, out)
		}
	}
	out = aravis(t, "arv-camera-test-0.8", "--no-packet-socket", "--auto", "-w", "512", "-h", "512", "--duration", "4")
	count := func(name string) int {
		m := regexp.MustCompile(name + ` += (\d+)`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("no %s in\n%s", name, out)
		}
		n, _ := strconv.Atoi(m[1])
		return n
	}
	t.Logf("arv-camera-test: %d frames, %d failures, %d packets resent; %+v", count("n_completed_buffers"),
		count("n_failures"),
		count("n_resent_packets"), cam.Stats())
	if count("n_completed_buffers") < 50 || count("n_failures") > count("n_completed_buffers")/5 ||
		count("n_resent_packets") == 0 {
		t.Errorf("arv-camera-test is not satisfied:\n%s", out)
	}
}

// TestAravisDissected captures both cameras with our client, and lets Wireshark look at each packet.
func TestAravisDissected(t *testing.T) {
	needAravis(t)
	s := startInspector(t, false)
	file := filepath.Join(t.TempDir(), "capture.pcapng")
	said := newScreen()
	capture := exec.Command("tshark", "-i", "lo", "-f", "udp", "-w", file, "-q")
	capture.Stdout, capture.Stderr = said, said
	if err := capture.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- capture.Wait() }()
	defer capture.Process.Kill()
	said.await(t, "the capture", func(s string) bool { return strings.Contains(s, "Capture started") })
	stream := func(args ...string) {
		r := start(t, append([]string{"stream", aravisAddr, "--addr", s.addr, "-r", regionsFile(t, 512, 512), "--json",
			"--count", "20"}, args...)...)
		if code := r.wait(); code != exitOK && code != exitFail {
			t.Fatalf("%d: %s", code, r.err)
		}
	}
	stop := startFake(t)
	stream()
	stop()
	cam := simulate(t, func(c *simulator.Config) {
		c.Addr, c.Width, c.Height, c.Rate, c.Loss, c.Duplicate = netip.MustParseAddrPort(aravisAddr+":3956"), 512, 512,
			20, 0.02, 0.02
	})
	if r := start(t, "list"); r.wait() != exitOK {
		t.Fatal(r.err)
	}
	stream("--set", "ChunkModeActive=true", "--set", "EventNotification=On")
	if cam.Stats().Resent == 0 {
		t.Error("no packet was sent again")
	}
	time.Sleep(time.Second) // until the capture has read what the kernel kept; it doesn't say when
	if err := capture.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	read := func(filter string) int {
		out, err := exec.Command("tshark", "-r", file, "-Y", filter).Output()
		if err != nil {
			t.Fatalf("%s: %v", filter, err)
		}
		if strings.Contains(filter, "malformed") && len(out) > 0 {
			t.Errorf("malformed packets:\n%s", out)
		}
		return strings.Count(string(out), "\n")
	}
	control, video, resends := read("gvcp"), read("gvsp"), read("gvcp.cmd.command == 0x0040")
	if n := read("gvcp.cmd.command == 0x00c0 && gvcp.cmd.event.devicespecificid == 0x9001"); n < 20 {
		t.Errorf("%d events", n)
	}
	t.Logf("%d packets of control, %d of these ask for others again, %d of the stream", control, resends, video)
	if control < 100 || video < 1000 || resends == 0 || read("_ws.malformed") > 0 {
		t.Errorf("%d packets of control, %d of the stream, %d requests", control, video, resends)
	}
}
