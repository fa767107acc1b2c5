// Blobs: connected pixels of a region whose samples lie in a range, and what each of them comes to.

package polygon

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unsafe"

	"github.com/polyscan/polyscan/internal/exact"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// BlobThreshold says what the bounds of a [BlobSpec] are.
type BlobThreshold uint8

const (
	ThresholdValues      BlobThreshold = iota // samples
	ThresholdDeviations                       // standard deviations of the region's own samples, from their mean
	ThresholdPercentiles                      // percentiles of the region's own samples, by nearest rank
)

var thresholdNames = [...]string{"VALUES", "DEVIATIONS", "PERCENTILES"}

func (t BlobThreshold) String() string {
	if int(t) < len(thresholdNames) {
		return thresholdNames[t]
	}
	return fmt.Sprintf("BlobThreshold(%d)", uint8(t))
}

// Span is from From to To, both included. An infinite end is open.
type Span struct{ From, To float64 }

// AnySpan leaves nothing out.
func AnySpan() Span { return Span{math.Inf(-1), math.Inf(1)} }

// MorphKind is a step of morphology.
type MorphKind uint8

const (
	Erode  MorphKind = iota
	Dilate           // not beyond the region
	Open             // erode, then dilate
	Close            // dilate, then erode
)

var morphNames = [...]string{"ERODE", "DILATE", "OPEN", "CLOSE"}

func (k MorphKind) String() string {
	if int(k) < len(morphNames) {
		return morphNames[k]
	}
	return fmt.Sprintf("MorphKind(%d)", uint8(k))
}

// Morph is a step of morphology with a rectangle of Width by Height pixels, odd and up to 63, or with a disc: the
// pixels whose centres are at most Radius from the middle one's, up to 31. What is outside of the region has no part in
// it: it is neither foreground nor background.
type Morph struct {
	Kind          MorphKind
	Width, Height int // 0 for a disc
	Radius        int
}

// BlobOrder is what the returned blobs are sorted by.
type BlobOrder uint8

const (
	ByPlace BlobOrder = iota // the first pixel, row by row
	ByArea                   // the largest first; those of equal area by place
)

// BlobSpec asks for blobs. A blob is of one region: pixels of it inside the frame, with samples in a range, that are
// connected.
type BlobSpec struct {
	// Channel of the frame whose samples are looked at; NoChannel is gray, and no channel of colours.
	Channel Channel
	// Threshold says what Range and Strong are in.
	Threshold BlobThreshold
	// Range holds the samples that are foreground.
	Range Span
	// Strong, unless it is nil, leaves out blobs without a sample in it: hysteresis.
	Strong *Span
	// FourConnected connects pixels by their sides only; else corners do, too.
	FourConnected bool
	// Steps of morphology, in order, on what is foreground; at most 8, where Open and Close count as two.
	Steps []Morph
	// MinArea leaves out blobs of fewer pixels, for limits, too.
	MinArea int
	// MaxBlobs is how many blobs of a region are returned at most, 0 means [DefaultMaxBlobs]; limits see all.
	MaxBlobs int
	Order    BlobOrder
	// Contours asks for outlines.
	Contours bool
}

// Bounds of blobs.
const (
	DefaultMaxBlobs = 256
	// MostBlobs is how many blobs of all regions of a frame are looked at. Where a region has more, limits on them
	// fail.
	MostBlobs = 1 << 16
	// MostBlobRuns is how many runs of pixels contours are made of, in all regions of a frame. Blobs beyond have none.
	MostBlobRuns = 1 << 17
	// MostMinArea is the greatest MinArea.
	MostMinArea = kernels.MaxPixels
)

