// An oracle for masked reductions: rational arithmetic and one pixel at a time, from the definitions in kernels/driver.
// It shares nothing with the backend.

package cpu

import (
	"encoding/binary"
	"fmt"
	"math/big"

	"github.com/polyscan/polyscan/kernels/driver"
)

// oracleMask tells which pixels are inside, by row.
func oracleMask(edges []driver.Edge, fill driver.FillRule, width, height int) [][]bool {
	px := func(q int32) *big.Rat { return big.NewRat(int64(q), 256) }
	half := big.NewRat(1, 2)
	mask := make([][]bool, height)
	for j := range mask {
		mask[j] = make([]bool, width)
		yc := new(big.Rat).Add(new(big.Rat).SetInt64(int64(j)), half)
		winding := make([]int, width)
		for _, e := range edges {
			x0, y0, x1, y1 := px(e.X0), px(e.Y0), px(e.X1), px(e.Y1)
			sign, top, bottom := 1, y0, y1
			if y0.Cmp(y1) > 0 {
				sign, top, bottom = -1, y1, y0
			}
			if top.Cmp(yc) > 0 || yc.Cmp(bottom) >= 0 {
				continue
			}
			// x = x0 + (yc-y0) * (x1-x0) / (y1-y0)
			x := new(big.Rat).Sub(x1, x0)
			x.Mul(x, new(big.Rat).Sub(yc, y0))
			x.Quo(x, new(big.Rat).Sub(y1, y0))
			x.Add(x, x0)
			for i := range winding {
				xc := new(big.Rat).SetFrac64(int64(2*i+1), 2)
				if xc.Cmp(x) < 0 {
					winding[i] += sign
				}
			}
		}
		for i, w := range winding {
			mask[j][i] = w != 0
			if fill == driver.EvenOdd {
				mask[j][i] = w%2 != 0
			}
		}
	}
	return mask
}

// picture is an image in host memory.
type picture struct {
	width, height, stride int
	format                driver.PixelFormat
	data                  []byte
}

func (p picture) sample(x, y, channel int) uint64 {
	size := int(p.format.SampleBytes)
	at := y*p.stride + (x*int(p.format.Channels)+int(p.format.Order[channel]))*size
	if size == 2 {
		return uint64(binary.LittleEndian.Uint16(p.data[at:]))
	}
	return uint64(p.data[at])
}

// result is what a MaskReduce writes for a region.
type result struct {
	stats []driver.MaskStats
	hist  [][]uint32 // nil unless asked for
}

func oracleReduce(mask [][]bool, p picture, what driver.MaskWhat) result {
	var r result
	for c := range int(p.format.Channels) {
		s := driver.MaskStats{MinKey: ^uint64(0)}
		var least, most uint64
		first := true
		hist := make([]uint32, 1<<p.format.Bits)
		for y, row := range mask {
			for x, inside := range row {
				if !inside {
					continue
				}
				v := p.sample(x, y, c)
				at := uint64(y)*uint64(p.width) + uint64(x)
				s.Count++
				s.Sum += v
				s.SumSq += v * v
				if what&driver.MaskExtrema != 0 || p.format.SampleBytes == 2 && p.format.Bits < 16 {
					if first || v < least {
						least = v
						s.MinKey = v<<32 | at
					}
					if first || v > most {
						most = v
						s.MaxKey = v<<32 | (1<<32 - 1 - at)
					}
				}
				if what&driver.MaskMoments != 0 {
					s.SumX += uint64(x)
					s.SumY += uint64(y)
					s.SumVX += v * uint64(x)
					s.SumVY += v * uint64(y)
				}
				hist[v%uint64(len(hist))]++
				first = false
			}
		}
		r.stats = append(r.stats, s)
		if what&driver.MaskHistogram != 0 {
			r.hist = append(r.hist, hist)
		}
	}
	return r
}

// differ says how the results of regions differ, or "".
func differ(got, want []result) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d regions, want %d", len(got), len(want))
	}
	for i := range want {
		if len(got[i].stats) != len(want[i].stats) || len(got[i].hist) != len(want[i].hist) {
			return fmt.Sprintf("region %d: %d channels with %d histograms, want %d with %d",
				i, len(got[i].stats), len(got[i].hist), len(want[i].stats), len(want[i].hist))
		}
		for c := range want[i].stats {
			if g, w := got[i].stats[c], want[i].stats[c]; g != w {
				return fmt.Sprintf("region %d, channel %d: %+v, want %+v", i, c, g, w)
			}
		}
		for c := range want[i].hist {
			if len(got[i].hist[c]) != len(want[i].hist[c]) {
				return fmt.Sprintf("region %d, channel %d: histogram of %d, want %d", i, c, len(got[i].hist[c]),
					len(want[i].hist[c]))
			}
			for v := range want[i].hist[c] {
				if g, w := got[i].hist[c][v], want[i].hist[c][v]; g != w {
					return fmt.Sprintf("region %d, channel %d: %d samples of %d, want %d", i, c, g, v, w)
				}
			}
		}
	}
	return ""
}
