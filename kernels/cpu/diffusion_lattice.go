// The equations of diffusion, pixel by pixel, with or without barriers.

package cpu

import (
	"math/bits"
	"sync/atomic"

	"github.com/polyscan/polyscan/kernels/driver"
)

// What a pixel that has an equation takes from.
const (
	openRight = 1 << iota
	openLeft
	openDown
	openUp
)

// lattice is an image's operator.
type lattice struct {
	dev  *device
	stop *stopFlag
	w, h int
	inv  []float32 // 1/open neighbours; 0 where there is no equation
	open []uint8   // which those are; 0 where there is no equation
}

func layLattice(a *arena, w, h int) lattice {
	return lattice{w: w, h: h, inv: a.floats(w * h), open: a.bytes(w * h)}
}

// openEdges is what pixel i takes from, whatever those are.
func openEdges(flags []byte, i, w int) (open uint8) {
	f := flags[i]
	x := i % w
	if x+1 < w && f&(driver.DiffusionBlockRight|driver.DiffusionShutRight) == 0 {
		open |= openRight
	}
	if x > 0 && flags[i-1]&driver.DiffusionBlockRight == 0 && f&driver.DiffusionShutLeft == 0 {
		open |= openLeft
	}
	if i+w < len(flags) && f&(driver.DiffusionBlockDown|driver.DiffusionShutDown) == 0 {
		open |= openDown
	}
	if i >= w && flags[i-w]&driver.DiffusionBlockDown == 0 && f&driver.DiffusionShutUp == 0 {
		open |= openUp
	}
	return open
}

// beside lists the pixels right of, left of, below and above pixel i, of which it says which are meant; -1 stands for
// others.
func (g *lattice) beside(i int, which uint8) [4]int {
	out := [4]int{-1, -1, -1, -1}
	if which&openRight != 0 {
		out[0] = i + 1
	}
	if which&openLeft != 0 {
		out[1] = i - 1
	}
	if which&openDown != 0 {
		out[2] = i + g.w
	}
	if which&openUp != 0 {
		out[3] = i - g.w
	}
	return out
}

// around lists the pixels that i takes from.
func (g *lattice) around(i int) [4]int { return g.beside(i, g.open[i]) }

// operator fills in the lattice, and returns how many pixels are void. walls is whether flags may close edges. stack
// has room for all pixels.
func (g *lattice) operator(flags []byte, stack []int32, walls bool) (void int, err error) {
	if !walls {
		return g.openOperator(flags)
	}
	w, n := g.w, g.w*g.h
	const unreached = -1
	reached := g.inv
	if err := g.bands(g.h, 5*w, func(y0, y1 int) {
		for i := y0 * w; i < y1*w; i++ {
			if flags[i]&driver.DiffusionFixed != 0 {
				g.open[i], reached[i] = 0, 0
			} else {
				g.open[i], reached[i] = openEdges(flags, i, w), unreached
			}
		}
	}); err != nil {
		return 0, err
	}
	// A search from fixed pixels for those that take from them, and so on.
	pace := newPace(g.stop)
	for y := range g.h {
		for i := y * w; i < (y+1)*w; i++ {
			if reached[i] != 0 {
				continue
			}
			stack = append(stack[:0], int32(i))
			for len(stack) > 0 {
				i := int(stack[len(stack)-1])
				stack = stack[:len(stack)-1]
				x := i % w
				if j := i + 1; x+1 < w && reached[j] == unreached && g.open[j]&openLeft != 0 {
					reached[j] = 1
					stack = append(stack, int32(j))
				}
				if j := i - 1; x > 0 && reached[j] == unreached && g.open[j]&openRight != 0 {
					reached[j] = 1
					stack = append(stack, int32(j))
				}
				if j := i + w; j < n && reached[j] == unreached && g.open[j]&openUp != 0 {
					reached[j] = 1
					stack = append(stack, int32(j))
				}
				if j := i - w; j >= 0 && reached[j] == unreached && g.open[j]&openDown != 0 {
					reached[j] = 1
					stack = append(stack, int32(j))
				}
				if pace.spend(10) {
					return 0, errAborted
				}
			}
		}
		if pace.spend(w) {
			return 0, errAborted
		}
	}
	// Nothing is taken from void pixels, which only edges that are open one way lead to.
	var count atomic.Int64
	if err := g.bands(g.h, 8*w, func(y0, y1 int) {
		void := 0
		for i := y0 * w; i < y1*w; i++ {
			if reached[i] == unreached {
				void++
				g.open[i] = 0
				continue
			}
			for k, j := range g.around(i) {
				if j >= 0 && reached[j] == unreached {
					g.open[i] &^= 1 << k
				}
			}
		}
		count.Add(int64(void))
	}); err != nil {
		return 0, err
	}
	err = g.bands(g.h, 2*w, func(y0, y1 int) {
		for i := y0 * w; i < y1*w; i++ {
			if g.inv[i] = 0; g.open[i] != 0 {
				g.inv[i] = 1 / float32(bits.OnesCount8(g.open[i]))
			}
		}
	})
	return int(count.Load()), err
}

// openOperator is operator where no edge is closed: one fixed pixel reaches all.
func (g *lattice) openOperator(flags []byte) (void int, err error) {
	w := g.w
	var fixed atomic.Int64
	if err := g.bands(g.h, w, func(y0, y1 int) {
		n := 0
		for _, f := range flags[y0*w : y1*w] {
			n += int(f & driver.DiffusionFixed)
		}
		fixed.Add(int64(n))
	}); err != nil {
		return 0, err
	}
	if fixed.Load() == 0 {
		void = w * g.h
	}
	return void, g.bands(g.h, 2*w, func(y0, y1 int) {
		for y := y0; y < y1; y++ {
			open, inv := g.open[y*w:][:w], g.inv[y*w:][:w]
			vertical := uint8(0)
			if y > 0 {
				vertical |= openUp
			}
			if y+1 < g.h {
				vertical |= openDown
			}
			for x, f := range flags[y*w:][:w] {
				o := vertical | openLeft | openRight
				if x == 0 {
					o &^= openLeft
				}
				if x == w-1 {
					o &^= openRight
				}
				if f&driver.DiffusionFixed != 0 || void > 0 {
					o = 0
				}
				if open[x], inv[x] = o, 0; o != 0 {
					inv[x] = 1 / float32(bits.OnesCount8(o))
				}
			}
		}
	})
}

func (g *lattice) bands(rows, ns int, f func(from, to int)) error {
	return g.dev.bands("Diffusion", rows, ns, g.stop, f)
}

// flow is the sum of the differences between what pixel i takes from and itself.
func (g *lattice) flow(x []float32, i int) float32 {
	v := x[i]
	s := float32(0)
	open := g.open[i]
	if open&openRight != 0 {
		s += x[i+1] - v
	}
	if open&openLeft != 0 {
		s += x[i-1] - v
	}
	if open&openDown != 0 {
		s += x[i+g.w] - v
	}
	if open&openUp != 0 {
		s += x[i-g.w] - v
	}
	return s
}
