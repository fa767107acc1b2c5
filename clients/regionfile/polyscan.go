package regionfile

// polyscan's own formats: the array of regions, and the recipe around it.
//
//	[{"name": "U7", "rings": [[[10, 10], [90, 10], [90, 60]]], "fill": "evenodd", "limits": ["mean in [90, 140]"]},
//	 {"name": "pad", "mask": [[20, 7, 12], [21, 6, 13]]}, ...]
//	{"name": "board", "description": "...", "fill": "nonzero", "scale": {"mm_per_pixel": [0.05, 0.05], "origin": [12, 40]},
//	 "regions": [...], "reductions": ["mean", ...], "frames": {"golden": "..."},
//	 "flat_field": "sha256:...",
//	 "drawn_on": {"name": "board.png", "width": 2880, "height": 1440},
//	 "locate": {"fiducials": [{"name": "F1", "window": "rect(86, 10, 146, 70)", "at": [116, 40], "kind": "circle"}]}}
//
// A mask is runs [y, x0, x1], the pixels x0 to x1 - 1 of row y. "shape" instead of rings is a text that says what the
// region is made of.
//
// Other keys are ignored, with a warning where one is close to a known one or holds regions; limits in them are an
// error. A recipe's fill holds for the regions that don't have their own.

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
)

// recipe reads the object.
func (b *builder) recipe(top *members) *Error {
	var e *Error
	if b.file.Name, e = optional(top, "name", (*cursor).stringOrNull); e != nil {
		return e
	}
	if b.file.Description, e = optional(top, "description", (*cursor).note); e != nil {
		return e
	}
	if b.file.Reductions, e = optional(top, "reductions", b.strings); e != nil {
		return e
	}
	if b.file.Frames, e = optional(top, "frames", b.frames); e != nil {
		return e
	}
	if b.file.FlatField, e = optional(top, "flat_field", (*cursor).flatField); e != nil {
		return e
	}
	if b.file.Scale, e = optional(top, "scale", b.scale); e != nil {
		return e
	}
	if _, e = optional(top, "drawn_on", b.drawnOn); e != nil {
		return e
	}
	if b.file.Locate, e = optional(top, "locate", b.locate); e != nil {
		return e
	}
	fill, e := optional(top, "fill", (*cursor).fill)
	if e != nil {
		return e
	}
	c := top.cursor("regions")
	if e := c.expect(kindArray); e != nil {
		return e.within("regions")
	}
	return b.regions(c, "regions", fill)
}

// flatField reads the name of one.
func (c *cursor) flatField() (string, *Error) {
	given := c.kind() == kindString
	text, e := c.stringOrNull()
	if e == nil && given && !flatFieldName.MatchString(text) {
		return "", fail(ErrInvalid, "%q: want sha256: and 64 hexadecimal digits", text)
	}
	return text, e
}

var flatFieldName = regexp.MustCompile("^sha256:[0-9a-f]{64}$")

// frames reads an object of texts.
func (b *builder) frames(c *cursor) (map[string]string, *Error) {
	if c.kind() == kindNull {
		c.skip()
		return nil, nil
	}
	if e := c.expect(kindObject); e != nil {
		return nil, e
	}
	out := map[string]string{}
	for more := c.enter(); more; more = c.next() {
		key := strings.Clone(c.key())
		if e := c.expect(kindString); e != nil {
			return nil, e.within("%s", key)
		}
		if b.strs++; b.strs > maxStrings {
			return nil, fail(ErrLimit, "more than %d limits, reductions and frames in the file", maxStrings)
		}
		if _, again := out[key]; again {
			return nil, fail(ErrInvalid, "%q comes twice", key)
		}
		out[key] = strings.Clone(c.text())
	}
	return out, nil
}

// regions reads the array at the cursor. The name of the array is for messages.
func (b *builder) regions(c *cursor, array, fill string) *Error {
	for more := c.enter(); more; more = c.next() {
		start := c.pos
		if e := b.region(c, fill); e != nil {
			// len(Regions) is the element's index because every element becomes a region or an error.
			return e.within("%s[%d]%s", array, len(b.file.Regions), nameAt(c.s, start, "name"))
		}
	}
	return nil
}

