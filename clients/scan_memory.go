package clients

// Where a line-scan stream keeps its strips: memory of this process, or a lease that the server reads.

import (
	"bytes"
	"fmt"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// stripMemory is room for a number of strips of the same size.
type stripMemory interface {
	// slot is the memory of slot i; it is the same at every call but for renew.
	slot(i int) []byte
	// renew moves slot i to other memory, and leaves the old to whoever reads it.
	renew(i int)
	// shared says where the first n bytes of slot i are for the server; nil if they have to travel.
	shared(i, n int) *polyscanv1.SharedPixels
	// lost is nil while the server can read it, and then says why it can't.
	lost() error
	// intact reports whether what was written is still there.
	intact() bool
	close()
}

// newMemory makes the memory that the options ask for.
func (s *Scan) newMemory() (stripMemory, error) {
	size := s.bytes(s.height)
	if !s.opts.SharedMemory {
		return &heapMemory{size: size, slots: make([][]byte, len(s.slots))}, nil
	}
	m, err := s.client.LeaseSharedMemory(s.ctx, len(s.slots), size)
	if err != nil {
		return nil, err
	}
	l := &leasedMemory{memory: m, slots: make([]*Slot, len(s.slots))}
	for i := range l.slots {
		if l.slots[i], err = m.Slot(s.ctx); err != nil {
			l.close()
			return nil, fmt.Errorf("clients: shared memory: slot %d: %w", i, err)
		}
	}
	return l, nil
}

// heapMemory is memory of the process, allocated when it is first needed.
type heapMemory struct {
	size  int
	slots [][]byte
}

func (m *heapMemory) slot(i int) []byte {
	if m.slots[i] == nil {
		m.slots[i] = make([]byte, m.size)
	}
	return m.slots[i]
}

func (m *heapMemory) renew(i int) { m.slots[i] = bytes.Clone(m.slots[i]) }

func (m *heapMemory) shared(int, int) *polyscanv1.SharedPixels { return nil }
func (m *heapMemory) lost() error                              { return nil }
func (m *heapMemory) intact() bool                             { return true }
func (m *heapMemory) close()                                   {}

// leasedMemory is a lease all of whose slots are in use: which of them are free is known from acknowledgements.
type leasedMemory struct {
	memory *SharedMemory
	slots  []*Slot
}

func (m *leasedMemory) slot(i int) []byte { return m.slots[i].Bytes() }

func (m *leasedMemory) renew(int) {} // it doesn't travel in messages

func (m *leasedMemory) shared(i, n int) *polyscanv1.SharedPixels { return m.slots[i].Pixels(n) }

func (m *leasedMemory) lost() error { return m.memory.Err() }

func (m *leasedMemory) intact() bool { return m.memory.Intact() }

func (m *leasedMemory) close() {
	for _, s := range m.slots {
		if s != nil {
			s.Release()
		}
	}
	_ = m.memory.Close() // unmaps, which can't fail for a whole mapping
}
