package polygon

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

var (
	nan = math.NaN()
	inf = math.Inf(1)
)

// triangle is a valid ring.
var triangle = Ring{{0, 0}, {4, 0}, {0, 4}}

func TestNewSetRefuses(t *testing.T) {
	region := func(rings ...Ring) []Region { return []Region{{Rings: rings}} }
	for _, c := range []struct {
		name    string
		regions []Region
		bounds  Bounds
		want    []string // all of the violations
	}{
		{"no regions", nil, Bounds{}, []string{"regions = []: must hold at least 1 region"}},
		{"too many regions", make([]Region, 4), Bounds{MaxRegions: 3},
			[]string{"regions = 4: are too many: the limit is 3 regions"}},
		{"too many regions by default", make([]Region, 100_001), Bounds{},
			[]string{"regions = 100001: are too many: the limit is 100000 regions"}},
		{"no rings", region(), Bounds{}, []string{"regions[0].rings = []: must hold at least 1 ring"}},
		{"empty ring", region(triangle, Ring{}), Bounds{},
			[]string{"regions[0].rings[1] = 0 vertices: must hold at least 3 vertices"}},
		{"one vertex", region(triangle[:1]), Bounds{},
			[]string{"regions[0].rings[0] = 1 vertex: must hold at least 3 vertices"}},
		{"two vertices", []Region{{Rings: []Ring{triangle}}, {Rings: []Ring{triangle[:2]}}}, Bounds{},
			[]string{"regions[1].rings[0] = 2 vertices: must hold at least 3 vertices"}},
		{"two bad vertices", region(Ring{{nan, 0}, {0, 1}}), Bounds{}, []string{
			"regions[0].rings[0] = 2 vertices: must hold at least 3 vertices",
			"regions[0].rings[0].vertices[0].x = NaN: must be a finite number"}},
		{"NaN", region(triangle, Ring{{1, 1}, {2, nan}, {3, 3}}), Bounds{}, []string{
			"regions[0].rings[1].vertices[1].y = NaN: must be a finite number"}},
		{"infinities", region(Ring{{inf, 1}, {2, -inf}, {3, 3}}), Bounds{}, []string{
			"regions[0].rings[0].vertices[0].x = +Inf: must be a finite number",
			"regions[0].rings[0].vertices[1].y = -Inf: must be a finite number"}},
		{"far away", region(Ring{{4194304, 1}, {2, -4194304}, {1e300, nan}}), Bounds{}, []string{
			"regions[0].rings[0].vertices[0].x = 4.194304e+06: must be less than 4194304 px from 0",
			"regions[0].rings[0].vertices[1].y = -4.194304e+06: must be less than 4194304 px from 0",
			"regions[0].rings[0].vertices[2].x = 1e+300: must be less than 4194304 px from 0",
			"regions[0].rings[0].vertices[2].y = NaN: must be a finite number"}},
		{"last vertex only once", region(Ring{{1, 1}, {2, 2}, {nan, 0}}), Bounds{}, []string{
			"regions[0].rings[0].vertices[2].x = NaN: must be a finite number"}},
		{"vertices of a region", region(triangle, triangle), Bounds{MaxRegionVertices: 5}, []string{
			"regions[0].rings = 6 vertices: are too many: the limit is 5 vertices in a region"}},
		{"vertices of all", []Region{{Rings: []Ring{triangle}}, {Rings: []Ring{triangle}}}, Bounds{MaxVertices: 5},
			[]string{
				"regions = 6 vertices: are too many: the limit is 5 vertices in all regions together"}},
		{"fill rule", []Region{{Rings: []Ring{triangle}, Fill: 2}}, Bounds{}, []string{
			"regions[0].fill_rule = 2: must be 0 (NON_ZERO) or 1 (EVEN_ODD)"}},
		{"long name", []Region{{Rings: []Ring{triangle}, Name: strings.Repeat("x", 257)}}, Bounds{}, []string{
			`regions[0].name = "` + strings.Repeat("x", 64) + `…": has 257 bytes: the limit is 256`}},
		{"name is no text", []Region{{Rings: []Ring{triangle}, Name: "a\xff"}}, Bounds{}, []string{
			`regions[0].name = "a\xff": must be valid UTF-8`}},
		{"limits", []Region{{Rings: []Ring{triangle}, Limits: []string{"mean < 3", "mean < x", "meen < 3"}}}, Bounds{},
			[]string{
				`regions[0].limits[1] = "mean < x": column 8: expected a number, found "x"`,
				`regions[0].limits[2] = "meen < 3": column 1: expected a quantity (` + expectedQuantity +
					`), found "meen"`}},
		{"too many limits", []Region{{Rings: []Ring{triangle}, Limits: make([]string, 65)}}, Bounds{}, []string{
			"regions[0].limits = 65: are too many: the limit is 64"}},
		{"everything", []Region{
			{Name: "\x80", Fill: 9, Limits: []string{"x"}},
			{Rings: []Ring{{{1, nan}, {2, 2}, {3, 3}}}},
		}, Bounds{}, []string{
			`regions[0].name = "\x80": must be valid UTF-8`,
			"regions[0].fill_rule = 9: must be 0 (NON_ZERO) or 1 (EVEN_ODD)",
			"regions[0].rings = []: must hold at least 1 ring",
			`regions[0].limits[0] = "x": column 1: expected a quantity (` + expectedQuantity + `), found "x"`,
			"regions[1].rings[0].vertices[0].y = NaN: must be a finite number",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := NewSet(c.regions, c.bounds)
			if s != nil {
				t.Error("there is a set all the same")
			}
			var bad *kernels.InvalidError
			if !errors.As(err, &bad) {
				t.Fatalf("error %v is no InvalidError", err)
			}
			var got []string
			for _, v := range bad.Violations {
				got = append(got, v.String())
			}
			if !slices.Equal(got, c.want) || bad.More != 0 {
				t.Errorf("got  %q and %d more\nwant %q", got, bad.More, c.want)
			}
			line := "polygon: " + c.want[0]
			if n := len(c.want) - 1; n > 0 {
				line += fmt.Sprintf(" (and %d more)", n)
			}
			if err.Error() != line || strings.Contains(line, "\n") {
				t.Errorf("error is %q, want %q", err, line)
			}
		})
	}
}

