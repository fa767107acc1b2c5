package server

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	testseed "github.com/polyscan/polyscan/internal/seed"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// scanModel says what a session should answer to strips, from the definitions: strips wait for those before them until
// more wait than they may, each line counts once, and the numbers of a part are sums over its lines.
type scanModel struct {
	reorder      int
	every, part  int
	next, line   int
	waiting      []modelStrip
	lost         map[int]bool // sequence numbers that were given up
	came         map[int]bool // lines
	events       []string
	begun        []int // first lines of parts, in order
	sum          func(line int) uint64
	needed, from int // lines of a part that its region needs: [from, needed)
}

type modelStrip struct {
	sequence, first, lines int
	bad                    bool
}

func (m *scanModel) event(format string, args ...any) {
	m.events = append(m.events, fmt.Sprintf(format, args...))
}

func (m *scanModel) send(s modelStrip) {
	lines := s.lines
	if s.bad {
		lines = 0
	}
	about := fmt.Sprintf("strips %d-%d lines %d-%d", s.sequence, s.sequence+1, s.first, s.first+lines)
	switch {
	case m.lost[s.sequence]:
		delete(m.lost, s.sequence)
		m.event("OUT_OF_ORDER %s", about)
		return
	case s.sequence < m.next || slices.ContainsFunc(m.waiting, func(w modelStrip) bool {
		return w.sequence == s.sequence
	}):
		m.event("DUPLICATE %s", about)
		return
	}
	if slices.ContainsFunc(m.waiting, func(w modelStrip) bool { return w.sequence > s.sequence }) {
		if s.bad {
			m.event("OUT_OF_ORDER %s", about)
		} else {
			m.event("OUT_OF_ORDER %s used", about)
		}
	}
	m.waiting = append(m.waiting, s)
	m.settle(m.reorder)
}

// settle uses waiting strips whose turn it is.
func (m *scanModel) settle(most int) {
	for len(m.waiting) > 0 {
		slices.SortFunc(m.waiting, func(a, b modelStrip) int { return a.sequence - b.sequence })
		s := m.waiting[0]
		if s.sequence != m.next && len(m.waiting) <= most {
			return
		}
		m.waiting = m.waiting[1:]
		bad := s.bad || s.first < m.line
		gapEnd := s.first
		if bad {
			gapEnd = m.line
		}
		if s.sequence > m.next || gapEnd > m.line {
			m.event("GAP strips %d-%d lines %d-%d", m.next, s.sequence, m.line, gapEnd)
		}
		for n := m.next; n < s.sequence; n++ {
			m.lost[n] = true
		}
		m.next = s.sequence + 1
		if bad {
			lines := s.lines
			if s.bad {
				lines = 0
			}
			m.event("BAD_STRIP strips %d-%d lines %d-%d", s.sequence, s.sequence+1, s.first, s.first+lines)
			continue
		}
		m.line = s.first + s.lines
		for start := 0; start < m.line; start += m.every {
			if s.first < start+m.part && !slices.Contains(m.begun, start) {
				m.begun = append(m.begun, start)
			}
		}
		for l := s.first; l < m.line; l++ {
			m.came[l] = true
		}
	}
}

// check compares the parts with the model.
func (m *scanModel) check(parts []*pb.PartResult) error {
	if len(parts) != len(m.begun) {
		return fmt.Errorf("%d parts, want those at %v", len(parts), m.begun)
	}
	seen := map[int]bool{}
	for i, p := range parts {
		first := int(p.GetFirstLine())
		if !slices.Contains(m.begun, first) || seen[first] || p.GetResultNumber() != uint64(i) ||
			p.GetPartNumber() != uint64(first/m.every) {
			return fmt.Errorf("result %d: %v, want the parts at %v", i, p, m.begun)
		}
		seen[first] = true
		var sum, missing uint64
		for l := first + m.from; l < first+m.needed; l++ {
			if m.came[l] {
				sum += m.sum(l)
			} else {
				missing++
			}
		}
		want := pb.Verdict_VERDICT_PASS
		if sum >= uint64(6*128*(m.needed-m.from)) || missing > 0 { // by the limit, or unseen
			want = pb.Verdict_VERDICT_FAIL
		}
		if p.GetMissingLines() != missing || p.GetIncomplete() != (missing > 0) || p.GetVerdict() != want ||
			p.GetRegions()[0].GetChannels()[0].GetSum() != sum {
			return fmt.Errorf("part at %d: %v, want sum %d, %d lines missing, %v", first, p, sum, missing, want)
		}
	}
	return nil
}

