package cpu

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/polyscan/polyscan/kernels/driver"
)

// newStreams makes a stream of each priority.
func newStreams(t *testing.T, f *fixture) (s [priorities]*stream) {
	t.Helper()
	for p := range s {
		x, err := f.dev.NewStream(p)
		f.ok(err)
		s[p] = x.(*stream)
		t.Cleanup(func() { f.ok(x.Close()) })
	}
	return s
}

// spin counts pieces of work until it is told to stop.
type spin struct{ pieces, workers atomic.Int64 }

func (w *spin) on(t *testing.T, s *stream, threads int, until *atomic.Bool) {
	t.Helper()
	if err := s.enqueue(task{name: "Test", call: func(stop *stopFlag) error {
		return s.dev.share("Test", threads, stop, func(sc *scratch) error {
			w.workers.Add(1)
			for !until.Load() {
				if sc.pace.spend(paceNs) {
					return errAborted
				}
				w.pieces.Add(1)
			}
			return nil
		})
	}}); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%s: never", what)
		}
	}
}

// Workers of an op pause while an op of higher priority runs, which gets as many helpers as it would have alone.
func TestHigherPriorityGoesFirst(t *testing.T) {
	f := newFixture(t, 2, 1<<20)
	s := newStreams(t, f)
	turns := &s[0].dev.turns
	var low, middle, high spin
	var endLow, endMiddle, endHigh atomic.Bool
	low.on(t, s[0], 2, &endLow)
	eventually(t, "two workers on the lowest", func() bool { return low.workers.Load() == 2 && low.pieces.Load() > 10 })
	middle.on(t, s[1], 2, &endMiddle)
	eventually(t, "two workers in the middle", func() bool {
		return middle.workers.Load() == 2 && turns.paused.Load() == 2
	})
	high.on(t, s[2], 2, &endHigh)
	eventually(t, "two workers on the highest", func() bool {
		return high.workers.Load() == 2 && turns.paused.Load() == 4
	})
	at, m := low.pieces.Load(), middle.pieces.Load()
	n := high.pieces.Load()
	eventually(t, "the highest goes on", func() bool { return high.pieces.Load() > n+100 })
	if low.pieces.Load() != at || middle.pieces.Load() != m {
		t.Error("others went on too")
	}
	endHigh.Store(true)
	f.ok(s[2].Wait(t.Context()))
	eventually(t, "the middle goes on", func() bool { return middle.pieces.Load() > m+10 })
	if low.pieces.Load() != at {
		t.Error("the lowest went on too")
	}
	endMiddle.Store(true)
	f.ok(s[1].Wait(t.Context()))
	eventually(t, "the lowest goes on", func() bool { return low.pieces.Load() > at+10 })
	endLow.Store(true)
	f.ok(s[0].Wait(t.Context()))
	for p := range turns.busy {
		if n := turns.busy[p].Load(); n != 0 {
			t.Errorf("%d streams of priority %d are busy", n, p)
		}
	}
}

