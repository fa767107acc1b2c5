// The mirror: curves and blur.

package devicetest

import "github.com/polyscan/polyscan/kernels/driver"

func (s *mirrorStream) CurveRaster(op driver.CurveRaster) error {
	opA, opB := op, op
	opA.Flags, opB.Flags = split(op.Flags)
	opA.Values, opB.Values = split(op.Values)
	opA.Scratch, opB.Scratch = split(op.Scratch)
	err := s.both("CurveRaster", func() error {
		return s.a.CurveRaster(opA)
	}, func() error { return s.b.CurveRaster(opB) })
	if err != nil || s.err != nil {
		return err
	}
	n := op.Width * op.Height
	flagsA, flagsB := make([]byte, n), make([]byte, n)
	a, b := make([]float32, n*op.Channels), make([]float32, n*op.Channels)
	s.err = s.fetch(
		[]transfer{{flagsA, opA.Flags}, {bytesOf(a), opA.Values}},
		[]transfer{{flagsB, opB.Flags}, {bytesOf(b), opB.Values}})
	if s.err != nil {
		return nil
	}
	if d := CompareConstraints(flagsA, flagsB, a, b, op.Width); d != nil {
		s.err = d
	}
	return nil
}

// Blur lets the sides differ by rounding: one may be the oracle.
func (s *mirrorStream) Blur(op driver.Blur) error {
	opA, opB := op, op
	for _, f := range []struct{ a, b *driver.Slice }{
		{&opA.Src, &opB.Src}, {&opA.Sigma, &opB.Sigma}, {&opA.Dst, &opB.Dst}, {&opA.Scratch, &opB.Scratch},
	} {
		*f.a, *f.b = split(*f.a)
	}
	err := s.both("Blur", func() error { return s.a.Blur(opA) }, func() error { return s.b.Blur(opB) })
	if err != nil || s.err != nil {
		return err
	}
	n := op.Width * op.Height * op.Channels
	a, b := make([]float32, n), make([]float32, n)
	if s.err = s.fetch([]transfer{{bytesOf(a), opA.Dst}}, []transfer{{bytesOf(b), opB.Dst}}); s.err != nil {
		return nil
	}
	if d := CompareBlur(a, b, op.Width, BlurRounding*magnitude(a)); d != nil {
		s.err = d
	}
	return nil
}
