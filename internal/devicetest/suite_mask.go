// The suite: the mask ops.

package devicetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/polyscan/polyscan/kernels/driver"
)

// cases runs all cases by all methods.
func (s Suite) cases(t T, dev driver.Device) {
	methods := s.supported(t, dev)
	r := newRig(t, dev)
	defer r.close(t)
	took := map[driver.Method]time.Duration{}
	for _, c := range Cases(s.Seed, s.Random) {
		if c.Heavy && s.Short || s.only != nil && !s.only(c) {
			continue
		}
		t.Run(c.Name, func(t T) {
			p := c.Problem()
			want := p.Expect()
			for _, m := range methods {
				start := time.Now()
				s.solve(t, r, p, m, want)
				took[m] += time.Since(start)
			}
		})
	}
	for _, m := range methods {
		t.Logf("%v took %v", m, took[m].Round(time.Millisecond))
	}
}

// solve runs all ops of a problem and compares what they wrote.
func (s Suite) solve(t T, r *rig, p *Problem, m driver.Method, want *Expected) {
	t.Helper()
	if n := p.tests(); (m == driver.Naive || m == driver.Tiled) && n > s.Tests {
		t.Logf("%v is left out: %d tests are more than %d", m, n, s.Tests)
		return
	}
	u := r.set(t, p, m)
	if err := r.prepare(u, m); err != nil {
		t.Errorf("%v: MaskPrepare: %v", m, err)
		return
	}
	r.reduce(t, u)
	r.raster(t, u)
	got := r.results(t, u)
	if err := u.differ(got, want); err != nil {
		t.Errorf("%v: %v", m, err)
	}
	r.checkGuards(t)
}

// pickCases returns some of the cases.
func (s Suite) pickCases(names ...string) []Case {
	if s.small {
		names = []string{"shape holes"}
	}
	return slices.DeleteFunc(Cases(s.Seed, 0), func(c Case) bool { return !slices.Contains(names, c.Name) })
}

// again: results are the same bit for bit however often an op runs, and prepared regions can be used many times.
func (s Suite) again(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	for _, c := range s.pickCases("shape overlapping regions", "shape many tiny regions", "shape ring of thousands") {
		p := c.Problem()
		u := r.set(t, p, driver.MethodDefault)
		var first *results
		for n := range 4 {
			if n%2 == 0 {
				if err := r.prepare(u, driver.MethodDefault); err != nil {
					t.Fatalf("MaskPrepare: %v", err)
				}
			}
			r.dirty(t, u)
			r.reduce(t, u)
			r.raster(t, u)
			got := r.results(t, u)
			if first == nil {
				first = got
			} else if !got.equal(first) {
				t.Errorf("%s: run %d differs from the first", c.Name, n)
			}
		}
		r.checkGuards(t)
	}
}

func (a *results) equal(b *results) bool {
	return slices.Equal(a.stats, b.stats) && slices.Equal(a.hist, b.hist) && bytes.Equal(a.mask, b.mask) &&
		bytes.Equal(a.labels, b.labels)
}

// moved: prepared regions may be moved as bytes.
func (s Suite) moved(t T, dev driver.Device) {
	if _, ok := dev.(*mirrorDevice); ok {
		t.Logf("skipped: prepared regions of a mirror are of two backends")
		return
	}
	r := newRig(t, dev)
	defer r.close(t)
	for _, c := range s.pickCases("shape holes", "shape shared edges", "size 300x221") {
		p := c.Problem()
		want := p.Expect()
		for _, m := range s.supported(t, dev) {
			u := r.set(t, p, m)
			if err := r.prepare(u, m); err != nil {
				t.Fatalf("%v: MaskPrepare: %v", m, err)
			}
			blob := make([]byte, u.prepared.Len)
			r.download(t, blob, u.prepared)
			r.wait(t)
			r.fill(t, u.prepared, dirtyByte)
			to, err := dev.Alloc(int64(len(blob)) + 3*driver.Align)
			if err != nil {
				t.Fatalf("Alloc: %v", err)
			}
			u.prepared = driver.Slice{Mem: to, Off: 3 * driver.Align, Len: int64(len(blob))}
			r.upload(t, u.prepared, blob)
			r.reduce(t, u)
			r.raster(t, u)
			if err := u.differ(r.results(t, u), want); err != nil {
				t.Errorf("%s by %v, moved: %v", c.Name, m, err)
			}
			if err := to.Free(); err != nil {
				t.Errorf("Free: %v", err)
			}
		}
	}
}

