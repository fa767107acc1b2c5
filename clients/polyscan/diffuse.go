package main

// polyscan diffuse, fill and background: the pixels of pictures that are not given.

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"strings"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/curvefile"
	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/kernels/driver"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// solveFlags say how to solve.
type solveFlags struct {
	Solver    string  `help:"How to solve. All but multigrid are for comparison, and slow: naive, pyramid-cautious, pyramid-greedy, variable-stencil." enum:"multigrid,naive,pyramid-cautious,pyramid-greedy,variable-stencil" default:"multigrid" placeholder:"METHOD" group:"diffusion"`
	Accuracy  float64 `help:"Stop when the estimated error is at most so many levels of 8 bits." default:"0.25" placeholder:"LEVELS" group:"diffusion"`
	MaxCycles int     `help:"Stop after so many cycles, whatever the error." default:"500" placeholder:"N" group:"diffusion"`

	Output string `help:"The PNG to write; - is standard output." short:"o" required:"" placeholder:"FILE" predictor:"file" group:"output"`
	Batch  bool   `help:"Let everything more urgent on the server go first." group:"server"`
	deviceFlags
	serverFlags
}

// solveMemory is what a pixel takes of the device's memory, and a little more.
const solveMemory = 120

func (c *solveFlags) check() error {
	if !(c.Accuracy > 0 && c.Accuracy <= 255) {
		return usage("--accuracy %v: must be more than 0, and at most 255", c.Accuracy)
	}
	if c.MaxCycles < 1 || c.MaxCycles > 100000 {
		return usage("--max-cycles %d: must be 1 to 100000", c.MaxCycles)
	}
	if c.Output != "-" {
		return checkFolder(c.Output)
	}
	return nil
}

// room makes a server inside the process reserve enough for an image.
func (c *solveFlags) room(width, height int) {
	if need := int64(width) * int64(height) * solveMemory; need > 1<<30 {
		c.memory = need
	}
}

func (c *solveFlags) request(f *polyscanv1.Frame, encoding polyscanv1.Encoding) *polyscanv1.SolveRequest {
	method := strings.ToUpper(strings.ReplaceAll(c.Solver, "-", "_"))
	req := &polyscanv1.SolveRequest{
		WorkClass: polyscanv1.WorkClass_WORK_CLASS_INTERACTIVE,
		Options: &polyscanv1.DiffusionOptions{
			Tolerance: float32(c.Accuracy), MaxCycles: uint32(c.MaxCycles),
			Method: polyscanv1.DiffusionMethod(polyscanv1.DiffusionMethod_value["DIFFUSION_METHOD_"+method]),
		},
		Encoding: encoding,
		Frame:    f,
	}
	if c.Batch {
		req.WorkClass = polyscanv1.WorkClass_WORK_CLASS_BATCH
	}
	return req
}

