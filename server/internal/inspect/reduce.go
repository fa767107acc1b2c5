// Reductions, with regions that are prepared where that is worth while.

package inspect

import (
	"context"
	"errors"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/device"
	"github.com/polyscan/polyscan/server/internal/frames"
	"github.com/polyscan/polyscan/server/internal/locate"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// compared reduces a frame, beside the other frames that correlations need. last, where it isn't nil, has the frame
// before, and then this one.
func (s *Service) compared(ctx context.Context, dev device.Lease, what *wire.Inspection, at place, m *pb.Frame,
	f *frames.Frame, last *lastFrame) (*polygon.Result, *locate.Location, error) {
	if len(what.Frames) == 0 && last == nil {
		picture := f.Picture
		picture.Flat = what.Flat
		return s.placed(ctx, dev, what, at, picture)
	}
	in, picture := *what, f.Picture
	found, release, err := s.Frames.Named(ctx, what.Frames, what.Paths.Root+"frames")
	if err != nil {
		return nil, nil, err
	}
	defer release()
	in.Reductions.Frames = found
	if last != nil {
		done, err := last.next(ctx, dev, s.Frames.Residents, m.GetResident(), &picture, found)
		if err != nil {
			return nil, nil, in.Paths.Translate(err)
		}
		defer done()
	}
	picture.Flat = what.Flat
	wire.Correct(found, what.Flat)
	return s.placed(ctx, dev, &in, at, picture)
}

// placed reduces a frame with the regions where the part lies: by the pose of the request, or by the one that is found.
// Where none is, the regions are where no pixel is, and notFound is to be called when the result is judged.
func (s *Service) placed(ctx context.Context, dev device.Lease, in *wire.Inspection, at place,
	f kernels.Picture) (res *polygon.Result, loc *locate.Location, err error) {
	pose := at.pose
	if pose == nil && in.Locator != nil {
		if loc, err = in.Locator.Locate(ctx, dev.Device, f); err != nil {
			return nil, nil, in.Paths.Translate(err)
		}
		if pose = &loc.Pose; !loc.Found {
			pose = &polygon.Pose{A: 1, C: 1 << 21, E: 1} // in the middle of all that is right of any frame
		}
	}
	if pose != nil {
		if in, err = s.posed(ctx, in, *pose, at); err != nil {
			return nil, nil, err
		}
	}
	res, err = s.run(ctx, dev, in, f)
	return res, loc, err
}

// notFound fails a result of regions whose part wasn't found, and says in all limits why: these have failed, as no
// pixel of the regions lies in the frame.
func notFound(res *polygon.Result, loc *locate.Location) {
	res.Verdict, res.Pose = polygon.Fail, nil
	fail := func(limits []polygon.LimitResult) {
		for k := range limits {
			l := &limits[k]
			l.Verdict, l.Value, l.Measured, l.Reason = polygon.Fail, 0, false, locate.NotFound+loc.Reason
		}
	}
	if res.Columns != nil {
		fail(res.Columns.Limits)
	}
	for i := range res.Regions {
		fail(res.Regions[i].Limits)
	}
}

// haveFrames refuses an inspection that needs frames which are not there.
func (s *Service) haveFrames(ctx context.Context, what *wire.Inspection) error {
	if len(what.Frames) == 0 {
		return nil
	}
	dev, err := s.Host.Acquire()
	if err != nil {
		return err
	}
	defer dev.End()
	_, release, err := s.Frames.Named(ctx, what.Frames, what.Paths.Root+"frames")
	if err == nil {
		release()
	}
	return err
}

// lastFrame is the frame that a stream had last, by its name among the resident ones, where the client's quota counts
// it.
type lastFrame struct {
	who  auth.Caller
	name string // "" where there is none
	own  bool   // nobody else knows the name
}

// next makes f, which is the resident frame of a name unless that is "", the last one, on the device, and puts the one
// before among found. Where that is gone, such as by a long pause, there is none. done is to be called when f was used.
func (l *lastFrame) next(ctx context.Context, dev device.Lease, residents frames.Residents, name string,
	f *kernels.Picture, found map[string]kernels.Picture) (done func(), err error) {
	own := name == ""
	if own {
		if name, err = residents.Keep(ctx, l.who, dev.Device, *f); err != nil {
			return nil, err
		}
	}
	used := func() {}
	if own {
		kept, _, release, err := residents.Use(l.who, name)
		if err != nil {
			return nil, err
		}
		f.Resident, used = kept.Resident, release
	}
	before := func() {}
	if l.name != "" {
		if kept, _, release, err := residents.Use(l.who, l.name); err == nil {
			found[""], before = kept, release
		}
	}
	old := *l
	l.name, l.own = name, own
	return func() {
		used()
		before()
		old.close(residents)
	}, nil
}

// close lets go of the frame.
func (l *lastFrame) close(residents frames.Residents) {
	if l.own && l.name != "" {
		_ = residents.Release(l.who, l.name) // gone already, or now
	}
}

// run reduces a frame.
func (s *Service) run(ctx context.Context, dev device.Lease, in *wire.Inspection, f kernels.Picture) (*polygon.Result,
	error) {
	var res *polygon.Result
	if in.Keep && frameFits(f) {
		p, err := s.Prepared.get(ctx, dev, in.Set, f.Width, f.Height, in.Method)
		if err != nil {
			return nil, in.Paths.Translate(err)
		}
		if p != nil {
			res, err := p.Reduce(ctx, f, in.Reductions)
			if !errors.Is(err, polygon.ErrEvicted) && !errors.Is(err, polygon.ErrClosed) { // just now
				return res, in.Paths.Translate(err)
			}
		}
	}
	res, err := polygon.Reduce(ctx, dev.Device, in.Set, f, in.Reductions, in.Method)
	return res, in.Paths.Translate(err)
}

// frameFits says that a frame has a size for which regions can be prepared; if not, Reduce says what is wrong.
func frameFits(f kernels.Picture) bool {
	return kernels.CheckSize(f.Width, f.Height) == nil
}
