package server

import (
	"bytes"
	"image"
	"image/png"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"google.golang.org/protobuf/proto"
)

// sentAs is the layout of a frame as a camera sends it.
func sentAs(s *devicetest.Shot) *pb.FrameLayout {
	l := &pb.FrameLayout{Width: uint32(s.Width), Height: uint32(s.Height), Stride: uint32(s.Stride)}
	phase, c := pb.PixelFormat(s.Coding.Phase), s.Coding
	switch {
	case c.Kind == driver.Mono && c.Bits == 10:
		l.PixelFormat = pb.PixelFormat_PIXEL_FORMAT_MONO10P
	case c.Kind == driver.Mono:
		l.PixelFormat = pb.PixelFormat_PIXEL_FORMAT_MONO12P
	case c.Kind == driver.UYVY:
		l.PixelFormat = pb.PixelFormat_PIXEL_FORMAT_YUV422_UYVY
	case c.Kind == driver.YUYV:
		l.PixelFormat = pb.PixelFormat_PIXEL_FORMAT_YUV422_YUYV
	case c.Packed && c.Bits == 10:
		l.PixelFormat = pb.PixelFormat_PIXEL_FORMAT_BAYER_RG10P + phase
	case c.Packed:
		l.PixelFormat = pb.PixelFormat_PIXEL_FORMAT_BAYER_RG12P + phase
	case c.Bits == 8:
		l.PixelFormat = pb.PixelFormat_PIXEL_FORMAT_BAYER_RG8 + phase
	default:
		l.PixelFormat, l.SignificantBits = pb.PixelFormat_PIXEL_FORMAT_BAYER_RG16LE+phase, uint32(c.Bits)
	}
	if c.Demosaic == driver.MalvarHeCutler {
		l.Demosaic = pb.Demosaic_DEMOSAIC_MALVAR_HE_CUTLER
	}
	return l
}

// A frame as a camera sends it is reduced as what it becomes: in the request, kept on the device, in a stream, and as a
// gray file. Results say what was reduced, and the server what it keeps.
func TestFormats(t *testing.T) {
	s := start(t, Config{})
	inspection := pb.NewInspectionServiceClient(s.conn)
	frames := pb.NewFrameServiceClient(s.conn)
	for i, shot := range devicetest.Shots(5, 0) {
		want, beyond := shot.Develop(0, shot.Height)
		if beyond > 0 || shot.Height < 3 || testing.Short() && i%5 != 0 {
			continue
		}
		what := inspecting(rect("all", 0, 0, float64(shot.Width), float64(shot.Height)), rect("row", 0, 1,
			float64(shot.Width), 2))
		reduce := func(f *pb.Frame) *pb.FrameResult {
			t.Helper()
			res, err := inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: what, Frame: f})
			if err != nil {
				t.Fatalf("%s: %v", shot.Name, err)
			}
			res.Result.Times = nil
			return res.GetResult()
		}
		format, bits := pb.PixelFormat_PIXEL_FORMAT_RGB8, uint32(8)
		if shot.Coding.Kind == driver.Mono {
			format, bits = pb.PixelFormat_PIXEL_FORMAT_GRAY16LE, uint32(shot.Coding.Bits)
		}
		plain := rawFrame(shot.Width, shot.Height, format, want.Pixels)
		plain.Layout.SignificantBits = bits
		expected := reduce(plain)
		raw := &pb.Frame{Layout: sentAs(&shot), Source: &pb.Frame_Data{Data: shot.Bytes}}
		if got := reduce(raw); !proto.Equal(got, expected) {
			t.Errorf("%s: %v, want %v", shot.Name, got, expected)
		}
		kept, err := frames.PutFrame(t.Context(), &pb.PutFrameRequest{Frame: raw})
		if err != nil {
			t.Fatal(err)
		}
		if l := kept.GetFrame().GetLayout(); l.GetPixelFormat() != raw.GetLayout().GetPixelFormat() ||
			l.GetStride() != uint32(shot.Stride) {
			t.Errorf("%s is kept as %v", shot.Name, l)
		}
		name := kept.GetFrame().GetName()
		if got := reduce(&pb.Frame{Source: &pb.Frame_Resident{Resident: name}}); !proto.Equal(got, expected) {
			t.Errorf("%s, kept: %v, want %v", shot.Name, got, expected)
		}
		if _, err := frames.ReleaseFrame(t.Context(), &pb.ReleaseFrameRequest{Name: name}); err != nil {
			t.Error(err)
		}
		if shot.Coding.Kind != driver.Bayer || shot.Coding.Packed {
			continue
		}
		var im image.Image
		mosaic := kernels.Picture{Width: shot.Width, Height: shot.Height, Stride: shot.Stride, Format: kernels.Gray8,
			Data: [][]byte{shot.Bytes}}
		if shot.Coding.Bits > 8 {
			mosaic.Format = kernels.Gray16(16)
		}
		im = mosaic.Image()
		var file bytes.Buffer
		if err := png.Encode(&file, im); err != nil {
			t.Fatal(err)
		}
		l := sentAs(&shot)
		l.Stride = 0
		got := reduce(&pb.Frame{Layout: l, Encoding: pb.Encoding_ENCODING_PNG,
			Source: &pb.Frame_Data{Data: file.Bytes()}})
		if !proto.Equal(got, expected) {
			t.Errorf("%s, as a file: %v, want %v", shot.Name, got, expected)
		}
	}
}

