package opcua

// Before package ua decodes a message, the guard walks it. The decoder allocates arrays of whatever length a message
// says and follows variants inside variants without end; the guard lets only those messages through whose arrays are
// really there and whose nesting is bounded. It follows the decoder's reading exactly, so what it accepts decodes.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/gopcua/opcua/ua"
)

var errShort = errors.New("opcua: a message ends too early")

type guard struct {
	b     []byte
	pos   int
	depth int
	err   error
}

var (
	typeTime      = reflect.TypeFor[time.Time]()
	typeNodeID    = reflect.TypeFor[ua.NodeID]()
	typeExpanded  = reflect.TypeFor[ua.ExpandedNodeID]()
	typeVariant   = reflect.TypeFor[ua.Variant]()
	typeDataValue = reflect.TypeFor[ua.DataValue]()
	typeDiag      = reflect.TypeFor[ua.DiagnosticInfo]()
	typeText      = reflect.TypeFor[ua.LocalizedText]()
	typeObject    = reflect.TypeFor[ua.ExtensionObject]()
	typeGUID      = reflect.TypeFor[ua.GUID]()
)

// inside are the structures that a request may carry in an extension object, by the id of their binary encoding. A type
// of this package decodes itself and is bounded by its bytes; its entry is nil.
var inside = map[nodeID]reflect.Type{
	num(0, 321): reflect.TypeFor[ua.AnonymousIdentityToken](),
	num(0, 324): reflect.TypeFor[ua.UserNameIdentityToken](),
	num(0, 327): reflect.TypeFor[ua.X509IdentityToken](),
	num(0, 940): reflect.TypeFor[ua.IssuedIdentityToken](),
	num(0, 724): reflect.TypeFor[ua.DataChangeFilter](),
	num(0, 727): reflect.TypeFor[ua.EventFilter](),
	num(0, 594): reflect.TypeFor[ua.ElementOperand](),
	num(0, 597): reflect.TypeFor[ua.LiteralOperand](),
	num(0, 603): reflect.TypeFor[ua.SimpleAttributeOperand](),
}

// guarded returns an error unless b begins with an encoded t that is safe to decode, and how long it is.
func guarded(b []byte, t reflect.Type) (int, error) {
	g := &guard{b: b}
	g.value(t)
	return g.pos, g.err
}

func (g *guard) fail(format string, a ...any) {
	if g.err == nil {
		g.err = fmt.Errorf("opcua: "+format, a...)
	}
}

func (g *guard) skip(n int) {
	switch {
	case g.err != nil:
	case n < 0 || n > len(g.b)-g.pos:
		g.err = errShort
	default:
		g.pos += n
	}
}

func (g *guard) byte() byte {
	p := g.pos
	if g.skip(1); g.err != nil {
		return 0
	}
	return g.b[p]
}

func (g *guard) uint32() uint32 {
	p := g.pos
	if g.skip(4); g.err != nil {
		return 0
	}
	return binary.LittleEndian.Uint32(g.b[p:])
}

// length reads an array's or a string's. None is 0.
func (g *guard) length() int {
	n := g.uint32()
	if n == 0xffffffff {
		return 0
	}
	if int64(n) > int64(len(g.b)-g.pos) { // no element takes less than a byte
		g.fail("a length of %d with %d bytes left", n, len(g.b)-g.pos)
		return 0
	}
	return int(n)
}

func (g *guard) elements() int {
	n := g.length()
	if n > maxArray {
		g.fail("an array of %d elements, at most %d", n, maxArray)
		return 0
	}
	return n
}

func (g *guard) value(t reflect.Type) {
	if g.err != nil {
		return
	}
	if g.depth++; g.depth > maxDepth {
		g.fail("nested deeper than %d", maxDepth)
		return
	}
	defer func() { g.depth-- }()
	switch t {
	case typeTime:
		g.skip(8)
		return
	case typeNodeID:
		g.nodeID()
		return
	case typeExpanded:
		mask := g.nodeID()
		if mask&0x80 != 0 {
			g.skip(g.length())
		}
		if mask&0x40 != 0 {
			g.skip(4)
		}
		return
	case typeGUID:
		g.skip(16)
		return
	case typeText:
		mask := g.byte()
		for bit := byte(1); bit <= 2; bit <<= 1 {
			if mask&bit != 0 {
				g.skip(g.length())
			}
		}
		return
	case typeVariant:
		g.variant()
		return
	case typeDataValue:
		mask := g.byte()
		if mask&1 != 0 {
			g.value(typeVariant)
		}
		for bit, n := range map[byte]int{2: 4, 4: 8, 8: 8, 16: 2, 32: 2} {
			if mask&bit != 0 {
				g.skip(n)
			}
		}
		return
	case typeDiag:
		mask := g.byte()
		for bit := byte(1); bit <= 8; bit <<= 1 {
			if mask&bit != 0 {
				g.skip(4)
			}
		}
		if mask&16 != 0 {
			g.skip(g.length())
		}
		if mask&32 != 0 {
			g.skip(4)
		}
		if mask&64 != 0 {
			g.value(typeDiag)
		}
		return
	case typeObject:
		g.object()
		return
	}
	switch t.Kind() {
	case reflect.Bool, reflect.Int8, reflect.Uint8:
		g.skip(1)
	case reflect.Int16, reflect.Uint16:
		g.skip(2)
	case reflect.Int32, reflect.Uint32, reflect.Float32:
		g.skip(4)
	case reflect.Int64, reflect.Uint64, reflect.Float64:
		g.skip(8)
	case reflect.String:
		g.skip(g.length())
	case reflect.Pointer:
		g.depth-- // a pointer is no level of its own
		g.value(t.Elem())
		g.depth++
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			g.skip(g.length())
			return
		}
		for n := g.elements(); n > 0 && g.err == nil; n-- {
			g.value(t.Elem())
		}
	case reflect.Struct:
		for i := range t.NumField() {
			g.value(t.Field(i).Type)
		}
	default:
		g.fail("no %s in messages", t)
	}
}

