// Regions and reductions: from messages to what package polygon takes.

package wire

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
)

// NewSet checks and compiles the regions of a message, which is not kept. It calls pause, unless that is nil, as
// [polygon.NewSetInPieces] does. What shapes and limits take counts for the request that ctx is of.
func NewSet(ctx context.Context, m *pb.RegionSet, p Paths, b polygon.Bounds, pause func() error) (*polygon.Set, error) {
	regions, err := regionsOf(m.GetRegions(), p, b)
	if err != nil {
		return nil, err
	}
	locator, err := locatorOf(m, p)
	if err != nil {
		return nil, err
	}
	return counted(ctx, p, b, func(b polygon.Bounds) (*polygon.Set, error) {
		set, err := polygon.NewSetInPieces(regions, scaleOf(m.GetScale()), b, pause)
		if err == nil && locator != nil {
			err = checkMoves(locator, set, regions, b, pause)
		}
		return set, err
	})
}

// counted makes a set: what its shapes and limits take counts for the request that ctx is of.
func counted(ctx context.Context, p Paths, b polygon.Bounds,
	make func(polygon.Bounds) (*polygon.Set, error)) (*polygon.Set, error) {
	request, asked := budget.RequestOf(ctx), int64(0)
	b.Memory = func(n int64) error {
		if !request.More(n) {
			return apierr.Quota(apierr.ReasonHostMemory, "host memory", fmt.Sprintf(
				"%s.regions: requests under way leave no room for the %d bytes that shapes and limits take", p.Set,
				asked+n))
		}
		asked += n
		return nil
	}
	b.Written = request.Written
	set, err := make(b)
	if err != nil {
		request.More(-asked)
		return nil, p.Translate(err)
	}
	request.Written(asked) // that of limits, too
	return set, nil
}

// scaleOf is a scale as package polygon takes it, which checks it; nil where there is none.
func scaleOf(m *pb.Scale) *polygon.Scale {
	if m == nil {
		return nil
	}
	s := &polygon.Scale{X: m.GetX(), Y: m.GetY(), Origin: polygon.Point{X: m.GetOrigin().GetX(),
		Y: m.GetOrigin().GetY()}}
	if s.Y == 0 {
		s.Y = s.X
	}
	return s
}

// messageOf is a scale as a message.
func messageOf(s *polygon.Scale) *pb.Scale {
	if s == nil {
		return nil
	}
	return &pb.Scale{X: s.X, Y: s.Y, Origin: &pb.Point{X: s.Origin.X, Y: s.Origin.Y}}
}

// SmallSet is the work of a set that is checked and compiled in 40 µs. Larger ones take a place of the pool: see
// [Burst].
const SmallSet = 1000

// SetWork is what it takes to check and compile a set, in vertices: each takes 40 ns, as a run does, and a region as
// much as seven.
func SetWork(m *pb.RegionSet) int {
	n := 7 * len(m.GetRegions())
	for _, r := range m.GetRegions() {
		for _, ring := range r.GetRings() {
			n += len(ring.GetXy()) / 2
		}
		n += len(r.GetMask().GetRuns()) / 3
		if r.GetShape() != "" {
			n += SmallSet // nobody knows before
		}
		for _, c := range r.GetReference().GetCounts() {
			n += len(c.GetCounts()) / 16
		}
	}
	return n
}

// StructBytes is how much memory the messages inside a message of regions take beside what is on the wire.
func StructBytes(m *pb.RegionSet) (n int64) {
	for _, r := range m.GetRegions() {
		if r.GetMask() != nil {
			n += maskBytes
		}
		n += regionBytes + int64(len(r.GetRings()))*ringBytes + int64(len(r.GetLimits()))*int64(unsafe.Sizeof(""))
	}
	return n
}

// Structs, and pointers to them.
const (
	pointerBytes = int64(unsafe.Sizeof(uintptr(0)))
	regionBytes  = int64(unsafe.Sizeof(pb.Region{})) + pointerBytes
	ringBytes    = int64(unsafe.Sizeof(pb.Ring{})) + pointerBytes
	maskBytes    = int64(unsafe.Sizeof(pb.Mask{}))
)

