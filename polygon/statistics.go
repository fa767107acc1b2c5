// Statistics: what can be asked for, and what comes back for a channel.

package polygon

import (
	"fmt"
	"math"
	"strings"

	"github.com/polyscan/polyscan/kernels"
)

// Statistics is a set of quantities of the pixels inside a region.
type Statistics uint32

const (
	Count Statistics = 1 << iota
	Sum
	SumOfSquares
	Mean
	Variance // population
	StdDev   // population
	Min      // with the position of the first such pixel in row-major order
	Max
	Histogram
	Percentiles
	Median
	Mode
	Distinct
	Centroid // the region's own and the one weighted by intensity
	Skewness // third standardised moment
	Kurtosis // fourth standardised moment: 3 for a normal distribution
	Entropy  // of the values, in bits
	MeanAbsoluteDeviation
	InterquartileRange // by the percentile method
	Cumulative         // the histogram summed up
	Distances          // from the region's reference
	Plane              // that fits the samples best

	needDistribution // some count of samples by value, for a limit; never asked for

	// Basic is what no Statistics at all stands for.
	Basic = Count | Sum | SumOfSquares | Mean | Variance | StdDev | Min | Max
	// AllStatistics is everything.
	AllStatistics = needDistribution - 1
)

var statisticNames = [...]string{"COUNT", "SUM", "SUM_OF_SQUARES", "MEAN", "VARIANCE", "STDDEV", "MIN", "MAX",
	"HISTOGRAM", "PERCENTILES", "MEDIAN", "MODE", "DISTINCT", "CENTROID", "SKEWNESS", "KURTOSIS", "ENTROPY",
	"MEAN_ABSOLUTE_DEVIATION", "INTERQUARTILE_RANGE", "CUMULATIVE", "DISTANCES", "PLANE"}

// Has reports whether all of x are in s.
func (s Statistics) Has(x Statistics) bool { return s&x == x }

// String lists the names, such as "COUNT|MEAN".
func (s Statistics) String() string {
	var names []string
	for i, name := range statisticNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if rest := s &^ AllStatistics; rest != 0 {
		names = append(names, fmt.Sprintf("%#x", uint32(rest)))
	}
	if names == nil {
		return "0"
	}
	return strings.Join(names, "|")
}

// Reductions says what to compute, all of it in one pass over the pixels. The zero value is [Basic].
type Reductions struct {
	Statistics Statistics // 0 means Basic
	// Percentiles to compute where Statistics has them, each in [0, 100], at most 1024, in any order; empty
	// means [DefaultPercentiles]. A percentile stands for the shortest decimal that reads as the same float64, so
	// that p = 99.9 of 1000 pixels is rank 999 exactly.
	Percentiles      []float64
	PercentileMethod PercentileMethod
	// Histogram says how samples are binned; the zero value is one bin a value.
	Histogram HistogramSpec
	// Cooccurrence asks for [ChannelStatistics.Textures], of which pairs of pixels, and says in how many levels limits
	// see them. Nil asks for none.
	Cooccurrence *CooccurrenceSpec
	// Covered asks for [ChannelStatistics.Covered] and [RegionResult.CoveredCount]. Nil asks for none.
	Covered *CoveredSpec
	// Blobs asks for [RegionResult.Blobs], and says what limits on blobs are about. Nil asks for none.
	Blobs *BlobSpec
	// Correlations asks for [ChannelStatistics.Correlations], at most [MaxCorrelations]. Limits name their own.
	Correlations []Correlation
	// Frames are those that correlations name, of the frame's size and format. That before in a stream is "".
	Frames map[string]kernels.Picture
	// Colors says what is derived from colours.
	Colors Colors
	// Derivatives are channels that are derived from neighbouring pixels, [Gradient] and [Laplacian], beside those that
	// limits name. Line-scans have none: their strips come one by one.
	Derivatives []Channel
	// Output says what of it is returned.
	Output Output
}

// maxPercentiles is how many percentiles one call may ask for.
const maxPercentiles = 1024

// maxResultValues is how many histogram counts, and how many percentiles, a result may hold for all regions and
// channels together. A count has 8 bytes.
const maxResultValues = 1 << 27

// Channel names one of the values that a pixel has.
type Channel uint8

