package curvefile_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/clients/curvefile"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

const example = `{
  "version": 1,
  "width": 640, "height": 480,
  "curves": [
    {
      "id": "rim",
      "points": [[10, 10], [40, 0], [80, 90], [120, 50.5]],
      "left": [[0, 255, 0, 0], [1, 255, 128, 0]],
      "right": [[0, 0, 0, 255]],
      "blur": [[0, 0], [1, 2.5]],
      "barrier": true
    },
    {"points": [[0, 0], [1, 0], [2, 0], [3, 0], [4, 0], [5, 0], [6, 0]], "barrier": true}
  ],
  "pixels": [[639, 479, 1, 2, 3.5]]
}`

func TestJSON(t *testing.T) {
	want := &polyscanv1.Drawing{Width: 640, Height: 480, Curves: []*polyscanv1.Curve{
		{
			Id: "rim", Xy: []float64{10, 10, 40, 0, 80, 90, 120, 50.5}, Barrier: true,
			Left:  []*polyscanv1.ColorStop{{Red: 255}, {At: 1, Red: 255, Green: 128}},
			Right: []*polyscanv1.ColorStop{{Blue: 255}},
			Blur:  []*polyscanv1.BlurStop{{}, {At: 1, Sigma: 2.5}},
		},
		{Xy: []float64{0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0}, Barrier: true},
	}, Pixels: []*polyscanv1.GivenPixel{{X: 639, Y: 479, Red: 1, Green: 2, Blue: 3.5}}}
	for _, text := range []string{example, "\uFEFF\r\n " + example + "\n"} {
		got, err := curvefile.Parse("a", []byte(text), curvefile.Options{})
		if err != nil || !proto.Equal(got, want) {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// What is written is read back as it was.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &polyscanv1.Drawing{Width: rapid.Uint32Range(1, 1<<20).Draw(t, "width"),
			Height: rapid.Uint32Range(1, 1<<20).Draw(t, "height")}
		for range rapid.IntRange(0, 3).Draw(t, "curves") {
			n := rapid.IntRange(1, 3).Draw(t, "segments")
			c := &polyscanv1.Curve{Id: rapid.StringN(-1, 16, 64).Draw(t, "id"),
				Barrier: rapid.Bool().Draw(t, "barrier")}
			for range 6*n + 2 {
				c.Xy = append(c.Xy, rapid.Float64Range(-1<<20, 1<<20).Draw(t, "xy"))
			}
			stops := func() (out []*polyscanv1.ColorStop) {
				at, level := 0.0, rapid.Float32Range(0, 255)
				for range rapid.IntRange(0, 3).Draw(t, "stops") {
					at = rapid.Float64Range(at, float64(n)).Draw(t, "at")
					out = append(out, &polyscanv1.ColorStop{At: at, Red: level.Draw(t, "r"), Green: level.Draw(t, "g"),
						Blue: level.Draw(t, "b")})
				}
				return out
			}
			c.Left, c.Right = stops(), stops()
			c.Barrier = c.Barrier || len(c.Left)+len(c.Right) == 0
			if rapid.Bool().Draw(t, "blurred") {
				c.Blur = append(c.Blur,
					&polyscanv1.BlurStop{At: float64(n), Sigma: rapid.Float32Range(0, 100).Draw(t, "sigma")})
			}
			d.Curves = append(d.Curves, c)
		}
		for range rapid.IntRange(0, 2).Draw(t, "pixels") {
			d.Pixels = append(d.Pixels, &polyscanv1.GivenPixel{
				X: rapid.Uint32Range(0, d.Width-1).Draw(t, "x"), Y: rapid.Uint32Range(0, d.Height-1).Draw(t, "y"),
				Green: rapid.Float32Range(0, 255).Draw(t, "g"),
			})
		}
		b, err := curvefile.AppendJSON(nil, d)
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "compressed") {
			var z bytes.Buffer
			w := gzip.NewWriter(&z)
			if _, err := w.Write(b); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			b = z.Bytes()
		}
		got, err := curvefile.Parse("", b, curvefile.Options{})
		if err != nil || !proto.Equal(got, d) {
			t.Fatalf("%v\n%s\n%v", err, b, got)
		}
	})
	for _, c := range []*polyscanv1.Curve{
		{Xy: []float64{math.NaN()}}, {Left: []*polyscanv1.ColorStop{{Green: float32(math.Inf(1))}}},
		{Blur: []*polyscanv1.BlurStop{{At: math.Inf(-1)}}},
	} {
		if b, err := curvefile.AppendJSON(nil, &polyscanv1.Drawing{Curves: []*polyscanv1.Curve{c}}); err == nil {
			t.Errorf("%v is written as %s", c, b)
		}
	}
}

