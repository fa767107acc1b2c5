package main

// polyscan extract: pictures as curves and pixels.

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/polyscan/polyscan/clients/curvefile"
	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/kernels"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type extractCmd struct {
	// The picture: PNG, JPEG, TIFF or BMP; - is standard input.
	Picture string `arg:"" predictor:"file"`

	// Least slope of an edge at its steepest place, in levels a pixel.
	Threshold float64 `default:"20" placeholder:"LEVELS" group:"diffusion"`
	// Least length of an edge, in pixels.
	Length int `default:"20" placeholder:"PX" group:"diffusion"`
	// Largest distance between a curve and its edge, in pixels.
	Flatness float64 `default:"0.5" placeholder:"PX" group:"diffusion"`
	// Distance from an edge at which its colours are taken, in pixels.
	Distance float64 `default:"1" placeholder:"PX" group:"diffusion"`
	// Largest error of the colours along a curve, in levels of 255; colours are rounded to it.
	Levels float64 `default:"10" placeholder:"LEVELS" group:"diffusion"`
	// Add pixels to the curves until the picture is as close as this, as a ratio of peak signal to noise in
	// decibels; 0 adds none.
	PSNR float64 `name:"psnr" default:"32" placeholder:"DB" group:"diffusion"`
	// Largest share of the pixels to add, in percent.
	MaxPixels float64 `default:"5" placeholder:"PERCENT" group:"diffusion"`

	// The file of curves to write, compressed where it ends in .gz; - is standard output.
	Output string `short:"o" required:"" placeholder:"FILE" predictor:"file" group:"output"`
	// Write what the curves make, as a PNG.
	Preview string `placeholder:"FILE" predictor:"file" group:"output"`
	// Run as batch work, after everything more urgent on the server.
	Batch bool `group:"server"`
	deviceFlags
	serverFlags
}

func (c *extractCmd) Help() string {
	return `
Turns a picture into diffusion curves: its edges become Béziers with the colours on both of their sides, and where that
is not enough pixels are given besides. "polyscan diffuse" makes a picture of them again. What is printed is how
close that comes, as the ratio of peak signal to noise (PSNR), and how much less there is to store. A gray picture of
16 bits is stretched to 8 before, so that its darkest pixel is black and its brightest white.

Examples:

    polyscan extract photo.jpg -o photo.json.gz --preview again.png
    polyscan extract photo.jpg -o curves.json --psnr 0 --threshold 4
`
}

