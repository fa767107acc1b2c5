package polygon

import (
	"context"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// someMatrix is a matrix, with a row that takes steps of more than 1.
var someMatrix = [3][3]float64{{0.299, 0.587, 0.114}, {0.5, -0.4187, -0.0813}, {60, -64, 0.25}}

// colorFrame is a frame of smooth colours, a gray part, and noise.
func colorFrame(g *rand.Rand, w, h int, f kernels.PixelFormat) kernels.Picture {
	px := f.PixelBytes()
	pix := make([]byte, w*h*px)
	for y := range h {
		for x := range w {
			at := pix[(y*w+x)*px:][:px]
			for c := range at {
				at[c] = byte(x*3+c*60+y) + byte(g.IntN(9))
			}
			if y < h/4 {
				for c := range at {
					at[c] = byte(x)
				}
			}
		}
	}
	return kernels.Picture{Width: w, Height: h, Format: f, Data: [][]byte{pix}}
}

// colorBox is one of pixels.
func colorBox(name string, x0, y0, x1, y1 float64, limits ...string) Region {
	return Region{Name: name, Limits: limits, Rings: []Ring{{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}}}
}

// valuesOf are the values of a derived channel inside a rectangle, of samples and rounded to bins, by the definition.
func colorValues(f kernels.Picture, c int, k coding, x0, y0, x1, y1 int, colors driver.Colors) (exactly, bins []float64) {
	for y := y0; y < y1; y++ {
		for x := x0; x < x1; x++ {
			at := f.Data[0][(y*f.Width+x)*f.Format.PixelBytes():]
			o := f.Format.Order
			v := devicetest.ColorSamples(colors, at[o[0]], at[o[1]], at[o[2]])[c]
			exactly = append(exactly, (float64(v)-float64(k.zero))*k.step)
			bin := math.Floor(float64(v)/float64(int(1)<<k.shift) + 0.5)
			if k.shift == 0 {
				bin = float64(v)
			}
			bins = append(bins, (bin*float64(int(1)<<k.shift)-float64(k.zero))*k.step)
		}
	}
	return exactly, bins
}

func near(a, b, within float64) bool { return math.Abs(a-b) <= within*max(1, math.Abs(b)) }

// TestColors compares all statistics of derived channels with what their definitions say, in rows and in columns.
func TestColors(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	g := rand.New(rand.NewPCG(3, 4))
	for _, format := range []kernels.PixelFormat{kernels.RGB8, kernels.BGR8, kernels.RGBA8} {
		f := colorFrame(g, 61, 40, format)
		set, err := NewSet([]Region{colorBox("all", 3, 2, 58, 39), colorBox("gray", 0, 0, 33, 9),
			colorBox("nothing", 70, 70, 80, 80)}, Bounds{})
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range []HistogramSpec{{}, {Bins: 16}, {Bins: 10, Lower: -20, Upper: 60}} {
			r := Reductions{Statistics: AllStatistics &^ Distances, Histogram: spec, Percentiles: []float64{5, 50, 99},
				Colors: Colors{Spaces: allColors, Matrix: someMatrix}}
			res, err := Reduce(context.Background(), dev, set, f, r, MethodDefault)
			if err != nil {
				t.Fatal(err)
			}
			p, err := newPlan(set, f, r)
			if err != nil {
				t.Fatal(err)
			}
			for i, box := range [][4]int{{3, 2, 58, 39}, {0, 0, 33, 9}} {
				for c, got := range res.Regions[i].Channels[p.own:] {
					k := p.codings[p.own+c]
					all, bins := colorValues(f, c, k, box[0], box[1], box[2], box[3], p.colors)
					checkColor(t, fmt.Sprintf("%v, region %d, %v", format, i, got.Channel), &got, k, all, bins, spec)
				}
			}
			r.Output.Columns = true
			columns, err := Reduce(context.Background(), dev, set, f, r, MethodDefault)
			if err != nil {
				t.Fatal(err)
			}
			rows := columns.AsRows()
			for i := range res.Regions {
				if !reflect.DeepEqual(rows.Regions[i], res.Regions[i]) {
					for c := range res.Regions[i].Channels {
						if a, b := rows.Regions[i].Channels[c], res.Regions[i].Channels[c]; !reflect.DeepEqual(a, b) {
							t.Errorf("%v %+v, region %d: columns make\n%+v\nof\n%+v", format, spec, i, a, b)
						}
					}
				}
			}
		}
	}
}

func checkColor(t *testing.T, name string, c *ChannelStatistics, k coding, all, bins []float64, spec HistogramSpec) {
	t.Helper()
	check := func(what string, got, want, within float64) {
		t.Helper()
		if !near(got, want, within) {
			t.Errorf("%s: %s is %v, want %v", name, what, got, want)
		}
	}
	if c.Channel == Hue {
		checkHue(t, name, c, all)
		return
	}
	n := float64(len(all))
	mean := 0.0
	for _, v := range all {
		mean += v / n
	}
	variance := 0.0
	for _, v := range all {
		variance += (v - mean) * (v - mean) / n
	}
	check("mean", c.Mean, mean, 1e-12)
	check("variance", c.Variance, variance, 1e-9)
	check("stddev", c.StdDev, math.Sqrt(variance), 1e-9)
	check("min", c.Value(c.Min), slices.Min(all), 0)
	check("max", c.Value(c.Max), slices.Max(all), 0)
	if c.Count != uint64(n) {
		t.Errorf("%s: %d pixels", name, c.Count)
	}
	check("sum", k.sum(c.Sum, c.Count), mean*n, 1e-9)
	slices.Sort(bins)
	for _, p := range c.Percentiles {
		check("a percentile", p.Value, bins[max(int(math.Ceil(p.Percentile*n/100)), 1)-1], 0)
	}
	check("median", c.Median, (bins[(len(bins)-1)/2]+bins[len(bins)/2])/2, 1e-12)
	binMean, deviation := 0.0, 0.0
	for _, v := range bins {
		binMean += v / n
	}
	for _, v := range bins {
		deviation += math.Abs(v-binMean) / n
	}
	check("mad", c.MeanAbsoluteDeviation, deviation, 1e-9)
	if spec.Lower != spec.Upper {
		counts := make([]uint64, spec.Bins)
		for _, v := range bins {
			if at := int(math.Floor((v - spec.Lower) / (spec.Upper - spec.Lower) * float64(spec.Bins))); at >= 0 && at < spec.Bins {
				counts[at]++
			}
		}
		if !slices.Equal(counts, c.Histogram.Counts) {
			t.Errorf("%s: histogram %v, want %v", name, c.Histogram.Counts, counts)
		}
		return
	}
	total := c.Histogram.Below + c.Histogram.Above
	for i, count := range c.Histogram.Counts {
		total += count
		if len(c.Histogram.Counts) == 256 {
			at := k.bin(float64(i))
			if want := len(slices.DeleteFunc(slices.Clone(bins), func(v float64) bool { return v != at })); int(count) != want {
				t.Errorf("%s: %d samples of %v, want %d", name, count, at, want)
			}
		}
	}
	if total != c.Count {
		t.Errorf("%s: a histogram of %d samples, want %d", name, total, c.Count)
	}
}

func checkHue(t *testing.T, name string, c *ChannelStatistics, degrees []float64) {
	t.Helper()
	var sum complex128
	hued := slices.DeleteFunc(degrees, func(v float64) bool { return v >= 360 })
	for _, v := range hued {
		sum += cmplx.Rect(1, v*math.Pi/180)
	}
	if c.Has&(Sum|Min|Median|Percentiles|Skewness) != 0 {
		t.Errorf("%s has %v", name, c.Has)
	}
	if len(hued) == 0 {
		if c.Has&(Mean|Variance|StdDev|Mode) != 0 || c.Distinct != 0 {
			t.Errorf("%s has %v where no pixel has a hue", name, c.Has)
		}
		return
	}
	length, angle := cmplx.Polar(sum)
	length /= float64(len(hued))
	if angle < 0 {
		angle += 2 * math.Pi
	}
	if !near(c.Mean, angle*180/math.Pi, 1e-7) || !near(c.Variance, 1-length, 1e-7) ||
		!near(c.StdDev, math.Sqrt(-2*math.Log(length))*180/math.Pi, 1e-6) {
		t.Errorf("%s: mean %v, variance %v, deviation %v, want %v, %v", name, c.Mean, c.Variance, c.StdDev,
			angle*180/math.Pi, 1-length)
	}
}

// TestColorLimits judges limits on derived channels, which nobody asked for but them.
func TestColorLimits(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	red := func(pixels ...byte) kernels.Picture {
		return kernels.Picture{Width: len(pixels) / 3, Height: 1, Format: kernels.RGB8, Data: [][]byte{pixels}}
	}
	// Hues of 354, 0 and 6 degrees, and a gray.
	f := red(200, 20, 38, 200, 20, 20, 200, 38, 20, 90, 90, 90)
	for _, c := range []struct {
		limit  string
		pass   bool
		reason string
	}{
		{"hue.mean in [350, 20]", true, ""},
		{"hue.mean in [20, 350]", false, "hue mean"},
		{"hue.mean in (0, 20]", false, "hue mean 0 is not above 0"},
		{"hue.mean in [300, 359]", false, "hue mean 0 is below 300"},
		{"hue.mean in [10, 5]", false, ""},
		{"hue.count of pixels in [350, 3] == 2", true, ""},
		{"hue.count of pixels above 300 == 1", true, ""},
		{"hue.distinct == 3", true, ""},
		{"hue.stddev < 10", true, ""},
		{"hue.mode in [354, 354]", false, "hue mode 0 is below 354"},
		{"gray.max <= 90", true, ""},
		{"gray.p99 < 80", false, "p99 90 is above 80"},
		{"gray709.mean in [60, 80]", true, ""},
		{"lab.l.max < 46", true, ""},
		{"lab.a.max > 60", true, ""},
		{"lab.a.min in [-0.01, 0.01]", true, ""},
		{"lab.b.mean in [-50, 0]", false, "lab.b mean"},
		{"lab.a.count of pixels above 10 == 3", true, ""},
		{"saturation.max == 90", true, ""},
		{"value.max in [78.4, 78.5]", true, ""},
		{"lab.a.mean - lab.b.mean in [5, 90]", true, ""},
		{"max <= 200", true, ""}, // of the frame's channels alone
		{"matrix.y.min in [-1, 1]", true, ""},
	} {
		set, err := NewSet([]Region{colorBox("", 0, 0, 4, 1, c.limit)}, Bounds{})
		if err != nil {
			t.Errorf("%s: %v", c.limit, err)
			continue
		}
		res, err := Reduce(context.Background(), dev, set, f, Reductions{Colors: Colors{Matrix: someMatrix}}, MethodDefault)
		if err != nil {
			t.Errorf("%s: %v", c.limit, err)
			continue
		}
		if l := res.Regions[0].Limits[0]; (l.Verdict == Pass) != c.pass && c.limit != "hue.mean in [10, 5]" ||
			!strings.Contains(l.Reason, c.reason) {
			t.Errorf("%s: %+v", c.limit, l)
		}
	}
	for limit, want := range map[string]string{
		"hue.min > 3":                         "hue is an angle",
		"hue.p50 > 3":                         "hue is an angle",
		"hue.mean in [3, 400]":                "0 to 360",
		"lab.mean > 3":                        "a channel of lab",
		"lab.a > 3":                           "behind the channel",
		"lab.a.weighted.x > 3":                "no weight",
		"lab.a.mean in [9, 2]":                "holds no number",
		"lab.l.mean <= 100":                   "can't fail",
		"lab.a.mean >= -128":                  "can't fail: mean is -86.1875 to 98.25",
		"saturation.count > 3":                "of the region and has no channel",
		"hue.count of pixels in [3, 400] > 1": "0 to 360",
		"hue.count of pixels above 400 > 3":   "column 27: a hue is 0 to 360",
		"hue.count of pixels below 1e9 < 3":   "column 27: a hue is 0 to 360",
		"hue.count of pixels below -1 < 3":    "column 27: a hue is 0 to 360",
	} {
		_, err := NewSet([]Region{colorBox("", 0, 0, 4, 1, limit)}, Bounds{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", limit, err, want)
		}
	}
	// Frames without colours, and a matrix that nobody gave.
	gray := kernels.Picture{Width: 4, Height: 1, Format: kernels.Gray8, Data: [][]byte{{1, 2, 3, 4}}}
	for _, c := range []struct {
		limit string
		f     kernels.Picture
		r     Reductions
		want  string
	}{
		{"hue.mean > 3", gray, Reductions{}, "the frame has no hue channel"},
		{"mean > 3", gray, Reductions{Colors: Colors{Spaces: ColorLab}}, "reductions.colors"},
		{"matrix.x.mean > 3", f, Reductions{}, "the frame has no matrix.x channel"},
		{"mean > 3", f, Reductions{Colors: Colors{Spaces: ColorMatrix}}, "reductions.color_matrix: must be given, and not all 0"},
		{"mean > 3", f, Reductions{Colors: Colors{Spaces: 64}}, "no known colour spaces"},
		{"mean > 3", f, Reductions{Colors: Colors{Matrix: [3][3]float64{{65}}}}, "color_matrix[0]"},
	} {
		set, err := NewSet([]Region{colorBox("", 0, 0, 4, 1, c.limit)}, Bounds{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Reduce(context.Background(), dev, set, c.f, c.r, MethodDefault); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %+v: error %v, want %q", c.limit, c.r, err, c.want)
		}
	}
}

// TestColorScan: strips of a part give the bits of the whole part.
func TestColorScan(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	g := rand.New(rand.NewPCG(5, 6))
	f := colorFrame(g, 47, 60, kernels.RGB8)
	set, err := NewSet([]Region{colorBox("a", 1, 1, 40, 59, "lab.a.mean in [-9, 9]", "hue.mean in [350, 20]"),
		colorBox("b", 20, 30, 47, 60)}, Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	r := Reductions{Statistics: AllStatistics &^ Distances, Colors: Colors{Spaces: ColorHSV | ColorLab | ColorGray}}
	want, err := Reduce(context.Background(), dev, set, f, r, MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	s, err := set.NewScanner(context.Background(), dev, ScanConfig{Width: 47, Format: kernels.RGB8, PartLines: 60,
		Reductions: r})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Start(1, 0); err != nil {
		t.Fatal(err)
	}
	var parts []*ScannedPart
	for y := 0; y < 60; {
		n := min(1+g.IntN(9), 60-y)
		strip := kernels.Picture{Width: 47, Height: n, Format: kernels.RGB8, Data: [][]byte{f.Data[0][y*141 : (y+n)*141]}}
		done, err := s.Strip(context.Background(), ScanStrip{FirstLine: uint64(y), Frame: strip})
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, done...)
		y += n
	}
	if len(parts) != 1 || !reflect.DeepEqual(parts[0].Result.Regions, want.Regions) {
		t.Errorf("%d parts, or they differ from the whole", len(parts))
	}
}

// TestHueAlone: a hue of which no counts were asked for has no numbers, whatever was derived before.
func TestHueAlone(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	f := kernels.Picture{Width: 2, Height: 1, Format: kernels.RGB8, Data: [][]byte{{250, 250, 250, 9, 200, 251}}}
	set := mustSet(t, colorBox("", 0, 0, 2, 1))
	for _, want := range []Statistics{Histogram | Median, Sum, Count, Min | Max, Centroid} {
		for range 20 {
			// Leaves values beyond all hues in memory that is used again.
			if _, err := Reduce(context.Background(), dev, set, f, Reductions{Statistics: Histogram}, MethodDefault); err != nil {
				t.Fatal(err)
			}
			res, err := Reduce(context.Background(), dev, set, f, Reductions{Statistics: want,
				Colors: Colors{Spaces: ColorHSV}}, MethodDefault)
			if err != nil {
				t.Fatal(err)
			}
			if c := res.Regions[0].Channels[3]; want&Histogram == 0 && (c.Has&^Count != 0 || c.Sum != 0 || c.Distinct != 0) {
				t.Errorf("%v: %+v", want, c)
			}
		}
	}
}
