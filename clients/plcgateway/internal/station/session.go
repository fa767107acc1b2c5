package station

// Sessions: what the one that holds a station may do.

import (
	"context"
	"fmt"
	"time"
)

// Session is the hold of one PLC, over one protocol, on a station.
type Session struct {
	station *Station
	owner   string
	last    Outputs
}

// HeldError says that somebody else holds the station.
type HeldError struct {
	Station, Holder string
	Since           time.Time
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("station %s: held by %s since %s", e.Station, e.Holder, e.Since.Format(time.RFC3339))
}

// Acquire makes owner the holder. An owner is the protocol and who speaks it, such as "modbus 10.0.0.5"; the one that
// holds the station already gets its session again. Another one is refused with a *HeldError while the holder's
// heartbeat is not stale. A new holder begins preoperational, with its heartbeat taken as fresh.
func (s *Station) Acquire(owner string) (*Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.sweep()
	switch {
	case s.closed:
		return nil, fmt.Errorf("station %s: closed", s.cfg.Name)
	case s.session != nil && s.session.owner == owner:
		return s.session, nil
	case s.session != nil && !s.isStale(now):
		return nil, &HeldError{s.cfg.Name, s.session.owner, s.heldSince}
	}
	s.dropHolder(now)
	s.session = &Session{station: s, owner: owner}
	s.heldSince = now
	s.command, s.code = NoCommand, NotAcknowledged
	s.heard(now)
	s.settle(now)
	return s.session, nil
}

// Owner is who the session was acquired for.
func (c *Session) Owner() string { return c.owner }

// hold runs f under the lock where the session still holds the station.
func (c *Session) hold(f func(s *Station, now time.Time)) bool {
	s := c.station
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.sweep()
	if s.session != c {
		return false
	}
	f(s, now)
	s.settle(now)
	return true
}

// Release gives the station up. It does nothing where the session has lost it already.
func (c *Session) Release() { c.hold(func(s *Station, now time.Time) { s.dropHolder(now) }) }

// Held says whether the session still holds the station.
func (c *Session) Held() bool { return c.hold(func(*Station, time.Time) {}) }

// Alive marks that the PLC was heard. It is for protocols that know that by other means than a counter.
func (c *Session) Alive() { c.hold((*Station).heardNow) }

// Heartbeat takes the PLC's counter: another value than the last one means that the PLC lives.
func (c *Session) Heartbeat(v uint16) { c.hold(func(s *Station, now time.Time) { c.beat(v, now) }) }

func (c *Session) beat(v uint16, now time.Time) {
	if v != c.last.Heartbeat {
		c.last.Heartbeat = v
		c.station.heard(now)
	}
}

func (s *Station) heardNow(now time.Time) { s.heard(now) }

func (s *Station) heard(now time.Time) {
	if s.isStale(now) {
		s.epoch++
	}
	s.lastBeat = now
	s.stale.Reset(s.cfg.HeartbeatTimeout)
}

// Enable lets triggers in, or keeps them out. What runs and waits is not touched.
func (c *Session) Enable(on bool) { c.hold(func(s *Station, _ time.Time) { s.enabled = on }) }

// Trigger starts an inspection of a part, or of the next one where part is empty. The error is a Code. The trigger ack
// bit stays until TriggerOff.
func (c *Session) Trigger(id uint32, part string) (Disposition, error) {
	defer c.station.inTurn()()
	var d Disposition
	var job *Job
	code := NotHolder
	c.hold(func(s *Station, now time.Time) { d, job, code = c.trigger(id, part, now) })
	c.station.inspect(job)
	if code != NoError {
		return 0, code
	}
	return d, nil
}

func (c *Session) trigger(id uint32, part string, now time.Time) (Disposition, *Job, Code) {
	d, job, code := c.station.trigger(id, part, now)
	c.station.ackBit = code == NoError
	return d, job, code
}

// inTurn keeps others from triggering until the source has heard of a trigger: it must hear of them in the order in
// which they were accepted, as that alone may bind parts to triggers. The lock of the station can't do that, as sources
// answer jobs under it.
func (s *Station) inTurn() (done func()) {
	s.turn.Lock()
	return s.turn.Unlock
}

