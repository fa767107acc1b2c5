package server

import (
	"bytes"
	"context"
	"image/color"
	"image/png"
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/diffusion"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/budget"
)

const discSide = 60

// disc is the level of a channel of a picture of a disc on a ground that grows brighter.
func disc(x, y, channel int) int {
	if math.Hypot(float64(x)+0.5-31, float64(y)+0.5-28) < 15 {
		return 220 - 30*channel
	}
	return 40 + 20*channel + x
}

// discFrame is that picture in a format, rows stride bytes apart; other bytes are 255.
func discFrame(f pb.PixelFormat, bits uint32) *pb.Frame {
	raw := clients.Raw{Width: discSide, Height: discSide, Format: f, Bits: int(bits),
		Stride: discSide*clients.PixelBytes(f) + 6, ID: "disc"}
	data := bytes.Repeat([]byte{255}, raw.Stride*discSide)
	for y := range discSide {
		for x := range discSide {
			to := data[y*raw.Stride+x*clients.PixelBytes(f):]
			switch f {
			case clients.Gray8:
				to[0] = byte(disc(x, y, 0))
			case clients.Gray16LE:
				v := disc(x, y, 0) * (1<<bits - 1) / 255
				to[0], to[1] = byte(v), byte(v>>8)
			case clients.BGR8:
				to[0], to[1], to[2] = byte(disc(x, y, 2)), byte(disc(x, y, 1)), byte(disc(x, y, 0))
			default:
				to[0], to[1], to[2] = byte(disc(x, y, 0)), byte(disc(x, y, 1)), byte(disc(x, y, 2))
				if f == clients.RGBA8 {
					to[3] = byte(x) // which plays no part
				}
			}
		}
	}
	return raw.Frame(data)
}

