package regionfile

// Keys that a writer may have meant, and limits under keys that nobody reads: a file whose "limits" are spelled "limit"
// or called "requirements" would be read as one without any, and what nobody looks at must not pass in silence.

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/polyscan/polyscan/internal/spelling"
	"github.com/polyscan/polyscan/polygon"
)

// An object is a kind of object of a format: the keys that are read, and others that the format has.
type object struct{ read, known []string }

// The objects of polyscan's own formats.
var (
	regionObject = object{read: []string{"name", "rings", "mask", "shape", "fill", "limits", "reference"}}
	recipeObject = object{read: []string{"name", "description", "fill", "scale", "regions", "reductions", "frames",
		"flat_field", "drawn_on", "locate"}}
	scaleObject   = object{read: []string{"mm_per_pixel", "origin"}}
	drawnOnObject = object{read: []string{"name", "width", "height"}}
)

// The objects of other programs' formats.
var (
	labelMeFile = object{read: []string{"shapes", "imagePath", "imageWidth", "imageHeight", "flags"},
		known: []string{"version", "imageData", "description", "lineColor", "fillColor"}}
	labelMeShape = object{read: []string{"label", "points", "shape_type", "group_id", "mask", "flags", "attributes"},
		known: []string{"description", "score", "difficult", "direction", "line_color", "fill_color"}}
	cocoFile        = object{read: []string{"images", "annotations", "categories"}, known: []string{"info", "licenses", "type"}}
	cocoImageObject = object{read: []string{"id", "file_name", "width", "height"},
		known: []string{"license", "flickr_url", "coco_url", "date_captured"}}
	cocoCategory   = object{read: []string{"id", "name"}, known: []string{"supercategory", "keypoints", "skeleton"}}
	cocoAnnotation = object{read: []string{"id", "image_id", "category_id", "segmentation", "bbox", "attributes"},
		known: []string{"area", "iscrowd", "keypoints", "num_keypoints", "score", "caption"}}
	cocoRuns      = object{read: []string{"size", "counts"}}
	geoCollection = object{read: []string{"type", "features", "name", "description", "crs", "properties"},
		known: []string{"bbox", "id"}}
	geoFeature  = object{read: []string{"type", "geometry", "properties", "id", "crs"}, known: []string{"bbox"}}
	geoGeometry = object{read: []string{"type", "coordinates", "geometries", "crs"}, known: []string{"bbox"}}
	// What people name themselves: flags, attributes and properties. Other programs have a fill there, a shape and a
	// mask, and distances miss their reference anyway.
	freeObject = object{read: []string{limitsKey}, known: []string{"fill", "shape", "mask", "rings", "regions", "reference"}}
)

// svgObject returns the attributes that are read of an SVG element.
func svgObject(own ...string) *object {
	return &object{read: append(own, "transform", "fill-rule", "style", "display", "visibility", "clip-path", "mask"),
		known: []string{"fill"}}
}

// svgObjects are the SVG elements that are read.
var svgObjects = map[string]*object{
	"svg": svgObject("x", "y", "width", "height", "viewBox", "preserveAspectRatio"), "g": svgObject(),
	"path": svgObject("d"), "polygon": svgObject("points"), "polyline": svgObject("points"),
	"rect":   svgObject("x", "y", "width", "height", "rx", "ry"),
	"circle": svgObject("cx", "cy", "r"), "ellipse": svgObject("cx", "cy", "rx", "ry"),
}

