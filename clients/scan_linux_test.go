package clients_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/polyscan/polyscan/clients"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server"
)

// TestScanSharedMemory resets the connection, and the lease with it, while strips are on the way and while a buffer is being written: the
// stream leases memory anew and takes the strips along.
func TestScanSharedMemory(t *testing.T) {
	dir := t.TempDir()
	handover, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "memory"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Config{Device: "cpu", SharedMemoryListener: handover})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "server"))
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
	var mu sync.Mutex
	var conn net.Conn
	c, err := clients.Dial("unix:"+filepath.Join(dir, "server"), clients.WithDialOptions(grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		dialled, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "server"))
		mu.Lock()
		conn = dialled
		mu.Unlock()
		return dialled, err
	})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})

	const width, lines, strips = 128, 16, 60
	scan, err := c.OpenScan(t.Context(), &polyscanv1.ScanOpen{
		Inspection: clients.UseRegions(clients.Polygon("all", 0, 0, width, 0, width, lines, 0, lines)),
		Layout:     &polyscanv1.FrameLayout{Width: width, Height: lines, PixelFormat: clients.Gray8},
		PartLines:  lines,
		Trigger:    &polyscanv1.ScanOpen_EveryLines{EveryLines: lines},
	}, clients.ScanOptions{Strips: 4, SharedMemory: true})
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
			if mean := u.Part.GetRegions()[0].GetChannels()[0].GetMean(); u.Part.GetPartNumber() != next || mean != float64(next) || u.Part.GetIncomplete() {
				t.Errorf("part %d: number %d, mean %v, incomplete %v", next, u.Part.GetPartNumber(), mean, u.Part.GetIncomplete())
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
