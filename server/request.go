// Requests: from messages to what package polygon takes.

package server

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// inspection is what to do with frames, ready to be done.
type inspection struct {
	set        *polygon.Set
	reductions polygon.Reductions
	method     driver.Method
	class      kernels.Class
	keep       bool // the set meets more frames: its prepared form is worth keeping
	paths      paths
}

// newInspection resolves and checks an Inspection; path is where it lies in the request, frame where the frames do.
func (s *Server) newInspection(in *pb.Inspection, path, frame string) (*inspection, error) {
	out := &inspection{
		method: driver.Method(in.GetMethod()),
		class:  classOf(in.GetWorkClass()),
		paths:  paths{root: path + ".", set: path + ".region_set", reductions: path + ".reductions", frame: frame},
	}
	reductions := in.GetReductions()
	switch r := in.GetRegions().(type) {
	case *pb.Inspection_RegionSet:
		set, err := s.newSet(r.RegionSet, out.paths)
		if err != nil {
			return nil, err
		}
		out.set = set
	case *pb.Inspection_Recipe:
		recipe, err := s.recipes.get(r.Recipe.GetName(), r.Recipe.GetVersion())
		if err != nil {
			return nil, err
		}
		out.set, out.keep = recipe.set, true
		out.paths.stored, out.paths.ref = recipe.id(), path+".recipe"
		if reductions == nil {
			reductions = recipe.msg.GetReductions()
			out.paths.storedReductions = true
		}
	default:
		return nil, refuse(path+".regions", nil, "one of region_set and recipe must be given")
	}
	out.reductions = reductionsOf(reductions)
	return out, nil
}

// newSet checks and compiles the regions of a message, which is not kept.
func (s *Server) newSet(m *pb.RegionSet, p paths) (*polygon.Set, error) {
	regions, err := regionsOf(m.GetRegions(), p, s.cfg.Bounds)
	if err != nil {
		return nil, err
	}
	set, err := polygon.NewSet(regions, s.cfg.Bounds)
	return set, p.translate(err)
}

// maxViolations is how many violations a refusal lists; package polygon has the same number.
const maxViolations = 32

