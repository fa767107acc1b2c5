package polygon

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// TestSharesOfOthers: the cases of exactextract's own tests whose vertices lie on the grid, and what it expects. Its
// rows go upwards.
func TestSharesOfOthers(t *testing.T) {
	for _, c := range []struct {
		name string
		ring Ring
		want [][]float64 // from the top
	}{
		{"basic", Ring{{0.5, 0.5}, {2.5, 0.5}, {2.5, 2.5}, {0.5, 2.5}},
			[][]float64{{0.25, 0.5, 0.25}, {0.5, 1, 0.5}, {0.25, 0.5, 0.25}}},
		{"diagonals", Ring{{1.5, 0.5}, {2.5, 1.5}, {1.5, 2.5}, {0.5, 1.5}},
			[][]float64{{0, 0.25, 0}, {0.25, 1, 0.25}, {0, 0.25, 0}}},
		{"starting on a boundary", Ring{{1, 1.5}, {1.5, 1.5}, {1.5, 0.5}, {0.5, 0.5}, {0.5, 1.5}},
			[][]float64{{0.25, 0.25}, {0.25, 0.25}}},
		{"bouncing off a boundary", Ring{{0.5, 2.5}, {0.5, 1.5}, {0.5, 1}, {1.5, 1.5}, {1.5, 2.5}}, // a row higher
			[][]float64{{0.25, 0.25}, {0.4375, 0.3125}, {0, 0}}},
		{"following a boundary", Ring{{0.5, 0.5}, {2, 0.5}, {2, 1.5}, {2, 2.5}, {0.5, 2.5}},
			[][]float64{{0.25, 0.5, 0}, {0.5, 1, 0}, {0.25, 0.5, 0}}},
		{"a vertical boundary, upwards", Ring{{3, 0.5}, {3, 2.5}, {0.5, 2.5}, {0.5, 0.5}},
			[][]float64{{0.25, 0.5, 0.5, 0}, {0.5, 1, 1, 0}, {0.25, 0.5, 0.5, 0}}},
		{"a vertical boundary, downwards", Ring{{0.5, 2.5}, {0.5, 0.5}, {3, 0.5}, {3, 2.5}},
			[][]float64{{0.25, 0.5, 0.5, 0}, {0.5, 1, 1, 0}, {0.25, 0.5, 0.5, 0}}},
		{"a vertical boundary at the end", Ring{{3, 2.5}, {3, 0.5}, {0.5, 0.5}, {0.5, 2.5}},
			[][]float64{{0.25, 0.5, 0.5}, {0.5, 1, 1}, {0.25, 0.5, 0.5}}},
		{"a level boundary, to the right", Ring{{0.5, 1}, {2.5, 1}, {2.5, 3.5}, {0.5, 3.5}},
			[][]float64{{0.25, 0.5, 0.25}, {0.5, 1, 0.5}, {0.5, 1, 0.5}, {0, 0, 0}}},
		{"a level boundary, to the left", Ring{{2.5, 3}, {0.5, 3}, {0.5, 3.5}, {0.25, 3.5}, {0.25, 0.5}, {2.5, 0.5}},
			[][]float64{{0.125, 0, 0}, {0.75, 1, 0.5}, {0.75, 1, 0.5}, {0.375, 0.5, 0.25}}},
	} {
		h, w := len(c.want), len(c.want[0])
		for i := range c.ring {
			c.ring[i].Y = float64(h) - c.ring[i].Y
		}
		for _, fill := range []FillRule{NonZero, EvenOdd} {
			got := weightsOf(t, coverSet(t, fill, c.ring), 0, w, h)
			for i, weight := range got {
				if want := c.want[i/w][i%w]; math.Abs(float64(weight)/wholePixel-want) > 1e-9 {
					t.Errorf("%s, %v: pixel (%d, %d) has %d/65536, want %v", c.name, fill, i%w, i/w, weight, want)
				}
			}
		}
	}
}

// oracleCovered weighs the pixels of a region by the oracle's shares.
func oracleCovered(f kernels.Picture, weights []int64, c int) (weight, sum *big.Int, variance float64, hist []int64) {
	weight, sum, squares := new(big.Int), new(big.Int), new(big.Int)
	hist = make([]int64, f.Format.Levels())
	for i, w := range weights {
		v := int64(sample(f, i%f.Width, i/f.Width, c))
		weight.Add(weight, big.NewInt(w))
		sum.Add(sum, big.NewInt(w*v))
		squares.Add(squares, new(big.Int).Mul(big.NewInt(w), big.NewInt(v*v)))
		hist[v] += w
	}
	if weight.Sign() == 0 {
		return weight, sum, math.NaN(), hist
	}
	mean := new(big.Rat).SetFrac(sum, weight)
	v := new(big.Rat).SetFrac(squares, weight)
	return weight, sum, nearest(v.Sub(v, mean.Mul(mean, mean))), hist
}