// Blob is one blob. Numbers but Area, Sides, Holes, Sum, Min and Max are rounded to float64; places are in pixels.
type Blob struct {
	First  Position // the first pixel, row by row
	Area   uint64   // pixels
	Bounds Rect
	// Centroid is the mean of the pixels' centres, correctly rounded.
	Centroid Point
	// Length and Breadth are the sides of the rectangle that has the second moments of the pixels, which are squares.
	// They are exact for a rectangle. Angle is where the long side points, in degrees from the right towards below, -90
	// to 90; 0 where no side is longer.
	Length, Breadth, Angle float64
	// Sides is the length of the outline along the sides of pixels, those of holes included.
	Sides uint64
	// Perimeter estimates the length of the outline: corners are cut from the middle of a side to that of the next, and
	// the whole is multiplied by pi/8 (1 + sqrt 2), so that straight edges are right on the mean of all directions.
	Perimeter float64
	// Roundness is 4 pi Area / Perimeter^2: about 1 for a disc.
	Roundness float64
	// Holes is how many there are: what is not connected to the outside, by sides where blobs are connected by corners,
	// too, else by sides and corners.
	Holes int
	// Of the samples.
	Sum          uint64
	Min, Max     uint32
	Mean, StdDev float64
	// Contour is the outline, along the sides of pixels: a ring for the outside, with the blob on its right, and one
	// for each hole. The pixels whose centres are inside, by either fill rule, are the blob's. Nil unless asked for.
	Contour []Ring

	xx, xy, yy     float64 // second moments about the centroid, a pixel, of points
	corners        uint64
	sidesX, sidesY uint64 // those that run down, and across
	number         int    // among those of the region
}

// BlobSizes are the lengths of a blob in mm, and its area in mm².
type BlobSizes struct {
	Area, Length, Breadth, Perimeter float64
	Centroid                         Point
}

// RegionBlobs are the blobs of a region.
type RegionBlobs struct {
	// Found is how many there are, and Kept how many of them have MinArea.
	Found, Kept uint64
	// Area is that of the kept ones together, in pixels. It is of those that were looked at where they are not all.
	Area uint64
	// All says that all kept ones were looked at: that they are not beyond [MostBlobs]. Else limits on blobs fail.
	All bool
	// Blobs are the kept ones, as many as MaxBlobs says.
	Blobs []Blob

	looked []Blob // all that limits see
}

// check collects what is wrong with the request.
func (s *BlobSpec) check(bad *kernels.InvalidError) {
	at := path{"reductions", "blobs"}
	if int(s.Threshold) >= len(thresholdNames) {
		bad.Add(at.Join("threshold"), uint8(s.Threshold), "is no threshold")
	}
	span := func(v Span, from, to string) {
		switch {
		case math.IsNaN(v.From) || math.IsInf(v.From, 1):
			bad.Add(at.Join(from), number(v.From), "must be a number")
		case math.IsNaN(v.To) || math.IsInf(v.To, -1):
			bad.Add(at.Join(to), number(v.To), "must be a number")
		case v.From > v.To:
			bad.Add(at.Join(to), number(v.To), "must not be below %s, which is %s", from, number(v.From))
		case s.Threshold == ThresholdPercentiles && (v.From < 0 && !math.IsInf(v.From, -1) || v.From > 100):
			bad.Add(at.Join(from), number(v.From), "must be 0 to 100")
		case s.Threshold == ThresholdPercentiles && (v.To > 100 && !math.IsInf(v.To, 1) || v.To < 0):
			bad.Add(at.Join(to), number(v.To), "must be 0 to 100")
		}
	}
	before := len(bad.Violations)
	if s.Range == AnySpan() {
		bad.Add(at.Join("lower"), "none", "one of lower and upper must be given")
	}
	span(s.Range, "lower", "upper")
	if s.Strong != nil {
		span(*s.Strong, "strong_lower", "strong_upper")
	}
	if len(bad.Violations) == before {
		s.checkSpans(bad, nil, math.MaxUint16, anyFormat)
	}
	steps := 0
	for i, m := range s.Steps {
		at := at.Join("steps", i)
		if steps++; m.Kind == Open || m.Kind == Close {
			steps++
		}
		if int(m.Kind) >= len(morphNames) {
			bad.Add(at.Join("kind"), uint8(m.Kind), "is no step")
		}
		const most = 2*driver.MaxBlobReach + 1
		side := func(name string, v int) {
			if v < 1 || v > most || v%2 == 0 {
				bad.Add(at.Join(name), v, "must be odd, 1 to %d", most)
			}
		}
		switch {
		case m.Width == 0 && m.Height == 0:
			if m.Radius < 1 || m.Radius > driver.MaxBlobReach {
				bad.Add(at.Join("radius"), m.Radius, "must be 1 to %d where there is no rectangle", driver.MaxBlobReach)
			}
		case m.Radius != 0:
			bad.Add(at.Join("radius"), m.Radius, "and a rectangle: a step has one of them")
		default:
			side("width", m.Width)
			side("height", m.Height)
		}
	}
	if steps > driver.MaxBlobSteps {
		bad.Add(at.Join("steps"), steps, "are more than %d, where opening and closing count as two",
			driver.MaxBlobSteps)
	}
	if s.MinArea < 0 || s.MinArea > MostMinArea {
		bad.Add(at.Join("min_area"), s.MinArea, "must be 0 to %d", MostMinArea)
	}
	if s.MaxBlobs < 0 || s.MaxBlobs > MostBlobs {
		bad.Add(at.Join("max_blobs"), s.MaxBlobs, "must be 0 to %d", MostBlobs)
	}
	if s.Order > ByArea {
		bad.Add(at.Join("order"), uint8(s.Order), "is no order")
	}
}

