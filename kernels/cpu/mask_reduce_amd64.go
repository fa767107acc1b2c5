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

// The spans have at most chunkBytes pixels in all, which are beside each other at p.
//
//go:noescape
func moments8SpansAVX512(p *byte, spans *span, n int) (sumX, sumY, sumVX, sumVY uint64)

// n at most chunkBytes/2; reads up to 15 bytes past the end.
//
//go:noescape
func moments16AVX2(p *byte, n int) (sum, first uint64)

// Reads up to 31 bytes past the end.
//
//go:noescape
func index16AVX2(p *byte, n int, v uint64) int

//go:noescape
func hist8AVX2(p *byte, n int, hist *[256]uint32, scratch *[hist8Scratch]byte)

// hist has mask+1 elements, a power of two.
//
//go:noescape
func hist16AVX2(p *byte, n int, hist *uint32, mask uint64)

// n > 0; least and most are those of the pixels; writes up to 512 bytes past the end.
//
//go:noescape
func hist8AVX512(p *byte, n int, least, most uint64, hist *[256]uint32, scratch *[hist8Scratch]byte)

// Writes up to 31 bytes past dst[room], and reads as many past a span.
//
//go:noescape
func packAVX2(dst *byte, room int, frame *byte, where *geometry, spans *span, n int) (taken, bytes int)

// Writes up to 63 bytes past dst[room].
//
//go:noescape
func packAVX512(dst *byte, room int, frame *byte, where *geometry, spans *span, n int) (taken, bytes int)

// Writes up to 63 bytes past dst[room].
//
//go:noescape
func gather8AVX512(dst *byte, room int, frame *byte, where *geometry, spans *span, n int) (taken, bytes int, sum, sumSq,
	least, most uint64)

// n > 0; read and write whole steps of 32 pixels, so up to 31 pixels past the end.
//
//go:noescape
func split2AVX2(a, b, src *byte, n int)

//go:noescape
func split3AVX2(a, b, c, src *byte, n int)

//go:noescape
func split4AVX2(a, b, c, d, src *byte, n int)

// wideReads is how far beyond a span pack may read.
func wideReads() int {
	if simd == levelAVX2 {
		return 31
	}
	return 0
}

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

// gather8 is pack and sums8 in one pass, for spans of one byte a pixel.
func gather8(dst *chunk, room int, frame []byte, g *geometry, spans []span) (taken, bytes int, s sums) {
	if simd < levelAVX512 || len(spans) == 0 || len(frame) == 0 || uint(room) > chunkBytes {
		taken, bytes = pack(dst, room, frame, g, spans)
		return taken, bytes, sums8(dst, 0, bytes)
	}
	taken, bytes, s.sum, s.sumSq, s.least, s.most = gather8AVX512(&dst[0], room, &frame[0], g, &spans[0], len(spans))
	return taken, bytes, s
}

func sums8(c *chunk, from, n int) (s sums) {
	p := c[:chunkBytes][from : from+n]
	switch {
	case n == 0:
		return noSums
	case simd >= levelAVX512:
		s.sum, s.sumSq, s.least, s.most = sums8AVX512(&p[0], n)
	case simd == levelAVX2:
		s.sum, s.sumSq, s.least, s.most = sums8AVX2(&p[0], n)
	default:
		s = sums8Go(p)
	}
	return s
}

func sums16(c *chunk, n int) (s sums) {
	p := c[:2*min(n, chunkBytes/2)]
	if simd >= levelAVX2 {
		s.sum, s.sumSq, s.least, s.most = sums16AVX2(&c[0], len(p)/2)
		return s
	}
	return sums16Go(p)
}

func moments8Spans(c *chunk, spans []span) (m moments) {
	switch {
	case len(spans) == 0:
		return m
	case simd >= levelAVX512:
		m.x, m.y, m.vx, m.vy = moments8SpansAVX512(&c[0], &spans[0], len(spans))
		return m
	case simd == levelGo:
		return moments8SpansGo(c, spans)
	}
	at := 0
	for _, s := range spans {
		n := int(s.X1 - s.X0)
		sum, first := moments8(c, at, n)
		m.add(s.Y, s.X0, n, sum, first)
		at += n
	}
	return m
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

func index16(c *chunk, n int, v uint64) int {
	p := c[:2*min(n, chunkBytes/2)]
	if simd >= levelAVX2 {
		return index16AVX2(&c[0], len(p)/2, v)
	}
	return index16Go(p, uint16(v))
}

// hist8 may change the bytes after the first n. least and most are those of the pixels.
func hist8(c *chunk, n int, least, most uint64, hist *[256]uint32, scratch *[hist8Scratch]byte) {
	p := c[:min(n, chunkBytes)]
	switch {
	// With fewer pixels, filling up a group of 512 costs more than counting, and so do the tables.
	case simd >= levelAVX512 && n >= 256:
		hist8AVX512(&c[0], len(p), least, most, hist, scratch)
	case simd == levelAVX2 && n >= 512:
		hist8AVX2(&c[0], len(p), hist, scratch)
	default:
		hist8Go(p, hist)
	}
}

// hist16 needs a power of two of bins.
func hist16(c *chunk, n int, hist []uint32) {
	p := c[:2*min(n, chunkBytes/2)]
	if levels := len(hist); simd >= levelAVX2 && levels > 0 && levels&(levels-1) == 0 {
		hist16AVX2(&c[0], len(p)/2, &hist[0], uint64(levels-1))
		return
	}
	hist16Go(p, hist)
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
