// The bus: a ring of events, and the goroutine that hands them on.

package events

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/hostwork"
	"github.com/polyscan/polyscan/server/internal/observe"
)

// Kind is what an event is about.
type Kind uint8

const (
	StreamKind Kind = iota
	VerdictKind
	ScanKind
	RecipeKind
	DeviceKind
	PreviewKind
	CallKind
	HistoryKind
	Kinds // how many there are
)

func (k Kind) String() string { return observe.WatchKinds[k] }

// Event is one that was published. It never changes. Of the fields below Stream one is set, and bodies are made as they
// are wanted.
type Event struct {
	Kind     Kind
	Sequence uint64 // from 1, among all of the server
	At       time.Time
	Stream   *Stream // that it is of; nil for recipes, the device and the history

	Opened, Closed *pb.StreamState
	Verdict        *Verdict
	Scan           *pb.ScanEvent
	Late           *pb.LatePart
	Recipe         *pb.RecipeChange
	Device         *pb.DeviceState
	Preview        *pb.Preview
	Call           *pb.CallResult
	History        *pb.HistoryState

	size   int64 // about, in memory
	bodies [pb.RegionNumbers_REGION_NUMBERS_ALL + 1]body
}

// body is an event as a message, encoded.
type body struct {
	once  sync.Once
	bytes []byte
	err   error
}

// Body is the event as the message that encode makes for those who want these numbers with verdicts. It is made once,
// for all of them, and is not to change.
func (e *Event) Body(n pb.RegionNumbers, encode func() ([]byte, error)) ([]byte, error) {
	if e.Verdict == nil || int(n) >= len(e.bodies) {
		n = 0
	}
	b := &e.bodies[n]
	b.once.Do(func() { b.bytes, b.err = encode() })
	return b.bytes, b.err
}

// What an event takes beside its texts and numbers.
const eventBytes = 1024

// The ring. It is also what a watcher finds that comes back.
const (
	RingEvents = 4096
	RingBytes  = 8 << 20
	// Linger is how long events are kept after the last subscription ended.
	Linger = time.Minute
)

// Each batch wakes every watcher, and waking twenty of them for each part of a fast line would take the processor from
// the line. So batches begin so much for each watcher apart, and what comes later than that is handed on at once. In
// that time a batch lets strips go first, and goes to one watcher after the other: spread over it, unless the watchers
// have had nothing for as long. So an event waits for the batch before it and for its own: twice as long at most, which
// is 1 ms for a gateway that is alone.
const (
	pauseEach = 500 * time.Microsecond
	mostPause = 10 * time.Millisecond
)

// Numbers of regions that somebody wants with verdicts: each level includes those before it.
const (
	nobody     = iota // looks on
	noNumbers         // but somebody does
	failedOnly        // of regions that failed
	allNumbers
)

// Bus takes events and hands them on. A nil Bus takes them and nothing comes of it.
type Bus struct {
	id      string
	metrics *observe.Watch
	work    *hostwork.Pool // for pictures

	keeper   Keeper       // nil: nobody keeps anything
	borrowed atomic.Int64 // bytes of strips that are kept in the buffers that they came in

	wants    atomic.Int32 // the level that some subscription wants, and nobody where there is none
	watching atomic.Int32 // how many subscriptions there are
	pictures atomic.Pointer[[]*Subscription]
	unseen   atomic.Uint64 // events of times when nobody looked on, to be added to next

	wake   chan struct{}
	stop   chan struct{}
	ended  sync.WaitGroup
	drawer chan *drawn
	turn   chan struct{} // has a value while somebody hands something on or draws a piece of a picture, behind strips

	mu      sync.Mutex
	ring    []*Event // of consecutive sequence numbers, but for times when nobody looked on; the oldest first
	bytes   int64
	next    uint64        // sequence of the next event
	fanned  uint64        // events before it are being handed on
	handed  uint64        // and those before it have been
	overrun [Kinds]uint64 // left the ring before that
	subs    []*Subscription
	streams map[uint64]*Stream
	ids     uint64 // of streams
	leaving *time.Timer
	closed  bool
}

