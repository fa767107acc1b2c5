//go:build cuda

package cuda

// Rows of the table: profiles.

import (
	"errors"
	"slices"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// profileOp makes a profile of a problem's regions, each with bins of a pixel for all of the frame, into memory of dev.
func profileOp(t *testing.T, dev driver.Device, s driver.Stream, p *devicetest.Problem, prepared, frame driver.Slice,
	axis driver.ProfileAxis) *driver.MaskProfile {
	t.Helper()
	op := &driver.MaskProfile{Prepared: prepared, Count: p.Count, Regions: len(p.Regions.Regions), ToRow: p.Height,
		Axis: axis, Step: 1,
		Frame: driver.Image{Data: frame, Width: p.Width, Height: p.Height, Stride: p.Stride, Format: p.Format}}
	bins := p.Height
	switch axis {
	case driver.ProfileColumns:
		bins = p.Width
	case driver.ProfileRadius:
		bins = p.Width
		op.Step, op.CentreX, op.CentreY = driver.Subpixel, int32(p.Width)*128, int32(p.Height)*128
	case driver.ProfileLine:
		bins, op.Step = p.Width, 0
		op.Segments = []driver.ProfileSegment{{DX: int32(p.Width) * 256, DY: int32(p.Height) * 256, Bins: uint32(bins),
			Low: -driver.MaxProfileAside, High: driver.MaxProfileAside}}
	}
	if op.Regions > 1 { // which are small
		bins = 128
	}
	places := make([]driver.ProfilePlace, op.Regions)
	for i := range places {
		places[i] = driver.ProfilePlace{Bins: uint32(bins), First: uint64(i * bins)}
		if op.Regions == 1 {
			continue
		}
		x, y := int32(p.Width), int32(p.Height) // the corner of the box
		r := p.Regions.Regions[i]
		for _, e := range p.Regions.Edges[r.First : r.First+r.Count] {
			x, y = min(x, e.X0/driver.Subpixel), min(y, e.Y0/driver.Subpixel)
		}
		places[i].Origin = map[driver.ProfileAxis]int32{driver.ProfileRows: y, driver.ProfileColumns: x}[axis]
	}
	op.Places = alloc(t, dev, int64(16*len(places)))
	op.Bins = alloc(t, dev, profileBinBytes*int64(bins*len(places)))
	if err := errors.Join(s.Upload(op.Places, [][]byte{bytesOf(places)}), s.Run(&driver.Fill{Dst: op.Bins}),
		s.Wait(t.Context())); err != nil {
		t.Fatal(err)
	}
	return op
}

// profile adds a row, after comparing the bins with the CPU's.
func (b *bench) profile(name string, axis driver.ProfileAxis, goal float64) {
	b.t.Helper()
	op := profileOp(b.t, b.dev, b.s, b.w.p, b.w.prepared, b.frames[0], axis)
	dev := open(b.t, cpu.Driver)
	s := newStream(b.t, dev)
	prepare := driver.MaskPrepare{Regions: b.w.p.Regions, Width: b.w.p.Width, Height: b.w.p.Height}
	n, err := dev.Scratch(&prepare)
	if err != nil {
		b.t.Fatal(err)
	}
	prepare.Dst = alloc(b.t, dev, n)
	frame := alloc(b.t, dev, int64(len(b.w.p.Pixels)))
	want := profileOp(b.t, dev, s, b.w.p, prepare.Dst, frame, axis)
	got, expected := make([]driver.ProfileBin, op.Bins.Len/profileBinBytes),
		make([]driver.ProfileBin, op.Bins.Len/profileBinBytes)
	b.must(s.Run(&prepare), s.Upload(frame, [][]byte{b.w.p.Pixels}), s.Run(want),
		s.Download(bytesOf(expected), want.Bins), s.Wait(b.t.Context()))
	b.must(b.s.Run(op), b.s.Download(bytesOf(got), op.Bins), b.s.Wait(b.t.Context()))
	if !slices.Equal(got, expected) {
		b.t.Errorf("%s: %v", name, devicetest.CompareProfiles(got, expected))
	}
	of := func(i int) *driver.MaskProfile {
		one := *op
		one.Frame.Data = b.frames[i%len(b.frames)]
		return &one
	}
	b.timed(name, b.covered()+op.Bins.Len, goal, 10, func(i int) error { return b.s.Run(of(i)) },
		func(i int) error { return errors.Join(b.s.Run(of(i)), b.s.Download(bytesOf(got), op.Bins)) })
}
