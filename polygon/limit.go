// Limits: what must hold for a region, and why it did not.

package polygon

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/polyscan/polyscan/internal/exact"
	"unsafe"
)

// Verdict is the outcome of limits.
type Verdict uint8

const (
	// NoVerdict: there was no limit.
	NoVerdict Verdict = iota
	Pass
	Fail
)

func (v Verdict) String() string {
	switch v {
	case NoVerdict:
		return "NONE"
	case Pass:
		return "PASS"
	case Fail:
		return "FAIL"
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// LimitResult is the outcome of one limit.
type LimitResult struct {
	// Expression as given.
	Expression string
	Verdict    Verdict
	// Value measured; only where Measured.
	Value float64
	// Measured is false where the quantity has no value, because the region caught no pixel; of a skewness or a
	// kurtosis because all samples are equal, and of a plane because all pixels are on a line.
	Measured bool
	// Channel whose value decided: of the channels that the limit looks at, the one nearest to failing or farthest
	// beyond. NoChannel for a quantity of the region itself.
	Channel Channel
	// Parts says of how many parts the value is, where the limit is over the last ones of a stream: fewer than it says
	// where the stream is younger, and where parts are missing or have no value. 0 of other limits.
	Parts int
	// Reason why it failed, for people, such as "mean 143.2 is above 140"; empty for a PASS.
	Reason string
}

// Limit is a condition on one quantity of a region, compiled by [ParseLimit]. It is immutable.
type Limit struct {
	expr     string
	channel  Channel // NoChannel: every channel but alpha
	quantity quantity
	percent  exact.Fraction // of a percentile
	spelled  string         // the quantity as reasons spell it

	pixels      interval    // of "count of pixels ..."
	offset      Offset      // of a quantity of pairs
	expression  *expression // of a limit between regions
	blobs       *blobQuery  // of a quantity of blobs
	want        interval
	op          operator
	correlation Correlation // of a coefficient or a covariance

	millimetres bool   // there is a unit somewhere: lengths and areas are in mm and mm²
	unit        int    // of the condition: 1 of mm, 2 of mm²
	unitAt      int    // where the first unit is
	scale       *Scale // of the set that the limit is in
}

// bytes is about how much memory a limit takes beside its text, and a pointer to it.
func (l *Limit) bytes() int64 {
	n := int64(unsafe.Sizeof(*l) + unsafe.Sizeof(l))
	if x := l.expression; x != nil {
		n += int64(unsafe.Sizeof(*x)) + int64(cap(x.steps))*int64(unsafe.Sizeof(step{})) +
			int64(cap(x.operands))*int64(unsafe.Sizeof(operand{}))
	}
	if q := l.blobs; q != nil {
		n += int64(unsafe.Sizeof(*q)) + int64(cap(q.on))*int64(unsafe.Sizeof(l))
		for i := range q.of {
			n += q.of[i].bytes()
		}
	}
	return n
}

// quantity is what a limit measures.
type quantity uint8

const (
	quantityCount quantity = iota
	quantityArea
	quantityCoverage
	quantityWidth // of bounds
	quantityHeight
	quantityCentroidX
	quantityCentroidY
	quantityCoveredCount // of weighted pixels, as those from quantityCoveredSum on
	quantitySum
	quantityMean
	quantityVariance
	quantityStdDev
	quantityMin
	quantityMax
	quantityMedian
	quantityMode
	quantityDistinct
	quantityPercentile
	quantityPixels
	quantityMinX // and those behind it: coordinates of places in a channel
	quantityMinY
	quantityMaxX
	quantityMaxY
	quantityWeightedX
	quantityWeightedY
	quantitySkewness // and those behind it: in the order of shapes
	quantityKurtosis
	quantityEntropy
	quantityDeviation
	quantityQuartiles
	quantityKolmogorovSmirnov // and those behind it: from the reference
	quantityWasserstein
	quantityJensenShannon
	quantityChiSquare
	quantityPlaneX
	quantityPlaneY
	quantityPlaneResidual
	quantityContrast // and those behind it: of pairs of pixels
	quantityHomogeneity
	quantityEnergy
	quantityCorrelation
	quantityPairEntropy
	quantityCoveredSum
	quantityCoveredMean
	quantityCoveredVariance
	quantityCoveredStdDev
	quantityBlobs       // of the blobs of the region
	quantityCoefficient // and that behind it: of a correlation
	quantityCovariance
	quantityExpression // of quantities of several regions
)

// quantities by the names that limits use. "count of pixels" and percentiles are recognised by the parser.
var quantities = map[string]quantity{
	"count":    quantityCount,
	"area":     quantityArea,
	"coverage": quantityCoverage,
	"width":    quantityWidth,
	"height":   quantityHeight,
	"sum":      quantitySum,
	"mean":     quantityMean,
	"variance": quantityVariance,
	"stddev":   quantityStdDev,
	"min":      quantityMin,
	"max":      quantityMax,
	"median":   quantityMedian,
	"mode":     quantityMode,
	"distinct": quantityDistinct,
	"skewness": quantitySkewness,
	"kurtosis": quantityKurtosis,
	"entropy":  quantityEntropy,
	"mad":      quantityDeviation,
	"iqr":      quantityQuartiles,

	"ks":          quantityKolmogorovSmirnov,
	"wasserstein": quantityWasserstein,
	"js":          quantityJensenShannon,
	"chisquare":   quantityChiSquare,
}

// coordinates are the quantities that limits spell with a dot, by the word before it: x and y.
var coordinates = map[string][2]quantity{
	"centroid": {quantityCentroidX, quantityCentroidY},
	"min":      {quantityMinX, quantityMinY},
	"max":      {quantityMaxX, quantityMaxY},
	"weighted": {quantityWeightedX, quantityWeightedY},
	"plane":    {quantityPlaneX, quantityPlaneY},
}

// pairQuantities are those that limits spell with the offset of a pair of pixels behind them.
var pairQuantities = map[string]quantity{
	"contrast":    quantityContrast,
	"homogeneity": quantityHomogeneity,
	"energy":      quantityEnergy,
	"correlation": quantityCorrelation,
	"entropy":     quantityPairEntropy,
}

// pairs says that the quantity is of pairs of pixels.
func (q quantity) pairs() bool { return q >= quantityContrast && q <= quantityPairEntropy }

// correlates says that the quantity is of a correlation.
func (q quantity) correlates() bool { return q == quantityCoefficient || q == quantityCovariance }

// ofPairs says that the quantity is of two samples at a time, and those of the frame's own channels.
func (q quantity) ofPairs() bool { return q.pairs() || q.correlates() }

// ofRegion says that the quantity is not of a channel.
func (q quantity) ofRegion() bool { return q <= quantityCoveredCount || q == quantityBlobs }

// distance says that the quantity is one from the region's reference.
func (q quantity) distance() bool { return q >= quantityKolmogorovSmirnov && q <= quantityChiSquare }

// integer says that the quantity is one, whatever the picture is.
func (q quantity) integer() bool {
	switch q {
	case quantityCount, quantitySum, quantityMin, quantityMax, quantityMode, quantityDistinct, quantityPercentile,
		quantityPixels, quantityQuartiles, quantityWidth, quantityHeight:
		return true
	}
	return false
}

// operator compares a value with an interval. The four comparisons are intervals that are open at one end.
type operator uint8

const (
	opIn operator = iota
	opLess
	opLessEqual
	opGreater
	opGreaterEqual
	opEqual
	opNotEqual
)

var operators = map[string]operator{
	"<": opLess, "<=": opLessEqual, ">": opGreater, ">=": opGreaterEqual, "==": opEqual, "!=": opNotEqual,
}

// interval from lo to hi, each end in or out.
type interval struct {
	lo, hi         float64
	openLo, openHi bool
}

func (i interval) contains(v float64) bool {
	if i.wraps() {
		return v > i.lo || v == i.lo && !i.openLo || v < i.hi || v == i.hi && !i.openHi
	}
	return (v > i.lo || v == i.lo && !i.openLo) && (v < i.hi || v == i.hi && !i.openHi)
}

// String is the expression as it was given.
func (l *Limit) String() string { return l.expr }

// integers are the first and the last integer of the interval that are in [lo, hi]; the first is above the last where
// there is none.
func (i interval) integers(lo, hi float64) (first, last float64) {
	first, last = math.Ceil(i.lo), math.Floor(i.hi)
	if i.openLo && first == i.lo {
		first++
	}
	if i.openHi && last == i.hi {
		last--
	}
	return max(first, lo), min(last, hi)
}

// needs says which statistics evaluation takes.
func (l *Limit) needs() Statistics {
	switch l.quantity {
	case quantitySum:
		return Sum
	case quantityMean:
		return Mean
	case quantityVariance:
		return Variance
	case quantityStdDev:
		return StdDev
	case quantityMin:
		return Min
	case quantityMax:
		return Max
	case quantityMedian:
		return Median
	case quantityMode:
		return Mode
	case quantityDistinct:
		return Distinct
	case quantityMinX, quantityMinY:
		return Min
	case quantityMaxX, quantityMaxY:
		return Max
	case quantityCentroidX, quantityCentroidY, quantityWeightedX, quantityWeightedY:
		return Centroid
	case quantityPercentile, quantityPixels, quantityQuartiles:
		return needDistribution
	}
	if l.quantity == quantityExpression {
		needs := Statistics(0)
		for i := range l.expression.operands {
			needs |= l.expression.operands[i].is.needs()
		}
		return needs
	}
	if l.quantity.ofPairs() || l.quantity.covered() {
		return Count // what else they take is found apart
	}
	if l.quantity == quantityBlobs {
		return 0 // they are found where reductions ask for them
	}
	if l.quantity >= quantitySkewness {
		return shapes[l.quantity-quantitySkewness].is
	}
	return 0
}

// holds says whether v satisfies the limit, and by how much: the distance to the nearest value that fails, negative
// when it fails itself. Values are compared as float64: a quantity that is exactly 140.1 rounds to what "140.1" reads
// as, so equality means what it looks like.
func (l *Limit) holds(v float64) (ok bool, margin float64) {
	switch l.op {
	case opNotEqual:
		return v != l.want.lo, math.Abs(v - l.want.lo)
	case opEqual:
		return v == l.want.lo, -math.Abs(v - l.want.lo)
	}
	if l.want.wraps() {
		if l.want.contains(v) {
			return true, min(turnTo(l.want.lo, v), turnTo(v, l.want.hi))
		}
		return false, -min(turnTo(v, l.want.lo), turnTo(l.want.hi, v))
	}
	return l.want.contains(v), min(v-l.want.lo, l.want.hi-v)
}

// Why limits fail whatever was measured: a verdict is about pixels that were looked at. A region that catches no pixel
// never passes. One that reaches outside the frame passes only where a limit on its coverage says how much of it must
// be inside.
const (
	noPixel      = "the region caught no pixel"
	outsideFrame = "outside the frame"
)

// unseen says why the limits of a region can't pass; it is empty where they can. A line-scan part whose lines didn't
// come has no pixels either, but its region has bounds.
func unseen(r *RegionResult, limits []*Limit) string {
	switch {
	case r.CoverageKnown && r.Coverage == 1 && r.Bounds.Empty():
		return noPixel
	case r.CoverageKnown && r.Coverage == 1:
		return ""
	case r.CoverageKnown && r.Coverage == 0:
		return outsideFrame + ": all of the region's pixels"
	case !r.Bounds.Empty() && acceptsOutside(limits):
		return ""
	case !r.CoverageKnown:
		return outsideFrame + ": the region reaches so far that its pixels there are not counted"
	}
	share := 100 * (1 - r.Coverage)
	if share < 0.1 {
		return outsideFrame + ": less than 0.1 % of the region's pixels"
	}
	return fmt.Sprintf("%s: %.3g %% of the region's pixels", outsideFrame, min(share, 99.9))
}

// acceptsOutside says that a limit says how much of the region has to lie inside of the frame.
func acceptsOutside(limits []*Limit) bool { return slices.ContainsFunc(limits, (*Limit).AllowsOutside) }

// AllowsOutside says that a region with the limit may reach outside the frame: the limit gives the share of it, 0 or
// more, that has to be inside at least. Without one all limits of such a region fail.
func (l *Limit) AllowsOutside() bool {
	return l.quantity == quantityCoverage && l.op != opNotEqual && l.want.lo >= 0
}

// judge is the outcome of a limit of a region whose limits can't pass for a reason, if there is one.
func (l *Limit) judge(o *outcome, unseen string) LimitResult {
	r := o.result(l)
	switch {
	case unseen == "":
	case r.Verdict == Pass || !r.Measured:
		r.Verdict, r.Reason = Fail, unseen
	case unseen != noPixel && l.quantity != quantityCoverage:
		r.Reason += "; " + unseen
	}
	return r
}

// reason says why v fails.
func (l *Limit) reason(v float64, c Channel) string {
	var b strings.Builder
	b.WriteString(l.named(c))
	if l.quantity == quantityPixels || l.quantity == quantityBlobs {
		b.WriteByte(':')
	}
	b.WriteByte(' ')
	say := func(relation string, bound float64) string {
		sv, sb := brief(v, bound)
		for _, text := range []string{sv, units[l.unit], relation, sb, units[l.unit]} {
			b.WriteString(text)
		}
		return b.String()
	}
	switch {
	case l.want.wraps():
		sv, _ := brief(v, l.want.lo)
		fmt.Fprintf(&b, "%s is between %s and %s", sv, number(l.want.hi), number(l.want.lo))
		return b.String()
	case l.op == opNotEqual:
		return say(" is the forbidden ", l.want.lo)
	case l.op == opEqual:
		return say(" is not ", l.want.lo)
	case v > l.want.hi:
		return say(" is above ", l.want.hi)
	case v < l.want.lo:
		return say(" is below ", l.want.lo)
	case v == l.want.hi && l.want.openHi:
		return say(" is not below ", l.want.hi)
	}
	return say(" is not above ", l.want.lo)
}

// named is the quantity, behind its channel where the frame has several.
func (l *Limit) named(c Channel) string {
	if c != NoChannel && c != Gray {
		return c.String() + " " + l.spelled
	}
	return l.spelled
}

// brief writes a value and the bound it is compared with to six digits, or in full where that would make different
// numbers look alike.
func brief(v, bound float64) (string, string) {
	short := func(x float64) string {
		if x == math.Trunc(x) && math.Abs(x) < 1e15 {
			return fmt.Sprintf("%.0f", x)
		}
		return fmt.Sprintf("%.6g", x)
	}
	sv := short(v)
	if sv == number(bound) && v != bound {
		sv = number(v)
	}
	return sv, number(bound)
}

// outcome follows one limit over the channels it looks at.
type outcome struct {
	measured bool
	lacking  string // why the quantity has no value in a channel with pixels
	ok       bool
	margin   float64
	value    float64
	channel  Channel
	parts    int // of a limit over parts
}

// see takes the value of one channel. Ties stay with the channel that came first.
func (o *outcome) see(l *Limit, v float64, c Channel) {
	if o.lacking != "" {
		return
	}
	if l.millimetres && l.expression == nil && l.scale != nil {
		v = l.scale.convert(l.quantity, v)
	}
	ok, margin := l.holds(v)
	if !o.measured || margin < o.margin || o.ok && !ok {
		*o = outcome{measured: true, ok: ok, margin: margin, value: v, channel: c}
	}
}

// lack is see for a channel with pixels in which the quantity has no value: then the limit can't hold.
func (o *outcome) lack(c Channel, why string) {
	if o.lacking == "" {
		*o = outcome{lacking: why, channel: c}
	}
}

// novalue is why a quantity of a channel with pixels has no value: skewness and kurtosis, a weighted centroid, a plane,
// or a quantity of pairs.
func (l *Limit) novalue() string {
	switch {
	case l.quantity.covered():
		return "the region covers nothing"
	case l.quantity == quantityCorrelation:
		return "no two pixels of the region lie so, or all are of one level"
	case l.quantity.correlates() && l.correlation.Kind == Framed && l.correlation.Frame == "":
		return "there is no frame before, or nothing to compare with it"
	case l.quantity.pairs(), l.quantity == quantityCovariance:
		return "no two pixels of the region lie so"
	case l.quantity == quantityCoefficient:
		return "no two pixels of the region lie so, or all samples of one side are equal"
	}
	if l.quantity == quantityWeightedX || l.quantity == quantityWeightedY {
		return "all samples are 0"
	}
	if l.quantity >= quantityPlaneX && l.quantity <= quantityPlaneResidual {
		return "its pixels are on a line, or some never came"
	}
	if l.channel == Hue {
		return "no pixel has a hue, or they point everywhere"
	}
	return "all samples are equal"
}

func (o *outcome) result(l *Limit) LimitResult {
	switch {
	case o.lacking != "":
		return LimitResult{Expression: l.expr, Verdict: Fail, Channel: o.channel, Reason: l.named(o.channel) +
			" has no value: " + o.lacking}
	case !o.measured:
		return LimitResult{Expression: l.expr, Verdict: Fail, Reason: noPixel}
	case o.ok:
		return LimitResult{Expression: l.expr, Verdict: Pass, Value: o.value, Measured: true, Channel: o.channel}
	}
	return LimitResult{Expression: l.expr, Verdict: Fail, Value: o.value, Measured: true, Channel: o.channel,
		Reason: l.reason(o.value, o.channel)}
}
