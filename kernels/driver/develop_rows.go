// Develop on the host, row by row: for the CPU, and for pictures that no device has.

package driver

import (
	"encoding/binary"
	"sync"
	"unsafe"
)

// RawRows is a frame as a camera sends it, in host memory.
type RawRows struct {
	Coding        Coding
	Width, Height int
	// Row returns the bytes of a row.
	Row func(y int) []byte
}

// rawRows holds memory of calls, so that they allocate nothing in the steady state.
var rawRows = sync.Pool{New: func() any { return new([]uint16) }}

// Develop makes rows [from, to), as [Develop] says. out returns the pixels of a row, without a gap, of which those of
// 16 bits begin at an even address. more is called behind each row, and ends it where it returns false; whole says that
// it never did. beyond is how many samples of the rows are beyond what their bits hold.
func (r *RawRows) Develop(from, to int, out func(y int) []byte, more func() bool) (beyond uint32, whole bool) {
	switch c := r.Coding; c.Kind {
	case Bayer:
		return r.bayer(from, to, out, more)
	case Mono:
		for y := from; y < to; y++ {
			unpackSamples(unsafe.Slice((*uint16)(unsafe.Pointer(&out(y)[0])), r.Width), r.Row(y), c)
			if !more() {
				return 0, false
			}
		}
	default:
		luma, chroma := 1, 0
		if c.Kind == YUYV {
			luma, chroma = 0, 1
		}
		for y := from; y < to; y++ {
			yuvRow(out(y), r.Row(y), luma, chroma)
			if !more() {
				return 0, false
			}
		}
	}
	return 0, true
}

// unpackSamples writes the samples of a row.
func unpackSamples(dst []uint16, src []byte, c Coding) {
	switch {
	case c.Packed && c.Bits == 12:
		n := len(dst) &^ 1
		for x, k := 0, 0; x < n; x, k = x+2, k+3 {
			s, d := src[k:k+3:k+3], dst[x:x+2:x+2]
			d[0], d[1] = uint16(s[0])|uint16(s[1]&15)<<8, uint16(s[1])>>4|uint16(s[2])<<4
		}
		if n < len(dst) {
			s := src[n/2*3:]
			dst[n] = uint16(s[0]) | uint16(s[1]&15)<<8
		}
	case c.Packed:
		x, k := 0, 0
		for ; x+4 <= len(dst) && k+8 <= len(src); x, k = x+4, k+5 {
			s, d := binary.LittleEndian.Uint64(src[k:]), dst[x:x+4:x+4]
			d[0], d[1], d[2], d[3] = uint16(s&1023), uint16(s>>10&1023), uint16(s>>20&1023), uint16(s>>30&1023)
		}
		for ; x < len(dst); x++ {
			k = x * 10 / 8
			dst[x] = (uint16(src[k]) | uint16(src[k+1])<<8) >> (x * 10 % 8) & 1023
		}
	case c.Bits > 8:
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&dst[0])), 2*len(dst)), src)
	default:
		for x, s := range src[:len(dst)] {
			dst[x] = uint16(s)
		}
	}
}

// yuvRow writes a row; luma and chroma are the places of the first Y and of U.
func yuvRow(dst, src []byte, luma, chroma int) {
	for ; len(src) >= 4 && len(dst) >= 6; src, dst = src[4:], dst[6:] {
		s, d := src[:4:4], dst[:6:6]
		u, v := int32(s[chroma])-128, int32(s[chroma+2])-128
		r, g, b := 91881*v, -22554*u-46802*v, 116130*u
		for i, y := range [2]int32{int32(s[luma]) * 65793, int32(s[luma+2]) * 65793} {
			pr, pg, pb := (y+r)>>16, (y+g)>>16, (y+b)>>16
			if uint32(pr|pg|pb) > 255 {
				pr, pg, pb = min(max(pr, 0), 255), min(max(pg, 0), 255), min(max(pb, 0), 255)
			}
			d[3*i], d[3*i+1], d[3*i+2] = byte(pr), byte(pg), byte(pb)
		}
	}
}

// sideColumns is how many columns on either side of a row its pixels may depend on.
const sideColumns = 2

// mirror is where row or column i of n lies: those beyond either end are mirrored at it.
func mirror(i, n int) int {
	period := 2 * (n - 1)
	if i %= period; i < 0 {
		i += period
	}
	return min(i, period-i)
}

// bayer keeps the rows that a row depends on, as samples, and makes one after the other.
func (r *RawRows) bayer(from, to int, out func(int) []byte, more func() bool) (beyond uint32, whole bool) {
	const held = 5 // rows
	c, width := r.Coding, r.Width
	w := width + 2*sideColumns
	memory := rawRows.Get().(*[]uint16)
	defer rawRows.Put(memory)
	if len(*memory) < held*w {
		*memory = make([]uint16, held*w)
	}
	row := func(y int) []uint16 { return (*memory)[(y+held)%held*w:][:w] } // from -2 on
	margin, largest := c.Margin(), uint16(1<<c.Bits-1)
	fill := func(y int) {
		to16 := row(y)
		in := to16[sideColumns : sideColumns+width]
		unpackSamples(in, r.Row(mirror(y, r.Height)), c)
		if c.Checked() {
			n := uint32(0)
			for x, s := range in {
				if s > largest {
					in[x] = largest
					n++
				}
			}
			if y >= from && y < to {
				beyond += n
			}
		}
		for x := 1; x <= sideColumns; x++ {
			to16[sideColumns-x], to16[sideColumns+width-1+x] = in[mirror(-x, width)], in[mirror(width-1+x, width)]
		}
	}
	for y := from - margin; y < from+margin; y++ {
		fill(y)
	}
	for y := from; y < to; y++ {
		fill(y + margin)
		// The row's colour beside green, at every other pixel from the first or the second on, and the other one.
		first, own, other := int(c.Phase&1), 0, 2
		if (y^int(c.Phase>>1))&1 != 0 {
			first, own, other = 1-first, 2, 0
		}
		if dst := out(y); c.Demosaic == MalvarHeCutler {
			malvarRow(dst, [5][]uint16{row(y - 2), row(y - 1), row(y), row(y + 1), row(y + 2)}, first, own, other,
				c.Bits)
		} else {
			bilinearRow(dst, row(y-1), row(y), row(y+1), first, own, other, c.Bits)
		}
		if !more() {
			return beyond, false
		}
	}
	return beyond, true
}

