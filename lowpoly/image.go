// Image: the pixels that a conversion reads.

package lowpoly

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Image is pixels in host memory: Height rows of Width pixels, top to bottom, Stride bytes apart.
type Image struct {
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

// stride is Stride with its default.
func (m *Image) stride() int {
	if m.Stride == 0 {
		return m.Width * m.Format.PixelBytes()
	}
	return m.Stride
}

// bytes is how many there are.
func (m *Image) bytes() int64 {
	n := int64(m.Resident.Len())
	if n > 0 {
		return n
	}
	for _, p := range m.Data {
		n += int64(len(p))
	}
	return n
}

func (m *Image) check() error {
	bad := func(field string, value any, format string, args ...any) error {
		return &InvalidError{"image." + field, fmt.Sprint(value), fmt.Sprintf(format, args...)}
	}
	switch {
	case !m.Format.Valid():
		return bad("format", m.Format, "is no known pixel format")
	case m.Width < 1 || m.Width > driver.MaxSide:
		return bad("width", m.Width, "must be 1 to %d", driver.MaxSide)
	case m.Height < 1 || m.Height > driver.MaxSide:
		return bad("height", m.Height, "must be 1 to %d", driver.MaxSide)
	case int64(m.Width)*int64(m.Height) > driver.MaxPixels:
		return bad("height", m.Height, "makes more than %d pixels with a width of %d", driver.MaxPixels, m.Width)
	}
	row, stride := m.Width*m.Format.PixelBytes(), m.stride()
	switch {
	case stride < row:
		return bad("stride", stride, "is less than a row of %d bytes", row)
	case stride > 1<<40/m.Height:
		return bad("stride", stride, "makes more than 2^40 bytes with a height of %d", m.Height)
	case stride%int(m.Format.SampleBytes) != 0:
		return bad("stride", stride, "must be even for 16-bit samples")
	}
	least, most := int64(stride)*int64(m.Height-1)+int64(row), int64(stride)*int64(m.Height)
	if n := m.bytes(); n != least && n != most {
		return bad("data", n, "must be %d bytes, or %d with the gap behind the last row", least, most)
	}
	return nil
}
