package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/seed"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

const (
	pass = polyscanv1.Verdict_VERDICT_PASS
	fail = polyscanv1.Verdict_VERDICT_FAIL
	none = polyscanv1.Verdict_VERDICT_UNSPECIFIED
)

func square(x0, y0, x1, y1 float64) [][2]float64 {
	return [][2]float64{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}
}

func reverse(r [][2]float64) [][2]float64 {
	out := make([][2]float64, len(r))
	for i, p := range r {
		out[len(r)-1-i] = p
	}
	return out
}

// testOverlay is a gray frame of 1000 x 800 with a region of each kind.
func testOverlay() *overlay {
	img := image.NewGray(image.Rect(0, 0, 1000, 800))
	for i := range img.Pix {
		img.Pix[i] = 100
	}
	return &overlay{frame: img, title: "test.png", verdict: fail, regions: []overlayRegion{
		{"passed", [][][2]float64{square(100, 100, 300, 300)}, false, pass, false},
		{"failed", [][][2]float64{square(400, 100, 600, 300)}, false, fail, false},
		{"free", [][][2]float64{square(700, 100, 900, 300)}, false, none, false},
		{"hole", [][][2]float64{square(100, 450, 300, 650), reverse(square(150, 500, 250, 600))}, false, fail, false},
		{"no hole", [][][2]float64{square(400, 450, 600, 650), square(450, 500, 550, 600)}, false, fail, false},
		{"even-odd", [][][2]float64{square(700, 450, 900, 650), square(750, 500, 850, 600)}, true, fail, false},
	}}
}

func at(img image.Image, x, y int) color.NRGBA {
	return color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
}

// over is a translucent colour over gray.
func over(gray uint8, c color.NRGBA) color.NRGBA {
	mix := func(v uint8) uint8 {
		return uint8((uint32(v)*uint32(c.A) + uint32(gray)*(255-uint32(c.A)) + 127) / 255)
	}
	return color.NRGBA{mix(c.R), mix(c.G), mix(c.B), 255}
}

func near(a, b color.NRGBA, d int) bool {
	diff := func(x, y uint8) bool { return max(int(x), int(y))-min(int(x), int(y)) <= d }
	return diff(a.R, b.R) && diff(a.G, b.G) && diff(a.B, b.B) && diff(a.A, b.A)
}

func TestOverlayPixels(t *testing.T) {
	img, err := testOverlay().draw()
	if err != nil {
		t.Fatal(err)
	}
	if b := img.Bounds(); b.Dx() != 1000 || b.Dy() <= 800 || b.Dy() > 900 {
		t.Errorf("%v, want the frame's size and a footer", b)
	}
	gray := color.NRGBA{100, 100, 100, 255}
	for _, tt := range []struct {
		what string
		x, y int
		want color.NRGBA
	}{
		{"background", 50, 400, gray},
		{"inside pass", 200, 200, over(100, passColours.fill)},
		{"inside fail", 500, 200, over(100, failColours.fill)},
		{"inside none", 800, 200, over(100, noneColours.fill)},
		{"around the hole", 125, 550, over(100, failColours.fill)},
		{"in the hole", 200, 550, gray},
		{"no hole", 500, 550, over(100, failColours.fill)},
		{"even-odd hole", 800, 550, gray},
		{"outline of pass", 100, 200, passColours.line},
		{"outline of fail", 400, 200, failColours.line},
		{"outline of none", 700, 200, noneColours.line},
		{"outline of the hole", 150, 550, failColours.line},
		{"footer", 500, 805, footerColour},
	} {
		if got := at(img, tt.x, tt.y); !near(got, tt.want, 12) {
			t.Errorf("%s at (%d, %d): %v, want %v", tt.what, tt.x, tt.y, got, tt.want)
		}
	}
	// The halo: beside the line it is darker than the frame.
	if c := at(img, 397, 200); c.R >= 90 {
		t.Errorf("beside the outline: %v, want the halo", c)
	}
	// Labels: the pill of a failed region is red with white letters.
	if n := count(img, image.Rect(380, 60, 620, 100), func(c color.NRGBA) bool {
		return near(c, color.NRGBA{0xd0, 0x1f, 0x36, 255}, 12)
	}); n < 200 {
		t.Errorf("%d red pixels above the failed region, want its label", n)
	}
	// The legend shows all three colours and a red verdict.
	strip := image.Rect(0, 800, 1000, img.Bounds().Dy())
	for what, c := range map[string]color.NRGBA{"verdict": failColours.pill, "pass": passColours.line,
		"fail": failColours.line, "none": noneColours.line, "text": footerInk} {
		c.A = 255
		if n := count(img, strip, func(g color.NRGBA) bool { return near(g, c, 20) }); n < 8 {
			t.Errorf("%d pixels of %s in the legend", n, what)
		}
	}
}

