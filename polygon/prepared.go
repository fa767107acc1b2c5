// Prepared: regions whose pixels have been found for frames of one size, kept on a device while it has room.

package polygon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// ErrClosed is returned by calls on a closed [Prepared].
var ErrClosed = errors.New("polygon: prepared regions are closed")

// ErrEvicted is returned by [Prepared.Reduce] when the device needed the memory for something else while no call used
// it. The regions have to be prepared again.
var ErrEvicted = errors.New("polygon: prepared regions were evicted from the device's memory")

// Prepared is a set prepared for frames of one size on one device. It is safe for concurrent use. Close it after use:
// it takes device memory, which the device may take back while no call uses it.
type Prepared struct {
	set           *Set
	dev           *kernels.Device
	width, height int
	method        Method
	memory        *kernels.Resident[byte]
	bytes         int64
	known         atomic.Pointer[known] // of the calls that got that far
	closed        atomic.Bool

	mu    sync.Mutex
	cover *preparedCover // nil until a call wants it
}

// Prepare finds the pixels of each region inside frames of the given size and keeps them on dev until [Prepared.Close]
// or eviction. A size out of range is an [*kernels.InvalidError]; where the device has no room now the error is a
// [*kernels.CapacityError]; a method that the backend lacks is [driver.ErrNotSupported].
func (s *Set) Prepare(ctx context.Context, dev *kernels.Device, width, height int, m Method) (*Prepared, error) {
	if err := kernels.CheckSize(width, height); err != nil {
		return nil, err
	}
	op, size, err := s.preparation(dev, width, height, m)
	if err != nil {
		return nil, err
	}
	memory, err := kernels.Store[byte](dev, int(size), "prepared regions")
	if err != nil {
		return nil, err
	}
	defer memory.Release()
	op.Dst = memory.Buffer().Slice()
	job := kernels.Job{Label: "prepare", Units: int64(len(s.edges) + len(s.runs))}
	err = dev.Do(ctx, job, func(q *kernels.Queue) error {
		return q.Run(op)
	})
	if err != nil {
		memory.Drop()
		return nil, err
	}
	return &Prepared{set: s, dev: dev, width: width, height: height, method: methodUsed(dev, m), memory: memory,
		bytes: size}, nil
}

// Bytes is the device memory that it takes until Close or eviction.
func (p *Prepared) Bytes() int64 { return p.bytes }

// Gone reports whether it was evicted or closed.
func (p *Prepared) Gone() bool { return p.memory.Gone() }

// Reduce is [Reduce] for the prepared regions and their method. The frame must have the prepared size. Calls may
// overlap.
func (p *Prepared) Reduce(ctx context.Context, f kernels.Picture, r Reductions) (*Result, error) {
	prepared, ok := p.memory.Acquire()
	switch {
	case ok:
		defer p.memory.Release()
	case p.closed.Load():
		return nil, ErrClosed
	default:
		return nil, ErrEvicted
	}

	if f.Width != p.width || f.Height != p.height {
		return nil, invalid(path{"frame"}, fmt.Sprintf("%dx%d pixels", f.Width, f.Height),
			"the regions are prepared for %dx%d", p.width, p.height)
	}
	pl, err := newPlan(p.set, f, r)
	if err != nil {
		return nil, err
	}
	var cached known
	before := p.known.Load()
	if before != nil {
		cached = *before
	}
	d := newDeriver(pl, cached)
	held := kernels.Held(prepared)
	if pl.covered {
		cover, err := p.covering(ctx, pl)
		if err != nil {
			return nil, err
		}
		defer cover.memory.Release()
		d.there = cover.there
		held += kernels.Held(cover.there.at)
	}
	err = d.run(ctx, p.dev, 0, held, func(*kernels.Queue) (driver.Slice, error) {
		return prepared.Slice(), nil
	})
	if err != nil {
		return nil, err
	}
	if !d.made || cached.moments == nil && d.moments != nil {
		found := d.known // by itself: the deriver holds the call's memory
		p.known.CompareAndSwap(before, &found)
	}
	d.res.Method = p.method
	return d.res, nil
}

// Close gives the device memory back, once the calls in flight are done. Later calls of Reduce return [ErrClosed];
// later calls of Close do nothing.
func (p *Prepared) Close() error {
	p.closed.Store(true)
	p.memory.Drop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cover != nil {
		p.cover.memory.Drop()
		p.cover = nil
	}
	return nil
}

// preparedCover is the coverage of prepared regions, which the device may take back as it may the regions.
type preparedCover struct {
	memory *kernels.Resident[byte]
	there  coverMemory
}

// covering is the coverage on the device, held until its memory is released. The first call that wants it makes it, as
// does one after the device took it back; calls meanwhile may make their own.
func (p *Prepared) covering(ctx context.Context, pl *plan) (*preparedCover, error) {
	p.mu.Lock()
	if p.cover != nil {
		if _, ok := p.cover.memory.Acquire(); ok {
			defer p.mu.Unlock()
			return p.cover, nil
		}
	}
	p.mu.Unlock()
	c, err := pl.coverOf(ctx, p.dev)
	if err != nil {
		return nil, err
	}
	memory, err := kernels.Store[byte](p.dev, int(c.bytes()), "boundary pixels")
	if err != nil {
		return nil, err
	}
	made := &preparedCover{memory: memory}
	job := kernels.Job{Label: "prepare coverage", Units: int64(len(c.pixels))}
	if err := p.dev.Do(ctx, job, func(q *kernels.Queue) (err error) {
		made.there, err = c.upload(q, memory.Buffer())
		return err
	}); err != nil {
		memory.Release()
		memory.Drop()
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed.Load():
		memory.Drop() // once it is released
	case p.cover != nil && !p.cover.memory.Gone():
		memory.Drop()
	default:
		p.cover = made
	}
	return made, nil
}
