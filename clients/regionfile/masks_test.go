package regionfile

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// runsOf are the runs of a bitmap at (x0, y0), pixel by pixel.
func runsOf(mask bitmap, x0, y0 int) []Run {
	var out []Run
	for y := range mask.h {
		for x := range mask.w {
			switch {
			case !mask.at(x, y):
			case mask.at(x-1, y):
				out[len(out)-1][2]++
			default:
				out = append(out, Run{int32(y0 + y), int32(x0 + x), int32(x0 + x + 1)})
			}
		}
	}
	return out
}

// turned gives a bitmap to a turner, with each column's runs in pieces as split says.
func turned(t testing.TB, mask bitmap, split func() bool) []Run {
	t.Helper()
	o, _ := Options{}.withDefaults()
	tr := newTurner(&builder{opts: o, file: &File{}}, mask.h)
	n := mask.w * mask.h
	set := func(i int) bool { return mask.at(i/mask.h, i%mask.h) }
	for i := 0; i < n; {
		j := i
		for j < n && set(j) && (j == i || !split()) {
			j++
		}
		if e := tr.run(int64(i), int64(j)); e != nil { // may be empty
			t.Fatal(e)
		}
		i = max(j, i+1)
	}
	out, e := tr.rows()
	if e != nil {
		t.Fatal(e)
	}
	return out
}

// Rows are those of the mask, however its columns are cut into runs.
func TestTurner(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mask := bitmapGen().Draw(rt, "mask")
		cut := rapid.IntRange(0, 3).Draw(rt, "cut")
		got := turned(t, mask, func() bool { return rapid.IntRange(0, cut).Draw(rt, "split") > 0 })
		if d := cmp.Diff(runsOf(mask, 0, 0), got); d != "" {
			rt.Fatal(d)
		}
	})
}

// A turner costs what its runs and its rows cost, not the pixels.
func TestTurnerOfWideMasks(t *testing.T) {
	o, _ := Options{}.withDefaults()
	const w, h = coordinateLimit - 1, 3
	tr := newTurner(&builder{opts: o, file: &File{}}, h)
	if e := tr.run(2, w*h-1); e != nil {
		t.Fatal(e)
	}
	got, e := tr.rows()
	if e != nil {
		t.Fatal(e)
	}
	if d := cmp.Diff([]Run{{0, 1, w}, {1, 1, w}, {2, 0, w - 1}}, got); d != "" {
		t.Error(d)
	}
}

func TestTurnerLimit(t *testing.T) {
	turn := func(most int) error {
		tr := newTurner(&builder{opts: Options{MaxVertices: most}, file: &File{}}, 10)
		_ = tr.run(3, 5)
		if e := tr.run(7, 8); e != nil {
			return e
		}
		if _, e := tr.rows(); e != nil {
			return e
		}
		return nil
	}
	if e := turn(3); e != nil {
		t.Errorf("three rows within 3 runs: %v", e)
	}
	if e := turn(2); e == nil || e.(*Error).Kind != ErrLimit {
		t.Errorf("three rows within 2 runs: %v", e)
	}
	if e := turn(1); e == nil || e.(*Error).Kind != ErrLimit {
		t.Errorf("two pieces of columns within 1: %v", e)
	}
}

