package attack

// All attacks at once, beside a line at 60 % of what it can do.

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

var togetherTime = flag.Duration("together", 0, "how long all attacks go on at once; by default five times -attack")

// A conveyor's camera: a strip a part, each of one value.
const (
	partWidth = 2048
	partLines = 16
	// patience is what a part takes at most that did not say that it is late: what the server can't see, such as turns of
	// its machine, is in it.
	patience = time.Second
)

// conveyor is what became of the parts of a line.
type conveyor struct {
	sent, got                           int
	wrong, double, silent, late, behind int
	err                                 error
}

func valueOf(i int) byte { return byte(i*7%251 + 1) }

// convey sends parts, one each period (0: as fast as they come back), for a time, and looks at each result. The client
// keeps to the credit that the server gives.
func convey(cc *grpc.ClientConn, d, period time.Duration) (c conveyor) {
	ctx, cancel := context.WithTimeout(context.Background(), d+time.Minute)
	defer cancel()
	in := inspect(rectangle("part", partWidth, partLines))
	in.Reductions = &pb.Reductions{Statistics: []pb.Statistic{pb.Statistic_STATISTIC_SUM}}
	stream, opened, err := beginScan(ctx, cc, &pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Open{Open: &pb.ScanOpen{
		Inspection: in,
		Layout:     &pb.FrameLayout{Width: partWidth, Height: partLines, PixelFormat: pb.PixelFormat_PIXEL_FORMAT_GRAY8},
		PartLines:  partLines, Trigger: &pb.ScanOpen_EveryLines{EveryLines: partLines},
		LatencyBudget: durationpb.New(cameraBudget),
	}}})
	if err != nil {
		return conveyor{err: err}
	}
	var mu sync.Mutex
	changed := sync.NewCond(&mu)
	credit, ended := opened.GetCreditLine(), false
	var exposed []time.Time
	go func() {
		defer stream.CloseSend()
		pixels := make([]byte, partWidth*partLines)
		begun := time.Now()
		for i := 0; time.Since(begun) < d; i++ {
			if period > 0 {
				time.Sleep(time.Until(begun.Add(time.Duration(i) * period)))
			}
			mu.Lock()
			for waited := false; uint64((i+1)*partLines) > credit && !ended; waited = true {
				if !waited {
					c.behind++
				}
				changed.Wait()
			}
			stop := ended
			exposed = append(exposed, time.Now())
			c.sent++
			mu.Unlock()
			for k := range pixels {
				pixels[k] = valueOf(i)
			}
			if stop || stream.Send(&pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Strip{Strip: &pb.Strip{
				Sequence: uint64(i), FirstLine: uint64(i * partLines),
				Frame: &pb.Frame{Source: &pb.Frame_Data{Data: pixels}},
			}}}) != nil {
				return
			}
		}
	}()
	seen := map[uint64]bool{}
	for {
		m, err := stream.Recv()
		mu.Lock()
		if err != nil {
			ended = true
			changed.Broadcast()
			mu.Unlock()
			if err.Error() != "EOF" {
				c.err = err
			}
			return c
		}
		if a := m.GetAck(); a != nil {
			credit = max(credit, a.GetCreditLine())
			changed.Broadcast()
		}
		if p := m.GetPart(); p != nil && p.GetStripSequence() < uint64(len(exposed)) {
			took := time.Since(exposed[p.GetStripSequence()])
			c.got++
			if seen[p.GetResultNumber()] {
				c.double++
			}
			seen[p.GetResultNumber()] = true
			want := uint64(valueOf(int(p.GetStripSequence()))) * partWidth * partLines
			if r := p.GetRegions(); p.GetError() != nil || p.GetIncomplete() || len(r) != 1 || len(r[0].GetChannels()) != 1 ||
				r[0].GetChannels()[0].GetSum() != want {
				c.wrong++
			}
			switch {
			case p.GetLate():
				c.late++
			case took > patience:
				c.silent++
			}
		}
		mu.Unlock()
	}
}

