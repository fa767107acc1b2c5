package attack

// Small requests to what inspects more than sums: blobs, correlations, textures, weighted pixels, planes, masks, and
// pictures as cameras send them.

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

var inspectAttacks = []attack{
	{row: 1, name: "blobs in every second pixel", cancelled: true, run: inspecting(deadline, &pb.Reductions{
		Blobs: specks(2000)})},
	{row: 5, name: "blobs with contours, of many regions", run: inspecting(nil, &pb.Reductions{Blobs: specks(20)},
		grid(20)...)},
	{row: 1, name: "large steps before blobs", cancelled: true, run: inspecting(deadline, &pb.Reductions{
		Blobs: &pb.BlobSpec{Lower: new(1.0), Steps: steps(4)}})},
	{row: 11, name: "a contour of a wide board of checkers", cancelled: true, run: func(ctx context.Context, a *attempt) {
		const width = 1 << 15
		in := inspect(rectangle("all", width, 8))
		in.Reductions = &pb.Reductions{Blobs: &pb.BlobSpec{Lower: new(1.0), Contours: true}}
		flood(ctx, a, 2, pb.InspectionService_Reduce_FullMethodName, marshal(&pb.ReduceRequest{Inspection: in,
			Frame: checkers(width, 8)}), deadline...)
	}},
	{row: 5, name: "regions that are compared with one another", run: func(ctx context.Context, a *attempt) {
		const side = 256 // pixels of 65,536 samples
		regions := []*pb.Region{rectangle("one", side, side)}
		for range 2000 {
			r := rectangle("", side, side)
			r.Reference = &pb.Reference{Region: "one"}
			regions = append(regions, r)
		}
		f := grayFrame(2*side, side)
		f.Layout.Width, f.Layout.PixelFormat = side, pb.PixelFormat_PIXEL_FORMAT_GRAY16LE
		for i := range f.GetData() {
			f.GetData()[i] = byte(i / 2 >> (i % 2 * 8))
		}
		in := inspect(regions...)
		in.Reductions = &pb.Reductions{Statistics: []pb.Statistic{pb.Statistic_STATISTIC_DISTANCES}}
		flood(ctx, a, 2, pb.InspectionService_Reduce_FullMethodName, marshal(&pb.ReduceRequest{Inspection: in, Frame: f}))
	}},
	{row: 11, name: "limits on all of all regions", cancelled: true, run: func(ctx context.Context, a *attempt) {
		var regions []*pb.Region
		for i := range 1000 {
			r := rectangle(fmt.Sprint(i), 2, 2)
			r.Limits = []string{`all of "*".mean > 254.9`}
			regions = append(regions, r)
		}
		f := grayFrame(64, 64)
		f.Layout.Width, f.Layout.PixelFormat = 16, pb.PixelFormat_PIXEL_FORMAT_RGBA8
		flood(ctx, a, 2, pb.InspectionService_Reduce_FullMethodName, marshal(&pb.ReduceRequest{
			Inspection: inspect(regions...), Frame: f}), deadline...)
	}},
	{row: 1, name: "correlations at all distances", cancelled: true, run: inspecting(deadline, &pb.Reductions{
		Correlations: []*pb.CorrelationTerm{{Kind: pb.CorrelationKind_CORRELATION_KIND_RADIAL, Radius: 32}}})},
	{row: 5, name: "textures of all levels, of many regions", run: inspecting(nil, &pb.Reductions{
		Cooccurrence: &pb.CooccurrenceSpec{Levels: 256, Counts: true, Offsets: offsets(4)}}, grid(3)...)},
	{row: 11, name: "textures of regions upon regions", cancelled: true, run: inspecting(deadline, &pb.Reductions{
		Cooccurrence: &pb.CooccurrenceSpec{Offsets: offsets(16)}}, upon(200)...)},
	{row: 11, name: "weighted pixels of regions upon regions", cancelled: true, run: inspecting(deadline, &pb.Reductions{
		Covered: &pb.CoveredSpec{Histogram: true}}, upon(500)...)},
	{row: 11, name: "planes of regions upon regions", cancelled: true, run: inspecting(deadline, &pb.Reductions{
		Statistics: []pb.Statistic{pb.Statistic_STATISTIC_PLANE}}, upon(2000)...)},
	{row: 11, name: "extractions with a deadline", cancelled: true, run: func(ctx context.Context, a *attempt) {
		f, random := grayFrame(600, 600), rand.New(rand.NewPCG(3, 4))
		for i := range f.GetData() { // all of noise is edges
			f.GetData()[i] = byte(random.Uint32())
		}
		flood(ctx, a, 2, pb.DiffusionService_Extract_FullMethodName, marshal(&pb.ExtractRequest{Frame: f}), deadline...)
	}},
	{row: 11, name: "masks of single pixels", cancelled: true, run: inspecting(deadline, &pb.Reductions{
		Statistics: []pb.Statistic{pb.Statistic_STATISTIC_PLANE, pb.Statistic_STATISTIC_MEAN}}, dots(250_000))},
	{row: 6, name: "Bayer pictures of few bytes", cancelled: true, run: func(ctx context.Context, a *attempt) {
		f := checkers(3000, 3000)
		f.Layout = &pb.FrameLayout{PixelFormat: pb.PixelFormat_PIXEL_FORMAT_BAYER_RG8,
			Demosaic: pb.Demosaic_DEMOSAIC_MALVAR_HE_CUTLER}
		flood(ctx, a, 2, pb.InspectionService_Reduce_FullMethodName, marshal(&pb.ReduceRequest{
			Inspection: inspect(rectangle("all", 3000, 3000)), Frame: f}), deadline...)
	}},
	{row: 6, name: "packed pixels of large frames", cancelled: true, run: func(ctx context.Context, a *attempt) {
		const width, height = 4800, 4000
		flood(ctx, a, 2, pb.InspectionService_Reduce_FullMethodName, marshal(&pb.ReduceRequest{
			Inspection: inspect(rectangle("all", width, height)),
			Frame: &pb.Frame{
				Layout: &pb.FrameLayout{Width: width, Height: height, PixelFormat: pb.PixelFormat_PIXEL_FORMAT_MONO10P},
				Source: &pb.Frame_Data{Data: make([]byte, width/4*5*height)},
			}}), deadline...)
	}},
}

