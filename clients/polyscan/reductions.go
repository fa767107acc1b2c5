package main

// Which numbers to compute.

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/polyscan/polyscan/clients/internal/reductions"
	"github.com/polyscan/polyscan/internal/digits"
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
	// Grey levels of --texture, and of limits on textures that stand beside it, 2 to 256 (default 64, also of limits
	// alone).
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

// jsonStatistics is how many of the first statistics the JSON report has where nobody says otherwise.
const jsonStatistics = 14

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
		t, err := reductions.ParseTerm(text)
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
		if r.Blobs, err = reductions.ParseBlobs(o.Blobs); err != nil {
			return nil, usage("--blobs: %v", err)
		}
	}
	if len(o.Stats) > 0 {
		r.Statistics, r.Percentiles = nil, nil
		for _, name := range o.Stats {
			if err := reductions.AddStatistic(r, name); err != nil {
				return nil, usage("--stats %v", err)
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
		reductions.Add(r, polyscanv1.Statistic_STATISTIC_PERCENTILES)
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
		reductions.Add(r, polyscanv1.Statistic_STATISTIC_HISTOGRAM)
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
		offset, err := reductions.ParseOffset(text)
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

// derived puts what is to be derived into a message.
func (o *reductionFlags) derived(r *polyscanv1.Reductions) error {
	if err := reductions.AddDerivatives(r, o.Derivative); err != nil {
		return usage("--derivative %v", err)
	}
	if err := reductions.AddColors(r, o.Color); err != nil {
		return usage("--color %v", err)
	}
	if o.ColorMatrix == "" {
		return nil
	}
	if err := reductions.AddColorMatrix(r, strings.Split(o.ColorMatrix, ",")); err != nil {
		return usage("--color-matrix: %v", err)
	}
	return nil
}

// neighbours stands for the offsets that the server takes where nobody says which.
const neighbours = "neighbours"

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
		f, err := digits.Float(strings.TrimSpace(v.text))
		if err != nil {
			return 0, 0, fmt.Errorf("%q: %q is no number", s, v.text)
		}
		*v.to = f
	}
	if lower >= upper {
		return 0, 0, fmt.Errorf("%q: LOWER must be less than UPPER", s)
	}
	return lower, upper, nil
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
	for _, k := range reductions.Statistics[:jsonStatistics] {
		reductions.Add(r, k.Statistic)
	}
	return r
}

// number writes a float so that it reads back as the same.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
