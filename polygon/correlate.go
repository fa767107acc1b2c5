// Correlation: how much pairs of pixels vary together, at lags, in rings of lags, with another frame, with another
// channel.

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

// CorrelationKind says what the second pixels of pairs are.
type CorrelationKind uint8

const (
	// Lagged: the pixel at Offset from the first, of the same frame and channel: autocorrelation.
	Lagged CorrelationKind = iota + 1
	// Radial: all pixels whose distance from the first rounds to Radius, of the same frame and channel: two-point
	// correlation. A request for it is one for all distances from 0 to Radius.
	Radial
	// Framed: the pixel at Offset from the place of the first, in the frame that Frame names: "" is the frame before in
	// a stream, and where there is none there are no pairs.
	Framed
	// Crossed: the same pixel in the channel With. A request for it with NoChannel is one for all channels.
	Crossed
)

// Correlation says which pairs of samples are looked at. A pair is two pixels of the region and the frame, the first of
// the frame and of the channel at hand. Fields that the kind doesn't speak of are zero.
type Correlation struct {
	Kind   CorrelationKind
	Offset Offset
	Radius int
	Frame  string
	With   Channel
}

// Bounds of correlations.
const (
	MaxCorrelations = 64 // of a call, those of limits and all distances included
	MaxRadius       = 32
	MaxFrames       = 4 // other frames of a call
)

// CorrelationValue is what the pairs of a Correlation come to, of samples a and b. Where there are no pairs the numbers
// are NaN.
//
// Sums are exact. Product is the exact value, correctly rounded; Covariance and Coefficient are off by less than 2^-50
// of themselves, and the same on every processor. Pairs of a distance count in either order, so that both samples have
// the same mean and variance.
type CorrelationValue struct {
	Correlation
	Pairs       uint64
	Product     float64 // mean of a*b
	Covariance  float64 // mean of a*b less the product of the means, those of the pairs' own samples
	Coefficient float64 // the covariance over the root of both variances, -1 to 1; NaN where one is 0
}

// String is the correlation as limits spell it, such as "autocorrelation(8,0)".
func (c Correlation) String() string { return c.spelled(quantityCoefficient) }

// spelled is a quantity of the correlation as limits spell it.
func (c Correlation) spelled(q quantity) string {
	name := "autocorrelation"
	if q == quantityCovariance {
		name = "autocovariance"
	}
	switch c.Kind {
	case Radial:
		return fmt.Sprintf("radial(%d)", c.Radius)
	case Framed:
		name = "ncc"
		if q == quantityCovariance {
			name = "covariance"
		}
		if c.Frame == "" {
			return fmt.Sprintf("%s of the frame before at %v", name, c.Offset)
		}
		return fmt.Sprintf("%s of %q at %v", name, c.Frame, c.Offset)
	case Crossed:
		name = "correlation"
		if q == quantityCovariance {
			name = "covariance"
		}
		return fmt.Sprintf("%s(%v)", name, c.With)
	}
	return name + c.Offset.String()
}

// wrong says what is, or nothing.
func (c Correlation) wrong() string {
	switch {
	case c.Kind < Lagged || c.Kind > Crossed:
		return "is of no known kind"
	case c.Radius < 0 || c.Radius > MaxRadius:
		return fmt.Sprintf("has a distance that is not 0 to %d", MaxRadius)
	}
	reach := max(c.Offset.DX, -c.Offset.DX, c.Offset.DY, -c.Offset.DY)
	if reach > MaxReach {
		return fmt.Sprintf("has a coordinate beyond %d", MaxReach)
	}
	return ""
}

// correlating is one op of a plan: the sums of several correlations.
type correlating struct {
	framed bool   // the second pixels are of another frame,
	frame  string // this one
	lags   []driver.Lag
	slots  int
	series []driver.ChannelPair
}

// sumPlace is where the sums of a correlation are: in which op, and which of its slots. The op is -1 where there are
// none.
type sumPlace struct{ op, slot int }

