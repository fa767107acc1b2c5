// Pictures of the stages before the last.

package lowpoly

import (
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// showEdges draws the edges, and for the stage of points these.
func (c *conversion) showEdges() {
	out := c.canvas(driver.Gray8)
	for i, e := range c.edges {
		out[i] = byte(e / 8)
		if c.opt.Stage == StagePoints {
			out[i] /= 2
		}
	}
	if c.opt.Stage == StageEdges {
		return
	}
	for _, p := range c.out.Mesh.Points {
		at := c.pixelAt(p)
		for y := max(at.Y-1, 0); y <= min(at.Y+1, int32(c.Height)-1); y++ {
			for x := max(at.X-1, 0); x <= min(at.X+1, int32(c.Width)-1); x++ {
				out[int(y)*c.Width+int(x)] = 255
			}
		}
	}
}

// pixelAt is the pixel to the right of and below a vertex, or the nearest one.
func (c *conversion) pixelAt(p driver.Point) driver.Point {
	return driver.Point{X: min(p.X, int32(c.Width)-1), Y: min(p.Y, int32(c.Height)-1)}
}

func (c *conversion) showVoronoi(q *kernels.Queue) error {
	s := &stack{q: q}
	sites := make([]driver.Point, len(c.out.Mesh.Points))
	for i, p := range c.out.Mesh.Points {
		sites[i] = c.pixelAt(p)
	}
	in := take[driver.Point](s, len(sites), "sites")
	labels := take[uint32](s, c.Width*c.Height, "labels")
	scratch := take[byte](s, int(c.labelling), "scratch")
	if s.err != nil {
		return s.err
	}
	if err := kernels.Upload(q, in, sites); err != nil {
		return err
	}
	if err := q.Run(&driver.Voronoi{
		Sites: in.Slice(), N: len(sites), Width: c.Width, Height: c.Height, Method: c.opt.Voronoi,
		Labels: labels.Slice(), Scratch: scratch.Slice(),
	}); err != nil {
		return err
	}
	nearest, pixels := make([]uint32, labels.Len()), make([]byte, c.intake.Pixels().Len())
	if err := kernels.Download(q, nearest, labels); err != nil {
		return err
	}
	if err := kernels.Download(q, pixels, c.intake.Pixels()); err != nil {
		return err
	}
	if err := q.Wait(); err != nil {
		return err
	}
	size, out := c.Format.PixelBytes(), c.out.Bytes()
	for i, l := range nearest {
		p := sites[l]
		copy(out[i*size:], pixels[int(p.Y)*c.image.Stride+int(p.X)*size:][:size])
	}
	return s.free()
}

// showWireframe draws the edges of the triangles on the picture, the opaque way.
func (c *conversion) showWireframe() {
	size, out := c.Format.PixelBytes(), c.out.Bytes()
	black := make([]byte, size)
	if c.Format.Channels == 4 {
		black[c.Format.Order[3]] = 255
	}
	m := &c.out.Mesh
	for _, t := range m.Triangles {
		for _, e := range [3][2]uint32{{t.A, t.B}, {t.B, t.C}, {t.C, t.A}} {
			// The same way for both triangles of an edge, so that they draw the same pixels.
			a, b := c.pixelAt(m.Points[min(e[0], e[1])]), c.pixelAt(m.Points[max(e[0], e[1])])
			dx, dy := int(b.X-a.X), int(b.Y-a.Y)
			steps := max(dx, -dx, dy, -dy, 1)
			for i := range steps + 1 {
				// Rounded, from zero up in both directions.
				x, y := int(a.X)+(2*i*dx+steps*sign(dx))/(2*steps), int(a.Y)+(2*i*dy+steps*sign(dy))/(2*steps)
				copy(out[(y*c.Width+x)*size:], black)
			}
		}
	}
}

func sign(v int) int {
	if v < 0 {
		return -1
	}
	return 1
}
