package gvcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPackets(t *testing.T) {
	p := Packet{Flags: FlagAck, Command: ReadRegCmd, ID: 0x1234, Data: []byte{0, 0, 0x0a, 0}}
	b := p.Append(nil)
	if want := []byte{0x42, 1, 0, 0x80, 0, 4, 0x12, 0x34, 0, 0, 0x0a, 0}; !bytes.Equal(b, want) {
		t.Errorf("% x, want % x", b, want)
	}
	if q, err := ParseCommand(b); err != nil || q.Command != ReadRegCmd || q.Flags != FlagAck || q.ID != 0x1234 ||
		!bytes.Equal(q.Data, p.Data) {
		t.Errorf("%+v, %v", q, err)
	}
	a := Packet{Ack: true, Status: StatusAccessDenied, Command: WriteRegAck, ID: 7}.Append(nil)
	if want := []byte{0x80, 6, 0, 0x83, 0, 0, 0, 7}; !bytes.Equal(a, want) {
		t.Errorf("% x, want % x", a, want)
	}
	if _, err := ParseCommand(a); err == nil {
		t.Error("an acknowledgement was taken for a command")
	}
	for _, bad := range [][]byte{nil, b[:7], append(bytes.Clone(b[:5]), 5, 0, 0, 1), make([]byte, MaxPacket+1)} {
		if _, err := ParseAck(bad); err == nil {
			t.Errorf("% x: no error", bad)
		}
	}
	for _, r := range []Resend{{0xfffe, 3, 9, false}, {1 << 40, 1 << 25, 1 << 26, true}, {1, 0, 0, false}} {
		q, err := ParseCommand(r.Packet(9).Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseResend(q); err != nil || got != r {
			t.Errorf("%+v became %+v, %v", r, got, err)
		}
	}
	if _, err := ParseResend(Resend{1, 5, 4, false}.Packet(1)); err == nil {
		t.Error("packets 5 to 4")
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{"abc\x00def": "abc", " a\x1b[2Jb ": "a[2Jb", "\xff\xfeok": "ok",
		"größer": "größer"} {
		if got := Text([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestBroadcast(t *testing.T) {
	for in, want := range map[string]string{"192.168.1.20/24": "192.168.1.255", "10.1.2.3/8": "10.255.255.255",
		"127.0.0.1/32": "127.0.0.1", "172.16.5.4/30": "172.16.5.7"} {
		if got := broadcast(netip.MustParsePrefix(in)).String(); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// fake answers commands by a function; nil answers nothing.
func fake(t *testing.T, answer func(n int, p Packet) []Packet) netip.AddrPort {
	t.Helper()
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 1000)
		for n := 0; ; n++ {
			size, from, err := c.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			p, err := ParseCommand(b[:size])
			if err != nil {
				t.Errorf("% x: %v", b[:size], err)
				return
			}
			for _, a := range answer(n, p) {
				c.WriteToUDPAddrPort(a.Append(nil), from)
			}
		}
	}()
	t.Cleanup(func() {
		c.Close()
		<-done
	})
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

func dial(t *testing.T, addr netip.AddrPort) *Device {
	t.Helper()
	d, err := Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// A request is asked again when nothing comes, waits while its answer is pending, and takes no other's answer.
func TestRequest(t *testing.T) {
	value := func(id uint16, v uint32) Packet {
		return Packet{Ack: true, Command: ReadRegAck, ID: id, Data: binary.BigEndian.AppendUint32(nil, v)}
	}
	d := dial(t, fake(t, func(n int, p Packet) []Packet {
		switch n {
		case 0:
			return nil
		case 1:
			return []Packet{value(p.ID+1, 1), {Ack: true, Command: WriteRegAck, ID: p.ID}, {Ack: true,
				Command: PendingAck, ID: p.ID, Data: []byte{0, 0, 3, 232}},
				value(p.ID, 77)}
		case 2:
			return []Packet{{Ack: true, Status: StatusBusy, Command: ReadRegAck, ID: p.ID}}
		case 3:
			return []Packet{value(p.ID, 78)}
		case 4:
			return []Packet{{Ack: true, Status: StatusInvalidAddress, Command: ReadRegAck, ID: p.ID}}
		}
		return []Packet{{Ack: true, Command: ReadRegAck, ID: p.ID, Data: []byte{1}}}
	}))
	for _, want := range []uint32{77, 78} {
		if v, err := d.ReadReg(t.Context(), 0x100); err != nil || v != want {
			t.Errorf("%d, %v, want %d", v, err, want)
		}
	}
	if _, err := d.ReadReg(t.Context(), 0x100); !errors.Is(err, StatusInvalidAddress) {
		t.Errorf("%v", err)
	}
	if _, err := d.ReadReg(t.Context(), 0x100); err == nil || !strings.Contains(err.Error(), "1 bytes") {
		t.Errorf("%v", err)
	}
}

func TestSilent(t *testing.T) {
	d := dial(t, fake(t, func(int, Packet) []Packet { return nil }))
	if _, err := d.ReadReg(t.Context(), 0); !errors.Is(err, ErrSilent) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	if _, err := d.ReadReg(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Memory is read in pieces, from any address.
func TestMemory(t *testing.T) {
	pieces := make(chan []byte, 8)
	d := dial(t, fake(t, func(_ int, p Packet) []Packet {
		addr := binary.BigEndian.Uint32(p.Data)
		if p.Command == WriteMemCmd {
			pieces <- bytes.Clone(p.Data[4:])
			return []Packet{{Ack: true, Command: WriteMemAck, ID: p.ID, Data: p.Data[:4]}}
		}
		n := binary.BigEndian.Uint32(p.Data[4:])
		if addr%4 != 0 || n%4 != 0 || n > MaxData {
			return []Packet{{Ack: true, Status: StatusBadAlignment, Command: ReadMemAck, ID: p.ID}}
		}
		data := p.Data[:4:4]
		for i := range n {
			data = append(data, byte(addr+i))
		}
		return []Packet{{Ack: true, Command: ReadMemAck, ID: p.ID, Data: data}}
	}))
	for _, x := range []struct {
		addr uint32
		n    int
	}{{0, 0}, {0, 4}, {3, 1}, {5, 1500}, {1 << 20, 512}, {2, 511}} {
		b, err := d.ReadMem(t.Context(), x.addr, x.n)
		if err != nil || len(b) != x.n {
			t.Fatalf("%+v: %d bytes, %v", x, len(b), err)
		}
		for i := range b {
			if b[i] != byte(x.addr+uint32(i)) {
				t.Fatalf("%+v: byte %d is %d", x, i, b[i])
			}
		}
	}
	if _, err := d.ReadMem(t.Context(), 1<<32-1, 2); err == nil {
		t.Error("past the end")
	}
	data := bytes.Repeat([]byte{1, 2, 3, 4}, 200)
	if err := d.WriteMem(t.Context(), 0x100, data); err != nil {
		t.Error(err)
	}
	if wrote := append(<-pieces, <-pieces...); !bytes.Equal(wrote, data) || len(pieces) > 0 {
		t.Errorf("%d bytes, and %d pieces more", len(wrote), len(pieces))
	}
	if err := d.WriteMem(t.Context(), 0x101, data); err == nil {
		t.Error("an odd address")
	}
}

// Control that the camera gives to somebody else is lost, with the reason.
func TestControlLost(t *testing.T) {
	taken := make(chan struct{})
	d := dial(t, fake(t, func(_ int, p Packet) []Packet {
		a := Packet{Ack: true, Command: p.Command + 1, ID: p.ID, Data: make([]byte, 4)}
		if p.Command == ReadRegCmd {
			v := uint32(500)
			if binary.BigEndian.Uint32(p.Data) == RegControl {
				select {
				case <-taken:
					v = 0
				default:
					v = ControlControl
				}
			}
			a.Data = binary.BigEndian.AppendUint32(nil, v)
		}
		return []Packet{a}
	}))
	if err := d.Control(t.Context()); err != nil || d.Err() != nil {
		t.Fatalf("%v, %v", err, d.Err())
	}
	close(taken)
	<-d.Lost()
	if err := d.Err(); !errors.Is(err, ErrControlLost) || !strings.Contains(err.Error(), "another owner") {
		t.Errorf("%v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Packet{Flags: FlagAck, Command: ReadMemCmd, ID: 3, Data: make([]byte, 8)}.Append(nil))
	f.Add(Resend{1 << 40, 2, 3, true}.Packet(1).Append(nil))
	f.Add(Packet{Ack: true, Command: DiscoveryAck, Data: make([]byte, discoverySize)}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := ParseCommand(b); err == nil {
			if q, err := ParseCommand(p.Append(nil)); err != nil || q.Command != p.Command || !bytes.Equal(q.Data,
				p.Data) {
				t.Fatalf("%+v became %+v, %v", p, q, err)
			}
			if r, err := ParseResend(p); err == nil {
				if s, err := ParseResend(r.Packet(1)); err != nil || s != r {
					t.Fatalf("%+v became %+v, %v", r, s, err)
				}
			}
		}
		if p, err := ParseAck(b); err == nil {
			if q, err := ParseAck(p.Append(nil)); err != nil || q.Status != p.Status || !bytes.Equal(q.Data, p.Data) {
				t.Fatalf("%+v became %+v, %v", p, q, err)
			}
			if i, err := ParseInfo(p.Data); err == nil && (len(i.MAC) != 6 || !i.IP.Is4()) {
				t.Fatalf("%+v", i)
			}
		}
	})
}

func TestEvents(t *testing.T) {
	for _, extended := range []bool{false, true} {
		p := Packet{Flags: FlagAck, Command: EventCmd, ID: 7}
		want := []Event{{0x9001, 12, 1 << 40}, {2, 65535, 3}}
		if extended {
			p.Flags |= FlagExtended
			want[1].Block = 1 << 50
		}
		for _, e := range want {
			p.Data = AppendEvent(p.Data, e, extended)
		}
		q, err := ParseCommand(p.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseEvents(q); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
		q.Command = EventDataCmd // of one, and data
		if got, err := ParseEvents(q); err != nil || !slices.Equal(got, want[:1]) {
			t.Errorf("%v, %v", got, err)
		}
		q.Data = q.Data[:15]
		if got, err := ParseEvents(q); err == nil {
			t.Errorf("%v", got)
		}
	}
	if _, err := ParseEvents(Packet{Command: ReadRegCmd, Data: make([]byte, 16)}); err == nil {
		t.Error("a command of another kind")
	}
}

// Events come once, whatever is sent again, and each packet is acknowledged; strangers aren't heard.
func TestListenEvents(t *testing.T) {
	here := netip.MustParseAddr("127.0.0.1")
	got := make(chan Event, 8)
	e, err := ListenEvents(here, here, func(x Event) { got <- x })
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	send := func(from string, id uint16) net.Conn {
		c, err := (&net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}).Dial("udp4", netip.AddrPortFrom(here,
			e.Port()).String())
		if err != nil {
			t.Fatal(err)
		}
		p := Packet{Flags: FlagAck, Command: EventCmd, ID: id, Data: AppendEvent(nil, Event{ID: id}, false)}
		if _, err := c.Write(p.Append(nil)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	ack := func(c net.Conn, id uint16) {
		defer c.Close()
		b := make([]byte, MaxPacket)
		n, err := c.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := ParseAck(b[:n]); err != nil || p.Command != EventAck || p.ID != id || p.Status != StatusOK {
			t.Errorf("%+v, %v", p, err)
		}
	}
	send("127.0.0.9", 5).Close()
	ack(send("127.0.0.1", 1), 1)
	ack(send("127.0.0.1", 1), 1)
	ack(send("127.0.0.1", 2), 2)
	if a, b := <-got, <-got; a.ID != 1 || b.ID != 2 || len(got) > 0 {
		t.Errorf("%v, %v and %d more", a, b, len(got))
	}
}

func FuzzEvents(f *testing.F) {
	f.Add(byte(0), uint16(EventCmd), AppendEvent(nil, Event{1, 2, 3}, false))
	f.Add(byte(FlagExtended), uint16(EventDataCmd), AppendEvent(nil, Event{1, 2, 3}, true))
	f.Fuzz(func(t *testing.T, flags byte, command uint16, data []byte) {
		p := Packet{Flags: flags, Command: Command(command), Data: data}
		events, err := ParseEvents(p)
		if (err == nil) != (len(events) > 0) || len(events) > len(data)/eventSize {
			t.Fatalf("%d events of %d bytes, %v", len(events), len(data), err)
		}
		if err == nil && command == uint16(EventDataCmd) && len(events) != 1 {
			t.Fatalf("%d events with data", len(events))
		}
	})
}
