// The pose that fits centres best, and whether it may be.

package locate

import (
	"fmt"
	"math"

	"github.com/polyscan/polyscan/polygon"
)

// pair is a place on the part, and where it was found.
type pair struct{ from, to polygon.Point }

// fit is the pose of a model with the least sum of squared distances. The pairs are as many, and lie as far apart, as
// the model needs.
func fit(m Model, pairs []pair) polygon.Pose {
	from := mean(pairs, func(p *pair) polygon.Point { return p.from })
	to := mean(pairs, func(p *pair) polygon.Point { return p.to })
	p := polygon.Pose{A: 1, E: 1}
	var xx, xy, yy, xu, yu, xv, yv float64 // of places about their mean: x, y on the part come to u, v
	for _, q := range pairs {
		x, y, u, v := q.from.X-from.X, q.from.Y-from.Y, q.to.X-to.X, q.to.Y-to.Y
		xx, xy, yy = xx+float64(x*x), xy+float64(x*y), yy+float64(y*y)
		xu, yu, xv, yv = xu+float64(x*u), yu+float64(y*u), xv+float64(x*v), yv+float64(y*v)
	}
	switch m {
	case Similarity:
		p.A, p.D = (xu+yv)/(xx+yy), (xv-yu)/(xx+yy)
		p.B, p.E = -p.D, p.A
	case Affine:
		det := float64(xx*yy) - float64(xy*xy)
		p.A, p.B = (float64(xu*yy)-float64(yu*xy))/det, (float64(yu*xx)-float64(xu*xy))/det
		p.D, p.E = (float64(xv*yy)-float64(yv*xy))/det, (float64(yv*xx)-float64(xv*xy))/det
	}
	moved := p.To(from)
	p.C, p.F = to.X-moved.X, to.Y-moved.Y
	return p
}

// settle fits the pose to the centres that were found, and says in Reason why it may not be.
func (l *Locator) settle(loc *Location) {
	pairs := make([]pair, len(loc.Marks))
	for i := range loc.Marks {
		if !loc.Marks[i].Found {
			loc.Reason = loc.Marks[i].Reason
			return
		}
		pairs[i] = pair{l.cfg.Fiducials[i].At, loc.Marks[i].At}
	}
	loc.Pose, loc.HasPose = fit(l.cfg.Model, pairs), true
	worst := 0
	for i := range pairs {
		m := &loc.Marks[i]
		if m.Residual = distance(loc.Pose.To(pairs[i].from), pairs[i].to); m.Residual > loc.Residual {
			loc.Residual, worst = m.Residual, i
		}
	}
	loc.Reason = l.distorted(pairs, loc)
	switch {
	case loc.Reason != "":
	case !(loc.Residual <= l.cfg.MaxResidual):
		loc.Reason = fmt.Sprintf("fiducial %q lies %.3f px from where the pose has it: the limit is %v px",
			loc.Marks[worst].Name, loc.Residual, l.cfg.MaxResidual)
	default:
		if err := loc.Pose.Check(); err != nil {
			loc.Reason = err.Error()
		}
	}
	loc.Found = loc.Reason == ""
}

// distorted says which length differs too much from that of the part.
func (l *Locator) distorted(pairs []pair, loc *Location) string {
	most := l.cfg.MaxDistortion
	off := func(v float64) (float64, bool) { p := 100 * (v - 1); return p, math.Abs(p) <= most }
	for i := range pairs {
		for k := range i {
			was, is := distance(pairs[i].from, pairs[k].from), distance(pairs[i].to, pairs[k].to)
			if p, ok := off(is / was); !ok {
				return fmt.Sprintf("fiducials %q and %q lie %.2f px apart, and %.2f on the part: %+.2f %%, the limit is %v %%",
					loc.Marks[k].Name, loc.Marks[i].Name, is, was, p, most)
			}
		}
	}
	is := loc.Pose.Parameters()
	for _, side := range []struct {
		axis  string
		scale float64
	}{{"x", is.ScaleX}, {"y", is.ScaleY}} {
		if p, ok := off(side.scale); !ok {
			return fmt.Sprintf("lengths along %s are scaled by %.5f: %+.2f %%, the limit is %v %%", side.axis, side.scale, p,
				most)
		}
	}
	if p := 100 * math.Tan(is.Slant*(math.Pi/180)); !(math.Abs(p) <= most && math.Abs(is.Slant) < 90) {
		return fmt.Sprintf("the axes are %.3f degrees from square: %.2f %%, the limit is %v %%", is.Slant, p, most)
	}
	return ""
}
