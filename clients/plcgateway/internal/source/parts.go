package source

// Parts of line-scan streams: which trigger a verdict answers.

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

// Keep is how long a verdict may wait for the trigger that names its part.
const Keep = 2 * time.Second

// kept is how many verdicts wait for their triggers at most; the oldest ones go.
const keptParts = 1024

// judged is a verdict that was seen.
type judged struct {
	stream, number uint64 // of the stream, and of the result in it
	outcome        station.Outcome
}

// parts matches the verdicts of one named stream with the triggers of one station.
type parts struct {
	mu      sync.Mutex
	waiting []*station.Job            // without a part's name, in order
	named   map[string][]*station.Job // by the part's name
	kept    map[string]keptPart
	order   []string // of kept, oldest first
	owed    int      // triggers that ended without their part, which may come yet
	unknown bool     // which part comes next is not known
	refused int      // triggers that were refused and whose parts may come yet
	again   uint32   // id of the last of them, which may be tried again
	stream  uint64
	next    uint64
	begun   bool
}

type keptPart struct {
	judged judged
	at     time.Time
	twice  bool
}

func newParts() *parts {
	return &parts{named: map[string][]*station.Job{}, kept: map[string]keptPart{}}
}

// inspect answers a trigger from what was kept, or lets it wait.
func (p *parts) inspect(j *station.Job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if j.PartID == "" {
		// The part of a trigger that was refused comes before this one's, unless this is the same trigger again.
		if p.refused > 1 || p.refused == 1 && p.again != j.TriggerID {
			p.waiting = append(p.waiting, j) // which ends with the others
			p.lost()
			return
		}
		p.refused = 0
		if p.unknown {
			j.Answer(station.Outcome{Reason: station.ReasonOtherPart, Detail: "the order of parts is not known: reset"})
			return
		}
		p.waiting = append(p.waiting, j)
	} else {
		if k, ok := p.kept[j.PartID]; ok && time.Since(k.at) < Keep {
			p.forget(j.PartID)
			if k.twice {
				k.judged.outcome = station.Outcome{Reason: station.ReasonOtherPart, Detail: "two parts with this id"}
			}
			j.Answer(k.judged.outcome)
			return
		}
		p.named[j.PartID] = append(p.named[j.PartID], j)
	}
	context.AfterFunc(j.Context(), func() { p.ended(j) })
}

// ended takes out a trigger that got its answer otherwise. The part that it waited for may come yet.
func (p *parts) ended(j *station.Job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if j.PartID != "" {
		p.named[j.PartID] = slices.DeleteFunc(p.named[j.PartID], func(o *station.Job) bool { return o == j })
		if len(p.named[j.PartID]) == 0 {
			delete(p.named, j.PartID)
		}
		return
	}
	if i := slices.Index(p.waiting, j); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.owed++
	}
}

// skipped is of a trigger without a part's name that nobody inspects. Where it was accepted, its part is owed. Where it
// was refused, nobody knows whether there is a part, or whether the trigger comes again.
func (p *parts) skipped(id uint32, accepted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case accepted:
		p.owed++
	case p.refused == 0 || p.again != id:
		p.refused++
		p.again = id
	}
}

// verdict gives a verdict to the trigger that waits for it, and keeps it otherwise.
func (p *parts) verdict(v judged) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun && (v.stream != p.stream || v.number != p.next) {
		p.lost()
	}
	p.begun, p.stream, p.next = true, v.stream, v.number+1
	id := v.outcome.PartID
	if jobs := p.named[id]; id != "" && len(jobs) > 0 {
		delete(p.named, id)
		for _, j := range jobs {
			j.Answer(v.outcome)
		}
		return
	}
	switch {
	case p.unknown:
	case p.owed > 0:
		p.owed--
	case len(p.waiting) == 0 && p.refused > 0:
		p.refused--
	case len(p.waiting) > 0:
		j := p.waiting[0]
		p.waiting = slices.Delete(p.waiting, 0, 1)
		j.Answer(v.outcome) // where it ended a moment ago, this was its part all the same
		return
	}
	if id == "" {
		return
	}
	now := time.Now()
	k, again := p.kept[id]
	again = again && now.Sub(k.at) < Keep
	p.forget(id)
	p.kept[id] = keptPart{v, now, again}
	if p.order = append(p.order, id); len(p.order) > keptParts {
		p.forget(p.order[0])
	}
}

func (p *parts) forget(id string) {
	if _, ok := p.kept[id]; ok {
		delete(p.kept, id)
		p.order = slices.DeleteFunc(p.order, func(o string) bool { return o == id })
	}
}

// gap says that verdicts may have been lost.
func (p *parts) gap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost()
	p.begun = false
	clear(p.kept) // another server's parts may have the same ids
	p.order = nil
}

// lost ends the triggers that rely on the order of parts, and those that come until the PLC resets.
func (p *parts) lost() {
	if len(p.waiting) == 0 && p.owed == 0 && p.refused == 0 {
		return // nobody relies on it
	}
	p.unknown = true
	waiting := p.waiting
	p.waiting, p.owed, p.refused = nil, 0, 0
	for _, j := range waiting {
		j.Answer(station.Outcome{Reason: station.ReasonOtherPart, Detail: "verdicts of this stream were lost"})
	}
}

// reset begins anew: the next part is the next trigger's.
func (p *parts) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting, p.owed, p.refused, p.unknown = nil, 0, 0, false
	clear(p.kept)
	p.order = nil
}
