package main

// Which numbers to compute.

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/polyscan/polyscan/internal/spelling"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// reductionFlags choose the numbers.
type reductionFlags struct {
	// What to compute, separated by commas: count, sum, sum_sq, mean, variance, stddev, min, max, histogram,
	// percentiles, median, mode, distinct, centroid, skewness, kurtosis, entropy, mad, iqr, cumulative, distances,
	// plane; or basic, or all. And covered, which is not among all: pixels weighted by the share of them that a region
	// covers; with covered_histogram. The default for --json is all up to centroid, and otherwise what the table shows;
	// a recipe, and a regions file with reductions, decides for itself where none of these flags does.
	Stats []string `placeholder:"NAME" predictor:"stats" group:"numbers"`
	// Percentiles from 0 to 100 to compute (default 1,5,10,25,50,75,90,95,99).
	Percentiles []float64 `placeholder:"P" group:"numbers"`
	// nearest-rank or linear, of percentiles and iqr.
	PercentileMethod string `enum:"nearest-rank,linear" default:"nearest-rank" placeholder:"METHOD" group:"numbers"`
	// Bins of equal width for histograms instead of one for each value.
	Bins uint32 `placeholder:"N" group:"numbers"`
	// Values that --bins covers: from LOWER up to but not including UPPER.
	Range string `placeholder:"LOWER,UPPER" group:"numbers" needs:"bins"`
	// Textures of pairs of pixels, of which the second lies DX columns to the right of the first and DY rows below:
	// contrast, homogeneity, energy, correlation and entropy. May be repeated; "neighbours" stands for 1,0 1,1 0,1
	// -1,1.
	Texture []string `placeholder:"DX,DY" sep:"none" group:"numbers"`
	// Grey levels of --texture and of limits on textures, 2 to 256 (default 64).
	TextureLevels uint32 `placeholder:"N" group:"numbers" needs:"texture"`
	// The counts of pairs, too, for --json.
	TextureCounts bool `group:"numbers" needs:"texture,json"`
	// What blobs are, for limits on blobs, the table and --json, such as '>= 128, min area 12': see polyscan blobs.
	Blobs string `placeholder:"SPEC" group:"numbers"`
	// Pairs of pixels and how much they vary together: autocorrelation(DX,DY), radial(R) for distances up to R,
	// 'ncc of "golden" at (DX,DY)' for the frame of --golden, channels for the frame's own. May be repeated.
	Correlate []string `placeholder:"WHAT" sep:"none" group:"numbers"`
	// Channels to derive from colours, separated by commas: gray (BT.601), gray709 (BT.709), hsv, lab. What limits name
	// is derived anyway.
	Color []string `placeholder:"SPACE" predictor:"colors" group:"numbers"`
	// Nine numbers, row by row: channels matrix.x, matrix.y and matrix.z, of red, green and blue of 0 to 255.
	ColorMatrix string `placeholder:"M,M,…" group:"numbers"`
	// Channels to derive from neighbouring pixels, separated by commas: gradient (its magnitude, in levels a pixel),
	// laplacian (its variance tells focus). What limits name is derived anyway.
	Derivative []string `placeholder:"NAME" predictor:"derivatives" group:"numbers"`
}

var statistics = []struct {
	name string
	stat polyscanv1.Statistic
}{
	{"count", polyscanv1.Statistic_STATISTIC_COUNT},
	{"sum", polyscanv1.Statistic_STATISTIC_SUM},
	{"sum_sq", polyscanv1.Statistic_STATISTIC_SUM_OF_SQUARES},
	{"mean", polyscanv1.Statistic_STATISTIC_MEAN},
	{"variance", polyscanv1.Statistic_STATISTIC_VARIANCE},
	{"stddev", polyscanv1.Statistic_STATISTIC_STDDEV},
	{"min", polyscanv1.Statistic_STATISTIC_MIN},
	{"max", polyscanv1.Statistic_STATISTIC_MAX},
	{"histogram", polyscanv1.Statistic_STATISTIC_HISTOGRAM},
	{"percentiles", polyscanv1.Statistic_STATISTIC_PERCENTILES},
	{"median", polyscanv1.Statistic_STATISTIC_MEDIAN},
	{"mode", polyscanv1.Statistic_STATISTIC_MODE},
	{"distinct", polyscanv1.Statistic_STATISTIC_DISTINCT},
	{"centroid", polyscanv1.Statistic_STATISTIC_CENTROID},
	{"skewness", polyscanv1.Statistic_STATISTIC_SKEWNESS},
	{"kurtosis", polyscanv1.Statistic_STATISTIC_KURTOSIS},
	{"entropy", polyscanv1.Statistic_STATISTIC_ENTROPY},
	{"mad", polyscanv1.Statistic_STATISTIC_MEAN_ABSOLUTE_DEVIATION},
	{"iqr", polyscanv1.Statistic_STATISTIC_INTERQUARTILE_RANGE},
	{"cumulative", polyscanv1.Statistic_STATISTIC_CUMULATIVE},
	{"distances", polyscanv1.Statistic_STATISTIC_DISTANCES},
	{"plane", polyscanv1.Statistic_STATISTIC_PLANE},
}

