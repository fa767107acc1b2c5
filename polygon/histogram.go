// Histograms: bins, and the distribution that everything sorted is derived from.

package polygon

import (
	"math"
	"math/big"
	"slices"
	"sort"

	"github.com/polyscan/polyscan/internal/exact"
)

// HistogramSpec says how samples are binned.
//
// Bin k counts the samples v with lower + k*(upper-lower)/bins <= v < lower + (k+1)*(upper-lower)/bins, exactly: the
// bounds are taken as the decimals that they are written as (0.1 is one tenth) and the edges are fractions, so that no
// sample lands beside its bin. Samples below lower and at or above upper are counted apart.
type HistogramSpec struct {
	// Bins, at most 65536; 0 means one for each value that a sample can have: 256 for 8 bits, 2^bits for 16-bit
	// formats. Then Lower and Upper must be 0.
	Bins int
	// Lower and Upper bound the bins, Lower < Upper; both 0 means the whole range of the format, [0, 2^bits).
	Lower, Upper float64
}

// maxBins is how many bins a histogram may have.
const maxBins = 65536

// HistogramCounts is a histogram.
type HistogramCounts struct {
	Lower, Upper float64
	Counts       []uint64 // one a bin
	Below, Above uint64   // samples below Lower, and at or above Upper
}

// binner puts values into bins.
type binner struct {
	full         bool
	bins         int
	lower, upper float64
	// edges[k] is the least integer at or above bin k's lower edge, cut to [0, 2^16]; one more for the upper edge of
	// the last bin. A value v is in bin k when edges[k] <= v < edges[k+1]. Nil when full.
	edges []uint32
}

func newBinner(h HistogramSpec, levels int) binner {
	b := binner{bins: h.Bins, lower: h.Lower, upper: h.Upper}
	if h.Lower == 0 && h.Upper == 0 {
		b.upper = float64(levels)
	}
	if b.bins == 0 {
		b.bins = levels
	}
	if b.bins == levels && b.lower == 0 && b.upper == float64(levels) {
		b.full = true
		return b
	}
	b.edges = make([]uint32, b.bins+1)
	lo, hi := exact.DecimalOf(b.lower), exact.DecimalOf(b.upper)
	if !b.smallEdges(lo, hi) {
		b.bigEdges(lo, hi)
	}
	return b
}

// mostSample is above every sample.
const mostSample = 1 << 16

// smallEdges computes the edges in int64 where that can't overflow, and says whether it could.
func (b *binner) smallEdges(lo, hi exact.Decimal) bool {
	// lower = x/den and upper = y/den, with |x|, |y| < 2^42 and den < 2^42: x*bins + k*(y-x) < 2^42 * 2^16 * 3.
	scale := max(lo.Scale, hi.Scale, 0)
	if scale > 12 {
		return false
	}
	scaled := func(d exact.Decimal) (int64, bool) {
		up := scale - d.Scale
		if d.Digits == 0 {
			return 0, true
		}
		if up >= len(exact.Tens) || d.Digits >= 1<<42 || exact.Tens[up] >= 1<<42 || d.Digits > (1<<42-1)/exact.Tens[up] {
			return 0, false
		}
		v := int64(d.Digits * exact.Tens[up])
		if d.Negative {
			v = -v
		}
		return v, true
	}
	x, okx := scaled(lo)
	y, oky := scaled(hi)
	if !okx || !oky {
		return false
	}
	n := int64(b.bins)
	den := int64(exact.Tens[scale]) * n
	for k := range b.edges {
		num := x*n + int64(k)*(y-x)
		if num <= 0 {
			continue // 0
		}
		b.edges[k] = uint32(min((num+den-1)/den, mostSample))
	}
	return true
}

// bigEdges computes them for bounds of any size.
func (b *binner) bigEdges(lo, hi exact.Decimal) {
	x, y := lo.Rat(), hi.Rat()
	// Bring both to one denominator: x = xn/den, y = yn/den.
	den := new(big.Int).Mul(x.Denom(), y.Denom())
	xn := new(big.Int).Mul(x.Num(), y.Denom())
	yn := new(big.Int).Mul(y.Num(), x.Denom())
	step := yn.Sub(yn, xn)
	n := big.NewInt(int64(b.bins))
	num := new(big.Int).Mul(xn, n)
	den.Mul(den, n)
	var q, r big.Int
	for k := range b.edges {
		if num.Sign() > 0 {
			q.QuoRem(num, den, &r)
			switch {
			case !q.IsUint64() || q.Uint64() >= mostSample:
				b.edges[k] = mostSample
			case r.Sign() != 0:
				b.edges[k] = uint32(q.Uint64()) + 1
			default:
				b.edges[k] = uint32(q.Uint64())
			}
		}
		num.Add(num, step)
	}
}

