package polygon

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// covered is what exactextract makes of a polygon.
type covered struct {
	Took, Count, Sum, Variance float64 // Took in milliseconds
	X0, Y0, Columns, Rows      int32
	shares                     []float64
}

func (c *covered) share(x, y int) float64 {
	x, y = x-int(c.X0), y-int(c.Y0)
	if x < 0 || y < 0 || x >= int(c.Columns) || y >= int(c.Rows) {
		return 0
	}
	return c.shares[y*int(c.Columns)+x]
}

// exactextract has peers/coverage.sh's program look at regions of simple rings, holes in the other direction.
func exactextract(t *testing.T, program string, f kernels.Picture, repeats int, regions []Region) []covered {
	t.Helper()
	var in, out bytes.Buffer
	put := func(v any) {
		if err := binary.Write(&in, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	put([]int32{int32(f.Width), int32(f.Height), int32(repeats), int32(len(regions))})
	in.Write(f.Data[0])
	for _, r := range regions {
		put(int32(len(r.Rings)))
		for _, ring := range r.Rings {
			put(int32(len(ring)))
			for _, p := range ring {
				put([]float64{float64(quantise(p.X)) / driver.Subpixel, float64(quantise(p.Y)) / driver.Subpixel})
			}
		}
	}
	cmd := exec.Command(program)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	found := make([]covered, len(regions))
	for i := range found {
		c := &found[i]
		get := func(v any) {
			if err := binary.Read(&out, binary.LittleEndian, v); err != nil {
				t.Fatal(err)
			}
		}
		for _, v := range []any{&c.Took, &c.Count, &c.Sum, &c.Variance, &c.X0, &c.Y0, &c.Columns, &c.Rows} {
			get(v)
		}
		c.shares = make([]float64, c.Columns*c.Rows)
		get(c.shares)
	}
	return found
}

// TestCoverageAsExactExtractFindsIt: the shares of pixels that polygons cover are those of exactextract with doubles in
// the place of its floats, before they are rounded, within 1e-9; its count, sum and variance are ours but for that
// rounding. kernels/cpu/peers/coverage.sh runs it, and prints how much longer exactextract takes as it is.
func TestCoverageAsExactExtractFindsIt(t *testing.T) {
	program, doubles := os.Getenv("POLYSCAN_EXACTEXTRACT"), os.Getenv("POLYSCAN_EXACTEXTRACT_DOUBLES")
	if program == "" || doubles == "" {
		t.Skip("kernels/cpu/peers/coverage.sh FOLDER compares, with exactextract's sources in that folder")
	}
	g := rand.New(rand.NewPCG(18, 256))
	ring := func(xy ...float64) (r Ring) {
		for i := 0; i < len(xy); i += 2 {
			r = append(r, Point{xy[i], xy[i+1]})
		}
		return r
	}
	// Cases of exactextract's own tests first: rectangles on and off the grid, a corner that is cut, a pixel that holds
	// all, and a hole.
	small := [][]Ring{
		{ring(0.5, 0.5, 2.5, 0.5, 2.5, 2.5, 0.5, 2.5)}, {ring(0, 0, 3, 0, 3, 3, 0, 3)},
		{ring(0.5, 0.5, 2.5, 0.5, 2.5, 2, 2, 2, 2, 2.5, 0.5, 2.5)}, {ring(1.5, 0.5, 2.5, 1.5, 1.5, 2.5, 0.5, 1.5)},
		{ring(1.25, 1.25, 1.75, 1.25, 1.75, 1.75, 1.25, 1.75)}, {ring(1, 1, 2, 1, 2, 2, 1, 2)},
		{ring(0.5, 0.5, 4.5, 0.5, 4.5, 4.5, 0.5, 4.5), ring(1.5, 1.5, 1.5, 3.5, 3.5, 3.5, 3.5, 1.5)},
	}
	for k := range 400 {
		x, y := 9*g.Float64(), 9*g.Float64()
		rings := []Ring{starRing(g, x, y, 3, 7, 6+g.IntN(9), 1./256)}
		if k%3 == 0 {
			hole := starRing(g, x, y, 0.5, 1, 3+g.IntN(4), 1./256)
			slices.Reverse(hole)
			rings = append(rings, hole)
		}
		small = append(small, rings)
	}
	var regions []Region
	for _, rings := range small {
		regions = append(regions, Region{Rings: rings})
	}
	f := noise(9, 9, driver.Gray8)
	most := 0.0
	for i, c := range exactextract(t, doubles, f, 1, regions) {
		for y := range f.Height {
			for x := range f.Width {
				want, _ := new(big.Rat).Quo(clippedArea(small[i], x, y), big.NewRat(1<<16, 1)).Float64()
				most = max(most, math.Abs(want-c.share(x, y)))
			}
		}
	}
	if fmt.Printf("shares differ by %.2g at most\n", most); most > 1e-9 {
		t.Errorf("shares differ by %g", most)
	}

	frame := noise(2880, 1440, driver.Gray8)
	var hexagons []Region
	for i := range 1000 {
		x, y := 40+float64(i%40)*70+g.Float64(), 30+float64(i/40)*55+g.Float64()
		hexagons = append(hexagons, Region{Rings: []Ring{starRing(g, x, y, 30, 32, 6, 1./256)}})
	}
	dev, err := kernels.Open(cpu.New(cpu.Options{Threads: 1}), kernels.Config{MemoryBytes: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for what, regions := range map[string][]Region{
		"one polygon of 126 vertices": {{Rings: []Ring{starRing(g, 1440, 720, 300, 700, 126, 1./256)}}},
		"1000 of 6 vertices":          hexagons,
	} {
		theirs, ours := 0.0, math.MaxFloat64
		found := exactextract(t, program, frame, 5, regions)
		for _, c := range found {
			theirs += c.Took
		}
		for range 50 { // as a rule others use the machine, too, and a call takes longer than a polygon
			set, err := NewSet(regions, Bounds{}) // which keeps nothing of the one before
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			res, err := Reduce(t.Context(), dev, set, frame, Reductions{Covered: &CoveredSpec{}}, 0)
			ours = min(ours, float64(time.Since(begun))/1e6)
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range found {
				r := &res.Regions[i]
				v := r.Channels[0].Covered
				off := float64(r.Count)*0.5/(1<<16) + 1e-6*c.Count // by the rounding of ours, and by floats
				if math.Abs(r.CoveredCount-c.Count) > off || math.Abs(v.Sum-c.Sum) > 255*off ||
					math.Abs(v.Variance-c.Variance) > 1e-3*c.Variance {
					t.Fatalf("%s, region %d: %v pixels, sum %v, variance %v; exactextract has %+v", what, i, r.CoveredCount,
						v.Sum, v.Variance, c.Count)
				}
			}
		}
		fmt.Printf("%s in 2880x1440: polyscan %.3f ms, exactextract %.3f ms: %.1f times as long\n", what, ours, theirs,
			theirs/ours)
	}
}
