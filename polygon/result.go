// Result: what comes back for a frame.

package polygon

import (
	"github.com/polyscan/polyscan/kernels"
)

// Result holds the numbers of one frame.
type Result struct {
	// Regions in the order of the set; nil where columns were asked for, see [Reductions].Output.
	Regions []RegionResult
	// Columns are the numbers of the regions where these were asked for. [Result.Release] gives their memory back.
	Columns *Columns
	// Verdict is Fail when any region failed, Pass when any limit was given and none failed.
	Verdict Verdict
	// Scale is that of the set, for areas and places in mm; nil where the set has none.
	Scale *Scale
	// Pose is that of the part, with which the regions were moved; nil where they are as they were drawn.
	Pose *Pose
	// Method that found the pixels; the backend's own choice where the call left it open.
	Method Method
	kernels.Timing

	later *deriver // until [Parts.Judge], where that is to come
}

// Rect is the half-open range of columns [X0, X1) and rows [Y0, Y1).
type Rect struct{ X0, Y0, X1, Y1 int }

// Empty reports whether r holds no pixel.
func (r Rect) Empty() bool { return r.X0 >= r.X1 || r.Y0 >= r.Y1 }

// RegionResult is what the pixels of a region came to.
type RegionResult struct {
	// Index in the set.
	Index int
	Name  string
	// Count of the region's pixels inside the frame.
	Count uint64
	// Area is the absolute value of the sum of the signed areas of the region's quantised rings, inside the frame or
	// not, in square pixels, correctly rounded. It is the geometric area where rings don't cross and holes have the
	// opposite direction.
	Area float64
	// Coverage is the share of the region's pixels that lie inside the frame, 0 to 1; 1 for a region without any. It is
	// unknown, and 0, where counting the pixels outside would take too long: more than 2^26 steps for this region and
	// those before it, a step being an edge in a band of rows that no other edge ends or crosses in.
	Coverage      float64
	CoverageKnown bool
	// Bounds is the smallest rectangle that holds the region's pixels inside the frame; empty for a region without any.
	Bounds Rect
	// Centroid is the mean of the centres of the region's pixels inside the frame, where HasCentroid: [Centroid] was
	// asked for, and there are pixels. Correctly rounded.
	Centroid    Point
	HasCentroid bool
	// CoveredCount is the sum of the weights that fractional coverage gives the pixels inside the frame: the region's
	// area there, in pixels, but for the rounding of weights. A whole number of 1/65,536. 0 unless [Reductions.Covered]
	// asked.
	CoveredCount float64
	// Channels in the order R, G, B, A.
	Channels []ChannelStatistics
	// Blobs of the region; nil where they were not asked for.
	Blobs *RegionBlobs
	// Verdict of the region's limits, and their outcomes in order.
	Verdict Verdict
	Limits  []LimitResult
}
