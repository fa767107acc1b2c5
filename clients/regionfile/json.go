package regionfile

// JSON: the standard library decides whether a file is JSON, and a cursor then walks over the text known to be valid.
//
// Why not decode into structs: the readers need the element's path and number in every error, limits that hold while
// reading (a vertex too many must stop before it is stored), members in any order, and most of a file skipped (LabelMe
// embeds the whole image). encoding/json's token interface allocates per token, which costs more than the rest of the
// reading.

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// json reads any of the JSON formats.
func (b *builder) json(data []byte) *Error {
	if !json.Valid(data) {
		return jsonSyntax(data)
	}
	c := &cursor{s: string(data)}
	c.space()
	if c.kind() == kindArray {
		b.file.Format = FormatRegions
		return b.regions(c, "regions", FillDefault)
	}
	// Which format it is decides which keys are read.
	top, e := c.find("regions", "shapes", "annotations", "type", "features", "geometry", "geometries", "coordinates")
	if e != nil {
		return e
	}
	c.pos = top.start
	of := func(f Format, whole string, o *object, read func(*members) *Error) *Error {
		b.file.Format = f
		m, e := b.members(c, o, func() string { return whole })
		if e != nil {
			return e
		}
		return read(m)
	}
	if t, ok := top.str("type"); ok && slices.Contains(geoTypes, t) {
		b.file.Format = FormatGeoJSON
		return b.geoJSON(c, t)
	}
	switch {
	case top.has("regions"):
		return of(FormatRecipe, "recipe", &recipeObject, b.recipe)
	case top.has("shapes"):
		return of(FormatLabelMe, "the file", &labelMeFile, b.labelMe)
	case top.has("annotations"):
		return of(FormatCOCO, "the file", &cocoFile, b.coco)
	}
	if t, ok := top.str("type"); ok &&
		(top.has("coordinates") || top.has("features") || top.has("geometry") || top.has("geometries")) {
		return fail(ErrUnknownFormat, "GeoJSON of the unknown type %s; %s", quote(t), accepted)
	}
	return fail(ErrUnknownFormat, "a JSON object of an unknown kind, %s; %s", listKeys(top.names), accepted)
}

func listKeys(names []string) string {
	if len(names) == 0 {
		return "without members"
	}
	quoted := make([]string, 0, maxListed)
	for _, n := range names[:min(len(names), maxListed)] {
		quoted = append(quoted, quote(n))
	}
	more := ""
	if len(names) > maxListed {
		more = " and more"
	}
	return "with the keys " + strings.Join(quoted, ", ") + more
}

// maxListed is how many things an error lists before it says how many more there are.
const maxListed = 8

// jsonSyntax says where and why data isn't JSON.
func jsonSyntax(data []byte) *Error {
	var ignored json.RawMessage
	err := json.Unmarshal(data, &ignored)
	var se *json.SyntaxError
	if !errors.As(err, &se) {
		return fail(ErrSyntax, "malformed JSON: %v", err)
	}
	// Offset counts the bytes read, the offending one included. At the end of the file nothing offends, or a space that
	// isn't there does, or the white space behind a value that isn't complete.
	text := strings.TrimRight(string(data), " \t\r\n")
	if at := int(se.Offset); at > len(text) || strings.HasPrefix(se.Error(), "unexpected end") ||
		strings.HasPrefix(se.Error(), "invalid character ' '") && text[at-1] != ' ' {
		return fail(ErrSyntax,
			"malformed JSON: the file ends in the middle of a value, it may be truncated").within("%s",
			place(data, len(text)))
	}
	at := int(se.Offset) - 1
	hint := ""
	if rest := text[at:]; strings.HasPrefix(rest, "NaN") || strings.HasPrefix(rest, "Infinity") ||
		strings.HasPrefix(rest, "-Infinity") ||
		at > 0 && strings.HasPrefix(text[at-1:], "-Infinity") {
		hint = " (NaN and Infinity are not JSON, and no coordinates)"
	}
	return fail(ErrSyntax, "malformed JSON: %s%s", se.Error(), hint).within("%s", place(data, at))
}

// place says where in a text the byte at an offset is; lines and columns count from 1, columns in characters.
func place(data []byte, at int) string {
	line, start := 1, 0
	for i, c := range data[:at] {
		if c == '\n' {
			line, start = line+1, i+1
		}
	}
	return fmt.Sprintf("line %d column %d", line, utf8.RuneCount(data[start:at])+1)
}

// kind is the type of a JSON value, by its first byte.
type kind byte

const (
	kindObject kind = '{'
	kindArray  kind = '['
	kindString kind = '"'
	kindTrue   kind = 't'
	kindFalse  kind = 'f'
	kindNull   kind = 'n'
	kindNumber kind = '0' // also for '-' and the other digits
)

