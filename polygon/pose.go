// Pose: where a part lies in a frame, and the regions of a set moved there.

package polygon

import (
	"fmt"
	"math"
	"slices"

	"github.com/polyscan/polyscan/internal/exact"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Pose says where a part lies: it takes a place (x, y), as regions are drawn, to (A x + B y + C, D x + E y + F) in the
// frame.
type Pose struct{ A, B, C, D, E, F float64 }

// PoseParameters are what a pose does to lengths and directions.
type PoseParameters struct {
	// ScaleX and ScaleY are what lengths along x and along y are multiplied by.
	ScaleX, ScaleY float64
	// Rotation is by how many degrees the x axis is turned, -180 to 180, clockwise on the screen, and Slant by how many
	// more the y axis is: 0 where right angles stay right.
	Rotation, Slant float64
}

// Bounds of poses: what lengths may be multiplied by, and degrees of slant. Parts of which a camera has a usable
// picture lie well within.
const (
	leastPoseScale, mostPoseScale = 0.25, 4
	mostPoseSlant                 = 45
)

// NewPose turns by so many degrees, clockwise on the screen, and multiplies lengths by scale, both about a place, which
// stays where it is, and then shifts. Multiples of 90 degrees are exact.
func NewPose(shift Point, degrees, scale float64, about Point) Pose {
	m := turnBy(degrees)
	m = affine{a: m.a * scale, b: m.b * scale, d: m.d * scale, e: m.e * scale}.about(about.X, about.Y)
	m.c, m.f = m.c+shift.X, m.f+shift.Y
	return Pose{m.a, m.b, m.c, m.d, m.e, m.f}
}

func (p Pose) affine() affine { return affine{p.A, p.B, p.C, p.D, p.E, p.F} }

// To is where a place comes to. Each product and each sum is rounded to float64 by itself, so that every processor gets
// the same.
func (p Pose) To(at Point) Point {
	x, y := p.affine().to(at.X, at.Y)
	return Point{x, y}
}

// Parameters are what the pose does.
func (p Pose) Parameters() PoseParameters {
	rotation := math.Atan2(p.D, p.A) * (180 / math.Pi)
	slant := math.Remainder(math.Atan2(-p.B, p.E)*(180/math.Pi)-rotation, 360)
	return PoseParameters{math.Hypot(p.A, p.D), math.Hypot(p.B, p.E), rotation + 0, slant + 0} // no -0
}

// Check says what is wrong with a pose, in an [*kernels.InvalidError] of "pose".
func (p Pose) Check() error {
	bad := newInvalid()
	for i, v := range []float64{p.A, p.B, p.C, p.D, p.E, p.F} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			bad.Add(path{"pose", "affine", i}, number(v), "must be a finite number")
		}
	}
	if len(bad.Violations) > 0 {
		return bad.Err()
	}
	is := p.Parameters()
	for _, side := range []struct {
		axis string
		v    float64
	}{{"x", is.ScaleX}, {"y", is.ScaleY}} {
		const rounded = 1e-12
		if !(side.v >= leastPoseScale*(1-rounded) && side.v <= mostPoseScale*(1+rounded)) {
			bad.Add(path{"pose"}, fmt.Sprintf("%.6g times along %s", side.v, side.axis), "lengths must be scaled by %v to %v",
				leastPoseScale, float64(mostPoseScale))
		}
	}
	if !(math.Abs(is.Slant) <= mostPoseSlant) {
		bad.Add(path{"pose"}, fmt.Sprintf("a slant of %.6g degrees", is.Slant),
			"the y axis must lie within %d degrees of square to the x axis, and on the same side", mostPoseSlant)
	}
	return bad.Err()
}

