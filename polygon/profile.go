// Profiles: means of the pixels of a region along its rows, along its columns, along a line, and around a centre.

package polygon

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/polyscan/polyscan/internal/exact"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// ProfileKind says along what a profile is.
type ProfileKind uint8

const (
	RowProfile    ProfileKind = iota + 1 // a bin is Bin rows, from the first one that the region's box reaches in the frame
	ColumnProfile                        // likewise, of columns
	RadialProfile                        // a bin is the pixels of which the distance from a centre is in [k Bin, (k+1) Bin)
	LineProfile                          // a bin is a part of a line
)

// Profile asks for sums of samples by bins, of the pixels of a region inside the frame. Lengths are in pixels, and pixels
// are where their centres are.
//
// A line has one segment or more, which move with a pose, as a centre does. Each is divided into bins of equal length: as
// many as its length over Bin, rounded to nearest, and 1 at least. A pixel belongs to the first segment that it lies
// beside, from the beginning up to but not with the end, in the bin of its foot, and at most Width/2 away: those exactly
// so far away count on the right of the way, and not on the left. Without a Width all pixels beside a segment belong to
// it. At a bend some on the outside belong to none.
type Profile struct {
	Kind   ProfileKind
	Points []Point // the centre, or where the segments of a line begin and end, up to MaxProfilePoints
	Width  float64 // of a line; 0 has no bounds
	Bin    int     // 1 to driver.MaxProfileStep; 0 means 1
}

// Bounds of profiles.
const (
	MaxProfiles      = 16 // of a call, those of limits included
	MaxProfilePoints = driver.MaxProfileSegments + 1
	// maxProfileBins is how many bins a call may have, of all profiles, regions and channels: 64 MiB.
	maxProfileBins = 1 << 22
)

// ProfilePiece is bins of equal size that lie behind each other.
type ProfilePiece struct {
	Bins int
	// Start is where the first of them begins: a row or a column of the frame, a distance from the centre, or one from
	// the beginning of the line. It and Size are correctly rounded, but for sums of lengths of segments.
	Start, Size float64
}

// ProfileValue is what a profile comes to in one channel. The mean of a bin is Sums/Counts, rounded once to float64. What
// is made of means is a value of float64 arithmetic, each step rounded once, and the same on every processor. Numbers
// without a value are NaN.
type ProfileValue struct {
	Profile
	Pieces       []ProfilePiece // one; of a line one for each segment
	Counts, Sums []uint64       // of each bin
	// Max and Min are the greatest and the least mean of bins with pixels, and Range is their difference.
	Max, Min, Range float64
	// Step is the steepest step: of neighbouring bins that have pixels, the second mean less the first, where its
	// magnitude is greatest, and of equal ones the first.
	Step float64
	// Edge is where that is: between the two bins, moved to the vertex of the parabola through the magnitudes of the
	// step and of those beside it where both are there. It has no value without a step other than 0.
	Edge float64
}

// numbers are those that are derived from the bins, in the order of their quantities.
func (v *ProfileValue) numbers() [5]*float64 {
	return [5]*float64{&v.Max, &v.Min, &v.Range, &v.Step, &v.Edge}
}

// profileNumbers are the names that limits have for them.
var profileNumbers = [5]string{"max", "min", "range", "step", "edge"}

// String is the profile as limits spell it, in the brackets behind "profile".
func (f Profile) String() string {
	var b strings.Builder
	switch f.Kind {
	case RowProfile:
		b.WriteString("rows")
	case ColumnProfile:
		b.WriteString("columns")
	case RadialProfile:
		b.WriteString("radius about ")
	case LineProfile:
		b.WriteString("line ")
	}
	for i, p := range f.Points {
		if i > 0 {
			b.WriteByte('-')
		}
		fmt.Fprintf(&b, "(%s,%s)", number(p.X), number(p.Y))
	}
	if f.Width > 0 {
		b.WriteString(" width " + number(f.Width))
	}
	if f.Bin > 1 {
		fmt.Fprintf(&b, " by %d", f.Bin)
	}
	return b.String()
}

