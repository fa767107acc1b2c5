package main

// polyscan mask: regions as pixels.

import (
	"fmt"
	"io"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type maskCmd struct {
	// A frame to take the size of; or give --size.
	Frame string `arg:"" optional:"" predictor:"file"`

	// Size of the mask.
	Size string `placeholder:"WxH" group:"frame"`
	// The frame is raw pixels of this size; the rest of it plays no part.
	Raw rawSpec `placeholder:"WxH:FORMAT[:STRIDE]" group:"frame"`
	regionFlags
	// Regions stored on the server, instead of --regions.
	Recipe string `placeholder:"NAME[@VERSION]" group:"regions"`
	// Folder in which the server inside the process keeps recipes.
	Recipes string `placeholder:"DIR" predictor:"dir" group:"regions"`
	// The PNG to write; - is standard output.
	Output string `short:"o" required:"" placeholder:"FILE" predictor:"file" group:"output"`
	// Write 16-bit labels (1 + the region's index; the last region that holds a pixel) instead of 255 in any
	// region.
	Labels bool `group:"output"`
	deviceFlags
	serverFlags
}

func (c *maskCmd) Help() string {
	return `
Writes the pixels of regions as an image: 8-bit gray with 255 inside any region, or 16-bit labels. It holds the very
pixels that reduce looks at.

Examples:

    polyscan mask testdata/board.png --regions testdata/board.regions.json -o mask.png
    polyscan mask --size 640x480 --regions zones.svg --labels -o labels.png
`
}

func (c *maskCmd) Run(e *env) (err error) {
	w, h, err := c.size(e)
	if err != nil {
		return err
	}
	if err := checkOutputs(output{"--output", c.Output}); err != nil {
		return err
	}
	t, err := c.target(e, c.Recipe, c.Frame)
	if err != nil {
		return err
	}
	req := &polyscanv1.RasterizeRequest{
		Width: uint32(w), Height: uint32(h), Method: t.method,
		Mode: polyscanv1.RasterMode_RASTER_MODE_MASK, Encoding: polyscanv1.Encoding_ENCODING_PNG,
	}
	if c.Labels {
		req.Mode = polyscanv1.RasterMode_RASTER_MODE_LABELS
	}
	if t.recipe != nil {
		req.Regions = &polyscanv1.RasterizeRequest_Recipe{Recipe: t.recipe}
	} else {
		req.Regions = &polyscanv1.RasterizeRequest_RegionSet{RegionSet: &polyscanv1.RegionSet{Regions: t.regions.message()}}
	}
	if t.regions != nil {
		if err := t.regions.checkSize(e, "the mask", uint32(w), uint32(h)); err != nil {
			return err
		}
	}
	conn, err := connect(e, &c.serverFlags, &c.deviceFlags, c.Recipes)
	if err != nil {
		return err
	}
	defer conn.end(&err)
	res, err := conn.Rasterize(conn.ctx, req)
	if err != nil {
		return conn.fail(err, "", t.regions)
	}
	if c.Output == "-" {
		_, err = e.stdout.Write(res.GetImage().GetData())
		return err
	}
	err = writeFile(c.Output, func(w io.Writer) error {
		_, err := w.Write(res.GetImage().GetData())
		return err
	})
	if err != nil {
		return err
	}
	total := uint64(0)
	for _, n := range res.GetCounts() {
		total += n
	}
	_, err = fmt.Fprintf(e.stdout, "%s: %dx%d, %s of %s, by %s\n", c.Output, w, h,
		plural(int(total), "pixel", "pixels"), plural(len(res.GetCounts()), "region", "regions"), res.GetBackend())
	return err
}

// size finds out how large the mask is.
func (c *maskCmd) size(e *env) (w, h int, err error) {
	switch {
	case c.Size != "" && (c.Frame != "" || c.Raw.set()):
		return 0, 0, usage("--size and a frame: give one of them")
	case c.Size != "":
		if w, h, err = parseSize(c.Size); err != nil {
			return 0, 0, usage("--size: %v", err)
		}
		return w, h, nil
	case c.Raw.set():
		return c.Raw.Width, c.Raw.Height, nil
	case c.Frame == "":
		return 0, 0, usage("the size is missing: give a FRAME or --size WxH")
	}
	o := frameFlags{}
	f, err := o.load(e, c.Frame)
	if err != nil {
		return 0, 0, err
	}
	return f.size()
}
