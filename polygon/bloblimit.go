// Limits on blobs: how many there are, and how large they are.

package polygon

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/polyscan/polyscan/kernels"
)

// blobFeature is a number of a blob.
type blobFeature struct {
	name      string
	dimension int // as quantities have them
	of        func(b *Blob, s *BlobSizes) float64
	whole     bool // it is a whole number
}

// blobFeatures by their names in limits. sizes are in mm or in pixels.
var blobFeatures = []blobFeature{
	{"area", 2, func(_ *Blob, s *BlobSizes) float64 { return s.Area }, true},
	{"length", 1, func(_ *Blob, s *BlobSizes) float64 { return s.Length }, false},
	{"breadth", 1, func(_ *Blob, s *BlobSizes) float64 { return s.Breadth }, false},
	{"perimeter", 1, func(_ *Blob, s *BlobSizes) float64 { return s.Perimeter }, false},
	{"x", 1, func(_ *Blob, s *BlobSizes) float64 { return s.Centroid.X }, false},
	{"y", 1, func(_ *Blob, s *BlobSizes) float64 { return s.Centroid.Y }, false},
	{"angle", 0, func(b *Blob, _ *BlobSizes) float64 { return b.Angle }, false},
	{"roundness", 0, func(b *Blob, _ *BlobSizes) float64 { return b.Roundness }, false},
	{"holes", 0, func(b *Blob, _ *BlobSizes) float64 { return float64(b.Holes) }, true},
	{"mean", 0, func(b *Blob, _ *BlobSizes) float64 { return b.Mean }, false},
	{"stddev", 0, func(b *Blob, _ *BlobSizes) float64 { return b.StdDev }, false},
	{"min", 0, func(b *Blob, _ *BlobSizes) float64 { return float64(b.Min) }, true},
	{"max", 0, func(b *Blob, _ *BlobSizes) float64 { return float64(b.Max) }, true},
	{"sum", 0, func(b *Blob, _ *BlobSizes) float64 { return float64(b.Sum) }, true},
}

var expectedFeature = func() string {
	var names []string
	for _, f := range blobFeatures {
		names = append(names, f.name)
	}
	return "a number of a blob (" + strings.Join(names, ", ") + ")"
}()

// blobQuery is what a limit measures of the blobs of a region.
type blobQuery struct {
	what    byte         // 'n' how many, 'm' the greatest, 's' the sum
	feature *blobFeature // of 'm' and 's'
	of      []Limit      // what a blob must satisfy to count
	on      []*blobFeature
}

// sizesIn are the sizes of a blob in mm where there is a scale, else in pixels.
func sizesIn(b *Blob, s *Scale) BlobSizes {
	if s != nil {
		return s.Blob(b)
	}
	return BlobSizes{Area: float64(b.Area), Length: b.Length, Breadth: b.Breadth, Perimeter: b.Perimeter,
		Centroid: b.Centroid}
}

// value is what the limit measures. mm says that a value of 'm' or 's' is in millimetres.
func (q *blobQuery) value(r *RegionBlobs, scale *Scale, mm bool) float64 {
	n, most, sum := 0, math.Inf(-1), 0.0
	if q.what == 'n' && len(q.of) == 0 {
		return float64(r.Kept)
	}
	for i := range r.looked {
		b := &r.looked[i]
		px := sizesIn(b, nil)
		in := px
		if scale != nil {
			in = sizesIn(b, scale)
		}
		holds := true
		for k := range q.of {
			sizes := &px
			if q.of[k].unit != 0 {
				sizes = &in
			}
			ok, _ := q.of[k].holds(q.on[k].of(b, sizes))
			holds = holds && ok
		}
		if !holds {
			continue
		}
		n++
		if q.feature != nil {
			sizes := &px
			if mm {
				sizes = &in
			}
			v := q.feature.of(b, sizes)
			most, sum = max(most, v), sum+v
		}
	}
	switch {
	case q.what == 'n':
		return float64(n)
	case n == 0:
		return 0
	case q.what == 'm':
		return most
	}
	return sum
}

// dimension is that of what is measured.
func (q *blobQuery) dimension() int {
	if q.feature == nil {
		return 0
	}
	return q.feature.dimension
}

// aheadBlobs says that a quantity of blobs begins here: blobs, or max or sum and then blob.
func (p *limitParser) aheadBlobs() bool {
	if p.kind != tokenWord {
		return false
	}
	if p.text == "blobs" {
		return true
	}
	if p.text != "max" && p.text != "sum" {
		return false
	}
	ahead := *p
	ahead.next()
	return ahead.kind == tokenWord && ahead.text == "blob"
}

