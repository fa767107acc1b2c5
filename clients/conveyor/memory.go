package main

// The server's memory while a run goes on.

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// memoryReport is what has been seen of the server's resident memory, in bytes. Start is after the warm-up.
type memoryReport struct {
	Start  int64 `json:"start_bytes"`
	End    int64 `json:"end_bytes"`
	Peak   int64 `json:"peak_bytes"`
	Growth int64 `json:"growth_bytes"`
}

// residentMemory reads the resident memory of a process, or of the one behind a URL of Prometheus metrics.
func residentMemory(ctx context.Context, pid int, url string) (int64, error) {
	if url != "" {
		return scrape(ctx, url)
	}
	name := fmt.Sprintf("/proc/%d/statm", pid)
	data, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0, fmt.Errorf("%s: %q", name, data)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// residentMetric is how Prometheus' own collectors call it.
const residentMetric = "process_resident_memory_bytes"

func scrape(ctx context.Context, url string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", url, res.Status)
	}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), residentMetric+" "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
			return int64(f), err
		}
	}
	return 0, fmt.Errorf("%s: no %s", url, residentMetric)
}

// memoryWatch samples the server's memory.
type memoryWatch struct {
	mu     sync.Mutex
	report memoryReport
	err    error
}

// run samples from the end of the warm-up until ctx ends.
func (w *memoryWatch) run(ctx context.Context, warmUp time.Duration, pid int, url string) {
	timer := time.NewTimer(warmUp)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		w.sample(ctx, pid, url)
		timer.Reset(time.Second)
	}
}

func (w *memoryWatch) sample(ctx context.Context, pid int, url string) {
	n, err := residentMemory(ctx, pid, url)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.err = err
		return
	}
	if w.report.Start == 0 {
		w.report.Start = n
	}
	w.report.End = n
	w.report.Peak = max(w.report.Peak, n)
	w.report.Growth = n - w.report.Start
}
