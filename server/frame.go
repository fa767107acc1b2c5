// Frames: raw pixels, or image files, to what package polygon takes.

package server

import (
	"context"
	"fmt"
	"time"

	"github.com/polyscan/polyscan/kernels"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// frame is a frame in host memory or on the device, ready to be reduced. Its pixels may be those of the message that it
// came in, which must not be freed before, or lie in shared memory: they may change at any time then, and are to be
// read once.
type frame struct {
	kernels.Picture
	id      string
	decode  time.Duration // what decoding the file took
	release func()        // gives memory back; to be called once
	answer  func()        // gives back what newFrameFor took for the answer; likewise
}

// newFrame finds a Frame that is resident. It checks any other, whose payload is pieces, finds its pixels where they
// are in shared memory, and decodes it where it is a file. path is where it lies in the request. The caller holds a
// lease of the device.
func (s *Server) newFrame(ctx context.Context, m *pb.Frame, pieces [][]byte, path string) (*frame, error) {
	return s.newFrameFor(ctx, m, pieces, path, func(kernels.Picture) (int64, error) { return 0, nil })
}

// newFrameFor is newFrame that takes host memory for the answer as well: share says how much, or that none is possible.
func (s *Server) newFrameFor(ctx context.Context, m *pb.Frame, pieces [][]byte, path string,
	share func(kernels.Picture) (int64, error)) (*frame, error) {
	if _, ok := m.GetSource().(*pb.Frame_Resident); ok {
		f, err := s.residentFrame(m, path)
		if err != nil {
			return nil, err
		}
		return s.withAnswer(ctx, f, share)
	}
	switch e := m.GetEncoding(); e {
	case pb.Encoding_ENCODING_UNSPECIFIED, pb.Encoding_ENCODING_RAW:
		f, err := s.rawFrame(m.GetLayout(), pieces, path)
		if err != nil {
			return nil, err
		}
		release := func() {}
		if p := m.GetShared(); p != nil {
			if release, err = s.shared.place(&f, p, path+".shared"); err != nil {
				return nil, err
			}
		}
		s.metrics.Frames.WithLabelValues("raw").Inc()
		return s.withAnswer(ctx, &frame{Picture: f, id: m.GetFrameId(), release: release}, share)
	case pb.Encoding_ENCODING_AUTO, pb.Encoding_ENCODING_PNG, pb.Encoding_ENCODING_JPEG, pb.Encoding_ENCODING_TIFF,
		pb.Encoding_ENCODING_BMP:
		if m.GetShared() != nil {
			return nil, apierr.Refuse(path+".encoding", e, "must be raw for pixels in shared memory")
		}
		start := time.Now()
		f, kind, err := s.decodeImage(ctx, m, pieces, path, share)
		if err != nil {
			return nil, err
		}
		d := time.Since(start)
		s.metrics.Frames.WithLabelValues(kind.name).Inc()
		s.metrics.Stage("decode", d)
		f.id, f.decode = m.GetFrameId(), d
		return f, nil
	default:
		return nil, apierr.Refuse(path+".encoding", int32(e), "is no encoding")
	}
}

// withAnswer takes the memory for the answer to a frame that holds none of the budget.
func (s *Server) withAnswer(ctx context.Context, f *frame, share func(kernels.Picture) (int64, error)) (*frame, error) {
	n, err := share(f.Picture)
	if err == nil {
		f.answer, err = s.host.Take(ctx, n)
	}
	if err != nil {
		f.release()
		return nil, err
	}
	return f, nil
}

// rawFrame checks what package polygon doesn't: the server's own limit, and what the message leaves open.
func (s *Server) rawFrame(l *pb.FrameLayout, pieces [][]byte, path string) (kernels.Picture, error) {
	if l == nil {
		return kernels.Picture{}, apierr.Refuse(path+".layout", nil, "must be given for raw pixels")
	}
	format, err := wire.FormatOf(l, path)
	if err != nil {
		return kernels.Picture{}, err
	}
	if err := s.checkPixels(l.GetWidth(), l.GetHeight(), path+".layout"); err != nil {
		return kernels.Picture{}, err
	}
	return kernels.Picture{
		Width: int(l.GetWidth()), Height: int(l.GetHeight()), Stride: int(l.GetStride()), Format: format, Data: pieces,
	}, nil
}

// checkPixels keeps the limit on pixels. Sides of 0, and those beyond what any device takes, are left to package
// polygon.
func (s *Server) checkPixels(width, height uint32, path string) error {
	if n := wire.Pixels(width, height); n > s.cfg.MaxFramePixels {
		return apierr.Refuse(path, fmt.Sprintf("%d x %d", width, height), "makes %d pixels: the limit is %d", n,
			s.cfg.MaxFramePixels)
	}
	return nil
}