// finish writes the PNG, and to report what is to say of it.
func (c *solveFlags) finish(e *env, report io.Writer, file []byte, what string, res *polyscanv1.SolveResponse) error {
	if !res.GetConverged() {
		e.warn("%s: stopped after %s with an estimated error of %.2g levels", c.Output, plural(int(res.GetCycles()), "cycle", "cycles"), res.GetEstimate())
	}
	if c.Output == "-" {
		_, err := e.stdout.Write(file)
		return err
	}
	err := writeFile(c.Output, func(w io.Writer) error {
		_, err := w.Write(file)
		return err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(report, "%s: %s, %s, in %s by %s\n", c.Output, what, plural(int(res.GetCycles()), "cycle", "cycles"),
		pretty(res.GetCompute().AsDuration()), res.GetBackend())
	return err
}

type diffuseCmd struct {
	Constraints string `arg:"" help:"What is given: curves in JSON or XML, or a PNG or TIFF with transparency; - is standard input." predictor:"file"`
	Compare     string `help:"Print how close the picture comes to this one of the same size: the ratio of peak signal to noise, and by how many levels it is off at most." placeholder:"FILE" predictor:"file" group:"output"`
	solveFlags
}

func (c *diffuseCmd) Help() string {
	return `
Makes a picture of constraints: some pixels are given, and each other one becomes the mean of its neighbours. Given are the opaque
pixels of an image (pixels that are partly transparent are not), or those along both sides of diffusion curves, whose blur is then
applied. The picture is within a fraction of a level of the exact solution, and rounded.

A file of curves is polyscan's JSON, as the README has it, or the XML of Orzan and others.

Examples:

    polyscan diffuse constraints.png -o picture.png
    polyscan diffuse zephyr.xml -o picture.png
    polyscan diffuse photo.json.gz -o again.png --compare photo.jpg
    polyscan diffuse constraints.png -o picture.png --solver pyramid-greedy --max-cycles 1
`
}

func (c *diffuseCmd) Run(e *env) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	req, w, h, err := c.load(e)
	if err != nil {
		return err
	}
	var reference *diffusion.Picture
	if c.Compare != "" {
		if reference, err = c.reference(e, w, h); err != nil {
			return err
		}
	}
	c.room(w, h)
	conn, err := connect(e, &c.serverFlags, &c.deviceFlags, "")
	if err != nil {
		return err
	}
	defer conn.end(&err)
	res, err := conn.Solve(conn.ctx, req)
	if err != nil {
		return conn.fail(err, c.Constraints, nil)
	}
	given := fmt.Sprintf("%.2g %% of %dx%d pixels given", 100*float64(res.GetGivenPixels())/float64(w*h), w, h)
	if reference != nil {
		close, err := closeness(res.GetPicture().GetData(), reference)
		if err != nil {
			return err
		}
		given += ", " + close
	}
	return c.finish(e, e.stdout, res.GetPicture().GetData(), given, res)
}

// reference is the picture of --compare.
func (c *diffuseCmd) reference(e *env, w, h int) (*diffusion.Picture, error) {
	im, err := loadPicture(e, c.Compare)
	if err != nil {
		return nil, err
	}
	if b := im.Bounds(); b.Dx() != w || b.Dy() != h {
		return nil, bad(c.Compare, "is %dx%d; the picture will be %dx%d", b.Dx(), b.Dy(), w, h)
	}
	p, _, err := planesOf(im)
	return p, err
}

// closeness says how far a PNG is from a picture.
func closeness(file []byte, reference *diffusion.Picture) (string, error) {
	im, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		return "", err
	}
	p, _, err := planesOf(im)
	if err != nil {
		return "", err
	}
	worst := float32(0)
	for i, v := range p.Values {
		worst = max(worst, v-reference.Values[i], reference.Values[i]-v)
	}
	return fmt.Sprintf("%.2f dB, %.0f levels off at most", diffusion.PSNR(p.Values, reference.Values), 255*worst), nil
}

// load makes a request of curves or of a picture.
func (c *diffuseCmd) load(e *env) (req *polyscanv1.SolveRequest, w, h int, err error) {
	name := inputName(c.Constraints)
	data, err := readInput(e, c.Constraints, maxFile)
	if err != nil {
		return nil, 0, 0, err
	}
	if curvefile.Is(data) {
		d, err := curvefile.Parse(name, data, curvefile.Options{})
		if err != nil {
			return nil, 0, 0, &inputError{err.Error()}
		}
		req = c.request(nil, polyscanv1.Encoding_ENCODING_PNG)
		req.Drawing = d
		return req, int(d.Width), int(d.Height), nil
	}
	f, err := (&frameFlags{}).frame(name, data)
	if err != nil {
		return nil, 0, 0, err
	}
	if w, h, err = f.size(); err != nil {
		return nil, 0, 0, err
	}
	m := f.message()
	m.Layout = &polyscanv1.FrameLayout{PixelFormat: polyscanv1.PixelFormat_PIXEL_FORMAT_RGBA8}
	return c.request(m, polyscanv1.Encoding_ENCODING_PNG), w, h, nil
}

// holeFlags are a picture and where it has holes.
type holeFlags struct {
	Frame string `arg:"" help:"The picture with holes: PNG, JPEG, TIFF or BMP; - is standard input." predictor:"file"`
	regionFlags
	Mask string `help:"An image of the same size, instead of --regions: what is not black and not transparent is a hole." placeholder:"FILE" predictor:"file" group:"regions"`
	solveFlags
}

