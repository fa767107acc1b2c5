package opcua

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gopcua/opcua/ua"
	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

// Types of OPC 40100-1 that code names.
var (
	visionSystemType   = num(machineVision, 1003)
	stateMachineType   = num(machineVision, 1017)
	automaticType      = num(machineVision, 1021)
	jobStartedEvent    = num(machineVision, 1013)
	stateChangedEvent  = num(machineVision, 1018)
	errorEvent         = num(machineVision, 1019)
	errorResolvedEvent = num(machineVision, 1020)
	recipePrepared     = num(machineVision, 1022)
	readyEvent         = num(machineVision, 1023)
	resultReadyEvent   = num(machineVision, 1024)
)

// optional are the optional components of a VisionSystem that are served.
var optional = func() map[string]bool {
	m := map[string]bool{}
	for _, p := range []string{
		"ConfigurationManagement", "RecipeManagement", "ResultManagement", "DiagnosticLevel", "SystemState",
		"RecipeManagement.PrepareProduct", "RecipeManagement.UnprepareProduct", "RecipeManagement.ReleaseRecipeHandle",
		"ConfigurationManagement.ReleaseConfigurationHandle", "ResultManagement.ReleaseResultHandle",
		"VisionStateMachine.AutomaticModeStateMachine", "VisionStateMachine.ConfirmAll",
		"VisionStateMachine.SelectModeAutomatic",
		"VisionStateMachine.LastTransition", "VisionStateMachine.AutomaticModeStateMachine.LastTransition",
		"VisionStateMachine.AutomaticModeStateMachine.SimulationMode",
	} {
		m[p] = true
	}
	return m
}()

const (
	refreshInterval = 50 * time.Millisecond // half of a station's heartbeat
	keptResults     = station.History
	methodTimeout   = 10 * time.Second
)

// A vision is a station as a VisionSystem.
type vision struct {
	srv     *Server
	station *station.Station
	cfg     station.Config
	root    *node
	config  configurationID
	started time.Time

	machines [2]*machine // the whole, and automatic mode

	// Variables of the handshake, by their names.
	vars map[string]*node

	mu      sync.Mutex
	holds   map[*session]*station.Session
	nextID  uint32 // of triggers that the client gave no number
	runs    uint32 // of continuous execution
	run     string
	runJobs []runJob // of triggers in continuous execution
	results []*result

	// Of the goroutine that follows the station.
	pending *station.Answer // presented, and not told yet
	last    uint32          // sequence of the answer that was told last
	command station.Command // that was done last, for the cause of a transition
	lost    uint64
}

type runJob struct {
	trigger uint32
	run     string
}

// A machine is one of the two state machines: where it is, and the transitions of its type.
type machine struct {
	space       *space
	prefix      string // path of the object
	root        *node
	state       nodeID // null: not active
	transitions []transition
}

type transition struct {
	id, from, to nodeID
	name         string
}

// AddStation makes a station a VisionSystem under Objects. It is called before Serve. The returned function follows the
// station until it is closed; it is to be run in a goroutine of its own.
func (s *Server) AddStation(st *station.Station) (follow func()) {
	v := &vision{srv: s, station: st, cfg: st.Config(), started: s.start, holds: map[*session]*station.Session{},
		vars: map[string]*node{}, nextID: randomID()}
	sp := s.space
	v.root = sp.instantiate(str(3, v.cfg.Name), objectsFolder, organizes, "3:"+v.cfg.Name, visionSystemType, optional)
	v.root.notifier = 1
	sp.link(serverObject, hasNotifier, v.root.id)
	sum := sha256.Sum256(fmt.Append(nil, v.cfg.Name, v.cfg.Deadline, v.cfg.HeartbeatTimeout, v.cfg.Slots, v.cfg.Values))
	v.config = configurationID{binaryID{ID: v.cfg.Name, Hash: sum[:], HashAlgorithm: "SHA-256"}}
	v.machines[0] = sp.newMachine(v.root, "VisionStateMachine", stateMachineType)
	v.machines[1] = sp.newMachine(v.root, "VisionStateMachine.AutomaticModeStateMachine", automaticType)
	v.handshake()
	v.methods()
	sp.set(map[*node]any{
		sp.at(v.root, "DiagnosticLevel"):                             uint16(0),
		sp.at(v.root, "ConfigurationManagement.ActiveConfiguration"): structure(&configurationData{v.config, v.started}),
	})
	sub := st.Subscribe(256)
	v.show(st.Snapshot())
	return func() { v.follow(sub) }
}

