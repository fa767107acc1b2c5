// Diffusion as in the seed: all pixels at once, again and again, from a better or worse start. diffusion_pass.go has
// the sweeps.

package cpu

import (
	"math"

	"github.com/polyscan/polyscan/kernels/driver"
)

const (
	// sweepsInCycle is a multiple of two passes, so that the image is where it was.
	sweepsInCycle = 64
	// sweepsInCheck are those of a cycle with a threshold: two passes.
	sweepsInCheck = 2 * passSweeps
	// pyramidCycles is how many cycles a level of a pyramid gets at most.
	pyramidCycles = 64
	// pyramidShare is which part of the tolerance a cycle on a level may change before the next level takes over.
	pyramidShare = 4
)

// sweepLevel is an image of a pyramid.
type sweepLevel struct {
	lattice
	walls    bool      // pixels may have closed edges inside of the image
	flags    []byte    // of the image, those of the op
	x, spare []float32 // planes; those of the image itself are the op's
}

// sweeper is the solver.
type sweeper struct {
	dev       *device
	stop      *stopFlag
	head      *solveHeader
	method    driver.DiffusionMethod
	walls     bool
	start     driver.DiffusionStart
	tolerance float32
	threshold float32
	channels  int
	levels    []sweepLevel
	nearest   []uint32 // the fixed pixel nearest to each, for the variable stencil
	stack     []int32
	sites     []driver.Point
	old, rows []float32
	changes   []pieceChange
	weights   [passSweeps]float32 // of the sweeps of a pass
	global    [2]float64          // the global difference of the last sweep, and of the last of the pass before
}

func (a *arena) bytes(n int) []byte {
	at := a.end
	a.floats((n + 3) / 4)
	if a.b == nil {
		return nil
	}
	return a.b[at:][:n]
}

// pyramid reports whether a method has coarse images.
func pyramid(m driver.DiffusionMethod) bool {
	return m == driver.DiffusionPyramidCautious || m == driver.DiffusionPyramidGreedy
}

func laySweeper(a *arena, g driver.DiffusionGrid) *sweeper {
	w, h := g.Width, g.Height
	s := &sweeper{method: g.Method, walls: g.Barriers || g.OneWay, stack: layOut[int32](a, w*h)}
	if g.Method == driver.DiffusionVariableStencil {
		at := a.end
		a.floats(w * h)
		sites := a.end
		a.floats(2 * w * h)
		if a.b != nil {
			s.nearest, s.sites = sliceAt[uint32](a.b, at, w*h), sliceAt[driver.Point](a.b, sites, w*h)
		}
	}
	s.levels = []sweepLevel{{lattice: layLattice(a, w, h)}}
	for pyramid(g.Method) && max(w, h) > 2 {
		w, h = (w+1)/2, (h+1)/2
		s.levels = append(s.levels, sweepLevel{lattice: layLattice(a, w, h), flags: a.bytes(w * h)})
	}
	return s
}

// sweeperState is what a solve keeps.
type sweeperState struct {
	past      []float32 // updates of the last cycles
	peak      []float32 // one: the largest value that there was to begin with
	old, rows []float32
	vectors   []float32 // two of each level but for the first, which has one
}

func laySweeperState(a *arena, g driver.DiffusionGrid, channels int) (s sweeperState) {
	w, h := g.Width, g.Height
	s.past, s.peak = a.floats(pastUpdates), a.floats(1)
	s.old, s.rows = a.floats(channels*w*h), a.floats(channels*h)
	n := w * h
	for pyramid(g.Method) && max(w, h) > 2 {
		w, h = (w+1)/2, (h+1)/2
		n += 2 * w * h
	}
	s.vectors = a.floats(channels * n)
	return s
}

func (s *sweeper) open(state sweeperState, flags []byte, op *driver.DiffusionSolve) {
	s.levels[0].flags = flags
	s.start, s.tolerance, s.threshold, s.channels = op.Start, op.Tolerance, op.Threshold, op.Channels
	s.old, s.rows = state.old, state.rows
	s.weigh(op.Weights())
	v := state.vectors
	for k := range s.levels {
		l := &s.levels[k]
		l.dev, l.stop, l.walls = s.dev, s.stop, s.walls
		n := l.w * l.h * s.channels
		l.spare, v = v[:n], v[n:]
		if k > 0 {
			l.x, v = v[:n], v[n:]
		}
	}
}

