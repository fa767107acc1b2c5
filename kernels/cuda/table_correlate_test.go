//go:build cuda

package cuda

// Rows of the table: correlation.

import (
	"errors"
	"slices"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// sixteenLags are neighbours in four directions and those at up to eight pixels, each in a slot of its own.
func sixteenLags() (lags []driver.Lag) {
	for _, n := range []int32{1, 2, 4, 8} {
		for _, at := range [][2]int32{{n, 0}, {n, n}, {0, n}, {-n, n}} {
			lags = append(lags, driver.Lag{DX: at[0], DY: at[1], Slot: int32(len(lags))})
		}
	}
	return lags
}

// discLags are those of half a disc, in rings of their rounded lengths.
func discLags(radius int32) (lags []driver.Lag) {
	for dy := int32(0); dy <= radius; dy++ {
		for dx := -radius; dx <= radius; dx++ {
			if dy == 0 && dx < 0 {
				continue
			}
			for r := int32(0); r <= radius; r++ {
				if d := 4 * (dx*dx + dy*dy); r == 0 && d == 0 || r > 0 && d > (2*r-1)*(2*r-1) && d < (2*r+1)*(2*r+1) {
					lags = append(lags, driver.Lag{DX: dx, DY: dy, Slot: r})
				}
			}
		}
	}
	return lags
}

// correlateOp sums up pairs of a problem's regions in one channel, into memory of dev.
func correlateOp(t *testing.T, dev driver.Device, p *devicetest.Problem, prepared, frame, other driver.Slice,
	lags []driver.Lag) *driver.MaskCorrelate {
	t.Helper()
	op := &driver.MaskCorrelate{Prepared: prepared, Count: p.Count, ToRow: p.Height, Lags: lags,
		Series: []driver.ChannelPair{{}},
		Frame:  driver.Image{Data: frame, Width: p.Width, Height: p.Height, Stride: p.Stride, Format: p.Format}}
	for _, l := range lags {
		op.Slots = max(op.Slots, int(l.Slot)+1)
	}
	op.Other = op.Frame
	op.Other.Data = other
	n, err := dev.Scratch(op)
	if err != nil {
		t.Fatal(err)
	}
	op.Sums = alloc(t, dev, pairSumsBytes*int64(p.Count)*int64(op.Slots))
	if n > 0 {
		op.Scratch = alloc(t, dev, n)
	}
	return op
}

// correlation adds a row, after comparing the sums with the CPU's. two says that the second pixels are of another
// frame.
func (b *bench) correlation(name string, lags []driver.Lag, two bool, copies int, goal float64) {
	b.t.Helper()
	other := func(i int) driver.Slice {
		if two {
			i += len(b.frames) / 2
		}
		return b.frames[i%len(b.frames)]
	}
	op := correlateOp(b.t, b.dev, b.w.p, b.w.prepared, b.frames[0], other(0), lags)
	dev := open(b.t, cpu.Driver)
	s := newStream(b.t, dev)
	prepare := driver.MaskPrepare{Regions: b.w.p.Regions, Width: b.w.p.Width, Height: b.w.p.Height}
	n, err := dev.Scratch(&prepare)
	if err != nil {
		b.t.Fatal(err)
	}
	prepare.Dst = alloc(b.t, dev, n)
	frame := alloc(b.t, dev, int64(len(b.w.p.Pixels)))
	want := correlateOp(b.t, dev, b.w.p, prepare.Dst, frame, frame, lags)
	got, expected := make([]driver.PairSums, op.Sums.Len/pairSumsBytes),
		make([]driver.PairSums, op.Sums.Len/pairSumsBytes)
	b.must(s.Run(&prepare), s.Upload(frame, [][]byte{b.w.p.Pixels}), s.Run(want),
		s.Download(bytesOf(expected), want.Sums), s.Wait(b.t.Context()))
	b.must(b.s.Run(op), b.s.Download(bytesOf(got), op.Sums), b.s.Wait(b.t.Context()))
	if !slices.Equal(got, expected) {
		b.t.Errorf("%s: %v", name, devicetest.ComparePairs(got, expected, 0, 1, op.Slots))
	}
	of := func(i int) *driver.MaskCorrelate {
		one := *op
		one.Frame.Data, one.Other.Data = b.frames[i%len(b.frames)], other(i)
		return &one
	}
	bytes := b.covered() + op.Sums.Len
	if two {
		bytes += b.covered()
	}
	b.timed(name, bytes, goal, copies, func(i int) error { return b.s.Run(of(i)) },
		func(i int) error { return errors.Join(b.s.Run(of(i)), b.s.Download(bytesOf(got), op.Sums)) })
}
