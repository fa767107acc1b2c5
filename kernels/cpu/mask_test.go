package cpu

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// small makes an op split, band and choose as it does for large input, until the test ends.
func small(t testing.TB) {
	a, b, c, d, e, f := partCost, activeEdges, activeCrossings, bandKeys, denseShift, minTaskPixels
	t.Cleanup(func() { partCost, activeEdges, activeCrossings, bandKeys, denseShift, minTaskPixels = a, b, c, d, e, f })
	partCost, minTaskPixels = 20, 8
}

// shuffle picks other ways through the row spans.
func shuffle(rng *rand.Rand) {
	activeEdges = []int{0, 1 << 16}[rng.IntN(2)]
	activeCrossings = []int{1, 128}[rng.IntN(2)]
	bandKeys = []int{1, 40, 1 << 18}[rng.IntN(3)]
	denseShift = []int{0, 9}[rng.IntN(2)]
}

// job is one case: regions, an image and how they are reduced.
type job struct {
	regions driver.MaskRegions
	image   picture
	what    driver.MaskWhat
	first   int
	count   int
	strips  []int // rows of each strip, adding up to the height; nil for the whole frame at once
	level   level
	method  driver.Method
}

func (j job) edges(i int) []driver.Edge {
	g := j.regions.Regions[i]
	return j.regions.Edges[g.First : g.First+g.Count]
}

func (j job) String() string {
	return fmt.Sprintf("%v %v %dx%d stride %d %+v what %04b regions [%d,+%d) strips %v\n%v\n%v",
		j.level, j.method, j.image.width, j.image.height, j.image.stride, j.image.format, j.what, j.first, j.count,
		j.strips,
		j.regions.Regions, j.regions.Edges)
}

// run computes a job on the device.
func (j job) run(f *fixture) []result {
	f.t.Helper()
	f.reset()
	if old := simd; j.level != old { // no write where jobs run side by side
		simd = j.level
		defer func() { simd = old }()
	}
	p := j.image
	prepared := f.prepare(j.regions, p.width, p.height, j.method)
	op := driver.MaskReduce{
		Prepared: prepared, First: j.first, Count: j.count, What: j.what,
		Frame: driver.Image{Width: p.width, Stride: p.stride, Format: p.format},
	}
	f.outputs(&op)
	f.ok(f.s.Run(&driver.Fill{Dst: op.Stats, Value: 0xa5})) // what is there before must not matter
	if op.Hist.Len > 0 {
		f.ok(f.s.Run(&driver.Fill{Dst: op.Hist, Value: 0xa5}))
	}
	strips := j.strips
	if strips == nil {
		strips = []int{p.height}
	}
	y := 0
	for _, rows := range strips {
		// Each strip is in memory of its own, at an address that is no better aligned than it must be.
		odd := int64(y % 7 * int(p.format.SampleBytes))
		bytes := int64((rows-1)*p.stride + p.width*p.format.PixelBytes())
		s := f.slice(odd + bytes)
		s.Off, s.Len = s.Off+odd, bytes
		f.ok(f.s.Upload(s, [][]byte{p.data[int64(y*p.stride) : int64(y*p.stride)+bytes]}))
		op.Frame.Data, op.Frame.Height, op.Row0, op.Accumulate = s, rows, y, y > 0
		strip := op
		f.ok(f.s.Run(&strip))
		y += rows
	}
	stats := download[driver.MaskStats](f, op.Stats)
	hist := download[uint32](f, op.Hist)
	channels, levels := int(p.format.Channels), p.format.Levels()
	var out []result
	for i := range j.count {
		r := result{stats: stats[i*channels : (i+1)*channels]}
		if j.what&driver.MaskHistogram != 0 {
			for c := range channels {
				r.hist = append(r.hist, hist[(i*channels+c)*levels:][:levels])
			}
		}
		out = append(out, r)
	}
	return out
}

func (j job) masks() [][][]bool {
	var m [][][]bool
	for i := j.first; i < j.first+j.count; i++ {
		m = append(m, oracleMask(j.edges(i), j.regions.Regions[i].Fill, j.image.width, j.image.height))
	}
	return m
}

func (j job) want(masks [][][]bool) []result {
	var out []result
	for _, m := range masks {
		out = append(out, oracleReduce(m, j.image, j.what))
	}
	return out
}

var formats = []driver.PixelFormat{
	driver.Gray8, driver.RGB8, driver.BGR8, driver.RGBA8,
	driver.Gray16(8), driver.Gray16(10), driver.Gray16(12), driver.Gray16(14), driver.Gray16(16),
	{Channels: 2, SampleBytes: 1, Bits: 8, Order: [4]uint8{1, 0}},
	{Channels: 4, SampleBytes: 1, Bits: 8, Order: [4]uint8{3, 0, 2, 1}},
}

