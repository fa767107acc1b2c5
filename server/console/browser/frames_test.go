package browser

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/color/palette"
	"image/draw"
	"image/png"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// counts are how many pixels of a frame each region of a file has, by the command line.
func (s *served) counts(t *testing.T, frame, regions string) map[string]float64 {
	t.Helper()
	var r reduced
	out := s.polyscan(t, "reduce", frame, "--regions", regions, "--addr", s.grpc, "--json")
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	n := map[string]float64{}
	for _, g := range r.Regions {
		n[g.Name] = g.Channels[0].Count
	}
	return n
}

// exported is the file that the page exports in a format.
func (e editor) exported(format, name string) string {
	e.t.Helper()
	e.do(fmt.Sprintf(`document.getElementById("format").value = %q`, format))
	file := filepath.Join(e.t.TempDir(), filepath.Base(name))
	if err := os.WriteFile(file, e.saved("Export regions", name), 0o666); err != nil {
		e.t.Fatal(err)
	}
	return file
}

// regions imports a file, and waits until it has so many regions.
func (e editor) regions(file string, n int) {
	e.t.Helper()
	e.files("#import", file)
	e.await(fmt.Sprintf(`document.querySelectorAll(".list .regions button").length === %d`, n))
}

func written(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

const (
	plain = `{"name":"chip","rings":[[[400,272],[544.5,272],[544,416.25],[400,416]]],"limits":["mean in [20, 110]","max < 250"]}`
	pair  = `{"name":"pair","rings":[[[10,10],[60,10],[60,60],[10,60]],[[40,40],[90,40],[90,90],[40,90]]],"limits":["mean < 200"]}`
	holes = `{"name":"ring <1>","rings":[[[200,20],[300,20],[300,120],[200,120]],[[220,40],[220,100],[280,100],[280,40]]]}`
	star  = `{"name":"star","rings":[[[600,100],[660,290],[500,170],[700,170],[540,290]]],"fill":"evenodd"}`
	twice = `{"name":"twice","rings":[[[100,200],[160,200],[160,260],[100,260]],[[130,230],[190,230],[190,290],[130,290]]],"fill":"evenodd"}`
)

// Regions are exported in each format that the command line reads, which finds the same pixels and limits in them, and
// so does the page where it reads the format. What a format can't hold is said.
func TestRecipeExports(t *testing.T) {
	s := serve(t, "")
	board := testdata("board.png")
	e := s.editor(t, "")
	e.keepSaved()
	e.frame(board)
	limits := func(file string) map[string]int {
		t.Helper()
		var f struct {
			Regions []struct {
				Name   string
				Limits []string
			}
		}
		out := s.polyscan(t, "regions", file, "--strict")
		if err := json.Unmarshal(out, &f); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		n := map[string]int{}
		for _, g := range f.Regions {
			n[g.Name] = len(g.Limits)
		}
		return n
	}
	for _, c := range []struct{ regions, format, file string }{
		{plain + "," + pair, "polyscan", "regions.json"},
		{plain + "," + pair, "labelme", "regions.labelme.json"},
		{plain + "," + pair, "coco", "regions.coco.json"},
		{plain + "," + pair + "," + holes + "," + star + "," + twice, "geojson", "regions.geojson"},
		{plain + "," + pair + "," + holes + "," + star + "," + twice, "svg", "regions.svg"},
	} {
		from := written(t, "from.json", "["+c.regions+"]")
		want, wantLimits := s.counts(t, board, from), limits(from)
		e.regions(from, len(want))
		file := e.exported(c.format, c.file)
		switch c.format {
		case "coco": // whose regions have numbers
			want = map[string]float64{"chip#1": want["chip"], "pair#2": want["pair"]}
			wantLimits = map[string]int{"chip#1": wantLimits["chip"], "pair#2": wantLimits["pair"]}
		case "svg": // which has no limits, as the page says
			wantLimits = map[string]int{"chip": 0, "pair": 0, "ring <1>": 0, "star": 0, "twice": 0}
			e.has(".message", "SVG has no limits")
		}
		if got := s.counts(t, board, file); !maps.Equal(got, want) {
			t.Errorf("%s: pixels %v, want %v", c.format, got, want)
		}
		if got := limits(file); !maps.Equal(got, wantLimits) {
			t.Errorf("%s: limits %v, want %v", c.format, got, wantLimits)
		}
		e.regions(written(t, "one.json", "["+star+"]"), 1)
		e.regions(file, len(want))
		if got := s.counts(t, board, e.exported("polyscan", "regions.json")); !maps.Equal(got, want) {
			t.Errorf("%s, read again: pixels %v, want %v", c.format, got, want)
		}
	}
	// Masks: one with a hole, whose runs touch at the foot of one column and the head of the next, one beyond the
	// frame's right side, and one of a single pixel in its corner.
	bottom, right := 511, 799
	if f, err := os.Open(board); err != nil {
		t.Fatal(err)
	} else if cfg, _, err := image.DecodeConfig(f); err != nil {
		t.Fatal(err)
	} else {
		f.Close()
		bottom, right = cfg.Height-1, cfg.Width-1
	}
	masks := fmt.Sprintf(`{"name":"holed","mask":[[0,0,5],[1,0,2],[1,3,5],[2,0,5],[%d,2,4]],"limits":["mean in [0, 250]"]},
		{"name":"beyond","mask":[[7,%d,%d],[8,%d,%d]]},{"name":"corner","mask":[[%d,%d,%d]]}`,
		bottom, right-2, right+4, right-1, right+2, bottom, right, right+1)
	from := written(t, "masks.json", "["+masks+"]")
	pixels := s.counts(t, board, from)
	for format, of := range map[string]struct {
		file  string
		names [3]string
		limit int
	}{
		"labelme": {"regions.labelme.json", [3]string{"holed", "beyond", "corner"}, 1},
		"coco":    {"regions.coco.json", [3]string{"holed#1", "beyond#2", "corner#3"}, 1},
		"png":     {"regions.png", [3]string{"label-1", "label-2", "label-3"}, 0},
	} {
		e.regions(written(t, "one.json", "["+star+"]"), 1)
		e.regions(from, 3)
		file := e.exported(format, of.file)
		want := map[string]float64{of.names[0]: pixels["holed"], of.names[1]: pixels["beyond"],
			of.names[2]: pixels["corner"]}
		if got := s.counts(t, board, file); !maps.Equal(got, want) {
			t.Errorf("masks as %s: pixels %v, want %v", format, got, want)
		}
		if got := limits(file)[of.names[0]]; got != of.limit {
			t.Errorf("masks as %s: %d limits, want %d", format, got, of.limit)
		}
		e.regions(written(t, "one.json", "["+star+"]"), 1)
		e.regions(file, 3)
		again := e.exported("polyscan", "regions.json")
		if got := s.counts(t, board, again); !maps.Equal(got, want) {
			t.Errorf("masks as %s, read again: pixels %v, want %v", format, got, want)
		}
		// Not only as many: the same ones.
		was, err := s.regionsOf(t, from)
		if err != nil {
			t.Fatal(err)
		}
		is, err := s.regionsOf(t, again)
		if err != nil {
			t.Fatal(err)
		}
		for i := range is {
			is[i].Name, is[i].Limits = was[i].Name, was[i].Limits
		}
		if d := differ(is, was); d != "" {
			t.Errorf("masks as %s: %s", format, d)
		}
	}
	for want, regions := range map[string]string{
		"chip is no mask":      plain,
		"twice covers pixels":  `{"name":"once","mask":[[1,1,3]]},{"name":"twice","mask":[[1,2,4]]}`,
		"before has pixels le": `{"name":"before","mask":[[1,-2,4]]}`,
	} {
		e.regions(written(t, "none.json", "["+holes+","+holes+","+holes+"]"), 3)
		e.regions(written(t, "refused.json", "["+regions+"]"), strings.Count(regions, `"name"`))
		e.do(`document.getElementById("format").value = "png"`)
		e.press("Export regions")
		e.has(".message.error", want)
	}
	e.regions(written(t, "none.json", "["+holes+","+holes+","+holes+"]"), 3) // so that one region is not what was there
	e.regions(written(t, "holes.json", "["+holes+"]"), 1)
	for _, format := range []string{"labelme", "coco"} {
		e.do(fmt.Sprintf(`document.getElementById("format").value = %q`, format))
		e.press("Export regions")
		e.has(".message.error", "has no holes, and ring <1> has some")
	}
}

// Each format that the command line reads is read by the page, which finds the same regions: names, rings to the last
// vertex, fill rules and limits. What of a file gives no region is said, and what can't be read.
func TestRecipeImports(t *testing.T) {
	s := serve(t, "")
	e := s.editor(t, "")
	e.keepSaved()
	e.frame(testdata("board.png"))
	var mask bytes.Buffer // a ring of pixels that meets a pixel at its corner
	m := image.NewGray(image.Rect(0, 0, 7, 6))
	for _, p := range [][2]int{{0, 0}, {1, 0}, {2, 0}, {0, 1}, {2, 1}, {0, 2}, {1, 2}, {2, 2}, {3, 3}, {6, 5}} {
		m.SetGray(p[0], p[1], color.Gray{Y: 1})
	}
	if err := png.Encode(&mask, m); err != nil {
		t.Fatal(err)
	}
	labelMe := fmt.Sprintf(`{"shapes": [{"label": "grown", "shape_type": "mask", "group_id": 3, "points": [[11, 20], [17, 25]],
		"mask": %[1]q}, {"label": "grown", "group_id": 3, "points": [[40, 40], [40, 60], [60, 60]], "flags": {"mean < 9": true}},
		{"label": "two", "shape_type": "mask", "group_id": 4, "points": [[0.5, 1.5], [8, 9]], "mask": %[1]q},
		{"label": "two", "shape_type": "mask", "group_id": 4, "points": [[2, 3], [8, 8]], "mask": %[1]q}]}`,
		base64.StdEncoding.EncodeToString(mask.Bytes()))
	coco := fmt.Sprintf(`{"images": [{"id": 1, "file_name": "board.png"}], "categories": [{"id": 1, "name": "c"}], "annotations": [
		{"id": 1, "image_id": 1, "category_id": 1, "segmentation": {"size": [5, 4], "counts": [6, 2, 2, 3, 2, 5]}},
		{"id": 2, "image_id": 1, "category_id": 1, "segmentation": {"size": [60, 80], "counts": %q}},
		{"id": 3, "image_id": 1, "category_id": 1, "segmentation": [[1, 1, 9, 1, 9, 9], [5, 5, 5, 12, 12, 12]]}]}`,
		compressed(61, 4, 56, 6, 54, 70, 4549))
	svg := `<?xml version="1.0"?>
<svg xmlns="http://www.w3.org/2000/svg" xmlns:inkscape="http://www.inkscape.org/namespaces/inkscape" width="400" height="300"
	viewBox="-10 5 200 100" preserveAspectRatio="xMinYMax slice" fill-rule="evenodd">
	<title>Many shapes</title>
	<g transform="translate(10,20) rotate(30) scale(1.5 -.75)skewX(10)">
		<path id="p1" d="M10 10 L 40,10 40 40 10 40zm5 5h20v20h-20z"/>
		<path id="p2" style="fill-rule: nonzero"
			d="M60 0c5-10 15-10 20 0s15 10 20 0q5 -20 10 0t10 0A 10 5 20 0 1 90 20a5 5 0 1,0-9,3.5.5.5e1 2 10-1-2z"/>
	</g>
	<rect x="3" y="7" width="30" height="20" rx="4"><title> A  rounded
		one </title></rect>
	<rect x="50" y="7" width="30px" height="20" inkscape:label="labelled" id="r2" transform="matrix(1 0.1 -0.2 1 3 4)"/>
	<circle cx="100" cy="50" r="0.3" id="tiny"/><ellipse cx="100" cy="50" rx="30" ry="11.5" id="wide" fill-rule="inherit"/>
	<svg x="20" y="30" width="50" height="40" viewBox="0 0 10 10"><polygon id="inner" points="1,1 9 1,9-1 5,5e0"/></svg>
	<polyline points="0 0 10 0 10 10"/><g display="none"><circle r="9"/></g><g visibility="hidden"><circle r="9"/></g>
	<defs><circle r="50"/></defs><text x="3">words</text><path d="M0 0 10 0"/>
</svg>`
	type file struct {
		path string
		says string
	}
	// labels is a file of areas of few values, the larger ones of 16 bits.
	labels := func(name string, m draw.Image) string {
		var b bytes.Buffer
		for i := 0; name != "one.png" && i < m.Bounds().Dx()*m.Bounds().Dy(); i++ {
			x, y := i%m.Bounds().Dx(), i/m.Bounds().Dx()
			v := [5]uint16{0, 3, 300, 65535, 2}[(x/11+y/7*y/9)%5]
			switch m := m.(type) {
			case *image.Paletted:
				m.SetColorIndex(x, y, uint8(int(v)%len(m.Palette)))
			case *image.Gray:
				m.SetGray(x, y, color.Gray{uint8(v)})
			case *image.Gray16:
				m.SetGray16(x, y, color.Gray16{v})
			default:
				m.Set(x, y, color.NRGBA{uint8(v), uint8(v >> 8), uint8(x / 25), 255})
			}
		}
		if err := png.Encode(&b, m); err != nil {
			t.Fatal(err)
		}
		return written(t, name, b.String())
	}
	from := func(name string) string { return testdata("../clients/regionfile/testdata/" + name) }
	for _, f := range []file{
		{from("regions.json"), ""}, {from("recipe.json"), ""}, {from("labelme.json"), "scale (line) was left out"},
		{from("parts.geojson"), "(Point) was left out"}, {from("inkscape.svg"), "<line> was left out"},
		{from("illustrator.svg"), ""},
		{written(t, "masks.json", labelMe), ""}, {written(t, "runs.json", coco), ""},
		{written(t, "many.svg", svg), "<text> was left out"},
		{labels("gray.png", image.NewGray(image.Rect(0, 0, 90, 31))), ""},
		{labels("gray16.png", image.NewGray16(image.Rect(0, 0, 33, 40))), ""}, {labels("one.png", m), ""},
		{labels("colours.png", image.NewNRGBA(image.Rect(0, 0, 50, 40))), ""},
		{labels("palette.png", image.NewPaletted(image.Rect(0, 0, 45, 40), palette.Plan9)), ""},
		{labels("small palette.png", image.NewPaletted(image.Rect(0, 0, 45, 40), palette.Plan9[:3])), ""},
	} {
		want, err := s.regionsOf(t, f.path)
		if err != nil {
			t.Fatal(err)
		}
		e.regions(written(t, "one.json", "["+star+"]"), 1)
		e.files("#import", f.path)
		e.await(fmt.Sprintf(`document.querySelectorAll(".list .regions button").length === %d &&
			document.querySelector(".list .regions button .name").textContent !== "star"`, len(want)))
		if f.says != "" {
			e.has(".message", f.says)
		}
		e.do(`document.getElementById("recipe-name").value = ""`)
		got, err := s.regionsOf(t, e.exported("polyscan", "regions.json"))
		if err != nil {
			t.Fatal(err)
		}
		if why := differ(got, want); why != "" {
			t.Errorf("%s: %s", filepath.Base(f.path), why)
		}
	}
	for content, says := range map[string]string{
		`<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0 L 5"/></svg>`:                         `<path>: “M0 0 L 5” can't be read`,
		`<svg xmlns="http://www.w3.org/2000/svg"><rect id="a" width="3mm" height="9"/></svg>`:        `<rect id="a">: width is 3mm`,
		`<svg xmlns="http://www.w3.org/2000/svg"><rect style="x: 3" width="3" height="9"/></svg>`:    `x in a style`,
		`<svg xmlns="http://www.w3.org/2000/svg"><circle r="3" transform="turn(3)"/></svg>`:          `“turn(3)” can't be read`,
		`<svg xmlns="http://www.w3.org/2000/svg"><circle r="1e8"/></svg>`:                            `further than 4,194,304`,
		`<svg xmlns="http://www.w3.org/2000/svg"><circle`:                                            `no XML that the browser reads`,
		`<svg xmlns="http://www.w3.org/2000/svg"><text>no shape</text></svg>`:                        `no shape with an area`,
		`<html xmlns="http://www.w3.org/1999/xhtml"/>`:                                               `no regions file`,
		`{"annotations": [{"image_id": 1, "segmentation": {"size": [5, 4], "counts": [6, 2, 99]}}]}`: `no regions file`,
		`{"shapes": [{"label": "cut", "shape_type": "line", "points": [[1, 1], [5, 5]],
			"flags": {"mean < 3": true}}]}`: `
			cut (line) was left out: it has no area. It has limits`,
		`{"images": [{"id": 1, "file_name": "board.png"}], "annotations": [{"image_id": 1, "bbox": [1, 1, 3, 3]},
			{"id": 7, "image_id": 9, "bbox": [1, 1, 3, 3], "attributes": {"limits": "max < 9"}}]}`: `
			region#7 was left out: the file has no image of the id 9. It has limits`,
		`{"type": "Feature", "properties": {"name": "dot", "limits": ["mean < 3"]},
			"geometry": {"type": "GeometryCollection", "geometries": []}}`: `
			dot (GeometryCollection) was left out: it is empty. It has limits`,
		`{"type": "Feature", "geometry": {"type": "GeometryCollection", "geometries": []}}`: `
			The file has no regions. A shape (GeometryCollection) was left out`,
		`{"images": [{"id": 1, "width": 6, "height": 4}],
			"annotations": [{"image_id": 1, "segmentation": {"size": [4, 5], "counts": [6, 14]}}]}`: `
			The mask of region#0 has 5 × 4 pixels, its image 6 × 4`,
		`[{"rings": [[[1, 1], [9, 1], [9, 9]]], "limit": ["mean < 3"]}]`: `
			“limit” looks like a misspelt “limits”`,
		`{"annotations": [{"image_id": 1, "bbox": [1, 1, 3, 3], "segmentaton": []}]}`: `
			“segmentaton” looks like a misspelt “segmentation”`,
		`{"annotations": [{"image_id": 1, "bbox": [1, 1, 3, 3], "attributes": {"limits": ";;"}}]}`: `
			“;;” is no limit`,
		`{"annotations": [{"image_id": 1, "bbox": [1, 1, 3, 3], "attributes": "mean > 150"}]}`: `
			limits where nobody reads them`,
		`{"shapes": [{"label": "a", "points": [[1, 1], [9, 1], [9, 9]]}], "imageWidth": 9}`: `
			9 × 0 pixels: width and height must both`,
		`{"shapes": [{"label": "a", "points": [[1, 1], [9, 1], [9, 9]], "flags": {"red mean below 1": true}}]}`: `
			“red mean below 1” is no limit`,
		`{"shapes": [{"label": "a", "points": [[1, 1], [9, 1], [9, 9]], "attributes": {"mean > 150": true}}]}`: `
			limits where nobody reads them`,
		`[{"rings": [[[1, 1], [9, 1], [9, 9]]], "scale": {"mm_per_pixel": 1}}]`: `
			it belongs beside the regions`,
		`[{"rings": [[[1, 1], [9, 1], [9, 9]]], "flatField": "x"}]`: `
			it belongs beside the regions`,
		`{"regions": [{"rings": [[[1, 1], [9, 1], [9, 9]]]}], "imageSize": [9, 9]}`: `
			“imageSize” looks like a misspelt “drawn_on”`,
		`{"regions": [{"rings": [[[1, 1], [9, 1], [9, 9]]]}], "shapes": []}`: `
			A file has regions of one format`,
		`{"shapes": [{"label": "a", "points": [[1, 1], [9, 1], [9, 9]]}], "scale": {"mm_per_pixel": 1}}`: `
			“scale” is read in polyscan's own format alone`,
		`{"shapes": [{"label": "a", "points": [[1, 1], [9, 1], [9, 9]], "flags": {"scale": true, "drawn_on": {}}}]}`: `
			“drawn_on” is read in polyscan's own format alone`,
		`{"annotations": [{"image_id": 1, "bbox": [1, 1, 3, 3], "attributes": {"flat-field": "x"}}]}`: `
			“flat-field” is read in polyscan's own format alone`,
		`{"type": "FeatureCollection", "properties": {"reductions": ["mean"]}, "features": []}`: `
			“reductions” is read in polyscan's own format alone`,
		`{"type": "FeatureCollection", "properties": {"limits": "mean > 150"}, "features": []}`: `
			limits where nobody reads them`,
		`{"annotations": [{"image_id": 1, "bbox": [1, 1, 3, 3], "limits": ["mean < 3"]}]}`: `
			limits where nobody reads them`,
		`{"type": "FeatureCollection", "features": []}`: `The file has no regions.`,
		`{"type": "Polygon", "crs": {"type": "name", "properties": {"name": "EPSG:4326"}}, "coordinates":
			[[[1, 1], [9, 1], [9, 9], [1, 1]]]}`: `
			"EPSG:4326"}}, and polyscan needs pixels`,
		`{"annotations": [{"image_id": 1, "bbox": [0.1, 0.1, 0.3, 0.9]}]}`: `
			from 0 to 1, as shares of an image's sides are`,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><rect width="1" height="0.5"/></svg>`: `
			from 0 to 1, as shares of an image's sides are`,
		`[{"rings": [[[13.37, 52.51], [13.38, 52.51], [13.38, 52.52]]]}]`: `
			together cover less than a pixel`,
	} {
		e.files("#import", written(t, "bad.svg", content))
		e.has(".message.error", strings.TrimSpace(says))
	}
}

// compressed are run lengths as COCO's string has them.
func compressed(runs ...int) string {
	var s []byte
	for i, v := range runs {
		if i > 2 {
			v -= runs[i-2]
		}
		for more := true; more; {
			c := v & 31
			v >>= 5
			if more = v != 0 && v != -1 || v == 0 && c&16 != 0 || v == -1 && c&16 == 0; more {
				c |= 32
			}
			s = append(s, byte(c+48))
		}
	}
	return string(s)
}

// found is a region as the command line prints it.
type found struct {
	Name   string
	Rings  [][][2]float64
	Mask   [][3]int
	Fill   string
	Limits []string
}

// regionsOf is what the command line finds in a file.
func (s *served) regionsOf(t *testing.T, file string) ([]found, error) {
	t.Helper()
	var says bytes.Buffer
	cmd := exec.Command(filepath.Join(programs, "polyscan"), "regions", file)
	cmd.Stderr = &says
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", file, err, says.Bytes())
	}
	var f struct{ Regions []found }
	if err := json.Unmarshal(out, &f); err != nil {
		return nil, err
	}
	return f.Regions, nil
}

