// Plane: the plane that fits the samples of a region best, whose slopes tell uneven light from a defect.

package polygon

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/polyscan/polyscan/kernels/driver"
)

// moments are sums over the pixels of a region inside a frame, of columns x and rows y: those that no device returns,
// and three that it does, to compare.
type moments struct {
	n, x, y    uint64 // below 2^53
	xx, xy, yy twiceArea
}

// add adds the pixels [x0, x1) of row y. Sides of frames are at most 2^20.
func (m *moments) add(x0, x1, y int) {
	squares := func(n uint64) uint64 { return n * (n + 1) * (2*n + 1) / 6 } // up to n
	k, row := uint64(x1-x0), uint64(y)
	sum := uint64(x0+x1-1) * k / 2
	m.n, m.x, m.y = m.n+k, m.x+sum, m.y+k*row
	of := squares(uint64(x1 - 1))
	if x0 > 0 {
		of -= squares(uint64(x0 - 1))
	}
	m.xx.addProduct(of, 1)
	m.xy.addProduct(sum, row)
	m.yy.addProduct(k*row, row)
}

// measureMoments finds the moments of all regions where a plane is wanted. onHost is that of measureExtents.
func (d *deriver) measureMoments(ctx context.Context, onHost func(func(pause func() error) error) error) error {
	if !d.want.Has(Plane) || d.moments != nil {
		return nil
	}
	d.moments = make([]moments, d.set.Len())
	rows := 0
	for _, e := range d.set.edges {
		from, to := edgeRows(e)
		rows += max(0, min(to, d.frame.Height)-max(from, 0))
	}
	const few = 1 << 14 // rows of edges, and runs: a fraction of a millisecond
	if rows+len(d.set.runs) <= few {
		return d.countMoments(ctx, nil)
	}
	return onHost(func(pause func() error) error { return d.countMoments(ctx, pause) })
}

// countMoments is measureMoments. pause, where it isn't nil, lets others go first; its error ends the counting.
func (d *deriver) countMoments(ctx context.Context, pause func() error) error {
	x := extent{ctx: ctx, pause: pause, last: time.Now()}
	for i := range d.moments {
		d.moments[i] = d.set.momentsIn(i, d.frame.Width, d.frame.Height, func(steps int) bool {
			x.looks -= steps
			return x.done()
		})
		if x.err != nil {
			return x.err
		}
	}
	return nil
}

// momentsIn are those of region i in a frame of a size. It calls ended with how many steps are next, and ends once that
// says so.
func (s *Set) momentsIn(i, width, height int, ended func(steps int) bool) (m moments) {
	add := func(x0, x1, y int) {
		if x0, x1 = max(x0, 0), min(x1, width); x0 < x1 && y >= 0 && y < height {
			m.add(x0, x1, y)
		}
	}
	fill := s.regions[i].Fill
	for _, r := range s.runsOf(i) {
		if ended(1) {
			return m
		}
		add(int(r.X0), int(r.X1), int(r.Y))
	}
	sweepUntil(s.edgesOf(i), 0, height, func(steps, _ int) bool { return ended(steps) }, func(y int, turns []turn) bool {
		spans(turns, fill, func(x0, x1 int) { add(x0, x1, y) })
		return true
	})
	return m
}

// momentsOf are those of region i, whose pixels have these sums on the device. It is nil where no plane is wanted, and
// where lines of the region never came: then the pixels that were summed are not those of the region.
func (d *deriver) momentsOf(i int, s *driver.MaskStats, lost string) (*moments, error) {
	if !d.want.Has(Plane) {
		return nil, nil
	}
	m := &d.moments[i]
	switch {
	case m.n == s.Count && m.x == s.SumX && m.y == s.SumY:
		return m, nil
	case lost != "":
		return nil, nil
	}
	return nil, fmt.Errorf("%w: region %d has %d pixels whose columns sum to %d and rows to %d; "+
		"they should be %d, %d and %d", ErrInconsistent, i, s.Count, s.SumX, s.SumY, m.n, m.x, m.y)
}

// signedWide is a difference.
type signedWide struct {
	of       wide
	negative bool
}

func difference(a, b wide) signedWide {
	if a.compare(&b) < 0 {
		return signedWide{b.minus(a), true}
	}
	return signedWide{of: a.minus(b)}
}

func (a signedWide) times(b signedWide) signedWide {
	return signedWide{a.of.times(b.of), a.negative != b.negative}
}

