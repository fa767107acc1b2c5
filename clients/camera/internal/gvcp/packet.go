// Package gvcp is the control protocol of GigE Vision cameras (GVCP, UDP port 3956): its packets, finding cameras, and
// reading and writing their registers while holding the right to control them.
//
// Everything in a packet is big-endian. A command has the key 0x42, flags, a command, the length of what follows and a
// request id; its acknowledgement a status, the command plus one, a length and the same id. What comes from the network
// is checked before it is used, and what a camera can make this package hold is bounded by the sizes below.
//
// Source of the facts: GigE Vision as Aravis and Wireshark's dissector have it.
package gvcp

import (
	"encoding/binary"
	"fmt"
)

// Port is where cameras listen.
const Port = 3956

// Command is the kind of a packet.
type Command uint16

// Commands. An acknowledgement is its command plus one, but that of PendingAck, which is none's.
const (
	DiscoveryCmd Command = 0x0002
	DiscoveryAck Command = 0x0003
	ResendCmd    Command = 0x0040
	ReadRegCmd   Command = 0x0080
	ReadRegAck   Command = 0x0081
	WriteRegCmd  Command = 0x0082
	WriteRegAck  Command = 0x0083
	ReadMemCmd   Command = 0x0084
	ReadMemAck   Command = 0x0085
	WriteMemCmd  Command = 0x0086
	WriteMemAck  Command = 0x0087
	PendingAck   Command = 0x0089
	EventCmd     Command = 0x00c0 // from the camera
	EventAck     Command = 0x00c1
	EventDataCmd Command = 0x00c2
)

// Flags of commands.
const (
	FlagAck       = 0x01 // an answer is wanted
	FlagExtended  = 0x10 // of ResendCmd and events: 64-bit block ids
	FlagBroadcast = 0x10 // of DiscoveryCmd: the answer may be a broadcast
)

const (
	key        = 0x42
	headerSize = 8
	// MaxData is the most bytes of memory that one packet reads or writes; a multiple of 4.
	MaxData = 512
	// MaxPacket is the longest packet that is taken.
	MaxPacket = 576
)

// Registers that every camera has, by their addresses.
const (
	RegVersion         = 0x0000
	RegDeviceMode      = 0x0004
	RegMACHigh         = 0x0008
	RegMACLow          = 0x000c
	RegIPAddress       = 0x0024
	RegSubnet          = 0x0034
	RegManufacturer    = 0x0048 // 32 bytes
	RegModel           = 0x0068 // 32
	RegDeviceVersion   = 0x0088 // 32
	RegInfo            = 0x00a8 // 48
	RegSerial          = 0x00d8 // 16
	RegUserName        = 0x00e8 // 16
	RegXMLURL          = 0x0200 // 512, and a second one behind it
	RegInterfaces      = 0x0600
	RegMessageChannels = 0x0900
	RegStreamChannels  = 0x0904
	RegCapability      = 0x0934
	RegHeartbeat       = 0x0938 // milliseconds
	RegTickFrequencyHi = 0x093c
	RegTickFrequencyLo = 0x0940
	RegControl         = 0x0a00 // CCP
	RegMessagePort     = 0x0b00 // MCP
	RegMessageAddress  = 0x0b10 // MCDA
	RegStreamPort      = 0x0d00 // SCP0
	RegPacketSize      = 0x0d04 // SCPS0
	RegPacketDelay     = 0x0d08 // SCPD0
	RegStreamAddress   = 0x0d18 // SCDA0
)

// Bits of registers.
const (
	CapabilityWriteMem = 1 << 1
	CapabilityResend   = 1 << 2
	ControlExclusive   = 1 << 0
	ControlControl     = 1 << 1
	PacketFireTest     = 1 << 31
	PacketNoFragment   = 1 << 30
	discoverySize      = 0xf8
	urlSize            = 512
)

// A Packet is a command or an acknowledgement. Data refers to the bytes that it was parsed from.
type Packet struct {
	Ack     bool
	Status  Status // of an acknowledgement
	Flags   byte   // of a command
	Command Command
	ID      uint16
	Data    []byte
}

// Append adds the packet's bytes to dst. Data longer than MaxPacket allows is a mistake of the caller, and panics.
func (p Packet) Append(dst []byte) []byte {
	if len(p.Data) > MaxPacket-headerSize {
		panic("gvcp: packet too long")
	}
	if p.Ack {
		dst = binary.BigEndian.AppendUint16(dst, uint16(p.Status))
	} else {
		dst = append(dst, key, p.Flags)
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(p.Command))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(p.Data)))
	dst = binary.BigEndian.AppendUint16(dst, p.ID)
	return append(dst, p.Data...)
}

