// Limits between regions: expressions of quantities of several regions, which are judged once all of them are known.

package polygon

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// expression is what a limit between regions measures, in the order of evaluation: operands first.
type expression struct {
	steps    []step
	operands []operand
	all      bool // every member of the only operand must satisfy the condition,
	but      int  // but for so many
}

// step is one of an evaluation on a stack.
type step struct {
	do        byte    // '+', '-', '*', '/'; 'n' puts a number on the stack, 'q' the value of an operand
	number    float64 // of 'n'
	dimension int     // of 'n': that of its unit
	operand   int     // of 'q'
	at        int     // where it is in the limit
}

// operand is a quantity of a region, or of a group of regions, of which rank picks one.
type operand struct {
	is    Limit  // the quantity and its channel
	named bool   // else it is of the region that has the limit
	name  string // with * for any text
	at    int    // where the name is in the limit
	rank  int    // 1 is the largest, -1 the smallest; 0 of what is no group
	over  *over  // of the last parts; nil of this one
}

// dimension is that of the operand's quantity.
func (o *operand) dimension() int {
	if o.over != nil && o.over.what == 'f' {
		return 0
	}
	return o.is.quantity.dimension()
}

// Bounds of limits between regions: ranks and exceptions; the regions that all of them look at; the names that are
// compared with patterns; and what they need of one region.
const (
	mostRank       = 1000
	mostMembers    = 1 << 20
	mostComparings = 1 << 24
	mostWanted     = 64
)

// expression reads a limit between regions up to its condition.
func (p *limitParser) expression(l *Limit) error {
	from := p.at
	x := &expression{}
	l.quantity, l.expression = quantityExpression, x
	var err error
	if p.word("all") {
		x.all = true
		if p.word("but") {
			if x.but, err = p.whole(); err != nil {
				return err
			}
		}
		if !p.word("of") {
			return p.fail(`"of"`)
		}
		err = p.operand(x, 1)
	} else {
		err = p.sum(l, x)
	}
	if err != nil {
		return err
	}
	l.spelled = strings.TrimSpace(p.src[from:p.at])
	for i := range x.operands {
		if o := &x.operands[i]; o.is.quantity == quantityBlobs {
			return p.failAt(o.at, "%s can't be part of an expression", o.is.spelled)
		} else if o.is.quantity.distance() {
			return p.failAt(o.at, "%s is of a region and its reference, and can't be part of an expression", o.is.spelled)
		}
	}
	return nil
}

// operator takes one of the signs. A sign that clings to a number is one, too.
func (p *limitParser) operator(signs string) (byte, bool) {
	if p.kind != tokenSign && p.kind != tokenNumber || strings.IndexByte(signs, p.text[0]) < 0 {
		return 0, false
	}
	sign := p.text[0]
	p.pos = p.at + 1
	p.next()
	return sign, true
}

func (p *limitParser) sum(l *Limit, x *expression) error {
	return p.chain(x, "+-", func() error { return p.chain(x, "*/", func() error { return p.factor(l, x) }) })
}

// chain reads parts with signs between them.
func (p *limitParser) chain(x *expression, signs string, part func() error) error {
	if err := part(); err != nil {
		return err
	}
	for {
		at := p.at
		sign, ok := p.operator(signs)
		if !ok {
			return nil
		}
		if err := part(); err != nil {
			return err
		}
		x.steps = append(x.steps, step{do: sign, at: at})
	}
}

func (p *limitParser) factor(l *Limit, x *expression) error {
	switch {
	case p.kind == tokenNumber:
		v, err := p.value()
		if err != nil {
			return err
		}
		x.steps = append(x.steps, step{do: 'n', number: v, dimension: p.unit(l)})
		return nil
	case p.aheadOver():
		return p.over(x)
	case p.sign("("):
		if err := p.sum(l, x); err != nil {
			return err
		}
		if !p.sign(")") {
			return p.fail(`")", +, -, * or /`)
		}
		return nil
	case p.kind == tokenWord && (p.text == "largest" || p.text == "smallest"):
		rank := 1
		smallest := p.text == "smallest"
		p.next()
		if p.kind == tokenNumber {
			var err error
			if rank, err = p.whole(); err != nil {
				return err
			}
			if rank == 0 {
				return p.failAt(p.at, "ranks begin at 1")
			}
		}
		if smallest {
			rank = -rank
		}
		if !p.word("of") {
			return p.fail(`"of"`)
		}
		return p.operand(x, rank)
	}
	return p.operand(x, 0)
}

