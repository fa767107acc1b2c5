package mqtt

// A station as a connection has it: the session, the image that was written, and answers that nobody was shown.

import (
	"slices"
	"sync"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

const (
	// eventBuffer is how many events of a station may wait.
	eventBuffer = 64
	// pastMax is how many answers are kept for history while there is no connection; older ones are counted.
	pastMax = 64
)

type bound struct {
	st    *station.Station
	cfg   station.Config
	owner string

	session *station.Session
	image   station.Outputs // as it was written last

	mu    sync.Mutex
	shown []uint32 // sequences of answers that were published, the newest last
	past  []station.Answer
	lost  uint64 // answers that history doesn't have
}

func bind(st *station.Station, owner string) *bound {
	return &bound{st: st, cfg: st.Config(), owner: owner}
}

// follow wakes the connection with each event, until the subscription ends.
func (b *bound) follow(sub *station.Subscription, wake chan struct{}) {
	for e := range sub.C {
		b.mu.Lock()
		b.lost += e.Lost // some of them, at most
		if e.Kind == station.Acknowledged && !slices.Contains(b.shown, e.Answer.Sequence) {
			b.past = append(b.past, e.Answer)
			if len(b.past) > pastMax {
				b.past = slices.Delete(b.past, 0, 1)
				b.lost++
			}
		}
		b.mu.Unlock()
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// history takes the answers that nobody was shown while they were presented.
func (b *bound) history() []station.Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	past := b.past
	b.past = nil
	return past
}

// published marks that an answer was published as the present one.
func (b *bound) published(sequence uint32) {
	if sequence == 0 {
		return
	}
	if b.session != nil {
		b.session.Read(sequence)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(b.shown, sequence) {
		return
	}
	if b.shown = append(b.shown, sequence); len(b.shown) > 2*station.History {
		b.shown = slices.Delete(b.shown, 0, 1)
	}
}

// write changes the image and gives it to the station, which it acquires first where that has to be. A new hold begins
// with an image of zeros: what was written under an earlier one, such as enable, is not taken over.
func (b *bound) write(change func(*station.Outputs)) error {
	if b.session == nil || !b.session.Held() {
		s, err := b.st.Acquire(b.owner)
		if err != nil {
			return err
		}
		b.session, b.image = s, station.Outputs{}
	}
	next := b.image
	change(&next)
	if !b.session.Write(next) {
		b.session, b.image = nil, station.Outputs{}
		return station.NotHolder
	}
	b.image = next
	return nil
}

// release gives the station up.
func (b *bound) release() {
	if b.session != nil {
		b.session.Release()
	}
	b.session, b.image = nil, station.Outputs{}
}

// written is the image as it holds: zeros where the station is somebody else's by now.
func (b *bound) written(holder string) station.Outputs {
	if holder != b.owner {
		return station.Outputs{}
	}
	return b.image
}
