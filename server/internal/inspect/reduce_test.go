package inspect

import (
	"context"
	"errors"
	"testing"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/servertest"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// A call that ends while its regions are being prepared is no bug.
func TestPrepareCanceled(t *testing.T) {
	h := servertest.NewHost(t, cpu.New(cpu.Options{Threads: 2}))
	s := New(Config{Host: h, Frames: h.Frames, Memory: h.Memory, Metrics: h.Metrics, PreparedBytes: 1 << 20})
	what, err := wire.NewInspection(t.Context(), &pb.Inspection{
		Regions: &pb.Inspection_RegionSet{RegionSet: &pb.RegionSet{Regions: []*pb.Region{
			{Name: "r", Rings: []*pb.Ring{{Xy: []float64{0, 0, 2, 0, 2, 1, 0, 1}}}},
		}}},
		Reductions: &pb.Reductions{Statistics: []pb.Statistic{pb.Statistic_STATISTIC_SUM}},
	}, "open", "frame", nil, nil, polygon.Bounds{MaxRegions: 1, MaxVertices: 4, MaxRegionVertices: 4}, nil)
	if err != nil {
		t.Fatal(err)
	}
	what.Keep = true
	dev, err := h.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer dev.End()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := kernels.Picture{Width: 2, Height: 1, Format: kernels.Gray8, Data: [][]byte{{1, 2}}}
	if res, err := s.run(ctx, dev, what, f); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", res, err)
	}
	if res, err := s.run(t.Context(), dev, what, f); err != nil || res.Regions[0].Channels[0].Sum != 3 {
		t.Errorf("the next call: %v, %v", res, err)
	}
	s.Close()
}