// planCorrelations finds the correlations of a call: those that were asked for, and then those of limits.
func (p *plan) planCorrelations(bad *kernels.InvalidError, r *Reductions) {
	at := path{"reductions", "correlations"}
	add := func(c Correlation) {
		if !slices.Contains(p.correlations, c) {
			p.correlations = append(p.correlations, c)
		}
	}
	if p.output.Fields.Has(FieldChannels) {
		for _, c := range r.Correlations {
			switch {
			case c.Kind == Radial:
				for n := range c.Radius + 1 {
					add(Correlation{Kind: Radial, Radius: n})
				}
			case c.Kind == Crossed && c.With == NoChannel:
				for _, with := range p.channels[:p.own] {
					add(Correlation{Kind: Crossed, With: with})
				}
			default:
				add(c)
			}
		}
	}
	p.listedCorrelations = len(p.correlations)
	for _, c := range p.set.correlations {
		add(c)
	}
	if n := len(p.correlations); n > MaxCorrelations {
		bad.Add(at, n, "with those of limits are too many: the limit is %d", MaxCorrelations)
		return
	}
	if n := int64(p.set.Len()) * int64(len(p.channels)) * int64(p.listedCorrelations) * correlationValues; n > maxResultValues {
		bad.Add(at, p.listedCorrelations, "make %d numbers for %d regions of %d channels: the limit is %d", n,
			p.set.Len(), len(p.channels), maxResultValues)
		return
	}
	p.placeCorrelations(bad, r)
}

// correlationValues is how many numbers a CorrelationValue takes, about.
const correlationValues = 12

// placeCorrelations makes the ops of a plan.
func (p *plan) placeCorrelations(bad *kernels.InvalidError, r *Reductions) {
	at := path{"reductions", "correlations"}
	op := func(c Correlation) int {
		crossed, framed := c.Kind == Crossed, c.Kind == Framed
		i := slices.IndexFunc(p.correlating, func(o correlating) bool {
			return o.framed == framed && o.frame == c.Frame && (o.lags == nil) == crossed
		})
		if i >= 0 {
			return i
		}
		o := correlating{framed: framed, frame: c.Frame}
		for a := range p.own {
			if crossed {
				for b := a; b < p.own; b++ {
					o.series = append(o.series, driver.ChannelPair{A: uint8(a), B: uint8(b)})
				}
			} else {
				o.series = append(o.series, driver.ChannelPair{A: uint8(a), B: uint8(a)})
			}
		}
		p.correlating = append(p.correlating, o)
		return len(p.correlating) - 1
	}
	for _, c := range p.correlations {
		if _, here := r.Frames[""]; c.Kind == Framed && c.Frame == "" && !here {
			p.places = append(p.places, sumPlace{op: -1})
			continue
		}
		to := sumPlace{op: op(c)}
		o := &p.correlating[to.op]
		to.slot = o.slots
		switch c.Kind {
		case Lagged, Framed:
			o.lags = append(o.lags, driver.Lag{DX: int32(c.Offset.DX), DY: int32(c.Offset.DY), Slot: int32(o.slots)})
		case Radial:
			o.lags = append(o.lags, ring(c.Radius, o.slots)...)
		case Crossed:
			if !slices.Contains(p.channels[:p.own], c.With) {
				bad.Add(at, c.String(), "the frame has no %v channel (%s)", c.With, p.frame.Format)
			}
		}
		if c.Kind != Crossed {
			o.slots++
		}
		p.places = append(p.places, to)
		if c.Kind == Framed {
			p.checkFrame(bad, r, c.Frame)
		}
	}
	for i := range p.correlating {
		if o := &p.correlating[i]; o.lags == nil {
			o.lags, o.slots = []driver.Lag{{}}, 1
		}
	}
	// As the op has it: sums of products of 16 bits have room for so many pairs.
	pixels := uint64(p.frame.Width) * uint64(p.frame.Height)
	for _, c := range p.correlations {
		if n := uint64(ringLags(c.Radius)); c.Kind == Radial && p.frame.Format.SampleBytes == 2 && n*pixels > 1<<32 {
			bad.Add(at, c.String(), "is of up to %d pairs of pixels: of samples of 16 bits there must not be more than %d",
				n*pixels, uint64(1<<32))
			return
		}
	}
	if n := len(p.others); n > MaxFrames {
		bad.Add(at, n, "other frames are too many: the limit is %d", MaxFrames)
	}
}