// What is asked for beside the statistics, by names like theirs.
const covered, coveredHistogram = "covered", "covered_histogram"

// basicStatistics is how many of the first statistics "basic" stands for, the protocol's default, and jsonStatistics
// how many the JSON report has where nobody says otherwise.
const basicStatistics, jsonStatistics = 8, 14

func statisticName(s polyscanv1.Statistic) string {
	for _, k := range statistics {
		if k.stat == s {
			return k.name
		}
	}
	return "unknown"
}

// set reports whether any flag asks for particular numbers.
func (o *reductionFlags) set() bool {
	return len(o.Stats) > 0 || len(o.Percentiles) > 0 || o.Bins != 0 || o.Range != "" || len(o.Texture) > 0 ||
		o.TextureLevels != 0 || o.TextureCounts || o.Blobs != "" || len(o.Correlate) > 0 || len(o.Color) > 0 ||
		o.ColorMatrix != "" || len(o.Derivative) > 0 || o.PercentileMethod == "linear"
}

// message is the flags as the server takes them, with fallback where --stats isn't given. --percentiles, --bins and
// --range bring in what they are about.
func (o *reductionFlags) message(fallback *polyscanv1.Reductions) (*polyscanv1.Reductions, error) {
	r := &polyscanv1.Reductions{
		Statistics:  fallback.GetStatistics(),
		Percentiles: fallback.GetPercentiles(),
		Histogram:   fallback.GetHistogram(),
	}
	if err := o.textures(r); err != nil {
		return nil, err
	}
	for _, text := range o.Correlate {
		t, err := parseTerm(text)
		if err != nil {
			return nil, usage("--correlate: %v", err)
		}
		r.Correlations = append(r.Correlations, t)
	}
	if err := o.derived(r); err != nil {
		return nil, err
	}
	if o.Blobs != "" {
		var err error
		if r.Blobs, err = parseBlobs(o.Blobs); err != nil {
			return nil, usage("--blobs: %v", err)
		}
	}
	if len(o.Stats) > 0 {
		r.Statistics, r.Percentiles = nil, nil
		for _, name := range o.Stats {
			if err := addStatistic(r, name); err != nil {
				return nil, err
			}
		}
	}
	if o.PercentileMethod == "linear" {
		r.PercentileMethod = polyscanv1.PercentileMethod_PERCENTILE_METHOD_LINEAR
	}
	if len(o.Percentiles) > 0 {
		for _, p := range o.Percentiles {
			if !(p >= 0 && p <= 100) {
				return nil, usage("--percentiles %s: must be 0 to 100", number(p))
			}
		}
		r.Percentiles = o.Percentiles
		add(r, polyscanv1.Statistic_STATISTIC_PERCENTILES)
	}
	if o.Bins != 0 {
		r.Histogram = &polyscanv1.HistogramSpec{Bins: o.Bins}
		if o.Range != "" {
			lower, upper, err := parseRange(o.Range)
			if err != nil {
				return nil, usage("--range: %v", err)
			}
			r.Histogram.Lower, r.Histogram.Upper = lower, upper
		}
		add(r, polyscanv1.Statistic_STATISTIC_HISTOGRAM)
	}
	if o.PercentileMethod == "linear" && !has(r, polyscanv1.Statistic_STATISTIC_PERCENTILES) &&
		!has(r, polyscanv1.Statistic_STATISTIC_INTERQUARTILE_RANGE) {
		return nil, usage("--percentile-method has no effect without percentiles or iqr")
	}
	return r, nil
}

