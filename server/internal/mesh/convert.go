// LowPolyService: Convert.

package mesh

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/lowpoly"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/frames"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// Desc is the generated description of the service with handlers that don't copy frames, and give memory of
// answers back when they are written.
func Desc() *grpc.ServiceDesc {
	return wire.WithHandlers(pb.LowPolyService_ServiceDesc, map[string]grpc.MethodHandler{
		"Convert": wire.FrameHandler(pb.LowPolyService_Convert_FullMethodName, (*Service).HandleConvert),
		"Voronoi": wire.PlainHandler(pb.LowPolyService_Voronoi_FullMethodName, (*Service).HandleVoronoi),
	}, map[string]grpc.StreamHandler{
		"ConvertFrames": func(srv any, stream grpc.ServerStream) error {
			return srv.(*Service).HandleConvertFrames(stream)
		},
	})
}

func (s *Service) HandleConvert(ctx context.Context, req *pb.ConvertRequest, in *framecodec.Message) (*wire.Response,
	error) {
	dev, err := s.Host.Acquire()
	if err != nil {
		return nil, err
	}
	defer dev.End()
	opt, err := s.convertOptions(req.GetOptions(), "")
	if err != nil {
		return nil, err
	}
	f, err := s.Frames.ReadFor(ctx, req.GetFrame(), in.Pieces(nil), "frame", func(f kernels.Picture) (int64, error) {
		return s.convertShare(req, f, &opt, req.GetOptions().GetPrevious(), "")
	})
	if err != nil {
		return nil, err
	}
	defer f.Release()
	opt.Previous = readPoints(req.GetOptions().GetPrevious())
	p, err := lowpoly.Convert(kernels.WithClass(ctx, wire.ClassOf(req.GetWorkClass())), dev.Device, f.Picture, opt)
	in.Free()
	if err != nil {
		f.Answer.Release()
		return nil, convertError(err, "")
	}
	f.Answer.FillAll()
	s.Metrics.Stage("queue", p.Queue)
	s.Metrics.Stage("compute", p.Compute)
	res := &wire.Response{Start: time.Now(), Share: f.Answer, Release: f.Answer.Release}
	m, pixels, err := s.convertResponse(ctx, req, f, p)
	if err != nil {
		f.Answer.Release()
		return nil, err
	}
	out := framecodec.New(m)
	if pixels != nil {
		out.SetPayload(mem.BufferSlice{mem.SliceBuffer(pixels)})
	}
	res.Message = out
	return res, nil
}

// convertOptions translates options, which are in the message at prefix, but for the points before: their copy has to
// wait for host memory. What package lowpoly checks is left to it.
func (s *Service) convertOptions(o *pb.ConvertOptions, prefix string) (lowpoly.Options, error) {
	opt := lowpoly.Options{
		Seed: o.GetSeed(), Floor: int(o.GetFloor()), Spacing: int(o.GetSpacing()), Border: int(o.GetBorder()),
		Cell:   int(o.GetCell()),
		Method: lowpoly.ShadeMethod(o.GetMethod()), Route: routeOf(o.GetRoute()), Strength: int(o.GetStrength()),
		Hold:    int(o.GetHold()),
		Voronoi: lowpoly.VoronoiMethod(o.GetVoronoi()),
	}
	opt.Vertices = lowpoly.DefaultVertices
	if v := o.GetVertices(); v != 0 {
		opt.Vertices = int(v)
	}
	if opt.Vertices > s.MaxPoints {
		return opt, apierr.Refuse(prefix+"options.vertices", opt.Vertices, "are more than the server's limit of %d",
			s.MaxPoints)
	}
	if o.GetColor() == pb.TriangleColor_TRIANGLE_COLOR_CENTROID {
		opt.Color = lowpoly.CentroidColor
	}
	if v := o.GetStage(); v != pb.ConvertStage_CONVERT_STAGE_UNSPECIFIED {
		opt.Stage = lowpoly.Stage(v - pb.ConvertStage_CONVERT_STAGE_SHADED)
	}
	return opt, s.checkPoints(o.GetPrevious(), prefix+"options.previous")
}

// checkPoints checks points as messages have them.
func (s *Service) checkPoints(b []byte, path string) error {
	if len(b)%pointBytes != 0 || len(b)/pointBytes > s.MaxPoints {
		return apierr.Refuse(path, len(b), "must be a multiple of %d bytes, for up to %d points", pointBytes, s.MaxPoints)
	}
	return nil
}

// readPoints reads points that were checked. They take as much memory as in the message.
func readPoints(b []byte) []lowpoly.Point {
	return appendPoints(make([]lowpoly.Point, 0, len(b)/pointBytes), b)
}

func appendPoints(points []lowpoly.Point, b []byte) []lowpoly.Point {
	for ; len(b) > 0; b = b[pointBytes:] {
		points = append(points, lowpoly.Point{
			X: int32(binary.LittleEndian.Uint32(b)), Y: int32(binary.LittleEndian.Uint32(b[4:])),
		})
	}
	return points
}