func (b *builder) region(c *cursor, fill string) *Error {
	if e := b.room(); e != nil {
		return e
	}
	if e := c.expect(kindObject); e != nil {
		return e
	}
	r, start := Region{}, c.pos
	var seen struct{ name, rings, mask, shape, fill, limits, reference bool }
	var e *Error
	for more := c.enter(); more; more = c.next() {
		key := c.key()
		twice := false
		switch key {
		case "name":
			twice, seen.name = seen.name, true
			r.Name, e = c.stringOrNull()
		case "rings":
			twice, seen.rings = seen.rings, true
			r.Rings, e = b.rings(c)
			if e != nil {
				return e // its place says rings[i] already
			}
		case "mask":
			twice, seen.mask = seen.mask, true
			r.Mask, e = b.mask(c)
			if e != nil {
				return e // its place says mask[i] already
			}
		case "shape":
			twice, seen.shape = seen.shape, true
			r.Shape, e = c.stringOrNull()
		case "fill":
			twice, seen.fill = seen.fill, true
			r.Fill, e = c.fill()
		case "limits":
			twice, seen.limits = seen.limits, true
			r.Limits, e = b.strings(c)
		case "reference":
			twice, seen.reference = seen.reference, true
			r.Reference, e = b.reference(c)
		default:
			if e := b.unread(c, key, &regionObject, func() string {
				return fmt.Sprintf("regions[%d]%s", len(b.file.Regions), nameAt(c.s, start, "name"))
			}); e != nil {
				return e
			}
		}
		if e != nil {
			return e.within("%s", key)
		}
		if twice {
			return twiceError(key)
		}
	}
	switch {
	case seen.rings && seen.mask:
		return fail(ErrInvalid, `the keys "rings" and "mask" are both there, a region has one of them`)
	case (seen.rings || seen.mask) && r.Shape != "":
		return fail(ErrInvalid, `the key "shape" is there beside rings or a mask, a region has one of them`)
	case !seen.rings && !seen.mask && r.Shape == "":
		return fail(ErrInvalid, `the key "rings" is missing`)
	}
	if r.Fill == FillDefault {
		r.Fill = fill
	}
	return b.add(r)
}

// Scale says what pixels are on the part: mm per pixel along x and y, and the place in pixels that is (0, 0) in mm.
type Scale struct {
	MMPerPixel [2]float64 `json:"mm_per_pixel"`
	Origin     [2]float64 `json:"origin"`
}

// scale reads {"mm_per_pixel": 0.05} or {"mm_per_pixel": [0.05, 0.04], "origin": [12, 40]}, or null.
func (b *builder) scale(c *cursor) (*Scale, *Error) {
	if c.kind() == kindNull {
		c.skip()
		return nil, nil
	}
	if e := c.expect(kindObject); e != nil {
		return nil, e
	}
	s := &Scale{}
	var seen struct{ mm, origin bool }
	for more := c.enter(); more; more = c.next() {
		key := c.key()
		twice := false
		var e *Error
		switch key {
		case "mm_per_pixel":
			twice, seen.mm = seen.mm, true
			if c.kind() == kindNumber {
				s.MMPerPixel[0], e = c.number()
				s.MMPerPixel[1] = s.MMPerPixel[0]
			} else {
				s.MMPerPixel, e = c.pair()
			}
			for _, v := range s.MMPerPixel {
				if e == nil && !(v > 0) {
					e = fail(ErrInvalid, "%v mm per pixel, it must be above 0", v)
				}
			}
		case "origin":
			twice, seen.origin = seen.origin, true
			s.Origin, e = c.pair()
		default:
			if e := b.unread(c, key, &scaleObject, func() string { return "scale" }); e != nil {
				return nil, e
			}
		}
		if e != nil {
			return nil, e.within("%s", key)
		}
		if twice {
			return nil, twiceError(key)
		}
	}
	if !seen.mm {
		return nil, fail(ErrInvalid, `the key "mm_per_pixel" is missing`)
	}
	return s, nil
}

// drawnOn reads {"name": "board.png", "width": 2880, "height": 1440}, or null.
func (b *builder) drawnOn(c *cursor) (none struct{}, e *Error) {
	if c.kind() == kindNull {
		c.skip()
		return none, nil
	}
	if e := c.expect(kindObject); e != nil {
		return none, e
	}
	f := b.file
	seen := map[string]bool{}
	for more := c.enter(); more; more = c.next() {
		key := c.key()
		switch key {
		case "name":
			f.Image, e = c.stringOrNull()
		case "width":
			f.ImageWidth, e = c.extent()
		case "height":
			f.ImageHeight, e = c.extent()
		default:
			if e := b.unread(c, key, &drawnOnObject, func() string { return "drawn_on" }); e != nil {
				return none, e
			}
		}
		if e != nil {
			return none, e.within("%s", key)
		}
		if seen[key] {
			return none, twiceError(key)
		}
		seen[key] = true
	}
	if f.Image == "" && f.ImageWidth == 0 && f.ImageHeight == 0 {
		return none, fail(ErrInvalid, `it says nothing: want "width" and "height", or "name"`)
	}
	return none, bothSides(f.ImageWidth, f.ImageHeight)
}

// pair consumes an array of two numbers.
func (c *cursor) pair() (p [2]float64, e *Error) {
	if e = c.expect(kindArray); e != nil {
		return p, e
	}
	n := 0
	for more := c.enter(); more; more = c.next() {
		v, e := c.number()
		if e != nil {
			return p, e.within("[%d]", n)
		}
		if n < len(p) {
			p[n] = v
		}
		n++
	}
	if n != len(p) {
		return p, fail(ErrInvalid, "want 2 numbers, found %d", n)
	}
	return p, nil
}

// Reference is a distribution to compare with: that of another region, by its name, or counts of samples by value, for
// each channel or for all of them.
type Reference struct {
	Region string     `json:"region,omitempty"`
	Counts [][]uint32 `json:"counts,omitempty"`
}