// planBlobs finds what a call wants of blobs, and refuses what the frame can't have.
func (p *plan) planBlobs(bad *kernels.InvalidError, s *BlobSpec) {
	if s == nil {
		p.set.addBlobLimits(bad, noBlobs)
		return
	}
	at := path{"reductions", "blobs"}
	p.blobs, p.listedBlobs = s, p.output.Fields.Has(FieldChannels)
	c := s.Channel
	if c == NoChannel {
		c = Gray
	}
	p.blobChannel = slices.Index(p.channels[:p.own], c)
	if p.blobChannel < 0 {
		own := make([]string, p.own)
		for i, c := range p.channels[:p.own] {
			own[i] = c.String()
		}
		bad.Add(at.Join("channel"), c.String(), "the frame (%s) has no such channel of its own: want channel %s",
			p.frame.Format, strings.Join(own, " or "))
		return
	}
	for _, side := range []struct {
		name string
		v    int
	}{{"width", p.frame.Width}, {"height", p.frame.Height}} {
		if side.v > driver.MaxBlobSide {
			bad.Add(path{"frame", side.name}, side.v, "must be at most %d for blobs", driver.MaxBlobSide)
		}
	}
	s.checkSpans(bad, p.set, p.frame.Format.Levels()-1, p.frame.Format.String())
	for _, m := range s.Steps {
		half := m.halves()
		for _, erode := range map[MorphKind][]bool{Erode: {true}, Dilate: {false}, Open: {true, false},
			Close: {false, true}}[m.Kind] {
			p.blobSteps = append(p.blobSteps, driver.BlobStep{Erode: erode, Half: half})
		}
	}
}

// halves are the rows of the element, from its middle on: how far each reaches.
func (m *Morph) halves() []uint8 {
	if m.Radius == 0 {
		half := make([]uint8, m.Height/2+1)
		for i := range half {
			half[i] = uint8(m.Width / 2)
		}
		return half
	}
	half := make([]uint8, m.Radius+1)
	for dy := range half {
		x := m.Radius
		for x*x+dy*dy > m.Radius*m.Radius {
			x--
		}
		half[dy] = uint8(x)
	}
	return half
}

