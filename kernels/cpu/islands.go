// Islands: cells of one piece.

package cpu

import (
	"sync/atomic"

	"github.com/polyscan/polyscan/kernels/driver"
)

// islandsScratch has room for all pixels: any may have to be given away.
func islandsScratch(op *driver.Islands) int64 { return 4 * int64(op.Width) * int64(op.Height) }

// labelled is a Voronoi diagram that others made, and so may have labels that are no index.
type labelled struct{ diagram }

func viewLabelled(sites, labels driver.Slice, width, height int) *labelled {
	return &labelled{diagram{viewAs[driver.Point](sites), width, height, viewAs[uint32](labels)}}
}

func (v *labelled) isSite(label uint32) bool { return uint64(label) < uint64(len(v.sites)) }

// given marks labels that were given in the current round.
const given = 1 << 31 // more than driver.MaxPoints

func (d *device) islands(op *driver.Islands, stop *stopFlag) error {
	v := viewLabelled(op.Sites, op.Labels, op.Width, op.Height)
	count := viewAs[uint32](op.Count)
	scratch := view(op.Scratch)
	list := sliceAt[uint32](scratch, 0, len(v.labels))
	var found atomic.Uint32
	err := d.longPieces("Islands", v.height, stop, func(y int, p *pace) bool {
		row := v.row(y)
		for x := range row {
			if !v.held(x, y) {
				list[found.Add(1)-1] = uint32(y*v.width + x)
			}
		}
		return !p.spend(3 * v.width)
	})
	if err != nil {
		return err
	}
	p := newPace(stop)
	n, ok := v.strand(list, int(found.Load()), &p)
	if !ok {
		return errAborted
	}
	count[0] = uint32(n)
	if !v.adopt(list[:n], &p) {
		return errAborted
	}
	return nil
}

// held reports whether a pixel is its site's own, or has a neighbour with the same label that is nearer to the site.
func (v *labelled) held(x, y int) bool {
	l := v.labels[y*v.width+x]
	if !v.isSite(l) {
		return false
	}
	s := v.sites[l]
	// Towards the site, by columns and rows: each step that is one leads nearer. One of these pixels has the label
	// nearly always, so that all of them are looked at only then.
	i, j := x+sign(int(s.X)-x), y+sign(int(s.Y)-y)
	if i == x && j == y {
		return true
	}
	if i >= 0 && i < v.width && j >= 0 && j < v.height &&
		(v.labels[j*v.width+i] == l || i != x && v.labels[y*v.width+i] == l || j != y && v.labels[j*v.width+x] == l) {
		return true
	}
	d := v.distance(l, x, y)
	for q := range v.around(x, y) {
		if v.labels[q] == l && v.distance(l, q%v.width, q/v.width) < d {
			return true
		}
	}
	return false
}

func sign(d int) int {
	switch {
	case d > 0:
		return 1
	case d < 0:
		return -1
	}
	return 0
}

// around yields the pixels next to one.
func (v *diagram) around(x, y int) func(yield func(p int) bool) {
	return func(yield func(p int) bool) {
		for j := max(y-1, 0); j <= min(y+1, v.height-1); j++ {
			for i := max(x-1, 0); i <= min(x+1, v.width-1); i++ {
				if (i != x || j != y) && !yield(j*v.width+i) {
					return
				}
			}
		}
	}
}

// strand takes the label from the first n pixels of the list, which are not held, and from those that only they held,
// which it adds to the list. The order of the list doesn't matter. ok is false where it was told to stop.
func (v *labelled) strand(list []uint32, n int, pace *pace) (found int, ok bool) {
	for _, p := range list[:n] {
		if v.labels[p] = driver.NoSite; pace.spend(5) {
			return 0, false
		}
	}
	for k := 0; k < n; k++ {
		for q := range v.around(int(list[k])%v.width, int(list[k])/v.width) {
			if v.labels[q] != driver.NoSite && !v.held(q%v.width, q/v.width) {
				v.labels[q] = driver.NoSite
				list[n] = uint32(q)
				n++
			}
		}
		if pace.spend(200) {
			return 0, false
		}
	}
	return n, true
}

// adopt gives labels to the pixels of the list, which have none. It returns false where it was told to stop.
func (v *labelled) adopt(list []uint32, pace *pace) bool {
	for len(list) > 0 {
		for _, p := range list {
			x, y := int(p)%v.width, int(p)/v.width
			best, least := uint32(driver.NoSite), int64(0)
			for q := range v.around(x, y) {
				l := v.labels[q]
				if !v.isSite(l) {
					continue
				}
				if d := v.distance(l, x, y); best == driver.NoSite || d < least || d == least && l < best {
					best, least = l, d
				}
			}
			if best != driver.NoSite {
				v.labels[p] = best | given
			}
			if pace.spend(100) {
				return false
			}
		}
		left := list[:0]
		for _, p := range list {
			if v.labels[p] == driver.NoSite {
				left = append(left, p)
			} else {
				v.labels[p] &^= given
			}
			if pace.spend(5) {
				return false
			}
		}
		if len(left) == len(list) {
			return true // no pixel has a label
		}
		list = left
	}
	return true
}
