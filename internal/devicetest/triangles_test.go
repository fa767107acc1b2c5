package devicetest

import (
	"slices"
	"testing"

	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// The two forms of the in-circle test are different mathematics; they must agree, on the circle most of all.
func TestInsideCircleFormsAgree(t *testing.T) {
	race.Skip(t)
	r := seed.New(t, 3, 4)
	seen := map[int]int{}
	for i := range 200_000 {
		side := int32(2) << (i % 12)
		var p [4]driver.Point
		for j := range p {
			p[j] = driver.Point{X: r.Int32N(side), Y: r.Int32N(side)}
		}
		if turnOf(p[0], p[1], p[2]) < 0 {
			p[1], p[2] = p[2], p[1]
		}
		if turnOf(p[0], p[1], p[2]) == 0 {
			continue
		}
		got, want := insideCircle(p[0], p[1], p[2], p[3]), insideCircleBig(p[0], p[1], p[2], p[3])
		if got != want {
			t.Fatalf("%v: %d and %d", p, got, want)
		}
		seen[got]++
	}
	for _, s := range []int{-1, 0, 1} {
		if seen[s] < 1000 {
			t.Errorf("outcome %d came %d times only", s, seen[s])
		}
	}
}

// The checker and the oracle know the same triangulations.
func TestDelaunayPassesTheChecker(t *testing.T) {
	for _, set := range PointSets(5, 40, 10) {
		if len(set.Points) > MaxOraclePoints {
			continue
		}
		v := Delaunay(set.Points)
		if err := CheckTriangles(set.Points, v); err != nil {
			t.Errorf("%s: %v", set.Name, err)
		}
		slices.Reverse(v)
		if d := CompareTriangles(v, Delaunay(set.Points)); d != nil {
			t.Errorf("%s: the order counts: %v", set.Name, d)
		}
		if len(v) > 0 {
			if err := CheckTriangles(set.Points, v[1:]); err == nil {
				t.Errorf("%s: the checker takes one triangle less", set.Name)
			}
			if d := CompareTriangles(v[1:], v); d == nil || d.A != 0 || d.B != 1 || d.Count != 1 {
				t.Errorf("%s: one triangle less: %v", set.Name, d)
			}
		}
	}
}