// refuseBlobs refuses what line-scans don't have.
func (s *Set) refuseBlobs(spec *BlobSpec) error {
	const why = "blobs aren't found in line-scans, whose strips come one by one"
	if spec != nil {
		return invalid(path{"reductions", "blobs"}, spec.Range.String(), why)
	}
	bad := newInvalid()
	s.addBlobLimits(bad, why)
	return bad.Err()
}

func (s Span) String() string {
	switch {
	case math.IsInf(s.To, 1):
		return ">= " + number(s.From)
	case math.IsInf(s.From, -1):
		return "<= " + number(s.To)
	}
	return number(s.From) + " to " + number(s.To)
}

// samples is a span of samples as an op takes it: all of them where none is in it are none.
func (s Span) samples() (lo, hi uint16) {
	from, to := math.Ceil(max(s.From, 0)), math.Floor(min(s.To, math.MaxUint16))
	if !(from <= to) {
		return 1, 0
	}
	return uint16(from), uint16(to)
}

// ranges are the ranges of regions with these sums and histograms of all channels.
func (d *deriver) ranges(stats []driver.MaskStats, hist histogramSource) []driver.BlobRange {
	nc := len(d.channels)
	out := make([]driver.BlobRange, len(stats)/nc)
	for i := range out {
		k := i*nc + d.blobChannel
		in := func(s Span) Span { return s }
		switch d.blobs.Threshold {
		case ThresholdDeviations:
			in = func(s Span) Span { return deviations(s, &stats[k]) }
		case ThresholdPercentiles:
			in = func(s Span) Span { return percentiles(s, &stats[k], hist.of(k, &stats[k], asIs)) }
		}
		r := &out[i]
		r.Lo, r.Hi = in(d.blobs.Range).samples()
		if d.blobs.Strong != nil {
			r.Strong = 1
			r.StrongLo, r.StrongHi = in(*d.blobs.Strong).samples()
		}
	}
	return out
}

// deviations is a span in standard deviations from the mean as one of samples. Products are rounded before they are
// added, so that every processor gets the same.
func deviations(s Span, m *driver.MaskStats) Span {
	if m.Count == 0 {
		return Span{1, 0}
	}
	mean := exact.Quotient(0, m.Sum, m.Count)
	_, deviation := exact.Variance(m.Count, m.Sum, m.SumSq)
	at := func(k float64) float64 {
		if math.IsInf(k, 0) {
			return k
		}
		return mean + float64(k*deviation)
	}
	return Span{at(s.From), at(s.To)}
}

// percentiles is a span of percentiles as one of samples.
func percentiles(s Span, m *driver.MaskStats, h counts) Span {
	if m.Count == 0 {
		return Span{1, 0}
	}
	at := func(p float64) float64 {
		if math.IsInf(p, 0) {
			return p
		}
		rank := exact.Percent(p).NearestRank(m.Count)
		for v, n := range h.n {
			if uint64(n) >= rank {
				return float64(h.lo + uint32(v))
			}
			rank -= uint64(n)
		}
		return math.Inf(1)
	}
	return Span{at(s.From), at(s.To)}
}

// blobMemory is what finding blobs takes of the device, and where it comes to on the host.
type blobMemory struct {
	op     driver.MaskBlobs
	bytes  int64 // of scratch
	counts kernels.Buffer[driver.BlobCount]
	blobs  kernels.Buffer[driver.Blob]
	runs   kernels.Buffer[driver.BlobRun]
	kept   uint64 // by the regions before
	hasRun uint64
}

