// Teach: limits from frames of good parts.

package teach

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/frames"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// HandleTeach is the handler of a call.
func (s *Service) HandleTeach(stream grpc.ServerStream) error {
	mem := &memory{budget: s.Memory}
	return s.serve(stream, &teach{service: s, mem: mem}, mem)
}

// defaultQuantities are those of a call that lists none.
var defaultQuantities = []string{"mean", "stddev", "min", "max"}

// teach is a call.
type teach struct {
	service *Service
	mem     *memory
	what    *regions
	margin  margin
	asked   []polygon.Quantity

	// From the first frame on.
	size     size
	learnt   []polygon.Quantity // for each channel
	measured *polygon.Set       // the regions with their limits, and behind these a probe of each quantity
	pixels   []int64            // of each region
	frames   []measurement
	backend  string
}

// measurement is what is kept of a frame.
type measurement struct {
	judged
	values []float64 // of each region, each quantity
	failed []failure // by limits that the regions have and keep
}

// failure is a region that fails.
type failure struct {
	region int
	reason string
}

func (*teach) newRequest() request { return &pb.TeachRequest{} }

func (*teach) opens(req request) bool { return req.(*pb.TeachRequest).GetOpen() != nil }

func (t *teach) open(ctx context.Context, req request) (err error) {
	open := req.(*pb.TeachRequest).GetOpen()
	t.margin = marginOf(open.GetMargin())
	names := open.GetQuantities()
	if len(names) == 0 {
		names = defaultQuantities
	}
	bad := &apierr.FieldError{}
	for i, name := range names {
		q, err := polygon.ParseQuantity(name)
		field := fmt.Sprintf("open.quantities[%d]", i)
		switch {
		case err != nil:
			reason := err.Error()
			var wrong *polygon.LimitError
			if errors.As(err, &wrong) {
				reason = wrong.Reason()
			}
			bad.Add(field, fmt.Sprintf("%q", name), reason)
		case q.OfRegion():
			bad.Add(field, fmt.Sprintf("%q", name), "is of the region or of its blobs: limits are not learned of it")
		case q.Channel() == polygon.Hue:
			bad.Add(field, fmt.Sprintf("%q", name), "is of an angle, which limits are not learned of")
		case slices.ContainsFunc(t.asked, func(o polygon.Quantity) bool { return o.Covers(q) || q.Covers(o) }):
			bad.Add(field, fmt.Sprintf("%q", name), "is asked for already")
		default:
			t.asked = append(t.asked, q)
		}
	}
	if err := bad.OrNil(); err != nil {
		return err
	}
	t.what, err = t.service.opened(ctx, open, t.mem)
	return err
}

// taught says whether a limit is about a quantity that is learned, and so replaced.
func (t *teach) taught(l *polygon.Limit) bool {
	q := l.Quantity()
	return slices.ContainsFunc(t.learnt, func(o polygon.Quantity) bool { return q.Covers(o) })
}

