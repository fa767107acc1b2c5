// The inner loops of MaskReduce in Go, over a chunk of pixels that lie beside each other. These are the twins of the
// assembly; they are used where there is none, and say what it computes.

package cpu

import (
	"encoding/binary"
	"math"
	"math/bits"
)

const (
	// chunkBytes is how many bytes of pixels are packed at a time. A chunk, its planes and the scratch of hist8 stay
	// within the caches of first and second level. Measured on Zen 5: with 8 and 32 KiB sums take 5 and 20 % more time,
	// histograms 3 and 6 %.
	chunkBytes = 16 << 10
	// chunkPad is how many bytes after a chunk kernels may read and write.
	chunkPad = 512
	// hist8Scratch is the memory that hist8 works in.
	hist8Scratch = 16 << 10
)

// chunk is pixels that lie beside each other, with room for what kernels do past their end.
type chunk [chunkBytes + chunkPad]byte

// geometry says where the pixels of spans are. Known to the assembly by name.
type geometry struct {
	row0   int // row of the image that is the first of the frame
	height int // rows of the frame
	width  int
	stride int
	pixel  int // bytes of a pixel
	safe   int // length of the frame, less what wide reads need
}

// pixels returns the bytes of a span, or nil where it is not within the frame up to safe.
func (g *geometry) pixels(frame []byte, s span) []byte {
	y := int(s.Y) - g.row0
	if y < 0 || y >= g.height || int(s.X1) > g.width || s.X0 < 0 || s.X0 >= s.X1 {
		return nil
	}
	row := y * g.stride
	from, to := row+int(s.X0)*g.pixel, row+int(s.X1)*g.pixel
	if to > g.safe {
		return nil
	}
	return frame[from:to:to]
}

// pack copies the pixels of spans to dst, one after the other, as long as they fit in room bytes. It stops at a span
// that does not fit, that is not within the frame, or that is too close to the frame's end for wide loads.
func packGo(dst *chunk, room int, frame []byte, g *geometry, spans []span) (taken, bytes int) {
	for _, s := range spans {
		p := g.pixels(frame, s)
		if p == nil || bytes+len(p) > room {
			break
		}
		bytes += copy(dst[bytes:], p)
		taken++
	}
	return taken, bytes
}

// sums are of the samples v of some pixels.
type sums struct {
	sum, sumSq  uint64
	least, most uint64 // of v; least > most where there are no pixels
}

var noSums = sums{least: math.MaxUint64}

func (s *sums) add(o sums) {
	s.sum += o.sum
	s.sumSq += o.sumSq
	s.least = min(s.least, o.least)
	s.most = max(s.most, o.most)
}

// sums8 adds up bytes.
func sums8Go(p []byte) sums {
	s := noSums
	if len(p) < 512 {
		for _, b := range p {
			v := uint64(b)
			s.sum += v
			s.sumSq += v * v
			s.least = min(s.least, v)
			s.most = max(s.most, v)
		}
		return s
	}
	// Counting first is four times as fast: comparisons take longer than counts.
	var hist [256]uint32
	hist8Go(p, &hist)
	for v, n := range hist {
		if n == 0 {
			continue
		}
		v, n := uint64(v), uint64(n)
		s.sum += n * v
		s.sumSq += n * v * v
		s.least = min(s.least, v)
		s.most = v
	}
	return s
}

// sums16 adds up little-endian 16-bit samples.
func sums16Go(p []byte) sums {
	s, t := noSums, noSums // two, so that a step does not wait for the one before
	for ; len(p) >= 4; p = p[4:] {
		x := binary.LittleEndian.Uint32(p)
		v, w := uint64(x&0xffff), uint64(x>>16)
		s.sum += v
		t.sum += w
		s.sumSq += v * v
		t.sumSq += w * w
		s.least, s.most = min(s.least, v), max(s.most, v)
		t.least, t.most = min(t.least, w), max(t.most, w)
	}
	if len(p) >= 2 {
		v := uint64(binary.LittleEndian.Uint16(p))
		s.add(sums{v, v * v, v, v})
	}
	s.add(t)
	return s
}

