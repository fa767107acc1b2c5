// Shares: how the clients of a class divide its time on the device.

package kernels

import (
	"slices"
	"time"
)

const (
	// shareStep is by how much device time clients may differ and yet count as equal: among those deadlines decide. It
	// is a turn, since a client gets no less at a time.
	shareStep = turn
	// headStart is how far behind the others a client may be that had no work, or waited for something else than the
	// device. So much of its work goes before theirs when it comes: a client that asks for less than its share waits
	// for pieces of the others and not for their jobs. Nobody gains by it in the long run, as what it was behind by
	// more is forgotten and what it had is not. It is more than clients that always have work are behind each other.
	headStart = 10 * time.Millisecond
	// longestDebt is how far ahead of the others a client may be. Beyond it is forgotten what it has had: it had jobs
	// that know no pieces, and must not stand still for as long as those took.
	longestDebt = 250 * time.Millisecond
	// settling is how much device time of a client's own it takes until virtual is about where those are who have work.
	// While it is longer than headStart, clients that come and go at once keep nobody out: virtual runs away from those
	// who wait by more than a head start.
	settling = 2 * headStart
	// spareStreams of a class.
	spareStreams = 2
	// fewShares are as many as are never looked through for those that can go.
	fewShares = 64
)

// shares divides the time of a class by weighted fair queueing, with equal weights. The device's time counts: where
// several jobs run at a time, each is taken to have its part of it. A client that has work is served by the time that
// it has had, and one that has had more than shareStep of it more than others makes way for them:
//
//   - its jobs wait behind theirs, and give up their streams to them in [Queue.Yield];
//   - its jobs pause there, for as long as jobs of theirs run, so that what runs is theirs;
//   - beside the streams of a class there are spares, for jobs of clients that are behind and have no stream: they wait
//     for no piece of others, which may be as long as a cycle of a solver. At the next [Queue.Yield] somebody who is
//     not behind gives a stream back.
//
// So the device is never idle for it: of those that run, the one that has had least pauses for nobody. And nobody waits
// for ever: virtual is what each client would have had with equal shares; it grows with all time that any of them has,
// and who comes later starts from there. As they start a bit behind, it is drawn to the mean of those who have work. It
// grows while nobody has work, too: one that had a bit of an idle device is not behind those who had nothing.
//
// Line-scan knows no shares: each session has its stream.
type shares struct {
	off     bool
	all     map[string]*share
	most    int           // in all before those are dropped that tell nothing
	active  int           // shares that have jobs
	busy    int           // jobs that have the device
	at      time.Time     // up to when time is accounted for
	served  time.Duration // device time that each job has had that has had it throughout
	virtual time.Duration // device time that each client would have had that has had jobs throughout
	sum     time.Duration // of used of the active ones
}

// share is what a client has in a class. Clients without a name are one.
type share struct {
	used    time.Duration // on the clock of virtual
	since   time.Duration // served when used was counted
	step    int64         // of used: tickets are ordered by it
	jobs    int           // waiting, running or paused
	waiting int           // in the queue
	halted  int           // of those, that have begun
	busy    int           // that have the device
	streams int           // that its jobs have
	ahead   time.Duration // of another client, for an estimate of when that has its turn
}

// evenOut begins an estimate for a client whose jobs take so long before one is reached: s has the device before that
// until it has had as much.
func (s *share) evenOut(of *share, own time.Duration) {
	if s != of {
		s.ahead = max(of.used+own-s.used, 0)
	}
}

// take is what a job that runs for d adds to an estimate that [share.evenOut] began.
func (s *share) take(of *share, d time.Duration) time.Duration {
	if s == of {
		return d
	}
	d = min(d, s.ahead)
	s.ahead -= d
	return d
}

// join begins to count a new ticket.
func (q *classQueue) join(t *ticket) {
	x := &q.shares
	if x.off {
		return
	}
	q.account(t.arrived)
	s := x.all[t.client]
	if s == nil {
		if len(x.all) >= max(x.most, fewShares) {
			for name, old := range x.all {
				if old.jobs == 0 && old.used <= x.virtual-headStart { // as if it had never been here
					delete(x.all, name)
				}
			}
			x.most = 2 * len(x.all)
		}
		if x.all == nil {
			x.all = map[string]*share{}
		}
		s = &share{used: x.virtual - headStart}
		x.all[t.client] = s
	}
	t.share = s
	if s.jobs++; s.jobs == 1 {
		x.active++
		x.sum += s.used
		x.keepNear(s)
	}
}

