package diffusion_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
)

func solver(d *kernels.Device) func(context.Context, *diffusion.Drawing) ([]float32, error) {
	return func(ctx context.Context, p *diffusion.Drawing) ([]float32, error) {
		s, err := diffusion.SolveDrawing(ctx, d, p, nil)
		if err != nil {
			return nil, err
		}
		return s.Values, nil
	}
}

// still is a picture of a disc with a soft shade on a ground of another.
func still(w, h int) *diffusion.Planes {
	p := &diffusion.Planes{Width: w, Height: h, Channels: 3, Values: make([]float32, 3*w*h)}
	for i := range w * h {
		x, y := (float64(i%w)+0.5)/float64(w), (float64(i/w)+0.5)/float64(h)
		c := [3]float64{0.2 + 0.5*x, 0.6 - 0.3*y*y, 0.3 + 0.2*math.Sin(3*x+2*y)}
		inside := min(max((0.25-math.Hypot(x-0.5, y-0.55))*float64(w)+0.5, 0), 1) // of the pixel
		for k, v := range [3]float64{0.9 - 0.3*y, 0.3 + 0.3*x, 0.1 + 0.4*x*y} {
			p.Values[k*w*h+i] = float32(c[k] + inside*(v-c[k]))
		}
	}
	return p
}

// A smooth picture with an edge becomes a curve and few pixels, from which comes nearly the same; and the same
// whenever.
func TestExtract(t *testing.T) {
	d := openCPU(t, 64<<20)
	p := still(120, 100)
	x, err := diffusion.Extract(context.Background(), p, &diffusion.ExtractOptions{PSNR: 36, Levels: 2}, solver(d), nil)
	if err != nil {
		t.Fatal(err)
	}
	segments := 0
	for _, c := range x.Drawing.Curves {
		segments += len(c.Points) / 3
	}
	if x.PSNR < 36 || len(x.Drawing.Curves) < 1 || len(x.Drawing.Curves) > 4 || segments > 30 || x.Pixels > 250 {
		t.Errorf("%.2f dB with %d curves of %d segments and %d pixels", x.PSNR, len(x.Drawing.Curves), segments,
			x.Pixels)
	}
	if got := diffusion.PSNR(x.Solved, p.Values); got != x.PSNR {
		t.Errorf("%v dB, it says %v", got, x.PSNR)
	}
	for i, c := range x.Drawing.Curves { // along the border of the disc
		for _, q := range c.Points {
			if r := math.Hypot((q.X/120-0.5)*120, (q.Y/100-0.55)*100); r < 20 || r > 35 {
				t.Errorf("curve %d goes through %v, %v from the middle", i, q, r)
			}
		}
	}
	again, err := diffusion.Extract(context.Background(), p, &diffusion.ExtractOptions{PSNR: 36, Levels: 2}, solver(d), nil)
	if err != nil || !reflect.DeepEqual(again, x) {
		t.Errorf("the second time: %v, or another drawing", err)
	}
	few, err := diffusion.Extract(context.Background(), p, &diffusion.ExtractOptions{PSNR: math.NaN()}, solver(d), nil)
	if err != nil || few.Pixels != 0 || few.PSNR < 20 || few.PSNR > 36 {
		t.Errorf("%v; %+v dB from %d pixels", err, few.PSNR, few.Pixels)
	}
}

// A picture of one colour has no edges; it is given by a pixel, and comes back but for rounding.
func TestExtractFlat(t *testing.T) {
	d := openCPU(t, 1<<20)
	for _, size := range [][2]int{{1, 1}, {1, 9}, {9, 1}, {13, 12}} {
		p := &diffusion.Planes{Width: size[0], Height: size[1], Channels: 1, Values: make([]float32, size[0]*size[1])}
		for i := range p.Values {
			p.Values[i] = 0.5
		}
		x, err := diffusion.Extract(context.Background(), p, nil, solver(d), nil)
		if err != nil || x.Pixels != 1 || len(x.Drawing.Curves) != 0 || !(x.PSNR > 35) {
			t.Errorf("%v: %v, %+v", size, err, x)
		}
	}
}

