//go:build cuda

package cuda

// The benchmark table: Voronoi diagrams.

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// scattered is n sites: all over the image, in an eighth of both sides, or on a circle.
func scattered(n, width, height int, how string) []driver.Point {
	r := rand.New(rand.NewPCG(uint64(n), uint64(width)))
	sites := make([]driver.Point, n)
	for i := range sites {
		switch how {
		case "even":
			sites[i] = driver.Point{X: r.Int32N(int32(width)), Y: r.Int32N(int32(height))}
		case "clustered":
			sites[i] = driver.Point{X: r.Int32N(int32(width/8 + 1)), Y: r.Int32N(int32(height/8 + 1))}
		case "on a circle":
			s, c := math.Sincos(r.Float64() * 2 * math.Pi)
			radius := float64(min(width, height)-1) / 2
			sites[i] = driver.Point{X: int32(math.Round(float64(width-1)/2 + radius*c)),
				Y: int32(math.Round(float64(height-1)/2 + radius*s))}
		}
	}
	return sites
}

// diagram is a Voronoi on a device.
func diagram(t *testing.T, dev driver.Device, s driver.Stream, sites []driver.Point, width, height int,
	m driver.VoronoiMethod) *driver.Voronoi {
	t.Helper()
	n, err := dev.Scratch(&driver.Voronoi{N: len(sites), Width: width, Height: height, Method: m})
	if err != nil {
		t.Fatal(err)
	}
	op := &driver.Voronoi{
		Sites: alloc(t, dev, 8*int64(len(sites))), N: len(sites), Width: width, Height: height, Method: m,
		Labels: alloc(t, dev, 4*int64(width)*int64(height)), Scratch: alloc(t, dev, max(n, 1)),
	}
	if err := s.Upload(op.Sites, [][]byte{bytesOf(sites)}); err != nil {
		t.Fatal(err)
	}
	return op
}

// checkNearest compares some labels with what looking at every site gives, half of them around the middle of the image,
// where all sites of a circle are almost equally far.
func checkNearest(t *testing.T, name string, sites []driver.Point, labels []uint32, width int) {
	t.Helper()
	r := seed.New(t, 5, 6)
	height := len(labels) / width
	for i := range max(10, min(2000, 100_000_000/len(sites))) {
		x, y := r.IntN(width), r.IntN(height)
		if i%2 == 0 {
			x, y = (width-min(width, 64))/2+r.IntN(min(width, 64)), (height-min(height, 64))/2+r.IntN(min(height, 64))
		}
		p := y*width + x
		best, least := 0, int64(math.MaxInt64)
		for i, s := range sites {
			dx, dy := int64(s.X)-int64(x), int64(s.Y)-int64(y)
			if d := dx*dx + dy*dy; d < least {
				best, least = i, d
			}
		}
		if labels[p] != uint32(best) {
			t.Errorf("%s: pixel (%d, %d) has the label %d, its nearest site is %d", name, x, y, labels[p], best)
			return
		}
	}
}

// TestVoronoiBenchmarks adds the rows.
func TestVoronoiBenchmarks(t *testing.T) {
	counted(t)
	dev := open(t, Driver)
	b := &bench{t: t, dev: dev.(*device), s: newStream(t, dev).(*stream)}
	for _, c := range []struct {
		width, height, n int
		how              string
		method           driver.VoronoiMethod
		goal             float64
	}{
		{1920, 1080, 1, "even", driver.VoronoiDefault, 150},
		{1920, 1080, 100, "even", driver.VoronoiDefault, 150},
		{1920, 1080, 2500, "even", driver.VoronoiDefault, 150},
		{1920, 1080, 20000, "even", driver.VoronoiDefault, 150},
		{1920, 1080, 200000, "even", driver.VoronoiDefault, 150},
		{1920, 1080, 200000, "clustered", driver.VoronoiDefault, 0},
		{1920, 1080, 20000, "on a circle", driver.VoronoiDefault, 0},
		{1920, 1080, 20000, "even", driver.Banding, 0},
		{1920, 1080, 20000, "even", driver.JumpFlood, 0},
		{4096, 4096, 1000, "even", driver.VoronoiDefault, 0},
		{4096, 4096, 100000, "even", driver.VoronoiDefault, 700},
		{4096, 4096, 100000, "clustered", driver.VoronoiDefault, 0},
		{4096, 4096, 100000, "on a circle", driver.VoronoiDefault, 0},
		{4096, 4096, 100000, "even", driver.Banding, 0},
		{4096, 4096, 100000, "even", driver.JumpFlood, 0},
		{4096, 4096, 1000000, "even", driver.VoronoiDefault, 0},
		{15360, 8640, 20000, "even", driver.VoronoiDefault, 0},
		{15360, 8640, 1000000, "even", driver.VoronoiDefault, 0},
		{16384, 16384, 1000000, "even", driver.VoronoiDefault, 0},
		{16384, 16384, 10000000, "even", driver.VoronoiDefault, 7000},
		{16384, 16384, 100000, "on a circle", driver.VoronoiDefault, 0},
		{16384, 16384, 100000, "on a circle", driver.Banding, 0},
	} {
		if testing.Short() {
			c.width, c.height, c.n = c.width/16, c.height/16, (c.n+255)/256
		}
		name := fmt.Sprintf("Voronoi %v, %dx%d, %d sites %s", c.method, c.width, c.height, c.n, c.how)
		t.Run(name, func(t *testing.T) {
			counted(t)
			b := *b
			b.t = t
			sites := scattered(c.n, c.width, c.height, c.how)
			op := diagram(t, dev, b.s, sites, c.width, c.height, c.method)
			labels := make([]uint32, c.width*c.height)
			b.must(b.s.Run(&driver.Fill{Dst: op.Labels, Value: 0xa5}), b.s.Run(op), b.s.Download(bytesOf(labels), op.Labels),
				b.s.Wait(t.Context()))
			if c.method != driver.JumpFlood { // which the suite compares
				checkNearest(t, name, sites, labels, c.width)
			}
			copies := max(2, min(20, 1<<28/len(labels)))
			b.timed(name, op.Sites.Len+op.Labels.Len, c.goal, copies, func(int) error { return b.s.Run(op) }, nil)
		})
	}
}
