package devicetest

import (
	"math/big"

	"github.com/polyscan/polyscan/kernels/driver"
)

func init() { oracle(hostDerivatives) }

// Derivatives is what [driver.Derivatives] asks for, by its definition.
func (p *Picture) Derivatives() (gradient, laplacian []uint16) {
	at := func(x, y int) int {
		x, y = min(max(x, 0), p.Width-1), min(max(y, 0), p.Height-1)
		if p.Format.Channels < 3 {
			return min(p.sample(x, y, 0), p.Format.Levels()-1)
		}
		return (299*p.sample(x, y, 0) + 587*p.sample(x, y, 1) + 114*p.sample(x, y, 2) + 500) / 1000
	}
	sobel := [3][3]int{{-1, 0, 1}, {-2, 0, 2}, {-1, 0, 1}}
	laplace := [3][3]int{{0, 1, 0}, {1, -4, 1}, {0, 1, 0}}
	bits := int(p.Format.Bits)
	divisor := 1
	for range max(bits+3-16, 0) {
		divisor *= 2
	}
	round := func(v int) uint16 { return uint16(min((2*v+divisor)/(2*divisor), 1<<16-1)) }
	for y := range p.Height {
		for x := range p.Width {
			gx, gy, l := 0, 0, 4*p.Format.Levels()
			for j := range 3 {
				for i := range 3 {
					v := at(x+i-1, y+j-1)
					gx, gy, l = gx+sobel[j][i]*v, gy+sobel[i][j]*v, l+laplace[j][i]*v
				}
			}
			// The rounded root of n is the half of the root of 4n, rounded down, and one if that is odd.
			root := int(new(big.Int).Sqrt(big.NewInt(4 * int64(gx*gx+gy*gy))).Int64())
			gradient = append(gradient, round((root+1)/2))
			laplacian = append(laplacian, round(l))
		}
	}
	return gradient, laplacian
}

func hostDerivatives(op *driver.Derivatives) error {
	gradient, laplacian := pictureOf(op.Src, view(op.Src.Data)).Derivatives()
	store(op.Gradient, gradient...)
	store(op.Laplacian, laplacian...)
	return nil
}