func randomPicture(rng *rand.Rand, width, height int, format driver.PixelFormat) picture {
	p := picture{width: width, height: height, format: format}
	p.stride = width*format.PixelBytes() + rng.IntN(4)*int(format.SampleBytes)
	p.data = make([]byte, p.stride*height)
	kind := rng.IntN(4)
	for i := range p.data {
		switch kind {
		case 0:
			p.data[i] = byte(rng.Uint32())
		case 1: // ties of extrema
			p.data[i] = byte(7 + rng.IntN(3))
		case 2: // 16-bit samples mostly within their bits
			p.data[i] = byte(rng.Uint32())
			if i%2 == 1 && rng.IntN(50) > 0 {
				p.data[i] &= byte(format.Levels()>>8 - 1)
			}
		case 3: // constant
			p.data[i] = 200
		}
	}
	return p
}

// randomRing makes a ring of one of the kinds that geometry comes in.
func randomRing(rng *rand.Rand, width, height int) []point {
	w, h := int32(width)*256, int32(height)*256
	around := func(n int32) int32 { return rng.Int32N(2*n+1) - n/2 } // from -n/2 to 3n/2
	grid := []int32{1, 1, 64, 128, 256}[rng.IntN(5)]
	snap := func(v int32) int32 {
		if grid == 256 { // on pixel centres
			return v&^255 | 128
		}
		return v / grid * grid
	}
	pts := make([]point, 3+rng.IntN(8))
	for i := range pts {
		pts[i] = point{snap(around(w)), snap(around(h))}
	}
	switch rng.IntN(12) {
	case 0: // repeated vertices
		pts = append(pts, pts[len(pts)-1], pts[0])
	case 1: // collinear vertices
		a, b := pts[0], pts[1]
		pts = []point{a, {(a.x + b.x) / 2, (a.y + b.y) / 2}, b, pts[2]}
	case 2: // zero area
		pts = []point{pts[0], pts[1], pts[0], pts[1]}
	case 3: // a spike
		pts = []point{pts[0], {pts[0].x + w, pts[0].y + rng.Int32N(3)}, {pts[0].x, pts[0].y + rng.Int32N(3)}}
	case 4: // far outside
		dx, dy := (rng.Int32N(3)-1)*4*w, (rng.Int32N(3)-1)*4*h
		for i := range pts {
			pts[i].x += dx
			pts[i].y += dy
		}
	case 5: // covers the frame, on its very border or beyond
		m := rng.Int32N(2) * 300
		pts = []point{{-m, -m}, {w + m, -m}, {w + m, h + m}, {-m, h + m}}
	case 6: // coordinates as large as can be
		for i := range pts {
			switch rng.IntN(3) {
			case 0:
				pts[i].x = (rng.Int32N(3) - 1) * driver.MaxCoord
			case 1:
				pts[i].y = (rng.Int32N(3) - 1) * driver.MaxCoord
			}
		}
	case 7: // a rectangle
		a, b := pts[0], pts[1]
		pts = []point{a, {b.x, a.y}, b, {a.x, b.y}}
	case 8: // twice around: winding 2
		pts = append(pts, pts...)
	case 9: // a point, or a horizontal line
		for i := range pts {
			pts[i].y = pts[0].y
		}
	case 10: // a comb, with many crossings in a row
		n := 2 + rng.IntN(40)
		pts = pts[:0]
		for i := range n {
			pts = append(pts, point{snap(int32(i) * w / int32(n)), int32(i&1) * h})
		}
		pts = append(pts, point{w, h + 512})
	}
	if rng.IntN(2) == 0 {
		slices.Reverse(pts)
	}
	return pts
}

func randomRegions(rng *rand.Rand, width, height int) driver.MaskRegions {
	var r driver.MaskRegions
	for range 1 + rng.IntN(4) {
		var edges []driver.Edge
		for range 1 + rng.IntN(3) {
			edges = ring(edges, randomRing(rng, width, height)...)
		}
		if rng.IntN(20) == 0 {
			edges = nil
		}
		add(&r, driver.FillRule(rng.IntN(2)), edges)
	}
	return r
}

func randomJob(rng *rand.Rand, most int) job {
	width, height := 1+rng.IntN(most), 1+rng.IntN(most)
	j := job{
		regions: randomRegions(rng, width, height),
		image:   randomPicture(rng, width, height, formats[rng.IntN(len(formats))]),
		what:    driver.MaskSums | driver.MaskWhat(rng.IntN(8))<<1,
		level:   level(rng.IntN(int(bestLevel) + 1)),
		method:  driver.Method(rng.IntN(int(driver.RowSpans) + 1)),
	}
	n := len(j.regions.Regions)
	j.first = rng.IntN(n)
	j.count = 1 + rng.IntN(n-j.first)
	if rng.IntN(2) == 0 {
		j.first, j.count = 0, n
	}
	if rng.IntN(2) == 0 {
		for left := height; left > 0; {
			rows := 1 + rng.IntN(left)
			j.strips = append(j.strips, rows)
			left -= rows
		}
	}
	return j
}

