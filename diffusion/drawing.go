// Drawings: curves become constraints, constraints a picture, and the picture is blurred.

package diffusion

import (
	"context"
	"fmt"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// SolveDrawing draws the curves, solves, and blurs the picture where curves ask for it, in one job on dev. See [Solve];
// the solution has the drawing's channels. opts.Start, where there is one, is of a picture before it was blurred, with
// one more plane, of deviations divided by [MaxBlur], where curves are blurred.
func SolveDrawing(ctx context.Context, dev *kernels.Device, d *Drawing, opts *Options) (*Solution, error) {
	w, err := newWork(dev, d)
	if err != nil {
		return nil, err
	}
	s, err := newSolveOf(dev, w.grid, w.channels, opts)
	if err != nil {
		return nil, err
	}
	s.job.Footprint += w.footprint() + s.setupFootprint()
	if w.blurred {
		s.job.Label += ", blurred"
		s.job.Footprint += w.blurFootprint()
		s.finish = w.blur
	}
	return s.do(ctx, func(q *kernels.Queue) (in given, err error) {
		if in, err = w.raster(q); err != nil {
			return in, err
		}
		if err = s.setUp(q, &in); err == nil && s.counts.Fixed == 0 {
			err = errNothingDrawn(d)
		}
		return in, err
	})
}

func errNothingDrawn(d *Drawing) error {
	return invalid(path{"curves"}, fmt.Sprintf("%d of them", len(d.Curves)),
		"fix no pixel of the canvas: nothing is known of the image")
}

// Rasterize draws the curves, in one job on dev, and returns the constraints that they make. Where a curve is blurred
// there is one more channel than the drawing has: deviations divided by [MaxBlur], for [Blur] once the problem is
// solved.
func Rasterize(ctx context.Context, dev *kernels.Device, d *Drawing) (*Problem, error) {
	w, err := newWork(dev, d)
	if err != nil {
		return nil, err
	}
	n := d.Width * d.Height
	p := &Problem{Constraints{d.Width, d.Height, make([]uint8, n), d.Method}, w.channels, make([]float32, w.channels*n)}
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

// Planes are values of all pixels, in planes.
type Planes struct {
	Width, Height, Channels int
	Values                  []float32 // planes
}

// Blur blurs a picture whose last channel is deviations divided by [MaxBlur], in one job on dev, and returns the
// others. See [driver.Blur] for the kernel.
func Blur(ctx context.Context, dev *kernels.Device, p *Planes) (*Planes, error) {
	if err := kernels.CheckSize(p.Width, p.Height); err != nil {
		return nil, err
	}
	switch {
	case p.Channels < 2 || p.Channels > MaxChannels:
		return nil, invalid(path{"channels"}, p.Channels, "must be 2 to %d, deviations included", MaxChannels)
	case len(p.Values) != p.Channels*p.Width*p.Height:
		return nil, invalid(path{"values"}, fmt.Sprintf("%d values", len(p.Values)), "must be %d, in %d planes of %dx%d",
			p.Channels*p.Width*p.Height, p.Channels, p.Width, p.Height)
	}
	for i, v := range p.Values {
		if !usable(v) {
			return nil, unusable(path{"values", i}, v)
		}
	}
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

// work is a drawing that was checked.
type work struct {
	*strokes
	width, height int
	grid          driver.DiffusionGrid
	flags         []uint8   // under the curves, or nil
	values        []float32 // in planes of the drawing's channels
}

func newWork(dev *kernels.Device, d *Drawing) (*work, error) {
	w, all, err := d.check()
	if err == nil && len(d.Curves) == 0 && all&Fixed == 0 {
		err = errNothingDrawn(d)
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// check returns the work, and all flags that there are under the curves.
func (d *Drawing) check() (_ *work, all uint8, _ error) {
	if err := kernels.CheckSize(d.Width, d.Height); err != nil {
		return nil, 0, err
	}
	s, err := d.strokes()
	if err != nil {
		return nil, 0, err
	}
	w := &work{strokes: s, width: d.Width, height: d.Height, flags: d.Flags, values: d.Values}
	if d.Flags == nil && d.Values != nil {
		return nil, 0, invalid(path{"values"}, fmt.Sprintf("%d values", len(d.Values)),
			"must be none where there are no flags")
	}
	if d.Flags != nil {
		c := Constraints{d.Width, d.Height, d.Flags, d.Method}
		if all, err = c.checkFlags(); err != nil {
			return nil, 0, err
		}
		if err := c.checkValues(d.Channels, d.Values); err != nil {
			return nil, 0, err
		}
	}
	w.barriers = w.barriers || all&driver.DiffusionBlocks != 0
	w.grid, err = gridOf(d.Width, d.Height, d.Method, w.barriers, all&driver.DiffusionShuts != 0)
	return w, all, err
}

func (w *work) rasterOp() driver.CurveRaster {
	return driver.CurveRaster{
		Segments: w.segments, Curves: w.curves, Stops: w.stops, Width: w.width, Height: w.height, Channels: w.channels,
	}
}

// footprint is what raster takes, but for the values.
func (w *work) footprint() int64 {
	op := w.rasterOp()
	return kernels.Bytes[uint8](w.width*w.height) + kernels.Bytes[byte](int(op.ScratchBytes()))
}

// raster puts the constraints into device memory, and yields.
func (w *work) raster(q *kernels.Queue) (in given, err error) {
	n := w.width * w.height
	if in.flags, err = kernels.Alloc[uint8](q, n, "flags"); err != nil {
		return in, err
	}
	if in.values, err = kernels.Alloc[float32](q, w.channels*n, "values"); err != nil {
		return in, err
	}
	if w.flags == nil {
		err = kernels.Fill(q, in.flags, 0)
	} else {
		err = upload(q, in.flags, w.flags)
	}
	if err != nil {
		return in, err
	}
	if err := upload(q, in.values.Range(0, len(w.values)), w.values); err != nil {
		return in, err
	}
	// Elsewhere nobody looks at values, but for those who download them; and what is given under the curves is sharp.
	if rest := in.values.Range(len(w.values), w.channels*n); rest.Len() > 0 {
		if err := kernels.Fill(q, rest, 0); err != nil {
			return in, err
		}
	}
	op := w.rasterOp()
	scratch, err := kernels.Alloc[byte](q, int(op.ScratchBytes()), "curves")
	if err != nil {
		return in, err
	}
	op.Flags, op.Values, op.Scratch = in.flags.Slice(), in.values.Slice(), scratch.Slice()
	if err := q.CurveRaster(op); err != nil {
		return in, err
	}
	if err := q.Yield(); err != nil {
		return in, err
	}
	return in, kernels.Free(q, scratch)
}

func (w *work) blurOp() driver.Blur {
	return driver.Blur{Width: w.width, Height: w.height, Channels: w.channels - 1, Scale: MaxBlur}
}

// blurFootprint is what blur takes.
func (w *work) blurFootprint() int64 {
	op := w.blurOp()
	return kernels.Bytes[float32](w.width*w.height*op.Channels) + kernels.Bytes[byte](int(op.ScratchBytes()))
}

// blur blurs a solution by its last channel, and returns the others.
func (w *work) blur(q *kernels.Queue, x kernels.Buffer[float32]) (kernels.Buffer[float32], error) {
	n, op := w.width*w.height, w.blurOp()
	sharp := x.Range(0, n*op.Channels)
	out, err := kernels.Alloc[float32](q, sharp.Len(), "blurred")
	if err != nil {
		return out, err
	}
	scratch, err := kernels.Alloc[byte](q, int(op.ScratchBytes()), "pyramid")
	if err != nil {
		return out, err
	}
	op.Src, op.Sigma, op.Dst, op.Scratch = sharp.Slice(), x.Range(sharp.Len(), x.Len()).Slice(), out.Slice(),
		scratch.Slice()
	if err := q.Blur(op); err != nil {
		return out, err
	}
	if err := q.Yield(); err != nil {
		return out, err
	}
	return out, kernels.Free(q, scratch)
}
