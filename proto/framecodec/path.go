// Where the payload of a message type is, and its columns.

package framecodec

import (
	"slices"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	frameName   = protoreflect.FullName("polyscan.v1.Frame")
	payloadName = protoreflect.Name("data")
	// maxDepth is the most messages that a path leads through. Ours lead through one or two.
	maxDepth = 8
)

// paths are the fields that lead from message types to what is at their end, as far as that was asked for.
type paths struct {
	known sync.Map // protoreflect.MessageDescriptor to []protoreflect.FieldDescriptor
	// end returns the rest of the way in a type where it ends; nil in others.
	end func(protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor
}

var payloadPaths = paths{end: func(md protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	if md.FullName() != frameName {
		return nil
	}
	fd := md.Fields().ByName(payloadName)
	if fd == nil || fd.Kind() != protoreflect.BytesKind || fd.IsList() {
		return nil
	}
	return []protoreflect.FieldDescriptor{fd}
}}

var columnPaths = paths{end: func(md protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	if md.FullName() != columnsName {
		return nil
	}
	return []protoreflect.FieldDescriptor{}
}}

// pathOf returns the fields that lead to the payload of md, the payload's own last; nil where there is none.
func pathOf(md protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	return payloadPaths.of(md)
}

func (s *paths) of(md protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	if p, ok := s.known.Load(md); ok {
		return p.([]protoreflect.FieldDescriptor)
	}
	p := s.find(md, map[protoreflect.FullName]bool{}, 0)
	s.known.Store(md, p)
	return p
}

func (s *paths) find(md protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool,
	depth int) []protoreflect.FieldDescriptor {
	if p := s.end(md); p != nil {
		return p
	}
	fields := md.Fields()
	if depth == maxDepth || seen[md.FullName()] {
		return nil
	}
	seen[md.FullName()] = true
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.Kind() != protoreflect.MessageKind || fd.IsList() || fd.IsMap() {
			continue
		}
		if p := s.find(fd.Message(), seen, depth+1); p != nil {
			return slices.Insert(p, 0, fd)
		}
	}
	return nil
}

// sibling reports whether number is another member of fd's oneof: one that would clear fd when it comes later.
func sibling(fd protoreflect.FieldDescriptor, number protoreflect.FieldNumber) bool {
	o := fd.ContainingOneof()
	return o != nil && o.Fields().ByNumber(number) != nil
}
