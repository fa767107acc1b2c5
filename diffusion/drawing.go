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
// one more plane, of deviations divided by 100 px, where curves are blurred.
func SolveDrawing(ctx context.Context, dev *kernels.Device, d *Drawing, opts *Options) (*Solution, error) {
	w, err := newWork(d, opts.method())
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

// work is a drawing that was checked.
type work struct {
	*strokes
	width, height int
	grid          driver.DiffusionGrid
	flags         []uint8   // under the curves, or nil
	values        []float32 // in planes of the drawing's channels
}

func newWork(d *Drawing, m Method) (*work, error) {
	w, all, err := d.check(m)
	if err == nil && len(d.Curves) == 0 && all&Fixed == 0 {
		err = errNothingDrawn(d)
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// check returns the work, and all flags that there are under the curves.
func (d *Drawing) check(m Method) (_ *work, all uint8, _ error) {
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
		p := Problem{Width: d.Width, Height: d.Height, Flags: d.Flags, Channels: d.Channels, Values: d.Values}
		if all, err = p.checkFlags(); err != nil {
			return nil, 0, err
		}
		if err := p.checkValues(); err != nil {
			return nil, 0, err
		}
	}
	w.barriers = w.barriers || all&driver.DiffusionBlocks != 0
	w.grid, err = gridOf(d.Width, d.Height, m, w.barriers, all&driver.DiffusionShuts != 0)
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
	if err := q.Run(&op); err != nil {
		return in, err
	}
	if err := q.Yield(); err != nil {
		return in, err
	}
	return in, kernels.Free(q, scratch)
}

func (w *work) blurOp() driver.Blur {
	return driver.Blur{Width: w.width, Height: w.height, Channels: w.channels - 1, Scale: maxBlur}
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
	if err := q.Run(&op); err != nil {
		return out, err
	}
	if err := q.Yield(); err != nil {
		return out, err
	}
	return out, kernels.Free(q, scratch)
}
