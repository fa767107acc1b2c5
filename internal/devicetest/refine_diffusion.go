// The oracle of diffusion for images that are too large for the other: multigrid in double precision.

package devicetest

import (
	"math"
	"runtime"
	"sync"

	"github.com/polyscan/polyscan/kernels/driver"
)

// refineLevel is a level of [Scene.Refine]: points in row-major order with two of nothing around, their operator, and
// how each is interpolated from the level below.
type refineLevel struct {
	w, h, stride int
	c            [9][]float64 // couplings with the neighbours, in the order of rows; the fifth is the point's own
	p            [4][]float64 // weights of the points at half the place, right of it, below, and diagonally below
	x, b         []float64
}

func newRefineLevel(w, h int) *refineLevel {
	l := &refineLevel{w: w, h: h, stride: w + 4}
	for _, v := range []*[]float64{&l.x, &l.b, &l.p[0], &l.p[1], &l.p[2], &l.p[3], &l.c[0], &l.c[1], &l.c[2], &l.c[3],
		&l.c[4], &l.c[5], &l.c[6], &l.c[7], &l.c[8]} {
		*v = make([]float64, l.stride*(h+4))
	}
	return l
}

func (l *refineLevel) at(x, y int) int { return (y+2)*l.stride + x + 2 }

// step is how far neighbour k is.
func (l *refineLevel) step(k int) int { return (k/3-1)*l.stride + k%3 - 1 }

// rows calls f for every n-th row from first on, by all threads.
func (l *refineLevel) rows(first, n int, f func(y int)) {
	var all sync.WaitGroup
	threads := runtime.GOMAXPROCS(0)
	for t := range threads {
		all.Go(func() {
			for y := first + n*t; y < l.h; y += n * threads {
				f(y)
			}
		})
	}
	all.Wait()
}

// residual at a point.
func (l *refineLevel) residual(i int) float64 {
	if l.c[4][i] == 0 {
		return 0
	}
	r := l.b[i]
	for k := range l.c {
		r -= l.c[k][i] * l.x[i+l.step(k)]
	}
	return r
}

func (l *refineLevel) sweep(colours ...int) {
	for _, c := range colours {
		l.rows(c/2, 2, func(y int) {
			for x := c % 2; x < l.w; x += 2 {
				if i := l.at(x, y); l.c[4][i] != 0 {
					l.x[i] += l.residual(i) / l.c[4][i]
				}
			}
		})
	}
}

// interpolate computes the weights, as black box multigrid does.
func (l *refineLevel) interpolate() {
	sum := func(i int, of ...int) (s float64) {
		for _, k := range of {
			s -= l.c[k][i]
		}
		return s
	}
	for _, centres := range []bool{false, true} {
		l.rows(0, 1, func(y int) {
			for x := range l.w {
				i := l.at(x, y)
				d := l.c[4][i]
				switch {
				case d == 0 || centres != (x%2 == 1 && y%2 == 1):
				case x%2 == 0 && y%2 == 0:
					l.p[0][i] = 1
				case centres: // from what is around them, which no thread writes any more
					for k, n := range [4][3]int{{0, 1, 3}, {2, 1, 5}, {6, 7, 3}, {8, 7, 5}} {
						v := -l.c[n[0]][i]
						v -= l.c[n[1]][i] * l.p[k%2][i+l.step(n[1])]   // above or below
						v -= l.c[n[2]][i] * l.p[k/2*2][i+l.step(n[2])] // at a side
						l.p[k][i] = v / d
					}
				case x%2 == 1:
					if d -= sum(i, 1, 7); d > 1e-12 {
						l.p[0][i], l.p[1][i] = sum(i, 0, 3, 6)/d, sum(i, 2, 5, 8)/d
					}
				default:
					if d -= sum(i, 3, 5); d > 1e-12 {
						l.p[0][i], l.p[2][i] = sum(i, 0, 1, 2)/d, sum(i, 6, 7, 8)/d
					}
				}
			}
		})
	}
}

// coarsen makes the level below, by Galerkin's rule.
func (l *refineLevel) coarsen() *refineLevel {
	g := newRefineLevel((l.w+1)/2, (l.h+1)/2)
	g.rows(0, 1, func(y int) {
		for x := range g.w {
			to := g.at(x, y)
			l.parents(x, y, func(fx, fy, i int, weight float64) {
				for k := range l.c {
					a := weight * l.c[k][i]
					if a == 0 {
						continue
					}
					nx, ny := fx+k%3-1, fy+k/3-1
					for q := range l.p {
						if v := l.p[q][l.at(nx, ny)]; v != 0 {
							g.c[(ny>>1+q/2-y+1)*3+nx>>1+q%2-x+1][to] += a * v
						}
					}
				}
			})
			if g.c[4][to] < 1e-12 {
				for k := range g.c {
					g.c[k][to] = 0
				}
			}
		}
	})
	return g
}

