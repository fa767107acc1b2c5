package main

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestLowpolyVideo(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	if err := os.Mkdir(in, 0o777); err != nil {
		t.Fatal(err)
	}
	// Natural order; and the second frame is the first one again.
	for name, from := range map[string]string{"f1.png": "frame_000.png", "f2.png": "frame_000.png",
		"f10.png": "frame_001.png"} {
		b, err := os.ReadFile(frames + "conveyor/" + from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(in, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(folder string, n int) (files [][]byte) {
		for i := range n {
			b, err := os.ReadFile(filepath.Join(dir, folder, fmt.Sprintf("frame_%05d.png", i+1)))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, b)
		}
		if found, err := os.ReadDir(filepath.Join(dir, folder)); err != nil || len(found) != n {
			t.Errorf("%s has %d files, %v", folder, len(found), err)
		}
		return files
	}
	stdout := succeed(t, "lowpoly", "--video", in, "-o", filepath.Join(dir, "out")+"/", "--points", "200")
	if !regexp.MustCompile(`^.*/out: 3 frames, made in [0-9.]+ m?s \([0-9.]+ frames a second\) by cpu\n$`).MatchString(stdout) {
		t.Errorf("it says %q", stdout)
	}
	got := read("out", 3)
	for i, from := range []string{"f1.png", "f2.png", "f10.png"} {
		alone := succeed(t, "lowpoly", filepath.Join(in, from), "-o", "-", "--points", "200")
		if i == 0 && alone != string(got[i]) {
			t.Error("the first frame isn't what the image gives")
		}
		if i == 2 && alone == string(got[i]) {
			t.Error("the third frame is what the image alone gives")
		}
		if a, b := readPNG(t, filepath.Join(in, from)).Bounds(),
			readPNG(t, filepath.Join(dir, "out", fmt.Sprintf("frame_%05d.png", i+1))).Bounds(); a != b {
			t.Errorf("%s is %v, the frame %v", from, a, b)
		}
	}
	// Without hysteresis each frame is what it gives alone. The folder is there already this time.
	succeed(t, "lowpoly", "--video", in, "-o", filepath.Join(dir, "out"), "--points", "200", "--strength", "0",
		"--hold", "0")
	for i, from := range []string{"f1.png", "f2.png", "f10.png"} {
		if succeed(t, "lowpoly", filepath.Join(in, from), "-o", "-", "--points", "200") != string(read("out", 3)[i]) {
			t.Errorf("%s: the frame isn't what the image gives", from)
		}
	}
	// A file has a rate, which is the video's and not that of the work.
	for rate, want := range map[string]string{"": "25", "12.5": "12.5"} {
		args := []string{"lowpoly", "--video", in, "-o", filepath.Join(dir, "out.gif"), "--points", "200", "--rate",
			rate}
		if rate == "" {
			args = args[:len(args)-2]
		}
		if out := succeed(t, args...); !strings.Contains(out, ": 3 frames at "+want+" a second, made in ") {
			t.Errorf("--rate %s: it says %q", rate, out)
		}
	}
	film := write(t, "film.GIF", string(testGIF(t)))
	if out := succeed(t, "lowpoly", "--video", film, "-o", filepath.Join(dir, "again.gif")); !strings.Contains(out,
		": 4 frames at 100 a second, made in ") {
		t.Errorf("of a GIF it says %q", out)
	}
	succeed(t, "lowpoly", "--video", film, "-o", filepath.Join(dir, "gif"))
	for i, b := range read("gif", 4) {
		if im, err := png.Decode(bytes.NewReader(b)); err != nil || im.Bounds().Size() != (image.Point{6, 4}) {
			t.Errorf("frame %d: %v", i, err)
		}
	}
	// The end of a longer video stays, and that is said.
	_, stderr, code := polyscan(t, "lowpoly", "--video", in, "-o", filepath.Join(dir, "gif"), "--points", "200")
	if code != exitOK || !strings.Contains(stderr, "gif: 1 frame of another run behind those of this one") {
		t.Errorf("a folder of 4 frames: exit %d: %s", code, stderr)
	}
}

// TestLowpolyVideoEndsEarly: of a video that ends early no frame is left, and nothing of others is taken away.
func TestLowpolyVideoEndsEarly(t *testing.T) {
	in, dir := t.TempDir(), t.TempDir()
	data, err := os.ReadFile(frames + "metal.png")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"1.png": data, "2.png": data, "3.png": data[:len(data)/2]} {
		if err := os.WriteFile(filepath.Join(in, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "out")
	broken := func(also string) {
		t.Helper()
		_, stderr, code := polyscan(t, "lowpoly", "--video", in, "-o", out, "--points", "200")
		if code != exitUsage || !strings.Contains(stderr, "3.png") || !strings.Contains(stderr, also) {
			t.Errorf("exit %d: %s", code, stderr)
		}
	}
	broken("")
	if _, err := os.Stat(out); err == nil {
		t.Error("the folder is left")
	}
	if err := os.Mkdir(out, 0o777); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 4; n++ {
		if err := os.WriteFile((&folderSink{dir: out}).file(n), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	broken("frames of another run left, and none of this one, which ended early")
	left, err := os.ReadDir(out)
	if err != nil || len(left) < 2 {
		t.Errorf("%q, %v", left, err)
	}
	for _, f := range left { // how many were replaced before the end is a matter of time
		if st, err := f.Info(); err != nil || st.Size() > 0 {
			t.Errorf("%s is a frame of this run: %v", f.Name(), err)
		}
	}
}

func TestLowpolyVideoRefuses(t *testing.T) {
	dir := t.TempDir()
	film := write(t, "film.gif", string(testGIF(t)))
	out := filepath.Join(dir, "out")
	for _, x := range []struct{ args, says string }{
		{"--video " + film, "--video needs a folder or a file to write to"},
		{"--video " + film + " -o -", "--video needs a folder or a file to write to"},
		{"--video " + film + " -o " + out + " --hold 256", "--hold 256: must be 0 to 255"},
		{"--video " + film + " -o " + out + " --rate 1001", "--rate 1001: must be 0.01 to 1000"},
		{"--video " + film + " -o " + out + " --rate NaN", `--rate: "NaN" is no number in plain digits`},
		{frames + "metal.png -o " + out + " --rate 3", "--rate has no effect without --video"},
		{"--video " + film + " -o " + out + " --svg a.svg", "--svg has no effect with --video"},
		{frames + "metal.png --video " + film + " -o " + out, "give an image, or a --video"},
		{"-o " + out, "give an image, or a --video"},
		{"--video " + film + " -o " + film, "which is read: name another file"},
		{"--video " + film + " -o " + frames + "metal.png", "is no folder"},
		{"--video " + film + " -o " + out + "/a/b", "no such file"},
		{"--video " + film + " -o " + out + " --strength 64", "--strength 64: must be 0 to 63"},
		{"--video " + film + " -o " + out + " --format gray8", "--raw and --format are for frames in a folder"},
		{"--video " + dir + " -o " + out, "no frames"},
		{"--video " + dir + "/none -o " + out, "no such file"},
		{"--video " + frames + "conveyor -o " + frames + "conveyor", "which is read: name another file"},
		{"--video " + write(t, "x.gif", "GIF89a") + " -o " + out, "is no GIF that can be read"},
		{"--video " + write(t, "huge.gif", "GIF89a\xff\xff\xff\xff\x00\x00\x00") + " -o " + out,
			"65535x65535 pixels: must be 1 to"},
	} {
		_, stderr, code := polyscan(t, append([]string{"lowpoly"}, strings.Fields(x.args)...)...)
		if code == 0 || !strings.Contains(stderr, x.says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, %q, want one line with %q", x.args, code, stderr, x.says)
		}
	}
}
