package main

// polyscan fill and background: the pixels of holes.

import (
	"image"
	"io"

	"github.com/polyscan/polyscan/kernels"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// holeFlags are a picture and where it has holes.
type holeFlags struct {
	// The picture: PNG, JPEG, TIFF or BMP; - is standard input.
	Frame string `arg:"" predictor:"file"`
	regionFlags
	// An image of the same size, instead of --regions: what is not black and not transparent is a hole, or
	// foreground.
	Mask string `placeholder:"FILE" predictor:"file" group:"regions"`

	solveFlags
}

type fillCmd struct{ holeFlags }

type backgroundCmd struct {
	holeFlags
	// Write the difference between the picture and its background, as a PNG: the middle of the range is no
	// difference.
	Residual string `placeholder:"FILE" predictor:"file" group:"output"`
}

func (c *fillCmd) Help() string {
	return `
Fills holes of a picture from their borders: each pixel of a hole becomes the mean of its neighbours. All other pixels
stay as they are. Holes are the pixels that a mask, or any region, holds, and those that are not opaque. A picture
without holes is an error, and so is a region outside the picture; one that lies partly outside or holds no pixel gives
a warning.

Examples:

    polyscan fill board.png --regions defects.json -o clean.png
    polyscan fill board.png --mask defects.png -o clean.png
    polyscan fill cutout.png -o whole.png
`
}

func (c *fillCmd) Run(e *env) (err error) {
	f, conn, err := c.open(e)
	if err != nil {
		return err
	}
	defer conn.end(&err)
	req := &polyscanv1.FillHolesRequest{
		WorkClass: c.workClass(), Options: c.options(), MaskMethod: f.method, Frame: f.frame.message(),
		Output: &polyscanv1.PictureOutput{Encoding: polyscanv1.Encoding_ENCODING_PNG},
	}
	switch {
	case f.mask != nil:
		req.Holes = &polyscanv1.FillHolesRequest_Mask{Mask: f.mask}
	case f.regions != nil:
		req.Holes = &polyscanv1.FillHolesRequest_RegionSet{RegionSet: f.regions.set()}
	}
	working := e.busy("fill: by " + c.Solver)
	res, err := conn.FillHoles(conn.ctx, req)
	working.end()
	if err != nil {
		return conn.fail(err, c.Frame, f.regions)
	}
	if err := f.checkFilled(e, res.GetReport().GetFilledPixels()); err != nil {
		return err
	}
	return c.finish(e, e.stdout, res.GetPicture().GetData(),
		plural(int(res.GetReport().GetFilledPixels()), "pixel", "pixels")+" filled", res.GetReport())
}

func (c *backgroundCmd) Help() string {
	return `
Estimates the background of a picture: what it would be without the pixels that a mask, or any region, holds. Those
become the mean of their neighbours, from the border of the region inwards; all others stay as they are, so a part or
a defect is to lie inside as a whole. The residual is the picture less its background plus 128 (or, of samples of 16
bits, half of the levels), cut to the range.

Examples:

    polyscan background board.png --regions parts.json -o background.png --residual parts.png
`
}

func (c *backgroundCmd) Run(e *env) (err error) {
	err = checkOutputs(inputs{c.Frame, c.Regions, c.Mask}, output{"--output", c.Output, ".png"},
		output{"--residual", c.Residual, ".png"})
	if err != nil {
		return err
	}
	f, conn, err := c.open(e)
	if err != nil {
		return err
	}
	defer conn.end(&err)
	png := polyscanv1.Encoding_ENCODING_PNG
	req := &polyscanv1.BackgroundRequest{
		WorkClass: c.workClass(), Options: c.options(), MaskMethod: f.method, Frame: f.frame.message(),
		Background: &polyscanv1.PictureOutput{Encoding: png},
		Residual:   &polyscanv1.PictureOutput{Encoding: png, Omit: c.Residual == ""},
	}
	switch {
	case f.mask != nil:
		req.Foreground = &polyscanv1.BackgroundRequest_Mask{Mask: f.mask}
	case f.regions != nil:
		req.Foreground = &polyscanv1.BackgroundRequest_RegionSet{RegionSet: f.regions.set()}
	}
	working := e.busy("background: by " + c.Solver)
	res, err := conn.Background(conn.ctx, req)
	working.end()
	if err != nil {
		return conn.fail(err, c.Frame, f.regions)
	}
	if err := f.checkFilled(e, res.GetReport().GetFilledPixels()); err != nil {
		return err
	}
	report := e.stdout
	if c.Residual != "" {
		write := func(w io.Writer) error {
			_, err := w.Write(res.GetResidual().GetData())
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
	return c.finish(e, report, res.GetBackground().GetData(),
		plural(int(res.GetReport().GetFilledPixels()), "pixel", "pixels")+" estimated", res.GetReport())
}

// holed is a picture with holes.
type holed struct {
	frame   *frame
	mask    []byte   // nil without --mask
	regions *regions // nil without --regions
	method  polyscanv1.MaskMethod
}

// open reads what the flags say, and connects.
func (c *holeFlags) open(e *env) (*holed, *connection, error) {
	if err := c.check(inputs{c.Frame, c.Regions, c.Mask}); err != nil {
		return nil, nil, err
	}
	regions := c.Regions != "" || len(c.Shape) > 0
	if c.Mask != "" && regions {
		return nil, nil, usage("holes: give one of --regions and --mask, or none for those that are not opaque")
	}
	if c.Mask == "-" && c.Frame == "-" {
		return nil, nil, usage("the frame and --mask are both -: standard input holds one of them")
	}
	if err := c.checkFile(); err != nil {
		return nil, nil, err
	}
	out := &holed{method: methods[c.Method]}
	var err error
	if out.frame, err = imageFiles().load(e, c.Frame); err != nil {
		return nil, nil, err
	}
	w, h, err := out.frame.size()
	if err != nil {
		return nil, nil, err
	}
	c.room(w, h, nil)
	switch {
	case c.Mask != "":
		f, err := loadPicture(e, c.Mask)
		if err != nil {
			return nil, nil, err
		}
		mask, err := f.decode() // stretched, dark pixels would become black
		if err != nil {
			return nil, nil, err
		}
		if m := mask.Bounds(); m.Dx() != w || m.Dy() != h {
			return nil, nil, bad(c.Mask, "is %dx%d; the picture is %dx%d", m.Dx(), m.Dy(), w, h)
		}
		out.mask = maskOf(mask)
	case regions:
		t, err := c.target(e, "", c.Frame, false)
		if err != nil {
			return nil, nil, err
		}
		out.regions = t.regions
		if err := out.regions.checkLocate(e); err != nil {
			return nil, nil, err
		}
		if err := out.regions.checkSize(e, inputName(c.Frame), uint32(w), uint32(h)); err != nil {
			return nil, nil, err
		}
		if err := out.regions.checkInside(e, w, h); err != nil {
			return nil, nil, err
		}
	}
	conn, err := connect(e, &c.serverFlags, &c.deviceFlags, "")
	return out, conn, err
}

// checkFilled refuses what has no hole: regions or a mask of another picture, as a rule. The picture would be the one
// that came, and whoever goes on with it would take it for a filled one.
func (f *holed) checkFilled(e *env, pixels uint64) error {
	switch {
	case pixels > 0 && f.regions != nil:
		return f.checkPixels(e)
	case pixels > 0:
		return nil
	case f.regions != nil:
		return bad(f.regions.name, "no region holds a pixel of the picture: there is nothing to fill")
	case f.mask != nil:
		return usage("--mask: it is black: there is nothing to fill")
	default:
		return bad(f.frame.name, "the picture is opaque and there are no --regions and no --mask: there is nothing to fill")
	}
}

// checkPixels warns of regions that hold no pixel of the picture beside others that do.
func (f *holed) checkPixels(e *env) error {
	w, h, err := f.frame.size()
	if err != nil {
		return err
	}
	masks, err := f.regions.masks()
	if err != nil {
		return err
	}
	counts := make([]uint64, len(masks))
	for i := range counts {
		if counts[i], _, err = f.regions.pixels(i, masks, w, h); err != nil {
			return err
		}
	}
	t := target{regions: f.regions}
	if _, text := t.noPixels(counts, w, h); text != "" {
		return f.regions.warn(e, "%s", text)
	}
	return nil
}

// loadPicture reads an image file that is not too large to be decoded.
func loadPicture(e *env, name string) (*frame, error) {
	f, err := imageFiles().load(e, name)
	if err != nil {
		return nil, err
	}
	w, h, err := f.size()
	if err != nil {
		return nil, err
	}
	if int64(w)*int64(h) > kernels.MaxPixels {
		return nil, bad(f.name, "has %dx%d pixels, more than %d", w, h, kernels.MaxPixels)
	}
	return f, nil
}

// maskOf has a byte for each pixel of an image: 1 where it is neither black nor transparent.
func maskOf(im image.Image) []byte {
	b := im.Bounds()
	out := make([]byte, 0, b.Dx()*b.Dy())
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			v := byte(0)
			if r, g, b, a := im.At(x, y).RGBA(); a != 0 && r|g|b != 0 {
				v = 1
			}
			out = append(out, v)
		}
	}
	return out
}