func (k kind) String() string {
	switch k {
	case kindObject:
		return "an object"
	case kindArray:
		return "an array"
	case kindString:
		return "a string"
	case kindTrue:
		return "true"
	case kindFalse:
		return "false"
	case kindNull:
		return "null"
	}
	return "a number"
}

// cursor walks over valid JSON. Between calls, pos is at the first byte of a value, or just behind a value that was
// consumed. A method whose precondition doesn't hold returns an error and consumes nothing.
type cursor struct {
	s   string
	pos int
}

func (c *cursor) space() {
	for c.pos < len(c.s) {
		switch c.s[c.pos] {
		case ' ', '\t', '\r', '\n':
			c.pos++
		default:
			return
		}
	}
}

func (c *cursor) kind() kind {
	switch ch := c.s[c.pos]; ch {
	case '{', '[', '"', 't', 'f', 'n':
		return kind(ch)
	}
	return kindNumber
}

func (c *cursor) expect(want kind) *Error {
	if got := c.kind(); got != want {
		return fail(ErrInvalid, "expected %s, found %s", want, got)
	}
	return nil
}

// enter goes into the array or object at the cursor and says whether it has elements; if not, it is consumed.
//
//	for more := c.enter(); more; more = c.next() { consume one value, after c.key() in an object }
func (c *cursor) enter() bool {
	c.pos++
	c.space()
	if ch := c.s[c.pos]; ch == ']' || ch == '}' {
		c.pos++
		return false
	}
	return true
}

// next goes on behind an element and says whether another follows; if not, the array or object is consumed.
func (c *cursor) next() bool {
	c.space()
	ch := c.s[c.pos]
	c.pos++
	if ch != ',' {
		return false
	}
	c.space()
	return true
}

// key consumes a member's name and colon.
func (c *cursor) key() string {
	k := c.text()
	c.space()
	c.pos++ // ':'
	c.space()
	return k
}

// text consumes the string at the cursor. The result shares memory with the document.
func (c *cursor) text() string {
	from := c.pos
	c.skipString()
	s := c.s[from+1 : c.pos-1]
	if strings.IndexByte(s, '\\') >= 0 {
		var out string
		if json.Unmarshal([]byte(c.s[from:c.pos]), &out) == nil { // can't fail: the document is valid
			return out
		}
	}
	return validUTF8(s)
}

func (c *cursor) skipString() {
	for c.pos++; ; c.pos++ {
		c.pos += strings.IndexByte(c.s[c.pos:], '"')
		slashes := 0
		for c.s[c.pos-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			break
		}
	}
	c.pos++
}

// skip consumes any value, in time linear in its length and without recursion.
func (c *cursor) skip() {
	depth := 0
	for {
		switch c.s[c.pos] {
		case '"':
			c.skipString()
		case '{', '[':
			depth++
			c.pos++
		case '}', ']':
			depth--
			c.pos++
		case ' ', '\t', '\r', '\n', ',', ':':
			c.pos++
			continue
		default:
			c.skipLiteral()
		}
		if depth == 0 {
			return
		}
	}
}

// skipLiteral consumes a number, true, false or null, and returns its text.
func (c *cursor) skipLiteral() string {
	from := c.pos
	for c.pos < len(c.s) {
		switch c.s[c.pos] {
		case ',', ']', '}', ':', ' ', '\t', '\r', '\n':
			return c.s[from:c.pos]
		}
		c.pos++
	}
	return c.s[from:]
}

// number consumes a number.
func (c *cursor) number() (float64, *Error) {
	if e := c.expect(kindNumber); e != nil {
		return 0, e
	}
	lit := c.skipLiteral()
	v, err := strconv.ParseFloat(lit, 64)
	if err != nil {
		return 0, fail(ErrInvalid, "the number %.24s is out of range", lit)
	}
	return v, nil
}

// stringOrNull consumes a string, or null as the empty string. The result doesn't share memory with the document.
func (c *cursor) stringOrNull() (string, *Error) {
	if c.kind() == kindNull {
		c.skip()
		return "", nil
	}
	if e := c.expect(kindString); e != nil {
		return "", e
	}
	return strings.Clone(c.text()), nil
}

// note is stringOrNull of a text for people, which is no limit.
func (c *cursor) note() (string, *Error) {
	text, e := c.stringOrNull()
	if e == nil && isLimit(text) {
		e = misplacedLimits().within("%s", quote(text))
	}
	return text, e
}

// strings consumes an array of strings, or null as none.
func (b *builder) strings(c *cursor) ([]string, *Error) {
	if c.kind() == kindNull {
		c.skip()
		return nil, nil
	}
	if e := c.expect(kindArray); e != nil {
		return nil, e
	}
	var out []string
	for more := c.enter(); more; more = c.next() {
		if e := c.expect(kindString); e != nil {
			return nil, e.within("[%d]", len(out))
		}
		if b.strs++; b.strs > maxStrings {
			return nil, fail(ErrLimit, "more than %d limits and reductions in the file", maxStrings)
		}
		out = append(out, strings.Clone(c.text()))
	}
	return out, nil
}

