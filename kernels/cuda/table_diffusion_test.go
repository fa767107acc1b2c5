//go:build cuda

package cuda

// The benchmark table: diffusion. Each solution is compared with the exact one, by multigrid in double precision.

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

const grayLevel = 1.0 / 255 // of an 8-bit channel

// diffusionBench is a scene on the device.
type diffusionBench struct {
	*bench
	scene  *devicetest.Scene
	up     driver.DiffusionSetup
	op     driver.DiffusionSolve
	cycles int // that the solve took which was checked last
}

// newDiffusionBench is for solves to half a level.
func newDiffusionBench(t *testing.T, dev driver.Device, s *devicetest.Scene) *diffusionBench {
	t.Helper()
	b := &diffusionBench{bench: &bench{t: t, dev: dev.(*device), s: newStream(t, dev).(*stream)}, scene: s}
	g := s.Grid()
	setup, err := dev.Scratch(&driver.DiffusionSetup{Grid: g})
	b.must(err)
	state, err := dev.Scratch(&driver.DiffusionSolve{Grid: g, Channels: s.Channels})
	b.must(err)
	planes := 4 * int64(len(s.Colours))
	b.up = driver.DiffusionSetup{Grid: g, Flags: alloc(t, dev, int64(len(s.Flags))), Dst: alloc(t, dev, setup),
		Counts: alloc(t, dev, int64(unsafe.Sizeof(driver.DiffusionCounts{})))}
	b.op = driver.DiffusionSolve{
		Grid: g, Channels: s.Channels, Cycles: 8, Tolerance: grayLevel / 2, Flags: b.up.Flags, Setup: b.up.Dst,
		Colours: alloc(t, dev, planes), X: alloc(t, dev, planes), State: alloc(t, dev, state),
		Status: alloc(t, dev, int64(unsafe.Sizeof(driver.DiffusionStatus{}))),
	}
	b.upload(s)
	return b
}

// upload changes the scene to one of the same size.
func (b *diffusionBench) upload(s *devicetest.Scene) {
	b.t.Helper()
	b.scene = s
	b.must(b.s.Upload(b.up.Flags, [][]byte{s.Flags}), b.s.Upload(b.op.Colours, [][]byte{bytesOf(s.Colours)}),
		b.s.Wait(b.t.Context()))
}

func (b *diffusionBench) setUp(int) error  { return b.s.Run(&b.up) }
func (b *diffusionBench) solve(int) error  { return b.s.Run(&b.op) }
func (b *diffusionBench) both(i int) error { return errors.Join(b.setUp(i), b.solve(i)) }

// check compares the solution with the exact one, and says in the name of a row how far it is off.
func (b *diffusionBench) check(name string) string {
	b.t.Helper()
	x, status := make([]float32, len(b.scene.Colours)), make([]driver.DiffusionStatus, 1)
	b.must(b.s.Download(bytesOf(x), b.op.X), b.s.Download(bytesOf(status), b.op.Status), b.s.Wait(b.t.Context()))
	worst := 0.0
	for i, v := range b.exact(x) {
		if d := math.Abs(v - float64(x[i])); !(d <= worst) {
			worst = d
		}
	}
	st := status[0]
	b.cycles = int(st.Cycles)
	if !(worst <= grayLevel/2) || st.Converged != 1 || worst > 2*float64(st.Estimate)+devicetest.DiffusionRounding {
		b.t.Errorf("%s: off by %.3f/255; the status is %+v", name, worst/grayLevel, st)
	}
	return fmt.Sprintf("%s (%d cycles, off by %.3f/255, estimate %.3f/255)", name, st.Cycles, worst/grayLevel,
		st.Estimate/grayLevel)
}

// exact is the exact solution, of the first channel at least, given one near it; with barriers it is that of the CPU,
// to a fiftieth of a level.
func (b *diffusionBench) exact(near []float32) []float64 {
	s := *b.scene
	if !s.Barriers() {
		if len(s.Flags) > 1<<22 {
			s.Channels = 1 // it has to be quick
		}
		return s.Refine(near[:s.Channels*len(s.Flags)])
	}
	out := make([]float64, 0, len(near))
	for _, v := range solvedByCPU(b.t, b.scene) {
		out = append(out, float64(v))
	}
	return out
}

