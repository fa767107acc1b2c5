// Results: from package polygon to messages.

package wire

import (
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// slab hands out values from one allocation after another, because a result has many small ones: thousands of regions
// have a dozen numbers each that the protocol marks as present by a pointer.
type slab[T any] struct {
	free []T
	size int // of the last allocation
}

// A slab starts small, for results of one region, and doubles up to largestSlab.
const (
	smallestSlab = 4
	largestSlab  = 1024
)

func (s *slab[T]) next() *T {
	if len(s.free) == 0 {
		s.size = min(max(2*s.size, smallestSlab), largestSlab)
		s.free = make([]T, s.size)
	}
	p := &s.free[0]
	s.free = s.free[1:]
	return p
}

func (s *slab[T]) of(v T) *T {
	p := s.next()
	*p = v
	return p
}

// resultWriter makes the messages of one result.
type resultWriter struct {
	fields    polygon.Fields
	scale     *polygon.Scale // nil where there is none
	u64       slab[uint64]
	u32       slab[uint32]
	f64       slab[float64]
	points    slab[pb.Point]
	positions slab[pb.PixelPosition]
	rects     slab[pb.PixelRect]
	mmRects   slab[pb.MillimetreRect]
	values    slab[pb.PercentileValue]
	limits    slab[pb.LimitResult]
}

// FrameResult converts a result, of which those fields were asked for. The message shares the histograms' counts and
// the columns with it.
func FrameResult(id string, f kernels.Picture, r *polygon.Result, fields polygon.Fields,
	decode time.Duration) *pb.FrameResult {
	return &pb.FrameResult{
		FrameId: id,
		Layout:  LayoutOf(f),
		Regions: RegionResults(r, fields),
		Columns: RegionColumns(r),
		Verdict: pb.Verdict(r.Verdict),
		Backend: r.Backend,
		Method:  pb.MaskMethod(r.Method),
		Pose:    PoseMessage(r.Pose),
		Times: &pb.StageTimes{
			Decode:  durationpb.New(decode),
			Queue:   durationpb.New(r.Queue),
			Compute: durationpb.New(r.Compute),
		},
	}
}

// RegionResults converts the regions of a result, of which those fields were asked for, in few allocations.
func RegionResults(r *polygon.Result, fields polygon.Fields) []*pb.RegionResult {
	if len(r.Regions) == 0 {
		return nil
	}
	out := make([]*pb.RegionResult, len(r.Regions))
	regions := make([]pb.RegionResult, len(r.Regions))
	nc := 0
	for i := range r.Regions {
		nc += len(r.Regions[i].Channels)
	}
	if !fields.Has(polygon.FieldChannels) {
		nc = 0
	}
	channels := make([]pb.ChannelStatistics, nc)
	list := make([]*pb.ChannelStatistics, nc)
	for i := range list {
		list[i] = &channels[i]
	}
	w := resultWriter{fields: fields, scale: r.Scale}
	for i := range r.Regions {
		from := &r.Regions[i]
		n := min(len(from.Channels), nc)
		out[i] = &regions[i]
		regions[i].Channels, list = list[:n:n], list[n:]
		w.region(&regions[i], from)
	}
	return out
}

func (w *resultWriter) region(to *pb.RegionResult, r *polygon.RegionResult) {
	has := w.fields.Has
	to.Index = uint32(r.Index)
	to.Verdict = pb.Verdict(r.Verdict)
	if has(polygon.FieldName) {
		to.Name = r.Name
	}
	if has(polygon.FieldCount | polygon.FieldChannels) {
		to.Count = r.Count
	}
	if has(polygon.FieldArea) {
		to.Area = r.Area
	}
	if r.CoverageKnown && has(polygon.FieldCoverage) {
		to.Coverage = w.f64.of(r.Coverage)
	}
	if b := r.Bounds; !b.Empty() && has(polygon.FieldBounds) {
		to.Bounds = w.rects.next()
		to.Bounds.X0, to.Bounds.Y0, to.Bounds.X1, to.Bounds.Y1 = uint32(b.X0), uint32(b.Y0), uint32(b.X1), uint32(b.Y1)
	}
	if r.HasCentroid && has(polygon.FieldCentroid) {
		to.Centroid = w.point(r.Centroid)
	}
	if slices.ContainsFunc(r.Channels, func(c polygon.ChannelStatistics) bool { return c.Covered != nil }) {
		to.CoveredCount = w.f64.of(r.CoveredCount)
	}
	if w.scale != nil {
		w.millimetres(to, r)
	}
	if has(polygon.FieldChannels) {
		to.Blobs = w.blobs(r.Blobs)
	}
	for i := range to.Channels {
		w.channel(to.Channels[i], &r.Channels[i])
	}
	if len(r.Limits) > 0 && has(polygon.FieldLimits) {
		to.Limits = make([]*pb.LimitResult, len(r.Limits))
		for i := range r.Limits {
			from, l := &r.Limits[i], w.limits.next()
			l.Expression, l.Verdict, l.Channel, l.Reason = from.Expression, pb.Verdict(from.Verdict),
				pb.Channel(from.Channel), from.Reason
			if from.Measured {
				l.Value = w.f64.of(from.Value)
			}
			l.Parts = uint32(from.Parts)
			to.Limits[i] = l
		}
	}
}

// millimetres adds in mm what of a region is in pixels.
func (w *resultWriter) millimetres(to *pb.RegionResult, r *polygon.RegionResult) {
	if w.fields.Has(polygon.FieldArea) {
		to.AreaMm2 = w.f64.of(w.scale.Area(r.Area))
	}
	if w.fields.Has(polygon.FieldCount | polygon.FieldChannels) {
		to.CountMm2 = w.f64.of(w.scale.Area(float64(r.Count)))
	}
	if b := to.Bounds; b != nil {
		from := w.scale.Place(polygon.Point{X: float64(b.X0), Y: float64(b.Y0)})
		end := w.scale.Place(polygon.Point{X: float64(b.X1), Y: float64(b.Y1)})
		to.BoundsMm = w.mmRects.next()
		to.BoundsMm.X0, to.BoundsMm.Y0, to.BoundsMm.X1, to.BoundsMm.Y1 = from.X, from.Y, end.X, end.Y
	}
	if to.Centroid != nil {
		to.CentroidMm = w.point(w.scale.Place(r.Centroid))
	}
}

func (w *resultWriter) channel(to *pb.ChannelStatistics, c *polygon.ChannelStatistics) {
	to.Channel, to.Step, to.Zero = pb.Channel(c.Channel), c.Step, c.Zero
	has := c.Has.Has
	if has(polygon.Count) {
		to.Count = w.u64.of(c.Count)
	}
	if has(polygon.Sum) {
		to.Sum = w.u64.of(c.Sum)
	}
	if has(polygon.SumOfSquares) {
		to.SumOfSquares = w.u64.of(c.SumOfSquares)
	}
	if has(polygon.Mean) {
		to.Mean = w.f64.of(c.Mean)
	}
	if has(polygon.Variance) {
		to.Variance = w.f64.of(c.Variance)
	}
	if has(polygon.StdDev) {
		to.Stddev = w.f64.of(c.StdDev)
	}
	if has(polygon.Min) {
		to.Min, to.MinAt = w.u32.of(c.Min), w.position(c.MinAt)
	}
	if has(polygon.Max) {
		to.Max, to.MaxAt = w.u32.of(c.Max), w.position(c.MaxAt)
	}
	if has(polygon.Median) {
		to.Median = w.f64.of(c.Median)
	}
	if has(polygon.Mode) {
		to.Mode = w.u32.of(c.Mode)
	}
	if has(polygon.Distinct) {
		to.Distinct = w.u32.of(c.Distinct)
	}
	if has(polygon.Skewness) {
		to.Skewness = w.f64.of(c.Skewness)
	}
	if has(polygon.Kurtosis) {
		to.Kurtosis = w.f64.of(c.Kurtosis)
	}
	if has(polygon.Entropy) {
		to.Entropy = w.f64.of(c.Entropy)
	}
	if has(polygon.MeanAbsoluteDeviation) {
		to.MeanAbsoluteDeviation = w.f64.of(c.MeanAbsoluteDeviation)
	}
	if has(polygon.InterquartileRange) {
		to.InterquartileRange = w.f64.of(c.InterquartileRange)
	}
	if has(polygon.Distances) {
		to.KolmogorovSmirnov, to.Wasserstein = w.f64.of(c.KolmogorovSmirnov), w.f64.of(c.Wasserstein)
		to.JensenShannon, to.ChiSquare = w.f64.of(c.JensenShannon), w.f64.of(c.ChiSquare)
	}
	if has(polygon.Plane) {
		to.PlaneX, to.PlaneY = w.f64.of(c.PlaneX), w.f64.of(c.PlaneY)
		to.PlaneResidual = w.f64.of(c.PlaneResidual)
	}
	to.Cumulative = c.Cumulative
	to.Textures = w.textures(c.Textures)
	to.Covered = w.covered(c.Covered)
	to.Correlations = w.correlations(c.Correlations)
	if has(polygon.Percentiles) && len(c.Percentiles) > 0 {
		to.Percentiles = make([]*pb.PercentileValue, len(c.Percentiles))
		for i, p := range c.Percentiles {
			v := w.values.next()
			v.Percentile, v.Value = p.Percentile, p.Value
			to.Percentiles[i] = v
		}
	}
	if h := c.Histogram; h != nil {
		to.Histogram = &pb.Histogram{Lower: h.Lower, Upper: h.Upper, Counts: h.Counts, Below: h.Below, Above: h.Above}
	}
	if has(polygon.Centroid) {
		to.WeightedCentroid = w.point(c.WeightedCentroid)
	}
	if w.scale == nil {
		return
	}
	if has(polygon.Min) {
		to.MinAtMm = w.point(w.scale.Centre(c.MinAt))
	}
	if has(polygon.Max) {
		to.MaxAtMm = w.point(w.scale.Centre(c.MaxAt))
	}
	if has(polygon.Centroid) {
		to.WeightedCentroidMm = w.point(w.scale.Place(c.WeightedCentroid))
	}
}

// some is v, or nothing where it is none.
func (w *resultWriter) some(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return w.f64.of(v)
}

// covered shares the counts with the result.
func (w *resultWriter) covered(v *polygon.CoveredValue) *pb.Covered {
	if v == nil {
		return nil
	}
	out := &pb.Covered{Sum: v.Sum, Mean: w.some(v.Mean), Variance: w.some(v.Variance), Stddev: w.some(v.StdDev)}
	if h := v.Histogram; h != nil {
		out.Histogram = &pb.CoveredHistogram{Lower: h.Lower, Upper: h.Upper, Counts: h.Counts, Below: h.Below,
			Above: h.Above}
	}
	return out
}

func (w *resultWriter) correlations(from []polygon.CorrelationValue) []*pb.Correlation {
	if len(from) == 0 {
		return nil
	}
	out, all := make([]*pb.Correlation, len(from)), make([]pb.Correlation, len(from))
	for i := range from {
		v, to := &from[i], &all[i]
		to.Of, to.Pairs, to.Product = termOf(v.Correlation), v.Pairs, w.some(v.Product)
		to.Covariance, to.Correlation = w.some(v.Covariance), w.some(v.Coefficient)
		out[i] = to
	}
	return out
}

func termOf(c polygon.Correlation) *pb.CorrelationTerm {
	t := &pb.CorrelationTerm{Kind: pb.CorrelationKind(c.Kind), Radius: uint32(c.Radius), Frame: c.Frame,
		With: pb.Channel(c.With)}
	if c.Kind == polygon.Lagged || c.Kind == polygon.Framed {
		t.Offset = offsetOf(c.Offset)
	}
	return t
}

// textures shares the counts with the result.
func (w *resultWriter) textures(from []polygon.TextureValue) []*pb.Texture {
	if len(from) == 0 {
		return nil
	}
	some := w.some
	out, all := make([]*pb.Texture, len(from)), make([]pb.Texture, len(from))
	for i := range from {
		v, to := &from[i], &all[i]
		to.Offset, to.Levels, to.Pairs = offsetOf(v.Offset), uint32(v.Levels), v.Pairs
		to.Contrast, to.Homogeneity, to.Energy = some(v.Contrast), some(v.Homogeneity), some(v.Energy)
		to.Correlation, to.Entropy = some(v.Correlation), some(v.Entropy)
		to.Counts = v.Counts
		out[i] = to
	}
	return out
}

func offsetOf(o polygon.Offset) *pb.PixelOffset {
	return &pb.PixelOffset{Dx: int32(o.DX), Dy: int32(o.DY)}
}

func (w *resultWriter) point(p polygon.Point) *pb.Point {
	to := w.points.next()
	to.X, to.Y = p.X, p.Y
	return to
}

func (w *resultWriter) position(p polygon.Position) *pb.PixelPosition {
	to := w.positions.next()
	to.X, to.Y = uint32(p.X), uint32(p.Y)
	return to
}
