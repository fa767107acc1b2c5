// Extraction: a picture becomes curves along its edges, and pixels where those are not enough.

package diffusion

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/polyscan/polyscan/kernels"
)

// Planes are values of all pixels, in planes.
type Planes struct {
	Width, Height, Channels int
	Values                  []float32 // planes
}

// ExtractOptions say what to keep of a picture. The zero value has the defaults. Values of pictures are taken to be 0
// to 1, and "level" is 1/255.
type ExtractOptions struct {
	// Threshold is how steep an edge has to be somewhere, in levels a pixel, after smoothing by one of 1 px. 0
	// means 20; an edge goes on where it is at least 0.4 times as steep.
	Threshold float64
	// Length is how long an edge has to be, in pixels. 0 means 20.
	Length int
	// Flatness is by how many pixels curves may be off the edge. 0 means 0.5.
	Flatness float64
	// Distance is how far from the edge colours are taken, in pixels: far enough not to be those of the edge itself. 0
	// means 1.
	Distance float64
	// Levels is by how much colours between stops may be off, and to what they are rounded. 0 means 10.
	Levels float64
	// PSNR is what to come up to with pixels besides the curves, in decibels; NaN adds none. 0 means 32.
	PSNR float64
	// MaxPixels is how many of all pixels may be given besides the curves. 0 means 0.05.
	MaxPixels float64
}

// Defaults of [ExtractOptions]. On photos of 5 to 12 MP half the threshold and the length make files twice as large at
// 30 dB: in texture pixels cost less than curves do.
const (
	defaultThreshold = 20
	defaultLength    = 20
	defaultFlatness  = 0.5
	defaultDistance  = 1
	defaultLevels    = 10
	defaultPSNR      = 32
	defaultMaxPixels = 0.05
)

// Extraction is what was kept of a picture.
type Extraction struct {
	Drawing *Drawing // of curves, and pixels under them
	Pixels  int      // of those that are given besides curves
	// PSNR is that of what the drawing makes, in decibels: 10 log10 of 1 over the mean squared error. +Inf where there
	// is none.
	PSNR float64
	// Solved is what the drawing makes.
	Solved []float32
}

func (o *ExtractOptions) settled() (ExtractOptions, error) {
	var out ExtractOptions
	if o != nil {
		out = *o
	}
	for _, f := range []struct {
		name        string
		v           *float64
		normal      float64
		least, most float64
	}{
		{"threshold", &out.Threshold, defaultThreshold, 0.1, 1000},
		{"flatness", &out.Flatness, defaultFlatness, 1.0 / 16, 16},
		{"distance", &out.Distance, defaultDistance, 0.25, 16}, {"levels", &out.Levels, defaultLevels, 0.01, 64},
		{"max pixels", &out.MaxPixels, defaultMaxPixels, 0, 1},
	} {
		if *f.v == 0 {
			*f.v = f.normal
		}
		if !(*f.v >= f.least && *f.v <= f.most) {
			return out, invalid(path{f.name}, *f.v, "must be %v to %v", f.least, f.most)
		}
	}
	if out.PSNR == 0 {
		out.PSNR = defaultPSNR
	}
	if out.Length = cmp.Or(out.Length, defaultLength); out.Length < 2 || out.Length > 1<<20 {
		return out, invalid(path{"length"}, out.Length, "must be 2 to %d", 1<<20)
	}
	if out.PSNR <= 0 || out.PSNR > 100 {
		return out, invalid(path{"psnr"}, out.PSNR, "must be more than 0, and at most 100")
	}
	return out, nil
}

// Pixels are added in rounds, after each of which the picture is solved again: in one the larger of a share of all
// pixels and a share of those allowed, so that there are no more than about 40 rounds. More pixels a round are less
// well placed.
const (
	toneRounds   = 1 // first, in which colours are set right: a second one hardly makes it better
	roundShare   = 1.0 / 400
	allowedShare = 1.0 / 40
	cellSide     = 6 // of the cells of which each gets one pixel a round
)

