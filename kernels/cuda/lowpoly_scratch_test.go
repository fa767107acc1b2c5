package cuda

// What the host computes for the kernels of low-poly pictures.

import (
	"slices"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

func TestLuminanceOf(t *testing.T) {
	for _, c := range []struct {
		format               driver.PixelFormat
		kind, weights, shift uint32
	}{
		{driver.Gray8, 1, 0, 0},
		{driver.PixelFormat{Channels: 2, SampleBytes: 1, Bits: 8, Order: [4]uint8{1, 0}}, 2, 0, 8},
		{driver.RGB8, 3, 77 | 150<<8 | 29<<16, 0},
		{driver.BGR8, 3, 29 | 150<<8 | 77<<16, 0},
		{driver.RGBA8, 4, 77 | 150<<8 | 29<<16, 0},
		{driver.PixelFormat{Channels: 4, SampleBytes: 1, Bits: 8, Order: [4]uint8{1, 2, 3, 0}}, 4,
			77<<8 | 150<<16 | 29<<24, 0},
		{driver.Gray16(12), 16, 0, 4},
	} {
		if kind, weights, shift := luminanceOf(c.format); kind != c.kind || weights != c.weights || shift != c.shift {
			t.Errorf("%+v: %d, %#x, %d", c.format, kind, weights, shift)
		}
	}
}

// The parts of scratch memory follow each other, aligned, and end where they are said to.
func checkParts(t *testing.T, what string, from uint64, bytes int64, parts ...uint64) {
	t.Helper()
	for i, at := range parts {
		if at%driver.Align != 0 || at < from || at > from+uint64(bytes) {
			t.Errorf("%s: part %d is at %d of %d bytes from %d on", what, i, at, bytes, from)
		}
	}
	if !slices.IsSorted(parts) || parts[0] != from {
		t.Errorf("%s: parts at %d", what, parts)
	}
}

func TestSelectionOf(t *testing.T) {
	const from = 1 << 20
	rule := driver.VertexRule{Floor: 16, Spacing: 5, Border: 57, Cell: 115}
	v, bytes := selectionOf(2500, 1920, 1080, rule, 132, from)
	checkParts(t, "1920x1080", from, bytes, v.Keys, v.First, v.Stay, v.Cells, v.Segments, v.State, v.Tickets, v.Bits)
	if v.Room != 2500-2*(34+19) || v.Columns != 1909 || v.Rows != 1069 || v.BlockColumns != 319 ||
		v.CellCount != 17*10 || v.CellParts < 8 {
		t.Errorf("%+v", v)
	}
	if n := v.State + 4*uint64(v.ZeroWords); n != from+uint64(bytes) || v.BitWords%selectSegment != 0 ||
		32*int(v.BitWords) < 1921*1081 {
		t.Errorf("%d words to clear, %d of bits", v.ZeroWords, v.BitWords)
	}
	if v, _ := selectionOf(4, 1, 1, driver.VertexRule{Floor: 1, Border: 1}, 132, from); v.Columns != 0 ||
		v.BlockRows != 0 {
		t.Errorf("1x1: %+v", v)
	}
}

func TestLayShading(t *testing.T) {
	const from = 1 << 20
	v, bytes, zeros := layShading(5000, 1920, 1080, driver.PerTile, from)
	checkParts(t, "per tile", from, bytes, v.State, v.Starts, v.Ways, v.Splits, v.Tasks, v.Totals, v.List)
	if v.Ways != from+uint64(zeros) || v.TileColumns != 30 || v.TileRows != 17 {
		t.Errorf("%d bytes to clear, %+v", zeros, v)
	}
	v, bytes, _ = layShading(0, 1, 1, driver.ShadeDefault, from)
	if v.Totals != 0 || v.Starts != 0 {
		t.Errorf("per triangle: %+v", v)
	}
	checkParts(t, "per triangle", from, bytes, v.State, v.Ways, v.Splits, v.Tasks)
}

func TestShadeWidth(t *testing.T) {
	for _, c := range []struct {
		pixels, triangles int
		want              kernelFor[shading]
		width             int
	}{
		{1920 * 1080, 40000, shadeTriangles8, 8}, {1920 * 1080, 5000, shadeTriangles16, 16},
		{15360 * 8640, 40000, shadeTriangles32, 32}, {1, 0, shadeTriangles32, 32},
	} {
		if k, width := shadeWidth(c.pixels, c.triangles); k != c.want || width != c.width {
			t.Errorf("%d triangles on %d pixels: %d lanes", c.triangles, c.pixels, width)
		}
	}
}
