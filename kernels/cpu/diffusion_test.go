package cpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/kernels/driver"
)

// diffusionFixture is a scene on a device.
type diffusionFixture struct {
	*fixture
	setup  driver.DiffusionSetup
	solve  driver.DiffusionSolve
	pixels int
}

func newDiffusion(t testing.TB, threads int, s *devicetest.Scene, tolerance float32) *diffusionFixture {
	t.Helper()
	x := &device{threads: threads}
	g := s.Grid()
	setup, err := x.Scratch(&driver.DiffusionSetup{Grid: g})
	if err != nil {
		t.Fatal(err)
	}
	state, err := x.Scratch(&driver.DiffusionSolve{Grid: g, Channels: s.Channels})
	if err != nil {
		t.Fatal(err)
	}
	planes := 4 * int64(len(s.Colours))
	f := newFixture(t, threads, int64(len(s.Flags))+2*planes+setup+state+10*driver.Align)
	d := &diffusionFixture{fixture: f, pixels: len(s.Flags)}
	flags := f.upload(s.Flags)
	d.setup = driver.DiffusionSetup{Grid: g, Flags: flags, Dst: f.slice(setup), Counts: f.slice(8)}
	d.solve = driver.DiffusionSolve{
		Grid: g, Channels: s.Channels, Cycles: 50, Tolerance: tolerance, Flags: flags, Setup: d.setup.Dst,
		Colours: f.upload(bytesOf(s.Colours)), X: f.slice(planes), State: f.slice(state), Status: f.slice(32),
	}
	if s.Threshold > 0 {
		d.solve.Tolerance, d.solve.Threshold = 0, s.Threshold
	}
	return d
}

// setUpGraph is what the set-up of a scene with barriers makes.
func setUpGraph(t testing.TB, threads int, s *devicetest.Scene) *graph {
	t.Helper()
	d := newDiffusion(t, threads, s, grayLevel)
	d.ok(d.s.Run(&d.setup))
	d.wait()
	b := view(d.setup.Dst)
	return layGraph(&arena{b: b, end: diffusionHeaderBytes}, s.Width, s.Height)
}

func (d *diffusionFixture) run() ([]float32, driver.DiffusionStatus) {
	d.t.Helper()
	d.ok(d.s.Run(&d.setup))
	return d.solved()
}

// solved runs the op after the set-up.
func (d *diffusionFixture) solved() ([]float32, driver.DiffusionStatus) {
	d.t.Helper()
	d.ok(d.s.Run(&d.solve))
	d.wait()
	return download[float32](d.fixture, d.solve.X), download[driver.DiffusionStatus](d.fixture, d.solve.Status)[0]
}

// next is solved, and the next op goes on from there.
func (d *diffusionFixture) next() ([]float32, driver.DiffusionStatus) {
	d.t.Helper()
	x, status := d.solved()
	d.solve.Start = driver.DiffusionContinue
	return x, status
}

const grayLevel = 1.0 / 255 // of an 8-bit channel

// The suite has all scenes, at a size at which its oracle is quick; here are the larger ones.
func TestDiffusionExact(t *testing.T) {
	small, large := devicetest.Scenes(1, 140), devicetest.Scenes(1, 256)
	for _, s := range append(append(small[1:7], large[0], large[5]), devicetest.BarrierScenes(1, 140)...) {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			compareWithExact(t, s)
		})
	}
}

// The same of a megapixel, and of longer barriers, in one channel.
func TestDiffusionLarge(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("the oracles take seconds")
	}
	large, walls := devicetest.Scenes(3, 1024), devicetest.BarrierScenes(3, 256)
	for _, s := range []*devicetest.Scene{large[1], walls[0], walls[2]} {
		s.Channels, s.Colours = 1, s.Colours[:len(s.Flags)]
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			x, status := newDiffusion(t, 2, s, grayLevel/4).run()
			var exact []float64
			if s.Barriers() {
				exact = s.Exact()
			} else {
				exact = s.Refine(x)
			}
			compareStatus(t, x, exact, status)
		})
	}
}

// compareWithExact solves a scene to a quarter of a level and compares it with the exact solution.
func compareWithExact(t *testing.T, s *devicetest.Scene) {
	x, status := newDiffusion(t, 2, s, grayLevel/4).run()
	compareStatus(t, x, s.Exact(), status)
}

