// Video: frames one after another, with what one leaves for the next.

package lowpoly

import (
	"context"
	"slices"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Video converts the frames of a video. By Options.Strength vertices stay where they were, and by Options.Hold
// triangles keep their colours, as long as the picture underneath stays the same up to noise. No colour is more than
// Hold from the frame's own, so what has gone leaves no ghost. Where the colours of more than half of the pixels jump,
// which is a cut, and where size or format change, the frame is converted as the first one is: as by [Convert].
//
// It keeps two pictures on the device, as state of a session, and what the host needs, and uses all of it again for the
// next frame. Close it after use. A Video belongs to one goroutine at a time.
type Video struct {
	dev  *kernels.Device
	opt  Options
	work conversion
	film film

	previous []driver.Point
}

// NewVideo returns a video on dev, with options for all its frames; Options.Previous is that of the first one.
func NewVideo(dev *kernels.Device, opt Options) *Video {
	v := &Video{dev: dev, opt: opt, previous: slices.Clone(opt.Previous)}
	v.opt.Previous = nil // may be much more than later frames have, and isn't looked at again
	return v
}

// Convert converts the next frame into p, whose memory is used again where it is large enough. Where it fails, p is of
// no use, and the next frame follows the one before; or it is as the first one, where the one that failed had another
// size or format. Errors are those of [Convert].
func (v *Video) Convert(ctx context.Context, im kernels.Picture, p *Result) error {
	if err := im.Check("image"); err != nil {
		return err
	}
	opt := v.opt
	opt.Previous = v.previous
	rule, n, err := opt.rule(im.Width, im.Height)
	if err != nil {
		return err
	}
	kept := v.opt.Strength > 0 || v.opt.Hold > 0
	if next := (shape{im.Width, im.Height, im.Format}); next != v.film.shape {
		if v.film.shape != (shape{}) {
			opt.Previous, v.previous = nil, v.previous[:0] // for the next frame as well, should this one fail
		}
		v.film.free()
		if kept {
			if err := v.film.alloc(v.dev, next); err != nil {
				return err
			}
		}
	}
	c := &v.work
	edges, colors := c.edges, c.colors
	*c = conversion{Picture: im, opt: opt, rule: rule, n: n, out: p, edges: edges, colors: colors}
	if kept {
		c.video = &v.film
	}
	err = c.do(ctx, v.dev)
	c.Picture = kernels.Picture{} // its pixels are the caller's again
	c.out = nil
	if err != nil {
		return err
	}
	v.film.advance()
	if cap(v.previous) > 2*len(p.Mesh.Points) {
		v.previous = nil // for the same reason
	}
	v.previous = append(v.previous[:0], p.Mesh.Points...)
	return nil
}

// Close gives the memory back.
func (v *Video) Close() { v.film.free() }

// shape is of frames that can follow each other.
type shape struct {
	width, height int
	format        driver.PixelFormat
}

// film is the pictures of a video on the device: the one before, and the one that is being made. A nil film is that of
// an image.
type film struct {
	shape
	pictures [2]*kernels.Persistent[byte]
	now      int  // which of them is being made
	begun    bool // whether the other is the frame before

	changed [1]uint32 // pixels, of the frame that is being made
}

func (f *film) alloc(dev *kernels.Device, s shape) (err error) {
	for i := range f.pictures {
		if f.pictures[i], err = kernels.AllocPersistent[byte](dev, s.width*s.height*s.format.PixelBytes(),
			"video"); err != nil {
			f.free()
			return err
		}
	}
	f.shape = s
	return nil
}

func (f *film) free() {
	for _, p := range f.pictures {
		if p != nil {
			p.Free()
		}
	}
	*f = film{}
}

// held is what the film takes on the device.
func (f *film) held() int64 {
	if f == nil {
		return 0
	}
	return kernels.Held(f.pictures[0].Buffer, f.pictures[1].Buffer)
}

// after is where the picture goes.
func (f *film) after() kernels.Buffer[byte] {
	if f == nil {
		return kernels.Buffer[byte]{}
	}
	return f.pictures[f.now].Buffer
}

// before is the picture of the frame before, if there is one.
func (f *film) before() (kernels.Buffer[byte], bool) {
	if f == nil || !f.begun {
		return kernels.Buffer[byte]{}, false
	}
	return f.pictures[1-f.now].Buffer, true
}

// cut reports whether the frame that has been made is of another scene.
func (f *film) cut() bool {
	return f != nil && f.begun && 2*int(f.changed[0]) > f.width*f.height
}

func (f *film) advance() {
	if f.pictures[0] != nil {
		f.now, f.begun = 1-f.now, true
	}
}

// limits are those of holding colours, in units of samples.
func (c *conversion) limits() (limit, jump int) {
	limit, jump = c.opt.Hold, min(max(2*c.opt.Hold, 2*DefaultHold), 255)
	if c.Format.SampleBytes == 2 {
		limit, jump = limit<<(c.Format.Bits-8), jump<<(c.Format.Bits-8)
	}
	return limit, max(limit, jump)
}
