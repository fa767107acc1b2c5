// Package gvsp is the stream protocol of GigE Vision cameras (GVSP, over UDP): its packets, the assembly of blocks
// (frames, or runs of lines) out of them, and the socket that receives them.
//
// A block comes as a leader (packet 0), packets of payload (from 1) and a trailer. The block's id and the packet's id
// are the camera's own counters: nothing else says what was lost. Everything in a packet is big-endian; pixels are as
// the camera has them, little-endian where they have two bytes.
//
// What comes from the network is checked before it is used. [Assembler] is a pure type: no socket, no clock.
//
// Source of the facts: GigE Vision as Aravis and Wireshark's dissector have it.
package gvsp

import (
	"encoding/binary"
	"fmt"
)

// Kind is what a packet is.
type Kind uint8

// Kinds of packets that this package knows.
const (
	KindLeader  Kind = 1
	KindTrailer Kind = 2
	KindPayload Kind = 3
)

// Sizes. The overhead of a packet is what its size at the camera (SCPS) counts beside the payload: IP, UDP and the
// header of this protocol.
const (
	headerSize       = 8
	extendedSize     = 20
	Overhead         = 20 + 8 + headerSize
	ExtendedOverhead = 20 + 8 + extendedSize
	leaderSize       = 36
	trailerSize      = 8
	extendedTrailer  = 16
	// MinPacket and MaxPacket bound a packet's size at the camera.
	MinPacket = 576
	MaxPacket = 65535 - 3 // a multiple of 4
)

const (
	extendedBit = 1 << 31
	packetMask  = 0xffffff
)

// Payload types of a block: one image and nothing else, chunks of which the first one is an image, and the bit of one
// with chunks behind it.
const (
	PayloadImage    = 0x0001
	PayloadChunks   = 0x0004
	PayloadExtended = 0x4000
)

// chunksLeader is how long the leader of PayloadChunks is.
const chunksLeader = 12

// Statuses of packets. An error says that a packet that was asked for again can't be sent.
const (
	StatusOK             = 0x0000
	StatusResent         = 0x0100
	StatusUnavailable    = 0x800c
	StatusNotYet         = 0x8010
	StatusAndPrevRemoved = 0x8011
	StatusRemoved        = 0x8012
	errorBit             = 0x8000
)

// Packet is one of a stream. Data refers to the bytes that it was parsed from.
type Packet struct {
	Status   uint16
	Block    uint64
	Extended bool // 64-bit block ids, 32-bit packet ids
	Kind     Kind
	ID       uint32
	Data     []byte
}

// Parse reads a packet.
func Parse(b []byte) (p Packet, err error) {
	if len(b) < headerSize {
		return p, fmt.Errorf("gvsp: packet of %d bytes: at least %d are its header", len(b), headerSize)
	}
	p.Status = binary.BigEndian.Uint16(b)
	info := binary.BigEndian.Uint32(b[4:])
	p.Kind = Kind(info >> 24 & 0x7f)
	if info&extendedBit == 0 {
		p.Block = uint64(binary.BigEndian.Uint16(b[2:]))
		p.ID = info & packetMask
		p.Data = b[headerSize:]
		return p, nil
	}
	if len(b) < extendedSize {
		return p, fmt.Errorf("gvsp: packet of %d bytes: at least %d are its extended header", len(b), extendedSize)
	}
	p.Extended = true
	p.Block = binary.BigEndian.Uint64(b[8:])
	p.ID = binary.BigEndian.Uint32(b[16:])
	p.Data = b[extendedSize:]
	return p, nil
}

// Append adds the packet's bytes to dst.
func (p Packet) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, p.Status)
	info := uint32(p.Kind) << 24
	if !p.Extended {
		dst = binary.BigEndian.AppendUint16(dst, uint16(p.Block))
		dst = binary.BigEndian.AppendUint32(dst, info|p.ID&packetMask)
		return append(dst, p.Data...)
	}
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, info|extendedBit)
	dst = binary.BigEndian.AppendUint64(dst, p.Block)
	dst = binary.BigEndian.AppendUint32(dst, p.ID)
	return append(dst, p.Data...)
}

