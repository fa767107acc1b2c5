package station

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// fake is a source whose jobs the test answers.
type fake struct {
	jobs       chan *Job
	prepare    func(context.Context, Recipe) (uint64, error)
	unprepared []Recipe
}

func (f *fake) Inspect(j *Job) { f.jobs <- j }
func (f *fake) Prepare(ctx context.Context, r Recipe) (uint64, error) {
	if f.prepare != nil {
		return f.prepare(ctx, r)
	}
	return max(r.Version, 7), nil
}
func (f *fake) Unprepare(r Recipe) { f.unprepared = append(f.unprepared, r) }

func (f *fake) Reset() {}

func pass(j *Job) Outcome {
	return Outcome{Reason: ReasonPass, PartID: j.PartID, Recipe: j.Recipe.Name, RecipeVersion: j.Recipe.Version}
}

// bench is a station whose link is up.
func bench(t *testing.T, cfg Config) (*Station, *fake) {
	f := &fake{jobs: make(chan *Job, 64)}
	cfg.Name = "s1"
	if cfg.Slots == nil {
		cfg.Slots = map[uint16]Recipe{1: {Slot: 1, Name: "board"}, 2: {Slot: 2, Name: "lid", Version: 3}}
	}
	s, err := New(cfg, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.Link(true)
	return s, f
}

// hold acquires the station and makes it ready.
func hold(t *testing.T, s *Station) *Session {
	t.Helper()
	c, err := s.Acquire("plc")
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []Command{AckError, PrepareRecipe} {
		if _, err := c.Do(t.Context(), cmd, CommandArgs{Slot: 1}); err != nil {
			t.Fatalf("%v: %v", cmd, err)
		}
	}
	c.Enable(true)
	if snap := s.Snapshot(); snap.Missing != NoError || snap.State != Ready || snap.Bits&ReadyBit == 0 {
		t.Fatalf("not ready: %+v", snap)
	}
	return c
}

func trigger(t *testing.T, c *Session, id uint32, part string) {
	t.Helper()
	if d, err := c.Trigger(id, part); err != nil || d != Accepted {
		t.Fatalf("trigger %d: %v, %v", id, d, err)
	}
}

func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

func TestAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, f := bench(t, Config{Values: []string{"U7.mean", "gaps.max"}})
		c := hold(t, s)
		sub := s.Subscribe(16)
		trigger(t, c, 41, "B-1")
		snap := s.Snapshot()
		if snap.State != SingleExecution || snap.Bits != Online|TriggerAck|Busy || snap.Running != 1 ||
			snap.AcceptedID != 41 {
			t.Fatalf("%+v", snap)
		}
		if snap.Result.Verdict != Reject || snap.Result.TriggerID != 0 || snap.Result.Sequence != 0 {
			t.Fatalf("shown while nothing is presented: %+v", snap.Result)
		}
		j := <-f.jobs
		time.Sleep(3 * time.Millisecond)
		o := pass(j)
		o.Values = []float32{1.5}
		if !j.Answer(o) || j.Answer(Outcome{Reason: ReasonFail}) {
			t.Error("the first answer counts, and no other")
		}
		if j.Context().Err() == nil {
			t.Error("the job's context goes on")
		}
		snap = s.Snapshot()
		r := snap.Result
		if r.Verdict != Pass || r.TriggerID != 41 || r.Sequence != 1 || r.Latency != 3*time.Millisecond ||
			r.PartID != "B-1" ||
			r.Recipe != (Recipe{1, "board", 7}) || r.Values[0] != 1.5 || !math.IsNaN(float64(r.Values[1])) {
			t.Errorf("%+v", r)
		}
		if r.Complement() != ^uint16(0xA5C3) || snap.Bits&ResultsValid == 0 || snap.State != Ready {
			t.Errorf("%+v", snap)
		}
		c.TriggerOff()
		c.Read(1)
		if err := c.Acknowledge(2); !errors.Is(err, NothingWaits) {
			t.Errorf("acknowledged another sequence: %v", err)
		}
		if err := c.Acknowledge(1); err != nil {
			t.Error(err)
		}
		if snap = s.Snapshot(); snap.Bits != Online|ReadyBit || snap.Result.TriggerID != 0 {
			t.Errorf("%+v", snap)
		}
		if n := snap.Counters; n != (Counters{Accepted: 1, Pass: 1}) {
			t.Errorf("%+v", n)
		}
		var kinds []EventKind
		for len(sub.C) > 0 {
			e := <-sub.C
			if kinds = append(kinds, e.Kind); e.Kind == Acknowledged && (e.Answer.Steps.Read.IsZero() ||
				e.Answer.Steps.Acked.IsZero() || e.Answer.Steps.Presented.IsZero()) {
				t.Errorf("steps: %+v", e.Answer.Steps)
			}
		}
		if want := []EventKind{Changed, Answered, Presented, Changed, Changed, Acknowledged, Changed}; !slices.Equal(kinds,
			want) {
			t.Errorf("events %v, want %v", kinds, want)
		}
		// The id again: the same answer, and no inspection.
		if d, err := c.Trigger(41, "B-1"); d != Repeated || err != nil {
			t.Errorf("%v, %v", d, err)
		}
		if again := s.Snapshot().Result; again.Sequence != 1 || again.Verdict != Pass || len(f.jobs) != 0 {
			t.Errorf("repeated: %+v", again)
		}
	})
}

