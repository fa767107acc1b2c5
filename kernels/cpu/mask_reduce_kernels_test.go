package cpu

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/internal/seed"
)

// levels are the instruction sets that this machine can run.
func levels() []level {
	var l []level
	for i := levelGo; i <= bestLevel; i++ {
		l = append(l, i)
	}
	return l
}

// atLevel runs f with a level in force.
func atLevel(t testing.TB, l level, f func()) {
	t.Helper()
	old := simd
	simd = l
	defer func() { simd = old }()
	f()
}

// kernelLengths are around the steps of all kernels (8, 16, 32, 64, 128, 512, 4096) and as long as can be.
func kernelLengths(most int) []int {
	l := []int{0, 1, 7, 8, 31, 32, 33, 63, 64, 65, 129, 513, 4097}
	if !race.Enabled {
		for n := range 140 {
			l = append(l, n)
		}
		l = append(l, 255, 256, 257, 511, 512, 1023, 1024, 1025, 4095, 4096, 8191, 8192, 12345)
	}
	l = slices.DeleteFunc(l, func(n int) bool { return n > most })
	return append(l, most-1, most)
}

// kernelFills are contents that take sums to their limits and histograms through all their branches.
var kernelFills = map[string]func(rng *rand.Rand, p []byte){
	"zeros": func(_ *rand.Rand, p []byte) { clear(p) },
	"ones":  func(_ *rand.Rand, p []byte) { fill(p, 255) },
	"128":   func(_ *rand.Rand, p []byte) { fill(p, 128) },
	"noise": func(rng *rand.Rand, p []byte) {
		for i := range p {
			p[i] = byte(rng.Uint32())
		}
	},
	"narrow": func(rng *rand.Rand, p []byte) {
		for i := range p {
			p[i] = byte(100 + rng.IntN(3))
		}
	},
	"edges": func(rng *rand.Rand, p []byte) {
		for i := range p {
			p[i] = byte(255 * rng.IntN(2))
		}
	},
	"dark": func(rng *rand.Rand, p []byte) {
		for i := range p {
			p[i] = byte(rng.IntN(2))
		}
	},
}

// dirty fills a chunk with what must not matter, then its first bytes.
func dirty(rng *rand.Rand, c *chunk, n int, f func(*rand.Rand, []byte)) {
	for i := range c {
		c[i] = byte(rng.Uint32())
	}
	f(rng, c[:n])
}

// eachKernelInput calls f with all lengths and contents at each level above Go.
func eachKernelInput(t *testing.T, most int,
	f func(t *testing.T, rng *rand.Rand, fill func(*rand.Rand, []byte), n int)) {
	for _, l := range levels() {
		for name, fill := range kernelFills {
			t.Run(fmt.Sprintf("%v/%s", l, name), func(t *testing.T) {
				rng := seed.New(t, uint64(l), 11)
				atLevel(t, l, func() {
					for _, n := range kernelLengths(most) {
						f(t, rng, fill, n)
					}
				})
			})
		}
	}
}

// samples16 are the 16-bit samples of p.
func samples16(p []byte) []uint64 {
	var v []uint64
	for i := 0; i+1 < len(p); i += 2 {
		v = append(v, uint64(p[i])|uint64(p[i+1])<<8)
	}
	return v
}

func samples8(p []byte) []uint64 {
	var v []uint64
	for _, b := range p {
		v = append(v, uint64(b))
	}
	return v
}

// wantSums and wantMoments say what kernels compute, in the plainest way.
func wantSums(v []uint64) sums {
	if len(v) == 0 {
		return noSums
	}
	s := sums{least: v[0]}
	for _, v := range v {
		s.sum += v
		s.sumSq += v * v
		if v < s.least {
			s.least = v
		}
		if v > s.most {
			s.most = v
		}
	}
	return s
}

func wantMoments(v []uint64) (sum, first uint64) {
	for i, v := range v {
		sum += v
		first += uint64(i) * v
	}
	return sum, first
}

func TestSums8(t *testing.T) {
	c := new(chunk)
	eachKernelInput(t, chunkBytes, func(t *testing.T, rng *rand.Rand, fill func(*rand.Rand, []byte), n int) {
		dirty(rng, c, n, fill)
		from := rng.IntN(min(n, 70) + 1)
		if got, want := sums8(c, from, n-from), wantSums(samples8(c[from:n])); got != want {
			t.Fatalf("[%d, %d): %+v, want %+v", from, n, got, want)
		}
	})
}

