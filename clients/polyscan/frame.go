package main

// FRAME arguments: reading files, raw pixels from the command line, and pictures of frames to draw on.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/internal/digits"
	"github.com/polyscan/polyscan/kernels"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// frameFlags say how to read a FRAME.
type frameFlags struct {
	// The frame is raw pixels: rows from the top, FORMAT one of gray8, gray16le, rgb8, bgr8, rgba8, mono10p, mono12p,
	// yuv422_uyvy, yuv422_yuyv, and bayer_ with rg, gr, gb or bg and 8, 16le, 10p or 12p; STRIDE bytes from row to row.
	Raw rawSpec `placeholder:"WxH:FORMAT[:STRIDE]" group:"frame"`
	// Significant bits of 16-bit samples: 10, 12, 14 or 16.
	Bits int `placeholder:"N" group:"frame"`
	// Reduce the image as gray8, gray16le, rgb8, bgr8 or rgba8 instead of what the file holds, never one of less depth
	// or fewer channels; or take its gray for the pixels of a camera, in bayer_rg8 or bayer_rg16le and their like.
	Format string `placeholder:"FORMAT" predictor:"format" group:"frame"`
	// How the colours of Bayer are interpolated: bilinear, the default, or malvar (after Malvar, He and Cutler).
	Demosaic string `default:"" enum:",bilinear,malvar" placeholder:"METHOD" group:"frame"`

	filesOnly bool // the command has none of these flags
}

// imageFiles are for commands that read nothing but image files.
func imageFiles() *frameFlags { return &frameFlags{filesOnly: true} }

// maxFile is the largest message that protobuf and gRPC carry, less some room for the rest of it.
const maxFile = 1<<31 - 1<<20

// frame is a FRAME after reading.
type frame struct {
	name     string
	data     []byte
	raw      *clients.Raw // nil for an image file
	bits     int
	conv     polyscanv1.PixelFormat
	demosaic polyscanv1.Demosaic // of Bayer, where it isn't the default
	resident string              // name of a frame that the server has; then there is nothing else
}

// message is the frame as the server takes it.
func (f *frame) message() *polyscanv1.Frame {
	if f.resident != "" {
		return clients.Resident(f.resident)
	}
	if f.raw != nil {
		return f.raw.Frame(f.data)
	}
	m := clients.Encoded(f.data)
	if f.bits != 0 || f.conv != 0 {
		m.Layout = &polyscanv1.FrameLayout{SignificantBits: uint32(f.bits), PixelFormat: f.conv, Demosaic: f.demosaic}
	}
	return m
}

// load reads a frame; "-" is standard input.
func (o *frameFlags) load(e *env, name string) (*frame, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	data, err := readInput(e, name, maxFile)
	if err != nil {
		return nil, err
	}
	return o.frame(inputName(name), data)
}

// check looks at the flags alone.
func (o *frameFlags) check() error {
	switch o.Bits {
	case 0, 8, 10, 12, 14, 16:
	default:
		return usage("--bits %d: must be 10, 12, 14 or 16", o.Bits)
	}
	format, err := parseFormat(o.Format)
	if o.Format != "" && err != nil {
		return usage("--format %s: %v", cli.Printable(o.Format), err)
	}
	if o.Raw.set() {
		format = o.Raw.Format
	}
	if o.demosaic() != 0 && !clients.IsBayer(format) {
		return usage("--demosaic %s: it is for frames in bayer_rg8 and its like", o.Demosaic)
	}
	if o.Raw.set() {
		if o.Format != "" {
			return usage("--format %s: it converts image files; raw pixels have the format that --raw says", o.Format)
		}
		if _, err := o.Raw.Bytes(); err != nil {
			return usage("--raw %s: %v", o.Raw, err)
		}
		if o.Bits > 8 && !clients.HasBits(o.Raw.Format) {
			return usage("--bits %d: gray16le and bayer_rg16le may have so many, --raw says %s", o.Bits,
				cli.FormatName(o.Raw.Format))
		}
	}
	return nil
}

// demosaic is the flag where it isn't the default.
func (o *frameFlags) demosaic() polyscanv1.Demosaic {
	if o.Demosaic == "malvar" {
		return polyscanv1.Demosaic_DEMOSAIC_MALVAR_HE_CUTLER
	}
	return 0
}

