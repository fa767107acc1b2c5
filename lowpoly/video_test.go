package lowpoly_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/lowpoly"
)

// scene is an image of stripes with noise.
func scene(r *rand.Rand, w, h, stripe, noise int, f driver.PixelFormat) *devicetest.Picture {
	n := f.PixelBytes()
	p := &devicetest.Picture{Width: w, Height: h, Stride: w * n, Format: f, Pixels: make([]byte, w*h*n)}
	for i := range p.Pixels {
		p.Pixels[i] = byte(i/n%w/stripe*stripe*2%200 + r.IntN(noise+1))
	}
	if f.SampleBytes == 2 {
		for i := 1; i < len(p.Pixels); i += 2 {
			p.Pixels[i] &= 1<<(f.Bits-8) - 1
		}
	}
	return p
}

func convert(t testing.TB, d *kernels.Device, p *devicetest.Picture, opt lowpoly.Options) *lowpoly.Result {
	t.Helper()
	got, err := lowpoly.Convert(context.Background(), d, imageOf(p), opt)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func next(t testing.TB, v *lowpoly.Video, p *devicetest.Picture) *lowpoly.Result {
	t.Helper()
	got := &lowpoly.Result{}
	if err := v.Convert(context.Background(), imageOf(p), got); err != nil {
		t.Fatal(err)
	}
	return got
}

func same(a, b *lowpoly.Result) bool {
	return bytes.Equal(a.Data[0], b.Data[0]) && a.Format == b.Format && slices.Equal(a.Mesh.Points, b.Mesh.Points) &&
		slices.Equal(a.Mesh.Triangles, b.Mesh.Triangles) && slices.Equal(a.Mesh.Colors, b.Mesh.Colors)
}

// The first frame, one behind a cut, and one of another size or format are what they are by themselves; one like that
// before changes nothing; and noise changes less than it would.
func TestVideo(t *testing.T) {
	d := openCPU(t, 8<<20)
	r := seed.New(t, 1, 4)
	opt := lowpoly.Options{Vertices: 200, Strength: 9, Hold: 4}
	v := lowpoly.NewVideo(d, opt)
	a := scene(r, 120, 90, 20, 3, driver.RGB8)
	noisy := scene(r, 120, 90, 20, 3, driver.RGB8)
	first := next(t, v, a)
	if !same(first, convert(t, d, a, opt)) {
		t.Error("the first frame isn't what it is by itself")
	}
	if !same(next(t, v, a), first) {
		t.Error("the same frame once more is another picture")
	}
	second := next(t, v, noisy)
	if alone := convert(t, d, noisy, opt); 3*colorError(second.Data[0], first.Data[0]) > colorError(alone.Data[0],
		first.Data[0]) {
		t.Errorf("noise changes the video by %.3f levels, pictures by %.3f", colorError(second.Data[0], first.Data[0]),
			colorError(alone.Data[0], first.Data[0]))
	}
	for name, p := range map[string]*devicetest.Picture{
		"a cut": scene(r, 120, 90, 7, 3, driver.RGB8), "another size": scene(r, 90, 120, 7, 3, driver.RGB8),
		"smaller":        scene(r, 5, 5, 2, 3, driver.RGB8),
		"another format": scene(r, 120, 90, 20, 3, driver.Gray8), "16 bits": scene(r, 60, 50, 10, 3, driver.Gray16(12)),
		"one pixel": scene(r, 1, 1, 1, 9, driver.RGBA8),
	} {
		if !same(next(t, v, p), convert(t, d, p, opt)) {
			t.Errorf("%s: the frame isn't what it is by itself", name)
		}
		next(t, v, a)
	}
	v.Close()
	v.Close()
	if m := d.Memory(); m.Used != 0 {
		t.Errorf("%d bytes are in use after it", m.Used)
	}
}

// No colour of a video is farther than Hold from that of the same triangle by itself: so nothing leaves a ghost.
func TestVideoStaysNear(t *testing.T) {
	d := openCPU(t, 8<<20)
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		w, h := rapid.IntRange(1, 50).Draw(t, "width"), rapid.IntRange(1, 50).Draw(t, "height")
		f := rapid.SampledFrom([]driver.PixelFormat{driver.Gray8, driver.Gray16(10), driver.BGR8, driver.RGBA8}).Draw(t,
			"format")
		opt := lowpoly.Options{Vertices: rapid.IntRange(4, 300).Draw(t, "vertices"),
			Hold: rapid.IntRange(0, 20).Draw(t, "hold")}
		v := lowpoly.NewVideo(d, opt)
		defer v.Close()
		var got lowpoly.Result
		stripe := rapid.IntRange(1, 20).Draw(t, "stripe")
		for range 4 {
			p := scene(r, w, h, stripe, rapid.IntRange(0, 30).Draw(t, "noise"), f)
			if err := v.Convert(context.Background(), imageOf(p), &got); err != nil {
				t.Fatal(err)
			}
			// without strength it has the same triangles
			alone, err := lowpoly.Convert(context.Background(), d, imageOf(p), opt)
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range got.Mesh.Colors {
				o := alone.Mesh.Colors[i]
				for _, s := range [4][2]uint8{{c.R, o.R}, {c.G, o.G}, {c.B, o.B}, {c.A, o.A}} {
					if e := int(s[0]) - int(s[1]); max(e, -e) > opt.Hold {
						t.Fatalf("triangle %d is %v, by itself %v", i, c, o)
					}
				}
			}
			if !slices.Equal(got.Mesh.Points, alone.Mesh.Points) {
				t.Fatal("without strength there are other vertices")
			}
		}
	})
}

