package lowpoly_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/lowpoly"
)

// imageOf cuts the pixels into two pieces.
func imageOf(p *devicetest.Picture) kernels.Picture {
	cut := len(p.Pixels) / 3
	return kernels.Picture{
		Width: p.Width, Height: p.Height, Stride: p.Stride, Format: p.Format,
		Data: [][]byte{p.Pixels[:cut], nil, p.Pixels[cut:]},
	}
}

// Each step is what its definition gives for what came of the one before: also for images of one pixel, one row, one
// column, one colour, and with alpha.
func TestConvertByDefinition(t *testing.T) {
	d := openCPU(t, 8<<20)
	for i, p := range devicetest.Pictures(5, 20) {
		opt := lowpoly.Options{
			Vertices: 4 + i*3, Seed: uint64(i), Color: driver.ShadeColor(i % 2), Method: driver.ShadeMethod(i % 3),
			Floor: 1 + i*10, Spacing: 1, Cell: lowpoly.Off, Border: 1000,
		}
		got, err := lowpoly.Convert(context.Background(), d, imageOf(&p), opt)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		m := got.Mesh
		rule := driver.VertexRule{Seed: opt.Seed, Floor: opt.Floor, Spacing: 1, Border: 1000}
		points := devicetest.ChooseVertices(p.Edges(), p.Width, p.Height, opt.Vertices, rule, nil)
		if !slices.Equal(m.Points, points) {
			t.Errorf("%s: the vertices are %v, want %v", p.Name, m.Points, points)
		}
		if err := devicetest.CheckTriangles(m.Points, m.Triangles); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		painting := devicetest.Painting{Picture: p, Points: m.Points, Triangles: m.Triangles}
		want := devicetest.Picture{Width: p.Width, Height: p.Height, Stride: p.Width * p.Format.PixelBytes(),
			Format: p.Format}
		want.Pixels = make([]byte, want.Stride*want.Height)
		if _, err := painting.Shade(opt.Color, &want); err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		if !bytes.Equal(got.Data[0], want.Pixels) || got.Format != p.Format {
			t.Errorf("%s: the pixels differ", p.Name)
		}
		if m.Width != p.Width || m.Height != p.Height || len(m.Colors) != len(m.Triangles) || got.Backend != "cpu" {
			t.Errorf("%s: %dx%d, %d colours of %d triangles by %q", p.Name, m.Width, m.Height, len(m.Colors),
				len(m.Triangles), got.Backend)
		}
	}
}

// With the defaults, as many vertices are chosen as are wanted wherever there is room for them, and all of the frame is
// covered.
func TestConvertDefaults(t *testing.T) {
	d := openCPU(t, 64<<20)
	r := seed.New(t, 1, 1)
	for _, s := range []struct{ w, h, vertices, least int }{
		{1, 1, 0, 4}, {1, 500, 0, 1002}, {500, 1, 0, 1002}, {2, 2, 0, 8}, {3, 3, 5, 5}, {16, 16, 4, 4}, {16, 16, 5, 5},
		{16, 16, 40, 40}, {1000, 3, 100, 100},
		{1, 5000, 0, 2002}, {1, 100, 10, 10}, {3, 3, 9, 9}, {5, 5, 34, 34}, {3, 50, 187, 187}, {100, 2, 219, 219},
		{320, 240, 0, 2500}, {320, 240, 4, 4}, {320, 240, 100, 100}, {320, 240, 9000, 9000}, {40, 30, 1 << 20, 41 * 31},
	} {
		p := devicetest.Picture{Width: s.w, Height: s.h, Stride: 3 * s.w, Format: driver.RGB8,
			Pixels: make([]byte, 3*s.w*s.h)}
		for _, kind := range []string{"flat", "noise", "stripe"} {
			for i := range p.Pixels {
				switch {
				case kind == "noise":
					p.Pixels[i] = byte(r.Uint32())
				case kind == "stripe" && i/3%s.w == s.w/2:
					p.Pixels[i] = 255
				}
			}
			got, err := lowpoly.Convert(context.Background(), d, imageOf(&p), lowpoly.Options{Vertices: s.vertices})
			if err != nil {
				t.Errorf("%s %+v: %v", kind, s, err)
				continue
			}
			n, wanted := len(got.Mesh.Points), s.vertices
			if wanted == 0 {
				wanted = lowpoly.DefaultVertices
			}
			if n > wanted || n < s.least*98/100 {
				t.Errorf("%s %+v: %d vertices", kind, s, n)
			}
			if kind == "flat" && !bytes.Equal(got.Data[0], p.Pixels) {
				t.Errorf("%+v: a picture of one colour changed", s)
			}
			area := int64(0)
			for _, v := range got.Mesh.Triangles {
				a, b, c := got.Mesh.Points[v.A], got.Mesh.Points[v.B], got.Mesh.Points[v.C]
				area += int64(b.X-a.X)*int64(c.Y-a.Y) - int64(b.Y-a.Y)*int64(c.X-a.X)
			}
			if area != 2*int64(s.w)*int64(s.h) {
				t.Errorf("%s %+v: the triangles have an area of %d/2", kind, s, area)
			}
		}
	}
}