func TestSums16(t *testing.T) {
	c := new(chunk)
	eachKernelInput(t, chunkBytes/2, func(t *testing.T, rng *rand.Rand, fill func(*rand.Rand, []byte), n int) {
		dirty(rng, c, 2*n, fill)
		got, want := sums16(c, n), wantSums(samples16(c[:2*n]))
		if n == 0 {
			got.least, got.most, want = 0, 0, sums{} // not asked for
		}
		if got != want {
			t.Fatalf("n=%d: %+v, want %+v", n, got, want)
		}
	})
}

func TestMoments(t *testing.T) {
	c := new(chunk)
	eachKernelInput(t, chunkBytes, func(t *testing.T, rng *rand.Rand, fill func(*rand.Rand, []byte), n int) {
		dirty(rng, c, n, fill)
		from := rng.IntN(min(n, 70) + 1)
		s, q := moments8(c, from, n-from)
		if ws, wq := wantMoments(samples8(c[from:n])); s != ws || q != wq {
			t.Fatalf("8 bit, [%d, %d): %d %d, want %d %d", from, n, s, q, ws, wq)
		}
		from /= 2
		s, q = moments16(c, from, n/2-from)
		if ws, wq := wantMoments(samples16(c[2*from : n/2*2])); s != ws || q != wq {
			t.Fatalf("16 bit, [%d, %d): %d %d, want %d %d", from, n/2, s, q, ws, wq)
		}
	})
}

func TestMomentsSpans(t *testing.T) {
	c := new(chunk)
	eachKernelInput(t, chunkBytes, func(t *testing.T, rng *rand.Rand, fill func(*rand.Rand, []byte), n int) {
		dirty(rng, c, n, fill)
		for _, longest := range []int32{1, 70, 200, chunkBytes} {
			var spans []span
			for left := int32(n); left > 0; {
				k := min(left, 1+rng.Int32N(longest))
				x := rng.Int32N(1<<20 - k)
				if rng.IntN(8) == 0 {
					x = 1<<20 - k
				}
				spans = append(spans, span{rng.Int32N(1 << 20), x, x + k})
				left -= k
			}
			var want moments
			at := 0
			for _, s := range spans {
				for x := uint64(s.X0); x < uint64(s.X1); x++ {
					v := uint64(c[at])
					want.x, want.y = want.x+x, want.y+uint64(s.Y)
					want.vx, want.vy = want.vx+v*x, want.vy+v*uint64(s.Y)
					at++
				}
			}
			if got := moments8Spans(c, spans); got != want {
				t.Fatalf("%d pixels in %d spans: %+v, want %+v", n, len(spans), got, want)
			}
		}
	})
}

func TestIndex16(t *testing.T) {
	c := new(chunk)
	eachKernelInput(t, chunkBytes/2, func(t *testing.T, rng *rand.Rand, fill func(*rand.Rand, []byte), n int) {
		dirty(rng, c, 2*n, fill)
		for range 3 {
			v := uint64(rng.Uint32N(1 << 16))
			if n > 0 && rng.IntN(3) > 0 {
				i := rng.IntN(n)
				v = uint64(c[2*i]) | uint64(c[2*i+1])<<8
			}
			if got, want := index16(c, n, v), slices.Index(samples16(c[:2*n]), v); got != want {
				t.Fatalf("n=%d v=%#x: %d, want %d", n, v, got, want)
			}
		}
	})
}

func TestHist8(t *testing.T) {
	c, work := new(chunk), new([hist8Scratch]byte)
	eachKernelInput(t, chunkBytes, func(t *testing.T, rng *rand.Rand, fill func(*rand.Rand, []byte), n int) {
		if n == 0 {
			return
		}
		dirty(rng, c, n, fill)
		var want [256]uint32
		for _, v := range c[:n] {
			want[v]++
		}
		got := [256]uint32{7: 5}
		want[7] += 5
		hist8(c, n, uint64(slices.Min(c[:n])), uint64(slices.Max(c[:n])), &got, work)
		if got != want {
			t.Fatalf("n=%d: wrong counts: %v, want %v", n, got, want)
		}
	})
}

