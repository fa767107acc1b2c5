package regionfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestCOCO(t *testing.T) {
	unit := []Run{{1, 1, 3}, {2, 1, 3}}
	first := &File{
		Format: FormatCOCO, Image: "line1/plank_001.png", ImageWidth: 640, ImageHeight: 480,
		Regions: []Region{
			{Name: "knot#17", Rings: rings(ring(10, 10, 30, 10, 30, 20, 10, 20))},
			// Two polygons of opposite directions, meant as their union: the first is turned.
			{Name: "split#18", Fill: FillNonZero,
				Rings: rings(ring(5, 1, 5, 5, 1, 5, 1, 1), ring(3, 3, 9, 3, 9, 9, 3, 9))},
			{Name: "knot#19", Mask: unit},
			{Name: "9#20", Mask: unit},
		},
	}
	second := &File{
		Format: FormatCOCO, Image: "line1/plank_002.png", ImageWidth: 640, ImageHeight: 480,
		Regions:  []Region{{Name: "knot#21", Rings: rings(ring(1.5, 2, 4.5, 2, 4.5, 6.25, 1.5, 6.25))}},
		Warnings: []string{"1 annotation has no segmentation: the bounding box is the region"},
	}
	for _, c := range []struct {
		opts Options
		want *File
	}{
		{Options{Image: "1"}, first},
		{Options{Image: "line1/plank_001.png"}, first},
		{Options{Image: "plank_001.png"}, first},
		{Options{ImageHint: "/data/frames/plank_001.png"}, first},
		{Options{ImageHint: `C:\frames\plank_002.png`}, second},
		{Options{Image: "2"}, second},
		{Options{Image: "2", ImageHint: "plank_001.png"}, second},
	} {
		f, err := Load("testdata/coco.json", c.opts)
		if err != nil {
			t.Errorf("%+v: %v", c.opts, err)
			continue
		}
		if d := cmp.Diff(c.want, f); d != "" {
			t.Errorf("%+v: %s", c.opts, d)
		}
	}
	for _, o := range []Options{{}, {ImageHint: "plank_003.png"}} {
		_, err := Load("testdata/coco.json", o)
		want := `testdata/coco.json: annotations for 2 images, pick one by name or id: "line1/plank_001.png" (id 1), "line1/plank_002.png" (id 2)`
		if !errors.Is(err, ErrAmbiguousImage) || err.Error() != want {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func annotations(s string) string { return `{"annotations":[` + s + `]}` }

const somePolygon = `"segmentation":[[0,0,4,0,4,4]]`

func TestCOCOImages(t *testing.T) {
	images := `"images":[{"id":1,"file_name":"a/x.png"},{"id":2,"file_name":"b/x.png"},{"id":"x.png",` +
		`"file_name":"c.png"},{"id":4,"file_name":"1"},{"id":5}]`
	doc := func(ids ...string) string {
		var list []string
		for i, id := range ids {
			list = append(list, fmt.Sprintf(`{"id":%d,"image_id":%s,%s}`, i, id, somePolygon))
		}
		return `{` + images + `,"annotations":[` + strings.Join(list, ",") + `]}`
	}
	for _, c := range []struct {
		name    string
		content string
		opts    Options
		image   string
	}{
		{"the only annotated image", doc("2", "2"), Options{}, "b/x.png"},
		{"the only one, whatever the hint", doc("2"), Options{ImageHint: "a/unknown.png"}, "b/x.png"},
		{"full name before id", doc("1", "4"), Options{Image: "1"}, "1"},
		{"id before last element", doc("1", `"x.png"`), Options{Image: "x.png"}, "c.png"},
		{"hint among annotated ones", doc("1", "4"), Options{ImageHint: "x.png"}, "a/x.png"},
		{"image without entry", doc("77", "1"), Options{Image: "77"}, ""},
		{"image without name", doc("5", "1"), Options{Image: "5"}, ""},
		{"no image ids", annotations(`{` + somePolygon + `}`), Options{}, ""},
		{"null image id", annotations(`{"image_id":null,` + somePolygon + `}`), Options{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if f := mustParse(t, c.content, c.opts); f.Image != c.image {
				t.Errorf("image %q, want %q", f.Image, c.image)
			}
		})
	}
	testBad(t, []badFile{
		{"unknown", doc("1"), Options{Image: "y.png"},
			`no image "y.png", the file has: "a/x.png" (id 1), "b/x.png" (id 2), "c.png" (id x.png), "1" (id 4), id 5`,
			ErrAmbiguousImage},
		{"unknown without images", annotations(`{` + somePolygon + `}`), Options{Image: "y.png"},
			`no image "y.png", the file has: annotations without image_id`, ErrAmbiguousImage},
		{"unknown without anything", annotations(``), Options{Image: "y.png"}, `no image "y.png", the file has: none`,
			ErrAmbiguousImage},
		{"not annotated", doc("1"), Options{Image: "c.png"}, `the image "c.png" has no annotations`, ErrNoRegions},
		{"a frame that is not annotated", doc("2"), Options{ImageHint: "a/c.png"}, `the image "c.png" has no annotations`,
			ErrNoRegions},
		{"ambiguous hint", doc("1", "2"), Options{ImageHint: "x.png"},
			`annotations for 2 images, pick one by name or id: "a/x.png" (id 1), "b/x.png" (id 2)`, ErrAmbiguousImage},
		{"no annotations", `{` + images + `,"annotations":[]}`, Options{}, `no annotations in this COCO file`,
			ErrNoRegions},
	})
	// Two images called alike, and neither an id.
	testBad(t, []badFile{{"two of a name",
		`{"images":[{"id":1,"file_name":"a/x.png"},{"id":2,"file_name":"b\\x.png"}],"annotations":[]}`,
		Options{Image: "x.png"},
		`2 images are called "x.png", pick one by its full name or id: "a/x.png" (id 1), "b\\x.png" (id 2)`,
		ErrAmbiguousImage}})
	// A long list is cut.
	var list []string
	for i := range 11 {
		list = append(list, fmt.Sprintf(`{"image_id":%d,%s}`, i, somePolygon))
	}
	testBad(t, []badFile{{"many", annotations(strings.Join(list, ",")), Options{},
		`annotations for 11 images, pick one by name or id: id 0, id 1, id 2, id 3, id 4, id 5, id 6, id 7 and 3 more`,
		ErrAmbiguousImage}})
}

func TestCOCONames(t *testing.T) {
	f := mustParse(t, `{"categories":[{"id":"k","name":"knot"},{"id":7,"name":null}],"annotations":[
		{"id":1,"category_id":"k",`+somePolygon+`},{"category_id":"k",`+somePolygon+`},{"id":"z","category_id":7,`+
		somePolygon+`},{`+somePolygon+`},{"id":1,"category_id":"k",`+somePolygon+`}]}`, Options{})
	var got []string
	for _, r := range f.Regions {
		got = append(got, r.Name)
	}
	if d := cmp.Diff([]string{"knot#1", "knot#1#2", "7#z", "region#3", "knot#1#3"}, got); d != "" {
		t.Error(d)
	}
}

func TestCOCOErrors(t *testing.T) {
	one := func(s string) string { return annotations(`{"id":7,` + s + `}`) }
	long := strings.Repeat("a", 3000)
	testBad(t, []badFile{
		{"annotations no array", `{"annotations":{}}`, Options{}, `annotations: expected an array, found an object`,
			ErrInvalid},
		{"annotation no object", annotations(`{` + somePolygon + `},4`), Options{},
			`annotations[1]: expected an object, found a number`, ErrInvalid},
		{"images no array", `{"images":{},"annotations":[]}`, Options{}, `images: expected an array, found an object`,
			ErrInvalid},
		{"image no object", `{"images":[1],"annotations":[]}`, Options{},
			`images[0]: expected an object, found a number`, ErrInvalid},
		{"image without id", `{"images":[{"file_name":"a"}],"annotations":[]}`, Options{},
			`images[0]: the key "id" is missing`, ErrInvalid},
		{"image of a long id twice", `{"images":[{"id":"` + long + `"},{"id":"` + long + `"}],"annotations":[]}`,
			Options{}, `images[1]: the id ` + long[:64] + `… occurs twice`, ErrInvalid},
		{"image twice", `{"images":[{"id":1},{"id":1}],"annotations":[]}`, Options{},
			`images[1]: the id 1 occurs twice`, ErrInvalid},
		{"image width", `{"images":[{"id":1,"width":"640"}],"annotations":[]}`, Options{},
			`images[0]: width: expected a number, found a string`, ErrInvalid},
		{"image height", `{"images":[{"id":1,"height":4194304}],"annotations":[]}`, Options{},
			`images[0]: height: 4.194304e+06 is not a number of pixels, it must be whole, not negative and below 4194304`,
			ErrInvalid},
		{"image name", `{"images":[{"id":1,"file_name":1}],"annotations":[]}`, Options{},
			`images[0]: file_name: expected a string, found a number`, ErrInvalid},
		{"category id", `{"categories":[{"id":[]}],"annotations":[]}`, Options{},
			`categories[0]: id: expected a string or a number, found an array`, ErrInvalid},
		{"category name", `{"categories":[{"id":1,"name":{}}],"annotations":[]}`, Options{},
			`categories[0]: name: expected a string or a number, found an object`, ErrInvalid},
		{"image_id", annotations(`{"image_id":[],` + somePolygon + `}`), Options{},
			`annotations[0]: image_id: expected a string or a number, found an array`, ErrInvalid},
		{"id", annotations(`{"id":{},` + somePolygon + `}`), Options{},
			`annotations[0]: id: expected a string or a number, found an object`, ErrInvalid},
		{"category_id", one(`"category_id":true,` + somePolygon), Options{},
			`annotations[0] (id 7): category_id: expected a string or a number, found true`, ErrInvalid},
		{"segmentation twice", one(somePolygon + `,` + somePolygon), Options{},
			`annotations[0] (id 7): the key "segmentation" occurs twice`, ErrInvalid},
		{"segmentation a string", one(`"segmentation":"x"`), Options{},
			`annotations[0] (id 7): segmentation: expected polygons or run-length data, found a string`, ErrInvalid},
		{"a flat list", one(`"segmentation":[0,0,1,1,2,0]`), Options{},
			`annotations[0] (id 7): segmentation[0]: expected an array, found a number`, ErrInvalid},
		{"pairs", one(`"segmentation":[[[0,0],[1,1],[2,0]]]`), Options{},
			`annotations[0] (id 7): segmentation[0][0]: expected a number, found an array`, ErrInvalid},
		{"odd", one(`"segmentation":[[0,0,1,1,2,0],[0,0,1,1,2,0,5]]`), Options{},
			`annotations[0] (id 7): segmentation[1]: 7 numbers, expected pairs of x and y`, ErrInvalid},
		{"two vertices", one(`"segmentation":[[0,0,1,1]]`), Options{},
			`annotations[0] (id 7): segmentation[0]: 2 vertices, a ring needs at least 3`, ErrInvalid},
		{"out of range", one(`"segmentation":[[0,0,1,1,2,-5e6]]`), Options{},
			`annotations[0] (id 7): segmentation[0][5]: y is -5e+06, its magnitude must be below 4194304 px`,
			ErrInvalid},
		{"nothing", one(`"segmentation":[]`), Options{},
			`annotations[0] (id 7): neither "segmentation" nor "bbox" says where it is`, ErrInvalid},
		{"bbox of three", one(`"bbox":[1,2,3]`), Options{},
			`annotations[0] (id 7): bbox: expected [x, y, width, height] with positive width and height`, ErrInvalid},
		{"bbox of five", one(`"bbox":[1,2,3,4,5]`), Options{},
			`annotations[0] (id 7): bbox: expected [x, y, width, height] with positive width and height`, ErrInvalid},
		{"bbox empty", one(`"bbox":[1,2,0,4]`), Options{},
			`annotations[0] (id 7): bbox: expected [x, y, width, height] with positive width and height`, ErrInvalid},
		{"bbox of strings", one(`"bbox":[1,"2",0,4]`), Options{},
			`annotations[0] (id 7): bbox[1]: expected a number, found a string`, ErrInvalid},
		{"bbox out of range", one(`"bbox":[4e6,0,4e6,1]`), Options{},
			`annotations[0] (id 7): bbox: x is 8e+06, its magnitude must be below 4194304 px`, ErrInvalid},
		{"bbox over the limit", annotations(`{"bbox":[0,0,1,1]}`), Options{MaxVertices: 3},
			`annotations[0]: more than 3 vertices in the file, the limit`, ErrLimit},
		{"regions", annotations(`{` + somePolygon + `},{"id":9,` + somePolygon + `}`), Options{MaxRegions: 1},
			`annotations[1] (id 9): more than 1 regions in the file, the limit`, ErrLimit},
		{"vertices", annotations(`{"id":9,` + somePolygon + `}`), Options{MaxVertices: 2},
			`annotations[0] (id 9): segmentation[0]: more than 2 vertices in the file, the limit`, ErrLimit},

		{"no size", one(`"segmentation":{"counts":[4]}`), Options{},
			`annotations[0] (id 7): segmentation: size: missing, expected [height, width]`, ErrInvalid},
		{"size a number", one(`"segmentation":{"size":4,"counts":[4]}`), Options{},
			`annotations[0] (id 7): segmentation: size: expected an array, found a number`, ErrInvalid},
		{"size of one", one(`"segmentation":{"size":[4],"counts":[4]}`), Options{},
			`annotations[0] (id 7): segmentation: size: expected two positive numbers, [height, width]`, ErrInvalid},
		{"size of three", one(`"segmentation":{"size":[4,4,3],"counts":[4]}`), Options{},
			`annotations[0] (id 7): segmentation: size: expected two positive numbers, [height, width]`, ErrInvalid},
		{"size zero", one(`"segmentation":{"size":[4,0],"counts":[4]}`), Options{},
			`annotations[0] (id 7): segmentation: size: expected two positive numbers, [height, width]`, ErrInvalid},
		{"size too large", one(`"segmentation":{"size":[4,4194304],"counts":[4]}`), Options{},
			`annotations[0] (id 7): segmentation: size: 4.194304e+06 is not a number of pixels, it must be whole, not negative and below 4194304`,
			ErrInvalid},
		{"size of another image", `{"images":[{"id":1,"width":3,"height":2}],"annotations":[{"id":7,"image_id":1,` +
			`"segmentation":{"size":[2,2],"counts":[1,3]}}]}`, Options{},
			`annotations[0] (id 7): segmentation: size: the mask has 2×2 pixels, its image 3×2`, ErrInvalid},
		{"no counts", one(`"segmentation":{"size":[2,2]}`), Options{},
			`annotations[0] (id 7): segmentation: the key "counts" is missing`, ErrInvalid},
		{"counts a number", one(`"segmentation":{"size":[2,2],"counts":4}`), Options{},
			`annotations[0] (id 7): segmentation: counts: expected an array or a string, found a number`, ErrInvalid},
		{"too few pixels", one(`"segmentation":{"size":[2,2],"counts":[1,2]}`), Options{},
			`annotations[0] (id 7): segmentation: counts: the runs cover 3 pixels, the mask of 2×2 has 4`, ErrInvalid},
		{"too many pixels", one(`"segmentation":{"size":[2,2],"counts":[1,4]}`), Options{},
			`annotations[0] (id 7): segmentation: counts[1]: run 1 has length 4, and 3 pixels of the mask are left`,
			ErrInvalid},
		{"negative run", one(`"segmentation":{"size":[2,2],"counts":[1,-1,4]}`), Options{},
			`annotations[0] (id 7): segmentation: counts[1]: -1 is not the length of a run in a mask of 4 pixels`,
			ErrInvalid},
		{"broken run", one(`"segmentation":{"size":[2,2],"counts":[1.5]}`), Options{},
			`annotations[0] (id 7): segmentation: counts[0]: 1.5 is not the length of a run in a mask of 4 pixels`,
			ErrInvalid},
		{"huge run", one(`"segmentation":{"size":[2,2],"counts":[1e300]}`), Options{},
			`annotations[0] (id 7): segmentation: counts[0]: 1e+300 is not the length of a run in a mask of 4 pixels`,
			ErrInvalid},
		{"run a string", one(`"segmentation":{"size":[2,2],"counts":["1"]}`), Options{},
			`annotations[0] (id 7): segmentation: counts[0]: expected a number, found a string`, ErrInvalid},
		{"bad character", one(`"segmentation":{"size":[2,2],"counts":"1 3"}`), Options{},
			`annotations[0] (id 7): segmentation: counts: run 1: the byte 0x20 at offset 1 isn't one of run-length data`,
			ErrSyntax},
		{"high character", one(`"segmentation":{"size":[2,2],"counts":"1p"}`), Options{},
			`annotations[0] (id 7): segmentation: counts: run 1: the byte 0x70 at offset 1 isn't one of run-length data`,
			ErrSyntax},
		{"truncated string", one(`"segmentation":{"size":[2,2],"counts":"1P"}`), Options{},
			`annotations[0] (id 7): segmentation: counts: the string ends in the middle of run 1, it may be truncated`,
			ErrSyntax},
		{"long number", one(`"segmentation":{"size":[2,2],"counts":"PPPPPPPPPPPP1"}`), Options{},
			`annotations[0] (id 7): segmentation: counts: run 0: the number at offset 0 is too long`, ErrSyntax},
		{"negative difference", one(`"segmentation":{"size":[2,2],"counts":"011N"}`), Options{},
			`annotations[0] (id 7): segmentation: counts: run 3 has length -1, and 2 pixels of the mask are left`,
			ErrInvalid},
		{"compressed too short", one(`"segmentation":{"size":[2,2],"counts":"11"}`), Options{},
			`annotations[0] (id 7): segmentation: counts: the runs cover 2 pixels, the mask of 2×2 has 4`, ErrInvalid},
		{"clear mask", one(`"segmentation":{"size":[2,2],"counts":[4]}`), Options{},
			`no regions in this COCO file (annotations[0] "region#7": skipped: no pixel of its mask is set)`,
			ErrNoRegions},
	})
}

// compress writes run lengths as COCO's compressed string: the inverse of what is read, in the other direction and from
// the description.
func compress(counts []int64) string {
	var b strings.Builder
	for i, v := range counts {
		if i > 2 {
			v -= counts[i-2]
		}
		for {
			low := v & 31
			v >>= 5 // keeps the sign
			// The number is complete if the rest is all sign, and the highest bit written says the same sign.
			if v == 0 && low < 16 || v == -1 && low >= 16 {
				b.WriteByte(byte(low) + 48)
				break
			}
			b.WriteByte(byte(low|32) + 48)
		}
	}
	return b.String()
}

// Pairs of run lengths and strings that others have published.
func TestRunLengthStrings(t *testing.T) {
	for _, c := range []struct {
		counts []int64
		text   string
	}{
		{[]int64{0, 6, 1, 3}, "061M"},
		{[]int64{0, 6, 1}, "061"},
		{[]int64{0, 6, 1, 1}, "061K"},
		{[]int64{0, 6, 1, 5}, "061O"},
		{[]int64{0, 6, 1, 6}, "0610"},
		{[]int64{0, 1, 1, 2, 1, 3, 1, 4, 1}, "011101010"},
		{[]int64{0, 1024}, "0PP1"},
	} {
		if got := compress(c.counts); got != c.text {
			t.Errorf("%v is %q, want %q", c.counts, got, c.text)
		}
		o, _ := Options{}.withDefaults()
		total := int64(0)
		for _, n := range c.counts {
			total += n
		}
		// What comes out is seen in the runs that reach the turner: compare with those of the plain list.
		var rows [2][]Run
		for i, feed := range []func(*runs) *Error{
			func(r *runs) *Error { return r.compressed(c.text) },
			func(r *runs) *Error {
				for _, n := range c.counts {
					if e := r.add(n); e != nil {
						return e
					}
				}
				return nil
			},
		} {
			tr := newTurner(&builder{opts: o, file: &File{}}, int(total))
			r := &runs{t: tr, area: total}
			if e := feed(r); e != nil {
				t.Fatalf("%q: %v", c.text, e)
			}
			if r.at != total || r.n != len(c.counts) {
				t.Errorf("%q: %d runs over %d pixels, want %d over %d", c.text, r.n, r.at, len(c.counts), total)
			}
			var e *Error
			if rows[i], e = tr.rows(); e != nil {
				t.Fatal(e)
			}
		}
		if d := cmp.Diff(rows[1], rows[0]); d != "" {
			t.Errorf("%q: %s", c.text, d)
		}
	}
}

// Any mask, as run lengths plain and compressed, gives its pixels.
func TestRunLengthMasks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mask := bitmapGen().Draw(rt, "mask")
		// A few zero runs are legal anywhere and change nothing.
		counts := []int64{0}
		last := false
		empty := true
		for x := range mask.w {
			for y := range mask.h {
				if mask.at(x, y) != last {
					counts = append(counts, 0)
					last = !last
				} else if rapid.IntRange(0, 9).Draw(rt, "split") == 0 {
					counts = append(counts, 0, 0)
				}
				counts[len(counts)-1]++
				empty = empty && !last
			}
		}
		plain := strings.ReplaceAll(fmt.Sprint(counts), " ", ",")
		for _, c := range []string{plain, `"` + strings.ReplaceAll(compress(counts), `\`, `\\`) + `"`} {
			f, err := Parse("", []byte(annotations(fmt.Sprintf(`{"segmentation":{"size":[%d,%d],"counts":%s}}`, mask.h,
				mask.w, c))), Options{})
			if empty {
				if !errors.Is(err, ErrNoRegions) {
					rt.Fatalf("an empty mask: %v", err)
				}
				continue
			}
			if err != nil {
				rt.Fatal(err)
			}
			if problem := broken(f); problem != "" {
				rt.Fatal(problem)
			}
			if d := cmp.Diff(runsOf(mask, 0, 0), f.Regions[0].Mask); d != "" {
				rt.Fatalf("%s: %s", c, d)
			}
		}
	})
}
