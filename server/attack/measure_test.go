package attack

// What well-behaved clients get to feel.

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// latencies are of one client.
type latencies []time.Duration

// percentile is by nearest rank; 0 of nothing.
func (l latencies) percentile(p float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(l))
	return s[min(int(p/100*float64(len(s))), len(s)-1)]
}

// The least that a p99 counts as: programs on two cores take turns of some milliseconds, whoever attacks, and the
// attacker's own start, sending what the server refuses, delays one call in a hundred by up to 30 ms. Most of that start
// is the server's new memory, so these are for a machine on which a page costs at most usualPage; see slowPages.
const (
	fastestCamera = 4 * time.Millisecond
	fastestProbe  = 8 * time.Millisecond
	usualPage     = time.Microsecond
)

// slowPages is how many times usualPage the first touch of a page of memory costs here; 1 or more. It is 0.1 to 0.7 µs
// where the processor walks the page tables itself. Where a hypervisor keeps tables of its own it was 12 µs: 100 MB
// then take 0.3 s instead of 0.01, and a server that takes them is slow for reasons that no attack has.
var slowPages = sync.OnceValue(func() float64 {
	const pages = 16 << 10
	best := time.Duration(math.MaxInt64)
	for range 3 {
		b, err := unix.Mmap(-1, 0, pages*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return 1
		}
		// Go's heap isn't made of huge pages, either.
		_ = unix.Madvise(b, unix.MADV_NOHUGEPAGE)
		begun := time.Now()
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		best = min(best, time.Since(begun))
		_ = unix.Munmap(b)
	}
	return max(1, float64(best)/pages/float64(usualPage))
})

// onSlowPages is d times [slowPages].
func onSlowPages(d time.Duration) time.Duration { return time.Duration(slowPages() * float64(d)) }

// compared is p99 under attack, which is endless where nothing was answered, and its bound: so many times what it was
// alone, which counts as least or more.
func compared(alone, attacked latencies, least time.Duration, times float64) (took, bound time.Duration) {
	if took = attacked.percentile(99); len(attacked) == 0 {
		took = math.MaxInt64
	}
	return took, time.Duration(times * float64(max(alone.percentile(99), least)))
}

// probe makes a small call at fixed times, whatever becomes of those before, so that a server that stands still shows
// in each of them and not in one. It returns when d is over and all are answered. A failed call counts as the whole
// time that it may take.
func probe(d, every time.Duration, call func(context.Context) error) latencies {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), d+patience)
	defer cancel()
	var mu sync.Mutex
	var all latencies
	var calls sync.WaitGroup
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); {
		begun := <-ticks.C
		calls.Go(func() {
			err := call(ctx)
			took := time.Since(begun)
			if err != nil {
				took = patience
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took)
		})
	}
	calls.Wait()
	return all
}

// rectangle is a region that covers the frame.
func rectangle(name string, w, h float64) *pb.Region {
	return &pb.Region{Name: name, Rings: []*pb.Ring{{Xy: []float64{0, 0, w, 0, w, h, 0, h}}}}
}

func inspect(regions ...*pb.Region) *pb.Inspection {
	return &pb.Inspection{Regions: &pb.Inspection_RegionSet{RegionSet: &pb.RegionSet{Regions: regions}}}
}

func grayFrame(w, h int) *pb.Frame {
	return &pb.Frame{
		Layout: &pb.FrameLayout{Width: uint32(w), Height: uint32(h), PixelFormat: pb.PixelFormat_PIXEL_FORMAT_GRAY8},
		Source: &pb.Frame_Data{Data: make([]byte, w*h)},
	}
}

// reduceSmall is the probe's call. Where the server asks to be called again later it is.
func reduceSmall(cc *grpc.ClientConn) func(context.Context) error {
	client := pb.NewInspectionServiceClient(cc)
	req := &pb.ReduceRequest{Inspection: inspect(rectangle("part", 64, 64)), Frame: grayFrame(64, 64)}
	return func(ctx context.Context) error {
		for {
			_, err := client.Reduce(ctx, req)
			after := time.Duration(0)
			for _, d := range status.Convert(err).Details() {
				if r, ok := d.(*errdetails.RetryInfo); ok {
					after = r.GetRetryDelay().AsDuration()
				}
			}
			if after == 0 {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(after):
			}
		}
	}
}

// camera is a line-scan camera of 2,000 lines a second: a strip of 8 lines each 4 ms, and a part each strip.
type camera struct {
	latencies latencies
	silent    time.Duration // the most that a part took which did not say that it is late
	lost      int           // parts that did not come
	err       error
}

const (
	cameraWidth  = 1024
	cameraLines  = 8
	cameraPeriod = 4 * time.Millisecond
	cameraBudget = 50 * time.Millisecond
)

