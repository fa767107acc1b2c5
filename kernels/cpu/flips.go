// Flips: any triangulation made Delaunay.
//
// Sides of triangles are half-edges: that of triangle t from its corner k to the next is 3t+k. The one that goes the
// other way is found in a list of those that share a corner with it, the corner of the two that has fewer: of a planar
// graph those lists are short on average, however many edges meet in one corner (Chiba and Nishizeki, Arboricity and
// subgraph listing algorithms, 1985).
//
// A flip turns an edge within the places of its two triangles,
//
//	a→b, b→c, c→a and b→a, a→d, d→b become d→c, c→a, a→d and c→d, d→b, b→c,
//
// so that a neighbour can tell where the other half-edges move to from which edge the triangle turns. All flips of a
// round, no two of which have a triangle in common, are made at once without looking at what others write.

package cpu

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/polyscan/polyscan/kernels/driver"
)

const (
	flipStep  = 1 << 12 // triangles that a thread takes at a time
	unclaimed = ^uint64(0)
)

// flipping is a Flips in progress.
type flipping struct {
	points    []driver.Point
	triangles []driver.Triangle
	status    driver.FlipStatus
	round     int
	d         *device
	stop      *stopFlag

	twins []uint32 // of half-edges; noHalf on the border

	// While edges are matched.
	degrees []uint32 // of points: half-edges that start there
	starts  []uint32 // of points: where their list begins, and where the last one ends
	list    []uint32 // half-edges
	follows []uint32 // of points: where the border goes on from there
	leaving []uint32 // of points: half-edges of the border that start there

	// While edges are flipped.
	claims       []uint64 // of triangles: the least claim on them in a round; those of later rounds are less
	turned       []uint32 // of triangles: the half-edge that is turned in the round, or noHalf
	queued       []uint32 // of triangles: for which round they are in a list
	wrong        []uint8  // of active triangles: bit k is set where half-edge k is to be flipped
	active, next []uint32 // triangles with an edge that may have to be flipped, and those of the next round
	winners      []uint32 // half-edges that are turned in the round
}

func (f *flipping) plan(scratch []byte, n int) (end int64) {
	f.twins = carve[uint32](scratch, &end, 6*n)
	both := end
	f.degrees = carve[uint32](scratch, &end, n)
	f.starts = carve[uint32](scratch, &end, n+1)
	f.list = carve[uint32](scratch, &end, 6*n)
	f.follows = carve[uint32](scratch, &end, n)
	f.leaving = carve[uint32](scratch, &end, n)
	matched := end
	end = both
	f.claims = carve[uint64](scratch, &end, 2*n)
	f.turned = carve[uint32](scratch, &end, 2*n)
	f.queued = carve[uint32](scratch, &end, 2*n)
	f.active = carve[uint32](scratch, &end, 2*n)
	f.next = carve[uint32](scratch, &end, 2*n)
	f.winners = carve[uint32](scratch, &end, n)
	f.wrong = carve[uint8](scratch, &end, 2*n)
	return max(end, matched)
}

func flipsScratch(op *driver.Flips) int64 { return new(flipping).plan(nil, op.N) }

func (d *device) flips(op *driver.Flips, stop *stopFlag) error {
	f := &flipping{d: d, stop: stop, points: viewAs[driver.Point](op.Points),
		triangles: viewAs[driver.Triangle](op.Triangles)}
	counts := viewAs[driver.MeshCounts](op.Counts)
	status := viewAs[driver.FlipStatus](op.Status)
	scratch := view(op.Scratch)
	if int64(counts[0].Triangles) > int64(len(f.triangles)) {
		return fmt.Errorf("Counts.Triangles = %d: there is room for %d", counts[0].Triangles, len(f.triangles))
	}
	f.triangles = f.triangles[:counts[0].Triangles]
	if op.N > 0 {
		f.plan(scratch, op.N)
	}
	status[0] = driver.FlipStatus{}
	if len(f.triangles) == 0 {
		var err error
		status[0].Missing, err = f.missing(counts[0].Sites)
		return err
	}
	if err := f.match(counts[0].Sites); err != nil {
		return err
	}
	if f.status.Sound(len(f.triangles)) {
		if err := f.flip(op.Rounds); err != nil {
			return err
		}
	}
	err := f.steps(func(from, to int) int {
		for t := from; t < to; t++ {
			f.triangles[t] = leastFirst(f.triangles[t])
		}
		return 2 * (to - from)
	})
	status[0] = f.status
	return err
}

