// DiffusionService: Extract.

package diffuse

import (
	"context"
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/frames"
	"github.com/polyscan/polyscan/server/internal/hostwork"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// The host memory that a pixel takes, in bytes: what [diffusion.Extract] takes of noise, all of which is edges, two
// copies of its curves, as messages and as they are solved; the pixels of a solution; and a file of the picture. And
// what one takes that is given besides.
const (
	extractPixelShare = 160 + 100 + 5*solveChannels + 2*4
	givenPixelMessage = 80
)

func (s *Service) HandleExtract(ctx context.Context, req *pb.ExtractRequest, in *framecodec.Message) (*wire.Response,
	error) {
	if name := req.GetFrame().GetResident(); name != "" {
		return nil, apierr.Refuse("frame.resident", name, "must be no resident frame: pixels come with the request")
	}
	opts, err := extractOptionsOf(req.GetOptions())
	if err != nil {
		return nil, err
	}
	dev, err := s.Host.Acquire()
	if err != nil {
		return nil, err
	}
	defer dev.End()
	ctx = kernels.WithClass(ctx, wire.ClassOf(req.GetWorkClass()))
	f, err := s.Frames.ReadFor(ctx, req.GetFrame(), in.Pieces(nil), "frame", func(f kernels.Picture) (int64, error) {
		if err := s.checkCanvas("frame", f.Width, f.Height); err != nil {
			return 0, err
		}
		n := int64(f.Width) * int64(f.Height)
		given := int64(float64(n) * max(opts.MaxPixels, 0.05))
		developed := int64(0)
		if f.Coding != (kernels.Coding{}) {
			developed = n * int64(f.Format.PixelBytes())
		}
		return extractPixelShare*n + givenPixelMessage*given + developed, nil
	})
	if err != nil {
		return nil, err
	}
	defer f.Release()
	out, err := s.extract(ctx, dev.Device, req, f, opts, in)
	if err != nil {
		f.Answer.Release()
		return nil, wire.FieldError(err, func(v kernels.Violation) (path, value, reason string) {
			switch name := v.Path.String(); name {
			case "threshold", "length", "flatness", "distance", "levels", "psnr":
				return "options." + name, v.Value, v.Reason
			}
			return "frame", v.Value, v.Reason
		})
	}
	return &wire.Response{Message: out, Start: time.Now(), Share: f.Answer, Release: f.Answer.Release}, nil
}

// extractOptionsOf translates options, which package diffusion checks, but for what stands for something else there.
func extractOptionsOf(o *pb.ExtractOptions) (*diffusion.ExtractOptions, error) {
	opts := &diffusion.ExtractOptions{Threshold: o.GetThreshold(), Length: int(o.GetLength()), Flatness: o.GetFlatness(),
		Distance: o.GetDistance(), Levels: o.GetLevels(), PSNR: o.GetPsnr(), MaxPixels: o.GetMaxPixels()}
	if math.IsNaN(opts.PSNR) {
		return nil, apierr.Refuse("options.psnr", opts.PSNR, "must be more than 0, and at most 100")
	}
	if m := opts.MaxPixels; !(m >= 0 && m <= 1) {
		return nil, apierr.Refuse("options.max_pixels", m, "must be 0 to 1")
	}
	if o != nil && o.MaxPixels != nil && opts.MaxPixels == 0 {
		opts.PSNR = math.NaN()
	}
	return opts, nil
}

// extract computes at a place of the pool, which it leaves while the device computes.
func (s *Service) extract(ctx context.Context, dev *kernels.Device, req *pb.ExtractRequest, f *frames.Frame,
	opts *diffusion.ExtractOptions, in *framecodec.Message) (_ *framecodec.Message, err error) {
	if err := f.Check("frame"); err != nil {
		return nil, wire.Paths{Frame: "frame"}.Translate(err)
	}
	turn, err := s.Frames.Work.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { turn.Leave() }()
	if f.Coding != (kernels.Coding{}) {
		p, err := f.Developed("frame")
		if err != nil {
			return nil, wire.Paths{Frame: "frame"}.Translate(err)
		}
		f.Picture = *p
		f.Answer.Add(int64(f.Width) * int64(f.Height) * int64(f.Format.PixelBytes()))
	}
	// Planes, what is solved of them, and as a picture.
	f.Answer.Add((4 + 4 + 1) * solveChannels * int64(f.Width) * int64(f.Height))
	ctx = kernels.WithMade(ctx, f.Answer.Add)
	planes, err := planesOf(&f.Picture, turn)
	in.Free()
	if err != nil {
		return nil, err
	}
	m := &pb.ExtractResponse{}
	target := &diffusion.Target{Format: kernels.RGB8,
		Pixels: diffusion.Pixels{Host: make([]byte, solveChannels*f.Width*f.Height)}}
	solved := make([]float32, solveChannels*f.Width*f.Height)
	var queue, compute time.Duration
	x, err := diffusion.Extract(ctx, planes, opts, func(ctx context.Context, d *diffusion.Drawing) ([]float32, error) {
		// Clients get a message, and what is said of it is to be what comes of that.
		if m.Drawing, err = s.drawingMessage(d, turn); err != nil {
			return nil, err
		}
		drawing := drawingOf(&pb.SolveRequest{Drawing: m.Drawing}, &frames.Frame{Picture: f.Picture})
		turn.Leave()
		sol, err := diffusion.Render(ctx, dev, drawing, target, nil)
		if err != nil {
			return nil, err
		}
		m.Solves++
		m.Backend, queue, compute = sol.Backend, queue+sol.Queue, compute+sol.Compute
		if turn, err = s.Frames.Work.Enter(ctx); err != nil {
			return nil, err
		}
		n := f.Width * f.Height
		for i, v := range target.Pixels.Host {
			if i%pausePixels == 0 {
				if err := turn.Yield(); err != nil {
					return nil, err
				}
			}
			solved[i%solveChannels*n+i/solveChannels] = float32(v) / 255
		}
		return solved, nil
	}, func() error { return turn.Yield() })
	if err != nil {
		return nil, err
	}
	s.Metrics.Stage("queue", queue)
	s.Metrics.Stage("compute", compute)
	m.Decode, m.Queue, m.Compute = durationpb.New(f.Decode), durationpb.New(queue), durationpb.New(compute)
	m.Psnr = x.PSNR
	p := kernels.Picture{Width: f.Width, Height: f.Height, Format: kernels.RGB8, Data: [][]byte{target.Pixels.Host}}
	m.Picture = &pb.Frame{FrameId: f.ID, Encoding: pb.Encoding_ENCODING_RAW, Layout: wire.LayoutOf(p)}
	pixels := target.Pixels.Host
	if req.GetEncoding() == pb.Encoding_ENCODING_PNG {
		turn.Leave()
		m.Picture.Encoding = pb.Encoding_ENCODING_PNG
		if pixels, err = s.Frames.PNG(ctx, p.Image()); err != nil {
			return nil, err
		}
	}
	f.Answer.FillAll()
	out := framecodec.New(m)
	out.SetPayload(mem.BufferSlice{mem.SliceBuffer(pixels)})
	return out, nil
}

// pausePixels is how many steps of some nanoseconds go by between two looks at who waits.
const pausePixels = 1 << 14

// planesOf reads a picture, each byte once, as red, green and blue from 0 to 1; gray is all three.
func planesOf(p *kernels.Picture, turn *hostwork.Turn) (*diffusion.Planes, error) {
	n := p.Width * p.Height
	out := &diffusion.Planes{Width: p.Width, Height: p.Height, Channels: solveChannels,
		Values: make([]float32, solveChannels*n)}
	each, row, f := p.Format.PixelBytes(), p.RowBytes(), p.Format
	most := float32(int(1)<<f.Bits - 1)
	var pixel [4]byte
	at := 0
	for _, piece := range p.Data {
		for _, b := range piece {
			if at%pausePixels == 0 {
				if err := turn.Yield(); err != nil {
					return nil, err
				}
			}
			column, y := at%row, at/row
			at++
			if column >= each*p.Width {
				continue
			}
			pixel[column%each] = b
			if column%each != each-1 {
				continue
			}
			i := y*p.Width + column/each
			for c := range solveChannels {
				switch {
				case f.SampleBytes == 2:
					out.Values[c*n+i] = min(float32(int(pixel[0])|int(pixel[1])<<8)/most, 1)
				case f.Channels == 1:
					out.Values[c*n+i] = float32(pixel[0]) / most
				default:
					out.Values[c*n+i] = float32(pixel[f.Order[c]]) / most
				}
			}
		}
	}
	return out, nil
}

// drawingMessage is a drawing of three channels as messages have it. Colours are rounded to a hundredth of a level.
func (s *Service) drawingMessage(d *diffusion.Drawing, turn *hostwork.Turn) (*pb.Drawing, error) {
	level := func(v float32) float32 { return float32(math.Round(25500*float64(v)) / 100) }
	m := &pb.Drawing{Width: uint32(d.Width), Height: uint32(d.Height)}
	points := 0
	for _, c := range d.Curves {
		out := &pb.Curve{Barrier: c.Barrier}
		for _, p := range c.Points {
			out.Xy = append(out.Xy, p.X, p.Y)
		}
		stops := func(in []diffusion.Stop) (out []*pb.ColorStop) {
			for _, s := range in {
				out = append(out, &pb.ColorStop{At: s.At, Red: level(s.Values[0]), Green: level(s.Values[1]),
					Blue: level(s.Values[2])})
			}
			return out
		}
		out.Left, out.Right = stops(c.Left), stops(c.Right)
		m.Curves = append(m.Curves, out)
		points += curveSize(len(c.Points), len(out.Left), len(out.Right), 0)
		if err := turn.Yield(); err != nil {
			return nil, err
		}
	}
	n := len(d.Flags)
	for i, f := range d.Flags {
		if i%pausePixels == 0 {
			if err := turn.Yield(); err != nil {
				return nil, err
			}
		}
		if f&diffusion.Fixed != 0 {
			m.Pixels = append(m.Pixels, &pb.GivenPixel{
				X: uint32(i % d.Width), Y: uint32(i / d.Width), Red: level(d.Values[i]), Green: level(d.Values[n+i]),
				Blue: level(d.Values[2*n+i]),
			})
		}
	}
	if points += len(m.Pixels); points > s.MaxPoints {
		return nil, apierr.Refuse("frame", fmt.Sprintf("%d points, stops and pixels of its drawing", points),
			"are more than the server's limit of %d: a higher options.threshold or options.length makes less of them",
			s.MaxPoints)
	}
	return m, nil
}
