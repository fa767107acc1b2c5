// CurveRaster: bands of rows, each drawn by one thread.

package cpu

import (
	"math"
	"sort"

	"github.com/polyscan/polyscan/kernels/driver"
)

const (
	curveBandRows = 32 // of a band: a segment of a usual scene is in few, and there are far more of them than threads
	crossingNs    = 20
	pieceNs       = 20
)

// A claim is what a crossing says to a pixel, in 64 bits that are the less the better it is: the distance in bits 48 to
// 63, the complement of the segment's index in 24 to 47, the parameter within it in 8 to 23, and the side in 0.
type claim uint64

const (
	noClaim    claim  = math.MaxUint64
	rightSide  claim  = 1
	mostOf16          = 1<<16 - 1
	segmentMax uint32 = driver.MaxCurveSegments - 1
)

func makeClaim(distance int64, segment uint32, at int64) claim {
	return claim(distance)<<48 | claim(segmentMax-segment)<<24 | claim(at)<<8
}

func (c claim) segment() uint32   { return segmentMax - uint32(c>>24)&segmentMax }
func (c claim) parameter() uint32 { return uint32(c>>8) & mostOf16 }

// curveBand is what a thread draws: rows y0 to y1.
type curveBand struct {
	op     *driver.CurveRaster
	width  int
	y0, y1 int
	claims []claim // of its rows
	flags  []byte
	values []float32 // of the whole image, as flags are
	pace   *pace

	// Of the segment under way.
	segment uint32
	colours [2]bool // whether the left and the right side have any
	barrier bool
	log     uint32
	ways    int // between centres that were looked at
}

func (d *device) curveRaster(op *driver.CurveRaster, stop *stopFlag) error {
	n := op.Width * op.Height
	flags := view(op.Flags)
	values := viewAs[float32](op.Values)
	scratch := view(op.Scratch)
	claims := sliceAt[claim](scratch, 0, n)
	return d.longPieces("CurveRaster", (op.Height+curveBandRows-1)/curveBandRows, stop, func(i int, p *pace) bool {
		b := curveBand{op: op, width: op.Width, y0: i * curveBandRows, flags: flags, values: values, pace: p}
		b.y1 = min(b.y0+curveBandRows, op.Height)
		b.claims = claims[b.y0*op.Width : b.y1*op.Width]
		for i := range b.claims {
			b.claims[i] = noClaim
		}
		if p.spend(len(b.claims)) {
			return false
		}
		for i := range op.Segments {
			if !b.draw(uint32(i)) {
				return false
			}
		}
		return b.resolve()
	})
}

// draw claims pixels of the band for a segment. It returns false where it was told to stop.
func (b *curveBand) draw(i uint32) bool {
	s := &b.op.Segments[i]
	// A curve is inside the hull of its control points; a crossing counts for the rows around it.
	const half = driver.Subpixel / 2
	top, bottom := min(s.Y[0], s.Y[1], s.Y[2], s.Y[3]), max(s.Y[0], s.Y[1], s.Y[2], s.Y[3])
	if int64(bottom) < int64(b.y0)*driver.Subpixel-half || int64(top) > int64(b.y1)*driver.Subpixel+half {
		return !b.pace.spend(1)
	}
	c := &b.op.Curves[s.Curve]
	b.segment, b.log, b.barrier = i, s.LogPieces, c.Barrier != 0
	b.colours = [2]bool{c.Left.Count > 0, c.Right.Count > 0}
	ax, ay := int64(s.X[0]), int64(s.Y[0])
	for k := int64(1); k <= 1<<s.LogPieces; k++ {
		x, y := curvePoint(&s.X, k, s.LogPieces), curvePoint(&s.Y, k, s.LogPieces)
		b.rows(ax, ay, x, y, k-1)
		b.columns(ax, ay, x, y, k-1)
		ax, ay = x, y
		if b.pace.spend(pieceNs + b.ways*crossingNs) {
			return false
		}
		b.ways = 0
	}
	return true
}

// curvePoint is a coordinate of point i of 2^log + 1.
func curvePoint(p *[4]int32, i int64, log uint32) int64 {
	n := int64(1) << log
	j := n - i
	sum := j*j*j*int64(p[0]) + 3*j*j*i*int64(p[1]) + 3*j*i*i*int64(p[2]) + i*i*i*int64(p[3])
	if log == 0 {
		return sum
	}
	return (sum + 1<<(3*log-1)) >> (3 * log)
}

// floorDiv is a/b rounded down, for b > 0.
func floorDiv(a, b int64) int64 { return -ceilDiv(-a, b) }

// centresFrom is the first row or column whose centre is at v or beyond.
func centresFrom(v int64) int64 { return ceilDiv(v-driver.Subpixel/2, driver.Subpixel) }

