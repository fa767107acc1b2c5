package diffusion_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/internal/devicetest"
	_ "github.com/polyscan/polyscan/internal/shorttest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// slow are those of Warren's methods that can solve a scene.
func slow(s *devicetest.Scene) []diffusion.Method {
	all := []diffusion.Method{diffusion.Naive, diffusion.PyramidCautious, diffusion.PyramidGreedy}
	if !s.Barriers() && !s.OneWay() {
		all = append(all, diffusion.VariableStencil)
	}
	return all
}

// apart is the largest difference.
func apart[T float32 | float64](a []float32, b []T) (most float64) {
	for i, v := range a {
		most = max(most, math.Abs(float64(v)-float64(b[i])))
	}
	return most
}

// Slow methods know how far off they are: after each cycle, also where updates have come to nothing long before the
// error has.
func TestSlowMethodsMeasureTheirError(t *testing.T) {
	d := openCPU(t, 64<<20)
	const level = 1.0 / 255
	ended := map[bool]int{}
	scenes := slices.Concat(devicetest.Scenes(5, 56), devicetest.BarrierScenes(5, 56))
	if !testing.Short() {
		scenes = append(scenes, devicetest.BarrierScenes(2, 96)[3]) // a corridor
	}
	for _, s := range scenes {
		if !solvable(s) {
			continue
		}
		s.Channels, s.Colours = 1, s.Colours[:len(s.Flags)]
		exact := s.Exact()
		p := problem(s)
		for _, m := range slow(s) {
			for _, tolerance := range []float32{8 * level, level / 4, level / 50} {
				got, err := diffusion.Solve(t.Context(), d, p,
					&diffusion.Options{Method: m, Tolerance: tolerance, MaxCycles: 40})
				if err != nil {
					t.Fatalf("%s by %v: %v", s.Name, m, err)
				}
				off, says := apart(got.Values, exact), float64(got.Estimate)
				// The reference may be off by an eighth of the tolerance, and its estimate is that much more again.
				const rounding = level / 1000
				if says < off-float64(tolerance)/50-rounding || says > off+float64(tolerance)/4+rounding {
					t.Errorf("%s by %v to %v: off by %v, and says %v", s.Name, m, tolerance, off, says)
				}
				if got.Converged != (got.Estimate <= tolerance) || got.Check <= 0 || got.Check > got.Compute {
					got.Values = nil
					t.Errorf("%s by %v to %v: %+v", s.Name, m, tolerance, got)
				}
				ended[got.Converged]++
			}
		}
	}
	if ended[false] == 0 || ended[true] < 2*ended[false] {
		t.Errorf("%d solves have converged, %d have not", ended[true], ended[false])
	}
}

