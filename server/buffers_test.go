package server

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/status"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// poisonPool overwrites buffers that come back, so that what reads them afterwards gets wrong numbers.
type poisonPool struct {
	mu    sync.Mutex
	out   map[*byte]bool
	gets  int
	twice int
}

func (p *poisonPool) Get(n int) *[]byte {
	b := make([]byte, n, max(n, 2048))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gets++
	p.out[&b[:1][0]] = true
	return &b
}

func (p *poisonPool) Put(b *[]byte) {
	s := (*b)[:cap(*b)]
	for i := range s {
		s[i] = 0xDB
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.out[&s[0]] {
		p.twice++
	}
	delete(p.out, &s[0])
}

func (p *poisonPool) state() (gets, out, twice int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gets, len(p.out), p.twice
}

// Every buffer of the transport goes back once, and not before the numbers are made of it: raw frames and files, good
// ones and bad ones, calls and streams, all at the same time.
func TestBuffersFreedOnce(t *testing.T) {
	pool := &poisonPool{out: map[*byte]bool{}}
	s := start(t, Config{MemoryBytes: 8 << 20, grpcOptions: []grpc.ServerOption{experimental.BufferPool(pool)}},
		frameCodec())
	const w, h = 500, 400
	in := inspecting(rect("all", 0, 0, w, h))
	img := image.NewGray(image.Rect(0, 0, w, h))
	var file []byte
	for i := range img.Pix {
		img.Pix[i] = byte(i * 7)
	}
	file = encodePicture(t, "bmp", img)
	sum := uint64(0)
	for _, v := range img.Pix {
		sum += uint64(v)
	}
	check := func(res *pb.FrameResult, want uint64) {
		if got := res.GetRegions()[0].GetChannels()[0].GetSum(); got != want {
			t.Errorf("sum %d, want %d: a buffer was freed too early", got, want)
		}
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			v := byte(i + 1)
			raw := rawFrame(w, h, gray8, bytes.Repeat([]byte{v}, w*h))
			for range 10 {
				res, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: raw})
				if err != nil {
					t.Error(err)
					return
				}
				check(res.Result, uint64(v)*w*h)
			}
			res, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: fileFrame(file)})
			if err != nil {
				t.Error(err)
				return
			}
			check(res.Result, sum)
			// Refused before, while and after the frame is looked at.
			bad := rawFrame(w+1, h, gray8, raw.GetData())
			for _, req := range []*pb.ReduceRequest{{Frame: raw}, {Inspection: in, Frame: bad},
				{Inspection: in, Frame: fileFrame(file[:100_000])}} {
				if _, err := s.inspection.Reduce(t.Context(), req); status.Code(err) != codes.InvalidArgument {
					t.Errorf("%v", err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := s.inspection.StreamFrames(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			send := func(m *pb.StreamFramesRequest) {
				if err := stream.Send(m); err != nil {
					t.Error(err)
				}
			}
			send(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Open{Open: in}})
			for k := range 10 {
				for _, f := range []*pb.Frame{raw, bad} {
					send(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: f}})
				}
				for want := range 2 {
					m, err := stream.Recv()
					if err != nil || m.Sequence != uint64(2*k+want) || (m.GetError() != nil) != (want == 1) {
						t.Errorf("%v, %v", m, err)
						return
					}
					if want == 0 {
						check(m.GetResult(), uint64(v)*w*h)
					}
				}
			}
			if err := stream.CloseSend(); err != nil {
				t.Error(err)
			}
			if _, err := stream.Recv(); err == nil {
				t.Error("no end")
			}
		})
	}
	wg.Wait()
	s.stop(t)
	gets, out, twice := pool.state()
	if gets < 8*30*w*h/16384 || out != 0 || twice != 0 {
		t.Errorf("%d buffers, %d did not come back, %d came back twice", gets, out, twice)
	}
}

// A pixel that only a buffer freed too early can have.
func TestPoisonShows(t *testing.T) {
	pool := &poisonPool{out: map[*byte]bool{}}
	b := pool.Get(3)
	img := &image.Gray{Pix: *b, Stride: 3, Rect: image.Rect(0, 0, 3, 1)}
	pool.Put(b)
	if img.At(1, 0) != (color.Gray{Y: 0xDB}) {
		t.Error("what came back is not overwritten")
	}
	pool.Put(b)
	if _, out, twice := pool.state(); out != 0 || twice != 1 {
		t.Errorf("%d out, %d twice", out, twice)
	}
}
