package polygon

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// plane solves the normal equations in fractions, about the means, and measures what is left pixel by pixel.
func (c *oracleChannel) plane() (p [3]float64, ok bool) {
	n := int64(len(c.at))
	if n == 0 {
		return p, false
	}
	// Deviations from means, times n, are integers.
	var sums [3]int64
	for _, a := range c.at {
		for k := range sums {
			sums[k] += a[k]
		}
	}
	off := make([][3]*big.Int, n)
	for i, a := range c.at {
		for k := range sums {
			off[i][k] = big.NewInt(n*a[k] - sums[k])
		}
	}
	mul := func(a, b *big.Int) *big.Int { return new(big.Int).Mul(a, b) }
	var s [3][3]*big.Int
	for i := range s {
		for k := range s {
			s[i][k] = new(big.Int)
			for _, d := range off {
				s[i][k].Add(s[i][k], mul(d[i], d[k]))
			}
		}
	}
	det := func(a, b, c, d *big.Int) *big.Int { return new(big.Int).Sub(mul(a, d), mul(b, c)) }
	all := det(s[0][0], s[0][1], s[1][0], s[1][1])
	if all.Sign() == 0 {
		return p, false
	}
	x, y := det(s[0][2], s[0][1], s[1][2], s[1][1]), det(s[0][0], s[0][2], s[1][0], s[1][2]) // slopes, times all
	left := new(big.Int)                                                                     // residuals, times n and all
	for _, d := range off {
		r := new(big.Int).Sub(mul(d[2], all), new(big.Int).Add(mul(d[0], x), mul(d[1], y)))
		left.Add(left, mul(r, r))
	}
	times := mul(big.NewInt(n), all)
	root := new(big.Float).SetPrec(400).SetRat(new(big.Rat).SetFrac(left, mul(big.NewInt(n), mul(times, times))))
	residual, _ := root.Sqrt(root).Float64()
	slope := func(v *big.Int) float64 { return nearest(new(big.Rat).SetFrac(v, all)) }
	return [3]float64{slope(x), slope(y), residual}, true
}

// TestPlane: ramps have their slopes exactly, pixels on a line have no plane, and limits say so.
func TestPlane(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	f := kernels.Picture{Width: 40, Height: 30, Format: driver.Gray16(16), Data: [][]byte{make([]byte, 2*40*30)}}
	for y := range 30 {
		for x := range 40 {
			v := 1000 + 7*x - 3*y
			f.Data[0][2*(y*40+x)], f.Data[0][2*(y*40+x)+1] = byte(v), byte(v>>8)
		}
	}
	limits := []string{"plane.x in [7, 7]", "plane.y == -3", "plane.residual <= 0"}
	region := func(name string, r ...Ring) Region { return Region{Name: name, Rings: r, Limits: limits} }
	diagonal := Region{Name: "diagonal", Limits: limits, Mask: []Run{{Y: 3, X0: 3, X1: 4}, {Y: 4, X0: 4, X1: 5},
		{Y: 5, X0: 5, X1: 6}}}
	set := mustSet(t, region("part", Ring{{1.5, 2}, {31, 4}, {12, 29}}), region("row", rectangle(3, 4, 9, 1)), diagonal,
		region("outside", rectangle(30, 20, 30, 20)))
	res, err := Reduce(t.Context(), dev, set, f, Reductions{Statistics: Plane}, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		has     bool
		verdict Verdict
		reason  string
	}{{true, Pass, ""}, {false, Fail, "plane.x has no value: its pixels are on a line"},
		{false, Fail, "plane.residual has no value"}, {true, Fail, outsideFrame}} {
		r := res.Regions[i]
		c := r.Channels[0]
		if c.Has != Plane && want.has || c.Has != 0 && !want.has {
			t.Errorf("%s has %v", r.Name, c.Has)
		}
		if want.has && (c.PlaneX != 7 || c.PlaneY != -3 || c.PlaneResidual != 0) {
			t.Errorf("%s: %+v", r.Name, c)
		}
		reasons := ""
		for _, l := range r.Limits {
			reasons += l.Reason + "\n"
		}
		if r.Verdict != want.verdict || !strings.Contains(reasons, want.reason) {
			t.Errorf("%s: %v, %q", r.Name, r.Verdict, reasons)
		}
	}
	for expr, says := range map[string]string{
		"plane < 3":                 `expected ".x" or ".y"`,
		"plane.z < 3":               `expected "x", "y" or "residual"`,
		"hue.plane.x < 3":           "hue is an angle",
		"centroid.residual < 3":     `expected "x" or "y"`,
		"plane.residual < 3 mm":     "mm",
		"covered.plane.x < 3":       "expected",
		"plane.residual <= 32767.5": "can't fail",
	} {
		l, err := ParseLimit(expr)
		if err == nil {
			_, err = NewSet([]Region{{Rings: []Ring{rectangle(1, 1, 5, 5)}, Limits: []string{expr}}}, Bounds{})
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v, want %q", expr, l, err, says)
		}
	}
}