// choose takes choices from a generator, or from a fuzzer's bytes.
type choose func(n int) int

// checkScanCase sends random strips, over connections that break now and then, and compares what comes back with the
// model.
func checkScanCase(t *testing.T, s *testServer, b belt, c choose) {
	m := &scanModel{
		reorder: c(4), every: 3 + c(12), part: 4 + c(14), lost: map[int]bool{}, came: map[int]bool{},
		sum: func(line int) (n uint64) {
			for _, v := range b.lines(line, line+1)[1:7] {
				n += uint64(v)
			}
			return n
		},
	}
	m.from = c(m.part)
	m.needed = m.from + 1 + c(m.part-m.from)
	open := scanOpen(inspecting(rect("r", 1, float64(m.from), 7, float64(m.needed), "mean < 128")), 8, 10, m.part, m.every)
	open.ReorderStrips = uint32(m.reorder)

	// Strips in the order in which a camera that behaves would send them, and then what becomes of that.
	var strips []modelStrip
	for line := 0; line < 120; {
		x := modelStrip{sequence: len(strips), first: line, lines: 1 + c(10)}
		line += x.lines
		switch c(16) {
		case 0: // lines that the camera lost
			x.first += 1 + c(20)
			line = x.first + x.lines
		case 1:
			x.bad = true
		case 2: // over the one before
			x.first = max(0, x.first-c(3))
		}
		strips = append(strips, x)
	}
	for i := 0; i < len(strips); i++ {
		switch c(12) {
		case 0:
			k := min(i+1+c(5), len(strips)-1)
			strips[i], strips[k] = strips[k], strips[i]
		case 1:
			strips = slices.Insert(strips, i, strips[c(len(strips))])
		case 2:
			strips = slices.Delete(strips, i, i+1)
		}
	}
	call := s.scan(t, open)
	got := &scanned{}
	for _, x := range strips {
		m.send(x)
		strip := b.strip(uint64(x.sequence), x.first, x.first+x.lines)
		if x.bad {
			strip.Frame.Layout.Width = 9
		}
		call.strip(strip)
		if c(20) == 0 && len(m.waiting) == 0 { // strips that wait would have to be sent again
			step := call.until(func(step *scanned) bool {
				return max(call.opened.GetNextSequence(), step.ack.GetNextSequence()) == uint64(m.next) &&
					len(got.events)+len(step.events) == len(m.events)
			})
			got.parts, got.events = append(got.parts, step.parts...), append(got.events, step.events...)
			call.cancel()
			call = scanOver(t, s.conn).begin(resumeRequest(call.opened.GetSessionToken(), uint64(len(got.parts))))
			if call.opened.GetNextSequence() != uint64(m.next) || call.opened.GetNextLine() != uint64(m.line) {
				t.Fatalf("resumed at %v, want strip %d, line %d", call.opened, m.next, m.line)
			}
		}
	}
	m.settle(0)
	rest := call.finish()
	got.parts, got.events = append(got.parts, rest.parts...), append(got.events, rest.events...)
	for i, e := range got.events {
		if i >= len(m.events) || describe(e) != m.events[i] {
			t.Fatalf("strips %+v, %d may wait: event %d is %s, want %v", strips, m.reorder, i, describe(e), m.events)
		}
		if e.GetError() != nil && codes.Code(e.GetError().GetCode()) != codes.InvalidArgument {
			t.Fatalf("%v", e)
		}
	}
	if len(got.events) != len(m.events) {
		t.Fatalf("strips %+v: %d events, want %v", strips, len(got.events), m.events)
	}
	if err := m.check(got.parts); err != nil {
		t.Fatalf("strips %+v, %d may wait, a part of %d lines every %d, lines [%d, %d) needed: %v", strips, m.reorder,
			m.part, m.every, m.from, m.needed, err)
	}
}

func TestScanModel(t *testing.T) {
	s := start(t, Config{})
	b := newBelt(20, 8, 400)
	cases := 300
	if testing.Short() {
		cases = 40
	}
	for seed := range cases {
		checkScanCase(t, s, b, testseed.New(t, uint64(seed), 21).IntN)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	s.idle(t)
}

func FuzzScanSession(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("strips that come, and strips that don't"))
	s := start(f, Config{})
	b := newBelt(20, 8, 4000)
	f.Fuzz(func(t *testing.T, data []byte) {
		checkScanCase(t, s, b, func(n int) int {
			if len(data) == 0 {
				return n - 1
			}
			v := int(data[0]) % n
			data = data[1:]
			return v
		})
	})
}
