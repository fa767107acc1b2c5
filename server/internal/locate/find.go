// Fiducials in a frame.

package locate

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
)

// Locate finds the part in a frame. A part that is not there is no error: see [Location].Reason. Each fiducial takes up
// to three jobs, each of which uploads the rows of its window.
func (l *Locator) Locate(ctx context.Context, dev *kernels.Device, f kernels.Picture) (*Location, error) {
	loc := &Location{Marks: make([]Mark, len(l.windows))}
	for i := range l.windows {
		m := &loc.Marks[i]
		m.Name = l.cfg.Fiducials[i].Window.Name
		if err := l.find(ctx, dev, f, i, m); err != nil {
			return nil, err
		}
		m.Found = m.Reason == ""
	}
	l.settle(loc)
	return loc, nil
}

// channel is where the fiducial is looked for, in a frame of so many channels.
func (f *Fiducial) channel(channels int) polygon.Channel {
	switch {
	case f.Channel != polygon.NoChannel:
		return f.Channel
	case channels > 2:
		return polygon.Green
	}
	return polygon.Gray
}

// find looks for a fiducial, and says in m where it is, or why it is not there.
func (l *Locator) find(ctx context.Context, dev *kernels.Device, p kernels.Picture, i int, m *Mark) error {
	f, window := &l.cfg.Fiducials[i], l.windows[i]
	miss := func(format string, args ...any) error {
		m.Reason = fmt.Sprintf("fiducial %q: ", m.Name) + fmt.Sprintf(format, args...)
		return nil
	}
	levels := p.Format.Levels()
	seen := polygon.Reductions{Statistics: polygon.Count | polygon.Histogram,
		Histogram: polygon.HistogramSpec{Bins: min(levels, 256), Upper: float64(levels)}}
	res, err := polygon.Reduce(ctx, dev, window, p, seen, 0)
	if err != nil {
		return err
	}
	r := &res.Regions[0]
	wanted := f.channel(len(r.Channels))
	c := slices.IndexFunc(r.Channels, func(c polygon.ChannelStatistics) bool { return c.Channel == wanted })
	switch {
	case c < 0:
		return miss("the frame (%s) has no channel %v", p.Format, f.Channel)
	case r.Count == 0 || !r.CoverageKnown || r.Coverage < 1:
		return miss("its window reaches outside the frame")
	case f.Threshold >= levels || f.Dark && f.Threshold == levels-1: // or all of them are dark
		return miss("its threshold is %d, and samples of %s are 0 to %d", f.Threshold, p.Format, levels-1)
	}
	channel := r.Channels[c].Channel
	if f.Threshold > 0 {
		if m.Threshold = float64(f.Threshold) - 0.5; f.Dark {
			m.Threshold++
		}
		b, err := l.blob(ctx, dev, p, i, channel, r.Bounds, m, miss)
		if b == nil || err != nil {
			return err
		}
		return l.centre(ctx, dev, p, channel, b, m, miss)
	}
	// Where the mark is the smaller part of a busy window, the first threshold lies within what is around it, and the mark
	// in one blob with that: then the pixels beyond it are split again.
	counts := slices.Clone(r.Channels[c].Histogram.Counts)
	width := float64(levels) / float64(len(counts))
	for range mostSplits {
		t, low, high := otsu(counts)
		if contrast := (high - low) * width; !(contrast >= leastContrast*float64(levels-1)) {
			if m.Reason == "" {
				return miss("no %s %s is in its window: the means of its dark and its bright pixels are %.1f apart, and must "+
					"be %.1f", f.brightness(), kindNames[f.Kind], contrast, leastContrast*float64(levels-1))
			}
			return nil
		}
		m.Threshold = float64(t)*width - 0.5
		b, err := l.blob(ctx, dev, p, i, channel, r.Bounds, m, miss)
		if err != nil {
			return err
		}
		if b != nil {
			m.Reason = ""
			return l.centre(ctx, dev, p, channel, b, m, miss)
		}
		if f.Dark {
			clear(counts[t:])
		} else {
			clear(counts[:t])
		}
	}
	return nil
}

// blob is the one blob in a window, whose pixels lie in bounds, that may be the fiducial; nil where there is none, or
// more than one, and m says why.
func (l *Locator) blob(ctx context.Context, dev *kernels.Device, p kernels.Picture, i int, channel polygon.Channel,
	bounds polygon.Rect, m *Mark, miss func(string, ...any) error) (*polygon.Blob, error) {
	f := &l.cfg.Fiducials[i]
	spec := &polygon.BlobSpec{Channel: channel, Range: polygon.Span{From: m.Threshold, To: math.Inf(1)},
		MinArea: f.MinArea, MaxBlobs: mostCandidates, Order: polygon.ByArea, Contours: true}
	if f.Dark {
		spec.Range = polygon.Span{From: math.Inf(-1), To: m.Threshold}
	}
	found, err := polygon.Reduce(ctx, dev, l.windows[i], p, polygon.Reductions{Statistics: polygon.Count, Blobs: spec}, 0)
	if err != nil {
		return nil, err
	}
	blobs := found.Regions[0].Blobs
	var fitting []*polygon.Blob
	rim, form := 0, 0
	for k := range blobs.Blobs {
		switch b := &blobs.Blobs[k]; {
		case b.Area > uint64(f.MaxArea):
		case touches(b.Bounds, bounds):
			rim++
		case !f.Kind.fits(b):
			form++
		default:
			fitting = append(fitting, b)
		}
	}
	switch {
	case blobs.Kept > uint64(len(blobs.Blobs)):
		return nil, miss("its window has %d %s blobs of %d px or more: the limit is %d", blobs.Kept, f.brightness(),
			f.MinArea, mostCandidates)
	case len(fitting) == 0:
		return nil, miss("no %s %s of %s is in its window: of %d blobs beyond the threshold of %v, %d touch its border "+
			"and %d have another form", f.brightness(), kindNames[f.Kind], f.areas(), blobs.Found, m.Threshold, rim, form)
	case len(fitting) > 1:
		a, b := fitting[0], fitting[1]
		return nil, miss("%d %s blobs of %s in its window are alike, the first two at (%.1f, %.1f) and (%.1f, %.1f)",
			len(fitting), f.brightness(), f.areas(), a.Centroid.X, a.Centroid.Y, b.Centroid.X, b.Centroid.Y)
	}
	return fitting[0], nil
}

