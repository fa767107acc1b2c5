package attack

// Clients that hold leases of shared memory, which a device may read by itself, and are killed in the midst of it.

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

var leaseAttacks = []attack{
	{row: 16, name: "clients with leases that are killed", args: sharedMemory, run: killHolders},
}

// sharedSocket is where servers of this process hand out shared memory, one server at a time.
var sharedSocket = filepath.Join(os.TempDir(), fmt.Sprintf("polyscan-attack-%d.socket", os.Getpid()))

// sharedMemory is settings of a server that hands out some.
var sharedMemory = []string{"--shm-socket", sharedSocket, "--shm-memory", fmt.Sprint(holders * leaseBytes * 3)}

const (
	holders    = 3
	leaseSide  = 2048
	leaseBytes = leaseSide * leaseSide

	holderAddr = "HOLDER_ADDR" // of the server, in the environment of a client that holds leases
)

// killHolders starts clients, waits until each has frames of its lease under way, and kills them.
func killHolders(ctx context.Context, a *attempt) {
	for killed := 0; ctx.Err() == nil; {
		var all sync.WaitGroup
		for range holders {
			all.Go(func() {
				cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestLeaseHolder$", "-test.timeout", "0")
				cmd.Env = append(os.Environ(), holderAddr+"="+a.addr)
				cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
				out, err := cmd.StdoutPipe()
				if err == nil {
					err = cmd.Start()
				}
				if err != nil {
					if ctx.Err() == nil {
						a.problem("a client can't be started: %v", err)
					}
					return
				}
				lines := bufio.NewScanner(out)
				if !lines.Scan() || lines.Text() != "holding" {
					if ctx.Err() == nil {
						a.problem("a client with a lease: %q", lines.Text())
					}
				}
				cmd.Process.Kill()
				cmd.Wait()
			})
		}
		all.Wait()
		if killed += holders; ctx.Err() == nil {
			// What they had comes free, though nobody has given it back.
			end := time.Now().Add(settle)
			for a.metric(a.T, "polyscan_shared_memory_leases") > 0 {
				if time.Now().After(end) {
					a.problem("%v leases are open after %d clients were killed", a.metric(a.T, "polyscan_shared_memory_leases"), killed)
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
}

// TestLeaseHolder is a client that [killHolders] kills: it leases memory and has frames in it reduced, without an end.
func TestLeaseHolder(t *testing.T) {
	addr := os.Getenv(holderAddr)
	if addr == "" {
		t.Skip("no server: the suite starts this test in processes of their own")
	}
	cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := pb.NewSharedMemoryServiceClient(cc).Lease(t.Context(), &pb.LeaseRequest{Bytes: leaseBytes})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", lease.GetSocketPath()) // which is kept for as long as the lease is
	if err != nil {
		t.Fatal(err)
	}
	if err := fetchDescriptor(c, lease.GetToken()); err != nil {
		t.Fatal(err)
	}
	client := pb.NewInspectionServiceClient(cc)
	frame := grayFrame(leaseSide, leaseSide)
	frame.Source = &pb.Frame_Shared{Shared: &pb.SharedPixels{LeaseId: lease.GetLeaseId(), Length: leaseBytes}}
	req := &pb.ReduceRequest{Inspection: inspect(rectangle("", leaseSide, leaseSide)), Frame: frame}
	var once sync.Once
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				if _, err := client.Reduce(t.Context(), req); err != nil {
					once.Do(func() { fmt.Println(err) })
					return
				}
				once.Do(func() { fmt.Println("holding") })
			}
		})
	}
	all.Wait()
}

// TestDeviceIsLost takes the device away in the midst of attacks and of a line, on a machine with a GPU: LOSE_LIBRARY
// is the library that testdata/lose.c becomes. What comes until then is right, and the server says in time that it has
// no device: it opens it again, or ends with status 1, since a driver may give a process no other context; whoever
// starts it again has it back.
func TestDeviceIsLost(t *testing.T) {
	library := os.Getenv("LOSE_LIBRARY")
	if library == "" {
		t.Skip("no LOSE_LIBRARY")
	}
	if *attackTime == 0 {
		*attackTime = 3 * time.Second
	}
	lose := filepath.Join(t.TempDir(), "lose")
	a := &attempt{T: t, process: startIn(t, []string{"LD_PRELOAD=" + library, "LOSE_DEVICE=" + lose}, sharedMemory...),
		answers: map[codes.Code]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var attacking sync.WaitGroup
	for _, c := range []attack{computeAttacks[0], computeAttacks[1], leaseAttacks[0]} {
		attacking.Go(func() { a.attack(ctx, c) })
	}
	line := make(chan conveyor, 1)
	go func() { line <- convey(a.client(t), *attackTime, 2*time.Millisecond) }()
	time.Sleep(*attackTime / 3)
	if err := os.WriteFile(lose, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lost := time.Now()
	got := <-line
	for exists := true; exists && time.Since(lost) < settle; time.Sleep(10 * time.Millisecond) {
		_, err := os.Stat(lose)
		exists = err == nil
	}
	if _, err := os.Stat(lose); err == nil {
		t.Fatal("no kernel was launched that could have lost the device")
	}
	if got.got == 0 || got.wrong+got.double > 0 {
		t.Errorf("a line whose device is lost: %+v", got)
	}
	if got.err == nil {
		t.Errorf("the line goes on without a device: %+v", got)
	}
	ended := false
	select {
	case <-a.stopped:
		ended = true
	case <-time.After(2 * settle):
	}
	cancel()
	attacking.Wait()
	t.Logf("%d of %d parts came before the device was lost, then %v; the server has ended: %t, after %v", got.got, got.sent,
		got.err, ended, time.Since(lost))
	p := a.process
	if ended {
		a.cmd.Wait()
		if code := a.cmd.ProcessState.ExitCode(); code != 1 {
			t.Errorf("the server ended with status %d:\n%s", code, a.log.String())
		}
		p = start(t, sharedMemory...)
	}
	again := convey(p.client(t), time.Second, 2*time.Millisecond)
	if again.err != nil || again.got != again.sent || again.wrong+again.double > 0 {
		t.Errorf("a line afterwards: %+v", again)
	}
}
