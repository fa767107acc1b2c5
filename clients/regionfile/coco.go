package regionfile

// COCO instances: annotations of many images in one JSON file.
//
//   - segmentation as a list of flat polygons [x0, y0, x1, y1, ...]: one region. Several polygons are its parts, and
//     their union is meant (COCO has no holes in polygons), so they become rings of one direction under the non-zero
//     rule;
//   - segmentation as run-length data, plain or compressed: outlined along pixel borders;
//   - no segmentation, or an empty one, as in detection files: the bounding box [x, y, width, height], with a warning.
//
// A region is called category#id. Files with annotations for more than one image need Options.Image or
// Options.ImageHint.

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// maxEntries bounds the images and the categories of a file. The largest published sets have some hundred thousand
// images.
const maxEntries = 1 << 20

type cocoImage struct {
	name          string
	width, height int
}

func (b *builder) coco(top *members) *Error {
	categories, e := cocoTable(b, top, "categories", &cocoCategory, func(m *members) (string, *Error) {
		return optional(m, "name", (*cursor).scalar)
	})
	if e != nil {
		return e
	}
	images, e := cocoTable(b, top, "images", &cocoImageObject, func(m *members) (img cocoImage, e *Error) {
		if img.name, e = optional(m, "file_name", (*cursor).stringOrNull); e != nil {
			return img, e
		}
		if img.width, e = optional(m, "width", (*cursor).extent); e != nil {
			return img, e
		}
		if img.height, e = optional(m, "height", (*cursor).extent); e != nil {
			return img, e
		}
		return img, bothSides(img.width, img.height)
	})
	if e != nil {
		return e
	}
	list := top.cursor("annotations")
	if e := list.expect(kindArray); e != nil {
		return e.within("annotations")
	}
	annotated, e := annotatedImages(*list)
	if e != nil {
		return e
	}
	id, e := b.pickImage(images, annotated)
	if e != nil {
		return e
	}
	if img, ok := images.byID[id]; ok {
		b.file.Image, b.file.ImageWidth, b.file.ImageHeight = strings.Clone(img.name), img.width, img.height
	}
	boxes := 0
	n := 0
	for more := list.enter(); more; more = list.next() {
		start := list.pos
		if e := b.annotation(list, n, id, images, categories, &boxes); e != nil {
			return e.within("annotations[%d]%s", n, annotationName(list.s, start))
		}
		n++
	}
	if boxes > 0 {
		b.warn("%d %s no segmentation: the bounding box is the region", boxes,
			plural(boxes, "annotation has", "annotations have"))
	}
	return nil
}

// annotationName returns ` (id 17)` for messages.
func annotationName(doc string, at int) string {
	if id := nameAt(doc, at, "id"); id != "" {
		return " (id" + strings.ReplaceAll(id, `"`, "") + ")"
	}
	return ""
}

// cocoList is the images or categories of a file.
type cocoList[T any] struct {
	byID  map[string]T
	order []string // ids as the file has them
}

// cocoTable reads a list of objects with an id each.
func cocoTable[T any](b *builder, top *members, name string, o *object, read func(*members) (T, *Error)) (cocoList[T],
	*Error) {
	t := cocoList[T]{byID: map[string]T{}}
	c := top.cursor(name)
	if c == nil {
		return t, nil
	}
	if c.kind() == kindNull {
		return t, nil
	}
	if e := c.expect(kindArray); e != nil {
		return t, e.within("%s", name)
	}
	n := 0
	entry := func() *Error {
		if e := c.expect(kindObject); e != nil {
			return e
		}
		m, e := b.members(c, o, func() string { return fmt.Sprintf("%s[%d]", name, n) })
		if e != nil {
			return e
		}
		id, e := optional(m, "id", (*cursor).scalar)
		if e != nil {
			return e
		}
		if id == "" {
			return fail(ErrInvalid, `the key "id" is missing`)
		}
		if _, twice := t.byID[id]; twice {
			return fail(ErrInvalid, "the id %s occurs twice", shorten(id, 64))
		}
		if len(t.order) == maxEntries {
			return fail(ErrLimit, "more than %d %s in the file, the limit", maxEntries, name)
		}
		v, e := read(m)
		if e != nil {
			return e
		}
		t.byID[id] = v
		t.order = append(t.order, id)
		return nil
	}
	for more := c.enter(); more; more = c.next() {
		if e := entry(); e != nil {
			return t, e.within("%s[%d]", name, n)
		}
		n++
	}
	return t, nil
}

