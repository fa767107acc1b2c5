// Flat fields, as messages and as packages of kernels have them.

package wire

import (
	"encoding/hex"
	"strconv"

	"github.com/polyscan/polyscan/kernels"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

// FlatFieldOf is the field of a message that has its dark values and gains, and lies at path.
func FlatFieldOf(m *pb.FlatField, path string) (*kernels.FlatField, error) {
	l := m.GetLayout()
	format, coding, err := FormatOf(l, path)
	if err != nil {
		return nil, err
	}
	if coding != (kernels.Coding{}) {
		return nil, apierr.Refuse(path+".layout.pixel_format", FormatName(l.GetPixelFormat()),
			"must be what it is converted to, %v", format)
	}
	if row := uint64(l.GetWidth()) * uint64(format.PixelBytes()); l.GetStride() != 0 && uint64(l.GetStride()) != row {
		return nil, apierr.Refuse(path+".layout.stride", l.GetStride(), "must be %d, that of rows without a gap, or unset",
			row)
	}
	f, err := kernels.NewFlatField(int(l.GetWidth()), int(l.GetHeight()), format, int(m.GetFractionBits()), m.GetDark(),
		m.GetGain())
	if err != nil {
		return nil, FieldError(err, func(v kernels.Violation) (string, string, string) {
			return FramePath(path, v.Path), v.Value, v.Reason
		})
	}
	if sum := hex.EncodeToString(f.Sum[:]); m.GetSha256() != "" && m.GetSha256() != sum {
		return nil, apierr.Refuse(path+".sha256", strconv.Quote(m.GetSha256()), "is not that of the field, %s", sum)
	}
	return f, nil
}

// Correct has frames corrected that others are compared with: they are of the same camera.
func Correct(frames map[string]kernels.Picture, flat *kernels.FlatField) {
	for name, f := range frames {
		f.Flat = flat
		frames[name] = f
	}
}

// FlatFieldRef is the message that stands for a field without its dark values and gains; nil for none.
func FlatFieldRef(f *kernels.FlatField) *pb.FlatField {
	if f == nil {
		return nil
	}
	l := LayoutOf(kernels.Picture{Width: f.Width, Height: f.Height, Format: f.Format})
	l.Stride = 0
	return &pb.FlatField{Layout: l, FractionBits: uint32(f.Fraction), Sha256: hex.EncodeToString(f.Sum[:])}
}