// differ is how regions differ by more than the last digits of vertices; "" where they don't.
func differ(got, want []found) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d regions, want %d", len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		if g.Name != w.Name || !slices.Equal(g.Limits, w.Limits) || !slices.Equal(g.Mask, w.Mask) ||
			len(g.Rings) != len(w.Rings) || (g.Fill == "evenodd") != (w.Fill == "evenodd") {
			return fmt.Sprintf("region %d: %s, %d rings, %v, %q, %q; want %s, %d rings, %v, %q, %q", i, g.Name,
				len(g.Rings), g.Mask, g.Fill, g.Limits, w.Name, len(w.Rings), w.Mask, w.Fill, w.Limits)
		}
		for k, ring := range g.Rings {
			if len(ring) != len(w.Rings[k]) {
				return fmt.Sprintf("%s: ring %d has %d vertices, want %d", g.Name, k, len(ring), len(w.Rings[k]))
			}
			for n, p := range ring {
				if q := w.Rings[k][n]; math.Hypot(p[0]-q[0], p[1]-q[1]) > 1e-6 {
					return fmt.Sprintf("%s: vertex %d of ring %d is %v, want %v", g.Name, n, k, p, q)
				}
			}
		}
	}
	return ""
}

// A limit that names another region is told of the chosen region, too.
func TestRecipeNamesAnother(t *testing.T) {
	s := serve(t, "")
	e := s.editor(t, "")
	e.frame(testdata("board.png"))
	e.regions(written(t, "two.json", `[{"name":"a","rings":[[[400,272],[544,272],[544,416],[400,416]]],
		"limits":["mean - \"a ref\".mean in [-250, 250]"]},{"name":"a ref","rings":[[[10,10],[60,10],[60,60],[10,60]]]}]`), 2)
	e.await(`document.querySelector(".limitrow .mark").textContent.includes("PASS")`)
	e.await(`document.querySelector(".message").hidden`)
	e.verdict("pass")
}