// What can't be is an error by its field.
func TestFormatsRefused(t *testing.T) {
	s := start(t, Config{})
	inspection := pb.NewInspectionServiceClient(s.conn)
	const (
		bayer   = pb.PixelFormat_PIXEL_FORMAT_BAYER_RG8
		bayer16 = pb.PixelFormat_PIXEL_FORMAT_BAYER_RG16LE
		uyvy    = pb.PixelFormat_PIXEL_FORMAT_YUV422_UYVY
	)
	for _, c := range []struct {
		name   string
		change func(*pb.FrameLayout)
		bytes  int
		field  string
		says   []string
	}{
		{"an odd width of YUV", func(l *pb.FrameLayout) { l.Width, l.PixelFormat = 7, uyvy }, 28, "frame.layout.width",
			[]string{"7", "even"}},
		{"a row of Bayer", func(l *pb.FrameLayout) { l.Height = 1 }, 8, "frame.layout.height", []string{"at least 2"}},
		{"too few bytes", func(l *pb.FrameLayout) {}, 15, "frame.data", []string{"16 bytes", "BAYER_RG8"}},
		{"demosaic of gray", func(l *pb.FrameLayout) { l.PixelFormat, l.Demosaic = gray8, 1 }, 16,
			"frame.layout.demosaic", []string{"Bayer"}},
		{"samples beyond their bits", func(l *pb.FrameLayout) { l.PixelFormat, l.SignificantBits = bayer16, 10 }, 32,
			"frame.data", []string{"above 1023", "10 bits"}},
	} {
		l := &pb.FrameLayout{Width: 8, Height: 2, PixelFormat: bayer}
		c.change(l)
		_, err := inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 2, 2)),
			Frame: &pb.Frame{Layout: l, Source: &pb.Frame_Data{Data: bytes.Repeat([]byte{200}, c.bytes)}}})
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		wantRefused(t, err, c.field, c.says...)
	}
}

