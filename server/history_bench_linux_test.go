package server

import (
	"runtime"
	"slices"
	"testing"
	"time"
)

// BenchmarkScanKept is a line on two servers in turns: one keeps a history, with the lines of all parts at hand for
// pictures, and the other one keeps nothing.
func BenchmarkScanKept(b *testing.B) {
	lines := [2]*line{newLine(b, start(b, Config{})), newLine(b, start(b, Config{HistoryDir: b.TempDir()}))}
	quantiles := map[string]float64{"p50": 0.5, "p90": 0.9, "p99": 0.99}
	ratios := map[string][]float64{}
	var all [2][]time.Duration
	strips := 150
	if testing.Short() {
		strips = 20
	}
	b.SetBytes(watchedWidth * watchedLines * 2 * int64(strips))
	runtime.GC()
	turn := 0
	for b.Loop() {
		var took [2][]time.Duration
		for range strips {
			for i := range lines { // strip by strip, so that both have the same other work on the machine
				which := (i + turn) % 2
				took[which] = append(took[which], lines[which].send())
				time.Sleep(watchedPause)
			}
			turn++
		}
		for i := range took {
			slices.Sort(took[i])
			all[i] = append(all[i], took[i]...)
		}
		for name, p := range quantiles {
			ratios[name] = append(ratios[name], float64(quantile(took[1], p))/float64(quantile(took[0], p)))
		}
	}
	for i := range all {
		slices.Sort(all[i])
	}
	for name, p := range quantiles {
		b.ReportMetric(float64(quantile(all[0], p).Microseconds()), name+"-µs")
		b.ReportMetric(float64(quantile(all[1], p).Microseconds()), "kept-"+name+"-µs")
		slices.Sort(ratios[name])
		b.ReportMetric(ratios[name][len(ratios[name])/2], name+"-ratio")
	}
}
