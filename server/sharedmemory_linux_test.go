package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/internal/sharedmem"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/auth"
)

// startShared starts a server with shared memory, and a client of it.
func startShared(t testing.TB, cfg Config, opts ...grpc.DialOption) (*testServer, *clients.Client) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "memory"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	cfg.SharedMemoryListener = l
	s := start(t, cfg, opts...)
	return s, clients.New(s.conn)
}

// leaseMemory leases memory until the test's end.
func leaseMemory(t testing.TB, c *clients.Client, slots, bytes int) *clients.SharedMemory {
	t.Helper()
	m, err := c.LeaseSharedMemory(t.Context(), slots, bytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func takeSlot(t testing.TB, m *clients.SharedMemory) *clients.Slot {
	t.Helper()
	s, err := m.Slot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantUsed waits until leases take so many bytes: what follows the end of a connection is not the test's to see.
func (ts *testServer) wantUsed(t testing.TB, want int64) {
	t.Helper()
	used := func() int64 {
		n, _ := ts.shared.Leased()
		return n
	}
	waitFor(t, fmt.Sprintf("%d bytes in use", want), func() bool { return used() == want })
}

// openFiles counts those of this process.
func openFiles(t testing.TB) int {
	t.Helper()
	e, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(e)
}

var all3 = inspecting(rect("all", 0, 0, 3, 3))

var raw3 = clients.Raw{Width: 3, Height: 3, Format: clients.Gray8}

// Each call that takes frames takes those in shared memory.
func TestSharedFrames(t *testing.T) {
	s, c := startShared(t, Config{}, frameCodec())
	m := leaseMemory(t, c, 4, 9)
	slot := takeSlot(t, m)
	copy(slot.Bytes(), []byte{0, 1, 2, 3, 4, 5, 6, 7, 8})
	f, err := slot.Frame(raw3)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, r *pb.FrameResult, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		} else if sum := r.Regions[0].Channels[0].GetSum(); sum != 36 {
			t.Errorf("%s: sum %d", what, sum)
		}
	}
	r, err := c.Reduce(t.Context(), all3, f)
	check("Reduce", r, err)

	conn := s.connect(t)
	defer conn.Close()
	r, err = clients.New(conn).Reduce(t.Context(), all3, f)
	check("Reduce over another connection", r, err)

	st := s.open(t, all3)
	st.send(f)
	res := st.recv()
	check("StreamFrames", res.GetResult(), nil)

	kept, err := pb.NewFrameServiceClient(s.conn).PutFrame(t.Context(), &pb.PutFrameRequest{Frame: f})
	if err != nil {
		t.Fatal(err)
	}
	r, err = c.Reduce(t.Context(), all3, &pb.Frame{Source: &pb.Frame_Resident{Resident: kept.Frame.Name}})
	check("PutFrame", r, err)

	// With gaps between rows, and a gap behind the last.
	gaps := clients.Raw{Width: 2, Height: 2, Stride: 4, Format: clients.Gray8}
	f, err = slot.Frame(gaps)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []uint64{6, 8} {
		f.GetShared().Length = n
		r, err = c.Reduce(t.Context(), inspecting(rect("all", 0, 0, 2, 2)), f)
		if err != nil || r.Regions[0].Channels[0].GetSum() != 0+1+4+5 {
			t.Errorf("%v, %v", r, err)
		}
	}
	if n := metric(t, s, "polyscan_shared_memory_read_bytes_total"); n != 4*9+6+8 {
		t.Errorf("%v bytes read", n)
	}
}

// What a frame says of its lease is checked each time; whatever is wrong is named.
func TestSharedFrameRefused(t *testing.T) {
	s, c := startShared(t, Config{})
	page := uint64(os.Getpagesize())
	m := leaseMemory(t, c, 2, int(page))
	slot := takeSlot(t, m)
	good, err := slot.Frame(raw3)
	if err != nil {
		t.Fatal(err)
	}
	id := good.GetShared().LeaseId
	reduce := func(p *pb.SharedPixels, change func(*pb.Frame)) error {
		f := rawFrame(3, 3, gray8, nil)
		f.Source = &pb.Frame_Shared{Shared: p}
		if change != nil {
			change(f)
		}
		_, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: all3, Frame: f})
		return err
	}
	for _, c := range []struct {
		offset, length uint64
		field          string
		words          []string
	}{
		{0, 0, "frame.shared.length", []string{"= 0", "9 bytes"}},
		{0, 8, "frame.shared.length", []string{"= 8", "9 bytes"}},
		{0, 10, "frame.shared.length", []string{"= 10", "9 bytes"}},
		{0, math.MaxUint64, "frame.shared.length", []string{"9 bytes"}},
		{2*page - 8, 9, "frame.shared.length", []string{"8 bytes", fmt.Sprint(2 * page)}},
		{2 * page, 9, "frame.shared.offset", []string{fmt.Sprint(2 * page)}},
		{math.MaxUint64, 9, "frame.shared.offset", []string{fmt.Sprint(uint64(math.MaxUint64))}},
		{math.MaxUint64 - 8, 9, "frame.shared.offset", nil}, // the sum is 0
		{1 << 63, 9, "frame.shared.offset", nil},
	} {
		wantRefused(t, reduce(&pb.SharedPixels{LeaseId: id, Offset: c.offset, Length: c.length}, nil), c.field,
			c.words...)
	}
	if err := reduce(&pb.SharedPixels{LeaseId: id, Offset: 2*page - 9, Length: 9}, nil); err != nil {
		t.Errorf("the last bytes: %v", err)
	}
	for _, wrong := range []uint64{0, id + 1, id ^ 1<<63} {
		d := detailsOf(t, reduce(&pb.SharedPixels{LeaseId: wrong, Length: 9}, nil))
		if d.status.Code() != codes.NotFound || d.info.GetReason() != apierr.ReasonUnknownLease || d.res == nil ||
			!strings.Contains(d.status.Message(), fmt.Sprintf("frame.shared.lease_id = %d", wrong)) {
			t.Errorf("%v", d.status)
		}
	}
	wantRefused(t, reduce(good.GetShared(), func(f *pb.Frame) {
		f.Encoding = pb.Encoding_ENCODING_PNG
	}), "frame.encoding", "PNG", "raw")
	wantRefused(t, reduce(good.GetShared(), func(f *pb.Frame) { f.Layout = nil }), "frame.layout")
	wantRefused(t, reduce(good.GetShared(), func(f *pb.Frame) { f.Layout.Width = 0 }), "frame.layout.width")

	m.Close()
	waitFor(t, "the leases to end", func() bool { return metric(t, s, "polyscan_shared_memory_leases") == 0 })
	err = reduce(good.GetShared(), nil)
	if d := detailsOf(t, err); d.status.Code() != codes.NotFound {
		t.Errorf("after the end of the lease: %v", err)
	}
	wantCanonical(t, err)

	// A server without a socket says so.
	bare := start(t, Config{})
	_, err = bare.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: all3, Frame: good})
	if d := detailsOf(t, err); d.status.Code() != codes.FailedPrecondition ||
		d.info.GetReason() != apierr.ReasonNoSharedSocket {
		t.Errorf("%v", err)
	}
	_, err = clients.New(bare.conn).LeaseSharedMemory(t.Context(), 1, 1)
	if e := clients.AsError(err); e == nil || e.Code != codes.FailedPrecondition {
		t.Errorf("%v", err)
	}
}