// film runs a camera for a time.
func film(cc *grpc.ClientConn, d time.Duration) (c camera) {
	ctx, cancel := context.WithTimeout(context.Background(), d+20*time.Second)
	defer cancel()
	stream, err := pb.NewLineScanServiceClient(cc).ScanLines(ctx)
	if err != nil {
		return camera{err: err}
	}
	first := &pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Open{Open: &pb.ScanOpen{
		Inspection: inspect(rectangle("strip", cameraWidth, cameraLines)),
		Layout: &pb.FrameLayout{Width: cameraWidth, Height: cameraLines,
			PixelFormat: pb.PixelFormat_PIXEL_FORMAT_GRAY8},
		PartLines: cameraLines, Trigger: &pb.ScanOpen_EveryLines{EveryLines: cameraLines},
		LatencyBudget: durationpb.New(cameraBudget),
	}}}
	if err := stream.Send(first); err != nil {
		return camera{err: err}
	}
	if _, err := stream.Recv(); err != nil {
		return camera{err: err}
	}
	n := int(d / cameraPeriod)
	exposed := make([]time.Time, n)
	var mu sync.Mutex
	go func() {
		defer stream.CloseSend()
		pixels := make([]byte, cameraWidth*cameraLines)
		begun := time.Now()
		for i := range n {
			// Lines don't wait for the network, nor for strips before them: one that goes out late is followed by the next
			// at its own time. A ticker would leave out ticks, and all strips after one would be late by them.
			at := begun.Add(time.Duration(i+1) * cameraPeriod)
			time.Sleep(time.Until(at))
			mu.Lock()
			exposed[i] = at
			mu.Unlock()
			if stream.Send(&pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Strip{Strip: &pb.Strip{
				Sequence: uint64(i), FirstLine: uint64(i * cameraLines),
				Frame: &pb.Frame{Source: &pb.Frame_Data{Data: pixels}},
			}}}) != nil {
				return
			}
		}
	}()
	c.lost = n
	for {
		m, err := stream.Recv()
		if err != nil {
			if status.Code(err) != codes.OK && err.Error() != "EOF" {
				c.err = err
			}
			return c
		}
		p := m.GetPart()
		if p == nil || p.Error != nil || p.Incomplete || p.StripSequence >= uint64(n) {
			continue
		}
		mu.Lock()
		took := time.Since(exposed[p.StripSequence])
		mu.Unlock()
		c.lost--
		c.latencies = append(c.latencies, took)
		// The server measures from the arrival of a strip. What a strip waits for in its sockets it can't see, but that
		// must be little.
		if !p.Late {
			c.silent = max(c.silent, took)
		}
	}
}

// The measuring itself: a server that stands still for a while is noticed, whatever the clock, and one that doesn't
// isn't.
func TestProbeSeesAttack(t *testing.T) {
	const d, every = 400 * time.Millisecond, 5 * time.Millisecond
	fast := func(context.Context) error { return nil }
	var lock sync.Mutex
	slow := func(context.Context) error { // one at a time
		lock.Lock()
		defer lock.Unlock()
		time.Sleep(8 * time.Millisecond)
		return nil
	}
	failing := func(context.Context) error { return fmt.Errorf("refused") }
	alone := latencies{time.Millisecond, 2 * time.Millisecond}
	for what, c := range map[string]struct {
		alone, attacked latencies
		least, most     float64 // of the bound
	}{
		"125 calls a second of 200 are answered": {alone, probe(d, every, slow), 1, math.Inf(1)},
		"each call is refused":                   {alone, probe(d, every, failing), gross, math.Inf(1)},
		"nothing is answered":                    {alone, nil, gross, math.Inf(1)},
		"all is answered at once":                {latencies{2 * time.Second}, probe(d, every, fast), 0, 1},
	} {
		took, bound := compared(c.alone, c.attacked, fastestProbe, 5)
		if got := float64(took) / float64(bound); got < c.least || got > c.most {
			t.Errorf("%s: p99 is %v, %.1f times its bound", what, took, got)
		}
	}
}