var allMethods = []driver.Method{
	driver.MethodDefault, driver.Naive, driver.Tiled, driver.EdgeFiltered, driver.TiledEdgeFiltered, driver.RowSpans,
}

// TestMaskRandom holds random cases against the oracle: reductions by the case's method, then the masks of all
// methods.
func TestMaskRandom(t *testing.T) {
	small(t)
	n := cases(12_000)
	fixtures := []*fixture{newFixture(t, 1, 8<<20), newFixture(t, 2, 8<<20), newFixture(t, 3, 8<<20)}
	for i := range n {
		rng := seed.New(t, uint64(i), 77)
		shuffle(rng)
		most := 12
		if i%50 == 0 {
			most = 100 // several tiles
		}
		j := randomJob(rng, most)
		f := fixtures[rng.IntN(len(fixtures))]
		masks := j.masks()
		if d := differ(j.run(f), j.want(masks)); d != "" {
			t.Fatalf("case %d, %d threads: %s\n%v", i, f.dev.Info().ComputeUnits, d, j)
		}
		for _, m := range allMethods {
			mask, labels := rasterOf(f, j, m)
			for y := range j.image.height {
				for x := range j.image.width {
					want := uint16(0)
					for k := range masks {
						if masks[k][y][x] {
							want = uint16(j.first + k + 1)
						}
					}
					at := y*j.image.width + x
					if labels[at] != want || (mask[at] == 255) != (want > 0) || mask[at] != 0 && mask[at] != 255 {
						t.Fatalf("case %d, %v, pixel (%d, %d): mask %d, label %d, want %d\n%v", i, m, x, y, mask[at],
							labels[at], want, j)
					}
				}
			}
		}
	}
}

// rasterOf returns the mask and the labels of a job's regions.
func rasterOf(f *fixture, j job, m driver.Method) (mask []byte, labels []uint16) {
	f.t.Helper()
	f.reset()
	w, h := j.image.width, j.image.height
	op := driver.MaskRaster{
		Prepared: f.prepare(j.regions, w, h, m), First: j.first, Count: j.count,
		Dst: driver.Image{Data: f.slice(int64(w * h)), Width: w, Height: h, Stride: w, Format: driver.Gray8},
	}
	f.ok(f.s.Run(&op))
	mask = download[byte](f, op.Dst.Data)
	op.Mode = driver.RasterLabels
	op.Dst = driver.Image{Data: f.slice(int64(2 * w * h)), Width: w, Height: h, Stride: 2 * w,
		Format: driver.Gray16(16)}
	f.ok(f.s.Run(&op))
	return mask, download[uint16](f, op.Dst.Data)
}

// TestDifferRed shows that the comparison sees each field of a result.
func TestDifferRed(t *testing.T) {
	want := []result{{stats: make([]driver.MaskStats, 2), hist: [][]uint32{make([]uint32, 4), make([]uint32, 4)}}}
	changes := map[string]func(r *result){
		"Count":       func(r *result) { r.stats[1].Count++ },
		"Sum":         func(r *result) { r.stats[0].Sum++ },
		"SumSq":       func(r *result) { r.stats[1].SumSq++ },
		"MinKey":      func(r *result) { r.stats[1].MinKey++ },
		"MaxKey":      func(r *result) { r.stats[1].MaxKey-- },
		"SumX":        func(r *result) { r.stats[1].SumX++ },
		"SumY":        func(r *result) { r.stats[1].SumY++ },
		"SumVX":       func(r *result) { r.stats[1].SumVX++ },
		"SumVY":       func(r *result) { r.stats[1].SumVY++ },
		"hist":        func(r *result) { r.hist[1][3]++ },
		"hist length": func(r *result) { r.hist[1] = r.hist[1][:3] },
		"hists":       func(r *result) { r.hist = r.hist[:1] },
		"channels":    func(r *result) { r.stats = r.stats[:1] },
	}
	clone := func() []result {
		return []result{{stats: slices.Clone(want[0].stats),
			hist: [][]uint32{slices.Clone(want[0].hist[0]), slices.Clone(want[0].hist[1])}}}
	}
	if d := differ(clone(), want); d != "" {
		t.Errorf("equal results differ: %s", d)
	}
	if differ(nil, want) == "" {
		t.Error("no results equal some")
	}
	for name, change := range changes {
		got := clone()
		change(&got[0])
		if differ(got, want) == "" {
			t.Errorf("a change of %s is not seen", name)
		}
	}
}

