//go:build cuda

// Diffusion with barriers: conjugate gradients preconditioned by smoothed aggregation. See diffusion_graph_solve.cu.

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// graphDiffuser solves problems with barriers.
type graphDiffuser struct{}

const (
	// maxGraphPixels keeps the numbers of edges within 32 bits.
	maxGraphPixels = 1 << 27
	// graphAhead is how many cycles are enqueued before the host looks whether they were enough. They take 3 to 5 as a
	// rule.
	graphAhead = 3
	// Nodes of a cell are joined by a warp. Up to level graphJoinFew there are few, and they have 16 lanes; on levels
	// of graphJoinCells or less there are many, and they have a block.
	graphJoinFew   = 3
	graphJoinCells = 1024
	// graphDeep is the level from which on cells have many nodes, and rows lead farther.
	graphDeep = 4
)

// graphGrid is the cells of a level, from 1, and where they are.
type graphGrid struct {
	w, h        int
	cell, parts uint64
}

func (l graphGrid) cells() int { return l.w * l.h }

// graphMemory is a set-up.
type graphMemory struct {
	graphSetup
	levels       []graphGrid
	cleared, end uint64 // the table and parts, which begin as 0
}

func layGraph(a *arena, g driver.DiffusionGrid) (m graphMemory) {
	n := g.Width * g.Height
	// In scenes of devicetest there are at most 0.9 nodes, 5.8 edges, 2.4 entries of P and 5.6 of A P a pixel, in mazes
	// and corridors of other forms 8.9 edges and 3.9 entries of P; warps leave some of it unused.
	nodes, edges, prolong, product := 2*n+64, 12*n+64, 6*n+64, 12*n+64
	m.Width, m.Height = uint32(g.Width), uint32(g.Height)
	m.NodeRoom, m.EdgeRoom, m.ProlongRoom, m.ProductRoom = uint32(nodes), uint32(edges), uint32(prolong),
		uint32(product)
	m.Head = a.take(diffusionHeaderRoom)
	m.Open, m.Parent = a.take(int64(n)), a.floats(n)
	for w, h := g.Width, g.Height; w*h > 1; {
		w, h = (w+1)/2, (h+1)/2
		m.levels = append(m.levels, graphGrid{w: w, h: h})
	}
	for i := range m.levels {
		m.levels[i].cell = a.floats(m.levels[i].cells() + 1)
	}
	if len(m.levels) > 0 {
		m.Cell = m.levels[0].cell
	}
	m.NodeParent, m.NodeBlock = a.floats(nodes), a.floats(nodes)
	m.Row, m.Prolong, m.Restricts = a.floats(2*nodes), a.floats(2*nodes), a.floats(2*nodes)
	m.Sink, m.Diagonal, m.Inv, m.Sum = a.floats(nodes), a.floats(nodes), a.floats(nodes), a.floats(nodes)
	m.Edges, m.ProlongPool, m.RestrictPool = a.floats(2*edges), a.floats(2*prolong), a.floats(2*prolong)
	m.Product, m.Lack, m.ProductPool = a.floats(2*nodes), a.floats(nodes), a.floats(2*product)
	m.Labels = a.floats(n + 1)
	dense := min(n, graphDenseNodes)
	m.Dense = a.floats(dense * dense)
	m.Table = a.take(graphTableBytes)
	m.cleared = m.Table
	for i := range m.levels {
		m.levels[i].parts = a.floats(graphBlocks(m.levels[i].cells()))
	}
	if len(m.levels) > 0 {
		m.Parts = m.levels[0].parts
	}
	m.end = a.end
	return m
}

// graphBlocks is how many blocks have a thread for each of n.
func graphBlocks(n int) int { return (n + graphThreads - 1) / graphThreads }

