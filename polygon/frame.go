// Frame: the pixels that a call reads.

package polygon

import (
	"fmt"
	"math"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Frame is pixels in host memory, or on the device already: Height rows of Width pixels, top to bottom, Stride bytes
// apart.
type Frame struct {
	Width, Height int
	// Stride is the number of bytes from one row to the next, at least that of a row, and even for 16-bit samples;
	// 0 means that rows follow each other without a gap.
	Stride int
	Format driver.PixelFormat
	// Data holds the bytes in one piece or several, cut anywhere. Together they are Stride*Height bytes; the gap behind
	// the last row may be missing. They are only read, and only during the call.
	Data [][]byte
	// Resident, where it isn't empty, holds the bytes in memory of the device that computes, and Data isn't looked at:
	// nothing is copied. Whoever made it keeps it, and doesn't write to it, during the call.
	Resident kernels.Buffer[byte]
}

// row is the number of bytes of a row's pixels.
func (f *Frame) row() int { return f.Width * f.Format.PixelBytes() }

// stride is Stride with its default.
func (f *Frame) stride() int {
	if f.Stride == 0 {
		return f.row()
	}
	return f.Stride
}

func formatName(f driver.PixelFormat) string {
	switch f {
	case driver.Gray8:
		return "GRAY8"
	case driver.RGB8:
		return "RGB8"
	case driver.BGR8:
		return "BGR8"
	case driver.RGBA8:
		return "RGBA8"
	}
	if f.SampleBytes == 2 && f.Channels == 1 {
		return fmt.Sprintf("GRAY16LE with %d bits", f.Bits)
	}
	return fmt.Sprintf("%d channels of %d bytes with %d bits", f.Channels, f.SampleBytes, f.Bits)
}

// checkSize checks the width and height of an image; prefix is that of the fields' paths.
func checkSize(bad *violations, prefix string, width, height int) bool {
	ok := true
	side := func(name string, v int) {
		if v < 1 || v > driver.MaxSide {
			bad.add(prefix+name, fmt.Sprint(v), "must be 1 to %d", driver.MaxSide)
			ok = false
		}
	}
	side("width", width)
	side("height", height)
	if ok && int64(width)*int64(height) > driver.MaxPixels {
		bad.add(prefix+"height", fmt.Sprint(height), "makes %d pixels with a width of %d: the limit is %d pixels",
			int64(width)*int64(height), width, driver.MaxPixels)
		ok = false
	}
	return ok
}

func (f *Frame) check(bad *violations) {
	if !f.checkLayout(bad) {
		return
	}
	field, have := "frame.data", int64(0)
	for _, p := range f.Data {
		have += int64(len(p))
	}
	if n := f.Resident.Len(); n > 0 {
		field, have = "frame.resident", int64(n)
	}
	least, most := f.sizes()
	if have < least || have > most {
		need := fmt.Sprintf("%d bytes", most)
		if least != most {
			need += fmt.Sprintf(" (or %d without the gap behind the last row)", least)
		}
		bad.add(field, fmt.Sprintf("%d bytes", have), "must hold %s: %d rows of %s with %d pixels, %d bytes apart",
			need, f.Height, formatName(f.Format), f.Width, f.stride())
	}
}

// sizes are the least and the most bytes that the pixels take: without the gap behind the last row, and with it.
func (f *Frame) sizes() (least, most int64) {
	stride := int64(f.stride())
	most = stride * int64(f.Height)
	return most - stride + int64(f.row()), most
}

// checkLayout checks all but the data.
func (f *Frame) checkLayout(bad *violations) bool {
	sized := checkSize(bad, "frame.", f.Width, f.Height)
	if !f.Format.Valid() {
		switch {
		case f.Format == driver.PixelFormat{}:
			bad.add("frame.format", "", "must be given")
		case f.Format.SampleBytes == 2:
			bad.add("frame.format", formatName(f.Format),
				"16-bit samples must be of one channel and have 8 to 16 significant bits")
		default:
			bad.add("frame.format", formatName(f.Format), "is no known pixel format")
		}
		return false
	}
	if !sized {
		return false
	}
	switch row := f.row(); {
	case f.Stride < 0 || f.Stride != 0 && f.Stride < row:
		bad.add("frame.stride", fmt.Sprint(f.Stride), "is less than a row of %d bytes (%d pixels of %s)", row, f.Width,
			formatName(f.Format))
		return false
	case f.Stride > math.MaxInt32:
		bad.add("frame.stride", fmt.Sprint(f.Stride), "must be at most %d", math.MaxInt32)
		return false
	case f.Stride%int(f.Format.SampleBytes) != 0:
		bad.add("frame.stride", fmt.Sprint(f.Stride), "must be even for 16-bit samples")
		return false
	}
	return true
}

// rows returns the pieces of rows [y0, y1) and their number of bytes; the gap behind the last of them is left out. The
// pieces are appended to dst.
func (f *Frame) rows(dst [][]byte, y0, y1 int) ([][]byte, int) {
	stride := f.stride()
	from := y0 * stride
	n := (y1-y0-1)*stride + f.row()
	left := n
	for _, p := range f.Data {
		if from >= len(p) {
			from -= len(p)
			continue
		}
		p = p[from:]
		from = 0
		if len(p) > left {
			p = p[:left]
		}
		if len(p) > 0 {
			dst = append(dst, p)
		}
		if left -= len(p); left == 0 {
			break
		}
	}
	return dst, n
}
