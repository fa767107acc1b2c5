// Blobs: the oracle, problems, and the comparison.

package devicetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Finding says which blobs of a problem are found, and how: fields of [driver.MaskBlobs].
type Finding struct {
	Channel  int
	Ranges   []driver.BlobRange
	Eight    bool
	Steps    []driver.BlobStep
	MinCount uint32
	MaxBlobs int
	MaxRuns  int
}

// Found is what an op wrote: as much of Blobs and Runs as it says there is.
type Found struct {
	Counts []driver.BlobCount
	Blobs  []driver.Blob
	Runs   []driver.BlobRun
}

type spot struct{ x, y int }

// FindBlobs is what [driver.MaskBlobs] must write for the regions of p, of which rows [row0, row0+rows) are in the
// frame: by filling from each pixel that has no blob yet.
func (p *Problem) FindBlobs(f Finding, row0, rows int) *Found {
	out := &Found{}
	kept, runs := uint32(0), uint32(0)
	for i := range p.Count {
		within, inside := p.insideRows(p.First+i, row0, rows)
		foreground := newArea(p.Width, row0, rows)
		r := f.Ranges[i]
		for _, s := range inside {
			if v := p.sample(s.x, s.y, f.Channel); v >= uint32(r.Lo) && v <= uint32(r.Hi) {
				foreground.put(s.x, s.y)
			}
		}
		for _, s := range f.Steps {
			foreground = step(foreground, within, inside, &s)
		}
		c := driver.BlobCount{First: kept, FirstRun: runs}
		owned := newArea(p.Width, row0, rows)
		owner := make([]int, p.Width*rows) // 1 + index in Blobs of kept ones, 0 of those that aren't
		ownerOf := func(x, y int) *int { return &owner[(y-row0)*p.Width+x] }
		for _, start := range inside {
			if owned.in(start.x, start.y) || !foreground.in(start.x, start.y) {
				continue
			}
			pixels := flood(start, foreground, owned, f.Eight)
			strong := r.Strong == 0
			for _, s := range pixels {
				v := p.sample(s.x, s.y, f.Channel)
				strong = strong || v >= uint32(r.StrongLo) && v <= uint32(r.StrongHi)
			}
			number := 0
			if strong {
				if c.All++; len(pixels) >= int(f.MinCount) {
					c.Kept++
					kept++
					number = int(kept)
					if int(kept) <= f.MaxBlobs {
						b := p.describe(pixels, foreground, f)
						b.Region, b.First = uint32(p.First+i), uint32(start.y*p.Width+start.x)
						out.Blobs = append(out.Blobs, b)
					}
				}
			}
			for _, s := range pixels {
				*ownerOf(s.x, s.y) = number
			}
		}
		for _, s := range inside {
			number := *ownerOf(s.x, s.y)
			if number == 0 || foreground.in(s.x-1, s.y) && *ownerOf(s.x-1, s.y) == number {
				continue
			}
			u := driver.BlobRun{Y: uint32(s.y), X0: uint32(s.x), X1: uint32(s.x + 1), Blob: uint32(number - 1)}
			for foreground.in(int(u.X1), s.y) {
				u.X1++
			}
			c.Runs++
			if runs++; int(runs) <= f.MaxRuns {
				out.Runs = append(out.Runs, u)
			}
		}
		out.Counts = append(out.Counts, c)
	}
	return out
}

// step is a step of morphology: each pixel of a region looks at those of it that are under the element.
func step(foreground, within *area, inside []spot, s *driver.BlobStep) *area {
	out := newArea(within.width, within.row0, within.rows)
	reach := len(s.Half) - 1
	for _, at := range inside {
		some := false // a pixel of the kind that spreads
		for dy := -reach; dy <= reach; dy++ {
			half := int(s.Half[max(dy, -dy)])
			for dx := -half; dx <= half; dx++ {
				x, y := at.x+dx, at.y+dy
				some = some || within.in(x, y) && foreground.in(x, y) != s.Erode
			}
		}
		if some != s.Erode {
			out.put(at.x, at.y)
		}
	}
	return out
}