// moments8 returns the sum of p[i] and the sum of i*p[i].
func moments8Go(p []byte) (sum, first uint64) {
	for i, v := range p {
		sum += uint64(v)
		first += uint64(i) * uint64(v)
	}
	return sum, first
}

// moments are sums over pixels of their column x, their row y, and each times the sample v.
type moments struct{ x, y, vx, vy uint64 }

// add adds n pixels from (x, y) rightwards, whose samples add up to sum, and times their index to first.
func (m *moments) add(y, x int32, n int, sum, first uint64) {
	k := uint64(n)
	m.x += k*uint64(x) + k*(k-1)/2
	m.y += k * uint64(y)
	m.vx += uint64(x)*sum + first
	m.vy += uint64(y) * sum
}

// moments8Spans adds up the moments of spans, whose pixels are beside each other at the beginning of a chunk.
func moments8SpansGo(c *chunk, spans []span) (m moments) {
	at := 0
	for _, s := range spans {
		n := int(s.X1 - s.X0)
		sum, first := moments8Go(c[at : at+n])
		m.add(s.Y, s.X0, n, sum, first)
		at += n
	}
	return m
}

// moments16 is moments8 of little-endian 16-bit samples.
func moments16Go(p []byte) (sum, first uint64) {
	for i := range len(p) / 2 {
		v := uint64(binary.LittleEndian.Uint16(p[2*i:]))
		sum += v
		first += uint64(i) * v
	}
	return sum, first
}

// index16 returns the index of the first 16-bit sample v, or -1.
func index16Go(p []byte, v uint16) int {
	for i := range len(p) / 2 {
		if binary.LittleEndian.Uint16(p[2*i:]) == v {
			return i
		}
	}
	return -1
}

// hist8 counts bytes.
func hist8Go(p []byte, hist *[256]uint32) {
	if len(p) < 1024 {
		for _, v := range p {
			hist[v]++
		}
		return
	}
	// Four tables, because a count that was just stored takes long to load again, and neighbours are often equal.
	var t [4][256]uint32
	for ; len(p) >= 8; p = p[8:] {
		x := binary.LittleEndian.Uint64(p)
		t[0][uint8(x)]++
		t[1][uint8(x>>8)]++
		t[2][uint8(x>>16)]++
		t[3][uint8(x>>24)]++
		t[0][uint8(x>>32)]++
		t[1][uint8(x>>40)]++
		t[2][uint8(x>>48)]++
		t[3][uint8(x>>56)]++
	}
	for _, v := range p {
		hist[v]++
	}
	for v := range hist {
		hist[v] += t[0][v] + t[1][v] + t[2][v] + t[3][v]
	}
}

// hist16 counts 16-bit samples by their low bits. The length of hist is a power of two.
func hist16Go(p []byte, hist []uint32) {
	mask := len(hist) - 1
	for ; len(p) >= 8; p = p[8:] {
		x := binary.LittleEndian.Uint64(p)
		if x == bits.RotateLeft64(x, 16) { // four equal samples, as in a background
			hist[int(x&0xffff)&mask] += 4
			continue
		}
		hist[int(x&0xffff)&mask]++
		hist[int(x>>16&0xffff)&mask]++
		hist[int(x>>32&0xffff)&mask]++
		hist[int(x>>48)&mask]++
	}
	for ; len(p) >= 2; p = p[2:] {
		hist[int(binary.LittleEndian.Uint16(p))&mask]++
	}
}

// split puts byte k of each of n pixels of so many bytes in plane k.
func splitGo(planes *[4]chunk, src *chunk, pixel, n int) {
	for k := range pixel {
		dst := planes[k][:n]
		for i := range dst {
			dst[i] = src[i*pixel+k]
		}
	}
}