// What is extracted of a picture has few curves, says what comes of it, and Solve makes just that.
func TestExtract(t *testing.T) {
	ts := start(t, Config{})
	c := clients.New(ts.conn)
	var colours *pb.ExtractResponse
	for name, x := range map[string]struct {
		format pb.PixelFormat
		bits   uint32
	}{
		"gray8": {clients.Gray8, 0}, "gray16 of 12 bits": {clients.Gray16LE, 12}, "gray16": {clients.Gray16LE, 16},
		"rgb8": {clients.RGB8, 0}, "bgr8": {clients.BGR8, 0}, "rgba8": {clients.RGBA8, 0},
	} {
		got, err := c.Extract(t.Context(), &pb.ExtractRequest{Frame: discFrame(x.format, x.bits),
			Options: &pb.ExtractOptions{Psnr: 28, Levels: 1}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		gray := x.format == clients.Gray8 || x.format == clients.Gray16LE
		var want, have []float32
		for i := range 3 * discSide * discSide {
			channel := i % 3
			if gray {
				channel = 0
			}
			v := disc(i/3%discSide, i/3/discSide, channel)
			want, have = append(want, float32(v)/255), append(have, float32(got.GetPicture().GetData()[i])/255)
		}
		psnr := diffusion.PSNR(have, want)
		if psnr < 28 || math.Abs(psnr-got.GetPsnr()) > 0.1 { // of 12 bits the picture is not quite this one
			t.Errorf("%s: %.2f dB, it says %.2f", name, psnr, got.GetPsnr())
		}
		d := got.GetDrawing()
		if n := len(d.GetCurves()); n < 1 || n > 3 || len(d.GetPixels()) > 180 || d.GetWidth() != discSide ||
			d.GetHeight() != discSide {
			t.Errorf("%s: %d curves, %d pixels, %d x %d", name, n, len(d.GetPixels()), d.GetWidth(), d.GetHeight())
		}
		if gray {
			for _, g := range d.GetPixels() {
				if g.GetRed() != g.GetGreen() || g.GetRed() != g.GetBlue() {
					t.Errorf("%s: a pixel is %v", name, g)
				}
			}
		}
		if got.GetBackend() != "cpu" || got.GetSolves() < 2 || got.GetPicture().GetFrameId() != "disc" ||
			got.GetCompute().AsDuration() <= 0 {
			t.Errorf("%s: %v solves by %q, frame %q, %v", name, got.GetSolves(), got.GetBackend(),
				got.GetPicture().GetFrameId(), got.GetCompute())
		}
		again, err := c.Solve(t.Context(), &pb.SolveRequest{Drawing: d})
		if err != nil || !bytes.Equal(again.GetPicture().GetData(), got.GetPicture().GetData()) {
			t.Errorf("%s: Solve: %v, or another picture", name, err)
		}
		if gray {
			continue
		}
		if colours != nil && !proto.Equal(d, colours.GetDrawing()) {
			t.Errorf("%s: another drawing than of the same colours in another format", name)
		}
		colours = got
	}

	req := &pb.ExtractRequest{Frame: discFrame(clients.RGB8, 0), Encoding: pb.Encoding_ENCODING_PNG,
		Options: &pb.ExtractOptions{MaxPixels: proto.Float64(0)}, WorkClass: pb.WorkClass_WORK_CLASS_BATCH}
	curves, err := c.Extract(t.Context(), req)
	if err != nil || len(curves.GetDrawing().GetPixels()) != 0 {
		t.Fatalf("%v; %d pixels", err, len(curves.GetDrawing().GetPixels()))
	}
	im, err := png.Decode(bytes.NewReader(curves.GetPicture().GetData()))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := c.Solve(t.Context(), &pb.SolveRequest{Drawing: curves.GetDrawing()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range discSide * discSide {
		p := plain.GetPicture().GetData()[3*i:]
		if got := color.RGBAModel.Convert(im.At(i%discSide, i/discSide)); got != (color.RGBA{p[0], p[1], p[2], 255}) {
			t.Fatalf("pixel %d of the PNG is %v, want %v", i, got, p[:3])
		}
	}
	ts.idleHost(t)
}

func TestExtractRefusals(t *testing.T) {
	ts := start(t, Config{MaxMessageBytes: 1 << 20, MaxPoints: 40})
	c := clients.New(ts.conn)
	type options = pb.ExtractOptions
	of := func(o *options) *pb.ExtractRequest {
		return &pb.ExtractRequest{Options: o, Frame: discFrame(clients.Gray8, 0)}
	}
	wide := clients.Raw{Width: 1000, Height: 400, Format: clients.Gray8}.Frame(make([]byte, 400_000))
	short := discFrame(clients.RGB8, 0)
	short.Source = &pb.Frame_Data{Data: make([]byte, 100)}
	for says, req := range map[string]*pb.ExtractRequest{
		"frame: is required":                                                         {},
		"frame.resident = x: must be no resident frame":                              {Frame: clients.Resident("x")},
		"frame.data = 100 bytes: must hold":                                          {Frame: short},
		"frame = 1000 x 400: makes a picture of 1200000 bytes: the limit is 1048576": {Frame: wide},
		"options.threshold = -1: must be 0.1 to 1000":                                of(&options{Threshold: -1}),
		"options.length = 1: must be 2 to 1048576":                                   of(&options{Length: 1}),
		"options.flatness = NaN: must be 0.0625 to 16":                               of(&options{Flatness: math.NaN()}),
		"options.distance = 17: must be 0.25 to 16":                                  of(&options{Distance: 17}),
		"options.levels = 65: must be 0.01 to 64":                                    of(&options{Levels: 65}),
		"options.psnr = 101: must be more than 0, and at most 100":                   of(&options{Psnr: 101}),
		"options.psnr = NaN: must be more than 0, and at most 100":                   of(&options{Psnr: math.NaN()}),
		"options.max_pixels = 1.5: must be 0 to 1":                                   of(&options{MaxPixels: proto.Float64(1.5)}),
		"points, stops and pixels of its drawing: are more than the ser":             of(nil),
	} {
		_, err := c.Extract(t.Context(), req)
		if e := clients.AsError(err); e == nil || e.Code != codes.InvalidArgument || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	ts.idleHost(t)
}

// A call that is cancelled ends and leaves nothing behind, whether edges are found just then or a picture is solved.
func TestExtractCancelled(t *testing.T) {
	ts := start(t, Config{})
	side := 1200
	data := make([]byte, side*side)
	for i := range data { // many edges
		data[i] = byte(i * i >> 7)
	}
	req := &pb.ExtractRequest{Frame: clients.Raw{Width: side, Height: side, Format: clients.Gray8}.Frame(data),
		Options: &pb.ExtractOptions{Threshold: 0.1, Length: 2, Psnr: 100, MaxPixels: proto.Float64(1)}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := pb.NewDiffusionServiceClient(ts.conn).Extract(ctx, req)
		done <- err
	}()
	waitFor(t, "memory of the call", func() bool { return ts.host.Used(budget.Results) > 1<<20 })
	cancel()
	if err := <-done; status.Code(err) != codes.Canceled {
		t.Errorf("%v", err)
	}
	ts.idleHost(t)
}
