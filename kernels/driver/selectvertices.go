// The op of choosing vertices.

package driver

import "cmp"

// Bounds of the settings of [SelectVertices]. Weights stay below 2^23.
const (
	MaxVertexFloor    = 1 << 16
	MaxVertexSpacing  = 255
	MaxVertexStrength = 63
)

// SelectVertices chooses places for the vertices of a low-poly picture, more of them where there are edges.
//
// Vertices are corners of pixels, (x, y) in [0, Width] x [0, Height], so that a triangulation with the four corners of
// the image covers the centre of each pixel. They are
//
//   - on the border of the image: each of its sides is cut into the fewest parts of no more than Border, as equal as
//     whole numbers allow (vertex i of k is at i*L/k, rounded down);
//   - candidates inside, more than Spacing from the border: Spacing < x < Width-Spacing, and y likewise.
//
// Candidates are chosen without replacement by order sampling (Ohlsson, Sequential Poisson sampling, 1998): each has a
// key, a random number divided by its weight, and the least keys win; so the number is exact. The weight of a candidate
// is Floor and the sum of Edges over the four pixels around it, times 1 + Strength for those that are in Previous, so
// that vertices of a video stay where they are unless the picture changes. The key is max(1, h / weight) rounded down,
// with h the high 32 bits of mix(mix(Seed) ^ (y<<32 | x)), where mix is the finaliser of SplitMix64; order is by key,
// then by y, then by x.
//
// Where Cell is not 0, the candidates are cut into cells of so many columns and rows, [i*Cell, (i+1)*Cell), and the
// first one of each in that order gets the key 0; the last Spacing columns and rows of a cell don't take part. These
// are chosen in any case, which bounds triangles.
//
// Then candidates stay that are the first ones in the square of those up to Spacing columns and rows away. So chosen
// vertices are more than Spacing apart in x or in y. The first N of them, less those of the border, are chosen: all,
// where fewer stay.
//
// Points receives the vertices by y, then x; there is room for N, and what is left of it becomes copies of the first
// one, (0, 0): so all N can be triangulated, which equal points don't change, by a caller that doesn't know the number.
// Count receives it, a uint32. Scratch has at least Device.Scratch bytes. Corners of Previous that are no candidates
// don't matter.
//
// All of it is integers, the same on every backend. Time grows with the pixels, and the number of vertices hardly
// matters. Source: Ke and Huang, Parallel Low Poly Style Image/Video Converter; Yang, Low poly in CUDA, 2018; in both
// each pixel is chosen or not by itself: the number is random, and neighbours are chosen.
type SelectVertices struct {
	Edges         Slice // of Width*Height uint16, as [Edges] writes them; greater ones count as MaxEdge
	Width, Height int   // of the image: sides up to MaxSide, and MaxPixels in all
	VertexRule
	N         int   // wanted: at least as many as there are on the border and cells
	Previous  Slice // of NPrevious Point
	NPrevious int
	Points    Slice // of N Point
	Count     Slice // one uint32
	Scratch   Slice
}

// VertexRule is the settings of [SelectVertices].
type VertexRule struct {
	Seed     uint64
	Floor    int // 1 to MaxVertexFloor
	Spacing  int // 0 to MaxVertexSpacing
	Border   int // 1 to MaxSide
	Cell     int // 0, or more than Spacing, up to MaxSide
	Strength int // 0 to MaxVertexStrength
}

func (op *SelectVertices) name() string { return "SelectVertices" }

func (op *SelectVertices) check() error {
	name, rule := op.name(), &op.VertexRule
	if err := cmp.Or(
		CheckSize(name, "", op.Width, op.Height),
		between(name, "Floor", rule.Floor, 1, MaxVertexFloor),
		between(name, "Spacing", rule.Spacing, 0, MaxVertexSpacing),
		between(name, "Border", rule.Border, 1, MaxSide),
		between(name, "Cell", rule.Cell, 0, MaxSide),
		between(name, "Strength", rule.Strength, 0, MaxVertexStrength),
		between(name, "N", op.N, 0, MaxPoints),
		between(name, "NPrevious", op.NPrevious, 0, MaxPoints),
	); err != nil {
		return err
	}
	if rule.Cell != 0 && rule.Cell <= rule.Spacing {
		return refuse(name, "Cell", rule.Cell, "must be 0, or more than the Spacing of %d", rule.Spacing)
	}
	border, cells := BorderVertices(op.Width, op.Height, rule.Border), VertexCells(op.Width, op.Height, rule.Cell)
	if op.N < border+cells {
		return refuse(name, "N", op.N, "is less than the %d vertices on the border and one for each of %d cells", border,
			cells)
	}
	return nil
}

func (op *SelectVertices) operands(to []Operand) []Operand {
	return append(to,
		exact("Edges", &op.Edges, 2*int64(op.Width)*int64(op.Height), Read),
		exact("Previous", &op.Previous, 8*int64(op.NPrevious), Read),
		exact("Points", &op.Points, 8*int64(op.N), Write),
		exact("Count", &op.Count, 4, Write),
		scratch("Scratch", &op.Scratch, BackendSized))
}

// BorderVertices is how many vertices [SelectVertices] puts on the border of an image.
func BorderVertices(width, height, border int) int {
	return 2 * ((width+border-1)/border + (height+border-1)/border)
}

// VertexCells is how many cells [SelectVertices] cuts an image into, at most.
func VertexCells(width, height, cell int) int {
	if cell == 0 {
		return 0
	}
	return ((width + cell - 1) / cell) * ((height + cell - 1) / cell)
}
