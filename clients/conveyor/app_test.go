package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/durationpb"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// asProgram makes the test binary the program, for the server that it starts.
const asProgram = "CONVEYOR_TEST_AS_PROGRAM=1"

func TestMain(m *testing.M) {
	name, value, _ := strings.Cut(asProgram, "=")
	if os.Getenv(name) == value {
		// Package shorttest adds an argument, which is for tests.
		os.Args = slices.DeleteFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-test.") })
		main()
	}
	childEnvironment = []string{asProgram}
	os.Unsetenv("POLYSCAN_ADDR")
	silence = 30 * time.Second // this machine may be busy
	// Tests here wait for lines and timers, so that more run at a time than there are processors.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// conveyor runs the command.
func conveyor(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return out.String(), errs.String(), code
}

// small are the flags of a quick run: 40 parts of 32 lines, half of them with a defect.
func small(addr string, more ...string) []string {
	return append([]string{"--addr", addr, "--width", "256", "--strip-lines", "16", "--part-lines", "32",
		"--region-count", "4", "--defects", "0.5",
		"--line-rate", "40000", "--repeat", "40", "--duration", "0",
		"--max-held-up", "1"}, more...) // however busy this machine is
}

func TestExitCodes(t *testing.T) {
	wrongSum := func(p *polyscanv1.PartResult) bool {
		if p.GetPartNumber() == 7 {
			*p.Regions[2].Channels[0].Sum++
		}
		return true
	}
	for _, tt := range []struct {
		name  string
		spoil func(*polyscanv1.PartResult) bool
		args  []string
		code  int
		want  string
	}{
		{"right", nil, []string{"--verify"}, exitOK, "40 against the oracle, 0 of them incomplete"},
		{"not verified", wrongSum, nil, exitOK, "only that every part came back"},
		{"wrong sum", wrongSum, []string{"--verify"}, exitFail, `camera 0: part at line 224: region "cell 2": sum is`},
		{"lost result", func(p *polyscanv1.PartResult) bool {
			return p.GetPartNumber() != 9
		}, nil, exitFail, "part 9 at line 288: no result"},
		{"a part too many", func(p *polyscanv1.PartResult) bool {
			if p.GetPartNumber() == 5 {
				p.FirstLine++
			}
			return true
		}, nil, exitFail, "part 5 at line 161: no such part is open"},
		{"misnumbered", func(p *polyscanv1.PartResult) bool {
			if p.GetPartNumber() == 5 {
				p.PartNumber = 6
			}
			return true
		}, nil, exitFail, "part at line 160 has number 6: want 5"},
		{"another part's id", func(p *polyscanv1.PartResult) bool {
			if p.GetPartNumber() == 5 {
				p.PartId = "0-0"
			}
			return true
		}, nil, exitFail, `part at line 160 has the id "0-0": want "0-160"`},
		{"incomplete without a reason", func(p *polyscanv1.PartResult) bool {
			if p.GetPartNumber() == 5 {
				p.Incomplete, p.MissingLines = true, 3
			}
			return true
		}, []string{"--verify"}, exitFail,
			"part at line 160: incomplete true, 3 missing lines: 0 that its regions need were lost"},
		{"silently late", func(p *polyscanv1.PartResult) bool {
			if p.GetPartNumber() == 3 {
				p.Times.Latency = durationpb.New(time.Second)
			}
			return true
		}, nil, exitFail, "1 result took longer than the budget without being marked late"},
		{"too slow", nil, []string{"--min-rate", "1e9"}, exitVoid, "under the minimum rate of 1000000000"},
		{"wrong and too slow", wrongSum, []string{"--verify", "--min-rate", "1e9"}, exitFail, "under the minimum rate"},
		{"nothing inspected", func(*polyscanv1.PartResult) bool {
			return false
		}, nil, exitFail, "no part was inspected"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, errs, code := conveyor(t, small(serveFake(t, tt.spoil), tt.args...)...)
			if code != tt.code || !strings.Contains(out, tt.want) || errs != "" {
				t.Errorf("exit %d, want %d with %q:\n%s%s", code, tt.code, tt.want, out, errs)
			}
		})
	}
}

