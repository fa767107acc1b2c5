package cpu

import (
	"math/big"
	"testing"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// TestCrossings holds the walk down an edge against the quotient in big integers: where divisions come out even, where
// floating-point guesses are off, and with coordinates as large as can be.
func TestCrossings(t *testing.T) {
	rng := seed.New(t, 3, 1)
	coordinate := func() int32 {
		switch rng.IntN(6) {
		case 0:
			return []int32{-driver.MaxCoord, driver.MaxCoord}[rng.IntN(2)]
		case 1:
			return int32(rng.Int64N(2*driver.MaxCoord+1) - driver.MaxCoord)
		case 2:
			return (rng.Int32N(41)-20)*256 + 128
		case 3:
			return rng.Int32N(41) - 20
		}
		return rng.Int32N(20_001) - 10_000
	}
	for range cases(900_000) {
		e := driver.Edge{X0: coordinate(), Y0: coordinate(), X1: coordinate(), Y1: coordinate()}
		switch rng.IntN(8) {
		case 0: // crossings at whole columns
			n := 1 + rng.Int32N(9)
			e.X1 = max(-driver.MaxCoord, min(driver.MaxCoord, e.X0+256*n*(rng.Int32N(7)-3)))
			e.Y1 = min(driver.MaxCoord, e.Y0+256*n)
		case 1, 2: // hardly a slope
			e.X0 = rng.Int32N(2000) - 1000
			e.Y0 = rng.Int32N(2000) - 1000
			e.X1 = e.X0 + rng.Int32N(7) - 3
			e.Y1 = e.Y0 + 256 + rng.Int32N(3000)
		case 5: // a whole column by way of a slope that floating point can't hold
			g, m, n, j := 3+2*rng.Int32N(20), 1+rng.Int32N(30), 1+rng.Int32N(30), rng.Int32N(200)-100
			e.X0, e.Y0 = 128+256*(rng.Int32N(9)-4), 128-g*m
			e.X1, e.Y1 = e.X0+256*j*(m+n), e.Y0+g*(m+n)
		case 3, 4: // few denominators, so that all remainders occur
			e.Y0 = 126 + rng.Int32N(3)
			e.Y1 = e.Y0 + 3 - rng.Int32N(7)
		}
		lo, hi := rowRange(e, -1<<22, 1<<22)
		if lo >= hi {
			continue
		}
		r0 := lo + rng.IntN(hi-lo)
		var c crossings
		if sign := c.start(e, r0); sign != direction(e) {
			t.Fatalf("%+v counts %d", e, sign)
		}
		a := e
		if a.Y0 > a.Y1 {
			a = driver.Edge{X0: e.X1, Y0: e.Y1, X1: e.X0, Y1: e.Y0}
		}
		d, dx := big.NewInt(int64(a.Y1)-int64(a.Y0)), big.NewInt(int64(a.X1)-int64(a.X0))
		full := new(big.Int).Mul(d, big.NewInt(256))
		for r := r0; r < min(hi, r0+40); r++ {
			// N - 128 D, then the ceiling of its quotient by 256 D.
			num := new(big.Int).Mul(big.NewInt(int64(a.X0)-128), d)
			num.Add(num, new(big.Int).Mul(big.NewInt(int64(r)*256+128-int64(a.Y0)), dx))
			k, m := new(big.Int).DivMod(num, full, new(big.Int))
			if m.Sign() > 0 {
				k.Add(k, big.NewInt(1))
			}
			left := new(big.Int).Sub(new(big.Int).Mul(k, full), num)
			if k.Int64() != c.k || left.Int64() != c.left {
				t.Fatalf("%+v, row %d from %d: k, left = %d, %d, want %d, %d", e, r, r0, c.k, c.left, k, left)
			}
			c.next()
		}
	}
}

// TestRanges holds the rows and columns of an edge against their definition.
func TestRanges(t *testing.T) {
	rng := seed.New(t, 3, 2)
	for range cases(20_000) {
		v := func() int32 { return rng.Int32N(4000) - 2000 }
		e := driver.Edge{X0: v(), Y0: v(), X1: v(), Y1: v()}
		r0, r1 := rowRange(e, -5, 6)
		for r := -5; r < 6; r++ {
			y := int32(r)*256 + 128
			if want := min(e.Y0, e.Y1) <= y && y < max(e.Y0, e.Y1); (r0 <= r && r < r1) != want {
				t.Fatalf("%+v, rows [%d, %d): row %d counts: %v", e, r0, r1, r, want)
			}
		}
		k0, k1 := columnRange(e)
		for k := -10; k < 10; k++ {
			x := int32(k)*256 + 128
			if (k < k0) != (x < min(e.X0, e.X1)) || (k < k1) != (x < max(e.X0, e.X1)) {
				t.Fatalf("%+v, columns %d and %d: wrong at %d", e, k0, k1, k)
			}
		}
	}
}
