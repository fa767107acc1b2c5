package main

// The JSON report of a frame.

import (
	"encoding/json"
	"io"
	"slices"
	"strconv"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/clients/internal/reductions"
	"github.com/polyscan/polyscan/internal/exact"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// frameReport is what --json prints. The order of the fields is the order in the output; unset values are null. Later
// versions may add fields, and never change or remove one.
type frameReport struct {
	Backend string         `json:"backend"`
	Width   uint32         `json:"width"`
	Height  uint32         `json:"height"`
	Regions []regionReport `json:"regions"`

	Frame       string      `json:"frame"`
	PixelFormat string      `json:"pixel_format"`
	Bits        uint32      `json:"significant_bits"`
	Method      string      `json:"method"`
	Verdict     *string     `json:"verdict"`
	Times       timesReport `json:"times_ms"`
	Part        *string     `json:"part"`

	Pose     []float64       `json:"pose,omitempty"`     // a, b, c, d, e, f, with which the regions were moved
	Location *locationReport `json:"location,omitempty"` // where the regions say how to find it
}

type timesReport struct {
	Decode  *float64 `json:"decode"`
	Queue   *float64 `json:"queue"`
	Compute *float64 `json:"compute"`
}

type regionReport struct {
	Name     string          `json:"name"`
	Channels []channelReport `json:"channels"`

	Index    uint32        `json:"index"`
	Count    uint64        `json:"count"`
	Area     float64       `json:"area"`
	Coverage *float64      `json:"coverage"`
	Bounds   *[4]uint32    `json:"bounds"` // x0, y0, x1, y1, half-open
	Centroid *[2]float64   `json:"centroid"`
	Verdict  *string       `json:"verdict"`
	Limits   []limitReport `json:"limits"`

	AreaMM2    *float64    `json:"area_mm2,omitempty"` // and those behind it where the regions have a scale
	CountMM2   *float64    `json:"count_mm2,omitempty"`
	Covered    *float64    `json:"covered_count,omitempty"`
	BoundsMM   *[4]float64 `json:"bounds_mm,omitempty"`
	CentroidMM *[2]float64 `json:"centroid_mm,omitempty"`

	Blobs *blobsReport `json:"blobs,omitempty"`
}

type channelReport struct {
	Count       *uint64       `json:"count"`
	Sum         *uint64       `json:"sum"`
	SumSq       *uint64       `json:"sum_sq"`
	Mean        *float64      `json:"mean"`
	Variance    *float64      `json:"variance"`
	StdDev      *float64      `json:"stddev"`
	Min         *float64      `json:"min"`
	Max         *float64      `json:"max"`
	MinAt       *[2]uint32    `json:"min_at"`
	MaxAt       *[2]uint32    `json:"max_at"`
	Median      *float64      `json:"median"`
	Mode        *float64      `json:"mode"`
	Distinct    *uint32       `json:"distinct"`
	Percentiles percentileMap `json:"percentiles"`
	Histogram   []uint64      `json:"histogram"`

	Name     string       `json:"name"`
	Centroid *[2]float64  `json:"centroid"` // weighted by the samples
	Range    *rangeReport `json:"histogram_range"`

	// Of channels derived in steps: sum and sum_sq are of samples v that stand for (v - zero) * step.
	Step *float64 `json:"step,omitempty"`
	Zero *uint32  `json:"zero,omitempty"`

	Skewness           *float64 `json:"skewness,omitempty"`
	Kurtosis           *float64 `json:"kurtosis,omitempty"`
	Entropy            *float64 `json:"entropy,omitempty"`
	MeanDeviation      *float64 `json:"mad,omitempty"`
	InterquartileRange *float64 `json:"iqr,omitempty"`
	Cumulative         []uint64 `json:"cumulative,omitempty"`
	KolmogorovSmirnov  *float64 `json:"ks,omitempty"`
	Wasserstein        *float64 `json:"wasserstein,omitempty"`
	JensenShannon      *float64 `json:"js,omitempty"`
	ChiSquare          *float64 `json:"chisquare,omitempty"`
	PlaneX             *float64 `json:"plane_x,omitempty"`
	PlaneY             *float64 `json:"plane_y,omitempty"`
	PlaneResidual      *float64 `json:"plane_residual,omitempty"`

	Textures     []textureReport     `json:"textures,omitempty"`
	Covered      *coveredReport      `json:"covered,omitempty"`
	Correlations []correlationReport `json:"correlations,omitempty"`

	MinAtMM    *[2]float64 `json:"min_at_mm,omitempty"` // centres of the pixels
	MaxAtMM    *[2]float64 `json:"max_at_mm,omitempty"`
	CentroidMM *[2]float64 `json:"centroid_mm,omitempty"`
}

type rangeReport struct {
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
	Below uint64  `json:"below"`
	Above uint64  `json:"above"`
}

// coveredReport is of pixels that are weighted by coverage.
type coveredReport struct {
	Sum       float64             `json:"sum"`
	Mean      *float64            `json:"mean"`
	Variance  *float64            `json:"variance"`
	StdDev    *float64            `json:"stddev"`
	Histogram []float64           `json:"histogram,omitempty"`
	Range     *coveredRangeReport `json:"histogram_range,omitempty"`
}

type coveredRangeReport struct {
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
	Below float64 `json:"below"`
	Above float64 `json:"above"`
}

func coveredOf(v *polyscanv1.Covered) *coveredReport {
	if v == nil {
		return nil
	}
	out := &coveredReport{Sum: v.GetSum(), Mean: v.Mean, Variance: v.Variance, StdDev: v.Stddev}
	if h := v.GetHistogram(); h != nil {
		out.Histogram = h.GetCounts()
		out.Range = &coveredRangeReport{h.GetLower(), h.GetUpper(), h.GetBelow(), h.GetAbove()}
	}
	return out
}

// textureReport is what the pairs at one offset come to. Counts has a row for each level of the first pixel.
type textureReport struct {
	Offset      [2]int32   `json:"offset"`
	Levels      uint32     `json:"levels"`
	Pairs       uint64     `json:"pairs"`
	Contrast    *float64   `json:"contrast"`
	Homogeneity *float64   `json:"homogeneity"`
	Energy      *float64   `json:"energy"`
	Correlation *float64   `json:"correlation"`
	Entropy     *float64   `json:"entropy"`
	Counts      [][]uint32 `json:"counts,omitempty"`
}

// correlationReport is what the pairs of a correlation come to. Of is as limits spell it.
type correlationReport struct {
	Of          string   `json:"of"`
	Pairs       uint64   `json:"pairs"`
	Product     *float64 `json:"product"`
	Covariance  *float64 `json:"covariance"`
	Correlation *float64 `json:"correlation"`
}

func textureOf(t *polyscanv1.Texture) textureReport {
	out := textureReport{
		Offset: [2]int32{t.GetOffset().GetDx(), t.GetOffset().GetDy()}, Levels: t.GetLevels(), Pairs: t.GetPairs(),
		Contrast: t.Contrast, Homogeneity: t.Homogeneity, Energy: t.Energy, Correlation: t.Correlation,
		Entropy: t.Entropy,
	}
	for row := range slices.Chunk(t.GetCounts(), max(int(t.GetLevels()), 1)) {
		out.Counts = append(out.Counts, row)
	}
	return out
}

type limitReport struct {
	Expression string   `json:"expression"`
	Verdict    *string  `json:"verdict"`
	Value      *float64 `json:"value"`
	Channel    *string  `json:"channel"`
	Reason     *string  `json:"reason"`
	Parts      uint32   `json:"parts,omitempty"` // of how many parts the value is, of a limit over the last ones
}

// percentileMap is an object from percentiles to values. Keys keep the order asked for; those without a value are null.
type percentileMap []percentileEntry

type percentileEntry struct {
	p float64
	v *float64
}

func (m percentileMap) MarshalJSON() ([]byte, error) {
	if m == nil {
		return []byte("null"), nil
	}
	b := []byte{'{'}
	for i, e := range m {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendQuote(b, number(e.p))
		b = append(b, ':')
		v, err := json.Marshal(e.v)
		if err != nil {
			return nil, err
		}
		b = append(b, v...)
	}
	return append(b, '}'), nil
}

// reportOf translates a result. asked are the percentiles that were asked for, so that a region without pixels shows
// them.
func reportOf(name string, res *polyscanv1.FrameResult, asked []float64) *frameReport {
	r := &frameReport{
		Backend:     res.GetBackend(),
		Width:       res.GetLayout().GetWidth(),
		Height:      res.GetLayout().GetHeight(),
		Regions:     make([]regionReport, len(res.GetRegions())),
		Frame:       name,
		PixelFormat: cli.FormatName(res.GetLayout().GetPixelFormat()),
		Bits:        res.GetLayout().GetSignificantBits(),
		Method:      methodName(res.GetMethod()),
		Verdict:     verdictName(res.GetVerdict()),
		Pose:        res.GetPose().GetAffine(),
		Location:    locationOf(res.GetLocation()),
		Times: timesReport{
			Decode:  milliseconds(res.GetTimes().GetDecode()),
			Queue:   milliseconds(res.GetTimes().GetQueue()),
			Compute: milliseconds(res.GetTimes().GetCompute()),
		},
	}
	if id := res.GetPartId(); id != "" {
		r.Part = &id
	}
	for i, g := range res.GetRegions() {
		out := regionReport{
			Name:     g.GetName(),
			Channels: make([]channelReport, len(g.GetChannels())),
			Index:    g.GetIndex(),
			Count:    g.GetCount(),
			Area:     g.GetArea(),
			Coverage: g.Coverage,
			Verdict:  verdictName(g.GetVerdict()),
			Limits:   make([]limitReport, len(g.GetLimits())),

			AreaMM2:    g.AreaMm2,
			CountMM2:   g.CountMm2,
			Covered:    g.CoveredCount,
			CentroidMM: point(g.GetCentroidMm()),
		}
		if b := g.GetBoundsMm(); b != nil {
			out.BoundsMM = &[4]float64{b.GetX0(), b.GetY0(), b.GetX1(), b.GetY1()}
		}
		if b := g.GetBounds(); b != nil {
			out.Bounds = &[4]uint32{b.GetX0(), b.GetY0(), b.GetX1(), b.GetY1()}
		}
		out.Centroid, out.Blobs = point(g.GetCentroid()), blobsOf(g.GetBlobs())
		for j, c := range g.GetChannels() {
			out.Channels[j] = channelOf(c, asked)
		}
		for j, l := range g.GetLimits() {
			out.Limits[j] = limitOf(l)
		}
		r.Regions[i] = out
	}
	return r
}

func channelOf(c *polyscanv1.ChannelStatistics, asked []float64) channelReport {
	out := channelReport{
		Count:    c.Count,
		Sum:      c.Sum,
		SumSq:    c.SumOfSquares,
		Mean:     c.Mean,
		Variance: c.Variance,
		StdDev:   c.Stddev,
		Min:      sample(c, c.Min),
		Max:      sample(c, c.Max),
		MinAt:    position(c.GetMinAt()),
		MaxAt:    position(c.GetMaxAt()),
		Median:   c.Median,
		Mode:     sample(c, c.Mode),
		Distinct: c.Distinct,
		Name:     channelName(c.GetChannel()),
		Centroid: point(c.GetWeightedCentroid()),

		Skewness:           c.Skewness,
		Kurtosis:           c.Kurtosis,
		Entropy:            c.Entropy,
		MeanDeviation:      c.MeanAbsoluteDeviation,
		InterquartileRange: c.InterquartileRange,
		Cumulative:         c.GetCumulative(),
		KolmogorovSmirnov:  c.KolmogorovSmirnov,
		Wasserstein:        c.Wasserstein,
		JensenShannon:      c.JensenShannon,
		ChiSquare:          c.ChiSquare,
		PlaneX:             c.PlaneX,
		PlaneY:             c.PlaneY,
		PlaneResidual:      c.PlaneResidual,

		MinAtMM:    point(c.GetMinAtMm()),
		MaxAtMM:    point(c.GetMaxAtMm()),
		CentroidMM: point(c.GetWeightedCentroidMm()),
	}
	out.Covered = coveredOf(c.GetCovered())
	for _, t := range c.GetTextures() {
		out.Textures = append(out.Textures, textureOf(t))
	}
	for _, v := range c.GetCorrelations() {
		out.Correlations = append(out.Correlations, correlationReport{reductions.FormatTerm(v.GetOf()), v.GetPairs(),
			v.Product, v.Covariance, v.Correlation})
	}
	if c.GetStep() != 0 {
		out.Step, out.Zero = &c.Step, &c.Zero
	}
	if got := c.GetPercentiles(); len(got) > 0 {
		for _, p := range got {
			out.Percentiles = append(out.Percentiles, percentileEntry{p.GetPercentile(), &p.Value})
		}
	} else {
		for _, p := range asked {
			out.Percentiles = append(out.Percentiles, percentileEntry{p, nil})
		}
	}
	if h := c.GetHistogram(); h != nil {
		out.Histogram = h.GetCounts()
		out.Range = &rangeReport{h.GetLower(), h.GetUpper(), h.GetBelow(), h.GetAbove()}
	}
	return out
}

// sample is what a sample of a channel stands for.
func sample(c *polyscanv1.ChannelStatistics, v *uint32) *float64 {
	if v == nil {
		return nil
	}
	value := exact.Sample(*v, c.GetStep(), c.GetZero())
	return &value
}

func limitOf(l *polyscanv1.LimitResult) limitReport {
	out := limitReport{Expression: l.GetExpression(), Verdict: verdictName(l.GetVerdict()), Value: l.Value,
		Parts: l.GetParts()}
	if l.GetChannel() != polyscanv1.Channel_CHANNEL_UNSPECIFIED {
		name := channelName(l.GetChannel())
		out.Channel = &name
	}
	if l.GetReason() != "" {
		reason := l.GetReason()
		out.Reason = &reason
	}
	return out
}

// writeJSON prints one value on one line.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // limits are full of < and >
	return enc.Encode(v)
}

