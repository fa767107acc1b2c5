//go:build !purego

package cpu

// n > 0; reads and writes whole steps of 32 pixels.
//
//go:noescape
func labAVX2(l, a, bb, red, green, blue *byte, n int)

// n > 0; reads and writes whole steps of 32 samples. A sample and half are below 2^16 together.
//
//go:noescape
func bins16AVX2(to, from *byte, n int, half, shift uint64)

func lab(l, a, bb, r, g, b []byte) {
	n := len(r)
	if room := (n + 31) &^ 31; simd >= levelAVX2 && n > 0 && min(cap(r), cap(g), cap(b)) >= room &&
		min(cap(l), cap(a), cap(bb)) >= 2*room {
		labAVX2(&l[0], &a[0], &bb[0], &r[0], &g[0], &b[0], n)
		return
	}
	labGo(l, a, bb, r, g, b)
}

func bins16(to, from *chunk, n int, shift uint8) {
	if n = min(n, chunkBytes/2); simd >= levelAVX2 && n > 0 {
		bins16AVX2(&to[0], &from[0], n, 1<<shift/2, uint64(shift))
		return
	}
	bins16Go(to, from, n, shift)
}
