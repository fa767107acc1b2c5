// Device memory: blocks of host memory outside of the Go heap where the system can map them.

package cpu

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

// mem implements driver.Mem.
type mem struct {
	dev  *device
	data []byte // of the asked-for length, aligned to driver.Align
	free func() error
	gone atomic.Bool

	looking sync.Mutex
	host    int64     // as of the last look
	next    time.Time // when to look again
}

func (d *device) Alloc(bytes int64) (driver.Mem, error) {
	if bytes < 0 || bytes > math.MaxInt-driver.Align {
		return nil, fmt.Errorf("cpu: alloc of %d bytes: %w", bytes, driver.ErrOutOfMemory)
	}
	data, free, err := reserve(int(bytes))
	if err != nil {
		return nil, fmt.Errorf("cpu: alloc of %d bytes: %w: %w", bytes, driver.ErrOutOfMemory, err)
	}
	d.mu.Lock()
	d.mems++
	d.mu.Unlock()
	return &mem{dev: d, data: data, free: free}, nil
}

func (m *mem) Bytes() int64 { return int64(len(m.data)) }

// HostBytes is how much of it the system has pages for: those that were written since Alloc, and not what ops that
// ended early left out. Package kernels asks for it. Looking takes at most a twentieth of the time, however often.
func (m *mem) HostBytes() int64 {
	if m.gone.Load() {
		return 0
	}
	m.looking.Lock()
	defer m.looking.Unlock()
	if begun := time.Now(); begun.After(m.next) {
		m.host = resident(m.data)
		m.next = begun.Add(20 * time.Since(begun))
	}
	return m.host
}

func (m *mem) Free() error {
	if m.gone.Swap(true) {
		return fmt.Errorf("cpu: memory of %d bytes freed twice", len(m.data))
	}
	m.dev.mu.Lock()
	m.dev.mems--
	m.dev.mu.Unlock()
	return m.free()
}

// view is the bytes of a slice, which the front has found to lie in the memory. It panics where they don't: that is a
// bug, and the error of the op.
func view(s driver.Slice) []byte {
	if s.Len == 0 {
		return nil
	}
	m := s.Mem.(*mem)
	if m.gone.Load() {
		panic("memory was freed")
	}
	return m.data[s.Off : s.Off+s.Len : s.Off+s.Len]
}

// viewAs is the values of a slice. Memory is aligned for all of them.
func viewAs[T driver.MaskStats | driver.PairSums | driver.Point | driver.Triangle | driver.MeshCounts | driver.FlipStatus |
	driver.DiffusionCounts | driver.DiffusionStatus | uint16 | uint32 | uint64 | float32 | int64 |
	driver.WeightedPixel | driver.WeightSums | driver.BlobCount | driver.Blob | driver.BlobRun](s driver.Slice) []T {
	var z T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(view(s)))), s.Len/int64(unsafe.Sizeof(z)))
}
