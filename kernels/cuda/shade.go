//go:build cuda

// Shade: launches one behind the other. What is wrong with the triangles is a fault, found when the stream has drained.

package cuda

import (
	"cmp"
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (d *device) ShadeScratch(n, width, height int, m driver.ShadeMethod) (int64, error) {
	_, bytes, _, err := layShading(n, width, height, m, 0)
	if err != nil {
		return 0, fmt.Errorf("cuda: Shade: %w", err)
	}
	return bytes, nil
}

func (s *stream) Shade(op driver.Shade) error {
	return s.enqueue("Shade", 0, func() error { return s.shade(op) })
}

func (s *stream) shade(op driver.Shade) error {
	scratch, err := s.dev.structs(op.Scratch, "Scratch")
	if err != nil {
		return err
	}
	v, bytes, zeros, err := layShading(op.Max, op.Src.Width, op.Src.Height, op.Method, scratch.at())
	if err != nil {
		return err
	}
	if scratch.n < bytes {
		return fmt.Errorf("Scratch: %d bytes, %d are needed", scratch.n, bytes)
	}
	if err := s.shadingOf(&v, op.Src, "Src", op.Dst, op.Points, op.N, op.Triangles, op.Max, op.Count,
		op.Colors); err != nil {
		return err
	}
	scratch.overwritten()
	if op.Color == driver.CentroidColor {
		v.Centroid = 1
	}

	// As many blocks as are busy for a while, and no more than have something to do.
	most := s.dev.info.ComputeUnits * 8
	blocks := func(n int) int { return min(max((n+shadeThreads-1)/shadeThreads, 1), most) }
	args := v
	run := func(k kernelFor[shading], blocks int) error {
		return k.launch(s, blocks, 1, shadeThreads, 0, &args)
	}
	err = cmp.Or(s.fill(v.State, 0, zeros), run(shadePrepare, blocks(max(op.N, op.Max))))
	if tiles := int(v.TileColumns * v.TileRows); tiles > 0 {
		err = cmp.Or(err,
			shadeScan.launch(s, 1, 1, shadeScanThreads, 0, &args),
			run(shadeList, blocks(op.Max)))
		if op.Color == driver.MeanColor {
			err = cmp.Or(err, run(shadeSumTiles, tiles))
		}
		err = cmp.Or(err, run(shadeColors, blocks(8*op.Max)), run(shadePaintTiles, tiles))
	}
	triangle, width := shadeWidth(op.Src.Width*op.Src.Height, op.Max)
	return cmp.Or(err,
		run(triangle, max(blocks(width*op.Max), blocks(32*int(v.TaskRoom)))),
		run(shadeTasks, blocks(32*int(v.TaskRoom))))
}

// shadingOf checks what Shade and Hold are given, and adds it to v: the image that colours come from, and the triangles
// that are painted on another.
func (s *stream) shadingOf(v *shading, from driver.Image, field string, to driver.Image, points driver.Slice, n int,
	triangles driver.Slice, most int, count, colors driver.Slice) error {
	src, err := s.dev.image(from, field)
	if err != nil {
		return err
	}
	dst, err := s.dev.image(to, "Dst")
	if err != nil {
		return err
	}
	format := from.Format
	if to.Width != from.Width || to.Height != from.Height || to.Format != format {
		return fmt.Errorf("Dst: %dx%d, %v: must be as %s, %dx%d, %v", to.Width, to.Height, to.Format, field, from.Width,
			from.Height, format)
	}
	var at [4]span
	for i, f := range [4]struct {
		slice driver.Slice
		field string
		need  int64
	}{
		{points, "Points", 8 * int64(n)},
		{triangles, "Triangles", 12 * int64(most)},
		{count, "Count", 4},
		{colors, "Colors", int64(format.PixelBytes()) * int64(most)},
	} {
		if at[i], err = s.dev.structs(f.slice, f.field); err != nil {
			return err
		}
		if at[i].n != f.need {
			return fmt.Errorf("%s: %d bytes, must be %d", f.field, at[i].n, f.need)
		}
	}
	dst.overwritten()
	at[3].overwritten()
	v.Src, v.SrcStride, v.Dst, v.DstStride = src.at(), uint64(from.Stride), dst.at(), uint64(to.Stride)
	v.Points, v.Triangles, v.Count, v.Colors, v.N = at[0].at(), at[1].at(), at[2].at(), at[3].at(), uint32(n)
	v.Fault = s.faultAt()
	v.PixelBytes = uint32(format.PixelBytes())
	if v.Kind = v.PixelBytes; format.SampleBytes == 2 {
		v.Kind = 16
	}
	return nil
}
