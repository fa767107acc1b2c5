// From shapes to pixels: on the host, in integers once vertices, centres and radii are on the grid of 1/256 px.

package polygon

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// shapeSteps is how many steps (a crossing of an edge with a row, an end of a run that is combined) the shapes of a set
// may take; some 0.5 s.
const shapeSteps = 1 << 26

// shapeRuns is how many runs the shapes of a set may hold at a time, beside as many as all regions may have: some 100
// MB.
const shapeRuns = 8 << 20

// shaper finds the pixels of the regions of a set that have shapes.
type shaper struct {
	regions []Region
	set     *Set // what regions come to is in there
	bounds  Bounds
	scale   *Scale
	by      affine         // of all shapes
	named   map[string]int // where a name is; -1 where it is twice
	done    []bool         // regions that are in the set
	within  []int          // the regions with shapes whose pixels are being found, each of which the one before names
	most    int            // runs of a region
	steps   int64          // left
	pace    *pacer
	fatal   error // of pace, or of memory

	// Runs that there is room for, the most there was, which memory was asked for, what the set has of them, what it had
	// before that may still be in use, room in buffers that nobody has written, and the most that was told to be.
	held, asked, kept, pinned, blank, told int
	// Buffers that are in use, by their first runs, with how many were written at most, and those that are not, as far as
	// they were written, by the logarithm of their capacity. Shapes are combined in them over and over, so that what is
	// held is all that is allocated.
	used map[*Run]int
	free [32][][]Run
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
	return s.newShaper(regions, b, pace).shapes(bad)
}

// newShaper finds pixels for a set, which has its scale and its pose.
func (s *Set) newShaper(regions []Region, b Bounds, pace *pacer) *shaper {
	return &shaper{regions: regions, set: s, bounds: b, scale: s.asDrawn().scale, named: map[string]int{}, by: s.by(),
		done: make([]bool, len(regions)), most: b.MaxRegionVertices, steps: shapeSteps, pace: pace,
		used: map[*Run]int{}}
}

// shapes finds the pixels of all regions with shapes. It returns an error of pace, or of memory, alone.
func (e *shaper) shapes(bad *kernels.InvalidError) error {
	regions, b, pace := e.regions, e.bounds, e.pace
	if e.scale != nil && e.scale.of == nil {
		e.scale = &Scale{X: 1, Y: 1} // what is wrong with the set's own is in bad
	}
	for i := range regions {
		if err := pace.took(1 + len(regions[i].Shape)); err != nil {
			return err
		}
		if _, twice := e.named[regions[i].Name]; twice {
			e.named[regions[i].Name] = -1
		} else {
			e.named[regions[i].Name] = i
		}
		if text := regions[i].Shape; text != "" {
			// What it is parsed to takes 50 times as much memory as the text, and is not kept.
			if _, err := parseShape(text, e.scale); err != nil {
				bad.Add(path{"regions", i, "shape"}, quoted(text), "%s", err.(*LimitError).Reason())
			}
		}
	}
	if len(bad.Violations) > 0 {
		return nil
	}
	for i := range regions {
		if regions[i].Shape == "" {
			continue
		}
		_, err := e.region(i, nil, e.by)
		e.held, e.pinned = e.held-e.pinned, 0
		if e.fatal != nil {
			return e.fatal
		}
		if err != nil {
			bad.Add(path{"regions", i, "shape"}, quoted(regions[i].Shape), "%v", err)
			return nil // others may name it
		}
	}
	if b.Memory != nil {
		return b.Memory(int64(e.kept-e.asked) * runBytes)
	}
	return nil
}

const runBytes = int64(unsafe.Sizeof(Run{}))

// hold is room for so many more runs, which may be negative.
func (e *shaper) hold(n *shapeNode, runs int) error {
	most := shapeRuns + e.bounds.MaxVertices
	if e.held+runs > most { // others may have left buffers of other sizes
		for k := range e.free {
			for _, b := range e.free[k] {
				e.held, e.blank = e.held-cap(b), e.blank-(cap(b)-len(b))
			}
			e.free[k] = nil
		}
	}
	if e.held+runs > most {
		return wrong(n, "takes memory for %d runs of pixels at a time: the limit is %d in all regions together", e.held+
			runs, most)
	}
	e.held += runs
	if more := e.held - e.asked; more > 0 {
		e.asked = e.held
		if e.bounds.Memory != nil && e.fatal == nil {
			e.fatal = e.bounds.Memory(int64(more) * runBytes)
		}
	}
	e.tell()
	return e.fatal
}

