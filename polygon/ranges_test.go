package polygon

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/race"
	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// TestLimitsThatHoldForAll: limits that hold for all that is known of what they measure are errors where regions and
// reductions are read, or else where the first frame is. Their neighbours that can fail are none.
func TestLimitsThatHoldForAll(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	const set, recipe, frame, never = "set", "recipe", "frame", ""
	bright := func(s BlobSpec) *BlobSpec {
		if s.Range == (Span{}) {
			s.Range = Span{200, 255}
		}
		return &s
	}
	r := Reductions{Blobs: bright(BlobSpec{MinArea: 20})}
	for _, c := range []struct {
		expr string
		r    Reductions
		at   string // where it is refused
		want string
	}{
		{"blobs(area < 10) == 0", r, recipe, "blobs(area < 10) is always 0"},
		{"blobs(area < 10) == 0", Reductions{Blobs: bright(BlobSpec{MinArea: 9})}, never, ""},
		{"blobs(area in (20, 21)) == 0", r, set, "is always 0"},
		{"blobs(area < 20.5) == 0", r, never, ""},
		{"blobs(area > 200) == 0", r, set, "is always 0"},
		{"blobs(area >= 200) == 0", r, never, ""},
		{"blobs(area > 150 and area < 100) == 0", r, set, "is always 0"},
		{"blobs <= 7", r, recipe, "blobs is 0 to 7"}, // with the gaps between them
		{"blobs < 7", r, never, ""},
		{"blobs <= 10", Reductions{Blobs: bright(BlobSpec{MinArea: 20, FourConnected: true})}, recipe, "blobs is 0 to 10"},
		{"blobs < 10", Reductions{Blobs: bright(BlobSpec{MinArea: 20, FourConnected: true})}, never, ""},
		{"blobs <= 50", Reductions{Blobs: bright(BlobSpec{})}, recipe, "blobs is 0 to 50"},
		{"blobs < 50", Reductions{Blobs: bright(BlobSpec{})}, never, ""},
		{"blobs <= 100", Reductions{Blobs: bright(BlobSpec{FourConnected: true})}, set, "blobs is 0 to 100"},
		{"blobs < 100", Reductions{Blobs: bright(BlobSpec{FourConnected: true})}, never, ""},
		{"blobs(area > 50) <= 3", r, set, "blobs(area > 50) is 0 to 3"},
		{"blobs(area > 50) < 3", r, never, ""},
		{"blobs(area >= 50.5 and mean > 210) <= 3", r, set, "is 0 to 3"},
		{"blobs(area >= 50 and mean > 210) <= 3", r, recipe, "is 0 to 3"}, // as corners connect
		{"blobs(area >= 50 and mean > 210) <= 3", Reductions{Blobs: bright(BlobSpec{FourConnected: true})}, never, ""},
		{"blobs(area != 50) <= 3", r, never, ""},
		{"blobs(sum > 10000) <= 4", r, recipe, "is 0 to 4"},
		{"blobs(sum > 10000) < 4", r, never, ""},
		{"blobs(length > 20) <= 13", r, set, "is 0 to 13"},                                      // of 15 pixels
		{"blobs(length > 20) <= 9", Reductions{Blobs: bright(BlobSpec{})}, recipe, "is 0 to 9"}, // of 24 with the gap
		{"blobs(length > 20) < 9", Reductions{Blobs: bright(BlobSpec{})}, never, ""},
		{"blobs(perimeter > 81) <= 9", r, set, "is 0 to 9"},
		{"blobs != 0.5", r, set, "can't fail: blobs is never 0.5"},
		{"blobs != 5", r, never, ""},
		{"max blob.area != 20.5", r, set, "can't fail"},
		{"max blob.length != 20.5", r, never, ""},
		{"blobs(roundness > 1.75) == 0", r, set, "is always 0"},
		{"blobs(roundness > 1.74) == 0", r, never, ""},
		{"max blob.holes <= 72", r, set, "max blob.holes is 0 to 72"},
		{"max blob.holes < 72", r, never, ""},
		{"max blob.breadth <= 19", r, set, "max blob.breadth is 0 to 18.32"},
		{"sum blob.stddev <= 3e7", r, set, "can't fail"},
		{"count != 0.5", Reductions{}, set, "can't fail: count is never 0.5"},
		{"min != 70000", Reductions{}, set, "can't fail: min is 0 to 65535"},
		{"min.x != 3", Reductions{}, set, "can't fail"},
		{"min.x != 3.5", Reductions{}, never, ""},
		{"median != 3.25", Reductions{}, set, "can't fail"},
		{"median != 3.5", Reductions{}, never, ""},
		{"mean != 3.25", Reductions{}, never, ""},
		{"max blob.area <= 200", r, set, "max blob.area is 0 to 200"},
		{"max blob.area < 200", r, never, ""},
		{"sum blob.area <= 200", r, set, "sum blob.area is 0 to 200"},
		{"max blob.x < 20", r, set, "max blob.x is 0 to 19.5"},
		{"max blob.mean <= 255", r, recipe, "max blob.mean is 0 to 255"},
		{"max blob.mean < 255", r, never, ""},
		{"blobs(min < 200) == 0", r, recipe, "is always 0"},
		{"blobs(min < 200) == 0", Reductions{Blobs: bright(BlobSpec{Steps: []Morph{{Kind: Dilate, Width: 3, Height: 3}}})},
			never, ""},
		{"blobs(angle > 90) == 0", r, set, "is always 0"},
		{"blobs(length > 100) == 0", r, set, "is always 0"},
		{"autocorrelation(0,0) > 0.9", Reductions{}, set, "fails only where it has no value: autocorrelation(0,0) is always 1"},
		{"autocorrelation(0,0) < 0.9", Reductions{}, never, ""},
		{"radial(0) == 1", Reductions{}, set, "radial(0) is always 1"},
		{"gray.correlation(gray) != 0.5", Reductions{}, set, "is always 1"},
		{"correlation(gray) > 0", Reductions{}, frame, "is always 1"},
		{"autocovariance(0,0) >= 0", Reductions{}, set, "autocovariance(0,0) is 0 to"},
		{"contrast(1,0) <= 3969", Reductions{}, recipe, "contrast(1,0) is 0 to 3969"},
		{"contrast(1,0) < 3969", Reductions{}, never, ""},
		{"contrast(1,0) <= 3969", Reductions{Cooccurrence: &CooccurrenceSpec{Levels: 65}}, never, ""},
		{"contrast(1,0) <= 65025", Reductions{Cooccurrence: &CooccurrenceSpec{Levels: 256}}, set, "is 0 to 65025"},
		{"entropy(1,0) <= 8.57", Reductions{}, set, "entropy(1,0) is 0 to 8.5698"}, // of 190 pairs
		{"entropy(1,0) < 8.5", Reductions{}, never, ""},
		{"entropy(1,0) <= 4", Reductions{Cooccurrence: &CooccurrenceSpec{Levels: 4}}, recipe, "entropy(1,0) is 0 to 4"},
		{"energy(1,0) > 0.05", Reductions{}, set, "energy(1,0) is 0.0512989"},
		{"energy(1,0) > 0.06", Reductions{}, never, ""},
		{"energy(1,0) >= 0.25", Reductions{Cooccurrence: &CooccurrenceSpec{Levels: 4}}, recipe, "energy(1,0) is 0.25 to 1"},
		{"entropy <= 7.65", Reductions{}, set, "entropy is 0 to 7.6438"}, // of 200 pixels
		{"entropy < 7.64", Reductions{}, never, ""},
		{"centroid.x < 20", Reductions{}, never, ""},
		{"centroid.y in [0, 10]", Reductions{}, never, ""},
		{"centroid.y >= 0", Reductions{}, set, "centroid.y is 0 to"},
		{"max.y >= 0.5", Reductions{}, set, "max.y is 0.5 to 9.5"},
		{"weighted.x > 0.5", Reductions{}, never, ""},
		{"width <= 20", Reductions{}, never, ""},
		{"laplacian.count of pixels above 1016 <= 4", Reductions{}, frame, "counts no pixel: laplacian is -1024 to 1016"},
		{"laplacian.count of pixels in [1, 3] <= 4", Reductions{}, set, "in steps of 8"},
		{"laplacian.count of pixels above 1015 <= 4", Reductions{}, never, ""},
		{"laplacian.count of pixels above -1025 <= 4", Reductions{}, frame, "counts every pixel"},
		{"gradient.count of pixels above 300 == 0", Reductions{}, frame, "counts no pixel: gradient is 0 to 143"},
		{"gradient.count of pixels above 20 == 0", Reductions{}, never, ""},
		// A half is 255, the other 0: 255 * 1.5 * 20 / (20 * 20 - 1). The bound has the root of 3 for 1.5.
		{"plane.x <= 22.12", Reductions{}, frame, "plane.x is -22.11"},
		{"plane.x < 19.172", Reductions{}, never, ""},
		{"plane.y in [-44.4, 44.4]", Reductions{}, frame, "plane.y is -44.38"},
		{"plane.y >= -38.63", Reductions{}, never, ""},
		{"plane.x < 5683", Reductions{}, set, "plane.x is -5682."},
		{"plane.x < 5682", Reductions{}, frame, "plane.x is -22.11"},
		{`"a".plane.x + "b".plane.x < 113`, Reductions{}, frame, "is -112.2"},
		{`"a".plane.x + "b".plane.x < 95`, Reductions{}, never, ""},
		{"plane.y < 1e9", Reductions{}, set, "plane.y is -"},
		// Equal samples, black, and a frame without one before it have no such number, which fails.
		{"skewness < 15", Reductions{}, never, ""},
		{"kurtosis >= 1", Reductions{}, never, ""},
		{"correlation(1,0) <= 1", Reductions{}, never, ""},
		{"autocorrelation(1,0) >= -1", Reductions{}, never, ""},
		{"covariance of the frame before >= -1e12", Reductions{}, never, ""},
		{"covariance of \"x\" >= -1e12", Reductions{}, set, "can't fail"},
		{"weighted.x >= 0", Reductions{}, never, ""},
		{`kurtosis - "b".kurtosis <= 300`, Reductions{}, never, ""},
		{`kurtosis + 1 >= 2`, Reductions{}, never, ""},
		{`all of "*".kurtosis >= 1`, Reductions{}, never, ""},
		{"distinct <= 200", Reductions{}, set, "distinct is 1 to 200"},
		{"count > 0", Reductions{}, never, ""},
		{"gradient.count of pixels above 200 <= 3", Reductions{}, frame, "counts no pixel: gradient is 0 to 143"},
		{"gradient.count of pixels above 142 <= 3", Reductions{}, never, ""},
		{"covered.count <= 200", Reductions{}, set, "covered.count is 0 to 200"},
		{"covered.count < 200", Reductions{}, never, ""},
		{"covered.sum <= 51000", Reductions{}, frame, "covered.sum is 0 to 51000"},
		{"covered.sum < 51000", Reductions{}, never, ""},
		{"blobs(perimeter < 1) == 0", r, set, "blobs(perimeter < 1) is always 0"},
		{"blobs(perimeter < 2.7) == 0", r, never, ""},
		// Expressions.
		{"min - max <= 0", Reductions{}, set, "min - max is -65535 to 0"},
		{"min - max < 0", Reductions{}, never, ""},
		{"mean - min >= 0", Reductions{}, set, "mean - min is 0 to 65535"},
		{"mean - max <= 0", Reductions{}, set, "mean - max is -65535 to 0"},
		{"max - mean in [0, 255]", Reductions{}, frame, "max - mean is 0 to 255"},
		{"max - mean in [0, 255)", Reductions{}, never, ""},
		{"mean - median <= 0", Reductions{}, never, ""},
		{"p10 - p90 <= 0", Reductions{}, set, "can't fail"},
		{"p90 - p10 <= 0", Reductions{}, never, ""},
		{"p10 - median <= 0", Reductions{}, set, "can't fail"},
		{"median - p50 >= 0", Reductions{}, set, "can't fail"},
		{"median - p50 <= 0", Reductions{}, never, ""},
		{"median - p51 <= 0", Reductions{}, set, "can't fail"},
		{"mode - max <= 0", Reductions{}, set, "can't fail"},
		{"stddev - max <= 0", Reductions{}, set, "can't fail"},
		{"sum - mean >= 0", Reductions{}, set, "can't fail"},
		{"100 - 2 * (min - max) >= 100", Reductions{}, set, "can't fail"},
		{"count of pixels above 9 - count of pixels above 8 <= 0", Reductions{}, set, "can't fail"},
		{"count of pixels above 8 - count of pixels above 9 <= 0", Reductions{}, never, ""},
		{"count of pixels above 9 - count <= 0", Reductions{}, set, "can't fail"},
		{"distinct - count <= 0", Reductions{}, set, "can't fail"},
		{`min - "a".max <= 0`, Reductions{}, set, "can't fail"},
		{`min - "b".max <= 0`, Reductions{}, never, ""},
		{`gray.min - max <= 0`, Reductions{}, never, ""},
		{`lab.l.min - lab.l.mean <= 0`, Reductions{}, set, "can't fail"},
		{`gradient.max - gradient.mean >= 0`, Reductions{}, set, "can't fail"},
		{`matrix.x.p10 - matrix.x.median <= 0`, Reductions{}, set, "can't fail"},
		{`lab.a.p10 - lab.a.max <= 0`, Reductions{}, never, ""}, // it is rounded to a bin
		{`lab.a.min - lab.a.median <= 0`, Reductions{}, never, ""},
		{`lab.a.stddev - lab.a.max <= 0`, Reductions{}, never, ""},
		{`smallest of "*".mean - largest of "*".mean <= 0`, Reductions{}, set, "can't fail"},
		{`smallest of "*".min - largest of "*".max <= 0`, Reductions{}, set, "can't fail"},
		{`largest 2 of "*".mean - largest of "*".mean <= 0`, Reductions{}, set, "can't fail"},
		{`largest of "*".mean - largest 2 of "*".mean <= 0`, Reductions{}, never, ""},
		{`mean - largest of "*".mean <= 0`, Reductions{}, set, "can't fail"},
		{`mean - smallest of "*".mean >= 0`, Reductions{}, set, "can't fail"},
		{`mean - largest 2 of "*".mean <= 0`, Reductions{}, never, ""},
		{`"a".count - "b".count != 0.5`, Reductions{}, set, "\"b\".count is never 0.5"},
		{`"a".count / "b".count != 0.5`, Reductions{}, never, ""},
		{`all of "*".min != 0.5`, Reductions{}, set, "can't fail"},
		{`"a".sum + "b".sum <= 57375`, Reductions{}, frame, "is 0 to 57375 on GRAY8"},
		{`"a".sum + "b".sum < 57375`, Reductions{}, never, ""},
		{`"a".contrast(1,0) - "b".contrast(1,0) <= 9`, Reductions{Cooccurrence: &CooccurrenceSpec{Levels: 4}}, recipe,
			"is -9 to 9"},
		{`"a".mean - "a".mean == 0`, Reductions{}, set, "is always 0"},
		{`mean - "like a".mean < 5`, Reductions{}, set, "is always 0"},
		{`min - "like a".max <= 0`, Reductions{}, set, "can't fail"},
		{`mean - "c".mean < 5`, Reductions{}, never, ""},
		{`mean - "a".mean in [-5, 5]`, Reductions{}, set, "is always 0"},
		{`("a".mean + "b".mean) - (mean + "b".mean) < 3`, Reductions{}, set, "is always 0"},
		{`mean - "b".mean in [-5, 5]`, Reductions{}, never, ""},
		{`(mean + 1) - (mean + 1) < 3`, Reductions{}, set, "is always 0"},
		{`(mean + 1) / (mean + 1) == 1`, Reductions{}, set, "is always 1"},
		{`mean / mean == 1`, Reductions{}, never, ""}, // it is divided by 0 where all is black
		{`mean - max == 0`, Reductions{}, never, ""},
		{`autocorrelation(1,0) - autocorrelation(2,0) <= 0.5`, Reductions{}, never, ""},
		{`"a".mean - "b".mean <= 255`, Reductions{}, frame, "is -255 to 255 on GRAY8"},
		{`"a".mean - "b".mean < 255`, Reductions{}, never, ""},
		{`"a".count + 2 * "b".count < 250`, Reductions{}, never, ""},
		{`"a".count + 2 * "b".count <= 250`, Reductions{}, set, "is 0 to 250"},
		{`"a".count of pixels above 300 + "b".count <= 3`, Reductions{}, frame, "counts no pixel of GRAY8"},
		{`mean * mean >= 0`, Reductions{}, set, "is 0 to 4.294836225e+09"},
		{`mean / (mean + 1) < 256`, Reductions{}, frame, "is 0 to 255"},
		{`mean / min >= 0`, Reductions{}, never, ""},
		{`all of "*".mean <= 255`, Reductions{}, frame, `it holds for all of "*".mean`},
		{`all but 1 of "*".count < 200`, Reductions{}, set, `it holds for all but 1 of "*".count`},
		{`all of "*".count < 200`, Reductions{}, never, ""},
		{`largest 2 of "*".count <= 25`, Reductions{}, set, "is 0 to 25"},
		{`largest of "*".count <= 25`, Reductions{}, never, ""},
		{`mean over last 5 of mean <= 255`, Reductions{}, frame, "is 0 to 255"},
		{`mean over last 5 of mean < 255`, Reductions{}, never, ""},
		{`slope over last 5 of mean < 256`, Reductions{}, frame, "is -255"},
		{`slope over last 5 of mean < 255`, Reductions{}, never, ""},
		{`spread over last 5 of mean >= 0`, Reductions{}, set, "is 0 to 65535"},
		{`count of failed of last 5 <= 5`, Reductions{}, set, "is 0 to 5"},
		{`count of failed of last 5 < 5`, Reductions{}, never, ""},
	} {
		regions := []Region{{Name: "a", Rings: []Ring{rectangle(0, 0, 20, 10)}, Limits: []string{"mean < 200", c.expr}},
			{Name: "b", Rings: []Ring{rectangle(0, 0, 5, 5)}},
			{Name: "like a", Rings: []Ring{rectangle(0, 0, 20, 10)}}, {Name: "c", Rings: []Ring{{{0, 0}, {20, 0}, {20, 10}}}}}
		if !strings.Contains(c.expr, "like a") && !strings.Contains(c.expr, `"c"`) {
			regions = regions[:2]
		}
		at := set
		s, err := NewSet(regions, Bounds{})
		if err == nil {
			at, err = recipe, s.CheckLimits(&c.r)
		}
		if err == nil {
			at = frame
			_, err = Reduce(t.Context(), dev, s, noise(20, 10, driver.Gray8), c.r, driver.MethodDefault)
		}
		if err != nil && strings.Contains(err.Error(), "the frame has no") {
			err = nil // a limit on colours
		}
		if err == nil {
			at = never
		} else if text := err.Error(); !strings.Contains(text, "regions[0].limits[1]") ||
			!strings.Contains(text, c.want) {
			t.Errorf("%s: %v, want %q", c.expr, err, c.want)
		}
		if at != c.at {
			t.Errorf("%s: refused at %q, want %q: %v", c.expr, at, c.at, err)
		}
	}
}

