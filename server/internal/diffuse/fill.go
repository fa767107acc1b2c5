// DiffusionService: FillHoles and Background.

package diffuse

import (
	"context"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/frames"
	"github.com/polyscan/polyscan/server/internal/wire"
)

func (s *Service) HandleFillHoles(ctx context.Context, req *pb.FillHolesRequest,
	in *framecodec.Message) (*wire.Response, error) {
	h := holes{class: req.GetWorkClass(), options: req.GetOptions(), method: req.GetMaskMethod(), frame: req.GetFrame(),
		picture: output{"output", req.GetOutput()}}
	switch x := req.GetHoles().(type) {
	case *pb.FillHolesRequest_RegionSet:
		h.regions = x.RegionSet
	case *pb.FillHolesRequest_Recipe:
		h.recipe = x.Recipe
	case *pb.FillHolesRequest_Mask:
		h.mask, h.masked = x.Mask, true
	}
	f, err := s.fill(ctx, &h, in)
	if err != nil {
		return nil, err
	}
	m := &pb.FillHolesResponse{Report: f.report, Kept: f.picture.kept, Picture: f.picture.frame}
	out := framecodec.New(m)
	if f.picture.frame != nil {
		out.SetPayload(mem.BufferSlice{mem.SliceBuffer(f.picture.pixels)})
	}
	return &wire.Response{Message: out, Start: time.Now(), Share: f.share, Release: f.share.Release}, nil
}

func (s *Service) HandleBackground(ctx context.Context, req *pb.BackgroundRequest,
	in *framecodec.Message) (*wire.Response, error) {
	h := holes{
		class: req.GetWorkClass(), options: req.GetOptions(), method: req.GetMaskMethod(), frame: req.GetFrame(),
		picture: output{"background", req.GetBackground()}, residual: output{"residual", req.GetResidual()}, both: true,
	}
	switch x := req.GetForeground().(type) {
	case *pb.BackgroundRequest_RegionSet:
		h.regions = x.RegionSet
	case *pb.BackgroundRequest_Recipe:
		h.recipe = x.Recipe
	case *pb.BackgroundRequest_Mask:
		h.mask, h.masked = x.Mask, true
	}
	f, err := s.fill(ctx, &h, in)
	if err != nil {
		return nil, err
	}
	m := &pb.BackgroundResponse{
		Report: f.report, KeptBackground: f.picture.kept, KeptResidual: f.residual.kept, Background: f.picture.frame,
		Residual: f.residual.frame,
	}
	if m.Residual != nil {
		m.Residual.Source = &pb.Frame_Data{Data: f.residual.pixels}
	}
	out := framecodec.New(m)
	if m.Background != nil {
		out.SetPayload(mem.BufferSlice{mem.SliceBuffer(f.picture.pixels)})
	}
	return &wire.Response{Message: out, Start: time.Now(), Share: f.share, Release: f.share.Release}, nil
}

// holes is what FillHoles and Background have in common.
type holes struct {
	class   pb.WorkClass
	options *pb.DiffusionOptions
	regions *pb.RegionSet
	recipe  *pb.RecipeRef
	mask    []byte
	masked  bool
	method  pb.MaskMethod
	frame   *pb.Frame

	picture, residual output
	both              bool // there can be a residual
}

// output is what a request says of a result, and where.
type output struct {
	field string
	*pb.PictureOutput
}

// wanted reports whether there is to be one.
func (o *output) wanted() bool { return o.field != "" && !o.GetOmit() }

// filled is what has become of them.
type filled struct {
	report            *pb.FillReport
	picture, residual result
	share             *budget.Share
}

// result is a picture that was kept, or is to be sent.
type result struct {
	kept   *pb.ResidentFrame
	frame  *pb.Frame // without pixels
	pixels []byte
}

