package simulator

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"

	"github.com/polyscan/polyscan/clients/camera/internal/gvcp"
	"github.com/polyscan/polyscan/clients/camera/internal/gvsp"
)

//go:embed description.xml
var description []byte

// Registers of this camera beside those that all have; description.xml says the same.
const (
	regScanType      = 0x8000
	regSensorWidth   = 0x8004
	regSensorHeight  = 0x8008
	regWidth         = 0x800c
	regHeight        = 0x8010
	regOffsetX       = 0x8014
	regOffsetY       = 0x8018
	regFormat        = 0x801c
	regMode          = 0x8020
	regAcquisition   = 0x8024
	regRate          = 0x8028
	regTriggerSelect = 0x802c
	regTriggerMode   = 0x8030
	regTriggerSource = 0x8034
	regTrigger       = 0x8038
	regExposure      = 0x803c
	regGain          = 0x8040
	regLocked        = 0x8044
	regChunkMode     = 0x8048
	regPad           = 0x804c
	regEventSelect   = 0x8050
	regEvents        = 0x8054

	bootstrapSize = 0x1000
	ownFirst      = regScanType
	ownSize       = 0x100
	xmlAddress    = 0x10000
)

// registers are a camera's memory.
type registers struct {
	bootstrap [bootstrapSize]byte
	own       [ownSize]byte
}

// at is the memory at an address, as far as it goes; nil where there is none.
func (r *registers) at(addr uint32) []byte {
	switch {
	case addr < bootstrapSize:
		return r.bootstrap[addr:]
	case addr >= ownFirst && addr < ownFirst+ownSize:
		return r.own[addr-ownFirst:]
	case addr >= xmlAddress && uint64(addr) < xmlAddress+uint64(len(description)+3)/4*4:
		rest := description[min(int(addr-xmlAddress), len(description)):]
		if len(rest) < gvcp.MaxData { // the last words are filled up
			rest = append(bytes.Clone(rest), make([]byte, (4-len(description)%4)%4)...)
		}
		return rest
	}
	return nil
}

func (r *registers) get(addr uint32) uint32 { return binary.BigEndian.Uint32(r.at(addr)) }
func (r *registers) set(addr, v uint32)     { binary.BigEndian.PutUint32(r.at(addr), v) }

// write sets a register that may be written to a value that it takes.
func (r *registers) write(addr, v uint32) gvcp.Status {
	within := func(least, most uint32) gvcp.Status {
		if v < least || v > most {
			return gvcp.StatusInvalidParam
		}
		r.set(addr, v)
		return gvcp.StatusOK
	}
	locked := func(s func() gvcp.Status) gvcp.Status {
		if r.get(regAcquisition) != 0 {
			return gvcp.StatusWriteProtect
		}
		return s()
	}
	float := func(least, most float32) gvcp.Status {
		if f := math.Float32frombits(v); !(f >= least && f <= most) {
			return gvcp.StatusInvalidParam
		}
		r.set(addr, v)
		return gvcp.StatusOK
	}
	switch addr {
	case gvcp.RegHeartbeat:
		return within(500, 600_000)
	case gvcp.RegStreamPort, gvcp.RegMessagePort:
		return within(0, 1<<16-1)
	case gvcp.RegStreamAddress, gvcp.RegMessageAddress, gvcp.RegPacketDelay:
		return within(0, math.MaxUint32)
	case gvcp.RegPacketSize:
		size := v & 0xffff
		if size < gvsp.MinPacket || size > gvsp.MaxPacket || size%4 != 0 {
			return gvcp.StatusInvalidParam
		}
		return locked(func() gvcp.Status { r.set(addr, v&^gvcp.PacketFireTest); return gvcp.StatusOK })
	case regWidth:
		return locked(func() gvcp.Status { return within(1, r.get(regSensorWidth)-r.get(regOffsetX)) })
	case regHeight:
		return locked(func() gvcp.Status { return within(1, r.get(regSensorHeight)-r.get(regOffsetY)) })
	case regOffsetX:
		return locked(func() gvcp.Status { return within(0, r.get(regSensorWidth)-r.get(regWidth)) })
	case regOffsetY:
		return locked(func() gvcp.Status { return within(0, r.get(regSensorHeight)-r.get(regHeight)) })
	case regChunkMode:
		return locked(func() gvcp.Status { return within(0, 1) })
	case regMode, regTriggerMode, regLocked, regAcquisition, regEvents:
		return within(0, 1)
	case regTriggerSelect, regTriggerSource, regEventSelect:
		return within(0, 0)
	case regTrigger:
		return within(1, 1)
	case regRate:
		return float(0.1, 100_000)
	case regExposure:
		return float(1, 1_000_000)
	case regGain:
		return float(0, 24)
	}
	if addr >= gvcp.RegUserName && addr < gvcp.RegUserName+16 {
		r.set(addr, v)
		return gvcp.StatusOK
	}
	if r.at(addr) == nil {
		return gvcp.StatusInvalidAddress
	}
	return gvcp.StatusWriteProtect
}

