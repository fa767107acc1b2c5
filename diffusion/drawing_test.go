package diffusion_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// stops are values from the first to the last place.
func stops(segments int, values ...[]float32) []diffusion.Stop {
	out := make([]diffusion.Stop, len(values))
	for i, v := range values {
		out[i] = diffusion.Stop{At: float64(segments*i) / float64(max(len(values)-1, 1)), Values: v}
	}
	return out
}

func straight(x0, y0, x1, y1 float64) []diffusion.Point {
	at := func(f float64) diffusion.Point { return diffusion.Point{X: x0 + (x1-x0)*f, Y: y0 + (y1-y0)*f} }
	return []diffusion.Point{at(0), at(1.0 / 3), at(2.0 / 3), at(1)}
}

// circle runs clockwise on a screen: its inside is to the right.
func circle(cx, cy, r float64) []diffusion.Point {
	const k = 0.5522847498
	var out []diffusion.Point
	for i := range 4 {
		s, c := math.Sincos(float64(i) * math.Pi / 2)
		x, y := cx+r*c, cy+r*s
		out = append(out, diffusion.Point{X: x, Y: y}, diffusion.Point{X: x - k*r*s, Y: y + k*r*c})
		s, c = math.Sincos(float64(i+1) * math.Pi / 2)
		out = append(out, diffusion.Point{X: cx + r*c + k*r*s, Y: cy + r*s - k*r*c})
	}
	return append(out, out[0])
}

