package station

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// ordered is a source that relies on the order of parts. told is what it heard, in order: an id, negative where the
// trigger was refused, 100 and more where it is to be inspected, 0 for a reset.
type ordered struct {
	fake
	told []int
}

func (o *ordered) Inspect(j *Job) {
	o.told = append(o.told, 100+int(j.TriggerID))
	o.fake.Inspect(j)
}

func (o *ordered) Reset() { o.told = append(o.told, 0) }

func (o *ordered) Skipped(id uint32, accepted bool) {
	if accepted {
		o.told = append(o.told, int(id))
	} else {
		o.told = append(o.told, -int(id))
	}
}

// A part comes whether its trigger was inspected or not: without knowing of it, a source would give its verdict to the
// next trigger.
func TestSkipped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := &ordered{fake: fake{jobs: make(chan *Job, 64)}}
		s, err := New(Config{Name: "s", Slots: map[uint16]Recipe{1: {Slot: 1, Name: "board"}}}, o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.Link(true)
		c := hold(t, s)
		trigger(t, c, 1, "")
		if _, err := c.Trigger(2, ""); !errors.Is(err, IsBusy) {
			t.Fatal(err)
		}
		s.Link(false)
		trigger(t, c, 3, "")
		s.Link(true)
		if _, err := c.Do(t.Context(), Continuous, CommandArgs{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Trigger(4, "B"); !errors.Is(err, BadPartID) { // B would be taken for the next trigger's
			t.Fatal(err)
		}
		if _, err := c.Trigger(0, ""); !errors.Is(err, BadTriggerID) {
			t.Fatal(err)
		}
		for id := range uint32(Queue - 2) {
			trigger(t, c, 5+id, "")
		}
		trigger(t, c, 20, "") // an overrun
		if want := []int{101, -2, 3, -4, 0, 105, 106, 107, 108, 109, 110, 20}; !slices.Equal(o.told, want) {
			t.Errorf("the source was told %v, want %v", o.told, want)
		}

		// A reset counts before the trigger that is written with it.
		o.told = nil
		c.Write(Outputs{Enable: true, Heartbeat: 1, Command: Reset, Trigger: true, TriggerID: 30})
		if want := []int{0, 130}; !slices.Equal(o.told, want) {
			t.Errorf("reset and trigger: the source was told %v, want %v", o.told, want)
		}

		// Names are what is lost behind a trigger with one; a reset, or another holder, decides anew.
		do := func(cmd Command) {
			t.Helper()
			if _, err := c.Do(t.Context(), cmd, CommandArgs{}); err != nil {
				t.Fatal(err)
			}
		}
		do(Reset)
		do(Continuous)
		o.told = nil
		trigger(t, c, 40, "A")
		s.Link(false)
		trigger(t, c, 41, "B") // its name says which it is
		s.Link(true)
		if _, err := c.Trigger(42, ""); !errors.Is(err, BadPartID) {
			t.Fatal(err)
		}
		c.Release()
		c = hold(t, s)
		trigger(t, c, 43, "")
		if want := []int{140, 143}; !slices.Equal(o.told, want) {
			t.Errorf("with names the source was told %v, want %v", o.told, want)
		}
	})
}

// instant is a source that gives its verdict at once, and knows in which order it was asked.
type instant struct {
	fake
	last atomic.Uint32
	t    *testing.T
}

func (i *instant) Inspect(j *Job) {
	if last := i.last.Swap(j.Sequence); j.Sequence != last+1 {
		i.t.Errorf("trigger number %d was inspected behind number %d", j.Sequence, last)
	}
	j.Answer(pass(j))
}

func (i *instant) Skipped(uint32, bool) {}

// Triggers that overlap are inspected in the order in which they were accepted, whichever goroutine is faster.
func TestInTurn(t *testing.T) {
	o := &instant{t: t}
	s, err := New(Config{Name: "s", Deadline: time.Minute, HeartbeatTimeout: time.Hour,
		Slots: map[uint16]Recipe{1: {Slot: 1, Name: "board"}}}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Link(true)
	c := hold(t, s)
	if _, err := c.Do(t.Context(), Continuous, CommandArgs{}); err != nil {
		t.Fatal(err)
	}
	var ids atomic.Uint32
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 2000 {
				if _, err := c.Trigger(ids.Add(1), ""); err != nil {
					t.Error(err)
					return
				}
				for s.Snapshot().Waiting > Queue-4 { // four may come before the next look
					_ = c.Acknowledge(0)
				}
			}
		})
	}
	callers.Wait()
}
