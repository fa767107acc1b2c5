// The oracle of vertex selection.

package devicetest

import (
	"cmp"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// candidate is a place that [ChooseVertices] may choose.
type candidate struct {
	driver.Point
	key uint64
}

func orderCandidates(a, b candidate) int {
	return cmp.Or(cmp.Compare(a.key, b.key), orderRows(a.Point, b.Point))
}

// orderRows is the order of rows, and of places in a row.
func orderRows(a, b driver.Point) int { return cmp.Or(cmp.Compare(a.Y, b.Y), cmp.Compare(a.X, b.X)) }

// ChooseVertices chooses as [driver.SelectVertices] does, by its definition: it looks at each two candidates that are
// near each other.
func ChooseVertices(edges []uint16, width, height, n int, rule driver.VertexRule,
	previous []driver.Point) []driver.Point {
	pixel := func(x, y int) int { return min(int(edges[y*width+x]), driver.MaxEdge) }
	var all []candidate
	for y := 1; y < height; y++ {
		for x := 1; x < width; x++ {
			if min(x, y, width-x, height-y) <= rule.Spacing {
				continue
			}
			c := candidate{Point: driver.Point{X: int32(x), Y: int32(y)}}
			weight := rule.Floor + pixel(x-1, y-1) + pixel(x, y-1) + pixel(x-1, y) + pixel(x, y)
			if slices.Contains(previous, c.Point) {
				weight *= 1 + rule.Strength
			}
			h := splitMix(splitMix(rule.Seed)^(uint64(y)<<32+uint64(x))) >> 32
			c.key = max(1, h/uint64(weight))
			all = append(all, c)
		}
	}
	if rule.Cell > 0 {
		cell := func(v int32) int {
			if int(v)%rule.Cell >= rule.Cell-rule.Spacing {
				return -1
			}
			return int(v) / rule.Cell
		}
		first := map[[2]int]int{}
		for i, c := range all {
			at := [2]int{cell(c.X), cell(c.Y)}
			if j, ok := first[at]; min(at[0], at[1]) >= 0 && (!ok || orderCandidates(c, all[j]) < 0) {
				first[at] = i
			}
		}
		for _, i := range first {
			all[i].key = 0
		}
	}
	at := make([]*candidate, (width+1)*(height+1))
	for i, c := range all {
		at[int(c.Y)*(width+1)+int(c.X)] = &all[i]
	}
	// Candidates are more than rule.Spacing from the border.
	first := func(c candidate) bool {
		for y := int(c.Y) - rule.Spacing; y <= int(c.Y)+rule.Spacing; y++ {
			for _, o := range at[y*(width+1)+int(c.X)-rule.Spacing:][:2*rule.Spacing+1] {
				if o != nil && orderCandidates(*o, c) < 0 {
					return false
				}
			}
		}
		return true
	}
	var stay []candidate
	for _, c := range all {
		if first(c) {
			stay = append(stay, c)
		}
	}
	slices.SortFunc(stay, orderCandidates)
	chosen := map[driver.Point]bool{}
	side := func(length int, at func(v int) driver.Point) {
		parts := 1
		for parts*rule.Border < length {
			parts++
		}
		for i := range parts + 1 {
			chosen[at(i*length/parts)] = true
		}
	}
	side(width, func(v int) driver.Point { return driver.Point{X: int32(v)} })
	side(width, func(v int) driver.Point { return driver.Point{X: int32(v), Y: int32(height)} })
	side(height, func(v int) driver.Point { return driver.Point{Y: int32(v)} })
	side(height, func(v int) driver.Point { return driver.Point{X: int32(width), Y: int32(v)} })
	for _, c := range stay {
		if len(chosen) < n {
			chosen[c.Point] = true
		}
	}
	var out []driver.Point
	for p := range chosen {
		out = append(out, p)
	}
	slices.SortFunc(out, orderRows)
	return out
}

// splitMix is the finaliser of SplitMix64 (Steele and others, Fast splittable pseudorandom number generators, 2014).
func splitMix(z uint64) uint64 {
	z ^= z >> 30
	z *= 0xbf58476d1ce4e5b9
	z ^= z >> 27
	z *= 0x94d049bb133111eb
	return z ^ z>>31
}
