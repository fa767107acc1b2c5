package server

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
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
// none holds some while it waits for more. What they take is reserved until they say that it is there: for a file when
// it is decoded, and for an answer before it is marshalled.
func TestHostMemoryTurns(t *testing.T) {
	all := pictures(700, 700)
	gray16 := fileFrame(encodePicture(t, "png", all["gray16"]))
	transparent := fileFrame(encodePicture(t, "png", all["nrgba"]))
	transparent.Layout = &pb.FrameLayout{PixelFormat: pb.PixelFormat_PIXEL_FORMAT_RGBA8}
	histograms := inspecting(rect("a", 0, 0, 9, 9), rect("b", 9, 0, 18, 9), rect("c", 18, 0, 27, 9))
	histograms.Reductions = &pb.Reductions{Statistics: []pb.Statistic{pb.Statistic_STATISTIC_HISTOGRAM}}
	drawn := &pb.RasterizeRequest{Width: 1200, Height: 1200, Encoding: pb.Encoding_ENCODING_RAW,
		Regions: &pb.RasterizeRequest_RegionSet{RegionSet: histograms.GetRegionSet()}}
	solve := &pb.SolveRequest{Frame: transparent, Options: &pb.DiffusionOptions{MaxCycles: 1}}
	for name, x := range map[string]struct {
		bytes int64 // so that two calls can decode, and neither can go on then
		files int   // each has
		large bool  // its answer is counted when it is marshalled, too
		call  func(context.Context, *clients.Client) error
	}{
		"Reduce": {5 << 20, 1, false, func(ctx context.Context, c *clients.Client) error {
			_, err := c.Reduce(ctx, histograms, gray16)
			return err
		}},
		"StreamFrames": {5 << 20, 6, false, func(ctx context.Context, c *clients.Client) error {
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
		"Solve": {17 << 20, 1, true, func(ctx context.Context, c *clients.Client) error {
			_, err := c.Solve(ctx, solve)
			return err
		}},
		"SolveProgressively": {20 << 20, 1, false, func(ctx context.Context, c *clients.Client) error {
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
		"FillHoles": {8 << 20, 1, true, func(ctx context.Context, c *clients.Client) error {
			_, err := c.FillHoles(ctx, &pb.FillHolesRequest{Frame: transparent, Options: solve.Options})
			return err
		}},
		"Background": {8 << 20, 1, true, func(ctx context.Context, c *clients.Client) error {
			_, err := c.Background(ctx, &pb.BackgroundRequest{Frame: transparent, Options: solve.Options,
				Background: &pb.PictureOutput{}})
			return err
		}},
		"Extract": {200 << 20, 1, true, func(ctx context.Context, c *clients.Client) error {
			_, err := c.Extract(ctx, &pb.ExtractRequest{Frame: gray16,
				Options: &pb.ExtractOptions{Threshold: 1000, MaxPixels: proto.Float64(0)}})
			return err
		}},
		"Blobs": {8 << 20, 1, false, func(ctx context.Context, c *clients.Client) error {
			in := inspecting(rect("a", 0, 0, 700, 700))
			in.Reductions = &pb.Reductions{Blobs: &pb.BlobSpec{Lower: proto.Float64(1), MaxBlobs: 2000}}
			_, err := c.Reduce(ctx, in, gray16)
			return err
		}},
		"Rasterize": {3 << 20, 0, true, func(ctx context.Context, c *clients.Client) error {
			_, err := c.Rasterize(ctx, drawn)
			return err
		}},
		"Rasterize distances": {9 << 20, 0, true, func(ctx context.Context, c *clients.Client) error {
			req := proto.CloneOf(drawn)
			req.Mode = pb.RasterMode_RASTER_MODE_DISTANCE
			_, err := c.Rasterize(ctx, req)
			return err
		}},
		"Rasterize PNG": {5 << 20, 0, false, func(ctx context.Context, c *clients.Client) error {
			req := proto.CloneOf(drawn)
			req.Encoding = pb.Encoding_ENCODING_PNG
			_, err := c.Rasterize(ctx, req)
			return err
		}},
		"Voronoi": {8 << 20, 0, true, func(ctx context.Context, c *clients.Client) error {
			_, err := c.Voronoi(ctx, []clients.Point{{X: 1, Y: 1}}, 700, 700, pb.VoronoiMethod_VORONOI_METHOD_UNSPECIFIED,
				pb.WorkClass_WORK_CLASS_UNSPECIFIED)
			return err
		}},
		"Convert": {10 << 20, 1, true, func(ctx context.Context, c *clients.Client) error {
			_, err := c.Convert(ctx, &pb.ConvertRequest{Frame: transparent, Encoding: pb.Encoding_ENCODING_RAW})
			return err
		}},
		"ConvertFrames": {10 << 20, 2, true, func(ctx context.Context, c *clients.Client) error {
			for a, err := range c.ConvertFrames(ctx, &pb.ConvertFramesOpen{Encoding: pb.Encoding_ENCODING_RAW},
				each(transparent, transparent), clients.StreamOptions{}) {
				if err == nil && a.Err != nil {
					err = a.Err
				}
				if err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ts := start(t, Config{HostBytes: x.bytes, MaxMessageBytes: 16 << 20})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			const calls = 6
			var mu sync.Mutex
			var made [2]int // shares of files, and of answers, before anything is marshalled
			decoded, again := 0, 0
			ts.host.Filled = func(k budget.Kind, before, now int64) {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case k == budget.Results && before > 0 && now > 0:
					again++
				case k == budget.Results && now > 0:
					made[1]++
				case k == budget.Decoding && before > 0 && now > 0:
					decoded++ // what was made for that is no more
				case k == budget.Decoding && before == 0 && now >= 700*700:
					made[0]++
				}
			}
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
			mu.Lock()
			defer mu.Unlock()
			if made[0] != calls*x.files || decoded < calls*x.files || made[1] < calls || x.large && again < calls {
				t.Errorf("%d files were decoded, %d answers made and %d counted again: of %d calls with %d files each", made[0],
					made[1], again, calls, x.files)
			}
			if n := ts.host.Used(budget.Reserved); n > ts.host.Used(budget.Connections)*11 {
				t.Errorf("%d bytes are reserved in the end", n)
			}
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
	*ts.host.Heap = budget.Heap{Read: func() (int64, int64, int64, int64) { return 2, 2, 1, 0 }}
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
