package polygon

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// BenchmarkStripLatency is what batch work does to line-scan: the time from when a strip of 4096x128 is there to the
// results of its 50 regions, with strips at 20 kHz lines, on a device that does nothing else and then on one with four
// batch jobs that reduce large frames. An op is a strip on the idle device and one on the other; run it with -benchtime
// 500x or more.
func BenchmarkStripLatency(b *testing.B) {
	const width, lines, rate = 4096, 128, 20_000
	dev := openCPU(b, kernels.Config{MemoryBytes: 1 << 30, BatchStreams: 4})
	set := mustSet(b, manyRegions(50, 12, width, lines)...)
	scan, err := set.NewScanner(b.Context(), dev, ScanConfig{Width: width, Format: driver.Gray8, PartLines: lines})
	if err != nil {
		b.Fatal(err)
	}
	defer scan.Close()
	strip := noise(width, lines, driver.Gray8)
	part := uint64(0)
	strips := func(n int) []time.Duration {
		ctx := kernels.WithClass(b.Context(), kernels.LineScan)
		took := make([]time.Duration, 0, n)
		const period = lines * time.Second / rate
		for due := time.Now().Add(period); len(took) < n; due = due.Add(period) {
			time.Sleep(time.Until(due))
			first := part * lines
			if err := scan.Start(part, first); err != nil {
				b.Fatal(err)
			}
			got, err := scan.Strip(ctx, ScanStrip{FirstLine: first, Frame: strip, Settled: first + lines})
			if err != nil || len(got) != 1 {
				b.Fatal(got, err)
			}
			took = append(took, time.Since(due))
			part++
		}
		slices.Sort(took)
		return took
	}
	n := b.N
	strips(10) // to warm up
	b.ResetTimer()
	idle := strips(n)

	ctx, cancel := context.WithCancel(kernels.WithClass(b.Context(), kernels.Batch))
	var wg sync.WaitGroup
	large := noise(10000, 4000, driver.Gray8)
	regions := mustSet(b, manyRegions(1, 126, 10000, 4000)...)
	var mu sync.Mutex
	frames := 0
	for range 4 {
		wg.Go(func() {
			for {
				_, err := Reduce(ctx, dev, regions, large, Reductions{Statistics: AllStatistics}, driver.MethodDefault)
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					b.Error(err)
					return
				}
				mu.Lock()
				frames++
				mu.Unlock()
			}
		})
	}
	start := time.Now()
	busy := strips(n)
	took := time.Since(start)
	cancel()
	wg.Wait()
	b.StopTimer()
	at := func(d []time.Duration, percent int) float64 {
		return float64(d[(len(d)-1)*percent/100].Nanoseconds()) / 1e3
	}
	for _, p := range []struct {
		name    string
		percent int
	}{{"p50", 50}, {"p99", 99}, {"max", 100}} {
		b.ReportMetric(at(idle, p.percent), "idle-"+p.name+"-us")
		b.ReportMetric(at(busy, p.percent), "busy-"+p.name+"-us")
	}
	b.ReportMetric(at(busy, 99)/at(idle, 99), "p99-ratio")
	b.ReportMetric(float64(frames)/took.Seconds(), "batch-frames/s")
	b.ReportMetric(0, "ns/op")
}
