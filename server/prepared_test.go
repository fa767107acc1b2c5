package server

import (
	"testing"

	"github.com/polyscan/polyscan/kernels"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// What the device evicts is counted out at once, and prepared again when it is needed.
func TestPreparedAgain(t *testing.T) {
	s := start(t, Config{MemoryBytes: 1 << 20})
	s.put(t, "star", star("s", 60, 100, 100, 90))
	reduce := func() *pb.FrameResult {
		t.Helper()
		res, err := s.inspection.Reduce(t.Context(),
			&pb.ReduceRequest{Inspection: byRecipe("star"), Frame: noisyFrame(200, 200, 1)})
		if err != nil {
			t.Fatal(err)
		}
		return res.GetResult()
	}
	first := reduce()
	if p := s.inspector.Prepared.Stats(); p.Misses != 1 || p.Entries != 1 || p.Bytes == 0 {
		t.Errorf("%+v", p)
	}
	dev, err := s.dev.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	err = dev.Do(t.Context(), kernels.Job{Label: "all", Footprint: 1 << 20}, func(*kernels.Queue) error { return nil })
	dev.End()
	if err != nil {
		t.Fatal(err)
	}
	if p := s.inspector.Prepared.Stats(); p.Entries != 0 || p.Bytes != 0 || p.Evictions != 1 {
		t.Errorf("evicted: %+v", p)
	}
	if again := reduce(); !sameNumbers(again, first) {
		t.Errorf("%v, want %v", again, first)
	}
	reduce()
	if p := s.inspector.Prepared.Stats(); p.Misses != 2 || p.Hits != 1 || p.Entries != 1 {
		t.Errorf("prepared again: %+v", p)
	}
}
