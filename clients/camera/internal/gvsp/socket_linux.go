package gvsp

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// growBuffer asks for a socket buffer, past the system's limit where this process may, and returns what it got.
func growBuffer(c *net.UDPConn, n int) (got int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	if cerr := raw.Control(func(fd uintptr) {
		if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, n) != nil {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, n)
		}
		if err == nil {
			got, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
		}
	}); cerr != nil {
		return 0, cerr
	}
	return got / 2, err // the kernel doubles it, for its own accounts
}

// kernelDropped is how many packets the kernel had no room for at a UDP socket of this host.
func kernelDropped(addr netip.AddrPort) uint64 {
	text, err := os.ReadFile("/proc/net/udp")
	if err != nil {
		return 0
	}
	b := addr.Addr().As4()
	local := fmt.Appendf(nil, "%02X%02X%02X%02X:%04X", b[3], b[2], b[1], b[0], addr.Port())
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) > 12 && bytes.Equal(fields[1], local) {
			n, _ := strconv.ParseUint(string(fields[len(fields)-1]), 10, 64)
			return n
		}
	}
	return 0
}
