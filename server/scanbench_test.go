package server

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// BenchmarkScan sends strips of 4096x128 with 50 regions, each strip when the one before has been answered. A part is
// as long as a strip, or eight of them and starts with every strip. p50 and p99 are from the last line (the start of
// sending it) to the part's result.
func BenchmarkScan(b *testing.B) {
	const width, lines, regions = 4096, 128, 50
	for _, c := range []struct {
		network     string
		part, every int
	}{{"unix", lines, lines}, {"tcp", lines, lines}, {"unix", 8 * lines, 8 * lines}, {"unix", 8 * lines, lines}} {
		b.Run(fmt.Sprintf("%s/%d-lines-every-%d", c.network, c.part, c.every), func(b *testing.B) {
			s := start(b, Config{})
			in := inspecting()
			for i := range regions {
				x := float64(i%10) * width / 10
				y := float64(i/10) * float64(c.part) / 5
				in.GetRegionSet().Regions = append(in.GetRegionSet().Regions,
					star("region", 24, x+width/20, y+float64(c.part)/10, float64(c.part)/10))
			}
			in.GetRegionSet().Regions[regions-1] = rect("last line", 100, float64(c.part-4), 500, float64(c.part))
			belt := newBelt(1, width, lines)
			open := scanOpen(in, width, lines, c.part, c.every)
			open.LatencyBudget = durationpb.New(5 * time.Millisecond)
			stream, err := pb.NewLineScanServiceClient(listen(b, s, c.network)).ScanLines(b.Context(),
				grpc.ForceCodecV2(framecodec.Codec()))
			if err != nil {
				b.Fatal(err)
			}
			call := (&scanCall{LineScanService_ScanLinesClient: stream, t: b}).begin(openRequest(open))
			var latencies []time.Duration
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			b.SetBytes(width * lines)
			b.ResetTimer()
			late := 0
			for n := 0; b.Loop(); n++ {
				begin := time.Now()
				m := framecodec.New(&pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Strip{Strip: &pb.Strip{
					Sequence: uint64(n), FirstLine: uint64(n * lines), NextResult: uint64(len(latencies)),
					Frame: &pb.Frame{Source: &pb.Frame_Data{Data: belt.data}},
				}}})
				if err := call.SendMsg(m); err != nil {
					b.Fatal(err)
				}
				for acked := false; !acked; {
					r, err := call.Recv()
					if err != nil {
						b.Fatal(err)
					}
					if p := r.GetPart(); p != nil {
						latencies = append(latencies, time.Since(begin))
						if p.GetLate() {
							late++
						}
					}
					acked = r.GetAck().GetNextSequence() > uint64(n)
				}
			}
			b.StopTimer()
			runtime.ReadMemStats(&after)
			if len(latencies) > 0 {
				slices.Sort(latencies)
				b.ReportMetric(float64(latencies[len(latencies)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(latencies[len(latencies)*99/100].Microseconds()), "p99-µs")
				b.ReportMetric(float64(late)/float64(len(latencies)), "late/part")
			}
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(b.N), "allocs/strip") // the client's too
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N), "B/strip")
		})
	}
}
