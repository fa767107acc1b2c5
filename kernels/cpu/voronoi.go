// Voronoi: the nearest site of each pixel.

package cpu

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/polyscan/polyscan/kernels/driver"
)

// voronoiCell is the side of a cell of the grid for n sites: two sites a cell where they are even.
func voronoiCell(n, width, height int) int {
	return max(1, isqrt(2*width*height/max(n, 1)))
}

func voronoiScratch(op *driver.Voronoi) int64 {
	switch op.Method {
	case driver.Grid:
		cell := voronoiCell(op.N, op.Width, op.Height)
		cells := ((op.Width + cell - 1) / cell) * ((op.Height + cell - 1) / cell)
		return 4 * (int64(cells) + 1 + int64(op.N))
	case driver.JumpFlood:
		return 4 * int64(op.Width) * int64(op.Height)
	}
	return 0
}

// diagram is a Voronoi in progress.
type diagram struct {
	sites         []driver.Point
	width, height int
	labels        []uint32
}

func (d *device) voronoi(op *driver.Voronoi, stop *stopFlag) error {
	v := &diagram{viewAs[driver.Point](op.Sites), op.Width, op.Height, viewAs[uint32](op.Labels)}
	scratch := viewAs[uint32](op.Scratch)
	pace := newPace(stop)
	for i, p := range v.sites {
		if p.X < 0 || int(p.X) >= v.width || p.Y < 0 || int(p.Y) >= v.height {
			return fmt.Errorf("Sites[%d] = (%d, %d): is no pixel of %dx%d", i, p.X, p.Y, v.width, v.height)
		}
		if pace.spend(1) {
			return errAborted
		}
	}
	if op.N == 0 {
		return d.clearLabels(v.labels, stop)
	}
	switch op.Method {
	case driver.BruteForce:
		return d.runs("Voronoi", v.width, v.height, stop, v.bruteForce)
	case driver.Grid:
		return d.voronoiGrid(v, scratch, &pace)
	case driver.JumpFlood:
		return d.voronoiJump(v, scratch[:len(v.labels)], &pace)
	}
	return d.voronoiBanding(v, &pace)
}

func (v *diagram) row(y int) []uint32 { return v.labels[y*v.width:][:v.width] }

// labelStep is how many labels are cleared at a time.
const labelStep = 1 << 16

func (d *device) clearLabels(labels []uint32, stop *stopFlag) error {
	return d.pieces("Voronoi", (len(labels)+labelStep-1)/labelStep, stop, func(i int) int {
		part := labels[i*labelStep : min((i+1)*labelStep, len(labels))]
		for j := range part {
			part[j] = driver.NoSite
		}
		return len(part) / 4
	})
}

// place labels the pixels of the sites. It returns false where it was told to stop.
func (v *diagram) place(labels []uint32, p *pace) bool {
	for i, s := range slices.Backward(v.sites) { // of equal sites the least index stays
		labels[int(s.Y)*v.width+int(s.X)] = uint32(i)
		if p.spend(5) {
			return false
		}
	}
	return true
}

func (v *diagram) distance(i uint32, x, y int) int64 {
	dx, dy := int64(v.sites[i].X)-int64(x), int64(v.sites[i].Y)-int64(y)
	return dx*dx + dy*dy
}

// siteStep is how many sites are looked at between two looks at the clock.
const siteStep = 1 << 14

func (v *diagram) bruteForce(x0, x1, y int, p *pace) bool {
	row := v.row(y)
	for x := x0; x < x1; x++ {
		best, least := uint32(0), int64(math.MaxInt64)
		for from := 0; from < len(v.sites); from += siteStep {
			to := min(from+siteStep, len(v.sites))
			for i := from; i < to; i++ {
				if d := v.distance(uint32(i), x, y); d < least {
					best, least = uint32(i), d
				}
			}
			if p.spend(to - from) {
				return false
			}
		}
		row[x] = best
	}
	return true
}

// siteGrid has the sites sorted into cells: those of cell c are list[starts[c]:starts[c+1]], in the order of their
// indices.
type siteGrid struct {
	*diagram
	cell, columns, rows int
	starts, list        []uint32
}

