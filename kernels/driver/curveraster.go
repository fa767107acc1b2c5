// The op that turns curves into constraints of a diffusion.

package driver

import (
	"cmp"
	"fmt"
	"math"
)

const (
	// MaxCurveCoord bounds the absolute value of a control point's coordinates, in 1/Subpixel px: 2^20 px. A point of a
	// curve is a sum below 2^28 * 2^33, and a crossing a quotient of numbers below 2^60, so that both are exact in
	// int64.
	MaxCurveCoord = 1 << (20 + SubpixelBits)
	// MaxCurvePieces is how many lines a segment can be drawn as, a power of two: 2^33 above is its cube.
	MaxCurvePieces = 1 << 11
	// MaxCurveSegments is how many segments an op can have: their index takes 24 bits of what is kept for a pixel.
	MaxCurveSegments = 1 << 24
	// MaxCurveStops is how many stops an op can have.
	MaxCurveStops = 1 << 28
	// CurveUnit is the parameter of a point of a curve from one segment to the next.
	CurveUnit = 1 << 16
	// MaxCurveLength is how many segments one curve can have, so that its parameters fit in 32 bits.
	MaxCurveLength = 1<<16 - 1
)

// CurveSegment is a cubic Bézier of a curve, drawn as the lines between 2^LogPieces + 1 points of it. With n =
// 2^LogPieces, the point i is the nearest on the grid of 1/Subpixel px to its own, halves rounded up:
//
//	floor((2 ((n-i)^3 P0 + 3 (n-i)^2 i P1 + 3 (n-i) i^2 P2 + i^3 P3) + n^3) / (2 n^3))
//
// Mirrored by CurveSegment in kernels/cu/curveraster.cu: 48 bytes.
type CurveSegment struct {
	X, Y      [4]int32 // control points in 1/Subpixel px, |coordinate| <= MaxCurveCoord
	Curve     uint32   // index of its curve
	Start     uint32   // parameter of its first point: CurveUnit times the segments of the curve before it
	LogPieces uint32
	_         uint32
}

// Curve is the stops along both sides of a curve, and what it does to edges. A side without stops gives no values. The
// left side is that to the left of someone who walks along the curve on a screen, whose y points down: north of a curve
// that goes east.
//
// Mirrored by Curve in kernels/cu/curveraster.cu: 24 bytes.
type Curve struct {
	Left, Right CurveStops
	Barrier     uint32 // 1 where it blocks the edges that it crosses
	_           uint32
}

// CurveStops is a run of stops, Stops[First : First+Count], their parameters not descending.
type CurveStops struct{ First, Count uint32 }

// CurveStop is the values at a parameter. Between two stops they are interpolated, before the first and behind the last
// they are those. Where several stops have the same parameter, the last holds there.
//
// Mirrored by CurveStop in kernels/cu/curveraster.cu: 20 bytes.
type CurveStop struct {
	At     uint32
	Values [MaxDiffusionChannels]float32 // finite; of channels
}

// CurveRaster draws curves as constraints of a diffusion.
//
// Where a line of a curve crosses the way from the centre of a pixel to that of its right or lower neighbour, it parts
// the two: one gets the values of the curve's left side, the other those of the right, and with Barrier the edge
// between them is blocked. That goes for ways that begin or end outside of the image, too. A curve therefore has two
// unbroken rows of pixels, and no path over neighbours, diagonal ones included, leads through a closed one past them. A
// curve that crosses no such way, because it is short or lies outside, draws nothing.
//
// Of several crossings that claim a pixel the nearest wins: the least distance along the way, in 1/65536 px, rounded
// down and at most
// 65535. Then the last segment wins, then the least parameter, in CurveUnit within the segment, rounded down and at
// most CurveUnit-1, and then the left side. Sides without stops claim nothing.
//
// Which ways a line crosses is exact: centres are taken to lie a little to the right of, and still less below, where
// they are, so that no point of the grid is on a row or a column of them. Rows and columns are those of the rule of
// [Edge].
//
// The values of a pixel are a + (b-a)*f of the stops around, f = (p-A)/(B-A), with each operation rounded to float32.
// So all of it is the same on every backend.
//
// Flags are Width*Height bytes and Values Channels planes of as many float32; both stay as they are elsewhere, and
// where nothing is drawn. Pixels that are claimed get DiffusionFixed, and their values. Scratch has at least
// [CurveRaster.ScratchBytes].
//
// Segments, Curves and Stops are host memory that stays as it is until Wait. The segments of a curve follow one
// another, and curves follow in the order of their indices.
//
// Complexity: pixels, and crossings. Source: Orzan and others, Diffusion curves, 2008, for what is drawn.
type CurveRaster struct {
	Segments      []CurveSegment
	Curves        []Curve
	Stops         []CurveStop
	Width, Height int // sides up to MaxSide, and MaxPixels in all
	Channels      int // 1 to MaxDiffusionChannels
	Flags         Slice
	Values        Slice
	Scratch       Slice
}