// blobOp prepares to find blobs in rows [y0, y1) of the frame, which lie stride bytes apart on the device, in batches
// of regions. It is nil where none are wanted.
func (d *deriver) blobOp(dev *kernels.Device, y0, y1, stride, batch int) (m *blobMemory, footprint int64, err error) {
	if d.blobs == nil {
		return nil, 0, nil
	}
	d.regionBlobs = make([]RegionBlobs, d.set.Len())
	m = &blobMemory{op: driver.MaskBlobs{
		Frame: driver.Image{Width: d.frame.Width, Height: y1 - y0, Stride: stride, Format: d.frame.Format},
		Row0:  y0, Channel: d.blobChannel, Eight: !d.blobs.FourConnected, Steps: d.blobSteps, Count: batch,
		Ranges:   make([]driver.BlobRange, batch),
		MinCount: uint32(d.blobs.MinArea), MaxBlobs: min(MostBlobs, d.frame.Width*(y1-y0)),
	}}
	if d.blobs.Contours && d.listedBlobs && !d.output.Columns {
		m.op.MaxRuns = min(MostBlobRuns, d.frame.Width*(y1-y0))
	}
	if m.bytes, err = dev.Scratch(&m.op); err != nil {
		return nil, 0, err
	}
	return m, kernels.Bytes[driver.BlobCount](batch) + kernels.Bytes[driver.Blob](m.op.MaxBlobs) +
		kernels.Bytes[driver.BlobRun](m.op.MaxRuns) + kernels.Bytes[byte](int(m.bytes)), nil
}

// alloc takes the memory of the job.
func (m *blobMemory) alloc(q *kernels.Queue) (err error) {
	if m == nil {
		return nil
	}
	if m.counts, err = kernels.Alloc[driver.BlobCount](q, m.op.Count, "blobs"); err != nil {
		return err
	}
	if m.blobs, err = kernels.Alloc[driver.Blob](q, m.op.MaxBlobs, "blobs"); err != nil {
		return err
	}
	if m.runs, err = kernels.Alloc[driver.BlobRun](q, m.op.MaxRuns, "blobs"); err != nil {
		return err
	}
	m.op.Scratch, err = scratchOf(q, m.bytes)
	return err
}

// findBlobs finds the blobs of regions [first, first+count), with these ranges.
func (d *deriver) findBlobs(ctx context.Context, q *kernels.Queue, m *blobMemory, first int,
	ranges []driver.BlobRange) error {
	if err := q.Yield(); err != nil {
		return err
	}
	count := len(ranges)
	op := m.op // the one before may still be under way
	op.First, op.Count, op.Ranges = first, count, ranges
	// What the regions before it have kept is no longer there.
	op.MaxBlobs -= int(min(m.kept, uint64(op.MaxBlobs)))
	op.MaxRuns -= int(min(m.hasRun, uint64(op.MaxRuns)))
	counts, blobs, runs := m.counts.Range(0, count), m.blobs.Range(0, op.MaxBlobs), m.runs.Range(0, op.MaxRuns)
	op.Counts, op.Blobs, op.Runs = counts.Slice(), blobs.Slice(), runs.Slice()
	units := d.set.work(first, first+count, op.Frame.Width, op.Row0, op.Row0+op.Frame.Height, 1)
	q.Chunk("blobs", max(units, 1))
	q.SetChunkUnits(units)
	if err := q.Run(&op); err != nil {
		return err
	}
	found := make([]driver.BlobCount, count)
	if err := kernels.Download(q, found, counts); err != nil {
		return err
	}
	if err := q.Wait(); err != nil {
		return err
	}
	last := found[count-1]
	kept, hasRun := uint64(last.First)+uint64(last.Kept), uint64(last.FirstRun)+uint64(last.Runs)
	here := make([]driver.Blob, min(kept, uint64(op.MaxBlobs)))
	pieces := make([]driver.BlobRun, min(hasRun, uint64(op.MaxRuns)))
	const blobBytes, runBytes = int(unsafe.Sizeof(driver.Blob{})), int(unsafe.Sizeof(driver.BlobRun{}))
	kernels.Made(ctx, len(here)*blobBytes+len(pieces)*runBytes)
	if len(here) > 0 {
		if err := kernels.Download(q, here, blobs.Range(0, len(here))); err != nil {
			return err
		}
	}
	if len(pieces) > 0 {
		if err := kernels.Download(q, pieces, runs.Range(0, len(pieces))); err != nil {
			return err
		}
	}
	if err := q.Wait(); err != nil {
		return err
	}
	m.kept, m.hasRun = m.kept+kept, m.hasRun+hasRun
	part := func(pause func() error) error { return d.deriveBlobs(ctx, first, found, here, pieces, pause) }
	kernels.Made(ctx, len(here)*int(unsafe.Sizeof(Blob{}))+len(pieces)*runBytes) // of each blob, and by blob
	if len(here) < 1<<10 && len(pieces) == 0 {
		return part(nil)
	}
	return q.OnHost(part)
}

