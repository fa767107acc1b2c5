// DualTriangles: the triangles between the cells of a Voronoi diagram.

package cpu

import (
	"sync/atomic"

	"github.com/polyscan/polyscan/kernels/driver"
)

// dualRows is how many rows of blocks a thread takes at a time.
const dualRows = 16

func dualBands(height int) int { return (height - 1 + dualRows - 1) / dualRows }

func dualTrianglesScratch(op *driver.DualTriangles) int64 { return 4 * int64(dualBands(op.Height)) }

func (d *device) dualTriangles(op *driver.DualTriangles, stop *stopFlag) error {
	v := viewLabelled(op.Sites, op.Labels, op.Width, op.Height)
	out := viewAs[driver.Triangle](op.Triangles)
	counts := viewAs[driver.MeshCounts](op.Counts)
	scratch := view(op.Scratch)
	sites, err := d.countSites(v, stop)
	if err != nil {
		return err
	}
	counts[0] = driver.MeshCounts{Sites: sites}
	bands := dualBands(v.height)
	if bands == 0 {
		return nil
	}
	at := sliceAt[uint32](scratch, 0, bands)
	err = d.longPieces("DualTriangles", bands, stop, func(b int, p *pace) bool {
		n := 0
		for y := b * dualRows; y < min((b+1)*dualRows, v.height-1); y++ {
			for x := range v.width - 1 {
				n += v.block(x, y).triangles(v)
			}
			if p.spend(3 * v.width) {
				return false
			}
		}
		at[b] = uint32(n)
		return true
	})
	if err != nil {
		return err
	}
	sum := uint32(0)
	for b, n := range at {
		at[b] = sum
		sum += n
	}
	counts[0].Triangles = min(sum, uint32(len(out)))
	return d.longPieces("DualTriangles", bands, stop, func(b int, p *pace) bool {
		n := int(at[b])
		add := func(t driver.Triangle) {
			if n < len(out) {
				out[n] = leastFirst(t)
			}
			n++
		}
		for y := b * dualRows; y < min((b+1)*dualRows, v.height-1); y++ {
			for x := range v.width - 1 {
				k := v.block(x, y)
				switch k.triangles(v) {
				case 1:
					add(k.single())
				case 2:
					first, second := v.parted(k)
					add(first)
					add(second)
				}
			}
			if p.spend(4 * v.width) {
				return false
			}
		}
		return true
	})
}

// countSites counts the sites whose pixel has their label.
func (d *device) countSites(v *labelled, stop *stopFlag) (uint32, error) {
	var sites atomic.Uint32
	err := d.pieces("DualTriangles", (len(v.sites)+sortStep-1)/sortStep, stop, func(k int) int {
		n := uint32(0)
		for i := k * sortStep; i < min((k+1)*sortStep, len(v.sites)); i++ {
			s := v.sites[i]
			if s.X >= 0 && int(s.X) < v.width && s.Y >= 0 && int(s.Y) < v.height &&
				v.labels[int(s.Y)*v.width+int(s.X)] == uint32(i) {
				n++
			}
		}
		sites.Add(n)
		return 10 * sortStep
	})
	return sites.Load(), err
}

// block is the labels of 2x2 pixels, clockwise from the top left.
type block [4]uint32

func (v *diagram) block(x, y int) block {
	above, below := v.labels[y*v.width+x:], v.labels[(y+1)*v.width+x:]
	return block{above[0], above[1], below[1], below[0]}
}

// triangles is how many there are.
func (b block) triangles(v *labelled) int {
	if b[0] == b[2] || b[1] == b[3] {
		return 0
	}
	n := 2 // less one for each two neighbours that are the same
	for i, l := range b {
		if !v.isSite(l) {
			return 0
		}
		if l == b[(i+1)%4] {
			n--
		}
	}
	return n
}

// single is the triangle of three labels.
func (b block) single() driver.Triangle {
	switch {
	case b[0] == b[1]:
		return driver.Triangle{A: b[0], B: b[2], C: b[3]}
	case b[1] == b[2]:
		return driver.Triangle{A: b[0], B: b[1], C: b[3]}
	}
	return driver.Triangle{A: b[0], B: b[1], C: b[2]} // the last is the same as one next to it
}

// parted is the triangles of four labels.
func (v *labelled) parted(b block) (first, second driver.Triangle) {
	p, q, r, t := v.sites[b[0]], v.sites[b[1]], v.sites[b[2]], v.sites[b[3]]
	if orient(p, q, t) > 0 && orient(q, r, t) > 0 &&
		(orient(p, q, r) <= 0 || orient(p, r, t) <= 0 || inCircle(p, q, r, t)) {
		return driver.Triangle{A: b[0], B: b[1], C: b[3]}, driver.Triangle{A: b[1], B: b[2], C: b[3]}
	}
	return driver.Triangle{A: b[0], B: b[1], C: b[2]}, driver.Triangle{A: b[0], B: b[2], C: b[3]}
}

// leastFirst turns a triangle so that it starts with its least index.
func leastFirst(t driver.Triangle) driver.Triangle {
	switch {
	case t.B < t.A && t.B <= t.C:
		return driver.Triangle{A: t.B, B: t.C, C: t.A}
	case t.C < t.A:
		return driver.Triangle{A: t.C, B: t.A, C: t.B}
	}
	return t
}
