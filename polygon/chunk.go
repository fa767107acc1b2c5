// Chunks: long ops in parts, with others let through between them.

package polygon

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// regionCost is what a region costs beside its pixels, in bytes of those.
const regionCost = 1024

// work is what it takes to reduce regions [from, to) in rows [y0, y1) of frames of the given width: about how many
// bytes of pixels they hold.
func (s *Set) work(from, to, width, y0, y1, pixel int) int64 {
	n := int64(to-from) * regionCost
	for i := from; i < to; i++ {
		n += s.pixelsIn(i, width, y0, y1) * int64(pixel)
	}
	return n
}

// pixelsIn is about how many pixels region i has in those rows, and not less than there are unless rings overlap in it.
func (s *Set) pixelsIn(i, width, y0, y1 int) int64 {
	x0, top, x1, bottom := s.boxes[i].pixels()
	w, h := min(x1, width)-max(x0, 0), min(bottom, y1)-max(top, y0)
	if w <= 0 || h <= 0 {
		return 0
	}
	return int64(min(float64(w)*float64(h), s.areas[i]))
}

// reduceLabels are the names of ops for the estimates of what they cost, by What.
var reduceLabels = func() (l [16]string) {
	for i := range l {
		l[i] = fmt.Sprintf("reduce %#x", i)
	}
	return l
}()

// reduce enqueues op, for regions op.First and behind, in chunks of regions; where few take long, of rows. stats and
// hist are those of op.Count regions. Its last chunk is still under way when it returns.
func (s *Set) reduce(q *kernels.Queue, op driver.MaskReduce, stats kernels.Buffer[driver.MaskStats],
	hist kernels.Buffer[uint32]) error {
	format := op.Frame.Format
	nc, levels, pixel := op.Channels(), 0, format.PixelBytes()
	if hist.Len() > 0 {
		levels = format.Levels()
	}
	step := driver.Align / gcd(driver.Align, nc*int(statsSize)) // ops begin at a multiple of so many regions
	work := func(from, to int) int64 {
		return s.work(op.First+from, op.First+to, op.Frame.Width, op.Row0, op.Row0+op.Frame.Height, pixel)
	}
	left := work(0, op.Count)
	for from := 0; from < op.Count; {
		if from > 0 {
			if err := q.Yield(); err != nil {
				return err
			}
		}
		room := q.Chunk(reduceLabels[op.What&15], max(left, 1))
		to, n := from, int64(0)
		for to < op.Count {
			end := min(to+step, op.Count)
			more := work(to, end)
			if to > from && n+more > room {
				break
			}
			to, n = end, n+more
		}
		part := op
		part.First, part.Count = op.First+from, to-from
		part.Stats = stats.Range(from*nc, to*nc).Slice()
		part.Hist = hist.Range(from*nc*levels, to*nc*levels).Slice()
		if err := reduceRows(q, part, n, room); err != nil {
			return err
		}
		from, left = to, left-n
	}
	return nil
}

// reduceRows enqueues op, which is work for n bytes of pixels, in bands of rows of about room.
func reduceRows(q *kernels.Queue, op driver.MaskReduce, n, room int64) error {
	height := op.Frame.Height
	bands := int(min((n+room-1)/room, int64(height)))
	if bands <= 1 {
		q.SetChunkUnits(n)
		return q.Run(&op)
	}
	frame := op.Frame
	row0 := op.Row0
	for b := range bands {
		lo, hi := height*b/bands, height*(b+1)/bands
		if b > 0 {
			if err := q.Yield(); err != nil {
				return err
			}
			q.Chunk(reduceLabels[op.What&15], n)
			op.Accumulate = true
		}
		q.SetChunkUnits(n / int64(bands))
		op.Row0 = row0 + lo
		op.Frame.Height = hi - lo
		op.Frame.Data.Off = frame.Data.Off + int64(lo*frame.Stride)
		op.Frame.Data.Len = int64((hi-lo-1)*frame.Stride + frame.Width*frame.Format.PixelBytes())
		part := op // the one before may still be under way
		if err := q.Run(&part); err != nil {
			return err
		}
	}
	return nil
}

// inBands calls run for bands of the rows [row0, row0+height) that take about as long as a chunk may, where all take n
// units of work by the name of label.
func inBands(q *kernels.Queue, label string, n int64, row0, height int, run func(from, to int) error) error {
	bands := int64(1)
	for b := int64(0); b < bands; b++ {
		if err := q.Yield(); err != nil {
			return err
		}
		room := q.Chunk(label, max(n, 1))
		if b == 0 {
			bands = min(max((n+room-1)/room, 1), int64(height))
		}
		q.SetChunkUnits(n / bands)
		if err := run(row0+int(int64(height)*b/bands), row0+int(int64(height)*(b+1)/bands)); err != nil {
			return err
		}
	}
	return nil
}
