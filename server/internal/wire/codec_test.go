package wire

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/hostwork"
	"github.com/polyscan/polyscan/server/internal/observe"
)

// Large messages, and requests of which hundreds can come at once, take a place of the pool to be read or written, and
// end their waiting for one with their calls. Small ones, and those of which the pixels of a frame are most, wait for
// nobody.
func TestLargeMessagesTakePlaces(t *testing.T) {
	pool := hostwork.New(1)
	c := NewCodec(observe.New(), 1<<30, pool, nil, func(_ context.Context, p any) error { panic(p) })
	turn, err := pool.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	read := func(ctx context.Context, m *pb.ReduceRequest) error {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		in := framecodec.New(&pb.ReduceRequest{})
		defer in.Free()
		g := &Guarded{V: in, Ctx: ctx}
		if err := c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, g); err != nil {
			t.Fatal(err)
		}
		if got := in.Message.(*pb.ReduceRequest); g.Err == nil && len(got.GetInspection().GetRegionSet().GetRegions()) !=
			len(m.GetInspection().GetRegionSet().GetRegions()) {
			t.Error("a request was read in part")
		}
		return g.Err
	}
	request := func(vertices, pixels int) *pb.ReduceRequest {
		return &pb.ReduceRequest{
			Inspection: &pb.Inspection{Regions: &pb.Inspection_RegionSet{RegionSet: &pb.RegionSet{
				Regions: []*pb.Region{{Rings: []*pb.Ring{{Xy: make([]float64, 2*vertices)}}}}}}},
			Frame: &pb.Frame{Source: &pb.Frame_Data{Data: make([]byte, pixels)}},
		}
	}
	for name, m := range map[string]*pb.ReduceRequest{"small": request(100, 100), "pixels": request(100, 8<<20)} {
		if err := read(over, m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := read(over, request(Burst/16, 0)); !errors.Is(err, context.Canceled) {
		t.Errorf("a request of %d bytes was read without a place: %v", Burst, err)
	}
	write := func(ctx context.Context, size int64) error {
		released := false
		m, err := c.Ready(&Response{Message: &pb.ReduceResponse{}, Ctx: ctx, Size: size, Release: func() { released = true }})
		if err == nil {
			var out mem.BufferSlice
			out, err = c.Marshal(m)
			out.Free()
		}
		if !released {
			t.Errorf("a response of %d bytes has not given back its share: %v", size, err)
		}
		return err
	}
	if err := write(over, LargeMessage); err != nil {
		t.Errorf("a small response: %v", err)
	}
	if err := write(over, LargeMessage+1); !errors.Is(err, context.Canceled) {
		t.Errorf("a large response written without a place: %v", err)
	}
	turn.Leave()
	if err := errors.Join(read(t.Context(), request(LargeMessage, 0)), write(t.Context(), LargeMessage+1)); err != nil {
		t.Error(err)
	}
}
