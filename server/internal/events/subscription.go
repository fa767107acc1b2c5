// Subscriptions: what one watcher gets, and what it loses.

package events

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Filter is what a subscription gets.
type Filter struct {
	Names   []string // a '*' last stands for anything; none means all
	Recipes []string
	Kinds   [Kinds]bool
	Numbers pb.RegionNumbers
	Rate    float64 // of uneventful verdicts a second; 0 means no limit
	Preview *Preview
	// Owner, where it isn't nil, says whose streams are shown.
	Owner func(owner string) bool
	// Events and Bytes bound the queue.
	Events int
	Bytes  int64
}

// Preview is which pictures a subscription gets.
type Preview struct {
	Every    time.Duration // at the least from one to the next
	Pixels   int           // at most
	PNG      bool          // or JPEG
	NoPlaces bool
}

// stream says that the filter lets events of a stream through.
func (f *Filter) stream(s *Stream) bool {
	if f.Owner != nil && !f.Owner(s.Owner) {
		return false
	}
	if len(f.Recipes) > 0 && !slices.Contains(f.Recipes, s.Recipe) {
		return false
	}
	if len(f.Names) == 0 {
		return true
	}
	for _, n := range f.Names {
		if n == s.Name {
			return true
		}
		if head, ok := strings.CutSuffix(n, "*"); ok && strings.HasPrefix(s.Name, head) {
			return true
		}
	}
	return false
}

// Recipe says that the filter lets changes of a recipe through.
func (f *Filter) Recipe(name string) bool {
	return len(f.Recipes) == 0 || slices.Contains(f.Recipes, name)
}

func (f *Filter) event(e *Event) bool {
	switch {
	case !f.Kinds[e.Kind]:
		return false
	case e.Stream != nil:
		return f.stream(e.Stream)
	case e.Recipe != nil:
		return f.Recipe(e.Recipe.GetName())
	}
	return true
}

// Subscription is the queue of one watcher.
type Subscription struct {
	bus    *Bus
	filter Filter
	from   uint64 // sequence of the first event that the fan brings
	ready  chan struct{}
	sent   chan struct{} // has a value when what was taken has been sent
	over   chan struct{}
	once   sync.Once

	nextPicture atomic.Int64 // when the next one is due, in nanoseconds

	mu      sync.Mutex
	queue   []Item
	bytes   int64
	number  uint64 // of the next event
	thinned uint64
	lost    [Kinds]uint64
	tokens  float64 // of uneventful verdicts
	filled  time.Time
}

// Item is an event for a watcher.
type Item struct {
	*Event
	Number  uint64 // of the event among those that were for this watcher
	Thinned uint64 // verdicts left out before it
}

func newSubscription(b *Bus, f Filter) *Subscription {
	return &Subscription{bus: b, filter: f, ready: make(chan struct{}, 1), sent: make(chan struct{}, 1),
		over: make(chan struct{}), tokens: 1}
}

// level is what of numbers the subscription wants.
func (s *Subscription) level() int32 {
	switch {
	case s.filter.Numbers == pb.RegionNumbers_REGION_NUMBERS_ALL && s.filter.Kinds[VerdictKind]:
		return allNumbers
	case s.filter.Numbers == pb.RegionNumbers_REGION_NUMBERS_FAILED && s.filter.Kinds[VerdictKind]:
		return failedOnly
	}
	return noNumbers
}

// Ready gets a value when there is something to take.
func (s *Subscription) Ready() <-chan struct{} { return s.ready }

// Over is closed when nothing more comes.
func (s *Subscription) Over() <-chan struct{} { return s.over }

// End ends the subscription.
func (s *Subscription) End() {
	s.bus.unsubscribe(s)
	s.end()
}

func (s *Subscription) end() {
	s.once.Do(func() {
		close(s.over)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.bus.metrics.QueueBytes.Sub(float64(s.bytes))
		s.queue, s.bytes = nil, 0
		s.filter.Events = 0 // takes nothing more
	})
}

// Sent says that what was taken has been sent: others get theirs then.
func (s *Subscription) Sent() { signal(s.sent) }

