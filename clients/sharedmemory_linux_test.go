package clients

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/internal/sharedmem"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// lender leases memory as a server does, once for each call of Lease.
type lender struct {
	polyscanv1.UnimplementedSharedMemoryServiceServer
	t      *testing.T
	path   string                                // of sockets, before their number
	calls  atomic.Int64                          // an earlier one may not have ended
	change func(*polyscanv1.LeaseResponse) error // what the client gets
	end    chan error                            // ends leases
	memory chan *sharedmem.Memory                // those that were leased
}

// startLender returns a client of it.
func startLender(t *testing.T) (*lender, *Client) {
	t.Helper()
	l := &lender{
		t: t, path: filepath.Join(t.TempDir(), "memory"), end: make(chan error),
		memory: make(chan *sharedmem.Memory, 1),
		change: func(*polyscanv1.LeaseResponse) error { return nil },
	}
	s := grpc.NewServer()
	polyscanv1.RegisterSharedMemoryServiceServer(s, l)
	path := filepath.Join(t.TempDir(), "grpc")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	c, err := Dial("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		s.Stop()
		<-served
	})
	return l, c
}

// Lease implements polyscanv1.SharedMemoryServiceServer.
func (l *lender) Lease(req *polyscanv1.LeaseRequest,
	stream grpc.ServerStreamingServer[polyscanv1.LeaseResponse]) error {
	m, err := sharedmem.Create(stream.Context(), int64(req.GetBytes()))
	if err != nil {
		return err
	}
	defer m.Free(true)
	path := fmt.Sprint(l.path, l.calls.Add(1))
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := socket.AcceptUnix()
		if err != nil {
			return
		}
		defer context.AfterFunc(ctx, func() { c.Close() })()
		defer c.Close()
		if _, err := sharedmem.ReceiveToken(c); err == nil {
			m.Send(c)
			sharedmem.Await(c)
		}
	}()
	defer func() {
		cancel()
		socket.Close()
		<-done
	}()
	token := sharedmem.NewToken()
	res := &polyscanv1.LeaseResponse{LeaseId: 77, Bytes: uint64(len(m.Data())), SocketPath: path, Token: token[:]}
	if err := l.change(res); err != nil {
		return err
	}
	if err := stream.Send(res); err != nil {
		return err
	}
	select {
	case l.memory <- m:
	default:
	}
	select {
	case err := <-l.end:
		return err
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

func TestSlots(t *testing.T) {
	l, c := startLender(t)
	page := os.Getpagesize()
	m, err := c.LeaseSharedMemory(t.Context(), 3, page+1)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	server := <-l.memory
	if n := len(server.Data()); n != 6*page || m.SlotBytes() != page+1 {
		t.Errorf("%d bytes, slots of %d", n, m.SlotBytes())
	}
	seen := map[uint64]bool{}
	slots := make([]*Slot, 3)
	for i := range slots {
		if slots[i], err = m.Slot(t.Context()); err != nil {
			t.Fatal(err)
		}
		slots[i].Bytes()[page] = byte(i + 1)
		f, err := slots[i].Frame(Raw{Width: page + 1, Height: 1, Format: Gray8, ID: "x"})
		if err != nil {
			t.Fatal(err)
		}
		p := f.GetShared()
		if seen[p.Offset] || p.LeaseId != 77 || p.Length != uint64(page+1) || f.GetFrameId() != "x" ||
			f.GetLayout().GetWidth() != uint32(page+1) {
			t.Errorf("%v", f)
		}
		seen[p.Offset] = true
		if got := server.Data()[p.Offset+uint64(page)]; got != byte(i+1) {
			t.Errorf("the server reads %d, want %d", got, i+1)
		}
	}
	if cap(slots[0].Bytes()) != page+1 {
		t.Error("a slot reaches into the next one")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Slot(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a fourth slot: %v", err)
	}
	got := make(chan *Slot)
	go func() {
		s, err := m.Slot(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- s
	}()
	slots[1].Release()
	slots[1].Release() // does nothing
	again := <-got
	if again.Pixels(1).Offset != slots[1].Pixels(1).Offset {
		t.Errorf("the slot at %d was released, that at %d is free", slots[1].Pixels(1).Offset, again.Pixels(1).Offset)
	}
	if _, err := m.Slot(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a slot released twice is there twice: %v", err)
	}

	for want, r := range map[string]Raw{
		fmt.Sprintf("slots of the shared memory have %d", page+1): {Width: page + 2, Height: 1, Format: Gray8},
		"width 0":         {Width: 0, Height: 1, Format: Gray8},
		"pixel format":    {Width: 1, Height: 1},
		"less than a row": {Width: 2, Height: 1, Format: RGB8, Stride: 5},
	} {
		if _, err := again.Frame(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", r, err, want)
		}
	}
	for _, slot := range []*Slot{slots[0], again, slots[2]} { // else the memory stays mapped
		slot.Release()
	}
}

// Memory stays where it is until nobody has a slot, whoever ends the lease, and only then goes.
func TestLeaseEnds(t *testing.T) {
	l, c := startLender(t)
	m, err := c.LeaseSharedMemory(t.Context(), 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	slot, err := m.Slot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m.Err() != nil {
		t.Errorf("%v", m.Err())
	}
	l.end <- status.Error(codes.Unavailable, "shutting down")
	<-m.Done()
	if e := AsError(m.Err()); !errors.Is(m.Err(), ErrLeaseEnded) || e == nil || e.Code != codes.Unavailable {
		t.Errorf("%v", m.Err())
	}
	if _, err := m.Slot(t.Context()); !errors.Is(err, ErrLeaseEnded) {
		t.Errorf("%v", err)
	}
	for range 2 {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	slot.Bytes()[0] = 1 // must not fault
	if m.memory == nil {
		t.Error("unmapped under a slot")
	}
	slot.Release()
	if m.memory != nil || m.Intact() {
		t.Error("still mapped")
	}
	if _, err := m.Slot(t.Context()); !errors.Is(err, ErrLeaseEnded) {
		t.Errorf("%v", err)
	}
}

func TestLeaseErrors(t *testing.T) {
	l, c := startLender(t)
	for _, bad := range []struct{ slots, bytes int }{{0, 1}, {-1, 1}, {1, 0}, {1, -1}, {1 << 40, 1 << 40}} {
		if _, err := c.LeaseSharedMemory(t.Context(), bad.slots, bad.bytes); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	deaf := filepath.Join(t.TempDir(), "deaf")
	d, err := net.ListenUnix("unix", &net.UnixAddr{Name: deaf, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	d.SetUnlinkOnClose(false)
	d.Close()
	for _, e := range []struct {
		change func(*polyscanv1.LeaseResponse) error
		want   string
		is     error
	}{
		{func(r *polyscanv1.LeaseResponse) error {
			r.SocketPath = elsewhere
			return nil
		}, "the server must run on this host", fs.ErrNotExist},
		{func(r *polyscanv1.LeaseResponse) error { r.SocketPath = deaf; return nil }, "must run on this host", nil},
		{func(r *polyscanv1.LeaseResponse) error { r.Bytes--; return nil }, "the server leased 4095 bytes", nil},
		{func(*polyscanv1.LeaseResponse) error {
			return status.Error(codes.FailedPrecondition, "no socket")
		}, "FAILED_PRECONDITION: no socket", nil},
	} {
		l.change = e.change
		_, err := c.LeaseSharedMemory(t.Context(), 1, 4096)
		if err == nil || !strings.Contains(err.Error(), e.want) || e.is != nil && !errors.Is(err, e.is) {
			t.Errorf("%v, want %q, %v", err, e.want, e.is)
		}
	}
	if err := fetchError("/x", sharedmem.RefusedUser); !strings.Contains(err.Error(),
		fmt.Sprintf("/x: the server must be told to allow user id %d", os.Geteuid())) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	l.change = func(*polyscanv1.LeaseResponse) error { cancel(); return nil }
	if _, err := c.LeaseSharedMemory(ctx, 1, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
