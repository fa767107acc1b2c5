//go:build cuda

// SelectVertices: launches one behind the other, with nothing for the host to look at in between.

package cuda

import (
	"cmp"
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (d *device) SelectVerticesScratch(n, width, height int, rule driver.VertexRule) (int64, error) {
	_, bytes, err := selectionOf(n, width, height, rule, d.info.ComputeUnits, 0)
	if err != nil {
		return 0, fmt.Errorf("cuda: SelectVertices: %w", err)
	}
	return bytes, nil
}

func (s *stream) SelectVertices(op driver.SelectVertices) error {
	return s.enqueue("SelectVertices", 0, func() error { return s.selectVertices(op) })
}

func (s *stream) selectVertices(op driver.SelectVertices) error {
	scratch, err := s.dev.structs(op.Scratch, "Scratch")
	if err != nil {
		return err
	}
	v, bytes, err := selectionOf(op.N, op.Width, op.Height, op.VertexRule, s.dev.info.ComputeUnits, scratch.at())
	if err != nil {
		return err
	}
	var edges, previous, points, count span
	for _, f := range []struct {
		to    *span
		from  driver.Slice
		field string
		need  int64
	}{
		{&edges, op.Edges, "Edges", 2 * int64(op.Width) * int64(op.Height)},
		{&previous, op.Previous, "Previous", 8 * int64(op.NPrevious)},
		{&points, op.Points, "Points", 8 * int64(op.N)},
		{&count, op.Count, "Count", 4},
	} {
		if *f.to, err = s.dev.structs(f.from, f.field); err != nil {
			return err
		}
		if f.to.n != f.need {
			return fmt.Errorf("%s: %d bytes, must be %d", f.field, f.to.n, f.need)
		}
	}
	if scratch.n < bytes {
		return fmt.Errorf("Scratch: %d bytes, %d are needed", scratch.n, bytes)
	}
	points.overwritten()
	count.overwritten()
	scratch.overwritten()
	v.Edges, v.Previous, v.Points, v.Count, v.PreviousCount = edges.at(), previous.at(), points.at(), count.at(),
		uint32(op.NPrevious)

	// As many blocks as are busy for a while, and no more than have something to do.
	most := s.dev.info.ComputeUnits * 8
	blocks := func(n int) int { return min((n+selectThreads-1)/selectThreads, most) }
	candidates := int(v.BlockColumns) * int(v.BlockRows) // that are the first ones of blocks
	args := v
	run := func(k kernelFor[selection], blocks int) error {
		return k.launch(s, blocks, 1, selectThreads, 0, &args)
	}
	err = run(selectClear, blocks(int(max(v.ZeroWords/4, v.CellCount))))
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
