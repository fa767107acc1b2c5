package polygon

import (
	"fmt"
	"image"
	"image/color"
	"reflect"
	"slices"
	"strings"
	"testing"

	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

func TestRunsRefuse(t *testing.T) {
	box := Ring{{0, 0}, {4, 0}, {4, 4}}
	few := Bounds{MaxVertices: 5, MaxRegionVertices: 3}
	long := func(n int) []Run {
		out := make([]Run, n)
		for i := range out {
			out[i] = Run{Y: int32(i), X1: 1}
		}
		return out
	}
	for _, c := range []struct {
		regions []Region
		bounds  Bounds
		want    string
	}{
		{[]Region{{Mask: []Run{{Y: 1, X0: 2, X1: 2}}}}, Bounds{},
			"regions[0].mask[0] = row 1, columns [2, 2): must hold a pixel"},
		{[]Region{{Mask: []Run{{X1: 2}, {X0: 2, X1: 3}}}}, Bounds{},
			"regions[0].mask[1] = row 0, columns [2, 3): must lie behind the run before it, row by row, and not touch it"},
		{[]Region{{Mask: []Run{{Y: 2, X1: 2}, {X0: 3, X1: 4}}}}, Bounds{},
			"regions[0].mask[1] = row 0, columns [3, 4): must lie behind"},
		{[]Region{{Mask: []Run{{Y: 1 << 22, X1: 2}}}}, Bounds{}, "must be less than 4194304 px from 0"},
		{[]Region{{Mask: []Run{{X0: -1 << 22, X1: 2}}}}, Bounds{}, "must be less than 4194304 px from 0"},
		{[]Region{{Mask: []Run{{X0: 1, X1: 1<<22 + 1}}}}, Bounds{}, "must be less than 4194304 px from 0"},
		{[]Region{{Mask: long(1), Rings: []Ring{box}}}, Bounds{},
			"regions[0].mask = 1 runs: and 1 rings: a region has one of them"},
		{[]Region{{Mask: long(4)}}, few, "regions[0].mask = 4 runs: are too many: the limit is 3 vertices in a region"},
		{[]Region{{Mask: long(3)}, {Rings: []Ring{box}}}, few, "regions = 6 vertices: are too many: the limit is 5"},
		{[]Region{{Mask: long(3), Limits: []string{"count of pixels above 9 <= 3"}}}, Bounds{}, "can't fail"},
	} {
		_, err := NewSet(c.regions, c.bounds)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.regions, err, c.want)
		}
	}
	s, err := NewSet([]Region{{Mask: []Run{}}, {Mask: long(3)}, {Rings: []Ring{box}}}, Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Vertices() != 6 || len(s.runsOf(1)) != 3 || s.edgesOf(1) != nil || s.runsOf(2) != nil {
		t.Errorf("%d vertices; region 1 has %v and %v, region 2 %v", s.Vertices(), s.runsOf(1), s.edgesOf(1), s.runsOf(2))
	}
}

// TestMaskIsItsSquares: a mask gives the numbers of the polygons around its runs, whatever of it lies in the frame.
func TestMaskIsItsSquares(t *testing.T) {
	rng := testseed.New(t, 5, 1)
	dev := openCPU(t, kernels.Config{})
	for range 200 {
		c := randomCase(rng)
		mask := randomShape(rng, c.frame.Width, c.frame.Height)
		for mask.Mask == nil {
			mask = randomShape(rng, c.frame.Width, c.frame.Height)
		}
		squares := Region{Name: mask.Name, Rings: []Ring{{{0, 0}, {0, 0}, {0, 0}}}}
		for _, u := range mask.Mask {
			if u.X1 == maxCoordinate || u.Y == maxCoordinate-1 { // which no vertex may have
				continue
			}
			x0, x1, y := float64(u.X0), float64(u.X1), float64(u.Y)
			squares.Rings = append(squares.Rings, Ring{{x0, y}, {x1, y}, {x1, y + 1}, {x0, y + 1}})
		}
		if len(squares.Rings) != len(mask.Mask)+1 {
			continue
		}
		m := pick(rng, methods...)
		got, err := Reduce(t.Context(), dev, mustSet(t, mask), c.frame, c.request, m)
		want, err2 := Reduce(t.Context(), dev, mustSet(t, squares), c.frame, c.request, m)
		if fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("%v by %v: %v, the squares %v", mask, m, err, err2)
		}
		if err == nil && !reflect.DeepEqual(got.Regions, want.Regions) {
			t.Fatalf("%v by %v:\n%+v, the squares\n%+v", mask, m, got.Regions, want.Regions)
		}
	}
}

