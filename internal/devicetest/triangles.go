// The oracle and the checker of triangulations.

package devicetest

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// MaxOraclePoints is how many points [Delaunay] takes: its work grows with their fourth power.
const MaxOraclePoints = 40

// Delaunay finds the triangles that [driver.Triangulate] asks for by their definition: every three points, in the right
// orientation, such that no other lies inside their circumcircle, where a point on the circle is inside if the fan
// around the first of those on the circle says so. It knows nothing of meshes.
func Delaunay(points []driver.Point) []driver.Triangle {
	if len(points) > MaxOraclePoints {
		panic(fmt.Sprintf("devicetest: Delaunay of %d points: takes %d at most", len(points), MaxOraclePoints))
	}
	var distinct []int
	for i, p := range points {
		if !slices.Contains(points[:i], p) {
			distinct = append(distinct, i)
		}
	}
	var out []driver.Triangle
	for i, a := range distinct {
		for j, b := range distinct[i+1:] {
			for _, c := range distinct[i+1+j+1:] {
				t := [3]int{a, b, c}
				switch turnOf(points[a], points[b], points[c]) {
				case 0:
					continue
				case -1:
					t = [3]int{a, c, b}
				}
				if isDelaunay(points, distinct, t) {
					out = append(out, driver.Triangle{A: uint32(t[0]), B: uint32(t[1]), C: uint32(t[2])})
				}
			}
		}
	}
	return out
}

// isDelaunay is Delaunay for one triangle.
func isDelaunay(points []driver.Point, distinct []int, t [3]int) bool {
	circle := []int{t[0], t[1], t[2]} // the points on it
	for _, d := range distinct {
		if d == t[0] || d == t[1] || d == t[2] {
			continue
		}
		switch insideCircle(points[t[0]], points[t[1]], points[t[2]], points[d]) {
		case 1:
			return false
		case 0:
			circle = append(circle, d)
		}
	}
	if len(circle) == 3 {
		return true
	}
	// The fan: triangles of the first point and two that follow each other around the circle.
	slices.SortFunc(circle, func(a, b int) int { return orderPoints(points[a], points[b]) })
	first := circle[0]
	rest := circle[1:]
	slices.SortFunc(rest, func(a, b int) int { return -turnOf(points[first], points[a], points[b]) })
	for i := range len(rest) - 1 {
		if fan := []int{first, rest[i], rest[i+1]}; slices.Contains(fan, t[0]) && slices.Contains(fan, t[1]) &&
			slices.Contains(fan, t[2]) {
			return true
		}
	}
	return false
}

func orderPoints(a, b driver.Point) int { return cmp.Or(cmp.Compare(a.X, b.X), cmp.Compare(a.Y, b.Y)) }

// turnOf is the sign of (b-a) x (c-a). Coordinates up to driver.MaxPoint fit in int64.
func turnOf(a, b, c driver.Point) int {
	ux, uy := int64(b.X)-int64(a.X), int64(b.Y)-int64(a.Y)
	vx, vy := int64(c.X)-int64(a.X), int64(c.Y)-int64(a.Y)
	return cmp.Compare(ux*vy, uy*vx)
}

// insideCircle is 1 where q is inside the circle through a, b and c, which turn from x to y, 0 on it, -1 outside.
func insideCircle(a, b, c, q driver.Point) int {
	const near = 1 << 13 // so that the terms of the determinant stay below 2^58
	var m [3][3]int64
	for i, p := range [3]driver.Point{a, b, c} {
		x, y := int64(p.X)-int64(q.X), int64(p.Y)-int64(q.Y)
		if max(x, -x, y, -y) > near {
			return insideCircleBig(a, b, c, q)
		}
		m[i] = [3]int64{x, y, x*x + y*y}
	}
	det := int64(0)
	for i := range 3 {
		j, k := (i+1)%3, (i+2)%3
		det += m[0][i] * (m[1][j]*m[2][k] - m[1][k]*m[2][j])
	}
	return cmp.Compare(det, 0)
}

// insideCircleBig is insideCircle for any coordinates. It compares squared distances to the centre, as fractions: the
// centre is a + (ux, uy)/d.
func insideCircleBig(a, b, c, q driver.Point) int {
	sub := func(p driver.Point) (x, y *big.Int) {
		return big.NewInt(int64(p.X) - int64(a.X)), big.NewInt(int64(p.Y) - int64(a.Y))
	}
	mul := func(x, y *big.Int) *big.Int { return new(big.Int).Mul(x, y) }
	norm := func(x, y *big.Int) *big.Int { return new(big.Int).Add(mul(x, x), mul(y, y)) }
	bx, by := sub(b)
	cx, cy := sub(c)
	qx, qy := sub(q)
	d := new(big.Int).Sub(mul(bx, cy), mul(by, cx))
	d.Lsh(d, 1)
	ux := new(big.Int).Sub(mul(cy, norm(bx, by)), mul(by, norm(cx, cy)))
	uy := new(big.Int).Sub(mul(bx, norm(cx, cy)), mul(cx, norm(bx, by)))
	radius := norm(ux, uy)
	distance := norm(new(big.Int).Sub(mul(qx, d), ux), new(big.Int).Sub(mul(qy, d), uy))
	return radius.Cmp(distance)
}