// What is drawn is cut out of a region whose edges it crosses, by keys and exactly: of one whose rings cross
// themselves, by each fill rule.
func TestRecipeCutOut(t *testing.T) {
	s := serve(t, "")
	board := testdata("board.png")
	e := s.editor(t, "")
	e.keepSaved()
	e.frame(board)
	// The cross is in the middle of the frame, at (480, 320).
	xy := [][2]float64{{500, 210}, {563, 404}, {398, 284}, {602, 284}, {437, 404}}
	points, _ := json.Marshal(xy)
	for _, fill := range []string{"nonzero", "evenodd"} {
		want := 0
		for y := range 640 {
			for x := range 960 {
				px, py, winding := float64(x)+0.5, float64(y)+0.5, 0
				for i, a := range xy {
					b := xy[(i+1)%len(xy)]
					if at := a[0] + (py-a[1])/(b[1]-a[1])*(b[0]-a[0]); (a[1] <= py) != (b[1] <= py) && at > px {
						if a[1] <= py {
							winding++
						} else {
							winding--
						}
					}
				}
				in := winding != 0
				if fill == "evenodd" {
					in = winding%2 != 0
				}
				if in && !(x >= 480 && x < 580 && y >= 320 && y < 420) {
					want++
				}
			}
		}
		e.regions(written(t, "a.json", `[{"name":"a","rings":[[[0,0],[9,0],[9,9]]]},{"name":"b","rings":[[[0,0],[9,0],[9,9]]]}]`), 2)
		e.regions(written(t, "star.json", fmt.Sprintf(`[{"name":"star","rings":[%s],"fill":%q}]`, points, fill)), 1)
		e.do(`(s => { s.value = "cut"; s.dispatchEvent(new Event("change")); })([...document.querySelectorAll(".toolbar select")][0])`)
		e.frame(board) // the cross is in the middle again
		e.do(`document.querySelector(".editor svg").focus()`)
		before := e.path()
		e.keys("r", kb.Enter)
		for range 10 {
			e.modified(kb.ArrowRight, kb.ModifierShift)
			e.modified(kb.ArrowDown, kb.ModifierShift)
		}
		e.keys(kb.Enter)
		e.await(fmt.Sprintf(`document.querySelector(".editor .outline.on").getAttribute("d") !== %q`, before))
		if got := s.counts(t, board, e.exported("polyscan", "regions.json"))["star"]; got != float64(want) {
			t.Errorf("%s: %v pixels, want %d", fill, got, want)
		}
	}
	// Cut by the same again, nothing changes, and the page says so.
	e.frame(board)
	e.do(`document.querySelector(".editor svg").focus()`)
	e.keys("r", kb.Enter)
	for range 5 {
		e.modified(kb.ArrowRight, kb.ModifierShift)
		e.modified(kb.ArrowDown, kb.ModifierShift)
	}
	e.keys(kb.Enter)
	e.has("[role=status]", "covers nothing of it")
	e.axe("cut out")
}

