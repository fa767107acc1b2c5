// Quantities: what limits are about, for those who make limits.

package polygon

import (
	"math"
	"strconv"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Quantity is what a limit measures, such as "r.mean" or "count of pixels below 40": a limit without its condition.
// [ParseQuantity] makes one. It is immutable.
type Quantity struct{ of Limit }

// ParseQuantity reads a quantity, with or without a channel, as [ParseLimit] has it. Errors are [*LimitError].
func ParseQuantity(expr string) (Quantity, error) {
	if len(expr) > MaxLimit {
		return Quantity{}, tooLong(expr)
	}
	p := limitParser{src: expr}
	p.next()
	var q Quantity
	if err := p.measured(&q.of); err != nil {
		return Quantity{}, err
	}
	if p.kind != tokenEnd {
		return Quantity{}, p.fail("the end of the quantity")
	}
	return q, nil
}

// Quantity is what the limit measures.
func (l *Limit) Quantity() Quantity { return Quantity{*l} }

// String is the quantity as limits spell it, in lower case. Limits that begin with it are about it.
func (q Quantity) String() string {
	return limitPrefixes[q.of.channel] + q.of.spelled
}

var limitPrefixes = [...]string{Gray: "gray.", Red: "r.", Green: "g.", Blue: "b.", Alpha: "a.", Gray709: "gray709.",
	Hue:        "hue.",
	Saturation: "saturation.", Value: "value.", LabL: "lab.l.", LabA: "lab.a.", LabB: "lab.b.", MatrixX: "matrix.x.",
	MatrixY: "matrix.y.", MatrixZ: "matrix.z."}

// OfRegion says that the quantity is of the region, not of its pixels' values: count, area and coverage.
func (q Quantity) OfRegion() bool { return q.of.quantity.ofRegion() }

// Integer says that the quantity is a whole number, whatever the picture is.
func (q Quantity) Integer() bool { return q.of.integer() }

// integer says that the limit's quantity is a whole number: samples of derived channels stand for fractions.
func (l *Limit) integer() bool {
	if l.channel.isDerived() && l.channel != Gray709 && l.quantity != quantityDistinct && l.quantity != quantityPixels {
		return false
	}
	return l.quantity.integer()
}

// Channel is the channel that the quantity names, or NoChannel.
func (q Quantity) Channel() Channel { return q.of.channel }

// In is the quantity of a channel.
func (q Quantity) In(c Channel) Quantity {
	q.of.channel = c
	return q
}

// Correlation is the correlation whose coefficient or covariance the quantity is, if it is one.
func (q Quantity) Correlation() (Correlation, bool) {
	return q.of.correlation, q.of.quantity.correlates()
}

// Covers says that a limit on q is also one on other: they are the same but for the channel, and q names none or the
// same.
func (q Quantity) Covers(other Quantity) bool {
	a, b := &q.of, &other.of
	return a.quantity == b.quantity && a.percent == b.percent && a.pixels == b.pixels && a.offset == b.offset &&
		(a.blobs == nil || a.spelled == b.spelled) &&
		a.correlation == b.correlation &&
		(a.channel == NoChannel || a.channel == b.channel)
}

// Range holds all values that the quantity can have where samples are 0 to most and the region has at most so many
// pixels.
func (q Quantity) Range(most int, pixels int64) (lo, hi float64) { return q.of.values(most, pixels) }

// Probe is a limit that measures the quantity, and fails on every region: [LimitResult.Value] is the value.
func (q Quantity) Probe() string { return q.String() + " == -1e9" }

// values are the least and the greatest that the quantity can be.
func (l *Limit) values(most int, pixels int64) (lo, hi float64) {
	if l.channel.isDerived() {
		return l.colorValues(pixels)
	}
	hi = float64(most)
	switch l.quantity {
	case quantityCoverage:
		hi = 1
	case quantityBlobs:
		if f := l.blobs.feature; f != nil && (f.name == "x" || f.name == "y" || f.name == "angle") {
			return -math.MaxFloat64, math.MaxFloat64
		}
		hi = math.MaxFloat64
	case quantityArea, quantityKurtosis, quantityCoveredCount, quantityCoveredSum:
		hi = math.MaxFloat64
	case quantityWidth, quantityHeight, quantityCentroidX, quantityCentroidY, quantityMinX, quantityMinY, quantityMaxX,
		quantityMaxY, quantityWeightedX, quantityWeightedY:
		hi = maxCoordinate
	case quantitySkewness, quantityPlaneX, quantityPlaneY:
		return -math.MaxFloat64, math.MaxFloat64
	case quantityEntropy:
		hi = math.Log2(hi + 1)
	case quantityDeviation:
		hi /= 2
	case quantityKolmogorovSmirnov, quantityJensenShannon, quantityChiSquare:
		hi = 1
	case quantityContrast:
		hi = (driver.MaxPairLevels - 1) * (driver.MaxPairLevels - 1)
	case quantityHomogeneity, quantityEnergy:
		hi = 1
	case quantityCorrelation, quantityCoefficient:
		return -1, 1
	case quantityCovariance:
		return -hi * hi / 4, hi * hi / 4
	case quantityPairEntropy:
		hi = 16 // of 256 by 256 pairs
	case quantityVariance, quantityCoveredVariance:
		hi *= hi / 4
	case quantityStdDev, quantityCoveredStdDev, quantityPlaneResidual:
		hi /= 2
	case quantityDistinct:
		hi++
	case quantityCount, quantityPixels:
		hi = float64(pixels)
	case quantitySum:
		hi *= float64(pixels)
	}
	return 0, hi
}

// Judge is the outcome of the limit for a value, of the channel that is named or NoChannel; NaN is none.
func (l *Limit) Judge(v float64, c Channel) LimitResult {
	var o outcome
	if math.IsNaN(v) {
		o.lack(c, l.novalue())
	}
	o.see(l, v, c)
	return o.result(l)
}

// Interval writes a condition on a quantity: from lo to hi, both ends in. Infinite ends leave a side out, and one of
// them must be finite.
func (q Quantity) Interval(lo, hi float64) string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	switch {
	case math.IsInf(lo, -1):
		return q.String() + " <= " + number(hi)
	case math.IsInf(hi, 1):
		return q.String() + " >= " + number(lo)
	}
	return q.String() + " in [" + number(lo) + ", " + number(hi) + "]"
}
