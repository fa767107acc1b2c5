package curvefile

// The format of Orzan and others.

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"

	"github.com/polyscan/polyscan/internal/digits"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// idsPerSegment is how many globalIDs a segment usually has.
const idsPerSegment = 10

type xmlReader struct {
	*reader
	dec *xml.Decoder
}

func (r *reader) xml() *Error {
	x := &xmlReader{r, xml.NewDecoder(bytes.NewReader(r.data))}
	x.dec.CharsetReader = func(string, io.Reader) (io.Reader, error) { return nil, errors.New("must be UTF-8") }
	r.offset = x.dec.InputOffset
	for {
		t, e := x.token("")
		if e != nil {
			return e
		}
		start, ok := t.(xml.StartElement)
		if !ok {
			continue // a declaration, a document type, or a comment
		}
		if start.Name.Local != "curve_set" {
			return x.fail(ErrUnknownFormat, "", "the root is %.80q, not a curve_set", start.Name.Local)
		}
		if e := x.curveSet(start); e != nil {
			return e
		}
		break
	}
	for {
		t, err := x.dec.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return x.fail(ErrSyntax, "", "malformed XML: %.200v", err)
		}
		if _, ok := t.(xml.StartElement); ok {
			return x.fail(ErrSyntax, "", "something follows the curve_set")
		}
	}
}

func (x *xmlReader) token(where string) (xml.Token, *Error) {
	t, err := x.dec.Token()
	if err == nil {
		return t, nil
	}
	if errors.Is(err, io.EOF) {
		return nil, x.fail(ErrSyntax, where, "malformed XML: the file ends in the middle")
	}
	return nil, x.fail(ErrSyntax, where, "malformed XML: %.200v", err)
}

// children calls f for the elements inside the one that was entered; f returns whether it has read one to its end.
func (x *xmlReader) children(where string, f func(start xml.StartElement) (bool, *Error)) *Error {
	for {
		t, e := x.token(where)
		if e != nil {
			return e
		}
		switch t := t.(type) {
		case xml.StartElement:
			done, e := f(t)
			if e != nil {
				return e
			}
			if !done {
				if err := x.dec.Skip(); err != nil {
					return x.fail(ErrSyntax, where, "malformed XML: %.200v", err)
				}
			}
		case xml.EndElement:
			return nil
		}
	}
}

// attribute reads a number. ok is false where it is not there.
func (x *xmlReader) attribute(start xml.StartElement, name, where string) (v float64, ok bool, _ *Error) {
	for _, a := range start.Attr {
		if a.Name.Local == name {
			v, err := digits.Float(a.Value)
			if err != nil {
				return 0, true, x.fail(ErrInvalid, where, "%s = %.80q: must be a number", name, a.Value)
			}
			return v, true, nil
		}
	}
	return 0, false, nil
}

// required is attribute for one that has to be there.
func (x *xmlReader) required(start xml.StartElement, name, where string) (float64, *Error) {
	v, ok, e := x.attribute(start, name, where)
	if e == nil && !ok {
		e = x.fail(ErrInvalid, where, "%s is missing", name)
	}
	return v, e
}

// counted checks an attribute that says how many there are, where there is one.
func (x *xmlReader) counted(start xml.StartElement, name, where string, n int) *Error {
	v, ok, e := x.attribute(start, name, where)
	if e == nil && ok && v != float64(n) {
		e = x.fail(ErrInvalid, where, "%s is %v, but there are %d", name, v, n)
	}
	return e
}

func (x *xmlReader) curveSet(start xml.StartElement) *Error {
	for _, side := range []struct {
		name string
		to   *uint32
	}{{"image_width", &x.drawing.Width}, {"image_height", &x.drawing.Height}} {
		v, e := x.required(start, side.name, "curve_set")
		if e == nil {
			*side.to, e = x.size(side.name, v)
		}
		if e != nil {
			return e
		}
	}
	e := x.children("curve_set", func(s xml.StartElement) (bool, *Error) {
		if s.Name.Local != "curve" {
			return false, nil
		}
		return true, x.curve(s, fmt.Sprintf("curve[%d]", len(x.drawing.Curves)))
	})
	if e != nil {
		return e
	}
	return x.counted(start, "nb_curves", "curve_set", len(x.drawing.Curves))
}

