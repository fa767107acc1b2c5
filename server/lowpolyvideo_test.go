package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image/png"
	"iter"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/lowpoly"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/budget"
)

// film is frames of stripes with noise.
func film(n, w, h int, seed uint64) (frames []*pb.Frame) {
	r := rand.New(rand.NewPCG(seed, 8))
	for i := range n {
		pix := make([]byte, 3*w*h)
		for k := range pix {
			pix[k] = byte(k/3%w/9*37 + r.IntN(4))
		}
		f := rawFrame(w, h, rgb8, pix)
		f.FrameId = fmt.Sprint(i)
		frames = append(frames, f)
	}
	return frames
}

func each(frames ...*pb.Frame) iter.Seq2[*pb.Frame, error] {
	return func(yield func(*pb.Frame, error) bool) {
		for _, f := range frames {
			if !yield(f, nil) {
				return
			}
		}
	}
}

// answers is what a video comes back as.
func answers(t *testing.T, c *clients.Client, open *pb.ConvertFramesOpen,
	frames ...*pb.Frame) (out []*clients.Converted) {
	t.Helper()
	for a, err := range c.ConvertFrames(t.Context(), open, each(frames...), clients.StreamOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if a.Frame != frames[len(out)] || int(a.Sequence) != len(out) {
			t.Errorf("answer %d is of another frame", a.Sequence)
		}
		out = append(out, a)
	}
	if len(out) != len(frames) {
		t.Fatalf("%d answers to %d frames", len(out), len(frames))
	}
	return out
}

// free waits until no call holds anything.
func (ts *testServer) free(t *testing.T) {
	t.Helper()
	waitFor(t, "the streams to end", func() bool {
		return metric(t, ts, "polyscan_requests_in_flight") == 0 &&
			metric(t, ts, "polyscan_stream_frames_in_work") == 0 && ts.dev.Memory().Used == 0
	})
	ts.background.Wait()
	share, err := ts.host.Take(t.Context(), budget.Results, ts.host.Cap)
	if err != nil {
		t.Fatal(err)
	}
	share.Release()
}