// otherNames are keys that say the same elsewhere: in the protocol's JSON, in GIS programs, in the words of inspectors.
var otherNames = map[string]string{
	"fill_rule": "fill", "fillrule": "fill", "fill-rule": "fill", "holes": "rings", "statistics": "reductions",
	"stats": "reductions", "blobs": "reductions", "texture": "reductions", "textures": "reductions", "percentiles": "reductions",
	"histogram": "reductions", "color": "reductions", "colors": "reductions", "correlations": "reductions",
	"units": "scale", "unit": "scale", "mm_per_pixel": "scale", "origin": "scale", "flat": "flat_field",
	"size": "drawn_on", "image": "drawn_on", "image_size": "drawn_on", "imagesize": "drawn_on", "frame_size": "drawn_on",
	"framesize": "drawn_on", "width": "drawn_on", "height": "drawn_on", "imagewidth": "drawn_on", "imageheight": "drawn_on",
	"image_width": "drawn_on", "image_height": "drawn_on", "polygon": "segmentation", "polygons": "segmentation",
	"rle":         "segmentation",
	"requirement": "limits", "requirements": "limits", "criterion": "limits", "criteria": "limits", "spec": "limits",
	"specs": "limits", "specification": "limits", "specifications": "limits", "tolerance": "limits",
	"tolerances": "limits", "rule": "limits", "rules": "limits", "condition": "limits", "conditions": "limits",
	"check": "limits", "checks": "limits", "assert": "limits", "asserts": "limits", "lsl": "limits", "usl": "limits",
	"constraint": "limits", "constraints": "limits", "threshold": "limits", "thresholds": "limits", "expected": "limits",
	"limit": "limits",
}

// otherPixels are keys that would change what is looked at, by those of polyscan's own format that do.
var otherPixels = map[string]string{"hole": "rings", "polygons": "rings", "exclude": "shape", "subtract": "shape",
	"invert": "shape", "transform": "shape", "offset": "shape", "position": "shape", "rotation": "shape", "unit": "scale",
	"golden": "frames"}

// harmless are keys on which no verdict hangs.
var harmless = []string{"name", "description", "label", "id", "category_id", "imagePath", "file_name", "crs"}

// strangeKey is a key that its object ignores.
type strangeKey struct{ key, hint string }

// strangePlace is where a strange key was found first, and in how many other objects it was.
type strangePlace struct {
	order int
	where string
	more  int
}

// strange notes a key that an object ignores, if it means near, which hint tells people. where says which object it is.
func (b *builder) strange(key, near, hint string, verdict bool, where func() string) {
	if near == "" {
		return
	}
	k := strangeKey{key, hint}
	if seen, ok := b.keys[k]; ok {
		seen.more++
		return
	}
	if b.keys == nil {
		b.keys = map[strangeKey]*strangePlace{}
	}
	b.keys[k] = &strangePlace{order: len(b.keys), where: where()}
	if verdict {
		b.file.Misspelt = append(b.file.Misspelt, near)
	}
}

// nearest notes a key that an object doesn't have, if it looks like one that it has or belongs to another object of
// polyscan's own formats. It returns what the key means.
func (b *builder) nearest(key string, o *object, where func() string) meaning {
	if slices.Contains(o.known, key) {
		return meaning{}
	}
	at := nearKey{o, key}
	m, ok := b.near[at]
	if !ok {
		m = o.meaning(key)
		if m.near == "" && o != &scaleObject && o != &drawnOnObject {
			m.limits, m.bounds, m.called = likeLimit(key), boundsWhat(key), calledLimits(key)
			m.limits = m.limits || otherNames[strings.ToLower(key)] == limitsKey
			_, err := polygon.ParseQuantity(key)
			m.measured = err == nil && o != &recipeObject
		}
		if m.near == "" && (o == &regionObject || o == &recipeObject) {
			m.pixels = otherPixels[strings.ToLower(key)]
		}
		if b.near == nil {
			b.near = map[nearKey]meaning{}
		}
		if len(b.near) < maxNear {
			b.near[at] = m
		}
	}
	counts := m.misplaced || slices.Contains(o.read, m.near) && !slices.Contains(harmless, m.near)
	b.strange(key, m.near, m.hint, counts, where)
	return m
}

