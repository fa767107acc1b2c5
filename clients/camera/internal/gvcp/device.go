package gvcp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The pace of requests. A camera that has not answered for answerTime is asked again, attempts times in all.
const (
	answerTime = 250 * time.Millisecond
	attempts   = 4
	// maxPending is how long a camera may say that its answer is pending.
	maxPending = 10 * time.Second
	// heartbeatTime is what the camera is told: how long it keeps the control for a program that is silent.
	heartbeatTime = 3 * time.Second
)

// ErrSilent is matched by the error of a camera that doesn't answer.
var ErrSilent = errors.New("the camera doesn't answer")

// ErrControlLost is matched by the cause of a [Device] that lost control of its camera.
var ErrControlLost = errors.New("control of the camera is lost")

// Device is a camera that is asked. Its methods may be called from several goroutines; requests go out one at a time.
type Device struct {
	addr netip.AddrPort
	conn *net.UDPConn

	mu  sync.Mutex // held by a request
	id  uint16
	buf [MaxPacket + 1]byte

	heard atomic.Pointer[time.Time] // when it answered last; nil: never

	stop   context.CancelFunc // of the heartbeat; nil without control
	beats  chan struct{}      // closed when the heartbeat has ended
	lost   chan struct{}      // closed when control is lost
	reason error              // to be read when lost is closed
}

// Dial makes the socket over which a camera is asked; nothing is sent.
func Dial(addr netip.AddrPort) (*Device, error) {
	c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(addr))
	if err != nil {
		return nil, err
	}
	return &Device{addr: addr, conn: c, lost: make(chan struct{})}, nil
}

// Addr is where the camera is.
func (d *Device) Addr() netip.AddrPort { return d.addr }

// Local is this host's address on the way to the camera.
func (d *Device) Local() netip.Addr {
	return d.conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}

// Close gives control back, where it is held, and closes the socket.
func (d *Device) Close() error {
	if d.stop != nil {
		d.stop()
		<-d.beats
		if d.Err() == nil {
			ctx, cancel := context.WithTimeout(context.Background(), answerTime)
			_ = d.WriteReg(ctx, RegControl, 0) // it ends by itself when the heartbeat stays away
			cancel()
		}
	}
	return d.conn.Close()
}

// request sends a command and waits for its acknowledgement, whose data is good until the next request. d.mu is held.
func (d *Device) request(ctx context.Context, command Command, data []byte) ([]byte, error) {
	d.id++
	if d.id == 0 { // which a camera may not answer
		d.id = 1
	}
	out := Packet{Flags: FlagAck, Command: command, ID: d.id, Data: data}.Append(nil)
	defer context.AfterFunc(ctx, func() { d.conn.SetReadDeadline(time.Unix(1, 0)) })()
	var last error
	for range attempts {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		if _, err := d.conn.Write(out); err != nil {
			last = err // the network may come back
		}
		answer, err := d.await(ctx, command+1)
		var s Status
		if err == nil || errors.As(err, &s) {
			now := time.Now()
			d.heard.Store(&now)
		}
		if err == nil {
			return answer, nil
		}
		if s != StatusOK && s != StatusBusy {
			return nil, err
		}
		last = err
	}
	if timeout := net.Error(nil); errors.As(last, &timeout) && timeout.Timeout() {
		return nil, ErrSilent
	}
	if system := syscall.Errno(0); errors.As(last, &system) { // without the names of sockets
		last = system
	}
	return nil, fmt.Errorf("%w: %w", ErrSilent, last)
}

func (d *Device) await(ctx context.Context, ack Command) ([]byte, error) {
	start := time.Now()
	until := start.Add(answerTime)
	for {
		d.conn.SetReadDeadline(until)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		n, err := d.conn.Read(d.buf[:])
		if err != nil {
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() {
				// Such as a port that nobody listens at. Errors of that kind come at once, and the camera may be on
				// its way.
				pause := time.NewTimer(time.Until(until))
				select {
				case <-pause.C:
				case <-ctx.Done():
					pause.Stop()
				}
			}
			return nil, err
		}
		p, err := ParseAck(d.buf[:n])
		if err != nil || p.ID != d.id {
			continue // an answer to an earlier attempt, or none
		}
		if p.Command == PendingAck {
			if len(p.Data) >= 4 && time.Since(start) < maxPending {
				until = time.Now().Add(min(time.Duration(binary.BigEndian.Uint16(p.Data[2:]))*time.Millisecond,
					maxPending))
			}
			continue
		}
		if p.Command != ack {
			continue
		}
		if p.Status != StatusOK {
			return nil, p.Status
		}
		return p.Data, nil
	}
}

