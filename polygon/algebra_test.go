package polygon

import (
	"slices"
	"testing"

	testseed "github.com/polyscan/polyscan/internal/seed"
)

// randomMask is any mask within [-3, 17) x [-3, 12).
func randomMask(c choices) []Run {
	share := c.IntN(11)
	return pixelMask(func(_, _ int) bool { return c.IntN(10) < share })
}

// pixelMask is the pixels within [-3, 17) x [-3, 12) of which in says so, one by one.
func pixelMask(in func(x, y int) bool) []Run {
	out := []Run{}
	for y := -3; y < 12; y++ {
		for x := -3; x < 17; x++ {
			if in(x, y) {
				out = AppendRun(out, Run{Y: int32(y), X0: int32(x), X1: int32(x) + 1})
			}
		}
	}
	return out
}

func holds(mask []Run, x, y int) bool {
	return slices.ContainsFunc(mask, func(u Run) bool { return int(u.Y) == y && int(u.X0) <= x && x < int(u.X1) })
}

func area(mask []Run) (n int) {
	for _, u := range mask {
		n += int(u.X1 - u.X0)
	}
	return n
}

// TestCombine: what is made of two masks is what the definition says of each pixel, in the one form that masks have.
func TestCombine(t *testing.T) {
	rng := testseed.New(t, 3, 8)
	for range 400 {
		a, b := randomMask(rng), randomMask(rng)
		for op, takes := range map[SetOp]func(a, b bool) bool{
			Union:               func(a, b bool) bool { return a || b },
			Intersection:        func(a, b bool) bool { return a && b },
			Difference:          func(a, b bool) bool { return a && !b },
			SymmetricDifference: func(a, b bool) bool { return a != b },
		} {
			want := pixelMask(func(x, y int) bool { return takes(holds(a, x, y), holds(b, x, y)) })
			if got := Combine(op, a, b); got == nil || !slices.Equal(got, want) {
				t.Fatalf("%v of\n%v and\n%v:\n%v, want\n%v", op, a, b, got, want)
			}
		}
		union, both := Combine(Union, a, b), Combine(Intersection, a, b)
		if area(union)+area(both) != area(a)+area(b) {
			t.Errorf("%v, %v: areas %d and %d of %d and %d", a, b, area(union), area(both), area(a), area(b))
		}
		// De Morgan, within a third mask around both.
		all := pixelMask(func(int, int) bool { return true })
		not := func(m []Run) []Run { return Combine(Difference, all, m) }
		if !slices.Equal(not(union), Combine(Intersection, not(a), not(b))) ||
			!slices.Equal(not(both), Combine(Union, not(a), not(b))) {
			t.Errorf("%v, %v: De Morgan's laws don't hold", a, b)
		}
		if !slices.Equal(Combine(SymmetricDifference, a, b), Combine(Difference, union, both)) {
			t.Errorf("%v, %v: the symmetric difference is another one than what only one has", a, b)
		}
	}
}
