package regionfile

// LabelMe: one JSON file per image, shapes with labels.
//
//   - polygon (also when shape_type is missing or null) and oriented_rectangle: the points as they are;
//   - rectangle: two opposite corners;
//   - circle: centre and a point on it, flattened to Options.Tolerance;
//   - mask: the pixels of the embedded PNG that aren't zero, row by row;
//   - flags of a shape that are limits, such as "mean in [90, 140]", are the region's limits;
//   - line, linestrip, point and points have no area and are skipped with a warning; other types, too.
//
// Shapes of one label and one group_id are one object to LabelMe, and one region here: the union of the shapes, as
// rings of one direction under the non-zero rule. Masks of a group are one mask; with other shapes, the rings around
// its pixels. (Where a single ring crosses itself, its parts of the minority direction don't take part in the union
// with others.)

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image/png"
	"math"
	"slices"

	"github.com/polyscan/polyscan/polygon"
)

func (b *builder) labelMe(top *members) *Error {
	var e *Error
	if b.file.Image, e = optional(top, "imagePath", (*cursor).stringOrNull); e != nil {
		return e
	}
	if b.file.ImageWidth, e = optional(top, "imageWidth", (*cursor).extent); e != nil {
		return e
	}
	if b.file.ImageHeight, e = optional(top, "imageHeight", (*cursor).extent); e != nil {
		return e
	}
	if e := bothSides(b.file.ImageWidth, b.file.ImageHeight); e != nil {
		return e
	}
	if c := top.cursor("flags"); c != nil { // of the image
		if c.kind() != kindObject {
			e = c.skipUnread("flags")
		} else if limits, bad := b.flags(c, func() string { return "flags" }); bad != nil || len(limits) > 0 {
			e = misplacedLimits()
		}
		if e != nil {
			return e.within("flags")
		}
	}
	c := top.cursor("shapes")
	if e := c.expect(kindArray); e != nil {
		return e.within("shapes")
	}
	groups := map[labelGroup]int{}
	n := 0
	for more := c.enter(); more; more = c.next() {
		start := c.pos
		if e := b.shape(c, n, groups); e != nil {
			return e.within("shapes[%d]%s", n, nameAt(c.s, start, "label"))
		}
		n++
	}
	return nil
}

// labelGroup identifies the shapes that make one object.
type labelGroup struct{ label, group string }

func (b *builder) shape(c *cursor, index int, groups map[labelGroup]int) *Error {
	if e := c.expect(kindObject); e != nil {
		return e
	}
	start := c.pos
	place := func() string { return fmt.Sprintf("shapes[%d]%s", index, nameAt(c.s, start, "label")) }
	m, e := b.members(c, &labelMeShape, place)
	if e != nil {
		return e
	}
	label, e := optional(m, "label", (*cursor).stringOrNull)
	if e != nil {
		return e
	}
	group, e := optional(m, "group_id", (*cursor).scalar)
	if e != nil {
		return e
	}
	shapeType, e := optional(m, "shape_type", (*cursor).stringOrNull)
	if e != nil {
		return e
	}
	limits, e := optional(m, "flags", func(c *cursor) ([]string, *Error) {
		return b.flags(c, func() string { return place() + ": flags" })
	})
	if e != nil {
		return e
	}
	// Some programs of LabelMe's format have attributes, too, and limits there would be read by nobody.
	own, e := optional(m, "attributes", func(c *cursor) ([]string, *Error) {
		return b.attributes(c, func() string { return place() + ": attributes" })
	})
	if e != nil || len(own) > 0 {
		return misplacedLimits().within("attributes")
	}
	where := fmt.Sprintf("shapes[%d] %s", index, quote(label))
	switch shapeType {
	case "", "polygon", "oriented_rectangle", "rectangle", "circle", "mask":
	default:
		what := "it has no area"
		switch shapeType {
		case "line", "linestrip", "point", "points":
		default:
			what = "not a type that this program knows"
		}
		b.warn("%s: skipped the shape of type %s: %s", where, quote(shapeType), what)
		b.lost(limits, where)
		return nil
	}
	pc := m.cursor("points")
	if pc == nil {
		return fail(ErrInvalid, `the key "points" is missing`)
	}
	if e := b.ring(pc, false); e != nil {
		return e.within("points")
	}
	r := Region{Name: label, Limits: limits}
	switch shapeType {
	case "rectangle":
		r.Rings, e = b.rectangle(b.scratch)
	case "circle":
		r.Rings, e = b.circle(b.scratch)
	case "mask":
		if r.Mask, e = b.pngMask(m, b.scratch); e == nil && len(r.Mask) == 0 {
			b.warn("%s: skipped the mask: all its pixels are zero", where)
			b.lost(limits, where)
			return nil
		}
	default:
		if e = enough(len(b.scratch)); e != nil {
			e = e.within("points")
		}
		r.Rings = [][][2]float64{b.keep(b.scratch)}
	}
	if e != nil {
		return e
	}
	return b.addGrouped(r, group, groups)
}

