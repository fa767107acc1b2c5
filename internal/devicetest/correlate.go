// Correlation: the oracle, problems, and the comparison.

package devicetest

import (
	"fmt"
	"math/rand/v2"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Correlation says which pairs of pixels of a problem are summed up, and how.
type Correlation struct {
	Lags           []driver.Lag
	Slots          int
	Series         []driver.ChannelPair
	FromRow, ToRow int    // of the first pixels
	Other          []byte // what the second pixels are of, as Problem.Pixels; nil for the same
}

// Correlate is what [driver.MaskCorrelate] must write for the regions of p, of which rows [row0, row0+rows) are in the
// frame.
func (p *Problem) Correlate(c Correlation, row0, rows int) []driver.PairSums {
	out := make([]driver.PairSums, p.Count*len(c.Series)*c.Slots)
	other := *p
	if c.Other != nil {
		other.Pixels = c.Other
	}
	for i := range p.Count {
		within, inside := p.insideRows(p.First+i, row0, rows)
		for _, at := range inside {
			if at.y < c.FromRow || at.y >= c.ToRow {
				continue
			}
			for _, l := range c.Lags {
				to := spot{at.x + int(l.DX), at.y + int(l.DY)}
				if !within.in(to.x, to.y) {
					continue
				}
				for k, s := range c.Series {
					a, b := uint64(p.sample(at.x, at.y, int(s.A))), uint64(other.sample(to.x, to.y, int(s.B)))
					sums := &out[(i*len(c.Series)+k)*c.Slots+int(l.Slot)]
					sums.Pairs++
					sums.A += a
					sums.B += b
					sums.SqA += a * a
					sums.SqB += b * b
					sums.Product += a * b
				}
			}
		}
	}
	return out
}

func init() { oracle(hostMaskCorrelate) }

func hostMaskCorrelate(op *driver.MaskCorrelate) error {
	p, err := preparedFor(op.Prepared, &op.Frame, op.Row0, op.First, op.Count)
	if err != nil {
		return err
	}
	p.Stride = p.Width * p.Format.PixelBytes()
	// Rows of any stride, to rows without gaps.
	dense := func(im *driver.Image) []byte {
		rows, data := make([]byte, op.Row0*p.Stride), view(im.Data)
		for y := range im.Height {
			rows = append(rows, data[y*im.Stride:][:p.Stride]...)
		}
		return rows
	}
	p.Pixels = dense(&op.Frame)
	if err := p.checkUse(); err != nil {
		return err
	}
	sums := p.Correlate(Correlation{op.Lags, op.Slots, op.Series, op.FromRow, op.ToRow, dense(&op.Other)}, op.Row0,
		op.Frame.Height)
	if op.Accumulate {
		for i, s := range values[driver.PairSums](op.Sums) {
			for _, f := range pairFields {
				*f.of(&sums[i]) += *f.of(&s)
			}
		}
	}
	copy(view(op.Sums), bytesOf(sums))
	return nil
}

// Correlations are sums to make, of a frame with so many channels: few and many lags, next to each other and far, in
// all directions, several to a slot, twice the same, out of every region, and of a pixel with itself; of each channel
// and of two. The first is of pixels at their own places.
func Correlations(g *rand.Rand, channels int) []Correlation {
	var own []driver.ChannelPair
	for c := range channels {
		own = append(own, driver.ChannelPair{A: uint8(c), B: uint8(c)})
	}
	all := append(own, driver.ChannelPair{A: 0, B: uint8(channels - 1)})
	var ring, apart, many []driver.Lag
	for dy := int32(-2); dy <= 2; dy++ {
		for dx := int32(-2); dx <= 2; dx++ {
			ring = append(ring, driver.Lag{DX: dx, DY: dy, Slot: max(dx, -dx, dy, -dy)})
		}
	}
	for i, l := range []driver.Lag{{DX: 1}, {DX: -1}, {DY: -1}, {DX: 31, DY: -2}, {}, {DX: 32}, {DX: -33, DY: 5},
		{DX: 7, DY: 40}, {DX: 1}, {DX: driver.MaxLagReach}, {DY: -driver.MaxLagReach}} {
		l.Slot = int32(i)
		apart = append(apart, l)
	}
	for i := range 60 + g.IntN(20) { // more than a launch takes
		many = append(many, driver.Lag{DX: int32(g.IntN(41) - 20), DY: int32(g.IntN(21) - 10), Slot: int32(i % 70)})
	}
	return []Correlation{
		{Lags: []driver.Lag{{}}, Slots: 1, Series: all},
		{Lags: ring, Slots: 3, Series: own},
		{Lags: apart, Slots: len(apart) + 1, Series: own},
		{Lags: many, Slots: 70, Series: own[:1]},
	}
}

// pairFields are the fields of [driver.PairSums].
var pairFields = []struct {
	name string
	of   func(*driver.PairSums) *uint64
}{
	{"Pairs", func(s *driver.PairSums) *uint64 { return &s.Pairs }},
	{"A", func(s *driver.PairSums) *uint64 { return &s.A }},
	{"B", func(s *driver.PairSums) *uint64 { return &s.B }},
	{"SqA", func(s *driver.PairSums) *uint64 { return &s.SqA }},
	{"SqB", func(s *driver.PairSums) *uint64 { return &s.SqB }},
	{"Product", func(s *driver.PairSums) *uint64 { return &s.Product }},
}

// ComparePairs returns the first difference of two results, or nil.
func ComparePairs(a, b []driver.PairSums, first, series, slots int) *Difference {
	var f found
	for i := range a {
		for _, of := range pairFields {
			f.add("MaskCorrelate", first+i/(series*slots), i/slots%series, func() string {
				return fmt.Sprintf("slot %d %s", i%slots, of.name)
			}, *of.of(&a[i]), *of.of(&b[i]))
		}
	}
	return f.d
}