// weigh repeats weights to those of a pass.
func (s *sweeper) weigh(weights [8]float32) {
	for t := range s.weights {
		s.weights[t] = weights[t%len(weights)]
	}
}

// setUp computes the levels, and returns how many pixels of the image are void.
func (s *sweeper) setUp(flags []byte) (void int, err error) {
	for k := range s.levels {
		l := &s.levels[k]
		l.dev, l.stop = s.dev, s.stop
		if k > 0 {
			fine := &s.levels[k-1]
			if err := l.coarseFlags(flags, fine.w, fine.h, s.method == driver.DiffusionPyramidGreedy); err != nil {
				return 0, err
			}
			flags = l.flags
		}
		n, err := l.operator(flags, s.stack, s.walls)
		if err != nil {
			return 0, err
		}
		if k == 0 {
			void = n
		}
	}
	if s.nearest == nil {
		return void, nil
	}
	w, h := s.levels[0].w, s.levels[0].h
	v := &diagram{sites: s.sites[:0], width: w, height: h, labels: s.nearest}
	for i, f := range flags {
		if f&driver.DiffusionFixed != 0 {
			v.sites = append(v.sites, driver.Point{X: int32(i % w), Y: int32(i / w)})
		}
	}
	if len(v.sites) == 0 {
		clear(s.nearest) // nobody looks: all pixels are void
		return void, nil
	}
	pace := newPace(s.stop)
	if err := s.dev.voronoiBanding(v, &pace); err != nil {
		return 0, err
	}
	for i, site := range v.labels {
		s.nearest[i] = uint32(v.sites[site].Y)*uint32(w) + uint32(v.sites[site].X)
	}
	return void, nil
}

// coarseFlags makes the flags of a level of those of the one above it. Edges between the pixels of a block don't
// matter, and one closed edge of the two on a side closes that side: otherwise colours would leak.
func (l *sweepLevel) coarseFlags(fine []byte, w, h int, greedy bool) error {
	return l.bands(l.h, 8*l.w, func(y0, y1 int) {
		for y := y0; y < y1; y++ {
			upper := fine[2*y*w:][:w]
			lower := upper
			if 2*y+1 < h {
				lower = fine[(2*y+1)*w:][:w]
			}
			row := l.flags[y*l.w:][:l.w]
			for x := range row {
				i, j := 2*x, min(2*x+1, w-1)
				var of [4]uint8 // of the pixels of the block, left and right above, and below
				pixels := 4
				of[0], of[1], of[2], of[3] = upper[i], upper[j], lower[i], lower[j]
				if i == j {
					of[1], of[3], pixels = 0, 0, pixels/2
				}
				if 2*y+1 == h {
					of[2], of[3], pixels = 0, 0, pixels/2
				}
				if of[0]|of[1]|of[2]|of[3] == 0 {
					row[x] = 0
					continue
				}
				const (
					right = driver.DiffusionShutRight | driver.DiffusionBlockRight
					down  = driver.DiffusionShutDown | driver.DiffusionBlockDown
				)
				f := of[0]&(driver.DiffusionShutLeft|driver.DiffusionShutUp) | of[1]&(right|driver.DiffusionShutUp) |
					of[2]&(driver.DiffusionShutLeft|down) | of[3]&(right|down)
				fixed := 0
				for _, v := range of {
					fixed += int(v & driver.DiffusionFixed)
				}
				if fixed > 0 && (greedy || fixed >= min(pixels, 3)) {
					f |= driver.DiffusionFixed
				}
				row[x] = f
			}
		}
	})
}

