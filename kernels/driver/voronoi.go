// The op of discrete Voronoi diagrams.

package driver

import "cmp"

// VoronoiMethod says how the nearest site of each pixel is found. All but JumpFlood are exact, and then give the same
// labels. Source: Zhang and Fan, Parallel Delaunay Triangulation, and what it refers to.
type VoronoiMethod uint8

const (
	// VoronoiDefault lets the backend choose its fastest exact one.
	VoronoiDefault VoronoiMethod = iota
	// BruteForce compares every pixel with every site.
	BruteForce
	// Grid looks at the sites in the cells of a grid around the pixel, ring by ring, until no farther cell can hold a
	// nearer one.
	Grid
	// JumpFlood lets pixels ask others about their sites, at distances that halve from step to step (Rong and Tan,
	// 2006), from one buffer into another. Some pixels get a site that is not their nearest. The steps are fixed, so
	// that all backends are wrong in the same places: the first distance is half of the least power of two that is not
	// below the longer side, and 1 at least, and a pixel takes the nearest of what it and its eight others had, of
	// several equally near ones the least index.
	JumpFlood
	// Banding finds the nearest site within each column and from those the nearest one along each row (Cao and others,
	// Parallel banding algorithm, 2010).
	Banding
)

var voronoiNames = [...]string{"DEFAULT", "BRUTE_FORCE", "GRID", "JUMP_FLOOD", "BANDING"}

func (m VoronoiMethod) String() string { return nameOf(voronoiNames[:], m) }

// NoSite is the label of pixels where there are no sites.
const NoSite = 1<<32 - 1

// Voronoi labels each pixel of an image with the index of its nearest site: least squared Euclidean distance from pixel
// to pixel, of several equally near ones the least index. Sites are pixels; two may be the same one.
//
// Labels receives Width*Height uint32 in row-major order. Scratch has at least Device.Scratch bytes. A site that
// is no pixel of the image fails the op.
//
// Complexity: Banding and JumpFlood grow with the pixels (JumpFlood with the logarithm of the longer side, too), Grid
// with the pixels and the unevenness of the sites, BruteForce with pixels times sites.
type Voronoi struct {
	Sites         Slice // of N Point
	N             int   // up to MaxPoints
	Width, Height int   // sides up to MaxSide, and MaxPixels in all
	Method        VoronoiMethod
	Labels        Slice
	Scratch       Slice
}

func (op *Voronoi) name() string { return "Voronoi" }

func (op *Voronoi) check() error {
	return cmp.Or(checkDiagram(op.name(), op.N, op.Width, op.Height),
		named(op.name(), "Method", op.Method, Banding, "method"))
}

func (op *Voronoi) operands(to []Operand) []Operand {
	return append(to,
		exact("Sites", &op.Sites, 8*int64(op.N), Read),
		exact("Labels", &op.Labels, 4*int64(op.Width)*int64(op.Height), Write),
		scratch("Scratch", &op.Scratch, BackendSized))
}
