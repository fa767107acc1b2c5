// The suite: flat fields.

package devicetest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"

	"github.com/polyscan/polyscan/kernels/driver"
)

// correct checks pictures of every kind, and fields of every kind, against the oracle.
func (s Suite) correct(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	g := rand.New(rand.NewPCG(s.Seed, 41))
	for i, p := range Pictures(s.Seed, s.Random/2) {
		if i%3 == 1 { // as backends like it
			p = p.spaced(16)
		}
		if i%4 == 2 { // saturated, and beyond where there is such
			for b := range p.Pixels {
				if g.IntN(3) == 0 {
					p.Pixels[b] = 255
				}
			}
		}
		for k, f := range Fields(&p, g) {
			gap := [...]int{0, 16, 2, 0}[(i+k)%4]
			got, err := r.correct(t, &p, &f, gap, k%3*int(p.Format.SampleBytes))
			if errors.Is(err, driver.ErrNotSupported) {
				t.Logf("%s lacks the op: %v", s.Driver.Name(), err)
				return
			}
			if err != nil {
				t.Errorf("%s: %s: %v", p.Name, f.Name, err)
				continue
			}
			want := f.Correct(&p, 0)
			padded := want
			padded.Stride += gap
			padded.Pixels = bytes.Repeat([]byte{dirtyByte}, len(got))
			for y := range want.Height {
				copy(padded.Pixels[y*padded.Stride:], want.Pixels[y*want.Stride:][:want.Stride])
			}
			if d := ComparePainted("Correct", got, padded.Pixels, &padded); d != nil {
				t.Errorf("%s: %s: %v", p.Name, f.Name, d)
			}
		}
	}
}

// spaced is the picture with rows at multiples of so many bytes.
func (p *Picture) spaced(align int) Picture {
	q, row := *p, p.Width*p.Format.PixelBytes()
	q.Stride = (row + align - 1) / align * align
	q.Pixels = make([]byte, q.Stride*(q.Height-1)+row)
	for y := range q.Height {
		copy(q.Pixels[y*q.Stride:][:row], p.Pixels[y*p.Stride:])
	}
	return q
}

// correct runs one Correct on a picture, into rows with a gap between them, with the pictures offset from alignment.
func (r *rig) correct(t T, p *Picture, f *Field, gap, offset int) ([]byte, error) {
	t.Helper()
	stride := p.Width*p.Format.PixelBytes() + gap
	out := make([]byte, stride*(p.Height-1)+stride-gap)
	dark, gain := f.Lay()
	r.reserve(t, 4, int64(len(p.Pixels)+len(out)+len(dark)+len(gain)+2*offset+4*driver.Align))
	op := driver.Correct{Src: p.Image(r.slice(t, int64(len(p.Pixels)), offset)), Fraction: f.Fraction,
		FieldRows: f.Height}
	op.Dst = driver.Image{Data: r.slice(t, int64(len(out)), offset/2*2), Width: p.Width, Height: p.Height,
		Stride: stride, Format: p.Format}
	op.Dark, op.Gain = r.slice(t, int64(len(dark)), 0), r.slice(t, int64(len(gain)), 0)
	r.upload(t, op.Src.Data, p.Pixels)
	r.upload(t, op.Dark, dark)
	r.upload(t, op.Gain, gain)
	r.fill(t, op.Dst.Data, dirtyByte)
	r.wait(t)
	if err := errors.Join(Enqueue(r.dev, r.stream, &op), r.stream.Wait(context.Background())); err != nil {
		return nil, err
	}
	r.download(t, out, op.Dst.Data)
	r.wait(t)
	r.checkGuards(t)
	return out, nil
}
