// Device memory: blocks of host memory outside of the Go heap where the system can map them.

package cpu

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/polyscan/polyscan/kernels/driver"
)

// mem implements driver.Mem.
type mem struct {
	dev  *device
	data []byte // of the asked-for length, aligned to driver.Align
	free func() error
	gone atomic.Bool
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

func (m *mem) Free() error {
	if m.gone.Swap(true) {
		return fmt.Errorf("cpu: memory of %d bytes freed twice", len(m.data))
	}
	m.dev.mu.Lock()
	m.dev.mems--
	m.dev.mu.Unlock()
	return m.free()
}

// view returns the bytes of a slice of device memory, after checking that it lies within a living block.
func view(s driver.Slice, field string) ([]byte, error) {
	if s.Len == 0 && s.Mem == nil {
		return nil, nil
	}
	m, ok := s.Mem.(*mem)
	if !ok {
		return nil, fmt.Errorf("%s: memory of type %T is not of the cpu backend", field, s.Mem)
	}
	if m.gone.Load() {
		return nil, fmt.Errorf("%s: memory was freed", field)
	}
	n := int64(len(m.data))
	if s.Off < 0 || s.Len < 0 || s.Off > n || s.Len > n-s.Off {
		return nil, fmt.Errorf("%s: bytes [%d, %d+%d) are outside of a block of %d", field, s.Off, s.Off, s.Len, n)
	}
	return m.data[s.Off : s.Off+s.Len : s.Off+s.Len], nil
}
