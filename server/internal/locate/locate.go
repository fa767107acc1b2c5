// Package locate finds where a part lies in a frame by its fiducials: marks whose places on the part are known. Each is
// a blob in a search window, and its centre a centroid that is weighted by how far pixels differ from what is around
// the blob. A pose is fitted to the centres by least squares, and checked.
//
// All that looks at pixels are the reductions and blobs of package polygon, whose integers are the same on every
// backend; what follows is computed from them in float64, each operation rounded by itself.
package locate

import (
	"fmt"
	"math"
	"strconv"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
)

// Kind is the form of a fiducial. All of them have their centre of mass in the middle.
type Kind uint8

const (
	AnyKind Kind = iota
	Circle
	Square
	Cross
)

var kindNames = [...]string{"blob", "circle", "square", "cross"}

// Model says what a pose may do.
type Model uint8

const (
	ByNumber    Model = iota // translation by 1 fiducial, similarity by 2, affine by more
	Translation              // a shift
	Similarity               // a shift, a rotation and a scale
	Affine
)

// least is how many fiducials a model needs.
var least = [...]int{1, 1, 2, 3}

// Fiducial is a mark to look for.
type Fiducial struct {
	Window polygon.Region // where; with a name, and no limits
	At     polygon.Point  // the centre, where the regions are as they were drawn
	Kind   Kind
	Dark   bool // darker than what is around it, else brighter
	// Threshold is the least sample of a bright mark, and the greatest of a dark one; 0 finds it from the window's
	// histogram, by Otsu's method.
	Threshold int
	// Area in pixels; 0 means 16 at least, and no limit.
	MinArea, MaxArea int
	Channel          polygon.Channel // NoChannel is gray, and green of colours
}

// Config says how a part is located.
type Config struct {
	Fiducials []Fiducial
	Model     Model
	// MaxResidual is how far a centre may lie from where the pose has it, in pixels; 0 means 1.
	MaxResidual float64
	// MaxDistortion is how much lengths may differ from those of the part, in percent: the distances of fiducials, and the
	// scales and the slant of the pose. 0 means 0.75.
	MaxDistortion float64
}

// Bounds and defaults.
const (
	MaxFiducials      = 16
	DefaultResidual   = 1
	DefaultDistortion = 0.75
	MostResidual      = 1000
	MostDistortion    = 25 // where one fiducial is as near to the place of another
	defaultMinArea    = 16
	// leastContrast is how far the means on both sides of a threshold that was found must lie apart, as a share of the
	// largest sample: those of noise of 5 of 255 lie 8 apart, which is 3 %.
	leastContrast = 1.0 / 16
	// mostWindowVertices is how many vertices, or runs of pixels, a window may have: rectangles have 4.
	mostWindowVertices = 4096
	// margin is how far a mark may be blurred about its blob, which ends where half of a pixel is the mark's, and ring how
	// far out pixels say what is around it; in pixels. TestAccuracy has 95 % of all centres within 0.05 px with a margin
	// of 1.5, and not with 2, which lets more of what is around the mark in.
	margin = 1.5
	ring   = 4
	// mostSplits is how often the pixels of a window are split to find a threshold.
	mostSplits = 3
	// mostCandidates is how many blobs of a window are looked at.
	mostCandidates = 256
)

// Locator locates parts. It is immutable and safe for concurrent use.
type Locator struct {
	cfg     Config
	windows []*polygon.Set // one for each fiducial
}

