package station

import (
	"errors"
	"slices"
	"testing"
)

// ordered is a source that relies on the order of parts. told is what it heard, in order: an id, negative where the trigger
// was refused, 100 and more where it is to be inspected, 0 for a reset.
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

// A part comes whether its trigger was inspected or not: without knowing of it, a source would give its verdict to the next
// trigger.
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
		if _, err := c.Trigger(2, "A"); !errors.Is(err, IsBusy) { // its name says which it is
			t.Fatal(err)
		}
		s.Link(false)
		trigger(t, c, 3, "")
		trigger(t, c, 4, "B")
		s.Link(true)
		if _, err := c.Do(t.Context(), Continuous, CommandArgs{}); err != nil {
			t.Fatal(err)
		}
		for id := range uint32(Queue - 3) {
			trigger(t, c, 5+id, "C")
		}
		trigger(t, c, 20, "") // an overrun
		if want := []int{101, -2, 3, 105, 106, 107, 108, 109, 20}; !slices.Equal(o.told, want) {
			t.Errorf("the source was told %v, want %v", o.told, want)
		}

		// A reset counts before the trigger that is written with it.
		o.told = nil
		c.Write(Outputs{Enable: true, Heartbeat: 1, Command: Reset, Trigger: true, TriggerID: 30})
		if want := []int{0, 130}; !slices.Equal(o.told, want) {
			t.Errorf("reset and trigger: the source was told %v, want %v", o.told, want)
		}
	})
}