// mostSending is how long others wait at most until a watcher has sent what it got.
const mostSending = time.Millisecond

// await waits until what the queue got has been sent, for a time at most. Watchers get what there is one after the
// other: twenty that are woken at once have both processors of a small machine for longer than a strip needs them, and
// that may come at any moment. One that hadn't taken what it got before is slow, and isn't waited for.
func (s *Subscription) await(longest time.Duration) {
	over := time.NewTimer(min(mostSending, longest))
	defer over.Stop()
	select {
	case <-s.sent:
	case <-over.C:
	}
}

// Progress is the number of the next event, and how many were thinned out.
func (s *Subscription) Progress() (number, thinned uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.number, s.thinned
}

// take takes in those of a batch that the filter lets through, and says that the queue has these and no others.
func (s *Subscription) take(batch []*Event, overrun [Kinds]uint64) (alone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	empty := s.begin()
	for k, n := range overrun { // which might have been for this one
		if n > 0 && s.filter.Kinds[k] {
			s.lose(Kind(k), n)
			s.number += n
		}
	}
	for _, e := range batch {
		if e.Sequence >= s.from && s.filter.event(e) {
			s.push(e)
		}
	}
	if len(s.queue) > 0 || s.lost != [Kinds]uint64{} {
		signal(s.ready)
	}
	return empty && len(s.queue) > 0
}

// begin says that the queue is empty, of which sent will tell when that has changed. mu is held.
func (s *Subscription) begin() (empty bool) {
	select {
	case <-s.sent: // of what nobody waited for any more
	default:
	}
	return len(s.queue) == 0
}

// picture takes in one preview, and says that the queue has no other event.
func (s *Subscription) picture(e *Event) (alone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	empty := s.begin()
	s.push(e)
	signal(s.ready)
	return empty && len(s.queue) > 0
}

// missPicture counts one that could not be made.
func (s *Subscription) missPicture() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose(PreviewKind, 1)
	s.number++
	signal(s.ready)
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// push puts an event into the queue, and drops the oldest where it is full. mu is held.
func (s *Subscription) push(e *Event) {
	if s.filter.Events == 0 {
		return
	}
	uneventful := e.Verdict != nil && !e.Verdict.eventful() || e.Call != nil && e.Call.Error == nil
	if uneventful && !s.token(e.At) {
		s.thinned++
		return
	}
	s.queue = append(s.queue, Item{e, s.number, s.thinned})
	s.number++
	s.bytes += e.size
	was := s.bytes - e.size
	gone := 0
	for len(s.queue)-gone > s.filter.Events || s.bytes > s.filter.Bytes && len(s.queue)-gone > 1 {
		s.bytes -= s.queue[gone].size
		s.lose(s.queue[gone].Kind, 1)
		gone++
	}
	s.queue = slices.Delete(s.queue, 0, gone)
	s.bus.metrics.QueueBytes.Add(float64(s.bytes - was))
}

func (s *Subscription) lose(k Kind, n uint64) {
	s.lost[k] += n
	s.bus.metrics.Lost(int(k), n)
}

// token takes one of those that come at the rate; mu is held.
func (s *Subscription) token(at time.Time) bool {
	if s.filter.Rate == 0 {
		return true
	}
	if s.filled.IsZero() {
		s.filled = at
	}
	s.tokens = min(max(1, s.filter.Rate/4), s.tokens+s.filter.Rate*at.Sub(s.filled).Seconds())
	s.filled = at
	if s.tokens < 1 {
		return false
	}
	s.tokens--
	return true
}

// Take moves what there is into items, and says by kind what was lost before it. The loss lies between the last item
// that was taken and the first of these.
func (s *Subscription) Take(items []Item) (_ []Item, lost [Kinds]uint64, any bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items = append(items[:0], s.queue...)
	clear(s.queue)
	s.queue = s.queue[:0]
	s.bus.metrics.QueueBytes.Sub(float64(s.bytes))
	s.bytes = 0
	lost, s.lost = s.lost, lost
	return items, lost, lost != [Kinds]uint64{}
}
