// Pictures of drawings, as pixels; and canvases, which keep what the next picture can use.

package diffusion

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Target is where the picture of a drawing goes.
type Target struct {
	// Format of 8 or 16 bits, with as many colours as the drawing has channels; alpha becomes the largest. The values
	// from 0 to 1 are its levels, and what is beyond is cut off.
	Format kernels.PixelFormat
	Pixels Pixels
	// Progress, where it is not nil, is called after each cycle but the last, with the picture as it is by then in
	// Pixels, and how far it has come. The job waits for it, and ends with an error that it returns.
	Progress func(*Solution) error
}

func (to *Target) check(d *Drawing) error {
	if f := to.Format; !f.Valid() || f.Colours() != d.Channels {
		return invalid(path{"format"}, f, "must have %d colours, one for each channel", d.Channels)
	}
	if size := d.Width * d.Height * to.Format.PixelBytes(); to.Pixels.len() != size {
		return invalid(path{"pixels"}, fmt.Sprintf("%d bytes", to.Pixels.len()), "must be %d", size)
	}
	return nil
}

// Render is [SolveDrawing] with the picture as pixels. The solution has no Values.
func Render(ctx context.Context, dev *kernels.Device, d *Drawing, to *Target, opts *Options) (*Solution, error) {
	c := NewCanvas(dev)
	defer c.Close()
	return c.render(ctx, d, to, opts, false)
}

// Canvas renders one drawing after another. Each begins with the picture of the one before, and where only colours and
// blurs have changed the solver needs no new set-up. What it keeps is in the device's memory, which takes it back when
// it is needed for something else and no picture is being made; then the next picture takes longer, that is all, as it
// does where there is no room to keep anything. A canvas is not safe for concurrent use. Close it after use.
type Canvas struct {
	dev    *kernels.Device
	key    [sha256.Size]byte // of the geometry that the set-up is for; zero for none
	grid   driver.DiffusionGrid
	counts driver.DiffusionCounts
	setup  *kernels.Resident[byte]
	x      *kernels.Resident[float32]
	size   [3]int // of what is in x: width, height and channels
	begun  bool   // there is something in x
}

// NewCanvas returns an empty canvas.
func NewCanvas(dev *kernels.Device) *Canvas { return &Canvas{dev: dev} }

// Render makes the picture of a drawing as [Render] does. opts has no Start. A call that ended early has done its part
// for the next.
func (c *Canvas) Render(ctx context.Context, d *Drawing, to *Target, opts *Options) (*Solution, error) {
	if opts != nil && opts.Start != nil {
		return nil, invalid(path{"start"}, fmt.Sprintf("%d values", len(opts.Start)),
			"must be none: a canvas has the picture before")
	}
	out, err := c.render(ctx, d, to, opts, true)
	if errors.Is(err, errNoRoom) {
		return c.render(ctx, d, to, opts, false)
	}
	return out, err
}

// errNoRoom ends a picture for which nothing can be kept.
var errNoRoom = errors.New("diffusion: no room to keep what the next picture can use")

// Close gives the memory back.
func (c *Canvas) Close() {
	dropResident(&c.setup)
	dropResident(&c.x)
}

func dropResident[T kernels.Elem](r **kernels.Resident[T]) {
	if *r != nil {
		(*r).Drop()
		*r = nil
	}
}

// room makes sure that there is room for what is kept, and reports whether it is what was there before. Nobody holds
// it: a job that waited for memory with that in its hands could wait for others that do the same, and for itself.
func room[T kernels.Elem](dev *kernels.Device, r **kernels.Resident[T], n int, label string) (kept bool, err error) {
	if *r != nil && (*r).Len() == n && !(*r).Gone() {
		return true, nil
	}
	dropResident(r)
	made, err := kernels.Store[T](dev, n, label)
	var full *kernels.CapacityError
	switch {
	case errors.As(err, &full):
		return false, errNoRoom
	case err != nil:
		return false, err
	}
	made.Release()
	*r = made
	return false, nil
}

// hold acquires what is kept, for a job that has begun. release is called when it has ended.
func hold[T kernels.Elem](r *kernels.Resident[T], release *[]func()) (kernels.Buffer[T], error) {
	b, ok := r.Acquire()
	if !ok { // since there was room for it
		return b, errNoRoom
	}
	*release = append(*release, r.Release)
	return b, nil
}