// TestPlaneLate: prepared regions whose first call wanted no plane have one when it is asked for, and keep it.
func TestPlaneLate(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	f := noise(50, 40, driver.RGB8)
	set := mustSet(t, Region{Rings: []Ring{{{2, 1}, {47, 9}, {20, 38}}}})
	p, err := set.Prepare(t.Context(), dev, 50, 40, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	want, err := Reduce(t.Context(), dev, set, f, Reductions{Statistics: Plane}, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	for _, asked := range []Statistics{Mean, Plane, Mean, Plane} {
		res, err := p.Reduce(t.Context(), f, Reductions{Statistics: asked})
		if err != nil {
			t.Fatal(err)
		}
		for c, got := range res.Regions[0].Channels {
			if got.Has != asked || asked == Plane && got.PlaneX != want.Regions[0].Channels[c].PlaneX {
				t.Errorf("%v: %+v", asked, got)
			}
		}
	}
	if p.known.Load().moments == nil {
		t.Error("the moments aren't kept")
	}
}

// TestPlaneColors: channels that are derived in steps have slopes of values, and hues none.
func TestPlaneColors(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	f := noise(31, 17, driver.RGB8)
	set := mustSet(t, Region{Rings: []Ring{rectangle(2, 3, 25, 11)}})
	res, err := Reduce(t.Context(), dev, set, f, Reductions{Statistics: Plane | StdDev | Sum,
		Colors: Colors{Spaces: ColorLab | ColorHSV | ColorGray}}, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range res.Regions[0].Channels {
		if c.Channel == Hue {
			if c.Has.Has(Plane) || c.PlaneX != 0 {
				t.Errorf("%+v", c)
			}
			continue
		}
		// What is left is at most the spread, and the slopes explain the rest.
		if !c.Has.Has(Plane) || c.PlaneX == 0 || !(c.PlaneResidual <= c.StdDev && c.PlaneResidual > 0.9*c.StdDev) {
			t.Errorf("%+v", c)
		}
	}
}

// TestPlaneExtremes: the sums of the largest frames don't overflow, and numbers are the nearest ones.
func TestPlaneExtremes(t *testing.T) {
	const side = 1 << 20
	var m moments
	s := driver.MaskStats{}
	var c oracleChannel
	put := func(x, y int, v uint64) {
		m.add(x, x+1, y)
		s.Count++
		s.Sum, s.SumSq = s.Sum+v, s.SumSq+v*v
		s.SumX, s.SumY, s.SumVX, s.SumVY = s.SumX+uint64(x), s.SumY+uint64(y), s.SumVX+v*uint64(x), s.SumVY+v*uint64(y)
		c.at = append(c.at, [3]int64{int64(x), int64(y), int64(v)})
	}
	rng := seed.New(t, 5, 22)
	for k := range 400 {
		switch k % 4 {
		case 0:
			put(side-1-rng.IntN(3), side-1-rng.IntN(3), 65535)
		case 1:
			put(rng.IntN(3), side-1-rng.IntN(2), uint64(rng.IntN(65536)))
		default:
			put(rng.IntN(side), rng.IntN(side), uint64(rng.IntN(65536)))
		}
		if k%37 != 3 && k < 390 {
			continue
		}
		x, y, residual, ok := m.plane(&s)
		want, wantOK := c.plane()
		if ok != wantOK || [3]float64{x, y, residual} != want {
			t.Fatalf("%d pixels: %v %v %v %v, want %v %v", k+1, x, y, residual, ok, want, wantOK)
		}
	}
	// Runs are their pixels.
	var run, one moments
	run.add(3, 40, side-1)
	run.add(0, 2, 7)
	for x := 3; x < 40; x++ {
		one.add(x, x+1, side-1)
	}
	one.add(0, 1, 7)
	one.add(1, 2, 7)
	if run != one {
		t.Errorf("%+v, want %+v", run, one)
	}
	// A whole frame of 2^32 pixels, of one value: nothing overflows, and it is flat.
	m, s = moments{}, driver.MaskStats{}
	for y := 0; y < side; y += side / 4096 {
		m.add(0, side, y)
	}
	s.Count, s.SumX, s.SumY = m.n, m.x, m.y
	s.Sum, s.SumSq = 9*m.n, 81*m.n
	s.SumVX, s.SumVY = 9*m.x, 9*m.y
	if x, y, residual, ok := m.plane(&s); !ok || x != 0 || y != 0 || residual != 0 {
		t.Errorf("%v %v %v %v", x, y, residual, ok)
	}
}

// A device whose moments are not those of the region's pixels gives no plane, but an error.
func TestPlaneInconsistent(t *testing.T) {
	p, err := newPlan(mustSet(t, Region{Rings: []Ring{rectangle(1, 1, 3, 3)}}), noise(8, 8, driver.Gray8), Reductions{
		Statistics: Plane})
	if err != nil {
		t.Fatal(err)
	}
	d := newDeriver(p, known{})
	if err := d.measureMoments(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	good := driver.MaskStats{Count: 9, SumX: 18, SumY: 18}
	if m, err := d.momentsOf(0, &good, ""); m == nil || err != nil {
		t.Fatalf("%v, %v", m, err)
	}
	for _, bad := range []driver.MaskStats{{Count: 8, SumX: 18, SumY: 18}, {Count: 9, SumX: 17, SumY: 18},
		{Count: 9, SumX: 18, SumY: 19}} {
		if _, err := d.momentsOf(0, &bad, ""); !errors.Is(err, ErrInconsistent) {
			t.Errorf("%+v: %v", bad, err)
		}
		if m, err := d.momentsOf(0, &bad, "lines 3 to 4 never came"); m != nil || err != nil {
			t.Errorf("%+v: %v, %v", bad, m, err)
		}
	}
}
