package regionfile

// The builder that every reader fills: it keeps the limits, owns the vertices, collects warnings and makes names
// unique.

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxMaskPixels bounds the pixels of all PNG masks of a file together: 2^28 bytes take well under two seconds to
// decode, while PNG's compression would let a legal file of 256 MiB ask for hundreds of gigabytes.
const maxMaskPixels = 1 << 28

// maxStrings bounds the limits and reductions of a file: ten for each of the regions that are allowed by default.
const maxStrings = 10 * defaultMaxRegions

type builder struct {
	opts       Options
	file       *File
	vertices   int   // spent of opts.MaxVertices
	maskPixels int64 // spent of maxMaskPixels
	strs       int   // spent of maxStrings
	warnings   int   // given, including those beyond maxWarnings
	keys       map[strangeKey]*strangePlace
	near       map[nearKey]meaning

	scratch [][2]float64 // the ring being read
	arena   [][2]float64 // where finished rings are kept, a large block at a time
}

// warn notes something that was skipped or assumed.
func (b *builder) warn(format string, args ...any) {
	b.warnings++
	if b.warnings <= maxWarnings {
		b.file.Warnings = append(b.file.Warnings, oneLine(fmt.Sprintf(format, args...)))
	}
}

// lost notes limits of something that was skipped, if there are any; where says what it was.
func (b *builder) lost(limits []string, where string) {
	if len(limits) > 0 && len(b.file.Lost) < maxWarnings {
		b.file.Lost = append(b.file.Lost, oneLine(where))
	}
}

// unlike warns of something that makes a region other than the file has it; limits on it would be of something else.
func (b *builder) unlike(where, why string) {
	b.warn("%s: %s", where, why)
	b.lost([]string{""}, where)
}

// spend accounts for n more vertices.
func (b *builder) spend(n int) *Error {
	if n > b.opts.MaxVertices-b.vertices {
		return fail(ErrLimit, "more than %d vertices in the file, the limit", b.opts.MaxVertices)
	}
	b.vertices += n
	return nil
}

// keep copies a finished ring to where it stays.
func (b *builder) keep(ring [][2]float64) [][2]float64 {
	n := len(ring)
	if cap(b.arena)-len(b.arena) < n {
		// Blocks double with what the file has shown so far, so that a small file stays small and a large one allocates
		// seldom.
		b.arena = make([][2]float64, 0, max(n, 64, min(b.vertices, 1<<16)))
	}
	at := len(b.arena)
	b.arena = append(b.arena, ring...)
	return slices.Clip(b.arena[at:])
}

// add appends a region; the caller has checked its rings.
func (b *builder) add(r Region) *Error {
	if e := b.room(); e != nil {
		return e
	}
	b.file.Regions = append(b.file.Regions, r)
	return nil
}

// room tells whether one more region is allowed.
func (b *builder) room() *Error {
	if len(b.file.Regions) >= b.opts.MaxRegions {
		return fail(ErrLimit, "more than %d regions in the file, the limit", b.opts.MaxRegions)
	}
	return nil
}

// finish names the regions and closes the list of warnings.
func (b *builder) finish() (*File, *Error) {
	f := b.file
	if len(f.Regions) == 0 {
		reason := fmt.Sprintf("no regions in this %s file", f.Format)
		if len(f.Warnings) > 0 {
			reason += " (" + f.Warnings[0]
			if b.warnings > 1 {
				reason += fmt.Sprintf("; %d more like it", b.warnings-1)
			}
			reason += ")"
		}
		return nil, &Error{Kind: ErrNoRegions, Reason: reason}
	}
	b.checkUnit()
	b.warnOfKeys()
	b.uniqueNames()
	if b.warnings > maxWarnings {
		f.Warnings = f.Warnings[:maxWarnings]
		f.Warnings[maxWarnings-1] = fmt.Sprintf("and %d more warnings", b.warnings-maxWarnings+1)
	}
	return f, nil
}