// checkFrame notes another frame, which has to be like the frame at hand.
func (p *plan) checkFrame(bad *kernels.InvalidError, r *Reductions, name string) {
	if _, known := p.others[name]; known {
		return
	}
	at, called := path{"frames"}, quoted(name)
	if name == "" {
		called = "the frame before"
	}
	f, ok := r.Frames[name]
	switch own := &p.frame; {
	case !ok:
		bad.Add(at, called, "is no frame that there is to compare with")
		return
	case f.Width != own.Width || f.Height != own.Height || f.Format != own.Format:
		bad.Add(at, called, "has %dx%d pixels of %s, the frame %dx%d of %s: they must be alike", f.Width, f.Height,
			f.Format, own.Width, own.Height, own.Format)
		return
	}
	bad.Include(f.Check("frames", name))
	if p.others == nil {
		p.others = map[string]kernels.Picture{}
	}
	p.others[name] = f
}

// ring are the lags whose lengths round to a radius, one of each two that are opposite.
func ring(radius, slot int) (lags []driver.Lag) {
	if radius == 0 {
		return []driver.Lag{{Slot: int32(slot)}}
	}
	low, high := (2*radius-1)*(2*radius-1), (2*radius+1)*(2*radius+1) // of 4 times the square; an odd square is none
	for dy := 0; dy <= radius; dy++ {
		for dx := -radius; dx <= radius; dx++ {
			if n := 4 * (dx*dx + dy*dy); (dy > 0 || dx > 0) && n > low && n < high {
				lags = append(lags, driver.Lag{DX: int32(dx), DY: int32(dy), Slot: int32(slot)})
			}
		}
	}
	return lags
}

// ringLags is how many there are.
func ringLags(radius int) int { return len(ring(radius, 0)) }

// sums is how many sums a region has of an op.
func (o *correlating) sums() int { return len(o.series) * o.slots }

// alignedSums is how many sums take up the memory of n, so that those behind them are aligned.
func alignedSums(n int) int {
	const unit = driver.Align / 16 // a sum has 48 bytes
	return (n + unit - 1) / unit * unit
}

// correlationSums is how many sums so many regions have, of all ops.
func (p *plan) correlationSums(regions int) (n int) {
	for i := range p.correlating {
		n += alignedSums(regions * p.correlating[i].sums())
	}
	return n
}

// correlationWork is how many pairs a pixel is part of.
func (p *plan) correlationWork() (n int64) {
	for i := range p.correlating {
		o := &p.correlating[i]
		n += int64(len(o.lags) * len(o.series))
	}
	return n
}

// correlationOps are the ops of a call on rows [y0, y1) of the frame, of a stride, without their data, and how much
// scratch memory the one that takes most does.
func (d *deriver) correlationOps(dev *kernels.Device, y0, y1, stride int) (ops []driver.MaskCorrelate, scratch int64,
	err error) {
	im := driver.Image{Width: d.frame.Width, Height: y1 - y0, Stride: stride, Format: d.frame.Format}
	for i := range d.correlating {
		o := &d.correlating[i]
		op := driver.MaskCorrelate{Frame: im, Other: im, Row0: y0, Lags: o.lags, Slots: o.slots, Series: o.series}
		n, err := dev.Scratch(&op)
		if err != nil {
			return nil, 0, err
		}
		ops, scratch = append(ops, op), max(scratch, n)
	}
	return ops, scratch, nil
}

