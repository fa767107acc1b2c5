// Shade: triangles in one colour each.

package cpu

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/polyscan/polyscan/kernels/driver"
)

// shading is a Shade in progress.
type shading struct {
	*driver.Shade
	src, dst, colors []byte
	points           []driver.Point
	triangles        []driver.Triangle
	pixel            int // bytes

	// Of PerTile.
	columns, rows int      // of tiles
	totals        []totals // of triangles
	starts        []uint32 // where the list of each tile begins, and where the last one ends
	list          []uint32 // of triangles
	end           int64    // of the scratch memory
}

// totals is what a triangle covers: pixels, and sums over them of the samples in the order of memory.
type totals struct {
	pixels uint64
	sums   [4]uint64
}

// shadeTile is the side of a tile, in pixels.
const shadeTile = 64

func (v *shading) plan(scratch []byte) {
	if v.Method != driver.PerTile {
		return
	}
	v.columns, v.rows = (v.Src.Width+shadeTile-1)/shadeTile, (v.Src.Height+shadeTile-1)/shadeTile
	v.totals = carve[totals](scratch, &v.end, v.Max)
	v.starts = carve[uint32](scratch, &v.end, v.columns*v.rows+1)
	// A triangle is in no more lists than there are tiles. Most are in one or two.
	v.list = carve[uint32](scratch, &v.end, 2*v.Max+v.columns*v.rows)
}

func shadeScratch(op *driver.Shade) int64 {
	v := shading{Shade: op}
	v.plan(nil)
	return v.end
}

func (d *device) shade(op *driver.Shade, stop *stopFlag) error {
	v := &shading{Shade: op}
	if err := v.open(); err != nil {
		return err
	}
	pace := newPace(stop)
	if err := v.check(&pace); err != nil {
		return err
	}
	if op.Method == driver.PerTile {
		v.plan(view(op.Scratch))
		return d.shadeTiles(v, &pace)
	}
	return d.eachTriangle("Shade", 0, len(v.triangles), stop, v.triangle)
}

// open makes views of the memory.
func (v *shading) open() error {
	v.pixel = v.Src.Format.PixelBytes()
	v.src, v.dst, v.colors = view(v.Src.Data), view(v.Dst.Data), view(v.Colors)
	v.points, v.triangles = viewAs[driver.Point](v.Points), viewAs[driver.Triangle](v.Triangles)
	n := viewAs[uint32](v.Count)[0]
	if int64(n) > int64(v.Max) {
		return fmt.Errorf("Count = %d: is more than Max, %d", n, v.Max)
	}
	v.triangles = v.triangles[:n]
	return nil
}

// check looks at the points and triangles.
func (v *shading) check(pace *pace) error {
	for i, p := range v.points {
		if p.X < 0 || int(p.X) > v.Src.Width || p.Y < 0 || int(p.Y) > v.Src.Height {
			return fmt.Errorf("Points[%d] = (%d, %d): is beyond an image of %dx%d", i, p.X, p.Y, v.Src.Width,
				v.Src.Height)
		}
		if pace.spend(1) {
			return errAborted
		}
	}
	for i, t := range v.triangles {
		if n := uint32(len(v.points)); t.A >= n || t.B >= n || t.C >= n {
			return fmt.Errorf("Triangles[%d] = %d, %d, %d: there are %d points", i, t.A, t.B, t.C, n)
		}
		if pace.spend(2) {
			return errAborted
		}
	}
	return nil
}

// eachTriangle runs f of an op on triangles [from, to), on as many threads as there are. f returns false where it was
// told to stop.
func (d *device) eachTriangle(op string, from, to int, stop *stopFlag, f func(i int, p *pace) bool) error {
	const step = 32
	return d.longPieces(op, (to-from+step-1)/step, stop, func(k int, p *pace) bool {
		for i := from + k*step; i < min(from+(k+1)*step, to); i++ {
			if p.spend(100) || !f(i, p) {
				return false
			}
		}
		return true
	})
}

// triangle does one of PerTriangle.
func (v *shading) triangle(i int, p *pace) bool {
	var t totals
	if v.Color == driver.MeanColor && !v.sum(i, &t, p) {
		return false
	}
	return v.paint(i, v.color(i, &t), p)
}

// sum adds the pixels of a triangle. It returns false where it was told to stop: triangles may be large.
func (v *shading) sum(i int, t *totals, p *pace) bool {
	for y, s := range v.spans(i, 0, v.Src.Height) {
		t.add(v.src[y*v.Src.Stride+s.lo*v.pixel:][:(s.hi-s.lo)*v.pixel], v.Src.Format)
		if p.spend(s.hi - s.lo) {
			return false
		}
	}
	return true
}

