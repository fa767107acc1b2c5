// Comparing distributions: a region's with its reference, which is kept or is another region's.

package polygon

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/polyscan/polyscan/internal/exact"
	"github.com/polyscan/polyscan/kernels"
)

// reference is what a region is compared with.
type reference struct {
	with int            // the other region; -1 where there is none
	kept []distribution // of all channels, or one; nil where nothing is kept
}

// link is what is kept of a region that is compared with another until both are known.
type link struct {
	dist []distribution // of its channels
	why  string         // its limits can't pass, if they can't
}

// addReferences checks what regions are compared with.
func (s *Set) addReferences(bad *kernels.InvalidError, regions []Region) {
	if !slices.ContainsFunc(regions, func(r Region) bool { return r.Reference != nil }) {
		return
	}
	s.references = make([]reference, len(regions))
	named := make(map[string]int, len(regions)) // -1 where several have the name
	for i := range regions {
		if _, again := named[regions[i].Name]; again {
			named[regions[i].Name] = -1
		} else {
			named[regions[i].Name] = i
		}
	}
	for i := range regions {
		s.references[i].with = -1
		r := regions[i].Reference
		if r == nil {
			continue
		}
		at := path{"regions", i, "reference"}
		switch with, known := named[r.Region]; {
		case r.Region == "" && len(r.Counts) == 0:
			bad.Add(at, "", "must have a region or counts")
		case r.Region == "":
			s.references[i].kept = keptCounts(bad, at, r.Counts)
		case len(r.Counts) > 0:
			bad.Add(at, quoted(r.Region), "must not have counts beside a region")
		case !known:
			bad.Add(at.Join("region"), quoted(r.Region), "is no region of the set")
		case with < 0:
			bad.Add(at.Join("region"), quoted(r.Region), "is the name of several regions")
		case with == i:
			bad.Add(at.Join("region"), quoted(r.Region), "is the region itself")
		default:
			s.references[i].with = with
			if s.linked == nil {
				s.linked = make([]bool, len(regions))
			}
			s.linked[i], s.linked[with] = true, true
		}
	}
}

// keptCounts compiles counts by value.
func keptCounts(bad *kernels.InvalidError, at path, counts [][]uint32) []distribution {
	if len(counts) > int(Alpha-Gray) {
		bad.Add(at.Join("counts"), len(counts), "are too many: a frame has at most 4 channels")
		return nil
	}
	kept := make([]distribution, len(counts))
	for c, list := range counts {
		sum := uint64(0)
		for _, n := range list {
			sum += uint64(n)
		}
		if len(list) > mostSample || sum < 1 || sum > math.MaxUint32 {
			bad.Add(at.Join("counts", c), fmt.Sprintf("%d counts of %d samples", len(list), sum),
				"must be at most %d counts of 1 to %d samples", mostSample, uint32(math.MaxUint32))
			continue
		}
		kept[c].load(list, 0)
	}
	return kept
}

// checkReferences refuses distributions that are kept for frames with other channels, or with more levels.
func (p *plan) checkReferences(bad *kernels.InvalidError) {
	levels := p.frame.Format.Levels()
	for i := range p.set.references {
		kept := p.set.references[i].kept
		at := path{"regions", i, "reference", "counts"}
		if n := len(kept); n > 1 && n != p.own {
			bad.Add(at, n, "must be 1 or %d, as the frame has channels (%s)", p.own, p.frame.Format)
		}
		for c := range kept {
			if v := kept[c].values; int(v[len(v)-1]) >= levels {
				bad.Add(at.Join(c), fmt.Sprintf("a sample of %d", v[len(v)-1]), "is above %d, the most that samples of %s are",
					levels-1, p.frame.Format)
			}
		}
	}
}

// compare derives the distances of channel c of region i, or keeps its distribution until the other region is known.
func (d *deriver) compare(i, c int, to *ChannelStatistics, dist *distribution) {
	if d.set.linked != nil && d.set.linked[i] {
		d.links[i].dist = append(d.links[i].dist, distribution{
			values: slices.Clone(dist.values), cumulative: slices.Clone(dist.cumulative)})
	}
	if d.set.references == nil {
		return
	}
	if kept := d.set.references[i].kept; kept != nil && c < d.own && dist.count() > 0 {
		dist.distances(&kept[min(c, len(kept)-1)], to)
	}
}

// ComparedBytes is about how much host memory the distributions of regions take that are compared with other regions,
// until all are known: of each channel a value and a count for each different sample. It is 0 where r and the set's
// limits don't ask for distances.
func (s *Set) ComparedBytes(r Reductions, f kernels.PixelFormat, channels int) (n int64) {
	if !(r.Statistics | s.needs).Has(Distances) {
		return 0
	}
	for i, linked := range s.linked {
		if linked {
			n += 12 * min(int64(f.Levels()), s.mostPixels(i))
		}
	}
	return n * int64(channels)
}