// TestMaskWide has spans that are longer than a chunk.
func TestMaskWide(t *testing.T) {
	small(t)
	f := newFixture(t, 2, 16<<20)
	rng := seed.New(t, 4, 4)
	const width, height = 40_000, 3
	var r driver.MaskRegions
	add(&r, driver.NonZero,
		ring(nil, point{-9, -9}, point{width * 256, 100}, point{width*256 - 700, 900}, point{300, 800}))
	add(&r, driver.EvenOdd,
		ring(ring(nil, point{128, 0}, point{5000 * 256, 0}, point{5000 * 256, 700}, point{128, 700}),
			point{999, 0}, point{39_000 * 256, 10}, point{39_000 * 256, 700}, point{1200, 700}))
	var masks [][][]bool
	for i, format := range formats {
		if race.Enabled && i > 1 {
			break
		}
		for _, l := range levels() {
			j := job{
				regions: r, image: randomPicture(rng, width, height, format), count: 2, level: l,
				method: driver.RowSpans,
				what:   driver.MaskSums | driver.MaskExtrema | driver.MaskMoments | driver.MaskHistogram,
			}
			if masks == nil {
				masks = j.masks()
			}
			if d := differ(j.run(f), j.want(masks)); d != "" {
				t.Errorf("%v %+v: %s", l, format, d)
			}
		}
	}
}

// TestMaskManyCrossings takes the ways of rows with many crossings through bands of bounded memory.
func TestMaskManyCrossings(t *testing.T) {
	race.Skip(t)
	small(t)
	f := newFixture(t, 1, 64<<20)
	rng := seed.New(t, 6, 6)
	const width, height = 700, 90
	pts := make([]point, 3000)
	for i := range pts {
		pts[i] = point{rng.Int32N(width * 256), int32(i&1)*height*256 + rng.Int32N(2000) - 1000}
	}
	j := job{regions: one(driver.EvenOdd, ring(nil, pts...)), image: randomPicture(rng, width, height, driver.Gray8),
		count: 1, what: driver.MaskSums}
	var want []byte
	for _, way := range []struct {
		edges, crossings, keys, shift int
		method                        driver.Method
	}{
		{0, 0, 0, 0, driver.EdgeFiltered}, {1 << 16, 1 << 20, 1, 0, driver.RowSpans},
		{0, 0, 1, 0, driver.RowSpans}, {0, 0, 1 << 13, 0, driver.RowSpans}, {0, 0, 1 << 18, -1, driver.RowSpans},
	} {
		activeEdges, activeCrossings, bandKeys, denseShift = way.edges, way.crossings, way.keys, max(0, way.shift)
		if way.shift < 0 { // sort, however many
			activeEdges, denseShift = 0, 0
		}
		got, _ := rasterOf(f, j, way.method)
		if want == nil {
			want = got
			continue
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: other pixels than %v has", way, driver.EdgeFiltered)
		}
	}
	// Memory of a worker does not grow with the crossings.
	var s rowScratch
	bandKeys = 1 << 12
	out := newSpanWriter(make([]span, 1<<16))
	if err := s.buckets(&out, j.edges(0), driver.EvenOdd, width, 0, height, &pace{stop: new(stopFlag)}); err != nil {
		t.Fatal(err)
	}
	if n := cap(s.keys); n > max(bandKeys, 2*len(pts)) {
		t.Errorf("%d crossings are held at a time; a row has at most %d", n, len(pts))
	}
}

// TestMaskOpenRings: edges that don't close must be refused or cut off, not written out of bounds.
func TestMaskOpenRings(t *testing.T) {
	small(t)
	for _, threads := range []int{1, 3} {
		f := newFixture(t, threads, 8<<20)
		for i := range cases(2000) {
			rng := seed.New(t, uint64(i), 99)
			shuffle(rng)
			f.reset()
			r := randomRegions(rng, 50, 50)
			for k := range r.Edges {
				if rng.IntN(3) == 0 {
					r.Edges[k] = driver.Edge{X0: int32(rng.Uint32()), Y0: int32(rng.Uint32()), X1: int32(rng.Uint32()),
						Y1: int32(rng.Uint32())}
				}
			}
			n, err := f.dev.Scratch(&driver.MaskPrepare{Regions: r, Width: 50, Height: 50, Method: driver.RowSpans})
			f.ok(err)
			dst := f.slice(n)
			guard := driver.Slice{Mem: dst.Mem, Off: dst.Off + n, Len: 1024}
			f.ok(f.s.Run(&driver.Fill{Dst: guard, Value: 0x5a}))
			f.ok(f.s.Run(&driver.MaskPrepare{Regions: r, Width: 50, Height: 50,
				Method: allMethods[rng.IntN(len(allMethods))], Dst: dst}))
			_ = f.s.Wait(context.Background()) // refused or not, as it happens
			for _, b := range download[byte](f, guard) {
				if b != 0x5a {
					t.Fatalf("case %d: written past the end", i)
				}
			}
		}
	}
}
