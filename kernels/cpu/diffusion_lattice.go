// The equations of diffusion, pixel by pixel, with or without barriers.

package cpu

import "github.com/polyscan/polyscan/kernels/driver"

// lattice is an image's operator.
type lattice struct {
	dev  *device
	stop *stopFlag
	w, h int
	inv  []float32 // 1/open neighbours; 0 where there is no equation
	e, s []float32 // 1 where the edge to the right and down is open, whether or not there is an equation
}

func layLattice(a *arena, w, h int) lattice {
	n := w * h
	return lattice{w: w, h: h, inv: a.floats(n), e: a.floats(n), s: a.floats(n)}
}

// operator fills in the lattice, and returns how many pixels are void. stack has room for all pixels.
func (g *lattice) operator(flags []byte, stack []int32) (void int, err error) {
	pace := newPace(g.stop)
	w, n := g.w, g.w*g.h
	for i, f := range flags {
		x := i % w
		g.e[i], g.s[i] = 0, 0
		if x+1 < w && f&driver.DiffusionBlockRight == 0 {
			g.e[i] = 1
		}
		if i+w < n && f&driver.DiffusionBlockDown == 0 {
			g.s[i] = 1
		}
		if x == 0 && pace.spend(3*w) {
			return 0, errAborted
		}
	}
	// Pixels that an open path connects with a fixed one, by a search from those.
	reached := g.inv
	stack = stack[:0]
	for i, f := range flags {
		reached[i] = 0
		if f&driver.DiffusionFixed != 0 {
			reached[i] = 1
			stack = append(stack, int32(i))
		}
	}
	for len(stack) > 0 {
		i := int(stack[len(stack)-1])
		stack = stack[:len(stack)-1]
		for _, j := range g.around(i) {
			if j >= 0 && reached[j] == 0 {
				reached[j] = 1
				stack = append(stack, int32(j))
			}
		}
		if pace.spend(10) {
			return 0, errAborted
		}
	}
	for i, f := range flags {
		if reached[i] == 0 {
			void++
			continue
		}
		if g.inv[i] = 0; f&driver.DiffusionFixed != 0 {
			continue
		}
		open := 0
		for _, j := range g.around(i) {
			if j >= 0 {
				open++
			}
		}
		if open > 0 {
			g.inv[i] = 1 / float32(open)
		}
		if i%w == 0 && pace.spend(10*w) {
			return 0, errAborted
		}
	}
	return void, nil
}

// around lists the pixels right of, left of, below and above pixel i across open edges; -1 stands for none.
func (g *lattice) around(i int) [4]int {
	out := [4]int{-1, -1, -1, -1}
	if g.e[i] != 0 {
		out[0] = i + 1
	}
	if i > 0 && g.e[i-1] != 0 { // the last column has no edge to the right
		out[1] = i - 1
	}
	if g.s[i] != 0 {
		out[2] = i + g.w
	}
	if i >= g.w && g.s[i-g.w] != 0 {
		out[3] = i - g.w
	}
	return out
}

func (g *lattice) bands(rows, ns int, f func(from, to int)) error {
	return g.dev.bands("Diffusion", rows, ns, g.stop, f)
}

// flow is the sum of the differences across the open edges of pixel i.
func (g *lattice) flow(x []float32, i int) float32 {
	v := x[i]
	s := float32(0)
	if g.e[i] != 0 {
		s += x[i+1] - v
	}
	if i > 0 && g.e[i-1] != 0 {
		s += x[i-1] - v
	}
	if g.s[i] != 0 {
		s += x[i+g.w] - v
	}
	if i >= g.w && g.s[i-g.w] != 0 {
		s += x[i-g.w] - v
	}
	return s
}
