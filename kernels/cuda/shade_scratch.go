//lint:file-ignore U1000 launched under the tag cuda

package cuda

import (
	"github.com/polyscan/polyscan/kernels/driver"
)

// shadeWidth is how many lanes do a whole triangle, and their kernel, where there are so many pixels for each.
func shadeWidth(pixels, triangles int) (kernelFor[shading], int) {
	switch {
	case pixels < 128*triangles:
		return shadeTriangles8, 8
	case pixels < 512*triangles:
		return shadeTriangles16, 16
	}
	return shadeTriangles32, 32
}

// layShading lays out the scratch memory from an address on: it returns how many bytes
// of it there are, and how many from State on are to be cleared.
func layShading(n, width, height int, m driver.ShadeMethod, scratch uint64) (v shading, bytes, zeros int64) {
	take := func(n int64) uint64 {
		at := scratch + uint64(bytes)
		bytes += alignUp(n)
		return at
	}
	// Triangles that cover an image, and are neither small nor slivers, have a task for some 2000 pixels.
	v = shading{Max: uint32(n), Width: int32(width), Height: int32(height), TaskRoom: uint32(width*height/512 + 1024)}
	v.State = take(shadeStateBytes)
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
	v.Splits = take(shadeSplitBytes * int64(v.TaskRoom/2))
	v.Tasks = take(8 * int64(v.TaskRoom))
	if m == driver.PerTile {
		v.Totals = take(shadeTotalsBytes * int64(max(n, 1)))
		v.List = take(4 * int64(v.ListRoom))
	}
	return v, bytes, zeros
}
