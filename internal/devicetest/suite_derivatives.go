package devicetest

import (
	"context"
	"errors"

	"github.com/polyscan/polyscan/kernels/driver"
)

// derivatives checks pictures of every kind against the oracle.
func (s Suite) derivatives(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	for i, p := range Pictures(s.Seed, s.Random) {
		offset := i % 3 * int(p.Format.SampleBytes)
		out := make([]uint16, 2*p.Width*p.Height)
		r.reserve(t, 3, int64(len(p.Pixels)+offset+2*len(out)))
		op := driver.Derivatives{Src: p.Image(r.slice(t, int64(len(p.Pixels)), offset))}
		op.Gradient, op.Laplacian = r.slice(t, int64(len(out)), 0), r.slice(t, int64(len(out)), 0)
		r.upload(t, op.Src.Data, p.Pixels)
		r.fill(t, op.Gradient, dirtyByte)
		r.fill(t, op.Laplacian, dirtyByte)
		r.wait(t)
		if err := errors.Join(r.stream.Run(&op), r.stream.Wait(context.Background())); err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		gradient, laplacian := p.Derivatives()
		for _, c := range []struct {
			field string
			got   driver.Slice
			want  []uint16
		}{{"Gradient", op.Gradient, gradient}, {"Laplacian", op.Laplacian, laplacian}} {
			got := out[:len(c.want)]
			r.download(t, bytesOf(got), c.got)
			r.wait(t)
			if d := CompareDerivatives(c.field, got, c.want, p.Width); d != nil {
				t.Errorf("%s: %v", p.Name, d)
			}
		}
		r.checkGuards(t)
	}
}