func (graphDiffuser) setupBytes(g driver.DiffusionGrid) (int64, error) {
	if g.Width*g.Height > maxGraphPixels {
		return 0, fmt.Errorf("Grid = %dx%d: %w with barriers: no more than %d pixels", g.Width, g.Height,
			driver.ErrNotSupported, maxGraphPixels)
	}
	var a arena
	layGraph(&a, g)
	return int64(a.end), nil
}

func layGraphState(a *arena, g driver.DiffusionGrid, channels int) (s graphSolve) {
	n := g.Width * g.Height
	s.State = a.take(graphStateBytes)
	s.R0, s.R1, s.Q, s.P0, s.P1 = a.floats(n*channels), a.floats(n*channels), a.floats(n*channels),
		a.floats(n*channels), a.floats(n*channels)
	s.Sums, s.Largest = a.take(8*8*graphParts), a.floats(graphParts)
	nodes := 4 * (2*n + 64)
	s.Nx, s.Nb, s.Nr = a.floats(nodes), a.floats(nodes), a.floats(nodes)
	return s
}

func (d graphDiffuser) stateBytes(g driver.DiffusionGrid, channels int) (int64, error) {
	if _, err := d.setupBytes(g); err != nil {
		return 0, err
	}
	var a arena
	layGraphState(&a, g, channels)
	return int64(a.end), nil
}

// setUp enqueues some kernels for each level.
func (graphDiffuser) setUp(s *stream, op *diffusionSetup) error {
	m := layGraph(&arena{op.Dst}, op.DiffusionGrid)
	if err := s.fill(m.cleared, 0, int64(m.end-m.cleared)); err != nil {
		return err
	}
	if err := s.label(op, m.Head, m.Labels, m.Open); err != nil {
		return err
	}
	units := s.dev.info.ComputeUnits
	multiplyBlocks := func(cells int) int { return min(units*graphMultiplyBlocks, 8*cells) }
	for k, l := range m.levels {
		var err error
		if k == 0 {
			p := m.graphSetup
			if err = graphJoinPixels.launch(s, graphBlocks(l.cells()), 1, graphThreads, 0, &p); err == nil {
				err = graphNumberPixels.launch(s, graphBlocks(l.cells()), 1, graphThreads, 0, &p)
			}
			if err == nil {
				err = graphAmidPixels.launch(s, (l.w+graphAmidX-1)/graphAmidX*((l.h+graphAmidY-1)/graphAmidY), 1,
					graphThreads, 0, &p)
			}
			if err == nil {
				err = graphMultiplyPixels.launch(s, multiplyBlocks(l.cells()), 1, 32*graphMultiplyWarps, 0, &p)
			}
		} else {
			from := m.levels[k-1]
			smooth, product, multiply := graphSmooth, graphProduct, graphMultiply
			switch {
			case k == 1: // rows are short there
				smooth, product, multiply = graphSmoothFirst, graphProductFirst, graphMultiplyFirst
			case k >= graphDeep: // and lead far away here
				smooth, product, multiply = graphSmoothDeep, graphProductDeep, graphMultiplyDeep
			}
			cells := graphJoinFirstParams{G: m.graphSetup, Cell: from.cell, Next: l.cell, Parts: l.parts, Level: int32(k)}
			join, blocks := graphJoin, graphBlocks(32*l.cells())
			switch {
			case k <= graphJoinFew:
				join, blocks = graphJoinFirst, graphBlocks(16*l.cells())
			case l.cells() <= graphJoinCells:
				join, blocks = graphJoinMany, l.cells()
			}
			if err = join.launch(s, blocks, 1, graphThreads, 0, &cells); err == nil {
				err = graphNumber.launch(s, graphBlocks(l.cells()), 1, graphThreads, 0, &cells)
			}
			rows := graphSmoothFirstParams{G: m.graphSetup, Cell: from.cell, Next: l.cell, Level: int32(k)}
			for _, kernel := range []kernelFor[graphSmoothFirstParams]{smooth, product, multiply} {
				if err == nil {
					err = kernel.launch(s, multiplyBlocks(from.cells()), 1, 32*graphMultiplyWarps, 0, &rows)
				}
			}
		}
		if err != nil {
			return err
		}
	}
	if err := graphFinish.launch(s, 1, 1, 1, 0, &graphFinishParams{G: m.graphSetup, Counts: op.Counts,
		Levels: uint32(len(m.levels)), Method: uint32(op.Method)}); err != nil {
		return err
	}
	return graphInvert.launch(s, 1, 1, graphInvertThreads, 0, &m.graphSetup)
}