func (s *Station) inspect(j *Job) {
	switch {
	case j == nil:
	case !j.skipped:
		s.source.Inspect(j)
	case j.PartID == "":
		if o, ok := s.source.(Ordered); ok {
			o.Skipped(j.TriggerID, j.entry != nil)
		}
	}
}

// TriggerOff takes the trigger ack bit back.
func (c *Session) TriggerOff() { c.hold(func(s *Station, _ time.Time) { s.ackBit = false }) }

// Acknowledge takes the presented answer out of the queue, if it has this sequence number; 0 takes any. The error is a
// Code.
func (c *Session) Acknowledge(sequence uint32) error {
	code := NotHolder
	c.hold(func(s *Station, now time.Time) {
		if code = NothingWaits; s.presented != nil && (sequence == 0 || s.presented.answer.Sequence == sequence) {
			code = s.acknowledge(now)
		}
	})
	if code != NoError {
		return code
	}
	return nil
}

// Read marks that a protocol handed the presented answer out, for its timeline.
func (c *Session) Read(sequence uint32) {
	c.hold(func(s *Station, now time.Time) {
		if p := s.presented; p != nil && p.answer.Sequence == sequence && p.answer.Steps.Read.IsZero() {
			p.answer.Steps.Read = now
		}
	})
}

// Answer returns the answer of a trigger that is remembered, or nil where there is none, or none yet.
func (c *Session) Answer(id uint32) (a *Answer) {
	c.hold(func(s *Station, _ time.Time) {
		if e := s.byID[id]; e != nil && e.job == nil {
			copied := e.answer
			a = &copied
		}
	})
	return a
}

// Write takes the image of a cyclic protocol. What it asks for is shown by Snapshot. It reports false where the session
// has lost the station.
func (c *Session) Write(o Outputs) bool {
	defer c.station.inTurn()()
	var job *Job
	var after func()
	held := c.hold(func(s *Station, now time.Time) {
		was := c.last
		c.beat(o.Heartbeat, now)
		c.last = o
		s.enabled = o.Enable
		if o.ResultsAck && !was.ResultsAck {
			s.acknowledge(now) // what was presented; there may be nothing
		}
		s.ackHigh = o.ResultsAck
		if !o.Trigger {
			s.ackBit = false
		}
		if o.Command != was.Command {
			if o.Command == NoCommand {
				s.command = NoCommand // so that the same command can follow
			} else {
				after = s.start(o.Command, CommandArgs{o.Slot, o.Version, o.TriggerID, o.PartID}, func(CommandResult) {})
			}
		}
		if o.Trigger && !was.Trigger {
			_, job, _ = c.trigger(o.TriggerID, o.PartID, now)
		}
	})
	if after != nil {
		after() // before the job: a reset in the same write does not forget the trigger that follows it
	}
	c.station.inspect(job)
	return held
}

// Start begins a command and calls done with its result, once; all but the recipe commands are done at once. done must
// not call the session.
func (c *Session) Start(cmd Command, args CommandArgs, done func(CommandResult)) {
	defer c.station.inTurn()()
	var after func()
	if !c.hold(func(s *Station, now time.Time) { after = s.start(cmd, args, done) }) {
		done(CommandResult{cmd, NotHolder, Recipe{}})
		return
	}
	after()
}

// Do is Start that waits. The error is the result's code, or that of ctx; the command goes on then.
func (c *Session) Do(ctx context.Context, cmd Command, args CommandArgs) (CommandResult, error) {
	ch := make(chan CommandResult, 1)
	c.Start(cmd, args, func(r CommandResult) { ch <- r })
	select {
	case r := <-ch:
		if r.Code != NoError {
			return r, r.Code
		}
		return r, nil
	case <-ctx.Done():
		return CommandResult{}, ctx.Err()
	}
}