// same says that both ask for the same.
func (f *Profile) same(o *Profile) bool {
	return f.Kind == o.Kind && slices.Equal(f.Points, o.Points) && f.Width == o.Width && max(f.Bin, 1) == max(o.Bin, 1)
}

// bytes is about how much memory it takes.
func (f *Profile) bytes() int64 { return 64 + 16*int64(cap(f.Points)) }

// wrong collects what is.
func (f *Profile) wrong(bad func(field string, value any, format string, args ...any)) {
	if f.Kind < RowProfile || f.Kind > LineProfile {
		bad("kind", uint8(f.Kind), "is no known kind")
		return
	}
	if f.Bin < 0 || f.Bin > driver.MaxProfileStep {
		bad("bin", f.Bin, "must be 0 to %d", driver.MaxProfileStep)
	}
	if !(f.Width == 0 || f.Width > 0 && f.Width <= driver.MaxProfileLength && f.Kind == LineProfile) {
		bad("width", number(f.Width), "must be up to %d px, of a line", driver.MaxProfileLength)
	}
	least, most := 0, 0
	switch f.Kind {
	case RadialProfile:
		least, most = 1, 1
	case LineProfile:
		least, most = 2, MaxProfilePoints
	}
	if n := len(f.Points); n < least || n > most {
		bad("points", n, "must be %d to %d", least, most)
		return
	}
	for _, p := range f.Points {
		for _, v := range []float64{p.X, p.Y} {
			if !(math.Abs(v) < maxCoordinate) {
				bad("points", fmt.Sprintf("(%s,%s)", number(p.X), number(p.Y)), "must be less than %d px from 0", maxCoordinate)
				return
			}
		}
	}
	if f.Kind == LineProfile {
		if _, _, why := f.segments(identity); why != "" {
			bad("points", f.String(), "%s", why)
		}
	}
}

// segments are those of a line that is moved, or why there are none.
func (f *Profile) segments(by affine) (out []driver.ProfileSegment, pieces []ProfilePiece, why string) {
	var ends [][2]int32
	for _, p := range f.Points {
		x, y := by.to(p.X, p.Y)
		if !(math.Abs(x) < maxCoordinate && math.Abs(y) < maxCoordinate) {
			return nil, nil, fmt.Sprintf("come to (%s,%s): must be less than %d px from 0", number(x), number(y), maxCoordinate)
		}
		ends = append(ends, [2]int32{quantise(x), quantise(y)})
	}
	first, start := uint32(0), 0.0
	for i, to := range ends[1:] {
		s := driver.ProfileSegment{X: ends[i][0], Y: ends[i][1], DX: to[0] - ends[i][0], DY: to[1] - ends[i][1], First: first}
		const long = driver.MaxProfileLength * driver.Subpixel
		switch {
		case s.DX == 0 && s.DY == 0:
			return nil, nil, fmt.Sprintf("have a segment of no length from point %d", i)
		case max(s.DX, s.DY) > long || min(s.DX, s.DY) < -long:
			return nil, nil, fmt.Sprintf("have a segment from point %d that is longer than %d px along an axis", i,
				driver.MaxProfileLength)
		}
		square := int64(s.DX)*int64(s.DX) + int64(s.DY)*int64(s.DY)
		n := binsOf(square, int64(max(f.Bin, 1))*driver.Subpixel)
		if int64(first)+n >= driver.MaxProfileBins {
			return nil, nil, fmt.Sprintf("make more than %d bins: make them longer", driver.MaxProfileBins-1)
		}
		s.Bins = uint32(n)
		s.Low, s.High = aside(square, int64(quantise(f.Width)))
		length := math.Sqrt(float64(square)) / driver.Subpixel
		pieces = append(pieces, ProfilePiece{int(n), start, length / float64(n)})
		out, first, start = append(out, s), first+s.Bins, start+length
	}
	return out, pieces, ""
}

