package clients

// Low-poly pictures, and triangulation.

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/polyscan/polyscan/proto/framecodec"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Point is a place on the grid of whole numbers, |coordinate| <= 2^28. x points right, y down.
type Point struct{ X, Y int32 }

// Triangle is three indices into the points: the least first, and from there in the turn from the x axis towards the y
// axis.
type Triangle [3]uint32

// Triangulation is what the server made of points.
type Triangulation struct {
	// Triangles in an order that the server's backend chooses, always the same. As a set they are unique.
	Triangles []Triangle
	// Backend that computed it, such as "cpu" or "cuda".
	Backend string
	// Queue is how long the server waited for memory and its device, Compute how long it worked.
	Queue, Compute time.Duration
	// Steps is what the steps of TRIANGULATE_ROUTE_VORONOI found; nil with others.
	Steps *polyscanv1.VoronoiSteps
}

// TriangulateOptions say how to triangulate. The zero value is fine.
type TriangulateOptions struct {
	Class polyscanv1.WorkClass
	Route polyscanv1.TriangulateRoute
}

// pointsInPiece is how many points a message carries: half a megabyte.
const pointsInPiece = 1 << 16

// Triangulate computes the exact Delaunay triangulation of points. They travel in pieces, so there may be more than fit
// in a message. Of equal points the first is used; points that are all on one line have no triangles. points are only
// read, and only during the call.
func (c *Client) Triangulate(ctx context.Context, points []Point, opt TriangulateOptions) (*Triangulation, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rpc, err := c.LowPoly.Triangulate(ctx)
	if err != nil {
		return nil, wrap(err)
	}
	req := &polyscanv1.TriangulateRequest{WorkClass: opt.Class, Route: opt.Route}
	// once without points, too: for what else the first one says
	for rest, more := points, true; more; more = len(rest) > 0 {
		n := min(len(rest), pointsInPiece)
		req.Points = appendPoints(nil, rest[:n])
		if err := rpc.Send(req); err != nil {
			break // Recv says why
		}
		req, rest = &polyscanv1.TriangulateRequest{}, rest[n:]
	}
	if err := rpc.CloseSend(); err != nil {
		return nil, wrap(err)
	}
	res, err := rpc.Recv()
	if err != nil {
		return nil, wrap(err)
	}
	s := res.GetSummary()
	if s == nil || s.GetPoints() != uint64(len(points)) || s.GetTriangles() > 2*uint64(len(points)) {
		return nil, fmt.Errorf("clients: Triangulate: the answer starts with %d triangles of %d points; %d points were sent",
			s.GetTriangles(), s.GetPoints(), len(points))
	}
	t := &Triangulation{
		Triangles: make([]Triangle, 0, s.GetTriangles()),
		Backend:   s.GetBackend(),
		Queue:     s.GetQueue().AsDuration(),
		Compute:   s.GetCompute().AsDuration(),
		Steps:     s.GetSteps(),
	}
	for {
		res, err := rpc.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, wrap(err)
		}
		b := res.GetTriangles()
		if len(b)%12 != 0 || len(b)/12 > cap(t.Triangles)-len(t.Triangles) {
			return nil, fmt.Errorf("clients: Triangulate: a piece of %d bytes behind %d of %d triangles", len(b),
				len(t.Triangles), cap(t.Triangles))
		}
		for ; len(b) > 0; b = b[12:] {
			t.Triangles = append(t.Triangles, Triangle{
				binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:]),
			})
		}
	}
	if len(t.Triangles) != cap(t.Triangles) {
		return nil, fmt.Errorf("clients: Triangulate: %d of %d triangles came", len(t.Triangles), cap(t.Triangles))
	}
	return t, nil
}

// Convert makes a low-poly picture of a frame: the pixels, the mesh or the drawing that req asks for. req is only read,
// and only during the call. What is wrong with it is an [*Error] with the field.
func (c *Client) Convert(ctx context.Context, req *polyscanv1.ConvertRequest) (*polyscanv1.ConvertResponse, error) {
	in := framecodec.New(req)
	res := &polyscanv1.ConvertResponse{}
	if err := c.cc.Invoke(ctx, polyscanv1.LowPolyService_Convert_FullMethodName, in, res, frames); err != nil {
		return nil, wrap(err)
	}
	return res, nil
}

// Diagram is a discrete Voronoi diagram.
type Diagram struct {
	// Labels of the pixels, rows from the top: the index of the nearest site; 1<<32 - 1 where there are no sites.
	Labels []uint32
	// Backend that computed it, such as "cpu" or "cuda".
	Backend string
	// Queue is how long the server waited for memory and its device, Compute how long it worked.
	Queue, Compute time.Duration
}

// Voronoi labels the pixels of an image of a size with their nearest sites, which are pixels. sites are only read, and
// only during the call.
func (c *Client) Voronoi(ctx context.Context, sites []Point, width, height int, method polyscanv1.VoronoiMethod,
	class polyscanv1.WorkClass) (*Diagram, error) {
	if width < 0 || height < 0 || int64(max(width, height)) > math.MaxUint32 {
		return nil, fmt.Errorf("clients: Voronoi: %dx%d is no size of an image", width, height)
	}
	res, err := c.LowPoly.Voronoi(ctx, &polyscanv1.VoronoiRequest{
		WorkClass: class, Width: uint32(width), Height: uint32(height), Method: method, Sites: appendPoints(nil, sites),
	})
	if err != nil {
		return nil, wrap(err)
	}
	b := res.GetLabels()
	if len(b) != 4*width*height {
		return nil, fmt.Errorf("clients: Voronoi: %d bytes of labels came for %dx%d pixels", len(b), width, height)
	}
	d := &Diagram{
		Labels: make([]uint32, width*height), Backend: res.GetBackend(), Queue: res.GetQueue().AsDuration(),
		Compute: res.GetCompute().AsDuration(),
	}
	for i := range d.Labels {
		d.Labels[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return d, nil
}

func appendPoints(b []byte, points []Point) []byte {
	b = slices.Grow(b, 8*len(points))
	for _, p := range points {
		b = binary.LittleEndian.AppendUint32(b, uint32(p.X))
		b = binary.LittleEndian.AppendUint32(b, uint32(p.Y))
	}
	return b
}