// askedPercentiles is what a percentile object of a region without pixels has for keys.
func askedPercentiles(r *polyscanv1.Reductions) []float64 {
	if !has(r, polyscanv1.Statistic_STATISTIC_PERCENTILES) {
		return nil
	}
	if len(r.GetPercentiles()) == 0 {
		return defaultPercentiles
	}
	return r.GetPercentiles()
}

func position(p *polyscanv1.PixelPosition) *[2]uint32 {
	if p == nil {
		return nil
	}
	return &[2]uint32{p.GetX(), p.GetY()}
}

func point(p *polyscanv1.Point) *[2]float64 {
	if p == nil {
		return nil
	}
	return &[2]float64{p.GetX(), p.GetY()}
}

func milliseconds(d *durationpb.Duration) *float64 {
	if d == nil {
		return nil
	}
	v := float64(d.AsDuration().Microseconds()) / 1e3
	return &v
}

// verdictName is PASS, FAIL, or nil where no limit was given.
func verdictName(v polyscanv1.Verdict) *string {
	var s string
	switch v {
	case polyscanv1.Verdict_VERDICT_PASS:
		s = "PASS"
	case polyscanv1.Verdict_VERDICT_FAIL:
		s = "FAIL"
	default:
		return nil
	}
	return &s
}