// whole reads a small whole number.
func (p *limitParser) whole() (int, error) {
	if p.kind == tokenNumber {
		if n, err := strconv.Atoi(p.text); err == nil && n >= 0 && n <= mostRank {
			p.next()
			return n, nil
		}
	}
	return 0, p.fail(fmt.Sprintf("a whole number up to %d", mostRank))
}

// operand reads a quantity behind a name, which a group must have.
func (p *limitParser) operand(x *expression, rank int) error {
	o := operand{at: p.at, rank: rank}
	switch {
	case p.kind == tokenString:
		o.named, o.name = true, p.src[p.at+1:p.pos-1]
		p.next()
		if !p.dot() {
			return p.fail(fmt.Sprintf("%q behind the name of a region", "."))
		}
		if strings.Contains(o.name, "*") && rank == 0 {
			return p.failAt(o.at, `"%s" is a group of regions: say all of, largest of or smallest of`, o.name)
		}
	case rank != 0:
		return p.fail(`a group of regions, such as "pad*"`)
	}
	if err := p.measured(&o.is); err != nil {
		return err
	}
	x.steps = append(x.steps, step{do: 'q', operand: len(x.operands)})
	x.operands = append(x.operands, o)
	return nil
}

// between is a limit between regions, as one of a region.
type between struct {
	region, limit int
	members       [][]place // of each operand
	over          bool      // it looks at the last parts,
	slots         []int     // of which numbers of each operand are remembered here
}

// place is where a quantity of a region will be.
type place struct{ region, slot int }

// resolve finds the regions that limits between regions speak of. It returns an error of pace alone.
func (s *Set) resolve(bad *kernels.InvalidError, pace *pacer, idle *[]idleLimit) error {
	if !slices.ContainsFunc(s.distinct, func(l *Limit) bool { return l.expression != nil }) {
		return nil
	}
	named := map[string][]int{}
	for i, name := range s.names {
		named[name] = append(named[name], i)
	}
	s.wanted = make([][]*Limit, len(s.names))
	groups := map[string][]int{}
	found := map[*operand][]place{} // of operands that name their regions: a limit of many regions has one list
	told := map[*Limit]string{}
	looks := 0
	for i := range s.names {
		for k, l := range s.Limits(i) {
			if len(bad.Violations) == kernels.MaxViolations {
				return nil
			}
			if l.expression == nil {
				continue
			}
			b, before := between{region: i, limit: k}, len(bad.Violations)
			for n := range l.expression.operands {
				o := &l.expression.operands[n]
				if o.over != nil && o.over.what == 'f' {
					b.members = append(b.members, nil)
					continue
				}
				regions := []int{i}
				fail := func(format string, args ...any) {
					bad.Add(path{"regions", i, "limits", k}, quoted(l.expr), "column %d: %s", o.at+1, fmt.Sprintf(format, args...))
				}
				if o.named {
					if regions = named[o.name]; strings.Contains(o.name, "*") {
						known := false
						if regions, known = groups[o.name]; !known {
							if (len(groups)+1)*len(s.names) > mostComparings {
								fail("limits have more groups than can be looked for in %d regions", len(s.names))
								return nil
							}
							regions = s.matching(o.name)
							groups[o.name] = regions
						}
					}
				}
				switch {
				case len(regions) == 0:
					fail("no region has the name %s", quoted(o.name))
				case o.rank == 0 && len(regions) > 1:
					fail("%d regions have the name %s", len(regions), quoted(o.name))
				case max(o.rank, -o.rank) > len(regions):
					fail("%s are %d regions", quoted(o.name), len(regions))
				case l.expression.all && l.expression.but >= len(regions):
					fail("%s are %d regions: with so many exceptions nothing can fail", quoted(o.name), len(regions))
				}
				if looks += len(regions); looks > mostMembers {
					fail("limits look at more than %d regions in all", mostMembers)
					return nil
				}
				members, known := found[o]
				if !known {
					members = make([]place, len(regions))
					for m, r := range regions {
						if err := s.findTilt(r, &o.is, pace); err != nil {
							return err
						}
						slot := s.want(r, &o.is)
						if slot == mostWanted {
							fail("limits need more than %d quantities of region %s", mostWanted, quoted(s.names[r]))
							return nil
						}
						members[m] = place{r, slot}
					}
				}
				if o.named {
					found[o] = members
				}
				b.members = append(b.members, members)
			}
			if err := s.addSlots(&b, l); err != nil {
				bad.Add(path{"regions", i, "limits", k}, quoted(l.expr), "%v", err)
				return nil
			}
			if len(bad.Violations) == before {
				if _, known := told[l]; !known {
					if err := pace.took(4 * b.looks()); err != nil {
						return err
					}
				}
				if why := s.idleBetween(told, &b, l, anyFrame(), anyFormat); why != "" {
					*idle = append(*idle, idleLimit{i, k, l, why})
				}
			}
			s.between = append(s.between, b)
		}
	}
	return nil
}