// compareStatus compares a solution to a quarter of a level, and what the status says of it, with the exact one.
func compareStatus(t *testing.T, x []float32, exact []float64, status driver.DiffusionStatus) {
	t.Helper()
	worst := 0.0
	for i := range x {
		worst = max(worst, math.Abs(float64(x[i])-exact[i]))
	}
	t.Logf("error %.4f/255, estimate %.4f/255, ratio %.3f, residual %.2g, %d cycles", worst/grayLevel,
		status.Estimate/grayLevel, status.Ratio, status.Residual, status.Cycles)
	if !(worst <= grayLevel/2) || status.Converged != 1 || worst > 2*float64(status.Estimate)+
		devicetest.DiffusionRounding {
		t.Errorf("off by %.3f of a level; the status is %+v", worst/grayLevel, status)
	}
}

// With barriers the estimate is never half of the error or less, cycle by cycle, and where it is at most a quarter of a
// level the error is at most half of one.
func TestDiffusionEstimates(t *testing.T) {
	for _, s := range devicetest.BarrierScenes(5, 111)[:7] {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			exact := s.Exact()
			d := newDiffusion(t, 1, s, grayLevel/50)
			d.solve.Cycles = 1
			d.ok(d.s.Run(&d.setup))
			for cycle := 1; cycle <= 30; cycle++ {
				x, status := d.next()
				worst := 0.0
				for i, v := range x {
					worst = max(worst, math.Abs(float64(v)-exact[i]))
				}
				if worst > 2*float64(status.Estimate)+devicetest.DiffusionRounding || status.Estimate <= grayLevel/4 &&
					worst > grayLevel/2 {
					t.Errorf("cycle %d: off by %.3f/255, and says %.3f/255", cycle, worst/grayLevel,
						status.Estimate/grayLevel)
				}
				if status.Converged == 1 {
					return
				}
			}
			t.Error("has not converged in 30 cycles")
		})
	}
}

// The same of sweeps, which need many more cycles: the estimate is never half of the error or less, however little
// updates show of it.
func TestDiffusionSweepEstimates(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("sweeps take seconds")
	}
	scenes := slices.Concat(devicetest.Scenes(2, 64), devicetest.BarrierScenes(2, 48), devicetest.OneWayScenes(2, 48))
	converged := 0
	for _, s := range scenes {
		s.Channels, s.Colours = 1, s.Colours[:len(s.Flags)]
		exact := s.Exact()
		for m := driver.DiffusionNaive; m <= driver.DiffusionVariableStencil; m++ {
			if m == driver.DiffusionVariableStencil && (s.Barriers() || s.Grid().OneWay) {
				continue
			}
			s.Method = m
			d := newDiffusion(t, 2, s, grayLevel/4)
			d.solve.Cycles = 1
			d.ok(d.s.Run(&d.setup))
			for cycle := 1; cycle <= 100; cycle++ {
				x, status := d.next()
				if diff := devicetest.CompareDiffusion(x, exact, s.Width, 2*float64(status.Estimate)+
					devicetest.DiffusionRounding); diff != nil {
					t.Errorf("%v of %s: cycle %d: %+v: %v", m, s.Name, cycle, status, diff)
					break
				}
				if status.Converged == 1 {
					converged++
					break
				}
			}
		}
	}
	if converged < 80 {
		t.Errorf("%d solves have converged", converged)
	}
}

// Where cycles hardly reduce the error, a longer step still changes more than the one before, which says nothing of the
// error.
func TestDiffusionSlowCycles(t *testing.T) {
	d := newDiffusion(t, 1, devicetest.Scenes(6, 90)[0], 1e-9)
	state := view(d.solve.State)
	head := (*solveHeader)(unsafe.Pointer(&state[0]))
	for cycles := uint32(1); cycles < 5; cycles++ {
		// The cycle after so many, behind one that is said to have changed the image by something else where that is
		// not 0.
		next := func(before float32) driver.DiffusionStatus {
			d.solve.Start, d.solve.Cycles = driver.DiffusionFromMean, int(cycles)
			d.run()
			if before > 0 {
				head.Update = before
			}
			d.solve.Start, d.solve.Cycles = driver.DiffusionContinue, 1
			_, status := d.run()
			return status
		}
		const left = 0.9 // of the error, by each cycle
		s := next(next(0).Update / (left - 1 + boxStep(cycles)/boxStep(cycles-1)))
		if math.Abs(float64(s.Ratio)-left) > 1e-4 || math.Abs(float64(s.Estimate/s.Update)-left/(1-left)) > 0.02 {
			t.Errorf("after %d cycles: %+v", cycles, s)
		}
	}
}

