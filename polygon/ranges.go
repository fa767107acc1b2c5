// Ranges: what quantities can be, whatever a picture shows, and the limits that hold for all of it.

package polygon

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// scope is what is known of a region, of a format and of reductions before a frame is looked at.
type scope struct {
	most           int           // samples are 0 to most
	only           Channel       // that a frame has beside alpha, where it has one
	levels         int           // of pairs
	leastBlob      int           // pixels of a blob
	eight          bool          // blobs are connected by corners, too
	foreground     Span          // samples of blobs
	pixels         int64         // that the region has at most
	area           float64       // of the box around it
	matrix         [3][3]float64 // of colours; all 0 where it isn't known
	x0, y0, x1, y1 int           // in which its pixels are
}

// anyFormat is what reasons call frames whose format isn't known.
const anyFormat = "any frame"

// anyFrame is all that is known where neither a region nor a frame nor a reduction is.
func anyFrame() scope {
	return scope{most: math.MaxUint16, levels: driver.MaxPairLevels, leastBlob: 1, foreground: AnySpan(),
		pixels: math.MaxInt64, area: math.MaxFloat64,
		x0: -maxCoordinate, y0: -maxCoordinate, x1: maxCoordinate, y1: maxCoordinate}
}

// reducing is what is known of reductions of samples that are 0 to most.
func reducing(most int, r *Reductions) scope {
	of := anyFrame()
	of.most, of.levels, of.matrix = most, r.pairLevels(), r.Colors.Matrix
	if b := r.Blobs; b != nil {
		of.leastBlob, of.eight = max(b.MinArea, 1), !b.FourConnected
		if b.Threshold == ThresholdValues && len(b.Steps) == 0 {
			of.foreground = b.Range
		}
	}
	return of
}

// scopeOf is a scope with what is known of region i.
func (s *Set) scopeOf(i int, of scope) scope {
	b := s.boxes[i]
	of.pixels, of.area = s.mostPixels(i), 0
	if b.x0 < b.x1 && b.y0 < b.y1 {
		of.area = float64(int64(b.x1)-int64(b.x0)) * float64(int64(b.y1)-int64(b.y0)) / (driver.Subpixel * driver.Subpixel)
	}
	of.x0, of.y0, of.x1, of.y1 = b.pixels()
	return of
}

// values are the least and the greatest that the quantity can be. A bound that isn't known is math.MaxFloat64.
func (l *Limit) values(of *scope) (lo, hi float64) {
	if l.channel.isDerived() {
		return l.derivedValues(of)
	}
	hi = float64(of.most)
	switch l.quantity {
	case quantityCoverage:
		hi = 1
	case quantityBlobs:
		return l.blobs.values(l, of)
	case quantityArea:
		hi = math.MaxFloat64
	case quantityCoveredCount: // that of a box in a pixel is a whole number of 1/65536, to which weights are rounded
		hi = of.area
	case quantityCoveredSum:
		hi = min(hi*of.area, math.MaxFloat64)
	case quantityWidth, quantityHeight, quantityCentroidX, quantityCentroidY:
		hi = maxCoordinate // the region decides them: limits guard it against changes
	case quantityMinX, quantityMaxX, quantityWeightedX:
		return float64(of.x0) + 0.5, float64(of.x1) - 0.5
	case quantityMinY, quantityMaxY, quantityWeightedY:
		return float64(of.y0) + 0.5, float64(of.y1) - 0.5
	case quantityPlaneX: // a mean of the slopes of all triangles of pixels, each at most that times the other side
		hi *= float64(max(of.y1-of.y0-1, 1))
		return -hi, hi
	case quantityPlaneY:
		hi *= float64(max(of.x1-of.x0-1, 1))
		return -hi, hi
	case quantitySkewness: // the greatest is that of samples that are equal but for one
		n := float64(max(of.pixels, 3))
		hi = (n - 2) / math.Sqrt(n-1) * (1 + slack)
		return -hi, hi
	case quantityKurtosis:
		n := float64(max(of.pixels, 3))
		return 1, (n - 2 + 1/(n-1)) * (1 + slack)
	case quantityEntropy:
		hi = math.Log2(hi + 1)
	case quantityDeviation:
		hi /= 2
	case quantityKolmogorovSmirnov, quantityJensenShannon, quantityChiSquare:
		hi = 1
	case quantityContrast:
		hi = float64((of.levels - 1) * (of.levels - 1))
	case quantityHomogeneity:
		return (1 - slack) / float64(1+(of.levels-1)*(of.levels-1)), 1
	case quantityEnergy:
		return 1 / float64(of.levels), 1
	case quantityCorrelation:
		return -1, 1
	case quantityCoefficient:
		if l.correlation.itself(l.channel, of.only) {
			return 1, 1
		}
		return -1, 1
	case quantityCovariance:
		if hi *= hi / 4; l.correlation.itself(l.channel, of.only) {
			return 0, hi
		}
		return -hi, hi
	case quantityPairEntropy:
		if hi = 2 * math.Log2(float64(of.levels)); hi != math.Trunc(hi) {
			hi *= 1 + slack
		}
	case quantityVariance, quantityCoveredVariance:
		hi *= hi / 4
	case quantityStdDev, quantityCoveredStdDev, quantityPlaneResidual:
		hi /= 2
	case quantityDistinct:
		return 1, min(hi+1, float64(of.pixels))
	case quantityCount:
		hi = float64(of.pixels)
	case quantityPixels:
		if from, to := l.pixels.integers(0, hi); from > to {
			return 0, 0
		}
		hi = float64(of.pixels)
	case quantitySum:
		hi *= float64(of.pixels)
	}
	return 0, hi
}

