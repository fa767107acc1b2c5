package devicetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/kernels/driver"
)

func TestCompare(t *testing.T) {
	stats := func() []driver.MaskStats {
		s := make([]driver.MaskStats, 6)
		for i := range s {
			for k, f := range statsFields {
				*f.of(&s[i]) = uint64(100*i + k)
			}
		}
		return s
	}
	if d := CompareStats(stats(), stats(), 0, 3); d != nil {
		t.Errorf("equal sums differ: %v", d)
	}
	if d := CompareStats(stats(), stats()[:5], 0, 3); d == nil || d.Field != "len(Stats)" || d.A != 6 || d.B != 5 {
		t.Errorf("a region less: %v", d)
	}
	for i := range 6 {
		for k, f := range statsFields {
			b := stats()
			*f.of(&b[i]) ^= 1 << 63
			d := CompareStats(stats(), b, 10, 3)
			want := Difference{Op: "MaskReduce", Region: 10 + i/3, Channel: i % 3, Field: f.name, A: uint64(100*i + k),
				B: uint64(100*i+k) | 1<<63, Count: 1}
			if d == nil || *d != want {
				t.Errorf("field %s of sums %d: %v", f.name, i, d)
			}
		}
	}
	b := stats()
	b[1], b[4] = b[4], b[1]
	if d := CompareStats(stats(), b, 0, 3); d == nil || d.Count != 2*len(statsFields) || d.Region != 0 ||
		d.Channel != 1 {
		t.Errorf("two exchanged: %v", d)
	}

	hist := make([]uint32, 2*3*256)
	if d := CompareHist(hist, slices.Clone(hist), 0, 3, 256); d != nil {
		t.Errorf("equal histograms differ: %v", d)
	}
	if d := CompareHist(hist, nil, 0, 3, 256); d == nil {
		t.Errorf("no histogram is equal to one")
	}
	for _, i := range []int{0, 255, 256, 1000, len(hist) - 1} {
		b := slices.Clone(hist)
		b[i] = 9
		want := Difference{Op: "MaskReduce", Region: 5 + i/768, Channel: i / 256 % 3,
			Field: fmt.Sprintf("Hist[%d]", i%256), B: 9, Count: 1}
		if d := CompareHist(hist, b, 5, 3, 256); d == nil || *d != want {
			t.Errorf("bin %d: %v", i, d)
		}
	}

	a, c := make([]byte, 10*9+7), make([]byte, 8*9+7)
	if d := CompareImage(a, c, 7, 10, 9+1-1, 8, 1); d != nil {
		t.Errorf("equal images differ: %v", d)
	}
	c[8*9+6] = 1
	if d := CompareImage(a, c, 7, 10, 9, 8, 1); d == nil || d.Field != "pixel (6, 9)" || d.B != 1 {
		t.Errorf("last pixel: %v", d)
	}
	c[8*9+6], c[7] = 0, 1 // between rows
	if d := CompareImage(a, c, 7, 10, 9, 8, 1); d != nil {
		t.Errorf("bytes between rows: %v", d)
	}
	a16, c16 := make([]byte, 40), make([]byte, 40)
	c16[27] = 1 // the high byte of (3, 1)
	if d := CompareImage(a16, c16, 10, 2, 20, 20, 2); d == nil || d.Field != "pixel (3, 1)" || d.B != 256 ||
		!strings.Contains(d.Error(), "pixel (3, 1)") {
		t.Errorf("16 bits: %v", d)
	}
}

