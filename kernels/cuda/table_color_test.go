//go:build cuda

package cuda

// The benchmark table: what is derived from the colour of pixels.

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/driver"
)

// TestColorBenchmarks reduces a frame of 14 Mpx in RGB, all of it one region, of waves with some noise, as a camera's,
// and of noise alone, where lanes meet most in the tables.
func TestColorBenchmarks(t *testing.T) {
	counted(t)
	dev := open(t, Driver)
	w, h := 4608, 3072
	if testing.Short() {
		w, h = w/16, h/16
	}
	for _, noise := range []int{15, 255} {
		content := "waves"
		if noise == 255 {
			content = "noise"
		}
		p := &devicetest.Problem{Width: w, Height: h, Format: driver.RGB8, Stride: 3 * w, What: everything, Count: 1,
			Strips: []devicetest.Strip{{Height: h}}, Pixels: scene(3*w, h, driver.Gray8)}
		r := rand.New(rand.NewPCG(1, 2))
		for i := range p.Pixels {
			p.Pixels[i] += byte(r.IntN(noise + 1))
		}
		x, y := int32(w*driver.Subpixel), int32(h*driver.Subpixel)
		p.Regions.Edges = []driver.Edge{{X0: 0, Y0: 0, X1: x, Y1: 0}, {X0: x, Y0: 0, X1: x, Y1: y},
			{X0: x, Y0: y, X1: 0, Y1: y}, {X0: 0, Y0: y, X1: 0, Y1: 0}}
		p.Regions.Regions = []driver.Region{{Count: 4}}
		for _, c := range []struct {
			name   string
			spaces driver.ColorSpaces
			goal   float64
		}{{"channels", 0, 0}, {"Lab", driver.ColorLab, 30}, {"HSV", driver.ColorHSV, 0}, {"gray", driver.ColorGray, 0}} {
			p.Colors.Spaces = c.spaces
			b := newBench(t, dev, p, 3)
			name := fmt.Sprintf("%s of %s, %dx%d in RGB", c.name, content, w, h)
			b.reduction("sums of "+name, driver.MaskSums, c.goal)
			b.reduction("all of "+name, everything, 0)
		}
	}
}
