package events

import (
	"bytes"
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/hostwork"
	"github.com/polyscan/polyscan/server/internal/observe"
)

func newBus(t testing.TB) *Bus {
	b := New("run", observe.New().Watch, hostwork.New(1), nil)
	t.Cleanup(b.Close)
	return b
}

// all is a filter of everything.
func all() Filter {
	f := Filter{Events: 1024, Bytes: 1 << 20}
	for k := range f.Kinds {
		f.Kinds[k] = true
	}
	return f
}

func pass(number uint64) *pb.PartResult {
	return &pb.PartResult{ResultNumber: number, Verdict: pb.Verdict_VERDICT_PASS}
}

// settle waits until the fan has handed on all that was published.
func (b *Bus) settle(t testing.TB) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		done := b.after(b.handed-1) == len(b.ring)
		b.mu.Unlock()
		if done {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the fan hands nothing on")
		}
	}
}

// take takes n events, waiting for them.
func take(t testing.TB, s *Subscription, n int) (got []Item, lost [Kinds]uint64) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for len(got) < n {
		select {
		case <-s.Ready():
		case <-deadline:
			t.Fatalf("%d events of %d came", len(got), n)
		}
		items, l, _ := s.Take(nil)
		got = append(got, items...)
		for k := range l {
			lost[k] += l[k]
		}
	}
	return got, lost
}

func TestPublishingUnwatchedCostsNothing(t *testing.T) {
	b := newBus(t)
	s := b.Open(Source{Name: "camera-1"})
	defer s.Close(nil)
	m := pass(1)
	r := &polygon.Result{Verdict: polygon.Fail}
	f := &pb.Frame{}
	e := &pb.ScanEvent{Kind: pb.ScanEventKind_SCAN_EVENT_KIND_GAP}
	for what, publish := range map[string]func(){
		"a part":    func() { s.Part(m, "", nil, time.Millisecond, true) },
		"a frame":   func() { s.Frame(1, f, r, nil, nil, time.Millisecond, nil) },
		"a call":    func() { b.Reduced(nil, "camera-1", f, r, nil, nil, time.Millisecond, nil) },
		"an event":  func() { s.Event(e) },
		"late":      func() { s.Late(1, time.Millisecond) },
		"a recipe":  func() { b.RecipeChanged("board", 1, false) },
		"no sketch": func() { s.Sketch(100, 100, kernels.Gray8).Done(1, "", 0, nil) },
	} {
		if n := testing.AllocsPerRun(100, publish); n != 0 {
			t.Errorf("%s: %v allocations with nobody looking on", what, n)
		}
	}
	if st := s.State(); st.GetPassed() != 101 || st.GetFailed() != 101 || st.GetGaps() != 101 || st.GetLate() != 202 {
		t.Errorf("counted: %v", st)
	}
}

// A watcher that never takes anything costs the one who publishes nothing but its place in the ring.
func TestStuckWatcherNeverBlocks(t *testing.T) {
	b := newBus(t)
	f := all()
	f.Numbers = pb.RegionNumbers_REGION_NUMBERS_ALL
	stuck, _ := b.Subscribe(f, nil)
	defer stuck.End()
	s := b.Open(Source{Name: "camera-1"})
	const n = 20_000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range uint64(n) {
			s.Part(pass(i), "", &polygon.Result{Regions: []polygon.RegionResult{{Name: "pad",
				Channels: []polygon.ChannelStatistics{{}}}}}, 0, false)
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("publishing waits for a watcher")
	}
	b.settle(t)
	stuck.mu.Lock()
	if len(stuck.queue) > f.Events || stuck.bytes > f.Bytes {
		t.Errorf("%d events and %d bytes wait", len(stuck.queue), stuck.bytes)
	}
	stuck.mu.Unlock()
	b.mu.Lock()
	if len(b.ring) > RingEvents || b.bytes > RingBytes {
		t.Errorf("the ring has %d events and %d bytes", len(b.ring), b.bytes)
	}
	b.mu.Unlock()
	items, lost, any := stuck.Take(nil)
	if !any || lost[VerdictKind] == 0 {
		t.Errorf("lost %v", lost)
	}
	sum := lost[VerdictKind] + lost[StreamKind]
	for _, i := range items {
		if i.Kind == VerdictKind || i.Kind == StreamKind {
			sum++
		}
	}
	if sum != n+1 { // with the stream that opened
		t.Errorf("%d events came or were lost of %d", sum, n+1)
	}
	last := items[len(items)-1]
	if last.Verdict.Number != n-1 || last.Number != n {
		t.Errorf("the last one is %d, number %d", last.Verdict.Number, last.Number)
	}
}

