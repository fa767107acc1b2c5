package main

// --pose: where the part lies in the frame.

import (
	"fmt"
	"io"
	"strings"

	"github.com/polyscan/polyscan/internal/digits"
	"github.com/polyscan/polyscan/polygon"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type poseFlags struct {
	// Move the regions with the part: a shift in pixels, degrees clockwise and a factor, these two about a place, such as
	// 7.3,-4,1.2@480,320; or the six numbers of an affine map.
	Pose string `placeholder:"DX,DY[,DEG[,SCALE]][@X,Y]" group:"regions" needs:"regions|shape|recipe"`
}

// message is the pose that the flag says; nil without one.
func (p *poseFlags) message() (*polyscanv1.Pose, error) {
	if p.Pose == "" {
		return nil, nil
	}
	wrong := func() error {
		return usage("--pose %q: want a shift such as 7.3,-4, a turn too as in 7.3,-4,1.2@480,320, or six numbers", p.Pose)
	}
	numbers := func(text string) (out []float64) {
		for part := range strings.SplitSeq(text, ",") {
			v, err := digits.Float(strings.TrimSpace(part))
			if err != nil {
				return nil
			}
			out = append(out, v)
		}
		return out
	}
	text, place, about := strings.Cut(p.Pose, "@")
	v := numbers(text)
	if len(v) == 6 && !about {
		return &polyscanv1.Pose{Affine: v}, nil
	}
	if len(v) < 2 || len(v) > 4 {
		return nil, wrong()
	}
	m := &polyscanv1.Pose{Dx: v[0], Dy: v[1], Scale: 1}
	if about {
		at := numbers(place)
		if len(at) != 2 || len(v) < 3 {
			return nil, wrong()
		}
		m.About = &polyscanv1.Point{X: at[0], Y: at[1]}
	}
	if len(v) > 2 {
		m.Rotation = v[2]
	}
	if len(v) > 3 {
		if m.Scale = v[3]; m.Scale <= 0 {
			return nil, usage("--pose %q: the scale %v must be above 0", p.Pose, m.Scale)
		}
	}
	return m, nil
}

// writeUnsearched says that nothing was searched for, where the regions locate the part and a pose went before.
func (p *poseFlags) writeUnsearched(w io.Writer, r *regions) error {
	if p.Pose == "" || r.file.Locate == nil {
		return nil
	}
	_, err := fmt.Fprintln(w, "not searched for: --pose says where the part lies")
	return err
}

// poseOf is the pose of a result; nil where its regions are as they were drawn.
func poseOf(m *polyscanv1.Pose) *polygon.Pose {
	v := m.GetAffine()
	if len(v) != 6 {
		return nil
	}
	return &polygon.Pose{A: v[0], B: v[1], C: v[2], D: v[3], E: v[4], F: v[5]}
}

// poseText is a pose in a line of a table: where it takes (0, 0), and how it turns.
func poseText(p *polygon.Pose) string {
	return fmt.Sprintf("at %.2f,%.2f turned %.2f°", p.C, p.F, p.Parameters().Rotation)
}

// outlinesAt are the outlines of the regions where a pose moves them, nil for none.
func (r *regions) outlinesAt(pose *polygon.Pose) ([][][][2]float64, error) {
	if pose == nil {
		return r.outlines()
	}
	set, err := r.build(false, polygon.Bounds{})
	if err == nil {
		if set, err = set.Moved(r.polygons(false), *pose, false, polygon.Bounds{}, nil); err != nil {
			err = bad(r.name, "%v", err) // the server moved them
		}
	}
	if err != nil {
		return nil, err
	}
	out := make([][][][2]float64, len(r.file.Regions))
	for i, g := range r.file.Regions {
		if g.Rings == nil {
			g.Mask, g.Shape = runsOf(set.Pixels(i)), ""
			if g.Mask != nil {
				out[i] = g.Outlines()
			}
			continue
		}
		for _, ring := range g.Rings {
			moved := make([][2]float64, len(ring))
			for k, p := range ring {
				to := pose.To(polygon.Point{X: p[0], Y: p[1]})
				moved[k] = [2]float64{to.X, to.Y}
			}
			out[i] = append(out[i], moved)
		}
	}
	return out, nil
}
