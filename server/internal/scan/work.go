// The worker of a session: strips to the device, and parts back.

package scan

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/device"
	"github.com/polyscan/polyscan/server/internal/wire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// work is the worker.
func (ss *session) work() {
	defer ss.ended()
	for ss.ctx.Err() == nil {
		select {
		case <-ss.ctx.Done():
		case <-ss.dev.Lost():
			ss.regain()
		case <-ss.wake:
			for ss.step() {
			}
		}
	}
}

// ended gives everything back.
func (ss *session) ended() {
	if p := recover(); p != nil {
		ss.fail(ss.service.Host.Panicked(ss.ctx, p))
	}
	ss.service.scans.remove(ss)
	ss.scanner.Close()
	ss.strips.Close()
	ss.seen.Close(nil)
	ss.mu.Lock()
	if ss.conn != nil {
		ss.conn.finish(apierr.ErrShuttingDown)
	}
	if x := ss.order.inWork; x != nil { // it panicked
		x.free()
		ss.order.inWork = nil
	}
	ss.leave()
	ss.gone = true
	ss.log.InfoContext(ss.ctx, "line-scan session ends", "strips", ss.order.done, "lines", ss.order.doneLine,
		"results", ss.results)
	ss.outbox, ss.sent = nil, nil
	ss.noteDue()
	if ss.busy != nil {
		close(ss.busy)
		ss.busy = nil
	}
	ss.mu.Unlock()
	if ss.dev.Device != nil {
		ss.dev.End()
	}
	ss.stop()
	ss.service.Metrics.Sessions.Dec()
}

// fail ends the session and its call with an error.
func (ss *session) fail(err error) {
	ss.mu.Lock()
	if ss.conn != nil {
		ss.conn.finish(err)
	}
	ss.mu.Unlock()
	ss.drop()
}

// step takes the next strip, and says whether to go on.
func (ss *session) step() bool {
	if ss.ctx.Err() != nil || ss.dev.Device == nil {
		return false
	}
	ss.mu.Lock()
	x := ss.order.take()
	if x == nil && (!ss.closing || ss.finished) {
		ss.mu.Unlock()
		return false
	}
	ss.busy = make(chan struct{})
	ss.mu.Unlock()

	var items []*item
	var err error
	if x != nil {
		items, err = ss.scan(x)
	} else {
		items, err = ss.settle()
	}

	if x == nil {
		ss.strips.Close()
	} else if ss.sketch != nil || ss.strips != nil {
		items = ss.draw(x, items)
	}
	ss.mu.Lock()
	if x != nil {
		ss.order.finish()
		x.free()
	} else {
		ss.finished = !errors.Is(err, kernels.ErrDeviceLost) // else once more on the next one
	}
	for _, i := range items {
		ss.push(i)
	}
	ss.ackDue = true
	if ss.conn != nil {
		signal(ss.conn.wake)
	}
	ss.checkUnread()
	ss.noteDue()
	close(ss.busy)
	ss.busy = nil
	ss.mu.Unlock()
	if errors.Is(err, kernels.ErrDeviceLost) {
		ss.regain()
	}
	return true
}

// scan processes a strip.
func (ss *session) scan(x *strip) (items []*item, err error) {
	if x.err != nil {
		return nil, nil
	}
	start := time.Now()
	ctx := kernels.WithDeadline(ss.ctx, x.arrived.Add(ss.budget))
	var done []*polygon.ScannedPart
	for number, line := range ss.starts(x) {
		ss.begins(number, line, x)
		err := ss.scanner.Start(number, line)
		if errors.Is(err, polygon.ErrTooManyParts) {
			// Behind a gap those that it ended make room. If that fails they are done with the strip.
			if ended, e := ss.scanner.Settle(ctx, min(line, x.GetFirstLine())); e == nil {
				done = append(done, ended...)
				err = ss.scanner.Start(number, line)
			}
		}
		if err != nil {
			delete(ss.ids, number)
			items = append(items, &item{event: ss.badStrip(x, ss.startError(line, err), true)})
		}
	}
	parts, err := ss.scanner.Strip(ctx,
		polygon.ScanStrip{FirstLine: x.GetFirstLine(), Frame: x.frame.Picture, Settled: x.end})
	if err != nil {
		items = append(items, &item{event: ss.badStrip(x, ss.what.Paths.Translate(err), false)})
	}
	ss.service.Metrics.Strip(x.lines, time.Since(x.arrived))
	return append(items, ss.partItems(append(done, parts...), x, start)...), err
}

