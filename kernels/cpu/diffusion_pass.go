// Sweeps of diffusion: several at a time over a part of an image that fits in the caches.

package cpu

import (
	"math"
	"sync"
)

const (
	// passSweeps is how many sweeps a pass has: what is read and written of an image is read and written once.
	passSweeps = 16
	// tileColumns are those of a part at most, so that the rows of sweepRows, 27 kB, stay in the nearest cache, and that
	// they are whole vectors.
	tileColumns = 128
	// bandRows are those of a part at most, where an image has so many that all threads have some.
	bandRows  = 256
	leastBand = 16
	// leastParts are those of an image at least, where it has rows for them, so that all threads have some.
	leastParts = 24
	ringPad    = 16
	ringRow    = tileColumns + 2*passSweeps + 2*ringPad
	rowSlots   = 2*passSweeps + 3
	invSlots   = passSweeps + 2
	// rowsAhead is how many rows early the memory of an image is asked for: it takes some 100 ns to come, and a row some
	// 300 ns to pass through all sweeps. To ask for what is written, too, takes 3 % longer.
	rowsAhead = 2
)

// sweepRows has the rows of a part that are under way, from ringPad on. Left and right of each is a copy of the first
// and the last pixel: no difference to them.
type sweepRows struct {
	// x has row y after t sweeps at y-t, where the row above it was before the last of them, which nothing needs any
	// more.
	x    [rowSlots][ringRow]float32
	inv  [invSlots][ringRow]float32 // row y of the level at y; what is behind a row has no equation
	open [invSlots][ringRow]uint8

	last [ringRow]float32 // with pairs of rows, the first of a pair before its last sweep
}

func (r *sweepRows) row(y, t int) *[ringRow]float32 { return &r.x[(y-t+rowSlots)%rowSlots] }

var sweepMemory = sync.Pool{New: func() any { return new(sweepRows) }}

// pass is some sweeps of a level, all channels.
type pass struct {
	*sweeper
	level    *sweepLevel
	from, to []float32
	keep     bool // from in old
	compare  bool // to with old
	global   bool // to with the image one sweep before
}

// pieceChange is what a part says of how much was changed.
type pieceChange struct {
	sum  float64
	most float32
}

// run returns the largest change, where something is to be compared. The global difference is a sum over parts in
// order, and parts depend on the image alone: it is the same with any number of threads and any instructions.
func (p *pass) run() (most float32, err error) {
	l := p.level
	tiles := (l.w + tileColumns - 1) / tileColumns
	// Rows beyond a part are computed with it, so parts are as high as they can be while each thread has some.
	bands := max(1, min(leastParts/(tiles*p.channels), l.h/leastBand), (l.h+bandRows-1)/bandRows)
	n := tiles * bands * p.channels
	if cap(p.changes) < n {
		p.changes = make([]pieceChange, n)
	}
	changes := p.changes[:n]
	err = p.dev.pieces("DiffusionSolve", n, p.stop, func(i int) int {
		// The channels of a part one after another: they have its equations in common.
		c, tile, band := i%p.channels, i/p.channels%tiles, i/p.channels/tiles
		x0, x1 := tile*l.w/tiles, (tile+1)*l.w/tiles
		y0, y1 := band*l.h/bands, (band+1)*l.h/bands
		changes[i] = p.part(c, x0, x1, y0, y1)
		return (x1 - x0) * (y1 - y0) * passSweeps / 4
	})
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, c := range changes {
		sum += c.sum
		most = max(most, c.most)
	}
	if p.global {
		p.sweeper.global = [2]float64{sum, p.sweeper.global[0]}
	}
	return most, nil
}

// part computes the pixels from (x0, y0) to before (x1, y1) of a channel. It goes down once: below each row of a sweep
// come those of the sweeps after it, a row higher each. What lies within passSweeps pixels of the part it computes for
// itself, further out by one pixel from sweep to sweep wrongly, which reaches no pixel of the part.
func (p *pass) part(c, x0, x1, y0, y1 int) (change pieceChange) {
	l := p.level
	w, h := l.w, l.h
	a, b := max(x0-passSweeps, 0), min(x1+passSweeps, w)
	n := b - a
	from, to := p.from[c*w*h:][:w*h], p.to[c*w*h:][:w*h]
	old := p.old[c*w*h:]
	rows := sweepMemory.Get().(*sweepRows)
	defer sweepMemory.Put(rows)
	bottom := min(y1+passSweeps, h) // of the rows that are read
	at := ringPad + x0 - a
	var changes lanes
	step := 1
	if sweepsInPairs() && !l.walls {
		step = 2
	}
	for top := max(y0-passSweeps, 0); top < y1+passSweeps; top += step {
		for y := top; y < min(top+step, bottom); y++ {
			first, equations := rows.row(y, 0), y%invSlots
			inv := &rows.inv[equations]
			copy(first[ringPad:], from[y*w+a:][:n])
			clear(inv[copy(inv[:], l.inv[y*w+a:][:n]):])
			if l.walls {
				copy(rows.open[equations][:], l.open[y*w+a:][:n])
			}
			if p.keep && y >= y0 && y < y1 {
				copy(old[y*w+x0:][:x1-x0], from[y*w+x0:])
			}
			if next := y + rowsAhead; next < bottom {
				fetch(from[next*w+a:][:n])
				fetch(l.inv[next*w+a:][:n])
			}
			first[ringPad-1], first[ringPad+n] = first[ringPad], first[ringPad+n-1]
		}
		lowest := top + step - 1
		least, last := max(1, top-h+1), min(passSweeps, lowest, (lowest-y0+passSweeps)/2)
		if step == 2 {
			p.sweepPairs(rows, top, least, last, a, n)
		} else {
			p.sweepEach(rows, top, least, last, a, n)
		}
		for y := max(top-passSweeps, y0); y < min(lowest-passSweeps+1, y1); y++ {
			row, before := rows.row(y, passSweeps)[at:][:x1-x0], rows.row(y, passSweeps-1)[at:]
			if y < lowest-passSweeps { // the other of its pair took the place
				before = rows.last[at:]
			}
			switch {
			case p.global:
				changes.add(row, before)
				if y%passSweeps == 0 { // before lanes of float32 grow large
					changes.into(&change)
				}
			case p.compare:
				changes.add(row, old[y*w+x0:])
			}
			copy(to[y*w+x0:], row)
		}
	}
	changes.into(&change)
	return change
}

