package curvefile

// polyscan's own format.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// version is what the format says it is.
const version = 1

// jsonReader reads tokens one by one, so that errors know their place and limits hold while reading.
type jsonReader struct {
	*reader
	dec *json.Decoder
}

func (r *reader) json() *Error {
	j := &jsonReader{r, json.NewDecoder(bytes.NewReader(r.data))}
	r.offset = j.dec.InputOffset
	seen := map[string]bool{}
	e := j.object("", func(key string) *Error {
		seen[key] = true
		switch key {
		case "version":
			v, e := j.number(key)
			if e == nil && v != version {
				e = j.fail(ErrInvalid, key, "%v: this reads version %d", v, version)
			}
			return e
		case "width", "height":
			v, e := j.number(key)
			if e != nil {
				return e
			}
			n, e := j.size(key, v)
			if key == "width" {
				r.drawing.Width = n
			} else {
				r.drawing.Height = n
			}
			return e
		case "curves":
			return j.array(key, func(i int) *Error { return j.curve(fmt.Sprintf("curves[%d]", i)) })
		case "pixels":
			return j.array(key, func(i int) *Error { return j.pixel(i) })
		}
		return j.unknown("", key)
	})
	if e != nil {
		return e
	}
	if _, err := j.dec.Token(); !errors.Is(err, io.EOF) {
		return j.fail(ErrSyntax, "", "something follows the object")
	}
	for _, key := range []string{"version", "width", "height", "curves"} {
		if !seen[key] {
			return j.fail(ErrInvalid, "", "the key %q is missing", key)
		}
	}
	for i, g := range r.drawing.Pixels {
		if g.X >= r.drawing.Width || g.Y >= r.drawing.Height {
			return j.fail(ErrInvalid, fmt.Sprintf("pixels[%d]", i), "(%d, %d) is outside of the canvas of %dx%d", g.X,
				g.Y, r.drawing.Width, r.drawing.Height)
		}
	}
	return nil
}

func (j *jsonReader) pixel(i int) *Error {
	var v [5]float64
	if e := j.entry("pixels", i, v[:]); e != nil {
		return e
	}
	where := fmt.Sprintf("pixels[%d]", i)
	for _, x := range v[:2] {
		if !(x >= 0 && x < 1<<20) || x != math.Trunc(x) {
			return j.fail(ErrInvalid, where, "%v: must be a whole number from 0 to %d", x, 1<<20-1)
		}
	}
	if e := j.levels(where, v[2:]); e != nil {
		return e
	}
	j.drawing.Pixels = append(j.drawing.Pixels, &polyscanv1.GivenPixel{
		X: uint32(v[0]), Y: uint32(v[1]), Red: float32(v[2]), Green: float32(v[3]), Blue: float32(v[4]),
	})
	return nil
}

// levels checks the parts of a colour.
func (j *jsonReader) levels(where string, v []float64) *Error {
	for _, x := range v {
		if !(x >= 0 && x <= 255) {
			return j.fail(ErrInvalid, where, "colour %v: must be 0 to 255", x)
		}
	}
	return nil
}

func (j *jsonReader) unknown(where, key string) *Error {
	return j.fail(ErrInvalid, where, "the key %.80q is unknown", key)
}

func (j *jsonReader) token(where string) (json.Token, *Error) {
	t, err := j.dec.Token()
	if err == nil {
		return t, nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, j.fail(ErrSyntax, where, "malformed JSON: the file ends in the middle")
	}
	return nil, j.fail(ErrSyntax, where, "malformed JSON: %.200v", err)
}

func (j *jsonReader) open(where string, want json.Delim, what string) *Error {
	t, e := j.token(where)
	if e == nil && t != want {
		e = j.fail(ErrInvalid, where, "must be %s", what)
	}
	return e
}

// object reads one, of which no key comes twice.
func (j *jsonReader) object(where string, member func(key string) *Error) *Error {
	if e := j.open(where, '{', "an object"); e != nil {
		return e
	}
	seen := map[string]bool{}
	for j.dec.More() {
		t, e := j.token(where)
		if e != nil {
			return e
		}
		key, _ := t.(string) // a key is one, or the decoder has found a mistake
		if seen[key] {
			return j.fail(ErrInvalid, where, "the key %.80q comes twice", key)
		}
		seen[key] = true
		if e := member(key); e != nil {
			return e
		}
	}
	_, e := j.token(where)
	return e
}

func (j *jsonReader) array(where string, element func(i int) *Error) *Error {
	if e := j.open(where, '[', "an array"); e != nil {
		return e
	}
	for i := 0; j.dec.More(); i++ {
		if e := element(i); e != nil {
			return e
		}
	}
	_, e := j.token(where)
	return e
}

func (j *jsonReader) number(where string) (float64, *Error) {
	t, e := j.token(where)
	if e != nil {
		return 0, e
	}
	v, ok := t.(float64)
	if !ok {
		return 0, j.fail(ErrInvalid, where, "must be a number")
	}
	return v, nil
}

// numbers reads an array of len(v).
func (j *jsonReader) numbers(where string, v []float64) *Error {
	n := 0
	e := j.array(where, func(i int) *Error {
		if i == len(v) {
			return j.fail(ErrInvalid, where, "has more than %d numbers", len(v))
		}
		x, e := j.number(where)
		v[i] = x
		n++
		return e
	})
	if e == nil && n < len(v) {
		e = j.fail(ErrInvalid, where, "has %d numbers: must be %d", n, len(v))
	}
	return e
}

