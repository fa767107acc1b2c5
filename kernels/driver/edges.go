// The op of edge detection.

package driver

// MaxEdge is the largest value that [Edges] writes.
const MaxEdge = 4*255 + 4*255

// Edges computes the magnitude of the gradient of an image's luminance at each pixel, |gx| + |gy| after Sobel, where
// pixels beyond the image have the value of the nearest one in it:
//
//	gx = (L(x+1, y-1) + 2 L(x+1, y) + L(x+1, y+1)) - (L(x-1, y-1) + 2 L(x-1, y) + L(x-1, y+1))
//	gy = (L(x-1, y+1) + 2 L(x, y+1) + L(x+1, y+1)) - (L(x-1, y-1) + 2 L(x, y-1) + L(x+1, y-1))
//
// The luminance of a pixel, 0 to 255, is (77 R + 150 G + 29 B + 128) / 256, rounded down, or its first channel where it
// has fewer than three. Alpha doesn't count. Of samples of more than 8 bits it is the high 8; a sample beyond what its
// bits hold counts as the largest.
//
// All of it is integers, the same on every backend. Time grows with the pixels. Source: Ke and Huang, Parallel Low Poly
// Style Image/Video Converter; Yang, Low poly in CUDA, 2018.
type Edges struct {
	Src Image
	// Dst receives Width*Height uint16, 0 to MaxEdge, in row-major order.
	Dst Slice
}

func (op *Edges) name() string { return "Edges" }

func (op *Edges) check() error { return op.Src.check(op.name(), "Src.") }

func (op *Edges) operands(to []Operand) []Operand {
	return append(to,
		op.Src.operand("Src.Data", Read),
		exact("Dst", &op.Dst, 2*int64(op.Src.Width)*int64(op.Src.Height), Write))
}
