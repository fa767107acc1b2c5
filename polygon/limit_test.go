package polygon

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/race"
	testseed "github.com/polyscan/polyscan/internal/seed"
	_ "github.com/polyscan/polyscan/internal/shorttest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

func TestParseLimitRefuses(t *testing.T) {
	quantity := "expected a quantity (" + expectedQuantity + ")"
	first := quantity + " or a channel (r, g, b, a, gray, gray709, hue, saturation, value, lab.l, lab.a, lab.b, " +
		"matrix.x, matrix.y, matrix.z, gradient, laplacian)"
	condition := `expected <, <=, >, >=, ==, != or "in"`
	for expr, want := range map[string]string{
		"":                                    "column 1: " + first + ", found the end",
		"   ":                                 "column 4: " + first + ", found the end",
		"< 3":                                 "column 1: " + first + `, found "<"`,
		"avg < 3":                             "column 1: " + quantity + `, found "avg"`,
		"mean":                                "column 5: " + condition + ", found the end",
		"mean = 3":                            "column 6: " + condition + `, found "="`,
		"mean ! 3":                            "column 6: " + condition + `, found "!"`,
		"mean 3":                              "column 6: " + condition + `, found "3"`,
		"mean <":                              "column 7: expected a number, found the end",
		"mean < x":                            `column 8: expected a number, found "x"`,
		"mean < - 3":                          `column 8: expected a number, found "-"`,
		"mean < inf":                          `column 8: expected a number, found "inf"`,
		"mean < NaN":                          `column 8: expected a number, found "NaN"`,
		"mean < 0x10":                         `column 9: expected the end of the limit, found "x"`,
		"mean < 1_000":                        `column 9: expected the end of the limit, found "_"`,
		"mean < 1e999":                        "column 8: number 1e999 is out of range",
		"mean < 3 4":                          `column 10: expected the end of the limit, found "4"`,
		"mean < 3;":                           `column 9: expected the end of the limit, found ";"`,
		"mean ≤ 3":                            "column 6: " + condition + `, found "≤"`,
		"mean < 3, max < 4":                   `column 9: expected the end of the limit, found ","`,
		"mean in 3":                           `column 9: expected "[" or "(", found "3"`,
		"mean in [3":                          `column 11: expected ",", found the end`,
		"mean in [3 4]":                       `column 12: expected ",", found "4"`,
		"mean in [3,":                         "column 12: expected a number, found the end",
		"mean in [3,]":                        `column 12: expected a number, found "]"`,
		"mean in [3,4":                        `column 13: expected "]" or ")", found the end`,
		"mean in [3,4}":                       `column 13: expected "]" or ")", found "}"`,
		"mean in [4, 3]":                      "column 9: the interval from 4 to 3 holds no number",
		"mean in [3, 3)":                      "column 9: the interval from 3 to 3 holds no number",
		"mean in (3, 3]":                      "column 9: the interval from 3 to 3 holds no number",
		"count of pixels above":               "column 22: expected a number, found the end",
		"mean in [x, 4]":                      `column 10: expected a number, found "x"`,
		"mean in [3, 4] x":                    `column 16: expected the end of the limit, found "x"`,
		"r mean < 3":                          `column 3: expected "." behind the channel "r", found "mean"`,
		"Red < 3":                             `column 5: expected "." behind the channel "Red", found "<"`,
		"r. < 3":                              "column 4: " + quantity + `, found "<"`,
		"r.5 < 3":                             "column 3: " + quantity + `, found "5"`,
		"r.r.mean < 3":                        "column 3: " + quantity + `, found "r"`,
		"x.mean < 3":                          "column 1: " + quantity + `, found "x"`,
		"r.count < 3":                         "column 1: count is of the region and has no channel",
		" gray.area < 3":                      "column 2: area is of the region and has no channel",
		"a.coverage == 1":                     "column 1: coverage is of the region and has no channel",
		"p < 3":                               "column 1: " + quantity + `, found "p"`,
		"p 99 < 3":                            "column 1: " + quantity + `, found "p"`,
		"p101 < 3":                            "column 2: percentile 101 is above 100",
		"p100.1 < 3":                          "column 2: percentile 100.1 is above 100",
		"p99x < 3":                            "column 4: " + condition + `, found "x"`,
		"p-1 < 3":                             "column 1: " + quantity + `, found "p"`,
		"count of":                            `column 9: expected "pixels", found the end`,
		"count of pixel below 3 < 4":          `column 10: expected "pixels", found "pixel"`,
		"count of pixels < 4":                 `column 17: expected "below", "above" or "in", found "<"`,
		"count of pixels below < 4":           `column 23: expected a number, found "<"`,
		"count of pixels below 40":            "column 25: " + condition + ", found the end",
		"count of pixels in [1, 2":            `column 25: expected "]" or ")", found the end`,
		"count of pixels in [2, 1] < 3":       "column 20: the interval from 2 to 1 holds no number",
		"mean of pixels below 3 < 4":          "column 6: " + condition + `, found "of"`,
		"mean < 3\x00":                        `column 9: expected the end of the limit, found "\x00"`,
		"\xff":                                "column 1: " + first + `, found "\xff"`,
		strings.Repeat(" ", 250) + "mean < 3": "column 257: the expression has 258 bytes: the limit is 256",
	} {
		_, err := ParseLimit(expr)
		var bad *LimitError
		if !errors.As(err, &bad) {
			t.Errorf("%q: error %v", expr, err)
			continue
		}
		if bad.Reason() != want {
			t.Errorf("%q:\n got %s\nwant %s", expr, bad.Reason(), want)
		}
		if full := "polygon: limit " + quoted(expr) + ": " + want; err.Error() != full || bad.Expression != expr ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error is %q, want %q", expr, err, full)
		}
	}
}

