// MaskProfile: sums of samples by bins along an axis, inside prepared regions.
//
// Pixels of a row that are in the same bin are runs, which are summed up without looking for the bin of each: of rows
// whole spans; of columns as many as a bin has; of a radius and of a line those up to the pixel that leaves the bin,
// which is found by walking along the row, where the square of the distance and the remainder grow by what is added.

package cpu

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"

	"github.com/polyscan/polyscan/kernels/driver"
)

// profiling is an op in progress.
type profiling struct {
	driver.MaskProfile
	prepared prepared
	frame    []byte
	places   []driver.ProfilePlace
	bins     []driver.ProfileBin
	channels int

	tasks []taskRows
	next  atomic.Int64
	mu    sync.Mutex // held to add to the bins of a region that is in several tasks
}

// profileScratch is a worker's: the bins of the region at hand, zero between uses, and the runs of a row.
type profileScratch struct {
	bins     []driver.ProfileBin
	low, end int       // the bins that were added to
	runs     []colRun  // of the row's segments
	parts    []colRun  // of a span
	place    profileIn // of the region at hand
}

// colRun is columns [from, to).
type colRun struct{ from, to int }

// profileIn is where a region's bins are.
type profileIn struct{ origin, bins int }

func (d *device) maskProfile(op *driver.MaskProfile, stop *stopFlag) error {
	p := &profiling{MaskProfile: *op, frame: view(op.Frame.Data), places: viewAs[driver.ProfilePlace](op.Places),
		bins: viewAs[driver.ProfileBin](op.Bins), channels: int(op.Frame.Format.Channels)}
	im := p.Frame
	var err error
	if p.prepared, err = openPreparedFor(p.Prepared, &im, p.Row0, p.First, p.Count); err != nil {
		return err
	}
	var work uint64
	p.tasks, work = p.prepared.taskRows(p.First, p.Count, max(p.FromRow, p.Row0), min(p.ToRow, p.Row0+p.Frame.Height),
		d.threads, uint64(p.channels*max(1, len(p.Segments))))
	n := min(d.threads, len(p.tasks), 1+int(work/(2*minTaskPixels)))
	return d.share("MaskProfile", n, stop, p.work)
}

// work takes tasks until there are none.
func (p *profiling) work(sc *scratch) error {
	for {
		i := int(p.next.Add(1) - 1)
		if i >= len(p.tasks) {
			return nil
		}
		if err := p.add(sc, &p.tasks[i]); err != nil {
			return err
		}
	}
}

