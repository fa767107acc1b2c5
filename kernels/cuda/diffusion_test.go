//go:build cuda

package cuda

// Diffusion beyond what the suite has: larger images, beside the CPU.

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// diffusionOn is a scene on any backend.
type diffusionOn struct {
	t  *testing.T
	s  driver.Stream
	up driver.DiffusionSetup
	op driver.DiffusionSolve
}

func newDiffusionOn(t *testing.T, dev driver.Device, s *devicetest.Scene, tolerance float32, cycles int) *diffusionOn {
	t.Helper()
	g := s.Grid()
	setup, err := dev.Scratch(&driver.DiffusionSetup{Grid: g})
	if err != nil {
		t.Fatal(err)
	}
	state, err := dev.Scratch(&driver.DiffusionSolve{Grid: g, Channels: s.Channels})
	if err != nil {
		t.Fatal(err)
	}
	d := &diffusionOn{t: t, s: newStream(t, dev)}
	planes := 4 * int64(len(s.Colours))
	d.up = driver.DiffusionSetup{Grid: g, Flags: alloc(t, dev, int64(len(s.Flags))), Dst: alloc(t, dev, setup),
		Counts: alloc(t, dev, 8)}
	d.op = driver.DiffusionSolve{
		Grid: g, Channels: s.Channels, Cycles: cycles, Tolerance: tolerance, Flags: d.up.Flags, Setup: d.up.Dst,
		Colours: alloc(t, dev, planes), X: alloc(t, dev, planes), State: alloc(t, dev, state),
		Status: alloc(t, dev, 32),
	}
	d.ok(d.s.Upload(d.up.Flags, [][]byte{s.Flags}), d.s.Upload(d.op.Colours, [][]byte{bytesOf(s.Colours)}),
		d.s.Run(&d.up), d.s.Wait(t.Context()))
	return d
}

func (d *diffusionOn) ok(errs ...error) {
	d.t.Helper()
	if err := errors.Join(errs...); err != nil {
		d.t.Fatal(err)
	}
}

// solve runs the op, and lets the next one go on.
func (d *diffusionOn) solve() ([]float32, driver.DiffusionStatus) {
	d.t.Helper()
	x, status := make([]float32, d.op.X.Len/4), make([]driver.DiffusionStatus, 1)
	d.ok(d.s.Run(&d.op), d.s.Download(bytesOf(x), d.op.X), d.s.Download(bytesOf(status), d.op.Status),
		d.s.Wait(d.t.Context()))
	d.op.Start = driver.DiffusionContinue
	return x, status[0]
}

// apart is the largest difference, and infinite where there is a NaN.
func apart(a, b []float32) (d float64) {
	for i, v := range a {
		if e := math.Abs(float64(v) - float64(b[i])); !(e <= d) {
			d = e
			if e != e {
				return math.Inf(1)
			}
		}
	}
	return d
}

// solvedByCPU is the solution to a fiftieth of a level.
func solvedByCPU(t *testing.T, s *devicetest.Scene) []float32 {
	x, status := newDiffusionOn(t, open(t, cpu.Driver), s, grayLevel/50, 60).solve()
	if status.Converged != 1 {
		t.Fatalf("%s: on the CPU: %+v", s.Name, status)
	}
	return x
}

// With barriers the estimate is never half of the error or less, cycle by cycle, and where it is at most half a level
// so is the error.
func TestDiffusionBarriers(t *testing.T) {
	counted(t)
	dev := open(t, Driver)
	sides := []int{255, 1024}
	if testing.Short() {
		sides = []int{61}
	}
	for _, side := range sides {
		for _, s := range devicetest.BarrierScenes(7, side)[:7] {
			t.Run(s.Name, func(t *testing.T) {
				counted(t)
				want := solvedByCPU(t, s)
				d := newDiffusionOn(t, dev, s, grayLevel/50, 1)
				for cycle := 0; cycle < 40; cycle++ {
					x, status := d.solve()
					off := apart(x, want)
					if off > 2*float64(status.Estimate)+2*devicetest.DiffusionRounding ||
						status.Estimate <= grayLevel/4 && off > grayLevel/2 {
						t.Errorf("cycle %d: off by %.3f/255, and says %.3f/255", cycle+1, off/grayLevel,
							status.Estimate/grayLevel)
					}
					if status.Converged == 1 {
						t.Logf("%d cycles", status.Cycles)
						return
					}
				}
				t.Error("has not converged")
			})
		}
	}
}