// about says what was asked for when the camera refused it. Where it doesn't answer that says nothing.
func about(err error, format string, args ...any) error {
	if errors.Is(err, ErrSilent) {
		return err
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

// ReadReg reads a register.
func (d *Device) ReadReg(ctx context.Context, addr uint32) (uint32, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, err := d.request(ctx, ReadRegCmd, binary.BigEndian.AppendUint32(nil, addr))
	if err == nil && len(b) < 4 {
		err = fmt.Errorf("gvcp: answer of %d bytes", len(b))
	}
	if err != nil {
		return 0, about(err, "register %#x", addr)
	}
	return binary.BigEndian.Uint32(b), nil
}

// WriteReg writes a register.
func (d *Device) WriteReg(ctx context.Context, addr, value uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := binary.BigEndian.AppendUint32(nil, addr)
	_, err := d.request(ctx, WriteRegCmd, binary.BigEndian.AppendUint32(b, value))
	if err != nil {
		return about(err, "register %#x", addr)
	}
	return nil
}

// ReadMem reads memory, of any address and length.
func (d *Device) ReadMem(ctx context.Context, addr uint32, n int) ([]byte, error) {
	if n < 0 || uint64(addr)+uint64(n) > 1<<32 {
		return nil, fmt.Errorf("gvcp: %d bytes at %#x: outside of a camera's memory", n, addr)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []byte
	skip := int(addr % 4)
	for at := uint64(addr) - uint64(skip); len(out) < n+skip; at += MaxData {
		count := min((n+skip-len(out)+3)/4*4, MaxData)
		b := binary.BigEndian.AppendUint32(nil, uint32(at))
		answer, err := d.request(ctx, ReadMemCmd, binary.BigEndian.AppendUint32(b, uint32(count)))
		if err == nil && len(answer) < 4+count {
			err = fmt.Errorf("gvcp: answer of %d bytes, expected %d", len(answer), 4+count)
		}
		if err != nil {
			return nil, about(err, "memory at %#x", at)
		}
		out = append(out, answer[4:4+count]...)
	}
	return out[skip : skip+n], nil
}

// WriteMem writes memory, of an address and a length that 4 divides.
func (d *Device) WriteMem(ctx context.Context, addr uint32, data []byte) error {
	if addr%4 != 0 || len(data)%4 != 0 || uint64(addr)+uint64(len(data)) > 1<<32 {
		return fmt.Errorf("gvcp: %d bytes at %#x: both must be multiples of 4", len(data), addr)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(data) > 0 {
		n := min(len(data), MaxData)
		b := append(binary.BigEndian.AppendUint32(nil, addr), data[:n]...)
		if _, err := d.request(ctx, WriteMemCmd, b); err != nil {
			return about(err, "memory at %#x", addr)
		}
		data = data[n:]
		addr += uint32(n)
	}
	return nil
}

// Resend asks for packets of the stream again. There is no answer but the packets.
func (d *Device) Resend(r Resend) error {
	// It doesn't wait for a request that is under way: packets that are asked for late are gone.
	_, err := d.conn.Write(r.Packet(1).Append(make([]byte, 0, headerSize+20)))
	return err
}

// Control takes the right to write to the camera and to let it stream, and keeps it by a heartbeat until Close. Where
// another program has it, the error is [StatusAccessDenied].
func (d *Device) Control(ctx context.Context) error {
	if err := d.WriteReg(ctx, RegControl, ControlControl); err != nil {
		return err
	}
	// Cameras that have it fixed say so; theirs is between half a second and some.
	_ = d.WriteReg(ctx, RegHeartbeat, uint32(heartbeatTime/time.Millisecond))
	timeout := heartbeatTime
	if ms, err := d.ReadReg(ctx, RegHeartbeat); err == nil && ms >= 500 &&
		time.Duration(ms)*time.Millisecond < timeout {
		timeout = time.Duration(ms) * time.Millisecond
	}
	beat, stop := context.WithCancel(context.Background())
	d.stop, d.beats = stop, make(chan struct{})
	go d.heartbeat(beat, timeout)
	return nil
}

func (d *Device) heartbeat(ctx context.Context, timeout time.Duration) {
	defer close(d.beats)
	tick := time.NewTicker(timeout / 4)
	defer tick.Stop()
	heard := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		v, err := d.ReadReg(ctx, RegControl)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && v&(ControlControl|ControlExclusive) != 0:
			heard = time.Now()
			continue
		case err == nil:
			err = errors.New("the camera has another owner, or started anew")
		case time.Since(heard) < timeout:
			continue // it may have been unplugged for a moment
		}
		d.reason = fmt.Errorf("%w: %w", ErrControlLost, err)
		close(d.lost)
		return
	}
}

// Heard is when the camera answered last.
func (d *Device) Heard() time.Time {
	if at := d.heard.Load(); at != nil {
		return *at
	}
	return time.Now()
}

// Lost is closed when control is lost; then Err says why.
func (d *Device) Lost() <-chan struct{} { return d.lost }

// Err is nil until Lost is closed.
func (d *Device) Err() error {
	select {
	case <-d.lost:
		return d.reason
	default:
		return nil
	}
}
