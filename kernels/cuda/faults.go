package cuda

import "fmt"

// A fault is what a kernel found wrong with what an op was given: a code in the high 16 bits, and below it which entry.
// 0 is none. See report in fault.cuh.
type fault uint64

// faultOps says which op reports a code, and faultTexts what is wrong, with the number of the entry.
var (
	faultOps = [...]string{faultShadeCount: "Shade", faultShadePoint: "Shade", faultShadeTriangle: "Shade",
		faultDiffusionSetupFlags: "DiffusionSetup", faultDiffusionSolveSetup: "DiffusionSolve",
		faultDiffusionSolveStart: "DiffusionSolve",
		faultTriangulatePoint:    "Triangulate", faultVoronoiSite: "Voronoi", faultFlipsCount: "Flips",
		faultHoldCount: "Hold", faultHoldPoint: "Hold", faultHoldTriangle: "Hold"}
	faultTexts = [...]string{
		faultShadeCount:          "Count = %d: is more than Max",
		faultShadePoint:          "Points[%d]: is beyond the image",
		faultShadeTriangle:       "Triangles[%d]: has a corner that is no point",
		faultDiffusionSetupFlags: "Flags[%d]: mean nothing, or need Grid.Barriers",
		faultDiffusionSolveSetup: "Setup: is not what a DiffusionSetup made for this grid (its magic is %d)",
		faultDiffusionSolveStart: "Start: there is nothing in State to continue with (its magic is %d)",
		faultTriangulatePoint:    "Points[%d]: a coordinate is out of range, which is -2^28 to 2^28",
		faultVoronoiSite:         "Sites[%d]: is no pixel of the image",
		faultFlipsCount:          "Counts.Triangles = %d: is more than there is room for",
		faultHoldCount:           "Count = %d: is more than Max",
		faultHoldPoint:           "Points[%d]: is beyond the image",
		faultHoldTriangle:        "Triangles[%d]: has a corner that is no point",
	}
)

// split is the code and the entry.
func (f fault) split() (code int, index uint64) { return int(f >> 48), uint64(f & (1<<48 - 1)) }

// op is the one that reported it.
func (f fault) op() string {
	if code, _ := f.split(); code < len(faultOps) {
		return faultOps[code]
	}
	return "kernel"
}

func (f fault) Error() string {
	code, index := f.split()
	if code == 0 || code >= len(faultTexts) {
		return fmt.Sprintf("unknown fault %#x", uint64(f))
	}
	return fmt.Sprintf(faultTexts[code], index)
}
