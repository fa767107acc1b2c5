// What is on a canvas, and the changes that can be made to it.

package diffuse

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/kernels"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// contents is what is on a canvas: what is given, and curves by their ids. It does no I/O and takes no locks. A change
// is made as a whole or not at all.
type contents struct {
	limit  int                     // of points and stops of curves together, and of the pixels of a change
	memory func(bytes int64) error // takes host memory until the canvas is closed, without waiting
	ground *diffusion.Drawing      // what is under the curves: pixels and edges
	method diffusion.Method        // that is to solve it
	lent   bool                    // a drawing that is being rendered has its flags and values
	curves []canvasCurve
	index  map[string]int // of curves, by their ids
	size   int            // what counts for limit
	paid   int            // how much of that there is host memory for
}

// pay takes host memory for so much on the canvas.
func (c *contents) pay(size int) error {
	if size <= c.paid {
		return nil
	}
	more := (size - c.paid + canvasPoints - 1) / canvasPoints * canvasPoints
	if err := c.memory(int64(more) * drawingPointShare); err != nil {
		return err
	}
	c.paid += more
	return nil
}

// canvasCurve is a curve on a canvas. What its slices hold doesn't change: drawings that are being rendered share it.
type canvasCurve struct {
	id string
	diffusion.Curve
}

// size is what a curve counts for the limit.
func (c *canvasCurve) size() int {
	return curveSize(len(c.Points), len(c.Left), len(c.Right), len(c.Blur))
}

// drawing is what is on the canvas.
func (c *contents) drawing() *diffusion.Drawing {
	d := *c.ground
	d.Curves = make([]diffusion.Curve, len(c.curves))
	for i := range c.curves {
		d.Curves[i] = c.curves[i].Curve
	}
	c.lent = true
	return &d
}

// own makes sure that the ground has flags and values, and that no drawing shares them.
func (c *contents) own() {
	switch g := c.ground; {
	case g.Flags == nil:
		n := g.Width * g.Height
		g.Flags, g.Values = make([]uint8, n), make([]float32, solveChannels*n)
	case c.lent:
		g.Flags, g.Values = slices.Clone(g.Flags), slices.Clone(g.Values)
	}
	c.lent = false
}

// apply makes a change, or says why it can't be made.
func (c *contents) apply(req *pb.EditRequest) error {
	switch m := req.GetMessage().(type) {
	case *pb.EditRequest_PutCurve:
		return apierr.Under("put_curve", c.put(m.PutCurve))
	case *pb.EditRequest_MoveCurve:
		return apierr.Under("move_curve", c.change(m.MoveCurve.GetId(), func(to *diffusion.Curve) {
			to.Points = slices.Clone(to.Points)
			for i := range to.Points {
				to.Points[i].X += m.MoveCurve.GetDx()
				to.Points[i].Y += m.MoveCurve.GetDy()
			}
		}))
	case *pb.EditRequest_RecolorCurve:
		left, right := m.RecolorCurve.GetLeft(), m.RecolorCurve.GetRight()
		if err := checkColors(left, right); err != nil {
			return apierr.Under("recolor_curve", err)
		}
		return apierr.Under("recolor_curve", c.change(m.RecolorCurve.GetId(), func(to *diffusion.Curve) {
			to.Left, to.Right, to.Blur = stopsOf(left), stopsOf(right), blurOf(m.RecolorCurve.GetBlur())
		}))
	case *pb.EditRequest_RemoveCurve:
		i := c.find(m.RemoveCurve)
		if i < 0 {
			return unknownCurve("remove_curve", m.RemoveCurve)
		}
		c.size -= c.curves[i].size()
		c.curves = slices.Delete(c.curves, i, i+1)
		delete(c.index, m.RemoveCurve)
		for k, curve := range c.curves[i:] {
			c.index[curve.id] = i + k
		}
	case *pb.EditRequest_PutPixels:
		return apierr.Under("put_pixels", c.give(m.PutPixels.GetPixels()))
	case *pb.EditRequest_RemovePixels:
		return apierr.Under("remove_pixels", c.move(m.RemovePixels.GetXy(), nil))
	case *pb.EditRequest_MovePixels:
		return apierr.Under("move_pixels",
			c.move(m.MovePixels.GetXy(), &[2]int64{int64(m.MovePixels.GetDx()), int64(m.MovePixels.GetDy())}))
	case *pb.EditRequest_PutEdges:
		return apierr.Under("put_edges", c.shut(m.PutEdges.GetPixels()))
	default:
		return apierr.Refuse("message", nil, "one of the changes must be given")
	}
	return nil
}

