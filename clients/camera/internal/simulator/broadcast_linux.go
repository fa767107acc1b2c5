package simulator

import (
	"context"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/polyscan/polyscan/clients/camera/internal/gvcp"
)

// listenBroadcast makes sockets for what is asked of all cameras of the network that an address belongs to. Cameras on
// one host share them.
func listenBroadcast(local netip.Addr) (conns []*net.UDPConn) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		cerr := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
		if cerr != nil {
			return cerr
		}
		return err
	}}
	for _, a := range append(broadcasts(local), netip.AddrFrom4([4]byte{255, 255, 255, 255})) {
		// Where it can't be had the camera is still found by its address.
		at := netip.AddrPortFrom(a, gvcp.Port).String()
		if c, err := config.ListenPacket(context.Background(), "udp4", at); err == nil {
			conns = append(conns, c.(*net.UDPConn))
		}
	}
	return conns
}

// broadcasts are the last addresses of this host's networks that hold an address.
func broadcasts(local netip.Addr) (found []netip.Addr) {
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() && p.Contains(local) {
			b := p.Masked().Addr().As4()
			for i := p.Bits(); i < 32; i++ {
				b[i/8] |= 0x80 >> (i % 8)
			}
			found = append(found, netip.AddrFrom4(b))
		}
	}
	return found
}