// Solves of several streams at a time end, though blocks of each wait for each other and there is not room for all, and
// are the same to the bit.
func TestDiffusionBarriersAtOnce(t *testing.T) {
	counted(t)
	dev := open(t, Driver)
	side, turns := 512, 20
	if testing.Short() {
		side, turns = 150, 5
	}
	s := devicetest.BarrierScenes(7, side)[0]
	var on [4]*diffusionOn
	for i := range on {
		on[i] = newDiffusionOn(t, dev, s, 1e-12, graphAhead) // so many cycles are enqueued at once
	}
	want, _ := on[0].solve()
	xs := make([][]float32, len(on))
	for range turns {
		for i, d := range on {
			xs[i] = make([]float32, len(want))
			d.op.Start = driver.DiffusionFromMean
			d.ok(d.s.Run(&d.op), d.s.Download(bytesOf(xs[i]), d.op.X))
		}
		for i, d := range on {
			d.ok(d.s.Wait(t.Context()))
			if !slices.Equal(xs[i], want) {
				t.Fatalf("stream %d has another solution", i)
			}
		}
	}
}

// Warren's methods take the same steps on both backends.
func TestDiffusionSweeps(t *testing.T) {
	counted(t)
	gpu, host := open(t, Driver), open(t, cpu.Driver)
	for _, side := range []int{50, 200} {
		if side > 50 && testing.Short() {
			break
		}
		for m := driver.DiffusionNaive; m <= driver.DiffusionVariableStencil; m++ {
			scenes := devicetest.Scenes(8, side)[:7]
			if m != driver.DiffusionVariableStencil {
				scenes = slices.Concat(scenes, devicetest.BarrierScenes(8, side)[:7], devicetest.OneWayScenes(8, side))
			}
			for _, s := range scenes {
				s.Method = m
				t.Run(m.String()+" "+s.Name, func(t *testing.T) {
					counted(t)
					a, b := newDiffusionOn(t, gpu, s, grayLevel/4, 2), newDiffusionOn(t, host, s, grayLevel/4, 2)
					for range 3 {
						x, stX := a.solve()
						y, stY := b.solve()
						if off := apart(x, y); !(off <= devicetest.DiffusionRounding) || stX.Cycles != stY.Cycles {
							t.Errorf("%.4f/255 apart: %+v and %+v", off/grayLevel, stX, stY)
						}
					}
				})
			}
		}
	}
}

// By the methods of the seed both backends take the same steps, to the bit, whichever stop there is: on images of one
// tile and of several, with rows that are a multiple of four pixels and not, with walls and without.
func TestSweepsAsOnCPU(t *testing.T) {
	counted(t)
	gpu, host := open(t, Driver), open(t, cpu.Driver)
	curves := func(w, h int) *devicetest.Scene {
		s := devicetest.NewScene(fmt.Sprintf("curves %dx%d", w, h), w, h, 2)
		s.Curves(rand.New(rand.NewPCG(1, 2)), 10, 80, 600)
		return s
	}
	scenes := []*devicetest.Scene{curves(128, 64), curves(256, 128), curves(129, 65), curves(300, 70),
		devicetest.BarrierScenes(1, 200)[0], devicetest.OneWayScenes(1, 200)[0]}
	if testing.Short() {
		scenes = scenes[:1]
	}
	for m := driver.DiffusionNaive; m <= driver.DiffusionPyramidGreedy; m++ {
		for _, s := range scenes {
			for _, threshold := range []float32{0, 0.5} {
				s.Method = m
				solve := func(dev driver.Device) ([]float32, driver.DiffusionStatus) {
					d := newDiffusionOn(t, dev, s, 1./2000, 40)
					if threshold > 0 {
						d.op.Tolerance, d.op.Threshold = 0, threshold
					}
					return d.solve()
				}
				got, status := solve(gpu)
				want, expected := solve(host)
				if !slices.Equal(got, want) || status.Cycles != expected.Cycles || status.Update != expected.Update ||
					status.Converged != expected.Converged {
					t.Errorf("%v of %s, threshold %v: off by %v, %+v; on the CPU %+v", m, s.Name, threshold, apart(got, want),
						status, expected)
				}
			}
		}
	}
}