// annotatedImages returns the ids of the images that have annotations, in the order of the file, and "" for annotations
// that name no image.
func annotatedImages(c cursor) (cocoList[bool], *Error) {
	t := cocoList[bool]{byID: map[string]bool{}}
	entry := func() *Error {
		if e := c.expect(kindObject); e != nil {
			return e
		}
		id := ""
		for more := c.enter(); more; more = c.next() {
			if c.key() != "image_id" {
				c.skip()
				continue
			}
			var e *Error
			if id, e = c.scalar(); e != nil {
				return e.within("image_id")
			}
		}
		if !t.byID[id] {
			if len(t.order) == maxEntries {
				return fail(ErrLimit, "more than %d images in the file, the limit", maxEntries)
			}
			t.byID[id] = true
			t.order = append(t.order, id)
		}
		return nil
	}
	n := 0
	for more := c.enter(); more; more = c.next() {
		if e := entry(); e != nil {
			return t, e.within("annotations[%d]", n)
		}
		n++
	}
	return t, nil
}

// pickImage returns the id of the image whose annotations to read.
func (b *builder) pickImage(images cocoList[cocoImage], annotated cocoList[bool]) (string, *Error) {
	if want := b.opts.Image; want != "" {
		id, e := findImage(images, annotated, want)
		if e != nil {
			return "", e
		}
		if !annotated.byID[id] {
			return "", fail(ErrNoRegions, "the image %s has no annotations", quote(want))
		}
		return id, nil
	}
	if len(annotated.order) == 0 {
		return "", fail(ErrNoRegions, "no annotations in this COCO file")
	}
	if b.opts.ImageHint != "" {
		called := imagesCalled(images, base(b.opts.ImageHint))
		hits := keepAnnotated(called, annotated)
		switch {
		case len(hits) == 1:
			return hits[0], nil
		case len(called) > 0 && len(hits) == 0: // those of another image are of another frame
			return "", fail(ErrNoRegions, "the image %s has no annotations", quote(base(b.opts.ImageHint)))
		}
	}
	if len(annotated.order) == 1 {
		return annotated.order[0], nil
	}
	return "", fail(ErrAmbiguousImage, "annotations for %d images, pick one by name or id: %s",
		len(annotated.order), listImages(images, annotated.order))
}

// findImage looks for a file_name, then an id, then a file_name without folders.
func findImage(images cocoList[cocoImage], annotated cocoList[bool], want string) (string, *Error) {
	for _, id := range images.order {
		if images.byID[id].name == want {
			return id, nil
		}
	}
	if _, ok := images.byID[want]; ok || annotated.byID[want] {
		return want, nil
	}
	hits := imagesCalled(images, want)
	switch len(hits) {
	case 1:
		return hits[0], nil
	case 0:
		known := images.order
		if len(known) == 0 {
			known = annotated.order
		}
		return "", fail(ErrAmbiguousImage, "no image %s, the file has: %s", quote(want), listImages(images, known))
	}
	return "", fail(ErrAmbiguousImage, "%d images are called %s, pick one by its full name or id: %s",
		len(hits), quote(want), listImages(images, hits))
}

func imagesCalled(images cocoList[cocoImage], name string) []string {
	var hits []string
	for _, id := range images.order {
		if n := images.byID[id].name; n != "" && base(n) == name {
			hits = append(hits, id)
		}
	}
	return hits
}

func keepAnnotated(ids []string, annotated cocoList[bool]) []string {
	var out []string
	for _, id := range ids {
		if annotated.byID[id] {
			out = append(out, id)
		}
	}
	return out
}

// base is the last element of a path of any system: region files travel between them.
func base(p string) string { return path.Base(strings.ReplaceAll(p, `\`, "/")) }

func listImages(images cocoList[cocoImage], ids []string) string {
	if len(ids) == 0 {
		return "none"
	}
	var out []string
	for _, id := range ids[:min(len(ids), maxListed)] {
		switch name := images.byID[id].name; {
		case name != "":
			out = append(out, fmt.Sprintf("%s (id %s)", quote(name), strings.Trim(quote(id), `"`)))
		case id == "":
			out = append(out, "annotations without image_id")
		default:
			out = append(out, "id "+strings.Trim(quote(id), `"`))
		}
	}
	s := strings.Join(out, ", ")
	if len(ids) > maxListed {
		s += fmt.Sprintf(" and %d more", len(ids)-maxListed)
	}
	return s
}