// slack widens bounds that are not exact, relative to themselves; numbers of limits are off by far less.
const slack = 1e-12

// itself says that the pairs of the correlation are of a sample and itself. only is the channel that stands for none.
func (c *Correlation) itself(channel, only Channel) bool {
	if channel == NoChannel {
		channel = only
	}
	return c.Kind == Lagged && c.Offset == Offset{} || c.Kind == Radial && c.Radius == 0 ||
		c.Kind == Crossed && c.With == channel
}

// known is values in millimetres, where the limit is in them.
func (l *Limit) known(of *scope, convert func(*Scale, quantity, float64) float64) interval {
	lo, hi := l.values(of)
	if l.millimetres && l.quantity.dimension() > 0 && hi < math.MaxFloat64 {
		lo, hi = convert(l.scale, l.quantity, lo), convert(l.scale, l.quantity, hi)
	}
	return interval{lo: lo, hi: hi}
}

// toothless says why the limit holds for every value that its quantity can have; as a rule its number was meant for
// another format or region. It is empty for a limit that can fail. It is empty, too, for a region without pixels, whose
// limits fail, and for a least coverage: "coverage >= 0" says that a region may reach outside the frame. format is what
// the reason calls the frames.
func (l *Limit) toothless(of *scope, format string) string {
	switch {
	case l.millimetres && l.scale == nil || of.pixels == 0 || l.AllowsOutside():
		return ""
	case l.expression != nil:
		all := anyFrame() // its operands are of other regions
		all.most, all.matrix = of.most, of.matrix
		return l.toothlessOver(func(int) []scope { return []scope{all} }, "", format)
	}
	if why := l.pointless(of, format); why != "" {
		return why
	}
	if r := l.known(of, (*Scale).convert); l.holdsIn(r) {
		why := fmt.Sprintf("can't fail: %s is %v", l.spelled, r.words())
		switch {
		case r.hi == math.MaxFloat64 || l.quantity == quantityBlobs:
		case l.quantity == quantityCount || l.quantity == quantityPixels:
			why += ", the most pixels that the region can have"
		case !l.quantity.ofRegion():
			why += " on " + format
		}
		return why
	}
	return ""
}