// Extract finds a drawing that solves to about the picture. Edges are those of Canny: where the gradient of all
// channels together is the largest across its direction. They become Béziers, with the colours on their two sides as
// stops. Then the drawing is solved, and where what comes differs most, pixels are added, until it is as good as asked
// for.
//
// solve returns what a drawing makes, in planes, such as [SolveDrawing] does; it is called several times with drawings
// that share memory. pause is called about every millisecond of the computing between; its error ends the call, and it
// may be nil. The same picture and solutions give the same drawing. Bad input is an [*kernels.InvalidError].
//
// It takes up to 160 bytes of memory a pixel (of noise, all of which is edges), and time for each pixel and round, and
// for each point of an edge as often as its curve is cut in two.
func Extract(ctx context.Context, p *Planes, opts *ExtractOptions,
	solve func(context.Context, *Drawing) ([]float32, error), pause func() error) (*Extraction, error) {
	o, err := opts.settled()
	if err != nil {
		return nil, err
	}
	if err := kernels.CheckSize(p.Width, p.Height); err != nil {
		return nil, err
	}
	if err := checkPlanes(p.Width, p.Height, p.Channels, p.Values); err != nil {
		return nil, err
	}
	n := p.Width * p.Height
	for i, v := range p.Values { // as fast as memory
		if !usable(v) {
			return nil, unusable(path{"values", i}, v)
		}
	}
	d := &Drawing{Width: p.Width, Height: p.Height, Channels: p.Channels, Flags: make([]uint8, n),
		Values: make([]float32, len(p.Values))}
	kernels.Made(ctx, 2*n+4*len(p.Values)) // those of the drawing, and what is taken of them
	pace := &pacer{made: func(bytes int) { kernels.Made(ctx, bytes) }, pause: func() error {
		if err := context.Cause(ctx); err != nil || pause == nil {
			return err
		}
		return pause()
	}}
	x := &extraction{p: p, o: o, d: d, out: &Extraction{Drawing: d}, taken: make([]bool, n), pace: pace}
	for _, c := range traceEdges(p, o, pace) {
		if !x.addCurve(c) {
			break
		}
	}
	if pace.err != nil {
		return nil, pace.err
	}
	if len(d.Curves) == 0 { // something has to be given
		x.give(p.Height/2*p.Width + p.Width/2)
	}
	allowed := o.MaxPixels * float64(n)
	most := max(1, int(roundShare*float64(n)), int(allowedShare*allowed))
	for round := 0; ; round++ {
		if x.out.Solved, err = solve(ctx, d); err != nil {
			return nil, err
		}
		if len(x.out.Solved) != len(p.Values) {
			return nil, fmt.Errorf("diffusion: a solution of %d values for %d", len(x.out.Solved), len(p.Values))
		}
		x.out.PSNR = psnr(x.out.Solved, p.Values, pace)
		more := round < toneRounds
		if more {
			x.tone()
		} else if left := int(allowed) - x.out.Pixels; x.out.PSNR < o.PSNR && left > 0 {
			more = x.addPixels(min(left, most)) > 0
		}
		if pace.err != nil {
			return nil, pace.err
		}
		if !more {
			return x.out, nil
		}
	}
}

// pacer calls pause now and then, and remembers its error. made is told of memory as [kernels.Made] is.
type pacer struct {
	made  func(bytes int)
	pause func() error
	done  int
	err   error
}

// paceWork is how much work goes by between two calls of pause: about half a millisecond of steps of 50 ns.
const paceWork = 10_000

// spend counts steps of work, and reports whether to go on.
func (p *pacer) spend(n int) bool {
	if p.done += n; p.done >= paceWork && p.err == nil {
		p.done = 0
		p.err = p.pause()
	}
	return p.err == nil
}

// PSNR is that of a against b, of values from 0 to 1, in decibels; +Inf where they are equal.
func PSNR(a, b []float32) float64 { return psnr(a, b, &pacer{pause: func() error { return nil }}) }

// psnr is PSNR, of fewer values where pace ends it.
func psnr(a, b []float32, pace *pacer) float64 {
	sum := 0.0
	for i, v := range a {
		if !pace.spend(1) {
			break
		}
		d := float64(v - b[i])
		sum += float64(d * d)
	}
	return -10 * math.Log10(sum/float64(len(a)))
}

// extraction is one under way.
type extraction struct {
	p     *Planes
	o     ExtractOptions
	d     *Drawing
	out   *Extraction
	edges []coloured // of each curve
	taken []bool     // of each pixel: whether it is given, or a curve runs so close to it that it may be
	pace  *pacer
}