// measuredFrame is 10x1 with samples 10, 20, ..., 100 in each channel that colour has, less the channel's number.
func measuredFrame(format driver.PixelFormat) kernels.Picture {
	data := make([]byte, 10*format.PixelBytes())
	for x := range 10 {
		for c := range int(format.Channels) {
			data[x*format.PixelBytes()+int(format.Order[c])*int(format.SampleBytes)] = byte(10*(x+1) - c)
		}
	}
	return kernels.Picture{Width: 10, Height: 1, Format: format, Data: [][]byte{data}}
}

// rectangle holds w by h pixels from (x, y) on.
func rectangle(x, y, w, h float64) Ring {
	return Ring{{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}}
}

func TestLimits(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	all := rectangle(0, 0, 10, 1)
	gone := rectangle(20, 0, 5, 5)
	point := Ring{{0, 0}, {0, 0}, {0, 0}}
	const allOutside = "outside the frame: all of the region's pixels"
	for _, c := range []struct {
		expr    string
		format  driver.PixelFormat
		ring    Ring
		value   float64 // NaN for none
		channel Channel
		reason  string
	}{
		{"mean in [50, 60]", driver.Gray8, all, 55, Gray, ""},
		{"mean in [55, 55]", driver.Gray8, all, 55, Gray, ""},
		{"mean in (55, 60]", driver.Gray8, all, 55, Gray, "mean 55 is not above 55"},
		{"mean in [50, 55)", driver.Gray8, all, 55, Gray, "mean 55 is not below 55"},
		{"mean in (50, 55.5)", driver.Gray8, all, 55, Gray, ""},
		{"mean in [60, 90]", driver.Gray8, all, 55, Gray, "mean 55 is below 60"},
		{"mean in [-90, 54.999999999]", driver.Gray8, all, 55, Gray, "mean 55 is above 54.999999999"},
		{"MEAN<56", driver.Gray8, all, 55, Gray, ""},
		{"mean < 55", driver.Gray8, all, 55, Gray, "mean 55 is not below 55"},
		{"mean < 54", driver.Gray8, all, 55, Gray, "mean 55 is above 54"},
		{"mean <= 55", driver.Gray8, all, 55, Gray, ""},
		{"mean <= +5.4e1", driver.Gray8, all, 55, Gray, "mean 55 is above 54"},
		{"mean > 54", driver.Gray8, all, 55, Gray, ""},
		{"mean > 55", driver.Gray8, all, 55, Gray, "mean 55 is not above 55"},
		{"mean >= 55", driver.Gray8, all, 55, Gray, ""},
		{"mean >= 55.5", driver.Gray8, all, 55, Gray, "mean 55 is below 55.5"},
		{"mean == 55", driver.Gray8, all, 55, Gray, ""},
		{"mean == 54", driver.Gray8, all, 55, Gray, "mean 55 is not 54"},
		{"mean != 54", driver.Gray8, all, 55, Gray, ""},
		{"mean != 55", driver.Gray8, all, 55, Gray, "mean 55 is the forbidden 55"},
		{"count >= 10", driver.Gray8, all, 10, NoChannel, ""},
		{"count < 10", driver.Gray8, all, 10, NoChannel, "count 10 is not below 10"},
		{"area in [1, 9.5]", driver.Gray8, all, 10, NoChannel, "area 10 is above 9.5"},
		{"coverage == 1", driver.Gray8, all, 1, NoChannel, ""},
		{"coverage == 1", driver.Gray8, rectangle(-10, 0, 15, 1), 1.0 / 3, NoChannel, "coverage 0.333333 is not 1"},
		{"sum <= 549", driver.Gray8, all, 550, Gray, "sum 550 is above 549"},
		{"variance < 825", driver.Gray8, all, 825, Gray, "variance 825 is not below 825"},
		{"stddev > 29", driver.Gray8, all, math.Sqrt(825), Gray, "stddev 28.7228 is below 29"},
		{"min >= 11", driver.Gray8, all, 10, Gray, "min 10 is below 11"},
		{"max <= 99", driver.Gray8, all, 100, Gray, "max 100 is above 99"},
		{"median == 55", driver.Gray8, all, 55, Gray, ""},
		{"mode == 20", driver.Gray8, all, 10, Gray, "mode 10 is not 20"},
		{"distinct > 10", driver.Gray8, all, 10, Gray, "distinct 10 is not above 10"},
		{"p50 < 50", driver.Gray8, all, 50, Gray, "p50 50 is not below 50"},
		{"P99.5 < 50", driver.Gray8, all, 100, Gray, "p99.5 100 is above 50"},
		{"p0 == 10", driver.Gray8, all, 10, Gray, ""},
		{"p100 == 100", driver.Gray8, all, 100, Gray, ""},
		{"p90.0 == 90", driver.Gray8, all, 90, Gray, ""},
		{"count of pixels below 40 <= 9", driver.Gray8, all, 3, Gray, ""},
		{"count of pixels below 40 <= 2", driver.Gray8, all, 3, Gray, "count of pixels below 40: 3 is above 2"},
		{"Count  OF Pixels ABOVE 40 in [7,9]", driver.Gray8, all, 6, Gray, "count of pixels above 40: 6 is below 7"},
		{"count of pixels in [20, 40) == 3", driver.Gray8, all, 2, Gray, "count of pixels in [20, 40): 2 is not 3"},
		{"count of pixels in(20,40]in[0,1]", driver.Gray8, all, 2, Gray, "count of pixels in(20,40]: 2 is above 1"},
		{"count of pixels above 0 == 10", driver.Gray8, all, 10, Gray, ""},
		{"count of pixels below 255 == 10", driver.Gray8, all, 10, Gray, ""},
		{"count of pixels in [10.5, 20.5] == 1", driver.Gray8, all, 1, Gray, ""},
		{"count of pixels in [20, 20] == 1", driver.Gray8, all, 1, Gray, ""},
		{"stddev == 28.7228", driver.Gray8, all, math.Sqrt(825), Gray, "stddev 28.722813232690143 is not 28.7228"},
		{"gray.mean < 50", driver.Gray16(12), all, 55, Gray, "mean 55 is above 50"},

		// Colour: all channels but alpha, and the one that comes nearest to failing, or goes farthest beyond, decides.
		{"mean <= 55", driver.RGB8, all, 55, Red, ""},
		{"mean >= 53", driver.BGR8, all, 53, Blue, ""},
		{"mean >= 54", driver.RGBA8, all, 53, Blue, "blue mean 53 is below 54"},
		{"mean < 54", driver.RGBA8, all, 55, Red, "red mean 55 is above 54"},
		{"mean in [53, 56]", driver.RGBA8, all, 53, Blue, ""},
		{"mean != 54", driver.RGBA8, all, 54, Green, "green mean 54 is the forbidden 54"},
		{"a.mean > 52", driver.RGBA8, all, 52, Alpha, "alpha mean 52 is not above 52"},
		{"alpha . mean == 52", driver.RGBA8, all, 52, Alpha, ""},
		{"g.p50 < 49", driver.BGR8, all, 49, Green, "green p50 49 is not below 49"},
		{"Blue.max <= 98", driver.BGR8, all, 98, Blue, ""},
		{"r.count of pixels below 40 <= 2", driver.RGB8, all, 3, Red, "red count of pixels below 40: 3 is above 2"},
		{"grey.min == 10", driver.Gray8, all, 10, Gray, ""},

		// No pixel: no limit passes, whether its quantity has a value all the same or not.
		{"count == 0", driver.Gray8, gone, 0, NoChannel, allOutside},
		{"count > 0", driver.Gray8, gone, 0, NoChannel, "count 0 is not above 0; " + allOutside},
		{"area == 25", driver.Gray8, gone, 25, NoChannel, allOutside},
		{"coverage > 0", driver.Gray8, gone, 0, NoChannel, "coverage 0 is not above 0"},
		{"coverage >= 0", driver.Gray8, gone, 0, NoChannel, allOutside},
		{"sum == 0", driver.Gray8, gone, 0, Gray, allOutside},
		{"distinct == 0", driver.Gray8, gone, 0, Gray, allOutside},
		{"count of pixels below 9 == 0", driver.Gray8, gone, 0, Gray, allOutside},
		{"mean != 3", driver.Gray8, gone, nan, NoChannel, allOutside},
		{"variance > 0", driver.Gray8, gone, nan, NoChannel, allOutside},
		{"stddev > 0", driver.Gray8, gone, nan, NoChannel, allOutside},
		{"min > 0", driver.RGB8, gone, nan, NoChannel, allOutside},
		{"max > 0", driver.Gray8, gone, nan, NoChannel, allOutside},
		{"median > 0", driver.Gray8, gone, nan, NoChannel, allOutside},
		{"mode > 0", driver.Gray8, gone, nan, NoChannel, allOutside},
		{"p50 > 0", driver.Gray8, gone, nan, NoChannel, allOutside},
		{"coverage == 1", driver.Gray8, point, 1, NoChannel, "the region caught no pixel"},
		{"count == 0", driver.Gray8, point, 0, NoChannel, "the region caught no pixel"},
		{"mean >= 0", driver.Gray8, point, nan, NoChannel, "the region caught no pixel"},

		// Some pixels outside: only a limit on the coverage passes.
		{"count of pixels above 200 <= 5", driver.Gray8, rectangle(-10, 0, 15, 1), 0, Gray,
			"outside the frame: 66.7 % of the region's pixels"},
		{"count == 5", driver.Gray8, rectangle(0, -9999, 5, 10000), 5, NoChannel,
			"outside the frame: 99.9 % of the region's pixels"},
		{"mean > 255", driver.Gray8, rectangle(-10, 0, 15, 1), 30, Gray,
			"mean 30 is below 255; outside the frame: 66.7 % of the region's pixels"},
		{"coverage < 1", driver.Gray8, rectangle(-10, 0, 15, 1), 1.0 / 3, NoChannel,
			"outside the frame: 66.7 % of the region's pixels"},
		{"coverage != 0.3", driver.Gray8, rectangle(-10, 0, 15, 1), 1.0 / 3, NoChannel,
			"outside the frame: 66.7 % of the region's pixels"},
		{"coverage >= 0.3", driver.Gray8, rectangle(-10, 0, 15, 1), 1.0 / 3, NoChannel, ""},
	} {
		s := mustSet(t, Region{Rings: []Ring{c.ring}, Limits: []string{c.expr}})
		res, err := Reduce(context.Background(), dev, s, measuredFrame(c.format), Reductions{Statistics: Count},
			driver.MethodDefault)
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
			continue
		}
		want := LimitResult{Expression: c.expr, Verdict: Pass, Value: c.value, Measured: true, Channel: c.channel,
			Reason: c.reason}
		if c.reason != "" {
			want.Verdict = Fail
		}
		if math.IsNaN(c.value) {
			want.Value, want.Measured = 0, false
		}
		r := res.Regions[0]
		if len(r.Limits) != 1 || r.Limits[0] != want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.expr, r.Limits, want)
		}
		if r.Verdict != want.Verdict || res.Verdict != want.Verdict {
			t.Errorf("%s: region %v, frame %v, want %v", c.expr, r.Verdict, res.Verdict, want.Verdict)
		}
		// What the limit took is not returned.
		for _, ch := range r.Channels {
			if want := (ChannelStatistics{Channel: ch.Channel, Has: Count,
				Count: r.Count}); fmt.Sprint(ch) != fmt.Sprint(want) {
				t.Errorf("%s: returns %+v, want %+v", c.expr, ch, want)
			}
		}
		if s.Limits(0)[0].String() != c.expr || !s.HasLimits() {
			t.Errorf("%s is kept as %q", c.expr, s.Limits(0)[0])
		}
	}
}

