// Poses, as messages and as package polygon has them.

package wire

import (
	"context"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

// PoseOf is the pose of a message at path; nil for none. Its bounds are checked. An empty one is refused where parts
// are located: a client that fills in no field doesn't mean to turn that off.
func PoseOf(m *pb.Pose, path string, located bool) (*polygon.Pose, error) {
	if m == nil {
		return nil, nil
	}
	if located && proto.Size(m) == 0 {
		return nil, apierr.Refuse(path, "{}", "is empty, and the regions have a locate section: leave it out so that the "+
			"part is located, or set its scale to 1 for regions as they were drawn")
	}
	var p polygon.Pose
	list := m.GetAffine()
	if len(list) == 0 {
		scale, about := m.GetScale(), polygon.Point{X: m.GetAbout().GetX(), Y: m.GetAbout().GetY()}
		if scale == 0 {
			scale = 1
		}
		if scale < 0 {
			return nil, apierr.Refuse(path+".scale", scale, "must not be negative")
		}
		for i, v := range []float64{about.X, about.Y} {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, apierr.Refuse(path+".about."+[]string{"x", "y"}[i], v, "must be a finite number")
			}
		}
		p = polygon.NewPose(polygon.Point{X: m.GetDx(), Y: m.GetDy()}, m.GetRotation(), scale, about)
	} else {
		if len(list) != 6 {
			return nil, apierr.Refuse(path+".affine", fmt.Sprintf("%d numbers", len(list)), "must be a, b, c, d, e and f")
		}
		if m.GetRotation() != 0 || m.GetScale() != 0 || m.GetAbout() != nil || m.GetDx() != 0 || m.GetDy() != 0 {
			return nil, apierr.Refuse(path+".affine", list, "and a rotation, a scale or a shift: a pose has one of them")
		}
		p = polygon.Pose{A: list[0], B: list[1], C: list[2], D: list[3], E: list[4], F: list[5]}
	}
	return &p, Paths{Pose: path}.Translate(p.Check())
}

// PoseMessage is a pose as a message; nil for none.
func PoseMessage(p *polygon.Pose) *pb.Pose {
	if p == nil {
		return nil
	}
	return &pb.Pose{Affine: []float64{p.A + 0, p.B + 0, p.C + 0, p.D + 0, p.E + 0, p.F + 0}} // no -0
}

// Moved is the set of the inspection on a part with a pose, which lies at path in the request or was found. A found one
// is within some percent of lengths as they were drawn, and a limit that it leaves no room to fail is no reason to stop
// a line; one that the pose of a request leaves none is refused. It calls pause as [NewSet] does.
func (in *Inspection) Moved(ctx context.Context, pose polygon.Pose, path string, found bool, b polygon.Bounds,
	pause func() error) (*polygon.Set, error) {
	p := in.Paths
	p.Pose = path
	regions, err := regionsOf(in.Regions, p, b)
	if err != nil {
		return nil, err
	}
	return counted(ctx, p, b, func(b polygon.Bounds) (*polygon.Set, error) {
		set, err := in.Set.Moved(regions, pose, found, b, pause)
		if err == nil && !found {
			err = set.CheckLimits(&in.Reductions)
		}
		return set, err
	})
}

// MoveWork is what it takes to move the regions, in the unit of [SetWork].
func (in *Inspection) MoveWork() int {
	work := 7*len(in.Regions) + in.Set.Vertices()
	for _, r := range in.Regions {
		if r.GetShape() != "" {
			return work + SmallSet // nobody knows before
		}
	}
	return work
}