// The sum of what comes and what is told as lost is what was published, whoever publishes and however slowly it is
// taken; numbers have a gap where something was lost and nowhere else.
func TestNothingPassesInSilence(t *testing.T) {
	b := newBus(t)
	f := all()
	f.Events = 50
	sub, _ := b.Subscribe(f, nil)
	defer sub.End()
	const writers, each = 4, 3000
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			s := b.stream(Source{})
			for i := range uint64(each) {
				s.Frame(i, nil, nil, nil, nil, 0, nil)
				if i%100 == uint64(w) {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	end := make(chan struct{})
	go func() { wg.Wait(); b.settle(t); close(end) }()
	var came, lost, next, gaps uint64
	take := func() {
		items, l, _ := sub.Take(nil)
		for _, n := range l {
			lost += n
		}
		for _, i := range items {
			if i.Number < next {
				t.Errorf("number %d after %d", i.Number, next-1)
			}
			gaps += i.Number - next
			next = i.Number + 1
			came++
		}
	}
	for over := false; !over; {
		select {
		case <-sub.Ready():
			take()
			time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
		case <-end:
			take()
			over = true
		}
	}
	number, _ := sub.Progress()
	gaps += number - next
	if came+lost != writers*each || gaps != lost {
		t.Errorf("%d came, %d were lost, gaps of %d; %d were published", came, lost, gaps, writers*each)
	}
}

// Watchers send one after the other, each all that there is and in order, and spread over the time between batches:
// together they would keep small machines from what comes meanwhile. What comes after a pause goes out at once.
func TestOneWatcherAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(t)
		const watchers, events = 20, 100
		sending, most := 0, 0
		var begun []time.Time
		var mu sync.Mutex
		var over sync.WaitGroup
		for range watchers {
			sub, _ := b.Subscribe(all(), nil)
			over.Go(func() {
				defer sub.End()
				for next := uint64(0); next < events; {
					<-sub.Ready()
					items, lost, any := sub.Take(nil)
					mu.Lock()
					sending++
					begun = append(begun, time.Now())
					most = max(most, sending)
					mu.Unlock()
					for _, i := range items {
						if i.Number != next || i.Verdict.Number != next || any {
							t.Errorf("verdict %d has number %d and comes after %d others; lost %v", i.Verdict.Number, i.Number,
								next, lost)
						}
						next++
						time.Sleep(20 * time.Microsecond)
					}
					mu.Lock()
					sending--
					mu.Unlock()
					sub.Sent()
				}
			})
		}
		s := b.stream(Source{})
		for i := range uint64(events) {
			s.Part(pass(i), "", nil, 0, false)
			time.Sleep(3 * time.Millisecond)
		}
		over.Wait()
		if most != 1 {
			t.Errorf("%d watchers send at once", most)
		}
		for i, at := range begun[1:] {
			first := i+1 < watchers
			if d := at.Sub(begun[i]); first && d > 20*time.Microsecond || !first && d < pauseEach {
				t.Errorf("sending %d begins %v after the one before", i+1, d)
			}
		}
	})
}

