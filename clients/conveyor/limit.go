package main

// Limits as the oracle reads and holds them.

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// limit is a condition on a quantity.
type limit struct {
	channel  polyscanv1.Channel // UNSPECIFIED: all but alpha
	quantity string
	percent  *big.Rat // of quantity "p"
	pixels   span     // of quantity "pixels"
	want     span
	not      bool
}

// span is an interval.
type span struct {
	lo, hi         float64
	openLo, openHi bool
}

func (s span) holds(v float64) bool {
	return (v > s.lo || !s.openLo && v == s.lo) && (v < s.hi || !s.openHi && v == s.hi)
}

var limitPattern = regexp.MustCompile(`^(?:(r|g|b|a|red|green|blue|alpha|gray|grey)\.)?` +
	`(countofpixels(?:below|above)` + number + `|countofpixelsin` + interval +
	`|count|area|coverage|sum|mean|variance|stddev|min|max|median|mode|distinct|p[0-9.]+)` +
	`(<=|>=|==|!=|<|>|in)(.*)$`)

const (
	number   = `[-+]?[0-9.]+(?:e[-+]?[0-9]+)?`
	interval = `[[(][^\])]*[\])]`
)

var channelNames = map[string]polyscanv1.Channel{
	"":     polyscanv1.Channel_CHANNEL_UNSPECIFIED,
	"gray": polyscanv1.Channel_CHANNEL_GRAY, "grey": polyscanv1.Channel_CHANNEL_GRAY,
	"r": polyscanv1.Channel_CHANNEL_RED, "red": polyscanv1.Channel_CHANNEL_RED,
	"g": polyscanv1.Channel_CHANNEL_GREEN, "green": polyscanv1.Channel_CHANNEL_GREEN,
	"b": polyscanv1.Channel_CHANNEL_BLUE, "blue": polyscanv1.Channel_CHANNEL_BLUE,
	"a": polyscanv1.Channel_CHANNEL_ALPHA, "alpha": polyscanv1.Channel_CHANNEL_ALPHA,
}

// parseLimit reads the grammar of docs/regions.md.
func parseLimit(text string) (limit, error) {
	m := limitPattern.FindStringSubmatch(strings.ToLower(strings.Join(strings.Fields(text), "")))
	if m == nil {
		return limit{}, fmt.Errorf("limit %q: the oracle can't read it", text)
	}
	l := limit{channel: channelNames[m[1]], quantity: m[2]}
	var err error
	rest, pixels := strings.CutPrefix(m[2], "countofpixels")
	switch {
	case pixels:
		l.quantity = "pixels"
		for _, w := range []string{"below", "above", "in"} {
			if arg, ok := strings.CutPrefix(rest, w); ok {
				l.pixels, _, err = parseSpan(map[string]string{"below": "<", "above": ">", "in": "in"}[w], arg)
			}
		}
	case m[2][0] == 'p':
		l.quantity = "p"
		var ok bool
		if l.percent, ok = new(big.Rat).SetString(m[2][1:]); !ok {
			err = fmt.Errorf("percentile %q", m[2])
		}
	}
	if err == nil {
		l.want, l.not, err = parseSpan(m[3], m[4])
	}
	if err != nil {
		return limit{}, fmt.Errorf("limit %q: the oracle can't read it: %w", text, err)
	}
	return l, nil
}

// parseSpan reads an operator and its number or interval.
func parseSpan(op, arg string) (s span, not bool, err error) {
	s = span{lo: math.Inf(-1), hi: math.Inf(1)}
	if op == "in" {
		if len(arg) < 2 || !strings.ContainsAny(arg[:1], "[(") || !strings.ContainsAny(arg[len(arg)-1:], "])") {
			return s, false, fmt.Errorf("interval %q", arg)
		}
		lo, hi, ok := strings.Cut(arg[1:len(arg)-1], ",")
		if !ok {
			return s, false, fmt.Errorf("interval %q", arg)
		}
		if s.lo, err = strconv.ParseFloat(lo, 64); err != nil {
			return s, false, err
		}
		s.hi, err = strconv.ParseFloat(hi, 64)
		s.openLo, s.openHi = arg[0] == '(', arg[len(arg)-1] == ')'
		return s, false, err
	}
	v, err := strconv.ParseFloat(arg, 64)
	switch op {
	case "<", "<=":
		s.hi, s.openHi = v, op == "<"
	case ">", ">=":
		s.lo, s.openLo = v, op == ">"
	case "==", "!=":
		s.lo, s.hi = v, v
	}
	return s, op == "!=", err
}

