// Set: regions after validation, in the form that devices take.

package polygon

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"unicode/utf8"
	"unsafe"

	"github.com/polyscan/polyscan/internal/exact"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Set is a list of valid regions, quantised. It is immutable and safe for concurrent use.
type Set struct {
	names    []string
	edges    []driver.Edge // of all regions; none of length 0
	runs     []Run         // of all regions that are masks
	regions  []driver.Region
	boxes    []box
	rows     box // smallest box around all regions
	areas    []float64
	vertices int

	limits       []*Limit // of all regions; those of region i are limits[limitFrom[i]:limitFrom[i+1]]
	limitFrom    []int32  // nil where no region has limits
	distinct     []*Limit // each once
	needs        Statistics
	offsets      []Offset            // of pairs that limits speak of
	covered      bool                // limits look at weighted pixels
	correlations []Correlation       // that limits speak of
	channels     [Laplacian + 1]bool // that limits name

	references []reference // by region; nil where no region has one
	linked     []bool      // the regions that are compared with each other; nil where none are

	between []between  // limits between regions
	wanted  [][]*Limit // what they need of each region; nil where there are none

	scale *Scale // nil where there is none

	tilts    map[int][2]float64 // the greatest slopes of planes, by region, where they were found
	tiltable int                // steps that are left to find them

	idle   []idleLimit               // that can't fail, and that nobody was told of yet
	passed [17]atomic.Pointer[scope] // by the bits of samples, 0 of any: in which all limits can fail

	slots, lookBack int // numbers of a part that streams remember for limits over parts, and of how many parts

	pose  *Pose // of the part that the regions were moved with, and
	drawn *Set  // the set before; nil of a set as it was drawn
	found bool  // the pose was found in a frame: that limits can fail is judged by the set before
}

// box holds the vertices of a region, in 1/256 px, both ends included.
type box struct{ x0, y0, x1, y1 int32 }

var emptyBox = box{math.MaxInt32, math.MaxInt32, math.MinInt32, math.MinInt32}

func (b box) union(o box) box {
	return box{min(b.x0, o.x0), min(b.y0, o.y0), max(b.x1, o.x1), max(b.y1, o.y1)}
}

// firstCentre is the index of the first pixel whose centre is at v or above it, v in 1/256 px.
func firstCentre(v int32) int {
	return int((int64(v) + driver.Subpixel/2 - 1) >> driver.SubpixelBits)
}

// pixels is the range of columns and rows in which a region with this box can have pixels.
func (b box) pixels() (x0, y0, x1, y1 int) {
	return firstCentre(b.x0), firstCentre(b.y0), firstCentre(b.x1), firstCentre(b.y1)
}

// NewSet validates regions, rounds their vertices to the grid and compiles their limits. The regions are not kept.
//
// Each coordinate is rounded once, to the nearest multiple of 1/256 px, ties to the even multiple; |v| < 2^22 px.
// Everything after that is exact integer arithmetic. Edges of no length on the grid are dropped; horizontal ones never
// count for a row, but stay, because methods that measure the distance to the boundary need all of it. The pixels of a
// mask are those that it says.
//
// Everything wrong with the regions is reported at once, in an [*kernels.InvalidError] with paths such as
// "regions[3].rings[0].vertices[5].x"; then there is no Set. Geometry that is merely degenerate (no area, repeated or
// collinear vertices, spikes, rings that cross themselves or lie outside every frame) is legal.
//
// It takes O(vertices) time, one slice for all edges and one for all runs, and no allocation for a single region or
// ring.
func NewSet(regions []Region, b Bounds) (*Set, error) { return NewSetInPieces(regions, nil, b, nil) }