// sweepEach computes row top-t after t sweeps, for t from least to last, where pixels from a on are n of a row.
func (p *pass) sweepEach(rows *sweepRows, top, least, last, a, n int) {
	for t := least; t <= last; t++ {
		p.sweepOne(rows, top-t, t, a, n)
	}
}

// sweepOne computes row y after t sweeps. It is where the row above it was before, and the rows that it is made of
// besides are in the next two slots.
func (p *pass) sweepOne(rows *sweepRows, y, t, a, n int) {
	l := p.level
	dst, x, down := rows.row(y, t), rows.row(y, t-1), rows.row(y+1, t-1)
	up := dst
	if y == 0 {
		up = x
	}
	if y == l.h-1 {
		down = x
	}
	sweepRow(dst, up, x, down, &rows.inv[y%invSlots], &rows.open[y%invSlots], n, p.weights[t-1], l.walls)
	if a == 0 {
		dst[ringPad-1] = dst[ringPad]
	}
	if a+n == l.w {
		dst[ringPad+n] = dst[ringPad+n-1]
	}
}

// sweepPairs computes rows top-t and top-t+1 after t sweeps, for t from least to last. Rows of the image's border,
// which have no row above or below them, go one by one.
func (p *pass) sweepPairs(rows *sweepRows, top, least, last, a, n int) {
	h := p.level.h
	for t := least; t <= last; {
		y := top - t
		if t == passSweeps && y >= 0 {
			rows.last = *rows.row(y, t-1)
		}
		if y > 0 && y+1 < h-1 {
			until := min(last, passSweeps-1, top-1)
			if t == passSweeps {
				until = t
			}
			sweepPairs(rows, y, t, p.weights[t-1:until], n)
			t = until + 1
			continue
		}
		if y >= 0 {
			p.sweepOne(rows, y, t, a, n)
		}
		if y+1 < h {
			p.sweepOne(rows, y+1, t, a, n)
		}
		t++
	}
}

// sweepRowGo adds to each of the n pixels of a row weight times what takes it to the mean of its neighbours, as inv and
// open say of it; dst and the rows of the image before begin at ringPad. Without walls all edges are open that lead to
// another pixel, and there is one that is the same in the place of others; with walls the weight is 1. dst may be up.
func sweepRowGo(dst, up, x, down, inv *[ringRow]float32, open *[ringRow]uint8, n int, weight float32, walls bool) {
	for i, part := range inv[:n] {
		at := i + ringPad
		v := x[at]
		right, left, below, above := x[at+1]-v, x[at-1]-v, down[at]-v, up[at]-v
		if walls {
			o := open[i]
			if o&openRight == 0 {
				right = 0
			}
			if o&openLeft == 0 {
				left = 0
			}
			if o&openDown == 0 {
				below = 0
			}
			if o&openUp == 0 {
				above = 0
			}
		}
		dst[at] = v + float32(part*float32(weight*(right+left+below+above)))
	}
}

// apartLanes is how many sums there are, so that all instructions give the same.
const apartLanes = 16

// lanes is how far values are from others: lane k has those whose index is k, modulo their number.
type lanes struct{ sums, most [apartLanes]float32 }

// add adds values. b may be longer than a.
func (l *lanes) add(a, b []float32) {
	n := apartBySIMD(&l.sums, &l.most, a, b)
	if rest := a[n:]; simd >= levelAVX2 && len(rest) > 0 { // zeros are no distance
		var ends [2][apartLanes]float32
		copy(ends[0][:], rest)
		copy(ends[1][:], b[n:len(a)])
		apartBySIMD(&l.sums, &l.most, ends[0][:], ends[1][:])
	} else {
		apartByGo(&l.sums, &l.most, rest, b[n:len(a)])
	}
}

// into adds what there is to what a part says, and begins anew.
func (l *lanes) into(c *pieceChange) {
	sum := float32(0)
	for k := range l.sums {
		sum += l.sums[k]
		c.most = max(c.most, l.most[k])
	}
	c.sum += float64(sum)
	*l = lanes{}
}

// apartByGo adds the distances between values to what there is.
func apartByGo(sums, most *[apartLanes]float32, a, b []float32) {
	for i, v := range a {
		d := math.Float32frombits(math.Float32bits(v-b[i]) &^ (1 << 31))
		sums[i%apartLanes] += d
		most[i%apartLanes] = max(most[i%apartLanes], d)
	}
}

// mostApart is the largest distance between values.
func mostApart(a, b []float32) float32 {
	var l lanes
	var c pieceChange
	l.add(a, b)
	l.into(&c)
	return c.most
}