// annotation reads one annotation if it belongs to the image, and skips it otherwise: with a warning where it belongs
// to none that the file has.
func (b *builder) annotation(c *cursor, index int, image string, images cocoList[cocoImage],
	categories cocoList[string], boxes *int) *Error {
	m, e := b.members(c, &cocoAnnotation, func() string { return fmt.Sprintf("annotations[%d]", index) })
	if e != nil {
		return e
	}
	of, e := optional(m, "image_id", (*cursor).scalar)
	if e != nil {
		return e
	}
	_, known := images.byID[of]
	dangling := of != image && !known && len(images.order) > 0
	if of != image && !dangling {
		return nil
	}
	id, e := optional(m, "id", (*cursor).scalar)
	if e != nil {
		return e
	}
	if id == "" {
		id = strconv.Itoa(index)
	}
	category, e := optional(m, "category_id", (*cursor).scalar)
	if e != nil {
		return e
	}
	if name := categories.byID[category]; name != "" {
		category = name
	}
	if category == "" {
		category = "region"
	}
	r := Region{Name: category + "#" + id}
	if r.Limits, e = optional(m, "attributes", func(c *cursor) ([]string, *Error) {
		return b.attributes(c, func() string { return fmt.Sprintf("annotations[%d] %s: attributes", index, quote(r.Name)) })
	}); e != nil {
		return e
	}
	if dangling {
		where := fmt.Sprintf("annotations[%d] %s", index, quote(r.Name))
		b.warn("%s: skipped: the file has no image of the id %s", where, quote(of))
		b.lost(r.Limits, where)
		return nil
	}
	if e := b.room(); e != nil {
		return e
	}
	seg := m.cursor("segmentation")
	switch {
	case seg == nil, seg.kind() == kindNull, seg.kind() == kindArray && !peek(*seg):
		ring, e := b.boundingBox(m)
		if e != nil {
			return e
		}
		r.Rings = [][][2]float64{ring}
		*boxes++
	case seg.kind() == kindObject:
		if r.Mask, e = b.runLengths(seg); e != nil {
			return e.within("segmentation")
		}
		if len(r.Mask) == 0 {
			b.warn("annotations[%d] %s: skipped: no pixel of its mask is set", index, quote(r.Name))
			b.lost(r.Limits, fmt.Sprintf("annotations[%d] %s", index, quote(r.Name)))
			return nil
		}
	case seg.kind() == kindArray:
		if r.Rings, e = b.flatPolygons(seg); e != nil {
			return e
		}
		if len(r.Rings) > 1 {
			r.Fill = FillNonZero
		}
	default:
		return fail(ErrInvalid, "expected polygons or run-length data, found %s", seg.kind()).within("segmentation")
	}
	return b.add(r)
}

// peek says whether the array at a copy of a cursor has elements.
func peek(c cursor) bool { return c.enter() }

func (b *builder) boundingBox(m *members) ([][2]float64, *Error) {
	c := m.cursor("bbox")
	if c == nil || c.kind() != kindArray {
		return nil, fail(ErrInvalid, `neither "segmentation" nor "bbox" says where it is`)
	}
	var v [4]float64
	n := 0
	for more := c.enter(); more; more = c.next() {
		x, e := c.number()
		if e != nil {
			return nil, e.within("bbox[%d]", n)
		}
		if n == 4 {
			n++
			break
		}
		v[n] = x
		n++
	}
	if n != 4 || !(v[2] > 0 && v[3] > 0) {
		return nil, fail(ErrInvalid, "expected [x, y, width, height] with positive width and height").within("bbox")
	}
	ring := box(v[0], v[1], v[0]+v[2], v[1]+v[3])
	for _, p := range ring {
		for i, axis := range []string{"x", "y"} {
			if e := coordinate(axis, p[i]); e != nil {
				return nil, e.within("bbox")
			}
		}
	}
	if e := b.spend(4); e != nil {
		return nil, e
	}
	return b.keep(ring), nil
}

// flatPolygons reads a list of [x0, y0, x1, y1, ...].
func (b *builder) flatPolygons(c *cursor) ([][][2]float64, *Error) {
	var rings [][][2]float64
	for more := c.enter(); more; more = c.next() {
		e := b.flatRing(c)
		if e == nil {
			e = enough(len(b.scratch))
		}
		if e != nil {
			return nil, e.within("segmentation[%d]", len(rings))
		}
		rings = append(rings, b.keep(b.scratch))
	}
	if len(rings) > 1 {
		for _, r := range rings {
			orient(r, true)
		}
	}
	return rings, nil
}

func (b *builder) flatRing(c *cursor) *Error {
	if e := c.expect(kindArray); e != nil {
		return e
	}
	b.scratch = b.scratch[:0]
	var p [2]float64
	n := 0
	for more := c.enter(); more; more = c.next() {
		v, e := c.number()
		if e == nil {
			e = coordinate("xy"[n%2:n%2+1], v)
		}
		if e != nil {
			return e.within("[%d]", n)
		}
		p[n%2] = v
		if n%2 == 1 {
			if e := b.spend(1); e != nil {
				return e
			}
			b.scratch = append(b.scratch, p)
		}
		n++
	}
	if n%2 == 1 {
		return fail(ErrInvalid, "%d numbers, expected pairs of x and y", n)
	}
	return nil
}