// tell tells how much is there of what is held.
func (e *shaper) tell() {
	if more := e.held - e.blank - e.told; more > 0 && e.fatal == nil {
		e.told += more
		if e.bounds.Written != nil {
			e.bounds.Written(int64(more) * runBytes)
		}
	}
}

// wrote is told of runs that may be in a buffer.
func (e *shaper) wrote(runs []Run) {
	first := unsafe.SliceData(runs)
	if before, ok := e.used[first]; ok && len(runs) > before {
		e.used[first] = len(runs)
		e.blank -= len(runs) - before
		e.tell()
	}
}

// buffer has no runs, and room for so many.
func (e *shaper) buffer(n *shapeNode, runs int) ([]Run, error) {
	k := bits.Len(uint(max(runs, 1) - 1))
	for c := k; c < min(k+4, len(e.free)); c++ {
		if last := len(e.free[c]) - 1; last >= 0 {
			b := e.free[c][last]
			e.free[c] = e.free[c][:last]
			e.used[unsafe.SliceData(b)] = len(b)
			return b[:0], nil
		}
	}
	e.blank += 1 << k
	if err := e.hold(n, 1<<k); err != nil {
		return nil, err // which ends all
	}
	b := make([]Run, 0, 1<<k)
	e.used[unsafe.SliceData(b)] = 0
	return b, nil
}

// release lets others have the buffers that masks are in, which are not used any more. What is no buffer is a region's.
func (e *shaper) release(masks ...[]Run) {
	for _, mask := range masks {
		e.wrote(mask)
		first := unsafe.SliceData(mask)
		if written, ok := e.used[first]; ok {
			delete(e.used, first)
			k := bits.Len(uint(cap(mask) - 1))
			e.free[k] = append(e.free[k], mask[:written])
		}
	}
}

// keep puts what region i comes to into the set.
func (e *shaper) keep(i int, n *shapeNode, mask []Run) error {
	s := e.set
	if s.vertices += len(mask); s.vertices > e.bounds.MaxVertices {
		return fmt.Errorf("%d vertices and runs up to here are too many: the limit is %d in all regions together",
			s.vertices, e.bounds.MaxVertices)
	}
	if need := len(s.runs) + len(mask); need > cap(s.runs) {
		more := max(need, cap(s.runs)+cap(s.runs)/4)
		if err := e.hold(n, more); err != nil {
			return err
		}
		runs := make([]Run, 0, more)
		for part := range slices.Chunk(s.runs, setPiece) {
			if err := e.spend(n, len(part)/8); err != nil {
				return err
			}
			runs = append(runs, part...)
		}
		if len(e.within) == 0 {
			e.held -= e.kept // those before are nobody's now
		} else { // a region that is made of this one may have taken some of them
			e.pinned += e.kept
		}
		e.kept, s.runs = more, runs
	}
	bad := newInvalid()
	if e.fatal = s.addMask(bad, i, &Region{Mask: mask}, e.bounds, e.pace); e.fatal != nil {
		return e.fatal
	}
	e.done[i] = true
	e.release(mask)
	return bad.Err()
}

// spend counts steps, of which the caller takes no more than some thousands before the next ones.
func (e *shaper) spend(n *shapeNode, steps int) error {
	if e.steps -= int64(steps); e.steps < 0 {
		return wrong(n, "the shapes of the set take too long: more than %d steps", shapeSteps)
	}
	if e.fatal == nil {
		e.fatal = e.pace.took(steps)
	}
	return e.fatal
}

// room refuses more runs than a region may have, and counts them as written.
func (e *shaper) room(n *shapeNode, runs []Run) ([]Run, error) {
	e.wrote(runs)
	if len(runs) > e.most {
		return nil, wrong(n, "%d runs of pixels are too many: the limit is %d", len(runs), e.most)
	}
	return runs, nil
}

