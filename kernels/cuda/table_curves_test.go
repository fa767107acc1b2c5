//go:build cuda

package cuda

// The benchmark table: curves drawn, and pictures blurred.

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// sceneOfCurves is so many curves of one segment and about 200 px, each in 16 lines, with colours on both sides.
func sceneOfCurves(n, width, height int) *driver.CurveRaster {
	r := rand.New(rand.NewPCG(7, 23))
	op := driver.CurveRaster{Width: width, Height: height, Channels: 3}
	for i := range n {
		s := driver.CurveSegment{Curve: uint32(i), LogPieces: 4}
		x, y, a := r.Float64()*float64(width), r.Float64()*float64(height), r.Float64()*2*math.Pi
		for k := range 4 {
			s.X[k], s.Y[k] = int32(x*driver.Subpixel), int32(y*driver.Subpixel)
			a += r.Float64()*1.6 - 0.8
			x, y = x+70*math.Cos(a), y+70*math.Sin(a)
		}
		op.Segments = append(op.Segments, s)
		at := uint32(len(op.Stops))
		op.Curves = append(op.Curves,
			driver.Curve{Left: driver.CurveStops{First: at, Count: 3},
				Right: driver.CurveStops{First: at + 3, Count: 2}})
		for k := range 5 {
			stop := driver.CurveStop{At: uint32(k % 3 * driver.CurveUnit / 2)}
			for c := range 3 {
				stop.Values[c] = r.Float32()
			}
			op.Stops = append(op.Stops, stop)
		}
	}
	return &op
}

// placeCurves gives the ops memory of a device.
func placeCurves(t *testing.T, dev driver.Device, op driver.CurveRaster) (driver.CurveRaster, driver.Blur) {
	t.Helper()
	n := int64(op.Width) * int64(op.Height)
	op.Flags, op.Values, op.Scratch = alloc(t, dev, n), alloc(t, dev, 4*n*int64(op.Channels)),
		alloc(t, dev, op.ScratchBytes())
	b := driver.Blur{Width: op.Width, Height: op.Height, Channels: op.Channels, Scale: 1, Src: op.Values}
	b.Sigma, b.Dst, b.Scratch = alloc(t, dev, 4*n), alloc(t, dev, op.Values.Len), alloc(t, dev, b.ScratchBytes())
	return op, b
}

// curveRows adds a row for a drawing, and one for its blur by deviations from 0 to 20 px.
func curveRows(t *testing.T, dev driver.Device, curves, width, height int) {
	counted(t)
	b := &bench{t: t, dev: dev.(*device), s: newStream(t, dev).(*stream)}
	op, blur := placeCurves(t, dev, *sceneOfCurves(curves, width, height))
	sigma := make([]float32, width*height)
	for i := range sigma {
		sigma[i] = 20 * float32(i%width) / float32(width)
	}
	host := open(t, cpu.Driver)
	cs := newStream(t, host)
	hostOp, hostBlur := placeCurves(t, host, op)
	for _, x := range []struct {
		s    driver.Stream
		op   driver.CurveRaster
		blur driver.Blur
	}{{b.s, op, blur}, {cs, hostOp, hostBlur}} {
		b.must(x.s.Run(&driver.Fill{Dst: x.op.Flags, Value: 0}), x.s.Run(&driver.Fill{Dst: x.op.Values, Value: 0}),
			x.s.Upload(x.blur.Sigma, [][]byte{bytesOf(sigma)}),
			x.s.Run(&x.op), x.s.Run(&x.blur), x.s.Wait(t.Context()))
	}
	for what, at := range map[string][2]driver.Slice{
		"the flags": {op.Flags, hostOp.Flags}, "the values": {op.Values, hostOp.Values},
		"the blurred values": {blur.Dst, hostBlur.Dst},
	} {
		got, want := make([]byte, at[0].Len), make([]byte, at[0].Len)
		b.must(b.s.Download(got, at[0]), b.s.Wait(t.Context()), cs.Download(want, at[1]), cs.Wait(t.Context()))
		if !bytes.Equal(got, want) {
			t.Errorf("%s differ from the CPU's", what)
		}
	}
	name := fmt.Sprintf("%d curves, %dx%d", curves, width, height)
	n := int64(width) * int64(height)
	draw := func(int) error { return b.s.Run(&op) }
	b.timed("drawing of "+name, 16*n, 0, 4, draw, draw)
	mix := func(int) error { return b.s.Run(&blur) }
	b.timed(fmt.Sprintf("blur of RGB, %dx%d", width, height), 28*n, 0, 8, mix, nil)
}
