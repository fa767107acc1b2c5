package polygon

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

func box4(x float64) []Ring { return []Ring{{{x, 0}, {x + 4, 0}, {x + 4, 1}, {x, 1}}} }

// between4 are four regions of four pixels: means 10, 20, 40 and 80, and one without pixels.
func between4(limits ...string) []Region {
	return []Region{
		{Name: "U7", Rings: box4(0), Limits: limits},
		{Name: "ref", Rings: box4(4)},
		{Name: "pad 1", Rings: box4(8)},
		{Name: "pad 2", Rings: box4(12)},
		{Name: "nothing", Rings: []Ring{{{3.6, 3.6}, {3.7, 3.6}, {3.7, 3.7}}}},
		{Name: "outside", Rings: box4(14)},
		{Name: "twice", Rings: box4(0)}, {Name: "twice", Rings: box4(0)},
	}
}

func frame4(format driver.PixelFormat) kernels.Picture {
	f := kernels.Picture{Width: 16, Height: 1, Format: format, Data: [][]byte{nil}}
	for x := range 16 {
		for c := range int(format.Channels) {
			f.Data[0] = append(f.Data[0], byte([]int{10, 20, 40, 80}[x/4]+c))
		}
	}
	return f
}

func TestLimitsBetween(t *testing.T) {
	dev := openCPU(t, kernels.Config{MemoryBytes: 1 << 20})
	for _, c := range []struct {
		expr    string
		value   float64
		channel Channel
		reason  string
	}{
		{`"U7".mean - "ref".mean in [-15, 5]`, -10, Gray, ""},
		{`mean - "ref".mean in [-5, 5]`, -10, Gray, `mean - "ref".mean -10 is below -5`},
		{`"ref".mean/mean == 2`, 2, Gray, ""},
		{`"ref".mean / "U7".mean < 2`, 2, Gray, `"ref".mean / "U7".mean 2 is not below 2`},
		{`(mean + "ref".mean) * 2 - 3*mean == 30`, 30, Gray, ""},
		{`mean -3 == 7`, 7, Gray, ""},
		{`mean-3+"ref".mean*-1 == -13`, -13, Gray, ""},
		{`100 - 2 - 3 - mean == 85`, 85, Gray, ""},
		{`80 / 4 / 2 + mean == 20`, 20, Gray, ""},
		{`"ref".count * area == 16`, 16, NoChannel, ""},
		{`"ref".gray.p50 - gray.min > 9`, 10, NoChannel, ""},
		{`largest of "*".mean == 80`, math.NaN(), Gray, `region "nothing": the region caught no pixel`},
		{`largest of "pad*".mean == 80`, 80, Gray, ""},
		{`largest 2 of "pad *".mean - mean <= 29`, 30, Gray, `largest 2 of "pad *".mean - mean 30 is above 29`},
		{`smallest of "*ad*".max == 40`, 40, Gray, ""},
		{`all of "pad*".mean in [40, 80]`, 0, Gray, ""},
		{`all of "pad*".mean < 80`, 1, Gray, `all of "pad*".mean: 1 of 2 don't hold, at most 0 may: "pad 2" 80`},
		{`all but 1 of "pad*".mean < 80`, 1, Gray, ""},
		{`mean / ("ref".mean - 20) < 3`, math.NaN(), Gray, "something is divided by 0, or runs over"},
		{`(mean - 10) / ("ref".mean - 20) < 3`, math.NaN(), Gray, "something is divided by 0, or runs over"},
		{`mean + "ref".skewness < 3`, math.NaN(), Gray, `skewness of region "ref" has none`},
		{`mean - "nothing".mean < 3`, math.NaN(), NoChannel, `region "nothing": the region caught no pixel`},
		{`count - "nothing".count == 4`, 4, NoChannel, `region "nothing": the region caught no pixel`},
		{`"outside".mean - mean < 200`, 70, Gray, `region "outside": outside the frame: 50 % of the region's pixels`},
		{`mean - "outside".mean > 0`, -70, Gray,
			`mean - "outside".mean -70 is below 0; region "outside": outside the frame: 50 % of the region's pixels`},
	} {
		set, err := NewSet(between4("mean < 200", c.expr), Bounds{})
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
			continue
		}
		var results []*Result
		for _, columns := range []bool{false, true} {
			res, err := Reduce(t.Context(), dev, set, frame4(driver.Gray8), Reductions{Statistics: Count,
				Output: Output{Columns: columns}}, driver.MethodDefault)
			if err != nil {
				t.Fatalf("%s: %v", c.expr, err)
			}
			results = append(results, res.AsRows())
		}
		scan, err := set.NewScanner(t.Context(), dev, ScanConfig{Width: 16, Format: driver.Gray8, PartLines: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := scan.Start(1, 0); err != nil {
			t.Fatal(err)
		}
		parts, err := scan.Strip(t.Context(), ScanStrip{Frame: frame4(driver.Gray8)})
		if err != nil || len(parts) != 1 || parts[0].Err != nil {
			t.Fatalf("%s: %d parts, %v", c.expr, len(parts), err)
		}
		scan.Close()
		results = append(results, parts[0].Result)
		for i, res := range results {
			r := res.Regions[0]
			l := r.Limits[1]
			if !strings.Contains(l.Reason, c.reason) || (l.Verdict == Pass) != (c.reason == "") || l.Expression != c.expr ||
				r.Verdict != l.Verdict || res.Verdict != l.Verdict || l.Measured && l.Value != c.value ||
				l.Measured == math.IsNaN(c.value) {
				t.Errorf("%s: result %d: %+v (%v), want %v, %q", c.expr, i, l, r.Verdict, c.value, c.reason)
			}
		}
	}
	// Colour: each channel but alpha, unless one is named.
	for expr, want := range map[string]string{
		`"ref".mean - mean == 10`:                                    "",
		`"ref".mean - r.mean <= 11`:                                  `blue "ref".mean - r.mean 12 is above 11`,
		`"ref".b.mean - r.mean < 12`:                                 `"ref".b.mean - r.mean 12 is not below 12`,
		`all of "pad*".mean <= 81`:                                   `all of "pad*".mean: 1 of 2 don't hold, at most 0 may: "pad 2" 82`,
		`largest of "pad*".a.mean - smallest of "pad*".a.mean == 40`: "",
	} {
		res, err := Reduce(t.Context(), dev, mustSet(t, between4(expr)...), frame4(driver.RGBA8), Reductions{}, driver.MethodDefault)
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		if l := res.Regions[0].Limits[0]; (l.Verdict == Pass) != (want == "") || !strings.Contains(l.Reason, want) {
			t.Errorf("%s: %+v, want %q", expr, l, want)
		}
	}
	if _, err := Reduce(t.Context(), dev, mustSet(t, between4(`mean - "ref".b.mean < 0`)...), frame4(driver.Gray8), Reductions{},
		driver.MethodDefault); err == nil || !strings.Contains(err.Error(), "the frame has no blue channel") {
		t.Errorf("a channel that the frame lacks: %v", err)
	}
}

func TestBadLimitsBetween(t *testing.T) {
	for expr, want := range map[string]string{
		`"U8".mean - mean < 3`:            `column 1: no region has the name "U8"`,
		`mean - "none*".mean < 3`:         `column 8: "none*" is a group of regions: say all of, largest of or smallest of`,
		`largest of "none*".mean < 3`:     `column 12: no region has the name "none*"`,
		`largest 3 of "pad*".mean < 3`:    `column 14: "pad*" are 2 regions`,
		`all but 2 of "pad*".mean < 3`:    `column 14: "pad*" are 2 regions: with so many exceptions nothing can fail`,
		`"twice".mean < 3`:                `column 1: 2 regions have the name "twice"`,
		`"ref" < 3`:                       `column 7: expected "." behind the name of a region, found "<"`,
		`"ref".meen < 3`:                  `column 7: expected a quantity`,
		`"ref.mean < 3`:                   `column 1: expected a quantity`,
		`mean - < 3`:                      `column 8: expected a quantity`,
		`(mean < 3`:                       `column 7: expected ")", +, -, * or /, found "<"`,
		`mean - "ref".mean`:               `column 18: expected <, <=, >, >=, ==, != or "in", found the end`,
		`mean - "ref".mean < mean`:        `column 21: expected a number`,
		`largest 0 of "pad*".mean < 3`:    `ranks begin at 1`,
		`largest 1.5 of "pad*".mean < 3`:  `column 9: expected a whole number up to 1000, found "1.5"`,
		`largest of mean < 3`:             `column 12: expected a group of regions`,
		`all "pad*".mean < 3`:             `column 5: expected "of"`,
		`all of "pad*".mean - mean < 3`:   `column 20: expected <`,
		`mean - "ref".ks < 3`:             `column 8: ks is of a region and its reference, and can't be part of an expression`,
		`"ref".r.area - area < 3`:         `area is of the region and has no channel`,
		strings.Repeat("(", 300) + "mean": `the limit is 256`,
		strings.Repeat("(", 200) + "mean": `column 205: expected ")"`,
	} {
		_, err := NewSet(between4(expr), Bounds{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", expr, err, want)
		}
	}
}

// What limits between regions may cost is bounded, whatever they say.
func TestCostOfLimitsBetween(t *testing.T) {
	many := func(n int, limits func(i int) []string) []Region {
		list := make([]Region, n)
		for i := range list {
			list[i] = Region{Name: fmt.Sprintf("pad %d", i), Rings: box4(0), Limits: limits(i)}
		}
		return list
	}
	for want, list := range map[string][]Region{
		"": many(1000, func(int) []string { return []string{`all of "pad*".mean < 9`} }),
		"look at more than 1048576 regions in all": many(1100, func(int) []string { return []string{`all of "pad*".mean < 9`} }),
		"have more groups than can be looked for":  many(4200, func(i int) []string { return []string{fmt.Sprintf(`all of "*%d".mean < 9`, i)} }),
		"need more than 64 quantities of region \"pad 1\"": many(80, func(i int) []string {
			return []string{fmt.Sprintf(`"pad 1".count of pixels below %d - mean > 0`, i+1)}
		}),
	} {
		_, err := NewSet(list, Bounds{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// randomExpression is an expression as text, in fewest brackets or more, and its value as IEEE arithmetic has it.
func randomExpression(rng *rand.Rand, depth int) (text string, v float64, level int) {
	means := map[string]float64{`"U7".mean`: 10, "mean": 10, `"ref".mean`: 20, `"pad 1".max`: 40, `largest of "pad*".min`: 80}
	if depth == 0 || rng.IntN(4) == 0 {
		if rng.IntN(3) == 0 {
			n := float64(1 + rng.IntN(99))
			return fmt.Sprint(n), n, 2
		}
		for text, v := range means {
			return text, v, 2
		}
	}
	a, va, la := randomExpression(rng, depth-1)
	b, vb, lb := randomExpression(rng, depth-1)
	sign := "+-*/"[rng.IntN(4)]
	level = 0
	if sign == '*' || sign == '/' {
		level = 1
	}
	if la < level || rng.IntN(5) == 0 {
		a = "(" + a + ")"
	}
	if lb <= level || rng.IntN(5) == 0 {
		b = "( " + b + " )"
	}
	switch sign {
	case '+':
		v = va + vb
	case '-':
		v = va - vb
	case '*':
		v = va * vb
	default:
		v = va / vb
	}
	return a + []string{"", " "}[rng.IntN(2)] + string(sign) + " " + b, v, level
}

func TestRandomExpressions(t *testing.T) {
	dev := openCPU(t, kernels.Config{MemoryBytes: 1 << 20})
	rng := seed.New(t, 18, 5)
	judged := 0
	for range 300 {
		text, v, _ := randomExpression(rng, 3)
		finite := !math.IsNaN(v) && !math.IsInf(v, 0)
		expr := text + " >= 1"
		if finite {
			expr = fmt.Sprintf("%s >= %v", text, v)
		}
		if len(expr) > MaxLimit || !strings.Contains(text, `"`) {
			continue
		}
		var res *Result
		set, err := NewSet(between4(expr), Bounds{})
		if err == nil {
			res, err = Reduce(t.Context(), dev, set, frame4(driver.Gray8), Reductions{}, driver.MethodDefault)
		}
		if finite && err != nil && strings.Contains(err.Error(), "can't fail") {
			continue // and it holds
		}
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		l := res.Regions[0].Limits[0]
		if l.Measured != finite || finite && l.Value != v || finite != (l.Verdict == Pass) {
			t.Errorf("%s: %+v, want %v", expr, l, v)
		}
		judged++
	}
	if judged < 100 {
		t.Errorf("%d expressions", judged)
	}
}

func FuzzExpression(f *testing.F) {
	for _, s := range []string{`"U7".mean - "ref".mean in [-5, 5]`, `all but 1 of "pad*".mean < 3`, `(mean+2)*largest 2 of "*".p50/3 > -1`} {
		f.Add(s)
	}
	dev := openCPU(f, kernels.Config{MemoryBytes: 1 << 20})
	f.Fuzz(func(t *testing.T, expr string) {
		set, err := NewSet(between4(expr), Bounds{})
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

// A limit on a group that each region of the group has takes memory for one list of its members, not for one a region.
func TestGroupsShareTheirMembers(t *testing.T) {
	regions := make([]Region, 1000)
	for i := range regions {
		regions[i] = Region{Name: fmt.Sprint(i), Rings: box4(0), Limits: []string{`all of "*".mean > 254.9`}}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := NewSet(regions, Bounds{}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 6<<20 {
		t.Errorf("%d bytes, where the members of all limits are 16 MB", took)
	}
}

// A limit that stands in several regions is judged once, and comes to what limits of the same meaning do that are told
// apart by their blanks: with regions outside the frame among its own and the others', without pixels, and by channel.
func TestLimitsThatStandAnywhere(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	rng := seed.New(t, 41, 1)
	f := noise(12, 4, driver.RGB8)
	for range 200 {
		expr := []string{`all of "*".mean > 90`, `all but 2 of "*".max < 200`, `"0".mean - "1".mean in [-9, 9]`,
			`all of "*".r.min >= 9`, `largest of "*".mean < 250`, `"2".count / "3".count <= 1`}[rng.IntN(6)]
		var same, apart []Region
		for i := range 5 {
			r := Region{Name: fmt.Sprint(i), Rings: box4(float64(3*i - 3 + rng.IntN(3))), Limits: []string{expr}}
			same = append(same, r)
			r.Limits = []string{strings.Repeat(" ", i) + expr}
			apart = append(apart, r)
		}
		var got [2][]string
		for k, regions := range [][]Region{same, apart} {
			set, err := NewSet(regions, Bounds{})
			if err != nil {
				t.Fatal(err)
			}
			if many := len(set.distinct) > 1; many != (k == 1) {
				t.Fatalf("%d limits are told apart", len(set.distinct))
			}
			res, err := Reduce(t.Context(), dev, set, f, Reductions{}, driver.MethodDefault)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range res.Regions {
				l := r.Limits[0]
				got[k] = append(got[k], fmt.Sprint(l.Verdict, l.Measured, l.Value, l.Channel, l.Reason, r.Verdict))
			}
		}
		if !slices.Equal(got[0], got[1]) {
			t.Errorf("%s: %q, want %q", expr, got[0], got[1])
		}
	}
}
