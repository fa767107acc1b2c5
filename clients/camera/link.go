package main

// A camera: finding it by any of its names, and what is asked of it.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/polyscan/polyscan/clients/camera/internal/genicam"
	"github.com/polyscan/polyscan/clients/camera/internal/gvcp"
)

// searchTime is how long cameras have to answer.
const searchTime = time.Second

// find looks for the camera that a name means: its address, its serial number, its MAC or its user's name for it.
func find(ctx context.Context, name string) (gvcp.Info, error) {
	if a, err := netip.ParseAddr(name); err == nil && a.Is4() {
		return ask(ctx, netip.AddrPortFrom(a, gvcp.Port))
	}
	if a, err := netip.ParseAddrPort(name); err == nil && a.Addr().Is4() {
		return ask(ctx, a)
	}
	all, err := gvcp.Discover(ctx, searchTime)
	if err != nil {
		return gvcp.Info{}, err
	}
	if ctx.Err() != nil {
		return gvcp.Info{}, context.Cause(ctx)
	}
	return pick(name, all)
}

// pick is the camera among all that a name means. One that was heard over several networks is one all the same.
func pick(name string, all []gvcp.Info) (gvcp.Info, error) {
	var found []gvcp.Info
	var names []string
	for _, i := range all {
		same := func(o gvcp.Info) bool { return o.Serial == i.Serial && bytes.Equal(o.MAC, i.MAC) }
		if i.Matches(name) && !slices.ContainsFunc(found, same) {
			found = append(found, i)
		}
		names = append(names, i.Name())
	}
	switch {
	case len(found) > 1:
		return gvcp.Info{}, usage("%s: %d cameras have that name: give the address of one", name, len(found))
	case len(found) == 1:
		return found[0], nil
	case len(all) == 0:
		return gvcp.Info{}, fmt.Errorf("%s: no camera answers: see camera check", name)
	}
	return gvcp.Info{}, fmt.Errorf("%s: no camera of that name answers, but %s", name, strings.Join(names, ", "))
}

// ask asks a camera at an address who it is.
func ask(ctx context.Context, addr netip.AddrPort) (gvcp.Info, error) {
	d, err := gvcp.Dial(addr)
	if err != nil {
		return gvcp.Info{}, err
	}
	defer d.Close()
	b, err := d.ReadMem(ctx, 0, 0xf8)
	if err != nil {
		return gvcp.Info{}, fmt.Errorf("camera at %v: %w", addr, err)
	}
	i, err := gvcp.ParseInfo(b)
	i.Addr, i.Local = addr, d.Local()
	return i, err
}

// link is a camera that is asked.
type link struct {
	info gvcp.Info
	dev  *gvcp.Device
	*genicam.Camera
}

// memory is a camera's, for genicam.
type memory struct{ dev *gvcp.Device }

func (m memory) Read(ctx context.Context, addr uint32, n int) ([]byte, error) {
	if n != 4 || addr%4 != 0 {
		return m.dev.ReadMem(ctx, addr, n)
	}
	v, err := m.dev.ReadReg(ctx, addr)
	return []byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}, err
}

func (m memory) Write(ctx context.Context, addr uint32, data []byte) error {
	if len(data) != 4 || addr%4 != 0 {
		return m.dev.WriteMem(ctx, addr, data)
	}
	return m.dev.WriteReg(ctx, addr, uint32(data[0])<<24|uint32(data[1])<<16|uint32(data[2])<<8|uint32(data[3]))
}

// open reads the camera's description and, where control is set, takes the right to write to it.
func open(ctx context.Context, info gvcp.Info, control bool) (_ *link, err error) {
	dev, err := gvcp.Dial(info.Addr)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("camera %s: %w", info.Name(), err), dev.Close())
		}
	}()
	if control {
		if err := dev.Control(ctx); err != nil {
			return nil, err
		}
	}
	xml, err := readDescription(ctx, dev)
	if err != nil {
		return nil, err
	}
	m, err := genicam.Parse(xml)
	if err != nil {
		return nil, err
	}
	return &link{info, dev, genicam.New(m, memory{dev})}, nil
}

func (l *link) close() error { return l.dev.Close() }

// readDescription reads the file that the camera's first URL names, or its second where the first is elsewhere.
func readDescription(ctx context.Context, dev *gvcp.Device) ([]byte, error) {
	var errs []error
	for i := range uint32(2) {
		b, err := dev.ReadMem(ctx, gvcp.RegXMLURL+512*i, 512)
		if err != nil {
			return nil, err
		}
		addr, size, err := parseURL(gvcp.Text(b))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		return dev.ReadMem(ctx, addr, size)
	}
	return nil, errors.Join(errs...)
}

// parseURL reads where a description lies in the camera's memory: Local:NAME;ADDRESS;SIZE, both hexadecimal.
func parseURL(url string) (addr uint32, size int, err error) {
	rest := ""
	if i := strings.IndexByte(url, ':'); i >= 0 && strings.EqualFold(url[:i], "local") {
		rest = strings.TrimPrefix(url[i+1:], "///")
	}
	rest, _, _ = strings.Cut(rest, "?")
	parts := strings.Split(rest, ";")
	if len(parts) != 3 {
		return 0, 0, fmt.Errorf("the camera's description is at %q: only those in its memory are read", url)
	}
	hex := func(s string) uint64 {
		v, perr := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(strings.TrimSpace(s)), "0x"), 16, 32)
		if perr != nil {
			err = fmt.Errorf("the camera's description is at %q: %w", url, perr)
		}
		return v
	}
	a, n := hex(parts[1]), hex(parts[2])
	if err == nil && (n < 1 || n > genicam.MaxBytes || a+n > 1<<32) {
		err = fmt.Errorf("the camera's description has %d bytes: must be 1 to %d", n, genicam.MaxBytes)
	}
	return uint32(a), int(n), err
}
