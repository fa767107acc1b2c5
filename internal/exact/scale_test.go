package exact

import (
	"math"
	"math/big"
	"strconv"
	"testing"

	testseed "github.com/polyscan/polyscan/internal/seed"
)

// decimalRat is the decimal as it is written, read by somebody else.
func decimalRat(v float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(v, 'g', -1, 64))
	return r
}

// nearest is the float64 next to r, by big.
func nearest(r *big.Rat) float64 {
	v, _ := r.Float64()
	return v
}

// 300 px of 0.1 mm by 0.1 mm are 3 mm² and not 3.0000000000000004, which is what products of float64 are.
func TestScaleIsOfDecimals(t *testing.T) {
	s := NewScale(0.1, 0.1, 0, 0)
	if got := s.Area(300); got != 3 {
		t.Errorf("300 px of 0.1 mm: %v mm²", got)
	}
	if tenth := 0.1; 300*(tenth*tenth) == 3 {
		t.Error("the test can't fail")
	}
	if s := NewScale(0.1, 0.3, 0.1, -0.2); s.X(0.5) != 0.04 || s.Y(0.25) != 0.135 {
		t.Errorf("place %v, %v", s.X(0.5), s.Y(0.25))
	}
}

func TestScaleAgainstFractions(t *testing.T) {
	r := testseed.New(t, 51, 1)
	decimal := func() float64 {
		v, err := strconv.ParseFloat(strconv.FormatFloat(math.Exp(r.Float64()*20-12), 'g', 1+r.IntN(17), 64), 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	place := func() float64 {
		v := float64(r.IntN(1<<23)-1<<22) + float64(r.IntN(512))/256
		if r.IntN(3) == 0 {
			v = r.NormFloat64() * 1000
		}
		return v
	}
	for range 20000 {
		x, y := decimal(), decimal()
		left, top := place(), place()
		if r.IntN(2) == 0 {
			left, top = 0, 0
		}
		s := NewScale(x, y, left, top)
		px := float64(r.Uint64N(1<<40)) / float64(uint64(1)<<r.IntN(18))
		exactly := new(big.Rat).Mul(decimalRat(x), decimalRat(y))
		exactly.Mul(exactly, new(big.Rat).SetFloat64(px))
		if got, want := s.Area(px), nearest(exactly); got != want {
			t.Fatalf("%v px of %v by %v: %v, want %v", px, x, y, got, want)
		}
		at := func(v, from, scale float64) float64 {
			d := new(big.Rat).Sub(new(big.Rat).SetFloat64(v), decimalRat(from))
			return nearest(d.Mul(d, decimalRat(scale)))
		}
		vx, vy := place(), place()
		gx, gy := s.X(vx), s.Y(vy)
		if wx, wy := at(vx, left, x), at(vy, top, y); gx != wx || gy != wy {
			t.Fatalf("(%v, %v) from (%v, %v) by (%v, %v): (%v, %v), want (%v, %v)", vx, vy, left, top, x, y, gx, gy, wx, wy)
		}
		if got, want := s.Width(px), at(px, 0, x); got != want {
			t.Fatalf("%v columns of %v: %v, want %v", px, x, got, want)
		}
		if got, want := s.Height(px), at(px, 0, y); got != want {
			t.Fatalf("%v rows of %v: %v, want %v", px, y, got, want)
		}
	}
}