// Moved is the set of the same regions, those that s was made of, on a part with a pose. Vertices are moved and then
// rounded to the grid, once; pixels of masks can be moved by whole pixels and turned by right angles only, and shapes
// are found anew by what they say. The origin of the scale moves along, but its axes stay those of the frame. The
// limits are those of s. That they can fail is judged where they are moved to, by [Set.CheckLimits] and for each frame;
// where the pose was found in a frame, which is near to where they are drawn, it is judged there, by s.
//
// A pose out of bounds, and one that takes a vertex out of range or that a shape or a mask can't have, is an
// [*kernels.InvalidError]. pause is that of [NewSetInPieces]. It takes time as there are vertices, and as shapes take.
func (s *Set) Moved(regions []Region, p Pose, found bool, b Bounds, pause func() error) (*Set, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if len(regions) != s.Len() {
		return nil, fmt.Errorf("polygon: %d regions for a set of %d", len(regions), s.Len())
	}
	b = b.withDefaults()
	n := len(regions)
	m := &Set{
		names: s.names, edges: make([]driver.Edge, 0, len(s.edges)), runs: make([]Run, 0, len(s.runs)),
		regions: make([]driver.Region, n), boxes: make([]box, n), rows: emptyBox, areas: make([]float64, n),
		limits: s.limits, limitFrom: s.limitFrom, distinct: s.distinct, needs: s.needs, offsets: s.offsets,
		covered: s.covered, correlations: s.correlations, channels: s.channels, references: s.references,
		linked: s.linked, between: s.between, wanted: s.wanted, scale: s.scale, slots: s.slots, lookBack: s.lookBack,
		drawn: s.asDrawn(), pose: &p, found: found, tiltable: 1 << 18, // some 3 ms
	}
	bad := newInvalid()
	m.moveScale(bad)
	pace := pacer{pause: pause, left: setPiece}
	e := m.newShaper(regions, b, &pace)
	shapes := false
	for i := range regions {
		r := &regions[i]
		if err := pace.took(regionPiece); err != nil {
			return nil, err
		}
		m.vertices += len(r.Mask)
		for _, ring := range r.Rings {
			m.vertices += len(ring)
		}
		var err error
		switch {
		case r.Shape != "":
			shapes = true
		case r.Mask == nil:
			err = m.addRings(bad, i, r, b, &pace)
		default:
			var mask []Run
			if mask, err = e.moved(&shapeNode{}, r.Mask, e.by); err == nil {
				err = m.addMask(bad, i, &Region{Mask: mask}, b, &pace)
			} else if wrong, ok := err.(*shapeError); ok && e.fatal == nil {
				bad.Add(path{"regions", i, "mask"}, fmt.Sprintf("%d runs", len(r.Mask)), "with the pose, %s", wrong.why)
				err = nil
			}
		}
		if err != nil {
			return nil, err
		}
		if len(bad.Violations) > 0 {
			return nil, bad.Err() // the others tend to have the same
		}
	}
	if shapes {
		if err := e.shapes(bad); err != nil {
			return nil, err
		}
	}
	for i, box := range m.boxes {
		m.rows = m.rows.union(box)
		for k, all := 0, m.Limits(i); k < len(all) && !found; k++ { // or nobody asks for slopes
			if err := m.findTilt(i, all[k], &pace); err != nil {
				return nil, err
			}
		}
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	return m, nil
}

// asDrawn is the set that this one is moved of, or itself.
func (s *Set) asDrawn() *Set {
	if s.drawn != nil {
		return s.drawn
	}
	return s
}

// by is what the pose of the set does to vertices.
func (s *Set) by() affine {
	if s.pose == nil {
		return identity
	}
	return s.pose.affine()
}

// moveScale moves the origin of the scale, and lets limits have it.
func (s *Set) moveScale(bad *kernels.InvalidError) {
	if s.scale == nil {
		return
	}
	own := *s.scale
	own.Origin = s.pose.To(own.Origin)
	if !(max(math.Abs(own.Origin.X), math.Abs(own.Origin.Y)) < maxCoordinate) {
		bad.Add(path{"pose"}, fmt.Sprintf("(%v, %v)", own.Origin.X, own.Origin.Y),
			"is where the origin of the scale comes to: must be less than %d px from 0", maxCoordinate)
		return
	}
	own.of = exact.NewScale(own.X, own.Y, own.Origin.X, own.Origin.Y)
	s.scale = &own
	if !slices.ContainsFunc(s.distinct, func(l *Limit) bool { return l.millimetres }) {
		return
	}
	moved := map[*Limit]*Limit{}
	s.distinct = slices.Clone(s.distinct)
	for i, l := range s.distinct {
		its := *l
		its.scale = &own
		moved[l] = &its
		s.distinct[i] = &its
	}
	s.limits = slices.Clone(s.limits)
	for i, l := range s.limits {
		s.limits[i] = moved[l]
	}
}