func TestHist16(t *testing.T) {
	c := new(chunk)
	for _, levels := range []int{256, 1024, 1 << 16} {
		eachKernelInput(t, chunkBytes/2, func(t *testing.T, rng *rand.Rand, fill func(*rand.Rand, []byte), n int) {
			dirty(rng, c, 2*n, fill)
			got, want := make([]uint32, levels), make([]uint32, levels)
			for i := range n {
				want[(int(c[2*i])|int(c[2*i+1])<<8)%levels]++
			}
			hist16(c, n, got)
			if !slices.Equal(got, want) {
				t.Fatalf("n=%d: wrong counts", n)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	src, got, want := new(chunk), new([4]chunk), new([4]chunk)
	for pixel := 1; pixel <= 4; pixel++ {
		for _, l := range levels() {
			atLevel(t, l, func() {
				rng := seed.New(t, 5, 6)
				for _, n := range kernelLengths(chunkBytes / pixel) {
					dirty(rng, src, 0, kernelFills["zeros"])
					split(got, src, pixel, n)
					for k := range pixel * n {
						want[k%pixel][k/pixel] = src[k]
					}
					for k := range pixel {
						if !bytes.Equal(got[k][:n], want[k][:n]) {
							t.Fatalf("%v: %d bytes a pixel, n=%d, plane %d differs", l, pixel, n, k)
						}
					}
				}
			})
		}
	}
}

func TestPack(t *testing.T) {
	const width, height, pixel = 300, 9, 3
	rng := seed.New(t, 8, 9)
	frame := make([]byte, width*height*pixel)
	kernelFills["noise"](rng, frame)
	for _, l := range levels() {
		atLevel(t, l, func() {
			for range cases(3000) {
				px := 1 + rng.IntN(pixel)
				g := geometry{row0: rng.IntN(5), height: height, width: width, stride: width * px, pixel: px}
				data := frame[:g.stride*height]
				g.safe = len(data) - wideReads()
				spans := make([]span, rng.IntN(40))
				for i := range spans {
					x0 := rng.Int32N(width)
					x1 := x0 + 1 + rng.Int32N(width-x0)
					if rng.IntN(2) == 0 {
						x1 = min(x1, x0+1+rng.Int32N(70))
					}
					spans[i] = span{int32(g.row0 + rng.IntN(height)), x0, x1}
				}
				if len(spans) > 0 && rng.IntN(2) == 0 {
					// Something wrong somewhere.
					s := &spans[rng.IntN(len(spans))]
					*s = []span{
						{s.Y, s.X0, s.X0}, {s.Y, s.X1, s.X0}, {s.Y, -1, s.X1}, {s.Y, s.X0, width + 1}, {s.Y, -7, -3},
						{int32(g.row0 - 1), s.X0, s.X1}, {int32(g.row0 + height), s.X0, s.X1}, {-1 << 31, 0, 1},
						{s.Y, -1 << 31, 1<<31 - 1}, {s.Y, 1<<31 - 1, -1 << 31}, {1<<31 - 1, 0, 1},
					}[rng.IntN(11)]
				}
				room := rng.IntN(chunkBytes + 1)
				if rng.IntN(2) == 0 {
					room = rng.IntN(2000)
				}
				got, want := new(chunk), new(chunk)
				gt, gn := pack(got, room, data, &g, spans)
				wt, wn := packGo(want, room, data, &g, spans)
				if gt != wt || gn != wn || !bytes.Equal(got[:gn], want[:wn]) {
					t.Fatalf("%v: room %d, %+v, %v: %d spans, %d bytes, want %d, %d, or other bytes", l, room, g, spans,
						gt, gn, wt, wn)
				}
				if !bytes.Equal(got[min(room+64, len(got)):], want[min(room+64, len(want)):]) {
					t.Fatalf("%v: wrote too far", l)
				}
				if px > 1 {
					continue
				}
				var sum sums
				*got = chunk{}
				gt, gn, sum = gather8(got, room, data, &g, spans)
				if gt != wt || gn != wn || !bytes.Equal(got[:gn], want[:wn]) || gn > 0 &&
					sum != wantSums(samples8(want[:wn])) {
					t.Fatalf("%v: gather8, room %d, %+v, %v: %d spans, %d bytes, %+v, want %d, %d, %+v",
						l, room, g, spans, gt, gn, sum, wt, wn, wantSums(samples8(want[:wn])))
				}
			}
		})
	}
}
