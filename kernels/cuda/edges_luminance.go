//lint:file-ignore U1000 launched under the tag cuda

package cuda

import "github.com/polyscan/polyscan/kernels/driver"

// luminanceOf says how the luminance of a pixel comes from its bytes: see KIND_CHANNEL, KIND_COLOR and KIND_WIDE.
func luminanceOf(f driver.PixelFormat) (kind, weights, shift uint32) {
	switch {
	case f.SampleBytes == 2:
		return 16, 0, uint32(f.Bits - 8)
	case f.Channels < 3:
		return uint32(f.Channels), 0, 8 * uint32(f.Order[0])
	}
	for c, w := range [3]uint32{77, 150, 29} {
		weights |= w << (8 * f.Order[c])
	}
	return uint32(f.Channels), weights, 0
}
