package server

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/driver"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/budget"
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
		Layout: &pb.FrameLayout{Width: uint32(s.Width), Height: uint32(s.Height), Stride: uint32(stride),
			PixelFormat: pb.PixelFormat_PIXEL_FORMAT_RGBA8},
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
			WorkClass: pb.WorkClass(i % 3),
			Options:   &pb.DiffusionOptions{Method: pb.DiffusionMethod(i % 6), Tolerance: 0.1}, Frame: frame,
		}
		got, err := c.Solve(context.Background(), req)
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		pix, n := got.Picture.GetData(), len(s.Flags)
		if len(pix) != 3*n || got.Picture.FrameId != s.Name ||
			got.Picture.Layout.PixelFormat != pb.PixelFormat_PIXEL_FORMAT_RGB8 ||
			int(got.Picture.Layout.Width) != s.Width {
			t.Errorf("%s: %d bytes, %v", s.Name, len(pix), got.Picture.Layout)
			continue
		}
		given := uint64(0)
		for _, f := range s.Flags {
			given += uint64(f & driver.DiffusionFixed)
		}
		if !got.Converged || got.Cycles < 1 || got.Estimate > 0.1 || got.GivenPixels != given ||
			got.Backend != ts.dev.Info().Backend || got.Compute.AsDuration() <= 0 {
			t.Errorf("%s: converged %v in %d cycles to %v; %d pixels given, want %d", s.Name, got.Converged, got.Cycles,
				got.Estimate, got.GivenPixels, given)
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
			if r, g, b, a := im.At(k%s.Width, k/s.Width).RGBA(); uint8(r>>8) != pix[3*k] || uint8(g>>8) != pix[3*k+1] ||
				uint8(b>>8) != pix[3*k+2] || a != 0xffff {
				t.Fatalf("%s: pixel %d of the file differs", s.Name, k)
			}
		}
	}
}

// drawing is a curve from top to bottom of a canvas, with a colour on the left side, which is that of larger x.
func drawing(x float64, left ...*pb.ColorStop) *pb.Drawing {
	return &pb.Drawing{Width: 12, Height: 9,
		Curves: []*pb.Curve{{Id: "a", Xy: []float64{x, -1, x, 3, x, 6, x, 10}, Left: left}}}
}