// TestRangeOfShapes: what has no value for equal samples is bounded by the number of pixels for others.
func TestRangeOfShapes(t *testing.T) {
	s, err := NewSet([]Region{{Rings: []Ring{rectangle(0, 0, 20, 10)}}}, Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	for expr, want := range map[string][2]float64{"skewness": {-14.0358, 14.0358}, "kurtosis": {1, 198.0050}} {
		q, err := ParseQuantity(expr)
		if err != nil {
			t.Fatal(err)
		}
		lo, hi := s.Range(0, q, 255, 200, &Reductions{})
		if math.Abs(lo-want[0]) > 1e-4 || math.Abs(hi-want[1]) > 1e-4 {
			t.Errorf("%s is %v to %v, want %v", expr, lo, hi, want)
		}
	}
}

// TestLimitsInMillimetresThatHoldForAll: a scale makes of what blobs can be what they can be in mm.
func TestLimitsInMillimetresThatHoldForAll(t *testing.T) {
	for expr, want := range map[string]string{
		"max blob.length <= 5.1 mm": "max blob.length is 0 to 5.09", "max blob.length < 3 mm": "",
		"max blob.breadth < 3.7 mm": "max blob.breadth is 0 to 3.66", "max blob.breadth < 1.9 mm": "",
		"max blob.perimeter < 121 mm": "max blob.perimeter is 0 to 120", "sum blob.length <= 90 mm": "can't fail",
		"blobs(area > 1.01 mm2) <= 3": "is 0 to 3", "blobs(area > 1.01 mm2) < 3": "",
		"blobs(area > 1 mm2) != 2.5": "can't fail",
		"blobs(area > 4.5 mm2) == 0": "is always 0", "blobs(area > 4.4 mm2) == 0": "",
		"blobs(length > 1 mm) <= 45": "can't fail", "count != 0.5 mm2": "",
	} {
		s, err := NewSetInPieces([]Region{{Rings: []Ring{rectangle(0, 0, 20, 10)}, Limits: []string{expr}}},
			&Scale{X: 0.1, Y: 0.2}, Bounds{}, nil)
		if expr == "blobs(area > 4.4 mm2) == 0" || expr == "blobs(area > 4.5 mm2) == 0" {
			s, err = NewSetInPieces([]Region{{Rings: []Ring{rectangle(0, 0, 20, 10)}, Limits: []string{expr}}}, // 4.5 mm²
				&Scale{X: 0.15, Y: 0.15}, Bounds{}, nil)
		}
		if err == nil {
			err = s.CheckLimits(&Reductions{Blobs: &BlobSpec{Range: Span{200, 255}, FourConnected: true}})
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", expr, err, want)
		}
	}
}

// TestColorLimitsThatHoldForAll: limits on derived channels that hold for all colours are errors where the reductions are
// known; their neighbours are none.
func TestColorLimitsThatHoldForAll(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	identity := Reductions{Colors: Colors{Matrix: [3][3]float64{{1, 0, 0}, {0, 1, 0}, {0, -2, 0.5}}}}
	for _, c := range []struct {
		expr string
		r    Reductions
		want string
	}{
		{"lab.a.mean in [-128, 127]", Reductions{}, "is -86.1875 to 98.25"},
		{"lab.a.mean in [-86, 99]", Reductions{}, ""},
		{"lab.b.mean in [-108, 95]", Reductions{}, "is -107.85546875 to 94.48828125"},
		{"lab.b.min >= -107.8", Reductions{}, ""},
		{"lab.b.median >= -107.9", Reductions{}, ""}, // blue is in the bin of -108
		{"lab.a.max <= 100", Reductions{}, "is -86.1875 to 98.25"},
		{"lab.a.count of pixels above 98.6 == 0", Reductions{}, "counts no pixel"},
		{"lab.a.count of pixels above 97 == 0", Reductions{}, ""},
		{"lab.l.entropy < 8", Reductions{}, "entropy is 0 to 6.658"},
		{"lab.l.entropy < 6.6", Reductions{}, ""},
		{"lab.l.plane.x < 8.7", Reductions{}, "is -8.67"}, // 100 * root of 3 / root of 399
		{"lab.l.plane.x < 7.5", Reductions{}, ""},
		{"saturation.distinct <= 101", Reductions{}, "is 1 to 101"},
		{"saturation.distinct < 101", Reductions{}, ""},
		{"hue.distinct <= 240", Reductions{}, "is 1 to 240"},
		{"hue.distinct < 240", Reductions{}, ""},
		{"hue.count of pixels in [1, 1.2] == 0", Reductions{}, "counts no pixel: hue is 0 to less than 360"},
		{"hue.count of pixels above 358.5 == 0", Reductions{}, "counts no pixel"},
		{"hue.count of pixels below 0 < 3", Reductions{}, "counts no pixel"},
		{"hue.count of pixels in (358.6, 0) == 0", Reductions{}, "counts no pixel"},
		{"hue.count of pixels above 358.4 == 0", Reductions{}, ""},
		{"hue.count of pixels below 0.1 < 3", Reductions{}, ""},
		{"hue.count of pixels in [0, 360] < 3", Reductions{}, ""},
		{"lab.a.distinct <= 185", Reductions{}, "is 1 to 185"},
		{"gray709.distinct < 256", Reductions{}, ""},
		{"matrix.x.mean < 300", identity, "is -0.004140625 to 255.004140625"},
		{"matrix.x.mean < 255", identity, ""},
		{"matrix.z.min >= -511", identity, "can't fail"},
		{"matrix.z.min >= -510", identity, ""},
		{"matrix.z.min >= -511", Reductions{Colors: Colors{Matrix: [3][3]float64{{1, 0, 0}}}}, "matrix.z"},
		{"matrix.z.max < 128", identity, "can't fail"},
		{"matrix.x.count of pixels above 256 == 0", identity, "counts no pixel"},
		{`matrix.x.mean - "a".matrix.y.mean <= 256`, identity, "can't fail"},
	} {
		s, err := NewSet([]Region{{Name: "a", Rings: []Ring{rectangle(0, 0, 20, 20)}, Limits: []string{c.expr}}}, Bounds{})
		if err == nil {
			err = s.CheckLimits(&c.r)
		}
		if err == nil {
			_, err = Reduce(t.Context(), dev, s, noise(20, 20, driver.RGB8), c.r, driver.MethodDefault)
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.expr, err, c.want)
		}
	}
}