// frame makes a frame of the content of a file, after check.
func (o *frameFlags) frame(name string, data []byte) (*frame, error) {
	f := &frame{name: name, data: data, bits: o.Bits, demosaic: o.demosaic()}
	if len(data) == 0 {
		return nil, bad(name, "the file is empty")
	}
	if o.Raw.set() {
		raw := clients.Raw(o.Raw)
		raw.Bits, raw.Demosaic = o.Bits, o.demosaic()
		need, err := raw.Bytes()
		if err != nil {
			return nil, usage("--raw %s: %v", o.Raw, err)
		}
		stride := int64(raw.Stride)
		if stride == 0 {
			stride = clients.RowBytes(raw.Format, raw.Width)
		}
		// The last row may come with its padding or without.
		if n := int64(len(data)); n != need && n != stride*int64(raw.Height) {
			hint := ""
			if k := sniff(data); k != "" {
				hint = fmt.Sprintf("; it looks like a %s file, which needs no --raw", k)
			}
			return nil, bad(name, "%d bytes, but --raw %s takes %d%s", n, o.Raw, need, hint)
		}
		f.raw, f.data = &raw, data[:need]
		return f, nil
	}
	if o.Format != "" {
		f.conv, _ = parseFormat(o.Format)
	}
	if sniff(data) == "" {
		hint := ""
		if !o.filesOnly {
			hint = "; for raw pixels say --raw WIDTHxHEIGHT:FORMAT"
		}
		return nil, bad(name, "no PNG, JPEG, TIFF or BMP image%s", hint)
	}
	return f, nil
}

// inputName is how messages call an input.
func inputName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// readInput reads a file, or standard input for "-". A file larger than limit is refused.
func readInput(e *env, name string, limit int64) ([]byte, error) {
	if name == "-" {
		data, err := readPipe(e, e.stdin, limit)
		if err != nil && !errors.Is(err, context.Canceled) {
			err = bad(inputName(name), "%v", reason(err))
		}
		return data, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, bad(name, "%v", reason(err))
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, bad(name, "%v", reason(err))
	}
	if st.IsDir() {
		return nil, bad(name, "it is a folder; for all frames of a folder, see polyscan stream")
	}
	var data []byte
	if st.Mode().IsRegular() {
		data, err = readAll(f, st.Size(), limit)
	} else {
		data, err = readPipe(e, f, limit)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		err = bad(name, "%v", reason(err))
	}
	return data, err
}

// readPipe reads what may never end, until the command is interrupted. The goroutine that waits for the rest then goes
// with the process.
func readPipe(e *env, r io.Reader, limit int64) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := readAll(r, 0, limit)
		done <- result{data, err}
	}()
	select {
	case d := <-done:
		return d.data, d.err
	case <-e.ctx.Done():
		return nil, e.ctx.Err()
	}
}

// readAll reads size bytes, or however many there are, up to limit.
func readAll(r io.Reader, size, limit int64) ([]byte, error) {
	if size > limit {
		return nil, fmt.Errorf("%d bytes, the limit is %d", size, limit)
	}
	var b bytes.Buffer
	b.Grow(int(size) + bytes.MinRead)
	n, err := b.ReadFrom(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fmt.Errorf("more than %d bytes, the limit", limit)
	}
	return b.Bytes(), nil
}

// reason strips the verb and the path off an error of the operating system; messages have the path already.
func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	var le *os.LinkError
	if errors.As(err, &le) {
		return le.Err
	}
	return err
}

// sniff recognises image files by how they start.
func sniff(data []byte) string {
	for _, k := range []struct{ name, magic string }{
		{"PNG", "\x89PNG\r\n\x1a\n"},
		{"JPEG", "\xff\xd8\xff"},
		{"TIFF", "II*\x00"},
		{"TIFF", "MM\x00*"},
		{"BMP", "BM"},
	} {
		if bytes.HasPrefix(data, []byte(k.magic)) {
			return k.name
		}
	}
	return ""
}

// rawSpec is the value of --raw.
type rawSpec clients.Raw

func (r rawSpec) set() bool { return r != rawSpec{} }

// Bytes is [clients.Raw.Bytes].
func (r rawSpec) Bytes() (int64, error) { return clients.Raw(r).Bytes() }

func (r rawSpec) String() string {
	s := fmt.Sprintf("%dx%d:%s", r.Width, r.Height, cli.FormatName(r.Format))
	if r.Stride != 0 {
		s += ":" + strconv.Itoa(r.Stride)
	}
	return s
}