// newMachine reads the transitions between states of a type.
func (s *space) newMachine(root *node, prefix string, typ nodeID) *machine {
	m := &machine{space: s, root: root, prefix: prefix}
	own := map[nodeID]bool{}
	for _, r := range s.nodes[typ].refs {
		if r.forward && r.kind == hasComponent && s.nodes[r.target].target(hasTypeDefinition, true) == num(0, 2307) {
			own[r.target] = true
		}
	}
	for _, r := range s.nodes[typ].refs {
		n := s.nodes[r.target]
		if !r.forward || r.kind != hasComponent || n.target(hasTypeDefinition, true) != num(0, 2310) {
			continue
		}
		t := transition{n.id, n.target(num(0, 51), true), n.target(num(0, 52), true), n.browseName.Name}
		if own[t.from] && own[t.to] {
			m.transitions = append(m.transitions, t)
		}
	}
	return m
}

// path returns the shortest way between two states, by the transitions that a cause prefers: a station may go on where
// the standard has a state in between.
func (m *machine) path(to nodeID, cause string) []transition {
	came := map[nodeID]*transition{m.state: nil}
	for queue := []nodeID{m.state}; len(queue) > 0; queue = queue[1:] {
		for i := range m.transitions {
			t := &m.transitions[i]
			if t.from != queue[0] {
				continue
			}
			if _, seen := came[t.to]; !seen {
				came[t.to] = t
				queue = append(queue, t.to)
			}
		}
	}
	var steps []transition
	for at := to; came[at] != nil; at = came[at].from {
		steps = append([]transition{m.choose(came[at].from, at, cause)}, steps...)
	}
	return steps
}

// choose returns the transition between two states that a cause prefers, or else the one that is automatic.
func (m *machine) choose(from, to nodeID, cause string) transition {
	var automatic, plain *transition
	for i := range m.transitions {
		t := &m.transitions[i]
		switch {
		case t.from != from || t.to != to:
		case cause != "" && strings.HasSuffix(t.name, cause):
			return *t
		case strings.HasSuffix(t.name, "Auto"):
			automatic = t
		case t.name == m.space.nodes[from].browseName.Name+"To"+m.space.nodes[to].browseName.Name:
			plain = t
		}
	}
	if plain != nil && (cause == "method" || automatic == nil) {
		return *plain
	}
	return *automatic
}

// Where a state of a station is in the two machines.
var states = map[station.State][2]nodeID{
	station.Preoperational:      {num(machineVision, 5028)},
	station.Halted:              {num(machineVision, 5029)},
	station.Faulted:             {num(machineVision, 5030)},
	station.Initialized:         {num(machineVision, 5031), num(machineVision, 5056)},
	station.Ready:               {num(machineVision, 5031), num(machineVision, 5057)},
	station.SingleExecution:     {num(machineVision, 5031), num(machineVision, 5058)},
	station.ContinuousExecution: {num(machineVision, 5031), num(machineVision, 5059)},
}

// causes are what transitions are called after their causes, by commands.
var causes = map[station.Command]string{
	station.Stop: "Stop", station.Abort: "Abort", station.PrepareRecipe: "Recipe", station.UnprepareRecipe: "Recipe",
	station.SelectRecipe: "Recipe", station.Halt: "method", station.Reset: "method", station.AckError: "method",
	station.SingleJob: "method", station.Continuous: "method",
}

