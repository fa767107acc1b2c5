// The ops of masked reductions: what they take, and the layouts that backends write.

package driver

import (
	"cmp"
	"fmt"
	"math"
	"unsafe"
)

// Coordinates of vertices are in units of 1/Subpixel px. Pixel (i, j) is sampled at its centre,
// (i*Subpixel + Subpixel/2, j*Subpixel + Subpixel/2).
const (
	SubpixelBits = 8
	Subpixel     = 1 << SubpixelBits
	// MaxCoord bounds the absolute value of a quantised coordinate: 2^22 px. A difference of two is 2^31 at most
	// and needs int64; one of a coordinate and a pixel centre is below 2^30 + 2^28. Their products, and the
	// difference of two such products, then stay below 2^63, so that the crossing rule is exact in int64.
	MaxCoord = 1 << (22 + SubpixelBits)
)

// Edge is a directed edge of a ring, from (X0, Y0) to (X1, Y1), in 1/256 px.
//
// The crossing rule: an edge counts for a row whose centre is y when min(Y0, Y1) <= y < max(Y0, Y1), with
// sign +1 where Y1 > Y0 and -1 otherwise; in that row it counts for the pixels whose centre x lies strictly left
// of the crossing, x < X0 + (y-Y0)*(X1-X0)/(Y1-Y0). A pixel's winding number is the sum of the signs.
//
// Mirrored by Edge in kernels/cu/common.cuh: 16 bytes.
type Edge struct {
	X0, Y0, X1, Y1 int32
}

// FillRule decides which winding numbers are inside.
type FillRule uint32

const (
	NonZero FillRule = iota // any but 0
	EvenOdd                 // the odd ones
	// ByRuns is no rule: the region has no edges but runs of pixels.
	ByRuns
)

// Inside applies the rule, which is not ByRuns.
func (f FillRule) Inside(winding int32) bool {
	if f == EvenOdd {
		return winding&1 != 0
	}
	return winding != 0
}

// Run is the pixels [X0, X1) of row Y, X0 < X1, in pixels. |coordinate| <= MaxPixel; a run may lie outside of images.
type Run struct {
	Y, X0, X1 int32
}

// MaxPixel bounds the absolute values in a [Run]: those of edges, in pixels.
const MaxPixel = MaxCoord >> SubpixelBits

// Region is a range of edges with a fill rule, or of runs.
type Region struct {
	First uint32 // of MaskRegions.Edges; of MaskRegions.Runs where Fill is ByRuns
	Count uint32
	Fill  FillRule
}

// MaskRegions is a set of regions in host memory. The edges of a region form closed rings (in any order: each point
// starts as many edges as it ends), so that signs add up to 0 in every row. Regions may share edges. Horizontal edges
// never count for a winding number, but they are part of the boundary that TILED measures its distance to, so they must
// not be left out. |coordinate| <= MaxCoord.
//
// The runs of a region are in row-major order and don't touch one another: in a row, each begins right of the pixel
// behind the one before it. All methods find the same pixels of them in the same way, in time linear in their number.
type MaskRegions struct {
	Edges   []Edge
	Runs    []Run
	Regions []Region
}

// EdgesOf are the edges of region i; none of a region that has runs.
func (r *MaskRegions) EdgesOf(i int) []Edge {
	g := r.Regions[i]
	if g.Fill == ByRuns {
		return nil
	}
	return r.Edges[g.First:][:g.Count:g.Count]
}

// RunsOf are the runs of region i; none of a region that has edges.
func (r *MaskRegions) RunsOf(i int) []Run {
	g := r.Regions[i]
	if g.Fill != ByRuns {
		return nil
	}
	return r.Runs[g.First:][:g.Count:g.Count]
}

// Method says how pixels are tested against edges. All methods give identical pixels.
// Source: Berényi, Parallel image reductions over polygon masks, GPU Day 2024; RowSpans is ours.
type Method uint8

const (
	// MethodDefault lets the backend choose its fastest.
	MethodDefault Method = iota
	// Naive tests every pixel against every edge.
	Naive
	// Tiled finds tiles that are farther from every edge than half their diagonal; one winding number at
	// their centre decides the tile.
	Tiled
	// EdgeFiltered tests the pixels of a tile against the edges that can change a winding number inside it.
	EdgeFiltered
	// TiledEdgeFiltered does both.
	TiledEdgeFiltered
	// RowSpans sorts the crossings of each row. Not in the seed: tiles of any size test edges that a row does not
	// cross, and on an H200 a mask of 2880x1440 takes 5 us this way and 35 us with TiledEdgeFiltered.
	RowSpans
)

