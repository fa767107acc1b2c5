package wire

import (
	"strings"
	"testing"

	"github.com/polyscan/polyscan/kernels"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"google.golang.org/protobuf/proto"
)

// Each format of the protocol is one of the kernels', by its name, and comes back from it.
func TestFormats(t *testing.T) {
	for n, name := range pb.PixelFormat_name {
		f := pb.PixelFormat(n)
		if f == pb.PixelFormat_PIXEL_FORMAT_UNSPECIFIED {
			continue
		}
		l := &pb.FrameLayout{Width: 16, Height: 4, PixelFormat: f}
		p := kernels.Picture{Width: 16, Height: 4}
		var err error
		if p.Format, p.Coding, err = FormatOf(l, "frame"); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, _, err := p.Sizes(); err != nil || !p.Format.Valid() || !p.Coding.Valid() {
			t.Errorf("%s: %+v: %v", name, p, err)
		}
		sent := FormatName(f)
		if strings.HasSuffix(sent, "16LE") {
			sent += " with 16 bits"
		}
		if p.Sent().String() != sent {
			t.Errorf("%s is called %s", name, p.Sent())
		}
		back := SentLayoutOf(p)
		again := kernels.Picture{Width: 16, Height: 4}
		if again.Format, again.Coding, err = FormatOf(back, "frame"); err != nil || again.Format != p.Format ||
			again.Coding != p.Coding || back.GetPixelFormat() != f {
			t.Errorf("%s comes back as %v: %v", name, back, err)
		}
		reduced := LayoutOf(p)
		if p.Coding != (kernels.Coding{}) {
			f = pb.PixelFormat_PIXEL_FORMAT_RGB8
			if p.Coding.Kind == kernels.Mono {
				f = pb.PixelFormat_PIXEL_FORMAT_GRAY16LE
			}
		}
		if reduced.GetPixelFormat() != f || reduced.GetStride() != uint32(16*p.Format.PixelBytes()) ||
			reduced.GetSignificantBits() != uint32(p.Format.Bits) {
			t.Errorf("%s is reduced as %v", name, reduced)
		}
	}
}

func TestFormatRefused(t *testing.T) {
	const (
		mono, bayer = pb.PixelFormat_PIXEL_FORMAT_MONO12P, pb.PixelFormat_PIXEL_FORMAT_BAYER_GB16LE
		malvar      = pb.Demosaic_DEMOSAIC_MALVAR_HE_CUTLER
	)
	for _, c := range []struct {
		layout *pb.FrameLayout
		says   string // "": taken
	}{
		{&pb.FrameLayout{PixelFormat: mono, SignificantBits: 12}, ""},
		{&pb.FrameLayout{PixelFormat: mono, SignificantBits: 10}, "significant_bits"},
		{&pb.FrameLayout{PixelFormat: bayer, SignificantBits: 10, Demosaic: malvar}, ""},
		{&pb.FrameLayout{PixelFormat: bayer, SignificantBits: 8}, "significant_bits"},
		{&pb.FrameLayout{PixelFormat: bayer, Demosaic: 9}, "demosaic"},
		{&pb.FrameLayout{PixelFormat: mono, Demosaic: malvar}, "demosaic"},
		{&pb.FrameLayout{PixelFormat: pb.PixelFormat_PIXEL_FORMAT_GRAY8, Demosaic: malvar}, "demosaic"},
		{&pb.FrameLayout{PixelFormat: 99}, "pixel_format"},
		{&pb.FrameLayout{}, "pixel_format"},
	} {
		_, coding, err := FormatOf(c.layout, "frame")
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v: %v, want an error about %q", c.layout, err, c.says)
		}
		if c.says == "" && proto.Equal(c.layout, &pb.FrameLayout{}) == (coding != kernels.Coding{}) {
			t.Errorf("%v: %+v", c.layout, coding)
		}
	}
}
