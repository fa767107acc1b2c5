package polygon

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/kernels"
)

// shaded is a frame of a format, and a field of a row or of a frame, of numbers that come to something.
func shaded(t *testing.T, width, height, rows int, f kernels.PixelFormat, g *rand.Rand) kernels.Picture {
	t.Helper()
	var dark, gain, pixels []byte
	for range width * rows * int(f.Channels) {
		if dark = append(dark, byte(g.IntN(9))); f.SampleBytes == 2 {
			dark = append(dark, byte(g.IntN(2)))
		}
		gain = append(gain, byte(g.Uint32()), byte(48+g.IntN(32)))
	}
	for i := range width * height * f.PixelBytes() {
		if pixels = append(pixels, byte(g.Uint32())); f.SampleBytes == 2 && i%2 == 1 {
			pixels[i] &= 15
		}
	}
	flat, err := kernels.NewFlatField(width, rows, f, 14, dark, gain)
	if err != nil {
		t.Fatal(err)
	}
	return kernels.Picture{Width: width, Height: height, Format: f, Data: [][]byte{pixels}, Flat: flat}
}

// Strips that are corrected by columns have the numbers of the frame that is, with memory that is kept and without; and
// these differ from those of the frame as it is. A field of more rows is refused.
func TestScanCorrects(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	g := rand.New(rand.NewPCG(9, 9))
	for _, f := range []kernels.PixelFormat{kernels.Gray8, kernels.RGB8, kernels.Gray16(12)} {
		frame := shaded(t, 37, 20, 1, f, g)
		row := frame.RowBytes()
		set := mustSet(t, Region{Rings: []Ring{rectangle(0, 0, 37, 20)}}, Region{Rings: []Ring{rectangle(3, 2, 30, 9)}})
		r := Reductions{Statistics: Basic | Histogram}
		want, err := Reduce(t.Context(), dev, set, frame, r, MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		plain := frame
		plain.Flat = nil
		if other, err := Reduce(t.Context(), dev, set, plain, r, MethodDefault); err != nil ||
			reflect.DeepEqual(untimed(other), untimed(want)) {
			t.Errorf("%v: nothing is corrected, %v", f, err)
		}
		for _, kept := range []int{0, 2 * row, 20 * row} {
			scan, err := set.NewScanner(t.Context(), dev, ScanConfig{Width: 37, Format: f, PartLines: 20, Reductions: r,
				StripBytes: kept, Flat: frame.Flat})
			if err != nil {
				t.Fatal(err)
			}
			if err := scan.Start(0, 7); err != nil {
				t.Fatal(err)
			}
			var parts []*ScannedPart
			for y := 0; y < 20; {
				n := min(1+g.IntN(4), 20-y)
				strip := plain
				strip.Height, strip.Data = n, [][]byte{frame.Data[0][y*row:][:n*row]}
				done, err := scan.Strip(t.Context(), ScanStrip{FirstLine: uint64(7 + y), Frame: strip})
				if err != nil {
					t.Fatal(err)
				}
				parts, y = append(parts, done...), y+n
			}
			if len(parts) != 1 || parts[0].Err != nil || !reflect.DeepEqual(untimed(parts[0].Result), untimed(want)) {
				t.Errorf("%v, %d bytes kept: %+v, want %+v", f, kept, parts, want)
			}
			scan.Close()
		}
		whole := shaded(t, 37, 20, 20, f, g)
		_, err = set.NewScanner(t.Context(), dev, ScanConfig{Width: 37, Format: f, PartLines: 20, Flat: whole.Flat})
		if err == nil || !strings.Contains(err.Error(), "flat_field = 20 rows: must have 1 row") {
			t.Errorf("%v", err)
		}
	}
}

// Samples beyond their bits, and saturated ones, are found behind a correction as before it.
func TestCorrectedBeyond(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	flat, err := kernels.NewFlatField(4, 1, kernels.Gray16(12), 14, make([]byte, 8), bytes.Repeat([]byte{0, 32}, 4))
	if err != nil {
		t.Fatal(err)
	}
	frame := kernels.Picture{Width: 4, Height: 1, Format: kernels.Gray16(12), Flat: flat,
		Data: [][]byte{{255, 15, 254, 15, 0, 1, 0, 0}}}
	set := mustSet(t, Region{Rings: []Ring{rectangle(0, 0, 4, 1)}, Limits: []string{"max == 4095", "sum == 6270"}})
	res, err := Reduce(t.Context(), dev, set, frame, Reductions{}, MethodDefault)
	if err != nil || res.Verdict != Pass {
		t.Errorf("%+v, %v", res, err)
	}
	frame.Data = [][]byte{{0, 16, 254, 15, 0, 1, 0, 0}}
	if _, err := Reduce(t.Context(), dev, set, frame, Reductions{}, MethodDefault); err == nil ||
		!strings.Contains(err.Error(), "4096") {
		t.Errorf("%v", err)
	}
}
