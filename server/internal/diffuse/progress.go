// DiffusionService: SolveProgressively.

package diffuse

import (
	"context"
	"slices"
	"time"

	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
)

func (s *Service) HandleSolveProgressively(stream grpc.ServerStream) error {
	req := &pb.SolveProgressivelyRequest{}
	in := framecodec.New(req)
	defer in.Free()
	if err := wire.ReceiveMessage(stream, in); err != nil {
		return err
	}
	if err := s.Host.Validate(stream.Context(), in); err != nil {
		return err
	}
	return s.progress(stream, req, in)
}

// progress solves in one goroutine and sends in another, so that the device doesn't wait for the client: pictures that
// it has no time for are left out.
func (s *Service) progress(stream grpc.ServerStream, req *pb.SolveProgressivelyRequest,
	in *framecodec.Message) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	// Of the pictures on the way, the one that was made last and the one that is sent.
	v, err := s.newSolving(ctx, req.GetRequest(), in, solvePixelShare+2*solveChannels, nil)
	if err != nil {
		return apierr.Under("request", err)
	}
	defer v.share.Release()
	type picture struct {
		sol    *diffusion.Solution
		pixels []byte
	}
	latest := make(chan picture, 1)
	v.target.Progress = func(sol *diffusion.Solution) error {
		select {
		case <-latest: // the client is behind
		default:
		}
		latest <- picture{sol, slices.Clone(v.target.Pixels.Host)}
		return nil
	}
	var last *diffusion.Solution
	done := make(chan error, 1)
	s.Host.Go(func() {
		defer v.dev.End() // a client that doesn't read must not keep the device
		defer func() {
			if p := recover(); p != nil { // nobody else would: this is a goroutine of its own
				done <- s.Host.Panicked(ctx, p)
			}
		}()
		var err error
		last, err = diffusion.Render(v.ctx, v.dev.Device, v.drawing, v.target, v.opts)
		done <- err
	})
	send := func(p picture, isLast bool) error {
		m, pixels, err := v.response(p.sol, p.pixels)
		if err != nil {
			return err
		}
		out := framecodec.New(&pb.SolveProgressivelyResponse{Result: m, Last: isLast})
		out.SetPayload(mem.BufferSlice{mem.SliceBuffer(pixels)})
		defer out.Free() // the transport has references of its own
		return stream.SendMsg(&wire.Response{Message: out, Start: time.Now(), Release: func() {}})
	}
	for {
		select {
		case p := <-latest:
			if err := send(p, false); err != nil {
				cancel()
				<-done // it writes to what is released now
				return err
			}
		case err := <-done:
			if err != nil {
				return apierr.Under("request", solveError(req.GetRequest(), err))
			}
			return send(picture{last, v.target.Pixels.Host}, true)
		}
	}
}