// A set-up is for the grid that it was made for.
func TestDiffusionOtherSetup(t *testing.T) {
	plain, walls := devicetest.NewScene("", 12, 10, 1), devicetest.NewScene("", 12, 10, 1)
	plain.Fix(3, 3, 1)
	walls.Fix(3, 3, 1)
	walls.Block(5, 5, true)
	d := newDiffusion(t, 1, walls, grayLevel)
	d.ok(d.s.Run(&d.setup))
	d.wait()
	d.solve.Grid.Barriers = false
	if err := errors.Join(d.s.Run(&d.solve), d.s.Wait(context.Background())); err == nil ||
		!strings.Contains(err.Error(), "Setup: is not") {
		t.Errorf("a set-up with barriers, a solve without: %v", err)
	}
	d.setup.Grid.Barriers = false
	if err := errors.Join(d.s.Run(&d.setup), d.s.Wait(context.Background())); err == nil ||
		!strings.Contains(err.Error(), "pixel (5, 5)") {
		t.Errorf("a set-up without barriers of flags that have some: %v", err)
	}
	p := newDiffusion(t, 1, plain, grayLevel)
	p.solve.Grid.Width, p.solve.Grid.Height = 10, 12
	p.ok(p.s.Run(&p.setup))
	if err := errors.Join(p.s.Run(&p.solve), p.s.Wait(context.Background())); err == nil ||
		!strings.Contains(err.Error(), "Setup: is not") {
		t.Errorf("a set-up of 12x10, a solve of 10x12: %v", err)
	}
}

// Threads share rows as they come, and the bits are the same.
func TestDiffusionThreads(t *testing.T) {
	greedy, stencil := devicetest.BarrierScenes(2, 40)[0], devicetest.Scenes(2, 40)[0]
	greedy.Method, stencil.Method = driver.DiffusionPyramidGreedy, driver.DiffusionVariableStencil
	threshold, walled := devicetest.Scenes(2, 200)[0], devicetest.BarrierScenes(2, 200)[1]
	threshold.Method, threshold.Threshold = driver.DiffusionPyramidGreedy, 0.1
	walled.Method, walled.Threshold = driver.DiffusionPyramidCautious, 0.1
	for _, s := range []*devicetest.Scene{devicetest.Scenes(2, 200)[0], devicetest.BarrierScenes(2, 200)[1], greedy,
		stencil, threshold, walled} {
		want, status := newDiffusion(t, 1, s, grayLevel/4).run()
		for _, threads := range []int{2, 3, 7} {
			got, st := newDiffusion(t, threads, s, grayLevel/4).run()
			if d := devicetest.CompareDiffusion(got, want, s.Width, 0); d != nil || st != status {
				t.Errorf("%s, %d threads: %+v instead of %+v: %v", s.Name, threads, st, status, d)
			}
		}
	}
}

// Where an edge is open one way, what is on its shut side depends on nothing beyond.
func TestDiffusionOneWay(t *testing.T) {
	for _, m := range []driver.DiffusionMethod{driver.DiffusionNaive, driver.DiffusionPyramidCautious,
		driver.DiffusionPyramidGreedy} {
		for _, s := range devicetest.OneWayScenes(4, 40) {
			s.Method = m
			d := newDiffusion(t, 2, s, 1e-7)
			d.solve.Cycles = 500
			x, status := d.run()
			if diff := devicetest.CompareDiffusion(x, s.Exact(), s.Width, devicetest.DiffusionRounding); diff != nil {
				t.Errorf("%v: %s: %+v: %v", m, s.Name, status, diff)
			}
		}
	}
}