// ignored notes a key that an object ignores, if it looks like another one, or if its value, which is at the cursor, is
// limits in another form or would change what is looked at.
func (b *builder) ignored(c cursor, key string, o *object, where func() string) {
	m := b.nearest(key, o, where)
	value := c.s[c.pos:]
	c.skip()
	value = value[:len(value)-len(c.s)+c.pos]
	kind := kind(value[0])
	number := false
	if len(value) <= maxNumber { // else an error copies it
		_, err := strconv.ParseFloat(strings.Trim(value, `"`), 64)
		number = err == nil
	}
	structured := kind == kindObject || kind == kindArray
	limits := m.limits && strings.ContainsAny(value, digits) && !(m.measured && number) ||
		m.bounds && (number || structured && strings.ContainsAny(value, digits)) ||
		m.called && structured && keysOfLimits(value) ||
		kind == kindString && !slices.Contains(names, key) && len(value) <= maxNote && likeRange((&cursor{s: value}).text())
	switch {
	case m.near != "":
	case limits:
		b.strange(key, limitsKey, hintOfLimits, true, where)
	case m.pixels == "", slices.Contains([]string{"false", "null", "0", "0.0", `""`, "[]"}, value):
	case structured || !strings.EqualFold(key, "position"): // a position on a line is a note
		b.strange(key, m.pixels, meant(m.pixels), true, where)
	}
}

const (
	digits    = "0123456789"
	maxNumber = 64 // of bytes
)

// names are keys whose texts are names, which may be those of quantities.
var names = []string{"name", "label", "id"}

// saysRange matches what makes a range of a text that begins with a quantity ("mean below 90", "p99 80-120").
var saysRange = regexp.MustCompile(`(?i)\b(below|under|above|over|less|more|greater|most|least|between|from|within|max|min)\b` +
	`.*\d|\d\s*(-|–|\.\.|to|±|\+/?-)\s*\d`)

func likeRange(text string) bool {
	return saysRange.MatchString(text) && !slices.Contains(notes, firstQuantity(text)) && firstQuantity(text) != ""
}

// maxNear bounds how many keys a builder remembers the meaning of, so that files of many alike objects are read fast.
const maxNear = 4096

type nearKey struct {
	of  *object
	key string
}

// withoutDashes makes names equal that are spelt as one word or as several.
var withoutDashes = strings.NewReplacer("_", "", "-", "")

// meaning is the key that another one is close to, what to tell of it, and whether it is a key of another object. Where
// it is close to none, its value decides.
type meaning struct {
	near, hint string
	misplaced  bool

	limits   bool   // its name is that of limits
	measured bool   // its name is a quantity, so that a number may be what somebody measured
	bounds   bool   // it bounds something that is no quantity ("max_defects")
	called   bool   // limits are part of its name ("QC_Limits")
	pixels   string // the key that changes what is looked at as this one would
}

// elsewhere is the meaning of a key that belongs to another place.
func elsewhere(key, hint string) meaning { return meaning{near: key, hint: hint, misplaced: true} }

