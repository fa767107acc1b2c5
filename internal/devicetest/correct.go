// Flat fields, and the oracle of corrections.

package devicetest

import (
	"fmt"
	"math/rand/v2"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Field is a flat field for pictures of a width and a format: samples as they lie in memory, row by row, without the
// padding of [driver.Correct].
type Field struct {
	Name          string
	Fraction      int
	Width, Height int // Height is 1 where all rows have the same
	Format        driver.PixelFormat
	Dark, Gain    []uint16
}

// Fields are fields for a picture: that changes nothing, those with the largest and the least numbers, one of noise
// around what cameras need, one of any bits, each of a row and of as many as the picture has.
func Fields(p *Picture, r *rand.Rand) (out []Field) {
	n, most := p.Width*int(p.Format.Channels), p.Format.Levels()-1
	for _, height := range []int{1, p.Height} {
		for _, kind := range []string{"nothing", "most", "least", "camera", "noise"} {
			f := Field{Name: fmt.Sprintf("%s, %d rows", kind, height), Width: p.Width, Height: height, Format: p.Format}
			f.Fraction = driver.MinFraction + r.IntN(driver.MaxFraction-driver.MinFraction+1)
			for range n * height {
				dark, gain := 0, 1<<f.Fraction
				switch kind {
				case "most":
					dark, gain = r.IntN(2)*most, 65535
				case "least":
					dark, gain = most, r.IntN(2)
				case "camera":
					dark, gain = r.IntN(most/16+1), gain/2+r.IntN(gain/2)
				case "noise":
					dark, gain = r.IntN(most+1), int(uint16(r.Uint32()))
				}
				f.Dark, f.Gain = append(f.Dark, uint16(dark)), append(f.Gain, uint16(gain))
			}
			out = append(out, f)
		}
	}
	return out
}

// Lay returns the field as [driver.Correct] has it.
func (f *Field) Lay() (dark, gain []byte) {
	pitch, n := driver.FieldPitch(f.Width, f.Format), f.Width*int(f.Format.Channels)
	for y := range f.Height {
		for x := range pitch {
			d, g := uint16(0xaaaa), uint16(0xaaaa) // nobody looks at the padding
			if x < n {
				d, g = f.Dark[y*n+x], f.Gain[y*n+x]
			}
			if dark = append(dark, byte(d)); f.Format.SampleBytes == 2 {
				dark = append(dark, byte(d>>8))
			}
			gain = append(gain, byte(g), byte(g>>8))
		}
	}
	return dark, gain
}

// Correct is what [driver.Correct] makes of rows [y0, y0+p.Height) of a picture, by its definition.
func (f *Field) Correct(p *Picture, y0 int) Picture {
	out := Picture{Name: p.Name, Width: p.Width, Height: p.Height, Format: p.Format}
	out.Stride = p.Width * p.Format.PixelBytes()
	out.Pixels = make([]byte, out.Stride*out.Height)
	most := int64(p.Format.Levels() - 1)
	for y := range p.Height {
		for x := range p.Width {
			for c := range int(p.Format.Channels) {
				raw, row := int64(p.sample(x, y, c)), 0
				if f.Height > 1 {
					row = y0 + y
				}
				// Where the sample lies in the pixel; channels are named by what they are.
				at := (row*p.Width+x)*int(p.Format.Channels) + int(p.Format.Order[c])
				out.set(x, y, c, int(f.corrected(raw, int64(f.Dark[at]), int64(f.Gain[at]), most)))
			}
		}
	}
	return out
}

func (f *Field) corrected(raw, dark, gain, most int64) int64 {
	if raw >= most {
		return raw
	}
	return min(max(roundHalfUp((raw-dark)*gain, 1<<f.Fraction), 0), most)
}
