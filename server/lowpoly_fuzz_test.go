package server

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/polyscan/polyscan/proto/framecodec"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Whatever a request has, its answer is a picture of the frame's size with a mesh that covers it, or a canonical error,
// and takes no memory for good.
func FuzzConvert(f *testing.F) {
	for _, m := range []*pb.ConvertRequest{
		{Frame: fourPixels(), Mesh: true, Svg: true},
		{Frame: film(1, 20, 10, 1)[0], Mesh: true, Options: &pb.ConvertOptions{Vertices: 50, Spacing: -1, Cell: 9,
			Border: 7, Previous: make([]byte, 24), Strength: proto.Uint32(9)}},
		{Frame: film(1, 20, 10, 2)[0], Mesh: true,
			Options: &pb.ConvertOptions{Route: pb.TriangulateRoute_TRIANGULATE_ROUTE_VORONOI,
				Stage: pb.ConvertStage_CONVERT_STAGE_VORONOI}},
		{Frame: film(1, 9, 30, 3)[0], Mesh: true,
			Options: &pb.ConvertOptions{Method: pb.ShadeMethod_SHADE_METHOD_PER_TILE,
				Stage: pb.ConvertStage_CONVERT_STAGE_POINTS}, Encoding: pb.Encoding_ENCODING_PNG},
		{Frame: fileFrame(pngOf(f, film(1, 6, 5, 4)[0])), Mesh: true, NoPicture: true},
		{},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	s := start(f, fuzzConfig)
	srv, interceptor := s.lowPoly, chain(s.unaryInterceptors())
	info := &grpc.UnaryServerInfo{Server: srv, FullMethod: pb.LowPolyService_Convert_FullMethodName}
	f.Fuzz(func(t *testing.T, wire []byte) {
		req := &pb.ConvertRequest{}
		if proto.Unmarshal(wire, req) != nil {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		res, err := interceptor(ctx, req, info,
			func(ctx context.Context, req any) (any, error) {
				return whole[pb.ConvertResponse](srv.HandleConvert(ctx, req.(*pb.ConvertRequest),
					framecodec.New(req.(*pb.ConvertRequest))))
			})
		switch {
		case err != nil:
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("it took 20 seconds: %v", err)
			}
			wantCanonical(t, err)
		default:
			checkConverted(t, req, res.(*pb.ConvertResponse))
		}
		if m := s.dev.Memory(); m.Used > 1<<20 {
			t.Errorf("memory of the device in use: %v", m)
		}
	})
}

// checkConverted looks at the parts of an answer: a picture of as many bytes as its layout says, and triangles that
// have its area.
func checkConverted(t *testing.T, req *pb.ConvertRequest, m *pb.ConvertResponse) {
	p := m.GetPicture()
	l := p.GetLayout()
	if (p == nil) != req.GetNoPicture() {
		t.Errorf("the picture is %v", p)
	}
	if n := pixelBytes[l.GetPixelFormat()] * int(l.GetWidth()) * int(l.GetHeight()); p.GetEncoding() == pb.Encoding_ENCODING_RAW &&
		len(p.GetData()) != n {
		t.Errorf("%d bytes of pixels, want %d", len(p.GetData()), n)
	}
	if (len(m.GetSvg()) > 0) != req.GetSvg() || (m.GetMesh() != nil) != req.GetMesh() {
		t.Errorf("a drawing of %d bytes, and the mesh %v", len(m.GetSvg()), m.GetMesh())
	}
	if !req.GetMesh() || p == nil {
		return
	}
	points, triangles := m.GetMesh().GetPoints(), m.GetMesh().GetTriangles()
	at := func(i uint32) (x, y int64) {
		return int64(int32(binary.LittleEndian.Uint32(points[8*i:]))),
			int64(int32(binary.LittleEndian.Uint32(points[8*i+4:])))
	}
	area := int64(0)
	for ; len(triangles) > 0; triangles = triangles[12:] {
		ax, ay := at(binary.LittleEndian.Uint32(triangles))
		bx, by := at(binary.LittleEndian.Uint32(triangles[4:]))
		cx, cy := at(binary.LittleEndian.Uint32(triangles[8:]))
		area += (bx-ax)*(cy-ay) - (by-ay)*(cx-ax)
	}
	if want := 2 * int64(l.GetWidth()) * int64(l.GetHeight()); area != want {
		t.Errorf("the triangles cover %d half pixels of %d", area, want)
	}
}

// Whatever a request has, its answer is a label for each pixel, or a canonical error.
func FuzzVoronoi(f *testing.F) {
	for _, m := range []*pb.VoronoiRequest{
		{Width: 7, Height: 3, Sites: make([]byte, 16)}, {Width: 1, Height: 1}, {},
		{Width: 40, Height: 40, Method: pb.VoronoiMethod_VORONOI_METHOD_GRID, Sites: []byte{39, 0, 0, 0, 39, 0, 0, 0}},
		{Width: 40, Height: 2, Method: pb.VoronoiMethod_VORONOI_METHOD_JUMP_FLOOD,
			Sites: []byte{39, 0, 0, 0, 2, 0, 0, 0}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	s := start(f, fuzzConfig)
	srv, interceptor := s.lowPoly, chain(s.unaryInterceptors())
	info := &grpc.UnaryServerInfo{Server: srv, FullMethod: pb.LowPolyService_Voronoi_FullMethodName}
	f.Fuzz(func(t *testing.T, wire []byte) {
		req := &pb.VoronoiRequest{}
		if proto.Unmarshal(wire, req) != nil {
			return
		}
		if n := uint64(req.GetWidth()) * uint64(req.GetHeight()); n > 1<<14 && n <= 1<<29 {
			return // large, which only takes long
		}
		res, err := interceptor(t.Context(), req, info,
			func(ctx context.Context, req any) (any, error) {
				return whole[pb.VoronoiResponse](srv.HandleVoronoi(ctx, req.(*pb.VoronoiRequest)))
			})
		if err != nil {
			wantCanonical(t, err)
			return
		}
		labels, sites := res.(*pb.VoronoiResponse).GetLabels(), uint32(len(req.GetSites())/8)
		if len(labels) != 4*int(req.GetWidth())*int(req.GetHeight()) {
			t.Fatalf("%d bytes of labels for %dx%d pixels", len(labels), req.GetWidth(), req.GetHeight())
		}
		for ; len(labels) > 0; labels = labels[4:] {
			if l := binary.LittleEndian.Uint32(labels); l >= sites && (sites > 0 || l != 1<<32-1) {
				t.Fatalf("a label is %d; there are %d sites", l, sites)
			}
		}
	})
}