// New starts a bus, of the run of a server that has that id. Close ends it. keeper keeps what happens beyond the
// process; nil: nobody does.
func New(id string, m *observe.Watch, work *hostwork.Pool, keeper Keeper) *Bus {
	b := &Bus{
		id: id, keeper: keeper, metrics: m, work: work, next: 1, fanned: 1, handed: 1, streams: map[uint64]*Stream{},
		wake: make(chan struct{}, 1), stop: make(chan struct{}), drawer: make(chan *drawn, drawings),
		turn: make(chan struct{}, 1),
	}
	b.ended.Go(b.fan)
	b.ended.Go(b.draw)
	return b
}

// ID is that of this run of the server.
func (b *Bus) ID() string { return b.id }

// Close ends the bus, and with it all subscriptions.
func (b *Bus) Close() {
	b.mu.Lock()
	b.closed = true
	subs := b.subs
	b.subs = nil
	if b.leaving != nil {
		b.leaving.Stop()
	}
	b.wanted()
	b.mu.Unlock()
	close(b.stop)
	b.ended.Wait()
	for _, s := range subs {
		s.end()
	}
}

// Published is the sequence of the last event.
func (b *Bus) Published() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.catchUp()
	return b.next - 1
}

// Idle says that no stream is open, and that the last event is on its way to the subscriptions, where it is in a
// moment.
func (b *Bus) Idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.streams) == 0 && b.after(b.handed-1) == len(b.ring)
}

// watched says that somebody looks on. Events are made where it is true; where not, skip counts them.
func (b *Bus) watched() bool { return b != nil && b.wants.Load() != nobody }

// heeded says that a verdict is for somebody: those who look on, or the keeper.
func (b *Bus) heeded() bool { return b != nil && (b.keeper != nil || b.watched()) }

func (b *Bus) skip(k Kind) {
	if b != nil {
		b.unseen.Add(1)
		b.metrics.Published(int(k))
	}
}

// publish puts an event into the ring. It waits for nothing but the lock, which nobody holds for longer than it takes
// to copy a few pointers.
func (b *Bus) publish(e *Event) {
	b.mu.Lock()
	b.put(e)
	b.mu.Unlock()
	signal(b.wake)
}

// put is publish with mu held and without the signal.
func (b *Bus) put(e *Event) {
	b.metrics.Published(int(e.Kind))
	b.catchUp()
	e.Sequence = b.next
	b.next++
	if e.At.IsZero() {
		e.At = time.Now()
	}
	e.size += eventBytes
	b.ring = append(b.ring, e)
	b.bytes += e.size
	gone := 0
	for len(b.ring)-gone > RingEvents || b.bytes > RingBytes && len(b.ring)-gone > 1 {
		old := b.ring[gone]
		if old.Sequence >= b.fanned {
			b.overrun[old.Kind]++
		}
		b.bytes -= old.size
		b.ring[gone] = nil
		gone++
	}
	b.ring = b.ring[gone:] // append moves it to new memory now and then
}

// catchUp counts the events of times when nobody looked on. mu is held.
func (b *Bus) catchUp() { b.next += b.unseen.Swap(0) }

// fan hands events on to the subscriptions.
func (b *Bus) fan() {
	var batch []*Event
	for {
		select {
		case <-b.wake:
		case <-b.stop:
			return
		}
		var end time.Time
		for spread := false; ; spread = true {
			time.Sleep(time.Until(end))
			runtime.Gosched() // the verdict goes to its own client first
			pause := pauseFor(int(b.watching.Load()))
			begun := time.Now()
			end = begun.Add(pause)
			behind := b.work.Calm
			if spread { // strips come one after the other
				behind = b.work.Quiet
			}
			behind(pause)
			var overrun [Kinds]uint64
			b.mu.Lock()
			batch = batch[:0]
			for i := b.after(b.fanned - 1); i < len(b.ring); i++ {
				batch = append(batch, b.ring[i])
			}
			b.fanned = b.next
			fanned := b.fanned
			overrun, b.overrun = b.overrun, overrun
			subs := b.subs // a slice that doesn't change
			b.mu.Unlock()
			for i, s := range subs {
				if len(batch) == 0 {
					break
				}
				if spread {
					time.Sleep(time.Until(begun.Add(pause * time.Duration(i) / time.Duration(len(subs)))))
				}
				behind(time.Until(end))
				b.turn <- struct{}{}
				if s.take(batch, overrun) {
					s.await(time.Until(end))
				}
				<-b.turn
			}
			b.mu.Lock()
			b.handed = fanned
			b.mu.Unlock()
			if len(batch) == 0 {
				break
			}
			clear(batch)
		}
	}
}