// TestOrderOfDerived: least, mean and greatest values of derived channels, and their percentiles, are in order, however
// they are rounded.
func TestOrderOfDerived(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	rng := testseed.New(t, 1, 92)
	var exprs []string
	for _, c := range []string{"gray709.", "saturation.", "value.", "lab.l.", "lab.a.", "lab.b.", "matrix.x.", "matrix.y.",
		"gradient.", "laplacian."} {
		for _, q := range []string{"min", "mean", "max", "p10", "median", "p90"} {
			exprs = append(exprs, c+q+" == -1e9")
		}
	}
	for range 300 {
		r := Reductions{Colors: Colors{Matrix: [3][3]float64{{rng.Float64(), 0.3, -rng.Float64()}, {-0.1, 0.7, 1.1},
			{1, 1, 1}}}}
		f := noise(9, 8, driver.RGB8)
		for i, same := range rng.Perm(72) { // many pixels alike
			copy(f.Data[0][3*i:3*i+3], f.Data[0][3*(same%(1+rng.IntN(4))):])
		}
		var regions []Region
		for _, expr := range exprs {
			regions = append(regions, Region{Rings: []Ring{rectangle(1, 1, float64(1+rng.IntN(7)), float64(1+rng.IntN(6)))}})
			regions[len(regions)-1].Limits = []string{expr}
			if n := len(regions) - 1; n%6 != 0 {
				regions[n].Rings = regions[n-1].Rings
			}
		}
		res, err := Reduce(t.Context(), dev, mustSet(t, regions...), f, r, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		for i := range exprs {
			l, before := res.Regions[i].Limits[0], res.Regions[max(i-1, 0)].Limits[0]
			if i%3 != 0 && l.Value < before.Value {
				t.Fatalf("%s: %v is below %s: %v", l.Expression, l.Value, before.Expression, before.Value)
			}
		}
	}
}

// TestLabRange: all colours of 8 bits have what derivedRange says of a and b, no less and no more.
func TestLabRange(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	f := kernels.Picture{Width: 1 << 12, Height: 1 << 12, Format: driver.RGB8, Data: [][]byte{make([]byte, 3<<24)}}
	for i := range 1 << 24 {
		f.Data[0][3*i], f.Data[0][3*i+1], f.Data[0][3*i+2] = byte(i), byte(i>>8), byte(i>>16)
	}
	res, err := Reduce(t.Context(), dev, mustSet(t, Region{Rings: []Ring{rectangle(0, 0, 1<<12, 1<<12)}}), f,
		Reductions{Statistics: Min | Max, Colors: Colors{Spaces: ColorLab}}, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	of := anyFrame()
	for i, c := range []Channel{LabL, LabA, LabB} {
		got := &res.Regions[0].Channels[3+i]
		if lo, hi := derivedRange(c, &of); got.Value(got.Min) != lo || got.Value(got.Max) != hi {
			t.Errorf("%v is %v to %v, want %v to %v", c, got.Value(got.Min), got.Value(got.Max), lo, hi)
		}
	}
}

// TestBlobsOfAllOrNothing: what takes every pixel or none, whatever a frame shows, is no foreground.
func TestBlobsOfAllOrNothing(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	s := mustSet(t, Region{Rings: []Ring{rectangle(0, 0, 20, 10)}})
	inf := AnySpan()
	for _, c := range []struct {
		spec BlobSpec
		bits int
		want string
	}{
		{BlobSpec{Range: Span{inf.From, 300}}, 8, "<= 300: takes every pixel of GRAY8, whose samples are 0 to 255"},
		{BlobSpec{Range: Span{inf.From, 300}}, 12, ""},
		{BlobSpec{Range: Span{inf.From, 254}}, 8, ""},
		{BlobSpec{Range: Span{0, inf.To}}, 8, "takes every pixel of any frame"},
		{BlobSpec{Range: Span{256, inf.To}}, 8, "takes no pixel of GRAY8"},
		{BlobSpec{Range: Span{3.2, 3.8}}, 8, "takes no pixel of any frame"},
		{BlobSpec{Range: Span{inf.From, -1}}, 8, "takes no pixel of any frame"},
		{BlobSpec{Threshold: ThresholdPercentiles, Range: Span{0, inf.To}}, 8, "takes every pixel"},
		{BlobSpec{Threshold: ThresholdPercentiles, Range: Span{1, inf.To}}, 8, ""},
		// Of 200 pixels, one that differs from the others is sqrt(199), 14.1067, deviations from the mean.
		{BlobSpec{Threshold: ThresholdDeviations, Range: Span{14.11, inf.To}}, 8, "lower = >= 14.11: takes no pixel"},
		{BlobSpec{Threshold: ThresholdDeviations, Range: Span{inf.From, -300}}, 8, "upper = <= -300: takes no pixel"},
		{BlobSpec{Threshold: ThresholdDeviations, Range: Span{-15, 15}}, 8,
			"takes every pixel of regions whose samples differ: of 200 pixels"},
		{BlobSpec{Threshold: ThresholdDeviations, Range: Span{inf.From, 15}}, 8, "takes every pixel"},
		{BlobSpec{Threshold: ThresholdDeviations, Range: Span{3, inf.To}, Strong: &Span{20, inf.To}}, 8, "strong_lower = >= 20"},
		{BlobSpec{Threshold: ThresholdDeviations, Range: Span{math.Sqrt(199), inf.To}}, 8, ""},
		{BlobSpec{Threshold: ThresholdDeviations, Range: Span{-15, 14}}, 8, ""},
		{BlobSpec{Range: Span{100, inf.To}, Strong: &Span{300, inf.To}}, 8, "strong_lower = >= 300: takes no pixel"},
		{BlobSpec{Range: Span{100, inf.To}, Strong: &Span{inf.From, 99}}, 8,
			"leaves out every blob: a pixel that is >= 100 is never <= 99"},
		{BlobSpec{Range: Span{100, inf.To}, Strong: &Span{inf.From, 100}}, 8, ""},
		{BlobSpec{Range: Span{100, inf.To}, Strong: &Span{100, inf.To}}, 8,
			"strong_lower = >= 100: leaves out no blob: a pixel"},
		{BlobSpec{Range: Span{100, 200}, Strong: &Span{90, inf.To}}, 8, "strong_lower = >= 90: leaves out no blob"},
		// The same where samples have no more to show.
		{BlobSpec{Range: Span{inf.From, 60}, Strong: &Span{0, 60}}, 8,
			"strong_lower = 0 to 60: leaves out no blob: a pixel that is <= 60 is also 0 to 60"},
		{BlobSpec{Range: Span{inf.From, 60}, Strong: &Span{1, 60}}, 8, ""},
		{BlobSpec{Range: Span{128, inf.To}, Strong: &Span{128, 255}}, 8, "leaves out no blob"},
		{BlobSpec{Range: Span{128, inf.To}, Strong: &Span{128, 255}}, 12, ""},
		{BlobSpec{Range: Span{99.5, inf.To}, Strong: &Span{100, inf.To}}, 8, "leaves out no blob"},
		{BlobSpec{Range: Span{inf.From, 60}, Strong: &Span{inf.From, 60.9}}, 8, "strong_upper = <= 60.9: leaves out no blob"},
		{BlobSpec{Threshold: ThresholdPercentiles, Range: Span{90, inf.To}, Strong: &Span{90, 100}}, 8, "leaves out no blob"},
		{BlobSpec{Threshold: ThresholdPercentiles, Range: Span{90, inf.To}, Strong: &Span{91, 100}}, 8, ""},
		{BlobSpec{Threshold: ThresholdDeviations, Range: Span{3, inf.To}, Strong: &Span{3, 14.2}}, 8, "leaves out no blob"},
		{BlobSpec{Threshold: ThresholdDeviations, Range: Span{3, inf.To}, Strong: &Span{3, 14}}, 8, ""},
	} {
		format := driver.Gray8
		if c.bits > 8 {
			format = driver.Gray16(c.bits)
		}
		_, err := Reduce(t.Context(), dev, s, noise(20, 10, format), Reductions{Blobs: &c.spec}, driver.MethodDefault)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "reductions.blobs.")) {
			t.Errorf("%+v: %v, want %q", c.spec, err, c.want)
		}
		if put := s.CheckLimits(&Reductions{Blobs: &c.spec}); c.spec.Threshold == ThresholdDeviations &&
			(put == nil) != (c.want == "") {
			t.Errorf("%+v: before there is a frame: %v, want %q", c.spec, put, c.want)
		}
	}
}

