package kernels

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Image is pixels that a call reads: Height rows of Width pixels, top to bottom, Stride bytes apart, in host memory or
// on the device.
type Image struct {
	Width, Height int
	// Stride is the number of bytes from one row to the next, at least that of a row, and even for 16-bit samples;
	// 0 means that rows follow each other without a gap.
	Stride int
	Format driver.PixelFormat
	// Data holds the bytes in one piece or several, cut anywhere. Together they are Stride*Height bytes; the gap behind
	// the last row may be missing. They are only read, once, and only during the call.
	Data [][]byte
	// Resident, where it isn't empty, holds the bytes in memory of the device that computes, and Data isn't looked at:
	// nothing is copied. Whoever made it keeps it, and doesn't write to it, during the call.
	Resident Buffer[byte]
}

// RowBytes is Stride with its default.
func (m *Image) RowBytes() int {
	if m.Stride == 0 {
		return m.Width * m.Format.PixelBytes()
	}
	return m.Stride
}

// UploadBytes is how many bytes of Data are to be uploaded: none where the image is on the device.
func (m *Image) UploadBytes() int {
	if m.Resident.Len() > 0 {
		return 0
	}
	n := 0
	for _, p := range m.Data {
		n += len(p)
	}
	return n
}

// Check returns what is wrong with the image, or nil. The error names no op, and its field is "width", "height",
// "stride", "format" or "data".
func (m *Image) Check() *ArgError {
	bad := func(field string, value any, format string, args ...any) *ArgError {
		return &ArgError{Field: field, Value: value, Reason: fmt.Sprintf(format, args...)}
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
	row, stride := m.Width*m.Format.PixelBytes(), m.RowBytes()
	switch {
	case stride < row:
		return bad("stride", stride, "is less than a row of %d bytes", row)
	case stride > 1<<40/m.Height:
		return bad("stride", stride, "makes more than 2^40 bytes with a height of %d", m.Height)
	case stride%int(m.Format.SampleBytes) != 0:
		return bad("stride", stride, "must be even for 16-bit samples")
	}
	n := int64(m.UploadBytes() + m.Resident.Len())
	if least, most := int64(stride)*int64(m.Height-1)+int64(row), int64(stride)*int64(m.Height); n != least &&
		n != most {
		return bad("data", n, "must be %d bytes, or %d with the gap behind the last row", least, most)
	}
	return nil
}
