package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/polyscan/polyscan/internal/seed"
	_ "github.com/polyscan/polyscan/internal/shorttest"
	"github.com/polyscan/polyscan/kernels/driver"
)

// scene is a frame and regions as inspection has them.
type scene struct {
	name          string
	width, height int
	regions       driver.MaskRegions
}

func largeScene(width, height int) scene {
	rng := rand.New(rand.NewPCG(3, 126))
	var r driver.MaskRegions
	add(&r, driver.NonZero,
		ring(nil, star(rng, 126, float64(width)/2, float64(height)/2, 0.49*float64(width), 0.49*float64(height))...))
	return scene{fmt.Sprintf("%dx%d", width, height), width, height, r}
}

func smallScene() scene {
	const width, height = 10000, 4000
	rng := rand.New(rand.NewPCG(7, 1000))
	var r driver.MaskRegions
	for range 1000 {
		cx, cy := 64+rng.Float64()*(width-128), 64+rng.Float64()*(height-128)
		add(&r, driver.NonZero, ring(nil, star(rng, 12, cx, cy, 32, 32)...))
	}
	return scene{"1000small", width, height, r}
}

// texture is pixels as of a machined surface under even light: noise of 64 levels.
func texture(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(96 + x>>24&63)
	}
	return b
}

var benchScenes = []scene{largeScene(2880, 1440), largeScene(10000, 4000), smallScene()}

func BenchmarkMaskPrepare(b *testing.B) {
	for _, sc := range benchScenes {
		for _, m := range []driver.Method{driver.RowSpans, driver.TiledEdgeFiltered, driver.EdgeFiltered,
			driver.Tiled} {
			if m != driver.RowSpans && sc.width*sc.height > 10e6 || m == driver.Tiled && testing.Short() {
				continue
			}
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/%v/threads=%d", sc.name, m, threads), func(b *testing.B) {
					f := newFixture(b, threads, 64<<20)
					loop(b, func() {
						f.reset()
						f.prepare(sc.regions, sc.width, sc.height, m)
						f.wait()
					})
				})
			}
		}
	}
}

// loop times f and reports its least time too: what to compare on a machine that has other things to do.
func loop(b *testing.B, f func()) {
	least := time.Duration(math.MaxInt64)
	for b.Loop() {
		start := time.Now()
		f()
		least = min(least, time.Since(start))
	}
	b.ReportMetric(float64(least.Nanoseconds()), "min-ns/op")
}

var benchWhats = []struct {
	name string
	what driver.MaskWhat
}{
	{"sums", driver.MaskSums},
	{"extrema", driver.MaskSums | driver.MaskExtrema},
	{"moments", driver.MaskSums | driver.MaskExtrema | driver.MaskMoments},
	{"histogram", driver.MaskSums | driver.MaskExtrema | driver.MaskHistogram},
	{"all", driver.MaskSums | driver.MaskExtrema | driver.MaskHistogram | driver.MaskMoments},
}

// benchReduce reports the bytes of the pixels inside regions.
func benchReduce(b *testing.B, sc scene, format driver.PixelFormat, what driver.MaskWhat, threads int, prepare bool) {
	px := format.PixelBytes()
	f := newFixture(b, threads, 512<<20)
	data := texture(sc.width * sc.height * px)
	if format.SampleBytes == 2 {
		for i := 1; i < len(data); i += 2 {
			data[i] &= byte(1<<(format.Bits-8) - 1)
		}
	}
	op := driver.MaskReduce{
		Count: len(sc.regions.Regions), What: what,
		Frame: driver.Image{Data: f.upload(data), Width: sc.width, Height: sc.height, Stride: sc.width * px,
			Format: format},
	}
	f.outputs(&op)
	op.Prepared = f.prepare(sc.regions, sc.width, sc.height, driver.RowSpans)
	f.ok(f.s.Run(&op))
	count := int64(0)
	for i, s := range download[driver.MaskStats](f, op.Stats) {
		if i%int(format.Channels) == 0 {
			count += int64(s.Count)
		}
	}
	b.SetBytes(count * int64(px))
	loop(b, func() {
		if prepare {
			f.ok(f.s.Run(&driver.MaskPrepare{Regions: sc.regions, Width: sc.width, Height: sc.height,
				Dst: op.Prepared}))
		}
		f.ok(f.s.Run(&op))
		f.wait()
	})
}

