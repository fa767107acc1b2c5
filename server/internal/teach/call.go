// Calls: an open message, frames, and an answer to all of them.

package teach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/frames"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// request is a message of either method.
type request interface {
	proto.Message
	GetFrame() *pb.Frame
	GetLabel() pb.FrameLabel
}

// method is what a call does. Its methods are called one after the other.
type method interface {
	newRequest() request
	// open takes the first message, if that is what it is.
	open(ctx context.Context, req request) error
	// opens says whether a message is an open message.
	opens(req request) bool
	// frame looks at a frame.
	frame(ctx context.Context, m *judged, f *frames.Frame) error
	// answer is what comes of all frames.
	answer() (proto.Message, error)
}

// judged is what is known of a frame.
type judged struct {
	index    int
	id, part string
	label    pb.FrameLabel
}

// message is the frame in an answer, with its verdict.
func (j *judged) message(v pb.Verdict) *pb.JudgedFrame {
	return &pb.JudgedFrame{Index: uint32(j.index), FrameId: j.id, PartId: j.part, Label: j.label, Verdict: v}
}

// mostNamed is how many of its failed regions a frame names.
const mostNamed = 8

// fail adds a region that fails.
func fail(f *pb.JudgedFrame, region int, name, reason string) {
	f.Verdict = pb.Verdict_VERDICT_FAIL
	f.FailedRegions++
	if len(f.Failed) < mostNamed {
		f.Failed = append(f.Failed, &pb.FailedRegion{Region: uint32(region), RegionName: name, Reason: reason})
	}
}

// count adds a verdict to a tally.
func count(t *pb.Tally, label pb.FrameLabel, v pb.Verdict) {
	pass := v != pb.Verdict_VERDICT_FAIL
	switch {
	case label == pb.FrameLabel_FRAME_LABEL_GOOD && pass:
		t.GoodPassed++
	case label == pb.FrameLabel_FRAME_LABEL_GOOD:
		t.GoodFailed++
	case label == pb.FrameLabel_FRAME_LABEL_BAD && pass:
		t.BadPassed++
	case label == pb.FrameLabel_FRAME_LABEL_BAD:
		t.BadFailed++
	case pass:
		t.OtherPassed++
	default:
		t.OtherFailed++
	}
}

// memory is the host memory that a call holds for what it keeps of frames.
type memory struct {
	budget   *budget.Budget
	taken    int64
	used     int64
	releases []func()
}

// memoryPiece is what is taken at a time at least, so that small frames don't take a lock each.
const memoryPiece = 1 << 20

// keep counts bytes. It doesn't wait: calls that wait for more while they hold some could wait for each other.
func (m *memory) keep(n int64) error {
	if m.used += n; m.used <= m.taken {
		return nil
	}
	more := max(m.used-m.taken, m.taken, memoryPiece)
	release, ok := m.budget.Try(budget.Results, more)
	if !ok {
		return apierr.Quota(apierr.ReasonHostMemory, "host memory",
			fmt.Sprintf("the numbers of the frames so far take %d bytes, and there is no room for those of the next",
				m.taken))
	}
	m.releases = append(m.releases, release)
	m.taken += more
	return nil
}

func (m *memory) release() {
	for _, f := range m.releases {
		f()
	}
}

// serve is the handler of a call. Another goroutine receives and works, because only that way can the call end while
// the client is silent.
func (s *Service) serve(stream grpc.ServerStream, m method, mem *memory) error {
	ctx, cancel := context.WithCancelCause(kernels.WithClass(stream.Context(), kernels.Batch))
	defer cancel(nil)
	idle := time.AfterFunc(s.IdleTimeout, func() { cancel(apierr.IdleError(s.IdleTimeout)) })
	defer idle.Stop()
	type outcome struct {
		answer proto.Message
		err    error
	}
	done := make(chan outcome, 1)
	s.Host.Go(func() {
		a, err := s.work(ctx, stream, m, idle)
		done <- outcome{a, err}
	})
	select {
	case o := <-done:
		idle.Stop()
		if o.err != nil {
			mem.release()
			return o.err
		}
		return stream.SendMsg(&wire.Response{Message: o.answer, Start: time.Now(), Release: mem.release})
	case <-s.Host.Draining():
		cancel(apierr.ErrShuttingDown)
	case <-ctx.Done():
	}
	s.Host.Go(func() { // the receiver notices that the handler has left
		<-done
		mem.release()
	})
	return context.Cause(ctx)
}

