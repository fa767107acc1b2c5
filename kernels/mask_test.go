package kernels

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

const statsBytes = int64(unsafe.Sizeof(driver.MaskStats{}))

// maskJob opens a device over f and runs fn as a job with one large buffer, at the start of the memory.
func maskJob(t *testing.T, f *fakeDriver, fn func(q *Queue, all driver.Slice)) {
	t.Helper()
	d := openFake(t, f, Config{MemoryBytes: 1 << 20})
	err := d.Do(context.Background(), Job{Label: "mask", Footprint: 1 << 19}, func(q *Queue) error {
		b, err := Alloc[byte](q, 1<<19, "all")
		if err != nil {
			return err
		}
		fn(q, b.Slice())
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func part(s driver.Slice, off, n int64) driver.Slice { s.Off, s.Len = s.Off+off, n; return s }

// square is closed: four edges around pixel (1, 1).
func square() driver.MaskRegions {
	return driver.MaskRegions{
		Edges: []driver.Edge{
			{X0: 256, Y0: 256, X1: 512, Y1: 256}, {X0: 512, Y0: 256, X1: 512, Y1: 512},
			{X0: 512, Y0: 512, X1: 256, Y1: 512}, {X0: 256, Y0: 512, X1: 256, Y1: 256},
		},
		Regions: []driver.Region{{Count: 4}, {Count: 4, Fill: driver.EvenOdd}},
	}
}

func prepareOp(all driver.Slice) *driver.MaskPrepare {
	return &driver.MaskPrepare{Regions: square(), Width: 100, Height: 50, Method: driver.Naive, Dst: part(all, 0, 1000)}
}

// reduceOp reduces two regions of a 12-bit frame, with a histogram.
func reduceOp(all driver.Slice) *driver.MaskReduce {
	return &driver.MaskReduce{
		Prepared: part(all, 0, 1000), First: 0, Count: 2,
		Frame: driver.Image{Data: part(all, 1024, 230*49+200), Width: 100, Height: 50, Stride: 230,
			Format: driver.Gray16(12)},
		What:  driver.MaskHistogram,
		Stats: part(all, 1<<16, 2*statsBytes),
		Hist:  part(all, 1<<17, 2*4096*4),
	}
}

func rasterOp(all driver.Slice) *driver.MaskRaster {
	return &driver.MaskRaster{
		Prepared: part(all, 0, 1000), Count: 2, Mode: driver.RasterLabels,
		Dst: driver.Image{Data: part(all, 1024, 200*50), Width: 100, Height: 50, Stride: 200,
			Format: driver.Gray16(16)},
	}
}

// refusal is what an op has to be refused with.
type refusal struct {
	field, message string
}

func (r refusal) check(t *testing.T, op string, err error) {
	t.Helper()
	var a *ArgError
	if !errors.As(err, &a) {
		t.Errorf("%s: %v: want an ArgError", r.field, err)
		return
	}
	if a.Op != op || a.Field != r.field || err.Error() != "kernels: "+op+": "+r.message ||
		strings.ContainsAny(err.Error(), "\n\t") {
		t.Errorf("%s: field %s: %q, want %q", r.field, a.Field, err.Error(), "kernels: "+op+": "+r.message)
	}
}

func TestMaskPrepareChecks(t *testing.T) {
	other := openFake(t, &fakeDriver{}, Config{})
	foreign, err := AllocPersistent[byte](other, 4096, "foreign")
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Free()
	f := &fakeDriver{}
	maskJob(t, f, func(q *Queue, all driver.Slice) {
		for _, c := range []struct {
			refusal
			change func(*driver.MaskPrepare)
		}{
			{refusal{"Method", "Method = 6: is no method"}, func(op *driver.MaskPrepare) { op.Method = 6 }},
			{refusal{"Width", "Width = 0: must be 1 to 1048576"}, func(op *driver.MaskPrepare) { op.Width = 0 }},
			{refusal{"Width", "Width = -5: must be 1 to 1048576"}, func(op *driver.MaskPrepare) { op.Width = -5 }},
			{refusal{"Width", "Width = 1048577: must be 1 to 1048576"},
				func(op *driver.MaskPrepare) { op.Width = driver.MaxSide + 1 }},
			{refusal{"Height", "Height = 0: must be 1 to 1048576"}, func(op *driver.MaskPrepare) { op.Height = 0 }},
			{refusal{"Height", fmt.Sprintf("Height = %d: must be 1 to 1048576", math.MaxInt)},
				func(op *driver.MaskPrepare) { op.Height = math.MaxInt }},
			{refusal{"Width, Height", "Width, Height = 1048576x513: makes more than 536870912 pixels"},
				func(op *driver.MaskPrepare) { op.Width, op.Height = driver.MaxSide, 513 }},
			{refusal{"Regions.Edges[2]",
				"Regions.Edges[2] = {512 512 256 1073741825}: has a coordinate beyond 1073741824"},
				func(op *driver.MaskPrepare) { op.Regions.Edges[2].Y1 = driver.MaxCoord + 1 }},
			{refusal{"Regions.Edges[0]",
				"Regions.Edges[0] = {-2147483648 256 512 256}: has a coordinate beyond 1073741824"},
				func(op *driver.MaskPrepare) { op.Regions.Edges[0].X0 = math.MinInt32 }},
			{refusal{"Regions.Regions[1]", "Regions.Regions[1] = {1 4 1}: reaches past the 4 edges"},
				func(op *driver.MaskPrepare) { op.Regions.Regions[1].First = 1 }},
			{refusal{"Regions.Regions[0]", "Regions.Regions[0] = {4294967295 4 0}: reaches past the 4 edges"},
				func(op *driver.MaskPrepare) { op.Regions.Regions[0].First = math.MaxUint32 }},
			{refusal{"Regions.Regions[0].Fill", "Regions.Regions[0].Fill = 3: is no fill rule"},
				func(op *driver.MaskPrepare) { op.Regions.Regions[0].Fill = 3 }},
			{refusal{"Regions.Regions[0]", "Regions.Regions[0] = {0 4 2}: reaches past the 0 runs"},
				func(op *driver.MaskPrepare) { op.Regions.Regions[0].Fill = driver.ByRuns }},
			{refusal{"Regions.Runs[0]", "Regions.Runs[0] = {1 4194303 4194305}: has a coordinate beyond 4194304"},
				byRuns(driver.Run{Y: 1, X0: 4194303, X1: 4194305})},
			{refusal{"Regions.Runs[0]", "Regions.Runs[0] = {-2147483648 0 1}: has a coordinate beyond 4194304"},
				byRuns(driver.Run{Y: math.MinInt32, X1: 1})},
			{refusal{"Regions.Runs[1]", "Regions.Runs[1] = {1 7 7}: holds no pixel"},
				byRuns(driver.Run{Y: 1, X0: 1, X1: 5}, driver.Run{Y: 1, X0: 7, X1: 7})},
			{refusal{"Regions.Runs[1]",
				"Regions.Runs[1] = {1 5 7}: must lie behind the run before it, and not touch it"},
				byRuns(driver.Run{Y: 1, X0: 1, X1: 5}, driver.Run{Y: 1, X0: 5, X1: 7})},
			{refusal{"Regions.Runs[2]",
				"Regions.Runs[2] = {2 8 9}: must lie behind the run before it, and not touch it"},
				byRuns(driver.Run{Y: 1, X0: 1, X1: 5}, driver.Run{Y: 3, X0: 5, X1: 7}, driver.Run{Y: 2, X0: 8, X1: 9})},
			{refusal{"Regions.Regions[0]", "Regions.Regions[0] = {0 3 0}: is open: its edges form no closed rings"},
				func(op *driver.MaskPrepare) { op.Regions.Regions[0].Count = 3 }},
			{refusal{"Regions.Regions[0]", "Regions.Regions[0] = {0 4 0}: is open: its edges form no closed rings"},
				func(op *driver.MaskPrepare) { op.Regions.Edges[1].X0++ }},
			{refusal{"Dst.Off", "Dst.Off = 128: must be a multiple of 256"},
				func(op *driver.MaskPrepare) { op.Dst.Off += 128 }},
			{refusal{"Dst", "Dst = [1047808 1000]: (offset, length) is not inside the memory of 1048576 bytes"},
				func(op *driver.MaskPrepare) { op.Dst.Off = 1<<20 - 768 }},
			{refusal{"Dst", "Dst = [-256 1000]: (offset, length) is not inside the memory of 1048576 bytes"},
				func(op *driver.MaskPrepare) { op.Dst.Off = -256 }},
			{refusal{"Dst", fmt.Sprintf("Dst = [256 %d]: (offset, length) is not inside the memory of 1048576 bytes",
				math.MaxInt64)}, func(op *driver.MaskPrepare) { op.Dst.Off, op.Dst.Len = 256, math.MaxInt64 }},
			{refusal{"Dst.Mem", "Dst.Mem = *kernels.fakeMem: is not memory of the job's device"},
				func(op *driver.MaskPrepare) { op.Dst.Mem = foreign.Slice().Mem }},
			{refusal{"Dst.Mem", "Dst.Mem = <nil>: is not memory of the job's device"},
				func(op *driver.MaskPrepare) { op.Dst.Mem = nil }},
		} {
			op := prepareOp(all)
			c.change(op)
			c.check(t, "MaskPrepare", q.Run(op))
		}
		if f.ops != 0 {
			t.Errorf("%d ops were enqueued", f.ops)
		}
		for _, change := range []func(*driver.MaskPrepare){
			func(*driver.MaskPrepare) {},
			func(op *driver.MaskPrepare) { op.Width, op.Height = driver.MaxSide, 512 },
			func(op *driver.MaskPrepare) { op.Method = driver.RowSpans },
			func(op *driver.MaskPrepare) { op.Regions = driver.MaskRegions{} },
			func(op *driver.MaskPrepare) { op.Regions.Regions[0] = driver.Region{First: 4} },
			func(op *driver.MaskPrepare) {
				op.Regions.Edges[0], op.Regions.Edges[2] = op.Regions.Edges[2], op.Regions.Edges[0]
			},
			func(op *driver.MaskPrepare) {
				for i := range op.Regions.Edges {
					e := &op.Regions.Edges[i]
					for _, v := range []*int32{&e.X0, &e.Y0, &e.X1, &e.Y1} {
						*v = map[int32]int32{256: -driver.MaxCoord, 512: driver.MaxCoord}[*v]
					}
				}
			},
		} {
			op := prepareOp(all)
			change(op)
			if err := q.Run(op); err != nil {
				t.Error(err)
			}
		}
		// The size comes from the backend, and so do its errors.
		f.needed = func(driver.MaskRegions) (int64, error) { return 0, driver.ErrNotSupported }
		if _, err := q.dev.Scratch(prepareOp(all)); !errors.Is(err, driver.ErrNotSupported) {
			t.Error(err)
		}
		f.needed = func(driver.MaskRegions) (int64, error) { return 12345, nil }
		if n, err := q.dev.Scratch(&driver.MaskPrepare{Regions: square(), Width: 10, Height: 10,
			Method: driver.Tiled}); n != 12345 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		_, err := q.dev.Scratch(&driver.MaskPrepare{Regions: square(), Width: 10, Height: -10, Method: driver.Tiled})
		refusal{"Height", "Height = -10: must be 1 to 1048576"}.check(t, "MaskPrepare", err)
	})
}

func TestMaskReduceChecks(t *testing.T) {
	f := &fakeDriver{}
	maskJob(t, f, func(q *Queue, all driver.Slice) {
		for _, c := range []struct {
			refusal
			change func(*driver.MaskReduce)
		}{
			{refusal{"Frame.Format", "Frame.Format = GRAY16LE with 7 bits: is no known pixel format"},
				func(op *driver.MaskReduce) { op.Frame.Format.Bits = 7 }},
			{refusal{"Frame.Width", "Frame.Width = 0: must be 1 to 1048576"},
				func(op *driver.MaskReduce) { op.Frame.Width = 0 }},
			{refusal{"Frame.Width", fmt.Sprintf("Frame.Width = %d: must be 1 to 1048576", math.MinInt)},
				func(op *driver.MaskReduce) { op.Frame.Width = math.MinInt }},
			{refusal{"Frame.Height", "Frame.Height = -1: must be 1 to 1048576"},
				func(op *driver.MaskReduce) { op.Frame.Height = -1 }},
			{refusal{"Frame", "Frame = 1048576x1048576: makes more than 536870912 pixels"},
				func(op *driver.MaskReduce) { op.Frame.Width, op.Frame.Height = driver.MaxSide, driver.MaxSide }},
			{refusal{"Frame.Stride", "Frame.Stride = 198: is less than a row of 200 bytes"},
				func(op *driver.MaskReduce) { op.Frame.Stride = 198 }},
			{refusal{"Frame.Stride", "Frame.Stride = -230: is less than a row of 200 bytes"},
				func(op *driver.MaskReduce) { op.Frame.Stride = -230 }},
			{refusal{"Frame.Stride", "Frame.Stride = 231: must be even for 16-bit samples"},
				func(op *driver.MaskReduce) { op.Frame.Stride = 231 }},
			{refusal{"Frame.Stride",
				"Frame.Stride = 4611686018427387904: makes more than 1152921504606846976 bytes of 50 rows"},
				func(op *driver.MaskReduce) { op.Frame.Stride = 1 << 62 }},
			{refusal{"Frame.Data.Off", "Frame.Data.Off = 1025: must be a multiple of 2"},
				func(op *driver.MaskReduce) { op.Frame.Data.Off++ }},
			{refusal{"Frame.Data", "Frame.Data = 11469: is less than the 11470 bytes needed"},
				func(op *driver.MaskReduce) { op.Frame.Data.Len-- }},
			{refusal{"Frame.Data",
				fmt.Sprintf("Frame.Data = [1024 %d]: (offset, length) is not inside the memory of 1048576 bytes",
					math.MaxInt64)}, func(op *driver.MaskReduce) { op.Frame.Data.Len = math.MaxInt64 }},
			{refusal{"Frame.Data",
				"Frame.Data = [1048576 11470]: (offset, length) is not inside the memory of 1048576 bytes"},
				func(op *driver.MaskReduce) { op.Frame.Data.Off = 1 << 20 }},
			{refusal{"Row0", "Row0 = -1: puts the strip outside of what an image can be"},
				func(op *driver.MaskReduce) { op.Row0 = -1 }},
			{refusal{"Row0", "Row0 = 1048527: puts the strip outside of what an image can be"},
				func(op *driver.MaskReduce) { op.Row0 = driver.MaxSide - 49 }},
			{refusal{"Row0", fmt.Sprintf("Row0 = %d: puts the strip outside of what an image can be", math.MaxInt)},
				func(op *driver.MaskReduce) { op.Row0 = math.MaxInt }},
			{refusal{"Row0", "Row0 = 1000000: puts the strip outside of what an image can be"},
				func(op *driver.MaskReduce) {
					op.Row0, op.Frame.Width, op.Frame.Height, op.Frame.Stride = 1000000, 1000, 1, 2000
				}},
			{refusal{"First, Count", "First, Count = [-1 2]: must not be negative, nor end beyond 2147483647"},
				func(op *driver.MaskReduce) { op.First = -1 }},
			{refusal{"First, Count", "First, Count = [0 -2]: must not be negative, nor end beyond 2147483647"},
				func(op *driver.MaskReduce) { op.Count = -2 }},
			{refusal{"First, Count",
				fmt.Sprintf("First, Count = [%d %d]: must not be negative, nor end beyond 2147483647", math.MaxInt,
					math.MaxInt)}, func(op *driver.MaskReduce) { op.First, op.Count = math.MaxInt, math.MaxInt }},
			{refusal{"First, Count",
				"First, Count = [0 1152921504606846976]: must not be negative, nor end beyond 2147483647"},
				func(op *driver.MaskReduce) {
					// 80 times that is 0 in 64 bits
					op.Count, op.Stats, op.What, op.Hist = 1<<60, driver.Slice{}, 0, driver.Slice{}
				}},
			{refusal{"What", "What = 0x10: has bits beyond 0xf"}, func(op *driver.MaskReduce) { op.What = 16 }},
			{refusal{"Stats", "Stats = 240: must be 160 bytes"}, func(op *driver.MaskReduce) { op.Stats.Len = 240 }},
			{refusal{"Stats", "Stats = 160: must be 80 bytes"}, func(op *driver.MaskReduce) { op.Count = 1 }},
			{refusal{"Hist", "Hist = 0: must be 32768 bytes"},
				func(op *driver.MaskReduce) { op.Hist = driver.Slice{} }},
			{refusal{"Hist", "Hist = 32768: must be 0 bytes"},
				func(op *driver.MaskReduce) { op.What = driver.MaskMoments }},
			{refusal{"Hist", "Hist = 32768: must be 131072 bytes"},
				func(op *driver.MaskReduce) { op.Frame.Format.Bits = 14 }},
			{refusal{"Prepared.Off", "Prepared.Off = 8: must be a multiple of 256"},
				func(op *driver.MaskReduce) { op.Prepared.Off += 8 }},
			{refusal{"Stats.Off", "Stats.Off = 65552: must be a multiple of 256"},
				func(op *driver.MaskReduce) { op.Stats.Off += 16 }},
			{refusal{"Hist.Off", "Hist.Off = 131076: must be a multiple of 256"},
				func(op *driver.MaskReduce) { op.Hist.Off += 4 }},
			{refusal{"Stats.Mem", "Stats.Mem = <nil>: is not memory of the job's device"},
				func(op *driver.MaskReduce) { op.Stats.Mem = nil }},
			{refusal{"Prepared", "Prepared = [0 -1]: (offset, length) is not inside the memory of 1048576 bytes"},
				func(op *driver.MaskReduce) { op.Prepared.Len = -1 }},
			// the first of several
			{refusal{"Stats.Mem", "Stats.Mem = <nil>: is not memory of the job's device"},
				func(op *driver.MaskReduce) { op.Stats.Mem, op.Hist.Off = nil, 1 }},
		} {
			op := reduceOp(all)
			c.change(op)
			c.check(t, "MaskReduce", q.Run(op))
		}
		if f.ops != 0 {
			t.Errorf("%d ops were enqueued", f.ops)
		}
		for _, change := range []func(*driver.MaskReduce){
			func(*driver.MaskReduce) {},
			func(op *driver.MaskReduce) { op.What, op.Hist = 0, driver.Slice{} },
			func(op *driver.MaskReduce) { op.Row0 = 12345 },
			func(op *driver.MaskReduce) { op.Count, op.Stats, op.Hist = 0, driver.Slice{}, driver.Slice{} },
			func(op *driver.MaskReduce) { op.First = 1 << 30 }, // which only the backend knows
			func(op *driver.MaskReduce) {
				op.Frame = driver.Image{Data: part(all, 3, 1), Width: 1, Height: 1, Stride: math.MaxInt,
					Format: driver.Gray8}
				op.Hist.Len = 2 * 256 * 4
			},
		} {
			op := reduceOp(all)
			change(op)
			if err := q.Run(op); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestMaskRasterChecks(t *testing.T) {
	f := &fakeDriver{}
	maskJob(t, f, func(q *Queue, all driver.Slice) {
		for _, c := range []struct {
			refusal
			change func(*driver.MaskRaster)
		}{
			{refusal{"Dst.Height", "Dst.Height = 0: must be 1 to 1048576"},
				func(op *driver.MaskRaster) { op.Dst.Height = 0 }},
			{refusal{"Dst.Data", "Dst.Data = 9999: is less than the 10000 bytes needed"},
				func(op *driver.MaskRaster) { op.Dst.Data.Len = 9999 }},
			{refusal{"Dst.Stride", "Dst.Stride = 100: is less than a row of 200 bytes"},
				func(op *driver.MaskRaster) { op.Dst.Stride = 100 }},
			{refusal{"Mode", "Mode = 2: is no raster mode"}, func(op *driver.MaskRaster) { op.Mode = 2 }},
			{refusal{"Dst.Format", "Dst.Format = GRAY16LE with 16 bits: must be GRAY8"},
				func(op *driver.MaskRaster) { op.Mode = driver.RasterMask }},
			{refusal{"Dst.Format", "Dst.Format = GRAY16LE with 12 bits: must be GRAY16LE with 16 bits"},
				func(op *driver.MaskRaster) { op.Dst.Format.Bits = 12 }},
			{refusal{"First, Count", "First, Count = [0 -1]: must not be negative, nor end beyond 2147483647"},
				func(op *driver.MaskRaster) { op.Count = -1 }},
			{refusal{"First, Count", "First, Count = [0 65536]: end beyond the 65535 labels that 16 bits hold"},
				func(op *driver.MaskRaster) { op.Count = 65536 }},
			{refusal{"First, Count", "First, Count = [65534 2]: end beyond the 65535 labels that 16 bits hold"},
				func(op *driver.MaskRaster) { op.First = 65534 }},
			{refusal{"Prepared.Off", "Prepared.Off = 1: must be a multiple of 256"},
				func(op *driver.MaskRaster) { op.Prepared.Off++ }},
			{refusal{"Dst.Data.Mem", "Dst.Data.Mem = <nil>: is not memory of the job's device"},
				func(op *driver.MaskRaster) { op.Dst.Data.Mem = nil }},
		} {
			op := rasterOp(all)
			c.change(op)
			c.check(t, "MaskRaster", q.Run(op))
		}
		if f.ops != 0 {
			t.Errorf("%d ops were enqueued", f.ops)
		}
		for _, change := range []func(*driver.MaskRaster){
			func(*driver.MaskRaster) {},
			func(op *driver.MaskRaster) { op.Count = 0 }, // which clears the image
			func(op *driver.MaskRaster) { op.First = 65533 },
			func(op *driver.MaskRaster) {
				op.Mode, op.Dst.Format, op.Count = driver.RasterMask, driver.Gray8, 100000
			},
		} {
			op := rasterOp(all)
			change(op)
			if err := q.Run(op); err != nil {
				t.Error(err)
			}
		}
	})
}

// Copies are checked as ops are.
func TestCopyChecks(t *testing.T) {
	other := openFake(t, &fakeDriver{}, Config{})
	foreign, err := AllocPersistent[byte](other, 10, "foreign")
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Free()
	f := &fakeDriver{}
	maskJob(t, f, func(q *Queue, all driver.Slice) {
		b := Buffer[byte]{part(all, 0, 10), 10}
		refusal{"len(src)", "len(src) = 11: the buffer holds 10"}.check(t, "Upload", Upload(q, b, make([]byte, 11)))
		refusal{"len(src)", "len(src) = 9: the buffer holds 10"}.check(t, "UploadGather",
			UploadGather(q, b, [][]byte{make([]byte, 4), make([]byte, 5)}))
		refusal{"len(dst)", "len(dst) = 0: the buffer holds 10"}.check(t, "Download", Download(q, nil, b))
		const message = "is not memory of the job's device"
		refusal{"dst.Mem", "dst.Mem = *kernels.fakeMem: " + message}.check(t, "Upload",
			Upload(q, foreign.Buffer, make([]byte, 10)))
		refusal{"dst.Mem", "dst.Mem = *kernels.fakeMem: " + message}.check(t, "UploadGather",
			UploadGather(q, foreign.Buffer, [][]byte{make([]byte, 10)}))
		refusal{"src.Mem", "src.Mem = *kernels.fakeMem: " + message}.check(t, "Download",
			Download(q, make([]byte, 10), foreign.Buffer))
		refusal{"Dst.Mem", "Dst.Mem = *kernels.fakeMem: " + message}.check(t, "Fill", Fill(q, foreign.Buffer, 0))
		if f.ops != 0 {
			t.Errorf("%d copies were enqueued", f.ops)
		}
	})
}

func TestClosedRings(t *testing.T) {
	g := seed.New(t, 5, 6)
	for range 2000 {
		var es []driver.Edge
		for range 1 + g.IntN(3) {
			n := 1 + g.IntN(9)
			xs, ys := make([]int32, n), make([]int32, n)
			for i := range n {
				xs[i], ys[i] = g.Int32N(7)-3, g.Int32N(7)-3
			}
			for i := range n {
				j := (i + 1) % n
				es = append(es, driver.Edge{X0: xs[i], Y0: ys[i], X1: xs[j], Y1: ys[j]})
			}
		}
		g.Shuffle(len(es), func(i, j int) { es[i], es[j] = es[j], es[i] })
		closed := func(es []driver.Edge) bool {
			op := driver.MaskPrepare{Width: 1, Height: 1, Regions: driver.MaskRegions{Edges: es,
				Regions: []driver.Region{{Count: uint32(len(es))}}}}
			return driver.Check(&op) == nil
		}
		if !closed(es) {
			t.Fatalf("rings are open: %v", es)
		}
		i := g.IntN(len(es))
		moved := es[i]
		es[i].Y1++
		if closed(es) {
			t.Fatalf("an end moved, and they are closed: %v", es)
		}
		es[i] = moved
		if e := es[i]; (e.X0 != e.X1 || e.Y0 != e.Y1) && closed(append(es[:i:i], es[i+1:]...)) {
			t.Fatalf("without %v they are closed: %v", e, es)
		}
	}
}

// fuzzed draws numbers from fuzzed bytes, among them those at which something is prone to break.
type fuzzed struct{ data []byte }

func (f *fuzzed) byte() int {
	if len(f.data) == 0 {
		return 0
	}
	b := f.data[0]
	f.data = f.data[1:]
	return int(b)
}

// near returns good, or another number.
func (f *fuzzed) near(good int) int {
	special := []int{0, 1, -1, 2, 255, 256, 65535, 65536, driver.MaxSide, driver.MaxSide + 1, driver.MaxPixels, 1 << 30,
		1 << 31, 1 << 32,
		1 << 60, 1 << 61, 1 << 62, math.MaxInt, math.MinInt, math.MaxInt32, math.MinInt32, math.MaxInt / 80,
		math.MaxInt/80 + 1, math.MaxInt - 49}
	switch b := f.byte(); {
	case b < 128:
		return good
	case b < 160:
		return good + f.byte() - 128
	case b < 176:
		return good * f.byte()
	case b < 224:
		return special[f.byte()%len(special)]
	default:
		v := 0
		for range 8 {
			v = v<<8 | f.byte()
		}
		return v
	}
}

func (f *fuzzed) slice(good driver.Slice) driver.Slice {
	good.Off, good.Len = int64(f.near(int(good.Off))), int64(f.near(int(good.Len)))
	if f.byte() == 255 {
		good.Mem = nil
	}
	return good
}

func (f *fuzzed) image(im driver.Image) driver.Image {
	im.Data = f.slice(im.Data)
	im.Width, im.Height, im.Stride = f.near(im.Width), f.near(im.Height), f.near(im.Stride)
	if f.byte() > 128 {
		im.Format = driver.PixelFormat{Channels: uint8(f.byte()), SampleBytes: uint8(f.byte()), Bits: uint8(f.byte()),
			Order: [4]uint8{uint8(f.byte()), uint8(f.byte()), uint8(f.byte()), uint8(f.byte())}}
	} else if f.byte() > 64 {
		im.Format = []driver.PixelFormat{driver.Gray8, driver.RGB8, driver.BGR8, driver.RGBA8, driver.Gray16(12),
			driver.Gray16(16)}[f.byte()%6]
	}
	return im
}

// What the front lets through keeps every promise of package driver, whatever it is given; the fake driver looks.
func FuzzMaskOps(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{1, 200, 17, 200, 18})
	f.Add([]byte{2, 0, 0, 0, 250, 1, 2, 3, 4, 5, 6, 7, 8})
	g := rand.New(rand.NewPCG(1, 1))
	for range 40 {
		b := make([]byte, 10+g.IntN(60))
		for i := range b {
			if g.IntN(3) == 0 {
				b[i] = byte(g.Uint32())
			}
		}
		b[0] = byte(g.Uint32())
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		drv := &fakeDriver{needed: func(driver.MaskRegions) (int64, error) { return 500, nil }}
		maskJob(t, drv, func(q *Queue, all driver.Slice) {
			x := &fuzzed{data}
			var err error
			switch x.byte() % 3 {
			case 0:
				op := prepareOp(all)
				op.Width, op.Height, op.Method, op.Dst = x.near(op.Width), x.near(op.Height), driver.Method(x.near(0)),
					x.slice(op.Dst)
				for i := range op.Regions.Edges {
					e := &op.Regions.Edges[i]
					for _, v := range []*int32{&e.X0, &e.Y0, &e.X1, &e.Y1} {
						*v = int32(x.near(int(*v)))
					}
				}
				for i := range op.Regions.Regions {
					r := &op.Regions.Regions[i]
					r.First, r.Count, r.Fill = uint32(x.near(int(r.First))),
						uint32(x.near(int(r.Count))), driver.FillRule(x.near(int(r.Fill)))
				}
				err = q.Run(op)
			case 1:
				op := reduceOp(all)
				op.Prepared, op.Frame, op.Stats, op.Hist = x.slice(op.Prepared), x.image(op.Frame), x.slice(op.Stats),
					x.slice(op.Hist)
				op.First, op.Count, op.Row0, op.What = x.near(op.First), x.near(op.Count), x.near(op.Row0),
					driver.MaskWhat(x.near(int(op.What)))
				if x.byte() < 128 { // sizes that fit what the rest asks for
					n := int64(op.Count) * int64(op.Frame.Format.Channels)
					op.Stats.Len, op.Hist.Len = n*statsBytes, 0
					if op.What&driver.MaskHistogram != 0 {
						op.Hist.Len = n * int64(op.Frame.Format.Levels()) * 4
					}
				}
				err = q.Run(op)
			case 2:
				op := rasterOp(all)
				op.Prepared, op.Dst = x.slice(op.Prepared), x.image(op.Dst)
				op.First, op.Count, op.Mode = x.near(op.First), x.near(op.Count),
					driver.RasterMode(x.near(int(op.Mode)))
				err = q.Run(op)
			}
			var a *ArgError
			if err != nil && !errors.As(err, &a) {
				t.Errorf("%v", err)
			}
			if err != nil && (strings.ContainsAny(err.Error(), "\n") || len(err.Error()) > 300) {
				t.Errorf("not a line: %q", err)
			}
		})
	})
}

// byRuns makes the first region of an op one of runs.
func byRuns(runs ...driver.Run) func(*driver.MaskPrepare) {
	return func(op *driver.MaskPrepare) {
		op.Regions.Runs = runs
		op.Regions.Regions[0] = driver.Region{Count: uint32(len(runs)), Fill: driver.ByRuns}
	}
}
