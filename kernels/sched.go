package kernels

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/polyscan/polyscan/kernels/driver"
)

const (
	// patience is when a job without a deadline is taken to be due, counted from its arrival, so that others with
	// deadlines don't keep it waiting for ever; one with a later deadline is, too. Each job of its client that waits
	// makes it due later by queuePatience, at most maxQueued times: of clients that count as equal, one that sends a
	// job now and then is not behind all that another has sent at once.
	patience      = 10 * time.Second
	queuePatience = time.Second
	maxQueued     = 40
	// turn is how long a job has a stream before it makes way for any of its class that wait, so that a few long jobs
	// cost others of their class a turn and not their whole time. Line-scan knows no turns.
	turn = 2 * time.Millisecond
	// maxHalted is how many jobs of a client may have had a turn and wait for another: they hold memory, so that with
	// more of them none would end for long, and others would wait for that.
	maxHalted = 4
	// longestTurn is how far ahead a job is due, at most, that has had its turn: those behind it that are due later
	// still can wait.
	longestTurn = time.Minute
	// longestPause bounds how long a job pauses in [Queue.Yield] for more urgent ones: one of those may have work on
	// the host to do, with the device idle.
	longestPause = 10 * time.Millisecond
	// Callers that hold memory go ahead of a job that may wait for just that, so that nobody waits for ever; but one
	// after another could keep it from them all. So once it has waited for overtaking, and again each time, they are
	// refused for giveWay: what they hold comes back, and where the job waits for something else nobody is refused more
	// than a tenth of the time. They are guesses: a call on a frame takes milliseconds, and a call that is refused
	// tries again.
	overtaking = time.Second
	giveWay    = 100 * time.Millisecond
)

// sched admits jobs: it hands out memory and a stream together, so that no job waits for one with the other in its
// hands. Jobs wait by class, the most urgent first, and in a class by what their clients have had of the device, then
// by deadline and then by arrival.
//
//   - Each class has streams of its own, so that no job waits for a stream that one of another class has.
//   - The clients of a class share its time: see shares.
//   - Where the first job of a class has to wait for memory, with a stream to be had, jobs behind it that need memory
//     wait too, in its class and in those less urgent, so that small jobs don't starve large ones. Those of more urgent
//     classes, and those that need no memory, go ahead.
//   - A job whose caller holds memory (Job.Held) doesn't wait for more where no job runs that has any to give back: it
//     goes ahead of those that do, or is refused. So jobs don't wait for each other's callers. For giveWay in each
//     second it is refused instead of going ahead, so that those come to their turn; but not where it is of line-scan.
//
// The lock may be held while that of memory is taken, not the other way round.
type sched struct {
	mem        *memory
	maxWaiting int

	mu       sync.Mutex
	refusing error // why no job is admitted any more
	arrivals uint64
	waiting  int // jobs in all queues that have not begun
	classes  [numClasses]classQueue
	pauses   []pause
	jobs     costs           // how long jobs take, by label
	chunks   costs           // and their chunks: see Queue.Chunk
	ends     []time.Duration // of startOf, to be used again
}

// classQueue is the part of the scheduler that a class has of its own.
type classQueue struct {
	streams int // that may be leased, and spares beside them
	leased  int
	idle    []driver.Stream // the spares included
	waiting []*ticket       // in order
	running []*ticket       // that have begun and not ended
	stats   ClassStats
	shares  shares
}

// missed counts a job that ends after its deadline.
func (q *classQueue) missed(t *ticket, now time.Time) {
	if !t.deadline.IsZero() && now.After(t.deadline) {
		q.stats.Missed++
	}
}

// ticket is a job in the scheduler, from its arrival to its end.
type ticket struct {
	job      Job
	class    Class
	deadline time.Time // zero: none
	due      time.Time // what it is ordered by, among those of clients with equal shares
	arrival  uint64
	client   string
	share    *share        // nil in a class that knows none
	expect   time.Duration // how long it runs, as far as known

	arrived time.Time
	began   time.Time     // zero: it has not
	left    time.Time     // when it gave up its stream or paused; zero: it did not
	away    time.Duration // how long it did, in all

	arena  block
	fence  time.Time     // until when no caller that holds memory goes ahead; at first its arrival
	stream driver.Stream // nil while it waits
	since  time.Time     // it has had it since
	short  bool          // it waits for memory
	ready  chan struct{} // closed when it has a stream, or err says why it won't get one; nil where nobody waits
	err    error
}

