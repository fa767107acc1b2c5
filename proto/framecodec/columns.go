// Columns of results: received without a copy of each.

package framecodec

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const columnsName = protoreflect.FullName("polyscan.v1.RegionColumns")

// manyColumns is how long a message is, in bytes, whose columns are worth cutting out.
const manyColumns = 16 << 10

// unmarshalColumns reads a message that holds columns. Their bytes are copied once, out of the transport's buffers into
// one piece, and each column is a part of that. It reports false where the wire has no columns in the plain way; v is
// as it was then.
func unmarshalColumns(data mem.BufferSlice, v proto.Message) (done bool, err error) {
	root := v.ProtoReflect()
	path := columnPaths.of(root.Descriptor())
	levels, ok := locate(data, path)
	if !ok {
		return false, nil
	}
	rest := skeleton(data, levels)
	err = proto.Unmarshal(rest.ReadOnlyData(), v)
	rest.Free()
	if err != nil {
		return true, err
	}
	last := levels[len(levels)-1]
	b := appendRange(make([]byte, 0, last.innerEnd-last.inner), data, last.inner, last.innerEnd)
	for _, fd := range path {
		root = root.Mutable(fd).Message()
	}
	return true, alias(b, root)
}

// alias reads b into m, whose fields of bytes become parts of b.
func alias(b []byte, m protoreflect.Message) error {
	fields := m.Descriptor().Fields()
	var rest []byte // what is no bytes, and no message
	for len(b) > 0 {
		number, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		size := protowire.ConsumeFieldValue(number, typ, b[n:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		fd := fields.ByNumber(number)
		kind := protoreflect.Kind(0)
		if fd != nil && !fd.IsList() && !fd.IsMap() && typ == protowire.BytesType {
			kind = fd.Kind()
		}
		switch kind {
		case protoreflect.BytesKind:
			value, _ := protowire.ConsumeBytes(b[n:])
			m.Set(fd, protoreflect.ValueOfBytes(value[:len(value):len(value)]))
		case protoreflect.MessageKind:
			value, _ := protowire.ConsumeBytes(b[n:])
			if err := alias(value, m.Mutable(fd).Message()); err != nil {
				return err
			}
		default:
			rest = append(rest, b[:n+size]...)
		}
		b = b[n+size:]
	}
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(rest, m.Interface())
}
