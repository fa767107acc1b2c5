package station

// The station: triggers in, answers out.

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// prepareTimeout is how long a recipe may take to be prepared.
const prepareTimeout = 5 * time.Second

// Station is one handshake.
type Station struct {
	cfg    Config
	source Source
	ctx    context.Context
	stop   context.CancelFunc

	turn      sync.Mutex // taken before mu
	mu        sync.Mutex
	closed    bool
	session   *Session
	heldSince time.Time
	acked     bool // the holder has acknowledged that it, or the gateway, is new
	enabled   bool
	halted    bool
	faulted   bool
	endless   bool // continuous execution
	link      bool
	overrun   bool

	beat     uint16
	lastBeat time.Time // of the PLC
	epoch    uint64    // how often it was stale and came back, or has reset
	stale    *time.Timer

	prepared map[uint16]Recipe
	current  uint16
	pending  Command            // that is being carried out
	cancel   context.CancelFunc // ends it

	queue      []*entry // unanswered or unacknowledged, in the order of triggers
	byID       map[uint32]*entry
	remembered []*entry // acknowledged, oldest first
	presented  *entry
	ackHigh    bool   // the PLC has not taken its acknowledgement back
	ackBit     bool   // trigger ack
	naming     naming // whether triggers have named their parts since the last reset
	acceptedID uint32
	sequence   uint32
	counters   Counters
	command    Command
	code       Code

	subs  map[*Subscription]struct{}
	shown shown // what Changed was last sent for
}

// entry is a trigger and its answer.
type entry struct {
	answer     Answer
	part       string   // that the trigger named
	holder     *Session // whose trigger it was
	epoch      uint64   // of the station when the answer left the queue
	job        *Job     // nil once it is answered
	queued     bool
	remembered bool
}

// shown is what changes without an event of its own.
type shown struct {
	state   State
	bits    Bits
	missing Code
	recipe  Recipe
	holder  *Session
}

// Job is a trigger that a source inspects.
type Job struct {
	TriggerID uint32
	Sequence  uint32
	PartID    string // empty: the next part
	Recipe    Recipe
	Triggered time.Time
	Deadline  time.Time

	station *Station
	entry   *entry
	ctx     context.Context
	cancel  context.CancelFunc
	timer   *time.Timer
	skipped bool // the trigger was refused, or answered without an inspection
}

// Context is done when the job has its answer, by whomever.
func (j *Job) Context() context.Context { return j.ctx }

// Answer gives the job's outcome. It reports false where the job was answered before, such as late or aborted; then the
// outcome is ignored.
func (j *Job) Answer(o Outcome) bool {
	s := j.station
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.sweep()
	if j.entry.job != j {
		return false
	}
	s.decide(j.entry, o, now)
	s.settle(now)
	return true
}

// New makes a station. Close ends it.
func New(cfg Config, source Source) (*Station, error) {
	if cfg.Deadline == 0 {
		cfg.Deadline = 50 * time.Millisecond
	}
	if cfg.HeartbeatTimeout == 0 {
		cfg.HeartbeatTimeout = 500 * time.Millisecond
	}
	switch {
	case cfg.Name == "":
		return nil, fmt.Errorf("station: it has no name")
	case cfg.Deadline < 0 || cfg.HeartbeatTimeout < 0:
		return nil, fmt.Errorf("station %s: deadline %v, heartbeat timeout %v: must not be negative", cfg.Name, cfg.Deadline,
			cfg.HeartbeatTimeout)
	case len(cfg.Values) > MaxValues:
		return nil, fmt.Errorf("station %s: %d values: at most %d", cfg.Name, len(cfg.Values), MaxValues)
	}
	for n, r := range cfg.Slots {
		if n == 0 || r.Name == "" {
			return nil, fmt.Errorf("station %s: recipe slot %d, %q: a slot has a number from 1 and a recipe", cfg.Name, n, r.Name)
		}
	}
	if _, ok := cfg.Slots[cfg.Initial]; !ok && cfg.Initial != 0 {
		return nil, fmt.Errorf("station %s: initial recipe slot %d is not among its slots", cfg.Name, cfg.Initial)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Station{
		cfg: cfg, source: source, ctx: ctx, stop: stop, beat: 1,
		prepared: map[uint16]Recipe{}, byID: map[uint32]*entry{}, subs: map[*Subscription]struct{}{},
	}
	s.stale = time.AfterFunc(cfg.HeartbeatTimeout, s.changed)
	s.shown = s.look(time.Now())
	go s.live()
	return s, nil
}

// Config is what the station was made with, with its defaults.
func (s *Station) Config() Config { return s.cfg }

// live moves the heartbeat. It does so under the lock, so that a station that is stuck has none.
func (s *Station) live() {
	t := time.NewTicker(beat)
	defer t.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-t.C:
		}
		s.mu.Lock()
		if s.beat++; s.beat == 0 {
			s.beat = 1
		}
		s.settle(s.sweep())
		s.mu.Unlock()
	}
}

