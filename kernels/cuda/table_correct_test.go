//go:build cuda

package cuda

// The benchmark table: flat fields.

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// TestCorrectBenchmarks corrects frames of 42 Mpx, each compared with the CPU's. Bytes are those of the frame, twice:
// the goal for fields of a row and of a frame is the time of two passes over it.
func TestCorrectBenchmarks(t *testing.T) {
	counted(t)
	dev, host := open(t, Driver), open(t, cpu.Driver)
	w, h := 10240, 4096
	if testing.Short() {
		w, h = w/16, h/16
	}
	for _, f := range []driver.PixelFormat{driver.Gray8, driver.RGB8, driver.Gray16(12)} {
		for _, rows := range []int{1, h} {
			row, pitch := w*f.PixelBytes(), driver.FieldPitch(w, f)
			raw := scene(row, h, driver.Gray8)
			if f.SampleBytes == 2 {
				for i := 1; i < len(raw); i += 2 {
					raw[i] &= 15
				}
			}
			darks := bytes.Repeat([]byte{3}, pitch*rows*int(f.SampleBytes))
			gains := bytes.Repeat([]byte{0x11, 0x41, 0x12, 0x3f}, pitch*rows/2)
			op := func(src, dst, dark, gain driver.Slice) *driver.Correct {
				return &driver.Correct{
					Src:      driver.Image{Data: src, Width: w, Height: h, Stride: row, Format: f},
					Dst:      driver.Image{Data: dst, Width: w, Height: h, Stride: row, Format: f},
					Fraction: 14, FieldRows: rows, Dark: dark, Gain: gain,
				}
			}
			b := &bench{t: t, dev: dev.(*device), s: newStream(t, dev).(*stream)}
			size := int64(len(raw))
			const copies = 3 // together more than the caches hold
			src, dst := alloc(t, dev, copies*alignUp(size)), alloc(t, dev, copies*alignUp(size))
			dark, gain := alloc(t, dev, int64(len(darks))), alloc(t, dev, int64(len(gains)))
			b.must(b.s.Upload(dark, [][]byte{darks}), b.s.Upload(gain, [][]byte{gains}))
			for i := range int64(copies) {
				b.must(b.s.Upload(part(src, i*alignUp(size), size), [][]byte{raw}))
			}
			run := func(i int) error {
				k := int64(i % copies)
				return b.s.Run(op(part(src, k*alignUp(size), size), part(dst, k*alignUp(size), size), dark, gain))
			}
			got, want := make([]byte, size), make([]byte, size)
			b.must(run(1), b.s.Download(got, part(dst, alignUp(size), size)), b.s.Wait(t.Context()))
			hs := newStream(t, host)
			hostSrc, hostDst := alloc(t, host, size), alloc(t, host, size)
			hostDark, hostGain := alloc(t, host, int64(len(darks))), alloc(t, host, int64(len(gains)))
			b.must(errors.Join(hs.Upload(hostDark, [][]byte{darks}), hs.Upload(hostGain, [][]byte{gains}),
				hs.Upload(hostSrc, [][]byte{raw}), hs.Run(op(hostSrc, hostDst, hostDark, hostGain)),
				hs.Download(want, hostDst), hs.Wait(t.Context())))
			if !bytes.Equal(got, want) {
				t.Errorf("%v, %d rows: differs from the CPU's", f, rows)
			}
			b.timed(fmt.Sprintf("correct %v by %d rows, %dx%d", f, rows, w, h), 2*size, 0, 20, run, run)
		}
	}
}
