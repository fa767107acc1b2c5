package server

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/clients"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/budget"
)

// Calls that need memory for decoding a file and for the answer, and together more than there is, come to their turns:
// none holds some while it waits for more.
func TestHostMemoryTurns(t *testing.T) {
	all := pictures(700, 700)
	gray16 := fileFrame(encodePicture(t, "png", all["gray16"]))
	transparent := fileFrame(encodePicture(t, "png", all["nrgba"]))
	transparent.Layout = &pb.FrameLayout{PixelFormat: pb.PixelFormat_PIXEL_FORMAT_RGBA8}
	histograms := inspecting(rect("a", 0, 0, 9, 9), rect("b", 9, 0, 18, 9), rect("c", 18, 0, 27, 9))
	histograms.Reductions = &pb.Reductions{Statistics: []pb.Statistic{pb.Statistic_STATISTIC_HISTOGRAM}}
	solve := &pb.SolveRequest{Frame: transparent, Options: &pb.DiffusionOptions{MaxCycles: 1}}
	for name, x := range map[string]struct {
		bytes int64 // so that two calls can decode, and neither can go on then
		call  func(context.Context, *clients.Client) error
	}{
		"Reduce": {5 << 20, func(ctx context.Context, c *clients.Client) error {
			_, err := c.Reduce(ctx, histograms, gray16)
			return err
		}},
		"StreamFrames": {5 << 20, func(ctx context.Context, c *clients.Client) error {
			for a, err := range c.StreamFrames(ctx, histograms, each(gray16, gray16, gray16, gray16, gray16, gray16),
				clients.StreamOptions{}) {
				if err == nil && a.Err != nil {
					err = a.Err
				}
				if err != nil {
					return err
				}
			}
			return nil
		}},
		"Solve": {17 << 20, func(ctx context.Context, c *clients.Client) error {
			_, err := c.Solve(ctx, solve)
			return err
		}},
		"SolveProgressively": {20 << 20, func(ctx context.Context, c *clients.Client) error {
			stream, err := c.Diffusion.SolveProgressively(ctx, &pb.SolveProgressivelyRequest{Request: solve},
				grpc.MaxCallRecvMsgSize(16<<20))
			for err == nil {
				_, err = stream.Recv()
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}},
		"FillHoles": {8 << 20, func(ctx context.Context, c *clients.Client) error {
			_, err := c.FillHoles(ctx, &pb.FillHolesRequest{Frame: transparent, Options: solve.Options})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ts := start(t, Config{HostBytes: x.bytes, MaxMessageBytes: 16 << 20})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			const calls = 6
			done := make(chan error, calls)
			for range calls {
				go func() { done <- x.call(ctx, clients.New(ts.conn)) }()
			}
			for range calls {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			ts.idleHost(t)
		})
	}
}

// While the heap is full, calls that take much of it are refused, with when to come back; small ones go on.
func TestFullHeap(t *testing.T) {
	ts := start(t, Config{})
	*ts.host.Heap = budget.Heap{Limit: 1}
	large := &pb.RasterizeRequest{Width: 2000, Height: 2000,
		Regions: &pb.RasterizeRequest_RegionSet{RegionSet: &pb.RegionSet{Regions: []*pb.Region{rect("a", 0, 0, 9, 9)}}}}
	_, err := ts.inspection.Rasterize(t.Context(), large)
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "interactive") {
		t.Errorf("a large image: %v", err)
	}
	large.Width, large.Height = 100, 100
	if _, err := ts.inspection.Rasterize(t.Context(), large); err != nil {
		t.Errorf("a small one: %v", err)
	}
	if n := gather(t, ts.gatherer).sum(t, "polyscan_heap_shed_total", "class", "interactive"); n != 1 {
		t.Errorf("%v calls were shed", n)
	}
}