// CheckTriangles returns what is wrong with a triangulation of the points, and nil where it is what
// [driver.Triangulate] asks for. That set is unique, and these tell it from any other: triangles start with their least
// index and turn the right way; no edge has two triangles on one side; each edge between two triangles is locally
// Delaunay, ties decided by the fan; each distinct point is a corner, by the least of its indices; Euler's formula
// holds; and the area is that of the convex hull.
func CheckTriangles(points []driver.Point, triangles []driver.Triangle) error {
	order := make([]int, len(points))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(orderPoints(points[a], points[b]), cmp.Compare(a, b)) })
	var hull []int
	distinct := make([]bool, len(points))
	n := 0
	for k, i := range order {
		if k == 0 || points[i] != points[order[k-1]] {
			distinct[i] = true
			order[n] = i
			n++
		}
	}
	order = order[:n]
	for range 2 { // Andrew's chain, there and back
		from := len(hull)
		for _, i := range order {
			for len(hull) >= from+2 && turnOf(points[hull[len(hull)-2]], points[hull[len(hull)-1]], points[i]) <= 0 {
				hull = hull[:len(hull)-1]
			}
			hull = append(hull, i)
		}
		if len(hull) > from {
			hull = hull[:len(hull)-1]
		}
		slices.Reverse(order)
	}
	if len(hull) < 3 {
		if len(triangles) != 0 {
			return fmt.Errorf("%d triangles over points on a line", len(triangles))
		}
		return nil
	}

	type side struct { // of an edge, as one triangle sees it
		edge   uint64 // the lesser index, the greater one
		turned bool   // the triangle goes from the greater to the lesser
		third  uint32 // corner of the triangle
	}
	sides := make([]side, 0, 3*len(triangles))
	used := make([]bool, len(points))
	area := new(big.Int)
	for i, t := range triangles {
		for _, v := range [3]uint32{t.A, t.B, t.C} {
			if int(v) >= len(points) || !distinct[v] {
				return fmt.Errorf("triangle %d, %v: %d is no point, or one that a lesser index has", i, t, v)
			}
			used[v] = true
		}
		if t.A > t.B || t.A > t.C || turnOf(points[t.A], points[t.B], points[t.C]) <= 0 {
			return fmt.Errorf("triangle %d, %v: turns the wrong way, or starts with the wrong point", i, t)
		}
		for _, e := range [3][3]uint32{{t.A, t.B, t.C}, {t.B, t.C, t.A}, {t.C, t.A, t.B}} {
			lo, hi := min(e[0], e[1]), max(e[0], e[1])
			sides = append(sides, side{uint64(lo)<<32 | uint64(hi), lo != e[0], e[2]})
		}
		area.Add(area, doubleArea(points[t.A], points[t.B], points[t.C]))
	}
	border := 0
	slices.SortFunc(sides, func(a, b side) int { return cmp.Compare(a.edge, b.edge) })
	for len(sides) > 0 {
		s := sides[0]
		a, b := points[s.edge>>32], points[uint32(s.edge)]
		n := 1
		for n < len(sides) && sides[n].edge == s.edge {
			n++
		}
		switch {
		case n == 1:
			border++
		case n > 2 || s.turned == sides[1].turned:
			return fmt.Errorf("%d triangles, or two on the same side, are at the edge from %v to %v", n, a, b)
		default:
			if s.turned {
				a, b = b, a
			}
			if c, d := points[s.third], points[sides[1].third]; violates(a, b, c, d) {
				return fmt.Errorf("the edge from %v to %v is not Delaunay between %v and %v", a, b, c, d)
			}
		}
		sides = sides[n:]
	}
	for i := range points {
		if distinct[i] && !used[i] {
			return fmt.Errorf("point %d, %v, is not a corner of any triangle", i, points[i])
		}
	}
	if want := 2*n - 2 - border; len(triangles) != want {
		return fmt.Errorf("%d triangles; %d points with %d edges around them have %d", len(triangles), n, border, want)
	}
	want := new(big.Int)
	for i := 1; i+1 < len(hull); i++ {
		want.Add(want, doubleArea(points[hull[0]], points[hull[i]], points[hull[i+1]]))
	}
	if area.Cmp(want) != 0 {
		return fmt.Errorf("the triangles have an area of %v/2, the hull has %v/2", area, want)
	}
	return nil
}

// violates reports whether the edge from a to b, with c on its left and d on its right, is not the one that belongs
// there.
func violates(a, b, c, d driver.Point) bool {
	s := insideCircle(a, b, c, d)
	if s != 0 {
		return s > 0
	}
	first := slices.MinFunc([]driver.Point{a, b, c, d}, orderPoints)
	return first == c || first == d
}

func doubleArea(a, b, c driver.Point) *big.Int {
	u := big.NewInt((int64(b.X) - int64(a.X)) * (int64(c.Y) - int64(a.Y)))
	return u.Sub(u, big.NewInt((int64(b.Y)-int64(a.Y))*(int64(c.X)-int64(a.X))))
}