func (c *extractCmd) Run(e *env) (err error) {
	if c.Preview == "-" {
		return usage("--preview -: standard output is for curves")
	}
	if err := checkOutputs(output{"--output", c.Output}, output{"--preview", c.Preview}); err != nil {
		return err
	}
	if err := checkKind("--output", c.Output, "", ".json", ".json.gz"); err != nil {
		return err
	}
	if err := checkKind("--preview", c.Preview, "", ".png"); err != nil {
		return err
	}
	if math.IsNaN(c.PSNR) {
		return usage("--psnr NaN: must be 0, or more and at most 100")
	}
	for _, x := range []struct {
		flag  string
		value float64
	}{{"threshold", c.Threshold}, {"length", float64(c.Length)}, {"flatness", c.Flatness}, {"distance", c.Distance},
		{"levels", c.Levels}} {
		if x.value == 0 { // which would stand for the default
			return usage("--%s 0: must be more than 0", x.flag)
		}
	}
	if !(c.MaxPixels >= 0 && c.MaxPixels <= 100) {
		return usage("--max-pixels %v: must be 0 to 100", c.MaxPixels)
	}
	opts := &diffusion.ExtractOptions{
		Threshold: c.Threshold, Length: c.Length, Flatness: c.Flatness, Distance: c.Distance, Levels: c.Levels,
		PSNR: c.PSNR, MaxPixels: c.MaxPixels / 100,
	}
	if c.PSNR == 0 || c.MaxPixels == 0 {
		opts.PSNR, opts.MaxPixels = math.NaN(), 0
	}
	f, err := loadPicture(e, c.Picture)
	if err != nil {
		return err
	}
	im, err := f.picture()
	if err != nil {
		return err
	}
	p := planesOf(im)
	// What the sizes are compared with: gray pictures take a third.
	gray := isGray(p)
	raw := 3 * p.Width * p.Height
	if gray {
		raw /= 3
	}
	file, err := encodePicture(bytesOfPlanes(p.Values), p.Width, p.Height, gray)
	if err != nil {
		return err
	}
	// options are the server's defaults
	solving := &solveFlags{Batch: c.Batch, deviceFlags: c.deviceFlags, serverFlags: c.serverFlags}
	solving.room(p.Width, p.Height, nil)
	conn, err := connect(e, &solving.serverFlags, &solving.deviceFlags, "")
	if err != nil {
		return err
	}
	defer conn.end(&err)
	solves, backend := 0, ""
	working := e.busy("extract: edges")
	x, err := diffusion.Extract(conn.ctx, p, opts, func(ctx context.Context, d *diffusion.Drawing) ([]float32, error) {
		working.say("extract: solve %d, with %s", solves+1, plural(len(d.Curves), "curve", "curves"))
		req := solving.request(nil)
		req.Encoding = polyscanv1.Encoding_ENCODING_RAW
		req.Drawing = drawingMessage(d)
		res, err := conn.Solve(ctx, req)
		if err != nil {
			return nil, conn.fail(err, c.Picture, nil)
		}
		solves++
		backend = res.GetBackend()
		n, pixels := d.Width*d.Height, res.GetPicture().GetData()
		if len(pixels) != 3*n {
			return nil, fmt.Errorf("the server's picture has %d bytes for %dx%d pixels", len(pixels), d.Width, d.Height)
		}
		out := make([]float32, 3*n)
		for i, v := range pixels {
			out[i%3*n+i/3] = float32(v) / 255
		}
		return out, nil
	})
	working.end()
	if err != nil {
		var bad *kernels.InvalidError
		if errors.As(err, &bad) {
			v := bad.Violations[0]
			return usage("--%s %s: %s", strings.ReplaceAll(v.Path.String(), " ", "-"), v.Value, v.Reason)
		}
		return err
	}
	plain, err := curvefile.AppendJSON(nil, drawingMessage(x.Drawing))
	if err != nil {
		return err
	}
	packed, err := compressed(plain)
	if err != nil {
		return err
	}
	if c.Preview != "" {
		again, err := encodePicture(bytesOfPlanes(x.Solved), p.Width, p.Height, gray)
		if err != nil {
			return err
		}
		if err := writeFile(c.Preview, func(w io.Writer) error { _, err := w.Write(again); return err }); err != nil {
			return err
		}
	}
	write := func(w io.Writer) error {
		b := plain
		if strings.HasSuffix(c.Output, ".gz") {
			b = packed
		}
		_, err := w.Write(b)
		return err
	}
	if c.Output == "-" {
		return write(e.stdout)
	}
	if err := writeFile(c.Output, write); err != nil {
		return err
	}
	if c.PSNR > 0 && c.MaxPixels > 0 && x.PSNR < c.PSNR {
		e.warn("%s: it comes to %.2f dB and not to the %v of --psnr: --max-pixels %v allows no more pixels", c.Output,
			x.PSNR, c.PSNR, c.MaxPixels)
	}
	_, err = fmt.Fprintf(e.stdout,
		"%s: %s, %s besides, %.2f dB; %d bytes, %d compressed: 1/%.1f of the pixels and 1/%.1f of a PNG, after %s by %s\n",
		c.Output, plural(len(x.Drawing.Curves), "curve", "curves"), plural(x.Pixels, "pixel", "pixels"), x.PSNR,
		len(plain), len(packed),
		float64(raw)/float64(len(packed)), float64(len(file))/float64(len(packed)), plural(solves, "solve", "solves"),
		backend)
	return err
}

