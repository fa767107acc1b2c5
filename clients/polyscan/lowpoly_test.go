package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/polyscan/polyscan/internal/devicetest"
	_ "github.com/polyscan/polyscan/internal/shorttest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/lowpoly"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

func TestLowpoly(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	args := []string{"lowpoly", frames + "metal.png", "--points", "300", "--seed", "5"}
	stdout := succeed(t, append(args, "-o", in("a.png"), "--svg", in("a.svg"), "--mesh", in("a.json"))...)
	b, err := os.ReadFile(in("a.json"))
	if err != nil {
		t.Fatal(err)
	}
	var mesh struct {
		Width, Height int
		Points        [][2]int32
		Triangles     [][3]uint32
		Colors        []string
	}
	if err := json.Unmarshal(b, &mesh); err != nil {
		t.Fatal(err)
	}
	picture := readPNG(t, in("a.png"))
	if s := picture.Bounds().Size(); s.X != mesh.Width || s.Y != mesh.Height ||
		s != readPNG(t, frames+"metal.png").Bounds().Size() || len(mesh.Points) != 300 {
		t.Errorf("%v, a mesh of %dx%d with %d points", s, mesh.Width, mesh.Height, len(mesh.Points))
	}
	if want := fmt.Sprintf("%s: 300 vertices, %d triangles, in TIME by cpu\n", in("a.png"),
		len(mesh.Triangles)); timeless(stdout) != want {
		t.Errorf("it says %q, want %q", stdout, want)
	}
	var points []driver.Point
	for _, p := range mesh.Points {
		points = append(points, driver.Point{X: p[0], Y: p[1]})
	}
	var triangles []driver.Triangle
	for i, v := range mesh.Triangles {
		triangles = append(triangles, driver.Triangle{A: v[0], B: v[1], C: v[2]})
		// The picture has the triangle's colour at its centroid, unless that lies on an edge: where it is thin.
		x, y := (points[v[0]].X+points[v[1]].X+points[v[2]].X)/3, (points[v[0]].Y+points[v[1]].Y+points[v[2]].Y)/3
		p, q, r := points[v[0]], points[v[1]], points[v[2]]
		if doubled := (q.X-p.X)*(r.Y-p.Y) - (q.Y-p.Y)*(r.X-p.X); doubled < 400 {
			continue
		}
		c := color.NRGBAModel.Convert(picture.At(int(x), int(y))).(color.NRGBA)
		if got := fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B); got != mesh.Colors[i] {
			t.Errorf("triangle %d at (%d, %d) is %s in the picture, %s in the mesh", i, x, y, got, mesh.Colors[i])
		}
	}
	if err := devicetest.CheckTriangles(points, triangles); err != nil {
		t.Error(err)
	}
	svg, err := os.ReadFile(in("a.svg"))
	if err != nil || bytes.Count(svg, []byte("<path ")) != len(triangles) || !bytes.HasSuffix(svg, []byte("</svg>\n")) {
		t.Errorf("the drawing has %d paths, %v", bytes.Count(svg, []byte("<path ")), err)
	}

	// The same again, on one thread, to standard output; and another seed.
	a, err := os.ReadFile(in("a.png"))
	if err != nil {
		t.Fatal(err)
	}
	if again := succeed(t, append(args, "-o", "-", "--threads", "1")...); again != string(a) {
		t.Error("the same once more is another file")
	}
	args[len(args)-1] = "6"
	if other := succeed(t, append(args, "-o", "-")...); other == string(a) {
		t.Error("with another seed it is the same file")
	}
	succeed(t, append(args, "--mesh", in("a.ply"))...)
	if b, err := os.ReadFile(in("a.ply")); err != nil || !bytes.HasPrefix(b, []byte("ply\n")) {
		t.Errorf("%.20q, %v", b, err)
	}
	seen := map[string]string{}
	for _, stage := range []string{"shaded", "edges", "points", "voronoi", "wireframe"} {
		out := succeed(t, append(args, "-o", "-", "--stage", stage)...)
		if _, err := png.Decode(strings.NewReader(out)); err != nil {
			t.Errorf("%s: %v", stage, err)
		}
		if other, ok := seen[out]; ok {
			t.Errorf("%s is the same as %s", stage, other)
		}
		seen[out] = stage
	}
}

// Images of every shape and kind have an answer.
func TestLowpolyDegenerate(t *testing.T) {
	for _, size := range []image.Point{{1, 1}, {1, 40}, {40, 1}, {2, 2}, {30, 20}} {
		for name, im := range map[string]interface {
			image.Image
			Set(x, y int, c color.Color)
		}{
			"gray": image.NewGray(image.Rectangle{Max: size}), "gray16": image.NewGray16(image.Rectangle{Max: size}),
			"alpha": image.NewNRGBA(image.Rectangle{Max: size}),
		} {
			im.Set(0, 0, color.NRGBA{R: 200, G: 100, B: 50, A: 128})
			var b bytes.Buffer
			if err := png.Encode(&b, im); err != nil {
				t.Fatal(err)
			}
			out, err := png.Decode(strings.NewReader(succeed(t, "lowpoly", write(t, "in.png", b.String()), "-o", "-")))
			if err != nil || out.Bounds().Size() != size {
				t.Errorf("%s of %v: %v", name, size, err)
			}
		}
	}
}

