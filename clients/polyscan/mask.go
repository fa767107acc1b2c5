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

	"github.com/polyscan/polyscan/polygon"
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
	// Write winding numbers instead: 16-bit gray, 32768 + the sum of those of all regions.
	Winding bool `group:"output"`
	// Write signed distances from the outline instead: 16-bit gray, 32768 + 32 for each pixel of distance inside, and -
	// 32 outside.
	Distance bool `group:"output"`
	// With --labels, --winding or --distance, write 8 bits with a palette, so that a viewer shows them in colours:
	// labels of at most 255 regions, winding numbers of -127 to 127, bands of distances that are 8 px wide.
	Palette bool `group:"output"`
	deviceFlags
	serverFlags
}

func (c *maskCmd) Help() string {
	return `
Writes the pixels of regions as an image: 8-bit gray with 255 inside any region, or 16-bit labels, winding numbers or
distances from the outline. It holds the very pixels that reduce looks at. A region that holds none is an error; one that
lies partly outside, or whose label no pixel has as others cover it, gives a warning.

Examples:

    polyscan mask testdata/board.png --regions testdata/board.regions.json -o mask.png
    polyscan mask --size 640x480 --regions zones.svg --labels --palette -o labels.png
    polyscan mask testdata/board.png --regions testdata/board.regions.json --distance -o distance.png
`
}

func (c *maskCmd) Run(e *env) (err error) {
	w, h, err := c.size(e)
	if err != nil {
		return err
	}
	mode, err := c.mode()
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
		Mode: mode, Encoding: polyscanv1.Encoding_ENCODING_PNG,
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
	if n := len(res.GetCounts()); c.Labels && c.Palette && n > maxPalette {
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
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("the server's mask: %w", err)
	}
	what, labels, capped := c.describe(img, res.GetCounts())
	if capped != "" {
		if err := known.warn(e, "%s", capped); err != nil {
			return err
		}
	}
	if c.Labels {
		if err := known.checkLabels(e, labels); err != nil {
			return err
		}
	}
	if c.Palette {
		if data, err = c.withPalette(img); err != nil {
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
	_, err = fmt.Fprintf(e.stdout, "%s: %dx%d, %s, by %s\n", c.Output, w, h, what, res.GetBackend())
	return err
}

// mode is what is to be drawn.
func (c *maskCmd) mode() (mode polyscanv1.RasterMode, err error) {
	given := "" // modes follow each other as the flags do
	for i, f := range []struct {
		is   bool
		name string
	}{{true, ""}, {c.Labels, "--labels"}, {c.Winding, "--winding"}, {c.Distance, "--distance"}} {
		if f.is && given != "" {
			return 0, usage("%s and %s: give one of them", given, f.name)
		}
		if f.is {
			mode, given = polyscanv1.RasterMode_RASTER_MODE_MASK+polyscanv1.RasterMode(i), f.name
		}
	}
	if c.Palette && given == "" {
		return 0, usage("--palette has no effect without --labels, --winding or --distance")
	}
	return mode, nil
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

// describe says what an image holds, and finds the labels of one of labels. capped says that numbers are written as the
// least or the greatest that there are.
func (c *maskCmd) describe(img image.Image, counts []uint64) (what string, labels map[int]bool, capped string) {
	total, sum, of := 0, uint64(0), plural(len(counts), "region", "regions")
	least, greatest := float64(polygon.FieldZero), -float64(polygon.FieldZero)
	labels = map[int]bool{}
	for v, run := range polygon.LabelRuns(img, 0, 0) {
		total += int(run.X1 - run.X0)
		labels[int(v)] = true
		least, greatest = min(least, float64(v)-polygon.FieldZero), max(greatest, float64(v)-polygon.FieldZero)
	}
	if size := img.Bounds().Size(); total < size.X*size.Y {
		least = -polygon.FieldZero
	}
	ends := least == -polygon.FieldZero || greatest == polygon.FieldZero-1
	switch {
	case c.Winding:
		if ends {
			capped = fmt.Sprintf("winding numbers are written as %d to %d, and there are some at these ends or beyond them",
				-polygon.FieldZero, polygon.FieldZero-1)
		}
		return fmt.Sprintf("winding numbers of %g to %g, of %s", least, greatest, of), nil, capped
	case c.Distance:
		if ends {
			capped = fmt.Sprintf("distances of %d px and more are written as %[1]d px: pixels are so far from the outline, or "+
				"there is none", polygon.FieldZero/polygon.DistanceUnit)
		}
		return fmt.Sprintf("distances of %.1f to %.1f px, of %s", least/polygon.DistanceUnit,
			greatest/polygon.DistanceUnit, of), nil, capped
	}
	for _, n := range counts {
		sum += n
	}
	what = fmt.Sprintf("%s in %s", plural(total, "pixel", "pixels"), of)
	if uint64(total) != sum {
		what += fmt.Sprintf(" (%d where each region counts its own)", sum)
	}
	return what, labels, ""
}

// maxPalette is how many regions a palette of 8 bits has colours for, beside the black of no region, and maxWinding the
// greatest winding number that it has one for.
const maxPalette, maxWinding = 255, 127

// withPalette is the file of an image of 8 bits with a palette, of one of 16 bits.
func (c *maskCmd) withPalette(drawn image.Image) ([]byte, error) {
	img, ok := drawn.(*image.Gray16)
	if !ok {
		return nil, fmt.Errorf("the server's image is %T", drawn)
	}
	colors := labelPalette()
	if c.Distance {
		colors = bandPalette()
	}
	out := image.NewPaletted(img.Rect, colors)
	for i := range out.Pix {
		v := int(img.Pix[2*i])<<8 | int(img.Pix[2*i+1])
		switch field := v - polygon.FieldZero; {
		case c.Distance: // inside from 128 on
			v = v / (polygon.DistanceUnit * bandWidth)
		case c.Winding && max(field, -field) > maxWinding:
			return nil, usage("--palette: it has colours for winding numbers of -%d to %d, and there is %d", maxWinding,
				maxWinding, field)
		case c.Winding:
			v = field // -1 is 255
		}
		out.Pix[i] = uint8(v)
	}
	var b bytes.Buffer
	err := png.Encode(&b, out)
	return b.Bytes(), err
}

// bandWidth is how wide the bands of distances are that have a colour each, in pixels: 256 of them are all distances.
const bandWidth = 8

// bandPalette is blue outside and orange inside, each other band darker, and all of them the paler the farther away.
func bandPalette() (p color.Palette) {
	for i := range 256 {
		c, band := [3]float64{70, 130, 220}, max(127-i, i-128)
		if i > 127 {
			c = [3]float64{245, 150, 40}
		}
		for k, v := range c {
			c[k] = (1 - 0.12*float64(band%2)) * (250 - (250-v)*math.Exp(-float64(band)/20))
		}
		p = append(p, color.NRGBA{uint8(c[0]), uint8(c[1]), uint8(c[2]), 255})
	}
	return p
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
	case c.Frame == "" && c.Raw.set():
		return c.Raw.Width, c.Raw.Height, nil
	case c.Frame == "":
		return 0, 0, usage("the size is missing: give a FRAME or --size WxH")
	}
	o := frameFlags{Raw: c.Raw}
	f, err := o.load(e, c.Frame)
	switch {
	case err != nil:
		return 0, 0, err
	case c.Raw.set():
		return c.Raw.Width, c.Raw.Height, nil
	}
	return f.size()
}
