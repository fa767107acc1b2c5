// The oracle as a driver: what cameras send.

package devicetest

import "github.com/polyscan/polyscan/kernels/driver"

func init() {
	oracle(hostDevelop)
}

func hostDevelop(op *driver.Develop) error {
	// Rows that the op isn't given are not looked at.
	s := Shot{Width: op.Src.Width, Height: op.Src.Height, Stride: op.Src.Stride, Coding: op.Src.Coding,
		Bytes: append(make([]byte, op.Src.First*op.Src.Stride), view(op.Src.Data)...)}
	p, beyond := s.Develop(op.Row0, op.Row0+op.Dst.Height)
	p.copyTo(pictureOf(op.Dst, view(op.Dst.Data)))
	if op.Beyond.Len > 0 {
		store(op.Beyond, beyond)
	}
	return nil
}
