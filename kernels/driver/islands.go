// The op that makes each cell of a Voronoi diagram one piece.

package driver

import "cmp"

// Islands takes the pixels of a Voronoi diagram away from sites that they can't be reached from, and gives them to
// others, so that [DualTriangles] finds no triangles that turn the wrong way.
//
// A pixel is reached where it is its site's own, or where one of its eight neighbours has the same label, is strictly
// nearer to the site, and is reached. All others lose their label, and get one back in rounds: in each, every pixel
// without one takes, of the sites of the labels that its eight neighbours had before the round, the one that is nearest
// to it, of several equally near ones the least index. Labels that are no index count as none. Only where no pixel is
// reached at all do they stay [NoSite].
//
// Diagrams that are exact have few such pixels: ends of cells that are thinner than a pixel, about 2 in a million. In
// those of JumpFlood there are pixels with a site that is not their nearest, too.
//
// Labels is changed in place; Count receives how many pixels lost their label, a uint32. Scratch has at least
// Device.Scratch bytes. The result does not depend on the backend. Time grows with the pixels, and with the
// islands.
//
// Source: Ke and Huang, Parallel Low Poly Style Image/Video Converter, and Zhang and Fan, Parallel Delaunay
// Triangulation, name the islands and leave them; Cao, Edelsbrunner and Tan (Triangulations from topologically correct
// digital Voronoi diagrams, 2015) have cells grow in steps from the site instead.
type Islands struct {
	Sites         Slice // of N Point, pixels of the image
	N             int   // up to MaxPoints
	Width, Height int   // sides up to MaxSide, and MaxPixels in all
	Labels        Slice // of Width*Height uint32, as Voronoi writes them
	Count         Slice // one uint32
	Scratch       Slice
}

func (op *Islands) name() string { return "Islands" }

func (op *Islands) check() error { return checkDiagram(op.name(), op.N, op.Width, op.Height) }

func (op *Islands) operands(to []Operand) []Operand {
	return append(to,
		exact("Sites", &op.Sites, 8*int64(op.N), Read),
		exact("Labels", &op.Labels, 4*int64(op.Width)*int64(op.Height), Read|Write),
		exact("Count", &op.Count, 4, Write),
		scratch("Scratch", &op.Scratch, BackendSized))
}

// checkDiagram checks the size of a Voronoi diagram of n sites.
func checkDiagram(op string, n, width, height int) error {
	return cmp.Or(between(op, "N", n, 0, MaxPoints), CheckSize(op, "", width, height))
}