// coloured is an edge with the colours to the left and the right of each point, before they are simplified.
type coloured struct {
	edge
	at      []float64 // of each point: where on the curve it is
	colours [2][][]float64
}

// round is a value as it is kept.
func (x *extraction) round(v float64) float32 {
	step := x.o.Levels / 255
	return float32(min(max(math.Round(v/step)*step, 0), 1))
}

// give makes a pixel given, with the mean of those around.
func (x *extraction) give(i int) {
	n := len(x.d.Flags)
	x.d.Flags[i], x.taken[i] = Fixed, true
	x.out.Pixels++
	for c := range x.p.Channels {
		x.d.Values[c*n+i] = x.round(x.p.around(x.p.Values[c*n:][:n], i))
	}
}

// around is the mean of a plane around pixel i, of three by three.
func (p *Planes) around(plane []float32, i int) float64 {
	sum := 0.0
	for dy := -1; dy <= 1; dy++ {
		for dx := -1; dx <= 1; dx++ {
			x, y := min(max(i%p.Width+dx, 0), p.Width-1), min(max(i/p.Width+dy, 0), p.Height-1)
			sum += float64(plane[y*p.Width+x])
		}
	}
	return sum / 9
}

// addPixels gives up to so many pixels, and returns how many, unless it is ended: of each cell the one around which the
// mean error is largest, from the cells where that is largest. To go by the squared error of whole cells would take
// pixels for texture, which they do little about.
func (x *extraction) addPixels(most int) int {
	p, n := x.p, len(x.d.Flags)
	off := make([]float32, len(p.Values))
	x.pace.made(4 * len(off))
	for i, v := range p.Values {
		if !x.pace.spend(1) {
			return 0
		}
		off[i] = v - x.out.Solved[i]
	}
	type candidate struct {
		i    int
		loss float64
	}
	var all []candidate
	for y0 := 0; y0 < p.Height; y0 += cellSide {
		if !x.pace.spend(cellSide * p.Width) {
			return 0
		}
		for x0 := 0; x0 < p.Width; x0 += cellSide {
			var best candidate
			for y := y0; y < min(y0+cellSide, p.Height); y++ {
				for i := y*p.Width + x0; i < y*p.Width+min(x0+cellSide, p.Width); i++ {
					if x.taken[i] {
						continue
					}
					loss := 0.0
					for k := range p.Channels {
						m := p.around(off[k*n:][:n], i)
						loss += float64(m * m)
					}
					if loss > best.loss {
						best = candidate{i, loss}
					}
				}
			}
			if best.loss > 0 {
				all = append(all, best)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.loss, a.loss) })
	all = all[:min(most, len(all))]
	for _, c := range all {
		x.give(c.i)
	}
	return len(all)
}

// coordinates of control points are rounded to so many parts of a pixel.
const extractGrid = 8

// addCurve makes a curve of an edge, unless it is ended, and reports whether to go on.
func (x *extraction) addCurve(e edge) bool {
	points, at := fitCurve(e.points, x.o.Flatness, x.pace)
	if x.pace.err != nil {
		return false
	}
	for i, p := range points {
		points[i] = Point{math.Round(p.X*extractGrid) / extractGrid, math.Round(p.Y*extractGrid) / extractGrid}
	}
	k := coloured{edge: e, at: at}
	for side := range k.colours {
		k.colours[side] = x.beside(e, side, x.p, x.o.Distance)
	}
	if x.pace.err != nil {
		return false
	}
	c := Curve{Points: points, Left: x.stops(&k, 0), Right: x.stops(&k, 1)}
	s := &strokes{channels: x.d.Channels}
	if s.add(x.d, &c, nil) == nil { // else it is a point
		x.d.Curves = append(x.d.Curves, c)
		x.edges = append(x.edges, k)
		for _, q := range e.points {
			x.take(q)
		}
	}
	return x.pace.spend(10 * len(e.points))
}

// take marks the pixels that a curve through a place may claim.
func (x *extraction) take(q Point) {
	const reach = 1.2
	for j := max(int(q.Y-reach), 0); j <= min(int(q.Y+reach), x.p.Height-1); j++ {
		for i := max(int(q.X-reach), 0); i <= min(int(q.X+reach), x.p.Width-1); i++ {
			if math.Hypot(float64(i)+0.5-q.X, float64(j)+0.5-q.Y) < reach {
				x.taken[j*x.p.Width+i] = true
			}
		}
	}
}

