package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"image"
	"image/gif"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/lowpoly"
)

// fakeFFmpeg puts a script in place of ffmpeg. It has $in and $out: the file behind -i, and the last argument.
func fakeFFmpeg(t *testing.T, script string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("scripts need a shell")
	}
	dir := t.TempDir()
	text := "#!/bin/sh\nfor out; do :; done\nwhile [ $# -gt 0 ]; do [ \"$1\" = -i ] && in=\"${2#file:}\"; shift; " +
		"done\nout=\"${out#file:}\"\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(dir, "ffmpeg"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// What a fake does that has two frames of 3x2 pixels, and writes what it is given.
const soundFFmpeg = `
info="  Duration: 00:00:00.08, start: 0.000000
  Stream #0:0[0x1](und): Video: h264 (High), yuv420p, 3x2, 25 fps, 25 tbr"
if [ "$in" = - ]; then exec cat >"$out"; fi
if [ "$out" = "$in" ]; then echo "$info" >&2; exit 1; fi
printf 'P6\n3 2\n255\nAAAAAAAAAAAAAAAAAA'
printf 'P6\n3 2\n255\nzzzzzzzzzzzzzzzzzz'`

func TestVideoThroughFFmpeg(t *testing.T) {
	fakeFFmpeg(t, soundFFmpeg)
	dir := t.TempDir()
	film, out := write(t, "film.mp4", "anything"), filepath.Join(dir, "out.mkv")
	if says := succeed(t, "lowpoly", "--video", film, "-o", out, "--points", "4"); !strings.Contains(says,
		"out.mkv: 2 frames at ") {
		t.Error(says)
	}
	if b, err := os.ReadFile(out); err != nil || string(b) != strings.Repeat("A", 18)+strings.Repeat("z", 18) {
		t.Errorf("%q, %v", b, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("it leaves %v, %v", left, err)
	}
	succeed(t, "lowpoly", "--video", film, "-o", filepath.Join(dir, "out.gif"))
	data, err := os.ReadFile(filepath.Join(dir, "out.gif"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := gif.DecodeAll(bytes.NewReader(data))
	if err != nil || len(g.Image) != 2 || g.Delay[0] != 4 || shown(t, data)[1].Pix[0] != 'z' {
		t.Errorf("%v, %v", g, err)
	}
	// A GIF's frames are repeated as often as their delays say, here 30, 10 (for 0) and 20 hundredths.
	s := &gifSink{name: filepath.Join(dir, "in.gif"), delays: []int{30, 0, 20}, rate: defaultRate}
	for i := range 3 {
		im := image.NewNRGBA(image.Rect(0, 0, 2, 1))
		copy(im.Pix, []byte{byte('a' + i), byte('a' + i), byte('a' + i), 255, byte('a' + i), byte('a' + i),
			byte('a' + i), 255})
		if err := s.add(rawPicture(im)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.close(true); err != nil {
		t.Fatal(err)
	}
	succeed(t, "lowpoly", "--video", s.name, "-o", out, "--hold", "0")
	if b, err := os.ReadFile(out); err != nil || string(b) != "aaaaaaaaaaaaaaaaaabbbbbbcccccccccccc" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestFFmpegFails(t *testing.T) {
	dir := t.TempDir()
	film, out := write(t, "film.mp4", "anything"), filepath.Join(dir, "out.mp4")
	for _, x := range []struct{ name, script, video, says string }{
		{"no video", `echo "film.mp4: Invalid data found" >&2; exit 1`, film,
			"ffmpeg: exit status 1: film.mp4: Invalid data found"},
		{"sound only",
			`echo "  Stream #0:0: Audio: aac" >&2; echo "At least one output file must be specified" >&2; exit 1`,
			film, "film.mp4: has no pictures"},
		{"silence", `exit 3`, film, "ffmpeg: exit status 3: it says nothing"},
		{"no pictures", strings.Split(soundFFmpeg, "printf")[0], film, "has no pictures"},
		{"half a picture", strings.Replace(soundFFmpeg, "zzz", "", 1), film, "frame 1 from ffmpeg: unexpected EOF"},
		{"no picture", strings.Replace(soundFFmpeg, "P6", "P5", 1), film, `starts with "P5"`},
		{"it breaks off", strings.Replace(soundFFmpeg, "printf 'P6\\n3 2\\n255\\nz",
			"echo broken file >&2; exit 7; : 'z", 1), film, "ffmpeg: exit status 7: broken file"},
		{"damage", soundFFmpeg + "\necho overread 8 >&2", film, "film.mp4: ffmpeg: the video is damaged: overread 8"},
		{"it can't write", strings.Replace(soundFFmpeg, "exec cat >\"$out\"", "echo no room >&2; exit 5", 1), film,
			"out.mp4: ffmpeg: exit status 5: no room"},
		{"it stops reading", strings.Replace(soundFFmpeg, "exec cat >\"$out\"", "exec 0<&-; echo tired >&2; exit 6", 1),
			frames + "conveyor", "out.mp4: ffmpeg: exit status 6: tired"},
		{"it writes nothing", strings.Replace(soundFFmpeg, "exec cat >\"$out\"", "exec cat >/dev/null", 1), film,
			"out.mp4: ffmpeg: it wrote nothing"},
	} {
		t.Run(x.name, func(t *testing.T) {
			fakeFFmpeg(t, x.script)
			_, stderr, code := polyscan(t, "lowpoly", "--video", x.video, "-o", out)
			if code != exitUsage || !strings.Contains(stderr, x.says) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit %d, %q, want one line with %q", code, stderr, x.says)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("it leaves %v, %v", left, err)
			}
		})
	}
	t.Run("not installed", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		for _, args := range [][]string{{"--video", film, "-o", dir}, {"--video", frames + "conveyor", "-o", out}} {
			_, stderr, code := polyscan(t, append([]string{"lowpoly"}, args...)...)
			if code != exitUsage || !strings.Contains(stderr, "need ffmpeg, which is not installed") ||
				strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit %d, %q", code, stderr)
			}
		}
	})
	// A command that is interrupted leaves no process and no file.
	t.Run("interrupted", func(t *testing.T) {
		fakeFFmpeg(t, strings.Replace(soundFFmpeg, "printf 'P6\\n3 2\\n255\\nz", "exec sleep 100; : 'z", 1))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		c, err := readVideo(ctx, film)
		if err != nil {
			t.Fatal(err)
		}
		var last error
		for _, last = range c.frames {
			cancel() // after the only frame that comes
		}
		if last == nil || ctx.Err() == nil {
			t.Error("it ended well")
		}
		for range c.frames {
			break
		}
	})
}

func TestDescribe(t *testing.T) {
	for _, x := range []struct {
		says   string
		rate   fraction
		frames int
	}{
		{"  Duration: 00:00:10.01, start: 0\n  Stream #0:0(und): Video: h264 (avc1 / 0x31637661), yuv420p(tv), " +
			"1920x1080, 900 kb/s, 29.97 fps, 29.97 tbr", fraction{30000, 1001}, 300},
		{"  Stream #0:0: Video: vp9, 64x64, 23.98 fps", fraction{24000, 1001}, -1},
		{"  Duration: 01:00:00.00, x\n  Stream #0:0: Video: mjpeg, 64x64, 12.50 fps, 1k tbn", fraction{12500, 1000},
			45000},
		{"  Duration: N/A\n  Stream #0:0: Video: gif, bgra, 64x64, 1k tbr", fraction{1000000, 1000}, -1},
		{"  Stream #0:1: Video: png, rgb24, 64x64", defaultRate, -1},
	} {
		rate, n, ok := describe(x.says)
		if !ok || rate != x.rate || n != x.frames {
			t.Errorf("%q: %v, %d frames, %v; want %v, %d", x.says, rate, n, ok, x.rate, x.frames)
		}
	}
	if _, _, ok := describe("  Stream #0:0: Audio: aac, 48000 Hz"); ok {
		t.Error("a song is a video")
	}
}

// The defaults of the flags are those of the package.
func TestVideoDefaults(t *testing.T) {
	for name, want := range map[string]int{"Strength": lowpoly.DefaultStrength, "Hold": lowpoly.DefaultHold,
		"Points": lowpoly.DefaultVertices} {
		f, _ := reflect.TypeFor[lowpolyCmd]().FieldByName(name)
		if f.Tag.Get("default") != fmt.Sprint(want) {
			t.Errorf("--%s is %q by default, want %d", strings.ToLower(name), f.Tag.Get("default"), want)
		}
	}
}

// With the real one: a GIF becomes a video, and that a folder, with the sizes and the number of frames that they should
// have.
func TestRealFFmpeg(t *testing.T) {
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		t.Skip("ffmpeg is not installed")
	}
	dir, in := t.TempDir(), t.TempDir()
	film, size := filepath.Join(dir, "film.mkv"), image.Pt(31, 17)
	const n = 5
	for i := range n {
		if err := writePicture(filepath.Join(in, fmt.Sprintf("%d.png", i)),
			image.NewGray(image.Rectangle{Max: size})); err != nil {
			t.Fatal(err)
		}
	}
	succeed(t, "lowpoly", "--video", in, "-o", film, "--points", "100", "--rate", "10")
	c, err := readVideo(context.Background(), film)
	if err != nil {
		t.Fatal(err)
	}
	if c.rate != (fraction{10000, 1000}) {
		t.Errorf("the rate is %v", c.rate)
	}
	k := 0
	for f, err := range c.frames {
		if err != nil {
			t.Fatal(err)
		}
		if f.raw.Width != (size.X+1)/2*2 || f.raw.Height != (size.Y+1)/2*2 {
			t.Errorf("frame %d is %dx%d, the pictures were %v", k, f.raw.Width, f.raw.Height, size)
		}
		k++
	}
	if k != n {
		t.Errorf("%d frames of %d", k, n)
	}
	for range c.frames {
		break // ends the process
	}
	succeed(t, "lowpoly", "--video", film, "-o", filepath.Join(dir, "out.gif"))
	b, err := os.ReadFile(film)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(dir, "cut.mkv")
	if err := os.WriteFile(cut, b[:len(b)*2/3], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := polyscan(t, "lowpoly", "--video", cut, "-o", filepath.Join(dir, "cut.gif")); code != exitUsage ||
		!strings.Contains(stderr, "cut.mkv: ffmpeg: ") {
		t.Errorf("a file that was cut: exit %d, %q", code, stderr)
	}
	if _, stderr, code := polyscan(t, "lowpoly", "--video", write(t, "x.mp4", "no video"), "-o",
		dir); code != exitUsage || !strings.Contains(stderr, "ffmpeg: exit status") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

func FuzzReadPPM(f *testing.F) {
	f.Add([]byte("P6\n3 2\n255\nAAAAAAAAAAAAAAAAAA"))
	f.Add([]byte("P6 1 1 255 abc"))
	f.Add([]byte("P6\n99999999 99999999\n255\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 100 {
			return
		}
		p, err := readPPM(bufio.NewReader(bytes.NewReader(b)))
		if err == nil && len(p.data) != 3*p.raw.Width*p.raw.Height {
			t.Fatalf("%d bytes for %dx%d", len(p.data), p.raw.Width, p.raw.Height)
		}
	})
}