// matching are the regions whose names match a pattern with *.
func (s *Set) matching(pattern string) (regions []int) {
	parts := strings.Split(pattern, "*")
	for i, name := range s.names {
		rest, ok := strings.CutPrefix(name, parts[0])
		for _, part := range parts[1 : len(parts)-1] {
			at := strings.Index(rest, part)
			if ok = ok && at >= 0; !ok {
				break
			}
			rest = rest[at+len(part):]
		}
		if ok && strings.HasSuffix(rest, parts[len(parts)-1]) {
			regions = append(regions, i)
		}
	}
	return regions
}

// want says where a quantity of a region will be.
func (s *Set) want(region int, q *Limit) int {
	list := s.wanted[region]
	at := slices.IndexFunc(list, func(o *Limit) bool { return o.measuresAs(q) })
	if at >= 0 {
		return at
	}
	s.wanted[region] = append(list, q)
	return len(list)
}

// gather keeps what limits between regions need of channel c of region i; NaN where it has no value.
func (d *deriver) gather(i, c int, r *RegionResult, stats *driver.MaskStats, s *scratch) {
	if c == 0 {
		d.values[i] = make([]float64, len(d.set.wanted[i])*len(d.channels))
	}
	for slot, q := range d.set.wanted[i] {
		v, ok := measureRegion(q, r, stats)
		if !q.quantity.ofRegion() {
			v, ok = measure(q, &r.Channels[c], s, d.coding(c))
		}
		if !ok {
			v = math.NaN()
		}
		d.values[i][slot*len(d.channels)+c] = v
	}
}

// judgeBetween judges the limits between regions; with parts those over them, of the part of a number, and without
// those of this part alone. pause is that of compareRegions.
func (d *deriver) judgeBetween(past *Parts, number uint64, pause func() error) error {
	pace := pacer{pause: pause, left: setPiece}
	told := map[*Limit]betweenResult{}
	for n := range d.set.between {
		b := &d.set.between[n]
		if b.over != (past != nil) {
			continue
		}
		l := d.set.Limits(b.region)[b.limit]
		j, known := told[l]
		if !known {
			if err := pace.took(b.looks() * len(d.channels)); err != nil {
				return err
			}
			if j = d.lookBetween(b, l, past, number); past == nil && l.anywhere() {
				told[l] = j
			}
		}
		why := cmp.Or(d.links[b.region].why, j.why)
		r := l.judge(&j.outcome, why)
		if j.failing != "" && r.Verdict == Fail && j.lacking == "" && why == "" {
			r.Reason = j.failing
		}
		if past != nil && r.Measured {
			if r.Parts = j.parts; r.Verdict == Fail {
				r.Reason += overText(l, j.parts)
			}
		}
		d.put(b.region, b.limit, r)
	}
	return nil
}

// betweenResult is what a limit between regions comes to, whichever region it is of.
type betweenResult struct {
	outcome
	failing string // which of a group don't satisfy it
	why     string // a region that it looks at was not seen
}

func (d *deriver) lookBetween(b *between, l *Limit, past *Parts, number uint64) (j betweenResult) {
	for k := range l.expression.operands {
		for _, m := range b.members[k] {
			if other := d.links[m.region].why; j.why == "" && other != "" {
				j.why = "region " + quoted(d.set.names[m.region]) + ": " + other
			}
		}
	}
	if once := l.ofChannel(); once {
		j.failing = d.judgeIn(b, l, &j.outcome, 0, NoChannel, past, number)
		return j
	}
	for c, channel := range d.channels {
		if !d.unnamed(c) {
			continue
		}
		if f := d.judgeIn(b, l, &j.outcome, c, channel, past, number); j.failing == "" {
			j.failing = f
		}
	}
	return j
}