// coveredCase is a frame and regions, of which one is a mask.
func coveredCase(g *rand.Rand, w, h int) (kernels.Picture, []Region) {
	format := []kernels.PixelFormat{kernels.Gray8, kernels.Gray16(12), kernels.Gray16(16), kernels.RGB8,
		kernels.RGBA8}[g.IntN(5)]
	f := kernels.Picture{Width: w, Height: h, Format: format, Data: [][]byte{make([]byte, w*h*format.PixelBytes())}}
	for i := range f.Data[0] {
		if f.Data[0][i] = byte(g.Uint32()); format.SampleBytes == 2 && format.Bits == 12 && i%2 == 1 {
			f.Data[0][i] &= 15
		}
	}
	regions := []Region{{Name: "mask", Mask: []Run{{Y: 0, X0: 0, X1: 1}}}}
	for k := range 3 {
		var r Ring
		for range 3 + g.IntN(5) {
			r = append(r, Point{float64(w+2)*g.Float64() - 1, float64(h+2)*g.Float64() - 1})
		}
		regions = append(regions, Region{Name: fmt.Sprint(k), Rings: []Ring{r}, Fill: FillRule(g.IntN(2))})
	}
	thin := Ring{{0.1, 0.1}, {float64(w), 0.1}, {float64(w), 0.3}, {0.1, 0.3}} // no pixel's centre
	return f, append(regions, Region{Name: "thin", Rings: []Ring{thin}})
}