// begin gives the image a start from the coarse ones, or from the nearest values, unless it has one.
func (s *sweeper) begin(x []float32) error {
	if s.start == driver.DiffusionFromX {
		return nil
	}
	s.levels[0].x = x
	if s.nearest != nil {
		l := &s.levels[0]
		n := l.w * l.h
		return l.bands(l.h, 3*l.w*s.channels, func(y0, y1 int) {
			for c := range s.channels {
				plane := x[c*n:][:n]
				for i := y0 * l.w; i < y1*l.w; i++ {
					if l.inv[i] != 0 {
						plane[i] = plane[s.nearest[i]]
					}
				}
			}
		})
	}
	for k := 1; k < len(s.levels); k++ {
		if err := s.shrink(k); err != nil {
			return err
		}
	}
	for k := len(s.levels) - 1; k >= 0; k-- {
		l := &s.levels[k]
		if k+1 < len(s.levels) {
			if err := s.grow(k); err != nil {
				return err
			}
		}
		for range pyramidCycles * sweepsInCycle / s.cycleSweeps() {
			if k == 0 {
				break // the cycles do that
			}
			change, err := s.sweeps(l, l.x)
			if err != nil {
				return err
			}
			if s.threshold > 0 && s.settled() || s.threshold == 0 && change <= s.tolerance/pyramidShare {
				break
			}
		}
	}
	return nil
}

// cycleSweeps is how many sweeps a cycle has.
func (s *sweeper) cycleSweeps() int {
	if s.threshold > 0 {
		return sweepsInCheck
	}
	return sweepsInCycle
}

// fall is by how much the global difference goes down from one plain sweep to the next, as the mean of a pass.
func (s *sweeper) fall() float64 {
	sum := 0.0
	for _, w := range s.weights {
		sum += float64(w)
	}
	return math.Abs(s.global[1]-s.global[0]) / sum
}

// settled reports whether the global difference hardly changes any more.
func (s *sweeper) settled() bool { return min(s.fall(), s.global[0]) <= float64(s.threshold) }

// shrink makes the values of level k of those above it: the mean of the fixed pixels where it is fixed, and of all
// elsewhere.
func (s *sweeper) shrink(k int) error {
	fine, l := &s.levels[k-1], &s.levels[k]
	return l.bands(l.h, 8*l.w*s.channels, func(y0, y1 int) {
		for c := range s.channels {
			from, to := fine.x[c*fine.w*fine.h:], l.x[c*l.w*l.h:]
			for y := y0; y < y1; y++ {
				above := 2 * y * fine.w
				for x, f := range l.flags[y*l.w:][:l.w] {
					at := above + 2*x
					if f&driver.DiffusionFixed == 0 && 2*x+1 < fine.w && 2*y+1 < fine.h {
						a, b := from[at:][:2], from[at+fine.w:][:2]
						to[y*l.w+x] = (a[0] + a[1] + b[0] + b[1]) / 4
						continue
					}
					sum, count := float32(0), float32(0)
					for j := 2 * y; j < min(2*y+2, fine.h); j++ {
						for i := 2 * x; i < min(2*x+2, fine.w); i++ {
							at := j*fine.w + i
							if f&driver.DiffusionFixed != 0 && fine.flags[at]&driver.DiffusionFixed == 0 {
								continue
							}
							sum += from[at]
							count++
						}
					}
					to[y*l.w+x] = sum / count
				}
			}
		}
	})
}

// grow gives the pixels of level k that have an equation the values of the one below it.
func (s *sweeper) grow(k int) error {
	l, coarse := &s.levels[k], &s.levels[k+1]
	return l.bands(l.h, 2*l.w*s.channels, func(y0, y1 int) {
		for c := range s.channels {
			for y := y0; y < y1; y++ {
				inv := l.inv[y*l.w:][:l.w]
				to, from := l.x[(c*l.h+y)*l.w:][:l.w], coarse.x[(c*coarse.h+y/2)*coarse.w:][:coarse.w]
				for x, v := range inv {
					if v != 0 {
						to[x] = from[x/2]
					}
				}
			}
		}
	})
}

