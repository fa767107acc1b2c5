// How parts are located, and where they were found, as messages and as package locate has them.

package wire

import (
	"fmt"

	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/locate"
)

// locatorOf checks how parts are located by a message of regions, which lies at p.Set; nil where they aren't.
func locatorOf(m *pb.RegionSet, p Paths) (*locate.Locator, error) {
	from := m.GetLocate()
	if from == nil {
		return nil, nil
	}
	cfg := locate.Config{Model: locate.Model(from.GetModel()), MaxResidual: from.GetMaxResidual(),
		MaxDistortion: from.GetMaxDistortionPercent()}
	for i, f := range from.GetFiducials() {
		at := fmt.Sprintf("%s.locate.fiducials[%d].window", p.Set, i)
		for k, ring := range f.GetWindow().GetRings() {
			if n := len(ring.GetXy()); n%2 != 0 {
				return nil, p.inSet(at+fmt.Sprintf(".rings[%d].xy", k), fmt.Sprintf("%d numbers", n), "must be pairs of x and y")
			}
		}
		if n := len(f.GetWindow().GetMask().GetRuns()); n%3 != 0 {
			return nil, p.inSet(at+".mask.runs", fmt.Sprintf("%d numbers", n), "must be threes of y, x0 and x1")
		}
		windows, err := regionsOf([]*pb.Region{f.GetWindow()}, Paths{Set: at}, polygon.Bounds{MaxRegions: 1})
		if err != nil {
			return nil, err
		}
		cfg.Fiducials = append(cfg.Fiducials, locate.Fiducial{Window: windows[0], Kind: locate.Kind(f.GetKind()),
			At:   polygon.Point{X: f.GetAt().GetX(), Y: f.GetAt().GetY()},
			Dark: f.GetDark(), Threshold: int(f.GetThreshold()), MinArea: int(f.GetMinArea()), MaxArea: int(f.GetMaxArea()),
			Channel: polygon.Channel(f.GetChannel())})
	}
	l, err := locate.New(cfg)
	if err != nil {
		return nil, p.Translate(err)
	}
	return l, nil
}

// inSet is an error of a field of the regions: of the recipe where that has them.
func (p Paths) inSet(path, value, why string) error {
	if p.Stored != "" {
		return apierr.Refuse(p.Ref, p.Stored, "%s = %s: %s", path, value, why)
	}
	return apierr.Refuse(path, value, "%s", why)
}

// checkMoves refuses regions that can't be moved by poses that a locator may find, such as pixels that it would turn.
func checkMoves(l *locate.Locator, set *polygon.Set, regions []polygon.Region, b polygon.Bounds,
	pause func() error) error {
	for i := range regions {
		if regions[i].Shape != "" || regions[i].Mask != nil {
			_, err := set.Moved(regions, l.Some(), true, b, pause)
			return err
		}
	}
	return nil
}

// LocationMessage is a location as a message; nil for none.
func LocationMessage(l *locate.Location) *pb.Location {
	if l == nil {
		return nil
	}
	m := &pb.Location{Found: l.Found, Reason: l.Reason, Fiducials: make([]*pb.FoundFiducial, len(l.Marks))}
	if l.HasPose {
		is := l.Pose.Parameters()
		m.Pose, m.Residual = PoseMessage(&l.Pose), l.Residual
		m.Rotation, m.ScaleX, m.ScaleY, m.Slant = is.Rotation, is.ScaleX, is.ScaleY, is.Slant
	}
	for i := range l.Marks {
		from := &l.Marks[i]
		to := &pb.FoundFiducial{Name: from.Name, Found: from.Found, Reason: from.Reason, Threshold: from.Threshold}
		if from.Found {
			to.At, to.Area = &pb.Point{X: from.At.X, Y: from.At.Y}, uint32(from.Area)
		}
		if l.HasPose {
			to.Residual = &from.Residual
		}
		m.Fiducials[i] = to
	}
	return m
}
