// Weighing: the oracle, and the comparison.

package devicetest

import (
	"encoding/binary"
	"math/big"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Weights are listed pixels of regions.
type Weights struct {
	Pixels []driver.WeightedPixel
	Starts []uint32
}

// Weigh is what [driver.MaskWeigh] must write for the regions of p, of which rows [row0, row0+rows) are in the frame.
// hist has what samples of each value weigh. It panics where a sum does not fit in 64 bits.
func (p *Problem) Weigh(w Weights, row0, rows int) (sums []driver.WeightSums, hist []int64) {
	nc, levels := int(p.Format.Channels), p.Format.Levels()
	hist = make([]int64, p.Count*nc*levels)
	for i := range p.Count {
		for c := range nc {
			var total [4]big.Int
			for k := uint64(w.Starts[p.First+i]); k < uint64(w.Starts[p.First+i+1]) && k < uint64(len(w.Pixels)); k++ {
				word := uint64(w.Pixels[k])
				x, y, weight := int(word%(1<<20)), int(word>>20%(1<<20)), int64(word>>40)
				if weight >= 1<<23 {
					weight -= 1 << 24
				}
				if x >= p.Width || y < row0 || y >= row0+rows {
					continue
				}
				v := int64(p.sample(x, y, c))
				for n, term := range []int64{1, v, v * v % 65536, v * v / 65536} {
					total[n].Add(&total[n], new(big.Int).Mul(big.NewInt(weight), big.NewInt(term)))
				}
				hist[(i*nc+c)*levels+int(v)%levels] += weight
			}
			for n := range total {
				if !total[n].IsInt64() {
					panic("devicetest: a weighted sum beyond 64 bits")
				}
			}
			sums = append(sums, driver.WeightSums{Weight: total[0].Int64(), Sum: total[1].Int64(),
				SqLow: total[2].Int64(), SqHigh: total[3].Int64()})
		}
	}
	return sums, hist
}

func init() { oracle(hostMaskWeigh) }

func hostMaskWeigh(op *driver.MaskWeigh) error {
	p := &Problem{Width: op.Frame.Width, Height: op.Row0 + op.Frame.Height, Format: op.Frame.Format,
		Stride: op.Frame.Stride, First: op.First, Count: op.Count}
	p.Pixels = append(make([]byte, op.Row0*p.Stride), view(op.Frame.Data)...)
	sums, hist := p.Weigh(Weights{values[driver.WeightedPixel](op.Pixels), values[uint32](op.Starts)}, op.Row0,
		op.Frame.Height)
	words := make([]int64, 0, 4*len(sums))
	for _, s := range sums {
		words = append(words, s.Weight, s.Sum, s.SqLow, s.SqHigh)
	}
	for _, r := range []struct {
		to    []byte
		words []int64
	}{{view(op.Sums), words}, {view(op.Hist), hist}} {
		for i := range len(r.to) / 8 {
			v := uint64(r.words[i])
			if op.Accumulate {
				v += binary.LittleEndian.Uint64(r.to[8*i:])
			}
			binary.LittleEndian.PutUint64(r.to[8*i:], v)
		}
	}
	return nil
}

// CompareWeights returns the first difference of two results of regions from first on, or nil.
func CompareWeights(a, b []driver.WeightSums, histA, histB []int64, first, channels, levels int) *Difference {
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		d := &Difference{Op: "MaskWeigh", Region: first + i/channels, Channel: i % channels, Count: 1}
		for _, f := range []struct {
			name string
			a, b int64
		}{{"Weight", a[i].Weight, b[i].Weight}, {"Sum", a[i].Sum, b[i].Sum}, {"SqLow", a[i].SqLow, b[i].SqLow},
			{"SqHigh", a[i].SqHigh, b[i].SqHigh}} {
			if f.a != f.b {
				d.Field, d.A, d.B = f.name, uint64(f.a), uint64(f.b)
				return d
			}
		}
	}
	for i := range histA {
		if histA[i] != histB[i] {
			d := &Difference{Op: "MaskWeigh", Region: first + i/levels/channels, Field: "Hist", Count: 1,
				A: uint64(histA[i]), B: uint64(histB[i])}
			d.Channel = i / levels % channels
			return d
		}
	}
	return nil
}