const orzan = `<!DOCTYPE CurveSetXML>
<curve_set image_width="300" image_height="200" nb_curves="2">
 <curve nb_control_points="7" nb_left_colors="2" nb_right_colors="1" nb_blur_points="2" lifetime="32">
  <control_points_set>
   <control_point x="20" y="10" />
   <control_point x="21" y="11.5" />
   <control_point x="22" y="12" />
   <control_point x="23" y="13" />
   <control_point x="24" y="14" />
   <control_point x="25" y="15" />
   <control_point x="26" y="16" />
  </control_points_set>
  <left_colors_set>
   <left_color G="2" R="3" globalID="0" B="1" />
   <left_color G="20" R="30" globalID="15" B="10" />
  </left_colors_set>
  <right_colors_set>
   <right_color G="5" R="6" globalID="20" B="4" />
  </right_colors_set>
  <blur_points_set>
   <best_scale value="0" globalID="0" />
   <best_scale value="107.5" globalID="20" />
  </blur_points_set>
 </curve>
 <curve nb_control_points="4" nb_left_colors="1" global_len="400" nb_right_colors="1" nb_blur_points="0" lifetime="32">
  <control_points_set>
   <control_point x="0" y="0" /> <control_point x="0" y="1" /> <control_point x="0" y="2" /> <control_point x="0" y="300" />
  </control_points_set>
  <left_colors_set><left_color G="0" R="0" globalID="100" B="0" /></left_colors_set>
  <right_colors_set><right_color G="0" R="0" globalID="400" B="255" /></right_colors_set>
  <blur_points_set></blur_points_set>
 </curve>
</curve_set>
`

