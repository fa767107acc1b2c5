package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"image"
	"image/png"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/lowpoly"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// pictureFrame is a picture as a frame, where the protocol has its format.
func pictureFrame(p *devicetest.Picture) *pb.Frame {
	l := &pb.FrameLayout{Width: uint32(p.Width), Height: uint32(p.Height), Stride: uint32(p.Stride)}
	switch {
	case p.Format == driver.Gray16(16), p.Format == driver.Gray16(12):
		l.PixelFormat, l.SignificantBits = pb.PixelFormat_PIXEL_FORMAT_GRAY16LE, uint32(p.Format.Bits)
	default:
		for name, f := range wire.Formats {
			if f == p.Format {
				l.PixelFormat = name
			}
		}
	}
	if l.PixelFormat == 0 {
		return nil
	}
	return &pb.Frame{Layout: l, FrameId: p.Name, Source: &pb.Frame_Data{Data: p.Pixels}}
}

// What comes back is what package lowpoly makes of the same image, through the client library.
func TestConvert(t *testing.T) {
	ts := start(t, Config{})
	c := clients.New(ts.conn)
	tried := 0
	for i, p := range devicetest.Pictures(4, 10) {
		frame := pictureFrame(&p)
		if frame == nil {
			continue
		}
		tried++
		stage := pb.ConvertStage(i % 6)
		req := &pb.ConvertRequest{
			Options: &pb.ConvertOptions{Vertices: uint32(20 + i), Seed: uint64(i), Stage: stage,
				Color: pb.TriangleColor(i % 3), Method: pb.ShadeMethod(i % 3), Spacing: int32(i%3) - 1},
			WorkClass: pb.WorkClass(i % 3), Mesh: true, Svg: true, Frame: frame,
		}
		got, err := c.Convert(context.Background(), req)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		opt := lowpoly.Options{
			Vertices: 20 + i, Seed: uint64(i), Stage: lowpoly.Stage(max(int(stage)-1, 0)),
			Color: driver.ShadeColor(i % 3 / 2), Spacing: i%3 - 1,
		}
		want, err := lowpoly.Convert(context.Background(), ts.dev.Current(), kernels.Picture{
			Width: p.Width, Height: p.Height, Stride: p.Stride, Format: p.Format, Data: [][]byte{p.Pixels},
		}, opt)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Picture.GetData(), want.Data[0]) || got.Picture.FrameId != p.Name ||
			got.Picture.Layout.Width != uint32(p.Width) {
			t.Errorf("%s: %v: the picture differs", p.Name, stage)
		}
		var svg bytes.Buffer
		if err := want.Mesh.WriteSVG(&svg); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Svg, svg.Bytes()) {
			t.Errorf("%s: the drawing differs", p.Name)
		}
		m := got.Mesh
		if len(m.Points) != 8*len(want.Mesh.Points) || len(m.Triangles) != 12*len(want.Mesh.Triangles) ||
			len(m.Colors) != 4*len(want.Mesh.Colors) ||
			got.Vertices != uint64(len(want.Mesh.Points)) || got.Triangles != uint64(len(want.Mesh.Triangles)) ||
			got.Backend != ts.dev.Info().Backend {
			t.Fatalf("%s: %d, %d and %d bytes for %d points, %d triangles", p.Name, len(m.Points), len(m.Triangles),
				len(m.Colors), got.Vertices, got.Triangles)
		}
		for k, v := range want.Mesh.Points {
			if x, y := binary.LittleEndian.Uint32(m.Points[8*k:]),
				binary.LittleEndian.Uint32(m.Points[8*k+4:]); int32(x) != v.X || int32(y) != v.Y {
				t.Fatalf("%s: point %d is (%d, %d), want %v", p.Name, k, x, y, v)
			}
		}
		for k, v := range want.Mesh.Colors {
			if at := m.Colors[4*k:]; at[0] != v.R || at[1] != v.G || at[2] != v.B || at[3] != v.A {
				t.Fatalf("%s: colour %d is % x, want %v", p.Name, k, at[:4], v)
			}
		}
	}
	if tried < 15 {
		t.Errorf("%d pictures were tried", tried)
	}
}