// regionsOf views messages as regions. Coordinates and runs are not copied.
func regionsOf(in []*pb.Region, p Paths, b polygon.Bounds) ([]polygon.Region, error) {
	if len(in) > b.MaxRegions {
		// Before anything is allocated for them.
		return nil, apierr.Refuse(p.Set+".regions", len(in), "are too many: the limit is %d regions", b.MaxRegions)
	}
	n := 0
	for _, r := range in {
		n += len(r.GetRings())
	}
	rings := make([]polygon.Ring, 0, n) // of all regions
	out := make([]polygon.Region, len(in))
	bad := &apierr.FieldError{}
	for i, r := range in {
		from := len(rings)
		for k, ring := range r.GetRings() {
			xy := ring.GetXy()
			if len(xy)%2 != 0 {
				bad.Add(fmt.Sprintf("%s.regions[%d].rings[%d].xy", p.Set, i, k),
					fmt.Sprintf("%d numbers", len(xy)), "must be pairs of x and y")
			}
			rings = append(rings, pointsOf(xy))
		}
		out[i] = polygon.Region{
			Name:   r.GetName(),
			Rings:  rings[from:len(rings):len(rings)],
			Limits: r.GetLimits(),
			Shape:  r.GetShape(),
		}
		if m := r.GetMask(); m != nil {
			if m.GetImage() != nil { // those of requests are runs by now
				bad.Add(fmt.Sprintf("%s.regions[%d].mask.image", p.Set, i), "", "can't be given here: give runs")
			}
			if n := len(m.GetRuns()); n%3 != 0 {
				bad.Add(fmt.Sprintf("%s.regions[%d].mask.runs", p.Set, i), fmt.Sprintf("%d numbers", n),
					"must be threes of y, x0 and x1")
			}
			out[i].Mask = RunsOf(m.GetRuns())
		}
		if ref := r.GetReference(); ref != nil {
			out[i].Reference = &polygon.Reference{Region: ref.GetRegion()}
			for _, c := range ref.GetCounts() {
				out[i].Reference.Counts = append(out[i].Reference.Counts, c.GetCounts())
			}
		}
		switch r.GetFillRule() {
		case pb.FillRule_FILL_RULE_UNSPECIFIED, pb.FillRule_FILL_RULE_NON_ZERO:
			out[i].Fill = polygon.NonZero
		case pb.FillRule_FILL_RULE_EVEN_ODD:
			out[i].Fill = polygon.EvenOdd
		default:
			bad.Add(fmt.Sprintf("%s.regions[%d].fill_rule", p.Set, i), fmt.Sprint(int32(r.GetFillRule())),
				"is no fill rule")
		}
	}
	if err := bad.OrNil(); err != nil {
		return nil, err
	}
	return out, nil
}

// pointsOf views x0, y0, x1, y1, ... as points, which have that layout; an odd number at the end is left out.
func pointsOf(xy []float64) polygon.Ring {
	if len(xy) < 2 {
		return nil
	}
	return unsafe.Slice((*polygon.Point)(unsafe.Pointer(unsafe.SliceData(xy))), len(xy)/2)
}

// The layout that pointsOf relies on.
var _ [2 * unsafe.Sizeof(float64(0))]byte = [unsafe.Sizeof(polygon.Point{})]byte{}

// RunsOf views y, x0, x1, ... as runs, which have that layout; what is no three at the end is left out. It is not nil.
func RunsOf(list []int32) []polygon.Run {
	if len(list) < 3 {
		return []polygon.Run{}
	}
	return unsafe.Slice((*polygon.Run)(unsafe.Pointer(unsafe.SliceData(list))), len(list)/3)
}

// The layout that RunsOf relies on.
var (
	_ [3 * unsafe.Sizeof(int32(0))]byte = [unsafe.Sizeof(polygon.Run{})]byte{}
	_ [unsafe.Sizeof(int32(0))]byte     = [unsafe.Offsetof(polygon.Run{}.X0)]byte{}
	_ [2 * unsafe.Sizeof(int32(0))]byte = [unsafe.Offsetof(polygon.Run{}.X1)]byte{}
)

// ReductionsOf converts what protovalidate has looked at; package polygon checks the rest.
func ReductionsOf(in *pb.Reductions) polygon.Reductions {
	out := polygon.Reductions{Percentiles: in.GetPercentiles()}
	for _, s := range in.GetStatistics() {
		out.Statistics |= 1 << (s - 1) // the same order; see TestEnumsAgree
	}
	if in.GetPercentileMethod() == pb.PercentileMethod_PERCENTILE_METHOD_LINEAR {
		out.PercentileMethod = polygon.Linear
	}
	if h := in.GetHistogram(); h != nil {
		out.Histogram = polygon.HistogramSpec{Bins: int(h.GetBins()), Lower: h.GetLower(), Upper: h.GetUpper()}
	}
	if c := in.GetCooccurrence(); c != nil {
		out.Cooccurrence = &polygon.CooccurrenceSpec{Levels: int(c.GetLevels()), Counts: c.GetCounts()}
		for _, o := range c.GetOffsets() {
			out.Cooccurrence.Offsets = append(out.Cooccurrence.Offsets,
				polygon.Offset{DX: int(o.GetDx()), DY: int(o.GetDy())})
		}
	}
	if c := in.GetCovered(); c != nil {
		out.Covered = &polygon.CoveredSpec{Histogram: c.GetHistogram()}
	}
	out.Blobs = blobsOf(in.GetBlobs())
	for _, t := range in.GetCorrelations() {
		out.Correlations = append(out.Correlations, polygon.Correlation{Kind: polygon.CorrelationKind(t.GetKind()),
			Offset: polygon.Offset{DX: int(t.GetOffset().GetDx()), DY: int(t.GetOffset().GetDy())},
			Radius: int(t.GetRadius()),
			Frame:  t.GetFrame(), With: polygon.Channel(t.GetWith())})
	}
	for _, c := range in.GetColors() {
		out.Colors.Spaces |= 1 << (c - 1) // the same order; see TestEnumsAgree
	}
	for _, d := range in.GetDerivatives() {
		out.Derivatives = append(out.Derivatives, polygon.Gradient+polygon.Channel(d-1)) // likewise
	}
	for i, v := range in.GetColorMatrix() {
		out.Colors.Matrix[i/3][i%3] = v
	}
	return out
}