// deriveBlobs makes the blobs of regions from first on of what the device found.
func (d *deriver) deriveBlobs(ctx context.Context, first int, found []driver.BlobCount, here []driver.Blob,
	pieces []driver.BlobRun, pause func() error) error {
	runs, starts := runsByBlob(pieces, len(here))
	for i := range found {
		c, r := &found[i], &d.regionBlobs[first+i]
		r.Found, r.Kept = uint64(c.All), uint64(c.Kept)
		from, to := min(int(c.First), len(here)), min(int(c.First)+int(c.Kept), len(here))
		r.All = to-from == int(c.Kept)
		r.looked = make([]Blob, to-from)
		for k := range r.looked {
			b := &here[from+k]
			if b.Count == 0 || b.Count > uint64(d.frame.Width)*uint64(d.frame.Height) {
				return fmt.Errorf("%w: region %d has a blob of %d pixels", ErrInconsistent, first+i, b.Count)
			}
			d.deriveBlob(&r.looked[k], b)
			r.Area += b.Count
			if pause != nil && k%(1<<11) == 1<<11-1 {
				if err := pause(); err != nil {
					return err
				}
			}
		}
		if d.listedBlobs && !d.output.Columns {
			d.choose(r)
			for k := range r.Blobs {
				b := &r.Blobs[k]
				if n := from + b.number; len(pieces) > 0 {
					if of := runs[starts[n]:starts[n+1]]; len(of) > 0 && runPixels(of) == b.Area {
						// Four edges, what knows them by their corners, and then as many points at most.
						const work, points = 4 * (20 + 40), 4 * int(unsafe.Sizeof(Point{}))
						kernels.Made(ctx, work*len(of))
						var err error
						if b.Contour, err = contour(of, !d.blobs.FourConnected, pause); err != nil {
							return err
						}
						kernels.Made(ctx, (points-work)*len(of))
					}
					if pause != nil && k%64 == 63 {
						if err := pause(); err != nil {
							return err
						}
					}
				}
			}
		}
	}
	return nil
}

// runsByBlob puts the runs of each of n blobs side by side, in the order in which they came: those of blob k are
// sorted[starts[k]:starts[k+1]].
func runsByBlob(pieces []driver.BlobRun, n int) (sorted []driver.BlobRun, starts []int32) {
	if len(pieces) == 0 {
		return nil, nil
	}
	starts = make([]int32, n+2) // those of blob k move from k+2 to k+1
	for i := range pieces {
		if b := int(pieces[i].Blob); b < n {
			starts[b+2]++
		}
	}
	for k := range n {
		starts[k+2] += starts[k+1]
	}
	sorted = make([]driver.BlobRun, starts[n+1])
	for i := range pieces {
		if b := int(pieces[i].Blob); b < n {
			sorted[starts[b+1]] = pieces[i]
			starts[b+1]++
		}
	}
	return sorted, starts[:n+1]
}

func runPixels(runs []driver.BlobRun) (n uint64) {
	for _, u := range runs {
		n += uint64(u.X1 - u.X0)
	}
	return n
}

