package cpu

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// The conformance suite has the cases of Voronoi; here are arbitrary input, agreement at size, and its speed.

func newDiagram(t testing.TB, threads int, d devicetest.Diagram, m driver.VoronoiMethod) (*fixture, driver.Voronoi) {
	t.Helper()
	x := &device{threads: threads}
	n := int64(len(d.Sites))
	scratch, err := x.Scratch(&driver.Voronoi{N: len(d.Sites), Width: d.Width, Height: d.Height, Method: m})
	if err != nil {
		t.Fatal(err)
	}
	labels := 4 * int64(d.Width) * int64(d.Height)
	f := newFixture(t, threads, 8*n+labels+scratch+3*driver.Align)
	return f, driver.Voronoi{
		Sites: f.upload(bytesOf(d.Sites)), N: len(d.Sites), Width: d.Width, Height: d.Height, Method: m,
		Labels: f.slice(labels), Scratch: f.slice(scratch),
	}
}

func FuzzVoronoi(f *testing.F) {
	for _, d := range devicetest.Diagrams(1, 4, 4000) {
		var b []byte
		for _, p := range d.Sites {
			b = append(b, byte(p.X), byte(p.Y))
		}
		f.Add(b, uint8(d.Width), uint8(d.Height))
	}
	f.Fuzz(func(t *testing.T, b []byte, w, h uint8) {
		d := devicetest.Diagram{Width: 1 + int(w), Height: 1 + int(h)}
		for i := 0; i+1 < min(len(b), 400); i += 2 {
			d.Sites = append(d.Sites, driver.Point{X: int32(b[i]) % int32(d.Width), Y: int32(b[i+1]) % int32(d.Height)})
		}
		want := devicetest.NearestSites(d.Sites, d.Width, d.Height)
		for _, m := range []driver.VoronoiMethod{driver.Banding, driver.Grid} {
			x, op := newDiagram(t, 2, d, m)
			x.ok(x.s.Run(&op))
			if diff := devicetest.CompareLabels(download[uint32](x, op.Labels), want, d.Width); diff != nil {
				t.Fatalf("%v: %v", m, diff)
			}
		}
	})
}

// Two exact methods that share nothing agree on a large diagram.
func TestVoronoiMethodsAgree(t *testing.T) {
	side, n := 2048, 20_000
	if testing.Short() || race.Enabled {
		side, n = 512, 1500
	}
	r := seed.New(t, 1, 2)
	d := devicetest.Diagram{Width: side, Height: side - 7}
	for range n {
		d.Sites = append(d.Sites, driver.Point{X: r.Int32N(int32(d.Width)), Y: r.Int32N(int32(d.Height))})
	}
	var got [2][]uint32
	for i, m := range []driver.VoronoiMethod{driver.Banding, driver.Grid} {
		f, op := newDiagram(t, 1+i, d, m)
		f.ok(f.s.Run(&op))
		got[i] = download[uint32](f, op.Labels)
	}
	if diff := devicetest.CompareLabels(got[0], got[1], d.Width); diff != nil {
		t.Error(diff)
	}
}

func BenchmarkVoronoi(b *testing.B) {
	r := seed.New(b, 1, 2)
	for _, size := range []struct{ w, h, n int }{{1920, 1080, 2500}, {1920, 1080, 20_000}, {4096, 4096, 100_000}} {
		d := devicetest.Diagram{Width: size.w, Height: size.h}
		for range size.n {
			d.Sites = append(d.Sites, driver.Point{X: r.Int32N(int32(size.w)), Y: r.Int32N(int32(size.h))})
		}
		for _, m := range []driver.VoronoiMethod{driver.Banding, driver.Grid, driver.JumpFlood} {
			if m == driver.JumpFlood && size.w > 2000 {
				continue // seconds
			}
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%dx%d/sites=%d/%v/threads=%d", size.w, size.h, size.n, m, threads),
					func(b *testing.B) {
						f, op := newDiagram(b, threads, d, m)
						for b.Loop() {
							if err := errors.Join(f.s.Run(&op), f.s.Wait(context.Background())); err != nil {
								b.Fatal(err)
							}
						}
						b.ReportMetric(float64(size.w*size.h)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mpx/s")
					})
			}
		}
	}
}
