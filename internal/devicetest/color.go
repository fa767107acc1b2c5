// Colours, by their definition in package driver, one pixel at a time.

package devicetest

import (
	"math"
	"sync"

	"github.com/polyscan/polyscan/kernels/driver"
)

// ColorSamples are the derived samples of a colour.
func ColorSamples(c driver.Colors, red, green, blue byte) (out []uint32) {
	r, g, b := int64(red), int64(green), int64(blue)
	add := func(v ...int64) {
		for _, v := range v {
			out = append(out, uint32(v))
		}
	}
	if c.Spaces&driver.ColorGray != 0 {
		add((299*r + 587*g + 114*b + 500) / 1000)
	}
	if c.Spaces&driver.ColorGray709 != 0 {
		add((2126*r + 7152*g + 722*b + 5000) / 10000)
	}
	if c.Spaces&driver.ColorHSV != 0 {
		add(hueOf(r, g, b), saturationOf(r, g, b), (25600*max(r, g, b)+255)/510)
	}
	if c.Spaces&driver.ColorLab != 0 {
		add(labOf(red, green, blue)...)
	}
	if c.Spaces&driver.ColorMatrix != 0 {
		for _, row := range c.Matrix {
			v := int64(row.C[0])*r + int64(row.C[1])*g + int64(row.C[2])*b + int64(row.Offset)
			add(int64(math.Floor(float64(v) / (1 << 14))))
		}
	}
	return out
}

func hueOf(r, g, b int64) int64 {
	most := max(r, g, b)
	d := most - min(r, g, b)
	var n int64
	switch most {
	case most - d:
		return driver.NoHue
	case r:
		n = 40*(g-b) + 240*d
	case g:
		n = 40*(b-r) + 80*d
	default:
		n = 40*(r-g) + 160*d
	}
	return (2*n + d) / (2 * d) % 240
}

func saturationOf(r, g, b int64) int64 {
	most := max(r, g, b)
	if most == 0 {
		return 0
	}
	return (25600*(most-min(r, g, b)) + most) / (2 * most)
}

// sRGB under D65, of IEC 61966-2-1, divided by the white point.
var toXYZ = [3][3]float64{
	{0.4124 / 0.9505, 0.3576 / 0.9505, 0.1805 / 0.9505},
	{0.2126, 0.7152, 0.0722},
	{0.0193 / 1.089, 0.1192 / 1.089, 0.9505 / 1.089},
}

func linear(v byte) float64 {
	s := float64(v) / 255
	if s <= 0.04045 {
		return s / 12.92
	}
	return math.Pow((s+0.055)/1.055, 2.4)
}

func labRoot(t float64) float64 {
	if t > 6.0*6*6/(29*29*29) {
		return math.Cbrt(t)
	}
	return t*29*29/(3*6*6) + 4.0/29
}

// Lab is L*, a* and b* of a colour in double arithmetic.
func Lab(r, g, b byte) [3]float64 {
	l := [3]float64{linear(r), linear(g), linear(b)}
	var f [3]float64
	for k, row := range toXYZ {
		f[k] = labRoot(row[0]*l[0] + row[1]*l[1] + row[2]*l[2])
	}
	return [3]float64{116*f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])}
}

// labParts is what each value of each colour adds to X, Y and Z in units of 2^-20. Where the roundings don't add up for
// a gray, the colour at the place of the coordinate takes what is left.
var labParts = sync.OnceValue(func() *[3][3][256]int64 {
	var parts [3][3][256]int64
	for v := range 256 {
		l := linear(byte(v)) * (1 << 20)
		for k := range 3 {
			left := int64(math.Round(l))
			for c := range 3 {
				if c != k {
					parts[k][c][v] = int64(math.Round(l * toXYZ[k][c]))
					left -= parts[k][c][v]
				}
			}
			parts[k][k][v] = left
		}
	}
	return &parts
})

func labOf(r, g, b byte) []int64 {
	root := func(k int) int64 {
		p := &labParts()[k]
		t := p[0][r] + p[1][g] + p[2][b]
		at := func(i int64) float64 { return 128000 * labRoot(float64(i)/2048) }
		i := t / 512
		slope := math.Round(64 * (at(i+1) - at(i)))
		if i == 2048 {
			slope = 0
		}
		return int64(math.Round(at(i))) + (t%512*int64(slope)+16384)/32768
	}
	fx, fy, fz := root(0), root(1), root(2)
	return []int64{(29*fy+62)/125 - 4096, 32768 + fx - fy, (2*(fy-fz) + 163842) / 5}
}