func TestReasons(t *testing.T) {
	for name, c := range map[string]struct {
		outcome func(s *Station, j *Job) *Outcome
		want    Reason
	}{
		"none comes": {func(*Station, *Job) *Outcome { return nil }, ReasonLate},
		"too late": {func(_ *Station, j *Job) *Outcome { time.Sleep(50 * time.Millisecond); o := pass(j); return &o },
			ReasonLate},
		"incomplete":     {func(*Station, *Job) *Outcome { return &Outcome{Reason: ReasonIncomplete} }, ReasonIncomplete},
		"nothing said":   {func(*Station, *Job) *Outcome { return &Outcome{} }, ReasonNoVerdict},
		"unknown reason": {func(*Station, *Job) *Outcome { return &Outcome{Reason: 99} }, ReasonNoVerdict},
		"other part":     {func(_ *Station, j *Job) *Outcome { o := pass(j); o.PartID = "B-2"; return &o }, ReasonOtherPart},
		"other recipe":   {func(_ *Station, j *Job) *Outcome { o := pass(j); o.Recipe = "lid"; return &o }, ReasonNoRecipe},
		"other version":  {func(_ *Station, j *Job) *Outcome { o := pass(j); o.RecipeVersion++; return &o }, ReasonNoRecipe},
		"fail":           {func(_ *Station, j *Job) *Outcome { o := pass(j); o.Reason = ReasonFail; return &o }, ReasonFail},
		"server lost":    {func(s *Station, _ *Job) *Outcome { s.Link(false); return nil }, ReasonServerLost},
		"recipe gone":    {func(s *Station, _ *Job) *Outcome { s.Forget(1); return nil }, ReasonNoRecipe},
		"fault":          {func(s *Station, _ *Job) *Outcome { s.Fault(); return nil }, ReasonNoVerdict},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, f := bench(t, Config{})
				p := hold(t, s)
				trigger(t, p, 9, "B-1")
				j := <-f.jobs
				if o := c.outcome(s, j); o != nil {
					j.Answer(*o)
				}
				time.Sleep(50 * time.Millisecond)
				r := s.Snapshot().Result
				want := Reject
				if c.want == ReasonFail {
					want = Fail
				}
				if r.Reason != c.want || r.Verdict != want || r.TriggerID != 9 {
					t.Errorf("%v, %v", r.Verdict, r.Reason)
				}
			})
		})
	}
}

