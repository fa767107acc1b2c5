package main

// The command check: what of this host's settings costs packets.

import (
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/polyscan/polyscan/clients/camera/internal/gvsp"
)

type checkCmd struct {
	// Only the interface with this name; by default all that are up.
	Interface string `placeholder:"NAME"`
}

// wantBuffer is what a socket should hold: a third of a second of a 100 MB/s camera.
const wantBuffer = 32 << 20

// finding is one setting.
type finding struct {
	what, value string
	advice      string // empty: it is fine
}

func (c *checkCmd) Run(e *env) error {
	rx, err := gvsp.Listen(netip.AddrFrom4([4]byte{127, 0, 0, 1}), wantBuffer)
	if err != nil {
		return err
	}
	granted := rx.Buffer()
	if err := rx.Close(); err != nil {
		return err
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	if c.Interface != "" {
		i, err := net.InterfaceByName(c.Interface)
		if err != nil {
			return usage("--interface %s: %v", c.Interface, err)
		}
		interfaces = []net.Interface{*i}
	}
	found := hostFindings(os.DirFS("/"), granted, interfaces)
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	bad := 0
	for _, f := range found {
		mark := "ok"
		if f.advice != "" {
			mark = "!!"
			bad++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", mark, f.what, f.value, f.advice)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if bad > 0 {
		return errFailed
	}
	return nil
}

// hostFindings looks at a host: its files below root, the socket buffer that it grants, and its interfaces.
func hostFindings(root fs.FS, granted int, interfaces []net.Interface) (found []finding) {
	read := func(name string) string {
		b, err := fs.ReadFile(root, name)
		if err != nil {
			return "" // what a host doesn't tell isn't judged
		}
		return strings.TrimSpace(string(b))
	}
	number := func(name string) (int64, bool) {
		n, err := strconv.ParseInt(read(name), 10, 64)
		return n, err == nil
	}

	f := finding{what: "socket buffer", value: fmt.Sprintf("%d bytes", granted)}
	if granted < wantBuffer {
		f.advice = fmt.Sprintf("packets are dropped while this program waits for the processor: "+
			"sysctl -w net.core.rmem_max=%d", wantBuffer)
	}
	found = append(found, f)

	if n, ok := number("proc/sys/net/core/netdev_max_backlog"); ok {
		f := finding{what: "network backlog", value: fmt.Sprintf("%d packets", n)}
		if n < 1000 {
			f.advice = "bursts are dropped before they reach a socket: sysctl -w net.core.netdev_max_backlog=5000"
		}
		found = append(found, f)
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		f := finding{what: "MTU of " + i.Name, value: fmt.Sprintf("%d bytes", i.MTU)}
		if i.MTU < 8192 {
			f.advice = fmt.Sprintf("each packet costs: where camera and switch take jumbo frames, "+
				"ip link set %s mtu 9000", i.Name)
		}
		found = append(found, f)
		for _, name := range []string{"rx_missed_errors", "rx_fifo_errors"} {
			if n, ok := number(path.Join("sys/class/net", i.Name, "statistics", name)); ok {
				f := finding{what: name + " of " + i.Name, value: fmt.Sprint(n)}
				if n > 0 {
					f.advice = fmt.Sprintf("the interface had no room: ethtool -G %s rx 4096", i.Name)
				}
				found = append(found, f)
			}
		}
	}
	governors, _ := fs.Glob(root, "sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")
	slow := ""
	for _, g := range governors {
		if v := read(g); v != "performance" {
			slow = v
		}
	}
	if len(governors) > 0 {
		f := finding{what: "CPU governor", value: "performance"}
		if slow != "" {
			f.value, f.advice = slow, "a processor that sleeps wakes too late: cpupower frequency-set -g performance"
		}
		found = append(found, f)
	}
	if n, ok := udpErrors(read("proc/net/snmp")); ok {
		f := finding{what: "UDP packets without room", value: fmt.Sprint(n)}
		if n > 0 {
			f.advice = "since this host started, sockets of any program had no room: a larger buffer, or less work beside it"
		}
		found = append(found, f)
	}
	return found
}

// udpErrors is RcvbufErrors of /proc/net/snmp.
func udpErrors(text string) (uint64, bool) {
	var names []string
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "Udp: ")
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if names == nil {
			names = fields
			continue
		}
		for i, n := range names {
			if n == "RcvbufErrors" && i < len(fields) {
				v, err := strconv.ParseUint(fields[i], 10, 64)
				return v, err == nil
			}
		}
	}
	return 0, false
}