// binsOf is the root of square, below 2^48, over a bin, rounded to nearest and 1 at least: the greatest n for which
// (2n-1) bin <= 2 root.
func binsOf(square, bin int64) int64 {
	fits := func(n int64) bool { return (2*n-1)*(2*n-1)*bin*bin <= 4*square }
	n := max(1, int64(math.Sqrt(float64(square))/float64(bin)+0.5))
	for n > 1 && !fits(n) {
		n--
	}
	for fits(n + 1) {
		n++
	}
	return n
}

// aside is the range of cross products of the pixels that are half a width away, [low, high): half the width times the
// root of square.
func aside(square, width int64) (low, high int64) {
	if width == 0 {
		return -driver.MaxProfileAside, driver.MaxProfileAside
	}
	four := new(big.Int).Mul(big.NewInt(width*width), big.NewInt(square)) // 4 times the square of what is wanted
	half := new(big.Int).Sqrt(new(big.Int).Rsh(four, 2))
	low = -half.Int64()
	high = half.Int64()
	if half.Mul(half, half).Lsh(half, 2).Cmp(four) < 0 {
		high++
	}
	return low, high
}

// profiling is a profile of a plan.
type profiling struct {
	what   *Profile
	op     driver.MaskProfile // what doesn't depend on the frame
	pieces []ProfilePiece     // of a line
	places []driver.ProfilePlace
	// Bins of all regions and channels, and where these begin among those of all profiles.
	bins, base int
}

// planProfiles finds the profiles of a call: those that were asked for, and then those of limits.
func (p *plan) planProfiles(bad *kernels.InvalidError, r *Reductions) {
	at := path{"reductions", "profiles"}
	add := func(f *Profile) {
		if !slices.ContainsFunc(p.profiles, func(o profiling) bool { return o.what.same(f) }) {
			p.profiles = append(p.profiles, profiling{what: f})
		}
	}
	if p.output.Fields.Has(FieldChannels) {
		for i := range r.Profiles {
			add(&r.Profiles[i])
		}
	}
	p.listedProfiles = len(p.profiles)
	for _, f := range p.set.profiles {
		add(f)
	}
	if n := len(p.profiles); n > MaxProfiles {
		bad.Add(at, n, "with those of limits are too many: the limit is %d", MaxProfiles)
		return
	}
	total := int64(0)
	for k := range p.profiles {
		f := &p.profiles[k]
		if why := f.place(p); why != "" {
			bad.Add(at, f.what.String(), "%s", why)
			return
		}
		n := int64(0)
		for i := range f.places {
			f.places[i].First = uint64(n)
			n += int64(f.places[i].Bins) * int64(p.own)
		}
		f.bins, f.base = int(n), int(total)
		total += (n + profileAlign - 1) / profileAlign * profileAlign
		if total > maxProfileBins {
			bad.Add(at, f.what.String(), "makes %d bins for %d regions of %d channels, with those before: the limit is %d",
				total, p.set.Len(), p.own, maxProfileBins)
			return
		}
	}
	p.profileBins = int(total)
}

// profileAlign is how many bins take up the memory that ops align their operands to.
const profileAlign = driver.Align / 16