func TestMaskOf(t *testing.T) {
	gray := image.NewGray(image.Rect(3, 4, 8, 7))
	for _, p := range []image.Point{{3, 4}, {4, 4}, {7, 4}, {3, 6}, {4, 6}, {5, 6}, {6, 6}, {7, 6}} {
		gray.SetGray(p.X, p.Y, color.Gray{Y: uint8(p.X - 2)})
	}
	want := []Run{{Y: 20, X0: 10, X1: 12}, {Y: 20, X0: 14, X1: 15}, {Y: 22, X0: 10, X1: 15}}
	deep := image.NewGray16(gray.Rect)
	rgb := image.NewNRGBA(gray.Rect)
	palette := image.NewPaletted(gray.Rect, color.Palette{color.White, color.Black, color.Black, color.Black, color.Black,
		color.Black})
	for y := 4; y < 7; y++ {
		for x := 3; x < 8; x++ {
			v := gray.GrayAt(x, y).Y
			deep.SetGray16(x, y, color.Gray16{Y: uint16(v) << 8})
			rgb.SetNRGBA(x, y, color.NRGBA{B: v, A: 255})
			palette.SetColorIndex(x, y, v)
		}
	}
	for _, img := range []image.Image{gray, deep, rgb, palette} {
		if got := MaskOf(img, 10, 20); !slices.Equal(got, want) {
			t.Errorf("%T: %v, want %v", img, got, want)
		}
		labels := map[uint32][]Run{}
		for label, u := range LabelRuns(img, 10, 20) {
			labels[label] = append(labels[label], u)
		}
		for range LabelRuns(img, 0, 0) {
			break // an image is left where nobody wants more
		}
		unit := uint32(1)
		if img == deep {
			unit = 256
		}
		if len(labels) != 5 || !slices.Equal(labels[2*unit], []Run{{Y: 20, X0: 11, X1: 12}, {Y: 22, X0: 11, X1: 12}}) {
			t.Errorf("%T: labels %v", img, labels)
		}
	}
	if got := MaskOf(image.NewGray(image.Rectangle{}), 1, 1); got == nil || len(got) > 0 {
		t.Errorf("no image: %v", got)
	}
}

// TestMaskRaster: what is drawn of masks and polygons together is what they are made of.
func TestMaskRaster(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	set := mustSet(t, Region{Mask: []Run{{Y: 0, X0: -3, X1: 2}, {Y: 1, X0: 1, X1: 9}}},
		Region{Rings: []Ring{{{2, 0}, {4, 0}, {4, 3}, {2, 3}}}},
		Region{Mask: []Run{{Y: 2, X0: 3, X1: 4}, {Y: 9, X0: 0, X1: 1}}})
	for _, m := range methods {
		r, err := Rasterize(t.Context(), dev, set, 5, 3, driver.RasterLabels, m)
		if err != nil {
			t.Fatal(err)
		}
		var got [15]uint16
		for i := range got {
			got[i] = uint16(sample(r.Picture, i%5, i/5, 0))
		}
		if want := [15]uint16{1, 1, 2, 2, 0, 0, 1, 2, 2, 1, 0, 0, 2, 3, 0}; got != want {
			t.Errorf("%v: %v, want %v", m, got, want)
		}
		if !slices.Equal(r.Counts, []uint64{6, 6, 1}) {
			t.Errorf("%v: counts %v", m, r.Counts)
		}
	}
	one, err := Rasterize(t.Context(), dev, mustSet(t, Region{Mask: []Run{{Y: 1, X0: 1, X1: 3}}}), 4, 2, driver.RasterMask,
		driver.MethodDefault)
	if err != nil || !slices.Equal(one.Data[0], []byte{0, 0, 0, 0, 0, 255, 255, 0}) {
		t.Errorf("%v, %v", one, err)
	}
}