// handshake adds what OPC 40100-1 has no place for: the words of the handshake, as every protocol of the gateway has
// them.
func (v *vision) handshake() {
	sp := v.srv.space
	id := str(3, v.cfg.Name+"/Handshake")
	sp.object(id, v.root.id, hasComponent, "3:Handshake", num(0, 58))
	add := func(name string, dataType uint32, value any, description string) *node {
		n := sp.variable(str(3, id.name+"/"+name), id, "3:"+name, num(0, dataType), value, description)
		v.vars[name] = n
		return n
	}
	const boolean, uint16s, uint32s, uint64s, float, strings = 1, 5, 7, 9, 10, 12
	add("Heartbeat", uint16s, uint16(0), "of the gateway: moves ten times a second, and is never 0")
	add("State", uint16s, uint16(0),
		"1 preoperational, 2 halted, 3 error, 4 initialized, 5 ready, 6 single execution, 7 continuous execution")
	add("Bits", uint16s, uint16(0),
		"from bit 0: online, ready, trigger ack, busy, results valid, late, incomplete, overrun, server lost")
	add("Ready", boolean, false, "a trigger would be accepted and inspected")
	add("Missing", uint16s, uint16(0), "code of what is missing to be ready; 0: nothing")
	add("Command", uint16s, uint16(0), "the last command that was done")
	add("Error", uint16s, uint16(0), "code of what became of it, or of a refused trigger; 0: no error")
	add("Sequence", uint32s, uint32(0), "of the presented result; 0: there is none. Before the result's words")
	add("TriggerId", uint32s, uint32(0), "of the presented result")
	add("Verdict", uint16s, uint16(station.Reject), "16#A5C3 PASS, 16#96F0 FAIL, 16#3C69 REJECT; anything else is a fault")
	add("Complement", uint16s, ^uint16(station.Reject), "of Verdict, bit by bit; where it isn't, Verdict means REJECT")
	add("Reason", uint16s, uint16(0), "of the verdict")
	add("PartId", strings, "", "of the presented result")
	add("FailedRegions", uint32s, uint32(0), "of the presented result")
	add("FirstFailed", uint32s, uint32(0), "index of the first region that failed, from 0")
	add("LatencyUs", uint32s, uint32(0), "from trigger to answer")
	values := add("Values", float, []float32{},
		"numbers of the presented result, in the order of ValueNames; NaN where there is none")
	names := add("ValueNames", strings, append([]string{}, v.cfg.Values...), "of Values")
	values.rank, names.rank = 1, 1
	values.dimensions, names.dimensions = []uint32{0}, []uint32{0}
	add("SequenceEnd", uint32s, uint32(0), "Sequence again, behind the result's words: where they differ, read again")
	add("Recipe", strings, "", "that judges; empty: none is prepared")
	add("RecipeVersion", uint64s, uint64(0), "of Recipe")
	add("RecipeSlot", uint16s, uint16(0), "of Recipe")
	add("Holder", strings, "", "who holds the station")
	for _, c := range []string{"Accepted", "Pass", "Fail", "Reject", "Missed", "Overruns", "Repeated", "Dropped"} {
		add(c, uint32s, uint32(0), "counts since the gateway started")
	}
	add("EventsLost", uint32s, uint32(0), "events of the station that this server was too slow for")
	beat := add("PlcHeartbeat", uint16s, uint16(0),
		"to be written by the PLC with another value at least every 100 ms. The first client that writes it holds the station")
	beat.access = 3
	beat.write = func(s *session, value *ua.Variant) ua.StatusCode {
		n, ok := value.Value().(uint16)
		if !ok {
			return ua.StatusBadTypeMismatch
		}
		h, code := v.hold(s)
		if code != station.NoError {
			return ua.StatusBadResourceUnavailable
		}
		h.Heartbeat(n)
		sp.set(map[*node]any{beat: n})
		return ua.StatusOK
	}
	v.ownMethod(id, "Trigger", []ua.TypeID{ua.TypeIDUint32, ua.TypeIDString}, []argumentOf{{"TriggerId", uint32s},
		{"PartId", strings}},
		[]argumentOf{{"Repeated", boolean}, {"Error", 6}}, func(s *session, a []*ua.Variant) ([]any, error) {
			trigger, _ := a[0].Value().(uint32)
			part, _ := a[1].Value().(string)
			repeated, code := v.trigger(s, trigger, part)
			return []any{repeated, failure(code)}, nil
		})
	v.ownMethod(id, "Acknowledge", []ua.TypeID{ua.TypeIDUint32}, []argumentOf{{"Sequence", uint32s}},
		[]argumentOf{{"Error", 6}}, func(s *session, a []*ua.Variant) ([]any, error) {
			sequence, _ := a[0].Value().(uint32)
			return []any{failure(v.acknowledge(s, sequence))}, nil
		})
}