func TestViolationsAreCapped(t *testing.T) {
	ring := make(Ring, 1000)
	for i := range ring {
		ring[i] = Point{nan, float64(i)}
	}
	_, err := NewSet([]Region{{Rings: []Ring{ring}}}, Bounds{})
	var bad *kernels.InvalidError
	if !errors.As(err, &bad) || len(bad.Violations) != 32 || bad.More != 968 {
		t.Fatalf("got %d violations and %d more of 1000", len(bad.Violations), bad.More)
	}
	if want := "polygon: regions[0].rings[0].vertices[0].x = NaN: must be a finite number (and 999 more)"; err.Error() != want {
		t.Errorf("error is %q, want %q", err, want)
	}
}

func TestNewSetTakes(t *testing.T) {
	big := make(Ring, 100_000)
	for i := range big {
		sin, cos := math.Sincos(float64(i) / float64(len(big)) * 2 * math.Pi)
		big[i] = Point{2000 + 1900*cos, 1000 + 900*sin}
	}
	most := math.Nextafter(maxCoordinate, 0)
	for _, c := range []struct {
		name   string
		region Region
		area   float64
	}{
		{"name of 256 bytes", Region{Name: strings.Repeat("ä", 128), Rings: []Ring{triangle}}, 8},
		{"no area", Region{Rings: []Ring{{{1, 1}, {5, 5}, {1, 1}}}}, 0},
		{"one point", Region{Rings: []Ring{{{1, 1}, {1, 1}, {1, 1}}}}, 0},
		{"the farthest", Region{Rings: []Ring{{{-most, -most}, {most, -most}, {most, most}, {-most, most}}}}, 1 << 46},
		{"hole", Region{Rings: []Ring{{{0, 0}, {9, 0}, {9, 9}, {0, 9}}, {{1, 1}, {1, 4}, {4, 4}, {4, 1}}}}, 72},
		{"same direction", Region{Rings: []Ring{{{0, 0}, {9, 0}, {9, 9}, {0, 9}}, {{1, 1}, {4, 1}, {4, 4}, {1, 4}}}},
			90},
		{"bow-tie", Region{Rings: []Ring{{{0, 0}, {4, 4}, {4, 0}, {0, 4}}}}, 0},
		{"100,000 vertices", Region{Rings: []Ring{big}}, nan},
	} {
		s, err := NewSet([]Region{c.region}, Bounds{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := s.areas[0]; got != c.area && !math.IsNaN(c.area) {
			t.Errorf("%s: area %v, want %v", c.name, got, c.area)
		}
		vertices := 0
		for _, r := range c.region.Rings {
			vertices += len(r)
		}
		if s.Len() != 1 || s.names[0] != c.region.Name || s.Vertices() != vertices || s.HasLimits() ||
			s.Limits(0) != nil {
			t.Errorf("%s: Len %d, Name %q, Vertices %d", c.name, s.Len(), s.names[0], s.Vertices())
		}
	}
}

func TestQuantise(t *testing.T) {
	for _, c := range []struct {
		in   float64
		want int32
	}{
		{0, 0}, {math.Copysign(0, -1), 0}, {1, 256}, {-1, -256}, {1.0 / 256, 1},
		{0.5 / 256, 0}, {1.5 / 256, 2}, {2.5 / 256, 2}, {-0.5 / 256, 0}, {-1.5 / 256, -2}, {-2.5 / 256, -2},
		{math.Nextafter(0.5/256, 1), 1}, {math.Nextafter(0.5/256, 0), 0},
		{math.Nextafter(1.5/256, 0), 1}, {5e-324, 0}, {-5e-324, 0},
		{0.1, 26}, {1e6 + 0.3, 256000077},
		{math.Nextafter(maxCoordinate, 0), driver.MaxCoord}, {-math.Nextafter(maxCoordinate, 0), -driver.MaxCoord},
	} {
		if got := quantise(c.in); got != c.want {
			t.Errorf("quantise(%v) = %d, want %d", c.in, got, c.want)
		}
	}
}

// TestEdges fixes what is handed to devices: closed rings on the grid without edges of no length.
func TestEdges(t *testing.T) {
	s := mustSet(t,
		Region{Rings: []Ring{{{0, 0}, {0, 0}, {2, 0}, {2, 1}, {0.001, 0.001}}}, Fill: EvenOdd},
		Region{Rings: []Ring{{{1, 1}, {1, 1}, {1, 1}}}},
		Region{Rings: []Ring{{{0, 0}, {1, 1}, {0, 0}}, {{0, 0}, {1, 0}, {0, 1}}}},
	)
	m := s.maskRegions()
	want := []driver.Edge{
		{X0: 0, Y0: 0, X1: 512, Y1: 0}, {X0: 512, Y0: 0, X1: 512, Y1: 256}, {X0: 512, Y0: 256, X1: 0, Y1: 0},
		{X0: 0, Y0: 0, X1: 256, Y1: 256}, {X0: 256, Y0: 256, X1: 0, Y1: 0},
		{X0: 0, Y0: 256, X1: 0, Y1: 0}, {X0: 0, Y0: 0, X1: 256, Y1: 0}, {X0: 256, Y0: 0, X1: 0, Y1: 256},
	}
	if !slices.Equal(m.Edges, want) {
		t.Errorf("edges are\n%v, want\n%v", m.Edges, want)
	}
	regions := []driver.Region{{First: 0, Count: 3, Fill: driver.EvenOdd}, {First: 3},
		{First: 3, Count: 5}}
	if !slices.Equal(m.Regions, regions) {
		t.Errorf("regions are\n%v, want\n%v", m.Regions, regions)
	}
}

// TestNewSetAllocates holds the number of allocations down: one slice for all edges, none for a region.
func TestNewSetAllocates(t *testing.T) {
	regions := manyRegions(10_000, 12, 4000, 2000)
	allocs := testing.AllocsPerRun(3, func() {
		if _, err := NewSet(regions, Bounds{}); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 10 {
		t.Errorf("%v allocations for 10,000 regions", allocs)
	}
}

// FuzzNewSet feeds regions of any floats: a set that is accepted has closed rings inside the range, and one that is not
// says why in one line.
func FuzzNewSet(f *testing.F) {
	seed := func(fill byte, limit string, v ...float64) {
		var b []byte
		for _, x := range v {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
		f.Add(fill, "name", limit, b)
	}
	seed(0, "mean < 3", 0, 0, 4, 0, 0, 4)
	seed(1, "p99.9 in [1, 2]", 0, nan, inf, 0, 0, 4, 1e300)
	seed(2, "", 4194303.9999, -4194304, 0, 1)
	f.Fuzz(func(t *testing.T, fill byte, name, limit string, data []byte) {
		r := Region{Name: name, Fill: FillRule(fill)}
		if limit != "" {
			r.Limits = []string{limit}
		}
		var ring Ring
		for ; len(data) >= 16; data = data[16:] {
			p := Point{math.Float64frombits(binary.LittleEndian.Uint64(data)),
				math.Float64frombits(binary.LittleEndian.Uint64(data[8:]))}
			ring = append(ring, p)
			if len(ring) == 7 {
				r.Rings = append(r.Rings, ring)
				ring = nil
			}
		}
		if ring != nil {
			r.Rings = append(r.Rings, ring)
		}
		s, err := NewSet([]Region{r}, Bounds{MaxRegionVertices: 1000})
		if (s == nil) == (err == nil) {
			t.Fatal(s, err)
		}
		if err != nil {
			var bad *kernels.InvalidError
			if !errors.As(err, &bad) || len(bad.Violations) == 0 || strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("error %q", err)
			}
			return
		}
		var sx, sy int64
		for _, e := range s.maskRegions().Edges {
			sx += int64(e.X1) - int64(e.X0)
			sy += int64(e.Y1) - int64(e.Y0)
			if e.X0 == e.X1 && e.Y0 == e.Y1 {
				t.Error("an edge of no length")
			}
			for _, v := range []int32{e.X0, e.Y0, e.X1, e.Y1} {
				if v < -driver.MaxCoord || v > driver.MaxCoord {
					t.Errorf("coordinate %d", v)
				}
			}
		}
		if sx != 0 || sy != 0 {
			t.Error("the rings are not closed")
		}
		if a := s.areas[0]; !(a >= 0 && a <= 1<<60) {
			t.Errorf("area %v", a)
		}
	})
}

// Sets are compiled in pieces: pause is called for each so many vertices and regions, and its error ends the work.
func TestNewSetInPieces(t *testing.T) {
	ring := make(Ring, 50*setPiece)
	for i := range ring {
		ring[i] = Point{float64(i % 1000), float64(i / 1000 * (1 + i%2))}
	}
	few := make([]Region, 10*setPiece)
	for i := range few {
		few[i].Rings = []Ring{{{0, 0}, {4, 0}, {4, 4}}}
	}
	for name, regions := range map[string][]Region{"one ring": {{Rings: []Ring{ring}}}, "regions": few,
		"short rings": {{Rings: slices.Repeat([]Ring{ring[:3]}, 10*setPiece)}}} {
		vertices := 0
		for _, r := range regions {
			for _, ring := range r.Rings {
				vertices += len(ring)
			}
		}
		pauses := 0
		set, err := NewSetInPieces(regions, nil, Bounds{}, func() error { pauses++; return nil })
		want, wantErr := NewSet(regions, Bounds{})
		if err != nil || wantErr != nil || !reflect.DeepEqual(set, want) {
			t.Errorf("%s: %v, %v, the same: %t", name, err, wantErr, reflect.DeepEqual(set, want))
		}
		if least := vertices/setPiece - 1; pauses < least || pauses > 10*least+10 {
			t.Errorf("%s: %d pauses in %d vertices", name, pauses, vertices)
		}
		enough := errors.New("enough")
		pauses = 0
		set, err = NewSetInPieces(regions, nil, Bounds{}, func() error {
			if pauses++; pauses == 5 {
				return enough
			}
			return nil
		})
		if err != enough || set != nil || pauses != 5 {
			t.Errorf("%s: %v after %d pauses", name, err, pauses)
		}
	}
}