type fillCmd struct{ holeFlags }

type backgroundCmd struct {
	holeFlags
	Residual string `help:"Write what the picture has over its background, as a PNG: 128 where they are the same." placeholder:"FILE" predictor:"file" group:"output"`
}

func (c *fillCmd) Help() string {
	return `
Fills holes of a picture from their borders: each pixel of a hole becomes the mean of its neighbours. All other pixels stay as they
are; transparency is dropped, and 16 bits are stretched to 8. Holes are the pixels that a mask, or any region, holds.

Examples:

    polyscan fill board.png --regions defects.json -o clean.png
    polyscan fill board.png --mask defects.png -o clean.png
`
}

func (c *fillCmd) Run(e *env) error {
	f, err := c.fill(e)
	if err != nil {
		return err
	}
	return c.finish(e, e.stdout, f.file, plural(f.holes, "pixel", "pixels")+" filled", f.res)
}

func (c *backgroundCmd) Help() string {
	return `
Estimates the background of a picture: what it would be without the pixels that a mask, or any region, holds. Those become the mean
of their neighbours, from the border of the region inwards; all others stay as they are, so a part or a defect is to lie inside as a
whole. The residual is the picture less its background plus 128, within 0 to 255.

Examples:

    polyscan background board.png --regions parts.json -o background.png --residual parts.png
`
}

func (c *backgroundCmd) Run(e *env) error {
	if c.Residual == "-" && c.Output == "-" {
		return usage("--output and --residual are both -: standard output holds one of them")
	}
	if c.Residual != "" && c.Residual != "-" {
		if err := checkFolder(c.Residual); err != nil {
			return err
		}
	}
	f, err := c.fill(e)
	if err != nil {
		return err
	}
	report := e.stdout
	if c.Residual != "" {
		file, err := f.residual()
		if err != nil {
			return err
		}
		write := func(w io.Writer) error {
			_, err := w.Write(file)
			return err
		}
		if c.Residual == "-" {
			report = io.Discard
			err = write(e.stdout)
		} else {
			err = writeFile(c.Residual, write)
		}
		if err != nil {
			return err
		}
	}
	return c.finish(e, report, f.file, plural(f.holes, "pixel", "pixels")+" estimated", f.res)
}

// filled is a picture whose holes were filled.
type filled struct {
	picture *image.NRGBA // as it was, but for alpha
	gray    bool
	holes   int // pixels
	res     *polyscanv1.SolveResponse
	file    []byte // the PNG
}

// residual is a PNG of what the picture has over what it was filled with.
func (f *filled) residual() ([]byte, error) {
	pixels := f.res.GetPicture().GetData()
	out := make([]byte, len(pixels))
	for i, v := range pixels {
		out[i] = uint8(min(max(128+int(f.picture.Pix[i/3*4+i%3])-int(v), 0), 255))
	}
	return encodeRGB(out, f.picture.Rect.Dx(), f.picture.Rect.Dy(), f.gray)
}

func (c *holeFlags) fill(e *env) (_ *filled, err error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if (c.Mask == "") == (c.Regions == "") {
		return nil, usage("holes: give one of --regions and --mask")
	}
	if c.Mask == "-" && c.Frame == "-" {
		return nil, usage("the frame and --mask are both -: standard input holds one of them")
	}
	picture, err := loadPicture(e, c.Frame)
	if err != nil {
		return nil, err
	}
	b := picture.Bounds()
	c.room(b.Dx(), b.Dy())
	var mask image.Image
	var t *target
	if c.Mask != "" {
		if mask, err = loadPicture(e, c.Mask); err != nil {
			return nil, err
		}
		if m := mask.Bounds(); m.Dx() != b.Dx() || m.Dy() != b.Dy() {
			return nil, bad(c.Mask, "is %dx%d; the picture is %dx%d", m.Dx(), m.Dy(), b.Dx(), b.Dy())
		}
	} else if t, err = c.target(e, "", c.Frame); err != nil {
		return nil, err
	}
	conn, err := connect(e, &c.serverFlags, &c.deviceFlags, "")
	if err != nil {
		return nil, err
	}
	defer conn.end(&err)
	if t != nil {
		t.regions.checkSize(e, inputName(c.Frame), uint32(b.Dx()), uint32(b.Dy()))
		if mask, err = c.rasterize(conn, t, b.Dx(), b.Dy()); err != nil {
			return nil, err
		}
	}
	im, holes := cutOut(picture, mask)
	raw := &clients.Raw{Width: b.Dx(), Height: b.Dy(), Format: clients.RGBA8}
	res, err := conn.Solve(conn.ctx, c.request(raw.Frame(im.Pix), polyscanv1.Encoding_ENCODING_RAW))
	if err != nil {
		return nil, conn.fail(err, c.Frame, nil)
	}
	_, gray := picture.(*image.Gray)
	file, err := encodeRGB(res.GetPicture().GetData(), b.Dx(), b.Dy(), gray)
	if err != nil {
		return nil, err
	}
	return &filled{im, gray, holes, res, file}, nil
}

