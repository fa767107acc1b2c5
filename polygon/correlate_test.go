package polygon

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// oracleCorrelation is a value from the definition: of all ordered pairs, in fractions.
func oracleCorrelation(mask []bool, f, other kernels.Picture, channels []Channel, c int, what Correlation) (pairs int64,
	product, covariance, coefficient float64) {
	second, with := f, c
	var lags []Offset
	switch what.Kind {
	case Framed:
		second = other
		lags = []Offset{what.Offset}
	case Lagged:
		lags = []Offset{what.Offset}
	case Crossed:
		with = slices.Index(channels, what.With)
		lags = []Offset{{}}
	case Radial:
		for dy := -what.Radius - 1; dy <= what.Radius+1; dy++ {
			for dx := -what.Radius - 1; dx <= what.Radius+1; dx++ {
				if int(math.Round(math.Hypot(float64(dx), float64(dy)))) == what.Radius {
					lags = append(lags, Offset{dx, dy})
				}
			}
		}
	}
	sums := make([]*big.Rat, 5)
	for i := range sums {
		sums[i] = new(big.Rat)
	}
	for y := range f.Height {
		for x := range f.Width {
			for _, l := range lags {
				x2, y2 := x+l.DX, y+l.DY
				if !mask[y*f.Width+x] || x2 < 0 || y2 < 0 || x2 >= f.Width || y2 >= f.Height || !mask[y2*f.Width+x2] {
					continue
				}
				pairs++
				a, b := int64(sample(f, x, y, c)), int64(sample(second, x2, y2, with))
				for i, v := range []int64{a, b, a * a, b * b, a * b} {
					sums[i].Add(sums[i], ratio(v, 1))
				}
			}
		}
	}
	if pairs == 0 {
		return 0, math.NaN(), math.NaN(), math.NaN()
	}
	mean := make([]*big.Rat, 5)
	for i := range sums {
		mean[i] = new(big.Rat).Quo(sums[i], ratio(pairs, 1))
	}
	less := func(a, b, c *big.Rat) *big.Rat { return new(big.Rat).Sub(a, new(big.Rat).Mul(b, c)) }
	cov, va, vb := less(mean[4], mean[0], mean[1]), less(mean[2], mean[0], mean[0]), less(mean[3], mean[1], mean[1])
	coefficient = math.NaN()
	if va.Sign() != 0 && vb.Sign() != 0 {
		root := new(big.Float).SetPrec(300).SetRat(new(big.Rat).Mul(va, vb))
		root.Sqrt(root)
		coefficient, _ = new(big.Float).SetPrec(300).Quo(new(big.Float).SetPrec(300).SetRat(cov), root).Float64()
	}
	if what.Kind == Radial && what.Radius > 0 {
		pairs /= 2 // each is there in both orders
	}
	return pairs, nearest(mean[4]), nearest(cov), coefficient
}

// correlationError bounds the relative error of a covariance and of a coefficient.
const correlationError = 0x1p-50

// correlationDiffers says how a value differs from the oracle's.
func correlationDiffers(v CorrelationValue, pairs int64, product, covariance, coefficient float64) string {
	near := func(a, b, by float64) bool {
		return math.IsNaN(a) == math.IsNaN(b) && !(math.Abs(a-b) > by*math.Abs(b))
	}
	if v.Pairs != uint64(pairs) || !near(v.Product, product, 0) || !near(v.Covariance, covariance, correlationError) ||
		!near(v.Coefficient, coefficient, correlationError) {
		return fmt.Sprintf("%d pairs, %v, %v, %v, want %d, %v, %v, %v", v.Pairs, v.Product, v.Covariance, v.Coefficient,
			pairs, product, covariance, coefficient)
	}
	return ""
}

// sameCorrelation says whether two are the same, bit for bit.
func sameCorrelation(a, b CorrelationValue) bool {
	return a.Correlation == b.Correlation && correlationDiffers(a, int64(b.Pairs), b.Product, b.Covariance,
		b.Coefficient) == "" && math.Float64bits(a.Covariance) == math.Float64bits(b.Covariance) &&
		math.Float64bits(a.Coefficient) == math.Float64bits(b.Coefficient)
}

