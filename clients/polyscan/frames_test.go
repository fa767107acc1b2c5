package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/server"
)

// A frame that is put is reduced by its name, as often as one likes, with the numbers of one that is sent.
func TestFrames(t *testing.T) {
	addr := startServer(t, server.Config{MemoryBytes: 64 << 20})
	on := func(args ...string) []string { return append(args, "--addr", addr) }
	image := frames + "metal.png"
	name := strings.TrimSuffix(succeed(t, on("frames", "put", image)...), "\n")
	if len(name) < 26 || strings.ContainsAny(name, " \n") {
		t.Fatalf("put printed %q", name)
	}
	regions := []string{"-r", frames + "metal.regions.json"}
	want := reduceJSON(t, append([]string{image}, regions...)...)
	got := reduceJSON(t, on(append([]string{"--frame", name}, regions...)...)...)
	if !sameReport(got, want) {
		t.Error("the frame that is kept has other numbers than the one that is sent")
	}
	if table := succeed(t, on(append([]string{"reduce", "--frame", name}, regions...)...)...); !strings.Contains(table,
		"metal") {
		t.Errorf("table:\n%s", table)
	}
	// Raw pixels, piece by piece and from standard input.
	raw := filepath.Join(t.TempDir(), "line.raw")
	if err := os.WriteFile(raw, make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	var kept keptReport
	if err := json.Unmarshal([]byte(succeed(t, on("frames", "put", raw, "--raw", "1024x3072:gray8", "--idle", "1h",
		"--id", "line 5", "--json")...)), &kept); err != nil ||
		kept.FrameID != "line 5" || kept.Width != 1024 || kept.Format != "gray8" || kept.Bytes != 3<<20 {
		t.Errorf("%+v, %v", kept, err)
	}
	stdout, stderr, code := polyscanIn(t, t.Context(), strings.NewReader("abcdef"),
		on("frames", "put", "-", "--raw", "3x2:gray8")...)
	if code != exitOK {
		t.Errorf("exit %d, %s", code, stderr)
	}
	names := []string{name, kept.Name, strings.TrimSpace(stdout)}
	list := succeed(t, on("frames", "list")...)
	var all []keptReport
	if err := json.Unmarshal([]byte(succeed(t, on("frames", "list", "--json")...)), &all); err != nil ||
		len(all) != len(names) {
		t.Errorf("%v, %v", all, err)
	}
	for _, n := range names {
		if !strings.Contains(list, n) {
			t.Errorf("%s is not listed:\n%s", n, list)
		}
	}
	if !strings.Contains(list, "1024x3072") || !strings.Contains(list, "line 5") ||
		!strings.Contains(list, "metal.png") {
		t.Errorf("list:\n%s", list)
	}
	if device := succeed(t, on("device")...); !strings.Contains(device, "3 of 10000 kept") ||
		!strings.Contains(device, "evictable") || !strings.Contains(device, "interactive") {
		t.Errorf("device:\n%s", device)
	}
	if out := succeed(t, on(append([]string{"frames", "release"}, names...)...)...); out != "" {
		t.Errorf("release printed %q", out)
	}
	if out := succeed(t, on("frames", "list")...); out != "no frames\n" {
		t.Errorf("%q", out)
	}
	if out := succeed(t, on("frames", "list", "--json")...); strings.TrimSpace(out) != "[]" {
		t.Errorf("%q", out)
	}

	short := write(t, "short.raw", "abc")
	for _, x := range []struct {
		args []string
		code int
		want string
	}{
		{on("frames", "release", name), exitUsage, `frame "` + name + `": was released`},
		{on(append([]string{"reduce", "--frame", name}, regions...)...), exitUsage,
			`frame "` + name + `": was released`},
		{on(append([]string{"reduce", "--frame", "x", image}, regions...)...), exitUsage,
			"FRAME and --frame: give one of them"},
		{append([]string{"reduce", "--frame", "x"}, regions...), exitUsage,
			"--frame x: frames are kept by a server: say --addr ADDR"},
		{append([]string{"reduce"}, regions...), exitUsage, "FRAME or --frame NAME is missing"},
		{on(append([]string{"reduce", "--frame", "x", "--bits", "12"}, regions...)...), exitUsage,
			"--raw, --bits and --format are for a FRAME that is sent"},
		{on(append([]string{"reduce", "--frame", "x", "--overlay", "o.png"}, regions...)...), exitUsage,
			"--overlay needs the frame's pixels"},
		{[]string{"frames", "list"}, exitUsage, "frames are kept by a server: say --addr ADDR"},
		{on("frames", "put", "nothing.png"), exitUsage, "nothing.png: no such file or directory"},
		{on("frames", "put", "nothing.raw", "--raw", "3x2:gray8"), exitUsage, "nothing.raw: no such file or directory"},
		{on("frames", "put", short, "--raw", "3x2:gray8"), exitUsage, short + ": the pixels end after 3 of 6 bytes"},
		{on("frames", "put", short, "--idle=-1s"), exitUsage, "--idle -1s: must not be negative"},
		{on("frames", "put", image, "--idle", "1000h"), exitUsage,
			"idle_timeout = 1000h0m0s: must be more than 0s and at most 24h0m0s"},
	} {
		_, stderr, code := polyscan(t, x.args...)
		if code != x.code || !strings.Contains(stderr, x.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, %swant %d, %s", x.args, code, stderr, x.code, x.want)
		}
	}
}

// The frames that a regions file names are those that its limits compare with, as in a recipe that is put of it.
func TestFramesOfRegionsFile(t *testing.T) {
	addr := startServer(t, server.Config{MemoryBytes: 64 << 20})
	on := func(args ...string) []string { return append(args, "--addr", addr) }
	image := frames + "metal.png"
	name := strings.TrimSpace(succeed(t, on("frames", "put", image)...))
	file := filepath.Join(t.TempDir(), "r.json")
	text := fmt.Sprintf(`{"name": "metal", "reductions": ["mean", "ncc of \"extra\" at (0,0)"],
		"frames": {"golden": %q, "extra": %q},
		"regions": [{"name": "a", "rings": [[[9, 9], [50, 9], [50, 50]]], "limits": ["ncc of \"golden\" > 0.99"]}]}`,
		name, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{}, {"--stats", "mean"}, {"--golden", another(t, image)}} {
		succeed(t, on(append([]string{"reduce", image, "-r", file, "--fail-on-reject"}, args...)...)...)
	}
	succeed(t, on("recipe", "put", "-r", file)...)
	gone := on("recipe", "put", "gone", "-r", write(t, "gone.json", strings.Replace(text, name, "nope", 1)))
	const says = `frame "golden": "nope" is no resident frame of the server: the recipe judges nothing until there is one`
	if out, stderr, code := polyscan(t, gone...); code != 0 || out != "gone@1: 1 region\n" ||
		!strings.Contains(stderr, "warning: ") || !strings.Contains(stderr, says+"\n") {
		t.Errorf("exit %d, %s%s", code, out, stderr)
	}
	if _, stderr, code := polyscan(t, append(gone, "--strict")...); code != exitUsage || !strings.Contains(stderr, says) ||
		strings.Contains(stderr, "warning: ") {
		t.Errorf("--strict: exit %d, %s", code, stderr)
	}
	succeed(t, on("reduce", "--frame", name, "--recipe", "metal")...) // it is there still
	if got := succeed(t, on("try", "--good", image, "-r", file, "--fail-on-error")...); !strings.Contains(got,
		"1 of 1 good") {
		t.Errorf("tried:\n%s", got)
	}
	data, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range [][]string{{"--recipe", "metal"}, {"-r", file}} {
		// It warns that these are few.
		got, _, _ := polyscan(t, on(append([]string{"teach", image, write(t, "same.png", string(data)), "-o", "-"},
			of...)...)...)
		if !strings.Contains(got, fmt.Sprintf(`"frames": {"extra":%q,"golden":%[1]q}`, name)) {
			t.Errorf("what was taught of %v has lost its frames:\n%s", of, got)
		}
	}
}
