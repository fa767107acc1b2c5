//go:build cuda

// SelectVertices: launches one behind the other, with nothing for the host to look at in between.

package cuda

import (
	"cmp"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) selectVertices(op *driver.SelectVertices) error {
	v, _ := selectionOf(op.N, op.Width, op.Height, op.VertexRule, s.dev.info.ComputeUnits, at(op.Scratch))
	v.Edges, v.Previous, v.Points, v.Count = at(op.Edges), at(op.Previous), at(op.Points), at(op.Count)
	v.PreviousCount = uint32(op.NPrevious)

	// As many blocks as are busy for a while, and no more than have something to do.
	most := s.dev.info.ComputeUnits * 8
	blocks := func(n int) int { return min((n+selectThreads-1)/selectThreads, most) }
	candidates := int(v.BlockColumns) * int(v.BlockRows) // that are the first ones of blocks
	args := v
	run := func(k kernelFor[selection], blocks int) error {
		return k.launch(s, blocks, 1, selectThreads, 0, &args)
	}
	err := run(selectClear, blocks(int(max(v.ZeroWords/4, v.CellCount))))
	if candidates > 0 {
		wide := selectThreads / int(v.Block) // blocks of candidates that one of threads does, in a row
		tiles, groups := (int(v.BlockColumns)+wide-1)/wide, (int(v.BlockRows)+int(v.RowBlocks)-1)/int(v.RowBlocks)
		err = cmp.Or(err, run(selectKeys, tiles*groups))
		if op.Strength > 0 {
			err = cmp.Or(err, run(selectPrevious, blocks(op.NPrevious)))
		}
		if v.CellCount > 0 {
			err = cmp.Or(err, run(selectCells, blocks(32*int(v.CellCount)*int(v.CellParts))))
		}
	}
	segments := int(v.BitWords / selectSegment)
	return cmp.Or(err,
		run(selectDistance, max(blocks(candidates), 1)),
		run(selectRefine, max(blocks(candidates/2), 1)),
		run(selectMark, max(blocks(candidates/2), 1)),
		run(selectCount, segments),
		run(selectWrite, segments))
}
