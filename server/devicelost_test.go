package server

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/residents"
)

// unavailable reports whether err is what calls get whose device was lost.
func unavailable(t testing.TB, err error) bool {
	t.Helper()
	d := detailsOf(t, err)
	return d.status.Code() == codes.Unavailable && d.info.GetReason() == apierr.ReasonDeviceLost &&
		d.retry.GetRetryDelay().AsDuration() > 0
}

// byRecipe inspects by a stored recipe.
func byRecipe(name string) *pb.Inspection {
	return &pb.Inspection{Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: name}}}
}

// Whatever op it is that finds the device lost, under load: every call either works or says so, the device comes back,
// and with it the resident frames, whose numbers are the same.
func TestLostByEachOp(t *testing.T) {
	for _, inWait := range []bool{false, true} {
		t.Run(fmt.Sprintf("inWait=%v", inWait), func(t *testing.T) {
			faulty := devicetest.Fault(cpu.New(cpu.Options{Threads: 2}), devicetest.Failure{})
			s := start(t, Config{Driver: faulty, MemoryBytes: 8 << 20, Streams: 2, FrameCopyBytes: 1 << 20})
			s.dev.RetryAtOnce() // as if minutes lay between
			c := s.frameClient()
			s.put(t, "stars", star("s", 30, 50, 40, 35))
			const w, h, n = 100, 80, 3
			var names [n]string
			var want [n]*pb.FrameResult
			for i := range n {
				names[i] = c.put(t, noisyFrame(w, h, uint64(i))).GetName()
				res, err := s.inspection.Reduce(t.Context(),
					&pb.ReduceRequest{Inspection: byRecipe("stars"), Frame: noisyFrame(w, h, uint64(i))})
				if err != nil {
					t.Fatal(err)
				}
				want[i] = res.GetResult()
			}
			check := func(i int) error {
				res, err := s.inspection.Reduce(t.Context(),
					&pb.ReduceRequest{Inspection: byRecipe("stars"), Frame: keptFrame(names[i])})
				if err == nil && !sameNumbers(res.GetResult(), want[i]) {
					t.Errorf("frame %d: %v, want %v", i, res.GetResult(), want[i])
				}
				return err
			}
			load := []func() error{
				func() error { return check(0) },
				func() error { return check(1) },
				func() error {
					_, err := s.inspection.Reduce(t.Context(),
						&pb.ReduceRequest{Inspection: inspecting(rect("r", 3, 3, 50, 60)), Frame: noisyFrame(w, h, 9)})
					return err
				},
				func() error {
					_, err := s.inspection.Rasterize(t.Context(), &pb.RasterizeRequest{
						Regions: &pb.RasterizeRequest_Recipe{Recipe: &pb.RecipeRef{Name: "stars"}}, Width: w, Height: h,
					})
					return err
				},
				func() error {
					res, err := c.PutFrame(t.Context(), &pb.PutFrameRequest{Frame: noisyFrame(w, h, 10)})
					if err == nil {
						_, err = c.ReleaseFrame(t.Context(), &pb.ReleaseFrameRequest{Name: res.GetFrame().GetName()})
					}
					return err
				},
				func() error {
					name, err := c.upload(t.Context(), noisyFrame(w, h, 11), 3000)
					if err == nil {
						_, err = c.ReleaseFrame(t.Context(), &pb.ReleaseFrameRequest{Name: name})
					}
					return err
				},
			}
			losses := uint64(0)
			for k := 1; ; k++ {
				faulty.Arm(devicetest.Failure{N: k, Err: driver.ErrDeviceLost, InWait: inWait})
				var wg sync.WaitGroup
				var refused atomic.Int64
				for _, call := range load {
					wg.Go(func() {
						if err := call(); err != nil {
							refused.Add(1)
							if !unavailable(t, err) {
								t.Errorf("loss at event %d: %v", k, err)
							}
						}
					})
				}
				wg.Wait()
				event, fired := faulty.Fired()
				faulty.Arm(devicetest.Failure{})
				if !fired {
					break
				}
				losses++
				if refused.Load() == 0 {
					t.Errorf("%v was lost, and every call was fine", event)
				}
				waitFor(t, "the device to be back", func() bool { return s.dev.Regained() == losses })
				for i := range n {
					if err := check(i); err != nil {
						t.Errorf("after the loss of %v: %v", event, err)
					}
				}
				if t.Failed() {
					break
				}
			}
			if losses < 15 {
				t.Errorf("only %d ops were tried", losses)
			}
			for _, name := range names {
				c.release(t, name)
			}
			waitFor(t, "an upload's end", func() bool { return s.residents.Totals().Totals == residents.Totals{} })
			s.remove(t, "stars", 0)
			if m := s.dev.Memory(); m.Used != 0 {
				t.Errorf("in use after %d losses: %v", losses, m)
			}
			waitFor(t, "health", func() bool { return s.healthOf(t, "") == healthpb.HealthCheckResponse_SERVING })
			select {
			case err := <-s.Failed():
				t.Errorf("failed: %v", err)
			default:
			}
		})
	}
}