// rows finds where piece k, from a to b, crosses rows of centres. There it parts a pixel from its right neighbour.
func (b *curveBand) rows(ax, ay, bx, by, k int64) {
	if ay == by {
		return
	}
	down := by > ay
	x0, y0, x1, y1 := ax, ay, bx, by
	if !down {
		x0, y0, x1, y1 = bx, by, ax, ay
	}
	d := y1 - y0
	from, to := max(centresFrom(y0), int64(b.y0)), min(centresFrom(y1), int64(b.y1))
	b.ways += int(max(to-from, 0))
	for y := from; y < to; y++ {
		centre := y*driver.Subpixel + driver.Subpixel/2
		num, den := (x0-driver.Subpixel/2)*d+(centre-y0)*(x1-x0), d*driver.Subpixel
		east := ceilDiv(num, den)
		if east < 0 || east > int64(b.width) {
			continue
		}
		at := b.along(centre-ay, by-ay, k)
		i := int(y)*b.width + int(east)
		if east > 0 {
			b.claim(i-1, num-(east-1)*den, den, at, down) // someone who walks down has the east to the left
		}
		if east < int64(b.width) {
			b.claim(i, east*den-num, den, at, !down)
		}
		if b.barrier && east > 0 && east < int64(b.width) {
			b.flags[i-1] |= driver.DiffusionBlockRight
		}
	}
}

// columns is rows for columns of centres, where a piece parts a pixel from its lower neighbour.
func (b *curveBand) columns(ax, ay, bx, by, k int64) {
	if ax == bx {
		return
	}
	right := bx > ax
	x0, y0, x1, y1 := ax, ay, bx, by
	if !right {
		x0, y0, x1, y1 = bx, by, ax, ay
	}
	// No crossing is more than the piece's rows away.
	if max(y0, y1) < int64(b.y0-1)*driver.Subpixel || min(y0, y1) > int64(b.y1+1)*driver.Subpixel {
		return
	}
	d := x1 - x0
	from, to := max(centresFrom(x0), 0), min(centresFrom(x1), int64(b.width))
	b.ways += int(max(to-from, 0))
	for x := from; x < to; x++ {
		centre := x*driver.Subpixel + driver.Subpixel/2
		num, den := (y0-driver.Subpixel/2)*d+(centre-x0)*(y1-y0), d*driver.Subpixel
		south := ceilDiv(num, den)
		if y1 > y0 { // through a centre: it lies to the right of where it is, and so above the line
			south = floorDiv(num, den) + 1
		}
		if south < int64(b.y0) || south > int64(b.y1) {
			continue
		}
		at := b.along(centre-ax, bx-ax, k)
		i := int(south)*b.width + int(x)
		if south > int64(b.y0) {
			b.claim(i-b.width, num-(south-1)*den, den, at, !right) // someone who walks right has the north to the left
			if b.barrier && south < int64(b.op.Height) {
				b.flags[i-b.width] |= driver.DiffusionBlockDown
			}
		}
		if south < int64(b.y1) {
			b.claim(i, south*den-num, den, at, right)
		}
	}
}

// along is the parameter within the segment where piece k has gone part of whole, which have the same sign.
func (b *curveBand) along(part, whole, k int64) int64 {
	return min((k*driver.CurveUnit+part*driver.CurveUnit/whole)>>b.log, mostOf16)
}

// claim claims pixel i for a crossing at a distance of num/den. right is whether it is on that side.
func (b *curveBand) claim(i int, num, den, at int64, right bool) {
	side := claim(0)
	if right {
		side = rightSide
	}
	if !b.colours[side] {
		return
	}
	c := makeClaim(min(num<<16/den, mostOf16), b.segment, at) | side
	to := &b.claims[i-b.y0*b.width]
	*to = min(*to, c)
}

// resolve writes what pixels were claimed for. It returns false where it was told to stop.
func (b *curveBand) resolve() bool {
	n := b.width * b.op.Height
	for j, c := range b.claims {
		if c == noClaim {
			continue
		}
		if b.pace.spend(crossingNs) {
			return false
		}
		s := &b.op.Segments[c.segment()]
		run := b.op.Curves[s.Curve].Left
		if c&rightSide != 0 {
			run = b.op.Curves[s.Curve].Right
		}
		stops := b.op.Stops[run.First:][:run.Count]
		at := s.Start + c.parameter()
		i := b.y0*b.width + j
		b.flags[i] |= driver.DiffusionFixed
		next := sort.Search(len(stops), func(k int) bool { return stops[k].At > at })
		from := &stops[max(next-1, 0)]
		if next == 0 || next == len(stops) {
			for k := range b.op.Channels {
				b.values[k*n+i] = from.Values[k]
			}
			continue
		}
		to := &stops[next]
		f := float32(at-from.At) / float32(to.At-from.At)
		for k := range b.op.Channels {
			// The conversion keeps the compiler from fusing the operations.
			b.values[k*n+i] = from.Values[k] + float32((to.Values[k]-from.Values[k])*f)
		}
	}
	return !b.pace.spend(len(b.claims))
}