// A solve that begins with the solution ends with it after a cycle; one that begins with that of other colours gets
// there, too.
func TestDiffusionFromX(t *testing.T) {
	s := devicetest.Scenes(3, 120)[0]
	d := newDiffusion(t, 2, s, grayLevel/4)
	_, cold := d.run()
	d.solve.Start = driver.DiffusionFromX
	d.ok(d.s.Run(&d.solve))
	if st := download[driver.DiffusionStatus](d.fixture, d.solve.Status)[0]; st.Cycles != 1 || st.Converged != 1 {
		t.Errorf("from the solution: %+v", st)
	}
	for i := range s.Colours {
		if i%7 == 0 {
			s.Colours[i] *= 0.9
		}
	}
	d.ok(d.s.Upload(d.solve.Colours, [][]byte{bytesOf(s.Colours)}))
	d.ok(d.s.Run(&d.solve))
	x := download[float32](d.fixture, d.solve.X)
	st := download[driver.DiffusionStatus](d.fixture, d.solve.Status)[0]
	if diff := devicetest.CompareDiffusion(x, s.Exact(), s.Width, grayLevel/2); diff != nil || st.Converged != 1 ||
		st.Cycles > cold.Cycles {
		t.Errorf("after an edit, from the old solution: %+v (%d cycles from nothing): %v", st, cold.Cycles, diff)
	}
}

// A solve that is not wanted any more ends between pieces of work.
func TestDiffusionStops(t *testing.T) {
	s := devicetest.Scenes(1, 256)[0]
	d := newDiffusion(t, 2, s, 1e-30) // never
	d.solve.Cycles = 1 << 30
	d.ok(d.s.Run(&d.setup))
	d.wait()
	d.ok(d.s.Run(&d.solve))
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := d.s.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait: %v", err)
	}
}

func TestDiffusionRefuses(t *testing.T) {
	s := devicetest.Scenes(1, 20)[0]
	for name, spoil := range map[string]func(*diffusionFixture){
		"Grid":                  func(d *diffusionFixture) { d.setup.Grid.Width = 0 },
		"Flags":                 func(d *diffusionFixture) { d.setup.Grid.Height++ },
		"Dst":                   func(d *diffusionFixture) { d.setup.Dst.Len = 300 },
		"Counts":                func(d *diffusionFixture) { d.setup.Counts.Len = 4 },
		"DiffusionSolve: Flags": func(d *diffusionFixture) { d.solve.Flags.Len-- },
		"Setup":                 func(d *diffusionFixture) { d.solve.Setup.Len-- },
		"Channels":              func(d *diffusionFixture) { d.solve.Channels = 5 },
		"Colours":               func(d *diffusionFixture) { d.solve.Channels = 2 },
		"X":                     func(d *diffusionFixture) { d.solve.X.Len -= 4 },
		"State":                 func(d *diffusionFixture) { d.solve.State.Len /= 2 },
		"State to":              func(d *diffusionFixture) { d.solve.Start = driver.DiffusionContinue },
		"Status":                func(d *diffusionFixture) { d.solve.Status.Len = 8 },
		"Threshold":             func(d *diffusionFixture) { d.solve.Tolerance, d.solve.Threshold = 0, 1 }, // not by multigrid
		"must be 0 beside":      func(d *diffusionFixture) { d.solve.Threshold, d.solve.Grid.Method = 1, driver.DiffusionNaive },
		"Threshold = -1":        func(d *diffusionFixture) { d.solve.Tolerance, d.solve.Threshold = 0, -1 },
		"Cycles":                func(d *diffusionFixture) { d.solve.Cycles = 0 },
		"Tolerance":             func(d *diffusionFixture) { d.solve.Tolerance = -1 },
		"Start":                 func(d *diffusionFixture) { d.solve.Start = 9 },
	} {
		d := newDiffusion(t, 1, s, grayLevel/4)
		d.ok(d.s.Run(&driver.Fill{Dst: d.solve.State, Value: 0}))
		spoil(d)
		err := errors.Join(devicetest.Enqueue(d.dev, d.s, &d.setup), devicetest.Enqueue(d.dev, d.s, &d.solve),
			d.s.Wait(context.Background()))
		if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What no set-up could number, or no method can do, is said before there is memory for it.
func TestDiffusionNotSupported(t *testing.T) {
	d := &device{threads: 1}
	for _, g := range []driver.DiffusionGrid{
		{Width: 1 << 15, Height: 1<<13 + 1, Barriers: true},
		{Width: 3, Height: 3, Barriers: true, Method: driver.DiffusionVariableStencil},
		{Width: 3, Height: 3, OneWay: true, Method: driver.DiffusionVariableStencil},
		{Width: 3, Height: 3, OneWay: true},
	} {
		if n, err := d.Scratch(&driver.DiffusionSetup{Grid: g}); !errors.Is(err, driver.ErrNotSupported) {
			t.Errorf("%+v: %d bytes, %v", g, n, err)
		}
		if n, err := d.Scratch(&driver.DiffusionSolve{Grid: g, Channels: 1}); !errors.Is(err, driver.ErrNotSupported) {
			t.Errorf("%+v: a state of %d bytes, %v", g, n, err)
		}
	}
}

// Arbitrary flags are solved.
func FuzzDiffusion(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 1, 0}, uint8(3))
	f.Add([]byte{1}, uint8(1))
	f.Add([]byte{0, 0, 2, 4, 6, 7, 1, 0, 0}, uint8(3))
	f.Add(make([]byte, 300), uint8(17))
	f.Add(make([]byte, 25), uint8(24))
	f.Fuzz(func(t *testing.T, b []byte, w uint8) {
		width := int(w%40) + 1
		height := min(len(b)/width, 40)
		if height < 1 {
			return
		}
		s := devicetest.NewScene("fuzz", width, height, 1)
		for i := range s.Flags {
			if b[i]&driver.DiffusionFixed != 0 {
				s.Fix(i%width, i/width, float32(b[i]>>3)/32)
			}
			s.Flags[i] |= b[i] & driver.DiffusionBlocks
		}
		x, status := newDiffusion(t, 2, s, grayLevel/4).run()
		if d := devicetest.CompareDiffusion(x, s.Exact(), width, grayLevel/2); d != nil || status.Converged != 1 {
			t.Errorf("%dx%d: %+v: %v", width, height, status, d)
		}
	})
}