func TestLeaseRefused(t *testing.T) {
	page := os.Getpagesize()
	s, c := startShared(t, Config{SharedMemoryBytes: int64(4 * page)})
	lease := func(slots, bytes int) error {
		m, err := c.LeaseSharedMemory(t.Context(), slots, bytes)
		if err == nil {
			t.Cleanup(func() { m.Close() })
		}
		return err
	}
	err := lease(5, page)
	if d := detailsOf(t, err); d.status.Code() != codes.ResourceExhausted || d.quota == nil || d.retry != nil ||
		d.info.GetReason() != apierr.ReasonNoSharedMemory ||
		!strings.Contains(d.status.Message(), fmt.Sprint(5*page)) ||
		!strings.Contains(d.status.Message(), fmt.Sprint(4*page)) {
		t.Errorf("more than there is: %v", err)
	}
	if err := lease(3, page); err != nil {
		t.Fatal(err)
	}
	err = lease(2, page)
	if d := detailsOf(t, err); d.status.Code() != codes.ResourceExhausted || d.quota == nil || d.retry == nil ||
		!strings.Contains(d.status.Message(), fmt.Sprint(page)+" of "+fmt.Sprint(4*page)) {
		t.Errorf("more than is free: %v", err)
	}
	if err := lease(1, 1); err != nil {
		t.Errorf("what is left: %v", err)
	}
	stub := pb.NewSharedMemoryServiceClient(s.conn)
	for bytes, field := range map[uint64]string{0: "bytes", math.MaxUint64: "", math.MaxInt64: ""} {
		st, err := stub.Lease(t.Context(), &pb.LeaseRequest{Bytes: bytes})
		if err != nil {
			t.Fatal(err)
		}
		_, err = st.Recv()
		if field != "" {
			wantRefused(t, err, field)
		} else if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%d bytes: %v", bytes, err)
		}
		wantCanonical(t, err)
	}
	if n := metric(t, s, "polyscan_shared_memory_requests_total"); n == 0 {
		t.Error("no metric of refusals")
	}
}

