package main

// Limits as marks on a histogram: where on the axis of values a limit begins and ends.

import (
	"image/color"
	"math"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// span is what a limit allows on the axis of values.
type span struct {
	lo, hi  float64 // infinite where open
	value   float64 // measured; NaN if there is none
	label   string  // the quantity
	channel polyscanv1.Channel
	failed  bool
}

// A limit on a quantity that is itself a sample value. Others (counts, sums, variances) have no place on the axis and
// match nothing.
var markable = regexp.MustCompile(`^(?:(?:r|g|b|a|red|green|blue|alpha|gray|grey)\s*\.\s*)?` +
	`(mean|min|max|median|mode|p[0-9.]+)\s*` +
	`(?:(<=|>=|==|!=|<|>)\s*([-+0-9.e]+)|in\s*[\[(]\s*([-+0-9.e]+)\s*,\s*([-+0-9.e]+)\s*[\])])$`)

// spanOf reads a limit that the server has evaluated, and so has the grammar of limits. It reports false for one that
// can't be marked.
func spanOf(l *polyscanv1.LimitResult) (span, bool) {
	m := markable.FindStringSubmatch(strings.ToLower(strings.TrimSpace(l.GetExpression())))
	if m == nil {
		return span{}, false
	}
	s := span{lo: math.Inf(-1), hi: math.Inf(1), value: math.NaN(), label: m[1], channel: l.GetChannel(),
		failed: l.GetVerdict() == polyscanv1.Verdict_VERDICT_FAIL}
	if l.Value != nil {
		s.value = l.GetValue()
	}
	num := func(t string) float64 {
		v, err := strconv.ParseFloat(t, 64)
		if err != nil {
			return math.NaN()
		}
		return v
	}
	switch m[2] {
	case "<", "<=":
		s.hi = num(m[3])
	case ">", ">=":
		s.lo = num(m[3])
	case "==":
		s.lo = num(m[3])
		s.hi = s.lo
	case "!=":
		return span{}, false
	default:
		s.lo, s.hi = num(m[4]), num(m[5])
	}
	return s, !math.IsNaN(s.lo) && !math.IsNaN(s.hi)
}

// marks draws limits over a histogram: dashed lines at the bounds, a bar between them along the top, and a triangle at
// the value that was measured.
type marks []span

func limitMarks(g *polyscanv1.RegionResult) marks {
	var out marks
	for _, l := range g.GetLimits() {
		if s, ok := spanOf(l); ok && len(out) < maxMarks {
			out = append(out, s)
		}
	}
	return out
}

// maxMarks is how many limits a panel has room for.
const maxMarks = 4

// Plot implements plot.Plotter.
func (m marks) Plot(c draw.Canvas, p *plot.Plot) {
	tx, _ := p.Transforms(&c)
	left, right := c.Min.X, c.Max.X
	clamp := func(v float64) vg.Length {
		switch {
		case v <= p.X.Min:
			return left
		case v >= p.X.Max:
			return right
		}
		return tx(v)
	}
	for i, s := range m {
		col := color.NRGBA(plotPass)
		if s.failed {
			col = plotFail
		}
		y := c.Max.Y - vg.Length(6+12*i)
		a, b := clamp(s.lo), clamp(s.hi)
		bar := col
		bar.A = 0x90
		c.StrokeLine2(draw.LineStyle{Color: bar, Width: 3}, a, y, b, y)
		dash := draw.LineStyle{Color: col, Width: 0.9, Dashes: []vg.Length{3, 2.5}}
		for _, bound := range []float64{s.lo, s.hi} {
			if bound > p.X.Min && bound < p.X.Max {
				x := tx(bound)
				c.StrokeLine2(dash, x, c.Min.Y, x, y)
			}
		}
		if !math.IsNaN(s.value) {
			x := clamp(s.value)
			var t vg.Path
			t.Move(vg.Point{X: x, Y: y - 2})
			t.Line(vg.Point{X: x - 4, Y: y + 5})
			t.Line(vg.Point{X: x + 4, Y: y + 5})
			t.Close()
			c.SetColor(col)
			c.Fill(t)
		}
		style := textStyle(8.5, false, col)
		text := s.label
		if l := channelLetter(s.channel); l != "" {
			text = strings.ToLower(l) + " " + text
		}
		// Beside the bar, on the side with more room.
		w := style.Width(text)
		at := vg.Point{X: b + 4, Y: y - 3}
		mark := vg.Length(math.Inf(-1))
		if !math.IsNaN(s.value) {
			mark = clamp(s.value)
		}
		if at.X < mark+5 && mark > b {
			at.X = mark + 7
		}
		if at.X+w > right {
			at.X = a - 4 - w
			if mark < a && at.X+w > mark-5 {
				at.X = mark - 7 - w
			}
		}
		if at.X < left {
			at = vg.Point{X: (a+b)/2 - w/2, Y: y - 12}
		}
		c.FillText(style, at, text)
	}
}
