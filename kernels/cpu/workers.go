// Workers: the threads that share an op, and the memory they work in.

package cpu

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// scratch is the working memory of one worker. It is kept by the device between ops, so that ops allocate nothing in
// the steady state. The content is undefined, but for tables, which are zero between uses.
type scratch struct {
	reduce reduceScratch // first, so that it is aligned as the allocation is
	rows   rowScratch
	tiles  tileScratch
	writer spanWriter
	pairs  pairScratch
	blobs  []blobRun
	pace   pace
}

func (d *device) lease() *scratch {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.idle); n > 0 {
		s := d.idle[n-1]
		d.idle = d.idle[:n-1]
		return s
	}
	return new(scratch)
}

func (d *device) giveBack(s *scratch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.idle = append(d.idle, s)
	}
}

// priorities is how many priorities there are.
const priorities = 3

// turns lets ops of higher priority go first: the workers of others pause between pieces of about [paceNs] as long as a
// stream of higher priority has work. So an op has all threads within about that time, however many ops of lower
// priority run.
//
// And it keeps one thread free for work of a priority that is still to come: for a while after the last of it, all but
// one may work on what has less. A program whose threads all compute looks at its connections every 10 ms only (the Go
// runtime polls when a thread has nothing else to do), which is longer than a strip may take in all.
type turns struct {
	busy    [priorities]atomic.Int32 // streams that have work
	paused  atomic.Int32             // workers
	working atomic.Int32             // workers below the highest priority that don't pause
	most    int32                    // of them, while a thread is kept free
	inLine  [highest]atomic.Int32    // how many are in line

	epoch time.Time
	until [priorities]atomic.Int64 // ns since epoch: until then a thread is kept free for the priority

	mu      sync.Mutex
	changed sync.Cond
	over    [priorities]*time.Timer // wakes those who wait when until has come; nil before the first time
	line    []*place                // of workers that wait for room, in order of arrival
}

// place is one in the line, of a worker of an op that is told so.
type place struct{ stop *stopFlag }

const highest = priorities - 1

// keptFree is how long a thread is kept free for more of a priority: strips come several times a second, and somebody
// who waits for a frame soon asks for the next one.
var keptFree = [priorities]time.Duration{0, 100 * time.Millisecond, time.Second}

func (t *turns) init(threads int) {
	t.changed.L = &t.mu
	t.most = int32(max(threads-1, 1))
	t.epoch = time.Now()
}

func (t *turns) begin(level int) { t.busy[level].Add(1) }

func (t *turns) end(level int) {
	if t.busy[level].Add(-1) > 0 || level == 0 {
		return
	}
	t.until[level].Store(int64(time.Since(t.epoch) + keptFree[level]))
	t.mu.Lock()
	if t.over[level] == nil {
		t.over[level] = time.AfterFunc(keptFree[level], t.wake)
	} else {
		t.over[level].Reset(keptFree[level])
	}
	t.mu.Unlock()
	t.wake()
}

// close is called when there are no streams any more.
func (t *turns) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, timer := range t.over {
		if timer != nil {
			timer.Stop()
		}
	}
}

// enter begins to count a worker. Where a thread is kept free and all others work it waits in line, until the op is to
// stop.
func (t *turns) enter(stop *stopFlag) {
	if t.tryEnter(stop.level) {
		return
	}
	me := &place{stop}
	t.paused.Add(1)
	defer t.paused.Add(-1)
	t.inLine[stop.level].Add(1)
	t.mu.Lock()
	t.line = append(t.line, me)
	t.mu.Unlock()
	t.sleep(func() bool { return stop.Load() || t.next() == me && t.room(t.working.Load()+1, stop.level) }, func() {
		t.working.Add(1)
		t.line = slices.DeleteFunc(t.line, func(p *place) bool { return p == me })
		t.inLine[stop.level].Add(-1)
		t.changed.Broadcast() // there may be room for the next one, too
	})
}

