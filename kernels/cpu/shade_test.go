package cpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// The conformance suite compares Shade with its definition; here are arbitrary triangles, large meshes, and its speed.

// newShading triangulates points and lays out a Shade of a picture.
func newShading(t testing.TB, threads int, p *devicetest.Picture, points []driver.Point,
	m driver.ShadeMethod) (*fixture, driver.Shade) {
	t.Helper()
	n, k := len(points), p.Format.PixelBytes()
	x := &device{threads: threads}
	triangulation, err := x.Scratch(&driver.Triangulate{N: n})
	if err != nil {
		t.Fatal(err)
	}
	scratch, err := x.Scratch(&driver.Shade{Max: 2 * n, Src: driver.Image{Width: p.Width, Height: p.Height}, Method: m})
	if err != nil {
		t.Fatal(err)
	}
	// with room for a Hold of it
	f := newFixture(t, threads, int64(3*len(p.Pixels)+(32+2*k)*n)+scratch+triangulation+10*driver.Align)
	op := driver.Shade{
		Src: p.Image(f.upload(p.Pixels)), Dst: p.Image(f.slice(int64(len(p.Pixels)))),
		Points: f.upload(bytesOf(points)), N: n,
		Triangles: f.slice(24 * int64(n)), Count: f.slice(4), Max: 2 * n, Colors: f.slice(2 * int64(n*k)), Method: m,
		Scratch: f.slice(scratch),
	}
	f.ok(f.s.Run(&driver.Fill{Dst: op.Dst.Data, Value: 0}))
	f.ok(f.s.Run(&driver.Triangulate{Points: op.Points, N: n, Triangles: op.Triangles, Count: op.Count,
		Scratch: f.slice(triangulation)}))
	f.wait()
	return f, op
}

func photo(w, h int, format driver.PixelFormat) *devicetest.Picture {
	n := format.PixelBytes()
	return &devicetest.Picture{Width: w, Height: h, Stride: w * n, Format: format, Pixels: texture(w * h * n)}
}

// scattered is the corners of an image and n points in it.
func scattered(n, w, h int) []driver.Point {
	r := rand.New(rand.NewPCG(uint64(n), uint64(w)))
	points := []driver.Point{{}, {X: int32(w)}, {Y: int32(h)}, {X: int32(w), Y: int32(h)}}
	for range n {
		points = append(points, driver.Point{X: r.Int32N(int32(w) + 1), Y: r.Int32N(int32(h) + 1)})
	}
	return points
}

// A triangulation with the corners covers each pixel once, whatever the sizes of its triangles.
func TestShadeCoversOnce(t *testing.T) {
	for _, n := range []int{0, 1, 10, 300, 20_000} {
		p := photo(257, 130, driver.RGB8)
		f, op := newShading(t, 1, p, scattered(n, p.Width, p.Height), driver.PerTriangle)
		v := &shading{Shade: &op, points: download[driver.Point](f, op.Points),
			triangles: download[driver.Triangle](f, op.Triangles)}
		covered := make([]int, p.Width*p.Height)
		for i := range download[uint32](f, op.Count)[0] {
			for y, s := range v.spans(int(i), 0, p.Height) {
				for x := s.lo; x < s.hi; x++ {
					covered[y*p.Width+x]++
				}
			}
		}
		for i, k := range covered {
			if k != 1 {
				t.Fatalf("%d points: %d triangles cover pixel (%d, %d)", n, k, i%p.Width, i/p.Width)
			}
		}
	}
}

