package regionfile

// The locate section of a recipe: how the part is found.

import (
	"encoding/json"
	"math"
	"strings"
)

// Locate says how the part is found in each frame: docs/locate.md.
type Locate struct {
	Model                string     `json:"model,omitempty"` // translation, similarity, affine; "" by the number of fiducials
	MaxResidual          float64    `json:"max_residual,omitempty"`
	MaxDistortionPercent float64    `json:"max_distortion_percent,omitempty"`
	Fiducials            []Fiducial `json:"fiducials"`
}

// Fiducial is a mark to look for in a window, which is a shape or rings, with its centre at a place [x, y].
type Fiducial struct {
	Name      string        `json:"name,omitempty"`
	Window    string        `json:"window,omitempty"`
	Rings     [][][]float64 `json:"rings,omitempty"`
	At        []float64     `json:"at"`
	Kind      string        `json:"kind,omitempty"` // circle, square, cross; "" of any
	Dark      bool          `json:"dark,omitempty"`
	Threshold uint32        `json:"threshold,omitempty"`
	MinArea   uint32        `json:"min_area,omitempty"`
	MaxArea   uint32        `json:"max_area,omitempty"`
	Channel   string        `json:"channel,omitempty"` // r, g, b, gray; "" is gray, or green of colours
}

// maxLocate is the longest text of the section, in bytes.
const maxLocate = 1 << 20

// locate reads the section, or null.
func (c *cursor) locate() (*Locate, *Error) {
	if c.kind() == kindNull {
		c.skip()
		return nil, nil
	}
	if e := c.expect(kindObject); e != nil {
		return nil, e
	}
	end := *c
	end.skip()
	text := c.s[c.pos:end.pos]
	*c = end
	if len(text) > maxLocate {
		return nil, fail(ErrLimit, "the section has %d bytes, the limit is %d", len(text), maxLocate)
	}
	l := &Locate{}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields() // which would say where to look, or how far a part may be off
	if err := d.Decode(l); err != nil {
		return nil, fail(ErrInvalid, "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if len(l.Fiducials) == 0 {
		return nil, fail(ErrInvalid, `the key "fiducials" must hold at least 1`)
	}
	place := func(at []float64) bool {
		return len(at) == 2 && math.Abs(at[0]) < coordinateLimit && math.Abs(at[1]) < coordinateLimit
	}
	for i := range l.Fiducials {
		f := &l.Fiducials[i]
		e := func() *Error {
			switch {
			case !place(f.At):
				return fail(ErrInvalid, `the key "at" must be a place [x, y], its magnitude below %d px`, coordinateLimit)
			case (f.Window == "") == (f.Rings == nil):
				return fail(ErrInvalid, `one of the keys "window" (a shape) and "rings" must be there`)
			}
			for k, ring := range f.Rings {
				for n, v := range ring {
					if !place(v) {
						return fail(ErrInvalid, "must be a place [x, y], its magnitude below %d px", coordinateLimit).within(
							"rings[%d][%d]", k, n)
					}
				}
			}
			return nil
		}()
		if e != nil {
			return nil, e.within("fiducials[%d]", i)
		}
	}
	return l, nil
}
