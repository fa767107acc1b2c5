//go:build cuda

// Diffusion without barriers: black box multigrid. See diffusion_box.cu.

package cuda

import "github.com/polyscan/polyscan/kernels/driver"

// boxDiffuser solves problems without barriers.
type boxDiffuser struct{}

func (boxDiffuser) setupBytes(g driver.DiffusionGrid) (int64, error) {
	var a arena
	layBox(&a, g)
	return int64(a.end), nil
}

func (boxDiffuser) stateBytes(g driver.DiffusionGrid, channels int) (int64, error) {
	var setup, a arena
	b := layBox(&setup, g)
	layBoxState(&a, g, &b, channels)
	return int64(a.end), nil
}

// A multiprocessor gets so many blocks of kernels that go over all pixels with a grid of any size.
const boxBlocksPerUnit = 4

// setUp enqueues a kernel for each level.
func (boxDiffuser) setUp(s *stream, op *diffusionSetup) error {
	b := layBox(&arena{op.Dst}, op.DiffusionGrid)
	if err := s.fill(b.head, 0, diffusionHeaderRoom); err != nil {
		return err
	}
	n := op.Width * op.Height
	check := boxCheckParams{Flags: op.Flags, N: uint64(n), Head: b.head, Counts: op.Counts, Fault: s.faultAt()}
	blocks := min((n+boxFlagsPerThread*boxCheckThreads-1)/(boxFlagsPerThread*boxCheckThreads),
		2*boxBlocksPerUnit*s.dev.info.ComputeUnits)
	if err := boxCheck.launch(s, blocks, 1, boxCheckThreads, 0, &check); err != nil {
		return err
	}
	invert := boxInvertParams{Inverse: b.inverse, Head: b.head, Width: uint32(op.Width), Height: uint32(op.Height)}
	for i, l := range b.levels {
		_, blocks := tiles(int(l.Width), int(l.Height), boxCoarsenWidth, boxCoarsenHeight)
		var err error
		if i == 0 {
			args := boxCoarsenFlagsParams{Flags: op.Flags, Width: int32(op.Width), Height: int32(op.Height), To: l}
			err = boxCoarsenFlags.launch(s, blocks, 1, boxCoarsenWidth*boxCoarsenHeight, 0, &args)
		} else {
			err = boxCoarsen.launch(s, blocks, 1, boxCoarsenThreads, 0, &boxCoarsenParams{From: b.levels[i-1], To: l})
		}
		if err != nil {
			return err
		}
		invert.L = l
	}
	return boxInvert.launch(s, 1, 1, boxInvertThreads, 0, &invert)
}

// boxAhead is how many cycles are enqueued before the host looks whether they were enough. Most problems take 3 from
// nothing to half a level.
const boxAhead = 3

// solve enqueues cycles.
func (boxDiffuser) solve(s *stream, op *diffusionSolve) error {
	g := op.DiffusionGrid
	c := boxCycle{s: s, channels: op.Channels, setup: layBox(&arena{op.Setup}, g)}
	c.state = layBoxState(&arena{op.State}, g, &c.setup, op.Channels)
	p := boxSolve{
		Flags: op.Flags, Head: c.setup.head, Colours: op.Colours, X: op.X, Y: c.state.y, State: c.state.head,
		Sums: c.state.sums, Fault: s.faultAt(),
		Width: int32(g.Width), Height: int32(g.Height), Channels: int32(op.Channels), Start: int32(op.Start),
		Tolerance: op.Tolerance,
	}
	c.fine = boxStartParams{P: p}
	if len(c.setup.levels) > 0 {
		c.fine.L, c.fine.E, c.fine.B = c.setup.levels[0], c.state.vectors[0].E, c.state.vectors[0].B
	}
	x, all := tiles(max(g.Width-2*boxFineMargin, 1), max(g.Height-2*boxFineMargin, 1), boxFineWidth, boxFineHeight)
	c.row, c.rows = x*op.Channels, all/x
	blocks := 1
	if op.Start == driver.DiffusionFromMean {
		blocks = boxMeanBlocks
	}
	if err := boxBegin.launch(s, blocks, 1, boxMeanThreads, 0, &p); err != nil {
		return err
	}
	if op.Start != driver.DiffusionContinue {
		if err := boxStart.launch(s, c.row, c.rows, boxFineThreads, 0, &c.fine); err != nil {
			return err
		}
	}
	if err := s.repeat(op.Cycles, boxAhead, c.state.head+boxStopAt, c.enqueue); err != nil {
		return err
	}
	blocks = min((g.Width*g.Height*op.Channels/4+boxEndThreads-1)/boxEndThreads,
		boxBlocksPerUnit*s.dev.info.ComputeUnits)
	return boxEnd.launch(s, max(blocks, 1), 1, boxEndThreads, 0, &boxEndParams{P: p, Status: op.Status})
}

