// MaskWeigh: sums over listed pixels with weights.

package cpu

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/polyscan/polyscan/kernels/driver"
)

// weighPiece is how many pixels of a region a thread takes at a time; a variable, so that tests split short lists.
var weighPiece = 1 << 14

// weighing is an op in progress.
type weighing struct {
	*driver.MaskWeigh
	pixels   []driver.WeightedPixel
	frame    []byte
	sums     []driver.WeightSums
	hist     []int64
	channels int
	levels   int
	mu       sync.Mutex // held to add to the sums of a region that is in several pieces
}

// weighTask is pixels [from, to) of a region, which counts from First; shared where other tasks have pixels of it.
type weighTask struct {
	region, from, to int
	shared           bool
}

func (d *device) maskWeigh(op *driver.MaskWeigh, stop *stopFlag) error {
	w := weighing{MaskWeigh: op, pixels: viewAs[driver.WeightedPixel](op.Pixels), frame: view(op.Frame.Data),
		sums: viewAs[driver.WeightSums](op.Sums), hist: viewAs[int64](op.Hist), channels: int(op.Frame.Format.Channels),
		levels: op.Frame.Format.Levels()}
	if !op.Accumulate {
		clear(w.sums)
		clear(w.hist)
	}
	starts := viewAs[uint32](op.Starts)[op.First:]
	var tasks []weighTask
	for i := range op.Count {
		from, to := min(int(starts[i]), len(w.pixels)), min(int(starts[i+1]), len(w.pixels))
		for first := from; from < to; from += weighPiece {
			end := min(from+weighPiece, to)
			tasks = append(tasks, weighTask{i, from, end, from > first || end < to})
		}
	}
	return d.pieces("MaskWeigh", len(tasks), stop, func(i int) int {
		t := &tasks[i]
		w.add(t)
		return 20 + 3*w.channels*(t.to-t.from)
	})
}

// add does a task.
func (w *weighing) add(t *weighTask) {
	f := &w.Frame.Format
	size := f.PixelBytes()
	var sums [4]driver.WeightSums
	pixels := w.pixels[t.from:t.to]
	if size == 1 && w.hist == nil {
		sums[0], pixels = w.gray8(pixels), nil
	}
	for _, p := range pixels {
		x, y, weight := p.X(), p.Y()-w.Row0, int64(p.Weight())
		if x >= w.Frame.Width || uint(y) >= uint(w.Frame.Height) {
			continue
		}
		px := w.frame[y*w.Frame.Stride+x*size:]
		for c := range w.channels {
			var v int64
			if f.SampleBytes == 2 {
				v = int64(binary.LittleEndian.Uint16(px))
			} else {
				v = int64(px[f.Order[c]])
			}
			s, sq := &sums[c], v*v
			s.Weight += weight
			s.Sum += weight * v
			s.SqLow += weight * (sq & 0xffff)
			s.SqHigh += weight * (sq >> 16)
			if w.hist == nil {
				continue
			}
			bin := &w.hist[(t.region*w.channels+c)*w.levels+int(v)&(w.levels-1)]
			if t.shared {
				atomic.AddInt64(bin, weight)
			} else {
				*bin += weight
			}
		}
	}
	if t.shared {
		w.mu.Lock()
		defer w.mu.Unlock()
	}
	for c := range w.channels {
		w.sums[t.region*w.channels+c].Add(sums[c])
	}
}

// gray8 are the sums of bytes, whose squares have 16 bits.
func (w *weighing) gray8(pixels []driver.WeightedPixel) (s driver.WeightSums) {
	frame, stride, row0 := w.frame, w.Frame.Stride, w.Row0
	width, height := uint(w.Frame.Width), uint(w.Frame.Height)
	for _, p := range pixels {
		x, y, weight := p.X(), p.Y()-row0, int64(p.Weight())
		if uint(x) >= width || uint(y) >= height {
			continue
		}
		v := int64(frame[y*stride+x])
		s.Weight += weight
		s.Sum += weight * v
		s.SqLow += weight * v * v
	}
	return s
}