// An event waits for strips, and for others who watch, for a bounded time: whatever the line and the others do.
func TestDelayIsBounded(t *testing.T) {
	for _, watchers := range []int{1, 4, 20, 100} {
		for name, other := range map[string]func(s *Subscription){
			"never sent": func(s *Subscription) {
				for {
					select {
					case <-s.Ready():
						s.Take(nil)
					case <-s.Over():
						return
					}
				}
			},
			"never taken": func(*Subscription) {},
		} {
			for _, busy := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d watchers, %s, busy %t", watchers, name, busy), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						b := newBus(t)
						if busy {
							b.work.StripDue()
						}
						for range watchers - 1 {
							sub, _ := b.Subscribe(all(), nil)
							go other(sub)
						}
						last, _ := b.Subscribe(all(), nil)
						const events = 300
						var line sync.WaitGroup
						defer line.Wait()
						line.Go(func() {
							s := b.stream(Source{})
							for i := range uint64(events) {
								s.Part(pass(i), "", nil, 0, false)
								time.Sleep(701 * time.Microsecond)
							}
						})
						limit, longest := 2*pauseFor(watchers), time.Duration(0)
						for came := 0; came < events; last.Sent() {
							<-last.Ready()
							items, _, _ := last.Take(nil)
							for _, i := range items {
								longest = max(longest, time.Since(i.At))
							}
							came += len(items)
						}
						if longest > limit {
							t.Errorf("an event came %v late, and %v is the most", longest, limit)
						}
					})
				})
			}
		}
	}
}

// Whoever watches other things isn't woken.
func TestNobodyWakesForNothing(t *testing.T) {
	b := newBus(t)
	f := all()
	f.Names = []string{"gate"}
	sub, _ := b.Subscribe(f, nil)
	defer sub.End()
	b.stream(Source{Name: "camera-1"}).Part(pass(0), "", nil, 0, false)
	b.settle(t)
	if len(sub.Ready()) != 0 {
		t.Error("it is woken, and nothing has come")
	}
}

func TestFilters(t *testing.T) {
	b := newBus(t)
	one, other := b.Open(Source{Name: "camera-1", Recipe: "board"}), b.Open(Source{Name: "gate", Owner: "b"})
	for _, c := range []struct {
		name string
		set  func(*Filter)
		want string
	}{
		{"all", func(*Filter) {}, "camera-1 gate gap board"},
		{"a name", func(f *Filter) { f.Names = []string{"gate"} }, "gate board"},
		{"a prefix", func(f *Filter) { f.Names = []string{"cam*"} }, "camera-1 gap board"},
		{"a prefix is no name", func(f *Filter) { f.Names = []string{"camera"} }, "board"},
		{"a recipe", func(f *Filter) { f.Recipes = []string{"board"} }, "camera-1 gap board"},
		{"another recipe", func(f *Filter) { f.Recipes = []string{"belt"} }, ""},
		{"verdicts", func(f *Filter) { f.Kinds = [Kinds]bool{VerdictKind: true} }, "camera-1 gate"},
		{"own", func(f *Filter) { f.Owner = func(o string) bool { return o == "b" } }, "gate board"},
	} {
		f := all()
		c.set(&f)
		sub, _ := b.Subscribe(f, nil)
		one.Part(pass(0), "", nil, 0, false)
		other.Part(pass(0), "", nil, 0, false)
		one.Event(&pb.ScanEvent{Kind: pb.ScanEventKind_SCAN_EVENT_KIND_GAP})
		b.RecipeChanged("board", 2, false)
		b.settle(t)
		items, _, _ := sub.Take(nil)
		var got []byte
		for _, i := range items {
			if len(got) > 0 {
				got = append(got, ' ')
			}
			switch {
			case i.Scan != nil:
				got = append(got, "gap"...)
			case i.Recipe != nil:
				got = append(got, i.Recipe.GetName()...)
			default:
				got = append(got, i.Stream.Name...)
			}
		}
		if string(got) != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		sub.End()
	}
}

func TestRateSparesWhatMatters(t *testing.T) {
	b := newBus(t)
	f := all()
	f.Rate = 4
	sub, _ := b.Subscribe(f, nil)
	defer sub.End()
	s := b.Open(Source{})
	for i := range uint64(200) {
		switch i {
		case 50:
			s.Part(&pb.PartResult{ResultNumber: i, Verdict: pb.Verdict_VERDICT_FAIL}, "", nil, 0, false)
		case 60:
			s.Part(&pb.PartResult{ResultNumber: i, Incomplete: true}, "", nil, 0, false)
		case 70:
			s.Part(pass(i), "", nil, 0, true)
		case 80:
			s.Frame(i, nil, nil, nil, status.Error(codes.InvalidArgument, "bad"), 0, nil)
		default:
			s.Part(pass(i), "", nil, 0, false)
		}
	}
	b.settle(t)
	items, lost, any := sub.Take(nil)
	number, thinned := sub.Progress()
	eventful, rest := 0, 0
	for _, i := range items {
		switch {
		case i.Verdict == nil:
		case i.Verdict.eventful():
			eventful++
		default:
			rest++
		}
	}
	if eventful != 4 || rest < 1 || rest > 20 || uint64(rest)+thinned != 196 || any || number != uint64(len(items)) {
		t.Errorf("%d that matter and %d others came, %d thinned out, lost %v", eventful, rest, thinned, lost)
	}
}

