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
	"google.golang.org/protobuf/proto"

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
		"Extract": {200 << 20, func(ctx context.Context, c *clients.Client) error {
			_, err := c.Extract(ctx, &pb.ExtractRequest{Frame: gray16,
				Options: &pb.ExtractOptions{Threshold: 1000, MaxPixels: proto.Float64(0)}})
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

// Regions count while a call has them: those of a stream to its end, those of a recipe while it is stored; and what is
// left in the ledger in the end is that of recipes.
func TestRegionsInLedger(t *testing.T) {
	ts := start(t, Config{})
	ring := make([]float64, 2*20_000)
	for i := range ring {
		ring[i] = float64(i * i % 11) // few rows, so that its extent is soon known
	}
	regions := &pb.RegionSet{Regions: []*pb.Region{{Name: "r", Rings: []*pb.Ring{{Xy: ring}}}}}
	used := func(kind string) float64 {
		return gather(t, ts.gatherer).sum(t, "polyscan_host_memory_bytes", "kind", kind)
	}
	st := ts.open(t, &pb.Inspection{Regions: &pb.Inspection_RegionSet{RegionSet: regions}})
	for range 2 { // not the message alone, which the next one takes the place of
		st.send(smallFrame(1))
		if r := st.recv(); r.GetResult() == nil {
			t.Fatal(r)
		}
	}
	if got, least := used("requests"), 16.0*2*20_000; got < least || got > 2*least {
		t.Errorf("the regions of a stream count as %v bytes, they take %v at least", got, least)
	}
	st.end(nil)
	_, err := ts.recipes.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: &pb.Recipe{Name: "r", RegionSet: regions}})
	if err != nil {
		t.Fatal(err)
	}
	if got, least := used("recipes"), 16.0*2*20_000; got < least || got > 2*least {
		t.Errorf("a recipe counts as %v bytes, it takes %v at least", got, least)
	}
	ts.idleHost(t)
	for deadline := time.Now().Add(10 * time.Second); used("requests") != 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%v bytes of requests are left", used("requests"))
		}
	}
	if _, err := ts.recipes.DeleteRecipe(t.Context(),
		&pb.DeleteRecipeRequest{Recipe: &pb.RecipeRef{Name: "r"}}); err != nil {
		t.Fatal(err)
	}
	if got := used("recipes"); got != 0 {
		t.Errorf("%v bytes of recipes are left", got)
	}
}

// While the heap is full, calls that take much of it are refused, with when to come back; small ones go on.
func TestFullHeap(t *testing.T) {
	ts := start(t, Config{})
	*ts.host.Heap = budget.Heap{Read: func() (int64, int64) { return 2, 1 }}
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
