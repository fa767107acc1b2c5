package clients

// Where a line-scan stream keeps its strips: memory of this process, or a lease that the server reads.

import (
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// stripMemory is room for a number of strips of the same size.
type stripMemory interface {
	// slot is the memory of strip i; it is the same at every call.
	slot(i int) []byte
	// shared says where the first n bytes of slot i are for the server; nil if they have to travel.
	shared(i, n int) *polyscanv1.SharedPixels
	// lost reports whether the server can't read it any more.
	lost() bool
	close()
}

// newMemory makes the memory that the options ask for.
func (s *Scan) newMemory() (stripMemory, error) {
	return &heapMemory{size: s.bytes(s.height), slots: make([][]byte, len(s.slots))}, nil
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

func (m *heapMemory) shared(int, int) *polyscanv1.SharedPixels { return nil }
func (m *heapMemory) lost() bool                               { return false }
func (m *heapMemory) close()                                   {}