// choose makes the blobs that are returned.
func (d *deriver) choose(r *RegionBlobs) {
	most := d.blobs.MaxBlobs
	if most == 0 {
		most = DefaultMaxBlobs
	}
	// Numbers are sorted, and few blobs are copied: nothing can interrupt a copy of megabytes, and all that the runtime
	// stops for a collection wait for it.
	order := make([]uint64, len(r.looked))
	for k := range order {
		order[k] = uint64(k)
		if d.blobs.Order == ByArea {
			order[k] |= (1<<47 - r.looked[k].Area) << 16
		}
	}
	slices.Sort(order)
	r.Blobs = make([]Blob, min(len(order), most))
	for k := range r.Blobs {
		n := int(order[k] % MostBlobs)
		r.Blobs[k] = r.looked[n]
		r.Blobs[k].number = n
	}
}

// deriveBlob computes what sums of integers come to.
func (d *deriver) deriveBlob(to *Blob, b *driver.Blob) {
	n := b.Count
	to.First = d.position(b.First)
	to.Area, to.Bounds = n, Rect{int(b.X0), int(b.Y0), int(b.X1), int(b.Y1)}
	to.Centroid = centroid(b.SumX, b.SumY, n)
	to.xx, _ = exact.Variance(n, b.SumX, b.SumXX)
	to.yy, _ = exact.Variance(n, b.SumY, b.SumYY)
	to.xy = covariance(n, b.SumX, b.SumY, b.SumXY)
	// A pixel is a square, which has moments of its own.
	to.xx += 1.0 / 12
	to.yy += 1.0 / 12
	to.Length, to.Breadth, to.Angle = momentSides(to.xx, to.xy, to.yy)
	to.sidesX, to.sidesY, to.corners = uint64(b.SidesX), uint64(b.SidesY), uint64(b.Convex)+uint64(b.Concave)
	to.Sides = to.sidesX + to.sidesY
	to.Perimeter = to.perimeter(1, 1)
	to.Roundness = float64(4*math.Pi*float64(n)) / float64(to.Perimeter*to.Perimeter)
	to.Holes = 1 - (int(b.Convex)-int(b.Concave))/4
	to.Sum, to.Min, to.Max = b.Sum, b.Min, b.Max
	to.Mean = exact.Quotient(0, b.Sum, n)
	_, to.StdDev = exact.Variance(n, b.Sum, b.SumSq)
}

// covariance is (n*products - x*y) / n^2, in float64 but for the difference, which is exact.
func covariance(n, x, y, products uint64) float64 {
	ahi, alo := bits.Mul64(n, products)
	bhi, blo := bits.Mul64(x, y)
	lo, borrow := bits.Sub64(alo, blo, 0)
	hi, borrow := bits.Sub64(ahi, bhi, borrow)
	sign := 1.0
	if borrow != 0 {
		sign = -1
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
	}
	return sign * (float64(float64(hi)*(1<<64)) + float64(lo)) / float64(n) / float64(n)
}

// momentSides are those of the rectangle with these second moments, and where the long one points.
func momentSides(xx, xy, yy float64) (length, breadth, angle float64) {
	mean, half := (xx+yy)/2, (xx-yy)/2
	root := math.Sqrt(float64(half*half) + float64(xy*xy))
	length, breadth = math.Sqrt(12*(mean+root)), math.Sqrt(12*max(mean-root, 0))
	if root > 0 {
		angle = math.Atan2(xy, half)*(90/math.Pi) + 0 // no -0
	}
	return length, breadth, angle
}

// perimeter is the estimate where pixels have these sides.
func (b *Blob) perimeter(x, y float64) float64 {
	const slant = math.Pi / 8 * (1 + math.Sqrt2)
	cut := (x+y)/2 - math.Sqrt(float64(x*x)+float64(y*y))/2 // what a corner makes shorter
	return slant * (float64(float64(b.sidesX)*y) + float64(float64(b.sidesY)*x) - float64(float64(b.corners)*cut))
}

// Blob is a blob in mm and mm².
func (s *Scale) Blob(b *Blob) BlobSizes {
	length, breadth, _ := momentSides(b.xx*s.X*s.X, b.xy*s.X*s.Y, b.yy*s.Y*s.Y)
	return BlobSizes{Area: s.Area(float64(b.Area)), Length: length, Breadth: breadth, Perimeter: b.perimeter(s.X, s.Y),
		Centroid: s.Place(b.Centroid)}
}

