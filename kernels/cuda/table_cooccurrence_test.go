//go:build cuda

package cuda

// Rows of the table: co-occurrence.

import (
	"errors"
	"slices"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// neighbours are the four offsets of Haralick, one pixel away.
var neighbours = []driver.PixelOffset{{DX: 1}, {DX: 1, DY: 1}, {DY: 1}, {DX: -1, DY: 1}}

// cooccurrenceOp counts pairs of neighbours of a problem's regions in 64 levels, into memory of dev.
func cooccurrenceOp(t *testing.T, dev driver.Device, p *devicetest.Problem, prepared, frame driver.Slice) *driver.MaskCooccurrence {
	t.Helper()
	op := &driver.MaskCooccurrence{Prepared: prepared, Count: p.Count, ToRow: p.Height, Levels: 64, Offsets: neighbours,
		Frame: driver.Image{Data: frame, Width: p.Width, Height: p.Height, Stride: p.Stride, Format: p.Format}}
	n, err := dev.Scratch(op)
	if err != nil {
		t.Fatal(err)
	}
	op.Counts = alloc(t, dev, 4*int64(p.Count)*int64(p.Format.Channels)*int64(op.CellCount()))
	if n > 0 {
		op.Scratch = alloc(t, dev, n)
	}
	return op
}

// cooccurrence adds a row, after comparing the counts with the CPU's.
func (b *bench) cooccurrence(name string, goal float64) {
	b.t.Helper()
	op := cooccurrenceOp(b.t, b.dev, b.w.p, b.w.prepared, b.frames[0])
	dev := open(b.t, cpu.Driver)
	s := newStream(b.t, dev)
	prepare := driver.MaskPrepare{Regions: b.w.p.Regions, Width: b.w.p.Width, Height: b.w.p.Height}
	n, err := dev.Scratch(&prepare)
	if err != nil {
		b.t.Fatal(err)
	}
	prepare.Dst = alloc(b.t, dev, n)
	want := cooccurrenceOp(b.t, dev, b.w.p, prepare.Dst, alloc(b.t, dev, int64(len(b.w.p.Pixels))))
	got, expected := make([]uint32, op.Counts.Len/4), make([]uint32, op.Counts.Len/4)
	b.must(s.Run(&prepare), s.Upload(want.Frame.Data, [][]byte{b.w.p.Pixels}), s.Run(want),
		s.Download(bytesOf(expected), want.Counts), s.Wait(b.t.Context()))
	b.must(b.s.Run(op), b.s.Download(bytesOf(got), op.Counts), b.s.Wait(b.t.Context()))
	if !slices.Equal(got, expected) {
		b.t.Errorf("%s: %v", name, devicetest.CompareCooccurrence(got, expected, 0, int(b.w.p.Format.Channels), len(op.Offsets), 64))
	}
	of := func(i int) *driver.MaskCooccurrence {
		one := *op
		one.Frame.Data = b.frames[i%len(b.frames)]
		return &one
	}
	b.timed(name, b.covered()+op.Counts.Len, goal, 10, func(i int) error { return b.s.Run(of(i)) },
		func(i int) error { return errors.Join(b.s.Run(of(i)), b.s.Download(bytesOf(got), op.Counts)) })
}