// Bytes is about how much memory a set takes.
func (s *Set) Bytes() int64 {
	if s == nil {
		return 0
	}
	n := int64(cap(s.edges))*int64(unsafe.Sizeof(driver.Edge{})) + int64(cap(s.runs))*int64(unsafe.Sizeof(Run{}))
	for _, name := range s.names {
		n += int64(len(name))
	}
	for _, l := range s.distinct {
		n += l.bytes()
	}
	for i := range s.references {
		n += int64(unsafe.Sizeof(s.references[i]))
		for _, d := range s.references[i].kept {
			n += int64(cap(d.values))*int64(unsafe.Sizeof(d.mode)) +
				int64(cap(d.cumulative))*int64(unsafe.Sizeof(uint64(0)))
		}
	}
	n += int64(cap(s.idle)) * int64(unsafe.Sizeof(idleLimit{}))
	each := unsafe.Sizeof("") + unsafe.Sizeof(driver.Region{}) + unsafe.Sizeof(box{}) + unsafe.Sizeof(float64(0))
	return n + int64(len(s.regions))*int64(each) + int64(len(s.limits)+len(s.limitFrom))*int64(unsafe.Sizeof(s))
}

// setPiece is how many vertices are checked and rounded between two calls of pause, which takes some 80 µs, and
// regionPiece how many of them a region counts for.
const (
	setPiece    = 2048
	regionPiece = 8
)