// add does a task: into the worker's own bins, and then into the results.
func (p *profiling) add(sc *scratch, t *taskRows) error {
	spans, err := p.prepared.regionSpans(p.First + t.region)
	if err != nil {
		return err
	}
	place, s := p.places[p.First+t.region], &sc.profile
	n, all := uint64(place.Bins)*uint64(p.channels), uint64(len(p.bins))
	if n == 0 || place.First > all || n > all-place.First {
		return nil
	}
	if uint64(len(s.bins)) < n {
		s.bins = make([]driver.ProfileBin, n)
	}
	s.place = profileIn{int(place.Origin), int(place.Bins)}
	s.low, s.end = s.place.bins, 0
	defer func() { // whatever ends this
		for c := range p.channels {
			if s.low < s.end {
				clear(s.bins[c*s.place.bins+s.low : c*s.place.bins+s.end])
			}
		}
	}()
	for at := search(spans, t.from); at < len(spans); {
		y := int(spans[at].Y)
		if y >= t.to {
			break
		}
		row := rowSpans(spans[at:], y)
		at += len(row)
		pixels := 0
		for _, sp := range row {
			if sp.X0 < 0 || int(sp.X1) > p.Frame.Width || sp.X0 > sp.X1 {
				return errCorrupt
			}
			pixels += int(sp.X1 - sp.X0)
		}
		p.row(s, row, y)
		if sc.pace.spend(pixels*p.channels*max(1, len(p.Segments)) + 50) {
			return errAborted
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.channels {
		to := p.bins[place.First+uint64(c*s.place.bins):]
		for b := s.low; b < s.end; b++ {
			from := &s.bins[c*s.place.bins+b]
			to[b].Sum += from.Sum
			to[b].Count += from.Count
		}
	}
	return nil
}

// row adds the pixels of a row of spans.
func (p *profiling) row(s *profileScratch, row []span, y int) {
	switch p.Axis {
	case driver.ProfileRows:
		if y < s.place.origin {
			return
		}
		b := (y - s.place.origin) / p.Step
		for _, sp := range row {
			p.run(s, b, y, int(sp.X0), int(sp.X1))
		}
	case driver.ProfileColumns:
		for _, sp := range row {
			x, to := max(int(sp.X0), s.place.origin), int(sp.X1)
			if p.Step == 1 && p.channels == 1 {
				p.columns(s, y, x, min(to, s.place.origin+s.place.bins))
				continue
			}
			for x < to {
				b := (x - s.place.origin) / p.Step
				next := min(s.place.origin+(b+1)*p.Step, to)
				p.run(s, b, y, x, next)
				x = next
			}
		}
	case driver.ProfileRadius:
		for _, sp := range row {
			p.around(s, y, int(sp.X0), int(sp.X1))
		}
	default:
		p.along(s, row, y)
	}
}

// columns adds columns [x0, x1) of a row to a bin each.
func (p *profiling) columns(s *profileScratch, y, x0, x1 int) {
	if x0 >= x1 {
		return
	}
	first := x0 - s.place.origin
	s.low, s.end = min(s.low, first), max(s.end, first+x1-x0)
	bins := s.bins[first : first+x1-x0]
	if p.Frame.Format.SampleBytes == 2 {
		px := p.frame[(y-p.Row0)*p.Frame.Stride+2*x0:][:2*len(bins)]
		for i := range bins {
			bins[i].Sum += uint64(binary.LittleEndian.Uint16(px[2*i:]))
			bins[i].Count++
		}
		return
	}
	px := p.frame[(y-p.Row0)*p.Frame.Stride+x0:][:len(bins)]
	for i := range bins {
		bins[i].Sum += uint64(px[i])
		bins[i].Count++
	}
}

// around adds columns [x0, x1) of a row to bins of their distance from the centre.
func (p *profiling) around(s *profileScratch, y, x0, x1 int) {
	if x0 >= x1 {
		return
	}
	centre := func(v int, c int32) int64 { return int64(v)*driver.Subpixel + driver.Subpixel/2 - int64(c) }
	dx, dy := centre(x0, p.CentreX), centre(y, p.CentreY)
	square := uint64(dx*dx + dy*dy)
	step := uint64(p.Step)
	b := root(square) / step
	from := x0
	for x := x0 + 1; x <= x1; x++ {
		// From one centre to the next the square grows by (dx+256)² - dx².
		square += uint64(2*driver.Subpixel*dx + driver.Subpixel*driver.Subpixel)
		dx += driver.Subpixel
		if x < x1 && square >= b*b*step*step && square < (b+1)*(b+1)*step*step {
			continue
		}
		p.run(s, int(b)-s.place.origin, y, from, x)
		from = x
		for square < b*b*step*step {
			b--
		}
		for square >= (b+1)*(b+1)*step*step {
			b++
		}
	}
}

// root is the integer square root.
func root(v uint64) uint64 {
	r := uint64(math.Sqrt(float64(v))) // off by one at most
	for r*r > v {
		r--
	}
	for (r+1)*(r+1) <= v {
		r++
	}
	return r
}

// along adds the pixels of a row to bins of the segments that they belong to.
func (p *profiling) along(s *profileScratch, row []span, y int) {
	s.runs = s.runs[:0]
	for i := range p.Segments {
		g := &p.Segments[i]
		// With c(x) = (256 x + 128, 256 y + 128) - P both products are linear in x.
		cx, cy := int64(driver.Subpixel/2-g.X), int64(y)*driver.Subpixel+driver.Subpixel/2-int64(g.Y)
		ux, uy := int64(g.DX), int64(g.DY)
		length := ux*ux + uy*uy
		from, to := within(cx*ux+cy*uy, driver.Subpixel*ux, 0, length, 0, p.Frame.Width)
		from, to = within(cx*uy-cy*ux, driver.Subpixel*uy, g.Low, g.High, from, to)
		before := s.runs
		s.runs = append(s.runs, colRun{from, to})
		for _, sp := range row {
			s.parts = append(s.parts[:0], colRun{max(from, int(sp.X0)), min(to, int(sp.X1))})
			for _, r := range before { // whose pixels they are
				for k, n := 0, len(s.parts); k < n; k++ {
					part := &s.parts[k]
					a, b := max(part.from, r.from), min(part.to, r.to)
					if a < b {
						s.parts = append(s.parts, colRun{b, part.to})
						s.parts[k].to = a
					}
				}
			}
			for _, part := range s.parts {
				if part.from < part.to {
					p.segment(s, g, y, part.from, part.to, cx*ux+cy*uy, length)
				}
			}
		}
	}
}

// within is what [from, to) has of the x for which low <= c + m x < high.
func within(c, m, low, high int64, from, to int) (int, int) {
	switch {
	case low >= high || m == 0 && (c < low || c >= high):
		return from, from
	case m == 0:
		return from, to
	case m < 0: // -high < -c - m x <= -low
		c, m, low, high = -c, -m, 1-high, 1-low
	}
	return int(max(int64(from), ceilDiv(low-c, m))), int(min(int64(to), ceilDiv(high-c, m)))
}

// segment adds columns [x0, x1), all of which belong to a segment; dot is the product for column 0.
func (p *profiling) segment(s *profileScratch, g *driver.ProfileSegment, y, x0, x1 int, dot, length int64) {
	n := int64(g.Bins)
	each := driver.Subpixel * int64(g.DX)
	rest, more := n*(dot+int64(x0)*each), n*each
	b := rest / length
	rest -= b * length
	from := x0
	for x := x0 + 1; x <= x1; x++ {
		rest += more
		if x < x1 && rest >= 0 && rest < length {
			continue
		}
		p.run(s, int(b)+int(g.First)-s.place.origin, y, from, x)
		if from = x; x == x1 {
			return
		}
		for rest < 0 {
			rest += length
			b--
		}
		for rest >= length {
			rest -= length
			b++
		}
	}
}

// run adds columns [x0, x1) of row y to bin b, if there is such a bin.
func (p *profiling) run(s *profileScratch, b, y, x0, x1 int) {
	if b < 0 || b >= s.place.bins || x0 >= x1 {
		return
	}
	s.low, s.end = min(s.low, b), max(s.end, b+1)
	f := &p.Frame.Format
	pixel := f.PixelBytes()
	px := p.frame[(y-p.Row0)*p.Frame.Stride+x0*pixel:][:(x1-x0)*pixel]
	for c := range p.channels {
		to, sum := &s.bins[c*s.place.bins+b], uint64(0)
		switch {
		case pixel == 1:
			sum = sumBytes(px)
		case f.SampleBytes == 2:
			for i := 0; i < len(px); i += 2 {
				sum += uint64(binary.LittleEndian.Uint16(px[i:]))
			}
		default:
			for i := int(f.Order[c]); i < len(px); i += pixel {
				sum += uint64(px[i])
			}
		}
		to.Sum += sum
		to.Count += uint64(x1 - x0)
	}
}

// sumBytes adds up bytes, eight at a time in words whose parts of 16 bits have room for 128 sums of two.
func sumBytes(p []byte) (sum uint64) {
	const even = 0x00ff_00ff_00ff_00ff
	for len(p) >= 8 {
		part := uint64(0)
		for n := min(len(p)/8, 128); n > 0; n-- {
			w := binary.LittleEndian.Uint64(p)
			part += w&even + w>>8&even
			p = p[8:]
		}
		sum += part&0xffff + part>>16&0xffff + part>>32&0xffff + part>>48
	}
	for _, v := range p {
		sum += uint64(v)
	}
	return sum
}
