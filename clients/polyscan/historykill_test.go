package main

// What a camera saw is in the history, once, whatever happens to connections and to the server.

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/internal/race"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"

	_ "github.com/polyscan/polyscan/internal/shorttest"
)

// relay is a way to a server that breaks when it is told to.
type relay struct {
	net.Listener
	mu    sync.Mutex
	to    string
	conns map[net.Conn]bool
}

func newRelay(t *testing.T, to string) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, to: to, conns: map[net.Conn]bool{}}
	t.Cleanup(func() { l.Close(); r.cut() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			to := r.to
			r.mu.Unlock()
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			r.mu.Lock()
			r.conns[in], r.conns[out] = true, true
			r.mu.Unlock()
			pipe := func(to, from net.Conn) {
				io.Copy(to, from)
				to.Close()
				from.Close()
				r.mu.Lock()
				defer r.mu.Unlock()
				delete(r.conns, to)
				delete(r.conns, from)
			}
			go pipe(in, out)
			go pipe(out, in)
		}
	}()
	return r
}

// cut resets all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
		c.Close()
	}
}

// daemonProcess is a server with a history.
type daemonProcess struct {
	*exec.Cmd
	addr string
}

var listening = regexp.MustCompile(`listening on (\S+)`)

func startDaemon(t *testing.T, history string) *daemonProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0], "serve", "--listen", "127.0.0.1:0", "--history", history, "--memory", "64MiB")
	cmd.Env = append(os.Environ(), asProgram)
	out := &liveOutput{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d := &daemonProcess{Cmd: cmd}
	t.Cleanup(func() { d.kill() })
	out.await(t, "ready;")
	d.addr = listening.FindStringSubmatch(out.String())[1]
	return d
}

// kill is kill -9.
func (d *daemonProcess) kill() {
	d.Process.Kill()
	d.Wait()
}

// Each verdict that the camera saw is in the history exactly once, with the same numbers, however often its connection
// breaks; and where the server is killed, but for those of the second before.
func TestHistoryHasWhatTheCameraSaw(t *testing.T) {
	race.Skip(t) // the server would be too slow for the camera
	t.Parallel()
	parts, breaks, kills, pace := 600, 6, 1, 12*time.Millisecond
	if !testing.Short() {
		parts, breaks, kills, pace = 10_000, 100, 2, 4*time.Millisecond
	}
	// window is the second that is promised, and what a machine with other work may add to the writing.
	const window = 2 * time.Second
	const width, lines = 32, 8
	dir := t.TempDir()
	d := startDaemon(t, dir)
	way := newRelay(t, d.addr)
	c, err := clients.Dial(way.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	type seen struct {
		part *polyscanv1.PartResult
		at   time.Time
	}
	var mu sync.Mutex
	all := map[string]seen{} // by id
	var killed []time.Time
	broken := 0
	sent, session := 0, 0
	for sent < parts {
		session++
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		plate := clients.Polygon("plate", 1, 1, width-1, 1, width-1, lines-1, 1, lines-1)
		plate.Limits = []string{"mean in [10, 150]"}
		in := clients.UseRegions(plate)
		in.Name = "camera-1"
		open := &polyscanv1.ScanOpen{
			Inspection: in, Layout: &polyscanv1.FrameLayout{Width: width, Height: lines, PixelFormat: clients.Gray8},
			PartLines: lines, Trigger: &polyscanv1.ScanOpen_EveryLines{EveryLines: lines},
		}
		var scan *clients.Scan
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if scan, err = c.OpenScan(ctx, open, clients.ScanOptions{}); err == nil {
				break
			} else if time.Now().After(end) {
				t.Fatal(err)
			}
		}
		received := make(chan struct{})
		go func() {
			defer close(received)
			for u, err := range scan.Updates() {
				if err != nil {
					return // the server was killed: another session goes on
				}
				if u.Reconnected != nil {
					mu.Lock()
					broken++
					mu.Unlock()
				}
				if u.Part != nil {
					mu.Lock()
					if _, twice := all[u.Part.GetPartId()]; twice {
						t.Errorf("part %s came twice", u.Part.GetPartId())
					}
					all[u.Part.GetPartId()] = seen{u.Part, time.Now()}
					mu.Unlock()
				}
			}
		}()
		pixels := make([]byte, width*lines)
		end := min(parts, parts*session/(kills+1)) // of this session, but for those that a kill costs
		for ; sent < end; sent++ {
			for i := range pixels {
				pixels[i] = byte(sent*31 + i*7)
			}
			if _, err := scan.Send(ctx, clients.Strip{Pixels: pixels,
				PartIDs: []string{fmt.Sprintf("S%d-%d", session, sent)}}); err != nil {
				t.Fatalf("session %d: %v", session, err)
			}
			time.Sleep(pace) // as a camera has one
			if sent%(parts/breaks) == parts/breaks/2 {
				way.cut()
			}
		}
		if len(killed) < kills { // while results are under way
			d.kill()
			killed = append(killed, time.Now())
			way.cut()
			d = startDaemon(t, dir)
			way.mu.Lock()
			way.to = d.addr
			way.mu.Unlock()
		} else {
			scan.CloseSend()
		}
		<-received
		scan.Close()
		cancel()
	}
	// SIGTERM writes what waits; then another server reads it.
	if err := d.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	d.Wait()
	d = startDaemon(t, dir)
	reader, err := clients.Dial(d.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	kept := map[string]*polyscanv1.HistoryPart{}
	req := &polyscanv1.ListPartsRequest{Numbers: polyscanv1.RegionNumbers_REGION_NUMBERS_ALL, PageSize: 1000}
	for p, err := range reader.Parts(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		if kept[p.GetPartId()] != nil {
			t.Errorf("part %s is there twice", p.GetPartId())
		}
		kept[p.GetPartId()] = p
	}
	missing := 0
	for _, id := range slices.Sorted(maps.Keys(all)) {
		want, got := all[id], kept[id]
		if got == nil {
			missing++
			if !slices.ContainsFunc(killed, func(at time.Time) bool { return at.Sub(want.at).Abs() < window }) {
				t.Errorf("part %s, which the camera saw at %s, is not in the history; killed at %v", id, want.at, killed)
			}
			continue
		}
		if got.GetVerdict() != want.part.GetVerdict() || got.GetResultNumber() != want.part.GetResultNumber() ||
			got.GetFirstLine() != want.part.GetFirstLine() || got.GetIncomplete() != want.part.GetIncomplete() ||
			len(got.GetResults()) != 1 ||
			!proto.Equal(got.GetResults()[0], want.part.GetRegions()[0]) {
			t.Fatalf("the camera saw %v\nand the history has %v", want.part, got)
		}
	}
	t.Logf("%d parts sent, %d seen, %d kept; %d connections broken, %d kills, %d seen in the last second and not kept",
		parts, len(all), len(kept), broken, len(killed), missing)
	if len(all) < parts*3/4 || missing > parts/2 || broken == 0 || len(killed) != kills {
		t.Errorf("%d of %d parts came, %d connections broke", len(all), parts, broken)
	}
}