// pointless says why a count of pixels is none.
func (l *Limit) pointless(of *scope, format string) string {
	if l.quantity != quantityPixels {
		return ""
	}
	if l.channel.isDerived() && l.channel != Gray709 {
		return l.pointlessBins(of)
	}
	switch from, to := l.pixels.integers(0, float64(of.most)); {
	case from > to:
		return fmt.Sprintf("counts no pixel of %s, whose samples are 0 to %d", format, of.most)
	case from == 0 && to == float64(of.most):
		return fmt.Sprintf("counts every pixel of %s, whose samples are 0 to %d", format, of.most)
	}
	return ""
}

// pointlessBins is pointless for a derived channel, whose values are rounded to those of bins.
func (l *Limit) pointlessBins(of *scope) string {
	k, first, last, ok := derivedBins(l.channel, of)
	if !ok || l.channel == Hue {
		return ""
	}
	in := l.pixels
	in.lo, in.hi = k.binOf(in.lo), k.binOf(in.hi)
	lo, hi := k.bin(first), k.bin(last)
	switch from, to := in.integers(first, last); {
	case from > to:
		return fmt.Sprintf("counts no pixel: %v is %v to %v, in steps of %v where pixels are counted", l.channel, number(lo),
			number(hi), number(k.width()))
	case from == first && to == last:
		return fmt.Sprintf("counts every pixel: %v is %v to %v", l.channel, number(lo), number(hi))
	}
	return ""
}

// holdsIn says that the limit holds for every value of a range.
func (l *Limit) holdsIn(r interval) bool {
	if l.op == opNotEqual {
		return !r.contains(l.want.lo) || l.integer() && !l.millimetres && l.want.lo != math.Trunc(l.want.lo)
	}
	return !l.want.wraps() && l.want.contains(r.lo) && l.want.contains(r.hi)
}

// words says what is in a range, for people.
func (i interval) words() string {
	switch {
	case i.lo == i.hi:
		return "always " + number(i.lo)
	case i.lo <= -mostOperand:
		return "at most " + number(i.hi)
	case i.hi < mostOperand:
		return number(i.lo) + " to " + number(i.hi)
	case i.lo == 0:
		return "never negative"
	}
	return "at least " + number(i.lo)
}

// checkToothless refuses limits that can't fail in a scope, of which regions are still unknown. What passed last is
// remembered: many frames are alike.
func (s *Set) checkToothless(bad *kernels.InvalidError, of scope, format string) {
	passed := &s.passed[bits.Len(uint(of.most))]
	if format == anyFormat {
		passed = &s.passed[0]
	}
	if p := passed.Load(); p != nil && *p == of {
		return
	}
	before := len(bad.Violations)
	pixel := of
	pixel.pixels, pixel.area, pixel.x0, pixel.y0, pixel.x1, pixel.y1 = 1, 0, 0, 0, 1, 1
	if slices.ContainsFunc(s.distinct, func(l *Limit) bool {
		switch l.quantity {
		case quantitySum, quantityCoveredSum, quantityPlaneX, quantityPlaneY, quantityBlobs: // it depends on the region then
			return l.toothless(&pixel, format) != ""
		}
		return l.toothless(&of, format) != ""
	}) {
		for i := range s.names {
			here := s.scopeOf(i, of)
			for k, l := range s.Limits(i) {
				if why := l.toothless(&here, format); why != "" {
					bad.Add(path{"regions", i, "limits", k}, quoted(l.expr), "%s", why)
				}
			}
		}
	}
	if len(bad.Violations) == before {
		passed.Store(&of)
	}
}

// toothlessBetween says why a limit between regions can't fail, whatever frames are.
func (s *Set) toothlessBetween(b *between, l *Limit) string {
	if l.millimetres && s.scale == nil {
		return ""
	}
	return l.toothlessOver(func(k int) []scope {
		all := make([]scope, len(b.members[k]))
		for n, m := range b.members[k] {
			all[n] = s.scopeOf(m.region, anyFrame())
		}
		return all
	}, s.names[b.region], anyFormat)
}

// mostOperand is above all that operands can be; a bound of an expression that isn't below it isn't known.
const mostOperand = 1e60