// What can't be inspected is answered at once.
func TestAnsweredWithoutInspection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, f := bench(t, Config{})
		c := hold(t, s)
		s.Link(false)
		trigger(t, c, 1, "")
		if r := s.Snapshot().Result; r.Reason != ReasonServerLost {
			t.Errorf("%v", r.Reason)
		}
		s.Link(true)
		if err := c.Acknowledge(0); err != nil {
			t.Error(err)
		}
		if _, err := c.Do(t.Context(), UnprepareRecipe, CommandArgs{Slot: 1}); err != nil {
			t.Error(err)
		}
		trigger(t, c, 2, "")
		if r := s.Snapshot().Result; r.Reason != ReasonNoRecipe || len(f.jobs) != 0 {
			t.Errorf("%v", r.Reason)
		}
		if !slices.Equal(f.unprepared, []Recipe{{1, "board", 7}}) {
			t.Errorf("unprepared %v", f.unprepared)
		}
	})
}

func TestQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, f := bench(t, Config{})
		c := hold(t, s)
		if _, err := c.Do(t.Context(), Continuous, CommandArgs{}); err != nil {
			t.Fatal(err)
		}
		for id := range uint32(2 * Queue) {
			trigger(t, c, id+1, "")
		}
		if _, err := c.Trigger(100, ""); !errors.Is(err, QueueFull) {
			t.Errorf("trigger beyond the queue: %v", err)
		}
		if len(f.jobs) != Queue {
			t.Fatalf("%d inspections", len(f.jobs))
		}
		snap := s.Snapshot()
		if snap.Bits&(Overrun|ResultsValid|ReadyBit) != Overrun {
			t.Errorf("bits %b: the answers of the overrun wait for those before", snap.Bits)
		}
		if n := snap.Counters; n.Overruns != Queue+1 || n.Missed != 1 || n.Accepted != 2*Queue || n.Reject != Queue {
			t.Errorf("%+v", n)
		}
		// The last is answered first, and waits for its turn.
		var jobs []*Job
		for len(f.jobs) > 0 {
			jobs = append(jobs, <-f.jobs)
		}
		for _, j := range slices.Backward(jobs) {
			j.Answer(pass(j))
		}
		for id := range uint32(2 * Queue) {
			want := Pass
			if id >= Queue {
				want = Reject
			}
			if r := s.Snapshot().Result; r.TriggerID != id+1 || r.Sequence != id+1 || r.Verdict != want {
				t.Errorf("presented %d: %v", r.TriggerID, r.Verdict)
			}
			if _, err := c.Do(t.Context(), Dequeue, CommandArgs{}); err != nil {
				t.Error(err)
			}
		}
		if _, err := c.Do(t.Context(), Dequeue, CommandArgs{}); !errors.Is(err, NothingWaits) {
			t.Errorf("dequeue: %v", err)
		}
	})
}

func TestHeartbeat(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, f := bench(t, Config{})
		c := hold(t, s)
		before := s.Snapshot().Heartbeat
		trigger(t, c, 5, "")
		j := <-f.jobs
		j.Answer(pass(j))
		c.Heartbeat(1)
		time.Sleep(499 * time.Millisecond)
		if s.Snapshot().Bits&ResultsValid == 0 {
			t.Error("stale too early")
		}
		c.Heartbeat(1) // the same value
		time.Sleep(time.Millisecond)
		snap := s.Snapshot()
		if snap.Result.Verdict != Reject || snap.Result.TriggerID != 0 || snap.Result.Reason != ReasonPLCLost ||
			snap.Bits&(ReadyBit|ResultsValid|TriggerAck) != TriggerAck || snap.Missing != HeartbeatStale {
			t.Errorf("%+v", snap)
		}
		if _, err := c.Trigger(6, ""); !errors.Is(err, HeartbeatStale) {
			t.Errorf("trigger: %v", err)
		}
		if snap.Heartbeat == before {
			t.Error("the gateway's heartbeat does not move")
		}
		c.Heartbeat(2)
		if r := s.Snapshot().Result; r.Verdict != Pass || r.TriggerID != 5 {
			t.Errorf("with a fresh heartbeat: %+v", r)
		}
	})
}

