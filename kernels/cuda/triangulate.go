//go:build cuda

// Triangulate: a sort along a curve, a tree over it, and each point's triangles by itself. Sizes that only the device
// learns (how many distinct points there are, digits of keys) are bounded by N, and kernels that have nothing to do end
// at once, so that nobody waits for the device.

package cuda

import (
	"github.com/polyscan/polyscan/kernels/driver"
)

const (
	// pointBlocks is how many blocks a multiprocessor gets of the kernels that go over all points, and farBlocks how
	// many of triangulate_far, which take tasks until there are none.
	pointBlocks = 8
	farBlocks   = 12
)

func (s *stream) triangulate(op *driver.Triangulate) error {
	if op.N < 3 {
		return s.fill(at(op.Count), 0, 4)
	}
	l := layoutTriangulate(op.N)
	scratch := at(op.Scratch)
	if err := s.fill(scratch+uint64(l.state), 0, l.zeroed-l.state); err != nil {
		return err
	}
	args := l.args(scratch, op.N)
	args.Points, args.Triangles, args.Count = at(op.Points), at(op.Triangles), at(op.Count)
	args.Fault = s.faultAt()
	blocks := func(items int) int { return ceilDiv(op.N, triangulateThreads*items) }
	units := s.dev.info.ComputeUnits
	all := min(units*pointBlocks, blocks(1))
	if err := triangulateBounds.launch(s, all, 1, triangulateThreads, 0, &args); err != nil {
		return err
	}
	if err := triangulateKeys.launch(s, all, 1, triangulateThreads, 0, &args); err != nil {
		return err
	}
	for pass := range uint32(keyDigits) {
		sort := triangulateSortParams{D: args, Pass: pass}
		if err := triangulateSort.launch(s, blocks(sortItems), 1, triangulateThreads, 0, &sort); err != nil {
			return err
		}
	}
	for _, k := range []struct {
		kernel  kernelFor[delaunayArgs]
		blocks  int
		threads int
	}{
		{triangulateUnique, blocks(uniqueItems), triangulateThreads},
		{triangulateBoxes, blocks(treeLeaf), triangulateThreads},
		{triangulateTree, 1, treeThreads},
		{triangulateStars, ceilDiv(op.N, starWarps*32), starWarps * 32},
		{triangulateSlabs, blocks(treeLeaf), triangulateThreads},
		{triangulateFar, units * farBlocks, starWarps * 32},
		{triangulateEmit, blocks(emitItems), triangulateThreads},
	} {
		if err := k.kernel.launch(s, k.blocks, 1, k.threads, 0, &args); err != nil {
			return err
		}
	}
	return nil
}
