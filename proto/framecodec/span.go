// Spans: the bytes of a message inside a message on the wire, which a receiver may know already.

package framecodec

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Span is a run of bytes on the wire that decides a field. It shares the buffers of the wire, and is valid as long as
// those are.
type Span struct {
	data   mem.BufferSlice
	levels []level
}

// Locate finds the field at the end of a path of singular fields, each a member of the message before it. It reports
// false for a wire on which that field is missing, or on which anything else has a say in what it holds.
func Locate(data mem.BufferSlice, path ...protoreflect.FieldDescriptor) (Span, bool) {
	levels, ok := locate(data, path)
	return Span{data, levels}, ok
}

// Len is the number of bytes.
func (s Span) Len() int {
	last := s.levels[len(s.levels)-1]
	return last.innerEnd - last.inner
}

// Pieces yields the bytes, in order and without copying. None of the pieces is empty.
func (s Span) Pieces(yield func([]byte) bool) {
	last := s.levels[len(s.levels)-1]
	c := cursorAt(s.data, last.inner)
	for c.pos < last.innerEnd {
		c.settle()
		p := c.cur[:min(len(c.cur), last.innerEnd-c.pos)]
		if !yield(p) {
			return
		}
		c.skip(len(p))
	}
}

// Without is the wire with the field empty, in the same buffers. It has references of its own to them, and is to be
// freed.
func (s Span) Without() mem.BufferSlice {
	sizes := make([]int, len(s.levels)) // sizes[i] is the new length of what levels[i] leads to
	for i := len(s.levels) - 1; i > 0; i-- {
		l := s.levels[i]
		sizes[i-1] = (l.size - l.start) + protowire.SizeVarint(uint64(sizes[i])) + sizes[i] + (l.end - l.innerEnd)
	}
	out := make(mem.BufferSlice, 0, len(s.data)+4*len(s.levels))
	for i, l := range s.levels {
		out = appendBuffers(out, s.data, l.start, l.size)
		out = append(out, mem.SliceBuffer(protowire.AppendVarint(nil, uint64(sizes[i]))))
	}
	return appendBuffers(out, s.data, s.levels[len(s.levels)-1].innerEnd, s.levels[0].end)
}

// appendBuffers appends bytes [from, to) of data, with references of their own.
func appendBuffers(dst, data mem.BufferSlice, from, to int) mem.BufferSlice {
	pos := 0
	for _, b := range data {
		first, last := max(from-pos, 0), min(to-pos, b.Len())
		pos += b.Len()
		if first < last {
			dst = append(dst, b.Slice(first, last))
		}
	}
	return dst
}
