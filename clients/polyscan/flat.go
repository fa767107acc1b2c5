package main

// polyscan flat: flat fields, from frames of the dark and of an even scene.

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"iter"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/kernels"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

type flatCmd struct {
	// Frames of an even scene, such as a white sheet out of focus, as bright as parts are and not saturated: files, or
	// folders of them.
	Bright []string `arg:"" predictor:"file"`
	// Frames without light, the lens covered: files, or folders of them. Without any the dark is 0.
	Dark []string `sep:"none" placeholder:"FRAMES" predictor:"file" group:"frame"`
	// Learn one row for all rows: the columns of a line-scan camera, whose sessions take no other.
	Columns bool `group:"frame"`
	// What the even scene becomes, 1 to the largest sample. The default keeps the mean of each channel.
	Level *float64 `placeholder:"N" group:"frame"`
	frameFlags

	// The flat field to write, a .flat file for --flat; - is standard output.
	Output string `short:"o" required:"" placeholder:"FILE" predictor:"file" group:"output"`
}

func (c *flatCmd) Help() string {
	return `
Learns, for each pixel or column, what a camera shows in the dark, and the gain that makes an even scene even. Frames
are corrected by it before anything is measured: name the file with --flat, or store it with a recipe. It refuses
frames from which no good field can be learned: saturated or noisy ones, and pixels that are dead.

Examples:

    polyscan flat white/ --dark dark/ -o camera3.flat
    polyscan reduce board.png --regions board.regions.json --flat camera3.flat
    polyscan recipe put board --regions board.regions.json --flat camera3.flat --addr inspector:7465
`
}

func (c *flatCmd) Run(e *env) error {
	if err := c.frameFlags.check(); err != nil {
		return err
	}
	// No frame of a folder ends so.
	if err := checkOutputs(slices.Concat(inputs{}, c.Bright, c.Dark), output{"--output", c.Output, ".flat"}); err != nil {
		return err
	}
	bright, err := list(e, nil, c.Bright, 0, c.Raw.set())
	if err != nil {
		return err
	}
	dark, err := list(e, nil, c.Dark, 0, c.Raw.set())
	if err != nil {
		return err
	}
	all := append(bright[:len(bright):len(bright)], dark...)
	if err := checkOnce(all, nil); err != nil {
		return err
	}
	o := clients.FlatOptions{Columns: c.Columns}
	if c.Level != nil {
		if o.Level = *c.Level; o.Level == 0 { // which would be the default
			return usage("--level 0: must be 1 to the largest sample")
		}
	}
	f, err := clients.LearnFlatField(c.frames(e, bright), c.frames(e, dark), o)
	if err != nil {
		return usage("%s", formatWords.Replace(strings.ReplaceAll(err.Error(), "PIXEL_FORMAT_", "")))
	}
	if f.Sha256, err = hashOf(f); err != nil { // which the server checks
		return usage("flat field: %v", err)
	}
	data, err := proto.Marshal(f)
	if err != nil {
		return err
	}
	if err := writeText(e, c.Output, data); err != nil || c.Output == "-" {
		return err
	}
	least, most, one := uint16(math.MaxUint16), uint16(0), float64(int(1)<<f.GetFractionBits())
	for g := range slices.Chunk(f.GetGain(), 2) {
		least, most = min(least, binary.LittleEndian.Uint16(g)), max(most, binary.LittleEndian.Uint16(g))
	}
	_, err = fmt.Fprintf(e.stdout, "%s: %dx%d %s of %s and %s, gains %.3f to %.3f\n", cli.Printable(c.Output),
		f.GetLayout().GetWidth(), f.GetLayout().GetHeight(), cli.FormatName(f.GetLayout().GetPixelFormat()),
		plural(len(bright), "bright frame", "bright frames"), plural(len(dark), "dark one", "dark ones"),
		float64(least)/one, float64(most)/one)
	return err
}

// hashOf is the hash of a field, which is checked.
func hashOf(f *polyscanv1.FlatField) (string, error) {
	l := f.GetLayout()
	format := driverFormat(l.GetPixelFormat())
	if n := l.GetSignificantBits(); n > 0 && format.SampleBytes == 2 {
		format = kernels.Gray16(int(n))
	}
	field, err := kernels.NewFlatField(int(l.GetWidth()), int(l.GetHeight()), format, int(f.GetFractionBits()),
		f.GetDark(), f.GetGain())
	if err != nil {
		return "", errors.New(strings.TrimPrefix(err.Error(), "kernels: "))
	}
	return hex.EncodeToString(field.Sum[:]), nil
}

