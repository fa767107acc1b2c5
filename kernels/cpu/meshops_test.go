package cpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// The conformance suite has the cases of the ops from Voronoi diagrams to triangulations one by one; here is the way
// from sites to the exact triangulation, over all small sets and many large ones, arbitrary input, and its speed.

// way is the memory for diagrams of up to so many sites and pixels.
type way struct {
	*fixture
	ops *devicetest.MeshOps
}

func newWay(t testing.TB, threads, n, pixels int) *way {
	t.Helper()
	x := &device{threads: threads}
	scratch, err := x.Scratch(&driver.Flips{N: n})
	if err != nil {
		t.Fatal(err)
	}
	scratch = max(scratch, 8*int64(pixels)+1<<16) // of all methods but Grid
	f := newFixture(t, threads, 32*int64(n)+4*int64(pixels)+scratch+10*driver.Align)
	return &way{fixture: f, ops: devicetest.NewMeshOps(n, pixels, scratch, f.slice)}
}

// enqueue uploads the sites and enqueues all ops.
func (w *way) enqueue(d devicetest.Diagram, m driver.VoronoiMethod) (*devicetest.MeshOps, error) {
	ops := w.ops.Sized(len(d.Sites), d.Width, d.Height)
	ops.Voronoi.Method = m
	return ops, errors.Join(w.s.Upload(ops.Voronoi.Sites, [][]byte{bytesOf(d.Sites)}), ops.Run(w.s))
}

// went is what came of a way.
type went struct {
	triangles []driver.Triangle
	islands   uint32
	counts    driver.MeshCounts
	status    driver.FlipStatus
}

func (w *way) run(d devicetest.Diagram, m driver.VoronoiMethod) (r went, err error) {
	var islands [1]uint32
	var counts [1]driver.MeshCounts
	var status [1]driver.FlipStatus
	r.triangles = make([]driver.Triangle, 2*len(d.Sites))
	ops, err := w.enqueue(d, m)
	err = errors.Join(err,
		w.s.Download(bytesOf(islands[:]), ops.Islands.Count),
		w.s.Download(bytesOf(counts[:]), ops.Flips.Counts),
		w.s.Download(bytesOf(status[:]), ops.Flips.Status),
		w.s.Download(bytesOf(r.triangles), ops.Flips.Triangles),
		w.s.Wait(context.Background()),
	)
	r.islands, r.counts, r.status = islands[0], counts[0], status[0]
	r.triangles = r.triangles[:min(int(r.counts.Triangles), len(r.triangles))]
	return r, err
}

// check reports what is wrong.
func (w *way) check(d devicetest.Diagram, m driver.VoronoiMethod) (went, error) {
	r, err := w.run(d, m)
	if err == nil && !r.status.Delaunay(len(r.triangles)) {
		err = fmt.Errorf("%+v of %+v", r.status, r.counts)
	}
	if err == nil {
		err = devicetest.CheckTriangles(d.Sites, r.triangles)
	}
	return r, err
}

// Every set of pixels of small images, in random order.
func TestMeshOfAllSmallSets(t *testing.T) {
	sizes := [][2]int{{1, 1}, {1, 7}, {8, 1}, {2, 5}, {3, 3}, {4, 3}, {3, 4}}
	if !testing.Short() && !race.Enabled {
		sizes = append(sizes, [2]int{7, 2}, [2]int{1, 13})
	}
	w := newWay(t, 1, 14, 14)
	r := seed.New(t, 3, 4)
	for _, size := range sizes {
		d := devicetest.Diagram{Width: size[0], Height: size[1]}
		for set := range 1 << (d.Width * d.Height) {
			d.Sites = d.Sites[:0]
			for i := range d.Width * d.Height {
				if set>>i&1 == 1 {
					d.Sites = append(d.Sites, driver.Point{X: int32(i % d.Width), Y: int32(i / d.Width)})
				}
			}
			r.Shuffle(len(d.Sites), func(i, j int) { d.Sites[i], d.Sites[j] = d.Sites[j], d.Sites[i] })
			if _, err := w.check(d, driver.Banding); err != nil {
				t.Fatalf("%v in %dx%d: %v", d.Sites, d.Width, d.Height, err)
			}
		}
	}
}