// scalar consumes a string or a number and returns its text; null, and nothing else, gives "".
func (c *cursor) scalar() (string, *Error) {
	switch k := c.kind(); k {
	case kindString:
		return c.text(), nil
	case kindNumber:
		return c.skipLiteral(), nil
	case kindNull:
		c.skip()
		return "", nil
	default:
		return "", fail(ErrInvalid, "expected a string or a number, found %s", k)
	}
}

// extent consumes a width or height: a whole number of pixels below coordinateLimit, or null as 0.
func (c *cursor) extent() (int, *Error) {
	if c.kind() == kindNull {
		c.skip()
		return 0, nil
	}
	v, e := c.number()
	if e != nil {
		return 0, e
	}
	if v != float64(int(v)) || v < 0 || v >= coordinateLimit {
		return 0, fail(ErrInvalid, "%v is not a number of pixels, it must be whole, not negative and below %d", v,
			coordinateLimit)
	}
	return int(v), nil
}

// position consumes a vertex: an array of two numbers, or of more if extra allows (GeoJSON's altitude), which are
// dropped.
func (c *cursor) position(extra bool) (p [2]float64, e *Error) {
	if c.kind() != kindArray {
		return p, fail(ErrInvalid, "expected [x, y], found %s", c.kind())
	}
	n := 0
	for more := c.enter(); more; more = c.next() {
		v, e := c.number()
		if n < 2 {
			if e == nil {
				e = coordinate("xy"[n:n+1], v)
			} else {
				e.within("%s", "xy"[n:n+1])
			}
			p[n] = v
		}
		if e != nil {
			return p, e
		}
		n++
	}
	if n < 2 || n > 2 && !extra {
		return p, fail(ErrInvalid, "%d %s, expected [x, y]", n, plural(n, "number", "numbers"))
	}
	return p, nil
}

// ring consumes an array of vertices into b.scratch.
func (b *builder) ring(c *cursor, extra bool) *Error {
	if e := c.expect(kindArray); e != nil {
		return e
	}
	b.scratch = b.scratch[:0]
	for more := c.enter(); more; more = c.next() {
		p, e := c.position(extra)
		if e == nil {
			e = b.spend(1)
		}
		if e != nil {
			return e.within("vertex %d", len(b.scratch))
		}
		b.scratch = append(b.scratch, p)
	}
	return nil
}

// members is what an object has: the offsets of the values one is interested in, and a few of the names for messages.
type members struct {
	doc   string
	start int // of the object
	at    map[string]int
	names []string // the first maxListed+1 names of the object
}

// find consumes an object and notes where the wanted members' values are. A wanted name that occurs twice is an error:
// JSON leaves open which of them counts.
func (c *cursor) find(wanted ...string) (*members, *Error) {
	return c.walk(wanted, func(string) *Error {
		c.skip()
		return nil
	})
}

// members consumes an object and notes where the values are that are read of it. Of the others, limits are an error,
// and a warning is due where one looks like a key of the object; where says which that is.
func (b *builder) members(c *cursor, o *object, where func() string) (*members, *Error) {
	return c.walk(o.read, func(key string) *Error {
		if key == limitsKey {
			return misplacedLimits()
		}
		return b.unread(c, key, o, where)
	})
}

func (c *cursor) walk(wanted []string, other func(key string) *Error) (*members, *Error) {
	m := &members{doc: c.s, start: c.pos, at: make(map[string]int, len(wanted))}
	for more := c.enter(); more; more = c.next() {
		k := c.key()
		if len(m.names) <= maxListed {
			m.names = append(m.names, k)
		}
		if !slices.Contains(wanted, k) {
			if e := other(k); e != nil {
				return nil, e
			}
			continue
		}
		if _, twice := m.at[k]; twice {
			return nil, twiceError(k)
		}
		m.at[k] = c.pos
		c.skip()
	}
	return m, nil
}

func twiceError(key string) *Error {
	return fail(ErrInvalid, "the key %s occurs twice", quote(key))
}

func (m *members) has(name string) bool {
	_, ok := m.at[name]
	return ok
}

// cursor returns a cursor at the value of a member, nil if there is none.
func (m *members) cursor(name string) *cursor {
	at, ok := m.at[name]
	if !ok {
		return nil
	}
	return &cursor{s: m.doc, pos: at}
}

// str returns the value of a member if it is a string.
func (m *members) str(name string) (string, bool) {
	c := m.cursor(name)
	if c == nil || c.kind() != kindString {
		return "", false
	}
	return c.text(), true
}

// optional reads a member, if there is one, with one of the cursor's methods.
func optional[T any](m *members, name string, read func(*cursor) (T, *Error)) (T, *Error) {
	var zero T
	c := m.cursor(name)
	if c == nil {
		return zero, nil
	}
	v, e := read(c)
	if e != nil {
		return zero, e.within("%s", name)
	}
	return v, nil
}