// ScratchBytes is how large Scratch has to be: 8 bytes for each pixel, and room for the curves.
func (op *CurveRaster) ScratchBytes() int64 {
	up := func(n int64) int64 { return (n + Align - 1) / Align * Align }
	return up(8*int64(op.Width)*int64(op.Height)) + up(48*int64(len(op.Segments))) + up(4*int64(len(op.Segments)+1)) +
		up(24*int64(len(op.Curves))) + up(20*int64(len(op.Stops)))
}

func (op *CurveRaster) name() string { return "CurveRaster" }

func (op *CurveRaster) check() error {
	if err := cmp.Or(
		CheckSize(op.name(), "", op.Width, op.Height),
		between(op.name(), "Channels", op.Channels, 1, MaxDiffusionChannels),
	); err != nil {
		return err
	}
	return op.checkCurves()
}

func (op *CurveRaster) checkCurves() error {
	name := op.name()
	switch {
	case len(op.Segments) > MaxCurveSegments:
		return refuse(name, "len(Segments)", len(op.Segments),
			"must be at most %d", MaxCurveSegments)
	case len(op.Stops) > MaxCurveStops:
		return refuse(name, "len(Stops)", len(op.Stops), "must be at most %d", MaxCurveStops)
	}
	for i := range op.Segments {
		s := &op.Segments[i]
		for k := range s.X {
			for _, c := range [...]struct {
				axis string
				v    int32
			}{{"X", s.X[k]}, {"Y", s.Y[k]}} {
				if c.v < -MaxCurveCoord || c.v > MaxCurveCoord {
					return refuse(name, fmt.Sprintf("Segments[%d].%s[%d]", i, c.axis, k), c.v,
						"must be -%d to %[1]d", MaxCurveCoord)
				}
			}
		}
		if MaxCurvePieces>>s.LogPieces == 0 {
			return refuse(name, fmt.Sprintf("Segments[%d].LogPieces", i), s.LogPieces,
				"makes more than %d pieces", MaxCurvePieces)
		}
		if uint64(s.Curve) >= uint64(len(op.Curves)) {
			return refuse(name, fmt.Sprintf("Segments[%d].Curve", i), s.Curve,
				"must be less than %d, the number of curves", len(op.Curves))
		}
		first := s.Start == 0 && (i == 0 || s.Curve > op.Segments[i-1].Curve)
		next := i > 0 && s.Curve == op.Segments[i-1].Curve && uint64(s.Start) == uint64(op.Segments[i-1].Start)+
			CurveUnit
		if !first && !next {
			return refuse(name, fmt.Sprintf("Segments[%d]", i), fmt.Sprintf("curve %d from %d", s.Curve, s.Start),
				"does not follow the segment before")
		}
	}
	for i := range op.Curves {
		c := &op.Curves[i]
		if c.Barrier > 1 {
			return refuse(name, fmt.Sprintf("Curves[%d].Barrier", i), c.Barrier, "must be 0 or 1")
		}
		for _, side := range [...]struct {
			name  string
			stops CurveStops
		}{{"Left", c.Left}, {"Right", c.Right}} {
			first, n := uint64(side.stops.First), uint64(side.stops.Count)
			if first+n > uint64(len(op.Stops)) {
				return refuse(name, fmt.Sprintf("Curves[%d].%s", i, side.name), side.stops,
					"reaches past the %d stops", len(op.Stops))
			}
			for k := first + 1; k < first+n; k++ {
				if op.Stops[k].At < op.Stops[k-1].At {
					return refuse(name, fmt.Sprintf("Stops[%d].At", k), op.Stops[k].At,
						"is less than that of the stop before")
				}
			}
		}
	}
	for i := range op.Stops {
		for c, v := range op.Stops[i].Values[:op.Channels] {
			if !(math.Abs(float64(v)) <= math.MaxFloat32) {
				return refuse(name, fmt.Sprintf("Stops[%d].Values[%d]", i, c), v, "must be finite")
			}
		}
	}
	return nil
}

func (op *CurveRaster) operands(to []Operand) []Operand {
	pixels := int64(op.Width) * int64(op.Height)
	return append(to,
		exact("Flags", &op.Flags, pixels, Read|Write),
		exact("Values", &op.Values, 4*pixels*int64(op.Channels), Read|Write),
		scratch("Scratch", &op.Scratch, op.ScratchBytes()))
}