func TestMeshProperty(t *testing.T) {
	w := newWay(t, 2, 400, 200*200)
	rapid.Check(t, func(t *rapid.T) {
		d := devicetest.Diagram{Width: rapid.IntRange(1, 200).Draw(t, "width"),
			Height: rapid.IntRange(1, 200).Draw(t, "height")}
		d.Sites = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) driver.Point {
			return driver.Point{X: rapid.Int32Range(0, int32(d.Width)-1).Draw(t, "x"),
				Y: rapid.Int32Range(0, int32(d.Height)-1).Draw(t, "y")}
		}), 0, 400).Draw(t, "sites")
		if _, err := w.check(d, driver.Banding); err != nil {
			t.Fatal(err)
		}
		// Labels that flood may be wrong. The triangulation is right, or the status says that it isn't.
		r, err := w.run(d, driver.JumpFlood)
		if err != nil {
			t.Fatal(err)
		}
		if r.status.Delaunay(len(r.triangles)) {
			if err := devicetest.CheckTriangles(d.Sites, r.triangles); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Large diagrams of several kinds; also that threads change nothing.
func TestMeshLarge(t *testing.T) {
	side, n := 2048, 100_000
	if testing.Short() || race.Enabled {
		side, n = 512, 6000
	}
	r := seed.New(t, 5, 6)
	at := func(x, y float64) driver.Point {
		return driver.Point{X: int32(min(max(x, 0), float64(side-1))), Y: int32(min(max(y, 0), float64(side-1)))}
	}
	for name, next := range map[string]func() driver.Point{
		"uniform": func() driver.Point { return at(r.Float64()*float64(side), r.Float64()*float64(side)) },
		"sparse":  func() driver.Point { return at(r.Float64()*float64(side), r.Float64()*float64(side)) },
		"Gaussian": func() driver.Point {
			return at(float64(side)*(0.5+0.1*r.NormFloat64()), float64(side)*(0.5+0.1*r.NormFloat64()))
		},
		"a band": func() driver.Point { x := r.Float64() * float64(side); return at(x, x/3+r.NormFloat64()*3) },
		"a circle": func() driver.Point {
			x, y := r.NormFloat64(), r.NormFloat64()
			k := float64(side) * 0.45 / max(1e-9, math.Hypot(x, y))
			return at(float64(side)/2+x*k, float64(side)/2+y*k)
		},
		"two corners": func() driver.Point {
			c := float64(r.IntN(2) * (side - 1))
			return at(c+30*r.NormFloat64(), c+30*r.NormFloat64())
		},
	} {
		d := devicetest.Diagram{Width: side, Height: side}
		count := n
		if name == "sparse" {
			count = n / 100
		}
		for range count {
			d.Sites = append(d.Sites, next())
		}
		var first went
		for _, threads := range []int{2, 1} {
			w := newWay(t, threads, count, side*side)
			got, err := w.check(d, driver.Banding)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if threads == 2 {
				first = got
				t.Logf("%s: %d sites, %d pixels of islands, %d edges on the border, %d of the hull, %d flips in %d rounds",
					name, got.counts.Sites, got.islands, got.counts.Border, got.counts.Hull, got.status.Flips,
					got.status.Rounds)
			} else if got.status != first.status ||
				devicetest.CompareMesh("Flips", got.triangles, first.triangles, got.counts, first.counts) != nil {
				t.Errorf("%s: %+v with one thread, %+v with two", name, got.status, first.status)
			}
		}
	}
}

func FuzzMesh(f *testing.F) {
	for _, d := range devicetest.Diagrams(1, 4, 4000) {
		var b []byte
		for _, p := range d.Sites {
			b = append(b, byte(p.X), byte(p.Y))
		}
		f.Add(b, uint8(d.Width), uint8(d.Height))
	}
	f.Fuzz(func(t *testing.T, b []byte, width, height uint8) {
		d := devicetest.Diagram{Width: 1 + int(width), Height: 1 + int(height)}
		for i := 0; i+1 < min(len(b), 1000); i += 2 {
			d.Sites = append(d.Sites, driver.Point{X: int32(b[i]) % int32(d.Width), Y: int32(b[i+1]) % int32(d.Height)})
		}
		if _, err := newWay(t, 2, len(d.Sites), d.Width*d.Height).check(d, driver.Banding); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzFlips gives Flips any triangles.
func FuzzFlips(f *testing.F) {
	f.Add([]byte{0, 0, 9, 0, 0, 9, 8, 8}, []byte{0, 1, 2, 1, 3, 2}, uint8(4))
	f.Add([]byte{0, 0, 9, 0, 0, 9, 8, 8}, []byte{0, 1, 2, 0, 1, 2, 2, 1, 0}, uint8(3))
	f.Fuzz(func(t *testing.T, coordinates, corners []byte, sites uint8) {
		var points []driver.Point
		for i := 0; i+1 < len(coordinates); i += 2 {
			points = append(points, driver.Point{X: int32(coordinates[i]), Y: int32(coordinates[i+1])})
		}
		n := len(points)
		triangles := make([]driver.Triangle, min(len(corners)/3, 2*n))
		for i := range triangles {
			triangles[i] = driver.Triangle{A: uint32(corners[3*i]), B: uint32(corners[3*i+1]),
				C: uint32(corners[3*i+2])}
		}
		w := newWay(t, 2, n, 1)
		counts := []driver.MeshCounts{{Triangles: uint32(len(triangles)), Sites: uint32(sites)}}
		ops := w.ops.Sized(n, 1, 1)
		in := ops.Flips.Triangles
		in.Len = int64(12 * len(triangles))
		got, status := make([]driver.Triangle, len(triangles)), make([]driver.FlipStatus, 1)
		w.ok(errors.Join(
			w.s.Upload(ops.Flips.Points, [][]byte{bytesOf(points)}), w.s.Upload(ops.Flips.Counts, [][]byte{bytesOf(counts)}),
			w.s.Upload(in, [][]byte{bytesOf(triangles)}), w.s.Run(&ops.Flips),
			w.s.Download(bytesOf(got), in), w.s.Download(bytesOf(status), ops.Flips.Status),
		))
		w.wait()
		if d := devicetest.CompareFlaws(status[0], devicetest.MeshFlaws(points, triangles, int(sites))); d != nil {
			t.Fatal(d)
		}
		distinct := map[driver.Point]bool{}
		for _, p := range points {
			distinct[p] = true
		}
		if status[0].Delaunay(len(got)) && len(distinct) == int(sites) && len(distinct) == n {
			if err := devicetest.CheckTriangles(points, got); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func BenchmarkMesh(b *testing.B) {
	r := seed.New(b, 1, 2)
	for _, n := range []int{100_000, 1_000_000} {
		d := devicetest.Diagram{Width: 4096, Height: 4096}
		for range n {
			d.Sites = append(d.Sites, driver.Point{X: r.Int32N(4096), Y: r.Int32N(4096)})
		}
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("sites=%d/threads=%d", n, threads), func(b *testing.B) {
				w := newWay(b, threads, n, 4096*4096)
				for b.Loop() {
					if _, err := w.enqueue(d, driver.Banding); err != nil {
						b.Fatal(err)
					}
					w.wait()
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mpoints/s")
			})
		}
	}
}