// A PNG's values other than 0 are regions, whatever kind it is.
func TestMaskImages(t *testing.T) {
	gray := image.NewGray(image.Rect(0, 0, 4, 2))
	copy(gray.Pix, []byte{0, 7, 7, 200, 7, 0, 0, 200})
	deep := image.NewGray16(gray.Rect)
	palette := image.NewPaletted(gray.Rect, make(color.Palette, 201))
	for i := range palette.Palette {
		palette.Palette[i] = color.Gray{Y: uint8(i)}
	}
	rgb := image.NewNRGBA(gray.Rect)
	for i, v := range gray.Pix {
		deep.SetGray16(i%4, i/4, color.Gray16{Y: 256 * uint16(v)})
		palette.Pix[i] = v
		rgb.SetNRGBA(i%4, i/4, color.NRGBA{R: v, A: 255})
	}
	clear := image.NewNRGBA(gray.Rect) // all of it, but for a pixel that is a label
	clear.SetNRGBA(2, 1, color.NRGBA{R: 7, A: 255})
	if f := mustParse(t, string(encoded(t, clear)), Options{}); len(f.Regions) != 1 {
		t.Errorf("%+v", f)
	}
	clear.SetNRGBA(3, 1, color.NRGBA{R: 255, G: 255, B: 255})
	if _, err := Parse("", encoded(t, clear), Options{}); err == nil || !strings.Contains(err.Error(), "pixel (3, 1)") {
		t.Errorf("a transparent label: %v", err)
	}
	one := image.NewGray(gray.Rect)
	copy(one.Pix, []byte{0, 255, 255, 0, 0, 0, 0, 255})
	seven, rest := []Run{{0, 1, 3}, {1, 0, 1}}, []Run{{0, 3, 4}, {1, 3, 4}}
	for _, c := range []struct {
		img  image.Image
		want []Region
	}{
		{gray, []Region{{Name: "label-7", Mask: seven}, {Name: "label-200", Mask: rest}}},
		{palette, []Region{{Name: "label-7", Mask: seven}, {Name: "label-200", Mask: rest}}},
		{deep, []Region{{Name: "label-1792", Mask: seven}, {Name: "label-51200", Mask: rest}}},
		{rgb, []Region{{Name: "label-#070000", Mask: seven}, {Name: "label-#c80000", Mask: rest}}},
		{one, []Region{{Name: "mask", Mask: []Run{{0, 1, 3}, {1, 3, 4}}}}},
	} {
		f := mustParse(t, string(encoded(t, c.img)), Options{})
		if d := cmp.Diff(&File{Format: FormatMask, ImageWidth: 4, ImageHeight: 2, Regions: c.want}, f); d != "" {
			t.Errorf("%T: %s", c.img, d)
		}
	}
	data := string(encoded(t, gray))
	photograph := image.NewGray(image.Rect(0, 0, 64, 64))
	for i := range photograph.Pix {
		photograph.Pix[i] = byte(i * 7 % 34)
	}
	testBad(t, []badFile{
		{"clear", string(encoded(t, image.NewGray(gray.Rect))), Options{}, "no regions in this mask image file",
			ErrNoRegions},
		{"truncated", data[:len(data)-30], Options{}, "png: invalid format: not enough pixel data", ErrSyntax},
		{"photograph", string(encoded(t, photograph)), Options{},
			"33 labels in 3975 runs of 4096 pixels: it looks like a photograph, no mask", ErrUnknownFormat},
		{"two", data + data, Options{},
			fmt.Sprintf("another PNG picture begins at byte %d, behind the end of the first", len(data)), ErrInvalid},
		{"no header", data[:20], Options{}, "no whole PNG: it ends early", ErrSyntax},
		{"labels", data, Options{MaxRegions: 1}, "more than 1 labels in the image, the limit of regions", ErrLimit},
		{"runs", data, Options{MaxVertices: 3}, "more than 3 vertices in the file, the limit", ErrLimit},
		{"large", string(pngHeader(t, 20_000, 20_000)), Options{},
			"more than 268435456 pixels in the file's masks, the limit", ErrLimit},
	})
}

// pngHeader is the start of a PNG that says it is large.
func pngHeader(t testing.TB, w, h int) []byte {
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, bitImage{w, h}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()[:200]
}

// bitImage is clear, in one bit a pixel, and takes no memory.
type bitImage struct{ w, h int }

func (b bitImage) ColorModel() color.Model     { return color.Palette{color.Black, color.White} }
func (b bitImage) Bounds() image.Rectangle     { return image.Rect(0, 0, b.w, b.h) }
func (b bitImage) At(int, int) color.Color     { return color.Black }
func (b bitImage) ColorIndexAt(int, int) uint8 { return 0 }

