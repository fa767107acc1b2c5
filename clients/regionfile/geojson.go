package regionfile

// GeoJSON (RFC 7946), with pixels for coordinates: x to the right, y down.
//
//   - Polygon: one region. RFC 7946 asks for a direction of rings, but older writers don't keep it, so the rings are
//     taken under the even-odd rule, where the direction doesn't matter: the first is the outside, the others are
//     holes.
//   - MultiPolygon: one region. Its members may overlap, touch, or lie in each other's holes, and their union is meant,
//     which the even-odd rule wouldn't give. So the outsides are turned to one direction, the holes to the other, and
//     the non-zero rule holds. With a single member that isn't empty it is read like a Polygon.
//   - GeometryCollection: one region per polygon or multipolygon in it.
//   - Points, lines and empty or missing geometries are skipped with a warning.
//
// The closing vertex, equal to the first, is dropped; a ring that isn't closed gets a warning. Further numbers of a
// position (altitude) are dropped. A region's name is the first of properties.name, properties.label, properties.id and
// the feature's id that is a non-empty string or a number, and its limits are properties.limits. A "crs" member that
// names no system of an image says that the coordinates are not in pixels (File.NotPixels); coordinates that look like
// degrees get a warning.

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// geoTypes are the types of GeoJSON objects.
var geoTypes = []string{"FeatureCollection", "Feature", "Polygon", "MultiPolygon", "GeometryCollection",
	"Point", "MultiPoint", "LineString", "MultiLineString"}

// maxCollections bounds the nesting of geometry collections. RFC 7946 advises against any.
const maxCollections = 16

// geoReader holds what concerns the whole file.
type geoReader struct {
	*builder
	open     int        // rings that weren't closed
	min, max [2]float64 // bounds of all vertices
}

func (b *builder) geoJSON(c *cursor, kind string) *Error {
	g := &geoReader{builder: b, min: [2]float64{math.Inf(1), math.Inf(1)}, max: [2]float64{math.Inf(-1), math.Inf(-1)}}
	o, where := &geoGeometry, "the geometry"
	switch kind {
	case "FeatureCollection":
		o, where = &geoCollection, "the collection"
	case "Feature":
		o, where = &geoFeature, "the feature"
	}
	m, e := b.members(c, o, func() string { return where })
	if e != nil {
		return e
	}
	switch o {
	case &geoCollection:
		e = g.collection(m)
	case &geoFeature:
		e = g.feature(m, where)
	default:
		e = g.geometry(m, Region{}, where, 0)
	}
	if e != nil {
		return e
	}
	if g.open > 0 {
		b.warn("%d %s not closed (the last position must equal the first): closed implicitly", g.open,
			plural(g.open, "ring is", "rings are"))
	}
	if b.file.NotPixels == "" && (g.min[0] < 0 || g.min[1] < 0) && g.min[0] >= -180 && g.max[0] <= 180 &&
		g.min[1] >= -90 && g.max[1] <= 90 {
		b.warn("all coordinates lie within ±180 and ±90 and some are negative, as if they were degrees: " +
			"they are taken as pixels")
	}
	return nil
}

// ofImages matches reference systems in which coordinates may be pixels, and crsName what names one.
var (
	ofImages = regexp.MustCompile(`(?i)\b(image(crs)?|pixels?|local(_cs)?|engineering(crs)?)\b`)
	crsName  = regexp.MustCompile(`"(?:name|code|href)"\s*:\s*"?([^"}]*)`)
)

func (g *geoReader) noteCRS(m *members) {
	c := m.cursor("crs")
	if c == nil || c.kind() == kindNull {
		return
	}
	start := c.pos
	c.skip()
	text := c.s[start:c.pos]
	if ofImages.MatchString(text) {
		return
	}
	name := text
	if all := crsName.FindAllStringSubmatch(text, -1); len(all) > 0 {
		name = all[len(all)-1][1]
	}
	g.file.NotPixels = fmt.Sprintf("its coordinates are of the reference system %s (crs), and polyscan needs pixels: "+
		"convert them, or take the crs out where they are pixels", quote(strings.Trim(name, `"`)))
}

func (g *geoReader) collection(m *members) *Error {
	g.noteCRS(m)
	var e *Error
	if g.file.Name, e = optional(m, "name", (*cursor).stringOrNull); e != nil {
		return e
	}
	if g.file.Description, e = optional(m, "description", (*cursor).note); e != nil {
		return e
	}
	if p := m.cursor("properties"); p != nil {
		if limits, e := g.attributes(p, func() string { return "the collection: properties" }); e != nil || len(limits) > 0 {
			return misplacedLimits().within("properties")
		}
	}
	c := m.cursor("features")
	if c == nil {
		return fail(ErrInvalid, `the key "features" is missing`)
	}
	if e := c.expect(kindArray); e != nil {
		return e.within("features")
	}
	n := 0
	for more := c.enter(); more; more = c.next() {
		where := "features[" + strconv.Itoa(n) + "]"
		e := c.expect(kindObject)
		if e != nil {
			return e.within("%s", where)
		}
		fm, e := g.members(c, &geoFeature, func() string { return where })
		if e == nil {
			e = g.feature(fm, where)
		} else {
			e.within("%s", where)
		}
		if e != nil {
			return e
		}
		n++
	}
	return nil
}