// missing is what Missing is without triangles.
func (f *flipping) missing(sites uint32) (uint32, error) {
	p := newPace(f.stop)
	var a, b *driver.Point
	for i := range f.points {
		switch c := &f.points[i]; {
		case a == nil:
			a = c
		case b == nil && *c != *a:
			b = c
		case b != nil && orient(*a, *b, *c) != 0:
			return sites, nil
		}
		if p.spend(3) {
			return 0, errAborted
		}
	}
	return 0, nil
}

// steps runs do on all triangles, on as many threads as there are.
func (f *flipping) steps(do func(from, to int) (ns int)) error {
	return f.d.pieces("Flips", (len(f.triangles)+flipStep-1)/flipStep, f.stop, func(i int) int {
		return do(i*flipStep, min((i+1)*flipStep, len(f.triangles)))
	})
}

func (f *flipping) corners(t uint32) [3]uint32 {
	v := &f.triangles[t]
	return [3]uint32{v.A, v.B, v.C}
}

// ends are the points where a half-edge starts and ends.
func (f *flipping) ends(h uint32) (from, to uint32) {
	c := f.corners(h / 3)
	return c[h%3], c[(h+1)%3]
}

// known reports whether the corners of a triangle are points.
func (f *flipping) known(c [3]uint32) bool {
	return uint64(max(c[0], c[1], c[2])) < uint64(len(f.points))
}

// match checks the mesh, and finds out which half-edges belong together.
func (f *flipping) match(sites uint32) error {
	p := newPace(f.stop)
	for _, v := range [][]uint32{f.degrees, f.starts, f.leaving} {
		if clear(v); p.spend(len(v) / 8) {
			return errAborted
		}
	}
	err := f.steps(func(from, to int) int {
		inverted := uint32(0)
		for t := from; t < to; t++ {
			c := f.corners(uint32(t))
			known := f.known(c)
			if !known || orient(f.points[c[0]], f.points[c[1]], f.points[c[2]]) <= 0 {
				inverted++
			}
			if known {
				for _, v := range c {
					atomic.AddUint32(&f.degrees[v], 1)
				}
			}
		}
		atomic.AddUint32(&f.status.Inverted, inverted)
		return 30 * (to - from)
	})
	if err != nil {
		return err
	}
	// Lists: their lengths, where they end, and from the end their members.
	if err := f.sides(func(_, keeper uint32) { atomic.AddUint32(&f.starts[keeper], 1) }); err != nil {
		return err
	}
	sum := uint32(0)
	for i, n := range f.starts {
		sum += n
		if f.starts[i] = sum; p.spend(1) {
			return errAborted
		}
	}
	if err := f.sides(func(h, keeper uint32) {
		f.list[atomic.AddUint32(&f.starts[keeper], ^uint32(0))] = h
	}); err != nil {
		return err
	}
	if err := f.sides(f.pair); err != nil {
		return err
	}
	err = f.sides(func(h, _ uint32) {
		if f.twins[h] == noHalf {
			f.turn(h)
		}
	})
	if err != nil || !f.status.Sound(len(f.triangles)) {
		return err
	}
	used := uint32(0)
	for _, n := range f.degrees {
		if n > 0 {
			used++
		}
		if p.spend(1) {
			return errAborted
		}
	}
	f.status.Missing = max(used, sites) - min(used, sites)
	return nil
}

