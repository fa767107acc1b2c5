// SelectVertices: order sampling of candidates that keep their distance.
//
// A candidate that is first within Spacing is first in its block of Spacing+1 columns and rows, too (Neubeck and Van
// Gool, Efficient non-maximum suppression, 2006). So one pass computes keys and the first one of each block, and what
// is left to look at is one candidate a block, mostly only against the first ones of the blocks around.

package cpu

import (
	"math/bits"
	"slices"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

// A rank is the place of a candidate in the order: its key, and below that its index, y*(Width+1) + x.
type rank = uint64

// noRank is behind all candidates.
const noRank = ^rank(0)

// selection is a SelectVertices in progress. Candidates are counted from the first one, (Spacing+1, Spacing+1).
type selection struct {
	*driver.SelectVertices
	edges    []uint16
	previous []driver.Point
	points   []driver.Point
	out      *uint32
	mixed    uint64 // the seed

	columns, rows           int // of candidates
	block                   int // its side
	blockColumns, blockRows int
	cellColumns, cellRows   int

	keys          []uint32 // of candidates
	first         []rank   // of each block
	stay          []rank   // of each block: first, or noRank
	spare         []rank   // of each block
	cells         []rank   // the first one of each
	sorted, other []keyed
	end           int64 // of the scratch memory
}

// plan computes sizes, and lays out the scratch memory where there is any.
func (v *selection) plan(scratch []byte) {
	v.columns, v.rows = max(v.Width-1-2*v.Spacing, 0), max(v.Height-1-2*v.Spacing, 0)
	if v.columns == 0 || v.rows == 0 {
		v.columns, v.rows = 0, 0
	}
	v.block = v.Spacing + 1
	v.blockColumns, v.blockRows = (v.columns+v.block-1)/v.block, (v.rows+v.block-1)/v.block
	if v.Cell > 0 {
		v.cellColumns, v.cellRows = (v.Width+v.Cell-1)/v.Cell, (v.Height+v.Cell-1)/v.Cell
	}
	blocks := v.blockColumns * v.blockRows
	v.keys = carve[uint32](scratch, &v.end, v.columns*v.rows)
	v.first = carve[rank](scratch, &v.end, blocks)
	v.stay = carve[rank](scratch, &v.end, blocks)
	v.spare = carve[rank](scratch, &v.end, blocks)
	v.cells = carve[rank](scratch, &v.end, v.cellColumns*v.cellRows)
	v.sorted = carve[keyed](scratch, &v.end, v.N)
	v.other = carve[keyed](scratch, &v.end, v.N)
}

// carve takes n values at *at, and moves that on, to a multiple of driver.Align. Without memory it only counts.
func carve[T any](scratch []byte, at *int64, n int) []T {
	var z T
	from := *at
	*at += (int64(n)*int64(unsafe.Sizeof(z)) + driver.Align - 1) &^ (driver.Align - 1)
	if scratch == nil || n == 0 {
		return nil
	}
	return sliceAt[T](scratch, from, n)
}

func selectVerticesScratch(op *driver.SelectVertices) int64 {
	v := selection{SelectVertices: op}
	v.plan(nil)
	return v.end
}

func (v *selection) parts() (columns, rows int) {
	return (v.Width + v.Border - 1) / v.Border, (v.Height + v.Border - 1) / v.Border
}

func (v *selection) borderVertices() int {
	columns, rows := v.parts()
	return 2 * (columns + rows)
}

func (d *device) selectVertices(op *driver.SelectVertices, stop *stopFlag) error {
	v := &selection{SelectVertices: op, mixed: mix(op.Seed)}
	v.edges = viewAs[uint16](op.Edges)
	v.previous = viewAs[driver.Point](op.Previous)
	v.points = viewAs[driver.Point](op.Points)
	count := viewAs[uint32](op.Count)
	v.out = &count[0]
	v.plan(view(op.Scratch))
	if err := d.longPieces("SelectVertices", v.blockRows, stop, v.keyBlocks); err != nil {
		return err
	}
	pace := newPace(stop)
	if v.Strength > 0 && !v.favourPrevious(&pace) {
		return errAborted
	}
	if v.Cell > 0 {
		if err := d.longPieces("SelectVertices", v.cellRows, stop, v.firstOfCells); err != nil {
			return err
		}
		if !v.favourCells(&pace) {
			return errAborted
		}
	}
	if err := d.pieces("SelectVertices", v.blockRows, stop, v.keepDistance); err != nil {
		return err
	}
	if !v.choose(&pace) {
		return errAborted
	}
	return nil
}

// mix is the finaliser of SplitMix64.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// weight is that of candidate (i, j), and key its key.
func (v *selection) weight(i, j int) uint32 {
	at := (j+v.Spacing)*v.Width + i + v.Spacing // the pixel above and to the left
	e0, e1 := v.edges[at:at+2], v.edges[at+v.Width:at+v.Width+2]
	return uint32(v.Floor) + edgeOf(e0[0]) + edgeOf(e0[1]) + edgeOf(e1[0]) + edgeOf(e1[1])
}

func edgeOf(e uint16) uint32 { return min(uint32(e), driver.MaxEdge) }

func (v *selection) key(i, j int, weight uint32) uint32 {
	x, y := uint64(i+v.Spacing+1), uint64(j+v.Spacing+1)
	return max(1, uint32(mix(v.mixed^(y<<32|x))>>32)/weight)
}

func (v *selection) rank(i, j int, key uint32) rank {
	return rank(key)<<32 | rank((j+v.Spacing+1)*(v.Width+1)+i+v.Spacing+1)
}

// at is the candidate of a rank.
func (v *selection) at(r rank) (i, j int) {
	index := int(uint32(r))
	return index%(v.Width+1) - v.Spacing - 1, index/(v.Width+1) - v.Spacing - 1
}

// keyBlocks computes the keys of a row of blocks, and the first one of each. It returns false where it was told to
// stop.
func (v *selection) keyBlocks(b int, p *pace) bool {
	first := v.first[b*v.blockColumns:][:v.blockColumns]
	for i := range first {
		first[i] = noRank
	}
	from, to := b*v.block, min((b+1)*v.block, v.rows)
	for j := from; j < to; j++ {
		keys := v.keys[j*v.columns:][:v.columns]
		at := (j+v.Spacing)*v.Width + v.Spacing
		above, below := v.edges[at:][:v.columns+1], v.edges[at+v.Width:][:v.columns+1]
		left := edgeOf(above[0]) + edgeOf(below[0])
		z := v.mixed ^ uint64(j+v.Spacing+1)<<32
		for i := range keys {
			right := edgeOf(above[i+1]) + edgeOf(below[i+1])
			keys[i] = max(1, uint32(mix(z^uint64(i+v.Spacing+1))>>32)/(uint32(v.Floor)+left+right))
			left = right
		}
		for c := range first {
			lo := c * v.block
			least, where := keys[lo], 0
			for i, k := range keys[lo:min(lo+v.block, v.columns)] {
				if k < least {
					least, where = k, i
				}
			}
			first[c] = min(first[c], v.rank(lo+where, j, least))
		}
		if p.spend(v.columns * 6) {
			return false
		}
	}
	return true
}

// lower gives a candidate a key that is no greater than the one it has.
func (v *selection) lower(i, j int, key uint32) {
	v.keys[j*v.columns+i] = key
	f := &v.first[j/v.block*v.blockColumns+i/v.block]
	*f = min(*f, v.rank(i, j, key))
}

// favourPrevious lowers the keys of vertices of the frame before. It returns false where it was told to stop.
func (v *selection) favourPrevious(pace *pace) bool {
	for _, p := range v.previous {
		i, j := int(p.X)-v.Spacing-1, int(p.Y)-v.Spacing-1
		if i >= 0 && i < v.columns && j >= 0 && j < v.rows {
			v.lower(i, j, v.key(i, j, v.weight(i, j)*uint32(1+v.Strength)))
		}
		if pace.spend(15) {
			return false
		}
	}
	return true
}

// firstOfCells finds the first candidate of each cell of a row. It returns false where it was told to stop.
func (v *selection) firstOfCells(r int, p *pace) bool {
	cells := v.cells[r*v.cellColumns:][:v.cellColumns]
	// Of cell c the candidates from lo on, before hi.
	span := func(c, n int) (lo, hi int) {
		return min(max(c*v.Cell-v.Spacing-1, 0), n), max(min((c+1)*v.Cell-2*v.Spacing-1, n), 0)
	}
	for c := range cells {
		cells[c] = noRank
	}
	from, to := span(r, v.rows)
	for j := from; j < to; j++ {
		keys := v.keys[j*v.columns:][:v.columns]
		for c := range cells {
			lo, hi := span(c, v.columns)
			for i := lo; i < hi; i++ {
				if keys[i] <= uint32(cells[c]>>32) {
					cells[c] = min(cells[c], v.rank(i, j, keys[i]))
				}
			}
		}
		if p.spend(v.columns) {
			return false
		}
	}
	return true
}

// favourCells makes the keys of the first ones of cells 0. It returns false where it was told to stop.
func (v *selection) favourCells(p *pace) bool {
	for _, r := range v.cells {
		if r != noRank {
			i, j := v.at(r)
			v.lower(i, j, 0)
		}
		if p.spend(15) {
			return false
		}
	}
	return true
}

// keepDistance finds which of the first ones of a row of blocks are first within Spacing.
func (v *selection) keepDistance(b int) int {
	for c := range v.blockColumns {
		at := b*v.blockColumns + c
		r := v.first[at]
		v.stay[at] = noRank
		if r != noRank && v.isFirst(r, c, b) {
			v.stay[at] = r
		}
	}
	return v.blockColumns * 50
}

// isFirst reports whether no candidate within Spacing of r, the first one of block (c, b), comes before it.
func (v *selection) isFirst(r rank, c, b int) bool {
	x, y := v.at(r)
	fromJ, toJ := max(b-1, 0), min(b+1, v.blockRows-1)
	fromI, toI := max(c-1, 0), min(c+1, v.blockColumns-1)
	look := false
	for bj := fromJ; bj <= toJ; bj++ {
		for _, o := range v.first[bj*v.blockColumns+fromI : bj*v.blockColumns+toI+1] {
			if o < r {
				if i, j := v.at(o); max(i-x, x-i, j-y, y-j) <= v.Spacing {
					return false
				}
				look = true // at others of that block
			}
		}
	}
	if !look {
		return true
	}
	for bj := fromJ; bj <= toJ; bj++ {
		for bi := fromI; bi <= toI; bi++ {
			if v.first[bj*v.blockColumns+bi] >= r {
				continue
			}
			lo, hi := max(bi*v.block, x-v.Spacing), min(bi*v.block+v.block-1, x+v.Spacing, v.columns-1)
			for j := max(bj*v.block, y-v.Spacing); j <= min(bj*v.block+v.block-1, y+v.Spacing, v.rows-1); j++ {
				for i := lo; i <= hi; i++ {
					if k := v.keys[j*v.columns+i]; k <= uint32(r>>32) && v.rank(i, j, k) < r {
						return false
					}
				}
			}
		}
	}
	return true
}

// choose writes the vertices. It returns false where it was told to stop.
func (v *selection) choose(p *pace) bool {
	stay := v.stay[:0]
	for part := range slices.Chunk(v.stay, sortStep) {
		for _, r := range part {
			if r != noRank {
				stay = append(stay, r)
			}
		}
		if p.spend(2 * len(part)) {
			return false
		}
	}
	last := noRank
	if room := v.N - v.borderVertices(); room == 0 {
		stay = nil
	} else if len(stay) > room {
		var ok bool
		if last, ok = nth(stay, v.spare, room-1, p); !ok {
			return false
		}
	}
	chosen := v.sorted[:0]
	add := func(x, y int) { chosen = append(chosen, keyed{key: uint64(y*(v.Width+1) + x)}) }
	columns, rows := v.parts()
	for i := range columns + 1 {
		add(i*v.Width/columns, 0)
		add(i*v.Width/columns, v.Height)
	}
	for i := 1; i < rows; i++ {
		add(0, i*v.Height/rows)
		add(v.Width, i*v.Height/rows)
	}
	for part := range slices.Chunk(stay, sortStep) {
		for _, r := range part {
			if r <= last {
				chosen = append(chosen, keyed{key: uint64(uint32(r))})
			}
		}
		if p.spend(2 * len(part)) {
			return false
		}
	}
	*v.out = uint32(len(chosen))
	chosen, _, ok := radixSort(chosen, v.other[:len(chosen)], uint(bits.Len(uint((v.Width+1)*(v.Height+1)))), p)
	if !ok {
		return false
	}
	for i, k := range chosen {
		v.points[i] = driver.Point{X: int32(k.key % uint64(v.Width+1)), Y: int32(k.key / uint64(v.Width+1))}
		if p.spend(5) {
			return false
		}
	}
	clear(v.points[len(chosen):])
	return true
}

// nth is number n of different ranks in their order, from 0. spare has room for all of them. ok is false where it was
// told to stop.
func nth(ranks, spare []rank, n int, p *pace) (r rank, ok bool) {
	for shift := 56; len(ranks) > 1; shift -= 8 {
		var counts [256]int
		for part := range slices.Chunk(ranks, sortStep) {
			for _, r := range part {
				counts[uint8(r>>shift)]++
			}
			if p.spend(len(part)) {
				return 0, false
			}
		}
		digit := 0
		for ; n >= counts[digit]; digit++ {
			n -= counts[digit]
		}
		left := spare[:0]
		for part := range slices.Chunk(ranks, sortStep) {
			for _, r := range part {
				if uint8(r>>shift) == uint8(digit) {
					left = append(left, r)
				}
			}
			if p.spend(2 * len(part)) {
				return 0, false
			}
		}
		ranks = left
	}
	return ranks[0], true
}
