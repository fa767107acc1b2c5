//go:build !purego

package cpu

// Contracts of the assembly. Lengths n are in pixels of the input. Callers see to it that n is within the bounds and
// that input and output have the padding stated; the functions in mask_reduce_kernels.go do.

// n at most chunkBytes; reads up to 31 bytes past the end (not the AVX-512 form).
//
//go:noescape
func sums8AVX2(p *byte, n int) (sum, sumSq, least, most uint64)

//go:noescape
func sums8AVX512(p *byte, n int) (sum, sumSq, least, most uint64)

// n at most chunkBytes/2; reads up to 31 bytes past the end.
//
//go:noescape
func sums16AVX2(p *byte, n int) (sum, sumSq, least, most uint64)

// n at most chunkBytes; reads up to 31 bytes past the end.
//
//go:noescape
func moments8AVX2(p *byte, n int) (sum, first uint64)

// n at most chunkBytes/2; reads up to 15 bytes past the end.
//
//go:noescape
func moments16AVX2(p *byte, n int) (sum, first uint64)

// Reads up to 31 bytes past the end.
//
//go:noescape
func index16AVX2(p *byte, n int, v uint64) int

// n > 0; least and most are those of the pixels; writes up to 512 bytes past the end.
//
//go:noescape
func hist8AVX512(p *byte, n int, least, most uint64, hist *[256]uint32, scratch *[hist8Scratch]byte)

// Writes up to 31 bytes past dst[room].
//
//go:noescape
func packAVX2(dst *byte, room int, frame *byte, where *geometry, spans *span, n int) (taken, bytes int)

// Writes up to 63 bytes past dst[room].
//
//go:noescape
func packAVX512(dst *byte, room int, frame *byte, where *geometry, spans *span, n int) (taken, bytes int)

// n > 0; read and write whole steps of 32 pixels, so up to 31 pixels past the end.
//
//go:noescape
func split2AVX2(a, b, src *byte, n int)

//go:noescape
func split3AVX2(a, b, c, src *byte, n int)

//go:noescape
func split4AVX2(a, b, c, d, src *byte, n int)

func pack(dst *chunk, room int, frame []byte, g *geometry, spans []span) (taken, bytes int) {
	if len(spans) == 0 || len(frame) == 0 || uint(room) > chunkBytes {
		return 0, 0
	}
	switch simd {
	case levelAVX512:
		return packAVX512(&dst[0], room, &frame[0], g, &spans[0], len(spans))
	case levelAVX2:
		return packAVX2(&dst[0], room, &frame[0], g, &spans[0], len(spans))
	}
	return packGo(dst, room, frame, g, spans)
}

func sums8(c *chunk, n int) (sum, sumSq uint64, least, most uint8) {
	p := c[:min(n, chunkBytes)]
	var l, m uint64
	switch simd {
	case levelAVX512:
		sum, sumSq, l, m = sums8AVX512(&c[0], len(p))
		return sum, sumSq, uint8(l), uint8(m)
	case levelAVX2:
		sum, sumSq, l, m = sums8AVX2(&c[0], len(p))
		return sum, sumSq, uint8(l), uint8(m)
	}
	return sums8Go(p)
}

func sums16(c *chunk, n int) (sum, sumSq uint64, least, most uint16) {
	p := c[:2*min(n, chunkBytes/2)]
	if simd >= levelAVX2 {
		sum, sumSq, l, m := sums16AVX2(&c[0], len(p)/2)
		return sum, sumSq, uint16(l), uint16(m)
	}
	return sums16Go(p)
}

func moments8(c *chunk, from, n int) (sum, first uint64) {
	p := c[:chunkBytes][from : from+n]
	if simd >= levelAVX2 && n > 0 {
		return moments8AVX2(&p[0], n)
	}
	return moments8Go(p)
}

func moments16(c *chunk, from, n int) (sum, first uint64) {
	p := c[:chunkBytes][2*from : 2*(from+n)]
	if simd >= levelAVX2 && n > 0 {
		return moments16AVX2(&p[0], n)
	}
	return moments16Go(p)
}

func index16(c *chunk, n int, v uint16) int {
	p := c[:2*min(n, chunkBytes/2)]
	if simd >= levelAVX2 {
		return index16AVX2(&c[0], len(p)/2, uint64(v))
	}
	return index16Go(p, v)
}

// hist8 may change the bytes after the first n. least and most are those of the pixels.
func hist8(c *chunk, n int, least, most uint8, hist *[256]uint32, scratch *[hist8Scratch]byte) {
	p := c[:min(n, chunkBytes)]
	// Below, filling up a group of 512 costs more than counting.
	if simd >= levelAVX512 && n >= 256 {
		hist8AVX512(&c[0], len(p), uint64(least), uint64(most), hist, scratch)
		return
	}
	hist8Go(p, hist)
}

func split(planes *[4]chunk, src *chunk, pixel, n int) {
	if n = min(n, chunkBytes/pixel); simd >= levelAVX2 && n > 0 {
		switch pixel {
		case 2:
			split2AVX2(&planes[0][0], &planes[1][0], &src[0], n)
			return
		case 3:
			split3AVX2(&planes[0][0], &planes[1][0], &planes[2][0], &src[0], n)
			return
		case 4:
			split4AVX2(&planes[0][0], &planes[1][0], &planes[2][0], &planes[3][0], &src[0], n)
			return
		}
	}
	splitGo(planes, src, pixel, n)
}
