// The suite: correlation.

package devicetest

import (
	"math/rand/v2"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// correlate sums up pairs of the cases, whole and in bands of rows, of a frame and itself and of two, and compares the
// sums with the oracle's.
func (s Suite) correlate(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	g := rand.New(rand.NewPCG(s.Seed, 78))
	for c, p := range s.pairCases {
		choices := Correlations(g, int(p.Format.Channels))
		if s.Short { // one for each case, in turn
			choices = choices[len(c.Name)%len(choices):][:1]
		}
		for i, sum := range choices {
			sum.ToRow = p.Height
			row0 := 0
			if g.IntN(3) == 0 {
				row0 = g.IntN(p.Height)
			}
			if (i+len(c.Name))%2 == 0 {
				sum.Other = slices.Clone(p.Pixels)
				for k := range sum.Other {
					sum.Other[k] = p.Pixels[len(p.Pixels)-1-k]
				}
			}
			if err := r.correlate(t, p, sum, row0, g); err != nil {
				t.Errorf("%s, %d lags to %d slots, frame from row %d, two frames %v: %v", c.Name, len(sum.Lags),
					sum.Slots, row0, sum.Other != nil, err)
			}
		}
	}
}

// correlate sums up the pairs of a problem whose frame begins at row0: at once, and then in bands that accumulate.
func (r *rig) correlate(t T, p *Problem, c Correlation, row0 int, g *rand.Rand) error {
	t.Helper()
	rows := p.Height - row0
	im := driver.Image{Width: p.Width, Height: rows, Stride: p.Stride, Format: p.Format}
	op := driver.MaskCorrelate{
		First: p.First, Count: p.Count, Row0: row0, FromRow: c.FromRow, ToRow: c.ToRow, Lags: c.Lags, Slots: c.Slots,
		Series: c.Series, Frame: im, Other: im,
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
	sums := make([]driver.PairSums, p.Count*len(c.Series)*c.Slots)
	dst := int64(len(bytesOf(sums)))
	r.reserve(t, 5, size+extra+2*int64(len(pixels)+p.Offset+8)+dst)
	prepare.Dst = r.slice(t, size, 0)
	op.Prepared = prepare.Dst
	op.Frame.Data = r.slice(t, int64(len(pixels)), p.Offset)
	op.Other.Data = op.Frame.Data
	if c.Other != nil { // at another place of a word
		op.Other.Data = r.slice(t, int64(len(pixels)), p.Offset+int(p.Format.SampleBytes))
	}
	op.Sums = r.slice(t, dst, 0)
	op.Scratch = r.slice(t, extra, 0)
	for _, s := range []driver.Slice{prepare.Dst, op.Sums, op.Scratch} {
		if s.Len > 0 {
			r.fill(t, s, dirtyByte)
		}
	}
	r.upload(t, op.Frame.Data, pixels)
	if c.Other != nil {
		r.upload(t, op.Other.Data, c.Other[row0*p.Stride:])
	}
	if err := r.stream.Run(&prepare); err != nil {
		return err
	}
	want := p.Correlate(c, row0, rows)
	check := func() error {
		r.download(t, bytesOf(sums), op.Sums)
		r.wait(t)
		if d := ComparePairs(sums, want, p.First, len(c.Series), c.Slots); d != nil {
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
