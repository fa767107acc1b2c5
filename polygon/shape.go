// The grammar of shapes: what a region can be made of.

package polygon

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MaxShape is the longest text of a shape, in bytes.
const MaxShape = 4096

// maxShapeDepth bounds how deep shapes lie in one another, within a text and through the regions that it names.
const maxShapeDepth = 64

// maxDistance bounds the distances of inset, outset and band, in pixels.
const maxDistance = 4096

// maxArray bounds the copies of an array.
const maxArray = 1 << 16

// shapeOp is what a node of a shape does.
type shapeOp uint8

const (
	shapeName shapeOp = iota // another region
	shapeCircle
	shapeRing
	shapeSector
	shapeRect
	shapeSet // two, by set
	shapeInset
	shapeOutset
	shapeInwards
	shapeOutwards
	shapeMap
	shapeArray
)

// shapeNode is a shape after parsing.
type shapeNode struct {
	op   shapeOp
	at   int // in the text
	name string
	set  SetOp
	args []*shapeNode
	// nums are coordinates and lengths in pixels, and degrees; of shapeArray the numbers of columns and rows, and dx,
	// dy.
	nums []float64
	by   affine // of shapeMap
}

// affine takes (x, y) to (a x + b y + c, d x + e y + f).
type affine struct{ a, b, c, d, e, f float64 }

var identity = affine{a: 1, e: 1}

// to is where a point goes. Each product is rounded by itself, so that all processors give the same.
func (m affine) to(x, y float64) (float64, float64) {
	return float64(m.a*x) + float64(m.b*y) + m.c, float64(m.d*x) + float64(m.e*y) + m.f
}

// after is the map that does n first, and then m.
func (m affine) after(n affine) affine {
	var out affine
	out.a, out.d = float64(m.a*n.a)+float64(m.b*n.d), float64(m.d*n.a)+float64(m.e*n.d)
	out.b, out.e = float64(m.a*n.b)+float64(m.b*n.e), float64(m.d*n.b)+float64(m.e*n.e)
	out.c, out.f = m.to(n.c, n.f)
	return out
}

// about is a map of directions that leaves (x, y) where it is.
func (m affine) about(x, y float64) affine {
	x1, y1 := m.to(x, y)
	m.c, m.f = m.c+x-x1, m.f+y-y1
	return m
}

// turn is by degrees, clockwise on the screen; exactly where these are a multiple of 90.
func turnBy(degrees float64) affine {
	sin, cos := sinCos(degrees)
	return affine{a: cos, b: -sin, d: sin, e: cos}
}

// sinCos is exact for multiples of 90 degrees.
func sinCos(degrees float64) (sin, cos float64) {
	switch math.Mod(math.Mod(degrees, 360)+360, 360) {
	case 0:
		return 0, 1
	case 90:
		return 1, 0
	case 180:
		return 0, -1
	case 270:
		return -1, 0
	}
	return math.Sincos(math.Mod(degrees, 360) * (math.Pi / 180))
}

// parseShape reads a shape:
//
//	shape = both { ( "+" | "-" | "xor" ) both }
//	both  = part { "and" part }
//	part  = name | "(" shape ")"
//	      | "circle" "(" x "," y "," r ")" | "ring" "(" x "," y "," r0 "," r1 ")"
//	      | "sector" "(" x "," y "," r0 "," r1 "," from "," to ")" | "rect" "(" x0 "," y0 "," x1 "," y1 [ "," r ] ")"
//	      | ( "inset" | "outset" ) "of" part "by" distance | "band" "of" part ( "inwards" | "outwards" ) distance
//	      | "move" "of" part "by" pair | "mirror" "of" part "at" ( "x" | "y" ) number
//	      | "turn" "of" part "by" degrees "about" pair | "scale" "of" part "by" ( number | pair ) "about" pair
//	      | "map" "of" part "by" "(" a "," b "," c "," d "," e "," f ")"
//	      | "array" "of" part columns "by" rows "every" pair
//	pair  = "(" number "," number ")"
//
// A coordinate, a length or a distance may end in "px", or where the regions have a scale in "mm". Errors are
// [*LimitError].
func parseShape(text string, scale *Scale) (*shapeNode, error) {
	if len(text) > MaxShape {
		return nil, &LimitError{Expression: text, Column: MaxShape + 1,
			Expected: fmt.Sprintf("the shape has %d bytes: the limit is %d", len(text), MaxShape)}
	}
	p := shapeParser{limitParser{src: text}, scale}
	p.next()
	n, err := p.shape(0)
	if err == nil && p.kind != tokenEnd {
		err = p.fail("+, -, xor, and, or the end")
	}
	return n, err
}

type shapeParser struct {
	limitParser
	scale *Scale // nil where the regions have none
}

