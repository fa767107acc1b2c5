package station

// The words of the handshake: numbers that a PLC reads and writes. They are part of the map and never change.

import "fmt"

// Verdict is a word that has eight bits other than each of the others and than the complement of each, so that neither
// a stuck word nor a bus full of zeros or ones is one.
type Verdict uint16

// Verdicts.
const (
	Pass   Verdict = 0xA5C3
	Fail   Verdict = 0x96F0
	Reject Verdict = 0x3C69
)

func (v Verdict) String() string {
	return name(map[Verdict]string{Pass: "PASS", Fail: "FAIL", Reject: "REJECT"}, v)
}

// Reason says why an answer is what it is.
type Reason uint16

// Reasons. Those from ReasonLate on are of REJECT.
const (
	ReasonNone       Reason = 0 // no answer is presented
	ReasonPass       Reason = 1
	ReasonFail       Reason = 2
	ReasonLate       Reason = 3 // no verdict by the deadline, or one that the server calls late
	ReasonIncomplete Reason = 4 // lines were lost
	ReasonServerLost Reason = 5
	ReasonOverrun    Reason = 6 // too many answers or parts wait
	ReasonNoRecipe   Reason = 7 // none is prepared, or another one judged
	ReasonAborted    Reason = 8 // by abort, halt, reset, or the loss of the holder
	ReasonNoVerdict  Reason = 9 // the inspection ended with an error, or judged nothing
	ReasonOtherPart  Reason = 10
	ReasonPLCLost    Reason = 11 // shown while the PLC's heartbeat is stale; no answer has it
)

var reasonNames = map[Reason]string{
	ReasonNone: "none", ReasonPass: "pass", ReasonFail: "fail", ReasonLate: "late", ReasonIncomplete: "incomplete",
	ReasonServerLost: "server lost", ReasonOverrun: "overrun", ReasonNoRecipe: "no recipe", ReasonAborted: "aborted",
	ReasonNoVerdict: "no verdict", ReasonOtherPart: "other part", ReasonPLCLost: "PLC lost",
}

func (r Reason) String() string { return name(reasonNames, r) }

// State is a state of OPC 40100-1.
type State uint16

// States. None is 0, which a register that nobody writes holds.
const (
	Preoperational      State = 1
	Halted              State = 2
	Faulted             State = 3 // "Error" there
	Initialized         State = 4
	Ready               State = 5
	SingleExecution     State = 6
	ContinuousExecution State = 7
)

var stateNames = map[State]string{
	Preoperational: "preoperational", Halted: "halted", Faulted: "error", Initialized: "initialized", Ready: "ready",
	SingleExecution: "single execution", ContinuousExecution: "continuous execution",
}

func (s State) String() string { return name(stateNames, s) }

// Bits are what a PLC looks at first. The number of a bit is its place in the word.
type Bits uint16

// Bits of a station.
const (
	Online       Bits = 1 << iota // the gateway runs; beside a heartbeat that moves
	ReadyBit                      // a trigger would be accepted and inspected
	TriggerAck                    // the trigger that is set was accepted
	Busy                          // a trigger has no answer yet
	ResultsValid                  // an answer is presented
	Late                          // of the presented answer, as Incomplete
	Incomplete
	Overrun    // triggers were answered REJECT overrun, or refused, since the last reset
	ServerLost // the source can't be heard
)

// BitNames are the names of bits, by their places.
var BitNames = []string{
	"online", "ready", "trigger_ack", "busy", "results_valid", "late", "incomplete", "overrun", "server_lost",
}

// Command is what a PLC can ask for.
type Command uint16

// Commands.
const (
	NoCommand       Command = 0
	SelectRecipe    Command = 1 // make a prepared slot the one that judges
	PrepareRecipe   Command = 2 // load a slot's recipe, and select it
	UnprepareRecipe Command = 3
	SingleJob       Command = 4 // trigger one inspection
	Continuous      Command = 5
	Halt            Command = 6
	Reset           Command = 7 // drop what runs and waits, and leave halted
	Stop            Command = 8 // leave continuous execution; what runs is finished
	Abort           Command = 9 // as stop; what runs is answered REJECT aborted
	Dequeue         Command = 10
	AckError        Command = 11 // also acknowledges that the gateway, or the holder, is new
)

// CommandNames are the names of commands.
var CommandNames = map[Command]string{
	NoCommand: "none", SelectRecipe: "select recipe", PrepareRecipe: "prepare recipe", UnprepareRecipe: "unprepare recipe",
	SingleJob: "single job", Continuous: "continuous", Halt: "halt", Reset: "reset", Stop: "stop", Abort: "abort",
	Dequeue: "dequeue", AckError: "acknowledge error",
}

func (c Command) String() string { return name(CommandNames, c) }

// Code says why a trigger or a command was refused. It is an error, so that methods return it as one.
type Code uint16

// Codes.
const (
	NoError         Code = 0
	NotAcknowledged Code = 1 // the gateway or the holder is new, and the PLC has not sent AckError
	NotEnabled      Code = 2
	HeartbeatStale  Code = 3
	WrongState      Code = 4
	IsBusy          Code = 5 // a job, or another command, runs
	QueueFull       Code = 6
	BadTriggerID    Code = 7 // 0
	BadPartID       Code = 8
	UnknownCommand  Code = 9
	UnknownSlot     Code = 10
	NotPrepared     Code = 11
	NoServer        Code = 12
	UnknownRecipe   Code = 13 // the server has no such recipe or version
	NothingWaits    Code = 14
	NotHolder       Code = 15
	Fault           Code = 16 // the source can't go on; the log says why
)

// CodeNames are the names of codes.
var CodeNames = map[Code]string{
	NoError: "no error", NotAcknowledged: "restart not acknowledged", NotEnabled: "not enabled",
	HeartbeatStale: "PLC heartbeat stale", WrongState: "wrong state", IsBusy: "busy", QueueFull: "queue full",
	BadTriggerID: "bad trigger id", BadPartID: "bad part id", UnknownCommand: "unknown command",
	UnknownSlot: "unknown recipe slot", NotPrepared: "recipe not prepared", NoServer: "server lost",
	UnknownRecipe: "unknown recipe", NothingWaits: "nothing waits", NotHolder: "not the holder", Fault: "fault",
}

func (c Code) String() string { return name(CodeNames, c) }
func (c Code) Error() string  { return "station: " + c.String() }

func name[K ~uint16](names map[K]string, k K) string {
	if s, ok := names[k]; ok {
		return s
	}
	return fmt.Sprintf("%d", uint16(k))
}
