// The suite: colours that are held.

package devicetest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// hold checks held paintings against the oracle.
func (s Suite) hold(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	random := rand.New(rand.NewPCG(s.Seed, 23))
	for i, p := range Paintings(s.Seed, s.Random/2) {
		// Most colours are near those before.
		limit, top := []int{0, 1, 6, 40, 65535}[i%5], 256
		jump := min(2*limit+i%3, 65535)
		if p.Format.SampleBytes == 2 {
			top = 1 << p.Format.Bits
		}
		colors := Picture{Width: len(p.Triangles), Height: 1, Format: p.Format,
			Pixels: make([]byte, len(p.Triangles)*p.Format.PixelBytes())}
		for k, v := range p.Triangles {
			pixels := p.pixels(v)
			for c := range int(p.Format.Channels) {
				m := random.IntN(top)
				if len(pixels) > 0 && limit < top && random.IntN(4) > 0 {
					m = p.mean(pixels, c) + random.IntN(5*limit+9) - 5*limit/2 - 4
				}
				colors.put(k, 0, c, min(max(m, 0), top-1))
			}
		}
		dst := p.dirty()
		shaded := Painting{Picture: *dst, Points: p.Points, Triangles: p.Triangles}
		for k, v := range p.Triangles {
			for _, at := range shaded.pixels(v) {
				for c := range int(p.Format.Channels) {
					dst.put(at[0], at[1], c, colors.sample(k, 0, c))
				}
			}
		}
		want, wantColors := *dst, bytes.Clone(colors.Pixels)
		want.Pixels = bytes.Clone(dst.Pixels)
		wantChanged := p.Hold(limit, jump, &want, wantColors)
		got, gotColors, changed, err := r.hold(t, &p, limit, jump, dst, colors.Pixels, len(p.Triangles)+i%3)
		if errors.Is(err, driver.ErrNotSupported) {
			t.Logf("%s lacks the op: %v", s.Driver.Name(), err)
			return
		}
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		if d := ComparePainted("Hold", got, want.Pixels, &want); d != nil {
			t.Errorf("%s, limit %d: %v", p.Name, limit, d)
		}
		if !bytes.Equal(gotColors, wantColors) {
			t.Errorf("%s, limit %d: the colours of the triangles are % x, want % x", p.Name, limit, gotColors,
				wantColors)
		}
		if changed != wantChanged {
			t.Errorf("%s, limit %d: %d pixels have changed, want %d", p.Name, limit, changed, wantChanged)
		}
	}
	p := Painting{Picture: Pictures(s.Seed, 0)[12], Points: []driver.Point{{}, {X: 1}, {Y: 1}},
		Triangles: []driver.Triangle{{A: 0, B: 1, C: 2}}}
	for name, spoil := range map[string]func(*Painting){
		"an index beyond the points": func(p *Painting) { p.Triangles[0].C = 3 },
		"a point left of the image":  func(p *Painting) { p.Points[1].X = -1 },
		"a point below the image":    func(p *Painting) { p.Points[1].Y = int32(p.Height) + 1 },
		"more triangles than Max":    func(p *Painting) { p.Triangles = append(p.Triangles, p.Triangles[0]) },
	} {
		bad := p
		bad.Points, bad.Triangles = slices.Clone(p.Points), slices.Clone(p.Triangles)
		spoil(&bad)
		if _, _, _, err := r.hold(t, &bad, 1, 2, p.dirty(), make([]byte, p.Format.PixelBytes()), 1); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// hold runs one Hold, with room for most triangles, and returns the image, the colours, and how many pixels have
// changed.
func (r *rig) hold(t T, p *Painting, limit, jump int, dst *Picture, colors []byte, most int) (pixels, held []byte,
	changed int, err error) {
	t.Helper()
	n := p.Format.PixelBytes()
	r.reserve(t, 7, int64(len(p.Pixels)+len(dst.Pixels)+8*len(p.Points)+(12+n)*most+8))
	op := driver.Hold{Limit: limit, Jump: jump, N: len(p.Points), Max: most}
	op.Before = p.Image(r.slice(t, int64(len(p.Pixels)), int(p.Format.SampleBytes)))
	op.Dst = dst.Image(r.slice(t, int64(len(dst.Pixels)), 0))
	op.Points = r.slice(t, 8*int64(len(p.Points)), 0)
	op.Triangles = r.slice(t, 12*int64(most), 0)
	op.Count = r.slice(t, 4, 0)
	op.Colors = r.slice(t, int64(n*most), 0)
	op.Changed = r.slice(t, 4, 0)
	r.upload(t, op.Before.Data, p.Pixels)
	r.upload(t, op.Dst.Data, dst.Pixels)
	for _, dirty := range []driver.Slice{op.Triangles, op.Colors, op.Changed} {
		r.fill(t, dirty, dirtyByte)
	}
	part := func(s driver.Slice, n int) driver.Slice { return driver.Slice{Mem: s.Mem, Off: s.Off, Len: int64(n)} }
	k := min(most, len(p.Triangles)) // more are to be an error
	for _, up := range []struct {
		to   driver.Slice
		data []byte
	}{{op.Points, bytesOf(p.Points)}, {part(op.Triangles, 12*k), bytesOf(p.Triangles[:k])},
		{part(op.Colors, n*k), colors[:n*k]}} {
		if len(up.data) > 0 {
			r.upload(t, up.to, up.data)
		}
	}
	r.upload(t, op.Count, bytesOf([]uint32{uint32(len(p.Triangles))}))
	r.wait(t)
	if err := errors.Join(r.stream.Run(&op), r.stream.Wait(context.Background())); err != nil {
		return nil, nil, 0, err
	}
	pixels, held = make([]byte, op.Dst.Data.Len), make([]byte, op.Colors.Len)
	r.download(t, pixels, op.Dst.Data)
	r.download(t, held, op.Colors)
	var number [1]uint32
	r.download(t, bytesOf(number[:]), op.Changed)
	r.wait(t)
	r.checkGuards(t)
	for _, b := range held[n*k:] {
		if b != dirtyByte {
			return nil, nil, 0, errors.New("a colour beyond the triangles was written")
		}
	}
	return pixels, held[:n*k], int(number[0]), nil
}