// bilinearRow writes a row of RGB8. Rows of samples have sideColumns more on either side. The samples at first, and at
// every other place behind, are of the colour own, and others are green.
func bilinearRow(dst []byte, above, here, below []uint16, first, own, other int, bits uint8) {
	shift := bits - 6
	half := int32(1) << shift >> 1
	n := len(dst) / 3
	above, here, below = above[sideColumns-1:][:n+2], here[sideColumns-1:][:n+2], below[sideColumns-1:][:n+2]
	colored := func(x int) {
		d := dst[3*x : 3*x+3 : 3*x+3]
		green := int32(above[x+1]) + int32(here[x]) + int32(here[x+2]) + int32(below[x+1])
		third := int32(above[x]) + int32(above[x+2]) + int32(below[x]) + int32(below[x+2])
		d[own], d[1] = byte(min((4*int32(here[x+1])+half)>>shift, 255)), byte(min((green+half)>>shift, 255))
		d[other] = byte(min((third+half)>>shift, 255))
	}
	greens := func(x int) {
		d := dst[3*x : 3*x+3 : 3*x+3]
		d[own] = byte(min((2*(int32(here[x])+int32(here[x+2]))+half)>>shift, 255))
		d[1] = byte(min((4*int32(here[x+1])+half)>>shift, 255))
		d[other] = byte(min((2*(int32(above[x+1])+int32(below[x+1]))+half)>>shift, 255))
	}
	if first == 1 {
		greens(0)
	}
	x := first
	for ; x+1 < n; x += 2 {
		colored(x)
		greens(x + 1)
	}
	if x < n {
		colored(x)
	}
}

// malvarRow is bilinearRow after Malvar, He and Cutler; rows[2] is the row itself.
func malvarRow(dst []byte, rows [5][]uint16, first, own, other int, bits uint8) {
	shift := bits - 4
	half := int32(1) << shift >> 1
	n := len(dst) / 3
	for i := range rows {
		rows[i] = rows[i][:n+2*sideColumns]
	}
	put := func(v int32) byte { return byte(min(max((v+half)>>shift, 0), 255)) }
	for x := range n {
		at := func(dx, dy int) int32 { return int32(rows[2+dy][x+sideColumns+dx]) }
		d := dst[3*x : 3*x+3 : 3*x+3]
		s := at(0, 0)
		across, along := at(0, -2)+at(0, 2), at(-2, 0)+at(2, 0)
		diagonal := at(-1, -1) + at(1, -1) + at(-1, 1) + at(1, 1)
		sides, ends := at(-1, 0)+at(1, 0), at(0, -1)+at(0, 1)
		if (x^first)&1 == 0 {
			d[own] = put(16 * s)
			d[1] = put(8*s + 4*(sides+ends) - 2*(across+along))
			d[other] = put(12*s + 4*diagonal - 3*(across+along))
			continue
		}
		d[own] = put(10*s + 8*sides - 2*(diagonal+along) + across)
		d[1] = put(16 * s)
		d[other] = put(10*s + 8*ends - 2*(diagonal+across) + along)
	}
}

// Sketch is about what colours a pixel has, of 8 bits, for pictures that leave most pixels out: of Bayer those of the
// 2 x 2 pixels from there on, or at the end. Gray is in all three. read returns byte i of a row.
func (r *RawRows) Sketch(x, y int, read func(y, i int) byte) [3]byte {
	sample := func(x, y int) int {
		switch b := int(r.Coding.Bits); {
		case r.Coding.Packed:
			return (int(read(y, x*b/8)) | int(read(y, x*b/8+1))<<8) >> (x * b % 8) & (1<<b - 1) >> (b - 8)
		case b > 8:
			return min((int(read(y, 2*x))|int(read(y, 2*x+1))<<8)>>(b-8), 255)
		}
		return int(read(y, x))
	}
	switch r.Coding.Kind {
	case Mono:
		v := byte(sample(x, y))
		return [3]byte{v, v, v}
	case Bayer:
		x, y = min(x, r.Width-2), min(y, r.Height-2)
		sum := [3]int{}
		for i := range 4 {
			px, py := x+i&1, y+i>>1
			k := 1 // green, unless both or neither are where red is
			if at := (px ^ int(r.Coding.Phase)) & 1; at == (py^int(r.Coding.Phase>>1))&1 {
				k = 2 * at
			}
			sum[k] += sample(px, py)
		}
		return [3]byte{byte(sum[0]), byte((sum[1] + 1) / 2), byte(sum[2])}
	}
	luma, chroma, at := 1, 0, x&^1*2
	if r.Coding.Kind == YUYV {
		luma, chroma = 0, 1
	}
	var pair [6]byte
	yuvRow(pair[:], []byte{read(y, at), read(y, at+1), read(y, at+2), read(y, at+3)}, luma, chroma)
	return [3]byte(pair[x&1*3:])
}
