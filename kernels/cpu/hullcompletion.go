// HullCompletion: the triangles between a mesh and the convex hull.

package cpu

import (
	"github.com/polyscan/polyscan/kernels/driver"
)

func hullScratch(op *driver.HullCompletion) int64 { return 8 * (int64(op.Width) + int64(op.Height)) }

// completion is a HullCompletion in progress.
type completion struct {
	*labelled
	out    []driver.Triangle
	found  int // triangles
	chains [4][]uint32
	pace   pace
}

func (d *device) hullCompletion(op *driver.HullCompletion, stop *stopFlag) error {
	c := &completion{labelled: viewLabelled(op.Sites, op.Labels, op.Width, op.Height), pace: newPace(stop),
		out: viewAs[driver.Triangle](op.Triangles)}
	counts := viewAs[driver.MeshCounts](op.Counts)
	c.found = min(int(counts[0].Triangles), len(c.out))
	c.walk(viewAs[uint32](op.Scratch))
	border := c.edges()
	for k := range c.chains {
		if !c.straighten(k) {
			return errAborted
		}
	}
	for k := range c.chains {
		if !c.join(k) {
			return errAborted
		}
	}
	counts[0].Triangles = uint32(c.found)
	counts[0].Border, counts[0].Hull = uint32(border), uint32(c.edges())
	return nil
}

// walk lists the labels along the sides, without repetitions, in the memory.
func (c *completion) walk(memory []uint32) {
	w, h := c.width, c.height
	for k, side := range [4]struct{ from, step, n int }{{0, 1, w}, {w - 1, w, h}, {w*h - 1, -1, w},
		{(h - 1) * w, -w, h}} {
		chain := memory[:0:side.n]
		memory = memory[side.n:]
		for i := range side.n {
			l := c.labels[side.from+i*side.step]
			if c.isSite(l) && (len(chain) == 0 || chain[len(chain)-1] != l) {
				chain = append(chain, l)
			}
		}
		c.chains[k] = chain
	}
}

// edges is how many the ring of chains has.
func (c *completion) edges() (n int) {
	for _, chain := range c.chains {
		n += max(len(chain)-1, 0)
	}
	return n
}

// cut cuts off corners from the end of a chain for as long as a site behind it makes it turn back.
func (c *completion) cut(chain []uint32, next uint32) []uint32 {
	for n := len(chain); n > 1 && orient(c.sites[chain[n-2]], c.sites[chain[n-1]], c.sites[next]) < 0; n-- {
		if c.found < len(c.out) {
			c.out[c.found] = leastFirst(driver.Triangle{A: chain[n-2], B: next, C: chain[n-1]})
			c.found++
		}
		chain = chain[:n-1]
	}
	return chain
}

// straighten makes a chain convex. It returns false where it was told to stop.
func (c *completion) straighten(k int) bool {
	chain := c.chains[k][:0]
	for _, l := range c.chains[k] {
		if chain = append(c.cut(chain, l), l); c.pace.spend(30) {
			return false
		}
	}
	c.chains[k] = chain
	return true
}

// join makes the ring convex where chain k ends. It returns false where it was told to stop.
func (c *completion) join(k int) bool {
	a, b := &c.chains[k], &c.chains[(k+1)%4]
	for len(*b) > 1 {
		next := (*b)[1]
		shorter := c.cut(*a, next)
		if len(shorter) == len(*a) {
			return true
		}
		*a, *b = append(shorter, next), (*b)[1:]
		if c.pace.spend(30) {
			return false
		}
	}
	return true
}