// compareRegions derives the distances of the regions that are compared with others, and what their limits come to.
// pause, where it isn't nil, lets others go first, about every millisecond unless two distributions take longer; its
// error ends the comparing.
func (d *deriver) compareRegions(pause func() error) error {
	if d.links == nil || d.set.linked == nil || !d.want.Has(Distances) {
		return nil
	}
	nc, pace := len(d.channels), pacer{pause: pause, left: setPiece}
	for i := range d.links {
		with := d.set.references[i].with
		if with < 0 {
			continue
		}
		own, other, limits := &d.links[i], &d.links[with], d.set.Limits(i)
		outcomes := make([]outcome, len(limits))
		for c, channel := range d.channels {
			var found ChannelStatistics
			if own.dist[c].count() > 0 && other.dist[c].count() > 0 && channel != Hue {
				own.dist[c].distances(&other.dist[c], &found)
				if err := pace.took(len(own.dist[c].values) + len(other.dist[c].values)); err != nil {
					return err
				}
				found.Wasserstein *= d.coding(c).width()
			}
			for k, l := range limits {
				if !l.quantity.distance() || l.channel != channel && (l.channel != NoChannel || !d.unnamed(c)) {
					continue
				}
				if found.Has != 0 {
					outcomes[k].see(l, *shapes[l.quantity-quantitySkewness].field(&found), channel)
				} else if own.dist[c].count() > 0 {
					outcomes[k].lack(channel, "the reference "+quoted(d.set.names[with])+" caught no pixel")
				}
			}
			if found.Has&d.asked == 0 {
				continue
			}
			for _, s := range shapes {
				if s.is != Distances {
					continue
				}
				if cols := d.res.Columns; cols != nil {
					(*s.column(cols))[i*nc+c] = *s.field(&found)
				} else {
					*s.field(&d.res.Regions[i].Channels[c]) = *s.field(&found)
					d.res.Regions[i].Channels[c].Has |= Distances
				}
			}
		}
		why := own.why
		if why == "" && other.why != "" {
			why = "the reference " + quoted(d.set.names[with]) + ": " + other.why
		}
		for k, l := range limits {
			if l.quantity.distance() {
				d.put(i, k, l.judge(&outcomes[k], why))
			}
		}
	}
	return nil
}

// put puts the outcome of limit k of region i, which was judged late, in its place and into the region's verdict.
func (d *deriver) put(i, k int, r LimitResult) {
	var verdict *Verdict
	if cols := d.res.Columns; cols != nil {
		verdict = &cols.Verdict[i]
		if cols.Limits != nil {
			cols.Limits[int(d.set.limitFrom[i])+k] = r
		}
	} else {
		verdict = &d.res.Regions[i].Verdict
		d.res.Regions[i].Limits[k] = r
	}
	if r.Verdict == Fail {
		*verdict = Fail
	} else if *verdict == NoVerdict {
		*verdict = Pass
	}
}

// distances compares d with o, both of which have samples. With shares p = a/(nm) and q = b/(nm) of a value, where a
// and b are integers, the cumulative distributions differ by integers, too; the other two distances are sums of terms
// that are never negative, of t = |a-b|/(a+b): (a+b) t^2, and (a+b) ((1+t) log2(1+t) + (1-t) log2(1-t)).
func (d *distribution) distances(o *distribution, to *ChannelStatistics) {
	n, m := d.count(), o.count()
	var greatest, hi, lo uint64 // of |F-G| nm, and the area between F and G, times nm
	var square, divergence compensated
	var f, g uint64 // F nm and G nm so far
	last := uint32(0)
	for i, k := 0, 0; i < len(d.values) || k < len(o.values); {
		v := uint32(math.MaxUint32)
		if i < len(d.values) {
			v = d.values[i]
		}
		if k < len(o.values) {
			v = min(v, o.values[k])
		}
		area, low := bits.Mul64(max(f, g)-min(f, g), uint64(v-last))
		var carry uint64
		lo, carry = bits.Add64(lo, low, 0)
		hi += area + carry
		last = v
		f0, g0 := f, g
		if i < len(d.values) && d.values[i] == v {
			f = d.cumulative[i] * m
			i++
		}
		if k < len(o.values) && o.values[k] == v {
			g = o.cumulative[k] * n
			k++
		}
		greatest = max(greatest, max(f, g)-min(f, g))
		a, b := f-f0, g-g0
		if a < b {
			a, b = b, a
		}
		sum := float64(a) + float64(b)
		t := float64(a-b) / sum
		square.add(float64(sum * float64(t*t)))
		divergence.add(float64(sum * spread(t, float64(a)/sum, float64(b)/sum)))
	}
	to.KolmogorovSmirnov = exact.Quotient(0, greatest, n*m)
	to.Wasserstein = exact.Quotient(hi, lo, n*m)
	all := float64(n * m)
	to.ChiSquare = min(square.sum/all/2, 1)
	to.JensenShannon = min(divergence.sum/all/4, 1)
	to.Has |= Distances
}

// spread is (1+t) log2(1+t) + (1-t) log2(1-t), where 1+t is 2p and 1-t is 2q: for small t, of which p and q don't tell
// enough, the series t^2/1 + t^4/6 + t^6/15 + ..., whose terms are t^2k / (k (2k-1)), divided by ln 2.
func spread(t, p, q float64) float64 {
	if t >= 0.5 {
		v := float64(2 * p * log2(2*p))
		if q > 0 {
			v += float64(2 * q * log2(2*q))
		}
		return v
	}
	square := float64(t * t)
	series := 0.0
	for k := 26.0; k >= 1; k-- {
		series = float64(series*square) + float64(1/float64(k*(2*k-1)))
	}
	return float64(float64(square*series) / math.Ln2)
}

// log2 is that of a positive number, by logarithm.
func log2(v float64) float64 {
	f, e := math.Frexp(v)
	if f < math.Sqrt2/2 {
		f, e = 2*f, e-1
	}
	return logarithm(e, (f-1)/(f+1))
}

// compensated is a sum of numbers of one sign, by Kahan: its error doesn't grow with their number.
type compensated struct{ sum, lost float64 }

func (c *compensated) add(v float64) {
	v -= c.lost
	next := float64(c.sum + v)
	c.lost = float64(float64(next-c.sum) - v)
	c.sum = next
}