// Close answers what runs REJECT aborted, ends the subscriptions, and stops the heartbeat.
func (s *Station) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.dropHolder(s.sweep())
	s.closed = true
	s.stop()
	s.stale.Stop()
	for sub := range s.subs {
		sub.end()
	}
}

// changed looks again at what time alone changes.
func (s *Station) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(s.sweep())
}

// Link says whether the source hears its server. Where it doesn't, all that runs is answered REJECT server lost.
func (s *Station) Link(up bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.sweep()
	s.link = up
	if !up {
		s.rejectRunning(ReasonServerLost, now)
	}
	s.settle(now)
}

// Fault says that the source can't go on until somebody has looked at it and the PLC has sent AckError.
func (s *Station) Fault() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.sweep()
	s.faulted, s.endless, s.code = true, false, Fault
	s.rejectRunning(ReasonNoVerdict, now)
	s.settle(now)
}

// Forget says that the recipe of a slot is not there any more: it has to be prepared anew.
func (s *Station) Forget(slot uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.sweep()
	delete(s.prepared, slot)
	if s.current == slot {
		s.current, s.endless = 0, false
		s.rejectRunning(ReasonNoRecipe, now)
	}
	s.settle(now)
}

// Prepared are the recipes that are prepared, by slot.
func (s *Station) Prepared() map[uint16]Recipe {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.prepared)
}

// Start prepares the initial recipe, if there is one. It is for when the source can do it; the PLC can do it as well.
func (s *Station) Start(done func(CommandResult)) {
	if s.cfg.Initial == 0 {
		return
	}
	s.mu.Lock()
	if s.pending != NoCommand {
		s.mu.Unlock()
		done(CommandResult{PrepareRecipe, IsBusy, Recipe{}})
		return
	}
	s.prepare(PrepareRecipe, s.cfg.Slots[s.cfg.Initial], done)
	s.mu.Unlock()
}

// Snapshot is how the station is now.
func (s *Station) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.sweep()
	s.settle(now)
	l := s.look(now)
	snap := Snapshot{
		Station: s.cfg.Name, State: l.state, Bits: l.bits, Heartbeat: s.beat, Command: s.command, Error: s.code,
		AcceptedID: s.acceptedID, Recipe: l.recipe, Counters: s.counters, HeldSince: s.heldSince, Missing: l.missing,
		Running: s.running(),
	}
	snap.Waiting = len(s.queue) - snap.Running
	if s.session != nil {
		snap.Holder = s.session.owner
	}
	if s.presented != nil && l.bits&ResultsValid != 0 {
		snap.Result = s.presented.answer
	} else {
		snap.Result = nothing
		if s.isStale(now) {
			snap.Result.Reason = ReasonPLCLost
		}
	}
	return snap
}

// nothing is what is presented where no answer is.
var nothing = func() Answer {
	a := Answer{Verdict: Reject}
	clearValues(&a)
	return a
}()