// polyscan's own masks are read as they are written.
func TestOwnMasks(t *testing.T) {
	own := func(mask string) string { return `[{"name":"m","mask":` + mask + `}]` }
	f := mustParse(t, own(`[[-3,1,2],[4,-9,1],[4,2,4194303]]`), Options{})
	shape := mustParse(t, `[{"name":"m","shape":"band of \"U7\" inwards 4 px"}]`, Options{})
	wantRegions(t, shape.Regions, []Region{{Name: "m", Shape: `band of "U7" inwards 4 px`}})
	wantRegions(t, f.Regions, []Region{{Name: "m", Mask: []Run{{-3, 1, 2}, {4, -9, 1}, {4, 2, 4194303}}}})
	testBad(t, []badFile{
		{"none", own(`[]`), Options{}, `regions[0] "m": mask: no runs, a mask needs at least 1`, ErrInvalid},
		{"object", own(`{}`), Options{}, `regions[0] "m": mask: expected an array, found an object`, ErrInvalid},
		{"two numbers", own(`[[1,2]]`), Options{}, `regions[0] "m": mask[0]: want 3 numbers, [y, x0, x1], found 2`, ErrInvalid},
		{"four numbers", own(`[[1,2,3,4]]`), Options{}, `regions[0] "m": mask[0]: want 3 numbers, [y, x0, x1], found 4`, ErrInvalid},
		{"half a pixel", own(`[[1,2.5,3]]`), Options{},
			`regions[0] "m": mask[0][1]: 2.5 must be a whole number, of magnitude below 4194304`, ErrInvalid},
		{"huge", own(`[[1,2,1e300]]`), Options{},
			`regions[0] "m": mask[0][2]: 1e+300 must be a whole number, of magnitude below 4194304`, ErrInvalid},
		{"no pixel", own(`[[1,2,2]]`), Options{},
			`regions[0] "m": mask[0]: [1 2 2] holds no pixel, x0 must be below x1`, ErrInvalid},
		{"too far", own(`[[4194304,2,3]]`), Options{},
			`regions[0] "m": mask[0]: [4194304 2 3]: magnitudes must be below 4194304 px`, ErrInvalid},
		{"touching", own(`[[1,2,3],[1,3,4]]`), Options{},
			`regions[0] "m": mask[1]: [1 3 4] must lie behind [1 2 3], row by row, and not touch it`, ErrInvalid},
		{"order", own(`[[1,2,3],[0,3,4]]`), Options{},
			`regions[0] "m": mask[1]: [0 3 4] must lie behind [1 2 3], row by row, and not touch it`, ErrInvalid},
		{"both", `[{"name":"m","rings":` + triangle + `,"mask":[[1,2,3]]}]`, Options{},
			`regions[0] "m": the keys "rings" and "mask" are both there, a region has one of them`, ErrInvalid},
		{"a shape, too", `[{"name":"m","shape":"circle(1,2,3)","mask":[[1,2,3]]}]`, Options{},
			`regions[0] "m": the key "shape" is there beside rings or a mask, a region has one of them`, ErrInvalid},
		{"no shape", `[{"name":"m","shape":""}]`, Options{}, `regions[0] "m": the key "rings" is missing`, ErrInvalid},
		{"a shape of numbers", `[{"name":"m","shape":7}]`, Options{},
			`regions[0] "m": shape: expected a string, found a number`, ErrInvalid},
		{"twice", `[{"name":"m","mask":[[1,2,3]],"mask":[[1,2,3]]}]`, Options{},
			`regions[0] "m": the key "mask" occurs twice`, ErrInvalid},
		{"too many", own(`[[1,2,3],[2,3,4]]`), Options{MaxVertices: 1},
			`regions[0] "m": mask[1]: more than 1 vertices in the file, the limit`, ErrLimit},
	})
}