// TestDiffusionBarrierBenchmarks makes the rows of scenes with barriers.
func TestDiffusionBarrierBenchmarks(t *testing.T) {
	counted(t)
	dev := open(t, Driver)
	small := 1
	if testing.Short() {
		small = 16
	}
	for i, c := range []struct {
		cycles int
		goal   float64
	}{{5, 2000}, {5, 2000}, {5, 2000}, {5, 0}, {10, 0}} {
		s := devicetest.BarrierScenes(1, 1024/small)[i]
		t.Run(s.Name, func(t *testing.T) {
			counted(t)
			b := newDiffusionBench(t, dev, s)
			b.op.Cycles = c.cycles
			b.must(b.both(0))
			name := b.check(s.Name + ", to half a level")
			b.op.Cycles = (b.cycles +
				graphAhead - 1) / graphAhead * graphAhead // a row is of one graph, which can't look whether more are wanted
			n := int64(len(s.Flags)) + 8*int64(len(s.Colours))
			b.timed("set-up of "+s.Name, int64(len(s.Flags)), 0, 10, b.setUp, nil)
			b.timed("solve of "+s.Name+", set-up kept", n, 0, 10, b.solve, b.solve)
			b.timed("set-up and solve of "+name, n, c.goal, 10, b.both, nil)
		})
	}
}

// TestDiffusionMethodBenchmarks makes Warren's table: methods and sizes, with the true error beside each time.
func TestDiffusionMethodBenchmarks(t *testing.T) {
	counted(t)
	dev := open(t, Driver)
	sides := []int{256, 512, 1024}
	if testing.Short() {
		sides = []int{64}
	}
	for _, side := range sides {
		s := devicetest.Scenes(1, side)[0]
		x, _ := newDiffusionOn(t, dev, s, grayLevel/4, 20).solve()
		exact := s.Refine(x)
		for m := driver.DiffusionMultigrid; m <= driver.DiffusionVariableStencil; m++ {
			s.Method = m
			b := newDiffusionBench(t, dev, s)
			for _, cycles := range []int{1, 100} {
				b.op.Cycles = cycles
				status, worst := b.far(exact)
				name := fmt.Sprintf("%v of %s (%d cycles, off by %.3f/255, says %.3f/255)", m, s.Name, status.Cycles,
					worst/grayLevel, status.Estimate/grayLevel)
				b.op.Cycles = int(status.Cycles) // a row is of one graph, which can't look whether more are wanted
				device, call := b.both, b.both
				if pyramid(m) { // in a graph would be the launches of all cycles that a pyramid may take
					device = nil
				} else {
					call = nil
				}
				b.timed(name, 8*int64(len(s.Colours)), 0, 1, device, call)
			}
			if m.Thresholds() {
				b.threshold(map[driver.DiffusionMethod]float32{driver.DiffusionNaive: 0.2, driver.DiffusionPyramidCautious: 1,
					driver.DiffusionPyramidGreedy: 50}[m], exact)
			}
		}
	}
}

// far solves, and says how far off the solution is from the exact one.
func (b *diffusionBench) far(exact []float64) (driver.DiffusionStatus, float64) {
	b.t.Helper()
	x, status := make([]float32, len(b.scene.Colours)), make([]driver.DiffusionStatus, 1)
	b.must(b.both(0), b.s.Download(bytesOf(x), b.op.X), b.s.Download(bytesOf(status), b.op.Status),
		b.s.Wait(b.t.Context()))
	worst := 0.0
	for i, v := range exact {
		worst = max(worst, math.Abs(v-float64(x[i])))
	}
	return status[0], worst
}

// threshold adds rows for Warren's own stop, with the one of his table, in levels. They have no time of a graph, in
// which all cycles would be that a pyramid may take.
func (b *diffusionBench) threshold(levels float32, exact []float64) {
	b.t.Helper()
	b.op.Tolerance, b.op.Threshold, b.op.Cycles = 0, levels*grayLevel, 2000
	status, worst := b.far(exact)
	if status.Converged != 1 {
		b.t.Errorf("%v of %s: %+v", b.scene.Method, b.scene.Name, status)
	}
	goal := 0.0
	if b.scene.Method == driver.DiffusionPyramidGreedy && b.scene.Width >= 1024 {
		goal = 2000
	}
	name := fmt.Sprintf("%v of %s, to a threshold of %v/255 (%d cycles, off by %.3f/255)", b.scene.Method, b.scene.Name,
		levels, status.Cycles, worst/grayLevel)
	b.timed("solve by "+name+", set-up kept", 8*int64(len(b.scene.Colours)), goal, 1, nil, b.solve)
	b.timed("set-up and solve by "+name, 8*int64(len(b.scene.Colours)), 0, 1, nil, b.both)
}

