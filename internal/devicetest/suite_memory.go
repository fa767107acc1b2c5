// The suite: devices, memory, copies, streams.

package devicetest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s Suite) open(t T) {
	if s.Driver.Name() == "" {
		t.Errorf("the driver has no name")
	}
	for _, n := range []int{-1, 1 << 20} {
		dev, err := s.Driver.Open(n)
		if err == nil {
			t.Errorf("Open(%d): no error", n)
			_ = dev.Close()
		} else if !errors.Is(err, driver.ErrNoDevice) {
			t.Errorf("Open(%d): %v: want one that matches ErrNoDevice", n, err)
		}
	}
}

func (s Suite) info(t T, dev driver.Device) {
	i := dev.Info()
	if i.Backend != s.Driver.Name() {
		t.Errorf("Info: Backend is %q and the driver's name %q", i.Backend, s.Driver.Name())
	}
	if i.Device == "" || i.Capability == "" || i.ComputeUnits < 1 || i.MemoryBytes < 1 {
		t.Errorf("Info: %+v", i)
	}
	if i.MaskMethod < driver.Naive || i.MaskMethod > driver.RowSpans {
		t.Errorf("Info: MaskMethod is %v", i.MaskMethod)
	}
	if dev.Info() != i {
		t.Errorf("Info: %+v the first time and %+v the second", i, dev.Info())
	}
}

func (s Suite) memory(t T, dev driver.Device) {
	if m, err := dev.Alloc(1 << 56); err == nil {
		t.Errorf("Alloc of 64 PiB: no error")
		_ = m.Free()
	} else if !errors.Is(err, driver.ErrOutOfMemory) {
		t.Errorf("Alloc of 64 PiB: %v: want one that matches ErrOutOfMemory", err)
	}
	// Blocks don't overlap, hold what was written, and can be had again and again.
	r := newRig(t, dev)
	defer r.close(t)
	for round := range 3 {
		var mems []driver.Mem
		sizes := []int64{1, 255, 256, 257, 4096, 1 << 20, 5<<20 + 3}
		for i, n := range sizes {
			m, err := dev.Alloc(n)
			if err != nil {
				t.Fatalf("round %d: Alloc(%d): %v", round, n, err)
			}
			if m.Bytes() < n {
				t.Errorf("Alloc(%d): Bytes is %d", n, m.Bytes())
			}
			r.fill(t, driver.Slice{Mem: m, Len: n}, byte(i+1))
			mems = append(mems, m)
		}
		for i, m := range mems {
			got := make([]byte, sizes[i])
			r.download(t, got, driver.Slice{Mem: m, Len: sizes[i]})
			r.wait(t)
			if n := bytes.Count(got, []byte{byte(i + 1)}); n != len(got) {
				t.Errorf("a block of %d bytes: %d of them hold what another block got", len(got), len(got)-n)
			}
		}
		for _, m := range mems {
			if err := m.Free(); err != nil {
				t.Errorf("Free: %v", err)
			}
		}
	}
}

// transferSizes are around what vectors, warps and pages hold.
var transferSizes = []int{0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 65, 127, 255, 256, 257, 1000, 4095, 4097, 65537,
	3<<20 + 5}

func (s Suite) sizes(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	g := rand.New(rand.NewPCG(s.Seed, 1))
	for _, n := range transferSizes {
		for _, off := range []int{0, 1, 13, 255} {
			r.reserve(t, 1, int64(n+off))
			d := r.slice(t, int64(n), off)
			want := noiseBytes(g, n)
			got := make([]byte, n)
			r.upload(t, d, want)
			r.download(t, got, d)
			r.wait(t)
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes at offset %d came back changed", n, off)
			}
			r.fill(t, d, 0x3b)
			r.download(t, got, d)
			r.wait(t)
			if c := bytes.Count(got, []byte{0x3b}); c != n {
				t.Errorf("Fill of %d bytes at offset %d set %d", n, off, c)
			}
			r.checkGuards(t)
		}
	}
}

func noiseBytes(g *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	return b
}

