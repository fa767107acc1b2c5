package clients

// Flat fields: learned from frames of the dark and of an even scene.

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/bits"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// FlatOptions say how a flat field is learned.
type FlatOptions struct {
	// Columns has all rows share one row of the field, as the columns of a line-scan camera do: it is learned from all
	// rows of the frames.
	Columns bool
	// Level is what the even scene comes to, 1 to the largest sample. 0 keeps the mean of each channel.
	Level float64
}

// What a field is learned within: of a bright frame at most such a share of samples is saturated, and noise moves gains
// by such a share at most. Gains have at least 12 bits behind the point, so that they are below 16.
const (
	mostSaturated   = 0.001
	mostNoise       = 0.01
	leastFraction   = 12
	mostFraction    = 15
	largestFlatGain = 1<<16 - 1
)

// LearnFlatField learns what frames of a camera are corrected by, for [polyscanv1.Inspection] and
// [polyscanv1.Recipe], from raw frames of an even scene, and from dark ones, of which there may be none. The dark value
// of a sample is the mean of the dark frames, rounded, and the gain is the level over what the mean of the bright ones
// is above that. Alpha stays as it is.
//
// Errors say with figures what a field can't be learned from: frames of different layouts, saturated or noisy ones, and
// samples whose gain would be 16 or more, how many, and the first.
func LearnFlatField(bright, dark iter.Seq2[*polyscanv1.Frame, error], o FlatOptions) (*polyscanv1.FlatField, error) {
	b := flatSums{columns: o.Columns, what: "bright"}
	if err := b.addAll(bright); err != nil {
		return nil, err
	}
	if b.frames == 0 {
		return nil, errors.New("flat field: there is no bright frame")
	}
	d := flatSums{columns: o.Columns, what: "dark", like: b.layout}
	if dark != nil {
		if err := d.addAll(dark); err != nil {
			return nil, err
		}
	}
	most := uint64(1)<<b.bits - 1
	if o.Level != 0 && !(o.Level >= 1 && o.Level <= float64(most)) {
		return nil, fmt.Errorf("flat field: level %v: must be 1 to %d, or left out for the mean", o.Level, most)
	}
	// What bright is above dark, times the number of bright samples.
	n := len(b.sums)
	darks, above := make([]uint64, n), make([]uint64, n)
	total, count := make([]uint64, b.channels), uint64(n/b.channels)
	for i := range n {
		if d.count > 0 {
			darks[i] = (d.sums[i] + d.count/2) / d.count
		}
		if sum := darks[i] * b.count; b.sums[i] > sum {
			above[i] = b.sums[i] - sum
		}
		total[i%b.channels] += above[i]
	}
	// The level is that of so many bright samples, too, and over as many places as total is.
	target := total
	if o.Level > 0 {
		target = make([]uint64, b.channels)
		for c := range target {
			target[c] = uint64(math.Round(o.Level * float64(count) * float64(b.count)))
		}
	}
	if err := b.noisy(total, count); err != nil {
		return nil, err
	}
	out := &polyscanv1.FlatField{FractionBits: mostFraction, Layout: &polyscanv1.FrameLayout{
		Width: b.layout.GetWidth(), Height: b.layout.GetHeight(), PixelFormat: b.layout.GetPixelFormat(),
		SignificantBits: b.layout.GetSignificantBits()}}
	if o.Columns {
		out.Layout.Height = 1
	}
	gains := make([]uint64, n)
	for ; ; out.FractionBits-- {
		wrong, first := 0, 0
		for i := range n {
			c := i % b.channels
			if gains[i] = 1 << out.FractionBits; c == 3 { // alpha
				darks[i] = 0
				continue
			}
			gains[i] = gainOf(target[c], above[i], count, uint(out.FractionBits))
			if gains[i] == 0 || gains[i] > largestFlatGain {
				if wrong++; wrong == 1 {
					first = i
				}
			}
		}
		if wrong == 0 {
			break
		}
		if out.FractionBits > leastFraction {
			continue
		}
		x, y, c := first%b.row/b.channels, first/b.row, first%b.channels
		return nil, fmt.Errorf("flat field: %d of %d samples can't be corrected: the first, channel %d at (%d, %d), is %.1f "+
			"in bright frames and %d in dark ones, and the level is %.1f above that: the gain must be below 16, and not 0",
			wrong, n, c, x, y, float64(b.sums[first])/float64(b.count), darks[first],
			float64(target[c])/float64(count)/float64(b.count))
	}
	for i := range n {
		if out.Dark = append(out.Dark, byte(darks[i])); b.size == 2 {
			out.Dark = append(out.Dark, byte(darks[i]>>8))
		}
		out.Gain = append(out.Gain, byte(gains[i]), byte(gains[i]>>8))
	}
	return out, nil
}

// gainOf is target * 2^fraction / (above * count), rounded to nearest, or more than there may be.
func gainOf(target, above, count uint64, fraction uint) uint64 {
	by := above * count
	hi, lo := bits.Mul64(target, 1<<fraction)
	lo, carry := bits.Add64(lo, by/2, 0)
	if hi += carry; hi >= by {
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, by)
	return q
}

// flatSums adds up frames.
type flatSums struct {
	what     string
	columns  bool
	like     *polyscanv1.FrameLayout // what frames must have; nil where the first one says
	layout   *polyscanv1.FrameLayout
	size     int // bytes of a sample
	bits     uint32
	channels int
	row      int // samples
	frames   int
	count    uint64 // samples of each sum
	sums     []uint64
	last     []byte
	squares  float64 // of what frames differ by from those before
}

