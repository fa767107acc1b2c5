// From shapes to pixels: on the host, in integers once vertices, centres and radii are on the grid of 1/256 px.

package polygon

import (
	"fmt"
	"math"
	"slices"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// shapeSteps is how many steps (a crossing of an edge with a row, a run that is combined) the shapes of a set may take;
// some 0.5 s.
const shapeSteps = 1 << 26

// shaper finds the pixels of the regions of a set that have shapes.
type shaper struct {
	regions []Region
	named   map[string]int // where a name is; -1 where it is twice
	nodes   map[int]*shapeNode
	done    map[int][]Run
	within  []int // the regions with shapes whose pixels are being found, each of which the one before names
	most    int   // runs at any time
	steps   int64 // left
	pace    *pacer
	fatal   error // of pace
}

// shapeError is what is wrong with a shape, at a place in its text.
type shapeError struct {
	at    int
	why   string
	chain bool // of how regions name one another: why says which
}

func (e *shapeError) Error() string { return fmt.Sprintf("column %d: %s", e.at+1, e.why) }

func wrong(n *shapeNode, format string, args ...any) error {
	return &shapeError{at: n.at, why: fmt.Sprintf(format, args...)}
}

// addShapes finds the pixels of the regions with shapes. It returns an error of pace alone.
func (s *Set) addShapes(bad *kernels.InvalidError, regions []Region, b Bounds, pace *pacer) error {
	e := shaper{regions: regions, named: map[string]int{}, nodes: map[int]*shapeNode{}, done: map[int][]Run{},
		most: b.MaxRegionVertices, steps: shapeSteps, pace: pace}
	scale := s.scale
	if scale != nil && scale.of == nil {
		scale = &Scale{X: 1, Y: 1} // what is wrong with the set's own is in bad
	}
	for i := range regions {
		if _, twice := e.named[regions[i].Name]; twice {
			e.named[regions[i].Name] = -1
		} else {
			e.named[regions[i].Name] = i
		}
		if text := regions[i].Shape; text != "" {
			n, err := parseShape(text, scale)
			if err != nil {
				bad.Add(path{"regions", i, "shape"}, quoted(text), "%s", err.(*LimitError).Reason())
			}
			e.nodes[i] = n
		}
	}
	if len(bad.Violations) > 0 {
		return nil
	}
	for i := range regions {
		if regions[i].Shape == "" {
			continue
		}
		mask, err := e.region(i, nil, identity)
		if e.fatal != nil {
			return e.fatal
		}
		if err != nil {
			bad.Add(path{"regions", i, "shape"}, quoted(regions[i].Shape), "%v", err)
			return nil // others may name it
		}
		if s.vertices += len(mask); s.vertices > b.MaxVertices {
			bad.Add(path{"regions", i, "shape"}, quoted(regions[i].Shape),
				"%d vertices and runs up to here are too many: the limit is %d in all regions together", s.vertices, b.MaxVertices)
			return nil
		}
		s.shaped += len(mask)
		if err := s.addMask(bad, i, &Region{Mask: mask}, b, pace); err != nil {
			return err
		}
	}
	return nil
}

// spend counts steps.
func (e *shaper) spend(n *shapeNode, steps int) error {
	if e.steps -= int64(steps); e.steps < 0 {
		return wrong(n, "the shapes of the set take too long: more than %d steps", shapeSteps)
	}
	if e.fatal == nil {
		e.fatal = e.pace.took(steps)
	}
	return e.fatal
}

// room refuses more runs than a region may have.
func (e *shaper) room(n *shapeNode, runs []Run) ([]Run, error) {
	if len(runs) > e.most {
		return nil, wrong(n, "%d runs of pixels are too many: the limit is %d", len(runs), e.most)
	}
	return runs, nil
}

// region is the pixels of a region after a map. from names it, nil for one that is wanted for itself.
func (e *shaper) region(i int, from *shapeNode, m affine) ([]Run, error) {
	r := &e.regions[i]
	if r.Shape != "" {
		if runs, ok := e.done[i]; ok && m == identity {
			return runs, nil
		}
		if at := slices.Index(e.within, i); at >= 0 {
			why := quoted(r.Name) + " is made of "
			for _, k := range e.within[at+1:] {
				why += quoted(e.regions[k].Name) + ", which is made of "
			}
			return nil, &shapeError{from.at, why + "itself", true}
		}
		if len(e.within) >= maxShapeDepth {
			return nil, &shapeError{from.at, fmt.Sprintf("regions are made of one another through more than %d", maxShapeDepth), true}
		}
		e.within = append(e.within, i)
		runs, err := e.eval(e.nodes[i], m)
		e.within = e.within[:len(e.within)-1]
		if inner, ok := err.(*shapeError); ok && from != nil {
			if inner.at = from.at; !inner.chain {
				inner.why = quoted(r.Name) + ": " + inner.why
			}
			return nil, inner
		}
		if err == nil && m == identity {
			e.done[i] = runs
		}
		return runs, err
	}
	if r.Mask != nil {
		return e.moved(from, r.Mask, m)
	}
	var edges []driver.Edge
	for _, ring := range r.Rings {
		err := e.spend(from, len(ring))
		if err != nil {
			return nil, err
		}
		if edges, err = appendRing(edges, from, ring, m); err != nil {
			return nil, err
		}
	}
	return e.scan(from, edges, driver.FillRule(r.Fill))
}

// appendRing appends the edges of a ring after a map, whose vertices are rounded once.
func appendRing(edges []driver.Edge, n *shapeNode, ring Ring, m affine) ([]driver.Edge, error) {
	at := func(p Point) (x, y int32, err error) {
		px, py := p.X, p.Y
		if m != identity {
			px, py = m.to(px, py)
		}
		if !(math.Abs(px) < maxCoordinate && math.Abs(py) < maxCoordinate) {
			return 0, 0, wrong(n, "a vertex comes to (%v, %v): must be less than %d px from 0", px, py, maxCoordinate)
		}
		return quantise(px), quantise(py), nil
	}
	x0, y0, err := at(ring[len(ring)-1])
	if err != nil {
		return nil, err
	}
	for _, p := range ring {
		x1, y1, err := at(p)
		if err != nil {
			return nil, err
		}
		if x0 != x1 || y0 != y1 {
			edges = append(edges, driver.Edge{X0: x0, Y0: y0, X1: x1, Y1: y1})
		}
		x0, y0 = x1, y1
	}
	return edges, nil
}

// scan is the pixels within edges.
func (e *shaper) scan(n *shapeNode, edges []driver.Edge, fill driver.FillRule) ([]Run, error) {
	top, bottom, crossings := math.MaxInt, math.MinInt, 0
	for _, g := range edges {
		from, to := edgeRows(g)
		if from < to {
			top, bottom = min(top, from), max(bottom, to)
			crossings += to - from
		}
	}
	if int64(crossings) > e.steps { // before any is looked at
		return nil, e.spend(n, crossings)
	}
	out := []Run{}
	if top >= bottom {
		return out, nil
	}
	var failed error
	sweep(edges, top, bottom, func(y int, turns []turn) bool {
		if failed = e.spend(n, len(turns)); failed != nil {
			return false
		}
		spans(turns, fill, func(x0, x1 int) { out = append(out, Run{Y: int32(y), X0: int32(x0), X1: int32(x1)}) })
		_, failed = e.room(n, out)
		return failed == nil
	})
	if failed != nil {
		return nil, failed
	}
	return out, nil
}

// moved is a mask after a map that takes pixels to pixels.
func (e *shaper) moved(n *shapeNode, mask []Run, m affine) ([]Run, error) {
	if m == identity {
		return mask, nil
	}
	whole := func(v float64) bool { return v == math.Trunc(v) && math.Abs(v) < 2*maxCoordinate }
	straight := m.b == 0 && m.d == 0 && math.Abs(m.a) == 1 && math.Abs(m.e) == 1
	turned := m.a == 0 && m.e == 0 && math.Abs(m.b) == 1 && math.Abs(m.d) == 1
	if !straight && !turned || !whole(m.c) || !whole(m.f) {
		return nil, wrong(n, "pixels can be moved by whole pixels, mirrored and turned by 90 degrees, and nothing else")
	}
	if err := e.spend(n, len(mask)); err != nil {
		return nil, err
	}
	if turned {
		var err error
		if mask, err = e.transposed(n, mask); err != nil {
			return nil, err
		}
		m.a, m.b, m.d, m.e = m.b, m.a, m.e, m.d
	}
	out := make([]Run, len(mask))
	for i, u := range mask {
		y, x0, x1 := int(u.Y), int(u.X0), int(u.X1)
		if m.e < 0 {
			y = -1 - y
		}
		if m.a < 0 {
			x0, x1 = -x1, -x0
		}
		y, x0, x1 = y+int(m.f), x0+int(m.c), x1+int(m.c)
		if min(y, x0) <= -maxCoordinate || max(y, x1-1) >= maxCoordinate {
			return nil, wrong(n, "a pixel comes to (%d, %d): must be less than %d px from 0", x0, y, maxCoordinate)
		}
		out[i] = Run{Y: int32(y), X0: int32(x0), X1: int32(x1)}
	}
	slices.SortFunc(out, func(a, b Run) int {
		if a.Y != b.Y {
			return int(a.Y) - int(b.Y)
		}
		return int(a.X0) - int(b.X0)
	})
	return out, nil
}

// transposed is a mask with x for y.
func (e *shaper) transposed(n *shapeNode, mask []Run) ([]Run, error) {
	var edges []driver.Edge
	for _, ring := range Outline(mask) {
		for i := range ring {
			ring[i] = Point{ring[i].Y, ring[i].X}
		}
		var err error
		if edges, err = appendRing(edges, n, ring, identity); err != nil {
			return nil, err
		}
	}
	return e.scan(n, edges, driver.NonZero)
}

// similar says that a map changes all lengths by the same factor, which it returns.
func (m affine) similar() (float64, bool) {
	const much = 1e-9
	size := math.Hypot(m.a, m.d)
	straight := math.Abs(m.a-m.e)+math.Abs(m.b+m.d) <= much*size
	mirrored := math.Abs(m.a+m.e)+math.Abs(m.b-m.d) <= much*size
	if math.Abs(m.a) == 1 && m.d == 0 || math.Abs(m.d) == 1 && m.a == 0 {
		size = 1 // not by way of roots
	}
	return size, straight || mirrored
}

// eval is the pixels of a shape after a map.
func (e *shaper) eval(n *shapeNode, m affine) (out []Run, err error) {
	const each = 64 // what a node costs beside its pixels
	if err := e.spend(n, each); err != nil {
		return nil, err
	}
	switch n.op {
	case shapeName:
		i, ok := e.named[n.name]
		switch {
		case !ok:
			return nil, wrong(n, "no region is called %s", quoted(n.name))
		case i < 0:
			return nil, wrong(n, "several regions are called %s", quoted(n.name))
		}
		out, err = e.region(i, n, m)
	case shapeMap:
		return e.eval(n.args[0], m.after(n.by))
	case shapeArray:
		columns := int(n.nums[0])
		out, err = e.union(n, columns*int(n.nums[1]), func(i int) ([]Run, error) {
			by := identity
			by.c, by.f = float64(i%columns)*n.nums[2], float64(i/columns)*n.nums[3]
			return e.eval(n.args[0], m.after(by))
		})
	case shapeSet:
		var a, b []Run
		if a, err = e.eval(n.args[0], m); err != nil {
			return nil, err
		}
		if b, err = e.eval(n.args[1], m); err != nil {
			return nil, err
		}
		out, err = e.combine(n, n.set, a, b)
	case shapeInset, shapeOutset, shapeInwards, shapeOutwards:
		out, err = e.distant(n, m)
	default:
		out, err = e.figure(n, m)
	}
	if err != nil {
		return nil, err
	}
	return e.room(n, out)
}

func (e *shaper) combine(n *shapeNode, op SetOp, a, b []Run) ([]Run, error) {
	if err := e.spend(n, len(a)+len(b)+1); err != nil {
		return nil, err
	}
	return e.room(n, Combine(op, a, b))
}

// union is of so many masks, by halves.
func (e *shaper) union(n *shapeNode, count int, mask func(i int) ([]Run, error)) ([]Run, error) {
	var part func(from, to int) ([]Run, error)
	part = func(from, to int) ([]Run, error) {
		if to-from == 1 {
			return mask(from)
		}
		mid := from + (to-from)/2
		a, err := part(from, mid)
		if err != nil {
			return nil, err
		}
		b, err := part(mid, to)
		if err != nil {
			return nil, err
		}
		return e.combine(n, Union, a, b)
	}
	return part(0, count)
}

// distant is an inset, outset or band.
func (e *shaper) distant(n *shapeNode, m affine) ([]Run, error) {
	factor, ok := m.similar()
	d := n.nums[0] * factor
	switch {
	case !ok:
		return nil, wrong(n, "distances can't be kept by a map that changes lengths differently in different directions")
	case d > maxDistance:
		return nil, wrong(n, "the distance comes to %v: must be %d px at most", d, maxDistance)
	}
	of, err := e.eval(n.args[0], m)
	if err != nil || len(of) == 0 {
		return of, err
	}
	if n.op == shapeOutset || n.op == shapeOutwards {
		out, err := e.grown(n, of, d)
		if err != nil || n.op == shapeOutset {
			return out, err
		}
		return e.combine(n, Difference, out, of)
	}
	around, err := e.around(n, of)
	if err != nil {
		return nil, err
	}
	if around, err = e.grown(n, around, d); err != nil {
		return nil, err
	}
	op := Difference
	if n.op == shapeInwards {
		op = Intersection
	}
	return e.combine(n, op, of, around)
}

// around is the pixels outside of a mask, within the box that is a pixel wider on each side: no pixel of the mask is
// nearer to one farther away.
func (e *shaper) around(n *shapeNode, mask []Run) ([]Run, error) {
	x0, x1 := mask[0].X0, mask[0].X1
	for _, u := range mask {
		x0, x1 = min(x0, u.X0), max(x1, u.X1)
	}
	y0, y1 := mask[0].Y-1, mask[len(mask)-1].Y+2
	if rows := int(y1) - int(y0); rows > e.most {
		return nil, wrong(n, "%d rows of pixels are too many: the limit is %d", rows, e.most)
	}
	all := make([]Run, 0, y1-y0)
	for y := y0; y < y1; y++ {
		all = append(all, Run{Y: y, X0: x0 - 1, X1: x1 + 1})
	}
	return e.combine(n, Difference, all, mask)
}

// grown is the pixels whose centres are d at most from that of one of a mask.
func (e *shaper) grown(n *shapeNode, mask []Run, d float64) ([]Run, error) {
	d256 := int64(quantise(d))
	most := d256 * d256 >> (2 * driver.SubpixelBits) // of dx²+dy² in pixels
	reach := int(isqrt(uint64(most)))
	for _, u := range mask {
		if min(int(u.Y), int(u.X0))-reach <= -maxCoordinate || max(int(u.Y), int(u.X1-1))+reach >= maxCoordinate {
			return nil, wrong(n, "the distance reaches beyond %d px from 0", maxCoordinate)
		}
	}
	return e.union(n, 2*reach+1, func(i int) ([]Run, error) {
		dy := int64(i - reach)
		wide := int32(isqrt(uint64(most - dy*dy)))
		if err := e.spend(n, len(mask)); err != nil {
			return nil, err
		}
		out := make([]Run, 0, len(mask))
		for _, u := range mask {
			u = Run{Y: u.Y + int32(dy), X0: u.X0 - wide, X1: u.X1 + wide}
			if k := len(out) - 1; k >= 0 && out[k].Y == u.Y && out[k].X1 >= u.X0 {
				out[k].X1 = max(out[k].X1, u.X1)
			} else {
				out = append(out, u)
			}
		}
		return out, nil
	})
}

// isqrt is the largest integer whose square is at most v.
func isqrt(v uint64) uint64 {
	r := uint64(math.Sqrt(float64(v)))
	for r*r > v || r >= 1<<32 {
		r--
	}
	for r < 1<<32-1 && (r+1)*(r+1) <= v {
		r++
	}
	return r
}