// before reports whether t goes before o, which is of the same class.
func (t *ticket) before(o *ticket) bool {
	if t.share != o.share && t.share.step != o.share.step {
		return t.share.step < o.share.step
	}
	if c := t.due.Compare(o.due); c != 0 {
		return c < 0
	}
	return t.arrival < o.arrival
}

// letsBy reports whether a job whose caller holds memory may go ahead of t, which may wait for that memory.
func (t *ticket) letsBy(now time.Time) bool {
	if now.Sub(t.fence) >= overtaking {
		t.fence = now.Add(giveWay)
	}
	return !now.Before(t.fence)
}

// begun reports whether the job has run. Then, where it waits, it gave up its stream for a while, and is neither shed
// nor refused.
func (t *ticket) begun() bool { return !t.began.IsZero() }

// ran is how long the job has had the device.
func (t *ticket) ran(now time.Time) time.Duration {
	if !t.begun() {
		return 0
	}
	d := now.Sub(t.began) - t.away
	if !t.left.IsZero() {
		d -= now.Sub(t.left)
	}
	return d
}

// remaining is how long the job still runs, as far as known.
func (t *ticket) remaining(now time.Time) time.Duration { return max(t.expect-t.ran(now), 0) }

// settle ends the waiting of a ticket that is in no queue any more.
func (t *ticket) settle(err error) {
	t.err = err
	if t.ready != nil {
		close(t.ready)
	}
}

// acquire gets a new ticket what its job needs to run, and waits for it until ctx ends.
func (s *sched) acquire(ctx context.Context, t *ticket) error {
	s.mu.Lock()
	if err := s.submit(t); err != nil {
		s.mu.Unlock()
		return err
	}
	if t.stream != nil {
		s.mu.Unlock()
		return nil
	}
	t.ready = make(chan struct{})
	s.shed(t.arrived)
	s.mu.Unlock()
	err := s.wait(ctx, t)
	if err != nil && t.stream != nil {
		s.release(t, err, time.Now())
	}
	return err
}

// submit puts a new ticket into its queue and serves the queues, or refuses it at once.
func (s *sched) submit(t *ticket) error {
	switch {
	case s.refusing != nil:
		return s.refusing
	case t.job.Footprint > 0 && t.job.Footprint > s.mem.stats.Reserved-t.job.Held: // which does not change
		s.classes[t.class].stats.Refused++
		return s.mem.refuse(min(t.job.Footprint, maxBytes)+min(t.job.Held, maxBytes), t.job.Label, 0)
	}
	s.arrivals++
	t.arrival = s.arrivals
	t.fence = t.arrived
	t.expect = s.jobs.estimate(t.job.Label, t.job.Units)
	q := &s.classes[t.class]
	q.join(t)
	q.setDue(t)
	if err := s.tooLate(t, t.arrived, s.startOf(t)); err != nil {
		q.leave(t)
		return err
	}
	s.enqueue(t)
	s.waiting++
	s.dispatch(t.arrived)
	return t.err
}

// startOf estimates when a new ticket gets a stream, counted from its arrival: when the jobs of its client that are
// ahead of it have run, and of each other client's jobs as much as evens out what the two have had of the device. What
// jobs of other classes, and waiting for memory, add to that is unknown, and so is who is first among equals: it is a
// lower bound.
func (s *sched) startOf(t *ticket) time.Duration {
	q := &s.classes[t.class]
	if t.share == nil || t.deadline.IsZero() || q.hasStream(t) && len(q.waiting) == 0 {
		return 0
	}
	own := time.Duration(0)
	for _, w := range q.waiting {
		if w.share == t.share && w.before(t) {
			own += w.remaining(t.arrived)
		}
	}
	for _, r := range q.running {
		r.share.evenOut(t.share, own)
	}
	for _, w := range q.waiting {
		w.share.evenOut(t.share, own)
	}
	s.ends = s.ends[:0]
	for range q.streams - q.leased {
		s.ends = append(s.ends, 0)
	}
	for _, r := range q.running {
		if r.stream != nil {
			s.ends = append(s.ends, r.share.take(t.share, r.remaining(t.arrived)))
		}
	}
	first := func() *time.Duration {
		i := 0
		for k, e := range s.ends {
			if e < s.ends[i] {
				i = k
			}
		}
		return &s.ends[i]
	}
	for _, w := range q.waiting {
		if w.share != t.share || w.before(t) {
			*first() += w.share.take(t.share, w.remaining(t.arrived))
		}
	}
	return *first()
}