// flood is the pixels of the blob that holds start, which it puts into seen.
func flood(start spot, foreground, seen *area, eight bool) []spot {
	out := []spot{start}
	seen.put(start.x, start.y)
	for k := 0; k < len(out); k++ {
		for dy := -1; dy <= 1; dy++ {
			for dx := -1; dx <= 1; dx++ {
				q := spot{out[k].x + dx, out[k].y + dy}
				if (eight || dx == 0 || dy == 0) && foreground.in(q.x, q.y) && !seen.in(q.x, q.y) {
					seen.put(q.x, q.y)
					out = append(out, q)
				}
			}
		}
	}
	return out
}

// describe makes the sums of a blob, pixel by pixel, and counts its corners, each with the four pixels around it.
func (p *Problem) describe(pixels []spot, foreground *area, f Finding) driver.Blob {
	b := driver.Blob{Min: math.MaxUint32, X0: math.MaxUint32, Y0: math.MaxUint32}
	y0, y1 := pixels[0].y, pixels[0].y
	for _, s := range pixels {
		y0, y1 = min(y0, s.y), max(y1, s.y)
	}
	own, corners := newArea(p.Width, y0, y1+1-y0), newArea(p.Width+1, y0, y1+2-y0)
	for _, s := range pixels {
		own.put(s.x, s.y)
	}
	for _, s := range pixels {
		x, y, v := uint64(s.x), uint64(s.y), uint64(p.sample(s.x, s.y, f.Channel))
		b.Count++
		b.SumX += x
		b.SumY += y
		b.SumXX += x * x
		b.SumXY += x * y
		b.SumYY += y * y
		b.Sum += v
		b.SumSq += v * v
		b.Min, b.Max = min(b.Min, uint32(v)), max(b.Max, uint32(v))
		b.X0, b.Y0 = min(b.X0, uint32(x)), min(b.Y0, uint32(y))
		b.X1, b.Y1 = max(b.X1, uint32(x+1)), max(b.Y1, uint32(y+1))
		for _, d := range []int{-1, 1} {
			if !own.in(s.x+d, s.y) {
				b.SidesX++
			}
			if !own.in(s.x, s.y+d) {
				b.SidesY++
			}
		}
		for _, q := range []spot{s, {s.x + 1, s.y}, {s.x, s.y + 1}, {s.x + 1, s.y + 1}} {
			corners.put(q.x, q.y)
		}
	}
	for i, corner := range corners.has {
		if !corner {
			continue
		}
		q := spot{i % corners.width, corners.row0 + i/corners.width}
		around := [4]spot{{q.x - 1, q.y - 1}, {q.x, q.y - 1}, {q.x, q.y}, {q.x - 1, q.y}} // in a circle
		set, mine := 0, uint32(0)
		for _, s := range around {
			if foreground.in(s.x, s.y) {
				set++
			}
			if own.in(s.x, s.y) {
				mine++
			}
		}
		facing := set == 2 && foreground.in(around[0].x, around[0].y) == foreground.in(around[2].x, around[2].y)
		switch {
		case set == 1, facing && !f.Eight:
			b.Convex += mine
		case set == 3:
			b.Concave++
		case facing:
			b.Concave += 2
		}
	}
	return b
}

func init() { oracle(hostMaskBlobs) }

func hostMaskBlobs(op *driver.MaskBlobs) error {
	p, err := preparedFor(op.Prepared, &op.Frame, op.Row0, op.First, op.Count)
	if err != nil {
		return err
	}
	p.Pixels = append(make([]byte, op.Row0*p.Stride), view(op.Frame.Data)...)
	if err := p.checkUse(); err != nil {
		return err
	}
	f := p.FindBlobs(Finding{Channel: op.Channel, Ranges: op.Ranges, Eight: op.Eight, Steps: op.Steps,
		MinCount: op.MinCount, MaxBlobs: op.MaxBlobs, MaxRuns: op.MaxRuns}, op.Row0, op.Frame.Height)
	copy(view(op.Counts), bytesOf(f.Counts))
	if len(f.Blobs) > 0 {
		copy(view(op.Blobs), bytesOf(f.Blobs))
	}
	if len(f.Runs) > 0 {
		copy(view(op.Runs), bytesOf(f.Runs))
	}
	return nil
}

