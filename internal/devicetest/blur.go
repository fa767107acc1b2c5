// The oracle of blur, and the pictures that it is tested on.

package devicetest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Focus is what [driver.Blur] takes.
type Focus struct {
	Name          string
	Width, Height int
	Channels      int
	Src           []float32 // in planes
	Sigma         []float32
	Scale         float32
}

// BlurRounding is by how much what backends make of values up to 1 may differ from the exact kernel.
const BlurRounding = 4e-6

// field is a plane of numbers, or what a kernel makes of one.
type field func(x, y int) float64

// clamped is a field that has the nearest value outside of w x h.
func clamped(w, h int, f field) field {
	return func(x, y int) float64 { return f(min(max(x, 0), w-1), min(max(y, 0), h-1)) }
}

// stored computes a field once.
func stored(w, h int, f field) field {
	v := make([]float64, 0, w*h)
	for i := range w * h {
		v = append(v, f(i%w, i/w))
	}
	return clamped(w, h, func(x, y int) float64 { return v[y*w+x] })
}

// weighted is the sum of weights times values around, of a kernel that is the same along rows and columns.
func weighted(f field, weights ...float64) field {
	return func(x, y int) (sum float64) {
		for j, wy := range weights {
			for i, wx := range weights {
				sum += wx * wy * f(x+i-len(weights)/2, y+j-len(weights)/2)
			}
		}
		return sum
	}
}

// cubicSpline is the cubic B-spline at a distance.
func cubicSpline(d float64) float64 {
	d = math.Abs(d)
	switch {
	case d < 1:
		return 2.0/3 - d*d + d*d*d/2
	case d < 2:
		return (2 - d) * (2 - d) * (2 - d) / 6
	}
	return 0
}

// Exact is what [driver.Blur] asks for, but for rounding, by its definition.
func (p *Focus) Exact() []float64 {
	var out []float64
	for c := range p.Channels {
		src := clamped(p.Width, p.Height, func(x, y int) float64 { return float64(p.Src[(c*p.Height+y)*p.Width+x]) })
		kernels := []field{src, weighted(src, 0.25, 0.5, 0.25), weighted(src, 1.0/16, 0.25, 0.375, 0.25, 1.0/16)}
		variance := []float64{0, 0.5, 1}
		level, w, h := src, p.Width, p.Height
		for l := 1; l <= driver.BlurLevels; l++ {
			mean := weighted(level, 1.0/16, 0.25, 0.375, 0.25, 1.0/16)
			w, h = w/2+1, h/2+1
			level = stored(w, h, func(x, y int) float64 { return mean(2*x, 2*y) })
			here, size := level, math.Exp2(float64(l))
			kernels = append(kernels, func(x, y int) (sum float64) {
				px, py := float64(x)/size, float64(y)/size
				for j := int(math.Floor(py)) - 1; j < int(math.Floor(py))+3; j++ {
					for i := int(math.Floor(px)) - 1; i < int(math.Floor(px))+3; i++ {
						sum += cubicSpline(px-float64(i)) * cubicSpline(py-float64(j)) * here(i, j)
					}
				}
				return sum
			})
			variance = append(variance, (2*math.Pow(4, float64(l))-1)/3)
		}
		for i := range p.Width * p.Height {
			x, y := i%p.Width, i/p.Width
			s := float64(p.Sigma[i] * p.Scale)
			if !(s > 0) {
				out = append(out, src(x, y))
				continue
			}
			v := min(s, driver.MaxBlurSigma) * min(s, driver.MaxBlurSigma)
			k := 0
			for v >= variance[k+1] {
				k++
			}
			f := (v - variance[k]) / (variance[k+1] - variance[k])
			out = append(out, (1-f)*kernels[k](x, y)+f*kernels[k+1](x, y))
		}
	}
	return out
}

// Foci are what blur is tested on: noise, steps and flat pictures, in sizes down to one pixel, with deviations from
// none to more than the greatest, negative and NaN ones.
func Foci(seed uint64, side int) []*Focus {
	r := rand.New(rand.NewPCG(seed, 19))
	var out []*Focus
	for i, size := range [][2]int{{1, 1}, {1, 2}, {3, 1}, {2, 2}, {5, 4}, {side, 1}, {1, side}, {side, side - 1},
		{side - 1, side}, {31, 33}, {32, 32}, {side + 5, side / 2}} {
		p := &Focus{Name: fmt.Sprintf("%dx%d", size[0], size[1]), Width: size[0], Height: size[1], Channels: 1 + i%4,
			Scale: []float32{1, 64, 0.5}[i%3]}
		n := size[0] * size[1]
		for k := range n * p.Channels {
			v := r.Float32()
			switch k / n {
			case 1:
				v = float32(k % n % p.Width * 2 / p.Width)
			case 2:
				v = 0.75
			}
			p.Src = append(p.Src, v)
		}
		for k := range n {
			s := float32(math.Exp(r.Float64()*8 - 2))
			switch k % 9 {
			case 0:
				s = 0
			case 1:
				s = []float32{-1, float32(math.NaN()), float32(math.Inf(1)), 1e30, 1e-30, 1,
					float32(math.Sqrt(0.5))}[r.IntN(7)]
			case 2:
				s = float32(k%p.Width) / 4
			}
			p.Sigma = append(p.Sigma, s/p.Scale)
		}
		out = append(out, p)
	}
	return out
}

// CompareBlur says where values differ by more than a tolerance, or are no numbers.
func CompareBlur[A, B float32 | float64](a []A, b []B, width int, tolerance float64) *Difference {
	d := CompareDiffusion(a, b, width, tolerance)
	if d != nil {
		d.Op = "Blur"
	}
	return d
}