type argumentOf struct {
	name     string
	dataType uint32
}

// ownMethod adds a method that OPC 40100-1 does not have.
func (v *vision) ownMethod(parent nodeID, name string, takes []ua.TypeID, in, out []argumentOf, f func(*session,
	[]*ua.Variant) ([]any, error)) {
	sp := v.srv.space
	id := str(3, parent.name+"/"+name)
	sp.add(&node{id: id, class: ua.NodeClassMethod, browseName: qualified("3:" + name), rank: -1, call: &method{takes, f}})
	sp.link(parent, hasComponent, id)
	for what, args := range map[string][]argumentOf{"InputArguments": in, "OutputArguments": out} {
		list := []*ua.ExtensionObject{}
		for _, a := range args {
			list = append(list, ua.NewExtensionObject(&ua.Argument{Name: a.name, DataType: num(0, a.dataType).ua(),
				ValueRank:       -1,
				ArrayDimensions: []uint32{}, Description: &ua.LocalizedText{}}))
		}
		p := sp.add(&node{id: str(3, id.name+"/"+what), class: ua.NodeClassVariable, browseName: qualified(what),
			dataType: num(0, 296),
			rank:     1, dimensions: []uint32{uint32(len(args))}, access: 1, value: dataValue(list)})
		sp.link(id, hasProperty, p.id)
		sp.link(p.id, hasTypeDefinition, num(0, 68))
	}
}

// failure is the Error of a method: 0, or a code of the station, negative as OPC 40100-1 wants those of an application.
func failure(c station.Code) int32 { return -int32(c) }

// hold returns the session's hold on the station, or makes it the holder.
func (v *vision) hold(s *session) (*station.Session, station.Code) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if h := v.holds[s]; h != nil && h.Held() {
		return h, station.NoError
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, station.NotHolder
	}
	h, err := v.station.Acquire(fmt.Sprintf("opcua %s, session %d", s.user, s.id.num))
	if err != nil {
		return nil, station.NotHolder
	}
	h.Enable(true) // what OPC UA has for it is automatic mode
	if v.holds[s] == nil {
		s.onClose = append(s.onClose, func() { v.release(s) })
	}
	v.holds[s] = h
	return h, station.NoError
}

func (v *vision) release(s *session) {
	v.mu.Lock()
	h := v.holds[s]
	delete(v.holds, s)
	v.mu.Unlock()
	if h != nil {
		h.Release()
	}
}

// do carries out a command for a session.
func (v *vision) do(s *session, c station.Command, args station.CommandArgs) (station.CommandResult, station.Code) {
	h, code := v.hold(s)
	if code != station.NoError {
		return station.CommandResult{}, code
	}
	ch := make(chan station.CommandResult, 1)
	h.Start(c, args, func(r station.CommandResult) { ch <- r })
	select {
	case r := <-ch:
		return r, r.Code
	case <-time.After(methodTimeout):
		return station.CommandResult{}, station.IsBusy
	}
}

