// Limits over parts: of the last parts of a stream, which remembers them.

package polygon

import (
	"fmt"
	"math"
	"slices"
)

// over is what an operand is of the last parts.
type over struct {
	what  byte // 'm' mean, 's' slope, 'd' the greatest less the least, 'f' how many failed
	parts int
}

var overs = map[string]byte{"mean": 'm', "slope": 's', "spread": 'd'}

// mostRemembered is how many numbers a stream remembers of its parts at most.
const mostRemembered = 1 << 20

// Parts are the last parts of a stream, as far as limits over them look back. A stream gives each of its results to
// [Parts.Judge], in order. It must not be used by two goroutines at the same time.
//
// A limit looks at the parts whose numbers are the last n, that of the part itself among them, from the first number on
// that the stream gave. A part without a value, because it had no result, lacked lines or caught no pixel, adds none to
// means, slopes and spreads; it has failed where failed parts are counted, as have numbers that never came. Whether a
// part has failed is what its other limits say: limits over parts don't feed on themselves.
type Parts struct {
	set     *Set
	started bool
	first   uint64
	last    []pastPart // by number, ascending
}

// pastPart is what is remembered of a part.
type pastPart struct {
	number uint64
	failed bool
	values [][Alpha + 1]float64 // of each slot by channel; nil where there are none
}

// NewParts remembers nothing yet. It returns nil, which is fine to use, where no limit of the set looks at parts.
func (s *Set) NewParts() *Parts {
	if s.slots == 0 && s.lookBack == 0 {
		return nil
	}
	return &Parts{set: s}
}

// Bytes is how much memory the parts take at most.
func (p *Parts) Bytes() int64 {
	if p == nil {
		return 0
	}
	return int64(p.set.lookBack) * int64(64+8*int(Alpha+1)*p.set.slots)
}

// Judge completes the result of a part, which was made with [Output].Later; nil is a part that has none. Numbers ascend
// as a rule. A part that comes late, its number below others, is judged by the parts before it that are known, and
// counts for the parts that come after it; what was said of those between stays.
func (p *Parts) Judge(number uint64, r *Result) { p.judge(number, r, false) }

// judge is Judge for a part that may have failed beside its limits.
func (p *Parts) judge(number uint64, r *Result, failed bool) {
	if p == nil {
		return
	}
	if !p.started || number < p.first {
		p.started, p.first = true, number
	}
	part := pastPart{number: number, failed: true}
	var d *deriver
	if r != nil {
		d, r.later = r.later, nil
	}
	if d != nil {
		part.failed = failed || d.verdict() == Fail
		part.values = d.remembered()
	}
	at, known := slices.BinarySearchFunc(p.last, number, func(o pastPart, n uint64) int {
		switch {
		case o.number < n:
			return -1
		case o.number > n:
			return 1
		}
		return 0
	})
	if known {
		p.last[at] = part
	} else {
		p.last = slices.Insert(p.last, at, part)
	}
	if d != nil {
		_ = d.judgeBetween(p, number, nil)
		d.conclude()
	}
	newest := p.last[len(p.last)-1].number
	old := 0
	for newest-p.last[old].number >= uint64(p.set.lookBack) {
		old++
	}
	p.last = slices.Delete(p.last, 0, old)
}

// remembered are the values of this part that limits over parts look at.
func (d *deriver) remembered() [][Alpha + 1]float64 {
	values := make([][Alpha + 1]float64, d.set.slots)
	for n := range d.set.between {
		b := &d.set.between[n]
		l := d.set.Limits(b.region)[b.limit]
		for k := range l.expression.operands {
			if o := &l.expression.operands[k]; o.over == nil || o.over.what == 'f' {
				continue
			}
			m := b.members[k][0]
			for c := range values[b.slots[k]] {
				values[b.slots[k]][c] = math.NaN()
			}
			if d.links[m.region].why != "" {
				continue
			}
			for c, channel := range d.channels {
				if channel.isDerived() && channel != l.expression.operands[k].is.channel {
					continue // an operand without a channel is of the frame's own
				}
				values[b.slots[k]][pastPlace(channel)] = d.values[m.region][m.slot*len(d.channels)+c]
			}
		}
	}
	return values
}

// pastPlace is where a channel is among the values of a slot. One that is derived is named by the operand, and the only
// one.
func pastPlace(c Channel) Channel {
	if c.isDerived() {
		return NoChannel
	}
	return c
}