// While a call on the lost device has not noticed, the server says that it isn't ready, and to calls when to come back.
func TestLostMeanwhile(t *testing.T) {
	h := newHooked()
	s := start(t, Config{Driver: h, FrameCopyBytes: 300})
	c := s.frameClient()
	withCopy := c.put(t, rawFrame(10, 20, gray8, make([]byte, 200))).GetName()
	without := c.put(t, rawFrame(10, 20, gray8, make([]byte, 200))).GetName()
	handler := s.Handler()
	watch, err := healthpb.NewHealthClient(s.conn).Watch(t.Context(),
		&healthpb.HealthCheckRequest{Service: "polyscan.v1.FrameService"})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if r, err := watch.Recv(); err != nil || r.Status != want {
			t.Errorf("health %v, %v, want %v", r, err, want)
		}
	}
	expect(healthpb.HealthCheckResponse_SERVING)
	reduce := func(f *pb.Frame) error {
		_, err := s.inspection.Reduce(t.Context(),
			&pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 2, 1)), Frame: f})
		return err
	}
	stream := s.open(t, inspecting(rect("r", 0, 0, 2, 1)))
	upload, err := c.UploadFrame(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := upload.Send(&pb.UploadFrameRequest{Frame: rawFrame(10, 20, gray8, make([]byte, 100))}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the upload to begin", func() bool { return s.residents.Totals().Count == 3 })

	entered, leave := make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	h.set(func() error {
		switch calls.Add(1) {
		case 1:
			close(entered)
			<-leave
			return nil
		case 2:
			return driver.ErrDeviceLost
		}
		return nil
	})
	slow := make(chan error, 1)
	go func() { slow <- reduce(smallFrame(1)) }()
	<-entered
	if err := reduce(smallFrame(1)); !unavailable(t, err) {
		t.Errorf("the call that finds out: %v", err)
	}
	expect(healthpb.HealthCheckResponse_NOT_SERVING)
	if code, body := httpGet(t, handler, "/readyz"); code != 503 || !strings.Contains(body, "lost") {
		t.Errorf("/readyz: %d %q", code, body)
	}
	for range 3 {
		if err := reduce(keptFrame(withCopy)); !unavailable(t, err) {
			t.Errorf("a new call: %v", err)
		}
	}
	stream.send(smallFrame(1))
	if r := stream.recv(); codes.Code(r.GetError().GetCode()) != codes.Unavailable {
		t.Errorf("a frame of a stream: %v", r)
	}
	if _, err := upload.CloseAndRecv(); !unavailable(t, err) {
		t.Errorf("an upload: %v", err)
	}
	// What needs no device goes on.
	if r, err := c.GetFrame(t.Context(), &pb.GetFrameRequest{Name: withCopy, Touch: true}); err != nil ||
		r.GetFrame().GetBytes() != 256 {
		t.Errorf("%v, %v", r, err)
	}
	if kept := c.list(t); len(kept) != 2 {
		t.Errorf("%v", kept)
	}
	close(leave)
	if err := <-slow; err != nil {
		t.Errorf("the call that was nearly done: %v", err)
	}
	expect(healthpb.HealthCheckResponse_SERVING)
	if code, _ := httpGet(t, handler, "/readyz"); code != 200 {
		t.Errorf("/readyz: %d", code)
	}
	if err := reduce(keptFrame(withCopy)); err != nil {
		t.Error(err)
	}
	if d := detailsOf(t, reduce(keptFrame(without))); d.status.Code() != codes.NotFound ||
		d.info.Reason != apierr.ReasonFrameLost {
		t.Errorf("a frame without a copy: %v", d.status)
	}
	stream.send(smallFrame(1))
	if r := stream.recv(); r.GetResult() == nil {
		t.Errorf("the next frame of the stream: %v", r)
	}
	stream.end(nil)
}

// A device that is lost twice in a minute, or can't be opened again, is given up.
func TestLostForGood(t *testing.T) {
	t.Run("again", func(t *testing.T) {
		h := newHooked()
		s := start(t, Config{Driver: h})
		h.set(func() error { return fmt.Errorf("op: %w", driver.ErrDeviceLost) })
		reduce := func() error {
			_, err := s.inspection.Reduce(t.Context(),
				&pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 2, 1)), Frame: smallFrame(1)})
			return err
		}
		if err := reduce(); !unavailable(t, err) {
			t.Error(err)
		}
		waitFor(t, "the device to be back", func() bool { return s.dev.Regained() == 1 })
		if err := reduce(); !unavailable(t, err) {
			t.Error(err)
		}
		if err := <-s.Failed(); !errors.Is(err, driver.ErrDeviceLost) ||
			!strings.Contains(err.Error(), "after it was opened again") {
			t.Error(err)
		}
		if err := reduce(); !unavailable(t, err) {
			t.Error(err)
		}
		if got := s.healthOf(t, ""); got != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Error(got)
		}
		if !strings.Contains(s.logs.String(), "gone for good") {
			t.Error("the log doesn't say so")
		}
	})
	t.Run("not opened", func(t *testing.T) {
		h := newHooked()
		s := start(t, Config{Driver: &opensOnce{Driver: h}})
		h.set(func() error { return driver.ErrDeviceLost })
		if _, err := s.inspection.Reduce(t.Context(),
			&pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 2, 1)), Frame: smallFrame(1)}); !unavailable(t, err) {
			t.Error(err)
		}
		if err := <-s.Failed(); !errors.Is(err, driver.ErrDeviceLost) || !errors.Is(err, driver.ErrNoDevice) {
			t.Error(err)
		}
		if code, _ := httpGet(t, s.Handler(), "/readyz"); code != 503 {
			t.Errorf("/readyz: %d", code)
		}
	})
}