// sides runs do on all half-edges between points, and the point in whose list each is to be.
func (f *flipping) sides(do func(h, keeper uint32)) error {
	return f.steps(func(from, to int) int {
		for t := from; t < to; t++ {
			c := f.corners(uint32(t))
			if !f.known(c) {
				continue
			}
			for k, a := range c {
				b := c[(k+1)%3]
				if f.degrees[b] < f.degrees[a] || f.degrees[b] == f.degrees[a] && b < a {
					a = b
				}
				do(uint32(3*t+k), a)
			}
		}
		return 50 * (to - from)
	})
}

// pair finds the twin of a half-edge.
func (f *flipping) pair(h, keeper uint32) {
	from, to := f.ends(h)
	same, twin := 0, noHalf
	for _, g := range f.list[f.starts[keeper]:f.starts[keeper+1]] {
		a, b := f.ends(g)
		if a == from && b == to {
			same++
		}
		if a == to && b == from {
			twin = g
		}
	}
	f.twins[h] = twin
	if same > 1 {
		atomic.AddUint32(&f.status.Double, 1)
	}
	if twin == noHalf {
		atomic.StoreUint32(&f.follows[from], to)
		atomic.AddUint32(&f.leaving[from], 1)
	}
}

// turn looks at the corner behind a half-edge of the border.
func (f *flipping) turn(h uint32) {
	from, to := f.ends(h)
	if f.leaving[to] != 1 {
		atomic.AddUint32(&f.status.Concave, 1)
		return
	}
	a, b, c := f.points[from], f.points[to], f.points[f.follows[to]]
	if o := orient(a, b, c); o < 0 || o == 0 && rightward(a, b) != rightward(b, c) {
		atomic.AddUint32(&f.status.Concave, 1)
	}
	if !rightward(a, b) && rightward(b, c) {
		atomic.AddUint32(&f.status.Rings, 1)
	}
}

// rightward tells one half of all directions from the other.
func rightward(a, b driver.Point) bool { return before(a, b) }

// ahead and behind are the half-edges next to one in its triangle.
func ahead(h uint32) uint32 {
	if h%3 == 2 {
		return h - 2
	}
	return h + 1
}

func behind(h uint32) uint32 {
	if h%3 == 0 {
		return h + 2
	}
	return h - 1
}

// claim is what an edge, by one of its half-edges, has a triangle by in a round.
func (f *flipping) claim(h, g uint32) uint64 {
	x := min(h, g)
	// A permutation of 32 bits, so that claims differ (Wellons, Prospecting for hash functions, 2018): without it, rows
	// of edges would flip one after the other.
	x ^= x >> 16
	x *= 0x7feb352d
	x ^= x >> 15
	x *= 0x846ca68b
	x ^= x >> 16
	return uint64(driver.MaxFlipRounds-f.round)<<32 | uint64(x)
}

// violates reports whether an edge is to be flipped.
func (f *flipping) violates(h, g uint32) bool {
	a, b := f.ends(h)
	c, _ := f.ends(behind(h))
	d, _ := f.ends(behind(g))
	return inCircle(f.points[a], f.points[b], f.points[c], f.points[d])
}