func TestHolders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, f := bench(t, Config{})
		c := hold(t, s)
		trigger(t, c, 5, "")
		j := <-f.jobs
		var held *HeldError
		if _, err := s.Acquire("other"); !errors.As(err, &held) || held.Holder != "plc" || s.Snapshot().Holder != "plc" {
			t.Fatalf("acquired: %v", err)
		}
		if again, err := s.Acquire("plc"); again != c || err != nil {
			t.Errorf("the holder again: %v", err)
		}
		time.Sleep(500 * time.Millisecond)
		d, err := s.Acquire("other")
		if err != nil {
			t.Fatal(err)
		}
		if c.Held() || c.Write(Outputs{Enable: true}) || j.Answer(pass(j)) {
			t.Error("the old holder goes on")
		}
		snap := s.Snapshot()
		if snap.State != Preoperational || snap.Error != NotAcknowledged || snap.Counters.Dropped != 1 ||
			snap.Bits&ResultsValid != 0 {
			t.Errorf("%+v", snap)
		}
		d.Enable(true)
		if _, err := d.Trigger(6, ""); !errors.Is(err, NotAcknowledged) {
			t.Errorf("trigger before the acknowledgement: %v", err)
		}
		if _, err := d.Do(t.Context(), AckError, CommandArgs{}); err != nil {
			t.Error(err)
		}
		if s.Snapshot().State != Ready {
			t.Errorf("%v", s.Snapshot().State)
		}
		d.Release()
		if s.Snapshot().Holder != "" || s.Snapshot().State != Preoperational {
			t.Error("held by nobody")
		}
	})
}

// A cyclic protocol: levels and their edges.
func TestWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, f := bench(t, Config{Initial: 1})
		started := make(chan CommandResult, 1)
		s.Start(func(r CommandResult) { started <- r })
		if r := <-started; r.Code != NoError || r.Recipe.Version != 7 {
			t.Fatalf("%+v", r)
		}
		c, err := s.Acquire("plc")
		if err != nil {
			t.Fatal(err)
		}
		o := Outputs{Enable: true, Command: AckError}
		write := func(f func(o *Outputs)) Snapshot {
			o.Heartbeat++
			f(&o)
			if !c.Write(o) {
				t.Fatal("lost the station")
			}
			return s.Snapshot()
		}
		if snap := write(func(*Outputs) {}); snap.Command != AckError || snap.Error != NoError || snap.Bits&ReadyBit == 0 {
			t.Fatalf("%+v", snap)
		}
		if snap := write(func(o *Outputs) { o.Command = NoCommand }); snap.Command != NoCommand {
			t.Errorf("%+v", snap)
		}
		snap := write(func(o *Outputs) { o.Trigger, o.TriggerID = true, 77 })
		if snap.Bits&TriggerAck == 0 {
			t.Errorf("%+v", snap)
		}
		write(func(*Outputs) {}) // the level is no second trigger
		j := <-f.jobs
		j.Answer(pass(j))
		snap = write(func(o *Outputs) { o.Trigger = false })
		if snap.Bits&(TriggerAck|ResultsValid) != ResultsValid || snap.Result.TriggerID != 77 {
			t.Errorf("%+v", snap)
		}
		// The next answer comes while the acknowledgement is up: it waits until that is down.
		write(func(o *Outputs) { o.ResultsAck, o.Trigger, o.TriggerID = true, true, 78 })
		j = <-f.jobs
		j.Answer(pass(j))
		if snap = s.Snapshot(); snap.Bits&ResultsValid != 0 || snap.Waiting != 1 || len(f.jobs) != 0 {
			t.Errorf("%+v", snap)
		}
		if snap = write(func(o *Outputs) { o.ResultsAck = false }); snap.Result.TriggerID != 78 {
			t.Errorf("%+v", snap)
		}
		if snap = write(func(o *Outputs) { o.Command, o.Slot = SelectRecipe, 2 }); snap.Command != SelectRecipe ||
			snap.Error != NotPrepared {
			t.Errorf("%+v", snap)
		}
	})
}