// setDue sets when a new ticket is due. Those of clients without a name are of many, and one's jobs are not another's.
func (q *classQueue) setDue(t *ticket) {
	late := t.arrived.Add(patience)
	if t.share != nil && t.client != "" {
		late = late.Add(time.Duration(min(t.share.waiting, maxQueued)) * queuePatience)
	} else if !t.deadline.IsZero() {
		late = t.deadline
	}
	if t.due = t.deadline; t.due.IsZero() || t.due.After(late) {
		t.due = late
	}
}

// leave ends to count a ticket that has no stream and is in no queue.
func (q *classQueue) leave(t *ticket) {
	if s := t.share; s != nil {
		if s.jobs--; s.jobs == 0 {
			q.shares.active--
			q.shares.sum -= s.used
		}
	}
}

// start says that a job has the device from now on, up to which all is accounted for.
func (q *classQueue) start(t *ticket) {
	if s := t.share; s != nil {
		if s.busy == 0 {
			s.since = q.shares.served
		}
		s.busy++
		q.shares.busy++
	}
}

// stop says that a job does not have the device any more.
func (q *classQueue) stop(t *ticket) {
	if s := t.share; s != nil {
		s.busy--
		q.shares.busy--
	}
}

// takeStream takes the stream of a job.
func (q *classQueue) takeStream(t *ticket) {
	q.idle = append(q.idle, t.stream)
	q.leased--
	t.stream = nil
	if t.share != nil {
		t.share.streams--
	}
}

// keepNear forgets what a client that has work is behind or ahead of the others by too much. It reports whether its
// step has changed.
func (x *shares) keepNear(s *share) bool {
	used, step := min(max(s.used, x.virtual-headStart), x.virtual+longestDebt), s.step
	x.sum += used - s.used
	s.used, s.step = used, int64(used/shareStep)
	return s.step != step
}

// account counts the time since it was called last, and puts the queue in order.
func (q *classQueue) account(now time.Time) {
	x := &q.shares
	if x.off {
		return
	}
	d := now.Sub(x.at)
	first := x.at.IsZero()
	x.at = now
	if d > 0 && x.active == 0 && !first { // anybody could have had the device, so that what clients have had counts less
		x.virtual += d
	}
	if d <= 0 || x.busy == 0 {
		return
	}
	x.served += d / time.Duration(x.busy)
	ahead := x.virtual - x.sum/time.Duration(x.active)
	d /= time.Duration(x.active)
	x.virtual += d - time.Duration(float64(min(d, settling))*float64(ahead)/float64(settling))
	moved := false
	for _, t := range q.running {
		if s := t.share; s != nil && s.busy > 0 {
			had := time.Duration(s.busy) * (x.served - s.since)
			s.used += had
			x.sum += had
			s.since = x.served
			moved = x.keepNear(s) && s.waiting > 0 || moved
		}
	}
	if moved {
		q.sort()
	}
}

// sort puts the queue in order after shares have changed.
func (q *classQueue) sort() {
	slices.SortFunc(q.waiting, func(a, b *ticket) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
}

// hasStream reports whether t, which waits, may have one of the idle streams: of the spares only where its client has
// no stream, and is behind others.
func (q *classQueue) hasStream(t *ticket) bool {
	return q.leased < q.streams || len(q.idle) > 0 && t.client != "" && t.share != nil && t.share.streams == 0 &&
		q.shares.behind(t.share)
}

// onSpare reports whether t, which has a stream, is to give one back that is a spare. Any will do.
func (q *classQueue) onSpare(t *ticket) bool {
	return q.leased > q.streams && !(t.share != nil && q.shares.behind(t.share))
}

// behind reports whether a client has had less of the device than those who always have work.
func (x *shares) behind(s *share) bool { return s.used < x.virtual-headStart/2 }

// letsFirst reports whether t, which has a stream, makes way for jobs that run of clients that have had less; but not
// where it would keep its stream from a job that is to have it.
func (q *classQueue) letsFirst(t *ticket) bool {
	if t.share == nil || q.leased >= q.streams && len(q.waiting) > 0 && !q.waiting[0].short && q.waiting[0].before(t) {
		return false
	}
	return slices.ContainsFunc(q.running, func(r *ticket) bool {
		return r.stream != nil && r.left.IsZero() && r.share != t.share && r.share.used+shareStep < t.share.used
	})
}

// leastMissed is the place in the queue of the job to drop: of the client that has most of those that have not begun
// the one that would be served last. It is -1 where none waits.
func (q *classQueue) leastMissed() int {
	found, most := -1, 0
	var last *share
	for i := len(q.waiting) - 1; i >= 0; i-- {
		t := q.waiting[i]
		if t.begun() || found >= 0 && t.share == last {
			continue
		}
		n := 0
		if t.share != nil {
			n = t.share.waiting
		}
		if last = t.share; found < 0 || n > most {
			found, most = i, n
		}
	}
	return found
}
