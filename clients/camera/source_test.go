package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polyscan/polyscan/clients/camera/internal/gvsp"
)

// picture is what drawn draws, as an image.
func picture(block uint64) *image.Gray {
	m := image.NewGray(image.Rect(0, 0, 160, 120))
	drawn{160, 120, 5, gvsp.Mono8}.draw(block, m.Pix)
	return m
}

// A picture counts once it is closed or renamed into the folder, never before, and each has its name with its part.
// One that is of another size, or no picture at all, is a part that is missing, with the reason.
func TestFolder(t *testing.T) {
	s := startInspector(t, false)
	dir := t.TempDir()
	r := start(t, "stream", dir+"/", "--addr", s.addr, "-r", regionsFile(t, 160, 120), "--json", "--count", "6",
		"--name", "in")
	r.err.await(t, "that it waits", func(s string) bool { return strings.Contains(s, "first picture") })
	write := func(name string, img image.Image) { writePNG(t, filepath.Join(dir, name), img) }
	var slow bytes.Buffer
	writePNG(t, filepath.Join(t.TempDir(), "x.png"), picture(4))
	f, err := os.Create(filepath.Join(dir, "slow.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write(".hidden.png", picture(0))
	write("a.png", picture(0))
	r.out.await(t, "the first part", func(s string) bool { return lines(s) == 1 })
	write(".b.tmp", picture(1))
	if err := os.Rename(filepath.Join(dir, ".b.tmp"), filepath.Join(dir, "b.png")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("a note"), 0o600); err != nil {
		t.Fatal(err)
	}
	write("small.png", image.NewGray(image.Rect(0, 0, 3, 3)))
	if err := os.WriteFile(filepath.Join(dir, "bad.jpg"), []byte("no picture"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.out.await(t, "the fourth part", func(s string) bool { return lines(s) == 4 })
	// Half of it is written, and read by nobody.
	good, err := os.ReadFile(filepath.Join(dir, "a.png"))
	if err != nil {
		t.Fatal(err)
	}
	slow.Write(good)
	f.Write(good[:len(good)/2])
	write("c.png", picture(4))
	r.out.await(t, "the fifth part", func(s string) bool { return lines(s) == 5 })
	f.Write(good[len(good)/2:])
	f.Close()
	if code := r.wait(); code != exitFail {
		t.Fatalf("%d: %s", code, r.err)
	}
	want := []struct{ file, verdict, why string }{
		{"a.png", "PASS", ""}, {"b.png", "PASS", ""}, {"small.png", verdictMissing, "it is 3 x 3"}, {"bad.jpg",
			verdictMissing, "unknown format"},
		{"c.png", "FAIL", "mean"}, {"slow.png", "PASS", ""},
	}
	for i, x := range r.rows(t) {
		if w := want[i]; x.Data["file"] != w.file || x.Verdict != w.verdict || !strings.Contains(x.Why, w.why) ||
			x.Part != fmt.Sprintf("in-%d", i) {
			t.Errorf("row %d: %+v, want %+v", i, x, w)
		}
	}
	if !strings.Contains(r.err.String(), "notes.txt is no picture") {
		t.Errorf("%s", r.err)
	}
}

// What is linked into a folder is taken as what is renamed into it: at once whole, each time by its own name alone. A
// name that leads nowhere, or to no file, is a part that is missing; a folder is told of.
func TestFolderLinks(t *testing.T) {
	t.Parallel()
	s := startInspector(t, false)
	dir, other := t.TempDir(), t.TempDir()
	r := start(t, "stream", dir, "--addr", s.addr, "-r", regionsFile(t, 160, 120), "--json", "--count", "9")
	r.err.await(t, "that it waits", func(s string) bool { return strings.Contains(s, "first picture") })
	from := func(name string) string { return filepath.Join(other, name) }
	to := func(name string) string { return filepath.Join(dir, name) }
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		writePNG(t, from(fmt.Sprint(i, ".png")), picture(uint64(i)))
	}
	steps := []struct {
		file, verdict, why string
		do                 func(name string)
	}{
		{"hard.png", "PASS", "", func(name string) { check(os.Link(from("0.png"), name)) }},
		{"soft.png", "FAIL", "mean", func(name string) { check(os.Symlink(from("4.png"), name)) }},
		{"moved.png", "PASS", "", func(name string) { // a link and no link
			check(os.Link(from("1.png"), name))
			check(os.Remove(from("1.png")))
		}},
		{"forced.png", "PASS", "", func(name string) { // as ln -f does it
			check(os.Link(from("2.png"), to("CuXYZ.png")))
			check(os.Rename(to("CuXYZ.png"), name))
		}},
		{"read.png", "FAIL", "mean", func(name string) {
			check(os.Link(from("4.png"), name))
			_, err := os.ReadFile(name)
			check(err)
		}},
		{"nowhere.png", verdictMissing, "no such file", func(name string) { check(os.Symlink(from("no"), name)) }},
		{"pipe.png", verdictMissing, "no regular file", func(name string) { check(syscall.Mkfifo(name, 0o600)) }},
		{"folder.png", verdictMissing, "no regular file", func(name string) {
			check(os.Mkdir(to("folder"), 0o700))
			check(os.Mkdir(name, 0o700))
		}},
		{"written.png", "PASS", "", func(name string) {
			f, err := os.Create(name)
			check(err)
			_, err = os.ReadFile(name) // that another reads it makes it no link
			check(err)
			good, err := os.ReadFile(from("3.png"))
			check(err)
			f.Write(good[:100])
			time.Sleep(time.Second / 5)
			f.Write(good[100:])
			check(f.Close())
		}},
	}
	for i, step := range steps {
		step.do(to(step.file))
		r.out.await(t, step.file, func(s string) bool { return lines(s) == i+1 })
	}
	if code := r.wait(); code != exitFail {
		t.Errorf("%d: %s", code, r.err)
	}
	for i, x := range r.rows(t) {
		if w := steps[i]; x.Data["file"] != w.file || x.Verdict != w.verdict || !strings.Contains(x.Why, w.why) {
			t.Errorf("row %d: %+v, want %+v", i, x, w)
		}
	}
	if !strings.Contains(r.err.String(), "folder is no picture (.png, .jpg): it is left alone") {
		t.Errorf("%s", r.err)
	}
}

// Pictures that can't be taken as they are, before the first that can, are parts that are missing, as with --layout:
// the parts behind them have the numbers that they would have had.
func TestFolderBeginsBadly(t *testing.T) {
	s := startInspector(t, false)
	dir := t.TempDir()
	r := start(t, "stream", dir, "--addr", s.addr, "--limit", "max < 150", "--json", "--count", "6", "--name", "in")
	r.err.await(t, "that it waits", func(s string) bool { return strings.Contains(s, "first picture") })
	if err := os.WriteFile(filepath.Join(dir, "0.png"), []byte("no picture"), 0o600); err != nil {
		t.Fatal(err)
	}
	size := image.Rect(0, 0, 160, 120)
	through := image.NewNRGBA(size)
	draw.Draw(through, size, image.NewUniform(color.NRGBA{200, 200, 200, 100}), image.Point{}, draw.Src)
	writePNG(t, filepath.Join(dir, "1.png"), through)
	deep := image.NewRGBA64(size)
	draw.Draw(deep, size, image.NewUniform(color.RGBA64{1, 2, 3, 0xffff}), image.Point{}, draw.Src)
	writePNG(t, filepath.Join(dir, "2.png"), deep)
	opaque := image.NewNRGBA(size)
	draw.Draw(opaque, size, image.NewUniform(color.NRGBA{200, 100, 100, 255}), image.Point{}, draw.Src)
	writePNG(t, filepath.Join(dir, "3.png"), opaque)
	opaque.Set(3, 2, color.NRGBA{100, 100, 100, 254})
	writePNG(t, filepath.Join(dir, "4.png"), opaque)
	draw.Draw(opaque, size, image.NewUniform(color.NRGBA{100, 100, 100, 255}), image.Point{}, draw.Src)
	writePNG(t, filepath.Join(dir, "5.png"), opaque)
	if code := r.wait(); code != exitFail {
		t.Errorf("%d: %s", code, r.err)
	}
	want := []struct{ verdict, why string }{
		{verdictMissing, "0.png: image: unknown format"},
		{verdictMissing, "1.png: pixel (0, 0) is transparent, alpha 100 of 255"},
		{verdictMissing, "2.png: 16-bit colour: no pixel format holds it"}, {"FAIL", "part: red max 200"},
		{verdictMissing, "4.png: pixel (3, 2) is transparent, alpha 254 of 255"}, {"PASS", ""},
	}
	rows := r.rows(t)
	if len(rows) != len(want) {
		t.Fatalf("%d parts: %+v", len(rows), rows)
	}
	for i, x := range rows {
		w := want[i]
		if x.Data["file"] != fmt.Sprintf("%d.png", i) || x.Verdict != w.verdict || !strings.HasPrefix(x.Why, w.why) ||
			x.Part != fmt.Sprintf("in-%d", i) {
			t.Errorf("row %d: %+v, want %+v", i, x, w)
		}
	}
}

// Parts of which nobody says what is good are not passed.
func TestNoVerdict(t *testing.T) {
	s := startInspector(t, false)
	regions := filepath.Join(t.TempDir(), "regions.json")
	const all = `[{"name": "all", "rings": [[[0, 0], [160, 0], [160, 120]]]}]`
	if err := os.WriteFile(regions, []byte(all), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r := start(t, "stream", dir, "--addr", s.addr, "-r", regions, "--json", "--count", "1")
	r.err.await(t, "that it waits", func(s string) bool { return strings.Contains(s, "first picture") })
	writePNG(t, filepath.Join(dir, "a.png"), picture(0))
	if code := r.wait(); code != exitVoid ||
		!strings.Contains(r.err.String(), "1 of 1 parts got no verdict: no region has limits") {
		t.Fatalf("%d: %s", code, r.err)
	}
	if row := r.rows(t)[0]; row.Verdict != verdictNone {
		t.Errorf("%+v", row)
	}
}

// A folder that goes away and comes back is watched again.
func TestFolderComesBack(t *testing.T) {
	s := startInspector(t, false)
	dir := filepath.Join(t.TempDir(), "in")
	make := func() {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	make()
	r := start(t, "stream", dir, "--addr", s.addr, "-r", regionsFile(t, 160, 120), "--json", "--count", "2")
	r.err.await(t, "that it waits", func(s string) bool { return strings.Contains(s, "first picture") })
	put := func(name string) { writePNG(t, filepath.Join(dir, name), picture(0)) }
	put("a.png")
	r.out.await(t, "the first part", func(s string) bool { return lines(s) == 1 })
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	r.err.await(t, "that it is gone", func(s string) bool { return strings.Contains(s, "has gone") })
	make()
	r.err.await(t, "that it is back", func(s string) bool { return strings.Contains(s, "there again") })
	put("b.png")
	if code := r.wait(); code != exitOK {
		t.Fatalf("%d: %s", code, r.err)
	}
}

// What is in the place of a folder that has gone is read as it is, once each: another folder with pictures in it,
// before the first picture, too, the old one that comes back with one more, and what a link or a mount leads to now.
func TestFolderMadeAnew(t *testing.T) {
	t.Parallel()
	s := startInspector(t, false)
	top := t.TempDir()
	in := func(names ...string) string { return filepath.Join(append([]string{top}, names...)...) }
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"IN", "anew", "third"} {
		check(os.Mkdir(in(dir), 0o700))
	}
	writePNG(t, in("IN", "before.png"), picture(0))
	writePNG(t, in("anew", "a.png"), picture(0))
	writePNG(t, in("anew", "b.png"), picture(4))
	writePNG(t, in("third", "e.png"), picture(4))
	check(os.Symlink(in("IN"), in("link")))
	r := start(t, "stream", in("link"), "--addr", s.addr, "-r", regionsFile(t, 160, 120), "--json")
	r.err.await(t, "that it waits", func(s string) bool { return strings.Contains(s, "first picture") })
	check(os.Rename(in("IN"), in("away")))
	check(os.Rename(in("anew"), in("IN")))
	r.out.await(t, "what the new folder has", func(s string) bool { return lines(s) == 2 })
	check(os.Rename(in("IN"), in("anew")))
	check(os.Rename(in("away"), in("IN")))
	writePNG(t, in("IN", "c.png"), picture(0))
	r.out.await(t, "what the old one has", func(s string) bool { return lines(s) == 3 })

	slow, err := os.Create(in("third", "d.png")) // somebody goes on writing to it
	check(err)
	check(os.Symlink(in("third"), in("link2")))
	check(os.Rename(in("link2"), in("link")))
	good, err := os.ReadFile(in("anew", "a.png"))
	check(err)
	for len(good) > 0 {
		n := min(len(good), 40)
		_, err := slow.Write(good[:n])
		check(err)
		good = good[n:]
		time.Sleep(20 * time.Millisecond)
	}
	check(slow.Close())
	r.out.await(t, "what the link leads to", func(s string) bool { return lines(s) == 5 })
	r.cancel()
	if code := r.wait(); code != exitFail {
		t.Errorf("%d: %s", code, r.err)
	}
	var got []string
	for i, x := range r.rows(t) {
		if x.Number != uint64(i) {
			t.Errorf("row %d: %+v", i, x)
		}
		got = append(got, x.Data["file"]+" "+x.Verdict)
	}
	slices.Sort(got[min(3, len(got)):])
	if want := []string{"a.png PASS", "b.png FAIL", "c.png PASS", "d.png PASS", "e.png FAIL"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q\n%s", got, want, r.err)
	}
}

// Pixels come from a pipe until it ends; what ends within a block is incomplete, and a named pipe's next writer begins
// another block.
func TestPipe(t *testing.T) {
	s := startInspector(t, false)
	fifo := filepath.Join(t.TempDir(), "pixels")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	r := start(t, "stream", fifo, "--addr", s.addr, "-r", regionsFile(t, 160, 120), "--json", "--count", "4",
		"--layout", "160x120:Mono8")
	write := func(b []byte) {
		f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(b); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	half := picture(2).Pix[:160*60+7]
	write(bytes.Join([][]byte{picture(0).Pix, picture(4).Pix, half}, nil))
	r.err.await(t, "that the writer has gone", func(s string) bool { return strings.Contains(s, "has gone") })
	write(picture(0).Pix)
	if code := r.wait(); code != exitFail {
		t.Fatalf("%d: %s", code, r.err)
	}
	rows := r.rows(t)
	for i, want := range []string{"PASS", "FAIL", verdictIncomplete, "PASS"} {
		x := rows[i]
		if x.Verdict != want || x.Part != fmt.Sprintf("pixels-%d", i) ||
			(x.MissingLines == 60) != (want == verdictIncomplete) {
			t.Errorf("%+v, want %s", x, want)
		}
	}
}

func TestStdin(t *testing.T) {
	s := startInspector(t, true)
	var in bytes.Buffer
	for i := range 50 {
		in.Write(picture(uint64(i)).Pix)
	}
	in.Write(make([]byte, 160*3))
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"stream", "-", "--addr", s.addr, "-r", regionsFile(t, 160, 120), "--layout",
		"160x120:Mono8"},
		&in, &out, &errs)
	if code != exitFail || !strings.Contains(out.String(), "51 parts in") || !strings.Contains(out.String(),
		"40 PASS, 10 FAIL, 1 INCOMPLETE") ||
		!strings.Contains(out.String(), "standard input: 160 x 120 Mono8, ") {
		t.Fatalf("%d: %s%s", code, &out, &errs)
	}
	// One that says nothing is left when the stream ends.
	silent, w := io.Pipe()
	defer w.Close()
	if code := run(t.Context(), []string{"stream", "-", "--addr", s.addr, "--limit", "mean > 3", "--layout",
		"160x120:Mono8", "--duration",
		"20ms"}, silent, &out, &errs); code != exitVoid {
		t.Errorf("%d: %s", code, &errs)
	}
}

// Parts that are late of a budget that was asked for, and fewer than were asked for, are not passed.
func TestNotPassed(t *testing.T) {
	s := startInspector(t, false)
	for _, x := range []struct {
		flags         []string
		code          int
		verdict, want string
	}{
		{nil, exitOK, "PASS", ""},
		{[]string{"--count", "2"}, exitOK, "PASS", ""},
		{[]string{"--count", "5"}, exitFail, "PASS", "camera: 2 of 5 parts came\n"},
		{[]string{"--budget", "1m"}, exitOK, "PASS", ""},
		{[]string{"--budget", "1us"}, exitFail, "LATE", "camera: 2 of 2 parts were late: --budget allows 1µs\n"},
		{[]string{"--budget", "0s"}, exitUsage, "", "--budget 0s: must be 1us or more"},
	} {
		var out, errs screen
		in := bytes.NewReader(append(picture(0).Pix, picture(1).Pix...))
		code := run(t.Context(), append([]string{"stream", "-", "--addr", s.addr, "--limit", "min >= 1", "--layout",
			"160x120:Mono8", "--json"}, x.flags...), in, &out, &errs)
		if code != x.code || (x.want == "") != (errs.String() == "") || !strings.Contains(errs.String(), x.want) {
			t.Errorf("%q: %d, %q, want %d, %q", x.flags, code, &errs, x.code, x.want)
		}
		for _, row := range (&running{out: &out}).rows(t) {
			late := x.verdict == verdictLate
			if row.Verdict != x.verdict || late != strings.Contains(row.Why, "late: it took ") || late && !row.Late {
				t.Errorf("%q: %+v, want %s", x.flags, row, x.verdict)
			}
		}
	}
}

// A stream that waits for its source ends with its time, and has no part.
func TestDurationWaits(t *testing.T) {
	s := startInspector(t, false)
	file := filepath.Join(t.TempDir(), "line.yaml")
	text := fmt.Sprintf("cameras: [{name: in, source: %s, addr: '%s', limit: mean > 3, duration: 20ms}]", t.TempDir(),
		s.addr)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"run", file},
		{"stream", t.TempDir(), "--addr", s.addr, "--limit", "mean > 3", "--duration", "20ms"}} {
		r := start(t, args...)
		r.err.await(t, "that no part came", func(s string) bool { return strings.Contains(s, "no part came") })
		if code := r.wait(); code != exitVoid {
			t.Errorf("%q: %d: %s", args, code, r.err)
		}
	}
}

// fakeFFmpeg puts scripts in the place of ffmpeg and ffprobe. The one that plays is given its arguments in $ARGS.
func fakeFFmpeg(t *testing.T, probe, play string) (args string) {
	t.Helper()
	dir := t.TempDir()
	args = filepath.Join(dir, "args")
	for name, text := range map[string]string{"ffprobe": probe, "ffmpeg": "echo \"$@\" >>" + args + "\n" + play} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return args
}

const probed = `echo '{"streams":[{"codec_name":"rawvideo","width":160,"height":120,"pix_fmt":"gray"}]}'`

// What ffmpeg says and how it ends is told; a frame that it didn't finish is incomplete.
func TestFFmpegEnds(t *testing.T) {
	s := startInspector(t, false)
	frames := filepath.Join(t.TempDir(), "frames")
	if err := os.WriteFile(frames, append(picture(0).Pix, picture(0).Pix[:3000]...), 0o600); err != nil {
		t.Fatal(err)
	}
	video := filepath.Join(t.TempDir(), "belt.mkv")
	if err := os.WriteFile(video, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	each := map[bool]string{false: "-fps_mode passthrough", true: "-vsync 0"}
	for _, x := range []struct {
		name, probe, play string
		code              int
		want              []string
	}{
		{"whole", probed, "head -c 19200 " + frames, exitOK, []string{"1 parts in", "1 PASS",
			"belt.mkv: rawvideo, 160 x 120 Mono8"}},
		{"error", probed, "cat " + frames + "; echo decoding went wrong >&2; exit 7", exitLost,
			[]string{"camera: ffmpeg: decoding went wrong", "ffmpeg: exit status 7: decoding went wrong",
				"INCOMPLETE"}},
		{"early", probed, "cat " + frames, exitLost, []string{"it ended within a frame",
			"belt-1                INCOMPLETE"}},
		{"talk", probed, "i=0; while [ $i -lt 90 ]; do echo line $i >&2; i=$((i+1)); done; head -c 19200 " + frames,
			exitOK, []string{"ffmpeg: line 19\n", "ffmpeg: 70 more lines"}},
		{"damage", probed, "head -c 19200 " + frames + "; sleep 0.2; " +
			"echo '[mjpeg @ 0x1] [error] overread 8' >&2; sleep 0.2; head -c 19200 " + frames,
			exitLost, []string{"belt-0                PASS",
				"120 of 120 lines did not come: ffmpeg: [mjpeg @ 0x1] [error] overread 8",
				"belt.mkv: damaged: ffmpeg: [mjpeg @ 0x1] [error] overread 8"}},
		{"damage at the end", probed, "head -c 19200 " + frames + "; echo '[error] x: File ended prematurely' >&2",
			exitLost, []string{"belt.mkv: damaged: ffmpeg: [error] x: File ended prematurely"}},
		{"old", strings.Replace(probed, `"streams"`, `"program_version":{"version":"4.4.2-0ubuntu"},"streams"`, 1),
			"head -c 19200 " + frames, exitOK, []string{"1 PASS"}},
		{"one time", probed,
			"echo '[rawvideo @ 0x1] [error] Application provided invalid, non monotonically increasing dts to " +
				"muxer in stream 0: 29 >= 29' >&2; head -c 19200 " + frames, exitOK, []string{"1 PASS"}},
		{"warning", probed, "echo '[mjpeg @ 0x1] [warning] EOI missing' >&2; head -c 19200 " + frames, exitOK,
			[]string{"1 PASS"}},
		{"no video", `echo '{"streams":[]}'`, "", exitUsage, []string{"there is no video"}},
		{"no probe", "echo it is broken >&2; exit 3", "", exitUsage, []string{"ffprobe: exit status 3: it is broken"}},
		{"huge", `echo '{"streams":[{"width":70000,"height":1,"pix_fmt":"gray"}]}'`, "", exitUsage,
			[]string{"width 70000"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			args := fakeFFmpeg(t, x.probe, x.play)
			var out bytes.Buffer
			code := run(t.Context(), []string{"stream", video, "--addr", s.addr, "-r", regionsFile(t, 160, 120)}, nil,
				&out, &out)
			if code != x.code {
				t.Fatalf("%d, want %d\n%s", code, x.code, &out)
			}
			for _, want := range x.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in\n%s", want, &out)
				}
			}
			if x.play != "" {
				said, _ := os.ReadFile(args)
				if want := "-protocol_whitelist file -i file:" + video +
					" -map 0:v:0"; !strings.Contains(string(said), want) ||
					!strings.HasSuffix(string(said), each[x.name == "old"]+" -f rawvideo -pix_fmt gray pipe:1\n") {
					t.Errorf("%s", said)
				}
			}
		})
	}
}

