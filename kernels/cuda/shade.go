//go:build cuda

// Shade: launches one behind the other. What is wrong with the triangles is a fault, found when the stream has drained.

package cuda

import (
	"cmp"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) shade(op *driver.Shade) error {
	v, _, zeros := layShading(op.Max, op.Src.Width, op.Src.Height, op.Method, at(op.Scratch))
	s.shadingOf(&v, op)
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
	err := cmp.Or(s.fill(v.State, 0, zeros), run(shadePrepare, blocks(max(op.N, op.Max))))
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

// shadingOf adds to v what Shade and Hold are given.
func (s *stream) shadingOf(v *shading, op *driver.Shade) {
	format := op.Src.Format
	v.Src, v.SrcStride = at(op.Src.Data), uint64(op.Src.Stride)
	v.Dst, v.DstStride = at(op.Dst.Data), uint64(op.Dst.Stride)
	v.Points, v.Triangles, v.Count, v.Colors = at(op.Points), at(op.Triangles), at(op.Count), at(op.Colors)
	v.N, v.Fault = uint32(op.N), s.faultAt()
	v.PixelBytes = uint32(format.PixelBytes())
	if v.Kind = v.PixelBytes; format.SampleBytes == 2 {
		v.Kind = 16
	}
}