// Where the spacing leaves few places inside, the border isn't filled with vertices that are closer than it allows.
func TestConvertSpacingOnTheBorder(t *testing.T) {
	d := openCPU(t, 64<<20)
	for _, s := range []struct{ w, h, spacing int }{{320, 240, 8}, {320, 240, 20}, {100, 100, 3}, {64, 500, 4}} {
		p := devicetest.Picture{Width: s.w, Height: s.h, Stride: 3 * s.w, Format: driver.RGB8,
			Pixels: make([]byte, 3*s.w*s.h)}
		got, err := lowpoly.Convert(context.Background(), d, imageOf(&p), lowpoly.Options{Spacing: s.spacing})
		if err != nil {
			t.Errorf("%+v: %v", s, err)
			continue
		}
		n := 0
		for _, v := range got.Mesh.Points {
			if v.X == 0 || v.Y == 0 || int(v.X) == s.w || int(v.Y) == s.h {
				n++
			}
		}
		wanted := int(2 * math.Sqrt(float64(s.w*s.h)/lowpoly.DefaultVertices))
		if most := driver.BorderVertices(s.w, s.h, min(s.spacing+1, wanted)); n > most {
			t.Errorf("%+v: %d vertices on the border, and %d at most keep apart", s, n, most)
		}
	}
}

// The mean over a picture is what it was, up to rounding: nothing is left black.
func TestConvertKeepsBrightness(t *testing.T) {
	d := openCPU(t, 8<<20)
	rapid.Check(t, func(t *rapid.T) {
		p := devicetest.Picture{Width: rapid.IntRange(1, 60).Draw(t, "width"),
			Height: rapid.IntRange(1, 60).Draw(t, "height"), Format: driver.Gray8}
		p.Stride = p.Width
		p.Pixels = rapid.SliceOfN(rapid.Byte(), p.Width*p.Height, p.Width*p.Height).Draw(t, "pixels")
		got, err := lowpoly.Convert(context.Background(), d, imageOf(&p),
			lowpoly.Options{Vertices: rapid.IntRange(4, 500).Draw(t, "vertices"), Seed: rapid.Uint64().Draw(t, "seed")})
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		for i := range p.Pixels {
			sum += int(got.Data[0][i]) - int(p.Pixels[i])
		}
		if 2*max(sum, -sum) > len(p.Pixels) {
			t.Fatalf("the sum over %d pixels changed by %d", len(p.Pixels), sum)
		}
	})
}

