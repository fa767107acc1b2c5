package polygon

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// blob is a ring around m that goes in and out.
func blob(rng *rand.Rand, n int, m Point, radius float64) Ring {
	ring := make(Ring, n)
	for i := range ring {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / float64(n))
		r := radius * (0.6 + 0.4*rng.Float64())
		ring[i] = Point{m.X + r*cos, m.Y + r*sin}
	}
	return ring
}

// manyRegions are n blobs of k vertices scattered over a frame.
func manyRegions(n, k, w, h int) []Region {
	rng := rand.New(rand.NewPCG(uint64(n), uint64(k)))
	radius := 0.5 * math.Sqrt(float64(w*h)/float64(n))
	regions := make([]Region, n)
	for i := range regions {
		m := Point{radius + rng.Float64()*(float64(w)-2*radius), radius + rng.Float64()*(float64(h)-2*radius)}
		regions[i] = Region{Name: fmt.Sprintf("part %d", i), Rings: []Ring{blob(rng, k, m, radius)}}
	}
	return regions
}

func noise(w, h int, f driver.PixelFormat) kernels.Picture {
	rng := rand.New(rand.NewPCG(1, 1))
	data := make([]byte, w*h*f.PixelBytes())
	for i := range data {
		data[i] = byte(128 + 30*rng.NormFloat64())
		if f.SampleBytes == 2 && i%2 == 1 {
			data[i] &= byte(1<<(f.Bits-8) - 1)
		}
	}
	return kernels.Picture{Width: w, Height: h, Format: f, Data: [][]byte{data}}
}

func BenchmarkReduce(b *testing.B) {
	everything := Reductions{Statistics: Skewness - 1} // what comes with the histogram, but for the shape
	for _, c := range []struct {
		name    string
		w, h    int
		format  driver.PixelFormat
		regions []Region
		request Reductions
	}{
		{"64x64", 64, 64, driver.Gray8, manyRegions(1, 12, 64, 64), everything}, // what a call costs without pixels
		{"2880x1440", 2880, 1440, driver.Gray8, manyRegions(1, 126, 2880, 1440), everything},
		{"2880x1440/basic", 2880, 1440, driver.Gray8, manyRegions(1, 126, 2880, 1440), Reductions{}},
		{"10000x4000", 10000, 4000, driver.Gray8, manyRegions(1, 126, 10000, 4000), everything},
		{"10000x4000/basic", 10000, 4000, driver.Gray8, manyRegions(1, 126, 10000, 4000), Reductions{}},
		{"1000-small", 2880, 1440, driver.Gray8, manyRegions(1000, 12, 2880, 1440), everything},
		{"100000-small/basic", 4000, 3000, driver.Gray8, manyRegions(100_000, 12, 4000, 3000), Reductions{}},
		{"rgb", 2880, 1440, driver.RGB8, manyRegions(1, 126, 2880, 1440), everything},
		{"gray12", 2880, 1440, driver.Gray16(12), manyRegions(1, 126, 2880, 1440), everything},
		{"gray16", 2880, 1440, driver.Gray16(16), manyRegions(1, 126, 2880, 1440), everything},
		{"gray16/1000-small/percentiles", 2880, 1440, driver.Gray16(16), manyRegions(1000, 12, 2880, 1440),
			Reductions{Statistics: Percentiles}},
	} {
		f := noise(c.w, c.h, c.format)
		set := mustSet(b, c.regions...)
		ctx := context.Background()
		b.Run(c.name+"/once", func(b *testing.B) {
			dev := openCPU(b, kernels.Config{MemoryBytes: 1 << 30})
			b.SetBytes(int64(len(f.Data[0])))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Reduce(ctx, dev, set, f, c.request, driver.MethodDefault); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/prepared", func(b *testing.B) {
			dev := openCPU(b, kernels.Config{MemoryBytes: 1 << 30})
			p, err := set.Prepare(ctx, dev, c.w, c.h, driver.MethodDefault)
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			b.SetBytes(int64(len(f.Data[0])))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Reduce(ctx, f, c.request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNewSet(b *testing.B) {
	rng := seed.New(b, 1, 2)
	for _, c := range []struct {
		name    string
		regions []Region
	}{
		{"100000x12", manyRegions(100_000, 12, 4000, 3000)},
		{"1x100000", []Region{{Rings: []Ring{blob(rng, 100_000, Point{2000, 1000}, 900)}}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				s, err := NewSet(c.regions, Bounds{})
				if err != nil {
					b.Fatal(err)
				}
				n = s.Vertices()
			}
			b.SetBytes(int64(n) * 16)
		})
	}
}

// BenchmarkBounds is the host's part of a first frame: bounds of the pixels, of many small regions and of a large ring.
func BenchmarkBounds(b *testing.B) {
	rng := seed.New(b, 1, 2)
	for _, c := range []struct {
		name    string
		regions []Region
	}{
		{"1000x12", manyRegions(1000, 12, 2880, 1440)},
		{"1x126", manyRegions(1, 126, 2880, 1440)},
		{"1x100000", []Region{{Rings: []Ring{blob(rng, 100_000, Point{1440, 720}, 700)}}}}, // spikes everywhere
		{"countries", nil},
	} {
		if c.regions == nil {
			c.regions = sharedPolygons(b, "world110m_4096x2048.json").regions
		}
		s := mustSet(b, c.regions...)
		b.Run(c.name, func(b *testing.B) {
			var turns []turn
			for b.Loop() {
				for i := range s.regions {
					_, turns = boundsOf(s.edgesOf(i), s.regions[i].Fill, s.boxes[i], 2880, 1440, turns)
				}
			}
		})
		b.Run(c.name+"/sweep", func(b *testing.B) {
			for b.Loop() {
				for i := range s.regions {
					sweep(s.edgesOf(i), 0, 1440, func(int, []turn) bool { return true })
				}
			}
		})
		b.Run(c.name+"/extent", func(b *testing.B) {
			x := extent{ctx: context.Background()}
			for b.Loop() {
				x.steps = 1 << 40
				for i := range s.regions {
					x.pixels(s.edgesOf(i), s.regions[i].Fill)
				}
			}
		})
	}
}

func BenchmarkDistribution(b *testing.B) {
	rng := seed.New(b, 1, 3)
	for _, c := range []struct{ levels, pixels int }{{256, 1 << 20}, {256, 100}, {4096, 1 << 20}, {65536, 1 << 20},
		{65536, 4000}, {65536, 10}} {
		hist := make([]uint32, c.levels)
		for range c.pixels {
			hist[rng.IntN(c.levels)]++
		}
		b.Run(fmt.Sprintf("%d-levels/%d-pixels", c.levels, c.pixels), func(b *testing.B) {
			b.SetBytes(int64(c.levels) * 4)
			var d distribution
			for b.Loop() {
				d.load(hist, 0)
			}
		})
	}
}
