package cuda

import (
	"slices"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

// The parts of the scratch are aligned, apart and within it, and what is cleared is at its start; the method decides
// which there are.
func TestVoronoiLayout(t *testing.T) {
	for _, c := range []struct {
		n, width, height int
		method           driver.VoronoiMethod
		parts            int
	}{
		{0, 100, 100, driver.Banding, 0},
		{100, 100, 100, driver.BruteForce, 0},
		{voronoiFewSites, 100, 100, driver.VoronoiDefault, 0},
		{voronoiFewSites + 1, 100, 100, driver.VoronoiDefault, 8},
		{1, 1, 1, driver.Grid, 8},
		{driver.MaxPoints, 1, 1, driver.Grid, 8},
		{5, 33, 1025, driver.Banding, 10},
		{5, 33, 1025, driver.JumpFlood, 1},
		{driver.MaxPoints, driver.MaxSide, driver.MaxPixels / driver.MaxSide, driver.Grid, 8},
		{driver.MaxPoints, driver.MaxPixels / driver.MaxSide, driver.MaxSide, driver.Banding, 10},
		{driver.MaxPoints, 16385, driver.MaxPixels / 16385, driver.Banding, 10},
	} {
		l := layVoronoi(c.n, c.width, c.height, c.method)
		const base = 1 << 40
		sized := l.bytes
		l.at(base)
		// Those that a method lacks are where the first one is.
		parts := []uint64{l.Words, l.Occupied, l.Blocks, l.Next, l.Hard, l.Ranks, l.Heads, l.Entries, l.Plane, l.Above,
			l.Below}
		if l.cleared > 0 && slices.Max(parts[:4])-base >= uint64(l.cleared) {
			t.Errorf("%+v: a part at %d is not cleared", c, slices.Max(parts[:4])-base)
		}
		slices.Sort(parts)
		parts = slices.Compact(parts)
		if len(parts) != max(c.parts, 1) || parts[0] != base {
			t.Errorf("%+v: %d parts from %d on, want %d", c, len(parts), parts[0]-base, c.parts)
		}
		for _, p := range parts {
			if p%driver.Align != 0 || p-base > uint64(sized) {
				t.Errorf("%+v: a part at %d of %d bytes", c, p-base, sized)
			}
		}
		cells := int64(l.Cells) * int64((c.height+voronoiCell-1)/voronoiCell)
		if cells >= 1<<20 {
			t.Errorf("%+v: %d cells, voronoi_tiles counts on 20 bits", c, cells)
		}
	}
	for _, c := range []struct {
		side int
		wide bool
	}{{1, false}, {16384, false}, {32767, false}, {32768, true}} {
		if l := layVoronoi(1, c.side, c.side, driver.Grid); l.wide() != c.wide {
			t.Errorf("side %d: wide is %v", c.side, l.wide())
		}
	}
}
