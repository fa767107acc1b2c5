package cuda

import (
	"cmp"
	"slices"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

// The parts of the scratch memory lie apart, but for those of the sort and of the triangles, and within what is asked
// for.
func TestTriangulateLayout(t *testing.T) {
	type part struct {
		name      string
		off, size int64
	}
	for _, n := range []int{0, 1, 3, 31, 32, 33, 4096, 4097, 1_000_000, driver.MaxPoints} {
		l := layoutTriangulate(n)
		size := int64(n)
		common := []part{
			{"state", l.state, triangulateStateBytes},
			{"unique status", l.uniqueStatus, 4 * int64(ceilDiv(n, triangulateThreads*uniqueItems))},
			{"emit status", l.emitStatus, 4 * int64(ceilDiv(n, triangulateThreads*emitItems))},
			{"sort status", l.sortStatus, 2 * 1024 * int64(ceilDiv(n, triangulateThreads*sortItems))},
			{"xy", l.xy, 8 * size}, {"id", l.id, 4 * size}, {"masks", l.masks, size}, {"far", l.far, 4 * size},
		}
		for level, nodes := 0, ceilDiv(n, treeLeaf); level < treeLevels; level, nodes = level+1,
			ceilDiv(nodes, treeFan) {
			common = append(common, part{"boxes", l.boxes[level], 16 * int64(nodes)})
			if level < slabLevels {
				common = append(common, part{"slabs", l.slabs[level], slabBytes * int64(nodes)})
			}
		}
		sort := []part{{"keys 0", l.keys[0], 8 * size}, {"keys 1", l.keys[1], 8 * size}, {"ids 0", l.ids[0], 4 * size},
			{"ids 1", l.ids[1], 4 * size}}
		for _, parts := range [][]part{append(slices.Clone(common), sort...),
			append(slices.Clone(common), part{"pairs", l.pairs, 8 * pointSlots * size})} {
			slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.off, b.off) })
			for i, p := range parts {
				end := l.end
				if i+1 < len(parts) {
					end = parts[i+1].off
				}
				if p.off%driver.Align != 0 || p.size > 0 && p.off+p.size > end {
					t.Errorf("%d points: %s takes %d bytes at %d, what follows is at %d", n, p.name, p.size, p.off, end)
				}
			}
		}
		if got := triangulateScratch(n); got != l.end {
			t.Errorf("%d points: %d bytes; the layout has %d", n, got, l.end)
		}
		if most := 78*size + 1<<14; l.end > most {
			t.Errorf("%d points need %d bytes, more than %d", n, l.end, most)
		}
	}
}