// starts are the parts that start before the strip's end and have lines in it or after it.
func (ss *session) starts(x *strip) func(yield func(number, line uint64) bool) {
	return func(yield func(number, line uint64) bool) {
		if ss.every == 0 {
			for _, at := range x.GetPartStarts() {
				ss.nextPart++
				if !yield(ss.nextPart-1, at) {
					return
				}
			}
			return
		}
		if first := x.GetFirstLine(); first >= ss.lines {
			ss.nextPart = max(ss.nextPart, (first-ss.lines)/ss.every+1)
		}
		for ss.nextPart*ss.every < x.end {
			ss.nextPart++
			if !yield(ss.nextPart-1, (ss.nextPart-1)*ss.every) {
				return
			}
		}
	}
}

// startError is what is wrong with the start of a part.
func (ss *session) startError(line uint64, err error) error {
	if errors.Is(err, polygon.ErrTooManyParts) {
		return apierr.Quota(apierr.ReasonTooManyParts, "parts",
			fmt.Sprintf("%d are under way where another starts, at line %d", ss.scanner.Open(), line))
	}
	return err
}

// settle finishes the parts that are not complete.
func (ss *session) settle() ([]*item, error) {
	start := time.Now()
	parts, err := ss.scanner.Settle(ss.ctx, math.MaxUint64)
	if err != nil && !errors.Is(err, kernels.ErrDeviceLost) { // once more: the sums are still there
		parts, err = ss.scanner.Settle(ss.ctx, math.MaxUint64)
	}
	if err != nil && !errors.Is(err, kernels.ErrDeviceLost) {
		ss.fail(err)
	}
	return ss.partItems(parts, &strip{Strip: &pb.Strip{Sequence: max(ss.order.done, 1) - 1}, arrived: start},
		start), err
}

// partItems makes results of parts that are done with strip x.
func (ss *session) partItems(parts []*polygon.ScannedPart, x *strip, start time.Time) (items []*item) {
	if len(parts) == 0 {
		return nil
	}
	compute := time.Since(start)
	for _, p := range parts {
		m := &pb.PartResult{
			PartNumber: p.Number, FirstLine: p.FirstLine, Incomplete: p.MissingLines > 0,
			MissingLines: uint64(p.MissingLines),
			CapturedAt:   x.GetCapturedAt(), StripSequence: x.GetSequence(),
			Times: &pb.PartTimes{Queue: durationpb.New(start.Sub(x.arrived)), Compute: durationpb.New(compute)},
		}
		if p.Err != nil {
			m.Error = apierr.StatusOf(ss.ctx, ss.log, ss.what.Paths.Translate(p.Err)).Proto()
		} else {
			m.Times.Queue = durationpb.New(start.Sub(x.arrived) + p.Result.Queue)
			m.Times.Compute = durationpb.New(compute - p.Result.Queue)
			m.Regions = wire.RegionResults(p.Result, ss.what.Reductions.Output.Fields)
			m.Columns = wire.RegionColumns(p.Result)
			m.Verdict = pb.Verdict(p.Result.Verdict)
			m.Pose = wire.PoseMessage(p.Result.Pose)
		}
		ss.service.Metrics.Part(m)
		m.ResultNumber = ss.nextNumber()
		late := ss.tell(m, p.Result, x)
		head, err := proto.Marshal(m)
		if err != nil { // a text that is no UTF-8, say, of which there is none
			ss.fail(err)
			return items
		}
		items = append(items, &item{number: m.GetResultNumber(), head: head, arrived: x.arrived, ready: time.Now(),
			late: late})
	}
	return items
}

// nextNumber numbers results; only the worker makes them.
func (ss *session) nextNumber() uint64 {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.results++
	return ss.results - 1
}

// regain waits for the device to be opened again, and goes on there.
func (ss *session) regain() {
	ss.scanner.Detach()
	ss.dev.End()
	ss.dev = device.Lease{}
	for {
		dev, err := ss.service.Host.WaitForDevice(ss.ctx)
		if err != nil {
			return
		}
		if err = ss.scanner.Reset(ss.ctx, dev.Device); err == nil {
			ss.dev = dev
			break
		}
		dev.End()
		if !errors.Is(err, kernels.ErrDeviceLost) {
			ss.fail(err)
			return
		}
	}
	ss.report(&pb.ScanEvent{Kind: pb.ScanEventKind_SCAN_EVENT_KIND_DEVICE_LOST})
	signal(ss.wake)
}