// takeOthers begins with rows [y0, y1) of the other frames. They take so many bytes.
func (d *deriver) takeOthers(y0, y1 int) (others map[string]*kernels.Intake, footprint int64) {
	for name := range d.others {
		if others == nil {
			others = map[string]*kernels.Intake{}
		}
		f, t := d.others[name], &kernels.Intake{}
		t.Take(&f, y0, y1)
		others[name], footprint = t, footprint+t.Footprint()
	}
	return others, footprint
}

// runOthers brings the other frames into ops.
func (d *deriver) runOthers(q *kernels.Queue, others map[string]*kernels.Intake, ops []driver.MaskCorrelate) error {
	images := map[string]driver.Image{}
	for name, t := range others {
		im, err := t.Run(q)
		if err != nil {
			return err
		}
		images[name] = im
	}
	for i := range ops {
		if !d.correlating[i].framed {
			continue
		}
		im, op := images[d.correlating[i].frame], &ops[i]
		top, _ := others[d.correlating[i].frame].Rows() // one that is on the device has all of its rows
		skip := int64(op.Row0-top) * int64(im.Stride)
		im.Data.Off, im.Data.Len, im.Height = im.Data.Off+skip, im.Data.Len-skip, op.Other.Height
		op.Other = im
	}
	return nil
}

// correlate enqueues the ops for regions [first, first+count), and the download of their sums to host: op by op.
func (d *deriver) correlate(q *kernels.Queue, ops []driver.MaskCorrelate, prepared driver.Slice, scratch,
	pixels driver.Slice, first, count int, sums kernels.Buffer[driver.PairSums], host []driver.PairSums) error {
	from := 0
	for i, op := range ops {
		n := count * d.correlating[i].sums()
		op.Prepared, op.First, op.Count, op.Scratch = prepared, first, count, scratch
		op.Frame.Data = pixels
		if !d.correlating[i].framed {
			op.Other.Data = pixels
		}
		op.Sums = sums.Range(from, from+n).Slice()
		if err := d.correlateBands(q, op); err != nil {
			return err
		}
		from += alignedSums(n)
	}
	return kernels.Download(q, host[:from], sums.Range(0, from))
}

// correlateBands enqueues an op in bands of rows that take about as long as a chunk may.
func (d *deriver) correlateBands(q *kernels.Queue, op driver.MaskCorrelate) error {
	n := d.set.work(op.First, op.First+op.Count, op.Frame.Width, op.Row0, op.Row0+op.Frame.Height, 1)
	n *= int64(len(op.Series) * len(op.Lags))
	return inBands(q, "correlate", n, op.Row0, op.Frame.Height, func(from, to int) error {
		part := op // the one before may still be under way
		part.Accumulate, part.FromRow, part.ToRow = from > op.Row0, from, to
		return q.Run(&part)
	})
}

// pairSource finds the downloaded sums of a batch.
type pairSource struct {
	sums  []driver.PairSums // op by op, of each its regions
	count int               // regions of the batch
	skip  int               // regions before the one at hand
}

// correlationsOf derives the values of channel c, one for each correlation of the plan.
func (p *plan) correlationsOf(to []CorrelationValue, from pairSource, c int) {
	base := make([]int, len(p.correlating)) // where the sums of the region at hand begin
	all := 0
	for i := range p.correlating {
		n := p.correlating[i].sums()
		base[i], all = all+from.skip*n, all+alignedSums(from.count*n)
	}
	for k, what := range p.correlations {
		to[k] = CorrelationValue{Correlation: what}
		if c >= p.own || p.places[k].op < 0 { // a channel that is derived from colours has none
			to[k].derive(&driver.PairSums{})
			continue
		}
		at, o, series := p.places[k], &p.correlating[p.places[k].op], c
		turned := false
		if what.Kind == Crossed {
			with := slices.Index(p.channels[:p.own], what.With)
			a, b := min(c, with), max(c, with)
			turned = with < c
			series = slices.Index(o.series, driver.ChannelPair{A: uint8(a), B: uint8(b)})
		}
		s := from.sums[base[at.op]+series*o.slots+at.slot]
		if turned {
			s.A, s.B, s.SqA, s.SqB = s.B, s.A, s.SqB, s.SqA
		}
		to[k].derive(&s)
	}
}

