package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

func (f *fake) SolveProgressively(req *polyscanv1.SolveProgressivelyRequest,
	s grpc.ServerStreamingServer[polyscanv1.SolveProgressivelyResponse]) error {
	return f.pictures(req.GetRequest(), s.Send)
}

func (f *fake) Edit(s grpc.BidiStreamingServer[polyscanv1.EditRequest, polyscanv1.EditResponse]) error {
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		res, err := f.edit(m)
		if err != nil {
			return err
		}
		if err := s.Send(res); err != nil {
			return err
		}
	}
}

// result is a picture that says what it was made of.
func result(what string) *polyscanv1.SolveResponse {
	return &polyscanv1.SolveResponse{Picture: &polyscanv1.Frame{FrameId: what,
		Source: &polyscanv1.Frame_Data{Data: []byte(what)}}}
}

func TestSolveProgressively(t *testing.T) {
	for _, x := range []struct {
		name     string
		pictures func(*polyscanv1.SolveRequest, func(*polyscanv1.SolveProgressivelyResponse) error) error
		want     []string
		code     codes.Code
	}{
		{"well", func(req *polyscanv1.SolveRequest, send func(*polyscanv1.SolveProgressivelyResponse) error) error {
			pixels := string(req.GetFrame().GetData())
			return errors.Join(
				send(&polyscanv1.SolveProgressivelyResponse{Result: result(pixels + "1")}),
				send(&polyscanv1.SolveProgressivelyResponse{Result: result(pixels + "2"), Last: true}))
		}, []string{"abc1", "abc2"}, 0},
		{"refused", func(*polyscanv1.SolveRequest, func(*polyscanv1.SolveProgressivelyResponse) error) error {
			return status.Error(codes.InvalidArgument, "no")
		}, []string{"INVALID_ARGUMENT: no"}, codes.InvalidArgument},
		{"broken off", func(_ *polyscanv1.SolveRequest, send func(*polyscanv1.SolveProgressivelyResponse) error) error {
			return errors.Join(send(&polyscanv1.SolveProgressivelyResponse{Result: result("1")}),
				status.Error(codes.Unavailable, "gone"))
		}, []string{"1", "UNAVAILABLE: "}, codes.Unavailable},
		{"without an end", func(_ *polyscanv1.SolveRequest, send func(*polyscanv1.SolveProgressivelyResponse) error) error {
			return send(&polyscanv1.SolveProgressivelyResponse{Result: result("1")})
		}, []string{"1", "clients: SolveProgressively: the server ended without the last picture: unexpected EOF"}, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := dial(t, &fake{pictures: x.pictures})
			var got []string
			for res, err := range c.SolveProgressively(t.Context(),
				&polyscanv1.SolveRequest{Frame: &polyscanv1.Frame{Source: &polyscanv1.Frame_Data{Data: []byte("abc")}}}) {
				if err != nil {
					got = append(got, err.Error())
					if e := AsError(err); x.code != 0 && (e == nil || e.Code != x.code) {
						t.Errorf("%v, want %v", err, x.code)
					}
					continue
				}
				got = append(got, string(res.GetResult().GetPicture().GetData()))
			}
			if !slices.EqualFunc(got, x.want, strings.HasPrefix) {
				t.Errorf("%q, want %q", got, x.want)
			}
		})
	}
	// Breaking out of the loop ends the call at the server.
	ended := make(chan error)
	c := dial(t, &fake{pictures: func(_ *polyscanv1.SolveRequest,
		send func(*polyscanv1.SolveProgressivelyResponse) error) error {
		for {
			if err := send(&polyscanv1.SolveProgressivelyResponse{Result: result("again")}); err != nil {
				ended <- err
				return err
			}
		}
	}})
	for range c.SolveProgressively(t.Context(), nil) {
		break
	}
	if err := <-ended; err == nil {
		t.Error("the call went on")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range c.SolveProgressively(ctx, nil) {
		if e := AsError(err); e == nil || e.Code != codes.Canceled {
			t.Errorf("cancelled: %v", err)
		}
	}
}

