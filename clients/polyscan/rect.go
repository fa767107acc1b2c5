package main

// Rectangles of a picture.

import "math"

// rect holds the points from (x0, y0) up to (x1, y1).
type rect struct{ x0, y0, x1, y1 float64 }

func (r rect) empty() bool { return !(r.x0 < r.x1 && r.y0 < r.y1) }

func (r rect) and(s rect) rect {
	return rect{max(r.x0, s.x0), max(r.y0, s.y0), min(r.x1, s.x1), min(r.y1, s.y1)}
}

func (r rect) area() float64 {
	if r.empty() {
		return 0
	}
	return (r.x1 - r.x0) * (r.y1 - r.y0)
}

func (r rect) grow(d float64) rect { return rect{r.x0 - d, r.y0 - d, r.x1 + d, r.y1 + d} }

func (r rect) in(s rect) bool { return r.x0 >= s.x0 && r.y0 >= s.y0 && r.x1 <= s.x1 && r.y1 <= s.y1 }

func (r rect) centre() (x, y float64) { return (r.x0 + r.x1) / 2, (r.y0 + r.y1) / 2 }

// gap is the distance between two rectangles, 0 where they meet.
func (r rect) gap(s rect) float64 {
	return math.Hypot(max(r.x0-s.x1, s.x0-r.x1, 0), max(r.y0-s.y1, s.y0-r.y1, 0))
}

// nearest is the point of r closest to (x, y).
func (r rect) nearest(x, y float64) (float64, float64) {
	return min(max(x, r.x0), r.x1), min(max(y, r.y0), r.y1)
}
