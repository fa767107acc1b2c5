package modbus

// Requests and their answers: the protocol without its transport.

import (
	"encoding/binary"
	"net/netip"
	"sync"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

// Functions.
const (
	readCoils      = 1
	readDiscretes  = 2
	readHoldings   = 3
	readInputs     = 4
	writeCoil      = 5
	writeRegister  = 6
	writeCoils     = 15
	writeRegisters = 16
	readWrite      = 23
)

// Exceptions, as "MODBUS Application Protocol Specification" has them.
const (
	illegalFunction = 1
	illegalAddress  = 2
	illegalValue    = 3
	busy            = 6  // another one holds the station
	noTarget        = 11 // no station has this unit id
)

// maxPDU is the length of a request or answer behind the unit id.
const maxPDU = 253

// Quantities that fit an answer or a request.
const (
	maxReadBits   = 2000
	maxWriteBits  = 1968
	maxRead       = 125
	maxWrite      = 123
	maxReadWriteW = 121
)

// unit is a station and what its PLC has written.
type unit struct {
	station *station.Station
	order   WordOrder

	mu      sync.Mutex
	session *station.Session
	regs    [holdings]uint16
}

// answer carries a request out, and appends its answer to out.
func (u *unit) answer(from netip.Addr, pdu, out []byte) []byte {
	function := pdu[0]
	data := pdu[1:]
	refuse := func(code byte) []byte { return append(out, function|0x80, code) }
	field := func(i int) int { return int(binary.BigEndian.Uint16(data[2*i:])) }
	switch function {
	case readCoils, readDiscretes:
		if len(data) != 4 || field(1) < 1 || field(1) > maxReadBits {
			return refuse(illegalValue)
		}
		size, bits := len(station.BitNames), uint16(0)
		if function == readCoils {
			size = coils
		}
		if field(0)+field(1) > size {
			return refuse(illegalAddress)
		}
		if function == readCoils {
			u.mu.Lock()
			bits = u.regs[1]
			u.mu.Unlock()
		} else {
			snap := u.station.Snapshot()
			bits = uint16(snap.Bits)
		}
		n := (field(1) + 7) / 8
		bits = bits >> field(0) & (1<<field(1) - 1)
		out = append(out, function, byte(n), byte(bits))
		if n > 1 {
			out = append(out, byte(bits>>8))
		}
		return out
	case readHoldings, readInputs:
		if len(data) != 4 || field(1) < 1 || field(1) > maxRead {
			return refuse(illegalValue)
		}
		w, code := u.read(function, from, field(0), field(1))
		if code != 0 {
			return refuse(code)
		}
		return appendWords(append(out, function, byte(2*len(w))), w)
	case writeCoil:
		if len(data) != 4 || field(1) != 0 && field(1) != 0xFF00 {
			return refuse(illegalValue)
		}
		if field(0) >= coils {
			return refuse(illegalAddress)
		}
		bit := uint16(1) << field(0)
		if code := u.write(from, func(r *[holdings]uint16) {
			if r[1] &^= bit; field(1) != 0 {
				r[1] |= bit
			}
		}); code != 0 {
			return refuse(code)
		}
		return append(out, pdu...)
	case writeCoils:
		if len(data) < 5 || field(1) < 1 || field(1) > maxWriteBits || int(data[4]) != (field(1)+7)/8 || len(data) != 5+int(data[4]) {
			return refuse(illegalValue)
		}
		if field(0)+field(1) > coils {
			return refuse(illegalAddress)
		}
		mask := uint16(1<<field(1)-1) << field(0)
		bits := uint16(data[5]) << field(0) & mask
		if code := u.write(from, func(r *[holdings]uint16) { r[1] = r[1]&^mask | bits }); code != 0 {
			return refuse(code)
		}
		return append(out, pdu[:5]...)
	case writeRegister:
		if len(data) != 4 {
			return refuse(illegalValue)
		}
		if field(0) >= holdings {
			return refuse(illegalAddress)
		}
		if code := u.write(from, func(r *[holdings]uint16) { r[field(0)] = uint16(field(1)) }); code != 0 {
			return refuse(code)
		}
		return append(out, pdu...)
	case writeRegisters:
		if len(data) < 5 || field(1) < 1 || field(1) > maxWrite || int(data[4]) != 2*field(1) || len(data) != 5+int(data[4]) {
			return refuse(illegalValue)
		}
		if code := u.writeWords(from, field(0), data[5:]); code != 0 {
			return refuse(code)
		}
		return append(out, pdu[:5]...)
	case readWrite: // the write comes first
		if len(data) < 9 || field(1) < 1 || field(1) > maxRead || field(3) < 1 || field(3) > maxReadWriteW ||
			int(data[8]) != 2*field(3) || len(data) != 9+int(data[8]) {
			return refuse(illegalValue)
		}
		if field(0)+field(1) > inputs+inputBase || field(0) < inputBase && field(0)+field(1) > holdings {
			return refuse(illegalAddress)
		}
		if code := u.writeWords(from, field(2), data[9:]); code != 0 {
			return refuse(code)
		}
		w, code := u.read(readHoldings, from, field(0), field(1))
		if code != 0 {
			return refuse(code)
		}
		return appendWords(append(out, function, byte(2*len(w))), w)
	}
	return refuse(illegalFunction)
}

// inputBase is where the input registers are seen among the holding registers, too: function 23 reads those alone.
const inputBase = 1000

func appendWords(out []byte, w []uint16) []byte {
	for _, v := range w {
		out = binary.BigEndian.AppendUint16(out, v)
	}
	return out
}

// read returns registers; holding registers from inputBase on are the input registers.
func (u *unit) read(function byte, from netip.Addr, address, n int) ([]uint16, byte) {
	if function == readHoldings && address < inputBase {
		if address+n > holdings {
			return nil, illegalAddress
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		w := u.regs
		return w[address : address+n], 0
	}
	if function == readHoldings {
		address -= inputBase
	}
	if address+n > inputs {
		return nil, illegalAddress
	}
	snap := u.station.Snapshot()
	if snap.Result.Sequence != 0 && snap.Result.Steps.Read.IsZero() && address <= 10 && address+n > 10 {
		u.mu.Lock()
		session := u.session
		u.mu.Unlock()
		if session != nil && session.Owner() == owner(from) {
			session.Read(snap.Result.Sequence)
		}
	}
	w := image(&snap, u.order)
	return w[address : address+n], 0
}

func (u *unit) writeWords(from netip.Addr, address int, data []byte) byte {
	n := len(data) / 2
	if address+n > holdings {
		return illegalAddress
	}
	return u.write(from, func(r *[holdings]uint16) {
		for i := range n {
			r[address+i] = binary.BigEndian.Uint16(data[2*i:])
		}
	})
}

func owner(from netip.Addr) string { return "modbus " + from.Unmap().String() }

// write changes the image of a PLC, and carries out what that asks for. A PLC that becomes the holder begins with
// zeros.
func (u *unit) write(from netip.Addr, change func(*[holdings]uint16)) byte {
	u.mu.Lock()
	defer u.mu.Unlock()
	session, err := u.station.Acquire(owner(from))
	if err != nil {
		return busy
	}
	if session != u.session {
		u.session, u.regs = session, [holdings]uint16{}
	}
	change(&u.regs)
	if !session.Write(outputs(&u.regs, u.order)) {
		return busy
	}
	return 0
}