func (o *object) meaning(key string) meaning {
	plain := func(key string) string { return withoutDashes.Replace(strings.ToLower(key)) }
	misplaced := func(of *object) bool {
		at := slices.IndexFunc(of.read, func(own string) bool { return plain(own) == plain(key) })
		return at >= 0 && !slices.Contains(slices.Concat(harmless, o.read, o.known), of.read[at])
	}
	own := slices.Contains([]*object{&regionObject, &recipeObject, &scaleObject, &drawnOnObject}, o)
	switch {
	case o == &regionObject && misplaced(&recipeObject):
		return elsewhere(key, "it belongs beside the regions, not into one of them")
	case slices.Contains([]*object{&recipeObject, &labelMeFile, &cocoFile, &geoCollection}, o) &&
		slices.Contains([]string{"regions", "shapes", "annotations", "features"}, key):
		return elsewhere(key, "a file has regions of one format")
	case o == &recipeObject && misplaced(&regionObject):
		return elsewhere(key, "it belongs into a region, not beside the regions")
	case !own && (misplaced(&recipeObject) || misplaced(&regionObject)):
		return elsewhere(key, "it is read in polyscan's own format alone")
	case !own && slices.Contains(aboutPlace, plain(key)) && (o != &freeObject || !strings.HasPrefix(plain(key), "pose")):
		return elsewhere(key, `parts are found by the section "locate" of polyscan's own format, or lie where a call's pose `+
			"says")
	case o == &freeObject:
		near := spelling.Nearest(key, o.read)
		return meaning{near: near, hint: meant(near)}
	case o == &regionObject && slices.Contains(aboutPlace, plain(key)),
		o == &recipeObject && slices.Contains(slices.Concat(aboutPlace, besideRegions), plain(key)):
		return elsewhere(key, hintOfLocate)
	case o == &regionObject && likeLimit(key):
		return meaning{near: limitsKey, hint: hintOfLimits}
	case o == &scaleObject && strings.HasPrefix(strings.ToLower(key), "unit"):
		return elsewhere(key, "a scale is in millimetres, by its mm_per_pixel")
	}
	near := otherNames[strings.ToLower(key)]
	if !slices.Contains(o.read, near) {
		near = spelling.Nearest(key, slices.Concat(o.read, o.known))
	}
	return meaning{near: near, hint: meant(near)}
}

// likeLimit says that a key is a quantity, an end of a range, or both ("max", "max_value", "mean_upper", "minMean"), as
// limits of other programs are.
func likeLimit(key string) bool {
	words := wordsOf(key)
	return len(words) > 0 && !slices.Contains(notes, strings.ToLower(key)) &&
		!slices.ContainsFunc(words, func(word string) bool {
			_, err := polygon.ParseQuantity(word)
			return err != nil && !slices.Contains(rangeWords, word)
		})
}

// notes are quantities and the like that may be notes of how large a region is, or of what.
var notes = []string{"width", "height", "area", "value", "limit"}

// boundsWhat says that a key bounds something that is neither a quantity nor a place.
func boundsWhat(key string) bool {
	words := wordsOf(key)
	in := func(list []string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(list, word) })
	}
	return len(words) > 1 && in(boundWords) && !in(placeWords)
}

// calledLimits says that limits are part of the name of a key.
func calledLimits(key string) bool {
	says := func(word string) bool { return word == limitsKey || otherNames[word] == limitsKey }
	return strings.HasSuffix(strings.ToLower(key), limitsKey) || slices.ContainsFunc(wordsOf(key), says)
}

// keysOfLimits says that keys or texts in a value are quantities, or ends of ranges, as the limits of other programs
// are: {"mean": {"min": 90}}. Statistics of a GIS program have keys that say nothing of limits.
func keysOfLimits(value string) bool {
	for c := (&cursor{s: value}); c.pos < len(value); {
		if c.kind() != kindString {
			c.pos++
			continue
		}
		start := c.pos
		if c.skipString(); c.pos-start <= maxNote && likeLimit((&cursor{s: value, pos: start}).text()) {
			return true
		}
	}
	return false
}

// Keys about where parts lie, without dashes, and those that are notes in a region and in the objects of other formats.
// Poses are also notes in what people name themselves: of people and animals.
var (
	aboutPlace = []string{"pose", "poses", "fiducial", "fiducials", "maxresidual", "maxdistortionpercent", "maxdistortion",
		"localise", "localize"}
	besideRegions = []string{"locating", "located", "locates", "location", "marks", "alignment"}
)

// hintOfLocate is what to tell of keys about where parts lie.
const hintOfLocate = `parts are found by the section "locate" beside the regions, or lie where a call's pose says`

// hintOfLimits is what to tell of limits of another form.
const hintOfLimits = `limits are texts under "limits", such as ["max < 100"]`

// wordsOf are the words of a key in small letters: "mean_min", "mean-min", "mean.min" and "meanMin" have two.
func wordsOf(key string) []string {
	return strings.FieldsFunc(strings.ToLower(camel.ReplaceAllString(key, "${1}_$2")), func(r rune) bool {
		return strings.ContainsRune("_- .:/", r)
	})
}

