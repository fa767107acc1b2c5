//go:build cuda

// Flips: kernels one behind the other, and as many rounds over all multiprocessors as there can be; those that have
// nothing to do end at once, and one block does the last ones.

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// flipBlocks is how many blocks a multiprocessor gets of kernels that go over triangles.
const flipBlocks = 8

func (d *device) FlipsScratch(n int) (int64, error) {
	_, _, bytes, err := layoutFlips(n, 0)
	return bytes, err
}

func (s *stream) Flips(op driver.Flips) error {
	return s.enqueue("Flips", 0, func() error { return s.flips(op) })
}

func (s *stream) flips(op driver.Flips) error {
	_, _, need, err := layoutFlips(op.N, 0)
	if err != nil {
		return err
	}
	if op.Rounds < 1 || op.Rounds > driver.MaxFlipRounds {
		return fmt.Errorf("Rounds = %d: must be 1 to %d", op.Rounds, driver.MaxFlipRounds)
	}
	var points, triangles, counts, status, scratch span
	if err := s.place(
		argument{&points, op.Points, "Points", pointBytes * int64(op.N)},
		argument{&triangles, op.Triangles, "Triangles", 2 * triangleBytes * int64(op.N)},
		argument{&counts, op.Counts, "Counts", meshCountsBytes},
		argument{&status, op.Status, "Status", flipStatusBytes},
		argument{&scratch, op.Scratch, "Scratch", need},
	); err != nil {
		return err
	}
	for _, x := range []span{triangles, status, scratch} {
		x.overwritten()
	}
	f, zeroed, _, _ := layoutFlips(op.N, scratch.at())
	f.Points, f.Triangles, f.Counts, f.Status, f.Fault = points.at(), triangles.at(), counts.at(), status.at(),
		s.faultAt()
	f.Rounds = uint32(op.Rounds)
	if err := s.fill(scratch.at(), 0, zeroed); err != nil {
		return err
	}
	args := f
	all := min(max(ceilDiv(2*op.N, flipThreads), 1), s.dev.info.ComputeUnits*flipBlocks)
	for _, k := range []struct {
		kernel  kernelFor[flipArgs]
		blocks  int
		threads int
	}{
		{flipsCount, all, flipThreads},
		{flipsLists, all, flipThreads},
		{flipsFill, all, flipThreads},
		{flipsPair, all, flipThreads},
		{flipsBig, s.dev.info.ComputeUnits, flipThreads},
		{flipsJudge, 1, flipTailThreads},
	} {
		if err := k.kernel.launch(s, k.blocks, 1, k.threads, 0, &args); err != nil {
			return err
		}
	}
	wide := 0
	if 2*op.N > flipSmall {
		wide = flipWideRounds
	}
	for round := range wide {
		args := flipsClaimParams{F: f, Round: uint32(round)}
		for _, k := range []kernelFor[flipsClaimParams]{flipsClaim, flipsWin, flipsTurn} {
			if err := k.launch(s, all, 1, flipThreads, 0, &args); err != nil {
				return err
			}
		}
	}
	if err := flipsTail.launch(s, 1, 1, flipTailThreads, 0, &flipsTailParams{F: f, Wide: uint32(wide)}); err != nil {
		return err
	}
	return flipsEnd.launch(s, all, 1, flipThreads, 0, &args)
}