// After work of the highest priority, others leave a thread free for a while, and then take it.
func TestOneThreadIsKeptFree(t *testing.T) {
	f := newFixture(t, 2, 1<<20)
	s := newStreams(t, f)
	turns := &s[0].dev.turns
	before := time.Since(turns.epoch)
	f.ok(s[2].Run(&driver.Fill{}))
	f.ok(s[2].Wait(t.Context()))
	until, kept := time.Duration(turns.until[highest].Load()), keptFree[highest]
	if until < before+kept || until > time.Since(turns.epoch)+kept {
		t.Errorf("it is kept free until %v, and the work was done between %v and %v", until, before,
			time.Since(turns.epoch))
	}
	turns.until[highest].Store(math.MaxInt64) // however slow this machine is
	var low, middle spin
	var end atomic.Bool
	low.on(t, s[0], 2, &end)
	eventually(t, "the lowest works", func() bool { return low.pieces.Load() > 100 })
	if n := low.workers.Load(); n != 1 {
		t.Errorf("%d workers on it", n)
	}
	middle.on(t, s[1], 2, &end)
	// So do the second workers of both, which there is no room for.
	eventually(t, "the lowest pauses", func() bool { return middle.workers.Load() == 1 && turns.paused.Load() == 3 })
	at, m := low.pieces.Load(), middle.pieces.Load()
	eventually(t, "the middle works", func() bool { return middle.pieces.Load() > m+100 })
	if n := middle.workers.Load(); n != 1 {
		t.Errorf("%d workers in the middle", n)
	}
	if n := low.pieces.Load(); n != at {
		t.Errorf("%d pieces on the lowest meanwhile", n-at)
	}
	turns.until[highest].Store(0)
	turns.wake()
	eventually(t, "two work in the middle", func() bool { return middle.workers.Load() == 2 })
	end.Store(true)
	f.ok(s[1].Wait(t.Context()))
	f.ok(s[0].Wait(t.Context()))
	eventually(t, "nobody is counted as working", func() bool { return turns.working.Load() == 0 })

	// Who waits for room can be stopped.
	turns.until[highest].Store(math.MaxInt64)
	var never atomic.Bool
	low, middle = spin{}, spin{}
	middle.on(t, s[1], 2, &never)
	eventually(t, "the middle works", func() bool { return middle.pieces.Load() > 10 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s[1].Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	eventually(t, "nobody is counted as working", func() bool { return turns.working.Load() == 0 })
}

// After interactive work batch work leaves a thread free, and interactive work does not.
func TestOneThreadIsKeptFreeOfBatchWork(t *testing.T) {
	f := newFixture(t, 2, 1<<20)
	s := newStreams(t, f)
	turns := &s[0].dev.turns
	before := time.Since(turns.epoch)
	f.ok(s[1].Run(&driver.Fill{}))
	f.ok(s[1].Wait(t.Context()))
	if until := time.Duration(turns.until[1].Load()); until < before+keptFree[1] {
		t.Errorf("it is kept free until %v, and the work was begun at %v", until, before)
	}
	turns.until[1].Store(math.MaxInt64)
	var low, middle spin
	var end atomic.Bool
	low.on(t, s[0], 2, &end)
	eventually(t, "the lowest works", func() bool { return low.pieces.Load() > 100 })
	if n := low.workers.Load(); n != 1 {
		t.Errorf("%d workers on batch work", n)
	}
	middle.on(t, s[1], 2, &end)
	eventually(t, "two work in the middle", func() bool { return middle.workers.Load() == 2 })
	end.Store(true)
	f.ok(s[1].Wait(t.Context()))
	turns.until[1].Store(0)
	turns.wake()
	f.ok(s[0].Wait(t.Context()))
}

// Who waits for room gets it when it comes free, and from one of its own priority that works on.
func TestRoomIsHandedOn(t *testing.T) {
	var turns turns
	turns.init(2)
	turns.until[highest].Store(math.MaxInt64)
	a, b := new(stopFlag), new(stopFlag)
	for _, goesOn := range []bool{false, true, true} {
		turns.enter(a)
		in, out := make(chan bool), make(chan bool)
		go func() {
			turns.enter(b)
			in <- true
			<-out
			turns.leave(b)
			in <- false
		}()
		eventually(t, "the other one waits", func() bool {
			return turns.inLine[0].Load() == 1 && turns.paused.Load() == 1
		})
		if !goesOn {
			turns.leave(a)
			<-in
			out <- true
			<-in
			continue
		}
		on := make(chan bool)
		go func() {
			for !turns.othersInLine(a) {
				runtime.Gosched()
			}
			turns.wait(a)
			turns.leave(a)
			close(on)
		}()
		<-in
		eventually(t, "the first one waits", func() bool {
			return turns.inLine[0].Load() == 1 && turns.paused.Load() == 1
		})
		select {
		case <-on:
			t.Error("there was room for both")
		default:
		}
		out <- true
		<-in
		<-on
	}
	if n := turns.working.Load(); n != 0 || len(turns.line) != 0 {
		t.Errorf("%d are counted as working, %d are in line", n, len(turns.line))
	}
}

// While a thread is kept free, ops of one priority take turns, in parts that no helper has a hand in, too.
func TestOpsTakeTurns(t *testing.T) {
	f := newFixture(t, 2, 1<<20)
	s := newStreams(t, f)
	other, err := f.dev.NewStream(0)
	f.ok(err)
	defer func() { f.ok(other.Close()) }()
	turns := &s[0].dev.turns
	turns.until[highest].Store(math.MaxInt64)
	var alone atomic.Int64
	var a spin
	var end atomic.Bool
	f.ok(s[0].enqueue(task{name: "Test", call: func(stop *stopFlag) error {
		for p := newPace(stop); !end.Load(); alone.Add(1) {
			if p.spend(paceNs) {
				return errAborted
			}
		}
		return nil
	}}))
	eventually(t, "one works", func() bool { return alone.Load() > 10 })
	a.on(t, other.(*stream), 2, &end)
	for range 5 {
		x, y := alone.Load(), a.pieces.Load()
		eventually(t, "both go on", func() bool { return alone.Load() > x+10 && a.pieces.Load() > y+10 })
		if n := turns.working.Load(); n > 1 {
			t.Errorf("%d work at a time", n)
		}
	}
	end.Store(true)
	f.ok(s[0].Wait(t.Context()))
	f.ok(other.Wait(t.Context()))
	eventually(t, "nobody is counted as working", func() bool { return turns.working.Load() == 0 })
}

// A helper that found nothing left in an op doesn't look into it again while the stream is at its last piece.
func TestHelpersComeOnce(t *testing.T) {
	s := newStreams(t, newFixture(t, 2, 1<<20))[0]
	for range 20 { // in some of which the stream comes first
		var calls atomic.Int64
		if err := s.enqueue(task{name: "Test", call: func(stop *stopFlag) error {
			return s.dev.share("Test", 2, stop, func(*scratch) error {
				if calls.Add(1) > 1 {
					return nil
				}
				for begun := time.Now(); time.Since(begun) < 20*linger; runtime.Gosched() {
				}
				return nil
			})
		}}); err != nil {
			t.Fatal(err)
		}
		if err := s.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := calls.Load(); n > 2 {
			t.Fatalf("the op was looked into %d times, by a stream and a helper", n)
		}
	}
}

// An op that pauses can be stopped.
func TestStopWhilePaused(t *testing.T) {
	f := newFixture(t, 2, 1<<20)
	s := newStreams(t, f)
	var low, high spin
	var never, endHigh atomic.Bool
	high.on(t, s[2], 1, &endHigh)
	low.on(t, s[0], 2, &never)
	eventually(t, "the lower one pauses", func() bool { return s[0].dev.turns.paused.Load() > 0 })
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := s[0].Wait(ctx); !errors.Is(err, cause) {
		t.Error(err)
	}
	low.on(t, s[0], 2, &never)
	eventually(t, "the lower one pauses again", func() bool { return s[0].dev.turns.paused.Load() > 0 })
	f.ok(s[0].Close())
	endHigh.Store(true)
	f.ok(s[2].Wait(t.Context()))
}

// Each piece of an op that can take long looks up from its work: it ends when it is to stop, and so pauses for others.
func TestLongPiecesLookUp(t *testing.T) {
	const n = 100_000
	row := &diagram{sites: make([]driver.Point, n), width: n, height: 1, labels: make([]uint32, n)}
	column := &diagram{sites: row.sites, width: 1, height: n, labels: row.labels}
	grid := &siteGrid{row, n, 1, 1, []uint32{0, n}, make([]uint32, n)}
	lines := make([]driver.Point, n) // two: merging them takes as many steps as there are points
	for i := range lines {
		lines[i] = driver.Point{X: int32(i / (n / 2)), Y: int32(i % (n / 2))}
	}
	dev := newFixture(t, 1, 0).dev.(*device)
	newTriangulation := func() *triangulation {
		return &triangulation{
			sorted: make([]keyed, n), spare: make([]keyed, n), cuts: []int{0, n}, parts: make([]submesh, 1),
			mesh: mesh{points: make([]driver.Point, n), index: make([]uint32, n), edges: make([]halfEdge, 6*n)},
		}
	}
	side := driver.Image{Width: n, Height: n, Format: driver.Gray8}
	chosen := &selection{
		SelectVertices: &driver.SelectVertices{Width: 400, Height: 400, N: n,
			VertexRule: driver.VertexRule{Floor: 1, Border: 100}},
		edges: make([]uint16, 400*400), previous: lines, points: make([]driver.Point, n), out: new(uint32),
	}
	chosen.plan(make([]byte, 1<<23))
	chosen.cells = make([]rank, n)
	for i := range chosen.cells {
		chosen.cells[i] = noRank
	}
	newTiled := func() *shading {
		return &shading{
			Shade: &driver.Shade{Src: side, Dst: side, Max: n, Method: driver.PerTile}, pixel: 1,
			points: lines, triangles: make([]driver.Triangle, n), colors: make([]byte, n), columns: 1, rows: 1,
			totals: make([]totals, n), starts: []uint32{0, n}, list: make([]uint32, n),
		}
	}
	run := func(f func(p *pace) bool) (ok bool) {
		stop := new(stopFlag)
		stop.Store(true)
		p := newPace(stop)
		return f(&p)
	}
	for name, f := range map[string]func(p *pace) bool{
		"sites":             func(p *pace) bool { return row.place(row.labels, p) },
		"brute force":       func(p *pace) bool { return row.bruteForce(0, 1, 0, p) },
		"sites in one cell": func(p *pace) bool { return grid.label(0, 1, 0, p) },
		"columns":           func(p *pace) bool { return column.sweepBand(0, p) },
		"the envelope":      func(p *pace) bool { return row.envelopeRow(0, p) },
		"the order of points": func(p *pace) bool {
			return newTriangulation().sort(dev, lines, runs{n, 1}, nil, p) == nil
		},
		"the digits of a run": func(p *pace) bool { return countDigits(new([digits]uint32), make([]keyed, n), 0, p) },
		"a run by its digits": func(p *pace) bool {
			return moveDigits(make([]keyed, n), new([digits]uint32), make([]keyed, n), 0, p)
		},
		"a strip":              func(p *pace) bool { return newTriangulation().strip(0, p) },
		"a triangulated strip": func(p *pace) bool { _, ok := newTriangulation().build(0, n, p); return ok },
		"vertices before":      chosen.favourPrevious,
		"vertices of cells":    chosen.favourCells,
		"a choice":             chosen.choose,
		"a rank":               func(p *pace) bool { _, ok := nth(make([]rank, n), make([]rank, n), 0, p); return ok },
		"what is shaded":       func(p *pace) bool { return newTiled().check(p) == nil },
		"lists of tiles":       func(p *pace) bool { _, ok := newTiled().sort(0, p); return ok },
		"sums of a tile":       func(p *pace) bool { return newTiled().sumTile(0, p) },
		"colours of a tile":    func(p *pace) bool { return newTiled().paintTile(0, p) },
		"a merge": func(p *pace) bool {
			x := newTriangulation()
			copy(x.points, lines)
			never := newPace(new(stopFlag))
			l, _ := x.build(0, n/2, &never)
			r, _ := x.build(n/2, n, &never)
			_, ok := x.merge(l, r, p)
			return ok
		},
	} {
		if run(f) {
			t.Errorf("%s: does not look up", name)
		}
	}
}

// Streams are busy as long as they have work, whatever becomes of it.
func TestBusy(t *testing.T) {
	f := newFixture(t, 1, 1<<20)
	s := newStreams(t, f)[1]
	busy := func() int32 { return s.dev.turns.busy[1].Load() }
	release := make(chan struct{})
	f.ok(s.enqueue(task{name: "Test", call: func(*stopFlag) error { <-release; return errors.New("broken") }}))
	f.ok(s.Run(&driver.Fill{Dst: driver.Slice{}, Value: 0}))
	if n := busy(); n != 1 {
		t.Errorf("%d are busy", n)
	}
	close(release)
	if err := s.Wait(t.Context()); err == nil {
		t.Error("no error")
	}
	if n := busy(); n != 0 {
		t.Errorf("%d are busy", n)
	}
}
