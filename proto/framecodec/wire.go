// Finding the payload on the wire, and cutting it out.

package framecodec

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// level is one message on the way to the payload, as offsets into the wire. Its bytes are [start, end); in them the
// field that leads on has its length at [size, inner) and its bytes at [inner, innerEnd).
type level struct {
	start, end      int
	size            int
	inner, innerEnd int
}

// locate walks along path. It reports false for any wire on which the payload isn't a single run of bytes that
// decides the field: a field on the path that is missing, doubled (messages merge), of another wire type or followed by
// another member of its oneof; groups; and anything malformed.
func locate(data mem.BufferSlice, path []protoreflect.FieldDescriptor) ([]level, bool) {
	if len(path) == 0 {
		return nil, false
	}
	levels := make([]level, 0, len(path))
	next := level{start: 0, end: data.Len()}
	for _, fd := range path {
		l, ok := scan(data, next.start, next.end, fd)
		if !ok {
			return nil, false
		}
		levels = append(levels, l)
		next = level{start: l.inner, end: l.innerEnd}
	}
	return levels, true
}

// scan looks at all fields of the message at [start, end) and finds the one that is fd.
func scan(data mem.BufferSlice, start, end int, fd protoreflect.FieldDescriptor) (level, bool) {
	l := level{start: start, end: end}
	found := false
	c := cursorAt(data, start)
	for c.pos < end {
		f, ok := c.field(end)
		if !ok || !f.number.IsValid() || f.group() || sibling(fd, f.number) && f.number != fd.Number() {
			return l, false
		}
		if f.number == fd.Number() {
			if found || f.typ != protowire.BytesType { // of another type it is an unknown field to protobuf
				return l, false
			}
			found = true
			l.size, l.inner, l.innerEnd = f.size, c.pos, c.pos+f.n
		}
		c.skip(f.n)
	}
	return l, found
}

// skeleton is the wire without the payload's bytes: the payload has length 0 and the messages around it are that much
// shorter. The result is to be freed.
func skeleton(data mem.BufferSlice, levels []level) mem.Buffer {
	sizes := make([]int, len(levels)) // sizes[i] is the new length of what levels[i] leads to
	total := 0
	for i := len(levels) - 1; i >= 0; i-- {
		l := levels[i]
		sizes[i] = total
		total += (l.size - l.start) + protowire.SizeVarint(uint64(sizes[i])) + (l.end - l.innerEnd)
	}
	buf := newBuffer(total)
	for i, l := range levels {
		buf.b = appendRange(buf.b, data, l.start, l.size)
		buf.b = protowire.AppendVarint(buf.b, uint64(sizes[i]))
	}
	for i := len(levels) - 1; i >= 0; i-- {
		buf.b = appendRange(buf.b, data, levels[i].innerEnd, levels[i].end)
	}
	return buf.done()
}

// buffer is a buffer under construction. Only large ones come from the pool, as everywhere in gRPC: a request may hold
// megabytes of regions.
type buffer struct {
	b      []byte
	pooled *[]byte
}

func newBuffer(n int) buffer {
	if mem.IsBelowBufferPoolingThreshold(n) {
		return buffer{b: make([]byte, 0, n)}
	}
	p := mem.DefaultBufferPool().Get(n)
	return buffer{b: (*p)[:0], pooled: p}
}

// done returns what was written. It is to be freed.
func (b buffer) done() mem.Buffer {
	if b.pooled == nil {
		return mem.SliceBuffer(b.b)
	}
	*b.pooled = b.b
	return mem.NewBuffer(b.pooled, mem.DefaultBufferPool())
}

// appendRange appends bytes [from, to) of data.
func appendRange(dst []byte, data mem.BufferSlice, from, to int) []byte {
	if from == to {
		return dst
	}
	c := cursorAt(data, from)
	for from < to {
		c.settle()
		p := c.cur[:min(len(c.cur), to-from)]
		dst = append(dst, p...)
		from += len(p)
		c.skip(len(p))
	}
	return dst
}

// cursor is a position in a list of buffers. cur is what is left of the current one.
type cursor struct {
	pos  int
	cur  []byte
	rest mem.BufferSlice
}

func cursorAt(data mem.BufferSlice, pos int) cursor {
	c := cursor{rest: data}
	c.skip(pos)
	return c
}

// settle moves on to a buffer that isn't empty. It reports false at the end.
func (c *cursor) settle() bool {
	for len(c.cur) == 0 {
		if len(c.rest) == 0 {
			return false
		}
		c.cur, c.rest = c.rest[0].ReadOnlyData(), c.rest[1:]
	}
	return true
}

// skip goes n bytes on. There must be as many.
func (c *cursor) skip(n int) {
	c.pos += n
	for n > len(c.cur) {
		n -= len(c.cur)
		c.cur, c.rest = c.rest[0].ReadOnlyData(), c.rest[1:]
	}
	c.cur = c.cur[n:]
}

// field is the head of a field: what comes before its bytes.
type field struct {
	number protowire.Number
	typ    protowire.Type
	size   int // where the length is, of those that have one
	n      int // bytes that follow; 0 for a varint, which has been read, and for the ends of a group
}

// group reports whether the field begins or ends a group.
func (f field) group() bool {
	return f.typ == protowire.StartGroupType || f.typ == protowire.EndGroupType
}

// field reads the head of a field of a message that ends at end. It reports false where the field isn't whole.
func (c *cursor) field(end int) (f field, ok bool) {
	tag, ok := c.uvarint()
	if !ok {
		return f, false
	}
	f.number, f.typ = protowire.DecodeTag(tag)
	f.size = c.pos
	switch f.typ {
	case protowire.VarintType:
		_, ok = c.uvarint()
	case protowire.Fixed32Type:
		f.n = 4
	case protowire.Fixed64Type:
		f.n = 8
	case protowire.BytesType:
		var n uint64
		if n, ok = c.uvarint(); n > uint64(max(end-c.pos, 0)) {
			return f, false
		}
		f.n = int(n)
	case protowire.StartGroupType, protowire.EndGroupType:
	default:
		return f, false
	}
	return f, ok && f.n <= end-c.pos
}

// uvarint reads a varint as protowire does: at most ten bytes, the tenth no more than 1.
func (c *cursor) uvarint() (uint64, bool) {
	var x uint64
	for i := range 10 {
		if !c.settle() {
			return 0, false
		}
		b := c.cur[0]
		c.cur = c.cur[1:]
		c.pos++
		if i == 9 && b > 1 {
			return 0, false
		}
		x |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return x, true
		}
	}
	return 0, false
}
