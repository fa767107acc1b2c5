// The host driver and Mirror: images to planes and back.

package devicetest

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *hostStream) picture(im driver.Image) (*Picture, error) {
	b, err := s.dev.view(im.Data, int64(im.Format.SampleBytes))
	return &Picture{Width: im.Width, Height: im.Height, Stride: im.Stride, Format: im.Format, Pixels: b}, err
}

func (s *hostStream) Unpack(op driver.Unpack) error {
	return s.enqueue("Unpack", func() error {
		p, err := s.picture(op.Src)
		if err != nil {
			return err
		}
		var mask []byte
		if op.Mask.Len > 0 {
			if mask, err = s.dev.view(op.Mask, 1); err != nil {
				return err
			}
		}
		to, err := s.dev.view(op.Flags, 1)
		if err != nil {
			return err
		}
		out, err := s.dev.view(op.Planes, driver.Align)
		if err != nil {
			return err
		}
		flags, planes := p.Unpack(mask)
		if b := bytesOf(planes); len(to) != copy(to, flags) || len(to) != len(flags) || len(out) != copy(out, b) ||
			len(out) != len(b) {
			return fmt.Errorf("%d and %d bytes for %dx%d pixels", len(to), len(out), p.Width, p.Height)
		}
		return nil
	})
}

func (s *hostStream) Pack(op driver.Pack) error {
	return s.enqueue("Pack", func() error {
		dst, err := s.picture(op.Dst)
		if err != nil {
			return err
		}
		from, err := s.dev.view(op.Planes, driver.Align)
		if err != nil {
			return err
		}
		planes := make([]float32, dst.Width*dst.Height*dst.Format.Colours())
		if len(from) != len(bytesOf(planes)) {
			return fmt.Errorf("%d bytes of planes for %dx%d pixels", len(from), dst.Width, dst.Height)
		}
		copy(bytesOf(planes), from)
		// The oracle has all images in the format of Src; without one, Dst's serves as well.
		src := dst
		var flags []byte
		if op.Flags.Len > 0 {
			if flags, err = s.dev.view(op.Flags, 1); err != nil {
				return err
			}
		}
		if op.Flags.Len > 0 || op.Residual.Data.Len > 0 {
			if src, err = s.picture(op.Src); err != nil {
				return err
			}
		}
		a, b := src.Pack(planes, flags)
		a.copyTo(dst)
		if op.Residual.Data.Len > 0 {
			residual, err := s.picture(op.Residual)
			if err != nil {
				return err
			}
			b.copyTo(residual)
		}
		return nil
	})
}

// copyTo writes the pixels of p in the format of q. What q has of alpha becomes the largest.
func (p *Picture) copyTo(q *Picture) {
	for i := range q.Width * q.Height {
		x, y := i%q.Width, i/q.Width
		for c := range q.Format.Colours() {
			q.set(x, y, c, p.sample(x, y, c))
		}
		if q.Format.HasAlpha() {
			q.set(x, y, int(q.Format.Channels)-1, 255)
		}
	}
}

func (s *mirrorStream) Unpack(op driver.Unpack) error {
	opA, opB := op, op
	for _, f := range []struct{ a, b *driver.Slice }{
		{&opA.Src.Data, &opB.Src.Data}, {&opA.Mask, &opB.Mask}, {&opA.Flags, &opB.Flags}, {&opA.Planes, &opB.Planes},
	} {
		*f.a, *f.b = split(*f.a)
	}
	err := s.both("Unpack", func() error { return s.a.Unpack(opA) }, func() error { return s.b.Unpack(opB) })
	if err != nil || s.err != nil {
		return err
	}
	n := op.Src.Width * op.Src.Height
	flagsA, flagsB := make([]byte, n), make([]byte, n)
	planesA, planesB := make([]float32, n*op.Src.Format.Colours()), make([]float32, n*op.Src.Format.Colours())
	s.err = s.fetch(
		[]transfer{{flagsA, opA.Flags}, {bytesOf(planesA), opA.Planes}},
		[]transfer{{flagsB, opB.Flags}, {bytesOf(planesB), opB.Planes}})
	if s.err != nil {
		return nil
	}
	if d := CompareUnpacked(flagsA, flagsB, planesA, planesB, op.Src.Width); d != nil {
		s.err = d
	}
	return nil
}

func (s *mirrorStream) Pack(op driver.Pack) error {
	opA, opB := op, op
	for _, f := range []struct{ a, b *driver.Slice }{
		{&opA.Planes, &opB.Planes}, {&opA.Flags, &opB.Flags}, {&opA.Src.Data, &opB.Src.Data},
		{&opA.Dst.Data, &opB.Dst.Data}, {&opA.Residual.Data, &opB.Residual.Data},
	} {
		*f.a, *f.b = split(*f.a)
	}
	err := s.both("Pack", func() error { return s.a.Pack(opA) }, func() error { return s.b.Pack(opB) })
	for _, im := range [][2]driver.Image{{opA.Dst, opB.Dst}, {opA.Residual, opB.Residual}} {
		if err != nil || s.err != nil {
			return err
		}
		if im[0].Data.Len == 0 {
			continue
		}
		a, b := make([]byte, im[0].Data.Len), make([]byte, im[1].Data.Len)
		if s.err = s.fetch([]transfer{{a, im[0].Data}}, []transfer{{b, im[1].Data}}); s.err != nil {
			return nil
		}
		if d := ComparePainted("Pack", a, b, &Picture{Stride: im[0].Stride, Format: im[0].Format}); d != nil {
			s.err = d
		}
	}
	return nil
}
