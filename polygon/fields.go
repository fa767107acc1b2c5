// Winding numbers and signed distances as images: on the host, in integers.

package polygon

import (
	"bytes"
	"encoding/binary"

	"github.com/polyscan/polyscan/kernels/driver"
)

const (
	// FieldZero stands for 0 in images of winding numbers and of distances, as it does where signed numbers of 16 bits
	// are saved as gray: 0 is -32768, and 65535 is 32767.
	FieldZero = 1 << 15
	// DistanceUnit is how much the pixels of an image of distances grow by for a pixel of distance.
	DistanceUnit = 32
)

// farAway is the distance, in pixels, from which on images of distances are saturated.
const farAway = FieldZero / DistanceUnit

// Windings makes a raster, of which it looks at the size alone, one of winding numbers: GRAY16LE with [FieldZero] plus
// the sum of the winding numbers of all regions, whatever their fill rules. Rings that turn clockwise on the screen
// have +1 inside; the pixels of masks and shapes count +1. What lies beyond 16 bits is saturated.
//
// It calls pause as [NewSetInPieces] does, whose error is the only one. Beside the image of 2 bytes a pixel it takes
// 4 bytes a pixel, and it takes O(pixels + crossings of edges and rows) time.
func (r *Raster) Windings(set *Set, pause func() error) error {
	w, h := r.Width, r.Height
	pace := pacer{pause: pause, left: setPiece}
	sums := make([]int32, w*h) // of each pixel, less that of the one before it in its row
	add := func(y, x0, x1 int, by int32) error {
		if x0, x1 = max(x0, 0), min(x1, w); y >= 0 && y < h && x0 < x1 {
			sums[y*w+x0] += by
			if x1 < w {
				sums[y*w+x1] -= by
			}
		}
		return pace.took(1)
	}
	for i := range set.regions {
		for _, u := range set.runsOf(i) {
			if err := add(int(u.Y), int(u.X0), int(u.X1), 1); err != nil {
				return err
			}
		}
		for _, e := range set.edgesOf(i) {
			from, to := edgeRows(e)
			from, to = max(from, 0), min(to, h)
			if err := pace.took(1); err != nil {
				return err
			}
			if from >= to {
				continue
			}
			for a := start(e, from, to); from < to; from++ {
				if err := add(from, 0, int(a.p), a.sign); err != nil {
					return err
				}
				a.down()
			}
		}
	}
	out := make([]byte, 2*w*h)
	for y := range h {
		sum := int32(0)
		for x, d := range sums[y*w:][:w] {
			sum += d
			binary.LittleEndian.PutUint16(out[2*(y*w+x):], uint16(min(max(sum, -FieldZero), FieldZero-1)+FieldZero))
		}
		if err := pace.took(w); err != nil {
			return err
		}
	}
	r.Format, r.Stride, r.Data = driver.Gray16(16), 2*w, [][]byte{out}
	return nil
}

// Distances makes a raster of a mask one of signed distances: GRAY16LE with [FieldZero] plus [DistanceUnit] times the
// distance between the centres of the pixel and of the nearest pixel of the image on the other side of the outline,
// rounded to nearest, positive inside and negative outside. Distances from 1,024 px on, and those of images that have
// but one side, are saturated.
//
// It calls pause as [NewSetInPieces] does, whose error is the only one. Beside the mask of 1 byte a pixel and the image
// of 2 it takes 12 bytes for each pixel of a row, and it takes O(pixels) time. The method is that of Meijster, Roerdink
// and Hesselink (2000): distances along columns, and then the lower envelope of parabolas along each row, in integers.
func (r *Raster) Distances(pause func() error) error {
	w, h, mask := r.Width, r.Height, r.Bytes()
	pace := pacer{pause: pause, left: setPiece}
	out := make([]byte, 2*w*h) // first the distances along columns to the next pixel on the other side
	along := func(y, beside int, known bool) error {
		for x := range w {
			i, k, d := y*w+x, beside*w+x, uint16(farAway)
			if known {
				d = binary.LittleEndian.Uint16(out[2*i:])
			}
			if mask[i] != mask[k] {
				d = 1
			} else if i != k {
				d = min(d, binary.LittleEndian.Uint16(out[2*k:])+1)
			}
			binary.LittleEndian.PutUint16(out[2*i:], d)
		}
		return pace.took(w)
	}
	for y := range h {
		if err := along(y, max(y-1, 0), false); err != nil {
			return err
		}
	}
	for y := h - 2; y >= 0; y-- {
		if err := along(y, y+1, true); err != nil {
			return err
		}
	}
	e := envelope{pace: &pace, column: make([]int32, w), of: make([]int32, w), from: make([]int32, w)}
	for y := range h {
		if err := e.row(mask[y*w:][:w], out[2*y*w:][:2*w]); err != nil {
			return err
		}
	}
	r.Format, r.Stride, r.Data = driver.Gray16(16), 2*w, [][]byte{out}
	return nil
}

