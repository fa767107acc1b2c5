// Try: frames by a recipe that isn't used yet.

package teach

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/frames"
)

// HandleTry is the handler of a call.
func (s *Service) HandleTry(stream grpc.ServerStream) error {
	mem := &memory{budget: s.Memory}
	return s.serve(stream, &try{service: s, mem: mem, res: &pb.TryResponse{Tally: &pb.Tally{}}}, mem)
}

// try is a call.
type try struct {
	service *Service
	mem     *memory
	what    *regions
	beside  *regions // nil: none
	res     *pb.TryResponse

	// The frames are a stream for limits over parts, and all of one size.
	frames           uint64
	size             size
	past, pastBeside *polygon.Parts
}

func (*try) newRequest() request { return &pb.TryRequest{} }

func (*try) opens(req request) bool { return req.(*pb.TryRequest).GetOpen() != nil }

func (t *try) open(ctx context.Context, req request) (err error) {
	open := req.(*pb.TryRequest).GetOpen()
	if t.what, err = t.service.opened(ctx, open, t.mem); err != nil {
		return err
	}
	if !t.what.set.HasLimits() {
		return apierr.Refuse("open.regions", nil, "no region has limits: no frame could fail")
	}
	t.past = t.what.set.NewParts()
	if open.GetBeside() == nil {
		return t.mem.keep(t.past.Bytes())
	}
	t.res.Beside = &pb.Tally{}
	if t.beside, err = t.service.stored(open.GetBeside(), "open.beside"); err != nil {
		return err
	}
	t.pastBeside = t.beside.set.NewParts()
	return t.mem.keep(t.past.Bytes() + t.pastBeside.Bytes())
}

// judgedBytes is about what a frame takes of an answer, without the names of regions.
const judgedBytes = 400

func (t *try) frame(ctx context.Context, j *judged, f *frames.Frame) error {
	if t.frames == 0 {
		t.size = sizeOf(f)
	} else if err := t.size.same(f); err != nil {
		return err
	}
	res, err := t.service.reduce(ctx, t.what, t.what.set, f, t.past != nil)
	if err != nil {
		return t.what.paths.Translate(err)
	}
	t.past.Judge(t.frames, res)
	m := j.message(pb.Verdict(res.Verdict))
	t.res.Backend = res.Backend
	n := int64(judgedBytes)
	for i := range res.Regions {
		r := &res.Regions[i]
		// All of its limits fail on every frame, good or bad, which catches nothing.
		if limits := t.what.set.Limits(i); len(limits) > 0 && reachesOutside(r, limits) {
			res.Release()
			return t.what.refuse(i, "", fmt.Sprintf("%q", r.Name), outsideReason)
		}
		if r.Verdict == polygon.Fail {
			fail(m, i, r.Name, reasonOf(r))
		}
	}
	for _, r := range m.GetFailed() {
		n += judgedBytes + int64(len(r.GetRegionName())+len(r.GetReason()))
	}
	res.Release()
	if t.beside != nil {
		if res, err = t.service.reduce(ctx, t.beside, t.beside.set, f, t.pastBeside != nil); err != nil {
			return t.beside.paths.Translate(err)
		}
		t.pastBeside.Judge(t.frames, res)
		m.Beside = pb.Verdict(res.Verdict)
		res.Release()
		count(t.res.Beside, j.label, m.Beside)
	}
	t.frames++
	count(t.res.Tally, j.label, m.Verdict)
	t.res.Frames = append(t.res.Frames, m)
	return t.mem.keep(n)
}

// reasonOf says why a region fails: what its first limit that does so says.
func reasonOf(r *polygon.RegionResult) string {
	for i := range r.Limits {
		if r.Limits[i].Verdict == polygon.Fail {
			return r.Limits[i].Reason
		}
	}
	return ""
}

func (t *try) answer() (proto.Message, error) {
	if len(t.res.GetFrames()) == 0 {
		return nil, apierr.Refuse("frame", nil, "at least one must follow the open message")
	}
	return t.res, nil
}
