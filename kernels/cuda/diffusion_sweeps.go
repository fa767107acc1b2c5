//go:build cuda

// Diffusion by the methods of the seed. See diffusion_sweeps.cu.

package cuda

import "github.com/polyscan/polyscan/kernels/driver"

// sweeper has the methods of the seed.
type sweeper struct{}

// sweepsAhead is how many cycles are enqueued before the host looks whether they were enough. They take some tens.
const sweepsAhead = 16

// sweepSetup is a set-up.
type sweepSetup struct {
	head, scratch         uint64 // scratch is a header that nobody reads
	labels, rows, nearest uint64
	levels                []sweepImage // without values; Flags of the first are the op's
}

func pyramid(m driver.DiffusionMethod) bool {
	return m == driver.DiffusionPyramidCautious || m == driver.DiffusionPyramidGreedy
}

func laySweeps(a *arena, g driver.DiffusionGrid) (s sweepSetup) {
	w, h := g.Width, g.Height
	s.head, s.scratch = a.take(diffusionHeaderRoom), a.take(diffusionHeaderRoom)
	s.labels = a.floats(w*h + 1)
	if g.Method == driver.DiffusionVariableStencil {
		s.rows, s.nearest = s.labels, a.floats(w*h)
	}
	s.levels = []sweepImage{{Open: a.take(int64(w * h)), Width: int32(w), Height: int32(h)}}
	for pyramid(g.Method) && max(w, h) > 2 {
		w, h = (w+1)/2, (h+1)/2
		s.levels = append(s.levels, sweepImage{Flags: a.take(int64(w * h)), Open: a.take(int64(w * h)), Width: int32(w),
			Height: int32(h)})
	}
	return s
}

// walls are the grid's, as a set-up keeps them.
func walls(g driver.DiffusionGrid) (n uint32) {
	if g.Barriers {
		n = 1
	}
	if g.OneWay {
		n |= 2
	}
	return n
}

func (l *sweepImage) pixels() int { return int(l.Width) * int(l.Height) }

// tiles is how many diffusion_sweeps_run has of it.
func (l *sweepImage) tiles() int {
	const w, h = sweepWidth, sweepRunThreads / 32 * sweepRows
	if l.Width <= w && l.Height <= h {
		return 1
	}
	return ceilDiv(int(l.Width), w-2*sweepHalo) * ceilDiv(int(l.Height), h-2*sweepHalo)
}

// blocks is how many have a thread for each pixel.
func (l *sweepImage) blocks() int { return (l.pixels() + sweepThreads - 1) / sweepThreads }

func (sweeper) setupBytes(g driver.DiffusionGrid) (int64, error) {
	var a arena
	laySweeps(&a, g)
	return int64(a.end), nil
}

// sweepVectors is a state.
type sweepVectors struct{ state, sums, old, changes uint64 }

// laySweepState gives the levels their values, but for the first one's, which are the op's.
func laySweepState(a *arena, levels []sweepImage, channels int) (v sweepVectors) {
	v.state, v.sums = a.take(sweepStateBytes), a.take(labelSumsBytes)
	v.old = a.floats(channels * levels[0].pixels())
	v.changes = a.take(int64(2 * 8 * channels * levels[0].tiles()))
	for i := range levels {
		n := channels * levels[i].pixels()
		levels[i].Spare = a.floats(n)
		if i > 0 {
			levels[i].X = a.floats(n)
		}
	}
	return v
}

func (sweeper) stateBytes(g driver.DiffusionGrid, channels int) (int64, error) {
	var setup, a arena
	laySweepState(&a, laySweeps(&setup, g).levels, channels)
	return int64(a.end), nil
}

func (sweeper) setUp(s *stream, op *diffusionSetup) error {
	m := laySweeps(&arena{op.Dst}, op.DiffusionGrid)
	w, h := int32(op.Width), int32(op.Height)
	if err := s.label(op, m.head, m.labels, m.levels[0].Open); err != nil {
		return err
	}
	if m.nearest != 0 {
		if err := sweepsColumns.launch(s, (op.Width+sweepThreads-1)/sweepThreads, 1, sweepThreads, 0,
			&sweepsColumnsParams{Flags: op.Flags, Rows: m.rows, Width: w, Height: h}); err != nil {
			return err
		}
		if err := sweepsNearest.launch(s, m.levels[0].blocks(), 1, sweepThreads, 0,
			&sweepsNearestParams{Rows: m.rows, Nearest: m.nearest, Width: w, Height: h}); err != nil {
			return err
		}
	}
	fine := sweepImage{Flags: op.Flags, Width: w, Height: h}
	for _, l := range m.levels[1:] {
		p := sweepsFlagsParams{Fine: fine.Flags, To: l.Flags, FineWidth: fine.Width, FineHeight: fine.Height,
			Width: l.Width, Height: l.Height}
		if op.Method == driver.DiffusionPyramidGreedy {
			p.Greedy = 1
		}
		if err := sweepsFlags.launch(s, l.blocks(), 1, sweepThreads, 0, &p); err != nil {
			return err
		}
		part := diffusionSetup{DiffusionGrid: op.DiffusionGrid, Flags: l.Flags}
		part.Width, part.Height = int(l.Width), int(l.Height)
		if err := s.label(&part, m.scratch, m.labels, l.Open); err != nil {
			return err
		}
		fine = l
	}
	return sweepsFinish.launch(s, 1, 1, 1, 0, &sweepsFinishParams{
		Head: m.head, Counts: op.Counts, Width: uint32(w), Height: uint32(h), Walls: walls(op.DiffusionGrid),
		Method: uint32(op.Method),
	})
}

