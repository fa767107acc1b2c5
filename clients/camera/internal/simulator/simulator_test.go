package simulator

import (
	"net/netip"
	"testing"
	"time"

	"github.com/polyscan/polyscan/clients/camera/internal/gvcp"
	"github.com/polyscan/polyscan/clients/camera/internal/gvsp"
)

func launch(t testing.TB) *Camera {
	t.Helper()
	c, err := Start(Config{
		Addr: netip.MustParseAddrPort("127.0.0.1:0"), Serial: "S", Width: 32, Height: 16, Format: gvsp.Mono8, Rate: 10,
		Draw: func(uint64, []byte) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Who doesn't control the camera reads it and writes nothing; control ends with the heartbeat.
func TestControl(t *testing.T) {
	c := launch(t)
	a, b := netip.MustParseAddrPort("127.0.0.1:1000"), netip.MustParseAddrPort("127.0.0.1:1001")
	do := func(from netip.AddrPort, addr, v uint32) gvcp.Status {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.expire()
		return c.write(from, addr, v)
	}
	for i, x := range []struct {
		from    netip.AddrPort
		addr, v uint32
		want    gvcp.Status
	}{
		{a, regWidth, 16, gvcp.StatusAccessDenied},
		{a, gvcp.RegControl, gvcp.ControlControl, gvcp.StatusOK},
		{b, gvcp.RegControl, gvcp.ControlControl, gvcp.StatusAccessDenied},
		{b, regWidth, 16, gvcp.StatusAccessDenied},
		{a, regWidth, 16, gvcp.StatusOK},
		{a, regWidth, 33, gvcp.StatusInvalidParam},
		{a, regOffsetX, 17, gvcp.StatusInvalidParam},
		{a, regOffsetX, 16, gvcp.StatusOK},
		{a, regFormat, 1, gvcp.StatusWriteProtect},
		{a, regWidth + 1, 1, gvcp.StatusBadAlignment},
		{a, 0x7000, 1, gvcp.StatusInvalidAddress},
		{a, gvcp.RegPacketSize, 1501, gvcp.StatusInvalidParam},
		{a, gvcp.RegPacketSize, 1400, gvcp.StatusOK},
		{a, regRate, 0x7fc00000, gvcp.StatusInvalidParam}, // not a number
		{a, regAcquisition, 1, gvcp.StatusOK},
		{a, regWidth, 8, gvcp.StatusWriteProtect}, // while it streams
		{a, gvcp.RegControl, 0, gvcp.StatusOK},
		{b, gvcp.RegControl, gvcp.ControlExclusive, gvcp.StatusOK},
		{b, regWidth, 8, gvcp.StatusOK}, // it stopped with the control
	} {
		if got := do(x.from, x.addr, x.v); got != x.want {
			t.Errorf("%d: %#x = %d: %v, want %v", i, x.addr, x.v, got, x.want)
		}
	}
	c.mu.Lock()
	c.heard = time.Now().Add(-4 * time.Second)
	c.mu.Unlock()
	if got := do(a, gvcp.RegControl, gvcp.ControlControl); got != gvcp.StatusOK {
		t.Errorf("after the heartbeat: %v", got)
	}
}

// All of the description can be read in pieces of any size, and nothing behind it.
func TestDescription(t *testing.T) {
	c := launch(t)
	for _, step := range []uint32{4, 12, 512} {
		var text []byte
		for at := uint32(xmlAddress); len(text) < len(description); at += step {
			b, s := c.read(at, min(step, (uint32(len(description)-len(text))+3)/4*4))
			if s != gvcp.StatusOK {
				t.Fatalf("%d bytes at %#x: %v", step, at, s)
			}
			text = append(text, b...)
		}
		if string(text[:len(description)]) != string(description) || len(text) >= len(description)+4 {
			t.Errorf("in steps of %d it is another description", step)
		}
	}
	end := uint32(xmlAddress + (len(description)+3)/4*4)
	if _, s := c.read(end, 4); s != gvcp.StatusInvalidAddress {
		t.Errorf("behind it: %v", s)
	}
}

// Whatever commands come, the camera answers within a packet, and goes on.
func FuzzCommands(f *testing.F) {
	f.Add([]byte{0x42, 1, 0, 0x82, 0, 8, 0, 1, 0, 0, 0x0a, 0, 0, 0, 0, 2})
	f.Add([]byte{0x42, 1, 0, 0x84, 0, 8, 0, 1, 0, 1, 0, 0, 0, 0, 2, 0})
	f.Add(gvcp.Resend{Block: 1, First: 0, Last: 1 << 23}.Packet(1).Append(nil))
	c := launch(f)
	from := netip.MustParseAddrPort("127.0.0.1:9")
	f.Fuzz(func(t *testing.T, b []byte) {
		c.command(from, gvcp.Packet{Flags: gvcp.FlagAck, Command: gvcp.WriteRegCmd, Data: []byte{0, 0, 0x0a, 0, 0, 0, 0,
			2}}, nil)
		p, err := gvcp.ParseCommand(b)
		if a := c.command(from, p, err); a != nil {
			if out := a.Append(nil); len(out) > gvcp.MaxPacket {
				t.Fatalf("an answer of %d bytes", len(out))
			}
		}
	})
}
