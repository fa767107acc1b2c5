package cpu

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/driver"
)

// holding is a Hold on what was shaded from p, with the picture before.
func holding(x *fixture, shade driver.Shade, before *devicetest.Picture, limit, jump int) *driver.Hold {
	return &driver.Hold{
		Before: before.Image(x.upload(before.Pixels)), Limit: limit, Jump: jump, Changed: x.slice(4),
		Points: shade.Points, N: shade.N,
		Triangles: shade.Triangles, Count: shade.Count, Max: shade.Max, Dst: shade.Dst, Colors: shade.Colors,
	}
}

// No colour is more than the limit from its own; a picture that stays is left alone; and a second time changes nothing.
func TestHeld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, m, limit := rapid.IntRange(0, 65535).Draw(t, "before"), rapid.IntRange(0, 65535).Draw(t, "m"),
			rapid.IntRange(0, 65535).Draw(t, "limit")
		jump := rapid.IntRange(limit, 65535).Draw(t, "jump")
		v, jumped := held(before, m, limit, jump)
		again, _ := held(v, m, limit, jump)
		switch {
		case max(v-m, m-v) > limit, v < min(before, m), v > max(before, m):
			t.Fatalf("%d", v)
		case max(before-m, m-before) <= limit && v != before:
			t.Fatalf("%d is not what was before", v)
		case again != v:
			t.Fatalf("%d, and then %d", v, again)
		case jumped && v != m:
			t.Fatalf("it jumped to %d", v)
		}
	})
}

// It is the same on any number of threads.
func TestHoldThreads(t *testing.T) {
	p, before := photo(300, 200, driver.RGB8), photo(300, 200, driver.RGB8)
	for i := range before.Pixels {
		before.Pixels[i] += uint8(i % 23)
	}
	var want []byte
	for threads := 1; threads < 4; threads++ {
		x, shade := newShading(t, threads, p, scattered(400, 300, 200), driver.PerTriangle)
		op := holding(x, shade, before, 6, 12)
		x.ok(x.s.Run(&shade))
		x.ok(x.s.Run(op))
		got := download[byte](x, op.Dst.Data)
		if want == nil {
			want = got
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d threads paint another picture than one", threads)
		}
	}
}

func FuzzHold(f *testing.F) {
	f.Add([]byte{0, 0, 40, 0, 0, 30, 40, 30, 7, 9, 11, 11}, uint8(40), uint8(30), uint8(0), uint8(7), uint16(6),
		uint16(12))
	f.Add([]byte{3, 3, 3, 9, 9, 3}, uint8(9), uint8(9), uint8(5), uint8(0), uint16(300), uint16(300))
	f.Add([]byte{}, uint8(1), uint8(1), uint8(11), uint8(1), uint16(0), uint16(9))
	f.Fuzz(func(t *testing.T, b []byte, w, h, how, add uint8, limit, jump uint16) {
		jump = max(jump, limit)
		formats := devicetest.PictureFormats()
		p := devicetest.Painting{Picture: *photo(1+int(w)%64, 1+int(h)%64, formats[int(how)%len(formats)])}
		for i := 0; i+1 < min(len(b), 24); i += 2 {
			p.Points = append(p.Points,
				driver.Point{X: int32(b[i]) % int32(p.Width+1), Y: int32(b[i+1]) % int32(p.Height+1)})
		}
		p.Triangles = devicetest.Delaunay(p.Points)
		want, before := p.Picture, p
		want.Pixels = make([]byte, len(p.Pixels))
		colors, err := p.Shade(driver.MeanColor, &want)
		if err != nil {
			t.Fatal(err)
		}
		before.Pixels = bytes.Clone(p.Pixels)
		for i := range before.Pixels {
			if p.Format.SampleBytes == 1 {
				before.Pixels[i] += add
			}
		}
		changed := before.Hold(int(limit), int(jump), &want, colors)
		x, shade := newShading(t, 2, &p.Picture, p.Points, driver.PerTriangle)
		x.ok(x.s.Run(&shade))
		op := holding(x, shade, &before.Picture, int(limit), int(jump))
		x.ok(x.s.Run(op))
		if d := devicetest.ComparePainted("Hold", download[byte](x, shade.Dst.Data), want.Pixels, &want); d != nil {
			t.Fatal(d)
		}
		if n := download[uint32](x, op.Changed)[0]; int(n) != changed {
			t.Fatalf("%d pixels have changed, want %d", n, changed)
		}
	})
}
