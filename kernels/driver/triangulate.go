// The op of exact Delaunay triangulation.

package driver

// Point is a place on the grid of whole numbers. Mirrored in memory as two 4-byte integers: 8 bytes.
type Point struct{ X, Y int32 }

const (
	// MaxPoint bounds the absolute values of a [Point]'s coordinates. Differences of two are 2^29 at most, so that
	// orientations fit in int64 and in-circle determinants, below 2^119, in 128 bits.
	MaxPoint = 1 << 28
	// MaxPoints bounds how many there may be, so that half-edges can be counted in 32 bits.
	MaxPoints = 1 << 28
)

// Triangle is three indices into an array of points. Going from A to B to C turns from the x axis towards the y axis:
//
//	(B.X-A.X)*(C.Y-A.Y) - (B.Y-A.Y)*(C.X-A.X) > 0
//
// which is counter-clockwise by the axes, and looks clockwise on a screen, whose y points down. A is the least of the
// three indices. 12 bytes.
type Triangle struct{ A, B, C uint32 }

// Triangulate computes the Delaunay triangulation of points: triangles that cover their convex hull, without overlap,
// each distinct point a corner of one, and none inside the circumcircle of any.
//
// Where more than three points lie on a circle that holds no other, the polygon that they span is cut into a fan around
// the one of least X, of those the one of least Y. So the set of triangles is unique, whatever the backend and the
// order of the points. Of equal points the one of least index is used. Points that are all on one line, fewer than
// three among them, have no triangles.
//
// Triangles has room for 2N of them, which is more than there can be; Count receives their number, a uint32. Their
// order is the backend's, and deterministic. Scratch has at least Device.Scratch bytes.
//
// Source: Zhang and Fan, Parallel Delaunay Triangulation, which stops at meshes that are nearly Delaunay.
type Triangulate struct {
	Points    Slice // of N Point, |coordinate| <= MaxPoint
	N         int
	Triangles Slice // of Triangle
	Count     Slice // one uint32
	Scratch   Slice
}

func (op *Triangulate) name() string { return "Triangulate" }

func (op *Triangulate) check() error { return between(op.name(), "N", op.N, 0, MaxPoints) }

func (op *Triangulate) operands(to []Operand) []Operand {
	return append(to,
		exact("Points", &op.Points, 8*int64(op.N), Read),
		exact("Triangles", &op.Triangles, 2*12*int64(op.N), Write),
		exact("Count", &op.Count, 4, Write),
		scratch("Scratch", &op.Scratch, BackendSized))
}