// ParseCommand reads a command.
func ParseCommand(b []byte) (Packet, error) {
	p, err := parse(b)
	if err == nil && b[0] != key {
		err = fmt.Errorf("gvcp: key %#02x: a command has %#02x", b[0], key)
	}
	p.Flags = flagsOf(b)
	return p, err
}

// ParseAck reads an acknowledgement.
func ParseAck(b []byte) (Packet, error) {
	p, err := parse(b)
	if err == nil {
		p.Ack, p.Status = true, Status(binary.BigEndian.Uint16(b))
	}
	return p, err
}

func flagsOf(b []byte) byte {
	if len(b) < 2 {
		return 0
	}
	return b[1]
}

func parse(b []byte) (Packet, error) {
	if len(b) < headerSize || len(b) > MaxPacket {
		return Packet{}, fmt.Errorf("gvcp: packet of %d bytes: must be %d to %d", len(b), headerSize, MaxPacket)
	}
	n := int(binary.BigEndian.Uint16(b[4:]))
	if n > len(b)-headerSize {
		return Packet{}, fmt.Errorf("gvcp: packet says %d bytes of data and has %d", n, len(b)-headerSize)
	}
	return Packet{
		Command: Command(binary.BigEndian.Uint16(b[2:])), ID: binary.BigEndian.Uint16(b[6:]),
		Data: b[headerSize : headerSize+n],
	}, nil
}

// Status is what an acknowledgement says of its command: 0 for success.
type Status uint16

// Statuses that this package and the simulator give.
const (
	StatusOK             Status = 0x0000
	StatusNotImplemented Status = 0x8001
	StatusInvalidParam   Status = 0x8002
	StatusInvalidAddress Status = 0x8003
	StatusWriteProtect   Status = 0x8004
	StatusBadAlignment   Status = 0x8005
	StatusAccessDenied   Status = 0x8006
	StatusBusy           Status = 0x8007
)

var statusNames = map[Status]string{
	StatusOK: "success", StatusNotImplemented: "not implemented", StatusInvalidParam: "invalid parameter",
	StatusInvalidAddress: "invalid address", StatusWriteProtect: "write protected",
	StatusBadAlignment: "bad alignment", StatusAccessDenied: "access denied: another program controls it",
	StatusBusy: "busy",
}

func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return fmt.Sprintf("status %#04x", uint16(s))
}

// Error makes a status an error.
func (s Status) Error() string { return "the camera says: " + s.String() }

// Resend asks for packets of a block again: those from first to last.
type Resend struct {
	Block       uint64
	First, Last uint32
	Extended    bool // 64-bit block ids, 32-bit packet ids
}

const maxPacketID = 0xffffff

// Packet is the command, which has no acknowledgement.
func (r Resend) Packet(id uint16) Packet {
	b := make([]byte, 4, 20) // the stream channel is 0
	p := Packet{Command: ResendCmd, ID: id}
	if r.Extended {
		p.Flags = FlagExtended
		b = binary.BigEndian.AppendUint32(b, r.First)
		b = binary.BigEndian.AppendUint32(b, r.Last)
		b = binary.BigEndian.AppendUint64(b, r.Block)
	} else {
		binary.BigEndian.PutUint16(b[2:], uint16(r.Block))
		b = binary.BigEndian.AppendUint32(b, r.First&maxPacketID)
		b = binary.BigEndian.AppendUint32(b, r.Last&maxPacketID)
	}
	p.Data = b
	return p
}

// ParseResend reads what a ResendCmd asks for.
func ParseResend(p Packet) (Resend, error) {
	r := Resend{Extended: p.Flags&FlagExtended != 0}
	want := 12
	if r.Extended {
		want = 20
	}
	if p.Command != ResendCmd || len(p.Data) < want {
		return r, fmt.Errorf("gvcp: resend of %d bytes: must be %d", len(p.Data), want)
	}
	r.First = binary.BigEndian.Uint32(p.Data[4:])
	r.Last = binary.BigEndian.Uint32(p.Data[8:])
	if r.Extended {
		r.Block = binary.BigEndian.Uint64(p.Data[12:])
	} else {
		r.Block = uint64(binary.BigEndian.Uint16(p.Data[2:]))
		r.First &= maxPacketID
		r.Last &= maxPacketID
	}
	if r.Last < r.First {
		return r, fmt.Errorf("gvcp: resend of packets %d to %d", r.First, r.Last)
	}
	return r, nil
}