// find returns the index of a curve, or -1.
func (c *contents) find(id string) int {
	if i, ok := c.index[id]; ok {
		return i
	}
	return -1
}

// checkCurveID refuses ids that are too long to be kept, and to be repeated in an error.
func checkCurveID(path, id string) error {
	if len(id) > maxCurveID {
		return apierr.Refuse(path, fmt.Sprintf("%d bytes", len(id)), "must be at most %d", maxCurveID)
	}
	return nil
}

func unknownCurve(path, id string) error {
	if err := checkCurveID(path, id); err != nil {
		return err
	}
	return apierr.Refuse(path, strconv.Quote(id), "is no curve on the canvas")
}

// put checks a curve of a message and puts it on the canvas.
func (c *contents) put(curve *pb.Curve) error {
	if err := checkCurveID("id", curve.GetId()); err != nil {
		return err
	}
	if err := checkColors(curve.GetLeft(), curve.GetRight()); err != nil {
		return err
	}
	return c.set(canvasCurve{curve.GetId(), curveOf(curve)})
}

// change changes a curve, whose other parts stay.
func (c *contents) change(id string, f func(*diffusion.Curve)) error {
	i := c.find(id)
	if i < 0 {
		return unknownCurve("id", id)
	}
	curve := c.curves[i]
	f(&curve.Curve)
	return c.set(curve)
}

// set checks a curve and puts it on the canvas.
func (c *contents) set(curve canvasCurve) error {
	i, size := c.find(curve.id), c.size+curve.size()
	if i >= 0 {
		size -= c.curves[i].size()
	}
	if size > c.limit {
		return apierr.Refuse("", fmt.Sprintf("%d points and stops", curve.size()-1), "make more than %d on the canvas",
			c.limit)
	}
	d := &diffusion.Drawing{
		Width: c.ground.Width, Height: c.ground.Height, Channels: solveChannels, Curves: []diffusion.Curve{curve.Curve},
	}
	if err := d.Check(c.method); err != nil {
		return wire.FieldError(err, func(v kernels.Violation) (path, value, reason string) {
			if wire.Root(v) == "method" { // curves can only be what it doesn't solve by blocking edges
				return "barrier", "true", v.Value + " " + v.Reason
			}
			p := curvePath(v.Path)
			return p[min(2, len(p)):].String(), v.Value, v.Reason // below curves[0]
		})
	}
	if err := c.pay(size); err != nil {
		return err
	}
	if c.size = size; i >= 0 {
		c.curves[i] = curve
	} else {
		c.index[curve.id] = len(c.curves)
		c.curves = append(c.curves, curve)
	}
	return nil
}

// give checks pixels and puts them on the canvas, all or none.
func (c *contents) give(pixels []*pb.GivenPixel) error {
	if err := checkGiven(pixels, c.ground.Width, c.ground.Height); err != nil {
		return err
	}
	if err := c.checkCount("pixels", len(pixels)); err != nil {
		return err
	}
	c.own()
	for _, p := range pixels {
		givePixel(c.ground, p.GetX(), p.GetY(), rgbOf(p))
	}
	return nil
}

// checkCount bounds how much of the canvas a change is about.
func (c *contents) checkCount(field string, pixels int) error {
	if pixels > c.limit {
		return apierr.Refuse(field, fmt.Sprintf("%d pixels", pixels), "are more than the server's limit of %d", c.limit)
	}
	return nil
}