func pauseFor(watchers int) time.Duration { return min(time.Duration(watchers)*pauseEach, mostPause) }

// after is the place in the ring of the first event behind a sequence number. mu is held.
func (b *Bus) after(sequence uint64) int {
	i := len(b.ring)
	for i > 0 && b.ring[i-1].Sequence > sequence {
		i--
	}
	return i
}

// wanted finds out what the subscriptions want. mu is held.
func (b *Bus) wanted() {
	level := int32(nobody)
	var pictures []*Subscription
	for _, s := range b.subs {
		level = max(level, s.level())
		if s.filter.Preview != nil {
			pictures = append(pictures, s)
		}
	}
	b.pictures.Store(&pictures)
	b.watching.Store(int32(len(b.subs)))
	b.metrics.Watchers.Set(float64(len(b.subs)))
	if level != nobody || b.closed {
		b.wants.Store(level)
		return
	}
	// The last one has left. What happens is kept for a while, as it was.
	b.leaving = time.AfterFunc(Linger, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.subs) == 0 {
			b.wants.Store(nobody)
			b.ring, b.bytes = nil, 0
		}
	})
}

// State is what there is when a subscription begins.
type State struct {
	Sequence uint64 // of the last event that it includes
	Streams  []*pb.StreamState
	// Unknown is how many events a watcher missed that came back, beside those that come again.
	Unknown uint64
}

// Subscribe begins a subscription, which End must end. It gets the events from now on, and where since is set those
// behind that sequence number as well, as far as they are there.
func (b *Bus) Subscribe(f Filter, since *uint64) (*Subscription, State) {
	s := newSubscription(b, f)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.catchUp()
	st := State{Sequence: b.next - 1}
	for _, x := range b.streams {
		if f.stream(x) {
			st.Streams = append(st.Streams, x.State())
		}
	}
	s.from = b.next
	if since != nil {
		first := b.after(*since)
		if missed := b.next - 1 - min(*since, b.next-1); missed > uint64(len(b.ring)-first) {
			st.Unknown = missed - uint64(len(b.ring)-first)
		}
		s.from = 0
		_ = s.take(b.ring[first:max(first, b.after(b.fanned-1))], [Kinds]uint64{})
		s.from = max(b.fanned, *since+1) // those behind come from the fan
	}
	if b.closed {
		s.end()
		return s, st
	}
	if b.leaving != nil {
		b.leaving.Stop()
	}
	b.subs = append(b.subs[:len(b.subs):len(b.subs)], s)
	b.wanted()
	return s, st
}

func (b *Bus) unsubscribe(s *Subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var rest []*Subscription
	for _, x := range b.subs {
		if x != s {
			rest = append(rest, x)
		}
	}
	if len(rest) != len(b.subs) {
		b.subs = rest
		b.wanted()
	}
}

// RecipeChanged publishes a recipe that was put or deleted.
func (b *Bus) RecipeChanged(name string, version uint64, deleted bool) {
	if !b.watched() {
		b.skip(RecipeKind)
		return
	}
	b.publish(&Event{Kind: RecipeKind, Recipe: &pb.RecipeChange{Name: name, Version: version, Deleted: deleted}})
}

// DeviceChanged publishes what the device is now.
func (b *Bus) DeviceChanged(st *pb.DeviceState) {
	if !b.watched() {
		b.skip(DeviceKind)
		return
	}
	b.publish(&Event{Kind: DeviceKind, Device: st})
}

// HistoryChanged publishes how the history keeps up.
func (b *Bus) HistoryChanged(st *pb.HistoryState) {
	if !b.watched() {
		b.skip(HistoryKind)
		return
	}
	b.publish(&Event{Kind: HistoryKind, History: st})
}

// Called publishes a call that computed and has no verdict.
func (b *Bus) Called(owner, method string, latency time.Duration, err error) {
	if !b.watched() {
		b.skip(CallKind)
		return
	}
	m := &pb.CallResult{Method: method, Latency: durationpb.New(latency)}
	if err != nil {
		m.Error = status.Convert(err).Proto()
	}
	b.publish(&Event{Kind: CallKind, Stream: &Stream{Source: Source{Owner: owner}}, Call: m})
}
