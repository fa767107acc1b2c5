// Diffusion as in the seed: all pixels at once, again and again, from a better or worse start.

package cpu

import (
	"math"

	"github.com/polyscan/polyscan/kernels/driver"
)

const (
	// sweepsInCycle is even, so that the image is where it was.
	sweepsInCycle = 64
	// pyramidCycles is how many cycles a level of a pyramid gets at most.
	pyramidCycles = 64
	// pyramidShare is which part of the tolerance a cycle on a level may change before the next level takes over.
	pyramidShare = 4
)

// sweepLevel is an image of a pyramid.
type sweepLevel struct {
	lattice
	flags    []byte    // of the image, those of the op
	x, spare []float32 // planes; those of the image itself are the op's
}

// sweeper is the solver.
type sweeper struct {
	dev       *device
	stop      *stopFlag
	head      *solveHeader
	method    driver.DiffusionMethod
	start     driver.DiffusionStart
	tolerance float32
	channels  int
	levels    []sweepLevel
	nearest   []uint32 // the fixed pixel nearest to each, for the variable stencil
	stack     []int32
	sites     []driver.Point
	old, rows []float32
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
	s := &sweeper{method: g.Method, stack: layOut[int32](a, w*h)}
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
	s.start, s.tolerance, s.channels = op.Start, op.Tolerance, op.Channels
	s.old, s.rows = state.old, state.rows
	v := state.vectors
	for k := range s.levels {
		l := &s.levels[k]
		l.dev, l.stop = s.dev, s.stop
		n := l.w * l.h * s.channels
		l.spare, v = v[:n], v[n:]
		if k > 0 {
			l.x, v = v[:n], v[n:]
		}
	}
}

// setUp computes the levels, and returns how many pixels of the image are void.
func (s *sweeper) setUp(flags []byte) (void int, err error) {
	for k := range s.levels {
		l := &s.levels[k]
		l.dev, l.stop = s.dev, s.stop
		if k > 0 {
			fine := &s.levels[k-1]
			if l.coarseFlags(flags, fine.w, fine.h, s.method == driver.DiffusionPyramidGreedy); s.stop.Load() {
				return 0, errAborted
			}
			flags = l.flags
		}
		n, err := l.operator(flags, s.stack)
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
func (l *sweepLevel) coarseFlags(fine []byte, w, h int, greedy bool) {
	for y := range l.h {
		for x := range l.w {
			pixels, fixed := 0, 0
			closed := uint8(0)
			for j := 2 * y; j < min(2*y+2, h); j++ {
				for i := 2 * x; i < min(2*x+2, w); i++ {
					f := fine[j*w+i]
					pixels++
					if f&driver.DiffusionFixed != 0 {
						fixed++
					}
					outward := driver.DiffusionShutLeft
					if i > 2*x {
						outward = driver.DiffusionShutRight | driver.DiffusionBlockRight
					}
					if j == 2*y {
						outward |= driver.DiffusionShutUp
					} else {
						outward |= driver.DiffusionShutDown | driver.DiffusionBlockDown
					}
					closed |= f & outward
				}
			}
			f := closed
			if greedy && fixed > 0 || fixed > 0 && fixed >= min(pixels, 3) {
				f |= driver.DiffusionFixed
			}
			l.flags[y*l.w+x] = f
		}
	}
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
		s.shrink(k)
	}
	for k := len(s.levels) - 1; k >= 0; k-- {
		l := &s.levels[k]
		if k+1 < len(s.levels) {
			s.grow(k)
		}
		for range pyramidCycles {
			if k == 0 {
				break // the cycles do that
			}
			copy(s.old, l.x)
			if err := s.sweeps(l, l.x, 1); err != nil {
				return err
			}
			if change(l.x, s.old[:len(l.x)]) <= s.tolerance/pyramidShare {
				break
			}
		}
	}
	return nil
}

// shrink makes the values of level k of those above it: the mean of the fixed pixels where it is fixed, and of all
// elsewhere.
func (s *sweeper) shrink(k int) {
	fine, l := &s.levels[k-1], &s.levels[k]
	for c := range s.channels {
		from, to := fine.x[c*fine.w*fine.h:], l.x[c*l.w*l.h:]
		for y := range l.h {
			for x := range l.w {
				fixed := l.flags[y*l.w+x]&driver.DiffusionFixed != 0
				sum, count := float32(0), float32(0)
				for j := 2 * y; j < min(2*y+2, fine.h); j++ {
					for i := 2 * x; i < min(2*x+2, fine.w); i++ {
						at := j*fine.w + i
						if fixed && fine.flags[at]&driver.DiffusionFixed == 0 {
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
}

// grow gives the pixels of level k that have an equation the values of the one below it.
func (s *sweeper) grow(k int) {
	l, coarse := &s.levels[k], &s.levels[k+1]
	for c := range s.channels {
		to, from := l.x[c*l.w*l.h:], coarse.x[c*coarse.w*coarse.h:]
		for i := range l.w * l.h {
			if l.inv[i] != 0 {
				to[i] = from[i/l.w/2*coarse.w+i%l.w/2]
			}
		}
	}
}

// cycle sweeps. It returns by how much a pixel has changed at most.
func (s *sweeper) cycle(x []float32) (float32, error) {
	copy(s.old, x)
	scale := float32(0)
	if s.nearest != nil && s.head.Cycles < driver.DiffusionFarCycles {
		scale = 1 / float32(int(1)<<s.head.Cycles)
	}
	if err := s.sweeps(&s.levels[0], x, scale); err != nil {
		return 0, err
	}
	return change(x, s.old), nil
}

func change(a, b []float32) (m float32) {
	for i, v := range a {
		v -= b[i]
		m = max(m, v, -v)
	}
	return m
}

// peak is the largest absolute value.
func peak(a []float32) (m float32) {
	for _, v := range a {
		m = max(m, v, -v)
	}
	return m
}

// sweeps is a cycle on a level. With the variable stencil pixels look as far as scale times the distance to the nearest
// fixed one.
func (s *sweeper) sweeps(l *sweepLevel, x []float32, scale float32) error {
	n := l.w * l.h
	from, to := x, l.spare
	for range sweepsInCycle {
		err := l.bands(l.h, 5*l.w*s.channels, func(y0, y1 int) {
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
			return err
		}
		from, to = to, from
	}
	return nil
}

// reach is how far pixel i looks: the circle around it holds no fixed pixel.
func (s *sweeper) reach(l *sweepLevel, i int, scale float32) int {
	if s.nearest == nil || scale == 0 {
		return 1
	}
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
	err := l.bands(l.h, 5*l.w*s.channels, func(y0, y1 int) {
		for y := y0; y < y1; y++ {
			m := float32(0)
			for c := range s.channels {
				for i := y * l.w; i < (y+1)*l.w; i++ {
					if l.inv[i] != 0 {
						r := l.flow(x[c*n:][:n], i)
						m = max(m, r, -r)
					}
				}
			}
			s.rows[y] = m
		}
	})
	return largest(s.rows[:l.h]), err
}