// Uploads gather: from none, one and many pieces, empty ones among them.
func (s Suite) manyPieces(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	g := rand.New(rand.NewPCG(s.Seed, 2))
	for _, sizes := range [][]int{{}, {0}, {5}, {0, 0, 1}, {1, 0, 1, 31, 32, 33, 0}, {100000, 1, 100000},
		slices.Repeat([]int{1}, 1000), slices.Repeat([]int{257}, 999)} {
		var src [][]byte
		n := 0
		for i, k := range sizes {
			if k == 0 && i%2 == 0 {
				src = append(src, nil)
			} else {
				src = append(src, noiseBytes(g, k))
			}
			n += k
		}
		want := slices.Concat(src...)
		r.reserve(t, 1, int64(n))
		d := r.slice(t, int64(n), 0)
		r.upload(t, d, src...)
		got := make([]byte, n)
		r.download(t, got, d)
		r.wait(t)
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes from %d pieces came back changed", n, len(sizes))
		}
		for i, k := range sizes {
			if k > 0 && len(src[i]) != k {
				t.Errorf("piece %d was changed", i)
			}
		}
		r.checkGuards(t)
	}
}

// Ops run in the order in which they were enqueued: random copies and fills of overlapping ranges do to device memory
// what they do to host memory.
func (s Suite) order(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	for round := range 20 {
		g := rand.New(rand.NewPCG(s.Seed, uint64(100+round)))
		size := pick(g, []int{16, 300, 70000})
		r.reserve(t, 1, int64(size))
		d := r.slice(t, int64(size), 0)
		model := make([]byte, size)
		r.fill(t, d, 0)
		type read struct{ want, got []byte }
		var reads []read
		for range 1 + g.IntN(60) {
			off := g.IntN(size)
			n := g.IntN(size - off + 1)
			part := driver.Slice{Mem: d.Mem, Off: d.Off + int64(off), Len: int64(n)}
			switch g.IntN(3) {
			case 0:
				v := byte(g.Uint32())
				r.fill(t, part, v)
				for i := range n {
					model[off+i] = v
				}
			case 1:
				src := noiseBytes(g, n)
				cut := g.IntN(n + 1)
				r.upload(t, part, src[:cut], src[cut:])
				copy(model[off:], src)
			case 2:
				rd := read{slices.Clone(model[off : off+n]), make([]byte, n)}
				r.download(t, rd.got, part)
				reads = append(reads, rd)
			}
			if g.IntN(10) == 0 {
				r.wait(t)
			}
		}
		got := make([]byte, size)
		r.download(t, got, d)
		r.wait(t)
		for i, rd := range append(reads, read{model, got}) {
			if !bytes.Equal(rd.want, rd.got) {
				t.Errorf("round %d: download %d did not see what was enqueued before it, and only that", round, i)
			}
		}
		r.checkGuards(t)
	}
}

// Streams that work on memory of their own don't disturb each other.
func (s Suite) streams(t T, dev driver.Device) {
	const n, size = 4, 100003
	m, err := dev.Alloc(n * 1 << 17)
	if err != nil {
		t.Fatalf("Alloc: %v", err)
	}
	defer func() {
		if err := m.Free(); err != nil {
			t.Errorf("Free: %v", err)
		}
	}()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for k := range n {
		wg.Go(func() {
			st, err := dev.NewStream(k % 2)
			if err != nil {
				errs[k] = err
				return
			}
			g := rand.New(rand.NewPCG(s.Seed, uint64(k)))
			d := driver.Slice{Mem: m, Off: int64(k) << 17, Len: size}
			for range 8 {
				want, got := noiseBytes(g, size), make([]byte, size)
				err := errors.Join(
					st.Run(&driver.Fill{Dst: d, Value: 1}),
					st.Upload(d, pieces(want)),
					st.Download(got, d),
					st.Wait(context.Background()))
				if err == nil && !bytes.Equal(got, want) {
					err = errors.New("memory changed under the stream")
				}
				errs[k] = errors.Join(errs[k], err)
			}
			errs[k] = errors.Join(errs[k], st.Close())
		})
	}
	wg.Wait()
	for k, err := range errs {
		if err != nil {
			t.Errorf("stream %d: %v", k, err)
		}
	}
}