// New checks how parts are to be located. What is wrong is a [*kernels.InvalidError] with paths of "locate".
func New(cfg Config) (*Locator, error) {
	bad := &kernels.InvalidError{Domain: "locate"}
	at := kernels.Path{"locate"}
	n := len(cfg.Fiducials)
	switch {
	case n == 0:
		bad.Add(at.Join("fiducials"), "[]", "must hold at least 1 fiducial")
	case n > MaxFiducials:
		bad.Add(at.Join("fiducials"), n, "are too many: the limit is %d fiducials", MaxFiducials)
	}
	if len(bad.Violations) > 0 {
		return nil, bad.Err()
	}
	if cfg.Model == ByNumber {
		cfg.Model = Model(min(n, 3))
	}
	if int(cfg.Model) >= len(least) {
		bad.Add(at.Join("model"), uint8(cfg.Model), "is no model")
		return nil, bad.Err()
	}
	if need := least[cfg.Model]; n < need {
		bad.Add(at.Join("fiducials"), n, "are too few: the model needs %d", need)
	}
	limit := func(name string, v *float64, standard, most float64) {
		switch {
		case !(*v >= 0 && *v <= most):
			bad.Add(at.Join(name), number(*v), "must be 0 to %v, where 0 means %v", most, standard)
		case *v == 0:
			*v = standard
		}
	}
	limit("max_residual", &cfg.MaxResidual, DefaultResidual, MostResidual)
	limit("max_distortion_percent", &cfg.MaxDistortion, DefaultDistortion, MostDistortion)
	l := &Locator{cfg: cfg, windows: make([]*polygon.Set, n)}
	l.cfg.Fiducials = make([]Fiducial, n)
	named := map[string]bool{}
	for i, f := range cfg.Fiducials {
		at := at.Join("fiducials", i)
		if f.Window.Name == "" {
			f.Window.Name = strconv.Itoa(i + 1)
		}
		if named[f.Window.Name] {
			bad.Add(at.Join("window", "name"), strconv.Quote(f.Window.Name), "is the name of two fiducials")
		}
		named[f.Window.Name] = true
		if len(f.Window.Limits) > 0 {
			bad.Add(at.Join("window", "limits"), len(f.Window.Limits), "must not be given: a window has no verdict")
			continue
		}
		if f.Window.Reference != nil {
			bad.Add(at.Join("window", "reference"), "one", "must not be given: a window is compared with nothing")
			continue
		}
		set, err := polygon.NewSet([]polygon.Region{f.Window}, polygon.Bounds{MaxVertices: mostWindowVertices})
		if invalid, ok := err.(*kernels.InvalidError); ok {
			for _, v := range invalid.Violations {
				bad.Add(at.Join("window").Join(v.Path[min(2, len(v.Path)):]...), v.Value, "%s", v.Reason)
			}
		} else if err != nil {
			return nil, err
		}
		l.windows[i] = set
		for k, v := range []float64{f.At.X, f.At.Y} {
			if !(math.Abs(v) < 1<<22) {
				bad.Add(at.Join("at", []string{"x", "y"}[k]), number(v), "must be less than 4194304 px from 0")
			}
		}
		if int(f.Kind) >= len(kindNames) {
			bad.Add(at.Join("kind"), uint8(f.Kind), "is no kind")
		}
		if f.Threshold < 0 || f.Threshold > math.MaxUint16 {
			bad.Add(at.Join("threshold"), f.Threshold, "must be 0 to 65535")
		}
		if f.MinArea < 0 || f.MinArea > polygon.MostMinArea {
			bad.Add(at.Join("min_area"), f.MinArea, "must be 0 to %d", polygon.MostMinArea)
		}
		if f.MinArea == 0 {
			f.MinArea = defaultMinArea
		}
		if f.MaxArea == 0 {
			f.MaxArea = polygon.MostMinArea
		} else if f.MaxArea < 0 || f.MaxArea > polygon.MostMinArea {
			bad.Add(at.Join("max_area"), f.MaxArea, "must be 0 to %d", polygon.MostMinArea)
		} else if f.MaxArea < f.MinArea {
			bad.Add(at.Join("max_area"), f.MaxArea, "must not be below min_area, which is %d", f.MinArea)
		}
		l.cfg.Fiducials[i] = f
	}
	if len(bad.Violations) == 0 {
		l.checkPlaces(bad, at)
	}
	return l, bad.Err()
}

// checkPlaces refuses fiducials that don't say what the model asks for: two at a place, and three on a line.
func (l *Locator) checkPlaces(bad *kernels.InvalidError, at kernels.Path) {
	f := l.cfg.Fiducials
	const near = 8
	for i := range f {
		for k := range i {
			if d := distance(f[i].At, f[k].At); d < near {
				bad.Add(at.Join("fiducials", i, "at"), fmt.Sprintf("%.6g px from that of fiducial %q", d, f[k].Window.Name),
					"must be %d px from it at least", near)
				return
			}
		}
	}
	if l.cfg.Model != Affine {
		return
	}
	// The breadth of what has the second moments of the places: 0 on a line.
	m := mean(f, func(f *Fiducial) polygon.Point { return f.At })
	var xx, xy, yy float64
	for i := range f {
		x, y := f[i].At.X-m.X, f[i].At.Y-m.Y
		xx, xy, yy = xx+float64(x*x), xy+float64(x*y), yy+float64(y*y)
	}
	half := (xx - yy) / 2
	narrow := (xx+yy)/2 - math.Sqrt(float64(half*half)+float64(xy*xy))
	if spread := math.Sqrt(max(narrow, 0) / float64(len(f))); spread < near/2 {
		bad.Add(at.Join("fiducials"), fmt.Sprintf("on a line, but for %.3g px", spread),
			"can't tell an affine pose: they must lie %d px about it at least", near/2)
	}
}

// Some is a pose that may be found, and that nothing of can be left out.
func (l *Locator) Some() polygon.Pose {
	p := polygon.Pose{A: 1, C: 0.25, E: 1, F: 0.5}
	switch l.cfg.Model {
	case Similarity:
		p = polygon.NewPose(polygon.Point{X: 0.25, Y: 0.5}, 0.1, 1.001, polygon.Point{})
	case Affine:
		p.A, p.B, p.D = 1.001, 0.001, 0.0005
	}
	return p
}

// Mark is what was found of a fiducial.
type Mark struct {
	Name      string
	Found     bool
	Reason    string        // why it was not
	At        polygon.Point // its centre, where it was found
	Area      int           // pixels
	Threshold float64       // between its samples and those around it
	Residual  float64       // how far its centre lies from where the pose has it, in pixels; where there is a pose
}

// NotFound begins what those are told who see that a part failed because it was not found; the reason follows.
const NotFound = "the part was not found: "

// Location is where a part lies.
type Location struct {
	Found    bool
	Reason   string // why it was not found
	Pose     polygon.Pose
	HasPose  bool // there is a pose, though it may be out of bounds
	Residual float64
	Marks    []Mark // of all fiducials
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func distance(a, b polygon.Point) float64 { return math.Hypot(a.X-b.X, a.Y-b.Y) }

func mean[T any](list []T, at func(*T) polygon.Point) (m polygon.Point) {
	for i := range list {
		p := at(&list[i])
		m.X, m.Y = m.X+p.X, m.Y+p.Y
	}
	return polygon.Point{X: m.X / float64(len(list)), Y: m.Y / float64(len(list))}
}
