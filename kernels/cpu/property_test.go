package cpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// drawRand draws a seed of the generators that the other tests use.
func drawRand(t *rapid.T) *rand.Rand { return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)) }

// triangle has its vertices in the order in which the area is positive.
type triangle [3]point

func area2(a, b, c point) int64 {
	return int64(b.x-a.x)*int64(c.y-a.y) - int64(c.x-a.x)*int64(b.y-a.y)
}

// triangulate cuts a rectangle that holds the frame into triangles around points: a point splits the triangle that it
// is in. All of it is exact. Where a point is on an edge, one of the three parts has no area.
func triangulate(rect [4]point, pts []point) []triangle {
	ts := []triangle{{rect[0], rect[1], rect[2]}, {rect[0], rect[2], rect[3]}}
	for _, p := range pts {
		i := slices.IndexFunc(ts, func(t triangle) bool {
			return area2(t[0], t[1], p) >= 0 && area2(t[1], t[2], p) >= 0 && area2(t[2], t[0], p) >= 0
		})
		if i < 0 {
			continue
		}
		t := ts[i]
		ts[i] = triangle{t[0], t[1], p}
		ts = append(ts, triangle{t[1], t[2], p}, triangle{t[2], t[0], p})
	}
	return ts
}

// TestPartition: triangles that share edges own each pixel exactly once, whatever lies on edges and vertices.
func TestPartition(t *testing.T) {
	small(t)
	f := newFixture(t, 2, 64<<20)
	owners := func(ts []triangle, width, height int, m driver.Method, fill driver.FillRule) (pixels uint64, all bool) {
		f.reset()
		var r driver.MaskRegions
		for _, t := range ts {
			add(&r, fill, ring(nil, t[:]...))
		}
		op := driver.MaskReduce{
			Prepared: f.prepare(r, width, height, m), Count: len(ts), What: driver.MaskSums,
			Frame: driver.Image{Data: f.slice(int64(width * height)), Width: width, Height: height, Stride: width,
				Format: driver.Gray8},
		}
		f.outputs(&op)
		f.ok(f.s.Run(&op))
		for _, s := range download[driver.MaskStats](f, op.Stats) {
			pixels += s.Count
		}
		f.ok(f.s.Run(&driver.MaskRaster{Prepared: op.Prepared, Count: len(ts), Dst: op.Frame}))
		return pixels, !slices.Contains(download[byte](f, op.Frame.Data), 0)
	}
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRand(t)
		shuffle(rng)
		width, height := rapid.IntRange(1, 120).Draw(t, "width"), rapid.IntRange(1, 120).Draw(t, "height")
		grid := rapid.SampledFrom([]int32{1, 64, 128, 256}).Draw(t, "grid")
		w, h := int32(width)*256, int32(height)*256
		rect := [4]point{{0, 0}, {w, 0}, {w, h}, {0, h}}
		pts := make([]point, rapid.IntRange(0, 60).Draw(t, "points"))
		for i := range pts {
			pts[i] = point{rng.Int32N(w) / grid * grid, rng.Int32N(h) / grid * grid}
			if grid == 256 {
				pts[i].x |= 128
				pts[i].y |= 128
			}
		}
		ts := triangulate(rect, pts)
		m := rapid.SampledFrom(allMethods).Draw(t, "method")
		fill := driver.FillRule(rng.IntN(2))
		if n, all := owners(ts, width, height, m, fill); n != uint64(width*height) || !all {
			t.Fatalf("%d pixels are owned, of %d; no pixel is missed: %v", n, width*height, all)
		}
		// And it shows when a triangle that has pixels is left out.
		i := rng.IntN(len(ts))
		if n, _ := owners(ts[i:i+1], width, height, m, fill); n > 0 {
			if n, all := owners(slices.Delete(slices.Clone(ts), i, i+1), width, height, m,
				fill); n == uint64(width*height) || all {
				t.Fatal("a triangle is left out and nobody sees")
			}
		}
	})
}

