package regionfile

import (
	"errors"
	"image"
	"os"
	"strings"
	"testing"
)

// seeds are small files of every format, good and bad.
func seeds(f *testing.F) {
	labels := image.NewGray(image.Rect(0, 0, 3, 2))
	copy(labels.Pix, []byte{1, 1, 0, 2, 0, 1})
	for _, name := range fixtures(f) {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, s := range []string{
		``, `[]`, `{}`, `<svg/>`, "\uFEFF[]", "\xff\xfe[\x00", "a,b,c\n",
		`[{"rings":` + triangle + `}]`,
		`[{"mask":[[1,2,3],[1,4,5],[2,-1,4e6]]}]`,
		string(encoded(f, labels)),
		`{"regions":[{"name":"a","rings":` + triangle + `,"limits":["x"]}],"fill":"even_odd"}`,
		shapes(`{"label":"a","shape_type":"circle","points":[[5,5],[9,5]]}`),
		shapes(`{"label":"m","shape_type":"mask","points":[[0,0],[0,0]],` +
			`"mask":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP6DwABBQECz6AuzQAAAABJRU5ErkJggg=="}`),
		annotations(`{` + somePolygon + `}`),
		annotations(`{"segmentation":{"size":[3,3],"counts":[1,1,1,1,1,1,3]}}`),
		annotations(`{"segmentation":{"size":[3,3],"counts":"061M"}}`),
		annotations(`{"bbox":[1,2,3,4]}`),
		`{"type":"Polygon","coordinates":[` + somePosition + `]}`,
		`{"type":"MultiPolygon","coordinates":[[` + somePosition + `],[` + somePosition + `]]}`,
		svg(`viewBox="0 0 9 9" width="18"`,
			`<g transform="rotate(9 1 2)skewX(3)"><path d="M0 0C1 2 3 4 5 6s1 2 3-4Q1 1 2 2t5 5A3 2 9 105 5zm1-1h2v.5.5z"/></g>`),
		svg(``, `<rect x="1" y="2" width="9" height="8" rx="2"/><ellipse cx="5" rx="3" ry="4"/><polyline points="0,0 1 1 2,0"/>`),
		"<" + strings.Repeat("\xcb", 1650) + "/>",
		svg(``, "<"+strings.Repeat("a", 5000)+"/>"+square),
		shapes(`{"label":"` + strings.Repeat("\U0010ffff", 70) + `","shape_type":"` + strings.Repeat("\U0010ffff", 70) +
			`","points":[[5,5],[9,5]]}`),
		`<!DOCTYPE svg [<!ENTITY a "b">]><svg id="&a;">` + square + `</svg>`,
	} {
		f.Add([]byte(s))
	}
}

// small limits keep the fuzzer fast without hiding any path.
var fuzzOptions = []Options{
	{MaxVertices: 20_000},
	{Image: "1", IgnoreViewBox: true, Tolerance: 1, MaxRegions: 3, MaxVertices: 50},
}

// Whatever the bytes: a good file or an error of one line, the same each time.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, o := range fuzzOptions {
			file, err := Parse("f", data, o)
			if err != nil {
				if file != nil {
					t.Error("a file and an error")
				}
				if problem := badMessage(err, "f"); problem != "" {
					t.Error(problem)
				}
				again, errAgain := Parse("f", data, o)
				if again != nil || errAgain == nil || errAgain.Error() != err.Error() {
					t.Errorf("%v, and the second time %v", err, errAgain)
				}
				continue
			}
			if problem := broken(file); problem != "" {
				t.Error(problem)
			}
			vertices := 0
			for _, r := range file.Regions {
				vertices += len(r.Mask)
				for _, g := range r.Rings {
					vertices += len(g)
				}
			}
			if vertices > o.MaxVertices || o.MaxRegions > 0 && len(file.Regions) > o.MaxRegions {
				t.Errorf("%d regions of %d vertices, beyond the limits", len(file.Regions), vertices)
			}
		}
	})
}

// Path data by itself: the readers of the other formats don't have to be got past.
func FuzzPath(f *testing.F) {
	for _, d := range []string{"", "M0 0", "m1.5.5-3 4z", "M0 0C1 2 3 4 5 6s1 1 2 2q1 1 2 2t5 5a1 2 3 015 6",
		"M0 0A9 9 0 1 1 5 5", "M1e5-1e5H0V-.5L", "M0 0L1,,1"} {
		f.Add(d)
	}
	f.Fuzz(func(t *testing.T, d string) {
		b := &builder{opts: Options{Tolerance: DefaultTolerance, MaxVertices: 10_000}, file: &File{}}
		fl := newFlattener(b, identity)
		e := parsePath(d, fl)
		fl.finish()
		if e != nil && (e.Where == "" || !errors.Is(e, ErrSyntax) && !errors.Is(e, ErrInvalid) &&
			!errors.Is(e, ErrLimit)) {
			t.Errorf("%q: %v (%v)", d, e, e.Kind)
		}
		total := 0
		for _, r := range fl.rings {
			if len(r) < 3 {
				t.Errorf("%q: a ring of %d vertices", d, len(r))
			}
			for i, p := range r {
				if p == r[(i+1)%len(r)] {
					t.Errorf("%q: the vertex %v twice", d, p)
				}
			}
			total += len(r)
		}
		if total != b.vertices {
			t.Errorf("%q: %d vertices, accounted %d", d, total, b.vertices)
		}
	})
}