// feature reads a feature. Its place is for messages and warnings.
func (g *geoReader) feature(m *members, where string) *Error {
	g.noteCRS(m)
	name := featureName(m)
	if name != "" {
		where += " " + quote(name)
	}
	if t, ok := m.str("type"); !ok || t != "Feature" {
		return fail(ErrInvalid, `expected "type": "Feature"`).within("%s", where)
	}
	var limits []string
	if p := m.cursor("properties"); p != nil {
		var e *Error
		if limits, e = g.attributes(p, func() string { return where + ": properties" }); e != nil {
			return e.within("%s: properties", where)
		}
	}
	c := m.cursor("geometry")
	if c == nil || c.kind() == kindNull {
		g.warn("%s: skipped: it has no geometry", where)
		g.lost(limits, where)
		return nil
	}
	if e := c.expect(kindObject); e != nil {
		return e.within("%s: geometry", where)
	}
	before := len(g.file.Regions)
	gm, e := g.members(c, &geoGeometry, func() string { return where + ": geometry" })
	if e == nil {
		e = g.geometry(gm, Region{Name: name, Limits: limits}, where, 0)
	}
	if e != nil {
		return e.within("%s", where)
	}
	if len(g.file.Regions) == before {
		g.lost(limits, where)
	}
	return nil
}

// featureName returns the feature's name, "" if it has none.
func featureName(m *members) string {
	if c := m.cursor("properties"); c != nil && c.kind() == kindObject {
		// A name that occurs twice isn't worth an error here: it is only a name.
		keys := []string{"name", "label", "id"}
		found := make([]string, len(keys))
		for more := c.enter(); more; more = c.next() {
			k := c.key()
			at := *c
			c.skip()
			for i := range keys {
				if k == keys[i] {
					if s, e := at.scalar(); e == nil {
						found[i] = s
					}
				}
			}
		}
		for _, s := range found {
			if s != "" {
				return strings.Clone(s)
			}
		}
	}
	if c := m.cursor("id"); c != nil {
		if s, e := c.scalar(); e == nil {
			return strings.Clone(s)
		}
	}
	return ""
}

// geometry reads a geometry object: regions with the name and the limits of the one that is given. The place is for
// warnings only; errors get theirs from the caller.
func (g *geoReader) geometry(m *members, of Region, where string, depth int) *Error {
	g.noteCRS(m)
	t, ok := m.str("type")
	if !ok {
		return fail(ErrInvalid, `the geometry's "type" is missing or not a string`)
	}
	switch t {
	case "Polygon", "MultiPolygon":
		c := m.cursor("coordinates")
		if c == nil {
			return fail(ErrInvalid, `the key "coordinates" is missing`)
		}
		r := Region{Name: of.Name, Limits: slices.Clone(of.Limits), Fill: FillEvenOdd}
		var e *Error
		if t == "Polygon" {
			r.Rings, e = g.polygon(c)
		} else {
			var parts int
			r.Rings, parts, e = g.multiPolygon(c)
			if parts > 1 {
				r.Fill = FillNonZero
			}
		}
		if e != nil {
			return e.within("coordinates")
		}
		if len(r.Rings) == 0 {
			g.warn("%s: skipped: the %s is empty", where, t)
			return nil
		}
		return g.add(r)
	case "GeometryCollection":
		if depth == maxCollections {
			return fail(ErrLimit, "geometry collections nested more than %d deep, the limit", maxCollections)
		}
		c := m.cursor("geometries")
		if c == nil {
			return fail(ErrInvalid, `the key "geometries" is missing`)
		}
		if e := c.expect(kindArray); e != nil {
			return e.within("geometries")
		}
		n := 0
		for more := c.enter(); more; more = c.next() {
			e := c.expect(kindObject)
			if e == nil {
				var gm *members
				if gm, e = g.members(c, &geoGeometry, func() string { return where + ": geometries" }); e == nil {
					e = g.geometry(gm, of, where, depth+1)
				}
			}
			if e != nil {
				return e.within("geometries[%d]", n)
			}
			n++
		}
		if n == 0 {
			g.warn("%s: skipped: the GeometryCollection is empty", where)
		}
		return nil
	case "Point", "MultiPoint", "LineString", "MultiLineString":
		g.warn("%s: skipped the %s: it has no area", where, t)
		return nil
	}
	return fail(ErrInvalid, "unknown geometry type %s", quote(t))
}

func (g *geoReader) multiPolygon(c *cursor) (rings [][][2]float64, parts int, e *Error) {
	if e := c.expect(kindArray); e != nil {
		return nil, 0, e
	}
	n := 0
	for more := c.enter(); more; more = c.next() {
		part, e := g.polygon(c)
		if e != nil {
			return nil, 0, e.within("[%d]", n)
		}
		n++
		if len(part) == 0 {
			continue
		}
		parts++
		rings = append(rings, part...)
		// Directions matter only when there are several parts; turning those of the first is then still due.
		if parts == 2 {
			turn(rings[:len(rings)-len(part)])
		}
		if parts > 1 {
			turn(part)
		}
	}
	return rings, parts, nil
}

// turn gives the first ring positive area and the others negative.
func turn(polygon [][][2]float64) {
	for i, r := range polygon {
		orient(r, i == 0)
	}
}

// polygon reads an array of rings. Empty arrays, which RFC 7946 allows, give none.
func (g *geoReader) polygon(c *cursor) ([][][2]float64, *Error) {
	if e := c.expect(kindArray); e != nil {
		return nil, e
	}
	var rings [][][2]float64
	for more := c.enter(); more; more = c.next() {
		e := g.ring(c, true)
		if e == nil {
			if n := len(g.scratch); n > 1 && g.scratch[0] == g.scratch[n-1] {
				g.scratch = g.scratch[:n-1]
				g.vertices--
			} else {
				g.open++
			}
			e = enough(len(g.scratch))
		}
		if e != nil {
			return nil, e.within("[%d]", len(rings))
		}
		for _, p := range g.scratch {
			for i := range p {
				g.min[i], g.max[i] = min(g.min[i], p[i]), max(g.max[i], p[i])
			}
		}
		rings = append(rings, g.keep(g.scratch))
	}
	return rings, nil
}