// contour follows the outline of the pixels of runs, which are in row-major order. Edges lead from corner to corner of
// pixels with the blob on the right; where two of them leave a corner, corners connect or the nearer pixel is kept.
//
// It takes time as there are runs, and calls pause, where that isn't nil, between some thousands of them: its error
// ends the work.
func contour(runs []driver.BlobRun, eight bool, pause func() error) ([]Ring, error) {
	pace := pacer{pause: pause, left: setPiece}
	type corner struct{ x, y int32 }
	type edge struct {
		from, to corner
		used     bool
	}
	var edges []edge
	put := func(x0, y0, x1, y1 int32) { edges = append(edges, edge{from: corner{x0, y0}, to: corner{x1, y1}}) }
	// What of a row is not covered by the one beside it. Both are in order: one pass.
	uncovered := func(row, by []driver.BlobRun, f func(x0, x1 int32)) {
		for _, u := range row {
			for len(by) > 0 && by[0].X1 <= u.X0 {
				by = by[1:]
			}
			x := u.X0
			for _, v := range by {
				if v.X0 >= u.X1 {
					break
				}
				if v.X0 > x {
					f(int32(x), int32(v.X0))
				}
				x = v.X1
			}
			if x < u.X1 {
				f(int32(x), int32(u.X1))
			}
		}
	}
	var above []driver.BlobRun
	for i := 0; i < len(runs); {
		k, y := i, runs[i].Y
		for k < len(runs) && runs[k].Y == y {
			k++
		}
		row := runs[i:k]
		if err := pace.took(len(row)); err != nil {
			return nil, err
		}
		n := k
		for n < len(runs) && runs[n].Y == y+1 {
			n++
		}
		below := runs[k:n]
		if len(above) > 0 && above[0].Y+1 != y {
			above = nil
		}
		uncovered(row, above, func(x0, x1 int32) { put(x0, int32(y), x1, int32(y)) })
		uncovered(row, below, func(x0, x1 int32) { put(x1, int32(y+1), x0, int32(y+1)) })
		for _, u := range row {
			put(int32(u.X1), int32(y), int32(u.X1), int32(y+1))
			put(int32(u.X0), int32(y+1), int32(u.X0), int32(y))
		}
		above, i = row, k
	}
	leaving := make(map[corner][2]int32, len(edges)) // 1 + edge
	for i := range edges {
		if err := pace.took(1); err != nil {
			return nil, err
		}
		l := leaving[edges[i].from]
		if l[0] == 0 {
			l[0] = int32(i + 1)
		} else {
			l[1] = int32(i + 1)
		}
		leaving[edges[i].from] = l
	}
	var rings []Ring
	for start := range edges {
		if edges[start].used {
			continue
		}
		var ring Ring
		for at := start; !edges[at].used; {
			if err := pace.took(1); err != nil {
				return nil, err
			}
			e := &edges[at]
			e.used = true
			l := leaving[e.to]
			next := int(l[0]) - 1
			if l[1] != 0 {
				// To the left where corners connect, to the right where they don't. y grows down.
				dx, dy := e.to.x-e.from.x, e.to.y-e.from.y
				n := &edges[next]
				turn := int64(dx)*int64(n.to.y-n.from.y) - int64(dy)*int64(n.to.x-n.from.x) // above 0: to the right
				if (turn > 0) == eight {
					next = int(l[1]) - 1
				}
			}
			n := &edges[next]
			if (e.from.x == e.to.x) != (n.from.x == n.to.x) { // a corner of the ring
				ring = append(ring, Point{float64(e.to.x), float64(e.to.y)})
			}
			at = next
		}
		rings = append(rings, ring)
	}
	return rings, nil
}
