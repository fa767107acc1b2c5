package main

// polyscan bench --vertices: the steps of low-poly pictures, from 480x270 to 15360x8640.

import (
	"context"
	"fmt"
	"image/color"
	"math"
	"slices"
	"time"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/lowpoly"
)

// lowPolySizes are those that Ke and Huang show (Parallel Low Poly Style Image/Video Converter).
var lowPolySizes = []string{"480x270", "960x540", "1920x1080", "3840x2160", "7680x4320", "15360x8640"}

// lowPolySteps are the ops of a conversion, in their order, with what rows call them.
var lowPolySteps = []struct{ op, name string }{
	{"Edges", "edges"}, {"SelectVertices", "selection"}, {"Triangulate", "triangulation"}, {"Shade", "shading"},
}

// lowPoly times conversions of one picture, each step and all, after a look at the pixels: each is of one triangle, and
// has its colour.
func (b *bench) lowPoly(ctx context.Context, w, h int, format kernels.PixelFormat, vertices []int) error {
	pix := scenery(w, h, format)
	im := kernels.Picture{Width: w, Height: h, Format: format, Data: [][]byte{pix}}
	resident, err := b.store(ctx, pix)
	if err != nil {
		return err
	}
	defer resident.Drop()
	defer resident.Release()
	there := im
	there.Data, there.Resident = nil, resident.Buffer()
	for _, n := range vertices {
		opt := lowpoly.Options{Vertices: n}
		p, err := lowpoly.Convert(ctx, b.dev, im, opt)
		if err != nil {
			return err
		}
		if err := checkCover(p); err != nil {
			return fmt.Errorf("%d vertices, %dx%d: %w", n, w, h, err)
		}
		row := benchRow{Width: w, Height: h, Format: b.cmd.Format, Bytes: int64(len(pix)), Vertices: len(p.Mesh.Points)}
		took, err := b.repeat(ctx, func() error { _, err := lowpoly.Convert(ctx, b.dev, im, opt); return err })
		if err != nil {
			return err
		}
		const laps = 3 // each is a median already where the device has a clock
		device := map[string][]time.Duration{}
		for begun := time.Now(); len(device[""]) < laps || !b.watch.hasClock && time.Since(begun) < b.cmd.Time; {
			b.watch.start()
			_, err := lowpoly.Convert(ctx, b.dev, there, opt)
			total := b.watch.stop()
			if err != nil {
				return err
			}
			device[""] = append(device[""], total)
			for _, s := range lowPolySteps {
				device[s.op] = append(device[s.op], b.watch.ops[s.op])
			}
		}
		for _, s := range lowPolySteps {
			r := row
			r.Op, r.DeviceNs, r.Runs = s.name, float64(median(device[s.op])), len(device[s.op])
			b.report.Rows = append(b.report.Rows, r)
		}
		row.Op = "low-poly"
		b.add(row, took, median(device[""]))
	}
	return nil
}

// scenery is a picture with what photos have: soft light, outlines of all sizes and noise, the same in each run.
func scenery(w, h int, format kernels.PixelFormat) []byte {
	n := format.PixelBytes()
	noise := benchPixels(1 << 16)
	row, discs := make([]float64, w), make([]float64, w)
	out := make([]byte, 0, w*h*n)
	for y := range h {
		if y%8 == 0 { // which is cheaper, and makes steps of outlines
			for x := range w {
				row[x] = 110 + 60*math.Sin(float64(x)/170)*math.Cos(float64(y)/110)
				discs[x] = 0
				for k, r := range [...]float64{400, 190, 83, 37} {
					u := math.Mod(float64(x)+0.37*float64(y)+71*float64(k), 2.3*r) - 1.15*r
					v := math.Mod(float64(y)+113*float64(k), 2.1*r) - 1.05*r
					if u*u+v*v < r*r/2 {
						discs[x] += 40 - 17*float64(k)
					}
				}
			}
		}
		for x := range w {
			for c := range n {
				v := row[x] + discs[x]*(1+0.3*float64(c)) + float64(noise[(y*w*n+x*n+c)&(1<<16-1)]&7)
				out = append(out, uint8(min(max(v, 0), 255)))
			}
		}
	}
	return out
}

// checkCover reports an error unless each pixel of the picture is covered by one triangle of the mesh, and has the
// colour of it. It finds pixels by the definition of the crossing rule, row by row.
func checkCover(p *lowpoly.Result) error {
	m, n := &p.Mesh, p.Format.PixelBytes()
	covered := make([]bool, m.Width*m.Height)
	count := 0
	xs := make([]int, 0, 2)
	for i, t := range m.Triangles {
		corners := [3]lowpoly.Point{m.Points[t.A], m.Points[t.B], m.Points[t.C]}
		want := rawColor(m.Colors[i], p.Format)
		from, to := min(corners[0].Y, corners[1].Y, corners[2].Y), max(corners[0].Y, corners[1].Y, corners[2].Y)
		for y := int(from); y < int(to); y++ {
			// Twice where the edges cross the row of centres, with what is below a whole number left out: a centre, at
			// 2x+1, is covered where one of the two that do is right of it.
			xs = xs[:0]
			for k, a := range corners {
				b := corners[(k+1)%3]
				if a.Y > b.Y {
					a, b = b, a
				}
				if int(a.Y) <= y && y < int(b.Y) {
					dy := int(b.Y - a.Y)
					num := 2*int(a.X)*dy + int(b.X-a.X)*(2*(y-int(a.Y))+1) // of 2x, over dy
					// the last centre that is not right of it, or one beside
					x := (num - dy) / (2 * dy)
					for (2*x+1)*dy < num {
						x++
					}
					for (2*x-1)*dy >= num {
						x--
					}
					xs = append(xs, x)
				}
			}
			for x := slices.Min(xs); x < slices.Max(xs); x++ {
				at := y*m.Width + x
				if covered[at] {
					return fmt.Errorf("pixel (%d, %d) is covered twice", x, y)
				}
				covered[at] = true
				count++
				if got := p.Data[0][at*n:][:n]; string(got) != string(want) {
					return fmt.Errorf("pixel (%d, %d) is %v, its triangle is %v", x, y, got, want)
				}
			}
		}
	}
	if count != len(covered) {
		return fmt.Errorf("%d pixels of %d are covered", count, len(covered))
	}
	return nil
}

// rawColor is a colour as pixels of 8 bits have it.
func rawColor(c color.NRGBA, f kernels.PixelFormat) []byte {
	out := make([]byte, f.PixelBytes())
	channels := [4]uint8{c.R, c.G, c.B, c.A}
	for i, v := range channels[:f.Channels] {
		out[f.Order[i]] = v
	}
	return out
}