// solve enqueues cycles.
func (graphDiffuser) solve(s *stream, op *diffusionSolve) error {
	g := op.DiffusionGrid
	m := layGraph(&arena{op.Setup}, g)
	p := layGraphState(&arena{op.State}, g, op.Channels)
	p.G, p.Status, p.Flags, p.Colours, p.X, p.Fault = m.graphSetup, op.Status, op.Flags, op.Colours, op.X, s.faultAt()
	p.Channels, p.Start, p.Method, p.Tolerance = uint32(op.Channels), uint32(op.Start), uint32(op.Method), op.Tolerance
	c := graphCycle{s: s, m: &m, p: p}
	if err := graphBegin.launch(s, 1, 1, 1, 0, &c.p); err != nil {
		return err
	}
	if op.Start != driver.DiffusionContinue {
		if err := s.fillIn(op, m.Head, p.State+stateDone, m.Open, p.Sums); err != nil {
			return err
		}
		c.step(1)
	}
	if c.err == nil {
		c.err = s.repeat(op.Cycles, graphAhead, p.State+stateDone, func() error {
			c.precondition()
			c.step(0)
			return c.err
		})
	}
	c.all(graphLast, graphParts)
	c.all(graphStatus, 1)
	return c.err
}

// graphCycle enqueues kernels until one fails.
type graphCycle struct {
	s   *stream
	m   *graphMemory
	p   graphSolve
	err error
}

func (c *graphCycle) all(k kernelFor[graphSolve], blocks int) {
	if c.err == nil {
		c.err = k.launch(c.s, blocks, 1, graphThreads, 0, &c.p)
	}
}

// tiles is how many tiles of pixels there are in a row, and in all.
func (c *graphCycle) tiles() (across, all int) {
	across = (int(c.p.G.Width) + graphInnerX - 1) / graphInnerX
	return across, across * ((int(c.p.G.Height) + graphInnerY - 1) / graphInnerY)
}

// step goes a step, or begins where start is not 0, and leaves what the next cycle begins with.
func (c *graphCycle) step(start uint32) {
	if c.err == nil {
		across, tiles := c.tiles()
		c.err = graphStep.launch(c.s, tiles, 1, graphThreads, 0,
			&graphStepParams{S: c.p, Across: uint32(across), Start: start})
	}
}

// precondition finds the next direction.
func (c *graphCycle) precondition() {
	if len(c.m.levels) > 0 {
		// Nodes of a level are about as many as cells.
		first := min(graphFirstBlocks*c.s.dev.info.ComputeUnits, graphBlocks(graphFirstLanes*c.m.levels[0].cells()))
		c.all(graphDown, first)
		if c.err == nil {
			blocks := 1
			if len(c.m.levels) > 1 {
				blocks = min(c.s.dev.info.ComputeUnits,
					(32*c.m.levels[1].cells()+graphLevelThreads-1)/graphLevelThreads)
			}
			c.err = graphLevels.launch(c.s, blocks, 1, graphLevelThreads, 0, &c.p)
		}
		c.all(graphUp, first)
	}
	if c.err == nil {
		across, tiles := c.tiles()
		c.err = graphSmoothOut.launch(c.s, min(tiles, graphParts), 1, graphThreads, 0,
			&graphSmoothOutParams{S: c.p, Across: uint32(across), Tiles: uint32(tiles)})
	}
}
