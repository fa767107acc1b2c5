// Scale: pixels as millimetres on the part.

package polygon

import (
	"math"
	"math/big"
	"strconv"

	"github.com/polyscan/polyscan/internal/exact"
	"github.com/polyscan/polyscan/kernels"
)

// Scale says what pixels are on the part. Its numbers stand for the decimals that they are written as, so that 300
// square pixels of 0.1 mm by 0.1 mm are 3 mm², and what its methods return is the exact number of the decimals, rounded
// once to float64 (but for numbers within 2^-100 of themselves of the middle between two float64s, which may come out
// as either).
type Scale struct {
	// X and Y are millimetres per pixel, 1e-9 to 1e9.
	X, Y float64
	// Origin is the place, in pixels, that is (0, 0) in mm; each coordinate is below 2^22 in magnitude.
	Origin Point

	of *exact.Scale // of a set's own
}

const leastScale, mostScale = 1e-9, 1e9

// addScale checks the scale of a set, and keeps a copy.
func (s *Set) addScale(bad *kernels.InvalidError, from *Scale) {
	if from == nil {
		return
	}
	n := len(bad.Violations)
	for _, side := range []struct {
		name string
		v    float64
	}{{"x", from.X}, {"y", from.Y}} {
		if !(side.v >= leastScale && side.v <= mostScale) {
			bad.Add(path{"scale", side.name}, number(side.v), "must be %g to %g mm per pixel", leastScale, mostScale)
		}
	}
	for _, side := range []struct {
		name string
		v    float64
	}{{"x", from.Origin.X}, {"y", from.Origin.Y}} {
		if !(math.Abs(side.v) < maxCoordinate) {
			bad.Add(path{"scale", "origin", side.name}, number(side.v), "must be less than %d px from 0", maxCoordinate)
		}
	}
	own := *from
	if s.scale = &own; len(bad.Violations) == n {
		own.of = exact.NewScale(own.X, own.Y, own.Origin.X, own.Origin.Y)
	}
}

func (s *Scale) exactly() *exact.Scale {
	if s.of != nil {
		return s.of
	}
	return exact.NewScale(s.X, s.Y, s.Origin.X, s.Origin.Y)
}

// Area is that of so many square pixels, in mm².
func (s *Scale) Area(px float64) float64 { return s.exactly().Area(px) }

// Place is a place of the frame, in mm from the origin. The centre of pixel (i, j) is the place (i + 0.5, j + 0.5).
func (s *Scale) Place(p Point) Point {
	to := s.exactly()
	return Point{to.X(p.X), to.Y(p.Y)}
}

// Centre is the place of a pixel's centre, in mm from the origin.
func (s *Scale) Centre(p Position) Point { return s.Place(p.centre()) }

func (p Position) centre() Point { return Point{float64(p.X) + 0.5, float64(p.Y) + 0.5} }

// convert is the value of a quantity in mm or mm².
func (s *Scale) convert(q quantity, v float64) float64 {
	switch to := s.exactly(); q {
	case quantityArea, quantityCount, quantityPixels, quantityCoveredCount:
		return to.Area(v)
	case quantityWidth:
		return to.Width(v)
	case quantityHeight:
		return to.Height(v)
	case quantityCentroidX, quantityMinX, quantityMaxX, quantityWeightedX:
		return to.X(v)
	case quantityCentroidY, quantityMinY, quantityMaxY, quantityWeightedY:
		return to.Y(v)
	}
	return v
}

// pixels is a number of mm in pixels, of a kind that shapeParser.measure knows: the exact number of the decimals,
// rounded once to float64.
func (s *Scale) pixels(kind byte, mm float64) float64 {
	each, from := s.X, 0.0
	switch kind {
	case 'x':
		from = s.Origin.X
	case 'y':
		each, from = s.Y, s.Origin.Y
	case 'h':
		each = s.Y
	}
	px := decimal(mm)
	px.Add(px.Quo(px, decimal(each)), decimal(from))
	v, _ := px.Float64()
	return v
}

// decimal is the shortest decimal that is read as v.
func decimal(v float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(v, 'g', -1, 64))
	return r
}

// extent is a difference of two values of a quantity in mm or mm².
func (s *Scale) extent(q quantity, v float64) float64 {
	switch to := s.exactly(); q {
	case quantityCentroidX, quantityMinX, quantityMaxX, quantityWeightedX:
		return to.Width(v)
	case quantityCentroidY, quantityMinY, quantityMaxY, quantityWeightedY:
		return to.Height(v)
	}
	return s.convert(q, v)
}

// dimension is 1 of lengths and positions, 2 of areas, and 0 of all other quantities.
func (q quantity) dimension() int {
	switch q {
	case quantityArea, quantityCount, quantityPixels, quantityCoveredCount:
		return 2
	case quantityWidth, quantityHeight:
		return 1
	}
	if q.position() {
		return 1
	}
	return 0
}

// position says that the quantity is a coordinate.
func (q quantity) position() bool {
	return q == quantityCentroidX || q == quantityCentroidY || q >= quantityMinX && q <= quantityWeightedY
}

// units are how limits spell dimensions.
var units = [...]string{"", " mm", " mm²"}

// unit takes mm, mm2 or mm² behind a number, and returns its dimension; 0 where there is none.
func (p *limitParser) unit(l *Limit) int {
	if p.kind != tokenWord || p.text != "mm" {
		return 0
	}
	if !l.millimetres {
		l.millimetres, l.unitAt = true, p.at
	}
	dimension := 1
	for _, two := range []string{"2", "²", "^2"} {
		rest := p.src[p.pos:]
		if len(rest) >= len(two) && rest[:len(two)] == two && !(len(rest) > len(two) && isDigit(rest[len(two)])) {
			p.pos += len(two)
			dimension = 2
			break
		}
	}
	p.next()
	return dimension
}

// checkUnits says where units don't fit what a limit measures. behind is where its condition's unit is, or would be.
func (p *limitParser) checkUnits(l *Limit, behind int) error {
	if !l.millimetres {
		return nil
	}
	found := l.quantity.dimension()
	if l.blobs != nil {
		found = l.blobs.dimension()
	}
	if l.expression != nil {
		var stack []int
		for _, s := range l.expression.steps {
			n := len(stack)
			switch s.do {
			case 'n':
				stack = append(stack, s.dimension)
			case 'q':
				stack = append(stack, l.expression.operands[s.operand].dimension())
			case '*':
				stack = append(stack[:n-2], stack[n-2]+stack[n-1])
			case '/':
				stack = append(stack[:n-2], stack[n-2]-stack[n-1])
			default:
				a, b := stack[n-2], stack[n-1]
				if a != b {
					return p.failAt(s.at, "%s and %s can't be added or subtracted", dimensionName(a), dimensionName(b))
				}
				stack = stack[:n-1]
			}
		}
		found = stack[0]
	}
	switch {
	case found == l.unit:
		return nil
	case l.unit == 0:
		return p.failAt(behind, "what is measured is %s: the number needs a unit", dimensionName(found))
	}
	return p.failAt(behind, "%s is no unit of %s, which is %s", units[l.unit][1:], l.spelled, dimensionName(found))
}

func dimensionName(d int) string {
	switch d {
	case 0:
		return "a number without a unit"
	case 1:
		return "a length (mm)"
	case 2:
		return "an area (mm2)"
	}
	return "neither a length nor an area"
}
