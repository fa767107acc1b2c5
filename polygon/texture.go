// Texture: how often pairs of grey levels lie at an offset from each other, and what is derived from that.

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

// Offset says where the second pixel of a pair lies: DX columns to the right of the first one, and DY rows below.
type Offset struct{ DX, DY int }

func (o Offset) String() string { return fmt.Sprintf("(%d,%d)", o.DX, o.DY) }

// CooccurrenceSpec asks for the textures of pairs of pixels.
type CooccurrenceSpec struct {
	// Levels are the grey levels that samples are made before they are counted, 2 to 256 intervals of equal width; 0
	// means [DefaultLevels].
	Levels int
	// Offsets between the pixels of a pair, at most [MaxOffsets], each coordinate up to [MaxReach] and not both 0; none
	// means [DefaultOffsets]. Limits name their own.
	Offsets []Offset
	// Counts asks for the counts of pairs, too: [TextureValue.Counts].
	Counts bool
}

// Bounds of a CooccurrenceSpec.
const (
	DefaultLevels = 64
	MaxOffsets    = driver.MaxPairOffsets // those of limits included
	MaxReach      = driver.MaxPairReach
)

// DefaultOffsets are the four neighbours that Haralick takes: right, below right, below, below left.
func DefaultOffsets() []Offset { return []Offset{{1, 0}, {1, 1}, {0, 1}, {-1, 1}} }

// TextureValue is what the pairs at one offset come to. A pair is two pixels of the region and the frame.
//
// The numbers are of the symmetric matrix: P(i, j) is the share of pairs with the levels i and j in either order, so
// that an offset and its opposite have the same. Contrast, Energy and Correlation are the exact values, correctly
// rounded; Homogeneity and Entropy are off by less than 2^-49 of themselves, and the same on every processor.
type TextureValue struct {
	Offset Offset
	Levels int
	// Pairs is how many there are. Where it is 0 the numbers are NaN.
	Pairs       uint64
	Contrast    float64 // sum of P(i,j) (i-j)^2
	Homogeneity float64 // sum of P(i,j) / (1 + (i-j)^2)
	Energy      float64 // square root of the sum of P(i,j)^2
	Correlation float64 // of the two levels; NaN where all are equal
	Entropy     float64 // in bits
	// Counts has, for each level of the first pixel, a count for each level of the second: Levels*Levels. Nil unless
	// they were asked for.
	Counts []uint32
}

// numbers are those that are derived from the counts, in the order of their quantities.
func (v *TextureValue) numbers() [5]*float64 {
	return [5]*float64{&v.Contrast, &v.Homogeneity, &v.Energy, &v.Correlation, &v.Entropy}
}

// check collects what is wrong with the request.
func (c *CooccurrenceSpec) check(bad *kernels.InvalidError) {
	at := path{"reductions", "cooccurrence"}
	if c.Levels != 0 && (c.Levels < driver.MinPairLevels || c.Levels > driver.MaxPairLevels) {
		bad.Add(at.Join("levels"), c.Levels, "must be %d to %d", driver.MinPairLevels, driver.MaxPairLevels)
	}
	if n := len(c.Offsets); n > MaxOffsets {
		bad.Add(at.Join("offsets"), n, "are too many: the limit is %d", MaxOffsets)
		return
	}
	for i, o := range c.Offsets {
		if why := o.wrong(); why != "" {
			bad.Add(at.Join("offsets", i), o.String(), "%s", why)
		}
	}
}

// wrong says what is, or nothing.
func (o Offset) wrong() string {
	switch {
	case o == Offset{}:
		return "is a pixel and itself"
	case max(o.DX, o.DY) > MaxReach || min(o.DX, o.DY) < -MaxReach:
		return fmt.Sprintf("has a coordinate beyond %d", MaxReach)
	}
	return ""
}

