package scan

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

// orderModel is what stripOrder does, in the slowest and most obvious way: it keeps every strip that was taken in, in
// one list, and every number that was given up, and derives all else from them each time.
type orderModel struct {
	credit, window int
	waiting        map[uint64]*strip
	turned         []*strip // that have had their turn and are not finished, in order; the first may be in work
	busy           bool     // the first one is
	next, nextLine uint64
	done, doneLine uint64
	lost           map[uint64]bool
}

// arrive is stripOrder.arrive.
func (m *orderModel) arrive(x *strip) arrival {
	lines, strips := 0, len(m.waiting)+len(m.turned)
	for _, o := range m.turned {
		lines += o.lines
	}
	last := true
	for n, o := range m.waiting {
		lines += o.lines
		last = last && n < x.GetSequence()
	}
	if m.busy {
		strips--
	}
	n := x.GetSequence()
	switch _, waits := m.waiting[n]; {
	case waits:
		return again
	case n < m.next && m.lost[n]:
		delete(m.lost, n)
		return tooLate
	case n < m.next:
		return again
	case lines > 0 && lines+x.lines > m.credit:
		return beyondCredit
	case strips >= mostStrips:
		return beyondStrips
	}
	m.waiting[n] = x
	if last {
		return inTurn
	}
	return outOfOrder
}

// release is stripOrder.release; it returns what is missing before each strip whose turn it is.
func (m *orderModel) release(most int) (numbers []uint64, before []missing) {
	for len(m.waiting) > 0 {
		first := ^uint64(0)
		for n := range m.waiting {
			first = min(first, n)
		}
		if first != m.next && len(m.waiting) <= most {
			break
		}
		x := m.waiting[first]
		delete(m.waiting, first)
		for n := m.next; n < first; n++ {
			m.lost[n] = true
		}
		bad := x.err != nil || x.GetFirstLine() < m.nextLine
		gap := missing{m.next, first, m.nextLine, m.nextLine}
		if !bad {
			gap.toLine = x.GetFirstLine()
			m.nextLine = x.GetFirstLine() + uint64(x.lines)
		}
		m.next = first + 1
		m.turned = append(m.turned, x)
		numbers, before = append(numbers, first), append(before, gap)
	}
	return numbers, before
}

// restart is stripOrder.restart; it returns the numbers of those that are dropped.
func (m *orderModel) restart() (dropped []uint64) {
	keep := 0
	m.next = m.done
	m.nextLine = m.doneLine
	if m.busy {
		keep = 1
		m.next, m.nextLine = m.turned[0].GetSequence()+1, m.turned[0].end
	}
	for _, x := range m.turned[keep:] {
		dropped = append(dropped, x.GetSequence())
	}
	for n := range m.waiting {
		dropped = append(dropped, n)
	}
	m.turned = m.turned[:keep]
	clear(m.waiting)
	for n := range m.lost {
		if n >= m.next {
			delete(m.lost, n)
		}
	}
	slices.Sort(dropped)
	return dropped
}