// UnmarshalText reads WxH:FORMAT[:STRIDE].
func (r *rawSpec) UnmarshalText(text []byte) error {
	spec, err := parseRaw(string(text))
	if err != nil {
		return err
	}
	*r = spec
	return nil
}

func parseRaw(s string) (rawSpec, error) {
	const want = "want WIDTHxHEIGHT:FORMAT or WIDTHxHEIGHT:FORMAT:STRIDE, such as 640x480:gray8"
	parts := strings.Split(s, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return rawSpec{}, fmt.Errorf("%q: %s", s, want)
	}
	var r rawSpec
	var err error
	if r.Width, r.Height, err = parseSize(parts[0]); err != nil {
		return rawSpec{}, fmt.Errorf("%q: %v", s, err)
	}
	if r.Format, err = parseFormat(parts[1]); err != nil {
		return rawSpec{}, fmt.Errorf("%q: format %q: %v", s, parts[1], err)
	}
	if len(parts) == 3 {
		if r.Stride, err = positive(parts[2]); err != nil {
			return rawSpec{}, fmt.Errorf("%q: stride %v", s, err)
		}
	}
	if _, err := r.Bytes(); err != nil {
		return rawSpec{}, fmt.Errorf("%q: %v", s, err)
	}
	return r, nil
}

// parseSize reads WIDTHxHEIGHT.
func parseSize(s string) (w, h int, err error) {
	a, b, ok := strings.Cut(strings.ToLower(s), "x")
	if !ok {
		return 0, 0, fmt.Errorf("size %q: want WIDTHxHEIGHT, such as 640x480", s)
	}
	if w, err = positive(a); err != nil {
		return 0, 0, fmt.Errorf("width %v", err)
	}
	if h, err = positive(b); err != nil {
		return 0, 0, fmt.Errorf("height %v", err)
	}
	return w, h, nil
}

// positive reads a number of digits alone, from 1 to what an int32 holds.
func positive(s string) (int, error) {
	v, err := strconv.ParseUint(s, 10, 31)
	if err != nil || v == 0 || !digits.Whole(s) {
		return 0, fmt.Errorf("%q: want a whole number from 1 to %d", s, 1<<31-1)
	}
	return int(v), nil
}

// formats are those of the protocol, whose names are in small letters here.
var formats = func() (list []struct {
	name   string
	format polyscanv1.PixelFormat
}) {
	for f := clients.Gray8; clients.PixelBits(f) > 0; f++ { // their numbers follow each other
		list = append(list, struct {
			name   string
			format polyscanv1.PixelFormat
		}{cli.FormatName(f), f})
	}
	return list
}()

func parseFormat(s string) (polyscanv1.PixelFormat, error) {
	low := strings.ToLower(s)
	for _, f := range formats {
		if f.name == low || low == "gray16" && f.format == clients.Gray16LE {
			return f.format, nil
		}
	}
	return 0, errors.New("want gray8, gray16le, rgb8, bgr8, rgba8, mono10p, mono12p, yuv422_uyvy, yuv422_yuyv, or " +
		"bayer_rg8, bayer_rg16le, bayer_rg10p, bayer_rg12p and their like")
}

// coding is how the pixels of a format of cameras stand for those that are shown; the zero value for others.
func coding(f polyscanv1.PixelFormat, bits int, d polyscanv1.Demosaic) kernels.Coding {
	if bits == 0 || !clients.HasBits(f) {
		bits = clients.PixelBits(f)
	}
	c := kernels.Coding{Bits: uint8(bits), Packed: bits == 10 || bits == 12}
	switch {
	case f == clients.Mono10P, f == clients.Mono12P:
		c.Kind = kernels.Mono
	case f == clients.YUV422UYVY:
		c.Kind, c.Bits = kernels.UYVY, 8
	case f == clients.YUV422YUYV:
		c.Kind, c.Bits = kernels.YUYV, 8
	case clients.IsBayer(f):
		c.Kind, c.Phase, c.Packed = kernels.Bayer, uint8(f-clients.BayerRG8)%4, f >= clients.BayerRG10P
		if d == polyscanv1.Demosaic_DEMOSAIC_MALVAR_HE_CUTLER {
			c.Demosaic = kernels.MalvarHeCutler
		}
	default:
		return kernels.Coding{}
	}
	return c
}

