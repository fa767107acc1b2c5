package main

// Checking: every part gets its result, and every result is what the oracle says.

import (
	"fmt"
	"maps"
	"slices"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// checker follows the parts of one camera. Its methods are called by one goroutine at a time, but for judge.
type checker struct {
	oracle *oracle // nil: parts are counted, numbers aren't checked
	every  uint64  // a part starts after so many lines; 0: where they were marked
	lines  int     // of a part
	camera int     // its number

	open    map[uint64]uint64 // parts without a result: first line to number
	started uint64            // parts that have started
	next    uint64            // where the next one starts, of every
	end     uint64            // the line after the last one that was handed over
	lost    []lineRange       // lines that a fault took away
	dropped int               // parts that have no result, since the server never heard of them

	problems []string // the first of them, for people
	wrong    int      // all of them
	checked  int      // results that were compared with the oracle
	partial  int      // of these: incomplete ones, as they had to be
}

// maxProblems is how many problems are kept; all are counted.
const maxProblems = 20

func newChecker(o *oracle, every uint64, lines int) *checker {
	return &checker{oracle: o, every: every, lines: lines, open: map[uint64]uint64{}}
}

func (c *checker) problem(format string, args ...any) {
	c.wrong++
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, fmt.Sprintf(format, args...))
	}
}

// sent notes a strip that the server will have or, with lost, that a fault takes away; starts are the lines that it
// marks.
func (c *checker) sent(first uint64, lines int, starts []uint64, lost bool) {
	c.end = first + uint64(lines)
	if lost {
		if n := len(c.lost); n > 0 && c.lost[n-1].to == first {
			c.lost[n-1].to = c.end
		} else {
			c.lost = append(c.lost, lineRange{first, c.end})
		}
	}
	if c.every > 0 {
		for ; c.next < c.end; c.next += c.every {
			c.open[c.next] = c.started
			c.started++
		}
		return
	}
	if lost {
		c.dropped += len(starts) // a part begins by its mark, whatever else comes of it
		return
	}
	for _, s := range starts {
		c.open[s] = c.started
		c.started++
	}
}

// claim is a result with what was lost of its part.
type claim struct {
	part    *polyscanv1.PartResult
	missing []bool // rows that did not come
	needed  uint64 // how many of them its regions need
}

// take finds the part that a result is about. Its claim is to be judged, apart from nil ones.
func (c *checker) take(p *polyscanv1.PartResult) *claim {
	first := p.GetFirstLine()
	number, ok := c.open[first]
	if !ok {
		c.problem("part %d at line %d: no such part is open", p.GetPartNumber(), first)
		return nil
	}
	delete(c.open, first)
	if number != p.GetPartNumber() {
		c.problem("part at line %d has number %d: want %d", first, p.GetPartNumber(), number)
	}
	// The strip with the first line brings the id. Where that was lost, the part has none, even if it is complete because
	// its regions begin below.
	if id := p.GetPartId(); id != partID(c.camera, first) && (id != "" || !c.took(first)) {
		c.problem("part at line %d has the id %q: want %q", first, id, partID(c.camera, first))
	}
	if e := p.GetError(); e != nil {
		c.problem("part at line %d: no result: %s", first, e.GetMessage())
		return nil
	}
	if c.oracle == nil {
		return nil
	}
	lost := c.lost
	if end := first + uint64(c.lines); end > c.end {
		// It can't have come whole, unless its regions end before.
		lost = append(slices.Clip(lost), lineRange{c.end, end})
	}
	k := &claim{part: p}
	k.missing, k.needed = c.oracle.missing(first, lost)
	// Lines that are long gone don't matter any more.
	for len(c.lost) > 0 && c.lost[0].to+4*uint64(c.lines) < first {
		c.lost = c.lost[1:]
	}
	return k
}

// judge compares a claim with the oracle. It may run beside sent, but not beside take.
func (c *checker) judge(k *claim) {
	if k == nil {
		return
	}
	p, first, missing := k.part, k.part.GetFirstLine(), k.missing
	c.checked++
	if k.needed > 0 {
		c.partial++
	} else {
		missing = nil // no region looks at those rows
	}
	if p.GetIncomplete() != (k.needed > 0) || p.GetMissingLines() != k.needed {
		c.problem("part at line %d: incomplete %v, %d missing lines: %d that its regions need were lost", first,
			p.GetIncomplete(), p.GetMissingLines(), k.needed)
		return
	}
	if text := c.oracle.compare(c.oracle.part(first, missing), p); text != "" {
		c.problem("part at line %d: %s", first, text)
	}
}