// place finds which bins each region has in the frame, and says why there can't be any.
func (f *profiling) place(p *plan) string {
	bin := int64(max(f.what.Bin, 1))
	f.op.Step = int(bin)
	switch f.what.Kind {
	case RowProfile:
		f.op.Axis = driver.ProfileRows
	case ColumnProfile:
		f.op.Axis = driver.ProfileColumns
	case RadialProfile:
		f.op.Axis = driver.ProfileRadius
		x, y := p.set.by().to(f.what.Points[0].X, f.what.Points[0].Y)
		if !(math.Abs(x) < maxCoordinate && math.Abs(y) < maxCoordinate) {
			return fmt.Sprintf("the centre comes to (%s,%s): must be less than %d px from 0", number(x), number(y), maxCoordinate)
		}
		bin *= driver.Subpixel
		f.op.CentreX, f.op.CentreY, f.op.Step = quantise(x), quantise(y), int(bin)
	case LineProfile:
		f.op.Axis, f.op.Step = driver.ProfileLine, 0
		var why string
		if f.op.Segments, f.pieces, why = f.what.segments(p.set.by()); why != "" {
			return "the points " + why
		}
	}
	f.places = make([]driver.ProfilePlace, p.set.Len())
	f.op.Regions = len(f.places)
	for i := range f.places {
		x0, y0, x1, y1 := p.set.boxes[i].pixels()
		x0, y0, x1, y1 = max(x0, 0), max(y0, 0), min(x1, p.frame.Width), min(y1, p.frame.Height)
		if f.what.Kind != LineProfile && (x0 >= x1 || y0 >= y1) {
			continue
		}
		first, n := int64(0), int64(0)
		switch f.what.Kind {
		case RowProfile:
			first, n = int64(y0), (int64(y1-y0)+bin-1)/bin
		case ColumnProfile:
			first, n = int64(x0), (int64(x1-x0)+bin-1)/bin
		case RadialProfile:
			nearX, farX := apart(x0, x1, f.op.CentreX)
			nearY, farY := apart(y0, y1, f.op.CentreY)
			first = rootOf(nearX, nearY) / bin
			n = rootOf(farX, farY)/bin - first + 1
		case LineProfile:
			last := f.op.Segments[len(f.op.Segments)-1]
			n = int64(last.First + last.Bins)
		}
		if n > driver.MaxProfileBins {
			return fmt.Sprintf("makes %d bins of region %d: the limit is %d, so let them be wider", n, i, driver.MaxProfileBins)
		}
		f.places[i].Origin, f.places[i].Bins = int32(first), uint32(n)
	}
	return ""
}

// apart is the least and the greatest distance along an axis of the centres of pixels [from, to) from a place, in 1/256
// px.
func apart(from, to int, place int32) (near, far int64) {
	a := int64(from)*driver.Subpixel + driver.Subpixel/2 - int64(place)
	b := int64(to-1)*driver.Subpixel + driver.Subpixel/2 - int64(place)
	return max(a, -b, 0), max(-a, b)
}

// rootOf is the integer square root of a sum of two squares, below 2^62.
func rootOf(x, y int64) int64 {
	n := x*x + y*y
	r := int64(math.Sqrt(float64(n)))
	for r*r > n {
		r--
	}
	for (r+1)*(r+1) <= n {
		r++
	}
	return r
}

// piecesOf are those of region i.
func (f *profiling) piecesOf(i int) []ProfilePiece {
	if f.pieces != nil {
		return f.pieces
	}
	at, bin := f.places[i], float64(max(f.what.Bin, 1))
	start := float64(at.Origin)
	if f.what.Kind == RadialProfile {
		start *= bin
	}
	return []ProfilePiece{{int(at.Bins), start, bin}}
}

// inOrder is the profile for regions in an order, those of a scanner: number order[k] is the k-th.
func (f profiling) inOrder(order []scanRegion) profiling {
	places, n := make([]driver.ProfilePlace, len(order)), uint64(0)
	for k, r := range order {
		places[k] = f.places[r.index]
		places[k].First = n
		n += f.placeBins(r.index)
	}
	f.places = places
	return f
}

// placeBins is how many bins the region of place i has in all channels.
func (f *profiling) placeBins(i int) uint64 { return f.binsBefore(i+1) - f.binsBefore(i) }

// binsBefore is how many bins the places before one have.
func (f *profiling) binsBefore(i int) uint64 {
	if i == len(f.places) {
		return uint64(f.bins)
	}
	return f.places[i].First
}

