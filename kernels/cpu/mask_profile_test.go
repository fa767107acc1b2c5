package cpu

import (
	"testing"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// TestSumBytes compares sums with the definition, for lengths around words and for so many of the greatest bytes that
// parts of words would run over.
func TestSumBytes(t *testing.T) {
	rng := seed.New(t, 8, 7)
	for _, n := range []int{0, 1, 7, 8, 9, 31, 32, 33, 1023, 1024, 1025, 1032, 5000} {
		p, want := make([]byte, n), uint64(0)
		for i := range p {
			p[i] = byte(rng.Uint32())
			if n > 1000 {
				p[i] = 255
			}
			want += uint64(p[i])
		}
		if got := sumBytes(p); got != want {
			t.Errorf("%d bytes sum to %d, want %d", n, got, want)
		}
	}
}

// profileOf makes a profile of a frame of GRAY8 with one region that covers it.
func profileOf(f *fixture, pixels []byte, width, height int, axis driver.ProfileAxis) *driver.MaskProfile {
	w, h := int32(width)*driver.Subpixel, int32(height)*driver.Subpixel
	op := &driver.MaskProfile{Count: 1, Regions: 1, ToRow: height, Axis: axis, Step: 1,
		Frame: driver.Image{Data: f.upload(pixels), Width: width, Height: height, Stride: width, Format: driver.Gray8}}
	bins := max(width, height) + min(width, height)
	switch axis {
	case driver.ProfileRadius:
		op.Step, op.CentreX, op.CentreY = driver.Subpixel, w/2, h/2
	case driver.ProfileLine:
		op.Step, bins = 0, max(width, height)
		op.Segments = []driver.ProfileSegment{{DX: w, DY: h, Bins: uint32(bins), Low: -driver.MaxProfileAside,
			High: driver.MaxProfileAside}}
	}
	op.Places = f.upload(bytesOf([]driver.ProfilePlace{{Bins: uint32(bins)}}))
	op.Bins = f.upload(bytesOf(make([]driver.ProfileBin, bins)))
	op.Prepared = f.prepare(one(driver.NonZero, ring(nil, point{0, 0}, point{w, 0}, point{w, h}, point{0, h})), width,
		height, driver.RowSpans)
	f.wait()
	return op
}

// TestCorruptSpansOfProfiles: spans that lie outside of the image are an error, after which bins are right again.
func TestCorruptSpansOfProfiles(t *testing.T) {
	f := newFixture(t, 1, 1<<20)
	op := profileOf(f, make([]byte, 100), 10, 10, driver.ProfileRows)
	p, err := openPrepared(view(op.Prepared))
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []span{{Y: 3, X0: 1, X1: 11}, {Y: 3, X0: -1, X1: 9}, {Y: 3, X0: 9, X1: 1}} {
		old := p.spans[3]
		p.spans[3] = wrong
		f.ok(f.s.Run(op))
		if err := f.s.Wait(t.Context()); err == nil {
			t.Errorf("a span %v: no error", wrong)
		}
		p.spans[3] = old
	}
	clear(viewAs[driver.ProfileBin](op.Bins))
	f.ok(f.s.Run(op))
	f.wait()
	for b, got := range viewAs[driver.ProfileBin](op.Bins)[:10] {
		if got.Count != 10 {
			t.Errorf("%d pixels in row %d after the errors, want 10", got.Count, b)
		}
	}
}

func BenchmarkProfile(b *testing.B) {
	for name, axis := range map[string]driver.ProfileAxis{"rows": driver.ProfileRows, "columns": driver.ProfileColumns,
		"radius": driver.ProfileRadius, "line": driver.ProfileLine} {
		b.Run(name, func(b *testing.B) {
			f := newFixture(b, 1, 64<<20)
			op := profileOf(f, texture(2880*1440), 2880, 1440, axis)
			b.SetBytes(2880 * 1440)
			loop(b, func() {
				f.ok(f.s.Run(op))
				f.wait()
			})
		})
	}
}
