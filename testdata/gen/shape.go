// shape.go describes outlines as signed distances: negative inside, positive outside, in pixels. Coverage, bevels,
// outlines and shadows all follow from the distance, anti-aliased.

package main

import "math"

// pt is a point in pixels.
type pt struct{ x, y fix }

// p makes a point of two literals.
func p(x, y float64) pt { return pt{q(x), q(y)} }

// shape is a signed distance with the box outside of which it is positive.
type shape struct {
	d              func(x, y fix) fix
	x0, y0, x1, y1 fix
}

func disc(c pt, r fix) shape {
	return shape{func(x, y fix) fix { return hypot(x-c.x, y-c.y) - r }, c.x - r, c.y - r, c.x + r, c.y + r}
}

// box is a rectangle of half width hw and half height hh with corners rounded by r.
func box(c pt, hw, hh, r fix) shape {
	return shape{func(x, y fix) fix {
		dx, dy := abs(x-c.x)-hw+r, abs(y-c.y)-hh+r
		return min(max(dx, dy), 0) + hypot(max(dx, 0), max(dy, 0)) - r
	}, c.x - hw, c.y - hh, c.x + hw, c.y + hh}
}

// line is a segment drawn with a round pen of half width r.
func line(a, b pt, r fix) shape {
	vx, vy := b.x-a.x, b.y-a.y
	n := mul(vx, vx) + mul(vy, vy)
	return shape{func(x, y fix) fix {
		wx, wy := x-a.x, y-a.y
		if n == 0 {
			return hypot(wx, wy) - r
		}
		t := clamp(div(mul(wx, vx)+mul(wy, vy), n), 0, one)
		return hypot(wx-mul(vx, t), wy-mul(vy, t)) - r
	}, min(a.x, b.x) - r, min(a.y, b.y) - r, max(a.x, b.x) + r, max(a.y, b.y) + r}
}

// path is a chain of segments drawn with a round pen of half width r.
func path(pts []pt, r fix) shape {
	s := line(pts[0], pts[0], r)
	for i := range len(pts) - 1 {
		s = union(s, line(pts[i], pts[i+1], r))
	}
	return s
}

// poly is a simple closed polygon.
func poly(pts []pt) shape {
	s := shape{x0: math.MaxInt64, y0: math.MaxInt64, x1: math.MinInt64, y1: math.MinInt64}
	for _, v := range pts {
		s.x0, s.y0, s.x1, s.y1 = min(s.x0, v.x), min(s.y0, v.y), max(s.x1, v.x), max(s.y1, v.y)
	}
	edges := make([]shape, len(pts))
	for i := range pts {
		edges[i] = line(pts[i], pts[(i+1)%len(pts)], 0)
	}
	s.d = func(x, y fix) fix {
		d, in := fix(math.MaxInt64), false
		for i, a := range pts {
			b := pts[(i+1)%len(pts)]
			d = min(d, edges[i].d(x, y))
			if (a.y <= y) != (b.y <= y) && x < a.x+mul(div(y-a.y, b.y-a.y), b.x-a.x) {
				in = !in
			}
		}
		if in {
			return -d
		}
		return d
	}
	return s
}

func union(a, b shape) shape {
	return shape{func(x, y fix) fix { return min(a.d(x, y), b.d(x, y)) },
		min(a.x0, b.x0), min(a.y0, b.y0), max(a.x1, b.x1), max(a.y1, b.y1)}
}

// cut is a without b.
func cut(a, b shape) shape {
	return shape{func(x, y fix) fix { return max(a.d(x, y), -b.d(x, y)) }, a.x0, a.y0, a.x1, a.y1}
}

// outline is the line of half width r along the border of s.
func outline(s shape, r fix) shape {
	return shape{func(x, y fix) fix { return abs(s.d(x, y)) - r }, s.x0 - r, s.y0 - r, s.x1 + r, s.y1 + r}
}

// turned is s rotated about c by an angle in turns, clockwise on the screen.
func turned(s shape, c pt, turns fix) shape {
	sn, cs := sin(turns), cos(turns)
	var r fix
	for _, v := range [4]pt{{s.x0, s.y0}, {s.x1, s.y0}, {s.x0, s.y1}, {s.x1, s.y1}} {
		r = max(r, hypot(v.x-c.x, v.y-c.y))
	}
	return shape{func(x, y fix) fix {
		dx, dy := x-c.x, y-c.y
		return s.d(c.x+mul(dx, cs)+mul(dy, sn), c.y+mul(dy, cs)-mul(dx, sn))
	}, c.x - r, c.y - r, c.x + r, c.y + r}
}
