// The oracle: the same numbers from the definitions alone, one pixel at a time, in rational arithmetic. It shares
// nothing with the package but the types that it is compared with.

package polygon

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"

	"github.com/polyscan/polyscan/kernels"
)

// oracleRegion is what the oracle finds for one region.
type oracleRegion struct {
	count    uint64
	area     float64
	total    int64 // pixels with no frame; -1 where the box is too large to look at each
	bounds   Rect
	centroid Point
	channels []oracleChannel
	mask     []bool
}

type oracleChannel struct {
	sorted       []uint32
	sum, sumSq   *big.Int
	min, max     uint32
	minAt, maxAt Position
	weighted     Point
	hasWeighted  bool
	at           [][3]int64 // columns, rows and samples
}

func rat(v float64) *big.Rat { return new(big.Rat).SetFloat64(v) }

func ratio(a, b int64) *big.Rat { return big.NewRat(a, b) }

func nearest(r *big.Rat) float64 {
	f, _ := r.Float64()
	return f
}

func floorRat(r *big.Rat) *big.Int {
	q, m := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if m.Sign() < 0 {
		q.Sub(q, big.NewInt(1))
	}
	return q
}

// decimalRat is the shortest decimal that reads as v.
func decimalRat(v float64) *big.Rat {
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(v, 'g', -1, 64))
	if !ok {
		panic(v)
	}
	return r
}

// oracleQuantise rounds to 1/256, ties to even, and returns pixels.
func oracleQuantise(v float64) *big.Rat {
	scaled := new(big.Rat).Mul(rat(v), ratio(256, 1))
	down := floorRat(scaled)
	rest := new(big.Rat).Sub(scaled, new(big.Rat).SetInt(down))
	switch rest.Cmp(ratio(1, 2)) {
	case 1:
		down.Add(down, big.NewInt(1))
	case 0:
		if down.Bit(0) == 1 {
			down.Add(down, big.NewInt(1))
		}
	}
	return new(big.Rat).SetFrac(down, big.NewInt(256))
}

type ratPoint struct{ x, y *big.Rat }

func oracleRings(r Region) [][]ratPoint {
	out := make([][]ratPoint, len(r.Rings))
	for i, ring := range r.Rings {
		for _, p := range ring {
			out[i] = append(out[i], ratPoint{oracleQuantise(p.X), oracleQuantise(p.Y)})
		}
	}
	return out
}

// oracleRow says which of the pixels [x0, x1) of row y are inside.
func oracleRow(rings [][]ratPoint, fill FillRule, y, x0, x1 int) []bool {
	row := make([]bool, x1-x0)
	for i, winding := range oracleWindings(rings, y, x0, x1) {
		row[i] = winding != 0
		if fill == EvenOdd {
			row[i] = winding%2 != 0
		}
	}
	return row
}

// oracleWindings are the winding numbers of the pixels [x0, x1) of row y.
func oracleWindings(rings [][]ratPoint, y, x0, x1 int) []int {
	yc := ratio(int64(2*y+1), 2)
	type cross struct {
		x    *big.Rat
		sign int
	}
	var crosses []cross
	for _, ring := range rings {
		for i, a := range ring {
			b := ring[(i+1)%len(ring)]
			low, high := a.y, b.y
			sign := 1
			if low.Cmp(high) > 0 {
				low, high, sign = high, low, -1
			}
			if low.Cmp(yc) > 0 || yc.Cmp(high) >= 0 {
				continue
			}
			// a.x + (yc-a.y) * (b.x-a.x) / (b.y-a.y)
			t := new(big.Rat).Sub(yc, a.y)
			t.Mul(t, new(big.Rat).Sub(b.x, a.x))
			t.Quo(t, new(big.Rat).Sub(b.y, a.y))
			crosses = append(crosses, cross{t.Add(t, a.x), sign})
		}
	}
	row := make([]int, x1-x0)
	if len(crosses) == 0 {
		return row
	}
	for x := x0; x < x1; x++ {
		xc := ratio(int64(2*x+1), 2)
		for _, c := range crosses {
			if xc.Cmp(c.x) < 0 {
				row[x-x0] += c.sign
			}
		}
	}
	return row
}

// oracleInside says which of the pixels [x0, x1) of row y are of a region, whose rings are given.
func oracleInside(r Region, rings [][]ratPoint, y, x0, x1 int) []bool {
	if r.Mask == nil {
		return oracleRow(rings, r.Fill, y, x0, x1)
	}
	row := make([]bool, x1-x0)
	for _, u := range r.Mask {
		for x := max(int(u.X0), x0); int(u.Y) == y && x < min(int(u.X1), x1); x++ {
			row[x-x0] = true
		}
	}
	return row
}

