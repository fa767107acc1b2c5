package gvcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Info is what a camera says of itself when it is looked for.
type Info struct {
	Addr         netip.AddrPort // where it was heard
	IP           netip.Addr     // where it says it is
	MAC          net.HardwareAddr
	Manufacturer string
	Model        string
	Version      string
	Serial       string
	UserName     string
	// Interface is the name of this host's interface that reaches it, and Local its address there.
	Interface string
	Local     netip.Addr
}

// ParseInfo reads the answer to a DiscoveryCmd, which is the beginning of a camera's registers.
func ParseInfo(b []byte) (Info, error) {
	if len(b) < discoverySize {
		return Info{}, fmt.Errorf("gvcp: discovery answer of %d bytes: must be %d", len(b), discoverySize)
	}
	text := func(at, n int) string { return Text(b[at : at+n]) }
	return Info{
		MAC:          net.HardwareAddr(bytes.Clone(b[RegMACHigh+2 : RegMACLow+4])),
		IP:           netip.AddrFrom4([4]byte(b[RegIPAddress:])),
		Manufacturer: text(RegManufacturer, 32), Model: text(RegModel, 32), Version: text(RegDeviceVersion, 32),
		Serial: text(RegSerial, 16), UserName: text(RegUserName, 16),
	}, nil
}

// Text is a string of registers: up to the first zero, with what can't be printed left out.
func Text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, string(b)))
}

// Matches reports whether a camera is the one that name means: its address, MAC, serial number or the name that its
// user gave it.
func (i Info) Matches(name string) bool {
	return name != "" && (name == i.Addr.Addr().String() || name == i.Addr.String() || name == i.Serial ||
		name == i.UserName || strings.EqualFold(name, i.MAC.String()))
}

// Name is how a camera is called in reports: its user's name for it, its serial number or its address.
func (i Info) Name() string { return cmp.Or(i.UserName, i.Serial, i.Addr.Addr().String()) }

// maxFound bounds how many cameras one search lists: what answers is not under our control.
const maxFound = 1024

// Discover asks all networks of this host, and the addresses in also, for cameras, and lists those that answer within
// the time, each once.
func Discover(ctx context.Context, wait time.Duration, also ...netip.AddrPort) ([]Info, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	type answer struct {
		info Info
		err  error
	}
	answers := make(chan answer)
	asked := 0
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue // it went away
		}
		for _, a := range addrs {
			prefix, err := netip.ParsePrefix(a.String())
			if err != nil || !prefix.Addr().Is4() {
				continue
			}
			to := []netip.AddrPort{
				netip.AddrPortFrom(broadcast(prefix), Port),
				netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), Port),
			}
			if prefix.Addr().IsLoopback() { // where fake cameras are
				to = append(to[:1], netip.AddrPortFrom(prefix.Addr(), Port))
			}
			for _, a := range also {
				if prefix.Contains(a.Addr()) {
					to = append(to, a)
				}
			}
			asked++
			go func() {
				err := ask(ctx, prefix.Addr(), to, func(info Info) {
					info.Interface, info.Local = i.Name, prefix.Addr()
					select {
					case answers <- answer{info: info}:
					case <-ctx.Done():
					}
				})
				answers <- answer{err: err} // the loop below takes one from each
			}()
		}
	}
	if asked == 0 {
		return nil, errors.New("gvcp: this host has no IPv4 network")
	}
	var found []Info
	var failed error
	for ended := 0; ended < asked; {
		a := <-answers
		switch {
		case a.info.Addr.IsValid():
			known := slices.ContainsFunc(found, func(o Info) bool { return o.Addr == a.info.Addr })
			if !known && len(found) < maxFound {
				found = append(found, a.info)
			}
		default:
			ended++
			failed = errors.Join(failed, a.err)
		}
	}
	slices.SortFunc(found, func(a, b Info) int { return a.Addr.Compare(b.Addr) })
	if len(found) == 0 {
		return nil, failed
	}
	return found, nil
}

// broadcast is the last address of a network.
func broadcast(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	n := binary.BigEndian.Uint32(b[:]) | uint32(1<<(32-p.Bits())-1)
	binary.BigEndian.PutUint32(b[:], n)
	return netip.AddrFrom4(b)
}

// askAgain is how often the question goes out: it or its answer may be lost.
const askAgain = 250 * time.Millisecond

func ask(ctx context.Context, local netip.Addr, to []netip.AddrPort, found func(Info)) error {
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0)))
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.SetReadDeadline(time.Unix(1, 0)) })()
	request := Packet{Flags: FlagAck | FlagBroadcast, Command: DiscoveryCmd, ID: 0xffff}.Append(nil)
	var b [MaxPacket + 1]byte
	var sent time.Time
	for ctx.Err() == nil {
		if time.Since(sent) >= askAgain {
			var errs []error
			for _, a := range to {
				if _, err := c.WriteToUDPAddrPort(request, a); err != nil {
					errs = append(errs, err)
				}
			}
			if len(errs) == len(to) {
				return errors.Join(errs...)
			}
			sent = time.Now()
		}
		c.SetReadDeadline(time.Now().Add(askAgain))
		if ctx.Err() != nil {
			return nil
		}
		n, from, err := c.ReadFromUDPAddrPort(b[:])
		if err != nil {
			continue // nothing came, or an ICMP error of an address where no camera is
		}
		p, err := ParseAck(b[:n])
		if err != nil || p.Command != DiscoveryAck || p.Status != StatusOK {
			continue // what answers to a broadcast needn't be a camera
		}
		info, err := ParseInfo(p.Data)
		if err != nil {
			continue
		}
		info.Addr = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		found(info)
	}
	return nil
}