func (j *jsonReader) curve(where string) *Error {
	if e := j.curveRoom(); e != nil {
		return e
	}
	c := &polyscanv1.Curve{}
	e := j.object(where, func(key string) *Error {
		list := where + "." + key
		switch key {
		case "id":
			t, e := j.token(list)
			if e != nil {
				return e
			}
			id, ok := t.(string)
			if !ok || len(id) > maxID {
				return j.fail(ErrInvalid, list, "must be a string of at most %d bytes", maxID)
			}
			c.Id = id
			return nil
		case "barrier":
			t, e := j.token(list)
			if e != nil {
				return e
			}
			var ok bool
			if c.Barrier, ok = t.(bool); !ok {
				return j.fail(ErrInvalid, list, "must be true or false")
			}
			return nil
		case "points":
			return j.array(list, func(i int) *Error {
				var xy [2]float64
				if e := j.entry(list, i, xy[:]); e != nil {
					return e
				}
				for _, v := range xy {
					if e := j.coordinate(fmt.Sprintf("%s[%d]", list, i), v); e != nil {
						return e
					}
				}
				c.Xy = append(c.Xy, xy[:]...)
				return nil
			})
		case "left", "right":
			return j.array(list, func(i int) *Error {
				var v [4]float64
				if e := j.entry(list, i, v[:]); e != nil {
					return e
				}
				s := &polyscanv1.ColorStop{At: v[0], Red: float32(v[1]), Green: float32(v[2]), Blue: float32(v[3])}
				if e := j.levels(fmt.Sprintf("%s[%d]", list, i), v[1:]); e != nil {
					return e
				}
				if key == "left" {
					c.Left = append(c.Left, s)
				} else {
					c.Right = append(c.Right, s)
				}
				return nil
			})
		case "blur":
			return j.array(list, func(i int) *Error {
				var v [2]float64
				e := j.entry(list, i, v[:])
				c.Blur = append(c.Blur, &polyscanv1.BlurStop{At: v[0], Sigma: float32(v[1])})
				return e
			})
		}
		return j.unknown(where, key)
	})
	if e != nil {
		return e
	}
	return j.add(c, where)
}

// entry reads a point or a stop of a list.
func (j *jsonReader) entry(list string, i int, v []float64) *Error {
	where := fmt.Sprintf("%s[%d]", list, i)
	if e := j.room(where); e != nil {
		return e
	}
	return j.numbers(where, v)
}

// AppendJSON appends a drawing in polyscan's own format, a line for each curve. Numbers have the fewest digits that
// give them back. Parse reads the same from it where the drawing keeps to the limits; infinite numbers and NaN are
// errors.
func AppendJSON(b []byte, d *polyscanv1.Drawing) ([]byte, error) {
	bad := false
	number := func(v float64, bits int) {
		bad = bad || math.IsNaN(v) || math.IsInf(v, 0)
		b = strconv.AppendFloat(b, v, 'f', -1, bits)
	}
	b = fmt.Appendf(b, "{\"version\": %d, \"width\": %d, \"height\": %d, \"curves\": [", version, d.GetWidth(),
		d.GetHeight())
	for i, c := range d.GetCurves() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, "\n{"...)
		if id := c.GetId(); id != "" {
			s, err := json.Marshal(id)
			if err != nil {
				return nil, fmt.Errorf("curves[%d].id: %w", i, err)
			}
			b = append(append(append(b, `"id":`...), s...), ',')
		}
		b = append(b, `"points":[`...)
		for k, v := range c.GetXy() {
			switch {
			case k%2 == 1:
				b = append(b, ',')
			case k > 0:
				b = append(b, "],["...)
			default:
				b = append(b, '[')
			}
			number(v, 64)
		}
		b = append(b, "]]"...)
		for _, side := range []struct {
			key   string
			stops []*polyscanv1.ColorStop
		}{{"left", c.GetLeft()}, {"right", c.GetRight()}} {
			for k, s := range side.stops {
				b = listed(b, side.key, k)
				number(s.GetAt(), 64)
				for _, v := range []float32{s.GetRed(), s.GetGreen(), s.GetBlue()} {
					b = append(b, ',')
					number(float64(v), 32)
				}
				b = append(b, ']')
			}
			b = closed(b, len(side.stops))
		}
		for k, s := range c.GetBlur() {
			b = listed(b, "blur", k)
			number(s.GetAt(), 64)
			b = append(b, ',')
			number(float64(s.GetSigma()), 32)
			b = append(b, ']')
		}
		b = closed(b, len(c.GetBlur()))
		if c.GetBarrier() {
			b = append(b, `,"barrier":true`...)
		}
		b = append(b, '}')
		if bad {
			return nil, fmt.Errorf("curves[%d] has a number that is not finite", i)
		}
	}
	b = append(b, "\n]"...)
	for k, g := range d.GetPixels() {
		b = listed(b, "pixels", k)
		b = fmt.Appendf(b, "%d,%d", g.GetX(), g.GetY())
		for _, v := range []float32{g.GetRed(), g.GetGreen(), g.GetBlue()} {
			b = append(b, ',')
			number(float64(v), 32)
		}
		b = append(b, ']')
	}
	b = append(closed(b, len(d.GetPixels())), "}\n"...)
	if bad {
		return nil, errors.New("pixels have a number that is not finite")
	}
	return b, nil
}

// listed begins element k of a list.
func listed(b []byte, key string, k int) []byte {
	if k == 0 {
		b = append(append(append(b, `,"`...), key...), `":[`...)
	} else {
		b = append(b, ',')
	}
	return append(b, '[')
}

// closed ends a list of n elements.
func closed(b []byte, n int) []byte {
	if n == 0 {
		return b
	}
	return append(b, ']')
}