var methodNames = [...]string{"DEFAULT", "NAIVE", "TILED", "EDGE_FILTERED", "TILED_EDGE_FILTERED", "ROW_SPANS"}

func (m Method) String() string { return nameOf(methodNames[:], m) }

// MaskPrepare finds the pixels of each region within an image of Width x Height and writes them to Dst in a form
// of the backend's own, for use by any number of [MaskReduce] and [MaskRaster] on the same device. Dst may be moved
// as bytes (it holds no pointers), but not to another backend.
// Dst has at least the bytes that Device.Scratch says; an op with less fails in the backend, which alone can tell, and
// need not look at the edges twice for it. Complexity is the backend's; deterministic.
type MaskPrepare struct {
	Regions MaskRegions // not to be changed from the first Check on
	Width   int
	Height  int
	Method  Method
	Dst     Slice

	checked regionsID // Regions that Check found right
}

// regionsID tells one MaskRegions from another by where its memory is.
type regionsID struct {
	edges                   *Edge
	runs                    *Run
	regions                 *Region
	nEdges, nRuns, nRegions int
}

func (r *MaskRegions) id() regionsID {
	return regionsID{unsafe.SliceData(r.Edges), unsafe.SliceData(r.Runs), unsafe.SliceData(r.Regions), len(r.Edges),
		len(r.Runs), len(r.Regions)}
}

// maxRegions bounds the regions of a set, so that sizes computed from counts don't overflow.
const maxRegions = math.MaxInt32

func (op *MaskPrepare) name() string { return "MaskPrepare" }

// Check looks at each edge and each run once; for regions that it has found right, and copies of the op, never again.
func (op *MaskPrepare) check() error {
	if err := cmp.Or(
		named(op.name(), "Method", op.Method, RowSpans, "method"),
		CheckSize(op.name(), "", op.Width, op.Height),
	); err != nil {
		return err
	}
	if id := op.Regions.id(); id != op.checked {
		if err := op.Regions.check(op.name()); err != nil {
			return err
		}
		op.checked = id
	}
	return nil
}

func (r *MaskRegions) check(op string) error {
	switch {
	case int64(len(r.Edges)) > math.MaxInt32:
		return refuse(op, "Regions.Edges", len(r.Edges), "are more than %d", math.MaxInt32)
	case int64(len(r.Runs)) > math.MaxInt32:
		return refuse(op, "Regions.Runs", len(r.Runs), "are more than %d", math.MaxInt32)
	case int64(len(r.Regions)) > maxRegions:
		return refuse(op, "Regions.Regions", len(r.Regions), "are more than %d", maxRegions)
	}
	done := 0 // edges whose coordinates were checked
	for i, g := range r.Regions {
		field := func() string { return fmt.Sprintf("Regions.Regions[%d]", i) }
		first, end := uint64(g.First), uint64(g.First)+uint64(g.Count)
		have, what := len(r.Edges), "edges"
		switch {
		case g.Fill > ByRuns:
			return refuse(op, field()+".Fill", g.Fill, "is no fill rule")
		case g.Fill == ByRuns:
			have, what = len(r.Runs), "runs"
		}
		if end > uint64(have) {
			return refuse(op, field(), g, "reaches past the %d %s", have, what)
		}
		if g.Fill == ByRuns {
			if err := checkRuns(op, r.Runs[first:end], int(first)); err != nil {
				return err
			}
			continue
		}
		if int(first) > done {
			if err := checkCoordinates(op, r.Edges, done, int(first)); err != nil {
				return err
			}
			done = int(first)
		}
		// Rings are closed where the points at which edges start are those at which edges end, counted with
		// multiplicity. Sums of hashes tell: rings always pass, anything else fails but once in 2^64.
		var sum uint64
		beyond := false
		for _, e := range r.Edges[first:end] {
			beyond = beyond || e.beyond()
			sum += hashPoint(e.X0, e.Y0) - hashPoint(e.X1, e.Y1)
		}
		if beyond {
			return checkCoordinates(op, r.Edges, int(first), int(end))
		}
		if sum != 0 {
			return refuse(op, field(), g, "is open: its edges form no closed rings")
		}
		done = max(done, int(end))
	}
	return checkCoordinates(op, r.Edges, done, len(r.Edges))
}