// toothlessOver is toothless of an expression, with the scopes of the regions that an operand looks at. own is the name
// of the region that has the limit, where that is known.
func (l *Limit) toothlessOver(members func(k int) []scope, own, format string) string {
	x := l.expression
	type part struct {
		interval
		from int // its first step
	}
	var stack []part
	for i, s := range x.steps {
		n := len(stack)
		switch s.do {
		case 'n':
			stack = append(stack, part{interval{lo: s.number, hi: s.number}, i})
			continue
		case 'q':
			ranges, why := l.operandRanges(&x.operands[s.operand], members(s.operand), format)
			if why != "" || len(ranges) == 0 {
				return why
			}
			if x.all {
				fail := 0
				for _, r := range ranges {
					if !l.holdsIn(r) {
						fail++
					}
				}
				if fail > 0 && (fail > x.but || len(ranges) == 1) {
					return ""
				}
				return fmt.Sprintf("can't fail: it holds for %s, whatever %s shows", l.spelled, format)
			}
			stack = append(stack, part{ranked(ranges, x.operands[s.operand].rank), i})
			continue
		}
		a, b := stack[n-2], stack[n-1]
		same := (s.do == '-' || s.do == '/') && x.same(x.steps[a.from:b.from], x.steps[b.from:i], own)
		r, ok := combined(s, same, a.interval, b.interval)
		if !ok {
			return ""
		}
		stack = append(stack[:n-2], part{r, a.from})
	}
	if r := stack[0].interval; l.holdsIn(r) {
		return fmt.Sprintf("can't fail: %s is %s on %s", l.spelled, r.words(), format)
	}
	return ""
}

// operandRanges are those of an operand in each of its regions, or why it makes no sense.
func (l *Limit) operandRanges(o *operand, members []scope, format string) (ranges []interval, why string) {
	is := o.is
	is.millimetres, is.scale = l.millimetres, l.scale
	convert := (*Scale).convert
	if o.over != nil {
		switch o.over.what {
		case 'f':
			return []interval{{lo: 0, hi: float64(o.over.parts)}}, ""
		case 's', 'd':
			convert = (*Scale).extent
		}
	}
	for n := range members {
		if members[n].pixels == 0 {
			return nil, "" // all limits that look at it fail
		}
		if why := is.pointless(&members[n], format); why != "" {
			return nil, is.spelled + " " + why
		}
		r := is.known(&members[n], convert)
		r.lo, r.hi = max(r.lo, -mostOperand), min(r.hi, mostOperand)
		if o.over != nil {
			switch most := r.hi - r.lo; o.over.what {
			case 's': // a mean of the slopes of all pairs of parts, whose numbers are 1 apart at least
				most *= 1 + 1e-6
				r = interval{lo: -most, hi: most}
			case 'd':
				r = interval{lo: 0, hi: most}
			default:
				r.lo, r.hi = meanOf(r.lo, -1), meanOf(r.hi, 1)
			}
		}
		ranges = append(ranges, r)
	}
	return ranges, ""
}

// meanOf is a bound of means of values that v bounds. Sums of v are exact where it has few digits.
func meanOf(v, side float64) float64 {
	if k := v * 1024; k == math.Trunc(k) && math.Abs(v) < 1<<32 {
		return v
	}
	return v + side*slack*math.Abs(v)
}

// ranked is the range of the one of a group that rank says, or of its only member.
func ranked(ranges []interval, rank int) interval {
	if rank == 0 || len(ranges) == 1 {
		return ranges[0]
	}
	at := -rank - 1
	if rank > 0 {
		at = len(ranges) - rank
	}
	var ends [2][]float64
	for _, r := range ranges {
		ends[0], ends[1] = append(ends[0], r.lo), append(ends[1], r.hi)
	}
	slices.Sort(ends[0])
	slices.Sort(ends[1])
	return interval{lo: ends[0][at], hi: ends[1][at]}
}

