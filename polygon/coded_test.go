package polygon

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
)

// shotPicture is a frame as a camera sends it, and what it becomes by the definition.
func shotPicture(s *devicetest.Shot) (coded, plain kernels.Picture, beyond bool) {
	coded = kernels.Picture{Width: s.Width, Height: s.Height, Stride: s.Stride, Format: s.Coding.Format(),
		Coding: s.Coding, Data: [][]byte{s.Bytes}}
	p, n := s.Develop(0, s.Height)
	return coded, kernels.Picture{Width: s.Width, Height: s.Height, Format: p.Format, Data: [][]byte{p.Pixels}}, n > 0
}

// A frame as a camera sends it has the numbers of what it becomes, from the host and prepared.
func TestReduceCoded(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	g := seed.New(t, 41, 43)
	for i, s := range devicetest.Shots(7, 3) {
		if i%4 != 0 && testing.Short() {
			continue
		}
		coded, plain, beyond := shotPicture(&s)
		y := float64(g.IntN(s.Height))
		set := mustSet(t, Region{Rings: []Ring{rectangle(0, y, float64(s.Width), min(y+5, float64(s.Height)))}},
			Region{Rings: []Ring{rectangle(1, y, 3, y+1)}, Limits: []string{"mean >= 1"}})
		r := Reductions{Statistics: Basic | Histogram | Centroid}
		want, err := Reduce(t.Context(), dev, set, plain, r, MethodDefault)
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		got, err := Reduce(t.Context(), dev, set, coded, r, MethodDefault)
		if beyond {
			if err != nil && !strings.Contains(err.Error(), "frame.data") {
				t.Errorf("%s: %v", s.Name, err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(untimed(got), untimed(want)) {
			t.Errorf("%s: %v\n%+v, want\n%+v", s.Name, err, got, want)
		}
		p, err := set.Prepare(t.Context(), dev, s.Width, s.Height, MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		if got, err = p.Reduce(t.Context(), coded, r); err != nil || !reflect.DeepEqual(untimed(got), untimed(want)) {
			t.Errorf("%s, prepared: %v", s.Name, err)
		}
		p.Close()
	}
}

// Strips of a line camera that packs its pixels, or sends YUV, give what the whole part does, with memory that is kept
// for strips and without.
func TestScanCoded(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	for _, s := range devicetest.Shots(11, 0) {
		if s.Coding.Kind == kernels.Bayer {
			continue
		}
		coded, _, _ := shotPicture(&s)
		set := mustSet(t, Region{Rings: []Ring{rectangle(0, 0, float64(s.Width), float64(s.Height))}},
			Region{Rings: []Ring{{{X: 0, Y: 0}, {X: float64(s.Width), Y: 1}, {X: 1, Y: float64(s.Height)}}}})
		r := Reductions{Statistics: Basic | Histogram}
		want, err := Reduce(t.Context(), dev, set, coded, r, MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		for _, kept := range []int{0, 2 * s.Stride, s.Height * s.Stride} {
			scan, err := set.NewScanner(t.Context(), dev, ScanConfig{Width: s.Width, Format: coded.Format,
				Coding: coded.Coding, PartLines: s.Height, Reductions: r, StripBytes: kept})
			if err != nil {
				t.Fatal(err)
			}
			if err := scan.Start(0, 10); err != nil {
				t.Fatal(err)
			}
			g := rand.New(rand.NewPCG(1, uint64(kept)))
			var parts []*ScannedPart
			for y := 0; y < s.Height; {
				n := min(1+g.IntN(4), s.Height-y)
				strip := coded
				strip.Height, strip.Data = n, [][]byte{s.Bytes[y*s.Stride:][:(n-1)*s.Stride+coded.RowSize()]}
				done, err := scan.Strip(t.Context(), ScanStrip{FirstLine: uint64(10 + y), Frame: strip})
				if err != nil {
					t.Fatalf("%s: %v", s.Name, err)
				}
				parts = append(parts, done...)
				y += n
			}
			if len(parts) != 1 || parts[0].Err != nil || !reflect.DeepEqual(untimed(parts[0].Result), untimed(want)) {
				t.Errorf("%s, %d bytes kept: %+v, want %+v", s.Name, kept, parts, want)
			}
			scan.Close()
		}
	}
}

func TestScanRefusesBayer(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	set := mustSet(t, Region{Rings: []Ring{rectangle(0, 0, 8, 8)}})
	c := kernels.Coding{Kind: kernels.Bayer, Bits: 8}
	_, err := set.NewScanner(t.Context(), dev, ScanConfig{Width: 8, Format: c.Format(), Coding: c, PartLines: 10})
	if err == nil || !strings.Contains(err.Error(), "frame.format = BAYER_RG8: is of cameras that see areas") {
		t.Error(err)
	}
}
