// Paintings, and the oracle of shading.

package devicetest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Painting is a picture, and triangles that are to be painted on it.
type Painting struct {
	Picture
	Points    []driver.Point
	Triangles []driver.Triangle
}

// Paintings are what shading is tested on: [Pictures] with triangulations that cover all of them, and with some that
// don't; no triangles, and such without area.
func Paintings(seed uint64, random int) []Painting {
	r := rand.New(rand.NewPCG(seed, 19))
	var out []Painting
	for i, p := range Pictures(seed, random) {
		x := Painting{Picture: p}
		w, h := int32(p.Width), int32(p.Height)
		for range r.IntN(9) {
			x.Points = append(x.Points, driver.Point{X: r.Int32N(w + 1), Y: r.Int32N(h + 1)})
		}
		kind := "inside"
		if i%4 != 3 {
			kind = "all over"
			x.Points = append(x.Points, driver.Point{}, driver.Point{X: w}, driver.Point{Y: h},
				driver.Point{X: w, Y: h})
		}
		r.Shuffle(len(x.Points), func(i, j int) { x.Points[i], x.Points[j] = x.Points[j], x.Points[i] })
		x.Triangles = Delaunay(x.Points)
		for j, t := range x.Triangles {
			if r.IntN(2) == 0 {
				x.Triangles[j] = driver.Triangle{A: t.C, B: t.B, C: t.A}
			}
		}
		if n := uint32(len(x.Points)); i%3 == 0 && n > 0 {
			k := r.Uint32N(n)
			x.Triangles = append(x.Triangles, driver.Triangle{A: k, B: k, C: k},
				driver.Triangle{A: r.Uint32N(n), B: k, C: k})
		}
		x.Name = fmt.Sprintf("%d triangles %s of %s", len(x.Triangles), kind, p.Name)
		out = append(out, x)
	}
	return append(out, slivers(300, 70))
}

// slivers is an image that is cut into triangles a pixel wide and as high as it is: more parts of triangles than there
// can be of such as are found in pictures.
func slivers(w, h int) Painting {
	x := Painting{Picture: Picture{Width: w, Height: h, Stride: 3 * w, Format: driver.RGB8,
		Pixels: make([]byte, 3*w*h)}}
	for i := range x.Pixels {
		x.Pixels[i] = byte(i * i >> 3)
	}
	for i := range w + 1 {
		x.Points = append(x.Points, driver.Point{X: int32(i)}, driver.Point{X: int32(i), Y: int32(h)})
	}
	for i := range uint32(w) {
		x.Triangles = append(x.Triangles, driver.Triangle{A: 2 * i, B: 2*i + 2, C: 2*i + 1},
			driver.Triangle{A: 2*i + 1, B: 2*i + 2, C: 2*i + 3})
	}
	x.Name = fmt.Sprintf("%d slivers of %dx%d", 2*w, w, h)
	return x
}

// covers reports whether the triangle covers a pixel, by the crossing rule as it is written.
func covers(corners [3]driver.Point, x, y int) bool {
	inside := false
	for i, a := range corners {
		b := corners[(i+1)%3]
		if a.Y > b.Y {
			a, b = b, a
		}
		if int(a.Y) > y || int(b.Y) <= y { // y + 1/2 is between two whole numbers
			continue
		}
		// Where it crosses, a.X + (b.X-a.X) (y + 1/2 - a.Y) / (b.Y-a.Y), is right of x + 1/2.
		if (2*x+1-2*int(a.X))*int(b.Y-a.Y) < int(b.X-a.X)*(2*y+1-2*int(a.Y)) {
			inside = !inside
		}
	}
	return inside
}

// put writes a sample where [Picture.sample] reads it.
func (p *Picture) put(x, y, c, v int) {
	at := p.Pixels[y*p.Stride+x*p.Format.PixelBytes():]
	if p.Format.SampleBytes == 2 {
		binary.LittleEndian.PutUint16(at, uint16(v))
	} else {
		at[p.Format.Order[c]] = byte(v)
	}
}

// pixels are those that a triangle covers, row by row.
func (p *Painting) pixels(t driver.Triangle) (out [][2]int) {
	a, b, c := p.Points[t.A], p.Points[t.B], p.Points[t.C]
	for y := int(min(a.Y, b.Y, c.Y)); y < int(max(a.Y, b.Y, c.Y)); y++ {
		for x := int(min(a.X, b.X, c.X)); x < int(max(a.X, b.X, c.X)); x++ {
			if covers([3]driver.Point{a, b, c}, x, y) {
				out = append(out, [2]int{x, y})
			}
		}
	}
	return out
}

// mean is that of a channel over pixels, rounded, halves up.
func (p *Picture) mean(pixels [][2]int, c int) int {
	sum := 0
	for _, at := range pixels {
		sum += p.sample(at[0], at[1], c)
	}
	return (2*sum + len(pixels)) / (2 * len(pixels))
}

// Shade paints the triangles on dst, a picture of the same size and format, and returns their colours, pixels one
// behind the other. It is an error where two cover the same pixel.
func (p *Painting) Shade(color driver.ShadeColor, dst *Picture) ([]byte, error) {
	colors := Picture{Width: len(p.Triangles), Height: 1, Format: p.Format}
	colors.Pixels = make([]byte, len(p.Triangles)*p.Format.PixelBytes())
	covered := map[[2]int]int{}
	for i, t := range p.Triangles {
		pixels := p.pixels(t)
		for _, at := range pixels {
			if j, ok := covered[at]; ok {
				return nil, fmt.Errorf("triangles %d and %d both cover (%d, %d)", j, i, at[0], at[1])
			}
			covered[at] = i
		}
		from := pixels
		if color == driver.CentroidColor || len(pixels) == 0 {
			a, b, c := p.Points[t.A], p.Points[t.B], p.Points[t.C]
			from = [][2]int{{min(int(a.X+b.X+c.X)/3, p.Width-1), min(int(a.Y+b.Y+c.Y)/3, p.Height-1)}}
		}
		for c := range int(p.Format.Channels) {
			v := p.mean(from, c)
			colors.put(i, 0, c, v)
			for _, at := range pixels {
				dst.put(at[0], at[1], c, v)
			}
		}
	}
	return colors.Pixels, nil
}

// Hold does what [driver.Hold] says, where p is the picture before, and returns how many pixels have changed.
func (p *Painting) Hold(limit, jump int, dst *Picture, colors []byte) (changed int) {
	shaded := Picture{Width: len(p.Triangles), Height: 1, Format: p.Format, Pixels: colors}
	for i, t := range p.Triangles {
		pixels := p.pixels(t)
		if len(pixels) == 0 {
			continue
		}
		jumped := false
		for c := range int(p.Format.Channels) {
			before, m := p.mean(pixels, c), shaded.sample(i, 0, c)
			v := before
			switch {
			case before > m+jump || before < m-jump:
				v, jumped = m, true
			case before > m+limit:
				v = m + limit
			case before < m-limit:
				v = m - limit
			}
			shaded.put(i, 0, c, v)
			for _, at := range pixels {
				dst.put(at[0], at[1], c, v)
			}
		}
		if jumped {
			changed += len(pixels)
		}
	}
	return changed
}