// combined is the range of what a step makes of two numbers, which may be the same. Rounding is monotone, so that bounds
// are rounded as the numbers are. ok is false where there may be no number: something is divided by 0, or runs over.
func combined(s step, same bool, a, b interval) (r interval, ok bool) {
	if s.do == '/' && b.contains(0) {
		return r, false
	}
	if same {
		one := 0.0
		if s.do == '/' {
			one = 1
		}
		return interval{lo: one, hi: one}, true
	}
	r = interval{lo: math.Inf(1), hi: math.Inf(-1)}
	for _, p := range []float64{a.lo, a.hi} {
		for _, q := range []float64{b.lo, b.hi} {
			v := s.of(p, q)
			r.lo, r.hi = min(r.lo, v), max(r.hi, v)
		}
	}
	return r, !math.IsNaN(r.lo) && !math.IsInf(r.lo, 0) && !math.IsInf(r.hi, 0)
}

// same says that both sides of a sign are the same: then their difference is 0, and their quotient 1. own is the
// name of the region that operands without one are of.
func (x *expression) same(a, b []step, own string) bool {
	of := func(o *operand) string {
		if !o.named {
			return own
		}
		return o.name
	}
	return slices.EqualFunc(a, b, func(s, t step) bool {
		if s.do != 'q' || t.do != 'q' {
			return s.do == t.do && s.number == t.number && s.dimension == t.dimension
		}
		o, p := &x.operands[s.operand], &x.operands[t.operand]
		over := o.over == p.over || o.over != nil && p.over != nil && *o.over == *p.over
		return over && (o.named == p.named || own != "") && of(o) == of(p) && o.rank == p.rank && o.is.measuresAs(&p.is)
	})
}

// and is what two intervals have in common; it holds nothing where the first end is behind the last.
func (i interval) and(o interval) interval {
	if o.lo > i.lo || o.lo == i.lo && o.openLo {
		i.lo, i.openLo = o.lo, o.openLo
	}
	if o.hi < i.hi || o.hi == i.hi && o.openHi {
		i.hi, i.openHi = o.hi, o.openHi
	}
	return i
}

// values are the least and the greatest of what is measured of blobs.
func (q *blobQuery) values(l *Limit, of *scope) (lo, hi float64) {
	w, h := float64(of.x1-of.x0), float64(of.y1-of.y0)
	most := min(math.Ceil(float64(of.pixels)/2), math.Floor(float64(of.pixels)/float64(of.leastBlob))) // of them
	if of.eight {
		most = min(most, math.Ceil(w/2)*math.Ceil(h/2))
	}
	switch q.what {
	case 'm':
		r := q.feature.values(of, l.unit, l.scale)
		return min(r.lo, 0), max(r.hi, 0)
	case 's':
		r := q.feature.values(of, l.unit, l.scale)
		switch q.feature.name {
		case "area", "holes", "sum": // all together are bounded as one is
			return 0, r.hi
		}
		if lo, hi = -math.MaxFloat64, math.MaxFloat64; r.lo >= 0 {
			lo = 0
		}
		return lo, hi
	}
	for k, f := range q.on {
		r := f.values(of, q.of[k].unit, l.scale)
		for n, g := range q.on {
			if g == f && q.of[n].unit == q.of[k].unit && q.of[n].op != opNotEqual {
				r = r.and(q.of[n].want)
			}
		}
		whole := f.whole && q.of[k].unit == 0
		first, last := r.integers(r.lo, r.hi)
		if r.lo > r.hi || r.lo == r.hi && (r.openLo || r.openHi) || whole && first > last ||
			q.of[k].op == opNotEqual && r.lo == r.hi && r.lo == q.of[k].want.lo {
			return 0, 0
		}
	}
	return 0, most
}

