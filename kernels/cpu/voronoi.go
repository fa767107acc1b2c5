// Voronoi: the nearest site of each pixel.

package cpu

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) Voronoi(op driver.Voronoi) error {
	return s.enqueue("Voronoi", func(stop *stopFlag) error { return s.dev.voronoi(op, stop) })
}

// voronoiCell is the side of a cell of the grid for n sites: two sites a cell where they are even.
func voronoiCell(n, width, height int) int {
	return max(1, isqrt(2*width*height/max(n, 1)))
}

func (d *device) VoronoiScratch(n, width, height int, m driver.VoronoiMethod) (int64, error) {
	if err := checkVoronoi(n, width, height, m); err != nil {
		return 0, fmt.Errorf("cpu: Voronoi: %w", err)
	}
	switch m {
	case driver.Grid:
		cell := voronoiCell(n, width, height)
		cells := ((width + cell - 1) / cell) * ((height + cell - 1) / cell)
		return 4 * (int64(cells) + 1 + int64(n)), nil
	case driver.JumpFlood:
		return 4 * int64(width) * int64(height), nil
	}
	return 0, nil
}

func checkVoronoi(n, width, height int, m driver.VoronoiMethod) error {
	switch {
	case n < 0 || n > driver.MaxPoints:
		return fmt.Errorf("N = %d: must be 0 to %d", n, driver.MaxPoints)
	case width < 1 || width > driver.MaxSide || height < 1 || height > driver.MaxSide || width*height > driver.MaxPixels:
		return fmt.Errorf("Width, Height = %d, %d: sides must be 1 to %d, and no more than %d pixels", width, height, driver.MaxSide, driver.MaxPixels)
	case m > driver.Banding:
		return fmt.Errorf("Method = %d: %w", m, driver.ErrNotSupported)
	}
	return nil
}

// diagram is a Voronoi in progress.
type diagram struct {
	sites         []driver.Point
	width, height int
	labels        []uint32
}

func (d *device) voronoi(op driver.Voronoi, stop *stopFlag) error {
	need, err := d.VoronoiScratch(op.N, op.Width, op.Height, op.Method)
	if err != nil {
		return err
	}
	v := &diagram{width: op.Width, height: op.Height}
	if v.sites, err = viewAs[driver.Point](op.Sites, "Sites", op.N); err != nil {
		return err
	}
	if v.labels, err = viewAs[uint32](op.Labels, "Labels", op.Width*op.Height); err != nil {
		return err
	}
	raw, err := view(op.Scratch, "Scratch")
	if err != nil {
		return err
	}
	if int64(len(raw)) < need || need > 0 && !aligned(raw) {
		return fmt.Errorf("Scratch: %d bytes at %d are not %d, aligned", len(raw), op.Scratch.Off, need)
	}
	for i, p := range v.sites {
		if p.X < 0 || int(p.X) >= v.width || p.Y < 0 || int(p.Y) >= v.height {
			return fmt.Errorf("Sites[%d] = (%d, %d): is no pixel of %dx%d", i, p.X, p.Y, v.width, v.height)
		}
	}
	if op.N == 0 {
		return d.rows("Voronoi", v.height, v.width, stop, func(y int) {
			for i := range v.row(y) {
				v.row(y)[i] = driver.NoSite
			}
		})
	}
	switch op.Method {
	case driver.BruteForce:
		return d.rows("Voronoi", v.height, v.width*op.N, stop, v.bruteForceRow)
	case driver.Grid:
		return d.voronoiGrid(v, sliceAt[uint32](raw, 0, int(need/4)), stop)
	case driver.JumpFlood:
		return d.voronoiJump(v, sliceAt[uint32](raw, 0, v.width*v.height), stop)
	}
	return d.voronoiBanding(v, stop)
}

func (v *diagram) row(y int) []uint32 { return v.labels[y*v.width:][:v.width] }

// rows runs f on each row, of about so many steps, on as many threads as there are.
func (d *device) rows(name string, rows, steps int, stop *stopFlag, f func(y int)) error {
	band := max(1, min(1<<15/max(steps, 1), rows/(4*d.threads)))
	return d.pieces(name, (rows+band-1)/band, stop, func(i int) int {
		for y := i * band; y < min((i+1)*band, rows); y++ {
			f(y)
		}
		return band * steps
	})
}

func (v *diagram) distance(i uint32, x, y int) int64 {
	dx, dy := int64(v.sites[i].X)-int64(x), int64(v.sites[i].Y)-int64(y)
	return dx*dx + dy*dy
}

func (v *diagram) bruteForceRow(y int) {
	for x := range v.row(y) {
		best, least := uint32(0), int64(math.MaxInt64)
		for i := range v.sites {
			if d := v.distance(uint32(i), x, y); d < least {
				best, least = uint32(i), d
			}
		}
		v.row(y)[x] = best
	}
}

