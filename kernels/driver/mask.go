// The ops of masked reductions: what they take, and the layouts that backends write.

package driver

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
)

// Inside applies the rule.
func (f FillRule) Inside(winding int32) bool {
	if f == EvenOdd {
		return winding&1 != 0
	}
	return winding != 0
}

// Region is a run of edges, Edges[FirstEdge : FirstEdge+EdgeCount], with a fill rule.
//
// Mirrored by Region in kernels/cu/common.cuh: 16 bytes.
type Region struct {
	FirstEdge uint32
	EdgeCount uint32
	Fill      FillRule
	_         uint32
}

// MaskRegions is a set of regions in host memory. The edges of a region form closed rings (in any order: each point
// starts as many edges as it ends), so that signs add up to 0 in every row. Regions may share edges. Horizontal edges
// never count for a winding number, but they are part of the boundary that TILED measures its distance to, so they must
// not be left out. |coordinate| <= MaxCoord.
type MaskRegions struct {
	Edges   []Edge
	Regions []Region
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

func (m Method) String() string {
	if int(m) < len(methodNames) {
		return methodNames[m]
	}
	return "INVALID"
}

// MaskPrepare finds the pixels of each region within an image of Width x Height and writes them to Dst in a form
// of the backend's own, for use by any number of [MaskReduce] and [MaskRaster] on the same device. Dst may be moved
// as bytes (it holds no pointers), but not to another backend.
// Complexity and scratch are the backend's; deterministic.
type MaskPrepare struct {
	Regions MaskRegions
	Width   int
	Height  int
	Method  Method
	Dst     Slice // at least Device.MaskPreparedBytes
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
// Stats receives Count*Channels [MaskStats], a region's channels beside each other in the order R, G, B, A. Fields
// that What does not ask for hold what [EmptyMaskStats] has. Hist receives, for the same order, Levels uint32 each;
// it has length 0 unless What has MaskHistogram. With Accumulate they are merged into what is there, which leaves
// fields that What does not ask for as they are; else they are overwritten.
//
// Only the backend can read Prepared: it fails the op where First+Count exceeds the regions there, or Frame and Row0
// are not rows of the image it was prepared for.
//
// A sample of a 16-bit format above Levels-1 is counted in the sums and extrema as it is, and in the histogram
// under its low Bits; MaskExtrema is set whenever Bits < 16, so that the caller sees it in Max.
type MaskReduce struct {
	Prepared   Slice
	First      int
	Count      int
	Frame      Image
	Row0       int
	What       MaskWhat
	Accumulate bool
	Stats      Slice
	Hist       Slice
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