// finish notes parts that have got no result.
func (c *checker) finish() (lost int) {
	for _, first := range slices.Sorted(maps.Keys(c.open)) {
		if !c.seen(first) {
			c.dropped++ // not a line of it reached the server, which has nothing to say about it
			continue
		}
		c.problem("part %d at line %d: no result", c.open[first], first)
		lost++
	}
	return lost
}

// took reports whether a fault took a line away.
func (c *checker) took(line uint64) bool {
	return slices.ContainsFunc(c.lost, func(l lineRange) bool { return l.from <= line && line < l.to })
}

// seen reports whether any line of the part that starts at first reached the server.
func (c *checker) seen(first uint64) bool {
	end := min(first+uint64(c.lines), c.end)
	for _, l := range c.lost {
		if l.from <= first {
			first = max(first, l.to)
		}
	}
	return first < end
}

// compare returns what differs first, "" for nothing.
func (o *oracle) compare(want []regionNumbers, p *polyscanv1.PartResult) string {
	if len(p.GetRegions()) != len(want) {
		return fmt.Sprintf("%d regions: want %d", len(p.GetRegions()), len(want))
	}
	verdict := polyscanv1.Verdict_VERDICT_UNSPECIFIED
	for i, w := range want {
		g := p.GetRegions()[i]
		s := &o.shapes[i]
		differs := func(what string, got, want any) string {
			return fmt.Sprintf("region %q: %s is %v: want %v", s.name, what, got, want)
		}
		if g.GetName() != s.name || int(g.GetIndex()) != i {
			return differs("name", g.GetName(), s.name)
		}
		if g.GetCount() != w.count {
			return differs("count", g.GetCount(), w.count)
		}
		if len(g.GetChannels()) != len(w.channels) {
			return differs("number of channels", len(g.GetChannels()), len(w.channels))
		}
		for k := range w.channels {
			if what, got, want := w.channels[k].compare(g.GetChannels()[k]); what != "" {
				return differs(what, got, want)
			}
		}
		if g.GetVerdict() != w.verdict {
			return differs("verdict", g.GetVerdict(), w.verdict)
		}
		switch {
		case w.verdict == polyscanv1.Verdict_VERDICT_FAIL:
			verdict = w.verdict
		case w.verdict == polyscanv1.Verdict_VERDICT_PASS && verdict == polyscanv1.Verdict_VERDICT_UNSPECIFIED:
			verdict = w.verdict
		}
	}
	if p.GetIncomplete() && verdict == polyscanv1.Verdict_VERDICT_PASS {
		verdict = polyscanv1.Verdict_VERDICT_FAIL // no region with limits lacks a line, but the part does
	}
	if p.GetVerdict() != verdict {
		return fmt.Sprintf("verdict is %v: want %v", p.GetVerdict(), verdict)
	}
	return ""
}

// compare returns the first difference: its name and both values.
func (n *channelNumbers) compare(g *polyscanv1.ChannelStatistics) (what string, got, want any) {
	count, sum, squares := n.totals()
	switch {
	case g.GetChannel() != n.channel:
		return "channel", g.GetChannel(), n.channel
	case g.Count == nil || g.GetCount() != count:
		return "count", g.GetCount(), count
	case g.Sum == nil || g.GetSum() != sum:
		return "sum", g.GetSum(), sum
	case g.SumOfSquares == nil || g.GetSumOfSquares() != squares:
		return "sum of squares", g.GetSumOfSquares(), squares
	}
	if count == 0 {
		if g.Mean != nil || g.Min != nil || g.Max != nil {
			return "mean, min or max", "set", "unset"
		}
		return "", nil, nil
	}
	values := n.values()
	lo, hi := values[0], values[len(values)-1]
	variance, _ := n.variance().Float64()
	switch {
	case g.Mean == nil || g.GetMean() != n.mean():
		return "mean", g.GetMean(), n.mean()
	case g.Variance == nil || g.GetVariance() != variance:
		return "variance", g.GetVariance(), variance
	case g.Stddev == nil || g.GetStddev() != n.stddev():
		return "stddev", g.GetStddev(), n.stddev()
	case g.Min == nil || g.GetMin() != lo:
		return "min", g.GetMin(), lo
	case g.Max == nil || g.GetMax() != hi:
		return "max", g.GetMax(), hi
	case g.GetMinAt().GetX() != n.minAt[0] || g.GetMinAt().GetY() != n.minAt[1]:
		return "place of the minimum", g.GetMinAt(), n.minAt
	case g.GetMaxAt().GetX() != n.maxAt[0] || g.GetMaxAt().GetY() != n.maxAt[1]:
		return "place of the maximum", g.GetMaxAt(), n.maxAt
	}
	return "", nil, nil
}