func (p *shapeParser) shape(depth int) (*shapeNode, error) {
	left, err := p.both(depth)
	for err == nil {
		at, op := p.at, Union
		switch {
		case p.kind == tokenNumber && strings.IndexByte("+-", p.text[0]) >= 0:
			return nil, p.fail("white space behind the sign, and a shape")
		case p.sign("+"):
		case p.sign("-"):
			op = Difference
		case p.word("xor"):
			op = SymmetricDifference
		default:
			return left, nil
		}
		var right *shapeNode
		if right, err = p.both(depth); err == nil {
			left = &shapeNode{op: shapeSet, at: at, set: op, args: []*shapeNode{left, right}}
		}
	}
	return nil, err
}

func (p *shapeParser) both(depth int) (*shapeNode, error) {
	left, err := p.part(depth)
	for err == nil {
		at := p.at
		if !p.word("and") {
			return left, nil
		}
		var right *shapeNode
		if right, err = p.part(depth); err == nil {
			left = &shapeNode{op: shapeSet, at: at, set: Intersection, args: []*shapeNode{left, right}}
		}
	}
	return nil, err
}

const expectedShape = "a region's name in double quotes, (, circle, ring, sector, rect, inset, outset, band, move, " +
	"mirror, " +
	"turn, scale, map or array"

func (p *shapeParser) part(depth int) (n *shapeNode, err error) {
	if depth >= maxShapeDepth {
		return nil, p.failAt(p.at, "shapes lie deeper in one another than %d", maxShapeDepth)
	}
	n = &shapeNode{at: p.at}
	if p.kind == tokenString {
		n.name = p.src[p.at+1 : p.pos-1]
		p.next()
		return n, nil
	}
	if p.sign("(") {
		if n, err = p.shape(depth + 1); err != nil {
			return nil, err
		}
		return n, p.need(")")
	}
	if p.kind != tokenWord {
		return nil, p.fail(expectedShape)
	}
	word := p.text
	switch word {
	case "circle":
		n.op, err = shapeCircle, p.list(n, 3, "xyr")
	case "ring":
		n.op, err = shapeRing, p.list(n, 4, "xyrr")
	case "sector":
		n.op, err = shapeSector, p.list(n, 6, "xyrr..")
	case "rect":
		n.op, err = shapeRect, p.list(n, 4, "xyxyr")
	case "inset", "outset", "band", "move", "mirror", "turn", "scale", "map", "array":
		p.next()
		if !p.word("of") {
			return nil, p.fail("of")
		}
		arg, err := p.part(depth + 1)
		if err != nil {
			return nil, err
		}
		n.args = []*shapeNode{arg}
		return n, p.derived(n, word)
	default:
		return nil, p.fail(expectedShape)
	}
	if err != nil {
		return nil, err
	}
	return n, p.checkNumbers(n)
}

// derived reads what comes behind the shape that n is made of.
func (p *shapeParser) derived(n *shapeNode, word string) error {
	switch word {
	case "inset", "outset":
		if n.op = shapeInset; word == "outset" {
			n.op = shapeOutset
		}
		if !p.word("by") {
			return p.fail("by")
		}
		return p.distance(n)
	case "band":
		switch {
		case p.word("inwards"):
			n.op = shapeInwards
		case p.word("outwards"):
			n.op = shapeOutwards
		default:
			return p.fail("inwards or outwards")
		}
		return p.distance(n)
	case "array":
		return p.array(n)
	case "mirror":
		return p.mirror(n)
	}
	n.op, n.by = shapeMap, identity
	if !p.word("by") {
		return p.fail("by")
	}
	at := p.at
	switch word {
	case "move":
		xy, err := p.numbers(2, "wh")
		if err != nil {
			return err
		}
		n.by.c, n.by.f = xy[0], xy[1]
		return nil
	case "map":
		v, err := p.numbers(6, "......")
		if err != nil {
			return err
		}
		n.by = affine{v[0], v[1], v[2], v[3], v[4], v[5]}
	case "turn":
		degrees, err := p.value("degrees")
		if err != nil {
			return err
		}
		n.by = turnBy(degrees)
	case "scale":
		var s []float64
		if p.kind == tokenSign {
			var err error
			if s, err = p.numbers(2, ".."); err != nil {
				return err
			}
		} else {
			v, err := p.value("a number, or (, for two")
			if err != nil {
				return err
			}
			s = []float64{v, v}
		}
		n.by.a, n.by.e = s[0], s[1]
	}
	if det := n.by.a*n.by.e - n.by.b*n.by.d; !(math.Abs(det) >= 1e-6 && math.Abs(det) <= 1e6) {
		return p.failAt(at, "areas must change by a factor of 1e-6 to 1e6, not by %v", det)
	}
	if word == "map" {
		return nil
	}
	if !p.word("about") {
		return p.fail("about")
	}
	xy, err := p.numbers(2, "xy")
	if err == nil {
		n.by = n.by.about(xy[0], xy[1])
	}
	return err
}

func (p *shapeParser) mirror(n *shapeNode) error {
	if !p.word("at") {
		return p.fail("at")
	}
	x := p.word("x")
	axis := byte('x')
	if !x {
		if axis = 'y'; !p.word("y") {
			return p.fail("x or y")
		}
	}
	v, err := p.measure("a number", axis)
	if err != nil {
		return err
	}
	if n.op, n.by = shapeMap, identity; x {
		n.by.a, n.by.c = -1, 2*v
	} else {
		n.by.e, n.by.f = -1, 2*v
	}
	return nil
}

