// The checks in front of CurveRaster and Blur.

package kernels

import (
	"cmp"
	"fmt"
	"math"

	"github.com/polyscan/polyscan/kernels/driver"
)

// CurveRaster enqueues the op after checking its arguments. See [driver.CurveRaster].
func (q *Queue) CurveRaster(op driver.CurveRaster) error {
	const name = "CurveRaster"
	if err := cmp.Or(checkSize(name, op.Width, op.Height), checkDiffusionChannels(name, op.Channels)); err != nil {
		return err
	}
	if err := checkCurves(name, &op); err != nil {
		return err
	}
	pixels := int64(op.Width) * int64(op.Height)
	if err := cmp.Or(
		exactly(name, "Flags", op.Flags, pixels),
		exactly(name, "Values", op.Values, 4*pixels*int64(op.Channels)),
		atLeast(name, "Scratch", op.Scratch, op.ScratchBytes()),
		q.checkAligned(name, "Flags", op.Flags),
		q.checkAligned(name, "Values", op.Values),
		q.checkAligned(name, "Scratch", op.Scratch),
	); err != nil {
		return err
	}
	return q.stream.CurveRaster(op)
}

func checkCurves(name string, op *driver.CurveRaster) error {
	switch {
	case len(op.Segments) > driver.MaxCurveSegments:
		return &ArgError{name, "len(Segments)", len(op.Segments),
			fmt.Sprintf("must be at most %d", driver.MaxCurveSegments)}
	case len(op.Stops) > driver.MaxCurveStops:
		return &ArgError{name, "len(Stops)", len(op.Stops), fmt.Sprintf("must be at most %d", driver.MaxCurveStops)}
	}
	for i := range op.Segments {
		s := &op.Segments[i]
		for k := range s.X {
			for _, c := range [...]struct {
				axis string
				v    int32
			}{{"X", s.X[k]}, {"Y", s.Y[k]}} {
				if c.v < -driver.MaxCurveCoord || c.v > driver.MaxCurveCoord {
					return &ArgError{name, fmt.Sprintf("Segments[%d].%s[%d]", i, c.axis, k), c.v,
						fmt.Sprintf("must be -%d to %[1]d", driver.MaxCurveCoord)}
				}
			}
		}
		if driver.MaxCurvePieces>>s.LogPieces == 0 {
			return &ArgError{name, fmt.Sprintf("Segments[%d].LogPieces", i), s.LogPieces,
				fmt.Sprintf("makes more than %d pieces", driver.MaxCurvePieces)}
		}
		if uint64(s.Curve) >= uint64(len(op.Curves)) {
			return &ArgError{name, fmt.Sprintf("Segments[%d].Curve", i), s.Curve,
				fmt.Sprintf("must be less than %d, the number of curves", len(op.Curves))}
		}
		first := s.Start == 0 && (i == 0 || s.Curve > op.Segments[i-1].Curve)
		next := i > 0 && s.Curve == op.Segments[i-1].Curve && uint64(s.Start) == uint64(op.Segments[i-1].Start)+
			driver.CurveUnit
		if !first && !next {
			return &ArgError{name, fmt.Sprintf("Segments[%d]", i), fmt.Sprintf("curve %d from %d", s.Curve, s.Start),
				"does not follow the segment before"}
		}
	}
	for i := range op.Curves {
		c := &op.Curves[i]
		if c.Barrier > 1 {
			return &ArgError{name, fmt.Sprintf("Curves[%d].Barrier", i), c.Barrier, "must be 0 or 1"}
		}
		for _, side := range [...]struct {
			name  string
			stops driver.CurveStops
		}{{"Left", c.Left}, {"Right", c.Right}} {
			first, n := uint64(side.stops.First), uint64(side.stops.Count)
			if first+n > uint64(len(op.Stops)) {
				return &ArgError{name, fmt.Sprintf("Curves[%d].%s", i, side.name), side.stops,
					fmt.Sprintf("reaches past the %d stops", len(op.Stops))}
			}
			for k := first + 1; k < first+n; k++ {
				if op.Stops[k].At < op.Stops[k-1].At {
					return &ArgError{name, fmt.Sprintf("Stops[%d].At", k), op.Stops[k].At,
						"is less than that of the stop before"}
				}
			}
		}
	}
	for i := range op.Stops {
		for c, v := range op.Stops[i].Values[:op.Channels] {
			if !(math.Abs(float64(v)) <= math.MaxFloat32) {
				return &ArgError{name, fmt.Sprintf("Stops[%d].Values[%d]", i, c), v, "must be finite"}
			}
		}
	}
	return nil
}

// Blur enqueues the op after checking its arguments. See [driver.Blur].
func (q *Queue) Blur(op driver.Blur) error {
	const name = "Blur"
	if err := cmp.Or(checkSize(name, op.Width, op.Height), checkDiffusionChannels(name, op.Channels)); err != nil {
		return err
	}
	if !(op.Scale > 0 && op.Scale <= math.MaxFloat32) {
		return &ArgError{name, "Scale", op.Scale, "must be more than 0, and finite"}
	}
	plane := 4 * int64(op.Width) * int64(op.Height)
	if err := cmp.Or(
		exactly(name, "Src", op.Src, plane*int64(op.Channels)),
		exactly(name, "Sigma", op.Sigma, plane),
		exactly(name, "Dst", op.Dst, plane*int64(op.Channels)),
		atLeast(name, "Scratch", op.Scratch, op.ScratchBytes()),
		q.checkAligned(name, "Src", op.Src),
		q.checkFloats(name, "Sigma", op.Sigma),
		q.checkAligned(name, "Dst", op.Dst),
		q.checkAligned(name, "Scratch", op.Scratch),
	); err != nil {
		return err
	}
	for _, other := range []struct {
		field string
		s     driver.Slice
	}{{"Src", op.Src}, {"Sigma", op.Sigma}, {"Scratch", op.Scratch}} {
		if overlap(op.Dst, other.s) {
			return &ArgError{name, "Dst", op.Dst.Off, "overlaps " + other.field}
		}
	}
	return q.stream.Blur(op)
}

// checkFloats checks a slice that starts at a whole float32: it may be a plane of several.
func (q *Queue) checkFloats(op, field string, s driver.Slice) error {
	if err := q.check(op, field, s); err != nil {
		return err
	}
	if s.Off%4 != 0 {
		return &ArgError{op, field + ".Off", s.Off, "must be a multiple of 4"}
	}
	return nil
}

func overlap(a, b driver.Slice) bool {
	return a.Mem == b.Mem && a.Off < b.Off+b.Len && b.Off < a.Off+a.Len
}
