//go:build unix

// Stopping under load, with a process and signals of the operating system.

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// spawn starts polyscand as a process and returns it with the address it listens on.
func spawn(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	stderr := &output{}
	cmd := exec.Command(os.Args[0], append([]string{"--listen", "127.0.0.1:0", "--memory", "64MiB", "--device", "cpu"},
		args...)...)
	cmd.Env = append(os.Environ(), asDaemon+"=1")
	cmd.Stderr = io.MultiWriter(stderr, t.Output())
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
		if strings.Contains(stderr.String(), "internal error") {
			t.Error("it logged an internal error")
		}
	})
	addr := ""
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if a, ok := strings.CutPrefix(lines.Text(), "polyscand: listening on "); ok {
			addr = a
		}
		if strings.Contains(lines.Text(), "ready") {
			return cmd, addr
		}
	}
	t.Fatalf("it ended before it was ready: %v", lines.Err())
	return nil, ""
}

// inspection is of so many regions, each a square from the origin.
func inspection(regions int, side float64) *pb.Inspection {
	return &pb.Inspection{Regions: &pb.Inspection_RegionSet{RegionSet: regionSet(regions, side)}}
}

func regionSet(regions int, side float64) *pb.RegionSet {
	s := &pb.RegionSet{}
	for range regions {
		s.Regions = append(s.Regions,
			&pb.Region{Rings: []*pb.Ring{{Xy: []float64{0, 0, side, 0, side, side, 0, side}}}})
	}
	return s
}

func frame(side int) *pb.Frame {
	return &pb.Frame{
		Layout: &pb.FrameLayout{Width: uint32(side), Height: uint32(side),
			PixelFormat: pb.PixelFormat_PIXEL_FORMAT_GRAY8},
		Source: &pb.Frame_Data{Data: make([]byte, side*side)},
	}
}

// refused says that a call was not begun, or its connection was closed before the server took it on.
func refused(err error) bool { return status.Code(err) == codes.Unavailable }

// scanUntilDrained sends strips of 16 lines, as many as it may, and ends the session when the server says that it shuts
// down. Each part of 64 lines must have come then, complete.
func scanUntilDrained(t *testing.T, ctx context.Context, conn *grpc.ClientConn, busy chan<- struct{}) {
	const width, stripLines, partLines = 256, 16, 64
	s, err := pb.NewLineScanServiceClient(conn).ScanLines(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	err = s.Send(&pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Open{Open: &pb.ScanOpen{
		Inspection: inspection(1, partLines), PartLines: partLines,
		Trigger: &pb.ScanOpen_EveryLines{EveryLines: partLines},
		Layout:  &pb.FrameLayout{Width: width, Height: stripLines, PixelFormat: pb.PixelFormat_PIXEL_FORMAT_GRAY8},
	}}})
	if err != nil {
		t.Error(err)
		return
	}
	var sent, credit, parts uint64 // lines, lines, and what has come
	for draining := false; ; {
		for !draining && sent+stripLines <= credit {
			err := s.Send(&pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Strip{Strip: &pb.Strip{
				Sequence: sent / stripLines, FirstLine: sent, NextResult: parts,
				Frame: &pb.Frame{Layout: &pb.FrameLayout{Height: stripLines},
					Source: &pb.Frame_Data{Data: make([]byte, width*stripLines)}},
			}}})
			if err != nil {
				break // Recv has the error
			}
			sent += stripLines
		}
		m, err := s.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) || !draining || parts < sent/partLines {
				t.Errorf("ScanLines: %v after %d parts of %d lines (draining: %v)", err, parts, sent, draining)
			}
			return
		}
		switch m := m.Message.(type) {
		case *pb.ScanLinesResponse_Opened:
			credit = m.Opened.CreditLine
		case *pb.ScanLinesResponse_Ack:
			credit = m.Ack.CreditLine
		case *pb.ScanLinesResponse_Part:
			if p := m.Part; p.Error != nil || p.PartNumber != parts || p.Incomplete && p.MissingLines == 0 ||
				p.Incomplete && !draining {
				t.Errorf("ScanLines: part %v, want number %d, whole", p, parts)
			}
			parts++
			busy <- struct{}{}
		case *pb.ScanLinesResponse_Event:
			if m.Event.Kind != pb.ScanEventKind_SCAN_EVENT_KIND_DRAINING {
				t.Errorf("ScanLines: %v", m.Event)
				continue
			}
			draining = true
			if err := s.CloseSend(); err != nil {
				t.Error(err)
			}
		}
	}
}