// anywhere says that a limit between regions names all of its regions: it is the same one in whichever region it
// stands.
func (l *Limit) anywhere() bool {
	return !slices.ContainsFunc(l.expression.operands, func(o operand) bool { return !o.named })
}

// looks is at how many regions the limit looks.
func (b *between) looks() (n int) {
	for k := range b.members {
		n += len(b.members[k])
	}
	return n
}

// ofChannel says that the limit is of no channel but those that it names.
func (l *Limit) ofChannel() bool {
	return !slices.ContainsFunc(l.expression.operands, func(o operand) bool {
		return !o.is.quantity.ofRegion() && o.is.channel == NoChannel
	})
}

// judgeIn sees the value of a limit in channel c. Of a limit on all of a group the value is how many don't satisfy it,
// and the text says which.
func (d *deriver) judgeIn(b *between, l *Limit, o *outcome, c int, channel Channel, past *Parts,
	number uint64) (failing string) {
	x := l.expression
	parts := math.MaxInt
	values := make([][]float64, len(x.operands))
	for k := range x.operands {
		at := c
		if named := x.operands[k].is.channel; named != NoChannel {
			at = slices.Index(d.channels, named)
		}
		values[k] = make([]float64, len(b.members[k]))
		if ov := x.operands[k].over; ov != nil && ov.what == 'f' {
			v, n := past.of(ov, 0, NoChannel, number)
			values[k], parts = []float64{v}, min(parts, n)
		}
		for i, m := range b.members[k] {
			v := d.values[m.region][m.slot*len(d.channels)+at]
			if math.IsNaN(v) {
				o.lack(channel, fmt.Sprintf("%s of region %s has none", x.operands[k].is.spelled, quoted(d.set.names[m.region])))
				return ""
			}
			if ov := x.operands[k].over; ov != nil {
				var n int
				v, n = past.of(ov, b.slots[k], d.channels[at], number)
				parts = min(parts, n)
				if l.millimetres && ov.what != 'm' {
					v = l.scale.extent(x.operands[k].is.quantity, v)
					values[k][i] = v
					continue
				}
			}
			if l.millimetres {
				v = l.scale.convert(x.operands[k].is.quantity, v)
			}
			values[k][i] = v
		}
	}
	if x.all {
		return d.judgeAll(b, l, o, values[0], channel)
	}
	for k := range x.operands {
		if rank := x.operands[k].rank; rank != 0 {
			slices.Sort(values[k])
			if rank > 0 {
				rank = len(values[k]) - rank
			} else {
				rank = -rank - 1
			}
			values[k][0] = values[k][rank]
		}
	}
	v := x.value(values)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		o.lack(channel, "something is divided by 0, or runs over")
		return ""
	}
	o.see(l, v, channel)
	o.parts = parts
	return ""
}

func (d *deriver) judgeAll(b *between, l *Limit, o *outcome, values []float64, channel Channel) string {
	const most = 3 // that are named: a set may have a million to look at
	var which []string
	n := 0
	for i, v := range values {
		if ok, _ := l.holds(v); ok {
			continue
		}
		if n++; n <= most {
			short, _ := brief(v, l.want.lo)
			which = append(which, quoted(d.set.names[b.members[0][i].region])+" "+short+units[l.unit])
		}
	}
	ok := n <= l.expression.but
	if margin := float64(l.expression.but - n); o.lacking == "" && (!o.measured || margin < o.margin) {
		*o = outcome{measured: true, ok: ok, margin: margin, value: float64(n), channel: channel}
	}
	if ok {
		return ""
	}
	if n > most {
		which = append(which, fmt.Sprintf("and %d more", n-most))
	}
	return fmt.Sprintf("%s: %d of %d don't hold, at most %d may: %s", l.named(channel), n, len(values), l.expression.but,
		strings.Join(which, ", "))
}

// value evaluates the expression; the value of an operand is the first of its list. Quotients by 0 are infinite or NaN.
func (x *expression) value(values [][]float64) float64 {
	var stack []float64
	for _, s := range x.steps {
		switch n := len(stack); s.do {
		case 'n':
			stack = append(stack, s.number)
		case 'q':
			stack = append(stack, values[s.operand][0])
		default:
			stack = append(stack[:n-2], s.of(stack[n-2], stack[n-1]))
		}
	}
	return stack[0]
}

// of is what a sign makes of two numbers.
func (s step) of(a, b float64) float64 {
	switch s.do {
	case '+':
		return a + b
	case '-':
		return a - b
	case '*':
		return a * b
	}
	return a / b
}
