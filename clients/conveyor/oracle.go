package main

// The oracle: what a part's numbers and verdict must be, from the pixels that the camera sent. It shares nothing with
// the server: every pixel centre is held against every edge's crossing, in integers.

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/polyscan/polyscan/clients"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// shape is a region as spans of pixels.
type shape struct {
	name   string
	rows   []shapeRow // of the part, those with spans, from top to bottom
	y0, y1 int        // the rows that it needs
	area   float64
	inside uint64 // pixels of the region, in the part or not
	limits []limit
}

type shapeRow struct {
	y     int
	spans [][2]int // half-open, within the part
}

// oracle knows the regions of a part. Its methods may be called from several goroutines.
type oracle struct {
	belt   *belt
	lines  int
	shapes []shape
	needed [][2]int // rows that any region needs, merged

	mu    sync.Mutex
	known map[string][]regionNumbers
}

// maxKnown bounds how many different parts are remembered.
const maxKnown = 64

// newOracle prepares the regions. It is an error where it could not check what the server will say.
func newOracle(b *belt, lines int, regions []*polyscanv1.Region) (*oracle, error) {
	o := &oracle{belt: b, lines: lines, known: map[string][]regionNumbers{}}
	for _, g := range regions {
		s, err := newShape(g, b.width, lines)
		if err != nil {
			return nil, fmt.Errorf("region %q: %w", g.GetName(), err)
		}
		o.shapes = append(o.shapes, s)
		if s.y1 > s.y0 {
			o.needed = append(o.needed, [2]int{s.y0, s.y1})
		}
	}
	slices.SortFunc(o.needed, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
	merged := o.needed[:0]
	for _, r := range o.needed {
		if n := len(merged); n > 0 && r[0] <= merged[n-1][1] {
			merged[n-1][1] = max(merged[n-1][1], r[1])
			continue
		}
		merged = append(merged, r)
	}
	o.needed = merged
	return o, nil
}

// crossing is where an edge passes a row.
type crossing struct {
	// x is the first column whose centre is not strictly left of the crossing.
	x   int
	dir int
}

// newShape finds the pixels of a region by the crossing rule.
func newShape(g *polyscanv1.Region, width, lines int) (shape, error) {
	s := shape{name: g.GetName()}
	if text := g.GetShape(); text != "" {
		return s, fmt.Errorf("its pixels can't be checked here: it is made of others (%q)", text)
	}
	type point struct{ x, y int64 } // in 1/256 px
	type edge struct{ a, b point }
	var edges []edge
	var area int64
	top, bottom := int64(math.MaxInt64), int64(math.MinInt64)
	for _, ring := range g.GetRings() {
		xy := ring.GetXy()
		if len(xy) < 6 || len(xy)%2 != 0 {
			return s, errors.New("a ring takes three vertices")
		}
		pts := make([]point, len(xy)/2)
		for i := range pts {
			pts[i] = point{int64(math.RoundToEven(xy[2*i] * 256)), int64(math.RoundToEven(xy[2*i+1] * 256))}
			top, bottom = min(top, pts[i].y), max(bottom, pts[i].y)
		}
		for i, a := range pts {
			b := pts[(i+1)%len(pts)]
			area += a.x*b.y - b.x*a.y
			edges = append(edges, edge{a, b})
		}
	}
	s.area = math.Abs(float64(area)) / 2 / 65536
	evenOdd := g.GetFillRule() == polyscanv1.FillRule_FILL_RULE_EVEN_ODD
	first, last := int(floorDiv(top, 256))-1, int(floorDiv(bottom, 256))+1
	if len(edges) == 0 { // a mask
		first, last = 0, -1
	}
	for y := first; y <= last; y++ {
		yc := int64(y)*256 + 128
		var cross []crossing
		for _, e := range edges {
			if min(e.a.y, e.b.y) > yc || yc >= max(e.a.y, e.b.y) {
				continue
			}
			// The crossing is at e.a.x + n/d. Centre i is strictly left of it when 256*i+128 < that.
			n, d := (yc-e.a.y)*(e.b.x-e.a.x), e.b.y-e.a.y
			dir := 1
			if d < 0 {
				n, d, dir = -n, -d, -1
			}
			// i < (e.a.x*d + n - 128*d) / (256*d)
			num, den := e.a.x*d+n-128*d, 256*d
			cross = append(cross, crossing{int(-floorDiv(-num, den)), dir})
		}
		slices.SortFunc(cross, func(a, b crossing) int { return cmp.Compare(a.x, b.x) })
		// From the left: all crossings are to the right of the first pixels, and go one by one.
		winding := 0
		for _, c := range cross {
			winding += c.dir
		}
		row := shapeRow{y: y}
		for i, c := range cross {
			winding -= c.dir
			if i+1 == len(cross) {
				break
			}
			in := winding != 0
			if evenOdd {
				in = (len(cross)-1-i)%2 != 0
			}
			x0, x1 := c.x, cross[i+1].x
			if !in || x0 >= x1 {
				continue
			}
			s.inside += uint64(x1 - x0)
			x0, x1 = max(x0, 0), min(x1, width)
			if x0 >= x1 || y < 0 || y >= lines {
				continue
			}
			if n := len(row.spans); n > 0 && row.spans[n-1][1] == x0 {
				row.spans[n-1][1] = x1
				continue
			}
			row.spans = append(row.spans, [2]int{x0, x1})
		}
		if len(row.spans) > 0 {
			s.rows = append(s.rows, row)
		}
	}
	s.addMask(g.GetMask().GetRuns(), width, lines)
	if n := len(s.rows); n > 0 {
		s.y0, s.y1 = s.rows[0].y, s.rows[n-1].y+1
	}
	for _, text := range g.GetLimits() {
		l, err := parseLimit(text)
		if err != nil {
			return s, err
		}
		s.limits = append(s.limits, l)
	}
	return s, nil
}

// addMask adds the pixels of runs y, x0, x1, ...
func (s *shape) addMask(runs []int32, width, lines int) {
	for ; len(runs) >= 3; runs = runs[3:] {
		y, x0, x1 := int(runs[0]), int(runs[1]), int(runs[2])
		s.inside += uint64(x1 - x0)
		s.area += float64(x1 - x0)
		x0, x1 = max(x0, 0), min(x1, width)
		if x0 >= x1 || y < 0 || y >= lines {
			continue
		}
		if n := len(s.rows); n == 0 || s.rows[n-1].y != y {
			s.rows = append(s.rows, shapeRow{y: y})
		}
		row := &s.rows[len(s.rows)-1]
		row.spans = append(row.spans, [2]int{x0, x1})
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// channelNumbers is the distribution of one channel's samples, in which all other numbers are.
type channelNumbers struct {
	channel      polyscanv1.Channel
	counts       map[uint32]uint64
	minAt, maxAt [2]uint32
}

type regionNumbers struct {
	count    uint64
	channels []channelNumbers
	verdict  polyscanv1.Verdict
}

// layoutOf lists the channels of a format in the order of results, with the offset of each in a pixel.
func layoutOf(f polyscanv1.PixelFormat) (channels []polyscanv1.Channel, offsets []int, sample int) {
	const (
		gray  = polyscanv1.Channel_CHANNEL_GRAY
		red   = polyscanv1.Channel_CHANNEL_RED
		green = polyscanv1.Channel_CHANNEL_GREEN
		blue  = polyscanv1.Channel_CHANNEL_BLUE
		alpha = polyscanv1.Channel_CHANNEL_ALPHA
	)
	switch f {
	case clients.Gray16LE:
		return []polyscanv1.Channel{gray}, []int{0}, 2
	case clients.RGB8:
		return []polyscanv1.Channel{red, green, blue}, []int{0, 1, 2}, 1
	case clients.BGR8:
		return []polyscanv1.Channel{red, green, blue}, []int{2, 1, 0}, 1
	case clients.RGBA8:
		return []polyscanv1.Channel{red, green, blue, alpha}, []int{0, 1, 2, 3}, 1
	}
	return []polyscanv1.Channel{gray}, []int{0}, 1
}

// lineRange is a half-open range of lines.
type lineRange struct{ from, to uint64 }

// missing is which rows of a part did not come, and how many of them its regions need.
func (o *oracle) missing(first uint64, lost []lineRange) (rows []bool, needed uint64) {
	for _, l := range lost {
		if l.to <= first || l.from >= first+uint64(o.lines) {
			continue
		}
		if rows == nil {
			rows = make([]bool, o.lines)
		}
		for n := max(l.from, first); n < min(l.to, first+uint64(o.lines)); n++ {
			rows[n-first] = true
		}
	}
	for _, r := range o.needed {
		for y := r[0]; rows != nil && y < r[1]; y++ {
			if rows[y] {
				needed++
			}
		}
	}
	return rows, needed
}

// part computes the numbers of the part that starts at line first, without its missing rows.
func (o *oracle) part(first uint64, missing []bool) []regionNumbers {
	runs := o.belt.runs(nil, first, o.lines)
	if missing != nil {
		return o.compute(runs, missing)
	}
	return o.whole(runs)
}

// whole computes the numbers of a part without missing rows, or remembers them.
func (o *oracle) whole(runs []stretch) []regionNumbers {
	key := fmt.Sprint(runs)
	o.mu.Lock()
	r, ok := o.known[key]
	o.mu.Unlock()
	if ok {
		return r
	}
	r = o.compute(runs, nil)
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.known) < maxKnown {
		o.known[key] = r
	}
	return r
}

// prepare computes what whole pictures come to, so that it isn't done beside the cameras.
func (o *oracle) prepare() {
	for i, p := range o.belt.pictures {
		if p.rows >= o.lines && i < maxKnown {
			o.whole([]stretch{{i, 0, o.lines}})
		}
	}
}

func (o *oracle) compute(runs []stretch, missing []bool) []regionNumbers {
	rows := make([][]byte, 0, o.lines)
	size := o.belt.rowBytes()
	for _, r := range runs {
		for y := range r.lines {
			rows = append(rows, o.belt.pictures[r.picture].pix[(r.row+y)*size:][:size])
		}
	}
	channels, offsets, sample := layoutOf(o.belt.format)
	pixel := clients.PixelBytes(o.belt.format)
	out := make([]regionNumbers, len(o.shapes))
	for i, s := range o.shapes {
		r := &out[i]
		for k, c := range channels {
			n := channelNumbers{channel: c, counts: map[uint32]uint64{}}
			counts := make([]uint64, 1<<(8*sample))
			lo, hi := uint32(math.MaxUint32), uint32(0)
			count := uint64(0)
			for _, row := range s.rows {
				if missing != nil && missing[row.y] {
					continue
				}
				line := rows[row.y]
				for _, span := range row.spans {
					for x := span[0]; x < span[1]; x++ {
						at := x*pixel + offsets[k]
						v := uint32(line[at])
						if sample == 2 {
							v |= uint32(line[at+1]) << 8
						}
						if v < lo {
							lo, n.minAt = v, [2]uint32{uint32(x), uint32(row.y)}
						}
						if v > hi || count == 0 {
							hi, n.maxAt = v, [2]uint32{uint32(x), uint32(row.y)}
						}
						counts[v]++
						count++
					}
				}
			}
			for v, c := range counts {
				if c > 0 {
					n.counts[uint32(v)] = c
				}
			}
			r.count = count
			r.channels = append(r.channels, n)
		}
		r.verdict = s.verdict(r, missing)
	}
	return out
}

// verdict holds the numbers against the limits. A region without pixels fails, as does one that lacks a row, and one of
// which a part lies outside the part of the belt, unless a limit says how much has to be inside.
func (s *shape) verdict(r *regionNumbers, missing []bool) polyscanv1.Verdict {
	if len(s.limits) == 0 {
		return polyscanv1.Verdict_VERDICT_UNSPECIFIED
	}
	if missing != nil && slices.Contains(missing[s.y0:s.y1], true) {
		return polyscanv1.Verdict_VERDICT_FAIL
	}
	partly := slices.ContainsFunc(s.limits, func(l limit) bool {
		return l.quantity == "coverage" && !l.not && l.want.lo >= 0 // a least share
	})
	if s.pixels() == 0 || s.pixels() < s.inside && !partly {
		return polyscanv1.Verdict_VERDICT_FAIL
	}
	for _, l := range s.limits {
		if !l.holds(s, r) {
			return polyscanv1.Verdict_VERDICT_FAIL
		}
	}
	return polyscanv1.Verdict_VERDICT_PASS
}

// totals are the sums of a distribution.
func (n *channelNumbers) totals() (count, sum, squares uint64) {
	for v, c := range n.counts {
		count += c
		sum += c * uint64(v)
		squares += c * uint64(v) * uint64(v)
	}
	return count, sum, squares
}

// values are the different samples in ascending order.
func (n *channelNumbers) values() []uint32 {
	v := make([]uint32, 0, len(n.counts))
	for k := range n.counts {
		v = append(v, k)
	}
	slices.Sort(v)
	return v
}