// ProfileBins is how many bins all regions have at most in a channel, wherever they lie in a frame.
func (s *Set) ProfileBins(profiles []Profile) (n int64) {
	for k := range profiles {
		f := &profiles[k]
		bin, line := int64(max(f.Bin, 1)), int64(0)
		if f.Kind == LineProfile {
			if segments, _, _ := f.segments(identity); segments != nil {
				last := segments[len(segments)-1]
				line = 4 * int64(last.First+last.Bins) // a pose makes lengths up to 4 times as long
			}
		}
		for i := range s.boxes {
			x0, y0, x1, y1 := s.boxes[i].pixels()
			w, h := int64(max(x1-x0, 0)), int64(max(y1-y0, 0))
			own := int64(driver.MaxProfileBins)
			switch f.Kind {
			case RowProfile:
				own = h/bin + 1
			case ColumnProfile:
				own = w/bin + 1
			case RadialProfile:
				own = (w+h)/bin + 2
			case LineProfile:
				own = line
			}
			n += min(own, driver.MaxProfileBins)
		}
	}
	return min(n, maxProfileBins)
}

// profileSource finds the downloaded bins of a batch: of each region its profiles, of each profile its channels.
type profileSource struct {
	bins   []driver.ProfileBin
	starts []int // of each region, of each profile
	each   int   // profiles
	skip   int   // regions before the one at hand
}

// of are the bins of channel c of profile k, n of them.
func (s *profileSource) of(k, c, n int) []driver.ProfileBin {
	at := s.starts[s.skip*s.each+k] + c*n
	return s.bins[at : at+n]
}

// profileStarts are those of all regions in order.
func (p *plan) profileStarts() []int {
	if len(p.profiles) == 0 {
		return nil
	}
	starts := make([]int, 0, p.set.Len()*len(p.profiles))
	for i := range p.set.Len() {
		for k := range p.profiles {
			f := &p.profiles[k]
			starts = append(starts, f.base+int(f.places[i].First))
		}
	}
	return starts
}

// profileBytes is how much memory of the device profiles take in a job.
func (p *plan) profileBytes() int64 {
	if len(p.profiles) == 0 {
		return 0
	}
	return kernels.Bytes[driver.ProfileBin](p.profileBins) +
		int64(len(p.profiles))*kernels.Bytes[driver.ProfilePlace](p.set.Len())
}

// profileWork is how often a pixel is looked at.
func (p *plan) profileWork() (n int64) {
	for k := range p.profiles {
		n += int64(max(1, len(p.profiles[k].op.Segments)))
	}
	return n * int64(p.own)
}

// profile enqueues the profiles of all regions of a frame, of which im has the rows from row0, and their download to
// host.
func (d *deriver) profile(q *kernels.Queue, prepared driver.Slice, im driver.Image, row0 int,
	host []driver.ProfileBin) error {
	bins, err := kernels.Alloc[driver.ProfileBin](q, d.profileBins, "profiles")
	if err != nil {
		return err
	}
	if err := kernels.Fill(q, bins, 0); err != nil {
		return err
	}
	for k := range d.profiles {
		f := &d.profiles[k]
		places, err := kernels.Alloc[driver.ProfilePlace](q, len(f.places), "profiles")
		if err != nil {
			return err
		}
		if err := kernels.Upload(q, places, f.places); err != nil {
			return err
		}
		op := f.op
		op.Prepared, op.Count, op.Frame, op.Row0 = prepared, len(f.places), im, row0
		op.Places, op.Bins = places.Slice(), bins.Range(f.base, f.base+f.bins).Slice()
		n := d.set.work(0, op.Count, im.Width, row0, row0+im.Height, 1) * int64(d.own*max(1, len(op.Segments)))
		if err := inBands(q, "profile", n, row0, im.Height, func(from, to int) error {
			part := op // the one before may still be under way
			part.FromRow, part.ToRow = from, to
			return q.Run(&part)
		}); err != nil {
			return err
		}
	}
	return downloadTo(q, host, bins, d.profileBins)
}