func (s *Service) fill(ctx context.Context, h *holes, in *framecodec.Message) (_ *filled, err error) {
	dev, err := s.Host.Acquire()
	if err != nil {
		return nil, err
	}
	defer dev.End()
	f, err := s.Frames.ReadFor(ctx, h.frame, in.Pieces(nil), "frame", func(f kernels.Picture) (int64, error) {
		return s.fillShare(h, f)
	})
	if err != nil {
		return nil, err
	}
	defer f.Release()
	defer func() {
		if err != nil {
			f.Answer.Release()
		}
	}()
	p := wire.Paths{Frame: "frame", Set: "region_set"}
	if err := f.Check("frame"); err != nil {
		return nil, p.Translate(err)
	}
	n := int64(f.Width) * int64(f.Height)
	size := n * int64(f.Format.PixelBytes())
	outputs := []*output{&h.picture, &h.residual}
	ctx = kernels.WithClass(ctx, wire.ClassOf(h.class))
	job := &diffusion.Holes{
		Image: f.Picture,
		Mask:  diffusion.Pixels{Host: h.mask},
	}
	set, p, err := s.regionsOf(ctx, h, p)
	if err != nil {
		return nil, err
	}
	if set != nil {
		if job.Draw, job.DrawBytes, err = set.Mask(dev.Device, f.Width, f.Height, polygon.Method(h.method)); err != nil {
			return nil, p.Translate(err)
		}
	}
	to := []*diffusion.Pixels{&job.Picture, &job.Residual}
	uploads := make([]KeptPicture, len(outputs))
	defer func() {
		for _, u := range uploads {
			if u != nil {
				u.Abort()
			}
		}
	}()
	for i, o := range outputs {
		switch {
		case !o.wanted():
		case o.GetKeep():
			if uploads[i], err = s.Host.Place(ctx, dev.Device,
				kernels.Picture{Width: f.Width, Height: f.Height, Format: f.Format}, f.ID, o.GetIdleTimeout(), o.field+
					".idle_timeout"); err != nil {
				return nil, err
			}
			to[i].Resident = uploads[i].Buffer()
		default:
			to[i].Host = make([]byte, size)
		}
	}
	f.Answer.FillAll()
	sol, err := diffusion.Fill(ctx, dev.Device, job, optionsOf(h.options))
	in.Free()
	if err != nil {
		return nil, fillError(h, err)
	}
	s.Metrics.Stage("queue", sol.Queue)
	s.Metrics.Stage("compute", sol.Compute)
	out := &filled{share: f.Answer, report: &pb.FillReport{
		Backend: sol.Backend, Decode: durationpb.New(f.Decode), Queue: durationpb.New(sol.Queue),
		Compute: durationpb.New(sol.Compute),
		Cycles:  uint32(sol.Cycles), Converged: sol.Converged, Estimate: 255 * sol.Estimate,
		Residual: 255 * sol.Residual,
		Stopped:  pb.DiffusionStop(sol.Stopped), ErrorUnknown: sol.ErrorUnknown,
		GlobalDifference: 255 * float64(sol.Difference),
		FilledPixels:     uint64(n) - uint64(sol.FixedPixels), SetupKept: sol.SetupKept,
	}}
	for i, r := range []*result{&out.picture, &out.residual} {
		switch {
		case uploads[i] != nil:
			u := uploads[i]
			u.Filled()
			if err := u.Complete(ctx); err != nil {
				return nil, err
			}
		case to[i].Host != nil:
			if *r, err = s.picture(ctx, f, to[i].Host, outputs[i].GetEncoding()); err != nil {
				return nil, err
			}
		}
	}
	// A frame that nobody will learn the name of isn't kept.
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for i, r := range []*result{&out.picture, &out.residual} {
		if uploads[i] != nil {
			r.kept = uploads[i].Keep()
			uploads[i] = nil
		}
	}
	return out, nil
}

// fillShare is the host memory that results take which are not kept. What no message can carry is refused, and a mask
// of another size.
func (s *Service) fillShare(h *holes, f kernels.Picture) (int64, error) {
	n := int64(f.Width) * int64(f.Height)
	size := n * int64(f.Format.PixelBytes())
	if h.masked && int64(len(h.mask)) != n {
		return 0, apierr.Refuse("mask", len(h.mask), "must be %d bytes, one for each pixel of %d x %d", n, f.Width, f.Height)
	}
	answer, share := int64(0), int64(0)
	for _, o := range []*output{&h.picture, &h.residual} {
		if o.wanted() && !o.GetKeep() {
			answer += size
			if share += size; o.GetEncoding() == pb.Encoding_ENCODING_PNG {
				share += size + 4*n
			}
		}
	}
	if limit := s.MaxMessageBytes; answer > limit {
		return 0, apierr.Refuse("frame", [2]int{f.Width, f.Height},
			"makes an answer of up to %d bytes: the limit is %d; results can be kept on the device", answer, limit)
	}
	return share, nil
}

// regionsOf is the regions whose pixels are to be replaced, and where they are in the request; nil for none.
func (s *Service) regionsOf(ctx context.Context, h *holes, p wire.Paths) (set *polygon.Set, _ wire.Paths, err error) {
	switch {
	case h.regions != nil:
		err = s.Frames.Work.Do(ctx, wire.SetWork(h.regions), wire.SmallSet, func(pause func() error) error {
			set, err = wire.NewSet(ctx, h.regions, p, s.Bounds, pause)
			return err
		})
		return set, p, err
	case h.recipe != nil:
		stored, set, err := s.Recipes.Recipe(h.recipe.GetName(), h.recipe.GetVersion())
		if err != nil {
			return nil, p, err
		}
		p.Stored, p.Ref = wire.RecipeID(stored), "recipe"
		return set, p, nil
	}
	return nil, p, nil
}

// picture is what is sent of pixels in a frame's format, rows without a gap.
func (s *Service) picture(ctx context.Context, f *frames.Frame, pixels []byte, e pb.Encoding) (result, error) {
	r := result{pixels: pixels, frame: &pb.Frame{
		FrameId: f.ID, Encoding: pb.Encoding_ENCODING_RAW,
		Layout: wire.LayoutOf(kernels.Picture{Width: f.Width, Height: f.Height, Format: f.Format}),
	}}
	if e != pb.Encoding_ENCODING_PNG {
		return r, nil
	}
	var err error
	r.frame.Encoding = e
	picture := &kernels.Picture{Width: f.Width, Height: f.Height, Format: f.Format, Data: [][]byte{pixels}}
	r.pixels, err = s.Frames.PNG(ctx, picture.Image())
	return r, err
}

// fillError turns an *InvalidError into a *FieldError and leaves other errors alone.
func fillError(h *holes, err error) error {
	return wire.FieldError(err, func(v kernels.Violation) (path, value, reason string) {
		if path, value = optionField(h.options, v); path == "" {
			path = "frame"
		}
		if wire.Root(v) == "mask" {
			switch {
			case h.regions != nil:
				path = "region_set"
			case h.recipe != nil:
				path = "recipe"
			case h.masked:
				path = "mask"
			}
		}
		return path, value, v.Reason
	})
}
