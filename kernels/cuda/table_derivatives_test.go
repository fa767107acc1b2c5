//go:build cuda

package cuda

// The benchmark table: derivatives.

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// TestDerivativesBenchmarks derives frames of 42 Mpx, and of 14 in colours, each compared with the CPU's.
func TestDerivativesBenchmarks(t *testing.T) {
	counted(t)
	dev, host := open(t, Driver), open(t, cpu.Driver)
	for _, c := range []struct {
		w, h int
		driver.PixelFormat
	}{{10240, 4096, driver.Gray8}, {10240, 4096, driver.Gray16(12)}, {10240, 4096, driver.Gray16(16)},
		{4608, 3072, driver.RGB8}} {
		w, h := c.w, c.h
		if testing.Short() {
			w, h = w/16, h/16
		}
		pixels := scene(w*c.PixelBytes(), h, driver.Gray8)
		size, out := int64(len(pixels)), 2*int64(w)*int64(h)
		op := func(src, dst driver.Slice) *driver.Derivatives {
			return &driver.Derivatives{
				Src:      driver.Image{Data: src, Width: w, Height: h, Stride: w * c.PixelBytes(), Format: c.PixelFormat},
				Gradient: part(dst, 0, out), Laplacian: part(dst, alignUp(out), out),
			}
		}
		b := &bench{t: t, dev: dev.(*device), s: newStream(t, dev).(*stream)}
		const copies = 3 // together more than the caches hold
		src, dst := alloc(t, dev, copies*alignUp(size)), alloc(t, dev, copies*2*alignUp(out))
		for i := range int64(copies) {
			b.must(b.s.Upload(part(src, i*alignUp(size), size), [][]byte{pixels}))
		}
		run := func(i int) error {
			k := int64(i % copies)
			return b.s.Run(op(part(src, k*alignUp(size), size), part(dst, k*2*alignUp(out), 2*alignUp(out))))
		}
		got, want := make([]byte, 2*alignUp(out)), make([]byte, 2*alignUp(out))
		b.must(b.s.Run(&driver.Fill{Dst: dst}), run(1), b.s.Download(got, part(dst, 2*alignUp(out), 2*alignUp(out))),
			b.s.Wait(t.Context()))
		hs := newStream(t, host)
		hostSrc, hostDst := alloc(t, host, size), alloc(t, host, 2*alignUp(out))
		b.must(errors.Join(hs.Upload(hostSrc, [][]byte{pixels}), hs.Run(&driver.Fill{Dst: hostDst}),
			hs.Run(op(hostSrc, hostDst)), hs.Download(want, hostDst), hs.Wait(t.Context())))
		if !bytes.Equal(got, want) {
			t.Errorf("%v: differs from the CPU's", c.PixelFormat)
		}
		b.timed(fmt.Sprintf("derivatives of %v, %dx%d", c.PixelFormat, w, h), size+2*out, 0, 20, run, run)
	}
}
