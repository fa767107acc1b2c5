// The op that completes a mesh up to the convex hull.

package driver

// HullCompletion adds the triangles between the border of the mesh that [DualTriangles] made of a diagram, and the
// convex hull of the sites. Programs that go by the diagram alone leave them out: triangles are missing there where
// cells meet beyond the image.
//
// The labels of the pixels along a side of the image, from corner to corner and clockwise on a screen, are a chain of
// sites; all four are a ring around the mesh. In each chain, as long as there is a corner at which it turns away from
// clockwise, the first one is cut off by a triangle. Then, at the four places where chains meet, top right, bottom
// right, bottom left, top left, the same is done in the ring: first with the chain before the place, back from it,
// whenever the next site of the chain behind it has been taken in, until one is taken in without a cut. Sites along a
// side are in the order of their coordinate, so triangles overlap nothing; corners at which the ring goes straight on
// stay.
//
// Triangles are written behind those that Counts says there are, chain by chain and place by place, in the order of the
// cuts, and start with their least index. What finds no room in 2N is left out. Counts.Triangles grows by their number;
// Counts.Border receives the edges of the ring before, Counts.Hull those of it after. Scratch has at least
// Device.Scratch bytes. The result does not depend on the backend. Time grows with the sides.
//
// Source: Ke and Huang, Parallel Low Poly Style Image/Video Converter, says what is missing. The chains are those of
// Andrew (Another efficient algorithm for convex hulls in two dimensions, 1979).
type HullCompletion struct {
	Sites         Slice // of N Point, pixels of the image
	N             int   // up to MaxPoints
	Width, Height int   // sides up to MaxSide, and MaxPixels in all
	Labels        Slice // of Width*Height uint32, those that DualTriangles saw
	Triangles     Slice // of Triangle; room for 2N
	Counts        Slice // one MeshCounts
	Scratch       Slice
}

func (op *HullCompletion) name() string { return "HullCompletion" }

func (op *HullCompletion) check() error { return checkDiagram(op.name(), op.N, op.Width, op.Height) }

func (op *HullCompletion) operands(to []Operand) []Operand {
	return append(to,
		exact("Sites", &op.Sites, 8*int64(op.N), Read),
		exact("Labels", &op.Labels, 4*int64(op.Width)*int64(op.Height), Read),
		exact("Triangles", &op.Triangles, 2*12*int64(op.N), Read|Write),
		exact("Counts", &op.Counts, 16, Read|Write),
		scratch("Scratch", &op.Scratch, BackendSized))
}