func TestNames(t *testing.T) {
	for got, want := range map[fmt.Stringer]string{
		NoVerdict: "NONE", Pass: "PASS", Fail: "FAIL", Verdict(9): "Verdict(9)", Alpha: "alpha",
		Channel(99): "Channel(99)",
		NonZero:     "NON_ZERO", FillRule(9): "FillRule(9)", Linear: "LINEAR",
		PercentileMethod(9): "PercentileMethod(9)",
	} {
		if got.String() != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got, want := quoted(strings.Repeat("x", 63)+"ä"), `"`+strings.Repeat("x", 63)+`…"`; got != want {
		t.Errorf("cut to %s, want %s", got, want)
	}
}

func TestVerdicts(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	all := []Ring{rectangle(0, 0, 10, 1)}
	for _, c := range []struct {
		limits  [][]string
		regions []Verdict
		frame   Verdict
	}{
		{[][]string{nil, nil}, []Verdict{NoVerdict, NoVerdict}, NoVerdict},
		{[][]string{nil, {"mean < 99"}}, []Verdict{NoVerdict, Pass}, Pass},
		{[][]string{{"mean < 99", "mean > 1"}, nil, {"max == 100"}}, []Verdict{Pass, NoVerdict, Pass}, Pass},
		{[][]string{{"mean < 9", "mean > 1"}, nil, {"max == 100"}}, []Verdict{Fail, NoVerdict, Pass}, Fail},
		{[][]string{nil, {"max == 100"}, {"mean > 1", "mean < 9"}}, []Verdict{NoVerdict, Pass, Fail}, Fail},
	} {
		var regions []Region
		for _, l := range c.limits {
			regions = append(regions, Region{Rings: all, Limits: l})
		}
		res, err := Reduce(context.Background(), dev, mustSet(t, regions...), measuredFrame(driver.Gray8), Reductions{},
			driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range res.Regions {
			if r.Verdict != c.regions[i] || len(r.Limits) != len(c.limits[i]) {
				t.Errorf("%v: region %d is %v", c.limits, i, r.Verdict)
			}
		}
		if res.Verdict != c.frame {
			t.Errorf("%v: frame is %v", c.limits, res.Verdict)
		}
	}
}

func TestLimitsOnMissingChannels(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	s := mustSet(t,
		Region{Rings: []Ring{triangle}, Limits: []string{"mean < 3", "r.mean < 3"}},
		Region{Rings: []Ring{triangle}, Limits: []string{"a.max > 3", "gray.max > 3", "matrix.x.max > 3"}})
	for format, want := range map[driver.PixelFormat]string{
		driver.Gray8: `[regions[0].limits[1] = "r.mean < 3": the frame has no red channel (GRAY8) ` +
			`regions[1].limits[0] = "a.max > 3": the frame has no alpha channel (GRAY8) ` +
			`regions[1].limits[2] = "matrix.x.max > 3": the frame has no matrix.x channel (GRAY8)]`,
		driver.Gray16(12): `[regions[0].limits[1] = "r.mean < 3": the frame has no red channel (GRAY16LE with 12 bits) ` +
			`regions[1].limits[0] = "a.max > 3": the frame has no alpha channel (GRAY16LE with 12 bits) ` +
			`regions[1].limits[2] = "matrix.x.max > 3": the frame has no matrix.x channel (GRAY16LE with 12 bits)]`,
		driver.BGR8: `[regions[1].limits[0] = "a.max > 3": the frame has no alpha channel (BGR8) ` +
			`regions[1].limits[2] = "matrix.x.max > 3": the frame has no matrix.x channel (BGR8)]`,
		driver.RGBA8: `[regions[1].limits[2] = "matrix.x.max > 3": the frame has no matrix.x channel (RGBA8)]`,
	} {
		_, err := Reduce(context.Background(), dev, s, measuredFrame(format), Reductions{}, driver.MethodDefault)
		var bad *kernels.InvalidError
		if !errors.As(err, &bad) || fmt.Sprint(bad.Violations) != want {
			t.Errorf("%s: %v, want %s", format, err, want)
		}
	}
}

// TestUnseen: what is said of regions that can't pass reads well for any share of them, and never claims all or
// nothing.
func TestUnseen(t *testing.T) {
	for _, c := range []struct {
		bounds   Rect
		coverage float64
		known    bool
		want     string
	}{
		{Rect{0, 0, 1, 1}, 1, true, ""},
		{Rect{0, 0, 1, 1}, 0.9999999, true, "outside the frame: less than 0.1 % of the region's pixels"},
		{Rect{0, 0, 1, 1}, 0.5, true, "outside the frame: 50 % of the region's pixels"},
		{Rect{0, 0, 1, 1}, 0.0000001, true, "outside the frame: 99.9 % of the region's pixels"},
		{Rect{}, 0, true, "outside the frame: all of the region's pixels"},
		{Rect{}, 1, true, "the region caught no pixel"},
		{Rect{}, 0, false, "outside the frame: the region reaches so far that its pixels there are not counted"},
	} {
		r := RegionResult{Bounds: c.bounds, Coverage: c.coverage, CoverageKnown: c.known}
		if got := unseen(&r, nil); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestRandomLimits compares outcomes with the oracle's numbers.
func TestRandomLimits(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	n := 3000
	switch {
	case race.Enabled:
		n = 100
	case testing.Short():
		n = 500
	}
	verdicts, refused := map[Verdict]int{}, 0
	for seed := range n {
		rng := testseed.New(t, uint64(seed), 77)
		tc := randomCase(rng)
		tc.request = Reductions{Statistics: Count}
		type check struct {
			region int
			holds  bool
			known  bool
			expr   string
		}
		partly := make([]bool, len(tc.regions)) // allowed by a limit on the coverage
		seen := make([]bool, len(tc.regions))   // all pixels are in the frame
		var checks []check
		for i := range tc.regions {
			o := oracle(tc.regions[i], tc.frame)
			seen[i], partly[i] = o.count > 0 && int64(o.count) == o.total, o.count > 0
			if rng.IntN(2) == 0 {
				tc.regions[i].Limits = []string{"coverage >= 0"}
				checks = append(checks, check{i, o.count > 0, true, "coverage >= 0"})
			}
			for range rng.IntN(4) {
				expr, holds, known := randomLimit(rng, &o, tc.frame)
				if why := toothless(t, tc.regions[i], tc.frame.Format, expr); why != "" {
					// A region that catches no pixel fails whatever its limits say; that has no values is no doubt of them.
					none := o.count == 0 && strings.Contains(expr, "distinct")
					if !holds && !none && !strings.HasPrefix(why, "counts ") {
						t.Fatalf("seed %d: %q fails: %s", seed, expr, why)
					}
					refused++
					continue
				}
				tc.regions[i].Limits = append(tc.regions[i].Limits, expr)
				checks = append(checks, check{i, holds, known, expr})
			}
			partly[i] = partly[i] && slices.ContainsFunc(tc.regions[i].Limits, func(l string) bool {
				return strings.HasPrefix(strings.ToLower(l), "coverage")
			})
		}
		res, err := Reduce(context.Background(), dev, mustSet(t, tc.regions...), tc.frame, tc.request,
			driver.MethodDefault)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for i, r := range res.Regions { // where the oracle's boxes are too large
			if oracle(tc.regions[i], tc.frame).total < 0 {
				seen[i] = r.Count > 0 && r.CoverageKnown && r.Coverage == 1
			}
		}
		next := map[int]int{}
		for _, c := range checks {
			got := res.Regions[c.region].Limits[next[c.region]]
			next[c.region]++
			want := Fail
			if c.holds && c.known && (seen[c.region] || partly[c.region]) {
				want = Pass
			}
			verdicts[want]++
			if got.Verdict != want || got.Measured != c.known || got.Expression != c.expr ||
				(got.Reason == "") != (want == Pass) {
				t.Fatalf("seed %d: %q: got %+v, want %v, known %v", seed, c.expr, got, want, c.known)
			}
		}
	}
	if refused == 0 || verdicts[Pass] < n/4 || verdicts[Fail] < n/4 {
		t.Errorf("%d refused, verdicts %v: one of them is hardly tried", refused, verdicts)
	}
}

// toothless is what a frame says to a limit of a region that can't fail there.
func toothless(t *testing.T, r Region, f driver.PixelFormat, expr string) string {
	l, err := ParseLimit(expr)
	if err != nil {
		t.Fatal(err)
	}
	r.Limits = nil
	of := mustSet(t, r).scopeOf(0, reducing(f.Levels()-1, &Reductions{}))
	return l.toothless(&of, "")
}

// TestLimitsThatCannotFail: a limit that holds whatever the picture shows is an error, as early as it can be told: for
// any frame when the set is made, else for the frame's format. Its neighbour that can fail is none.
// A limit that several regions have is meant for those where it can fail.
func TestLimitsOfManyRegions(t *testing.T) {
	square := func(name string, side float64, limits ...string) Region {
		return Region{Name: name, Rings: []Ring{rectangle(0, 0, side, side)}, Limits: limits}
	}
	dev := openCPU(t, kernels.Config{})
	for _, limit := range []string{"count of pixels above 250 <= 40", "entropy < 6", "sum < 20000", `sum - "a".sum <= 20000`} {
		set, err := NewSet([]Region{square("a", 6, limit), square("b", 30, limit)}, Bounds{})
		if err != nil {
			t.Errorf("%s: %v", limit, err)
			continue
		}
		if _, err := Reduce(t.Context(), dev, set, noise(32, 32, driver.Gray8), Reductions{}, 0); err != nil {
			t.Errorf("%s: %v", limit, err)
		}
	}
	const limit = "count of pixels above 250 <= 40"
	_, err := NewSet([]Region{square("a", 6, limit, "max < 9"), square("b", 5, limit), square("c", 30, "max < 9")}, Bounds{})
	if err == nil || !strings.Contains(err.Error(), "can't fail") || !strings.Contains(err.Error(), "(and 1 more)") {
		t.Errorf("%v, want an error of a and b", err)
	}
	// Frames of 8 bits have nothing above 300, in whatever region.
	set := mustSet(t, square("a", 6, "max <= 300"), square("b", 30, "max <= 300"))
	_, err = Reduce(t.Context(), dev, set, noise(32, 32, driver.Gray8), Reductions{}, 0)
	if err == nil || !strings.Contains(err.Error(), "can't fail") || !strings.Contains(err.Error(), "(and 1 more)") {
		t.Errorf("%v, want an error of both", err)
	}
}

func TestLimitsThatCannotFail(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	const any = true
	gray8, gray12, rgb := driver.Gray8, driver.Gray16(12), driver.RGB8
	const most, none, every = "the most pixels that the region can have", "counts no pixel of ", "counts every pixel of "
	for _, c := range []struct {
		expr   string
		format driver.PixelFormat
		any    bool   // whatever the format
		want   string // "" where it can fail
	}{
		{"count of pixels above 300 <= 5", gray8, false, none + "GRAY8, whose samples are 0 to 255"},
		{"count of pixels above 300 <= 5", gray12, false, ""},
		{"count of pixels above 4095 == 0", gray12, false, none + "GRAY16LE with 12 bits, whose samples are 0 to 4095"},
		{"count of pixels above 65535 >= 1", gray8, any, none + "any frame, whose samples are 0 to 65535"},
		{"count of pixels below 0 <= 5", gray8, any, none + "any frame"},
		{"count of pixels in (3, 4) <= 5", gray8, any, none + "any frame"},
		{"count of pixels in [-9, -1] <= 5", rgb, any, none + "any frame"},
		{"count of pixels above -1 <= 5", gray8, any, every + "any frame"},
		{"count of pixels below 256 >= 1", rgb, false, every + "RGB8, whose samples are 0 to 255"},
		{"count of pixels below 256 >= 1", gray12, false, ""},
		{"count of pixels above 254 <= 10", gray8, any, "count of pixels above 254 is 0 to 10, " + most},
		{"count of pixels above 254 <= 9", gray8, false, ""},
		{"count of pixels above 254 >= 0", gray8, any, most},
		{"count of pixels above 254 > -1", gray8, any, most},
		{"count of pixels above 254 != 2.5", gray8, any, "is never 2.5"},
		{"count >= 0", gray8, any, "count is 0 to 10"},
		{"count > 0", gray8, false, ""},
		{"count <= 10", gray8, any, "count is 0 to 10"},
		{"area >= 0", gray8, any, "area is never negative"},
		{"area > 0", gray8, false, ""},
		{"coverage >= 0", gray8, false, ""},
		{"coverage <= 1", gray8, any, "coverage is 0 to 1"},
		{"coverage != 1.5", gray8, any, "coverage is 0 to 1"},
		{"mean in [0, 255]", gray8, false, "mean is 0 to 255 on GRAY8"},
		{"mean in [0, 255]", gray12, false, ""},
		{"mean in (0, 255]", gray8, false, ""},
		{"mean in [0, 255)", gray8, false, ""},
		{"r.mean < 256", rgb, false, "mean is 0 to 255 on RGB8"},
		{"r.mean < 65536", rgb, any, "mean is 0 to 65535 on any frame"},
		{"mean != 300", gray8, false, "mean is 0 to 255"},
		{"mean != 2.5", gray8, false, ""},
		{"max <= 255", gray8, false, "max is 0 to 255"},
		{"max < 255", gray8, false, ""},
		{"max != 254.5", gray8, any, "max is never 254.5"},
		{"min >= 0", gray8, any, "min is 0 to 65535"},
		{"min > -0.5", gray8, any, "min is 0 to 65535"},
		{"median <= 255", gray8, false, "median is 0 to 255"},
		{"mode != -1", gray8, any, "mode is 0 to 65535"},
		{"p99.5 < 300", gray8, false, "p99.5 is 0 to 255"},
		{"variance <= 16256.25", gray8, false, "variance is 0 to 16256.25"},
		{"variance < 16256.25", gray8, false, ""},
		{"stddev <= 127.5", gray8, false, "stddev is 0 to 127.5"},
		{"stddev < 127.5", gray8, false, ""},
		{"stddev >= 0", gray8, any, "stddev is 0 to "},
		{"distinct <= 10", gray8, any, "distinct is 1 to 10"},
		{"distinct < 10", gray8, false, ""},
		{"distinct >= 1", gray8, any, "distinct is 1 to 10"},
		{"distinct > 1", gray8, false, ""},
		{"sum <= 2550", gray8, false, "sum is 0 to 2550"},
		{"sum <= 2550", gray12, false, ""},
		{"sum < 2550", gray8, false, ""},
	} {
		r := Region{Rings: []Ring{rectangle(0, 0, 10, 1)}, Limits: []string{"count > 3", c.expr}}
		s, err := NewSet([]Region{r}, Bounds{})
		if early := err != nil; early != c.any {
			t.Errorf("%s: the set: %v", c.expr, err)
			continue
		}
		if err == nil {
			_, err = Reduce(t.Context(), dev, s, measuredFrame(c.format), Reductions{}, driver.MethodDefault)
		}
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s on %v: %v", c.expr, c.format, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), "regions[0].limits[1]") ||
			!strings.Contains(err.Error(), c.want)):
			t.Errorf("%s on %v: %v, want %q", c.expr, c.format, err, c.want)
		}
	}
	// Of regions without pixels limits fail, and nothing else is said of them.
	s := mustSet(t, Region{Rings: []Ring{{{X: 1, Y: 1}, {X: 1, Y: 1}, {X: 1, Y: 1}}}, Limits: []string{"max <= 255"}})
	res, err := Reduce(t.Context(), dev, s, measuredFrame(gray8), Reductions{}, driver.MethodDefault)
	if err != nil || res.Verdict != Fail {
		t.Errorf("no pixels: %+v, %v", res, err)
	}
}

// randomLimit writes a limit and evaluates it by itself.
func randomLimit(rng *rand.Rand, o *oracleRegion, f kernels.Picture) (expr string, holds, known bool) {
	channels := []int{0}
	prefix := ""
	switch n := len(o.channels); {
	case n == 2: // gray and alpha
		if rng.IntN(2) == 0 {
			channels, prefix = []int{1}, "a."
		}
	case n > 2:
		channels = []int{0, 1, 2}
		if rng.IntN(2) == 0 {
			c := rng.IntN(n)
			channels = []int{c}
			prefix = []string{"r.", "Green.", "b . ", "alpha."}[c]
		}
	case rng.IntN(3) == 0:
		prefix = "gray."
	}
	known = o.count > 0
	values := func(get func(*oracleChannel) float64) (v []float64) {
		for _, c := range channels {
			if known {
				v = append(v, get(&o.channels[c]))
			}
		}
		return v
	}
	always := func() { known = true }
	var vs []float64
	var name string
	bound := float64(rng.IntN(f.Format.Levels()))
	switch rng.IntN(13) {
	case 0:
		name, prefix = "count", ""
		always()
		vs = []float64{float64(o.count)}
	case 1:
		name, prefix = "area", ""
		always()
		vs = []float64{o.area}
	case 2:
		name = "sum"
		always()
		vs = values(func(c *oracleChannel) float64 { return float64(c.sum.Int64()) })
	case 3:
		name = "mean"
		vs = values((*oracleChannel).mean)
	case 4:
		name = "variance"
		vs = values(func(c *oracleChannel) float64 { v, _ := c.spread(); return v })
	case 5:
		name = "stddev"
		vs = values(func(c *oracleChannel) float64 { _, s := c.spread(); return s })
	case 6:
		name = "min"
		vs = values(func(c *oracleChannel) float64 { return float64(c.min) })
	case 7:
		name = "max"
		vs = values(func(c *oracleChannel) float64 { return float64(c.max) })
	case 8:
		name = "median"
		vs = values((*oracleChannel).median)
	case 9:
		name = "mode"
		vs = values(func(c *oracleChannel) float64 { return float64(c.mode()) })
	case 10:
		name = "distinct"
		always()
		vs = values(func(c *oracleChannel) float64 { return float64(len(c.counts())) })
	case 11:
		p := float64(rng.IntN(1001)) / 10
		name = fmt.Sprintf("p%v", p)
		vs = values(func(c *oracleChannel) float64 { return c.nearestRank(p) })
	case 12:
		always()
		count := func(in func(v float64) bool) {
			vs = values(func(c *oracleChannel) float64 {
				n := 0
				for _, v := range c.sorted {
					if in(float64(v)) {
						n++
					}
				}
				return float64(n)
			})
		}
		switch rng.IntN(3) {
		case 0:
			name = fmt.Sprintf("count of pixels below %v", bound)
			count(func(v float64) bool { return v < bound })
		case 1:
			name = fmt.Sprintf("count of pixels above %v", bound)
			count(func(v float64) bool { return v > bound })
		case 2:
			name = fmt.Sprintf("count of pixels in (%v, %v]", bound, 2*bound+1)
			count(func(v float64) bool { return v > bound && v <= 2*bound+1 })
		}
	}
	// Compare with a number near one of the values, and often equal.
	x := float64(rng.IntN(300))
	if len(vs) > 0 {
		x = vs[rng.IntN(len(vs))] + []float64{0, 0, 0.5, -0.5, 7}[rng.IntN(5)]
	}
	every := func(test func(v float64) bool) bool {
		return !slices.ContainsFunc(vs, func(v float64) bool { return !test(v) })
	}
	switch rng.IntN(8) {
	case 0:
		return fmt.Sprintf("%s%s < %v", prefix, name, x), every(func(v float64) bool { return v < x }), known
	case 1:
		return fmt.Sprintf("%s%s<=%v", prefix, name, x), every(func(v float64) bool { return v <= x }), known
	case 2:
		return fmt.Sprintf(" %s%s > %v ", prefix, name, x), every(func(v float64) bool { return v > x }), known
	case 3:
		return fmt.Sprintf("%s%s >=%v", prefix, name, x), every(func(v float64) bool { return v >= x }), known
	case 4:
		return fmt.Sprintf("%s%s==%v", prefix, name, x), every(func(v float64) bool { return v == x }), known
	case 5:
		return fmt.Sprintf("%s%s != %v", prefix, name, x), every(func(v float64) bool { return v != x }), known
	case 6:
		return fmt.Sprintf("%s%s in [%v, %v)", prefix, name, x, x+3), every(func(v float64) bool {
			return v >= x && v < x+3
		}), known
	}
	return fmt.Sprintf("%s%s IN(%v,%v]", prefix, name, x-3, x), every(func(v float64) bool {
		return v > x-3 && v <= x
	}), known
}

// plain is a limit without what letter case and space change: texts, places in them, and names.
func plain(l Limit) (Limit, expression) {
	x := expression{}
	if l.expression != nil {
		x = expression{steps: slices.Clone(l.expression.steps), all: l.expression.all, but: l.expression.but}
		for i := range x.steps {
			x.steps[i].at = 0
		}
		for _, o := range l.expression.operands {
			o.at, o.name, o.is.spelled = 0, "", ""
			x.operands = append(x.operands, o)
		}
	}
	l.expr, l.spelled, l.unitAt, l.expression = "", "", 0, nil
	return l, x
}

func FuzzParseLimit(f *testing.F) {
	for _, s := range []string{"mean in [90, 140]", "p99 < 200", "r.max <= 250", "count of pixels below 40 <= 25",
		"gray . p99.5!=-1e-3", "0<0", `all but 1 of "pad*".mean - 3 > 2`, "area<3mm2", "width - 2 mm in [1, 2] mm",
		"slope over last 5 of max.x < 3 mm",
		"count of pixels in(1,2]in[3,4)", "", "mean <", "\xffmean", "r.5", "p1e5 < 3", "mean < 1e999",
		"contrast(1,0) < 5", "r.entropy ( -1 , +2 ) - entropy > 0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		l, err := ParseLimit(expr)
		if err != nil {
			var bad *LimitError
			if !errors.As(err, &bad) || bad.Column < 1 || bad.Column > len(expr)+1 || bad.Expected == "" ||
				strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%q: error %q", expr, err)
			}
			return
		}
		if l.String() != expr {
			t.Errorf("%q is kept as %q", expr, &l)
		}
		// Letter case and space around signs carry no meaning.
		for _, same := range []string{strings.ToUpper(expr), " " + expr + "\t", strings.ReplaceAll(expr, ",", " , ")} {
			if len(same) > MaxLimit {
				continue
			}
			m, err := ParseLimit(same)
			if err != nil {
				t.Errorf("%q is a limit, and %q is not: %v", expr, same, err)
				continue
			}
			a, x := plain(l)
			b, y := plain(m)
			if a != b || !reflect.DeepEqual(x, y) {
				t.Errorf("%q is %+v, and %q is %+v", expr, l, same, m)
			}
		}
		for _, v := range []float64{0, -1, 55, 1e300, l.want.lo, l.want.hi} {
			if math.IsInf(v, 0) {
				continue
			}
			o := outcome{}
			o.see(&l, v, Red)
			r := o.result(&l)
			if (r.Verdict == Pass) != (r.Reason == "") || r.Verdict == NoVerdict {
				t.Errorf("%q of %v: %+v", expr, v, r)
			}
		}
	})
}