// region is the pixels of a region after a map. from names it, nil for one that is wanted for itself.
func (e *shaper) region(i int, from *shapeNode, m affine) ([]Run, error) {
	r := &e.regions[i]
	if r.Shape != "" {
		if e.done[i] && m == e.by {
			return e.set.runsOf(i), nil
		}
		if at := slices.Index(e.within, i); at >= 0 {
			why := quoted(r.Name) + " is made of "
			for _, k := range e.within[at+1:] {
				why += quoted(e.regions[k].Name) + ", which is made of "
			}
			return nil, &shapeError{from.at, why + "itself", true}
		}
		if len(e.within) >= maxShapeDepth {
			return nil, &shapeError{from.at, fmt.Sprintf("regions are made of one another through more than %d",
				maxShapeDepth), true}
		}
		node, err := parseShape(r.Shape, e.scale)
		if err != nil { // it was parsed before
			return nil, err
		}
		if err := e.spend(node, len(r.Shape)); err != nil {
			return nil, err
		}
		e.within = append(e.within, i)
		runs, err := e.eval(node, m)
		e.within = e.within[:len(e.within)-1]
		if inner, ok := err.(*shapeError); ok && from != nil {
			if inner.at = from.at; !inner.chain {
				inner.why = quoted(r.Name) + ": " + inner.why
			}
			return nil, inner
		}
		if err == nil && m == e.by {
			if err = e.keep(i, node, runs); err == nil {
				runs = e.set.runsOf(i)
			}
		}
		return runs, err
	}
	if r.Mask != nil {
		return e.moved(from, r.Mask, m)
	}
	vertices := 0
	for _, ring := range r.Rings {
		vertices += len(ring)
	}
	return e.inside(from, vertices, driver.FillRule(r.Fill), func(edges []driver.Edge) (_ []driver.Edge, err error) {
		for _, ring := range r.Rings {
			if edges, err = e.appendRing(edges, from, ring, m); err != nil {
				return nil, err
			}
		}
		return edges, nil
	})
}

// inside is the pixels within edges that fill appends to none, so many at most.
func (e *shaper) inside(n *shapeNode, most int, rule driver.FillRule,
	fill func([]driver.Edge) ([]driver.Edge, error)) ([]Run, error) {
	room := 1 + most*(int(unsafe.Sizeof(driver.Edge{}))+sweepBytes)/int(runBytes)
	if err := e.hold(n, room); err != nil {
		return nil, err
	}
	edges, err := fill(make([]driver.Edge, 0, most))
	var out []Run
	if err == nil {
		out, err = e.scan(n, edges, rule)
	}
	e.held -= room
	return out, err
}