// Wait returns ctx's cause when ctx ends first, not before the stream has drained, and the stream works on.
func (s Suite) cancel(t T, dev driver.Device) {
	g := rand.New(rand.NewPCG(s.Seed, 3))
	side, repeat := 1024, 24
	switch {
	case s.small:
		side = 100
	case s.Short:
		side = 512
	}
	p := frameOf(g, side, side, driver.Gray16(12), 0, noise)
	for range 4 {
		add(&p.Regions, driver.NonZero, jagged(g, float64(side)/2, float64(side)/2, 100, float64(side)/2, 300))
	}
	p.all()
	r := newRig(t, dev)
	defer r.close(t)
	u := r.set(t, p, driver.MethodDefault)
	if err := r.prepare(u, driver.MethodDefault); err != nil {
		t.Fatalf("MaskPrepare: %v", err)
	}
	r.reduce(t, u)
	r.raster(t, u)
	clean := r.results(t, u)

	cause := errors.New("the part left the belt")
	for _, after := range []time.Duration{-1, 0, 100 * time.Microsecond, time.Millisecond, 5 * time.Millisecond} {
		ctx, cancel := context.WithCancelCause(context.Background())
		if after < 0 {
			cancel(cause)
		} else {
			time.AfterFunc(after, func() { cancel(cause) })
		}
		last := make([]byte, 4096)
		r.fill(t, driver.Slice{Mem: u.mask.Data.Mem, Off: u.mask.Data.Off, Len: int64(len(last))}, 0x11)
		for range repeat {
			r.reduce(t, u)
		}
		r.download(t, last, driver.Slice{Mem: u.mask.Data.Mem, Off: u.mask.Data.Off, Len: int64(len(last))})
		err := r.stream.Wait(ctx)
		if err == nil { // all was done before ctx ended
			if n := bytes.Count(last, []byte{0x11}); n != len(last) {
				t.Errorf("cancelled after %v: Wait returned nil and %d bytes of the last download are missing", after,
					len(last)-n)
			}
		} else if !errors.Is(err, cause) {
			t.Errorf("cancelled after %v: Wait: %v: want ctx's cause", after, err)
		}
		// Nothing touches host or device memory any more.
		before, dev1 := slices.Clone(last), make([]driver.MaskStats, len(clean.stats))
		r.download(t, bytesOf(dev1), u.stats)
		r.wait(t)
		for i := range last {
			last[i] = 0x77
		}
		time.Sleep(5 * time.Millisecond)
		dev2 := make([]driver.MaskStats, len(clean.stats))
		r.download(t, bytesOf(dev2), u.stats)
		r.wait(t)
		if bytes.Count(last, []byte{0x77}) != len(last) {
			t.Errorf("cancelled after %v: host memory was written after Wait had returned (it held %x)", after,
				before[:8])
		}
		if d := CompareStats(dev1, dev2, 0, 1); d != nil {
			t.Errorf("cancelled after %v: device memory was written after Wait had returned: %v", after, d)
		}
		// The stream does all it is given from now on.
		if err := r.prepare(u, driver.MethodDefault); err != nil {
			t.Fatalf("MaskPrepare: %v", err)
		}
		r.dirty(t, u)
		r.reduce(t, u)
		r.raster(t, u)
		again := r.results(t, u)
		if d := CompareStats(again.stats, clean.stats, 0, 1); d != nil {
			t.Errorf("after a Wait that was cancelled: %v", d)
		}
		if d := CompareHist(again.hist, clean.hist, 0, 1, p.Format.Levels()); d != nil {
			t.Errorf("after a Wait that was cancelled: %v", d)
		}
		cancel(nil)
	}
}

// A stream can be closed with work on it, and twice; it does nothing after.
func (s Suite) closeStream(t T, dev driver.Device) {
	m, err := dev.Alloc(1 << 20)
	if err != nil {
		t.Fatalf("Alloc: %v", err)
	}
	for _, enqueue := range []int{0, 1, 50} {
		st, err := dev.NewStream(0)
		if err != nil {
			t.Fatalf("NewStream: %v", err)
		}
		for range enqueue {
			if err := st.Run(&driver.Fill{Dst: driver.Slice{Mem: m, Len: 1 << 20}, Value: 1}); err != nil {
				t.Errorf("Fill: %v", err)
			}
		}
		if err := st.Close(); err != nil {
			t.Errorf("Close with %d fills enqueued: %v", enqueue, err)
		}
		if err := st.Close(); err != nil {
			t.Errorf("Close of a closed stream: %v", err)
		}
		if err := st.Run(&driver.Fill{Dst: driver.Slice{Mem: m, Len: 1}, Value: 2}); err == nil {
			t.Errorf("Fill on a closed stream: no error")
		}
	}
	if err := m.Free(); err != nil {
		t.Errorf("Free: %v", err)
	}
}
