package regionfile

// SVG: the areas of shapes as regions.
//
//   - path, polygon, polyline, rect (with rounded corners), circle and ellipse each give one region, whatever their
//     fill and stroke: an outline that is only stroked marks a region, too. Subpaths are its rings; open ones are
//     closed, as filling does.
//   - fill-rule, as an attribute or in a style attribute, own or inherited, is the region's rule; SVG's default is
//     non-zero.
//   - A region is called by the first that isn't empty of inkscape:label, a <title> child, and id. (Editors make up
//     ids.)
//   - transform attributes on shapes, groups and svg elements apply. The root's width, height and viewBox make pixels
//     of coordinates: the viewBox is fitted into width × height pixels as preserveAspectRatio says (by default scaled
//     evenly and centred). Without width and height, or with "100%", the viewBox's own units are pixels and its corner
//     is at (0, 0). Without a viewBox, user units are pixels. Options.IgnoreViewBox skips all of this.
//   - Lengths have the unit px or none; others, and percentages, are errors.
//   - What isn't drawn isn't read: the inside of defs, symbol, clipPath, mask, marker and pattern.
//   - Not read, with a warning: display:none; visibility:hidden; use, line, text, and subpaths without area. clip-path
//     and mask don't clip, with a warning.
//   - Style sheets are not applied; one that could change an outline gets a warning. Properties in a style attribute
//     that would move or reshape the element (transform, d, x and so on) are errors.
//
// Curves are flattened to Options.Tolerance in pixels, after all transforms.

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/encoding/charmap"

	"github.com/polyscan/polyscan/internal/spelling"
)

// maxElements bounds the nesting of elements; editors seldom pass thirty.
const maxElements = 256

// maxEntityBytes bounds the text that a document's own entities expand to, all together. Illustrator abbreviates name
// spaces with them.
const maxEntityBytes = 1 << 20

const xmlSpace = " \t\r\n"

const (
	svgSpace      = "http://www.w3.org/2000/svg"
	inkscapeSpace = "http://www.inkscape.org/namespaces/inkscape"
)

// svgReader walks the elements.
type svgReader struct {
	*builder
	dec   *xml.Decoder
	data  []byte
	stack []svgState
	root  bool // seen
	line  int  // of the element being read
	text  strings.Builder
}

// svgState is what an element's children inherit.
type svgState struct {
	name   string
	m      matrix
	fill   string
	hidden bool   // visibility
	skip   bool   // nothing inside is drawn
	region int    // index of the shape's region, -1 if the element isn't one
	id     string // of the shape, its name if nothing better turns up
}

func (b *builder) svg(data []byte) *Error {
	b.file.Format = FormatSVG
	r := &svgReader{builder: b, data: data, dec: xml.NewDecoder(bytes.NewReader(data))}
	r.dec.CharsetReader = charset
	for {
		r.line, _ = r.dec.InputPos()
		tok, err := r.dec.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return r.syntax(err)
		}
		var e *Error
		switch t := tok.(type) {
		case xml.StartElement:
			if e = r.startElement(t); e != nil {
				e.within("line %d", r.line)
			}
		case xml.EndElement:
			e = r.endElement()
		case xml.ProcInst:
			if t.Target == "xml-stylesheet" {
				r.unlike(fmt.Sprintf("line %d: <?xml-stylesheet?>", r.line), "style sheets are not applied")
			}
		case xml.CharData:
			r.characters(t)
		case xml.Directive:
			if e = r.directive(string(t)); e != nil {
				e.within("line %d", r.line)
			}
		}
		if e != nil {
			return e
		}
	}
	if !r.root {
		return fail(ErrUnknownFormat, "XML without any element; %s", accepted)
	}
	return nil
}

