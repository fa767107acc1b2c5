// Flat fields: what pictures of a camera are corrected by.

package kernels

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// FlatField is dark values and gains of a camera and its light, one for each sample of a row or of a frame: see
// [driver.Correct]. It is immutable.
type FlatField struct {
	Width, Height int // of the frames; Height is 1 where all rows have the same
	Format        PixelFormat
	Fraction      int               // bits of the gains behind the point
	Sum           [sha256.Size]byte // of all of it: equal ones are the same field

	rows []byte // as the device has them: dark, padding up to gains, gains
	gain int    // where gains begin
}

// leastReach is by what a field may divide the range at most.
const leastReach = 4

// NewFlatField checks a field whose dark values are samples as frames have them, and whose gains are a little-endian
// uint16 for each of these, all without gaps. Errors have paths such as "gain": a gain of 0 makes any picture fit, and
// is refused, as is a field of alpha that isn't 0 and 1.
//
// A field that brings no sample of a channel to a quarter of the range is refused: it would blind the camera, and
// limits such as "max < 200" would pass whatever it shows.
func NewFlatField(width, height int, f PixelFormat, fraction int, dark, gain []byte) (*FlatField, error) {
	if err := CheckSize(width, height); err != nil {
		return nil, err
	}
	n := width * int(f.Channels)
	samples, size := n*height, int(f.SampleBytes)
	bad := InvalidError{Domain: "kernels"}
	switch {
	case !f.Valid():
		bad.Add(Path{"format"}, f, "is no known pixel format")
	case fraction < driver.MinFraction || fraction > driver.MaxFraction:
		bad.Add(Path{"fraction_bits"}, fraction, "must be %d to %d", driver.MinFraction, driver.MaxFraction)
	case len(dark) != samples*size:
		bad.Add(Path{"dark"}, fmt.Sprintf("%d bytes", len(dark)), "must hold %d: %dx%d pixels of %v", samples*size, width,
			height, f)
	case len(gain) != 2*samples:
		bad.Add(Path{"gain"}, fmt.Sprintf("%d bytes", len(gain)), "must hold %d: two for each of %d samples", 2*samples,
			samples)
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	alpha := n // where in a pixel it is
	if f.HasAlpha() {
		alpha = int(f.Order[f.Channels-1])
	}
	zeros, first, mixed := 0, 0, 0
	most, reach := f.Levels()-1, make([]int, f.Channels) // the greatest samples that come of it, by the place in a pixel
	for i := range samples {
		level := int(dark[i*size])
		if size == 2 {
			level = int(binary.LittleEndian.Uint16(dark[2*i:]))
		}
		c := i % int(f.Channels)
		reach[c] = max(reach[c], max(most-level, 0)*int(binary.LittleEndian.Uint16(gain[2*i:]))>>fraction)
		switch g := binary.LittleEndian.Uint16(gain[2*i:]); {
		case g == 0:
			if zeros++; zeros == 1 {
				first = i
			}
		case f.HasAlpha() && i%int(f.Channels) == alpha && (int(g) != 1<<fraction || dark[i] != 0):
			mixed++
		}
	}
	if zeros > 0 {
		bad.Add(Path{"gain"}, fmt.Sprintf("%d samples of 0, the first at (%d, %d)", zeros, first%n/int(f.Channels),
			first/n), "must be 1 to 65535")
	}
	for c, v := range reach {
		if zeros == 0 && c != alpha && v < most/leastReach {
			bad.Add(Path{"gain"}, fmt.Sprintf("at most %d in channel %d", v, c), "must bring the brightest samples to %d or "+
				"more, a quarter of their range: limits on what is bright could not fail", most/leastReach)
			break
		}
	}
	if mixed > 0 {
		bad.Add(Path{"gain"}, fmt.Sprintf("%d pixels", mixed), "change alpha: its dark must be 0 and its gain 1")
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	pitch := driver.FieldPitch(width, f)
	out := &FlatField{Width: width, Height: height, Format: f, Fraction: fraction,
		gain: (pitch*height*size + driver.Align - 1) / driver.Align * driver.Align}
	out.rows = make([]byte, out.gain+2*pitch*height)
	for y := range height {
		copy(out.rows[y*pitch*size:], dark[y*n*size:][:n*size])
		copy(out.rows[out.gain+2*y*pitch:], gain[2*y*n:][:2*n])
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%dx%d %v %d\n", width, height, f, fraction)
	sum.Write(dark)
	sum.Write(gain)
	sum.Sum(out.Sum[:0])
	return out, nil
}

// Bytes is what it takes of the host's memory, and of the device's. Nil takes none.
func (f *FlatField) Bytes() int64 {
	if f == nil {
		return 0
	}
	return Bytes[byte](len(f.rows))
}

// check notes what is wrong with the field of a picture.
func (p *Picture) checkFlat(bad *InvalidError) {
	f := p.Flat
	if f == nil {
		return
	}
	if f.Width != p.Width || f.Height != 1 && f.Height != p.Height || f.Format != p.Format {
		bad.Add(Path{"flat_field"}, fmt.Sprintf("%dx%d of %v", f.Width, f.Height, f.Format),
			"must be of %v for a frame of %dx%d, and have its width and 1 row or its rows", p.Format, p.Width, p.Height)
	}
}

// flatKey is that of memos with the rows of a field.
type flatKey [sha256.Size]byte

// bring returns the field on the device, where jobs leave it for each other.
func (f *FlatField) bring(q *Queue) (Buffer[byte], error) {
	key := flatKey(f.Sum)
	to, _, ok := q.Recall(key)
	if ok {
		return to, nil
	}
	m, keep := q.NewMemo(len(f.rows), "flat field")
	if keep {
		to = m.Buffer()
	} else {
		var err error
		if to, err = Alloc[byte](q, len(f.rows), "flat field"); err != nil {
			return to, err
		}
	}
	if err := UploadChunks(q, to, [][]byte{f.rows}); err != nil || !keep {
		return to, err
	}
	if err := q.Wait(); err != nil {
		return to, err
	}
	m.Publish(key, nil)
	return to, nil
}

// Upload enqueues the upload of the field to memory of Bytes, for those who keep it there: see Correct.
func (f *FlatField) Upload(q *Queue, to Buffer[byte]) error {
	return Upload(q, to.Range(0, len(f.rows)), f.rows)
}

// Correct enqueues the correction of src, which begins with row y0 of a frame, to dst. field is where the field lies.
func (f *FlatField) Correct(q *Queue, field Buffer[byte], src, dst driver.Image, y0 int) error {
	op := &driver.Correct{Src: src, Dst: dst, Fraction: f.Fraction, FieldRows: 1}
	from, pitch := 0, driver.FieldPitch(f.Width, f.Format)
	if f.Height > 1 {
		from, op.FieldRows = y0*pitch, src.Height
	}
	n, size := op.FieldRows*pitch, int(f.Format.SampleBytes)
	op.Dark = field.Range(from*size, (from+n)*size).Slice()
	op.Gain = field.Range(f.gain+2*from, f.gain+2*(from+n)).Slice()
	return q.Run(op)
}
