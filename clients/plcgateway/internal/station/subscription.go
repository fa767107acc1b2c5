package station

// Subscriptions: for protocols that push.

import "errors"

// Subscription is a queue of events that never delays the station.
type Subscription struct {
	// C has the events. It is closed when the station or the subscription is.
	C       <-chan Event
	c       chan Event
	station *Station
	lost    uint64 // under the station's lock
}

// Subscribe follows the station from now on; buffer is how many events may wait to be read.
func (s *Station) Subscribe(buffer int) *Subscription {
	c := make(chan Event, max(buffer, 1))
	sub := &Subscription{C: c, c: c, station: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		close(c)
	} else {
		s.subs[sub] = struct{}{}
	}
	return sub
}

// Close ends the subscription.
func (sub *Subscription) Close() {
	s := sub.station
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.subs[sub]; ok {
		sub.end()
	}
}

func (sub *Subscription) end() {
	delete(sub.station.subs, sub)
	close(sub.c)
}

// tell sends an event to all who follow.
func (s *Station) tell(e Event) {
	for sub := range s.subs {
		e.Lost = sub.lost
		select {
		case sub.c <- e:
			sub.lost = 0
		default:
			sub.lost++
		}
	}
}

// codeOf is the code in an error of a source.
func codeOf(err error) Code {
	var c Code
	switch {
	case err == nil:
		return NoError
	case errors.As(err, &c):
		return c
	}
	return Fault
}