// parents calls f for the points that are interpolated from point (x, y) of the level below.
func (l *refineLevel) parents(x, y int, f func(fx, fy, i int, weight float64)) {
	for k := range 9 {
		fx, fy := 2*x+k%3-1, 2*y+k/3-1
		if fx < 0 || fy < 0 || fx >= l.w || fy >= l.h {
			continue
		}
		i := l.at(fx, fy)
		if v := l.p[x-fx>>1+2*(y-fy>>1)][i]; v != 0 {
			f(fx, fy, i, v)
		}
	}
}

// refineCycle is a V-cycle on the first level; the rest are those below it.
func refineCycle(levels []*refineLevel) {
	l := levels[0]
	if len(levels) == 1 {
		for range 50 {
			l.sweep(0, 1, 2, 3)
			l.sweep(3, 2, 1, 0)
		}
		return
	}
	g := levels[1]
	l.sweep(0, 1, 2, 3, 0, 1, 2, 3)
	g.rows(0, 1, func(y int) {
		for x := range g.w {
			to := g.at(x, y)
			g.x[to], g.b[to] = 0, 0
			l.parents(x, y, func(_, _, i int, weight float64) { g.b[to] += weight * l.residual(i) })
		}
	})
	refineCycle(levels[1:])
	l.rows(0, 1, func(y int) {
		for x := range l.w {
			i, from := l.at(x, y), g.at(x>>1, y>>1)
			l.x[i] += l.p[0][i]*g.x[from] + l.p[1][i]*g.x[from+1] + l.p[2][i]*g.x[from+g.stride] +
				l.p[3][i]*g.x[from+g.stride+1]
		}
	})
	l.sweep(3, 2, 1, 0, 3, 2, 1, 0)
}

// Refine returns the exact solution of a scene without barriers, given one that is near it: by multigrid in double
// precision, until a cycle changes nothing by more than 1e-7. [Scene.Exact] does without both; this one is for images
// whose sides have thousands of pixels.
func (s *Scene) Refine(near []float32) []float64 {
	n := s.Width * s.Height
	out := make([]float64, len(near))
	l := newRefineLevel(s.Width, s.Height)
	neighbours := func(x, y int, f func(k, j int)) {
		for _, k := range [...]int{1, 3, 5, 7} {
			if nx, ny := x+k%3-1, y+k/3-1; nx >= 0 && ny >= 0 && nx < s.Width && ny < s.Height {
				f(k, ny*s.Width+nx)
			}
		}
	}
	fixed := func(j int) bool { return s.Flags[j]&driver.DiffusionFixed != 0 }
	l.rows(0, 1, func(y int) {
		for x := range s.Width {
			if i := l.at(x, y); !fixed(y*s.Width + x) {
				neighbours(x, y, func(k, j int) {
					l.c[4][i]++
					if !fixed(j) {
						l.c[k][i] = -1
					}
				})
			}
		}
	})
	levels := []*refineLevel{l}
	for g := l; g.w > 2 || g.h > 2; levels = append(levels, g) {
		g.interpolate()
		g = g.coarsen()
	}
	for c := range s.Channels {
		l.rows(0, 1, func(y int) {
			for x := range s.Width {
				i, j := l.at(x, y), y*s.Width+x
				l.x[i], l.b[i] = 0, 0
				if !fixed(j) {
					l.x[i] = float64(near[c*n+j])
					neighbours(x, y, func(_, j int) {
						if fixed(j) {
							l.b[i] += float64(s.Colours[c*n+j])
						}
					})
				}
			}
		})
		old := make([]float64, len(l.x))
		for range 30 {
			copy(old, l.x)
			refineCycle(levels)
			most := 0.0
			for i, v := range l.x {
				most = max(most, math.Abs(v-old[i]))
			}
			if most <= 1e-7 {
				break
			}
		}
		for j := range n {
			out[c*n+j] = l.x[l.at(j%s.Width, j/s.Width)]
			if fixed(j) {
				out[c*n+j] = float64(s.Colours[c*n+j])
			}
		}
	}
	return out
}
