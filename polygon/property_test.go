package polygon

import (
	"context"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// drawn takes choices from rapid, so that cases shrink.
type drawn struct{ t *rapid.T }

func (d drawn) IntN(n int) int { return rapid.IntRange(0, n-1).Draw(d.t, "choice") }

func rasterOf(t interface{ Fatal(...any) }, dev *kernels.Device, set *Set, w, h int, m driver.Method) *Raster {
	r, err := Rasterize(context.Background(), dev, set, w, h, driver.RasterMask, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestQuantisingTwice: vertices on the grid stay where they are, so a set made of the first one's edges is the same.
func TestQuantisingTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := randomRegion(drawn{t}, 20, 20)
		s, err := NewSet([]Region{r}, Bounds{})
		if err != nil {
			t.Fatal(err)
		}
		on := Region{Fill: r.Fill}
		for _, ring := range r.Rings {
			grid := make(Ring, len(ring))
			for i, p := range ring {
				grid[i] = Point{float64(quantise(p.X)) / 256, float64(quantise(p.Y)) / 256}
				if math.Abs(grid[i].X-p.X) > 0.5/256 || math.Abs(grid[i].Y-p.Y) > 0.5/256 {
					t.Fatalf("%v was moved to %v", p, grid[i])
				}
				if math.Abs(grid[i].X) == maxCoordinate || math.Abs(grid[i].Y) == maxCoordinate {
					t.Skip("rounded up to 2^22, which is not accepted again")
				}
			}
			on.Rings = append(on.Rings, grid)
		}
		again, err := NewSet([]Region{on}, Bounds{})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(s.maskRegions(), again.maskRegions()) || s.areas[0] != again.areas[0] {
			t.Fatalf("edges %v became %v", s.maskRegions(), again.maskRegions())
		}
	})
}

// TestTranslation: moving a region and its frame's pixels by whole pixels moves everything and changes nothing.
func TestTranslation(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	const n, room = 14, 30
	rapid.Check(t, func(t *rapid.T) {
		r := randomRegion(drawn{t}, n, n)
		dx, dy := rapid.IntRange(0, room).Draw(t, "dx"), rapid.IntRange(0, room).Draw(t, "dy")
		moved := Region{Fill: r.Fill}
		for _, ring := range r.Rings {
			to := make(Ring, len(ring))
			for i, p := range ring {
				// On the grid first: floats far away have no room for both.
				to[i] = Point{float64(quantise(p.X))/256 + float64(dx), float64(quantise(p.Y))/256 + float64(dy)}
				if !(math.Abs(to[i].X) < maxCoordinate && math.Abs(to[i].Y) < maxCoordinate) {
					t.Skip("moved out of range")
				}
			}
			moved.Rings = append(moved.Rings, to)
		}
		set, err := NewSet([]Region{r}, Bounds{})
		if err != nil {
			t.Fatal(err)
		}
		movedSet, err := NewSet([]Region{moved}, Bounds{})
		if err != nil {
			t.Fatal(err)
		}
		m := methods[rapid.IntRange(0, len(methods)-1).Draw(t, "method")]
		small, large := rasterOf(t, dev, set, n, n, m), rasterOf(t, dev, movedSet, n+room, n+room, m)
		for y := range n {
			for x := range n {
				if small.Data[0][y*n+x] != large.Data[0][(y+dy)*(n+room)+x+dx] {
					t.Fatalf("pixel (%d, %d) moved by (%d, %d) differs", x, y, dx, dy)
				}
			}
		}
		if set.areas[0] != movedSet.areas[0] {
			t.Fatalf("area %v became %v", set.areas[0], movedSet.areas[0])
		}
	})
}