// TestReachOfDeviations: the one pixel that differs from others is as far from the mean as checkSpans says.
func TestReachOfDeviations(t *testing.T) {
	for _, n := range []uint64{2, 3, 200, 1 << 20} {
		for _, v := range []uint64{1, 255, 65535} {
			m := driver.MaskStats{Count: n, Sum: v, SumSq: v * v}
			k := math.Sqrt(float64(n - 1))
			if s := deviations(Span{k * (1 - 1e-12), k * (1 + 1e-9)}, &m); s.From > float64(v) || s.To < float64(v) {
				t.Errorf("%d pixels, one of %d: %v deviations are samples of %v", n, v, k, s)
			}
			if s := deviations(Span{k * (1 + 1e-9), math.Inf(1)}, &m); s.From <= float64(v) {
				t.Errorf("%d pixels, one of %d: %v deviations and more are samples of %v", n, v, k, s)
			}
		}
	}
}

// TestRefusedLimitsHold: no value that a random frame gives to what a limit measures fails a limit that was refused.
func TestRefusedLimitsHold(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	n := 4000
	switch {
	case race.Enabled: // one goroutine, which would take minutes
		n = 60
	case testing.Short():
		n = 300
	}
	refused, seen := map[string]int{}, 0
	for seed := range n {
		rng := testseed.New(t, uint64(seed), 91)
		of := func(list ...string) string { return list[rng.IntN(len(list))] }
		simple := func() string {
			return of("count", "area", "width", "height", "centroid.x", "centroid.y", "sum", "mean", "variance", "stddev",
				"min", "max", "median", "mode", "distinct", "p10", "skewness", "kurtosis", "entropy", "mad", "iqr",
				"plane.x", "plane.y", "plane.residual", "contrast(1,0)", "homogeneity(1,0)", "energy(0,1)", "correlation(1,1)", "entropy(1,0)",
				"autocorrelation(0,0)", "autocorrelation(1,0)", "radial(0)", "radial(1)", "autocovariance(0,0)",
				"correlation(gray)", "weighted.x", "min.x", "max.y", "covered.mean", "covered.stddev",
				"count of pixels above 200", "count of pixels in [3, 500]")
		}
		kind, text, unit := "simple", simple(), ""
		scale := []*Scale{nil, {X: 0.05, Y: 0.05}, {X: 0.1, Y: 0.03, Origin: Point{3, 4}}}[rng.IntN(3)]
		switch rng.IntN(3) {
		case 0:
			kind, text = "blobs", of("blobs", "blobs", "blobs(%s)", "max blob.%s", "sum blob.%s")
			f := of("area", "length", "breadth", "perimeter", "x", "y", "angle", "roundness", "holes", "mean", "stddev",
				"min", "max", "sum")
			if scale != nil && text != "blobs" {
				unit = map[string]string{"area": " mm2", "length": " mm", "breadth": " mm", "perimeter": " mm", "x": " mm",
					"y": " mm"}[f]
			}
			if text == "blobs(%s)" {
				f += of(" < ", " >= ", " != ") + of("0", "1", "2", "5", "10", "30", "60", "255", "300", "0.1", "0.01") + unit
				unit = ""
			}
			text = strings.ReplaceAll(text, "%s", f)
		case 1:
			kind = "expression"
			operand := func() string {
				return of("", `"b".`, `largest of "*".`, `smallest 2 of "*".`) + simple()
			}
			text = operand()
			if rng.IntN(3) == 0 {
				ordered := func() string {
					return of("", "", `"a".`, `largest of "*".`, `smallest of "*".`) + of("min", "max", "mean", "median",
						"mode", "p50",
						"p10", "p90", "p100", "stddev", "mad", "iqr", "sum", "distinct", "count", "count of pixels above 200",
						"count of pixels in [3, 500]", "count of pixels above 5")
				}
				text = ordered() + " - " + ordered()
			}
			for range rng.IntN(2) + rng.IntN(3) {
				next := of("2", "1", "0.5", "100", "(mean + 1)", operand(), operand())
				text = "(" + text + ") " + of("+", "-", "*", "/") + " " + next
			}
		}
		format := []driver.PixelFormat{driver.Gray8, driver.Gray16(10)}[rng.IntN(2)]
		r := Reductions{Cooccurrence: &CooccurrenceSpec{Levels: []int{2, 7, 64, 256}[rng.IntN(4)]}}
		if kind == "blobs" {
			r.Blobs = &BlobSpec{Range: Span{float64(rng.IntN(200)), 250}, MinArea: rng.IntN(12),
				FourConnected: rng.IntN(2) == 0}
			if rng.IntN(3) == 0 {
				r.Blobs.Steps = []Morph{{Kind: MorphKind(rng.IntN(4)), Width: 3, Height: 1}}
			}
		}
		ring := func() Ring {
			return rectangle(float64(rng.IntN(6)), float64(rng.IntN(6)), float64(1+rng.IntN(6)), float64(1+rng.IntN(6)))
		}
		regions := []Region{{Name: "a", Rings: []Ring{ring()}}, {Name: "b", Rings: []Ring{ring()}}}
		if rng.IntN(2) == 0 {
			regions[0].Rings = []Ring{{{0, 0}, {11, 3}, {2 + 5*rng.Float64(), 12}}}
		}
		judge := func(expr string, f kernels.Picture) (*Result, error) {
			with := slices.Clone(regions)
			with[0].Limits = []string{expr}
			s, err := NewSetInPieces(with, scale, Bounds{}, nil)
			if err != nil {
				return nil, err
			}
			return Reduce(t.Context(), dev, s, f, r, driver.MethodDefault)
		}
		var values []float64
		lacks := false
		for range 3 {
			res, err := judge(text+" == -123456789.25"+unit, extremeFrame(rng, format))
			if err != nil {
				if strings.Contains(err.Error(), "counts ") {
					break
				}
				t.Fatalf("seed %d: %s: %v", seed, text, err)
			}
			switch l := res.Regions[0].Limits[0]; {
			case l.Measured:
				values = append(values, l.Value)
			case res.Regions[0].Count > 0:
				lacks = true
			}
		}
		if len(values) == 0 {
			continue
		}
		seen++
		for range 8 {
			v := values[rng.IntN(len(values))]
			v += []float64{0, 0, 1e-9, 0.5, -0.5, 1, -1, 20, -20, 300, -300, 5000, -5000, 3e6, -3e6}[rng.IntN(15)]
			expr := fmt.Sprintf("%s %s %v%s", text, of("<", "<=", ">", ">=", "!="), v, unit)
			if len(expr) > MaxLimit {
				continue
			}
			_, err := judge(expr, extremeFrame(rng, format))
			if err == nil {
				continue
			}
			if strings.Contains(err.Error(), "fails only where it has no value") {
				continue
			}
			if !strings.Contains(err.Error(), "can't fail") || lacks {
				t.Fatalf("seed %d: %s: %v", seed, expr, err)
			}
			refused[kind]++
			l, _ := ParseLimit(expr)
			for _, v := range values {
				if ok, _ := l.holds(v); !ok {
					t.Fatalf("seed %d: %s fails for %v: %v", seed, expr, v, err)
				}
			}
		}
	}
	if seen < n/2 || refused["simple"] < n/4 || refused["blobs"] < n/4 || refused["expression"] < n/8 {
		t.Errorf("of %d: %d, refused %v: one of them is hardly tried", n, seen, refused)
	}
}

