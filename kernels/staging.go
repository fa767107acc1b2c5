// Staging: host memory that copies to and from the device are fast with.

package kernels

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/polyscan/polyscan/kernels/driver"
)

const (
	defaultStagingBuffers = 8
	// defaultStagingBytes holds the strips of a line-scan camera, and most frames.
	defaultStagingBytes = 4 << 20
	maxStagingBuffers   = 1024
)

// HostRing is a fixed number of equally large host buffers, leased in turn. Where the backend has host memory of its own
// ([driver.HostAllocator]: page-locked on CUDA) they are that, and the device copies from and to them by itself; copies
// of other memory go through small page-locked buffers of the backend's, one memcpy more. Elsewhere they are ordinary
// memory. A buffer is allocated when it is leased first, and kept until [Device.Close]. The methods may be called from several
// goroutines.
type HostRing struct {
	dev    driver.Device
	size   int
	poison bool
	free   chan []byte   // those that nobody leases, longest idle first; nil where not allocated yet
	closed chan struct{} // nothing is leased any more

	mu    sync.Mutex
	stats StagingStats
}

// StagingStats is the state of a [HostRing].
type StagingStats struct {
	Buffers     int            // how many there are
	BufferBytes int            // of each
	Allocated   int            // how many have memory: were leased before
	Leased      int            // how many are leased now
	HighWater   int            // most ever leased at once
	Waiting     int            // calls of Lease that wait
	ByLabel     map[string]int // buffers leased now; adds up to Leased
}

// HostBuffer is leased memory of a [HostRing]. It must not be copied.
type HostBuffer struct {
	ring  *HostRing
	label string
	all   []byte
	n     int

	mu       sync.Mutex
	released bool
}

func newHostRing(dev driver.Device, cfg Config) *HostRing {
	r := &HostRing{
		dev: dev, size: cfg.StagingBytes, poison: cfg.Poison,
		free: make(chan []byte, cfg.StagingBuffers), closed: make(chan struct{}),
		stats: StagingStats{Buffers: cfg.StagingBuffers, BufferBytes: cfg.StagingBytes, ByLabel: map[string]int{}},
	}
	for range cfg.StagingBuffers {
		r.free <- nil
	}
	return r
}

// Staging returns the device's ring of host buffers.
func (d *Device) Staging() *HostRing { return d.staging }

// Stats returns the state of the ring now.
func (r *HostRing) Stats() StagingStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.ByLabel = maps.Clone(s.ByLabel)
	return s
}

// Lease returns a buffer with room for n bytes, of undefined content. It waits for one, in order of arrival, until ctx ends;
// its error is ctx's cause then. More than a buffer holds is an [*ArgError]; where the memory can't be had the error is the
// backend's.
func (r *HostRing) Lease(ctx context.Context, n int, label string) (*HostBuffer, error) {
	if n < 0 || n > r.size {
		return nil, &ArgError{"Lease", label, n, fmt.Sprintf("must be 0 to %d, the size of a staging buffer", r.size)}
	}
	b, err := r.next(ctx)
	if err != nil {
		return nil, err
	}
	r.count(label, 1)
	if b == nil {
		if b, err = r.alloc(); err != nil {
			r.count(label, -1)
			r.free <- nil
			return nil, fmt.Errorf("kernels: staging buffer of %d bytes for %s: %w", r.size, label, err)
		}
	}
	if r.poison {
		poisonHost(b)
	}
	return &HostBuffer{ring: r, label: label, all: b, n: n}, nil
}

// count takes note of a lease, or of its end.
func (r *HostRing) count(label string, by int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Leased += by
	r.stats.HighWater = max(r.stats.HighWater, r.stats.Leased)
	if r.stats.ByLabel[label] += by; r.stats.ByLabel[label] == 0 {
		delete(r.stats.ByLabel, label)
	}
}

// next takes a buffer out of the ring.
func (r *HostRing) next(ctx context.Context) ([]byte, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	select {
	case <-r.closed:
		return nil, ErrClosed
	default:
	}
	r.mu.Lock()
	r.stats.Waiting++
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.stats.Waiting--
		r.mu.Unlock()
	}()
	select {
	case b := <-r.free:
		return b, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-r.closed:
		return nil, ErrClosed
	}
}

func (r *HostRing) alloc() (b []byte, err error) {
	if a, ok := r.dev.(driver.HostAllocator); ok {
		if b, err = a.AllocHost(r.size); err != nil {
			return nil, err
		}
	} else {
		b = make([]byte, r.size)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Allocated++
	return b, nil
}

// Bytes is the buffer's memory, nil after Release.
func (b *HostBuffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.released {
		return nil
	}
	return b.all[:b.n:b.n]
}

// Release gives the buffer back. No op may still use it: the job that does must have ended, or [Queue.Wait] returned. A
// second call panics.
func (b *HostBuffer) Release() {
	b.mu.Lock()
	twice := b.released
	b.released = true
	b.mu.Unlock()
	if twice {
		panic(fmt.Sprintf("kernels: staging buffer %q released twice", b.label))
	}
	r := b.ring
	if r.poison {
		poisonHost(b.all)
	}
	r.count(b.label, -1)
	r.free <- b.all // there is room for all
}

func poisonHost(b []byte) {
	for i := range b {
		b[i] = poison
	}
}

// shut refuses leases from now on, those that wait as well.
func (r *HostRing) shut() { close(r.closed) }

// close frees the buffers, after shut. It returns an error that matches ErrLeak where some are still leased; their memory
// is not freed.
func (r *HostRing) close() error {
	var errs []error
	if s := r.Stats(); s.Leased > 0 {
		errs = append(errs, fmt.Errorf("%w: %d staging buffers %v", ErrLeak, s.Leased, s.ByLabel))
	}
	a, ok := r.dev.(driver.HostAllocator)
	for {
		select {
		case b := <-r.free:
			if ok && b != nil {
				errs = append(errs, a.FreeHost(b))
			}
		default:
			return errors.Join(errs...)
		}
	}
}