// A live source is read anew when it ends, and its process is killed with the stream.
func TestFFmpegLive(t *testing.T) {
	s := startInspector(t, false)
	frame := filepath.Join(t.TempDir(), "frame")
	if err := os.WriteFile(frame, picture(0).Pix, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		source string
		args   []string
		want   string
	}{
		{"rtsp://camera.example/1", nil, "-protocol_whitelist rtsp,rtsps,rtp,srtp,tcp,udp,tls,crypto " +
			"-rtsp_transport tcp -i rtsp://camera.example/1 "},
		// /dev/null is a device, too, and nothing else of one is here.
		{"/dev/null", []string{"--layout", "160x120:Mono8"}, "-f v4l2 -video_size 160x120 -i /dev/null "},
	} {
		pid := filepath.Join(t.TempDir(), "pid")
		args := fakeFFmpeg(t, probed, "echo $$ >"+pid+"; cat "+frame+" "+frame+
			"; [ $(wc -l <$(dirname $0)/args) -gt 1 ] && exec sleep 1000; echo it broke >&2; exit 1")
		r := start(t, append([]string{"stream", x.source, "--addr", s.addr, "-r", regionsFile(t, 160, 120), "--json"},
			x.args...)...)
		r.out.await(t, "parts of the second process", func(s string) bool { return lines(s) == 4 })
		r.cancel()
		if code := r.wait(); code != exitOK || !strings.Contains(r.err.String(), "ffmpeg: exit status 1: it broke") {
			t.Fatalf("%d: %s", code, r.err)
		}
		if said, _ := os.ReadFile(args); strings.Count(string(said), x.want) != 2 {
			t.Errorf("%s", said)
		}
		b, _ := os.ReadFile(pid)
		if err := exec.Command("kill", "-0", strings.TrimSpace(string(b))).Run(); err == nil {
			t.Errorf("process %s is still there", b)
		}
		for i, o := range r.rows(t) {
			if o.Verdict != "PASS" || o.Number != uint64(i) {
				t.Errorf("%+v", o)
			}
		}
	}
}

