// Sweeps of diffusion: several at a time over a part of an image that fits in the caches.

package cpu

import (
	"math"
	"sync"
)

const (
	// passSweeps is how many sweeps a pass has: what is read and written of an image is read and written once.
	passSweeps = 16
	// tileColumns are those of a part at most, so that sweepRows stays in the nearest cache.
	tileColumns = 176
	// bandRows are those of a part at most, where an image has so many that all threads have some.
	bandRows  = 128
	leastBand = 16 // so that small images have something for all threads
	ringPad   = 16
	ringRow   = tileColumns + 2*passSweeps + 2*ringPad
	rowSlots  = 2*passSweeps + 3
)

// sweepRows has the rows of a part that are under way, from ringPad on. Left and right of each is a copy of the first
// and the last pixel: no difference to them.
type sweepRows struct {
	// x has row y after t sweeps at y-t, where the row above it was before the last of them, which nothing needs any
	// more.
	x    [rowSlots][ringRow]float32
	inv  [passSweeps + 1][ringRow]float32 // row y of the level at y; what is behind a row has no equation
	open [passSweeps + 1][ringRow]uint8
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

// run returns the largest change, where something is to be compared.
func (p *pass) run() (most float32, err error) {
	l := p.level
	tiles := (l.w + tileColumns - 1) / tileColumns
	band := min(max(l.h/8, leastBand), bandRows)
	bands := (l.h + band - 1) / band
	n := tiles * bands * p.channels
	if cap(p.changes) < n {
		p.changes = make([]pieceChange, n)
	}
	changes := p.changes[:n]
	err = p.dev.pieces("DiffusionSolve", n, p.stop, func(i int) int {
		c, y0, x0, x1 := i/tiles/bands, i/tiles%bands*band, i%tiles*l.w/tiles, (i%tiles+1)*l.w/tiles
		y1 := min(y0+band, l.h)
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
	for top := max(y0-passSweeps, 0); top < min(y1+passSweeps, h)+passSweeps; top++ {
		for t := range passSweeps + 1 {
			y := top - t
			left := passSweeps - t // sweeps
			if y < max(y0-left, 0) || y >= min(y1+left, h) {
				continue
			}
			dst := rows.row(y, t)
			inv, open := &rows.inv[y%len(rows.inv)], &rows.open[y%len(rows.open)]
			if t == 0 {
				copy(dst[ringPad:], from[y*w+a:][:n])
				clear(inv[copy(inv[:], l.inv[y*w+a:][:n]):])
				if l.walls {
					copy(open[:], l.open[y*w+a:][:n])
				}
				if p.keep && y >= y0 && y < y1 {
					copy(old[y*w+x0:][:x1-x0], from[y*w+x0:])
				}
			} else {
				sweepRow(dst, rows.row(max(y-1, 0), t-1), rows.row(y, t-1), rows.row(min(y+1, h-1), t-1), inv, open, n,
					l.walls)
			}
			dst[ringPad-1], dst[ringPad+n] = dst[ringPad], dst[ringPad+n-1]
			if t < passSweeps {
				continue
			}
			at := ringPad + x0 - a
			row := dst[at:][:x1-x0]
			copy(to[y*w+x0:], row)
			switch {
			case p.global:
				sum, most := apartBy(row, rows.row(y, t-1)[at:])
				change.sum += float64(sum)
				change.most = max(change.most, most)
			case p.compare:
				change.most = max(change.most, mostApart(row, old[y*w+x0:]))
			}
		}
	}
	return change
}

// sweepRowGo replaces each of the n pixels of a row by the mean of what it takes from, as inv and open say of it; dst
// and the rows of the image before begin at ringPad. Without walls all edges are open that lead to another pixel, and
// there is one that is the same in the place of others. dst may be up.
func sweepRowGo(dst, up, x, down, inv *[ringRow]float32, open *[ringRow]uint8, n int, walls bool) {
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
		dst[at] = v + float32(part*(right+left+below+above))
	}
}

// apartLanes is how many sums apartBy keeps, so that all instructions give the same.
const apartLanes = 16

// apartByGo is apartBy for the values from one on, on top of what there is.
func apartByGo(sums, most *[apartLanes]float32, a, b []float32) {
	for i, v := range a {
		d := math.Float32frombits(math.Float32bits(v-b[i]) &^ (1 << 31))
		sums[i%apartLanes] += d
		most[i%apartLanes] = max(most[i%apartLanes], d)
	}
}

// apartBy returns the sum of the distances between values, and the largest one. b may be longer than a.
func apartBy(a, b []float32) (sum, most float32) {
	var s, m [apartLanes]float32
	n := apartBySIMD(&s, &m, a, b)
	apartByGo(&s, &m, a[n:], b[n:len(a)])
	for k := range s {
		sum += s[k]
		most = max(most, m[k])
	}
	return sum, most
}

// mostApart is the largest distance between values.
func mostApart(a, b []float32) float32 {
	_, most := apartBy(a, b)
	return most
}