func TestLowpolyRefuses(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out.png")
	board := frames + "metal.png"
	for _, x := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{board}, exitUsage, "nothing to write"},
		{[]string{board, "-o", out, "--points", "3"}, exitUsage, "--points 3: must be 4 to"},
		{[]string{board, "-o", out, "--spacing", "256"}, exitUsage, "--spacing 256: must be -1 to 255"},
		{[]string{board, "-o", out, "--floor=-1"}, exitUsage, "--floor -1"},
		{[]string{board, "-o", out, "--floor=0"}, exitUsage, "--floor 0: must be 1 to 65536"},
		{[]string{board, "-o", out, "--border=-1"}, exitUsage, "--border -1"},
		{[]string{board, "-o", out, "--cell=-2"}, exitUsage, "--cell -2"},
		{[]string{board, "-o", out, "--stage", "none"}, exitUsage, "--stage"},
		{[]string{board, "-o", out, "--mesh", "a.obj"}, exitUsage,
			"--mesh a.obj: want a file name that ends in .ply or .json"},
		{[]string{board, "-o", filepath.Join(dir, "none", "x.png")}, 0, "none"},
		{[]string{board, "-o", out, "--cell", "3", "--spacing", "5"}, exitUsage,
			"--cell 3: must be more than the spacing, 5"},
		{[]string{write(t, "x.png", "no image"), "-o", out}, 0, "no PNG, JPEG, TIFF or BMP image"},
	} {
		_, stderr, code := polyscan(t, append([]string{"lowpoly"}, x.args...)...)
		if code == 0 || x.code != 0 && code != x.code || !strings.Contains(stderr, x.says) ||
			strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, %q, want one line with %q", x.args, code, stderr, x.says)
		}
		if _, err := os.Stat(out); err == nil {
			t.Fatalf("%v: a file was written", x.args)
		}
	}
}

// What is reserved for an image is enough for it, whatever the options.
func TestLowpolyNeed(t *testing.T) {
	const width, height = 240, 160
	counts := []int{4, 2000, 500, 20_000}
	if testing.Short() {
		counts = counts[:2]
	}
	for _, points := range counts {
		for _, spacing := range []int{-1, 0, 1} {
			for _, route := range []lowpoly.Route{lowpoly.RouteDirect, lowpoly.RouteVoronoi} {
				for _, stage := range []lowpoly.Stage{lowpoly.StageShaded, lowpoly.StageVoronoi} {
					for _, video := range []string{"", "film.gif"} {
						c := lowpolyCmd{Points: points, Spacing: spacing, Route: strings.ToLower(route.String()),
							Video: video}
						opt := lowpoly.Options{Vertices: points, Spacing: spacing, Route: route, Stage: stage}
						if err := convertsIn(c.need(width*height), width, height, opt, video != ""); err != nil {
							t.Errorf("%+v, %q: %v", opt, video, err)
						}
					}
				}
			}
		}
	}
}

// convertsIn converts an image on a device of so many bytes, by itself or as a video.
func convertsIn(memory int64, width, height int, opt lowpoly.Options, video bool) error {
	dev, err := kernels.Open(cpu.New(cpu.Options{}), kernels.Config{MemoryBytes: memory})
	if err != nil {
		return err
	}
	defer dev.Close()
	im := kernels.Picture{Width: width, Height: height, Format: driver.RGBA8,
		Data: [][]byte{make([]byte, 4*width*height)}}
	// a video may wait for memory that it holds itself
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if !video {
		_, err = lowpoly.Convert(ctx, dev, im, opt)
		return err
	}
	opt.Strength, opt.Hold = lowpoly.DefaultStrength, lowpoly.DefaultHold
	v := lowpoly.NewVideo(dev, opt)
	defer v.Close()
	for range 2 {
		if err := v.Convert(ctx, im, &lowpoly.Result{}); err != nil {
			return err
		}
	}
	return nil
}

func TestMeshOfRefuses(t *testing.T) {
	for name, m := range map[string]*polyscanv1.Mesh{
		"half a point":             {Points: make([]byte, 12)},
		"half a triangle":          {Points: make([]byte, 8), Triangles: make([]byte, 8)},
		"no colours":               {Points: make([]byte, 8), Triangles: make([]byte, 12)},
		"an index beyond the rest": {Triangles: make([]byte, 12), Colors: make([]byte, 4)},
	} {
		if mesh, err := meshOf(&polyscanv1.ConvertResponse{Mesh: m}); err == nil {
			t.Errorf("%s: %v", name, mesh)
		}
	}
}

// TestLowpolyFewerVertices: a picture that has no room for the vertices that were asked for is told of.
func TestLowpolyFewerVertices(t *testing.T) {
	raw, out := filepath.Join(t.TempDir(), "row"), filepath.Join(t.TempDir(), "x.png")
	if err := os.WriteFile(raw, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	video := filepath.Join(t.TempDir(), "video")
	if err := os.Mkdir(video, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"1.png", "2.png"} {
		writePNG(t, filepath.Join(video, name), image.NewGray(image.Rect(0, 0, 100, 1)))
	}
	const fewer = ": 102 vertices of 190 (--points): no more places keep their distance (--spacing, --border)\n"
	for _, c := range []struct{ points, want string }{{"10", ""}, {"190", fewer}, {"2500", ""}} { // the default is for all
		for _, args := range [][]string{{raw, "--raw", "100x1:gray8", "-o", out}, {"--video", video, "-o", out + ".gif"}} {
			stdout, stderr, code := polyscan(t, append([]string{"lowpoly", "--points", c.points}, args...)...)
			if code != exitOK || stdout == "" || (stderr == "") != (c.want == "") || !strings.HasSuffix(stderr, c.want) {
				t.Errorf("%s: exit %d, %q", c.points, code, stderr)
			}
		}
	}
}