func TestResume(t *testing.T) {
	b := newBus(t)
	sub, st := b.Subscribe(all(), nil)
	if st.Unknown != 0 {
		t.Errorf("new, and has missed %d", st.Unknown)
	}
	s := b.Open(Source{Name: "camera-1"})
	for i := range uint64(10) {
		s.Part(pass(i), "", nil, 0, false)
	}
	got, _ := take(t, sub, 11)
	seen := got[4].Sequence
	sub.End()
	for i := range uint64(10) {
		s.Part(pass(10+i), "", nil, 0, false) // while it is away
	}
	back, st := b.Subscribe(all(), &seen)
	s.Part(pass(20), "", nil, 0, false)
	got, lost := take(t, back, 17)
	for i, e := range got {
		if want := uint64(4 + i); e.Verdict.Number != want || e.Number != uint64(i) {
			t.Errorf("event %d is verdict %d, number %d", i, e.Verdict.Number, e.Number)
		}
	}
	if st.Unknown != 0 || lost != [Kinds]uint64{} || len(st.Streams) != 1 {
		t.Errorf("lost %v, unknown %d, streams %v", lost, st.Unknown, st.Streams)
	}
	back.End()

	// What the ring has lost nobody can tell the kind of.
	seen = got[16].Sequence
	for i := range uint64(RingEvents + 100) {
		s.Part(pass(i), "", nil, 0, false)
	}
	b.settle(t)
	f := all()
	f.Events = 2 * RingEvents
	f.Bytes = 1 << 30
	back, st = b.Subscribe(f, &seen)
	got, _ = take(t, back, RingEvents)
	if st.Unknown != 100 || len(got) != RingEvents {
		t.Errorf("%d came, and %d are unknown", len(got), st.Unknown)
	}
	back.End()

	// Nor that of what nobody watched.
	b.mu.Lock()
	b.wants.Store(nobody)
	b.ring, b.bytes = nil, 0
	b.mu.Unlock()
	seen = got[len(got)-1].Sequence
	for i := range uint64(7) {
		s.Part(pass(i), "", nil, 0, false)
	}
	back, st = b.Subscribe(f, &seen)
	defer back.End()
	if st.Unknown != 7 || st.Sequence != seen+7 {
		t.Errorf("unknown %d, sequence %d after %d", st.Unknown, st.Sequence, seen)
	}
	s.Part(pass(99), "", nil, 0, false)
	if got, _ := take(t, back, 1); got[0].Sequence != seen+8 {
		t.Errorf("sequence %d after %d and 7", got[0].Sequence, seen)
	}
}

// Whenever a watcher begins, the streams that it is told of and the events that follow fit: each stream opens once.
func TestSnapshotFits(t *testing.T) {
	b := newBus(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				s := b.Open(Source{})
				s.Close(nil)
			}
		}
	})
	for range 50 {
		sub, st := b.Subscribe(all(), nil)
		open := map[uint64]bool{}
		for _, s := range st.Streams {
			open[s.GetStreamId()] = true
		}
		items, lost := take(t, sub, 10)
		for _, i := range items {
			if lost != [Kinds]uint64{} {
				break
			}
			switch id := i.Stream.ID; {
			case i.Opened != nil && open[id]:
				t.Fatalf("stream %d opens twice", id)
			case i.Closed != nil && !open[id]:
				t.Fatalf("stream %d closes and was not open", id)
			default:
				open[id] = i.Opened != nil
			}
		}
		sub.End()
	}
	close(stop)
	wg.Wait()
}

