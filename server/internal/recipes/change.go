// What somebody changed: an entry of the audit log.

package recipes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// Auditor keeps who changed what. It is called in the order of changes, and doesn't wait. owner is the tenant whose
// recipe it is.
type Auditor interface {
	Audit(m *pb.AuditEntry, owner string)
}

// audit tells the auditor, if there is one.
func (s *Service) audit(ctx context.Context, m *pb.AuditEntry, owner string) {
	if s.auditor == nil {
		return
	}
	m.At = timestamppb.New(time.Now())
	m.Tenant = auth.FromContext(ctx).Tenant
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		m.Peer = p.Addr.String()
	}
	s.auditor.Audit(m, owner)
}

// mostChanges is how many lines a difference has at most, mostChangeBytes how many bytes these have, and mostLineBytes
// one of them: limits and descriptions are as long as anybody writes them, and entries stay in the history.
const mostChanges, mostChangeBytes, mostLineBytes = 1000, 64 << 10, 2 << 10

// flat is how a field is told.
func flat(m *pb.FlatField) string {
	if m == nil {
		return "none"
	}
	return fmt.Sprintf("%dx%d, %s", m.GetLayout().GetWidth(), m.GetLayout().GetHeight(), m.GetSha256())
}

// differences says what is different between two versions of a recipe, a line each. before is nil for the first one.
func differences(before, after *pb.Recipe) []string {
	var lines []string
	bytes, more := 0, 0
	add := func(format string, args ...any) {
		if len(lines) == mostChanges || bytes > mostChangeBytes-mostLineBytes {
			more++
			return
		}
		line := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
		if n := len(line); n > mostLineBytes {
			const told = 40 // bytes of how much was cut
			line = strings.ToValidUTF8(line[:mostLineBytes-told], "")
			line += fmt.Sprintf("… and %d bytes more", n-len(line))
		}
		bytes += len(line)
		lines = append(lines, line)
	}
	if before == nil {
		limits := 0
		for _, r := range after.GetRegionSet().GetRegions() {
			limits += len(r.GetLimits())
		}
		add("the first version: %d regions with %d limits", len(after.GetRegionSet().GetRegions()), limits)
		return lines
	}
	if a, b := before.GetDescription(), after.GetDescription(); a != b {
		add("description: %q, before %q", b, a)
	}
	if !proto.Equal(before.GetReductions(), after.GetReductions()) {
		add("reductions: %s, before %s", reductions(after), reductions(before))
	}
	for _, name := range slices.Sorted(maps.Keys(after.GetFrames())) {
		if a, b := before.GetFrames()[name], after.GetFrames()[name]; a != b {
			add("frame %q: %q, before %q", name, b, a)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.GetFrames())) {
		if _, still := after.GetFrames()[name]; !still {
			add("frame %q: removed", name)
		}
	}
	if a, b := before.GetFlatField(), after.GetFlatField(); !proto.Equal(a, b) {
		add("flat field: %s, before %s", flat(b), flat(a))
	}
	if a, b := before.GetRegionSet().GetScale(), after.GetRegionSet().GetScale(); !proto.Equal(a, b) {
		add("scale: %s, before %s", scale(b), scale(a))
	}
	if a, b := before.GetRegionSet().GetDrawnOn(), after.GetRegionSet().GetDrawnOn(); !proto.Equal(a, b) {
		add("drawn on: %dx%d pixels, before %dx%d", b.GetWidth(), b.GetHeight(), a.GetWidth(), a.GetHeight())
	}
	locating(before.GetRegionSet().GetLocate(), after.GetRegionSet().GetLocate(), add)
	was := map[string][]*pb.Region{} // regions may share a name: then they are compared in order
	label := func(i int, r *pb.Region) string {
		if r.GetName() != "" {
			return r.GetName()
		}
		return fmt.Sprintf("#%d", i)
	}
	for i, r := range before.GetRegionSet().GetRegions() {
		was[label(i, r)] = append(was[label(i, r)], r)
	}
	for i, r := range after.GetRegionSet().GetRegions() {
		name := label(i, r)
		list := was[name]
		if len(list) == 0 {
			add("region %s: added%s", name, limits(r))
			continue
		}
		old := list[0]
		was[name] = list[1:]
		if a, b := strings.Join(old.GetLimits(), "; "), strings.Join(r.GetLimits(), "; "); a != b {
			add("region %s: limits %q, before %q", name, b, a)
		}
		if !proto.Equal(old.GetReference(), r.GetReference()) {
			add("region %s: reference changed", name)
		}
		if old.GetFillRule() != r.GetFillRule() {
			add("region %s: fill rule %s, before %s", name, r.GetFillRule(), old.GetFillRule())
		}
		if !proto.Equal(&pb.Region{Rings: old.GetRings(), Mask: old.GetMask(), Shape: old.GetShape()},
			&pb.Region{Rings: r.GetRings(), Mask: r.GetMask(), Shape: r.GetShape()}) {
			add("region %s: shape changed: %s, before %s", name, shape(r), shape(old))
		}
	}
	for i, r := range before.GetRegionSet().GetRegions() {
		name := label(i, r)
		if list := was[name]; len(list) > 0 && list[0] == r {
			was[name] = list[1:]
			add("region %s: removed%s", name, limits(r))
		}
	}
	if more > 0 {
		lines[len(lines)-1] = fmt.Sprintf("and %d more", more+1)
	}
	return lines
}

