package main

import (
	"net"
	"strings"
	"testing"
	"testing/fstest"
)

func TestHostFindings(t *testing.T) {
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	eth := net.Interface{Name: "eth5", MTU: 1500, Flags: net.FlagUp}
	bad := fstest.MapFS{
		"proc/sys/net/core/netdev_max_backlog":                 text("300\n"),
		"sys/class/net/eth5/statistics/rx_missed_errors":       text("7\n"),
		"sys/class/net/eth5/statistics/rx_fifo_errors":         text("0\n"),
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": text("performance\n"),
		"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": text("powersave\n"),
		"proc/net/snmp": text("Ip: a\nUdp: InDatagrams RcvbufErrors\nUdp: 5 9\n"),
	}
	got := map[string]finding{}
	for _, f := range hostFindings(bad, 1000, []net.Interface{eth, {Name: "lo", MTU: 100,
		Flags: net.FlagUp | net.FlagLoopback}, {Name: "down"}}) {
		got[f.what] = f
	}
	for what, want := range map[string]string{
		"socket buffer": "rmem_max", "network backlog": "netdev_max_backlog", "MTU of eth5": "mtu 9000",
		"rx_missed_errors of eth5": "ethtool", "CPU governor": "cpupower", "UDP packets without room": "since",
		"rx_fifo_errors of eth5": "",
	} {
		f, ok := got[what]
		if !ok || (want == "") != (f.advice == "") || !strings.Contains(f.advice, want) {
			t.Errorf("%s: %+v, want %q", what, f, want)
		}
		delete(got, what)
	}
	if len(got) > 0 {
		t.Errorf("besides: %v", got)
	}
	good := fstest.MapFS{
		"proc/sys/net/core/netdev_max_backlog":                 text("5000\n"),
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": text("performance\n"),
		"proc/net/snmp": text("Udp: RcvbufErrors InDatagrams\nUdp: 0 9\n"),
	}
	eth.MTU = 9000
	found := hostFindings(good, wantBuffer, []net.Interface{eth})
	for _, f := range found {
		if f.advice != "" {
			t.Errorf("%+v", f)
		}
	}
	if len(found) != 5 {
		t.Errorf("%+v", found)
	}
	if found := hostFindings(fstest.MapFS{}, wantBuffer, nil); len(found) != 1 {
		t.Errorf("a host that says nothing: %+v", found)
	}
}

func TestCheck(t *testing.T) {
	r := start(t, "check")
	if code := r.wait(); code != exitOK && code != exitFail || !strings.Contains(r.out.String(), "socket buffer") {
		t.Errorf("%d: %s%s", code, r.out, r.err)
	}
	r = start(t, "check", "--interface", "no-such-one")
	if code := r.wait(); code != exitUsage {
		t.Errorf("%d: %s", code, r.err)
	}
}