// While calls, streams, line-scan sessions and puts go on, SIGTERM ends the process with exit code 0 and within the
// bound, each call is answered or refused, each answer to a stream is the next one, each strip counts, and each recipe
// whose put was answered is there afterwards.
func TestTerminateUnderLoad(t *testing.T) {
	dir := t.TempDir()
	const bound = 20 * time.Second
	cmd, addr := spawn(t, "--recipes", dir, "--shutdown-timeout", bound.String())
	conn := dial(t, addr)
	api := pb.NewInspectionServiceClient(conn)
	ctx, cancel := context.WithCancel(t.Context()) // without a deadline: it would count for the server, too
	defer cancel()
	defer time.AfterFunc(2*bound, cancel).Stop()

	var load sync.WaitGroup
	busy := make(chan struct{}, 1<<16) // one for each answer
	var stored atomic.Uint64
	for range 3 {
		load.Go(func() {
			for {
				res, err := api.Reduce(ctx, &pb.ReduceRequest{Inspection: inspection(1, 64), Frame: frame(64)})
				if refused(err) {
					return
				}
				if err != nil || res.GetResult().GetRegions()[0].GetCount() != 64*64 {
					t.Errorf("Reduce: %v, %v", res, err)
					return
				}
				busy <- struct{}{}
			}
		})
	}
	for range 2 {
		load.Go(func() {
			s, err := api.StreamFrames(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Send(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Open{Open: inspection(200,
				1024)}}); err != nil {
				t.Error(err)
			}
			load.Go(func() { // without an end of its own, and faster than answers come
				f := frame(1024)
				for s.Send(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: f}}) == nil {
				}
			})
			for next := uint64(0); ; next++ {
				res, err := s.Recv()
				if refused(err) || errors.Is(err, io.EOF) {
					return
				}
				if err != nil || res.Sequence != next || res.GetResult() == nil {
					t.Errorf("StreamFrames: %v, %v, want number %d", res, err, next)
					return
				}
				busy <- struct{}{}
			}
		})
	}
	load.Go(func() { scanUntilDrained(t, ctx, conn, busy) })
	load.Go(func() {
		recipes := pb.NewRecipeServiceClient(conn)
		for {
			res, err := recipes.PutRecipe(ctx,
				&pb.PutRecipeRequest{Recipe: &pb.Recipe{Name: "load", RegionSet: regionSet(1, 64)}})
			if refused(err) {
				return
			}
			if err != nil {
				t.Errorf("PutRecipe: %v", err)
				return
			}
			stored.Store(res.GetRecipe().GetVersion())
			busy <- struct{}{}
		}
	})
	for range 100 {
		<-busy
	}
	for stored.Load() < 3 {
		<-busy
	}
	go func() {
		for range busy { // so that no client waits for this test
		}
	}()
	begun := time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v after %v, want exit code 0", err, time.Since(begun))
	}
	if d := time.Since(begun); d > bound {
		t.Errorf("it took %v, more than %v", d, bound)
	}
	load.Wait()
	close(busy)

	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".writing") {
			t.Errorf("%s was left behind half written", e.Name())
		}
	}
	again, addr := spawn(t, "--recipes", dir)
	res, err := pb.NewRecipeServiceClient(dial(t, addr)).GetRecipe(ctx,
		&pb.GetRecipeRequest{Recipe: &pb.RecipeRef{Name: "load"}})
	if err != nil || res.GetRecipe().GetVersion() < stored.Load() {
		t.Errorf("the latest recipe is version %d, %v, want at least %d, which was answered",
			res.GetRecipe().GetVersion(), err, stored.Load())
	}
	again.Process.Signal(syscall.SIGTERM)
	if err := again.Wait(); err != nil {
		t.Error(err)
	}
}

// A client that never ends its stream, and reads nothing, doesn't keep the process from ending; that calls were
// cancelled shows in the exit code.
func TestTerminateIsBounded(t *testing.T) {
	cmd, addr := spawn(t, "--shutdown-timeout", "200ms")
	conn := dial(t, addr)
	if _, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true},
		pb.InspectionService_Reduce_FullMethodName); err != nil {
		t.Fatal(err)
	}
	if _, err := pb.NewDeviceServiceClient(conn).GetDevice(t.Context(), &pb.GetDeviceRequest{}); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Errorf("it ended with %v, want exit code %d", err, exitFailed)
	}
}

// systemd hears when the process is ready, that it is alive, and how long it wants to stop.
func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.SetReadDeadline(time.Now().Add(patience))
	read := func() string {
		t.Helper()
		b := make([]byte, 4096)
		n, err := l.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", fmt.Sprint((20 * time.Millisecond).Microseconds()))
	cmd, _ := spawn(t, "--shutdown-timeout", "5s")
	if m := read(); !strings.HasPrefix(m, "READY=1\nSTATUS=cpu on ") {
		t.Errorf("first %q, want READY=1", m)
	}
	for range 3 {
		if m := read(); m != "WATCHDOG=1" {
			t.Errorf("then %q, want WATCHDOG=1", m)
		}
	}
	cmd.Process.Signal(syscall.SIGTERM)
	m := read()
	for m == "WATCHDOG=1" {
		m = read()
	}
	if !strings.HasPrefix(m, "STOPPING=1\n") || !strings.Contains(m, "EXTEND_TIMEOUT_USEC=15000000") {
		t.Errorf("at last %q, want STOPPING=1 and 15 s", m)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
