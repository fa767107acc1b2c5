//go:build cuda

package cuda

// The benchmark table: low-poly pictures, each step by itself and all of them one behind the other.

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// lowPoly is a picture and what the steps of a conversion make of it, on one device.
type lowPoly struct {
	width, height, n int
	rule             driver.VertexRule
	src              []driver.Image // the same pixels several times
	edges, points    driver.Slice
	found            driver.Slice // how many points
	triangles, count driver.Slice
	dst              driver.Image
	colors           driver.Slice
	choosing         driver.Slice // scratch
	triangulating    driver.Slice
	shading          driver.Slice
}

// placeLowPoly allocates all of it, with the rule that lowpoly.Options has by default.
func placeLowPoly(t *testing.T, dev driver.Device, width, height, n, copies int, m driver.ShadeMethod) *lowPoly {
	t.Helper()
	pixels, mean := int64(width*height), math.Sqrt(float64(width*height)/float64(n))
	l := &lowPoly{width: width, height: height, n: n}
	l.rule = driver.VertexRule{Floor: 16, Spacing: min(int(mean/5), driver.MaxVertexSpacing), Border: int(2 * mean),
		Cell: int(4 * mean)}
	image := func() driver.Image {
		return driver.Image{Data: alloc(t, dev, 3*pixels), Width: width, Height: height, Stride: 3 * width,
			Format: driver.RGB8}
	}
	for range copies {
		l.src = append(l.src, image())
	}
	l.dst = image()
	l.edges, l.points, l.found = alloc(t, dev, 2*pixels), alloc(t, dev, 8*int64(n)), alloc(t, dev, 4)
	l.triangles, l.count, l.colors = alloc(t, dev, 24*int64(n)), alloc(t, dev, 4), alloc(t, dev, 6*int64(n))
	scratch := func(n int64, err error) driver.Slice {
		if errors.Is(err, driver.ErrNotSupported) {
			return driver.Slice{}
		}
		if err != nil {
			t.Fatal(err)
		}
		return alloc(t, dev, max(n, 1))
	}
	l.choosing = scratch(dev.Scratch(&driver.SelectVertices{N: n, Width: width, Height: height, VertexRule: l.rule}))
	l.triangulating = scratch(dev.Scratch(&driver.Triangulate{N: n}))
	l.shading = scratch(dev.Scratch(&driver.Shade{Max: 2 * n, Src: driver.Image{Width: width, Height: height}, Method: m}))
	return l
}

func (l *lowPoly) edgesOp(i int) *driver.Edges {
	return &driver.Edges{Src: l.src[i%len(l.src)], Dst: l.edges}
}

func (l *lowPoly) selectOp() *driver.SelectVertices {
	return &driver.SelectVertices{
		Edges: l.edges, Width: l.width, Height: l.height, VertexRule: l.rule, N: l.n, Points: l.points, Count: l.found,
		Scratch: l.choosing,
	}
}

func (l *lowPoly) triangulateOp() *driver.Triangulate {
	return &driver.Triangulate{Points: l.points, N: l.n, Triangles: l.triangles, Count: l.count,
		Scratch: l.triangulating}
}

func (l *lowPoly) shadeOp(i int, m driver.ShadeMethod, c driver.ShadeColor) *driver.Shade {
	return &driver.Shade{
		Src: l.src[i%len(l.src)], Points: l.points, N: l.n, Triangles: l.triangles, Count: l.count, Max: 2 * l.n,
		Color: c, Method: m, Dst: l.dst, Colors: l.colors, Scratch: l.shading,
	}
}

// holdOp keeps colours near those of the picture itself.
func (l *lowPoly) holdOp(i int) *driver.Hold {
	return &driver.Hold{
		Before: l.src[i%len(l.src)], Limit: 2, Jump: 16, Points: l.points, N: l.n, Triangles: l.triangles,
		Count: l.count, Max: 2 * l.n,
		Dst: l.dst, Colors: l.colors, Changed: l.found,
	}
}

// photo is a picture with what makes photos hard: soft light, noise, and outlines of all sizes.
func photo(w, h int) []byte {
	const tw, th = 960, 540 // repeated, mirrored
	tile := make([]byte, 3*tw*th)
	seed := uint32(7)
	for y := range th {
		for x := range tw {
			light := 110 + 60*math.Sin(float64(x)/170)*math.Cos(float64(y)/110)
			part := 0.0
			for k, r := range [...]float64{400, 190, 83, 37} {
				// Discs of this radius on a slanted grid.
				u, v := math.Mod(float64(x)+0.37*float64(y)+float64(k)*71, 2.3*r)-1.15*r,
					math.Mod(float64(y)+float64(k)*113, 2.1*r)-1.05*r
				if u*u+v*v < r*r/2 {
					part += 40 - 17*float64(k)
				}
			}
			seed = seed*1664525 + 1013904223
			for c := range 3 {
				tile[3*(y*tw+x)+c] = uint8(min(max(light+part*(1+0.3*float64(c))+float64(seed>>(24-c)&7), 0), 255))
			}
		}
	}
	fold := func(v, n int) int {
		if v %= 2 * n; v < n {
			return v
		}
		return 2*n - 1 - v
	}
	out := make([]byte, 0, 3*w*h)
	for y := range h {
		row := tile[3*tw*fold(y, th):]
		for x := range w {
			at := 3 * fold(x, tw)
			out = append(out, row[at:at+3]...)
		}
	}
	return out
}