func count(img image.Image, r image.Rectangle, is func(color.NRGBA) bool) int {
	n := 0
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			if is(at(img, x, y)) {
				n++
			}
		}
	}
	return n
}

func TestOverlayDeterministic(t *testing.T) {
	var pictures [2]bytes.Buffer
	for i := range pictures {
		img, err := testOverlay().draw()
		if err != nil {
			t.Fatal(err)
		}
		if err := png.Encode(&pictures[i], img); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(pictures[0].Bytes(), pictures[1].Bytes()) {
		t.Error("two pictures of the same differ")
	}
}

func TestOverlayScale(t *testing.T) {
	for _, tt := range []struct{ w, h, size, width, height int }{
		{1, 1, 0, 32, 32},
		{3, 100, 0, 30, 1000},
		{320, 200, 0, 960, 600},
		{960, 640, 0, 960, 640},
		{1500, 20, 0, 1500, 20},
		{960, 640, 480, 480, 320},
		{960, 640, 1920, 1920, 1280},
	} {
		o := &overlay{frame: image.NewGray(image.Rect(0, 0, tt.w, tt.h)), title: "a rather long title.png",
			verdict: pass, size: tt.size, regions: []overlayRegion{
				{"a", [][][2]float64{square(0, 0, float64(tt.w), float64(tt.h))}, false, pass, false}}}
		img, err := o.draw()
		if err != nil {
			t.Fatal(err)
		}
		if b := img.Bounds(); b.Dx() < tt.width || b.Dy() < tt.height+10 || tt.width > 300 && b.Dx() != tt.width ||
			b.Dy() > tt.height+100 {
			t.Errorf("%dx%d, size %d: picture %v, want a frame of %dx%d", tt.w, tt.h, tt.size, b, tt.width, tt.height)
		}
	}
	if testing.Short() {
		return
	}
	o := &overlay{frame: image.NewGray(image.Rect(0, 0, 10000, 6000))}
	if s := o.scale(); s >= 1 || 10000*6000*s*s > largePixels*1.001 {
		t.Errorf("a frame of 60 Mpixel is scaled by %v", s)
	}
}

// TestOverlayOdd draws what no one would draw, and must not fail.
func TestOverlayOdd(t *testing.T) {
	far := 4194303.0
	o := testOverlay()
	o.regions = []overlayRegion{
		{"far", [][][2]float64{{{-far, -far}, {far, -far}, {far, far}}}, false, pass, false},
		{"outside", [][][2]float64{square(5000, 5000, 6000, 6000)}, false, fail, false},
		{"line", [][][2]float64{{{10, 10}, {500, 500}, {10, 10}}}, false, pass, false},
		{"point", [][][2]float64{{{10, 10}, {10, 10}, {10, 10}}}, false, pass, false},
		{strings.Repeat("long name ", 30), [][][2]float64{square(1, 1, 2, 2)}, false, fail, false},
		{"\x1b[31mescape\x00", [][][2]float64{square(100, 1, 200, 2)}, false, none, false},
		{"", [][][2]float64{square(100, 10, 200, 20)}, true, none, false},
	}
	img, err := o.draw()
	if err != nil {
		t.Fatal(err)
	}
	// The far triangle covers the lower left no more than the upper right says.
	if c := at(img, 900, 300); !near(c, over(100, passColours.fill), 4) {
		t.Errorf("inside the far triangle: %v", c)
	}
	if c := at(img, 300, 700); c != (color.NRGBA{100, 100, 100, 255}) {
		t.Errorf("outside the far triangle: %v", c)
	}
}

// TestClipRing: clipping keeps each point inside the window on its side.
func TestClipRing(t *testing.T) {
	rng := seed.New(t, 1, 2)
	window := rect{0, 0, 100, 80}
	winding := func(ring [][2]float64, x, y float64) int {
		n := 0
		for i, b := range ring {
			a := ring[(i+len(ring)-1)%len(ring)]
			if (a[1] <= y) != (b[1] <= y) && x < a[0]+(y-a[1])*(b[0]-a[0])/(b[1]-a[1]) {
				if b[1] > a[1] {
					n++
				} else {
					n--
				}
			}
		}
		return n
	}
	inside := 0
	for range 2000 {
		ring := make([][2]float64, 3+rng.IntN(8))
		for i := range ring {
			ring[i] = [2]float64{rng.Float64()*400 - 150, rng.Float64()*400 - 150}
		}
		clipped := clipRing(ring, window)
		for _, p := range clipped {
			if p[0] < 0 || p[0] > 100 || p[1] < 0 || p[1] > 80 {
				t.Fatalf("%v left the window", p)
			}
		}
		for range 20 {
			x, y := rng.Float64()*100, rng.Float64()*80
			want, got := winding(ring, x, y), winding(clipped, x, y)
			if want != 0 {
				inside++
			}
			if got != want {
				t.Fatalf("ring %v: winding %d at (%v, %v), want %d", ring, got, x, y, want)
			}
		}
	}
	if inside < 1000 {
		t.Errorf("only %d points inside a ring", inside)
	}
}

// TestLabels places labels in a crowd: none overlaps another, none leaves the picture, and no failed region goes
// without.
func TestLabels(t *testing.T) {
	rng := seed.New(t, 3, 4)
	o := &overlay{frame: image.NewGray(image.Rect(0, 0, 1200, 900))}
	for i := range 80 {
		x, y := rng.Float64()*1150, rng.Float64()*850
		v := pass
		if i%16 == 0 {
			v = fail
		}
		o.regions = append(o.regions, overlayRegion{fmt.Sprintf("region %d", i),
			[][][2]float64{square(x, y, x+20+rng.Float64()*60, y+20+rng.Float64()*40)}, false, v, false})
	}
	z := sizesOf(1200, 900, o.regions, 1)
	shapes := o.shapes(1, 1200, 900, z)
	p := newPlacer(shapes, 1200, 900, z)
	placed := 0
	for i := len(shapes) - 1; i >= 0; i-- { // failed ones are last
		l := &label{shape: shapes[i], text: shapes[i].name, w: 70, h: 16}
		if p.place(l) {
			placed++
			if !l.at.in(rect{0, 0, 1200, 900}) {
				t.Errorf("%s at %v leaves the picture", l.text, l.at)
			}
			for _, other := range p.taken[:len(p.taken)-1] {
				if !l.at.and(other).empty() {
					t.Errorf("%s at %v lies on another label", l.text, l.at)
				}
			}
		} else if shapes[i].verdict == fail {
			t.Errorf("%s failed and has no label", l.text)
		}
	}
	if placed < 70 {
		t.Errorf("%d of 80 labels found a place", placed)
	}
}

func TestSampleOutline(t *testing.T) {
	pts := sampleOutline([][][2]float64{square(0, 0, 10, 10)}, 40)
	if len(pts) != 40 {
		t.Fatalf("%d points", len(pts))
	}
	for i, p := range pts {
		q := pts[(i+1)%len(pts)]
		if d := math.Abs(p[0]-q[0]) + math.Abs(p[1]-q[1]); math.Abs(d-1) > 1e-9 {
			t.Errorf("points %d and %d are %v apart, want 1", i, i+1, d)
		}
	}
	if x, y, d := nearestPoint(pts, 5, -3); x != 5 || y != 0 || d != 3 {
		t.Errorf("nearest to (5, -3) is (%v, %v) at %v", x, y, d)
	}
	if pts := sampleOutline([][][2]float64{{{3, 3}, {3, 3}, {3, 3}}}, 10); len(pts) != 1 {
		t.Errorf("a point gives %v", pts)
	}
}

// TestReducePictures runs the command and looks at its files.
func TestReducePictures(t *testing.T) {
	dir := t.TempDir()
	overlay, plot := filepath.Join(dir, "overlay.png"), filepath.Join(dir, "plot.jpg")
	succeed(t, "reduce", frames+"metal.png", "-r", frames+"metal.regions.json", "--overlay", overlay, "--plot", plot)
	img := readPNG(t, overlay)
	if b := img.Bounds(); b.Dx() != 1024 || b.Dy() < 512 {
		t.Errorf("overlay of %v", b)
	}
	original := readPNG(t, frames+"metal.png")
	// Far from any region, the overlay is the frame. Inside of one it isn't.
	if got, want := at(img, 500, 500), at(original, 500, 500); got != want {
		t.Errorf("(500, 500) is %v, want the frame's %v", got, want)
	}
	if n := count(img, image.Rect(160, 305, 340, 430), func(c color.NRGBA) bool {
		return int(c.R) > int(c.G)+40
	}); n < 10000 {
		t.Errorf("%d reddish pixels in the failed patch", n)
	}
	f, err := os.Open(plot)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	drawn, err := jpeg.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	if n := count(drawn, drawn.Bounds(), func(c color.NRGBA) bool { return c.R < 128 }); n < 2000 {
		t.Errorf("the plot has %d dark pixels", n)
	}
	// A stored recipe knows its regions.
	recipes := filepath.Join(dir, "recipes")
	succeed(t, "recipe", "put", "metal", "-r", frames+"metal.regions.json", "--recipes", recipes)
	again := filepath.Join(dir, "again.png")
	succeed(t, "reduce", frames+"metal.png", "--recipe", "metal", "--recipes", recipes, "--overlay", again)
	a, err := os.ReadFile(overlay)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(again)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("the overlay by recipe differs")
	}
	// Raw pixels can be drawn on as well.
	for format, n := range map[string]int{"gray8": 1, "gray16le": 2, "rgb8": 3, "bgr8": 3, "rgba8": 4} {
		raw := write(t, "f.raw", strings.Repeat("\x40\x80\xc0\xff", 64*64/4*n))
		out := filepath.Join(dir, format+".png")
		regions := write(t, "r.json", `[{"name":"a","rings":[[[40,40],[60,40],[60,60]]]}]`)
		succeed(t, "reduce", raw, "--raw", "64x64:"+format, "-r", regions, "--overlay", out, "--overlay-size", "64")
		got := at(readPNG(t, out), 9, 3) // pixel 201 of the frame
		want := map[string]color.NRGBA{
			"gray8": {0x80, 0x80, 0x80, 255}, "gray16le": {255, 255, 255, 255}, "rgb8": {0xff, 0x40, 0x80, 255},
			"bgr8": {0x80, 0x40, 0xff, 255}, "rgba8": {0x40, 0x80, 0xc0, 255},
		}[format]
		if got != want {
			t.Errorf("%s: pixel %v, want %v", format, got, want)
		}
	}
}

