package kernels

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/kernels/driver"
)

// schedModel drives a scheduler by hand, without goroutines, and checks what it may do: the outcome of each step is
// compared with rules that are looked up in a flat list of all tickets.
type schedModel struct {
	t     *rapid.T
	s     *sched
	now   time.Time
	size  int64
	all   []*ticket // that arrived and have not ended, in order of arrival
	state map[*ticket]string
	due   map[*ticket]time.Time // when it began to wait
	done  map[*ticket]int       // how often a ticket ended
}

const (
	isWaiting = "waits"
	isRunning = "runs"
	isAway    = "gave up its stream"
)

// settled looks at what became of tickets in the last step.
func (m *schedModel) settled() {
	type grant struct {
		*ticket
		needs bool // memory
	}
	var granted []grant
	for _, t := range slices.Clone(m.all) {
		was := m.state[t]
		if was == isRunning {
			continue
		}
		select {
		case <-t.ready:
		default:
			if t.stream != nil {
				m.t.Fatalf("ticket %d has a stream and was not told", t.arrival)
			}
			continue
		}
		if t.err == nil {
			m.state[t] = isRunning
			granted = append(granted, grant{t, was == isWaiting && t.job.Footprint > 0})
			continue
		}
		if was == isAway {
			m.t.Fatalf("ticket %d had begun, and was refused: %v", t.arrival, t.err)
		}
		if t.class == LineScan {
			m.t.Fatalf("a line-scan job was refused: %v", t.err)
		}
		m.end(t)
	}
	// No ticket went ahead of another of its class that could have gone as well.
	for _, g := range granted {
		for _, t := range m.all {
			if m.state[t] != isRunning && t.class == g.class && m.before(t, g.ticket) && !(t.short && !g.needs) &&
				!m.noStream(t) {
				m.t.Fatalf("%s went ahead of %s", m.describe(g.ticket), m.describe(t))
			}
		}
	}
}

func (m *schedModel) describe(t *ticket) string {
	return fmt.Sprintf("%d (%v, due %d, %d bytes, %s, short %v)", t.arrival, t.class, t.due.Unix(), t.job.Footprint,
		m.state[t], t.short)
}

// before is the order within a class.
func (m *schedModel) before(a, b *ticket) bool {
	if sa, sb := a.share, b.share; sa != nil && sa.used/shareStep != sb.used/shareStep {
		return sa.used < sb.used
	}
	return m.due[a].Before(m.due[b]) || m.due[a].Equal(m.due[b]) && a.arrival < b.arrival
}

func (*schedModel) spares(c Class) int {
	if c == LineScan {
		return 0
	}
	return spareStreams
}

// noStream reports whether all streams are out but spares, which are not for t: its client has no name, or a stream, or
// has had as much as others.
func (m *schedModel) noStream(t *ticket) bool {
	running, own := 0, 0
	for _, o := range m.all {
		if o.class == t.class && m.state[o] == isRunning {
			if running++; o.client == t.client {
				own++
			}
		}
	}
	q := &m.s.classes[t.class]
	return running >= q.streams && (t.client == "" || t.class == LineScan || own > 0 ||
		t.share.used >= q.shares.virtual-headStart/2)
}

// checkShares checks what is kept by client.
func (m *schedModel) checkShares(c Class) {
	x := &m.s.classes[c].shares
	sum, busy, jobs := time.Duration(0), 0, map[*share]int{}
	for _, t := range m.all {
		if t.class == c && t.share != nil {
			if t.share != x.all[t.client] {
				m.t.Fatalf("%s: the share of another client", m.describe(t))
			}
			if jobs[t.share]++; jobs[t.share] == 1 {
				sum += t.share.used
			}
			if m.state[t] == isRunning {
				busy++
			}
		}
	}
	for name, s := range x.all {
		if s.jobs != jobs[s] {
			m.t.Fatalf("%v: client %q has %d jobs, and %d are counted", c, name, jobs[s], s.jobs)
		}
	}
	if x.sum != sum || x.busy != busy || x.active != len(jobs) {
		m.t.Fatalf("%v: shares are %+v: there are %d clients with %v, and %d jobs run", c, *x, len(jobs), sum, busy)
	}
}

func (m *schedModel) end(t *ticket) {
	if m.done[t]++; m.done[t] > 1 {
		m.t.Fatalf("ticket %d ended twice", t.arrival)
	}
	m.all = slices.DeleteFunc(m.all, func(x *ticket) bool { return x == t })
	delete(m.state, t)
}

func (m *schedModel) in(state string) (out []*ticket) {
	for _, t := range m.all {
		if m.state[t] == state {
			out = append(out, t)
		}
	}
	return out
}

