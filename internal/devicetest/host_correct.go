// The oracle as a driver: flat fields.

package devicetest

import "github.com/polyscan/polyscan/kernels/driver"

func init() {
	oracle(hostCorrect)
}

func hostCorrect(op *driver.Correct) error {
	f := Field{Fraction: op.Fraction, Width: op.Src.Width, Height: op.FieldRows, Format: op.Src.Format}
	pitch, n := driver.FieldPitch(f.Width, f.Format), f.Width*int(f.Format.Channels)
	dark, gain := view(op.Dark), values[uint16](op.Gain)
	for y := range f.Height {
		for x := range n {
			at := y*pitch + x
			d := uint16(0)
			if f.Format.SampleBytes == 2 {
				d = uint16(dark[2*at]) | uint16(dark[2*at+1])<<8
			} else {
				d = uint16(dark[at])
			}
			f.Dark, f.Gain = append(f.Dark, d), append(f.Gain, gain[at])
		}
	}
	out, dst := f.Correct(pictureOf(op.Src, view(op.Src.Data)), 0), pictureOf(op.Dst, view(op.Dst.Data))
	for y := range out.Height {
		copy(dst.Pixels[y*dst.Stride:], out.Pixels[y*out.Stride:][:out.Stride])
	}
	return nil
}