func channelName(c polyscanv1.Channel) string {
	switch c {
	case polyscanv1.Channel_CHANNEL_GRAY:
		return "gray"
	case polyscanv1.Channel_CHANNEL_RED:
		return "red"
	case polyscanv1.Channel_CHANNEL_GREEN:
		return "green"
	case polyscanv1.Channel_CHANNEL_BLUE:
		return "blue"
	case polyscanv1.Channel_CHANNEL_ALPHA:
		return "alpha"
	case polyscanv1.Channel_CHANNEL_GRAY_709:
		return "gray709"
	case polyscanv1.Channel_CHANNEL_HUE:
		return "hue"
	case polyscanv1.Channel_CHANNEL_SATURATION:
		return "saturation"
	case polyscanv1.Channel_CHANNEL_VALUE:
		return "value"
	case polyscanv1.Channel_CHANNEL_LAB_L:
		return "lab.l"
	case polyscanv1.Channel_CHANNEL_LAB_A:
		return "lab.a"
	case polyscanv1.Channel_CHANNEL_LAB_B:
		return "lab.b"
	case polyscanv1.Channel_CHANNEL_MATRIX_X:
		return "matrix.x"
	case polyscanv1.Channel_CHANNEL_MATRIX_Y:
		return "matrix.y"
	case polyscanv1.Channel_CHANNEL_MATRIX_Z:
		return "matrix.z"
	case polyscanv1.Channel_CHANNEL_GRADIENT:
		return "gradient"
	case polyscanv1.Channel_CHANNEL_LAPLACIAN:
		return "laplacian"
	}
	return ""
}