// work receives until the client has sent all, and answers.
func (s *Service) work(ctx context.Context, stream grpc.ServerStream, m method, idle *time.Timer) (answer proto.Message,
	err error) {
	defer func() {
		if p := recover(); p != nil { // nobody else would: this is a goroutine of its own
			err = s.Host.Panicked(ctx, p)
		}
	}()
	for n := -1; ; n++ {
		req := m.newRequest()
		in := framecodec.New(req)
		err := wire.ReceiveMessage(stream, in)
		if errors.Is(err, io.EOF) {
			in.Free()
			if n < 0 {
				return nil, outOfOrder(apierr.ReasonFrameOutOfOrder, "the stream ended before its open message")
			}
			return m.answer()
		}
		idle.Stop() // the client waits for the server now
		if err == nil {
			err = s.Host.Validate(ctx, in)
		}
		switch {
		case err != nil:
		case n < 0 && !m.opens(req):
			err = outOfOrder(apierr.ReasonFrameOutOfOrder, "frame: came before open, which must be the first message")
		case n < 0:
			err = m.open(ctx, req)
		case m.opens(req):
			err = outOfOrder(apierr.ReasonSecondOpen,
				"open: came a second time; what a call does with its frames does not change")
		default:
			err = s.frame(ctx, m, n, req, in)
		}
		in.Free()
		if err != nil {
			return nil, err
		}
		idle.Reset(s.IdleTimeout)
	}
}

func outOfOrder(reason, text string) error {
	return apierr.WithDetails(codes.FailedPrecondition, text, apierr.Info(reason)).Err()
}

// frame looks at one frame, and names it in an error.
func (s *Service) frame(ctx context.Context, m method, n int, req request, in *framecodec.Message) error {
	j := &judged{index: n, id: req.GetFrame().GetFrameId(), part: req.GetFrame().GetPartId(), label: req.GetLabel()}
	dev, err := s.Host.Acquire()
	if err != nil {
		return err
	}
	defer dev.End()
	f, err := s.Frames.Read(ctx, req.GetFrame(), in.Pieces(nil), "frame")
	if err == nil {
		defer f.Answer.Release()
		defer f.Release()
		j.id = f.ID
		err = m.frame(ctx, j, f)
	}
	which := fmt.Sprintf("frame %d of the call", n)
	if j.id != "" {
		which += fmt.Sprintf(", %q", j.id)
	}
	return apierr.About(which, err)
}

// reduce computes a result with nothing in it but verdicts and what limits measured, by the limits of set, which are of
// those regions. Limits on textures and blobs see those of the recipe, and those on other frames its frames, as they
// will when it is used.
func (s *Service) reduce(ctx context.Context, of *regions, set *polygon.Set, f *frames.Frame,
	later bool) (*polygon.Result, error) {
	if err := wire.CheckDrawnOn(of.from.GetDrawnOn(), f.Width, f.Height, of.paths.Frame); err != nil {
		return nil, err
	}
	dev, err := s.Host.Acquire()
	if err != nil {
		return nil, err
	}
	defer dev.End()
	wanted := wire.ReductionsOf(of.recipe.GetReductions())
	r := polygon.Reductions{
		Output:       polygon.Output{Later: later, Fields: polygon.FieldCount | polygon.FieldLimits},
		Cooccurrence: wanted.Cooccurrence,
		Blobs:        wanted.Blobs,
	}
	found, release, err := s.Frames.Named(ctx, wire.FramesOf(set, r, of.recipe.GetFrames()), "frames")
	if err != nil {
		return nil, err
	}
	defer release()
	wire.Correct(found, of.flat)
	r.Frames = found
	picture := f.Picture
	picture.Flat = of.flat
	return polygon.Reduce(ctx, dev.Device, set, picture, r, 0)
}
