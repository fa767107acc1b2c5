package server

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/budget"
)

// Points of every kind go there and triangles come back, through the client library.
func TestTriangulate(t *testing.T) {
	ts := start(t, Config{})
	c := clients.New(ts.conn)
	sets := devicetest.PointSets(3, 20, 70_000) // more than a message of the client's, and triangles in several
	for _, set := range sets {
		points := make([]clients.Point, len(set.Points))
		for i, p := range set.Points {
			points[i] = clients.Point(p)
		}
		got, err := c.Triangulate(context.Background(), points,
			clients.TriangulateOptions{Class: pb.WorkClass_WORK_CLASS_BATCH})
		if err != nil {
			t.Errorf("%s: %v", set.Name, err)
			continue
		}
		triangles := make([]driver.Triangle, len(got.Triangles))
		for i, v := range got.Triangles {
			triangles[i] = driver.Triangle{A: v[0], B: v[1], C: v[2]}
		}
		if err := devicetest.CheckTriangles(set.Points, triangles); err != nil {
			t.Errorf("%s: %v", set.Name, err)
		}
		if got.Backend != ts.dev.Info().Backend || got.Steps != nil {
			t.Errorf("%s: backend %q, steps %v", set.Name, got.Backend, got.Steps)
		}
	}
}

// By way of a Voronoi diagram the triangles are the same, and the steps are told of.
func TestTriangulateByVoronoi(t *testing.T) {
	ts := start(t, Config{})
	c := clients.New(ts.conn)
	r := seed.New(t, 8, 1)
	var points []clients.Point
	var plain []driver.Point
	for range 3000 {
		p := driver.Point{X: 1_000_000 + r.Int32N(400), Y: r.Int32N(300) - 150}
		points, plain = append(points, clients.Point(p)), append(plain, p)
	}
	got, err := c.Triangulate(context.Background(), points,
		clients.TriangulateOptions{Route: pb.TriangulateRoute_TRIANGULATE_ROUTE_VORONOI})
	if err != nil {
		t.Fatal(err)
	}
	triangles := make([]driver.Triangle, len(got.Triangles))
	for i, v := range got.Triangles {
		triangles[i] = driver.Triangle{A: v[0], B: v[1], C: v[2]}
	}
	if err := devicetest.CheckTriangles(plain, triangles); err != nil {
		t.Error(err)
	}
	if s := got.Steps; s.GetDirect() || s.GetFlips() == 0 || s.GetRounds() == 0 || s.GetHullEdges() == 0 ||
		s.GetBorderEdges() < s.GetHullEdges() {
		t.Errorf("steps %v", s)
	}
}