// NewSetInPieces is [NewSet] for regions with a scale, unless that is nil, and for callers that must let others go
// first: it calls pause, unless that is nil, between pieces of work that take some 0.1 ms. An error of pause ends it,
// and is returned as it is.
func NewSetInPieces(regions []Region, scale *Scale, b Bounds, pause func() error) (*Set, error) {
	b = b.withDefaults()
	bad := newInvalid()
	switch n := len(regions); {
	case n == 0:
		bad.Add(path{"regions"}, "[]", "must hold at least 1 region")
		return nil, bad.Err()
	case n > b.MaxRegions:
		bad.Add(path{"regions"}, n, "are too many: the limit is %d regions", b.MaxRegions)
		return nil, bad.Err()
	}
	total, runs, limits := 0, 0, 0
	for i := range regions {
		for _, ring := range regions[i].Rings {
			total += len(ring)
		}
		runs += len(regions[i].Mask)
		limits += len(regions[i].Limits)
	}
	if total+runs > b.MaxVertices {
		bad.Add(path{"regions"}, fmt.Sprintf("%d vertices", total+runs),
			"are too many: the limit is %d vertices in all regions together", b.MaxVertices)
		return nil, bad.Err()
	}
	s := &Set{
		names:    make([]string, len(regions)),
		edges:    make([]driver.Edge, 0, total),
		runs:     make([]Run, 0, runs),
		regions:  make([]driver.Region, len(regions)),
		boxes:    make([]box, len(regions)),
		rows:     emptyBox,
		areas:    make([]float64, len(regions)),
		vertices: total + runs,
		tiltable: 1 << 22, // some 50 ms
	}
	if limits > 0 {
		s.limits = make([]*Limit, 0, min(limits, len(regions)*MaxLimits))
		s.limitFrom = make([]int32, len(regions)+1)
	}
	s.addReferences(bad, regions)
	s.addScale(bad, scale)
	shapes := slices.ContainsFunc(regions, func(r Region) bool { return r.Shape != "" })
	known := map[string]*Limit{} // thousands of regions tend to share their limits
	var idle []idleLimit
	pace := pacer{pause: pause, left: setPiece}
	for i := range regions {
		r := &regions[i]
		if err := pace.took(regionPiece + len(r.Limits)*regionPiece); err != nil {
			return nil, err
		}
		checkName(bad, i, r.Name)
		s.names[i] = r.Name
		if r.Shape != "" {
			if len(r.Rings) > 0 || r.Mask != nil {
				bad.Add(path{"regions", i, "shape"}, quoted(r.Shape), "and rings or a mask: a region has one of them")
			}
			s.boxes[i] = box{-driver.MaxCoord, -driver.MaxCoord, driver.MaxCoord, driver.MaxCoord} // until it is known
			continue
		}
		if r.Fill > EvenOdd {
			bad.Add(path{"regions", i, "fill_rule"}, uint8(r.Fill), "must be %d (%v) or %d (%v)",
				NonZero, NonZero, EvenOdd, EvenOdd)
		}
		add := s.addRings
		if r.Mask != nil {
			add = s.addMask
		}
		if err := add(bad, i, r, b, &pace); err != nil {
			return nil, err
		}
		if !shapes {
			s.rows = s.rows.union(s.boxes[i])
			if err := s.addLimits(bad, i, r, known, b.Memory, &pace, &idle); err != nil {
				return nil, err
			}
		}
	}
	if shapes { // limits want to know how many pixels a region may have
		if len(bad.Violations) == 0 {
			if err := s.addShapes(bad, regions, b, &pace); err != nil {
				return nil, err
			}
		}
		for i := range regions {
			s.rows = s.rows.union(s.boxes[i])
			if err := s.addLimits(bad, i, &regions[i], known, b.Memory, &pace, &idle); err != nil {
				return nil, err
			}
		}
	}
	if len(bad.Violations) == 0 {
		for i, r := range s.references {
			for k, l := range s.Limits(i) {
				if ok, _ := l.holds(0); ok && r.with >= 0 && l.quantity.distance() &&
					s.samePixels(place{region: i}, place{region: r.with}) {
					bad.Add(path{"regions", i, "limits", k}, quoted(l.expr), "can't fail: the reference %s has the same pixels",
						quoted(s.names[r.with]))
				}
			}
		}
		if err := s.resolve(bad, &pace, &idle); err != nil {
			return nil, err
		}
	}
	if b.Later {
		s.idle = idle
	} else {
		s.tellIdle(bad, idle)
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

func checkName(bad *kernels.InvalidError, i int, name string) {
	switch {
	case len(name) > maxName:
		bad.Add(path{"regions", i, "name"}, quoted(name), "has %d bytes: the limit is %d", len(name),
			maxName)
	case !utf8.ValidString(name):
		bad.Add(path{"regions", i, "name"}, quoted(name), "must be valid UTF-8")
	}
}

// pacer calls pause each setPiece vertices, or steps that take as long.
type pacer struct {
	pause func() error
	left  int // vertices until the next call; setPiece to begin with
}

// took counts work for n vertices.
func (p *pacer) took(n int) error {
	if p.left -= n; p.left > 0 {
		return nil
	}
	p.left = setPiece
	if p.pause == nil {
		return nil
	}
	return p.pause()
}

// addRings checks and appends the rings of region i. It returns an error of pace alone.
func (s *Set) addRings(bad *kernels.InvalidError, i int, r *Region, b Bounds, pace *pacer) error {
	if len(r.Rings) == 0 {
		bad.Add(path{"regions", i, "rings"}, "[]", "must hold at least 1 ring")
		return nil
	}
	n := 0
	for _, ring := range r.Rings {
		n += len(ring)
	}
	if n > b.MaxRegionVertices {
		bad.Add(path{"regions", i, "rings"}, fmt.Sprintf("%d vertices", n),
			"are too many: the limit is %d vertices in a region", b.MaxRegionVertices)
		return nil
	}
	first := len(s.edges)
	box := emptyBox
	by := s.by()
	moved := by != identity
	var area twiceArea
	for k, ring := range r.Rings {
		if len(ring) < 3 {
			noun := "vertices"
			if len(ring) == 1 {
				noun = "vertex"
			}
			bad.Add(path{"regions", i, "rings", k}, fmt.Sprintf("%d %s", len(ring), noun),
				"must hold at least 3 vertices")
			// Its coordinates are checked all the same.
			for j, p := range ring {
				checkPoint(bad, p, i, k, j)
			}
			continue
		}
		// The edge into vertex 0 comes first: it needs the last vertex, whose check is reported in its turn.
		last := ring[len(ring)-1]
		if moved {
			last.X, last.Y = by.to(last.X, last.Y)
		}
		x0, y0 := quantise(last.X), quantise(last.Y)
		for j, p := range ring {
			if j%setPiece == 0 {
				if err := pace.took(min(len(ring)-j, setPiece)); err != nil {
					return err
				}
			}
			if moved {
				p.X, p.Y = by.to(p.X, p.Y)
			}
			if !(math.Abs(p.X) < maxCoordinate && math.Abs(p.Y) < maxCoordinate) {
				if !moved {
					checkPoint(bad, p, i, k, j)
					continue
				}
				bad.Add(path{"pose"}, fmt.Sprintf("(%v, %v)", p.X, p.Y),
					"is where vertex %d of region %s comes to: must be less than %d px from 0", j, quoted(s.names[i]), maxCoordinate)
				return nil
			}
			x1, y1 := quantise(p.X), quantise(p.Y)
			box.x0, box.x1 = min(box.x0, x1), max(box.x1, x1)
			box.y0, box.y1 = min(box.y0, y1), max(box.y1, y1)
			area.add(int64(x0)*int64(y1) - int64(x1)*int64(y0))
			if x0 != x1 || y0 != y1 {
				s.edges = append(s.edges, driver.Edge{X0: x0, Y0: y0, X1: x1, Y1: y1})
			}
			x0, y0 = x1, y1
		}
	}
	s.regions[i] = driver.Region{
		First: uint32(first),
		Count: uint32(len(s.edges) - first),
		Fill:  driver.FillRule(r.Fill),
	}
	s.boxes[i] = box
	s.areas[i] = area.pixels()
	return nil
}

// quantise rounds to 1/256 px, ties to even. The product is exact, so that there is one rounding. What is out of range
// gives some number or other, and the set is not used.
func quantise(v float64) int32 { return int32(math.RoundToEven(v * driver.Subpixel)) }

func checkPoint(bad *kernels.InvalidError, p Point, region, ring, vertex int) {
	check := func(axis string, v float64) {
		switch {
		case math.Abs(v) < maxCoordinate:
			return
		case len(bad.Violations) == kernels.MaxViolations: // there may be millions
			bad.More++
			return
		}
		path := path{"regions", region, "rings", ring, "vertices", vertex, axis}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			bad.Add(path, number(v), "must be a finite number")
		} else {
			bad.Add(path, number(v), "must be less than %d px from 0", maxCoordinate)
		}
	}
	check("x", p.X)
	check("y", p.Y)
}

// twiceArea sums cross products: two's complement, 128 bits. A product of two coordinates is below 2^60, a cross
// product below 2^61, and 2^30 of them stay below 2^91.
type twiceArea struct{ hi, lo uint64 }

func (a *twiceArea) add(v int64) {
	var carry uint64
	a.lo, carry = bits.Add64(a.lo, uint64(v), 0)
	a.hi, _ = bits.Add64(a.hi, uint64(v>>63), carry)
}

// pixels is the absolute value in square pixels, correctly rounded.
func (a twiceArea) pixels() float64 {
	if int64(a.hi) < 0 {
		var borrow uint64
		a.lo, borrow = bits.Sub64(0, a.lo, 0)
		a.hi, _ = bits.Sub64(0, a.hi, borrow)
	}
	return exact.Quotient(a.hi, a.lo, 2*driver.Subpixel*driver.Subpixel)
}

// addLimits returns an error of memory or of pace alone.
func (s *Set) addLimits(bad *kernels.InvalidError, i int, r *Region, known map[string]*Limit,
	memory func(bytes int64) error, pace *pacer, idle *[]idleLimit) error {
	exprs := r.Limits
	if len(exprs) > MaxLimits {
		bad.Add(path{"regions", i, "limits"}, len(exprs), "are too many: the limit is %d",
			MaxLimits)
		return nil
	}
	took := int64(0)
	for k, expr := range exprs {
		l := known[expr]
		if l == nil {
			p, err := ParseLimit(expr)
			if err != nil {
				reason := err.Error()
				if le, ok := err.(*LimitError); ok {
					reason = le.Reason()
				}
				bad.Add(path{"regions", i, "limits", k}, quoted(expr), "%s", reason)
				continue
			}
			l = &p
			l.scale = s.scale
			known[expr] = l
			took += 2 * l.bytes() // there is also what knows it
			s.distinct = append(s.distinct, l)
		}
		if l.quantity.distance() && r.Reference == nil {
			bad.Add(path{"regions", i, "limits", k}, quoted(expr), "the region has no reference to compare with")
		}
		if l.millimetres && s.scale == nil {
			bad.Add(path{"regions", i, "limits", k}, quoted(expr),
				"column %d: the regions have no scale, and mm needs one", l.unitAt+1)
		}
		s.needs |= l.needs()
		s.covered = s.covered || l.covered()
		if err := s.addOffsets(l); err != "" {
			bad.Add(path{"regions", i, "limits", k}, quoted(expr), "%s", err)
		}
		s.channels[l.channel] = true
		if l.expression != nil {
			for n := range l.expression.operands {
				s.channels[l.expression.operands[n].is.channel] = true
			}
		}
		s.limits = append(s.limits, l)
	}
	if s.limitFrom != nil {
		s.limitFrom[i+1] = int32(len(s.limits))
	}
	for _, l := range s.Limits(i) {
		if err := s.findTilt(i, l, pace); err != nil {
			return err
		}
	}
	of := s.scopeOf(i, anyFrame())
	for k, expr := range exprs {
		if l := known[expr]; l != nil {
			if why := l.toothless(&of, anyFormat); why != "" {
				*idle = append(*idle, idleLimit{i, k, l, why})
			}
		}
	}
	if took == 0 || memory == nil {
		return nil
	}
	return memory(took)
}

// addOffsets notes the offsets of pairs and the correlations that a limit speaks of, and says where they become too
// many.
func (s *Set) addOffsets(l *Limit) string {
	see := func(l *Limit) {
		if l.quantity.pairs() && !slices.Contains(s.offsets, l.offset) && len(s.offsets) <= MaxOffsets {
			s.offsets = append(s.offsets, l.offset)
		}
		if l.quantity.correlates() && !slices.Contains(s.correlations, l.correlation) &&
			len(s.correlations) <= MaxCorrelations {
			s.correlations = append(s.correlations, l.correlation)
		}
	}
	before, had := len(s.offsets), len(s.correlations)
	see(l)
	if l.expression != nil {
		for n := range l.expression.operands {
			see(&l.expression.operands[n].is)
		}
	}
	if n := len(s.offsets); n > MaxOffsets && n > before {
		return fmt.Sprintf("limits have more than %d offsets of pairs", MaxOffsets)
	}
	if n := len(s.correlations); n > MaxCorrelations && n > had {
		return fmt.Sprintf("limits have more than %d correlations", MaxCorrelations)
	}
	return ""
}

// mostPixels is the size of the box around region i; the region has no more pixels.
func (s *Set) mostPixels(i int) int64 {
	x0, y0, x1, y1 := s.boxes[i].pixels()
	return int64(max(x1-x0, 0)) * int64(max(y1-y0, 0))
}

// Len is the number of regions.
func (s *Set) Len() int { return len(s.names) }

// Vertices is the number of vertices and of runs that the regions were given with.
func (s *Set) Vertices() int { return s.vertices }

// HasLimits reports whether any region has a limit.
func (s *Set) HasLimits() bool { return s.limitFrom != nil }

// Limits are the limits of region i, in order.
func (s *Set) Limits(i int) []*Limit {
	if s.limitFrom == nil {
		return nil
	}
	return s.limits[s.limitFrom[i]:s.limitFrom[i+1]]
}

// maskRegions is the set as ops take it. The slices are the set's own and must not be written to.
func (s *Set) maskRegions() driver.MaskRegions {
	return driver.MaskRegions{Edges: s.edges, Runs: s.runs, Regions: s.regions}
}

// edgesOf are the edges of region i; none of one that is a mask.
func (s *Set) edgesOf(i int) []driver.Edge {
	m := s.maskRegions()
	return m.EdgesOf(i)
}