// lowPolyRows adds a row for each step, and one for all.
func lowPolyRows(t *testing.T, dev driver.Device, width, height, n int, goal float64) {
	counted(t)
	pixels := photo(width, height)
	b := &bench{t: t, dev: dev.(*device), s: newStream(t, dev).(*stream)}
	copies := max(1, min(8, 1<<28/len(pixels)))
	l := placeLowPoly(t, dev, width, height, n, copies, driver.PerTile)
	for _, im := range l.src {
		b.must(b.s.Upload(im.Data, [][]byte{pixels}), b.s.Wait(t.Context()))
	}

	// The CPU does it first, each step on what it made before.
	host := open(t, cpu.Driver)
	cs := newStream(t, host)
	want := placeLowPoly(t, host, width, height, n, 1, driver.PerTile)
	edges, points, triangles, dst := make([]byte, want.edges.Len), make([]byte, want.points.Len),
		make([]byte, want.triangles.Len), make([]byte, want.dst.Data.Len)
	count := make([]byte, 4)
	shade := want.shadeOp(0, driver.ShadeDefault, driver.MeanColor)
	b.must(cs.Upload(want.src[0].Data, [][]byte{pixels}), cs.Run(want.edgesOp(0)), cs.Run(want.selectOp()),
		cs.Run(want.triangulateOp()), cs.Run(shade), cs.Download(edges, want.edges),
		cs.Download(points, want.points),
		cs.Download(triangles, want.triangles), cs.Download(count, want.count), cs.Download(dst, want.dst.Data),
		cs.Wait(t.Context()))
	held := make([]byte, len(dst))
	b.must(cs.Run(want.shadeOp(0, driver.ShadeDefault, driver.CentroidColor)), cs.Run(want.holdOp(0)),
		cs.Download(held, want.dst.Data), cs.Wait(t.Context()))

	check := func(what string, got driver.Slice, want []byte) {
		t.Helper()
		have := make([]byte, got.Len)
		b.must(b.s.Download(have, got), b.s.Wait(t.Context()))
		if !bytes.Equal(have, want) {
			t.Errorf("%s differ from the CPU's", what)
		}
	}
	name, px := fmt.Sprintf("%d vertices, %dx%d", n, width, height), int64(width)*int64(height)
	repeats := max(1, min(20, 1<<28/len(pixels)))
	one := func(what string, bytes int64, goal float64, op func(i int) error) {
		b.timed(what+", "+name, bytes, goal, repeats, op, nil)
	}
	b.must(b.s.Run(l.edgesOp(0)))
	check("the edges", l.edges, edges)
	one("edges", 5*px, 0, func(i int) error { return b.s.Run(l.edgesOp(i)) })
	b.must(b.s.Run(l.selectOp()))
	check("the vertices", l.points, points)
	one("vertex selection", 2*px, 0, func(i int) error { return b.s.Run(l.selectOp()) })
	steps := []func(i int) error{
		func(i int) error { return b.s.Run(l.edgesOp(i)) },
		func(i int) error { return b.s.Run(l.selectOp()) },
	}
	if l.triangulating.Len > 0 {
		b.must(b.s.Run(l.triangulateOp()), b.s.Wait(t.Context()))
		one("triangulation", 0, 0, func(i int) error { return b.s.Run(l.triangulateOp()) })
		steps = append(steps, func(i int) error { return b.s.Run(l.triangulateOp()) })
	} else {
		b.must(b.s.Upload(l.triangles, [][]byte{triangles}), b.s.Upload(l.count, [][]byte{count}))
	}
	for _, m := range []driver.ShadeMethod{driver.PerTile, driver.PerTriangle} {
		for _, c := range []driver.ShadeColor{driver.CentroidColor, driver.MeanColor} {
			op := func(i int) error { return b.s.Run(l.shadeOp(i, m, c)) }
			b.must(b.s.Run(&driver.Fill{Dst: l.dst.Data, Value: 0xa5}), op(0))
			if c == driver.MeanColor {
				check("the painted pixels", l.dst.Data, dst)
			}
			one(fmt.Sprintf("shading, %v, %v", m, c), 9*px, 0, op)
		}
	}
	b.must(b.s.Run(l.shadeOp(0, driver.ShadeDefault, driver.CentroidColor)), b.s.Run(l.holdOp(0)))
	check("the pixels that hold their colours", l.dst.Data, held)
	one("holding colours", 3*px, 0, func(i int) error { return b.s.Run(l.holdOp(i)) })
	steps = append(steps, func(i int) error { return b.s.Run(l.shadeOp(i, driver.ShadeDefault, driver.MeanColor)) })
	what := "low-poly"
	if len(steps) < 4 {
		what += " but for triangulation"
	}
	all := func(i int) error {
		for _, step := range steps {
			if err := step(i); err != nil {
				return err
			}
		}
		return nil
	}
	b.must(b.s.Run(&driver.Fill{Dst: l.dst.Data, Value: 0xa5}))
	one(what, 9*px, goal, all)
	check("the pictures", l.dst.Data, dst) // that the last repeat has painted
}