// Curves, pixels and blocked edges make one picture.
func TestSolveDrawing(t *testing.T) {
	ts := start(t, Config{})
	c := clients.New(ts.conn)
	req := &pb.SolveRequest{Drawing: drawing(6, &pb.ColorStop{Red: 200, Green: 10, Blue: 300})}
	check := func(name string, given uint64, want func(x, y int) [3]int) {
		t.Helper()
		got, err := c.Solve(context.Background(), req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if pix := got.Picture.GetData(); len(pix) != 12*9*3 || !got.Converged || got.GivenPixels != given ||
			got.Picture.Layout.Width != 12 {
			t.Fatalf("%s: %d bytes; %d pixels given", name, len(pix), got.GivenPixels)
		}
		for i := range 12 * 9 {
			w := want(i%12, i/12)
			for k, v := range got.Picture.GetData()[3*i:][:3] {
				if int(v) > w[k]+1 || int(v) < w[k]-1 {
					t.Fatalf("%s: pixel (%d, %d) is %v, want %v", name, i%12, i/12, got.Picture.GetData()[3*i:][:3], w)
				}
			}
		}
	}
	check("one curve", 9, func(int, int) [3]int { return [3]int{200, 10, 255} })
	pix := make([]byte, 12*9*4)
	copy(pix, []byte{50, 50, 50, 255})
	req.Frame = &pb.Frame{
		Layout: &pb.FrameLayout{Width: 12, Height: 9, PixelFormat: pb.PixelFormat_PIXEL_FORMAT_RGBA8},
		Source: &pb.Frame_Data{Data: pix},
	}
	req.Edges = make([]byte, 12*9)
	for y := range 9 {
		req.Edges[y*12+5] = 2
	}
	check("a pixel behind a wall", 10, func(x, _ int) [3]int {
		if x < 6 {
			return [3]int{50, 50, 50}
		}
		return [3]int{200, 10, 255}
	})
	req.Frame, req.Drawing.Pixels = nil,
		[]*pb.GivenPixel{{X: 3, Y: 8, Red: 1}, {X: 3, Y: 8, Red: 50, Green: 50, Blue: 50}}
	check("a pixel of the drawing behind a wall", 10, func(x, _ int) [3]int {
		if x < 6 {
			return [3]int{50, 50, 50}
		}
		return [3]int{200, 10, 255}
	})
	req.Edges, req.Drawing.Pixels = nil, nil
	req.Drawing.Curves[0].Right = []*pb.ColorStop{{At: 0.5}}
	req.Drawing.Curves[0].Blur = []*pb.BlurStop{{Sigma: 50}}
	got, err := c.Solve(context.Background(), req)
	if err != nil || got.Picture.GetData()[0] < 60 || got.Picture.GetData()[3*11] > 140 {
		t.Errorf("blurred far: %v, %v", got.GetPicture().GetData()[:3*12], err)
	}
}

func TestSolveRefusesDrawings(t *testing.T) {
	ts := start(t, Config{MaxPoints: 100})
	c := clients.New(ts.conn)
	for says, spoil := range map[string]func(*pb.SolveRequest){
		"drawing.width = 0: must be 1 to":                  func(r *pb.SolveRequest) { r.Drawing.Width = 0 },
		"drawing.width = 4294967295: must be 1 to 1048576": func(r *pb.SolveRequest) { r.Drawing.Width = 1<<32 - 1 },
		"drawing.height = 1048576: makes 1099511627776 pixels": func(r *pb.SolveRequest) {
			r.Drawing.Width, r.Drawing.Height = 1<<20, 1<<20
		},
		"drawing = 16384 x 16384: makes a picture": func(r *pb.SolveRequest) {
			r.Drawing.Width, r.Drawing.Height = 1<<14, 1<<14
		},
		"drawing = 12 x 9: must be 2 x 2": func(r *pb.SolveRequest) { r.Frame = fourPixels() },
		"edges = 3: must be 108 bytes":    func(r *pb.SolveRequest) { r.Edges = make([]byte, 3) },
		"edges[5] = 0x80: is no sum": func(r *pb.SolveRequest) {
			r.Edges = make([]byte, 108)
			r.Edges[5] = 0x80
		},
		"edges[7] = 0xff: is no sum": func(r *pb.SolveRequest) {
			r.Edges = make([]byte, 108)
			r.Edges[7] = 3
		},
		"options.method = MULTIGRID: needs": func(r *pb.SolveRequest) {
			r.Edges = make([]byte, 108)
			r.Edges[5] = 8
		},
		"drawing.pixels[1] = [12 0]: is outside": func(r *pb.SolveRequest) {
			r.Drawing.Pixels = []*pb.GivenPixel{{}, {X: 12}}
		},
		"drawing.pixels[0] = [1 9]: is outside": func(r *pb.SolveRequest) {
			r.Drawing.Pixels = []*pb.GivenPixel{{X: 1, Y: 9}}
		},
		"drawing = 106 points, stops and pixels: are more than the server's limit of 100": func(r *pb.SolveRequest) {
			r.Drawing.Pixels = make([]*pb.GivenPixel, 100)
		},
		"drawing.curves[0].right[1].red = 2e+12: must be -1099511627776 to 1099511627776": func(r *pb.SolveRequest) {
			r.Drawing.Curves[0].Right = []*pb.ColorStop{{}, {At: 1, Red: 2e12}}
		},
		"drawing.pixels[0].green = -2e+12: must be -1099511627776 to 1099511627776": func(r *pb.SolveRequest) {
			r.Drawing.Pixels = []*pb.GivenPixel{{X: 1, Green: -2e12}}
		},
		"drawing.pixels[0].blue = +Inf": func(r *pb.SolveRequest) {
			r.Drawing.Pixels = []*pb.GivenPixel{{X: 1, Blue: float32(math.Inf(1))}}
		},
		"drawing.curves = 0 of them":     func(r *pb.SolveRequest) { r.Drawing.Curves = nil },
		"drawing.curves[0] = no stops":   func(r *pb.SolveRequest) { r.Drawing.Curves[0].Left = nil },
		"drawing.curves[0].xy[3] = NaN":  func(r *pb.SolveRequest) { r.Drawing.Curves[0].Xy[3] = math.NaN() },
		"drawing.curves[0].xy[6] = +Inf": func(r *pb.SolveRequest) { r.Drawing.Curves[0].Xy[6] = math.Inf(1) },
		"drawing.curves[0].xy[7] = NaN": func(r *pb.SolveRequest) {
			r.Drawing.Curves[0].Xy = r.Drawing.Curves[0].Xy[:7]
		},
		"drawing.curves[0].xy = 3 points": func(r *pb.SolveRequest) {
			r.Drawing.Curves[0].Xy = r.Drawing.Curves[0].Xy[:6]
		},
		"drawing.curves[0].xy = between": func(r *pb.SolveRequest) { r.Drawing.Width = 5 },
		"drawing.curves[0].left[0].green = NaN": func(r *pb.SolveRequest) {
			r.Drawing.Curves[0].Left[0].Green = float32(math.NaN())
		},
		"drawing.curves[0].left[0].at = 2": func(r *pb.SolveRequest) { r.Drawing.Curves[0].Left[0].At = 2 },
		"drawing.curves[0].blur[0].sigma = -1": func(r *pb.SolveRequest) {
			r.Drawing.Curves[0].Blur = []*pb.BlurStop{{Sigma: -1}}
		},
		"options.method": func(r *pb.SolveRequest) {
			r.Options, r.Drawing.Curves[0].Barrier = &pb.DiffusionOptions{Method: 5}, true
		},
	} {
		req := &pb.SolveRequest{Drawing: drawing(6, &pb.ColorStop{Red: 200, Green: 10})}
		spoil(req)
		_, err := c.Solve(context.Background(), req)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// fourPixels are all given.
func fourPixels() *pb.Frame {
	return &pb.Frame{
		Layout: &pb.FrameLayout{Width: 2, Height: 2, PixelFormat: pb.PixelFormat_PIXEL_FORMAT_RGBA8},
		Source: &pb.Frame_Data{Data: bytes.Repeat([]byte{255}, 16)},
	}
}

func TestSolveRefuses(t *testing.T) {
	ts := start(t, Config{})
	c := clients.New(ts.conn)
	for says, spoil := range map[string]func(*pb.SolveRequest){
		"frame": func(r *pb.SolveRequest) { r.Frame = nil },
		"frame.layout.pixel_format": func(r *pb.SolveRequest) {
			r.Frame.Layout.PixelFormat = pb.PixelFormat_PIXEL_FORMAT_RGB8
		},
		"frame.layout.stride":   func(r *pb.SolveRequest) { r.Frame.Layout.Stride = 15 },
		"frame.layout":          func(r *pb.SolveRequest) { r.Frame.Layout.Width = 0 },
		"frame.data = 48":       func(r *pb.SolveRequest) { r.Frame.Layout.Height = 4 },
		"no pixel of alpha 255": func(r *pb.SolveRequest) { clear(r.Frame.GetData()) },
		"frame.resident":        func(r *pb.SolveRequest) { r.Frame.Source = &pb.Frame_Resident{Resident: "x"} },
		"options.tolerance":     func(r *pb.SolveRequest) { r.Options.Tolerance = -1 },
		"options.max_cycles":    func(r *pb.SolveRequest) { r.Options.MaxCycles = 100001 },
		"options.method":        func(r *pb.SolveRequest) { r.Options.Method = 6 },
		"encoding":              func(r *pb.SolveRequest) { r.Encoding = pb.Encoding_ENCODING_JPEG },
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
	res, err := c.Solve(context.Background(),
		&pb.SolveRequest{Frame: frame, Options: &pb.DiffusionOptions{MaxCycles: 1}})
	if err != nil || res.Converged || res.Cycles != 1 {
		t.Errorf("one cycle: %v, %v", res.GetConverged(), err)
	}
	ts.idleHost(t)
}

// An edge that is open one way: the pixel behind it takes nothing, and what is beyond takes from it.
func TestSolveOneWay(t *testing.T) {
	ts := start(t, Config{})
	f := &pb.Frame{
		Layout: &pb.FrameLayout{Width: 4, Height: 1, PixelFormat: pb.PixelFormat_PIXEL_FORMAT_RGBA8},
		Source: &pb.Frame_Data{Data: []byte{90, 0, 0, 255, 0, 0, 0, 0, 0, 0, 0, 0, 30, 0, 0, 255}},
	}
	req := &pb.SolveRequest{Frame: f, Edges: []byte{0, 8, 0, 0},
		Options: &pb.DiffusionOptions{Method: pb.DiffusionMethod_DIFFUSION_METHOD_NAIVE, Tolerance: 0.01}}
	got, err := clients.New(ts.conn).Solve(context.Background(), req)
	if want := []byte{90, 0, 0, 90, 0, 0, 60, 0, 0, 30, 0, 0}; err != nil || !bytes.Equal(got.Picture.GetData(), want) {
		t.Errorf("got %v, %v, want %v", got.GetPicture().GetData(), err, want)
	}
}

// Warren's own stop: the answer says that nothing is known of the error, and how it stopped.
func TestSolveThreshold(t *testing.T) {
	ts := start(t, Config{})
	c := clients.New(ts.conn)
	req := func(m pb.DiffusionMethod, threshold float32) *pb.SolveRequest {
		return &pb.SolveRequest{Drawing: drawing(6, &pb.ColorStop{Red: 250}, &pb.ColorStop{At: 1, Green: 250}),
			Options: &pb.DiffusionOptions{Method: m, Threshold: &threshold}}
	}
	for _, threshold := range []float32{0, 0.01} {
		greedy := req(pb.DiffusionMethod_DIFFUSION_METHOD_PYRAMID_GREEDY, threshold)
		got, err := c.Solve(t.Context(), greedy)
		if err != nil || !got.Converged || got.Stopped != pb.DiffusionStop_DIFFUSION_STOP_THRESHOLD ||
			!got.ErrorUnknown || got.Estimate != 0 || threshold > 0 && got.GlobalDifference > 16 {
			t.Errorf("%v: %v, %v", threshold, got, err)
		}
		greedy.Options.MeasureError = true
		if got, err = c.Solve(t.Context(), greedy); err != nil || got.ErrorUnknown || got.Estimate <= 0 {
			t.Errorf("%v, measured: %v, %v", threshold, got, err)
		}
	}
	if got, err := c.Solve(t.Context(), &pb.SolveRequest{Drawing: drawing(6, &pb.ColorStop{})}); err != nil ||
		got.Stopped != pb.DiffusionStop_DIFFUSION_STOP_TOLERANCE || got.ErrorUnknown {
		t.Errorf("without: %v, %v", got, err)
	}
	for _, threshold := range []float32{0, 3} {
		_, err := c.Solve(t.Context(), req(pb.DiffusionMethod_DIFFUSION_METHOD_MULTIGRID, threshold))
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "options.threshold = ") {
			t.Errorf("multigrid to %v: %v", threshold, err)
		}
	}
}

// What is on a drawing counts as host memory, where it is much: the call waits for it.
func TestSolveHostMemory(t *testing.T) {
	ts := start(t, Config{HostBytes: 4 << 20, MaxMessageBytes: 4 << 20})
	c := clients.New(ts.conn)
	req := &pb.SolveRequest{Drawing: drawing(6, &pb.ColorStop{})}
	for range 20_000 {
		req.Drawing.Curves[0].Right = append(req.Drawing.Curves[0].Right, &pb.ColorStop{Red: 200})
	}
	share, err := ts.host.Take(t.Context(), budget.Results, 3<<20)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := c.Solve(ctx, req); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("with the memory taken: %v", err)
	}
	share.Release()
	if _, err := c.Solve(t.Context(), req); err != nil {
		t.Error(err)
	}
	ts.idleHost(t)
}

// A solve that takes longer than its class may have the device ends, and says what the limit is.
func TestSolveRunsTooLong(t *testing.T) {
	ts := start(t, Config{LongestRun: 30 * time.Millisecond, LongestBatchRun: time.Millisecond})
	client := pb.NewDiffusionServiceClient(ts.conn)
	for class, limit := range map[pb.WorkClass]string{pb.WorkClass_WORK_CLASS_INTERACTIVE: "30ms",
		pb.WorkClass_WORK_CLASS_BATCH: "1ms"} {
		_, err := client.Solve(t.Context(), &pb.SolveRequest{WorkClass: class,
			Options: &pb.DiffusionOptions{Tolerance: 1e-9, MaxCycles: 100_000,
				Method: pb.DiffusionMethod_DIFFUSION_METHOD_NAIVE},
			Drawing: &pb.Drawing{Width: 512, Height: 512, Pixels: []*pb.GivenPixel{{X: 1, Y: 1, Red: 255}, {X: 500, Y: 500}}},
		})
		if s := status.Convert(err); s.Code() != codes.DeadlineExceeded || !strings.Contains(s.Message(), limit) {
			t.Errorf("%v: %v", class, err)
		}
	}
}
