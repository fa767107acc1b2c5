package regionfile

// LabelMe: one JSON file per image, shapes with labels.
//
//   - polygon (also when shape_type is missing or null) and oriented_rectangle: the points as they are;
//   - rectangle: two opposite corners;
//   - circle: centre and a point on it, flattened to Options.Tolerance;
//   - mask: the pixels of the embedded PNG that aren't zero, outlined along their borders;
//   - flags of a shape that are limits, such as "mean in [90, 140]", are the region's limits;
//   - line, linestrip, point and points have no area and are skipped with a warning; other types, too.
//
// Shapes of one label and one group_id are one object to LabelMe, and one region here: the union of the shapes, as
// rings of one direction under the non-zero rule. (Where a single ring crosses itself, its parts of the minority
// direction don't take part in the union with others.)

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"math"
	"slices"
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
	if c := top.cursor("flags"); c != nil && c.kind() == kindObject { // of the image
		if limits, e := b.flags(c); e != nil || len(limits) > 0 {
			return misplacedLimits().within("flags")
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
	m, e := c.members("label", "points", "shape_type", "group_id", "mask", "flags")
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
	switch shapeType {
	case "", "polygon", "oriented_rectangle", "rectangle", "circle", "mask":
	default:
		what := "it has no area"
		switch shapeType {
		case "line", "linestrip", "point", "points":
		default:
			what = "not a type that this program knows"
		}
		b.warn("shapes[%d] %s: skipped the shape of type %s: %s", index, quote(label), quote(shapeType), what)
		return nil
	}
	pc := m.cursor("points")
	if pc == nil {
		return fail(ErrInvalid, `the key "points" is missing`)
	}
	if e := b.ring(pc, false); e != nil {
		return e.within("points")
	}
	var rings [][][2]float64
	switch shapeType {
	case "rectangle":
		rings, e = b.rectangle(b.scratch)
	case "circle":
		rings, e = b.circle(b.scratch)
	case "mask":
		if rings, e = b.pngMask(m, b.scratch); e == nil && len(rings) == 0 {
			b.warn("shapes[%d] %s: skipped the mask: all its pixels are zero", index, quote(label))
			return nil
		}
	default:
		if e = enough(len(b.scratch)); e != nil {
			e = e.within("points")
		}
		rings = [][][2]float64{b.keep(b.scratch)}
	}
	if e != nil {
		return e
	}
	limits, e := optional(m, "flags", b.flags)
	if e != nil {
		return e
	}
	return b.addGrouped(Region{Name: label, Rings: rings, Limits: limits}, group, groups)
}

// addGrouped adds a region, or the rings to the region that the group began.
func (b *builder) addGrouped(r Region, group string, groups map[labelGroup]int) *Error {
	rings := r.Rings
	if len(rings) > 1 { // a mask with holes or parts
		r.Fill = FillNonZero
	}
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
	// Several rings come from masks, whose outlines are oriented already and whose holes must stay holes.
	if len(first.Rings) == 1 {
		orient(first.Rings[0], true)
	}
	if len(rings) == 1 {
		orient(rings[0], true)
	}
	first.Rings = append(first.Rings, rings...)
	for _, l := range r.Limits {
		if !slices.Contains(first.Limits, l) {
			first.Limits = append(first.Limits, l)
		}
	}
	first.Fill = FillNonZero
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

// pngMask outlines the base64-encoded PNG in the member "mask". Its first pixel is the pixel at the first point; with
// whole coordinates the second point is its last pixel.
func (b *builder) pngMask(m *members, points [][2]float64) ([][][2]float64, *Error) {
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
		return nil, fail(ErrSyntax, "%v", err).within("mask")
	}
	x0, y0 := math.RoundToEven(points[0][0]), math.RoundToEven(points[0][1])
	if points[0] == [2]float64{x0, y0} && points[1] == [2]float64{math.Trunc(points[1][0]), math.Trunc(points[1][1])} {
		if w, h := points[1][0]-x0+1, points[1][1]-y0+1; w != float64(cfg.Width) || h != float64(cfg.Height) {
			return nil, fail(ErrInvalid, "the PNG has %d×%d pixels, the points span %v×%v", cfg.Width, cfg.Height, w,
				h).within("mask")
		}
	}
	if x0+float64(cfg.Width) >= coordinateLimit || y0+float64(cfg.Height) >= coordinateLimit {
		return nil, fail(ErrInvalid, "the PNG of %d×%d pixels at (%v, %v) reaches beyond %d px",
			cfg.Width, cfg.Height, x0, y0, coordinateLimit).within("mask")
	}
	pixels := int64(cfg.Width) * int64(cfg.Height)
	if pixels > maxMaskPixels-b.maskPixels {
		return nil, fail(ErrLimit, "more than %d pixels in the file's masks, the limit", maxMaskPixels).within("mask")
	}
	b.maskPixels += pixels
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, fail(ErrSyntax, "%v", err).within("mask")
	}
	t := newTracer(b, cfg.Height, int(x0), int(y0))
	set := pixelTest(img)
	for x := range cfg.Width {
		for y := 0; y < cfg.Height; {
			if !set(x, y) {
				y++
				continue
			}
			from := y
			for y < cfg.Height && set(x, y) {
				y++
			}
			base := int64(x) * int64(cfg.Height)
			if e := t.run(base+int64(from), base+int64(y)); e != nil {
				return nil, e.within("mask")
			}
		}
	}
	rings, e := t.rings()
	if e != nil {
		return nil, e.within("mask")
	}
	return rings, nil
}

// pixelTest returns a function that says whether a pixel isn't zero; for a palette, whether its index isn't.
func pixelTest(img image.Image) func(x, y int) bool {
	switch img := img.(type) {
	case *image.Gray:
		return func(x, y int) bool { return img.Pix[y*img.Stride+x] != 0 }
	case *image.Paletted:
		return func(x, y int) bool { return img.Pix[y*img.Stride+x] != 0 }
	}
	return func(x, y int) bool {
		r, g, b, _ := img.At(x, y).RGBA()
		return r|g|b != 0
	}
}
