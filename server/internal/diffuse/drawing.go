// Drawings: from messages to what package diffusion takes.

package diffuse

import (
	"fmt"
	"math"

	"github.com/polyscan/polyscan/diffusion"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/frames"
)

// rgb is a colour of 8 bits, or one beyond: red, green and blue.
type rgb = [solveChannels]float32

// coloured is a pixel or a stop.
type coloured interface {
	GetRed() float32
	GetGreen() float32
	GetBlue() float32
}

func rgbOf(c coloured) rgb { return rgb{c.GetRed(), c.GetGreen(), c.GetBlue()} }

// checkColor checks a colour of element i of a list.
func checkColor(list string, i int, c coloured) error {
	for k, v := range rgbOf(c) {
		if !(math.Abs(float64(v)) <= diffusion.MaxValue) {
			return apierr.Refuse(fmt.Sprintf("%s[%d].%s", list, i, [...]string{"red", "green", "blue"}[k]), v,
				"must be -%d to %[1]d", diffusion.MaxValue)
		}
	}
	return nil
}

// checkDrawing checks what is on a canvas of a size, which was checked, but for what package diffusion looks at, and
// counts its points, stops and pixels.
func (s *Service) checkDrawing(d *pb.Drawing, width, height int) (points int, _ error) {
	if err := checkGiven(d.GetPixels(), width, height); err != nil {
		return 0, err
	}
	points = len(d.GetPixels())
	for i, c := range d.GetCurves() {
		if err := checkColors(c.GetLeft(), c.GetRight()); err != nil {
			return 0, apierr.Under(fmt.Sprintf("curves[%d]", i), err)
		}
		points += curveSize(len(c.GetXy())/2, len(c.GetLeft()), len(c.GetRight()), len(c.GetBlur()))
	}
	if points > s.MaxPoints {
		return 0, apierr.Refuse("", fmt.Sprintf("%d points, stops and pixels", points),
			"are more than the server's limit of %d", s.MaxPoints)
	}
	return points, nil
}

// curveSize is what a curve of so many points and stops counts for the limit.
func curveSize(points, left, right, blur int) int { return points + left + right + blur + 1 }

// checkGiven checks the pixels of a message for a canvas of a size, which was checked.
func checkGiven(pixels []*pb.GivenPixel, width, height int) error {
	for i, g := range pixels {
		if int64(g.GetX()) >= int64(width) || int64(g.GetY()) >= int64(height) {
			return apierr.Refuse(fmt.Sprintf("pixels[%d]", i), [2]uint32{g.GetX(), g.GetY()},
				"is outside of the canvas of %dx%d", width, height)
		}
		if err := checkColor("pixels", i, g); err != nil {
			return err
		}
	}
	return nil
}

// checkColors checks those of a curve's sides, which are numbers of other levels where package diffusion looks at them.
func checkColors(left, right []*pb.ColorStop) error {
	for i, s := range left {
		if err := checkColor("left", i, s); err != nil {
			return err
		}
	}
	for i, s := range right {
		if err := checkColor("right", i, s); err != nil {
			return err
		}
	}
	return nil
}

// drawingOf reads a request. Of a frame it reads each byte once.
func drawingOf(req *pb.SolveRequest, f *frames.Frame) *diffusion.Drawing {
	d := groundOf(req, f)
	for _, c := range req.GetDrawing().GetCurves() {
		d.Curves = append(d.Curves, curveOf(c))
	}
	for _, g := range req.GetDrawing().GetPixels() {
		givePixel(d, g.GetX(), g.GetY(), rgbOf(g))
	}
	return d
}

// groundOf is what a request gives under the curves and pixels of a drawing.
func groundOf(req *pb.SolveRequest, f *frames.Frame) *diffusion.Drawing {
	d := &diffusion.Drawing{Width: f.Width, Height: f.Height, Channels: solveChannels}
	if req.GetFrame() == nil && len(req.GetEdges()) == 0 {
		return d
	}
	n := f.Width * f.Height
	d.Flags, d.Values = make([]uint8, n), make([]float32, solveChannels*n)
	stride := f.Stride
	if stride == 0 {
		stride = 4 * f.Width
	}
	at := 0
	for _, piece := range f.Data {
		for _, b := range piece {
			if column := at % stride; column < 4*f.Width {
				i := at/stride*f.Width + column/4
				if c := column % 4; c < solveChannels {
					d.Values[c*n+i] = float32(b) / 255
				} else if b == 255 {
					d.Flags[i] = diffusion.Fixed
				}
			}
			at++
		}
	}
	for i, e := range req.GetEdges() {
		if d.Flags[i] |= e; e&diffusion.Fixed != 0 {
			d.Flags[i] = 0xff // which package diffusion refuses
		}
	}
	return d
}

// givePixel adds a pixel, which is on the canvas, to what is given under the curves.
func givePixel(d *diffusion.Drawing, x, y uint32, color rgb) {
	n := d.Width * d.Height
	if d.Flags == nil {
		d.Flags, d.Values = make([]uint8, n), make([]float32, solveChannels*n)
	}
	i := int(y)*d.Width + int(x)
	d.Flags[i] |= diffusion.Fixed
	for c, v := range color {
		d.Values[c*n+i] = v / 255
	}
}

func curveOf(c *pb.Curve) diffusion.Curve {
	out := diffusion.Curve{
		Points: make([]diffusion.Point, (len(c.GetXy())+1)/2),
		Left:   stopsOf(c.GetLeft()), Right: stopsOf(c.GetRight()), Blur: blurOf(c.GetBlur()), Barrier: c.GetBarrier(),
	}
	for i, v := range c.GetXy() {
		if i%2 == 0 {
			out.Points[i/2] = diffusion.Point{X: v, Y: math.NaN()} // of a number without a partner
		} else {
			out.Points[i/2].Y = v
		}
	}
	return out
}

func blurOf(stops []*pb.BlurStop) []diffusion.BlurStop {
	out := make([]diffusion.BlurStop, len(stops))
	for i, s := range stops {
		out[i] = diffusion.BlurStop{At: s.GetAt(), Sigma: float64(s.GetSigma())}
	}
	return out
}

func stopsOf(stops []*pb.ColorStop) []diffusion.Stop {
	out := make([]diffusion.Stop, len(stops))
	values := make([]float32, 0, solveChannels*len(stops))
	for i, s := range stops {
		values = append(values, s.GetRed()/255, s.GetGreen()/255, s.GetBlue()/255)
		out[i] = diffusion.Stop{At: s.GetAt(), Values: values[solveChannels*i:]}
	}
	return out
}
