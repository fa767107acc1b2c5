//lint:file-ignore U1000 launched under the tag cuda

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Constants of shade.cu, by the names they have there.
const (
	shadeThreads     = 256  // THREADS
	shadeScanThreads = 1024 // SCAN_THREADS
	shadeTile        = 64   // TILE
	shadeState       = 24   // STATE_BYTES
	shadeSplit       = 56   // SPLIT_BYTES
	shadeTotals      = 40   // of a triangle: Totals
)

// shading is Shading of shade.cu. Its pointers are addresses on the device.
type shading struct {
	Src, Dst, SrcStride, DstStride       uint64
	Points, Triangles, Count, Colors     uint64
	Fault, State, Ways, Splits, Tasks    uint64
	Totals, Starts, List                 uint64
	N, Max, TaskRoom, ListRoom           uint32
	Width, Height, TileColumns, TileRows int32
	Kind, PixelBytes, Centroid, _        uint32
}

type shadeParams struct{ V shading }

var (
	shadePrepare     = listKernel[shadeParams]("shade", "shade_prepare")
	shadeTriangles8  = listKernel[shadeParams]("shade", "shade_triangles_8")
	shadeTriangles16 = listKernel[shadeParams]("shade", "shade_triangles_16")
	shadeTriangles32 = listKernel[shadeParams]("shade", "shade_triangles_32")
	shadeTasks       = listKernel[shadeParams]("shade", "shade_tasks")
	shadeScan        = listKernel[shadeParams]("shade", "shade_scan")
	shadeList        = listKernel[shadeParams]("shade", "shade_list")
	shadeSumTiles    = listKernel[shadeParams]("shade", "shade_sum_tiles")
	shadeColors      = listKernel[shadeParams]("shade", "shade_colors")
	shadePaintTiles  = listKernel[shadeParams]("shade", "shade_paint_tiles")
)

// shadeWidth is how many lanes do a whole triangle, and their kernel, where there are so many pixels for each.
func shadeWidth(pixels, triangles int) (kernelFor[shadeParams], int) {
	switch {
	case pixels < 128*triangles:
		return shadeTriangles8, 8
	case pixels < 512*triangles:
		return shadeTriangles16, 16
	}
	return shadeTriangles32, 32
}

// layShading checks sizes and the method, and lays out the scratch memory from an address on: it returns how many bytes
// of it there are, and how many from State on are to be cleared.
func layShading(n, width, height int, m driver.ShadeMethod, scratch uint64) (v shading, bytes, zeros int64, err error) {
	switch {
	case n < 0 || n > 2*driver.MaxPoints:
		return v, 0, 0, fmt.Errorf("Max = %d: must be 0 to %d", n, 2*driver.MaxPoints)
	case width < 1 || width > driver.MaxSide || height < 1 || height > driver.MaxSide ||
		width*height > driver.MaxPixels:
		return v, 0, 0, fmt.Errorf("Width, Height = %d, %d: sides must be 1 to %d, and no more than %d pixels", width,
			height, driver.MaxSide, driver.MaxPixels)
	case m > driver.PerTile:
		return v, 0, 0, fmt.Errorf("Method = %d: %w", m, driver.ErrNotSupported)
	}
	take := func(n int64) uint64 {
		at := scratch + uint64(bytes)
		bytes += alignUp(n)
		return at
	}
	// Triangles that cover an image, and are neither small nor slivers, have a task for some 2000 pixels.
	v = shading{Max: uint32(n), Width: int32(width), Height: int32(height), TaskRoom: uint32(width*height/512 + 1024)}
	v.State = take(shadeState)
	tiles := 0
	if m == driver.PerTile {
		v.TileColumns, v.TileRows = int32((width+shadeTile-1)/shadeTile), int32((height+shadeTile-1)/shadeTile)
		tiles = int(v.TileColumns) * int(v.TileRows)
		// Most triangles are in one or two lists.
		v.ListRoom = uint32(4*n + 8*tiles)
		v.Starts = take(4 * int64(tiles+1))
	}
	zeros = bytes
	v.Ways = take(int64(n))
	v.Splits = take(shadeSplit * int64(v.TaskRoom/2))
	v.Tasks = take(8 * int64(v.TaskRoom))
	if m == driver.PerTile {
		v.Totals = take(shadeTotals * int64(max(n, 1)))
		v.List = take(4 * int64(v.ListRoom))
	}
	return v, bytes, zeros, nil
}
