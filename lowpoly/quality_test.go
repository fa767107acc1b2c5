package lowpoly_test

import (
	"context"
	"image"
	"image/draw"
	_ "image/jpeg"
	_ "image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/lowpoly"
)

// photos are the shared ones, scaled down so that no side is longer than most.
func photos(t *testing.T, most int) map[string]*devicetest.Picture {
	t.Helper()
	out := map[string]*devicetest.Picture{}
	for _, name := range sharedImages(t, "photo") {
		out[filepath.Base(name)] = readImage(t, name, most)
	}
	return out
}

// sequence is the shared one, of a camera that doesn't move.
func sequence(t *testing.T) (frames []*devicetest.Picture) {
	t.Helper()
	for _, name := range sharedImages(t, "sequence") {
		frames = append(frames, readImage(t, name, math.MaxInt32))
	}
	return frames
}

// sharedImages are the files of a folder of shared images.
func sharedImages(t *testing.T, folder string) []string {
	t.Helper()
	dir, ok := devicetest.SharedDir()
	if !ok {
		t.Skip("there are no shared images here")
	}
	files, err := filepath.Glob(filepath.Join(dir, "images", folder, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no images in %s of %s: %v", folder, dir, err)
	}
	return files
}

// readImage decodes a file to RGB8, scaled down so that no side is longer than most.
func readImage(t *testing.T, name string, most int) *devicetest.Picture {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	im, _, err := image.Decode(f)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	b := im.Bounds()
	by := (max(b.Dx(), b.Dy()) + most - 1) / most
	p := &devicetest.Picture{Width: b.Dx() / by, Height: b.Dy() / by, Format: driver.RGB8}
	p.Stride = 3 * p.Width
	rgba := image.NewRGBA(b)
	draw.Draw(rgba, b, im, b.Min, draw.Src)
	for y := range p.Height {
		for x := range p.Width {
			var sum [3]int
			for j := range by {
				for i := range by {
					at := rgba.Pix[rgba.PixOffset(b.Min.X+x*by+i, b.Min.Y+y*by+j):]
					for c := range sum {
						sum[c] += int(at[c])
					}
				}
			}
			for _, s := range sum {
				p.Pixels = append(p.Pixels, byte((s+by*by/2)/(by*by)))
			}
		}
	}
	return p
}

// colorError is the mean absolute difference of samples.
func colorError(a, b []byte) float64 {
	sum := 0
	for i := range a {
		d := int(a[i]) - int(b[i])
		sum += max(d, -d)
	}
	return float64(sum) / float64(len(a))
}

// seedVertices chooses as Ke and Huang and Yang do: each pixel by itself, with a higher probability on edges, and on
// the border of the image. How much higher they don't say; factors of ten here. So that the whole frame is covered,
// which their programs leave black, its corners are added. There are n of them.
func seedVertices(p *devicetest.Picture, n int, seed uint64) []driver.Point {
	edges := p.Edges()
	sum := uint64(0)
	for _, e := range edges {
		sum += uint64(e)
	}
	threshold := uint16(2 * sum / uint64(len(edges)))
	likely := func(i int) float64 {
		x, y := i%p.Width, i/p.Width
		if edges[i] > threshold || x == 0 || y == 0 || x == p.Width-1 || y == p.Height-1 {
			return 10
		}
		return 1
	}
	total := 0.0
	for i := range edges {
		total += likely(i)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	w, h := int32(p.Width), int32(p.Height)
	points := []driver.Point{{}, {X: w}, {Y: h}, {X: w, Y: h}}
	for i := range edges {
		if r.Float64() < float64(n-4)/total*likely(i) {
			points = append(points, driver.Point{X: int32(i % p.Width), Y: int32(i / p.Width)})
		}
	}
	return points
}

// Pictures are nearer to the photos than with vertices chosen by themselves, for the same number of vertices and
// with the same rule for colours: the mean, which is ours, and the centroid's, which is theirs.
func TestColorError(t *testing.T) {
	most := 1920
	if testing.Short() || race.Enabled {
		most = 480
	}
	dev, err := kernels.Open(cpu.New(cpu.Options{}), kernels.Config{MemoryBytes: 128 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for name, p := range photos(t, most) {
		for _, n := range []int{2500, 20_000} {
			if n > p.Width*p.Height/10 { // of those scaled down for short runs
				continue
			}
			for _, color := range []driver.ShadeColor{driver.MeanColor, driver.CentroidColor} {
				ours, err := lowpoly.Convert(context.Background(), dev, imageOf(p),
					lowpoly.Options{Vertices: n, Color: color})
				if err != nil {
					t.Fatal(err)
				}
				theirs := shadeMesh(t, dev, p, seedVertices(p, n, 1), color)
				a, b := colorError(ours.Data[0], p.Pixels), colorError(theirs, p.Pixels)
				t.Logf("%s %dx%d, %d vertices, %v: %.3f levels; with vertices chosen by themselves %.3f", name, p.Width, p.Height,
					n, color, a, b)
				if a >= b {
					t.Errorf("%s: %d vertices: %.3f levels are no less than with vertices chosen by themselves, %.3f", name, n, a, b)
				}
			}
		}
	}
}

// shadeMesh shades any points.
func shadeMesh(t *testing.T, dev *kernels.Device, p *devicetest.Picture, points []driver.Point,
	color driver.ShadeColor) []byte {
	t.Helper()
	mesh, err := lowpoly.Triangulate(context.Background(), dev, points, lowpoly.RouteDirect)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, len(p.Pixels))
	err = dev.Do(context.Background(), kernels.Job{Label: "test", Footprint: 64 << 20}, func(q *kernels.Queue) error {
		alloc := func(n int) kernels.Buffer[byte] {
			b, err := kernels.Alloc[byte](q, n, "test")
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		src, dst, colors := alloc(len(p.Pixels)), alloc(len(p.Pixels)), alloc(3*len(mesh.Triangles))
		at, err := kernels.Alloc[driver.Point](q, len(points), "points")
		if err != nil {
			return err
		}
		triangles, err := kernels.Alloc[driver.Triangle](q, len(mesh.Triangles), "triangles")
		if err != nil {
			return err
		}
		count, err := kernels.Alloc[uint32](q, 1, "count")
		if err != nil {
			return err
		}
		number := []uint32{uint32(len(mesh.Triangles))}
		for _, err := range []error{
			kernels.Upload(q, src, p.Pixels), kernels.Upload(q, at, points),
			kernels.Upload(q, triangles, mesh.Triangles), kernels.Upload(q, count, number),
		} {
			if err != nil {
				return err
			}
		}
		if err := q.Run(&driver.Shade{
			Src: p.Image(src.Slice()), Dst: p.Image(dst.Slice()), Points: at.Slice(), N: len(points),
			Triangles: triangles.Slice(),
			Count:     count.Slice(), Max: len(mesh.Triangles), Color: color, Colors: colors.Slice(),
		}); err != nil {
			return err
		}
		return kernels.Download(q, out, dst)
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