func histogramOf(channel polyscanv1.Channel, counts ...uint64) *polyscanv1.ChannelStatistics {
	return &polyscanv1.ChannelStatistics{Channel: channel,
		Histogram: &polyscanv1.Histogram{Upper: float64(len(counts)), Counts: counts}}
}

// A panel for each region, channel and offset has a dark cell where most pairs are, and nothing where there are none.
func TestPlotTextures(t *testing.T) {
	texture := func(dx int32) *polyscanv1.Texture {
		v := &polyscanv1.Texture{Offset: &polyscanv1.PixelOffset{Dx: dx}, Levels: 4, Pairs: 103, Counts: make([]uint32, 16)}
		v.Counts[0], v.Counts[15] = 100, 3 // both first levels, both last
		return v
	}
	res := &polyscanv1.FrameResult{Regions: []*polyscanv1.RegionResult{{Name: "a",
		Channels: []*polyscanv1.ChannelStatistics{
			{Channel: polyscanv1.Channel_CHANNEL_GRAY, Textures: []*polyscanv1.Texture{texture(1)}}}}}}
	img, err := plotTextures("title", res)
	if err != nil {
		t.Fatal(err)
	}
	b := img.Bounds()
	bottom := image.Rect(b.Min.X, b.Min.Y+b.Dy()*2/3, b.Min.X+b.Dx()/2, b.Max.Y)
	top := image.Rect(b.Min.X+b.Dx()*2/3, b.Min.Y+plotHeader, b.Max.X, b.Min.Y+b.Dy()/2)
	is := func(share float64) func(color.NRGBA) bool {
		return func(c color.NRGBA) bool { return near(c, heat(share), 6) }
	}
	share := math.Log1p(3) / math.Log1p(100)
	if n := count(img, bottom, is(1)); n < 300 {
		t.Errorf("%d pixels of the fullest cell", n)
	}
	if n := count(img, top, is(share)); n < 300 {
		t.Errorf("%d pixels of the cell with few pairs", n)
	}
	if n, all := count(img, b, is(1)), count(img, bottom, is(1)); n != all {
		t.Errorf("%d dark pixels outside of their cell", n-all)
	}
	for range 30 {
		res.Regions[0].Channels[0].Textures = append(res.Regions[0].Channels[0].Textures, texture(2))
	}
	if _, err := plotTextures("many", res); err != nil {
		t.Error(err)
	}
	if _, err := plotTextures("none", &polyscanv1.FrameResult{}); err != nil {
		t.Error(err)
	}
}

