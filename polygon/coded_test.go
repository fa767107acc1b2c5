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

// A frame of Bayer is a strip that is a part: it has the numbers of the frame. Where lines were lost it comes in more
// strips, of which each is what it would be as a frame, with the phase of its first line.
func TestScanBayer(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	g := seed.New(t, 47, 53)
	for i, s := range devicetest.Shots(13, 0) {
		if s.Coding.Kind != kernels.Bayer || testing.Short() && i%7 != 0 {
			continue
		}
		coded, _, beyond := shotPicture(&s)
		w, y0, y1 := float64(s.Width), float64(g.IntN(2)), float64(s.Height)
		if s.Height > 3 {
			y1 -= float64(g.IntN(2))
		}
		set := mustSet(t, Region{Rings: []Ring{rectangle(0, y0, w, y1-y0)}},
			Region{Rings: []Ring{{{X: 0, Y: y0}, {X: w, Y: y0 + 1}, {X: 1, Y: y1}}}})
		r := Reductions{Statistics: Basic | Histogram}
		scan, err := set.NewScanner(t.Context(), dev, ScanConfig{Width: s.Width, Format: coded.Format,
			Coding: coded.Coding, PartLines: s.Height, WholeParts: true, Reductions: r,
			StripBytes: g.IntN(2) * s.Height * s.Stride})
		if err != nil {
			t.Fatal(err)
		}
		rows := func(from, to int) kernels.Picture {
			p := coded
			p.Height, p.Data = to-from, [][]byte{s.Bytes[from*s.Stride:][:(to-from-1)*s.Stride+coded.RowSize()]}
			return p
		}
		strips := func(number, line uint64, at ...int) *ScannedPart {
			t.Helper()
			if err := scan.Start(number, line); err != nil {
				t.Fatal(err)
			}
			var parts []*ScannedPart
			for k := 0; k < len(at); k += 2 {
				done, err := scan.Strip(t.Context(), ScanStrip{FirstLine: line + uint64(at[k]),
					Frame: rows(at[k], at[k+1])})
				if err != nil {
					t.Fatalf("%s: %v", s.Name, err)
				}
				parts = append(parts, done...)
			}
			done, err := scan.Settle(t.Context(), line+uint64(s.Height))
			if parts = append(parts, done...); err != nil || len(parts) != 1 {
				t.Fatalf("%s: %v, %v", s.Name, parts, err)
			}
			return parts[0]
		}
		whole := strips(0, 11, 0, s.Height)
		want, err := Reduce(t.Context(), dev, set, coded, r, MethodDefault)
		switch {
		case beyond:
			if whole.Err == nil || !strings.Contains(whole.Err.Error(), "samples of rows") {
				t.Errorf("%s: %v", s.Name, whole.Err)
			}
		case err != nil || whole.Err != nil || !reflect.DeepEqual(untimed(whole.Result), untimed(want)):
			t.Errorf("%s: %v %+v, want %v %+v", s.Name, whole.Err, whole.Result, err, want)
		}
		if a := 2 + g.IntN(4); a+3 <= s.Height && !beyond {
			part := strips(1, 11+uint64(s.Height), 0, a, a+1, s.Height)
			sum := uint64(0)
			for _, from := range []int{0, a + 1} {
				end := a
				if from > 0 {
					end = s.Height
				}
				piece := rows(from, end)
				piece.Coding.Phase ^= uint8(from&1) << 1
				top := max(y0, float64(from))
				all := mustSet(t, Region{Rings: []Ring{rectangle(0, top-float64(from), w, min(y1, float64(end))-top)}})
				one, err := Reduce(t.Context(), dev, all, piece, r, MethodDefault)
				if err != nil {
					t.Fatal(err)
				}
				sum += one.Regions[0].Channels[0].Sum
			}
			if got := part.Result.Regions[0].Channels[0].Sum; got != sum || part.MissingLines != 1 {
				t.Errorf("%s without line %d: red %d, want %d; %d lines are missing", s.Name, a, got, sum,
					part.MissingLines)
			}
		}
		scan.Close()
	}
}

// Strips of Bayer whose colours would depend on others are refused.
func TestScanRefusesBayer(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	set := mustSet(t, Region{Rings: []Ring{rectangle(0, 0, 8, 8)}})
	c := kernels.Coding{Kind: kernels.Bayer, Bits: 8}
	cfg := ScanConfig{Width: 8, Format: c.Format(), Coding: c, PartLines: 10, MaxParts: 2}
	_, err := set.NewScanner(t.Context(), dev, cfg)
	if err == nil || !strings.Contains(err.Error(), "frame.format = BAYER_RG8: is of frames") {
		t.Error(err)
	}
	cfg.WholeParts = true
	scan, err := set.NewScanner(t.Context(), dev, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer scan.Close()
	for number, line := range []uint64{0, 12} {
		if err := scan.Start(uint64(number), line); err != nil {
			t.Fatal(err)
		}
	}
	strip := func(first uint64, lines int) error {
		_, err := scan.Strip(t.Context(), ScanStrip{FirstLine: first, Frame: kernels.Picture{Width: 8, Height: lines,
			Format: cfg.Format, Coding: c, Data: [][]byte{make([]byte, 8*lines)}}})
		return err
	}
	if err := strip(2, 4); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		first uint64
		lines int
		want  string
	}{
		{6, 4, "beside those of another strip"}, {0, 2, "beside those of another strip"}, {4, 4, "have come before"},
		{8, 4, "of one part"}, {8, 6, "of one part"}, {11, 11, "of one part"}, {8, 1, "must be at least 2"},
	} {
		if err := strip(tc.first, tc.lines); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("lines %d to %d: %v", tc.first, int(tc.first)+tc.lines-1, err)
		}
	}
	if err := strip(7, 3); err != nil { // line 6 may have been lost
		t.Error(err)
	}
}