// planPairs finds the offsets and the levels of a call: those that were asked for, and then those of limits.
func (p *plan) planPairs(bad *kernels.InvalidError, c *CooccurrenceSpec) {
	if c != nil && p.output.Fields.Has(FieldChannels) {
		p.matrices, p.offsets = c.Counts, slices.Clone(c.Offsets)
		if len(p.offsets) == 0 {
			p.offsets = DefaultOffsets()
		}
	}
	p.listedOffsets = len(p.offsets)
	for _, o := range p.set.offsets {
		if !slices.Contains(p.offsets, o) {
			p.offsets = append(p.offsets, o)
		}
	}
	at := path{"reductions", "cooccurrence"}
	if n := len(p.offsets); n > MaxOffsets {
		bad.Add(at.Join("offsets"), n, "with those of limits are too many: the limit is %d", MaxOffsets)
		return
	}
	series := int64(p.set.Len()) * int64(len(p.channels)) * int64(p.listedOffsets)
	if n := series * int64(p.levels*p.levels); p.matrices && n > maxResultValues {
		bad.Add(at.Join("levels"), p.levels, "makes %d counts for %d regions of %d channels and %d offsets: the limit is %d",
			n,
			p.set.Len(), len(p.channels), p.listedOffsets, maxResultValues)
	} else if n := series * textureValues; n > maxResultValues {
		bad.Add(at.Join("offsets"), p.listedOffsets, "make %d numbers for %d regions of %d channels: the limit is %d",
			n, p.set.Len(), len(p.channels), maxResultValues)
	}
}

// pairLevels are the grey levels of pairs.
func (r *Reductions) pairLevels() int {
	if c := r.Cooccurrence; c != nil && c.Levels != 0 {
		return c.Levels
	}
	return DefaultLevels
}

// textureValues is how many numbers a TextureValue takes, its offset included.
const textureValues = 8

// pairOffsets are the plan's offsets as an op takes them.
func (p *plan) pairOffsets() []driver.PixelOffset {
	to := make([]driver.PixelOffset, len(p.offsets))
	for i, o := range p.offsets {
		to[i] = driver.PixelOffset{DX: int32(o.DX), DY: int32(o.DY)}
	}
	return to
}

// pairCounts is how many counts of pairs a region has.
func (p *plan) pairCounts() int { return p.own * len(p.offsets) * p.levels * p.levels }

// textures derives the values of a channel, one for each offset of the plan, from its counts.
func (p *plan) textures(to []TextureValue, counts []uint32, work *pairWork) {
	cells := p.levels * p.levels
	for k := range to {
		to[k] = TextureValue{Offset: p.offsets[k], Levels: p.levels}
		work.derive(&to[k], counts[k*cells:(k+1)*cells])
		if p.matrices && k < p.listedOffsets {
			to[k].Counts = counts[k*cells : (k+1)*cells]
		}
	}
}

// pairWork is memory of a worker.
type pairWork struct {
	marginal, apart [driver.MaxPairLevels]uint64
	entropy         entropySum
}

// derive computes the numbers of one matrix. With at most 2^29 pairs, M = 2n of them in either order, and levels below
// 2^8: sums of levels are below 2^38, of their squares and products below 2^46, products of those with M below 2^76.
func (w *pairWork) derive(v *TextureValue, counts []uint32) {
	levels := v.Levels
	marginal, apart := w.marginal[:levels], w.apart[:levels]
	clear(marginal)
	clear(apart)
	n := uint64(0)
	for i := range levels {
		row := counts[i*levels : (i+1)*levels]
		for j, c := range row {
			if c == 0 {
				continue
			}
			k := uint64(c)
			n += k
			marginal[i] += k
			marginal[j] += k
			apart[max(i-j, j-i)] += k
		}
	}
	v.Pairs = n
	if n == 0 {
		for _, to := range v.numbers() {
			*to = math.NaN()
		}
		return
	}
	var contrast, products uint64
	var homogeneity compensated
	for d, k := range apart {
		contrast += k * uint64(d*d)
		if k != 0 {
			homogeneity.add(float64(k) / float64(1+d*d))
		}
	}
	v.Contrast = exact.Quotient(0, contrast, n)
	v.Homogeneity = homogeneity.sum / float64(n)

	var squares twiceArea
	w.entropy.begin(2 * n)
	for i := range levels {
		for j := i; j < levels; j++ {
			k := uint64(counts[i*levels+j]) + uint64(counts[j*levels+i])
			if k == 0 {
				continue
			}
			if i == j {
				squares.addProduct(k, k)
				w.entropy.add(k, 1)
			} else {
				squares.addProduct(2*k, k)
				w.entropy.add(k, 2)
			}
			products += k * uint64(i*j) // twice, but for the diagonal, where k is twice the count
			if i != j {
				products += k * uint64(i*j)
			}
		}
	}
	v.Energy = exact.RootQuotient(squares.hi, squares.lo, 4*n*n)
	v.Entropy = w.entropy.value()
	var sum, sumSq uint64
	for i, k := range marginal {
		sum += k * uint64(i)
		sumSq += k * uint64(i*i)
	}
	v.Correlation = ratioOfMoments(2*n, sum, sumSq, products)
}

