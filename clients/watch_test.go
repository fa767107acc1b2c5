package clients

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// watched is a server whose calls of Watch are played by a list of functions, one each.
type watched struct {
	polyscanv1.UnimplementedMonitorServiceServer
	calls []func(*polyscanv1.WatchRequest, polyscanv1.MonitorService_WatchServer) error
	asked []*polyscanv1.WatchRequest
}

func (f *watched) Watch(req *polyscanv1.WatchRequest, s polyscanv1.MonitorService_WatchServer) error {
	n := len(f.asked)
	f.asked = append(f.asked, req)
	if n >= len(f.calls) {
		return status.Error(codes.PermissionDenied, "no more")
	}
	return f.calls[n](req, s)
}

func startedMessage(id string) *polyscanv1.WatchResponse {
	return &polyscanv1.WatchResponse{Event: &polyscanv1.WatchResponse_Started{Started: &polyscanv1.WatchStarted{ServerId: id}}}
}

func verdictMessage(sequence uint64, part string) *polyscanv1.WatchResponse {
	return &polyscanv1.WatchResponse{Sequence: sequence, Event: &polyscanv1.WatchResponse_Verdict{
		Verdict: &polyscanv1.WatchVerdict{PartId: part}}}
}

// send says messages and ends with an error.
func send(err error, all ...*polyscanv1.WatchResponse) func(*polyscanv1.WatchRequest,
	polyscanv1.MonitorService_WatchServer) error {
	return func(_ *polyscanv1.WatchRequest, s polyscanv1.MonitorService_WatchServer) error {
		for _, m := range all {
			if err := s.Send(m); err != nil {
				return err
			}
		}
		return err
	}
}

// A watch goes on behind the last event that it saw when its server is back, and says at once when it is lost, silent
// or gone.
func TestWatchComesBack(t *testing.T) {
	f := &fake{}
	f.monitor.calls = []func(*polyscanv1.WatchRequest, polyscanv1.MonitorService_WatchServer) error{
		send(status.Error(codes.Unavailable, "restarting"), startedMessage("a"), verdictMessage(7, "P1")),
		send(status.Error(codes.Unavailable, "still")),
		func(_ *polyscanv1.WatchRequest, s polyscanv1.MonitorService_WatchServer) error {
			if err := s.Send(startedMessage("b")); err != nil {
				return err
			}
			<-s.Context().Done() // and not a word any more
			return s.Context().Err()
		},
		send(status.Error(codes.InvalidArgument, "enough"), startedMessage("b"), verdictMessage(2, "P2")),
	}
	c := dial(t, f)
	var got []string
	var last error
	req := &polyscanv1.WatchRequest{Names: []string{"camera-1"}, Heartbeat: durationpb.New(20 * time.Millisecond)}
	for u, err := range c.Watch(t.Context(), req, WatchOptions{}) {
		switch {
		case err != nil:
			last = err
		case u.Lost != nil && errors.Is(u.Lost, ErrSilent):
			got = append(got, "silent")
		case u.Lost != nil:
			got = append(got, "lost")
		case u.Message.GetStarted() != nil:
			got = append(got, "started "+u.Message.GetStarted().GetServerId())
		default:
			got = append(got, u.Message.GetVerdict().GetPartId())
		}
	}
	want := []string{"started a", "P1", "lost", "started b", "silent", "started b", "P2"}
	if !slices.Equal(got, want) || AsError(last) == nil || AsError(last).Code != codes.InvalidArgument {
		t.Errorf("%q, %v", got, last)
	}
	asked := f.monitor.asked
	if len(asked) != 4 || asked[0].GetResume() != nil || asked[1].GetResume().GetServerId() != "a" ||
		asked[2].GetResume().GetSequence() != 7 || asked[3].GetResume().GetServerId() != "b" ||
		asked[3].GetResume().GetSequence() != 0 || asked[3].GetNames()[0] != "camera-1" || req.GetResume() != nil {
		t.Errorf("asked: %v", asked)
	}
}

// What never began isn't tried again, nor is it beyond the outage, nor when ctx has ended.
func TestWatchEnds(t *testing.T) {
	down := status.Error(codes.Unavailable, "down")
	for _, tt := range []struct {
		name  string
		calls int // that answer first
		o     WatchOptions
		asked int
	}{
		{"never began", 0, WatchOptions{}, 1},
		{"no outage", 1, WatchOptions{Outage: -1}, 1},
		{"outage", 1, WatchOptions{Outage: time.Millisecond}, 2},
	} {
		f := &fake{}
		for range tt.calls {
			f.monitor.calls = append(f.monitor.calls, send(down, startedMessage("a")))
		}
		for range 5 {
			f.monitor.calls = append(f.monitor.calls, send(down))
		}
		var last error
		for _, err := range dial(t, f).Watch(t.Context(), &polyscanv1.WatchRequest{}, tt.o) {
			last = err
		}
		if AsError(last) == nil || AsError(last).Code != codes.Unavailable || len(f.monitor.asked) != tt.asked {
			t.Errorf("%s: %d calls, %v", tt.name, len(f.monitor.asked), last)
		}
	}
	f := &fake{}
	f.monitor.calls = append(f.monitor.calls, func(_ *polyscanv1.WatchRequest,
		s polyscanv1.MonitorService_WatchServer) error {
		if err := s.Send(startedMessage("a")); err != nil {
			return err
		}
		<-s.Context().Done()
		return s.Context().Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for u, err := range dial(t, f).Watch(ctx, &polyscanv1.WatchRequest{}, WatchOptions{}) {
		if last = err; u.Message != nil {
			cancel()
		}
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("cancelled: %v", last)
	}
	for range dial(t, f).Watch(t.Context(), &polyscanv1.WatchRequest{}, WatchOptions{Silence: -1}) {
	}
	if len(f.monitor.asked) != 1 {
		t.Error("a negative silence is taken")
	}
}
