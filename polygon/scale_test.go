package polygon

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

func scaledSet(t testing.TB, s *Scale, regions ...Region) *Set {
	t.Helper()
	set, err := NewSetInPieces(regions, s, Bounds{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// A frame of 60 by 40 in which one pixel is bright, and a plate of 30 by 10 pixels: 3 mm² of 0.1 mm.
func plate() kernels.Picture {
	f := kernels.Picture{Width: 60, Height: 40, Format: driver.Gray8, Data: [][]byte{make([]byte, 60*40)}}
	for i := range f.Data[0] {
		f.Data[0][i] = 10
	}
	f.Data[0][12*60+20] = 200
	return f
}

func TestLimitsInMillimetres(t *testing.T) {
	dev := openCPU(t, kernels.Config{MemoryBytes: 1 << 20})
	square := &Scale{X: 0.1, Y: 0.1, Origin: Point{10, 10}}
	oblong := &Scale{X: 0.1, Y: 0.25}
	for _, c := range []struct {
		expr   string
		scale  *Scale
		value  float64
		reason string
	}{
		// Products of float64 would say 3.0000000000000004.
		{"area == 3 mm2", square, 3, ""},
		{"area <= 3mm²", square, 3, ""},
		{"area > 3 mm^2", square, 3, "area 3 mm² is not above 3 mm²"},
		{"AREA in [1, 2.9] MM2", square, 3, "area 3 mm² is above 2.9 mm²"},
		{"area == 7.5 mm2", oblong, 7.5, ""},
		{"area == 300", square, 300, ""},
		{"count >= 3 mm2", square, 3, ""},
		{"count of pixels above 100 < 0.01 mm2", square, 0.01,
			"count of pixels above 100: 0.01 mm² is not below 0.01 mm²"},
		{"width == 3 mm", square, 3, ""},
		{"height == 2.5 mm", oblong, 2.5, ""},
		{"width == 30", nil, 30, ""},
		{"height < 10", nil, 10, "height 10 is not below 10"},
		{"centroid.x == 25", nil, 25, ""},
		{"centroid.y == 0.5 mm", square, 0.5, ""},
		{"centroid.x == 1.5 mm", square, 1.5, ""},
		{"max.x == 20.5", nil, 20.5, ""},
		{"max.x in [1, 1.1] mm", square, 1.05, ""},
		{"gray.max.y == 3.125 mm", oblong, 3.125, ""},
		{"min.x == 1", square, 10.5, "min.x 10.5 is not 1"},
		{"min.x < 0.05 mm", square, 0.05, "min.x 0.05 mm is not below 0.05 mm"},
		// 299 of 10 and one of 200 at (20.5, 12.5); the rest balances at (25, 15).
		{"weighted.x in [24.7, 24.75]", nil, (25*3000 + 190*20.5) / 3190, ""},
		// In expressions.
		// 1.05 mm less 3.05 mm, each rounded: the other is 10 everywhere, and its first pixel the brightest.
		{`max.x - "other".max.x in [-2.01, -1.99] mm`, square, -1.9999999999999998, ""},
		{`centroid.x + 0.5 mm == 2 mm`, square, 2, ""},
		{`width * height - area == 0 mm2`, square, 0, ""},
		{`area / width > 1 mm`, square, 1, "area / width 1 mm is not above 1 mm"},
		{`area / 3 mm2 == 1`, square, 1, ""},
		{`2 * (width - 1 mm) / (height + 1mm) == 2`, square, 2, ""},
		{`all of "*".area >= 2 mm2`, square, 1, `all of "*".area: 1 of 2 don't hold, at most 0 may: "other" 0.16 mm²`},
		{`largest of "*".area == 3 mm2`, square, 3, ""},
		{`smallest of "*".width == 0.4 mm`, square, 0.4, ""},
		{`count == 300 mm2`, square, 3, "count 3 mm² is not 300 mm²"},
	} {
		set, err := NewSetInPieces([]Region{
			{Name: "plate", Rings: []Ring{rectangle(10, 10, 30, 10)}, Limits: []string{c.expr}},
			{Name: "other", Rings: []Ring{rectangle(40, 10, 4, 4)}},
		}, c.scale, Bounds{}, nil)
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
			continue
		}
		for _, output := range []Output{{}, {Columns: true}, {Columns: true, Fields: FieldLimits}} {
			res, err := Reduce(t.Context(), dev, set, plate(), Reductions{Statistics: Count, Output: output}, driver.MethodDefault)
			if err != nil {
				t.Fatalf("%s: %v", c.expr, err)
			}
			if res.Scale != set.scale || res.AsRows().Scale != set.scale || (c.scale == nil) != (res.Scale == nil) {
				t.Errorf("%s: scale %+v", c.expr, res.Scale)
			}
			r := res.AsRows().Regions[0]
			l := r.Limits[0]
			if l.Reason != c.reason || (l.Verdict == Pass) != (c.reason == "") || math.Abs(l.Value-c.value) > 1e-15*math.Abs(c.value) {
				t.Errorf("%s: %+v, want %v, %q", c.expr, l, c.value, c.reason)
			}
			if len(r.Channels) > 0 && (r.Channels[0].Has != Count || r.Channels[0].WeightedCentroid != Point{}) {
				t.Errorf("%s: what nobody asked for came back: %+v", c.expr, r.Channels[0])
			}
		}
	}
}

func TestBadUnits(t *testing.T) {
	for expr, want := range map[string]string{
		"mean < 3 mm":                    "column 10: mm is no unit of mean, which is a number without a unit",
		"area < 3 mm":                    "column 10: mm is no unit of area, which is an area (mm2)",
		"width < 3 mm2":                  "column 11: mm² is no unit of width, which is a length (mm)",
		"count of pixels below 9 < 3 mm": "column 29: mm is no unit of count of pixels below 9, which is an area (mm2)",
		"count of pixels below 9 mm < 3": "column 25: expected <",
		"area < 3 mm3":                   `column 12: expected the end of the limit, found "3"`,
		"area < 3 mm22":                  `column 12: expected the end of the limit, found "22"`,
		"area < 3 mm2.5":                 `column 13: expected the end of the limit, found ".5"`,
		"area < 3 mm 2":                  `column 13: expected the end of the limit, found "2"`,
		"area < 3 cm2":                   `column 10: expected the end of the limit, found "cm"`,
		"area in [1 mm2, 3 mm2]":         `column 12: expected ",", found "mm"`,
		"area + width < 3 mm2":           "column 6: an area (mm2) and a length (mm) can't be added or subtracted",
		"area + 3 < 3 mm2":               "column 6: an area (mm2) and a number without a unit can't be added or subtracted",
		"area + 3 mm2 < 3":               "column 17: what is measured is an area (mm2): the number needs a unit",
		"area * width < 3 mm2":           "column 18: mm² is no unit of area * width, which is neither a length nor an area",
		"mean + 3 mm < 3":                "column 6: a number without a unit and a length (mm) can't be added or subtracted",
		"all of \"*\".mean < 3 mm":       "column 21: mm is no unit of all of \"*\".mean",
		"centroid < 3":                   `column 10: expected ".x" or ".y", found "<"`,
		"max. < 3":                       `column 6: expected "x" or "y", found "<"`,
		"max.z < 3":                      `column 5: expected "x" or "y", found "z"`,
		"r.width < 3":                    "column 1: width is of the region and has no channel",
		"r.centroid.x < 3":               "column 1: centroid.x is of the region and has no channel",
		"area >= 0 mm2":                  "can't fail: area is never negative",
		"width >= 0":                     "can't fail: width is 0 to",
		"area != -1 mm2":                 "can't fail: area is never negative",
		"min.x >= 0 mm":                  "can't fail: min.x is 0.5 to 3.5",
		"weighted.y > -5 mm":             "fails only where it has no value: weighted.y is always 0.5",
		"count <= 4 mm2":                 "can't fail: count is 0 to 4",
	} {
		_, err := NewSetInPieces([]Region{{Rings: box4(0), Limits: []string{expr}}}, &Scale{X: 1, Y: 1}, Bounds{}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", expr, err, want)
		}
	}
	for expr, want := range map[string]string{
		"area < 3 mm2":         `"area < 3 mm2": column 10: the regions have no scale, and mm needs one`,
		"area / 3 mm2 < 3 mm2": "",
		"area / 3 mm2 < 4":     "column 10: the regions have no scale, and mm needs one",
	} {
		if _, err := NewSet([]Region{{Rings: box4(0), Limits: []string{expr}}}, Bounds{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", expr, err, want)
		}
	}
	// Those that hold for all that the region can have are errors, and their neighbours are not.
	for _, expr := range []string{"min.x > 0.5 mm", "count != 1.5 mm2", "weighted.x <= 3.4 mm", "count < 4 mm2"} {
		scaledSet(t, &Scale{X: 1, Y: 1}, Region{Rings: box4(0), Limits: []string{expr}})
	}
	for want, s := range map[string]Scale{
		`scale.x = 0: must be 1e-09 to 1e+09 mm per pixel`:                    {Y: 1},
		`scale.y = -1: must be 1e-09 to 1e+09 mm per pixel`:                   {X: 1, Y: -1},
		`scale.x = NaN: must be`:                                              {X: math.NaN(), Y: 1},
		`scale.y = +Inf: must be`:                                             {X: 1, Y: math.Inf(1)},
		`scale.origin.x = NaN: must be less than 4194304 px from 0`:           {X: 1, Y: 1, Origin: Point{math.NaN(), 0}},
		`scale.origin.y = -4.194304e+06: must be less than 4194304 px from 0`: {X: 1, Y: 1, Origin: Point{0, -1 << 22}},
	} {
		_, err := NewSetInPieces([]Region{{Rings: box4(0), Limits: []string{"area < 3 mm2"}}}, &s, Bounds{}, nil)
		if e := (*kernels.InvalidError)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), want) || len(e.Violations) != 1 {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}

// Numbers in mm are those in pixels times the decimals of the scale, by exact fractions; limits see the same numbers.
func TestScaleProperty(t *testing.T) {
	dev := openCPU(t, kernels.Config{MemoryBytes: 1 << 22})
	rng := seed.New(t, 18, 21)
	judged := map[Verdict]int{}
	for range 400 {
		scale := &Scale{X: shortDecimal(rng), Y: shortDecimal(rng), Origin: Point{shortDecimal(rng) * 10, -shortDecimal(rng)}}
		mm := func(v float64, axes string) float64 {
			r := rat(v)
			for _, a := range axes {
				switch a {
				case 'x':
					r.Mul(r, decimalRat(scale.X))
				case 'y':
					r.Mul(r, decimalRat(scale.Y))
				case 'l':
					r.Sub(r, decimalRat(scale.Origin.X))
				case 't':
					r.Sub(r, decimalRat(scale.Origin.Y))
				}
			}
			return nearest(r)
		}
		f := kernels.Picture{Width: 40, Height: 30, Format: driver.Gray8, Data: [][]byte{make([]byte, 1200)}}
		for i := range f.Data[0] {
			f.Data[0][i] = byte(rng.IntN(256))
		}
		at := func() Point { return Point{rng.Float64() * 40, rng.Float64() * 30} }
		region := Region{Name: "a", Rings: []Ring{{at(), at(), at(), at()}}, Fill: FillRule(rng.IntN(2))}
		bare := mustSet(t, region)
		all := Reductions{Statistics: Basic | Centroid}
		res, err := Reduce(t.Context(), dev, bare, f, all, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		r := res.Regions[0]
		if r.Count == 0 {
			continue
		}
		c := &r.Channels[0]
		below := uint64(0)
		for i, v := range f.Data[0] {
			if v < 90 && bareHas(bare, i%40, i/40) {
				below++
			}
		}
		want := map[string]float64{
			"area": mm(r.Area, "xy"), "count": mm(float64(r.Count), "xy"),
			"count of pixels below 90": mm(float64(below), "xy"),
			"width":                    mm(float64(r.Bounds.X1-r.Bounds.X0), "x"),
			"height":                   mm(float64(r.Bounds.Y1-r.Bounds.Y0), "y"),
			"centroid.x":               mm(r.Centroid.X, "lx"), "centroid.y": mm(r.Centroid.Y, "ty"),
			"weighted.x": mm(c.WeightedCentroid.X, "lx"), "weighted.y": mm(c.WeightedCentroid.Y, "ty"),
			"min.x": mm(float64(c.MinAt.X)+0.5, "lx"), "min.y": mm(float64(c.MinAt.Y)+0.5, "ty"),
			"max.x": mm(float64(c.MaxAt.X)+0.5, "lx"), "max.y": mm(float64(c.MaxAt.Y)+0.5, "ty"),
		}
		var exprs []string
		for q, v := range want {
			unit := "mm"
			if q == "area" || strings.HasPrefix(q, "count") {
				unit = "mm2"
			}
			bound := v
			if rng.IntN(2) == 0 {
				bound += rng.NormFloat64() * math.Abs(v)
			}
			if bound > 0 {
				region.Limits = []string{fmt.Sprintf("%s <= %v %s", q, bound, unit)}
				if _, err := NewSetInPieces([]Region{region}, scale, Bounds{}, nil); err == nil {
					exprs = append(exprs, region.Limits...)
				} else if v > bound || !strings.Contains(err.Error(), "can't fail") &&
					!strings.Contains(err.Error(), "fails only where it has no value") {
					t.Errorf("%+v: %s of %v: %v", scale, region.Limits, v, err)
				}
			}
		}
		region.Limits = exprs
		set := scaledSet(t, scale, region)
		res, err = Reduce(t.Context(), dev, set, f, all, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range res.Regions[0].Limits {
			q, bound, _ := strings.Cut(exprs[i], " <= ")
			number, _, _ := strings.Cut(bound, " ")
			limit, _ := new(big.Rat).SetString(number)
			pass := rat(want[q]).Cmp(rat(nearest(limit))) <= 0
			if l.Value != want[q] || (l.Verdict == Pass) != pass {
				t.Errorf("%+v: %s: %+v, want %v", scale, exprs[i], l, want[q])
			}
			judged[l.Verdict]++
		}
		// What results offer says the same.
		got := res.Scale.Place(r.Centroid)
		if got.X != want["centroid.x"] || got.Y != want["centroid.y"] || res.Scale.Area(r.Area) != want["area"] ||
			res.Scale.Centre(c.MaxAt) != (Point{want["max.x"], want["max.y"]}) {
			t.Errorf("%+v: %v, want %v", scale, got, want)
		}
		if literal := *scale; literal.Area(r.Area) != want["area"] || literal.Place(r.Centroid) != got {
			t.Errorf("a scale of no set says something else")
		}
	}
	if judged[Pass] < 500 || judged[Fail] < 500 {
		t.Errorf("limits: %v", judged)
	}
}

func shortDecimal(rng *rand.Rand) float64 {
	return float64(1+rng.IntN(99999)) / math.Pow10(rng.IntN(8))
}

// bareHas says whether a pixel is in the only region of a set, by the crossing rule.
func bareHas(s *Set, x, y int) bool {
	winding := 0
	for _, e := range s.edgesOf(0) {
		yc, xc := int64(y)*256+128, int64(x)*256+128
		if min(int64(e.Y0), int64(e.Y1)) <= yc && yc < max(int64(e.Y0), int64(e.Y1)) {
			// The crossing is right of the centre: (yc - y0) (x1 - x0) / (y1 - y0) + x0 > xc.
			left := (yc-int64(e.Y0))*int64(e.X1-e.X0) - (xc-int64(e.X0))*int64(e.Y1-e.Y0)
			switch {
			case e.Y1 > e.Y0 && left > 0:
				winding++
			case e.Y1 < e.Y0 && left < 0:
				winding--
			}
		}
	}
	if FillRule(s.regions[0].Fill) == EvenOdd {
		return winding%2 != 0
	}
	return winding != 0
}

func FuzzUnits(f *testing.F) {
	for _, s := range []string{"area >= 3 mm2", `width - 2 mm in [0, 1] mm`, `all of "*".area < 3 mm²`, "max.x*2 mm > 3mm^2"} {
		f.Add(s, 0.1)
	}
	dev := openCPU(f, kernels.Config{MemoryBytes: 1 << 20})
	f.Fuzz(func(t *testing.T, expr string, x float64) {
		set, err := NewSetInPieces(between4(expr), &Scale{X: x, Y: 1 / x}, Bounds{}, nil)
		if err != nil {
			return
		}
		res, err := Reduce(t.Context(), dev, set, frame4(driver.Gray8), Reductions{}, driver.MethodDefault)
		if err != nil {
			return
		}
		l := res.Regions[0].Limits[0]
		if l.Verdict != Pass && l.Reason == "" || l.Verdict == NoVerdict || math.IsNaN(l.Value) || l.Expression != expr {
			t.Errorf("%q: %+v", expr, l)
		}
	})
}
