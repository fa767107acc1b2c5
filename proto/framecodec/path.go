// Where the payload of a message type is.

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

var paths sync.Map // protoreflect.MessageDescriptor to []protoreflect.FieldDescriptor

// pathOf returns the fields that lead to the payload of md, the payload's own last; nil where there is none.
func pathOf(md protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	if p, ok := paths.Load(md); ok {
		return p.([]protoreflect.FieldDescriptor)
	}
	p := findPath(md, map[protoreflect.FullName]bool{}, 0)
	paths.Store(md, p)
	return p
}

func findPath(md protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool,
	depth int) []protoreflect.FieldDescriptor {
	fields := md.Fields()
	if md.FullName() == frameName {
		fd := fields.ByName(payloadName)
		if fd == nil || fd.Kind() != protoreflect.BytesKind || fd.IsList() {
			return nil
		}
		return []protoreflect.FieldDescriptor{fd}
	}
	if depth == maxDepth || seen[md.FullName()] {
		return nil
	}
	seen[md.FullName()] = true
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.Kind() != protoreflect.MessageKind || fd.IsList() || fd.IsMap() {
			continue
		}
		if p := findPath(fd.Message(), seen, depth+1); p != nil {
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
