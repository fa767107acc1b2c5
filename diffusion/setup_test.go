package diffusion_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/internal/devicetest"
	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// openWithout opens a device that keeps no set-up for the next call: what it computes is what one that does has to
// compute.
func openWithout(t testing.TB) *kernels.Device {
	t.Helper()
	return openWith(t, kernels.Config{MemoryBytes: 64 << 20, MemoBytes: -1})
}

// same checks that a solution is the one that is computed without what was kept.
func same(t interface{ Errorf(string, ...any) }, what string, got, want *diffusion.Solution) {
	if !slices.Equal(got.Values, want.Values) || got.Cycles != want.Cycles || got.Converged != want.Converged ||
		got.Estimate != want.Estimate || got.Residual != want.Residual || got.FixedPixels != want.FixedPixels ||
		got.VoidPixels != want.VoidPixels {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// The set-up is kept from call to call where constraints are the same, whatever they came as and whatever the colours.
func TestSetupsAreKept(t *testing.T) {
	ctx := context.Background()
	dev, fresh := openCPU(t, 64<<20), openWithout(t)
	opts := &diffusion.Options{}
	solve := func(what string, p *diffusion.Problem, kept bool) {
		t.Helper()
		want, err := diffusion.Solve(ctx, fresh, p, opts)
		if err != nil || want.SetupKept {
			t.Fatalf("%s, nothing kept: %v", what, err)
		}
		got, err := diffusion.Solve(ctx, dev, p, opts)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got.SetupKept != kept {
			t.Errorf("%s: the set-up was kept: %v", what, got.SetupKept)
		}
		same(t, what, got, want)
	}
	drawing := arcs(testseed.New(t, 1, 9), 24, 18, 4, false)
	for _, m := range []diffusion.Method{diffusion.Multigrid, diffusion.Naive, diffusion.PyramidCautious,
		diffusion.PyramidGreedy, diffusion.VariableStencil} {
		opts.Method = m
		p, err := diffusion.Rasterize(ctx, dev, drawing)
		if err != nil {
			t.Fatal(err)
		}
		solve(m.String()+": new", p, false)
		solve(m.String()+": again", p, true)
		for i := range p.Values {
			p.Values[i] = 1 - p.Values[i]
		}
		solve(m.String()+": other colours", p, true)
		if s, err := diffusion.SolveDrawing(ctx, dev, drawing, opts); err != nil || !s.SetupKept {
			t.Errorf("%v: the drawing of it: %+v, %v", m, s, err)
		}
		if s, err := diffusion.Render(ctx, dev, drawing, rgb(24, 18), opts); err != nil || !s.SetupKept {
			t.Errorf("%v: a picture of it: %+v, %v", m, s, err)
		}
		p.Channels, p.Values = 1, p.Values[:24*18]
		solve(m.String()+": one channel", p, true)
		free := slices.Index(p.Flags, 0)
		p.Flags[free] = diffusion.Fixed
		solve(m.String()+": a pixel more", p, false)
		p.Flags[free] = 0
		solve(m.String()+": a pixel less", p, true)
	}
	p, err := diffusion.Rasterize(ctx, dev, drawing)
	if err != nil {
		t.Fatal(err)
	}
	opts.Method = diffusion.Multigrid
	p.Width, p.Height = p.Height, p.Width
	solve("the same flags in other rows", p, false)
	p.Flags[slices.Index(p.Flags, 0)] = driver.DiffusionBlockRight
	solve("a barrier", p, false)
	solve("the barrier again", p, true)
}

// Holes are the same whether a mask has them, an image's alpha, or what is drawn on the device.
func TestSetupsOfHolesAreKept(t *testing.T) {
	ctx := context.Background()
	dev := openCPU(t, 16<<20)
	const w, h = 40, 30
	mask, again := make([]byte, w*h), make([]byte, w*h)
	pixels, opaque := make([]byte, 4*w*h), make([]byte, 3*w*h)
	for i := range mask {
		if x, y := i%w-20, i/w-15; x*x+y*y < 50 {
			mask[i], again[i] = 1, 200
		}
		pixels[4*i+3] = 255 * (1 - mask[i])
	}
	fill := func(what string, holes *diffusion.Holes, kept bool) {
		t.Helper()
		s, err := diffusion.Fill(ctx, dev, holes, nil)
		if err != nil || s.SetupKept != kept {
			t.Errorf("%s: %v, %+v", what, err, s)
		}
	}
	rgba := kernels.Picture{Data: [][]byte{pixels}, Width: w, Height: h, Format: driver.RGBA8}
	solid := kernels.Picture{Data: [][]byte{opaque}, Width: w, Height: h, Format: driver.RGB8}
	fill("a mask", &diffusion.Holes{Image: solid, Mask: diffusion.Pixels{Host: mask}}, false)
	fill("another number in it", &diffusion.Holes{Image: solid, Mask: diffusion.Pixels{Host: again}}, true)
	fill("alpha", &diffusion.Holes{Image: rgba}, true)
	fill("drawn", drawn(&diffusion.Holes{Image: solid}, mask, 1, nil), true)
	again[0] = 1
	fill("one more", &diffusion.Holes{Image: solid, Mask: diffusion.Pixels{Host: again}}, false)
}

// Where there is no memory to keep it, or others needed that, a call makes its own set-up as if it were the first.
func TestSetupsWithoutRoom(t *testing.T) {
	ctx := context.Background()
	s := devicetest.Scenes(3, 64)[0]
	p := problem(s)
	fresh := openWithout(t)
	want, err := diffusion.Solve(ctx, fresh, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	used := fresh.Memory().HighWater
	for _, bytes := range []int64{used, used + 4096, 3 * used / 2, 8 * used} {
		dev, err := kernels.Open(cpu.New(cpu.Options{}), kernels.Config{MemoryBytes: bytes})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			got, err := diffusion.Solve(ctx, dev, p, nil)
			if err != nil {
				t.Fatalf("%d bytes: %v", bytes, err)
			}
			same(t, "with little memory", got, want)
			if bytes == used && got.SetupKept {
				t.Error("kept where there is no room beside the job")
			}
		}
		if m := dev.Memory(); m.Used != dev.Memos().Bytes || m.Used != m.Evictable || m.Refused != 0 {
			t.Errorf("%d bytes: %+v", bytes, m)
		}
		if hits := dev.Memos().Hits; bytes == 8*used && hits != 2 {
			t.Errorf("%d hits with room for everything", hits)
		}
		all := dev.Memory().Reserved
		if err := dev.Do(ctx, kernels.Job{Label: "all", Footprint: all}, func(*kernels.Queue) error {
			return nil
		}); err != nil {
			t.Error(err)
		}
		if got, err := diffusion.Solve(ctx, dev, p, nil); err != nil || got.SetupKept {
			t.Errorf("%d bytes, after something that took all of it: %v, kept: %v", bytes, err, got.SetupKept)
		} else {
			same(t, "after eviction", got, want)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A call that is cancelled leaves a set-up that is whole, or none.
func TestSetupOfACallThatEndsEarly(t *testing.T) {
	dev, fresh := openCPU(t, 64<<20), openWithout(t)
	drawing := arcs(testseed.New(t, 2, 9), 90, 70, 4, false)
	ctx, cancel := context.WithCancel(context.Background())
	to := rgb(90, 70)
	to.Progress = func(*diffusion.Solution) error { cancel(); return nil }
	if _, err := diffusion.Render(ctx, dev, drawing, to, &diffusion.Options{Tolerance: 1e-5}); !errors.Is(err,
		context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	want, err := diffusion.SolveDrawing(context.Background(), fresh, drawing, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := diffusion.SolveDrawing(context.Background(), dev, drawing, nil)
	if err != nil || !got.SetupKept {
		t.Fatalf("after it: %v, %+v", err, got)
	}
	same(t, "after it", got, want)
}

// Whatever is solved one after another, and at the same time, in whatever memory: each gets what it would get alone.
func TestSetupsConcurrently(t *testing.T) {
	fresh := openWithout(t)
	var scenes []*devicetest.Scene
	var wants []*diffusion.Solution
	for seed := range uint64(3) {
		scenes = append(scenes, devicetest.Scenes(seed, 40)[0], devicetest.BarrierScenes(seed, 32)[0])
	}
	for _, s := range scenes {
		want, err := diffusion.Solve(context.Background(), fresh, problem(s), nil)
		if err != nil {
			t.Fatal(err)
		}
		wants = append(wants, want)
	}
	for _, bytes := range []int64{2 << 20, 16 << 20} {
		dev := openCPU(t, bytes)
		var kept atomic.Int64
		var wg sync.WaitGroup
		for u := range 4 {
			wg.Go(func() {
				for k := range 20 {
					i := (u + k*k) % len(scenes)
					got, err := diffusion.Solve(context.Background(), dev, problem(scenes[i]), nil)
					if err != nil {
						t.Errorf("%d bytes: %v", bytes, err)
						return
					}
					same(t, scenes[i].Name, got, wants[i])
					if got.SetupKept {
						kept.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if m := dev.Memos(); kept.Load() == 0 || int64(m.Hits) != kept.Load() || m.Hits+m.Misses != 80 {
			t.Errorf("%d bytes: %d set-ups were kept, %+v", bytes, kept.Load(), m)
		}
	}
}

// Constraints that differ, in whatever, never get each other's set-up, and those that come again get theirs.
func TestSetupsProperties(t *testing.T) {
	ctx := context.Background()
	dev, fresh := openCPU(t, 16<<20), openWithout(t)
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(1, 9).Draw(t, "width"), rapid.IntRange(1, 9).Draw(t, "height")
		opts := &diffusion.Options{
			Method: rapid.SampledFrom([]diffusion.Method{diffusion.Multigrid, diffusion.Naive}).Draw(t, "method"),
		}
		p := &diffusion.Problem{
			Width: w, Height: h,
			Channels: 1, Values: rapid.SliceOfN(rapid.Float32Range(0, 1), w*h, w*h).Draw(t, "values"),
		}
		p.Flags = rapid.SliceOfN(rapid.SampledFrom([]uint8{0, 0, 0, diffusion.Fixed, driver.DiffusionBlockRight,
			driver.DiffusionBlockDown}), w*h, w*h).Draw(t, "flags")
		p.Flags[0] |= diffusion.Fixed
		for _, what := range []string{"new, or of a problem before", "again", "the same flags in other rows"} {
			if what == "the same flags in other rows" {
				p.Width, p.Height = h, w
			}
			want, err := diffusion.Solve(ctx, fresh, p, opts)
			if err != nil {
				t.Fatal(err)
			}
			got, err := diffusion.Solve(ctx, dev, p, opts)
			if err != nil {
				t.Fatal(err)
			}
			same(t, what, got, want)
			if what == "again" && !got.SetupKept {
				t.Errorf("%s: a new set-up", what)
			}
		}
	})
}
