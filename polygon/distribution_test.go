package polygon

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// moment is the sum of (v - mean)^k over the samples, divided by their number, as a fraction.
func (c *oracleChannel) moment(k int) *big.Rat {
	n := big.NewInt(int64(len(c.sorted)))
	all := new(big.Int) // times n for each power
	for v, times := range c.counts() {
		d := new(big.Int).Mul(n, big.NewInt(int64(v)))
		d.Sub(d, c.sum).Exp(d, big.NewInt(int64(k)), nil)
		all.Add(all, d.Mul(d, big.NewInt(int64(times))))
	}
	return new(big.Rat).SetFrac(all, new(big.Int).Exp(n, big.NewInt(int64(k+1)), nil))
}

func (c *oracleChannel) skewness() (float64, bool) {
	m2 := c.moment(2)
	if m2.Sign() == 0 {
		return 0, false
	}
	root := new(big.Float).SetPrec(1000).SetRat(m2)
	root.Sqrt(root)
	v := new(big.Float).SetPrec(1000).SetRat(c.moment(3))
	v.Quo(v, root.Mul(root, new(big.Float).SetPrec(1000).SetRat(m2)))
	f, _ := v.Float64()
	return f, true
}

func (c *oracleChannel) kurtosis() (float64, bool) {
	m2 := c.moment(2)
	if m2.Sign() == 0 {
		return 0, false
	}
	return nearest(new(big.Rat).Quo(c.moment(4), m2.Mul(m2, m2))), true
}

func (c *oracleChannel) meanAbsoluteDeviation() float64 {
	n := big.NewInt(int64(len(c.sorted)))
	mean, all := new(big.Rat).SetFrac(c.sum, n), new(big.Rat)
	for _, v := range c.sorted {
		d := new(big.Rat).Sub(ratio(int64(v), 1), mean)
		all.Add(all, d.Abs(d))
	}
	return nearest(all.Quo(all, new(big.Rat).SetInt(n)))
}

func (c *oracleChannel) interquartileRange(m PercentileMethod) float64 {
	if m == Linear {
		return c.linear(75) - c.linear(25)
	}
	return c.nearestRank(75) - c.nearestRank(25)
}

func (c *oracleChannel) cumulative(h HistogramSpec, levels int) []uint64 {
	counts := c.histogram(h, levels)
	out := make([]uint64, len(counts.Counts))
	upTo := counts.Below
	for _, n := range counts.Counts {
		upTo += n
	}
	for i, n := range slices.Backward(counts.Counts) { // from all of them downwards
		out[i] = upTo
		upTo -= n
	}
	return out
}

// oracleLog is the natural logarithm with some 190 bits: of x/2^k by the series of 2 atanh((y-1)/(y+1)), and of 2.
func oracleLog(x *big.Rat) *big.Float {
	const prec = 200
	series := func(y *big.Float) *big.Float {
		one := big.NewFloat(1).SetPrec(prec)
		s := new(big.Float).SetPrec(prec).Quo(new(big.Float).SetPrec(prec).Sub(y, one),
			new(big.Float).SetPrec(prec).Add(y, one))
		square, power := new(big.Float).SetPrec(prec).Mul(s, s), new(big.Float).SetPrec(prec).Set(s)
		all := new(big.Float).SetPrec(prec)
		for k := int64(1); k < 400; k += 2 {
			all.Add(all, new(big.Float).SetPrec(prec).Quo(power, new(big.Float).SetPrec(prec).SetInt64(k)))
			power.Mul(power, square)
		}
		return all.Mul(all, new(big.Float).SetPrec(prec).SetInt64(2))
	}
	y := new(big.Float).SetPrec(prec).SetRat(x)
	e := y.MantExp(y) // y is 1/2 to 1
	v := series(y)
	two := series(new(big.Float).SetPrec(prec).SetInt64(2))
	return v.Add(v, two.Mul(two, new(big.Float).SetPrec(prec).SetInt64(int64(e))))
}

// oracleLogs are logarithms of counts, found once.
var oracleLogs sync.Map

func oracleLogOf(n int64) *big.Float {
	v, ok := oracleLogs.Load(n)
	if !ok {
		v, _ = oracleLogs.LoadOrStore(n, oracleLog(ratio(n, 1)))
	}
	return v.(*big.Float)
}

// entropy is log2(n) less the mean of log2(count): the sum of p log2(1/p), in 200 bits, of which cancelling takes few.
func (c *oracleChannel) entropy() *big.Float {
	const prec = 200
	all := new(big.Float).SetPrec(prec)
	n := int64(len(c.sorted))
	for _, k := range c.counts() {
		share := new(big.Float).SetPrec(prec).SetRat(ratio(int64(k), n))
		all.Add(all, share.Mul(share, oracleLogOf(int64(k))))
	}
	all.Sub(oracleLogOf(n), all)
	return all.Quo(all, oracleLogOf(2))
}

