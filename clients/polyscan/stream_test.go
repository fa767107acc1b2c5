package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/polyscan/polyscan/server"
)

// hookedWriter calls a function at the first write.
type hookedWriter struct {
	bytes.Buffer
	hook func()
}

func (w *hookedWriter) Write(p []byte) (int, error) {
	if w.hook != nil {
		w.hook()
		w.hook = nil
	}
	return w.Buffer.Write(p)
}

// TestStreamCSVEnds: however a stream ends, the rows that came are in the file, and the exit code is the one promised.
func TestStreamCSVEnds(t *testing.T) {
	for _, reject := range []bool{false, true} {
		for _, end := range []struct {
			name string
			code int
		}{{"done", exitOK}, {"interrupted", exitCanceled}, {"server gone", exitServer}} {
			t.Run(fmt.Sprintf("%s, reject %v", end.name, reject), func(t *testing.T) {
				s, err := server.New(server.Config{})
				if err != nil {
					t.Fatal(err)
				}
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				served := make(chan error, 1)
				go func() { served <- s.Serve(l) }()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				stop := func() { // at once
					now, cancel := context.WithCancel(context.Background())
					cancel()
					_ = s.Shutdown(now)
				}
				file := filepath.Join(t.TempDir(), "rows.csv")
				args := []string{"stream", frames + "conveyor", "-r", frames + "conveyor/regions.json", "--addr",
					l.Addr().String(), "--csv", file}
				want := end.code
				out := &hookedWriter{} // the first line is that of frame 7, which fails
				switch end.name {
				case "interrupted":
					out.hook = cancel
				case "server gone":
					out.hook = stop
				}
				if end.name != "done" {
					args = append(args, "--repeat", "1000")
				}
				if reject {
					args = append(args, "--fail-on-reject")
					if end.code == exitOK {
						want = exitReject
					}
				}
				var errs bytes.Buffer
				if code := run(ctx, args, strings.NewReader(""), out, &errs); code != want {
					t.Errorf("exit %d, want %d: %s", code, want, &errs)
				}
				stop()
				<-served
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
				if err != nil || len(rows) < 2 || rows[len(rows)-1][1] < "frame_007.png" && end.name != "done" {
					t.Errorf("%d rows, %v", len(rows), err)
				}
				if !strings.Contains(out.String(), "FAIL frame_007.png") ||
					!strings.Contains(out.String(), "frames/s") {
					t.Errorf("printed\n%s", out)
				}
			})
		}
	}
}

// TestStreamCSVRefused: a frame that was refused has a row, with why.
func TestStreamCSVRefused(t *testing.T) {
	dir := t.TempDir()
	good, err := os.ReadFile(frames + "conveyor/frame_000.png")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"a1.png": good, "a2.png": []byte("text, and a comma"),
		"a3.png": good[:500]} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "rows.csv")
	_, stderr, code := polyscan(t, "stream", dir, "-r", frames+"conveyor/regions.json", "--csv", file,
		"--fail-on-reject")
	if code != exitReject {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, r := range rows[1:] {
		if r[2] == "REFUSED" {
			refused++
			if why := r[len(r)-2]; why == "" || why == r[1] || r[1] != fmt.Sprintf("a%d.png", refused+1) {
				t.Errorf("row %q", r)
			}
		} else if r[len(r)-2] != "" || r[len(r)-1] != "1" {
			t.Errorf("row %q", r)
		}
	}
	if refused != 2 {
		t.Errorf("%d refused frames have rows", refused)
	}
}