// envelope finds the nearest pixels along rows.
type envelope struct {
	pace     *pacer
	column   []int32 // distances along columns
	of, from []int32 // the columns of those parabolas that are the lowest somewhere, and where that begins
}

// row puts the distances of a row of a mask in place of those along columns.
func (e *envelope) row(mask, out []byte) error {
	for x := range e.column {
		e.column[x] = int32(binary.LittleEndian.Uint16(out[2*x:]))
	}
	for _, side := range [...]byte{0, 255} {
		if bytes.IndexByte(mask, side) < 0 {
			continue
		}
		last, err := e.lowest(mask, side)
		if err != nil {
			return err
		}
		for x := len(mask) - 1; x >= 0; x-- {
			if x%setPiece == 0 {
				if err := e.pace.took(min(len(mask), setPiece)); err != nil {
					return err
				}
			}
			if mask[x] == side {
				v := farAway * DistanceUnit
				if last >= 0 {
					v = steps(e.squared(x, int(e.of[last]), mask, side))
				}
				if side == 0 {
					v = -v
				}
				binary.LittleEndian.PutUint16(out[2*x:], uint16(min(FieldZero+v, 2*FieldZero-1)))
			}
			if last >= 0 && x == int(e.from[last]) {
				last--
			}
		}
	}
	return nil
}

// lowest finds, for the pixels of a row that are on a side, the columns that the nearest pixel on the other side is in,
// and returns the last of those; -1 for none.
func (e *envelope) lowest(mask []byte, side byte) (last int, err error) {
	last = -1
	for x := range mask {
		if x%setPiece == 0 {
			if err := e.pace.took(min(len(mask), setPiece)); err != nil {
				return 0, err
			}
		}
		if mask[x] == side && e.column[x] == farAway {
			continue
		}
		for last >= 0 {
			at := int(e.from[last])
			if e.squared(at, int(e.of[last]), mask, side) <= e.squared(at, x, mask, side) {
				break
			}
			last--
		}
		from := 0
		if last >= 0 {
			// Behind this place the new one is lower: both squares are equal at it.
			i := int(e.of[last])
			from = 1 + int((e.squared(0, x, mask, side)-e.squared(0, i, mask, side))/(2*int64(x-i)))
		}
		if from < len(mask) {
			last++
			e.of[last], e.from[last] = int32(x), int32(from)
		}
	}
	return last, nil
}

// squared is that of the distance of the pixel in column x, which is on a side, to the nearest pixel of column i that
// is on the other.
func (e *envelope) squared(x, i int, mask []byte, side byte) int64 {
	d := int64(x - i)
	if mask[i] != side {
		return d * d
	}
	return d*d + int64(e.column[i])*int64(e.column[i])
}

// steps is the root of a squared distance, in steps of 1/[DistanceUnit] px, rounded to nearest and saturated.
func steps(squared int64) int {
	if squared >= farAway*farAway {
		return farAway * DistanceUnit
	}
	return int(isqrt(4*DistanceUnit*DistanceUnit*uint64(squared))+1) / 2
}
