package cpu

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// TestCountPairs compares the loops over many pairs at a time with the definition, by each set of instructions, for
// lengths around their steps and the most levels that there are.
func TestCountPairs(t *testing.T) {
	best := simd
	defer func() { simd = best }()
	for simd = levelGo; simd <= best; simd++ {
		countsPairs(t)
	}
}

func countsPairs(t *testing.T) {
	rng := seed.New(t, 3, 7)
	for _, levels := range []int{driver.MinPairLevels, 3, 64, 255, driver.MaxPairLevels} {
		for _, n := range []int{0, 1, 2, 3, 4, 5, 7, 8, 31, 32, 33, 1000, pairRun} {
			first, second := make([]byte, n), make([]byte, n+3)
			for i := range second {
				second[i] = byte(rng.IntN(levels))
			}
			for i := range first {
				first[i] = byte(levels - 1 - rng.IntN(levels)*rng.IntN(2))
			}
			tables := make([]uint16, pairTables*levels*levels)
			countPairs(tables, first, second, levels, 0)
			got, want := make([]uint32, levels*levels), make([]uint32, levels*levels)
			for i := range first {
				want[int(first[i])*levels+int(second[i])]++
			}
			addTables(got, tables)
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("%d levels, %d pairs: level %d to %d was counted %d times, not %d", levels, n, i/levels, i%levels,
						got[i], want[i])
				}
			}
			for i, v := range tables {
				if v != 0 {
					t.Fatalf("counter %d is left at %d", i, v)
				}
			}
		}
	}
}

// TestCountShiftedPairs: levels that are the upper bits of samples.
func TestCountShiftedPairs(t *testing.T) {
	best := simd
	defer func() { simd = best }()
	for simd = levelGo; simd <= best; simd++ {
		countsShiftedPairs(t)
	}
}

func countsShiftedPairs(t *testing.T) {
	rng := seed.New(t, 5, 7)
	for shift := range uint(8) {
		levels := 256 >> shift
		first, second := make([]byte, 43), make([]byte, 43)
		want := make([]uint32, levels*levels)
		for i := range first {
			first[i], second[i] = byte(rng.Uint32()), byte(rng.Uint32())
			want[int(first[i]>>shift)*levels+int(second[i]>>shift)]++
		}
		tables, got := make([]uint16, pairTables*levels*levels), make([]uint32, levels*levels)
		countPairs(tables, first, second, levels, shift)
		addTables(got, tables)
		if !slices.Equal(got, want) {
			t.Errorf("shifted by %d: other counts", shift)
		}
	}
}

// TestEqualPairs: more pairs of one cell than its counters of 16 bits hold, in rows and in a single long one.
func TestEqualPairs(t *testing.T) {
	best := simd
	defer func() { simd = best }()
	for simd = levelGo; simd <= best; simd++ {
		for _, size := range [][2]int{{1024, 1024}, {1 << 19, 2}} {
			f := newFixture(t, 1, 64<<20)
			op := cooccurrenceOf(f, make([]byte, size[0]*size[1]), size[0], size[1])
			f.ok(f.s.Run(op))
			f.wait()
			got := download[uint32](f, op.Counts)
			for k, o := range op.Offsets {
				want := uint32((size[0] - int(max(o.DX, -o.DX))) * (size[1] - int(o.DY)))
				if n := got[k*64*64]; n != want {
					t.Errorf("%v, %v, %v: %d pairs, want %d", simd, size, o, n, want)
				}
			}
		}
	}
}

// TestMeet compares runs of columns with a test of each column.
func TestMeet(t *testing.T) {
	rng := seed.New(t, 4, 7)
	const width = 40
	draw := func() (row [width]bool, spans []span) {
		for x := range row {
			row[x] = rng.IntN(3) > 0
		}
		for x := 0; x < width; x++ {
			if row[x] {
				from := x
				for x < width && row[x] {
					x++
				}
				spans = append(spans, span{X0: int32(from), X1: int32(x)})
			}
		}
		return row, spans
	}
	for range 2000 {
		a, spans := draw()
		b, others := draw()
		dx := rng.IntN(2*width+9) - width - 4
		var got, want [width]bool
		n := meet(spans, others, int32(dx), func(from, to int32) {
			for x := from; x < to; x++ {
				if got[x] {
					t.Fatalf("column %d comes twice", x)
				}
				got[x] = true
			}
		})
		count := 0
		for x := range want {
			if want[x] = a[x] && x+dx >= 0 && x+dx < width && b[x+dx]; want[x] {
				count++
			}
		}
		if got != want || n != count {
			t.Fatalf("%v and %v, %d further right: %v, want %v; %d of %d", spans, others, dx, got, want, n, count)
		}
	}
}