// move takes pixels away, all or none, and gives them again so far from there, unless by is nil.
func (c *contents) move(xy []uint32, by *[2]int64) error {
	if len(xy)%2 != 0 {
		return apierr.Refuse("xy", fmt.Sprintf("%d numbers", len(xy)), "must be pairs of x and y")
	}
	if err := c.checkCount("xy", len(xy)/2); err != nil {
		return err
	}
	g := c.ground
	for i := 0; i < len(xy); i += 2 {
		x, y := xy[i], xy[i+1]
		if !onCanvas(g, int64(x), int64(y)) || g.Flags == nil || g.Flags[int(y)*g.Width+int(x)]&diffusion.Fixed == 0 {
			return apierr.Refuse(fmt.Sprintf("xy[%d]", i), xy[i:i+2], "is no pixel that was given")
		}
		if by != nil && !onCanvas(g, int64(x)+by[0], int64(y)+by[1]) {
			return apierr.Refuse(fmt.Sprintf("xy[%d]", i), xy[i:i+2], "is moved to %v, outside of the canvas of %dx%d",
				[2]int64{int64(x) + by[0], int64(y) + by[1]}, g.Width, g.Height)
		}
	}
	c.own()
	n := g.Width * g.Height
	taken := make([]rgb, 0, len(xy)/2)
	for i := 0; i < len(xy); i += 2 {
		at := int(xy[i+1])*g.Width + int(xy[i])
		if by != nil {
			taken = append(taken, rgb{g.Values[at], g.Values[n+at], g.Values[2*n+at]})
		}
		g.Flags[at] &^= diffusion.Fixed
	}
	for i, color := range taken {
		at := int(int64(xy[2*i+1])+by[1])*g.Width + int(int64(xy[2*i])+by[0])
		g.Flags[at] |= diffusion.Fixed
		for k, v := range color {
			g.Values[k*n+at] = v
		}
	}
	return nil
}

// onCanvas reports whether there is such a pixel.
func onCanvas(d *diffusion.Drawing, x, y int64) bool {
	return x >= 0 && y >= 0 && x < int64(d.Width) && y < int64(d.Height)
}

// shut replaces the closed edges of pixels, of all or none.
func (c *contents) shut(pixels []*pb.PixelEdges) error {
	if err := c.checkCount("pixels", len(pixels)); err != nil {
		return err
	}
	g := c.ground
	good := uint32(0) // edges that were checked before
	for i, p := range pixels {
		field := fmt.Sprintf("pixels[%d]", i)
		if !onCanvas(g, int64(p.GetX()), int64(p.GetY())) {
			return apierr.Refuse(field, [2]uint32{p.GetX(), p.GetY()}, "is outside of the canvas of %dx%d", g.Width, g.Height)
		}
		if e := p.GetEdges(); e != good {
			if err := c.checkEdges(e); err != nil {
				return apierr.Under(field+".edges", err)
			}
			good = e
		}
	}
	c.own()
	for _, p := range pixels {
		at := &g.Flags[int(p.GetY())*g.Width+int(p.GetX())]
		*at = *at&diffusion.Fixed | uint8(p.GetEdges())
	}
	return nil
}

// checkEdges checks the closed edges of a pixel, for the method of the canvas as well.
func (c *contents) checkEdges(edges uint32) error {
	if edges > 0xff || edges&uint32(diffusion.Fixed) != 0 {
		return apierr.Refuse("", edges, "%s", noEdges)
	}
	d := &diffusion.Drawing{Width: 1, Height: 1, Channels: 1, Flags: []uint8{uint8(edges)}, Values: make([]float32, 1)}
	return wire.FieldError(d.Check(c.method), func(v kernels.Violation) (path, value, reason string) {
		if reason = noEdges; wire.Root(v) == "method" {
			reason = v.Value + " " + v.Reason
		}
		return "", fmt.Sprint(edges), reason
	})
}