// profilesOf derives the profiles of channel c of region i, into the channel those that were asked for.
func (d *deriver) profilesOf(s *scratch, i, c int, to *ChannelStatistics, m *driver.MaskStats, from *profileSource) error {
	s.profiles, s.bins = grow(s.profiles, len(d.profiles)), grow(s.bins, len(d.profiles))
	for k := range d.profiles {
		f, v := &d.profiles[k], &s.profiles[k]
		*v = ProfileValue{Profile: *f.what}
		for _, x := range v.numbers() {
			*x = math.NaN()
		}
		if c >= d.own { // a channel that is derived from colours has none
			continue
		}
		bins := from.of(k, c, int(f.places[i].Bins))
		var count, sum uint64
		for _, b := range bins {
			count, sum = count+b.Count, sum+b.Sum
		}
		whole := f.what.Kind != LineProfile // of all pixels
		if count > m.Count || sum > m.Sum || whole && (count != m.Count || sum != m.Sum) {
			return fmt.Errorf("%w: region %d, %v: the profile of %v has %d pixels that sum to %d, the region %d and %d",
				ErrInconsistent, i, d.channels[c], f.what, count, sum, m.Count, m.Sum)
		}
		v.Pieces, s.bins[k] = f.piecesOf(i), bins
		s.means = v.derive(bins, s.means)
		if k < len(to.Profiles) { // none where they are of limits alone, or for columns
			v.Counts, v.Sums = make([]uint64, len(bins)), make([]uint64, len(bins))
			for b, n := range bins {
				v.Counts[b], v.Sums[b] = n.Count, n.Sum
			}
		}
	}
	copy(to.Profiles, s.profiles)
	return nil
}

// derive computes the numbers of bins; means is memory for their means, which it returns.
func (v *ProfileValue) derive(bins []driver.ProfileBin, means []float64) []float64 {
	means = grow(means, len(bins))
	for b, n := range bins {
		if means[b] = math.NaN(); n.Count == 0 {
			continue
		}
		m := exact.Quotient(0, n.Sum, n.Count)
		if means[b] = m; math.IsNaN(v.Max) {
			v.Max, v.Min = m, m
		}
		v.Max, v.Min = max(v.Max, m), min(v.Min, m)
	}
	v.Range = v.Max - v.Min
	step := func(b int) float64 { // from bin b to the next; NaN where one has no pixels
		if b < 0 || b+1 >= len(means) {
			return math.NaN()
		}
		return means[b+1] - means[b]
	}
	at := -1
	for b := range len(means) - 1 {
		if d := step(b); d == d && (at < 0 || math.Abs(d) > math.Abs(v.Step)) {
			at, v.Step = b, d
		}
	}
	if at < 0 || v.Step == 0 {
		return means
	}
	sign := math.Copysign(1, v.Step)
	before, steepest, behind := sign*step(at-1), sign*v.Step, sign*step(at+1)
	shift := 0.5 * (before - behind) / (before - 2*steepest + behind) // -0.5 to 0.5
	if shift != shift {                                               // there is nothing beside it
		shift = 0
	}
	start, size := v.bin(at + 1)
	if shift < 0 {
		_, size = v.bin(at)
	}
	v.Edge = start + float64(shift*size)
	return means
}

// bin is where one begins, and its size.
func (v *ProfileValue) bin(b int) (start, size float64) {
	for _, p := range v.Pieces {
		if b < p.Bins {
			return p.Start + float64(float64(b)*p.Size), p.Size
		}
		b -= p.Bins
	}
	return math.NaN(), math.NaN()
}

