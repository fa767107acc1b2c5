//go:build cuda

// Device memory, what is known of prepared sets in it, and page-locked host memory.

package cuda

import (
	"errors"
	"fmt"
	"sort"
	"sync"
	"sync/atomic"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/polyscan/polyscan/kernels/driver"
)

// mem implements driver.Mem.
type mem struct {
	dev   *device
	ptr   cu.DevicePtr
	bytes int64
	gone  atomic.Bool

	// sets are the prepared sets that were written to this memory, or read back from it, by offset. They don't overlap:
	// whatever writes to device memory goes through forget first. So ops find bounds and sizes without asking the
	// device; and a set that was moved as bytes, which nobody told about, is read back once.
	mu   sync.Mutex
	sets []placedSet
}

type placedSet struct {
	off int64
	*set
}

func (d *device) Alloc(bytes int64) (driver.Mem, error) {
	// The driver's own answer to sizes beyond its memory is not always "out of memory".
	if bytes < 0 || bytes > d.total {
		return nil, fmt.Errorf("cuda: alloc of %d bytes of %d: %w", bytes, d.total, driver.ErrOutOfMemory)
	}
	m := &mem{dev: d, bytes: bytes}
	err := d.do(func() (err error) {
		// Kernels read whole vectors of 16 bytes: room for the last.
		m.ptr, err = cu.MemAlloc(alignUp(max(bytes, 1)))
		return d.check("cuMemAlloc", err)
	})
	if err != nil {
		return nil, fmt.Errorf("cuda: alloc of %d bytes: %w", bytes, err)
	}
	d.mu.Lock()
	d.mems++
	d.mu.Unlock()
	return m, nil
}

func (m *mem) Bytes() int64 { return m.bytes }

// Free gives the memory back. That of a lost device goes with its context.
func (m *mem) Free() error {
	if m.gone.Swap(true) {
		return fmt.Errorf("cuda: memory of %d bytes freed twice", m.bytes)
	}
	m.dev.mu.Lock()
	m.dev.mems--
	m.dev.mu.Unlock()
	if m.dev.lost.Load() != nil {
		return nil
	}
	if err := m.dev.do(func() error { return m.dev.check("cuMemFree", cu.MemFree(m.ptr)) }); err != nil {
		return fmt.Errorf("cuda: free of %d bytes: %w", m.bytes, err)
	}
	return nil
}

// span is a checked slice of device memory.
type span struct {
	mem *mem
	off int64
	n   int64
}

// at is the address.
func (s span) at() uint64 {
	if s.mem == nil {
		return 0
	}
	return uint64(s.mem.ptr) + uint64(s.off)
}

// overwritten has to be called before the device is told to write to the span.
func (s span) overwritten() {
	if s.mem != nil {
		s.mem.forget(s.off, s.n)
	}
}

// at is the address of a slice, 0 where it is empty.
func at(s driver.Slice) uint64 {
	if s.Len == 0 {
		return 0
	}
	return spanOf(s).at()
}

// spanOf makes a span of a slice that was checked.
func spanOf(s driver.Slice) span { return span{s.Mem.(*mem), s.Off, s.Len} }

// span checks that a slice lies within living memory of the device.
func (d *device) span(s driver.Slice, field string) (span, error) {
	if s.Len == 0 && s.Mem == nil {
		return span{}, nil
	}
	m, ok := s.Mem.(*mem)
	switch {
	case !ok:
		return span{}, fmt.Errorf("%s: memory of type %T is not of the cuda backend", field, s.Mem)
	case m.dev != d:
		return span{}, fmt.Errorf("%s: memory is of another device", field)
	case m.gone.Load():
		return span{}, fmt.Errorf("%s: memory was freed", field)
	case s.Off < 0 || s.Len < 0 || s.Off > m.bytes || s.Len > m.bytes-s.Off:
		return span{}, fmt.Errorf("%s: bytes [%d, %d+%d) are outside of a block of %d", field, s.Off, s.Off, s.Len,
			m.bytes)
	}
	return span{m, s.Off, s.Len}, nil
}

// forget drops what is known of sets that overlap n bytes at off.
func (m *mem) forget(off, n int64) {
	if n == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	// Sets don't overlap, so that they are in order of their ends as well.
	from := sort.Search(len(m.sets), func(i int) bool { return m.sets[i].off+m.sets[i].lay.bytes > off })
	to := from
	for to < len(m.sets) && m.sets[to].off < off+n {
		to++
	}
	if from < to {
		k := copy(m.sets[from:], m.sets[to:])
		clear(m.sets[from+k:])
		m.sets = m.sets[:from+k]
	}
}

// remember notes that a set is at off.
func (m *mem) remember(off int64, s *set) {
	m.forget(off, s.lay.bytes)
	m.mu.Lock()
	defer m.mu.Unlock()
	i := sort.Search(len(m.sets), func(i int) bool { return m.sets[i].off > off })
	m.sets = append(m.sets, placedSet{})
	copy(m.sets[i+1:], m.sets[i:])
	m.sets[i] = placedSet{off, s}
}

// find returns the set at off, if it is known.
func (m *mem) find(off int64) *set {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := sort.Search(len(m.sets), func(i int) bool { return m.sets[i].off >= off })
	if i < len(m.sets) && m.sets[i].off == off {
		return m.sets[i].set
	}
	return nil
}

// pinnedRange is page-locked host memory that a caller has: addresses [from, to).
type pinnedRange struct{ from, to uintptr }

func rangeOfBytes(b []byte) pinnedRange {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return pinnedRange{from, from + uintptr(len(b))}
}

var _ driver.HostRegistrar = (*device)(nil)

// RegisterHost implements driver.HostRegistrar.
func (d *device) RegisterHost(b []byte) (unregister func() error, err error) {
	if len(b) == 0 {
		return nil, errors.New("cuda: RegisterHost of no bytes")
	}
	if err := d.do(func() error { return d.checkCode("cuMemHostRegister", hostRegister(b)) }); err != nil {
		return nil, fmt.Errorf("cuda: host memory of %d bytes: %w", len(b), err)
	}
	r := rangeOfBytes(b)
	d.addPinned(r)
	return func() error {
		if !d.dropPinned(r) {
			return errors.New("cuda: host memory is not registered any more")
		}
		if d.lost.Load() != nil {
			return nil // it went with the context
		}
		if err := d.do(func() error { return d.checkCode("cuMemHostUnregister", hostUnregister(b)) }); err != nil {
			return fmt.Errorf("cuda: host memory of %d bytes: %w", len(b), err)
		}
		return nil
	}, nil
}

// addPinned notes a range that the device can copy from, and dropPinned forgets one that was noted.
func (d *device) addPinned(r pinnedRange) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := sort.Search(len(d.pinned), func(i int) bool { return d.pinned[i].from > r.from })
	d.pinned = append(d.pinned, pinnedRange{})
	copy(d.pinned[i+1:], d.pinned[i:])
	d.pinned[i] = r
}

func (d *device) dropPinned(r pinnedRange) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := sort.Search(len(d.pinned), func(i int) bool { return d.pinned[i].from >= r.from })
	if i == len(d.pinned) || d.pinned[i] != r {
		return false
	}
	d.pinned = append(d.pinned[:i], d.pinned[i+1:]...)
	return true
}

// isPinned reports whether the device can copy from and to b by itself.
func (d *device) isPinned(b []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.pinned) == 0 {
		return false
	}
	r := rangeOfBytes(b)
	i := sort.Search(len(d.pinned), func(i int) bool { return d.pinned[i].to >= r.to })
	return i < len(d.pinned) && d.pinned[i].from <= r.from
}
