//go:build cuda

// MaskReduce with colours: the results are set to those of no pixel, then a kernel for each space adds its channels,
// those of the frame among them.

package cuda

import (
	"cmp"

	"github.com/polyscan/polyscan/kernels/driver"
)

// colorKernel is a kernel of sums alone: behind it is that with extrema and moments, then that with histograms, too.
type colorKernel struct {
	is       driver.ColorSpaces // 0 for channels of the frame
	kernel   kernelFor[colorArgs]
	channels int
	words    int // of shared memory, of 4 bytes, beside the table of parts
}

var colorKernels = [...]colorKernel{
	{0, colorRgb, 3, 0}, {0, colorAlpha, 1, 0}, {driver.ColorGray, colorGray, 1, 0},
	{driver.ColorGray709, colorGray709, 1, 0}, {driver.ColorHSV, colorHsv, 3, 256}, {driver.ColorLab, colorLab, 3, 2052},
	{driver.ColorMatrix, colorMatrix, 3, 0},
}

// shared is how many bytes of shared memory a kernel takes with histograms or without, where a block can have so many,
// and how often the table of parts is in it, as a power of two. That fits four times on every machine.
func (k *colorKernel) shared(histograms bool, most int) (bytes, copies int) {
	bytes = 4 * k.words
	if histograms {
		bytes += k.channels * 256 * 4 * 4
	}
	if k.is != driver.ColorLab {
		return bytes, 0
	}
	const parts = 3 * 256 * 8
	for copies = colorCopies; copies > 2 && bytes+parts<<copies > most; {
		copies--
	}
	return bytes + parts<<copies, copies
}

// reduceColors is the rest of maskReduce for an op with colours.
func (s *stream) reduceColors(op *driver.MaskReduce, p *preparedSet) error {
	im := op.Frame
	args := colorArgs{
		P:        p.view(),
		Frame:    at(im.Data),
		FrameEnd: at(im.Data) + uint64(im.Data.Len),
		Stats:    at(op.Stats),
		Hist:     at(op.Hist),
		Stride:   uint64(im.Stride),
		First:    uint32(op.First),
		Count:    uint32(op.Count),
		Row0:     int32(op.Row0),
		Rows:     int32(im.Height),
		Bytes:    uint32(im.Format.Channels),
		Channels: uint32(op.Channels()),
		What:     uint32(op.What),
	}
	for c, at := range im.Format.Order[:im.Format.Channels] {
		args.Order |= uint32(at) << (8 * c)
	}
	for k, row := range [...]*[4]int32{&args.X, &args.Y, &args.Z} {
		m := &op.Colors.Matrix[k]
		*row = [4]int32{m.C[0], m.C[1], m.C[2], m.Offset}
	}
	if op.Row0 == 0 && im.Height == int(p.head.Height) {
		args.Whole = 1
	}
	if !op.Accumulate {
		args.Cleared = 1
		if err := s.clearReduction(op); err != nil {
			return err
		}
	}
	variant, threads := kernelFor[colorArgs](0), colorThreads
	histograms := op.What&driver.MaskHistogram != 0
	if histograms {
		variant, threads = 2, colorAllThreads
	} else if op.What&(driver.MaskExtrema|driver.MaskMoments) != 0 {
		variant, threads = 1, colorAllThreads
	}
	blocks := int(min(uint64(s.dev.info.ComputeUnits), p.slots(op.First, op.Count)))
	for i := range colorKernels {
		k := &colorKernels[i]
		if k.is&op.Colors.Spaces == 0 && k.is != 0 || k.kernel == colorAlpha && im.Format.Channels < 4 {
			continue
		}
		shared, copies := k.shared(histograms, s.dev.colorShared)
		args.Copies = uint32(copies)
		if err := (k.kernel + variant).launch(s, blocks, 1, threads, shared, &args); err != nil {
			return err
		}
		args.Channel += uint32(k.channels)
		args.Cleared = 0
	}
	return nil
}

// clearReduction sets the results of a reduction to those of no pixel.
func (s *stream) clearReduction(op *driver.MaskReduce) error {
	n := op.Stats.Len / statsBytes
	args := reduceClearParams{at(op.Stats), uint64(n), at(op.Hist), uint64(op.Hist.Len / 16)}
	words := max(n*(statsBytes/8), op.Hist.Len/16)
	blocks := int(min((words+clearThreads-1)/clearThreads, maxClearBlocks))
	return reduceClear.launch(s, blocks, 1, clearThreads, 0, &args)
}

// reserveColors lets blocks of Lab have all copies of the table of parts.
func (d *device) reserveColors(most int) error {
	for variant := range kernelFor[colorArgs](3) {
		n, code := reserveShared(d.kernels[colorLab+variant], most)
		if code != 0 {
			return failedCode("cuFuncSetAttribute "+kernelNames[colorLab+variant].name, code)
		}
		d.colorShared = cmp.Or(min(d.colorShared, n), n)
	}
	return nil
}