// idStop is a stop at a globalID.
type idStop struct {
	id float64
	v  [3]float32
}

func (x *xmlReader) curve(start xml.StartElement, where string) *Error {
	if e := x.curveRoom(); e != nil {
		return e
	}
	c := &polyscanv1.Curve{}
	var left, right, blur []idStop
	length, _, e := x.attribute(start, "global_len", where)
	if e != nil {
		return e
	}
	e = x.children(where, func(s xml.StartElement) (bool, *Error) {
		switch s.Name.Local {
		case "control_points_set":
			return true, x.list(where, "control_point", []string{"y", "x"}, func(v []float64) *Error {
				for _, v := range v {
					if e := x.coordinate(where, v); e != nil {
						return e
					}
				}
				c.Xy = append(c.Xy, v...)
				return nil
			})
		case "left_colors_set":
			return true, x.colours(where, "left_color", &left)
		case "right_colors_set":
			return true, x.colours(where, "right_color", &right)
		case "blur_points_set":
			return true, x.list(where, "best_scale", []string{"globalID", "value"}, func(v []float64) *Error {
				blur = append(blur, idStop{v[0], [3]float32{float32(min(max(v[1], 0), maxSigma))}})
				return nil
			})
		}
		return false, nil
	})
	if e != nil {
		return e
	}
	for _, n := range []struct {
		name string
		n    int
	}{{"nb_control_points", len(c.Xy) / 2}, {"nb_left_colors", len(left)}, {"nb_right_colors", len(right)},
		{"nb_blur_points", len(blur)}} {
		if e := x.counted(start, n.name, where, n.n); e != nil {
			return e
		}
	}
	segments := float64(len(c.Xy) / 6)
	most := 0.0
	for _, list := range [][]idStop{left, right, blur} {
		for _, s := range list {
			most = max(most, s.id)
		}
	}
	at := func(id float64) float64 {
		switch {
		case most <= idsPerSegment*segments:
			return id / idsPerSegment
		case length >= most:
			return id * segments / length
		}
		return id * segments / most
	}
	for _, s := range left {
		c.Left = append(c.Left, &polyscanv1.ColorStop{At: at(s.id), Red: s.v[0], Green: s.v[1], Blue: s.v[2]})
	}
	for _, s := range right {
		c.Right = append(c.Right, &polyscanv1.ColorStop{At: at(s.id), Red: s.v[0], Green: s.v[1], Blue: s.v[2]})
	}
	for _, s := range blur {
		c.Blur = append(c.Blur, &polyscanv1.BlurStop{At: at(s.id), Sigma: s.v[0]})
	}
	return x.add(c, where)
}

// colours reads a set of stops. R is blue.
func (x *xmlReader) colours(where, element string, to *[]idStop) *Error {
	return x.list(where, element, []string{"globalID", "B", "G", "R"}, func(v []float64) *Error {
		for _, c := range v[1:] {
			if !(c >= 0 && c <= 255) {
				return x.fail(ErrInvalid, where+"."+element, "colour %v: must be 0 to 255", c)
			}
		}
		*to = append(*to, idStop{v[0], [3]float32{float32(v[1]), float32(v[2]), float32(v[3])}})
		return nil
	})
}

// list reads elements of a set, and of each the attributes.
func (x *xmlReader) list(where, element string, attributes []string, add func(v []float64) *Error) *Error {
	i := 0
	return x.children(where, func(s xml.StartElement) (bool, *Error) {
		if s.Name.Local != element {
			return false, nil
		}
		at := fmt.Sprintf("%s.%s[%d]", where, element, i)
		i++
		if e := x.room(at); e != nil {
			return false, e
		}
		v := make([]float64, len(attributes))
		for k, name := range attributes {
			var e *Error
			if v[k], e = x.required(s, name, at); e != nil {
				return false, e
			}
		}
		return false, add(v) // what is inside is skipped
	})
}