func BenchmarkMaskReduce(b *testing.B) {
	for _, sc := range benchScenes {
		for _, w := range benchWhats {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/GRAY8/%s/threads=%d", sc.name, w.name, threads), func(b *testing.B) {
					benchReduce(b, sc, driver.Gray8, w.what, threads, false)
				})
			}
		}
	}
	for _, format := range []struct {
		name string
		driver.PixelFormat
	}{{"RGB8", driver.RGB8}, {"RGBA8", driver.RGBA8}, {"GRAY16/12", driver.Gray16(12)},
		{"GRAY16/16", driver.Gray16(16)}} {
		for _, sc := range []scene{benchScenes[0], benchScenes[2]} {
			for _, w := range benchWhats[1:] {
				b.Run(fmt.Sprintf("%s/%s/%s/threads=1", sc.name, format.name, w.name), func(b *testing.B) {
					benchReduce(b, sc, format.PixelFormat, w.what, 1, false)
				})
			}
		}
	}
}

// BenchmarkMaskPrepareReduce is what peers are compared with: regions as vertices in, results out.
func BenchmarkMaskPrepareReduce(b *testing.B) {
	for _, sc := range benchScenes {
		for _, w := range benchWhats {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/%s/threads=%d", sc.name, w.name, threads), func(b *testing.B) {
					benchReduce(b, sc, driver.Gray8, w.what, threads, true)
				})
			}
		}
	}
}

func BenchmarkMaskRaster(b *testing.B) {
	for _, sc := range benchScenes {
		for mode, format := range []driver.PixelFormat{driver.Gray8, driver.Gray16(16)} {
			b.Run(fmt.Sprintf("%s/%d", sc.name, mode), func(b *testing.B) {
				f := newFixture(b, 1, 256<<20)
				stride := sc.width * format.PixelBytes()
				op := driver.MaskRaster{
					Prepared: f.prepare(sc.regions, sc.width, sc.height, driver.RowSpans),
					Count:    len(sc.regions.Regions),
					Mode:     driver.RasterMode(mode),
					Dst: driver.Image{Data: f.slice(int64(stride * sc.height)), Width: sc.width, Height: sc.height,
						Stride: stride, Format: format},
				}
				b.SetBytes(op.Dst.Data.Len)
				loop(b, func() {
					f.ok(f.s.Run(&op))
					f.wait()
				})
			})
		}
	}
}

// BenchmarkKernels times the inner loops over a full chunk in cache.
func BenchmarkKernels(b *testing.B) {
	c, planes, work := new(chunk), new([4]chunk), new([hist8Scratch]byte)
	frame := texture(16 << 20)
	spansOf := func(n int) (geometry, []span) {
		const width = 8040 // no power of two: rows would share a few sets of the cache
		g := geometry{height: 2048, width: width, stride: width, pixel: 1, safe: len(frame) - 64}
		s := make([]span, chunkBytes/n)
		for i := range s {
			s[i] = span{int32(i), int32(i * 8), int32(i*8 + n)}
		}
		return g, s
	}
	var hist [256]uint32
	wide := make([]uint32, 1<<12)
	copy(c[:], frame)
	kernels := []struct {
		name string
		f    func()
	}{
		{"sums8", func() { sums8(c, 0, chunkBytes) }},
		{"sums16", func() { sums16(c, chunkBytes/2) }},
		{"moments8", func() { moments8(c, 0, chunkBytes) }},
		{"moments8/40", func() {
			for i := 0; i+40 <= chunkBytes; i += 40 {
				moments8(c, i, 40)
			}
		}},
		{"moments16", func() { moments16(c, 0, chunkBytes/2) }},
		{"hist8/64", func() { hist8(c, chunkBytes, 96, 159, &hist, work) }},
		{"hist8/256", func() { hist8(c, chunkBytes, 0, 255, &hist, work) }},
		{"hist16", func() { hist16(c, chunkBytes/2, wide) }},
		{"split2", func() { split(planes, c, 2, chunkBytes/2) }},
		{"split3", func() { split(planes, c, 3, chunkBytes/3) }},
		{"split4", func() { split(planes, c, 4, chunkBytes/4) }},
	}
	for _, n := range []int{20, 40, 100, 1000, 8000} {
		g, s := spansOf(n)
		dst := new(chunk)
		kernels = append(kernels, struct {
			name string
			f    func()
		}{fmt.Sprintf("pack/%d", n), func() { pack(dst, chunkBytes, frame, &g, s) }}, struct {
			name string
			f    func()
		}{fmt.Sprintf("gather8/%d", n), func() { gather8(dst, chunkBytes, frame, &g, s) }})
	}
	for _, k := range kernels {
		for _, l := range levels() {
			b.Run(fmt.Sprintf("%s/%v", k.name, l), func(b *testing.B) {
				b.SetBytes(chunkBytes)
				atLevel(b, l, func() {
					for b.Loop() {
						k.f()
					}
				})
			})
		}
	}
}