// syntax turns an error of the XML decoder into one of ours.
func (r *svgReader) syntax(err error) *Error {
	var se *xml.SyntaxError
	if errors.As(err, &se) {
		if se.Msg == "unexpected EOF" {
			if len(r.stack) > 0 {
				return fail(ErrSyntax, "malformed XML: the file ends inside of %s, it may be truncated",
					tag(r.top().name)).within("line %d", se.Line)
			}
			return fail(ErrSyntax,
				"malformed XML: the file ends in the middle of it, it may be truncated").within("line %d", se.Line)
		}
		return fail(ErrSyntax, "malformed XML: %s", shorten(se.Msg, 200)).within("line %d", se.Line)
	}
	if inner := errors.Unwrap(err); inner != nil { // of an encoding
		err = inner
	}
	return fail(ErrSyntax, "malformed XML: %v", err).within("line %d", r.line)
}

// charset decodes the single-byte encodings that editors have been writing; UTF-8 needs none.
func charset(label string, in io.Reader) (io.Reader, error) {
	switch strings.ToLower(label) {
	case "us-ascii", "ascii":
		return in, nil
	case "iso-8859-1", "latin1":
		return charmap.ISO8859_1.NewDecoder().Reader(in), nil
	case "iso-8859-15":
		return charmap.ISO8859_15.NewDecoder().Reader(in), nil
	case "windows-1252":
		return charmap.Windows1252.NewDecoder().Reader(in), nil
	}
	return nil, fmt.Errorf("encoding %s: save the file as UTF-8", quote(label))
}

// directive reads the entities of a document type declaration. Only those that stand for plain text are taken; a
// reference to any other is a syntax error later. So entities can't nest, and what they expand to is counted
// beforehand.
func (r *svgReader) directive(text string) *Error {
	expanded := 0
	for {
		_, rest, ok := strings.Cut(text, "<!ENTITY")
		if !ok {
			return nil
		}
		text = rest
		rest = strings.TrimLeft(rest, xmlSpace)
		end := strings.IndexAny(rest, xmlSpace)
		if end < 0 {
			continue
		}
		name := rest[:end]
		rest = strings.TrimLeft(rest[end:], xmlSpace)
		if name == "%" || rest == "" || rest[0] != '"' && rest[0] != '\'' {
			continue
		}
		value, _, ok := strings.Cut(rest[1:], rest[:1])
		if _, bound := r.dec.Entity[name]; bound || !ok || strings.ContainsAny(value, "&%<") {
			continue // the first declaration of a name counts
		}
		if len(r.dec.Entity) == 64 {
			return fail(ErrLimit, "more than 64 entities in the document type declaration, the limit")
		}
		uses := bytes.Count(r.data, []byte("&"+name+";"))
		if len(value) > 0 && uses > (maxEntityBytes-expanded)/len(value) {
			return fail(ErrLimit,
				"the entities of the document type declaration expand to more than %d bytes, the limit", maxEntityBytes)
		}
		expanded += uses * len(value)
		if r.dec.Entity == nil {
			r.dec.Entity = map[string]string{}
		}
		r.dec.Entity[name] = value
	}
}

// drawn says whether a name space is SVG's: declared, or not declared at all (the undeclared prefix "svg" included).
func drawn(space string) bool { return space == svgSpace || space == "" || space == "svg" }

