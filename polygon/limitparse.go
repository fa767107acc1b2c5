// The grammar of limits.

package polygon

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/polyscan/polyscan/internal/exact"
)

// LimitError says where a limit can't be read, and what was expected there.
type LimitError struct {
	Expression string
	Column     int // in bytes, from 1
	Expected   string
	Found      string // the text there, quoted, or "the end"
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("polygon: limit %s: %s", quoted(e.Expression), e.Reason())
}

// Reason is the error without the expression.
func (e *LimitError) Reason() string {
	if e.Found == "" {
		return fmt.Sprintf("column %d: %s", e.Column, e.Expected)
	}
	return fmt.Sprintf("column %d: expected %s, found %s", e.Column, e.Expected, e.Found)
}

// MaxLimit is the longest limit expression, in bytes.
const MaxLimit = 256

// ParseLimit compiles a limit:
//
//	limit    = [ channel "." ] quantity ( op number | "in" interval ) [ unit ]
//	channel  = "r" | "g" | "b" | "a" | "red" | "green" | "blue" | "alpha" | "gray" | "grey"
//	         | "gray709" | "hue" | "saturation" | "value" | "lab" "." ( "l" | "a" | "b" )
//	         | "matrix" "." ( "x" | "y" | "z" )
//	quantity = "count" | "area" | "coverage" | "sum" | "mean" | "variance" | "stddev" | "min" | "max"
//	         | "median" | "mode" | "distinct" | "p" percent
//	         | "skewness" | "kurtosis" | "entropy" | "mad" | "iqr"
//	         | "ks" | "wasserstein" | "js" | "chisquare"
//	         | ( "contrast" | "homogeneity" | "energy" | "correlation" | "entropy" ) "(" dx "," dy ")"
//	         | ( "autocorrelation" | "autocovariance" ) "(" dx "," dy ")" | "radial" "(" r ")"
//	         | ( "correlation" | "covariance" ) "(" ( "r" | "g" | "b" | "a" ) ")"
//	         | ( "ncc" | "covariance" ) "of" ( frame | "the" "frame" "before" ) [ "at" "(" dx "," dy ")" ]
//	         | "width" | "height" | ( "centroid" | "weighted" | "min" | "max" ) "." ( "x" | "y" )
//	         | "covered" "." ( "count" | "sum" | "mean" | "variance" | "stddev" )
//	         | "count" "of" "pixels" ( "below" number | "above" number | "in" interval )
//	         | "blobs" [ "(" feature { "and" feature } ")" ] | ( "max" | "sum" ) "blob" "." number-of-a-blob
//	feature  = number-of-a-blob ( op number | "in" interval ) [ unit ]
//	number-of-a-blob = "area" | "length" | "breadth" | "perimeter" | "x" | "y" | "angle" | "roundness" | "holes"
//	         | "mean" | "stddev" | "min" | "max" | "sum"
//	op       = "<" | "<=" | ">" | ">=" | "==" | "!="
//	interval = ( "[" | "(" ) number "," number ( "]" | ")" )
//	unit     = "mm" | "mm2" | "mm²"
//	frame    = the name of another frame in double quotes
//
// or, between regions:
//
//	limit    = ( sum | "all" [ "but" n ] "of" group ) ( op number | "in" interval ) [ unit ]
//	sum      = product { ( "+" | "-" ) product }
//	product  = factor { ( "*" | "/" ) factor }
//	factor   = number [ unit ] | "(" sum ")" | value | ( "largest" | "smallest" ) [ n ] "of" group
//	value    = [ name "." ] [ channel "." ] quantity
//	         | ( "mean" | "slope" | "spread" ) "over" [ "the" ] "last" n [ "parts" ] "of" value
//	         | "count" "of" "failed" "of" [ "the" ] "last" n [ "parts" ]
//	group    = name "." [ channel "." ] quantity
//	name     = the name of a region in double quotes; in a group, * stands for any text
//
// Letters may be of either case, and white space is free between words, numbers and signs. A square bracket takes the
// end in, a round one leaves it out. "below" and "above" are strict. Percentiles (p50, p99.5) are by nearest rank, as
// are the quartiles of iqr; mad is the mean absolute deviation. Skewness and kurtosis have no value where all samples
// are equal: a limit on them fails there. ks, wasserstein, js and chisquare are distances from the region's
// [Reference], which it must have. Quantities with dx and dy are of pairs of pixels, the second dx columns to the right
// of the first and dy rows below: see [TextureValue]. They have no value, and limits on them fail, where there is no
// such pair, and a correlation where all levels are equal. Quantities from autocorrelation on are of a [Correlation]: a
// coefficient, or a covariance.
//
// Quantities of covered are of pixels weighted by the share of them that the region covers, see [CoveredValue];
// covered.count is the region's area in the frame.
//
// width and height are of the region's bounds, centroid of its pixels, weighted is the centroid weighted by the
// samples, min and max are the centres of the first pixels with these values. Lengths, positions and areas (area,
// count, count of pixels) are in pixels, and with a unit in mm and mm², by the [Scale] that the set must have then; in
// an expression with a unit all of them are.
//
// The last four lines of a factor but one are over the last n parts of a stream, see [Parts]: the mean of a value, its
// least-squares slope by the number of the part, its greatest less its least, and how many parts failed.
//
// Examples: "mean in [90, 140]", "p99 < 200", "r.max <= 250", "count of pixels below 40 <= 25", "coverage == 1".
//
// Channels from gray on are derived from colours, see [Colors]. hue has mean, variance, stddev, mode, distinct, entropy
// and count of pixels; an interval of its mean, its mode or its pixels may lead through 0: "hue.mean in [350, 20]".
//
// count, area, coverage, width, height and centroid are of the region and take no channel. The other quantities are of
// a channel; without one, every channel except alpha has to satisfy the limit. Quantities are rounded to float64 once
// and compared with the number as it reads.
//
// Errors are [*LimitError].
func ParseLimit(expr string) (Limit, error) {
	if len(expr) > MaxLimit {
		return Limit{}, tooLong(expr)
	}
	p := limitParser{src: expr}
	p.next()
	l, err := p.limit()
	if err != nil {
		return Limit{}, err
	}
	l.expr = expr
	return l, nil
}