func (p *plan) newProfileColumns() *ProfileColumns {
	rows, nf := p.set.Len(), p.listedProfiles
	t := &ProfileColumns{Channels: p.own, Bins: make([]uint32, rows*nf), Start: make([]float64, rows*nf),
		ends: make([]int, rows)}
	for k := range t.Numbers {
		t.Numbers[k] = make([]float64, rows*len(p.channels)*nf)
	}
	for k := range p.profiles[:nf] {
		f := &p.profiles[k]
		t.Profiles = append(t.Profiles, *f.what)
		pieces := f.pieces
		if pieces == nil {
			pieces = []ProfilePiece{{Size: float64(max(f.what.Bin, 1))}}
		}
		t.Pieces = append(t.Pieces, pieces)
	}
	end := 0
	for i := range rows {
		for k := range p.profiles[:nf] {
			f := &p.profiles[k]
			n := f.places[i].Bins
			t.Bins[i*nf+k] = n
			if n > 0 {
				t.Start[i*nf+k] = f.piecesOf(i)[0].Start
			}
			end += int(n) * p.own
		}
		t.ends[i] = end
	}
	return t
}

// from is where the bins of channel c of row i begin, those of its profiles one after another.
func (t *ProfileColumns) from(i, c int) int {
	each := 0
	for _, n := range t.Bins[i*len(t.Profiles) : (i+1)*len(t.Profiles)] {
		each += int(n)
	}
	return t.ends[i] - (t.Channels-c)*each
}

// put puts the profiles of channel c of row i, of nc channels.
func (t *ProfileColumns) put(i, c, nc int, s *scratch) {
	nf := len(t.Profiles)
	for k := range nf {
		for n, v := range s.profiles[k].numbers() {
			t.Numbers[n][(i*nc+c)*nf+k] = *v
		}
	}
	if c >= t.Channels {
		return
	}
	at := t.from(i, c)
	for _, bins := range s.bins[:nf] {
		for _, b := range bins {
			t.Counts[at], t.Sums[at] = b.Count, b.Sum
			at++
		}
	}
}

// values are those of channel c of row i, of nc channels, which share nothing with the columns but pieces.
func (t *ProfileColumns) values(i, c, nc int) []ProfileValue {
	nf := len(t.Profiles)
	out := make([]ProfileValue, nf)
	at := 0
	if c < t.Channels {
		at = t.from(i, c)
	}
	for k := range out {
		v := &out[k]
		v.Profile = t.Profiles[k]
		for n, x := range v.numbers() {
			*x = t.Numbers[n][(i*nc+c)*nf+k]
		}
		if c >= t.Channels {
			continue
		}
		n := int(t.Bins[i*nf+k])
		if v.Pieces = t.Pieces[k]; v.Kind != LineProfile {
			v.Pieces = []ProfilePiece{{n, t.Start[i*nf+k], t.Pieces[k][0].Size}}
		}
		v.Counts, v.Sums = slices.Clone(t.Counts[at:at+n]), slices.Clone(t.Sums[at:at+n])
		at += n
	}
	return out
}

// choose leaves rows alone, of nc channels.
func (t *ProfileColumns) choose(rows []uint32, nc int) {
	nf, end := len(t.Profiles), 0
	for k, i := range rows {
		from := t.from(int(i), 0)
		n := copy(t.Counts[end:], t.Counts[from:t.ends[i]])
		copy(t.Sums[end:], t.Sums[from:t.ends[i]])
		copy(t.Bins[k*nf:(k+1)*nf], t.Bins[int(i)*nf:])
		end += n
		t.ends[k] = end
	}
	t.ends, t.Counts, t.Sums, t.Bins = t.ends[:len(rows)], t.Counts[:end], t.Sums[:end], t.Bins[:len(rows)*nf]
	t.Start = choose(t.Start, rows, nf)
	for n := range t.Numbers {
		t.Numbers[n] = choose(t.Numbers[n], rows, nc*nf)
	}
}

// profileOf finds the value of a limit on a profile among those of a channel.
func (l *Limit) profileOf(values []ProfileValue) (v float64, ok bool) {
	at := slices.IndexFunc(values, func(v ProfileValue) bool { return v.Profile.same(l.profile) })
	if at < 0 {
		return 0, false
	}
	v = *values[at].numbers()[l.quantity-quantityProfileMax]
	return v, !math.IsNaN(v)
}