// entropyError is the largest relative error of entropies that their comment promises.
var entropyError = math.Ldexp(1, -49)

// relative is |got - want| / want.
func relative(got float64, want *big.Float) float64 {
	if want.Sign() == 0 {
		return math.Abs(got)
	}
	d := new(big.Float).SetPrec(200).SetFloat64(got)
	d.Sub(d, want).Quo(d, want)
	f, _ := d.Float64()
	return math.Abs(f)
}

func channelOf(samples []uint32) oracleChannel {
	c := oracleChannel{sorted: slices.Clone(samples), sum: new(big.Int)}
	slices.Sort(c.sorted)
	for _, v := range samples {
		c.sum.Add(c.sum, big.NewInt(int64(v)))
	}
	return c
}

func distributionOf(samples []uint32, levels int) *distribution {
	hist := make([]uint32, levels)
	for _, v := range samples {
		hist[v]++
	}
	d := &distribution{}
	d.load(hist, 0)
	return d
}

// shapeDifferences compares the statistics of shape with the oracle, and returns the relative error of the entropy.
func shapeDifferences(t *testing.T, what string, d *distribution, o *oracleChannel) float64 {
	t.Helper()
	var c ChannelStatistics
	for _, m := range []PercentileMethod{NearestRank, Linear} {
		c = ChannelStatistics{}
		d.shape(&c, needShape, m)
		if want := o.interquartileRange(m); c.InterquartileRange != want {
			t.Errorf("%s: interquartile range %v (%v), want %v", what, c.InterquartileRange, m, want)
		}
	}
	skewness, ok := o.skewness()
	kurtosis, _ := o.kurtosis()
	if c.Skewness != skewness || c.Kurtosis != kurtosis || c.Has.Has(Skewness|Kurtosis) != ok {
		t.Errorf("%s: skewness %v, kurtosis %v, %v; want %v, %v, %t", what, c.Skewness, c.Kurtosis, c.Has, skewness,
			kurtosis, ok)
	}
	if want := o.meanAbsoluteDeviation(); c.MeanAbsoluteDeviation != want {
		t.Errorf("%s: mean absolute deviation %v, want %v", what, c.MeanAbsoluteDeviation, want)
	}
	e := relative(c.Entropy, o.entropy())
	if e > entropyError {
		t.Errorf("%s: entropy %v is off by %g of itself, at most %g", what, c.Entropy, e, entropyError)
	}
	return e
}

// The statistics of shape against the definitions, in fractions of any size.
func TestShape(t *testing.T) {
	rng := seed.New(t, 18, 1)
	worst := 0.0
	for name, samples := range map[string][]uint32{
		"one": {7}, "two equal": {65535, 65535}, "two": {0, 65535}, "three": {1, 1, 2}, "left": {0, 9, 9, 9},
		"symmetric": {1, 2, 3},
	} {
		o := channelOf(samples)
		worst = max(worst, shapeDifferences(t, name, distributionOf(samples, 65536), &o))
	}
	for i := range 150 {
		levels := []int{2, 256, 4096, 65536}[rng.IntN(4)]
		samples := make([]uint32, 1+rng.IntN(1<<rng.IntN(11)))
		for k := range samples {
			switch i % 3 {
			case 0:
				samples[k] = rng.Uint32N(uint32(levels))
			case 1: // nearly all alike, where entropies are small
				samples[k] = uint32(levels - 1)
				if rng.IntN(200) == 0 {
					samples[k]--
				}
			default:
				samples[k] = uint32(levels-1) - uint32(rng.ExpFloat64()*float64(levels)/9)%uint32(levels)
			}
		}
		o := channelOf(samples)
		worst = max(worst, shapeDifferences(t, "random", distributionOf(samples, levels), &o))
	}
	t.Logf("entropy: largest relative error %g, %.2f of what is promised", worst, worst/entropyError)
}

// As many pixels as a frame can have: nothing runs over.
func TestShapeOfMany(t *testing.T) {
	const n = math.MaxUint32
	half := uint64(n / 2)
	d := &distribution{values: []uint32{0, 65535}, cumulative: []uint64{half, n}}
	var c ChannelStatistics
	d.shape(&c, needShape, NearestRank)
	// Of a coin that falls on 1 with p: skewness (1-2p)/sqrt(p q), kurtosis 1/(p q) - 3, deviation 2 p q, here times
	// 65535.
	p, q := ratio(int64(n-half), n), ratio(int64(half), n)
	pq := new(big.Rat).Mul(p, q)
	root, _ := new(big.Float).SetPrec(300).Sqrt(new(big.Float).SetPrec(300).SetRat(pq)).Float64()
	skew := nearest(new(big.Rat).Sub(q, p)) / root
	kurtosis := nearest(new(big.Rat).Sub(new(big.Rat).Inv(pq), ratio(3, 1)))
	deviation := nearest(new(big.Rat).Mul(pq, ratio(2*65535, 1)))
	if math.Abs(c.Skewness-skew) > 1e-15*math.Abs(skew) || c.Kurtosis != kurtosis || c.MeanAbsoluteDeviation != deviation ||
		c.InterquartileRange != 65535 || math.Abs(c.Entropy-1) > 1e-15 {
		t.Errorf("%+v, want %v, %v, %v", c, skew, kurtosis, deviation)
	}
}