// derive computes the numbers. Sums of pairs in either order are those of one order and of the other.
func (v *CorrelationValue) derive(s *driver.PairSums) {
	v.Product, v.Covariance, v.Coefficient = math.NaN(), math.NaN(), math.NaN()
	if v.Pairs = s.Pairs; s.Pairs == 0 {
		return
	}
	n := float64(s.Pairs)
	v.Product = exact.Quotient(0, s.Product, s.Pairs)
	var cov, a, b signed
	if v.Kind == Radial {
		// Of 2n pairs: 4 n sum(ab) - (sum(a) + sum(b))^2, and for the variance 2 n (sum(aa) + sum(bb)) less the same.
		lo, carry := bits.Add64(s.SqA, s.SqB, 0)
		square := product(s.A+s.B, s.A+s.B)
		cov = product(s.Pairs, s.Product).shifted(2).less(square)
		a = product(s.Pairs, lo)
		a.hi += s.Pairs * carry
		a = a.shifted(1).less(square)
		b = a
		n *= 2
	} else {
		cov = product(s.Pairs, s.Product).less(product(s.A, s.B))
		a = product(s.Pairs, s.SqA).less(product(s.A, s.A))
		b = product(s.Pairs, s.SqB).less(product(s.B, s.B))
	}
	v.Covariance = cov.near() / float64(n*n)
	if a.zero() || b.zero() {
		return
	}
	v.Coefficient = min(max(cov.near()/math.Sqrt(float64(a.near()*b.near())), -1), 1)
}

// signed is an integer of 128 bits with a sign. Those of derive stay below 2^127: a sum of squares of samples below
// 2^64 times pairs below 2^42, of which those of 16 bits are at most 2^32.
type signed struct {
	hi, lo   uint64
	negative bool
}

func product(a, b uint64) (p signed) {
	p.hi, p.lo = bits.Mul64(a, b)
	return p
}

func (s signed) zero() bool { return s.hi|s.lo == 0 }

func (s signed) shifted(n uint) signed {
	return signed{s.hi<<n | s.lo>>(64-n), s.lo << n, s.negative}
}

// less is s-o of two that aren't negative.
func (s signed) less(o signed) signed {
	negative := s.hi < o.hi || s.hi == o.hi && s.lo < o.lo
	if negative {
		s, o = o, s
	}
	lo, borrow := bits.Sub64(s.lo, o.lo, 0)
	hi, _ := bits.Sub64(s.hi, o.hi, borrow)
	return signed{hi, lo, negative}
}

// near is the nearest float64.
func (s signed) near() float64 {
	v := exact.Quotient(s.hi, s.lo, 1)
	if s.negative {
		return -v
	}
	return v
}

// correlationOf finds the value of a limit on a correlation among those of a channel.
func (l *Limit) correlationOf(values []CorrelationValue) (v float64, ok bool) {
	at := slices.IndexFunc(values, func(v CorrelationValue) bool { return v.Correlation == l.correlation })
	if at < 0 {
		return 0, false
	}
	v = values[at].Coefficient
	if l.quantity == quantityCovariance {
		v = values[at].Covariance
	}
	return v, !math.IsNaN(v)
}

// Frames are the names of other frames that limits speak of, each once. That before in a stream is "".
func (s *Set) Frames() (names []string) {
	for _, c := range s.correlations {
		if c.Kind == Framed && !slices.Contains(names, c.Frame) {
			names = append(names, c.Frame)
		}
	}
	return names
}