// centre finds the centroid of a blob and the pixels up to margin about it, weighted by how far each differs from the
// mean of those behind them, up to ring. The weights are linear in what a pixel has of the mark, so that the centre is
// that of the mark wherever the pixels lie on it, and however blurred it is within the margin.
func (l *Locator) centre(ctx context.Context, dev *kernels.Device, p kernels.Picture, channel polygon.Channel,
	b *polygon.Blob, m *Mark, miss func(string, ...any) error) error {
	if b.Contour == nil {
		return miss("its blob has too many runs of pixels")
	}
	outset := func(by float64) polygon.Region {
		return polygon.Region{Shape: fmt.Sprintf("outset of \"blob\" by %v", by)}
	}
	set, err := polygon.NewSet([]polygon.Region{{Name: "blob", Rings: b.Contour, Fill: polygon.EvenOdd}, outset(margin),
		outset(ring)}, polygon.Bounds{})
	if err != nil {
		return miss("around its blob: %v", err)
	}
	res, err := polygon.Reduce(ctx, dev, set, p, polygon.Reductions{Statistics: polygon.Sum | polygon.Centroid}, 0)
	if err != nil {
		return err
	}
	near, far := &res.Regions[1], &res.Regions[2]
	if !far.CoverageKnown || far.Coverage < 1 {
		return miss("its blob lies less than %d px from the border of the frame", ring)
	}
	c := slices.IndexFunc(near.Channels, func(c polygon.ChannelStatistics) bool { return c.Channel == channel })
	sum := near.Channels[c].Sum
	around := float64(far.Channels[c].Sum-sum) / float64(far.Count-near.Count)
	// The weights are v - a, and their sum S - na, below 0 for dark marks. That of (v - a)(x - mean of x) is that of
	// v (x - mean of x), which is S times how far the weighted centroid lies from the mean.
	if m.At = near.Centroid; sum > 0 {
		share := float64(sum) / (float64(sum) - float64(float64(near.Count)*around))
		weighted := near.Channels[c].WeightedCentroid
		m.At.X += float64(share * (weighted.X - near.Centroid.X))
		m.At.Y += float64(share * (weighted.Y - near.Centroid.Y))
	}
	if !(math.Abs(m.At.X-b.Centroid.X) < margin && math.Abs(m.At.Y-b.Centroid.Y) < margin) {
		return miss("what is around its blob differs from that by too little, or on one side: its centre would lie at "+
			"(%.1f, %.1f), that of the blob lies at (%.1f, %.1f)", m.At.X, m.At.Y, b.Centroid.X, b.Centroid.Y)
	}
	m.Area = int(b.Area)
	return nil
}

func (f *Fiducial) brightness() string {
	if f.Dark {
		return "dark"
	}
	return "bright"
}

func (f *Fiducial) areas() string {
	if f.MaxArea == polygon.MostMinArea {
		return fmt.Sprintf("%d px or more", f.MinArea)
	}
	return fmt.Sprintf("%d to %d px", f.MinArea, f.MaxArea)
}

// touches says that a blob lies at the border of its window, which may have cut it.
func touches(b, window polygon.Rect) bool {
	return b.X0 <= window.X0 || b.Y0 <= window.Y0 || b.X1 >= window.X1 || b.Y1 >= window.Y1
}

// fits says that a blob may be of a kind. All kinds are as long as they are broad. The roundness of a disc is about 1,
// that of a square 0.7 to 0.9 by how it is turned, and that of a cross less.
func (k Kind) fits(b *polygon.Blob) bool {
	switch {
	case k == AnyKind:
		return true
	case b.Breadth < 0.8*b.Length || b.Holes > 0:
		return false
	case k == Circle:
		return b.Roundness > 0.8
	case k == Square:
		return b.Roundness > 0.6 && b.Roundness < 0.98
	}
	return b.Roundness < 0.7
}

// otsu splits a histogram in two where the variance between both is greatest, in the middle of the bins that do as
// well, and returns the first bin of the upper part and the means of both, in bins. A histogram of one bin isn't split.
func otsu(counts []uint64) (threshold int, low, high float64) {
	var n, sum uint64
	for v, c := range counts {
		n, sum = n+c, sum+c*uint64(v)
	}
	best, first, last := 0.0, 0, 0
	var below, belowSum uint64
	for v, c := range counts {
		if below > 0 && below < n {
			// n times as much, and never below 0: the difference of the means, squared, by the shares of both.
			a, b := float64(belowSum)/float64(below), float64(sum-belowSum)/float64(n-below)
			between := float64(below) * float64(n-below) * (b - a) * (b - a)
			switch {
			case between > best:
				best, first, last, low, high = between, v, v, a, b
			case between == best:
				last = v
			}
		}
		below, belowSum = below+c, belowSum+c*uint64(v)
	}
	return (first + last + 1) / 2, low, high
}