func clearValues(a *Answer) {
	for i := range a.Values {
		a.Values[i] = float32(math.NaN())
	}
}

func (s *Station) isStale(now time.Time) bool {
	return s.session != nil && now.Sub(s.lastBeat) >= s.cfg.HeartbeatTimeout
}

func (s *Station) running() (n int) {
	for _, e := range s.queue {
		if e.job != nil {
			n++
		}
	}
	return n
}

// state derives the state from what the station has been told.
func (s *Station) state() State {
	switch {
	case s.session == nil || !s.acked:
		return Preoperational
	case s.faulted:
		return Faulted
	case s.halted:
		return Halted
	case s.current == 0:
		return Initialized
	case s.endless:
		return ContinuousExecution
	case s.running() > 0:
		return SingleExecution
	}
	return Ready
}

// look says how the station is, but for answers and counters.
func (s *Station) look(now time.Time) shown {
	l := shown{state: s.state(), bits: Online, missing: s.missing(now), recipe: s.prepared[s.current], holder: s.session}
	set := func(b Bits, on bool) {
		if on {
			l.bits |= b
		}
	}
	set(ReadyBit, l.missing == NoError)
	set(TriggerAck, s.ackBit) // even to a PLC that was silent: without it, that would take its trigger for refused
	set(Busy, s.running() > 0 || s.pending != NoCommand)
	if s.presented != nil && !s.isStale(now) {
		l.bits |= ResultsValid
		set(Late, s.presented.answer.Reason == ReasonLate)
		set(Incomplete, s.presented.answer.Reason == ReasonIncomplete)
	}
	set(Overrun, s.overrun)
	set(ServerLost, !s.link)
	if s.closed {
		l.bits = 0
	}
	return l
}

// missing says why a trigger would be refused, or answered without an inspection.
func (s *Station) missing(now time.Time) Code {
	if c := s.refusal(now); c != NoError {
		return c
	}
	switch {
	case s.current == 0:
		return NotPrepared
	case !s.link:
		return NoServer
	case len(s.queue) >= Queue:
		return QueueFull
	}
	return NoError
}

// refusal says why a trigger would be refused.
func (s *Station) refusal(now time.Time) Code {
	switch st := s.state(); {
	case s.closed || s.session == nil:
		return NotHolder
	case st == Preoperational:
		return NotAcknowledged
	case s.isStale(now):
		return HeartbeatStale
	case !s.enabled:
		return NotEnabled
	case st == Halted || st == Faulted:
		return WrongState
	case st == SingleExecution || s.pending != NoCommand:
		return IsBusy
	case len(s.queue) >= 2*Queue:
		return QueueFull
	}
	return NoError
}

// sweep answers what is late, and returns the time that it did so at. Each entry of the lock begins with it, so that
// nobody sees a trigger without its answer after its deadline, whenever its timer runs.
func (s *Station) sweep() time.Time {
	now := time.Now()
	for _, e := range s.queue {
		if e.job != nil && !now.Before(e.job.Deadline) {
			s.decide(e, Outcome{Reason: ReasonLate}, now)
		}
	}
	return now
}

// settle presents the first answer, and tells of what has changed. Each holder of the lock that changed anything ends
// with it.
func (s *Station) settle(now time.Time) {
	if s.presented == nil && len(s.queue) > 0 && s.queue[0].job == nil && !s.ackHigh && !s.isStale(now) {
		e := s.queue[0]
		s.presented = e
		if e.answer.Steps.Presented.IsZero() {
			e.answer.Steps.Presented = now
		}
		s.tell(Event{Kind: Presented, Answer: e.answer})
	}
	if l := s.look(now); l != s.shown {
		s.shown = l
		s.tell(Event{Kind: Changed})
	}
}