// Frames that fail leave the video as it was, and no memory behind.
func TestVideoFaults(t *testing.T) {
	r := seed.New(t, 1, 5)
	frames := []*devicetest.Picture{scene(r, 12, 10, 3, 4, driver.Gray8), scene(r, 12, 10, 3, 4, driver.Gray8),
		scene(r, 9, 9, 3, 4, driver.Gray8)}
	opt := lowpoly.Options{Vertices: 20, Strength: 3, Hold: 3}
	sound := lowpoly.NewVideo(openCPU(t, 1<<20), opt)
	defer sound.Close()
	var want *lowpoly.Result
	for _, frame := range frames {
		want = next(t, sound, frame)
	}
	tried := 0
	for f := range devicetest.Faults(cpu.New(cpu.Options{}), driver.ErrOutOfMemory) {
		tried++
		d, err := kernels.Open(f, kernels.Config{MemoryBytes: 1 << 20})
		if err != nil {
			continue // TestConvertFaults looks at that
		}
		v := lowpoly.NewVideo(d, opt)
		var p lowpoly.Result
		for i, frame := range frames {
			err := v.Convert(context.Background(), imageOf(frame), &p)
			if err == nil {
				continue
			}
			if !errors.Is(err, f.Failure().Err) {
				t.Errorf("%+v: frame %d: %v", f.Failure(), i, err)
			}
			if err := v.Convert(context.Background(), imageOf(frame), &p); err != nil {
				t.Errorf("%+v: frame %d again: %v", f.Failure(), i, err)
			}
		}
		if !same(&p, want) {
			t.Errorf("%+v: the last frame is another", f.Failure())
		}
		v.Close()
		if m := d.Memory(); m.Used != 0 {
			t.Errorf("%+v: %d bytes are in use after it", f.Failure(), m.Used)
		}
		d.Close()
	}
	if tried < 30 {
		t.Errorf("%d faults were tried", tried)
	}
}

// A frame behind one of its size that failed, where frames before had another, is what it is by itself, too.
func TestVideoFailsAtAnotherSize(t *testing.T) {
	d := openCPU(t, 8<<20)
	r := seed.New(t, 1, 7)
	opt := lowpoly.Options{Vertices: 200, Strength: 9, Hold: 4}
	v := lowpoly.NewVideo(d, opt)
	defer v.Close()
	a, b := scene(r, 120, 90, 20, 3, driver.RGB8), scene(r, 100, 95, 20, 3, driver.RGB8)
	next(t, v, a)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, p := range []*devicetest.Picture{b, a} {
		if err := v.Convert(ended, imageOf(b), &lowpoly.Result{}); !errors.Is(err, context.Canceled) {
			t.Fatalf("a frame whose call has ended: %v", err)
		}
		if !same(next(t, v, p), convert(t, d, p, opt)) {
			t.Errorf("%dx%d behind a frame of %dx%d that failed isn't what it is by itself", p.Width, p.Height, b.Width,
				b.Height)
		}
		next(t, v, a)
	}
}

// A frame takes no more host memory than the first ones.
func TestVideoReuses(t *testing.T) {
	d := openCPU(t, 16<<20)
	r := seed.New(t, 1, 6)
	frames := []*devicetest.Picture{scene(r, 400, 300, 20, 9, driver.RGB8), scene(r, 400, 300, 20, 9, driver.RGB8)}
	v := lowpoly.NewVideo(d, lowpoly.Options{Strength: 5, Hold: 5})
	defer v.Close()
	var p lowpoly.Result
	i := 0
	work := func() {
		if err := v.Convert(context.Background(), imageOf(frames[i%2]), &p); err != nil {
			t.Fatal(err)
		}
		i++
	}
	work()
	work()
	at := &p.Data[0][0]
	if n := testing.AllocsPerRun(5, work); n > 500 && !race.Enabled {
		t.Errorf("a frame makes %.0f allocations", n)
	}
	if at != &p.Data[0][0] {
		t.Error("the pixels moved")
	}
}

func ExampleVideo() {
	dev, err := kernels.Open(cpu.New(cpu.Options{}), kernels.Config{MemoryBytes: 1 << 20})
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	v := lowpoly.NewVideo(dev,
		lowpoly.Options{Vertices: 80, Strength: lowpoly.DefaultStrength, Hold: lowpoly.DefaultHold})
	defer v.Close()
	var p lowpoly.Result
	for range 3 {
		im := kernels.Picture{Width: 100, Height: 50, Format: driver.Gray8, Data: [][]byte{make([]byte, 5000)}}
		if err := v.Convert(context.Background(), im, &p); err != nil {
			panic(err)
		}
	}
}

// A frame that finds no room beside the pictures that the video keeps is refused: it would wait for them without end.
func TestVideoNeverWaitsForItself(t *testing.T) {
	im := kernels.Picture{Width: 200, Height: 200, Format: driver.RGBA8, Data: [][]byte{make([]byte, 200*200*4)}}
	opt := lowpoly.Options{Vertices: 100, Strength: 5, Hold: 3}
	refused := false
	for size := int64(256 << 10); size <= 2<<20; size += 32 << 10 {
		v := lowpoly.NewVideo(openCPU(t, size), opt)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := v.Convert(ctx, im, &lowpoly.Result{})
		cancel()
		v.Close()
		var full *kernels.CapacityError
		switch {
		case errors.As(err, &full):
			refused = refused || full.Label == "lowpoly" && full.Never()
		case err != nil:
			t.Fatalf("%d bytes: %v", size, err)
		}
	}
	if !refused {
		t.Error("no size was refused for the pictures that are kept")
	}
}