func TestNumbersAsWanted(t *testing.T) {
	b := newBus(t)
	s := b.Open(Source{})
	r := &polygon.Result{Verdict: polygon.Fail}
	for i := range 100 {
		g := polygon.RegionResult{Index: i, Channels: []polygon.ChannelStatistics{{}}, Verdict: polygon.Pass}
		if i%50 == 7 {
			g.Verdict = polygon.Fail
		}
		r.Regions = append(r.Regions, g)
	}
	for want, n := range map[pb.RegionNumbers]int{
		pb.RegionNumbers_REGION_NUMBERS_NONE: 0, pb.RegionNumbers_REGION_NUMBERS_FAILED: 2,
		pb.RegionNumbers_REGION_NUMBERS_ALL: 100,
	} {
		f := all()
		f.Numbers = want
		sub, _ := b.Subscribe(f, nil)
		s.Part(pass(0), "", r, 0, false)
		got, _ := take(t, sub, 1)
		if v := got[0].Verdict; len(v.Results()) != n || v.Failed != 2 || v.Omitted {
			t.Errorf("%v: %d of 100, %d failed", want, len(v.Results()), v.Failed)
		}
		if want == pb.RegionNumbers_REGION_NUMBERS_ALL {
			big := &polygon.Result{}
			for len(big.Regions) < 10_000 {
				big.Regions = append(big.Regions, r.Regions...)
			}
			s.Part(pass(1), "", big, 0, false)
			got, _ := take(t, sub, 1)
			if v := got[0].Verdict; len(v.Results()) != 0 || !v.Omitted || v.Failed != 200 {
				t.Errorf("10,000 regions: %d, omitted %v", len(v.Results()), v.Omitted)
			}
		}
		sub.End()
		b.mu.Lock()
		b.wants.Store(nobody)
		b.mu.Unlock()
	}
}

func TestNamesAreBounded(t *testing.T) {
	m := observe.New().Watch
	for i := range 200 {
		m.Named(fmt.Sprintf("camera-%d", i)).Verdict(observe.NamedPass)
	}
	first, again := m.Named("camera-1"), m.Named("camera-1")
	if m.Named("camera-100") != m.Named("camera-199") || first == m.Named("camera-100") || first != again ||
		m.Named("camera-63") == m.Named("camera-64") || m.Named("camera-64") != m.Named("camera-65") || m.Named("") != nil {
		t.Error("the first names have their own series and others share one")
	}
}

// sketched is the picture that a watcher gets of a frame which comes in strips, cut into pieces.
func sketched(t *testing.T, p kernels.Picture, rows int, want Preview) *pb.Preview {
	t.Helper()
	b := newBus(t)
	f := all()
	f.Preview = &want
	sub, _ := b.Subscribe(f, nil)
	defer sub.End()
	s := b.Open(Source{Name: "camera-1", Regions: []*pb.Region{{Rings: []*pb.Ring{{Xy: []float64{0, 0, 10, 0, 10, 20}}}}}})
	k := s.Sketch(p.Width, p.Height, p.Format)
	if k == nil {
		t.Fatal("no sketch, and one is due")
	}
	data := p.Bytes()
	for first := 0; first < p.Height; first += rows {
		n := min(rows, p.Height-first)
		part := data[first*p.RowBytes() : min(len(data), (first+n)*p.RowBytes())]
		strip := kernels.Picture{Width: p.Width, Height: n, Stride: p.Stride, Format: p.Format, Coding: p.Coding}
		for len(part) > 0 { // cut anywhere
			cut := 1 + rand.IntN(len(part))
			strip.Data = append(strip.Data, part[:cut])
			part = part[cut:]
		}
		k.Draw(first, strip)
	}
	k.Done(3, "B-1", pb.Verdict_VERDICT_FAIL, &polygon.Result{Regions: []polygon.RegionResult{
		{Index: 0, Name: "pad", Verdict: polygon.Fail}, {Index: 1, Bounds: polygon.Rect{X0: 4, Y0: 8, X1: 12, Y1: 16}}}})
	for {
		got, lost := take(t, sub, 1)
		if lost[PreviewKind] > 0 {
			t.Fatal("the preview was lost")
		}
		for _, i := range got {
			if i.Preview != nil {
				return i.Preview
			}
		}
	}
}

