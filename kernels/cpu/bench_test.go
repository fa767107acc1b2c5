package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

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
	add(&r, driver.NonZero, ring(nil, star(rng, 126, float64(width)/2, float64(height)/2, 0.49*float64(width), 0.49*float64(height))...))
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
		for _, m := range []driver.Method{driver.RowSpans, driver.TiledEdgeFiltered, driver.EdgeFiltered, driver.Tiled} {
			if m != driver.RowSpans && sc.width*sc.height > 10e6 || m == driver.Tiled && testing.Short() {
				continue
			}
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/%v/threads=%d", sc.name, m, threads), func(b *testing.B) {
					f := newFixture(b, threads, 64<<20)
					for b.Loop() {
						f.reset()
						f.prepare(sc.regions, sc.width, sc.height, m)
						f.wait()
					}
				})
			}
		}
	}
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
		Frame: driver.Image{Data: f.upload(data), Width: sc.width, Height: sc.height, Stride: sc.width * px, Format: format},
	}
	f.outputs(&op)
	op.Prepared = f.prepare(sc.regions, sc.width, sc.height, driver.RowSpans)
	f.ok(f.s.MaskReduce(op))
	count := int64(0)
	for i, s := range download[driver.MaskStats](f, op.Stats) {
		if i%int(format.Channels) == 0 {
			count += int64(s.Count)
		}
	}
	b.SetBytes(count * int64(px))
	for b.Loop() {
		if prepare {
			f.ok(f.s.MaskPrepare(driver.MaskPrepare{Regions: sc.regions, Width: sc.width, Height: sc.height, Dst: op.Prepared}))
		}
		f.ok(f.s.MaskReduce(op))
		f.wait()
	}
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
	}{{"RGB8", driver.RGB8}, {"RGBA8", driver.RGBA8}, {"GRAY16/12", driver.Gray16(12)}, {"GRAY16/16", driver.Gray16(16)}} {
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
					Prepared: f.prepare(sc.regions, sc.width, sc.height, driver.RowSpans), Count: len(sc.regions.Regions),
					Mode: driver.RasterMode(mode),
					Dst:  driver.Image{Data: f.slice(int64(stride * sc.height)), Width: sc.width, Height: sc.height, Stride: stride, Format: format},
				}
				b.SetBytes(op.Dst.Data.Len)
				for b.Loop() {
					f.ok(f.s.MaskRaster(op))
					f.wait()
				}
			})
		}
	}
}