// holds measures and compares.
func (l *limit) holds(s *shape, r *regionNumbers) bool {
	ok := func(v float64) bool { return l.want.holds(v) != l.not }
	switch l.quantity {
	case "count":
		return ok(float64(r.count))
	case "area":
		return ok(s.area)
	case "coverage":
		if s.inside == 0 {
			return ok(1)
		}
		return ok(float64(s.pixels()) / float64(s.inside))
	}
	for i := range r.channels {
		c := &r.channels[i]
		if l.channel == polyscanv1.Channel_CHANNEL_UNSPECIFIED && c.channel == polyscanv1.Channel_CHANNEL_ALPHA ||
			l.channel != polyscanv1.Channel_CHANNEL_UNSPECIFIED && l.channel != c.channel {
			continue
		}
		v, measured := l.measure(c)
		if !measured || !ok(v) {
			return false
		}
	}
	return true
}

// pixels is how many pixels of the region lie in the part.
func (s *shape) pixels() uint64 {
	n := uint64(0)
	for _, row := range s.rows {
		for _, x := range row.spans {
			n += uint64(x[1] - x[0])
		}
	}
	return n
}

// measure is the value of the quantity; false where a region without pixels has none.
func (l *limit) measure(c *channelNumbers) (float64, bool) {
	count, sum, _ := c.totals()
	switch l.quantity {
	case "sum":
		return float64(sum), true
	case "pixels":
		n := uint64(0)
		for v, k := range c.counts {
			if l.pixels.holds(float64(v)) {
				n += k
			}
		}
		return float64(n), true
	case "distinct":
		return float64(len(c.counts)), true
	}
	if count == 0 {
		return 0, false
	}
	values := c.values()
	// ranked is the sample of a rank from 1 in ascending order.
	ranked := func(rank uint64) float64 {
		for _, v := range values {
			if k := c.counts[v]; rank <= k {
				return float64(v)
			} else {
				rank -= k
			}
		}
		return math.NaN()
	}
	switch l.quantity {
	case "mean":
		return c.mean(), true
	case "variance":
		v, _ := c.variance().Float64()
		return v, true
	case "stddev":
		return c.stddev(), true
	case "min":
		return float64(values[0]), true
	case "max":
		return float64(values[len(values)-1]), true
	case "median":
		return (ranked((count+1)/2) + ranked(count/2+1)) / 2, true
	case "mode":
		best := values[0]
		for _, v := range values {
			if c.counts[v] > c.counts[best] {
				best = v
			}
		}
		return float64(best), true
	case "p":
		// The rank is percent * count / 100, rounded up, and 1 at least.
		r := new(big.Rat).Mul(l.percent, new(big.Rat).SetFrac64(1, 100))
		r.Mul(r, new(big.Rat).SetInt(new(big.Int).SetUint64(count)))
		rank := new(big.Int).Add(r.Num(), new(big.Int).Sub(r.Denom(), big.NewInt(1)))
		rank.Div(rank, r.Denom())
		return ranked(max(rank.Uint64(), 1)), true
	}
	return math.NaN(), false
}

func ratio(a, b uint64) *big.Rat {
	return new(big.Rat).SetFrac(new(big.Int).SetUint64(a), new(big.Int).SetUint64(b))
}

// mean, variance and stddev are exact until they are rounded to float64, once.
func (n *channelNumbers) mean() float64 {
	count, sum, _ := n.totals()
	v, _ := ratio(sum, count).Float64()
	return v
}

func (n *channelNumbers) variance() *big.Rat {
	count, sum, squares := n.totals()
	mean := ratio(sum, count)
	return new(big.Rat).Sub(ratio(squares, count), mean.Mul(mean, mean))
}

func (n *channelNumbers) stddev() float64 {
	const bits = 400
	v := new(big.Float).SetPrec(bits).SetRat(n.variance())
	f, _ := v.Sqrt(v).Float64()
	return f
}