// TestDirection: turning all rings round changes no pixel under either rule; turning one round changes none under
// even-odd; nor does the vertex that a ring begins with, or the order of the rings.
func TestDirection(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	rapid.Check(t, func(t *rapid.T) {
		r := randomRegion(drawn{t}, 12, 12)
		all, one, shifted := Region{Fill: r.Fill}, Region{Fill: EvenOdd}, Region{Fill: r.Fill}
		for i, ring := range r.Rings {
			all.Rings = append(all.Rings, reversed(ring, true))
			one.Rings = append(one.Rings, reversed(ring, i == 0))
			k := rapid.IntRange(0, len(ring)-1).Draw(t, "first")
			shifted.Rings = append([]Ring{append(append(Ring{}, ring[k:]...), ring[:k]...)}, shifted.Rings...)
		}
		odd := Region{Rings: r.Rings, Fill: EvenOdd}
		set, err := NewSet([]Region{r, all, shifted, odd, one}, Bounds{})
		if err != nil {
			t.Fatal(err)
		}
		f := noise(12, 12, driver.Gray8)
		res, err := Reduce(context.Background(), dev, set, f, Reductions{Statistics: AllStatistics},
			methods[rapid.IntRange(0, 5).Draw(t, "method")])
		if err != nil {
			t.Fatal(err)
		}
		same := func(a, b int) {
			x, y := res.Regions[a], res.Regions[b]
			y.Index, y.Name, y.Area = x.Index, x.Name, x.Area // of a ring turned round, the sign of the area changes
			if !reflect.DeepEqual(x, y) {
				t.Fatalf("region %d is\n%+v, and %d is\n%+v", a, x, b, y)
			}
		}
		same(0, 1)
		same(0, 2)
		same(3, 4)
		if res.Regions[0].Area != res.Regions[1].Area || res.Regions[0].Area != res.Regions[2].Area {
			t.Fatalf("areas %v, %v and %v", res.Regions[0].Area, res.Regions[1].Area, res.Regions[2].Area)
		}
	})
}

// triangulation is a random triangulation of a rectangle that holds the frame: points on the grid, each splitting the
// triangle that holds it, then random flips. Triangles without area occur.
func triangulation(rng choices, w, h, points int) (regions []Region) {
	type vertex struct{ x, y int64 }
	type tri [3]vertex
	// orient is twice the area, positive one way round.
	orient := func(a, b, c vertex) int64 { return (b.x-a.x)*(c.y-a.y) - (b.y-a.y)*(c.x-a.x) }
	W, H := int64(w)*256, int64(h)*256
	a, b, c, d := vertex{-256, -256}, vertex{W + 256, -256}, vertex{W + 256, H + 256}, vertex{-256, H + 256}
	tris := []tri{{a, b, c}, {a, c, d}}
	for range points {
		p := vertex{int64(rng.IntN(int(W))), int64(rng.IntN(int(H)))}
		if rng.IntN(2) == 0 { // on a centre
			p = vertex{p.x&^255 + 128, p.y&^255 + 128}
		}
		for i, t := range tris {
			if orient(t[0], t[1], p) >= 0 && orient(t[1], t[2], p) >= 0 && orient(t[2], t[0], p) >= 0 {
				tris[i] = tri{t[0], t[1], p}
				tris = append(tris, tri{t[1], t[2], p}, tri{t[2], t[0], p})
				break
			}
		}
	}
	for _, t := range tris {
		var ring Ring
		for k := range t {
			v := t[k]
			ring = append(ring, Point{float64(v.x) / 256, float64(v.y) / 256})
		}
		regions = append(regions, Region{Rings: []Ring{reversed(ring, rng.IntN(2) == 0)}, Fill: FillRule(rng.IntN(2))})
	}
	return regions
}