func (r *svgReader) startElement(t xml.StartElement) *Error {
	name := t.Name.Local
	if len(r.stack) == 0 {
		if r.root {
			return fail(ErrSyntax, "malformed XML: a second root element %s", tag(name))
		}
		r.root = true
		switch {
		case name != "svg":
			return fail(ErrUnknownFormat, "XML with the root element %s, not <svg>; %s", tag(name), accepted)
		case !drawn(t.Name.Space):
			return fail(ErrUnknownFormat, "<svg> in the name space %s, not in %s", quote(t.Name.Space), quote(svgSpace))
		}
		r.stack = append(r.stack, svgState{name: name, m: identity, fill: FillNonZero, region: -1})
		return r.viewport(t, true)
	}
	if len(r.stack) == maxElements {
		return fail(ErrLimit, "elements nested more than %d deep, the limit", maxElements)
	}
	parent := &r.stack[len(r.stack)-1]
	s := *parent
	s.name, s.region, s.id = name, -1, ""
	if name == "title" || name == "desc" || name == "style" {
		r.text.Reset()
	}
	if !s.skip && !drawn(t.Name.Space) {
		s.skip = true
	}
	if s.skip {
		r.stack = append(r.stack, s)
		return nil
	}
	r.stack = append(r.stack, s)
	switch name {
	case "g", "a", "switch":
		_, e := r.presentation(t)
		return e
	case "svg":
		return r.viewport(t, false)
	case "path", "polygon", "polyline", "rect", "circle", "ellipse":
		return r.shape(t)
	}
	r.top().skip = true
	switch name {
	case "use", "line", "text", "foreignObject", "image":
		a, e := r.presentation(t)
		// An image is the frame that was drawn over: nobody misses it.
		switch seen := e == nil && name != "image" && !r.top().hidden && a.property("display") != "none"; {
		case seen && name == "use": // which is drawn as a shape, such as a clone that Inkscape makes
			r.unlike(fmt.Sprintf("line %d: %s", r.line, a.place()), "skipped, only shapes give regions: unlink the clone")
		case seen:
			r.warn("line %d: %s: skipped, only shapes give regions", r.line, a.place())
		}
	case "defs", "symbol", "clipPath", "mask", "marker", "pattern", "linearGradient", "radialGradient", "meshgradient",
		"hatch",
		"solidcolor", "filter", "metadata", "style", "script", "title", "desc", "view", "cursor", "font", "font-face",
		"animate", "animateMotion", "animateTransform", "animateColor", "set", "discard", "color-profile":
	default:
		r.warn("line %d: %s: skipped, not an element that this program knows", r.line, tag(name))
		near := spelling.Nearest(name, slices.Collect(maps.Keys(svgObjects)))
		r.strange(name, near, meant(near), true, func() string { return fmt.Sprintf("line %d: %s", r.line, tag(name)) })
	}
	return nil
}

func (r *svgReader) top() *svgState { return &r.stack[len(r.stack)-1] }

// characters collects the text of a title, a desc or a style sheet, up to a size that no honest one reaches.
func (r *svgReader) characters(t xml.CharData) {
	if len(r.stack) == 0 {
		return
	}
	switch r.top().name {
	case "title", "desc", "style":
		const longest = 1 << 16
		r.text.Write(t[:min(len(t), max(0, longest-r.text.Len()))])
	}
}

func (r *svgReader) endElement() *Error {
	s := r.stack[len(r.stack)-1]
	r.stack = r.stack[:len(r.stack)-1]
	if s.region >= 0 {
		if region := &r.file.Regions[s.region]; region.Name == "" {
			region.Name = s.id
		}
	}
	if len(r.stack) == 0 || s.name != "title" && s.name != "desc" && s.name != "style" {
		return nil
	}
	parent, document := r.top(), len(r.stack) == 1
	text := strings.Join(strings.Fields(validUTF8(r.text.String())), " ")
	r.text.Reset()
	switch {
	case s.name != "style" && isLimit(text):
		return misplacedLimits().within("%s", quote(text)).within("<%s>", s.name).within("line %d", r.line)
	case s.name == "title" && parent.region >= 0:
		if region := &r.file.Regions[parent.region]; region.Name == "" {
			region.Name = text
		}
	case s.name == "title" && document && r.file.Name == "":
		r.file.Name = text
	case s.name == "desc" && document && r.file.Description == "":
		r.file.Description = text
	case s.name == "style":
		own := []string{"fill-rule", "display", "visibility", "clip-path", "mask", "@import"}
		for _, p := range slices.Concat(own, moving, reshaping) {
			if setsProperty(text, p) {
				r.unlike(fmt.Sprintf("line %d: <style>", r.line), "style sheets are not applied, and this one sets "+p)
				break
			}
		}
	}
	return nil
}

// Properties that, set in a style, would change where a shape is or what it looks like, and that this reader takes from
// attributes only.
var (
	moving    = []string{"transform", "transform-origin", "transform-box", "translate", "rotate", "scale"}
	reshaping = []string{"d", "x", "y", "width", "height", "cx", "cy", "r", "rx", "ry"}
)

