package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"

	"github.com/polyscan/polyscan/server"
)

// belt are the frames of the conveyor, apart by what they show.
func belt(t *testing.T) (good, bad string) {
	t.Helper()
	dir := t.TempDir()
	good, bad = filepath.Join(dir, "good"), filepath.Join(dir, "bad")
	for _, d := range []string{good, bad} {
		if err := os.Mkdir(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	names, err := listFrames(&env{}, frames+"conveyor", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		to := good
		if name == "frame_007.png" {
			to = bad
		}
		data, err := os.ReadFile(filepath.Join(frames+"conveyor", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return good, bad
}

// bare are the conveyor's regions without limits.
func bare(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(frames + "conveyor/regions.json")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`,"limits":\[("[^"]*",?)*\]`).ReplaceAllString(string(data), "")
	if strings.Contains(text, "limits") {
		t.Fatalf("limits are left: %.200s", text)
	}
	return write(t, "bare.json", text)
}

// What was taught rejects the bad part and passes the good ones, on the command line as well as by reduce and try.
func TestTeach(t *testing.T) {
	good, bad := belt(t)
	regions := bare(t)
	taught := filepath.Join(t.TempDir(), "taught.json")
	out, stderr, code := polyscan(t, "teach", good, "--bad", bad, "-r", regions, "-o", taught)
	if code != exitOK || !strings.Contains(out, "12 frames: 11 of 11 good pass, 1 of 1 bad fail\n") ||
		!strings.Contains(stderr, "11 good frames are few for 4 standard deviations: take 20 or more") {
		t.Fatalf("exit %d, %s\n%s", code, stderr, out)
	}
	for line := range strings.Lines(out) {
		if n := uniseg.StringWidth(strings.TrimRight(line, "\n")); n > tableWidth {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	for _, words := range []string{"REGION", "GOOD FRAMES HAVE", "LIMIT", "BAD CAUGHT", "bracket hole 3", "mean in ["} {
		if !strings.Contains(out, words) {
			t.Errorf("no %q in\n%s", words, out)
		}
	}
	text, err := os.ReadFile(taught)
	if err != nil || !regexp.MustCompile(`"drawn_on": ?\{"height": ?\d+, ?"name": ?"", ?"width": ?\d+\}`).Match(text) {
		t.Errorf("no size of the frames in %.400s, %v", text, err)
	}
	got := succeed(t, "try", "--good", good, "--bad", bad, "-r", taught, "--fail-on-error")
	if !strings.Contains(got, "11 of 11 good pass, 1 of 1 bad fail") || !strings.Contains(got, "bracket hole 3: mean") {
		t.Errorf("%s", got)
	}
	for file, want := range map[string]int{good + "/frame_003.png": exitOK, bad + "/frame_007.png": exitReject} {
		if out, stderr, code := polyscan(t, "reduce", file, "-r", taught, "--fail-on-reject"); code != want {
			t.Errorf("%s: exit %d, %s\n%s", file, code, stderr, out)
		}
	}

	// A version in use, beside a new one that calls the bad part good.
	recipes := filepath.Join(t.TempDir(), "recipes")
	succeed(t, "recipe", "put", "belt", "-r", taught, "--recipes", recipes)
	loose := filepath.Join(t.TempDir(), "loose.json")
	succeed(t, "regions", regions, "--limit", "*: mean < 250", "-o", loose)
	out, stderr, code = polyscan(t, "try", "--good", good, "--bad", bad, "-r", loose, "--beside", "belt", "--recipes",
		recipes, "--fail-on-error")
	if code != exitReject || !strings.Contains(out, "frame_007.png  bad  PASS     FAIL") ||
		!strings.Contains(out, "11 of 11 good pass, 0 of 1 bad fail\nby belt: 11 of 11 good pass, 1 of 1 bad fail") {
		t.Errorf("exit %d, %s\n%s", code, stderr, out)
	}
	if got := succeed(t, "try", good, "--recipe", "belt@1", "--recipes", recipes, "--json"); !strings.Contains(got,
		`"other_passed":11`) {
		t.Errorf("%s", got)
	}
	polyscan(t, "recipe", "put", "bare", "-r", regions, "--recipes", recipes) // with a warning that it gives no verdict
	_, stderr, code = polyscan(t, "try", "--good", good, "-r", taught, "--beside", "bare", "--recipes", recipes)
	if code != exitUsage || !strings.Contains(stderr, "--beside: no region has limits: no frame could fail") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	got, _, code = polyscan(t, "teach", good, "--recipe", "belt", "--recipes", recipes, "--quantity", "p99", "--margin",
		"0% + 20%", "-o", "-")
	if code != exitOK || !strings.Contains(got, `"name": "belt"`) || strings.Count(got, "p99 in [") < 5 ||
		!strings.Contains(got, "mean in [") {
		t.Errorf("%s", got)
	}
}

func TestTeachUsage(t *testing.T) {
	good, _ := belt(t)
	regions := bare(t)
	for want, args := range map[string][]string{
		"FRAMES of good parts are missing":       {"teach", "-r", regions},
		"FRAMES are missing":                     {"try", "-r", regions},
		"--regions FILE, --shape":                {"teach", good},
		"want so many standard deviations":       {"teach", good, "-r", regions, "--margin", "4"},
		"above 0, and 100 at most":               {"teach", good, "-r", regions, "--margin", "0sigma"},
		"from 0 to below 50 %":                   {"teach", good, "-r", regions, "--margin", "50%"},
		"from 0 to 1000 %":                       {"teach", good, "-r", regions, "--margin", "1%+2000%"},
		`found "meen"`:                           {"teach", good, "-r", regions, "--quantity", "meen"},
		regions + ": no region has limits":       {"try", good, "-r", regions},
		"limits are not learned of it":           {"teach", good, "-r", regions, "--quantity", "area"},
		"frames are kept by a server":            {"teach", "--frame", "x", "-r", regions},
		"too few":                                {"teach", good + "/frame_000.png", "-r", regions},
		"a server keeps the history":             {"try", "--kept", "x", "-r", regions},
		"--last 0: must be":                      {"try", "--kept", "x", "--addr", "h:1", "--last", "0", "-r", regions},
		"no such file":                           {"teach", good + "/frame_0.png", "-r", regions},
		"recipes are on a server":                {"try", good, "-r", regions, "--beside", "x"},
		`no region of ` + regions + ` is called`: {"regions", regions, "--limit", "wash: mean < 3"},
		"want NAME: LIMIT":                       {"regions", regions, "--limit", "mean < 3"},
		"a recipe has the limits": {"reduce", good + "/frame_000.png", "--recipe", "x", "--limit",
			"a: mean < 3"},
		`--limit w*ring: of "washer ring": "maen < 3": column 1`: {"reduce", good + "/frame_000.png", "-r", regions,
			"--limit",
			"w*ring: maen < 3"},
	} {
		if out, stderr, code := polyscan(t, args...); code != exitUsage || !strings.Contains(stderr, want) ||
			out != "" {
			t.Errorf("%v: exit %d, %q lacks %q; %s", args, code, stderr, want, out)
		}
	}
	got, stderr, code := polyscan(t, "reduce", good+"/frame_000.png", "-r", regions, "--limit",
		"washer ?ore: mean in [1, 2]", "--limit", "nut*: mean < 250")
	if code != exitOK || !strings.HasSuffix(stderr, "have no limits, and others have: "+
		"nothing that they show can fail a part\n") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if !strings.Contains(got, "is above 2") || !strings.Contains(got, "1 of 3 regions with limits") {
		t.Errorf("%s", got)
	}
}

// TestCountedOnce: a frame that is given twice would count as two parts, by whatever name and as whatever it is given.
func TestCountedOnce(t *testing.T) {
	good, bad := belt(t)
	regions := []string{"-r", frames + "conveyor/regions.json"}
	link, one := filepath.Join(t.TempDir(), "link.png"), filepath.Join(good, "frame_000.png")
	if err := os.Symlink(one, link); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"teach", good, good}, "good/frame_000.png are one file, and would count twice"},
		{[]string{"teach", good, "--bad", good}, "good/frame_000.png are one file"},
		{[]string{"teach", good, "--bad", link}, "frame_000.png and " + link + " are one file, and would count twice"},
		{[]string{"try", "--good", good, "--bad", bad, one}, "good/frame_000.png are one file"},
		{[]string{"try", good + "/../good/frame_000.png", "--good", one}, "are one file"},
		{[]string{"try", "-", "--good", "-"}, "- and - are one file"},
		{[]string{"try", "--frame", "a", "--frame", "b", "--frame", "a", "--addr", "127.0.0.1:1"},
			"--frame a is given twice"},
	} {
		_, stderr, code := polyscan(t, append(c.args, regions...)...)
		if code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit %d, %s", c.args, code, stderr)
		}
	}
}

// Frames that a server keeps in its history are taken where they are: those that passed to teach, all to try.
func TestTeachKept(t *testing.T) {
	t.Parallel()
	addr := startServer(t, server.Config{HistoryDir: t.TempDir(), HistoryGood: 1})
	regions := frames + "conveyor/regions.json"
	// One frame at a time: the history has parts in the order of their verdicts, which is that of frames then.
	succeed(t, "stream", frames+"conveyor", "-r", regions, "--addr", addr, "--name", "camera-3", "--part-ids",
		"--quiet", "--window", "1")
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		out := succeed(t, "history", "list", "--mark", "evidence", "--limit", "0", "--json", "--addr", addr)
		if strings.Count(out, "camera-3") == 12 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("not all parts are kept with pictures:\n%s", out)
		}
	}
	taught := filepath.Join(t.TempDir(), "taught.json")
	out, stderr, code := polyscan(t, "teach", "--kept", "camera-3", "-r", regions, "--addr", addr, "-o", taught)
	if code != exitOK || !strings.Contains(out, "11 frames: 11 of 11 good pass") {
		t.Fatalf("exit %d, %s\n%s", code, stderr, out)
	}
	got := succeed(t, "try", "--kept", "cam*", "-r", taught, "--addr", addr)
	if !strings.Contains(got, "12 frames: 11 of 12 pass") || !strings.Contains(got, "frame_007") {
		t.Errorf("%s", got)
	}
	got = succeed(t, "try", "--kept", "camera-3", "--last", "3", "-r", taught, "--addr", addr)
	if !strings.Contains(got, "3 frames: 3 of 3 pass") {
		t.Errorf("%s", got)
	}
	if _, stderr, code := polyscan(t, "try", "--kept", "nobody", "-r", taught, "--addr", addr); code != exitUsage ||
		!strings.Contains(stderr, "has no part of this name") {
		t.Errorf("exit %d, %s", code, stderr)
	}

	// Resident frames have no pictures: who tries the others hears of them.
	name := strings.TrimSpace(succeed(t, "frames", "put", frames+"conveyor/frame_001.png", "--addr", addr))
	for range 2 {
		succeed(t, "reduce", "--frame", name, "-r", regions, "--addr", addr, "--name", "camera-3")
	}
	for end := time.Now().Add(30 * time.Second); !strings.Contains(succeed(t, "history", "count", "--addr", addr), " 14 "); {
		if time.Sleep(20 * time.Millisecond); time.Now().After(end) {
			t.Fatal("the parts are not kept")
		}
	}
	for _, c := range []struct{ args, warning, out string }{
		{"try --kept camera-3 -r", "2 of the newest 14 parts have no picture and were not tried", "12 frames: 11 of 12 pass"},
		{"try --kept camera-3 --last 3 -r", "2 of the newest 5 parts have no picture and were not tried",
			"3 frames: 3 of 3 pass"},
		{"teach --kept camera-3 -r", "2 of the newest 13 parts that passed have no picture and were not learned from",
			"11 frames: 11 of 11 good pass"},
	} {
		args := append(strings.Fields(c.args), taught, "--addr", addr)
		out, stderr, code := polyscan(t, args...)
		if code != exitOK || !strings.HasPrefix(stderr, "polyscan: warning: --kept camera-3: "+c.warning+"\n") ||
			!strings.Contains(out, c.out) {
			t.Errorf("%s: exit %d, %s%s", c.args, code, stderr, out)
		}
		if out, stderr, code := polyscan(t, append(args, "--strict")...); code != exitUsage || out != "" ||
			stderr != "polyscan: --kept camera-3: "+c.warning+" (--strict)\n" {
			t.Errorf("%s --strict: exit %d, %s%s", c.args, code, stderr, out)
		}
	}
	succeed(t, "recipe", "put", "taught", "-r", taught, "--addr", addr)
	if _, stderr, code := polyscan(t, "try", "--kept", "camera-3", "--recipe", "taught", "--addr", addr,
		"--strict"); code != exitUsage || !strings.Contains(stderr, "were not tried (--strict)") {
		t.Errorf("a recipe, strictly: exit %d, %s", code, stderr)
	}
}

// TestTryOutsideTheFrame: a region that reaches outside the frame fails on every part, which is no catch of a bad one:
// as teach does, try refuses it. One whose limits allow for that, or that has none, is as good as another.
func TestTryOutsideTheFrame(t *testing.T) {
	out := func(limits string) string {
		return write(t, "out.json", `[{"name":"a","rings":[[[1000,100],[1600,100],[1600,140]]],"limits":[`+limits+`]},`+
			`{"name":"b","rings":[[[9,9],[19,9],[19,19]]],"limits":["mean > 1"]}]`)
	}
	metal := frames + "metal.png"
	for limits, want := range map[string]int{`"mean > 1"`: exitUsage, `"coverage >= 0.001", "mean > 1"`: exitOK, ``: exitOK} {
		_, stderr, code := polyscan(t, "try", "--bad", metal, "-r", out(limits))
		if code != want || want == exitUsage && !strings.Contains(stderr,
			`"a": reaches outside the frame, where all limits fail`) {
			t.Errorf("%s: exit %d: %s", limits, code, stderr)
		}
	}
}