// Both methods give the same, on one thread and on several, also where the lists of tiles are made in several runs:
// long thin triangles touch many tiles.
func TestShadeMethodsAgree(t *testing.T) {
	p := photo(700, 500, driver.RGB8)
	needles := []driver.Point{{}, {X: 700}, {Y: 500}, {X: 700, Y: 500}}
	for i := range int32(200) {
		needles = append(needles, driver.Point{X: 0, Y: 2*i + 1}, driver.Point{X: 700, Y: 499 - 2*i})
	}
	for _, points := range [][]driver.Point{scattered(50, 700, 500), scattered(5000, 700, 500), needles} {
		var want, wantColors []byte
		for _, m := range []driver.ShadeMethod{driver.PerTriangle, driver.PerTile} {
			for _, threads := range []int{1, 3} {
				f, op := newShading(t, threads, p, points, m)
				f.ok(f.s.Run(&op))
				got, colors := download[byte](f, op.Dst.Data), download[byte](f, op.Colors)
				colors = colors[:3*download[uint32](f, op.Count)[0]]
				if want == nil {
					want, wantColors = got, colors
				}
				if !bytes.Equal(got, want) || !bytes.Equal(colors, wantColors) {
					t.Errorf("%d points: %v by %d threads differs", len(points), m, threads)
				}
			}
		}
	}
}

// Edges agree with the rule over the whole range of coordinates, wherever a walk begins.
func TestWalk(t *testing.T) {
	r := seed.New(t, 1, 9)
	for range 2000 {
		bits := 1 + r.IntN(20)
		a := driver.Point{X: r.Int32N(1<<bits + 1), Y: r.Int32N(1 << bits)}
		b := driver.Point{X: r.Int32N(1<<bits + 1), Y: a.Y + 1 + r.Int32N(1<<bits-a.Y)}
		y := int(a.Y + r.Int32N(b.Y-a.Y))
		w := walk(a, b, y)
		for ; y < min(int(b.Y), int(a.Y)+1000); y++ {
			// Twice the place where the edge crosses, times its height.
			cross := 2*int(a.X)*int(b.Y-a.Y) + int(b.X-a.X)*(2*(y-int(a.Y))+1)
			left := func(x int) bool { return (2*x+1)*int(b.Y-a.Y) < cross }
			if left(w.x) || !left(w.x-1) {
				t.Fatalf("from %v to %v: column %d in row %d", a, b, w.x, y)
			}
			w.next()
		}
	}
}

func FuzzShade(f *testing.F) {
	f.Add([]byte{0, 0, 40, 0, 0, 30, 40, 30, 7, 9, 11, 11}, uint8(40), uint8(30), uint8(0))
	f.Add([]byte{3, 3, 3, 9, 9, 3}, uint8(9), uint8(9), uint8(5))
	f.Add([]byte{}, uint8(1), uint8(1), uint8(11))
	f.Fuzz(func(t *testing.T, b []byte, w, h, how uint8) {
		formats := devicetest.PictureFormats()
		p := devicetest.Painting{Picture: *photo(1+int(w)%64, 1+int(h)%64, formats[int(how)%len(formats)])}
		for i := 0; i+1 < min(len(b), 24); i += 2 {
			p.Points = append(p.Points,
				driver.Point{X: int32(b[i]) % int32(p.Width+1), Y: int32(b[i+1]) % int32(p.Height+1)})
		}
		p.Triangles = devicetest.Delaunay(p.Points)
		color := driver.ShadeColor(how >> 7)
		want := p.Picture
		want.Pixels = make([]byte, len(p.Pixels))
		if _, err := p.Shade(color, &want); err != nil {
			t.Fatal(err)
		}
		for _, m := range []driver.ShadeMethod{driver.PerTriangle, driver.PerTile} {
			x, op := newShading(t, 2, &p.Picture, p.Points, m)
			op.Color = color
			x.ok(x.s.Run(&op))
			if d := devicetest.ComparePainted("Shade", download[byte](x, op.Dst.Data), want.Pixels, &want); d != nil {
				t.Fatalf("%v: %v", m, d)
			}
		}
	})
}

func BenchmarkShade(b *testing.B) {
	const w, h = 1920, 1080
	p := photo(w, h, driver.RGB8)
	for _, n := range []int{2500, 20_000} {
		for _, m := range []driver.ShadeMethod{driver.PerTriangle, driver.PerTile} {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%dx%d/vertices=%d/%v/threads=%d", w, h, n, m, threads), func(b *testing.B) {
					f, op := newShading(b, threads, p, scattered(n, w, h), m)
					b.SetBytes(2 * int64(len(p.Pixels)))
					for b.Loop() {
						if err := errors.Join(f.s.Run(&op), f.s.Wait(context.Background())); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