// values are the range of the feature of a blob.
func (f *blobFeature) values(of *scope, unit int, scale *Scale) interval {
	w, h := float64(of.x1-of.x0), float64(of.y1-of.y0)
	pixels, least := float64(of.pixels), float64(of.leastBlob)
	dark, bright := interval{lo: of.foreground.From, hi: of.foreground.To}.integers(0, float64(of.most))
	place := func(x0, x1 int, to func(*Scale, quantity, float64) float64, q quantity) interval {
		r := interval{lo: float64(x0) + 0.5, hi: float64(x1) - 0.5}
		if unit != 0 {
			r.lo, r.hi = to(scale, q, r.lo), to(scale, q, r.hi)
		}
		return r
	}
	r := interval{hi: math.MaxFloat64}
	switch f.name {
	case "area":
		if r = (interval{lo: least, hi: pixels}); unit != 0 {
			r.lo, r.hi = scale.Area(r.lo), scale.Area(r.hi)
		}
	case "x":
		r = place(of.x0, of.x1, (*Scale).convert, quantityCentroidX)
	case "y":
		r = place(of.y0, of.y1, (*Scale).convert, quantityCentroidY)
	case "length", "breadth": // variances along an axis are at most a quarter of the square of what is spanned
		if unit == 0 {
			r = interval{lo: 1 - slack, hi: math.Sqrt(3*(w*w+h*h)) + 1}
		}
	case "perimeter":
		if unit == 0 { // at least that of one pixel
			r = interval{lo: (&Blob{sidesX: 2, sidesY: 2, corners: 4}).perimeter(1, 1) * (1 - slack), hi: 4 * pixels}
		}
	case "angle":
		r = interval{lo: -90, hi: 90}
	case "holes":
		r.hi = pixels
	case "mean", "min", "max":
		r = interval{lo: dark, hi: bright}
	case "stddev":
		r.hi = (bright - dark) / 2
	case "sum":
		r = interval{lo: dark * least, hi: bright * pixels}
	}
	return r
}

// checkSpans says of each span of samples that it takes all of them, or none, in frames whose samples are 0 to most.
func (s *BlobSpec) checkSpans(bad *kernels.InvalidError, most int, format string) {
	at := path{"reductions", "blobs"}
	check := func(prefix string, v Span) bool {
		name := prefix + "lower"
		if math.IsInf(v.From, -1) {
			name = prefix + "upper"
		}
		every, none := false, false
		switch s.Threshold {
		case ThresholdPercentiles:
			every = v.From <= 0 && v.To >= 100
		case ThresholdValues:
			from, to := interval{lo: v.From, hi: v.To}.integers(0, float64(most))
			every, none = from == 0 && to == float64(most), from > to
		}
		switch {
		case every:
			bad.Add(at.Join(name), v.String(), "takes every pixel of %s, whose samples are 0 to %d", format, most)
		case none:
			bad.Add(at.Join(name), v.String(), "takes no pixel of %s, whose samples are 0 to %d", format, most)
		}
		return !every && !none
	}
	if check("", s.Range) && s.Strong != nil && check("strong_", *s.Strong) && len(s.Steps) == 0 {
		if s.Strong.From > s.Range.To || s.Strong.To < s.Range.From {
			bad.Add(at.Join("strong_lower"), s.Strong.String(), "has nothing of lower to upper, which is %v", s.Range)
		}
	}
}

// checkReach says of each span of deviations that it takes all pixels, or none, of every region of a set: of n samples
// none is more than sqrt(n-1) standard deviations from their mean (Samuelson's inequality).
func (s *BlobSpec) checkReach(bad *kernels.InvalidError, set *Set) {
	if s.Threshold != ThresholdDeviations || set.Len() == 0 {
		return
	}
	most := int64(1)
	for i := range set.boxes {
		most = max(most, set.mostPixels(i))
	}
	// Ends of spans are rounded, and so are the samples that they stand for.
	reach := math.Sqrt(float64(most-1)) * (1 + 1e-9)
	check := func(name string, v Span) {
		if math.IsInf(v.From, -1) {
			name = strings.Replace(name, "lower", "upper", 1)
		}
		takes := "every pixel"
		switch {
		case v.From > reach || v.To < -reach:
			takes = "no pixel, unless all are the same"
		case v.From > -reach || v.To < reach:
			return
		}
		bad.Add(path{"reductions", "blobs", name}, v.String(), "takes %s: of %d pixels, which the regions have at most, none "+
			"is more than %.6g standard deviations from the mean", takes, most, reach)
	}
	check("lower", s.Range)
	if s.Strong != nil {
		check("strong_lower", *s.Strong)
	}
}
