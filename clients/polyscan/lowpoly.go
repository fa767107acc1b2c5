package main

// polyscan lowpoly: pictures of triangles.

import (
	"encoding/binary"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/lowpoly"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type lowpolyCmd struct {
	// The image to convert: PNG, JPEG, TIFF or BMP; - is standard input.
	Image string `arg:"" optional:"" predictor:"file"`
	// Frames to convert, instead of an image: a folder of them, in natural order, an animated GIF, or with ffmpeg
	// any video.
	Video string `placeholder:"DIR|FILE" predictor:"file" group:"frame"`
	frameFlags

	// Number of vertices, including those on the border. Where no more places keep their distance, as in pictures of
	// one row, there are fewer, and a warning says so.
	Points int `default:"2500" placeholder:"N" group:"triangles"`
	// Seed of the random choice of vertices. The same seed gives the same picture.
	Seed uint64 `placeholder:"S" group:"triangles" zero:""`
	// Weight of places without edges, 1 to 65536; the strongest edge has 8160. Large weights spread vertices
	// evenly.
	Floor int `default:"16" placeholder:"N" group:"triangles"`
	// Least distance between vertices, in pixels; --spacing=-1 sets none. By default it follows from --points.
	Spacing int `placeholder:"N" group:"triangles"`
	// Largest distance between vertices on the border, in pixels. By default it follows from --points.
	Border int `placeholder:"N" group:"triangles"`
	// Side of the squares that get a vertex each, so that flat areas have small triangles, too; --cell=-1 sets
	// none. By default it follows from --points.
	Cell int `placeholder:"N" group:"triangles"`
	// Colour of a triangle: the mean of its pixels, or that of the pixel at its centroid.
	Color string `enum:"mean,centroid" default:"mean" group:"triangles" needs:"stage=shaded|svg|mesh"`
	// How to find the triangles: direct, or voronoi, by way of a discrete Voronoi diagram. The triangles are the
	// same.
	Route string `enum:"direct,voronoi" default:"direct" group:"triangles"`
	// What the picture shows: shaded, or what it comes from: edges, points, voronoi, wireframe.
	Stage string `enum:"shaded,edges,points,voronoi,wireframe" default:"shaded" group:"triangles"`

	// How much the vertices of a video stay where they were, 0 to 63: places of vertices have 1 + N times the
	// weight in the next frame.
	Strength int `default:"11" placeholder:"N" group:"triangles" needs:"video"`
	// How far colours in a video may stay from those of the frame alone, in levels of 255, so that they don't
	// flicker.
	Hold int `default:"6" placeholder:"N" group:"triangles" needs:"video"`

	// The PNG to write; - is standard output. Of a video: a .gif; with ffmpeg a .mp4, .mkv, .webm, .mov or .avi; or
	// the folder for frame_00001.png and so on.
	Output string `short:"o" placeholder:"FILE" predictor:"file" group:"output"`
	// Frames a second of the GIF or video to write, up to 1000. By default the rate of the source, or 25 for a
	// folder.
	Rate float64 `placeholder:"N" group:"output" needs:"video"`
	// Write the triangles as an SVG drawing.
	SVG string `placeholder:"FILE" predictor:"file" group:"output" without:"video"`
	// Write the triangles as a mesh: PLY or JSON, by the name of the file.
	Mesh string `placeholder:"FILE" predictor:"file" group:"output" without:"video"`
	// No progress bar.
	Quiet bool `short:"q" group:"output"`
	// Run as batch work, after everything more urgent on the server.
	Batch bool `group:"server" needs:"addr"`
	deviceFlags
	serverFlags
}

func (c *lowpolyCmd) Help() string {
	return `
Makes a picture of triangles: vertices where the image has edges, more than a few pixels apart and nowhere too few,
their Delaunay triangulation, and one colour for each triangle. Triangles cover the whole image. The same image,
options and seed give the same picture on every device.

A mesh has x to the right, 0 to the width of the image, and y down. PLY files are binary, with the colours of faces;
JSON files have width, height, points, triangles and colors.

Examples:

    polyscan lowpoly photo.jpg -o lowpoly.png
    polyscan lowpoly photo.jpg -o lowpoly.png --points 20000 --seed 7 --svg lowpoly.svg --mesh lowpoly.ply
    polyscan lowpoly photo.jpg -o edges.png --stage edges
    polyscan lowpoly --video frames/ -o lowpoly/ --points 4000
    polyscan lowpoly --video film.gif -o lowpoly.gif
    polyscan lowpoly --video film.mp4 -o lowpoly.mp4

In a video, vertices stay where they are and triangles keep their colours as long as the picture stays the same up to
noise, so that it doesn't flicker: --strength=0 --hold=0 converts each frame by itself. GIFs keep their delays. Videos
come without sound.
`
}

// What a pixel takes of the device's memory, and a little more: any, one whose neighbour may be a vertex, too, and one
// of a video.
const (
	imageMemory = 16
	denseMemory = 24
	videoMemory = 8
)