// Of kept parts that have no picture the page says that they were not tried.
func TestTryWithoutPicture(t *testing.T) {
	s := serve(t, "", "--history", t.TempDir(), "--history-good", "2")
	e := s.editor(t, "")
	c := e.camera("camera-3", "")
	for i := range 4 {
		c.frame(fmt.Sprintf("A-%d", i), 100+byte(i))
	}
	e.until("parts are listed", func() bool {
		return eval[bool](e.tab, `(d => { d.open = false; d.open = true; return new Promise(r => setTimeout(() => r(
			d.querySelectorAll("select")[0].options.length === 2), 50)); })(document.querySelector("details.line"))`)
	})
	e.fill("details.line input", "camera-3") // what the page measures is kept, too, without a name
	e.press("Open the part")
	e.has(".framecard .help", "64 × 48 pixels")
	e.press("Rectangle")
	e.drag(8, 12, 24, 36)
	e.await(`document.querySelectorAll(".list .regions button").length === 1`)
	e.press("Add a limit")
	e.fill(".limitrow input", "mean > 90")
	for newest, want := range map[string]string{
		"5": "2 of the newest 4 kept parts have no picture and were left out.",
		"2": "1 of the newest 3 kept parts has no picture and was left out.",
		"1": "",
	} {
		e.do(`document.querySelector(".outcome").replaceChildren()`)
		e.fill("#newest", newest)
		e.press("Try")
		e.await(`document.querySelector("#tried")`)
		if got := eval[string](e.tab, `document.querySelector(".outcome .note")?.textContent ?? ""`); got != want {
			t.Errorf("of the newest %s: %q, want %q", newest, got, want)
		}
	}
}