// Elements of morphology: a row, a rectangle, and a disc.
func someSteps(g *rand.Rand) []driver.BlobStep {
	elements := [][]uint8{{1, 1}, {0}, {3}, {0, 0, 0}, {2, 2, 1}, {1, 0}, {5, 4, 4, 3, 0}, {31}}
	var steps []driver.BlobStep
	for range 1 + g.IntN(2) {
		half := elements[g.IntN(len(elements))]
		steps = append(steps, driver.BlobStep{Erode: g.IntN(2) == 0, Half: half})
	}
	return steps
}

// someFinding is one of the ways to look for blobs in a problem.
func someFinding(g *rand.Rand, p *Problem) Finding {
	f := Finding{Channel: g.IntN(int(p.Format.Channels)), Eight: g.IntN(2) == 0, MaxBlobs: 1 << 12, MaxRuns: 1 << 14,
		Ranges: make([]driver.BlobRange, p.Count)}
	most := p.Format.Levels() - 1
	for i := range f.Ranges {
		r := driver.BlobRange{Lo: uint16(g.IntN(most + 1)), Hi: uint16(most)}
		switch g.IntN(5) {
		case 0:
			r.Lo, r.Hi = 0, uint16(g.IntN(most+1))
		case 1:
			r.Lo = 0
		case 2:
			r.Hi = uint16(g.IntN(most + 1)) // maybe nothing
		}
		if g.IntN(3) == 0 {
			r.Strong, r.StrongLo, r.StrongHi = 1, uint16(g.IntN(most+1)), uint16(most)
		}
		f.Ranges[i] = r
	}
	if g.IntN(2) == 0 {
		f.MinCount = uint32(g.IntN(12))
	}
	if g.IntN(3) == 0 {
		f.Steps = someSteps(g)
	}
	if g.IntN(5) == 0 {
		f.MaxBlobs, f.MaxRuns = g.IntN(6), g.IntN(40)
	}
	return f
}

// CompareFound returns the first difference of two results, or nil.
func CompareFound(a, b *Found) *Difference {
	d := &Difference{Op: "MaskBlobs", Region: -1}
	differ := func(what string, i int, x, y any) {
		v, w := reflect.ValueOf(x), reflect.ValueOf(y)
		for k := range v.NumField() {
			if name := v.Type().Field(k).Name; name != "_" && v.Field(k).Uint() != w.Field(k).Uint() {
				if d.Count++; d.Count == 1 {
					d.Field, d.A, d.B = fmt.Sprintf("%s %d: %s", what, i, name), v.Field(k).Uint(), w.Field(k).Uint()
				}
			}
		}
	}
	for i := range a.Counts {
		differ("count", i, a.Counts[i], b.Counts[i])
	}
	for i := range min(len(a.Blobs), len(b.Blobs)) {
		differ("blob", i, a.Blobs[i], b.Blobs[i])
	}
	for i := range min(len(a.Runs), len(b.Runs)) {
		differ("run", i, a.Runs[i], b.Runs[i])
	}
	if d.Count == 0 {
		return nil
	}
	return d
}

// Cut leaves as much of Blobs and Runs as Counts says there is, and returns f.
func (f *Found) Cut() *Found {
	if n := len(f.Counts); n > 0 {
		last := f.Counts[n-1]
		f.Blobs = firstOf(f.Blobs, last.First+last.Kept)
		f.Runs = firstOf(f.Runs, last.FirstRun+last.Runs)
	}
	return f
}
