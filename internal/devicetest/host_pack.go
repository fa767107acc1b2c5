// The oracle as a driver: images to planes and back.

package devicetest

import (
	"github.com/polyscan/polyscan/kernels/driver"
)

func init() {
	oracle(hostUnpack)
	oracle(hostPack)
}

func hostUnpack(op *driver.Unpack) error {
	flags, planes := pictureOf(op.Src, view(op.Src.Data)).Unpack(view(op.Mask))
	store(op.Flags, flags...)
	store(op.Planes, planes...)
	return nil
}

func hostPack(op *driver.Pack) error {
	// The oracle has all images in the format of Src; without one, Dst's serves as well.
	dst := pictureOf(op.Dst, view(op.Dst.Data))
	src := dst
	if op.TakesSrc() {
		src = pictureOf(op.Src, view(op.Src.Data))
	}
	a, b := src.Pack(values[float32](op.Planes), view(op.Flags))
	a.copyTo(dst)
	if op.Residual.Data.Len > 0 {
		b.copyTo(pictureOf(op.Residual, view(op.Residual.Data)))
	}
	return nil
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