// begin prepares for frames like the first one.
func (t *teach) begin(ctx context.Context, f *frames.Frame) error {
	t.size = sizeOf(f)
	channels := []polygon.Channel{polygon.Red, polygon.Green, polygon.Blue}
	if t.size.format.Channels < 3 {
		channels = []polygon.Channel{polygon.NoChannel}
	}
	for _, q := range t.asked {
		if q.Channel() != polygon.NoChannel {
			t.learnt = append(t.learnt, q)
			continue
		}
		for _, c := range channels {
			t.learnt = append(t.learnt, q.In(c))
		}
	}
	var probes []string
	for _, q := range t.learnt {
		probes = append(probes, q.Probe())
	}
	list := make([]*pb.Region, len(t.what.from.GetRegions()))
	for i, r := range t.what.from.GetRegions() {
		if n := len(r.GetLimits()) + len(probes); n > polygon.MaxLimits {
			return t.what.refuse(i, ".limits", len(r.GetLimits()), "and %d to learn are too many: the limit is %d",
				len(probes), polygon.MaxLimits)
		}
		list[i] = &pb.Region{Name: r.GetName(), Rings: r.GetRings(), Mask: r.GetMask(), Shape: r.GetShape(),
			FillRule: r.GetFillRule(), Reference: r.GetReference(), Limits: slices.Concat(r.GetLimits(), probes)}
	}
	// What the answer takes, of which limits are most.
	const each = 300
	if n := int64(len(list)) * int64(len(probes)) * each; n > t.service.MaxMessageBytes {
		return apierr.Quota(apierr.ReasonResultTooLarge, "result", fmt.Sprintf(
			"%d limits of %d regions would take %d bytes; the limit is %d", len(probes), len(list), n,
			t.service.MaxMessageBytes))
	} else if err := t.mem.keep(2 * n); err != nil {
		return err
	}
	set := t.what.with(list)
	return t.service.Frames.Work.Do(ctx, wire.SetWork(set), wire.SmallSet, func(pause func() error) (err error) {
		t.measured, err = wire.NewSet(ctx, set, t.what.paths, t.service.Bounds, pause)
		return err
	})
}

func (t *teach) frame(ctx context.Context, j *judged, f *frames.Frame) error {
	if j.label == pb.FrameLabel_FRAME_LABEL_UNSPECIFIED {
		j.label = pb.FrameLabel_FRAME_LABEL_GOOD
	}
	if t.measured == nil {
		if err := t.begin(ctx, f); err != nil {
			return err
		}
	} else if err := t.size.same(f); err != nil {
		return err
	}
	n := len(t.what.from.GetRegions()) * len(t.learnt)
	if err := t.mem.keep(int64(8*n + 2*judgedBytes)); err != nil {
		return err
	}
	res, err := t.service.reduce(ctx, t.what, t.measured, f, false)
	if err != nil {
		return wire.FieldError(err, t.violation)
	}
	defer res.Release()
	t.backend = res.Backend
	m := measurement{judged: *j, values: make([]float64, 0, n)}
	for i := range res.Regions {
		if err := t.look(&m, i, &res.Regions[i]); err != nil {
			return err
		}
	}
	if t.pixels == nil {
		for i := range res.Regions {
			t.pixels = append(t.pixels, int64(res.Regions[i].Count))
		}
	}
	t.frames = append(t.frames, m)
	return nil
}

// violation is the place of what is wrong. Limits behind those of a region are probes, which stand for what is to be
// learned, and nobody has written them.
func (t *teach) violation(v kernels.Violation) (path, value, reason string) {
	if p := v.Path; len(p) >= 4 && p[0] == "regions" && p[2] == "limits" {
		i, _ := p[1].(int)
		k, _ := p[3].(int)
		if k -= len(t.what.from.GetRegions()[i].GetLimits()); k >= 0 {
			q := t.learnt[k]
			asked := slices.IndexFunc(t.asked, func(o polygon.Quantity) bool { return o.Covers(q) })
			return fmt.Sprintf("open.quantities[%d]", asked), fmt.Sprintf("%q", q), v.Reason
		}
	}
	return t.what.paths.Violation(v)
}

// reachesOutside says that a region isn't all in the frame, and that none of its limits allows that.
func reachesOutside(r *polygon.RegionResult, limits []*polygon.Limit) bool {
	return (!r.CoverageKnown || r.Coverage < 1) && !slices.ContainsFunc(limits, (*polygon.Limit).AllowsOutside)
}

const outsideReason = `reaches outside the frame, where all limits fail; move it, or add a limit such as "coverage >= 0.8"`