// profiles says that the quantity is of a profile.
func (q quantity) profiles() bool { return q >= quantityProfileMax && q <= quantityProfileEdge }

// ParseProfile reads a profile as limits spell it, such as "rows", "radius about (320,240) by 2" or "line (10,10)-(90,10)
// width 5". Errors are [*LimitError].
func ParseProfile(text string) (Profile, error) {
	if len(text) > MaxLimit {
		return Profile{}, tooLong(text)
	}
	p := limitParser{src: text}
	p.next()
	f, err := p.profile()
	if err == nil && p.kind != tokenEnd {
		err = p.fail("the end of the profile")
	}
	return f, err
}

// profile reads what is in the brackets behind "profile".
func (p *limitParser) profile() (f Profile, err error) {
	at := p.at
	switch {
	case p.word("rows"):
		f.Kind = RowProfile
	case p.word("columns"):
		f.Kind = ColumnProfile
	case p.word("radius"):
		if f.Kind = RadialProfile; !p.word("about") {
			return f, p.fail(`"about"`)
		}
	case p.word("line"):
		f.Kind = LineProfile
	default:
		return f, p.fail("rows, columns, radius about a centre such as (320,240), or line from a place to another such as " +
			"(10,10)-(90,10)")
	}
	for f.Kind == RadialProfile && len(f.Points) == 0 || f.Kind == LineProfile {
		place, err := p.place()
		if err != nil {
			return f, err
		}
		if f.Points = append(f.Points, place); f.Kind == LineProfile && !p.sign("-") {
			break
		}
	}
	if f.Kind == LineProfile && p.word("width") {
		if f.Width, err = p.value(); err != nil {
			return f, err
		}
		if f.Width == 0 {
			return f, p.failAt(at, "a width must be above 0")
		}
	}
	if p.word("by") {
		v, err := p.value()
		if err != nil {
			return f, err
		}
		if !(v >= 1 && v == math.Trunc(v) && v <= driver.MaxProfileStep) {
			return f, p.failAt(at, "bins must be 1 to %d whole pixels wide", driver.MaxProfileStep)
		}
		f.Bin = int(v)
	}
	f.wrong(func(field string, value any, format string, args ...any) {
		if err == nil {
			err = p.failAt(at, "%s %v %s", field, value, fmt.Sprintf(format, args...))
		}
	})
	return f, err
}

// place reads (x,y).
func (p *limitParser) place() (at Point, err error) {
	if !p.sign("(") {
		return at, p.fail(`"(" and a place, such as (320,240)`)
	}
	for i, to := range []*float64{&at.X, &at.Y} {
		if *to, err = p.value(); err != nil {
			return at, err
		}
		if end := [2]string{",", ")"}[i]; !p.sign(end) {
			return at, p.fail(fmt.Sprintf("%q", end))
		}
	}
	return at, nil
}

// profileQuantity reads a number of a profile, if one is next: "profile(rows).max".
func (p *limitParser) profileQuantity(l *Limit) (bool, error) {
	if p.text != "profile" {
		return false, nil
	}
	p.next()
	err := p.inBrackets("a profile, such as (rows)", func() error {
		f, err := p.profile()
		l.profile = &f
		return err
	})
	if err != nil {
		return true, err
	}
	if !p.dot() {
		return true, p.fail(`"." behind the profile`)
	}
	at := slices.Index(profileNumbers[:], p.text)
	if at < 0 || p.kind != tokenWord {
		return true, p.fail(strings.Join(profileNumbers[:4], ", ") + " or " + profileNumbers[4])
	}
	l.quantity = quantityProfileMax + quantity(at)
	l.spelled = fmt.Sprintf("profile(%v).%s", l.profile, p.text)
	p.next()
	return true, nil
}