// concurrent: streams may use the same prepared regions and the same frame at the same time.
func (s Suite) concurrent(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	for _, c := range s.pickCases("shape overlapping regions", "size 127x5", "shape many tiny regions") {
		p := c.Problem()
		p.Strips = p.wholeStrip()
		want := p.Expect()
		u := r.set(t, p, driver.MethodDefault)
		if err := r.prepare(u, driver.MethodDefault); err != nil {
			t.Fatalf("MaskPrepare: %v", err)
		}
		r.wait(t)
		const n = 4
		errs := make([]error, n)
		var wg sync.WaitGroup
		for k := range n {
			wg.Go(func() { errs[k] = reduceBeside(dev, u, want) })
		}
		wg.Wait()
		for k, err := range errs {
			if err != nil {
				t.Errorf("%s, stream %d of %d: %v", c.Name, k, n, err)
			}
		}
	}
}

// reduceBeside reduces what u holds on a stream and to memory of its own.
func reduceBeside(dev driver.Device, u *setup, want *Expected) (err error) {
	st, err := dev.NewStream(0)
	if err != nil {
		return err
	}
	hist := alignUp(u.stats.Len)
	m, err := dev.Alloc(hist + alignUp(u.hist.Len) + driver.Align)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	defer func() { err = errors.Join(err, st.Close(), m.Free()) }()
	op := u.reduceOp(u.p.Strips[0])
	op.Stats = driver.Slice{Mem: m, Len: u.stats.Len}
	op.Hist = driver.Slice{Mem: m, Off: hist, Len: u.hist.Len}
	nc := u.p.channels()
	for range 5 {
		stats := make([]driver.MaskStats, len(want.Stats))
		counts := make([]uint32, len(want.Hist))
		err := errors.Join(st.Run(&op), st.Download(bytesOf(stats), op.Stats),
			st.Download(bytesOf(counts), op.Hist), st.Wait(context.Background()))
		if err != nil {
			return err
		}
		if d := CompareStats(stats, want.Stats, u.p.First, nc); d != nil {
			return d
		}
		if d := CompareHist(counts, want.Hist, u.p.First, nc, u.p.Format.Levels()); d != nil {
			return d
		}
	}
	return nil
}

// A misfit is an op that does not fit the prepared regions, which only the backend can see.
type misfit struct {
	name string
	run  func(driver.Stream, *setup) error
}

var misfits = []misfit{
	{"MaskReduce of more regions than there are", func(st driver.Stream, u *setup) error {
		op := u.reduceOp(Strip{0, u.p.Height})
		op.First++
		return st.Run(&op)
	}},
	{"MaskReduce of a wider frame", func(st driver.Stream, u *setup) error {
		op := u.reduceOp(Strip{0, u.p.Height - 5})
		op.Frame.Width++
		op.Frame.Stride = max(op.Frame.Stride, op.Frame.Width*op.Frame.Format.PixelBytes())
		return st.Run(&op)
	}},
	{"MaskReduce of a narrower frame", func(st driver.Stream, u *setup) error {
		op := u.reduceOp(Strip{0, u.p.Height})
		op.Frame.Width--
		return st.Run(&op)
	}},
	{"MaskReduce of rows below the image", func(st driver.Stream, u *setup) error {
		op := u.reduceOp(Strip{0, u.p.Height})
		op.Row0 = 1
		return st.Run(&op)
	}},
	{"MaskCooccurrence from behind the last region", func(st driver.Stream, u *setup) error {
		op := u.reduceOp(Strip{0, u.p.Height})
		return st.Run(&driver.MaskCooccurrence{Prepared: u.prepared, First: len(u.p.Regions.Regions) + 1, Frame: op.Frame,
			Levels: 8, Offsets: []driver.PixelOffset{{DX: 1}}})
	}},
	{"MaskCooccurrence of a narrower frame", func(st driver.Stream, u *setup) error {
		op := u.reduceOp(Strip{0, u.p.Height})
		op.Frame.Width--
		return st.Run(&driver.MaskCooccurrence{Prepared: u.prepared, First: u.p.First, Frame: op.Frame,
			Levels: 8, Offsets: []driver.PixelOffset{{DX: 1}}})
	}},
	{"MaskCorrelate from behind the last region", func(st driver.Stream, u *setup) error {
		op := u.reduceOp(Strip{0, u.p.Height})
		return st.Run(&driver.MaskCorrelate{Prepared: u.prepared, First: len(u.p.Regions.Regions) + 1, Frame: op.Frame,
			Other: op.Frame, Lags: []driver.Lag{{DX: 1}}, Slots: 1, Series: []driver.ChannelPair{{}}})
	}},
	{"MaskCorrelate of a narrower frame", func(st driver.Stream, u *setup) error {
		op := u.reduceOp(Strip{0, u.p.Height})
		op.Frame.Width--
		return st.Run(&driver.MaskCorrelate{Prepared: u.prepared, First: u.p.First, Frame: op.Frame, Other: op.Frame,
			Lags: []driver.Lag{{DX: 1}}, Slots: 1, Series: []driver.ChannelPair{{}}})
	}},
	{"MaskRaster of more regions than there are", func(st driver.Stream, u *setup) error {
		return st.Run(&driver.MaskRaster{Prepared: u.prepared, First: u.p.First, Count: u.p.Count + 1,
			Dst: u.mask})
	}},
	{"MaskRaster of a lower image", func(st driver.Stream, u *setup) error {
		op := driver.MaskRaster{Prepared: u.prepared, First: u.p.First, Count: u.p.Count, Dst: u.mask}
		op.Dst.Height--
		return st.Run(&op)
	}},
	{"MaskRaster of a narrower image", func(st driver.Stream, u *setup) error {
		op := driver.MaskRaster{Prepared: u.prepared, First: u.p.First, Count: u.p.Count, Dst: u.mask}
		op.Dst.Width--
		return st.Run(&op)
	}},
}

