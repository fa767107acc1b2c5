package clients

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

func (f *fake) ConvertFrames(s grpc.BidiStreamingServer[polyscanv1.ConvertFramesRequest,
	polyscanv1.ConvertFramesResponse]) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	f.opened = first.GetOpen()
	for seq := uint64(0); ; seq++ {
		m, err := s.Recv()
		if err != nil {
			return nil
		}
		res, err := f.convert(seq, m.GetFrame())
		if err != nil {
			return err
		}
		if err := s.Send(res); err != nil {
			return err
		}
	}
}

func TestConvertFrames(t *testing.T) {
	picture := func(seq uint64, f *polyscanv1.Frame) *polyscanv1.ConvertFramesResponse {
		return &polyscanv1.ConvertFramesResponse{Sequence: seq, Outcome: &polyscanv1.ConvertFramesResponse_Result{
			Result: &polyscanv1.ConvertResponse{Vertices: uint64(len(f.GetData())), Picture: f},
		}}
	}
	for _, x := range []struct {
		name   string
		answer func(uint64, *polyscanv1.Frame) (*polyscanv1.ConvertFramesResponse, error)
		want   []string // of each answer; the last may be the end's error
	}{
		{"well", func(seq uint64, f *polyscanv1.Frame) (*polyscanv1.ConvertFramesResponse, error) {
			return picture(seq, f), nil
		}, []string{"1", "2", "3"}},
		{"a frame is refused", func(seq uint64, f *polyscanv1.Frame) (*polyscanv1.ConvertFramesResponse, error) {
			if seq == 1 {
				s := status.New(codes.InvalidArgument, "frame: no")
				return &polyscanv1.ConvertFramesResponse{Sequence: seq,
					Outcome: &polyscanv1.ConvertFramesResponse_Error{Error: s.Proto()}}, nil
			}
			return picture(seq, f), nil
		}, []string{"1", "INVALID_ARGUMENT: frame: no", "3"}},
		{"another number", func(seq uint64, f *polyscanv1.Frame) (*polyscanv1.ConvertFramesResponse, error) {
			return picture(seq+1, f), nil
		},
			[]string{"clients: the server answered frame 1, expected frame 0"}},
		{"nothing", func(seq uint64, f *polyscanv1.Frame) (*polyscanv1.ConvertFramesResponse, error) {
			return &polyscanv1.ConvertFramesResponse{Sequence: seq}, nil
		}, []string{"clients: the server's answer to frame 0 holds neither"}},
		{"the end", func(seq uint64, f *polyscanv1.Frame) (*polyscanv1.ConvertFramesResponse, error) {
			return nil, status.Error(codes.Unavailable, "gone")
		}, []string{"UNAVAILABLE: gone"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := &fake{convert: x.answer}
			c := dial(t, f)
			open := &polyscanv1.ConvertFramesOpen{Mesh: true}
			i := 0
			for a, err := range c.ConvertFrames(t.Context(), open, numbered(3, nil), StreamOptions{Window: 1}) {
				if i >= len(x.want) {
					t.Fatalf("answer %d: %+v, %v", i, a, err)
				}
				got := ""
				switch {
				case err != nil:
					got = err.Error()
				case a.Err != nil:
					got = a.Err.Error()
				default:
					got = fmt.Sprint(a.Result.GetVertices())
					if a.Sequence != uint64(i) || a.Frame.GetFrameId() != fmt.Sprint(i) || a.Latency <= 0 {
						t.Errorf("answer %d is %+v", i, a)
					}
				}
				if len(got) < len(x.want[i]) || got[:len(x.want[i])] != x.want[i] {
					t.Errorf("answer %d: %q, want %q", i, got, x.want[i])
				}
				i++
			}
			if i != len(x.want) || !f.opened.GetMesh() {
				t.Errorf("%d answers of %d; it was opened with %v", i, len(x.want), f.opened)
			}
		})
	}
	c := dial(t, &fake{})
	if _, err := c.OpenVideo(t.Context(), nil, StreamOptions{Window: -1}); err == nil {
		t.Error("a window of -1 is fine")
	}
	for range dial(t, &fake{convert: func(seq uint64, f *polyscanv1.Frame) (*polyscanv1.ConvertFramesResponse, error) {
		return picture(seq, f), nil
	}}).ConvertFrames(t.Context(), nil, numbered(30, nil), StreamOptions{}) {
		break // gives up the rest
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range c.ConvertFrames(ctx, nil, numbered(3, nil), StreamOptions{}) {
		var e *Error
		if !errors.As(err, &e) || e.Code != codes.Canceled {
			t.Errorf("cancelled: %v", err)
		}
	}
}
