// The oracle as a driver: low-poly.

package devicetest

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func init() {
	oracle(hostTriangulate)
	oracle(hostVoronoi)
	oracle(hostEdges)
	oracle(hostSelectVertices)
	oracle(hostShade)
	oracle(hostHold)
	oracle(hostFingerprint)
}

func hostVoronoi(op *driver.Voronoi) error {
	sites := values[driver.Point](op.Sites)
	for i, p := range sites {
		if p.X < 0 || int(p.X) >= op.Width || p.Y < 0 || int(p.Y) >= op.Height {
			return fmt.Errorf("site %d is %v", i, p)
		}
	}
	store(op.Labels, NearestSites(sites, op.Width, op.Height)...)
	return nil
}

func hostEdges(op *driver.Edges) error {
	store(op.Dst, pictureOf(op.Src, view(op.Src.Data)).Edges()...)
	return nil
}

func hostSelectVertices(op *driver.SelectVertices) error {
	chosen := ChooseVertices(values[uint16](op.Edges), op.Width, op.Height, op.N, op.VertexRule,
		values[driver.Point](op.Previous))
	clear(view(op.Points))
	store(op.Points, chosen...)
	store(op.Count, uint32(len(chosen)))
	return nil
}

func hostShade(op *driver.Shade) error {
	p, err := paintingOf(op)
	if err != nil {
		return err
	}
	colors, err := p.Shade(op.Color, pictureOf(op.Dst, view(op.Dst.Data)))
	store(op.Colors, colors...)
	return err
}

func hostHold(op *driver.Hold) error {
	p, err := paintingOf(&driver.Shade{Src: op.Before, Points: op.Points, Triangles: op.Triangles, Max: op.Max,
		Count: op.Count})
	if err != nil {
		return err
	}
	store(op.Changed, uint32(p.Hold(op.Limit, op.Jump, pictureOf(op.Dst, view(op.Dst.Data)), view(op.Colors))))
	return nil
}

// paintingOf is the triangles of an op on the picture that their colours are from.
func paintingOf(op *driver.Shade) (*Painting, error) {
	p := &Painting{Picture: *pictureOf(op.Src, view(op.Src.Data)), Points: values[driver.Point](op.Points)}
	n := values[uint32](op.Count)[0]
	if int64(n) > int64(op.Max) {
		return nil, fmt.Errorf("%d of %d triangles", n, op.Max)
	}
	p.Triangles = values[driver.Triangle](op.Triangles)[:n]
	for i, v := range p.Points {
		if v.X < 0 || int(v.X) > p.Width || v.Y < 0 || int(v.Y) > p.Height {
			return nil, fmt.Errorf("point %d is %v", i, v)
		}
	}
	for i, v := range p.Triangles {
		if int64(max(v.A, v.B, v.C)) >= int64(len(p.Points)) {
			return nil, fmt.Errorf("triangle %d is %v", i, v)
		}
	}
	return p, nil
}

func pictureOf(im driver.Image, pixels []byte) *Picture {
	return &Picture{Width: im.Width, Height: im.Height, Stride: im.Stride, Format: im.Format, Pixels: pixels}
}

func hostTriangulate(op *driver.Triangulate) error {
	points := values[driver.Point](op.Points)
	for i, p := range points {
		if p.X < -driver.MaxPoint || p.X > driver.MaxPoint || p.Y < -driver.MaxPoint || p.Y > driver.MaxPoint {
			return fmt.Errorf("Points[%d] = (%d, %d): coordinates must be %d to %d", i, p.X, p.Y, -driver.MaxPoint,
				driver.MaxPoint)
		}
	}
	triangles := Delaunay(points)
	store(op.Triangles, triangles...)
	store(op.Count, uint32(len(triangles)))
	return nil
}

func hostFingerprint(op *driver.Fingerprint) error {
	hashes := Fingerprint(view(op.Src), op.Keys)
	store(op.Dst, hashes[:]...)
	return nil
}
