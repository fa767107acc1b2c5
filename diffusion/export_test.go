package diffusion

import (
	"context"

	"github.com/polyscan/polyscan/kernels"
)

// DefaultTolerance and MaxBlur are what the package documents as numbers.
const (
	DefaultTolerance = defaultTolerance
	MaxBlur          = maxBlur
)

// Rasterize draws the curves, in one job on dev, and returns the constraints that they make. Where a curve is blurred
// there is one more channel than the drawing has: deviations divided by maxBlur, for Blur once the problem is
// solved.
func Rasterize(ctx context.Context, dev *kernels.Device, d *Drawing) (*Problem, error) {
	w, err := newWork(d, Multigrid)
	if err != nil {
		return nil, err
	}
	n := d.Width * d.Height
	p := &Problem{Width: d.Width, Height: d.Height, Flags: make([]uint8, n), Channels: w.channels,
		Values: make([]float32, w.channels*n)}
	job := kernels.Job{Label: "draw curves", Footprint: w.footprint() + kernels.Bytes[float32](len(p.Values)),
		Units: int64(n)}
	err = dev.Do(ctx, job, func(q *kernels.Queue) error {
		in, err := w.raster(q)
		if err != nil {
			return err
		}
		if err := download(q, p.Flags, in.flags); err != nil {
			return err
		}
		return download(q, p.Values, in.values)
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Blur blurs a picture whose last channel is deviations divided by maxBlur, in one job on dev, and returns the
// others. See [driver.Blur] for the kernel.
func Blur(ctx context.Context, dev *kernels.Device, p *Planes) (*Planes, error) {
	w := &work{width: p.Width, height: p.Height, strokes: &strokes{channels: p.Channels, blurred: true}}
	out := &Planes{Width: p.Width, Height: p.Height, Channels: p.Channels - 1}
	out.Values = make([]float32, out.Channels*p.Width*p.Height)
	job := kernels.Job{Label: "blur", Footprint: w.blurFootprint() + kernels.Bytes[float32](len(p.Values)),
		Units: int64(len(p.Values))}
	err := dev.Do(ctx, job, func(q *kernels.Queue) error {
		x, err := kernels.Alloc[float32](q, len(p.Values), "picture")
		if err != nil {
			return err
		}
		if err := upload(q, x, p.Values); err != nil {
			return err
		}
		sharp, err := w.blur(q, x)
		if err != nil {
			return err
		}
		return download(q, out.Values, sharp)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
