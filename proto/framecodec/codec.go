// Package framecodec is the gRPC codec for messages that carry a frame.
//
// The default codec copies a message's bytes fields: once into one piece, then into the message. For a frame of
// several megabytes that is most of what a call costs. This codec reads and writes the same wire format under the
// same name, "proto", but leaves the payload where it is: what was received stays in the transport's pooled buffers
// until [Message.Free], and what is sent goes out from the caller's memory.
//
// The payload of a message type is the first field polyscan.v1.Frame.data that is reachable through singular message
// fields, such as ReduceRequest.frame.data or StreamFramesRequest.frame.data. A [Message] wraps the generated message;
// everything else, wrapped or not, is the default codec's work, with the same results, but that columns of results
// (polyscan.v1.RegionColumns) are received as parts of one piece of memory. Either side may use plain
// protobuf, and neither notices.
//
// Use it with grpc.ForceServerCodecV2 and grpc.ForceCodecV2. The codec is not registered globally.
//
// # Ownership
//
// A Message that was received holds one reference to each buffer of its payload. [Message.Free] gives them back, once
// however often it is called; slices from [Message.Pieces] are invalid after it. Receiving into the same Message again
// frees what it held. Nobody frees a Message but the one who received into it, errors included: gRPC may have filled it
// before it reports an error.
//
// A Message that is sent keeps its own references; the transport takes others and drops them when the bytes are
// written, or never will be, which may be after the call has returned, or not happen at all where the connection dies.
// Memory that is to be used again has to come in a counted buffer, see [NewBuffer] and [Message.SetPayload].
package framecodec

import (
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that this one falls back to
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Codec returns the codec. It may be used by any number of clients and servers at the same time.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2("proto")} }

type codec struct{ plain encoding.CodecV2 }

func (codec) Name() string { return "proto" }

// Marshal writes a Message as a head, which holds everything but the payload, and behind it the payload's own buffers.
// It writes the fields that lead to the payload last.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*Message)
	if !ok {
		return c.plain.Marshal(v)
	}
	path := pathOf(m.Message.ProtoReflect().Descriptor())
	payload, ok := m.outgoing(path)
	if !ok {
		return c.plain.Marshal(m.Message)
	}
	head, err := marshalHead(m.Message.ProtoReflect(), path, payload.Len())
	if err != nil {
		payload.Free()
		return nil, err
	}
	return append(mem.BufferSlice{head}, payload...), nil
}

// marshalHead writes root without its payload, and the tags and lengths that lead up to a payload of n bytes.
func marshalHead(root protoreflect.Message, path []protoreflect.FieldDescriptor, n int) (mem.Buffer, error) {
	// From the payload outwards: the length of a message is known once that of the message inside is.
	rest := make([]proto.Message, len(path))
	for i, cur := 0, root; i < len(path); i++ {
		rest[i] = without(cur, path[i])
		if i+1 < len(path) {
			cur = cur.Get(path[i]).Message()
		}
	}
	lens := make([]int, len(path)) // lens[i] is what follows the tag of path[i]
	opts := proto.MarshalOptions{UseCachedSize: true}
	total := n
	for i := len(path) - 1; i >= 0; i-- {
		lens[i] = total
		total += protowire.SizeTag(path[i].Number()) + protowire.SizeVarint(uint64(lens[i])) + proto.Size(rest[i])
	}

	buf := newBuffer(total - n)
	for i, m := range rest {
		var err error
		if buf.b, err = opts.MarshalAppend(buf.b, m); err != nil {
			buf.done().Free()
			return nil, err
		}
		buf.b = protowire.AppendTag(buf.b, path[i].Number(), protowire.BytesType)
		buf.b = protowire.AppendVarint(buf.b, uint64(lens[i]))
	}
	return buf.done(), nil
}

// without returns a copy of m that shares everything with it but lacks one field.
func without(m protoreflect.Message, skip protoreflect.FieldDescriptor) proto.Message {
	c := m.New()
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if fd != skip {
			c.Set(fd, v)
		}
		return true
	})
	if u := m.GetUnknown(); len(u) > 0 {
		c.SetUnknown(u)
	}
	return c.Interface()
}

// Unmarshal reads what is on the wire into v. Where v is a Message and the wire has its payload exactly once, in the
// plain way that every encoder writes it, the payload stays in data and the rest is unmarshalled with an empty payload
// in its place. Any other wire is left to the default codec, so that merged and overridden fields come out right.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*Message)
	if !ok {
		if plain, ok := v.(proto.Message); ok && data.Len() >= manyColumns {
			if done, err := unmarshalColumns(data, plain); done {
				return err
			}
		}
		return c.plain.Unmarshal(data, v)
	}
	m.Free()
	path := pathOf(m.Message.ProtoReflect().Descriptor())
	levels, ok := locate(data, path)
	if !ok {
		return c.plain.Unmarshal(data, m.Message)
	}
	rest := skeleton(data, levels)
	err := proto.Unmarshal(rest.ReadOnlyData(), m.Message)
	rest.Free()
	if err != nil {
		return err
	}
	last := levels[len(levels)-1]
	m.keep(data, last.inner, last.innerEnd)
	return nil
}
