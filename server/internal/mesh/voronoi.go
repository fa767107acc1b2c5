// LowPolyService: Voronoi.

package mesh

import (
	"context"
	"encoding/binary"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/lowpoly"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/wire"
)

const (
	labelBytes = 4
	// maxPairs bounds the pixels times sites of BRUTE_FORCE: about a minute of a CPU.
	maxPairs = 1 << 36
)

func (s *Service) HandleVoronoi(ctx context.Context, req *pb.VoronoiRequest) (_ *wire.Response, err error) {
	if err := s.Frames.CheckPixels(req.GetWidth(), req.GetHeight(), "height"); err != nil {
		return nil, err
	}
	n := wire.Pixels(req.GetWidth(), req.GetHeight())
	if limit := s.MaxMessageBytes; labelBytes*n > limit {
		return nil, apierr.Refuse("height", req.GetHeight(), "makes %d bytes of labels with a width of %d: the limit is %d",
			labelBytes*n, req.GetWidth(), limit)
	}
	if k := int64(len(req.GetSites()) / pointBytes); req.GetMethod() == pb.VoronoiMethod_VORONOI_METHOD_BRUTE_FORCE &&
		k > maxPairs/max(n, 1) {
		return nil, apierr.Refuse("method", req.GetMethod(), "would compare %d pixels with %d sites: the limit is %d pairs",
			n, k, int64(maxPairs))
	}
	if err := s.checkPoints(req.GetSites(), "sites"); err != nil {
		return nil, err
	}
	share, err := s.Memory.Take(ctx, budget.Results, 2*labelBytes*n+int64(len(req.GetSites())))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			share.Release()
		}
	}()
	dev, err := s.Host.Acquire()
	if err != nil {
		return nil, err
	}
	defer dev.End()
	ctx = kernels.WithMade(kernels.WithClass(ctx, wire.ClassOf(req.GetWorkClass())), share.Add)
	d, err := lowpoly.Voronoi(ctx, dev.Device, readPoints(req.GetSites()),
		int(req.GetWidth()), int(req.GetHeight()), lowpoly.VoronoiMethod(req.GetMethod()))
	if err != nil {
		return nil, wire.FieldError(err, wire.SameField)
	}
	share.FillAll()
	s.Metrics.Stage("queue", d.Queue)
	s.Metrics.Stage("compute", d.Compute)
	res := &wire.Response{Start: time.Now(), Share: share, Release: share.Release}
	labels := make([]byte, 0, labelBytes*len(d.Labels))
	for _, l := range d.Labels {
		labels = binary.LittleEndian.AppendUint32(labels, l)
	}
	res.Message = &pb.VoronoiResponse{Backend: d.Backend, Queue: durationpb.New(d.Queue),
		Compute: durationpb.New(d.Compute), Labels: labels}
	return res, nil
}