func TestConvertStages(t *testing.T) {
	d := openCPU(t, 8<<20)
	p := devicetest.Pictures(9, 0)[21] // 64x64, RGB8 or another of colour
	run := func(s lowpoly.Stage) *lowpoly.Result {
		got, err := lowpoly.Convert(context.Background(), d, imageOf(&p), lowpoly.Options{Vertices: 60, Stage: s})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	shaded := run(lowpoly.StageShaded)
	mesh := shaded.Mesh
	pixel := func(v driver.Point) int { return min(int(v.Y), p.Height-1)*p.Width + min(int(v.X), p.Width-1) }

	edges := run(lowpoly.StageEdges)
	for i, e := range p.Edges() {
		if edges.Format != driver.Gray8 || edges.Data[0][i] != byte(e/8) {
			t.Fatalf("edges: pixel %d is %d, the edge is %d", i, edges.Data[0][i], e)
		}
	}
	points := run(lowpoly.StagePoints)
	white := bytes.Count(points.Data[0], []byte{255})
	for _, v := range mesh.Points {
		if points.Data[0][pixel(v)] != 255 {
			t.Errorf("points: %v isn't white", v)
		}
	}
	if white > 9*len(mesh.Points) || white < len(mesh.Points) {
		t.Errorf("points: %d pixels are white for %d points", white, len(mesh.Points))
	}

	size := p.Format.PixelBytes()
	voronoi := run(lowpoly.StageVoronoi)
	var sites []driver.Point
	for _, v := range mesh.Points {
		sites = append(sites, driver.Point{X: int32(pixel(v) % p.Width), Y: int32(pixel(v) / p.Width)})
	}
	for i, l := range devicetest.NearestSites(sites, p.Width, p.Height) {
		from := int(sites[l].Y)*p.Stride + int(sites[l].X)*size
		if !bytes.Equal(voronoi.Data[0][i*size:][:size], p.Pixels[from:][:size]) {
			t.Fatalf("voronoi: pixel %d is % x", i, voronoi.Data[0][i*size:][:size])
		}
	}

	wire := run(lowpoly.StageWireframe)
	black := 0
	for i := range p.Width * p.Height {
		if bytes.Equal(wire.Data[0][i*size:][:size], shaded.Data[0][i*size:][:size]) {
			continue
		}
		black++
		for c, v := range wire.Data[0][i*size:][:size] {
			if v != 0 && !(v == 255 && size == 4 && c == int(p.Format.Order[3])) {
				t.Fatalf("wireframe: pixel %d is % x", i, wire.Data[0][i*size:][:size])
			}
		}
	}
	if black < p.Width || black > p.Width*p.Height*3/4 {
		t.Errorf("wireframe: %d of %d pixels are on lines", black, p.Width*p.Height)
	}
	for _, v := range mesh.Points {
		if slices.Max(wire.Data[0][pixel(v)*size:][:min(size, 3)]) != 0 && size < 4 {
			t.Errorf("wireframe: %v isn't black", v)
		}
	}
	for s := lowpoly.StageShaded; s <= lowpoly.StageWireframe; s++ {
		if got := run(s); !slices.Equal(got.Mesh.Points, mesh.Points) ||
			!slices.Equal(got.Mesh.Triangles, mesh.Triangles) {
			t.Errorf("%v: the mesh is another", s)
		}
	}
}

func TestConvertPrevious(t *testing.T) {
	d := openCPU(t, 8<<20)
	r := seed.New(t, 3, 3)
	frame := func() *devicetest.Picture {
		p := &devicetest.Picture{Width: 120, Height: 90, Stride: 120, Format: driver.Gray8,
			Pixels: make([]byte, 120*90)}
		for i := range p.Pixels {
			p.Pixels[i] = byte(i%120/20*40 + r.IntN(6))
		}
		return p
	}
	run := func(p *devicetest.Picture, opt lowpoly.Options) []driver.Point {
		got, err := lowpoly.Convert(context.Background(), d, imageOf(p), opt)
		if err != nil {
			t.Fatal(err)
		}
		return got.Mesh.Points
	}
	shared := func(a, b []driver.Point) (n int) {
		for _, p := range a {
			if slices.Contains(b, p) {
				n++
			}
		}
		return n
	}
	a, b := frame(), frame()
	before := run(a, lowpoly.Options{Vertices: 300})
	loose := shared(before, run(b, lowpoly.Options{Vertices: 300}))
	tight := shared(before, run(b, lowpoly.Options{Vertices: 300, Previous: before, Strength: 4}))
	if tight <= loose || tight < 290 {
		t.Errorf("%d of 300 vertices stayed, %d without those before", tight, loose)
	}
}

func TestConvertRefuses(t *testing.T) {
	d := openCPU(t, 1<<20)
	good := func() (kernels.Picture, lowpoly.Options) {
		return kernels.Picture{Width: 20, Height: 10, Format: driver.RGB8, Data: [][]byte{make([]byte, 600)}},
			lowpoly.Options{Vertices: 50}
	}
	for field, spoil := range map[string]func(*kernels.Picture, *lowpoly.Options){
		"":             func(im *kernels.Picture, _ *lowpoly.Options) {},
		"image.width":  func(im *kernels.Picture, _ *lowpoly.Options) { im.Width = 0 },
		"image.height": func(im *kernels.Picture, _ *lowpoly.Options) { im.Height = driver.MaxSide + 1 },
		"image.stride": func(im *kernels.Picture, _ *lowpoly.Options) { im.Stride = 59 },
		"image.data":   func(im *kernels.Picture, _ *lowpoly.Options) { im.Data = append(im.Data, []byte{1}) },
		"image.format": func(im *kernels.Picture, _ *lowpoly.Options) { im.Format.Bits = 3 },
		"vertices":     func(_ *kernels.Picture, o *lowpoly.Options) { o.Vertices = 3 },
		"floor":        func(_ *kernels.Picture, o *lowpoly.Options) { o.Floor = -1 },
		"spacing":      func(_ *kernels.Picture, o *lowpoly.Options) { o.Spacing = driver.MaxVertexSpacing + 1 },
		"border":       func(_ *kernels.Picture, o *lowpoly.Options) { o.Border = 1 },
		"cell":         func(_ *kernels.Picture, o *lowpoly.Options) { o.Cell = 2; o.Spacing = 2 },
		"color":        func(_ *kernels.Picture, o *lowpoly.Options) { o.Color = 2 },
		"method":       func(_ *kernels.Picture, o *lowpoly.Options) { o.Method = 3 },
		"voronoi":      func(_ *kernels.Picture, o *lowpoly.Options) { o.Voronoi = driver.Banding + 1 },
		"stage":        func(_ *kernels.Picture, o *lowpoly.Options) { o.Stage = lowpoly.StageWireframe + 1 },
		"hold":         func(_ *kernels.Picture, o *lowpoly.Options) { o.Hold = 256 },
		"strength":     func(_ *kernels.Picture, o *lowpoly.Options) { o.Strength = driver.MaxVertexStrength + 1 },
	} {
		im, opt := good()
		spoil(&im, &opt)
		_, err := lowpoly.Convert(context.Background(), d, im, opt)
		var invalid *kernels.InvalidError
		switch {
		case field == "" && err != nil:
			t.Error(err)
		case field != "" && (!errors.As(err, &invalid) || invalid.Violations[0].Path.String() != field ||
			strings.Contains(err.Error(), "\n")):
			t.Errorf("%v, want an error about %s", err, field)
		}
	}
	im, opt := good()
	opt.Border, opt.Cell = 10, 2
	if _, err := lowpoly.Convert(context.Background(), d, im, opt); err == nil ||
		!strings.Contains(err.Error(), "cell = 2: makes 50 squares") {
		t.Errorf("more cells than vertices: %v", err)
	}
	var capacity *kernels.CapacityError
	im = kernels.Picture{Width: 1000, Height: 1000, Format: driver.Gray8, Data: [][]byte{make([]byte, 1e6)}}
	if _, err := lowpoly.Convert(context.Background(), d, im, lowpoly.Options{}); !errors.As(err, &capacity) {
		t.Errorf("a million pixels in a device of 1 MiB: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	im, opt = good()
	if _, err := lowpoly.Convert(ctx, d, im, opt); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if m := d.Memory(); m.Used != 0 {
		t.Errorf("%d bytes are in use after it", m.Used)
	}
}

// Each op in turn fails; the next call works.
func TestConvertFaults(t *testing.T) {
	im := kernels.Picture{Width: 12, Height: 10, Format: driver.Gray8, Data: [][]byte{make([]byte, 120)}}
	opt := lowpoly.Options{Vertices: 20, Stage: lowpoly.StageVoronoi}
	tried := 0
	for f := range devicetest.Faults(cpu.New(cpu.Options{}), driver.ErrOutOfMemory, driver.ErrDeviceLost) {
		tried++
		d, err := kernels.Open(f, kernels.Config{MemoryBytes: 1 << 20})
		if err != nil {
			if !errors.Is(err, f.Failure().Err) {
				t.Errorf("Open: %v", err)
			}
			continue
		}
		_, err = lowpoly.Convert(context.Background(), d, im, opt)
		if err != nil && !errors.Is(err, f.Failure().Err) {
			t.Errorf("%+v: %v", f.Failure(), err)
		}
		if m := d.Memory(); m.Used != 0 {
			t.Errorf("%+v: %d bytes are in use after it", f.Failure(), m.Used)
		}
		if err != nil && !errors.Is(err, driver.ErrDeviceLost) {
			if _, err := lowpoly.Convert(context.Background(), d, im, opt); err != nil {
				t.Errorf("%+v: the next call: %v", f.Failure(), err)
			}
		}
		if err := d.Close(); err != nil && !errors.Is(err, f.Failure().Err) {
			t.Errorf("%+v: Close: %v", f.Failure(), err)
		}
	}
	if tried < 20 {
		t.Errorf("%d faults were tried", tried)
	}
}

func testMesh() *lowpoly.Mesh {
	return &lowpoly.Mesh{
		Width: 4, Height: 3,
		Points:    []driver.Point{{}, {X: 4}, {Y: 3}, {X: 4, Y: 3}},
		Triangles: []driver.Triangle{{A: 0, B: 1, C: 3}, {A: 0, B: 3, C: 2}},
		Colors:    []color.NRGBA{{255, 0, 16, 255}, {1, 2, 3, 51}},
	}
}

func TestMeshFiles(t *testing.T) {
	var b bytes.Buffer
	if err := testMesh().WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	want := `<svg xmlns="http://www.w3.org/2000/svg" width="4" height="3" viewBox="0 0 4 3" shape-rendering="crispEdges">
<path fill="#ff0010" d="M0 0L4 0L4 3z"/>
<path fill="#010203" fill-opacity="0.200" d="M0 0L4 3L0 3z"/>
</svg>
`
	if b.String() != want {
		t.Errorf("SVG:\n%s", b.String())
	}
	b.Reset()
	if err := testMesh().WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	want = `{"width":4,"height":3,"points":[[0,0],[4,0],[0,3],[4,3]],"triangles":[[0,1,3],[0,3,2]],"colors":["#ff0010","#01020333"]}` + "\n"
	if b.String() != want {
		t.Errorf("JSON:\n%s", b.String())
	}
	b.Reset()
	if err := testMesh().WritePLY(&b); err != nil {
		t.Fatal(err)
	}
	head, body, ok := strings.Cut(b.String(), "end_header\n")
	if !ok || !strings.HasPrefix(head, "ply\nformat binary_little_endian 1.0\nelement vertex 4\n") ||
		!strings.Contains(head, "element face 2\n") {
		t.Errorf("PLY: %q", head)
	}
	if want := "\x00\x00\x80\x40" + "\x00\x00\x40\x40" + "\x00\x00\x00\x00" + // (4, 3, 0)
		"\x03\x00\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00\xff\x00\x10\xff" +
		"\x03\x00\x00\x00\x00\x03\x00\x00\x00\x02\x00\x00\x00\x01\x02\x03\x33"; len(body) != 4*12+2*17 ||
		!strings.HasSuffix(body, want) {
		t.Errorf("PLY: % x", body)
	}
	for name, write := range map[string]func(*lowpoly.Mesh, *failing) error{
		"SVG":  func(m *lowpoly.Mesh, w *failing) error { return m.WriteSVG(w) },
		"PLY":  func(m *lowpoly.Mesh, w *failing) error { return m.WritePLY(w) },
		"JSON": func(m *lowpoly.Mesh, w *failing) error { return m.WriteJSON(w) },
	} {
		if err := write(testMesh(), &failing{}); !errors.Is(err, errFull) {
			t.Errorf("%s to a full disk: %v", name, err)
		}
	}
}

var errFull = errors.New("disk full")

type failing struct{}

func (*failing) Write([]byte) (int, error) { return 0, errFull }

func ExampleConvert() {
	dev, err := kernels.Open(cpu.New(cpu.Options{}), kernels.Config{MemoryBytes: 1 << 20})
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	im := kernels.Picture{Width: 100, Height: 50, Format: driver.Gray8, Data: [][]byte{make([]byte, 5000)}}
	p, err := lowpoly.Convert(context.Background(), dev, im, lowpoly.Options{Vertices: 80, Seed: 1})
	if err != nil {
		panic(err)
	}
	fmt.Println(len(p.Mesh.Points), "vertices")
	// Output: 80 vertices
}

func BenchmarkConvert(b *testing.B) {
	const w, h = 1920, 1080
	pixels := make([]byte, 3*w*h)
	for i := range pixels {
		x, y := i/3%w, i/3/w
		pixels[i] = byte(128 + 60*math.Sin(float64(x*(i%3+1))/90) + 50*math.Cos(float64(y)/70) + float64(x/200%2*20))
	}
	im := kernels.Picture{Width: w, Height: h, Format: driver.RGB8, Data: [][]byte{pixels}}
	for _, threads := range []int{1, 2} {
		d, err := kernels.Open(cpu.New(cpu.Options{Threads: threads}), kernels.Config{MemoryBytes: 64 << 20})
		if err != nil {
			b.Fatal(err)
		}
		defer d.Close()
		for _, n := range []int{2500, 20_000} {
			b.Run(fmt.Sprintf("%dx%d/vertices=%d/threads=%d", w, h, n, threads), func(b *testing.B) {
				b.SetBytes(int64(len(pixels)))
				for b.Loop() {
					if _, err := lowpoly.Convert(context.Background(), d, im,
						lowpoly.Options{Vertices: n}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
