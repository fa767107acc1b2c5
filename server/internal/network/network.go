// Package network knows where connections come from, as far as fairness needs it.
package network

import (
	"net"
	"net/netip"
)

// Of is the network that an address is of: the address itself without its port, or the /64 of IPv6, all of which one
// client has.
func Of(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if a = a.Unmap(); a.Is4() {
		return a.String()
	}
	p, _ := a.WithZone("").Prefix(64)
	return p.String()
}

// Crowd counts connections by their networks. Its user guards it.
type Crowd map[string]*int

// Join counts one of a network, and returns how many there are of it, which goes on counting.
func (c Crowd) Join(network string) *int {
	n := c[network]
	if n == nil {
		n = new(int)
		c[network] = n
	}
	*n++
	return n
}

// Leave ends what Join began.
func (c Crowd) Leave(network string) {
	if n := c[network]; *n > 1 {
		*n--
		return
	}
	delete(c, network)
}