// Leader says what a block holds. Sizes are in pixels, PadX in bytes at the end of each line.
type Leader struct {
	PayloadType      uint16
	Timestamp        uint64 // in ticks of the camera's clock
	Format           PixelFormat
	Width, Height    uint32
	OffsetX, OffsetY uint32
	PadX, PadY       uint16
}

// ParseLeader reads the data of a leader of an image; that of chunks has a time and nothing else.
func ParseLeader(b []byte) (l Leader, err error) {
	if len(b) >= chunksLeader && binary.BigEndian.Uint16(b[2:]) == PayloadChunks {
		return Leader{PayloadType: PayloadChunks, Timestamp: binary.BigEndian.Uint64(b[4:])}, nil
	}
	if len(b) < leaderSize {
		return l, fmt.Errorf("gvsp: leader of %d bytes: an image's has %d", len(b), leaderSize)
	}
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	return Leader{
		PayloadType: binary.BigEndian.Uint16(b[2:]), Timestamp: uint64(u32(4))<<32 | uint64(u32(8)),
		Format: PixelFormat(u32(12)), Width: u32(16), Height: u32(20), OffsetX: u32(24), OffsetY: u32(28),
		PadX: binary.BigEndian.Uint16(b[32:]), PadY: binary.BigEndian.Uint16(b[34:]),
	}, nil
}

// Append adds the leader's data to dst.
func (l Leader) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = binary.BigEndian.AppendUint16(dst, l.PayloadType)
	dst = binary.BigEndian.AppendUint64(dst, l.Timestamp)
	for _, v := range []uint32{uint32(l.Format), l.Width, l.Height, l.OffsetX, l.OffsetY} {
		dst = binary.BigEndian.AppendUint32(dst, v)
	}
	dst = binary.BigEndian.AppendUint16(dst, l.PadX)
	return binary.BigEndian.AppendUint16(dst, l.PadY)
}

// Trailer ends a block. Height is how many lines it has, which may be less than its leader said, and Payload how many
// bytes one with PayloadExtended has, chunks and all; 0 where it doesn't say.
type Trailer struct {
	PayloadType uint16
	Height      uint32
	Payload     uint32
}

// ParseTrailer reads the data of a trailer.
func ParseTrailer(b []byte) (t Trailer, err error) {
	if len(b) < trailerSize {
		return t, fmt.Errorf("gvsp: trailer of %d bytes: an image's has %d", len(b), trailerSize)
	}
	t = Trailer{PayloadType: binary.BigEndian.Uint16(b[2:]), Height: binary.BigEndian.Uint32(b[4:])}
	if t.PayloadType&PayloadExtended != 0 && len(b) >= extendedTrailer {
		t.Payload = binary.BigEndian.Uint32(b[trailerSize:])
	}
	return t, nil
}

// Append adds the trailer's data to dst.
func (t Trailer) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = binary.BigEndian.AppendUint16(dst, t.PayloadType)
	dst = binary.BigEndian.AppendUint32(dst, t.Height)
	if t.PayloadType&PayloadExtended != 0 {
		dst = binary.BigEndian.AppendUint32(dst, t.Payload)
		dst = append(dst, 0, 0, 0, 0) // the layout of the chunks
	}
	return dst
}

// Chunk is data that a camera sends behind an image, such as a counter. What an id means its description says.
type Chunk struct {
	ID   uint32
	Data []byte
}

// maxChunks bounds those of a block.
const maxChunks = 256

// ParseChunks reads the chunks behind an image, of [Block.Chunks]: data, then an id and the data's length, from the end
// on. The one that holds the image ends them; of it only the id and length are there.
func ParseChunks(b []byte) (out []Chunk, err error) {
	for len(b) >= 8 && len(out) < maxChunks {
		id, n := binary.BigEndian.Uint32(b[len(b)-8:]), int64(binary.BigEndian.Uint32(b[len(b)-4:]))
		b = b[:len(b)-8]
		if n > int64(len(b)) {
			if len(b) > 0 {
				return nil, fmt.Errorf("gvsp: chunk %#x of %d bytes, where %d are left", id, n, len(b))
			}
			return out, nil // the image
		}
		out = append(out, Chunk{id, b[len(b)-int(n):]})
		b = b[:len(b)-int(n)]
	}
	if len(b) > 0 && len(out) == maxChunks {
		return nil, fmt.Errorf("gvsp: more than %d chunks", maxChunks)
	}
	return out, nil
}
