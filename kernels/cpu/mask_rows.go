// Row spans by crossings: each edge yields the column at which it crosses each row's centre line, by an integer DDA; the
// crossings of a row are sorted and the winding number swept over them.

package cpu

import (
	"math/bits"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// rowScratch holds the crossings of a band of rows.
type rowScratch struct {
	ends  []int32  // by row of the part: crossings up to and including it, then where to put the next one
	base  []int32  // by row: winding number left of all columns, then up to which it is known
	keys  []uint32 // crossings by row: column<<1 | 1 where the sign is +1
	delta []int32  // by column, zero between uses
	set   []uint64 // bit by column, zero between uses
}

// bandKeys bounds how many crossings are held at a time, unless a single row has more: 1 MiB.
const bandKeys = 1 << 18

func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

func findByRows(sc *scratch, w *spanWriter, edges []driver.Edge, fill driver.FillRule, width, lo, hi int, stop *stopFlag) error {
	s := &sc.rows
	rows := hi - lo
	s.ends = grow(s.ends, rows+1)
	s.base = grow(s.base, rows+1)
	clear(s.ends)
	clear(s.base)
	// With sums over rows, an edge that can't cross inside costs O(1), wherever it is.
	for i := range edges {
		e := edges[i]
		r0, r1 := rowRange(e, lo, hi)
		if r0 >= r1 {
			continue
		}
		k0, k1 := columnRange(e)
		if k1 <= 0 {
			continue // left of all pixels
		}
		sign := int32(1)
		if e.Y1 < e.Y0 {
			sign = -1
		}
		s.base[r0-lo] += sign
		s.base[r1-lo] -= sign
		if k0 < width {
			s.ends[r0-lo]++
			s.ends[r1-lo]--
		}
	}
	// The sums can exceed 31 bits over all rows, but not in a row: there are fewer edges than that.
	var live, wind int32
	for r := range rows {
		live += s.ends[r]
		wind += s.base[r]
		s.ends[r], s.base[r] = live, wind
	}
	for b0 := 0; b0 < rows; {
		if stop.Load() {
			return errAborted
		}
		// A band: as many rows as fit, at least one.
		n, b1 := 0, b0
		for ; b1 < rows && (b1 == b0 || n+int(s.ends[b1]) <= bandKeys); b1++ {
			c := int(s.ends[b1])
			s.ends[b1] = int32(n)
			n += c
		}
		s.keys = grow(s.keys, n)
		for i := range edges {
			if i&0xffff == 0xffff && stop.Load() {
				return errAborted
			}
			s.cross(edges[i], width, lo, lo+b0, lo+b1)
		}
		from := int32(0)
		for r := b0; r < b1; r++ {
			to := s.ends[r] // cross has moved it to the end of the row's crossings
			if !s.sweep(w, s.keys[from:to], s.base[r], fill, width, int32(lo+r)) {
				return errOpen
			}
			from = to
		}
		b0 = b1
	}
	return nil
}

// cross puts the crossings of an edge with rows [b0, b1) at the places that ends has for them.
//
// In row r, whose centre is y, the edge counts for the columns whose centre lies left of the crossing: the k columns
// from 0, with k the ceiling of (N - 128 D) / (256 D), where D = |y1-y0| and N/D is the crossing's x. From row to row
// N grows by 256 dx, so k grows by the floor q of dx/D or by one more, when the remainder has been used up:
// left = 256 D k - (N - 128 D) stays in [0, 256 D). With |coordinates| <= 2^30 all of it fits in 63 bits.
func (s *rowScratch) cross(e driver.Edge, width, lo, b0, b1 int) {
	r0, r1 := rowRange(e, b0, b1)
	if r0 >= r1 {
		return
	}
	k0, k1 := columnRange(e)
	if k1 <= 0 || k0 >= width {
		return
	}
	xa, ya, xb, yb := int64(e.X0), int64(e.Y0), int64(e.X1), int64(e.Y1)
	sign := uint32(1)
	if ya > yb {
		xa, ya, xb, yb = xb, yb, xa, ya
		sign = 0
	}
	d, dx := yb-ya, xb-xa
	den := d << driver.SubpixelBits
	num := xa*d + (int64(r0)*driver.Subpixel+driver.Subpixel/2-ya)*dx - d*(driver.Subpixel/2)
	k := ceilDiv(num, den)
	left := k*den - num
	q := floorDiv(dx, d)
	rest := (dx - q*d) << driver.SubpixelBits
	for r := r0 - lo; r < r1-lo; r++ {
		at := s.ends[r]
		s.keys[at] = uint32(min(max(k, 0), int64(width)))<<1 | sign
		s.ends[r] = at + 1
		k += q
		left -= rest
		if left < 0 {
			left += den
			k++
		}
	}
}

func floorDiv(a, b int64) int64 { // b > 0
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func ceilDiv(a, b int64) int64 { // b > 0
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}

// sweep writes the spans of a row. wind is the number of crossings, with sign, that lie right of column 0's centre.
func (s *rowScratch) sweep(w *spanWriter, keys []uint32, wind int32, fill driver.FillRule, width int, y int32) bool {
	n := len(keys)
	switch {
	case n <= 24:
		for i := 1; i < n; i++ {
			k, j := keys[i], i
			for ; j > 0 && keys[j-1] > k; j-- {
				keys[j] = keys[j-1]
			}
			keys[j] = k
		}
	case n < width>>9:
		slices.Sort(keys)
	default:
		return s.sweepDense(w, keys, wind, fill, width, y)
	}
	inside := fill.Inside(wind)
	start := uint32(0)
	for i := 0; i < n; {
		k := keys[i] >> 1
		for ; i < n && keys[i]>>1 == k; i++ {
			wind += 1 - int32(keys[i]&1)<<1
		}
		if now := fill.Inside(wind); now != inside {
			if now {
				start = k
			} else if k > start && !w.put(y, int32(start), int32(k)) {
				return false
			}
			inside = now
		}
	}
	if inside && start < uint32(width) {
		return w.put(y, int32(start), int32(width))
	}
	return true
}

// sweepDense adds the signs up by column and visits the columns in order: for rows with so many crossings that
// sorting would take longer than going through the bits of a row.
func (s *rowScratch) sweepDense(w *spanWriter, keys []uint32, wind int32, fill driver.FillRule, width int, y int32) bool {
	if len(s.delta) < width+1 {
		s.delta = make([]int32, width+1)
		s.set = make([]uint64, width/64+1)
	}
	for _, key := range keys {
		k := key >> 1
		s.delta[k] += 1 - int32(key&1)<<1
		s.set[k/64] |= 1 << (k % 64)
	}
	inside := fill.Inside(wind)
	start := int32(0)
	ok := true
	for i := range s.set[:width/64+1] {
		word := s.set[i]
		s.set[i] = 0
		for ; word != 0; word &= word - 1 {
			k := int32(i*64 + bits.TrailingZeros64(word))
			wind += s.delta[k]
			s.delta[k] = 0
			if now := fill.Inside(wind); now != inside {
				if now {
					start = k
				} else if k > start {
					ok = ok && w.put(y, start, k)
				}
				inside = now
			}
		}
	}
	if inside && start < int32(width) {
		ok = ok && w.put(y, start, int32(width))
	}
	return ok
}