// Real ones, where they are installed; stage camera of .ci/run has them.
func TestFFmpegReal(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		if os.Getenv("CAMERA_ARAVIS") != "" {
			t.Fatal(err)
		}
		t.Skip("not installed; stage camera of .ci/run installs it")
	}
	s := startInspector(t, false)
	raw := exec.Command("ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "gray", "-s", "160x120", "-i", "-",
		"-c:v", "ffv1",
		filepath.Join(t.TempDir(), "belt.mkv"))
	for i := range 20 {
		if raw.Stdin == nil {
			raw.Stdin = &bytes.Buffer{}
		}
		raw.Stdin.(*bytes.Buffer).Write(picture(uint64(i)).Pix)
	}
	if out, err := raw.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	video := raw.Args[len(raw.Args)-1]
	r := start(t, "stream", video, "--addr", s.addr, "-r", regionsFile(t, 160, 120), "--json")
	if code := r.wait(); code != exitFail {
		t.Fatalf("%d: %s", code, r.err)
	}
	rows := r.rows(t)
	if i, m := checkRows(t, rows); len(rows) != 20 || i+m > 0 {
		t.Errorf("%d parts, %d incomplete, %d missing", len(rows), i, m)
	}
	b, err := os.ReadFile(video)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.mkv")
	if err := os.WriteFile(cut, b[:len(b)*2/3], 0o600); err != nil {
		t.Fatal(err)
	}
	r = start(t, "stream", cut, "--addr", s.addr, "--limit", "mean > 1")
	if code := r.wait(); code != exitLost || !strings.Contains(r.err.String(), "cut.mkv: damaged: ffmpeg: ") {
		t.Errorf("a file that was cut: %d: %s", code, r.err)
	}
	// Frames come once each, whenever they are, and a file that was cut between frames is refused.
	avi, twice := filepath.Join(t.TempDir(), "belt.avi"), filepath.Join(t.TempDir(), "twice.mkv")
	for to, how := range map[string][]string{avi: {"-c:v", "mjpeg"},
		twice: {"-vf", "setpts=if(lt(N\\,10)\\,N*0.02\\,N*0.2)/TB", "-vsync", "0", "-enc_time_base", "1/1000", "-c:v",
			"ffv1"}} {
		if out, err := exec.Command("ffmpeg", slices.Concat([]string{"-v", "error", "-i", video}, how, []string{to})...).
			CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		r := start(t, "stream", to, "--addr", s.addr, "--limit", "mean >= 1", "--json")
		if code := r.wait(); code != exitOK || len(r.rows(t)) != 20 {
			t.Errorf("%s: %d: %d parts\n%s", to, code, len(r.rows(t)), r.err)
		}
	}
	if b, err = os.ReadFile(avi); err != nil {
		t.Fatal(err)
	}
	last := bytes.LastIndex(b[:bytes.LastIndex(b, []byte("idx1"))], []byte("00dc"))
	if err := os.WriteFile(avi, b[:last], 0o600); err != nil {
		t.Fatal(err)
	}
	r = start(t, "stream", avi, "--addr", s.addr, "--limit", "mean >= 1")
	if code := r.wait(); code != exitUsage || !strings.Contains(r.err.String(), "belt.avi: the file is cut: it has") {
		t.Errorf("an AVI that was cut: %d: %s", code, r.err)
	}
	for _, args := range [][]string{
		{"stream", video, "--layout", "160x121:Mono8"}, {"stream", "/dev/null"}, {"stream", "rtsp://127.0.0.1:1/x"},
	} {
		r := start(t, append(args, "--addr", s.addr, "--limit", "mean > 1")...)
		if code := r.wait(); code != exitLost && code != exitUsage || r.err.String() == "" {
			t.Errorf("%q: %d: %s", args, code, r.err)
		} else {
			t.Logf("%q: %d: %s", args[1:], code, strings.TrimSpace(r.err.String()))
		}
	}
}