func (s *flatSums) addAll(frames iter.Seq2[*polyscanv1.Frame, error]) error {
	for f, err := range frames {
		if err != nil {
			return err
		}
		if err := s.add(f); err != nil {
			name := f.GetFrameId()
			if name == "" {
				name = fmt.Sprint(s.frames + 1)
			}
			return fmt.Errorf("flat field: %s frame %s: %w", s.what, name, err)
		}
	}
	return nil
}

// begin takes the layout of the first frame.
func (s *flatSums) begin(l *polyscanv1.FrameLayout) error {
	s.layout, s.size, s.bits = l, 1, 8
	switch f := l.GetPixelFormat(); f {
	case Gray8, Gray16LE, RGB8, BGR8, RGBA8:
		s.channels = PixelBytes(f)
		if f == Gray16LE {
			if s.size, s.channels, s.bits = 2, 1, l.GetSignificantBits(); s.bits == 0 {
				s.bits = 16
			}
		}
	default:
		return fmt.Errorf("pixel format %v: want GRAY8, GRAY16LE, RGB8, BGR8 or RGBA8", f)
	}
	s.row = int(l.GetWidth()) * s.channels
	rows := int(l.GetHeight())
	if s.columns {
		rows = 1
	}
	s.sums = make([]uint64, s.row*rows)
	return nil
}

func (s *flatSums) add(f *polyscanv1.Frame) error {
	l := f.GetLayout()
	raw := Raw{Width: int(l.GetWidth()), Height: int(l.GetHeight()), Format: l.GetPixelFormat(),
		Stride: int(l.GetStride())}
	need, err := raw.Bytes()
	switch {
	case err != nil:
		return err
	case int64(len(f.GetData())) < need:
		return fmt.Errorf("%d bytes of pixels: the layout takes %d", len(f.GetData()), need)
	}
	if s.like == nil {
		s.like = l
	}
	if a := s.like; a.GetWidth() != l.GetWidth() || a.GetHeight() != l.GetHeight() ||
		a.GetPixelFormat() != l.GetPixelFormat() || a.GetSignificantBits() != l.GetSignificantBits() {
		layout := func(l *polyscanv1.FrameLayout) string {
			text := fmt.Sprintf("%dx%d of %v", l.GetWidth(), l.GetHeight(), l.GetPixelFormat())
			if n := l.GetSignificantBits(); n > 0 {
				text += fmt.Sprintf(" with %d bits", n)
			}
			return text
		}
		return fmt.Errorf("%s: the first one has %s", layout(l), layout(a))
	}
	if s.layout == nil {
		if err := s.begin(l); err != nil {
			return err
		}
	}
	stride := raw.Stride
	if stride == 0 {
		stride = s.row * s.size
	}
	most, saturated, samples := uint64(1)<<s.bits-1, 0, 0
	for y := range raw.Height {
		row, last := f.GetData()[y*stride:], s.last
		if last != nil {
			last = last[y*stride:]
		}
		sums := s.sums
		if !s.columns {
			sums = s.sums[y*s.row:]
		}
		for i := range s.row {
			v := sampleOf(row, i, s.size)
			if v > most {
				return fmt.Errorf("a sample of %d at row %d is above %d, the most that %d bits hold", v, y, most, s.bits)
			}
			sums[i] += v
			if i%s.channels == 3 {
				continue
			}
			if samples++; v == most {
				saturated++
			}
			if last != nil {
				d := float64(v) - float64(sampleOf(last, i, s.size))
				s.squares += d * d
			}
		}
	}
	if share := float64(saturated) / float64(samples); share > mostSaturated {
		return fmt.Errorf("%.2f %% of its samples are saturated, %d: at most %.1f %% may be, so expose less", 100*share, most,
			100*mostSaturated)
	}
	s.last = f.GetData()
	s.frames++
	s.count++
	if s.columns {
		s.count += uint64(raw.Height) - 1
	}
	return nil
}

// noisy refuses frames whose noise would be in the gains, and those so dark that the rounding of samples would. total
// is what all samples of a channel are above the dark, as often as they are summed, and count how many there are. Noise
// is what frames differ by from those before; one frame tells none.
func (s *flatSums) noisy(total []uint64, count uint64) error {
	mean := 0.0
	for c, t := range total {
		if c < 3 {
			level := float64(t) / float64(count) / float64(s.count)
			if rounding := 1 / math.Sqrt(12); level > 0 && rounding > mostNoise*level {
				return fmt.Errorf("flat field: bright frames are %.1f above dark ones in channel %d, where samples are rounded by "+
					"%.1f %%: at most %.0f %% may be, so give more light or expose longer, to %.0f or more", level, c,
					100*rounding/level, 100*mostNoise, math.Ceil(rounding/mostNoise))
			}
			mean += level / float64(min(len(total), 3))
		}
	}
	if s.frames < 2 || mean == 0 {
		return nil
	}
	samples := float64(int(s.layout.GetHeight())*s.row) * float64(min(len(total), 3)) / float64(len(total))
	noise := math.Sqrt(s.squares / float64(s.frames-1) / samples / 2)
	if left := noise / math.Sqrt(float64(s.count)); left > mostNoise*mean {
		return fmt.Errorf("flat field: bright frames have noise of %.1f at a level of %.1f, which leaves %.1f %% in gains of "+
			"%d of them: at most %.0f %% may be left, so take %d frames or more, or more light", noise, mean, 100*left/mean,
			s.frames, 100*mostNoise, int(math.Ceil(float64(s.frames)*math.Pow(left/mean/mostNoise, 2))))
	}
	return nil
}

func sampleOf(row []byte, i, size int) uint64 {
	if size == 1 {
		return uint64(row[i])
	}
	return uint64(row[2*i]) | uint64(row[2*i+1])<<8
}
