package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Cameras of 10,240 px x 50 kHz x 8 bit, 512 MB/s each, in strips of 128 lines.
const (
	cameraWidth = 10_240
	cameraLines = 128
	cameraStrip = cameraWidth * cameraLines
	cameraRate  = 50_000 // lines in a second
	stripPeriod = cameraLines * time.Second / cameraRate
	cameraSlots = 8
)

// stripSink receives frames of a stream, copies each to memory of the device, and says so: the way of a strip without
// anything computed.
func (s *Server) stripSink(stream grpc.ServerStream) error {
	dev, err := s.dev.Acquire()
	if err != nil {
		return err
	}
	defer dev.End()
	ctx := kernels.WithClass(stream.Context(), kernels.LineScan)
	job := kernels.Job{Label: "strip", Footprint: kernels.Bytes[byte](cameraStrip), Units: cameraStrip}
	for n := uint64(0); ; n++ {
		req := &pb.StreamFramesRequest{}
		in := framecodec.New(req)
		if err := stream.RecvMsg(in); err != nil {
			in.Free()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		f, err := s.frames.Read(ctx, req.GetFrame(), in.Pieces(nil), "frame")
		if err == nil {
			err = dev.Do(ctx, job, func(q *kernels.Queue) error {
				b, err := kernels.Alloc[byte](q, cameraStrip, "strip")
				if err != nil {
					return err
				}
				return kernels.UploadGather(q, b, f.Data)
			})
			f.Release()
		}
		in.Free()
		if err != nil {
			return err
		}
		if err := stream.SendMsg(&pb.StreamFramesResponse{Sequence: n}); err != nil {
			return err
		}
	}
}

// BenchmarkTransport is strips on their way from clients to the memory of the device, at the rate of cameras: handles
// to shared memory over a unix socket ("handles"; "copied" when the client copies the pixels into the slot first, which
// a camera's driver does not need), and pixels over a unix socket and TCP. Latencies are from the moment when the
// camera would have had the strip to its acknowledgement, waiting for a sender who is behind included, without the
// first tenth; GB/s is what got through. Each camera sends b.N strips.
func BenchmarkTransport(b *testing.B) {
	for _, c := range []struct {
		name, network string
		cameras       int
		shared, fill  bool
	}{
		{"handles", "unix", 4, true, false},
		{"copied", "unix", 4, true, true},
		{"unix", "unix", 1, false, false},
		{"tcp", "tcp", 1, false, false},
		{"unix", "unix", 4, false, false},
		{"tcp", "tcp", 4, false, false},
	} {
		b.Run(fmt.Sprintf("%s/%d", c.name, c.cameras), func(b *testing.B) {
			var s *testServer
			s, _ = startShared(b, Config{grpcOptions: []grpc.ServerOption{
				grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error { return s.stripSink(stream) }),
			}})
			cameras := make([]*camera, c.cameras)
			for i := range cameras {
				cameras[i] = newCamera(b, listen(b, s, c.network), c.shared, c.fill)
			}
			var all []time.Duration
			var mu sync.Mutex
			var wg sync.WaitGroup
			b.ResetTimer()
			start := time.Now()
			for i, cam := range cameras {
				wg.Go(func() {
					took := cam.run(b, start.Add(time.Duration(i)*stripPeriod/time.Duration(len(cameras))), b.N)
					mu.Lock()
					defer mu.Unlock()
					all = append(all, took[len(took)/10:]...) // without what warms up
				})
			}
			wg.Wait()
			b.StopTimer()
			if len(all) == 0 {
				return
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2])/1e6, "p50-ms")
			b.ReportMetric(float64(all[len(all)*99/100])/1e6, "p99-ms")
			b.ReportMetric(float64(b.N*c.cameras*cameraStrip)/float64(b.Elapsed()), "GB/s")
		})
	}
}

// camera sends strips at its rate.
type camera struct {
	stream grpc.ClientStream
	memory *clients.SharedMemory // nil: pixels travel
	fill   bool
	pixels []byte
}

func newCamera(b *testing.B, conn *grpc.ClientConn, shared, fill bool) *camera {
	c := &camera{fill: fill, pixels: make([]byte, cameraStrip)}
	for i := range c.pixels {
		c.pixels[i] = byte(i)
	}
	if shared {
		c.memory = leaseMemory(b, clients.New(conn), cameraSlots, cameraStrip)
	}
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	var err error
	if c.stream, err = conn.NewStream(b.Context(), desc, "/bench/Strips",
		grpc.ForceCodecV2(framecodec.Codec())); err != nil {
		b.Fatal(err)
	}
	return c
}