// A process that takes memory and time is seen doing so.
func TestMeasuresProcess(t *testing.T) {
	p := start(t)
	if n := p.resident(); n < 8<<20 || n > p.bound {
		t.Errorf("an idle server has a resident set of %d bytes", n)
	}
	before := p.cpu()
	cc, err := grpc.NewClient(p.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	if l := probe(time.Second, 2*time.Millisecond, reduceSmall(cc)); l.percentile(50) >= time.Second {
		t.Errorf("p50 %v: the server doesn't answer", l.percentile(50))
	}
	if p.cpu() == before {
		t.Error("500 calls took no time")
	}
	if p.metric(t, "polyscan_requests_in_flight") != 0 {
		t.Error("calls are in flight that have ended")
	}
	w := dial(t, p.addr, 1<<20)
	c := w.call("/grpc.health.v1.Health/Check")
	if err := c.send(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if code, err := c.wait(t.Context()); code != codes.OK || err != nil || c.got == 0 {
		t.Errorf("the raw client: %v, %v, %d bytes", code, err, c.got)
	}
	// On a machine that others use, too, strips wait before the server sees them, so some may be late in silence.
	if c := film(cc, 200*time.Millisecond); c.err != nil || c.lost > 0 {
		t.Errorf("a camera alone: %+v", c)
	}
}

// with is what f returns while a number is another.
func with(n *float64, is float64, f func() account) account {
	before := *n
	defer func() { *n = before }()
	*n = is
	return f()
}

// The sum of metrics is held to the resident set in both directions.
func TestAccount(t *testing.T) {
	const mb = 1e6
	unwritten := 0.0
	series := func(resident, ledger, expected, device, inUse, idle, released, alloc, live float64) account {
		return accountOf(map[string]float64{
			"process_resident_memory_bytes":                          resident * mb,
			`polyscan_host_memory_bytes{kind="received"}`:            ledger / 2 * mb,
			`polyscan_host_memory_bytes{kind="results"}`:             ledger / 2 * mb,
			`polyscan_host_memory_bytes{kind="expected"}`:            expected * mb,
			`polyscan_host_memory_bytes{kind="http_expected"}`:       expected * mb,
			`polyscan_host_memory_bytes{kind="reserved"}`:            expected * mb,
			`polyscan_host_memory_bytes{kind="unwritten"}`:           unwritten * mb,
			`polyscan_device_memory_bytes{kind="host"}`:              device * mb,
			`polyscan_device_memory_bytes{kind="high_water"}`:        500 * mb,
			`polyscan_device_memory_bytes{kind="reserved"}`:          500 * mb,
			"go_memstats_heap_inuse_bytes":                           inUse * mb,
			"go_memstats_heap_idle_bytes":                            idle * mb,
			"go_memstats_heap_released_bytes":                        released * mb,
			"go_memstats_heap_alloc_bytes":                           alloc * mb,
			"polyscan_heap_live_bytes":                               live * mb,
			`polyscan_host_memory_bytes_of_another{kind="canvases"}`: 70 * mb,
		})
	}
	nothing := func() account { return series(50, 0, 0, 0, 20, 5, 5, 12, 10) }
	notCounted := func() account { return series(150, 0, 0, 0, 120, 5, 5, 112, 110) }
	before := nothing() // 40 beside 10 of garbage
	for name, c := range map[string]struct {
		at   account
		want float64
	}{
		"as before":                    {before, 0},
		"counted":                      {series(150, 100, 0, 0, 120, 5, 5, 112, 110), 0},
		"on the device":                {series(150, 0, 0, 100, 20, 5, 5, 12, 10), 0},
		"garbage":                      {series(150, 0, 0, 0, 120, 5, 5, 12, 10), 0},
		"idle":                         {series(150, 0, 0, 0, 20, 105, 5, 12, 10), 0},
		"since the last collection":    {series(150, 100, 0, 0, 120, 5, 5, 112, 10), 0},
		"garbage since then":           {series(150, 0, 0, 0, 120, 5, 5, 112, 10), 0},
		"not counted":                  {series(150, 0, 0, 0, 120, 5, 5, 112, 110), 100.0 / 150},
		"half counted":                 {series(150, 50, 0, 0, 120, 5, 5, 112, 110), 50.0 / 150},
		"outside of the heap":          {series(150, 0, 0, 0, 20, 5, 5, 12, 10), 100.0 / 150},
		"expected and not here":        {series(50, 0, 100, 0, 20, 5, 5, 12, 10), 0},
		"counted and not here":         {series(50, 100, 0, 0, 20, 5, 5, 12, 10), -98.0 / 50},
		"twice":                        {series(150, 200, 0, 0, 120, 5, 5, 112, 110), -98.0 / 150},
		"counted twice, and allocated": {series(150, 200, 0, 0, 120, 5, 5, 112, 10), -98.0 / 150},
		"unwritten, and not here":      {with(&unwritten, 100, nothing), 0},
		"unwritten, and here":          {with(&unwritten, 100, notCounted), 0},
		"more than what is unwritten":  {with(&unwritten, 50, notCounted), 50.0 / 150},
	} {
		if off := c.at.off(before); math.Abs(off-c.want) > 1e-6 {
			t.Errorf("%s: off by %.3f, want %.3f (%v)", name, off, c.want, c.at)
		}
	}
}
