// Colours: samples that MaskReduce derives from red, green and blue; driver.Colors defines them.

package cpu

import (
	"bytes"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

// colorScratch holds derived samples of a chunk: of 16 bits for the sums, and the bins of their histograms.
type colorScratch struct {
	planes [3]chunk
	bins   chunk
}

// reciprocals[d] is 2^32 / (2 d), rounded up: the high half of its product with n is n / (2 d) for all n below 2^23.
var reciprocals = func() (r [256]uint64) {
	for d := uint64(1); d < 256; d++ {
		r[d] = (1<<32 + 2*d - 1) / (2 * d)
	}
	return r
}()

// colors adds the derived channels of n pixels, whose samples are in planes.
func (r *reduction) colors(s *reduceScratch, a *accumulator, pixels packedPixels) {
	n, order := pixels.n, r.Frame.Format.Order
	red, green, blue := s.planes[order[0]][:n], s.planes[order[1]][:n], s.planes[order[2]][:n]
	if s.color == nil {
		s.color = new(colorScratch)
	}
	at := int(r.Frame.Format.Channels)
	one := func(convert func(to, r, g, b []byte)) {
		convert(s.color.planes[0][:n], red, green, blue)
		pixels.plane = &s.color.planes[0]
		r.chunk(s, a, at, pixels, sums8(pixels.plane, 0, n))
		at++
	}
	three := func(convert func(x, y, z, r, g, b []byte)) {
		p := &s.color.planes
		convert(p[0][:2*n], p[1][:2*n], p[2][:2*n], red, green, blue)
		for c := range p {
			pixels.plane, pixels.wide, pixels.shift = &p[c], true, r.shifts[at]
			r.chunk(s, a, at, pixels, sums16(pixels.plane, n))
			at++
		}
		pixels.wide, pixels.shift = false, 0
	}
	if r.Colors.Spaces&driver.ColorGray != 0 {
		one(gray601)
	}
	if r.Colors.Spaces&driver.ColorGray709 != 0 {
		one(gray709)
	}
	if r.Colors.Spaces&driver.ColorHSV != 0 {
		three(hsv)
	}
	if r.Colors.Spaces&driver.ColorLab != 0 {
		three(lab)
	}
	if r.Colors.Spaces&driver.ColorMatrix != 0 {
		three(r.matrix)
	}
}

// bins16Go finds the bins of samples of 16 bits.
func bins16Go(to, from *chunk, n int, shift uint8) {
	half := uint32(1) << shift / 2
	bins, samples := to[:n], wordsOf(from[:2*n])[:n]
	for i := range bins {
		bins[i] = uint8((uint32(samples[i]) + half) >> (shift & 15))
	}
}

func gray601(to, r, g, b []byte) {
	r, g, b = r[:len(to)], g[:len(to)], b[:len(to)]
	for i := range to {
		to[i] = uint8((299*uint32(r[i]) + 587*uint32(g[i]) + 114*uint32(b[i]) + 500) / 1000)
	}
}

func gray709(to, r, g, b []byte) {
	r, g, b = r[:len(to)], g[:len(to)], b[:len(to)]
	for i := range to {
		to[i] = uint8((2126*uint32(r[i]) + 7152*uint32(g[i]) + 722*uint32(b[i]) + 5000) / 10000)
	}
}

func hsv(h, s, v, r, g, b []byte) {
	n := len(r)
	g, b = g[:n], b[:n]
	toH, toS, toV := wordsOf(h)[:n], wordsOf(s)[:n], wordsOf(v)[:n]
	for i := range r {
		red, green, blue := int64(r[i]), int64(g[i]), int64(b[i])
		most, least := max(red, green, blue), min(red, green, blue)
		d := most - least
		x, k := green-blue, int64(240)
		if most != red {
			if x, k = blue-red, 80; most != green {
				x, k = red-green, 160
			}
		}
		hue := uint64(2*(40*x+k*d)+d) * reciprocals[uint8(d)] >> 32
		if hue >= 240 {
			hue -= 240
		}
		if d == 0 {
			hue = driver.NoHue
		}
		toH[i] = uint16(hue)
		toS[i] = uint16(uint64(25600*d+most) * reciprocals[uint8(most)] >> 32)
		toV[i] = uint16((25600*uint32(most) + 255) / 510)
	}
}

// rootTable is colorRoots with room for every index of 12 bits, so that none has to be checked.
var rootTable = func() *[1 << 12]uint32 {
	t := new([1 << 12]uint32)
	copy(t[:], colorRoots[:])
	return t
}()

func cubicRoot(t uint32) uint32 {
	e := rootTable[t>>9&0xfff]
	return e>>15 + (t&511*(e&0x7fff)+16384)>>15
}

// labGo is lab, which may read and write up to 31 pixels behind the last where the slices have room for them.
func labGo(l, a, bb, r, g, b []byte) {
	n := len(r)
	g, b = g[:n], b[:n]
	toL, toA, toB := wordsOf(l)[:n], wordsOf(a)[:n], wordsOf(bb)[:n]
	const field = 1<<21 - 1
	for i := range r {
		t := colorParts[0][r[i]] + colorParts[1][g[i]] + colorParts[2][b[i]]
		fx, fy, fz := cubicRoot(uint32(t)&field), cubicRoot(uint32(t>>21)&field), cubicRoot(uint32(t>>42))
		toL[i] = uint16((29*fy+62)/125 - 4096)
		toA[i] = uint16(32768 + fx - fy)
		toB[i] = uint16((2*fy + 163842 - 2*fz) / 5)
	}
}

// wordsOf are the samples of 16 bits that lie in a plane, which begins at an even address.
func wordsOf(plane []byte) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(plane))), len(plane)/2)
}

func (r *reduction) matrix(x, y, z, red, green, blue []byte) {
	green, blue = green[:len(red)], blue[:len(red)]
	for k, plane := range [...][]byte{x, y, z} {
		row, to := r.Colors.Matrix[k], wordsOf(plane)[:len(red)]
		for i := range red {
			// Sums of some of the terms lie within the bounds of all of them.
			v := row.Offset + row.C[0]*int32(red[i]) + row.C[1]*int32(green[i]) + row.C[2]*int32(blue[i])
			to[i] = uint16(v >> 14)
		}
	}
}

// indexOf is the first of n samples that has the value, which is there.
func indexOf(plane *chunk, n int, value uint64, wide bool) int {
	if wide {
		return index16(plane, n, value)
	}
	return bytes.IndexByte(plane[:n], byte(value))
}