// TestCorruptSpansOfPairs: spans that lie outside of the image are an error, and leave the counters of workers zero.
func TestCorruptSpansOfPairs(t *testing.T) {
	f := newFixture(t, 1, 1<<20)
	regions := one(driver.NonZero, ring(nil, point{256, 256}, point{9 * 256, 256}, point{9 * 256, 9 * 256}, point{256, 9 * 256}))
	op := driver.MaskCooccurrence{Count: 1, ToRow: 10, Levels: 4, Offsets: []driver.PixelOffset{{DX: 1}},
		Frame: driver.Image{Data: f.upload(make([]byte, 100)), Width: 10, Height: 10, Stride: 10, Format: driver.Gray8}}
	op.Counts = f.upload(make([]byte, 4*16))
	op.Prepared = f.prepare(regions, 10, 10, driver.RowSpans)
	f.wait()
	p, err := openPrepared(view(op.Prepared))
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []span{{Y: 3, X0: 1, X1: 11}, {Y: 3, X0: 0, X1: 9}, {Y: 3, X0: 9, X1: 1}} {
		old := p.spans[2]
		p.spans[2] = wrong
		f.ok(f.s.Run(&op))
		if err := f.s.Wait(t.Context()); err == nil {
			t.Errorf("a span %v: no error", wrong)
		}
		p.spans[2] = old
	}
	f.ok(f.s.Run(&op))
	f.wait()
	if got := viewAs[uint32](op.Counts); got[0] != 7*8 {
		t.Errorf("%d pairs after the errors, want %d", got[0], 7*8)
	}
}

// cooccurrenceOf counts the pairs of four neighbours in 64 levels, in a frame of GRAY8 with one region that covers it.
func cooccurrenceOf(f *fixture, pixels []byte, width, height int) *driver.MaskCooccurrence {
	w, h := int32(width)*driver.Subpixel, int32(height)*driver.Subpixel
	op := &driver.MaskCooccurrence{Count: 1, ToRow: height, Levels: 64,
		Offsets: []driver.PixelOffset{{DX: 1}, {DX: 1, DY: 1}, {DY: 1}, {DX: -1, DY: 1}},
		Frame: driver.Image{Data: f.upload(pixels), Width: width, Height: height, Stride: width,
			Format: driver.Gray8}}
	op.Counts = f.slice(4 * int64(op.CellCount()))
	op.Prepared = f.prepare(one(driver.NonZero, ring(nil, point{0, 0}, point{w, 0}, point{w, h}, point{0, h})), width, height,
		driver.RowSpans)
	f.wait()
	return op
}

func BenchmarkCooccurrence(b *testing.B) {
	f := newFixture(b, 1, 64<<20)
	op := cooccurrenceOf(f, texture(2880*1440), 2880, 1440)
	loop(b, func() {
		f.ok(f.s.Run(op))
		f.wait()
	})
}

// TestCooccurrencePeer is this package's part in peers/cooccurrence.py: it counts the pairs of a frame, of which a file
// has the pixels, writes the counts beside it, and prints the least of a few times in ms.
func TestCooccurrencePeer(t *testing.T) {
	file := os.Getenv("POLYSCAN_COOCCURRENCE")
	if file == "" {
		t.Skip("only for peers/cooccurrence.py")
	}
	pixels, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	width, err := strconv.Atoi(os.Getenv("POLYSCAN_COOCCURRENCE_WIDTH"))
	if err != nil || width < 1 || len(pixels)%width != 0 {
		t.Fatalf("%d bytes of width %d: %v", len(pixels), width, err)
	}
	f := newFixture(t, 1, 256<<20)
	op := cooccurrenceOf(f, pixels, width, len(pixels)/width)
	least := time.Hour
	for range 5 {
		start := time.Now()
		f.ok(f.s.Run(op))
		f.wait()
		least = min(least, time.Since(start))
	}
	if err := os.WriteFile(file+".counts", bytesOf(download[uint32](f, op.Counts)), 0o666); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("polyscan %.3f\n", float64(least)/float64(time.Millisecond))
}
