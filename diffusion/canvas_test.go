package diffusion_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// arcs is a drawing of n random curves of three channels.
func arcs(r *rand.Rand, w, h, n int, blur bool) *diffusion.Drawing {
	d := &diffusion.Drawing{Width: w, Height: h, Channels: 3}
	colour := func() []diffusion.Stop {
		return []diffusion.Stop{{At: 0, Values: []float32{r.Float32(), r.Float32(), r.Float32()}},
			{At: 1, Values: []float32{r.Float32(), r.Float32(), r.Float32()}}}
	}
	for range n {
		c := diffusion.Curve{Left: colour(), Right: colour()}
		for range 4 {
			c.Points = append(c.Points, diffusion.Point{X: r.Float64() * float64(w), Y: r.Float64() * float64(h)})
		}
		if blur {
			c.Blur = []diffusion.BlurStop{{At: 0, Sigma: 3 * r.Float64()}}
		}
		d.Curves = append(d.Curves, c)
	}
	return d
}

// rounded are the pixels of a solution in RGB.
func rounded(values []float32) []byte {
	n := len(values) / 3
	out := make([]byte, 3*n)
	for i := range out {
		out[i] = uint8(min(max(255*values[i%3*n+i/3]+0.5, 0), 255))
	}
	return out
}

func rgb(w, h int) *diffusion.Target {
	return &diffusion.Target{Format: driver.RGB8, Pixels: diffusion.Pixels{Host: make([]byte, 3*w*h)}}
}

// offBy is by how many levels pixels differ at most.
func offBy(a, b []byte) (most int) {
	for i := range a {
		most = max(most, int(a[i])-int(b[i]), int(b[i])-int(a[i]))
	}
	return most
}

// A picture is the solution, rounded; so is what a canvas renders, whatever was on it.
func TestCanvas(t *testing.T) {
	dev := openCPU(t, 64<<20)
	r := seed.New(t, 3, 4)
	canvas := diffusion.NewCanvas(dev)
	defer canvas.Close()
	for i := range 12 {
		w, h := 60, 45
		if i > 8 {
			w, h = 33, 70
		}
		d := arcs(r, w, h, 1+r.IntN(5), i%3 == 2)
		s, err := diffusion.SolveDrawing(context.Background(), dev, d, nil)
		if err != nil {
			t.Fatal(err)
		}
		to, again := rgb(w, h), rgb(w, h)
		got, err := diffusion.Render(context.Background(), dev, d, to, nil)
		if err != nil || !slices.Equal(to.Pixels.Host, rounded(s.Values)) || got.Cycles != s.Cycles || !got.SetupKept {
			t.Errorf("%d: %+v, %v, or other pixels", i, got, err)
		}
		got, err = canvas.Render(context.Background(), d, again, nil)
		if err != nil || offBy(again.Pixels.Host, to.Pixels.Host) > 1 || !got.Converged || got.SetupKept {
			t.Errorf("%d: on a canvas: %+v, %v, off by %d", i, got, err, offBy(again.Pixels.Host, to.Pixels.Host))
		}
	}
}

