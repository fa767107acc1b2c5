package clients

// Shared memory: frames for a server on the same host that don't travel.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/polyscan/polyscan/internal/sharedmem"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// SharedMemory is memory of a server on the same host that it has leased to this process, cut into slots of one size. A
// camera writes a frame or a strip into a slot, a call refers to it, and when the server has answered, or acknowledged
// the strip, the slot is released and comes round again:
//
//	slot, err := memory.Slot(ctx)
//	...
//	n := camera.Read(slot.Bytes())
//	frame, err := slot.Frame(clients.Raw{Width: 10240, Height: 128, Format: clients.Gray8})
//	...
//	result, err := client.Reduce(ctx, inspection, frame)
//	slot.Release()
//
// Frames of it can be sent over any connection to that server, in any call that takes frames. The lease ends with
// Close, with the connection that it was made over, and with the server. It needs Linux. The methods may be called from
// several goroutines.
type SharedMemory struct {
	id        uint64
	slotBytes int // that a caller asked for
	apart     int // from one slot to the next
	free      chan int

	cancel context.CancelFunc
	done   chan struct{}
	err    error // why it ended; to be read when done is closed

	mu     sync.Mutex
	memory *sharedmem.Mapping // nil when it is unmapped
	out    int                // slots in use
	closed bool
}

// ErrLeaseEnded is matched by errors of a [SharedMemory] whose lease is over.
var ErrLeaseEnded = errors.New("the lease of shared memory has ended")

// LeaseSharedMemory leases memory for so many slots of slotBytes each. ctx is for getting it, and does not bound how
// long it is held. The error is an [*Error] where the server refused: FAILED_PRECONDITION where it has no shared memory
// to give, RESOURCE_EXHAUSTED where there is no room. It matches fs.ErrNotExist where the server turned out to be on
// another host.
func (c *Client) LeaseSharedMemory(ctx context.Context, slots, slotBytes int) (_ *SharedMemory, err error) {
	if slots < 1 {
		return nil, fmt.Errorf("clients: shared memory: slots = %d: must be 1 or more", slots)
	}
	apart, err := sharedmem.RoundUp(int64(slotBytes))
	if err != nil {
		return nil, fmt.Errorf("clients: shared memory: slotBytes = %d: %w", slotBytes, err)
	}
	size := int64(slots) * apart
	if size/apart != int64(slots) || int64(int(size)) != size {
		return nil, fmt.Errorf("clients: shared memory: %d slots of %d bytes: more than there can be", slots, slotBytes)
	}

	held, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	defer func() {
		if err != nil {
			cancel()
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
		}
	}()
	stream, err := polyscanv1.NewSharedMemoryServiceClient(c.cc).Lease(held,
		&polyscanv1.LeaseRequest{Bytes: uint64(size)})
	if err != nil {
		return nil, wrap(err)
	}
	res, err := stream.Recv()
	if err != nil {
		return nil, wrap(err)
	}
	if res.GetBytes() < uint64(size) {
		return nil, fmt.Errorf("clients: shared memory: the server leased %d bytes, not %d", res.GetBytes(), size)
	}
	memory, err := sharedmem.Fetch(ctx, res.GetSocketPath(), res.GetToken(), size)
	if err != nil {
		return nil, fetchError(res.GetSocketPath(), err)
	}
	if !stop() { // ctx ended, and with it the lease
		memory.Close()
		return nil, context.Cause(ctx)
	}
	m := &SharedMemory{
		id: res.GetLeaseId(), slotBytes: slotBytes, apart: int(apart), free: make(chan int, slots),
		cancel: cancel, done: make(chan struct{}), memory: memory,
	}
	for i := range slots {
		m.free <- i
	}
	go func() {
		_, err := stream.Recv() // nothing comes but the end
		cancel()
		switch {
		case err == nil:
			err = errors.New("the server sent a second answer")
		case errors.Is(err, io.EOF):
			err = errors.New("the server ended it")
		}
		m.err = fmt.Errorf("clients: %w: %w", ErrLeaseEnded, wrap(err))
		close(m.done)
	}()
	return m, nil
}