func (p *shapeParser) array(n *shapeNode) error {
	n.op = shapeArray
	at := p.at
	columns, err := p.value("a number of columns")
	if err != nil {
		return err
	}
	if !p.word("by") {
		return p.fail("by")
	}
	rows, err := p.value("a number of rows")
	if err != nil {
		return err
	}
	if columns != math.Trunc(columns) || rows != math.Trunc(rows) || columns < 1 || rows < 1 ||
		columns*rows > maxArray {
		return p.failAt(at, "%v by %v copies: must be whole numbers from 1, and %d copies at most", columns, rows,
			maxArray)
	}
	if !p.word("every") {
		return p.fail("every")
	}
	xy, err := p.numbers(2, "wh")
	n.nums = append([]float64{columns, rows}, xy...)
	return err
}

func (p *shapeParser) distance(n *shapeNode) error {
	at := p.at
	d, err := p.measure("a distance", 'r')
	if err != nil {
		return err
	}
	if !(d >= 0 && d <= maxDistance) {
		return p.failAt(at, "a distance of %v: must be 0 to %d px", d, maxDistance)
	}
	n.nums = []float64{d}
	return nil
}

// list reads the numbers of a word.
func (p *shapeParser) list(n *shapeNode, least int, kinds string) (err error) {
	p.next()
	n.nums, err = p.numbers(least, kinds)
	return err
}

// numbers reads numbers in brackets: as many as there are kinds, or fewer, which measure knows.
func (p *shapeParser) numbers(least int, kinds string) (out []float64, err error) {
	most := len(kinds)
	if err := p.need("("); err != nil {
		return nil, err
	}
	for {
		v, err := p.measure("a number", kinds[len(out)])
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		switch {
		case len(out) >= least && p.sign(")"):
			return out, nil
		case len(out) >= most:
			return nil, p.fail(")")
		case !p.sign(","):
			return nil, p.fail(map[bool]string{true: ", or )", false: ","}[len(out) >= least])
		}
	}
}

func (p *shapeParser) need(sign string) error {
	if !p.sign(sign) {
		return p.fail(sign)
	}
	return nil
}

func (p *shapeParser) value(what string) (float64, error) {
	if p.kind != tokenNumber {
		return 0, p.fail(what)
	}
	return p.measure(what, '.')
}

// measure reads a number with or without a unit, and returns it in pixels. kind is 'x' or 'y' for a place along that
// axis, 'w' or 'h' for a length along one, 'r' for a length in any direction, and '.' for a number without a unit.
func (p *shapeParser) measure(what string, kind byte) (float64, error) {
	if p.kind != tokenNumber {
		return 0, p.fail(what)
	}
	at, text := p.at, p.text
	v, err := strconv.ParseFloat(text, 64)
	p.next()
	unit := p.at
	if kind != '.' && !p.word("px") && p.word("mm") {
		switch {
		case p.scale == nil:
			return 0, p.failAt(unit, "the regions have no scale, and mm needs one")
		case kind == 'r' && p.scale.X != p.scale.Y:
			return 0, p.failAt(unit, "pixels are %v by %v mm, and a length in all directions in mm needs square ones",
				p.scale.X, p.scale.Y)
		case err == nil:
			v = p.scale.pixels(kind, v)
		}
	}
	if err != nil || !(math.Abs(v) < maxCoordinate) {
		return 0, p.failAt(at, "%s: its magnitude must be below %d", text, maxCoordinate)
	}
	return v, nil
}

// checkNumbers refuses circles and rectangles that can't be.
func (p *shapeParser) checkNumbers(n *shapeNode) error {
	v := n.nums
	why := ""
	switch n.op {
	case shapeCircle:
		if v[2] < 0 {
			why = fmt.Sprintf("a radius of %v: must not be negative", v[2])
		}
	case shapeRing, shapeSector:
		if v[2] < 0 || v[3] < v[2] {
			why = fmt.Sprintf("radii of %v and %v: must be 0 or more, and the second no less than the first", v[2],
				v[3])
		}
		if n.op == shapeSector && !(v[5] > v[4] && v[5]-v[4] <= 360) {
			why = fmt.Sprintf("from %v to %v degrees: must be 0 to 360 degrees, and not none", v[4], v[5])
		}
	case shapeRect:
		if v[2] < v[0] || v[3] < v[1] {
			why = fmt.Sprintf("corners (%v, %v) and (%v, %v): the second must lie right of the first and below it",
				v[0], v[1], v[2], v[3])
		} else if len(v) == 5 && !(v[4] >= 0 && 2*v[4] <= min(v[2]-v[0], v[3]-v[1])) {
			why = fmt.Sprintf("a radius of %v: must be 0 to half of the shorter side", v[4])
		}
	}
	if why != "" {
		return p.failAt(n.at, "%s", why)
	}
	return nil
}