func (v *vision) trigger(s *session, id uint32, part string) (repeated bool, code station.Code) {
	h, code := v.hold(s)
	if code != station.NoError {
		return false, code
	}
	continuous := v.station.Snapshot().State == station.ContinuousExecution
	v.mu.Lock()
	if v.run != "" && continuous {
		if v.runJobs = append(v.runJobs, runJob{id, v.run}); len(v.runJobs) > keptResults {
			v.runJobs = slices.Delete(v.runJobs, 0, 1)
		}
	}
	v.mu.Unlock()
	d, err := h.Trigger(id, part)
	h.TriggerOff() // a call is an edge
	if err != nil {
		return false, codeOf(err)
	}
	return d == station.Repeated, station.NoError
}

func codeOf(err error) station.Code {
	if c, ok := err.(station.Code); ok {
		return c
	}
	if err != nil {
		return station.Fault
	}
	return station.NoError
}

func (v *vision) acknowledge(s *session, sequence uint32) station.Code {
	h, code := v.hold(s)
	if code != station.NoError {
		return code
	}
	return codeOf(h.Acknowledge(sequence))
}

// follow shows the station until it is closed.
func (v *vision) follow(sub *station.Subscription) {
	tick := time.NewTicker(refreshInterval)
	defer tick.Stop()
	for {
		select {
		case e, ok := <-sub.C:
			snap := v.station.Snapshot()
			if !ok {
				v.show(snap)
				return
			}
			v.take(e, snap)
			v.show(snap)
		case <-tick.C:
			v.show(v.station.Snapshot())
		}
	}
}

// take notes what an event says. What it presents is told when the variables show it, too.
func (v *vision) take(e station.Event, snap station.Snapshot) {
	if e.Lost > 0 {
		v.lost += e.Lost
		v.srv.log.Warn("opcua: events of a station were lost", "station", v.cfg.Name, "lost", e.Lost)
		if r := snap.Result; snap.Bits&station.ResultsValid != 0 && r.Sequence != v.last {
			v.pending = &r
		}
	}
	switch e.Kind {
	case station.Presented:
		a := e.Answer
		v.pending = &a
	case station.Acknowledged:
		if v.pending != nil && v.pending.Sequence == e.Answer.Sequence {
			if !e.Answer.Steps.Acked.IsZero() {
				v.tell(*v.pending) // its holder was quicker than this goroutine
			}
			v.pending = nil
		}
		v.acked(e.Answer.Sequence)
	case station.CommandDone:
		if e.Command.Code == station.NoError {
			v.command = e.Command.Command
			if e.Command.Command == station.PrepareRecipe {
				v.prepared(e.Command.Recipe)
			}
		}
	}
}

// show sets all variables to a snapshot, and then tells of what it has that is new.
func (v *vision) show(s station.Snapshot) {
	values := map[*node]any{}
	set := func(name string, x any) { values[v.vars[name]] = x }
	r := &s.Result
	numbers := append([]float32{}, r.Values[:len(v.cfg.Values)]...)
	set("Heartbeat", s.Heartbeat)
	set("State", uint16(s.State))
	set("Bits", uint16(s.Bits))
	set("Ready", s.Bits&station.ReadyBit != 0)
	set("Missing", uint16(s.Missing))
	set("Command", uint16(s.Command))
	set("Error", uint16(s.Error))
	set("Sequence", r.Sequence)
	set("TriggerId", r.TriggerID)
	set("Verdict", uint16(r.Verdict))
	set("Complement", r.Complement())
	set("Reason", uint16(r.Reason))
	set("PartId", r.PartID)
	set("FailedRegions", uint32(r.FailedRegions))
	set("FirstFailed", uint32(r.FirstFailed))
	set("LatencyUs", uint32(min(r.Latency.Microseconds(), 1<<32-1)))
	set("Values", numbers)
	set("SequenceEnd", r.Sequence)
	set("Recipe", s.Recipe.Name)
	set("RecipeVersion", s.Recipe.Version)
	set("RecipeSlot", s.Recipe.Slot)
	set("Holder", s.Holder)
	c := s.Counters
	for name, n := range map[string]uint32{"Accepted": c.Accepted, "Pass": c.Pass, "Fail": c.Fail, "Reject": c.Reject,
		"Missed":   c.Missed,
		"Overruns": c.Overruns, "Repeated": c.Repeated, "Dropped": c.Dropped, "EventsLost": uint32(v.lost)} {
		set(name, n)
	}
	events := v.move(s, values)
	v.srv.space.set(values)
	for _, e := range events {
		v.emit(e)
	}
	if p := v.pending; p != nil && s.Bits&station.ResultsValid != 0 && r.Sequence == p.Sequence {
		v.pending = nil
		v.tell(*p)
	}
}