// extremeFrame is noise, or has few values, the least and the greatest among them.
func extremeFrame(rng *rand.Rand, format driver.PixelFormat) kernels.Picture {
	bytes := int(format.SampleBytes)
	f := kernels.Picture{Width: 12, Height: 12, Format: format, Data: [][]byte{make([]byte, 144*bytes)}}
	most, kind := format.Levels()-1, rng.IntN(5)
	for i := range 144 {
		v := rng.IntN(most + 1)
		switch kind {
		case 0:
			v = most
		case 1:
			v = most * rng.IntN(2)
		case 2:
			v = 0
			if rng.IntN(30) == 0 {
				v = most
			}
		case 3:
			v = most * (i % 12 / 2 % 2)
		}
		f.Data[0][i*bytes] = byte(v)
		if bytes == 2 {
			f.Data[0][2*i+1] = byte(v >> 8)
		}
	}
	return f
}

// TestTilt: the greatest slopes that samples give the planes of regions are not above those that are known beforehand.
func TestTilt(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	for _, r := range []Region{
		{Rings: []Ring{rectangle(2, 1, 7, 3)}},
		{Rings: []Ring{rectangle(1000000, 3, 7, 3)}},
		{Rings: []Ring{{{0, 0}, {11, 3}, {5, 12}}}},
		{Rings: []Ring{rectangle(0, 0, 12, 12), rectangle(3, 3, 6, 7)}, Fill: EvenOdd},
		{Mask: []Run{{Y: 1, X0: 2, X1: 4}, {Y: 5, X0: 0, X1: 1}, {Y: 5, X0: 8, X1: 11}}},
	} {
		r.Limits = []string{"plane.x == 3000"}
		s := mustSet(t, r)
		most, ok := s.tilts[0]
		if !ok {
			t.Fatalf("%v: no slopes", r)
		}
		x0, y0, x1, y1 := s.boxes[0].pixels()
		at, w, h := x0/16*16, x1-x0/16*16, y1
		move := func(u Run) Run { return Run{Y: u.Y, X0: u.X0 - int32(at), X1: u.X1 - int32(at)} }
		var mask []Run
		if r.Mask == nil {
			sweep(s.edgesOf(0), y0, y1, func(y int, turns []turn) bool {
				spans(turns, s.regions[0].Fill, func(x0, x1 int) {
					mask = append(mask, move(Run{Y: int32(y), X0: int32(x0), X1: int32(x1)}))
				})
				return true
			})
		} else {
			mask = r.Mask
		}
		near := Region{Mask: mask, Limits: []string{"plane.x == -9", "plane.y == -9"}}
		slopes := func(f kernels.Picture) [2]float64 {
			res, err := Reduce(t.Context(), dev, mustSet(t, near), f, Reductions{}, driver.MethodDefault)
			if err != nil {
				t.Fatal(err)
			}
			return [2]float64{res.Regions[0].Limits[0].Value, res.Regions[0].Limits[1].Value}
		}
		// What one bright pixel gives is its weight.
		f := kernels.Picture{Width: w, Height: h, Format: driver.Gray8, Data: [][]byte{make([]byte, w*h)}}
		var sum, squares [2]float64
		n := 0.0
		for _, u := range mask {
			n += float64(u.X1 - u.X0)
		}
		for i := range f.Data[0] {
			f.Data[0][i] = 255
			for k, v := range slopes(f) {
				sum[k] += max(v, 0) / 255
				squares[k] += v * v / 255 / 255
			}
			f.Data[0][i] = 0
		}
		for k := range sum {
			want := math.Sqrt(n*squares[k]) / 2
			if sum[k] > most[k] || most[k] > want*(1+1e-6) || most[k] < want*(1-1e-9) {
				t.Errorf("%v: a slope of at most %v, want %v, at least %v", r, most, want, sum)
			}
		}
	}
	for _, r := range []Region{
		{Rings: []Ring{rectangle(0, 0, 9, 9)}, Limits: []string{"plane.x < 3", "coverage > 0.5"}}, // it may lie outside
		{Rings: []Ring{rectangle(0, 0, 9, 1)}, Limits: []string{"plane.x < 3"}},                   // a line
		{Rings: []Ring{rectangle(0, 0, 9, 9)}, Limits: []string{"mean < 3"}},                      // nobody asks
	} {
		if s := mustSet(t, r); s.tilts != nil {
			t.Errorf("%v: %v", r, s.tilts)
		}
	}
}