// Each pixel of a preview is one of the frame, that in the middle of those it stands for.
func TestSketch(t *testing.T) {
	for _, c := range []struct {
		name          string
		width, height int
		format        kernels.PixelFormat
		gap           int
		pixels        int
	}{
		{"whole", 17, 5, kernels.Gray8, 3, 1000},
		{"one pixel", 31, 33, kernels.Gray8, 0, 1},
		{"gray", 1000, 333, kernels.Gray8, 0, 4096},
		{"12 bits", 640, 480, kernels.Gray16(12), 2, 5000},
		{"bgr", 321, 123, kernels.BGR8, 1, 777},
		{"rgba", 64, 64, kernels.RGBA8, 0, 100},
		{"a line", 10240, 1, kernels.Gray8, 0, 1024},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := kernels.Picture{Width: c.width, Height: c.height, Format: c.format}
			p.Stride = c.width*c.format.PixelBytes() + c.gap
			data := make([]byte, p.Stride*c.height)
			for i := range data {
				data[i] = byte(rand.IntN(256))
				if c.format.SampleBytes == 2 && (i%p.Stride)%2 == 1 {
					data[i] &= 0x0f
				}
			}
			p.Data = [][]byte{data}
			got := sketched(t, p, 7, Preview{Pixels: c.pixels, PNG: true})
			im, _, err := image.Decode(bytes.NewReader(got.GetData()))
			if err != nil {
				t.Fatal(err)
			}
			w, h := im.Bounds().Dx(), im.Bounds().Dy()
			step := int(got.GetScale())
			if w*h > c.pixels || w != (c.width+step-1)/step || h != (c.height+step-1)/step ||
				int(got.GetWidth()) != w || int(got.GetHeight()) != h || float64(step) != got.GetScale() {
				t.Fatalf("%d x %d of %d x %d, scale %v", w, h, c.width, c.height, got.GetScale())
			}
			for y := range h {
				for x := range w {
					fx, fy := min(x*step+step/2, c.width-1), min(y*step+step/2, c.height-1)
					at := data[fy*p.Stride+fx*c.format.PixelBytes():]
					want := [3]byte{at[0], at[0], at[0]}
					switch {
					case c.format.SampleBytes == 2:
						v := byte((int(at[0]) | int(at[1])<<8) >> 4)
						want = [3]byte{v, v, v}
					case c.format.Channels >= 3:
						want = [3]byte{at[c.format.Order[0]], at[c.format.Order[1]], at[c.format.Order[2]]}
					}
					r, g, b, _ := im.At(x, y).RGBA()
					if got := [3]byte{byte(r >> 8), byte(g >> 8), byte(b >> 8)}; got != want {
						t.Fatalf("pixel %d, %d is %v, want %v", x, y, got, want)
					}
				}
			}
			if len(got.GetPlaces()) != 2 || got.GetPartId() != "B-1" || got.GetResultNumber() != 3 {
				t.Fatalf("%v", got)
			}
			if xy := got.GetPlaces()[0].GetRings()[0].GetXy(); xy[5] != float32(20/got.GetScale()) {
				t.Errorf("polygon at %v with scale %v", xy, got.GetScale())
			}
			if xy := got.GetPlaces()[1].GetRings()[0].GetXy(); xy[0] != float32(4/got.GetScale()) ||
				xy[5] != float32(16/got.GetScale()) {
				t.Errorf("rectangle at %v with scale %v", xy, got.GetScale())
			}
		})
	}
}

