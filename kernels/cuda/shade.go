//go:build cuda

// Shade: launches one behind the other. What is wrong with the triangles is a fault, found when the stream has drained.

package cuda

import (
	"cmp"
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (d *device) ShadeScratch(n, width, height int, m driver.ShadeMethod) (int64, error) {
	_, bytes, _, err := shadingOf(n, width, height, m, 0)
	if err != nil {
		return 0, fmt.Errorf("cuda: Shade: %w", err)
	}
	return bytes, nil
}

func (s *stream) Shade(op driver.Shade) error {
	return s.enqueue("Shade", 0, func() error { return s.shade(op) })
}

func (s *stream) shade(op driver.Shade) error {
	src, err := s.dev.image(op.Src, "Src")
	if err != nil {
		return err
	}
	dst, err := s.dev.image(op.Dst, "Dst")
	if err != nil {
		return err
	}
	if op.Dst.Width != op.Src.Width || op.Dst.Height != op.Src.Height || op.Dst.Format != op.Src.Format {
		return fmt.Errorf("Dst: %dx%d, %v: must be as Src, %dx%d, %v", op.Dst.Width, op.Dst.Height, op.Dst.Format, op.Src.Width, op.Src.Height, op.Src.Format)
	}
	scratch, err := s.dev.structs(op.Scratch, "Scratch")
	if err != nil {
		return err
	}
	v, bytes, zeros, err := shadingOf(op.Max, op.Src.Width, op.Src.Height, op.Method, scratch.at())
	if err != nil {
		return err
	}
	if scratch.n < bytes {
		return fmt.Errorf("Scratch: %d bytes, %d are needed", scratch.n, bytes)
	}
	format := op.Src.Format
	var points, triangles, count, colors span
	for _, f := range []struct {
		to    *span
		from  driver.Slice
		field string
		need  int64
	}{
		{&points, op.Points, "Points", 8 * int64(op.N)},
		{&triangles, op.Triangles, "Triangles", 12 * int64(op.Max)},
		{&count, op.Count, "Count", 4},
		{&colors, op.Colors, "Colors", int64(format.PixelBytes()) * int64(op.Max)},
	} {
		if *f.to, err = s.dev.structs(f.from, f.field); err != nil {
			return err
		}
		if f.to.n != f.need {
			return fmt.Errorf("%s: %d bytes, must be %d", f.field, f.to.n, f.need)
		}
	}
	dst.overwritten()
	colors.overwritten()
	scratch.overwritten()
	v.Src, v.SrcStride, v.Dst, v.DstStride = src.at(), uint64(op.Src.Stride), dst.at(), uint64(op.Dst.Stride)
	v.Points, v.Triangles, v.Count, v.Colors, v.N = points.at(), triangles.at(), count.at(), colors.at(), uint32(op.N)
	v.Fault = s.faultAt()
	v.PixelBytes = uint32(format.PixelBytes())
	if v.Kind = v.PixelBytes; format.SampleBytes == 2 {
		v.Kind = 16
	}
	if op.Color == driver.CentroidColor {
		v.Centroid = 1
	}

	// As many blocks as are busy for a while, and no more than have something to do.
	most := s.dev.info.ComputeUnits * 8
	blocks := func(n int) int { return min(max((n+shadeThreads-1)/shadeThreads, 1), most) }
	args := shadeParams{v}
	run := func(k kernelFor[shadeParams], blocks int) error {
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
