//go:build cuda

// CurveRaster: the curves go up, all pixels' claims are cleared, and two kernels draw and resolve.

package cuda

import (
	"fmt"
	"math"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) curveRaster(op *driver.CurveRaster) error {
	n := int64(op.Width) * int64(op.Height)
	if len(op.Segments) == 0 {
		return nil
	}
	// Where each segment's lines begin, behind one another.
	s.head = slices.Grow(s.head[:0], 4*(len(op.Segments)+1))[:4*(len(op.Segments)+1)]
	firsts, pieces := valuesOf[uint32](s.head), uint64(0)
	for i, g := range op.Segments {
		firsts[i] = uint32(pieces)
		pieces += 1 << g.LogPieces
	}
	if pieces > math.MaxInt32/curveLanes {
		return fmt.Errorf("Segments: %d lines: more than %d: %w", pieces, math.MaxInt32/curveLanes,
			driver.ErrNotSupported)
	}
	firsts[len(op.Segments)] = uint32(pieces)

	claims, flags := at(op.Scratch), at(op.Flags)
	from := claims + uint64(alignUp(8*n))
	var g gather
	total := int64(0)
	put := func(b []byte) uint64 { // the address that it will have
		to := from + uint64(total)
		size := alignUp(int64(len(b)))
		g.pieces = append(g.pieces, b, gap[:size-int64(len(b))])
		total += size
		return to
	}
	segments, curves := put(bytesOf(op.Segments)), put(bytesOf(op.Curves))
	lines, stops := put(s.head), put(bytesOf(op.Stops))
	if err := s.send(from, &g, total, s.stop.Load); err != nil {
		return err
	}
	if err := s.fill(claims, 0xff, 8*n); err != nil {
		return err
	}
	draw := curverasterDrawParams{
		Segments: segments, Firsts: lines, Curves: curves, Claims: claims, Flags: flags,
		Count:  uint32(len(op.Segments)),
		Pieces: uint32(pieces), Width: int32(op.Width), Height: int32(op.Height),
	}
	if err := curverasterDraw.launch(s, blocks(int64(pieces), curveThreads/curveLanes), 1, curveThreads, 0,
		&draw); err != nil {
		return err
	}
	resolve := curverasterResolveParams{
		Segments: segments, Curves: curves, Stops: stops, Claims: claims, Flags: flags, Values: at(op.Values),
		Pixels: uint64(n), Channels: uint32(op.Channels),
	}
	return curverasterResolve.launch(s, blocks(n, curvePixels), 1, curveThreads, 0, &resolve)
}

// gap is what lies between what is aligned.
var gap [driver.Align]byte

// blocks is how many blocks of so many there are in n.
func blocks(n, each int64) int { return int((n + each - 1) / each) }