// Previews and pictures of parts of what cameras send show its colours.
func TestPicturesOfCoded(t *testing.T) {
	c := kernels.Coding{Kind: kernels.Bayer, Bits: 8, Phase: 3}
	p := kernels.Picture{Width: 40, Height: 30, Format: c.Format(), Coding: c}
	data := make([]byte, 40*30)
	for i := range data {
		data[i] = [4]byte{30, 90, 90, 200}[i/40%2*2+i%40%2] // blue, green, green, red
	}
	p.Data = [][]byte{data[:7], data[7:]}
	got := sketched(t, p, p.Height, Preview{Pixels: 100, PNG: true})
	im, _, err := image.Decode(bytes.NewReader(got.GetData()))
	if err != nil {
		t.Fatal(err)
	}
	for _, im := range []image.Image{im, p.Image()} {
		for y := range im.Bounds().Dy() {
			for x := range im.Bounds().Dx() {
				if r, g, b, _ := im.At(x, y).RGBA(); r>>8 != 200 || g>>8 != 90 || b>>8 != 30 {
					t.Fatalf("pixel (%d, %d) is %d %d %d", x, y, r>>8, g>>8, b>>8)
				}
			}
		}
	}
}

// A panic in what is made of a picture is a picture that is missed, and nothing else.
func TestPanickingPicture(t *testing.T) {
	b := newBus(t)
	f := all()
	f.Preview = &Preview{Every: time.Nanosecond, Pixels: 64}
	sub, _ := b.Subscribe(f, nil)
	defer sub.End()
	s := b.Open(Source{})
	k := s.Sketch(8, 8, kernels.Gray8)
	k.pix = nil
	k.Done(0, "", 0, nil)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, lost, _ := sub.Take(nil); lost[PreviewKind] == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no picture was missed")
		}
	}
	if n := testutil.ToFloat64(b.metrics.Panics); n != 1 {
		t.Errorf("%v panics are counted", n)
	}
}

// So many a second come, and no more, to each who asks.
func TestPreviewRate(t *testing.T) {
	b := newBus(t)
	f := all()
	f.Preview = &Preview{Every: time.Hour, Pixels: 64}
	slow, _ := b.Subscribe(f, nil)
	defer slow.End()
	f.Preview = &Preview{Every: time.Nanosecond, Pixels: 16}
	fast, _ := b.Subscribe(f, nil)
	defer fast.End()
	s := b.Open(Source{})
	p := kernels.Picture{Width: 8, Height: 8, Format: kernels.Gray8, Data: [][]byte{make([]byte, 64)}}
	const n = 5
	for i := range uint64(n) {
		k := s.Sketch(8, 8, kernels.Gray8)
		k.Draw(0, p)
		k.Done(i, "", 0, nil)
		time.Sleep(20 * time.Millisecond)
	}
	count := func(sub *Subscription, pixels uint32) (got int) {
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			items, lost, _ := sub.Take(nil)
			for _, i := range items {
				if i.Preview != nil {
					got++
					if i.Preview.GetWidth()*i.Preview.GetHeight() > pixels {
						t.Errorf("%d x %d", i.Preview.GetWidth(), i.Preview.GetHeight())
					}
				}
			}
			if got += int(lost[PreviewKind]); got == n || pixels == 64 && got > 0 {
				break
			}
		}
		return got
	}
	if got := count(fast, 16); got != n {
		t.Errorf("%d previews of %d", got, n)
	}
	if got := count(slow, 64); got != 1 {
		t.Errorf("%d previews an hour", got)
	}
}

func BenchmarkPublish(b *testing.B) {
	for _, watchers := range []int{0, 1, 20} {
		b.Run(fmt.Sprintf("watchers=%d", watchers), func(b *testing.B) {
			bus := newBus(b)
			for range watchers {
				sub, _ := bus.Subscribe(all(), nil)
				defer sub.End()
			}
			s := bus.Open(Source{Name: "camera-1"})
			m := pass(1)
			b.ReportAllocs()
			for b.Loop() {
				s.Part(m, "", nil, time.Millisecond, false)
			}
		})
	}
}

// A preview of a part of a line camera, drawn strip by strip.
func BenchmarkDraw(b *testing.B) {
	p := kernels.Picture{Width: 4096, Height: 128, Format: kernels.Gray8, Data: [][]byte{make([]byte, 4096*128)}}
	k := &Sketch{width: p.Width, height: p.Height, channels: 1, step: stepFor(p.Width, p.Height, 1<<16)}
	w, h := k.size()
	k.pix = make([]byte, w*h)
	b.SetBytes(int64(w * h))
	for b.Loop() {
		k.Draw(0, p)
	}
}
