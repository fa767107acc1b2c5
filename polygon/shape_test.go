package polygon

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/race"
	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// The window that shapes of these tests are looked at in, pixel by pixel.
const shapeSide = 48

// pixelsOf are the pixels of the last of the regions within the window.
func pixelsOf(t testing.TB, regions ...Region) []Run {
	t.Helper()
	s, err := NewSet(regions, Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	return window(s.Pixels(s.Len() - 1))
}

// window cuts a mask to the window.
func window(mask []Run) []Run {
	out := []Run{}
	for _, u := range mask {
		if u.X0, u.X1 = max(u.X0, 0), min(u.X1, shapeSide); u.Y >= 0 && u.Y < shapeSide && u.X0 < u.X1 {
			out = append(out, u)
		}
	}
	return out
}

// where are the pixels of the window of which in says so, given twice their centres' coordinates: odd integers.
func where(in func(x2, y2 int) bool) []Run {
	out := []Run{}
	for y := range int32(shapeSide) {
		for x := range int32(shapeSide) {
			if in(int(2*x+1), int(2*y+1)) {
				out = AppendRun(out, Run{Y: y, X0: x, X1: x + 1})
			}
		}
	}
	return out
}

// grid is a coordinate in [0, side) on the grid of 1/256 px, or of 1/2 px.
func gridPoint(c choices, side int) float64 {
	if c.IntN(2) == 0 {
		return float64(c.IntN(2*side)) / 2
	}
	return float64(c.IntN(256*side)) / 256
}

// TestFigures: circles, rings, sectors and rectangles have the pixels that their definitions say, in fractions.
func TestFigures(t *testing.T) {
	rng := testseed.New(t, 2, 6)
	r := func(v float64) *big.Rat { return new(big.Rat).SetFloat64(v) }
	half := func(n int) *big.Rat { return big.NewRat(int64(n), 2) }
	// less says whether (x2/2 - x)² + (y2/2 - y)² < d².
	less := func(x2, y2 int, x, y, d float64) bool {
		dx, dy := new(big.Rat).Sub(half(x2), r(x)), new(big.Rat).Sub(half(y2), r(y))
		sum := new(big.Rat).Add(dx.Mul(dx, dx), dy.Mul(dy, dy))
		return sum.Cmp(new(big.Rat).Mul(r(d), r(d))) < 0
	}
	for range 60 {
		x, y, d, e := gridPoint(rng, 50), gridPoint(rng, 50), gridPoint(rng, 30), gridPoint(rng, 30)
		d, e = min(d, e), max(d, e)
		got := pixelsOf(t, Region{Shape: fmt.Sprintf("circle(%v, %v, %v)", x, y, e)})
		want := where(func(x2, y2 int) bool { return less(x2, y2, x, y, e) })
		if !slices.Equal(got, want) {
			t.Fatalf("circle(%v, %v, %v): %v, want %v", x, y, e, got, want)
		}
		got = pixelsOf(t, Region{Shape: fmt.Sprintf("ring(%v, %v, %v, %v)", x, y, d, e)})
		want = where(func(x2, y2 int) bool { return less(x2, y2, x, y, e) && !less(x2, y2, x, y, d) })
		if !slices.Equal(got, want) {
			t.Fatalf("ring(%v, %v, %v, %v): %v, want %v", x, y, d, e, got, want)
		}
		x1, y1 := x+gridPoint(rng, 20), y+gridPoint(rng, 20)
		round := math.Floor(256*min(x1-x, y1-y)/2*float64(rng.IntN(5))/4) / 256
		got = pixelsOf(t, Region{Shape: fmt.Sprintf("rect(%v, %v, %v, %v, %v)", x, y, x1, y1, round)})
		want = where(func(x2, y2 int) bool {
			px, py := float64(x2)/2, float64(y2)/2
			dx, dy := max(x+round-px, px-(x1-round), 0), max(y+round-py, py-(y1-round), 0)
			inside := px >= x && px < x1 && py >= y && py < y1
			return inside && (dx == 0 || dy == 0 || less(x2, y2, px-dx, py-dy, round)) // differences of 1/256 are exact
		})
		if !slices.Equal(got, want) {
			t.Fatalf("rect(%v, %v, %v, %v, %v):\n%v, want\n%v", x, y, x1, y1, round, got, want)
		}
	}
	// A circle has πr² pixels, but for those that its border meets: no more than 8r + 4, as many squares as it enters.
	for _, d := range []float64{0, 0.5, 1, 7.25, 300} {
		n := 0
		s := mustSet(t, Region{Shape: fmt.Sprintf("circle(500.3, 400.7, %v)", d)})
		n = area(s.Pixels(0))
		if off := math.Abs(float64(n) - math.Pi*d*d); off > 8*d+4 || s.areas[0] != float64(n) {
			t.Errorf("a circle of radius %v has %d pixels, an area of %v", d, n, s.areas[0])
		}
	}
}

// TestSectors: a sector has the pixels of its ring in directions from its first to its second, as doubles tell where
// they are sure; sectors side by side share no pixel and leave none out, but for one at the centre.
func TestSectors(t *testing.T) {
	rng := testseed.New(t, 2, 7)
	for k := range 80 {
		x, y := gridPoint(rng, 48), gridPoint(rng, 48)
		from := float64(rng.IntN(800))/2 - 200
		to := from + float64(1+rng.IntN(720))/2
		if k%2 == 0 { // directions that meet centres
			x, y, from, to = math.Floor(x)+0.5, math.Floor(y)+0.5, float64(45*rng.IntN(8)), 0
			to = from + float64(45*(1+rng.IntN(8)))
		}
		name := fmt.Sprintf("sector(%v, %v, 3, 30, %v, %v)", x, y, from, to)
		got := pixelsOf(t, Region{Shape: name})
		want := where(func(x2, y2 int) bool {
			dx, dy := float64(x2)/2-x, float64(y2)/2-y
			if d := dx*dx + dy*dy; d < 9 || d >= 900 {
				return false
			}
			turn := math.Mod(math.Atan2(dy, dx)*180/math.Pi-from+1080, 360)
			end := to - from
			const near = 1e-7
			switch {
			case end == 360:
				return true
			case turn < near || turn > 360-near: // on the first direction, which is part of it
				return true
			case math.Abs(turn-end) < near: // on the second, which is not
				return false
			}
			return turn < end
		})
		if !slices.Equal(got, want) {
			t.Fatalf("%s:\n%v, want\n%v", name, got, want)
		}
	}
	sum := pixelsOf(t, Region{Shape: "circle(20.5, 20.5, 19)"})
	n := 0
	for i := range 7 {
		a, b := 360./7*float64(i), 360./7*float64(i+1)
		piece := pixelsOf(t, Region{Shape: fmt.Sprintf("sector(20.5, 20.5, 0, 19, %v, %v)", a, b)})
		n += area(piece)
		sum = Combine(Difference, sum, piece)
	}
	if !slices.Equal(sum, []Run{{Y: 20, X0: 20, X1: 21}}) {
		t.Errorf("seven sectors leave out %v", sum)
	}
}

// TestInsets: inset, outset and bands by the definition, each pixel against all others.
func TestInsets(t *testing.T) {
	if race.Enabled {
		t.Skip("it computes in one goroutine")
	}
	rng := testseed.New(t, 2, 8)
	n := 60
	if testing.Short() {
		n = 15
	}
	for range n {
		mask := randomMask(rng)
		d := pick(rng, 0, 0.5, 1, 1.25, 1.5, 2, math.Sqrt2, 3, 4.75)
		near := func(x, y int, inside bool) bool { // a pixel inside, or outside, at d at most
			for py := y - 5; py <= y+5; py++ {
				for px := x - 5; px <= x+5; px++ {
					limit := math.RoundToEven(d*256) / 256
					if holds(mask, px, py) == inside && float64((px-x)*(px-x)+(py-y)*(py-y)) <= limit*limit {
						return true
					}
				}
			}
			return false
		}
		m := Region{Name: "m", Mask: mask}
		for text, in := range map[string]func(x, y int) bool{
			"outset of \"m\" by %v":           func(x, y int) bool { return near(x, y, true) },
			"inset of \"m\" by %v px":         func(x, y int) bool { return !near(x, y, false) },
			"band of \"m\" inwards %v":        func(x, y int) bool { return holds(mask, x, y) && near(x, y, false) },
			"band of (\"m\") outwards %v px ": func(x, y int) bool { return !holds(mask, x, y) && near(x, y, true) },
		} {
			text = fmt.Sprintf(text, d)
			want := where(func(x2, y2 int) bool { return in(x2/2, y2/2) })
			if got := pixelsOf(t, m, Region{Shape: text}); !slices.Equal(got, want) {
				t.Fatalf("%s of %v:\n%v, want\n%v", text, mask, got, want)
			}
		}
	}
}

// TestMaps: a region of rings that is mapped is the region of its mapped vertices; pixels that are mapped are those
// that they go to; and what is mapped after it was combined is what is combined of the mapped.
func TestMaps(t *testing.T) {
	rng := testseed.New(t, 2, 9)
	maps := map[string]func(p Point) Point{
		`move of %s by (3.25, -7)`:           func(p Point) Point { return Point{p.X + 3.25, p.Y - 7} },
		`mirror of %s at x 12.5`:             func(p Point) Point { return Point{25 - p.X, p.Y} },
		`mirror of %s at y 9`:                func(p Point) Point { return Point{p.X, 18 - p.Y} },
		`turn of %s by 90 about (10, 12)`:    func(p Point) Point { return Point{10 - (p.Y - 12), 12 + p.X - 10} },
		`turn of %s by -180 about (10, 9.5)`: func(p Point) Point { return Point{20 - p.X, 19 - p.Y} },
		`scale of %s by (2, 0.5) about (4, 8)`: func(p Point) Point {
			return Point{2*p.X - 4, 0.5*p.Y + 4}
		},
		`scale of %s by 1.5 about (0, 0)`: func(p Point) Point { return Point{1.5 * p.X, 1.5 * p.Y} },
		`map of %s by (1, 0.25, 3, -0.5, 1, 2)`: func(p Point) Point {
			return Point{p.X + 0.25*p.Y + 3, -0.5*p.X + p.Y + 2}
		},
		`move of (turn of %s by 270 about (0, 0)) by (2, 30)`: func(p Point) Point { return Point{p.Y + 2, 30 - p.X} },
	}
	for range 15 {
		a, b := randomRegion(rng, 24, 24), randomRegion(rng, 24, 24)
		for _, r := range []*Region{&a, &b} {
			for _, ring := range r.Rings {
				for i, p := range ring { // so that doubles are exact
					ring[i] = Point{math.Mod(oracleFloat(p.X), 4096), math.Mod(oracleFloat(p.Y), 4096)}
				}
			}
		}
		a.Name, b.Name = "a", "b"
		mapped := func(r Region, to func(Point) Point) Region {
			out := Region{Name: r.Name, Fill: r.Fill}
			for _, ring := range r.Rings {
				var moved Ring
				for _, p := range ring {
					moved = append(moved, to(p))
				}
				out.Rings = append(out.Rings, moved)
			}
			return out
		}
		for text, to := range maps {
			for what, op := range map[string]string{"+": `("a" + "b")`, "-": `("a" - "b")`, "and": `("a" and "b")`,
				"xor": `("a" xor "b")`} {
				got := pixelsOf(t, a, b, Region{Shape: fmt.Sprintf(text, op)})
				want := pixelsOf(t, mapped(a, to), mapped(b, to), Region{Shape: fmt.Sprintf(`"a" %s "b"`, what)})
				if !slices.Equal(got, want) {
					t.Fatalf("%s: %v, %v:\n%v, want\n%v", fmt.Sprintf(text, op), a, b, got, want)
				}
			}
			one := pixelsOf(t, a, Region{Shape: fmt.Sprintf(text, `"a"`)})
			drawn := rasterOf(t, openOnce(t), mustSet(t, mapped(a, to)), shapeSide, shapeSide, driver.MethodDefault)
			if want := where(func(x2, y2 int) bool {
				return drawn.Data[0][y2/2*shapeSide+x2/2] != 0
			}); !slices.Equal(one, want) {
				t.Fatalf("%s of %v: %v, want %v", text, a, one, want)
			}
		}
	}
	for range 30 {
		mask := randomMask(rng)
		for text, to := range map[string]func(x, y int) (int, int){
			`move of "m" by (-3, 9)`:                func(x, y int) (int, int) { return x - 3, y + 9 },
			`mirror of "m" at x 8.5`:                func(x, y int) (int, int) { return 16 - x, y },
			`mirror of "m" at y 10`:                 func(x, y int) (int, int) { return x, 19 - y },
			`turn of "m" by 90 about (12, 12)`:      func(x, y int) (int, int) { return 23 - y, x },
			`turn of "m" by 180 about (10.5, 10.5)`: func(x, y int) (int, int) { return 20 - x, 20 - y },
			`turn of "m" by -90 about (20, 20)`:     func(x, y int) (int, int) { return y, 39 - x },
			`map of "m" by (0, 1, 4, 1, 0, 2)`:      func(x, y int) (int, int) { return y + 4, x + 2 },
		} {
			want := map[[2]int]bool{}
			for y := -3; y < 12; y++ {
				for x := -3; x < 17; x++ {
					tx, ty := to(x, y)
					want[[2]int{tx, ty}] = holds(mask, x, y)
				}
			}
			expected := where(func(x2, y2 int) bool { return want[[2]int{x2 / 2, y2 / 2}] })
			if got := pixelsOf(t, Region{Name: "m", Mask: mask}, Region{Shape: text}); !slices.Equal(got, expected) {
				t.Fatalf("%s of %v:\n%v, want\n%v", text, mask, got, expected)
			}
		}
	}
	// What is mapped of figures and distances.
	for text, same := range map[string]string{
		`turn of circle(20, 9, 6.5) by 90 about (20, 20)`:               `circle(31, 20, 6.5)`,
		`scale of ring(10, 5, 2, 3) by 2 about (0, 0)`:                  `ring(20, 10, 4, 6)`,
		`mirror of sector(20, 20, 0, 15, 10, 70) at x 20`:               `mirror of sector(20, 20, 0, 15, 10, 70) at x 20`,
		`turn of sector(20, 20, 2, 15, -20, 70) by 90 about (20, 20)`:   `sector(20, 20, 2, 15, 70, 160)`,
		`turn of rect(10, 10, 20, 14, 2) by 90 about (20, 20)`:          `rect(26, 10, 30, 20, 2)`,
		`move of (inset of rect(2, 2, 20, 20) by 3) by (5, 5)`:          `inset of rect(7, 7, 25, 25) by 3`,
		`scale of (outset of rect(2, 2, 9, 9) by 1.5) by 2 about (0,0)`: `outset of rect(4, 4, 18, 18) by 3`,
		`array of rect(1, 1, 3, 4) 3 by 2 every (5.5, 8)`: `rect(1,1,3,4) + rect(6.5,1,8.5,4) + rect(12,1,14,4) + ` +
			`rect(1,9,3,12) + rect(6.5,9,8.5,12) + rect(12,9,14,12)`,
		`turn of rect(10, 10, 20, 20) by 45 about (15, 15)`: `turn of rect(10, 10, 20, 20) by 225 about (15, 15)`,
	} {
		if got, want := pixelsOf(t, Region{Shape: text}), pixelsOf(t, Region{Shape: same}); !slices.Equal(got, want) ||
			len(got) == 0 {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	mirrored := pixelsOf(t, Region{Shape: `mirror of sector(20.5, 20.5, 1, 15, 10, 70) at x 20.5`})
	plain := pixelsOf(t, Region{Shape: `sector(20.5, 20.5, 1, 15, 110, 170)`}) // no centre lies on an end of these
	if !slices.Equal(mirrored, plain) {
		t.Errorf("a mirrored sector: %v, want %v", mirrored, plain)
	}
	turned := pixelsOf(t, Region{Shape: `turn of rect(10, 10, 34, 26, 5) by 30 about (22, 18)`})
	if n := float64(area(turned)); math.Abs(n-(24*16-(4-math.Pi)*25)) > 20 {
		t.Errorf("a turned rectangle has %v pixels", n)
	}
}

func oracleFloat(v float64) float64 { return nearest(oracleQuantise(v)) }

// openOnce opens a device for a test.
func openOnce(t *testing.T) *kernels.Device { return openCPU(t, kernels.Config{}) }

// TestShapeIsReduced: a region with a shape goes where others go, with the limits that it has, and may be made of
// regions behind it.
func TestShapeIsReduced(t *testing.T) {
	frame := kernels.Picture{Width: 40, Height: 30, Format: driver.Gray8, Data: [][]byte{make([]byte, 1200)}}
	for i := range frame.Data[0] {
		frame.Data[0][i] = byte(i)
	}
	shape := Region{Name: "band", Shape: `band of "U7" inwards 2 px - "hole"`,
		Limits: []string{"coverage == 1", "count > 3"}}
	box := Region{Name: "U7", Rings: []Ring{{{4, 3}, {30, 3}, {30, 20}, {4, 20}}}}
	hole := Region{Name: "hole", Shape: `circle(4, 3, 5)`}
	set := mustSet(t, shape, box, hole)
	got, err := Reduce(t.Context(), openOnce(t), set, frame, Reductions{}, MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	same := Region{Name: "band", Limits: shape.Limits, Mask: set.Pixels(0)}
	want, err := Reduce(t.Context(), openOnce(t), mustSet(t, same, box, hole), frame, Reductions{}, MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%+v", got.Regions) != fmt.Sprintf("%+v", want.Regions) || got.Verdict != Pass ||
		got.Regions[0].Count == 0 {
		t.Errorf("%+v, want %+v", got.Regions, want.Regions)
	}
	if set.Pixels(1) != nil || set.Vertices() != 4+len(set.Pixels(0))+len(set.Pixels(2)) {
		t.Errorf("%v, %d vertices", set.Pixels(1), set.Vertices())
	}
}

func TestShapesRefuse(t *testing.T) {
	box := Region{Name: "a", Rings: []Ring{{{0, 0}, {9, 0}, {9, 9}}}}
	mask := Region{Name: "m", Mask: []Run{{Y: 1, X0: 2, X1: 4}}}
	deep := strings.Repeat("(", 65) + `"a"` + strings.Repeat(")", 65)
	for _, c := range []struct{ shape, want string }{
		{`"b"`, `column 1: no region is called "b"`},
		{`"a" + "twice"`, `column 7: several regions are called "twice"`},
		{`"a" +`, "column 6: expected a region's name in double quotes"},
		{`"a" "m"`, `column 5: expected +, -, xor, and, or the end, found "\"m\""`},
		{`"a" -3`, `column 5: expected white space behind the sign, and a shape, found "-3"`},
		{`square(1)`, `column 1: expected a region's name`},
		{`circle(1, 2)`, `column 12: expected ,, found ")"`},
		{`circle(1, 2, 3, 4)`, `column 15: expected ), found ","`},
		{`circle(1, 2, -3)`, "column 1: a radius of -3: must not be negative"},
		{`circle(1, 2, 4194304)`, "column 14: 4194304: its magnitude must be below 4194304"},
		{`circle(4194000, 2, 400)`, "column 1: the circle reaches beyond 4194304 px from 0"},
		{`ring(1, 2, 4, 3)`, "column 1: radii of 4 and 3"},
		{`sector(1, 2, 0, 3, 10, 371)`, "column 1: from 10 to 371 degrees"},
		{`sector(1, 2, 0, 3, 10, 10)`, "column 1: from 10 to 10 degrees"},
		{`rect(3, 1, 2, 9)`, "column 1: corners (3, 1) and (2, 9)"},
		{`rect(1, 1, 5, 9, 2.5)`, "column 1: a radius of 2.5: must be 0 to half of the shorter side"},
		{`rect(1, 1, 2, 4194303)`, "rows of pixels are too many: the limit is 1048576"},
		{`inset "a" by 3`, `column 7: expected of, found "\"a\""`},
		{`inset of "a" by 5000`, "column 17: a distance of 5000: must be 0 to 4096 px"},
		{`band of "a" sideways 3`, `column 13: expected inwards or outwards, found "sideways"`},
		{`move of "m" by (0.5, 1)`, "column 9: pixels can be moved by whole pixels"},
		{`turn of "m" by 45 about (0, 0)`, "column 9: pixels can be moved by whole pixels"},
		{`move of "a" by (4194303, 1)`, "a vertex comes to (4.194312e+06, 10): must be less than 4194304 px"},
		{`move of "m" by (4194302, 1)`, "a pixel comes to (4194304, 2): must be less than 4194304 px"},
		{`scale of "a" by 0 about (1, 1)`, "column 17: areas must change by a factor of 1e-6 to 1e6, not by 0"},
		{`scale of circle(1, 2, 3) by (1, 2) about (0, 0)`, "column 10: a circle stays one only"},
		{`scale of rect(1, 2, 9, 9, 1) by (1, 2) about (0, 0)`, "column 10: a round corner stays one only"},
		{`scale of (inset of "a" by 1) by (1, 2) about (0, 0)`, "column 11: distances can't be kept"},
		{`array of "a" 300 by 300 every (1, 1)`, "column 14: 300 by 300 copies: must be whole numbers from 1, and 65536 copies"},
		{`array of "a" 1.5 by 3 every (1, 1)`, "copies: must be whole numbers"},
		{`mirror of "a" at z 3`, `column 18: expected x or y, found "z"`},
		{deep, "column 65: shapes lie deeper in one another than 64"},
		{strings.Repeat(" ", MaxShape+1), "column 4097: the shape has 4097 bytes: the limit is 4096"},
		{`circle(1,2,3) + "s"`, `column 17: "s" is made of itself`},
		{`outset of "far" by 3`, "the distance reaches beyond 4194304 px from 0"},
		{`array of (outset of rect(0,0,5000,5000) by 4000) 200 by 200 every (1, 1)`,
			"the shapes of the set take too long"},
		{`inset of "wide" by 1`, "rows of pixels are too many: the limit is 1048576"},
	} {
		far := Region{Name: "far", Mask: []Run{{Y: 4194301, X1: 2}}}
		wide := Region{Name: "wide", Mask: []Run{{Y: -4194000, X1: 2}, {Y: 4194301, X1: 2}}}
		_, err := NewSet([]Region{box, mask, {Name: "twice", Mask: mask.Mask}, {Name: "twice", Mask: mask.Mask}, far,
			wide, {Name: "s", Shape: c.shape}}, Bounds{})
		var invalid *kernels.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) ||
			!strings.HasPrefix(invalid.Violations[0].Path.String(), "regions[6].shape") {
			t.Errorf("%s: %v, want %q", c.shape, err, c.want)
		}
	}
	for want, shapes := range map[string][]string{
		`column 10: "r0" is made of "r1", which is made of "r2", which is made of itself`: {"r1", "r2", "r0"},
		`column 10: "r1" is made of itself`:                                               {"r1", "r1"},
		`column 10: "r2": no region is called "r3"`:                                       {"r2", "r1", "r3"},
	} {
		var regions []Region
		for i, name := range shapes {
			regions = append(regions, Region{Name: fmt.Sprint("r", i), Shape: fmt.Sprintf("inset of %q by 1", name)})
		}
		_, err := NewSet(regions, Bounds{})
		var invalid *kernels.InvalidError
		if !errors.As(err, &invalid) || invalid.Violations[0].Reason != want {
			t.Errorf("%q: %v, want %q", shapes, err, want)
		}
	}
	var chain []Region
	for i := range 66 {
		chain = append(chain, Region{Name: fmt.Sprint("r", i), Shape: fmt.Sprintf(`inset of "r%d" by 1`, i+1)})
	}
	chain = append(chain, Region{Name: "r66", Shape: "circle(9, 9, 5)"})
	if _, err := NewSet(chain, Bounds{}); err == nil ||
		!strings.Contains(err.Error(), "column 10: regions are made of one another through more than 64") {
		t.Errorf("a chain of 67 regions: %v", err)
	}
	both := Region{Shape: `circle(1, 2, 3)`, Mask: mask.Mask}
	if _, err := NewSet([]Region{both}, Bounds{}); err == nil ||
		!strings.Contains(err.Error(), "a region has one of them") {
		t.Errorf("a shape and a mask: %v", err)
	}
	few := Bounds{MaxVertices: 9, MaxRegionVertices: 6}
	for shape, want := range map[string]string{
		`rect(0, 0, 1, 7)`:                           "7 rows of pixels are too many: the limit is 6",
		`array of rect(0,0,1,1) 4 by 2 every (2, 3)`: "8 runs of pixels are too many: the limit is 6",
		`rect(0, 0, 1, 6)`:                           "10 vertices and runs up to here are too many: the limit is 9",
	} {
		_, err := NewSet([]Region{{Mask: []Run{{X1: 1}, {Y: 1, X1: 1}, {Y: 2, X1: 1}, {Y: 3, X1: 1}}}, {Shape: shape}},
			few)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", shape, err, want)
		}
	}
	stop := errors.New("stop")
	calls := 0
	_, err := NewSetInPieces([]Region{{Shape: `outset of circle(900, 900, 800) by 50`}}, nil, Bounds{}, func() error {
		if calls++; calls == 9 {
			return stop
		}
		return nil
	})
	if err != stop {
		t.Errorf("a pause that ends it: %v", err)
	}
}

// TestShapesInMillimetres: shapes in mm have the pixels of those in pixels, by the scale and its origin, of the
// decimals as they are written.
func TestShapesInMillimetres(t *testing.T) {
	square, oblong := &Scale{X: 0.1, Y: 0.1, Origin: Point{12, 40}}, &Scale{X: 0.05, Y: 0.04, Origin: Point{-3.5, 8}}
	base := Region{Name: "a", Rings: []Ring{{{20, 50}, {60, 50}, {60, 90}, {20, 90}}}}
	for _, c := range []struct {
		scale  *Scale
		mm, px string
	}{
		{square, `circle(3 mm, 2mm, 0.3 mm)`, `circle(42, 60, 3)`},
		{square, `circle(42 px, 2 mm, 3px)`, `circle(42, 60, 3)`},
		{square, `ring(3 mm, 2 mm, .3 mm, 0.7 mm)`, `ring(42, 60, 3, 7)`},
		{square, `sector(3 mm, 2 mm, 0.3 mm, 0.7 mm, 10, 170)`, `sector(42, 60, 3, 7, 10, 170)`},
		{square, `rect(-0.3 mm, 0 mm, 3 mm, 2 mm, 0.1 mm)`, `rect(9, 40, 42, 60, 1)`},
		{square, `inset of "a" by 0.6 mm`, `inset of "a" by 6`},
		{square, `outset of "a" by 6 px`, `outset of "a" by 6`},
		{square, `band of "a" outwards 0.3 mm`, `band of "a" outwards 3`},
		{square, `move of "a" by (0.7 mm, -1.2 mm)`, `move of "a" by (7, -12)`},
		{oblong, `rect(1 mm, 1 mm, 2.5 mm, 3 mm)`, `rect(16.5, 33, 46.5, 83)`},
		{oblong, `move of "a" by (0.35 mm, 0.28 mm)`, `move of "a" by (7, 7)`},
		{oblong, `mirror of "a" at x 1.675 mm`, `mirror of "a" at x 30`},
		{oblong, `mirror of "a" at y 1.6 mm`, `mirror of "a" at y 48`},
		{oblong, `turn of "a" by 30 about (1.675 mm, 1.6 mm)`, `turn of "a" by 30 about (30, 48)`},
		{oblong, `array of "a" 2 by 3 every (2.5 mm, 2 mm)`, `array of "a" 2 by 3 every (50, 50)`},
	} {
		var runs [2][]Run
		for i, text := range []string{c.mm, c.px} {
			set, err := NewSetInPieces([]Region{base, {Shape: text}}, c.scale, Bounds{}, nil)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			runs[i] = set.Pixels(1)
		}
		if len(runs[1]) == 0 || !slices.Equal(runs[0], runs[1]) {
			t.Errorf("%s has other pixels than %s: %d runs and %d", c.mm, c.px, len(runs[0]), len(runs[1]))
		}
	}
	for _, c := range []struct {
		scale       *Scale
		shape, want string
	}{
		{nil, `circle(3 mm, 2, 1)`, "column 10: the regions have no scale, and mm needs one"},
		{oblong, `circle(3 mm, 2, 1 mm)`, "column 19: pixels are 0.05 by 0.04 mm, and a length in all directions in mm needs"},
		{square, `sector(3 mm, 2, 0, 3, 10 mm, 20)`, `column 26: expected ,, found "mm"`},
		{square, `circle(3 mm2, 2, 1)`, `column 12: expected ,, found "2"`},
		{square, `circle(500000 mm, 2, 1)`, "column 8: 500000: its magnitude must be below 4194304"},
		{square, `scale of "a" by 2 mm about (0, 0)`, `column 19: expected about, found "mm"`},
		{&Scale{X: 0, Y: 1}, `circle(3 mm, 2, 1)`, "scale.x = 0: must be"},
	} {
		if _, err := NewSetInPieces([]Region{base, {Shape: c.shape}}, c.scale, Bounds{}, nil); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.shape, err, c.want)
		}
	}
}

// FuzzRegionShape: any text is a mask in its form, or an error that says where.
func FuzzRegionShape(f *testing.F) {
	for _, s := range []string{
		`band of "U7" inwards 4 px`, `"U7" - "m" xor circle(3, 4, 5) and rect(0,0,9,9,2)`,
		`array of (turn of sector(9,9,2,7,-30,200) by 37.5 about (1,2)) 3 by 2 every (4.5, 9)`,
		`inset of mirror of "m" at x 3.5 by 1.5`, `map of "U7" by (1, 0.5, 0, -0.25, 1, 3)`, `outset of "s" by 1`,
		`(((`, ``,
		`circle(3 mm, 1e-9mm, 0.3 mm) - move of "U7" by (1 px, -0.5 mm)`, `circle(1e308 mm, 1e-320 mm, 1)`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		regions := []Region{{Name: "U7", Rings: []Ring{{{1, 1}, {20, 2}, {15, 19}}}},
			{Name: "m", Mask: []Run{{Y: 3, X0: 2, X1: 9}}}, {Name: "s", Shape: text}}
		set, err := NewSetInPieces(regions, &Scale{X: 0.1, Y: 0.1, Origin: Point{1, 2}},
			Bounds{MaxRegions: 9, MaxVertices: 4000, MaxRegionVertices: 3000}, nil)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("an error of more than one line: %q", err)
			}
			return
		}
		if _, err := NewSet([]Region{{Mask: append([]Run{}, set.Pixels(2)...)}}, Bounds{}); text != "" && err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
