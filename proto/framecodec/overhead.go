// Overhead: what a message takes in memory beyond its bytes, before it is unmarshalled.

package framecodec

import (
	"reflect"
	"sync"
	"unsafe"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Overhead returns how many bytes unmarshalling data into m would take for the structs of messages inside messages, and
// for the headers of repeated strings and bytes. An empty message is two bytes on the wire and a hundred in memory, so
// a bound on the bytes of a request alone bounds nothing. It reads as far as data is well-formed, and stops where the
// result exceeds limit.
//
// It takes time proportional to the number of fields, and skips payloads.
func Overhead(data mem.BufferSlice, m proto.Message, limit int64) int64 {
	if w, ok := m.(*Message); ok {
		m = w.Message
	}
	c := cursorAt(data, 0)
	total := int64(0)
	measure(&c, data.Len(), shapeOf(m.ProtoReflect()), &total, limit)
	return total
}

// Beside is how many bytes of data are not the payload of v, which stays where it is.
func Beside(data mem.BufferSlice, v any) int {
	m, ok := v.(*Message)
	if !ok {
		return data.Len()
	}
	levels, ok := locate(data, pathOf(m.Message.ProtoReflect().Descriptor()))
	if !ok {
		return data.Len()
	}
	last := levels[len(levels)-1]
	return data.Len() - (last.innerEnd - last.inner)
}

// shape is what Overhead has to know of a message type.
type shape struct {
	size     int64                         // of its struct, and of a pointer to it
	messages map[protowire.Number]*shape   // fields that hold messages
	headers  map[protowire.Number]struct{} // repeated strings and bytes
}

var (
	shapes   = map[protoreflect.MessageDescriptor]*shape{}
	shapesMu sync.Mutex
)

func shapeOf(m protoreflect.Message) *shape {
	shapesMu.Lock()
	defer shapesMu.Unlock()
	return makeShape(m)
}

func makeShape(m protoreflect.Message) *shape {
	md := m.Descriptor()
	if s, ok := shapes[md]; ok {
		return s
	}
	s := &shape{
		size:     int64(reflect.TypeOf(m.Interface()).Elem().Size() + unsafe.Sizeof(uintptr(0))),
		messages: map[protowire.Number]*shape{},
		headers:  map[protowire.Number]struct{}{},
	}
	shapes[md] = s // before its fields: types may be recursive
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		switch {
		case fd.IsMap():
			// An entry is on the wire what a message is; none of our requests has one.
			s.headers[fd.Number()] = struct{}{}
		case fd.Kind() == protoreflect.MessageKind && fd.IsList():
			s.messages[fd.Number()] = makeShape(m.NewField(fd).List().NewElement().Message())
		case fd.Kind() == protoreflect.MessageKind:
			s.messages[fd.Number()] = makeShape(m.NewField(fd).Message())
		case fd.IsList() && (fd.Kind() == protoreflect.StringKind || fd.Kind() == protoreflect.BytesKind):
			s.headers[fd.Number()] = struct{}{}
		}
	}
	return s
}

// measure adds up the fields before end. It reports false where there is nothing more to be learned.
func measure(c *cursor, end int, s *shape, total *int64, limit int64) bool {
	for c.pos < end {
		f, ok := c.field(end)
		if !ok {
			return false
		}
		if f.typ == protowire.BytesType { // groups have the fields of an unknown one
			if inner := s.messages[f.number]; inner != nil {
				*total += inner.size
				if *total > limit || !measure(c, c.pos+f.n, inner, total, limit) {
					return false
				}
				continue
			}
			if _, ok := s.headers[f.number]; ok {
				if *total += int64(unsafe.Sizeof("")); *total > limit {
					return false
				}
			}
		}
		c.skip(f.n)
	}
	return true
}
