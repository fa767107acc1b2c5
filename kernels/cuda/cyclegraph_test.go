//go:build cuda

package cuda

// Cycles as graphs: the same results as without, and what goes wrong when they are made.

import (
	"errors"
	"slices"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Each solver's cycles become a graph that takes the same steps, to the bit.
func TestCycleGraphs(t *testing.T) {
	counted(t)
	naive, far, walls := *devicetest.Scenes(3, 70)[0], *devicetest.Scenes(3, 70)[0], devicetest.BarrierScenes(3, 70)[0]
	naive.Method, far.Method = driver.DiffusionNaive, driver.DiffusionVariableStencil
	for _, scene := range []*devicetest.Scene{devicetest.Scenes(3, 300)[0], walls, &naive, &far} {
		t.Run(scene.Method.String()+" "+scene.Name, func(t *testing.T) {
			counted(t)
			dev := open(t, Driver).(*device)
			d := newDiffusionOn(t, dev, scene, 1e-12, 2)
			s := d.s.(*stream)
			var first []float32
			for i := range 4 {
				d.op.Start = driver.DiffusionFromMean
				x, status := d.solve()
				if first == nil {
					first = x
				}
				if len(s.cycles.known) != 1 || s.cycles.known[0].made != (2*(i+1) >= cycleGraphAfter) {
					t.Errorf("solve %d: %d cycles are known, the first of which was used %d times", i+1,
						len(s.cycles.known), s.cycles.known[0].uses)
				}
				if status.Cycles != 2 || !slices.Equal(x, first) {
					t.Errorf("solve %d differs from the first: %+v", i+1, status)
				}
			}
			dev.graphless.Store(true)
			d.op.Start = driver.DiffusionFromMean
			if x, _ := d.solve(); !slices.Equal(x, first) {
				t.Error("without a graph it is another solution")
			}
			dev.graphless.Store(false)
			d.ok(s.Run(&driver.Fill{Dst: d.op.Setup, Value: 0}))
			d.op.Start = driver.DiffusionFromMean
			if err := errors.Join(s.Run(&d.op), s.Wait(t.Context())); err == nil {
				t.Error("a graph finds no fault with a set-up of zeros")
			}
		})
	}
}

// A stream keeps some graphs, and destroys others when they have ended.
func TestCycleGraphsKept(t *testing.T) {
	counted(t)
	s := newStream(t, open(t, Driver)).(*stream)
	for i := range cycleGraphsKept + 2 {
		for range cycleGraphAfter + 1 {
			if err := s.enqueue(0, task{name: "Test", call: func() error {
				return s.cycle(func() error { return s.clearNothing(clearThreads, uint64(i)) })
			}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(s.cycles.known) != cycleGraphsKept || len(s.cycles.retired) != 2 || s.dev.graphless.Load() {
		t.Errorf("%d are known and %d retired", len(s.cycles.known), len(s.cycles.retired))
	}
	if err := s.Wait(t.Context()); err != nil || len(s.cycles.retired) != 0 {
		t.Errorf("%d are retired after a wait: %v", len(s.cycles.retired), err)
	}
}

// clearNothing launches a kernel that has nothing to do.
func (s *stream) clearNothing(threads int, stats uint64) error {
	args := reduceClearParams{Stats: stats}
	return reduceClear.launch(s, 1, 1, threads, 0, &args)
}

// Where a cycle can't be made a graph, the device does without, and the stream goes on; where it can't be launched, the
// op fails.
func TestCycleGraphFailures(t *testing.T) {
	counted(t)
	dev := open(t, Driver).(*device)
	scene := devicetest.Scenes(3, 70)[0]
	d := newDiffusionOn(t, dev, scene, 1e-12, 4)
	s := d.s.(*stream)
	want, _ := d.solve()
	const tooMany = 4096 // threads
	d.ok(s.enqueue(0, task{name: "Test", call: func() error {
		return s.cycle(func() error { return s.clearNothing(tooMany, 0) })
	}}))
	if err := s.Wait(t.Context()); err == nil || dev.graphless.Load() {
		t.Errorf("a cycle that can't be launched: %v", err)
	}
	d.ok(s.enqueue(0, task{name: "Test", call: func() error {
		err := s.cycles.recordAll(func() error { return s.clearNothing(tooMany, 0) })
		return errors.Join(err, s.makeGraph(new(cycleGraph)))
	}}), s.Wait(t.Context()))
	if !dev.graphless.Load() {
		t.Error("a graph was made of a launch that is not valid")
	}
	for range 3 {
		d.op.Start = driver.DiffusionFromMean
		if x, _ := d.solve(); !slices.Equal(x, want) {
			t.Error("another solution after it")
		}
	}
	d.ok(s.Close())
	if len(s.cycles.known) != 0 {
		t.Error("a closed stream keeps graphs")
	}
}
