// Intakes: pictures on their way to ops, uploaded, developed and corrected.

package kernels

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Intake is rows of a picture on their way to ops: it uploads those that are not on the device, develops what ops don't
// take as it is, and corrects the pixels by the picture's flat field, where there is one. The zero value has none; one
// can be used again and again. Its methods must not be called at the same time.
type Intake struct {
	p          *Picture
	y0, y1     int // rows that ops get
	first, end int // rows that these depend on
	pieces     [][]byte
	upload     int // bytes
	pixels     Buffer[byte]
	beyond     [1]uint32
}

// Take begins with rows [y0, y1) of a picture that passed [Picture.Check], which has to stay until [Intake.Forget]. Of
// a picture on the device that ops take as it is all rows are taken: see Rows.
func (t *Intake) Take(p *Picture, y0, y1 int) {
	*t = Intake{p: p, y0: y0, y1: y1, pieces: t.pieces[:0]}
	switch resident := p.Resident.Len() > 0; {
	case !resident:
		t.first, t.end = p.Coding.Rows(y0, y1, p.Height)
		t.pieces, t.upload = p.RowPieces(t.pieces, t.first, t.end)
	case !t.makes():
		t.y0, t.y1 = 0, p.Height
		fallthrough
	default:
		t.first, t.end = 0, p.Height
	}
}

// Forget lets go of the picture.
func (t *Intake) Forget() {
	clear(t.pieces[:cap(t.pieces)])
	t.p, t.pixels = nil, Buffer[byte]{}
}

// Pixels are where the image lies, once Run has returned.
func (t *Intake) Pixels() Buffer[byte] { return t.pixels }

// Rows are those that ops get.
func (t *Intake) Rows() (y0, y1 int) { return t.y0, t.y1 }

// Uploads is how many bytes are uploaded.
func (t *Intake) Uploads() int { return t.upload }

// developedAlign is what rows of developed pictures begin at multiples of: as far as the widest stores go.
const developedAlign = 16

// makes says that ops get other pixels than those of the picture.
func (t *Intake) makes() bool { return t.p.Coding.Kind != driver.Plain || t.p.Flat != nil }

// Stride is that of the image.
func (t *Intake) Stride() int {
	if !t.makes() {
		return t.p.RowBytes()
	}
	return (t.p.Width*t.p.Format.PixelBytes() + developedAlign - 1) / developedAlign * developedAlign
}

// developed is how many bytes are developed.
func (t *Intake) developed() int {
	if t.p.Coding.Kind == driver.Plain {
		return 0
	}
	return t.Stride() * (t.y1 - t.y0)
}

// corrected is how many bytes are corrected.
func (t *Intake) corrected() int {
	if t.p.Flat == nil {
		return 0
	}
	return t.Stride() * (t.y1 - t.y0)
}

// Footprint is what Run allocates.
func (t *Intake) Footprint() int64 {
	n := Bytes[byte](t.upload) + Bytes[byte](t.developed()) + Bytes[byte](t.corrected()) + t.p.Flat.Bytes()
	if t.p.Coding.Checked() {
		n += Bytes[uint32](1)
	}
	return n
}

// Work is how many bytes are uploaded, developed and corrected.
func (t *Intake) Work() int64 { return int64(t.upload) + int64(t.developed()) + int64(t.corrected()) }

// Run enqueues it, and returns the image of the rows, in memory of the job or that of the picture. Whether all samples
// are as the picture says is known when the job has waited: see Err.
func (t *Intake) Run(q *Queue) (driver.Image, error) {
	im, err := t.develop(q)
	flat := t.p.Flat
	if err != nil || flat == nil {
		return im, err
	}
	field, err := flat.bring(q)
	if err != nil {
		return im, err
	}
	to, err := Alloc[byte](q, t.corrected(), "corrected frame")
	if err != nil {
		return im, err
	}
	dst := im
	dst.Stride, dst.Data = t.Stride(), to.Slice()
	t.pixels = to
	return dst, flat.Correct(q, field, im, dst, t.y0)
}

// develop is Run without the correction.
func (t *Intake) develop(q *Queue) (driver.Image, error) {
	p, data := t.p, t.p.Resident
	im := driver.Image{Width: p.Width, Height: t.y1 - t.y0, Stride: t.Stride(), Format: p.Format}
	if t.upload > 0 {
		var err error
		if data, err = Alloc[byte](q, t.upload, "frame"); err != nil {
			return im, err
		}
		if err := UploadChunks(q, data, t.pieces); err != nil {
			return im, err
		}
	}
	if p.Coding.Kind == driver.Plain {
		im.Stride = p.RowBytes()
		if t.upload == 0 && p.Flat != nil { // all rows are there
			data = data.Range(t.y0*im.Stride, data.Len())
		}
		t.pixels, im.Data = data, data.Slice()
		return im, nil
	}
	to, err := Alloc[byte](q, t.developed(), "developed frame")
	if err != nil {
		return im, err
	}
	t.pixels, im.Data = to, to.Slice()
	op := &driver.Develop{
		Src: driver.RawImage{Data: data.Slice(), Width: p.Width, Height: p.Height, First: t.first,
			Rows: t.end - t.first, Stride: p.RowBytes(), Coding: p.Coding},
		Row0: t.y0, Dst: im,
	}
	if !p.Coding.Checked() {
		return im, q.Run(op)
	}
	beyond, err := Alloc[uint32](q, 1, "samples beyond their bits")
	if err != nil {
		return im, err
	}
	op.Beyond = beyond.Slice()
	if err := q.Run(op); err != nil {
		return im, err
	}
	return im, Download(q, t.beyond[:], beyond)
}

// Err is an [*InvalidError], with a path below at, for samples that are beyond what their bits hold, once the job that
// developed them has waited.
func (t *Intake) Err(at ...any) error { return t.p.Beyond(t.beyond[0], t.y0, t.y1, at) }

// Beyond is that error, where so many samples of rows [y0, y1) are.
func (p *Picture) Beyond(samples uint32, y0, y1 int, at Path) error {
	if samples == 0 {
		return nil
	}
	bits := p.Coding.Bits
	return Invalid("kernels", at.Join("data"), fmt.Sprintf("%d samples of rows %d to %d", samples, y0, y1-1),
		"are above %d, the most that %d bits hold", 1<<bits-1, bits)
}

// RowPieces returns the pieces of rows [y0, y1) of a picture in host memory and their number of bytes; the gap behind
// the last of them is left out. The pieces are appended to dst.
func (p *Picture) RowPieces(dst [][]byte, y0, y1 int) ([][]byte, int) {
	stride := p.RowBytes()
	from := y0 * stride
	n := (y1-y0-1)*stride + p.RowSize()
	left := n
	for _, d := range p.Data {
		if from >= len(d) {
			from -= len(d)
			continue
		}
		d = d[from:]
		from = 0
		if len(d) > left {
			d = d[:left]
		}
		if len(d) > 0 {
			dst = append(dst, d)
		}
		if left -= len(d); left == 0 {
			break
		}
	}
	return dst, n
}