func (d *device) voronoiGrid(v *diagram, scratch []uint32, p *pace) error {
	g := siteGrid{diagram: v, cell: voronoiCell(len(v.sites), v.width, v.height)}
	g.columns, g.rows = (v.width+g.cell-1)/g.cell, (v.height+g.cell-1)/g.cell
	g.starts, g.list = scratch[:g.columns*g.rows+1], scratch[g.columns*g.rows+1:]
	clear(g.starts)
	at := func(p driver.Point) int { return int(p.Y)/g.cell*g.columns + int(p.X)/g.cell }
	for _, s := range v.sites {
		if g.starts[at(s)]++; p.spend(5) {
			return errAborted
		}
	}
	sum := uint32(0)
	for c, n := range g.starts {
		sum += n
		if g.starts[c] = sum; p.spend(1) {
			return errAborted
		}
	}
	for i, s := range slices.Backward(v.sites) {
		c := at(s)
		g.starts[c]--
		if g.list[g.starts[c]] = uint32(i); p.spend(10) {
			return errAborted
		}
	}
	return d.runs("Voronoi", v.width, v.height, p.stop, g.label)
}

func (g *siteGrid) label(x0, x1, y int, p *pace) bool {
	row, cy := g.row(y), y/g.cell
	for x := x0; x < x1; x++ {
		cx := x / g.cell
		best, least := uint32(driver.NoSite), int64(math.MaxInt64)
		for r := 0; r < max(g.columns, g.rows); r++ {
			// Cells of ring r are at least this far away.
			if gap := int64((r-1)*g.cell + 1); r > 0 && gap*gap > least {
				break
			}
			sides := cx-r >= 0 || cx+r < g.columns // there are cells at the sides of the ring
			for j := max(cy-r, 0); j <= min(cy+r, g.rows-1); j++ {
				from, to, step := cx-r, cx+r, 2*r
				switch {
				case j == cy-r || j == cy+r:
					from, to, step = max(from, 0), min(to, g.columns-1), 1
				case !sides:
					j = min(cy+r, g.rows) - 1 // and the last row is next, if there is one
					continue
				}
				if p.spend(2 * ((to-from)/step + 1)) {
					return false
				}
				for i := from; i <= to; i += step {
					if i < 0 || i >= g.columns {
						continue
					}
					c := j*g.columns + i
					for list := g.list[g.starts[c]:g.starts[c+1]]; len(list) > 0; {
						n := min(len(list), siteStep)
						for _, s := range list[:n] {
							if d := g.distance(s, x, y); d < least || d == least && s < best {
								best, least = s, d
							}
						}
						if list = list[n:]; p.spend(2 * n) {
							return false
						}
					}
				}
			}
		}
		row[x] = best
	}
	return true
}

// voronoiJump floods from one buffer into the other; the last step writes the labels.
func (d *device) voronoiJump(v *diagram, spare []uint32, p *pace) error {
	first := 1
	for first < max(v.width, v.height) {
		first *= 2
	}
	first = max(first/2, 1)
	from, to := v.labels, spare
	if bits.Len(uint(first))%2 == 1 { // as many steps
		from, to = to, from
	}
	if err := d.clearLabels(from, p.stop); err != nil {
		return err
	}
	if !v.place(from, p) {
		return errAborted
	}
	for k := first; k >= 1; k /= 2 {
		err := d.runs("Voronoi", v.width, v.height, p.stop, func(x0, x1, y int, p *pace) bool {
			v.jump(to[y*v.width:], from, k, x0, x1, y)
			return !p.spend(30 * (x1 - x0))
		})
		if err != nil {
			return err
		}
		from, to = to, from
	}
	return nil
}

// jump has pixels [x0, x1) of row y ask others at distance k, and writes to that row.
func (v *diagram) jump(row, from []uint32, k, x0, x1, y int) {
	for x := x0; x < x1; x++ {
		best, least := uint32(driver.NoSite), int64(math.MaxInt64)
		for j := y - k; j <= y+k; j += k {
			if j < 0 || j >= v.height {
				continue
			}
			for i := x - k; i <= x+k; i += k {
				if i < 0 || i >= v.width {
					continue
				}
				s := from[j*v.width+i]
				if s == driver.NoSite {
					continue
				}
				if d := v.distance(s, x, y); d < least || d == least && s < best {
					best, least = s, d
				}
			}
		}
		row[x] = best
	}
}

