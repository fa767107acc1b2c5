// The oracles of the ops that make a triangulation of a Voronoi diagram.

package devicetest

import (
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Reassign does what [driver.Islands] says to the labels, in sweeps over all pixels, and returns how many lost theirs.
func Reassign(sites []driver.Point, labels []uint32, width, height int) int {
	around := func(p int) (near []int) {
		for dy := -1; dy <= 1; dy++ {
			for dx := -1; dx <= 1; dx++ {
				if x, y := p%width+dx, p/width+dy; (dx != 0 || dy != 0) && x >= 0 && x < width && y >= 0 && y < height {
					near = append(near, y*width+x)
				}
			}
		}
		return near
	}
	far := func(l uint32, p int) int64 { return squared(sites[l], p%width, p/width) }
	reached := make([]bool, len(labels))
	reach := func(p int) bool {
		l := labels[p]
		if reached[p] || int64(l) >= int64(len(sites)) {
			return false
		}
		reached[p] = far(l, p) == 0 || slices.ContainsFunc(around(p), func(q int) bool {
			return reached[q] && labels[q] == l && far(l, q) < far(l, p)
		})
		return reached[p]
	}
	for again := true; again; { // there and back, so that few sweeps are enough
		again = false
		for p := range labels {
			again = reach(p) || again
		}
		for p := range labels {
			again = reach(len(labels)-1-p) || again
		}
	}
	n := 0
	for p := range labels {
		if !reached[p] {
			labels[p] = driver.NoSite
			n++
		}
	}
	for again := n > 0; again; {
		again = false
		before := slices.Clone(labels)
		for p := range labels {
			if before[p] != driver.NoSite {
				continue
			}
			for _, q := range around(p) {
				l, best := before[q], labels[p]
				if l == driver.NoSite {
					continue
				}
				if best == driver.NoSite || far(l, p) < far(best, p) || far(l, p) == far(best, p) && l < best {
					labels[p] = l
					again = true
				}
			}
		}
	}
	return n
}

// Dual finds the triangles that [driver.DualTriangles] asks for, and the sites that have a pixel.
func Dual(sites []driver.Point, labels []uint32, width, height int) (triangles []driver.Triangle, used int) {
	for i, s := range sites {
		if labels[int(s.Y)*width+int(s.X)] == uint32(i) {
			used++
		}
	}
	right := func(a, b, c uint32) bool { return turnOf(sites[a], sites[b], sites[c]) > 0 }
	for y := range height - 1 {
		for x := range width - 1 {
			p := y*width + x
			ring := []uint32{labels[p], labels[p+1], labels[p+1+width], labels[p+width]}
			if int64(slices.Max(ring)) >= int64(len(sites)) {
				continue
			}
			colours := slices.Compact(slices.Sorted(slices.Values(ring)))
			a, b, c, d := ring[0], ring[1], ring[2], ring[3]
			switch {
			case len(colours) == 3 && a != c && b != d:
				ring = slices.Compact(ring)
				triangles = append(triangles, startLeast(ring[0], ring[1], ring[2]))
			case len(colours) == 4:
				other := right(a, b, d) && right(b, c, d)
				if other && right(a, b, c) && right(a, c, d) {
					other = violates(sites[a], sites[c], sites[d], sites[b])
				}
				if other {
					triangles = append(triangles, startLeast(a, b, d), startLeast(b, c, d))
				} else {
					triangles = append(triangles, startLeast(a, b, c), startLeast(a, c, d))
				}
			}
		}
	}
	return triangles, used
}

// startLeast is a triangle of corners, of which the least comes first.
func startLeast(corners ...uint32) driver.Triangle {
	for corners[0] != slices.Min(corners) {
		corners = append(corners[1:], corners[0])
	}
	return driver.Triangle{A: corners[0], B: corners[1], C: corners[2]}
}

// Complete finds the triangles between a mesh and its hull, and the edges around the mesh before and after.
func Complete(sites []driver.Point, labels []uint32, width, height int) (triangles []driver.Triangle, border,
	hull int) {
	var chains [4][]uint32
	for k := range chains {
		var side []uint32
		for p, l := range labels {
			if x, y := p%width, p/width; [4]bool{y == 0, x == width-1, y == height-1, x == 0}[k] &&
				int64(l) < int64(len(sites)) {
				side = append(side, l)
			}
		}
		if k >= 2 {
			slices.Reverse(side)
		}
		chains[k] = slices.Compact(side)
		border += max(len(chains[k])-1, 0)
	}
	back := func(c []uint32, i int) bool { return turnOf(sites[c[i-1]], sites[c[i]], sites[c[i+1]]) < 0 }
	cut := func(c []uint32, i int) []uint32 {
		triangles = append(triangles, startLeast(c[i-1], c[i+1], c[i]))
		return slices.Delete(c, i, i+1)
	}
	for k, c := range chains {
		for i := 1; i+1 < len(c); i++ {
			if back(c, i) {
				c = cut(c, i)
				i = 0 // from the start
			}
		}
		chains[k] = c
	}
	for k := range chains {
		a, b := &chains[k], &chains[(k+1)%4]
		for len(*b) > 1 {
			longer := append(slices.Clone(*a), (*b)[1])
			n := len(longer)
			for len(longer) > 2 && back(longer, len(longer)-2) {
				longer = cut(longer, len(longer)-2)
			}
			if len(longer) == n {
				break
			}
			*a, *b = longer, (*b)[1:]
		}
	}
	for _, c := range chains {
		hull += max(len(c)-1, 0)
	}
	return triangles, border, hull
}

// MeshFlaws fills the fields of a [driver.FlipStatus] from Inverted on.
func MeshFlaws(points []driver.Point, triangles []driver.Triangle, sites int) (s driver.FlipStatus) {
	sides, corners := map[[2]uint32]int{}, map[uint32]bool{}
	for _, t := range triangles {
		known := int64(max(t.A, t.B, t.C)) < int64(len(points))
		if !known || turnOf(points[t.A], points[t.B], points[t.C]) <= 0 {
			s.Inverted++
		}
		if known {
			for _, e := range [][2]uint32{{t.A, t.B}, {t.B, t.C}, {t.C, t.A}} {
				sides[e]++
				corners[e[0]] = true
			}
		}
	}
	border := map[[2]uint32]int{}
	leaving := map[uint32][]uint32{}
	for e, n := range sides {
		if n > 1 {
			s.Double += uint32(n)
		}
		if sides[[2]uint32{e[1], e[0]}] == 0 {
			border[e] = n
			for range n {
				leaving[e[0]] = append(leaving[e[0]], e[1])
			}
		}
	}
	up := func(a, b driver.Point) bool { return orderPoints(a, b) < 0 }
	for e, n := range border {
		on := leaving[e[1]]
		if len(on) != 1 {
			s.Concave += uint32(n)
			continue
		}
		a, b, c := points[e[0]], points[e[1]], points[on[0]]
		if turn := turnOf(a, b, c); turn < 0 || turn == 0 && up(a, b) != up(b, c) {
			s.Concave += uint32(n)
		}
		if !up(a, b) && up(b, c) {
			s.Rings += uint32(n)
		}
	}
	if len(triangles) == 0 {
		for i := range points {
			for j := range i {
				if turnOf(points[0], points[j], points[i]) != 0 {
					s.Missing = uint32(sites)
				}
			}
		}
		return s
	}
	if s.Sound(len(triangles)) {
		s.Missing = uint32(max(sites, len(corners)) - min(sites, len(corners)))
	}
	return s
}

// Sweep triangulates points, far from Delaunay: in the order of x, then y, each is joined to what it sees of those
// before it.
func Sweep(points []driver.Point) (triangles []driver.Triangle, distinct int) {
	order := make([]uint32, len(points))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return orderPoints(points[a], points[b]) })
	order = slices.CompactFunc(order, func(a, b uint32) bool { return points[a] == points[b] })
	var chains [2][]uint32
	for _, p := range order {
		for k, c := range chains {
			for n := len(c); n > 1; n-- {
				turn := turnOf(points[c[n-2]], points[c[n-1]], points[p])
				if turn == 0 || (turn > 0) != (k == 0) {
					break
				}
				t := startLeast(c[n-2], c[n-1], p)
				if k == 1 {
					t = startLeast(c[n-2], p, c[n-1])
				}
				triangles = append(triangles, t)
				c = c[:n-1]
			}
			chains[k] = append(c, p)
		}
	}
	return triangles, len(order)
}