// appendRing appends the edges of a ring after a map, whose vertices are rounded once.
func (e *shaper) appendRing(edges []driver.Edge, n *shapeNode, ring Ring, m affine) ([]driver.Edge, error) {
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
	for i, p := range ring {
		if i%setPiece == 0 {
			if err := e.spend(n, min(len(ring)-i, setPiece)); err != nil {
				return nil, err
			}
		}
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
	for i, g := range edges {
		if i%setPiece == 0 {
			if err := e.spend(n, min(len(edges)-i, setPiece)/8); err != nil {
				return nil, err
			}
		}
		from, to := edgeRows(g)
		if from < to {
			top, bottom = min(top, from), max(bottom, to)
			crossings += to - from
		}
	}
	if int64(crossings) > e.steps { // before any is looked at
		return nil, e.spend(n, crossings)
	}
	if top >= bottom {
		return []Run{}, nil
	}
	out, failed := e.buffer(n, min(crossings/2, e.most))
	room := 0 // for live edges
	sweepUntil(edges, top, bottom, func(steps, live int) bool {
		if need := live * liveBytes / int(runBytes); failed == nil && need > room {
			more := max(need, 2*room) - room
			if failed = e.hold(n, more); failed == nil {
				room += more
			}
		}
		if failed == nil {
			failed = e.spend(n, steps)
		}
		return failed != nil
	}, func(y int, turns []turn) bool {
		spans(turns, fill, func(x0, x1 int) {
			if len(out) < cap(out) {
				out = append(out, Run{Y: int32(y), X0: int32(x0), X1: int32(x1)})
			} else {
				failed = wrong(n, "more than %d runs of pixels are too many: the limit is %d", e.most, e.most)
			}
		})
		return failed == nil
	})
	e.held -= room
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
	if turned {
		var err error
		if mask, err = e.transposed(n, mask); err != nil {
			return nil, err
		}
		m.a, m.b, m.d, m.e = m.b, m.a, m.e, m.d
	}
	out, err := e.buffer(n, len(mask))
	if err != nil {
		return nil, err
	}
	out = out[:len(mask)]
	for i, u := range mask {
		if i%setPiece == 0 {
			if err := e.spend(n, min(len(mask)-i, setPiece)); err != nil {
				return nil, err
			}
		}
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
		if m.e < 0 { // rows come from the bottom, and their runs from the right
			i = len(mask) - 1 - i
		}
		out[i] = Run{Y: int32(y), X0: int32(x0), X1: int32(x1)}
	}
	e.release(mask)
	if (m.a < 0) == (m.e < 0) {
		return out, nil
	}
	for from, to := 0, 0; from < len(out); from = to {
		for to = from; to < len(out) && out[to].Y == out[from].Y; to++ {
		}
		if err := e.spend(n, (to-from)/8); err != nil {
			return nil, err
		}
		slices.Reverse(out[from:to])
	}
	return out, nil
}

// transposed is a mask with x for y.
func (e *shaper) transposed(n *shapeNode, mask []Run) ([]Run, error) {
	// What a row has and the one above it hasn't begins there, and what only the one above has ends there. Edges along
	// rows are upright afterwards, and all others count for no row.
	return e.inside(n, 2*len(mask), driver.NonZero, func(edges []driver.Edge) ([]driver.Edge, error) {
		add := func(y int32, above, below []Run) error {
			since, ends, failed := int32(0), 0, error(nil)
			eachEnd(above, below, func(x int32, inAbove, inBelow bool) {
				if ends++; ends == combinePiece && failed == nil {
					ends, failed = 0, e.spend(n, ends)
				}
				from, to := since*driver.Subpixel, x*driver.Subpixel
				if inAbove {
					from, to = to, from
				}
				if inAbove != inBelow && since != x {
					edges = append(edges, driver.Edge{X0: y * driver.Subpixel, Y0: to, X1: y * driver.Subpixel,
						Y1: from})
				}
				since = x
			})
			if failed == nil {
				failed = e.spend(n, ends)
			}
			return failed
		}
		var above []Run
		for at := 0; at < len(mask); {
			var row []Run
			row, at = rowAt(mask, at)
			if len(above) > 0 && above[0].Y+1 < row[0].Y {
				if err := add(above[0].Y+1, above, nil); err != nil {
					return nil, err
				}
				above = nil
			}
			if err := add(row[0].Y, above, row); err != nil {
				return nil, err
			}
			above = row
		}
		if len(above) == 0 {
			return edges, nil
		}
		return edges, add(above[0].Y+1, above, nil)
	})
}

// rowAt is the runs of the row that runs[i] is of, and where the next row begins.
func rowAt(runs []Run, i int) ([]Run, int) {
	from := i
	for i < len(runs) && runs[i].Y == runs[from].Y {
		i++
	}
	return runs[from:i], i
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
		e.release(a, b)
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

// combine needs a and b no more than its caller does, who is to release them.
func (e *shaper) combine(n *shapeNode, op SetOp, a, b []Run) ([]Run, error) {
	out, err := e.buffer(n, len(a)+len(b))
	if err != nil {
		return nil, err
	}
	if out, err = combine(out, op, a, b, func(ends int) error { return e.spend(n, ends) }); err != nil {
		return nil, err
	}
	return e.room(n, out)
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
		out, err := e.combine(n, Union, a, b)
		e.release(a, b)
		return out, err
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
		if err == nil && n.op == shapeOutwards {
			all := out
			out, err = e.combine(n, Difference, all, of)
			e.release(all)
		}
		e.release(of)
		return out, err
	}
	outside, err := e.around(n, of)
	if err != nil {
		return nil, err
	}
	around, err := e.grown(n, outside, d)
	if err != nil {
		return nil, err
	}
	e.release(outside)
	op := Difference
	if n.op == shapeInwards {
		op = Intersection
	}
	out, err := e.combine(n, op, of, around)
	e.release(of, around)
	return out, err
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
	all, err := e.buffer(n, int(y1-y0))
	if err != nil {
		return nil, err
	}
	for y := y0; y < y1; y++ {
		all = append(all, Run{Y: y, X0: x0 - 1, X1: x1 + 1})
	}
	out, err := e.combine(n, Difference, all, mask)
	e.release(all)
	return out, err
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
		out, err := e.buffer(n, len(mask))
		if err != nil {
			return nil, err
		}
		for i, u := range mask {
			if i%setPiece == 0 {
				if err := e.spend(n, min(len(mask)-i, setPiece)); err != nil {
					return nil, err
				}
			}
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