const (
	// NoChannel is where no channel is meant.
	NoChannel Channel = iota
	Gray
	Red
	Green
	Blue
	Alpha
	Gray709    // the luma of BT.709 of a colour, 0 to 255; [Gray] is that of BT.601
	Hue        // in degrees, a circle; grays have none
	Saturation // in percent
	Value      // in percent: the greatest of red, green and blue
	LabL       // CIE L*, 0 to 100
	LabA       // CIE a*
	LabB       // CIE b*
	MatrixX    // the first row of [Colors].Matrix
	MatrixY
	MatrixZ

	// Gradient is the magnitude of the gradient after Sobel, in levels a pixel, rounded to an eighth, or where samples
	// have more than 13 bits to 2^(bits-16). It is of the first channel, or the luma of BT.601 of colours. Pixels beyond
	// the frame have the value of the nearest one in it; those outside of a region count, too, along its outline.
	Gradient
	// Laplacian is the sum of the four nearest pixels less four times the pixel, of the same. Of samples of more than 13
	// bits it is rounded to 2^(bits-13). Its variance is a measure of focus. Source: [driver.Derivatives].
	Laplacian
)

var channelNames = [...]string{"none", "gray", "red", "green", "blue", "alpha", "gray709", "hue",
	"saturation", "value", "lab.l", "lab.a", "lab.b", "matrix.x", "matrix.y", "matrix.z",
	"gradient", "laplacian"}

func (c Channel) String() string {
	if int(c) < len(channelNames) {
		return channelNames[c]
	}
	return fmt.Sprintf("Channel(%d)", uint8(c))
}

// channelsOf are the channels of a format in the order of results: red, green, blue, alpha, whatever the order in
// memory. One channel is gray, two are gray and alpha.
func channelsOf(f kernels.PixelFormat) []Channel {
	switch f.Channels {
	case 1:
		return []Channel{Gray}
	case 2:
		return []Channel{Gray, Alpha}
	case 3:
		return []Channel{Red, Green, Blue}
	}
	return []Channel{Red, Green, Blue, Alpha}
}

// Position is a pixel: column X and row Y, from 0.
type Position struct{ X, Y int }

// ChannelStatistics are the numbers of one channel inside one region. Has says which fields hold a value: those
// that were asked for and have one. Of a region that caught no pixel, counts (Count, Distinct, the histogram's) and
// sums are 0, and nothing else has a value. Fields without a value are zero.
//
// Integers are exact. Mean, Variance, StdDev, Median, linear percentiles, WeightedCentroid, Skewness, Kurtosis,
// MeanAbsoluteDeviation, InterquartileRange, KolmogorovSmirnov, Wasserstein and those of the plane are the exact
// values, correctly rounded to float64; those of the plane of a derived channel are rounded twice. Entropy and
// ChiSquare are off by less than 2^-49 of themselves, JensenShannon by less than 2^-47. All of it is the same on every
// backend, with every method and any number of threads.
type ChannelStatistics struct {
	Channel      Channel
	Has          Statistics
	Count        uint64
	Sum          uint64
	SumOfSquares uint64
	Mean         float64
	Variance     float64 // population
	StdDev       float64 // population
	Min, Max     uint32
	MinAt, MaxAt Position // the first such pixel in row-major order
	Median       float64  // the middle sample, or the mean of the two middle ones
	Mode         uint32   // the most frequent value, the smallest of several
	Distinct     uint32   // number of different values
	Percentiles  []PercentileValue
	Histogram    *HistogramCounts // nil unless Has(Histogram)
	// WeightedCentroid is the mean of pixel centres weighted by the samples. It has a value (Has(Centroid)) where
	// their sum is not 0.
	WeightedCentroid Point
	// Skewness and Kurtosis have a value where not all samples are equal.
	Skewness, Kurtosis    float64
	Entropy               float64 // of the values, in bits
	MeanAbsoluteDeviation float64 // mean of |v - mean|
	// InterquartileRange is the 75th percentile less the 25th; of a limit, by nearest rank.
	InterquartileRange float64
	// Cumulative has the samples below the upper end of each bin; those below the first bin are among them.
	Cumulative []uint64
	// The distances have a value where the region has a reference, and both have samples.
	KolmogorovSmirnov float64 // greatest difference of the two cumulative distributions
	Wasserstein       float64 // the first: the area between the two, in levels
	JensenShannon     float64 // divergence in bits, 0 to 1
	ChiSquare         float64 // half the sum of (p-q)^2/(p+q), 0 to 1
	// The plane that fits the samples best, by least squares, where the pixels aren't all on a line: how much samples
	// grow from a pixel to the one on its right, and to the one below, and the root of the mean square of what is left.
	PlaneX, PlaneY, PlaneResidual float64
	// Textures has a value for each offset that was asked for, in order; nil where none was.
	Textures []TextureValue
	// Covered is of pixels that are weighted by coverage; nil where that wasn't asked for, and of derived channels.
	Covered *CoveredValue
	// Correlations has a value for each one that was asked for, in order, all distances of a radius and all channels
	// one by one; nil where none was.
	Correlations []CorrelationValue
	// Of a channel that is derived from colours in steps, samples are integers that stand for (sample - Zero) * Step,
	// see [ChannelStatistics.Value]; else Step is 0. Sum, SumOfSquares, Min, Max and Mode are of samples, all else of
	// what they stand for. Bins of one value, and what follows from them (median, mode, percentiles and those from
	// Skewness on), are of values rounded to Step * 256, of saturation and value to Step * 128, of hues to Step.
	//
	// Of hues Mean is the circular mean in degrees, from 0 to 360, of the pixels that have one, Variance the circular
	// variance, 0 to 1, StdDev the circular standard deviation in degrees; they are off by less than 1e-6. Sums,
	// extrema and what needs an order have no value. Nor has a centroid whose weights may be negative.
	Step float64
	Zero uint32
}