// camel matches where a word begins with a capital.
var camel = regexp.MustCompile(`([\p{Ll}\d])(\p{Lu})`)

// rangeWords are what ends of ranges are called, boundWords those that bound what stands beside them, and placeWords
// what is bounded where a key is about a place, or a map.
var (
	rangeWords = []string{"lower", "upper", "low", "high", "least", "most", "minimum", "maximum", "limit", "value",
		"range", "lsl", "usl", "threshold", "tolerance", "tol", "expected", "nominal"}
	boundWords = []string{"min", "max", "minimum", "maximum", "lower", "upper", "lsl", "usl"}
	placeWords = []string{"x", "y", "z", "lat", "lon", "lng", "left", "right", "top", "bottom", "row", "col", "column",
		"zoom"}
)

func meant(near string) string { return fmt.Sprintf("did you mean %s?", quote(near)) }

// regionsInside is of what a key holds that nobody reads.
var regionsInside = regexp.MustCompile(`"(rings|mask|shape)"\s*:`)

// unread skips the value of a key that an object ignores. Limits in it are an error, and in polyscan's own formats
// regions a warning.
func (b *builder) unread(c *cursor, key string, o *object, where func() string) *Error {
	b.ignored(*c, key, o, where)
	start := c.pos
	if e := c.skipUnread(key); e != nil {
		return e.within("%s", key)
	}
	own := b.file.Format == FormatRegions || b.file.Format == FormatRecipe
	if own && regionsInside.MatchString(c.s[start:c.pos]) {
		b.warn("%s: the key %s is ignored, and so are the regions in it", where(), quote(key))
	}
	return nil
}

// skipUnread consumes a value that nobody reads, of a key. Limits there are an error: those of a key "limits", and
// texts and keys that are limits, alone ("mean < 3") or together ("mean": "< 3").
func (c *cursor) skipUnread(key string) *Error {
	if isLimit(key) {
		return misplacedLimits()
	}
	end := *c
	end.skip()
	for c.pos < end.pos {
		if c.kind() != kindString {
			c.pos++
			continue
		}
		start := c.pos
		c.skipString()
		if c.pos-start > maxNote {
			continue // it is data, such as an image
		}
		text := (&cursor{s: c.s, pos: start}).text()
		isKey := false
		if c.space(); c.pos < end.pos && c.s[c.pos] == ':' {
			key, isKey = text, true
		}
		switch {
		case isKey && key == limitsKey:
			return misplacedLimits()
		case isLimit(text), !isKey && isLimit(key+" "+text):
			return misplacedLimits().within("%s", quote(text))
		}
	}
	*c = end
	return nil
}

// maxNote bounds the texts that are looked at for limits, in bytes.
const maxNote = 4096

// limitSigns are in every limit.
const limitSigns = "<>=[(≤≥"

// isLimit asks whether a text is a limit, or several with semicolons between.
func isLimit(text string) bool {
	if len(text) > maxNote || !strings.ContainsAny(text, limitSigns) {
		return false
	}
	return slices.ContainsFunc(strings.Split(text, ";"), func(part string) bool {
		_, err := polygon.ParseLimit(strings.TrimSpace(part))
		return err == nil
	})
}

// warnOfKeys gives one warning for each of the strange keys.
func (b *builder) warnOfKeys() {
	byOrder := func(x, y strangeKey) int { return cmp.Compare(b.keys[x].order, b.keys[y].order) }
	for _, k := range slices.SortedFunc(maps.Keys(b.keys), byOrder) {
		at := b.keys[k]
		more := ""
		if at.more > 0 {
			more = fmt.Sprintf(" and %d more", at.more)
		}
		b.warn("%s%s: the key %s is ignored; %s", at.where, more, quote(k.key), k.hint)
	}
}
