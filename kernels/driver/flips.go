// The op that makes a mesh Delaunay.

package driver

import "cmp"

// FlipStatus is what came of [Flips]. Mirrored in memory as eight 4-byte integers: 32 bytes.
//
// The five fields from Inverted on say whether what was given is a triangulation. Together they tell: triangles that
// all turn the right way, and whose edges cancel but for a convex ring, cover what the ring encloses exactly once.
type FlipStatus struct {
	Rounds uint32 // with flips in them
	Flips  uint32
	Left   uint32 // edges that were still to be flipped when the rounds were used up

	Inverted uint32 // triangles that don't turn the way [Triangle] says, or have a corner that is no point
	Double   uint32 // sides of triangles, from corner to corner, of which there is another
	// sides without another the other way, behind which there isn't one, or not just one, that doesn't turn back
	Concave uint32
	Rings   uint32 // how often such sides turn around: once in all
	Missing uint32 // where all that is well: by how many the corners in use differ from MeshCounts.Sites
}

// Delaunay reports whether the triangles, of which there are so many, are what [Triangulate] asks for.
func (s *FlipStatus) Delaunay(triangles int) bool {
	return s.Left == 0 && s.Sound(triangles)
}

// Sound reports whether the triangles were a triangulation of the points, or the points are all on a line and have
// none.
func (s *FlipStatus) Sound(triangles int) bool {
	return s.Inverted|s.Double|s.Concave|s.Missing == 0 && s.Rings == uint32(min(triangles, 1))
}

// Flips makes the Delaunay triangulation of points from any triangulation of them: it flips edges that have the
// opposite corner of one of their triangles inside the circumcircle of the other, by the rule of [Triangulate] and
// exactly, until there is none (Lawson, Software for C1 surface interpolation, 1977). The set of triangles is that of
// Triangulate, whatever the backend.
//
// It goes in rounds. In each, of all edges that are to be flipped, those flip whose two triangles have no other one
// with a lesser number: a hash of its place in the array. So rounds don't depend on threads, and in the plane they come
// to an end. Near the Delaunay triangulation there are about five. After Rounds rounds it stops, and Status says how
// many edges are left.
//
// Before, all of the mesh is checked, and Status says what came of that: where [FlipStatus.Sound] is false nothing is
// flipped, and Triangles stay as they are but for their first corner. A mesh that is wrong is never said to be right.
// Without triangles it is sound if all points are on one line, and Missing is Counts.Sites otherwise.
//
// Triangles are changed in place; their order is the backend's, and deterministic. Each starts with its least index.
// Scratch has at least Device.Scratch bytes. Time grows with the triangles and the flips.
//
// Source: Zhang and Fan, Parallel Delaunay Triangulation, which leaves it to others.
type Flips struct {
	Points    Slice // of N Point, |coordinate| <= MaxPoint
	N         int   // up to MaxPoints
	Triangles Slice // of Triangle; room for 2N
	Counts    Slice // one MeshCounts: Triangles and Sites are read
	Rounds    int   // the most there may be, 1 to MaxFlipRounds
	Status    Slice // one FlipStatus
	Scratch   Slice
}

// MaxFlipRounds is the most rounds that [Flips] can be told to do.
const MaxFlipRounds = 1 << 20

func (op *Flips) name() string { return "Flips" }

func (op *Flips) check() error {
	return cmp.Or(between(op.name(), "N", op.N, 0, MaxPoints),
		between(op.name(), "Rounds", op.Rounds, 1, MaxFlipRounds))
}

func (op *Flips) operands(to []Operand) []Operand {
	return append(to,
		exact("Points", &op.Points, 8*int64(op.N), Read),
		exact("Triangles", &op.Triangles, 2*12*int64(op.N), Read|Write),
		exact("Counts", &op.Counts, 16, Read),
		exact("Status", &op.Status, 32, Write),
		scratch("Scratch", &op.Scratch, BackendSized))
}
