// Black box multigrid: levels of an image in which little has changed, such as one curve of a drawing.

package cpu

import (
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// boxReach is how many columns and rows of a level away from a point the equations can be that the next level's
// equation of this point is made of. It is what the cells right and left of the point, and those above, contribute:
// points of the cell at column X are interpolated by the equations of columns 2X-1 to 2X+3, of the cell left of it from
// 2X-3 on.
const boxReach = 3

// renewShare is which part of a level's points may have changed, at most, for it to be cheaper to compute those alone:
// what points get from others is computed twice then.
const renewShare = 3

// boxMarks are points of a level.
type boxMarks struct {
	w, h int
	on   []bool
	n    int // how many
}

func newBoxMarks(l *boxLevel) boxMarks { return boxMarks{w: l.w, h: l.h, on: make([]bool, l.w*l.h)} }

// add marks what depends on the equations of the points up to so many from point (x, y) of the level above.
func (m *boxMarks) add(x, y, around int) {
	around += boxReach
	x0, x1 := max((x-around+1)>>1, 0), min((x+around)>>1, m.w-1)
	for Y := max((y-around+1)>>1, 0); Y <= min((y+around)>>1, m.h-1); Y++ {
		row := m.on[Y*m.w:]
		for X := x0; X <= x1; X++ {
			if !row[X] {
				row[X] = true
				m.n++
			}
		}
	}
}

// runs yields the marked points of a row, those less than two apart in one run.
func (m *boxMarks) runs(y int, f func(boxRun)) {
	if y < 0 || y >= m.h {
		return
	}
	row := m.on[y*m.w:][:m.w]
	for x := 0; x < m.w; {
		first := slices.Index(row[x:], true)
		if first < 0 {
			return
		}
		first += x
		for x = first + 1; x < m.w && (row[x] || x+1 < m.w && row[x+1]); x++ {
		}
		f(boxRun{y, first, x})
	}
}

// renew makes the levels of other flags those of flags: the same, to the bit, as setUp does, where both have fixed
// pixels.
func (b *box) renew(flags []byte) error {
	if len(b.levels) == 0 {
		return b.setUp(flags, false)
	}
	marks := newBoxMarks(&b.levels[0])
	pace := newPace(b.stop)
	for y := range b.h {
		inv := b.inv[y*b.w:][:b.w]
		for x, f := range flags[y*b.w:][:b.w] {
			fixed := f&driver.DiffusionFixed != 0
			if fixed == (inv[x] == 0) {
				continue
			}
			if inv[x] = 0; !fixed {
				inv[x] = b.invFinest(x, y)
			}
			marks.add(x, y, 1)
		}
		if pace.spend(b.w) {
			return errAborted
		}
	}
	for k := range b.levels {
		if marks.n*renewShare > len(marks.on) {
			return b.setUpLevels(k, flags)
		}
		if err := b.renewLevel(k, flags, &marks); err != nil {
			return err
		}
		if k+1 == len(b.levels) {
			break
		}
		next := newBoxMarks(&b.levels[k+1])
		for y := range marks.h {
			marks.runs(y, func(r boxRun) {
				for x := r.x0; x < r.x1; x++ {
					next.add(x, y, 0)
				}
			})
		}
		marks = next
	}
	b.levels[len(b.levels)-1].invertWhole(b.inverse)
	return nil
}

// renewLevel computes the marked points of a level.
func (b *box) renewLevel(k int, flags []byte, marks *boxMarks) error {
	l := &b.levels[k]
	ns := 20 * l.w
	for _, f := range [...]func(r boxRun){
		func(r boxRun) { b.fineRows(k, flags, r.y, r.y+1, r.x0, r.x1, l.interpolateEdges) },
		func(r boxRun) { b.fineRows(k, flags, r.y, r.y+1, r.x0, r.x1, l.interpolateCentres) },
		func(r boxRun) { b.renewRun(k, flags, r) },
	} {
		if err := b.bands(l.h, ns, func(from, to int) {
			for y := from; y < to; y++ {
				marks.runs(y, f)
			}
		}); err != nil {
			return err
		}
	}
	return b.bands(l.h, ns, func(from, to int) {
		for y := from; y < to; y++ {
			for _, of := range [...]int{y - 1, y, y + 1} { // those that have a coupling with one that is marked
				marks.runs(of, func(r boxRun) { l.invert(boxRun{y, max(r.x0-1, 0), min(r.x1+1, l.w)}) })
			}
		}
	})
}

// renewRun computes the operator's points of a run.
func (b *box) renewRun(k int, flags []byte, r boxRun) {
	l := &b.levels[k]
	memory, sums := l.spareRow()
	defer rowMemory.Put(memory)
	others, spare := l.spareRow()
	defer rowMemory.Put(others)
	b.fineRows(k, flags, max(r.y-1, 0), r.y+1, max(r.x0-1, 0), r.x1, func(at boxRun, up, row, down *boxRow) {
		if at.y == r.y {
			l.galerkin(at, up, row, down, sums, spare)
		} else {
			l.galerkin(at, up, row, down, spare, sums)
		}
	})
	to := l.row(r.y)
	copy(to.e[r.x0+1:r.x1+1], sums.e[r.x0+1:])
	copy(to.s[r.x0+1:r.x1+1], sums.s[r.x0+1:])
	copy(to.se[r.x0+1:r.x1+1], sums.se[r.x0+1:])
	copy(to.sw[r.x0+1:r.x1+1], sums.sw[r.x0+1:])
	copy(to.sink[r.x0+1:r.x1+1], sums.sink[r.x0+1:])
}