// Each method sends its message; answers come with their numbers.
func TestCanvas(t *testing.T) {
	n := uint64(0)
	c := dial(t, &fake{edit: func(m *polyscanv1.EditRequest) (*polyscanv1.EditResponse, error) {
		what := ""
		switch m := m.GetMessage().(type) {
		case *polyscanv1.EditRequest_Open:
			what = "open " + string(m.Open.GetFrame().GetData())
		case *polyscanv1.EditRequest_PutCurve:
			what = "put " + m.PutCurve.GetId()
		case *polyscanv1.EditRequest_MoveCurve:
			what = fmt.Sprint("move ", m.MoveCurve.GetId(), " ", m.MoveCurve.GetDx(), " ", m.MoveCurve.GetDy())
		case *polyscanv1.EditRequest_RecolorCurve:
			what = "recolor " + m.RecolorCurve.GetId()
		case *polyscanv1.EditRequest_RemoveCurve:
			what = "remove " + m.RemoveCurve
		case *polyscanv1.EditRequest_PutPixels:
			what = fmt.Sprint("pixels ", m.PutPixels.GetPixels()[1].GetX())
		case *polyscanv1.EditRequest_RemovePixels:
			what = fmt.Sprint("no pixels ", m.RemovePixels.GetXy())
		case *polyscanv1.EditRequest_MovePixels:
			what = fmt.Sprint("move pixels ", m.MovePixels.GetXy(), " ", m.MovePixels.GetDx(), " ",
				m.MovePixels.GetDy())
		case *polyscanv1.EditRequest_PutEdges:
			what = fmt.Sprint("edges ", m.PutEdges.GetPixels()[0].GetEdges())
		}
		if _, open := m.GetMessage().(*polyscanv1.EditRequest_Open); !open {
			n++
		}
		if n == 5 {
			return &polyscanv1.EditResponse{Edits: n,
				Outcome: &polyscanv1.EditResponse_Error{Error: status.New(codes.InvalidArgument, what).Proto()}}, nil
		}
		return &polyscanv1.EditResponse{Edits: n, SetupKept: n == 3,
			Outcome: &polyscanv1.EditResponse_Result{Result: result(what)}}, nil
	}})
	v, err := c.Edit(t.Context(),
		&polyscanv1.SolveRequest{Frame: &polyscanv1.Frame{Source: &polyscanv1.Frame_Data{Data: []byte("abc")}}})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for i, edit := range []func() (uint64, error){
		func() (uint64, error) { return v.PutCurve(&polyscanv1.Curve{Id: "a"}) },
		func() (uint64, error) { return v.MoveCurve("a", 1.5, -2) },
		func() (uint64, error) { return v.RecolorCurve(&polyscanv1.RecolorCurve{Id: "a"}) },
		func() (uint64, error) { return v.RemoveCurve("a") },
		func() (uint64, error) { return v.PutPixels(&polyscanv1.GivenPixel{}, &polyscanv1.GivenPixel{X: 7}) },
		func() (uint64, error) { return v.RemovePixels(Point{1, 2}, Point{3, 4}) },
		func() (uint64, error) { return v.MovePixels(5, -6, Point{7, 8}) },
		func() (uint64, error) { return v.PutEdges(&polyscanv1.PixelEdges{Edges: 6}) },
	} {
		if got, err := edit(); got != uint64(i+1) || err != nil {
			t.Errorf("change %d: %d, %v", i+1, got, err)
		}
	}
	if _, err := v.RemovePixels(Point{0, -1}); err == nil || !strings.Contains(err.Error(), "place 0 is (0, -1)") {
		t.Errorf("a negative place: %v", err)
	}
	if _, err := v.MovePixels(1, 1, Point{}, Point{-2, 0}); err == nil ||
		!strings.Contains(err.Error(), "MovePixels: place 1 is (-2, 0)") {
		t.Errorf("a negative place: %v", err)
	}
	if err := v.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := v.RemoveCurve("a"); !errors.Is(err, ErrStreamEnded) {
		t.Errorf("a change after the last: %v", err)
	}
	var got []string
	for u, err := range v.Updates() {
		switch {
		case err != nil:
			t.Error(err)
		case u.Err != nil:
			got = append(got, u.Err.Error())
		default:
			got = append(got, string(u.Result.GetPicture().GetData()))
		}
		if u.Edits != uint64(len(got)-1) || u.SetupKept != (u.Edits == 3) || (u.Err == nil) == (u.Result == nil) {
			t.Errorf("update %d: %+v", len(got), u)
		}
	}
	want := []string{"open abc", "put a", "move a 1.5 -2", "recolor a", "remove a", "INVALID_ARGUMENT: pixels 7",
		"no pixels [1 2 3 4]", "move pixels [7 8] 5 -6", "edges 6"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	v.Close()
}

// What a server must not answer is an error, and ends the canvas; so do the end of the call and that of its context.
func TestCanvasEnds(t *testing.T) {
	for says, answer := range map[string]func() (*polyscanv1.EditResponse, error){
		"answered change 7, and only 1 were sent": func() (*polyscanv1.EditResponse, error) {
			return &polyscanv1.EditResponse{Edits: 7}, nil
		},
		"change 1 holds neither a picture nor": func() (*polyscanv1.EditResponse, error) {
			return &polyscanv1.EditResponse{Edits: 1}, nil
		},
		"UNAVAILABLE: the server is shutting down": func() (*polyscanv1.EditResponse, error) {
			return nil, status.Error(codes.Unavailable, "the server is shutting down")
		},
		"INVALID_ARGUMENT: open.drawing has no ...": func() (*polyscanv1.EditResponse, error) {
			return nil, status.Error(codes.InvalidArgument, "open.drawing has no ...")
		},
	} {
		first := true
		c := dial(t, &fake{edit: func(*polyscanv1.EditRequest) (*polyscanv1.EditResponse, error) {
			if first {
				first = false
				return &polyscanv1.EditResponse{Outcome: &polyscanv1.EditResponse_Result{Result: result("first")}}, nil
			}
			return answer()
		}})
		v, err := c.Edit(t.Context(), &polyscanv1.SolveRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.PutCurve(&polyscanv1.Curve{Id: "a"}); err != nil {
			t.Error(err)
		}
		n := 0
		for u, err := range v.Updates() {
			if n++; n == 2 && (u != nil || err == nil || !strings.Contains(err.Error(), says)) {
				t.Errorf("%v, want %q", err, says)
			}
		}
		if n != 2 {
			t.Errorf("%s: %d updates", says, n)
		}
		for err = nil; err == nil; {
			_, err = v.RemoveCurve("a")
		}
		if !errors.Is(err, ErrStreamEnded) {
			t.Errorf("%s: a change after the end: %v", says, err)
		}
		v.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := dial(t, &fake{edit: func(*polyscanv1.EditRequest) (*polyscanv1.EditResponse, error) {
		return &polyscanv1.EditResponse{Outcome: &polyscanv1.EditResponse_Result{Result: result("")}}, nil
	}})
	v, err := c.Edit(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	// From several goroutines: numbers are never the same.
	var wait sync.WaitGroup
	var seen sync.Map
	for range 4 {
		wait.Go(func() {
			for range 20 {
				if edit, err := v.MoveCurve("a", 1, 1); err != nil {
					t.Error(err)
				} else if _, twice := seen.LoadOrStore(edit, true); twice {
					t.Errorf("two changes are number %d", edit)
				}
			}
		})
	}
	for range 80 {
		if _, err := v.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	wait.Wait()
	cancel()
	for err = nil; err == nil; {
		_, err = v.Recv()
	}
	if e := AsError(err); e == nil || e.Code != codes.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := c.Edit(ctx, nil); AsError(err) == nil {
		t.Errorf("cancelled before: %v", err)
	}
	v.Close()
}
