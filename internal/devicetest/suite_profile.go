// The suite: profiles.

package devicetest

import (
	"errors"
	"math/rand/v2"

	"github.com/polyscan/polyscan/kernels/driver"
)

// profile makes profiles of the cases, whole and in bands of rows, and compares them with the oracle's.
func (s Suite) profile(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	g := rand.New(rand.NewPCG(s.Seed, 79))
	turn := 0
	for c, p := range s.pairCases {
		choices := Profiles(g, p)
		if s.Short || p.Width*p.Height > 1<<12 { // one for each case, in turn
			choices = choices[turn%len(choices):][:1]
		}
		turn++
		for _, f := range choices {
			row0 := 0
			if g.IntN(3) == 0 {
				row0 = g.IntN(p.Height)
			}
			if err := r.profile(t, p, f, row0, g); errors.Is(err, driver.ErrNotSupported) {
				t.Logf("%s lacks the op: %v", s.Driver.Name(), err)
				return
			} else if err != nil {
				t.Errorf("%s, axis %d, step %d, centre (%d,%d), segments %v, frame from row %d: %v", c.Name, f.Axis, f.Step,
					f.CentreX, f.CentreY, f.Segments, row0, err)
			}
		}
	}
}

// profile makes a profile of a problem whose frame begins at row0: at once, onto what is there, and in bands.
func (r *rig) profile(t T, p *Problem, f Profile, row0 int, g *rand.Rand) error {
	t.Helper()
	rows := p.Height - row0
	op := driver.MaskProfile{
		First: p.First, Count: p.Count, Regions: len(f.Places), Row0: row0, FromRow: f.FromRow, ToRow: f.ToRow,
		Axis: f.Axis, Step: f.Step, CentreX: f.CentreX, CentreY: f.CentreY, Segments: f.Segments,
		Frame: driver.Image{Width: p.Width, Height: rows, Stride: p.Stride, Format: p.Format},
	}
	prepare := driver.MaskPrepare{Regions: p.Regions, Width: p.Width, Height: p.Height}
	size, err := r.dev.Scratch(&prepare)
	if err != nil {
		return err
	}
	pixels := p.Pixels[row0*p.Stride:]
	r.reserve(t, 4, size+int64(len(pixels)+p.Offset+16*len(f.Places)+16*f.Bins))
	prepare.Dst = r.slice(t, size, 0)
	op.Prepared = prepare.Dst
	op.Frame.Data = r.slice(t, int64(len(pixels)), p.Offset)
	op.Places = r.slice(t, int64(16*len(f.Places)), 0)
	op.Bins = r.slice(t, int64(16*f.Bins), 0)
	r.fill(t, prepare.Dst, dirtyByte)
	r.upload(t, op.Frame.Data, pixels)
	if len(f.Places) > 0 {
		r.upload(t, op.Places, bytesOf(f.Places))
	}
	// What is there is added to.
	before := make([]driver.ProfileBin, f.Bins)
	for i := range before {
		before[i] = driver.ProfileBin{Sum: uint64(i) << 33, Count: ^uint64(i)}
	}
	if err := r.stream.Run(&prepare); err != nil {
		return err
	}
	want := p.Profile(f, row0, rows)
	bins := make([]driver.ProfileBin, f.Bins)
	check := func() error {
		if f.Bins > 0 {
			r.download(t, bytesOf(bins), op.Bins)
		}
		r.wait(t)
		for i := range bins {
			bins[i].Sum -= before[i].Sum
			bins[i].Count -= before[i].Count
		}
		if d := CompareProfiles(bins, want); d != nil {
			return d
		}
		return nil
	}
	begin := func() {
		if f.Bins > 0 {
			r.upload(t, op.Bins, bytesOf(before))
		}
	}
	begin()
	return r.wholeAndInBands(t, &op, p.Height, g, func(from, to int) driver.Op {
		if from == 0 {
			begin()
		}
		band := op
		band.FromRow, band.ToRow = from, to
		return &band
	}, check)
}