// TestRoundest: no connected pixels of a square of 4 by 4 are rounder than one pixel is.
func TestRoundest(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	f := kernels.Picture{Width: 5 * 256, Height: 5 * 256, Format: driver.Gray8, Data: [][]byte{make([]byte, 25*65536)}}
	for i := range 1 << 16 {
		for k := range 16 {
			if i>>k&1 != 0 {
				f.Data[0][(i>>8*5+k/4)*f.Width+i&255*5+k%4] = 255
			}
		}
	}
	set := mustSet(t, Region{Rings: []Ring{rectangle(0, 0, 5*256, 5*256)}})
	res, err := Reduce(t.Context(), dev, set, f, Reductions{Blobs: &BlobSpec{Range: Span{255, 255}, MaxBlobs: MostBlobs}},
		driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	blobs, of, seen := res.Regions[0].Blobs.Blobs, anyFrame(), 0.0
	i := slices.IndexFunc(blobFeatures, func(f blobFeature) bool { return f.name == "roundness" })
	for _, b := range blobs {
		seen = max(seen, b.Roundness)
	}
	if most := blobFeatures[i].values(&of, 0, nil).hi; len(blobs) < 60000 || seen > most || seen < most*(1-1e-9) {
		t.Errorf("%d blobs, the roundest %v; want %v", len(blobs), seen, most)
	}
}
