package server

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// star is a polygon around the middle of a frame.
func star(name string, vertices int, cx, cy, r float64) *pb.Region {
	xy := make([]float64, 0, 2*vertices)
	for i := range vertices {
		a := 2 * math.Pi * float64(i) / float64(vertices)
		d := r * (0.8 + 0.2*math.Sin(9*a))
		xy = append(xy, cx+d*math.Cos(a), cy+d*math.Sin(a))
	}
	return &pb.Region{Name: name, Rings: []*pb.Ring{{Xy: xy}}}
}

const benchWidth, benchHeight = 2560, 2048

// benchRequest is what the figures are about: 5 MB, 126 vertices, sums and histogram.
func benchRequest() *pb.ReduceRequest {
	data := make([]byte, benchWidth*benchHeight)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	in := inspecting(star("star", 126, benchWidth/2, benchHeight/2, 1000))
	in.Reductions = &pb.Reductions{Statistics: []pb.Statistic{
		pb.Statistic_STATISTIC_MEAN, pb.Statistic_STATISTIC_STDDEV, pb.Statistic_STATISTIC_MIN,
		pb.Statistic_STATISTIC_MAX,
		pb.Statistic_STATISTIC_HISTOGRAM,
	}}
	return &pb.ReduceRequest{Inspection: in, Frame: rawFrame(benchWidth, benchHeight, gray8, data)}
}

// listen serves s on a socket of a network and returns a connection to it.
func listen(b testing.TB, s *testServer, network string) *grpc.ClientConn {
	b.Helper()
	address, target := "127.0.0.1:0", ""
	if network == "unix" {
		address = filepath.Join(b.TempDir(), "s")
		target = "unix:" + address
	}
	l, err := net.Listen(network, address)
	if err != nil {
		b.Fatal(err)
	}
	if target == "" {
		target = l.Addr().String()
	}
	go s.Serve(l)
	conn, err := grpc.NewClient(target,
		append(clients.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return conn
}

// BenchmarkReduce is one client that sends frames of 5 MB one after another. added-ms is the median of what a call
// takes beyond waiting for the device and computing on it. Allocations are those of both sides.
func BenchmarkReduce(b *testing.B) {
	for _, network := range []string{"tcp", "unix"} {
		for _, codec := range []string{"frame", "default"} {
			b.Run(network+"/"+codec, func(b *testing.B) {
				s := start(b, Config{Logger: nil})
				conn := listen(b, s, network)
				req := benchRequest()
				var in any = req
				var opts []grpc.CallOption
				if codec == "frame" {
					in, opts = framecodec.New(req), []grpc.CallOption{grpc.ForceCodecV2(framecodec.Codec())}
				}
				var added []time.Duration
				call := func() {
					var res pb.ReduceResponse
					start := time.Now()
					if err := conn.Invoke(b.Context(), pb.InspectionService_Reduce_FullMethodName, in, &res,
						opts...); err != nil {
						b.Fatal(err)
					}
					t := res.Result.Times
					added = append(added, time.Since(start)-t.Compute.AsDuration()-t.Queue.AsDuration())
				}
				for range 5 {
					call()
				}
				added = added[:0]
				b.SetBytes(benchWidth * benchHeight)
				b.ReportAllocs()
				for b.Loop() {
					call()
				}
				slices.Sort(added)
				b.ReportMetric(float64(added[len(added)/2])/1e6, "added-ms")
			})
		}
	}
}

// BenchmarkReduceServer is the handler alone, without a transport: what the server allocates for a call.
func BenchmarkReduceServer(b *testing.B) {
	s := start(b, Config{})
	req := benchRequest()
	b.SetBytes(benchWidth * benchHeight)
	b.ReportAllocs()
	for b.Loop() {
		res, err := s.inspector.HandleReduce(b.Context(), req, framecodec.New(req))
		if err != nil {
			b.Fatal(err)
		}
		res.Release()
	}
}

// BenchmarkStreamFrames is one stream of frames of 5 MB.
func BenchmarkStreamFrames(b *testing.B) {
	for _, network := range []string{"tcp", "unix"} {
		b.Run(network, func(b *testing.B) {
			s := start(b, Config{})
			c := pb.NewInspectionServiceClient(listen(b, s, network))
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			stream, err := c.StreamFrames(ctx, grpc.ForceCodecV2(framecodec.Codec()))
			if err != nil {
				b.Fatal(err)
			}
			req := benchRequest()
			if err := stream.Send(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Open{Open: req.Inspection}}); err != nil {
				b.Fatal(err)
			}
			m := framecodec.New(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: req.Frame}})
			window := make(chan struct{}, 4)
			received := make(chan int)
			go func() {
				n := 0
				for {
					res, err := stream.Recv()
					if err != nil {
						if err != io.EOF {
							b.Error(err)
						}
						received <- n
						return
					}
					if res.GetError() != nil {
						b.Error(res.GetError())
					}
					n++
					<-window
				}
			}()
			b.SetBytes(benchWidth * benchHeight)
			b.ReportAllocs()
			sent := 0
			start := time.Now()
			for b.Loop() {
				window <- struct{}{}
				if err := stream.SendMsg(m); err != nil {
					b.Fatal(err)
				}
				sent++
			}
			if err := stream.CloseSend(); err != nil {
				b.Fatal(err)
			}
			if n := <-received; n != sent {
				b.Errorf("%d frames sent, %d answered", sent, n)
			}
			b.ReportMetric(float64(sent)/time.Since(start).Seconds(), "frames/s")
		})
	}
}

// BenchmarkValidate is what the rules of the schemas cost a request. Regions must not show in it.
func BenchmarkValidate(b *testing.B) {
	s := start(b, Config{})
	for _, n := range []int{1, 1000, 100_000} {
		req := &pb.ReduceRequest{Inspection: inspecting(), Frame: rawFrame(1, 1, gray8, []byte{0})}
		set := req.Inspection.GetRegionSet()
		for range n {
			set.Regions = append(set.Regions, rect("r", 0, 0, 1, 1, "mean < 3"))
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := s.validator.Validate(req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkManyRegions is the rest of a request's way through the server: 1000 small regions on a small frame.
func BenchmarkManyRegions(b *testing.B) {
	s := start(b, Config{})
	req := &pb.ReduceRequest{Inspection: inspecting(), Frame: rawFrame(1000, 1000, gray8, make([]byte, 1_000_000))}
	for i := range 1000 {
		set := req.Inspection.GetRegionSet()
		set.Regions = append(set.Regions, star("r", 8, float64(20+30*(i%32)), float64(20+30*(i/32)), 10))
	}
	b.ReportAllocs()
	for b.Loop() {
		res, err := s.inspector.HandleReduce(b.Context(), req, framecodec.New(req))
		if err != nil {
			b.Fatal(err)
		}
		res.Release()
		if _, err := proto.Marshal(res.Message); err != nil {
			b.Fatal(err)
		}
	}
	runtime.KeepAlive(req)
}
