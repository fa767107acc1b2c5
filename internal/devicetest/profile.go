// Profiles: the oracle, problems, and the comparison.

package devicetest

import (
	"fmt"
	"math/big"
	"math/rand/v2"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Profile says which profile of a problem is made, and where its bins are.
type Profile struct {
	Axis             driver.ProfileAxis
	Step             int
	CentreX, CentreY int32
	Segments         []driver.ProfileSegment
	Places           []driver.ProfilePlace
	Bins             int // of all regions and channels
	FromRow, ToRow   int
}

// Profile is what [driver.MaskProfile] must add for the regions of p, of which rows [row0, row0+rows) are in the frame.
func (p *Problem) Profile(f Profile, row0, rows int) []driver.ProfileBin {
	out := make([]driver.ProfileBin, f.Bins)
	for i := range p.Count {
		place := f.Places[p.First+i]
		nc := uint64(p.Format.Channels)
		if place.First+uint64(place.Bins)*nc > uint64(f.Bins) {
			continue
		}
		_, inside := p.insideRows(p.First+i, row0, rows)
		for _, at := range inside {
			b := f.bin(at, int64(place.Origin))
			if at.y < f.FromRow || at.y >= f.ToRow || b < 0 || b >= int64(place.Bins) {
				continue
			}
			for c := range nc {
				to := &out[place.First+c*uint64(place.Bins)+uint64(b)]
				to.Sum += uint64(p.sample(at.x, at.y, int(c)))
				to.Count++
			}
		}
	}
	return out
}

// bin is the one of a pixel, or below 0.
func (f *Profile) bin(at spot, origin int64) int64 {
	floor := func(a, b *big.Int) int64 {
		q, rest := new(big.Int).QuoRem(a, b, new(big.Int))
		if rest.Sign() < 0 {
			q.Sub(q, big.NewInt(1))
		}
		return q.Int64()
	}
	n := big.NewInt
	times := func(a, b int64) *big.Int { return new(big.Int).Mul(n(a), n(b)) }
	centre := func(v int, from int32) int64 { return int64(v)*256 + 128 - int64(from) }
	switch f.Axis {
	case driver.ProfileRows:
		return floor(n(int64(at.y)-origin), n(int64(f.Step)))
	case driver.ProfileColumns:
		return floor(n(int64(at.x)-origin), n(int64(f.Step)))
	case driver.ProfileRadius:
		dx, dy := centre(at.x, f.CentreX), centre(at.y, f.CentreY)
		square := new(big.Int).Add(times(dx, dx), times(dy, dy))
		return floor(square.Sqrt(square), n(int64(f.Step))) - origin
	}
	for _, s := range f.Segments {
		cx, cy, dx, dy := centre(at.x, s.X), centre(at.y, s.Y), int64(s.DX), int64(s.DY)
		dot := new(big.Int).Add(times(cx, dx), times(cy, dy))
		aside := new(big.Int).Sub(times(cx, dy), times(cy, dx))
		length := new(big.Int).Add(times(dx, dx), times(dy, dy))
		if dot.Sign() < 0 || dot.Cmp(length) >= 0 || aside.Cmp(n(s.Low)) < 0 || aside.Cmp(n(s.High)) >= 0 {
			continue
		}
		return int64(s.First) + floor(dot.Mul(dot, n(int64(s.Bins))), length) - origin
	}
	return -1
}

func init() { oracle(hostMaskProfile) }

func hostMaskProfile(op *driver.MaskProfile) error {
	p, err := preparedFor(op.Prepared, &op.Frame, op.Row0, op.First, op.Count)
	if err != nil {
		return err
	}
	p.Pixels = append(make([]byte, op.Row0*p.Stride), view(op.Frame.Data)...)
	if err := p.checkUse(); err != nil {
		return err
	}
	bins := values[driver.ProfileBin](op.Bins)
	more := p.Profile(Profile{op.Axis, op.Step, op.CentreX, op.CentreY, op.Segments,
		values[driver.ProfilePlace](op.Places), len(bins), op.FromRow, op.ToRow}, op.Row0, op.Frame.Height)
	for i := range more {
		more[i].Sum += bins[i].Sum
		more[i].Count += bins[i].Count
	}
	copy(view(op.Bins), bytesOf(more))
	return nil
}

// Profiles are profiles to make of a problem: along each axis in narrow and wide bins, around centres inside and far
// outside, between pixels' centres and on them, along lines in all directions that lie on pixels' centres and beside
// them, with ends at the corners of pixels, crossing themselves, wide and of no width at all; with bins for all of a
// region, for a part of it, for none, and some beyond the end.
func Profiles(g *rand.Rand, p *Problem) []Profile {
	w, h := int32(p.Width)*256, int32(p.Height)*256
	const any = driver.MaxProfileAside
	at := func(most int32) int32 { return g.Int32N(2*most+1) - most/2 }
	segment := func(x, y, dx, dy int32, bins, first uint32, half int64) driver.ProfileSegment {
		if dx == 0 && dy == 0 {
			dx = 1
		}
		return driver.ProfileSegment{X: x, Y: y, DX: dx, DY: dy, Bins: bins, First: first, Low: -half, High: half}
	}
	var turns []driver.ProfileSegment
	x, y, first := at(w), at(h), uint32(0)
	for range 2 + g.IntN(driver.MaxProfileSegments-1) {
		dx, dy := at(w)-at(w)/2, at(h)-at(h)/2
		s := segment(x, y, dx, dy, 1+g.Uint32N(40), first, 256*int64(1+g.IntN(int(w+h))))
		turns, first = append(turns, s), first+s.Bins
		x, y = x+s.DX, y+s.DY
	}
	all := []Profile{
		{Axis: driver.ProfileRows, Step: 1},
		{Axis: driver.ProfileRows, Step: 2 + g.IntN(9)},
		{Axis: driver.ProfileColumns, Step: 1},
		{Axis: driver.ProfileColumns, Step: 2 + g.IntN(40)},
		{Axis: driver.ProfileRadius, Step: 256, CentreX: w / 2, CentreY: h / 2},
		{Axis: driver.ProfileRadius, Step: 1 + g.IntN(1000), CentreX: at(w), CentreY: at(h)},
		{Axis: driver.ProfileRadius, Step: 256 * 100, CentreX: driver.MaxProfilePlace * 256,
			CentreY: -driver.MaxProfilePlace * 256},
		{Axis: driver.ProfileRadius, Step: 512, CentreX: 128, CentreY: 128},
		{Axis: driver.ProfileLine, Segments: []driver.ProfileSegment{segment(0, 128, w, 0, uint32(p.Width), 0, 128*int64(w))}},
		{Axis: driver.ProfileLine, Segments: []driver.ProfileSegment{segment(w, h, -w, -h, 100, 0, any)}},
		{Axis: driver.ProfileLine, Segments: []driver.ProfileSegment{segment(w/2, 0, 0, h, 7, 0, 100*int64(h)),
			segment(w/2, h, 0, -h, 9, 7, 200*int64(h))}},
		{Axis: driver.ProfileLine, Segments: []driver.ProfileSegment{segment(at(w), at(h), 1, -1, driver.MaxProfileBins-1,
			0, any)}},
		{Axis: driver.ProfileLine, Segments: []driver.ProfileSegment{segment(at(w), at(h), at(w), at(h), 1+g.Uint32N(300),
			0, 0)}},
		{Axis: driver.ProfileLine, Segments: turns},
	}
	nc := int(p.Format.Channels)
	for i := range all {
		f := &all[i]
		n := 1 + (p.Height-1)/max(f.Step, 1)
		switch f.Axis {
		case driver.ProfileColumns:
			n = 1 + (p.Width-1)/f.Step
		case driver.ProfileRadius:
			n = 2 + 256*2*(p.Width+p.Height)/f.Step
		case driver.ProfileLine:
			last := f.Segments[len(f.Segments)-1]
			n = int(last.First + last.Bins)
		}
		f.ToRow = p.Height
		for k := range p.Regions.Regions {
			place := driver.ProfilePlace{Bins: uint32(n), First: uint64(f.Bins)}
			if f.CentreX == driver.MaxProfilePlace*256 {
				place.Origin = 59316 - int32(p.Width/141) - 1 // the frame's corner is 5931640 px from there
			}
			switch k % 4 {
			case 1:
				place.Origin += int32(g.IntN(n + 1))
				place.Bins = uint32(g.IntN(n + 1))
			case 2:
				place.Origin -= int32(g.IntN(9))
			}
			f.Bins += int(place.Bins) * nc
			f.Places = append(f.Places, place)
		}
		if g.IntN(3) == 0 && f.Bins > 0 { // the last region that has any ends beyond
			f.Bins--
		}
	}
	return all
}

// CompareProfiles returns the first difference of two results, or nil.
func CompareProfiles(a, b []driver.ProfileBin) *Difference {
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		d := &Difference{Op: "MaskProfile", Region: -1, Field: fmt.Sprintf("sum of bin %d", i), A: a[i].Sum, B: b[i].Sum}
		if a[i].Count != b[i].Count {
			d.Field, d.A, d.B = fmt.Sprintf("pixels of bin %d", i), a[i].Count, b[i].Count
		}
		for k := range a {
			if a[k] != b[k] {
				d.Count++
			}
		}
		return d
	}
	return nil
}