// TestStripsAndThreads: the same numbers come out however the frame arrives and however many threads there are.
func TestStripsAndThreads(t *testing.T) {
	small(t)
	var fs []*fixture
	for n := 1; n <= 8; n++ {
		fs = append(fs, newFixture(t, n, 32<<20))
	}
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRand(t)
		shuffle(rng)
		j := randomJob(rng, 150)
		j.what = driver.MaskSums | driver.MaskExtrema | driver.MaskMoments | driver.MaskHistogram
		j.strips = nil
		want := j.run(fs[0])
		for n, f := range fs {
			j.level, j.strips = level(rng.IntN(int(bestLevel)+1)), nil
			for left := j.image.height; rng.IntN(2) == 0 && left > 0; {
				rows := 1 + rng.IntN(left)
				if rng.IntN(3) == 0 {
					rows = left
				}
				j.strips = append(j.strips, rows)
				if left -= rows; left > 0 && len(j.strips) == 20 {
					j.strips = append(j.strips, left)
					left = 0
				}
			}
			if sum := 0; j.strips != nil {
				for _, rows := range j.strips {
					sum += rows
				}
				if sum < j.image.height {
					j.strips = append(j.strips, j.image.height-sum)
				}
			}
			if d := differ(j.run(f), want); d != "" {
				t.Fatalf("%d threads: %s\n%v", n+1, d, j)
			}
		}
	})
}

// TestConcurrentStreams: streams of one device share its helpers and keep out of each other's way.
func TestConcurrentStreams(t *testing.T) {
	small(t)
	dev := newFixture(t, 3, 1<<20).dev
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			f := &fixture{t: t, dev: dev}
			var err error
			if f.mem, err = dev.Alloc(8 << 20); err != nil {
				t.Fatal(err)
			}
			if f.s, err = dev.NewStream(0); err != nil {
				t.Fatal(err)
			}
			for k := range cases(300) {
				rng := testseed.New(t, uint64(k), uint64(i))
				j := randomJob(rng, 30)
				j.level = bestLevel
				if d := differ(j.run(f), j.want(j.masks())); d != "" {
					t.Errorf("case %d: %s", k, d)
				}
			}
			f.ok(f.s.Close())
			f.ok(f.mem.Free())
		})
	}
}

// FuzzMaskReduce makes regions and an image of bytes and holds the results against the oracle.
func FuzzMaskReduce(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		seed := make([]byte, 40+rng.IntN(200))
		kernelFills["noise"](rng, seed)
		f.Add(seed)
	}
	f.Add([]byte{})
	small(f)
	fx := newFixture(f, 2, 4<<20)
	f.Fuzz(func(t *testing.T, data []byte) {
		next := func() int {
			if len(data) == 0 {
				return 0
			}
			b := data[0]
			data = data[1:]
			return int(b)
		}
		word := func() int32 { return int32(int16(next() | next()<<8)) }
		fx.t = t
		shuffle(testseed.New(t, uint64(next()), 0))
		j := job{
			what: driver.MaskSums | driver.MaskWhat(next()&7)<<1, count: 1 + next()%3,
			level: level(next() % int(bestLevel+1)), method: driver.Method(next() % int(driver.RowSpans+1)),
		}
		format := formats[next()%len(formats)]
		j.image = picture{width: 1 + next()%40, height: 1 + next()%20, format: format}
		j.image.stride = j.image.width*format.PixelBytes() + next()%3*int(format.SampleBytes)
		scale := []int32{1, 1, 1, 128, 1 << 15}[next()%5]
		for range j.count {
			var pts []point
			for range next() % 12 {
				pts = append(pts, point{word() * scale, word() * scale})
			}
			add(&j.regions, driver.FillRule(next()&1), ring(nil, pts...))
		}
		j.image.data = make([]byte, j.image.stride*j.image.height)
		for i := range j.image.data {
			if len(data) > 0 {
				j.image.data[i] = data[i%len(data)]
			}
		}
		if next()&1 != 0 && j.image.height > 1 {
			j.strips = []int{1, j.image.height - 1}
		}
		if d := differ(j.run(fx), j.want(j.masks())); d != "" {
			t.Fatalf("%s\n%v", d, j)
		}
	})
}