// Arbitrary edges that are open one way are solved, or cut pixels off.
func FuzzDiffusionOneWay(f *testing.F) {
	f.Add([]byte{1, 8, 16, 32, 64, 120, 9}, uint8(3))
	f.Add([]byte{0, 1, 0, 16, 0, 8, 0, 64, 32}, uint8(2))
	f.Fuzz(func(t *testing.T, b []byte, w uint8) {
		width := int(w%9) + 1
		height := min(len(b)/width, 9)
		if height < 1 {
			return
		}
		s := devicetest.NewScene("fuzz", width, height, 1)
		s.Method = driver.DiffusionNaive
		for i := range s.Flags {
			if b[i]&driver.DiffusionFixed != 0 {
				s.Fix(i%width, i/width, float32(b[i]>>3)/32)
			}
			s.Flags[i] |= b[i] & (driver.DiffusionBlocks | driver.DiffusionShuts)
		}
		d := newDiffusion(t, 2, s, 1e-7)
		d.solve.Cycles = 400
		x, status := d.run()
		if diff := devicetest.CompareDiffusion(x, s.Exact(), width, devicetest.DiffusionRounding); diff != nil {
			t.Errorf("%dx%d: %+v: %v", width, height, status, diff)
		}
	})
}

// BenchmarkDiffusion is a megapixel, RGB, from nothing to a quarter of a level: the set-up, the solve, and both.
func BenchmarkDiffusion(b *testing.B) {
	scenes, walls := devicetest.Scenes(1, 1024), devicetest.BarrierScenes(1, 1024)
	for _, s := range []*devicetest.Scene{scenes[0], scenes[2], scenes[5], walls[0], walls[1]} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", strings.ReplaceAll(s.Name, " ", "_"), threads), func(b *testing.B) {
				d := newDiffusion(b, threads, s, grayLevel/4)
				d.wait()
				b.SetBytes(int64(len(s.Colours)))
				var setup, solve time.Duration
				for b.Loop() {
					start := time.Now()
					d.ok(d.s.Run(&d.setup))
					d.wait()
					setup += time.Since(start)
					start = time.Now()
					d.ok(d.s.Run(&d.solve))
					d.wait()
					solve += time.Since(start)
				}
				n := float64(b.N) * float64(time.Millisecond)
				b.ReportMetric(float64(setup)/n, "setup-ms/op")
				b.ReportMetric(float64(solve)/n, "solve-ms/op")
				b.ReportMetric(float64(download[driver.DiffusionStatus](d.fixture, d.solve.Status)[0].Cycles), "cycles")
			})
		}
	}
}

