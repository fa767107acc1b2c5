package regionfile

// The grammars inside SVG attributes: path data, lists of points, transforms, numbers.
//
// Written here rather than taken from a library: the ones there are either bring a whole renderer along or skip what
// they don't understand, and none says at which byte a path went wrong.

import (
	"math"
	"strconv"
	"strings"
)

// outline takes the segments of a path, in absolute coordinates.
type outline interface {
	moveTo(x, y float64) *Error
	lineTo(x, y float64) *Error
	quadTo(x1, y1, x2, y2 float64) *Error
	cubeTo(x1, y1, x2, y2, x3, y3 float64) *Error
	arcTo(rx, ry, rotation float64, large, sweep bool, x, y float64) *Error
	close() *Error
}

// scanner reads an attribute's value from left to right.
type scanner struct {
	s   string
	pos int
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' }

func (s *scanner) space() {
	for s.pos < len(s.s) && isSpace(s.s[s.pos]) {
		s.pos++
	}
}

// comma skips white space with at most one comma in it, and says whether there was one.
func (s *scanner) comma() bool {
	s.space()
	if s.pos < len(s.s) && s.s[s.pos] == ',' {
		s.pos++
		s.space()
		return true
	}
	return false
}

func (s *scanner) done() bool { return s.pos >= len(s.s) }

// found describes what is at the position instead of what was expected.
func (s *scanner) found() string {
	if s.done() {
		return "the end"
	}
	for _, r := range s.s[s.pos:] {
		return quote(string(r))
	}
	return ""
}

func (s *scanner) expected(what string) *Error {
	return fail(ErrSyntax, "expected %s, found %s", what, s.found()).within("offset %d", s.pos)
}

// atNumber says whether a number can start here.
func (s *scanner) atNumber() bool {
	if s.done() {
		return false
	}
	c := s.s[s.pos]
	return c >= '0' && c <= '9' || c == '.' || c == '-' || c == '+'
}

// number reads a number: an optional sign, digits with an optional point, an optional exponent. It takes the longest
// that fits, so "1.5.5-3" is 1.5, 0.5 and -3.
func (s *scanner) number() (float64, *Error) {
	i, digits := s.pos, 0
	if i < len(s.s) && (s.s[i] == '+' || s.s[i] == '-') {
		i++
	}
	for ; i < len(s.s) && s.s[i] >= '0' && s.s[i] <= '9'; i++ {
		digits++
	}
	if i < len(s.s) && s.s[i] == '.' {
		for i++; i < len(s.s) && s.s[i] >= '0' && s.s[i] <= '9'; i++ {
			digits++
		}
	}
	if digits == 0 {
		return 0, s.expected("number")
	}
	if i < len(s.s) && (s.s[i] == 'e' || s.s[i] == 'E') {
		j := i + 1
		if j < len(s.s) && (s.s[j] == '+' || s.s[j] == '-') {
			j++
		}
		if j < len(s.s) && s.s[j] >= '0' && s.s[j] <= '9' { // else it is a unit such as em
			for j < len(s.s) && s.s[j] >= '0' && s.s[j] <= '9' {
				j++
			}
			i = j
		}
	}
	v, err := strconv.ParseFloat(s.s[s.pos:i], 64)
	if err != nil {
		return 0, fail(ErrInvalid, "the number %.24s is out of range", s.s[s.pos:i]).within("offset %d", s.pos)
	}
	s.pos = i
	return v, nil
}

// numbers reads n numbers, separated by white space, at most one comma, or nothing where that is clear.
func (s *scanner) numbers(out []float64) *Error {
	for i := range out {
		if i > 0 {
			s.comma()
		}
		v, e := s.number()
		if e != nil {
			return e
		}
		out[i] = v
	}
	return nil
}

// flag reads one of an arc's flags: a single digit, which needs no separator after it.
func (s *scanner) flag() (bool, *Error) {
	if !s.done() && (s.s[s.pos] == '0' || s.s[s.pos] == '1') {
		s.pos++
		return s.s[s.pos-1] == '1', nil
	}
	return false, s.expected(`a flag, 0 or 1`)
}

// parsePath reads path data (SVG 2, section 9.3) into an outline. Unlike a renderer, which draws what comes before a
// mistake, it refuses all of it. Places in errors are byte offsets into d, from 0.
func parsePath(d string, to outline) *Error {
	s := &scanner{s: d}
	s.space()
	if s.done() || d == "none" {
		return nil
	}
	if c := s.s[s.pos]; c != 'M' && c != 'm' {
		return s.expected(`a move (M or m) at the start`)
	}
	p := pathReader{scanner: s, to: to}
	for !s.done() {
		at := s.pos
		cmd := s.s[s.pos]
		if !strings.ContainsRune("MmLlHhVvCcSsQqTtAaZz", rune(cmd)) {
			return s.expected("number or path command")
		}
		s.pos++
		if e := p.command(cmd, at); e != nil {
			return e
		}
		s.space()
	}
	return nil
}

// pathReader keeps what relative and smooth commands refer to.
type pathReader struct {
	*scanner
	to     outline
	x, y   float64 // the current point
	sx, sy float64 // the start of the subpath
	cx, cy float64 // the last control point, if the last command was a curve of the kind in last
	last   byte    // 'C' or 'Q' after such a curve, 0 otherwise
	args   [6]float64
}

// command reads the arguments of a command that was found at an offset, again and again while there are more.
func (p *pathReader) command(cmd byte, at int) *Error {
	upper := cmd &^ 0x20
	relative := cmd != upper
	if upper == 'Z' {
		p.x, p.y, p.last = p.sx, p.sy, 0
		return located(p.to.close(), at)
	}
	p.space()
	for {
		at := p.pos
		var ox, oy float64
		if relative {
			ox, oy = p.x, p.y
		}
		if e := p.segment(upper, ox, oy, at); e != nil {
			return e
		}
		if upper == 'M' {
			upper = 'L' // further pairs are lines
		}
		if !p.comma() && !p.atNumber() {
			return nil
		}
	}
}

// segment reads one set of arguments.
func (p *pathReader) segment(upper byte, ox, oy float64, at int) *Error {
	a := p.args[:]
	count := map[byte]int{'M': 2, 'L': 2, 'T': 2, 'H': 1, 'V': 1, 'S': 4, 'Q': 4, 'C': 6, 'A': 3}[upper]
	if e := p.numbers(a[:count]); e != nil {
		return e
	}
	last := p.last
	p.last = 0
	switch upper {
	case 'M':
		p.x, p.y = ox+a[0], oy+a[1]
		p.sx, p.sy = p.x, p.y
		return located(p.to.moveTo(p.x, p.y), at)
	case 'L':
		p.x, p.y = ox+a[0], oy+a[1]
		return located(p.to.lineTo(p.x, p.y), at)
	case 'H':
		p.x = ox + a[0]
		return located(p.to.lineTo(p.x, p.y), at)
	case 'V':
		p.y = oy + a[0]
		return located(p.to.lineTo(p.x, p.y), at)
	case 'C', 'S':
		x1, y1 := p.x, p.y
		switch {
		case upper == 'C':
			x1, y1 = ox+a[0], oy+a[1]
			copy(a, a[2:])
		case last == 'C':
			x1, y1 = 2*p.x-p.cx, 2*p.y-p.cy
		}
		p.cx, p.cy = ox+a[0], oy+a[1]
		p.x, p.y = ox+a[2], oy+a[3]
		p.last = 'C'
		return located(p.to.cubeTo(x1, y1, p.cx, p.cy, p.x, p.y), at)
	case 'Q', 'T':
		switch {
		case upper == 'Q':
			p.cx, p.cy = ox+a[0], oy+a[1]
			copy(a, a[2:])
		case last == 'Q':
			p.cx, p.cy = 2*p.x-p.cx, 2*p.y-p.cy
		default:
			p.cx, p.cy = p.x, p.y
		}
		p.x, p.y = ox+a[0], oy+a[1]
		p.last = 'Q'
		return located(p.to.quadTo(p.cx, p.cy, p.x, p.y), at)
	}
	// 'A': the flags stand between the numbers.
	p.comma()
	large, e := p.flag()
	if e != nil {
		return e
	}
	p.comma()
	sweep, e := p.flag()
	if e != nil {
		return e
	}
	p.comma()
	if e := p.numbers(a[3:5]); e != nil {
		return e
	}
	p.x, p.y = ox+a[3], oy+a[4]
	return located(p.to.arcTo(a[0], a[1], a[2], large, sweep, p.x, p.y), at)
}

// located adds the offset of a segment's arguments to an error of the outline.
func located(e *Error, at int) *Error {
	if e != nil {
		e.within("offset %d", at)
	}
	return e
}

// parsePoints reads the points of a polygon or polyline.
func parsePoints(v string) ([][2]float64, *Error) {
	s := &scanner{s: v}
	var out [][2]float64
	s.space()
	for !s.done() {
		if len(out) > 0 {
			s.comma()
		}
		var p [2]float64
		if e := s.numbers(p[:]); e != nil {
			return nil, e
		}
		out = append(out, p)
		s.space()
	}
	return out, nil
}

// parseTransform reads a transform attribute: functions of numbers, the last of which applies first.
func parseTransform(v string) (matrix, *Error) {
	s := &scanner{s: v}
	m := identity
	s.space()
	if strings.TrimSpace(v) == "none" {
		return m, nil
	}
	for first := true; !s.done(); first = false {
		if !first {
			s.comma()
		}
		at := s.pos
		for !s.done() && (s.s[s.pos]|0x20 >= 'a' && s.s[s.pos]|0x20 <= 'z') {
			s.pos++
		}
		name := s.s[at:s.pos]
		s.space()
		if name == "" || s.done() || s.s[s.pos] != '(' {
			if name == "" {
				return m, s.expected("the name of a transform")
			}
			return m, s.expected("(")
		}
		s.pos++
		s.space()
		var a [6]float64
		n := 0
		for n < len(a) && (n == 0 || s.pos < len(s.s) && s.s[s.pos] != ')') {
			if n > 0 {
				s.comma()
			}
			if e := s.numbers(a[n : n+1]); e != nil {
				return m, e
			}
			n++
			s.space()
		}
		if s.done() || s.s[s.pos] != ')' {
			return m, s.expected(")")
		}
		s.pos++
		t, ok := transform(name, a, n)
		if !ok {
			return m, fail(ErrSyntax, "%s with %d %s is not a transform", quote(name), n,
				plural(n, "number", "numbers")).within("offset %d", at)
		}
		m = m.times(t)
		s.space()
	}
	if !m.finite() {
		return m, fail(ErrInvalid, "its numbers are out of range")
	}
	return m, nil
}

// transform makes the matrix of one function with n arguments.
func transform(name string, a [6]float64, n int) (matrix, bool) {
	m := identity
	sin, cos := sincosDegrees(a[0])
	switch {
	case name == "matrix" && n == 6:
		m = matrix{a[0], a[1], a[2], a[3], a[4], a[5]}
	case name == "translate" && (n == 1 || n == 2):
		m.e, m.f = a[0], a[1]
	case name == "scale" && n == 1:
		m.a, m.d = a[0], a[0]
	case name == "scale" && n == 2:
		m.a, m.d = a[0], a[1]
	case name == "rotate" && n == 1:
		m = matrix{cos, sin, -sin, cos, 0, 0}
	case name == "rotate" && n == 3:
		m = matrix{a: 1, d: 1, e: a[1],
			f: a[2]}.times(matrix{cos, sin, -sin, cos, 0, 0}).times(matrix{a: 1, d: 1, e: -a[1], f: -a[2]})
	case name == "skewX" && n == 1:
		m.c = math.Tan(a[0] * math.Pi / 180)
	case name == "skewY" && n == 1:
		m.b = math.Tan(a[0] * math.Pi / 180)
	default:
		return m, false
	}
	return m, true
}

// sincosDegrees is exact for multiples of 90 degrees, so that quarter turns keep whole pixels whole.
func sincosDegrees(degrees float64) (sin, cos float64) {
	switch math.Mod(degrees, 360) {
	case 0:
		return 0, 1
	case 90, -270:
		return 1, 0
	case 180, -180:
		return 0, -1
	case 270, -90:
		return -1, 0
	}
	return math.Sincos(degrees * math.Pi / 180)
}