func TestCommands(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, f := bench(t, Config{})
		c := hold(t, s)
		do := func(cmd Command, slot uint16, want Code, state State) CommandResult {
			t.Helper()
			r, err := c.Do(t.Context(), cmd, CommandArgs{Slot: slot, TriggerID: uint32(cmd) + 1000})
			if r.Code != want || (want == NoError) != (err == nil) || s.Snapshot().State != state {
				t.Errorf("%v %d: %v in state %v, want %v in %v", cmd, slot, r.Code, s.Snapshot().State, want, state)
			}
			return r
		}
		if r := do(PrepareRecipe, 2, NoError, Ready); r.Recipe != (Recipe{2, "lid", 7}) {
			t.Errorf("%+v", r)
		}
		do(SelectRecipe, 1, NoError, Ready)
		do(SelectRecipe, 3, UnknownSlot, Ready)
		do(SingleJob, 0, NoError, SingleExecution)
		do(PrepareRecipe, 1, IsBusy, SingleExecution)
		do(SingleJob, 0, NoError, SingleExecution) // the same id: repeated
		do(Abort, 0, NoError, Ready)
		if r := s.Snapshot().Result; r.Reason != ReasonAborted || r.Recipe.Name != "board" {
			t.Errorf("%+v", r)
		}
		do(Continuous, 0, NoError, ContinuousExecution)
		do(PrepareRecipe, 1, WrongState, ContinuousExecution)
		trigger(t, c, 1, "")
		do(Stop, 0, NoError, SingleExecution) // what runs is finished
		<-f.jobs
		j := <-f.jobs
		j.Answer(pass(j))
		do(Halt, 0, NoError, Halted)
		do(Continuous, 0, WrongState, Halted)
		do(AckError, 0, NoError, Halted)
		if _, err := c.Trigger(2, ""); !errors.Is(err, WrongState) {
			t.Errorf("halted: %v", err)
		}
		do(Reset, 0, NoError, Ready)
		if snap := s.Snapshot(); snap.Waiting != 0 || snap.Counters.Dropped != 2 {
			t.Errorf("%+v", snap)
		}
		s.Fault()
		do(Stop, 0, NoError, Faulted)
		do(AckError, 0, NoError, Ready)
		do(UnprepareRecipe, 1, NoError, Initialized)
		do(Continuous, 0, NotPrepared, Initialized)
		do(99, 0, UnknownCommand, Initialized)
		f.prepare = func(context.Context, Recipe) (uint64, error) { return 0, UnknownRecipe }
		do(PrepareRecipe, 1, UnknownRecipe, Initialized)
		// A recipe that takes long keeps others out, and is given up by abort.
		f.prepare = func(ctx context.Context, _ Recipe) (uint64, error) { <-ctx.Done(); return 1, nil }
		done := make(chan CommandResult, 1)
		c.Start(PrepareRecipe, CommandArgs{Slot: 1}, func(r CommandResult) { done <- r })
		do(PrepareRecipe, 2, IsBusy, Initialized)
		do(Abort, 0, NoError, Initialized)
		if r := <-done; r.Code != WrongState || s.Snapshot().State != Initialized {
			t.Errorf("%+v", r)
		}
	})
}

func TestSlowSubscriber(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, _ := bench(t, Config{})
		sub := s.Subscribe(1)
		for range 5 {
			s.Link(false)
			s.Link(true)
		}
		if e := <-sub.C; e.Kind != Changed || e.Lost != 0 {
			t.Errorf("%+v", e)
		}
		s.Link(false)
		if e := <-sub.C; e.Lost != 9 {
			t.Errorf("%+v", e)
		}
		sub.Close()
		sub.Close()
		if _, ok := <-sub.C; ok {
			t.Error("open after Close")
		}
	})
}

func TestVerdictWords(t *testing.T) {
	var words []uint16
	for _, v := range []Verdict{Pass, Fail, Reject} {
		words = append(words, uint16(v), ^uint16(v))
	}
	words = append(words, 0, 0xFFFF)
	for i, a := range words {
		for _, b := range words[:i] {
			if a == b || bitsOf(a^b) < 8 {
				t.Errorf("%04x and %04x differ by %d bits", a, b, bitsOf(a^b))
			}
		}
	}
}

func bitsOf(w uint16) (n int) {
	for ; w != 0; w &= w - 1 {
		n++
	}
	return n
}