func TestXML(t *testing.T) {
	got, err := curvefile.Parse("a.xml", []byte(orzan), curvefile.Options{})
	want := &polyscanv1.Drawing{Width: 300, Height: 200, Curves: []*polyscanv1.Curve{
		{
			Xy:    []float64{10, 20, 11.5, 21, 12, 22, 13, 23, 14, 24, 15, 25, 16, 26},
			Left:  []*polyscanv1.ColorStop{{Red: 1, Green: 2, Blue: 3}, {At: 1.5, Red: 10, Green: 20, Blue: 30}},
			Right: []*polyscanv1.ColorStop{{At: 2, Red: 4, Green: 5, Blue: 6}},
			Blur:  []*polyscanv1.BlurStop{{}, {At: 2, Sigma: 100}},
		},
		{
			Xy:   []float64{0, 0, 1, 0, 2, 0, 300, 0},
			Left: []*polyscanv1.ColorStop{{At: 0.25}}, Right: []*polyscanv1.ColorStop{{At: 1, Red: 255}},
		},
	}}
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestRefusals(t *testing.T) {
	for _, x := range []struct {
		text, old, new string // of a file that is fine, what is replaced by what
		kind           error
		says           string
	}{
		{example, example, "", curvefile.ErrUnknownFormat, "f: the file is empty"},
		{example, example, "hello", curvefile.ErrUnknownFormat, "neither JSON nor XML"},
		{example, example, example[:200], curvefile.ErrSyntax, "line 8 column "},
		{example, "3.5]]\n}", "3.5]]\n} x", curvefile.ErrSyntax, "something follows"},
		{example, `"width": 640`, `"width": 640 640`, curvefile.ErrSyntax, "line 3 column"},
		{example, `"version": 1`, `"version": 2`, curvefile.ErrInvalid,
			"line 2 column 15: version: 2: this reads version 1"},
		{example, `"version": 1,`, "", curvefile.ErrInvalid, `the key "version" is missing`},
		{example, `"height": 480,`, "", curvefile.ErrInvalid, `the key "height" is missing`},
		{example, `"width": 640`, `"width": 0`, curvefile.ErrInvalid,
			"width: 0: must be a whole number from 1 to 1048576"},
		{example, `"width": 640`, `"width": 3.5`, curvefile.ErrInvalid, "width: 3.5: must be a whole"},
		{example, `"width": 640`, `"width": "640"`, curvefile.ErrInvalid, "width: must be a number"},
		{example, `"width": 640`, `"width": 1e999`, curvefile.ErrSyntax, "width"},
		{example, `"width": 640`, `"width": 640, "width": 640`, curvefile.ErrInvalid, `the key "width" comes twice`},
		{example, `"width": 640`, `"wide": 640`, curvefile.ErrInvalid, `the key "wide" is unknown`},
		{example, `"barrier": true
    }`, `"barier": true
    }`, curvefile.ErrInvalid, `curves[0]: the key "barier" is unknown`},
		{example, `"barrier": true
    }`, `"barrier": 1
    }`, curvefile.ErrInvalid, "curves[0].barrier: must be true or false"},
		{example, `"rim"`, `7`, curvefile.ErrInvalid, "curves[0].id: must be a string of at most 64 bytes"},
		{example, `"rim"`, `"` + strings.Repeat("x", 65) + `"`, curvefile.ErrInvalid, "curves[0].id"},
		{example, `[80, 90], `, "", curvefile.ErrInvalid, "curves[0]: 3 points: must be 3n+1"},
		{example, `[80, 90]`, "[80]", curvefile.ErrInvalid, "curves[0].points[2]: has 1 numbers: must be 2"},
		{example, `[80, 90]`, "[80, 90, 100]", curvefile.ErrInvalid, "curves[0].points[2]: has more than 2 numbers"},
		{example, `[80, 90]`, "80", curvefile.ErrInvalid, "curves[0].points[2]: must be an array"},
		{example, `[80, 90]`, "[80, 1048577]", curvefile.ErrInvalid,
			"line 7 column 50: curves[0].points[2]: 1.048577e+06: must be -1048576 to 1048576"},
		{example, "[[10, 10], [40, 0], [80, 90], [120, 50.5]]", "[[1, 2], [1, 2], [1, 2], [1, 2]]",
			curvefile.ErrInvalid, "curves[0]: all points are (1, 2)"},
		{example, `[1, 255, 128, 0]`, "[1, 256, 128, 0]", curvefile.ErrInvalid,
			"curves[0].left[1]: colour 256: must be 0 to 255"},
		{example, `[1, 255, 128, 0]`, "[1.5, 255, 128, 0]", curvefile.ErrInvalid,
			"curves[0].left[1]: place 1.5: must be 0 to 1"},
		{example, `[0, 255, 0, 0], [1, 255, 128, 0]`, "[1, 255, 0, 0], [0.5, 255, 128, 0]", curvefile.ErrInvalid,
			"curves[0].left[1]: place 0.5: is less than 1"},
		{example, `[1, 2.5]`, "[1, 101]", curvefile.ErrInvalid, "curves[0].blur[1]: deviation 101: must be 0 to 100"},
		{example, `[6, 0]], "barrier": true`, `[6, 0]], "barrier": false`, curvefile.ErrInvalid,
			"curves[1]: has neither colours nor is a barrier"},
		{example, "[639,", "[640,", curvefile.ErrInvalid, "pixels[0]: (640, 479) is outside of the canvas of 640x480"},
		{example, "[639,", "[-1,", curvefile.ErrInvalid, "pixels[0]: -1: must be a whole number"},
		{example, "3.5]", "256]", curvefile.ErrInvalid, "pixels[0]: colour 256: must be 0 to 255"},
		{example, "3.5]", "]", curvefile.ErrSyntax, "pixels[0]"},
		{example, example, "\x1f\x8b no", curvefile.ErrSyntax, "malformed gzip"},
		{orzan, "<curve_set", "<curveset", curvefile.ErrUnknownFormat, `the root is "curveset"`},
		{orzan, "</curve_set>", "", curvefile.ErrSyntax, "malformed XML"},
		{orzan, "</curve_set>", "<" + strings.Repeat("a", 5000) + "\xff", curvefile.ErrSyntax, "malformed XML"},
		{orzan, "<curve_set", `<?xml version="1.0" encoding="UTF-16"?><curve_set`, curvefile.ErrSyntax,
			`"UTF-16": must be UTF-8`},
		{orzan, "</curve_set>", "</curve_set><a/>", curvefile.ErrSyntax, "something follows"},
		{orzan, `nb_curves="2"`, `nb_curves="3"`, curvefile.ErrInvalid, "nb_curves is 3, but there are 2"},
		{orzan, `nb_left_colors="2"`, `nb_left_colors="1"`, curvefile.ErrInvalid,
			"curve[0]: nb_left_colors is 1, but there are 2"},
		{orzan, ` image_height="200"`, "", curvefile.ErrInvalid, "image_height is missing"},
		{orzan, `image_height="200"`, `image_height="many"`, curvefile.ErrInvalid,
			`image_height = "many": must be a number`},
		{orzan, `y="11.5"`, `y="NaN"`, curvefile.ErrInvalid,
			`line 6 column 36: curve[0].control_point[1]: y = "NaN": must be a number`},
		{orzan, ` y="11.5"`, "", curvefile.ErrInvalid, "y is missing"},
		{orzan, `R="30"`, `R="300"`, curvefile.ErrInvalid, "colour 300: must be 0 to 255"},
		{orzan, `globalID="15"`, `globalID="-1"`, curvefile.ErrInvalid, "curve[0].left[1]: place -0.1: must be 0 to 2"},
		{orzan, `<control_point x="26" y="16" />`, "", curvefile.ErrInvalid, "nb_control_points is 7, but there are 6"},
	} {
		if !strings.Contains(x.text, x.old) {
			t.Fatalf("the file has no %q", x.old)
		}
		d, err := curvefile.Parse("f", []byte(strings.Replace(x.text, x.old, x.new, 1)), curvefile.Options{})
		if !errors.Is(err, x.kind) || !strings.Contains(err.Error(), x.says) || strings.Contains(err.Error(), "\n") ||
			len(err.Error()) > 1000 {
			t.Errorf("%q for %q: %v, %v; want %q", x.new, x.old, d, err, x.says)
		}
	}
}

func TestLimits(t *testing.T) {
	for _, text := range []string{example, orzan} {
		for _, o := range []curvefile.Options{{MaxBytes: int64(len(text)) - 1}, {MaxCurves: 1}, {MaxPoints: 10}} {
			if d, err := curvefile.Parse("", []byte(text), o); !errors.Is(err, curvefile.ErrLimit) {
				t.Errorf("%+v: %v, %v", o, d, err)
			}
		}
		if _, err := curvefile.Parse("", []byte(text),
			curvefile.Options{MaxBytes: int64(len(text)), MaxCurves: 2, MaxPoints: 20}); err != nil {
			t.Error(err)
		}
	}
}

func TestLoad(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.json")
	if _, err := curvefile.Load(name, curvefile.Options{}); !errors.Is(err, fs.ErrNotExist) ||
		strings.Count(err.Error(), name) != 1 {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := os.WriteFile(name, []byte(example), 0o644); err != nil {
		t.Fatal(err)
	}
	if d, err := curvefile.Load(name, curvefile.Options{}); err != nil || len(d.Curves) != 2 {
		t.Errorf("%v, %v", d, err)
	}
	if _, err := curvefile.Load(name, curvefile.Options{MaxBytes: 100}); !errors.Is(err, curvefile.ErrLimit) {
		t.Errorf("100 bytes of it: %v", err)
	}
}

// Whatever is read is an error of one line, or a drawing that reads the same when written.
func FuzzParse(f *testing.F) {
	for _, text := range []string{example, orzan, "{}", "<a/>", "<" + strings.Repeat("\xcb", 1650) + "/>",
		"<" + strings.Repeat("\U0010ffff", 1300) + "/>", "", `{"version":1,"width":1,"height":1,"curves":[]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := curvefile.Parse("f", data, curvefile.Options{MaxCurves: 50, MaxPoints: 500})
		var e *curvefile.Error
		if err != nil {
			if d != nil || !errors.As(err, &e) || e.Kind == nil || len(err.Error()) > 3000 ||
				strings.ContainsAny(err.Error(), "\r\n\x1b") || !curvefile.Is(data) &&
				e.Kind != curvefile.ErrUnknownFormat {
				t.Fatalf("%v, %q", d, err)
			}
			return
		}
		b, err := curvefile.AppendJSON(nil, d)
		if err != nil {
			t.Fatal(err)
		}
		again, err := curvefile.Parse("", b, curvefile.Options{})
		if err != nil || !proto.Equal(again, d) {
			t.Fatalf("%v\n%s", err, b)
		}
	})
}
