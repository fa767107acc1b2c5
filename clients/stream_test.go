package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/proto/framecodec"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// numbered yields n frames; frame i is i+1 bytes of value i.
func numbered(n int, at func(i int)) iter.Seq2[*polyscanv1.Frame, error] {
	return func(yield func(*polyscanv1.Frame, error) bool) {
		for i := range n {
			if at != nil {
				at(i)
			}
			f := Encoded(slices.Repeat([]byte{byte(i)}, i+1))
			f.FrameId = fmt.Sprint(i)
			if !yield(f, nil) {
				return
			}
		}
	}
}

// TestSendAt: a frame goes with its pose, and one without has none.
func TestSendAt(t *testing.T) {
	poses := make(chan *polyscanv1.Pose, 2)
	s, err := dial(t, &fake{answer: plainAnswer, pose: func(p *polyscanv1.Pose) { poses <- p }}).OpenStream(t.Context(),
		UseRegions(), StreamOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.SendAt(Encoded([]byte{7}), &polyscanv1.Pose{Dx: 7.3, Rotation: 1.2}); err != nil {
		t.Fatal(err)
	}
	if err := s.Send(Encoded([]byte{1})); err != nil {
		t.Fatal(err)
	}
	for _, want := range []uint64{7, 1} {
		a, err := s.Recv()
		if err != nil || a.Result.GetRegions()[0].GetCount() != want {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	if p := <-poses; p.GetDx() != 7.3 || p.GetRotation() != 1.2 {
		t.Errorf("%v", p)
	}
	if p := <-poses; p != nil {
		t.Errorf("%v without one", p)
	}
}

func TestStreamFrames(t *testing.T) {
	f := &fake{answer: plainAnswer}
	c := dial(t, f)
	for _, window := range []int{0, 1, 3, 100} {
		next := 0
		for a, err := range c.StreamFrames(t.Context(), UseRegions(), numbered(50, nil),
			StreamOptions{Window: window}) {
			if err != nil {
				t.Fatal(err)
			}
			if a.Err != nil || a.Sequence != uint64(next) || a.Frame.GetFrameId() != fmt.Sprint(next) ||
				a.Result.GetFrameId() != fmt.Sprint(next) ||
				a.Result.GetRegions()[0].GetCount() != uint64(next*(next+1)) || a.Latency <= 0 {
				t.Fatalf("window %d: answer %d is %+v", window, next, a)
			}
			next++
		}
		if next != 50 {
			t.Errorf("window %d: %d answers, want 50", window, next)
		}
	}
}

// TestStreamWindow holds the answers back and sees how many frames were taken from the iterator.
func TestStreamWindow(t *testing.T) {
	f := &fake{answer: plainAnswer, hold: make(chan struct{})}
	c := dial(t, f)
	const window = 3
	pulled := make(chan int, 100)
	next, stop := iter.Pull2(c.StreamFrames(t.Context(), UseRegions(), numbered(10, func(i int) {
		pulled <- i
	}), StreamOptions{Window: window}))
	defer stop()
	answers := make(chan error)
	go func() {
		defer close(answers)
		for {
			_, err, ok := next()
			if !ok {
				return
			}
			answers <- err
		}
	}()
	// The iterator is asked for one frame more than the window holds: that one waits in Send.
	for range window + 1 {
		<-pulled
	}
	for end := time.Now().Add(30 * time.Second); f.received.Load() < window && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // for more of them, if there are
	if n := f.received.Load(); n != window {
		t.Errorf("%d frames sent without an answer, want %d", n, window)
	}
	if n := len(pulled); n != 0 {
		t.Errorf("%d frames more than the window taken from the iterator", n)
	}
	for range 10 {
		f.hold <- struct{}{}
		if err := <-answers; err != nil {
			t.Fatal(err)
		}
	}
	if _, more := <-answers; more {
		t.Error("an answer more than frames")
	}
}

func TestStreamRefusedFrame(t *testing.T) {
	f := &fake{answer: func(seq uint64, fr *polyscanv1.Frame) (*polyscanv1.StreamFramesResponse, error) {
		if seq == 1 {
			s := status.New(codes.InvalidArgument, "frame.data: no image")
			return &polyscanv1.StreamFramesResponse{Sequence: seq,
				Outcome: &polyscanv1.StreamFramesResponse_Error{Error: s.Proto()}}, nil
		}
		return plainAnswer(seq, fr)
	}}
	c := dial(t, f)
	var got []string
	for a, err := range c.StreamFrames(t.Context(), UseRegions(), numbered(3, nil), StreamOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(a.Err == nil, a.Result == nil))
		if a.Sequence == 1 && (a.Err.Code != codes.InvalidArgument || a.Err.Message != "frame.data: no image") {
			t.Errorf("error %+v", a.Err)
		}
	}
	if want := []string{"true false", "false true", "true false"}; !slices.Equal(got, want) {
		t.Errorf("answers %q, want %q", got, want)
	}
}

func TestStreamEnds(t *testing.T) {
	boom := errors.New("no more film")
	broken := func(n int) iter.Seq2[*polyscanv1.Frame, error] {
		return func(yield func(*polyscanv1.Frame, error) bool) {
			for f, err := range numbered(n, nil) {
				if !yield(f, err) {
					return
				}
			}
			yield(nil, boom)
		}
	}
	endless := func(yield func(*polyscanv1.Frame, error) bool) {
		for yield(Encoded([]byte{1}), nil) {
		}
	}
	tests := []struct {
		name    string
		fake    *fake
		frames  iter.Seq2[*polyscanv1.Frame, error]
		opts    StreamOptions
		answers int
		check   func(error) bool
	}{
		{"refused at the start", &fake{answer: plainAnswer, open: func(*polyscanv1.Inspection) error {
			return status.Error(codes.InvalidArgument, "no regions")
		}},
			endless, StreamOptions{}, 0, func(err error) bool {
				e := AsError(err)
				return e != nil && e.Code == codes.InvalidArgument
			}},
		{"ended by the server",
			&fake{answer: func(seq uint64, f *polyscanv1.Frame) (*polyscanv1.StreamFramesResponse, error) {
				if seq == 5 {
					return nil, status.Error(codes.Unavailable, "shutting down")
				}
				return plainAnswer(seq, f)
			}}, endless, StreamOptions{}, 5, func(err error) bool {
				e := AsError(err)
				return e != nil && e.Code == codes.Unavailable
			}},
		{"ended by the frames", &fake{answer: plainAnswer}, broken(4), StreamOptions{Window: 2}, 4,
			func(err error) bool { return errors.Is(err, boom) }},
		{"out of order", &fake{answer: func(seq uint64, f *polyscanv1.Frame) (*polyscanv1.StreamFramesResponse, error) {
			return plainAnswer(seq+seq/2, f)
		}}, endless, StreamOptions{}, 2, func(err error) bool { return err != nil && AsError(err) == nil }},
		{"neither result nor error",
			&fake{answer: func(seq uint64, f *polyscanv1.Frame) (*polyscanv1.StreamFramesResponse, error) {
				return &polyscanv1.StreamFramesResponse{Sequence: seq}, nil
			}}, endless, StreamOptions{}, 0, func(err error) bool { return err != nil && AsError(err) == nil }},
		{"no frames", &fake{answer: plainAnswer}, numbered(0, nil), StreamOptions{}, 0, func(err error) bool {
			return err == nil
		}},
		{"bad window", &fake{answer: plainAnswer}, endless, StreamOptions{Window: -1}, 0, func(err error) bool {
			return err != nil
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := dial(t, tt.fake)
			answers := 0
			var last error
			for a, err := range c.StreamFrames(t.Context(), UseRegions(), tt.frames, tt.opts) {
				if last != nil {
					t.Fatal("more after the error")
				}
				if last = err; err == nil {
					answers++
				} else if a != nil {
					t.Error("an answer beside the error")
				}
			}
			if answers != tt.answers || !tt.check(last) {
				t.Errorf("%d answers, then %v; want %d", answers, last, tt.answers)
			}
		})
	}
}

func TestStreamBreak(t *testing.T) {
	c := dial(t, &fake{answer: plainAnswer})
	over := false
	frames := func(yield func(*polyscanv1.Frame, error) bool) {
		defer func() { over = true }()
		for yield(Encoded([]byte{1}), nil) {
		}
	}
	for _, err := range c.StreamFrames(t.Context(), UseRegions(), frames, StreamOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	if !over {
		t.Error("the iterator of frames still runs after the loop")
	}
}

func TestStreamCancel(t *testing.T) {
	c := dial(t, &fake{answer: plainAnswer, hold: make(chan struct{})})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	var last error
	for _, err := range c.StreamFrames(ctx, UseRegions(), numbered(100, nil), StreamOptions{}) {
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", last)
	}
}

func TestStreamByHand(t *testing.T) {
	c := dial(t, &fake{answer: plainAnswer})
	s, err := c.OpenStream(t.Context(), UseRegions(), StreamOptions{Window: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 10 {
		if err := s.Send(Raw{Width: 2, Height: 1, Format: Gray8}.Frame([]byte{byte(i), 1})); err != nil {
			t.Fatal(err)
		}
		a, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Result.GetRegions()[0].GetCount(); got != uint64(i+1) {
			t.Errorf("frame %d: %d, want %d", i, got, i+1)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last answer: %v, want io.EOF", err)
	}

	s, err = c.OpenStream(t.Context(), UseRegions(), StreamOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := s.Send(Encoded([]byte{1})); !errors.Is(err, ErrStreamEnded) {
		t.Errorf("Send after Close: %v, want ErrStreamEnded", err)
	}
}

// TestNoCopies holds the library to its promise: sending a frame allocates less than a tenth of it.
func TestNoCopies(t *testing.T) {
	const n = 8 << 20
	c := dial(t, &fake{answer: plainAnswer,
		reduce: func(context.Context, *polyscanv1.ReduceRequest) (*polyscanv1.ReduceResponse, error) {
			return &polyscanv1.ReduceResponse{Result: &polyscanv1.FrameResult{}}, nil
		}})
	frame := Encoded(make([]byte, n))
	marshal := func() uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 4 {
			m, err := framecodec.Codec().Marshal(framecodec.New(&polyscanv1.ReduceRequest{Inspection: UseRegions(),
				Frame: frame}))
			if err != nil {
				t.Fatal(err)
			}
			if m.Len() < n {
				t.Fatalf("%d bytes on the wire for a frame of %d", m.Len(), n)
			}
			m.Free()
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / 4
	}
	if got := marshal(); got > n/10 {
		t.Errorf("marshalling a frame of %d bytes allocates %d", n, got)
	}
	if _, err := c.Reduce(t.Context(), UseRegions(), frame); err != nil {
		t.Fatal(err)
	}
}