// checkUnit says where coordinates can't be pixels: those between 0 and 1, as shares of an image's sides are, and those
// of regions that cover less than a pixel together, as degrees do. The squares around the regions stand for what they
// cover, so that thin regions are none of these, and masks and shapes have pixels.
func (b *builder) checkUnit() {
	f := b.file
	least, most, covered := math.Inf(1), math.Inf(-1), 0.0
	for _, g := range f.Regions {
		if g.Rings == nil {
			covered = math.Inf(1)
			break
		}
		lo, hi := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{math.Inf(-1), math.Inf(-1)}
		for _, ring := range g.Rings {
			for _, p := range ring {
				for i, v := range p {
					lo[i], hi[i] = min(lo[i], v), max(hi[i], v)
				}
			}
		}
		least, most = min(least, lo[0], lo[1]), max(most, hi[0], hi[1])
		side := max(hi[0]-lo[0], hi[1]-lo[1])
		covered += side * side
	}
	switch {
	case f.NotPixels != "", math.IsInf(covered, 1):
	case least >= 0 && most <= 1:
		f.NotPixels = "all its coordinates are from 0 to 1, as shares of an image's sides are, and polyscan needs pixels: " +
			"multiply them by the width and height of the frame"
	case covered < 1:
		f.NotPixels = fmt.Sprintf("all its regions together cover less than a pixel, with coordinates from %v to %v, as if "+
			"they were degrees, and polyscan needs pixels", least, most)
	}
	if f.NotPixels != "" {
		b.warn("%s", f.NotPixels)
	}
}

// uniqueNames gives names to the nameless and suffixes to the repeated, as Region.Name documents. The first region
// of a name keeps it. Expected time is linear: the suffix counter of a name never goes back.
func (b *builder) uniqueNames() {
	regions := b.file.Regions
	for i := range regions {
		if regions[i].Name == "" {
			regions[i].Name = "region-" + strconv.Itoa(i)
		}
	}
	taken := make(map[string]int, len(regions)) // name -> last suffix tried
	for i := range regions {
		taken[regions[i].Name] = 1
	}
	seen := make(map[string]bool, len(regions))
	own := b.file.Format == FormatRegions || b.file.Format == FormatRecipe
	for i := range regions {
		name := regions[i].Name
		if !seen[name] {
			seen[name] = true
			continue
		}
		k := taken[name]
		fresh := ""
		for {
			k++
			fresh = name + "#" + strconv.Itoa(k)
			if _, used := taken[fresh]; !used {
				break
			}
		}
		taken[name] = k
		taken[fresh] = 1
		seen[fresh] = true
		regions[i].Name = fresh
		if b.file.Renamed == nil {
			b.file.Renamed = map[string]string{}
		}
		b.file.Renamed[fresh] = name
		if own {
			b.warn("regions[%d]: the name %s is taken, the region is called %s", i, quote(name), quote(fresh))
		}
	}
}

// coordinate checks one coordinate in pixels.
func coordinate(axis string, v float64) *Error {
	if math.Abs(v) < coordinateLimit { // false for NaN
		return nil
	}
	return fail(ErrInvalid, "%s is %v, its magnitude must be below %d px", axis, v, coordinateLimit)
}

// bothSides checks the size of an image: both sides, or none.
func bothSides(width, height int) *Error {
	if (width > 0) != (height > 0) {
		return fail(ErrInvalid, "a size of %dx%d pixels: width and height must both be above 0, or both be left out",
			width, height)
	}
	return nil
}

// enough checks the length of a ring.
func enough(vertices int) *Error {
	if vertices < 3 {
		return fail(ErrInvalid, "%d %s, a ring needs at least 3", vertices, plural(vertices, "vertex", "vertices"))
	}
	return nil
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// signedArea2 returns twice the signed area of a ring; positive means clockwise on the screen, where y grows down.
func signedArea2(ring [][2]float64) float64 {
	if len(ring) == 0 {
		return 0
	}
	// Relative to the first vertex, so that a small ring far out keeps its precision.
	ox, oy := ring[0][0], ring[0][1]
	sum := 0.0
	for i := 1; i+1 < len(ring); i++ {
		ax, ay := ring[i][0]-ox, ring[i][1]-oy
		bx, by := ring[i+1][0]-ox, ring[i+1][1]-oy
		sum += ax*by - ay*bx
	}
	return sum
}

// orient reverses a ring in place unless the sign of its area is the wanted one. A ring of no net area stays as it is.
//
// Rings of one direction under the non-zero rule add up to their union, whichever way each of them was drawn; rings of
// the other direction inside them are holes.
func orient(ring [][2]float64, positive bool) {
	if a := signedArea2(ring); a != 0 && (a > 0) != positive {
		slices.Reverse(ring)
	}
}

// validUTF8 returns s, with the replacement character in place of bytes that aren't UTF-8.
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}
