package attack

// Results that are large, or that nobody reads.

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

var unreadAttacks = []attack{
	{row: 4, name: "rasterised images that nobody reads", args: []string{"--stream-idle", "2s"}, run: unreadImages},
	{row: 4, name: "small images that nobody reads", run: unreadSmall},
	{row: 5, name: "recipes of many regions, RGBA", run: manyRegions},
	{row: 5, name: "streams of many regions that nobody reads", run: unreadStreams},
	// p99 is 25 to 185 ms on two quiet cores, of 40, p50 as alone: 500 connections come at once.
	{row: 16, name: "metrics that nobody reads", run: unreadMetrics},
}

// unreadImages asks for 40 images of 30 MiB over a connection without windows.
func unreadImages(ctx context.Context, a *attempt) {
	m := rasterize(5600, pb.Encoding_ENCODING_RAW)
	w := dial(a, a.addr, 0)
	defer w.close()
	calls := make([]*call, 40)
	for i := range calls {
		calls[i] = w.call(pb.InspectionService_Rasterize_FullMethodName)
		calls[i].send(ctx, m)
	}
	begun := time.Now()
	for _, c := range calls {
		c.wait(ctx)
	}
	if ctx.Err() != nil && time.Since(begun) > 3*time.Second && *attackTime >= 3*time.Second {
		ended := 0
		for _, c := range calls {
			w.lock(func() {
				if c.done {
					ended++
				}
			})
		}
		if ended == 0 {
			a.problem("no call ended whose client reads nothing, with an idle timeout of 2 s")
		}
	}
}

// unreadSmall asks for 800 images of a megabyte, which is less than any budget counts, over connections without
// windows.
func unreadSmall(ctx context.Context, a *attempt) {
	m := rasterize(1000, pb.Encoding_ENCODING_RAW)
	for range 8 {
		w := dial(a, a.addr, 0)
		defer w.close()
		for range 100 {
			w.call(pb.InspectionService_Rasterize_FullMethodName).send(ctx, m)
		}
	}
	<-ctx.Done()
}

const regionsOfRecipe = 20_000

// putRecipe stores the recipe of many small regions, where it is not stored as often already as the server allows. The
// end of ctx doesn't end that: the attack begins after it.
func putRecipe(ctx context.Context, a *attempt) {
	regions := make([]*pb.Region, regionsOfRecipe)
	for i := range regions {
		regions[i] = rectangle(fmt.Sprintf("region %d of a board of many", i), 8, 8)
	}
	_, err := pb.NewRecipeServiceClient(a.client(a)).PutRecipe(context.WithoutCancel(ctx), &pb.PutRecipeRequest{
		Recipe: &pb.Recipe{Name: "many", RegionSet: &pb.RegionSet{Regions: regions}}})
	if err != nil && !strings.Contains(err.Error(), "recipes: the recipe takes") {
		a.problem("put a recipe: %v", err)
	}
}

func ofRecipe() *pb.Inspection {
	return &pb.Inspection{Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "many"}}}
}

func colourFrame() *pb.Frame {
	return &pb.Frame{
		Layout: &pb.FrameLayout{Width: 64, Height: 64, PixelFormat: pb.PixelFormat_PIXEL_FORMAT_RGBA8},
		Source: &pb.Frame_Data{Data: make([]byte, 4*64*64)},
	}
}

func manyRegions(ctx context.Context, a *attempt) {
	putRecipe(ctx, a)
	m := marshal(&pb.ReduceRequest{Inspection: ofRecipe(), Frame: colourFrame()})
	flood(ctx, a, 16, pb.InspectionService_Reduce_FullMethodName, m)
}

func unreadStreams(ctx context.Context, a *attempt) {
	putRecipe(ctx, a)
	open := marshal(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Open{Open: ofRecipe()}})
	frame := marshal(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: colourFrame()}})
	b := append(prefix(len(open)), open...)
	for range 20 {
		b = append(append(b, prefix(len(frame))...), frame...)
	}
	w := dial(a, a.addr, 0)
	defer w.close()
	var all sync.WaitGroup
	for range 22 {
		c := w.call(pb.InspectionService_StreamFrames_FullMethodName)
		all.Go(func() { c.data(ctx, b, 0, false) })
	}
	all.Wait()
	<-ctx.Done()
}

// unreadMetrics asks for the metrics over many connections, again and again, and reads none.
func unreadMetrics(ctx context.Context, a *attempt) {
	before := a.resident()
	const n = 500
	open := 0
	for range n {
		conn, err := net.DialTimeout("tcp", a.web, time.Second)
		if err != nil {
			break
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Second))
		conn.(*net.TCPConn).SetReadBuffer(4096)
		for range 20 {
			io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
		}
		open++
	}
	<-ctx.Done()
	if grown := a.resident() - before; grown > 100e6 {
		a.problem("%d connections that don't read their metrics hold %d MB", open, grown/1e6)
	}
}
