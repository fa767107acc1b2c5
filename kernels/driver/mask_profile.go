// Profiles: sums along rows, along columns, along a line, and around a centre, inside a region.

package driver

import (
	"cmp"
	"fmt"
)

// ProfileAxis says along what the bins of a profile lie.
type ProfileAxis uint8

const (
	ProfileRows    ProfileAxis = iota // a bin is Step rows
	ProfileColumns                    // a bin is Step columns
	ProfileRadius                     // a bin is Step of distance from a centre
	ProfileLine                       // a bin is a part of a segment of a line
)

// Bounds of a [MaskProfile], of which coordinates are in 1/256 px. With them no number leaves 64 bits.
const (
	MaxProfileStep     = 4096                // px
	MaxProfileBins     = 1 << 16             // of a region
	MaxProfileSegments = 32                  // of a line
	MaxProfileLength   = 1 << 15             // px, of a segment along either axis
	MaxProfilePlace    = MaxCoord / Subpixel // px, of a coordinate
	MaxProfileAside    = int64(1) << 62      // of a cross product
)

// ProfileSegment is a directed part of a line: from (X, Y) to (X+DX, Y+DY). A pixel's centre c belongs to it where
// 0 <= (c-P).D < D.D and Low <= (c-P)xD < High, and to its bin floor(Bins * (c-P).D / D.D), which is bin First of the
// region and behind. The cross product axb is a.x*b.y - a.y*b.x.
//
// Mirrored by ProfileSegment in kernels/cu/abi/mask_profile.cuh: 40 bytes.
type ProfileSegment struct {
	X, Y, DX, DY int32  // in 1/256 px
	Bins, First  uint32 // Bins is 1 to MaxProfileBins-1
	Low, High    int64  // in 1/65,536 px²; at most 2^62 in magnitude
}

// ProfilePlace says where the bins of a region are: those of its first channel are numbers First to First+Bins-1 of
// [MaskProfile].Bins, and those of the other channels behind them. Origin is the first row or column of the first bin,
// and of a radius or a line the number of the first bin. A region whose bins end beyond those of the op has none.
//
// Mirrored by ProfilePlace in kernels/cu/abi/mask_profile.cuh: 16 bytes.
type ProfilePlace struct {
	Origin int32
	Bins   uint32
	First  uint64
}

// ProfileBin is what the samples of a bin come to in one channel: exact integers, which can be added in any order. With
// MaxPixels pixels neither overflows.
//
// Mirrored by ProfileBin in kernels/cu/abi/mask_profile.cuh: 16 bytes.
type ProfileBin struct{ Sum, Count uint64 }

const (
	profilePlaceBytes = 16
	profileBinBytes   = 16
)

// MaskProfile adds up samples by bins, for regions [First, First+Count) of a prepared set: the pixels of rows [FromRow,
// ToRow) that are inside a region and inside the frame, and have a bin there. Others are left out.
//
// The bin of a pixel in row y and column x is floor((y-Origin)/Step) for rows, and floor((x-Origin)/Step) for columns.
// For a radius it is floor(d/Step) - Origin, where d is the distance of the pixel's centre from the centre of the
// profile, and Step is in 1/256 px. For a line it is that of the first segment that the pixel belongs to, less Origin.
// All of that is exact.
//
// Frame holds rows [Row0, Row0+Frame.Height) of the image that the regions were prepared for, and has its width.
// FromRow and ToRow count from the top of that image, and may reach beyond the frame.
//
// Places holds Regions ProfilePlace, one for each region of the prepared set from number 0 on. Bins holds ProfileBin,
// to which sums and counts are added: those of regions can be summed up in bands of rows, and in strips. Sums are exact,
// and do not depend on the backend or the order of pixels.
//
// Only the backend can read Prepared: it fails the op where First+Count exceeds the regions there, or Frame and Row0
// are not rows of the image it was prepared for. That holds for a Count of 0, too.
//
// Time grows with the pixels of the regions, of a line times its segments, and times channels.
//
// Source: projections of gray values and radial profiles are textbook matter; segments in integers are ours, as are
// runs of a bin along the row spans (CPU) and counters on chip that carry into the results (CUDA).
type MaskProfile struct {
	Prepared         Slice
	First            int
	Count            int
	Regions          int
	Frame            Image
	Row0             int
	FromRow, ToRow   int
	Axis             ProfileAxis
	Step             int              // rows and columns: 1 to MaxProfileStep; radius: that in 1/256 px; line: 0
	CentreX, CentreY int32            // of a radius, in 1/256 px
	Segments         []ProfileSegment // of a line, 1 to MaxProfileSegments; not to be changed before the op ran
	Places           Slice
	Bins             Slice
}