// TestDiffusionBenchmarks makes the table's part. When short it tries that all of it works, on small images.
func TestDiffusionBenchmarks(t *testing.T) {
	counted(t)
	dev := open(t, Driver)
	small := 1
	if testing.Short() {
		small = 16
	}
	r := seed.New(t, 1, 37)
	curves := func(s *devicetest.Scene) { s.Curves(r, 300, 80, 600) }
	for _, c := range []struct {
		name           string
		width, height  int
		draw           func(*devicetest.Scene)
		both, recolour float64
	}{
		{"300 curves", 1024, 1024, curves, 500, 300},
		{"40 curves", 1365, 1021, func(s *devicetest.Scene) { s.Curves(r, 40, 100, 700) }, 0, 0},
		{"16 points", 1023, 1024, func(s *devicetest.Scene) {
			for range 16 {
				s.Fix(r.IntN(s.Width), r.IntN(s.Height), r.Float32(), r.Float32(), r.Float32())
			}
		}, 0, 0},
		{"a frame", 1025, 1025, (*devicetest.Scene).Frame, 0, 0},
		{"300 curves", 4096, 4096, curves, 4000, 0},
		{"60 holes", 4096, 4096, func(s *devicetest.Scene) { s.Holes(r, 60) }, 3000, 0},
	} {
		s := devicetest.NewScene("", c.width/small, c.height/small, 3)
		c.draw(s)
		s.Name = fmt.Sprintf("%s, %dx%d", c.name, s.Width, s.Height)
		t.Run(s.Name, func(t *testing.T) {
			counted(t)
			b := newDiffusionBench(t, dev, s)
			b.op.Tolerance = 0.45 * grayLevel                  // estimates may be a little short
			n := int64(len(s.Flags)) + 8*int64(len(s.Colours)) // flags and colours read, values written
			b.must(b.both(0))
			name := b.check(s.Name + ", to half a level")
			b.op.Cycles = b.cycles // TimeDevice captures them, and so does not see that they are enough
			b.timed("set-up of "+s.Name, int64(len(s.Flags)), 0, 10, b.setUp, nil)
			b.timed("solve of "+s.Name+", set-up kept", n, c.recolour, 10, b.solve, b.solve)
			b.timed("set-up and solve of "+name, n, c.both, 10, b.both, nil)
			if c.recolour > 0 {
				b.edit()
			}
		})
	}
}

// edit adds a row for changes by a user, a curve that comes and goes: from the constraints on the device to the image
// on the host.
func (b *diffusionBench) edit() {
	more := *b.scene
	more.Flags, more.Colours = slices.Clone(more.Flags), slices.Clone(more.Colours)
	for i := range more.Width / 4 {
		more.Fix(more.Width/3+i, more.Height/3+i/2, 1, 0.5, 0)
	}
	with := newDiffusionBench(b.t, b.dev, &more)
	with.op.X, with.op.Cycles, with.op.Tolerance, with.op.Start = b.op.X, b.op.Cycles, b.op.Tolerance,
		driver.DiffusionFromX
	x, unlock := pageLocked(b.t, b.dev, 4*len(more.Colours))
	defer func() { b.must(unlock()) }()
	b.must(with.both(0), with.s.Wait(b.t.Context()))
	name := with.check("curve added to " + b.scene.Name + ", to the image on the host")
	b.op.Start = driver.DiffusionFromX
	b.timed(name, int64(len(x)), 2000, 1, nil, func(i int) error {
		up, op := b.up, b.op
		if i%2 == 1 {
			up, op = with.up, with.op
		}
		return errors.Join(b.s.Run(&up), b.s.Run(&op), b.s.Download(x, op.X))
	})
}
