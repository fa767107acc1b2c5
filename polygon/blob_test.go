package polygon

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// sketch is a frame of rows of characters: # is 200, + is 150, all else 10.
func sketch(rows ...string) kernels.Picture {
	f := kernels.Picture{Width: len(rows[0]), Height: len(rows), Format: driver.Gray8}
	data := make([]byte, 0, f.Width*f.Height)
	for _, row := range rows {
		for _, c := range row {
			data = append(data, map[rune]byte{'#': 200, '+': 150}[c])
			if last := &data[len(data)-1]; *last == 0 {
				*last = 10
			}
		}
	}
	f.Data = [][]byte{data}
	return f
}

// bright asks for what is 100 or more.
func bright() *BlobSpec { return &BlobSpec{Range: Span{100, math.Inf(1)}} }

// blobsIn reduces a frame under regions.
func blobsIn(t *testing.T, dev *kernels.Device, f kernels.Picture, spec *BlobSpec, scale *Scale,
	regions ...Region) *Result {
	t.Helper()
	set, err := NewSetInPieces(regions, scale, Bounds{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := Reduce(t.Context(), dev, set, f, Reductions{Blobs: spec}, MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func whole(f kernels.Picture, limits ...string) Region {
	return Region{Name: "all", Rings: []Ring{rectangle(0, 0, float64(f.Width), float64(f.Height))}, Limits: limits}
}

// TestBlobsByHand: numbers of shapes that can be counted.
func TestBlobsByHand(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	f := sketch(
		"............",
		".#######....",
		".#######..#.",
		".#######...#",
		"............",
		"..#####.....",
		"..#...#.....",
		"..#.#.#.....",
		"..#...#.....",
		"..#####.....",
	)
	spec := bright()
	spec.Contours = true
	r := blobsIn(t, dev, f, spec, nil, whole(f)).Regions[0].Blobs
	if r.Found != 4 || r.Kept != 4 || !r.All || len(r.Blobs) != 4 || r.Area != 21+2+16+1 {
		t.Fatalf("%+v", r)
	}
	bar, pair, ring, dot := &r.Blobs[0], &r.Blobs[1], &r.Blobs[2], &r.Blobs[3]
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-12*max(1, math.Abs(want)) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("length of a bar", bar.Length, 7)
	near("breadth of a bar", bar.Breadth, 3)
	near("angle of a bar", bar.Angle, 0)
	if bar.Sides != 20 || bar.Holes != 0 || bar.Bounds != (Rect{1, 1, 8, 4}) || bar.Centroid != (Point{4.5, 2.5}) ||
		bar.First != (Position{1, 1}) || bar.Sum != 21*200 || bar.Min != 200 || bar.Max != 200 || bar.Mean != 200 ||
		bar.StdDev != 0 {
		t.Errorf("the bar: %+v", bar)
	}
	slant := math.Pi / 8 * (1 + math.Sqrt2)
	near("perimeter of a bar", bar.Perimeter, slant*(20-4*(1-math.Sqrt2/2)))
	near("angle of two pixels", pair.Angle, 45)
	if pair.Area != 2 || pair.Sides != 8 || pair.Holes != 0 {
		t.Errorf("two pixels that meet in a corner: %+v", pair)
	}
	if ring.Area != 16 || ring.Holes != 1 || ring.Sides != 20+12 || len(ring.Contour) != 2 {
		t.Errorf("the ring: %+v", ring)
	}
	if dot.Area != 1 || dot.First != (Position{4, 7}) || fmt.Sprint(dot.Contour) != "[[{5 7} {5 8} {4 8} {4 7}]]" {
		t.Errorf("the dot: %+v", dot)
	}
	spec.FourConnected = true
	if r := blobsIn(t, dev, f, spec, nil, whole(f)).Regions[0].Blobs; r.Found != 5 {
		t.Errorf("connected by sides: %d blobs, want 5", r.Found)
	}
	spec.MinArea, spec.Order, spec.MaxBlobs = 2, ByArea, 1
	if r := blobsIn(t, dev, f, spec, nil, whole(f)).Regions[0].Blobs; r.Found != 5 || r.Kept != 2 ||
		len(r.Blobs) != 1 || r.Blobs[0].Area != 21 || r.Area != 37 {
		t.Errorf("the largest: %+v", r)
	}
	// A blob is of one region.
	left := Region{Rings: []Ring{rectangle(0, 0, 4, 10)}}
	right := Region{Rings: []Ring{rectangle(4, 0, 8, 10)}}
	res := blobsIn(t, dev, f, bright(), nil, left, right)
	if a, b := res.Regions[0].Blobs, res.Regions[1].Blobs; a.Blobs[0].Area != 9 || b.Blobs[0].Area != 12 ||
		a.Blobs[0].Sides != 12 {
		t.Errorf("cut by a border: %+v and %+v", a, b)
	}
}

// TestBlobsOfADisc: estimates come near what a disc has.
func TestBlobsOfADisc(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	const radius = 60.0
	f := kernels.Picture{Width: 140, Height: 140, Format: driver.Gray8, Data: [][]byte{make([]byte, 140*140)}}
	for i := range f.Data[0] {
		if x, y := float64(i%140)-70.2, float64(i/140)-69.7; x*x+y*y < radius*radius {
			f.Data[0][i] = 255
		}
	}
	b := &blobsIn(t, dev, f, bright(), nil, whole(f)).Regions[0].Blobs.Blobs[0]
	if p := 2 * math.Pi * radius; math.Abs(b.Perimeter-p) > 0.01*p {
		t.Errorf("the perimeter is %v, want %v", b.Perimeter, p)
	}
	if math.Abs(b.Roundness-1) > 0.02 {
		t.Errorf("the roundness is %v", b.Roundness)
	}
	// Of the rectangle with a disc's moments: the square of the side is 3 radius^2.
	if want := math.Sqrt(3) * radius; math.Abs(b.Length-want) > 0.01*want || math.Abs(b.Breadth-want) > 0.01*want {
		t.Errorf("sides are %v and %v, want %v", b.Length, b.Breadth, want)
	}
}

// TestBlobThresholds: ranges from a region's own samples, and hysteresis.
func TestBlobThresholds(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	f := sketch(
		"..........",
		".+++..++..",
		".+#+..++..",
		"..........",
	)
	for _, c := range []struct {
		name string
		spec BlobSpec
		area []uint64
	}{
		{"values", BlobSpec{Range: Span{150, 150}}, []uint64{5, 4}},
		{"above all", BlobSpec{Range: Span{201, 255}}, nil},
		{"between samples", BlobSpec{Range: Span{150.5, 199.5}}, nil},
		{"strong", BlobSpec{Range: Span{100, 255}, Strong: &Span{200, math.Inf(1)}}, []uint64{6}},
		// The mean is 46.25 and the deviation 62.43.
		{"deviations", BlobSpec{Threshold: ThresholdDeviations, Range: Span{2, math.Inf(1)}}, []uint64{1}},
		{"dark deviations", BlobSpec{Threshold: ThresholdDeviations, Range: Span{math.Inf(-1), 0}}, []uint64{30}},
		// 30 of 40 samples are 10, and 39 are up to 150.
		{"percentiles", BlobSpec{Threshold: ThresholdPercentiles, Range: Span{76, math.Inf(1)}}, []uint64{6, 4}},
		{"the greatest", BlobSpec{Threshold: ThresholdPercentiles, Range: Span{99, 100}}, []uint64{1}},
		{"strong percentiles", BlobSpec{Threshold: ThresholdPercentiles, Range: Span{76, 100}, Strong: &Span{98, 100}},
			[]uint64{6}},
		{"opened", BlobSpec{Range: Span{100, 255}, Steps: []Morph{{Kind: Open, Width: 3, Height: 1}}}, []uint64{6}},
		{"closed", BlobSpec{Range: Span{100, 255}, Steps: []Morph{{Kind: Close, Width: 3, Height: 1}}}, []uint64{16}},
		{"dilated", BlobSpec{Range: Span{200, 255}, Steps: []Morph{{Kind: Dilate, Radius: 1}}}, []uint64{5}},
		{"eroded", BlobSpec{Range: Span{100, 255}, Steps: []Morph{{Kind: Erode, Width: 3, Height: 1}}}, []uint64{2}},
	} {
		r := blobsIn(t, dev, f, &c.spec, nil, whole(f)).Regions[0].Blobs
		var got []uint64
		for _, b := range r.Blobs {
			got = append(got, b.Area)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.area) {
			t.Errorf("%s: areas %v, want %v", c.name, got, c.area)
		}
	}
}

// TestBlobLimits: what limits measure and say.
func TestBlobLimits(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	f := sketch(
		"...........",
		".#######...",
		".........#.",
		".##......#.",
		".........#.",
		"...........",
	)
	scale := &Scale{X: 0.5, Y: 0.25}
	for _, c := range []struct {
		limit string
		value float64
		why   string // "" where it holds
	}{
		{"blobs == 3", 3, ""},
		{"blobs <= 2", 3, "blobs: 3 is above 2"},
		{"blobs(area > 2) == 0", 2, "blobs(area > 2): 2 is not 0"},
		{"BLOBS( Area >= 3 and length < 4 ) == 1", 1, ""},
		{"blobs(area in [2, 3]) == 2", 2, ""},
		{"blobs(area > 0.8 mm2) == 0", 1, "blobs(area > 0.8 mm2): 1 is not 0"},
		{"max blob.length <= 7.5", 7, ""},
		{"max blob.length <= 3 mm", 3.5, "max blob.length: 3.5 mm is above 3 mm"},
		{"max blob.area < 7", 7, "max blob.area: 7 is not below 7"},
		{"sum blob.area == 12", 12, ""},
		{"sum blob.area <= 1 mm2", 1.5, "sum blob.area: 1.5 mm² is above 1 mm²"},
		{"max blob.holes == 0", 0, ""},
		{"blobs(y > 0.7 mm) == 2", 2, ""},
		{"blobs(mean < 200) == 0", 0, ""},
	} {
		res := blobsIn(t, dev, f, bright(), scale, whole(f, c.limit))
		l := res.Regions[0].Limits[0]
		if !l.Measured || math.Abs(l.Value-c.value) > 1e-9 || l.Reason != c.why ||
			(l.Verdict == Pass) != (c.why == "") {
			t.Errorf("%s: %+v, want %v and %q", c.limit, l, c.value, c.why)
		}
	}
	// None at all.
	dark := sketch("...", "...")
	for limit, want := range map[string]Verdict{"max blob.length <= 3": Pass, "blobs == 0": Pass, "blobs >= 1": Fail} {
		if v := blobsIn(t, dev, dark, bright(), nil, whole(dark, limit)).Verdict; v != want {
			t.Errorf("%s with no blob: %v", limit, v)
		}
	}
	for limit, want := range map[string]string{
		"blobs(size > 3) == 0":          `column 7: expected a number of a blob (area, length, breadth, perimeter, x,`,
		"blobs(area 3) == 0":            `column 12: expected <`,
		"blobs(area > 3 or 5) == 0":     `column 16: expected ")" or "and", found "or"`,
		"blobs(area > 3 mm) == 0":       `column 16: mm is no unit of area, which is an area (mm2)`,
		"max blob length < 3":           `column 10: expected "." and a number of a blob`,
		"max blob.size < 3":             `column 10: expected a number of a blob`,
		"max blob.length <= 3 mm2":      `column 22: mm2 is no unit`,
		"blobs + 1 < 3":                 `column 1: blobs can't be part of an expression`,
		"blobs == 3 mm":                 `column 12: mm is no unit of blobs`,
		"blobs >= 0":                    `can't fail: blobs is 0 to 33`,
		"r.blobs == 0":                  `column 3: expected a quantity`,
		"mean over last 3 of blobs < 3": `blobs can't be part of an expression`,
	} {
		_, err := NewSetInPieces([]Region{whole(f, limit)}, scale, Bounds{}, nil)
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "mm²", "mm2"), want) {
			t.Errorf("%s: %v, want %q", limit, err, want)
		}
	}
	set, err := NewSet([]Region{whole(f), whole(f, "mean > 3", "blobs == 0")}, Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Reduce(t.Context(), dev, set, f, Reductions{}, MethodDefault)
	if err == nil || !strings.Contains(err.Error(), "regions[1].limits[1]") {
		t.Errorf("a limit on blobs that nobody asked for: %v", err)
	}
}

// TestTooManyBlobs: those beyond the bound are counted, and do not pass.
func TestTooManyBlobs(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	const side = 600
	f := kernels.Picture{Width: side, Height: side, Format: driver.Gray8, Data: [][]byte{make([]byte, side*side)}}
	for i := range f.Data[0] {
		if i%side%2 == 0 && i/side%2 == 0 {
			f.Data[0][i] = 255
		}
	}
	res := blobsIn(t, dev, f, bright(), nil, whole(f, "blobs(area > 3) == 0", "mean < 100"))
	r := &res.Regions[0]
	if b := r.Blobs; b.Found != side*side/4 || b.Kept != b.Found || b.All || len(b.Blobs) != DefaultMaxBlobs {
		t.Errorf("found %d, kept %d, all %v, %d returned", b.Found, b.Kept, b.All, len(b.Blobs))
	}
	if l := r.Limits[0]; l.Verdict != Fail || l.Reason != "the region has 90000 blobs, and 65536 are looked at: more can't pass" {
		t.Errorf("%+v", l)
	}
	if r.Limits[1].Verdict != Pass || res.Verdict != Fail {
		t.Errorf("%+v", r.Limits)
	}
	spec := bright()
	spec.MinArea = 2
	if r := &blobsIn(t, dev, f, spec, nil, whole(f, "blobs == 0")).Regions[0]; r.Verdict != Pass ||
		r.Blobs.Found != side*side/4 {
		t.Errorf("without small ones: %+v", r.Blobs)
	}
}

// TestContourEnds: the contour of a blob of many runs in a row takes as many steps as there are runs, and others go
// first between them, which may end it.
func TestContourEnds(t *testing.T) {
	const width, rows, often = 16384, 8, setPiece
	var runs []driver.BlobRun
	for y := range uint32(rows) {
		for x := range uint32(width) {
			runs = append(runs, driver.BlobRun{Y: y, X0: 2*x + y&1, X1: 2*x + y&1 + 1})
		}
	}
	pauses := 0
	rings, err := contour(runs, true, func() error { pauses++; return nil })
	// All sides of each pixel are sides of the blob, and each is looked at twice; others go first behind each row.
	if want := rows + 2*4*width*rows/often; err != nil || pauses != want {
		t.Errorf("%d pauses, want %d: %v", pauses, want, err)
	}
	sides := 0
	for _, r := range rings {
		sides += len(r)
	}
	if sides != 4*width*rows {
		t.Errorf("%d corners of %d pixels that touch at corners alone", sides, width*rows)
	}
	want := errors.New("others")
	if _, err := contour(runs, true, func() error { return want }); err != want {
		t.Errorf("%v", err)
	}
}

// TestContoursGiveBackTheBlob: the pixels inside of a contour, by either fill rule, are those of the blob.
func TestContoursGiveBackTheBlob(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	g := testseed.New(t, 5, 5)
	for round := range 40 {
		w, h := 1+g.IntN(40), 1+g.IntN(30)
		f := kernels.Picture{Width: w, Height: h, Format: driver.Gray8, Data: [][]byte{make([]byte, w*h)}}
		for i := range f.Data[0] {
			f.Data[0][i] = byte(g.IntN(256))
		}
		spec := bright()
		spec.Contours, spec.FourConnected, spec.MaxBlobs = true, round%2 == 0, 1000
		r := blobsIn(t, dev, f, spec, nil, whole(f)).Regions[0].Blobs
		total := make([]int, w*h)
		for _, b := range r.Blobs {
			if len(b.Contour) != 1+b.Holes && (spec.FourConnected || len(b.Contour) < 1+b.Holes) {
				t.Fatalf("%d rings of a blob with %d holes", len(b.Contour), b.Holes)
			}
			for _, fill := range []FillRule{NonZero, EvenOdd} {
				set, err := NewSet([]Region{{Rings: b.Contour, Fill: fill}}, Bounds{})
				if err != nil {
					t.Fatal(err)
				}
				res, err := Reduce(t.Context(), dev, set, f, Reductions{Statistics: AllStatistics &^ Distances},
					MethodDefault)
				if err != nil {
					t.Fatal(err)
				}
				got := &res.Regions[0]
				if c := &got.Channels[0]; got.Count != b.Area || c.Sum != b.Sum || c.Min != b.Min || c.Max != b.Max ||
					got.Centroid != b.Centroid || got.Bounds != b.Bounds || c.Mean != b.Mean || c.StdDev != b.StdDev {
					t.Fatalf("%v: the contour %v of %+v catches %+v", fill, b.Contour, b, got)
				}
			}
			total[b.First.Y*w+b.First.X]++
		}
		for i, n := range total {
			if n > 1 {
				t.Fatalf("%d blobs begin at pixel %d", n, i)
			}
		}
	}
}

// TestBlobSpecs: what is refused, by its field.
func TestBlobSpecs(t *testing.T) {
	inf := math.Inf(1)
	for field, spec := range map[string]BlobSpec{
		"threshold":       {Threshold: 3, Range: Span{1, 2}},
		"lower":           {Range: AnySpan()},
		"upper":           {Range: Span{3, 2}},
		"strong_lower":    {Range: Span{1, 2}, Strong: &Span{math.NaN(), 2}},
		"steps[0].width":  {Range: Span{1, 2}, Steps: []Morph{{Width: 4, Height: 3}}},
		"steps[0].height": {Range: Span{1, 2}, Steps: []Morph{{Width: 3, Height: 65}}},
		"steps[0].radius": {Range: Span{1, 2}, Steps: []Morph{{Radius: 32}}},
		"steps[1].kind":   {Range: Span{1, 2}, Steps: []Morph{{Radius: 2}, {Radius: 2, Kind: 4}}},
		"steps": {Range: Span{1, 2}, Steps: []Morph{{Kind: Open, Radius: 1}, {Kind: Open, Radius: 1},
			{Kind: Open, Radius: 1}, {Kind: Close, Radius: 1}, {Radius: 1}}},
		"min_area":  {Range: Span{1, 2}, MinArea: -1},
		"max_blobs": {Range: Span{1, 2}, MaxBlobs: MostBlobs + 1},
		"order":     {Range: Span{1, 2}, Order: 2},
	} {
		err := Reductions{Blobs: &spec}.Validate()
		var bad *kernels.InvalidError
		if !errors.As(err, &bad) || len(bad.Violations) != 1 || bad.Violations[0].Path.String() != "reductions.blobs."+
			field {
			t.Errorf("%s: %v", field, err)
		}
	}
	dev := openCPU(t, kernels.Config{})
	f := sketch("..")
	set, err := NewSet([]Region{whole(f)}, Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	for field, spec := range map[string]BlobSpec{
		"reductions.blobs.channel": {Range: Span{1, 2}, Channel: Red},
		"reductions.blobs.lower":   {Range: Span{256, inf}},
		"reductions.blobs.upper":   {Range: Span{-inf, -1}},
	} {
		_, err := Reduce(t.Context(), dev, set, f, Reductions{Blobs: &spec}, MethodDefault)
		var bad *kernels.InvalidError
		if !errors.As(err, &bad) || bad.Violations[0].Path.String() != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	_, err = set.NewScanner(t.Context(), dev, ScanConfig{Width: 2, PartLines: 1, Format: driver.Gray8,
		Reductions: Reductions{Blobs: bright()}})
	if err == nil || !strings.Contains(err.Error(), "blobs aren't found in line-scans") {
		t.Errorf("a line-scan: %v", err)
	}
	if set, err = NewSet([]Region{whole(f, "blobs == 0")}, Bounds{}); err != nil {
		t.Fatal(err)
	}
	_, err = set.NewScanner(t.Context(), dev, ScanConfig{Width: 2, PartLines: 1, Format: driver.Gray8})
	if err == nil || !strings.Contains(err.Error(), "regions[0].limits[0]") ||
		!strings.Contains(err.Error(), "blobs aren't found in line-scans") ||
		strings.Contains(err.Error(), "reductions.blobs") {
		t.Errorf("a limit on blobs in a line-scan: %v", err)
	}
}
