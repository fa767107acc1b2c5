// Mesh: the triangles of a picture, and the files that hold them.

package lowpoly

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image/color"
	"io"
	"math"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Mesh is coloured triangles that cover a frame. Points are corners of pixels: x to the right, 0 to Width, and y down,
// 0 to Height.
type Mesh struct {
	Width, Height int
	Points        []Point
	// Triangles as [driver.Triangulate] describes them, and the colour of each, with straight alpha. Grays have three
	// equal parts; of more than 8 bits they are the high 8.
	Triangles []Triangle
	Colors    []color.NRGBA
}

// colorOf is that of a pixel.
func colorOf(p []byte, f driver.PixelFormat) color.NRGBA {
	switch {
	case f.SampleBytes == 2:
		v := uint8(min(binary.LittleEndian.Uint16(p)>>(f.Bits-8), 255))
		return color.NRGBA{v, v, v, 255}
	case f.Channels < 3:
		v := p[f.Order[0]]
		return color.NRGBA{v, v, v, 255}
	}
	c := color.NRGBA{p[f.Order[0]], p[f.Order[1]], p[f.Order[2]], 255}
	if f.Channels == 4 {
		c.A = p[f.Order[3]]
	}
	return c
}

// WriteSVG writes an SVG drawing of the frame's size. Edges aren't smoothed, as that would leave seams.
func (m *Mesh) WriteSVG(w io.Writer) error {
	b := bufio.NewWriterSize(w, 1<<16)
	fmt.Fprintf(b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" shape-rendering="crispEdges">`+"\n",
		m.Width, m.Height)
	for i, t := range m.Triangles {
		p, q, r, c := m.Points[t.A], m.Points[t.B], m.Points[t.C], m.Colors[i]
		fmt.Fprintf(b, `<path fill="#%02x%02x%02x"`, c.R, c.G, c.B)
		if c.A != 255 {
			fmt.Fprintf(b, ` fill-opacity="%.3f"`, float64(c.A)/255)
		}
		fmt.Fprintf(b, ` d="M%d %dL%d %dL%d %dz"/>`+"\n", p.X, p.Y, q.X, q.Y, r.X, r.Y)
	}
	b.WriteString("</svg>\n")
	return b.Flush() // with the first error
}

// WritePLY writes a PLY file, binary, with a colour for each face. As in the frame, y points down; z is 0.
func (m *Mesh) WritePLY(w io.Writer) error {
	b := bufio.NewWriterSize(w, 1<<16)
	fmt.Fprintf(b, "ply\nformat binary_little_endian 1.0\nelement vertex %d\nproperty float x\nproperty float y\nproperty float z\n"+
		"element face %d\nproperty list uchar uint vertex_indices\n"+
		"property uchar red\nproperty uchar green\nproperty uchar blue\nproperty uchar alpha\nend_header\n",
		len(m.Points), len(m.Triangles))
	var place [12]byte
	for _, p := range m.Points {
		binary.LittleEndian.PutUint32(place[0:], math.Float32bits(float32(p.X))) // exact: sides are below 2^24
		binary.LittleEndian.PutUint32(place[4:], math.Float32bits(float32(p.Y)))
		b.Write(place[:])
	}
	var row [17]byte
	row[0] = 3
	for i, t := range m.Triangles {
		for k, v := range [3]uint32{t.A, t.B, t.C} {
			binary.LittleEndian.PutUint32(row[1+4*k:], v)
		}
		c := m.Colors[i]
		row[13], row[14], row[15], row[16] = c.R, c.G, c.B, c.A
		b.Write(row[:])
	}
	return b.Flush() // with the first error
}

// WriteJSON writes {"width", "height", "points": [[x, y], ...], "triangles": [[a, b, c], ...], "colors": ["#rrggbb",
// ...]}; colours that are not opaque are #rrggbbaa.
func (m *Mesh) WriteJSON(w io.Writer) error {
	out := struct {
		Width     int         `json:"width"`
		Height    int         `json:"height"`
		Points    [][2]int32  `json:"points"`
		Triangles [][3]uint32 `json:"triangles"`
		Colors    []string    `json:"colors"`
	}{m.Width, m.Height, make([][2]int32, len(m.Points)), make([][3]uint32, len(m.Triangles)),
		make([]string, len(m.Triangles))}
	for i, p := range m.Points {
		out.Points[i] = [2]int32{p.X, p.Y}
	}
	for i, t := range m.Triangles {
		c := m.Colors[i]
		out.Triangles[i] = [3]uint32{t.A, t.B, t.C}
		if out.Colors[i] = fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B); c.A != 255 {
			out.Colors[i] += fmt.Sprintf("%02x", c.A)
		}
	}
	return json.NewEncoder(w).Encode(out)
}
