// Co-occurrence: the oracle, problems, and the comparison.

package devicetest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Pairs says which pairs of pixels of a problem are counted, and how.
type Pairs struct {
	Levels         int
	Offsets        []driver.PixelOffset
	FromRow, ToRow int // of the first pixels
}

// Cooccurrence is what [driver.MaskCooccurrence] must write for the regions of p, of which rows [row0, row0+rows) are
// in the frame.
func (p *Problem) Cooccurrence(pairs Pairs, row0, rows int) []uint32 {
	nc, n := int(p.Format.Channels), pairs.Levels
	out := make([]uint32, p.Count*nc*len(pairs.Offsets)*n*n)
	level := func(at spot, c int) int {
		v := int(p.sample(at.x, at.y, c)) * n / p.Format.Levels()
		return min(v, n-1)
	}
	for i := range p.Count {
		within, inside := p.insideRows(p.First+i, row0, rows)
		for _, a := range inside {
			if a.y < pairs.FromRow || a.y >= pairs.ToRow {
				continue
			}
			for k, o := range pairs.Offsets {
				b := spot{a.x + int(o.DX), a.y + int(o.DY)}
				if !within.in(b.x, b.y) {
					continue
				}
				for c := range nc {
					out[(((i*nc+c)*len(pairs.Offsets)+k)*n+level(a, c))*n+level(b, c)]++
				}
			}
		}
	}
	return out
}

func init() { oracle(hostMaskCooccurrence) }

func hostMaskCooccurrence(op *driver.MaskCooccurrence) error {
	p, err := preparedFor(op.Prepared, &op.Frame, op.Row0, op.First, op.Count)
	if err != nil {
		return err
	}
	p.Pixels = append(make([]byte, op.Row0*p.Stride), view(op.Frame.Data)...)
	if err := p.checkUse(); err != nil {
		return err
	}
	counts := p.Cooccurrence(Pairs{op.Levels, op.Offsets, op.FromRow, op.ToRow}, op.Row0, op.Frame.Height)
	to := view(op.Counts)
	for i, n := range counts {
		if op.Accumulate {
			n += binary.LittleEndian.Uint32(to[4*i:])
		}
		binary.LittleEndian.PutUint32(to[4*i:], n)
	}
	return nil
}

// PairChoices are pairs to count: few and many levels, offsets in all directions, next to each other and far, twice the
// same, out of every region, and of a pixel with itself.
func PairChoices(g *rand.Rand, short bool) []Pairs {
	around := []driver.PixelOffset{{DX: 1}, {DX: 1, DY: 1}, {DY: 1}, {DX: -1, DY: 1}}
	far := []driver.PixelOffset{{}, {DX: -1}, {DY: -1}, {DX: 31, DY: -2}, {DX: 32}, {DX: -33, DY: 5}, {DX: 7, DY: 40},
		{DX: 1},
		{DX: driver.MaxPairReach}, {DY: -driver.MaxPairReach}, {DX: -driver.MaxPairReach, DY: driver.MaxPairReach}}
	var any []driver.PixelOffset
	for range 1 + g.IntN(driver.MaxPairOffsets) {
		any = append(any, driver.PixelOffset{DX: int32(g.IntN(41) - 20), DY: int32(g.IntN(21) - 10)})
	}
	all := []Pairs{
		{Levels: 64, Offsets: around},
		{Levels: driver.MinPairLevels, Offsets: far},
		{Levels: 3 + g.IntN(60), Offsets: any},
	}
	if !short {
		all = append(all, Pairs{Levels: driver.MaxPairLevels, Offsets: around[:2]}, Pairs{Levels: 127, Offsets: far[:5]},
			Pairs{Levels: 128, Offsets: around})
	}
	return all
}

// CompareCooccurrence returns the first difference of two results, or nil.
func CompareCooccurrence(a, b []uint32, first, channels, offsets, levels int) *Difference {
	cells := levels * levels
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		d := &Difference{Op: "MaskCooccurrence", Region: first + i/(channels*offsets*cells),
			Field: fmt.Sprintf("offset %d, level %d to %d", i/cells%offsets, i/levels%levels, i%levels),
			A:     uint64(a[i]), B: uint64(b[i])}
		d.Channel = i / (offsets * cells) % channels
		for k := range a {
			if a[k] != b[k] {
				d.Count++
			}
		}
		return d
	}
	return nil
}