// tryEnter is enter for a caller that doesn't wait. It returns false, and counts nobody, where there is no room or a
// line.
func (t *turns) tryEnter(level int) bool {
	if level == highest {
		return true
	}
	for {
		n := t.working.Load()
		if t.inLine[level].Load() > 0 || !t.room(n+1, level) {
			return false
		}
		if t.working.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// next is the first in line: of those of the highest priority the one that has waited longest. t.mu is held.
func (t *turns) next() *place {
	first := t.line[0]
	for _, p := range t.line {
		if p.stop.level > first.stop.level {
			first = p
		}
	}
	return first
}

// othersInLine reports whether there are workers of other ops of the priority in line.
func (t *turns) othersInLine(stop *stopFlag) bool {
	if t.inLine[stop.level].Load() == 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.line, func(p *place) bool { return p.stop != stop && p.stop.level == stop.level })
}

// leave ends what enter began.
func (t *turns) leave(stop *stopFlag) {
	if stop.level < highest {
		t.working.Add(-1)
		t.wake()
	}
}

// room reports whether so many may work, for one of a priority.
func (t *turns) room(n int32, level int) bool { return n <= t.most || !t.keeping(level) }

// keeping reports whether a thread is kept free for more than a priority has.
func (t *turns) keeping(level int) bool {
	now := int64(time.Since(t.epoch))
	for l := level + 1; l < priorities; l++ {
		if t.busy[l].Load() > 0 || now < t.until[l].Load() {
			return true
		}
	}
	return false
}

// sleep waits until it is over, which is looked at again after each wake, and then calls then. t.mu is held during the
// calls, and the caller is counted in paused already, as wake looks at that behind what it tells of.
func (t *turns) sleep(over func() bool, then func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for !over() {
		t.changed.Wait()
	}
	then()
}

// outranked reports whether there is work of higher priority.
func (t *turns) outranked(level int) bool {
	for l := level + 1; l < priorities; l++ {
		if t.busy[l].Load() > 0 {
			return true
		}
	}
	return false
}

// pauseAwake is how long a worker that pauses keeps its thread awake: longer than it takes to reduce a strip. A thread
// that is woken from sleep often starts on the processor of the one that woke it, though another is idle, and the two
// take turns of 4 ms until the system moves one: see BenchmarkStripLatency in package polygon.
const pauseAwake = 600 * time.Microsecond

// wait pauses a worker while there is work of higher priority, or no room for it, and the op is not to stop. Other
// ops of its priority that wait for room get its place.
func (t *turns) wait(stop *stopFlag) {
	if stop.level == highest {
		return
	}
	if t.keeping(stop.level) {
		yieldProcessor()
	}
	if !t.outranked(stop.level) && !t.othersInLine(stop) && t.room(t.working.Load(), stop.level) {
		return
	}
	t.leave(stop)
	defer t.enter(stop)
	t.paused.Add(1)
	defer t.paused.Add(-1)
	for start := time.Now(); time.Since(start) < pauseAwake; runtime.Gosched() {
		if !t.outranked(stop.level) || stop.Load() {
			return
		}
	}
	t.sleep(func() bool { return !t.outranked(stop.level) || stop.Load() }, func() {})
}

// wake has those who wait look again.
func (t *turns) wake() {
	if t.paused.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed.Broadcast()
}

// crew is the helpers of the ops of one priority: goroutines that take part in ops besides those of the streams.
type crew struct {
	tokens    chan struct{}            // one for each helper that may be started
	open      atomic.Pointer[sharedOp] // an op that more hands are welcome to
	lingering atomic.Int32             // helpers that look for one
	running   sync.WaitGroup
}

// linger is how long a helper without work looks for more. To wake a sleeping thread can take 0.1 ms on a virtual
// machine, which is as long as many an op; ops mostly come one behind the other. Where the processor is short, other
// threads get it from helpers that look, but for those of the highest priority: a browser on the same machine, which
// shows the pictures that a solver makes, has as much to do as the solver.
const linger = 50 * time.Microsecond

// sharedOp is an op in which several workers take part.
type sharedOp struct {
	dev  *device
	name string
	stop *stopFlag
	work func(*scratch) error

	mu     sync.Mutex
	closed bool // nobody else may join
	first  error
	hands  sync.WaitGroup
}

// share runs work on the calling goroutine, the stream's, and on up to n-1 helpers, and waits for all. Each call of
// work takes pieces of the op from where it finds them until none is left; whoever comes late finds none. It returns
// the first error; a panic in work becomes an error.
func (d *device) share(name string, n int, stop *stopFlag, work func(*scratch) error) error {
	j := &sharedOp{dev: d, name: name, stop: stop, work: work}
	if n > 1 {
		c := &d.crews[stop.level]
		want := n - 1
		if c.open.CompareAndSwap(nil, j) {
			defer c.open.CompareAndSwap(j, nil)
			want -= int(c.lingering.Load())
		}
		for range want {
			select {
			case <-c.tokens:
				c.running.Go(func() { c.help(j) })
				continue
			default:
			}
			break
		}
	}
	if n > 1 && d.turns.paused.Load() > 0 {
		// the threads of those who pause are awake, and take what can run, but not what is next on this one
		runtime.Gosched()
	}
	j.hands.Add(1)
	j.do()
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	d.turns.leave(stop) // so that helpers get room that wait for some, to go on or to see that it is over
	j.hands.Wait()
	d.turns.enter(stop)
	return j.first
}

// pieces runs f on 0 to n-1, on as many threads as there are. f returns about how many nanoseconds it took: few times
// [paceNs].
func (d *device) pieces(name string, n int, stop *stopFlag, f func(i int) int) error {
	return d.longPieces(name, n, stop, func(i int, p *pace) bool { return !p.spend(f(i)) })
}

// longPieces is pieces for such as may take long and keep the pace themselves. f returns false where it was told to
// stop.
func (d *device) longPieces(name string, n int, stop *stopFlag, f func(i int, p *pace) bool) error {
	var next atomic.Int64
	return d.share(name, min(d.threads, n), stop, func(s *scratch) error {
		for {
			i := int(next.Add(1) - 1)
			if i >= n {
				return nil
			}
			if !f(i, &s.pace) {
				return errAborted
			}
		}
	})
}

// runPixels is how many neighbouring pixels of a row a thread takes at a time.
const runPixels = 1 << 10

// runs is longPieces for runs of pixels [x0, x1) of row y, which are all the pixels of an image.
func (d *device) runs(name string, width, height int, stop *stopFlag, f func(x0, x1, y int, p *pace) bool) error {
	n := (width + runPixels - 1) / runPixels
	return d.longPieces(name, n*height, stop, func(i int, p *pace) bool {
		x := i % n * runPixels
		return f(x, min(x+runPixels, width), i/n, p)
	})
}

// help takes part in a job, and in others that come soon.
func (c *crew) help(j *sharedOp) {
	defer func() { c.tokens <- struct{}{} }()
	for {
		if t := &j.dev.turns; t.enterHelper(j) {
			if j.join() {
				j.do()
				// There is nothing left to do in it, though others may still be at their last pieces. Whoever came back
				// to it would be busy with finding that out, again and again.
				c.open.CompareAndSwap(j, nil)
			}
			t.leave(j.stop)
		}
		c.lingering.Add(1)
		level := j.stop.level
		j = nil
		for start := time.Now(); j == nil && time.Since(start) < linger; j = c.open.Load() {
			if runtime.Gosched(); level < highest {
				yieldProcessor()
			}
		}
		c.lingering.Add(-1)
		if j == nil {
			return
		}
	}
}

// enterHelper is enter for a helper, which takes no place in line and waits only as long as the job goes on. It returns
// false where it is not counted.
func (t *turns) enterHelper(j *sharedOp) (ok bool) {
	if t.tryEnter(j.stop.level) {
		return true
	}
	t.paused.Add(1)
	defer t.paused.Add(-1)
	t.sleep(func() bool {
		if j.over() {
			return true
		}
		ok = t.tryEnter(j.stop.level)
		return ok
	}, func() {})
	return ok
}

// over reports whether nobody may join any more.
func (j *sharedOp) over() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.closed
}

// join reports whether the job still goes on; then do must follow.
func (j *sharedOp) join() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.hands.Add(1)
	}
	return !j.closed
}

func (j *sharedOp) do() {
	defer j.hands.Done()
	s := j.dev.lease()
	s.pace = newPace(j.stop)
	err := guard(j.name, func() error { return j.work(s) })
	if err == nil {
		// After an error the scratch may hold anything; the next worker starts with a fresh one.
		j.dev.giveBack(s)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.first == nil {
		j.first = err
	}
}