// trigger accepts a trigger, or says why not. The job is for inspect, without the lock.
func (s *Station) trigger(id uint32, part string, now time.Time) (Disposition, *Job, Code) {
	code := NoError
	switch {
	case id == 0:
		code = BadTriggerID
	case !ValidPartID(part):
		code = BadPartID
	}
	if e := s.byID[id]; e != nil && code == NoError {
		// Only the holder that triggered can ask again, about the same part, and not about an answer that it acknowledged
		// before it was silent or reset. Anything else, such as a PLC that counts from 1 again, means another part: it gets
		// neither the answer of before nor, as it may have meant that part, an inspection of the next one.
		if e.part == part && e.holder == s.session && (e.queued || e.epoch == s.epoch) {
			return s.repeat(e, now)
		}
		code = BadTriggerID
	}
	_, ordered := s.source.(Ordered)
	mixed := ordered && s.naming != unknown && s.naming != namingOf(part)
	if code == NoError {
		if code = s.refusal(now); code == NoError && mixed {
			code = BadPartID
		}
	}
	if code != NoError {
		var j *Job
		if s.acked && s.enabled && (s.naming == unnamed || s.naming == unknown && part == "") {
			j = &Job{TriggerID: id, skipped: true} // its part comes all the same
		}
		return 0, j, s.miss(code)
	}
	s.naming = namingOf(part)
	s.counters.Accepted++
	if s.sequence++; s.sequence == 0 {
		s.sequence = 1 // 0 stands for no answer
	}
	s.acceptedID, s.code = id, NoError
	e := &entry{queued: true, part: part, holder: s.session, answer: Answer{
		TriggerID: id, Sequence: s.sequence, Verdict: Reject, PartID: part, Recipe: s.prepared[s.current],
		Steps: Steps{Triggered: now},
	}}
	full := len(s.queue) >= Queue
	s.queue = append(s.queue, e)
	s.byID[id] = e
	ctx, cancel := context.WithCancel(s.ctx)
	j := &Job{
		TriggerID: id, Sequence: e.answer.Sequence, PartID: part, Recipe: e.answer.Recipe, Triggered: now,
		Deadline: now.Add(s.cfg.Deadline), station: s, entry: e, ctx: ctx, cancel: cancel,
	}
	e.job = j
	reason := ReasonNone
	switch {
	case full:
		s.overrun = true
		s.counters.Overruns++
		reason = ReasonOverrun
	case s.current == 0:
		reason = ReasonNoRecipe
	case !s.link:
		reason = ReasonServerLost
	}
	if reason != ReasonNone {
		s.decide(e, Outcome{Reason: reason}, now)
		j.skipped = true
		return Accepted, j, NoError
	}
	j.timer = time.AfterFunc(s.cfg.Deadline, s.changed)
	return Accepted, j, NoError
}

// naming is how triggers say which part they are about. Where a source relies on the order of parts, a station has one
// way until it is reset or held anew: a part that a trigger named would else be taken for that of the next trigger
// without a name.
type naming int

const (
	unknown naming = iota
	named
	unnamed
)

func namingOf(part string) naming {
	if part == "" {
		return unnamed
	}
	return named
}

// miss counts a refused trigger.
func (s *Station) miss(code Code) Code {
	s.counters.Missed++
	if code == QueueFull {
		s.overrun = true
		s.counters.Overruns++
	}
	s.code = code
	return code
}

// repeat presents an answer again that was acknowledged; one that runs or waits will be presented anyway.
func (s *Station) repeat(e *entry, now time.Time) (Disposition, *Job, Code) {
	if c := s.refusal(now); c != NoError && c != IsBusy && (c != QueueFull || !e.queued) {
		return 0, nil, s.miss(c)
	}
	if !e.queued {
		e.queued = true
		s.queue = append(s.queue, e)
	}
	s.counters.Repeated++
	s.acceptedID, s.code = e.answer.TriggerID, NoError
	return Repeated, nil, NoError
}