// watch looks at the metrics several times a second, until end is called, and says then which kinds of memory there
// were when the resident set was largest.
func (a *attempt) watch() (said <-chan string, end func()) {
	out, stop := make(chan string, 1), make(chan struct{})
	go func() {
		var most map[string]float64
		var parts map[string]int64
		const resident = "process_resident_memory_bytes"
		for ticks := time.Tick(200 * time.Millisecond); ; {
			select {
			case <-stop:
				text := fmt.Sprintf("at a resident set of %.0f MB:", most[resident]/1e6)
				for _, part := range slices.Sorted(maps.Keys(parts)) {
					text += fmt.Sprintf("\n%6d MB %s", parts[part]/1e6, part)
				}
				for _, series := range slices.Sorted(maps.Keys(most)) {
					if strings.Contains(series, "bytes") && !strings.Contains(series, "total") && most[series] >= 1e6 &&
						most[series] < 1e11 {
						text += fmt.Sprintf("\n%6.0f MB %s", most[series]/1e6, series)
					}
				}
				out <- text
				return
			case <-ticks:
				if m := a.samples(); m[resident] > most[resident] {
					most, parts = m, a.residents()
				}
			}
		}
	}()
	return out, func() { close(stop) }
}

// TestTogether: not one part is wrong, lost, double or silently late, and memory stays within its bound.
func TestTogether(t *testing.T) {
	d := *togetherTime
	if d == 0 {
		d = 5 * *attackTime
	}
	if d == 0 {
		t.Skip("no -attack, no -together")
	}
	if *attackTime == 0 {
		*attackTime = 3 * time.Second // of each, in turns
	}
	a := &attempt{T: t, process: start(t, sharedMemory...), answers: map[codes.Code]int{}}
	cc := a.client(t)
	begun, before := time.Now(), a.sinceBoot(t)
	alone := convey(cc, time.Second, 0)
	if alone.err != nil || alone.got == 0 {
		t.Fatalf("a line alone: %+v", alone)
	}
	period := time.Duration(float64(time.Second) / (0.6 * float64(alone.got)))
	all := slices.DeleteFunc(allAttacks(), func(c attack) bool { return c.apart })
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var attacking sync.WaitGroup
	const atOnce = 4
	for i := range atOnce {
		attacking.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for ctx.Err() == nil {
				c := all[r.IntN(len(all))]
				each, end := context.WithTimeout(ctx, *attackTime)
				a.attack(each, c)
				end()
			}
		})
	}
	watched, end := a.watch()
	got := convey(cc, d, period)
	cancel()
	attacking.Wait()
	end()
	t.Log(<-watched)
	t.Logf("%d parts, one each %v; %d late and said so, %d waited for credit; resident set %d MB at most; answers %v; %q",
		got.sent, period, got.late, got.behind, a.peak.Load()/1e6, a.answers, a.problems)
	if got.err != nil || got.got != got.sent || got.wrong+got.double > 0 {
		t.Errorf("%v: %+v", got.err, got)
		for line := range strings.Lines(a.log.String()) {
			if strings.Contains(line, "connection closed") || strings.Contains(line, "LineScanService") {
				t.Logf("%.400s", line)
			}
		}
	}
	if others := a.sinceBoot(t).others(before, time.Since(begun)); got.silent > 0 && others <= mostOthers {
		t.Errorf("%d parts took more than %v and did not say that they are late", got.silent, patience)
	} else if got.silent > 0 {
		t.Logf("%d parts took more than %v by the client's clock, on a machine of which others had %.0f %%", got.silent,
			patience, 100*others)
	}
	if peak := a.peak.Load(); peak > a.bound && !a.raced || a.killed.Load() {
		t.Errorf("a resident set of %d MB, killed: %t; the bound is %d MB", peak/1e6, a.killed.Load(), a.bound/1e6)
	}
	log := a.log.String()
	for _, bad := range []string{"panic", "DATA RACE"} { // the latter where the daemon was built with -race
		if at := strings.Index(log, bad); at >= 0 {
			t.Errorf("%.6000s", log[at:])
		}
	}
	for end := time.Now().Add(2 * settle); a.metric(t, "polyscan_requests_in_flight") > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("calls are in flight after all have ended")
		}
	}
}