func (b *builder) reference(c *cursor) (*Reference, *Error) {
	if c.kind() == kindNull {
		c.skip()
		return nil, nil
	}
	const want = `expected {"region": NAME} or {"counts": [[...], ...]} of whole numbers from 0`
	if c.kind() != kindObject {
		return nil, fail(ErrInvalid, "%s, found %v", want, c.kind())
	}
	start := c.pos
	if _, e := c.walk([]string{"region", "counts"}, func(key string) *Error {
		return fail(ErrInvalid, "%s, found the key %s", want, quote(key))
	}); e != nil {
		return nil, e
	}
	r := &Reference{}
	err := json.Unmarshal([]byte(c.s[start:c.pos]), r)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil, fail(ErrInvalid, "%s, found a %s", want, wrong.Value).within("%s", wrong.Field)
	} else if err != nil {
		return nil, fail(ErrInvalid, "%s: %v", want, err)
	}
	return r, nil
}

func (b *builder) rings(c *cursor) ([][][2]float64, *Error) {
	if e := c.expect(kindArray); e != nil {
		return nil, e.within("rings")
	}
	var rings [][][2]float64
	for more := c.enter(); more; more = c.next() {
		e := b.ring(c, false)
		if e == nil {
			e = enough(len(b.scratch))
		}
		if e != nil {
			return nil, e.within("rings[%d]", len(rings))
		}
		rings = append(rings, b.keep(b.scratch))
	}
	if len(rings) == 0 {
		return nil, fail(ErrInvalid, "no rings, a region needs at least 1").within("rings")
	}
	return rings, nil
}

// mask reads [[y, x0, x1], ...].
func (b *builder) mask(c *cursor) ([]Run, *Error) {
	if e := c.expect(kindArray); e != nil {
		return nil, e.within("mask")
	}
	var mask []Run
	for more := c.enter(); more; more = c.next() {
		u, e := c.run()
		if e == nil {
			e = b.spend(1)
		}
		if n := len(mask); e == nil && n > 0 && (u[0] < mask[n-1][0] || u[0] == mask[n-1][0] && u[1] <= mask[n-1][2]) {
			e = fail(ErrInvalid, "%v must lie behind %v, row by row, and not touch it", u, mask[n-1])
		}
		if e != nil {
			return nil, e.within("mask[%d]", len(mask))
		}
		mask = append(mask, u)
	}
	if len(mask) == 0 {
		return nil, fail(ErrInvalid, "no runs, a mask needs at least 1").within("mask")
	}
	return mask, nil
}

// run consumes [y, x0, x1].
func (c *cursor) run() (u Run, e *Error) {
	if e = c.expect(kindArray); e != nil {
		return u, e
	}
	n := 0
	for more := c.enter(); more; more = c.next() {
		v, e := c.number()
		if e == nil && !(v == math.Trunc(v) && math.Abs(v) <= coordinateLimit) {
			e = fail(ErrInvalid, "%v must be a whole number, of magnitude below %d", v, coordinateLimit)
		}
		if e != nil {
			return u, e.within("[%d]", n)
		}
		if n < len(u) {
			u[n] = int32(v)
		}
		n++
	}
	switch {
	case n != len(u):
		return u, fail(ErrInvalid, "want 3 numbers, [y, x0, x1], found %d", n)
	case u[1] >= u[2]:
		return u, fail(ErrInvalid, "%v holds no pixel, x0 must be below x1", u)
	case min(u[0], u[1]) <= -coordinateLimit || max(u[0], u[2]-1) >= coordinateLimit:
		return u, fail(ErrInvalid, "%v: magnitudes must be below %d px", u, coordinateLimit)
	}
	return u, nil
}

// fill consumes the name of a fill rule; upper case, '-' and '_' make no difference, null is FillDefault.
func (c *cursor) fill() (string, *Error) {
	s, e := c.stringOrNull()
	if e != nil {
		return "", e
	}
	if s == FillDefault {
		return FillDefault, nil
	}
	switch withoutDashes.Replace(strings.ToLower(s)) {
	case FillNonZero:
		return FillNonZero, nil
	case FillEvenOdd:
		return FillEvenOdd, nil
	}
	return "", fail(ErrInvalid, `unknown fill rule %s, expected "nonzero" or "evenodd"`, quote(s))
}

// nameAt returns ` "name"` for messages about the object at an offset of a document, from the first of the keys that
// has a non-empty string or number, and "" if none has.
func nameAt(doc string, at int, keys ...string) string {
	c := &cursor{s: doc, pos: at}
	if c.kind() != kindObject {
		return ""
	}
	found := make([]string, len(keys))
	for more := c.enter(); more; more = c.next() {
		k := c.key()
		at := c.pos
		c.skip()
		for i := range keys {
			if k == keys[i] {
				v := &cursor{s: doc, pos: at}
				if s, e := v.scalar(); e == nil {
					found[i] = s
				}
			}
		}
	}
	for _, s := range found {
		if s != "" {
			return " " + quote(s)
		}
	}
	return ""
}
