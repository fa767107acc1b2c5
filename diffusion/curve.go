// Curves: what is drawn, and the checks of it.

package diffusion

import (
	"fmt"
	"math"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Point is a place in pixels: pixel (i, j) has its centre at (i+0.5, j+0.5), x grows right and y down.
type Point struct{ X, Y float64 }

// Stop is the values of a curve's side at a place along it.
type Stop struct {
	At     float64   // 0 at the first point of the curve, 1 at the end of its first segment, and so on
	Values []float32 // of each channel; -MaxValue to MaxValue
}

// BlurStop is the blur at a place along a curve.
type BlurStop struct {
	At    float64 // as of a Stop
	Sigma float64 // standard deviation in pixels, 0 to 100
}

// maxBlur is the largest blur of a curve, in pixels.
const maxBlur = driver.MaxBlurSigma

// maxCoordinate bounds the absolute value of a curve's coordinates, in pixels.
const maxCoordinate = driver.MaxCurveCoord / driver.Subpixel

// Curve is cubic Béziers in a row with values along both sides: a diffusion curve. Between stops values are
// interpolated, before the first and behind the last they are those; at a place of several stops, in order, the last
// holds.
//
// Of several curves that claim a pixel the nearest one wins, and of those equally near the last. See
// [driver.CurveRaster] for just what is drawn: two unbroken rows of pixels.
type Curve struct {
	// Points are the control points of n Béziers, 3n+1: each begins where the one before ends. A curve whose last point
	// is its first is closed.
	Points []Point
	// Left and Right are the stops of the sides, to the left and right of the direction in which the curve runs on a
	// screen. A side without any gives no values.
	Left, Right []Stop
	// Blur is how much the picture is blurred around the curve once it is solved; none leaves it sharp. In between,
	// deviations are solved for as values are.
	Blur []BlurStop
	// Barrier blocks the edges that the curve crosses: nothing flows from one side to the other, even where sides give
	// no values.
	Barrier bool
}

// Drawing is curves on a canvas.
type Drawing struct {
	Width, Height int // 1 to driver.MaxSide, and driver.MaxPixels in all
	Channels      int // 1 to 4, and one less where a curve is blurred
	Curves        []Curve
	// Flags and Values are what is given besides, under the curves, as of a [Problem]; nil where there is nothing.
	Flags  []uint8
	Values []float32
}

// flatness is by how much lines may be off a curve, in units of 1/256 px, and pieceLength how long they may be: the
// lines of a curve share the work.
const (
	flatness    = driver.Subpixel / 16
	pieceLength = 16 * driver.Subpixel
)

// strokes are the curves of a drawing as a device takes them.
type strokes struct {
	segments []driver.CurveSegment
	curves   []driver.Curve
	stops    []driver.CurveStop
	channels int  // of stops: those of the drawing, and a last one for the blur where there is any
	blurred  bool // the last channel is deviations in units of maxBlur
	barriers bool // edges may be blocked
}

// Check returns what is wrong with a drawing that m is to solve, an [*kernels.InvalidError], or nil. That nothing is
// given shows only when it is drawn.
func (d *Drawing) Check(m Method) error {
	_, _, err := d.check(m)
	return err
}

// strokes checks the drawing, but for flags and values.
func (d *Drawing) strokes() (*strokes, error) {
	if d.Channels < 1 || d.Channels > driver.MaxDiffusionChannels {
		return nil, invalid(path{"channels"}, d.Channels, "must be 1 to %d", driver.MaxDiffusionChannels)
	}
	s := &strokes{channels: d.Channels}
	for i := range d.Curves {
		s.barriers = s.barriers || d.Curves[i].Barrier
		s.blurred = s.blurred || len(d.Curves[i].Blur) > 0
	}
	if s.blurred {
		if s.channels++; s.channels > driver.MaxDiffusionChannels {
			return nil, invalid(path{"channels"}, d.Channels, "must be at most %d where a curve is blurred",
				driver.MaxDiffusionChannels-1)
		}
	}
	for i := range d.Curves {
		if err := s.add(d, &d.Curves[i], path{"curves", i}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *strokes) add(d *Drawing, c *Curve, at path) error {
	n := (len(c.Points) - 1) / 3
	switch {
	case len(c.Points) < 4 || len(c.Points)%3 != 1:
		return invalid(at.Join("points"), fmt.Sprintf("%d points", len(c.Points)),
			"must be 3n+1 of them for n segments, at least 4")
	case n > driver.MaxCurveLength:
		return invalid(at.Join("points"), fmt.Sprintf("%d segments", n), "must be at most %d", driver.MaxCurveLength)
	case len(s.segments)+n > driver.MaxCurveSegments:
		return invalid(at.Join("points"), fmt.Sprintf("%d segments", n), "make more than %d of the drawing",
			driver.MaxCurveSegments)
	case len(c.Left) == 0 && len(c.Right) == 0 && !c.Barrier:
		return invalid(at, "no stops", "must have some on the left or the right, or be a barrier")
	}
	x, y := make([]int32, len(c.Points)), make([]int32, len(c.Points))
	for k, p := range c.Points {
		for _, a := range [...]struct {
			axis string
			v    float64
			to   *int32
		}{{"x", p.X, &x[k]}, {"y", p.Y, &y[k]}} {
			if !(math.Abs(a.v) <= maxCoordinate) {
				return invalid(at.Join("points", k, a.axis), a.v, "must be -%d to %[1]d",
					maxCoordinate)
			}
			*a.to = int32(math.Round(a.v * driver.Subpixel))
		}
	}
	x0, x1, y0, y1 := slices.Min(x), slices.Max(x), slices.Min(y), slices.Max(y)
	if x0 == x1 && y0 == y1 {
		return invalid(at.Join("points"), fmt.Sprintf("all (%v, %v)", c.Points[0].X, c.Points[0].Y),
			"must not be all the same place")
	}
	if x1 < 0 || y1 < 0 || int64(x0) > int64(d.Width)*driver.Subpixel || int64(y0) > int64(d.Height)*driver.Subpixel {
		return invalid(at.Join("points"), fmt.Sprintf("between (%v, %v) and (%v, %v)", px(x0), px(y0), px(x1), px(y1)),
			"lie outside of the canvas of %dx%d", d.Width, d.Height)
	}
	curve := driver.Curve{}
	if c.Barrier {
		curve.Barrier = 1
	}
	blur, err := blurStops(c.Blur, n, at.Join("blur"))
	if err != nil {
		return err
	}
	for _, side := range [...]struct {
		name  string
		stops []Stop
		to    *driver.CurveStops
	}{{"left", c.Left, &curve.Left}, {"right", c.Right, &curve.Right}} {
		stops, err := sideStops(side.stops, d.Channels, n, at.Join(side.name))
		if err != nil {
			return err
		}
		if s.blurred {
			stops = merge(stops, blur, d.Channels)
		}
		if len(s.stops)+len(stops) > driver.MaxCurveStops {
			return invalid(at.Join(side.name), fmt.Sprintf("%d stops", len(stops)), "make more than %d of the drawing",
				driver.MaxCurveStops)
		}
		*side.to = driver.CurveStops{First: uint32(len(s.stops)), Count: uint32(len(stops))}
		s.stops = append(s.stops, stops...)
	}
	for k := range n {
		g := driver.CurveSegment{Curve: uint32(len(s.curves)), Start: uint32(k * driver.CurveUnit)}
		copy(g.X[:], x[3*k:])
		copy(g.Y[:], y[3*k:])
		g.LogPieces = logPieces(&g)
		s.segments = append(s.segments, g)
	}
	s.curves = append(s.curves, curve)
	return nil
}

func px(v int32) float64 { return float64(v) / driver.Subpixel }

// logPieces is how often to halve a segment. The distance of a cubic from its chords is at most 3/4 of its control
// points' second difference, divided by the square of the number of those.
func logPieces(g *driver.CurveSegment) uint32 {
	bend, length := 0.0, 0.0
	at := func(k int) (x, y float64) { return float64(g.X[k]), float64(g.Y[k]) }
	for k := range 3 {
		x0, y0 := at(k)
		x1, y1 := at(k + 1)
		length += math.Hypot(x1-x0, y1-y0)
		if k < 2 {
			x2, y2 := at(k + 2)
			bend = max(bend, math.Hypot(x0-2*x1+x2, y0-2*y1+y2))
		}
	}
	k := uint32(0)
	for n := 1.0; 1<<k < driver.MaxCurvePieces && (0.75*bend > flatness*n*n || length > pieceLength*n); n *= 2 {
		k++
	}
	return k
}

func checkPlace(path path, at float64, segments int, before float64) error {
	switch {
	case !(at >= 0 && at <= float64(segments)):
		return invalid(path, at, "must be 0 to %d, the number of segments", segments)
	case at < before:
		return invalid(path, at, "is less than %v, that of the stop before", before)
	}
	return nil
}

func place(at float64) uint32 { return uint32(math.Round(at * driver.CurveUnit)) }

func sideStops(stops []Stop, channels, segments int, at path) ([]driver.CurveStop, error) {
	out := make([]driver.CurveStop, len(stops))
	before := 0.0
	for i, s := range stops {
		if err := checkPlace(at.Join(i, "at"), s.At, segments, before); err != nil {
			return nil, err
		}
		if len(s.Values) != channels {
			return nil, invalid(at.Join(i, "values"), fmt.Sprintf("%d values", len(s.Values)),
				"must be %d, one for each channel", channels)
		}
		for c, v := range s.Values {
			if !usable(v) {
				return nil, unusable(at.Join(i, "values", c), v)
			}
		}
		before = s.At
		out[i].At = place(s.At)
		copy(out[i].Values[:], s.Values)
	}
	return out, nil
}

// blurStops has deviations in the first channel.
func blurStops(stops []BlurStop, segments int, at path) ([]driver.CurveStop, error) {
	out := make([]driver.CurveStop, len(stops))
	before := 0.0
	for i, s := range stops {
		if err := checkPlace(at.Join(i, "at"), s.At, segments, before); err != nil {
			return nil, err
		}
		if !(s.Sigma >= 0 && s.Sigma <= maxBlur) {
			return nil, invalid(at.Join(i, "sigma"), s.Sigma, "must be 0 to %d", maxBlur)
		}
		before = s.At
		out[i] = driver.CurveStop{At: place(s.At),
			Values: [driver.MaxDiffusionChannels]float32{float32(s.Sigma / maxBlur)}}
	}
	return out, nil
}

// merge adds the first channel of extra behind the channels of stops. A side without stops stays so.
func merge(stops, extra []driver.CurveStop, channels int) []driver.CurveStop {
	if len(stops) == 0 {
		return nil
	}
	if len(extra) == 0 {
		extra = []driver.CurveStop{{}}
	}
	places := make([]uint32, 0, len(stops)+len(extra))
	for _, list := range [][]driver.CurveStop{stops, extra} {
		for _, s := range list {
			places = append(places, s.At)
		}
	}
	slices.Sort(places)
	var out []driver.CurveStop
	for _, at := range slices.Compact(places) {
		before, behind := around(stops, at)
		before.Values[channels], behind.Values[channels] = 0, 0
		b, a := around(extra, at)
		before.Values[channels], behind.Values[channels] = b.Values[0], a.Values[0]
		if out = append(out, before); behind != before {
			out = append(out, behind)
		}
	}
	return out
}

// around is the values just before a place, and from there on.
func around(stops []driver.CurveStop, at uint32) (before, behind driver.CurveStop) {
	first, equal := slices.BinarySearchFunc(stops, at, func(s driver.CurveStop, at uint32) int {
		return int(int64(s.At) - int64(at))
	})
	switch {
	case equal:
		last := first
		for last+1 < len(stops) && stops[last+1].At == at {
			last++
		}
		before, behind = stops[first], stops[last]
	case first == 0:
		before, behind = stops[0], stops[0]
	case first == len(stops):
		before, behind = stops[first-1], stops[first-1]
	default:
		a, b := stops[first-1], stops[first]
		f := float32(at-a.At) / float32(b.At-a.At)
		for c := range a.Values {
			a.Values[c] += (b.Values[c] - a.Values[c]) * f
		}
		before, behind = a, a
	}
	before.At, behind.At = at, at
	return before, behind
}