// meshMessage is a mesh as answers have it.
func meshMessage(t *testing.T, m *lowpoly.Mesh) *pb.Mesh {
	t.Helper()
	list := func(v any) []byte {
		b, err := binary.Append(nil, binary.LittleEndian, v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return &pb.Mesh{Points: list(m.Points), Triangles: list(m.Triangles), Colors: list(m.Colors)}
}

// What comes back is what package lowpoly makes of the same video, whatever frames are in between that can't be used:
// raw, from files, resident, of other sizes and formats.
func TestConvertFrames(t *testing.T) {
	ts := start(t, Config{})
	c := clients.New(ts.conn)
	frames := film(5, 70, 50, 1)
	file := fileFrame(pngOf(t, frames[2]))
	file.FrameId = "2"
	kept, err := c.Frame.PutFrame(t.Context(), &pb.PutFrameRequest{Frame: frames[3]})
	if err != nil {
		t.Fatal(err)
	}
	short := rawFrame(70, 50, rgb8, make([]byte, 7))
	broken := fileFrame([]byte("no file"))
	sent := []*pb.Frame{frames[0], frames[1], short, file, broken, clients.Resident(kept.GetFrame().GetName()),
		film(1, 40, 60, 2)[0], frames[4]}
	used := []*pb.Frame{frames[0], frames[1], nil, frames[2], nil, frames[3], film(1, 40, 60, 2)[0], frames[4]}
	open := &pb.ConvertFramesOpen{
		Options: &pb.ConvertOptions{Vertices: 150, Border: 20, Cell: 20, Spacing: 1, Seed: 3, Strength: proto.Uint32(5),
			Hold: proto.Uint32(4)}, Mesh: true, Svg: true,
	}
	opt := lowpoly.Options{Vertices: 150, Border: 20, Cell: 20, Spacing: 1, Seed: 3, Strength: 5, Hold: 4}
	v := lowpoly.NewVideo(ts.dev.Current(), opt)
	defer v.Close()
	for i, a := range answers(t, c, open, sent...) {
		if used[i] == nil {
			if a.Err == nil || a.Err.Code != codes.InvalidArgument || a.Result != nil {
				t.Errorf("frame %d: %v", i, a.Err)
			}
			continue
		}
		if a.Err != nil {
			t.Errorf("frame %d: %v", i, a.Err)
			continue
		}
		l := used[i].Layout
		var want lowpoly.Result
		im := kernels.Picture{Width: int(l.Width), Height: int(l.Height), Format: driver.RGB8,
			Data: [][]byte{used[i].GetData()}}
		if err := v.Convert(t.Context(), im, &want); err != nil {
			t.Fatal(err)
		}
		res := a.Result
		if !bytes.Equal(res.Picture.GetData(), want.Data[0]) || res.Picture.FrameId != used[i].FrameId ||
			res.Picture.Layout.Width != l.Width {
			t.Errorf("frame %d: the picture differs", i)
		}
		if m := meshMessage(t, &want.Mesh); !proto.Equal(res.Mesh, m) || res.Vertices != uint64(len(want.Mesh.Points)) ||
			res.Backend != ts.dev.Info().Backend {
			t.Errorf("frame %d: the mesh differs", i)
		}
		if n := bytes.Count(res.Svg, []byte("<path ")); n != len(want.Mesh.Triangles) {
			t.Errorf("frame %d: the drawing has %d triangles of %d", i, n, len(want.Mesh.Triangles))
		}
	}
	if _, err := c.Frame.ReleaseFrame(t.Context(),
		&pb.ReleaseFrameRequest{Name: kept.GetFrame().GetName()}); err != nil {
		t.Fatal(err)
	}
	v.Close()
	ts.free(t)
}

// pngOf is an RGB frame as a file.
func pngOf(t testing.TB, f *pb.Frame) []byte {
	t.Helper()
	p := kernels.Picture{Width: int(f.Layout.Width), Height: int(f.Layout.Height), Format: kernels.RGB8,
		Data: [][]byte{f.GetData()}}
	var b bytes.Buffer
	if err := png.Encode(&b, p.Image()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// By default there is hysteresis; where it is turned off, frames are what they are alone.
func TestConvertFramesDefaults(t *testing.T) {
	ts := start(t, Config{})
	c := clients.New(ts.conn)
	frames := film(3, 90, 60, 3)
	byDefault := answers(t, c, nil, frames...)
	same := answers(t, c, &pb.ConvertFramesOpen{Options: &pb.ConvertOptions{
		Strength: proto.Uint32(lowpoly.DefaultStrength), Hold: proto.Uint32(lowpoly.DefaultHold),
	}}, frames...)
	off := answers(t, c,
		&pb.ConvertFramesOpen{Options: &pb.ConvertOptions{Strength: proto.Uint32(0), Hold: proto.Uint32(0)}}, frames...)
	for i, f := range frames {
		alone, err := c.Convert(t.Context(), &pb.ConvertRequest{Frame: f})
		if err != nil {
			t.Fatal(err)
		}
		a, b, o := byDefault[i].Result.Picture.GetData(), same[i].Result.Picture.GetData(),
			off[i].Result.Picture.GetData()
		if !bytes.Equal(a, b) {
			t.Errorf("frame %d: the defaults are not the documented ones", i)
		}
		if !bytes.Equal(o, alone.Picture.GetData()) {
			t.Errorf("frame %d: without hysteresis it isn't what it is alone", i)
		}
		if i > 0 && bytes.Equal(a, o) {
			t.Errorf("frame %d: hysteresis changes nothing", i)
		}
	}
}

// Images of every shape and format have an answer: also as files, which decode, and one behind the other.
func TestConvertFramesDegenerate(t *testing.T) {
	ts := start(t, Config{})
	c := clients.New(ts.conn)
	var frames []*pb.Frame
	pictures := devicetest.Pictures(6, 10)
	for _, s := range [][2]int{{1, 1}, {1, 300}, {300, 1}, {1, 1}, {2, 2}, {3, 400}, {64, 64}} {
		pictures = append(pictures, devicetest.Picture{
			Name: fmt.Sprint(s), Width: s[0], Height: s[1], Stride: 4 * s[0], Format: driver.RGBA8,
			Pixels: bytes.Repeat([]byte{9, 90, 200, 128}, s[0]*s[1]),
		})
	}
	for _, p := range pictures {
		if f := pictureFrame(&p); f != nil {
			frames = append(frames, f, f)
		}
	}
	for _, enc := range []pb.Encoding{pb.Encoding_ENCODING_RAW, pb.Encoding_ENCODING_PNG} {
		out := answers(t, c, &pb.ConvertFramesOpen{Options: &pb.ConvertOptions{Vertices: 700}, Encoding: enc,
			Mesh: true}, frames...)
		for i, a := range out {
			if a.Err != nil {
				t.Errorf("%s: %v", frames[i].FrameId, a.Err)
				continue
			}
			data := a.Result.Picture.GetData()
			if enc == pb.Encoding_ENCODING_PNG {
				im, err := png.Decode(bytes.NewReader(data))
				if err != nil || im.Bounds().Dx() != int(frames[i].Layout.Width) ||
					im.Bounds().Dy() != int(frames[i].Layout.Height) {
					t.Errorf("%s: %v", frames[i].FrameId, err)
				}
			}
			if i%2 == 1 && !bytes.Equal(data, out[i-1].Result.Picture.GetData()) {
				t.Errorf("%s: the same frame once more is another picture", frames[i].FrameId)
			}
		}
	}
	ts.free(t)
}

func TestConvertFramesProtocol(t *testing.T) {
	ts := start(t, Config{MaxPoints: 5000})
	rpc := pb.NewLowPolyServiceClient(ts.conn)
	open := func(o *pb.ConvertFramesOpen) *pb.ConvertFramesRequest {
		return &pb.ConvertFramesRequest{Message: &pb.ConvertFramesRequest_Open{Open: o}}
	}
	frame := &pb.ConvertFramesRequest{Message: &pb.ConvertFramesRequest_Frame{Frame: smallFrame(1)}}
	for _, x := range []struct {
		name string
		sent []*pb.ConvertFramesRequest
		code codes.Code
		says string
	}{
		{"no frames", []*pb.ConvertFramesRequest{open(&pb.ConvertFramesOpen{})}, codes.OK, ""},
		{"nothing", nil, codes.FailedPrecondition, "before its open message"},
		{"frame first", []*pb.ConvertFramesRequest{frame}, codes.FailedPrecondition, "before open"},
		{"empty", []*pb.ConvertFramesRequest{{}}, codes.InvalidArgument, "message"},
		{"second open", []*pb.ConvertFramesRequest{open(&pb.ConvertFramesOpen{}), frame, open(&pb.ConvertFramesOpen{})},
			codes.FailedPrecondition, "second time"},
		{"too many vertices",
			[]*pb.ConvertFramesRequest{open(&pb.ConvertFramesOpen{Options: &pb.ConvertOptions{Vertices: 5001}})},
			codes.InvalidArgument, "open.options.vertices = 5001"},
		{"half a point",
			[]*pb.ConvertFramesRequest{open(&pb.ConvertFramesOpen{Options: &pb.ConvertOptions{Previous: []byte{1}}})},
			codes.InvalidArgument, "open.options.previous = 1"},
		{"strength",
			[]*pb.ConvertFramesRequest{open(&pb.ConvertFramesOpen{Options: &pb.ConvertOptions{Strength: proto.Uint32(64)}})},
			codes.InvalidArgument, "open.options.strength"},
		{"hold",
			[]*pb.ConvertFramesRequest{open(&pb.ConvertFramesOpen{Options: &pb.ConvertOptions{Hold: proto.Uint32(256)}})},
			codes.InvalidArgument, "open.options.hold"},
		{"encoding", []*pb.ConvertFramesRequest{open(&pb.ConvertFramesOpen{Encoding: pb.Encoding_ENCODING_JPEG})},
			codes.InvalidArgument, "open.encoding"},
	} {
		stream, err := rpc.ConvertFrames(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range x.sent {
			if stream.Send(m) != nil {
				break
			}
		}
		stream.CloseSend()
		for err == nil {
			_, err = stream.Recv()
		}
		if got := status.Code(err); err.Error() == "EOF" && x.code != codes.OK || err.Error() != "EOF" &&
			(got != x.code || !strings.Contains(err.Error(), x.says)) {
			t.Errorf("%s: %v, want %v with %q", x.name, err, x.code, x.says)
		}
	}
	// What the options don't suit is the frame's error.
	c := clients.New(ts.conn)
	out := answers(t, c, &pb.ConvertFramesOpen{Options: &pb.ConvertOptions{Vertices: 10, Border: 2}},
		film(1, 50, 50, 1)[0], smallFrame(3))
	if out[0].Err == nil || !strings.Contains(out[0].Err.Error(), "open.options.border = 2") || out[1].Err != nil {
		t.Errorf("%v, %v", out[0].Err, out[1].Err)
	}
	ts.free(t)
}

// Clients that go away, at any time, leave nothing behind.
func TestConvertFramesCancel(t *testing.T) {
	ts := start(t, Config{}, frameCodec())
	c := clients.New(ts.conn)
	frames := film(6, 300, 200, 4)
	for i := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		v, err := c.OpenVideo(ctx, &pb.ConvertFramesOpen{Options: &pb.ConvertOptions{Vertices: 300},
			Encoding: pb.Encoding(1 + i%2*2)}, clients.StreamOptions{Window: 8})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range frames[:i%5] {
			if err := v.Send(f); err != nil {
				t.Fatal(err)
			}
		}
		if i%3 == 0 && i%5 > 0 {
			if _, err := v.Recv(); err != nil {
				t.Error(err)
			}
		}
		if i%2 == 0 {
			v.Close()
		}
		cancel()
	}
	ts.free(t)
}

// Streams whose frames together need more host memory than there is get it in turns.
func TestConvertFramesHostMemory(t *testing.T) {
	ts := start(t, Config{HostBytes: 6 << 20, MaxMessageBytes: 4 << 20})
	c := clients.New(ts.conn)
	frames := film(6, 640, 480, 5)
	for i, f := range frames {
		if i%2 == 0 {
			frames[i] = fileFrame(pngOf(t, f))
		}
	}
	done := make(chan error)
	for range 3 {
		go func() {
			n := 0
			for a, err := range c.ConvertFrames(t.Context(),
				&pb.ConvertFramesOpen{Encoding: pb.Encoding_ENCODING_PNG, Svg: true}, each(frames...),
				clients.StreamOptions{}) {
				if err == nil && a.Err != nil {
					err = a.Err
				}
				if err != nil {
					done <- err
					return
				}
				n++
			}
			done <- nil
		}()
	}
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	ts.free(t)
}

// A device that is lost while a stream waits for frames comes back, and the stream goes on with it. So it does where a
// frame finds it lost, and that frame says so.
func TestConvertFramesLost(t *testing.T) {
	faulty := devicetest.Fault(cpu.New(cpu.Options{Threads: 2}), devicetest.Failure{})
	ts := start(t, Config{Driver: faulty, MemoryBytes: 8 << 20})
	ts.dev.RetryAtOnce()
	c := clients.New(ts.conn)
	v, err := c.OpenVideo(t.Context(), nil, clients.StreamOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	f := film(1, 60, 40, 6)[0]
	convert := func() *clients.Converted {
		t.Helper()
		if err := v.Send(f); err != nil {
			t.Fatal(err)
		}
		a, err := v.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	want := convert().Result.GetPicture().GetData()
	losses := uint64(0)
	for k := 1; k < 40; k += 3 {
		faulty.Arm(devicetest.Failure{N: k, Err: driver.ErrDeviceLost})
		var finder error
		if k%2 == 0 { // another call
			_, finder = c.Convert(t.Context(), &pb.ConvertRequest{Frame: f})
		} else if a := convert(); a.Err != nil {
			finder = a.Err
		}
		_, fired := faulty.Fired()
		faulty.Arm(devicetest.Failure{})
		if !fired {
			break
		}
		losses++
		var e *clients.Error
		if !errors.As(finder, &e) || e.Code != codes.Unavailable {
			t.Errorf("loss at event %d: %v", k, finder)
		}
		waitFor(t, "the device to be back", func() bool { return ts.dev.Regained() == losses })
		if a := convert(); a.Err != nil || !bytes.Equal(a.Result.Picture.GetData(), want) {
			t.Errorf("after the loss at event %d: %v", k, a.Err)
		}
	}
	if losses < 5 {
		t.Errorf("only %d losses were tried", losses)
	}
	v.Close()
	ts.free(t)
}

// A client that doesn't read is stopped, and then served.
func TestConvertFramesBackPressure(t *testing.T) {
	ts := start(t, Config{}, frameCodec())
	c := clients.New(ts.conn)
	v, err := c.OpenVideo(t.Context(), &pb.ConvertFramesOpen{Options: &pb.ConvertOptions{Vertices: 50}},
		clients.StreamOptions{Window: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	f := film(1, 640, 400, 7)[0]
	var sent atomic.Int64
	go func() {
		for v.Send(f) == nil {
			sent.Add(1)
		}
	}()
	for last, stable := int64(-1), 0; stable < 5; {
		waitFor(t, "a frame to be sent", func() bool { return sent.Load() > 0 })
		time.Sleep(50 * time.Millisecond)
		if now := sent.Load(); now == last {
			stable++
		} else {
			last, stable = now, 0
		}
	}
	if n := sent.Load(); n > 20 {
		t.Errorf("%d frames were taken although nobody reads the answers", n)
	}
	for range 10 {
		if _, err := v.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	v.Close()
	ts.free(t)
}