// flip flips edges until none is wrong, or the rounds are used up.
func (f *flipping) flip(rounds int) error {
	err := f.steps(func(from, to int) int {
		for t := from; t < to; t++ {
			f.claims[t], f.turned[t], f.queued[t], f.active[t] = unclaimed, noHalf, 0, uint32(t)
		}
		return 4 * (to - from)
	})
	if err != nil {
		return err
	}
	active := f.active[:len(f.triangles)]
	for {
		var wrong, waiting, winners atomic.Uint32
		// Claim the triangles on either side of edges that are wrong.
		err := f.each(active, func(t uint32) {
			f.turned[t], f.wrong[t] = noHalf, 0
			for h := 3 * t; h < 3*t+3; h++ {
				g := f.twins[h]
				// or looked at from the other side
				if g == noHalf || g < h && f.queued[g/3] == uint32(f.round) || !f.violates(h, g) {
					continue
				}
				f.wrong[t] |= 1 << (h % 3)
				claimLeast(&f.claims[t], f.claim(h, g))
				claimLeast(&f.claims[g/3], f.claim(h, g))
				wrong.Add(1)
			}
		})
		if err != nil || wrong.Load() == 0 {
			return err
		}
		if f.round == rounds {
			f.status.Left = wrong.Load()
			return nil
		}
		// Edges that have both of them are turned. The triangles of all that are wrong are in the next round.
		enqueue := func(t uint32) {
			if atomic.SwapUint32(&f.queued[t], uint32(f.round+1)) != uint32(f.round+1) {
				f.next[waiting.Add(1)-1] = t
			}
		}
		err = f.each(active, func(t uint32) {
			for h := 3 * t; h < 3*t+3; h++ {
				if f.wrong[t]>>(h%3)&1 == 0 {
					continue
				}
				g := f.twins[h]
				if key := f.claim(h, g); f.claims[t] == key && f.claims[g/3] == key {
					f.turned[t], f.turned[g/3] = h, g
					f.winners[winners.Add(1)-1] = h
					enqueue(g / 3)
				}
				enqueue(t)
			}
		})
		if err != nil {
			return err
		}
		n := winners.Load()
		if n == 0 {
			return errors.New("no edge has the least claim") // can't be: the one with the least of all has it
		}
		if err := f.each(f.winners[:n], f.turnEdge); err != nil {
			return err
		}
		f.round++
		f.status.Rounds++
		f.status.Flips += n
		f.active, f.next = f.next, f.active
		active = f.active[:waiting.Load()]
	}
}

// each runs do on the members of a list, on as many threads as there are.
func (f *flipping) each(list []uint32, do func(uint32)) error {
	return f.d.pieces("Flips", (len(list)+flipStep-1)/flipStep, f.stop, func(i int) int {
		part := list[i*flipStep : min((i+1)*flipStep, len(list))]
		for _, t := range part {
			do(t)
		}
		return 100 * len(part)
	})
}

// turnEdge makes the flip of a half-edge and its twin.
func (f *flipping) turnEdge(h uint32) {
	g := f.twins[h]
	t, u := h/3, g/3
	a, b := f.ends(h)
	c, _ := f.ends(behind(h))
	d, _ := f.ends(behind(g))
	from := [4]uint32{ahead(h), behind(h), ahead(g), behind(g)}
	to := [4]uint32{behind(g), ahead(h), behind(h), ahead(g)}
	var twins [4]uint32
	for i, x := range from {
		twins[i] = f.twins[x]
	}
	f.setEnds(t, h, [3]uint32{d, c, a})
	f.setEnds(u, g, [3]uint32{c, d, b})
	for i, x := range to {
		w := twins[i]
		if w == noHalf {
			f.twins[x] = noHalf
			continue
		}
		switch s := f.turned[w/3]; {
		case s == noHalf:
			f.twins[w] = x
		case w == ahead(s):
			w = behind(f.twins[s])
		default:
			w = ahead(s)
		}
		f.twins[x] = w
	}
}

// setEnds sets the corners of a triangle from the start of a half-edge on.
func (f *flipping) setEnds(t, h uint32, c [3]uint32) {
	k := 3 - h%3
	f.triangles[t] = driver.Triangle{A: c[k%3], B: c[(k+1)%3], C: c[(k+2)%3]}
}

// claimLeast stores v where it is less.
func claimLeast(p *uint64, v uint64) {
	for old := atomic.LoadUint64(p); v < old && !atomic.CompareAndSwapUint64(p, old, v); {
		old = atomic.LoadUint64(p)
	}
}
