// Package cli is what the programs of clients have in common: what differs between a terminal and a file, and the flags
// of a connection.
package cli

import (
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// IsTerminal reports whether w is a terminal that understands escape sequences.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// Columns is how wide such a terminal is, and 0 for anything else.
func Columns(w io.Writer) int {
	if !IsTerminal(w) {
		return 0
	}
	if width, _, err := term.GetSize(int(w.(*os.File).Fd())); err == nil && width > 0 {
		return width
	}
	return 80
}

// HasColours reports whether w is such a terminal, and NO_COLOR doesn't object.
func HasColours(w io.Writer) bool { return IsTerminal(w) && os.Getenv("NO_COLOR") == "" }

// Style is an SGR sequence.
type Style string

const (
	Plain  Style = ""
	Bold   Style = "\x1b[1m"
	Dim    Style = "\x1b[2m"
	Green  Style = "\x1b[32m"
	Red    Style = "\x1b[1;31m"
	Yellow Style = "\x1b[33m"
)

// Paint wraps text in the style.
func (s Style) Paint(text string) string {
	if s == Plain || text == "" {
		return text
	}
	return string(s) + text + "\x1b[0m"
}

// Printable escapes what could break a line or command a terminal, such as names out of a file.
func Printable(s string) string {
	ok := func(r rune) bool { return unicode.IsPrint(r) && r != unicode.ReplacementChar }
	if !strings.ContainsFunc(s, func(r rune) bool { return !ok(r) }) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if ok(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRune(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}

// OneLine joins what would be several lines.
func OneLine(s string) string { return Printable(strings.Join(strings.Fields(s), " ")) }
