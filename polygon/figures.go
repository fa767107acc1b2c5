// Circles, rings, sectors and rectangles: their pixels, from the definitions in integers.

package polygon

import (
	"math"

	"github.com/polyscan/polyscan/kernels/driver"
)

// figure is the pixels of a circle, a ring, a sector or a rectangle after a map, which takes centres and radii to
// others; these are rounded to the grid once.
func (e *shaper) figure(n *shapeNode, m affine) ([]Run, error) {
	if n.op == shapeRect {
		return e.rect(n, m)
	}
	factor, ok := m.similar()
	if !ok {
		return nil, wrong(n, "a circle stays one only by a map that changes all lengths by the same factor")
	}
	x, y, err := onGrid(n, m, n.nums[0], n.nums[1])
	if err != nil {
		return nil, err
	}
	radius := func(v float64) (int64, error) {
		if v *= factor; !(v < maxCoordinate) {
			return 0, wrong(n, "the radius comes to %v: must be less than %d px", v, maxCoordinate)
		}
		return int64(quantise(v)), nil
	}
	outer, err := radius(n.nums[len(n.nums)-1])
	if n.op != shapeCircle {
		outer, err = radius(n.nums[3])
	}
	if err != nil {
		return nil, err
	}
	out, err := e.disc(n, x, y, outer)
	if err != nil || n.op == shapeCircle {
		return out, err
	}
	inner, err := radius(n.nums[2])
	if err != nil {
		return nil, err
	}
	hole, err := e.disc(n, x, y, inner)
	if err != nil {
		return nil, err
	}
	ring, err := e.combine(n, Difference, out, hole)
	e.release(out, hole)
	if err != nil || n.op == shapeRing {
		return ring, err
	}
	return e.sector(n, m, x, y, ring)
}

// onGrid is where a point goes, rounded.
func onGrid(n *shapeNode, m affine, x, y float64) (int64, int64, error) {
	if m != identity {
		x, y = m.to(x, y)
	}
	if !(math.Abs(x) < maxCoordinate && math.Abs(y) < maxCoordinate) {
		return 0, 0, wrong(n, "a point comes to (%v, %v): must be less than %d px from 0", x, y, maxCoordinate)
	}
	return int64(quantise(x)), int64(quantise(y)), nil
}

// disc is the pixels whose centres are less than r from (x, y), in 1/256 px.
func (e *shaper) disc(n *shapeNode, x, y, r int64) ([]Run, error) {
	if x-r <= -driver.MaxCoord || x+r >= driver.MaxCoord || y-r <= -driver.MaxCoord || y+r >= driver.MaxCoord {
		return nil, wrong(n, "the circle reaches beyond %d px from 0", maxCoordinate)
	}
	return e.rows(n, y-r, y+r+1, func(yc int64) (lo, hi int64) {
		rest := r*r - (yc-y)*(yc-y)
		if rest <= 0 {
			return 0, -1
		}
		w := int64(isqrt(uint64(rest - 1)))
		return x - w, x + w
	})
}

// rows makes runs of the pixels in rows with centres in [y0, y1) whose centres have x in [lo, hi], all in 1/256 px.
func (e *shaper) rows(n *shapeNode, y0, y1 int64, of func(yc int64) (lo, hi int64)) ([]Run, error) {
	from, to := firstCentre(int32(y0)), firstCentre(int32(y1))
	if to-from > e.most {
		return nil, wrong(n, "%d rows of pixels are too many: the limit is %d", to-from, e.most)
	}
	if int64(to-from) > e.steps { // before any is looked at
		return nil, e.spend(n, to-from)
	}
	out, err := e.buffer(n, to-from)
	if err != nil {
		return nil, err
	}
	for y := from; y < to; y++ {
		if (y-from)%setPiece == 0 {
			if err := e.spend(n, min(to-y, setPiece)); err != nil {
				return nil, err
			}
		}
		lo, hi := of(centre(y))
		if x0, x1 := firstCentre(int32(lo)), firstCentre(int32(hi+1)); x0 < x1 {
			out = append(out, Run{Y: int32(y), X0: int32(x0), X1: int32(x1)})
		}
	}
	return out, nil
}

// directionBits: directions are pairs of integers, of a length of 2^directionBits.
const directionBits = 29

type direction struct{ x, y int64 }