// All of a picture counts, to the last channel.
func TestSlowMethodsMeasureAllChannels(t *testing.T) {
	d := openCPU(t, 64<<20)
	s := devicetest.NewScene("", 420, 420, 3)
	for y := range s.Height {
		s.Fix(0, y, 0.5, 0.5, 0)
		s.Fix(s.Width-1, y, 0.5, 0.5, 1)
	}
	p := problem(s)
	want, err := diffusion.Solve(t.Context(), d, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := diffusion.Solve(t.Context(), d, p, &diffusion.Options{Method: diffusion.Naive, MaxCycles: 1})
	if err != nil {
		t.Fatal(err)
	}
	if off := apart(got.Values, want.Values); got.Converged || off < 0.4 ||
		math.Abs(float64(got.Estimate)-off) > 1.0/255 {
		t.Errorf("off by %v, and says %v", off, got.Estimate)
	}
}

// A solve ends where it converges, as one does that is told to stop there, give or take the cycles between two looks.
func TestSlowMethodsEndInTime(t *testing.T) {
	d := openCPU(t, 16<<20)
	s := devicetest.Scenes(5, 60)[2]
	exact := s.Exact()
	p := problem(s)
	for _, m := range slow(s) {
		const tolerance = 1.0 / 255
		got, err := diffusion.Solve(t.Context(), d, p, &diffusion.Options{Method: m, Tolerance: tolerance})
		if err != nil {
			t.Fatal(err)
		}
		early, err := diffusion.Solve(t.Context(), d, p,
			&diffusion.Options{Method: m, Tolerance: tolerance, MaxCycles: got.Cycles*4/5 - 1})
		if err != nil {
			t.Fatal(err)
		}
		if !got.Converged || got.Cycles < 3 || early.Converged || early.Cycles >= got.Cycles ||
			apart(early.Values, exact) < 0.7*tolerance {
			t.Errorf("%v: %d cycles, converged: %v; off by %v after %d", m, got.Cycles, got.Converged,
				apart(early.Values, exact), early.Cycles)
		}
	}
}

// Where rounding leaves nothing to change no cycles are wasted, and the error is known.
func TestSlowMethodsEndWhereNothingChanges(t *testing.T) {
	d := openCPU(t, 16<<20)
	for _, s := range []*devicetest.Scene{devicetest.Scenes(5, 50)[2], devicetest.OneWayScenes(5, 40)[0]} {
		s.Channels, s.Colours = 1, s.Colours[:len(s.Flags)]
		exact := s.Exact()
		p := problem(s)
		for _, m := range slow(s) {
			got, err := diffusion.Solve(t.Context(), d, p,
				&diffusion.Options{Method: m, Tolerance: math.SmallestNonzeroFloat32, MaxCycles: 100_000})
			if err != nil {
				t.Fatal(err)
			}
			off := apart(got.Values, exact)
			if got.Converged || got.Cycles > 1000 || off > 0.1/255 || float64(got.Estimate) < off/2 {
				t.Errorf("%s by %v: %d cycles, converged: %v, off by %v, and says %v", s.Name, m, got.Cycles,
					got.Converged, off, got.Estimate)
			}
			if !s.OneWay() && float64(got.Estimate) > 2*off+1e-6 {
				t.Errorf("%s by %v: off by %v, and says %v", s.Name, m, off, got.Estimate)
			}
		}
	}
}

// The reference is only looked at: the solution is that of the method, whether it begins with the mean, with values, or
// with the picture before, and whoever looks on.
func TestSlowMethodsGoTheirWay(t *testing.T) {
	const w, h = 36, 30
	d := openCPU(t, 16<<20)
	s := devicetest.Scenes(5, 60)[2]
	s.Channels, s.Colours = 1, s.Colours[:len(s.Flags)]
	p := problem(s)
	one, err := diffusion.Solve(t.Context(), d, p, &diffusion.Options{Method: diffusion.Naive, MaxCycles: 1})
	if err != nil {
		t.Fatal(err)
	}
	if off := apart(one.Values, s.Exact()); off < 10.0/255 || one.Converged {
		t.Errorf("one cycle from the mean: off by %v", off)
	}
	two, err := diffusion.Solve(t.Context(), d, p, &diffusion.Options{Method: diffusion.Naive, MaxCycles: 2})
	if err != nil {
		t.Fatal(err)
	}
	then, err := diffusion.Solve(t.Context(), d, p,
		&diffusion.Options{Method: diffusion.Naive, MaxCycles: 1, Start: one.Values})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(then.Values, two.Values) || then.Estimate != two.Estimate {
		t.Errorf("the second cycle: off by %v and by %v", then.Estimate, two.Estimate)
	}

	// These arcs take more than five cycles; others may take fewer, so POLYSCAN_SEED doesn't change them.
	drawing := arcs(rand.New(rand.NewPCG(2, 9)), w, h, 2, false)
	opts := &diffusion.Options{Method: diffusion.Naive, Tolerance: 1.0 / 255}
	want, err := diffusion.SolveDrawing(t.Context(), d, drawing, opts)
	if err != nil {
		t.Fatal(err)
	}
	var shown []*diffusion.Solution
	to := rgb(w, h)
	to.Progress = func(s *diffusion.Solution) error {
		shown = append(shown, s)
		return nil
	}
	got, err := diffusion.Render(t.Context(), d, drawing, to, opts)
	if err != nil {
		t.Fatal(err)
	}
	if got.Cycles != want.Cycles || got.Estimate != want.Estimate || !got.Converged || got.Cycles < 5 ||
		len(shown) != got.Cycles-1 {
		t.Fatalf("%d cycles, off by %v, %d pictures on the way; %d cycles, off by %v, where nobody looks on",
			got.Cycles, got.Estimate, len(shown), want.Cycles, want.Estimate)
	}
	for i, s := range shown {
		if s.Cycles != i+1 || s.Converged {
			t.Errorf("picture %d: %+v", i, s)
		}
		if i > 2 && i%7 != 0 {
			continue
		}
		at, err := diffusion.SolveDrawing(t.Context(), d, drawing,
			&diffusion.Options{Method: opts.Method, Tolerance: opts.Tolerance, MaxCycles: i + 1})
		if err != nil || s.Estimate != at.Estimate {
			t.Errorf("picture %d: %+v; %+v, %v", i, s, at, err)
		}
	}
	canvas := diffusion.NewCanvas(d)
	defer canvas.Close()
	first, err := canvas.Render(t.Context(), drawing, rgb(w, h), opts)
	if err != nil || first.Cycles != want.Cycles {
		t.Errorf("a canvas: %+v, %v", first, err)
	}
	drawing.Curves[0].Left[0].Values[0] += 0.02
	again, err := canvas.Render(t.Context(), drawing, rgb(w, h), opts)
	if err != nil || !again.Converged || again.Cycles < 2 || again.Cycles >= first.Cycles {
		t.Errorf("the next picture: %+v, %v; the first: %+v", again, err, first)
	}
}

// Slow solves take the memory that they say they do, and no more: one byte less is refused at once.
func TestSlowMethodsSayWhatTheyTake(t *testing.T) {
	few, walls, valves := devicetest.Scenes(5, 60)[2], devicetest.BarrierScenes(5, 60)[1],
		devicetest.OneWayScenes(5, 60)[0]
	for _, s := range []*devicetest.Scene{few, walls, valves} {
		p := problem(s)
		for _, m := range slow(s) {
			for what, solve := range map[string]func(d *kernels.Device) error{
				"Solve": func(d *kernels.Device) error {
					_, err := diffusion.Solve(t.Context(), d, p, &diffusion.Options{Method: m, MaxCycles: 2})
					return err
				},
				"from values": func(d *kernels.Device) error {
					_, err := diffusion.Solve(t.Context(), d, p,
						&diffusion.Options{Method: m, MaxCycles: 2, Start: make([]float32, len(p.Values))})
					return err
				},
			} {
				var full *kernels.CapacityError
				if err := solve(openCPU(t, 1<<10)); !errors.As(err, &full) {
					t.Fatalf("%s, %s by %v in a kilobyte: %v", s.Name, what, m, err)
				}
				if err := solve(openCPU(t, full.Needed)); err != nil {
					t.Errorf("%s, %s by %v in %d bytes: %v", s.Name, what, m, full.Needed, err)
				}
				if err := solve(openCPU(t, full.Needed-driver.Align)); !errors.As(err, &full) {
					t.Errorf("%s, %s by %v in %d bytes less: %v", s.Name, what, m, driver.Align, err)
				}
			}
		}
	}
}

// By a threshold a slow method stops where the op does; nothing is known of the error, unless it was to be measured,
// and no reference takes memory or time.
func TestThreshold(t *testing.T) {
	d := openCPU(t, 64<<20)
	const level = 1.0 / 255
	for _, s := range []*devicetest.Scene{devicetest.Scenes(5, 90)[0], devicetest.BarrierScenes(5, 60)[1],
		devicetest.OneWayScenes(5, 60)[0]} {
		exact := s.Exact()
		p := problem(s)
		for _, m := range []diffusion.Method{diffusion.Naive, diffusion.PyramidCautious, diffusion.PyramidGreedy} {
			for _, c := range []struct{ given, is float32 }{{0.5 * level, 0.5 * level},
				{diffusion.WarrenThreshold, map[diffusion.Method]float32{diffusion.Naive: 0.2, diffusion.PyramidCautious: 1,
					diffusion.PyramidGreedy: 50}[m] * level}} {
				s.Method = m
				want, cycles := s.Sweeps(float64(c.is))
				got, err := diffusion.Solve(t.Context(), d, p, &diffusion.Options{Method: m, Threshold: c.given})
				if err != nil {
					t.Fatalf("%s by %v: %v", s.Name, m, err)
				}
				if off := apart(got.Values, want); off > 1e-4 || got.Cycles != cycles || !got.Converged ||
					got.Stopped != diffusion.ByThreshold || !got.ErrorUnknown || got.Estimate != 0 || got.Check != 0 ||
					!(min(got.Difference, got.Fall) <= c.is) {
					got.Values = nil
					t.Errorf("%s by %v: off by %v, instead of %d cycles: %+v", s.Name, m, off, cycles, got)
				}
				got, err = diffusion.Solve(t.Context(), d, p,
					&diffusion.Options{Method: m, Threshold: c.given, MeasureError: true})
				if err != nil {
					t.Fatalf("%s by %v: %v", s.Name, m, err)
				}
				off, says := apart(got.Values, exact), float64(got.Estimate)
				if got.ErrorUnknown != s.OneWay() || got.Cycles != cycles || !s.OneWay() &&
					(says < off-level/50 || says > off+level/4 || got.Check <= 0) {
					got.Values = nil
					t.Errorf("%s by %v: off by %v: %+v", s.Name, m, off, got)
				}
			}
			got, err := diffusion.Solve(t.Context(), d, p,
				&diffusion.Options{Method: m, Threshold: 1e-9, MaxCycles: 1})
			if err != nil || got.Converged || got.Stopped != diffusion.ByCycles || got.Cycles != 1 {
				t.Errorf("%s by %v, one cycle: %+v, %v", s.Name, m, got, err)
			}
		}
	}
	p := problem(devicetest.Scenes(5, 20)[0])
	for _, c := range []struct {
		method    diffusion.Method
		threshold float32
		measure   bool
		says      string
	}{
		{diffusion.Multigrid, 1, false, "threshold = 1: can't be given with MULTIGRID"},
		{diffusion.VariableStencil, diffusion.WarrenThreshold, false, "threshold = -1: can't be given"},
		{diffusion.Naive, -2, false, "threshold = -2: must be more than 0"},
		{diffusion.Naive, float32(math.Inf(1)), false, "must be more than 0, and finite"},
		{diffusion.Naive, 0, true, "measure error = true: must go with a threshold"},
	} {
		_, err := diffusion.Solve(t.Context(), d, p,
			&diffusion.Options{Method: c.method, Threshold: c.threshold, MeasureError: c.measure})
		var bad *kernels.InvalidError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Why solves have ended.
func TestStopped(t *testing.T) {
	d := openCPU(t, 64<<20)
	p := problem(devicetest.Scenes(5, 20)[2])
	for want, o := range map[diffusion.StopReason]*diffusion.Options{
		diffusion.ByTolerance: {},
		diffusion.ByCycles:    {MaxCycles: 1, Tolerance: 1e-9},
		diffusion.ByRounding:  {MaxCycles: 50_000, Tolerance: 1e-30},
	} {
		o.Method = diffusion.Naive
		if got, err := diffusion.Solve(t.Context(), d, p, o); err != nil || got.Stopped != want ||
			got.Converged != (want == diffusion.ByTolerance) || got.ErrorUnknown {
			got.Values = nil
			t.Errorf("%v: %+v, %v", want, got, err)
		}
	}
}
