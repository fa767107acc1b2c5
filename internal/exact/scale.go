// Lengths and areas in units that are decimals of others.

package exact

import "math"

// Factor is a decimal, or the product of two, as the sum of two float64s: off by less than 2^-104 of itself.
type Factor struct{ hi, lo float64 }

// FactorOf is the product of the decimals that numbers stand for.
func FactorOf(v ...float64) Factor {
	f := DecimalOf(v[0]).Rat()
	for _, other := range v[1:] {
		f.Mul(f, DecimalOf(other).Rat())
	}
	hi, _ := f.Float64()
	rest := DecimalOf(0).Rat()
	rest.SetFloat64(hi)
	lo, _ := rest.Sub(f, rest).Float64()
	return Factor{hi, lo}
}

// Of is v times the factor: the float64 next to the exact product, but where that is within 2^-100 of itself of the
// middle between two.
func (f Factor) Of(v float64) float64 {
	p := float64(v * f.hi)
	return float64(p + math.FMA(v, f.lo, math.FMA(v, f.hi, -p)))
}

// Scale turns pixels into a unit: x and y apart, from an origin.
type Scale struct {
	x, y, area, left, top Factor
}

// NewScale has x and y for the size of a pixel, and the place in pixels whose coordinates are 0.
func NewScale(x, y, left, top float64) *Scale {
	return &Scale{FactorOf(x), FactorOf(y), FactorOf(x, y), FactorOf(left), FactorOf(top)}
}

// Area is that of so many square pixels.
func (s *Scale) Area(px float64) float64 { return s.area.Of(px) }

// Width is that of so many columns, and Height that of so many rows.
func (s *Scale) Width(px float64) float64  { return s.x.Of(px) }
func (s *Scale) Height(px float64) float64 { return s.y.Of(px) }

// X and Y are the coordinates of a place in pixels.
func (s *Scale) X(px float64) float64 { return s.left.to(px, s.x) }
func (s *Scale) Y(px float64) float64 { return s.top.to(px, s.y) }

// to is (v - f) times another factor.
func (f Factor) to(v float64, by Factor) float64 {
	// v - f.hi is d and an error, exactly.
	d := float64(v - f.hi)
	back := float64(v - d)
	rest := float64(float64(float64(v-float64(d+back))+float64(back-f.hi)) - f.lo)
	p := float64(d * by.hi)
	e := math.FMA(d, by.hi, -p)
	return float64(p + math.FMA(rest, by.hi, math.FMA(d, by.lo, e)))
}
