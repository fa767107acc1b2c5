// Oracle: the oracle as a driver.

package devicetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

func init() {
	oracle(hostFill)
}

// Oracle returns a driver that is slow and plain: it computes as [Problem.Expect] does, and runs what was enqueued when
// Wait is called and no sooner, so that what is read too early is not there. It checks that the promises of package
// driver are kept: an op that breaks one fails. It needs no hardware, and is what other drivers are mirrored with.
func Oracle() driver.Driver { return hostDriver{} }

type hostDriver struct{}

// hostLimit is how much memory a device of the oracle has.
const hostLimit = 4 << 30

func (hostDriver) Name() string { return "oracle" }

func (d hostDriver) Open(ordinal int) (driver.Device, error) {
	if ordinal != 0 {
		return nil, fmt.Errorf("oracle: device %d: %w", ordinal, driver.ErrNoDevice)
	}
	return &hostDevice{}, nil
}

type hostDevice struct {
	mu      sync.Mutex
	bytes   int64
	streams int
	closed  bool
}

func (*hostDevice) Info() driver.Info {
	return driver.Info{Backend: "oracle", Device: "host", ComputeUnits: 1, Capability: "exact", MemoryBytes: 256 << 20,
		MaskMethod: driver.Naive}
}

func (d *hostDevice) Alloc(n int64) (driver.Mem, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n < 0 || n > hostLimit-d.bytes {
		return nil, fmt.Errorf("oracle: %d bytes: %w", n, driver.ErrOutOfMemory)
	}
	d.bytes += n
	return &hostMem{dev: d, data: make([]byte, n)}, nil
}

func (d *hostDevice) NewStream(int) (driver.Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errors.New("oracle: device is closed")
	}
	d.streams++
	return &hostStream{dev: d}, nil
}

func (d *hostDevice) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.streams != 0 || d.bytes != 0 {
		return fmt.Errorf("oracle: closed with %d streams and %d bytes in use", d.streams, d.bytes)
	}
	return nil
}

type hostMem struct {
	dev  *hostDevice
	data []byte
}

func (m *hostMem) Bytes() int64 { return int64(len(m.data)) }

func (m *hostMem) Free() error {
	m.dev.mu.Lock()
	defer m.dev.mu.Unlock()
	if m.data == nil {
		return errors.New("oracle: memory freed twice")
	}
	m.dev.bytes -= int64(len(m.data))
	m.data = nil
	return nil
}

// view is the bytes of a slice that was checked.
func view(s driver.Slice) []byte {
	if s.Len == 0 {
		return nil
	}
	return s.Mem.(*hostMem).data[s.Off : s.Off+s.Len : s.Off+s.Len]
}

// values copies the content of a slice, and store writes values to its start.
func values[E any](s driver.Slice) []E {
	v := make([]E, s.Len/int64(unsafe.Sizeof(*new(E))))
	copy(bytesOf(v), view(s))
	return v
}

func store[E any](s driver.Slice, v ...E) {
	if b := bytesOf(v); copy(view(s), b) != len(b) {
		panic(fmt.Sprintf("oracle: %d bytes for a slice of %d", len(b), s.Len))
	}
}

// inside checks that a slice is memory of the device.
func (d *hostDevice) inside(name, field string, s driver.Slice) error {
	if m, ok := s.Mem.(*hostMem); s.Len != 0 && (!ok || m.dev != d) {
		return fmt.Errorf("%s: memory %T of another device", field, s.Mem)
	}
	return driver.CheckSlice(name, field, s, s.Mem)
}

type hostStream struct {
	dev   *hostDevice
	queue []func() error
	done  bool
}

func (s *hostStream) enqueue(name string, f func() error) error {
	if s.done {
		return errors.New("oracle: stream is closed")
	}
	s.queue = append(s.queue, func() error {
		if err := f(); err != nil {
			return fmt.Errorf("oracle: %s: %w", name, err)
		}
		return nil
	})
	return nil
}

func (s *hostStream) Wait(ctx context.Context) error {
	queue := s.queue
	s.queue = nil
	for _, f := range queue {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func (s *hostStream) Close() error {
	s.queue = nil
	if !s.done {
		s.done = true
		s.dev.mu.Lock()
		s.dev.streams--
		s.dev.mu.Unlock()
	}
	return nil
}

func (s *hostStream) Upload(dst driver.Slice, src [][]byte) error {
	return s.enqueue("Upload", func() error {
		from := slices.Concat(src...)
		if err := s.dev.inside("Upload", "dst", dst); err != nil {
			return err
		}
		if int64(len(from)) != dst.Len {
			return fmt.Errorf("%d bytes for %d", len(from), dst.Len)
		}
		copy(view(dst), from)
		return nil
	})
}

func (s *hostStream) Download(dst []byte, src driver.Slice) error {
	return s.enqueue("Download", func() error {
		if err := s.dev.inside("Download", "src", src); err != nil {
			return err
		}
		if int64(len(dst)) != src.Len {
			return fmt.Errorf("%d bytes for %d", src.Len, len(dst))
		}
		copy(dst, view(src))
		return nil
	})
}

// Run checks what package driver promises to backends, and computes when the stream is waited for.
func (s *hostStream) Run(op driver.Op) error {
	run, ok := oracles[driver.Name(op)]
	if !ok {
		return fmt.Errorf("oracle: %s: %w", driver.Name(op), driver.ErrNotSupported)
	}
	if _, err := s.dev.Scratch(op); err != nil {
		return err
	}
	if err := tooMany(op); err != nil {
		return err
	}
	return s.enqueue(driver.Name(op), func() error {
		if err := driver.Check(op); err != nil {
			return err
		}
		operands := driver.Operands(op, nil)
		for _, o := range operands {
			if err := s.dev.inside(driver.Name(op), o.Field, *o.Slice); err != nil {
				return err
			}
		}
		if err := driver.CheckOperands(op, operands, nil, s.dev.Scratch); err != nil {
			return err
		}
		return run(op)
	})
}

// oracles are what computes each op. The files that have them put them here.
var oracles = map[string]func(driver.Op) error{}

func oracle[T any, P interface {
	*T
	driver.Op
}](run func(P) error) {
	oracles[driver.Name(P(new(T)))] = func(op driver.Op) error { return run(op.(P)) }
}

// Scratch says what the oracle keeps in memory, and what it lacks.
func (d *hostDevice) Scratch(op driver.Op) (int64, error) {
	switch op := op.(type) {
	case *driver.MaskPrepare:
		return hostHeader + int64(len(op.Regions.Regions))*12 + int64(len(op.Regions.Edges))*16 +
			int64(len(op.Regions.Runs))*12, nil
	case *driver.DiffusionSetup:
		return 4, nil
	case *driver.Voronoi: // it takes all methods for the same exact one, and so lacks the one that isn't exact
		if op.Method == driver.JumpFlood {
			return 0, fmt.Errorf("oracle: %v: %w", op.Method, driver.ErrNotSupported)
		}
	}
	return 0, nil
}

// tooMany refuses what Delaunay would be too slow for.
func tooMany(op driver.Op) error {
	n := 0
	switch op := op.(type) {
	case *driver.Triangulate:
		n = op.N
	case *driver.Flips:
		n = op.N
	}
	if n > MaxOraclePoints {
		return fmt.Errorf("oracle: %s: N = %d: takes at most %d: %w", driver.Name(op), n, MaxOraclePoints,
			driver.ErrNotSupported)
	}
	return nil
}

func hostFill(op *driver.Fill) error {
	to := view(op.Dst)
	for i := range to {
		to[i] = op.Value
	}
	return nil
}
