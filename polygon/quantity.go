// Quantities: what limits are about, for those who make limits.

package polygon

import (
	"math"
	"strconv"
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
	MatrixY: "matrix.y.", MatrixZ: "matrix.z.", Gradient: "gradient.", Laplacian: "laplacian."}

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
	if q.of.channel == NoChannel {
		other.of.channel = NoChannel
	}
	return q.of.measuresAs(&other.of)
}

// measuresAs says that both limits measure the same.
func (l *Limit) measuresAs(o *Limit) bool {
	return l.quantity == o.quantity && l.percent == o.percent && l.pixels == o.pixels && l.offset == o.offset &&
		(l.blobs == nil || l.spelled == o.spelled) && l.correlation == o.correlation && l.channel == o.channel
}

// Range holds all values that a quantity can have of region i with so many pixels, where samples are 0 to most.
func (s *Set) Range(i int, q Quantity, most int, pixels int64, r *Reductions) (lo, hi float64) {
	of := s.scopeOf(i, reducing(most, r))
	of.pixels = pixels
	return q.of.values(&of)
}

// Probe is a limit that measures the quantity, and fails on every region: [LimitResult.Value] is the value.
func (q Quantity) Probe() string { return q.String() + " == -1e9" }

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