// paint paints a triangle, and returns as sum does.
func (v *shading) paint(i int, color []byte, p *pace) bool {
	c := newPattern(color)
	for y, s := range v.spans(i, 0, v.Src.Height) {
		c.paint(v.dst[y*v.Dst.Stride+s.lo*v.pixel:][:(s.hi-s.lo)*v.pixel])
		if p.spend((s.hi - s.lo) / 2) {
			return false
		}
	}
	return true
}

// color computes the colour of a triangle into its place, and returns it.
func (v *shading) color(i int, t *totals) []byte {
	out := v.colors[i*v.pixel:][:v.pixel]
	switch {
	case t.pixels == 0:
		a, b, c := v.corners(i)
		x := min((int(a.X)+int(b.X)+int(c.X))/3, v.Src.Width-1)
		y := min((int(a.Y)+int(b.Y)+int(c.Y))/3, v.Src.Height-1)
		copy(out, v.src[y*v.Src.Stride+x*v.pixel:])
	case v.Src.Format.SampleBytes == 2:
		binary.LittleEndian.PutUint16(out, uint16(t.mean(0)))
	default:
		for c := range out {
			out[c] = uint8(t.mean(c))
		}
	}
	return out
}

func (v *shading) corners(i int) (a, b, c driver.Point) {
	t := v.triangles[i]
	return v.points[t.A], v.points[t.B], v.points[t.C]
}

// mean is that of a channel, rounded, halves up.
func (t *totals) mean(c int) uint64 { return (t.sums[c] + t.pixels/2) / t.pixels }

// add counts the pixels of a part of a row.
func (t *totals) add(row []byte, f driver.PixelFormat) {
	switch n := f.PixelBytes(); {
	case f.SampleBytes == 2:
		for x := 0; x+1 < len(row); x += 2 {
			t.sums[0] += uint64(binary.LittleEndian.Uint16(row[x:]))
		}
		t.pixels += uint64(len(row) / 2)
	case n == 3:
		var r, g, b uint64
		for x := 0; x+2 < len(row); x += 3 {
			r += uint64(row[x])
			g += uint64(row[x+1])
			b += uint64(row[x+2])
		}
		t.sums[0] += r
		t.sums[1] += g
		t.sums[2] += b
		t.pixels += uint64(len(row) / 3)
	default:
		for c := range n {
			sum := uint64(0)
			for x := c; x < len(row); x += n {
				sum += uint64(row[x])
			}
			t.sums[c] += sum
		}
		t.pixels += uint64(len(row) / n)
	}
}

// pattern is a pixel many times over.
type pattern struct {
	bytes [64]byte
	n     int // as many of them as are whole pixels
}

func newPattern(color []byte) (p pattern) {
	for p.n+len(color) <= len(p.bytes) {
		p.n += copy(p.bytes[p.n:], color)
	}
	return p
}

func (p *pattern) paint(row []byte) {
	for len(row) > 0 {
		row = row[copy(row, p.bytes[:p.n]):]
	}
}

// columnSpan is columns [lo, hi) of a row.
type columnSpan struct{ lo, hi int }

// spans yields the rows of triangle i in [y0, y1), and what it covers of each; that may be nothing.
func (v *shading) spans(i, y0, y1 int) func(yield func(y int, s columnSpan) bool) {
	return func(yield func(int, columnSpan) bool) {
		a, b, c := v.corners(i)
		if a.Y > b.Y {
			a, b = b, a
		}
		if b.Y > c.Y {
			b, c = c, b
			if a.Y > b.Y {
				a, b = b, a
			}
		}
		for _, e := range [2][2]driver.Point{{a, b}, {b, c}} {
			from, to := max(int(e[0].Y), y0), min(int(e[1].Y), y1)
			if from >= to {
				continue
			}
			long, short := walk(a, c, from), walk(e[0], e[1], from)
			for y := from; y < to; y++ {
				if !yield(y, columnSpan{min(long.x, short.x), max(long.x, short.x)}) {
					return
				}
				long.next()
				short.next()
			}
		}
	}
}

// walker goes down an edge row by row: x is the first column whose centre is not left of where the edge crosses the row
// of centres, and rest how much that is to the right of it, in units of 1/den pixel.
type walker struct{ x, rest, den, step, part int }

// walk begins at row y of the edge from a down to b, which must be lower.
func walk(a, b driver.Point, y int) walker {
	dx, dy := int(b.X-a.X), int(b.Y-a.Y)
	// It crosses the row at a.X + dx (y + 1/2 - a.Y) / dy, and the centre of column x is at x + 1/2.
	num := dx*(2*(y-int(a.Y))+1) - dy
	w := walker{den: 2 * dy}
	k := int(ceilDiv(int64(num), int64(w.den)))
	w.x, w.rest = int(a.X)+k, k*w.den-num
	w.step = dx / dy
	if w.part = 2*dx - w.step*w.den; w.part < 0 {
		w.step--
		w.part += w.den
	}
	return w
}