// frames reads files, one after the other.
func (c *flatCmd) frames(e *env, files []labelled) iter.Seq2[*polyscanv1.Frame, error] {
	return func(yield func(*polyscanv1.Frame, error) bool) {
		for _, l := range files {
			f, err := c.load(e, l.file)
			var m *polyscanv1.Frame
			if err == nil {
				m, err = f.pixels()
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// pixels is the frame as it is reduced: decoded, and converted.
func (f *frame) pixels() (*polyscanv1.Frame, error) {
	var p kernels.Picture
	if f.raw != nil {
		raw := *f.raw
		c := coding(raw.Format, raw.Bits, raw.Demosaic)
		if c == (kernels.Coding{}) {
			raw.ID = f.name
			return raw.Frame(f.data), nil
		}
		p = kernels.Picture{Width: raw.Width, Height: raw.Height, Stride: raw.Stride, Format: c.Format(), Coding: c,
			Data: [][]byte{f.data}}
	} else {
		img, err := cli.DecodePicture(f.data)
		if err != nil {
			return nil, bad(f.name, "%v", err)
		}
		p = kernels.PictureOf(img)
		if m, ok := img.(*image.NRGBA); ok { // whose frames have an alpha, opaque or not
			p = kernels.Picture{Width: p.Width, Height: p.Height, Stride: m.Stride, Format: kernels.RGBA8,
				Data: [][]byte{m.Pix}}
		}
		if c := coding(f.conv, f.bits, f.demosaic); c != (kernels.Coding{}) && p.Format.Channels == 1 {
			p.Coding, p.Format = c, c.Format()
		}
	}
	if p.Coding != (kernels.Coding{}) {
		if err := p.Check("frame"); err != nil {
			return nil, bad(f.name, "%v", err)
		}
		made, err := p.Developed("frame")
		if err != nil {
			return nil, bad(f.name, "%v", err)
		}
		p = *made
	}
	out := clients.Raw{Width: p.Width, Height: p.Height, Stride: p.Stride, ID: f.name}
	switch p.Format {
	case kernels.Gray8:
		out.Format = clients.Gray8
	case kernels.RGB8:
		out.Format = clients.RGB8
	case kernels.RGBA8:
		out.Format = clients.RGBA8
	default:
		out.Format, out.Bits = clients.Gray16LE, int(p.Format.Bits)
		if f.bits != 0 {
			out.Bits = f.bits
		}
	}
	if f.conv != 0 && f.conv != out.Format && !clients.IsBayer(f.conv) {
		return nil, bad(f.name, "--format %s: a flat field is learned from what the file holds, %s", cli.FormatName(f.conv),
			cli.FormatName(out.Format))
	}
	return out.Frame(p.Bytes()), nil
}

// flatFlags is a flat field.
type flatFlags struct {
	// Correct frames by a flat field before anything else: a file of polyscan flat. It goes before that of
	// the recipe or of the regions file.
	Flat string `placeholder:"FILE" predictor:"file" group:"frame"`
}

// field is what the flag names, or else that of a regions file; nil for none.
func (o *flatFlags) field(e *env, r *regions) (*polyscanv1.FlatField, error) {
	if o.Flat == "" {
		if r == nil {
			return nil, nil
		}
		return cli.FlatField(r.file), nil
	}
	data, err := readInput(e, o.Flat, maxFile)
	if err != nil {
		return nil, err
	}
	m := &polyscanv1.FlatField{}
	if err := proto.Unmarshal(data, m); err != nil || len(m.GetDark()) == 0 || m.GetSha256() == "" {
		return nil, bad(inputName(o.Flat), "--flat: this is no flat field that polyscan flat wrote")
	}
	if proto.Size(m) != len(data) { // of two files in one the second would count
		return nil, bad(inputName(o.Flat), "--flat: this is more than one flat field, or damaged")
	}
	switch sum, err := hashOf(m); {
	case err != nil:
		return nil, bad(inputName(o.Flat), "--flat: the file is damaged: %v", err)
	case sum != m.GetSha256():
		return nil, bad(inputName(o.Flat), "--flat: the file is damaged: its hash %s is not that of the field, %s",
			m.GetSha256(), sum)
	}
	return m, nil
}