// open opens device 0 of d with a stream, and closes both at the end.
func openRig(t *testing.T, d driver.Driver) *rig {
	t.Helper()
	dev, err := d.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(On(t), dev)
	t.Cleanup(func() {
		r.close(On(t))
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func caseNamed(t *testing.T, name string) *Problem {
	t.Helper()
	for _, c := range Cases(1, 0) {
		if c.Name == name {
			return c.Problem()
		}
	}
	t.Fatalf("no case %q", name)
	return nil
}

// The suite passes over a mirror of two drivers that agree.
func TestMirrorOfEqualDrivers(t *testing.T) {
	t.Parallel()
	s := Suite{Driver: Mirror(Oracle(), Oracle()), Short: true, Random: 3,
		Methods: []driver.Method{driver.MethodDefault}, small: true}
	s.only = smallCases
	runParts(t, s)
}

// runParts runs the suite: under the race detector only those parts that are about streams, since the oracle computes
// in the goroutine that waits.
func runParts(t *testing.T, s Suite, but ...string) {
	streams := []string{"open", "order", "streams", "errors", "sticky", "close", "concurrent"}
	for _, p := range parts {
		if s.part = p.name; !slices.Contains(but, p.name) && (!race.Enabled || slices.Contains(streams, p.name)) {
			forRace(&s).Run(On(t))
		}
	}
}

// A mirror finds every kind of wrong value, on either side, and says where it is.
func TestMirrorFindsDifferences(t *testing.T) {
	p := caseNamed(t, "shape winding numbers")
	for name, pert := range perturbations() {
		for _, side := range []string{"first", "second"} {
			t.Run(name+"/"+side, func(t *testing.T) {
				a, b := Oracle(), Oracle()
				if side == "first" {
					a = Perturb(a, pert)
				} else {
					b = Perturb(b, pert)
				}
				r := openRig(t, Mirror(a, b))
				u := r.set(On(t), p, driver.MethodDefault)
				if err := r.prepare(u, driver.MethodDefault); err != nil {
					t.Fatal(err)
				}
				r.reduce(On(t), u)
				r.raster(On(t), u)
				// What is behind the difference does nothing.
				r.fill(On(t), u.stats, 0xee)
				err := r.stream.Wait(context.Background())
				var d *Difference
				if !errors.As(err, &d) {
					t.Fatalf("Wait: %v", err)
				}
				if d.A == d.B {
					t.Errorf("%+v", d)
				}
				if f, ok := strings.CutPrefix(name, "the field "); ok {
					i := slices.IndexFunc(statsFields, func(s struct {
						name string
						of   func(*driver.MaskStats) *uint64
					}) bool {
						return s.name == f
					})
					got, want := d.A, d.B
					if side == "second" {
						got, want = d.B, d.A
					}
					if d.Field != f || d.Region != i*3%p.Count || d.Channel != 0 || got != want^1<<(7*i) ||
						d.Count != 1 {
						t.Errorf("%+v", d)
					}
				}
				stats := make([]byte, u.stats.Len)
				r.download(On(t), stats, u.stats)
				r.wait(On(t))
				if stats[0] == 0xee && stats[len(stats)-1] == 0xee {
					t.Errorf("an op behind the difference ran")
				}
				// The stream works on.
				r.fill(On(t), u.stats, 1)
				r.wait(On(t))
			})
		}
	}
}

// Where the second side has another fingerprint, the results are right, and the mirror alone can say so.
func TestMirrorFindsFingerprints(t *testing.T) {
	wrong := onStream(func(s *brokenStream) {
		replace(s, func(op *driver.Fingerprint) error {
			return errors.Join(s.Stream.Run(op), s.Stream.Wait(context.Background()),
				rewrite(s.Stream, op.Dst, func(v []uint64) { v[1] ^= 1 << 60 }))
		})
	})
	r := Watch(Suite{Driver: Mirror(Oracle(), wrong), Short: true, part: "fingerprint", small: true}.Run)
	if all := strings.Join(r.Messages, "\n"); !r.FailedUnder("fingerprint") ||
		!strings.Contains(all, "hash under key 1") {
		t.Errorf("ran %v, failed %v:\n%s", r.Ran, r.Failed, all)
	}
}

// A side that fails alone is a difference too.
func TestMirrorOfOneThatFails(t *testing.T) {
	p := caseNamed(t, "shape holes")
	for _, inWait := range []bool{false, true} {
		for _, side := range []string{"first", "second"} {
			for _, op := range []string{"Fill", "MaskPrepare", "MaskReduce", "MaskRaster"} {
				f := Fault(Oracle(), Failure{})
				m := Mirror(f, Oracle())
				if side == "second" {
					m = Mirror(Oracle(), f)
				}
				r := openRig(t, m)
				u := r.set(On(t), p, driver.MethodDefault)
				r.wait(On(t))
				// two downloads before the last
				n := map[string]int{"Fill": 1, "MaskPrepare": 2, "MaskReduce": 3, "MaskRaster": 6}[op]
				f.Arm(Failure{N: n, Err: driver.ErrDeviceLost, InWait: inWait})
				r.fill(On(t), u.stats, 0)
				err := r.prepare(u, driver.MethodDefault)
				r.reduce(On(t), u)
				r.raster(On(t), u)
				err = errors.Join(err, r.stream.Wait(context.Background()))
				if !errors.Is(err, driver.ErrDeviceLost) {
					t.Errorf("%s fails on the %s side (in Wait: %v): %v", op, side, inWait, err)
				}
				if e, ok := f.Fired(); !ok || e.Op != op {
					t.Errorf("the event that failed is %v, not %s", e, op)
				}
				r.wait(On(t))
			}
		}
	}
}

func TestMirrorOpensAndClosesBoth(t *testing.T) {
	for f := range Faults(Oracle(), driver.ErrOutOfMemory) {
		for _, m := range []driver.Driver{Mirror(f, Oracle()), Mirror(Oracle(), f)} {
			f.Arm(f.Failure())
			dev, err := m.Open(0)
			if err != nil {
				continue
			}
			mem, err := dev.Alloc(1000)
			if err == nil {
				err = mem.Free()
			}
			if err != nil && !errors.Is(err, driver.ErrOutOfMemory) {
				t.Error(err)
			}
			s, err := dev.NewStream(0)
			if err == nil {
				err = s.Close()
			}
			if err != nil && !errors.Is(err, driver.ErrOutOfMemory) {
				t.Error(err)
			}
			if err := dev.Close(); err != nil { // the oracle says what is still in use
				t.Errorf("%+v: %v", f.Failure(), err)
			}
		}
	}
}

func TestFault(t *testing.T) {
	f := Fault(Oracle(), Failure{})
	r := openRig(t, f)
	p := caseNamed(t, "shape holes")
	u := r.set(On(t), p, driver.MethodDefault)
	r.wait(On(t))
	if _, ok := f.Fired(); ok {
		t.Errorf("no failure is set, and it fired")
	}
	for _, inWait := range []bool{false, true} {
		for n := 1; n <= 4; n++ {
			f.Arm(Failure{N: n, Err: driver.ErrDeviceLost, InWait: inWait})
			var errs []error
			for range 4 {
				errs = append(errs, r.stream.Run(&driver.Fill{Dst: u.stats, Value: byte(n)}))
			}
			wait := r.stream.Wait(context.Background())
			for i, err := range append(errs, wait) {
				failed := !inWait && i == n-1 || inWait && i == 4
				if failed != errors.Is(err, driver.ErrDeviceLost) || failed != (err != nil) {
					t.Errorf("failure %d, in Wait %v: call %d returns %v", n, inWait, i+1, err)
				}
			}
			if e, ok := f.Fired(); !ok || e.Op != "Fill" || e.Bytes != u.stats.Len || e.Stream != 1 {
				t.Errorf("failure %d: %v %v", n, e, ok)
			}
			if err := r.stream.Wait(context.Background()); err != nil {
				t.Errorf("failure %d: the next Wait returns %v", n, err)
			}
		}
	}
	f.Arm(Failure{N: 1, Err: driver.ErrOutOfMemory, InWait: true})
	if _, err := r.dev.Alloc(10); !errors.Is(err, driver.ErrOutOfMemory) {
		t.Errorf("Alloc: %v", err)
	}
	f.Arm(Failure{N: 1, Err: driver.ErrOutOfMemory})
	if _, err := r.dev.NewStream(0); !errors.Is(err, driver.ErrOutOfMemory) {
		t.Errorf("NewStream: %v", err)
	}
	f.Arm(Failure{N: 1, Err: driver.ErrNoDevice})
	if _, err := f.Open(0); !errors.Is(err, driver.ErrNoDevice) {
		t.Errorf("Open: %v", err)
	}
}

// Faults visits every event of the work once for each error and way to fail, and ends.
func TestFaults(t *testing.T) {
	type visit struct {
		op     string
		inWait bool
		lost   bool
	}
	seen := map[visit]int{}
	clean := 0
	for f := range Faults(Oracle(), driver.ErrOutOfMemory, driver.ErrDeviceLost) {
		err := func() error {
			dev, err := f.Open(0)
			if err != nil {
				return err
			}
			s, err := dev.NewStream(0)
			if err != nil {
				return errors.Join(err, dev.Close())
			}
			m, err := dev.Alloc(100)
			if err != nil {
				return errors.Join(err, s.Close(), dev.Close())
			}
			fill := s.Run(&driver.Fill{Dst: driver.Slice{Mem: m, Len: 100}, Value: 1})
			return errors.Join(fill, s.Wait(context.Background()), m.Free(), s.Close(), dev.Close())
		}()
		e, fired := f.Fired()
		if fired != (err != nil) || fired && !errors.Is(err, f.Failure().Err) {
			t.Errorf("%+v: fired %v: %v", f.Failure(), fired, err)
		}
		if !fired {
			clean++
			continue
		}
		seen[visit{e.Op, f.Failure().InWait, f.Failure().Err == driver.ErrDeviceLost}]++
	}
	if clean != 4 || len(seen) != 4*4 {
		t.Errorf("%d clean runs, events %v", clean, seen)
	}
	for v, n := range seen {
		if n != 1 {
			t.Errorf("%+v was visited %d times", v, n)
		}
	}
}

func TestTrace(t *testing.T) {
	for _, wait := range []bool{false, true} {
		slow := onStream(func(s *brokenStream) {
			s.wait = func(ctx context.Context) error { time.Sleep(time.Millisecond); return s.Stream.Wait(ctx) }
		})
		tr := Trace(slow, wait)
		r := openRig(t, tr)
		p := caseNamed(t, "shape holes")
		u := r.set(On(t), p, driver.MethodDefault)
		r.wait(On(t))
		var ops []string
		for _, e := range tr.Records("Open", "NewStream", "Alloc") {
			ops = append(ops, e.Op)
		}
		if !slices.Equal(ops, []string{"Open", "NewStream", "Alloc"}) {
			t.Errorf("set-up: %v", ops)
		}
		tr.Reset()
		if err := r.prepare(u, driver.MethodDefault); err != nil {
			t.Fatal(err)
		}
		r.reduce(On(t), u)
		r.raster(On(t), u)
		if err := r.stream.Upload(u.mask.Data, [][]byte{nil}); wait != (err != nil) { // fails when it runs
			t.Errorf("waiting %v: %v", wait, err)
		}
		if err := r.stream.Wait(context.Background()); wait != (err == nil) {
			t.Errorf("waiting %v: Wait: %v", wait, err)
		}
		rs := tr.Records()
		want := []Event{
			{Op: "MaskPrepare", Bytes: u.prepared.Len},
			{Op: "MaskReduce", Bytes: u.prepared.Len + u.frame.Len + u.stats.Len + u.hist.Len},
			{Op: "MaskRaster", Bytes: u.prepared.Len + u.mask.Data.Len},
			{Op: "MaskRaster", Bytes: u.prepared.Len + u.labels.Data.Len},
			{Op: "Upload", Bytes: u.mask.Data.Len},
			{Op: "Wait"},
		}
		if len(rs) != len(want) {
			t.Fatalf("%d records: %v", len(rs), rs)
		}
		for i, e := range rs {
			if e.Op != want[i].Op || e.Bytes != want[i].Bytes || e.Stream != 1 {
				t.Errorf("record %d is %v, want %v", i, e.Event, want[i])
			}
			if i > 0 && e.Start.Before(rs[i-1].Start) {
				t.Errorf("record %d starts before the one ahead of it", i)
			}
			if slow := e.Took >= time.Millisecond; e.Op != "Wait" && slow != wait && wait {
				t.Errorf("record %d took %v; it was waited for", i, e.Took)
			}
		}
		if op, ok := rs[1].Args.(*driver.MaskReduce); !ok || op.Count != p.Count {
			t.Errorf("the op is %+v", rs[1].Args)
		}
		if failed := rs[4].Err != nil; failed != wait {
			t.Errorf("the record of an upload that fails has %v", rs[4].Err)
		}
		if failed := rs[5].Err != nil; failed == wait {
			t.Errorf("the record of Wait has %v", rs[5].Err)
		}
	}
}

func smallCases(c Case) bool {
	return strings.HasPrefix(c.Name, "random") || strings.HasPrefix(c.Name, "strips") ||
		strings.HasPrefix(c.Name, "what")
}

// The suite passes through wrappers that do nothing. TestEveryOpIsTested runs it through a Trace that doesn't wait.
func TestWrappersAreTransparent(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]driver.Driver{
		"Fault":   Fault(Oracle(), Failure{}),
		"waiting": Trace(Oracle(), true),
		"Perturb": Perturb(Oracle(), Perturbation{}),
	} {
		t.Run(name, func(t *testing.T) {
			s := Suite{Driver: d, Short: true, Random: 2, Methods: []driver.Method{driver.MethodDefault},
				only: smallCases, small: true}
			if name == "waiting" {
				runParts(t, s, "sticky") // its errors come at once, after the op has been enqueued
				return
			}
			runParts(t, s)
		})
	}
}

// A real polygon comes out as the data says, so the oracle's agreement with the data is no accident of parsing.
func TestSharedCases(t *testing.T) {
	dir, ok := SharedDir()
	if !ok {
		t.Skip("ABSENT: the shared data (POLYSCAN_SHARED, or ../shared beside the repository)")
	}
	cs, err := SharedCases(dir)
	if err != nil {
		t.Fatal(err)
	}
	verified := 0
	for _, c := range cs {
		if c.Verify == nil || c.Heavy && testing.Short() {
			continue
		}
		p := c.Problem()
		e := p.Expect()
		if err := c.Verify(p, e); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		verified++
		if e.Stats[0].Count == 0 {
			continue
		}
		// It must be able to fail.
		for _, spoil := range []func(){
			func() { e.Stats[0].SumSq++ },
			func() { e.Stats[0].MinKey++ },
			func() { e.Stats[0].MaxKey-- },
			func() { e.Hist[100]++ },
			func() { e.Mask[0] ^= 255 },
		} {
			e = p.Expect()
			spoil()
			if err := c.Verify(p, e); err == nil {
				t.Errorf("%s: a wrong value is verified", c.Name)
			}
		}
	}
	if verified < 9 {
		t.Errorf("%d samples", verified)
	}
}