// ratioOfMoments is (n*products - sum^2) / (n*sumSq - sum^2), correctly rounded, or NaN where the divisor is 0. The
// magnitude of the first is at most that of the second.
func ratioOfMoments(n, sum, sumSq, products uint64) float64 {
	sub := func(a, b uint64) (hi, lo uint64, negative bool) { // n*a - b*b
		hi, lo = bits.Mul64(n, a)
		bhi, blo := bits.Mul64(b, b)
		var borrow uint64
		lo, borrow = bits.Sub64(lo, blo, 0)
		hi, borrow = bits.Sub64(hi, bhi, borrow)
		if borrow != 0 {
			lo, borrow = bits.Sub64(0, lo, 0)
			hi, _ = bits.Sub64(0, hi, borrow)
			return hi, lo, true
		}
		return hi, lo, false
	}
	dhi, dlo, _ := sub(sumSq, sum)
	if dhi|dlo == 0 {
		return math.NaN()
	}
	nhi, nlo, negative := sub(products, sum)
	if nhi|nlo == 0 {
		return 0
	}
	num, den := wide{nlo, nhi}, wide{dlo, dhi}
	v := roundedTo(num.near()/den.near(), func(m uint64, e int) int {
		quotient, at := num.shifted(e), den.times(wideOf(m))
		return quotient.compare(&at)
	})
	if negative {
		return -v
	}
	return v
}

// texture finds the value of a limit on a texture among those of a channel.
func (l *Limit) texture(values []TextureValue) (v float64, ok bool) {
	at := slices.IndexFunc(values, func(v TextureValue) bool { return v.Offset == l.offset })
	if at < 0 {
		return 0, false
	}
	v = *values[at].numbers()[l.quantity-quantityContrast]
	return v, !math.IsNaN(v)
}

// refusePairs refuses what line-scans don't have: the partner of a pixel may come with another strip, or has come with
// one that is gone.
func (p *plan) refusePairs() error {
	const why = "pairs of pixels aren't counted in line-scans, whose strips come one by one"
	if p.listedOffsets > 0 {
		return invalid(path{"reductions", "cooccurrence"}, fmt.Sprint(p.offsets[:p.listedOffsets]), why)
	}
	if n := p.listedCorrelations; n > 0 {
		return invalid(path{"reductions", "correlations"}, fmt.Sprint(p.correlations[:n]), why)
	}
	if p.set.offsets == nil && p.set.correlations == nil {
		return nil
	}
	bad := newInvalid()
	for i := range p.set.names {
		for k, l := range p.set.Limits(i) {
			pairs := l.quantity.ofPairs()
			if l.expression != nil {
				pairs = slices.ContainsFunc(l.expression.operands,
					func(o operand) bool { return o.is.quantity.ofPairs() })
			}
			if pairs {
				bad.Add(path{"regions", i, "limits", k}, quoted(l.expr), why)
			}
		}
	}
	return bad.Err()
}

// pairOp is the op that counts pairs in rows [y0, y1) of the frame, of a stride, and how much scratch memory it takes.
// It is nil where there are none to count.
func (d *deriver) pairOp(dev *kernels.Device, y0, y1, stride int) (driver.MaskCooccurrence, int64, error) {
	op := driver.MaskCooccurrence{
		Frame: driver.Image{Width: d.frame.Width, Height: y1 - y0, Stride: stride, Format: d.frame.Format},
		Row0:  y0, Offsets: d.pairOffsets(), Levels: d.levels,
	}
	if len(d.offsets) == 0 {
		return op, 0, nil
	}
	size, err := dev.Scratch(&op)
	return op, size, err
}

// scratchOf takes memory of the job.
func scratchOf(q *kernels.Queue, size int64) (driver.Slice, error) {
	if size == 0 {
		return driver.Slice{}, nil
	}
	b, err := kernels.Alloc[byte](q, int(size), "scratch")
	return b.Slice(), err
}

// countPairs enqueues op, in bands of rows that take about as long as a chunk may.
func (d *deriver) countPairs(q *kernels.Queue, op driver.MaskCooccurrence, counts kernels.Buffer[uint32]) error {
	op.Counts = counts.Slice()
	n := d.set.work(op.First, op.First+op.Count, op.Frame.Width, op.Row0, op.Row0+op.Frame.Height, 1)
	n *= int64(d.own * len(d.offsets))
	return inBands(q, "count pairs", n, op.Row0, op.Frame.Height, func(from, to int) error {
		part := op // the one before may still be under way
		part.Accumulate, part.FromRow, part.ToRow = from > op.Row0, from, to
		return q.Run(&part)
	})
}