// A lease ends when its stream does, and takes nothing with it: not the job that reads it, nor a descriptor.
func TestLeaseEndsUnderJob(t *testing.T) {
	h := newHooked()
	s, c := startShared(t, Config{Driver: h})
	m := leaseMemory(t, c, 1, 9)
	slot := takeSlot(t, m)
	copy(slot.Bytes(), bytes.Repeat([]byte{1}, 9))
	f, err := slot.Frame(raw3)
	if err != nil {
		t.Fatal(err)
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	h.set(func() error { close(entered); <-leave; return nil })
	call := make(chan error, 1)
	go func() {
		_, err := s.inspection.Reduce(context.Background(), &pb.ReduceRequest{Inspection: all3, Frame: f})
		call <- err
	}()
	<-entered
	slot.Release()
	m.Close()
	waitFor(t, "the leases to end", func() bool { return metric(t, s, "polyscan_shared_memory_leases") == 0 })
	if n := metric(t, s, "polyscan_shared_memory_bytes"); n == 0 {
		t.Error("the memory is gone under a job")
	}
	close(leave)
	if err := <-call; err != nil {
		t.Error(err)
	}
	s.wantUsed(t, 0)
}

// Pixels that change while they are read, and holes, change the numbers and nothing else.
func TestScribbling(t *testing.T) {
	s, c := startShared(t, Config{})
	const w, h = 1024, 512
	m := leaseMemory(t, c, 1, w*h)
	slot := takeSlot(t, m)
	f, err := slot.Frame(clients.Raw{Width: w / 2, Height: h, Format: clients.Gray16LE, Bits: 12})
	if err != nil {
		t.Fatal(err)
	}
	in := inspecting(rect("all", 0, 0, w/2, h, "mean < 2000"))
	in.Reductions = &pb.Reductions{Statistics: []pb.Statistic{
		pb.Statistic_STATISTIC_MEAN, pb.Statistic_STATISTIC_MIN, pb.Statistic_STATISTIC_MAX,
		pb.Statistic_STATISTIC_HISTOGRAM,
	}}
	stop := make(chan struct{})
	var scribbler sync.WaitGroup
	scribbler.Go(func() {
		for v := uint16(0); ; v += 77 {
			select {
			case <-stop:
				return
			default:
			}
			b := slot.Bytes()
			for i := 0; i < len(b); i += 2 {
				binary.LittleEndian.PutUint16(b[i:], v&0x1fff) // above 12 bits half of the time
			}
		}
	})
	for range 50 {
		r, err := c.Reduce(t.Context(), in, f)
		if err != nil {
			wantRefused(t, err, "frame.data", "4095") // a sample with too many bits: seen on the device's copy
			continue
		}
		ch := r.Regions[0].Channels[0]
		total := uint64(0)
		for _, n := range ch.GetHistogram().GetCounts() {
			total += n
		}
		if r.Regions[0].Count != w/2*h || total != r.Regions[0].Count || float64(ch.GetMin()) > ch.GetMean() ||
			ch.GetMean() > float64(ch.GetMax()) || ch.GetMax() > 4095 {
			t.Errorf("numbers that contradict each other: %v", ch)
		}
	}
	close(stop)
	scribbler.Wait()
	if strings.Contains(s.logs.String(), "ERROR") {
		t.Errorf("the log: %s", s.logs)
	}
}

// rawLease is a lease as a client of another library may use it.
type rawLease struct {
	*pb.LeaseResponse
	end func()
}

func (ts *testServer) rawLease(t testing.TB, bytes uint64) rawLease {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	st, err := pb.NewSharedMemoryServiceClient(ts.conn).Lease(ctx, &pb.LeaseRequest{Bytes: bytes})
	if err != nil {
		t.Fatal(err)
	}
	r, err := st.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return rawLease{r, func() {
		cancel()
		for err == nil {
			_, err = st.Recv()
		}
	}}
}

// fetch gets a descriptor in the plainest way.
func (l rawLease) fetch(t testing.TB) (int, *net.UnixConn) {
	t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: l.SocketPath, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(l.Token); err != nil {
		t.Fatal(err)
	}
	b, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := c.ReadMsgUnix(b, oob)
	if err != nil || n != 1 || b[0] != 0 {
		t.Fatalf("%d %v %v", n, b, err)
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		t.Fatal(err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		t.Fatal(err)
	}
	return fds[0], c
}

// A client that removes pages is refused from then on, and the server lives.
func TestHolesRefused(t *testing.T) {
	s, _ := startShared(t, Config{})
	l := s.rawLease(t, 1<<16)
	defer l.end()
	fd, c := l.fetch(t)
	defer c.Close()
	defer unix.Close(fd)
	f := rawFrame(256, 256, gray8, nil)
	f.Source = &pb.Frame_Shared{Shared: &pb.SharedPixels{LeaseId: l.LeaseId, Length: 1 << 16}}
	req := &pb.ReduceRequest{Inspection: all3, Frame: f}
	if _, err := s.inspection.Reduce(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(fd, 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("truncate: %v", err)
	}
	if err := unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096); err != nil {
		t.Fatal(err)
	}
	_, err := s.inspection.Reduce(t.Context(), req)
	if d := detailsOf(t, err); d.status.Code() != codes.FailedPrecondition ||
		d.info.GetReason() != apierr.ReasonDamagedLease {
		t.Errorf("%v", err)
	}
}

// The descriptor can be had once, with the right token, in time, by users who may.
func TestLeaseTokens(t *testing.T) {
	s, _ := startShared(t, Config{})
	l := s.rawLease(t, 1)
	wrong := bytes.Clone(l.Token)
	wrong[31] ^= 1
	for _, token := range [][]byte{wrong, make([]byte, 32), bytes.Repeat([]byte{0xff}, 32)} {
		if _, err := sharedmem.Fetch(t.Context(), l.SocketPath, token, 1); !errors.Is(err, sharedmem.RefusedToken) {
			t.Errorf("wrong token: %v", err)
		}
	}
	m, err := sharedmem.Fetch(t.Context(), l.SocketPath, l.Token, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := sharedmem.Fetch(t.Context(), l.SocketPath, l.Token, 1); !errors.Is(err, sharedmem.RefusedToken) {
		t.Errorf("token twice: %v", err)
	}
	l.end()
	late := s.rawLease(t, 1)
	late.end()
	s.wantUsed(t, int64(os.Getpagesize())) // of the first, whose content is kept for a while
	if _, err := sharedmem.Fetch(t.Context(), late.SocketPath, late.Token, 1); !errors.Is(err, sharedmem.RefusedToken) {
		t.Errorf("token of a lease that is over: %v", err)
	}
}

// The socket is open to other users only where the configuration names some.
func TestLeaseSocketMode(t *testing.T) {
	s, _ := startShared(t, Config{})
	if mode := socketMode(t, s); mode != 0o600 {
		t.Errorf("mode %o", mode)
	}
	s, _ = startShared(t, Config{SharedMemoryUIDs: []uint32{1234}})
	if mode := socketMode(t, s); mode != 0o666 {
		t.Errorf("mode %o with a user allowed", mode)
	}
}

func socketMode(t *testing.T, s *testServer) os.FileMode {
	t.Helper()
	fi, err := os.Stat(s.cfg.SharedMemoryListener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return fi.Mode().Perm()
}

// A descriptor that nobody fetches costs its lease.
func TestNotFetched(t *testing.T) {
	s, _ := startShared(t, Config{fetchTimeout: 10 * time.Millisecond})
	st, err := pb.NewSharedMemoryServiceClient(s.conn).Lease(t.Context(), &pb.LeaseRequest{Bytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	l, err := st.Recv()
	if err != nil {
		t.Fatal(err)
	}
	_, err = st.Recv()
	if d := detailsOf(t, err); d.status.Code() != codes.DeadlineExceeded ||
		d.info.GetReason() != apierr.ReasonLeaseNotFetched {
		t.Errorf("%v", err)
	}
	if _, err := sharedmem.Fetch(t.Context(), l.SocketPath, l.Token, 1); !errors.Is(err, sharedmem.RefusedToken) {
		t.Errorf("too late: %v", err)
	}
	s.wantUsed(t, 0)
}

// Connections that say nothing, part of a token, or go away, are no burden.
func TestSocketNonsense(t *testing.T) {
	s, c := startShared(t, Config{})
	before := openFiles(t)
	for i := range 300 {
		conn, err := net.Dial("unix", s.cfg.SharedMemoryListener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.Write(bytes.Repeat([]byte{byte(i)}, i%40))
		if i%2 == 0 {
			conn.(*net.UnixConn).CloseWrite()
			io.Copy(io.Discard, conn)
		}
		conn.Close()
	}
	m := leaseMemory(t, c, 1, 1) // it still works
	m.Close()
	s.wantUsed(t, 0)
	waitFor(t, fmt.Sprintf("%d open files", before), func() bool { return openFiles(t) <= before })
}

// Thousands of leases that come, are used, and go in every order leave the server as it was.
func TestManyLeases(t *testing.T) {
	s, c := startShared(t, Config{SharedMemoryBytes: 64 << 20}, frameCodec())
	if _, err := c.GetDevice(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, device := openFiles(t), s.dev.Memory().Used
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 250 {
				ctx, cancel := context.WithCancel(t.Context())
				if i%10 == 3 {
					go cancel()
				}
				m, err := c.LeaseSharedMemory(ctx, 1+i%3, 9)
				cancel()
				if err != nil {
					if i%10 != 3 {
						t.Errorf("lease %d: %v", i, err)
					}
					continue
				}
				slot, err := m.Slot(t.Context())
				if err != nil {
					t.Error(err)
				}
				slot.Bytes()[0] = byte(g)
				f, err := slot.Frame(raw3)
				if err != nil {
					t.Error(err)
				}
				if i%2 == 0 {
					if _, err := c.Reduce(t.Context(), all3, f); err != nil {
						t.Errorf("frame %d: %v", i, err)
					}
				}
				if i%5 == 0 {
					go m.Close() // before the slot is released, or after
					slot.Release()
					continue
				}
				slot.Release()
				m.Close()
				if i%7 == 0 {
					if _, err := c.Reduce(t.Context(), all3, f); status.Code(err) != codes.NotFound && err != nil {
						t.Errorf("after the end: %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
	s.wantUsed(t, 0)
	if n := s.dev.Memory().Used; n != device {
		t.Errorf("%d bytes of the device are in use, %d before", n, device)
	}
	waitFor(t, fmt.Sprintf("%d open files", before), func() bool { return openFiles(t) <= before })
}

// A client may copy what it wrote to another lease after its connection broke, as long as there is room.
func TestContentIsKeptForAWhile(t *testing.T) {
	page := os.Getpagesize()
	s, c := startShared(t, Config{SharedMemoryBytes: int64(2 * page)})
	conn := s.connect(t)
	m, err := clients.New(conn).LeaseSharedMemory(t.Context(), 1, page)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	slot := takeSlot(t, m)
	slot.Bytes()[0] = 7
	conn.Close()
	<-m.Done()
	if !errors.Is(m.Err(), clients.ErrLeaseEnded) {
		t.Errorf("%v", m.Err())
	}
	if _, err := m.Slot(t.Context()); !errors.Is(err, clients.ErrLeaseEnded) {
		t.Errorf("%v", err)
	}
	waitFor(t, "the leases to end", func() bool { return metric(t, s, "polyscan_shared_memory_leases") == 0 })
	second := leaseMemory(t, c, 1, page)
	if b := slot.Bytes()[0]; b != 7 || !m.Intact() {
		t.Errorf("%d, intact: %v", b, m.Intact())
	}
	third := leaseMemory(t, c, 1, page) // takes the room of the first
	waitFor(t, "word that it was taken back", func() bool { return !m.Intact() })
	slot.Bytes()[0] = 8 // must not fault
	slot.Release()
	second.Close()
	third.Close()
	m.Close()
	s.wantUsed(t, 0)
}

// One that does not come back has its memory taken.
func TestContentIsTakenBack(t *testing.T) {
	s, _ := startShared(t, Config{takeBackAfter: time.Millisecond})
	conn := s.connect(t)
	m, err := clients.New(conn).LeaseSharedMemory(t.Context(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	conn.Close()
	<-m.Done()
	s.wantUsed(t, 0)
	if m.Intact() {
		t.Error("taken back, and not told")
	}
}

// Frames in shared memory that the server has received are answered before it ends; the client keeps its memory.
func TestShutdownWithLeases(t *testing.T) {
	h := newHooked()
	s, c := startShared(t, Config{Driver: h})
	m := leaseMemory(t, c, 1, 9)
	slot := takeSlot(t, m)
	slot.Bytes()[0] = 5
	f, err := slot.Frame(raw3)
	if err != nil {
		t.Fatal(err)
	}
	st := s.open(t, all3)
	entered, leave := make(chan struct{}, 2), make(chan struct{})
	h.set(func() error { entered <- struct{}{}; <-leave; return nil })
	st.send(f)
	st.send(f)
	<-entered
	<-entered
	shutdown := make(chan error, 1)
	go func() { shutdown <- s.Shutdown(context.Background()) }()
	<-m.Done()
	if e := clients.AsError(m.Err()); e == nil || e.Code != codes.Unavailable {
		t.Errorf("%v", m.Err())
	}
	close(leave)
	for range 2 {
		if r := st.recv(); r.GetResult() == nil {
			t.Errorf("%v", r)
		}
	}
	if err := <-shutdown; err != nil {
		t.Error(err)
	}
	if slot.Bytes()[0] != 5 || !m.Intact() {
		t.Errorf("%d, intact: %v", slot.Bytes()[0], m.Intact())
	}
}

// A client that stalls loses its lease when it misses a keepalive.
func TestStalledClient(t *testing.T) {
	s, _ := startShared(t, Config{takeBackAfter: time.Millisecond, grpcOptions: []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Second, Timeout: 50 * time.Millisecond}),
	}})
	stalled := make(chan struct{})
	conn, err := grpc.NewClient("passthrough:///test", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			c, err := s.dial()
			return &stallingConn{c, stalled}, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	m, err := clients.New(conn).LeaseSharedMemory(t.Context(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	close(stalled)
	s.wantUsed(t, 0)
}

// stallingConn sends nothing any more once it is told to stall.
type stallingConn struct {
	net.Conn
	stalled chan struct{}
}

func (c *stallingConn) Write(b []byte) (int, error) {
	select {
	case <-c.stalled:
		return len(b), nil
	default:
		return c.Conn.Write(b)
	}
}

// TestChildProcess is no test: it is the client that others kill.
func TestChildProcess(t *testing.T) {
	target := os.Getenv("POLYSCAN_TEST_LEASE_FROM")
	if target == "" {
		t.Skip("run by TestKilledClient")
	}
	c, err := clients.Dial(target)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.LeaseSharedMemory(context.Background(), 16, childSlot)
	if err != nil {
		t.Fatal(err)
	}
	slot, err := m.Slot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("leased")
	for i := 0; ; i++ {
		slot.Bytes()[i%childSlot] = byte(i)
	}
}

const childSlot = 1 << 20

// killChild starts a client in a process of its own and kills it when it has its memory. It returns what the clock said
// then; wait is to be called.
func killChild(t testing.TB, target string) (at time.Time, wait func() error) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChildProcess$")
	cmd.Env = append(os.Environ(), "POLYSCAN_TEST_LEASE_FROM="+target)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("leased\n"))); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	return time.Now(), cmd.Wait
}

// A client that is killed leaves nothing behind, over TCP or a unix socket.
func TestKilledClient(t *testing.T) {
	s, _ := startShared(t, Config{})
	before := openFiles(t)
	for _, network := range []string{"tcp", "unix"} {
		target := serveOn(t, s, network)
		_, wait := killChild(t, target)
		s.wantUsed(t, 0)
		wait()
	}
	waitFor(t, fmt.Sprintf("%d open files", before+2), func() bool { return openFiles(t) <= before+2 }) // two listeners
}

// serveOn serves s on a socket of a network, too, and returns how to reach it.
func serveOn(t testing.TB, s *testServer, network string) string {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	if network == "unix" {
		return "unix:" + address
	}
	return l.Addr().String()
}

// BenchmarkKilledClient is the time from kill -9 to the moment when the client's 16 MiB can be leased again.
func BenchmarkKilledClient(b *testing.B) {
	for _, network := range []string{"tcp", "unix"} {
		b.Run(network, func(b *testing.B) {
			s, _ := startShared(b, Config{})
			target := serveOn(b, s, network)
			worst, sum := time.Duration(0), time.Duration(0)
			for b.Loop() {
				at, wait := killChild(b, target)
				for {
					used, freed := s.shared.Leased()
					if used == 0 {
						break
					}
					<-freed
				}
				d := time.Since(at)
				wait()
				worst, sum = max(worst, d), sum+d
			}
			b.ReportMetric(float64(sum)/1e6/float64(b.N), "back-ms")
			b.ReportMetric(float64(worst)/1e6, "worst-ms")
		})
	}
}

// registering is the CPU's driver with a count of the memory that it was told of.
type registering struct {
	driver.Driver
	known *sync.Map
}

func (r registering) Open(ordinal int) (driver.Device, error) {
	d, err := r.Driver.Open(ordinal)
	return registeringDevice{d, r.known}, err
}

type registeringDevice struct {
	driver.Device
	known *sync.Map
}

func (d registeringDevice) RegisterHost(b []byte) (func() error, error) {
	if len(b) > 1<<20 {
		return nil, errors.New("too much")
	}
	d.known.Store(&b[0], len(b))
	return func() error {
		if _, ok := d.known.LoadAndDelete(&b[0]); !ok {
			return errors.New("let go of twice")
		}
		return nil
	}, nil
}

// A device that wants to know of memory is told, in time, and again when it is another one.
func TestLeasesAreRegistered(t *testing.T) {
	known := &sync.Map{}
	count := func() (n int) {
		known.Range(func(any, any) bool { n++; return true })
		return n
	}
	s, c := startShared(t, Config{Driver: registering{cpu.New(cpu.Options{Threads: 1}), known}})
	m := leaseMemory(t, c, 1, 1)
	if n := count(); n != 1 {
		t.Errorf("%d known", n)
	}
	s.shared.Detach()
	if n := count(); n != 0 {
		t.Errorf("%d known to a device that is gone", n)
	}
	s.shared.Restore(s.dev.Current())
	if n := count(); n != 1 {
		t.Errorf("%d known to the next device", n)
	}
	large := leaseMemory(t, c, 2, 1<<20)
	if n := count(); n != 1 || !strings.Contains(s.logs.String(), "too much") {
		t.Errorf("%d known; the log: %s", n, s.logs)
	}
	// One that has ended, and of which a job still reads.
	slot := takeSlot(t, m)
	read, err := s.shared.Place(auth.Anonymous, &kernels.Picture{Width: 1, Height: 1, Format: driver.Gray8},
		slot.Pixels(1), "frame.shared")
	if err != nil {
		t.Fatal(err)
	}
	slot.Release()
	m.Close()
	large.Close()
	s.wantUsed(t, 4096)
	s.shared.Detach()
	if n := count(); n != 0 {
		t.Errorf("%d known to a device that is gone, of a lease that is read", n)
	}
	s.shared.Restore(s.dev.Current())
	if n := count(); n != 1 {
		t.Errorf("%d known to the next device, of a lease that is read", n)
	}
	read()
	s.wantUsed(t, 0)
	if n := count(); n != 0 {
		t.Errorf("%d known after the end", n)
	}
}

// FuzzSocket sends bytes to the socket. None of them gets memory, and the server goes on.
func FuzzSocket(f *testing.F) {
	s, _ := startShared(f, fuzzConfig)
	l := s.rawLease(f, 1)
	f.Add([]byte{})
	f.Add(make([]byte, 32))
	f.Add(l.Token[:31])
	f.Add(append([]byte{0}, l.Token...))
	f.Fuzz(func(t *testing.T, sent []byte) {
		if bytes.HasPrefix(sent, l.Token) {
			t.Skip()
		}
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: l.SocketPath, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.Write(sent)
		c.CloseWrite()
		b, oob := make([]byte, 1), make([]byte, 256)
		n, oobn, _, _, _ := c.ReadMsgUnix(b, oob)
		if oobn != 0 || n == 1 && b[0] != byte(sharedmem.RefusedToken) ||
			n == 1 != (len(sent) >= sharedmem.TokenBytes) && len(sent) <= sharedmem.TokenBytes {
			t.Errorf("% x: answer % x with %d bytes of control", sent, b[:n], oobn)
		}
	})
}

// A line-scan stream whose strips lie in shared memory: each is copied to the device before it is acknowledged, or else
// the next one in its slot would change sums.
func TestSharedStrips(t *testing.T) {
	s, c := startShared(t, Config{})
	const width, lines, parts = 64, 16, 40
	scan, err := c.OpenScan(t.Context(), &pb.ScanOpen{
		Inspection: inspecting(rect("all", 0, 0, width, 2*lines)),
		Layout:     &pb.FrameLayout{Width: width, Height: lines, PixelFormat: gray8},
		PartLines:  2 * lines,
		Trigger:    &pb.ScanOpen_EveryLines{EveryLines: 2 * lines},
	}, clients.ScanOptions{SharedMemory: true, Strips: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer scan.Close()
	go func() {
		for i := range 2 * parts {
			b, err := scan.Buffer(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			copy(b, bytes.Repeat([]byte{byte(i)}, width*lines))
			if _, err := scan.Send(t.Context(), clients.Strip{}); err != nil {
				t.Error(err)
				return
			}
		}
		scan.CloseSend()
	}()
	got := 0
	for u, err := range scan.Updates() {
		if err != nil {
			t.Fatal(err)
		}
		if u.Part == nil {
			t.Errorf("%v", u)
			continue
		}
		want := uint64(width*lines) * uint64(4*got+1)
		if sum := u.Part.Regions[0].Channels[0].GetSum(); sum != want || u.Part.Incomplete {
			t.Errorf("part %d: sum %d, want %d", got, sum, want)
		}
		got++
	}
	if got != parts {
		t.Errorf("%d parts, want %d", got, parts)
	}
	scan.Close()
	s.wantUsed(t, 0)
	if n := metric(t, s, "polyscan_shared_memory_read_bytes_total"); n < 2*parts*width*lines {
		t.Errorf("%v bytes were read in shared memory", n)
	}
}

// A mask may be pixels in shared memory: those that are there when the call comes.
func TestSharedMaskImage(t *testing.T) {
	s, c := startShared(t, Config{})
	m, runs := blot(5, -3)
	slot := takeSlot(t, leaseMemory(t, c, 1, len(m.Pix)))
	defer slot.Release()
	f, err := slot.Frame(clients.Raw{Width: 23, Height: 17, Format: clients.Gray8})
	if err != nil {
		t.Fatal(err)
	}
	frame := noisyFrame(40, 30, 1)
	for _, pix := range [][]byte{m.Pix, make([]byte, len(m.Pix)), m.Pix} {
		copy(slot.Bytes(), pix)
		want := masked("m")
		if pix[0] != 0 {
			want.Mask.Runs = runs
		}
		got, err := c.Reduce(t.Context(), inspecting(imaged("m", f, 5, -3)), frame)
		if err != nil {
			t.Fatal(err)
		}
		same, err := c.Reduce(t.Context(), inspecting(want), frame)
		if err != nil || !sameNumbers(got, same) {
			t.Errorf("%v, want %v, %v", got, same, err)
		}
	}
	s.idleHost(t)
}