// fill sets what a new camera has.
func (r *registers) fill(cfg *Config, local netip.Addr) {
	text := func(addr uint32, n int, s string) { copy(r.at(addr)[:n-1], s) }
	r.set(gvcp.RegVersion, 2<<16)
	r.set(gvcp.RegDeviceMode, 1<<31|1) // big-endian, UTF-8
	ip := local.As4()
	r.set(gvcp.RegMACHigh, 0x0200) // locally administered
	r.set(gvcp.RegMACLow, binary.BigEndian.Uint32(ip[:])^uint32(len(cfg.Serial))<<24^sum(cfg.Serial))
	r.set(0x10, 7) // all ways to an address, of which it uses the fixed one
	r.set(0x14, 5)
	copy(r.at(gvcp.RegIPAddress), ip[:])
	r.set(gvcp.RegSubnet, 0xffffff00)
	text(gvcp.RegManufacturer, 32, "polyscan")
	text(gvcp.RegModel, 32, "Simulator")
	text(gvcp.RegDeviceVersion, 32, "1.0")
	text(gvcp.RegInfo, 48, "a simulated camera")
	text(gvcp.RegSerial, 16, cfg.Serial)
	text(gvcp.RegUserName, 16, cfg.Name)
	text(gvcp.RegXMLURL, 512, fmt.Sprintf("Local:polyscan-simulator.xml;%x;%x", xmlAddress, len(description)))
	r.set(gvcp.RegInterfaces, 1)
	r.set(gvcp.RegMessageChannels, 1)
	r.set(gvcp.RegStreamChannels, 1)
	capability := uint32(1<<31 | 1<<30 | gvcp.CapabilityWriteMem)
	if !cfg.NoResend {
		capability |= gvcp.CapabilityResend
	}
	r.set(gvcp.RegCapability, capability)
	r.set(gvcp.RegHeartbeat, 3000)
	r.set(gvcp.RegTickFrequencyLo, 1_000_000_000)
	r.set(gvcp.RegPacketSize, 1500)
	if cfg.Lines {
		r.set(regScanType, 1)
	}
	r.set(regSensorWidth, uint32(cfg.Width))
	r.set(regSensorHeight, uint32(cfg.Height))
	r.set(regWidth, uint32(cfg.Width))
	r.set(regHeight, uint32(cfg.Height))
	r.set(regFormat, uint32(cfg.Format))
	r.set(regPad, uint32(cfg.Pad))
	r.set(regRate, math.Float32bits(float32(cfg.Rate)))
	r.set(regExposure, math.Float32bits(1000))
}

func sum(s string) (n uint32) {
	for i := range len(s) {
		n = n*31 + uint32(s[i])
	}
	return n
}