// Files go in and come out, frames that the server keeps go in, and what isn't asked for doesn't come.
func TestConvertForms(t *testing.T) {
	ts := start(t, Config{})
	c := clients.New(ts.conn)
	ctx := context.Background()
	im := image.NewNRGBA(image.Rect(0, 0, 30, 20))
	for i := range im.Pix {
		im.Pix[i] = byte(i * i / 7)
	}
	var file bytes.Buffer
	if err := png.Encode(&file, im); err != nil {
		t.Fatal(err)
	}
	raw := &pb.Frame{Layout: &pb.FrameLayout{Width: 30, Height: 20, PixelFormat: pb.PixelFormat_PIXEL_FORMAT_RGBA8},
		Source: &pb.Frame_Data{Data: im.Pix}}
	opt := &pb.ConvertOptions{Vertices: 40, Stage: pb.ConvertStage_CONVERT_STAGE_VORONOI}
	want, err := c.Convert(ctx, &pb.ConvertRequest{Options: opt, Frame: raw})
	if err != nil {
		t.Fatal(err)
	}
	if want.Mesh != nil || want.Svg != nil {
		t.Errorf("a mesh of %v and a drawing of %d bytes came, which nobody asked for", want.Mesh, len(want.Svg))
	}
	kept, err := c.Frame.PutFrame(ctx, &pb.PutFrameRequest{Frame: raw})
	if err != nil {
		t.Fatal(err)
	}
	for name, frame := range map[string]*pb.Frame{"a file": clients.Encoded(file.Bytes()),
		"a frame that stays": clients.Resident(kept.GetFrame().GetName())} {
		got, err := c.Convert(ctx, &pb.ConvertRequest{Options: opt, Frame: frame})
		if err != nil || !bytes.Equal(got.Picture.GetData(), want.Picture.GetData()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	out, err := c.Convert(ctx, &pb.ConvertRequest{Options: opt, Frame: raw, Encoding: pb.Encoding_ENCODING_PNG})
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := png.Decode(bytes.NewReader(out.Picture.GetData()))
	if err != nil {
		t.Fatal(err)
	}
	if d, ok := decoded.(*image.NRGBA); !ok || !bytes.Equal(d.Pix, want.Picture.GetData()) {
		t.Errorf("the PNG holds a %T, or other pixels", decoded)
	}
	if out, err := c.Convert(ctx, &pb.ConvertRequest{Options: opt, Frame: raw, NoPicture: true}); err != nil ||
		out.Picture != nil || out.Vertices != 40 {
		t.Errorf("without the picture: %v, %v", out, err)
	}
}

// The copy of the points before waits for host memory as the picture does.
func TestConvertPreviousHostMemory(t *testing.T) {
	ts := start(t, Config{})
	c := clients.New(ts.conn)
	frame := film(1, 60, 40, 1)[0]
	opt := &pb.ConvertOptions{Previous: make([]byte, 8*100_000), Strength: proto.Uint32(3)}
	calls := map[string]func(context.Context) error{
		"Convert": func(ctx context.Context) error {
			_, err := c.Convert(ctx, &pb.ConvertRequest{Frame: frame, Options: opt})
			return err
		},
		"ConvertFrames": func(ctx context.Context) error {
			for a, err := range c.ConvertFrames(ctx, &pb.ConvertFramesOpen{Options: opt}, each(frame),
				clients.StreamOptions{}) {
				if err != nil {
					return err
				}
				if a.Err != nil {
					return a.Err
				}
			}
			return nil
		},
	}
	for name, call := range calls {
		share, err := ts.host.Take(t.Context(), budget.Results, ts.host.Cap)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := call(ctx); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%s without memory: %v", name, err)
		}
		cancel()
		share.Release()
		if err := call(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	ts.free(t)
}

// Pictures as PNG files of every format decode to themselves.
func TestConvertPNG(t *testing.T) {
	ts := start(t, Config{})
	c := clients.New(ts.conn)
	for _, p := range devicetest.Pictures(4, 0) {
		frame := pictureFrame(&p)
		if frame == nil {
			continue
		}
		req := &pb.ConvertRequest{Frame: frame, Options: &pb.ConvertOptions{Vertices: 30}}
		raw, err := c.Convert(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		req.Encoding = pb.Encoding_ENCODING_PNG
		file, err := c.Convert(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		im, err := png.Decode(bytes.NewReader(file.Picture.GetData()))
		if err != nil {
			t.Fatal(err)
		}
		q := p
		q.Stride, q.Pixels = p.Width*p.Format.PixelBytes(), raw.Picture.GetData()
		for y := range p.Height {
			for x := range p.Width {
				var got []int
				switch im := im.(type) {
				case *image.Gray:
					got = []int{int(im.GrayAt(x, y).Y)}
				case *image.Gray16:
					got = []int{int(im.Gray16At(x, y).Y)}
				case *image.RGBA: // without alpha
					v := im.RGBAAt(x, y)
					got = []int{int(v.R), int(v.G), int(v.B), int(v.A)}
				case *image.NRGBA:
					v := im.NRGBAAt(x, y)
					got = []int{int(v.R), int(v.G), int(v.B), int(v.A)}
				}
				for k := range int(p.Format.Channels) {
					at := q.Pixels[y*q.Stride+x*p.Format.PixelBytes():]
					v := int(at[p.Format.Order[k]])
					if p.Format.SampleBytes == 2 {
						v = int(binary.LittleEndian.Uint16(at))
					}
					if k >= len(got) || got[k] != v {
						t.Fatalf("%s: pixel (%d, %d) is %v in the file, channel %d should be %d", p.Name, x, y, got, k,
							v)
					}
				}
			}
		}
	}
}

func TestConvertRefuses(t *testing.T) {
	ts := start(t, Config{MaxPoints: 5000, MemoryBytes: 8 << 20, MaxMessageBytes: 4 << 20})
	c := clients.New(ts.conn)
	good := func() *pb.ConvertRequest {
		return &pb.ConvertRequest{Options: &pb.ConvertOptions{Vertices: 50}, Frame: &pb.Frame{
			Layout: &pb.FrameLayout{Width: 20, Height: 10, PixelFormat: pb.PixelFormat_PIXEL_FORMAT_RGB8},
			Source: &pb.Frame_Data{Data: make([]byte, 600)},
		}}
	}
	for _, x := range []struct {
		spoil func(*pb.ConvertRequest)
		code  codes.Code
		says  string
	}{
		{func(r *pb.ConvertRequest) {}, codes.OK, ""},
		{func(r *pb.ConvertRequest) { r.Options = nil }, codes.OK, ""},
		{func(r *pb.ConvertRequest) { r.Frame = nil }, codes.InvalidArgument, "frame"},
		{func(r *pb.ConvertRequest) {
			r.Frame.Layout.Width = 21
		}, codes.InvalidArgument, "frame.data = 600 bytes: must hold 630 bytes"},
		{func(r *pb.ConvertRequest) {
			r.Frame.Layout.Stride = 59
		}, codes.InvalidArgument, "frame.layout.stride = 59: is less than a row of 60 bytes"},
		{func(r *pb.ConvertRequest) {
			r.Options.Vertices = 3
		}, codes.InvalidArgument, "options.vertices = 3: must be 4 to"},
		{func(r *pb.ConvertRequest) {
			r.Options.Vertices = 5001
		}, codes.InvalidArgument, "options.vertices = 5001: are more than the server's limit of 5000"},
		{func(r *pb.ConvertRequest) { r.Options.Floor = 1 << 20 }, codes.InvalidArgument, "options.floor"},
		{func(r *pb.ConvertRequest) { r.Options.Spacing = 300 }, codes.InvalidArgument, "options.spacing"},
		{func(r *pb.ConvertRequest) {
			r.Options.Cell, r.Options.Spacing = 2, 2
		}, codes.InvalidArgument, "options.cell = 2: must be more than the spacing, 2"},
		{func(r *pb.ConvertRequest) {
			r.Options.Strength = proto.Uint32(64)
		}, codes.InvalidArgument, "options.strength"},
		{func(r *pb.ConvertRequest) { r.Options.Color = 9 }, codes.InvalidArgument, "options.color"},
		{func(r *pb.ConvertRequest) { r.Options.Method = 9 }, codes.InvalidArgument, "options.method"},
		{func(r *pb.ConvertRequest) { r.Options.Stage = 9 }, codes.InvalidArgument, "options.stage"},
		{func(r *pb.ConvertRequest) {
			r.Options.Previous = make([]byte, 12)
		}, codes.InvalidArgument, "options.previous = 12: must be a multiple of 8"},
		{func(r *pb.ConvertRequest) { r.WorkClass = 9 }, codes.InvalidArgument, "work_class"},
		{func(r *pb.ConvertRequest) { r.Encoding = pb.Encoding_ENCODING_JPEG }, codes.InvalidArgument, "encoding"},
		{func(r *pb.ConvertRequest) {
			r.Frame.Layout.Width, r.Frame.Layout.Height = 1000, 1000
			r.Frame.Source = &pb.Frame_Data{Data: make([]byte, 3_000_000)}
		}, codes.ResourceExhausted, "lowpoly needs"},
	} {
		req := good()
		x.spoil(req)
		_, err := c.Convert(context.Background(), req)
		if x.code == codes.OK {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		var e *clients.Error
		if err == nil || !errors.As(err, &e) || e.Code != x.code || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%v, want %v with %q", err, x.code, x.says)
		}
	}
	ts.background.Wait()
	ts.idleHost(t)
}