// checkRuns names the first of the runs of a region, which are those from number from on, that is not as it must be.
func checkRuns(op string, runs []Run, from int) error {
	y, x := int32(math.MinInt32), int32(0)
	for i, u := range runs {
		why := ""
		switch {
		case max(u.Y, u.X0, u.X1) > MaxPixel || min(u.Y, u.X0, u.X1) < -MaxPixel:
			why = fmt.Sprintf("has a coordinate beyond %d", MaxPixel)
		case u.X0 >= u.X1:
			why = "holds no pixel"
		case u.Y < y || u.Y == y && u.X0 <= x:
			why = "must lie behind the run before it, and not touch it"
		}
		if why != "" {
			return refuse(op, fmt.Sprintf("Regions.Runs[%d]", from+i), u, "%s", why)
		}
		y, x = u.Y, u.X1
	}
	return nil
}

// checkCoordinates names the first of edges [from, to) that is out of bounds.
func checkCoordinates(op string, edges []Edge, from, to int) error {
	for i, e := range edges[from:to] {
		if e.beyond() {
			return refuse(op, fmt.Sprintf("Regions.Edges[%d]", from+i), e, "has a coordinate beyond %d", MaxCoord)
		}
	}
	return nil
}

func (e *Edge) beyond() bool {
	return max(e.X0, e.Y0, e.X1, e.Y1) > MaxCoord || min(e.X0, e.Y0, e.X1, e.Y1) < -MaxCoord
}