// A server that is told to end while its device is lost does so.
func TestShutdownWhileLost(t *testing.T) {
	h := newHooked()
	s := start(t, Config{Driver: h})
	l, err := s.dev.Acquire() // of somebody who doesn't notice
	if err != nil {
		t.Fatal(err)
	}
	h.set(func() error { return driver.ErrDeviceLost })
	if _, err := s.inspection.Reduce(t.Context(),
		&pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 2, 1)), Frame: smallFrame(1)}); !unavailable(t, err) {
		t.Error(err)
	}
	<-l.Lost()
	waitFor(t, "the server to notice", func() bool { return !s.dev.Available() })
	s.stop(t)
	l.End()
	if s.dev.Regained() != 0 {
		t.Error("opened again")
	}
}

// opensOnce is a driver whose device can be opened one time.
type opensOnce struct {
	driver.Driver
	opened atomic.Bool
}

func (d *opensOnce) Open(n int) (driver.Device, error) {
	if d.opened.Swap(true) {
		return nil, driver.ErrNoDevice
	}
	return d.Driver.Open(n)
}

// sameNumbers compares results but for their times and names.
func sameNumbers(a, b *pb.FrameResult) bool {
	clean := func(r *pb.FrameResult) *pb.FrameResult {
		r = proto.CloneOf(r)
		r.Times, r.FrameId = nil, ""
		return r
	}
	return proto.Equal(clean(a), clean(b))
}