// The bound of a logarithm, and that its bits are what they were on the processor that this was written on.
func TestLog2Quotient(t *testing.T) {
	race.Skip(t)
	rng := seed.New(t, 18, 2)
	two := oracleLog(ratio(2, 1))
	worst := 0.0
	for range 3000 {
		a := 1 + rng.Uint64N(1<<(1+rng.IntN(32))-1)
		b := 1 + rng.Uint64N(a)
		if rng.IntN(3) == 0 {
			b = max(1, a-min(a, rng.Uint64N(9)))
		}
		got := log2Quotient(a, b)
		if a == b || a&(a-1) == 0 && b&(b-1) == 0 {
			if want := math.Log2(float64(a)) - math.Log2(float64(b)); got != want {
				t.Fatalf("log2(%d/%d) = %v, want %v", a, b, got, want)
			}
			continue
		}
		want := oracleLog(ratio(int64(a), int64(b)))
		worst = max(worst, relative(got, want.Quo(want, two)))
	}
	if worst > math.Ldexp(1, -50) {
		t.Errorf("relative error %g", worst)
	}
	t.Logf("largest relative error %g", worst)
	for ab, want := range map[[2]uint64]uint64{{3, 1}: 0x3ff95c01a39fbd69, {4294967295, 4294967294}: 0x3df71547654e22e9,
		{1000000007, 31337}: 0x402dec6d909039ef} {
		if got := math.Float64bits(log2Quotient(ab[0], ab[1])); got != want {
			t.Errorf("log2(%d/%d) = %#x, want %#x", ab[0], ab[1], got, want)
		}
	}
}

func FuzzShape(f *testing.F) {
	f.Add([]byte{1, 2, 3}, byte(0))
	f.Add([]byte{7, 7, 7, 7, 7, 7, 7, 8}, byte(8))
	f.Fuzz(func(t *testing.T, data []byte, shift byte) {
		if len(data) == 0 || len(data) > 1<<10 {
			return
		}
		samples := make([]uint32, len(data))
		for i, v := range data {
			samples[i] = uint32(v) << (shift % 9)
		}
		o := channelOf(samples)
		shapeDifferences(t, "fuzz", distributionOf(samples, 65536), &o)
	})
}

// A limit on what has no value fails, whatever other channels say.
func TestLimitWithoutValue(t *testing.T) {
	dev := openCPU(t, kernels.Config{MemoryBytes: 1 << 20})
	f := kernels.Picture{Width: 3, Height: 1, Format: kernels.RGB8, Data: [][]byte{{1, 5, 0, 2, 5, 0, 4, 5, 9}}}
	ring := []Ring{{{0, 0}, {3, 0}, {3, 1}, {0, 1}}}
	for expr, want := range map[string]string{
		"skewness > -0.7": "green skewness has no value: all samples are equal", "r.kurtosis <= 1.5": "",
		"g.kurtosis != 1.4":        "green kurtosis has no value: all samples are equal",
		"b.skewness < 0":           "blue skewness 0.707107 is above 0",
		"entropy < 1.584962500722": "", "g.entropy == 0": "", "mad <= 4": "", "iqr > 1": "green iqr 0 is below 1",
		"r.iqr == 3": "",
	} {
		for _, columns := range []bool{false, true} {
			res, err := Reduce(t.Context(), dev, mustSet(t, Region{Rings: ring, Limits: []string{expr}}), f,
				Reductions{Statistics: Count, Output: Output{Columns: columns}}, driver.MethodDefault)
			if err != nil {
				t.Fatal(err)
			}
			l := res.AsRows().Regions[0].Limits[0]
			if l.Reason != want || (l.Verdict == Pass) != (want == "") || l.Verdict != res.Verdict {
				t.Errorf("%s: %+v, want %q", expr, l, want)
			}
		}
	}
}

// BenchmarkShape is what a region of 4096 pixels, or of a million, pays for each.
func BenchmarkShape(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for name, n := range map[string]int{"4096": 4096, "1048576": 1 << 20} {
		samples := make([]uint32, n)
		for i := range samples {
			samples[i] = uint32(min(max(128+30*rng.NormFloat64(), 0), 255))
		}
		d := distributionOf(samples, 256)
		for _, s := range []Statistics{Skewness, Skewness | Kurtosis, Entropy, MeanAbsoluteDeviation, InterquartileRange} {
			b.Run(name+"/"+s.String(), func(b *testing.B) {
				for b.Loop() {
					var c ChannelStatistics
					d.shape(&c, s, NearestRank)
				}
			})
		}
	}
}
