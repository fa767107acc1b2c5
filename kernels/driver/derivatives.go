// The op of an image's derivatives.

package driver

// Derivatives computes the magnitude of an image's gradient and its Laplacian at each pixel, where pixels beyond the
// image have the value of the nearest one in it:
//
//	gx = (L(x+1, y-1) + 2 L(x+1, y) + L(x+1, y+1)) - (L(x-1, y-1) + 2 L(x-1, y) + L(x-1, y+1))
//	gy = (L(x-1, y+1) + 2 L(x, y+1) + L(x+1, y+1)) - (L(x-1, y-1) + 2 L(x, y-1) + L(x+1, y-1))
//	gradient = round(sqrt(gx² + gy²))
//	laplacian = L(x-1, y) + L(x+1, y) + L(x, y-1) + L(x, y+1) - 4 L(x, y) + 4<<bits
//
// L is the first channel, in all bits of its samples, or of formats with three channels or more the luma of BT.601,
// (299 R + 587 G + 114 B + 500) / 1000, rounded down. Alpha doesn't count. A sample beyond what its bits hold counts as
// the largest. Sobel's kernels add up 8 differences of neighbours, so a gradient of 8 is a slope of a level a pixel.
//
// Both results have as many bits as [DerivativeBits] says. Of samples of more than 13 bits the last ones are rounded off,
// half up; a Laplacian that this makes too large is the largest number of 16 bits.
//
// All of it is integers, the same on every backend. Time grows with the pixels. Source: Sobel and Feldman, A 3x3
// isotropic gradient operator for image processing, 1968; Pech-Pacheco et al., Diatom autofocusing in brightfield
// microscopy, 2000, for the Laplacian's variance as a measure of focus.
type Derivatives struct {
	Src Image
	// Gradient and Laplacian receive Width*Height uint16 each, in row-major order.
	Gradient, Laplacian Slice
}

// DerivativeBits is how many bits the derivatives of samples of so many bits have, and how many more were rounded off.
func DerivativeBits(bits int) (has, rounded int) {
	has = min(bits+3, 16)
	return has, bits + 3 - has
}

func (op *Derivatives) name() string { return "Derivatives" }

func (op *Derivatives) check() error { return op.Src.check(op.name(), "Src.") }

func (op *Derivatives) operands(to []Operand) []Operand {
	bytes := 2 * int64(op.Src.Width) * int64(op.Src.Height)
	return append(to,
		op.Src.operand("Src.Data", Read),
		exact("Gradient", &op.Gradient, bytes, Write),
		exact("Laplacian", &op.Laplacian, bytes, Write))
}