// look takes the numbers of a region, and what its own limits say that stay.
func (t *teach) look(m *measurement, i int, r *polygon.RegionResult) error {
	limits := t.measured.Limits(i)
	own := len(limits) - len(t.learnt)
	switch {
	case r.Count == 0:
		return t.what.refuse(i, "", fmt.Sprintf("%q", r.Name),
			"has no pixel in the frame: there is nothing to learn")
	case reachesOutside(r, limits[:own]):
		return t.what.refuse(i, "", fmt.Sprintf("%q", r.Name), outsideReason)
	}
	why := ""
	for k := range r.Limits {
		l := &r.Limits[k]
		switch {
		case k >= own && !l.Measured && m.label == pb.FrameLabel_FRAME_LABEL_GOOD:
			return t.what.refuse(i, "", fmt.Sprintf("%q", r.Name), "%s", l.Reason)
		case k >= own && !l.Measured:
			m.values = append(m.values, math.NaN()) // which fails
		case k >= own:
			m.values = append(m.values, l.Value)
		case why == "" && l.Verdict == polygon.Fail && !t.taught(limits[k]):
			why = l.Reason
		}
	}
	if why != "" {
		if err := t.mem.keep(int64(64 + len(why))); err != nil {
			return err
		}
		m.failed = append(m.failed, failure{i, why})
	}
	return nil
}

func (t *teach) answer() (proto.Message, error) {
	good, bad := 0, 0
	for i := range t.frames {
		if t.frames[i].label == pb.FrameLabel_FRAME_LABEL_GOOD {
			good++
		} else {
			bad++
		}
	}
	if good < 2 {
		return nil, apierr.Refuse("frame", fmt.Sprintf("%d good", good),
			"are too few: what good parts have in common takes 2 at least, and some %d for this margin", t.margin.enough())
	}
	res := &pb.TeachResponse{Tally: &pb.Tally{}, Backend: t.backend}
	set, limits, err := t.learn(res, good)
	if err != nil {
		return nil, err
	}
	t.judge(res, limits)
	res.Recipe = &pb.Recipe{RegionSet: set}
	if r := t.what.recipe; r != nil {
		res.Recipe.Name, res.Recipe.Description, res.Recipe.Reductions = r.GetName(), r.GetDescription(), r.GetReductions()
		res.Recipe.Frames, res.Recipe.FlatField = r.GetFrames(), r.GetFlatField()
	}
	t.warn(res, good, bad)
	return res, nil
}

// learn makes the limits of all regions, and returns the regions with them. Of each region and quantity there is a
// limit, or nil.
func (t *teach) learn(res *pb.TeachResponse, good int) (*pb.RegionSet, []*polygon.Limit, error) {
	set := t.what.with(make([]*pb.Region, len(t.what.from.GetRegions())))
	set.DrawnOn = &pb.FrameSize{Width: uint32(t.size.width), Height: uint32(t.size.height)} // which all frames have
	limits := make([]*polygon.Limit, 0, len(t.what.from.GetRegions())*len(t.learnt))
	values := make([]float64, 0, good)
	reductions := wire.ReductionsOf(t.what.recipe.GetReductions())
	for i, r := range t.what.from.GetRegions() {
		out := &pb.Region{Name: r.GetName(), Rings: r.GetRings(), Mask: r.GetMask(), Shape: r.GetShape(),
			FillRule: r.GetFillRule(), Reference: r.GetReference()}
		for k, l := range t.what.set.Limits(i) {
			if !t.taught(l) {
				out.Limits = append(out.Limits, r.GetLimits()[k])
			}
		}
		for k, q := range t.learnt {
			values = values[:0]
			for f := range t.frames {
				if t.frames[f].label == pb.FrameLabel_FRAME_LABEL_GOOD {
					values = append(values, t.frames[f].values[i*len(t.learnt)+k])
				}
			}
			lowest, highest := t.measured.Range(i, q, t.size.format.Levels()-1, t.pixels[i], &reductions)
			expr, s := t.margin.learn(q, values, lowest, highest)
			res.Limits = append(res.Limits, &pb.TaughtLimit{
				Region: uint32(i), RegionName: r.GetName(), Quantity: q.String(), Least: s.least, Greatest: s.greatest,
				Mean: s.mean, Stddev: s.stddev, Expression: expr,
			})
			if expr == "" {
				limits = append(limits, nil)
				continue
			}
			l, err := polygon.ParseLimit(expr)
			if err != nil {
				return nil, nil, fmt.Errorf("a limit that was learned can't be read: %w", err)
			}
			limits = append(limits, &l)
			out.Limits = append(out.Limits, expr)
		}
		set.Regions[i] = out
	}
	return set, limits, nil
}