// loadPicture reads and decodes an image file.
func loadPicture(e *env, name string) (image.Image, error) {
	f, err := (&frameFlags{}).load(e, name)
	if err != nil {
		return nil, err
	}
	w, h, err := f.size()
	if err != nil {
		return nil, err
	}
	if int64(w)*int64(h) > driver.MaxPixels {
		return nil, bad(f.name, "has %dx%d pixels, more than %d", w, h, driver.MaxPixels)
	}
	return f.picture()
}

// rasterize asks the server for the pixels of the regions.
func (c *holeFlags) rasterize(conn *connection, t *target, w, h int) (image.Image, error) {
	res, err := conn.Rasterize(conn.ctx, &polyscanv1.RasterizeRequest{
		Width: uint32(w), Height: uint32(h), Method: t.method, Mode: polyscanv1.RasterMode_RASTER_MODE_MASK,
		Encoding: polyscanv1.Encoding_ENCODING_PNG,
		Regions:  &polyscanv1.RasterizeRequest_RegionSet{RegionSet: &polyscanv1.RegionSet{Regions: t.regions.message()}},
	})
	if err != nil {
		return nil, conn.fail(err, "", t.regions)
	}
	return png.Decode(bytes.NewReader(res.GetImage().GetData()))
}

// cutOut is a picture whose pixels are transparent where the mask is neither black nor transparent, and opaque elsewhere; and how many
// those are.
func cutOut(picture, mask image.Image) (im *image.NRGBA, holes int) {
	b, m := picture.Bounds(), mask.Bounds()
	im = image.NewNRGBA(image.Rect(0, 0, b.Dx(), b.Dy()))
	if p, ok := picture.(*image.NRGBA); ok { // drawing would lose the colours of transparent pixels
		for y := range b.Dy() {
			copy(im.Pix[y*im.Stride:], p.Pix[p.PixOffset(b.Min.X, b.Min.Y+y):][:im.Stride])
		}
	} else {
		draw.Draw(im, im.Rect, picture, b.Min, draw.Src)
	}
	for y := range b.Dy() {
		for x := range b.Dx() {
			alpha := &im.Pix[im.PixOffset(x, y)+3]
			*alpha = math.MaxUint8
			if r, g, b, a := mask.At(m.Min.X+x, m.Min.Y+y).RGBA(); a != 0 && r|g|b != 0 {
				*alpha = 0
				holes++
			}
		}
	}
	return im, holes
}

// encodeRGB makes a PNG of pixels of three bytes, in gray where they are.
func encodeRGB(pixels []byte, w, h int, gray bool) ([]byte, error) {
	if len(pixels) != 3*w*h {
		return nil, fmt.Errorf("the server's picture has %d bytes for %dx%d pixels", len(pixels), w, h)
	}
	var im draw.Image = image.NewNRGBA(image.Rect(0, 0, w, h))
	if gray {
		im = image.NewGray(im.Bounds())
	}
	for i := range w * h {
		im.Set(i%w, i/w, color.NRGBA{pixels[3*i], pixels[3*i+1], pixels[3*i+2], 255})
	}
	var b bytes.Buffer
	err := png.Encode(&b, im)
	return b.Bytes(), err
}
