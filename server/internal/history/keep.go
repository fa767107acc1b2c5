// What is handed over by those who inspect, and how it waits to be written.

package history

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/events"
)

const (
	// queueEntries is how many verdicts wait at most: a minute of a thousand a second.
	queueEntries = 1 << 16
	// entryBytes is about what a verdict takes beside its texts and numbers.
	entryBytes = 700
	// picturesWaiting is how many pictures wait to be encoded at most, beside the bound of memory.
	picturesWaiting = 256
)

// entry is something that waits to be written. Of the fields below bytes one is set.
type entry struct {
	bytes int64

	verdict *keptVerdict
	late    *keptLate
	saved   *savedPicture
	audit   *pb.AuditEntry
	owner   string // of the audited recipe
}

type keptVerdict struct {
	stream *events.Stream
	v      *events.Verdict
	at     time.Time
	result *polygon.Result
	part   *partRef // for the picture of a call, whose part has no number
}

type keptLate struct {
	stream *events.Stream
	number uint64
}

// partRef becomes the id of a part once that is written.
type partRef struct{ id int64 }

// queue holds entries in order.
type queue struct {
	limit int64
	wake  chan struct{}

	used atomic.Int64 // bytes of entries and of pixels

	mu      sync.Mutex
	entries []entry
	parts   int
}

// Waiting is how much memory is taken by what waits to be written, with pixels of parts that are under way.
func (s *Service) Waiting() int64 { return s.queue.used.Load() }

// take takes memory, and says whether there was any.
func (q *queue) take(bytes int64) bool {
	if q.used.Add(bytes) > q.limit {
		q.used.Add(-bytes)
		return false
	}
	return true
}

// put appends an entry whose memory has been taken; it is false where there are too many.
func (q *queue) put(e entry) bool {
	q.mu.Lock()
	if len(q.entries) >= queueEntries {
		q.mu.Unlock()
		q.used.Add(-e.bytes)
		return false
	}
	q.entries = append(q.entries, e)
	if e.verdict != nil {
		q.parts++
	}
	n := len(q.entries)
	q.mu.Unlock()
	if n >= batchEntries {
		q.signal()
	}
	return true
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// head are the first n entries at most, which stay.
func (q *queue) head(n int) []entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.entries[:min(n, len(q.entries)):min(n, len(q.entries))]
}

// done removes the first n entries.
func (q *queue) done(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	bytes := int64(0)
	for i := range q.entries[:n] {
		bytes += q.entries[i].bytes
		if q.entries[i].verdict != nil {
			q.parts--
		}
	}
	clear(q.entries[:n])
	q.entries = q.entries[n:]
	if len(q.entries) == 0 {
		q.entries = nil
	}
	q.used.Add(-bytes)
}

func (q *queue) waiting() (parts int, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.parts, q.used.Load()
}

// resultBytes is about what a result takes in memory while it waits.
func resultBytes(r *polygon.Result) int64 {
	const (
		region     = int64(unsafe.Sizeof(polygon.RegionResult{}))
		channel    = int64(unsafe.Sizeof(polygon.ChannelStatistics{}))
		limit      = int64(unsafe.Sizeof(polygon.LimitResult{}))
		percentile = int64(unsafe.Sizeof(polygon.PercentileValue{}))
		count      = 8
	)
	switch {
	case r == nil:
		return 0
	case r.Columns != nil:
		c := r.Columns
		return int64(c.Rows)*(region+int64(len(c.Channels))*(channel+percentile*int64(len(c.Percentiles)))) +
			limit*int64(len(c.Limits))
	}
	n := region * int64(len(r.Regions))
	for i := range r.Regions {
		g := &r.Regions[i]
		n += limit * int64(len(g.Limits))
		for k := range g.Channels {
			c := &g.Channels[k]
			n += channel + percentile*int64(len(c.Percentiles))
			if c.Histogram != nil {
				n += count * int64(len(c.Histogram.Counts))
			}
		}
	}
	return n
}

// Verdict implements events.Keeper.
func (s *Service) Verdict(stream *events.Stream, v *events.Verdict, at time.Time, r *polygon.Result,
	p *events.Picture) {
	k := &keptVerdict{stream: stream, v: v, at: at, result: r}
	if p != nil {
		k.part = &partRef{}
	}
	e := entry{verdict: k, bytes: entryBytes + resultBytes(r) + v.Bytes()}
	if !s.queue.take(e.bytes) || !s.queue.put(e) {
		s.lose(1, at)
		if p != nil {
			p.Release()
			s.Missed()
		}
		return
	}
	if p != nil {
		s.hand(&picture{Picture: p, stream: stream, number: v.Number, partID: v.PartID, part: k.part, at: at, result: r})
	}
}

// Late implements events.Keeper.
func (s *Service) Late(stream *events.Stream, number uint64) {
	if e := (entry{late: &keptLate{stream, number}, bytes: entryBytes}); s.queue.take(e.bytes) {
		s.queue.put(e)
	}
}

// Picture implements events.Keeper.
func (s *Service) Picture(stream *events.Stream, number uint64, partID string, r *polygon.Result, p *events.Picture) {
	s.hand(&picture{Picture: p, stream: stream, number: number, partID: partID, at: time.Now(), result: r})
}

// hand hands a picture to the encoder, or drops it.
func (s *Service) hand(p *picture) {
	s.state.queuedPictures.Add(1)
	select {
	case s.pictures <- p:
	default:
		s.state.queuedPictures.Add(-1)
		p.Release()
		s.Missed()
	}
}

// Pictures implements events.Keeper.
func (s *Service) Pictures() bool { return true }

// Wants implements events.Keeper: those that failed, and each so many-th of the others.
func (s *Service) Wants(v pb.Verdict) bool {
	if v == pb.Verdict_VERDICT_FAIL {
		return true
	}
	return s.Good > 0 && s.good.Add(1)%uint64(s.Good) == 0
}

// Room implements events.Keeper.
func (s *Service) Room(bytes int64) (release func(), ok bool) {
	if !s.queue.take(bytes) {
		return nil, false
	}
	var once sync.Once
	return func() { once.Do(func() { s.queue.used.Add(-bytes) }) }, true
}

// Missed implements events.Keeper.
func (s *Service) Missed() {
	s.state.lostPictures.Add(1)
	s.Metrics.LostPictures.Inc()
}

// Audit keeps a change of a recipe, which belongs to owner. It waits for nothing.
func (s *Service) Audit(m *pb.AuditEntry, owner string) {
	if s.db == nil {
		return
	}
	e := entry{audit: m, owner: owner, bytes: entryBytes}
	for _, c := range m.GetChanges() {
		e.bytes += int64(len(c))
	}
	s.queue.used.Add(e.bytes) // few and small: they have room where verdicts have none
	if !s.queue.put(e) {
		s.Metrics.LostAudits.Inc()
		s.Log.Error("a change of a recipe could not be kept in the history", "entry", m.String())
	}
}
