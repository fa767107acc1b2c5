// The suite: shading.

package devicetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// shade checks paintings against the oracle, by each method and with each colour.
func (s Suite) shade(t T, dev driver.Device) {
	if _, err := dev.Scratch(&driver.Shade{Max: 1, Src: driver.Image{Width: 1, Height: 1},
		Method: driver.ShadeDefault}); errors.Is(err, driver.ErrNotSupported) {
		t.Logf("%s lacks the op: %v", s.Driver.Name(), err)
		return
	}
	r := newRig(t, dev)
	defer r.close(t)
	for _, m := range []driver.ShadeMethod{driver.ShadeDefault, driver.PerTriangle, driver.PerTile} {
		for i, p := range Paintings(s.Seed, s.Random/2) {
			color := driver.ShadeColor(i / 2 % 2)
			name := fmt.Sprintf("%v, %v: %s", m, color, p.Name)
			want := p.dirty()
			wantColors, err := p.Shade(color, want)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, colors, err := r.shade(t, &p, m, color, len(p.Triangles)+i%3)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if d := ComparePainted("Shade", got, want.Pixels, want); d != nil {
				t.Errorf("%s: %v", name, d)
			}
			if !bytes.Equal(colors, wantColors) {
				t.Errorf("%s: the colours of the triangles are % x, want % x", name, colors, wantColors)
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
			if _, _, err := r.shade(t, &bad, m, driver.MeanColor, 1); err == nil {
				t.Errorf("%v: %s: no error", m, name)
			}
		}
	}
}

// dirty is a picture of the same size, with other content and another stride.
func (p *Painting) dirty() *Picture {
	d := Picture{Width: p.Width, Height: p.Height, Format: p.Format}
	d.Stride = p.Width*p.Format.PixelBytes() + 4
	d.Pixels = bytes.Repeat([]byte{dirtyByte}, d.Stride*(d.Height-1)+p.Width*p.Format.PixelBytes())
	return &d
}

// shade runs one Shade, with room for most triangles, and returns the image and the colours.
func (r *rig) shade(t T, p *Painting, m driver.ShadeMethod, color driver.ShadeColor, most int) (pixels, colors []byte,
	err error) {
	t.Helper()
	scratch, err := r.dev.Scratch(&driver.Shade{Max: most, Src: driver.Image{Width: p.Width, Height: p.Height}, Method: m})
	if err != nil {
		return nil, nil, err
	}
	d := p.dirty()
	n := p.Format.PixelBytes()
	r.reserve(t, 7, int64(len(p.Pixels)+len(d.Pixels)+8*len(p.Points)+(12+n)*most+4)+scratch)
	op := driver.Shade{N: len(p.Points), Max: most, Color: color, Method: m}
	op.Src = p.Image(r.slice(t, int64(len(p.Pixels)), int(p.Format.SampleBytes)))
	op.Dst = d.Image(r.slice(t, int64(len(d.Pixels)), 0))
	op.Points = r.slice(t, 8*int64(len(p.Points)), 0)
	op.Triangles = r.slice(t, 12*int64(most), 0)
	op.Count = r.slice(t, 4, 0)
	op.Colors = r.slice(t, int64(n*most), 0)
	op.Scratch = r.slice(t, scratch, 0)
	r.upload(t, op.Src.Data, p.Pixels)
	for _, dirty := range []driver.Slice{op.Dst.Data, op.Triangles, op.Colors, op.Scratch} {
		r.fill(t, dirty, dirtyByte)
	}
	if len(p.Points) > 0 {
		r.upload(t, op.Points, bytesOf(p.Points))
	}
	k := min(most, len(p.Triangles)) // more are to be an error
	if k > 0 {
		r.upload(t, driver.Slice{Mem: op.Triangles.Mem, Off: op.Triangles.Off, Len: 12 * int64(k)},
			bytesOf(p.Triangles[:k]))
	}
	r.upload(t, op.Count, bytesOf([]uint32{uint32(len(p.Triangles))}))
	r.wait(t)
	if err := errors.Join(r.stream.Run(&op), r.stream.Wait(context.Background())); err != nil {
		return nil, nil, err
	}
	pixels, colors = make([]byte, op.Dst.Data.Len), make([]byte, op.Colors.Len)
	r.download(t, pixels, op.Dst.Data)
	r.download(t, colors, op.Colors)
	r.wait(t)
	r.checkGuards(t)
	for _, b := range colors[n*k:] {
		if b != dirtyByte {
			return nil, nil, errors.New("a colour beyond the triangles was written")
		}
	}
	return pixels, colors[:n*k], nil
}
