package diffusion_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openCPU(t testing.TB, bytes int64) *kernels.Device {
	t.Helper()
	return openWith(t, kernels.Config{MemoryBytes: bytes, Poison: true})
}

// openWith opens a device that at the end of the test is closed, and has nothing in use.
func openWith(t testing.TB, cfg kernels.Config) *kernels.Device {
	t.Helper()
	d, err := kernels.Open(cpu.New(cpu.Options{}), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if m := d.Memory(); m.Used != m.Evictable {
			t.Errorf("%d bytes are in use in the end, %d of them evictable", m.Used, m.Evictable)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func problem(s *devicetest.Scene) *diffusion.Problem {
	return &diffusion.Problem{
		Width: s.Width, Height: s.Height, Flags: s.Flags, Channels: s.Channels,
		Values: s.Colours,
	}
}

// check compares a solution with the exact one, and with what it says of itself.
func check(t *testing.T, s *devicetest.Scene, got *diffusion.Solution) {
	t.Helper()
	if d := devicetest.CompareDiffusion(got.Values, s.Exact(), s.Width, 0.5/255); d != nil {
		t.Errorf("%s: %v", s.Name, d)
	}
	fixed, void := 0, 0
	for _, f := range s.Flags {
		fixed += int(f & diffusion.Fixed)
	}
	for _, v := range s.Void() {
		if v {
			void++
		}
	}
	if !got.Converged || got.Cycles < 1 || got.Estimate > diffusion.DefaultTolerance || got.FixedPixels != fixed ||
		got.VoidPixels != void || got.Backend != "cpu" {
		got.Values = nil
		t.Errorf("%s: %+v; %d pixels are fixed, %d void", s.Name, got, fixed, void)
	}
}

func solvable(s *devicetest.Scene) bool {
	return slices.ContainsFunc(s.Flags, func(f byte) bool { return f&diffusion.Fixed != 0 })
}

func TestSolve(t *testing.T) {
	d := openCPU(t, 64<<20)
	for _, s := range append(devicetest.Scenes(5, 60), devicetest.BarrierScenes(5, 60)...) {
		if !solvable(s) {
			continue
		}
		got, err := diffusion.Solve(context.Background(), d, problem(s), nil)
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		check(t, s, got)
	}
}

// Warren's methods come to about the same.
func TestMethods(t *testing.T) {
	d := openCPU(t, 16<<20)
	s := devicetest.Scenes(7, 40)[0]
	exact := s.Exact()
	for m := diffusion.Naive; m <= diffusion.VariableStencil; m++ {
		p := problem(s)
		got, err := diffusion.Solve(context.Background(), d, p, &diffusion.Options{Method: m})
		if err != nil {
			t.Errorf("%v: %v", m, err)
			continue
		}
		if diff := devicetest.CompareDiffusion(got.Values, exact, s.Width, 2.0/255); diff != nil || !got.Converged {
			t.Errorf("%v: converged: %v, %v", m, got.Converged, diff)
		}
	}
}

// Solves of the same constraints give the same bits, for any colours, also at once; and a solution is a good start.
func TestSolveAgain(t *testing.T) {
	d := openCPU(t, 64<<20)
	for _, s := range []*devicetest.Scene{devicetest.Scenes(6, 80)[0], devicetest.BarrierScenes(6, 60)[0]} {
		want, err := diffusion.Solve(context.Background(), d, problem(s), nil)
		if err != nil {
			t.Fatal(err)
		}
		type answer struct {
			s   *diffusion.Solution
			err error
		}
		answers := make(chan answer)
		for range 3 {
			go func() {
				s, err := diffusion.Solve(context.Background(), d, problem(s), nil)
				answers <- answer{s, err}
			}()
		}
		for range 3 {
			a := <-answers
			if a.err != nil || !slices.Equal(a.s.Values, want.Values) || a.s.FixedPixels != want.FixedPixels ||
				a.s.VoidPixels != want.VoidPixels || !a.s.SetupKept {
				t.Errorf("%s: %v, or other values, or a new set-up", s.Name, a.err)
			}
		}
		again, err := diffusion.Solve(context.Background(), d, problem(s), &diffusion.Options{Start: want.Values})
		if err != nil {
			t.Fatal(err)
		}
		check(t, s, again)
		if again.Cycles >= want.Cycles {
			t.Errorf("%s: %d cycles from the solution, %d from nothing", s.Name, again.Cycles, want.Cycles)
		}
		for i := range s.Colours {
			s.Colours[i] = 1 - s.Colours[i]
		}
		other, err := diffusion.Solve(context.Background(), d, problem(s), nil)
		if err != nil {
			t.Fatal(err)
		}
		check(t, s, other)
	}
}

// Values lie between the least and the greatest given ones, and the problem is linear, whatever the constraints.
func TestSolveProperties(t *testing.T) {
	d := openCPU(t, 16<<20)
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(1, 24).Draw(t, "width"), rapid.IntRange(1, 24).Draw(t, "height")
		s := devicetest.NewScene("random", w, h, 1)
		flags := rapid.SliceOfN(rapid.SampledFrom([]uint8{0, 0, 0, 0, 0, 0, 1, 2, 4, 6}), w*h, w*h).Draw(t, "flags")
		walls := rapid.Bool().Draw(t, "walls")
		values := rapid.SliceOfN(rapid.Float32Range(0, 1), w*h, w*h).Draw(t, "values")
		s.Fix(w/2, h/2, 0.5)
		for i, f := range flags {
			if f == diffusion.Fixed {
				s.Fix(i%w, i/w, values[i])
			} else if walls {
				s.Flags[i] |= f
			}
		}
		least, greatest := float32(1), float32(0)
		for i, f := range s.Flags {
			if f&diffusion.Fixed != 0 {
				least, greatest = min(least, s.Colours[i]), max(greatest, s.Colours[i])
			}
		}
		const tight = 1e-5
		opts := &diffusion.Options{Tolerance: tight}
		got, err := diffusion.Solve(context.Background(), d, problem(s), opts)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range got.Values {
			if s.Flags[i]&diffusion.Fixed != 0 && v != s.Colours[i] {
				t.Fatalf("pixel %d is %v, and was fixed at %v", i, v, s.Colours[i])
			}
			if !(v >= least-3*tight && v <= greatest+3*tight) {
				t.Fatalf("pixel %d is %v, outside of [%v, %v]", i, v, least, greatest)
			}
			s.Colours[i] = 2*s.Colours[i] - 1
		}
		twice, err := diffusion.Solve(context.Background(), d, problem(s), opts)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range twice.Values {
			if math.Abs(float64(v-(2*got.Values[i]-1))) > 8*tight {
				t.Fatalf("pixel %d: %v of 2x-1, and %v of x", i, v, got.Values[i])
			}
		}
	})
}

func TestRefusals(t *testing.T) {
	d := openCPU(t, 1<<20)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, x := range []struct {
		says  string
		spoil func(p *diffusion.Problem, o *diffusion.Options)
	}{
		{"width = 0: must be 1 to 1048576", func(p *diffusion.Problem, _ *diffusion.Options) { p.Width = 0 }},
		{"height = -1: must be", func(p *diffusion.Problem, _ *diffusion.Options) { p.Height = -1 }},
		{"height = 1048576: makes 1099511627776 pixels", func(p *diffusion.Problem, _ *diffusion.Options) {
			p.Width, p.Height = 1<<20, 1<<20
		}},
		{"flags = 12 values: must be 16", func(p *diffusion.Problem, _ *diffusion.Options) { p.Height = 4 }},
		{"flags[5] = 0x81: has bits other than", func(p *diffusion.Problem, _ *diffusion.Options) {
			p.Flags[5] = 0x81
		}},
		{"flags = no pixel fixed: at least one", func(p *diffusion.Problem, _ *diffusion.Options) { clear(p.Flags) }},
		{"method = 5: must be 0 to", func(_ *diffusion.Problem, o *diffusion.Options) { o.Method = 5 }},
		{"method = VARIABLE_STENCIL: looks across edges", func(p *diffusion.Problem, o *diffusion.Options) {
			o.Method = diffusion.VariableStencil
			p.Flags[3] |= diffusion.BlockDown
		}},
		{"method = MULTIGRID: needs edges that are open both ways", func(p *diffusion.Problem, _ *diffusion.Options) {
			p.Flags[3] |= diffusion.ShutLeft
		}},
		{"method = VARIABLE_STENCIL: looks across edges, and some are open one way",
			func(p *diffusion.Problem, o *diffusion.Options) {
				o.Method = diffusion.VariableStencil
				p.Flags[3] |= diffusion.ShutLeft
			}},
		{"channels = 0: must be 1 to 4", func(p *diffusion.Problem, _ *diffusion.Options) { p.Channels = 0 }},
		{"channels = 5: must be 1 to 4", func(p *diffusion.Problem, _ *diffusion.Options) { p.Channels = 5 }},
		{"values = 23 values: must be 24", func(p *diffusion.Problem, _ *diffusion.Options) {
			p.Values = p.Values[1:]
		}},
		{"values[channel 1, pixel (3, 2)] = NaN: must be -1099511627776 to",
			func(p *diffusion.Problem, _ *diffusion.Options) { p.Values[23] = nan }},
		{"values[channel 0, pixel (0, 0)] = +Inf: must be -1099511627776 to",
			func(p *diffusion.Problem, _ *diffusion.Options) { p.Values[0] = inf }},
		{"tolerance = -1: must be more than 0", func(_ *diffusion.Problem, o *diffusion.Options) { o.Tolerance = -1 }},
		{"tolerance = NaN: must be", func(_ *diffusion.Problem, o *diffusion.Options) { o.Tolerance = nan }},
		{"max cycles = -1: must be 1 to", func(_ *diffusion.Problem, o *diffusion.Options) { o.MaxCycles = -1 }},
		{"start = 3 values: must be 24", func(_ *diffusion.Problem, o *diffusion.Options) {
			o.Start = make([]float32, 3)
		}},
		{"start[7] = NaN: must be -1099511627776 to", func(_ *diffusion.Problem, o *diffusion.Options) {
			o.Start = make([]float32, 24)
			o.Start[7] = nan
		}},
	} {
		p := &diffusion.Problem{
			Width: 4, Height: 3, Flags: make([]uint8, 12), Channels: 2,
			Values: make([]float32, 24),
		}
		p.Flags[0], p.Flags[11] = diffusion.Fixed, diffusion.Fixed
		var o diffusion.Options
		x.spoil(p, &o)
		_, err := diffusion.Solve(context.Background(), d, p, &o)
		var bad *kernels.InvalidError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%v, want %q", err, x.says)
		}
	}
	big := devicetest.Scenes(1, 500)[0]
	var full *kernels.CapacityError
	if _, err := diffusion.Solve(context.Background(), d, problem(big), nil); !errors.As(err, &full) {
		t.Errorf("a scene larger than the device: %v", err)
	}
}