// voronoiGrid sorts the sites into cells: starts[c] is where those of cell c begin in list.
func (d *device) voronoiGrid(v *diagram, scratch []uint32, stop *stopFlag) error {
	cell := voronoiCell(len(v.sites), v.width, v.height)
	columns, rows := (v.width+cell-1)/cell, (v.height+cell-1)/cell
	starts, list := scratch[:columns*rows+1], scratch[columns*rows+1:]
	clear(starts)
	at := func(p driver.Point) int { return int(p.Y)/cell*columns + int(p.X)/cell }
	for _, p := range v.sites {
		starts[at(p)]++
	}
	sum := uint32(0)
	for c, n := range starts {
		sum += n
		starts[c] = sum
	}
	for i, p := range slices.Backward(v.sites) { // so that a cell's are in the order of their indices
		c := at(p)
		starts[c]--
		list[starts[c]] = uint32(i)
	}
	return d.rows("Voronoi", v.height, 30*v.width, stop, func(y int) {
		cy := y / cell
		for x := range v.row(y) {
			cx := x / cell
			best, least := uint32(driver.NoSite), int64(math.MaxInt64)
			look := func(c int) {
				for _, i := range list[starts[c]:starts[c+1]] {
					if d := v.distance(i, x, y); d < least || d == least && i < best {
						best, least = i, d
					}
				}
			}
			for r := 0; r < max(columns, rows); r++ {
				// Cells of ring r are at least this far away.
				if gap := int64((r-1)*cell + 1); r > 0 && gap*gap > least {
					break
				}
				for j := max(cy-r, 0); j <= min(cy+r, rows-1); j++ {
					step := 1
					if j != cy-r && j != cy+r {
						step = max(2*r, 1) // the sides of the ring only
					}
					for i := cx - r; i <= cx+r; i += step {
						if i >= 0 && i < columns {
							look(j*columns + i)
						}
					}
				}
			}
			v.row(y)[x] = best
		}
	})
}

// voronoiJump floods from one buffer into the other; the last step writes the labels.
func (d *device) voronoiJump(v *diagram, spare []uint32, stop *stopFlag) error {
	first := 1
	for first < max(v.width, v.height) {
		first *= 2
	}
	first = max(first/2, 1)
	steps := 0
	for k := first; k >= 1; k /= 2 {
		steps++
	}
	from, to := v.labels, spare
	if steps%2 == 1 {
		from, to = to, from
	}
	for i := range from {
		from[i] = driver.NoSite
	}
	for i, p := range slices.Backward(v.sites) { // of equal sites the least index stays
		from[int(p.Y)*v.width+int(p.X)] = uint32(i)
	}
	for k := first; k >= 1; k /= 2 {
		err := d.rows("Voronoi", v.height, 30*v.width, stop, func(y int) {
			for x := range v.width {
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
				to[y*v.width+x] = best
			}
		})
		if err != nil {
			return err
		}
		from, to = to, from
	}
	return nil
}

// bandColumns is how many columns a thread takes at a time: 2 KiB of a row.
const bandColumns = 512

// voronoiBanding is exact and independent of the sites: a sweep down and one up find the nearest site within each column, and
// then each row is the lower envelope of the parabolas over its columns' sites (Meijster and others, A general algorithm for
// computing distance transforms in linear time, 2000).
func (d *device) voronoiBanding(v *diagram, stop *stopFlag) error {
	err := d.rows("Voronoi", v.height, v.width/4, stop, func(y int) {
		row := v.row(y)
		for i := range row {
			row[i] = driver.NoSite
		}
	})
	if err != nil {
		return err
	}
	for i, p := range slices.Backward(v.sites) { // of equal sites the least index stays
		v.labels[int(p.Y)*v.width+int(p.X)] = uint32(i)
	}
	bands := (v.width + bandColumns - 1) / bandColumns
	err = d.pieces("Voronoi", bands, stop, func(b int) int {
		lo, hi := b*bandColumns, min((b+1)*bandColumns, v.width)
		for y := 1; y < v.height; y++ {
			above, row := v.row(y - 1)[lo:hi], v.row(y)[lo:hi]
			for i, s := range row {
				if s == driver.NoSite {
					row[i] = above[i]
				}
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
		}
		return v.height * (hi - lo) * 2
	})
	if err != nil {
		return err
	}
	return d.rows("Voronoi", v.height, 10*v.width, stop, v.envelopeRow)
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

// envelopeRow replaces the sites within columns by the nearest ones. Parabolas that touch the envelope in one pixel stay in it,
// because they may have the least index there.
func (v *diagram) envelopeRow(y int) {
	row := v.row(y)
	memory := envelopes.Get().(*[]parabola)
	defer envelopes.Put(memory)
	hull := (*memory)[:0]
	defer func() { *memory = hull }()
	for x, s := range row {
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
			// p is as low as last before last is as low as the one before it: last is nowhere least, unless in one pixel,
			// where p.from would be last.from.
			hull = hull[:len(hull)-1]
		}
		hull = append(hull, p)
	}
	if len(hull) == 0 {
		return
	}
	k := 0
	at := func(i int, x int64) int64 { return (x-hull[i].x)*(x-hull[i].x) + hull[i].g }
	for x := range row {
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
}

// ceilDiv is a/b rounded up, for b > 0.
func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}
