package station

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// TestRandom does anything in any order, and holds the station to its promises: every accepted trigger gets exactly one
// answer by its deadline, answers come in the order of triggers and never change, and PASS is only what the source gave
// for that very job in time.
func TestRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { rapid.Check(noDeadline{t}, random) })
}

// noDeadline hides the test's deadline, which is of real time.
type noDeadline struct{ rapid.TB }

type truth struct {
	accepted time.Time
	part     string
	holder   *Session
	epoch    uint64
	given    *Outcome // by the source, the first one that counted
	answers  int
	verdict  Verdict
	sequence uint32
}

func random(t *rapid.T) {
	f := &fake{jobs: make(chan *Job, 64)}
	s, err := New(Config{Name: "s", Slots: map[uint16]Recipe{1: {Slot: 1, Name: "board"}, 2: {Slot: 2, Name: "lid"}}}, f)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sub := s.Subscribe(1 << 12)
	c, err := s.Acquire("plc 0")
	if err != nil {
		t.Fatal(err)
	}
	truths := map[uint32]*truth{}
	var jobs []*Job
	var next, plc, beat uint32
	last := uint32(0) // sequence of the answer decided last, for those that are presented
	next = 1

	drain := func() {
		for len(sub.C) > 0 {
			e := <-sub.C
			if e.Lost != 0 {
				t.Fatalf("lost %d events", e.Lost)
			}
			w := truths[e.Answer.TriggerID]
			switch e.Kind {
			case Answered:
				if w.answers++; w.answers > 1 {
					t.Fatalf("trigger %d has %d answers", e.Answer.TriggerID, w.answers)
				}
				w.verdict, w.sequence = e.Answer.Verdict, e.Answer.Sequence
				if e.Answer.Steps.Answered.Sub(w.accepted) > 50*time.Millisecond {
					t.Fatalf("trigger %d answered after %v", e.Answer.TriggerID, e.Answer.Steps.Answered.Sub(w.accepted))
				}
				good := w.given != nil && w.given.Reason == ReasonPass && (w.part == "" || w.given.PartID == w.part)
				if e.Answer.Verdict == Pass && !good {
					t.Fatalf("trigger %d: PASS, and the source gave %+v", e.Answer.TriggerID, w.given)
				}
			case Presented:
				if w.answers != 1 || w.verdict != e.Answer.Verdict || w.sequence != e.Answer.Sequence {
					t.Fatalf("presented %+v, decided %+v", e.Answer, w)
				}
				last = e.Answer.Sequence
			}
		}
	}
	check := func(*rapid.T) {
		for len(f.jobs) > 0 {
			jobs = append(jobs, <-f.jobs)
		}
		snap := s.Snapshot()
		drain()
		for id, w := range truths {
			if w.answers == 0 && time.Since(w.accepted) >= 50*time.Millisecond {
				t.Fatalf("trigger %d has no answer after %v", id, time.Since(w.accepted))
			}
		}
		n, r := snap.Counters, snap.Result
		if n.Accepted != n.Pass+n.Fail+n.Reject+uint32(snap.Running) || snap.Waiting+snap.Running > 2*Queue {
			t.Fatalf("counters %+v, %d waiting, %d running", n, snap.Waiting, snap.Running)
		}
		switch valid := snap.Bits&ResultsValid != 0; {
		case !valid && (r.Verdict != Reject || r.TriggerID != 0 || r.Sequence != 0):
			t.Fatalf("shown where nothing is presented: %+v", r)
		case valid && (r.Sequence != last || truths[r.TriggerID].verdict != r.Verdict):
			t.Fatalf("shown %+v, presented %d", r, last)
		}
		if (snap.Bits&ReadyBit != 0) != (snap.Missing == NoError) || snap.Bits&ReadyBit != 0 &&
			snap.State != Ready && snap.State != ContinuousExecution {
			t.Fatalf("ready: %+v", snap)
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"": check,
		"trigger": func(t *rapid.T) {
			id := next
			if len(truths) > 0 && rapid.IntRange(0, 4).Draw(t, "again") == 0 {
				id = rapid.Uint32Range(1, next).Draw(t, "id")
			}
			part := rapid.SampledFrom([]string{"", "A", "B"}).Draw(t, "part")
			w := truths[id]
			ready := s.Snapshot().Bits&ReadyBit != 0
			d, err := c.Trigger(id, part)
			same := w != nil && w.part == part && w.holder == c
			switch {
			case w != nil && !same && d == Repeated:
				t.Fatalf("trigger %d, part %q: the answer of part %q", id, part, w.part)
			case w != nil && (!same || w.epoch != s.epoch) && errors.Is(err, BadTriggerID):
			case err != nil && ready:
				t.Fatalf("refused while ready: %v", err)
			case d == Accepted && w != nil && next-id < History/2:
				t.Fatalf("trigger %d inspected twice", id)
			case d == Repeated && w == nil:
				t.Fatalf("trigger %d repeated", id)
			case d == Accepted:
				truths[id] = &truth{accepted: time.Now(), part: part, holder: c, epoch: s.epoch}
			}
			next = max(next, id+1)
		},
		"outcome": func(t *rapid.T) {
			if len(jobs) == 0 {
				t.Skip("no job")
			}
			i := rapid.IntRange(0, len(jobs)-1).Draw(t, "job")
			j := jobs[i]
			o := pass(j)
			o.Reason = Reason(rapid.Uint16Range(0, 12).Draw(t, "reason"))
			o.PartID = rapid.SampledFrom([]string{"A", "B", ""}).Draw(t, "part")
			truths[j.TriggerID].given = &o
			if !j.Answer(o) {
				truths[j.TriggerID].given = nil // an answer was there before; PASS would be another one's
				jobs = append(jobs[:i], jobs[i+1:]...)
			}
		},
		"wait":        func(t *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 60).Draw(t, "ms")) * time.Millisecond) },
		"acknowledge": func(t *rapid.T) { _ = c.Acknowledge(0) },
		"alive":       func(*rapid.T) { beat++; c.Heartbeat(uint16(beat)) },
		"link":        func(t *rapid.T) { s.Link(rapid.IntRange(0, 3).Draw(t, "up") > 0) },
		"enable":      func(t *rapid.T) { c.Enable(rapid.IntRange(0, 3).Draw(t, "on") > 0) },
		"command": func(t *rapid.T) {
			cmd := Command(rapid.Uint16Range(1, 12).Draw(t, "command"))
			if cmd == SingleJob {
				t.Skip("it triggers, which is tried above")
			}
			_, _ = c.Do(t.Context(), cmd, CommandArgs{Slot: rapid.Uint16Range(0, 3).Draw(t, "slot")})
		},
		"ready": func(t *rapid.T) {
			for _, cmd := range []Command{Reset, AckError, PrepareRecipe, Continuous} {
				_, _ = c.Do(t.Context(), cmd, CommandArgs{Slot: 1})
			}
			beat++
			c.Heartbeat(uint16(beat))
			s.Link(true)
			c.Enable(true)
		},
		"holder": func(t *rapid.T) {
			if rapid.IntRange(0, 5).Draw(t, "release") == 0 {
				c.Release()
			}
			if d, err := s.Acquire("plc " + string(rune('0'+plc+1))); err == nil {
				plc++
				c = d
			}
		},
	})
}
