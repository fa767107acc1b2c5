package cpu

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// TestPairs8 compares the sums of runs of bytes with the definition, by each set of instructions, for lengths around
// their steps, and of the greatest bytes for so many that sums of 32 bits would run over.
func TestPairs8(t *testing.T) {
	best := simd
	defer func() { simd = best }()
	rng := seed.New(t, 9, 7)
	for simd = levelGo; simd <= best; simd++ {
		for _, n := range []int{0, 1, 2, 31, 32, 33, 63, 64, 65, 1000, pairs8Most, 2*pairs8Most + 7} {
			first, second := make([]byte, n), make([]byte, n)
			for i := range first {
				first[i], second[i] = byte(rng.Uint32()), byte(rng.Uint32())
				if n > 1000 {
					first[i], second[i] = 255, 255
				}
			}
			got, want := driver.PairSums{A: 1, B: 2, SqA: 3, SqB: 4, Product: 5},
				driver.PairSums{A: 1, B: 2, SqA: 3, SqB: 4, Product: 5}
			addPairs8(&got, first, second)
			for i := range first {
				a, b := uint64(first[i]), uint64(second[i])
				want.A, want.B = want.A+a, want.B+b
				want.SqA, want.SqB, want.Product = want.SqA+a*a, want.SqB+b*b, want.Product+a*b
			}
			if got != want {
				t.Errorf("%v, %d pairs: %+v, want %+v", simd, n, got, want)
			}
		}
	}
}

// TestCorruptSpansOfCorrelations: spans that lie outside of the image are an error.
func TestCorruptSpansOfCorrelations(t *testing.T) {
	f := newFixture(t, 1, 1<<20)
	op := correlateOf(f, make([]byte, 100), 10, 10, driver.Lag{DX: 1})
	p, err := openPrepared(view(op.Prepared))
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []span{{Y: 3, X0: 1, X1: 11}, {Y: 3, X0: -1, X1: 9}, {Y: 3, X0: 9, X1: 1}} {
		old := p.spans[3]
		p.spans[3] = wrong
		f.ok(f.s.Run(op))
		if err := f.s.Wait(t.Context()); err == nil {
			t.Errorf("a span %v: no error", wrong)
		}
		p.spans[3] = old
	}
	f.ok(f.s.Run(op))
	f.wait()
	if got := viewAs[driver.PairSums](op.Sums); got[0].Pairs != 9*10 {
		t.Errorf("%d pairs after the errors, want %d", got[0].Pairs, 9*10)
	}
}

// correlateOf sums up pairs at lags in a frame of GRAY8 with one region that covers it.
func correlateOf(f *fixture, pixels []byte, width, height int, lags ...driver.Lag) *driver.MaskCorrelate {
	w, h := int32(width)*driver.Subpixel, int32(height)*driver.Subpixel
	im := driver.Image{Data: f.upload(pixels), Width: width, Height: height, Stride: width, Format: driver.Gray8}
	op := &driver.MaskCorrelate{Count: 1, ToRow: height, Lags: lags, Slots: len(lags), Series: []driver.ChannelPair{{}},
		Frame: im, Other: im}
	for i := range lags {
		lags[i].Slot = int32(i)
	}
	op.Sums = f.slice(48 * int64(len(lags)))
	op.Prepared = f.prepare(one(driver.NonZero, ring(nil, point{0, 0}, point{w, 0}, point{w, h}, point{0, h})), width,
		height, driver.RowSpans)
	f.wait()
	return op
}

// sixteenLags are neighbours in four directions and those at up to eight pixels.
func sixteenLags() (lags []driver.Lag) {
	for _, n := range []int32{1, 2, 4, 8} {
		lags = append(lags, driver.Lag{DX: n}, driver.Lag{DX: n, DY: n}, driver.Lag{DY: n}, driver.Lag{DX: -n, DY: n})
	}
	return lags
}

func BenchmarkCorrelate(b *testing.B) {
	f := newFixture(b, 1, 64<<20)
	op := correlateOf(f, texture(2880*1440), 2880, 1440, sixteenLags()...)
	loop(b, func() {
		f.ok(f.s.Run(op))
		f.wait()
	})
}

// TestCorrelatePeer is this package's part in peers/correlate.py: it sums up the pairs of a frame, of which a file has
// the pixels, writes the sums beside it, and prints the least of a few times in ms.
func TestCorrelatePeer(t *testing.T) {
	file := os.Getenv("POLYSCAN_CORRELATE")
	if file == "" {
		t.Skip("only for peers/correlate.py")
	}
	pixels, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	width, err := strconv.Atoi(os.Getenv("POLYSCAN_CORRELATE_WIDTH"))
	if err != nil || width < 1 || len(pixels)%width != 0 {
		t.Fatalf("%d bytes of width %d: %v", len(pixels), width, err)
	}
	f := newFixture(t, 1, 256<<20)
	op := correlateOf(f, pixels, width, len(pixels)/width, sixteenLags()...)
	least := time.Hour
	for range 5 {
		start := time.Now()
		f.ok(f.s.Run(op))
		f.wait()
		least = min(least, time.Since(start))
	}
	if err := os.WriteFile(file+".sums", bytesOf(download[driver.PairSums](f, op.Sums)), 0o666); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("polyscan %.3f\n", float64(least)/float64(time.Millisecond))
}
