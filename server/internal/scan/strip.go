// Strips as they come: what is needed of a message, and what is wrong with it.

package scan

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/frames"
	"github.com/polyscan/polyscan/server/internal/wire"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// strip is a strip that has come. Of its message it has what is needed, and nothing else that a client may have put
// there.
type strip struct {
	*pb.Strip
	lines   int
	end     uint64              // the line at which the next strip is expected
	frame   *frames.Frame       // nil with err
	in      *framecodec.Message // nil when somebody else holds it
	frameID string              // as the client calls it
	own     bool                // the pixels are in that message, and not in memory that the client writes to
	arrived time.Time
	err     error // why it can't be used
}

func (x *strip) free() {
	if x.frame != nil {
		x.frame.Release()
		x.frame = nil
	}
	if x.in != nil {
		x.in.Free()
	}
}

// hold makes the pixels outlast the strip: they stay until release is called. It may be called once, for a strip that
// has its own.
func (x *strip) hold() (release func()) {
	in := x.in
	x.in = nil
	return in.Free
}

// newStrip makes a strip of a message, and says in it what is wrong with it.
func (ss *session) newStrip(ctx context.Context, req *pb.ScanLinesRequest, in *framecodec.Message,
	arrived time.Time) *strip {
	x := &strip{Strip: req.GetStrip(), in: in, own: req.GetStrip().GetFrame().GetShared() == nil, arrived: arrived}
	if x.err = ss.service.Host.Validate(ss.ctx, req); x.err == nil {
		x.err = ss.checkStrip(ctx, x)
	}
	if x.err != nil {
		x.free()
		x.lines = 0
	}
	x.Strip = &pb.Strip{Sequence: x.GetSequence(), FirstLine: x.GetFirstLine(), NextResult: x.GetNextResult()}
	if at := req.GetStrip().GetCapturedAt(); at != nil {
		x.CapturedAt = &timestamppb.Timestamp{Seconds: at.GetSeconds(), Nanos: at.GetNanos()}
	}
	if x.err == nil {
		x.PartStarts, x.PartIds = req.GetStrip().GetPartStarts(), req.GetStrip().GetPartIds()
		x.LostPartIds, x.frameID = req.GetStrip().GetLostPartIds(), req.GetStrip().GetFrame().GetFrameId()
	}
	in.Message = nil // it is there for its buffers
	return x
}

// checkStrip completes the strip's layout by the session's, and finds its pixels.
func (ss *session) checkStrip(ctx context.Context, x *strip) error {
	const path = "strip.frame"
	want := ss.layout
	l := x.GetFrame().GetLayout()
	switch e := x.GetFrame().GetEncoding(); {
	case e != pb.Encoding_ENCODING_UNSPECIFIED && e != pb.Encoding_ENCODING_RAW:
		return apierr.Refuse(path+".encoding", e, "must be raw")
	case x.GetFrame().GetResident() != "":
		return apierr.Refuse(path+".resident", nil, "must be unset: a strip is new")
	case l.GetWidth() != 0 && l.GetWidth() != want.GetWidth():
		return apierr.Refuse(path+".layout.width", l.GetWidth(), "must be %d, that of the session, or unset", want.GetWidth())
	case l.GetPixelFormat() != 0 && l.GetPixelFormat() != want.GetPixelFormat():
		return apierr.Refuse(path+".layout.pixel_format", l.GetPixelFormat(), "must be %s, that of the session, or unset",
			wire.FormatName(want.GetPixelFormat()))
	case l.GetSignificantBits() != 0 && l.GetSignificantBits() != want.GetSignificantBits():
		return apierr.Refuse(path+".layout.significant_bits", l.GetSignificantBits(),
			"must be %d, those of the session, or unset", want.GetSignificantBits())
	case l.GetDemosaic() != 0 && l.GetDemosaic() != want.GetDemosaic():
		return apierr.Refuse(path+".layout.demosaic", l.GetDemosaic(), "must be %v, that of the session, or unset",
			want.GetDemosaic())
	case l.GetStride() > want.GetStride(): // or lines, which are what credit counts, could take any memory
		return apierr.Refuse(path+".layout.stride", l.GetStride(), "must be at most %d, that of the session",
			want.GetStride())
	case l.GetHeight() > want.GetHeight():
		return apierr.Refuse(path+".layout.height", l.GetHeight(), "must be at most %d, that of the session",
			want.GetHeight())
	case x.GetFirstLine() > math.MaxInt64:
		return apierr.Refuse("strip.first_line", x.GetFirstLine(), "must be at most %d", math.MaxInt64)
	}
	full := &pb.FrameLayout{
		Width: want.GetWidth(), Height: cmp.Or(l.GetHeight(), want.GetHeight()), PixelFormat: want.GetPixelFormat(),
		Stride: cmp.Or(l.GetStride(), want.GetStride()), SignificantBits: want.GetSignificantBits(),
		Demosaic: want.GetDemosaic(),
	}
	x.lines = int(full.GetHeight())
	end := x.GetFirstLine() + uint64(x.lines)
	for i, at := range x.GetPartStarts() {
		switch {
		case ss.every != 0:
			return apierr.Refuse("strip.part_starts", len(x.GetPartStarts()),
				"must be empty: the session's trigger is every_lines")
		case at < x.GetFirstLine() || at >= end:
			return apierr.Refuse(fmt.Sprintf("strip.part_starts[%d]", i), at, "must be %d to %d, a line of the strip",
				x.GetFirstLine(), end-1)
		case i > 0 && at <= x.GetPartStarts()[i-1]:
			return apierr.Refuse(fmt.Sprintf("strip.part_starts[%d]", i), at, "must be above the one before")
		}
	}
	if n, starts := len(x.GetPartIds()), ss.startsIn(x); n != 0 && n != starts {
		return apierr.Refuse("strip.part_ids", n, "must be %d, one for each part that starts in the strip, or none", starts)
	}
	switch n := uint64(len(x.GetLostPartIds())); {
	case n > 0 && ss.every == 0:
		return apierr.Refuse("strip.lost_part_ids", n, "must be empty: the session's trigger is marked")
	case n > 0 && n > (x.GetFirstLine()+ss.every-1)/ss.every:
		return apierr.Refuse("strip.lost_part_ids", n, "must be at most %d, the parts that start before first_line",
			(x.GetFirstLine()+ss.every-1)/ss.every)
	}
	x.Frame.Layout = full
	f, err := ss.service.Frames.Read(ctx, x.GetFrame(), x.in.Pieces(nil), path)
	if err != nil {
		return err
	}
	x.frame = f
	return ss.what.Paths.Translate(f.Check("frame"))
}
