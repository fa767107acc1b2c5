package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestResidentMemory(t *testing.T) {
	page := "# HELP go_threads Number of OS threads created.\ngo_threads 9\nprocess_resident_memory_bytes 4.5678592e+07\n"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, page)
	}))
	defer func() {
		http.DefaultClient.CloseIdleConnections()
		s.Close()
	}()
	if n, err := residentMemory(t.Context(), 0, s.URL+"/metrics"); err != nil || n != 45678592 {
		t.Errorf("%d, %v", n, err)
	}
	page = "go_threads 9\n"
	for _, url := range []string{s.URL + "/metrics", s.URL, "http://[", "http://127.0.0.1:1/metrics"} {
		if n, err := residentMemory(t.Context(), 0, url); err == nil {
			t.Errorf("%s: %d, no error", url, n)
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	if n, err := residentMemory(t.Context(), os.Getpid(), ""); err != nil || n < 1<<20 {
		t.Errorf("this process: %d, %v", n, err)
	}
	if _, err := residentMemory(t.Context(), 1<<30, ""); err == nil {
		t.Error("a process that isn't there: no error")
	}
}

// TestMemoryWatch: growth is from the first sample to the last, and an error is kept.
func TestMemoryWatch(t *testing.T) {
	sizes := []float64{100e6, 130e6, 110e6}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if len(sizes) == 0 {
			http.Error(w, "gone", http.StatusGone)
			return
		}
		fmt.Fprintf(w, "%s %g\n", residentMetric, sizes[0])
		sizes = sizes[1:]
	}))
	defer func() {
		http.DefaultClient.CloseIdleConnections()
		s.Close()
	}()
	w := &memoryWatch{}
	for range 3 {
		w.sample(context.Background(), 0, s.URL)
	}
	if w.err != nil || w.report != (memoryReport{Start: 100e6, End: 110e6, Peak: 130e6, Growth: 10e6}) {
		t.Errorf("%+v, %v", w.report, w.err)
	}
	if w.sample(t.Context(), 0, s.URL); w.err == nil || !strings.Contains(w.err.Error(), "410") {
		t.Errorf("%v", w.err)
	}
}