// setsProperty says whether a style sheet has a declaration of a property, or an at-rule.
func setsProperty(sheet, property string) bool {
	for rest := sheet; ; {
		before, after, ok := strings.Cut(rest, property)
		if !ok {
			return false
		}
		rest = after
		start := before == "" || strings.ContainsRune("{; }/", rune(before[len(before)-1]))
		if start && property[0] == '@' || start && strings.HasPrefix(strings.TrimLeft(after, " "), ":") {
			return true
		}
	}
}

// attributes of an element, as far as they concern this reader.
type attributes struct {
	element string
	own     map[string]string // without a name space
	style   map[string]string // the declarations of the style attribute, for the properties that count
	label   string            // inkscape:label
}

func (a *attributes) place() string {
	if id := a.own["id"]; id != "" {
		return "<" + a.element + " id=" + quote(id) + ">"
	}
	return "<" + a.element + ">"
}

// property returns the value of a property that is also an attribute; the style attribute wins.
func (a *attributes) property(name string) string {
	if v, ok := a.style[name]; ok {
		return v
	}
	return strings.TrimSpace(a.own[name])
}

// presentation reads the attributes of an element and applies to the top of the stack what its children inherit.
func (r *svgReader) presentation(t xml.StartElement) (*attributes, *Error) {
	a := &attributes{element: t.Name.Local, own: make(map[string]string, len(t.Attr))}
	for _, attr := range t.Attr {
		switch {
		case strings.EqualFold(strings.TrimPrefix(attr.Name.Local, "data-"), limitsKey),
			attr.Name.Local != "id" && attr.Name.Local != "label" && isLimit(attr.Value):
			return a, misplacedLimits().within("%s", a.place())
		case attr.Name.Space == "":
			if _, twice := a.own[attr.Name.Local]; twice {
				return a, fail(ErrSyntax, "malformed XML: the attribute %s occurs twice",
					shorten(attr.Name.Local, 64)).within("%s", a.place())
			}
			a.own[attr.Name.Local] = attr.Value
			if o := svgObjects[a.element]; o != nil && !slices.Contains(o.read, attr.Name.Local) {
				r.nearest(attr.Name.Local, o, func() string { return fmt.Sprintf("line %d: %s", r.line, a.place()) })
			}
		case attr.Name.Local == "label" && (attr.Name.Space == inkscapeSpace || attr.Name.Space == "inkscape"):
			a.label = strings.Join(strings.Fields(attr.Value), " ")
		}
	}
	if style := a.own["style"]; style != "" {
		a.style = map[string]string{}
		for declaration := range strings.SplitSeq(style, ";") {
			if name, value, ok := strings.Cut(declaration, ":"); ok {
				value, _, _ = strings.Cut(value, "!")
				a.style[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
			}
		}
	}
	s := r.top()
	for _, p := range moving {
		v, styled := a.style[p]
		if !styled && p != "transform" {
			v = a.own[p]
		}
		if v != "" && v != "none" {
			return a, fail(ErrUnsupported, "%s: %s is not supported, use the transform attribute", p,
				quote(v)).within("%s", a.place())
		}
	}
	if v := a.own["transform"]; v != "" {
		m, e := parseTransform(v)
		if e != nil {
			return a, e.at("transform").within("%s", a.place())
		}
		s.m = s.m.times(m)
	}
	switch v := a.property("fill-rule"); v {
	case "", "inherit":
	case FillNonZero, FillEvenOdd:
		s.fill = v
	default:
		return a, fail(ErrInvalid, `fill-rule is %s, expected "nonzero" or "evenodd"`, quote(v)).within("%s", a.place())
	}
	switch a.property("visibility") {
	case "hidden", "collapse":
		s.hidden = true
	case "visible":
		s.hidden = false
	}
	if a.property("display") == "none" {
		s.skip = true
		r.warn("line %d: %s: skipped with all that is in it, display is none", r.line, a.place())
	}
	for _, p := range []string{"clip-path", "mask"} {
		if v := a.property(p); v != "" && v != "none" && !s.skip && !r.clipsNothing(v, s.m) {
			r.unlike(fmt.Sprintf("line %d: %s", r.line, a.place()), "its "+p+" is ignored, the region is the whole shape")
		}
	}
	return a, nil
}

// wholeClip is a clip path of one rectangle from the corner, as design programs put one around all that they export.
var wholeClip = regexp.MustCompile(`<clipPath id="([^"]+)">\s*<rect((?:\s+(?:width|height|fill)="[^"]*")+)\s*/>\s*` +
	`</clipPath>`)

// clipsNothing says that a reference is to a clip path that is all of the picture.
func (r *svgReader) clipsNothing(reference string, m matrix) bool {
	for _, c := range wholeClip.FindAllSubmatch(r.data, -1) {
		if reference == "url(#"+string(c[1])+")" {
			has := func(side string, v int) bool {
				return v > 0 && bytes.Contains(c[2], fmt.Appendf(nil, ` %s="%d"`, side, v))
			}
			return m == identity && has("width", r.file.ImageWidth) && has("height", r.file.ImageHeight)
		}
	}
	return false
}

// at says which attribute an offset belongs to: "path data at offset 17".
func (e *Error) at(attribute string) *Error {
	if strings.HasPrefix(e.Where, "offset ") {
		e.Where = attribute + " at " + e.Where
		return e
	}
	return e.within("%s", attribute)
}

// length reads an attribute that is a length in px; ok is false if it is missing or "auto".
func (a *attributes) length(name string) (v float64, ok bool, e *Error) {
	text := strings.TrimSpace(a.own[name])
	if text == "" || text == "auto" {
		return 0, false, nil
	}
	s := &scanner{s: text}
	v, e = s.number()
	if e != nil {
		return 0, false, fail(e.Kind, "%s is %s, expected a length", name, quote(text))
	}
	switch unit := text[s.pos:]; unit {
	case "", "px":
		return v, true, nil
	case "%":
		return 0, false, fail(ErrUnsupported, "%s is %s, percentages are not supported, only px", name, quote(text))
	default:
		return 0, false, fail(ErrUnsupported, "%s is %s, the unit %s is not supported, only px", name, quote(text),
			quote(unit))
	}
}

// lengths reads several lengths that are 0 when missing.
func (a *attributes) lengths(names ...string) ([]float64, *Error) {
	out := make([]float64, len(names))
	for i, n := range names {
		v, _, e := a.length(n)
		if e != nil {
			return nil, e
		}
		out[i] = v
	}
	return out, nil
}

// viewport applies an svg element: its place and size, and the viewBox.
func (r *svgReader) viewport(t xml.StartElement, root bool) *Error {
	a, e := r.presentation(t)
	if e != nil {
		return e
	}
	if root && r.opts.IgnoreViewBox {
		return nil
	}
	if e := r.fit(a, root); e != nil {
		return e.within("%s", a.place())
	}
	return nil
}

func (r *svgReader) fit(a *attributes, root bool) *Error {
	s := r.top()
	var size [2]float64
	var given [2]bool
	for i, n := range []string{"width", "height"} {
		if strings.TrimSpace(a.own[n]) == "100%" {
			continue // the same as nothing
		}
		var e *Error
		if size[i], given[i], e = a.length(n); e != nil {
			if root && e.Kind == ErrUnsupported {
				e.Reason += "; set the drawing's unit to px, or have its size and viewBox ignored"
			}
			return e
		}
		if given[i] && !(size[i] > 0) {
			return fail(ErrInvalid, "%s is %v, it must be positive", n, size[i])
		}
		if v := a.style[n]; v != "" && v != "100%" && v != "auto" {
			r.warn("line %d: %s: the style's %s is ignored", r.line, a.place(), n)
		}
	}
	if !root {
		at, e := a.lengths("x", "y")
		if e != nil {
			return e
		}
		s.m = s.m.times(matrix{a: 1, d: 1, e: at[0], f: at[1]})
	}
	box := a.own["viewBox"]
	if strings.TrimSpace(box) != "" {
		v, e := parseViewBox(box)
		if e != nil {
			return e
		}
		switch {
		case given[0] && given[1]:
		case !root:
			return fail(ErrUnsupported, "a nested <svg> with a viewBox needs width and height")
		case given[0]:
			size[1] = size[0] * v[3] / v[2]
		case given[1]:
			size[0] = size[1] * v[2] / v[3]
		default:
			size = [2]float64{v[2], v[3]}
		}
		m, e := viewBoxMatrix(v, size, a.own["preserveAspectRatio"])
		if e != nil {
			return e
		}
		s.m = s.m.times(m)
	}
	if root && wholePixels(size[0]) && wholePixels(size[1]) {
		r.file.ImageWidth, r.file.ImageHeight = int(size[0]), int(size[1])
	}
	if !s.m.finite() {
		return fail(ErrInvalid, "its size or viewBox is out of range")
	}
	return nil
}

func wholePixels(v float64) bool { return v >= 1 && v < coordinateLimit && v == math.Trunc(v) }

// parseViewBox reads min-x, min-y, width and height.
func parseViewBox(text string) (v [4]float64, e *Error) {
	s := &scanner{s: text}
	s.space()
	if e := s.numbers(v[:]); e != nil {
		return v, e.at("viewBox")
	}
	if s.space(); !s.done() {
		return v, s.expected("the end").at("viewBox")
	}
	if !(v[2] > 0 && v[3] > 0) {
		return v, fail(ErrInvalid, "its width and height are %v and %v, they must be positive", v[2],
			v[3]).within("viewBox")
	}
	return v, nil
}

// viewBoxMatrix fits a viewBox into size, as preserveAspectRatio says.
func viewBoxMatrix(v [4]float64, size [2]float64, aspect string) (matrix, *Error) {
	words := strings.Fields(aspect)
	if len(words) > 0 && words[0] == "defer" {
		words = words[1:]
	}
	align, cover := "xMidYMid", false
	if len(words) > 0 {
		align = words[0]
	}
	bad := len(words) > 2
	if len(words) == 2 {
		cover = words[1] == "slice"
		bad = !cover && words[1] != "meet"
	}
	sx, sy := size[0]/v[2], size[1]/v[3]
	var fx, fy float64 // the share of the room left over that goes before the picture
	if align != "none" {
		share := map[string]float64{"Min": 0, "Mid": 0.5, "Max": 1}
		if len(align) != 8 || align[0] != 'x' || align[4] != 'Y' {
			bad = true
		} else {
			var okx, oky bool
			fx, okx = share[align[1:4]]
			fy, oky = share[align[5:]]
			bad = bad || !okx || !oky
		}
		scale := min(sx, sy)
		if cover {
			scale = max(sx, sy)
		}
		sx, sy = scale, scale
	}
	if bad {
		return identity, fail(ErrInvalid, "preserveAspectRatio is %s, expected for example %s", quote(aspect),
			`"xMidYMid meet"`)
	}
	return matrix{sx, 0, 0, sy, fx*(size[0]-sx*v[2]) - sx*v[0], fy*(size[1]-sy*v[3]) - sy*v[1]}, nil
}

// shape adds the region of a shape.
func (r *svgReader) shape(t xml.StartElement) *Error {
	a, e := r.presentation(t)
	if e != nil {
		return e
	}
	s := r.top()
	if s.hidden && !s.skip {
		r.warn("line %d: %s: skipped, visibility is hidden", r.line, a.place())
	}
	if s.skip || s.hidden {
		return nil
	}
	if e := r.outline(a); e != nil {
		return e.within("%s", a.place())
	}
	return nil
}

func (r *svgReader) outline(a *attributes) *Error {
	for _, p := range reshaping {
		if v := a.style[p]; v != "" {
			return fail(ErrUnsupported, "%s: %s in a style is not supported, use the attribute", p, quote(v))
		}
	}
	if e := r.room(); e != nil {
		return e
	}
	s := r.top()
	f := newFlattener(r.builder, s.m)
	var e *Error
	switch a.element {
	case "path":
		if e = parsePath(a.own["d"], f); e != nil {
			e.at("path data")
		}
		f.finish()
	case "polygon", "polyline":
		var points [][2]float64
		if points, e = parsePoints(a.own["points"]); e == nil {
			e = f.polygon(points)
		}
		if e != nil {
			e.at("points")
		}
	case "rect":
		e = rect(a, f)
	case "circle", "ellipse":
		e = round(a, f)
	}
	if e != nil {
		return e
	}
	switch {
	case len(f.rings) == 0:
		r.warn("line %d: %s: skipped, it has no area", r.line, a.place())
		return nil
	case f.degenerate > 0:
		r.warn("line %d: %s: skipped %d of its subpaths, they have no area", r.line, a.place(), f.degenerate)
	}
	s.region, s.id = len(r.file.Regions), strings.TrimSpace(a.own["id"])
	return r.add(Region{Name: a.label, Rings: f.rings, Fill: s.fill})
}

// rect adds a rectangle, its corners rounded by rx and ry; if only one of them is given, it holds for both.
func rect(a *attributes, f *flattener) *Error {
	v, e := a.lengths("x", "y", "width", "height")
	if e != nil {
		return e
	}
	rx, okx, e := a.length("rx")
	if e != nil {
		return e
	}
	ry, oky, e := a.length("ry")
	if e != nil {
		return e
	}
	if !okx {
		rx = ry
	}
	if !oky {
		ry = rx
	}
	x, y, w, h := v[0], v[1], v[2], v[3]
	if w < 0 || h < 0 || rx < 0 || ry < 0 {
		return fail(ErrInvalid, "width %v, height %v, rx %v and ry %v must not be negative", w, h, rx, ry)
	}
	if w == 0 || h == 0 {
		return nil // not drawn, says SVG
	}
	rx, ry = min(rx, w/2), min(ry, h/2)
	if rx == 0 || ry == 0 {
		return f.polygon(box(x, y, x+w, y+h))
	}
	// From the left end of the top edge, clockwise on the screen.
	quarter := math.Pi / 2
	if e := f.moveTo(x+rx, y); e != nil {
		return e
	}
	for i, c := range [4][4]float64{ // where the straight part ends, and where the corner after it does
		{x + w - rx, y, x + w, y + ry},
		{x + w, y + h - ry, x + w - rx, y + h},
		{x + rx, y + h, x, y + h - ry},
		{x, y + ry, x + rx, y},
	} {
		if e := f.lineTo(c[0], c[1]); e != nil {
			return e
		}
		cx, cy := x+rx, y+ry
		if i < 2 {
			cx = x + w - rx
		}
		if i == 1 || i == 2 {
			cy = y + h - ry
		}
		if e := f.arc(matrix{rx, 0, 0, ry, cx, cy}, float64(i-1)*quarter, quarter, c[2], c[3]); e != nil {
			return e
		}
	}
	return f.close()
}

// round adds a circle or an ellipse; if only one radius of an ellipse is given, it holds for both.
func round(a *attributes, f *flattener) *Error {
	c, e := a.lengths("cx", "cy")
	if e != nil {
		return e
	}
	names := [2]string{"rx", "ry"}
	if a.element == "circle" {
		names = [2]string{"r", "r"}
	}
	var r [2]float64
	var given [2]bool
	for i, n := range names {
		if r[i], given[i], e = a.length(n); e != nil {
			return e
		}
		if r[i] < 0 {
			return fail(ErrInvalid, "%s is %v, it must not be negative", n, r[i])
		}
	}
	switch {
	case !given[0]:
		r[0] = r[1]
	case !given[1]:
		r[1] = r[0]
	}
	if r[0] == 0 || r[1] == 0 {
		return nil // not drawn, says SVG
	}
	return f.ellipse(c[0], c[1], r[0], r[1])
}
