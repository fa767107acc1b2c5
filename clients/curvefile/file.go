package curvefile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Kinds of errors, for errors.Is. An error of reading the file itself matches what the operating system said instead.
var (
	// ErrUnknownFormat: the content is none of the formats that this package reads.
	ErrUnknownFormat = errors.New("unknown curve file format")
	// ErrSyntax: the content is no well-formed JSON or XML.
	ErrSyntax = errors.New("malformed curve file")
	// ErrInvalid: well-formed, but not a drawing.
	ErrInvalid = errors.New("invalid curve file")
	// ErrLimit: a limit of Options was exceeded.
	ErrLimit = errors.New("curve file limit exceeded")
)

// Error says what is wrong with a file. Its text is one line.
type Error struct {
	File   string // as the caller gave it; may be empty
	Line   int    // from 1; 0 where the whole file is meant
	Column int    // in characters, from 1
	Where  string // the element, such as "curves[3].left[0]"
	Reason string
	Kind   error // one of the Err values of this package, or an error of the operating system
}

func (e *Error) Error() string {
	var parts []string
	if e.File != "" {
		parts = append(parts, e.File)
	}
	if e.Line > 0 {
		parts = append(parts, fmt.Sprintf("line %d column %d", e.Line, e.Column))
	}
	if e.Where != "" {
		parts = append(parts, e.Where)
	}
	return oneLine(strings.Join(append(parts, e.Reason), ": "))
}

// Unwrap returns Kind.
func (e *Error) Unwrap() error { return e.Kind }

// oneLine escapes what could break a line or a terminal.
func oneLine(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}

// Defaults of Options.
const (
	defaultMaxBytes  = 256 << 20
	defaultMaxCurves = 1 << 20
	defaultMaxPoints = 16 << 20
)

// Options bound what is read. The zero value has the defaults.
type Options struct {
	MaxBytes  int64 // of the file
	MaxCurves int
	MaxPoints int // control points and stops, of all curves
}

// Load reads a file.
func Load(name string, o Options) (*polyscanv1.Drawing, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, readError(name, err)
	}
	defer f.Close()
	limit := o.settled().MaxBytes
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, readError(name, err)
	}
	return Parse(name, data, o)
}

func readError(name string, err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return &Error{File: name, Reason: err.Error(), Kind: err}
}

func (o Options) settled() Options {
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.MaxCurves <= 0 {
		o.MaxCurves = defaultMaxCurves
	}
	if o.MaxPoints <= 0 {
		o.MaxPoints = defaultMaxPoints
	}
	return o
}

// Is reports whether data looks like one of the formats, and not like a picture: its first character is { or <, or it
// is compressed.
func Is(data []byte) bool {
	if bytes.HasPrefix(data, gzipMagic) {
		return true
	}
	body := bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\uFEFF")), " \t\r\n")
	return len(body) > 0 && (body[0] == '{' || body[0] == '<')
}

// Parse reads a drawing. The name is for errors.
func Parse(name string, data []byte, o Options) (*polyscanv1.Drawing, error) {
	o = o.settled()
	r := &reader{data: data, opts: o, drawing: &polyscanv1.Drawing{}}
	err := r.parse()
	if err != nil {
		err.File = name
		return nil, err
	}
	return r.drawing, nil
}

// reader is what the formats have in common.
type reader struct {
	data    []byte
	opts    Options
	drawing *polyscanv1.Drawing
	points  int // and stops, so far
	offset  func() int64
}

func (r *reader) parse() *Error {
	if bytes.HasPrefix(r.data, gzipMagic) {
		if e := r.unzip(); e != nil {
			return e
		}
	}
	if int64(len(r.data)) > r.opts.MaxBytes {
		return &Error{Kind: ErrLimit, Reason: fmt.Sprintf("more than %d bytes", r.opts.MaxBytes)}
	}
	r.data = bytes.TrimPrefix(r.data, []byte("\uFEFF"))
	body := bytes.TrimLeft(r.data, " \t\r\n")
	switch {
	case len(body) == 0:
		return &Error{Kind: ErrUnknownFormat, Reason: "the file is empty"}
	case body[0] == '{':
		return r.json()
	case body[0] == '<':
		return r.xml()
	}
	return &Error{Kind: ErrUnknownFormat, Reason: "neither JSON nor XML"}
}

var gzipMagic = []byte{0x1f, 0x8b}