func (v *vision) emit(e *event) { v.srv.space.emit(e, v.root.id, serverObject) }

// move brings the state machines to where the station is, and returns the events of their transitions.
func (v *vision) move(s station.Snapshot, values map[*node]any) []*event {
	sp := v.srv.space
	want := states[s.State]
	cause := causes[v.command]
	var events []*event
	was := v.machines[1].state
	for i, m := range v.machines {
		if want[i] == m.state {
			continue
		}
		current, last := sp.at(m.root, m.prefix+".CurrentState"), sp.at(m.root, m.prefix+".LastTransition")
		switch {
		case want[i].isNull(): // automatic mode ends with the state operational
			m.state = nodeID{}
			values[current], values[sp.at(m.root, m.prefix+".CurrentState.Id")] = nil, nil
			continue
		case m.state.isNull() && i == 1:
			m.state = num(machineVision, 5056) // its first state, initialized
		case m.state.isNull():
			m.state = want[i]
		}
		for _, t := range m.path(want[i], cause) {
			from, to := sp.nodes[t.from].displayName, sp.nodes[t.to].displayName
			typ := stateChangedEvent
			severity := uint16(100)
			switch num(machineVision, 5030) {
			case t.to:
				typ, severity = errorEvent, 800
			case t.from:
				typ = errorResolvedEvent
			}
			e := newEvent(typ, sp.at(m.root, m.prefix).id, m.prefix, from+" to "+to, severity)
			for path, id := range map[string]nodeID{"0:Transition": t.id, "0:FromState": t.from, "0:ToState": t.to} {
				e.set(path, text(sp.nodes[id].displayName))
				e.set(path+"/0:Id", id.ua())
			}
			events = append(events, e)
			values[last], values[sp.at(m.root, m.prefix+".LastTransition.Id")] = text(t.name), t.id.ua()
		}
		m.state = want[i]
		values[current] = text(sp.nodes[want[i]].displayName)
		values[sp.at(m.root, m.prefix+".CurrentState.Id")] = want[i].ua()
	}
	if len(events) > 0 || was != v.machines[1].state {
		v.command = station.NoCommand
	}
	if was == states[station.SingleExecution][1] && s.State == station.Ready {
		e := newEvent(readyEvent, v.root.id, v.cfg.Name, "ready", 100)
		e.set("2:JobId", structure(&jobID{plainID{strconv.FormatUint(uint64(s.AcceptedID), 10)}}))
		events = append(events, e)
	}
	values[sp.at(v.root, "SystemState")] = structure(systemStateOf(s))
	return events
}

// systemStateOf is a state in the words of SEMI E10, which OPC 40100-1 takes over.
func systemStateOf(s station.Snapshot) *systemState {
	state := int32(2) // stand by
	switch s.State {
	case station.SingleExecution, station.ContinuousExecution:
		state = 1 // production
	case station.Faulted:
		state = 5 // unscheduled downtime
	case station.Halted, station.Preoperational:
		state = 6 // nonscheduled time
	}
	description := s.State.String()
	if s.Missing != station.NoError {
		description += ": " + s.Missing.String()
	}
	return &systemState{state, description}
}

func (v *vision) prepared(r station.Recipe) {
	e := newEvent(recipePrepared, v.root.id, v.cfg.Name, fmt.Sprintf("recipe %s, version %d, is prepared", r.Name,
		r.Version), 100)
	e.set("2:InternalId", structure(internal(r)))
	e.set("2:ExternalId", structure(&recipeIDExternal{internal(r).binaryID}))
	e.set("2:ProductId", structure(product(r)))
	v.emit(e)
}

