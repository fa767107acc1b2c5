// plan: a request after checking, ready to be run.

package polygon

import (
	"slices"

	"github.com/polyscan/polyscan/internal/exact"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// plan is what one call computes.
type plan struct {
	set      *Set
	frame    kernels.Picture
	channels []Channel
	output   Output
	listed   Statistics // what the call asked for
	asked    Statistics // what is returned
	want     Statistics // what is computed
	what     driver.MaskWhat

	distribution bool // the distribution of samples is needed
	percentiles  []float64
	fractions    []exact.Fraction // of percentiles, where they are computed
	method       PercentileMethod
	bins         binner

	offsets       []Offset // of pairs of pixels: those asked for, and those of limits; none without pairs
	listedOffsets int      // how many were asked for
	levels        int      // grey levels of pairs
	matrices      bool     // the counts are returned, too

	covered          bool // pixels are weighted, for results or limits
	coveredListed    bool // for results
	coveredHistogram bool
	blobs            *BlobSpec // nil where none are wanted
	listedBlobs      bool      // they are returned, and not only for limits
	blobChannel      int       // of channels
	blobSteps        []driver.BlobStep

	correlations       []Correlation // those asked for, and those of limits
	listedCorrelations int           // how many were asked for
	correlating        []correlating // the ops that sum them up
	places             []sumPlace    // of each correlation
	others             map[string]kernels.Picture

	colors  driver.Colors
	own     int      // channels of the frame: those behind are derived
	slopes  int      // the last channels, which are derivatives
	codings []coding // of all channels; nil where none is derived
	binners []binner // likewise; nil where bins is that of all
}

const (
	needExtrema = Min | Max
	// needHistogram is derived from the distribution of samples.
	needHistogram = Histogram | Percentiles | Median | Mode | Distinct | needShape | Cumulative | needDistribution
)

func newPlan(s *Set, f kernels.Picture, r Reductions) (*plan, error) {
	bad := newInvalid()
	bad.Include(f.Check("frame"))
	return makePlan(bad, s, f, r)
}

// makePlan is newPlan where bad says already what is wrong with the frame.
func makePlan(bad *kernels.InvalidError, s *Set, f kernels.Picture, r Reductions) (*plan, error) {
	r.check(bad)
	if err := bad.Err(); err != nil {
		return nil, err
	}
	p := &plan{set: s, frame: f, channels: channelsOf(f.Format), output: r.Output, listed: r.Statistics,
		method: r.PercentileMethod, levels: r.pairLevels()}
	p.addDerived(bad, &r)
	if p.planBlobs(bad, r.Blobs); len(bad.Violations) == 0 { // else limits are not of these blobs
		if err := p.checkLimits(&r); err != nil {
			return nil, err
		}
	}
	if (r.Statistics | s.needs).Has(Distances) {
		p.checkReferences(bad)
	}
	if p.listed == 0 {
		p.listed = Basic
	}
	switch f := r.Output.Fields; {
	case f.Has(FieldChannels):
	case f.Has(FieldCentroid):
		p.listed &= Centroid
	default:
		p.listed = 0
	}
	p.asked = p.listed
	if p.listed.Has(Percentiles) {
		p.percentiles = slices.Clone(r.Percentiles)
		if len(p.percentiles) == 0 {
			p.percentiles = DefaultPercentiles()
		}
		p.fractions = make([]exact.Fraction, len(p.percentiles))
		for i, v := range p.percentiles {
			p.fractions[i] = exact.Percent(v)
		}
	}
	series := int64(s.Len()) * int64(len(p.channels))
	if n := int64(len(p.fractions)); n*series > maxResultValues {
		bad.Add(path{"reductions", "percentiles"}, n,
			"makes %d values for %d regions of %d channels: the limit is %d",
			n*series, s.Len(), len(p.channels), maxResultValues)
	}
	p.planCovered(&r)
	if p.listed&(Histogram|Cumulative) != 0 || p.coveredHistogram {
		bins := int64(r.Histogram.Bins)
		if bins == 0 {
			bins = int64(f.Format.Levels())
		}
		if bins*series > maxResultValues {
			bad.Add(path{"reductions", "histogram", "bins"}, bins,
				"makes %d counts for %d regions of %d channels: the limit is %d",
				bins*series, s.Len(), len(p.channels), maxResultValues)
		} else {
			p.bins = newBinner(r.Histogram, f.Format.Levels())
			p.addBinners(f.Format.Levels())
		}
	}
	p.planPairs(bad, r.Cooccurrence)
	p.planCorrelations(bad, &r)
	if err := bad.Err(); err != nil {
		return nil, err
	}
	if r.Output.Columns {
		p.asked = columnsOf(p.listed, p.bins.full)
		if p.codings != nil { // of what they are made of, nothing follows
			p.asked |= p.listed &^ Cumulative
		}
	}
	if !p.asked.Has(Percentiles) {
		p.fractions = nil
	}
	p.want = p.asked | s.needs
	if slices.Contains(p.channels, Hue) && (p.want|p.listed)&hueStatistics&^(Count|Histogram|Cumulative) != 0 {
		p.want |= needDistribution
	}
	if p.coveredHistogram || p.blobs != nil && p.blobs.Threshold == ThresholdPercentiles {
		p.want |= needDistribution
	}
	p.distribution = p.want&needHistogram != 0
	if r.Output.Columns && p.bins.full && p.codings == nil { // which goes out as it is
		p.distribution = p.want&(needHistogram&^Histogram) != 0
	}
	p.what = driver.MaskSums
	if p.want&needHistogram != 0 {
		p.what |= driver.MaskHistogram
		if f.Format.Levels() > 256 {
			p.what |= driver.MaskExtrema // so that only the part of the histogram that is used need be looked at
		}
	}
	if p.want&needExtrema != 0 || f.Format.SampleBytes == 2 && f.Format.Bits < 16 {
		p.what |= driver.MaskExtrema
	}
	if p.want&(Centroid|Plane) != 0 {
		p.what |= driver.MaskMoments
	}
	return p, nil
}

// checkLimits refuses limits on channels that the frame does not have, and those that can't fail on its samples.
func (p *plan) checkLimits(r *Reductions) error {
	have := [Laplacian + 1]bool{NoChannel: true}
	for _, c := range p.channels {
		have[c] = true
	}
	missing := false
	for c, used := range p.set.channels {
		missing = missing || used && !have[c]
	}
	kept := slices.ContainsFunc(p.set.distinct, func(l *Limit) bool {
		return (l.quantity.distance() || l.quantity.ofPairs() || l.quantity.covered()) && p.derives(l.channel)
	})
	bad := newInvalid()
	for i := 0; (missing || kept) && i < len(p.set.names); i++ {
		for k, l := range p.set.Limits(i) {
			named := l.namedChannels()
			if at := slices.IndexFunc(named, func(c Channel) bool { return !have[c] }); at >= 0 {
				bad.Add(path{"regions", i, "limits", k}, quoted(l.expr), "the frame has no %v channel (%s)",
					named[at], p.frame.Format)
			} else if l.quantity.ofPairs() && p.derives(l.channel) {
				bad.Add(path{"regions", i, "limits", k}, quoted(l.expr), "pairs are of the frame's own channels (%s)",
					p.frame.Format)
			} else if l.quantity.covered() && p.derives(l.channel) {
				bad.Add(path{"regions", i, "limits", k}, quoted(l.expr),
					"covered pixels are of the frame's own channels (%s)", p.frame.Format)
			} else if l.quantity.distance() && p.derives(l.channel) &&
				p.set.references[i].kept != nil {
				bad.Add(path{"regions", i, "limits", k}, quoted(l.expr),
					"the reference's counts are of the frame's own channels: compare %v with another region", l.channel)
			}
		}
	}
	if len(bad.Violations) == 0 {
		of := reducing(p.frame.Format.Levels()-1, r)
		if p.own <= 2 {
			of.only = p.channels[0]
		}
		p.set.checkToothless(bad, of, p.frame.Format.String())
	}
	return bad.Err()
}

// namedChannels are those that a limit names, NoChannel where it names none.
func (l *Limit) namedChannels() []Channel {
	named := []Channel{l.channel}
	if l.expression != nil {
		for n := range l.expression.operands {
			named = append(named, l.expression.operands[n].is.channel)
		}
	}
	return named
}

// histogramBytes is the size of a region's histograms on the device; 0 without histograms.
func (p *plan) histogramBytes() int64 {
	if p.what&driver.MaskHistogram == 0 {
		return 0
	}
	n := int64(len(p.channels)-p.slopes) * int64(p.frame.Format.Levels())
	if p.slopes > 0 { // one after the other
		bits, _ := driver.DerivativeBits(int(p.frame.Format.Bits))
		n += 1 << bits
	}
	return 4 * n
}