// planesOf is a picture's red, green and blue from 0 to 1, without its transparency.
func planesOf(im image.Image) *diffusion.Planes {
	opaque := withoutAlpha(im)
	b := opaque.Bounds()
	n := b.Dx() * b.Dy()
	p := &diffusion.Planes{Width: b.Dx(), Height: b.Dy(), Channels: 3, Values: make([]float32, 3*n)}
	for i := range n {
		for c := range 3 {
			p.Values[c*n+i] = float32(opaque.Pix[4*i+c]) / 255
		}
	}
	return p
}

// isGray reports whether a picture of three channels has no colours.
func isGray(p *diffusion.Planes) bool {
	n := p.Width * p.Height
	red, green, blue := p.Values[:n], p.Values[n:2*n], p.Values[2*n:]
	return slices.Equal(red, green) && slices.Equal(red, blue)
}

// bytesOfPlanes are pixels of three bytes.
func bytesOfPlanes(values []float32) []byte {
	n := len(values) / 3
	out := make([]byte, 3*n)
	for i := range out {
		out[i] = uint8(min(max(255*values[i%3*n+i/3]+0.5, 0), 255))
	}
	return out
}

func compressed(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// drawingMessage is a drawing of three channels as messages have it. Colours are rounded to a hundredth of a level.
func drawingMessage(d *diffusion.Drawing) *polyscanv1.Drawing {
	level := func(v float32) float32 { return float32(math.Round(25500*float64(v)) / 100) }
	m := &polyscanv1.Drawing{Width: uint32(d.Width), Height: uint32(d.Height)}
	for _, c := range d.Curves {
		out := &polyscanv1.Curve{Barrier: c.Barrier}
		for _, p := range c.Points {
			out.Xy = append(out.Xy, p.X, p.Y)
		}
		stops := func(in []diffusion.Stop) (out []*polyscanv1.ColorStop) {
			for _, s := range in {
				out = append(out, &polyscanv1.ColorStop{At: s.At, Red: level(s.Values[0]), Green: level(s.Values[1]),
					Blue: level(s.Values[2])})
			}
			return out
		}
		out.Left, out.Right = stops(c.Left), stops(c.Right)
		for _, s := range c.Blur {
			out.Blur = append(out.Blur, &polyscanv1.BlurStop{At: s.At, Sigma: float32(s.Sigma)})
		}
		m.Curves = append(m.Curves, out)
	}
	n := len(d.Flags)
	for i, f := range d.Flags {
		if f&diffusion.Fixed != 0 {
			m.Pixels = append(m.Pixels, &polyscanv1.GivenPixel{
				X: uint32(i % d.Width), Y: uint32(i / d.Width), Red: level(d.Values[i]), Green: level(d.Values[n+i]),
				Blue: level(d.Values[2*n+i]),
			})
		}
	}
	return m
}

// withoutAlpha is a picture whose pixels are all opaque, in the colours that they have.
func withoutAlpha(picture image.Image) *image.NRGBA {
	b := picture.Bounds()
	im := image.NewNRGBA(image.Rect(0, 0, b.Dx(), b.Dy()))
	if p, ok := picture.(*image.NRGBA); ok { // drawing would lose the colours of transparent pixels
		for y := range b.Dy() {
			copy(im.Pix[y*im.Stride:], p.Pix[p.PixOffset(b.Min.X, b.Min.Y+y):][:im.Stride])
		}
	} else {
		draw.Draw(im, im.Rect, picture, b.Min, draw.Src)
	}
	for i := 3; i < len(im.Pix); i += 4 {
		im.Pix[i] = math.MaxUint8
	}
	return im
}

// encodePicture makes a PNG of pixels of three bytes, which are the same of a gray one.
func encodePicture(pixels []byte, w, h int, gray bool) ([]byte, error) {
	im := draw.Image(image.NewNRGBA(image.Rect(0, 0, w, h)))
	if gray {
		im = image.NewGray(image.Rect(0, 0, w, h))
	}
	for i := range w * h {
		im.Set(i%w, i/w, color.NRGBA{pixels[3*i], pixels[3*i+1], pixels[3*i+2], 255})
	}
	var b bytes.Buffer
	err := png.Encode(&b, im)
	return b.Bytes(), err
}