// decide gives a trigger its answer. This is the only place that does.
func (s *Station) decide(e *entry, o Outcome, now time.Time) {
	j, a := e.job, &e.answer
	switch pass := o.Reason == ReasonPass || o.Reason == ReasonFail; {
	case !now.Before(j.Deadline):
		o.Reason = ReasonLate
	case !pass && (o.Reason < ReasonLate || o.Reason > ReasonOtherPart):
		o.Reason = ReasonNoVerdict
	case pass && j.PartID != "" && o.PartID != j.PartID:
		o.Reason = ReasonOtherPart
	case pass && (o.Recipe != j.Recipe.Name || o.RecipeVersion != j.Recipe.Version):
		o.Reason = ReasonNoRecipe
	}
	a.Reason, a.Origin, a.Detail = o.Reason, o.Origin, o.Detail
	switch o.Reason {
	case ReasonPass:
		a.Verdict = Pass
		s.counters.Pass++
	case ReasonFail:
		a.Verdict = Fail
		s.counters.Fail++
	default:
		a.Verdict = Reject
		s.counters.Reject++
	}
	if a.PartID == "" {
		a.PartID = o.PartID
	}
	a.FailedRegions, a.FirstFailed = o.FailedRegions, o.FirstFailed
	clearValues(a)
	copy(a.Values[:len(s.cfg.Values)], o.Values)
	o.Steps.Triggered, o.Steps.Answered = a.Steps.Triggered, now
	a.Steps = o.Steps
	a.Latency = now.Sub(a.Steps.Triggered)
	e.job = nil
	if j.timer != nil {
		j.timer.Stop()
	}
	j.cancel()
	s.tell(Event{Kind: Answered, Answer: *a})
}

func (s *Station) rejectRunning(r Reason, now time.Time) {
	for _, e := range s.queue {
		if e.job != nil {
			s.decide(e, Outcome{Reason: r}, now)
		}
	}
}

// remove takes the first answer out of the queue, and remembers it for an id that comes again.
func (s *Station) remove(now time.Time, acked bool) {
	e := s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1)
	s.presented = nil
	e.queued, e.epoch = false, s.epoch
	if acked {
		e.answer.Steps.Acked = now
	} else {
		s.counters.Dropped++
	}
	s.tell(Event{Kind: Acknowledged, Answer: e.answer})
	if e.remembered {
		return
	}
	e.remembered = true
	s.remembered = append(s.remembered, e)
	if len(s.remembered) > History {
		old := s.remembered[0]
		s.remembered = slices.Delete(s.remembered, 0, 1)
		if old.remembered = false; !old.queued {
			delete(s.byID, old.answer.TriggerID)
		}
	}
}

// acknowledge takes the presented answer out of the queue.
func (s *Station) acknowledge(now time.Time) Code {
	if s.presented == nil || s.isStale(now) {
		return NothingWaits
	}
	s.remove(now, true)
	return NoError
}

// clear answers what runs REJECT aborted and drops what waits.
func (s *Station) clear(now time.Time) {
	s.rejectRunning(ReasonAborted, now)
	for len(s.queue) > 0 {
		s.remove(now, false)
	}
}

// dropHolder makes the station nobody's.
func (s *Station) dropHolder(now time.Time) {
	if s.session != nil && s.cancel != nil {
		s.cancel() // a command of the holder
	}
	s.clear(now)
	s.session, s.acked, s.enabled, s.endless = nil, false, false, false
	s.ackHigh, s.ackBit, s.naming = false, false, unknown
}

// ValidPartID says whether a server takes a part id: empty, or letters, digits, spaces and any of . _ : / @ # + -, a
// letter or digit first and no space last.
func ValidPartID(id string) bool {
	if len(id) > MaxPartID {
		return false
	}
	for i := range len(id) {
		c := id[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		sign := c == '.' || c == '_' || c == ':' || c == '/' || c == '@' || c == '#' || c == '+' || c == '-'
		if !alnum && (i == 0 || !sign && (c != ' ' || i == len(id)-1)) {
			return false
		}
	}
	return true
}