// Colours alone need no set-up, and a picture that hardly changes fewer cycles; geometry needs both.
func TestCanvasKeeps(t *testing.T) {
	dev := openCPU(t, 64<<20)
	r := seed.New(t, 5, 6)
	canvas := diffusion.NewCanvas(dev)
	defer canvas.Close()
	d := arcs(r, 80, 60, 4, false)
	to := rgb(80, 60)
	render := func(what string, kept bool) *diffusion.Solution {
		t.Helper()
		s, err := canvas.Render(context.Background(), d, to, nil)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if s.SetupKept != kept {
			t.Errorf("%s: the set-up was kept: %v", what, s.SetupKept)
		}
		want := rgb(80, 60)
		if _, err := diffusion.Render(context.Background(), dev, d, want, nil); err != nil ||
			offBy(to.Pixels.Host, want.Pixels.Host) > 1 {
			t.Errorf("%s: %v, off by %d", what, err, offBy(to.Pixels.Host, want.Pixels.Host))
		}
		return s
	}
	first := render("new", false)
	if same := render("the same again", true); same.Cycles >= first.Cycles {
		t.Errorf("the same again: %d cycles, the first time %d", same.Cycles, first.Cycles)
	}
	d.Curves[1].Left[0].Values[0] = 1 - d.Curves[1].Left[0].Values[0]
	render("another colour", true)
	d.Curves[1].Left = append(d.Curves[1].Left, d.Curves[1].Left[1])
	render("another stop", true)
	d.Curves[2].Points[1].X += 3
	render("moved", false)
	d.Curves[3].Right = nil
	render("a side less", false)
	d.Curves = d.Curves[:3]
	render("a curve less", false)
	d.Curves[0].Barrier = true
	render("a barrier", false)
	d.Curves[0].Blur = []diffusion.BlurStop{{Sigma: 2}}
	render("blur", false)
	d.Curves[0].Blur[0].Sigma = 4
	render("more blur", true)

	// What is evicted is made again.
	if err := dev.Do(context.Background(), kernels.Job{Label: "test", Footprint: 63 << 20}, func(*kernels.Queue) error {
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	render("after eviction", false)

	// Nothing is spoilt by a call that ends early, or is refused.
	ctx, cancel := context.WithCancel(context.Background())
	d.Curves[0].Points[0].X += 5
	to.Progress = func(*diffusion.Solution) error { cancel(); return nil }
	if _, err := canvas.Render(ctx, d, to, &diffusion.Options{Tolerance: 1e-5}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	to.Progress = nil
	render("after one that was cancelled", true)
	if _, err := canvas.Render(context.Background(), &diffusion.Drawing{Width: 80, Height: 60, Channels: 3}, to,
		nil); err == nil {
		t.Error("no curve, and no error")
	}
	render("after one that was refused", true)
}

// Canvases don't wait for themselves or for each other, however little memory there is: without room to keep anything
// they do without.
func TestCanvasesNeverWaitForEachOther(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d := arcs(seed.New(t, 7, 8), 100, 80, 4, false)
	refused, made := false, 0
	for size := int64(256 << 10); size <= 2<<20; size += 64 << 10 {
		dev := openCPU(t, size)
		_, plain := diffusion.Render(ctx, dev, d, rgb(100, 80), nil)
		var work sync.WaitGroup
		for range 3 {
			work.Go(func() {
				canvas := diffusion.NewCanvas(dev)
				defer canvas.Close()
				for range 3 {
					_, err := canvas.Render(ctx, d, rgb(100, 80), nil)
					if (err == nil) != (plain == nil) {
						t.Errorf("%d bytes: %v on a canvas, %v without", size, err, plain)
					}
				}
			})
		}
		work.Wait()
		var full *kernels.CapacityError
		if errors.As(plain, &full) {
			refused = refused || full.Never()
		} else if plain == nil {
			made++
		}
		if used, kept := dev.Memory().Used, dev.Memos().Bytes; used != kept {
			t.Errorf("%d bytes: %d are in use, %d of them by set-ups that are kept", size, used, kept)
		}
	}
	if !refused || made < 5 {
		t.Errorf("refused where there is too little: %v, and made with %d sizes", refused, made)
	}
}

// Pictures on the way come closer and closer.
func TestRenderProgress(t *testing.T) {
	dev := openCPU(t, 64<<20)
	for _, blur := range []bool{false, true} {
		d := arcs(seed.New(t, 7, 8), 150, 120, 6, blur)
		want := rgb(150, 120)
		if _, err := diffusion.Render(context.Background(), dev, d, want, nil); err != nil {
			t.Fatal(err)
		}
		to, seen, last := rgb(150, 120), 0, 256
		to.Progress = func(s *diffusion.Solution) error {
			seen++
			off := offBy(to.Pixels.Host, want.Pixels.Host)
			if s.Cycles != seen || s.Converged || off > last {
				t.Errorf("picture %d: %+v, off by %d after %d", seen, s, off, last)
			}
			last = off
			return nil
		}
		s, err := diffusion.Render(context.Background(), dev, d, to, nil)
		if err != nil || seen != s.Cycles-1 || seen == 0 || offBy(to.Pixels.Host, want.Pixels.Host) > 1 {
			t.Errorf("%d pictures in %d cycles, %v", seen, s.Cycles, err)
		}
		stop := errors.New("enough")
		to.Progress = func(*diffusion.Solution) error { return stop }
		if _, err := diffusion.Render(context.Background(), dev, d, to, nil); !errors.Is(err, stop) {
			t.Errorf("stopped: %v", err)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	dev := openCPU(t, 4<<20)
	d := arcs(seed.New(t, 9, 1), 20, 20, 1, false)
	for field, spoil := range map[string]func(*diffusion.Target, *diffusion.Options){
		"format": func(to *diffusion.Target, _ *diffusion.Options) { to.Format = driver.Gray8 },
		"pixels": func(to *diffusion.Target, _ *diffusion.Options) { to.Pixels.Host = to.Pixels.Host[1:] },
		"start":  func(_ *diffusion.Target, o *diffusion.Options) { o.Start = make([]float32, 1200) },
	} {
		to, o := rgb(20, 20), &diffusion.Options{}
		spoil(to, o)
		c := diffusion.NewCanvas(dev)
		var bad *kernels.InvalidError
		if _, err := c.Render(context.Background(), d, to, o); !errors.As(err, &bad) || bad.Violations[0].Path.String() != field {
			t.Errorf("%v, want an error about %s", err, field)
		}
		c.Close()
	}
}

// BenchmarkCanvas is an edit of a curve among 300, and of a colour, on a megapixel.
func BenchmarkCanvas(b *testing.B) {
	dev := openCPU(b, 512<<20)
	for _, what := range []string{"move", "colour"} {
		b.Run(what, func(b *testing.B) {
			d := arcs(seed.New(b, 1, 1), 1024, 1024, 300, false)
			c, to := diffusion.NewCanvas(dev), rgb(1024, 1024)
			defer c.Close()
			i := 0
			for b.Loop() {
				if i++; what == "move" {
					d.Curves[7].Points[1].X = float64(100 + i%500)
				} else {
					d.Curves[7].Left[0].Values[0] = float32(i%100) / 100
				}
				if _, err := c.Render(context.Background(), d, to, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDraft is a picture of one cycle while a curve of the shipped drawing is dragged across 512 x 512 pixels.
func BenchmarkDraft(b *testing.B) {
	dev := openCPU(b, 512<<20)
	for _, what := range []string{"sharp", "blur"} {
		b.Run(what, func(b *testing.B) {
			d := arcs(seed.New(b, 1, 1), 512, 512, 1, what == "blur")
			d.Curves[0].Points = []diffusion.Point{{X: 80, Y: 400}, {}, {X: 440, Y: 20}, {X: 560, Y: 400}}
			c, to := diffusion.NewCanvas(dev), rgb(512, 512)
			defer c.Close()
			i := 0
			for b.Loop() {
				i++
				k := 0.5 - 0.5*math.Cos(float64(i)/6)
				d.Curves[0].Points[1] = diffusion.Point{X: 200 + 60*k, Y: 20 + 100*k}
				if _, err := c.Render(context.Background(), d, to, &diffusion.Options{MaxCycles: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
