// MaskCorrelate: sums of products of pixels at lags, inside prepared regions.
//
// As in MaskCooccurrence the spans of a row, shifted by a lag, meet those of the partner's row, and what they have in
// common are runs of pairs without any test: dot products of two runs of bytes.

package cpu

import (
	"sync"
	"sync/atomic"

	"github.com/polyscan/polyscan/kernels/driver"
)

// correlating is an op in progress.
type correlating struct {
	driver.MaskCorrelate
	prepared     prepared
	frame, other []byte
	sums         []driver.PairSums
	each         int // of a region

	tasks []taskRows
	next  atomic.Int64
	mu    sync.Mutex // held to add to the sums of a region that is in several tasks
}

func (d *device) maskCorrelate(op *driver.MaskCorrelate, stop *stopFlag) error {
	c := &correlating{MaskCorrelate: *op}
	if err := c.open(); err != nil {
		return err
	}
	if !c.Accumulate {
		clear(c.sums)
	}
	var pairs uint64
	c.tasks, pairs = c.prepared.taskRows(c.First, c.Count, max(c.FromRow, c.Row0), min(c.ToRow, c.Row0+c.Frame.Height),
		d.threads, uint64(len(c.Lags)*len(c.Series)))
	n := min(d.threads, len(c.tasks), 1+int(pairs/(2*minTaskPixels)))
	return d.share("MaskCorrelate", n, stop, c.work)
}

func (c *correlating) open() (err error) {
	im := c.Frame
	if c.prepared, err = openPreparedFor(c.Prepared, &im, c.Row0, c.First, c.Count); err != nil {
		return err
	}
	c.frame, c.other = view(c.Frame.Data), view(c.Other.Data)
	c.sums, c.each = viewAs[driver.PairSums](c.Sums), len(c.Series)*c.Slots
	return nil
}

// work takes tasks until there are none.
func (c *correlating) work(sc *scratch) error {
	sums := make([]driver.PairSums, c.each)
	for {
		i := int(c.next.Add(1) - 1)
		if i >= len(c.tasks) {
			return nil
		}
		clear(sums)
		t := &c.tasks[i]
		if err := c.add(sc, t, sums); err != nil {
			return err
		}
		c.mu.Lock()
		for k, s := range sums {
			to := &c.sums[t.region*c.each+k]
			to.Pairs += s.Pairs
			to.A, to.B = to.A+s.A, to.B+s.B
			to.SqA, to.SqB, to.Product = to.SqA+s.SqA, to.SqB+s.SqB, to.Product+s.Product
		}
		c.mu.Unlock()
	}
}

// add does a task.
func (c *correlating) add(sc *scratch, t *taskRows, sums []driver.PairSums) error {
	spans, err := c.prepared.regionSpans(c.First + t.region)
	if err != nil {
		return err
	}
	for at := search(spans, t.from); at < len(spans); {
		y := int(spans[at].Y)
		if y >= t.to {
			break
		}
		row := rowSpans(spans[at:], y)
		at += len(row)
		if err := c.within(row); err != nil {
			return err
		}
		pairs := 0
		last, other := y, row // partners in a row are looked up once for the lags that meet there
		for _, l := range c.Lags {
			y2 := y + int(l.DY)
			if y2 < c.Row0 || y2 >= c.Row0+c.Frame.Height {
				continue
			}
			if y2 != last {
				if last, other = y2, rowSpans(spans[search(spans, y2):], y2); c.within(other) != nil {
					return errCorrupt
				}
			}
			pairs += meet(row, other, l.DX, func(a, b int32) { c.run(sums, y, int(a), int(b), l) })
		}
		if sc.pace.spend(pairs*len(c.Series) + 50) {
			return errAborted
		}
	}
	return nil
}

// within says whether spans lie inside the image.
func (c *correlating) within(spans []span) error {
	for _, sp := range spans {
		if sp.X0 < 0 || int(sp.X1) > c.Frame.Width || sp.X0 > sp.X1 {
			return errCorrupt
		}
	}
	return nil
}

// run adds the pairs whose first pixels are columns [x0, x1) of row y, at a lag.
func (c *correlating) run(sums []driver.PairSums, y, x0, x1 int, l driver.Lag) {
	f := c.Frame.Format
	pixel, n := f.PixelBytes(), x1-x0
	first := c.frame[(y-c.Row0)*c.Frame.Stride+x0*pixel:][:n*pixel]
	second := c.other[(y+int(l.DY)-c.Row0)*c.Other.Stride+(x0+int(l.DX))*pixel:][:n*pixel]
	for i, s := range c.Series {
		to := &sums[i*c.Slots+int(l.Slot)]
		to.Pairs += uint64(n)
		switch {
		case pixel == 1:
			addPairs8(to, first, second)
		case f.SampleBytes == 2:
			addPairs16(to, first, second)
		default:
			addPairsOf(to, first[f.Order[s.A]:], second[f.Order[s.B]:], pixel)
		}
	}
}

// addPairs8 adds the sums of bytes; second is as long as first.
func addPairs8(to *driver.PairSums, first, second []byte) {
	for len(first) > pairs8Most {
		pairs8(to, first[:pairs8Most], second[:pairs8Most])
		first, second = first[pairs8Most:], second[pairs8Most:]
	}
	whole := len(first) &^ 31
	if whole > 0 {
		pairs8(to, first[:whole], second[:whole])
	}
	if whole < len(first) { // the rest, filled up with zeros
		var a, b [32]byte
		copy(a[:], first[whole:])
		copy(b[:], second[whole:])
		pairs8(to, a[:], b[:])
	}
}
