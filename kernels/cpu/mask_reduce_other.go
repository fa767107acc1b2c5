//go:build purego || !amd64

package cpu

func pack(dst *chunk, room int, frame []byte, g *geometry, spans []span) (taken, bytes int) {
	return packGo(dst, room, frame, g, spans)
}

func wideReads() int { return 0 }

func gather8(dst *chunk, room int, frame []byte, g *geometry, spans []span) (taken, bytes int, s sums) {
	taken, bytes = packGo(dst, room, frame, g, spans)
	return taken, bytes, sums8Go(dst[:bytes])
}

func sums8(c *chunk, from, n int) sums { return sums8Go(c[from : from+n]) }

func sums16(c *chunk, n int) sums { return sums16Go(c[:2*n]) }

func moments8Spans(c *chunk, spans []span) moments { return moments8SpansGo(c, spans) }

func moments8(c *chunk, from, n int) (sum, first uint64) { return moments8Go(c[from : from+n]) }

func moments16(c *chunk, from, n int) (sum, first uint64) {
	return moments16Go(c[2*from : 2*(from+n)])
}

func index16(c *chunk, n int, v uint64) int { return index16Go(c[:2*n], uint16(v)) }

func hist8(c *chunk, n int, _, _ uint64, hist *[256]uint32, _ *[hist8Scratch]byte) {
	hist8Go(c[:n], hist)
}

func hist16(c *chunk, n int, hist []uint32) { hist16Go(c[:2*n], hist) }

func split(planes *[4]chunk, src *chunk, pixel, n int) { splitGo(planes, src, pixel, n) }