// judge says what the limits make of each frame.
func (t *teach) judge(res *pb.TeachResponse, limits []*polygon.Limit) {
	for f := range t.frames {
		from := &t.frames[f]
		m := from.message(pb.Verdict_VERDICT_PASS)
		failed := from.failed
		for i, r := range t.what.from.GetRegions() {
			why := ""
			if len(failed) > 0 && failed[0].region == i {
				why, failed = failed[0].reason, failed[1:]
			}
			for k := range t.learnt {
				at := i*len(t.learnt) + k
				if limits[at] == nil {
					continue
				}
				l := limits[at].Judge(from.values[at], t.learnt[k].Channel())
				if l.Verdict == polygon.Pass {
					continue
				}
				if from.label == pb.FrameLabel_FRAME_LABEL_BAD {
					res.Limits[at].BadRejected++
				} else {
					res.Limits[at].GoodRejected++
				}
				if why == "" {
					why = l.Reason
				}
			}
			if why != "" {
				fail(m, i, r.GetName(), why)
			}
		}
		count(res.Tally, m.Label, m.Verdict)
		res.Frames = append(res.Frames, m)
	}
}

// warn says what somebody should know who uses the recipe.
func (t *teach) warn(res *pb.TeachResponse, good, bad int) {
	say := func(format string, args ...any) { res.Warnings = append(res.Warnings, fmt.Sprintf(format, args...)) }
	if n := t.margin.enough(); good < n {
		say("%d good frames are few for %v: take %d or more", good, t.margin, n)
	}
	same, none := 0, 0
	var first *pb.TaughtLimit
	for _, l := range res.GetLimits() {
		if l.GetLeast() == l.GetGreatest() {
			if same++; first == nil {
				first = l
			}
		}
		if l.GetExpression() == "" {
			none++
		}
	}
	if same > 0 {
		say("%d of %d numbers are the same on all good frames, such as %s of %q: their limits are as narrow as can be; are "+
			"the frames of different parts?", same, len(res.GetLimits()), first.GetQuantity(), first.GetRegionName())
	}
	if none > 0 {
		say("%d of %d numbers vary so much that a limit could not fail: they have none", none, len(res.GetLimits()))
	}
	if n := res.GetTally().GetGoodFailed(); n > 0 {
		say("%d of %d good frames would fail%s", n, good, example(res, pb.FrameLabel_FRAME_LABEL_GOOD))
	}
	if n := res.GetTally().GetBadPassed(); n > 0 {
		say("%d of %d bad frames would pass%s", n, bad, example(res, pb.FrameLabel_FRAME_LABEL_BAD))
	}
}

// example names the first good frame that fails, with the reason, which may be a limit that the regions had before; or
// the first bad one that passes.
func example(res *pb.TeachResponse, label pb.FrameLabel) string {
	good := label == pb.FrameLabel_FRAME_LABEL_GOOD
	for _, f := range res.GetFrames() {
		if f.GetLabel() != label || good != (f.GetVerdict() == pb.Verdict_VERDICT_FAIL) {
			continue
		}
		text := fmt.Sprintf(", such as frame %d", f.GetIndex())
		if f.GetFrameId() != "" {
			text = fmt.Sprintf(", such as %q", f.GetFrameId())
		}
		if failed := f.GetFailed(); len(failed) > 0 {
			text += fmt.Sprintf(", in region %q: %s", failed[0].GetRegionName(), failed[0].GetReason())
		}
		return text
	}
	return ""
}