// TestStripOrderModel compares the order of strips with the model over random arrivals, work and broken connections.
func TestStripOrderModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		credit, window := rapid.IntRange(1, 60).Draw(t, "credit"), rapid.IntRange(0, 5).Draw(t, "window")
		o := &stripOrder{credit: credit, window: window}
		m := &orderModel{credit: credit, window: window, waiting: map[uint64]*strip{}, lost: map[uint64]bool{}}
		release := func(t *rapid.T, most int) {
			var numbers []uint64
			var before []missing
			o.release(most, func(x *strip, gap missing) {
				numbers, before = append(numbers, x.GetSequence()), append(before, gap)
			})
			wantNumbers, wantBefore := m.release(most)
			if !slices.Equal(numbers, wantNumbers) || !slices.Equal(before, wantBefore) {
				t.Fatalf("the turn is that of %v behind %v, want %v behind %v", numbers, before, wantNumbers, wantBefore)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"arrive": func(t *rapid.T) {
				n := rapid.Uint64Range(0, o.next+uint64(window)+3).Draw(t, "sequence")
				line := rapid.Uint64Range(0, o.nextLine+40).Draw(t, "line")
				x := &strip{Strip: &pb.Strip{Sequence: n, FirstLine: line}, lines: rapid.IntRange(1, 10).Draw(t, "lines")}
				if rapid.IntRange(0, 5).Draw(t, "bad") == 0 {
					x.lines, x.err = 0, apierr.Refuse("strip.frame", nil, "is bad")
				}
				got, want := o.arrive(x), m.arrive(x)
				if got != want {
					t.Fatalf("strip %d, of %d lines: %v, want %v", n, x.lines, got, want)
				}
				if got.kept() {
					release(t, window)
				}
			},
			"take": func(t *rapid.T) {
				if o.inWork != nil {
					t.Skip("there is one")
				}
				x := o.take()
				if (x != nil) != (len(m.turned) > 0) || x != nil && x != m.turned[0] {
					t.Fatalf("took %v of %v", x, m.turned)
				}
				m.busy = x != nil
			},
			"finish": func(t *rapid.T) {
				if !m.busy {
					t.Skip("nothing is in work")
				}
				o.finish()
				m.done, m.doneLine = m.turned[0].GetSequence()+1, m.turned[0].end
				m.turned, m.busy = m.turned[1:], false
			},
			"close": func(t *rapid.T) { release(t, 0) },
			"restart": func(t *rapid.T) {
				var dropped []uint64
				o.restart(func(x *strip) { dropped = append(dropped, x.GetSequence()) })
				slices.Sort(dropped)
				if want := m.restart(); !slices.Equal(dropped, want) {
					t.Fatalf("dropped %v, want %v", dropped, want)
				}
			},
			"": func(t *rapid.T) {
				lines := 0
				for _, x := range m.turned {
					lines += x.lines
				}
				for _, x := range m.waiting {
					lines += x.lines
				}
				switch {
				case o.outstanding != lines:
					t.Fatalf("%d lines are under way, want %d", o.outstanding, lines)
				case o.next != m.next || o.nextLine != m.nextLine:
					t.Fatalf("next is strip %d at line %d, want %d at %d", o.next, o.nextLine, m.next, m.nextLine)
				case o.done != m.done || o.creditLine() != m.doneLine+uint64(credit):
					t.Fatalf("done is %d, credit %d, want %d, %d", o.done, o.creditLine(), m.done, m.doneLine)
				case len(o.waiting) > window:
					t.Fatalf("%d strips wait, of %d that may", len(o.waiting), window)
				}
			},
		})
	})
}

// A strip that comes after its place was given up is told from one that comes twice.
func TestStripOrderTooLate(t *testing.T) {
	o := &stripOrder{credit: 100, window: 1}
	stripOf := func(n uint64) *strip {
		return &strip{Strip: &pb.Strip{Sequence: n, FirstLine: 10 * n}, lines: 10}
	}
	var gaps []missing
	for _, n := range []uint64{0, 2, 3} { // 3 makes 2 give up waiting for 1
		if a := o.arrive(stripOf(n)); a != inTurn {
			t.Fatalf("strip %d: %v", n, a)
		}
		o.release(o.window, func(_ *strip, before missing) { gaps = append(gaps, before) })
	}
	if want := []missing{{0, 0, 0, 0}, {1, 2, 10, 20}, {3, 3, 30, 30}}; !slices.Equal(gaps, want) {
		t.Errorf("missing: %v, want %v", gaps, want)
	}
	if a := o.arrive(stripOf(1)); a != tooLate {
		t.Errorf("strip 1, which was given up: %v", a)
	}
	if a := o.arrive(stripOf(1)); a != again {
		t.Errorf("strip 1 once more: %v", a)
	}
}

// Strips that come in order take no memory but their place in lists that are there.
func TestStripOrderAllocates(t *testing.T) {
	o := &stripOrder{credit: 100}
	x := &strip{Strip: &pb.Strip{}, lines: 10}
	turns := 0
	n := testing.AllocsPerRun(100, func() {
		x.Sequence, x.FirstLine = o.next, o.nextLine
		if a := o.arrive(x); a != inTurn {
			t.Fatalf("%v", a)
		}
		o.release(0, func(*strip, missing) { turns++ })
		o.take()
		o.finish()
	})
	if n != 0 || turns == 0 {
		t.Errorf("%v allocations a strip, %d turns", n, turns)
	}
}

// A strip that came behind a gap, and was not done with when the connection broke, comes again as what it is.
func TestSequenceSet(t *testing.T) {
	var s sequenceSet
	s.add(3, 7)
	s.add(9, 10)
	s.add(5, 5)
	if !s.take(4) || s.take(4) || s.take(7) || !s.take(3) || !s.take(9) || s.take(9) {
		t.Errorf("%v", s)
	}
	s.cut(6)
	if !s.take(5) || s.take(6) || len(s) != 0 {
		t.Errorf("%v", s)
	}
	for n := range uint64(2 * mostLost) {
		s.add(2*n, 2*n+1)
	}
	if len(s) != mostLost || s.take(0) || !s.take(4*mostLost-2) {
		t.Errorf("%d ranges", len(s))
	}
}
