package diffuse

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/servertest"
)

// testHost is a server that keeps no pictures.
type testHost struct{ *servertest.Host }

func (testHost) Place(context.Context, *kernels.Device, kernels.Picture, string, *durationpb.Duration,
	string) (KeptPicture, error) {
	panic("no test keeps pictures")
}

func newTestService(h *servertest.Host) *Service {
	return New(Config{
		Host: testHost{h}, Frames: h.Frames, Memory: h.Memory, Canvases: budget.New(192 << 20), Metrics: h.Metrics,
		MaxPoints: 1 << 20, MaxMessageBytes: 256 << 20, IdleTimeout: time.Minute,
	})
}

// wantFree fails the test where anything that canvases took is still taken.
func wantFree(t *testing.T, h *servertest.Host) {
	t.Helper()
	if release, ok := h.Memory.Try(budget.Decoding, h.Memory.Cap); ok {
		release()
	} else {
		t.Error("host memory is not all back")
	}
	if m := h.Current().Memory(); m.Used != 0 {
		t.Errorf("memory of the device in use: %v", m)
	}
}

// A change ends the solve of what was there before, and the next picture has it.
func TestEditCancels(t *testing.T) {
	trace := devicetest.Trace(cpu.New(cpu.Options{Threads: 2}), false)
	h := servertest.NewHost(t, trace)
	stream := &servertest.Stream{Ctx: t.Context(), Codec: h.Codec()}
	const side = 100
	open := &pb.SolveRequest{
		// far more time than until the change
		Options: &pb.DiffusionOptions{Method: pb.DiffusionMethod_DIFFUSION_METHOD_NAIVE, Tolerance: 1e-6,
			MaxCycles: 100_000},
		Drawing: &pb.Drawing{Width: side, Height: side,
			Pixels: []*pb.GivenPixel{{}, {X: side - 1, Y: side - 1, Red: 255}}},
	}
	c, err := newTestService(h).openCanvas(t.Context(), stream,
		framecodec.New(&pb.EditRequest{Message: &pb.EditRequest_Open{Open: open}}))
	if err != nil {
		t.Fatal(err)
	}
	c.sent = time.Now().Add(time.Hour) // however long the test takes, the client has had a picture just now
	type answered struct {
		again bool
		err   error
	}
	done := make(chan answered, 1)
	go func() {
		again, err := c.answer(t.Context())
		done <- answered{again, err}
	}()
	for len(trace.Records("DiffusionSolve")) == 0 {
		select {
		case a := <-done:
			t.Fatalf("it ended before it solved: %+v", a)
		case <-time.After(time.Millisecond):
		}
	}
	all := &pb.GivenPixels{}
	for i := range uint32(side * side) {
		all.Pixels = append(all.Pixels, &pb.GivenPixel{X: i % side, Y: i / side, Green: 9})
	}
	sent := func() []*pb.EditResponse {
		return servertest.Sent(t, stream, func() *pb.EditResponse { return &pb.EditResponse{} })
	}
	c.perform(t.Context(), &pb.EditRequest{Message: &pb.EditRequest_PutPixels{PutPixels: all}}, nil)
	if a := <-done; !a.again || a.err != nil || len(sent()) != 0 {
		t.Errorf("the solve before the change: %+v; sent: %v", a, sent())
	}
	if _, err := c.answer(t.Context()); err != nil {
		t.Error(err)
	}
	got := sent()
	if len(got) != 1 || got[0].GetEdits() != 1 || got[0].GetResult().GetGivenPixels() != side*side {
		t.Errorf("after the change: %v", got)
	}
	c.close()
	c.share.Release()
	wantFree(t, h)
}

// A panic in the middle of a change, or while the drawing is taken, ends the call and leaves nothing locked or taken.
func TestEditPanics(t *testing.T) {
	h := servertest.NewHost(t, cpu.New(cpu.Options{Threads: 2}))
	s := newTestService(h)
	wall := func(id string, x float64) *pb.Curve {
		return &pb.Curve{Id: id, Xy: []float64{x, -1, x, 10, x, 20, x, 31},
			Left: []*pb.ColorStop{{Red: 200}}, Right: []*pb.ColorStop{{Blue: 100}}}
	}
	for name, spoil := range map[string]func(*canvas){
		"a change":    func(c *canvas) { c.contents.index = nil },
		"the drawing": func(c *canvas) { c.contents.ground = nil },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream := &servertest.Stream{Ctx: ctx, Codec: h.Codec(), Quiet: true,
				Say: []proto.Message{&pb.EditRequest{Message: &pb.EditRequest_PutCurve{PutCurve: wall("b", 20)}}}}
			open := framecodec.New(&pb.EditRequest{Message: &pb.EditRequest_Open{Open: &pb.SolveRequest{
				Drawing: &pb.Drawing{Width: 40, Height: 30, Curves: []*pb.Curve{wall("a", 10)}}}}})
			before := h.Panics()
			err := func() (err error) {
				defer func() {
					if p := recover(); p != nil { // as the server does for the goroutine of a handler
						err = h.Panicked(ctx, p)
					}
				}()
				c, err := s.openCanvas(ctx, stream, open)
				if err != nil {
					t.Fatal(err)
				}
				spoil(c)
				return c.run(ctx)
			}()
			if err == nil || h.Panics() == before {
				t.Errorf("%v after %d panics", err, h.Panics()-before)
			}
			cancel()
			h.Wait()
			wantFree(t, h)
		})
	}
}