// Validate reports what [Reduce] would refuse whatever the frame, in an [*kernels.InvalidError] with paths such as
// "reductions.percentiles[2]".
func (r Reductions) Validate() error {
	bad := newInvalid()
	r.check(bad)
	return bad.Err()
}

// check collects what is wrong with the request.
func (r *Reductions) check(bad *kernels.InvalidError) {
	if rest := r.Statistics &^ AllStatistics; rest != 0 {
		bad.Add(path{"reductions", "statistics"}, fmt.Sprintf("%#x", uint32(rest)), "are no known statistics")
	}
	if n := len(r.Percentiles); n > maxPercentiles {
		bad.Add(path{"reductions", "percentiles"}, n, "are too many: the limit is %d", maxPercentiles)
	} else {
		for i, p := range r.Percentiles {
			if !(p >= 0 && p <= 100) {
				bad.Add(path{"reductions", "percentiles", i}, number(p), "must be 0 to 100")
			}
		}
	}
	r.Colors.check(bad)
	for i, c := range r.Derivatives {
		if !c.isDerivative() {
			bad.Add(path{"reductions", "derivatives", i}, c, "must be %v or %v", Gradient, Laplacian)
		}
	}
	if r.PercentileMethod > Linear {
		bad.Add(path{"reductions", "percentile_method"}, uint8(r.PercentileMethod), "must be %d (%v) or %d (%v)",
			NearestRank, NearestRank, Linear, Linear)
	}
	if rest := r.Output.Fields &^ allFields; rest != 0 {
		bad.Add(path{"reductions", "output", "fields"}, fmt.Sprintf("%#x", uint16(rest)), "are no known fields")
	}
	if r.Cooccurrence != nil {
		r.Cooccurrence.check(bad)
	}
	if r.Blobs != nil {
		r.Blobs.check(bad)
	}
	if n := len(r.Correlations); n > MaxCorrelations {
		bad.Add(path{"reductions", "correlations"}, n, "are too many: the limit is %d", MaxCorrelations)
	} else {
		for i, c := range r.Correlations {
			if why := c.wrong(); why != "" {
				bad.Add(path{"reductions", "correlations", i}, c.String(), "%s", why)
			}
		}
	}
	h := r.Histogram
	if h.Bins < 0 || h.Bins > maxBins {
		bad.Add(path{"reductions", "histogram", "bins"}, h.Bins, "must be 0 to %d", maxBins)
	}
	finite := func(path path, v float64) bool {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			bad.Add(path, number(v), "must be a finite number")
			return false
		}
		return true
	}
	lower := finite(path{"reductions", "histogram", "lower"}, h.Lower)
	upper := finite(path{"reductions", "histogram", "upper"}, h.Upper)
	if lower && upper && (h.Lower != 0 || h.Upper != 0) {
		switch {
		case h.Lower >= h.Upper:
			bad.Add(path{"reductions", "histogram", "upper"}, number(h.Upper), "must be above lower, %s",
				number(h.Lower))
		case h.Bins == 0:
			bad.Add(path{"reductions", "histogram", "bins"}, "0",
				"must be 1 to %d where lower and upper are given", maxBins)
		}
	}
}
