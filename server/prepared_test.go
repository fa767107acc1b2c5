package server

import (
	"fmt"
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

// Regions that come with each request are kept from the second one on, for the tenant that sent them, and prepared.
func TestInlineRegionsPrepared(t *testing.T) {
	s, _ := startTenants(t, Config{}, "a name=alice role=run", "b name=bob role=run")
	alice, bob := s.as(t, "a"), s.as(t, "b")
	in := inspecting()
	for i := range 40 {
		set := in.GetRegionSet()
		set.Regions = append(set.Regions, star(fmt.Sprint("s", i), 8, float64(4+5*i), 100, 9))
	}
	frame := noisyFrame(200, 200, 1)
	var first *pb.FrameResult
	for i, c := range []struct {
		as           *testServer
		misses, hits uint64
	}{{alice, 0, 0}, {alice, 1, 0}, {alice, 1, 1}, {bob, 1, 1}, {bob, 2, 1}, {alice, 2, 2}, {bob, 2, 3}} {
		res, err := c.as.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: frame})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = res.GetResult()
		}
		if !sameNumbers(res.GetResult(), first) {
			t.Errorf("call %d: %v, want %v", i, res.GetResult(), first)
		}
		if p := s.inspector.Prepared.Stats(); p.Misses != c.misses || p.Hits != c.hits {
			t.Errorf("call %d: %+v", i, p)
		}
	}
	// Others take their places: 16 MiB of sets.
	for i := range 30 {
		in.GetRegionSet().Regions[0].Rings[0].Xy = make([]float64, 40_000+2*i)
		for range 2 {
			if _, err := alice.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: frame}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if p := s.inspector.Prepared.Stats(); p.Misses != 32 || p.Entries >= 30 || p.Evictions != 0 {
		t.Errorf("%+v", p)
	}
}