// TestPartition: the triangles of a triangulation own each pixel of the frame exactly once, by every method.
func TestPartition(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	cases := 200
	if testing.Short() {
		cases = 40
	}
	for seed := range cases {
		rng := testseed.New(t, uint64(seed), 5)
		w, h := 1+rng.IntN(70), 1+rng.IntN(70)
		regions := triangulation(rng, w, h, rng.IntN(150))
		set := mustSet(t, regions...)
		for _, m := range methods[1:] {
			r := rasterOf(t, dev, set, w, h, m)
			var sum uint64
			for _, n := range r.Counts {
				sum += n
			}
			for i, v := range r.Data[0] {
				if v != 255 {
					t.Fatalf("seed %d, %v: nobody owns pixel (%d, %d)", seed, m, i%w, i/w)
				}
			}
			if sum != uint64(w*h) {
				t.Fatalf("seed %d, %v: %d pixels are owned, of %d", seed, m, sum, w*h)
			}
		}
		// The sums of the parts are the sums of the frame.
		f := noise(w, h, driver.Gray8)
		res, err := Reduce(context.Background(), dev, set, f, Reductions{}, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		var got, want uint64
		for _, r := range res.Regions {
			got += r.Channels[0].Sum
		}
		for _, v := range f.Data[0] {
			want += uint64(v)
		}
		if got != want {
			t.Fatalf("seed %d: the parts sum to %d, the frame to %d", seed, got, want)
		}
	}
}

// TestPartitionNoticesOverlap: what the check above looks at shows triangles that overlap, and one that is missing.
func TestPartitionNoticesOverlap(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	regions := triangulation(testseed.New(t, 1, 5), 20, 20, 10)
	owned := func(regions ...Region) (sum uint64, free int) {
		r := rasterOf(t, dev, mustSet(t, regions...), 20, 20, driver.RowSpans)
		for _, n := range r.Counts {
			sum += n
		}
		for _, v := range r.Data[0] {
			if v == 0 {
				free++
			}
		}
		return sum, free
	}
	noticed := 0
	for i, r := range regions {
		n, _ := owned(r)
		if n == 0 {
			continue
		}
		noticed++
		if sum, _ := owned(append(regions[:len(regions):len(regions)], r)...); sum != 400+n {
			t.Errorf("triangle %d given twice: %d pixels are owned, want %d", i, sum, 400+n)
		}
		if _, free := owned(append(append([]Region{}, regions[:i]...), regions[i+1:]...)...); free != int(n) {
			t.Errorf("without triangle %d, %d pixels are free, want %d", i, free, n)
		}
	}
	if noticed < 5 {
		t.Errorf("only %d triangles have pixels", noticed)
	}
}

// TestExtents compares the host's two ways of scan conversion with each other and with drawing, on polygons that are
// larger than the oracle's: counts with no frame, bounds, and both through sweeps.
func TestExtents(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	cases := 600
	if testing.Short() {
		cases = 150
	}
	for seed := range cases {
		rng := testseed.New(t, uint64(seed), 6)
		const w, h = 300, 200
		var r Region
		switch rng.IntN(4) {
		case 3: // all edges from top to bottom, in another order there
			ring := make(Ring, 201)
			for i := range ring {
				ring[i] = Point{rng.Float64() * w, float64(1+i%2*(h-3)) + rng.Float64()}
			}
			r = Region{Rings: []Ring{ring}, Fill: FillRule(rng.IntN(2))}
		case 0: // spikes
			r = Region{Rings: []Ring{blob(rng, 3+rng.IntN(400), Point{150, 100}, 20+rng.Float64()*120)},
				Fill: FillRule(rng.IntN(2))}
		case 1: // edges that cross each other all over
			ring := make(Ring, 3+rng.IntN(40))
			for i := range ring {
				ring[i] = Point{rng.Float64() * w, rng.Float64() * h}
			}
			r = Region{Rings: []Ring{ring}, Fill: FillRule(rng.IntN(2))}
		case 2:
			r = randomRegion(rng, w, h)
		}
		// Outside of what is drawn on the left and above, too.
		dx, dy := float64(rng.IntN(200)), float64(rng.IntN(150))
		set := mustSet(t, r)
		edges, fill := set.edgesOf(0), set.regions[0].Fill
		moved := Region{Fill: r.Fill}
		for _, ring := range r.Rings {
			to := make(Ring, len(ring))
			for i, p := range ring {
				to[i] = Point{max(-4e6, min(4e6, float64(quantise(p.X))/256-dx)),
					max(-4e6, min(4e6, float64(quantise(p.Y))/256-dy))}
			}
			moved.Rings = append(moved.Rings, to)
		}
		movedSet := mustSet(t, moved)
		x := extent{ctx: t.Context(), steps: 1 << 40}
		x0, y0, x1, y1 := set.boxes[0].pixels()
		n, ok := x.pixels(edges, fill)
		if !ok {
			t.Fatalf("seed %d: ran out of steps", seed)
		}
		if y1-y0 < 10_000 {
			var swept uint64
			sweep(edges, y0, y1, func(y int, turns []turn) bool {
				row := rowTurns(nil, edges, y)
				if !reflect.DeepEqual(append([]turn(nil), turns...), row) {
					// Turns at one pixel have no order among them.
					count := map[turn]int{}
					for i := range row {
						count[row[i]]++
						count[turns[i]]--
						if row[i].p != turns[i].p {
							t.Fatalf("seed %d, row %d: turns %v, want %v", seed, y, turns, row)
						}
					}
					for k, c := range count {
						if c != 0 {
							t.Fatalf("seed %d, row %d: turn %v", seed, y, k)
						}
					}
				}
				spans(turns, fill, func(a, b int) { swept += uint64(b - a) })
				return true
			})
			if n != swept {
				t.Fatalf("seed %d: %d pixels in bands, %d in rows", seed, n, swept)
			}
		}
		if x0 >= 0 && y0 >= 0 && x1 <= w && y1 <= h {
			if drawn := rasterOf(t, dev, set, w, h, driver.RowSpans).Counts[0]; n != drawn {
				t.Fatalf("seed %d: %d pixels in bands, %d drawn", seed, n, drawn)
			}
		}
		for _, s := range []*Set{set, movedSet} {
			b, _ := boundsOf(s.edgesOf(0), fill, s.boxes[0], w, h, nil)
			mask := rasterOf(t, dev, s, w, h, driver.RowSpans)
			want := Rect{w, h, 0, 0}
			for i, v := range mask.Data[0] {
				if v != 0 {
					want = Rect{min(want.X0, i%w), min(want.Y0, i/w), max(want.X1, i%w+1), max(want.Y1, i/w+1)}
				}
			}
			if want.Empty() {
				want = Rect{}
			}
			if b != want {
				t.Fatalf("seed %d: bounds %v, want %v", seed, b, want)
			}
		}
	}
}

// TestExtentIsBounded: a region made to be slow stays unknown, in bounded time, and those after it too; what is cheap
// comes out however tall it is.
func TestExtentIsBounded(t *testing.T) {
	// Edges from side to side over all rows, each crossing all others.
	rng := testseed.New(t, 1, 7)
	star := make(Ring, 4001)
	for i := range star {
		star[i] = Point{rng.Float64()*8e6 - 4e6, 4e6 * float64(1-i%2*2)}
	}
	x := extent{ctx: context.Background(), steps: 1 << 20}
	set := mustSet(t, Region{Rings: []Ring{star}}, Region{Rings: []Ring{rectangle(-4e6, -4e6, 8e6, 8e6)}})
	if n, ok := x.pixels(set.edgesOf(0), driver.NonZero); ok {
		t.Errorf("%d pixels within 2^20 steps", n)
	}
	if _, ok := x.pixels(set.edgesOf(1), driver.NonZero); ok {
		t.Error("a budget that is spent goes on")
	}
	x.steps = 8
	if n, ok := x.pixels(set.edgesOf(1), driver.NonZero); !ok || n != 8e6*8e6 {
		t.Errorf("the largest square: %d, %v", n, ok)
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	x.ctx = canceled
	if _, ok := x.pixels(set.edgesOf(1), driver.NonZero); ok {
		t.Error("went on after the context ended")
	}
}
