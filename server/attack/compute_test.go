package attack

// Small requests that ask for much computing: solves, validation, extents, encoding.

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

var computeAttacks = []attack{
	{row: 1, name: "solves without an end", cancelled: true,
		run: func(ctx context.Context, a *attempt) {
			flood(ctx, a, 4, pb.DiffusionService_Solve_FullMethodName,
				endlessSolve(pb.WorkClass_WORK_CLASS_INTERACTIVE))
		}},
	{row: 1, name: "batch solves without an end", cancelled: true, batch: true,
		run: func(ctx context.Context, a *attempt) {
			flood(ctx, a, 4, pb.DiffusionService_Solve_FullMethodName, endlessSolve(pb.WorkClass_WORK_CLASS_BATCH))
		}},
	{row: 3, name: "bad values", cancelled: true,
		run: func(ctx context.Context, a *attempt) {
			flood(ctx, a, 1, pb.InspectionService_Reduce_FullMethodName, badValues(2<<20), deadline...)
		}},
	// p99 is 6.4 to 7.3 ms on two quiet cores, of 5.2: one thread computes, beside what it takes to receive.
	{row: 6, name: "combs beside a camera", camera: true,
		run: func(ctx context.Context, a *attempt) {
			flood(ctx, a, 8, pb.InspectionService_Reduce_FullMethodName, comb())
		}},
	// p99 is 10.5 to 11.9 ms on two quiet cores, of 5.2: messages are received outside the pool of host work.
	{row: 6, name: "bad values beside a camera", camera: true,
		run: func(ctx context.Context, a *attempt) {
			flood(ctx, a, 8, pb.InspectionService_Reduce_FullMethodName, badValues(300<<10))
		}},
	{row: 11, name: "combs with a deadline", cancelled: true,
		run: func(ctx context.Context, a *attempt) {
			flood(ctx, a, 2, pb.InspectionService_Reduce_FullMethodName, comb(), deadline...)
		}},
	{row: 11, name: "random vertices with a deadline", cancelled: true,
		run: func(ctx context.Context, a *attempt) {
			flood(ctx, a, 2, pb.InspectionService_Reduce_FullMethodName, randomVertices(250_000), deadline...)
		}},
	{row: 11, name: "PNGs with a deadline", cancelled: true,
		run: func(ctx context.Context, a *attempt) {
			flood(ctx, a, 2, pb.InspectionService_Rasterize_FullMethodName, rasterize(5600, pb.Encoding_ENCODING_PNG),
				deadline...)
		}},
	{row: 11, name: "distances and winding numbers with a deadline", cancelled: true,
		run: func(ctx context.Context, a *attempt) {
			var both sync.WaitGroup
			for _, mode := range []pb.RasterMode{pb.RasterMode_RASTER_MODE_DISTANCE, pb.RasterMode_RASTER_MODE_WINDING} {
				m := &pb.RasterizeRequest{}
				if err := proto.Unmarshal(rasterize(5600, pb.Encoding_ENCODING_RAW), m); err != nil {
					a.problem("%v", err)
				}
				m.Mode = mode
				both.Go(func() {
					flood(ctx, a, 1, pb.InspectionService_Rasterize_FullMethodName, marshal(m), deadline...)
				})
			}
			both.Wait()
		}},
	{row: 16, name: "solves that are refused",
		asks: true, run: refusedSolve},
}

// deadline is what the cases of a deadline give to each call.
var deadline = []string{"grpc-timeout", "100m"}

// flood sends a request over and over, over so many connections, one call at a time on each. In the end it resets what
// is under way.
func flood(ctx context.Context, a *attempt, connections int, method string, m []byte, headers ...string) {
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			w := dial(a, a.addr, 1<<30)
			defer w.close()
			for ctx.Err() == nil {
				c := w.call(method, headers...)
				err := c.send(ctx, m)
				if err == nil || err == errEnded {
					var code codes.Code
					if code, err = c.wait(ctx); err == nil {
						a.answered(code)
					}
				}
				if err != nil {
					c.reset()
					if ctx.Err() == nil {
						a.problem("a connection broke: %v", err)
					}
					return
				}
			}
		})
	}
	all.Wait()
}

func marshal(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err) // ours
	}
	return b
}

// endlessSolve is 38 bytes.
func endlessSolve(class pb.WorkClass) []byte {
	return marshal(&pb.SolveRequest{WorkClass: class,
		Options: &pb.DiffusionOptions{Tolerance: 1e-9, MaxCycles: 100_000,
			Method: pb.DiffusionMethod_DIFFUSION_METHOD_NAIVE},
		Drawing: &pb.Drawing{Width: 512, Height: 512, Pixels: []*pb.GivenPixel{{X: 1, Y: 1, Red: 255},
			{X: 500, Y: 500}}},
	})
}

// badValues is n statistics that don't exist, a byte each.
func badValues(n int) []byte {
	return marshal(&pb.ReduceRequest{Inspection: &pb.Inspection{
		Regions:    &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "none"}},
		Reductions: &pb.Reductions{Statistics: make([]pb.Statistic, n)},
	}, Frame: grayFrame(8, 8)})
}

// limit of coordinates.
const farthest = 1<<22 - 1

// comb is a polygon of 0.8 MB that is 8 million pixels high, over a frame of 64 pixels.
func comb() []byte {
	const n = 50_000
	xy := make([]float64, 0, 2*n)
	for i := range n {
		y := float64(farthest)
		if i%2 == 0 {
			y = -y
		}
		xy = append(xy, float64(i), y)
	}
	return marshal(&pb.ReduceRequest{Inspection: inspect(&pb.Region{Rings: []*pb.Ring{{Xy: xy}}}),
		Frame: grayFrame(8, 8)})
}

// randomVertices is one polygon of n vertices anywhere.
func randomVertices(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	xy := make([]float64, 2*n)
	for i := range xy {
		xy[i] = (2*r.Float64() - 1) * farthest
	}
	return marshal(&pb.ReduceRequest{Inspection: inspect(&pb.Region{Rings: []*pb.Ring{{Xy: xy}}}),
		Frame: grayFrame(8, 8)})
}

// rasterize asks for a large image in a few bytes.
func rasterize(side uint32, e pb.Encoding) []byte {
	var regions []*pb.Region
	for i := range 200 { // so that encoding has something to do
		r := rectangle("", float64(side), 9.3)
		for k := 1; k < 8; k += 2 {
			r.Rings[0].Xy[k] += float64(28 * i)
		}
		r.Rings[0].Xy[3] += 7
		regions = append(regions, r)
	}
	return marshal(&pb.RasterizeRequest{Width: side, Height: side, Encoding: e,
		Regions: &pb.RasterizeRequest_RegionSet{RegionSet: &pb.RegionSet{Regions: regions}}})
}

// refusedSolve sends a solve of few bytes that gives no pixel: it is refused, and that must cost nothing.
func refusedSolve(ctx context.Context, a *attempt) {
	m := marshal(&pb.SolveRequest{Drawing: &pb.Drawing{Width: 2800, Height: 2800}})
	w := dial(a, a.addr, 1<<30)
	defer w.close()
	begun := time.Now()
	n := 0
	for ; n < 5 && ctx.Err() == nil; n++ {
		c := w.call(pb.DiffusionService_Solve_FullMethodName)
		c.send(ctx, m)
		if _, err := c.wait(ctx); err != nil {
			break
		}
	}
	each := time.Since(begun) / time.Duration(max(n, 1))
	a.felt(each, 30*time.Millisecond, "%d solves of %d bytes were refused after %v each", n, len(m), each)
}