// locating says what is different in how parts are located.
func locating(before, after *pb.Locate, add func(format string, args ...any)) {
	switch {
	case before == nil && after == nil:
		return
	case before == nil:
		add("locate: %d fiducials, before none", len(after.GetFiducials()))
		return
	case after == nil:
		add("locate: none, before %d fiducials", len(before.GetFiducials()))
		return
	}
	fields("locate", before, after, add)
	name := func(i int, f *pb.Fiducial) string {
		if is := f.GetWindow().GetName(); is != "" {
			return is
		}
		return strconv.Itoa(i + 1)
	}
	was := map[string]*pb.Fiducial{}
	for i, f := range before.GetFiducials() {
		was[name(i, f)] = f
	}
	for i, f := range after.GetFiducials() {
		is := name(i, f)
		if old := was[is]; old == nil {
			add("fiducial %s: added, window %s, at %s", is, shape(f.GetWindow()), place(f.GetAt()))
		} else {
			fields("fiducial "+is, old, f, add)
		}
		delete(was, is)
	}
	for i, f := range before.GetFiducials() {
		if is := name(i, f); was[is] == f {
			add("fiducial %s: removed", is)
		}
	}
}

// fields says which fields of two messages of a kind differ, but for lists.
func fields(what string, before, after proto.Message, add func(format string, args ...any)) {
	a, b := before.ProtoReflect(), after.ProtoReflect()
	for i := range a.Descriptor().Fields().Len() {
		if f := a.Descriptor().Fields().Get(i); !f.IsList() && !a.Get(f).Equal(b.Get(f)) {
			add("%s: %s %s, before %s", what, f.Name(), value(b, f), value(a, f))
		}
	}
}

// value is a field as a recipe's file has it.
func value(m protoreflect.Message, f protoreflect.FieldDescriptor) string {
	v := m.Get(f)
	switch {
	case f.Kind() == protoreflect.BoolKind:
	case !m.Has(f):
		return "by default"
	case f.Kind() == protoreflect.EnumKind:
		all := f.Enum().Values()
		kind := strings.TrimSuffix(string(all.ByNumber(0).Name()), "UNSPECIFIED")
		return strings.ToLower(strings.TrimPrefix(string(all.ByNumber(v.Enum()).Name()), kind))
	case f.Kind() == protoreflect.MessageKind:
		switch is := v.Message().Interface().(type) {
		case *pb.Region:
			return shape(is)
		case *pb.Point:
			return place(is)
		}
	}
	return v.String()
}

func place(p *pb.Point) string { return fmt.Sprintf("(%v, %v)", p.GetX(), p.GetY()) }

func limits(r *pb.Region) string {
	if len(r.GetLimits()) == 0 {
		return ", without limits"
	}
	return fmt.Sprintf(", limits %q", strings.Join(r.GetLimits(), "; "))
}

func scale(s *pb.Scale) string {
	if s == nil {
		return "none"
	}
	text := fmt.Sprintf("%v mm per pixel", s.GetX())
	if y := s.GetY(); y != 0 && y != s.GetX() {
		text = fmt.Sprintf("%v by %v mm per pixel", s.GetX(), y)
	}
	if o := s.GetOrigin(); o.GetX() != 0 || o.GetY() != 0 {
		text += " from " + place(o)
	}
	return text
}

func shape(r *pb.Region) string {
	if m := r.GetMask(); m != nil {
		pixels, runs := 0, m.GetRuns()
		for i := 2; i < len(runs); i += 3 {
			pixels += int(runs[i]) - int(runs[i-1])
		}
		return fmt.Sprintf("a mask of %d pixels", pixels)
	}
	if text := r.GetShape(); text != "" {
		return strconv.Quote(text)
	}
	n := 0
	for _, ring := range r.GetRings() {
		n += len(ring.GetXy()) / 2
	}
	if rings := len(r.GetRings()); rings != 1 {
		return fmt.Sprintf("%d vertices in %d rings", n, rings)
	}
	return fmt.Sprintf("%d vertices", n)
}

// reductions is what a recipe computes, as text.
func reductions(m *pb.Recipe) string {
	r := m.GetReductions()
	var words []string
	for _, s := range r.GetStatistics() {
		words = append(words, strings.ToLower(strings.TrimPrefix(s.String(), "STATISTIC_")))
	}
	if len(words) == 0 {
		words = append(words, "the default")
	}
	if p := r.GetPercentiles(); len(p) > 0 {
		words = append(words, strings.Trim(fmt.Sprint(p), "[]")+" %")
	}
	if r.GetPercentileMethod() == pb.PercentileMethod_PERCENTILE_METHOD_LINEAR {
		words = append(words, "linear percentiles")
	}
	if h := r.GetHistogram(); h.GetBins() > 0 {
		words = append(words, fmt.Sprintf("%d bins in [%g, %g)", h.GetBins(), h.GetLower(), h.GetUpper()))
	}
	if c := r.GetCooccurrence(); c != nil {
		text := "textures of neighbours"
		if len(c.GetOffsets()) > 0 {
			text = "textures at"
			for _, o := range c.GetOffsets() {
				text += fmt.Sprintf(" (%d,%d)", o.GetDx(), o.GetDy())
			}
		}
		if n := c.GetLevels(); n > 0 {
			text += fmt.Sprintf(" in %d levels", n)
		}
		if c.GetCounts() {
			text += " with counts"
		}
		words = append(words, text)
	}
	if c := r.GetCovered(); c != nil {
		text := "pixels weighted by coverage"
		if c.GetHistogram() {
			text += " with histograms"
		}
		words = append(words, text)
	}
	if b := r.GetBlobs(); b != nil {
		words = append(words, "blobs ("+strings.Join(strings.Fields(fmt.Sprint(b)), " ")+")")
	}
	for _, c := range wire.ReductionsOf(r).Correlations {
		words = append(words, c.String())
	}
	return strings.Join(words, ", ")
}