func (w *walker) next() {
	w.x += w.step
	if w.rest -= w.part; w.rest < 0 {
		w.rest += w.den
		w.x++
	}
}

// shadeTiles does PerTile. Triangles are taken in runs whose lists have room.
func (d *device) shadeTiles(v *shading, p *pace) error {
	for from := 0; from < len(v.triangles); {
		to, ok := v.sort(from, p)
		if !ok {
			return errAborted
		}
		tiles := func(f func(tile int, p *pace) bool) error {
			return d.longPieces("Shade", v.columns*v.rows, p.stop, f)
		}
		if v.Color == driver.MeanColor {
			if err := tiles(v.sumTile); err != nil {
				return err
			}
		}
		err := d.eachTriangle("Shade", from, to, p.stop, func(i int, _ *pace) bool {
			v.color(i, &v.totals[i])
			return true
		})
		if err != nil {
			return err
		}
		if err := tiles(v.paintTile); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// sort puts triangles from one on into the lists of the tiles that they may touch, clears their totals, and returns how
// far it came: as far as the lists have room. ok is false where it was told to stop.
func (v *shading) sort(from int, p *pace) (to int, ok bool) {
	clear(v.starts)
	n, to := 0, from
	for ; to < len(v.triangles); to++ {
		x0, y0, x1, y1 := v.tilesOf(to)
		if n += (x1 - x0) * (y1 - y0); n > len(v.list) {
			break
		}
		if p.spend(10 + 2*(x1-x0)*(y1-y0)) {
			return 0, false
		}
		v.totals[to] = totals{}
		for y := y0; y < y1; y++ {
			for x := x0; x < x1; x++ {
				v.starts[y*v.columns+x]++
			}
		}
	}
	sum := uint32(0)
	for i, k := range v.starts {
		sum += k
		v.starts[i] = sum
	}
	for i := from; i < to; i++ {
		x0, y0, x1, y1 := v.tilesOf(i)
		for y := y0; y < y1; y++ {
			for x := x0; x < x1; x++ {
				s := &v.starts[y*v.columns+x]
				*s--
				v.list[*s] = uint32(i)
			}
		}
		if p.spend(10 + 5*(x1-x0)*(y1-y0)) {
			return 0, false
		}
	}
	return to, true
}

// tilesOf is the columns and rows of tiles that triangle i may touch.
func (v *shading) tilesOf(i int) (x0, y0, x1, y1 int) {
	a, b, c := v.corners(i)
	return int(min(a.X, b.X, c.X)) / shadeTile, int(min(a.Y, b.Y, c.Y)) / shadeTile,
		(int(max(a.X, b.X, c.X)) + shadeTile - 1) / shadeTile, (int(max(a.Y, b.Y, c.Y)) + shadeTile - 1) / shadeTile
}

// sumTile adds the pixels of a tile to the totals of its triangles. It returns false where it was told to stop.
func (v *shading) sumTile(tile int, p *pace) bool {
	x0, y0 := tile%v.columns*shadeTile, tile/v.columns*shadeTile
	for _, i := range v.list[v.starts[tile]:v.starts[tile+1]] {
		var t totals
		for y, s := range v.spans(int(i), y0, y0+shadeTile) {
			if lo, hi := max(s.lo, x0), min(s.hi, x0+shadeTile); lo < hi {
				t.add(v.src[y*v.Src.Stride+lo*v.pixel:][:(hi-lo)*v.pixel], v.Src.Format)
			}
		}
		if t.pixels > 0 {
			sum := &v.totals[i]
			atomic.AddUint64(&sum.pixels, t.pixels)
			for c := range t.sums {
				atomic.AddUint64(&sum.sums[c], t.sums[c])
			}
		}
		if p.spend(100 + int(t.pixels)) {
			return false
		}
	}
	return true
}

// paintTile paints a tile, and returns as sumTile does.
func (v *shading) paintTile(tile int, pace *pace) bool {
	x0, y0 := tile%v.columns*shadeTile, tile/v.columns*shadeTile
	for _, i := range v.list[v.starts[tile]:v.starts[tile+1]] {
		p := newPattern(v.colors[int(i)*v.pixel:][:v.pixel])
		for y, s := range v.spans(int(i), y0, y0+shadeTile) {
			if lo, hi := max(s.lo, x0), min(s.hi, x0+shadeTile); lo < hi {
				p.paint(v.dst[y*v.Dst.Stride+lo*v.pixel:][:(hi-lo)*v.pixel])
			}
		}
		if pace.spend(shadeTile * 10) {
			return false
		}
	}
	return true
}