// addGrouped adds a region, or the rings to the region that the group began.
func (b *builder) addGrouped(r Region, group string, groups map[labelGroup]int) *Error {
	if group == "" {
		return b.add(r)
	}
	key := labelGroup{r.Name, group}
	i, found := groups[key]
	if !found {
		groups[key] = len(b.file.Regions)
		return b.add(r)
	}
	first := &b.file.Regions[i]
	if first.Mask != nil && r.Mask != nil {
		// The union has no more runs than its parts, which are paid for.
		first.Mask = fileRuns(polygon.Combine(polygon.Union, pixels(first.Mask), pixels(r.Mask)))
	} else {
		// The outlines of masks are oriented already, and their holes must stay holes.
		one, other := first.Outlines(), r.Outlines()
		if first.Mask == nil && len(one) == 1 {
			orient(one[0], true)
		}
		if r.Mask == nil {
			orient(other[0], true)
		}
		for _, g := range other {
			if e := b.spend(len(g)); e != nil {
				return e
			}
		}
		first.Rings, first.Mask, first.Fill = append(one, other...), nil, FillNonZero
	}
	for _, l := range r.Limits {
		if !slices.Contains(first.Limits, l) {
			first.Limits = append(first.Limits, l)
		}
	}
	return nil
}

func (b *builder) rectangle(points [][2]float64) ([][][2]float64, *Error) {
	if len(points) != 2 {
		return nil, fail(ErrInvalid, "%d points, a rectangle has 2 (opposite corners)", len(points)).within("points")
	}
	if e := b.spend(2); e != nil { // the points were paid for when they were read
		return nil, e
	}
	return [][][2]float64{b.keep(box(points[0][0], points[0][1], points[1][0], points[1][1]))}, nil
}

// box returns an axis-parallel rectangle as a ring of positive area.
func box(x0, y0, x1, y1 float64) [][2]float64 {
	x0, x1 = min(x0, x1), max(x0, x1)
	y0, y1 = min(y0, y1), max(y0, y1)
	return [][2]float64{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}
}

func (b *builder) circle(points [][2]float64) ([][][2]float64, *Error) {
	if len(points) != 2 {
		return nil, fail(ErrInvalid, "%d points, a circle has 2 (centre and a point on it)",
			len(points)).within("points")
	}
	cx, cy := points[0][0], points[0][1]
	r := math.Hypot(points[1][0]-cx, points[1][1]-cy)
	if r == 0 {
		return nil, fail(ErrInvalid, "the circle's two points are equal, its radius is 0").within("points")
	}
	f := newFlattener(b, identity)
	if e := f.ellipse(cx, cy, r, r); e != nil {
		return nil, e
	}
	if len(f.rings) == 0 { // so small that its vertices are one number
		return nil, fail(ErrInvalid, "the circle's radius of %v is too small at this position", r).within("points")
	}
	return f.rings, nil
}

// pngMask reads the base64-encoded PNG in the member "mask". Its first pixel is the pixel at the first point; with
// whole coordinates the second point is its last pixel.
func (b *builder) pngMask(m *members, points [][2]float64) ([]Run, *Error) {
	if len(points) != 2 {
		return nil, fail(ErrInvalid, "%d points, a mask has 2 (its first and its last pixel)",
			len(points)).within("points")
	}
	c := m.cursor("mask")
	if c == nil || c.kind() != kindString {
		return nil, fail(ErrInvalid, `a shape of type "mask" needs a base64-encoded PNG in the key "mask"`)
	}
	data, err := base64.StdEncoding.DecodeString(c.text())
	if err != nil {
		return nil, fail(ErrSyntax, "%v", err).within("mask")
	}
	cfg, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, badPNG(err).within("mask")
	}
	x0, y0 := math.RoundToEven(points[0][0]), math.RoundToEven(points[0][1])
	if points[0] == [2]float64{x0, y0} && points[1] == [2]float64{math.Trunc(points[1][0]), math.Trunc(points[1][1])} {
		if w, h := points[1][0]-x0+1, points[1][1]-y0+1; w != float64(cfg.Width) || h != float64(cfg.Height) {
			return nil, fail(ErrInvalid, "the PNG has %d×%d pixels, the points span %v×%v", cfg.Width, cfg.Height, w,
				h).within("mask")
		}
	}
	if min(x0, y0) <= -coordinateLimit || x0+float64(cfg.Width) >= coordinateLimit ||
		y0+float64(cfg.Height) >= coordinateLimit {
		return nil, fail(ErrInvalid, "the PNG of %d×%d pixels at (%v, %v) reaches beyond %d px",
			cfg.Width, cfg.Height, x0, y0, coordinateLimit).within("mask")
	}
	if e := b.spendPixels(cfg); e != nil {
		return nil, e.within("mask")
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, badPNG(err).within("mask")
	}
	var mask []polygon.Run
	for _, u := range polygon.LabelRuns(img, int(x0), int(y0)) {
		if e := b.spend(1); e != nil {
			return nil, e.within("mask")
		}
		mask = polygon.AppendRun(mask, u)
	}
	return fileRuns(mask), nil
}