// fillBins writes the distribution to counts, which has the right length and is zero, and counts what lies beside the
// bins.
func fillBins[T uint32 | uint64](b *binner, counts []T, d *distribution) (below, above T) {
	var before uint64
	if b.full {
		for i, v := range d.values {
			counts[v] = T(d.cumulative[i] - before)
			before = d.cumulative[i]
		}
		return 0, 0
	}
	k := 0
	for i, v := range d.values {
		n := T(d.cumulative[i] - before)
		before = d.cumulative[i]
		switch {
		case v < b.edges[0]:
			below += n
		case v >= b.edges[b.bins]:
			above += n
		default:
			for v >= b.edges[k+1] {
				k++
			}
			counts[k] += n
		}
	}
	return below, above
}

// tally is the number of samples in the counts of the values from lo on, and their sum.
func tally(counts []uint32, lo uint32) (n, sum uint64) {
	v := uint64(lo)
	for ; len(counts) >= 4; counts, v = counts[4:], v+4 {
		a, b, c, d := uint64(counts[0]), uint64(counts[1]), uint64(counts[2]), uint64(counts[3])
		all := a + b + c + d
		n += all
		sum += v*all + b + 2*c + 3*d
	}
	for _, c := range counts {
		n += uint64(c)
		sum += v * uint64(c)
		v++
	}
	return n, sum
}

// distribution is a histogram without its empty places: the values that occur, ascending, and how many samples are that
// value or less.
type distribution struct {
	values     []uint32
	cumulative []uint64
	mode       uint32
}

// load takes the counts of the values from lo to lo+len(hist)-1.
func (d *distribution) load(hist []uint32, lo uint32) {
	d.values, d.cumulative = grow(d.values, len(hist)), grow(d.cumulative, len(hist))
	var n uint64
	var most uint32
	k := 0
	add := func(part []uint32, v uint32) {
		values, cumulative := d.values[k:k+len(part)], d.cumulative[k:k+len(part)]
		at := 0
		for i, c := range part {
			// Written whether it counts or not, and overwritten if not: which places are empty can't be predicted.
			n += uint64(c)
			values[at], cumulative[at] = v+uint32(i), n
			if c > most {
				most, d.mode = c, v+uint32(i)
			}
			if c != 0 {
				at++
			}
		}
		k += at
	}
	if len(hist) <= 256 {
		add(hist, lo)
	} else {
		// A small region leaves most of 65,536 places empty: go over eight at a time.
		i := 0
		for ; i+8 <= len(hist); i += 8 {
			h := hist[i : i+8 : i+8]
			if h[0]|h[1]|h[2]|h[3]|h[4]|h[5]|h[6]|h[7] != 0 {
				add(h, lo+uint32(i))
			}
		}
		add(hist[i:], lo+uint32(i))
	}
	d.values, d.cumulative = d.values[:k], d.cumulative[:k]
}

// sum is that of the samples.
func (d *distribution) sum() (sum uint64) {
	before := uint64(0)
	for i, n := range d.cumulative {
		sum += uint64(d.values[i]) * (n - before)
		before = n
	}
	return sum
}

// count is the number of samples.
func (d *distribution) count() uint64 {
	if len(d.cumulative) == 0 {
		return 0
	}
	return d.cumulative[len(d.cumulative)-1]
}

// at is the sample of rank k in ascending order, 1 <= k <= count.
func (d *distribution) at(k uint64) uint32 {
	i, _ := slices.BinarySearch(d.cumulative, k)
	return d.values[i]
}

// median is the middle sample, or the mean of the two middle ones. There must be one.
func (d *distribution) median() float64 {
	n := d.count()
	a, b := d.at((n+1)/2), d.at(n/2+1)
	return (float64(a) + float64(b)) / 2
}

// within counts the samples in an interval. There are none where its ends are the wrong way round.
func (d *distribution) within(i interval) uint64 {
	// below counts the samples v with v < x, or v <= x.
	below := func(x float64, orEqual bool) uint64 {
		k := sort.Search(len(d.values), func(k int) bool {
			v := float64(d.values[k])
			return v > x || v == x && !orEqual
		})
		if k == 0 {
			return 0
		}
		return d.cumulative[k-1]
	}
	lo := uint64(0)
	if !math.IsInf(i.lo, -1) {
		lo = below(i.lo, i.openLo)
	}
	return max(below(i.hi, !i.openHi), lo) - lo
}
