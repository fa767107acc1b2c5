//go:build !linux

package gvsp

import (
	"net"
	"net/netip"
)

// growBuffer asks for a socket buffer; what is granted isn't known.
func growBuffer(c *net.UDPConn, n int) (int, error) { return 0, c.SetReadBuffer(n) }

// kernelDropped isn't known here.
func kernelDropped(netip.AddrPort) uint64 { return 0 }
