package main

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/clients/camera/internal/gvcp"
)

func TestPick(t *testing.T) {
	at := func(addr, serial, user string, mac byte) gvcp.Info {
		return gvcp.Info{Addr: netip.MustParseAddrPort(addr + ":3956"), Serial: serial, UserName: user,
			MAC: net.HardwareAddr{2, 0, 0, 0, 0, mac}}
	}
	all := []gvcp.Info{
		at("10.0.0.1", "A", "top", 1), at("10.0.1.1", "A", "top", 1), at("10.0.0.2", "B", "side", 2), at("10.0.0.3",
			"C", "side", 3),
	}
	for name, want := range map[string]string{
		"A": "10.0.0.1", "top": "10.0.0.1", "10.0.1.1": "10.0.1.1", "B": "10.0.0.2", "02:00:00:00:00:03": "10.0.0.3",
		"side": "2 cameras have that name", "D": "no camera of that name answers, but top, top, side, side",
		"": "no camera",
	} {
		got, err := pick(name, all)
		if err == nil && got.Addr.Addr().String() != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %s", name, got.Addr, err, want)
		}
	}
	if _, err := pick("A", nil); err == nil || !strings.Contains(err.Error(), "no camera answers") {
		t.Errorf("%v", err)
	}
}

// Where a description lies is read as cameras write it, and held to bounds.
func TestParseURL(t *testing.T) {
	for url, want := range map[string]struct {
		addr uint32
		size int
	}{
		"Local:a.xml;10000;3e0":        {0x10000, 0x3e0},
		"local:///a.zip;0xFFF0;0x10?X": {0xfff0, 16},
		"LOCAL:a;1;1000001":            {}, "Local:a;ffffffff;2": {}, "Local:a;1": {}, "http://a;1;2": {}, "": {},
		"Local:a;x;1": {},
		"Local:a;1;0": {},
	} {
		addr, size, err := parseURL(url)
		if (err == nil) != (want.size > 0) || err == nil && (addr != want.addr || size != want.size) {
			t.Errorf("%q: %#x, %d, %v", url, addr, size, err)
		}
	}
}
