package server

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// literal sends byte slices as they are, under the name of protobuf.
type literal struct{ encoding.CodecV2 }

func (literal) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// What is no protobuf is the client's mistake, by every method, and says so.
func TestMalformedMessages(t *testing.T) {
	s := start(t, Config{})
	raw := grpc.ForceCodecV2(literal{encoding.GetCodecV2("proto")})
	for _, wire := range [][]byte{{0xff}, {0x0a, 0x7f, 1}, {0x12, 2, 0x0a, 9}} {
		for method, res := range map[string]any{
			pb.InspectionService_Reduce_FullMethodName:    &pb.ReduceResponse{},
			pb.InspectionService_Rasterize_FullMethodName: &pb.RasterizeResponse{},
			pb.RecipeService_PutRecipe_FullMethodName:     &pb.PutRecipeResponse{},
		} {
			err := s.conn.Invoke(t.Context(), method, wire, res, raw)
			if d := detailsOf(t, err); d.status.Code() != codes.InvalidArgument {
				t.Errorf("%s of % x: %v", method, wire, err)
			}
			wantCanonical(t, err)
		}
		stream, err := s.conn.NewStream(t.Context(), &pb.InspectionService_ServiceDesc.Streams[0],
			pb.InspectionService_StreamFrames_FullMethodName, raw)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.SendMsg(wire); err != nil {
			t.Fatal(err)
		}
		err = stream.RecvMsg(&pb.StreamFramesResponse{})
		if d := detailsOf(t, err); d.status.Code() != codes.InvalidArgument {
			t.Errorf("stream of % x: %v", wire, err)
		}
		wantCanonical(t, err)
	}
}
