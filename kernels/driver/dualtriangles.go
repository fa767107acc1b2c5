// The op that reads triangles off a Voronoi diagram.

package driver

// MeshCounts are numbers of a mesh under construction. Mirrored in memory as four 4-byte integers: 16 bytes.
type MeshCounts struct {
	Triangles uint32 // that there are in the array
	Sites     uint32 // that are to be corners: all but those of which a site of a lesser index is the same pixel
	Border    uint32 // edges around the diagram, or 0 before the hull is completed
	Hull      uint32 // edges around the mesh, or 0 before the hull is completed
}

// DualTriangles finds the triangles between the cells of a Voronoi diagram: of the labels of each block of 2x2 pixels,
// which follow each other clockwise on a screen,
//
//   - three different ones are a triangle, unless the two that are the same lie across (the other two cells don't touch
//     then);
//   - four different ones are two triangles. The diagonal from the second to the fourth parts them where both then turn
//     the right way, and those of the other diagonal don't, or the fourth lies inside the circumcircle of the first
//     three by the rule of [Triangulate]; else the one from the first to the third does;
//   - fewer, or labels that are no index, are none.
//
// The triangles and the edges between neighbouring cells on the border of the image are a mesh that lacks nothing: all
// edges but those have a triangle on either side, or as many on one as on the other. Corners turn the way that
// [Triangle] says where the diagram has no islands; where it has, some may not, which [Flips] finds out.
//
// Triangles has room for 2N of them. They are in the order of the blocks, row by row, and start with their least index.
// Counts receives the number of them and of the sites. Triangles that find no room, which a mesh without flaws has none
// of, are left out. Scratch has at least Device.Scratch bytes. The result does not depend on the backend.
// Time grows with the pixels.
//
// Source: Ke and Huang, Parallel Low Poly Style Image/Video Converter; Zhang and Fan, Parallel Delaunay Triangulation;
// both after Rong and others (2008), without the rules about what lies across.
type DualTriangles struct {
	Sites         Slice // of N Point, pixels of the image
	N             int   // up to MaxPoints
	Width, Height int   // sides up to MaxSide, and MaxPixels in all
	Labels        Slice // of Width*Height uint32, as Voronoi and Islands write them
	Triangles     Slice // of Triangle
	Counts        Slice // one MeshCounts
	Scratch       Slice
}

func (op *DualTriangles) name() string { return "DualTriangles" }

func (op *DualTriangles) check() error { return checkDiagram(op.name(), op.N, op.Width, op.Height) }

func (op *DualTriangles) operands(to []Operand) []Operand {
	return append(to,
		exact("Sites", &op.Sites, 8*int64(op.N), Read),
		exact("Labels", &op.Labels, 4*int64(op.Width)*int64(op.Height), Read),
		exact("Triangles", &op.Triangles, 2*12*int64(op.N), Write),
		exact("Counts", &op.Counts, 16, Write),
		scratch("Scratch", &op.Scratch, BackendSized))
}
