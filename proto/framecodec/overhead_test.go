package framecodec

import (
	"bytes"
	"math"
	"testing"
	"unsafe"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

func TestOverhead(t *testing.T) {
	const ptr, str = int64(unsafe.Sizeof(uintptr(0))), int64(unsafe.Sizeof(""))
	size := func(n uintptr) int64 { return int64(n) + ptr }
	region, ring, set := size(unsafe.Sizeof(pb.Region{})), size(unsafe.Sizeof(pb.Ring{})),
		size(unsafe.Sizeof(pb.RegionSet{}))
	inspectionSize, frameSize := size(unsafe.Sizeof(pb.Inspection{})), size(unsafe.Sizeof(pb.Frame{}))
	regions := func(n int, r *pb.Region) *pb.ReduceRequest {
		set := &pb.RegionSet{}
		for range n {
			set.Regions = append(set.Regions, r)
		}
		return &pb.ReduceRequest{Inspection: &pb.Inspection{Regions: &pb.Inspection_RegionSet{RegionSet: set}}}
	}
	for _, c := range []struct {
		name string
		m    proto.Message
		want int64
	}{
		{"empty", &pb.ReduceRequest{}, 0},
		{"frame", &pb.ReduceRequest{Frame: &pb.Frame{FrameId: "id",
			Source: &pb.Frame_Data{Data: bytes.Repeat([]byte{0x0a}, 5000)}}}, frameSize},
		{"1000 empty regions", regions(1000, &pb.Region{}), inspectionSize + set + 1000*region},
		{"rings and limits", regions(7, &pb.Region{Name: "n", FillRule: 1, Rings: []*pb.Ring{{Xy: []float64{1, 2}}, {}},
			Limits: []string{"", "a", "bb"}}), inspectionSize + set + 7*(region+2*ring+3*str)},
		{"no messages in it", &pb.RecipeRef{Name: "x", Version: 3}, 0},
	} {
		wire := mustMarshal(t, c.m)
		for _, cuts := range [][]byte{nil, {1}, {5, 0, 200}} {
			data := cut(wire, cuts, mem.NopBufferPool{})
			if got := Overhead(data, c.m, math.MaxInt64); got != c.want {
				t.Errorf("%s, cut %v: %d, want %d", c.name, cuts, got, c.want)
			}
			if got := Overhead(data, New(c.m), math.MaxInt64); got != c.want {
				t.Errorf("%s wrapped: %d, want %d", c.name, got, c.want)
			}
		}
	}
	// It stops at the limit, at what is malformed, and counts what came before.
	wire := mustMarshal(t, regions(1000, &pb.Region{}))
	if got := Overhead(mem.BufferSlice{mem.SliceBuffer(wire)}, &pb.ReduceRequest{}, 10*region); got < 10*region ||
		got > 12*region+inspectionSize {
		t.Errorf("%d with a limit of %d", got, 10*region)
	}
	if got := Overhead(mem.BufferSlice{mem.SliceBuffer(append([]byte{0x12, 0}, 0xff))}, &pb.ReduceRequest{},
		math.MaxInt64); got != frameSize {
		t.Errorf("%d of a malformed message, want %d", got, frameSize)
	}
}

// Whatever the bytes, what unmarshalling allocates is bounded by the result and the bytes themselves.
func TestOverheadBoundsUnmarshal(t *testing.T) {
	// The worst that there is: regions of two bytes.
	inner := bytes.Repeat([]byte{0x0a, 0}, 20_000)
	wire := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType),
		protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), inner))
	bound := Overhead(mem.BufferSlice{mem.SliceBuffer(wire)}, &pb.ReduceRequest{}, math.MaxInt64)
	if bound < 50*int64(len(wire)) {
		t.Errorf("%d bytes on the wire, %d of overhead: this is no attack", len(wire), bound)
	}
	r := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := proto.Unmarshal(wire, &pb.ReduceRequest{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	// Slices double while they grow, and the allocator rounds up.
	if got, limit := r.AllocedBytesPerOp(), 2*bound+4*int64(len(wire))+10_000; got > limit || got < bound/2 {
		t.Errorf("unmarshalling allocates %d bytes, the estimate is %d", got, bound)
	}
}

func FuzzOverhead(f *testing.F) {
	f.Add(mustMarshal(f, &pb.ReduceRequest{Inspection: inspection(), Frame: frame("id", []byte("0123"))}),
		[]byte{3, 0, 1})
	f.Add([]byte{0x0a, 4, 0x0a, 2, 0x0a, 0}, []byte{1})
	f.Fuzz(func(t *testing.T, wire, cuts []byte) {
		data := cut(wire, cuts, mem.NopBufferPool{})
		m := &pb.ReduceRequest{}
		got := Overhead(data, m, math.MaxInt64)
		whole := Overhead(mem.BufferSlice{mem.SliceBuffer(wire)}, m, math.MaxInt64)
		if got != whole {
			t.Errorf("%x: %d in pieces, %d in one", wire, got, whole)
		}
		// All messages that come out were counted.
		if proto.Unmarshal(wire, m) == nil {
			least := int64(0)
			for _, r := range m.GetInspection().GetRegionSet().GetRegions() {
				least += int64(unsafe.Sizeof(pb.Region{})) + int64(len(r.Rings))*int64(unsafe.Sizeof(pb.Ring{})) +
					int64(len(r.Limits))*16
			}
			if got < least {
				t.Errorf("%x: %d, but the message has %d", wire, got, least)
			}
		}
	})
}
