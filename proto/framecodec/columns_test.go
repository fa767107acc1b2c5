package framecodec

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

func columnsResult(n int) *pb.FrameResult {
	return &pb.FrameResult{FrameId: "f", Backend: "cpu", Times: &pb.StageTimes{}, Columns: &pb.RegionColumns{
		Rows: uint32(n), Regions: 9, Channels: []pb.Channel{1, 2}, Verdict: random(n), Sum: random(8 * n), Index: []byte{},
		Name:        &pb.TextColumn{Text: random(3 * n), Ends: random(4 * n)},
		Percentiles: []float64{1, 2}, Statistics: []pb.Statistic{3},
		Histogram: &pb.HistogramColumns{Bins: 7, Lower: -1, Full: true, Counts: random(28 * n)},
		Limits:    &pb.LimitColumns{Ends: random(n), Expression: &pb.TextColumn{Text: random(n)}, Verdict: random(n)},
	}}
}

// withColumns are messages that lead to columns.
func withColumns(n int) []proto.Message {
	r := columnsResult(n)
	return []proto.Message{
		&pb.ReduceResponse{Result: r}, r,
		&pb.StreamFramesResponse{Sequence: 7, Outcome: &pb.StreamFramesResponse_Result{Result: r}},
		&pb.ScanLinesResponse{Message: &pb.ScanLinesResponse_Part{Part: &pb.PartResult{Columns: r.Columns, Late: true}}},
	}
}

// checkColumns compares a wire in pieces, read with its columns in one piece, with what protobuf reads.
func checkColumns(t *testing.T, wire, cuts []byte, m proto.Message) (done bool) {
	t.Helper()
	got, want := m.ProtoReflect().New().Interface(), m.ProtoReflect().New().Interface()
	pool := newCountingPool()
	data := cut(wire, cuts, pool)
	done, err := unmarshalColumns(data, got)
	data.Free()
	if !done {
		return false
	}
	wantErr := proto.Unmarshal(wire, want)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%x: error %v, want %v", wire, err, wantErr)
	}
	if err == nil && !proto.Equal(got, want) {
		t.Fatalf("%x:\n got %v\nwant %v", wire, got, want)
	}
	return true
}

func TestUnmarshalColumns(t *testing.T) {
	for _, n := range []int{0, 1, 5, 3000} {
		for i, m := range withColumns(n) {
			for _, cuts := range [][]byte{nil, {1}, {0, 3, 200}} {
				if !checkColumns(t, mustMarshal(t, m), cuts, m) {
					t.Errorf("message %d of %d rows: not read by columns", i, n)
				}
			}
		}
	}
	// The codec does so, and what it read stays when the transport's buffers are used again.
	want := &pb.ReduceResponse{Result: columnsResult(3000)}
	wire := mustMarshal(t, want)
	got := &pb.ReduceResponse{}
	if err := Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(wire)}, got); err != nil {
		t.Fatal(err)
	}
	clear(wire)
	if !proto.Equal(got, want) {
		t.Error("the message changed with the buffers")
	}
	// Columns that are appended to don't run into their neighbours.
	kept := bytes.Clone(got.Result.Columns.Histogram.Counts)
	got.Result.Columns.Sum = append(got.Result.Columns.Sum, random(100)...)
	if !bytes.Equal(kept, got.Result.Columns.Histogram.Counts) {
		t.Error("appending to a column changed another")
	}
}

// What isn't written in the plain way is left to protobuf: no columns, columns twice, another result after them.
func TestUnmarshalColumnsFallsBack(t *testing.T) {
	one := mustMarshal(t, &pb.ReduceResponse{Result: columnsResult(3)})
	for name, wire := range map[string][]byte{
		"nothing":   {},
		"rows":      mustMarshal(t, &pb.ReduceResponse{Result: &pb.FrameResult{Regions: []*pb.RegionResult{{Name: "a"}}}}),
		"twice":     append(bytes.Clone(one), one...),
		"truncated": one[:len(one)-1],
	} {
		if done, _ := unmarshalColumns(mem.BufferSlice{mem.SliceBuffer(wire)}, &pb.ReduceResponse{}); done {
			t.Errorf("%s: read by columns", name)
		}
	}
}

func FuzzColumns(f *testing.F) {
	for i, m := range withColumns(3) {
		f.Add(mustMarshal(f, m), []byte{3, 0, 1}, byte(i))
	}
	inner := protowire.AppendTag(nil, 4, protowire.StartGroupType)
	f.Add(append([]byte{0x0a, 4, 0x42, 2}, append(inner, 0)...), []byte{1}, byte(0))
	f.Fuzz(func(t *testing.T, wire, cuts []byte, which byte) {
		all := withColumns(0)
		checkColumns(t, wire, cuts, all[int(which)%len(all)])
	})
}

// BenchmarkUnmarshalColumns is a result of 1000 regions with histograms.
func BenchmarkUnmarshalColumns(b *testing.B) {
	wire := mustMarshal(b, &pb.ReduceResponse{Result: &pb.FrameResult{Columns: &pb.RegionColumns{
		Sum: random(8000), Histogram: &pb.HistogramColumns{Counts: random(1 << 20)}}}})
	var data mem.BufferSlice // as HTTP/2 cuts it
	for rest := wire; len(rest) > 0; {
		n := min(len(rest), 16384)
		data, rest = append(data, mem.SliceBuffer(rest[:n])), rest[n:]
	}
	for name, codec := range map[string]interface {
		Unmarshal(mem.BufferSlice, any) error
	}{"frame": Codec(), "default": plain} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(wire)))
			b.ReportAllocs()
			for b.Loop() {
				if err := codec.Unmarshal(data, &pb.ReduceResponse{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
