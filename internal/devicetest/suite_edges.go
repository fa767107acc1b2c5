// The suite: edges.

package devicetest

import (
	"context"
	"errors"

	"github.com/polyscan/polyscan/kernels/driver"
)

// edges checks pictures of every kind against the oracle.
func (s Suite) edges(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	for i, p := range Pictures(s.Seed, s.Random) {
		got, err := r.edges(t, &p, i%3*int(p.Format.SampleBytes))
		if errors.Is(err, driver.ErrNotSupported) {
			t.Logf("%s lacks the op: %v", s.Driver.Name(), err)
			return
		}
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		if d := CompareEdges(got, p.Edges(), p.Width); d != nil {
			t.Errorf("%s: %v", p.Name, d)
		}
	}
}

// edges runs one Edges on a picture that is offset from alignment.
func (r *rig) edges(t T, p *Picture, offset int) ([]uint16, error) {
	t.Helper()
	out := make([]uint16, p.Width*p.Height)
	r.reserve(t, 2, int64(len(p.Pixels)+offset+2*len(out)))
	op := driver.Edges{Src: p.Image(r.slice(t, int64(len(p.Pixels)), offset))}
	op.Dst = r.slice(t, 2*int64(len(out)), 0)
	r.upload(t, op.Src.Data, p.Pixels)
	r.fill(t, op.Dst, dirtyByte)
	r.wait(t)
	if err := errors.Join(r.stream.Run(&op), r.stream.Wait(context.Background())); err != nil {
		return nil, err
	}
	r.download(t, bytesOf(out), op.Dst)
	r.wait(t)
	r.checkGuards(t)
	return out, nil
}