// opErrors: an op that does not fit what was prepared fails, at once or in Wait, writes nothing outside of its slices,
// and leaves the stream usable.
func (s Suite) opErrors(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	p := s.pickCases("shape holes")[0].Problem()
	want := p.Expect()
	for _, f := range misfits {
		t.Run(f.name, func(t T) {
			u := r.set(t, p, driver.MethodDefault)
			if err := r.prepare(u, driver.MethodDefault); err != nil {
				t.Fatalf("MaskPrepare: %v", err)
			}
			r.wait(t)
			err := f.run(r.stream, u)
			if err == nil {
				err = r.stream.Wait(context.Background())
			}
			if err == nil {
				t.Errorf("no error")
			} else if errors.Is(err, driver.ErrDeviceLost) {
				t.Fatalf("the device is lost: %v", err)
			}
			r.wait(t)
			r.dirty(t, u)
			r.reduce(t, u)
			r.raster(t, u)
			if err := u.differ(r.results(t, u), want); err != nil {
				t.Errorf("on the same stream after it: %v", err)
			}
			r.checkGuards(t)
		})
	}
}

// sticky: an op that fails makes those behind it do nothing, and Wait returns its error once.
func (s Suite) sticky(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	p := s.pickCases("shape holes")[0].Problem()
	u := r.set(t, p, driver.MethodDefault)
	if err := r.prepare(u, driver.MethodDefault); err != nil {
		t.Fatalf("MaskPrepare: %v", err)
	}
	r.wait(t)
	late := 0
	for _, f := range misfits {
		r.fill(t, u.stats, 1)
		atOnce := f.run(r.stream, u)
		r.fill(t, u.stats, 2)
		r.fill(t, u.stats, 3)
		err := r.stream.Wait(context.Background())
		got := make([]byte, u.stats.Len)
		r.download(t, got, u.stats)
		if err2 := r.stream.Wait(context.Background()); err2 != nil {
			t.Errorf("%s: a second Wait: %v", f.name, err2)
		}
		ran := func(v byte) bool { return bytes.Count(got, []byte{v}) == len(got) }
		if atOnce != nil { // nothing was enqueued: what is around it runs
			if err != nil {
				t.Errorf("%s: %v at once, and %v again from Wait", f.name, atOnce, err)
			}
			if !ran(3) {
				t.Errorf("%s: failed at once, and what was enqueued after it did not run", f.name)
			}
			continue
		}
		late++
		if err == nil {
			t.Errorf("%s: no error", f.name)
		}
		if ran(2) || ran(3) {
			t.Errorf("%s: an op behind it ran", f.name)
		}
	}
	t.Logf("%d of %d misfits fail in Wait, the others at once", late, len(misfits))
}