// sample reads channel c of a pixel, channels in the order R, G, B, A, from the pieces of a frame.
func sample(f kernels.Picture, x, y, c int) uint32 {
	stride := f.Stride
	size := int(f.Format.Channels) * int(f.Format.SampleBytes)
	if stride == 0 {
		stride = f.Width * size
	}
	at := y*stride + x*size
	byteAt := func(n int) uint32 {
		for _, p := range f.Data {
			if n < len(p) {
				return uint32(p[n])
			}
			n -= len(p)
		}
		panic("beyond the data")
	}
	if f.Format.SampleBytes == 2 {
		return byteAt(at) + 256*byteAt(at+1)
	}
	return byteAt(at + int(f.Format.Order[c]))
}

// oracleBoxLimit is the largest box, in pixels, in which the oracle counts all of a region.
const oracleBoxLimit = 1 << 12

func oracle(r Region, f kernels.Picture) oracleRegion {
	rings := oracleRings(r)
	o := oracleRegion{mask: make([]bool, f.Width*f.Height), channels: make([]oracleChannel, f.Format.Channels)}

	twice := new(big.Rat)
	x0, y0, x1, y1 := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, ring := range rings {
		for i, a := range ring {
			b := ring[(i+1)%len(ring)]
			twice.Add(twice, new(big.Rat).Mul(a.x, b.y))
			twice.Sub(twice, new(big.Rat).Mul(b.x, a.y))
			ax, ay := nearest(a.x), nearest(a.y)
			x0, y0, x1, y1 = min(x0, ax), min(y0, ay), max(x1, ax), max(y1, ay)
		}
	}
	o.area = nearest(twice.Abs(twice).Quo(twice, ratio(2, 1)))

	if r.Mask != nil {
		for _, u := range r.Mask {
			o.total += int64(u.X1) - int64(u.X0)
		}
		o.area = float64(o.total)
	} else if (x1-x0+2)*(y1-y0+2) > oracleBoxLimit {
		o.total = -1
	} else {
		for y := int(math.Floor(y0)) - 1; y <= int(y1)+1; y++ {
			for _, in := range oracleRow(rings, r.Fill, y, int(math.Floor(x0))-1, int(x1)+2) {
				if in {
					o.total++
				}
			}
		}
	}

	for c := range o.channels {
		o.channels[c].sum, o.channels[c].sumSq = new(big.Int), new(big.Int)
	}
	var sx, sy int64
	svx := make([]int64, len(o.channels))
	svy := make([]int64, len(o.channels))
	o.bounds = Rect{f.Width, f.Height, 0, 0}
	for y := range f.Height {
		for x, in := range oracleInside(r, rings, y, 0, f.Width) {
			o.mask[y*f.Width+x] = in
			if !in {
				continue
			}
			o.count++
			o.bounds = Rect{min(o.bounds.X0, x), min(o.bounds.Y0, y), max(o.bounds.X1, x+1), max(o.bounds.Y1, y+1)}
			sx += int64(2*x + 1)
			sy += int64(2*y + 1)
			for c := range o.channels {
				ch := &o.channels[c]
				v := sample(f, x, y, c)
				if len(ch.sorted) == 0 || v < ch.min {
					ch.min, ch.minAt = v, Position{x, y}
				}
				if len(ch.sorted) == 0 || v > ch.max {
					ch.max, ch.maxAt = v, Position{x, y}
				}
				ch.sorted = append(ch.sorted, v)
				ch.at = append(ch.at, [3]int64{int64(x), int64(y), int64(v)})
				ch.sum.Add(ch.sum, big.NewInt(int64(v)))
				ch.sumSq.Add(ch.sumSq, big.NewInt(int64(v)*int64(v)))
				svx[c] += int64(v) * int64(2*x+1)
				svy[c] += int64(v) * int64(2*y+1)
			}
		}
	}
	if o.count == 0 {
		o.bounds = Rect{}
	} else {
		o.centroid = Point{nearest(ratio(sx, 2*int64(o.count))), nearest(ratio(sy, 2*int64(o.count)))}
	}
	for c := range o.channels {
		ch := &o.channels[c]
		slices.Sort(ch.sorted)
		if s := ch.sum.Int64(); s > 0 {
			ch.hasWeighted = true
			ch.weighted = Point{nearest(ratio(svx[c], 2*s)), nearest(ratio(svy[c], 2*s))}
		}
	}
	return o
}

