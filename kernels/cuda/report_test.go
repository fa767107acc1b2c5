//go:build cuda

package cuda

// The suite's frame: it needs a GPU, fails without one, and writes a report of a full run.

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"gorgonia.org/cu"

	"github.com/polyscan/polyscan/internal/devicetest"
)

// The report is written where this says, which is kernels/cuda/testdata/gpu_report.json for one that is to be
// committed. CI compares the hash in it with that of the sources.
var reportPath = flag.String("report", os.Getenv("POLYSCAN_GPU_REPORT"), "write a report of the run to this file")

// gpuReport is the report; tools/gpureport reads it.
type gpuReport struct {
	SourceSHA256 string     `json:"source_sha256"`
	Device       string     `json:"device"`
	Driver       string     `json:"driver"`
	CUDA         string     `json:"cuda"`    // the newest that the driver supports
	Toolkit      string     `json:"toolkit"` // that compiled the kernels
	Capability   string     `json:"capability"`
	Units        int        `json:"multiprocessors"`
	MemoryBytes  int64      `json:"memory_bytes"`
	Go           string     `json:"go"`
	Tests        testCounts `json:"tests"`
	Benchmarks   []row      `json:"benchmarks"`
}

type testCounts struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

// tally counts tests and subtests.
var tally struct {
	sync.Mutex
	testCounts
}

// counted has to be called by every test.
func counted(t *testing.T) {
	t.Cleanup(func() {
		tally.Lock()
		defer tally.Unlock()
		switch {
		case t.Failed():
			tally.Failed++
		case t.Skipped():
			tally.Skipped++
		default:
			tally.Passed++
		}
	})
}

// counting is t for the suite of devicetest, with its subtests counted.
type counting struct{ *testing.T }

func (c counting) Run(name string, f func(devicetest.T)) bool {
	return c.T.Run(name, func(t *testing.T) {
		counted(t)
		f(counting{t})
	})
}

func TestMain(m *testing.M) {
	flag.Parse()
	dev, err := Driver.Open(0)
	if err != nil {
		// Not a skip: a run that tried nothing must not look like one that found nothing wrong.
		fmt.Fprintln(os.Stderr, "the GPU suite needs a GPU:", err)
		os.Exit(1)
	}
	info, total := dev.Info(), dev.(*device).total
	if err := dev.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if len(rows) > 0 {
		fmt.Print(table(rows))
	}
	if *reportPath != "" {
		r := gpuReport{
			Device: info.Device, Driver: driverVersion(),
			CUDA:       fmt.Sprintf("%d.%d", cu.Version()/1000, cu.Version()%1000/10),
			Capability: info.Capability, Units: info.ComputeUnits, MemoryBytes: total, Go: runtime.Version(),
			Tests: tally.testCounts, Benchmarks: rows,
		}
		if err := writeReport(&r); err != nil {
			fmt.Fprintln(os.Stderr, "report:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// writeReport fills in what the kernels were made from.
func writeReport(r *gpuReport) error {
	for _, name := range []string{"test.run", "test.skip", "test.short"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != f.DefValue {
			return fmt.Errorf("none is written with -%s: it has to be about all tests", name)
		}
	}
	b, err := fatbins.ReadFile("fatbin/BUILD")
	if err != nil {
		return err
	}
	for _, line := range strings.Split(string(b), "\n") {
		if v, ok := strings.CutPrefix(line, "nvcc "); ok {
			r.Toolkit = v
		}
		if v, ok := strings.CutPrefix(line, "sources "); ok {
			r.SourceSHA256 = v
		}
	}
	if r.SourceSHA256 == "" || r.Toolkit == "" {
		return errors.New("fatbin/BUILD: no line \"sources\" or \"nvcc\"")
	}
	if len(r.Benchmarks) == 0 {
		return errors.New("no benchmark was run")
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(*reportPath, append(text, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Printf("report: %s: %d passed, %d failed, %d skipped, %d benchmarks\n", *reportPath, r.Tests.Passed,
		r.Tests.Failed, r.Tests.Skipped, len(r.Benchmarks))
	return nil
}

// driverVersion is the version of the kernel module, such as "580.159.04".
func driverVersion() string {
	b, err := os.ReadFile("/proc/driver/nvidia/version")
	if err == nil {
		if v := regexp.MustCompile(`\b\d{3,}\.\d+(\.\d+)?\b`).Find(b); v != nil {
			return string(v)
		}
	}
	return fmt.Sprintf("CUDA %d", cu.Version())
}

// The sources at hand are those that the embedded kernels were made from: a report would be about others.
func TestSources(t *testing.T) {
	counted(t)
	b, err := fatbins.ReadFile("fatbin/BUILD")
	if err != nil {
		t.Fatal(err)
	}
	if want := "sources " + sourceHash(t) + "\n"; !strings.Contains(string(b), want) {
		t.Errorf("the kernels in this binary were not made from the sources at hand, %s", strings.TrimSpace(want))
	}
}