// What does not converge in the cycles allowed says so, and how far it is.
func TestMaxCycles(t *testing.T) {
	d := openCPU(t, 16<<20)
	s := devicetest.Scenes(1, 60)[0]
	got, err := diffusion.Solve(context.Background(), d, problem(s), &diffusion.Options{MaxCycles: 2, Tolerance: 1e-6})
	if err != nil || got.Converged || got.Cycles != 2 || !(got.Estimate > 1e-6) || !(got.Residual > 0) {
		t.Errorf("%v, %+v", err, got)
	}
}

func TestCancel(t *testing.T) {
	d := openCPU(t, 64<<20)
	s := devicetest.Scenes(1, 200)[0]
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := diffusion.Solve(ctx, d, problem(s), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
}

// Each op in turn fails; the next call works.
func TestFaults(t *testing.T) {
	s := devicetest.NewScene("", 6, 5, 1)
	s.Fix(0, 0, 1)
	s.Fix(5, 4, 0)
	tried := 0
	for f := range devicetest.Faults(cpu.New(cpu.Options{}), driver.ErrOutOfMemory, driver.ErrDeviceLost) {
		tried++
		d, err := kernels.Open(f, kernels.Config{MemoryBytes: 1 << 20})
		if err != nil {
			if !errors.Is(err, f.Failure().Err) {
				t.Errorf("Open: %v", err)
			}
			continue
		}
		run := func() error {
			got, err := diffusion.Solve(context.Background(), d, problem(s), nil)
			if err == nil {
				check(t, s, got)
			}
			return err
		}
		err = run()
		if err != nil && !errors.Is(err, f.Failure().Err) {
			t.Errorf("%+v: %v", f.Failure(), err)
		}
		if used, kept := d.Memory().Used, d.Memos().Bytes; used != kept {
			t.Errorf("%+v: %d bytes are in use after it, %d of them by set-ups that are kept", f.Failure(), used, kept)
		}
		if err != nil && !errors.Is(err, driver.ErrDeviceLost) {
			if err := run(); err != nil {
				t.Errorf("%+v: the next call: %v", f.Failure(), err)
			}
		}
		if err := d.Close(); err != nil && !errors.Is(err, f.Failure().Err) {
			t.Errorf("%+v: Close: %v", f.Failure(), err)
		}
	}
	if tried < 10 {
		t.Errorf("%d faults were tried", tried)
	}
}

// gradient is a picture whose values are linear, so that each is the mean of its neighbours inside.

func ExampleSolve() {
	dev, err := kernels.Open(cpu.New(cpu.Options{}), kernels.Config{MemoryBytes: 1 << 20})
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	p := &diffusion.Problem{
		Width: 5, Height: 1,
		Flags:    []uint8{diffusion.Fixed, 0, 0, 0, diffusion.Fixed},
		Channels: 1,
		Values:   []float32{0, 0, 0, 0, 1},
	}
	s, err := diffusion.Solve(context.Background(), dev, p, nil)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.2f\n", s.Values)
	// Output: [0.00 0.25 0.50 0.75 1.00]
}

// The largest values that may be given overflow nothing, whatever the method.
func TestSolveLargest(t *testing.T) {
	dev := openCPU(t, 64<<20)
	rng := seed.New(t, 7, 7)
	for k := range 60 {
		w, h := 1+rng.IntN(60), 1+rng.IntN(60)
		p := &diffusion.Problem{Width: w, Height: h, Flags: make([]uint8, w*h), Channels: 1}
		m := diffusion.Method(k % 5)
		for i := range p.Flags {
			if i == 0 || rng.IntN(10) == 0 {
				p.Flags[i] = diffusion.Fixed
			}
			if k%2 == 0 && m != diffusion.VariableStencil && rng.IntN(5) == 0 {
				p.Flags[i] |= diffusion.BlockDown
			}
			p.Values = append(p.Values, diffusion.MaxValue*float32(1-2*rng.IntN(2)))
		}
		s, err := diffusion.Solve(t.Context(), dev, p, &diffusion.Options{Method: m, MaxCycles: 20})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range append(s.Values, s.Estimate, s.Residual) {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				t.Fatalf("%dx%d by %v: %v; estimate %v, residual %v", w, h, m, v, s.Estimate, s.Residual)
			}
		}
		p.Values[0] = math.Nextafter32(diffusion.MaxValue, 2*diffusion.MaxValue)
		if _, err := diffusion.Solve(t.Context(), dev, p, &diffusion.Options{Method: m}); err == nil {
			t.Error("more than the largest value is taken")
		}
	}
}
