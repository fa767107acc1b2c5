// The suite: co-occurrence.

package devicetest

import (
	"errors"
	"math/rand/v2"
	"strings"

	"github.com/polyscan/polyscan/kernels/driver"
)

// cooccurrence counts pairs of the cases, whole and in bands of rows, and compares the counts with the oracle's.
func (s Suite) cooccurrence(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	g := rand.New(rand.NewPCG(s.Seed, 77))
	for c, p := range s.pairCases {
		choices := PairChoices(g, true)
		if !s.Short && p.Count <= 8 {
			choices = PairChoices(g, false)
		}
		if s.Short { // one for each case, in turn
			choices = choices[len(c.Name)%len(choices):][:1]
		}
		for _, pairs := range choices {
			pairs.ToRow = p.Height
			row0 := 0
			if g.IntN(3) == 0 {
				row0 = g.IntN(p.Height)
			}
			if err := r.cooccurrence(t, p, pairs, row0, g); errors.Is(err, driver.ErrNotSupported) {
				t.Logf("%s lacks the op: %v", s.Driver.Name(), err)
				return
			} else if err != nil {
				t.Errorf("%s, %d levels at %v, frame from row %d: %v", c.Name, pairs.Levels, pairs.Offsets, row0, err)
			}
		}
	}
}

// cooccurrence counts the pairs of a problem whose frame begins at row0: at once, and then in bands that accumulate.
func (r *rig) cooccurrence(t T, p *Problem, pairs Pairs, row0 int, g *rand.Rand) error {
	t.Helper()
	nc, rows := int(p.Format.Channels), p.Height-row0
	op := driver.MaskCooccurrence{
		First: p.First, Count: p.Count, Row0: row0, FromRow: pairs.FromRow, ToRow: pairs.ToRow, Offsets: pairs.Offsets,
		Levels: pairs.Levels,
		Frame:  driver.Image{Width: p.Width, Height: rows, Stride: p.Stride, Format: p.Format},
	}
	prepare := driver.MaskPrepare{Regions: p.Regions, Width: p.Width, Height: p.Height}
	size, err := r.dev.Scratch(&prepare)
	if err != nil {
		return err
	}
	extra, err := r.dev.Scratch(&op)
	if err != nil {
		return err
	}
	pixels := p.Pixels[row0*p.Stride:]
	counts := make([]uint32, p.Count*nc*op.CellCount())
	r.reserve(t, 4, size+extra+int64(len(pixels)+p.Offset+4*len(counts)))
	prepare.Dst = r.slice(t, size, 0)
	op.Prepared = prepare.Dst
	op.Frame.Data = r.slice(t, int64(len(pixels)), p.Offset)
	op.Counts = r.slice(t, int64(4*len(counts)), 0)
	op.Scratch = r.slice(t, extra, 0)
	for _, s := range []driver.Slice{prepare.Dst, op.Counts, op.Scratch} {
		if s.Len > 0 {
			r.fill(t, s, dirtyByte)
		}
	}
	r.upload(t, op.Frame.Data, pixels)
	if err := r.stream.Run(&prepare); err != nil {
		return err
	}
	want := p.Cooccurrence(pairs, row0, rows)
	check := func() error {
		r.download(t, bytesOf(counts), op.Counts)
		r.wait(t)
		if d := CompareCooccurrence(counts, want, p.First, nc, len(pairs.Offsets), pairs.Levels); d != nil {
			return d
		}
		return nil
	}
	return r.wholeAndInBands(t, &op, p.Height, g, func(from, to int) driver.Op {
		band := op
		band.Accumulate, band.FromRow, band.ToRow = from > 0, from, to
		return &band
	}, check)
}

// pairCases are the cases of a suite, with their problems, that are small enough for oracles that look at each pixel of
// a region many times.
func (s Suite) pairCases(yield func(Case, *Problem) bool) {
	for _, c := range Cases(s.Seed, s.Random/10) {
		if c.Heavy || s.only != nil && !s.only(c) || strings.HasPrefix(c.Name, "what") ||
			s.small && !strings.HasPrefix(c.Name, "shape") {
			continue
		}
		p := c.Problem()
		if p.Count == 0 || p.Width*p.Height > 1<<16 || p.Count > 64 {
			continue
		}
		if !yield(c, p) {
			return
		}
	}
}

// wholeAndInBands runs an op whole, and then in bands of rows that accumulate, and checks what comes of each.
func (r *rig) wholeAndInBands(t T, op driver.Op, height int, g *rand.Rand, band func(from, to int) driver.Op,
	check func() error) error {
	t.Helper()
	if err := Enqueue(r.dev, r.stream, op); err != nil {
		return err
	}
	if err := check(); err != nil {
		return err
	}
	for from := 0; from < height; {
		to := min(from+1+g.IntN(height), height)
		if err := Enqueue(r.dev, r.stream, band(from, to)); err != nil {
			return err
		}
		from = to
	}
	if err := check(); err != nil {
		return errors.Join(errors.New("in bands of rows"), err)
	}
	r.checkGuards(t)
	return nil
}