// onDevice puts a picture there.
func onDevice(t testing.TB, dev *kernels.Device, f kernels.Picture) kernels.Picture {
	t.Helper()
	f, free, err := upload(context.Background(), dev, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(free)
	return f
}

// TestCorrelations compares random regions, frames and correlations with the oracle, as rows and as columns.
func TestCorrelations(t *testing.T) {
	dev := openCPU(t, kernels.Config{Poison: true})
	n := 120
	if testing.Short() {
		n = 30
	}
	for seed := range uint64(n) {
		rng := testseed.New(t, seed, 12)
		tc := randomCase(rng)
		for i := range tc.regions {
			tc.regions[i].Limits, tc.regions[i].Reference = nil, nil
		}
		golden := tc.frame
		golden.Data = [][]byte{slices.Clone(tc.frame.Bytes())}
		for i := range golden.Data[0] {
			golden.Data[0][i] ^= byte(rng.IntN(4)) // the low bits alone, so that samples stay within their bits
		}
		r := Reductions{Statistics: Count, Frames: map[string]kernels.Picture{"golden": golden}}
		if seed%2 == 0 {
			r.Frames["golden"] = onDevice(t, dev, golden)
		}
		for range 1 + rng.IntN(4) {
			r.Correlations = append(r.Correlations,
				Correlation{Kind: Lagged, Offset: Offset{rng.IntN(9) - 4, rng.IntN(9) - 4}},
				Correlation{Kind: Framed, Frame: "golden", Offset: Offset{rng.IntN(5) - 2, rng.IntN(5) - 2}})
		}
		r.Correlations = append(r.Correlations, Correlation{Kind: Radial, Radius: rng.IntN(5)},
			Correlation{Kind: Crossed})
		set := mustSet(t, tc.regions...)
		res, err := Reduce(context.Background(), dev, set, tc.frame, r, driver.MethodDefault)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		r.Output.Columns = true
		columns, err := Reduce(context.Background(), dev, set, tc.frame, r, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		rows := columns.AsRows()
		channels := channelsOf(tc.frame.Format)
		for i, region := range res.Regions {
			mask := oracle(tc.regions[i], tc.frame).mask
			for c, ch := range region.Channels {
				if len(ch.Correlations) < 4 {
					t.Fatalf("seed %d: %d correlations", seed, len(ch.Correlations))
				}
				for k, v := range ch.Correlations {
					pairs, product, covariance, coefficient := oracleCorrelation(mask, tc.frame, golden, channels, c,
						v.Correlation)
					if diff := correlationDiffers(v, pairs, product, covariance, coefficient); diff != "" {
						t.Fatalf("seed %d, region %d, channel %d, %v: %s", seed, i, c, v.Correlation, diff)
					}
					if got := rows.Regions[i].Channels[c].Correlations[k]; !sameCorrelation(got, v) {
						t.Fatalf("seed %d: as columns %v, as rows %v", seed, got, v)
					}
				}
			}
		}
	}
}

// TestCorrelationComparator: each number that is another goes noticed.
func TestCorrelationComparator(t *testing.T) {
	v := CorrelationValue{Correlation: Correlation{Kind: Lagged}}
	v.derive(&driver.PairSums{Pairs: 3, A: 6, B: 9, SqA: 14, SqB: 29, Product: 20})
	product, covariance, coefficient := 20.0/3, 2.0/3, 1.0 // of 1, 2, 3 and 2, 3, 4
	if diff := correlationDiffers(v, 3, product, covariance, coefficient); diff != "" {
		t.Fatal(diff)
	}
	for n, change := range []func(*CorrelationValue){func(v *CorrelationValue) { v.Pairs++ },
		func(v *CorrelationValue) { v.Product *= 1 + 0x1p-52 },
		func(v *CorrelationValue) { v.Covariance *= 1 + 0x1p-49 },
		func(v *CorrelationValue) { v.Coefficient *= 1 + 0x1p-49 },
		func(v *CorrelationValue) { v.Coefficient = math.NaN() }} {
		wrong := v
		change(&wrong)
		if correlationDiffers(wrong, 3, product, covariance, coefficient) == "" {
			t.Errorf("number %d can be another", n)
		}
	}
}

// TestLargeCorrelations derives numbers of as many pairs as there can be.
func TestLargeCorrelations(t *testing.T) {
	const pairs, most = 1 << 32, math.MaxUint16
	for _, kind := range []CorrelationKind{Lagged, Radial} {
		v := CorrelationValue{Correlation: Correlation{Kind: kind}}
		v.derive(&driver.PairSums{Pairs: pairs, A: pairs * most, B: pairs * most, SqA: pairs * most * most,
			SqB: pairs * most * most, Product: pairs * most * most})
		if v.Product != most*most || v.Covariance != 0 || !math.IsNaN(v.Coefficient) {
			t.Errorf("of one value: %v, %v, %v", v.Product, v.Covariance, v.Coefficient)
		}
		// Half of them 0, half of them the most, and b the opposite of a.
		v = CorrelationValue{Correlation: Correlation{Kind: kind}}
		v.derive(&driver.PairSums{Pairs: pairs, A: pairs / 2 * most, B: pairs / 2 * most, SqA: pairs / 2 * most * most,
			SqB: pairs / 2 * most * most})
		if v.Product != 0 || v.Covariance != -most*most/4.0 || v.Coefficient != -1 {
			t.Errorf("of opposites: %v, %v, %v", v.Product, v.Covariance, v.Coefficient)
		}
	}
}

// TestRings: each lag of a disc is in one ring, once in either direction, and lengths round to its radius.
func TestRings(t *testing.T) {
	seen := map[Offset]int{}
	for r := range MaxRadius + 1 {
		for _, l := range ring(r, r) {
			seen[Offset{int(l.DX), int(l.DY)}]++
			if got := int(math.Round(math.Hypot(float64(l.DX), float64(l.DY)))); got != r || int(l.Slot) != r {
				t.Errorf("(%d,%d) is in ring %d", l.DX, l.DY, r)
			}
		}
	}
	for dy := -MaxRadius; dy <= MaxRadius; dy++ {
		for dx := -MaxRadius; dx <= MaxRadius; dx++ {
			if math.Round(math.Hypot(float64(dx), float64(dy))) > MaxRadius {
				continue
			}
			n := seen[Offset{dx, dy}]
			if o := (Offset{dx, dy}); o != (Offset{}) {
				n += seen[Offset{-dx, -dy}]
			}
			if n != 1 {
				t.Errorf("(%d,%d) is in %d rings", dx, dy, n)
			}
		}
	}
}

// TestCorrelationLimits judges limits on correlations by the values that come back, alone, in expressions and with
// columns.
func TestCorrelationLimits(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	f := kernels.Picture{Width: 12, Height: 10, Format: driver.RGB8, Data: [][]byte{make([]byte, 360)}}
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range f.Data[0] {
		f.Data[0][i] = byte(rng.IntN(256))
	}
	golden := f
	golden.Data = [][]byte{slices.Clone(f.Data[0])}
	golden.Data[0][0] ^= 1
	frames := map[string]kernels.Picture{"golden": onDevice(t, dev, golden)}
	square := func(name string, x, y, side float64, limits ...string) Region {
		return Region{Name: name, Limits: limits, Rings: []Ring{{{x, y}, {x + side, y}, {x + side, y + side},
			{x, y + side}}}}
	}
	limits := []string{"r.autocorrelation(1,0) > -1", `r.ncc of "golden" >= 0.99`,
		`r.ncc of "golden" at (1, 0) >= 0.99`, "g.correlation(r) < 1", "R.Autocovariance( 1 , 0 ) < 16000",
		"r.radial(2) in [-0.5, 0.5]",
		`b.covariance of "golden" > -100`, `r.autocorrelation(1,0) - "b".r.autocorrelation(1,0) in [-1.9, 1.9]`,
		"r.covariance(b) < 9000",
		"r.radial(1) in [-0.9, 0.9]", `NCC of "golden" at (0,0) > 0.9`,
		"r.autocorrelation(1,0) - r.radial(2) < 1.9"}
	set := mustSet(t, square("a", 0, 0, 6, limits...), square("b", 6, 2, 6),
		square("dot", 3, 8, 1, "r.autocorrelation(1,0) < 1"))
	r := Reductions{Frames: frames, Correlations: []Correlation{{Kind: Lagged, Offset: Offset{1, 0}},
		{Kind: Framed, Frame: "golden"}, {Kind: Framed, Frame: "golden", Offset: Offset{1, 0}}, {Kind: Crossed},
		{Kind: Radial, Radius: 2}}}
	res, err := Reduce(context.Background(), dev, set, f, r, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	of := func(region, channel int, what string) CorrelationValue {
		t.Helper()
		for _, v := range res.Regions[region].Channels[channel].Correlations {
			if v.String() == what {
				return v
			}
		}
		t.Fatalf("no %s", what)
		return CorrelationValue{}
	}
	ncc := math.Inf(1)
	for c := range 3 {
		ncc = min(ncc, of(0, c, `ncc of "golden" at (0,0)`).Coefficient)
	}
	for k, want := range []float64{of(0, 0, "autocorrelation(1,0)").Coefficient,
		of(0, 0, `ncc of "golden" at (0,0)`).Coefficient,
		of(0, 0, `ncc of "golden" at (1,0)`).Coefficient, of(0, 1, "correlation(red)").Coefficient,
		of(0, 0, "autocorrelation(1,0)").Covariance, of(0, 0, "radial(2)").Coefficient,
		of(0, 2, `ncc of "golden" at (0,0)`).Covariance,
		of(0, 0, "autocorrelation(1,0)").Coefficient - of(1, 0, "autocorrelation(1,0)").Coefficient,
		of(0, 0, "correlation(blue)").Covariance, of(0, 0, "radial(1)").Coefficient, ncc,
		of(0, 0, "autocorrelation(1,0)").Coefficient - of(0, 0, "radial(2)").Coefficient} {
		l := res.Regions[0].Limits[k]
		if !l.Measured || l.Value != want || (l.Verdict == Fail) != (k == 2) {
			t.Errorf("%s: %+v, want %v", l.Expression, l, want)
		}
	}
	if l := res.Regions[2].Limits[0]; l.Verdict != Fail || l.Measured ||
		!strings.Contains(l.Reason, "no two pixels of the region lie so") {
		t.Errorf("of one pixel: %+v", l)
	}
	for _, out := range []Output{{}, {Columns: true}, {Fields: FieldLimits}} {
		none, err := Reduce(context.Background(), dev, set, f, Reductions{Frames: frames, Output: out},
			driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		rows := none.AsRows()
		if !slices.Equal(rows.Regions[0].Limits, res.Regions[0].Limits) {
			t.Errorf("%+v: limits %+v, want %+v", out, rows.Regions[0].Limits, res.Regions[0].Limits)
		}
		for _, c := range rows.Regions[0].Channels {
			if c.Correlations != nil {
				t.Errorf("%+v: correlations that nobody asked for", out)
			}
		}
	}
}

// TestBadCorrelations: what is wrong with a request, a frame or a limit is named, with its place in the text.
func TestBadCorrelations(t *testing.T) {
	for limit, says := range map[string]string{
		"autocorrelation > 1":                 `column 17: expected "(" and a lag, such as (8,0), found ">"`,
		"autocorrelation(8) > 0.5":            `column 18: expected ",", found ")"`,
		"autocorrelation(1.5,0) > 0.5":        `column 17: expected a whole number of pixels, found "1.5"`,
		"autocorrelation(5000,0) > 0.5":       "column 16: autocorrelation(5000,0) has a coordinate beyond 4096",
		"autocovariance(1,0 > 0.5":            `column 20: expected ")", found ">"`,
		"radial(33) > 0.5":                    "column 8: radial(33) has a distance that is not 0 to 32",
		"radial(r) > 0.5":                     `column 8: expected`,
		"ncc > 0.5":                           `column 5: expected "of" and a frame, such as "golden", found ">"`,
		"ncc of golden > 0.5":                 `column 8: expected the name of a frame in double quotes, or "the frame before", found "golden"`,
		`ncc of "" > 0.5`:                     `column 8: expected the name of a frame in double quotes, or "the frame before", found`,
		"ncc of the part > 0.5":               `column 12: expected "frame before", found "part"`,
		"ncc of the frame > 0.5":              `column 18: expected "before", found ">"`,
		`ncc of "golden" at 1 > 0.5`:          `column 20: expected "(" and a shift, such as (0,0), found "1"`,
		"r.covariance(x) > 0.5":               "column 14: expected one of the frame's own channels: r, g, b or a",
		"r.correlation(hue) > 0.5":            "column 15: expected one of the frame's own channels: r, g, b or a",
		"covariance > 1":                      `column 12: expected "(" and another channel, such as (g), found ">"`,
		"hue.autocorrelation(1,0) > 0.5":      "hue is an angle",
		"lab.a.autocorrelation(1,0) > 0.5":    "pairs are of the frame's own channels",
		"autocorrelation(1,0) in [-1, 1]":     "",
		"autocorrelation(1,0) of 3":           `expected <, <=, >, >=, ==, != or "in", found "of"`,
		`"a".autocorrelation(1,0) - 3 * 2 > `: `expected a number, found the end`,
	} {
		_, err := ParseLimit(limit)
		if says == "" {
			if err != nil {
				t.Errorf("%s: %v", limit, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", limit, err, says)
		}
	}
	dev := openCPU(t, kernels.Config{})
	f := kernels.Picture{Width: 8, Height: 8, Format: driver.Gray8, Data: [][]byte{make([]byte, 64)}}
	square := []Ring{{{0, 0}, {8, 0}, {8, 8}, {0, 8}}}
	lower := kernels.Picture{Width: 8, Height: 7, Format: driver.Gray8, Data: [][]byte{make([]byte, 56)}}
	deep := kernels.Picture{Width: 8, Height: 8, Format: driver.Gray16(12), Data: [][]byte{make([]byte, 128)}}
	frames := map[string]kernels.Picture{"lower": onDevice(t, dev, lower), "deep": onDevice(t, dev, deep)}
	many := make([]Correlation, MaxCorrelations+1)
	for i := range many {
		many[i] = Correlation{Kind: Lagged, Offset: Offset{i, 0}}
	}
	for _, c := range []struct {
		of   []Correlation
		says string
	}{
		{many, "reductions.correlations = 65: are too many: the limit is 64"},
		{append(many[:60:60], Correlation{Kind: Radial, Radius: 5}), "with those of limits are too many"},
		{[]Correlation{{}}, "reductions.correlations[0]"},
		{[]Correlation{{Kind: Radial, Radius: 33}}, "reductions.correlations[0]"},
		{[]Correlation{{Kind: Lagged, Offset: Offset{0, -4097}}}, "reductions.correlations[0]"},
		{[]Correlation{{Kind: Crossed, With: Red}}, "the frame has no red channel (GRAY8)"},
		{[]Correlation{{Kind: Framed, Frame: "golden"}}, `frames = "golden": is no frame that there is`},
		{[]Correlation{{Kind: Framed, Frame: "lower"}}, `"lower": has 8x7 pixels of GRAY8, the frame 8x8 of GRAY8`},
		{[]Correlation{{Kind: Framed, Frame: "deep"}}, `"deep": has 8x8 pixels of GRAY16LE with 12 bits, the frame 8x8 of GRAY8`},
	} {
		_, err := Reduce(context.Background(), dev, mustSet(t, Region{Rings: square}), f,
			Reductions{Correlations: c.of, Frames: frames}, driver.MethodDefault)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %s", c.of, err, c.says)
		}
	}
	// A limit on a frame that isn't here is an error, not a verdict.
	set := mustSet(t, Region{Rings: square, Limits: []string{`ncc of "golden" > 0.5`}})
	if _, err := Reduce(context.Background(), dev, set, f, Reductions{}, driver.MethodDefault); err == nil ||
		!strings.Contains(err.Error(), `"golden"`) {
		t.Errorf("a limit on a frame that isn't here: %v", err)
	}
	// Without a frame before there is no pair, and a limit fails.
	set = mustSet(t, Region{Rings: square, Limits: []string{"ncc of the frame before at (0,0) > 0.5"}})
	res, err := Reduce(context.Background(), dev, set, f, Reductions{Correlations: []Correlation{{Kind: Framed}}},
		driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	l, v := res.Regions[0].Limits[0], res.Regions[0].Channels[0].Correlations[0]
	if l.Verdict != Fail || l.Measured || !strings.Contains(l.Reason, "no frame before") || v.Pairs != 0 ||
		!math.IsNaN(v.Product) {
		t.Errorf("without a frame before: %+v, %d pairs", l, v.Pairs)
	}
	before := f
	before.Data = [][]byte{make([]byte, 64)}
	before.Data[0][3], f.Data[0][3] = 9, 7
	res, err = Reduce(context.Background(), dev, set, f,
		Reductions{Frames: map[string]kernels.Picture{"": onDevice(t, dev, before)}}, driver.MethodDefault)
	if err != nil || res.Verdict != Pass || res.Regions[0].Limits[0].Value != 1 {
		t.Errorf("with a frame before: %+v, %v", res, err)
	}
	// Line-scans refuse both by name.
	cfg := ScanConfig{Width: 8, PartLines: 8, Format: driver.Gray8, Reductions: Reductions{Correlations: many[:1]}}
	if _, err := mustSet(t, Region{Rings: square}).NewScanner(context.Background(), dev, cfg); err == nil ||
		!strings.Contains(err.Error(), "reductions.correlations") {
		t.Errorf("a line-scan with correlations: %v", err)
	}
	cfg.Reductions = Reductions{}
	for _, limit := range []string{"autocorrelation(1,0) < 0.5", "radial(1) - autocorrelation(0,1) < 0.5"} {
		_, err := mustSet(t, Region{Rings: square, Limits: []string{"mean < 3",
			limit}}).NewScanner(context.Background(), dev, cfg)
		if err == nil || !strings.Contains(err.Error(), "regions[0].limits[1]") {
			t.Errorf("a line-scan with a limit %s: %v", limit, err)
		}
	}
	// Rings of samples of 16 bits have room for 2^32 pairs: errors name both.
	wide := kernels.Picture{Width: 1 << 15, Height: 1 << 12, Format: driver.Gray16(16)}
	bad := newInvalid()
	p := &plan{set: mustSet(t, Region{Rings: square}), frame: wide, channels: channelsOf(wide.Format), own: 1}
	p.planCorrelations(bad, &Reductions{Correlations: []Correlation{{Kind: Radial, Radius: 32}}})
	if err := bad.Err(); err == nil || !strings.Contains(err.Error(), "must not be more than 4294967296") {
		t.Errorf("rings of 2^27 pixels of 16 bits: %v", err)
	}
}

// TestCorrelationsInBatches: regions in several batches, a frame so large that it is summed up in bands of rows, and
// prepared regions give the numbers that each region gives alone.
func TestCorrelationsInBatches(t *testing.T) {
	dev := openCPU(t, kernels.Config{MemoryBytes: 64 << 20})
	const width, height = 1600, 900
	f := kernels.Picture{Width: width, Height: height, Format: driver.Gray8, Data: [][]byte{make([]byte, width*height)}}
	rng := testseed.New(t, 3, 4)
	for i := range f.Data[0] {
		f.Data[0][i] = byte(rng.IntN(256))
	}
	rect := func(x0, y0, x1, y1 float64) Region {
		return Region{Rings: []Ring{{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}}}
	}
	regions := []Region{rect(0, 0, width, height)}
	for range 90 {
		x, y := float64(rng.IntN(width)), float64(rng.IntN(height))
		regions = append(regions, rect(x, y, x+float64(rng.IntN(60)), y+float64(rng.IntN(60))))
	}
	r := Reductions{Statistics: Count | Histogram, Correlations: []Correlation{{Kind: Lagged, Offset: Offset{1, 0}},
		{Kind: Framed, Frame: "golden", Offset: Offset{-2, 31}}, {Kind: Radial, Radius: 3}, {Kind: Crossed}},
		Frames: map[string]kernels.Picture{"golden": onDevice(t, dev, f)}}
	set := mustSet(t, regions...)
	all, err := Reduce(context.Background(), dev, set, f, r, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := set.Prepare(context.Background(), dev, width, height, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	defer prepared.Close()
	again, err := prepared.Reduce(context.Background(), onDevice(t, dev, f), r)
	if err != nil {
		t.Fatal(err)
	}
	for i := range regions {
		got := all.Regions[i].Channels[0].Correlations
		if !slices.EqualFunc(got, again.Regions[i].Channels[0].Correlations, sameCorrelation) {
			t.Fatalf("region %d: prepared regions give others", i)
		}
		one, err := Reduce(context.Background(), dev, mustSet(t, regions[i]), f, r, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got, one.Regions[0].Channels[0].Correlations, sameCorrelation) {
			t.Fatalf("region %d: alone it has others", i)
		}
	}
}
