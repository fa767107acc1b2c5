//go:build cuda

// Flips: kernels one behind the other, and as many rounds over all multiprocessors as there can be; those that have
// nothing to do end at once, and one block does the last ones.

package cuda

import (
	"github.com/polyscan/polyscan/kernels/driver"
)

// flipBlocks is how many blocks a multiprocessor gets of kernels that go over triangles.
const flipBlocks = 8

func (s *stream) flips(op *driver.Flips) error {
	f, zeroed, _ := layoutFlips(op.N, at(op.Scratch))
	f.Points, f.Triangles, f.Counts, f.Status = at(op.Points), at(op.Triangles), at(op.Counts), at(op.Status)
	f.Fault = s.faultAt()
	f.Rounds = uint32(op.Rounds)
	if err := s.fill(at(op.Scratch), 0, zeroed); err != nil {
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
