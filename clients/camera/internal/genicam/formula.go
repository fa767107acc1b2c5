package genicam

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A number is an integer or a float; formulas of integers compute with integers, those of floats with floats.
type number struct {
	i     int64
	f     float64
	float bool
}

func intOf(i int64) number     { return number{i: i} }
func floatOf(f float64) number { return number{f: f, float: true} }
func truth(b bool) number {
	if b {
		return intOf(1)
	}
	return intOf(0)
}

// asFloat is the number as a float.
func (n number) asFloat() float64 {
	if n.float {
		return n.f
	}
	return float64(n.i)
}

// asInt is the number as an integer: floats are cut off, and held to the range.
func (n number) asInt() int64 {
	switch {
	case !n.float:
		return n.i
	case math.IsNaN(n.f):
		return 0
	case n.f >= math.MaxInt64:
		return math.MaxInt64
	case n.f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(n.f)
}

func (n number) isTrue() bool {
	if n.float {
		return n.f != 0
	}
	return n.i != 0
}

// Bounds of a formula.
const (
	maxFormula      = 1 << 13
	maxFormulaDepth = 64
)

// evaluate computes a formula. lookup gives the value of a name.
func evaluate(text string, integers bool, lookup func(name string) (number, error)) (number, error) {
	if len(text) > maxFormula {
		return number{}, fmt.Errorf("formula of %d bytes: at most %d", len(text), maxFormula)
	}
	p := &formula{rest: text, integers: integers, lookup: lookup}
	p.next()
	v, err := p.choice(true)
	if err == nil && p.token != "" {
		err = fmt.Errorf("%q is too much", p.token)
	}
	if err != nil {
		return number{}, fmt.Errorf("formula %.60q: %w", text, err)
	}
	if integers {
		v = intOf(v.asInt())
	} else {
		v = floatOf(v.asFloat())
	}
	return v, nil
}

// formula computes while it parses. Parts that don't count, such as the other branch of a choice, are parsed all the
// same, and their names aren't looked up.
type formula struct {
	rest     string
	token    string // "" at the end
	depth    int
	integers bool
	lookup   func(string) (number, error)
}

var operators = []string{"**", "<=", ">=", "<>", "<<", ">>", "&&", "||", "==", "!="}

func letter(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// next takes the next token.
func (p *formula) next() {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	n := 0
	switch {
	case p.rest == "":
	case letter(p.rest[0]):
		for n < len(p.rest) && (letter(p.rest[n]) || digit(p.rest[n]) || p.rest[n] == '.') {
			n++
		}
	case digit(p.rest[0]) || p.rest[0] == '.':
		for n < len(p.rest) && (letter(p.rest[n]) || digit(p.rest[n]) || p.rest[n] == '.' ||
			(p.rest[n] == '-' || p.rest[n] == '+') && (p.rest[n-1] == 'e' || p.rest[n-1] == 'E') &&
				!strings.HasPrefix(p.rest, "0x")) {
			n++
		}
	default:
		n = 1
		for _, o := range operators {
			if strings.HasPrefix(p.rest, o) {
				n = len(o)
			}
		}
	}
	p.token, p.rest = p.rest[:n], p.rest[n:]
}

// accept takes a token if it is one of those.
func (p *formula) accept(tokens ...string) string {
	for _, t := range tokens {
		if p.token == t {
			p.next()
			return t
		}
	}
	return ""
}

func (p *formula) choice(live bool) (number, error) {
	if p.depth++; p.depth > maxFormulaDepth {
		return number{}, fmt.Errorf("deeper than %d", maxFormulaDepth)
	}
	defer func() { p.depth-- }()
	v, err := p.binary(0, live)
	if err != nil || p.accept("?") == "" {
		return v, err
	}
	yes, err := p.choice(live && v.isTrue())
	if err != nil {
		return yes, err
	}
	if p.accept(":") == "" {
		return yes, errors.New("a choice without ':'")
	}
	no, err := p.choice(live && !v.isTrue())
	if v.isTrue() {
		return yes, err
	}
	return no, err
}

// levels are the operators, those that bind least first.
var levels = [][]string{
	{"||"}, {"&&"}, {"|"}, {"^"}, {"&"}, {"=", "==", "<>", "!="}, {"<", "<=", ">", ">="}, {"<<", ">>"}, {"+", "-"},
	{"*", "/", "%"},
}

func (p *formula) binary(level int, live bool) (number, error) {
	if level == len(levels) {
		return p.power(live)
	}
	a, err := p.binary(level+1, live)
	for err == nil {
		op := p.accept(levels[level]...)
		if op == "" {
			break
		}
		var b number
		need := live && !(op == "||" && a.isTrue()) && !(op == "&&" && !a.isTrue())
		if b, err = p.binary(level+1, need); err == nil && live {
			a, err = p.apply(op, a, b)
		}
	}
	return a, err
}

func (p *formula) power(live bool) (number, error) {
	a, err := p.unary(live)
	if err != nil || p.accept("**") == "" {
		return a, err
	}
	if p.depth++; p.depth > maxFormulaDepth {
		return a, fmt.Errorf("deeper than %d", maxFormulaDepth)
	}
	b, err := p.power(live)
	p.depth--
	if err != nil || !live {
		return a, err
	}
	v := floatOf(math.Pow(a.asFloat(), b.asFloat()))
	if p.integers {
		return intOf(v.asInt()), nil
	}
	return v, nil
}

func (p *formula) unary(live bool) (number, error) {
	if p.depth++; p.depth > maxFormulaDepth {
		return number{}, fmt.Errorf("deeper than %d", maxFormulaDepth)
	}
	defer func() { p.depth-- }()
	switch op := p.accept("-", "+", "~", "!"); op {
	case "":
		return p.primary(live)
	default:
		v, err := p.unary(live)
		switch {
		case err != nil:
		case op == "~":
			v = intOf(^v.asInt())
		case op == "!":
			v = truth(!v.isTrue())
		case op == "-" && v.float:
			v.f = -v.f
		case op == "-":
			v.i = -v.i
		}
		return v, err
	}
}

func (p *formula) primary(live bool) (number, error) {
	t := p.token
	switch {
	case t == "":
		return number{}, errors.New("it ends early")
	case p.accept("(") != "":
		v, err := p.choice(live)
		if err == nil && p.accept(")") == "" {
			err = errors.New("')' is missing")
		}
		return v, err
	case digit(t[0]) || t[0] == '.':
		p.next()
		return parseNumber(t, p.integers)
	case !letter(t[0]):
		return number{}, fmt.Errorf("%q is no value", t)
	}
	p.next()
	if p.token == "(" && functions[strings.ToUpper(t)] != nil {
		p.next()
		v, err := p.choice(live)
		if err == nil && p.accept(",") != "" { // ROUND has a second argument: how many digits
			var digits number
			digits, err = p.choice(live)
			if !strings.EqualFold(t, "ROUND") {
				return v, fmt.Errorf("%s takes one argument", t)
			}
			scale := math.Pow(10, float64(digits.asInt()))
			v = floatOf(math.Round(v.asFloat()*scale) / scale)
		} else if err == nil {
			v = functions[strings.ToUpper(t)](v)
		}
		if err == nil && p.accept(")") == "" {
			err = errors.New("')' is missing")
		}
		return v, err
	}
	if !live {
		return number{}, nil
	}
	v, err := p.lookup(t)
	if err != nil {
		switch t {
		case "PI":
			return floatOf(math.Pi), nil
		case "E":
			return floatOf(math.E), nil
		}
		return v, err
	}
	if p.integers {
		return intOf(v.asInt()), nil
	}
	return floatOf(v.asFloat()), nil
}

// parseNumber reads a number of a formula or a description: decimal, 0x, or a float where integers isn't set.
func parseNumber(t string, integers bool) (number, error) {
	if i, err := strconv.ParseInt(t, 0, 64); err == nil && (len(t) < 2 || t[0] != '0' || !digit(t[1])) {
		return intOf(i), nil
	}
	if hex, ok := strings.CutPrefix(strings.ToLower(t), "0x"); ok { // with the highest bit set
		if u, err := strconv.ParseUint(hex, 16, 64); err == nil {
			return intOf(int64(u)), nil
		}
	}
	if i, err := strconv.ParseInt(t, 10, 64); err == nil {
		return intOf(i), nil
	}
	f, err := strconv.ParseFloat(t, 64)
	if err != nil {
		return number{}, fmt.Errorf("%q is no number", t)
	}
	if integers {
		return intOf(floatOf(f).asInt()), nil
	}
	return floatOf(f), nil
}

var functions = map[string]func(number) number{
	"NEG": func(v number) number {
		if v.float {
			return floatOf(-v.f)
		}
		return intOf(-v.i)
	},
	"ABS": func(v number) number {
		if v.float {
			return floatOf(math.Abs(v.f))
		}
		return intOf(max(v.i, -v.i))
	},
	"SGN": func(v number) number {
		switch f := v.asFloat(); {
		case f > 0:
			return intOf(1)
		case f < 0:
			return intOf(-1)
		}
		return intOf(0)
	},
	"SQRT": of(math.Sqrt), "TRUNC": of(math.Trunc), "FLOOR": of(math.Floor), "CEIL": of(math.Ceil),
	"ROUND": of(math.Round),
	"SIN":   of(math.Sin), "COS": of(math.Cos), "TAN": of(math.Tan), "ASIN": of(math.Asin), "ACOS": of(math.Acos),
	"ATAN": of(math.Atan), "LN": of(math.Log), "LG": of(math.Log10), "EXP": of(math.Exp),
}

func of(f func(float64) float64) func(number) number {
	return func(v number) number { return floatOf(f(v.asFloat())) }
}

func (p *formula) apply(op string, a, b number) (number, error) {
	float := !p.integers && (a.float || b.float || op == "/")
	compare := func(less, equal bool) (number, error) {
		switch op {
		case "<":
			return truth(less), nil
		case "<=":
			return truth(less || equal), nil
		case ">":
			return truth(!less && !equal), nil
		case ">=":
			return truth(!less), nil
		case "=", "==":
			return truth(equal), nil
		}
		return truth(!equal), nil
	}
	switch op {
	case "||":
		return truth(a.isTrue() || b.isTrue()), nil
	case "&&":
		return truth(a.isTrue() && b.isTrue()), nil
	case "<", "<=", ">", ">=", "=", "==", "<>", "!=":
		if float {
			return compare(a.asFloat() < b.asFloat(), a.asFloat() == b.asFloat())
		}
		return compare(a.asInt() < b.asInt(), a.asInt() == b.asInt())
	case "|":
		return intOf(a.asInt() | b.asInt()), nil
	case "^":
		return intOf(a.asInt() ^ b.asInt()), nil
	case "&":
		return intOf(a.asInt() & b.asInt()), nil
	case "<<", ">>":
		n := b.asInt()
		if n < 0 {
			return number{}, fmt.Errorf("a shift by %d", n)
		}
		if op == "<<" {
			return intOf(a.asInt() << uint64(n)), nil
		}
		return intOf(a.asInt() >> uint64(n)), nil
	}
	if float {
		x, y := a.asFloat(), b.asFloat()
		switch op {
		case "+":
			return floatOf(x + y), nil
		case "-":
			return floatOf(x - y), nil
		case "*":
			return floatOf(x * y), nil
		case "%":
			return floatOf(math.Mod(x, y)), nil
		}
		return floatOf(x / y), nil
	}
	x, y := a.asInt(), b.asInt()
	switch op {
	case "+":
		return intOf(x + y), nil
	case "-":
		return intOf(x - y), nil
	case "*":
		return intOf(x * y), nil
	}
	if y == 0 {
		return number{}, errors.New("a division by 0")
	}
	if y == -1 { // the least integer has no negative
		if op == "%" {
			return intOf(0), nil
		}
		return intOf(-x), nil
	}
	if op == "%" {
		return intOf(x % y), nil
	}
	return intOf(x / y), nil
}
