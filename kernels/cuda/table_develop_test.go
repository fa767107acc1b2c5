//go:build cuda

package cuda

// The benchmark table: pixels of what cameras send.

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// TestDevelopBenchmarks develops frames of 42 Mpx, each compared with the CPU's.
func TestDevelopBenchmarks(t *testing.T) {
	counted(t)
	dev, host := open(t, Driver), open(t, cpu.Driver)
	w, h := 10240, 4096
	if testing.Short() {
		w, h = w/16, h/16
	}
	for _, c := range []struct {
		driver.Coding
		name string
		goal float64
	}{
		{driver.Coding{Kind: driver.Bayer, Bits: 8}, "bilinear", 60},
		{driver.Coding{Kind: driver.Bayer, Bits: 8, Demosaic: driver.MalvarHeCutler}, "Malvar-He-Cutler", 0},
		{driver.Coding{Kind: driver.Bayer, Bits: 12}, "bilinear", 0},
		{driver.Coding{Kind: driver.Bayer, Bits: 12, Packed: true}, "bilinear", 0},
		{driver.Coding{Kind: driver.Bayer, Bits: 12, Demosaic: driver.MalvarHeCutler}, "Malvar-He-Cutler", 0},
		{driver.Coding{Kind: driver.Mono, Bits: 12, Packed: true}, "to GRAY16LE", 0},
		{driver.Coding{Kind: driver.Mono, Bits: 10, Packed: true}, "to GRAY16LE", 0},
		{driver.Coding{Kind: driver.UYVY, Bits: 8}, "to RGB8", 0},
	} {
		raw := scene(c.RowBytes(w), h, driver.Gray8)
		if c.Checked() {
			for i := 1; i < len(raw); i += 2 {
				raw[i] &= 15
			}
		}
		row := w * c.Format().PixelBytes()
		op := func(src, dst, beyond driver.Slice) *driver.Develop {
			d := &driver.Develop{
				Src: driver.RawImage{Data: src, Width: w, Height: h, Rows: h, Stride: c.RowBytes(w), Coding: c.Coding},
				Dst: driver.Image{Data: dst, Width: w, Height: h, Stride: row, Format: c.Format()},
			}
			if c.Checked() {
				d.Beyond = beyond
			}
			return d
		}
		b := &bench{t: t, dev: dev.(*device), s: newStream(t, dev).(*stream)}
		size, out := int64(len(raw)), int64(row)*int64(h)
		const copies = 3 // together more than the caches hold
		src, dst, beyond := alloc(t, dev, copies*alignUp(size)), alloc(t, dev, copies*alignUp(out)), alloc(t, dev, 4)
		for i := range int64(copies) {
			b.must(b.s.Upload(part(src, i*alignUp(size), size), [][]byte{raw}))
		}
		run := func(i int) error {
			k := int64(i % copies)
			return b.s.Run(op(part(src, k*alignUp(size), size), part(dst, k*alignUp(out), out), beyond))
		}
		got, want := make([]byte, out), make([]byte, out)
		b.must(run(1), b.s.Download(got, part(dst, alignUp(out), out)), b.s.Wait(t.Context()))
		hs := newStream(t, host)
		hostSrc, hostDst := alloc(t, host, size), alloc(t, host, out)
		b.must(errors.Join(hs.Upload(hostSrc, [][]byte{raw}), hs.Run(op(hostSrc, hostDst, alloc(t, host, 4))),
			hs.Download(want, hostDst), hs.Wait(t.Context())))
		if !bytes.Equal(got, want) {
			t.Errorf("%v, %s: differs from the CPU's", c.Coding, c.name)
		}
		b.timed(fmt.Sprintf("%v %s, %dx%d", c.Coding, c.name, w, h), size+out, c.goal, 20, run, run)
	}
}