// TestStreamRefusedByRegions: what is wrong with the regions for one frame says for which.
func TestStreamRefusedByRegions(t *testing.T) {
	regions := write(t, "r.json", `[{"name":"a","rings":[[[1,1],[9,1],[9,9]]],"limits":["r.mean < 3"]}]`)
	out, stderr, code := polyscan(t, "stream", frames+"conveyor", "-r", regions)
	if code != exitUsage || stderr != "polyscan: 12 of 12 frames refused, of which nothing is known\n" {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if !strings.HasPrefix(out, "REFUSED frame_000.png: ") || !strings.Contains(out, "the frame has no red channel") {
		t.Errorf("%s", out)
	}
}

// TestStreamComplete: --json says whether all frames were answered.
func TestStreamComplete(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	file := filepath.Join(t.TempDir(), "rows.csv")
	go func() { // the interrupt comes when answers are there: rows are written as they come
		for ctx.Err() == nil {
			if data, _ := os.ReadFile(file); bytes.Count(data, []byte("\n")) > 1 {
				interrupt()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	var out bytes.Buffer
	args := []string{"stream", frames + "conveyor", "-r", frames + "conveyor/regions.json", "--csv", file, "--json",
		"--repeat", "100000"}
	if code := run(ctx, args, strings.NewReader(""), &out, io.Discard); code != exitCanceled {
		t.Errorf("exit %d", code)
	}
	var r streamReport
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Complete || r.Frames == 0 {
		t.Errorf("%v: %+v", err, r)
	}
	if err := json.Unmarshal([]byte(succeed(t, args[:len(args)-2]...)), &r); err != nil || !r.Complete ||
		r.Frames != 12 {
		t.Errorf("%v: %+v", err, r)
	}
}

// TestNoLimits: where no region has limits, nothing can be rejected, and who asks for it hears so.
func TestNoLimits(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "r.json")
	if err := os.WriteFile(file, []byte(`[{"name":"a","rings":[[[1,1],[9,1],[9,9]]],"limit":["mean below 3"]}]`),
		0o644); err != nil {
		t.Fatal(err)
	}
	const near = `the key "limit" is ignored; did you mean "limits"?`
	recipes := filepath.Join(dir, "recipes")
	measures := filepath.Join(dir, "m.json")
	if err := os.WriteFile(measures, []byte(`[{"name":"a","rings":[[[1,1],[9,1],[9,9]]]}]`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want []string
	}{
		{"reduce BOARD -r FILE", exitOK, []string{"warning", near}},
		{"reduce BOARD -r FILE --strict", exitUsage, []string{near}},
		{"stream CONVEYOR -r FILE --strict", exitUsage, []string{near}},
		{"mask BOARD -r FILE --strict -o DIR/m.png", exitUsage, []string{near}},
		{"recipe put r -r FILE --strict --recipes RECIPES", exitUsage, []string{near}},
		{"reduce BOARD -r FILE --fail-on-reject", exitUsage, []string{near, `a key is ignored that looks like "limits"`}},
		{"stream CONVEYOR -r FILE --fail-on-reject", exitUsage, []string{near, `a key is ignored that looks like "limits"`}},
		{"reduce BOARD -r FILE --fail-on-reject --limit a:max<9", exitUsage,
			[]string{near, `a key is ignored that looks like "limits"`}}, // another limit makes up for nothing
		{"recipe put r -r FILE --limit a:max<9 --recipes RECIPES", exitUsage,
			[]string{near, `a key is ignored that looks like "limits"`}},
		{"reduce BOARD -r MEASURES --fail-on-reject", exitUsage,
			[]string{"--fail-on-reject: no region of MEASURES has limits"}},
		{"stream CONVEYOR -r MEASURES --fail-on-reject", exitUsage,
			[]string{"--fail-on-reject: no region of MEASURES has limits"}},
		{"recipe put r -r FILE --recipes RECIPES", exitUsage, []string{near, `a key is ignored that looks like "limits"`}},
		{"recipe put r -r MEASURES --recipes RECIPES", exitOK,
			[]string{"no region has limits: the recipe gives no verdict"}},
		{"reduce BOARD --recipe r --recipes RECIPES --fail-on-reject", exitUsage,
			[]string{"--fail-on-reject: no region of recipe r has limits"}},
		{"stream CONVEYOR --recipe r --recipes RECIPES --fail-on-reject", exitUsage,
			[]string{"--fail-on-reject: no region of recipe r has limits"}},
	} {
		replace := strings.NewReplacer("BOARD", frames+"board.png", "CONVEYOR", frames+"conveyor", "FILE", file, "DIR",
			dir, "MEASURES", measures,
			"RECIPES", recipes)
		_, stderr, code := polyscan(t, strings.Fields(replace.Replace(c.args))...)
		if code != c.code {
			t.Errorf("%s: exit %d: %s", c.args, code, stderr)
		}
		for _, want := range c.want {
			if !strings.Contains(stderr, replace.Replace(want)) {
				t.Errorf("%s: %s", c.args, stderr)
			}
		}
	}
}

// TestPartIDs: two files of one part are refused before a frame is sent.
func TestPartIDs(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile(frames + "metal.png")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.png", "a.PNG"} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, stderr, code := polyscan(t, "stream", dir, "-r", frames+"metal.regions.json", "--part-ids")
	if code != exitUsage || !strings.Contains(stderr, `--part-ids: a.PNG and a.png are both part "a"`) {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// A file that another stream writes its rows to stays as it is.
func TestStreamCSVInUse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rows.csv")
	if err := os.WriteFile(file, []byte("rows of another"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := flock.New(file)
	if ok, err := other.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	args := []string{"stream", frames + "conveyor", "-r", frames + "conveyor/regions.json", "--csv", file}
	_, stderr, code := polyscan(t, args...)
	if code != exitUsage || !strings.Contains(stderr, "rows.csv: another program writes to it") {
		t.Errorf("%d: %s", code, stderr)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "rows of another" {
		t.Errorf("%q, %v", data, err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := polyscan(t, args...); code != exitOK {
		t.Errorf("%d: %s", code, stderr)
	}
}

// TestStreamKeepsItsFile: a file of --csv keeps the rows of the last stream until the next one has opened, and one that
// isn't there is not made.
func TestStreamKeepsItsFile(t *testing.T) {
	old := write(t, "keep.csv", "the old rows\n")
	recipes := t.TempDir()
	for _, c := range []struct {
		code int
		args []string
	}{
		{exitServer, []string{"-r", frames + "conveyor/regions.json", "--addr", "127.0.0.1:1"}},
		{exitUsage, []string{"--recipe", "nope", "--recipes", recipes}},
		{exitUsage, []string{"-r", frames + "conveyor/regions.json", "--golden", "nofile.png", "--limit",
			`*: ncc of "golden" > 0.2`}},
	} {
		for _, file := range []string{old, filepath.Join(filepath.Dir(old), "new.csv")} {
			args := append([]string{"stream", frames + "conveyor", "--csv", file}, c.args...)
			if _, stderr, code := polyscan(t, args...); code != c.code {
				t.Errorf("%q: exit %d: %s", args, code, stderr)
			}
			if text, err := os.ReadFile(file); file == old && string(text) != "the old rows\n" || file != old && err == nil {
				t.Errorf("%q: the file is %q, %v", args, text, err)
			}
		}
	}
	succeed(t, "stream", frames+"conveyor", "-r", frames+"conveyor/regions.json", "--csv", old)
	if text, err := os.ReadFile(old); err != nil || !strings.HasPrefix(string(text), "sequence,frame,") {
		t.Errorf("%.100s, %v", text, err)
	}
}