// nodeID returns the encoding byte, which has flags of expanded ids.
func (g *guard) nodeID() byte {
	mask := g.byte()
	switch ua.NodeIDType(mask & 0xf) {
	case ua.NodeIDTypeTwoByte:
		g.skip(1)
	case ua.NodeIDTypeFourByte:
		g.skip(3)
	case ua.NodeIDTypeNumeric:
		g.skip(6)
	case ua.NodeIDTypeGUID:
		g.skip(18)
	case ua.NodeIDTypeString, ua.NodeIDTypeByteString:
		g.skip(2)
		g.skip(g.length())
	default:
		g.fail("no node id of type %d", mask&0xf)
	}
	return mask
}

var variantTypes = map[ua.TypeID]reflect.Type{
	ua.TypeIDBoolean: reflect.TypeFor[bool](), ua.TypeIDSByte: reflect.TypeFor[int8](),
	ua.TypeIDByte:  reflect.TypeFor[byte](),
	ua.TypeIDInt16: reflect.TypeFor[int16](), ua.TypeIDUint16: reflect.TypeFor[uint16](),
	ua.TypeIDInt32: reflect.TypeFor[int32](), ua.TypeIDUint32: reflect.TypeFor[uint32](),
	ua.TypeIDInt64: reflect.TypeFor[int64](), ua.TypeIDUint64: reflect.TypeFor[uint64](),
	ua.TypeIDFloat: reflect.TypeFor[float32](), ua.TypeIDDouble: reflect.TypeFor[float64](),
	ua.TypeIDString: reflect.TypeFor[string](), ua.TypeIDDateTime: typeTime, ua.TypeIDGUID: typeGUID,
	ua.TypeIDByteString: reflect.TypeFor[[]byte](), ua.TypeIDXMLElement: reflect.TypeFor[string](),
	ua.TypeIDNodeID: typeNodeID, ua.TypeIDExpandedNodeID: typeExpanded, ua.TypeIDStatusCode: reflect.TypeFor[uint32](),
	ua.TypeIDQualifiedName: reflect.TypeFor[ua.QualifiedName](), ua.TypeIDLocalizedText: typeText,
	ua.TypeIDExtensionObject: typeObject, ua.TypeIDDataValue: typeDataValue, ua.TypeIDVariant: typeVariant,
	ua.TypeIDDiagnosticInfo: typeDiag,
}

func (g *guard) variant() {
	mask := g.byte()
	id := ua.TypeID(mask & 0x3f)
	if id == ua.TypeIDNull {
		return
	}
	t, ok := variantTypes[id]
	switch {
	case !ok:
		g.fail("no variant of type %d", id)
	case mask&ua.VariantArrayDimensions != 0:
		g.fail("an array of more than one dimension, which no node here takes")
	case mask&ua.VariantArrayValues == 0:
		g.value(t)
	default:
		for n := g.elements(); n > 0 && g.err == nil; n-- {
			g.value(t)
		}
	}
}

func (g *guard) object() {
	start := g.pos
	g.value(typeExpanded)
	if g.err != nil {
		return
	}
	id := new(ua.ExpandedNodeID)
	if _, err := id.Decode(g.b[start:g.pos]); err != nil {
		g.fail("%w", err)
		return
	}
	switch encoding := g.byte(); encoding {
	case ua.ExtensionObjectEmpty:
		return
	case ua.ExtensionObjectBinary:
	default:
		g.fail("an extension object with encoding %d, want binary", encoding)
		return
	}
	n := g.length()
	if n == 0 || g.err != nil {
		return
	}
	t, ok := inside[keyOf(id.NodeID)]
	if !ok {
		g.fail("an extension object of type %s, which no service here takes", id.NodeID)
		return
	}
	end := g.pos + n
	if t != nil {
		inner := guard{b: g.b[:end], pos: g.pos, depth: g.depth}
		inner.value(t)
		if inner.err != nil {
			g.err = inner.err
			return
		}
	}
	g.pos = end
}
