package main

// --overlay: the regions over the frame, coloured by verdict.

import (
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"math"
	"slices"

	"git.sr.ht/~sbinet/gg"
	xdraw "golang.org/x/image/draw"

	"github.com/polyscan/polyscan/clients/internal/cli"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// overlayRegion is a region to draw.
type overlayRegion struct {
	name    string
	rings   [][][2]float64 // in pixels of the frame
	evenOdd bool
	verdict polyscanv1.Verdict
	blob    bool // of a region: drawn over all regions
}

// overlay is a picture to make.
type overlay struct {
	frame   image.Image
	regions []overlayRegion
	title   string
	verdict polyscanv1.Verdict
	found   string // what the blobs are; "" says so
	// longest side of the frame in the picture, in pixels; 0 chooses.
	size int
}

// The colours of verdicts differ in lightness too, and labels carry a mark, for those who can't tell green from red.
type palette struct {
	line color.NRGBA // outline
	fill color.NRGBA
	pill color.NRGBA // background of the label
	ink  color.NRGBA // text of the label
}

var (
	passColours = palette{
		line: color.NRGBA{0x4a, 0xf2, 0xa1, 0xff}, fill: color.NRGBA{0x2e, 0xe5, 0x8f, 0x2c},
		pill: color.NRGBA{0x0b, 0x1f, 0x1a, 0xd8}, ink: color.NRGBA{0xd9, 0xff, 0xec, 0xff},
	}
	failColours = palette{
		line: color.NRGBA{0xff, 0x3b, 0x4e, 0xff}, fill: color.NRGBA{0xff, 0x1f, 0x38, 0x58},
		pill: color.NRGBA{0xd9, 0x1a, 0x33, 0xf2}, ink: color.NRGBA{0xff, 0xff, 0xff, 0xff},
	}
	noneColours = palette{
		line: color.NRGBA{0x5c, 0xc8, 0xff, 0xff}, fill: color.NRGBA{0x3d, 0xb4, 0xff, 0x30},
		pill: color.NRGBA{0x0c, 0x1a, 0x2b, 0xd8}, ink: color.NRGBA{0xdc, 0xf1, 0xff, 0xff},
	}
	blobColours = palette{
		line: color.NRGBA{0xff, 0xc4, 0x2e, 0xff}, fill: color.NRGBA{0xff, 0xa8, 0x00, 0x70},
		pill: color.NRGBA{0x2b, 0x1d, 0x03, 0xe0}, ink: color.NRGBA{0xff, 0xe7, 0xae, 0xff},
	}
	haloColour   = color.NRGBA{0x05, 0x0a, 0x10, 0xb4}
	footerColour = color.NRGBA{0x12, 0x17, 0x1f, 0xff}
	footerInk    = color.NRGBA{0xe6, 0xeb, 0xf2, 0xff}
	footerDim    = color.NRGBA{0x93, 0x9f, 0xb0, 0xff}
)

func coloursOf(v polyscanv1.Verdict) palette {
	switch v {
	case polyscanv1.Verdict_VERDICT_PASS:
		return passColours
	case polyscanv1.Verdict_VERDICT_FAIL:
		return failColours
	}
	return noneColours
}

const (
	// smallSide: frames with both sides shorter are enlarged, pixel by pixel, until the longer one is about this long.
	smallSide = 960
	// largePixels: pictures of more pixels are reduced; they would be hard to open, and slow to compress.
	largePixels = 24 << 20
	maxEnlarge  = 32
)

// scale is the number of pixels of the picture for one of the frame.
func (o *overlay) scale() float64 {
	b := o.frame.Bounds()
	long := max(b.Dx(), b.Dy())
	if o.size > 0 {
		return float64(o.size) / float64(long)
	}
	if long < smallSide {
		return float64(min(max((smallSide+long/2)/long, 1), maxEnlarge))
	}
	if n := b.Dx() * b.Dy(); n > largePixels {
		return math.Sqrt(float64(largePixels) / float64(n))
	}
	return 1
}

// draw makes the picture.
func (o *overlay) draw() (image.Image, error) {
	s := o.scale()
	b := o.frame.Bounds()
	w, h := max(int(math.Round(float64(b.Dx())*s)), 1), max(int(math.Round(float64(b.Dy())*s)), 1)
	sizes := sizesOf(w, h, o.regions, s)
	foot, err := newFooter(o, w, sizes)
	if err != nil {
		return nil, err
	}
	img := image.NewRGBA(image.Rect(0, 0, max(w, foot.width), h+foot.height))
	draw.Draw(img, img.Bounds(), image.NewUniform(footerColour), image.Point{}, draw.Src)
	area := image.Rect(0, 0, w, h)
	switch {
	case s == 1:
		draw.Draw(img, area, o.frame, b.Min, draw.Src)
	case s > 1:
		xdraw.NearestNeighbor.Scale(img, area, o.frame, b, draw.Src, nil)
	default:
		xdraw.BiLinear.Scale(img, area, o.frame, b, draw.Src, nil)
	}

	// What is drawn on the frame ends at its edge: the footer is not part of it.
	sub := image.NewRGBA(area)
	draw.Draw(sub, area, img, image.Point{}, draw.Src)
	dc := gg.NewContextForRGBA(sub)
	shapes := o.shapes(s, w, h, sizes)
	drawShapes(dc, shapes, sizes)
	if err := drawLabels(dc, shapes, w, h, sizes); err != nil {
		return nil, err
	}
	draw.Draw(img, area, sub, image.Point{}, draw.Src)
	foot.draw(gg.NewContextForRGBA(img), h)
	return img, nil
}

// sizes are lengths in pixels of the picture.
type sizes struct {
	unit float64 // about a thousandth of the picture
	line float64
	halo float64 // on each side of the line
	font float64
}

// sizesOf scales lines and letters to the picture, and down again where regions are small in it.
func sizesOf(w, h int, regions []overlayRegion, s float64) sizes {
	u := max(math.Sqrt(float64(w)*float64(h))/800, 0.75)
	spans := make([]float64, 0, len(regions))
	for _, r := range regions {
		x0, y0, x1, y1 := extent(r.rings)
		if x1 >= x0 && !r.blob {
			spans = append(spans, math.Sqrt((x1-x0)*(y1-y0))*s)
		}
	}
	z := sizes{unit: u, line: 1.7 * u, font: 12.5 * u}
	if len(spans) > 0 {
		slices.Sort(spans)
		typical := spans[len(spans)/2]
		z.line = max(min(z.line, typical/14), 0.8)
		z.font = max(min(z.font, typical/2.2), 9.5*min(u, 1), 9)
	}
	z.halo = max(0.75*z.line, 0.8)
	return z
}

func extent(rings [][][2]float64) (x0, y0, x1, y1 float64) {
	x0, y0, x1, y1 = math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, ring := range rings {
		for _, p := range ring {
			x0, y0, x1, y1 = min(x0, p[0]), min(y0, p[1]), max(x1, p[0]), max(y1, p[1])
		}
	}
	return x0, y0, x1, y1
}

// shape is a region in pixels of the picture, clipped to it and a margin.
type shape struct {
	*overlayRegion
	rings  [][][2]float64
	colour palette
	bounds rect // of what shows
	// outline is points along what shows, for labels.
	outline [][2]float64
}

// shapes are the regions that show, those that fail last, so that they lie on top.
func (o *overlay) shapes(s float64, w, h int, z sizes) []*shape {
	// The edges that clipping makes must be out of sight, halo included.
	m := 4 * (z.line + z.halo + 1)
	window := rect{-m, -m, float64(w) + m, float64(h) + m}
	var out []*shape
	for i := range o.regions {
		r := &o.regions[i]
		sh := &shape{overlayRegion: r, colour: coloursOf(r.verdict)}
		if r.blob {
			sh.colour = blobColours
		}
		for _, ring := range r.rings {
			scaled := make([][2]float64, len(ring))
			for k, p := range ring {
				scaled[k] = [2]float64{p[0] * s, p[1] * s}
			}
			if c := clipRing(scaled, window); len(c) >= 3 {
				sh.rings = append(sh.rings, c)
			}
		}
		x0, y0, x1, y1 := extent(sh.rings)
		sh.bounds = rect{x0, y0, x1, y1}.and(rect{0, 0, float64(w), float64(h)})
		if len(sh.rings) > 0 && !sh.bounds.empty() {
			for _, q := range sampleOutline(sh.rings, outlinePoints) {
				x, y := sh.bounds.nearest(q[0], q[1])
				sh.outline = append(sh.outline, [2]float64{x, y})
			}
			out = append(out, sh)
		}
	}
	slices.SortStableFunc(out, func(a, b *shape) int { return a.rank() - b.rank() })
	return out
}

// rank orders what is drawn: the important last.
func (r *overlayRegion) rank() int {
	if r.blob {
		return 3
	}
	return rank(r.verdict)
}

func rank(v polyscanv1.Verdict) int {
	switch v {
	case polyscanv1.Verdict_VERDICT_FAIL:
		return 2
	case polyscanv1.Verdict_VERDICT_PASS:
		return 1
	}
	return 0
}

// clipRing cuts a ring to a rectangle, side by side of it (Sutherland and Hodgman). Winding numbers inside the
// rectangle stay what they are; what is outside becomes edges along its sides.
func clipRing(ring [][2]float64, r rect) [][2]float64 {
	sides := []struct {
		axis  int
		bound float64
		sign  float64
	}{{0, r.x0, 1}, {0, r.x1, -1}, {1, r.y0, 1}, {1, r.y1, -1}}
	for _, side := range sides {
		inside := func(p [2]float64) bool { return (p[side.axis]-side.bound)*side.sign >= 0 }
		var out [][2]float64
		for i, p := range ring {
			q := ring[(i+len(ring)-1)%len(ring)]
			if inside(p) != inside(q) {
				t := (side.bound - q[side.axis]) / (p[side.axis] - q[side.axis])
				x := [2]float64{q[0] + t*(p[0]-q[0]), q[1] + t*(p[1]-q[1])}
				x[side.axis] = side.bound
				out = append(out, x)
			}
			if inside(p) {
				out = append(out, p)
			}
		}
		ring = out
	}
	return ring
}

// drawShapes fills the regions and draws their outlines, all fills first.
func drawShapes(dc *gg.Context, shapes []*shape, z sizes) {
	dc.SetLineJoinRound()
	dc.SetLineCapRound()
	for _, sh := range shapes {
		sh.path(dc)
		dc.SetFillRule(gg.FillRuleWinding)
		if sh.evenOdd {
			dc.SetFillRule(gg.FillRuleEvenOdd)
		}
		dc.SetColor(sh.colour.fill)
		dc.Fill()
	}
	for _, sh := range shapes {
		weight := 1.0
		if sh.verdict == polyscanv1.Verdict_VERDICT_FAIL {
			weight = 1.5
		}
		sh.path(dc)
		dc.SetColor(haloColour)
		dc.SetLineWidth(z.line*weight + 2*z.halo)
		dc.StrokePreserve()
		dc.SetColor(sh.colour.line)
		dc.SetLineWidth(z.line * weight)
		dc.Stroke()
	}
}

func (sh *shape) path(dc *gg.Context) {
	for _, ring := range sh.rings {
		for i, p := range ring {
			if i == 0 {
				dc.MoveTo(p[0], p[1])
			} else {
				dc.LineTo(p[0], p[1])
			}
		}
		dc.ClosePath()
	}
}

// footer is the strip below the frame: the verdict, how many regions have which, and what the picture shows.
type footer struct {
	height, width int
	font          float64
	o             *overlay
	items         []legendItem
	title         string
}

type legendItem struct {
	colour palette
	text   string
}

func newFooter(o *overlay, w int, z sizes) (*footer, error) {
	f := &footer{o: o, font: min(max(13*z.unit, 12), 120)}
	counts := map[polyscanv1.Verdict]int{}
	blobs := 0
	for _, r := range o.regions {
		if r.blob {
			blobs++
		} else {
			counts[r.verdict]++
		}
	}
	for _, k := range []struct {
		verdict polyscanv1.Verdict
		text    string
	}{
		{polyscanv1.Verdict_VERDICT_FAIL, "fail"},
		{polyscanv1.Verdict_VERDICT_PASS, "pass"},
		{polyscanv1.Verdict_VERDICT_UNSPECIFIED, "no limits"},
	} {
		if n := counts[k.verdict]; n > 0 {
			f.items = append(f.items, legendItem{coloursOf(k.verdict), fmt.Sprintf("%d %s", n, k.text)})
		}
	}
	if blobs > 0 {
		f.items = append(f.items, legendItem{blobColours, fmt.Sprintf("%d %s", blobs, cmp.Or(o.found, "blobs"))})
	}
	b := o.frame.Bounds()
	f.title = fmt.Sprintf("%s   %d × %d", shorten(cli.Printable(o.title), 48), b.Dx(), b.Dy())
	// A narrow frame keeps the legend and drops the title; letters never get smaller than readable.
	need, err := f.measure()
	if err != nil {
		return nil, err
	}
	if need > w {
		f.title = ""
		if need, err = f.measure(); err != nil {
			return nil, err
		}
		if need > w {
			f.font = max(f.font*float64(w)/float64(need), 11)
			if need, err = f.measure(); err != nil {
				return nil, err
			}
		}
	}
	f.width = need
	f.height = int(math.Ceil(2.3 * f.font))
	return f, nil
}

// measure is the width that the footer needs.
func (f *footer) measure() (int, error) {
	return f.layout(nil, 0, 0)
}

func (f *footer) draw(dc *gg.Context, y int) {
	// Fonts were loaded by measure; the error can't come back.
	_, _ = f.layout(dc, y, dc.Width())
}

// layout measures the footer, and draws it where dc isn't nil.
func (f *footer) layout(dc *gg.Context, top, width int) (int, error) {
	regular, err := face(f.font, false)
	if err != nil {
		return 0, err
	}
	heavy, err := face(f.font, true)
	if err != nil {
		return 0, err
	}
	m := gg.NewContext(1, 1)
	text := func(x float64, s string, bold bool, c color.Color) float64 {
		ctx := m
		if dc != nil {
			ctx = dc
		}
		ctx.SetFontFace(regular)
		if bold {
			ctx.SetFontFace(heavy)
		}
		w, _ := ctx.MeasureString(s)
		if dc != nil {
			dc.SetColor(c)
			dc.DrawString(s, x, float64(top)+float64(f.height)/2+0.36*f.font)
		}
		return w
	}
	em, mid := f.font, float64(top)+float64(f.height)/2
	x := 0.9 * em
	if v := verdictName(f.o.verdict); v != nil {
		w, _ := func() (float64, float64) { m.SetFontFace(heavy); return m.MeasureString(*v) }()
		c := failColours.pill
		ink := failColours.ink
		if f.o.verdict == polyscanv1.Verdict_VERDICT_PASS {
			c, ink = passColours.line, passColours.pill
		}
		c.A, ink.A = 255, 255
		if dc != nil {
			dc.SetColor(c)
			dc.DrawRoundedRectangle(x, mid-0.75*em, w+1.2*em, 1.5*em, 0.3*em)
			dc.Fill()
		}
		text(x+0.6*em, *v, true, ink)
		x += w + 2.2*em
	}
	for _, it := range f.items {
		if dc != nil {
			dc.SetColor(it.colour.fill)
			dc.DrawRectangle(x, mid-0.42*em, 0.84*em, 0.84*em)
			dc.FillPreserve()
			dc.SetColor(it.colour.line)
			dc.SetLineWidth(0.13 * em)
			dc.Stroke()
		}
		x += 1.3 * em
		x += text(x, it.text, false, footerInk) + 1.2*em
	}
	if f.title != "" {
		w, _ := func() (float64, float64) { m.SetFontFace(regular); return m.MeasureString(f.title) }()
		if dc != nil {
			text(float64(width)-w-0.9*em, f.title, false, footerDim)
		}
		x += w + 0.9*em
	}
	return int(math.Ceil(x)), nil
}
