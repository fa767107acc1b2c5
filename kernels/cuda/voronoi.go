//go:build cuda

// Voronoi: the nearest site of each pixel.

package cuda

import (
	"github.com/polyscan/polyscan/kernels/driver"
)

// voronoiHardBlocks is how many blocks a multiprocessor gets of voronoi_hard, for what the device cannot tell before.
const voronoiHardBlocks = 4

func (s *stream) voronoi(op *driver.Voronoi) error {
	l := layVoronoi(op.N, op.Width, op.Height, op.Method)
	pixels := op.Width * op.Height
	if op.N == 0 {
		return s.fill(at(op.Labels), 0xff, op.Labels.Len)
	}
	l.at(at(op.Scratch))
	l.Sites, l.Labels, l.Fault = at(op.Sites), at(op.Labels), s.faultAt()
	p := &l.voronoiArgs
	blocks := func(n, each int) int { return (n + each - 1) / each }
	var err error
	// Each block takes so many of n in one launch.
	launch := func(k kernelFor[voronoiArgs], n, each, threads int) {
		if err == nil {
			err = k.launch(s, blocks(n, each), 1, threads, 0, p)
		}
	}
	switch op.Method {
	case driver.BruteForce:
		launch(voronoiBrute, pixels, voronoiThreads*voronoiBrutePixels, voronoiThreads)
		return err
	case driver.JumpFlood:
		return s.jumpFlood(p)
	}
	cells, strips := int(l.Cells), blocks(op.Height, voronoiCell)
	few, tiles, hard, rows := voronoiFew, voronoiTiles, voronoiHard, voronoiRows
	if l.wide() {
		few, tiles, hard, rows = voronoiFewWide, voronoiTilesWide, voronoiHardWide, voronoiRowsWide
	}
	if op.Method == driver.VoronoiDefault && op.N <= voronoiFewSites {
		launch(few, cells*strips, voronoiTileWarps, voronoiTileWarps*32)
		return err
	}
	err = s.fill(l.Words, 0, l.cleared)
	launch(voronoiMark, op.N, voronoiThreads, voronoiThreads)
	launch(voronoiRank, cells*strips, voronoiThreads/32, voronoiThreads)
	launch(voronoiLeast, op.N, voronoiThreads, voronoiThreads)
	if op.Method == driver.Banding {
		launch(voronoiStrips, int(l.Pitch), voronoiThreads, voronoiThreads)
		launch(voronoiColumns, blocks(op.Width, voronoiThreads)*strips, 1, voronoiThreads)
		launch(rows, blocks(op.Width, voronoiSegment)*op.Height, 1, voronoiThreads)
	} else {
		launch(tiles, cells*strips, voronoiTileWarps, voronoiTileWarps*32)
		launch(hard, min(16*cells*strips, s.dev.info.ComputeUnits*voronoiHardBlocks), 1, voronoiThreads)
	}
	return err
}

// jumpFlood floods from one buffer into the other; the last step writes the labels.
func (s *stream) jumpFlood(p *voronoiArgs) error {
	pixels := int(p.Width) * int(p.Height)
	first, steps := 1, 1
	for 2*first < int(max(p.Width, p.Height)) {
		first *= 2
		steps++
	}
	if steps%2 == 0 {
		p.Plane, p.Labels = p.Labels, p.Plane
	}
	err := s.fill(p.Plane, 0xff, 4*int64(pixels))
	if err == nil {
		err = voronoiSeed.launch(s, (int(p.N)+voronoiThreads-1)/voronoiThreads, 1, voronoiThreads, 0, p)
	}
	for step := first; step >= 1 && err == nil; step /= 2 {
		p.Step = int32(step)
		err = voronoiJump.launch(s, (pixels+voronoiThreads-1)/voronoiThreads, 1, voronoiThreads, 0, p)
		p.Plane, p.Labels = p.Labels, p.Plane
	}
	return err
}