func TestPlot(t *testing.T) {
	ramp := make([]uint64, 256)
	for i := range ramp {
		ramp[i] = uint64(i)
	}
	value := 30.0
	res := &polyscanv1.FrameResult{Verdict: fail, Regions: []*polyscanv1.RegionResult{
		{Name: "colour", Count: 5, Channels: []*polyscanv1.ChannelStatistics{
			histogramOf(polyscanv1.Channel_CHANNEL_RED, ramp...),
			histogramOf(polyscanv1.Channel_CHANNEL_GREEN, ramp...),
			histogramOf(polyscanv1.Channel_CHANNEL_BLUE, ramp...)}},
		{Name: "failed", Verdict: fail,
			Channels: []*polyscanv1.ChannelStatistics{histogramOf(polyscanv1.Channel_CHANNEL_GRAY, ramp...)},
			Limits: []*polyscanv1.LimitResult{{Expression: "mean in [100, 200]", Verdict: fail, Value: &value,
				Channel: polyscanv1.Channel_CHANNEL_GRAY}}},
		{Name: "empty", Channels: []*polyscanv1.ChannelStatistics{histogramOf(polyscanv1.Channel_CHANNEL_GRAY,
			make([]uint64, 65536)...)}},
		{Name: "nothing"},
	}}
	img, err := plotHistograms("title", res)
	if err != nil {
		t.Fatal(err)
	}
	b := img.Bounds()
	half := b.Min.X + b.Dx()/2
	left, right := image.Rect(b.Min.X, 0, half, b.Dy()/2), image.Rect(half, 44, b.Max.X, b.Dy()/2)
	for _, c := range []polyscanv1.Channel{polyscanv1.Channel_CHANNEL_BLUE} { // the last one drawn is on top
		want := channelColour(c)
		if n := count(img, left, func(g color.NRGBA) bool { return near(g, want, 40) }); n < 50 {
			t.Errorf("%d pixels of %v in the panel of colours", n, c)
		}
	}
	red := func(c color.NRGBA) bool { return near(c, plotFail, 60) }
	if n := count(img, right, red); n < 100 {
		t.Errorf("%d red pixels in the panel that failed: no marks", n)
	}
	if n := count(img, image.Rect(b.Min.X, b.Dy()/2, b.Max.X, b.Max.Y), red); n > 0 {
		t.Errorf("%d red pixels in panels without limits", n)
	}
	// Too many regions: the one that failed is still among them.
	many := &polyscanv1.FrameResult{Verdict: fail}
	for i := range 60 {
		r := &polyscanv1.RegionResult{Name: fmt.Sprint(i), Verdict: pass,
			Channels: []*polyscanv1.ChannelStatistics{histogramOf(polyscanv1.Channel_CHANNEL_GRAY, 1, 2)}}
		if i == 59 {
			r.Verdict = fail
		}
		many.Regions = append(many.Regions, r)
	}
	if img, err = plotHistograms("title", many); err != nil {
		t.Fatal(err)
	}
	if n := count(img, image.Rect(0, 44, panelWidth+plotMargin, 44+panelHeight), red); n < 20 {
		t.Errorf("%d red pixels in the first panel, want the failed region there", n)
	}
	if _, err := plotHistograms("", &polyscanv1.FrameResult{}); err != nil {
		t.Errorf("a plot of nothing: %v", err)
	}
}

