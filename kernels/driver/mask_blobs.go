// Blobs: the connected parts of a region whose samples lie in a range, and sums over each.

package driver

import (
	"cmp"
	"fmt"
	"unsafe"
)

// Bounds of a [MaskBlobs].
const (
	// MaxBlobSide bounds the sides of images: SumXX is at most MaxPixels times the square of the greatest column over
	// three, which has to stay below 2^64.
	MaxBlobSide = 1 << 18
	// MaxBlobs and MaxBlobRuns bound what an op can be asked to write.
	MaxBlobs    = 1 << 20
	MaxBlobRuns = 1 << 24
	// MaxBlobSteps is how many steps of morphology an op has, and MaxBlobReach how far one looks, in pixels.
	MaxBlobSteps = 8
	MaxBlobReach = 31
)

// BlobRange says which samples are foreground: Lo to Hi, both included. Where Strong is set a blob counts only if it
// has a pixel whose sample is StrongLo to StrongHi, both included: hysteresis.
type BlobRange struct {
	Lo, Hi, StrongLo, StrongHi uint16
	Strong                     uint16 // 0 or 1
}

// BlobStep is a step of morphology inside a region: what lies outside of it has no part, neither as foreground nor as
// background. The element is symmetric: row dy of it, -len(Half) < dy < len(Half), holds the columns -Half[|dy|] to
// Half[|dy|].
//
// To dilate makes foreground of each pixel of the region that has foreground under the element around it. To erode
// makes background of each that has a pixel of the region under it that is background.
type BlobStep struct {
	Erode bool
	Half  []uint8 // 1 to MaxBlobReach+1 of them, each up to MaxBlobReach; not to be changed before the op ran
}

// Blob is a blob: pixels of a region, connected. All is exact, and the same on every backend. Columns and rows count
// from the image's first pixel.
//
// Mirrored by Blob in kernels/cu/abi/mask_blobs.cuh: 112 bytes.
type Blob struct {
	Count                           uint64 // pixels
	SumX, SumY, SumXX, SumXY, SumYY uint64 // of columns x and rows y, and their products
	Sum, SumSq                      uint64 // of samples and their squares
	Min, Max                        uint32 // sample
	First                           uint32 // y*Width + x of the first pixel in row-major order
	Region                          uint32 // counted from the first region of the prepared set
	X0, Y0, X1, Y1                  uint32 // columns [X0, X1) and rows [Y0, Y1) hold it
	SidesX, SidesY                  uint32 // sides of pixels between blob and not: those that run down, and across
	Convex, Concave                 uint32 // corners of the outline, turning towards the blob and away from it
}

// BlobCount is what a region has.
type BlobCount struct {
	All      uint32 // blobs, but for those without a strong pixel
	Kept     uint32 // of them, those with MinCount pixels or more
	First    uint32 // how many the regions before it have kept: where those of the region are in Blobs
	Runs     uint32 // of the kept ones
	FirstRun uint32 // how many the regions before it have
	_        uint32
}

// BlobRun is pixels [X0, X1) of row Y, of the blob with that number in Blobs.
type BlobRun struct {
	Y, X0, X1 uint32
	Blob      uint32
}

// MaskBlobs finds the blobs of regions [First, First+Count) of a prepared set: of the pixels of a region inside the
// frame whose samples of a channel are in the region's range, after Steps, the sets that are connected by sides or,
// with Eight, by sides and corners. A blob is of one region: where regions overlap or touch, each has its own.
//
// Frame holds rows [Row0, Row0+Frame.Height) of the image that the regions were prepared for, and has its width.
//
// Counts receives Count [BlobCount]. Blobs receives the kept ones, region by region, those of a region in the order of
// their first pixels in row-major order; those behind MaxBlobs are left out, and what is behind the last is undefined.
// Runs receives the runs of pixels of the kept blobs, region by region, those of a region in row-major order; those
// behind MaxRuns are left out. Counts tells of all. Sides and corners are of the foreground of the region: a side has
// foreground on one side only. Of the four pixels around a corner, one or three are foreground, or two that face each
// other, which make two convex corners, or with Eight two concave ones. So (Convex - Concave)/4 is 1 less the holes.
//
// Results are exact, and depend on nothing but the input. Only the backend can read Prepared: it fails the op where
// First+Count exceeds the regions there, or Frame and Row0 are not rows of the image it was prepared for. That holds
// for a Count of 0, too. Scratch has at least Device.Scratch bytes, for a frame of that size.
//
// Time grows with the pixels of the regions, and with the runs of foreground in them; with Steps it also grows with the
// boxes around the regions times the rows of each element.
//
// Source: union-find with the least member as the root (Hoshen, Kopelman 1976; without locks as Komura 2015), over runs
// of bits; corners after Gray 1971. Labels without a prefix sum, two bytes a pixel, are ours.
type MaskBlobs struct {
	Prepared Slice
	First    int
	Count    int
	Frame    Image
	Row0     int
	Channel  int         // of the frame, in the order R, G, B, A
	Ranges   []BlobRange // Count of them; not to be changed before the op ran
	Eight    bool
	Steps    []BlobStep
	MinCount uint32 // of pixels
	MaxBlobs int    // up to MaxBlobs
	MaxRuns  int    // up to MaxBlobRuns
	Counts   Slice
	Blobs    Slice
	Runs     Slice
	Scratch  Slice
}

func (op *MaskBlobs) name() string { return "MaskBlobs" }

func (op *MaskBlobs) check() error {
	name := op.name()
	if err := cmp.Or(
		checkRows(name, &op.Frame, op.Row0),
		checkRun(name, op.First, op.Count),
		between(name, "Channel", op.Channel, 0, int(op.Frame.Format.Channels)-1),
		between(name, "Frame.Width", op.Frame.Width, 1, MaxBlobSide),
		between(name, "Frame.Height", op.Row0+op.Frame.Height, 1, MaxBlobSide),
		between(name, "MaxBlobs", op.MaxBlobs, 0, MaxBlobs),
		between(name, "MaxRuns", op.MaxRuns, 0, MaxBlobRuns),
	); err != nil {
		return err
	}
	if n := len(op.Ranges); n != op.Count {
		return refuse(name, "Ranges", n, "must be %d, one for each region", op.Count)
	}
	if n := len(op.Steps); n > MaxBlobSteps {
		return refuse(name, "Steps", n, "are more than %d", MaxBlobSteps)
	}
	for i, s := range op.Steps {
		if n := len(s.Half); n < 1 || n > MaxBlobReach+1 {
			return refuse(name, fmt.Sprintf("Steps[%d].Half", i), n, "must have 1 to %d rows", MaxBlobReach+1)
		}
		for _, h := range s.Half {
			if h > MaxBlobReach {
				return refuse(name, fmt.Sprintf("Steps[%d].Half", i), h, "reaches farther than %d", MaxBlobReach)
			}
		}
	}
	return nil
}

func (op *MaskBlobs) operands(to []Operand) []Operand {
	return append(to,
		op.Frame.operand("Frame.Data", Read),
		made("Prepared", &op.Prepared),
		exact("Counts", &op.Counts, int64(op.Count)*int64(unsafe.Sizeof(BlobCount{})), Write),
		exact("Blobs", &op.Blobs, int64(op.MaxBlobs)*int64(unsafe.Sizeof(Blob{})), Write),
		exact("Runs", &op.Runs, int64(op.MaxRuns)*int64(unsafe.Sizeof(BlobRun{})), Write),
		scratch("Scratch", &op.Scratch, BackendSized))
}
