package polygon

import (
	"errors"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// oracleDistances are those of two lists of samples, from the definitions, value by value.
func oracleDistances(a, b []uint32) (ks, wasserstein float64, js, chi *big.Float) {
	const prec = 200
	n, m := int64(len(a)), int64(len(b))
	count := func(list []uint32) map[uint32]int64 {
		of := map[uint32]int64{}
		for _, v := range list {
			of[v]++
		}
		return of
	}
	p, q := count(a), count(b)
	all := slices.Concat(a, b)
	slices.Sort(all)
	all = slices.Compact(all)
	most, area, f, g := new(big.Rat), new(big.Rat), new(big.Rat), new(big.Rat)
	square := new(big.Rat)
	js = new(big.Float).SetPrec(prec)
	for i, v := range all {
		if i > 0 {
			d := new(big.Rat).Sub(f, g)
			area.Add(area, d.Abs(d).Mul(d, ratio(int64(v)-int64(all[i-1]), 1)))
		}
		pv, qv := ratio(p[v], n), ratio(q[v], m)
		f.Add(f, pv)
		g.Add(g, qv)
		if d := new(big.Rat).Sub(f, g); d.Abs(d).Cmp(most) > 0 {
			most = d
		}
		sum := new(big.Rat).Add(pv, qv)
		d := new(big.Rat).Sub(pv, qv)
		square.Add(square, d.Mul(d, d).Quo(d, new(big.Rat).Mul(sum, ratio(2, 1))))
		for _, share := range []*big.Rat{pv, qv} {
			if share.Sign() == 0 {
				continue
			}
			x := new(big.Rat).Quo(share, sum)
			log := oracleLog(x.Mul(x, ratio(2, 1)))
			js.Add(js, log.Mul(log, new(big.Float).SetPrec(prec).SetRat(share)))
		}
	}
	js.Quo(js, new(big.Float).SetPrec(prec).Mul(oracleLogOf(2), big.NewFloat(2)))
	return nearest(most), nearest(area), js, new(big.Float).SetPrec(prec).SetRat(square)
}

// compareDistances compares the distances of two lists with the oracle, and returns relative errors.
func compareDistances(t *testing.T, a, b []uint32, levels int) (js, chi float64) {
	t.Helper()
	var got ChannelStatistics
	distributionOf(a, levels).distances(distributionOf(b, levels), &got)
	ks, area, wantJS, wantChi := oracleDistances(a, b)
	if got.KolmogorovSmirnov != ks || got.Wasserstein != area || got.Has != Distances {
		t.Errorf("%d and %d samples: %+v, want %v and %v", len(a), len(b), got, ks, area)
	}
	js, chi = relative(got.JensenShannon, wantJS), relative(got.ChiSquare, wantChi)
	if js > math.Ldexp(1, -47) || chi > math.Ldexp(1, -49) {
		t.Errorf("%d and %d samples: js %v is off by %g of itself, chi-square %v by %g", len(a), len(b),
			got.JensenShannon, js, got.ChiSquare, chi)
	}
	return js, chi
}

func TestDistances(t *testing.T) {
	race.Skip(t)
	rng := seed.New(t, 18, 3)
	worstJS, worstChi := 0.0, 0.0
	see := func(a, b []uint32, levels int) {
		js, chi := compareDistances(t, a, b, levels)
		worstJS, worstChi = max(worstJS, js), max(worstChi, chi)
	}
	see([]uint32{5}, []uint32{5}, 256)
	see([]uint32{0}, []uint32{65535}, 65536)
	see([]uint32{0, 1, 1}, []uint32{0, 1}, 256)
	n := 200
	if testing.Short() {
		n = 50
	}
	for i := range n {
		levels := []int{2, 16, 256, 65536}[rng.IntN(4)]
		a := make([]uint32, 1+rng.IntN(1<<rng.IntN(10)))
		for k := range a {
			a[k] = rng.Uint32N(uint32(levels))
		}
		b := slices.Clone(a)
		switch i % 3 {
		case 0: // nearly the same
			b = append(b, rng.Uint32N(uint32(levels)))
		case 1:
			b = b[:1+rng.IntN(len(b))]
		default:
			for k := range b {
				b[k] = rng.Uint32N(uint32(levels))
			}
		}
		see(a, b, levels)
	}
	t.Logf("largest relative errors: Jensen-Shannon %g, chi-square %g", worstJS, worstChi)
}

// As many pixels as there can be: nothing runs over.
func TestDistancesOfMany(t *testing.T) {
	const n = math.MaxUint32
	low := &distribution{values: []uint32{0}, cumulative: []uint64{n}}
	high := &distribution{values: []uint32{65535}, cumulative: []uint64{n - 1}}
	var got ChannelStatistics
	low.distances(high, &got)
	if got.KolmogorovSmirnov != 1 || got.Wasserstein != 65535 || got.JensenShannon != 1 || got.ChiSquare != 1 {
		t.Errorf("%+v", got)
	}
}

func FuzzDistances(f *testing.F) {
	f.Add([]byte{1, 2, 3}, byte(1))
	f.Add([]byte{7, 7, 7, 7, 9, 7, 8}, byte(4))
	f.Fuzz(func(t *testing.T, data []byte, cut byte) {
		if len(data) < 2 || len(data) > 1<<9 {
			return
		}
		samples := make([]uint32, len(data))
		for i, v := range data {
			samples[i] = uint32(v)
		}
		k := 1 + int(cut)%(len(data)-1)
		compareDistances(t, samples[:k], samples[k:], 256)
	})
}

// The distances of regions from what is kept and from each other, in rows and in columns, and of strips.
func TestReference(t *testing.T) {
	dev := openCPU(t, kernels.Config{MemoryBytes: 8 << 20})
	f := noise(20, 12, driver.RGB8)
	rect := func(x0, y0, x1, y1 float64) []Ring { return []Ring{{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}} }
	kept := make([]uint32, 200)
	for v := range kept {
		kept[v] = uint32(v % 7)
	}
	list := []Region{
		{Name: "first", Rings: rect(0, 0, 9, 9), Reference: &Reference{Region: "ref"},
			Limits: []string{"ks < 1", "g.wasserstein < 255"}},
		{Name: "kept", Rings: rect(3, 1, 15, 12), Reference: &Reference{Counts: [][]uint32{kept}},
			Limits: []string{"js < 0.0001"}},
		{Name: "ref", Rings: rect(8, 2, 20, 11), Reference: &Reference{Region: "first"}},
		{Name: "alone", Rings: rect(0, 0, 5, 5), Limits: []string{"mean > 1"}},
		{Name: "of nothing", Rings: rect(0, 0, 5, 5), Reference: &Reference{Region: "nothing"},
			Limits: []string{"chisquare < 1", "mean > 0"}},
		{Name: "nothing", Rings: rect(3.6, 3.6, 3.7, 3.7)},
		{Name: "of outside", Rings: rect(0, 0, 5, 5), Reference: &Reference{Region: "outside"},
			Limits: []string{"ks <= 1e-9", "chisquare < 0.99999"}},
		{Name: "outside", Rings: rect(15, 5, 25, 9)},
	}
	set := mustSet(t, list...)
	ask := Reductions{Statistics: Distances | Count}
	rows, err := Reduce(t.Context(), dev, set, f, ask, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	samples := func(i, c int) []uint32 { return oracle(list[i], f).channels[c].sorted }
	for i, with := range []int{2, -1, 0, -2, -2, -2, 7, -2} {
		for c := range 3 {
			got := rows.Regions[i].Channels[c]
			if with == -2 {
				if got.Has.Has(Distances) || got.Wasserstein != 0 {
					t.Errorf("%s: %+v has distances", list[i].Name, got)
				}
				continue
			}
			var other []uint32
			if with >= 0 {
				other = samples(with, c)
			} else {
				for v, n := range kept {
					other = append(other, slices.Repeat([]uint32{uint32(v)}, int(n))...)
				}
			}
			ks, area, js, chi := oracleDistances(samples(i, c), other)
			if !got.Has.Has(Distances) || got.KolmogorovSmirnov != ks || got.Wasserstein != area ||
				relative(got.JensenShannon, js) > 1e-14 || relative(got.ChiSquare, chi) > 1e-14 {
				t.Errorf("%s, channel %d: %+v, want %v, %v, %v, %v", list[i].Name, c, got, ks, area, js, chi)
			}
		}
	}
	const half = `the reference "outside": outside the frame: 50 % of the region's pixels`
	for i, want := range [][]string{{"", ""}, {"js "}, nil, {""},
		{`the reference "nothing": the region caught no pixel`, ""}, nil, {"; " + half, half}, nil} {
		r := rows.Regions[i]
		verdict := NoVerdict
		for k, reason := range want {
			l := r.Limits[k]
			if reason == "" != (l.Verdict == Pass) || !strings.Contains(l.Reason, reason) || l.Expression != list[i].Limits[k] {
				t.Errorf("%s: %+v, want %q", r.Name, l, reason)
			}
			if verdict = max(verdict, Pass); l.Verdict == Fail {
				verdict = Fail
			}
		}
		if r.Verdict != verdict {
			t.Errorf("%s: %v, want %v", r.Name, r.Verdict, verdict)
		}
	}

	same := func(what string, got *Result) {
		t.Helper()
		for i := range got.Regions {
			if !sameLimits(got.Regions[i], rows.Regions[i]) {
				t.Errorf("%s: %s:\n got %+v\nwant %+v", what, list[i].Name, got.Regions[i], rows.Regions[i])
			}
		}
		if got.Verdict != rows.Verdict {
			t.Errorf("%s: %v", what, got.Verdict)
		}
	}
	ask.Output.Columns = true
	columns, err := Reduce(t.Context(), dev, set, f, ask, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	same("columns", columns.AsRows())
	ask.Output = Output{Columns: true, Fields: FieldVerdict}
	verdicts, err := Reduce(t.Context(), dev, set, f, ask, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range verdicts.Columns.Verdict {
		if v != rows.Regions[i].Verdict {
			t.Errorf("verdicts alone: %s: %v, want %v", list[i].Name, v, rows.Regions[i].Verdict)
		}
	}

	// Strips of three lines.
	scan, err := set.NewScanner(t.Context(), dev, ScanConfig{Width: 20, Format: driver.RGB8, PartLines: 12,
		Reductions: Reductions{Statistics: Distances | Count}})
	if err != nil {
		t.Fatal(err)
	}
	defer scan.Close()
	if err := scan.Start(1, 0); err != nil {
		t.Fatal(err)
	}
	var parts []*ScannedPart
	for y := 0; y < 12; y += 3 {
		strip := kernels.Picture{Width: 20, Height: 3, Format: driver.RGB8, Data: [][]byte{f.Data[0][y*60 : (y+3)*60]}}
		done, err := scan.Strip(t.Context(), ScanStrip{FirstLine: uint64(y), Frame: strip})
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, done...)
	}
	if len(parts) != 1 || parts[0].Err != nil {
		t.Fatalf("%d parts", len(parts))
	}
	same("strips", parts[0].Result)
	// A reference of which lines did not come fails what is compared with it.
	if err := scan.Start(2, 12); err != nil {
		t.Fatal(err)
	}
	top := kernels.Picture{Width: 20, Height: 10, Format: driver.RGB8, Data: [][]byte{f.Data[0][:600]}}
	if _, err := scan.Strip(t.Context(), ScanStrip{FirstLine: 12, Frame: top}); err != nil {
		t.Fatal(err)
	}
	parts, err = scan.Settle(t.Context(), 24)
	if err != nil || len(parts) != 1 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	if l := parts[0].Result.Regions[0].Limits[0]; l.Verdict != Fail ||
		l.Reason != `the reference "ref": 1 of the region's 9 lines did not come` {
		t.Errorf("after lost lines: %+v", l)
	}
}

// sameLimits compares what does not depend on how results come.
func sameLimits(a, b RegionResult) bool {
	if a.Verdict != b.Verdict || !slices.Equal(a.Limits, b.Limits) {
		return false
	}
	for c := range a.Channels {
		x, y := a.Channels[c], b.Channels[c]
		if x.Has != y.Has || x.KolmogorovSmirnov != y.KolmogorovSmirnov || x.Wasserstein != y.Wasserstein ||
			x.JensenShannon != y.JensenShannon || x.ChiSquare != y.ChiSquare {
			return false
		}
	}
	return true
}

func TestBadReferences(t *testing.T) {
	ring := []Ring{{{0, 0}, {3, 0}, {3, 1}}}
	region := func(name string, r *Reference, limits ...string) Region {
		return Region{Name: name, Rings: ring, Reference: r, Limits: limits}
	}
	of := func(name string) *Reference { return &Reference{Region: name} }
	counts := func(lists ...[]uint32) *Reference { return &Reference{Counts: lists} }
	a := func(r *Reference, limits ...string) []Region { return []Region{region("a", r, limits...)} }
	b := region("b", nil)
	one := []uint32{1}
	for want, list := range map[string][]Region{
		`regions[0].limits[0] = "ks < 0.5": the region has no reference to compare with`: a(nil, "ks < 0.5"),
		`regions[0].reference.region = "b": is no region of the set`:                     a(of("b")),
		`regions[0].reference.region = "a": is the region itself`:                        a(of("a")),
		`regions[0].reference.region = "b": is the name of several regions`:              append(a(of("b")), b, b),
		`must have a region or counts`:                                                   a(&Reference{}),
		`regions[0].reference = "b": must not have counts beside a region`: append(
			a(&Reference{Region: "b", Counts: [][]uint32{one}}), b),
		`regions[0].reference.counts[0] = 2 counts of 0 samples: must be at most 65536 counts`: a(counts([]uint32{0, 0})),
		`2 counts of 4294967296 samples`:                a(counts([]uint32{1, math.MaxUint32})),
		`regions[0].reference.counts = 5: are too many`: a(counts(one, one, one, one, one)),
		`can't fail: ks is 0 to 1`:                      a(counts(one), "ks <= 1"),
		`regions[0].limits[0] = "js < 0.5": can't fail: the reference "b" has the same pixels`: append(
			a(of("b"), "js < 0.5"), b),
	} {
		_, err := NewSet(list, Bounds{})
		var invalid *kernels.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	dev := openCPU(t, kernels.Config{MemoryBytes: 1 << 20})
	high := append(make([]uint32, 256), 1)
	for want, r := range map[string]*Reference{
		"regions[0].reference.counts = 2: must be 1 or 3":                          counts(one, one),
		"regions[0].reference.counts[0] = a sample of 256: is above 255, the most": counts(high),
	} {
		set := mustSet(t, region("a", r))
		f := noise(4, 4, driver.RGB8)
		_, err := Reduce(t.Context(), dev, set, f, Reductions{Statistics: Distances}, driver.MethodDefault)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := Reduce(t.Context(), dev, set, f, Reductions{}, driver.MethodDefault); err != nil {
			t.Errorf("without distances: %v", err)
		}
	}
}

// BenchmarkDistances is what a channel of a region pays.
func BenchmarkDistances(b *testing.B) {
	for name, levels := range map[string]int{"256": 256, "65536": 65536} {
		a, o := make([]uint32, 1<<18), make([]uint32, 1<<18)
		rng := seed.New(b, 18, 4)
		for i := range a {
			a[i], o[i] = rng.Uint32N(uint32(levels)), rng.Uint32N(uint32(levels))
		}
		x, y := distributionOf(a, levels), distributionOf(o, levels)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var c ChannelStatistics
				x.distances(y, &c)
			}
		})
	}
}

// TestComparedBytes: what is counted of distributions is what is kept of them at most.
func TestComparedBytes(t *testing.T) {
	small, large := rectangle(0, 0, 3, 3), rectangle(0, 0, 300, 300)
	set := mustSet(t, Region{Name: "a", Rings: []Ring{small}}, Region{Rings: []Ring{large},
		Reference: &Reference{Region: "a"}}, Region{Rings: []Ring{large}})
	for _, c := range []struct {
		statistics Statistics
		format     kernels.PixelFormat
		channels   int
		want       int64
	}{{Mean, driver.Gray8, 1, 0}, {Distances, driver.Gray8, 1, 12 * (9 + 256)},
		{Distances, driver.RGB8, 3, 3 * 12 * (9 + 256)}, {AllStatistics, driver.Gray16(16), 1, 12 * (9 + 65536)}} {
		if got := set.ComparedBytes(Reductions{Statistics: c.statistics}, c.format, c.channels); got != c.want {
			t.Errorf("%v of %v: %d bytes, want %d", c.statistics, c.format, got, c.want)
		}
	}
	limited := mustSet(t, Region{Name: "a", Rings: []Ring{small}}, Region{Rings: []Ring{rectangle(1, 0, 3, 3)},
		Limits: []string{"ks < 0.1"}, Reference: &Reference{Region: "a"}})
	if got := limited.ComparedBytes(Reductions{}, driver.Gray8, 1); got != 2*12*9 {
		t.Errorf("%d bytes for a limit", got)
	}
}

// TestComparingEnds: others go first between long comparisons, which they may end.
func TestComparingEnds(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	regions := []Region{{Name: "a", Rings: []Ring{rectangle(0, 0, 200, 200)}}}
	for range 4 {
		regions = append(regions, Region{Rings: []Ring{rectangle(0, 0, 200, 200)}, Reference: &Reference{Region: "a"}})
	}
	set := mustSet(t, regions...)
	p, err := newPlan(set, noise(200, 200, driver.Gray16(16)), Reductions{Statistics: Distances})
	if err != nil {
		t.Fatal(err)
	}
	d := newDeriver(p, known{})
	prep, size, err := set.preparation(dev, 200, 200, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.run(t.Context(), dev, kernels.Bytes[byte](int(size)), 0, func(q *kernels.Queue) (driver.Slice, error) {
		b, err := prepare(q, prep, size)
		return b.Slice(), err
	}); err != nil {
		t.Fatal(err)
	}
	pauses, want := 0, errors.New("others")
	err = d.settle(func(f func(func() error) error) error {
		return f(func() error {
			if pauses++; pauses == 3 {
				return want
			}
			return nil
		})
	})
	if pauses != 3 || err != want {
		t.Errorf("%d pauses: %v", pauses, err)
	}
}