// sector cuts a ring around (x, y) to the directions from one to another.
func (e *shaper) sector(n *shapeNode, m affine, x, y int64, ring []Run) ([]Run, error) {
	from, to := n.nums[4], n.nums[5]
	if to-from == 360 {
		return ring, nil
	}
	pieces := int(math.Ceil((to - from) / 90)) // of less than half a turn, so that two half planes make each
	ends := make([]direction, pieces+1)
	for i := range ends {
		sin, cos := sinCos(from + (to-from)*float64(i)/float64(pieces))
		dx, dy := float64(m.a*cos)+float64(m.b*sin), float64(m.d*cos)+float64(m.e*sin)
		size := math.Hypot(dx, dy)
		ends[i] = direction{int64(math.RoundToEven(dx / size * (1 << directionBits))),
			int64(math.RoundToEven(dy / size * (1 << directionBits)))}
	}
	flip := int64(1)
	if m.a*m.e-m.b*m.d < 0 { // mirrored: in a picture with y upwards it turns the same way as before
		flip = -1
		for i := range ends {
			ends[i].y = -ends[i].y
		}
	}
	defer e.release(ring)
	return e.union(n, pieces, func(i int) ([]Run, error) {
		a, b := ends[i], ends[i+1]
		out, err := e.buffer(n, len(ring))
		if err != nil {
			return nil, err
		}
		for k, u := range ring {
			if k%setPiece == 0 {
				if err := e.spend(n, min(len(ring)-k, setPiece)); err != nil {
					return nil, err
				}
			}
			py := flip * (centre(int(u.Y)) - y)
			lo, hi := int64(-1<<40), int64(1<<40)
			// a.x py - a.y px >= 0
			switch {
			case a.y > 0:
				q, _ := floorDiv(a.x*py, a.y)
				hi = min(hi, q)
			case a.y < 0:
				q, _ := floorDiv(a.x*py, -a.y)
				lo = max(lo, -q)
			case a.x*py < 0:
				continue
			}
			// b.x py - b.y px < 0
			switch {
			case b.y > 0:
				q, _ := floorDiv(b.x*py, b.y)
				lo = max(lo, q+1)
			case b.y < 0:
				q, _ := floorDiv(b.x*py, -b.y)
				hi = min(hi, -q-1)
			case b.x*py >= 0:
				continue
			}
			x0 := max(int64(u.X0), (x+lo-driver.Subpixel/2+driver.Subpixel-1)>>driver.SubpixelBits)
			x1 := min(int64(u.X1), (x+hi+1-driver.Subpixel/2+driver.Subpixel-1)>>driver.SubpixelBits)
			if x0 < x1 {
				out = append(out, Run{Y: u.Y, X0: int32(x0), X1: int32(x1)})
			}
		}
		return out, nil
	})
}

// rect is the pixels of a rectangle, whose corners may be round.
func (e *shaper) rect(n *shapeNode, m affine) ([]Run, error) {
	left, top, right, bottom, round := n.nums[0], n.nums[1], n.nums[2], n.nums[3], 0.0
	if len(n.nums) == 5 {
		round = n.nums[4]
	}
	factor, similar := m.similar()
	straight := m.b == 0 && m.d == 0 || m.a == 0 && m.e == 0
	if round > 0 && !similar {
		return nil, wrong(n, "a round corner stays one only by a map that changes all lengths by the same factor")
	}
	if !straight {
		return e.slanted(n, m, round)
	}
	x0, y0, err := onGrid(n, m, left, top)
	if err != nil {
		return nil, err
	}
	x1, y1, err := onGrid(n, m, right, bottom)
	if err != nil {
		return nil, err
	}
	x0, x1 = min(x0, x1), max(x0, x1)
	y0, y1 = min(y0, y1), max(y0, y1)
	r := min(int64(quantise(round*factor)), (x1-x0)/2, (y1-y0)/2)
	return e.rows(n, y0, y1, func(yc int64) (lo, hi int64) {
		lo, hi = x0, x1-1
		if dy := max(y0+r-yc, yc-(y1-r)); dy > 0 {
			w := int64(0)
			if rest := r*r - dy*dy; rest > 0 {
				w = int64(isqrt(uint64(rest - 1)))
			}
			lo, hi = max(lo, x0+r-w), min(hi, x1-r+w)
		}
		return lo, hi
	})
}

// slanted is a rectangle that is turned: polygons, and discs at its corners.
func (e *shaper) slanted(n *shapeNode, m affine, r float64) ([]Run, error) {
	x0, y0, x1, y1 := n.nums[0], n.nums[1], n.nums[2], n.nums[3]
	box := func(x0, y0, x1, y1 float64) Ring { return Ring{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}} }
	rings := []Ring{box(x0, y0, x1, y1)}
	if r > 0 {
		rings = []Ring{box(x0+r, y0, x1-r, y1), box(x0, y0+r, x1, y1-r)}
	}
	corners := [][2]float64{{x0 + r, y0 + r}, {x1 - r, y0 + r}, {x1 - r, y1 - r}, {x0 + r, y1 - r}}
	if r == 0 {
		corners = nil
	}
	return e.union(n, len(rings)+len(corners), func(i int) ([]Run, error) {
		if i >= len(rings) {
			c := corners[i-len(rings)]
			return e.figure(&shapeNode{op: shapeCircle, at: n.at, nums: []float64{c[0], c[1], r}}, m)
		}
		return e.inside(n, len(rings[i]), driver.NonZero, func(edges []driver.Edge) ([]driver.Edge, error) {
			return e.appendRing(edges, n, rings[i], m)
		})
	})
}
