//lint:file-ignore U1000 launched under the tag cuda

package cuda

import "github.com/polyscan/polyscan/kernels/driver"

// packImage is PackImage of pack.cu.
type packImage struct {
	Data, Stride       uint64
	Channels, Order    uint32
	SampleBytes, Alpha uint32
}

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

// Parameters of the kernels of pack.cu.
type (
	unpackParams struct {
		Src                 packImage
		Mask, Flags, Planes uint64
		Width, Height       int32
		Most, _             uint32
	}
	packParams struct {
		Planes, Flags      uint64
		Src, Dst, Residual packImage
		Width, Height      int32
		Most, _            uint32
	}
)

var (
	packUnpack = listKernel[unpackParams]("pack", "pack_unpack")
	packPack   = listKernel[packParams]("pack", "pack_pack")
)
