// Blobs: from messages to what package polygon takes, and back.

package wire

import (
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// blobsOf is what is asked of blobs; nil where nothing is.
func blobsOf(in *pb.BlobSpec) *polygon.BlobSpec {
	if in == nil {
		return nil
	}
	out := &polygon.BlobSpec{
		Channel: polygon.Channel(in.GetChannel()), Range: spanOf(in.Lower, in.Upper),
		FourConnected: in.GetFourConnected(),
		MinArea:       int(in.GetMinArea()), MaxBlobs: int(in.GetMaxBlobs()), Contours: in.GetContours(),
		// The same order, where the first two mean the same; see TestEnumsAgree.
		Threshold: polygon.BlobThreshold(max(in.GetThreshold(), 1) - 1),
		Order:     polygon.BlobOrder(max(in.GetOrder(), 1) - 1),
	}
	if in.StrongLower != nil || in.StrongUpper != nil {
		strong := spanOf(in.StrongLower, in.StrongUpper)
		out.Strong = &strong
	}
	for _, m := range in.GetSteps() {
		out.Steps = append(out.Steps, polygon.Morph{Kind: polygon.MorphKind(m.GetKind() - 1), Width: int(m.GetWidth()),
			Height: int(m.GetHeight()), Radius: int(m.GetRadius())})
	}
	return out
}

func spanOf(from, to *float64) polygon.Span {
	s := polygon.AnySpan()
	if from != nil {
		s.From = *from
	}
	if to != nil {
		s.To = *to
	}
	return s
}

// blobBytes is about how much a blob takes as a value, as messages and marshalled, and contourBytes what all contours
// of a frame take at most: four corners for each run of pixels.
const (
	blobBytes    = 900
	contourBytes = 4 * 2 * 8 * 3 * polygon.MostBlobRuns
)

// blobs converts the blobs of a region; nil where there are none.
func (w *resultWriter) blobs(r *polygon.RegionBlobs) *pb.RegionBlobs {
	if r == nil {
		return nil
	}
	out := &pb.RegionBlobs{Found: r.Found, Kept: r.Kept, Area: r.Area, TooMany: !r.All,
		Blobs: make([]*pb.Blob, len(r.Blobs))}
	if w.scale != nil {
		out.AreaMm2 = w.f64.of(w.scale.Area(float64(r.Area)))
	}
	all := make([]pb.Blob, len(r.Blobs))
	for i := range all {
		w.blob(&all[i], &r.Blobs[i])
		out.Blobs[i] = &all[i]
	}
	return out
}

func (w *resultWriter) blob(to *pb.Blob, b *polygon.Blob) {
	to.First, to.Area, to.Centroid = w.position(b.First), b.Area, w.point(b.Centroid)
	to.Bounds = w.rects.next()
	to.Bounds.X0, to.Bounds.Y0 = uint32(b.Bounds.X0), uint32(b.Bounds.Y0)
	to.Bounds.X1, to.Bounds.Y1 = uint32(b.Bounds.X1), uint32(b.Bounds.Y1)
	to.Length, to.Breadth, to.Angle = b.Length, b.Breadth, b.Angle
	to.Sides, to.Perimeter, to.Roundness, to.Holes = b.Sides, b.Perimeter, b.Roundness, uint32(b.Holes)
	to.Sum, to.Min, to.Max, to.Mean, to.Stddev = b.Sum, b.Min, b.Max, b.Mean, b.StdDev
	for _, ring := range b.Contour {
		m := &pb.Ring{Xy: make([]float64, 0, 2*len(ring))}
		for _, p := range ring {
			m.Xy = append(m.Xy, p.X, p.Y)
		}
		to.Contour = append(to.Contour, m)
	}
	if w.scale == nil {
		return
	}
	mm := w.scale.Blob(b)
	to.AreaMm2, to.CentroidMm = w.f64.of(mm.Area), w.point(mm.Centroid)
	to.LengthMm, to.BreadthMm, to.PerimeterMm = w.f64.of(mm.Length), w.f64.of(mm.Breadth), w.f64.of(mm.Perimeter)
}

// blobShare is the most that the blobs of a result take, of so many regions.
func blobShare(s *polygon.BlobSpec, regions int) int64 {
	if s == nil {
		return 0
	}
	each := s.MaxBlobs
	if each == 0 {
		each = polygon.DefaultMaxBlobs
	}
	n := min(int64(each)*int64(regions), polygon.MostBlobs) * blobBytes
	if s.Contours {
		n += contourBytes
	}
	return n
}
