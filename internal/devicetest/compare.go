// Comparators: where two results differ, precisely.

package devicetest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Difference is the first place at which two results differ. It is an error.
type Difference struct {
	Op      string // such as "MaskReduce"
	Region  int    // its index in the prepared set; -1 for a pixel of an image
	Channel int
	Field   string // of MaskStats, "Hist[n]" or "pixel (x, y)"
	A, B    uint64 // the values; A is what was got where B was wanted
	Count   int    // how many values differ in all
}

func (d *Difference) Error() string {
	where := d.Field
	if d.Region >= 0 {
		where = fmt.Sprintf("region %d channel %d %s", d.Region, d.Channel, d.Field)
	}
	return fmt.Sprintf("%s: %s is %d (%#x) on one side and %d (%#x) on the other; %d values differ",
		d.Op, where, d.A, d.A, d.B, d.B, d.Count)
}

// statsFields are the fields of [driver.MaskStats] that ops write.
var statsFields = []struct {
	name string
	of   func(*driver.MaskStats) *uint64
}{
	{"Count", func(s *driver.MaskStats) *uint64 { return &s.Count }},
	{"Sum", func(s *driver.MaskStats) *uint64 { return &s.Sum }},
	{"SumSq", func(s *driver.MaskStats) *uint64 { return &s.SumSq }},
	{"MinKey", func(s *driver.MaskStats) *uint64 { return &s.MinKey }},
	{"MaxKey", func(s *driver.MaskStats) *uint64 { return &s.MaxKey }},
	{"SumX", func(s *driver.MaskStats) *uint64 { return &s.SumX }},
	{"SumY", func(s *driver.MaskStats) *uint64 { return &s.SumY }},
	{"SumVX", func(s *driver.MaskStats) *uint64 { return &s.SumVX }},
	{"SumVY", func(s *driver.MaskStats) *uint64 { return &s.SumVY }},
}

// found is a Difference under construction.
type found struct{ d *Difference }

func (f *found) add(op string, region, channel int, field func() string, a, b uint64) {
	if a == b {
		return
	}
	if f.d == nil {
		f.d = &Difference{Op: op, Region: region, Channel: channel, Field: field(), A: a, B: b}
	}
	f.d.Count++
}

// CompareStats compares sums, of so many channels for each region from first on. It returns nil where they are equal.
func CompareStats(a, b []driver.MaskStats, first, channels int) *Difference {
	const op = "MaskReduce"
	var f found
	f.add(op, -1, 0, func() string { return "len(Stats)" }, uint64(len(a)), uint64(len(b)))
	for i := range min(len(a), len(b)) {
		for _, field := range statsFields {
			f.add(op, first+i/channels, i%channels, func() string {
				return field.name
			}, *field.of(&a[i]), *field.of(&b[i]))
		}
	}
	return f.d
}

// CompareLabels compares Voronoi diagrams of a width.
func CompareLabels(a, b []uint32, width int) *Difference {
	return comparePixels("Voronoi", "len(Labels)", a, b, width)
}

// CompareIslands compares Voronoi diagrams of a width, and the numbers of pixels that were given away.
func CompareIslands(a, b []uint32, width int, countA, countB uint32) *Difference {
	if d := comparePixels("Islands", "len(Labels)", a, b, width); d != nil {
		return d
	}
	var f found
	f.add("Islands", -1, 0, func() string { return "Count" }, uint64(countA), uint64(countB))
	return f.d
}

// CompareEdges compares what [driver.Edges] wrote for images of a width.
func CompareEdges(a, b []uint16, width int) *Difference {
	return comparePixels("Edges", "len(Dst)", a, b, width)
}

// CompareDerivatives compares a field that [driver.Derivatives] wrote for images of a width.
func CompareDerivatives(field string, a, b []uint16, width int) *Difference {
	return comparePixels("Derivatives."+field, "its length", a, b, width)
}

// CompareVertices compares what [driver.SelectVertices] wrote.
func CompareVertices(a, b []driver.Point) *Difference {
	const op = "SelectVertices"
	var f found
	for i := range min(len(a), len(b)) {
		f.add(op, -1, 0, func() string { return fmt.Sprintf("x of vertex %d", i) }, uint64(a[i].X), uint64(b[i].X))
		f.add(op, -1, 0, func() string { return fmt.Sprintf("y of vertex %d", i) }, uint64(a[i].Y), uint64(b[i].Y))
	}
	f.add(op, -1, 0, func() string { return "Count" }, uint64(len(a)), uint64(len(b)))
	return f.d
}

// ComparePainted compares the memory of two images of the same layout that an op painted on. What is between rows
// counts, too.
func ComparePainted(op string, a, b []byte, layout *Picture) *Difference {
	var f found
	f.add(op, -1, 0, func() string { return "len(Dst)" }, uint64(len(a)), uint64(len(b)))
	for i := range min(len(a), len(b)) {
		f.add(op, -1, 0, func() string {
			x, y, n := i%layout.Stride, i/layout.Stride, layout.Format.PixelBytes()
			return fmt.Sprintf("byte %d of pixel (%d, %d)", x%n, x/n, y)
		}, uint64(a[i]), uint64(b[i]))
	}
	return f.d
}