// TestBarrier: each part is told of once, in order, whatever becomes of its strips.
func TestBarrier(t *testing.T) {
	file := filepath.Join(t.TempDir(), "barrier")
	for _, trigger := range []string{"every", "marked"} {
		args := small("", "--trigger", trigger, "--barrier", file, "--gap", "7", "--device", "cpu", "--threads", "1")
		out, errs, code := conveyor(t, args[2:]...) // with a server of its own
		if code != exitOK {
			t.Fatalf("exit %d:\n%s%s", code, out, errs)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		last := 0
		for n, id := range strings.Fields(string(data)) {
			var first int
			if _, err := fmt.Sscanf(id, "0-%d", &first); err != nil || n > 0 && first < last+32+7 {
				t.Errorf("%s: part %d is %s, the one before began at %d: %v", trigger, n, id, last, err)
			}
			last = first
		}
		if n := strings.Count(string(data), "\n"); n != 40 {
			t.Errorf("%s: %d parts, want 40", trigger, n)
		}
	}
	if _, errs, code := conveyor(t, small(serveFake(t, nil), "--barrier", file+"/none")...); code != exitUsage ||
		!strings.Contains(errs, "--barrier: ") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestBrokenSession: what ended the session is said, and it isn't a pass.
func TestBrokenSession(t *testing.T) {
	out, _, code := conveyor(t, small(serveFake(t, nil), "--fault", "kill:0.05", "--verify")...)
	if code != exitFail || !strings.Contains(out, "could not be resumed: NOT_FOUND: no sessions are kept") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

func TestUsage(t *testing.T) {
	none := "unix:" + filepath.Join(t.TempDir(), "none")
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--line-rate", "0"}, exitUsage, "--line-rate 0: must be above 0"},
		{[]string{"--width=-1"}, exitUsage, "--width -1: must be 1 to 65536"},
		{[]string{"--width", "65536", "--part-lines", "65536"}, exitUsage, "a part takes more than 128 MiB"},
		{[]string{"--rss-pid=-1"}, exitUsage, "--rss-pid -1: must be more than 0"},
		{[]string{"--metrics-url", "*"}, exitUsage, `--metrics-url "*": want a URL such as http://localhost:7466/metrics`},
		{[]string{"--cameras", "0"}, exitUsage, "--cameras 0: must be 1 to 1024"},
		{[]string{"--defects", "2"}, exitUsage, "--defects 2: must be 0 to 1"},
		{[]string{"--budget", "0s"}, exitUsage, "--budget 0s: must be above 0"},
		{[]string{"--trigger", "marked", "--every", "3"}, exitUsage, "--every has no effect with --trigger marked"},
		{[]string{"--regions", "x", "--recipe", "y"}, exitUsage, "give one of them"},
		{[]string{"../../testdata/conveyor"}, exitUsage, "--regions FILE or --recipe NAME is missing"},
		{[]string{"--plot", "x.gif"}, exitUsage, "--plot x.gif: want a name that ends in .svg or .png"},
		{[]string{"--ramp", "1:2"}, exitUsage, "--ramp"},
		{[]string{"--fault", "fire:1"}, exitUsage, "--fault"},
		{[]string{"--batch-load", "2", "--duration", "0"}, exitUsage, "--batch-load"},
		{[]string{"--find-capacity", "--burst", "3"}, exitUsage, "--find-capacity"},
		{[]string{"--find-capacity", "--barrier", "x"}, exitUsage, "--barrier has no effect with --find-capacity"},
		{[]string{"--min-rate=-1"}, exitUsage, "--min-rate -1"},
		{[]string{"--duration=-1s"}, exitUsage, "--duration -1s"},
		{[]string{"x", "-r", "y", "--defects", "0"}, exitUsage, "--defects has no effect with <frames>"},
		{[]string{"--ramp", "1:2:1s", "--line-rate", "5"}, exitUsage, "--line-rate has no effect with --ramp"},
		{[]string{"--strict"}, exitUsage, "--strict has no effect without --regions"},
		{[]string{"soak", "--capacity", "5", "--step", "2s"}, exitUsage, "--step has no effect with --capacity"},
		{[]string{"--token-file", "x"}, exitUsage, "--token-file has no effect without --addr"},
		{[]string{"--addr", none, "--threads", "2"}, exitUsage, "--threads has no effect with --addr"},
		{[]string{"--addr", none, "--transport", "tcp"}, exitUsage, "--transport tcp: --addr " + none + " is of unix"},
		{[]string{"--region-count", "100000"}, exitUsage, "--region-count 100000: cells of"},
		{[]string{"--addr", ""}, exitUsage, "--addr: the value is empty"},
		{[]string{"--cameras=1", "--cameras=2"}, exitUsage, "--cameras is given twice, and holds one value"},
		{[]string{"../../testdata/conveyor", "--recipe", "none"}, exitUsage, "--recipe none: the server holds none"},
		{[]string{"../../testdata/conveyor", "--regions", "../../testdata/board.regions.json", "--duration", "1s"},
			exitUsage, "the frame has no red channel"},
		{[]string{"../../testdata/conveyor", "--regions", "../../testdata/moved/board.recipe.json", "--duration", "1s"},
			exitUsage, "moved/board.recipe.json: it has a locate section, and parts of line-scans aren't located"},
		{[]string{"--colour"}, exitUsage, "unknown flag --colour"},
		{[]string{"soak", "--share", "2"}, exitUsage, "--share 2: must be above 0, and 1 at most"},
		{[]string{"soak", "--duration", "0s"}, exitUsage, "--duration 0s: must be above 0"},
		{[]string{"--addr", none + ":bad", "--token-file", "/does/not/exist"}, exitUsage, "token file"},
	} {
		if out, errs, code := conveyor(t, tt.args...); code != tt.code || !strings.HasPrefix(errs, "conveyor: ") ||
			!strings.Contains(errs, tt.want) || strings.Count(errs, "\n") != 1 || out != "" {
			t.Errorf("%v: exit %d, want %d with %q: %s%s", tt.args, code, tt.code, tt.want, errs, out)
		}
	}
	for _, args := range [][]string{{"--help"}, {"soak", "--help"}} {
		if out, errs, code := conveyor(t, args...); code != exitOK || errs != "" ||
			strings.Contains(out, "server --listen") {
			t.Errorf("%v: exit %d, %s%s", args, code, out, errs)
		}
	}
}

// TestFrameFormats: frames have the formats that a server reads from the same files, and another one is told in words
// of the command line.
func TestFrameFormats(t *testing.T) {
	dir, box := t.TempDir(), image.Rect(0, 0, 4, 3)
	opaque := image.NewRGBA(box) // which an encoder writes as RGB, since it is opaque
	for i := range opaque.Pix {
		opaque.Pix[i] = byte(i) | byte(i%4/3*255)
	}
	palette := image.NewPaletted(box, []color.Color{color.RGBA{1, 2, 3, 255}})
	write := func(name string, img image.Image) string {
		var b bytes.Buffer
		if err := png.Encode(&b, img); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		img   image.Image
		want  polyscanv1.PixelFormat
		first []byte
	}{
		"gray":    {image.NewGray(box), polyscanv1.PixelFormat_PIXEL_FORMAT_GRAY8, []byte{0, 0}},
		"gray16":  {image.NewGray16(box), polyscanv1.PixelFormat_PIXEL_FORMAT_GRAY16LE, []byte{0, 0}},
		"color":   {opaque, polyscanv1.PixelFormat_PIXEL_FORMAT_RGB8, []byte{0, 1, 2, 4, 5, 6}},
		"palette": {palette, polyscanv1.PixelFormat_PIXEL_FORMAT_RGB8, []byte{1, 2, 3, 1}},
	} {
		f, err := readFrame(write(name+".png", c.img))
		if err != nil || f.GetLayout().GetPixelFormat() != c.want || !bytes.HasPrefix(f.GetData(), c.first) ||
			f.GetLayout().GetWidth() != 4 || f.GetLayout().GetHeight() != 3 {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	_, errs, code := conveyor(t, dir, "-r", "../../testdata/conveyor/regions.json")
	if want := fmt.Sprintf("%[1]s/gray.png: 4x3 gray8: the camera that took %[1]s/color.png has 4x3 rgb8\n", dir); code !=
		exitUsage || !strings.HasSuffix(errs, want) {
		t.Errorf("exit %d, %swant %s", code, errs, want)
	}
}

// TestDocs: what the page about line-scan, and the help, say to type can be typed.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/linescan.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text) + description) {
		args := strings.Fields(line)
		if len(args) < 2 || args[0] != "conveyor" || !strings.HasPrefix(strings.TrimPrefix(line, "    "), "conveyor ") {
			continue
		}
		n++
		if _, errs, code := conveyor(t, append(args[1:], "--help")...); code != exitOK {
			t.Errorf("%s: exit %d, %s", strings.TrimSpace(line), code, errs)
		}
	}
	if n < 12 {
		t.Errorf("%d commands found", n)
	}
}

// TestOutputs looks at what a run leaves behind.
func TestOutputs(t *testing.T) {
	dir := t.TempDir()
	addr := serveFake(t, nil)
	for _, ext := range []string{"svg", "png"} {
		plot, data := filepath.Join(dir, "latency."+ext), filepath.Join(dir, "report.json")
		if _, errs, code := conveyor(t,
			small(addr, "--verify", "--plot", plot, "--json", data, "--cameras", "2", "--quiet")...); code != exitOK {
			t.Fatalf("exit %d: %s", code, errs)
		}
		text, err := os.ReadFile(data)
		if err != nil {
			t.Fatal(err)
		}
		var r report
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		if c := r.Counts; r.Outcome != runGood || c.Parts != 80 || c.Lines != 2*40*32 || c.Bytes != c.Lines*256 ||
			c.Verdicts.Pass+c.Verdicts.Fail != 80 ||
			c.Verdicts.Fail < 10 || r.Check.Checked != 80 || r.Latency.All.Count != 80 || len(r.Spectrum) == 0 ||
			len(r.History) == 0 || r.Server.Backend != "fake" {
			t.Errorf("%s", text)
		}
		f, err := os.Open(plot)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if ext == "png" {
			img, err := png.Decode(f)
			if err != nil || img.Bounds().Dx() < plotWidth {
				t.Errorf("%v, %v", img.Bounds(), err)
			}
			continue
		}
		var svg bytes.Buffer
		if _, err := svg.ReadFrom(f); err != nil || !strings.Contains(svg.String(), "<svg") ||
			!strings.Contains(svg.String(), "budget") {
			t.Errorf("%.200s, %v", svg.String(), err)
		}
	}
	out, _, code := conveyor(t, small(addr, "--json", "-")...)
	var r report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitOK {
		t.Errorf("exit %d, %v: %s", code, err, out)
	}
}

// TestInterrupt: the cameras stop, their last results come, and there is a report.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	addr := serveFake(t, func(p *polyscanv1.PartResult) bool {
		if p.GetPartNumber() == 30 {
			cancel()
		}
		return true
	})
	var out, errs bytes.Buffer
	args := small(addr, "--verify")
	for flag, value := range map[string]string{"--repeat": "0", "--line-rate": "4000", "--duration": "1h"} { // without end, and slowly
		args[slices.Index(args, flag)+1] = value
	}
	if code := run(ctx, args, strings.NewReader(""), &out, &errs); code != exitOK && code != exitCanceled {
		t.Errorf("exit %d:\n%s%s", code, out.String(), errs.String())
	} else if code == exitOK && (!strings.Contains(out.String(), "run         GOOD") ||
		!strings.Contains(out.String(), "was interrupted after ") || !strings.Contains(out.String(), " of 1h0m0s")) {
		t.Errorf("%s", out.String())
	}
}
