package server

import (
	"testing"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// What GetDevice says of memory adds up, and its scheduler counts jobs under the class that they asked for.
func TestDeviceStatus(t *testing.T) {
	s := start(t, Config{FrameCopyBytes: 1 << 20})
	c := s.frameClient()
	name := c.put(t, noisyFrame(100, 100, 1)).GetName()
	c.release(t, c.put(t, noisyFrame(30, 30, 1)).GetName())
	s.put(t, "star", star("s", 9, 50, 50, 40))
	for class, n := range map[pb.WorkClass]int{pb.WorkClass_WORK_CLASS_BATCH: 3, pb.WorkClass_WORK_CLASS_INTERACTIVE: 2,
		0: 1} {
		in := byRecipe("star")
		in.WorkClass = class
		for range n {
			if _, err := s.inspection.Reduce(t.Context(),
				&pb.ReduceRequest{Inspection: in, Frame: keptFrame(name)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	d, err := s.device.GetDevice(t.Context(), &pb.GetDeviceRequest{})
	if err != nil {
		t.Fatal(err)
	}
	m := d.GetMemory()
	labels := uint64(0)
	for _, n := range m.GetUsedBytesByLabel() {
		labels += n
	}
	if labels != m.GetUsedBytes() || m.GetScratchBytes()+m.GetSessionBytes()+m.GetResidentBytes() != m.GetUsedBytes() ||
		m.GetEvictableBytes() != m.GetResidentBytes() || m.GetUsedBytesByLabel()["resident frames"] != 10240 ||
		m.GetLargestFreeBytes()+m.GetUsedBytes() > m.GetReservedBytes() || m.GetLargestFreeBytes() == 0 {
		t.Errorf("%v", m)
	}
	if r := d.GetResidentFrames(); r.GetFrames() != 1 || r.GetBytes() != 10240 || r.GetCopyBytes() != 10000 ||
		r.GetMaxBytes() != m.GetReservedBytes()/2 ||
		r.GetMaxFrames() != uint64(standard.MaxFrames) || r.GetGone()["released"] != 1 || len(r.GetGone()) != 1 {
		t.Errorf("%v", r)
	}
	done := map[string]uint64{}
	for _, c := range d.GetScheduler() {
		done[c.GetName()] = c.GetDone()
		if c.GetDone() != c.GetAdmitted() || c.GetRunning() != 0 || c.GetWaiting() != 0 {
			t.Errorf("%v", c)
		}
	}
	// Two uploads with copies, and one preparation besides: by which of the calls is open.
	if done["line-scan"] != 0 || done["batch"] < 3 || done["interactive"] < 7 || done["batch"]+
		done["interactive"] != 11 {
		t.Errorf("%v", done)
	}
}
