//lint:file-ignore U1000 launched under the tag cuda

package cuda

import "github.com/polyscan/polyscan/kernels/driver"

// packImageAt describes an image whose pixels are at an address.
func packImageAt(im driver.Image, at uint64) packImage {
	p := packImage{Data: at, Stride: uint64(im.Stride), Channels: uint32(im.Format.Channels),
		SampleBytes: uint32(im.Format.SampleBytes)}
	for c, o := range im.Format.Order {
		p.Order |= uint32(o) << (8 * c)
	}
	if im.Format.HasAlpha() {
		p.Alpha = 1
	}
	return p
}