func internal(r station.Recipe) *recipeIDInternal {
	id := binaryID{ID: r.Name}
	if r.Version != 0 {
		id.Version = strconv.FormatUint(r.Version, 10)
	}
	return &recipeIDInternal{id}
}

// product is a recipe's slot: the number that a PLC knows a product by.
func product(r station.Recipe) *productID {
	if r.Slot == 0 {
		return &productID{}
	}
	return &productID{named{ID: strconv.FormatUint(uint64(r.Slot), 10)}}
}

// States of a result.
const (
	resultCompleted = 1
	resultAborted   = 3
	resultFailed    = 4
)

// tell sends a presented answer as ResultReady, and keeps it for clients that ask later.
func (v *vision) tell(a station.Answer) {
	v.last = a.Sequence
	r := v.resultOf(a)
	v.mu.Lock()
	v.results = slices.DeleteFunc(v.results, func(o *result) bool { return o.ID.ID == r.ID.ID })
	if v.results = append(v.results, r); len(v.results) > keptResults {
		v.results = slices.Delete(v.results, 0, 1)
	}
	v.mu.Unlock()
	message := fmt.Sprintf("trigger %d: %s", a.TriggerID, a.Verdict)
	if a.Verdict == station.Reject {
		message += ", " + a.Reason.String()
	}
	e := newEvent(resultReadyEvent, v.root.id, v.cfg.Name, message, 100)
	for name, x := range map[string]any{
		"ResultId": structure(&r.ID), "IsPartial": false, "IsSimulated": false, "ResultState": r.State,
		"MeasId": structure(&r.Meas),
		"PartId": structure(&r.Part), "ExternalRecipeId": structure(&recipeIDExternal{r.Recipe.binaryID}),
		"InternalRecipeId": structure(&r.Recipe), "ProductId": structure(&r.Product),
		"ExternalConfigurationId": structure(&configurationID{}),
		"InternalConfigurationId": structure(&r.Config), "JobId": structure(&r.Job), "CreationTime": r.Created,
		"ProcessingTimes": structure(&r.Times), "ResultContent": r.Content,
	} {
		e.set("2:"+name, x)
	}
	v.emit(e)
}

// resultOf is an answer as OPC 40100-1 has results. Its content is that of the handshake's variables, in their order.
func (v *vision) resultOf(a station.Answer) *result {
	id := strconv.FormatUint(uint64(a.TriggerID), 10)
	r := &result{
		ID:    resultID{plainID{fmt.Sprintf("%s-%x-%d", v.cfg.Name, v.started.Unix(), a.Sequence)}},
		State: resultCompleted, Meas: measID{named{ID: id}}, Part: partID{named{ID: a.PartID}}, Recipe: *internal(a.Recipe),
		Product: *product(a.Recipe), Config: v.config, Job: jobID{plainID{id}}, Created: a.Steps.Answered,
		Times:    processingTimes{a.Steps.Triggered, a.Steps.Answered, a.Latency},
		Sequence: a.Sequence,
	}
	v.mu.Lock()
	for _, j := range v.runJobs {
		if j.trigger == a.TriggerID {
			r.Job.ID = j.run
		}
	}
	v.mu.Unlock()
	switch {
	case a.Reason == station.ReasonAborted:
		r.State = resultAborted
	case a.Verdict == station.Reject:
		r.State = resultFailed
	}
	for _, x := range []any{uint16(a.Verdict), a.Complement(), uint16(a.Reason), a.Sequence, a.TriggerID,
		uint32(a.FailedRegions),
		uint32(a.FirstFailed), uint32(min(a.Latency.Microseconds(), 1<<32-1))} {
		r.Content = append(r.Content, variant(x))
	}
	for _, x := range a.Values[:len(v.cfg.Values)] {
		r.Content = append(r.Content, variant(x))
	}
	return r
}