// check looks at the flags alone.
func (c *lowpolyCmd) check() error {
	for _, f := range []struct {
		flag            string
		value, from, to int
	}{
		{"points", c.Points, 4, lowpoly.MaxPoints},
		{"floor", c.Floor, 1, lowpoly.MaxFloor},
		{"spacing", c.Spacing, -1, lowpoly.MaxSpacing},
		{"border", c.Border, 0, kernels.MaxSide},
		{"cell", c.Cell, -1, kernels.MaxSide},
		{"strength", c.Strength, 0, lowpoly.MaxStrength},
		{"hold", c.Hold, 0, 255},
	} {
		if f.value < f.from || f.value > f.to {
			return usage("--%s %d: must be %d to %d", f.flag, f.value, f.from, f.to)
		}
	}
	switch {
	case (c.Image == "") == (c.Video == ""):
		return usage("give an image, or a --video")
	case c.Video != "" && (c.Output == "" || c.Output == "-"):
		return usage("--video needs a folder or a file to write to: --output DIR, FILE.gif or FILE.mp4")
	case c.Rate != 0 && !(c.Rate >= 0.01 && c.Rate <= 1000): // nor NaN
		return usage("--rate %v: must be 0.01 to 1000", c.Rate)
	case c.Output == "" && c.SVG == "" && c.Mesh == "":
		return usage("nothing to write: give --output, --svg or --mesh")
	}
	outputs := []output{{"--output", c.Output, ".png"}, {"--svg", c.SVG, ".svg"}, {"--mesh", c.Mesh, ".ply .json"}}
	if c.Video == "" {
		switch strings.ToLower(filepath.Ext(c.Output)) {
		case ".svg":
			outputs[0].kinds += "; --svg writes a drawing"
		case ".ply", ".json":
			outputs[0].kinds += "; --mesh writes a mesh"
		}
	} else if ext := filepath.Ext(c.Output); ext != "" && kindOfOutput(c.Output) == toFolder {
		if st, err := os.Stat(c.Output); err == nil && !st.IsDir() {
			return bad(c.Output, "is no folder, and no kind of video")
		} else if err != nil {
			return usage("--output %s: a video goes to a file that ends in .gif, %s, or to a folder, whose name has no ending "+
				"unless it is there", cli.Printable(c.Output), strings.Join(videoKinds, ", "))
		}
	}
	if c.Video != "" { // without a slash, behind which there is nothing yet
		c.Output = filepath.Clean(c.Output)
		outputs = []output{{"--output", c.Output, ""}}
	}
	if err := checkOutputs(inputs{c.Image, c.Video}, outputs...); err != nil {
		return err
	}
	_, err := c.meshWriter()
	return err
}

// meshWriter is how the mesh is written, by the name of its file.
func (c *lowpolyCmd) meshWriter() (func(*lowpoly.Mesh, io.Writer) error, error) {
	switch ext := strings.ToLower(filepath.Ext(c.Mesh)); {
	case c.Mesh == "", ext == ".ply":
		return (*lowpoly.Mesh).WritePLY, nil
	case ext == ".json":
		return (*lowpoly.Mesh).WriteJSON, nil
	}
	return nil, usage("--mesh %s: want a file name that ends in .ply or .json", cli.Printable(c.Mesh)) // as of -
}

func (c *lowpolyCmd) Run(e *env) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	if c.Video != "" {
		return c.video(e)
	}
	f, err := c.load(e, c.Image)
	if err != nil {
		return err
	}
	conn, err := c.connect(e, f)
	if err != nil {
		return err
	}
	defer conn.end(&err)
	res, err := conn.Convert(conn.ctx, c.request(f))
	if err != nil {
		return conn.fail(err, f.name, nil)
	}
	return c.write(e, res)
}

// connect makes a connection for frames like f.
func (c *lowpolyCmd) connect(e *env, f *frame) (_ *connection, err error) {
	var width, height int
	if f.raw != nil {
		width, height = f.raw.Width, f.raw.Height
	} else if width, height, err = f.size(); err != nil {
		return nil, err
	}
	// Large images don't fit in what a server inside the process reserves unless it is told.
	if need := c.need(int64(width) * int64(height)); need > 1<<30 {
		c.memory = need
	}
	return connect(e, &c.serverFlags, &c.deviceFlags, "")
}

// need is how much memory of the device an image of so many pixels takes.
func (c *lowpolyCmd) need(pixels int64) int64 {
	each := int64(imageMemory)
	// by default it is a fifth of their mean distance
	if c.Spacing < 0 || c.Spacing == 0 && pixels < 25*int64(c.Points) {
		each += denseMemory
	}
	if c.Video != "" {
		each += videoMemory
	}
	if routeOf(c.Route) == polyscanv1.TriangulateRoute_TRIANGULATE_ROUTE_VORONOI {
		each += diagramMemory
	}
	return pixels*each + int64(c.Points)*pointMemory*2
}

