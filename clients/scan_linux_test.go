package clients_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/polyscan/polyscan/clients"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server"
)

// startShared starts a server that leases memory, and returns the path of its socket.
func startShared(t *testing.T) (s *server.Server, path string) {
	t.Helper()
	dir := t.TempDir()
	handover, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "memory"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = server.New(server.Config{Device: "cpu", SharedMemoryListener: handover}); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "server")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Shutdown(context.WithoutCancel(t.Context())), <-served); err != nil {
			t.Error(err)
		}
	})
	return s, path
}

func dialShared(t *testing.T, path string, opts ...clients.Option) *clients.Client {
	t.Helper()
	c, err := clients.Dial("unix:"+path, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// wholeStrips is a session each strip of which is a part.
func wholeStrips(width, lines int) *polyscanv1.ScanOpen {
	w, h := float64(width), float64(lines)
	return &polyscanv1.ScanOpen{
		Inspection: clients.UseRegions(clients.Polygon("all", 0, 0, w, 0, w, h, 0, h)),
		Layout:     &polyscanv1.FrameLayout{Width: uint32(width), Height: uint32(lines), PixelFormat: clients.Gray8},
		PartLines:  uint32(lines),
		Trigger:    &polyscanv1.ScanOpen_EveryLines{EveryLines: uint32(lines)},
	}
}

// A stream may end while its caller writes into the buffer: the memory is there until the buffer is given back.
func TestScanEndsUnderBuffer(t *testing.T) {
	_, path := startShared(t)
	c := dialShared(t, path)
	for _, give := range []struct {
		name string
		back func(*clients.Scan) error
	}{
		{"Send", func(s *clients.Scan) error { _, err := s.Send(t.Context(), clients.Strip{}); return err }},
		{"Close", func(s *clients.Scan) error { s.Close(); return clients.ErrScanEnded }},
	} {
		t.Run(give.name, func(t *testing.T) {
			// that earlier tests broke the connections of: the transport may never let go of its payloads
			others := mappings(t)
			ctx, cancel := context.WithCancel(t.Context())
			scan, err := c.OpenScan(ctx, wholeStrips(8, 4), clients.ScanOptions{Strips: 4, SharedMemory: true})
			if err != nil {
				t.Fatal(err)
			}
			defer scan.Close()
			b, err := scan.Buffer(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			if u, err := scan.Recv(); !errors.Is(err, context.Canceled) {
				t.Fatalf("%v, %v", u, err)
			}
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // where it isn't
			for range 100 {
				time.Sleep(100 * time.Microsecond) // unmapping came behind the error
				clear(b)
			}
			if err := give.back(scan); !errors.Is(err, clients.ErrScanEnded) {
				t.Errorf("%v", err)
			}
			for end := time.Now().Add(20 * time.Second); mappings(t) > others; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d mappings of shared memory are left, and %d were there before", mappings(t), others)
				}
			}
		})
	}
}

// mappings counts those of the client: the server's are for reading.
func mappings(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "memfd:polyscan") && strings.Contains(line, " rw-s ") {
			n++
		}
	}
	return n
}

// TestScanSharedMemory resets the connection, and the lease with it, while strips are on the way and while a buffer is
// being written: the stream leases memory anew and takes the strips along.
func TestScanSharedMemory(t *testing.T) {
	_, path := startShared(t)
	var mu sync.Mutex
	var conn net.Conn
	c := dialShared(t, path,
		clients.WithDialOptions(grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			dialled, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
			mu.Lock()
			conn = dialled
			mu.Unlock()
			return dialled, err
		})))

	const width, lines, strips = 128, 16, 60
	scan, err := c.OpenScan(t.Context(), wholeStrips(width, lines), clients.ScanOptions{Strips: 4, SharedMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer scan.Close()
	var sending sync.WaitGroup
	sending.Go(func() {
		defer scan.CloseSend()
		for n := range strips {
			b, err := scan.Buffer(t.Context())
			if err != nil {
				t.Errorf("strip %d: %v", n, err)
				return
			}
			for i := range b {
				b[i] = byte(n)
			}
			if n%20 == 10 {
				leases := scan.Stats().Leases
				mu.Lock()
				err := conn.Close()
				mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				// In between the strip is in the old lease, in its time and after.
				for n > 30 && scan.Stats().Leases == leases && t.Context().Err() == nil {
					time.Sleep(time.Millisecond)
				}
			}
			if _, err := scan.Send(t.Context(), clients.Strip{}); err != nil {
				t.Errorf("strip %d: %v", n, err)
				return
			}
		}
	})
	next := uint64(0)
	for u, err := range scan.Updates() {
		switch {
		case err != nil:
			t.Fatal(err)
		case u.Part != nil:
			if mean := u.Part.GetRegions()[0].GetChannels()[0].GetMean(); u.Part.GetPartNumber() != next ||
				mean != float64(next) || u.Part.GetIncomplete() {
				t.Errorf("part %d: number %d, mean %v, incomplete %v", next, u.Part.GetPartNumber(), mean,
					u.Part.GetIncomplete())
			}
			next++
		case u.Event != nil:
			t.Errorf("%v", u.Event)
		}
	}
	sending.Wait()
	if st := scan.Stats(); next != strips || st.Reconnects < 3 || st.Leases < 4 {
		t.Errorf("%d parts, %+v", next, st)
	}
}