// A part that the history keeps is drawn on, as is the newest picture of a stream whose frames are larger than pictures
// are; kept parts are tried.
func TestRecipeFromLine(t *testing.T) {
	s := serve(t, "", "--history", t.TempDir(), "--history-good", "1")
	e := s.editor(t, "")
	c := e.camera("camera-3", "")
	for i := range 4 {
		c.frame(fmt.Sprintf("A-%d", i), 100+byte(i))
	}
	c.frame("B-0", 30)
	line := `document.querySelector("details.line")`
	open := func() {
		t.Helper()
		e.do(line + `.open = false`)
		e.do(line + `.open = true`)
	}
	// The history is written behind the verdicts.
	e.until("parts are listed", func() bool {
		open()
		return eval[bool](e.tab, `new Promise(r => setTimeout(() => r(
			document.querySelectorAll("details.line select")[0].options.length === 5), 50))`)
	})
	part := eval[string](e.tab, `(() => { const s = document.querySelectorAll("details.line select")[0];
		const o = [...s.options].find(o => o.text.includes("A-2")); s.value = o.value; return o.text; })()`)
	if want := "camera-3, A-2, PASS"; len(part) < len(want) || part[len(part)-len(want):] != want {
		t.Errorf("the part is listed as %q", part)
	}
	e.press("Open the part")
	e.has(".framecard .help", "A-2, 64 × 48 pixels")
	e.press("Rectangle")
	e.drag(8, 12, 24, 36)
	e.await(`document.querySelectorAll(".list .regions button").length === 1`)
	if got := e.awaitValue(func() string { return e.number("min") }, "102"); got != "102" {
		t.Errorf("min of A-2: %s", got)
	}
	e.fill("#newest", "5")
	e.press("Add a limit")
	e.fill(".limitrow input", "mean > 90")
	e.press("Try")
	e.await(`document.querySelector("#tried")`)
	if got, want := eval[string](e.tab, `document.querySelector(".outcome .headline").textContent`),
		"4 of 4 good pass, 1 of 1 bad fail"; got != want {
		t.Errorf("tried: %s, want %s", got, want)
	}
	e.axeAll("recipe-line")

	// A stream of frames of 1024 x 768, whose pictures have every second pixel.
	large := e.camera("camera-4", "")
	const w, h = 1024, 768
	send := func() {
		if err := large.Send(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: &pb.Frame{PartId: "L-0",
			Layout: &pb.FrameLayout{Width: w, Height: h, PixelFormat: pb.PixelFormat_PIXEL_FORMAT_GRAY8},
			Source: &pb.Frame_Data{Data: make([]byte, w*h)}}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := large.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	send()
	e.until("the stream is listed", func() bool {
		open()
		return eval[bool](e.tab, `new Promise(r => setTimeout(() => { const s = document.querySelectorAll("details.line select")[1];
			const o = [...s.options].find(o => o.text === "camera-4"); if (o) s.value = o.value; r(!!o); }, 50))`)
	})
	e.press("Next picture")
	e.until("a picture is shown", func() bool {
		send()
		return eval[bool](e.tab, `new Promise(r => setTimeout(() => r(
			document.querySelector(".framecard .help").textContent.includes("L-0, a picture of the stream, every 2nd pixel")), 50))`)
	})
	e.press("Rectangle")
	e.drag(900, 600, 1000, 700)
	e.await(`document.querySelectorAll(".list .regions button").length === 2`)
	e.await(`document.querySelector(".editor .outline.on").getBBox().x > 500`)
	box := eval[[]float64](e.tab, `(b => [b.x, b.y, b.x + b.width, b.y + b.height])(document.querySelector(".editor .outline.on").getBBox())`)
	for i, want := range []float64{900, 600, 1000, 700} {
		if box[i] < want-3 || box[i] > want+3 {
			t.Errorf("the rectangle is at %v", box)
		}
	}
	if got := e.awaitValue(func() string { return e.number("pixels") }, ""); got != "" {
		t.Errorf("a picture has numbers: %s pixels", got)
	}
}

// A frame of 16384 x 16384 pixels, which is shown smaller, has all of its pixels where it is seen closely; so has one
// of a line of 10,240 pixels. Numbers are those of all pixels.
func TestRecipeLargeFrame(t *testing.T) {
	s := serve(t, "")
	e := s.editor(t, "")
	e.patience = 4 * patience // the browser decodes 256 megapixels several times
	for i, c := range []struct{ w, h, x, y int }{{16384, 16384, 15000, 12000}, {10240, 300, 9000, 100}} {
		// Every other pixel of a square is bright, and smaller pictures have the mean.
		m := image.NewGray(image.Rect(0, 0, c.w, c.h))
		for y := range 100 {
			for x := range 100 {
				m.Pix[(c.y+y)*m.Stride+c.x+x] = uint8(50 + (x+y)%2*100)
			}
		}
		var b bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, m); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("large-%d.png", i)
		e.frame(written(t, name, b.String()))
		e.press("Rectangle")
		e.drag(float64(c.x-60), float64(c.y-60), float64(c.x+160), float64(c.y+160))
		e.await(fmt.Sprintf(`document.querySelectorAll(".list .regions button").length === %d`, i+1))
		for number, want := range map[string]string{"min": "0", "max": "150"} {
			if got := e.awaitValue(func() string { return e.number(number) }, want); got != want {
				t.Errorf("%s: %s %q, want %s", name, number, got, want)
			}
		}
		// The wheel zooms in on the square, until a pixel is several pixels of the screen.
		for range 40 {
			if eval[float64](e.tab, `document.querySelector(".editor svg").viewBox.baseVal.width`) < 200 {
				break
			}
			px, py := e.at(float64(c.x+50), float64(c.y+50))
			e.do(fmt.Sprintf(`document.querySelector(".editor svg").dispatchEvent(new WheelEvent("wheel",
				{deltaY: -240, clientX: %v, clientY: %v, bubbles: true, cancelable: true}))`, px, py))
			eval[bool](e.tab, `new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(true))))`)
		}
		for dx := range 2 {
			want := float64(50 + dx*100)
			value := fmt.Sprintf(`(() => { const c = document.querySelector(".editor canvas"), v = document.querySelector(
				".editor svg").viewBox.baseVal, k = c.width / v.width; return c.getContext("2d").getImageData(
				Math.floor((%d.5 - v.x) * k), Math.floor((%d.5 - v.y) * k), 1, 1).data[0]; })()`, c.x+50+dx, c.y+50)
			e.await(fmt.Sprintf(`Math.abs(%s - %v) <= 2`, value, want))
		}
	}
}