// textures puts what the flags say of textures into r.
func (o *reductionFlags) textures(r *polyscanv1.Reductions) error {
	switch {
	case o.TextureLevels != 0 && (o.TextureLevels < 2 || o.TextureLevels > 256):
		return usage("--texture-levels %d: must be 2 to 256", o.TextureLevels)
	case len(o.Texture) == 0:
		return nil
	}
	r.Cooccurrence = &polyscanv1.CooccurrenceSpec{Levels: o.TextureLevels, Counts: o.TextureCounts}
	if len(o.Texture) == 1 && o.Texture[0] == neighbours {
		return nil
	}
	for _, text := range o.Texture {
		offset, err := parseOffset(text)
		switch {
		case err != nil:
			return usage("--texture: %v", err)
		case offset.GetDx() == 0 && offset.GetDy() == 0:
			return usage("--texture %s: a pair is of two pixels, and this is a pixel and itself; want DX,DY, such as 1,0", text)
		}
		r.Cooccurrence.Offsets = append(r.Cooccurrence.Offsets, offset)
	}
	return nil
}

var colorSpaces = []struct {
	name  string
	space polyscanv1.ColorSpace
}{
	{"gray", polyscanv1.ColorSpace_COLOR_SPACE_GRAY}, {"gray709", polyscanv1.ColorSpace_COLOR_SPACE_GRAY_709},
	{"hsv", polyscanv1.ColorSpace_COLOR_SPACE_HSV}, {"lab", polyscanv1.ColorSpace_COLOR_SPACE_LAB},
}

var derivatives = []string{"gradient", "laplacian"} // in the order of the protocol

// derived puts what is to be derived into a message.
func (o *reductionFlags) derived(r *polyscanv1.Reductions) error {
	for _, name := range o.Derivative {
		at := slices.Index(derivatives, strings.ToLower(strings.TrimSpace(name)))
		if at < 0 {
			return usage("--derivative %q: want gradient or laplacian", name)
		}
		if d := polyscanv1.Derivative(at + 1); !slices.Contains(r.Derivatives, d) {
			r.Derivatives = append(r.Derivatives, d)
		}
	}
	for _, name := range o.Color {
		at := slices.IndexFunc(colorSpaces, func(c struct {
			name  string
			space polyscanv1.ColorSpace
		}) bool {
			return strings.EqualFold(c.name, strings.TrimSpace(name))
		})
		if at < 0 {
			return usage("--color %q: want gray, gray709, hsv or lab", name)
		}
		if space := colorSpaces[at].space; !slices.Contains(r.Colors, space) {
			r.Colors = append(r.Colors, space)
		}
	}
	if o.ColorMatrix == "" {
		return nil
	}
	r.Colors = append(r.Colors, polyscanv1.ColorSpace_COLOR_SPACE_MATRIX)
	for text := range strings.SplitSeq(o.ColorMatrix, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil {
			return usage("--color-matrix: %q is no number", text)
		}
		r.ColorMatrix = append(r.ColorMatrix, v)
	}
	if n := len(r.ColorMatrix); n != 9 {
		return usage("--color-matrix: %d numbers: want nine", n)
	}
	return nil
}

// neighbours stands for the offsets that the server takes where nobody says which.
const neighbours = "neighbours"

// parseOffset reads DX,DY.
func parseOffset(s string) (*polyscanv1.PixelOffset, error) {
	a, b, ok := strings.Cut(s, ",")
	dx, errX := strconv.ParseInt(strings.TrimSpace(a), 10, 32)
	dy, errY := strconv.ParseInt(strings.TrimSpace(b), 10, 32)
	if !ok || errX != nil || errY != nil {
		return nil, fmt.Errorf("%q: want DX,DY, such as 1,0", s)
	}
	return &polyscanv1.PixelOffset{Dx: int32(dx), Dy: int32(dy)}, nil
}

