package main

// What passes under the camera: lines of pictures, without end.

import (
	"cmp"
	"image"
	"os"
	"path/filepath"

	// What frames may be, beside PNG and JPEG.
	_ "golang.org/x/image/bmp"
	_ "golang.org/x/image/tiff"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/kernels"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// picture is a run of lines, stored once.
type picture struct {
	rows  int
	pix   []byte // rows follow each other without a gap
	wrong bool   // a part with a defect
}

// stretch is lines of one picture that follow each other.
type stretch struct {
	picture, row, lines int
}

// belt is an endless sequence of lines that is a function of their numbers alone.
type belt struct {
	width  int
	format polyscanv1.PixelFormat
	bits   int // significant bits of a 16-bit sample; 0 for other formats

	pictures []picture
	// at says which picture's row a line is, and how many lines go on in that picture.
	at func(line uint64) stretch
	// end is the number of lines; 0: without end.
	end uint64
	// part says where physical part n starts; nil where the belt doesn't know parts.
	part func(n uint64) (start uint64, picture int)
}

// rowBytes is the size of a line.
func (b *belt) rowBytes() int { return b.width * clients.PixelBytes(b.format) }

// runs appends what lines [first, first+n) are.
func (b *belt) runs(dst []stretch, first uint64, n int) []stretch {
	for n > 0 {
		r := b.at(first)
		r.lines = min(r.lines, n)
		dst = append(dst, r)
		first += uint64(r.lines)
		n -= r.lines
	}
	return dst
}

// copy writes the lines of runs to dst.
func (b *belt) copy(dst []byte, runs []stretch) {
	row := b.rowBytes()
	for _, r := range runs {
		n := copy(dst, b.pictures[r.picture].pix[r.row*row:(r.row+r.lines)*row])
		dst = dst[n:]
	}
}

// frameBelt plays the frames of a folder one behind the other, in the order of their names.
func frameBelt(dir string, repeat int, warn func(text string)) (*belt, error) {
	names, err := cli.Frames(dir, cli.Pictures, warn)
	if err != nil {
		return nil, usage("%v", err)
	}
	b := &belt{}
	first := ""
	for _, name := range names {
		name = filepath.Join(dir, name)
		f, err := readFrame(name)
		if err != nil {
			return nil, usage("%s: %v", name, err)
		}
		l := f.GetLayout()
		if first == "" {
			first = name
			b.width, b.format = int(l.GetWidth()), l.GetPixelFormat()
		}
		height := int(l.GetHeight())
		if int(l.GetWidth()) != b.width || l.GetPixelFormat() != b.format || len(b.pictures) > 0 &&
			height != b.pictures[0].rows {
			return nil, usage("%s: %dx%d %s: the camera that took %s has %dx%d %s", name, l.GetWidth(), height,
				cli.FormatName(l.GetPixelFormat()), first, b.width, b.pictures[0].rows, cli.FormatName(b.format))
		}
		row := b.rowBytes()
		p := picture{rows: height, pix: make([]byte, 0, row*height)}
		stride := cmp.Or(int(l.GetStride()), row)
		for y := range height {
			p.pix = append(p.pix, f.GetData()[y*stride:y*stride+row]...)
		}
		b.pictures = append(b.pictures, p)
	}
	if b.format == clients.Gray16LE {
		b.bits = 16
	}
	height, cycle := uint64(b.pictures[0].rows), uint64(len(b.pictures))
	b.at = func(line uint64) stretch {
		row := int(line % height)
		return stretch{picture: int(line / height % cycle), row: row, lines: int(height) - row}
	}
	b.part = func(n uint64) (uint64, int) { return n * height, int(n % cycle) }
	b.end = uint64(repeat) * height * cycle
	return b, nil
}

// readFrame reads an image file as pixels that the server takes.
func readFrame(name string) (*polyscanv1.Frame, error) {
	file, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	img, err := cli.DecodePicture(file)
	if err != nil {
		return nil, err
	}
	switch img.(type) {
	case *image.Gray, *image.Gray16, *image.NRGBA: // the last has an alpha, which the server reads from such files, too
		return clients.FromImage(img)
	}
	p := kernels.PictureOf(img)
	return clients.Raw{Width: p.Width, Height: p.Height, Format: clients.RGB8}.Frame(p.Bytes()), nil
}