// TestCovered compares weighted statistics with those of the oracle's shares, as rows and columns, of sets and of
// prepared ones, and of strips.
func TestCovered(t *testing.T) {
	dev := openCPU(t, kernels.Config{Poison: true})
	n := 60
	if testing.Short() {
		n = 15
	}
	for seed := range uint64(n) {
		g := testseed.New(t, seed, 21)
		w, h := 1+g.IntN(7), 1+g.IntN(6)
		f, regions := coveredCase(g, w, h)
		set := mustSet(t, regions...)
		r := Reductions{Statistics: Count, Covered: &CoveredSpec{Histogram: seed%2 == 0}}
		if seed%4 == 0 {
			r.Histogram = HistogramSpec{Bins: 3, Lower: 10, Upper: 200}
		}
		res, err := Reduce(t.Context(), dev, set, f, r, MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		for i, region := range res.Regions {
			weights := make([]int64, w*h)
			for p := range weights {
				if regions[i].Mask != nil {
					if p == 0 {
						weights[p] = wholePixel
					}
					continue
				}
				weights[p] = nearestWhole(sliverArea(regions[i].Rings, regions[i].Fill, p%w, p/w))
			}
			for c, ch := range region.Channels {
				weight, sum, variance, hist := oracleCovered(f, weights, c)
				v := ch.Covered
				want := CoveredValue{Sum: nearest(new(big.Rat).SetFrac(sum, big.NewInt(wholePixel))), Mean: math.NaN(),
					Variance: variance, StdDev: math.Sqrt(variance), Histogram: v.Histogram}
				if weight.Sign() > 0 {
					want.Mean = nearest(new(big.Rat).SetFrac(sum, weight))
				}
				if count := float64(weight.Int64()) / wholePixel; region.CoveredCount != count {
					t.Fatalf("seed %d, %s: %v pixels are covered, want %v", seed, region.Name, region.CoveredCount,
						count)
				}
				if fmt.Sprint(*v) != fmt.Sprint(want) {
					t.Fatalf("seed %d, %s, %v: %v, want %v", seed, region.Name, ch.Channel, *v, want)
				}
				if (v.Histogram != nil) != r.Covered.Histogram {
					t.Fatalf("seed %d: a histogram, or none", seed)
				}
				if v.Histogram != nil {
					checkCoveredBins(t, v.Histogram, hist, r.Histogram)
				}
			}
		}
		sameCovered(t, dev, set, f, r, res)
	}
}

func checkCoveredBins(t *testing.T, got *CoveredHistogram, hist []int64, spec HistogramSpec) {
	t.Helper()
	want := CoveredHistogram{Lower: spec.Lower, Upper: spec.Upper, Counts: make([]float64, max(spec.Bins, 1))}
	if spec.Bins == 0 {
		want.Upper, want.Counts = float64(len(hist)), make([]float64, len(hist))
	}
	for v, n := range hist {
		at := (float64(v) - want.Lower) / (want.Upper - want.Lower) * float64(len(want.Counts))
		// No edge of these bins is a sample that lies beside it in float64: 10, 73 1/3, 136 2/3, 200.
		switch p := float64(n) / wholePixel; {
		case at < 0:
			want.Below += p
		case at >= float64(len(want.Counts)):
			want.Above += p
		default:
			want.Counts[int(at)] += p
		}
	}
	if !reflect.DeepEqual(*got, want) {
		t.Fatalf("the histogram is %v, want %v", *got, want)
	}
}

// sameCovered compares the rows of res with other ways to the same.
func sameCovered(t *testing.T, dev *kernels.Device, set *Set, f kernels.Picture, r Reductions, res *Result) {
	t.Helper()
	same := func(what string, got *Result, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if a, b := fmt.Sprint(coveredParts(got)), fmt.Sprint(coveredParts(res)); a != b {
			t.Fatalf("%s: %s, want %s", what, a, b)
		}
	}
	columns := r
	columns.Output.Columns = true
	got, err := Reduce(t.Context(), dev, set, f, columns, MethodDefault)
	same("columns", got.AsRows(), err)
	p, err := set.Prepare(t.Context(), dev, f.Width, f.Height, MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 2 {
		got, err = p.Reduce(t.Context(), f, r)
		same("prepared", got, err)
	}
	one := openCPU(t, kernels.Config{Poison: true})
	got, err = Reduce(t.Context(), one, set, f, r, Naive)
	same("another device", got, err)
	s, err := set.NewScanner(t.Context(), dev, ScanConfig{Width: f.Width, Format: f.Format, PartLines: f.Height,
		Reductions: r})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for part := range uint64(2) { // the second finds what the first left
		first := part * uint64(f.Height)
		if err := s.Start(part, first); err != nil {
			t.Fatal(err)
		}
		var parts []*ScannedPart
		row := f.RowBytes()
		for y := range f.Height {
			strip := kernels.Picture{Width: f.Width, Height: 1, Format: f.Format,
				Data: [][]byte{f.Data[0][y*row : (y+1)*row]}}
			done, err := s.Strip(t.Context(), ScanStrip{FirstLine: first + uint64(y), Frame: strip})
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, done...)
		}
		done, err := s.Settle(t.Context(), first+uint64(f.Height))
		if parts = append(parts, done...); err != nil || len(parts) != 1 {
			t.Fatalf("%d parts, error %v", len(parts), err)
		}
		same("strips", parts[0].Result, parts[0].Err)
	}
}

func coveredParts(r *Result) (out []string) {
	for _, g := range r.Regions {
		out = append(out, fmt.Sprint(g.CoveredCount))
		for _, c := range g.Channels {
			v := *c.Covered
			v.Histogram = nil
			out = append(out, fmt.Sprint(v), fmt.Sprint(c.Covered.Histogram))
		}
	}
	return out
}

// TestCoveredLimits: limits on weighted pixels, and where they can't pass.
func TestCoveredLimits(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	f := kernels.Picture{Width: 4, Height: 4, Format: kernels.Gray8,
		Data: [][]byte{slices.Repeat([]byte{0, 100, 100, 0}, 4)}}
	box := func(x0, y0, x1, y1 float64) []Ring { return []Ring{{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}} }
	for _, c := range []struct {
		rings  []Ring
		limit  string
		pass   bool
		reason string
	}{
		{box(0.25, 1, 2, 2), "covered.count in [1.75, 1.75]", true, ""},
		{box(0.25, 1, 2, 2), "covered.sum == 100", true, ""},
		{box(0.5, 1, 2, 2), "gray.covered.mean > 66.7", false, "covered.mean 66.6667 is below 66.7"},
		{box(0.5, 1, 2, 2), "COVERED . stddev in [47.1, 47.2]", true, ""},
		{box(0.5, 1, 2, 2), "covered.variance > 2222", true, ""},
		{box(0.5, 1, 2, 2), "covered.mean - mean in [16.6, 16.7]", true, ""},
		{box(1.1, 1, 1.2, 2), "covered.count > 0", false, noPixel},
		{box(-0.25, 1, 2, 2), "covered.count > 0", false, outsideFrame},
		{box(-0.25, 1, 2, 2), "count > 1", true, ""},
		{box(1, 1, 2, 4.25), "covered.mean > 0", false, outsideFrame},
	} {
		set := mustSet(t, Region{Rings: c.rings, Limits: []string{c.limit}})
		res, err := Reduce(context.Background(), dev, set, f, Reductions{}, MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		l := res.Regions[0].Limits[0]
		if (l.Verdict == Pass) != c.pass || !strings.Contains(l.Reason, c.reason) {
			t.Errorf("%v: %s: %v %v, want %v %q", c.rings, c.limit, l.Verdict, l.Reason, c.pass, c.reason)
		}
		if res.Regions[0].Channels[0].Covered != nil {
			t.Errorf("%s: values that nobody asked for", c.limit)
		}
	}
	scaled, err := NewSetInPieces([]Region{{Rings: box(0, 0, 2.5, 2), Limits: []string{"covered.count == 1.25 mm2"}}},
		&Scale{X: 0.5, Y: 0.5}, Bounds{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := Reduce(context.Background(), dev, scaled, f, Reductions{}, MethodDefault); err != nil ||
		res.Verdict != Pass {
		t.Errorf("in mm²: %v, error %v", res, err)
	}
	for limit, want := range map[string]string{
		"covered > 3":            `expected "." behind covered`,
		"covered.max > 3":        "expected count, sum, mean, variance or stddev",
		"r.covered.count > 3":    "is of the region and has no channel",
		"hue.covered.mean > 3":   "hue is an angle",
		"lab.a.covered.mean > 3": "covered pixels are of the frame's own channels",
		"covered.count >= 0":     "can't fail",
		"covered.mean <= 65535":  "can't fail",
	} {
		_, err := NewSet([]Region{{Rings: box(0, 0, 2, 2), Limits: []string{limit}}}, Bounds{})
		var bad *kernels.InvalidError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", limit, err, want)
		}
	}
}

// TestCoveredInconsistent: sums that can't be are the device's mistake.
func TestCoveredInconsistent(t *testing.T) {
	s := &scratch{}
	d := &deriver{plan: &plan{channels: []Channel{Gray}, own: 1}}
	m := driver.MaskStats{Count: 2, Sum: 10, SumSq: 50}
	for want, w := range map[string]driver.WeightSums{
		"":                 {},
		"weights of":       {Weight: -3 * wholePixel},
		"weights of -":     {Weight: -2*wholePixel - 1},
		"sum to -":         {Sum: -11 * wholePixel},
		"weights of 0/":    {Weight: -2 * wholePixel},
		"weighted squares": {SqLow: -1},
	} {
		err := d.coveredOf(s, 0, 0, &m, weights{sums: &w}, counts{})
		if (err == nil) != (want == "") || err != nil && (!errors.Is(err, ErrInconsistent) ||
			!strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: error %v, want %q", w, err, want)
		}
	}
}

// TestCoverBounds: what takes too long, or too much memory, is an error that says where.
func TestCoverBounds(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	g := testseed.New(t, 3, 21)
	var r Ring // crosses itself in nearly every pixel
	for range 3000 {
		r = append(r, Point{300 * g.Float64(), 300 * g.Float64()})
	}
	f := kernels.Picture{Width: 300, Height: 300, Format: kernels.Gray8, Data: [][]byte{make([]byte, 300*300)}}
	set := mustSet(t, Region{Name: "tangle", Rings: []Ring{r}})
	_, err := Reduce(t.Context(), dev, set, f, Reductions{Covered: &CoveredSpec{}}, MethodDefault)
	var bad *kernels.InvalidError
	if !errors.As(err, &bad) || !strings.Contains(err.Error(), "take too long") ||
		!strings.Contains(err.Error(), "tangle") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Reduce(ctx, dev, set, f, Reductions{Covered: &CoveredSpec{}}, MethodDefault); !errors.Is(err,
		context.Canceled) {
		t.Errorf("error %v after the context ended", err)
	}
}

// TestCoverBytes: what is counted for coverage is at least what it takes, and nothing where nobody asks for it.
func TestCoverBytes(t *testing.T) {
	g := testseed.New(t, 5, 21)
	for range 20 {
		set := mustSet(t, Region{Rings: []Ring{starRing(g, 30, 20, 5, 60, 12, 1./256)}})
		asked := Reductions{Covered: &CoveredSpec{}}
		c, err := set.cover(t.Context(), onHostNow, allOf(set), 64, 48)
		if err != nil {
			t.Fatal(err)
		}
		if n := set.CoverBytes(asked, 64, 48); n < int64(8*cap(c.pixels)) {
			t.Errorf("%d bytes are counted of %d", n, 8*cap(c.pixels))
		}
		if n := set.CoverBytes(Reductions{}, 64, 48); n != 0 {
			t.Errorf("%d bytes of what nobody asked for", n)
		}
	}
}
