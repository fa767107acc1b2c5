package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	for name, from := range map[string]string{"f1.png": "frame_000.png", "f2.png": "frame_000.png", "f10.png": "frame_001.png"} {
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
	if !regexp.MustCompile(`^.*/out: 3 frames, [0-9.]+ a second, by cpu\n$`).MatchString(stdout) {
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
		if a, b := readPNG(t, filepath.Join(in, from)).Bounds(), readPNG(t, filepath.Join(dir, "out", fmt.Sprintf("frame_%05d.png", i+1))).Bounds(); a != b {
			t.Errorf("%s is %v, the frame %v", from, a, b)
		}
	}
	// Without hysteresis each frame is what it gives alone. The folder is there already this time.
	succeed(t, "lowpoly", "--video", in, "-o", filepath.Join(dir, "out"), "--points", "200", "--strength", "0")
	for i, from := range []string{"f1.png", "f2.png", "f10.png"} {
		if succeed(t, "lowpoly", filepath.Join(in, from), "-o", "-", "--points", "200") != string(read("out", 3)[i]) {
			t.Errorf("%s: the frame isn't what the image gives", from)
		}
	}
	film := write(t, "film.GIF", string(testGIF(t)))
	succeed(t, "lowpoly", "--video", film, "-o", filepath.Join(dir, "gif"))
	for i, b := range read("gif", 4) {
		if im, err := png.Decode(bytes.NewReader(b)); err != nil || im.Bounds().Size() != (image.Point{6, 4}) {
			t.Errorf("frame %d: %v", i, err)
		}
	}
}

// testGIF has frames with each way of disposal: a red background, a green square that goes again, a blue one that leaves a
// hole, and a white pixel.
func testGIF(t testing.TB) []byte {
	palette := color.Palette{color.NRGBA{}, color.NRGBA{255, 0, 0, 255}, color.NRGBA{0, 255, 0, 255}, color.NRGBA{0, 0, 255, 255}, color.NRGBA{255, 255, 255, 255}}
	part := func(r image.Rectangle, index uint8) *image.Paletted {
		im := image.NewPaletted(r, palette)
		for i := range im.Pix {
			im.Pix[i] = index
		}
		return im
	}
	g := &gif.GIF{
		Image: []*image.Paletted{
			part(image.Rect(0, 0, 6, 4), 1), part(image.Rect(1, 1, 3, 3), 2), part(image.Rect(2, 0, 5, 2), 3), part(image.Rect(5, 3, 6, 4), 4),
		},
		Delay:    []int{1, 1, 1, 1},
		Disposal: []byte{gif.DisposalNone, gif.DisposalPrevious, gif.DisposalBackground, 0},
		Config:   image.Config{ColorModel: palette, Width: 6, Height: 4},
	}
	g.Image[1].SetColorIndex(1, 1, 0) // what is transparent shows what is below
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, g); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGIFClip(t *testing.T) {
	c, err := gifClip("film.gif", testGIF(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for f, err := range c.frames {
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for p := range slices.Chunk(f.data, 4) {
			switch [4]byte(p) {
			case [4]byte{255, 0, 0, 255}:
				b.WriteByte('r')
			case [4]byte{0, 255, 0, 255}:
				b.WriteByte('g')
			case [4]byte{0, 0, 255, 255}:
				b.WriteByte('b')
			case [4]byte{255, 255, 255, 255}:
				b.WriteByte('w')
			case [4]byte{}:
				b.WriteByte('.')
			default:
				fmt.Fprintf(&b, "%x", p)
			}
		}
		got = append(got, b.String())
	}
	want := []string{
		"rrrrrr" + "rrrrrr" + "rrrrrr" + "rrrrrr",
		"rrrrrr" + "rrgrrr" + "rggrrr" + "rrrrrr",
		"rrbbbr" + "rrbbbr" + "rrrrrr" + "rrrrrr",
		"rr...r" + "rr...r" + "rrrrrr" + "rrrrrw",
	}
	if !slices.Equal(got, want) || c.count != 4 {
		t.Errorf("%d frames:\n%s\nwant\n%s", c.count, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for range c.frames {
		break // leaves nothing behind
	}
}

func TestLowpolyVideoRefuses(t *testing.T) {
	dir := t.TempDir()
	film := write(t, "film.gif", string(testGIF(t)))
	out := filepath.Join(dir, "out")
	for _, x := range []struct{ args, says string }{
		{"--video " + film, "--video needs a folder to write to"},
		{"--video " + film + " -o -", "--video needs a folder to write to"},
		{"--video " + film + " -o " + out + " --svg a.svg", "--svg and --mesh are for an image"},
		{frames + "metal.png --video " + film + " -o " + out, "give an image, or a --video"},
		{"-o " + out, "give an image, or a --video"},
		{"--video " + film + " -o " + film, "is no folder"},
		{"--video " + film + " -o " + out + "/a/b", "no such file"},
		{"--video " + film + " -o " + out + " --strength 64", "--strength 64: must be 0 to 63"},
		{"--video " + film + " -o " + out + " --format gray8", "--raw and --format are for frames in a folder"},
		{"--video " + dir + " -o " + out, "no frames"},
		{"--video " + dir + "/none -o " + out, "no such file"},
		{"--video " + frames + "conveyor -o " + frames + "conveyor", "is the folder of the frames"},
		{"--video " + write(t, "x.gif", "GIF89a") + " -o " + out, "is no GIF that can be read"},
		{"--video " + write(t, "huge.gif", "GIF89a\xff\xff\xff\xff\x00\x00\x00") + " -o " + out, "65535x65535 pixels: must be 1 to"},
	} {
		_, stderr, code := polyscan(t, append([]string{"lowpoly"}, strings.Fields(x.args)...)...)
		if code == 0 || !strings.Contains(stderr, x.says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, %q, want one line with %q", x.args, code, stderr, x.says)
		}
	}
}

func FuzzGIFClip(f *testing.F) {
	f.Add(testGIF(f))
	f.Add([]byte("GIF89a"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if cfg, err := gif.DecodeConfig(bytes.NewReader(b)); err == nil && cfg.Width*cfg.Height > 1<<16 {
			return // slow, and nothing new
		}
		c, err := gifClip("film.gif", b)
		if err != nil {
			return
		}
		n := 0
		for f, err := range c.frames {
			if n++; err != nil || len(f.data) != 4*f.raw.Width*f.raw.Height {
				t.Fatalf("frame %d of %dx%d has %d bytes, %v", n, f.raw.Width, f.raw.Height, len(f.data), err)
			}
		}
		if n != c.count {
			t.Fatalf("%d frames of %d", n, c.count)
		}
	})
}