// regionsOf views messages as regions. Coordinates are not copied.
func regionsOf(in []*pb.Region, p paths, b polygon.Bounds) ([]polygon.Region, error) {
	if len(in) > b.MaxRegions {
		// Before anything is allocated for them.
		return nil, refuse(p.set+".regions", len(in), "are too many: the limit is %d regions", b.MaxRegions)
	}
	n := 0
	for _, r := range in {
		n += len(r.GetRings())
	}
	rings := make([]polygon.Ring, 0, n) // of all regions
	out := make([]polygon.Region, len(in))
	bad := &fieldError{}
	for i, r := range in {
		from := len(rings)
		for k, ring := range r.GetRings() {
			xy := ring.GetXy()
			if len(xy)%2 != 0 {
				if len(bad.violations) < maxViolations {
					bad.violations = append(bad.violations, violation{
						fmt.Sprintf("%s.regions[%d].rings[%d].xy", p.set, i, k), fmt.Sprintf("%d numbers", len(xy)),
						"must be pairs of x and y",
					})
				} else {
					bad.more++
				}
			}
			rings = append(rings, pointsOf(xy))
		}
		out[i] = polygon.Region{
			Name:   r.GetName(),
			Rings:  rings[from:len(rings):len(rings)],
			Limits: r.GetLimits(),
		}
		switch r.GetFillRule() {
		case pb.FillRule_FILL_RULE_UNSPECIFIED, pb.FillRule_FILL_RULE_NON_ZERO:
			out[i].Fill = polygon.NonZero
		case pb.FillRule_FILL_RULE_EVEN_ODD:
			out[i].Fill = polygon.EvenOdd
		default:
			if len(bad.violations) < maxViolations {
				bad.violations = append(bad.violations, violation{
					fmt.Sprintf("%s.regions[%d].fill_rule", p.set, i), fmt.Sprint(int32(r.GetFillRule())),
					"is no fill rule",
				})
			} else {
				bad.more++
			}
		}
	}
	if len(bad.violations) > 0 {
		return nil, bad
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

// reductionsOf converts what protovalidate has looked at; package polygon checks the rest.
func reductionsOf(in *pb.Reductions) polygon.Reductions {
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
	return out
}

// results is how many numbers of 8 bytes a result holds beyond a few for each region: what makes it large.
func (in *inspection) results(f driver.PixelFormat) int64 {
	r := in.reductions
	each := int64(0)
	if r.Statistics.Has(polygon.Histogram) {
		bins := int64(r.Histogram.Bins)
		if bins == 0 {
			bins = int64(f.Levels())
		}
		each += bins
	}
	if r.Statistics.Has(polygon.Percentiles) {
		n := len(r.Percentiles)
		if n == 0 {
			n = len(polygon.DefaultPercentiles())
		}
		each += 8 * int64(n) // messages of their own
	}
	n := each * int64(f.Channels) * int64(in.set.Len())
	if in.set.HasLimits() {
		for i := range in.set.Len() {
			n += 16 * int64(len(in.set.Limits(i))) // and these have text
		}
	}
	return n
}

// share is the host memory that the result of a frame takes. A result that no message can carry is refused.
func (in *inspection) share(f polygon.Frame, limit int64) (int64, error) {
	bytes := 8 * in.results(f.Format)
	if bytes > limit {
		return 0, &quotaError{reasonResultTooLarge, "result", fmt.Sprintf(
			"histograms, percentiles and limits of %d regions would take %d bytes; the limit is %d", in.set.Len(),
			bytes, limit)}
	}
	return bytes, nil
}

// run reduces a frame.
func (s *Server) run(ctx context.Context, dev lease, in *inspection, f polygon.Frame) (*polygon.Result, error) {
	ctx = kernels.WithClass(ctx, in.class)
	var res *polygon.Result
	if in.keep && frameFits(f) {
		p, err := s.prepared.get(ctx, dev, in.set, f.Width, f.Height, in.method)
		if err != nil {
			return nil, in.paths.translate(err)
		}
		if p != nil {
			res, err := p.Reduce(ctx, f, in.reductions)
			if !errors.Is(err, polygon.ErrEvicted) && !errors.Is(err, polygon.ErrClosed) { // just now
				return res, in.paths.translate(err)
			}
		}
	}
	res, err := polygon.Reduce(ctx, dev.Device, in.set, f, in.reductions, in.method)
	return res, in.paths.translate(err)
}

// frameFits says that a frame has a size for which regions can be prepared; if not, Reduce says what is wrong.
func frameFits(f polygon.Frame) bool {
	if f.Width < 1 || f.Height < 1 || f.Width > driver.MaxSide || f.Height > driver.MaxSide {
		return false
	}
	return int64(f.Width)*int64(f.Height) <= driver.MaxPixels
}

// formatOf is the format of raw pixels.
func formatOf(l *pb.FrameLayout, path string) (driver.PixelFormat, error) {
	sig := l.GetSignificantBits()
	switch f := l.GetPixelFormat(); f {
	case pb.PixelFormat_PIXEL_FORMAT_GRAY16LE:
		switch sig {
		case 0:
			sig = 16
		case 10, 12, 14, 16:
		default:
			return driver.PixelFormat{},
				refuse(path+".layout.significant_bits", sig, "must be 10, 12, 14 or 16 (or 0, for 16) for GRAY16LE")
		}
		return driver.Gray16(int(sig)), nil
	case pb.PixelFormat_PIXEL_FORMAT_UNSPECIFIED:
		return driver.PixelFormat{}, refuse(path+".layout.pixel_format", nil, "must be given for raw pixels")
	default:
		d, ok := formats[f]
		if !ok {
			return driver.PixelFormat{}, refuse(path+".layout.pixel_format", int32(f), "is no pixel format")
		}
		if sig != 0 && sig != 8 {
			return driver.PixelFormat{},
				refuse(path+".layout.significant_bits", sig, "must be 8 (or 0, for 8) for %s", formatName(f))
		}
		return d, nil
	}
}

// formats of 8 bits a sample.
var formats = map[pb.PixelFormat]driver.PixelFormat{
	pb.PixelFormat_PIXEL_FORMAT_GRAY8: driver.Gray8,
	pb.PixelFormat_PIXEL_FORMAT_RGB8:  driver.RGB8,
	pb.PixelFormat_PIXEL_FORMAT_BGR8:  driver.BGR8,
	pb.PixelFormat_PIXEL_FORMAT_RGBA8: driver.RGBA8,
}

// formatName is the name without its prefix.
func formatName(f pb.PixelFormat) string {
	const prefix = len("PIXEL_FORMAT_")
	if s := f.String(); len(s) > prefix && s[0] == 'P' {
		return s[prefix:]
	}
	return fmt.Sprint(int32(f))
}

// layoutOf describes a frame as it was reduced.
func layoutOf(f polygon.Frame) *pb.FrameLayout {
	l := &pb.FrameLayout{Width: uint32(f.Width), Height: uint32(f.Height), Stride: uint32(f.Stride),
		SignificantBits: uint32(f.Format.Bits)}
	if f.Stride == 0 {
		l.Stride = uint32(f.Width * f.Format.PixelBytes())
	}
	l.PixelFormat = pb.PixelFormat_PIXEL_FORMAT_GRAY16LE
	for name, d := range formats {
		if d == f.Format {
			l.PixelFormat = name
		}
	}
	return l
}

// pixels is width*height without overflow: the largest int64 where it would.
func pixels(width, height uint32) int64 {
	hi, lo := bits.Mul64(uint64(width), uint64(height))
	if hi != 0 || lo > 1<<63-1 {
		return 1<<63 - 1
	}
	return int64(lo)
}
