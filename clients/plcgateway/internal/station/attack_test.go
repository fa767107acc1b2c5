package station

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// An answer of before is none about another part: a PLC that lost its counter begins at 1 again.
func TestIDsOfBefore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, f := bench(t, Config{})
		c := hold(t, s)
		trigger(t, c, 1, "A")
		j := <-f.jobs
		j.Answer(pass(j))
		if err := c.Acknowledge(1); err != nil {
			t.Fatal(err)
		}
		c.TriggerOff()

		// The same id for another part, and without one.
		for _, part := range []string{"B", ""} {
			if d, err := c.Trigger(1, part); !errors.Is(err, BadTriggerID) {
				t.Errorf("part %q: %v, %v", part, d, err)
			}
			if r := s.Snapshot().Result; r.Verdict != Reject || r.TriggerID != 0 {
				t.Errorf("part %q: %+v", part, r)
			}
		}
		if d, err := c.Trigger(1, "A"); err != nil || d != Repeated {
			t.Errorf("the same part: %v, %v", d, err)
		}

		// The same id of another holder, for what it takes for the same part, whether the answer was acknowledged or not.
		trigger(t, c, 2, "")
		j = <-f.jobs
		j.Answer(pass(j))
		c.Release()
		c = hold(t, s)
		for id, part := range map[uint32]string{1: "A", 2: ""} {
			if d, err := c.Trigger(id, part); !errors.Is(err, BadTriggerID) {
				t.Errorf("another holder, trigger %d: %v, %v", id, d, err)
			}
			if r := s.Snapshot().Result; r.Verdict != Reject || r.TriggerID != 0 || len(f.jobs) != 0 {
				t.Errorf("another holder, trigger %d: %+v", id, r)
			}
		}
		trigger(t, c, 3, "A")
	})
}

// A PLC that was off and counts from 1 again is silent in between.
func TestIDsBehindSilence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, f := bench(t, Config{})
		c := hold(t, s)
		for id := range uint32(2) {
			trigger(t, c, id+1, "")
			j := <-f.jobs
			j.Answer(pass(j))
			if id == 0 {
				if err := c.Acknowledge(1); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(time.Second)
		c.Heartbeat(7)
		if d, err := c.Trigger(1, ""); !errors.Is(err, BadTriggerID) {
			t.Errorf("an answer that was acknowledged: %v, %v", d, err)
		}
		// One that the PLC has not acknowledged is presented again, and can be asked for.
		if d, err := c.Trigger(2, ""); err != nil || d != Repeated {
			t.Errorf("an answer that waits: %v, %v", d, err)
		}
		if r := s.Snapshot().Result; r.TriggerID != 2 || r.Verdict != Pass {
			t.Errorf("%+v", r)
		}
	})
}

// A PLC that resets has begun anew, however quickly: what it had acknowledged, or had dropped, is not repeated.
func TestIDsBehindReset(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, f := bench(t, Config{})
		c := hold(t, s)
		for id := range uint32(2) {
			trigger(t, c, id+1, "")
			j := <-f.jobs
			j.Answer(pass(j))
			if id == 0 {
				if err := c.Acknowledge(1); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := c.Do(t.Context(), Reset, CommandArgs{}); err != nil {
			t.Fatal(err)
		}
		for id := range uint32(2) {
			if d, err := c.Trigger(id+1, ""); !errors.Is(err, BadTriggerID) {
				t.Errorf("trigger %d: %v, %v", id+1, d, err)
			}
		}
		if r := s.Snapshot().Result; r.Verdict != Reject || r.TriggerID != 0 {
			t.Errorf("%+v", r)
		}
		trigger(t, c, 3, "")
	})
}

// Numbers that run over: 0 stands for no answer and for a gateway that does not run, so that neither is ever reached.
func TestWrapAround(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, f := bench(t, Config{})
		c := hold(t, s)
		s.mu.Lock()
		s.sequence, s.beat, s.counters.Accepted = math.MaxUint32-1, math.MaxUint16, math.MaxUint32
		s.mu.Unlock()
		time.Sleep(beat)
		synctest.Wait() // for the one who moves it at this very moment
		if n := s.Snapshot().Heartbeat; n != 1 {
			t.Errorf("heartbeat %d behind the highest", n)
		}
		for i, w := range []struct{ id, sequence uint32 }{{math.MaxUint32, math.MaxUint32}, {1, 1}} {
			trigger(t, c, w.id, "")
			j := <-f.jobs
			j.Answer(pass(j))
			r := s.Snapshot().Result
			if r.TriggerID != w.id || r.Sequence != w.sequence || r.Verdict != Pass {
				t.Errorf("answer %d: %+v", i, r)
			}
			if d, err := c.Trigger(w.id, ""); err != nil || d != Repeated {
				t.Errorf("again: %v, %v", d, err)
			}
			if err := c.Acknowledge(w.sequence); err != nil {
				t.Error(err)
			}
		}
		if n := s.Snapshot().Counters.Accepted; n != 1 {
			t.Errorf("%d accepted", n)
		}
		// The PLC's heartbeat runs over, too.
		for _, v := range []uint16{math.MaxUint16, 0, 1} {
			time.Sleep(400 * time.Millisecond)
			c.Heartbeat(v)
		}
		if m := s.Snapshot().Missing; m != NoError {
			t.Error(m)
		}
	})
}
