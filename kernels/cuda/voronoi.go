//go:build cuda

// Voronoi: the nearest site of each pixel.

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// voronoiHardBlocks is how many blocks a multiprocessor gets of voronoi_hard, for what the device cannot tell before.
const voronoiHardBlocks = 4

func (d *device) VoronoiScratch(n, width, height int, m driver.VoronoiMethod) (int64, error) {
	if err := checkVoronoi(n, width, height, m); err != nil {
		return 0, fmt.Errorf("cuda: Voronoi: %w", err)
	}
	return layVoronoi(n, width, height, m).bytes, nil
}

func checkVoronoi(n, width, height int, m driver.VoronoiMethod) error {
	switch {
	case n < 0 || n > driver.MaxPoints:
		return fmt.Errorf("N = %d: must be 0 to %d", n, driver.MaxPoints)
	case width < 1 || width > driver.MaxSide || height < 1 || height > driver.MaxSide ||
		width*height > driver.MaxPixels:
		return fmt.Errorf("Width, Height = %d, %d: sides must be 1 to %d, and no more than %d pixels", width, height,
			driver.MaxSide, driver.MaxPixels)
	case m > driver.Banding:
		return fmt.Errorf("Method = %d: %w", m, driver.ErrNotSupported)
	}
	return nil
}

func (s *stream) Voronoi(op driver.Voronoi) error {
	return s.enqueue("Voronoi", 0, func() error { return s.voronoi(op) })
}

func (s *stream) voronoi(op driver.Voronoi) error {
	if err := checkVoronoi(op.N, op.Width, op.Height, op.Method); err != nil {
		return err
	}
	l := layVoronoi(op.N, op.Width, op.Height, op.Method)
	sites, err := s.dev.structs(op.Sites, "Sites")
	if err != nil {
		return err
	}
	labels, err := s.dev.structs(op.Labels, "Labels")
	if err != nil {
		return err
	}
	scratch, err := s.dev.structs(op.Scratch, "Scratch")
	if err != nil {
		return err
	}
	pixels := op.Width * op.Height
	switch {
	case sites.n != 8*int64(op.N):
		return fmt.Errorf("Sites: %d bytes, %d are needed", sites.n, 8*op.N)
	case labels.n != 4*int64(pixels):
		return fmt.Errorf("Labels: %d bytes, %d are needed", labels.n, 4*pixels)
	case scratch.n < l.bytes:
		return fmt.Errorf("Scratch: %d bytes, %d are needed", scratch.n, l.bytes)
	}
	labels.overwritten()
	scratch.overwritten()
	if op.N == 0 {
		return s.fill(labels.at(), 0xff, labels.n)
	}
	l.at(scratch.at())
	l.Sites, l.Labels, l.Fault = sites.at(), labels.at(), s.faultAt()
	p := &l.voronoiArgs
	blocks := func(n, each int) int { return (n + each - 1) / each }
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