// of is what an operand comes to at a part, and of how many parts.
func (p *Parts) of(o *over, slot int, channel Channel, number uint64) (v float64, parts int) {
	from := p.first
	if span := uint64(o.parts) - 1; number-p.first > span {
		from = number - span
	}
	var seen []pastPart
	for _, past := range p.last {
		if past.number >= from && past.number <= number {
			seen = append(seen, past)
		}
	}
	if o.what == 'f' {
		parts = int(number-from) + 1
		v = float64(parts)
		for _, past := range seen {
			if !past.failed {
				v--
			}
		}
		return v, parts
	}
	// By how much parts are above the last one, which has a value, and how far before it they are.
	least, greatest := math.Inf(1), math.Inf(-1)
	var base, n, sx, sxx float64
	var all, sv, sxv sum
	for i := len(seen) - 1; i >= 0; i-- {
		if seen[i].values == nil || math.IsNaN(seen[i].values[slot][pastPlace(channel)]) {
			continue
		}
		v := seen[i].values[slot][pastPlace(channel)]
		if n == 0 {
			base = v
		}
		least, greatest = min(least, v), max(greatest, v)
		x := -float64(number - seen[i].number)
		n++
		sx += x
		sxx += float64(x * x)
		all.add(v)
		sv.add(float64(v - base))
		sxv.add(float64(x * float64(v-base)))
	}
	switch spread := float64(n*sxx) - float64(sx*sx); {
	case o.what == 'd':
		v = float64(greatest - least)
	case o.what == 'm':
		v = float64(all.total() / n)
	case n > 1:
		v = float64(float64(float64(n*sxv.total())-float64(sx*sv.total())) / spread)
	}
	return v, int(n)
}

// sum is one of numbers of any sign, by Neumaier: as if in twice the precision.
type sum struct{ v, lost float64 }

func (s *sum) add(v float64) {
	next := float64(s.v + v)
	if math.Abs(s.v) >= math.Abs(v) {
		s.lost += float64(float64(s.v-next) + v)
	} else {
		s.lost += float64(float64(v-next) + s.v)
	}
	s.v = next
}

func (s *sum) total() float64 { return float64(s.v + s.lost) }

// aheadOver says that an operand over parts begins here.
func (p *limitParser) aheadOver() bool {
	if p.kind != tokenWord {
		return false
	}
	q := *p
	q.next()
	if p.text == "count" {
		return q.word("of") && q.kind == tokenWord && q.text == "failed"
	}
	return overs[p.text] != 0 && q.kind == tokenWord && q.text == "over"
}

// over reads an operand over parts.
func (p *limitParser) over(x *expression) error {
	at := p.at
	o := &over{what: overs[p.text]}
	p.next()
	if o.what == 0 { // count of failed
		o.what = 'f'
		p.next()
		p.next()
		if !p.word("of") {
			return p.fail(`"of"`)
		}
	} else {
		p.next()
	}
	p.word("the")
	if !p.word("last") {
		return p.fail(`"last"`)
	}
	n := p.at
	var err error
	if o.parts, err = p.whole(); err != nil {
		return err
	}
	if o.parts == 0 || o.what != 'f' && o.parts == 1 {
		return p.failAt(n, "the last %d parts tell nothing", o.parts)
	}
	p.word("parts")
	if o.what == 'f' {
		x.steps = append(x.steps, step{do: 'q', operand: len(x.operands)})
		x.operands = append(x.operands, operand{at: at, over: o, is: Limit{spelled: "count of failed"}})
		return nil
	}
	if !p.word("of") {
		return p.fail(`"of"`)
	}
	if err := p.operand(x, 0); err != nil {
		return err
	}
	x.operands[len(x.operands)-1].over = o
	return nil
}

// alone is why limits over parts fail where no stream remembers any.
const alone = "it is of the last parts of a stream, and this is a frame alone"

// addSlots gives operands over parts their places in what streams remember.
func (s *Set) addSlots(b *between, l *Limit) error {
	for k := range l.expression.operands {
		b.slots = append(b.slots, s.slots)
		if o := l.expression.operands[k].over; o != nil {
			b.over = true
			s.lookBack = max(s.lookBack, o.parts)
			if o.what != 'f' {
				s.slots++
			}
		}
	}
	if s.slots*s.lookBack*int(Alpha+1) > mostRemembered {
		return fmt.Errorf("limits over parts remember more than %d numbers: %d of %d parts, in up to %d channels",
			mostRemembered, s.slots, s.lookBack, Alpha)
	}
	return nil
}

// overText is how reasons speak of how many parts there were.
func overText(l *Limit, parts int) string {
	most := 0
	for i := range l.expression.operands {
		if o := l.expression.operands[i].over; o != nil {
			most = max(most, o.parts)
		}
	}
	if parts >= most || parts == 0 {
		return ""
	}
	return fmt.Sprintf(" (of %d parts)", parts)
}