// BenchmarkDiffusionMethods is Warren's table, with the true error, in levels of 8 bits, beside each time: a scene of
// curves, RGB, after up to 500 cycles.
func BenchmarkDiffusionMethods(b *testing.B) {
	for _, side := range []int{128, 256} {
		s := devicetest.Scenes(1, side)[0]
		exact, _ := newDiffusion(b, 2, s, 1e-6).run()
		for m := driver.DiffusionMultigrid; m <= driver.DiffusionVariableStencil; m++ {
			for _, cycles := range []int{1, 500} {
				b.Run(fmt.Sprintf("%v/side=%d/cycles=%d", m, side, cycles), func(b *testing.B) {
					s.Method = m
					d := newDiffusion(b, 2, s, grayLevel/4)
					d.solve.Cycles = cycles
					var x []float32
					var status driver.DiffusionStatus
					for b.Loop() {
						x, status = d.run()
					}
					worst := float32(0)
					for i, v := range x {
						v -= exact[i]
						worst = max(worst, v, -v)
					}
					b.ReportMetric(float64(worst)/grayLevel, "error/255")
					b.ReportMetric(float64(status.Estimate)/grayLevel, "estimate/255")
					b.ReportMetric(float64(status.Cycles), "cycles")
				})
			}
		}
		s.Method = driver.DiffusionMultigrid
	}
}

// With weights PYRAMID_GREEDY makes fewer sweeps to Warren's threshold, and is no farther off, than without, as it is
// where edges might be closed.
func TestDiffusionWeights(t *testing.T) {
	scenes := devicetest.Scenes(1, 400)[:7]
	if !testing.Short() {
		scenes = append(scenes, devicetest.Scenes(1, 1024)[0])
	}
	for _, s := range scenes {
		exact, _ := newDiffusion(t, 2, s, grayLevel/50).run()
		s.Method = driver.DiffusionPyramidGreedy
		var cycles [2]int
		var most, squares [2]float64
		for k, barriers := range []bool{true, false} {
			d := newDiffusion(t, 2, s, 0)
			d.solve.Threshold, d.solve.Cycles = 50*grayLevel, 100
			d.setup.Grid.Barriers, d.solve.Grid.Barriers = barriers, barriers
			x, status := d.run()
			cycles[k] = int(status.Cycles)
			for i, v := range x {
				off := math.Abs(float64(v) - float64(exact[i]))
				most[k] = max(most[k], off)
				squares[k] += off * off
			}
		}
		t.Logf("%s: plain and with weights, cycles %d, off by %v, sums of squares %v", s.Name, cycles, most, squares)
		if cycles[1] > cycles[0] || cycles[0] > 4 && 5*cycles[1] > 3*cycles[0] {
			t.Errorf("%s: %d cycles, and %d plain ones", s.Name, cycles[1], cycles[0])
		}
		if most[1] > most[0] || squares[1] > squares[0] {
			t.Errorf("%s: off by %v, and by %v after plain sweeps; sums of squares %v and %v", s.Name, most[1], most[0],
				squares[1], squares[0])
		}
	}
}

// BenchmarkDiffusionThreshold is a megapixel, RGB, by the pyramid that Warren recommends and to the threshold of his
// table: the solve alone. Over so many runs the least time is reported, too, which other work on a machine disturbs
// least.
func BenchmarkDiffusionThreshold(b *testing.B) {
	s := devicetest.Scenes(1, 1024)[0]
	s.Method = driver.DiffusionPyramidGreedy
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("%v/threads=%d", s.Method, threads), func(b *testing.B) {
			d := newDiffusion(b, threads, s, 0)
			d.solve.Threshold, d.solve.Cycles = 50*grayLevel, 2000
			b.SetBytes(4 * int64(len(s.Colours)))
			least := time.Duration(math.MaxInt64)
			for b.Loop() {
				d.ok(d.s.Run(&d.setup))
				d.wait()
				start := time.Now()
				d.ok(d.s.Run(&d.solve))
				d.wait()
				least = min(least, time.Since(start))
			}
			b.ReportMetric(float64(least)/float64(time.Millisecond), "least-ms")
			b.ReportMetric(float64(download[driver.DiffusionStatus](d.fixture, d.solve.Status)[0].Cycles), "cycles")
		})
	}
}
