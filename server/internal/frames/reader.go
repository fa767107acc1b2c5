package frames

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/kernels"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/hostwork"
	"github.com/polyscan/polyscan/server/internal/observe"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// Frame is a frame in host memory or on the device, ready to be reduced. Its pixels may be those of the message that it
// came in, which must not be freed before, or lie in shared memory: they may change at any time then, and are to be
// read once.
type Frame struct {
	kernels.Picture
	ID      string
	Decode  time.Duration // what decoding the file took
	Release func()        // gives memory back; to be called once
	Answer  *budget.Share // what ReadFor took for the answer; whoever makes that fills it, and releases it
}

// Residents finds the frames that stay on the device.
type Residents interface {
	// Use returns a frame with its pixels on the device, and the client's own name of it. It must be one that who may
	// use. The caller holds a lease of the device, and calls release before that ends.
	Use(who auth.Caller, name string) (f kernels.Picture, id string, release func(), err error)
	// Keep puts a frame, whose pixels are in host memory, among those of who. The caller holds a lease of the device.
	Keep(ctx context.Context, who auth.Caller, dev *kernels.Device, f kernels.Picture) (name string, err error)
	// Release takes a frame of who away.
	Release(who auth.Caller, name string) error
}

// Shared finds pixels in memory that clients have leased.
type Shared interface {
	// Place makes f's pixels those that p refers to, in memory that who may use; path is where p lies in the request.
	// They stay mapped until release is called, once.
	Place(who auth.Caller, f *kernels.Picture, p *pb.SharedPixels, path string) (release func(), err error)
}

// Reader reads the frames of requests. All its fields must be set.
type Reader struct {
	MaxPixels int64 // of a frame
	MaxBytes  int64 // of what a file decodes to
	Host      *budget.Budget
	Work      *hostwork.Pool // where files are read and written
	Metrics   *observe.Metrics
	Residents Residents
	Shared    Shared
}

// Read finds a Frame that is resident. It checks any other, whose payload is pieces, finds its pixels where they
// are in shared memory, and decodes it where it is a file. path is where it lies in the request. The caller holds a
// lease of the device.
func (s *Reader) Read(ctx context.Context, m *pb.Frame, pieces [][]byte, path string) (*Frame, error) {
	return s.ReadFor(ctx, m, pieces, path, func(kernels.Picture) (int64, error) { return 0, nil })
}

// ReadFor is read that takes host memory for the answer as well: share says how much, or that none is possible.
func (s *Reader) ReadFor(ctx context.Context, m *pb.Frame, pieces [][]byte, path string,
	share func(kernels.Picture) (int64, error)) (*Frame, error) {
	if _, ok := m.GetSource().(*pb.Frame_Resident); ok {
		f, err := s.resident(auth.FromContext(ctx), m, path)
		if err != nil {
			return nil, err
		}
		return s.WithAnswer(ctx, f, share)
	}
	switch e := m.GetEncoding(); e {
	case pb.Encoding_ENCODING_UNSPECIFIED, pb.Encoding_ENCODING_RAW:
		f, err := s.Raw(m.GetLayout(), pieces, path)
		if err != nil {
			return nil, err
		}
		release := func() {}
		if p := m.GetShared(); p != nil {
			if release, err = s.Shared.Place(auth.FromContext(ctx), &f, p, path+".shared"); err != nil {
				return nil, err
			}
		}
		s.Metrics.Frames.WithLabelValues("raw").Inc()
		return s.WithAnswer(ctx, &Frame{Picture: f, ID: m.GetFrameId(), Release: release}, share)
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
		s.Metrics.Frames.WithLabelValues(kind.name).Inc()
		s.Metrics.Stage("decode", d)
		f.ID, f.Decode = m.GetFrameId(), d
		return f, nil
	default:
		return nil, apierr.Refuse(path+".encoding", int32(e), "is no encoding")
	}
}

// WithAnswer takes the memory for the answer to a frame that holds none of the budget.
func (s *Reader) WithAnswer(ctx context.Context, f *Frame, share func(kernels.Picture) (int64, error)) (*Frame, error) {
	n, err := share(f.Picture)
	if err == nil {
		f.Answer, err = s.Host.Take(ctx, budget.Results, n)
	}
	if err != nil {
		f.Release()
		return nil, err
	}
	return f, nil
}

// Raw checks what package polygon doesn't: the server's own limit, and what the message leaves open.
func (s *Reader) Raw(l *pb.FrameLayout, pieces [][]byte, path string) (kernels.Picture, error) {
	if l == nil {
		return kernels.Picture{}, apierr.Refuse(path+".layout", nil, "must be given for raw pixels")
	}
	format, coding, err := wire.FormatOf(l, path)
	if err != nil {
		return kernels.Picture{}, err
	}
	if err := s.CheckPixels(l.GetWidth(), l.GetHeight(), path+".layout"); err != nil {
		return kernels.Picture{}, err
	}
	return kernels.Picture{
		Width: int(l.GetWidth()), Height: int(l.GetHeight()), Stride: int(l.GetStride()), Format: format,
		Coding: coding,
		Data:   pieces,
	}, nil
}

// CheckPixels keeps the limit on pixels. Sides of 0, and those beyond what any device takes, are left to package
// polygon.
func (s *Reader) CheckPixels(width, height uint32, path string) error {
	if n := wire.Pixels(width, height); n > s.MaxPixels {
		return apierr.Refuse(path, fmt.Sprintf("%d x %d", width, height), "makes %d pixels: the limit is %d", n,
			s.MaxPixels)
	}
	return nil
}

// resident is the frame that m names, which who may use. The caller holds a lease of the device until it has released
// the frame.
func (s *Reader) resident(who auth.Caller, m *pb.Frame, path string) (*Frame, error) {
	switch {
	case m.GetLayout() != nil:
		return nil, apierr.Refuse(path+".layout", nil, "must not be given with resident: the frame has one")
	case m.GetEncoding() != pb.Encoding_ENCODING_UNSPECIFIED:
		return nil, apierr.Refuse(path+".encoding", EncodingName(m.GetEncoding()), "must not be given with resident")
	}
	f, id, release, err := s.Residents.Use(who, m.GetResident())
	if err != nil {
		return nil, err
	}
	if m.GetFrameId() != "" {
		id = m.GetFrameId()
	}
	s.Metrics.Frames.WithLabelValues("resident").Inc()
	return &Frame{Picture: f, ID: id, Release: release}, nil
}

// Named finds the frames that correlations need, by the names that requests have for them: names says which resident
// frames these are, and path where requests say so. The caller holds a lease of the device until it has called release.
func (s *Reader) Named(ctx context.Context, names map[string]string, path string) (_ map[string]kernels.Picture,
	release func(), err error) {
	var releases []func()
	release = func() {
		for _, f := range releases {
			f()
		}
	}
	found := make(map[string]kernels.Picture, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		f, _, done, err := s.Residents.Use(auth.FromContext(ctx), names[name])
		if err != nil {
			release()
			return nil, nil, apierr.Refuse(fmt.Sprintf("%s[%q]", path, name), strconv.Quote(names[name]),
				"is no resident frame that correlations can use: %s", status.Convert(err).Message())
		}
		releases = append(releases, done)
		found[name] = f
	}
	return found, release, nil
}