// A line camera may pack its pixels or send YUV.
func TestScanFormats(t *testing.T) {
	s := start(t, Config{})
	for _, shot := range devicetest.Shots(9, 0) {
		if shot.Coding.Kind == driver.Bayer || shot.Height < 4 || shot.Width > 300 {
			continue
		}
		want, _ := shot.Develop(0, shot.Height)
		sum := uint64(0)
		for y := range shot.Height {
			for x := range shot.Width {
				p := want.Pixels[y*want.Stride+x*want.Format.PixelBytes():]
				if sum += uint64(p[0]); shot.Coding.Kind == driver.Mono {
					sum += uint64(p[1]) << 8
				}
			}
		}
		lines := shot.Height / 2 * 2
		open := scanOpen(inspecting(rect("r", 0, 0, float64(shot.Width), float64(lines))), shot.Width, 2, lines, lines)
		open.Layout = sentAs(&shot)
		open.Layout.Height = 2
		call := s.scan(t, open)
		for y := 0; y < lines; y += 2 {
			end := min((y+2)*shot.Stride, len(shot.Bytes))
			call.strip(&pb.Strip{Sequence: uint64(y / 2), FirstLine: uint64(y),
				Frame: &pb.Frame{Source: &pb.Frame_Data{Data: shot.Bytes[y*shot.Stride : end]}}})
		}
		got := call.finish()
		for y := lines; y < shot.Height; y++ {
			for x := range shot.Width {
				p := want.Pixels[y*want.Stride+x*want.Format.PixelBytes():]
				if sum -= uint64(p[0]); shot.Coding.Kind == driver.Mono {
					sum -= uint64(p[1]) << 8
				}
			}
		}
		if len(got.parts) < 1 || got.parts[0].GetRegions()[0].GetChannels()[0].GetSum() != sum {
			t.Errorf("%s: %v, want a sum of %d", shot.Name, got.parts, sum)
		}
	}
}

// Frames of Bayer are parts of a session: each has the numbers of the frame.
func TestScanBayer(t *testing.T) {
	s := start(t, Config{})
	inspection := pb.NewInspectionServiceClient(s.conn)
	for _, shot := range devicetest.Shots(15, 0) {
		if _, beyond := shot.Develop(0, shot.Height); shot.Coding.Kind != driver.Bayer || beyond > 0 ||
			shot.Height%2 == 0 {
			continue
		}
		what := inspecting(rect("r", 0, 0, float64(shot.Width), float64(shot.Height)))
		want, err := inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: what,
			Frame: &pb.Frame{Layout: sentAs(&shot), Source: &pb.Frame_Data{Data: shot.Bytes}}})
		if err != nil {
			t.Fatal(err)
		}
		open := scanOpen(what, shot.Width, shot.Height, shot.Height, shot.Height)
		open.Layout, open.WholeParts = sentAs(&shot), true
		call := s.scan(t, open)
		for n := range uint64(2) { // the second begins at an odd line
			call.strip(&pb.Strip{Sequence: n, FirstLine: n * uint64(shot.Height),
				Frame: &pb.Frame{Source: &pb.Frame_Data{Data: shot.Bytes}}})
		}
		parts := call.finish().parts
		for _, p := range parts {
			if !proto.Equal(p.GetRegions()[0], want.GetResult().GetRegions()[0]) {
				t.Errorf("%s: %v, want %v", shot.Name, p, want)
			}
		}
		if len(parts) != 2 {
			t.Errorf("%s: %d parts", shot.Name, len(parts))
		}
	}
	for _, tc := range []struct {
		change      func(*pb.ScanOpen)
		field, text string
	}{
		{func(o *pb.ScanOpen) { o.WholeParts = false }, "open.whole_parts", "BAYER_GB8"},
		{func(o *pb.ScanOpen) { o.Trigger = &pb.ScanOpen_EveryLines{EveryLines: 8} }, "open.every_lines",
			"at least part_lines"},
	} {
		open := scanOpen(inspecting(rect("r", 0, 0, 8, 10)), 8, 10, 10, 10)
		open.Layout.PixelFormat, open.WholeParts = pb.PixelFormat_PIXEL_FORMAT_BAYER_GB8, true
		tc.change(open)
		call := scanOver(t, s.conn)
		call.request(openRequest(open))
		_, err := call.Recv()
		wantRefused(t, err, tc.field, tc.text)
	}
}