func (sweeper) solve(s *stream, op *diffusionSolve) error {
	m := laySweeps(&arena{op.Setup}, op.DiffusionGrid)
	v := laySweepState(&arena{op.State}, m.levels, op.Channels)
	m.levels[0].X, m.levels[0].Flags = op.X, op.Flags
	c := sweepCycle{s: s, channels: op.Channels, levels: m.levels, p: sweepSolve{
		Head: m.head, State: v.state, Status: op.Status, Nearest: m.nearest, Old: v.old, Sums: v.changes,
		Fault: s.faultAt(), Channels: uint32(op.Channels), Start: uint32(op.Start), Method: uint32(op.Method),
		Walls: walls(op.DiffusionGrid), Tolerance: op.Tolerance, Threshold: op.Threshold,
		Levels: uint32(len(m.levels)), Cycles: uint32(op.Cycles), Weights: op.Weights,
	}}
	image := &c.levels[0]
	c.image(sweepsBegin, 1, 1)
	if op.Start != driver.DiffusionContinue && c.err == nil {
		c.err = s.fillIn(op, m.head, v.state+stateDone, image.Open, v.sums)
		c.image(sweepsPeak, image.blocks(), sweepThreads)
	}
	cycles := op.Cycles
	if op.Start == driver.DiffusionFromMean {
		if m.nearest != 0 {
			c.image(sweepsSpread, image.blocks(), sweepThreads)
		}
		cycles += c.shrink()
	}
	if c.err == nil {
		c.err = s.repeat(cycles, sweepsAhead, v.state+stateDone, func() error {
			if m.nearest != 0 {
				c.far()
				c.one(sweepsStep)
			} else {
				c.run()
			}
			return c.err
		})
	}
	c.image(sweepsLast, image.blocks(), sweepThreads)
	c.one(sweepsStatus)
	return c.err
}

// sweepCycle enqueues kernels until one fails.
type sweepCycle struct {
	s        *stream
	channels int
	levels   []sweepImage
	p        sweepSolve
	err      error
}

func (c *sweepCycle) one(k kernelFor[sweepSolve]) {
	if c.err == nil {
		c.err = k.launch(c.s, 1, 1, 1, 0, &c.p)
	}
}

// image enqueues a kernel for the image itself.
func (c *sweepCycle) image(k kernelFor[sweepsBeginParams], blocks, threads int) {
	if c.err == nil {
		c.err = k.launch(c.s, blocks, 1, threads, 0, &sweepsBeginParams{S: c.p, L: c.levels[0]})
	}
}

// shrink gives the images of a pyramid but for the first their values, and says how many cycles they may take.
func (c *sweepCycle) shrink() int {
	for k := 1; k < len(c.levels) && c.err == nil; k++ {
		c.err = sweepsShrink.launch(c.s, c.levels[k].blocks(), 1, sweepThreads, 0,
			&sweepsShrinkParams{S: c.p, Fine: c.levels[k-1], L: c.levels[k]})
	}
	return (len(c.levels) - 1) * pyramidSweeps / c.sweeps()
}

// sweeps are those of a cycle.
func (c *sweepCycle) sweeps() int {
	if c.p.Threshold > 0 {
		return sweepsInCheck
	}
	return sweepsInCycle
}

// run is a cycle of the image that is at work, of the image itself in the end.
func (c *sweepCycle) run() {
	p := sweepsRunParams{S: c.p, Passes: uint32(c.sweeps() / sweepHalo)}
	copy(p.P.At[:], c.levels)
	for ; p.Pass < p.Passes && c.err == nil; p.Pass++ {
		c.err = sweepsRun.launch(c.s, c.levels[0].tiles(), c.channels, sweepRunThreads, 0, &p)
	}
}

// far is a cycle of the image with the variable stencil.
func (c *sweepCycle) far() {
	l := &c.levels[0]
	p := sweepsFarParams{S: c.p, L: *l, From: l.X, To: l.Spare, First: 1}
	for i := range sweepsInCycle {
		if i == sweepsInCycle-1 {
			p.Last = 1
		}
		if c.err == nil {
			c.err = sweepsFar.launch(c.s, l.blocks(), 1, sweepThreads, 0, &p)
		}
		p.From, p.To, p.First = p.To, p.From, 0
	}
}
