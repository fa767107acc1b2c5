// The suite: what cameras send.

package devicetest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"

	"github.com/polyscan/polyscan/kernels/driver"
)

// develop checks frames of all codings, whole and in strips, against the oracle.
func (s Suite) develop(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	g := rand.New(rand.NewPCG(s.Seed, 37))
	for i, shot := range Shots(s.Seed, s.Random/20) {
		from, to := 0, shot.Height
		if i%3 == 1 { // a strip of it
			from = g.IntN(shot.Height)
			to = from + 1 + g.IntN(shot.Height-from)
		}
		gap := i % 4 * 16 / int(shot.Coding.Format().SampleBytes) * int(shot.Coding.Format().SampleBytes)
		if i%5 == 2 {
			gap = 2 + i%2*4
		}
		got, beyond, err := r.develop(t, &shot, from, to, gap, i%3*shot.Coding.Align())
		if errors.Is(err, driver.ErrNotSupported) {
			t.Logf("%s lacks the op: %v", s.Driver.Name(), err)
			return
		}
		if err != nil {
			t.Errorf("%s: %v", shot.Name, err)
			continue
		}
		want, wantBeyond := shot.Develop(from, to)
		padded := want
		padded.Stride += gap
		padded.Pixels = bytes.Repeat([]byte{dirtyByte}, len(got))
		want.copyTo(&padded)
		if d := ComparePainted("Develop", got, padded.Pixels, &padded); d != nil {
			t.Errorf("%s: rows %d to %d: %v", shot.Name, from, to, d)
		}
		if shot.Coding.Checked() && beyond != wantBeyond {
			t.Errorf("%s: %d samples are beyond what their bits hold, want %d", shot.Name, beyond, wantBeyond)
		}
	}
}

// develop runs one Develop on rows [from, to) of a frame, into rows with a gap between them, with the source offset
// from alignment. The op gets the rows that it needs and no others.
func (r *rig) develop(t T, s *Shot, from, to, gap, offset int) (pixels []byte, beyond uint32, err error) {
	t.Helper()
	c, f := s.Coding, s.Coding.Format()
	first, end := c.Rows(from, to, s.Height)
	src := s.Bytes[first*s.Stride:]
	src = src[:(end-first-1)*s.Stride+c.RowBytes(s.Width)]
	row := s.Width * f.PixelBytes()
	stride := row + gap
	pixels = make([]byte, (to-from-1)*stride+row)
	r.reserve(t, 3, int64(len(src)+offset+len(pixels)+driver.Align))
	op := driver.Develop{
		Src: driver.RawImage{Data: r.slice(t, int64(len(src)), offset), Width: s.Width, Height: s.Height, First: first,
			Rows: end - first, Stride: s.Stride, Coding: c},
		Row0: from,
		Dst: driver.Image{Data: r.slice(t, int64(len(pixels)), offset/2*2), Width: s.Width, Height: to - from,
			Stride: stride, Format: f},
	}
	r.upload(t, op.Src.Data, src)
	r.fill(t, op.Dst.Data, dirtyByte)
	if c.Checked() {
		op.Beyond = r.slice(t, 4, 0)
		r.fill(t, op.Beyond, dirtyByte)
	}
	r.wait(t)
	if err := errors.Join(Enqueue(r.dev, r.stream, &op), r.stream.Wait(context.Background())); err != nil {
		return nil, 0, err
	}
	r.download(t, pixels, op.Dst.Data)
	var count [1]uint32
	if c.Checked() {
		r.download(t, bytesOf(count[:]), op.Beyond)
	}
	r.wait(t)
	r.checkGuards(t)
	return pixels, count[0], nil
}
