// Results as columns: from package polygon to bytes.

package wire

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"

	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// outputOf is what of a result comes back.
func outputOf(m *pb.ResultOptions) polygon.Output {
	out := polygon.Output{
		Columns: m.GetForm() == pb.ResultForm_RESULT_FORM_COLUMNS,
		Failed:  m.GetRegions() == pb.RegionChoice_REGION_CHOICE_FAILED,
	}
	for _, f := range m.GetFields() {
		out.Fields |= polygon.FieldVerdict << (f - pb.RegionField_REGION_FIELD_VERDICT)
	}
	return out
}

// RegionColumns converts the columns of a result. The message shares their memory.
func RegionColumns(r *polygon.Result) *pb.RegionColumns {
	c := r.Columns
	if c == nil {
		return nil
	}
	m := &pb.RegionColumns{
		Rows: uint32(c.Rows), Regions: uint32(c.Regions), Channels: make([]pb.Channel, len(c.Channels)),
		Percentiles: c.Percentiles, Scale: messageOf(r.Scale),
		Index: littleEndian(c.Index), Verdict: littleEndian(c.Verdict), Count: littleEndian(c.Count),
		Area: littleEndian(c.Area), Coverage: littleEndian(c.Coverage), Bounds: littleEndian(c.Bounds),
		Centroid: littleEndian(c.Centroid),
		Sum:      littleEndian(c.Sum), SumOfSquares: littleEndian(c.SumOfSquares),
		Min: littleEndian(c.Min), Max: littleEndian(c.Max), MinAt: littleEndian(c.MinAt), MaxAt: littleEndian(c.MaxAt),
		Median: littleEndian(c.Median), Mode: littleEndian(c.Mode), Distinct: littleEndian(c.Distinct),
		Percentile: littleEndian(c.Percentile), WeightedCentroid: littleEndian(c.WeightedCentroid),
		Skewness: littleEndian(c.Skewness), Kurtosis: littleEndian(c.Kurtosis), Entropy: littleEndian(c.Entropy),
		MeanAbsoluteDeviation: littleEndian(c.MeanAbsoluteDeviation),
		InterquartileRange:    littleEndian(c.InterquartileRange),
		KolmogorovSmirnov:     littleEndian(c.KolmogorovSmirnov),
		Wasserstein:           littleEndian(c.Wasserstein),
		JensenShannon:         littleEndian(c.JensenShannon),
		ChiSquare:             littleEndian(c.ChiSquare),
		PlaneX:                littleEndian(c.PlaneX), PlaneY: littleEndian(c.PlaneY),
		PlaneResidual: littleEndian(c.PlaneResidual),
		Steps:         c.Steps, Zeros: c.Zeros,
		Mean: littleEndian(c.Mean), Variance: littleEndian(c.Variance), Stddev: littleEndian(c.StdDev),
	}
	if len(c.Percentiles) > 0 {
		m.PercentileMethod = pb.PercentileMethod_PERCENTILE_METHOD_NEAREST_RANK
		if c.PercentileMethod == polygon.Linear {
			m.PercentileMethod = pb.PercentileMethod_PERCENTILE_METHOD_LINEAR
		}
	}
	for i, ch := range c.Channels {
		m.Channels[i] = pb.Channel(ch)
	}
	for s := range len(pb.Statistic_name) - 1 {
		if c.Statistics.Has(polygon.Count << s) {
			m.Statistics = append(m.Statistics, pb.Statistic_STATISTIC_COUNT+pb.Statistic(s))
		}
	}
	if c.Name != nil {
		m.Name = textColumn(len(c.Name), func(i int) string { return c.Name[i] })
	}
	if h := c.Histogram; h != nil {
		m.Histogram = &pb.HistogramColumns{
			Bins: uint32(h.Bins), Lower: h.Lower, Upper: h.Upper, Full: h.Full, Counts: littleEndian(h.Counts),
			Below: littleEndian(h.Below), Above: littleEndian(h.Above),
		}
	}
	if v := c.Covered; v != nil {
		m.Covered = &pb.CoveredColumns{Count: littleEndian(v.Count), Sum: littleEndian(v.Sum),
			Mean: littleEndian(v.Mean), Variance: littleEndian(v.Variance)}
		if h := v.Histogram; h != nil {
			m.Covered.Histogram = &pb.CoveredHistogramColumns{Bins: uint32(h.Bins), Lower: h.Lower, Upper: h.Upper,
				Counts: littleEndian(h.Counts), Below: littleEndian(h.Below), Above: littleEndian(h.Above)}
		}
	}
	if t := c.Textures; t != nil {
		m.Textures = &pb.TextureColumns{
			Levels: uint32(t.Levels), Pairs: littleEndian(t.Pairs), Contrast: littleEndian(t.Numbers[0]),
			Homogeneity: littleEndian(t.Numbers[1]), Energy: littleEndian(t.Numbers[2]),
			Correlation: littleEndian(t.Numbers[3]), Entropy: littleEndian(t.Numbers[4]),
			Counts: littleEndian(t.Counts),
		}
		for _, o := range t.Offsets {
			m.Textures.Offsets = append(m.Textures.Offsets, offsetOf(o))
		}
	}
	if b := c.Blobs; b != nil {
		m.BlobsFound, m.BlobsKept = littleEndian(b.Found), littleEndian(b.Kept)
		m.BlobsSeen, m.BlobArea = littleEndian(b.Seen), littleEndian(b.Area)
	}
	if t := c.Correlations; t != nil {
		m.Correlations = &pb.CorrelationColumns{Pairs: littleEndian(t.Pairs), Product: littleEndian(t.Product),
			Covariance: littleEndian(t.Covariance), Correlation: littleEndian(t.Coefficient)}
		for _, c := range t.Correlations {
			m.Correlations.Terms = append(m.Correlations.Terms, termOf(c))
		}
	}
	if c.LimitEnds != nil {
		n := len(c.Limits)
		l := &pb.LimitColumns{
			Ends:       littleEndian(c.LimitEnds),
			Expression: textColumn(n, func(i int) string { return c.Limits[i].Expression }),
			Verdict:    make([]byte, n), Channel: make([]byte, n),
			Reason: textColumn(n, func(i int) string { return c.Limits[i].Reason }),
		}
		values := make([]float64, n)
		for i := range c.Limits {
			from := &c.Limits[i]
			l.Verdict[i], l.Channel[i], values[i] = byte(from.Verdict), byte(from.Channel), math.NaN()
			if from.Measured {
				values[i] = from.Value
			}
		}
		l.Value = littleEndian(values)
		if slices.ContainsFunc(c.Limits, func(l polygon.LimitResult) bool { return l.Parts != 0 }) {
			parts := make([]uint32, n)
			for i := range c.Limits {
				parts[i] = uint32(c.Limits[i].Parts)
			}
			l.Parts = littleEndian(parts)
		}
		m.Limits = l
	}
	return m
}

// textColumn is that of n texts.
func textColumn(n int, text func(i int) string) *pb.TextColumn {
	size := 0
	for i := range n {
		size += len(text(i))
	}
	all, ends := make([]byte, 0, size), make([]uint32, n)
	for i := range n {
		all = append(all, text(i)...)
		ends[i] = uint32(len(all))
	}
	return &pb.TextColumn{Text: all, Ends: littleEndian(ends)}
}

// isLittleEndian says that words lie in memory as columns have them.
var isLittleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// littleEndian is a column's bytes: the column's own memory, where that is possible. T has a fixed size.
func littleEndian[T any](column []T) []byte {
	if len(column) == 0 {
		return nil
	}
	if isLittleEndian {
		first := unsafe.Pointer(unsafe.SliceData(column))
		return unsafe.Slice((*byte)(first), len(column)*int(unsafe.Sizeof(column[0])))
	}
	out, _ := binary.Append(nil, binary.LittleEndian, column) // fails for types without a fixed size
	return out
}