// boxCycle is what the kernels of a cycle are launched with.
type boxCycle struct {
	s        *stream
	channels int
	setup    boxSetup
	state    boxStateParts
	fine     boxStartParams
	row      int // tiles of the image in a row, for all channels
	rows     int // of them
}

// groups is how many groups the channels of a level are in: each has blocks of its own, which load the operator of a
// tile once for all channels of the group, as many in each. Several at once take less time than one after the other,
// but more than one, so that they are all apart where multiprocessors, of which each does so many blocks at once, would
// be idle.
func (c *boxCycle) groups(tiles, blocks int) int {
	if tiles*c.channels <= blocks*c.s.dev.info.ComputeUnits {
		return c.channels
	}
	return (c.channels + boxTileChannels - 1) / boxTileChannels
}

// enqueue enqueues a cycle: down to the levels that one block does, up from there, and the image.
func (c *boxCycle) enqueue() error {
	levels, vectors := c.setup.levels, c.state.vectors
	if len(levels) > 0 {
		bottom := c.setup.bottom()
		for i, l := range levels[:bottom] {
			x, all := tiles(int(l.Width), int(l.Height), boxDownWidth, boxDownHeight)
			groups := c.groups(all, boxDownBlocks)
			args := boxDownParams{State: c.state.head, L: l, Next: levels[i+1], B: vectors[i].B, X: vectors[i].X,
				NextB: vectors[i+1].B, TilesX: uint32(x), Channels: uint32(c.channels), Groups: uint32(groups)}
			if err := boxDown.launch(c.s, all*groups, 1, boxDownThreads, 0, &args); err != nil {
				return err
			}
		}
		args := boxBottomParams{State: c.state.head,
			P: boxBottomArgs{Inverse: c.setup.inverse, B: vectors[bottom].B, E: vectors[bottom].E}}
		for i, l := range levels[bottom:] {
			*[...]*boxLevel{&args.P.L0, &args.P.L1, &args.P.L2}[i] = l
			args.P.Levels++
		}
		if err := boxBottom.launch(c.s, c.channels, 1, boxBottomThreads, 0, &args); err != nil {
			return err
		}
		for i := bottom - 1; i >= 0; i-- {
			l := levels[i]
			x, all := tiles(int(l.Width), int(l.Height), boxUpWidth, boxUpHeight)
			groups := c.groups(all, boxUpBlocks)
			args := boxUpParams{State: c.state.head, L: l, Next: levels[i+1], B: vectors[i].B, X: vectors[i].X,
				NextE: vectors[i+1].E, E: vectors[i].E, TilesX: uint32(x), Channels: uint32(c.channels),
				Groups: uint32(groups)}
			if err := boxUp.launch(c.s, all*groups, 1, boxUpThreads, 0, &args); err != nil {
				return err
			}
		}
	}
	return boxFine.launch(c.s, c.row, c.rows, boxFineThreads, 0, &c.fine)
}
