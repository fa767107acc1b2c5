package main

// polyscan mask: regions as pixels.

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"

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
	Recipes string `placeholder:"DIR" predictor:"dir" group:"regions" needs:"recipe" without:"addr"`
	// The PNG to write; - is standard output.
	Output string `short:"o" required:"" placeholder:"FILE" predictor:"file" group:"output"`
	// Write 16-bit labels (1 + the region's index; the last region that holds a pixel) instead of 255 in any
	// region.
	Labels bool `group:"output"`
	// With --labels, write 8-bit labels with a palette, so that a viewer shows them in colours. There may be at
	// most 255 regions.
	Palette bool `group:"output" needs:"labels"`
	deviceFlags
	serverFlags
}

func (c *maskCmd) Help() string {
	return `
Writes the pixels of regions as an image: 8-bit gray with 255 inside any region, or 16-bit labels. It holds the very
pixels that reduce looks at. A region that holds none is an error; one that lies partly outside, or whose label no pixel
has as others cover it, gives a warning.

Examples:

    polyscan mask testdata/board.png --regions testdata/board.regions.json -o mask.png
    polyscan mask --size 640x480 --regions zones.svg --labels --palette -o labels.png
`
}

func (c *maskCmd) Run(e *env) (err error) {
	w, h, err := c.size(e)
	if err != nil {
		return err
	}
	if err := checkOutputs(inputs{c.Frame, c.Regions}, output{"--output", c.Output, ".png"}); err != nil {
		return err
	}
	t, err := c.target(e, c.Recipe, c.Frame, false)
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
		req.Regions = &polyscanv1.RasterizeRequest_RegionSet{RegionSet: t.regions.set()}
	}
	if t.regions != nil {
		if err := t.regions.checkSize(e, "the mask", uint32(w), uint32(h)); err != nil {
			return err
		}
	}
	conn, err := t.connect(e, &c.serverFlags, &c.deviceFlags, c.Recipes)
	if err != nil {
		return err
	}
	defer conn.end(&err)
	res, err := conn.Rasterize(conn.ctx, req)
	if err != nil {
		return conn.fail(err, "", t.regions)
	}
	// A mask that leaves some regions out looks like any other.
	if name, text := t.noPixels(res.GetCounts(), w, h); text != "" {
		return bad(name, "%s", text)
	}
	if n := len(res.GetCounts()); c.Palette && n > maxPalette {
		return usage("--palette: it has colours for %d regions, and there are %d", maxPalette, n)
	}
	known, err := t.known(conn)
	if err != nil {
		return err
	}
	if err := known.checkLocate(e); err != nil {
		return err
	}
	if err := known.checkInside(e, w, h); err != nil {
		return err
	}
	data := res.GetImage().GetData()
	total, labels, err := countPixels(data)
	if err != nil {
		return err
	}
	if c.Labels {
		if err := known.checkLabels(e, labels); err != nil {
			return err
		}
	}
	if c.Palette {
		if data, err = withPalette(data); err != nil {
			return err
		}
	}
	if c.Output == "-" {
		_, err = e.stdout.Write(data)
		return err
	}
	err = writeFile(c.Output, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	sum := uint64(0)
	for _, n := range res.GetCounts() {
		sum += n
	}
	overlaps := ""
	if uint64(total) != sum {
		overlaps = fmt.Sprintf(" (%d where each region counts its own)", sum)
	}
	_, err = fmt.Fprintf(e.stdout, "%s: %dx%d, %s in %s%s, by %s\n", c.Output, w, h,
		plural(total, "pixel", "pixels"), plural(len(res.GetCounts()), "region", "regions"), overlaps, res.GetBackend())
	return err
}

// noPixels says which regions hold no pixel, and where they come from; text is empty where all hold some.
func (t *target) noPixels(counts []uint64, w, h int) (name, text string) {
	first, more := -1, 0
	for i, n := range counts {
		switch {
		case n > 0:
		case first < 0:
			first = i
		default:
			more++
		}
	}
	if first < 0 {
		return "", ""
	}
	name, region := "recipe "+t.recipe.GetName(), fmt.Sprintf("regions[%d]", first)
	if t.regions != nil {
		name, region = t.regions.name, fmt.Sprintf("region %q", t.regions.file.Regions[first].Name)
	}
	if more > 0 {
		return name, fmt.Sprintf("%s and %d more hold no pixel of %dx%d", region, more, w, h)
	}
	return name, fmt.Sprintf("%s holds no pixel of %dx%d", region, w, h)
}

// checkLabels warns of regions whose label no pixel has.
func (r *regions) checkLabels(e *env, labels map[int]bool) error {
	var hidden []string
	for i, g := range r.file.Regions {
		if !labels[i+1] {
			hidden = append(hidden, g.Name)
		}
	}
	switch n := len(hidden) - 1; {
	case n < 0:
		return nil
	case n == 0:
		return r.warn(e, "no pixel has the label of region %q: regions behind it hold all of its pixels", hidden[0])
	default:
		return r.warn(e, "no pixel has the label of region %q, nor those of %d more: regions behind them hold all of their "+
			"pixels", hidden[0], n)
	}
}

// countPixels counts the pixels of a mask, or of labels, that a region holds, and finds the labels.
func countPixels(data []byte) (n int, labels map[int]bool, err error) {
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return 0, nil, fmt.Errorf("the server's mask: %w", err)
	}
	labels = map[int]bool{}
	switch img := img.(type) {
	case *image.Gray:
		for _, v := range img.Pix {
			if v != 0 {
				n++
			}
		}
	case *image.Gray16:
		for last, i := 0, 0; i < len(img.Pix); i += 2 {
			if v := int(img.Pix[i])<<8 | int(img.Pix[i+1]); v != 0 {
				if n++; v != last {
					last, labels[v] = v, true
				}
			}
		}
	default:
		return 0, nil, fmt.Errorf("the server's mask is %T", img)
	}
	return n, labels, nil
}

// maxPalette is how many regions a palette of 8 bits has colours for, beside the black of no region.
const maxPalette = 255

// withPalette makes an image of 8-bit labels with a palette of one of 16-bit labels, all of which are small.
func withPalette(data []byte) ([]byte, error) {
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("the server's labels: %w", err)
	}
	labels, ok := img.(*image.Gray16)
	if !ok {
		return nil, fmt.Errorf("the server's labels are %T", img)
	}
	out := image.NewPaletted(labels.Rect, labelPalette())
	for i := range out.Pix {
		out.Pix[i] = labels.Pix[2*i+1]
	}
	var b bytes.Buffer
	err = png.Encode(&b, out)
	return b.Bytes(), err
}

// labelPalette is black, and then hues that are far apart for labels that are close.
func labelPalette() color.Palette {
	p := color.Palette{color.NRGBA{A: 255}}
	for i := range maxPalette {
		hue := 6 * math.Mod(0.13+float64(i)*0.618033988749895, 1) // steps of the golden ratio
		value := 1 - 0.15*float64(i%3)
		channel := func(shift float64) uint8 {
			k := math.Mod(shift+hue, 6)
			return uint8(255 * (value - 0.8*value*max(0, min(k, 4-k, 1))))
		}
		p = append(p, color.NRGBA{channel(5), channel(3), channel(1), 255})
	}
	return p
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