func tooLong(expr string) error {
	return &LimitError{Expression: expr, Column: MaxLimit + 1,
		Expected: fmt.Sprintf("the expression has %d bytes: the limit is %d", len(expr), MaxLimit)}
}

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenWord
	tokenNumber
	tokenSign // operators, brackets, comma, dot
	tokenString
	tokenBad
)

type limitParser struct {
	src  string
	pos  int // behind the token
	at   int // where the token starts
	kind tokenKind
	text string // lower case for words

	circle bool // numbers are angles, and intervals of them may lead through 0
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// peek is the byte n behind the token's end, or 0.
func (p *limitParser) peek(n int) byte {
	if p.pos+n < len(p.src) {
		return p.src[p.pos+n]
	}
	return 0
}

func (p *limitParser) next() {
	for strings.IndexByte(" \t\r\n", p.peek(0)) >= 0 {
		p.pos++
	}
	p.at = p.pos
	c := p.peek(0)
	switch {
	case p.pos == len(p.src):
		p.kind = tokenEnd
	case isLetter(c):
		p.kind = tokenWord
		for isLetter(p.peek(0)) {
			p.pos++
		}
	case isDigit(c), (c == '-' || c == '+') && (isDigit(p.peek(1)) || p.peek(1) == '.' && isDigit(p.peek(2))),
		c == '.' && isDigit(p.peek(1)):
		p.kind = tokenNumber
		p.number()
	case c == '<' || c == '>' || c == '=' || c == '!':
		p.kind = tokenSign
		p.pos++
		if p.peek(0) == '=' {
			p.pos++
		}
	case strings.IndexByte("[](),.+-*/", c) >= 0:
		p.kind = tokenSign
		p.pos++
	case c == '"' && strings.IndexByte(p.src[p.pos+1:], '"') >= 0:
		p.kind = tokenString
		p.pos += 2 + strings.IndexByte(p.src[p.pos+1:], '"')
	default:
		p.kind = tokenBad
		p.pos++
		for p.pos < len(p.src) && p.src[p.pos]&0xC0 == 0x80 { // the rest of a UTF-8 sequence
			p.pos++
		}
	}
	p.text = strings.ToLower(p.src[p.at:p.pos])
}

// number moves pos behind a decimal number. strconv would take more (hexadecimal, underscores, infinities).
func (p *limitParser) number() {
	if c := p.peek(0); c == '-' || c == '+' {
		p.pos++
	}
	p.decimal()
	if p.peek(0)|0x20 == 'e' {
		n := 1
		if c := p.peek(n); c == '-' || c == '+' {
			n++
		}
		if isDigit(p.peek(n)) {
			p.pos += n
			for isDigit(p.peek(0)) {
				p.pos++
			}
		}
	}
}

// decimal moves pos behind digits with an optional fraction.
func (p *limitParser) decimal() {
	for isDigit(p.peek(0)) {
		p.pos++
	}
	if p.peek(0) == '.' {
		p.pos++
		for isDigit(p.peek(0)) {
			p.pos++
		}
	}
}

func (p *limitParser) fail(expected string) error {
	found := "the end"
	if p.kind != tokenEnd {
		found = strconv.Quote(p.src[p.at:p.pos])
	}
	return &LimitError{Expression: p.src, Column: p.at + 1, Expected: expected, Found: found}
}

func (p *limitParser) failAt(at int, format string, args ...any) error {
	return &LimitError{Expression: p.src, Column: at + 1, Expected: fmt.Sprintf(format, args...)}
}

// word takes the word w if it is next.
func (p *limitParser) word(w string) bool {
	if p.kind == tokenWord && p.text == w {
		p.next()
		return true
	}
	return false
}

func (p *limitParser) sign(s string) bool {
	if p.kind == tokenSign && p.text == s {
		p.next()
		return true
	}
	return false
}

// colorAxes are the channels of spaces that limits spell with a dot.
var colorAxes = map[string]map[string]Channel{
	"lab":    {"l": LabL, "a": LabA, "b": LabB},
	"matrix": {"x": MatrixX, "y": MatrixY, "z": MatrixZ},
}

var limitChannels = map[string]Channel{
	"r": Red, "red": Red, "g": Green, "green": Green, "b": Blue, "blue": Blue, "a": Alpha, "alpha": Alpha,
	"gray": Gray, "grey": Gray, "hue": Hue, "saturation": Saturation, "value": Value,
	"gradient": Gradient, "laplacian": Laplacian,
}

const expectedQuantity = "count, area, coverage, sum, mean, variance, stddev, min, max, median, mode, distinct, " +
	"skewness, kurtosis, entropy, mad, iqr, ks, wasserstein, js, chisquare, width, height, x or y of " +
	"centroid, weighted, min, max or plane, plane.residual, a percentile such as p99, contrast, homogeneity, " +
	"energy, correlation or entropy of pairs such as (1,0), autocorrelation or autocovariance at a lag such " +
	"as (8,0), radial(r), covariance(channel), ncc or covariance of a frame, count, sum, mean, variance or " +
	"stddev of covered, blobs, max blob or sum blob, or count of pixels below, above or in"

const expectedChannel = "r, g, b, a, gray, gray709, hue, saturation, value, lab.l, lab.a, lab.b, matrix.x, matrix.y, " +
	"matrix.z, gradient, laplacian"

func (p *limitParser) limit() (l Limit, err error) {
	start := *p
	if p.beginsExpression() {
		err = p.expression(&l)
	} else if err = p.measured(&l); err == nil && (p.kind == tokenSign || p.kind == tokenNumber) &&
		strings.IndexByte("+-*/", p.text[0]) >= 0 {
		*p, l = start, Limit{}
		err = p.expression(&l)
	}
	if err != nil {
		return l, err
	}
	if err = p.condition(&l); err != nil {
		return l, err
	}
	behind := p.at
	l.unit = p.unit(&l)
	if p.kind != tokenEnd {
		return l, p.fail("the end of the limit")
	}
	return l, p.checkUnits(&l, behind)
}

// beginsExpression says that no quantity begins like this, but an expression.
func (p *limitParser) beginsExpression() bool {
	switch p.kind {
	case tokenString, tokenNumber:
		return true
	case tokenWord:
		return p.text == "all" || p.text == "largest" || p.text == "smallest" || p.aheadOver()
	}
	return p.kind == tokenSign && p.text == "("
}

// dot takes a dot, which may cling to a number.
func (p *limitParser) dot() bool {
	if p.kind == tokenNumber && strings.HasPrefix(p.text, ".") {
		p.kind, p.text, p.pos = tokenSign, ".", p.at+1
	}
	return p.sign(".")
}

// measured reads what a limit is about.
func (p *limitParser) measured(l *Limit) error {
	start := p.at
	if p.aheadBlobs() {
		return p.blobs(l)
	}
	if c, ok := limitChannels[p.text]; ok && p.kind == tokenWord {
		word := *p
		if c == Gray && strings.HasPrefix(p.src[p.pos:], "709") {
			c, p.pos = Gray709, p.pos+len("709")
		}
		p.next()
		if !p.dot() {
			return p.fail(fmt.Sprintf("%q behind the channel %s", ".", strconv.Quote(word.src[word.at:word.pos])))
		}
		l.channel = c
	} else if axes, ok := colorAxes[p.text]; ok && p.kind == tokenWord {
		space := p.text
		p.next()
		if !p.dot() {
			return p.fail(fmt.Sprintf("%q behind %s", ".", space))
		}
		c, ok := axes[p.text]
		if !ok || p.kind != tokenWord {
			return p.fail(fmt.Sprintf("a channel of %s", space))
		}
		l.channel = c
		p.next()
		if !p.dot() {
			return p.fail(fmt.Sprintf("%q behind the channel %s", ".", strconv.Quote(c.String())))
		}
	}
	if err := p.quantity(l); err != nil {
		return err
	}
	if l.channel != NoChannel && l.quantity.ofRegion() {
		return p.failAt(start, "%s is of the region and has no channel", l.spelled)
	}
	switch weighted := l.quantity == quantityWeightedX || l.quantity == quantityWeightedY; {
	case l.channel == Hue && !l.quantity.ofHue():
		return p.failAt(start, "hue is an angle: it has mean, variance, stddev, mode, distinct, entropy and count of pixels")
	case l.channel.isDerived() && l.quantity.ofPairs():
		return p.failAt(start, "pairs are of the frame's own channels")
	case l.channel.isDerived() && l.quantity.covered():
		return p.failAt(start, "covered pixels are of the frame's own channels")
	case weighted && l.channel.signed():
		return p.failAt(start, "%v may be negative: it is no weight", l.channel)
	}
	return nil
}

func (p *limitParser) quantity(l *Limit) error {
	if p.kind != tokenWord {
		if l.channel == NoChannel {
			return p.fail("a quantity (" + expectedQuantity + ") or a channel (" + expectedChannel + ")")
		}
		return p.fail("a quantity (" + expectedQuantity + ")")
	}
	if p.text == "p" && isDigit(p.peek(0)) {
		return p.percentile(l)
	}
	if p.text == "covered" {
		p.next()
		if !p.sign(".") {
			return p.fail(`"." behind covered`)
		}
		q, ok := coveredQuantities[p.text]
		if !ok || p.kind != tokenWord {
			return p.fail("count, sum, mean, variance or stddev")
		}
		l.quantity, l.spelled = q, "covered."+p.text
		p.next()
		return nil
	}
	if ok, err := p.correlation(l); ok {
		return err
	}
	pair, isPair := pairQuantities[p.text]
	q, ok := quantities[p.text]
	if isPair && (!ok || p.peekSign() == '(') {
		return p.pair(l, pair)
	}
	xy, has := coordinates[p.text]
	if !ok && !has {
		return p.fail("a quantity (" + expectedQuantity + ")")
	}
	l.quantity, l.spelled = q, p.text
	p.next()
	if has && p.sign(".") {
		switch {
		case p.word("x"):
			l.quantity, l.spelled = xy[0], l.spelled+".x"
		case p.word("y"):
			l.quantity, l.spelled = xy[1], l.spelled+".y"
		case xy[0] == quantityPlaneX && p.word("residual"):
			l.quantity, l.spelled = quantityPlaneResidual, l.spelled+".residual"
		case xy[0] == quantityPlaneX:
			return p.fail(`"x", "y" or "residual"`)
		default:
			return p.fail(`"x" or "y"`)
		}
		return nil
	}
	if !ok {
		return p.fail(`".x" or ".y"`)
	}
	if q != quantityCount || !p.word("of") {
		return nil
	}
	if !p.word("pixels") {
		return p.fail(`"pixels"`)
	}
	l.quantity = quantityPixels
	p.circle = l.channel == Hue
	defer func() { p.circle = false }()
	from := p.at
	switch {
	case p.word("below"):
		v, err := p.value()
		if err != nil {
			return err
		}
		l.pixels = interval{lo: math.Inf(-1), hi: v, openHi: true}
	case p.word("above"):
		v, err := p.value()
		if err != nil {
			return err
		}
		l.pixels = interval{lo: v, hi: math.Inf(1), openLo: true}
	case p.word("in"):
		var err error
		l.pixels, err = p.interval()
		if err != nil {
			return err
		}
	default:
		return p.fail(`"below", "above" or "in"`)
	}
	l.spelled = "count of pixels " + strings.ToLower(strings.TrimSpace(p.src[from:p.at]))
	return nil
}

// peekSign is the byte that the next token begins with, or 0.
func (p *limitParser) peekSign() byte {
	n := 0
	for strings.IndexByte(" \t\r\n", p.peek(n)) >= 0 {
		n++
	}
	return p.peek(n)
}

// pair reads the offset of a quantity of pairs.
func (p *limitParser) pair(l *Limit, q quantity) error {
	l.quantity, l.spelled = q, p.text
	p.next()
	at := p.at
	var err error
	if l.offset, err = p.offset("the offset of a pair of pixels, such as (1,0)"); err != nil {
		return err
	}
	if why := l.offset.wrong(); why != "" {
		return p.failAt(at, "the offset %v %s", l.offset, why)
	}
	l.spelled += l.offset.String()
	return nil
}

// offset reads (dx,dy), which is what.
func (p *limitParser) offset(what string) (o Offset, err error) {
	if !p.sign("(") {
		return o, p.fail(`"(" and ` + what)
	}
	for i, to := range []*int{&o.DX, &o.DY} {
		n, err := strconv.Atoi(p.text)
		if p.kind != tokenNumber || err != nil {
			return o, p.fail("a whole number of pixels")
		}
		*to = n
		p.next()
		if end := [2]string{",", ")"}[i]; !p.sign(end) {
			return o, p.fail(strconv.Quote(end))
		}
	}
	return o, nil
}

// correlation reads a quantity of a correlation, if one is next: autocorrelation and autocovariance with a lag, radial
// with a distance, correlation and covariance with another channel, ncc and covariance of another frame.
func (p *limitParser) correlation(l *Limit) (bool, error) {
	word, c := p.text, &l.correlation
	l.quantity = quantityCoefficient
	at, err := p.at, error(nil)
	switch word {
	case "autocovariance", "covariance":
		l.quantity = quantityCovariance
	case "autocorrelation", "radial", "ncc":
	case "correlation": // of levels, unless it is of a channel
		q := *p
		q.next()
		if q.next(); q.kind != tokenWord {
			return false, nil
		}
	default:
		return false, nil
	}
	p.next()
	switch word {
	case "autocorrelation", "autocovariance":
		c.Kind = Lagged
		at = p.at
		c.Offset, err = p.offset("a lag, such as (8,0)")
	case "radial":
		c.Kind = Radial
		err = p.inBrackets("a distance, such as (5)", func() (err error) {
			at = p.at
			c.Radius, err = p.whole()
			return err
		})
	case "ncc":
		err = p.ofFrame(c)
	default:
		if word == "covariance" && p.kind == tokenWord {
			err = p.ofFrame(c)
			break
		}
		c.Kind = Crossed
		err = p.inBrackets("another channel, such as (g)", func() error {
			with, ok := limitChannels[p.text]
			if !ok || p.kind != tokenWord || with.isDerived() && with != Gray {
				return p.fail("one of the frame's own channels: r, g, b or a")
			}
			c.With = with
			p.next()
			return nil
		})
	}
	if err != nil {
		return true, err
	}
	if why := c.wrong(); why != "" {
		return true, p.failAt(at, "%s %s", c.spelled(l.quantity), why)
	}
	l.spelled = c.spelled(l.quantity)
	return true, nil
}

// inBrackets reads what f does between brackets.
func (p *limitParser) inBrackets(what string, f func() error) error {
	if !p.sign("(") {
		return p.fail(`"(" and ` + what)
	}
	if err := f(); err != nil {
		return err
	}
	if !p.sign(")") {
		return p.fail(`")"`)
	}
	return nil
}

// ofFrame reads the frame that the second pixels are of, and the shift.
func (p *limitParser) ofFrame(c *Correlation) (err error) {
	c.Kind = Framed
	if !p.word("of") {
		return p.fail(`"of" and a frame, such as "golden"`)
	}
	switch {
	case p.word("the"):
		if !p.word("frame") {
			return p.fail(`"frame before"`)
		}
		if !p.word("before") {
			return p.fail(`"before"`)
		}
	case p.kind != tokenString || p.pos-p.at == 2:
		return p.fail(`the name of a frame in double quotes, or "the frame before"`)
	default:
		c.Frame = p.src[p.at+1 : p.pos-1]
		p.next()
	}
	if !p.word("at") {
		return nil
	}
	c.Offset, err = p.offset("a shift, such as (0,0)")
	return err
}

func (p *limitParser) percentile(l *Limit) error {
	at := p.at
	from := p.pos
	p.decimal()
	text := p.src[from:p.pos]
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v > 100 {
		return p.failAt(from, "percentile %s is above 100", text)
	}
	l.quantity, l.percent = quantityPercentile, exact.Percent(v)
	l.spelled = strings.ToLower(p.src[at:p.pos])
	p.next()
	return nil
}

func (p *limitParser) value() (float64, error) {
	if p.kind != tokenNumber {
		return 0, p.fail("a number")
	}
	v, err := strconv.ParseFloat(p.text, 64)
	if err != nil {
		return 0, p.failAt(p.at, "number %s is out of range", p.text)
	}
	if p.circle && (v < 0 || v > 360) {
		return 0, p.failAt(p.at, "a hue is 0 to 360")
	}
	p.next()
	return v + 0, nil
}

func (p *limitParser) interval() (i interval, err error) {
	at := p.at
	switch {
	case p.sign("["):
	case p.sign("("):
		i.openLo = true
	default:
		return i, p.fail(`"[" or "("`)
	}
	if i.lo, err = p.value(); err != nil {
		return i, err
	}
	if !p.sign(",") {
		return i, p.fail(`","`)
	}
	if i.hi, err = p.value(); err != nil {
		return i, err
	}
	switch {
	case p.sign("]"):
	case p.sign(")"):
		i.openHi = true
	default:
		return i, p.fail(`"]" or ")"`)
	}
	if i.lo > i.hi && !p.circle || i.lo == i.hi && (i.openLo || i.openHi) {
		return i, p.failAt(at, "the interval from %s to %s holds no number", number(i.lo), number(i.hi))
	}
	return i, nil
}

func (p *limitParser) condition(l *Limit) (err error) {
	if p.word("in") {
		l.op = opIn
		p.circle = l.channel == Hue && (l.quantity == quantityMean || l.quantity == quantityMode)
		l.want, err = p.interval()
		p.circle = false
		return err
	}
	op, ok := operators[p.text]
	if !ok || p.kind != tokenSign {
		return p.fail(expectedCondition)
	}
	p.next()
	v, err := p.value()
	if err != nil {
		return err
	}
	l.op = op
	switch op {
	case opLess:
		l.want = interval{lo: math.Inf(-1), hi: v, openHi: true}
	case opLessEqual:
		l.want = interval{lo: math.Inf(-1), hi: v}
	case opGreater:
		l.want = interval{lo: v, hi: math.Inf(1), openLo: true}
	case opGreaterEqual:
		l.want = interval{lo: v, hi: math.Inf(1)}
	default:
		l.want = interval{lo: v, hi: v}
	}
	return nil
}

// expectedCondition lists operators in the order of their constants.
var expectedCondition = func() string {
	names := make([]string, 0, len(operators))
	for name := range operators {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return int(operators[a]) - int(operators[b]) })
	return strings.Join(names, ", ") + ` or "in"`
}()