// hashPoint is the finaliser of SplitMix64.
func hashPoint(x, y int32) uint64 {
	h := uint64(uint32(x))<<32 | uint64(uint32(y))
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

func (op *MaskPrepare) operands(to []Operand) []Operand {
	return append(to, scratch("Dst", &op.Dst, 0))
}

// checkRun checks a range of regions.
func checkRun(op string, first, count int) error {
	if first < 0 || count < 0 || first > maxRegions || count > maxRegions-first {
		return refuse(op, "First, Count", [2]int{first, count}, "must not be negative, nor end beyond %d", maxRegions)
	}
	return nil
}

// MaskStats are the sums of one channel of one region. They are integers, exact, and independent of the order
// in which pixels are visited, so that partial results (of strips, or threads) can be merged by [MaskStats.Merge].
//
// Mirrored by MaskStats in kernels/cu/common.cuh: 80 bytes, all fields 8-byte unsigned integers.
type MaskStats struct {
	Count uint64 // pixels
	Sum   uint64 // of samples v
	SumSq uint64 // of v*v
	// MinKey is the least of v<<32 | p and MaxKey the greatest of v<<32 | ^p, with p = y*Width + x in uint32:
	// the value and the first position in row-major order. With Count 0, MinKey is all ones and MaxKey 0.
	MinKey uint64
	MaxKey uint64
	SumX   uint64 // of x, the pixel's column; the same for each channel
	SumY   uint64 // of y
	SumVX  uint64 // of v*x
	SumVY  uint64 // of v*y
	_      uint64
}

// EmptyMaskStats are the sums over no pixel.
var EmptyMaskStats = MaskStats{MinKey: ^uint64(0)}

// Merge adds the sums over other pixels.
func (s *MaskStats) Merge(o MaskStats) {
	s.Count += o.Count
	s.Sum += o.Sum
	s.SumSq += o.SumSq
	s.MinKey = min(s.MinKey, o.MinKey)
	s.MaxKey = max(s.MaxKey, o.MaxKey)
	s.SumX += o.SumX
	s.SumY += o.SumY
	s.SumVX += o.SumVX
	s.SumVY += o.SumVY
}

// Min returns the least sample and the row-major index y*Width + x of its first pixel. Only for Count > 0.
func (s *MaskStats) Min() (value, pos uint32) { return uint32(s.MinKey >> 32), uint32(s.MinKey) }

// Max returns the greatest sample and the row-major index of its first pixel. Only for Count > 0.
func (s *MaskStats) Max() (value, pos uint32) { return uint32(s.MaxKey >> 32), ^uint32(s.MaxKey) }

// MaskWhat selects what a [MaskReduce] computes.
type MaskWhat uint32

const (
	// MaskSums: Count, Sum, SumSq. Always computed.
	MaskSums MaskWhat = 1 << iota
	// MaskExtrema: MinKey, MaxKey.
	MaskExtrema
	// MaskMoments: SumX, SumY, SumVX, SumVY.
	MaskMoments
	// MaskHistogram: the histogram.
	MaskHistogram
)

// MaskReduce reduces the pixels of regions [First, First+Count) of a prepared set.
//
// Frame holds rows [Row0, Row0+Frame.Height) of the image that the regions were prepared for, and has its width;
// positions and moments count rows from the top of that image. A whole frame has Row0 = 0.
//
// Stats receives Count*Channels [MaskStats], a region's channels beside each other in the order R, G, B, A, and then
// those of Colors. Fields that What does not ask for hold what [EmptyMaskStats] has. Hist receives, for the same order,
// Levels uint32 each; it has length 0 unless What has MaskHistogram. With Accumulate they are merged into what is
// there, which leaves fields that What does not ask for as they are; else they are overwritten.
//
// Only the backend can read Prepared: it fails the op where First+Count exceeds the regions there, or Frame and Row0
// are not rows of the image it was prepared for. That holds for a Count of 0, too.
//
// A sample of a 16-bit format above Levels-1 is counted in the sums and extrema as it is, and in the histogram
// under its low Bits. Backends compute what [MaskReduce.Computes] says, so that the caller sees it in Max.
type MaskReduce struct {
	Prepared   Slice
	First      int
	Count      int
	Frame      Image
	Row0       int
	What       MaskWhat
	Accumulate bool
	Colors     Colors
	Stats      Slice
	Hist       Slice
}

// Channels is how many channels the reduction has, those of the frame and those of Colors.
func (op *MaskReduce) Channels() int {
	return int(op.Frame.Format.Channels) + op.Colors.Spaces.Channels()
}

func (op *MaskReduce) name() string { return "MaskReduce" }

// Computes is What, with MaskExtrema where samples can be larger than their bits say.
func (op *MaskReduce) Computes() MaskWhat {
	if op.Frame.Format.SampleBytes == 2 && op.Frame.Format.Bits < 16 {
		return op.What | MaskExtrema
	}
	return op.What
}

// checkRows checks a frame whose first row is row row0 of an image.
func checkRows(op string, frame *Image, row0 int) error {
	if err := frame.check(op, "Frame."); err != nil {
		return err
	}
	bottom := row0 + frame.Height
	if row0 < 0 || bottom < row0 || CheckSize(op, "", frame.Width, bottom) != nil {
		return refuse(op, "Row0", row0, "puts the strip outside of what an image can be")
	}
	return nil
}

func (op *MaskReduce) check() error {
	if err := cmp.Or(checkRows(op.name(), &op.Frame, op.Row0), checkRun(op.name(), op.First, op.Count)); err != nil {
		return err
	}
	if all := MaskSums | MaskExtrema | MaskMoments | MaskHistogram; op.What&^all != 0 {
		return refuse(op.name(), "What", fmt.Sprintf("%#x", uint32(op.What)), "has bits beyond %#x", uint32(all))
	}
	return op.Colors.check(op.name(), op.Frame.Format)
}

func (op *MaskReduce) operands(to []Operand) []Operand {
	rows, levels := int64(op.Count)*int64(op.Channels()), int64(0)
	if op.What&MaskHistogram != 0 {
		levels = int64(op.Frame.Format.Levels())
	}
	return append(to,
		op.Frame.operand("Frame.Data", Read),
		made("Prepared", &op.Prepared),
		exact("Stats", &op.Stats, rows*int64(unsafe.Sizeof(MaskStats{})), Read|Write),
		exact("Hist", &op.Hist, rows*levels*4, Read|Write))
}

// RasterMode says what [MaskRaster] writes.
type RasterMode uint8

const (
	// RasterMask writes 255 to the pixels of any region, in a Gray8 image.
	RasterMask RasterMode = iota
	// RasterLabels writes 1 + the region's index in the prepared set, of the last region that holds the pixel, in
	// a Gray16(16) image. First+Count <= 65535.
	RasterLabels
)

// MaskRaster writes the pixels of regions [First, First+Count) of a prepared set to Dst, which has the size that the
// set was prepared for. Pixels outside all regions become 0; bytes between rows stay as they are. A backend fails the
// op where First+Count or the size of Dst does not fit what Prepared holds.
type MaskRaster struct {
	Prepared Slice
	First    int
	Count    int
	Mode     RasterMode
	Dst      Image
}

func (op *MaskRaster) name() string { return "MaskRaster" }

func (op *MaskRaster) check() error {
	name := op.name()
	if err := cmp.Or(op.Dst.check(name, "Dst."), checkRun(name, op.First, op.Count),
		named(name, "Mode", op.Mode, RasterLabels, "raster mode")); err != nil {
		return err
	}
	want := Gray8
	if op.Mode == RasterLabels {
		if want = Gray16(16); op.First+op.Count > math.MaxUint16 {
			return refuse(name, "First, Count", [2]int{op.First, op.Count},
				"end beyond the %d labels that 16 bits hold", math.MaxUint16)
		}
	}
	if op.Dst.Format != want {
		return refuse(name, "Dst.Format", op.Dst.Format, "must be %v", want)
	}
	return nil
}

func (op *MaskRaster) operands(to []Operand) []Operand {
	return append(to, op.Dst.operand("Dst.Data", Write), made("Prepared", &op.Prepared))
}