// What a vertex and its two triangles take of host memory, about: in the mesh, in the message, and as a drawing.
const (
	vertexShare    = pointBytes + 2*(triangleBytes+2*4)
	vertexSVGShare = 2 * 2 * 80 // the buffer of a file grows by doubling
)

// convertShare is the host memory that a picture takes, with what belongs to it, and a copy of the points before. A
// picture that no message can carry is refused, and one that would take too long.
func (s *Service) convertShare(req *pb.ConvertRequest, f kernels.Picture, opt *lowpoly.Options, previous []byte,
	prefix string) (int64, error) {
	n := int64(f.Width) * int64(f.Height)
	size := n * int64(f.Format.PixelBytes())
	if limit := s.MaxMessageBytes; size > limit && !req.GetNoPicture() {
		return 0, apierr.Refuse("frame", [2]int{f.Width, f.Height}, "makes a picture of %d bytes: the limit is %d", size,
			limit)
	}
	if opt.Stage == lowpoly.StageVoronoi && opt.Voronoi == lowpoly.BruteForce &&
		int64(opt.Vertices) > maxPairs/max(n, 1) {
		return 0, apierr.Refuse(prefix+"options.voronoi", pb.VoronoiMethod_VORONOI_METHOD_BRUTE_FORCE,
			"would compare %d pixels with %d vertices: the limit is %d pairs", n, opt.Vertices, int64(maxPairs))
	}
	share := size + 2*int64(len(previous)) // a video has a copy of its own
	switch opt.Stage {
	case lowpoly.StageEdges, lowpoly.StagePoints:
		share += 3 * n
	case lowpoly.StageVoronoi:
		share += 4*n + size
	}
	if req.GetEncoding() == pb.Encoding_ENCODING_PNG {
		share += 4*n + size
	}
	each := int64(vertexShare)
	if req.GetMesh() {
		each *= 2
	}
	if req.GetSvg() {
		each += vertexSVGShare
	}
	return share + each*min(int64(opt.Vertices), int64(f.Width+1)*int64(f.Height+1)), nil
}

// convertError turns an *InvalidError into a *FieldError and leaves other errors alone. Options are in the message at
// prefix.
func convertError(err error, prefix string) error {
	return wire.FieldError(err, func(v kernels.Violation) (path, value, reason string) {
		if path = prefix + "options." + v.Path.String(); wire.Root(v) == "image" {
			path = wire.FramePath("frame", v.Path[1:])
		}
		return path, v.Value, v.Reason
	})
}

// convertResponse makes the message of a picture, and its payload: the pixels of the picture itself, or a file; nil
// where none is wanted.
func (s *Service) convertResponse(ctx context.Context, req *pb.ConvertRequest, f *frames.Frame,
	p *lowpoly.Result) (*pb.ConvertResponse, []byte, error) {
	mesh := &p.Mesh
	m := &pb.ConvertResponse{
		Decode:  durationpb.New(f.Decode),
		Backend: p.Backend, Queue: durationpb.New(p.Queue), Compute: durationpb.New(p.Compute),
		Vertices: uint64(len(mesh.Points)), Triangles: uint64(len(mesh.Triangles)),
	}
	if req.GetMesh() {
		m.Mesh = meshMessage(mesh)
	}
	if req.GetSvg() {
		var b bytes.Buffer
		if err := mesh.WriteSVG(&b); err != nil {
			return nil, nil, err
		}
		m.Svg = b.Bytes()
	}
	if req.GetNoPicture() {
		return m, nil, nil
	}
	m.Picture = &pb.Frame{
		Layout:   wire.LayoutOf(p.Picture),
		Encoding: pb.Encoding_ENCODING_RAW,
		FrameId:  f.ID,
	}
	if req.GetEncoding() != pb.Encoding_ENCODING_PNG {
		return m, p.Bytes(), nil
	}
	m.Picture.Encoding = pb.Encoding_ENCODING_PNG
	file, err := s.Frames.PNG(ctx, p.Image())
	return m, file, err
}

func meshMessage(mesh *lowpoly.Mesh) *pb.Mesh {
	m := &pb.Mesh{
		Points:    make([]byte, 0, len(mesh.Points)*pointBytes),
		Triangles: appendTriangles(make([]byte, 0, len(mesh.Triangles)*triangleBytes), mesh.Triangles),
		Colors:    make([]byte, 0, 4*len(mesh.Colors)),
	}
	for _, p := range mesh.Points {
		m.Points = binary.LittleEndian.AppendUint32(m.Points, uint32(p.X))
		m.Points = binary.LittleEndian.AppendUint32(m.Points, uint32(p.Y))
	}
	for _, c := range mesh.Colors {
		m.Colors = append(m.Colors, c.R, c.G, c.B, c.A)
	}
	return m
}

// appendTriangles appends triangles as messages have them.
func appendTriangles(b []byte, triangles []lowpoly.Triangle) []byte {
	for _, t := range triangles {
		b = binary.LittleEndian.AppendUint32(b, t.A)
		b = binary.LittleEndian.AppendUint32(b, t.B)
		b = binary.LittleEndian.AppendUint32(b, t.C)
	}
	return b
}
