// Derivatives: channels that are derived from the pixels around each, and how a call reduces them.

package polygon

import (
	"math"
	"slices"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Their bits in sets of spaces of colours.
const (
	spaceGradient ColorSpaces = 1 << (6 + iota)
	spaceLaplacian
)

// isDerivative says that a channel is derived from the pixels around each.
func (c Channel) isDerivative() bool { return c == Gradient || c == Laplacian }

// derivativeCoding is that of frames of so many bits.
func derivativeCoding(c Channel, bits int) coding {
	has, rounded := driver.DerivativeBits(bits)
	k := coding{step: math.Ldexp(1, rounded), shift: uint8(has - bits)}
	if c == Gradient {
		k.step /= 8
	} else {
		k.zero = 4 << bits >> rounded
	}
	return k
}

// bucket is the bin of a sample among so many.
func (k coding) bucket(sample uint32, bins int) uint32 {
	return min((sample+1<<k.shift>>1)>>k.shift, uint32(bins-1))
}

// refuseDerivatives refuses them where strips come one by one, if there are any.
func (p *plan) refuseDerivatives() error {
	const why = "the pixels above and below aren't there in line-scans, whose strips come one by one"
	bad := newInvalid()
	for i := range p.set.names {
		for k, l := range p.set.Limits(i) {
			if slices.ContainsFunc(l.namedChannels(), Channel.isDerivative) {
				bad.Add(path{"regions", i, "limits", k}, quoted(l.expr), why)
			}
		}
	}
	if err := bad.Err(); err != nil || p.slopes == 0 {
		return err
	}
	return invalid(path{"reductions", "derivatives"}, p.channels[len(p.channels)-p.slopes], why)
}

// slopes are the derivatives of a call. Nil is none, and does nothing.
type slopes struct {
	*plan
	channels []Channel
	width    int
	rows     int
	batch    int
	bits     int // of the derivatives' samples
	levels   int // 1 << bits; 0 without histograms

	images map[Channel]driver.Image
	stats  kernels.Buffer[driver.MaskStats]
	hist   kernels.Buffer[uint32]
}

// derivativesOf are those of rows [y0, y1), of so many regions at a time.
func (p *plan) derivativesOf(y0, y1, batch int) *slopes {
	if p.slopes == 0 {
		return nil
	}
	s := &slopes{plan: p, channels: p.channels[len(p.channels)-p.slopes:], width: p.frame.Width, rows: y1 - y0,
		batch: batch}
	s.bits, _ = driver.DerivativeBits(int(p.frame.Format.Bits))
	if p.what&driver.MaskHistogram != 0 {
		s.levels = 1 << s.bits
	}
	return s
}

// bytes is what run takes of the device.
func (s *slopes) bytes() int64 {
	if s == nil {
		return 0
	}
	return 2*kernels.Bytes[uint16](s.width*s.rows) + kernels.Bytes[driver.MaskStats](s.batch) +
		kernels.Bytes[uint32](s.batch*s.levels)
}

// run computes both derivatives of the frame.
func (s *slopes) run(q *kernels.Queue, frame driver.Image) error {
	if s == nil {
		return nil
	}
	op := driver.Derivatives{Src: frame}
	s.images = map[Channel]driver.Image{}
	for c, to := range map[Channel]*driver.Slice{Gradient: &op.Gradient, Laplacian: &op.Laplacian} {
		b, err := kernels.Alloc[uint16](q, s.width*s.rows, "derivatives")
		if err != nil {
			return err
		}
		*to = b.Slice()
		s.images[c] = driver.Image{Data: *to, Width: s.width, Height: s.rows, Stride: 2 * s.width,
			Format: driver.Gray16(s.bits)}
	}
	var err error
	if s.stats, err = kernels.Alloc[driver.MaskStats](q, s.batch, "derivatives"); err != nil {
		return err
	}
	if s.hist, err = kernels.Alloc[uint32](q, s.batch*s.levels, "derivatives"); err != nil {
		return err
	}
	return q.Run(&op)
}

// counts is where the histograms of all channels go, so many bins a region.
func (s *slopes) counts(m *hostMemory, perRegion int) []uint32 {
	if s == nil {
		return m.hist
	}
	m.joinedHist = grow(m.joinedHist, s.batch*perRegion)
	return m.joinedHist
}

// join reduces the derivatives by op, and puts them behind the sums and the histograms of the frame's channels, which
// have been downloaded.
func (s *slopes) join(q *kernels.Queue, op driver.MaskReduce, m *hostMemory, frame histogramSource) ([]driver.MaskStats,
	histogramSource, error) {
	all := len(s.plan.channels)
	n := all - s.plan.slopes
	bins := s.frame.Format.Levels()
	m.joined = grow(m.joined, op.Count*all)
	joined := frame
	if frame.counts != nil {
		joined.counts = s.counts(m, all*bins)[:op.Count*all*bins]
	}
	for i := range op.Count {
		copy(m.joined[i*all:], m.stats[i*n:(i+1)*n])
		for c := range n {
			if from, k := &m.stats[i*n+c], s.coding(c); bins < rangedLevels {
				copy(joined.from(i*all).of(c, from, k).all, frame.from(i*n).of(c, from, k).all)
			} else {
				copy(joined.from(i*all).of(c, from, k).n, frame.from(i*n).of(c, from, k).n)
			}
		}
	}
	op.Colors = driver.Colors{}
	if s.levels > 0 {
		op.What |= driver.MaskExtrema // so that only the part of the histogram that is used is looked at
	}
	m.slopes, m.slopeHist = grow(m.slopes, s.batch), grow(m.slopeHist, s.batch*s.levels)
	for at, c := range s.channels {
		op.Frame = s.images[c]
		stats, hist := s.stats.Range(0, op.Count), s.hist.Range(0, op.Count*s.levels)
		if err := q.Yield(); err != nil {
			return nil, joined, err
		}
		if err := s.set.reduce(q, op, stats, hist); err != nil {
			return nil, joined, err
		}
		src, err := download(q, m.slopes[:op.Count], stats, m.slopeHist, hist, s.levels)
		if err != nil {
			return nil, joined, err
		}
		k := s.coding(n + at)
		for i := range op.Count {
			from := &m.slopes[i]
			m.joined[i*all+n+at] = *from
			if s.levels == 0 {
				continue
			}
			to := joined.counts[(i*all+n+at)*bins:][:bins]
			clear(to)
			if from.Count == 0 {
				continue
			}
			lo, _ := from.Min()
			hi, _ := from.Max()
			for v, many := range src.counts[i*s.levels:][lo : hi+1] {
				to[k.bucket(lo+uint32(v), bins)] += many
			}
		}
	}
	return m.joined, joined, nil
}
