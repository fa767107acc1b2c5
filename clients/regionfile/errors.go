package regionfile

// The error type of this package: what went wrong, in which file, at which element.

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kinds of errors, for errors.Is. An error of reading the file itself matches what the operating system said
// (fs.ErrNotExist and so on) instead.
var (
	// ErrUnknownFormat: the content is none of the formats that this package reads.
	ErrUnknownFormat = errors.New("unknown region file format")
	// ErrSyntax: the content is not well-formed JSON, XML, path data, run-length data and so on.
	ErrSyntax = errors.New("malformed region file")
	// ErrInvalid: well-formed, but an element says something that isn't a region (a ring of two vertices, an infinite
	// coordinate).
	ErrInvalid = errors.New("invalid region")
	// ErrUnsupported: legal in its format, but this package doesn't read it (a length in millimetres).
	ErrUnsupported = errors.New("unsupported in region files")
	// ErrLimit: a limit of Options, or a documented constant limit, was exceeded.
	ErrLimit = errors.New("region file limit exceeded")
	// ErrNoRegions: the file is fine but holds no region.
	ErrNoRegions = errors.New("no regions in file")
	// ErrAmbiguousImage: a COCO file describes several images, and Options don't pick one of them.
	ErrAmbiguousImage = errors.New("several images in region file")
	// ErrOptions: a field of Options is out of range.
	ErrOptions = errors.New("invalid region file options")
)

// Error is the error of Load and Parse. Its text is one line: file, element and reason, separated by ": ". Control
// characters that came out of the file or its name are escaped.
type Error struct {
	File   string // name of the file as the caller gave it; may be empty
	Where  string // the element, for example `regions[3] "U7": rings[0]`; empty when the whole file is meant
	Reason string // what is wrong, with the offending value and the limit
	Kind   error  // one of the Err values of this package, or an error of the operating system
}

// Error returns "file: where: reason", leaving out what is empty.
func (e *Error) Error() string {
	parts := make([]string, 0, 3)
	for _, p := range []string{e.File, e.Where, e.Reason} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return oneLine(strings.Join(parts, ": "))
}

// Unwrap returns Kind.
func (e *Error) Unwrap() error { return e.Kind }

// within prefixes the place of e with the element that contains it. Readers call it on the way out, so that the good
// path never formats a place.
func (e *Error) within(format string, args ...any) *Error {
	where := fmt.Sprintf(format, args...)
	switch {
	case e.Where == "":
		e.Where = where
	case e.Where[0] == '[': // an index belongs to what it indexes
		e.Where = where + e.Where
	default:
		e.Where = where + ": " + e.Where
	}
	return e
}

func fail(kind error, format string, args ...any) *Error {
	return &Error{Kind: kind, Reason: fmt.Sprintf(format, args...)}
}

// quote makes a name from a file presentable in a message: quoted, escaped, at most 64 characters.
func quote(s string) string { return strconv.Quote(shorten(s, 64)) }

// tag names an element in a message.
func tag(name string) string { return "<" + shorten(name, 64) + ">" }

// shorten cuts what comes after so many characters, those of escapes included. Names and values in a file may be as
// long as the file.
func shorten(s string, characters int) string {
	for i, r := range s {
		switch {
		case r == utf8.RuneError:
			characters -= len(`\xff`) // if it is a byte that isn't UTF-8
		case !unicode.IsPrint(r):
			characters -= len(strconv.QuoteRune(r)) - len("''")
		case utf8.RuneLen(r) == utf8.UTFMax: // emoji and the like, which are wide
			characters -= 2
		default:
			characters--
		}
		if characters < 0 {
			return s[:i] + "…"
		}
	}
	return s
}

// oneLine escapes everything that could break a line or a terminal, and keeps all else as it is.
func oneLine(s string) string {
	clean := true
	for _, r := range s {
		if !unicode.IsPrint(r) {
			clean = false
			break
		}
	}
	if clean && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRune(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}