func TestGrid(t *testing.T) {
	for n := range 40 {
		c, r := gridOf(n)
		if c*r < n || c*(r-1) >= max(n, 1) || c < r-1 {
			t.Errorf("%d panels in %d columns and %d rows", n, c, r)
		}
	}
}

func TestSpans(t *testing.T) {
	inf := math.Inf(1)
	for expr, want := range map[string][2]float64{
		"mean in [90, 140]":     {90, 140},
		"R.Max <= 250":          {-inf, 250},
		"p99.5 < 200":           {-inf, 200},
		"  blue . min >= -1e1 ": {-10, inf},
		"median == 7":           {7, 7},
		"mode in (1,2)":         {1, 2},
	} {
		s, ok := spanOf(&polyscanv1.LimitResult{Expression: expr})
		if !ok || s.lo != want[0] || s.hi != want[1] || !math.IsNaN(s.value) {
			t.Errorf("%q: %+v, %v; want %v", expr, s, ok, want)
		}
	}
	for _, expr := range []string{"count > 5", "stddev < 4", "mean != 3", "count of pixels below 40 <= 25", "",
		"area in [1, 2]"} {
		if s, ok := spanOf(&polyscanv1.LimitResult{Expression: expr}); ok {
			t.Errorf("%q: %+v, want no mark", expr, s)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, tt := range []struct {
		lo, hi float64
		want   string
	}{
		{0, 256, "0 100 200"}, {0, 4096, "0 2000 4000"}, {0, 65536, "0 20k 40k 60k"}, {0, 1, "0 0.25 0.5 0.75 1"},
		{-5, 5, "-5 -2.5 0 2.5 5"}, {3, 3, ""}, {0, 3e6, "0 1M 2M 3M"},
	} {
		var got []string
		for _, k := range fewTicks(tt.lo, tt.hi) {
			got = append(got, k.Label)
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("ticks from %v to %v: %s, want %s", tt.lo, tt.hi, s, tt.want)
		}
	}
}