func (c *oracleChannel) mean() float64 {
	return nearest(new(big.Rat).SetFrac(c.sum, big.NewInt(int64(len(c.sorted)))))
}

// spread is the variance and its root.
func (c *oracleChannel) spread() (variance, stddev float64) {
	n := big.NewInt(int64(len(c.sorted)))
	squares := new(big.Int) // of deviations from the mean times n
	for _, s := range c.sorted {
		d := new(big.Int).Mul(n, big.NewInt(int64(s)))
		d.Sub(d, c.sum)
		squares.Add(squares, d.Mul(d, d))
	}
	v := new(big.Rat).SetFrac(squares, new(big.Int).Exp(n, big.NewInt(3), nil))
	root := new(big.Float).SetPrec(300).SetRat(v)
	stddev, _ = root.Sqrt(root).Float64()
	return nearest(v), stddev
}

func (c *oracleChannel) nearestRank(p float64) float64 {
	n := int64(len(c.sorted))
	rank := new(big.Rat).Mul(decimalRat(p), ratio(n, 100))
	up := new(big.Int).Neg(floorRat(rank.Neg(rank))).Int64()
	return float64(c.sorted[max(up, 1)-1])
}

func (c *oracleChannel) linear(p float64) float64 {
	n := int64(len(c.sorted))
	h := new(big.Rat).Mul(decimalRat(p), ratio(n-1, 100))
	i := floorRat(h).Int64()
	a := ratio(int64(c.sorted[i]), 1)
	if i+1 == n {
		return nearest(a)
	}
	b := ratio(int64(c.sorted[i+1]), 1)
	h.Sub(h, ratio(i, 1))
	return nearest(a.Add(a, h.Mul(h, b.Sub(b, a))))
}

func (c *oracleChannel) median() float64 {
	n := len(c.sorted)
	return nearest(ratio(int64(c.sorted[(n-1)/2])+int64(c.sorted[n/2]), 2))
}

func (c *oracleChannel) counts() map[uint32]uint64 {
	m := map[uint32]uint64{}
	for _, v := range c.sorted {
		m[v]++
	}
	return m
}

func (c *oracleChannel) mode() (mode uint32) {
	m := c.counts()
	var most uint64
	for _, v := range c.sorted {
		if m[v] > most {
			mode, most = v, m[v]
		}
	}
	return mode
}

func (c *oracleChannel) histogram(h HistogramSpec, levels int) HistogramCounts {
	if h.Lower == 0 && h.Upper == 0 {
		h.Upper = float64(levels)
	}
	if h.Bins == 0 {
		h.Bins = levels
	}
	out := HistogramCounts{Lower: h.Lower, Upper: h.Upper, Counts: make([]uint64, h.Bins)}
	lower, upper := decimalRat(h.Lower), decimalRat(h.Upper)
	width := new(big.Rat).Sub(upper, lower)
	for v, n := range c.counts() {
		x := ratio(int64(v), 1)
		switch {
		case x.Cmp(lower) < 0:
			out.Below += n
		case x.Cmp(upper) >= 0:
			out.Above += n
		default:
			x.Sub(x, lower).Mul(x, ratio(int64(h.Bins), 1)).Quo(x, width)
			out.Counts[floorRat(x).Int64()] += n
		}
	}
	return out
}

