package cpu

import (
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// TestLayout fixes the layout of prepared regions; the assembly counts on the size of a span.
func TestLayout(t *testing.T) {
	if headerBytes != 64 || regionBytes != 40 || spanBytes != 12 {
		t.Errorf("header, region and span have %d, %d and %d bytes", headerBytes, regionBytes, spanBytes)
	}
	if n := unsafe.Offsetof(span{}.X1); n != 8 {
		t.Errorf("X1 is at %d", n)
	}
}

func TestPreparedBytes(t *testing.T) {
	if n, err := preparedBytes(3, 5); err != nil || n != 64+3*40+5*12 {
		t.Errorf("%d, %v", n, err)
	}
	many := math.MaxInt // more than 32 bits hold, where int has more
	if many == math.MaxInt32 {
		many = -1
	}
	for _, c := range []struct {
		regions int
		spans   int64
	}{{1, -1}, {1, math.MaxInt64}, {1, math.MaxInt64 / 12}, {many, 0}} {
		if n, err := preparedBytes(c.regions, c.spans); err == nil {
			t.Errorf("%d regions and %d spans have %d bytes", c.regions, c.spans, n)
		}
	}
}

// TestMaskPreparedBytesTight: the bound is no more than what a region can need, for shapes that need the most.
func TestMaskPreparedBytesTight(t *testing.T) {
	f := newFixture(t, 1, 64<<20)
	comb := []point{{0, -256}}
	for x := range int32(50) { // teeth one pixel wide, one apart: half the columns are spans of their own
		comb = append(comb, point{x * 512, 100 * 256}, point{x*512 + 256, 100 * 256}, point{x*512 + 256, -256},
			point{x*512 + 512, -256})
	}
	for name, c := range map[string]struct {
		edges []driver.Edge
		spans int64
	}{
		"nothing":    {nil, 0},
		"outside":    {ring(nil, point{0, -9000}, point{900, -9000}, point{900, -8000}), 0},
		"square":     {ring(nil, point{0, 0}, point{999, 0}, point{999, 2560}, point{0, 2560}), 10},
		"comb":       {ring(nil, comb...), 50 * 100},
		"dense comb": {ring(nil, slices.Concat(comb, comb, comb)...), 50 * 100},
	} {
		f.reset()
		r := one(driver.EvenOdd, c.edges)
		n, err := f.dev.Scratch(&driver.MaskPrepare{Regions: r, Width: 100, Height: 100, Method: driver.RowSpans})
		f.ok(err)
		if want, _ := preparedBytes(1, c.spans); n != want {
			t.Errorf("%s: %d bytes, %d suffice", name, n, want)
		}
		f.prepare(r, 100, 100, driver.RowSpans)
		f.wait()
	}
}

// TestPreparedCorrupt: ops on memory that is no prepared set, or one with arbitrary bytes changed, may fail or not, but
// stay within memory.
func TestPreparedCorrupt(t *testing.T) {
	small(t)
	f := newFixture(t, 2, 8<<20)
	rng := seed.New(t, 2, 3)
	j := randomJob(rng, 40)
	j.image = randomPicture(rng, 40, 40, driver.RGB8)
	j.first, j.count = 0, len(j.regions.Regions)
	prepared := f.prepare(j.regions, 40, 40, driver.RowSpans)
	good := download[byte](f, prepared)
	reduce := driver.MaskReduce{
		Prepared: prepared, Count: j.count, What: 15,
		Frame: driver.Image{Data: f.upload(j.image.data), Width: 40, Height: 40, Stride: j.image.stride,
			Format: driver.RGB8},
	}
	f.outputs(&reduce)
	raster := driver.MaskRaster{Prepared: prepared, Count: j.count,
		Dst: driver.Image{Data: f.slice(1600), Width: 40, Height: 40, Stride: 40, Format: driver.Gray8}}
	guard := f.slice(4096)
	f.ok(f.s.Run(&driver.Fill{Dst: guard, Value: 0x5a}))
	f.wait()
	for i := range cases(20_000) {
		bad := slices.Clone(good)
		for range 1 + rng.IntN(3) {
			at := rng.IntN(len(bad))
			switch rng.IntN(3) {
			case 0:
				bad[at] = byte(rng.Uint32())
			case 1:
				bad[at] ^= 1 << rng.IntN(8)
			case 2:
				for k := at; k < min(at+8, len(bad)); k++ {
					bad[k] = 0xff
				}
			}
		}
		if i%100 == 0 {
			kernelFills["noise"](rng, bad)
		}
		f.ok(f.s.Upload(prepared, [][]byte{bad}))
		f.ok(f.s.Run(&reduce))
		err := f.s.Wait(t.Context())
		if err == nil && i%100 == 0 {
			t.Fatal("noise is taken for prepared regions")
		}
		f.ok(f.s.Upload(prepared, [][]byte{bad}))
		f.ok(f.s.Run(&raster))
		_ = f.s.Wait(t.Context())
		for _, b := range download[byte](f, guard) {
			if b != 0x5a {
				t.Fatal("written past the end")
			}
		}
	}
}

// TestRefusals: each argument that only the backend can judge.
func TestRefusals(t *testing.T) {
	f := newFixture(t, 1, 4<<20)
	r := one(driver.NonZero, ring(nil, point{0, 0}, point{999, 0}, point{999, 999}, point{0, 999}))
	prepared := f.prepare(r, 10, 10, driver.RowSpans)
	reduce := driver.MaskReduce{
		Prepared: prepared, Count: 1, What: 15,
		Frame: driver.Image{Data: f.upload(make([]byte, 100)), Width: 10, Height: 10, Stride: 10, Format: driver.Gray8},
	}
	f.outputs(&reduce)
	raster := driver.MaskRaster{Prepared: prepared, Count: 1,
		Dst: driver.Image{Data: f.slice(100), Width: 10, Height: 10, Stride: 10, Format: driver.Gray8}}
	f.wait()
	check := func(name string, want bool, err error) {
		t.Helper()
		if err == nil {
			err = f.s.Wait(t.Context())
		}
		if (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		} else if err != nil {
			t.Logf("%s: %v", name, err)
		}
	}
	check("reduce", true, f.s.Run(&reduce))
	check("raster", true, f.s.Run(&raster))
	check("unaligned Dst", false,
		devicetest.Enqueue(f.dev, f.s, &driver.MaskPrepare{Regions: r, Width: 10, Height: 10,
			Dst: driver.Slice{Mem: f.mem, Off: 1<<20 + 4, Len: 1000}}))
	check("short Dst", false,
		devicetest.Enqueue(f.dev, f.s, &driver.MaskPrepare{Regions: r, Width: 10, Height: 10,
			Dst: driver.Slice{Mem: f.mem, Off: 1 << 20, Len: 120}}))
	check("no Dst", false, f.s.Run(&driver.MaskPrepare{Regions: r, Width: 10, Height: 10}))
	check("method", false,
		devicetest.Enqueue(f.dev, f.s, &driver.MaskPrepare{Regions: r, Width: 10, Height: 10, Method: 99,
			Dst: driver.Slice{Mem: f.mem, Off: 1 << 20, Len: 1000}}))
	for name, change := range map[string]func(op *driver.MaskReduce){
		"regions":       func(op *driver.MaskReduce) { op.Count = 2 },
		"first":         func(op *driver.MaskReduce) { op.First = math.MaxInt },
		"width":         func(op *driver.MaskReduce) { op.Frame.Width = 9 },
		"height":        func(op *driver.MaskReduce) { op.Frame.Height, op.Frame.Stride = 11, 9 },
		"row":           func(op *driver.MaskReduce) { op.Row0 = 1 },
		"row below 0":   func(op *driver.MaskReduce) { op.Row0 = -1 },
		"stride":        func(op *driver.MaskReduce) { op.Frame.Stride = 9 },
		"wide stride":   func(op *driver.MaskReduce) { op.Frame.Stride = 11 },
		"format":        func(op *driver.MaskReduce) { op.Frame.Format.Bits = 7 },
		"more channels": func(op *driver.MaskReduce) { op.Frame.Format = driver.RGB8 },
		"stats":         func(op *driver.MaskReduce) { op.Stats.Len-- },
		"stats address": func(op *driver.MaskReduce) { op.Stats.Off += 4 },
		"histogram":     func(op *driver.MaskReduce) { op.Hist.Len -= 4 },
		"no histogram":  func(op *driver.MaskReduce) { op.Hist = driver.Slice{} },
		"prepared":      func(op *driver.MaskReduce) { op.Prepared.Len = 70 },
		"not prepared":  func(op *driver.MaskReduce) { op.Prepared.Off += 256 },
	} {
		op := reduce
		change(&op)
		check("reduce, "+name, false, devicetest.Enqueue(f.dev, f.s, &op))
	}
	for name, change := range map[string]func(op *driver.MaskRaster){
		"regions": func(op *driver.MaskRaster) { op.Count = 2 },
		"width":   func(op *driver.MaskRaster) { op.Dst.Width = 9 },
		"height":  func(op *driver.MaskRaster) { op.Dst.Height = 9 },
		"mode":    func(op *driver.MaskRaster) { op.Mode = 9 },
		"format":  func(op *driver.MaskRaster) { op.Mode = driver.RasterLabels },
	} {
		op := raster
		change(&op)
		check("raster, "+name, false, devicetest.Enqueue(f.dev, f.s, &op))
	}
}
