//go:build cuda

package cuda

// Rows of the table: blobs.

import (
	"errors"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// discs is a dark noisy frame with so many bright discs, some of which overlap, under one region that covers it.
func discs(w, h, n int) *devicetest.Problem {
	p := benchProblem(w, h, driver.Gray8, driver.MaskRegions{})
	g := rand.New(rand.NewPCG(uint64(w), uint64(n)))
	for i := range p.Pixels {
		p.Pixels[i] = byte(g.IntN(100))
	}
	for range n {
		cx, cy, r := g.IntN(w), g.IntN(h), 4+g.IntN(16)
		for y := max(cy-r, 0); y < min(cy+r+1, h); y++ {
			for x := max(cx-r, 0); x < min(cx+r+1, w); x++ {
				if (x-cx)*(x-cx)+(y-cy)*(y-cy) <= r*r {
					p.Pixels[y*w+x] |= 128
				}
			}
		}
	}
	for y := range h {
		p.Regions.Runs = append(p.Regions.Runs, driver.Run{Y: int32(y), X1: int32(w)})
	}
	p.Regions.Regions = []driver.Region{{Count: uint32(h), Fill: driver.ByRuns}}
	p.Count = 1
	return p
}

// blobsOp finds the bright blobs of a problem, in memory of dev.
func blobsOp(t *testing.T, dev driver.Device, p *devicetest.Problem, prepared, frame driver.Slice,
	op driver.MaskBlobs) *driver.MaskBlobs {
	t.Helper()
	op.Prepared, op.Count, op.Ranges = prepared, p.Count, make([]driver.BlobRange, p.Count)
	for i := range op.Ranges {
		op.Ranges[i] = driver.BlobRange{Lo: 128, Hi: 255}
	}
	op.Frame = driver.Image{Data: frame, Width: p.Width, Height: p.Height, Stride: p.Stride, Format: p.Format}
	n, err := dev.Scratch(&op)
	if err != nil {
		t.Fatal(err)
	}
	op.Counts = alloc(t, dev, int64(p.Count)*int64(unsafe.Sizeof(driver.BlobCount{})))
	op.Blobs = alloc(t, dev, int64(op.MaxBlobs)*int64(unsafe.Sizeof(driver.Blob{})))
	if op.MaxRuns > 0 {
		op.Runs = alloc(t, dev, int64(op.MaxRuns)*int64(unsafe.Sizeof(driver.BlobRun{})))
	}
	op.Scratch = alloc(t, dev, n)
	return &op
}

// blobs adds a row, after comparing what is found with the CPU's.
func (b *bench) blobs(name string, goal float64, ask driver.MaskBlobs) {
	b.t.Helper()
	op := blobsOp(b.t, b.dev, b.w.p, b.w.prepared, b.frames[0], ask)
	dev := open(b.t, cpu.Driver)
	s := newStream(b.t, dev)
	prepare := driver.MaskPrepare{Regions: b.w.p.Regions, Width: b.w.p.Width, Height: b.w.p.Height}
	n, err := dev.Scratch(&prepare)
	if err != nil {
		b.t.Fatal(err)
	}
	prepare.Dst = alloc(b.t, dev, n)
	want := blobsOp(b.t, dev, b.w.p, prepare.Dst, alloc(b.t, dev, int64(len(b.w.p.Pixels))), ask)
	read := func(s driver.Stream, op *driver.MaskBlobs) *devicetest.Found {
		f := &devicetest.Found{Counts: make([]driver.BlobCount, op.Count), Blobs: make([]driver.Blob, op.MaxBlobs),
			Runs: make([]driver.BlobRun, op.MaxRuns)}
		b.must(s.Run(op), s.Download(bytesOf(f.Counts), op.Counts), s.Download(bytesOf(f.Blobs), op.Blobs),
			s.Download(bytesOf(f.Runs), op.Runs), s.Wait(b.t.Context()))
		return f.Cut()
	}
	b.must(s.Run(&prepare), s.Upload(want.Frame.Data, [][]byte{b.w.p.Pixels}))
	got, expected := read(b.s, op), read(s, want)
	if d := devicetest.CompareFound(got, expected); d != nil {
		b.t.Errorf("%s: %v", name, d)
	}
	b.t.Logf("%s: %+v", name, expected.Counts[0])
	of := func(i int) *driver.MaskBlobs {
		one := *op
		one.Frame.Data = b.frames[i%len(b.frames)]
		return &one
	}
	counts, blobs := make([]driver.BlobCount, op.Count), make([]driver.Blob, len(expected.Blobs))
	some := op.Blobs
	some.Len = int64(len(blobs)) * int64(unsafe.Sizeof(driver.Blob{}))
	b.timed(name, b.covered()+some.Len, goal, 10, func(i int) error { return b.s.Run(of(i)) },
		func(i int) error {
			return errors.Join(b.s.Run(of(i)), b.s.Download(bytesOf(counts), op.Counts),
				b.s.Download(bytesOf(blobs), some))
		})
}

// erosion adds a row for one step of morphology, beside which nothing else of MaskBlobs is timed.
func (b *bench) erosion(name string, goal float64) {
	b.t.Helper()
	op := blobsOp(b.t, b.dev, b.w.p, b.w.prepared, b.frames[0],
		driver.MaskBlobs{Steps: []driver.BlobStep{{Erode: true, Half: []uint8{1, 1}}}})
	b.must(b.s.Run(op), b.s.Wait(b.t.Context()))
	lay := layBlobs(op)
	from := at(op.Scratch)
	args := blobArgs{Maps: from + uint64(lay.maps), Bits: from + uint64(lay.bits), Inside: from + uint64(lay.inside),
		Spare: from + uint64(lay.spare), Count: 1, Erode: 1, Reach: 1, Half: [32]uint8{1, 1},
		Words: uint32(blobRegionWords(int64(op.Frame.Height), int64(op.Frame.Width+31)/32))}
	b.timed(name, 12*int64(args.Words), goal, 20, func(int) error {
		return blobsStep.launch(b.s, blocks(int64(args.Words), blobThreads), 1, blobThreads, 0, &args)
	}, nil)
}

// blobRowsOf adds the rows about blobs.
func blobRowsOf(t *testing.T, dev driver.Device, small int) {
	for _, c := range []struct {
		name            string
		w, h, n, copies int
		goal            float64
	}{{"2880x1440, 2000 discs", 2880, 1440, 2000, 32, 30}, {"10240x4096, 20000 discs", 10240, 4096, 20000, 6, 120}} {
		t.Run("blobs of "+c.name, func(t *testing.T) {
			counted(t)
			b := newBench(t, dev, discs(c.w/small, c.h/small, c.n/small/small), c.copies)
			b.blobs("blobs, 8-connected, "+c.name, c.goal, driver.MaskBlobs{Eight: true, MaxBlobs: 1 << 16})
			b.blobs("blobs with runs, 8-connected, "+c.name, 0,
				driver.MaskBlobs{Eight: true, MaxBlobs: 1 << 16, MaxRuns: 1 << 20})
			if c.w == 10240 {
				b.erosion("erode 3x3 of bits, 10240x4096", 15)
			}
		})
	}
}
