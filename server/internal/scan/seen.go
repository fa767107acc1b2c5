// What others than its client see of a session: parts with their ids, and small pictures of some.

package scan

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/events"
)

// isName says that a camera_id is such a name as Inspection.name takes.
var isName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9 ._:/@#+-]{0,62}[A-Za-z0-9._:/@#+-])?$`).MatchString

// source is what the session is to others.
func (ss *session) source(ctx context.Context) events.Source {
	src := events.SourceOf(ctx, pb.StreamMethod_STREAM_METHOD_SCAN_LINES, ss.what, ss.service.Host.Backend())
	src.Layout, src.PartLines, src.From = ss.layout, uint32(ss.lines), ss.from
	return src
}

// startsIn is how many parts start in a strip.
func (ss *session) startsIn(x *strip) int {
	if ss.every == 0 {
		return len(x.GetPartStarts())
	}
	first := x.GetFirstLine() + ss.every - 1
	return int((first+uint64(x.lines))/ss.every - first/ss.every)
}

// partNames are what a client calls a part, and the frame that the first of its lines came in.
type partNames struct{ part, frame string }

// begins notes the names of a part that starts at a line, and begins a picture of it where one is due.
func (ss *session) begins(number, line uint64, x *strip) {
	names := partNames{frame: x.frameID}
	if ids, first := x.GetLostPartIds(), x.GetFirstLine(); len(ids) > 0 && line < first {
		if after := (first-1)/ss.every - line/ss.every; after < uint64(len(ids)) &&
			ids[uint64(len(ids))-1-after] != "" {
			names.part = ids[uint64(len(ids))-1-after]
		}
	}
	if ids := x.GetPartIds(); len(ids) > 0 && line >= x.GetFirstLine() {
		at, _ := slices.BinarySearch(x.GetPartStarts(), line)
		if ss.every != 0 {
			at = int(line/ss.every - (x.GetFirstLine()+ss.every-1)/ss.every)
		}
		names.part = ids[at]
	}
	if names != (partNames{}) {
		ss.ids[number] = names
	}
	if len(ss.ids) > 2*ss.service.Parts { // of parts that came to nothing
		for n := range ss.ids {
			if n+uint64(ss.service.Parts) < number {
				delete(ss.ids, n)
			}
		}
	}
	if ss.sketch != nil && number > ss.sketch.number+uint64(ss.service.Parts) {
		ss.sketch = nil // its part came to nothing
	}
	if ss.sketch == nil && line >= x.GetFirstLine() {
		if k := ss.seen.Sketch(int(ss.layout.GetWidth()), int(ss.lines), ss.format); k != nil {
			ss.sketch = &partSketch{Sketch: k, number: number, line: line}
		}
	}
}

// tell completes the result of a part by its id, and shows it to others. It returns whether it is late already.
func (ss *session) tell(m *pb.PartResult, r *polygon.Result, x *strip) (late bool) {
	number := m.GetPartNumber()
	names := ss.ids[number]
	m.PartId = names.part
	delete(ss.ids, number)
	latency := time.Since(x.arrived)
	late = latency > ss.budget
	ss.seen.Part(m, names.frame, r, latency, late)
	ss.strips.Part(m, r)
	if k := ss.sketch; k != nil && k.number == number {
		k.result, k.numbers = m, r
	}
	return late
}

// partSketch is a picture of a part that is being drawn.
type partSketch struct {
	*events.Sketch
	number, line uint64
	result       *pb.PartResult // nil while there is none
	numbers      *polygon.Result
}

// draw adds the lines of a strip to the sketch, and keeps them for the history. Results that the strip has completed go
// out first: both are for others.
func (ss *session) draw(x *strip, items []*item) []*item {
	if len(items) > 0 {
		ss.mu.Lock()
		for _, i := range items {
			ss.push(i)
		}
		ss.mu.Unlock()
		items = nil
	}
	var lines kernels.Picture
	if x.err == nil && len(x.frame.Data) > 0 {
		lines = x.frame.Picture
	}
	k := ss.sketch
	if k != nil && len(lines.Data) > 0 {
		k.Draw(int(int64(x.GetFirstLine())-int64(k.line)), lines)
	}
	var hold func() (release func())
	if x.own {
		hold = x.hold
	}
	ss.strips.Strip(x.GetFirstLine(), lines, hold) // after it lines may be gone
	if k == nil {
		return items
	}
	// The regions may need less than all lines of the part, and the picture shows them all.
	if m := k.result; m != nil && x.GetFirstLine()+uint64(x.lines) >= k.line+ss.lines {
		ss.sketch = nil
		if m.GetError() == nil {
			k.Done(m.GetResultNumber(), m.GetPartId(), m.GetVerdict(), k.numbers)
		}
	}
	return items
}
