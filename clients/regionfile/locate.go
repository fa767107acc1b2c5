package regionfile

// The locate section of a recipe: how the part is found.

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/polyscan/polyscan/internal/spelling"
)

// Locate says how the part is found in each frame: docs/locate.md.
type Locate struct {
	Model                string     `json:"model,omitempty"` // translation, similarity, affine; "" by their number
	MaxResidual          float64    `json:"max_residual,omitempty"`
	MaxDistortionPercent float64    `json:"max_distortion_percent,omitempty"`
	Fiducials            []Fiducial `json:"fiducials"`
}

// Fiducial is a mark to look for in a window, which is a shape or rings, with its centre at a place [x, y].
type Fiducial struct {
	Name      string         `json:"name,omitempty"`
	Window    string         `json:"window,omitempty"`
	Rings     [][][2]float64 `json:"rings,omitempty"`
	At        [2]float64     `json:"at"`
	Kind      string         `json:"kind,omitempty"` // circle, square, cross; "" of any
	Dark      bool           `json:"dark,omitempty"`
	Threshold uint32         `json:"threshold,omitempty"`
	MinArea   uint32         `json:"min_area,omitempty"`
	MaxArea   uint32         `json:"max_area,omitempty"`
	Channel   string         `json:"channel,omitempty"` // r, g, b, gray; "" is gray, or green of colours
}

// The objects of the section. Their other keys are errors: they would say where to look, or how far a part may be off.
var (
	locateObject   = object{read: []string{"model", "max_residual", "max_distortion_percent", "fiducials"}}
	fiducialObject = object{read: []string{"name", "window", "rings", "at", "kind", "dark", "threshold", "min_area",
		"max_area", "channel"}}
)

// maxLocate is the longest text of the section, in bytes.
const maxLocate = 1 << 20

// locate reads the section, or null.
func (b *builder) locate(c *cursor) (*Locate, *Error) {
	if c.kind() == kindNull {
		c.skip()
		return nil, nil
	}
	start := c.pos
	m, e := c.only(&locateObject)
	if e != nil {
		return nil, e
	}
	if n := c.pos - start; n > maxLocate {
		return nil, fail(ErrLimit, "the section has %d bytes, the limit is %d", n, maxLocate)
	}
	l := &Locate{}
	if l.Model, e = optional(m, "model", (*cursor).stringOrNull); e != nil {
		return nil, e
	}
	if l.MaxResidual, e = optional(m, "max_residual", above0("the default, 1")); e != nil {
		return nil, e
	}
	if l.MaxDistortionPercent, e = optional(m, "max_distortion_percent", above0("the default, 0.75")); e != nil {
		return nil, e
	}
	named := map[string]int{}
	_, e = optional(m, "fiducials", func(c *cursor) (none struct{}, e *Error) {
		if e := c.expect(kindArray); e != nil {
			return none, e
		}
		for more := c.enter(); more; more = c.next() {
			start := c.pos
			f, e := b.fiducial(c)
			// The server tells fiducials apart by their names, and calls those without one by their number.
			name := cmp.Or(f.Name, strconv.Itoa(len(l.Fiducials)+1))
			if first, again := named[name]; again && e == nil {
				e = fail(ErrInvalid, "%s, fiducials[%d] has the same name", quote(name), first).within("name")
			}
			named[name] = len(l.Fiducials)
			if e != nil {
				return none, e.within("[%d]%s", len(l.Fiducials), nameAt(c.s, start, "name"))
			}
			l.Fiducials = append(l.Fiducials, f)
		}
		return none, nil
	})
	if e == nil && len(l.Fiducials) == 0 {
		e = fail(ErrInvalid, `the key "fiducials" must hold at least 1`)
	}
	return l, e
}

func (b *builder) fiducial(c *cursor) (f Fiducial, e *Error) {
	m, e := c.only(&fiducialObject)
	if e != nil {
		return f, e
	}
	given := func(key string) bool { return m.has(key) && m.cursor(key).kind() != kindNull }
	switch {
	case given("window") && given("rings"):
		return f, fail(ErrInvalid, `the keys "window" and "rings" are both there, a fiducial has one of them`)
	case !given("window") && !given("rings"):
		return f, fail(ErrInvalid, `one of the keys "window" (a shape) and "rings" must be there`)
	case !given("at"):
		return f, fail(ErrInvalid, `the key "at" is missing: the centre of the mark, [x, y]`)
	case given("rings"):
		if f.Rings, e = b.rings(m.cursor("rings")); e != nil {
			return f, e // its place says rings[i] already
		}
	}
	for _, t := range []struct {
		key string
		to  *string
	}{{"name", &f.Name}, {"window", &f.Window}, {"kind", &f.Kind}, {"channel", &f.Channel}} {
		if *t.to, e = optional(m, t.key, (*cursor).stringOrNull); e != nil {
			return f, e
		}
	}
	if given("window") && f.Window == "" {
		return f, fail(ErrInvalid, `it is empty, it must be a shape such as "rect(86, 10, 146, 70)"`).within("window")
	}
	if f.At, e = optional(m, "at", func(c *cursor) ([2]float64, *Error) { return c.position(false) }); e != nil {
		return f, e
	}
	if given("dark") {
		if k := m.cursor("dark").kind(); k != kindTrue && k != kindFalse {
			return f, fail(ErrInvalid, "expected true or false, found %s", k).within("dark")
		}
		f.Dark = m.cursor("dark").kind() == kindTrue
	}
	if f.Threshold, e = optional(m, "threshold", wholeAbove0(1<<16-1, "that of the window's histogram")); e != nil {
		return f, e
	}
	if f.MinArea, e = optional(m, "min_area", wholeAbove0(1<<29, "the default, 16")); e != nil {
		return f, e
	}
	f.MaxArea, e = optional(m, "max_area", wholeAbove0(1<<29, "as many as there are"))
	return f, e
}

// only consumes an object that has no other keys than those that are read of it.
func (c *cursor) only(o *object) (*members, *Error) {
	if e := c.expect(kindObject); e != nil {
		return nil, e
	}
	return c.walk(o.read, func(key string) *Error {
		hint := "want one of " + strings.Join(o.read, ", ")
		if near := spelling.Nearest(key, o.read); near != "" {
			hint = meant(near)
		}
		return fail(ErrInvalid, "the key %s is not known here; %s", quote(key), hint)
	})
}

// above0 reads a number above 0, or null as 0, which stands for what is the case without the key: a 0 in the file would
// silently mean that, too.
func above0(without string) func(*cursor) (float64, *Error) {
	return func(c *cursor) (float64, *Error) {
		if c.kind() == kindNull {
			return 0, nil
		}
		v, e := c.number()
		if e == nil && !(v > 0) {
			e = fail(ErrInvalid, "%v, it must be above 0; leave it out for %s", v, without)
		}
		return v, e
	}
}

// wholeAbove0 is above0 of a whole number up to a limit.
func wholeAbove0(most uint32, without string) func(*cursor) (uint32, *Error) {
	read := above0(without)
	return func(c *cursor) (uint32, *Error) {
		v, e := read(c)
		if e == nil && (v != math.Trunc(v) || v > float64(most)) {
			e = fail(ErrInvalid, "%v, it must be a whole number from 1 to %d", v, most)
		}
		if e != nil {
			return 0, e
		}
		return uint32(v), nil
	}
}