// blobs reads a quantity of blobs.
func (p *limitParser) blobs(l *Limit) error {
	from := p.at
	q := &blobQuery{what: 'n'}
	l.quantity, l.blobs = quantityBlobs, q
	behind := len(p.src)
	spell := func() { l.spelled = strings.ToLower(strings.TrimSpace(p.src[from:behind])) }
	switch {
	case p.word("blobs"):
	case p.word("max"):
		q.what = 'm'
	default:
		p.next()
		q.what = 's'
	}
	if q.what != 'n' {
		p.next() // blob
		if !p.dot() {
			return p.fail(`"." and ` + expectedFeature)
		}
		var err error
		if q.feature, err = p.feature(); err != nil {
			return err
		}
		behind = p.at
		spell()
		return nil
	}
	behind = p.at
	if !p.sign("(") {
		spell()
		return nil
	}
	for {
		f, err := p.feature()
		if err != nil {
			return err
		}
		var c Limit
		if err := p.condition(&c); err != nil {
			return err
		}
		at := p.at
		if c.unit = p.unit(l); c.unit != 0 && c.unit != f.dimension {
			return p.failAt(at, "%s is no unit of %s, which is %s", units[c.unit][1:], f.name,
				dimensionName(f.dimension))
		}
		q.of, q.on = append(q.of, c), append(q.on, f)
		if p.word("and") {
			continue
		}
		behind = p.pos
		if !p.sign(")") {
			return p.fail(`")" or "and"`)
		}
		spell()
		return nil
	}
}

// feature reads the name of a number of a blob.
func (p *limitParser) feature() (*blobFeature, error) {
	i := slices.IndexFunc(blobFeatures, func(f blobFeature) bool { return f.name == p.text })
	if i < 0 || p.kind != tokenWord {
		return nil, p.fail(expectedFeature)
	}
	p.next()
	return &blobFeatures[i], nil
}

// CheckLimits refuses limits that reductions can't judge, because nothing says what blobs are, and those that can't
// fail with them, whatever frames are: where a pose that was asked for took the regions, and else where they are drawn.
func (s *Set) CheckLimits(r *Reductions) error {
	bad := newInvalid()
	if r.Blobs == nil {
		s.addBlobLimits(bad, noBlobs)
	} else if r.Blobs.Threshold == ThresholdDeviations { // which the regions bound
		r.Blobs.checkSpans(bad, s, math.MaxUint16, anyFormat)
	}
	before := len(bad.Violations)
	if s.checkPlaces(bad); len(bad.Violations) == before {
		s.checkToothless(bad, reducing(math.MaxUint16, r), anyFormat)
	}
	return bad.Err()
}

const noBlobs = "is about blobs, and reductions.blobs does not say what they are"

// addBlobLimits says of each limit on blobs why it can't be.
func (s *Set) addBlobLimits(bad *kernels.InvalidError, why string) {
	if !slices.ContainsFunc(s.distinct, func(l *Limit) bool { return l.quantity == quantityBlobs }) {
		return
	}
	for i := range s.names {
		for k, l := range s.Limits(i) {
			if l.quantity == quantityBlobs {
				bad.Add(path{"regions", i, "limits", k}, quoted(l.expr), "%s", why)
			}
		}
	}
}

// CheckAsked refuses reductions by which limits would be about something else than by own, which are those of the
// recipe that the regions come from: textures of other levels, colours by another matrix, or other blobs.
func (s *Set) CheckAsked(asked, own *Reductions) error {
	bad := newInvalid()
	at := path{"reductions"}
	if a, o := asked.pairLevels(), own.pairLevels(); len(s.offsets) > 0 && a != o {
		bad.Add(at.Join("cooccurrence", "levels"), a, "must be %d: the recipe's limits are about textures of as many", o)
	}
	matrix := s.channels[MatrixX] || s.channels[MatrixY] || s.channels[MatrixZ]
	if matrix && asked.Colors.Matrix != own.Colors.Matrix {
		bad.Add(at.Join("color_matrix"), fmt.Sprint(asked.Colors.Matrix), "must be that of the recipe, which its limits are "+
			"about: %v", own.Colors.Matrix)
	}
	blobs := slices.ContainsFunc(s.distinct, func(l *Limit) bool { return l.quantity == quantityBlobs })
	if a, o := asked.Blobs, own.Blobs; blobs && a != nil && o != nil && !a.same(o) {
		bad.Add(at.Join("blobs"), "other blobs", "must be those of the recipe, which its limits are about")
	}
	return bad.Err()
}

// same says that both find the same blobs.
func (s *BlobSpec) same(o *BlobSpec) bool {
	strong := s.Strong == o.Strong || s.Strong != nil && o.Strong != nil && *s.Strong == *o.Strong
	return strong && s.Channel == o.Channel && s.Threshold == o.Threshold && s.Range == o.Range &&
		s.FourConnected == o.FourConnected && s.MinArea == o.MinArea && slices.Equal(s.Steps, o.Steps)
}

// tooMany says why a limit on blobs can't hold, or nothing.
func (r *RegionBlobs) tooMany() string {
	if r == nil || r.All {
		return ""
	}
	return fmt.Sprintf("the region has %d blobs, and %d are looked at: more can't pass", r.Kept, len(r.looked))
}