// parseRange reads LOWER,UPPER.
func parseRange(s string) (lower, upper float64, err error) {
	a, b, ok := strings.Cut(s, ",")
	if !ok {
		return 0, 0, fmt.Errorf("%q: want LOWER,UPPER", s)
	}
	for _, v := range []struct {
		text string
		to   *float64
	}{{a, &lower}, {b, &upper}} {
		f, err := strconv.ParseFloat(strings.TrimSpace(v.text), 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return 0, 0, fmt.Errorf("%q: %q is no number", s, v.text)
		}
		*v.to = f
	}
	if lower >= upper {
		return 0, 0, fmt.Errorf("%q: LOWER must be less than UPPER", s)
	}
	return lower, upper, nil
}

func addStatistic(r *polyscanv1.Reductions, name string) error {
	low := strings.ToLower(strings.TrimSpace(name))
	switch low {
	case "all":
		for _, k := range statistics {
			add(r, k.stat)
		}
		return nil
	case "basic":
		for _, k := range statistics[:basicStatistics] {
			add(r, k.stat)
		}
		return nil
	case "std":
		low = "stddev"
	case "sum_of_squares":
		low = "sum_sq"
	}
	switch low {
	case covered:
		if r.Covered == nil {
			r.Covered = &polyscanv1.CoveredSpec{}
		}
		return nil
	case coveredHistogram:
		r.Covered = &polyscanv1.CoveredSpec{Histogram: true}
		return nil
	}
	for _, k := range statistics {
		if k.name == low {
			add(r, k.stat)
			return nil
		}
	}
	return usage("--stats %q: want %s, basic or all", name, strings.Join(statisticNames(), ", "))
}

func statisticNames() []string {
	names := make([]string, len(statistics))
	for i, k := range statistics {
		names[i] = k.name
	}
	return names
}

// What else reductions of a regions file begin with.
var (
	correlationWords = []string{"autocorrelation", "autocovariance", "radial", "correlation", "covariance", "ncc"}
	reductionWords   = append([]string{covered, coveredHistogram, "texture", "blobs", "basic", "all", "color",
		"color_matrix", "derivative"}, correlationWords...)
)

// meantReduction asks whether somebody who wrote one word meant another.
func meantReduction(word string) string {
	near := spelling.Nearest(strings.TrimSpace(word), append(statisticNames(), reductionWords...))
	if p, ok := strings.CutPrefix(word, "p"); ok { // as limits have it
		if _, err := strconv.ParseFloat(p, 64); err == nil {
			near = "percentiles(" + p + ")"
		}
	}
	if near == "" {
		return ": want " + strings.Join(statisticNames(), ", ") + ", basic or all"
	}
	return fmt.Sprintf(": did you mean %q?", near)
}

// add asks for one more statistic.
func add(r *polyscanv1.Reductions, s polyscanv1.Statistic) {
	for _, have := range r.Statistics {
		if have == s {
			return
		}
	}
	r.Statistics = append(r.Statistics, s)
}

// has reports whether a statistic is asked for.
func has(r *polyscanv1.Reductions, s polyscanv1.Statistic) bool {
	for _, have := range r.GetStatistics() {
		if have == s {
			return true
		}
	}
	return false
}

// tableReductions is what the table shows when nobody says otherwise.
func tableReductions() *polyscanv1.Reductions {
	return &polyscanv1.Reductions{
		Statistics: []polyscanv1.Statistic{
			polyscanv1.Statistic_STATISTIC_COUNT,
			polyscanv1.Statistic_STATISTIC_MEAN,
			polyscanv1.Statistic_STATISTIC_STDDEV,
			polyscanv1.Statistic_STATISTIC_MIN,
			polyscanv1.Statistic_STATISTIC_MAX,
			polyscanv1.Statistic_STATISTIC_PERCENTILES,
		},
		Percentiles: []float64{50},
	}
}

// defaultPercentiles are the keys of "percentiles" in the JSON report.
var defaultPercentiles = []float64{1, 5, 10, 25, 50, 75, 90, 95, 99}

// jsonReductions is what the JSON report has when nobody says otherwise.
func jsonReductions() *polyscanv1.Reductions {
	r := &polyscanv1.Reductions{Percentiles: defaultPercentiles}
	for _, k := range statistics[:jsonStatistics] {
		add(r, k.stat)
	}
	return r
}

// number writes a float so that it reads back as the same.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
