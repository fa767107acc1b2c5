package server

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/kernels/devicetest"
	"github.com/polyscan/polyscan/kernels/driver"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// givenFrame is a scene of three channels as pixels, rounded, with a gap behind each row; and the scene as rounded.
func givenFrame(s *devicetest.Scene) (*pb.Frame, *devicetest.Scene) {
	n, stride := len(s.Flags), 4*s.Width+8
	pix := make([]byte, stride*s.Height)
	for i := range pix {
		pix[i] = 0x99 // of the gap, and of pixels that are not given
	}
	for i, f := range s.Flags {
		if f&driver.DiffusionFixed == 0 {
			continue
		}
		at := i/s.Width*stride + 4*(i%s.Width)
		for c := range 3 {
			b := uint8(255*s.Colours[c*n+i] + 0.5)
			pix[at+c], s.Colours[c*n+i] = b, float32(b)/255
		}
		pix[at+3] = 255
	}
	return &pb.Frame{
		Layout:  &pb.FrameLayout{Width: uint32(s.Width), Height: uint32(s.Height), Stride: uint32(stride), PixelFormat: pb.PixelFormat_PIXEL_FORMAT_RGBA8},
		FrameId: s.Name, Source: &pb.Frame_Data{Data: pix},
	}, s
}

// What comes back is the exact solution, rounded, whatever the method; raw or as a file.
func TestSolve(t *testing.T) {
	ts := start(t, Config{})
	c := clients.New(ts.conn)
	for i, s := range devicetest.Scenes(8, 40) {
		if s.Channels != 3 {
			continue
		}
		frame, s := givenFrame(s)
		req := &pb.SolveRequest{
			WorkClass: pb.WorkClass(i % 3), Options: &pb.DiffusionOptions{Method: pb.DiffusionMethod(i % 6), Tolerance: 0.1}, Frame: frame,
		}
		got, err := c.Solve(context.Background(), req)
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		pix, n := got.Picture.GetData(), len(s.Flags)
		if len(pix) != 3*n || got.Picture.FrameId != s.Name || got.Picture.Layout.PixelFormat != pb.PixelFormat_PIXEL_FORMAT_RGB8 || int(got.Picture.Layout.Width) != s.Width {
			t.Errorf("%s: %d bytes, %v", s.Name, len(pix), got.Picture.Layout)
			continue
		}
		given := uint64(0)
		for _, f := range s.Flags {
			given += uint64(f & driver.DiffusionFixed)
		}
		if !got.Converged || got.Cycles < 1 || got.Estimate > 0.1 || got.GivenPixels != given || got.Backend != "cpu" || got.Compute.AsDuration() <= 0 {
			t.Errorf("%s: converged %v in %d cycles to %v; %d pixels given, want %d", s.Name, got.Converged, got.Cycles, got.Estimate, got.GivenPixels, given)
		}
		levels := make([]float64, 3*n)
		for k := range levels {
			levels[k] = float64(pix[k%n*3+k/n])
		}
		exact := s.Exact()
		for k := range exact {
			exact[k] *= 255
		}
		if d := devicetest.CompareDiffusion(levels, exact, s.Width, 0.5+0.5); d != nil { // rounding, and the solver
			t.Errorf("%s: %v", s.Name, d)
		}
		req.Encoding = pb.Encoding_ENCODING_PNG
		file, err := c.Solve(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		im, err := png.Decode(bytes.NewReader(file.Picture.GetData()))
		if err != nil || im.Bounds() != image.Rect(0, 0, s.Width, s.Height) {
			t.Fatalf("%s: %v", s.Name, err)
		}
		for k := range n {
			if r, g, b, a := im.At(k%s.Width, k/s.Width).RGBA(); uint8(r>>8) != pix[3*k] || uint8(g>>8) != pix[3*k+1] || uint8(b>>8) != pix[3*k+2] || a != 0xffff {
				t.Fatalf("%s: pixel %d of the file differs", s.Name, k)
			}
		}
	}
}

// The service as the server itself calls it.
func TestSolveInProcess(t *testing.T) {
	ts := start(t, Config{})
	frame, _ := givenFrame(devicetest.Scenes(8, 20)[0])
	res, err := (&diffusionServer{Server: ts.Server}).Solve(context.Background(), &pb.SolveRequest{Frame: frame})
	if err != nil || len(res.Picture.GetData()) != 3*20*20 {
		t.Errorf("%d bytes, %v", len(res.GetPicture().GetData()), err)
	}
}

func TestSolveRefuses(t *testing.T) {
	ts := start(t, Config{})
	c := clients.New(ts.conn)
	for says, spoil := range map[string]func(*pb.SolveRequest){
		"frame":                     func(r *pb.SolveRequest) { r.Frame = nil },
		"frame.layout.pixel_format": func(r *pb.SolveRequest) { r.Frame.Layout.PixelFormat = pb.PixelFormat_PIXEL_FORMAT_RGB8 },
		"frame.layout.stride":       func(r *pb.SolveRequest) { r.Frame.Layout.Stride = 15 },
		"frame.layout":              func(r *pb.SolveRequest) { r.Frame.Layout.Width = 0 },
		"frame.data = 48":           func(r *pb.SolveRequest) { r.Frame.Layout.Height = 4 },
		"no pixel of alpha 255":     func(r *pb.SolveRequest) { clear(r.Frame.GetData()) },
		"frame.resident":            func(r *pb.SolveRequest) { r.Frame.Source = &pb.Frame_Resident{Resident: "x"} },
		"options.tolerance":         func(r *pb.SolveRequest) { r.Options.Tolerance = -1 },
		"options.max_cycles":        func(r *pb.SolveRequest) { r.Options.MaxCycles = 100001 },
		"options.method":            func(r *pb.SolveRequest) { r.Options.Method = 6 },
		"encoding":                  func(r *pb.SolveRequest) { r.Encoding = pb.Encoding_ENCODING_JPEG },
	} {
		req := &pb.SolveRequest{Options: &pb.DiffusionOptions{}, Frame: &pb.Frame{
			Layout: &pb.FrameLayout{Width: 4, Height: 3, PixelFormat: pb.PixelFormat_PIXEL_FORMAT_RGBA8},
			Source: &pb.Frame_Data{Data: bytes.Repeat([]byte{255}, 48)},
		}}
		spoil(req)
		_, err := pb.NewDiffusionServiceClient(ts.conn).Solve(context.Background(), req)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	// A solve that ends before it has converged is no error.
	frame, _ := givenFrame(devicetest.Scenes(8, 40)[0])
	res, err := c.Solve(context.Background(), &pb.SolveRequest{Frame: frame, Options: &pb.DiffusionOptions{MaxCycles: 1}})
	if err != nil || res.Converged || res.Cycles != 1 {
		t.Errorf("one cycle: %v, %v", res.GetConverged(), err)
	}
	if release, err := ts.host.take(context.Background(), ts.host.cap); err != nil {
		t.Errorf("host memory is not all back: %v", err)
	} else {
		release()
	}
}
