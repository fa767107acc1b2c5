// The order of strips: which is next, which wait for a missing one, which are lost, and how many lines are under way.

package scan

import (
	"cmp"
	"slices"

	"github.com/polyscan/polyscan/server/internal/apierr"
)

// stripOrder puts the strips of a session into the order of their sequence numbers. It does no I/O, takes no locks and
// knows no time: all that it does follows from the calls that it gets. A strip passes through it in these steps:
//
//	arrive -> (waiting for strips before it) -> release -> (queue) -> take -> (in work) -> finish
//
// The client sees two of its numbers: that of the next strip that isn't finished, from which it resumes, and the line
// up to which it may send.
type stripOrder struct {
	credit int // lines that may be under way; one strip may always be
	window int // strips that may wait for a missing one

	next, nextLine uint64      // those of the strip whose turn comes next
	waiting        []*strip    // for strips before them; by sequence number
	queue          []*strip    // those whose turn it is, and which nobody has taken
	inWork         *strip      // taken and not finished; nil where there is none
	outstanding    int         // lines of those three
	lost           sequenceSet // numbers that were given up

	done, doneLine uint64 // those of the first strip that isn't finished
}

// mostStrips is how many strips a client may have under way, however few lines they have.
const mostStrips = 4096

// arrival is what becomes of a strip that has come.
type arrival uint8

const (
	inTurn       arrival = iota // it is behind all that have come
	outOfOrder                  // others came first that are behind it; its place was kept
	tooLate                     // its place was given up
	again                       // it has come before
	beyondCredit                // the client has more lines under way than it may
	beyondStrips                // and more strips
)

// kept says that the strip was taken in.
func (a arrival) kept() bool { return a <= outOfOrder }

// arrive takes a strip in. release follows.
func (o *stripOrder) arrive(x *strip) arrival {
	sequence := x.GetSequence()
	at, came := slices.BinarySearchFunc(o.waiting, sequence, func(x *strip, n uint64) int {
		return cmp.Compare(x.GetSequence(), n)
	})
	switch {
	case came:
		return again
	case sequence < o.next && o.lost.take(sequence):
		return tooLate
	case sequence < o.next:
		return again
	case o.outstanding > 0 && o.outstanding+x.lines > o.credit:
		return beyondCredit
	case len(o.queue)+len(o.waiting) >= mostStrips:
		return beyondStrips
	}
	o.outstanding += x.lines
	last := at == len(o.waiting)
	o.waiting = slices.Insert(o.waiting, at, x)
	if last {
		return inTurn
	}
	return outOfOrder
}

// missing is what lies between a strip and the one before it: sequence numbers, and lines.
type missing struct{ fromSequence, toSequence, fromLine, toLine uint64 }

// any says that something is missing.
func (m missing) any() bool { return m.fromSequence < m.toSequence || m.fromLine < m.toLine }

// release moves strips to the queue whose turn has come, giving up missing ones before them where more than most wait.
// It calls turn for each, after it has set its end, and its err where the strip begins before the end of the one
// before.
func (o *stripOrder) release(most int, turn func(x *strip, before missing)) {
	n := 0
	for n < len(o.waiting) && (o.waiting[n].GetSequence() == o.next || len(o.waiting)-n > most) {
		x := o.waiting[n]
		n++
		turn(x, o.advance(x))
		o.queue = append(o.queue, x)
	}
	o.waiting = slices.Delete(o.waiting, 0, n)
}

// advance is the turn of a strip.
func (o *stripOrder) advance(x *strip) missing {
	sequence, first := x.GetSequence(), x.GetFirstLine()
	if x.err == nil && first < o.nextLine {
		x.err = apierr.Refuse("strip.first_line", first, "must be at least %d, where the strip before it ended", o.nextLine)
	}
	gap := missing{o.next, sequence, o.nextLine, max(first, o.nextLine)}
	if x.err != nil {
		gap.toLine = gap.fromLine // its lines are those of the next strip's gap
	}
	o.lost.add(o.next, sequence)
	o.next = sequence + 1
	if x.err == nil {
		o.nextLine = first + uint64(x.lines)
	}
	x.end = o.nextLine
	return gap
}

// take takes the next strip out of the queue, to be finished; nil where there is none.
func (o *stripOrder) take() *strip {
	if len(o.queue) == 0 {
		return nil
	}
	o.inWork = o.queue[0]
	o.queue = slices.Delete(o.queue, 0, 1)
	return o.inWork
}

// busy says that a strip is in work, or is to be.
func (o *stripOrder) busy() bool { return o.inWork != nil || len(o.queue) > 0 }

// finish says that the strip that was taken is done with.
func (o *stripOrder) finish() {
	x := o.inWork
	o.inWork = nil
	o.done, o.doneLine = x.GetSequence()+1, x.end
	o.outstanding -= x.lines
}

// creditLine is the line up to which the client may send.
func (o *stripOrder) creditLine() uint64 { return o.doneLine + uint64(o.credit) }

// restart drops all strips but the one in work, whose results come: the client sends them again.
func (o *stripOrder) restart(drop func(*strip)) {
	for _, list := range [][]*strip{o.queue, o.waiting} {
		for _, x := range list {
			o.outstanding -= x.lines
			drop(x)
		}
	}
	clear(o.queue)
	clear(o.waiting)
	o.queue, o.waiting = o.queue[:0], o.waiting[:0]
	o.next, o.nextLine = o.done, o.doneLine
	if x := o.inWork; x != nil {
		o.next, o.nextLine = x.GetSequence()+1, x.end
	}
	o.lost.cut(o.next)
}

// sequenceSet is the last ranges of sequence numbers that were given up.
type sequenceSet []sequenceRange

type sequenceRange struct{ from, to uint64 }

// mostLost is how many ranges are remembered.
const mostLost = 64

func (s *sequenceSet) add(from, to uint64) {
	if from >= to {
		return
	}
	*s = append(*s, sequenceRange{from, to})
	if n := len(*s) - mostLost; n > 0 {
		*s = slices.Delete(*s, 0, n)
	}
}

// cut takes the numbers from n on out.
func (s *sequenceSet) cut(n uint64) {
	for i := range *s {
		(*s)[i].to = min((*s)[i].to, n)
	}
	*s = slices.DeleteFunc(*s, func(r sequenceRange) bool { return r.from >= r.to })
}

// take takes a number out, and says whether it was there.
func (s *sequenceSet) take(n uint64) bool {
	for i, r := range *s {
		if n < r.from || n >= r.to {
			continue
		}
		rest := []sequenceRange{{r.from, n}, {n + 1, r.to}}
		rest = slices.DeleteFunc(rest, func(r sequenceRange) bool { return r.from >= r.to })
		*s = slices.Replace(*s, i, i+1, rest...)
		return true
	}
	return false
}