// start carries a command out, or begins to. What it returns is to be called without the lock.
func (s *Station) start(cmd Command, args CommandArgs, done func(CommandResult)) func() {
	now := time.Now()
	var job *Job
	var gone Recipe
	var reset bool
	r := CommandResult{Command: cmd}
	recipe, known := s.cfg.Slots[args.Slot]
	state := s.state()
	busy := s.running() > 0 || s.pending != NoCommand
	operational := state != Preoperational && state != Halted && state != Faulted
	switch cmd {
	case AckError:
		s.acked, s.faulted = true, false
	case Halt:
		s.abort(now)
		s.halted = true
	case Reset:
		s.abort(now)
		s.clear(now)
		s.halted, s.overrun, s.ackBit, reset = false, false, false, true
		s.naming = unknown
		s.epoch++ // an id from before the reset is no repetition
	case Stop, Abort:
		if r.Code = NotAcknowledged; s.acked {
			r.Code = NoError
			if s.endless = false; cmd == Abort {
				s.abort(now)
			}
		}
	case Dequeue:
		r.Code = s.acknowledge(now)
	case SingleJob, Continuous, SelectRecipe, PrepareRecipe, UnprepareRecipe:
		r.Recipe = s.prepared[args.Slot]
		_, prepared := s.prepared[args.Slot]
		recipeCommand := cmd != SingleJob && cmd != Continuous
		switch {
		case state == Preoperational:
			r.Code = NotAcknowledged
		case !operational:
			r.Code = WrongState
		case recipeCommand && !known:
			r.Code = UnknownSlot
		case recipeCommand && busy, s.pending != NoCommand:
			r.Code = IsBusy
		case recipeCommand && s.endless:
			r.Code = WrongState
		case cmd == SingleJob:
			r.Recipe = Recipe{}
			if s.endless {
				r.Code = WrongState
			} else {
				_, job, r.Code = s.trigger(args.TriggerID, args.PartID, now)
			}
		case cmd == Continuous:
			if r.Recipe, r.Code = s.prepared[s.current], NotPrepared; s.current != 0 {
				r.Code, s.endless = NoError, true
			}
		case cmd == PrepareRecipe:
			if args.Version != 0 {
				recipe.Version = args.Version
			}
			recipe.Slot = args.Slot
			s.prepare(cmd, recipe, done)
			return func() {}
		case !prepared:
			r.Code = NotPrepared
		case cmd == SelectRecipe:
			s.current = args.Slot
		case cmd == UnprepareRecipe:
			gone = s.prepared[args.Slot]
			delete(s.prepared, args.Slot)
			if s.current == args.Slot {
				s.current = 0
			}
		}
	default:
		r.Code = UnknownCommand
	}
	s.finish(r)
	return func() {
		s.inspect(job)
		if reset {
			s.source.Reset()
		}
		if gone.Name != "" {
			s.source.Unprepare(gone)
		}
		done(r)
	}
}

// abort answers what runs REJECT aborted, and ends the recipe command that runs.
func (s *Station) abort(now time.Time) {
	s.endless = false
	s.rejectRunning(ReasonAborted, now)
	if s.cancel != nil {
		s.cancel()
	}
}

func (s *Station) finish(r CommandResult) {
	s.command, s.code = r.Command, r.Code
	s.tell(Event{Kind: CommandDone, Command: r})
}

// prepare asks the source for a recipe, in a goroutine.
func (s *Station) prepare(cmd Command, recipe Recipe, done func(CommandResult)) {
	ctx, cancel := context.WithTimeout(s.ctx, prepareTimeout)
	s.pending, s.cancel = cmd, cancel
	go func() {
		defer cancel()
		version, err := s.source.Prepare(ctx, recipe)
		r := CommandResult{cmd, codeOf(err), recipe}
		r.Recipe.Version = version
		s.mu.Lock()
		now := s.sweep()
		s.pending, s.cancel = NoCommand, nil
		if r.Code == NoError && ctx.Err() != nil { // aborted
			r.Code = WrongState
		}
		if r.Code == NoError {
			s.prepared[recipe.Slot] = r.Recipe
			s.current = recipe.Slot
		}
		s.finish(r)
		s.settle(now)
		s.mu.Unlock()
		done(r)
	}()
}
