package main

// Labels on an overlay: where each goes so that it hides no other label and as little as can be of the regions.

import (
	"math"
	"slices"

	"git.sr.ht/~sbinet/gg"

	"github.com/polyscan/polyscan/clients/internal/cli"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

const (
	// maxLabels is how many labels are tried; a picture with more is nothing but labels.
	maxLabels = 600
	// maxLabelColumns is the longest name shown in full.
	maxLabelColumns = 26
)

// label is a pill with a mark and a name.
type label struct {
	shape *shape
	text  string
	w, h  float64
	at    rect
	lead  bool // far enough away to need a line to its region
}

// drawLabels places and draws the labels: of failed regions first, then of large ones.
func drawLabels(dc *gg.Context, shapes []*shape, w, h int, z sizes) error {
	f, err := face(z.font, false)
	if err != nil {
		return err
	}
	dc.SetFontFace(f)
	order := slices.Clone(shapes)
	slices.SortStableFunc(order, func(a, b *shape) int {
		if r := rank(b.verdict) - rank(a.verdict); r != 0 && (rank(a.verdict) == 2 || rank(b.verdict) == 2) {
			return r
		}
		return cmpFloat(b.bounds.area(), a.bounds.area())
	})
	if len(order) > maxLabels {
		order = order[:maxLabels]
	}
	p := newPlacer(shapes, w, h, z)
	var labels []*label
	for _, sh := range order {
		name := shorten(cli.Printable(sh.name), maxLabelColumns)
		if name == "" {
			continue
		}
		tw, _ := dc.MeasureString(name)
		l := &label{shape: sh, text: name, w: tw + 0.8*z.font, h: 1.42 * z.font}
		if sh.verdict == polyscanv1.Verdict_VERDICT_FAIL || sh.verdict == polyscanv1.Verdict_VERDICT_PASS {
			l.w += 0.95 * z.font // the mark
		}
		if p.place(l) {
			labels = append(labels, l)
		}
	}
	for _, l := range labels {
		if l.lead {
			l.drawLead(dc, z)
		}
	}
	slices.Reverse(labels) // the important on top
	for _, l := range labels {
		l.draw(dc, z)
	}
	return nil
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// drawLead joins a label to its region.
func (l *label) drawLead(dc *gg.Context, z sizes) {
	cx, cy := l.at.centre()
	bx, by, _ := nearestPoint(l.shape.outline, cx, cy)
	ax, ay := l.at.nearest(bx, by)
	dc.MoveTo(ax, ay)
	dc.LineTo(bx, by)
	dc.SetColor(haloColour)
	dc.SetLineWidth(z.line + 1.6*z.halo)
	dc.StrokePreserve()
	dc.SetColor(l.shape.colour.line)
	dc.SetLineWidth(0.8 * z.line)
	dc.Stroke()
}

func (l *label) draw(dc *gg.Context, z sizes) {
	r, c, em := l.at, l.shape.colour, z.font
	dc.DrawRoundedRectangle(r.x0, r.y0, l.w, l.h, 0.34*em)
	dc.SetColor(c.pill)
	dc.FillPreserve()
	edge := c.line
	edge.A = 0xc0
	dc.SetColor(edge)
	dc.SetLineWidth(max(0.06*em, 0.7))
	dc.Stroke()
	x, mid := r.x0+0.4*em, (r.y0+r.y1)/2
	dc.SetLineWidth(0.15 * em)
	switch l.shape.verdict {
	case polyscanv1.Verdict_VERDICT_PASS: // a tick
		dc.SetColor(c.line)
		dc.MoveTo(x+0.02*em, mid+0.04*em)
		dc.LineTo(x+0.24*em, mid+0.27*em)
		dc.LineTo(x+0.64*em, mid-0.27*em)
		dc.Stroke()
		x += 0.95 * em
	case polyscanv1.Verdict_VERDICT_FAIL: // a cross
		dc.SetColor(c.ink)
		dc.DrawLine(x+0.06*em, mid-0.26*em, x+0.58*em, mid+0.26*em)
		dc.Stroke()
		dc.DrawLine(x+0.06*em, mid+0.26*em, x+0.58*em, mid-0.26*em)
		dc.Stroke()
		x += 0.95 * em
	}
	dc.SetColor(c.ink)
	dc.DrawString(l.text, x, mid+0.35*em)
}

// placer knows what of the picture is taken.
type placer struct {
	frame rect
	z     sizes
	taken []rect
	// covered is a summed-area table, by cells, of how much it would hurt to hide a place: 255 for a small region.
	covered    []int64
	cols, rows int
	cell       float64
}

func newPlacer(shapes []*shape, w, h int, z sizes) *placer {
	p := &placer{frame: rect{0, 0, float64(w), float64(h)}.grow(-1), z: z, cell: max(z.font/4, 2)}
	p.cols, p.rows = int(float64(w)/p.cell)+1, int(float64(h)/p.cell)+1
	mask := gg.NewContext(p.cols, p.rows)
	for _, sh := range shapes {
		// Hiding some of a region that is most of the picture does little harm; hiding a small one does.
		weight := min(max(0.01*p.frame.area()/sh.bounds.area(), 0.06), 1)
		mask.SetRGBA(1, 1, 1, weight)
		for _, ring := range sh.rings {
			for i, q := range ring {
				if i == 0 {
					mask.MoveTo(q[0]/p.cell, q[1]/p.cell)
				} else {
					mask.LineTo(q[0]/p.cell, q[1]/p.cell)
				}
			}
			mask.ClosePath()
		}
		mask.SetFillRule(gg.FillRuleWinding)
		if sh.evenOdd {
			mask.SetFillRule(gg.FillRuleEvenOdd)
		}
		mask.Fill()
	}
	alpha := mask.AsMask()
	p.covered = make([]int64, (p.cols+1)*(p.rows+1))
	for y := range p.rows {
		line := int64(0)
		for x := range p.cols {
			line += int64(alpha.Pix[y*alpha.Stride+x])
			p.covered[(y+1)*(p.cols+1)+x+1] = p.covered[y*(p.cols+1)+x+1] + line
		}
	}
	return p
}

// cover is how much it would hurt to hide a rectangle, 0 to 1.
func (p *placer) cover(r rect) float64 {
	at := func(v, limit float64) int { return int(min(max(v/p.cell, 0), limit)) }
	x0, x1 := at(r.x0, float64(p.cols)), at(r.x1+p.cell, float64(p.cols))
	y0, y1 := at(r.y0, float64(p.rows)), at(r.y1+p.cell, float64(p.rows))
	if x0 >= x1 || y0 >= y1 {
		return 0
	}
	n := p.cols + 1
	sum := p.covered[y1*n+x1] - p.covered[y0*n+x1] - p.covered[y1*n+x0] + p.covered[y0*n+x0]
	return float64(sum) / float64(255*(x1-x0)*(y1-y0))
}

// place finds room for a label; a failed region's gets the best there is, others may go without.
func (p *placer) place(l *label) bool {
	b := l.shape.bounds
	cx, cy := b.centre()
	g := p.z.line + p.z.halo + 0.12*p.z.font // between region and label
	w, h := l.w, l.h
	type spot struct{ x, y, cost float64 }
	spots := []spot{
		{b.x0, b.y0 - g - h, 0},     // above, at the left end
		{cx - w/2, b.y0 - g - h, 0}, // above
		{b.x1 - w, b.y0 - g - h, 0.04},
		{cx - w/2, b.y1 + g, 0.03}, // below
		{b.x0, b.y1 + g, 0.04},
		{b.x1 - w, b.y1 + g, 0.05},
		{b.x1 + g, cy - h/2, 0.05}, // right
		{b.x0 - g - w, cy - h/2, 0.06},
		{b.x1 + g, b.y0, 0.07},
		{b.x0 - g - w, b.y0, 0.08},
		{b.x1 + g, b.y1 - h, 0.08},
		{b.x0 - g - w, b.y1 - h, 0.09},
	}
	inside := 0 // spots from here on are inside
	if w+4*g < b.x1-b.x0 && h+4*g < b.y1-b.y0 && w*h < 0.2*b.area() {
		inside = len(spots)
		spots = append(spots,
			spot{b.x0 + 2*g, b.y0 + 2*g, 0.3}, spot{cx - w/2, b.y0 + 2*g, 0.31},
			spot{b.x0 + 2*g, b.y1 - h - 2*g, 0.32}, spot{cx - w/2, b.y1 - h - 2*g, 0.33})
	}
	outside := len(spots) // and from here on outside again
	// Rings of places ever farther away.
	for k := 1; k <= 5; k++ {
		d := float64(k) * 1.15 * h
		for a := range 16 {
			t := 2 * math.Pi * float64(a) / 16
			dx, dy := math.Cos(t), math.Sin(t)
			spots = append(spots, spot{
				cx + dx*((b.x1-b.x0)/2+w/2+d) - w/2,
				cy + dy*((b.y1-b.y0)/2+h/2+d) - h/2,
				0.3 + 0.25*float64(k),
			})
		}
	}
	best, bestCost := rect{}, math.Inf(1)
	for i, s := range spots {
		r := rect{s.x, s.y, s.x + w, s.y + h}
		if !r.in(p.frame) {
			continue
		}
		cost := s.cost
		if inside == 0 || i < inside || i >= outside {
			// Hiding its own region is what a spot inside costs to begin with.
			cost += p.cover(r)
			x, y := r.centre()
			x, y, _ = nearestPoint(l.shape.outline, x, y)
			cost += 0.12 * r.gap(rect{x, y, x, y}) / h
		}
		for _, t := range p.taken {
			if o := r.grow(1).and(t).area(); o > 0 {
				cost += 4 + 8*o/r.area()
			}
		}
		if cost < bestCost {
			best, bestCost = r, cost
		}
	}
	fail := l.shape.verdict == polyscanv1.Verdict_VERDICT_FAIL
	if math.IsInf(bestCost, 1) || bestCost >= 4 && !fail {
		return false
	}
	l.at = best
	x, y := best.centre()
	x, y, _ = nearestPoint(l.shape.outline, x, y)
	l.lead = best.gap(rect{x, y, x, y}) > g+0.6*h
	p.taken = append(p.taken, best)
	return true
}

// outlinePoints is how many points stand for an outline when a label looks for its place.
const outlinePoints = 96

// sampleOutline takes points at equal distances along rings.
func sampleOutline(rings [][][2]float64, n int) [][2]float64 {
	total := 0.0
	each := func(f func(a, b [2]float64, d float64)) {
		for _, ring := range rings {
			for i, b := range ring {
				a := ring[(i+len(ring)-1)%len(ring)]
				f(a, b, math.Hypot(b[0]-a[0], b[1]-a[1]))
			}
		}
	}
	each(func(_, _ [2]float64, d float64) { total += d })
	if total == 0 {
		return [][2]float64{rings[0][0]}
	}
	step := total / float64(n)
	out := make([][2]float64, 0, n+1)
	walked, next := 0.0, 0.0
	each(func(a, b [2]float64, d float64) {
		for ; next < walked+d && len(out) < n; next += step {
			t := (next - walked) / d
			out = append(out, [2]float64{a[0] + t*(b[0]-a[0]), a[1] + t*(b[1]-a[1])})
		}
		walked += d
	})
	return out
}

// nearestPoint is the one of points closest to (x, y), and its distance.
func nearestPoint(points [][2]float64, x, y float64) (px, py, d float64) {
	d = math.Inf(1)
	for _, p := range points {
		if k := math.Hypot(p[0]-x, p[1]-y); k < d {
			px, py, d = p[0], p[1], k
		}
	}
	return px, py, d
}