// differences compares a result with the oracle and lists what differs.
func differences(got RegionResult, want oracleRegion, f kernels.Picture, r Reductions) (diff []string) {
	check := func(what string, got, want any) {
		if got != want {
			diff = append(diff, fmt.Sprintf("%s = %v, want %v", what, got, want))
		}
	}
	asked := r.Statistics
	if asked == 0 {
		asked = Count | Sum | SumOfSquares | Mean | Variance | StdDev | Min | Max
	}
	check("count", got.Count, want.count)
	check("area", got.Area, want.area)
	check("bounds", got.Bounds, want.bounds)
	if want.total >= 0 {
		coverage := 1.0
		if want.total > 0 {
			coverage = nearest(ratio(int64(want.count), want.total))
		}
		check("coverage", got.Coverage, coverage)
		check("coverage known", got.CoverageKnown, true)
	}
	wantCentroid := asked&Centroid != 0 && want.count > 0
	check("has centroid", got.HasCentroid, wantCentroid)
	if wantCentroid {
		check("centroid", got.Centroid, want.centroid)
	} else {
		check("centroid", got.Centroid, Point{})
	}
	check("channels", len(got.Channels), len(want.channels))
	names := map[int][]Channel{1: {Gray}, 2: {Gray, Alpha}, 3: {Red, Green, Blue},
		4: {Red, Green, Blue, Alpha}}[len(want.channels)]
	for c := range want.channels {
		g, w := got.Channels[c], want.channels[c]
		check(fmt.Sprintf("channel %d", c), g.Channel, names[c])
		expect := ChannelStatistics{Channel: g.Channel}
		some := want.count > 0
		has := func(s Statistics, always bool) bool {
			if asked&s == 0 || !some && !always {
				return false
			}
			expect.Has |= s
			return true
		}
		if has(Count, true) {
			expect.Count = want.count
		}
		if has(Sum, true) {
			expect.Sum = w.sum.Uint64()
		}
		if has(SumOfSquares, true) {
			expect.SumOfSquares = w.sumSq.Uint64()
		}
		if has(Mean, false) {
			expect.Mean = w.mean()
		}
		if some && asked&(Variance|StdDev) != 0 {
			v, s := w.spread()
			if has(Variance, false) {
				expect.Variance = v
			}
			if has(StdDev, false) {
				expect.StdDev = s
			}
		}
		if has(Min, false) {
			expect.Min, expect.MinAt = w.min, w.minAt
		}
		if has(Max, false) {
			expect.Max, expect.MaxAt = w.max, w.maxAt
		}
		if has(Median, false) {
			expect.Median = w.median()
		}
		if has(Mode, false) {
			expect.Mode = w.mode()
		}
		if has(Distinct, true) {
			expect.Distinct = uint32(len(w.counts()))
		}
		if asked&Centroid != 0 && w.hasWeighted {
			expect.Has |= Centroid
			expect.WeightedCentroid = w.weighted
		}
		if some {
			if v, ok := w.skewness(); ok && has(Skewness, false) {
				expect.Skewness = v
			}
			if v, ok := w.kurtosis(); ok && has(Kurtosis, false) {
				expect.Kurtosis = v
			}
		}
		if has(MeanAbsoluteDeviation, false) {
			expect.MeanAbsoluteDeviation = w.meanAbsoluteDeviation()
		}
		if has(InterquartileRange, false) {
			expect.InterquartileRange = w.interquartileRange(r.PercentileMethod)
		}
		if p, ok := w.plane(); ok && has(Plane, false) {
			expect.PlaneX, expect.PlaneY, expect.PlaneResidual = p[0], p[1], p[2]
		}
		if has(Entropy, false) {
			if e := relative(g.Entropy, w.entropy()); e > entropyError {
				diff = append(diff, fmt.Sprintf("channel %d: entropy %v is off by %g of itself", c, g.Entropy, e))
			}
			expect.Entropy = g.Entropy
		}
		var cumulative []uint64
		if has(Cumulative, true) {
			cumulative = w.cumulative(r.Histogram, f.Format.Levels())
		}
		if !slices.Equal(g.Cumulative, cumulative) {
			diff = append(diff, fmt.Sprintf("channel %d: cumulative = %v, want %v", c, g.Cumulative, cumulative))
		}
		var percentiles []PercentileValue
		if has(Percentiles, false) {
			ps := r.Percentiles
			if len(ps) == 0 {
				ps = []float64{1, 5, 10, 25, 50, 75, 90, 95, 99}
			}
			for _, p := range ps {
				v := PercentileValue{p, 0}
				if r.PercentileMethod == Linear {
					v.Value = w.linear(p)
				} else {
					v.Value = w.nearestRank(p)
				}
				percentiles = append(percentiles, v)
			}
		}
		if !slices.Equal(g.Percentiles, percentiles) {
			diff = append(diff, fmt.Sprintf("channel %d: percentiles = %v, want %v", c, g.Percentiles, percentiles))
		}
		if has(Histogram, true) {
			if h := w.histogram(r.Histogram, f.Format.Levels()); g.Histogram == nil {
				diff = append(diff, fmt.Sprintf("channel %d: no histogram", c))
			} else if g.Histogram.Below != h.Below || g.Histogram.Above != h.Above || g.Histogram.Lower != h.Lower ||
				g.Histogram.Upper != h.Upper || !slices.Equal(g.Histogram.Counts, h.Counts) {
				diff = append(diff, fmt.Sprintf("channel %d: histogram = %v, want %v", c, *g.Histogram, h))
			}
		} else if g.Histogram != nil {
			diff = append(diff, fmt.Sprintf("channel %d: histogram without being asked", c))
		}
		g.Percentiles, g.Histogram, g.Cumulative = nil, nil, nil
		if !reflect.DeepEqual(g, expect) {
			diff = append(diff, fmt.Sprintf("channel %d:\n got %+v\nwant %+v", c, g, expect))
		}
	}
	return diff
}