func (op *MaskProfile) name() string { return "MaskProfile" }

func (op *MaskProfile) check() error {
	name := op.name()
	if err := cmp.Or(
		checkRows(name, &op.Frame, op.Row0),
		checkRun(name, op.First, op.Count),
		between(name, "Axis", int(op.Axis), int(ProfileRows), int(ProfileLine)),
	); err != nil {
		return err
	}
	switch {
	case op.FromRow < 0 || op.ToRow < op.FromRow:
		return refuse(name, "FromRow, ToRow", [2]int{op.FromRow, op.ToRow}, "must not be negative, nor fall")
	case op.Regions < 0 || op.Regions > maxRegions:
		return refuse(name, "Regions", op.Regions, "must be 0 to %d", maxRegions)
	case op.First+op.Count > op.Regions:
		return refuse(name, "First, Count", [2]int{op.First, op.Count}, "end beyond the %d regions", op.Regions)
	case op.Bins.Len%profileBinBytes != 0:
		return refuse(name, "Bins", op.Bins.Len, "must be a multiple of %d bytes", profileBinBytes)
	}
	least, most := 1, MaxProfileStep
	switch op.Axis {
	case ProfileRadius:
		most *= Subpixel
	case ProfileLine:
		least, most = 0, 0
	}
	if err := between(name, "Step", op.Step, least, most); err != nil {
		return err
	}
	far := func(v int32) bool { return v > MaxProfilePlace*Subpixel || v < -MaxProfilePlace*Subpixel }
	if far(op.CentreX) || far(op.CentreY) {
		return refuse(name, "CentreX, CentreY", [2]int32{op.CentreX, op.CentreY}, "must be up to %d px", MaxProfilePlace)
	}
	switch n := len(op.Segments); {
	case op.Axis != ProfileLine && n > 0:
		return refuse(name, "Segments", n, "are of a line")
	case op.Axis == ProfileLine && (n < 1 || n > MaxProfileSegments):
		return refuse(name, "Segments", n, "must be 1 to %d", MaxProfileSegments)
	}
	for i, s := range op.Segments {
		at := fmt.Sprintf("Segments[%d]", i)
		const long = MaxProfileLength * Subpixel
		switch {
		case far(s.X) || far(s.Y):
			return refuse(name, at, s, "begins beyond %d px", MaxProfilePlace)
		case max(s.DX, s.DY) > long || min(s.DX, s.DY) < -long:
			return refuse(name, at, s, "is longer than %d px", MaxProfileLength)
		case s.DX == 0 && s.DY == 0:
			return refuse(name, at, s, "has no length")
		case s.Bins < 1 || s.Bins >= MaxProfileBins:
			return refuse(name, at+".Bins", s.Bins, "must be 1 to %d", MaxProfileBins-1)
		case s.First >= MaxProfileBins:
			return refuse(name, at+".First", s.First, "must be 0 to %d", MaxProfileBins-1)
		case s.Low < -MaxProfileAside || s.High > MaxProfileAside || s.Low > s.High:
			return refuse(name, at+".Low, High", [2]int64{s.Low, s.High}, "must be up to 2^62, and not fall")
		}
	}
	return nil
}

func (op *MaskProfile) operands(to []Operand) []Operand {
	return append(to,
		op.Frame.operand("Frame.Data", Read),
		made("Prepared", &op.Prepared),
		exact("Places", &op.Places, int64(op.Regions)*profilePlaceBytes, Read),
		exact("Bins", &op.Bins, op.Bins.Len, Read|Write))
}