// run sends n strips, the first one at start, and returns how long each took.
func (c *camera) run(b *testing.B, start time.Time, n int) []time.Duration {
	took := make([]time.Duration, 0, n)
	slots := make(chan *clients.Slot, cameraSlots) // of strips on their way
	received := make(chan struct{})
	go func() {
		defer close(received)
		for i := range n {
			if err := c.stream.RecvMsg(&pb.StreamFramesResponse{}); err != nil {
				b.Error(err)
				return
			}
			took = append(took, time.Since(start.Add(time.Duration(i)*stripPeriod)))
			if s := <-slots; s != nil {
				s.Release()
			}
		}
	}()
	raw := clients.Raw{Width: cameraWidth, Height: cameraLines, Format: clients.Gray8}
	for i := range n {
		time.Sleep(time.Until(start.Add(time.Duration(i) * stripPeriod)))
		var slot *clients.Slot
		f := raw.Frame(c.pixels)
		if c.memory != nil {
			var err error
			if slot, err = c.memory.Slot(context.Background()); err != nil {
				b.Error(err)
				return nil
			}
			if c.fill {
				copy(slot.Bytes(), c.pixels)
			}
			if f, err = slot.Frame(raw); err != nil {
				b.Error(err)
				return nil
			}
		}
		slots <- slot
		m := framecodec.New(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: f}})
		if err := c.stream.SendMsg(m); err != nil {
			b.Error(err)
			return nil
		}
	}
	c.stream.CloseSend()
	<-received
	return took
}

// BenchmarkReduceClient is what clients/python/bench/latency.py measures, from Go: frames of 2880x1440, by TCP and in
// shared memory, with one region, and with a thousand whose histograms come as columns.
func BenchmarkReduceClient(b *testing.B) {
	raw := clients.Raw{Width: 2880, Height: 1440, Format: clients.Gray8}
	pixels := make([]byte, raw.Width*raw.Height)
	for i := range pixels {
		pixels[i] = byte(i * i >> 7)
	}
	s, _ := startShared(b, Config{})
	c := clients.New(listen(b, s, "tcp"))
	slot := takeSlot(b, leaseMemory(b, c, 1, len(pixels)))
	copy(slot.Bytes(), pixels)
	shared, err := slot.Frame(raw)
	if err != nil {
		b.Fatal(err)
	}
	one := clients.UseRegions(clients.Polygon("one", 100, 100, 2780, 100, 2780, 1340, 100, 1340))
	regions := make([]*pb.Region, 1000)
	for i := range regions {
		xy := make([]float64, 0, 16)
		for corner := range 8 {
			sin, cos := math.Sincos(float64(corner) * math.Pi / 4)
			xy = append(xy, float64(40+56*(i%50))+25*cos, float64(36+72*(i/50))+25*sin)
		}
		regions[i] = clients.Polygon(fmt.Sprintf("r%d", i), xy...)
	}
	histograms := clients.AsColumns(clients.UseRegions(regions...))
	histograms.Reductions = &pb.Reductions{Statistics: []pb.Statistic{pb.Statistic_STATISTIC_COUNT,
		pb.Statistic_STATISTIC_MEAN, pb.Statistic_STATISTIC_HISTOGRAM}}
	for _, way := range []struct {
		name  string
		in    *pb.Inspection
		frame *pb.Frame
	}{{"tcp", one, raw.Frame(pixels)}, {"shared", one, shared}, {"histograms", histograms, shared}} {
		b.Run(way.name, func(b *testing.B) {
			fastest, over := time.Hour, time.Hour
			for b.Loop() {
				start := time.Now()
				res, err := c.Reduce(b.Context(), way.in, way.frame)
				if err != nil {
					b.Fatal(err)
				}
				took := time.Since(start)
				fastest, over = min(fastest, took), min(over, took-res.GetTimes().GetCompute().AsDuration())
			}
			b.ReportMetric(float64(fastest)/1e6, "fastest-ms")
			b.ReportMetric(float64(over)/1e6, "over-compute-ms")
		})
	}
}