// beside is what a picture has on a side of an edge, a distance from each point, smoothed along it; less where it is
// ended.
func (x *extraction) beside(e edge, side int, p *Planes, distance float64) [][]float64 {
	if side == 1 {
		distance = -distance
	}
	found := make([][]float64, len(e.points))
	for i, q := range e.points {
		if !x.pace.spend(10) {
			return found // which nobody reads
		}
		t := e.direction(i)
		found[i] = make([]float64, p.Channels)
		for c := range found[i] {
			found[i][c] = p.sample(c, q.X+distance*t.Y, q.Y-distance*t.X)
		}
	}
	smooth := make([][]float64, len(found))
	for i := range found {
		a, b, c := found[max(i-1, 0)], found[i], found[min(i+1, len(found)-1)]
		smooth[i] = make([]float64, len(b))
		for k := range b {
			smooth[i][k] = (a[k] + 2*b[k] + c[k]) / 4
		}
	}
	return smooth
}

// stops are those of a side.
func (x *extraction) stops(e *coloured, side int) []Stop {
	colours := e.colours[side]
	keep := make([]bool, len(colours))
	keep[0] = true
	x.simplify(colours, e.at, keep, 0, len(colours)-1)
	var stops []Stop
	for i, v := range colours {
		if !keep[i] {
			continue
		}
		s := Stop{At: math.Round(e.at[i]*64) / 64, Values: make([]float32, len(v))}
		for k := range v {
			s.Values[k] = x.round(v[k])
		}
		stops = append(stops, s)
	}
	if len(stops) == 2 && slices.Equal(stops[0].Values, stops[1].Values) {
		stops = stops[:1]
	}
	return stops
}

// tone moves the colours of curves by what the solution is off around them, unless it is ended.
func (x *extraction) tone() {
	off := &Planes{Width: x.p.Width, Height: x.p.Height, Channels: x.p.Channels,
		Values: make([]float32, len(x.p.Values))}
	for i, v := range x.p.Values {
		if !x.pace.spend(1) {
			return
		}
		off.Values[i] = v - x.out.Solved[i]
	}
	for i := range x.edges {
		e := &x.edges[i]
		for side := range e.colours {
			for _, d := range toneDistances {
				found := x.beside(e.edge, side, off, d)
				if x.pace.err != nil {
					return
				}
				for k, v := range found {
					for c := range v {
						e.colours[side][k][c] += v[c] * toneStep / float64(len(toneDistances))
					}
				}
			}
		}
		x.d.Curves[i].Left, x.d.Curves[i].Right = x.stops(e, 0), x.stops(e, 1)
	}
}

// toneDistances are how far from an edge the solution is looked at, in pixels, and toneStep is by how much of what it
// is off colours are moved.
var toneDistances = [...]float64{0.5, 1, 2, 4}

const toneStep = 1

// simplify keeps the stops between two that interpolation would be too far off without, unless it is ended.
func (x *extraction) simplify(colours [][]float64, at []float64, keep []bool, from, to int) {
	keep[to] = true
	if !x.pace.spend(to - from) {
		return
	}
	worst, where := x.o.Levels/255, -1
	for i := from + 1; i < to; i++ {
		f := (at[i] - at[from]) / max(at[to]-at[from], 1e-9)
		for k, v := range colours[i] {
			if off := math.Abs(v - colours[from][k] - f*(colours[to][k]-colours[from][k])); off > worst {
				worst, where = off, i
			}
		}
	}
	if where >= 0 {
		x.simplify(colours, at, keep, from, where)
		x.simplify(colours, at, keep, where, to)
	}
}

// sample interpolates a channel between the centres of pixels.
func (p *Planes) sample(c int, x, y float64) float64 {
	x, y = min(max(x-0.5, 0), float64(p.Width-1)), min(max(y-0.5, 0), float64(p.Height-1))
	i, j := int(x), int(y)
	fx, fy := x-float64(i), y-float64(j)
	plane := p.Values[c*p.Width*p.Height:]
	at := func(i, j int) float64 { return float64(plane[min(j, p.Height-1)*p.Width+min(i, p.Width-1)]) }
	top, bottom := at(i, j)+fx*(at(i+1, j)-at(i, j)), at(i, j+1)+fx*(at(i+1, j+1)-at(i, j+1))
	return top + fy*(bottom-top)
}
