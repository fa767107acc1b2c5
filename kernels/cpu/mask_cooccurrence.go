// MaskCooccurrence: pairs of grey levels at offsets, inside prepared regions.
//
// The partner of a pixel is inside where the row spans of its row say so: the spans of a row, shifted by the offset,
// meet those of the partner's row, and what they have in common are runs of pairs without any test.

package cpu

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/polyscan/polyscan/kernels/driver"
)

// pairCells bounds the counters that a worker has: 1 MiB. Offsets beyond take another pass.
const pairCells = 1 << 19

// pairScratch is what a worker needs: levels of two rows, and counters, which are zero between uses.
type pairScratch struct {
	base, partner levelRow
	tables        []uint16
	most          []int // that a counter of each offset's tables can have
}

// levelRow holds the levels of the pixels of a region in one row, at the columns' own places from x0 on.
type levelRow struct {
	levels []byte
	y      int // -1 where it holds none
	own    []byte
}

// pairing is an op in progress.
type pairing struct {
	driver.MaskCooccurrence
	prepared prepared
	frame    []byte
	counts   []uint32
	order    []int // of offsets, by DY: each row of partners is read once
	level    []byte
	shift    uint // by how much the samples are their levels, where rows of the frame serve as they are
	raw      bool
	channels int
	cells    int // of an offset

	tasks []pairTask
	next  atomic.Int64
	mu    sync.Mutex // held to add to the counts of a region that is in several tasks
}

// pairTask is rows of a region, and some of its offsets in one channel: those of order[first:last].
type pairTask struct {
	taskRows
	channel, first, last int
}

func (d *device) maskCooccurrence(op *driver.MaskCooccurrence, stop *stopFlag) error {
	p := &pairing{MaskCooccurrence: *op}
	if err := p.open(); err != nil {
		return err
	}
	if !p.Accumulate {
		clear(p.counts)
	}
	work := p.plan(d.threads)
	n := min(d.threads, len(p.tasks), 1+int(work/(2*minTaskPixels)))
	return d.share("MaskCooccurrence", n, stop, p.work)
}

func (p *pairing) open() (err error) {
	im := p.Frame
	if p.prepared, err = openPreparedFor(p.Prepared, &im, p.Row0, p.First, p.Count); err != nil {
		return err
	}
	p.frame = view(p.Frame.Data)
	p.counts = viewAs[uint32](p.Counts)
	p.channels, p.cells = int(im.Format.Channels), p.Levels*p.Levels
	p.order = make([]int, len(p.Offsets))
	for i := range p.order {
		p.order[i] = i
	}
	slices.SortStableFunc(p.order, func(a, b int) int { return int(p.Offsets[a].DY) - int(p.Offsets[b].DY) })
	// Gray bytes are shifted right where that makes their level.
	if p.raw = im.Format.PixelBytes() == 1 && p.Levels&(p.Levels-1) == 0; p.raw {
		p.shift = uint(9 - bits.Len(uint(p.Levels)))
	} else {
		p.level = levelsOf(im.Format, p.Levels)
	}
	return nil
}

// levelsOf is the level of each value of the bytes of a sample.
func levelsOf(f driver.PixelFormat, levels int) []byte {
	t := make([]byte, 1<<(8*f.SampleBytes))
	for v := range t {
		t[v] = byte(min(v*levels>>f.Bits, levels-1))
	}
	return t
}

// plan makes the tasks, and returns about how many pairs they have together.
func (p *pairing) plan(threads int) (total uint64) {
	group := max(1, pairCells/(pairTables*p.cells)) // offsets of a task
	rows, total := p.prepared.taskRows(p.First, p.Count, max(p.FromRow, p.Row0), min(p.ToRow, p.Row0+p.Frame.Height),
		threads, uint64(p.channels*len(p.Offsets)))
	for _, r := range rows {
		for c := range p.channels {
			for first := 0; first < len(p.order); first += group {
				p.tasks = append(p.tasks, pairTask{taskRows: r, channel: c, first: first,
					last: min(first+group, len(p.order))})
			}
		}
	}
	return total
}

// work takes tasks until there are none.
func (p *pairing) work(sc *scratch) error {
	for {
		i := int(p.next.Add(1) - 1)
		if i >= len(p.tasks) {
			return nil
		}
		if err := p.count(sc, &p.tasks[i]); err != nil {
			return err
		}
	}
}

