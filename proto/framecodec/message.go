// The wrapper that holds a payload beside its message.

package framecodec

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Message is a generated message, and its payload in pieces. It is a [proto.Message] itself, by way of the generated
// one, so that validation, logging and other codecs work on it; they see the payload field as it is in the generated
// message: present and empty where the payload is in pieces.
//
// A Message is used by one goroutine at a time.
type Message struct {
	proto.Message

	// The payload is bytes [off, off+n) of bufs, when apart is set. Each buffer has one reference of ours.
	bufs   mem.BufferSlice
	off, n int
	apart  bool
}

// New wraps m, to receive into it or to send it with the payload that it holds. In the second case the payload's bytes
// must stay as they are until the transport is done with them, which it doesn't tell; see [Message.SetPayload].
func New(m proto.Message) *Message { return &Message{Message: m} }

// SetPayload makes the concatenation of bufs the payload, in place of what the field of the generated message holds.
// It takes over the caller's references; what the Message held before is freed. It only counts for
// this codec: any other would send what is in the field.
func (m *Message) SetPayload(bufs mem.BufferSlice) {
	m.Free()
	m.bufs, m.n, m.apart = bufs, bufs.Len(), true
}

// Len is the number of bytes of the payload; 0 where there is none.
func (m *Message) Len() int {
	if m.apart {
		return m.n
	}
	return len(m.field())
}

// Pieces appends the payload to dst, in order and without copying. The pieces are not to be written to, and are valid
// until [Message.Free]. None of them is empty.
func (m *Message) Pieces(dst [][]byte) [][]byte {
	if !m.apart {
		if b := m.field(); len(b) > 0 {
			dst = append(dst, b)
		}
		return dst
	}
	skip, left := m.off, m.n
	for _, b := range m.bufs {
		d := b.ReadOnlyData()
		d = d[skip:]
		skip = 0
		d = d[:min(len(d), left)]
		left -= len(d)
		if len(d) > 0 {
			dst = append(dst, d)
		}
	}
	return dst
}

// Free gives the payload's buffers back. Calls after the first do nothing. The generated message stays usable.
func (m *Message) Free() {
	bufs := m.bufs
	m.bufs, m.off, m.n, m.apart = nil, 0, 0, false
	bufs.Free()
}

// field returns the payload that lies in the generated message.
func (m *Message) field() []byte {
	cur := m.Message.ProtoReflect()
	path := pathOf(cur.Descriptor())
	for i, fd := range path {
		if !cur.Has(fd) {
			return nil
		}
		if i == len(path)-1 {
			return cur.Get(fd).Bytes()
		}
		cur = cur.Get(fd).Message()
	}
	return nil
}

// outgoing returns the payload as buffers with references for the transport. It reports false where there is none, or
// where the message's type has no place for one.
func (m *Message) outgoing(path []protoreflect.FieldDescriptor) (mem.BufferSlice, bool) {
	if len(path) == 0 {
		return nil, false
	}
	if !m.apart {
		b := m.field()
		return mem.BufferSlice{mem.SliceBuffer(b)}, b != nil
	}
	out := make(mem.BufferSlice, 0, len(m.bufs)+1) // the head goes in front
	skip, left := m.off, m.n
	for _, b := range m.bufs {
		end := min(b.Len(), skip+left)
		left -= end - skip
		if end > skip {
			out = append(out, b.Slice(skip, end))
		}
		skip = 0
	}
	return out, true
}

// keep makes bytes [from, to) of data the payload, and takes references to the buffers that hold them and no others.
func (m *Message) keep(data mem.BufferSlice, from, to int) {
	m.n, m.apart = to-from, true
	pos := 0
	first, last := len(data), 0
	for i, b := range data {
		end := pos + b.Len()
		if pos < to && end > from {
			if first > i {
				first, m.off = i, from-pos
			}
			last = i + 1
		}
		pos = end
	}
	if first < last {
		m.bufs = append(m.bufs, data[first:last]...)
		m.bufs.Ref()
	}
}

// NewBuffer makes a buffer of b for [Message.SetPayload]. release is called once, from any goroutine, when nothing
// uses b any more: neither the Message, which has to be freed, nor the transport. release may be nil.
//
// It may never be called: when a connection dies, grpc-go drops what waits for the peer's flow control without freeing
// it. So don't wait for release alone. Wait for the end of the call, too, and leave memory that hasn't come back by
// then to the collector: the connection's last write may still be reading it.
func NewBuffer(b []byte, release func()) mem.Buffer {
	switch {
	case release == nil:
		return mem.SliceBuffer(b)
	case mem.IsBelowBufferPoolingThreshold(cap(b)): // mem doesn't count references to small buffers
		c := mem.SliceBuffer(append([]byte(nil), b...))
		release()
		return c
	}
	return mem.NewBuffer(&b, releaser(release))
}

// releaser is a pool that nothing is taken from.
type releaser func()

func (releaser) Get(n int) *[]byte {
	b := make([]byte, n)
	return &b
}

func (r releaser) Put(*[]byte) { r() }
