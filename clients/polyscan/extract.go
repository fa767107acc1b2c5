package main

// polyscan extract: pictures as curves and pixels.

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/curvefile"
	"github.com/polyscan/polyscan/diffusion"
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
	MaxPixels float64 `default:"5" placeholder:"PERCENT" group:"diffusion" without:"psnr=0"`

	// The file of curves to write, compressed where it ends in .gz; - is standard output.
	Output string `short:"o" required:"" placeholder:"FILE" predictor:"file" group:"output"`
	// Write what the curves make, as a PNG.
	Preview string `placeholder:"FILE" predictor:"file" group:"output"`
	// Run as batch work, after everything more urgent on the server.
	Batch bool `group:"server" needs:"addr"`
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
	err = checkOutputs(inputs{c.Picture}, output{"--output", c.Output, ".json .json.gz"},
		output{"--preview", c.Preview, ".png"})
	if err != nil {
		return err
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
	if c.Length < 0 || c.Length > math.MaxInt32 {
		return usage("--length %d: must be 2 to 1048576", c.Length)
	}
	if !(c.PSNR >= 0 && c.PSNR <= 100) {
		return usage("--psnr %v: must be 0 to 100", c.PSNR)
	}
	if !(c.MaxPixels >= 0 && c.MaxPixels <= 100) {
		return usage("--max-pixels %v: must be 0 to 100", c.MaxPixels)
	}
	opts := &polyscanv1.ExtractOptions{
		Threshold: c.Threshold, Length: uint32(c.Length), Flatness: c.Flatness, Distance: c.Distance, Levels: c.Levels,
		Psnr: c.PSNR, MaxPixels: proto.Float64(c.MaxPixels / 100),
	}
	if c.PSNR == 0 {
		opts.MaxPixels = proto.Float64(0)
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
	pixels := bytesOfPlanes(p.Values)
	file, err := encodePicture(pixels, p.Width, p.Height, gray)
	if err != nil {
		return err
	}
	server := &solveFlags{Batch: c.Batch, deviceFlags: c.deviceFlags, serverFlags: c.serverFlags}
	server.room(p.Width, p.Height, nil)
	conn, err := connect(e, &server.serverFlags, &server.deviceFlags, "")
	if err != nil {
		return err
	}
	defer conn.end(&err)
	working := e.busy("extract")
	x, err := conn.Extract(conn.ctx, &polyscanv1.ExtractRequest{WorkClass: server.workClass(), Options: opts,
		Frame: clients.Raw{Width: p.Width, Height: p.Height, Format: clients.RGB8}.Frame(pixels)})
	working.end()
	if err != nil {
		return conn.fail(err, c.Picture, nil)
	}
	plain, err := curvefile.AppendJSON(nil, x.GetDrawing())
	if err != nil {
		return err
	}
	packed, err := compressed(plain)
	if err != nil {
		return err
	}
	if c.Preview != "" {
		again, err := encodePicture(x.GetPicture().GetData(), p.Width, p.Height, gray)
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
	if c.PSNR > 0 && c.MaxPixels > 0 && x.GetPsnr() < c.PSNR {
		e.warn("%s: it comes to %.2f dB and not to the %v of --psnr: --max-pixels %v allows no more pixels", c.Output,
			x.GetPsnr(), c.PSNR, c.MaxPixels)
	}
	_, err = fmt.Fprintf(e.stdout,
		"%s: %s, %s besides, %.2f dB; %d bytes, %d compressed: 1/%.1f of the pixels and 1/%.1f of a PNG, after %s by %s\n",
		c.Output, plural(len(x.GetDrawing().GetCurves()), "curve", "curves"),
		plural(len(x.GetDrawing().GetPixels()), "pixel", "pixels"), x.GetPsnr(),
		len(plain), len(packed),
		float64(raw)/float64(len(packed)), float64(len(file))/float64(len(packed)),
		plural(int(x.GetSolves()), "solve", "solves"), x.GetBackend())
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
