// The oracle as a driver: curves and blur.

package devicetest

import "github.com/polyscan/polyscan/kernels/driver"

func init() {
	oracle(hostCurveRaster)
	oracle(hostBlur)
}

func hostCurveRaster(op *driver.CurveRaster) error {
	p := Sketch{Width: op.Width, Height: op.Height, Channels: op.Channels, Segments: op.Segments, Curves: op.Curves,
		Stops: op.Stops, Flags: view(op.Flags), Values: values[float32](op.Values)}
	flags, drawn := p.Draw()
	store(op.Flags, flags...)
	store(op.Values, drawn...)
	return nil
}

func hostBlur(op *driver.Blur) error {
	p := Focus{Width: op.Width, Height: op.Height, Channels: op.Channels, Scale: op.Scale,
		Src: values[float32](op.Src), Sigma: values[float32](op.Sigma)}
	out := make([]float32, 0, len(p.Src))
	for _, v := range p.Exact() {
		out = append(out, float32(v))
	}
	store(op.Dst, out...)
	return nil
}
