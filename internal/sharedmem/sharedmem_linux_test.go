package sharedmem

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func create(t testing.TB, n int64) *Memory {
	t.Helper()
	m, err := Create(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// listenAt answers one connection with f, and returns the path of the socket. answered waits until f has returned.
func listenAt(t testing.TB, f func(*net.UnixConn)) (path string, answered func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	done, called := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.AcceptUnix()
		if err != nil {
			return
		}
		defer c.Close()
		f(c)
		close(called)
		Await(c) // a peer that is still sending would lose the answer
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return path, func() { <-called }
}

func files(t testing.TB) int {
	t.Helper()
	e, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(e)
}

func TestHandOver(t *testing.T) {
	before := files(t)
	m := create(t, 5000)
	if n := len(m.Data()); n != 8192 && os.Getpagesize() == 4096 {
		t.Errorf("%d bytes", n)
	}
	token := NewToken()
	path, answered := listenAt(t, func(c *net.UnixConn) {
		if uid, err := PeerUID(c); err != nil || uid != uint32(os.Geteuid()) {
			t.Errorf("peer %d, %v", uid, err)
		}
		got, err := ReceiveToken(c)
		if err != nil || got != token {
			t.Errorf("token %x, %v", got, err)
		}
		if err := m.Send(c); err != nil {
			t.Error(err)
		}
	})
	p, err := Fetch(t.Context(), path, token[:], 5000)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Data) != 5000 || !p.Intact() {
		t.Errorf("%d bytes, intact: %v", len(p.Data), p.Intact())
	}
	copy(p.Data, "pixels")
	if got := string(m.Data()[:6]); got != "pixels" {
		t.Errorf("the owner sees %q", got)
	}
	if err := m.Whole(); err != nil {
		t.Error(err)
	}
	answered()
	if err := m.Free(true); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(p.Data, make([]byte, 5000)) {
		t.Error("the pages of freed memory are still there")
	}
	p.Data[1] = 1 // must not fault
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if n := files(t); n > before+2 { // the listener's and its poller's, until the test ends
		t.Errorf("%d open files, %d before", n, before)
	}
}

// Memory that is not wiped lives on with its peer.
func TestFreeWithoutWiping(t *testing.T) {
	m := create(t, 1)
	path, answered := listenAt(t, func(c *net.UnixConn) { m.Send(c) })
	p, err := Fetch(t.Context(), path, make([]byte, TokenBytes), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.Data[0] = 7
	answered()
	if err := m.Free(false); err != nil {
		t.Error(err)
	}
	if p.Data[0] != 7 || !p.Intact() {
		t.Errorf("%d, intact: %v", p.Data[0], p.Intact())
	}
}

func TestTakeBack(t *testing.T) {
	m := create(t, 1)
	path, answered := listenAt(t, func(c *net.UnixConn) {
		m.Send(c)
		TakeBack(c)
	})
	p, err := Fetch(t.Context(), path, make([]byte, TokenBytes), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for p.Intact() {
		time.Sleep(time.Millisecond)
	}
	answered()
	m.Free(true)
}

// Nothing that a peer can do to the descriptor takes memory away from the owner, but for holes, which it notices.
func TestPeerCannotTakeMemoryAway(t *testing.T) {
	const n = 64 << 10
	m := create(t, n)
	defer m.Free(true)
	fd := int(m.file.Fd())
	for what, size := range map[string]int64{"truncate": 0, "shrink": n - 1, "grow": n + 1} {
		if err := unix.Ftruncate(fd, size); !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := unix.Fallocate(fd, 0, n, 4096); !errors.Is(err, unix.EPERM) {
		t.Errorf("allocate beyond the end: %v", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); !errors.Is(err, unix.EPERM) {
		t.Errorf("another seal: %v", err)
	}
	if _, err := unix.Pwrite(fd, []byte{9}, 0); err != nil || m.Data()[0] != 9 {
		t.Errorf("write: %v, %d", err, m.Data()[0])
	}
	if err := m.Whole(); err != nil {
		t.Errorf("before the hole: %v", err)
	}
	if err := unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 8192, 4096); err != nil {
		t.Fatal(err)
	}
	if err := m.Whole(); !errors.Is(err, ErrHole) || !strings.Contains(err.Error(), "61440 bytes of 65536") {
		t.Errorf("after the hole: %v", err)
	}
	if m.Data()[8192] != 0 {
		t.Error("a hole that is not zero")
	}
}

func TestCreateRefuses(t *testing.T) {
	before := files(t)
	for _, n := range []int64{-1, 0, 1<<63 - 1} {
		if m, err := Create(t.Context(), n); err == nil {
			m.Free(true)
			t.Errorf("%d bytes: no error", n)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Create(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if n := files(t); n != before {
		t.Errorf("%d open files, %d before", n, before)
	}
}

// What an owner may answer, and what Fetch makes of it. No descriptor stays open.
func TestFetchRefuses(t *testing.T) {
	open := func(t *testing.T, seals int, n int64) int {
		fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Ftruncate(fd, n); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	send := func(answer byte, fds ...int) func(*net.UnixConn) {
		return func(c *net.UnixConn) {
			var oob []byte
			if len(fds) > 0 {
				oob = unix.UnixRights(fds...)
			}
			c.WriteMsgUnix([]byte{answer}, oob, nil)
		}
	}
	good := open(t, unix.F_SEAL_SHRINK, 4096)
	devNull, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer devNull.Close()
	for _, c := range []struct {
		name, want string
		answer     func(*net.UnixConn)
	}{
		{"nothing", "EOF", func(c *net.UnixConn) { c.CloseWrite() }},
		{"token", RefusedToken.Error(), send(1)},
		{"user", RefusedUser.Error(), send(2)},
		{"user, unheard", RefusedUser.Error(), func(c *net.UnixConn) {
			Refuse(c, RefusedUser)
			c.Close()
		}},
		{"unknown code", "code 77", send(77)},
		{"refused with a descriptor", RefusedToken.Error(), send(1, good)},
		{"no descriptor", "0 descriptors", send(0)},
		{"many descriptors", "", send(0, good, good, good)},
		{"not sealed", "not sealed", send(0, open(t, 0, 4096))},
		{"too small", "has 4095 bytes, want 4096", send(0, open(t, unix.F_SEAL_SHRINK, 4095))},
		{"no memory", "seals", send(0, int(devNull.Fd()))},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, _ := listenAt(t, c.answer)
			before := files(t)
			p, err := Fetch(t.Context(), path, make([]byte, TokenBytes), 4096)
			if err == nil {
				p.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q lacks %q", err, c.want)
			}
			if n := files(t); n > before+1 { // the other end may still be open
				t.Errorf("%d open files, %d before", n, before)
			}
		})
	}
	if _, err := Fetch(t.Context(), filepath.Join(t.TempDir(), "none"), nil, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no socket: %v", err)
	}
	if _, err := Fetch(t.Context(), "", nil, 0); err == nil {
		t.Error("0 bytes: no error")
	}
}

// A context that ends while the owner says nothing ends Fetch.
func TestFetchWaitsNoLongerThanItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	path, _ := listenAt(t, func(c *net.UnixConn) {
		ReceiveToken(c)
		cancel()
	})
	if _, err := Fetch(ctx, path, make([]byte, TokenBytes), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Descriptors that come beside a token are not kept.
func TestReceiveTokenKeepsNoDescriptors(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	a, b := conn(t, pair[0]), conn(t, pair[1])
	before := files(t)
	token := NewToken()
	if _, _, err := a.WriteMsgUnix(token[:], syscall.UnixRights(0, 1, 2), nil); err != nil {
		t.Fatal(err)
	}
	if got, err := ReceiveToken(b); err != nil || got != token {
		t.Errorf("%x, %v", got, err)
	}
	if n := files(t); n != before {
		t.Errorf("%d open files, %d before", n, before)
	}
}

func conn(t testing.TB, fd int) *net.UnixConn {
	t.Helper()
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.UnixConn)
}

// FuzzRights reads control messages as an owner may send them. The descriptors are numbers here: none is closed.
func FuzzRights(f *testing.F) {
	f.Add([]byte{})
	f.Add(unix.UnixRights(3))
	f.Add(unix.UnixRights(3, 4, 5))
	f.Add(unix.UnixCredentials(&unix.Ucred{Pid: 1, Uid: 2, Gid: 3}))
	f.Add(unix.UnixRights(3)[:10])
	f.Fuzz(func(t *testing.T, oob []byte) {
		fds, err := rights(oob)
		if len(fds)*4 > len(oob) || err == nil && len(oob) == 0 && len(fds) != 0 {
			t.Errorf("%d descriptors in %d bytes, %v", len(fds), len(oob), err)
		}
	})
}
