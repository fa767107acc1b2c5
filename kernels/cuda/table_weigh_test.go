//go:build cuda

package cuda

// Rows of the table: weighing the pixels that boundaries cross.

import (
	"errors"
	"slices"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// boundaryPixels lists the pixels that edges of a problem's regions touch, with weights of all sizes.
func boundaryPixels(p *devicetest.Problem) devicetest.Weights {
	w := devicetest.Weights{Starts: []uint32{0}}
	for i := range p.Regions.Regions {
		rows := make(map[int]map[int]bool)
		for _, e := range p.Regions.EdgesOf(i) {
			y0, y1 := min(e.Y0, e.Y1), max(e.Y0, e.Y1)
			at := func(y float64) float64 {
				if e.Y0 == e.Y1 {
					return float64(e.X0)
				}
				return float64(e.X0) + (y-float64(e.Y0))*(float64(e.X1)-float64(e.X0))/(float64(e.Y1)-float64(e.Y0))
			}
			for y := int(max(y0, 0)) / driver.Subpixel; y <= int(y1)/driver.Subpixel && y < p.Height; y++ {
				a := at(max(float64(y*driver.Subpixel), float64(y0)))
				b := at(min(float64((y+1)*driver.Subpixel), float64(y1)))
				for x := max(int(min(a, b)), 0) / driver.Subpixel; x <= int(max(a, b))/driver.Subpixel &&
					x < p.Width; x++ {
					if rows[y] == nil {
						rows[y] = map[int]bool{}
					}
					rows[y][x] = true
				}
			}
		}
		for y := range p.Height {
			columns := make([]int, 0, len(rows[y]))
			for x := range rows[y] {
				columns = append(columns, x)
			}
			slices.Sort(columns)
			for _, x := range columns {
				w.Pixels = append(w.Pixels, driver.NewWeightedPixel(x, y, int32((x*7919+y*104729)%(1<<17)-1<<16)))
			}
		}
		w.Starts = append(w.Starts, uint32(len(w.Pixels)))
	}
	return w
}

// weighOp weighs pixels of a problem in memory of dev.
func weighOp(t *testing.T, dev driver.Device, s driver.Stream, p *devicetest.Problem, w devicetest.Weights,
	frame driver.Slice, histogram bool) *driver.MaskWeigh {
	t.Helper()
	n := int64(p.Count) * int64(p.Format.Channels)
	op := &driver.MaskWeigh{Regions: len(p.Regions.Regions), Count: p.Count, Sums: alloc(t, dev, 32*n),
		Pixels: alloc(t, dev, int64(8*len(w.Pixels))), Starts: alloc(t, dev, int64(4*len(w.Starts))),
		Frame: driver.Image{Data: frame, Width: p.Width, Height: p.Height, Stride: p.Stride, Format: p.Format}}
	if histogram {
		op.Hist = alloc(t, dev, 8*n*int64(p.Format.Levels()))
	}
	if err := errors.Join(s.Upload(op.Pixels, [][]byte{bytesOf(w.Pixels)}), s.Upload(op.Starts,
		[][]byte{bytesOf(w.Starts)}), s.Wait(t.Context())); err != nil {
		t.Fatal(err)
	}
	return op
}

// weigh adds rows for reducing and for what fractional coverage adds to it, after comparing its sums with the CPU's.
func (b *bench) weigh(name string, what driver.MaskWhat, goal float64) {
	b.t.Helper()
	p, histogram := b.w.p, what&driver.MaskHistogram != 0
	w := boundaryPixels(p)
	op := weighOp(b.t, b.dev, b.s, p, w, b.frames[0], histogram)
	dev := open(b.t, cpu.Driver)
	s := newStream(b.t, dev)
	want := weighOp(b.t, dev, s, p, w, alloc(b.t, dev, int64(len(p.Pixels))), histogram)
	type results struct {
		sums []driver.WeightSums
		hist []int64
	}
	fresh := func() results {
		return results{make([]driver.WeightSums, op.Sums.Len/32), make([]int64, op.Hist.Len/8)}
	}
	got, expected := fresh(), fresh()
	b.must(s.Upload(want.Frame.Data, [][]byte{p.Pixels}), s.Run(want), s.Download(bytesOf(expected.sums), want.Sums),
		s.Download(bytesOf(expected.hist), want.Hist), s.Wait(b.t.Context()))
	b.must(b.s.Run(op), b.s.Download(bytesOf(got.sums), op.Sums), b.s.Download(bytesOf(got.hist), op.Hist),
		b.s.Wait(b.t.Context()))
	if d := devicetest.CompareWeights(got.sums, expected.sums, got.hist, expected.hist, 0, int(p.Format.Channels),
		p.Format.Levels()); d != nil {
		b.t.Errorf("%s: %v", name, d)
	}
	both := func(i int) error {
		one := *op
		one.Frame.Data = b.frames[i%len(b.frames)]
		return errors.Join(b.s.Run(b.reduceOp(i, what)), b.s.Run(&one))
	}
	b.timed(name, b.covered()+op.Pixels.Len, goal, 40, both, func(i int) error {
		return errors.Join(both(i), b.s.Download(bytesOf(got.sums), op.Sums))
	})
}