func TestTriangulateRefuses(t *testing.T) {
	ts := start(t, Config{MaxPoints: 100_000, MemoryBytes: 8 << 20})
	rpc := pb.NewLowPolyServiceClient(ts.conn)
	points := func(n int) []byte { return make([]byte, 8*n) }
	far := points(3)
	binary.LittleEndian.PutUint32(far[20:], driver.MaxPoint+1)
	wide := points(3)
	binary.LittleEndian.PutUint32(wide[8:], driver.MaxSide)
	for _, x := range []struct {
		name string
		sent []*pb.TriangulateRequest
		code codes.Code
		says string
	}{
		{"half a point", []*pb.TriangulateRequest{{Points: points(2)}, {Points: make([]byte, 12)}},
			codes.InvalidArgument, "points = 12: must be a multiple of 8"},
		{"a class in the middle", []*pb.TriangulateRequest{{}, {WorkClass: pb.WorkClass_WORK_CLASS_BATCH}},
			codes.InvalidArgument, "work_class"},
		{"a route in the middle", []*pb.TriangulateRequest{{}, {Route: pb.TriangulateRoute_TRIANGULATE_ROUTE_VORONOI}},
			codes.InvalidArgument, "route"},
		{"no route", []*pb.TriangulateRequest{{Route: 77}}, codes.InvalidArgument, "route"},
		{"too far apart for a diagram",
			[]*pb.TriangulateRequest{{Points: wide, Route: pb.TriangulateRoute_TRIANGULATE_ROUTE_VORONOI}},
			codes.InvalidArgument, "route = VORONOI: labels an image that has all points"},
		{"no class", []*pb.TriangulateRequest{{WorkClass: 77}}, codes.InvalidArgument, "work_class"},
		{"too many points", []*pb.TriangulateRequest{{Points: points(60_000)}, {Points: points(40_001)}},
			codes.InvalidArgument, "points = 100001: are more than the server's limit of 100000"},
		{"out of range", []*pb.TriangulateRequest{{Points: far}}, codes.InvalidArgument,
			"points[2].y = 268435457: must be"},
		{"more than the device holds", []*pb.TriangulateRequest{{Points: points(100_000)}}, codes.ResourceExhausted,
			"needs"},
	} {
		stream, err := rpc.Triangulate(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, req := range x.sent {
			if err := stream.Send(req); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
		stream.CloseSend()
		_, err = stream.Recv()
		if status.Code(err) != x.code || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v, want %v with %q", x.name, err, x.code, x.says)
		}
	}
	if got, err := clients.New(ts.conn).Triangulate(context.Background(), []clients.Point{{X: 0}, {X: 5}, {Y: 5}},
		clients.TriangulateOptions{}); err != nil || len(got.Triangles) != 1 {
		t.Errorf("after all that: %+v, %v", got, err)
	}
}

// Host memory that calls hold comes back however they end, and who finds none is told.
func TestTriangulateHostMemory(t *testing.T) {
	ts := start(t, Config{HostBytes: 5 << 20, MaxMessageBytes: 1 << 20})
	rpc := pb.NewLowPolyServiceClient(ts.conn)
	r := seed.New(t, 1, 1)
	refused := 0
	for range 30 {
		ctx, cancel := context.WithCancel(context.Background())
		stream, err := rpc.Triangulate(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for range r.IntN(4) {
			if stream.Send(&pb.TriangulateRequest{Points: make([]byte, 8*(1+r.IntN(100_000)))}) != nil {
				break
			}
		}
		if r.IntN(2) == 0 {
			stream.CloseSend()
			if _, err := stream.Recv(); status.Code(err) == codes.ResourceExhausted {
				refused++
			}
		}
		cancel()
		for err == nil {
			_, err = stream.Recv()
		}
	}
	if refused == 0 {
		t.Error("no call was refused")
	}
	ts.background.Wait()
	ts.idleHost(t)
}

// A client that falls silent in the middle of its points is cut off, and so it is where the server shuts down; what it
// held comes back.
func TestTriangulateSilence(t *testing.T) {
	silent := func(t *testing.T, ts *testServer) grpc.BidiStreamingClient[pb.TriangulateRequest,
		pb.TriangulateResponse] {
		stream, err := pb.NewLowPolyServiceClient(ts.conn).Triangulate(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// On a busy machine the stall may be over before the points are on their way.
		if err := stream.Send(&pb.TriangulateRequest{Points: make([]byte, 8*100_000)}); err != nil &&
			!errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		return stream
	}
	t.Run("stall", func(t *testing.T) {
		ts := start(t, Config{})
		ts.lowPoly.UploadStall = 20 * time.Millisecond
		if _, err := silent(t, ts).Recv(); status.Code(err) != codes.Aborted ||
			!strings.Contains(err.Error(), "nothing came") {
			t.Error(err)
		}
		ts.background.Wait()
		share, err := ts.host.Take(t.Context(), budget.Results, ts.host.Cap)
		if err != nil {
			t.Fatal(err)
		}
		share.Release()
	})
	t.Run("drain", func(t *testing.T) {
		ts := start(t, Config{})
		stream := silent(t, ts)
		ended := make(chan error, 1)
		go func() { ended <- ts.Shutdown(t.Context()) }()
		if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