// BenchmarkManyEdges tells up to how many edges active edges are the better way.
func BenchmarkManyEdges(b *testing.B) {
	const width, height = 2048, 2048
	for _, n := range []int{16, 100, 1000, 10_000, 100_000} {
		for _, shape := range []string{"smooth", "spiky", "comb"} {
			rng := seed.New(b, 3, uint64(n))
			pts := star(rng, n, width/2, height/2, 0.49*width, 0.49*height)
			for i := range pts {
				switch shape {
				case "smooth":
					sin, cos := math.Sincos(2 * math.Pi * float64(i) / float64(n))
					pts[i] = point{int32((width/2 + 0.45*width*cos) * 256), int32((height/2 + 0.45*height*sin) * 256)}
				case "comb":
					pts[i] = point{int32(float64(i) / float64(n) * width * 256), int32((i & 1) * height * 256)}
				}
			}
			if shape == "comb" && n > 1000 {
				continue
			}
			regions := one(driver.NonZero, ring(nil, pts...))
			for _, most := range []int{0, 1 << 30} {
				b.Run(fmt.Sprintf("%s/%d/active=%v", shape, n, most > 0), func(b *testing.B) {
					defer func(old int) { activeEdges = old }(activeEdges)
					activeEdges = most
					f := newFixture(b, 1, 512<<20)
					loop(b, func() {
						f.reset()
						f.prepare(regions, width, height, driver.RowSpans)
						f.wait()
					})
				})
			}
		}
	}
}

// BenchmarkUpload copies a frame in pieces, as it comes from the network.
func BenchmarkUpload(b *testing.B) {
	for _, size := range []int{64 << 10, 2880 * 1440, 10000 * 4000} {
		for _, piece := range []int{16 << 10, size} {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%d/pieces=%d/threads=%d", size, piece, threads), func(b *testing.B) {
					f := newFixture(b, threads, 256<<20)
					data := texture(size)
					var src [][]byte
					for rest := data; len(rest) > 0; rest = rest[min(piece, len(rest)):] {
						src = append(src, rest[:min(piece, len(rest))])
					}
					dst := f.slice(int64(size))
					b.SetBytes(int64(size))
					loop(b, func() {
						f.ok(f.s.Upload(dst, src))
						f.wait()
					})
				})
			}
		}
	}
}

// BenchmarkColors reduces what is derived from the colour of a frame of noise, all of it one region.
func BenchmarkColors(b *testing.B) {
	const width, height = 2048, 1024
	for _, space := range []struct {
		name string
		is   driver.ColorSpaces
	}{{"none", 0}, {"gray", driver.ColorGray}, {"hsv", driver.ColorHSV}, {"lab", driver.ColorLab},
		{"matrix", driver.ColorMatrix}} {
		for _, w := range benchWhats {
			b.Run(space.name+"/"+w.name, func(b *testing.B) {
				benchColors(b, texture(3*width*height), width, height, space.is, w.what)
			})
		}
	}
}

func benchColors(b *testing.B, pixels []byte, width, height int, spaces driver.ColorSpaces, what driver.MaskWhat) {
	f := newFixture(b, 1, 256<<20)
	op := driver.MaskReduce{Count: 1, What: what, Colors: driver.Colors{Spaces: spaces},
		Frame: driver.Image{Data: f.upload(pixels), Width: width, Height: height, Stride: 3 * width, Format: driver.RGB8}}
	f.outputs(&op)
	op.Prepared = f.prepare(wholeFrame(width, height), width, height, driver.RowSpans)
	b.SetBytes(int64(3 * width * height))
	loop(b, func() {
		f.ok(f.s.Run(&op))
		f.wait()
	})
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(width*height), "ns/px")
}

// wholeFrame is a region of all pixels.
func wholeFrame(width, height int) driver.MaskRegions {
	x, y := int32(width*driver.Subpixel), int32(height*driver.Subpixel)
	return driver.MaskRegions{
		Edges: []driver.Edge{{X0: 0, Y0: 0, X1: x, Y1: 0}, {X0: x, Y0: 0, X1: x, Y1: y}, {X0: x, Y0: y, X1: 0, Y1: y},
			{X0: 0, Y0: y, X1: 0, Y1: 0}},
		Regions: []driver.Region{{Count: 4}},
	}
}