func (c *lowpolyCmd) request(f *frame) *polyscanv1.ConvertRequest {
	req := &polyscanv1.ConvertRequest{
		WorkClass: polyscanv1.WorkClass_WORK_CLASS_INTERACTIVE,
		Options: &polyscanv1.ConvertOptions{
			Vertices: uint32(c.Points), Seed: c.Seed, Floor: uint32(c.Floor), Spacing: int32(c.Spacing),
			Border: uint32(c.Border), Cell: int32(c.Cell),
			Color: polyscanv1.TriangleColor(polyscanv1.TriangleColor_value["TRIANGLE_COLOR_"+strings.ToUpper(c.Color)]),
			Route: routeOf(c.Route),
			Stage: polyscanv1.ConvertStage(polyscanv1.ConvertStage_value["CONVERT_STAGE_"+strings.ToUpper(c.Stage)]),
		},
		Encoding: polyscanv1.Encoding_ENCODING_PNG, NoPicture: c.Output == "", Svg: c.SVG != "", Mesh: c.Mesh != "",
		Frame: f.message(),
	}
	if c.Batch {
		req.WorkClass = polyscanv1.WorkClass_WORK_CLASS_BATCH
	}
	return req
}

// write writes what was asked for. What doesn't go to standard output is reported there, unless the picture is.
func (c *lowpolyCmd) write(e *env, res *polyscanv1.ConvertResponse) error {
	if c.Mesh != "" {
		mesh, err := meshOf(res)
		if err != nil {
			return err
		}
		write, err := c.meshWriter()
		if err != nil {
			return err
		}
		if err := writeFile(c.Mesh, func(w io.Writer) error { return write(mesh, w) }); err != nil {
			return err
		}
	}
	for _, out := range []struct {
		name string
		data []byte
	}{{c.SVG, res.GetSvg()}, {c.Output, res.GetPicture().GetData()}} {
		write := func(w io.Writer) error {
			_, err := w.Write(out.data)
			return err
		}
		var err error
		switch out.name {
		case "":
		case "-":
			err = write(e.stdout)
		default:
			err = writeFile(out.name, write)
		}
		if err != nil {
			return err
		}
	}
	c.warnOfFewer(e, c.Image, int(res.GetVertices()))
	if c.Output == "-" || c.SVG == "-" {
		return nil
	}
	name := c.Output
	if name == "" {
		name = c.Image
	}
	_, err := fmt.Fprintf(e.stdout, "%s: %s, %s, in %s by %s\n", name,
		plural(int(res.GetVertices()), "vertex", "vertices"),
		plural(int(res.GetTriangles()), "triangle", "triangles"), pretty(res.GetCompute().AsDuration()),
		res.GetBackend())
	return err
}

// warnOfFewer says where a picture has fewer vertices than were asked for. The default is for any picture.
func (c *lowpolyCmd) warnOfFewer(e *env, name string, vertices int) {
	if vertices < c.Points && c.Points != lowpoly.DefaultVertices {
		e.warn("%s: %d vertices of %d (--points): no more places keep their distance (--spacing, --border)",
			cli.Printable(name), vertices, c.Points)
	}
}

// meshOf reads a mesh out of a message.
func meshOf(res *polyscanv1.ConvertResponse) (*lowpoly.Mesh, error) {
	m := res.GetMesh()
	points, triangles, colors := m.GetPoints(), m.GetTriangles(), m.GetColors()
	n, k := len(points)/8, len(triangles)/12
	if len(points) != 8*n || len(triangles) != 12*k || len(colors) != 4*k {
		return nil, fmt.Errorf("the server's mesh has %d, %d and %d bytes of points, triangles and colours",
			len(points), len(triangles), len(colors))
	}
	out := &lowpoly.Mesh{Points: make([]lowpoly.Point, n), Triangles: make([]lowpoly.Triangle, k),
		Colors: make([]color.NRGBA, k)}
	at := func(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
	for i := range out.Points {
		p := lowpoly.Point{X: int32(at(points, 2*i)), Y: int32(at(points, 2*i+1))}
		out.Points[i] = p
		out.Width, out.Height = max(out.Width, int(p.X)), max(out.Height, int(p.Y)) // the corners are among them
	}
	for i := range out.Triangles {
		t := lowpoly.Triangle{A: at(triangles, 3*i), B: at(triangles, 3*i+1), C: at(triangles, 3*i+2)}
		if int64(max(t.A, t.B, t.C)) >= int64(n) {
			return nil, fmt.Errorf("triangle %d of the server's mesh has the corners %d, %d and %d; there are %d points", i,
				t.A, t.B, t.C, n)
		}
		out.Triangles[i] = t
		c := colors[4*i:]
		out.Colors[i] = color.NRGBA{R: c[0], G: c[1], B: c[2], A: c[3]}
	}
	return out, nil
}