// tooLate refuses a job that can't make its deadline if it starts after so long.
func (s *sched) tooLate(t *ticket, now time.Time, start time.Duration) error {
	if t.deadline.IsZero() || t.class == LineScan {
		return nil
	}
	remaining := t.deadline.Sub(now)
	if start+t.expect <= remaining {
		return nil
	}
	if remaining > 0 && t.expect > remaining {
		s.jobs.doubt(t.job.Label)
	}
	s.classes[t.class].stats.Refused++
	e := &DeadlineError{Label: t.job.Label, Class: t.class, Estimate: start + t.expect, Remaining: remaining}
	if start > 0 {
		e.RetryAfter = retryAfter(start)
	}
	return e
}

func retryAfter(d time.Duration) time.Duration { return min(max(d, minRetry), maxRetry) }

// enqueue puts a ticket into its queue.
func (s *sched) enqueue(t *ticket) {
	q := &s.classes[t.class]
	i, _ := slices.BinarySearchFunc(q.waiting, t, func(a, b *ticket) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	q.waiting = slices.Insert(q.waiting, i, t)
	if t.share != nil {
		t.share.waiting++
		if t.begun() {
			t.share.halted++
		}
	}
}

// remove takes ticket i out of a queue.
func (s *sched) remove(q *classQueue, i int) *ticket {
	t := q.waiting[i]
	q.waiting = slices.Delete(q.waiting, i, i+1)
	if t.share != nil {
		t.share.waiting--
		if t.begun() {
			t.share.halted--
		}
	}
	if !t.begun() {
		s.waiting--
	}
	return t
}

// drop takes ticket i out of a queue for good, unless its job has begun: that leaves when it ends.
func (s *sched) drop(q *classQueue, i int) *ticket {
	t := s.remove(q, i)
	if !t.begun() {
		q.leave(t)
	}
	return t
}

// dispatch serves the queues as far as there are streams and memory.
func (s *sched) dispatch(now time.Time) {
	var ahead *ticket // the first job that waits for memory, if there is one
	stuck := false    // and no job has any that could come back
	for _, c := range byUrgency {
		q := &s.classes[c]
		q.account(now)
		aheadBefore := ahead
		for i := 0; i < len(q.waiting) && len(q.idle) > 0; {
			t := q.waiting[i]
			if !q.hasStream(t) {
				i++
				continue
			}
			if !t.begun() {
				if err := s.tooLate(t, now, 0); err != nil {
					s.drop(q, i).settle(err)
					continue
				}
				if t.job.Footprint > 0 {
					// Whose caller holds memory goes ahead where the jobs before it may wait for just that, and is
					// refused where it would wait for its caller, or for others that wait with some in their hands.
					if ahead != nil && stuck && t.job.Held > 0 && c != LineScan && !ahead.letsBy(now) {
						s.refuse(q, i, ahead.fence.Sub(now))
						continue
					}
					var err error
					if t.short = ahead != nil && !(stuck && t.job.Held > 0); !t.short {
						t.arena, err = s.mem.reserve(t.job.Footprint, scratch, t.job.Label)
						t.short = err != nil
						stuck = err != nil && noneUsed(err)
					}
					if stuck && t.job.Held > 0 {
						s.refuse(q, i, 0)
						continue
					}
					if t.short {
						if ahead == nil {
							ahead = t
						}
						i++
						continue
					}
				}
			}
			s.grant(q, s.remove(q, i), now)
		}
		if q.leased >= q.streams { // memory alone would be of no use to those who wait
			ahead = aheadBefore
		}
	}
	s.endPauses()
}

// refuse refuses ticket i of a queue for its memory. It may try again after so long, or what memory takes to come back
// where that is more.
func (s *sched) refuse(q *classQueue, i int, after time.Duration) {
	q.stats.Refused++
	t := s.drop(q, i)
	e := s.mem.refuse(t.job.Footprint, t.job.Label, i)
	e.RetryAfter = max(e.RetryAfter, after)
	t.settle(e)
}

// grant gives a ticket one of the idle streams.
func (s *sched) grant(q *classQueue, t *ticket, now time.Time) {
	t.stream, t.since = q.idle[len(q.idle)-1], now
	q.idle = q.idle[:len(q.idle)-1]
	q.leased++
	if t.share != nil {
		t.share.streams++
	}
	q.start(t)
	if t.begun() {
		t.back(now)
	} else {
		t.began = now
		q.running = append(q.running, t)
		q.stats.Admitted++
		q.stats.Waited += now.Sub(t.arrived)
		if t.deadline.IsZero() {
			t.due = now.Add(patience)
		}
	}
	t.settle(nil)
}

// back ends the time for which the ticket gave up its stream or paused.
func (t *ticket) back(now time.Time) {
	t.away += now.Sub(t.left)
	t.left = time.Time{}
}

// wait waits until the ticket has a stream or won't get one.
func (s *sched) wait(ctx context.Context, t *ticket) error {
	select {
	case <-t.ready:
		return t.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := context.Cause(ctx)
	q := &s.classes[t.class]
	i := slices.Index(q.waiting, t)
	if i < 0 { // the answer came just now
		if t.err != nil {
			return t.err
		}
		return err
	}
	now := time.Now()
	s.drop(q, i)
	if !t.begun() {
		q.missed(t, now)
	}
	if t.short {
		err = fmt.Errorf("%w: %w", err, s.mem.refuse(t.job.Footprint, t.job.Label, i))
	}
	s.dispatch(now) // those behind may fit
	return err
}

// shed drops a job if too many wait: a batch job if there is one, or else an interactive one, of those one of the
// client that has most of them, and of those the one that would be served last.
func (s *sched) shed(now time.Time) {
	if s.waiting <= s.maxWaiting {
		return
	}
	for _, c := range []Class{Batch, Interactive} {
		q := &s.classes[c]
		i := q.leastMissed()
		if i < 0 {
			continue
		}
		q.stats.Shed++
		e := &OverloadError{Label: q.waiting[i].job.Label, Class: c, Waiting: s.waiting - 1,
			RetryAfter: s.drained(q)}
		s.drop(q, i).settle(e)
		s.dispatch(now) // those behind may fit
		return
	}
}

// drained estimates when those of a class that wait have been served.
func (s *sched) drained(q *classQueue) time.Duration {
	var d time.Duration
	for _, t := range q.waiting {
		d += t.expect
	}
	return retryAfter(d / time.Duration(q.streams))
}

// release takes back what a job had, which ended with err.
func (s *sched) release(t *ticket, err error, now time.Time) {
	s.mu.Lock()
	q := &s.classes[t.class]
	q.account(now)
	if i := slices.Index(q.running, t); i >= 0 {
		q.running = slices.Delete(q.running, i, i+1)
	}
	if t.stream != nil {
		q.stop(t)
		q.takeStream(t)
	}
	q.leave(t)
	q.stats.Done++
	q.missed(t, now)
	if err == nil {
		s.jobs.observe(t.job.Label, t.job.Units, t.ran(now))
	}
	if t.arena.len == 0 {
		s.dispatch(now)
	}
	s.mu.Unlock()
	if t.arena.len > 0 {
		s.mem.release(t.arena) // which calls memoryFreed
	}
}

// memoryFreed serves the queues again.
func (s *sched) memoryFreed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dispatch(time.Now())
}

// pause is a job that lets others go first: more urgent ones, and those that run of clients that have had less.
type pause struct {
	*ticket
	last uint64        // arrival of the last one that it waits for
	over chan struct{} // closed when it waits for nobody any more
}

// yield lets others have the device for a while, as [Queue.Yield] says. The stream has drained.
func (s *sched) yield(ctx context.Context, t *ticket, c chunk) error {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.label != "" {
		s.chunks.observe(c.label, c.units, now.Sub(c.began))
	}
	q := &s.classes[t.class]
	q.account(now)
	if p := (pause{t, s.arrivals, nil}); s.mustWait(p) {
		p.over = make(chan struct{})
		s.pauses = append(s.pauses, p)
		q.stop(t)
		t.left = now
		s.endPauses() // of those that waited for this one
		s.mu.Unlock()
		timer := time.NewTimer(longestPause)
		select {
		case <-p.over:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		now = time.Now()
		s.mu.Lock()
		s.pauses = slices.DeleteFunc(s.pauses, func(x pause) bool { return x.ticket == t })
		q.account(now)
		q.start(t)
		t.back(now)
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	if q.onSpare(t) {
		return s.waitAgain(ctx, t, now)
	}
	if len(q.waiting) == 0 {
		return nil
	}
	if t.deadline.IsZero() && now.After(t.due) {
		t.due = now.Add(patience)
	}
	if t.share != nil && t.share.halted < maxHalted && now.Sub(t.since) > turn { // behind all that wait
		last := slices.MaxFunc(q.waiting, func(a, b *ticket) int { return a.due.Compare(b.due) }).due.Add(1)
		if most := now.Add(longestTurn); last.After(most) {
			last = most
		}
		if t.due = now.Add(patience); t.due.Before(last) {
			t.due = last
		}
	}
	if t.before(q.waiting[0]) {
		return nil
	}
	return s.waitAgain(ctx, t, now)
}

// waitAgain gives up the stream of a job that runs, and waits for another. s.mu is held before and after it.
func (s *sched) waitAgain(ctx context.Context, t *ticket, now time.Time) error {
	s.giveUp(t, now)
	s.mu.Unlock()
	err := s.wait(ctx, t)
	s.mu.Lock()
	return err
}

// giveUp has a job that runs wait for a stream again, behind those that are due earlier. Where none of them has what it
// needs the job gets its stream back at once.
func (s *sched) giveUp(t *ticket, now time.Time) {
	q := &s.classes[t.class]
	q.account(now)
	q.stop(t)
	q.takeStream(t)
	t.left = now
	t.ready = make(chan struct{})
	s.enqueue(t)
	s.dispatch(now)
}

// chunkUnits is how many of the units that are left a chunk is to have. Chunks of the rest are equally large.
func (s *sched) chunkUnits(label string, left int64) int64 {
	most := float64(firstChunk)
	s.mu.Lock()
	if c := s.chunks[label]; c != nil {
		most = c.units(chunkTime)
	}
	s.mu.Unlock()
	if most >= float64(left) {
		return left
	}
	n := int64(max(most, 1))
	parts := (left + n - 1) / n
	return (left + parts - 1) / parts
}

// mustWait reports whether there are jobs that p waits for. Those that wait for memory are not among them: it may be
// that of the job that pauses.
func (s *sched) mustWait(p pause) bool {
	counts := func(t *ticket) bool { return t.arrival <= p.last && !t.short }
	for _, c := range byUrgency {
		if c == p.class {
			break
		}
		q := &s.classes[c]
		if slices.ContainsFunc(q.running, counts) || slices.ContainsFunc(q.waiting, counts) {
			return true
		}
	}
	return s.classes[p.class].letsFirst(p.ticket)
}

// endPauses wakes those who wait for nobody any more.
func (s *sched) endPauses() {
	for i := 0; i < len(s.pauses); {
		if p := s.pauses[i]; !s.mustWait(p) {
			s.pauses = slices.Delete(s.pauses, i, i+1)
			close(p.over)
			continue
		}
		i++
	}
}

// keep reserves memory at once. What may be evicted later does not get any while jobs wait for some. That there is none
// for a memo is no refusal: nobody is worse off.
func (s *sched) keep(n int64, t tenant, label string) (block, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusing != nil {
		return block{}, s.refusing
	}
	ahead := 0
	if t == cached || t == computed {
		ahead = s.starved()
	}
	if ahead == 0 {
		if b, err := s.mem.reserve(n, t, label); err == nil {
			return b, nil
		}
	}
	if t == computed {
		return block{}, driver.ErrOutOfMemory
	}
	return block{}, s.mem.refuse(n, label, ahead)
}

// starved counts the jobs in the queue that wait for nothing but memory: there are streams for them, and a try to
// reserve has failed. A job whose stream is still on its way back to idle has not tried yet, and memory may be plenty.
func (s *sched) starved() (n int) {
	for c := range s.classes {
		q := &s.classes[c]
		if q.leased >= q.streams {
			continue
		}
		for _, t := range q.waiting {
			if !t.begun() && t.short {
				n++
			}
		}
	}
	return n
}

// forMemory counts the jobs in the queue that need memory.
func (s *sched) forMemory() (n int) {
	for c := range s.classes {
		for _, t := range s.classes[c].waiting {
			if !t.begun() && t.job.Footprint > 0 {
				n++
			}
		}
	}
	return n
}

// shut refuses jobs with err from now on, those that wait as well. With abort, those that gave up their streams are
// refused one too.
func (s *sched) shut(err error, abort bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusing == nil {
		s.refusing = err
	}
	for c := range s.classes {
		q := &s.classes[c]
		for i := 0; i < len(q.waiting); {
			if q.waiting[i].begun() && !abort {
				i++
				continue
			}
			s.drop(q, i).settle(err)
		}
	}
	s.endPauses()
}
