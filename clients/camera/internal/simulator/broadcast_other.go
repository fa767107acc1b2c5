//go:build !linux

package simulator

import (
	"net"
	"net/netip"
)

// listenBroadcast has no sockets here: the camera is found by its address.
func listenBroadcast(netip.Addr) []*net.UDPConn { return nil }
