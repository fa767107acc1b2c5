// The mirror: diffusion.

package devicetest

import (
	"math"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (d *mirrorDevice) DiffusionSetupBytes(g driver.DiffusionGrid) (int64, error) {
	a, err := d.a.DiffusionSetupBytes(g)
	if err != nil {
		return 0, err
	}
	b, err := d.b.DiffusionSetupBytes(g)
	return max(a, b), err
}

func (d *mirrorDevice) DiffusionStateBytes(g driver.DiffusionGrid, channels int) (int64, error) {
	a, err := d.a.DiffusionStateBytes(g, channels)
	if err != nil {
		return 0, err
	}
	b, err := d.b.DiffusionStateBytes(g, channels)
	return max(a, b), err
}

func (s *mirrorStream) DiffusionSetup(op driver.DiffusionSetup) error {
	opA, opB := op, op
	opA.Flags, opB.Flags = split(op.Flags)
	opA.Dst, opB.Dst = split(op.Dst)
	opA.Counts, opB.Counts = split(op.Counts)
	err := s.both("DiffusionSetup", func() error {
		return s.a.DiffusionSetup(opA)
	}, func() error { return s.b.DiffusionSetup(opB) })
	if err != nil || s.err != nil {
		return err
	}
	var a, b [1]driver.DiffusionCounts
	if s.err = s.fetch([]transfer{{bytesOf(a[:]), opA.Counts}}, []transfer{{bytesOf(b[:]), opB.Counts}}); s.err != nil {
		return nil
	}
	if d := CompareCounts(a[0], b[0]); d != nil {
		s.err = d
	}
	return nil
}

// DiffusionSolve lets sides that have converged differ by what their estimates allow, twice, and by
// [DiffusionRounding]. Others need only have numbers: each gets there its own way.
func (s *mirrorStream) DiffusionSolve(op driver.DiffusionSolve) error {
	opA, opB := op, op
	for _, x := range []struct{ of, a, b *driver.Slice }{
		{&op.Flags, &opA.Flags, &opB.Flags}, {&op.Setup, &opA.Setup, &opB.Setup},
		{&op.Colours, &opA.Colours, &opB.Colours},
		{&op.X, &opA.X, &opB.X}, {&op.State, &opA.State, &opB.State}, {&op.Status, &opA.Status, &opB.Status},
	} {
		*x.a, *x.b = split(*x.of)
	}
	err := s.both("DiffusionSolve", func() error {
		return s.a.DiffusionSolve(opA)
	}, func() error { return s.b.DiffusionSolve(opB) })
	if err != nil || s.err != nil {
		return err
	}
	n := op.Channels * op.Grid.Width * op.Grid.Height
	a, b := make([]float32, n), make([]float32, n)
	var statusA, statusB [1]driver.DiffusionStatus
	if s.err = s.fetch([]transfer{{bytesOf(a), opA.X}, {bytesOf(statusA[:]), opA.Status}},
		[]transfer{{bytesOf(b), opB.X}, {bytesOf(statusB[:]), opB.Status}}); s.err != nil {
		return nil
	}
	allowed := 2*float64(statusA[0].Estimate) + 2*float64(statusB[0].Estimate) + DiffusionRounding*magnitude(a)
	if statusA[0].Converged&statusB[0].Converged == 0 {
		allowed = math.MaxFloat32
	}
	if d := CompareDiffusion(a, b, op.Grid.Width, allowed); d != nil {
		s.err = d
	}
	return nil
}