// count does a task: into the worker's own counters, and then to the results.
func (p *pairing) count(sc *scratch, t *pairTask) (err error) {
	s := &sc.pairs
	e := &p.prepared.regions[p.First+t.region]
	if e.X0 < 0 || int(e.X1) > p.Frame.Width || e.X0 > e.X1 {
		return errCorrupt
	}
	spans, err := p.prepared.regionSpans(p.First + t.region)
	if err != nil {
		return err
	}
	n := (t.last - t.first) * p.cells
	if len(s.tables) < pairTables*n {
		s.tables = make([]uint16, pairTables*n)
	}
	s.most = append(s.most[:0], make([]int, t.last-t.first)...)
	s.base.reset()
	s.partner.reset()
	// Rows where nothing was counted yet leave the counters zero, whatever ends this.
	defer func() {
		if err != nil {
			clear(s.tables)
		}
	}()
	x0, x1 := int(e.X0), int(e.X1)
	for at := search(spans, t.from); at < len(spans); {
		y := int(spans[at].Y)
		if y >= t.to {
			break
		}
		row := rowSpans(spans[at:], y)
		at += len(row)
		if s.partner.y == y {
			s.base, s.partner = s.partner, s.base
		} else if err := p.fill(&s.base, row, y, x0, x1, t.channel); err != nil {
			return err
		}
		pairs := 0
		for k := t.first; k < t.last; k++ {
			o := p.Offsets[p.order[k]]
			other, to := row, &s.base
			if o.DY != 0 {
				y2 := y + int(o.DY)
				if y2 < p.Row0 || y2 >= p.Row0+p.Frame.Height {
					continue
				}
				other = rowSpans(spans[search(spans, y2):], y2)
				if len(other) == 0 {
					continue
				}
				if to = &s.partner; to.y != y2 {
					if err := p.fill(to, other, y2, x0, x1, t.channel); err != nil {
						return err
					}
				}
			}
			pairs += meet(row, other, int32(o.DX), func(a, b int32) {
				first, second := s.base.levels[a-e.X0:b-e.X0], to.levels[int(a-e.X0)+int(o.DX):]
				p.pairs(s, t, k, first, second)
			})
		}
		if sc.pace.spend(pairs + 50) {
			return errAborted
		}
	}
	for k := t.first; k < t.last; k++ {
		p.flush(s, t, k)
	}
	return nil
}

// tablesOf are the worker's counters of an offset of a task.
func (p *pairing) tablesOf(s *pairScratch, t *pairTask, k int) []uint16 {
	return s.tables[(k-t.first)*pairTables*p.cells:][:pairTables*p.cells]
}

// pairs counts those of a run.
func (p *pairing) pairs(s *pairScratch, t *pairTask, k int, first, second []byte) {
	for len(first) > 0 {
		n := min(len(first), pairRun)
		most := &s.most[k-t.first]
		if *most += (n + pairTables - 1) / pairTables; *most > pairMost {
			p.flush(s, t, k)
			*most = (n + pairTables - 1) / pairTables
		}
		countPairs(p.tablesOf(s, t, k), first[:n], second, p.Levels, p.shift)
		first, second = first[n:], second[n:]
	}
}

// flush adds what the worker counted at an offset to the results.
func (p *pairing) flush(s *pairScratch, t *pairTask, k int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to := ((t.region*p.channels+t.channel)*len(p.Offsets) + p.order[k]) * p.cells
	addTables(p.counts[to:][:p.cells], p.tablesOf(s, t, k))
}

func (r *levelRow) reset() { r.y, r.levels = -1, nil }

// fill finds the levels of the pixels of spans, which are those of a region in row y, between columns x0 and x1.
func (p *pairing) fill(r *levelRow, spans []span, y, x0, x1, channel int) error {
	f := p.Frame.Format
	pixel := f.PixelBytes()
	for _, sp := range spans {
		if int(sp.X0) < x0 || int(sp.X1) > x1 || sp.X0 > sp.X1 {
			return errCorrupt
		}
	}
	line := p.frame[(y-p.Row0)*p.Frame.Stride:]
	r.y = y
	if p.raw {
		r.levels = line[x0:x1]
		return nil
	}
	if len(r.own) < x1-x0 {
		r.own = make([]byte, x1-x0)
	}
	r.levels = r.own[:x1-x0]
	for _, sp := range spans {
		to, from := r.levels[int(sp.X0)-x0:int(sp.X1)-x0], line[int(sp.X0)*pixel:]
		switch {
		case f.SampleBytes == 2:
			for i := range to {
				to[i] = p.level[binary.LittleEndian.Uint16(from[2*i:])]
			}
		default:
			level := (*[256]byte)(p.level)
			from = from[f.Order[channel]:]
			for i := range to {
				to[i] = level[from[i*pixel]]
			}
		}
	}
	return nil
}

// search is the index of the first span that is in row y or below.
func search(spans []span, y int) int {
	return sort.Search(len(spans), func(k int) bool { return int(spans[k].Y) >= y })
}

// rowSpans are the first spans, as many as are in row y.
func rowSpans(spans []span, y int) []span {
	n := 0
	for n < len(spans) && int(spans[n].Y) == y {
		n++
	}
	return spans[:n]
}

// meet calls f for each run [a, b) of columns that are in a span and, dx columns further right, in one of the others.
// It returns how many columns that are.
func meet(spans, others []span, dx int32, f func(a, b int32)) (n int) {
	for i, k := 0, 0; i < len(spans) && k < len(others); {
		a, b := max(spans[i].X0, others[k].X0-dx), min(spans[i].X1, others[k].X1-dx)
		if a < b {
			f(a, b)
			n += int(b - a)
		}
		if spans[i].X1 < others[k].X1-dx {
			i++
		} else {
			k++
		}
	}
	return n
}
