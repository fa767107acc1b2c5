// The oracle: what mask ops must write, computed slowly and in the plainest way, pixel by pixel from the definitions
// in package driver. It must not share code with a backend.

package devicetest

import (
	"math"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Expected is what the ops of a [Problem] must write.
type Expected struct {
	Stats  []driver.MaskStats // Count*Channels
	Hist   []uint32           // Count*Channels*Levels, or empty
	Mask   []byte             // Width*Height, 0 or 255
	Labels []uint16           // Width*Height
}

// Expect computes all that the ops of p must write.
func (p *Problem) Expect() *Expected {
	e := p.newExpected()
	times := make([]int, p.Height) // how often a row is reduced
	for _, s := range p.Strips {
		for y := s.Row0; y < s.Row0+s.Height; y++ {
			times[y]++
		}
	}
	for i := range p.Count {
		p.eachInside(p.First+i, func(x, y int) {
			e.Mask[y*p.Width+x] = 255
			e.Labels[y*p.Width+x] = uint16(p.First + i + 1)
			for range times[y] {
				p.count(e, i, x, y)
			}
		})
	}
	return e
}

func (p *Problem) newExpected() *Expected {
	n := p.Count * p.channels()
	e := &Expected{
		Stats:  make([]driver.MaskStats, n),
		Mask:   make([]byte, p.Width*p.Height),
		Labels: make([]uint16, p.Width*p.Height),
	}
	for i := range e.Stats {
		e.Stats[i] = driver.EmptyMaskStats
	}
	if p.What&driver.MaskHistogram != 0 {
		e.Hist = make([]uint32, n*p.Format.Levels())
	}
	return e
}

// eachInside calls f for each pixel of region i, in row-major order.
func (p *Problem) eachInside(i int, f func(x, y int)) {
	if r := p.Regions.Regions[i]; r.Fill == driver.ByRuns {
		for _, u := range p.Regions.Runs[r.First : r.First+r.Count] {
			for x := u.X0; x < u.X1; x++ {
				if x >= 0 && int(x) < p.Width && u.Y >= 0 && int(u.Y) < p.Height {
					f(int(x), int(u.Y))
				}
			}
		}
		return
	}
	for y := range p.Height {
		for x, w := range p.windings(i, y) {
			if p.Regions.Regions[i].Fill.Inside(w) {
				f(x, y)
			}
		}
	}
}

// windings returns the winding number of each pixel of row y for region i, or nil where no edge counts for the row and
// all are 0.
func (p *Problem) windings(i, y int) []int32 {
	r := p.Regions.Regions[i]
	yc := int64(y)*driver.Subpixel + driver.Subpixel/2
	var w []int32
	for _, e := range p.Regions.Edges[r.First : r.First+r.Count] {
		if !(min(int64(e.Y0), int64(e.Y1)) <= yc && yc < max(int64(e.Y0), int64(e.Y1))) {
			continue
		}
		sign := int32(-1)
		if e.Y1 > e.Y0 {
			sign = +1
		}
		if w == nil {
			w = make([]int32, p.Width)
		}
		for x := range columnsLeft(e, yc, p.Width) {
			w[x] += sign
		}
	}
	return w
}

// columnsLeft counts the columns of an image whose centres lie strictly left of the point where e crosses the row
// centre yc. The centre of column x is 256x+128, so they are the x >= 0 with x < (crossing-128)/256: as many as the
// ceiling of that.
func columnsLeft(e driver.Edge, yc int64, width int) int {
	// crossing = X0 + (yc-Y0)*(X1-X0)/(Y1-Y0); (crossing-128)/256 = num/den. Differences of coordinates are 2^31 at most
	// and coordinates 2^30, so num is less than 2^63.
	dy := int64(e.Y1) - int64(e.Y0)
	num := (int64(e.X1)-int64(e.X0))*(yc-int64(e.Y0)) + (int64(e.X0)-driver.Subpixel/2)*dy
	den := dy * driver.Subpixel
	if den < 0 {
		num, den = -num, -den
	}
	ceiling := -floorDiv(-num, den)
	return int(min(max(ceiling, 0), int64(width)))
}

// floorDiv is a/b rounded down, for a positive b.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// roundHalfUp is the integer nearest to a/b, and the greater one of two, for a positive b. Twice a and b must fit.
func roundHalfUp(a, b int64) int64 { return floorDiv(2*a+b, 2*b) }

// An area is a set of pixels of rows [row0, row0+rows) of an image.
type area struct {
	width, row0, rows int
	has               []bool
}

func newArea(width, row0, rows int) *area { return &area{width, row0, rows, make([]bool, width*rows)} }

// in reports whether a pixel is in the set, which has none outside of its rows.
func (a *area) in(x, y int) bool {
	return x >= 0 && x < a.width && y >= a.row0 && y < a.row0+a.rows && a.has[(y-a.row0)*a.width+x]
}

func (a *area) put(x, y int) { a.has[(y-a.row0)*a.width+x] = true }

// insideRows is the pixels of region i in rows [row0, row0+rows), as a set and in row-major order.
func (p *Problem) insideRows(i, row0, rows int) (*area, []spot) {
	within := newArea(p.Width, row0, rows)
	var inside []spot
	p.eachInside(i, func(x, y int) {
		if y >= row0 && y < row0+rows {
			inside = append(inside, spot{x, y})
			within.put(x, y)
		}
	})
	return within, inside
}

// sample is channel c of pixel (x, y).
func (p *Problem) sample(x, y, c int) uint32 {
	px := p.Pixels[y*p.Stride+x*p.Format.PixelBytes():]
	if p.Format.SampleBytes == 2 {
		return uint32(px[0]) | uint32(px[1])<<8
	}
	return uint32(px[p.Format.Order[c]])
}

// count counts pixel (x, y) in the i-th of the reduced regions.
func (p *Problem) count(e *Expected, i, x, y int) {
	nc, levels := p.channels(), p.Format.Levels()
	pos := uint32(y*p.Width + x)
	own := int(p.Format.Channels)
	var derived []uint32
	var shifts []uint8
	if p.Colors.Spaces != 0 {
		derived = ColorSamples(p.Colors, byte(p.sample(x, y, 0)), byte(p.sample(x, y, 1)), byte(p.sample(x, y, 2)))
		shifts = p.Colors.Spaces.ColorShifts(nil)
	}
	for c := range nc {
		var v, bin uint32
		if c < own {
			v = p.sample(x, y, c)
			bin = v % uint32(levels)
		} else {
			v = derived[c-own]
			bin = uint32(math.Floor(float64(v)/float64(uint32(1)<<shifts[c-own]) + 0.5))
			if shifts[c-own] == 0 {
				bin = v
			}
		}
		s := &e.Stats[i*nc+c]
		if p.What&driver.MaskExtrema != 0 {
			least, at := s.Min()
			if s.Count == 0 || v < least || v == least && pos < at {
				s.MinKey = uint64(v)<<32 | uint64(pos)
			}
			greatest, at := s.Max()
			if s.Count == 0 || v > greatest || v == greatest && pos < at {
				s.MaxKey = uint64(v)<<32 | uint64(^pos)
			}
		}
		if p.What&driver.MaskMoments != 0 {
			s.SumX += uint64(x)
			s.SumY += uint64(y)
			s.SumVX += uint64(v) * uint64(x)
			s.SumVY += uint64(v) * uint64(y)
		}
		s.Count++
		s.Sum += uint64(v)
		s.SumSq += uint64(v) * uint64(v)
		if p.What&driver.MaskHistogram != 0 {
			e.Hist[(i*nc+c)*levels+int(bin)]++
		}
	}
}