// A circle with one colour inside and another outside makes a picture of those two, exact but for its border.
func TestSolveDrawing(t *testing.T) {
	d := openCPU(t, 64<<20)
	outside, inside := []float32{1, 0.5, 0}, []float32{0, 0.25, 1}
	p := &diffusion.Drawing{Width: 60, Height: 50, Channels: 3, Curves: []diffusion.Curve{
		{Points: circle(30, 25, 15), Left: stops(4, outside), Right: stops(4, inside)},
	}}
	got, err := diffusion.SolveDrawing(context.Background(), d, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Converged || got.VoidPixels != 0 || got.FixedPixels < 160 || got.FixedPixels > 300 || got.Backend != "cpu" {
		got.Values = nil
		t.Errorf("%+v", got)
	}
	check := func(name string, got []float32, width float64) {
		t.Helper()
		for i, v := range got {
			c, x, y := i/3000, float64(i%60)+0.5, float64(i%3000/60)+0.5
			want := outside[c]
			r := math.Hypot(x-30, y-25)
			if r < 15 {
				want = inside[c]
			}
			if math.Abs(r-15) > width && math.Abs(float64(v-want)) > 1e-3 {
				t.Fatalf("%s: channel %d of (%v, %v) is %v, want %v", name, c, x, y, v, want)
			}
		}
	}
	check("sharp", got.Values, 0.07) // as far as a line may be off, and a point from the grid
	// The same in steps, and blurred.
	p.Curves[0].Blur = []diffusion.BlurStop{{Sigma: 1.5}}
	blurred, err := diffusion.SolveDrawing(context.Background(), d, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	check("blurred", blurred.Values, 6)
	raster, err := diffusion.Rasterize(context.Background(), d, p)
	if err != nil {
		t.Fatal(err)
	}
	solved, err := diffusion.Solve(context.Background(), d, raster, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := diffusion.Blur(context.Background(), d,
		&diffusion.Planes{Width: 60, Height: 50, Channels: 4, Values: solved.Values})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(again.Values, blurred.Values) || again.Channels != 3 {
		t.Error("step by step the picture is another one")
	}
	for i, v := range blurred.Values[:3000] { // across the border it is about the integral of a Gaussian
		x, y := float64(i%60)+0.5, float64(i/60)+0.5
		r := math.Hypot(x-30, y-25) - 15
		if want := 0.5 + 0.5*math.Erf(r/1.5/math.Sqrt2); math.Abs(float64(v)-want) > 0.08 {
			t.Fatalf("blurred: (%v, %v) is %v, want about %v", x, y, v, want)
		}
	}
}

// A blur that differs along a curve does so in the picture, and one of 0 changes nothing.
func TestBlurAlongCurve(t *testing.T) {
	d := openCPU(t, 64<<20)
	p := &diffusion.Drawing{Width: 64, Height: 128, Channels: 1, Curves: []diffusion.Curve{{
		Points: straight(32, -10, 32, 138), Left: stops(1, []float32{1}), Right: stops(1, []float32{0}),
	}}}
	sharp, err := diffusion.SolveDrawing(context.Background(), d, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.Curves[0].Blur = []diffusion.BlurStop{{At: 0, Sigma: 0}, {At: 0.5, Sigma: 0}, {At: 1, Sigma: 8}}
	got, err := diffusion.SolveDrawing(context.Background(), d, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := 0.0
	for y := range 128 {
		spread := 0.0 // of the edge
		for x := range 64 {
			spread += math.Abs(float64(got.Values[y*64+x] - sharp.Values[y*64+x]))
		}
		if y < 40 && spread > 0.5 {
			t.Errorf("row %d has spread %v, where nothing is blurred", y, spread)
		}
		if y > 80 && y < 120 && !(spread > last) {
			t.Errorf("row %d has spread %v, the one above %v", y, spread, last)
		}
		last = spread
	}
	if last < 4 {
		t.Errorf("the last row has spread %v", last)
	}
}

// What is given besides curves stays, under them; and a barrier parts what has no colours.
func TestDrawingOverConstraints(t *testing.T) {
	d := openCPU(t, 64<<20)
	p := &diffusion.Drawing{Width: 21, Height: 20, Channels: 1, Flags: make([]uint8, 420), Values: make([]float32, 420),
		Curves: []diffusion.Curve{
			{Points: straight(10, -1, 10, 21), Barrier: true},
		}}
	p.Flags[0], p.Flags[20] = diffusion.Fixed, diffusion.Fixed
	p.Values[0], p.Values[20] = 0.25, 0.75
	got, err := diffusion.SolveDrawing(context.Background(), d, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got.Values {
		if want := 0.25 + 0.5*float32(min(i%21/10, 1)); math.Abs(float64(v-want)) > 1e-3 {
			t.Fatalf("pixel %d is %v, want %v", i, v, want)
		}
	}
	// Blur is a constraint, too: what is given besides is sharp.
	p.Curves[0].Barrier = false
	p.Curves[0].Left, p.Curves[0].Blur = stops(1, []float32{1}), []diffusion.BlurStop{{Sigma: diffusion.MaxBlur}}
	raster, err := diffusion.Rasterize(context.Background(), d, p)
	if err != nil {
		t.Fatal(err)
	}
	if raster.Channels != 2 || raster.Values[420] != 0 || raster.Values[440] != 0 || raster.Values[420+10] != 1 ||
		raster.Values[10] != 1 || raster.Flags[9] != 0 {
		t.Errorf("%d channels, %v, %v", raster.Channels, raster.Flags[:21], raster.Values[420:441])
	}
}

// dense are many points of a curve, in order, with the directions there.
func dense(points []diffusion.Point) (at, along []diffusion.Point) {
	const n = 400
	for i := 0; i+3 < len(points); i += 3 {
		p := points[i : i+4]
		for k := range n {
			t := (float64(k) + 0.5) / n
			u := 1 - t
			w, dw := [4]float64{u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t},
				[4]float64{-u * u, u*u - 2*u*t, 2*u*t - t*t, t * t}
			var x, d diffusion.Point
			for j := range 4 {
				x.X, x.Y = x.X+w[j]*p[j].X, x.Y+w[j]*p[j].Y
				d.X, d.Y = d.X+dw[j]*p[j].X, d.Y+dw[j]*p[j].Y
			}
			at, along = append(at, x), append(along, d)
		}
	}
	return at, along
}

// Against curves sampled densely in floating point: what is fixed lies within a pixel of the curve, on the side whose
// value it has, and all that lies close to it is fixed.
func TestRasterizeAgainstSamples(t *testing.T) {
	d := openCPU(t, 64<<20)
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(1, 48).Draw(t, "width"), rapid.IntRange(1, 48).Draw(t, "height")
		n := rapid.IntRange(1, 2).Draw(t, "segments")
		points := make([]diffusion.Point, 3*n+1)
		for i := range points {
			points[i] = diffusion.Point{
				X: rapid.Float64Range(-0.3, 1.3).Draw(t, "x") * float64(w),
				Y: rapid.Float64Range(-0.3, 1.3).Draw(t, "y") * float64(h),
			}
		}
		p := &diffusion.Drawing{Width: w, Height: h, Channels: 1, Curves: []diffusion.Curve{
			{Points: points, Left: stops(n, []float32{1}), Right: stops(n, []float32{-1})},
		}}
		raster, err := diffusion.Rasterize(context.Background(), d, p)
		var bad *kernels.InvalidError
		if errors.As(err, &bad) {
			t.Skip(err) // outside, or a point
		}
		if err != nil {
			t.Fatal(err)
		}
		at, along := dense(points)
		for i, f := range raster.Flags {
			x, y := float64(i%w)+0.5, float64(i/w)+0.5
			nearest, side, clear := math.Inf(1), 0.0, true
			for k, q := range at {
				if r := math.Hypot(q.X-x, q.Y-y); r < nearest {
					nearest = r
					side = (along[k].Y*(x-q.X) - along[k].X*(y-q.Y)) / math.Hypot(along[k].X, along[k].Y)
				}
			}
			// Only where the curve runs straight past the pixel does the nearest point tell the side.
			for k, q := range at {
				if math.Hypot(q.X-x, q.Y-y) < 2 {
					s := along[k].Y*(x-q.X) - along[k].X*(y-q.Y)
					clear = clear && k > 0 && k+1 < len(at) && s*side > 0
				}
			}
			if f != 0 && nearest > 1.08 {
				t.Fatalf("(%v, %v) is fixed, %v from the curve", x, y, nearest)
			}
			if f != 0 && clear && math.Abs(side) > 0.1 && (raster.Values[i] > 0) != (side > 0) {
				t.Fatalf("(%v, %v) is %v to the left of the curve and has the value %v", x, y, side, raster.Values[i])
			}
		}
	})
}

// No path over neighbours, diagonal ones included, leads from inside a closed curve to the outside past what it fixes;
// and with a barrier the edges that are open don't either.
func TestClosedCurvesAreTight(t *testing.T) {
	d := openCPU(t, 64<<20)
	rapid.Check(t, func(t *rapid.T) {
		const w, h = 40, 36
		n := rapid.IntRange(1, 5).Draw(t, "segments")
		grid := rapid.SampledFrom([]float64{256, 2, 1}).Draw(t, "grid")
		place := func() diffusion.Point {
			return diffusion.Point{
				X: math.Floor(rapid.Float64Range(-5, w+5).Draw(t, "x")*grid) / grid,
				Y: math.Floor(rapid.Float64Range(-5, h+5).Draw(t, "y")*grid) / grid,
			}
		}
		var points []diffusion.Point
		for range 3 * n {
			points = append(points, place())
		}
		points = append(points, points[0])
		p := &diffusion.Drawing{Width: w, Height: h, Channels: 1, Curves: []diffusion.Curve{
			{Points: points, Left: stops(n, []float32{1}), Right: stops(n, []float32{-1}), Barrier: true},
		}}
		raster, err := diffusion.Rasterize(context.Background(), d, p)
		var bad *kernels.InvalidError
		if errors.As(err, &bad) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		at, _ := dense(points)
		winding := func(x, y float64) int { // of the curve around a place
			sum := 0.0
			for k := range at {
				a, b := at[k], at[(k+1)%len(at)]
				sum += math.Atan2((a.X-x)*(b.Y-y)-(a.Y-y)*(b.X-x), (a.X-x)*(b.X-x)+(a.Y-y)*(b.Y-y))
			}
			return int(math.Round(sum / 2 / math.Pi))
		}
		near := func(x, y float64) bool { // so that lines and samples may be on two sides of it
			return slices.ContainsFunc(at, func(q diffusion.Point) bool { return math.Hypot(q.X-x, q.Y-y) < 0.2 })
		}
		// Free pixels that touch have the same winding number, and so do those on both ends of an open edge.
		turns := make([]int, w*h)
		for i := range turns {
			turns[i] = winding(float64(i%w)+0.5, float64(i/w)+0.5)
		}
		for i := range turns {
			x, y := i%w, i/w
			for _, step := range [][2]int{{1, 0}, {0, 1}, {1, 1}, {-1, 1}} {
				x2, y2 := x+step[0], y+step[1]
				if x2 < 0 || x2 >= w || y2 >= h {
					continue
				}
				j := y2*w + x2
				free := raster.Flags[i]&diffusion.Fixed == 0 && raster.Flags[j]&diffusion.Fixed == 0
				open := step == [2]int{1, 0} && raster.Flags[i]&diffusion.BlockRight == 0 || step == [2]int{0, 1} &&
					raster.Flags[i]&diffusion.BlockDown == 0
				if (free || open) && turns[i] != turns[j] && !near(float64(x)+0.5, float64(y)+0.5) &&
					!near(float64(x2)+0.5, float64(y2)+0.5) {
					t.Fatalf("(%d, %d) and (%d, %d) touch, free %v, open %v; the curve winds %d and %d times "+
						"around them", x, y, x2, y2, free, open, turns[i], turns[j])
				}
			}
		}
	})
}

// Curves that cross or lie on each other: each pixel has the value of the one nearest to it, and of equals the last.
func TestCollidingCurves(t *testing.T) {
	d := openCPU(t, 16<<20)
	curve := func(x float64, v float32) diffusion.Curve {
		return diffusion.Curve{Points: straight(x, -1, x, 5), Left: stops(1, []float32{v}),
			Right: stops(1, []float32{-v})}
	}
	for _, x := range []struct {
		curves []diffusion.Curve
		want   []float32 // of pixels 2 to 5 of each row; 9 where none is fixed
	}{
		{[]diffusion.Curve{curve(4, 1)}, []float32{9, -1, 1, 9}},
		{[]diffusion.Curve{curve(4, 1), curve(4, 2)}, []float32{9, -2, 2, 9}},
		{[]diffusion.Curve{curve(4, 2), curve(4, 1)}, []float32{9, -1, 1, 9}},
		{[]diffusion.Curve{curve(3.75, 1), curve(4.25, 2)}, []float32{9, -1, 2, 9}},
		{[]diffusion.Curve{curve(4, 1), curve(5, 2)}, []float32{9, -1, -2, 2}},
		{[]diffusion.Curve{curve(4, 1), curve(4.875, 2)}, []float32{9, -1, -2, 2}},
		{[]diffusion.Curve{curve(4, 1), curve(5.125, 2)}, []float32{9, -1, 1, 2}},
		{[]diffusion.Curve{curve(3.125, 1), curve(5.125, 2)}, []float32{-1, 1, -2, 2}},
	} {
		p, err := diffusion.Rasterize(context.Background(), d,
			&diffusion.Drawing{Width: 9, Height: 4, Channels: 1, Curves: x.curves})
		if err != nil {
			t.Fatal(err)
		}
		for y := range 4 {
			got := make([]float32, 4)
			for i := range got {
				if got[i] = 9; p.Flags[y*9+2+i] != 0 {
					got[i] = p.Values[y*9+2+i]
				}
			}
			if !slices.Equal(got, x.want) {
				t.Errorf("%v and so on: row %d has %v, want %v", x.curves[0].Points[0], y, got, x.want)
			}
		}
	}
}

func TestDrawingRefusals(t *testing.T) {
	d := openCPU(t, 1<<20)
	nan, inf := math.NaN(), math.Inf(-1)
	for _, x := range []struct {
		says  string
		spoil func(d *diffusion.Drawing)
	}{
		{"width = 0: must be", func(d *diffusion.Drawing) { d.Width = 0 }},
		{"channels = 5: must be 1 to 4", func(d *diffusion.Drawing) { d.Channels = 5 }},
		{"channels = 4: must be at most 3 where a curve is blurred", func(d *diffusion.Drawing) { d.Channels = 4 }},
		{"curves = 0 of them: fix no pixel", func(d *diffusion.Drawing) { d.Curves = nil }},
		{"curves = 1 of them: fix no pixel", func(d *diffusion.Drawing) {
			d.Curves = d.Curves[:1]
			d.Curves[0].Points = straight(3.6, 3.6, 4.4, 4.4)
		}},
		{"curves[1].points = 3 points: must be 3n+1", func(d *diffusion.Drawing) {
			d.Curves[1].Points = d.Curves[1].Points[1:]
		}},
		{"curves[1].points = 0 points: must be 3n+1", func(d *diffusion.Drawing) { d.Curves[1].Points = nil }},
		{"curves[0].points[2].x = NaN: must be -1048576 to 1048576", func(d *diffusion.Drawing) {
			d.Curves[0].Points[2].X = nan
		}},
		{"curves[0].points[3].y = -Inf: must be", func(d *diffusion.Drawing) { d.Curves[0].Points[3].Y = inf }},
		{"curves[0].points[3].y = 1.048577e+06: must be", func(d *diffusion.Drawing) {
			d.Curves[0].Points[3].Y = 1<<20 + 1
		}},
		{"curves[0].points = all (3, 4): must not be all the same place", func(d *diffusion.Drawing) {
			d.Curves[0].Points = straight(3, 4, 3, 4)
		}},
		{"curves[1].points = between (21, 0) and (30, 9): lie outside of the canvas of 20x10",
			func(d *diffusion.Drawing) { d.Curves[1].Points = straight(21, 0, 30, 9) }},
		{"curves[1].points = between (0, -3) and (9, -1): lie outside", func(d *diffusion.Drawing) {
			d.Curves[1].Points = straight(0, -1, 9, -3)
		}},
		{"curves[1] = no stops: must have some", func(d *diffusion.Drawing) {
			d.Curves[1].Left, d.Curves[1].Right = nil, nil
		}},
		{"curves[0].left[0].at = NaN: must be 0 to 1", func(d *diffusion.Drawing) { d.Curves[0].Left[0].At = nan }},
		{"curves[0].left[1].at = 1.5: must be 0 to 1", func(d *diffusion.Drawing) { d.Curves[0].Left[1].At = 1.5 }},
		{"curves[0].right[0].at = -1: must be 0 to 1", func(d *diffusion.Drawing) { d.Curves[0].Right[0].At = -1 }},
		{"curves[0].left[1].at = 0.25: is less than 0.5", func(d *diffusion.Drawing) {
			d.Curves[0].Left[0].At, d.Curves[0].Left[1].At = 0.5, 0.25
		}},
		{"curves[0].left[1].values = 2 values: must be 1", func(d *diffusion.Drawing) {
			d.Curves[0].Left[1].Values = make([]float32, 2)
		}},
		{"curves[0].right[0].values[0] = -Inf: must be -1099511627776 to", func(d *diffusion.Drawing) {
			d.Curves[0].Right[0].Values[0] = float32(inf)
		}},
		{"curves[1].blur[0].sigma = NaN: must be 0 to 100", func(d *diffusion.Drawing) {
			d.Curves[1].Blur[0].Sigma = nan
		}},
		{"curves[1].blur[0].sigma = 101: must be 0 to 100", func(d *diffusion.Drawing) {
			d.Curves[1].Blur[0].Sigma = 101
		}},
		{"curves[1].blur[1].at = 2: must be 0 to 1", func(d *diffusion.Drawing) { d.Curves[1].Blur[1].At = 2 }},
		{"flags = 3 values: must be 200", func(d *diffusion.Drawing) { d.Flags = make([]uint8, 3) }},
		{"values = 1 values: must be 200", func(d *diffusion.Drawing) {
			d.Flags, d.Values = make([]uint8, 200), make([]float32, 1)
		}},
		{"values = 1 values: must be none", func(d *diffusion.Drawing) { d.Values = make([]float32, 1) }},
		{"values[channel 0, pixel (3, 0)] = NaN: must be -1099511627776 to", func(d *diffusion.Drawing) {
			d.Flags, d.Values = make([]uint8, 200), make([]float32, 200)
			d.Flags[3], d.Values[3] = diffusion.Fixed, float32(nan)
		}},
	} {
		p := &diffusion.Drawing{Width: 20, Height: 10, Channels: 1, Curves: []diffusion.Curve{
			{Points: straight(1, 1, 9, 9), Left: stops(1, []float32{0}, []float32{1}), Right: stops(1, []float32{2})},
			{Points: straight(1, 9, 9, 1), Left: stops(1, []float32{0}),
				Blur: []diffusion.BlurStop{{}, {At: 1, Sigma: 2}}},
		}}
		x.spoil(p)
		_, err := diffusion.SolveDrawing(context.Background(), d, p, nil)
		var bad *kernels.InvalidError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%v, want %q", err, x.says)
		}
	}
	good := diffusion.Drawing{Width: 20, Height: 10, Channels: 1,
		Curves: []diffusion.Curve{{Points: straight(1, 1, 9, 9), Left: stops(1, []float32{0})}}}
	var bad *kernels.InvalidError
	walled := good
	walled.Curves = slices.Clone(good.Curves)
	walled.Curves[0].Barrier = true
	for _, x := range []struct {
		drawing *diffusion.Drawing
		method  diffusion.Method
		says    string // nothing where it can be solved
	}{
		{&good, 9, "method = 9: must be"},
		{&walled, diffusion.VariableStencil, "method = VARIABLE_STENCIL: looks across"},
		{&good, diffusion.VariableStencil, ""},
		{&walled, diffusion.Multigrid, ""},
	} {
		opts := &diffusion.Options{Method: x.method}
		_, solved := diffusion.SolveDrawing(context.Background(), d, x.drawing, opts)
		_, rendered := diffusion.Render(context.Background(), d, x.drawing, &diffusion.Target{Format: kernels.Gray8,
			Pixels: diffusion.Pixels{Host: make([]byte, 200)}}, opts)
		for what, err := range map[string]error{"SolveDrawing": solved, "Render": rendered,
			"Check": x.drawing.Check(x.method)} {
			if (err == nil) != (x.says == "") || err != nil && !errors.As(err, &bad) ||
				err != nil && !strings.Contains(err.Error(), x.says) {
				t.Errorf("%s by %v: %v, want %q", what, x.method, err, x.says)
			}
		}
	}
	if _, err := diffusion.SolveDrawing(context.Background(), d, &good,
		&diffusion.Options{Start: make([]float32, 199)}); !errors.As(err, &bad) || bad.Violations[0].Path.String() != "start" {
		t.Errorf("a start of 199 values: %v", err)
	}
}

// Each op of a drawing in turn fails; the next call works.
func TestDrawingFaults(t *testing.T) {
	p := &diffusion.Drawing{Width: 20, Height: 10, Channels: 1, Curves: []diffusion.Curve{
		{Points: straight(1, 1, 9, 9), Left: stops(1, []float32{0}, []float32{1}),
			Blur: []diffusion.BlurStop{{Sigma: 2}}},
	}}
	tried := 0
	for f := range devicetest.Faults(cpu.New(cpu.Options{}), driver.ErrOutOfMemory) {
		tried++
		d, err := kernels.Open(f, kernels.Config{MemoryBytes: 1 << 20})
		if err != nil {
			continue
		}
		if _, err = diffusion.SolveDrawing(context.Background(), d, p, nil); err != nil &&
			!errors.Is(err, f.Failure().Err) {
			t.Errorf("%+v: %v", f.Failure(), err)
		}
		if used, kept := d.Memory().Used, d.Memos().Bytes; used != kept {
			t.Errorf("%+v: %d bytes are in use after it, %d of them by set-ups that are kept", f.Failure(), used, kept)
		}
		if err != nil {
			if _, err := diffusion.SolveDrawing(context.Background(), d, p, nil); err != nil {
				t.Errorf("%+v: the next call: %v", f.Failure(), err)
			}
		}
		if err := d.Close(); err != nil {
			t.Errorf("%+v: Close: %v", f.Failure(), err)
		}
	}
	if tried < 10 {
		t.Errorf("%d faults were tried", tried)
	}
}

func ExampleSolveDrawing() {
	dev, err := kernels.Open(cpu.New(cpu.Options{}), kernels.Config{MemoryBytes: 1 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	// A curve from top to bottom, whose left side is that of larger x.
	s, err := diffusion.SolveDrawing(context.Background(), dev,
		&diffusion.Drawing{Width: 8, Height: 2, Channels: 1, Curves: []diffusion.Curve{{
			Points: []diffusion.Point{{X: 4, Y: -1}, {X: 4, Y: 0}, {X: 4, Y: 1}, {X: 4, Y: 3}},
			Left:   []diffusion.Stop{{Values: []float32{1}}},
			Right:  []diffusion.Stop{{Values: []float32{0.5}}},
		}}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.2f\n", s.Values[:8])
	// Output: [0.50 0.50 0.50 0.50 1.00 1.00 1.00 1.00]
}
