// The suite: weighing.

package devicetest

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/polyscan/polyscan/kernels/driver"
)

// weigh weighs pixels of the cases, whole and in strips, and compares the sums with the oracle's.
func (s Suite) weigh(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	g := rand.New(rand.NewPCG(s.Seed, 78))
	for _, c := range Cases(s.Seed, s.Random/10) {
		if c.Heavy || s.only != nil && !s.only(c) ||
			s.only == nil && s.small && !strings.HasPrefix(c.Name, "shape") {
			continue
		}
		p := c.Problem()
		if p.Count == 0 || p.Width*p.Height > 1<<16 || p.Count > 64 {
			continue
		}
		p.Colors = driver.Colors{}
		most := []int{0, 1, 31, 33, 700}[g.IntN(5)]
		if !s.Short && len(c.Name)%8 == 0 {
			most = 40_000 // several blocks, or threads, to a region
		}
		w := randomWeights(p, most, g)
		if err := r.weigh(t, p, w, g.IntN(p.Height), g); errors.Is(err, driver.ErrNotSupported) {
			t.Logf("%s lacks the op: %v", s.Driver.Name(), err)
			return
		} else if err != nil {
			t.Errorf("%s, %d weights: %v", c.Name, len(w.Pixels), err)
		}
	}
}

// randomWeights lists pixels inside and outside of the image of a problem for all of its regions, most for each.
func randomWeights(p *Problem, most int, g *rand.Rand) Weights {
	w := Weights{Starts: []uint32{0}}
	for range p.Regions.Regions {
		n := 0
		if most > 0 {
			n = g.IntN(most + 1)
		}
		for range n {
			x, y := g.IntN(p.Width+1), g.IntN(p.Height+1)
			weight := int32(g.IntN(1<<17+1) - 1<<16)
			switch g.IntN(40) {
			case 0:
				x, y = driver.MaxSide-1, driver.MaxSide-1
			case 1:
				weight = 1 << 16
			case 2:
				weight = -1 << 16
			}
			w.Pixels = append(w.Pixels, driver.NewWeightedPixel(x, y, weight))
		}
		w.Starts = append(w.Starts, uint32(len(w.Pixels)))
	}
	if n := len(w.Pixels); n > 0 && g.IntN(4) == 0 { // the list ends early
		w.Pixels = w.Pixels[:n-1-g.IntN(n)]
	}
	return w
}

// weigh does one problem: at once, and then in strips of rows that begin at row0.
func (r *rig) weigh(t T, p *Problem, w Weights, row0 int, g *rand.Rand) error {
	t.Helper()
	nc, levels := int(p.Format.Channels), p.Format.Levels()
	op := driver.MaskWeigh{Regions: len(p.Regions.Regions), First: p.First, Count: p.Count,
		Frame: driver.Image{Width: p.Width, Height: p.Height, Stride: p.Stride, Format: p.Format}}
	sums, hist := make([]driver.WeightSums, p.Count*nc), make([]int64, p.Count*nc*levels)
	r.reserve(t, 5, int64(len(p.Pixels)+p.Offset+8*len(w.Pixels)+4*len(w.Starts)+32*len(sums)+8*len(hist)))
	op.Frame.Data = r.slice(t, int64(len(p.Pixels)), p.Offset)
	op.Pixels = r.slice(t, int64(8*len(w.Pixels)), 0)
	op.Starts = r.slice(t, int64(4*len(w.Starts)), 0)
	op.Sums = r.slice(t, int64(32*len(sums)), 0)
	op.Hist = r.slice(t, int64(8*len(hist)), 0)
	for _, s := range []driver.Slice{op.Sums, op.Hist} {
		r.fill(t, s, dirtyByte)
	}
	r.upload(t, op.Frame.Data, p.Pixels)
	if len(w.Pixels) > 0 {
		r.upload(t, op.Pixels, bytesOf(w.Pixels))
	}
	r.upload(t, op.Starts, bytesOf(w.Starts))
	check := func(what string, wantSums []driver.WeightSums, wantHist []int64) error {
		r.download(t, bytesOf(sums), op.Sums)
		r.download(t, bytesOf(hist), op.Hist)
		r.wait(t)
		if d := CompareWeights(sums, wantSums, hist, wantHist, p.First, nc, levels); d != nil {
			return errors.Join(errors.New(what), d)
		}
		return nil
	}
	wantSums, wantHist := p.Weigh(w, 0, p.Height)
	if err := Enqueue(r.dev, r.stream, &op); err != nil {
		return err
	}
	if err := check("the whole frame", wantSums, wantHist); err != nil {
		return err
	}
	strip := func(from, to int, accumulate bool) error {
		one := op
		one.Row0, one.Frame.Height, one.Accumulate = from, to-from, accumulate
		one.Frame.Data.Off += int64(from * p.Stride)
		one.Frame.Data.Len = int64((to-from-1)*p.Stride + p.rowBytes())
		return Enqueue(r.dev, r.stream, &one)
	}
	ends := []int{p.Height}
	if row0 > 0 {
		ends = append(ends, row0, 1+g.IntN(p.Height))
	}
	slices.Sort(ends)
	from := 0
	for _, to := range slices.Compact(ends) {
		if err := strip(from, to, from > 0); err != nil {
			return err
		}
		from = to
	}
	if err := check("in strips", wantSums, wantHist); err != nil {
		return err
	}
	if err := strip(row0, p.Height, false); err != nil {
		return err
	}
	wantSums, wantHist = p.Weigh(w, row0, p.Height-row0)
	if err := check("the last rows alone", wantSums, wantHist); err != nil {
		return err
	}
	noHist := op
	noHist.Hist.Len = 0
	r.fill(t, op.Sums, dirtyByte)
	if err := Enqueue(r.dev, r.stream, &noHist); err != nil {
		return err
	}
	wantSums, _ = p.Weigh(w, 0, p.Height)
	if err := check("without a histogram", wantSums, wantHist); err != nil {
		return err
	}
	r.checkGuards(t)
	return nil
}