// Whatever the picture is, what is extracted can be drawn, and no pixels more than allowed.
func TestExtractProperties(t *testing.T) {
	d := openCPU(t, 16<<20)
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(1, 40).Draw(t, "width"), rapid.IntRange(1, 40).Draw(t, "height")
		p := &diffusion.Planes{Width: w, Height: h, Channels: rapid.IntRange(1, 3).Draw(t, "channels")}
		cells := rapid.SliceOfN(rapid.Float32Range(0, 1), 48, 48).Draw(t, "cells")
		for i := range p.Channels * w * h {
			k := i % (w * h)
			p.Values = append(p.Values, cells[(k%w/10+k/w/10*4+i/(w*h)*16)%48])
		}
		o := &diffusion.ExtractOptions{PSNR: 45, MaxPixels: 0.1, Length: 2}
		x, err := diffusion.Extract(context.Background(), p, o, solver(d), nil)
		if err != nil {
			t.Fatal(err)
		}
		fixed := 0
		for _, f := range x.Drawing.Flags {
			fixed += int(f)
		}
		if fixed != x.Pixels || fixed > max(1, w*h/10) || math.IsNaN(x.PSNR) {
			t.Fatalf("%d pixels, it says %d; %v dB", fixed, x.Pixels, x.PSNR)
		}
	})
}

// As many pixels are given as are allowed, where that is what it takes.
func TestExtractAllowed(t *testing.T) {
	d := openCPU(t, 16<<20)
	rng := seed.New(t, 5, 5)
	p := &diffusion.Planes{Width: 40, Height: 30, Channels: 1}
	for range 40 * 30 {
		p.Values = append(p.Values, rng.Float32())
	}
	for _, share := range []float64{0.05, 0.3} {
		x, err := diffusion.Extract(t.Context(), p,
			&diffusion.ExtractOptions{PSNR: 100, MaxPixels: share, Threshold: 1000}, solver(d), nil)
		if want := int(share * 40 * 30); err != nil || x.Pixels != want {
			t.Errorf("%v: %d pixels, want %d: %v", share, x.Pixels, want, err)
		}
	}
}

