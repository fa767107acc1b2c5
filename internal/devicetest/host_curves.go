// The oracle device: curves and blur.

package devicetest

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *hostStream) CurveRaster(op driver.CurveRaster) error {
	return s.enqueue("CurveRaster", func() error {
		views, err := s.dev.views(op.Flags, op.Values, op.Scratch)
		if err != nil {
			return err
		}
		n := op.Width * op.Height
		if len(views[0]) != n || len(views[1]) != 4*n*op.Channels || int64(len(views[2])) < op.ScratchBytes() {
			return fmt.Errorf("%d, %d and %d bytes for %d channels of %d pixels", len(views[0]), len(views[1]),
				len(views[2]), op.Channels, n)
		}
		p := Sketch{Width: op.Width, Height: op.Height, Channels: op.Channels, Segments: op.Segments, Curves: op.Curves,
			Stops: op.Stops,
			Flags: views[0], Values: make([]float32, n*op.Channels)}
		copy(bytesOf(p.Values), views[1])
		flags, values := p.Draw()
		copy(views[0], flags)
		copy(views[1], bytesOf(values))
		return nil
	})
}

func (s *hostStream) Blur(op driver.Blur) error {
	return s.enqueue("Blur", func() error {
		views, err := s.dev.views(op.Src, op.Dst, op.Scratch)
		if err != nil {
			return err
		}
		sigma, err := s.dev.view(op.Sigma, 4)
		if err != nil {
			return err
		}
		n := op.Width * op.Height
		if len(views[0]) != 4*n*op.Channels || len(views[1]) != len(views[0]) || len(sigma) != 4*n ||
			int64(len(views[2])) < op.ScratchBytes() {
			return fmt.Errorf("%d, %d, %d and %d bytes for %d channels of %d pixels", len(views[0]), len(sigma),
				len(views[1]), len(views[2]), op.Channels, n)
		}
		p := Focus{Width: op.Width, Height: op.Height, Channels: op.Channels, Scale: op.Scale,
			Src: make([]float32, n*op.Channels), Sigma: make([]float32, n)}
		copy(bytesOf(p.Src), views[0])
		copy(bytesOf(p.Sigma), sigma)
		out := make([]float32, 0, len(p.Src))
		for _, v := range p.Exact() {
			out = append(out, float32(v))
		}
		copy(views[1], bytesOf(out))
		return nil
	})
}