func (a signedWide) minus(b signedWide) signedWide {
	switch {
	case a.negative != b.negative:
		return signedWide{a.of.plus(b.of), a.negative}
	case a.negative:
		return difference(b.of, a.of)
	}
	return difference(a.of, b.of)
}

// spread are C(x,x), C(y,y), C(x,y) and D, see plane.
func (m *moments) spread() (xx, yy wide, xy signedWide, d wide) {
	n, x, y := wideOf(m.n), wideOf(m.x), wideOf(m.y)
	of := func(a twiceArea) wide { return wide{a.lo, a.hi} }
	xx, yy = n.times(of(m.xx)).minus(x.times(x)), n.times(of(m.yy)).minus(y.times(y))
	xy = difference(n.times(of(m.xy)), x.times(y))
	return xx, yy, xy, xx.times(yy).minus(xy.of.times(xy.of))
}

// plane fits v = x·column + y·row + z to samples with these sums by least squares, where the pixels are not all on a
// line. Residual is the root of the mean square of what is left. All three are the exact values, correctly rounded.
//
// With n pixels, C(a,b) = n Σab - Σa Σb and D = C(x,x) C(y,y) - C(x,y)², the slopes are
// (C(x,v) C(y,y) - C(y,v) C(x,y)) / D and (C(y,v) C(x,x) - C(x,v) C(x,y)) / D, and the residual's square
// (C(v,v) - slope_x C(x,v) - slope_y C(y,v)) / n². C(x,x) is below 2^104 and C(v,v) below 2^96, so that all that is
// multiplied stays below 2^400.
func (m *moments) plane(s *driver.MaskStats) (slopeX, slopeY, residual float64, ok bool) {
	n, sx, sy, sv := wideOf(m.n), wideOf(m.x), wideOf(m.y), wideOf(s.Sum)
	xx, yy, xy, d := m.spread()
	if d == (wide{}) {
		return 0, 0, 0, false
	}
	xv := difference(n.times(wideOf(s.SumVX)), sx.times(sv))
	yv := difference(n.times(wideOf(s.SumVY)), sy.times(sv))
	px := xv.times(signedWide{of: yy}).minus(yv.times(xy))
	py := yv.times(signedWide{of: xx}).minus(xv.times(xy))
	slope := func(p signedWide) float64 {
		if p.of == (wide{}) {
			return 0
		}
		v := roundedTo(p.of.near()/d.near(), func(m uint64, e int) int {
			quotient, at := p.of.shifted(e), d.times(wideOf(m))
			return quotient.compare(&at)
		})
		if p.negative {
			return -v
		}
		return v
	}
	vv := n.times(wideOf(s.SumSq)).minus(sv.times(sv))
	left := signedWide{of: vv.times(d)}.minus(xv.times(px)).minus(yv.times(py)).of // never negative
	if left != (wide{}) {
		all := d.times(n, n)
		residual = roundedTo(math.Sqrt(left.near()/all.near()), func(m uint64, e int) int {
			quotient, at := left.shifted(2*e), all.times(wideOf(m), wideOf(m))
			return quotient.compare(&at)
		})
	}
	return slope(px), slope(py), residual, true
}

// findTilt bounds the slopes of the plane of region i in frames of samples that are 0 to 1, where the limit is on one
// and few steps find the region's pixels. A slope is a sum of samples by weights that add up to 0, so that it is at
// most half the root of n times the sum of their squares (Cauchy and Schwarz), which is n C(y,y) / D of that along x. A
// region that may reach outside of the frame has other pixels there.
func (s *Set) findTilt(i int, l *Limit, pace *pacer) error {
	const most, side = 1 << 13, 1 << 20 // steps, some 0.1 ms; and of frames, which moments have room for
	_, known := s.tilts[i]
	if known || l.quantity != quantityPlaneX && l.quantity != quantityPlaneY || s.tiltable <= 0 ||
		s.sticksOut(i, side, side) || acceptsOutside(s.Limits(i)) {
		return nil
	}
	left := most
	m := s.momentsIn(i, side, side, func(steps int) bool {
		left -= steps
		return left < 0
	})
	s.tiltable -= most - left
	if xx, yy, _, d := m.spread(); left >= 0 && d != (wide{}) {
		if s.tilts == nil {
			s.tilts = map[int][2]float64{}
		}
		reach := float64(m.n) / 2 / math.Sqrt(d.near()) * (1 + 1e-9)
		s.tilts[i] = [2]float64{reach * math.Sqrt(yy.near()), reach * math.Sqrt(xx.near())}
	}
	return pace.took((most - left) / 4)
}
