// Ranges: what quantities can be, whatever a picture shows, and the limits that hold for all of it.

package polygon

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/polyscan/polyscan/internal/exact"
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
	tiltX, tiltY   float64       // of a plane, at most, where samples are 0 to 1
}

// anyFormat is what reasons call frames whose format isn't known.
const anyFormat = "any frame"

// anyFrame is all that is known where neither a region nor a frame nor a reduction is.
func anyFrame() scope {
	return scope{most: math.MaxUint16, levels: driver.MaxPairLevels, leastBlob: 1, foreground: AnySpan(),
		pixels: math.MaxInt64, area: math.MaxFloat64, tiltX: maxCoordinate, tiltY: maxCoordinate,
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
	// A slope is a mean of those of all triangles of pixels, each at most 1 times the other side.
	of.tiltX, of.tiltY = float64(max(of.y1-of.y0-1, 1)), float64(max(of.x1-of.x0-1, 1))
	if most, ok := s.tilts[i]; ok {
		of.tiltX, of.tiltY = most[0], most[1]
	}
	return of
}

// values are the least and the greatest that the quantity can be. A bound that isn't known is math.MaxFloat64.
func (l *Limit) values(of *scope) (lo, hi float64) {
	if of.pixels <= 1 && l.channel != Hue {
		switch l.quantity {
		case quantityVariance, quantityStdDev, quantityDeviation, quantityQuartiles, quantityEntropy:
			return 0, 0
		}
	}
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
	case quantityPlaneX:
		return -hi * of.tiltX, hi * of.tiltX
	case quantityPlaneY:
		return -hi * of.tiltY, hi * of.tiltY
	case quantitySkewness: // the greatest is that of samples that are equal but for one
		n := float64(max(of.pixels, 3))
		hi = (n - 2) / math.Sqrt(n-1) * (1 + slack)
		return -hi, hi
	case quantityKurtosis:
		n := float64(max(of.pixels, 3))
		return 1, (n - 2 + 1/(n-1)) * (1 + slack)
	case quantityEntropy:
		hi = bitsOf(min(hi+1, float64(of.pixels)))
	case quantityDeviation:
		hi /= 2
	case quantityKolmogorovSmirnov, quantityJensenShannon, quantityChiSquare:
		hi = 1
	case quantityContrast:
		hi = float64((of.levels - 1) * (of.levels - 1))
	case quantityHomogeneity:
		return (1 - slack) / float64(1+(of.levels-1)*(of.levels-1)), 1
	case quantityEnergy: // the least is that of pairs that are all different
		return max(1/float64(of.levels), (1-slack)/math.Sqrt(2*of.pairs(l.offset))), 1
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
		hi = bitsOf(min(float64(of.levels*of.levels), 2*of.pairs(l.offset)))
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

// pairs is how many pairs of pixels lie so at most, and 1 at least.
func (of *scope) pairs(o Offset) float64 {
	return max(float64(of.x1-of.x0)-math.Abs(float64(o.DX)), 1) * max(float64(of.y1-of.y0)-math.Abs(float64(o.DY)), 1)
}

// bitsOf is the greatest entropy of samples that are of n kinds.
func bitsOf(n float64) float64 {
	v := math.Log2(n)
	if v != math.Trunc(v) {
		v *= 1 + slack
	}
	return v
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

// lacks says that the picture decides whether the quantity has a value at all: the limit fails on samples that are all
// equal, on black, where no pixel has a hue, or without a frame before.
func (l *Limit) lacks() bool {
	switch l.quantity {
	case quantitySkewness, quantityKurtosis, quantityWeightedX, quantityWeightedY, quantityCorrelation,
		quantityCoefficient:
		return true
	case quantityCovariance:
		return l.correlation.Kind == Framed && l.correlation.Frame == ""
	case quantityDistinct, quantityPixels:
		return false
	}
	return l.channel == Hue
}

// toothless says why the limit holds whatever a picture shows; as a rule its number was meant for another format or
// region. It is empty for a limit that can fail. It is empty, too, for a region without pixels, whose limits fail, and
// for a least coverage: "coverage >= 0" says that a region may reach outside the frame. Samples correlated with
// themselves are always 1 but where they are all equal: no number makes sense of them. format is what the reason calls
// the frames.
func (l *Limit) toothless(of *scope, format string) string {
	switch {
	case l.millimetres && l.scale == nil || of.pixels == 0 || l.AllowsOutside():
		return ""
	case l.expression != nil:
		return "" // see toothlessBetween
	}
	if why := l.pointless(of, format); why != "" {
		return why
	}
	if r := l.known(of, (*Scale).convert); l.holdsIn(r) && (!l.lacks() || r.lo == r.hi) {
		if l.lacks() {
			return fmt.Sprintf("fails only where it has no value: %s is always %v", l.spelled, number(r.lo))
		}
		if r.contains(l.want.lo) && l.op == opNotEqual {
			return fmt.Sprintf("can't fail: %s is never %s", l.spelled, number(l.want.lo))
		}
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
	if !ok {
		return ""
	}
	if l.channel == Hue { // no interval of hues counts every pixel: some have none
		for _, bins := range l.pixels.hueBins() {
			if from, to := bins.integers(first, last); from <= to {
				return ""
			}
		}
		return fmt.Sprintf("counts no pixel: hue is 0 to less than 360, in steps of %v where pixels are counted",
			number(k.width()))
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
		return !r.contains(l.want.lo) || l.between(l.want.lo)
	}
	return !l.want.wraps() && l.want.contains(r.lo) && l.want.contains(r.hi)
}

// between says that a value lies between two that are next to each other: nothing is equal to it, whatever a picture
// shows.
func (l *Limit) between(v float64) bool {
	switch q := l.quantity; {
	case l.unit != 0:
		return false
	case q >= quantityMinX && q <= quantityMaxY: // centres of pixels
		v -= 0.5
	case q == quantityMedian && !l.channel.isDerived(): // or the middle of two samples
		v *= 2
	case q == quantityBlobs:
		if f := l.blobs.feature; f != nil && !f.whole {
			return false
		}
	case !l.integer():
		return false
	}
	return v != math.Trunc(v)
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
	if s.found { // what can fail where the regions are drawn is as good where they were found
		s = s.asDrawn()
	}
	passed := &s.passed[bits.Len(uint(of.most))]
	if format == anyFormat {
		passed = &s.passed[0]
	}
	if p := passed.Load(); p != nil && *p == of {
		return
	}
	before := len(bad.Violations)
	var idle []idleLimit
	pixel := of
	pixel.pixels, pixel.area, pixel.x0, pixel.y0, pixel.x1, pixel.y1 = 1, 0, 0, 0, 1, 1
	pixel.tiltX, pixel.tiltY = 0, 0
	if slices.ContainsFunc(s.distinct, func(l *Limit) bool {
		switch l.quantity {
		case quantitySum, quantityCoveredSum, quantityPlaneX, quantityPlaneY, quantityBlobs: // it depends on the region then
			return l.toothless(&pixel, format) != ""
		}
		return l.toothless(&of, format) != ""
	}) {
		idle = s.idleAlone(of, format)
	}
	pixel.x0, pixel.y0, pixel.x1, pixel.y1 = of.x0, of.y0, of.x1, of.y1
	if slices.ContainsFunc(s.distinct, func(l *Limit) bool {
		return l.expression != nil && s.toothlessBetween(nil, l, pixel, format) != ""
	}) {
		idle = append(idle, s.idleTogether(of, format)...)
	}
	s.tellIdle(bad, idle)
	if len(bad.Violations) == before {
		passed.Store(&of)
	}
}

// checkPlaces refuses limits that can't fail where the regions are, whatever frames are: a pose that shrinks them may
// leave fewer pixels than a limit allows, and one that spreads them more.
func (s *Set) checkPlaces(bad *kernels.InvalidError) {
	idle := s.idle
	if s.pose != nil {
		idle = append(s.idleAlone(anyFrame(), anyFormat), s.idleTogether(anyFrame(), anyFormat)...)
	}
	s.tellIdle(bad, idle)
}

// idleAlone are the limits of single regions that can't fail in a scope, of which regions are still unknown, and
// idleTogether those between regions.
func (s *Set) idleAlone(of scope, format string) (idle []idleLimit) {
	for i := range s.names {
		here := s.scopeOf(i, of)
		for k, l := range s.Limits(i) {
			if why := l.toothless(&here, format); why != "" {
				idle = append(idle, idleLimit{i, k, l, why})
			}
		}
	}
	return idle
}

func (s *Set) idleTogether(of scope, format string) (idle []idleLimit) {
	told := map[*Limit]string{}
	for n := range s.between {
		b := &s.between[n]
		l := s.Limits(b.region)[b.limit]
		if why := s.idleBetween(told, b, l, of, format); why != "" {
			idle = append(idle, idleLimit{b.region, b.limit, l, why})
		}
	}
	return idle
}

// idleLimit is a limit that can't fail in a region.
type idleLimit struct {
	region, limit int
	of            *Limit
	why           string
}

// tellIdle says so of limits that can fail in no region: one that several regions have is meant for those where it can,
// such as a limit for all of a board's regions, the smallest among them.
func (s *Set) tellIdle(bad *kernels.InvalidError, all []idleLimit) {
	if len(all) == 0 {
		return
	}
	can := map[*Limit]int{} // in how many regions it can
	for _, l := range s.limits {
		can[l]++
	}
	for _, d := range all {
		can[d.of]--
	}
	with := ""
	if s.pose != nil {
		with = "with the pose, "
	}
	for _, d := range all {
		if can[d.of] == 0 {
			bad.Add(path{"regions", d.region, "limits", d.limit}, quoted(d.of.expr), "%s%s", with, d.why)
		}
	}
}

// idleBetween is toothlessBetween, asked once of a limit that may stand anywhere. told has what was said.
func (s *Set) idleBetween(told map[*Limit]string, b *between, l *Limit, of scope, format string) string {
	if !l.anywhere() {
		return s.toothlessBetween(b, l, of, format)
	}
	why, known := told[l]
	if !known {
		why = s.toothlessBetween(b, l, of, format)
		told[l] = why
	}
	return why
}

// mostOperand is above all that operands can be; a bound of an expression that isn't below it isn't known.
const mostOperand = 1e60

// toothlessBetween is toothless of a limit between regions. Without b, it says so where the limit may be, of whatever
// regions: of is the scope of the smallest then.
func (s *Set) toothlessBetween(b *between, l *Limit, of scope, format string) string {
	if l.millimetres && s.scale == nil {
		return ""
	}
	x := l.expression
	type part struct {
		interval
		from  int  // its first step
		whole bool // it is a whole number
	}
	var stack []part
	for i, step := range x.steps {
		n := len(stack)
		switch step.do {
		case 'n':
			stack = append(stack, part{interval{lo: step.number, hi: step.number}, i, step.number == math.Trunc(step.number)})
			continue
		case 'q':
			o := &x.operands[step.operand]
			scopes := []scope{of}
			if b != nil {
				scopes = make([]scope, len(b.members[step.operand]))
				for m, at := range b.members[step.operand] {
					scopes[m] = s.scopeOf(at.region, of)
				}
			}
			ranges, why := s.operandRanges(l, o, scopes, format)
			if why != "" || len(ranges) == 0 || o.is.lacks() {
				return why
			}
			if x.all {
				fail := 0
				for _, r := range ranges {
					if !l.holdsIn(r) && !(l.op == opNotEqual && o.is.between(l.want.lo)) {
						fail++
					}
				}
				if fail > 0 && (fail > x.but || len(ranges) == 1) && (b != nil || x.but == 0) {
					return ""
				}
				return fmt.Sprintf("can't fail: it holds for %s, whatever %s shows", l.spelled, format)
			}
			whole := o.is.integer() && (o.over == nil || o.over.what == 'd') || o.over != nil && o.over.what == 'f'
			stack = append(stack, part{ranked(ranges, o.rank), i, whole})
			continue
		}
		p, q := stack[n-2], stack[n-1]
		left, right := x.steps[p.from:q.from], x.steps[q.from:i]
		same := (step.do == '-' || step.do == '/') && s.same(b, x, left, right)
		r, ok := combined(step, same, p.interval, q.interval)
		if !ok {
			return ""
		}
		if step.do == '-' && len(left) == 1 && len(right) == 1 && left[0].do == 'q' && right[0].do == 'q' {
			k, n := left[0].operand, right[0].operand
			if s.ordered(b, x, k, n) {
				r.hi = min(r.hi, 0)
			}
			if s.ordered(b, x, n, k) {
				r.lo = max(r.lo, 0)
			}
		}
		stack = append(stack[:n-2], part{r, p.from, p.whole && q.whole && step.do != '/'})
	}
	r := stack[0].interval
	switch {
	case l.holdsIn(r):
		return fmt.Sprintf("can't fail: %s is %s on %s", l.spelled, r.words(), format)
	case l.op == opNotEqual && stack[0].whole && !l.millimetres && l.want.lo != math.Trunc(l.want.lo):
		return fmt.Sprintf("can't fail: %s is never %s", l.spelled, number(l.want.lo))
	}
	return ""
}

// ordered says that operand k of an expression is never above operand n, whatever a picture shows: both are of one
// region, or of one group and its order of rank, and their quantities have an order. Without b they may be.
func (s *Set) ordered(b *between, x *expression, k, n int) bool {
	o, p := &x.operands[k], &x.operands[n]
	if b == nil || o.over != nil || p.over != nil || !o.is.atMost(&p.is) {
		return b == nil
	}
	of, in := b.members[k], b.members[n]
	from := func(o *operand, members int) int { // the largest on
		if o.rank < 0 {
			return members + o.rank
		}
		return max(o.rank-1, 0)
	}
	oneOf := func(a, among []place) bool {
		return len(a) == 1 && slices.ContainsFunc(among, func(m place) bool { return s.samePixels(a[0], m) })
	}
	switch {
	case slices.EqualFunc(of, in, s.samePixels):
		return from(o, len(of)) >= from(p, len(in))
	case oneOf(of, in):
		return p.rank == 1
	case oneOf(in, of):
		return from(o, len(of)) == len(of)-1
	}
	return false
}

// atMost says that the quantity of l is never above that of o, of one region and channel. Only what needs no rounding,
// or is rounded alike, has an order.
func (l *Limit) atMost(o *Limit) bool {
	switch {
	case l.measuresAs(o):
		return true
	case o.quantity == quantityCount:
		return l.quantity == quantityPixels || l.quantity == quantityDistinct
	case l.channel != o.channel, l.channel.isDerived() && l.channel != Gray709 &&
		(l.binned() != o.binned() || !l.sample() || !o.sample()):
		return false // samples of derived channels may be negative
	case l.quantity == quantityPixels && o.quantity == quantityPixels:
		return l.pixels.and(o.pixels) == l.pixels
	case l.quantity == quantityMin:
		return o.sample() || o.quantity == quantitySum
	case o.quantity == quantityMax || o.quantity == quantitySum: // no sample is below 0
		spread := l.quantity == quantityStdDev || l.quantity == quantityDeviation || l.quantity == quantityQuartiles
		return l.sample() || spread
	}
	percent := func(l *Limit) (exact.Fraction, bool) {
		if l.quantity == quantityMedian { // p50, or between it and the sample behind
			return exact.Percent(50), true
		}
		return l.percent, l.quantity == quantityPercentile
	}
	p, ok := percent(l)
	q, known := percent(o)
	return ok && known && (p.NearestRank(1<<31) < q.NearestRank(1<<31) || p == q && l.quantity == quantityPercentile)
}

// binned says that samples of derived channels are rounded to bins for the quantity.
func (l *Limit) binned() bool {
	return l.quantity == quantityMedian || l.quantity == quantityPercentile || l.quantity == quantityMode
}

// sample says that the quantity is one of the samples, or between two of them.
func (l *Limit) sample() bool {
	switch l.quantity {
	case quantityMean, quantityMin, quantityMax, quantityMedian, quantityMode, quantityPercentile:
		return true
	}
	return false
}

// operandRanges are those of an operand in each of its regions, or why it makes no sense.
func (s *Set) operandRanges(l *Limit, o *operand, members []scope, format string) (ranges []interval, why string) {
	is := o.is
	is.millimetres, is.scale = l.millimetres, l.scale
	convert := (*Scale).convert
	if o.over != nil {
		switch o.over.what {
		case 'f':
			if !s.failsParts() {
				return nil, is.spelled + " counts nothing: the regions have no limit that can fail, those over parts left aside"
			}
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

// failsParts says that a limit can fail the parts that are counted: limits over parts can't, nor does a least coverage
// of 0, which says that a region may reach outside the frame.
func (s *Set) failsParts() bool {
	return slices.ContainsFunc(s.distinct, func(l *Limit) bool {
		return !l.overParts() && !(l.AllowsOutside() && l.holdsIn(interval{hi: 1}))
	})
}

// overParts says that the limit looks at the last parts of a stream.
func (l *Limit) overParts() bool {
	return l.expression != nil && slices.ContainsFunc(l.expression.operands, func(o operand) bool { return o.over != nil })
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

// combined is the range of what a step makes of two numbers, which may be the same. Rounding is monotone, so that
// bounds are rounded as the numbers are. ok is false where there may be no number: by division by 0, or overflow.
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

// same says that both sides of a sign are the same: then their difference is 0, and their quotient 1. Without b they
// may be.
func (s *Set) same(b *between, x *expression, left, right []step) bool {
	return slices.EqualFunc(left, right, func(p, q step) bool {
		if p.do != 'q' || q.do != 'q' {
			return p.do == q.do && p.number == q.number && p.dimension == q.dimension
		}
		m, n := &x.operands[p.operand], &x.operands[q.operand]
		over := m.over == n.over || m.over != nil && n.over != nil && *m.over == *n.over
		return over && m.rank == n.rank && m.is.measuresAs(&n.is) &&
			(b == nil || slices.EqualFunc(b.members[p.operand], b.members[q.operand], s.samePixels))
	})
}

// samePixels says that two regions are one, or were given alike.
func (s *Set) samePixels(a, b place) bool {
	i, j := a.region, b.region
	return i == j || s.boxes[i] == s.boxes[j] && s.regions[i].Fill == s.regions[j].Fill &&
		slices.Equal(s.edgesOf(i), s.edgesOf(j)) && slices.Equal(s.runsOf(i), s.runsOf(j))
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
	switch q.what {
	case 'm':
		r := q.feature.values(of, l.unit, l.scale)
		return min(r.lo, 0), max(r.hi, 0)
	case 's':
		r := q.feature.values(of, l.unit, l.scale)
		switch q.feature.name {
		case "area", "holes", "sum", "perimeter": // all together are bounded as one is
			return 0, r.hi
		case "length", "breadth":
			return 0, q.feature.each(of, l.unit, l.scale) * float64(of.pixels)
		}
		most := of.mostBlobs(of.leastBlob) * (1 + 1e-9) // sums are rounded
		return min(r.lo, 0) * most, max(r.hi, 0) * most
	}
	least := float64(of.leastBlob) // pixels of one that counts
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
		if whole {
			r.lo = first
		}
		if one := f.each(of, q.of[k].unit, l.scale); one > 0 {
			least = max(least, math.Ceil(r.lo/one*(1-1e-9)))
		}
	}
	return 0, of.mostBlobs(int(min(least, math.MaxInt32)))
}

// each is what a pixel adds to the feature of a blob at most; 0 where the number of pixels has no part in it.
func (f *blobFeature) each(of *scope, unit int, scale *Scale) float64 {
	switch f.name {
	case "area", "sum", "length", "breadth", "perimeter":
		pixel := *of
		pixel.pixels = 1
		return f.values(&pixel, unit, scale).hi
	}
	return 0
}

// mostBlobs is how many blobs of so many pixels there can be.
func (of *scope) mostBlobs(each int) float64 {
	pixels := float64(of.pixels)
	most := min(math.Ceil(pixels/2), math.Floor(pixels/float64(each)))
	if of.eight {
		// Blobs that are a pixel wider and taller don't overlap, and have the square of a side that is 1 longer, at least
		// (Brunn and Minkowski).
		w, h := float64(of.x1-of.x0), float64(of.y1-of.y0)
		side := math.Sqrt(float64(each)) + 1
		most = min(most, math.Ceil(w/2)*math.Ceil(h/2), math.Floor((w+1)*(h+1)/math.Ceil(side*side*(1-1e-9))))
	}
	return most
}

// values are the range of the feature of a blob.
func (f *blobFeature) values(of *scope, unit int, scale *Scale) interval {
	w, h, sx, sy := float64(of.x1-of.x0), float64(of.y1-of.y0), 1.0, 1.0
	if unit != 0 {
		sx, sy = scale.X, scale.Y
	}
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
	one := Blob{sidesX: 2, sidesY: 2, corners: 4} // of a pixel
	switch f.name {
	case "area":
		if r = (interval{lo: least, hi: pixels}); unit != 0 {
			r.lo, r.hi = scale.Area(r.lo), scale.Area(r.hi)
		}
	case "x":
		r = place(of.x0, of.x1, (*Scale).convert, quantityCentroidX)
	case "y":
		r = place(of.y0, of.y1, (*Scale).convert, quantityCentroidY)
	case "length", "breadth":
		// Variances along an axis are at most a quarter of the square of what is spanned, and of connected pixels those of a
		// line of corners.
		spanned := []float64{math.Sqrt(3)*math.Hypot(w*sx, h*sy) + max(sx, sy), pixels * math.Hypot(sx, sy)}
		if f.name == "breadth" {
			spanned = append(spanned, math.Sqrt(3)*min(w*sx, h*sy)+max(sx, sy))
		}
		r = interval{lo: min(sx, sy) * (1 - slack), hi: slices.Min(spanned) * (1 + slack)}
	case "perimeter": // that of one pixel at least
		r = interval{lo: one.perimeter(sx, sy) * (1 - slack), hi: 2 * (sx + sy) * pixels}
	case "angle":
		r = interval{lo: -90, hi: 90}
	case "roundness": // that of one pixel at most: TestRoundest
		r.hi = 4 * math.Pi / (one.perimeter(1, 1) * one.perimeter(1, 1)) * (1 + slack)
	case "holes": // they don't touch each other, nor what is around the blob
		r.hi = math.Ceil(max(w-2, 0) * max(h-2, 0) / 2)
	case "mean", "min", "max":
		r = interval{lo: dark, hi: bright}
	case "stddev":
		r.hi = (bright - dark) / 2
	case "sum":
		r = interval{lo: dark * least, hi: bright * pixels}
	}
	return r
}

// checkSpans says of each span that it takes every pixel, or none, in frames whose samples are 0 to most, and of the
// strong one that it takes all or nothing of the other. Of n samples none is more than sqrt(n-1) standard deviations
// from their mean (Samuelson's inequality): set has the regions, unless it is nil.
func (s *BlobSpec) checkSpans(bad *kernels.InvalidError, set *Set, most int, format string) {
	lo, hi, those := 0.0, float64(most), fmt.Sprintf("of %s, whose samples are 0 to %d", format, most)
	switch s.Threshold {
	case ThresholdPercentiles:
		hi = 100
	case ThresholdDeviations:
		hi = math.Inf(1)
		if set != nil {
			n := int64(1)
			for i := range set.boxes {
				n = max(n, set.mostPixels(i))
			}
			hi = math.Sqrt(float64(n-1)) * (1 + 1e-9) // ends are rounded, and so are the samples that they stand for
			those = fmt.Sprintf("of regions whose samples differ: of %d pixels, which they have at most, none is more than "+
				"%.6g standard deviations from the mean", n, hi)
		}
		lo = -hi
	}
	in := func(v Span) (from, to float64) {
		if from, to = max(v.From, lo), min(v.To, hi); s.Threshold == ThresholdValues {
			return math.Ceil(from), math.Floor(to)
		}
		return from, to
	}
	from, to := in(s.Range)
	if s.takesSome(bad, "", s.Range, from, to, lo, hi, those) && s.Strong != nil {
		strong, end := in(*s.Strong)
		switch field := s.Strong.field("strong_"); {
		case !s.takesSome(bad, "strong_", *s.Strong, strong, end, lo, hi, those):
		case strong <= from && end >= to:
			bad.Add(field, s.Strong.String(), "leaves out no blob: a pixel that is %v is also %v", s.Range, *s.Strong)
		case len(s.Steps) == 0 && (strong > to || end < from):
			bad.Add(field, s.Strong.String(), "leaves out every blob: a pixel that is %v is never %v", s.Range, *s.Strong)
		}
	}
}

// takesSome says that a span takes some of what there is from lo to hi, and not all: it takes those from one to
// another.
func (s *BlobSpec) takesSome(bad *kernels.InvalidError, prefix string, v Span, from, to, lo, hi float64,
	those string) bool {
	every := from <= lo && to >= hi && !math.IsInf(hi, 1)
	switch {
	case from > to:
		bad.Add(v.field(prefix), v.String(), "takes no pixel %s", those)
	case every:
		bad.Add(v.field(prefix), v.String(), "takes every pixel %s", those)
	}
	return from <= to && !every
}

// field is where a span is in requests: that of its first end which is given.
func (s Span) field(prefix string) path {
	if math.IsInf(s.From, -1) {
		return path{"reductions", "blobs", prefix + "upper"}
	}
	return path{"reductions", "blobs", prefix + "lower"}
}