// developed is the picture of what a camera sent, gray of more than 8 bits stretched.
func developed(w, h, stride int, c kernels.Coding, data []byte) image.Image {
	p := kernels.Picture{Width: w, Height: h, Stride: stride, Format: c.Format(), Coding: c, Data: [][]byte{data}}
	im := p.Image()
	if g, ok := im.(*image.Gray16); ok {
		return stretch(w, h, func(x, y int) uint16 { return g.Gray16At(x, y).Y })
	}
	return im
}

// picture decodes a frame that the server has already taken (so that its size is within limits) to draw on it.
// Samples of more than 8 bits are stretched so that the frame's darkest and brightest pixels are black and white.
func (f *frame) picture() (image.Image, error) {
	if f.raw != nil {
		return f.rawPicture()
	}
	img, err := f.decode()
	if err != nil {
		return nil, err
	}
	if c := coding(f.conv, f.bits, f.demosaic); c != (kernels.Coding{}) {
		p := kernels.PictureOf(img)
		if p.Format.Channels == 1 {
			return developed(p.Width, p.Height, p.Stride, c, p.Bytes()), nil
		}
	}
	if g, ok := img.(*image.Gray16); ok {
		b := g.Bounds()
		return stretch(b.Dx(), b.Dy(), func(x, y int) uint16 { return g.Gray16At(b.Min.X+x, b.Min.Y+y).Y }), nil
	}
	return img, nil
}

// decode decodes an image file.
func (f *frame) decode() (img image.Image, err error) {
	r := bytes.NewReader(f.data)
	switch sniff(f.data) {
	case "PNG":
		img, err = png.Decode(r)
	case "JPEG":
		img, err = jpeg.Decode(r)
	case "TIFF":
		img, err = tiff.Decode(r)
	case "BMP":
		img, err = bmp.Decode(r)
	default:
		err = errors.New("unknown image format")
	}
	if err != nil {
		return nil, bad(f.name, "%v", err)
	}
	return img, nil
}

func (f *frame) rawPicture() (image.Image, error) {
	w, h, stride := f.raw.Width, f.raw.Height, f.raw.Stride
	if c := coding(f.raw.Format, f.raw.Bits, f.raw.Demosaic); c != (kernels.Coding{}) {
		return developed(w, h, stride, c, f.data), nil
	}
	n := clients.PixelBytes(f.raw.Format)
	if stride == 0 {
		stride = w * n
	}
	at := func(x, y int) []byte { return f.data[y*stride+x*n:][:n] }
	if f.raw.Format == clients.Gray16LE {
		return stretch(w, h, func(x, y int) uint16 {
			p := at(x, y)
			return uint16(p[0]) | uint16(p[1])<<8
		}), nil
	}
	if f.raw.Format == clients.Gray8 {
		return &image.Gray{Pix: f.data, Stride: stride, Rect: image.Rect(0, 0, w, h)}, nil
	}
	out := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			p := at(x, y)
			c := color.NRGBA{p[0], p[1], p[2], 255}
			switch f.raw.Format {
			case clients.BGR8:
				c.R, c.B = c.B, c.R
			case clients.RGBA8:
				c.A = p[3]
			}
			out.SetNRGBA(x, y, c)
		}
	}
	return out, nil
}

// stretch maps samples linearly to 8 bits.
func stretch(w, h int, at func(x, y int) uint16) *image.Gray {
	lo, hi := uint32(1<<16), uint32(0)
	for y := range h {
		for x := range w {
			v := uint32(at(x, y))
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	span := max(hi, lo+1) - lo
	out := image.NewGray(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			out.Pix[y*out.Stride+x] = uint8((uint32(at(x, y)) - lo) * 255 / span)
		}
	}
	return out
}

// size reads the width and height of an image file from its header.
func (f *frame) size() (w, h int, err error) {
	r := bytes.NewReader(f.data)
	var c image.Config
	switch sniff(f.data) {
	case "PNG":
		c, err = png.DecodeConfig(r)
	case "JPEG":
		c, err = jpeg.DecodeConfig(r)
	case "TIFF":
		c, err = tiff.DecodeConfig(r)
	case "BMP":
		c, err = bmp.DecodeConfig(r)
	default:
		err = errors.New("unknown image format")
	}
	if err != nil {
		return 0, 0, bad(f.name, "%v", err)
	}
	return c.Width, c.Height, nil
}