// CompareBytes compares what an op wrote to a slice.
func CompareBytes(op, field string, a, b []byte) *Difference {
	var f found
	f.add(op, -1, 0, func() string { return "len(" + field + ")" }, uint64(len(a)), uint64(len(b)))
	for i := range min(len(a), len(b)) {
		f.add(op, -1, 0, func() string { return fmt.Sprintf("%s[%d]", field, i) }, uint64(a[i]), uint64(b[i]))
	}
	return f.d
}

func comparePixels[E uint16 | uint32](op, length string, a, b []E, width int) *Difference {
	var f found
	f.add(op, -1, 0, func() string { return length }, uint64(len(a)), uint64(len(b)))
	for i := range min(len(a), len(b)) {
		f.add(op, -1, 0, func() string {
			return fmt.Sprintf("pixel (%d, %d)", i%width, i/width)
		}, uint64(a[i]), uint64(b[i]))
	}
	return f.d
}

// CompareTriangles compares sets of triangles, whatever their order. It returns nil where they are equal, and else the
// first triangle in the order of its indices that one side lacks.
func CompareTriangles(a, b []driver.Triangle) *Difference {
	const op = "Triangulate"
	a, b = slices.SortedFunc(slices.Values(a), orderTriangles), slices.SortedFunc(slices.Values(b), orderTriangles)
	var f found
	for len(a) > 0 || len(b) > 0 {
		c := 0
		switch {
		case len(b) == 0:
			c = -1
		case len(a) == 0:
			c = 1
		default:
			c = orderTriangles(a[0], b[0])
		}
		switch {
		case c < 0:
			f.add(op, -1, 0, func() string { return fmt.Sprintf("number of triangles %v", a[0]) }, 1, 0)
			a = a[1:]
		case c > 0:
			f.add(op, -1, 0, func() string { return fmt.Sprintf("number of triangles %v", b[0]) }, 0, 1)
			b = b[1:]
		default:
			a, b = a[1:], b[1:]
		}
	}
	return f.d
}

// CompareMesh compares what an op that makes a mesh wrote: the triangles in their order, and the counts.
func CompareMesh(op string, a, b []driver.Triangle, countsA, countsB driver.MeshCounts) *Difference {
	var f found
	add := func(name string, a, b uint32) {
		f.add(op, -1, 0, func() string { return name }, uint64(a), uint64(b))
	}
	add("Counts.Triangles", countsA.Triangles, countsB.Triangles)
	add("Counts.Sites", countsA.Sites, countsB.Sites)
	add("Counts.Border", countsA.Border, countsB.Border)
	add("Counts.Hull", countsA.Hull, countsB.Hull)
	for i := range min(len(a), len(b)) {
		field := func(corner string) func() string {
			return func() string { return fmt.Sprintf("%s of triangle %d", corner, i) }
		}
		f.add(op, -1, 0, field("A"), uint64(a[i].A), uint64(b[i].A))
		f.add(op, -1, 0, field("B"), uint64(a[i].B), uint64(b[i].B))
		f.add(op, -1, 0, field("C"), uint64(a[i].C), uint64(b[i].C))
	}
	return f.d
}

// CompareFlaws compares what [driver.Flips] says about the mesh that it was given. How it went on is the backend's.
func CompareFlaws(a, b driver.FlipStatus) *Difference {
	var f found
	add := func(name string, a, b uint32) {
		f.add("Flips", -1, 0, func() string { return name }, uint64(a), uint64(b))
	}
	add("Status.Inverted", a.Inverted, b.Inverted)
	add("Status.Double", a.Double, b.Double)
	add("Status.Concave", a.Concave, b.Concave)
	add("Status.Rings", a.Rings, b.Rings)
	add("Status.Missing", a.Missing, b.Missing)
	return f.d
}

func orderTriangles(a, b driver.Triangle) int {
	return cmp.Or(cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B), cmp.Compare(a.C, b.C))
}

// CompareHist compares histograms of so many levels.
func CompareHist(a, b []uint32, first, channels, levels int) *Difference {
	const op = "MaskReduce"
	var f found
	f.add(op, -1, 0, func() string { return "len(Hist)" }, uint64(len(a)), uint64(len(b)))
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			f.add(op, first+i/levels/channels, i/levels%channels, func() string {
				return fmt.Sprintf("Hist[%d]", i%levels)
			}, uint64(a[i]), uint64(b[i]))
		}
	}
	return f.d
}

// CompareImage compares the pixels of two images of the given width and strides in bytes, one sample a pixel. Bytes
// between rows are not looked at.
func CompareImage(a, b []byte, width, height, strideA, strideB, sampleBytes int) *Difference {
	const op = "MaskRaster"
	var f found
	for y := range height {
		rowA, rowB := a[y*strideA:], b[y*strideB:]
		for x := range width {
			va, vb := sampleAt(rowA, x, sampleBytes), sampleAt(rowB, x, sampleBytes)
			if va != vb {
				f.add(op, -1, 0, func() string { return fmt.Sprintf("pixel (%d, %d)", x, y) }, va, vb)
			}
		}
	}
	return f.d
}

func sampleAt(row []byte, x, size int) uint64 {
	if size == 2 {
		return uint64(binary.LittleEndian.Uint16(row[2*x:]))
	}
	return uint64(row[x])
}
