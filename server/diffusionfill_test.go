package server

import (
	"bytes"
	"context"
	"errors"
	"image/png"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polyscan/polyscan/proto/framecodec"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// ramp is a GRAY8 frame that rises by 4 a column, with a defect of 40 levels in the square of the regions.
func ramp() (f *pb.Frame, pix, clean []byte, square *pb.RegionSet) {
	const w, h = 30, 20
	clean = make([]byte, w*h)
	for i := range clean {
		clean[i] = byte(40 + 4*(i%w))
	}
	pix = slices.Clone(clean)
	for y := 5; y < 12; y++ {
		for x := 10; x < 18; x++ {
			pix[y*w+x] += 40
		}
	}
	square = &pb.RegionSet{Regions: []*pb.Region{{Rings: []*pb.Ring{{Xy: []float64{10, 5, 18, 5, 18, 12, 10, 12}}}}}}
	return &pb.Frame{
		FrameId: "ramp", Layout: &pb.FrameLayout{Width: w, Height: h, PixelFormat: pb.PixelFormat_PIXEL_FORMAT_GRAY8},
		Source: &pb.Frame_Data{Data: pix},
	}, pix, clean, square
}

// Holes in a linear picture are filled with what was there, whoever says where they are; the rest is not touched.
func TestFillHoles(t *testing.T) {
	ts := start(t, Config{})
	c := clients.New(ts.conn)
	frame, pix, clean, square := ramp()
	mask := make([]byte, len(pix))
	for i := range mask {
		mask[i] = pix[i] - clean[i]
	}
	recipe := ts.put(t, "square", square.Regions[0])
	for name, req := range map[string]*pb.FillHolesRequest{
		"regions": {Holes: &pb.FillHolesRequest_RegionSet{RegionSet: square}},
		"recipe":  {Holes: &pb.FillHolesRequest_Recipe{Recipe: &pb.RecipeRef{Name: recipe.Name}}},
		"mask":    {Holes: &pb.FillHolesRequest_Mask{Mask: mask}, WorkClass: pb.WorkClass_WORK_CLASS_BATCH},
	} {
		req.Frame = frame
		got, err := c.FillHoles(context.Background(), req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(got.Picture.GetData(), clean) || got.Picture.FrameId != "ramp" ||
			got.Picture.Layout.PixelFormat != pb.PixelFormat_PIXEL_FORMAT_GRAY8 {
			t.Errorf("%s: other pixels came back, or %v", name, got.Picture.Layout)
		}
		if r := got.Report; r.FilledPixels != 56 || !r.Converged || r.Backend != ts.dev.Info().Backend ||
			r.Estimate > 0.25 || r.Compute.AsDuration() <= 0 || got.Kept != nil {
			t.Errorf("%s: %v", name, r)
		}
		req.Output = &pb.PictureOutput{Encoding: pb.Encoding_ENCODING_PNG}
		if got, err = c.FillHoles(context.Background(), req); err != nil {
			t.Fatal(err)
		}
		im, err := png.Decode(bytes.NewReader(got.Picture.GetData()))
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range clean {
			if r, _, _, _ := im.At(i%30, i/30).RGBA(); byte(r>>8) != v {
				t.Fatalf("%s: pixel %d of the file is %d, want %d", name, i, r>>8, v)
			}
		}
		req.Output = &pb.PictureOutput{Omit: true}
		if got, err = c.FillHoles(context.Background(), req); err != nil || got.Picture != nil {
			t.Errorf("%s: omitted: %v, %v", name, got, err)
		}
	}
}

// Pixels that are not opaque are holes, too, in every format that has alpha.
func TestFillHolesTransparent(t *testing.T) {
	ts := start(t, Config{})
	f := &pb.Frame{
		Layout: &pb.FrameLayout{Width: 3, Height: 1, PixelFormat: pb.PixelFormat_PIXEL_FORMAT_RGBA8},
		Source: &pb.Frame_Data{Data: []byte{10, 20, 30, 255, 1, 2, 3, 254, 30, 0, 50, 255}},
	}
	got, err := clients.New(ts.conn).FillHoles(context.Background(), &pb.FillHolesRequest{Frame: f})
	if want := []byte{10, 20, 30, 255, 20, 10, 40, 255, 30, 0, 50, 255}; err != nil ||
		!bytes.Equal(got.Picture.GetData(), want) {
		t.Errorf("got %v, %v, want %v", got.GetPicture().GetData(), err, want)
	}
}

// The residual is what the frame has over its background. Kept on the device, both are frames that Reduce finds.
func TestBackground(t *testing.T) {
	ts := start(t, Config{})
	c := clients.New(ts.conn)
	frame, pix, clean, square := ramp()
	residual := make([]byte, len(pix))
	for i := range residual {
		residual[i] = 128 + pix[i] - clean[i]
	}
	req := &pb.BackgroundRequest{Frame: frame, Foreground: &pb.BackgroundRequest_RegionSet{RegionSet: square}}
	got, err := c.Background(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Background.GetData(), clean) || !bytes.Equal(got.Residual.GetData(), residual) {
		t.Error("other pixels came back")
	}

	// From a frame on the device to frames on the device.
	kept := ts.frameClient().put(t, frame)
	req.Frame = &pb.Frame{Source: &pb.Frame_Resident{Resident: kept.Name}}
	req.Background = &pb.PictureOutput{Keep: true}
	req.Residual = &pb.PictureOutput{Keep: true, IdleTimeout: durationpb.New(time.Minute)}
	if got, err = c.Background(context.Background(), req); err != nil {
		t.Fatal(err)
	}
	if got.Background != nil || got.Residual != nil || got.KeptBackground.GetName() == got.KeptResidual.GetName() {
		t.Errorf("kept: %v", got)
	}
	for name, want := range map[string]uint64{got.KeptBackground.GetName(): 0, got.KeptResidual.GetName(): 128 * 56} {
		if want == 0 {
			for i, v := range clean {
				if pix[i] != v {
					want += uint64(v)
				}
			}
		} else {
			want += 40 * 56
		}
		in := &pb.Inspection{
			Regions:    &pb.Inspection_RegionSet{RegionSet: square},
			Reductions: &pb.Reductions{Statistics: []pb.Statistic{pb.Statistic_STATISTIC_SUM}},
		}
		r, err := c.Reduce(context.Background(), in, &pb.Frame{Source: &pb.Frame_Resident{Resident: name}})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Regions[0].Channels[0].GetSum(); got != want {
			t.Errorf("the sum over a kept frame is %d, want %d", got, want)
		}
	}
	if n := len(ts.frameClient().list(t)); n != 3 {
		t.Errorf("%d frames are kept, want 3", n)
	}
}

// Pixels of regions don't pass through the host: from a frame on the device to a frame on the device hardly anything is
// copied. A mask that was sent is, once.
func TestFillHolesCopies(t *testing.T) {
	trace := devicetest.Trace(cpu.Driver, false)
	ts := start(t, Config{Driver: trace})
	c := clients.New(ts.conn)
	frame, pix, _, square := ramp()
	n := int64(len(pix))
	kept := clients.Resident(ts.frameClient().put(t, frame).GetName())
	keep := &pb.PictureOutput{Keep: true}
	mask := make([]byte, n)
	mask[n/2] = 1
	for _, x := range []struct {
		req *pb.BackgroundRequest
		up  int64
	}{
		{&pb.BackgroundRequest{Foreground: &pb.BackgroundRequest_RegionSet{RegionSet: square}}, 0},
		{&pb.BackgroundRequest{Foreground: &pb.BackgroundRequest_Mask{Mask: mask}}, n},
	} {
		x.req.Frame, x.req.Background, x.req.Residual = kept, keep, keep
		trace.Reset()
		if _, err := c.Background(t.Context(), x.req); err != nil {
			t.Fatal(err)
		}
		up, down := int64(0), int64(0)
		for _, r := range trace.Records("Upload") {
			up += r.Bytes
		}
		for _, r := range trace.Records("Download") {
			down += r.Bytes
		}
		if up != x.up || down > n/3 { // what the solver says is downloaded
			t.Errorf("%T: %d bytes up and %d down, want %d and hardly any", x.req.Foreground, up, down, x.up)
		}
	}
}

// Bad input is refused by its field, and leaves nothing on the device.
func TestFillHolesRefuses(t *testing.T) {
	ts := start(t, Config{})
	c := clients.New(ts.conn)
	_, pix, _, square := ramp()
	for _, x := range []struct {
		says  string
		spoil func(*pb.BackgroundRequest)
	}{
		{"frame", func(r *pb.BackgroundRequest) { r.Frame = nil }},
		{"frame.layout.width", func(r *pb.BackgroundRequest) { r.Frame.Layout.Width = 0 }},
		{"frame.data", func(r *pb.BackgroundRequest) { r.Frame.Layout.Height++ }},
		{"options.tolerance", func(r *pb.BackgroundRequest) { r.Options = &pb.DiffusionOptions{Tolerance: -1} }},
		{"options.method", func(r *pb.BackgroundRequest) { r.Options = &pb.DiffusionOptions{Method: 77} }},
		{"mask", func(r *pb.BackgroundRequest) { r.Foreground = &pb.BackgroundRequest_Mask{Mask: pix[1:]} }},
		{"mask", func(r *pb.BackgroundRequest) { r.Foreground = &pb.BackgroundRequest_Mask{} }},
		{"mask", func(r *pb.BackgroundRequest) {
			r.Foreground = &pb.BackgroundRequest_Mask{Mask: bytes.Repeat([]byte{1}, len(pix))}
		}},
		{"region_set", func(r *pb.BackgroundRequest) {
			square.Regions[0].Rings[0].Xy = []float64{-1, -1, 99, -1, 99, 99, -1, 99}
		}},
		{"region_set.regions[0].rings[0].xy", func(*pb.BackgroundRequest) {
			square.Regions[0].Rings[0].Xy = []float64{1, 2, 3}
		}},
		{"residual.idle_timeout", func(r *pb.BackgroundRequest) {
			r.Residual = &pb.PictureOutput{Keep: true, IdleTimeout: durationpb.New(-1)}
		}},
		{"background.encoding", func(r *pb.BackgroundRequest) {
			r.Background = &pb.PictureOutput{Encoding: pb.Encoding_ENCODING_BMP}
		}},
	} {
		var frame *pb.Frame
		frame, _, _, square = ramp()
		req := &pb.BackgroundRequest{Frame: frame, Background: &pb.PictureOutput{Keep: true},
			Foreground: &pb.BackgroundRequest_RegionSet{RegionSet: square}}
		x.spoil(req)
		if _, err := c.Background(context.Background(), req); status.Code(err) != codes.InvalidArgument ||
			!strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v", x.says, err)
		}
	}
	_, err := c.FillHoles(context.Background(),
		&pb.FillHolesRequest{Frame: fourPixels(),
			Holes: &pb.FillHolesRequest_Recipe{Recipe: &pb.RecipeRef{Name: "none"}}})
	if status.Code(err) != codes.NotFound {
		t.Errorf("an unknown recipe: %v", err)
	}
	if n := len(ts.frameClient().list(t)); n != 0 {
		t.Errorf("%d frames are kept", n)
	}
	ts.idleHost(t)
}

// A call that is cancelled while its mask is drawn ends there: nothing is solved, and nothing is left on the device or
// the host.
func TestFillHolesCancelledWhileDrawing(t *testing.T) {
	h := newHooked()
	trace := devicetest.Trace(h, false)
	ts := start(t, Config{Driver: trace})
	frame, _, _, square := ramp()
	keep := &pb.PictureOutput{Keep: true}
	for name, call := range map[string]func(context.Context) error{
		"FillHoles": func(ctx context.Context) error {
			req := &pb.FillHolesRequest{Frame: frame, Holes: &pb.FillHolesRequest_RegionSet{RegionSet: square},
				Output: keep}
			_, err := ts.diffusion.HandleFillHoles(ctx, req, framecodec.New(req))
			return err
		},
		"Background": func(ctx context.Context) error {
			req := &pb.BackgroundRequest{
				Frame: frame, Foreground: &pb.BackgroundRequest_RegionSet{RegionSet: square}, Background: keep,
				Residual: keep,
			}
			_, err := ts.diffusion.HandleBackground(ctx, req, framecodec.New(req))
			return err
		},
	} {
		for _, op := range []string{"MaskPrepare", "MaskRaster"} {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			h.on(op, func() error { cancel(); return nil })
			trace.Reset()
			if err := call(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, cancelled at %s: %v", name, op, err)
			}
			if len(trace.Records(op)) != 1 || len(trace.Records("DiffusionSetup", "DiffusionSolve")) != 0 {
				t.Errorf("%s, cancelled at %s: %v", name, op, trace.Records())
			}
			if ts.taken() != 0 {
				t.Errorf("%s, cancelled at %s: memory of the device in use: %v", name, op, ts.dev.Memory().ByLabel)
			}
			if n := len(ts.frameClient().list(t)); n != 0 {
				t.Errorf("%s, cancelled at %s: %d frames are kept", name, op, n)
			}
			ts.idleHost(t)
		}
		h.on("", nil)
		if err := call(t.Context()); err != nil {
			t.Errorf("%s after that: %v", name, err)
		}
		for _, f := range ts.frameClient().list(t) {
			ts.frameClient().release(t, f.GetName())
		}
	}
}

// What counts for the largest answer is what is sent, and not the memory that making a file of it takes.
func TestBackgroundLargest(t *testing.T) {
	ts := start(t, Config{MaxMessageBytes: 100 << 10, HostBytes: 4 << 20})
	c := clients.New(ts.conn)
	square := &pb.RegionSet{Regions: []*pb.Region{rect("r", 5, 5, 20, 20)}}
	for _, x := range []struct {
		encoding pb.Encoding
		residual bool
		code     codes.Code
	}{
		{pb.Encoding_ENCODING_RAW, false, codes.OK},
		{pb.Encoding_ENCODING_PNG, false, codes.OK},
		{pb.Encoding_ENCODING_RAW, true, codes.InvalidArgument}, // 168,000 bytes
	} {
		_, err := c.Background(t.Context(), &pb.BackgroundRequest{
			Frame: film(1, 200, 140, 1)[0], Foreground: &pb.BackgroundRequest_RegionSet{RegionSet: square},
			Background: &pb.PictureOutput{Encoding: x.encoding}, Residual: &pb.PictureOutput{Omit: !x.residual},
		})
		if status.Code(err) != x.code {
			t.Errorf("%v, with a residual %v: %v, want %v", x.encoding, x.residual, err, x.code)
		}
	}
}

// Calls that hold frames on the device don't wait for the memory of those: where there is too little beside them, they
// are refused.
func TestCallsNeverWaitForTheirFrames(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := film(1, 160, 100, 1)[0]
	mask := &pb.FillHolesRequest_Mask{Mask: make([]byte, 160*100)}
	mask.Mask[500] = 1
	regions := &pb.RegionSet{Regions: []*pb.Region{rect("r", 5, 5, 90, 60), rect("s", 100, 50, 150, 99)}}
	keep := &pb.PictureOutput{Keep: true}
	made, refused := 0, 0
	for size := int64(256 << 10); size <= 1536<<10; size += 32 << 10 {
		const all = 2 << 20
		ts := start(t, Config{MemoryBytes: all, FrameBytes: 256 << 10, SetupBytes: size / 2, PreparedBytes: size / 4})
		others, err := kernels.AllocPersistent[byte](ts.dev.Current(), int(all-size), "kept by a test")
		if err != nil {
			t.Fatal(err)
		}
		c := clients.New(ts.conn)
		kept, err := c.Frame.PutFrame(ctx, &pb.PutFrameRequest{Frame: f})
		if err != nil {
			t.Fatal(err)
		}
		resident := clients.Resident(kept.GetFrame().GetName())
		for name, call := range map[string]func() error{
			"FillHoles": func() error {
				_, err := c.FillHoles(ctx, &pb.FillHolesRequest{Frame: resident, Holes: mask, Output: keep})
				return err
			},
			"Background": func() error {
				_, err := c.Background(ctx, &pb.BackgroundRequest{
					Frame: resident, Foreground: &pb.BackgroundRequest_Mask{Mask: mask.Mask}, Background: keep,
					Residual: keep,
				})
				return err
			},
			"FillHoles of regions": func() error {
				_, err := c.FillHoles(ctx,
					&pb.FillHolesRequest{Frame: resident, Holes: &pb.FillHolesRequest_RegionSet{RegionSet: regions},
						Output: keep})
				return err
			},
			"Background of regions": func() error {
				_, err := c.Background(ctx, &pb.BackgroundRequest{
					Frame: resident, Foreground: &pb.BackgroundRequest_RegionSet{RegionSet: regions}, Background: keep,
					Residual: keep,
				})
				return err
			},
			"Convert": func() error {
				_, err := c.Convert(ctx, &pb.ConvertRequest{Frame: resident})
				return err
			},
		} {
			switch err := call(); status.Code(err) {
			case codes.OK:
				made++
			case codes.ResourceExhausted:
				refused++
			default:
				t.Errorf("%d bytes: %s: %v", size, name, err)
			}
		}
		ts.conn.Close()
		others.Free()
		ts.stop(t)
	}
	if made < 10 || refused < 10 {
		t.Errorf("%d calls were answered and %d refused", made, refused)
	}
}

// BenchmarkFillHoles is the handler alone, from a frame on the device to a frame on the device, of 5 MB, with small
// holes that regions or a mask say.
func BenchmarkFillHoles(b *testing.B) {
	s := start(b, Config{})
	f := benchRequest().Frame
	res, err := s.frameClient().PutFrame(b.Context(), &pb.PutFrameRequest{Frame: f})
	if err != nil {
		b.Fatal(err)
	}
	set, mask := &pb.RegionSet{}, make([]byte, benchWidth*benchHeight)
	for i := range 20 {
		x, y := 100+i*120, 50+i*97
		set.Regions = append(set.Regions, rect("", float64(x), float64(y), float64(x+9), float64(y+9)))
		for k := range 81 {
			mask[(y+k/9)*benchWidth+x+k%9] = 1
		}
	}
	for _, c := range []struct {
		name string
		req  *pb.FillHolesRequest
	}{
		{"regions", &pb.FillHolesRequest{Holes: &pb.FillHolesRequest_RegionSet{RegionSet: set}}},
		{"mask", &pb.FillHolesRequest{Holes: &pb.FillHolesRequest_Mask{Mask: mask}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.req.Frame, c.req.Output = keptFrame(res.GetFrame().GetName()), &pb.PictureOutput{Keep: true}
			b.ReportAllocs()
			for b.Loop() {
				res, err := s.diffusion.HandleFillHoles(b.Context(), c.req, framecodec.New(c.req))
				if err != nil {
					b.Fatal(err)
				}
				res.Release()
				out := res.Message.(*framecodec.Message).Message.(*pb.FillHolesResponse)
				if n := out.GetReport().GetFilledPixels(); n != 20*81 {
					b.Fatalf("%d pixels filled", n)
				}
				s.frameClient().release(b, out.GetKept().GetName())
			}
		})
	}
}