// cycle sweeps. It returns by how much a pixel has changed at most: with a threshold by the last sweep.
func (s *sweeper) cycle(x []float32) (float32, error) {
	l := &s.levels[0]
	if s.nearest != nil && s.head.Cycles < driver.DiffusionFarCycles {
		return s.farSweeps(l, x, 1/float32(int(1)<<s.head.Cycles))
	}
	return s.sweeps(l, x)
}

// sweeps is a cycle on a level, from x to x. It returns what cycle does, and keeps the global difference.
func (s *sweeper) sweeps(l *sweepLevel, x []float32) (change float32, err error) {
	from, to := x, l.spare
	passes := s.cycleSweeps() / passSweeps
	for k := range passes {
		p := pass{sweeper: s, level: l, from: from, to: to}
		switch {
		case s.threshold > 0:
			p.global = true
		case k == 0:
			p.keep = true
		case k == passes-1:
			p.compare = true
		}
		if change, err = p.run(); err != nil {
			return 0, err
		}
		from, to = to, from
	}
	return change, nil
}

// farSweeps is a cycle of the image with the variable stencil: pixels look as far as scale times the distance to the
// nearest fixed one.
func (s *sweeper) farSweeps(l *sweepLevel, x []float32, scale float32) (float32, error) {
	n := l.w * l.h
	copy(s.old, x)
	from, to := x, l.spare
	for range sweepsInCycle {
		err := l.bands(l.h, 10*l.w*s.channels, func(y0, y1 int) {
			for c := range s.channels {
				a, b := from[c*n:][:n], to[c*n:][:n]
				for i := y0 * l.w; i < y1*l.w; i++ {
					b[i] = a[i]
					if l.inv[i] == 0 {
						continue
					}
					if r := s.reach(l, i, scale); r > 1 {
						b[i] += 0.25 * l.far(a, i, r)
					} else {
						b[i] += l.inv[i] * l.flow(a, i)
					}
				}
			}
		})
		if err != nil {
			return 0, err
		}
		from, to = to, from
	}
	return mostApart(x, s.old), nil
}

// peak is the largest absolute value. Without a sign the bits of floats are ordered as those are.
func peak(a []float32) float32 {
	m := uint32(0)
	for _, v := range a {
		m = max(m, math.Float32bits(v)&^(1<<31))
	}
	return math.Float32frombits(m)
}

// reach is how far pixel i looks: the circle around it holds no fixed pixel.
func (s *sweeper) reach(l *sweepLevel, i int, scale float32) int {
	j := int(s.nearest[i])
	dx, dy := i%l.w-j%l.w, i/l.w-j/l.w
	return int(scale * float32(math.Sqrt(float64(dx*dx+dy*dy))))
}

// far is the sum of the differences to the pixels r away in four directions, with the image mirrored at its border.
func (l *sweepLevel) far(x []float32, i, r int) float32 {
	mirror := func(a, n int) int {
		a = max(a, -a-1)
		return max(min(a, 2*n-1-a), 0)
	}
	px, py := i%l.w, i/l.w
	v := x[i]
	return (x[py*l.w+mirror(px+r, l.w)] - v) + (x[py*l.w+mirror(px-r, l.w)] - v) +
		(x[mirror(py+r, l.h)*l.w+px] - v) + (x[mirror(py-r, l.h)*l.w+px] - v)
}

// residual is the largest one.
func (s *sweeper) residual(x []float32) (float32, error) {
	l := &s.levels[0]
	n := l.w * l.h
	err := l.bands(l.h, 2*l.w*s.channels, func(y0, y1 int) {
		flows := make([]float32, 2*l.w)
		flows, zeros := flows[:l.w], flows[l.w:]
		for y := y0; y < y1; y++ {
			m := float32(0)
			for c := range s.channels {
				row := func(y int) []float32 { y = max(min(y, l.h-1), 0); return x[c*n+y*l.w:][:l.w] }
				rowFlows(flows, row(y-1), row(y), row(y+1), l.open[y*l.w:][:l.w])
				m = max(m, mostApart(flows, zeros))
			}
			s.rows[y] = m
		}
	})
	return largest(s.rows[:l.h]), err
}
