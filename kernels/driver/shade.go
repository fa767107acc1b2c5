// The op that paints triangles.

package driver

import "cmp"

// ShadeMethod says how the pixels of triangles are found. All give the same pixels.
type ShadeMethod uint8

const (
	// ShadeDefault lets the backend choose its fastest one.
	ShadeDefault ShadeMethod = iota
	// PerTriangle walks over the pixels of one triangle after the other (Ke and Huang, Parallel Low Poly Style
	// Image/Video Converter).
	PerTriangle
	// PerTile sorts triangles into tiles of pixels first, and walks over the pixels of one tile after the other
	// (Yang, Low poly in CUDA, 2018).
	PerTile
)

var shadeMethodNames = [...]string{"DEFAULT", "PER_TRIANGLE", "PER_TILE"}

func (m ShadeMethod) String() string { return nameOf(shadeMethodNames[:], m) }

// ShadeColor says which colour a triangle gets.
type ShadeColor uint8

const (
	// MeanColor is the mean of the pixels that it covers, of each channel by itself, rounded to the nearest, halves up.
	// A triangle that covers no pixel has the colour at its centroid.
	MeanColor ShadeColor = iota
	// CentroidColor is the pixel at (A+B+C)/3, rounded down, or the nearest one where that is beyond the image (the
	// seeds).
	CentroidColor
)

var shadeColorNames = [...]string{"MEAN", "CENTROID"}

func (c ShadeColor) String() string { return nameOf(shadeColorNames[:], c) }

// Shade paints each triangle in one colour, that it takes from an image.
//
// A triangle covers the pixels whose centres are inside, and of those on its edges the ones that the crossing rule of
// all of this gives it: an edge counts for the rows of centres that it crosses, and a centre is covered where an odd
// number of the triangle's edges cross its row strictly right of it. So triangles that share edges share no pixel and
// leave none out. Points are whole numbers, corners of pixels; all of it is exact. Which way a triangle turns doesn't
// matter. Triangles must not overlap; those without area cover nothing.
//
// Pixels of Dst that no triangle covers stay as they are. Colors receives the colour of each triangle, a pixel of Src's
// format, of those beyond Count nothing. The op fails where there are more triangles than Max, where an index is no
// point, or a point lies beyond [0, Width] x [0, Height].
//
// Scratch has at least Device.Scratch bytes. Time grows with the pixels and with the triangles.
type Shade struct {
	Src       Image
	Points    Slice // of N Point
	N         int
	Triangles Slice // of Max Triangle
	Count     Slice // one uint32: how many triangles there are
	Max       int
	Color     ShadeColor
	Method    ShadeMethod
	Dst       Image // as large as Src, and of its format; other memory
	Colors    Slice // of Max pixels without a gap
	Scratch   Slice
}

func (op *Shade) name() string { return "Shade" }

func (op *Shade) check() error {
	name := op.name()
	return cmp.Or(
		op.Src.check(name, "Src."),
		op.Dst.check(name, "Dst."),
		op.Dst.as(name, "Dst", &op.Src, "Src"),
		between(name, "N", op.N, 0, MaxPoints),
		between(name, "Max", op.Max, 0, 2*MaxPoints),
		named(name, "Color", op.Color, CentroidColor, "colour rule"),
		named(name, "Method", op.Method, PerTile, "method"))
}

func (op *Shade) operands(to []Operand) []Operand {
	dst := op.Dst.operand("Dst.Data", Write)
	dst.Apart = true
	return append(to,
		exact("Points", &op.Points, 8*int64(op.N), Read),
		exact("Triangles", &op.Triangles, 12*int64(op.Max), Read),
		exact("Count", &op.Count, 4, Read),
		exact("Colors", &op.Colors, int64(op.Dst.Format.PixelBytes())*int64(op.Max), Write),
		scratch("Scratch", &op.Scratch, BackendSized),
		op.Src.operand("Src.Data", Read),
		dst)
}
