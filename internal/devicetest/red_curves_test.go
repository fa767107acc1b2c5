package devicetest

import (
	"context"
	"errors"

	"github.com/polyscan/polyscan/kernels/driver"
)

func curveMistakes() []mistake {
	return []mistake{
		{part: "curves", name: "a pixel is fixed that no curve claims", says: "flags of pixel",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.CurveRaster) error {
					one := op.Flags
					one.Off, one.Len = one.Off+one.Len-1, 1
					return errors.Join(s.Stream.Run(op), s.Stream.Run(&driver.Fill{Dst: one, Value: driver.DiffusionFixed}))
				})
			})},
		{part: "curves", name: "the sides are exchanged", says: "bits of the value",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.CurveRaster) error {
					curves := make([]driver.Curve, len(op.Curves))
					for i, c := range op.Curves {
						curves[i] = driver.Curve{Left: c.Right, Right: c.Left, Barrier: c.Barrier}
					}
					op.Curves = curves
					return s.Stream.Run(op)
				})
			})},
		{part: "curves", name: "the first of several curves wins", says: "bits of the value",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.CurveRaster) error {
					first := *op
					first.Segments = op.Segments[:min(1, len(op.Segments))]
					return errors.Join(s.Stream.Run(op), s.Stream.Run(&first))
				})
			})},
		{part: "curves", name: "nothing is blocked", says: "flags of pixel", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.CurveRaster) error {
				curves := make([]driver.Curve, len(op.Curves))
				for i, c := range op.Curves {
					curves[i] = driver.Curve{Left: c.Left, Right: c.Right}
				}
				op.Curves = curves
				return s.Stream.Run(op)
			})
		})},
		{part: "curves", name: "it clears what was there", says: "differ", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.CurveRaster) error {
				return errors.Join(s.Stream.Run(&driver.Fill{Dst: op.Values, Value: 0}), s.Stream.Run(op))
			})
		})},
		{part: "blur", name: "a value is a thousandth off", says: "values differ", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Blur) error {
				v := make([]float32, op.Channels*op.Width*op.Height)
				err := errors.Join(s.Stream.Run(op), s.Stream.Download(bytesOf(v), op.Dst),
					s.Stream.Wait(context.Background()))
				if err != nil {
					return err
				}
				v[len(v)/2] += 0.001
				return errors.Join(s.Stream.Upload(op.Dst, [][]byte{bytesOf(v)}), s.Stream.Wait(context.Background()))
			})
		})},
		{part: "blur", name: "all is a little sharper", says: "values differ", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.Blur) error {
				op.Scale *= 0.999
				return s.Stream.Run(op)
			})
		})},
	}
}