func (m *schedModel) check(*rapid.T) {
	s := m.s
	var bytes int64
	streams := map[driver.Stream]bool{}
	for _, t := range m.all {
		if m.state[t] != isWaiting && t.job.Footprint > 0 {
			bytes += t.arena.len
			if t.arena.len < t.job.Footprint {
				m.t.Fatalf("ticket %d runs with %d of %d bytes", t.arrival, t.arena.len, t.job.Footprint)
			}
		}
		if has := t.stream != nil; has != (m.state[t] == isRunning) || has && streams[t.stream] {
			m.t.Fatalf("stream of %s", m.describe(t))
		}
		streams[t.stream] = true
	}
	if used := s.mem.snapshot().Used; used != bytes || used > m.size {
		m.t.Fatalf("%d of %d bytes in use, and the jobs have %d", used, m.size, bytes)
	}
	waiting := len(m.in(isWaiting))
	if s.waiting != waiting {
		m.t.Fatalf("%d wait, and %d are counted", waiting, s.waiting)
	}
	if lineScan := len(slices.DeleteFunc(m.in(isWaiting), func(t *ticket) bool {
		return t.class != LineScan
	})); waiting > s.maxWaiting && waiting > lineScan {
		m.t.Fatalf("%d wait, %d of them line-scan", waiting, lineScan)
	}
	// Nobody waits who could run: who has no more urgent one that waits for memory, nor an earlier one of its class,
	// ahead.
	short := false
	for _, c := range byUrgency {
		q := &s.classes[c]
		leased := len(slices.DeleteFunc(m.in(isRunning), func(t *ticket) bool { return t.class != c }))
		if q.leased != leased || len(q.idle)+leased != q.streams+m.spares(c) {
			m.t.Fatalf("%v: streams were lost", c)
		}
		var line []*ticket
		for _, t := range m.all {
			if t.class == c && m.state[t] != isRunning {
				line = append(line, t)
			}
		}
		slices.SortFunc(line, func(a, b *ticket) int {
			if m.before(a, b) {
				return -1
			}
			return 1
		})
		if !slices.Equal(line, q.waiting) {
			m.t.Fatalf("%v: the queue is out of order", c)
		}
		m.checkShares(c)
		if len(q.idle) == 0 {
			continue
		}
		for _, t := range line {
			if m.noStream(t) {
				continue
			}
			needs := t.job.Footprint > 0 && m.state[t] == isWaiting
			if needs && !short {
				b, err := s.mem.reserve(t.job.Footprint, scratch, "probe")
				if short = err != nil; !short {
					s.mem.put(b)
				}
			}
			if !needs || !short {
				m.t.Fatalf("%s could run", m.describe(t))
			}
		}
	}
}

func TestSchedulerAgainstRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := driver.Align * rapid.Int64Range(4, 30).Draw(t, "size")
		m := &schedModel{t: t, now: time.Unix(1000, 0), size: size, state: map[*ticket]string{},
			due: map[*ticket]time.Time{}, done: map[*ticket]int{}}
		m.s = &sched{mem: newMemory(plainMem(size)), maxWaiting: rapid.IntRange(1, 12).Draw(t, "most"), jobs: costs{},
			chunks: costs{}}
		m.s.mem.onFree = func() { m.s.dispatch(m.now) }
		for c := range m.s.classes {
			q := &m.s.classes[c]
			q.shares.off = Class(c) == LineScan
			q.streams = rapid.IntRange(1, 3).Draw(t, "streams")
			for range q.streams + m.spares(Class(c)) {
				q.idle = append(q.idle, new(fakeStream))
			}
		}
		arrived, ended := 0, 0
		end := func(tk *ticket) {
			m.end(tk)
			ended++
			m.s.release(tk, errCause, m.now)
			m.settled()
		}
		t.Repeat(map[string]func(*rapid.T){
			"arrive": func(t *rapid.T) {
				tk := &ticket{
					job: Job{Label: "x",
						Footprint: rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, size)).Draw(t, "bytes")},
					class: rapid.SampledFrom(byUrgency[:]).Draw(t, "class"), arrived: m.now,
					client: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "client"),
				}
				if rapid.Bool().Draw(t, "deadline?") {
					tk.deadline = m.now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "deadline")) * time.Second)
				}
				if err := m.s.submit(tk); err != nil {
					t.Fatalf("%s: %v", m.describe(tk), err)
				}
				arrived++
				m.all = append(m.all, tk)
				m.due[tk] = tk.due
				if m.state[tk] = isRunning; tk.stream != nil {
					m.settled()
					return
				}
				m.state[tk], tk.ready = isWaiting, make(chan struct{})
				before := len(m.all)
				m.s.shed(m.now)
				m.settled()
				if before != len(m.all) && before != len(m.all)+1 {
					t.Fatalf("%d jobs were shed at a time", before-len(m.all))
				}
			},
			"end": func(t *rapid.T) {
				if r := m.in(isRunning); len(r) > 0 {
					end(rapid.SampledFrom(r).Draw(t, "which"))
				}
			},
			"cancel": func(t *rapid.T) {
				if w := append(m.in(isWaiting), m.in(isAway)...); len(w) > 0 {
					tk := rapid.SampledFrom(w).Draw(t, "which")
					q := &m.s.classes[tk.class]
					m.s.drop(q, slices.Index(q.waiting, tk))
					m.s.dispatch(m.now)
					if was := m.state[tk]; was == isAway {
						end(tk)
						return
					}
					m.end(tk)
					m.settled()
				}
			},
			"give up the stream": func(t *rapid.T) {
				if r := m.in(isRunning); len(r) > 0 {
					tk := rapid.SampledFrom(r).Draw(t, "which")
					m.state[tk], m.due[tk] = isAway, tk.due
					m.s.giveUp(tk, m.now)
					m.settled()
				}
			},
			"time": func(t *rapid.T) {
				m.now = m.now.Add(time.Millisecond * time.Duration(rapid.IntRange(1, 1000).Draw(t, "ms")))
			},
			"": m.check,
		})
		for r := m.in(isRunning); len(r) > 0; r = m.in(isRunning) {
			end(r[0])
		}
		if len(m.all) != 0 || m.s.mem.snapshot().Used != 0 {
			t.Fatalf("%d tickets are left, and %d bytes in use", len(m.all), m.s.mem.snapshot().Used)
		}
		total := 0
		for tk, n := range m.done {
			if total += n; n != 1 {
				t.Fatalf("ticket %d ended %d times", tk.arrival, n)
			}
		}
		if total != arrived {
			t.Fatalf("%d arrived and %d ended", arrived, total)
		}
	})
}

// Of those who wait the least urgent goes first, the one that would be served last; and it is told why.
func TestShedOrder(t *testing.T) {
	s := &sched{mem: newMemory(plainMem(1 << 20)), maxWaiting: 5, jobs: costs{}, chunks: costs{}}
	for c := range s.classes {
		q := &s.classes[c]
		q.streams = 2
		for range 2 {
			q.running = append(q.running, &ticket{stream: new(fakeStream), share: &share{}})
		}
	}
	s.jobs["x"] = &cost{}
	s.jobs["x"].observe(0, time.Second)
	now := time.Unix(1000, 0)
	var names []string
	waiting := map[string]*ticket{}
	arrive := func(name string, c Class, due time.Duration) {
		tk := &ticket{job: Job{Label: "x"}, class: c, arrived: now}
		if due > 0 {
			tk.deadline = now.Add(due)
		}
		if err := s.submit(tk); err != nil {
			t.Fatal(err)
		}
		tk.ready = make(chan struct{})
		waiting[name] = tk
		s.shed(now)
		for n, w := range waiting {
			if w.err != nil {
				var e *OverloadError
				if !errors.As(w.err, &e) || e.Class != w.class || e.Waiting != 5 || e.RetryAfter < time.Second/2 ||
					e.RetryAfter > 4*time.Second {
					t.Errorf("%s: %+v", n, w.err)
				}
				names = append(names, n)
				delete(waiting, n)
			}
		}
	}
	arrive("interactive, in 20 s", Interactive, 20*time.Second)
	arrive("batch", Batch, 0)
	arrive("interactive", Interactive, 0)
	arrive("batch, in 20 s", Batch, 20*time.Second)
	arrive("interactive 2", Interactive, 0)
	arrive("line-scan", LineScan, time.Millisecond)
	arrive("batch 2", Batch, 0) // itself
	for i := range 4 {
		arrive(fmt.Sprint("line-scan ", i), LineScan, 0)
	}
	arrive("interactive 3", Interactive, 0) // itself
	arrive("line-scan 5", LineScan, 0)      // nobody is left to make room
	want := []string{"batch, in 20 s", "batch 2", "batch", "interactive, in 20 s", "interactive 2", "interactive",
		"interactive 3"}
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if s.classes[Batch].stats.Shed != 3 || s.classes[Interactive].stats.Shed != 4 ||
		s.classes[LineScan].stats.Shed != 0 {
		t.Errorf("%+v", s.classes)
	}
}
