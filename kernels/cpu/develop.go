// Develop: what cameras send, as pixels.

package cpu

import (
	"sync/atomic"

	"github.com/polyscan/polyscan/kernels/driver"
)

// developRows is how many rows a thread takes at a time: those of Bayer unpack up to four more.
const developRows = 32

func (d *device) develop(op *driver.Develop, stop *stopFlag) error {
	src, dst, raw, width := &op.Src, view(op.Dst.Data), view(op.Src.Data), op.Dst.Width
	rows := driver.RawRows{Coding: src.Coding, Width: width, Height: src.Height,
		Row: func(y int) []byte { return raw[(y-src.First)*src.Stride:][:src.Coding.RowBytes(width)] }}
	work := 2
	if src.Coding.Kind == driver.Bayer {
		work = 4
	}
	var beyond atomic.Uint32
	err := d.longPieces("Develop", (op.Dst.Height+developRows-1)/developRows, stop, func(i int, p *pace) bool {
		from, to := i*developRows, min((i+1)*developRows, op.Dst.Height)
		n, whole := rows.Develop(op.Row0+from, op.Row0+to,
			func(y int) []byte { return dst[(y-op.Row0)*op.Dst.Stride:][:width*op.Dst.Format.PixelBytes()] },
			func() bool { return !p.spend(width * work) })
		beyond.Add(n)
		return whole
	})
	if src.Coding.Checked() {
		viewAs[uint32](op.Beyond)[0] = beyond.Load()
	}
	return err
}