// inspecting floods a server with a picture of few bytes that has much to find, from two connections.
func inspecting(headers []string, what *pb.Reductions, regions ...*pb.Region) func(context.Context, *attempt) {
	return func(ctx context.Context, a *attempt) {
		if regions == nil {
			regions = []*pb.Region{rectangle("all", 2000, 2000)}
		}
		in := inspect(regions...)
		in.Reductions = what
		flood(ctx, a, 2, pb.InspectionService_Reduce_FullMethodName, marshal(&pb.ReduceRequest{Inspection: in,
			Frame: checkers(2000, 2000)}), headers...)
	}
}

// checkers is a PNG every second pixel of which is bright.
func checkers(width, height int) *pb.Frame {
	m := image.NewGray(image.Rect(0, 0, width, height))
	for i := range m.Pix {
		m.Pix[i] = byte(255 * ((i/width + i%width) & 1))
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		panic(err) // ours
	}
	return &pb.Frame{Encoding: pb.Encoding_ENCODING_PNG, Source: &pb.Frame_Data{Data: b.Bytes()}}
}

// specks finds each bright pixel, and draws around so many of a region.
func specks(most uint32) *pb.BlobSpec {
	return &pb.BlobSpec{Lower: new(1.0), FourConnected: true, Contours: true, MaxBlobs: most}
}

// steps are as large as they may be. Each counts as two.
func steps(n int) (out []*pb.Morph) {
	for range n {
		out = append(out, &pb.Morph{Kind: pb.MorphKind_MORPH_KIND_OPEN, Radius: 31})
	}
	return out
}

func offsets(n int) (out []*pb.PixelOffset) {
	for i := range n {
		out = append(out, &pb.PixelOffset{Dx: int32(i + 1), Dy: int32(i)})
	}
	return out
}

// grid is n by n regions side by side.
func grid(n int) (out []*pb.Region) {
	side := 2000 / float64(n)
	for i := range n * n {
		x, y := float64(i%n)*side, float64(i/n)*side
		out = append(out, &pb.Region{Rings: []*pb.Ring{{Xy: []float64{x, y, x + side, y, x + side, y + side, x, y + side}}}})
	}
	return out
}

// upon is n regions that all have the whole picture.
func upon(n int) (out []*pb.Region) {
	for range n {
		out = append(out, rectangle("", 2000, 2000))
	}
	return out
}

// dots is a mask of n pixels without neighbours.
func dots(n int) *pb.Region {
	m := &pb.Mask{}
	for i := range int32(n) {
		m.Runs = append(m.Runs, i/1000*2, i%1000*2, i%1000*2+1)
	}
	return &pb.Region{Name: "dots", Mask: m}
}