// fetchError says what to do about it.
func fetchError(path string, err error) error {
	why := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		why = "there is no such socket here: the server must run on this host and, in a container, share the " +
			"socket's folder under the same path: "
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, sharedmem.RefusedToken):
		why = "the server that leased it does not listen there: it must run on this host: "
	case errors.Is(err, fs.ErrPermission), errors.Is(err, sharedmem.RefusedUser):
		why = fmt.Sprintf("the server must be told to allow user id %d: ", os.Geteuid())
	}
	return fmt.Errorf("clients: shared memory: %s: %s%w", path, why, err)
}

// SlotBytes is the size of a slot.
func (m *SharedMemory) SlotBytes() int { return m.slotBytes }

// Done is closed when the lease is over. Slots can still be written to, but no call takes them.
func (m *SharedMemory) Done() <-chan struct{} { return m.done }

// Err is nil until Done is closed; then it says why, and matches [ErrLeaseEnded].
func (m *SharedMemory) Err() error {
	select {
	case <-m.done:
		return m.err
	default:
		return nil
	}
}

// Close ends the lease. Calls that have been sent may fail; slots that are not released stay valid until they are.
func (m *SharedMemory) Close() error {
	m.cancel()
	<-m.done
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return m.unmap()
}

// unmap unmaps the memory of a closed lease, when it is unused. mu is held.
func (m *SharedMemory) unmap() error {
	if !m.closed || m.out > 0 || m.memory == nil {
		return nil
	}
	memory := m.memory
	m.memory = nil
	return memory.Close()
}

// Intact reports whether the slots still hold what was written there. The server leaves them alone for some seconds
// after the lease has ended, so that they can be copied to another one: copy first, then ask.
func (m *SharedMemory) Intact() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.memory != nil && m.memory.Intact()
}

// Slot waits for a free slot: until one is released, ctx ends, or the lease does. Its content is what was there before.
func (m *SharedMemory) Slot(ctx context.Context) (*Slot, error) {
	if err := m.Err(); err != nil {
		return nil, err
	}
	select {
	case i := <-m.free:
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.closed {
			return nil, m.err
		}
		m.out++
		from := i * m.apart
		return &Slot{m: m, index: i, data: m.memory.Data[from : from+m.slotBytes : from+m.slotBytes]}, nil
	case <-m.done:
		return nil, m.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Slot is a part of a [SharedMemory], in use by one caller from [SharedMemory.Slot] to Release.
type Slot struct {
	m        *SharedMemory
	index    int
	data     []byte
	released atomic.Bool
}

// Bytes is the slot's memory. It must not be touched after Release, nor changed while a call that refers to it has not
// been answered: the server would see part of the change.
func (s *Slot) Bytes() []byte { return s.data }

// Frame makes the message for the pixels that r describes, which start at the slot's first byte; for a strip of a
// line-scan stream, too. Nothing is copied. Release the slot when it has been answered, or the strip acknowledged.
func (s *Slot) Frame(r Raw) (*polyscanv1.Frame, error) {
	n, err := r.Bytes()
	if err != nil {
		return nil, err
	}
	if n > int64(len(s.data)) {
		return nil, fmt.Errorf("frame of %d bytes: the slots of the shared memory have %d", n, len(s.data))
	}
	f := r.Frame(nil)
	f.Source = &polyscanv1.Frame_Shared{Shared: s.Pixels(int(n))}
	return f, nil
}

// Pixels refers to the first n bytes of the slot.
func (s *Slot) Pixels(n int) *polyscanv1.SharedPixels {
	return &polyscanv1.SharedPixels{LeaseId: s.m.id, Offset: uint64(s.index) * uint64(s.m.apart), Length: uint64(n)}
}

// Release gives the slot back. Calls after the first do nothing.
func (s *Slot) Release() {
	if s.released.Swap(true) {
		return
	}
	m := s.m
	m.mu.Lock()
	m.out--
	m.unmap() // which can't fail: the range is a whole mapping
	m.mu.Unlock()
	m.free <- s.index // has room for all
}