func TestExtractRefusals(t *testing.T) {
	d := openCPU(t, 1<<20)
	failed := errors.New("failed")
	for says, spoil := range map[string]func(p *diffusion.Planes, o *diffusion.ExtractOptions){
		"width = 0: must be": func(p *diffusion.Planes, _ *diffusion.ExtractOptions) {
			p.Width = 0
		},
		"channels = 0: must be 1 to 4": func(p *diffusion.Planes, _ *diffusion.ExtractOptions) {
			p.Channels = 0
		},
		"values = 107 values: must be 108": func(p *diffusion.Planes, _ *diffusion.ExtractOptions) {
			p.Values = p.Values[1:]
		},
		"values[7] = NaN: must be -1099511627776 to": func(p *diffusion.Planes, _ *diffusion.ExtractOptions) {
			p.Values[7] = float32(math.NaN())
		},
		"threshold = -1: must be 0.1 to 1000": func(_ *diffusion.Planes, o *diffusion.ExtractOptions) {
			o.Threshold = -1
		},
		"flatness = NaN: must be": func(_ *diffusion.Planes, o *diffusion.ExtractOptions) {
			o.Flatness = math.NaN()
		},
		"distance = 17: must be 0.25 to 16": func(_ *diffusion.Planes, o *diffusion.ExtractOptions) {
			o.Distance = 17
		},
		"levels = 65: must be 0.01 to 64": func(_ *diffusion.Planes, o *diffusion.ExtractOptions) {
			o.Levels = 65
		},
		"max pixels = 1.5: must be 0 to 1": func(_ *diffusion.Planes, o *diffusion.ExtractOptions) {
			o.MaxPixels = 1.5
		},
		"length = 1: must be 2 to 1048576": func(_ *diffusion.Planes, o *diffusion.ExtractOptions) {
			o.Length = 1
		},
		"psnr = -3: must be more than 0, and at most": func(_ *diffusion.Planes, o *diffusion.ExtractOptions) {
			o.PSNR = -3
		},
	} {
		p, o := still(6, 6), &diffusion.ExtractOptions{}
		spoil(p, o)
		_, err := diffusion.Extract(context.Background(), p, o, solver(d), nil)
		var bad *kernels.InvalidError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	if _, err := diffusion.Extract(context.Background(), still(6, 6), nil,
		func(context.Context, *diffusion.Drawing) ([]float32, error) { return nil, failed }, nil); !errors.Is(err, failed) {
		t.Errorf("a solver that fails: %v", err)
	}
	if _, err := diffusion.Extract(context.Background(), still(6, 6), nil,
		func(context.Context, *diffusion.Drawing) ([]float32, error) { return make([]float32, 3), nil },
		nil); err == nil {
		t.Error("a solution of another size: no error")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := diffusion.Extract(ctx, still(60, 60), nil, solver(d), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Pauses change nothing, and whichever of them fails ends the call with its error.
func TestExtractPauses(t *testing.T) {
	d := openCPU(t, 64<<20)
	p, rng := still(200, 160), seed.New(t, 8, 8)
	for i := range p.Values {
		p.Values[i] = min(max(p.Values[i]+0.2*(rng.Float32()-0.5), 0), 1)
	}
	o := &diffusion.ExtractOptions{Threshold: 4, Length: 4, MaxPixels: 0.01}
	want, err := diffusion.Extract(t.Context(), p, o, solver(d), nil)
	if err != nil {
		t.Fatal(err)
	}
	solved := func(context.Context, *diffusion.Drawing) ([]float32, error) { return want.Solved, nil }
	pauses := 0
	if _, err := diffusion.Extract(t.Context(), p, o, solved, func() error { pauses++; return nil }); err != nil {
		t.Fatal(err)
	}
	if pauses < 50 {
		t.Fatalf("%d pauses", pauses)
	}
	failed := errors.New("failed")
	for fail := 0; fail < pauses; fail += 1 + pauses/40 {
		n := 0
		x, err := diffusion.Extract(t.Context(), p, o, solved, func() error {
			if n++; n > fail {
				return failed
			}
			return nil
		})
		if x != nil || !errors.Is(err, failed) || n != fail+1 {
			t.Fatalf("pause %d of %d fails: %v, after %d", fail, pauses, err, n)
		}
	}
	got, err := diffusion.Extract(t.Context(), p, o, solver(d), func() error { return nil })
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("with pauses: %v, or another drawing", err)
	}
}

// An extraction tells of the memory that it makes when it is made, so one that ends early tells of less.
func TestExtractTellsWhatItMakes(t *testing.T) {
	const side = 64
	const n = side * side
	random := rand.New(rand.NewPCG(5, 6))
	p := &diffusion.Planes{Width: side, Height: side, Channels: 1, Values: make([]float32, n)}
	for i := range p.Values {
		p.Values[i] = random.Float32()
	}
	told := int64(0)
	ctx := kernels.WithMade(t.Context(), func(n int64) { told += n })
	ended := errors.New("ended")
	for _, c := range []struct {
		pauses      int // until it ends
		least, most int64
	}{
		{0, (6 + 8*4) * n, (6 + 8*4) * n},     // the drawing, and what gradients take
		{1000, (6 + 8*4 + 10) * n, 160*n - 1}, // and what edges take: some of noise's pixels lie on one
	} {
		told = 0
		pauses := 0
		_, err := diffusion.Extract(ctx, p, nil, func(context.Context, *diffusion.Drawing) ([]float32, error) {
			return nil, ended
		}, func() error {
			if pauses++; pauses > c.pauses {
				return ended
			}
			return nil
		})
		if !errors.Is(err, ended) || told < c.least || told > c.most {
			t.Errorf("after %d pauses: %v, and told of %d bytes, want %d to %d", pauses, err, told, c.least, c.most)
		}
	}
}