func TestSourceRefused(t *testing.T) {
	dir := t.TempDir()
	png := filepath.Join(dir, "a.png")
	writePNG(t, png, picture(0))
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"-"}, "--layout has to say"},
		{[]string{fifo}, "--layout has to say"},
		{[]string{"./none"}, "no such file"},
		{[]string{"http://x/y"}, "want rtsp://"},
		{[]string{png}, "a picture is no stream"},
		{[]string{dir, "--set", "Width=3"}, "--set: only cameras have it"},
		{[]string{dir, "--no-resend"}, "--no-resend: only cameras have it"},
		{[]string{dir, "--silence", "1s"}, "--silence: only cameras have it"},
		{[]string{dir, "--socket-buffer", "100000"}, "--socket-buffer: only cameras have it"},
		{[]string{"-", "--layout", "3x3"}, "want WIDTHxHEIGHT:FORMAT"},
		{[]string{"-", "--layout", "3x3:Gray"}, `pixel format "Gray": want one of Mono8`},
		{[]string{"-", "--layout", "3x99999:Mono8"}, "height 99999: must be 1 to 65536"},
		{[]string{"CAM1", "--layout", "3x3:Mono8"}, "a camera says itself"},
		{[]string{"CAM1", "--reconnect=-1s"}, "--reconnect -1s"},
	} {
		r := start(t, append([]string{"stream", "--addr", "localhost:1", "--limit", "mean > 1"}, x.args...)...)
		if code := r.wait(); code != exitUsage || !strings.Contains(r.err.String(), x.want) {
			t.Errorf("%q: %d, %s; want %s", x.args, code, r.err, x.want)
		}
	}
}

// Formats have one name for ffmpeg each, and come back by it.
func TestRawFormats(t *testing.T) {
	for f, name := range rawFormats {
		if got := formatOf(name); got != f {
			t.Errorf("%s is %v, want %v", name, got, f)
		}
	}
	for name, want := range map[string]gvsp.PixelFormat{"gray12be": gvsp.Mono12, "yuv420p": gvsp.RGB8, "": gvsp.RGB8} {
		if got := formatOf(name); got != want {
			t.Errorf("%s is %v", name, got)
		}
	}
}