// render keeps the set-up and the picture where it is told to, and else takes memory of the job for them.
func (c *Canvas) render(ctx context.Context, d *Drawing, to *Target, opts *Options, keep bool) (*Solution, error) {
	w, err := newWork(d, opts.method())
	if err != nil {
		return nil, err
	}
	if err := to.check(d); err != nil {
		return nil, err
	}
	s, err := newSolveOf(c.dev, w.grid, w.channels, opts)
	if err != nil {
		return nil, err
	}
	n, size := d.Width*d.Height, d.Width*d.Height*to.Format.PixelBytes()
	s.label("render")
	s.job.Footprint += w.footprint() + s.setupFootprint()
	s.job.Held = kernels.Held(to.Pixels.Resident)
	if to.Pixels.Resident.Len() == 0 {
		s.job.Footprint += kernels.Bytes[byte](size)
	}
	if w.blurred {
		s.job.Footprint += w.blurFootprint()
	}
	key := w.key()
	if keep {
		if s.job.Footprint > c.dev.Memory().Reserved { // it would push out what it keeps
			return nil, errNoRoom
		}
		kept, err := room(c.dev, &c.setup, s.setupBytes, "canvas set-up")
		if err != nil {
			return nil, err
		}
		s.renew = kept && c.key != [sha256.Size]byte{} && c.grid == s.grid
		if s.kept = kept && key == c.key; !s.kept {
			c.key, c.grid = [sha256.Size]byte{}, s.grid
		}
		if kept, err = room(c.dev, &c.x, w.channels*n, "canvas"); err != nil {
			return nil, err
		}
		if shape := [3]int{d.Width, d.Height, w.channels}; !kept || shape != c.size {
			c.size, c.begun = shape, false
		}
		s.job.Footprint -= kernels.Bytes[byte](s.setupBytes) + kernels.Bytes[float32](w.channels*n)
	}
	var held given
	var release []func()
	defer func() {
		for _, f := range release {
			f()
		}
	}()
	p := &painter{work: w, to: to}
	s.finish = p.paint
	if to.Progress != nil {
		s.progress = func(q *kernels.Queue, x kernels.Buffer[float32], so *Solution) error {
			if _, err := p.paint(q, x); err != nil {
				return err
			}
			return to.Progress(so)
		}
	}
	return s.do(ctx, func(q *kernels.Queue) (in given, err error) {
		if keep {
			if held.setup, err = hold(c.setup, &release); err != nil {
				return in, err
			}
			if held.x, err = hold(c.x, &release); err != nil {
				return in, err
			}
			held.warm = &c.begun
		}
		if in, err = w.raster(q); err != nil {
			return in, err
		}
		in.setup, in.x, in.warm = held.setup, held.x, held.warm
		switch {
		case s.kept:
			s.counts = c.counts
		case keep:
			if err = s.prepare(q, &in); err == nil {
				c.counts, c.key = s.counts, key
			}
		default:
			err = s.setUp(q, &in)
		}
		if err == nil && s.counts.Fixed == 0 {
			err = errNothingDrawn(d)
		}
		return in, err
	})
}

// key is that of the geometry: of everything that flags depend on.
func (w *work) key() [sha256.Size]byte {
	var b []byte
	put := func(values ...uint32) {
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
	}
	bit := func(v bool) uint32 {
		if v {
			return 1
		}
		return 0
	}
	put(uint32(w.width), uint32(w.height), uint32(w.grid.Method), uint32(w.channels), uint32(len(w.segments)),
		uint32(len(w.curves)))
	put(bit(w.blurred), bit(w.grid.Barriers), bit(w.grid.OneWay))
	for _, s := range w.segments {
		for i := range s.X {
			put(uint32(s.X[i]), uint32(s.Y[i]))
		}
		put(s.Curve, s.Start, s.LogPieces)
	}
	for _, c := range w.curves {
		put(bit(c.Left.Count > 0), bit(c.Right.Count > 0), c.Barrier)
	}
	return sha256.Sum256(append(b, w.flags...))
}

// painter turns a solution into pixels, as often as it is asked to.
type painter struct {
	*work
	to *Target
	at kernels.Buffer[byte]
}

// paint leaves no values to download.
func (p *painter) paint(q *kernels.Queue, x kernels.Buffer[float32]) (kernels.Buffer[float32], error) {
	if p.at.Len() == 0 {
		if p.at = p.to.Pixels.Resident; p.at.Len() == 0 {
			var err error
			if p.at, err = kernels.Alloc[byte](q, len(p.to.Pixels.Host), "picture"); err != nil {
				return x, err
			}
		}
	}
	sharp := x
	if p.blurred {
		var err error
		if sharp, err = p.blur(q, x); err != nil {
			return x, err
		}
	}
	f := p.to.Format
	op := driver.Pack{Planes: sharp.Slice(), Dst: driver.Image{
		Data: p.at.Slice(), Width: p.width, Height: p.height, Stride: p.width * f.PixelBytes(), Format: f,
	}}
	if err := q.Run(&op); err != nil {
		return x, err
	}
	if p.blurred {
		if err := kernels.Free(q, sharp); err != nil {
			return x, err
		}
	}
	if p.to.Pixels.Resident.Len() == 0 {
		if err := download(q, p.to.Pixels.Host, p.at); err != nil {
			return x, err
		}
	}
	return x.Range(0, 0), q.Yield()
}

// sofar is what a solve has come to, but for values.
func (s *solve) sofar(status driver.DiffusionStatus, start time.Time) *Solution {
	out := &Solution{
		Cycles: int(status.Cycles), Converged: status.Converged != 0,
		Stopped: s.stopped, Estimate: status.Estimate, Residual: status.Residual,
		ErrorUnknown: s.opts.Threshold > 0 && s.reference == nil, Difference: status.Difference, Fall: status.Fall,
		FixedPixels: int(s.counts.Fixed), VoidPixels: int(s.counts.Void), SetupKept: s.kept,
		Timing: kernels.Timing{Backend: s.dev.Info().Backend, Compute: time.Since(start)},
	}
	if s.reference != nil {
		out.Check = s.reference.took
	}
	return out
}