// bandColumns is how many columns a thread takes at a time: 2 KiB of a row.
const bandColumns = 512

// voronoiBanding is exact and independent of the sites: a sweep down and one up find the nearest site within each
// column, and then each row is the lower envelope of the parabolas over its columns' sites (Meijster and others, A
// general algorithm for computing distance transforms in linear time, 2000).
func (d *device) voronoiBanding(v *diagram, p *pace) error {
	if err := d.clearLabels(v.labels, p.stop); err != nil {
		return err
	}
	if !v.place(v.labels, p) {
		return errAborted
	}
	err := d.longPieces("Voronoi", (v.width+bandColumns-1)/bandColumns, p.stop, v.sweepBand)
	if err != nil {
		return err
	}
	return d.longPieces("Voronoi", v.height, p.stop, v.envelopeRow)
}

// sweepBand finds the nearest site within each column of band b.
func (v *diagram) sweepBand(b int, p *pace) bool {
	lo, hi := b*bandColumns, min((b+1)*bandColumns, v.width)
	for y := 1; y < v.height; y++ {
		above, row := v.row(y - 1)[lo:hi], v.row(y)[lo:hi]
		for i, s := range row {
			if s == driver.NoSite {
				row[i] = above[i]
			}
		}
		if p.spend(hi - lo) {
			return false
		}
	}
	for y := v.height - 2; y >= 0; y-- {
		below, row := v.row(y + 1)[lo:hi], v.row(y)[lo:hi]
		for i, s := range row {
			t := below[i]
			if t == s || t == driver.NoSite {
				continue
			}
			if s == driver.NoSite {
				row[i] = t
				continue
			}
			up, down := int32(y)-v.sites[s].Y, v.sites[t].Y-int32(y)
			if down < up || down == up && t < s {
				row[i] = t
			}
		}
		if p.spend(2 * (hi - lo)) {
			return false
		}
	}
	return true
}

// parabola is the squared distance to a site along a row.
type parabola struct {
	x    int64 // where it is least
	g    int64 // how much it is there
	site uint32
	from int64 // the first pixel at which it is as low as the one before it
}

// envelopes holds memory of rows, so that they allocate nothing in the steady state.
var envelopes = sync.Pool{New: func() any { return new([]parabola) }}

// envelopeRow replaces the sites within columns by the nearest ones. Parabolas that touch the envelope in one pixel
// stay in it, because they may have the least index there. It returns false where it was told to stop.
func (v *diagram) envelopeRow(y int, pace *pace) bool {
	row := v.row(y)
	memory := envelopes.Get().(*[]parabola)
	defer envelopes.Put(memory)
	hull := (*memory)[:0]
	defer func() { *memory = hull }()
	for x, s := range row {
		if pace.spend(5) {
			return false
		}
		if s == driver.NoSite {
			continue
		}
		g := int64(y) - int64(v.sites[s].Y)
		p := parabola{x: int64(x), g: g * g, site: s}
		for len(hull) > 0 {
			last := hull[len(hull)-1]
			// Where p is as low as last: x >= (p.x² + p.g - last.x² - last.g) / (2 (p.x - last.x)), rounded up.
			p.from = ceilDiv(p.x*p.x+p.g-last.x*last.x-last.g, 2*(p.x-last.x))
			if len(hull) == 1 || p.from >= last.from {
				break
			}
			// p is as low as last before last is as low as the one before it: last is nowhere least, unless in one
			// pixel, where p.from would be last.from.
			hull = hull[:len(hull)-1]
		}
		hull = append(hull, p)
	}
	if len(hull) == 0 {
		return true
	}
	k := 0
	at := func(i int, x int64) int64 { return (x-hull[i].x)*(x-hull[i].x) + hull[i].g }
	for x := range row {
		if pace.spend(5) {
			return false
		}
		best, least := hull[k].site, at(k, int64(x))
		for k+1 < len(hull) && hull[k+1].from <= int64(x) {
			k++
			if d := at(k, int64(x)); d < least {
				best, least = hull[k].site, d
			} else if d == least {
				best = min(best, hull[k].site)
			}
		}
		row[x] = best
	}
	return true
}

// ceilDiv is a/b rounded up, for b > 0.
func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}
