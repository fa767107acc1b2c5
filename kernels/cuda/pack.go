//go:build cuda

// Unpack and Pack: images to planes of numbers and back.

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) Unpack(op driver.Unpack) error {
	return s.enqueue("Unpack", 0, func() error { return s.unpack(op) })
}

func (s *stream) unpack(op driver.Unpack) error {
	im := op.Src
	src, err := s.dev.image(im, "Src")
	if err != nil {
		return err
	}
	mask, err := s.pixelBytes(op.Mask, "Mask", im, true)
	if err != nil {
		return err
	}
	flags, err := s.pixelBytes(op.Flags, "Flags", im, false)
	if err != nil {
		return err
	}
	planes, err := s.planes(op.Planes, im)
	if err != nil {
		return err
	}
	flags.overwritten()
	planes.overwritten()
	args := packUnpackParams{
		Src: packImageAt(im, src.at()), Mask: mask.at(), Flags: flags.at(), Planes: planes.at(),
		Width: int32(im.Width), Height: int32(im.Height), Most: uint32(im.Format.Levels() - 1),
	}
	return packUnpack.launch(s, (im.Width+packThreads-1)/packThreads, min(im.Height, 65535), packThreads, 0, &args)
}

func (s *stream) Pack(op driver.Pack) error {
	return s.enqueue("Pack", 0, func() error { return s.pack(op) })
}

func (s *stream) pack(op driver.Pack) error {
	im := op.Dst
	dst, err := s.dev.image(im, "Dst")
	if err != nil {
		return err
	}
	planes, err := s.planes(op.Planes, im)
	if err != nil {
		return err
	}
	flags, err := s.pixelBytes(op.Flags, "Flags", im, true)
	if err != nil {
		return err
	}
	args := packPackParams{
		Planes: planes.at(), Flags: flags.at(), Dst: packImageAt(im, dst.at()),
		Width: int32(im.Width), Height: int32(im.Height), Most: uint32(im.Format.Levels() - 1),
	}
	if op.Residual.Data.Len > 0 {
		residual, err := s.alike(op.Residual, "Residual", im)
		if err != nil {
			return err
		}
		residual.overwritten()
		args.Residual = packImageAt(op.Residual, residual.at())
	}
	if flags.n > 0 || op.Residual.Data.Len > 0 {
		src, err := s.alike(op.Src, "Src", im)
		if err != nil {
			return err
		}
		args.Src = packImageAt(op.Src, src.at())
	}
	dst.overwritten()
	return packPack.launch(s, (im.Width+packThreads-1)/packThreads, min(im.Height, 65535), packThreads, 0, &args)
}

// planes are those of the colours of an image.
func (s *stream) planes(x driver.Slice, im driver.Image) (span, error) {
	p, err := s.dev.structs(x, "Planes")
	if need := 4 * int64(im.Width) * int64(im.Height) * int64(im.Format.Colours()); err == nil && p.n != need {
		err = fmt.Errorf("Planes: %d bytes are not %d", p.n, need)
	}
	return p, err
}

// pixelBytes is a byte for each pixel of an image, or, where it may be left out, none.
func (s *stream) pixelBytes(x driver.Slice, field string, im driver.Image, optional bool) (span, error) {
	p, err := s.dev.span(x, field)
	if err == nil && p.n != int64(im.Width)*int64(im.Height) && (p.n != 0 || !optional) {
		err = fmt.Errorf("%s: %d bytes are not %dx%d", field, p.n, im.Width, im.Height)
	}
	if p.n == 0 {
		p = span{}
	}
	return p, err
}

// alike is the pixels of an image that has the size of another and its colours.
func (s *stream) alike(im driver.Image, field string, other driver.Image) (span, error) {
	p, err := s.dev.image(im, field)
	f, g := im.Format, other.Format
	if err == nil && (im.Width != other.Width || im.Height != other.Height || f.Colours() != g.Colours() ||
		f.SampleBytes != g.SampleBytes || f.Bits != g.Bits) {
		err = fmt.Errorf("%s: %dx%d of %v is not like Dst, %dx%d of %v", field, im.Width, im.Height, f, other.Width,
			other.Height, g)
	}
	return p, err
}