// unzip decompresses the data, of which it makes no more than one byte above the limit.
func (r *reader) unzip() *Error {
	z, err := gzip.NewReader(bytes.NewReader(r.data))
	if err == nil {
		r.data, err = io.ReadAll(io.LimitReader(z, r.opts.MaxBytes+1))
	}
	if err != nil {
		return &Error{Kind: ErrSyntax, Reason: fmt.Sprintf("malformed gzip: %v", err)}
	}
	return nil
}

// fail is an error where reading has come to.
func (r *reader) fail(kind error, where, format string, args ...any) *Error {
	e := &Error{Kind: kind, Where: where, Reason: fmt.Sprintf(format, args...)}
	at := min(int(r.offset()), len(r.data))
	e.Line = 1 + bytes.Count(r.data[:at], []byte("\n"))
	e.Column = utf8.RuneCount(r.data[bytes.LastIndexByte(r.data[:at], '\n')+1:at]) + 1
	return e
}

// size checks the canvas.
func (r *reader) size(where string, v float64) (uint32, *Error) {
	if !(v >= 1 && v <= 1<<20) || v != math.Trunc(v) {
		return 0, r.fail(ErrInvalid, where, "%v: must be a whole number from 1 to %d", v, 1<<20)
	}
	return uint32(v), nil
}

// coordinate checks one.
func (r *reader) coordinate(where string, v float64) *Error {
	if !(math.Abs(v) <= maxCoordinate) {
		return r.fail(ErrInvalid, where, "%v: must be -%d to %[2]d", v, maxCoordinate)
	}
	return nil
}

// room counts a point or a stop.
func (r *reader) room(where string) *Error {
	if r.points++; r.points > r.opts.MaxPoints {
		return r.fail(ErrLimit, where, "more than %d points and stops", r.opts.MaxPoints)
	}
	return nil
}

const (
	maxCoordinate = 1 << 20
	maxSigma      = 100
	maxSegments   = 1<<16 - 1
	maxID         = 64
)

// add checks a curve as a whole, and adds it.
func (r *reader) add(c *polyscanv1.Curve, where string) *Error {
	n := len(c.Xy) / 2
	if n < 4 || n%3 != 1 {
		return r.fail(ErrInvalid, where, "%d points: must be 3n+1 for n segments, at least 4", n)
	}
	segments := n / 3
	if segments > maxSegments {
		return r.fail(ErrLimit, where, "%d segments: must be at most %d", segments, maxSegments)
	}
	same := true
	for i, v := range c.Xy {
		same = same && v == c.Xy[i%2]
	}
	if same {
		return r.fail(ErrInvalid, where, "all points are (%v, %v)", c.Xy[0], c.Xy[1])
	}
	if len(c.Left) == 0 && len(c.Right) == 0 && !c.Barrier {
		return r.fail(ErrInvalid, where, "has neither colours nor is a barrier")
	}
	for _, side := range []struct {
		name  string
		stops []*polyscanv1.ColorStop
	}{{"left", c.Left}, {"right", c.Right}} {
		before := 0.0
		for i, s := range side.stops {
			if e := r.place(fmt.Sprintf("%s.%s[%d]", where, side.name, i), s.At, segments, before); e != nil {
				return e
			}
			before = s.At
		}
	}
	before := 0.0
	for i, s := range c.Blur {
		place := fmt.Sprintf("%s.blur[%d]", where, i)
		if e := r.place(place, s.At, segments, before); e != nil {
			return e
		}
		if !(s.Sigma >= 0 && s.Sigma <= maxSigma) {
			return r.fail(ErrInvalid, place, "deviation %v: must be 0 to %d", s.Sigma, maxSigma)
		}
		before = s.At
	}
	r.drawing.Curves = append(r.drawing.Curves, c)
	return nil
}

func (r *reader) place(where string, at float64, segments int, before float64) *Error {
	switch {
	case !(at >= 0 && at <= float64(segments)):
		return r.fail(ErrInvalid, where, "place %v: must be 0 to %d, the number of segments", at, segments)
	case at < before:
		return r.fail(ErrInvalid, where, "place %v: is less than %v, that of the stop before", at, before)
	}
	return nil
}

// curveRoom checks that there may be one more curve.
func (r *reader) curveRoom() *Error {
	if len(r.drawing.Curves) == r.opts.MaxCurves {
		return r.fail(ErrLimit, "", "more than %d curves", r.opts.MaxCurves)
	}
	return nil
}
