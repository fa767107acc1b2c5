// Filling holes of images.

package diffusion

import (
	"context"
	"fmt"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Pixels is memory for a byte or a pixel of each place of an image, rows without a gap: Resident, of the device that
// computes, where that isn't empty, and else Host. The zero value is none.
type Pixels struct {
	Host     []byte
	Resident kernels.Buffer[byte]
}

func (p *Pixels) len() int {
	if n := p.Resident.Len(); n > 0 {
		return n
	}
	return len(p.Host)
}

// check checks the length of what may be none.
func (p *Pixels) check(field string, need int) error {
	if n := p.len(); n != 0 && n != need {
		return invalid(path{field}, fmt.Sprintf("%d bytes", n), "must be %d", need)
	}
	return nil
}

// Holes is an image of which some pixels are to be replaced, and where to.
type Holes struct {
	Image kernels.Picture
	// Mask has a byte for each pixel: where it is not 0 the pixel is replaced. Pixels that are not opaque are, too. It
	// may be none.
	Mask Pixels
	// Draw, where it is not nil, makes the mask on the device, and Mask is none: it enqueues writing a byte for each
	// pixel, in row-major order. DrawBytes is how much of the job's memory it allocates, and gives back.
	Draw      func(q *kernels.Queue, mask kernels.Buffer[byte]) error
	DrawBytes int64
	// Format of the results: of as many colours as the image has, in as many bits. The zero value is that of the image.
	Format kernels.PixelFormat
	// Picture receives the image with its holes filled, and Residual what the image has over that: their difference
	// plus half of the levels, in each colour, cut to the range of the format. Alpha becomes the largest. Each may be
	// none.
	Picture, Residual Pixels
}

// Fill replaces pixels of an image, in one job on dev: each becomes the mean of its neighbours, and those of a hole's
// border have neighbours outside; then it is rounded. All others stay as they are. So the picture is a guess at the
// background of what the holes hold, and the residual is that without the background. opts may be nil, and have no
// Start. The solution has no Values.
//
// Bad input is an [*kernels.InvalidError], such as holes that cover all of the image; where the device has no room the
// error is a [*kernels.CapacityError]. Results are arbitrary where there is an error. It is exact but for what [Solve]
// leaves, and the rounding.
func Fill(ctx context.Context, dev *kernels.Device, h *Holes, opts *Options) (*Solution, error) {
	f, err := newFill(dev, h, opts)
	if err != nil {
		return nil, err
	}
	defer f.intake.Forget()
	return f.do(ctx, f.begin)
}

// fill is a Fill to come, or under way.
type fill struct {
	*solve
	h      *Holes
	format kernels.PixelFormat
	pixels int
	intake kernels.Intake
	src    driver.Image
	flags  kernels.Buffer[uint8]
}

func newFill(dev *kernels.Device, h *Holes, opts *Options) (*fill, error) {
	im := &h.Image
	if err := im.Check("image"); err != nil {
		return nil, err
	}
	f := &fill{h: h, format: h.Format, pixels: im.Width * im.Height}
	if f.format == (kernels.PixelFormat{}) {
		f.format = im.Format
	}
	if g := im.Format; !f.format.Valid() || f.format.Colours() != g.Colours() ||
		f.format.SampleBytes != g.SampleBytes || f.format.Bits != g.Bits {
		return nil, invalid(path{"format"}, f.format, "must have the colours and bits of %v, the format of the image",
			g)
	}
	if err := h.Mask.check("mask", f.pixels); err != nil {
		return nil, err
	}
	if h.Draw != nil && h.Mask.len() > 0 {
		return nil, invalid(path{"mask"}, fmt.Sprintf("%d bytes", h.Mask.len()), "must be none where it is drawn")
	}
	if opts != nil && opts.Start != nil {
		return nil, invalid(path{"start"}, fmt.Sprintf("%d values", len(opts.Start)),
			"must be none: the image is all there is")
	}
	size := f.pixels * f.format.PixelBytes()
	for _, x := range []struct {
		field string
		to    *Pixels
	}{{"picture", &h.Picture}, {"residual", &h.Residual}} {
		if err := x.to.check(x.field, size); err != nil {
			return nil, err
		}
	}
	g, err := gridOf(im.Width, im.Height, opts.method(), false, false)
	if err != nil {
		return nil, err
	}
	if f.solve, err = newSolveOf(dev, g, im.Format.Colours(), opts); err != nil {
		return nil, err
	}
	f.finish = f.pack
	f.label("fill")
	f.intake.Take(im, 0, im.Height)
	f.job.Footprint += kernels.Bytes[uint8](f.pixels) + f.setupFootprint()
	f.job.Held = kernels.Held(im.Resident, h.Mask.Resident, h.Picture.Resident, h.Residual.Resident)
	for _, to := range []*Pixels{&h.Picture, &h.Residual} {
		if to.Resident.Len() == 0 && (to == &h.Picture || len(to.Host) > 0) { // the op always writes a picture
			f.job.Footprint += kernels.Bytes[byte](size)
		}
	}
	// What drawing takes is free again before any of that is allocated, and the image and the mask lie in front of it.
	f.job.Footprint = max(f.job.Footprint, h.DrawBytes)
	f.job.Footprint += f.intake.Footprint() + kernels.Bytes[byte](f.maskBytes())
	return f, nil
}

// maskBytes is how much of the job's memory the mask takes.
func (f *fill) maskBytes() int {
	switch {
	case f.h.Draw != nil:
		return f.pixels
	case f.h.Mask.Resident.Len() > 0:
		return 0
	}
	return len(f.h.Mask.Host)
}

// begin brings the image and the mask to the device, or draws it there, and unpacks them.
func (f *fill) begin(q *kernels.Queue) (in given, err error) {
	if f.src, err = f.intake.Run(q); err != nil {
		return in, err
	}
	mask := f.h.Mask.Resident
	if n := f.maskBytes(); n > 0 {
		if mask, err = kernels.Alloc[byte](q, n, "mask"); err != nil {
			return in, err
		}
		if f.h.Draw != nil {
			err = f.h.Draw(q, mask)
		} else {
			err = upload(q, mask, f.h.Mask.Host)
		}
		if err != nil {
			return in, err
		}
	}
	if in.flags, err = kernels.Alloc[uint8](q, f.pixels, "flags"); err != nil {
		return in, err
	}
	if in.values, err = kernels.Alloc[float32](q, f.channels*f.pixels, "values"); err != nil {
		return in, err
	}
	f.flags = in.flags
	if err = q.Run(&driver.Unpack{Src: f.src, Mask: mask.Slice(), Flags: in.flags.Slice(),
		Planes: in.values.Slice()}); err != nil {
		return in, err
	}
	if err = q.Yield(); err != nil {
		return in, err
	}
	if err = f.setUp(q, &in); err == nil {
		err = f.intake.Err("image")
	}
	if err == nil && f.counts.Fixed == 0 {
		err = invalid(path{"mask"}, "all pixels",
			"must leave out at least one that is opaque, or there is nothing to fill with")
	}
	return in, err
}

// pack writes the results. It leaves no values to download.
func (f *fill) pack(q *kernels.Queue, x kernels.Buffer[float32]) (kernels.Buffer[float32], error) {
	im := &f.h.Image
	row := im.Width * f.format.PixelBytes()
	op := driver.Pack{Planes: x.Slice(), Flags: f.flags.Slice(), Src: f.src}
	results := []struct {
		to   *Pixels
		im   *driver.Image
		wait kernels.Buffer[byte] // to be downloaded
	}{{to: &f.h.Picture, im: &op.Dst}, {to: &f.h.Residual, im: &op.Residual}}
	for i := range results {
		r := &results[i]
		if r.to.len() == 0 && i > 0 {
			continue
		}
		at := r.to.Resident
		if at.Len() == 0 {
			var err error
			if at, err = kernels.Alloc[byte](q, row*im.Height, "result"); err != nil {
				return x, err
			}
			if r.to.len() > 0 {
				r.wait = at
			}
		}
		*r.im = driver.Image{Data: at.Slice(), Width: im.Width, Height: im.Height, Stride: row, Format: f.format}
	}
	if err := q.Run(&op); err != nil {
		return x, err
	}
	if err := q.Yield(); err != nil {
		return x, err
	}
	for _, r := range results {
		if r.wait.Len() > 0 {
			if err := download(q, r.to.Host, r.wait); err != nil {
				return x, err
			}
		}
	}
	return x.Range(0, 0), nil
}
