package station

// What goes in and comes out.

import (
	"context"
	"time"
)

// Bounds of every station.
const (
	// Queue is how many triggers may be unanswered or unacknowledged before others are answered REJECT overrun.
	Queue = 8
	// History is how many answers are remembered for ids that come again.
	History = 64
	// MaxValues is how many numbers an answer has at most.
	MaxValues = 32
	// MaxPartID is the length of a part id in bytes.
	MaxPartID = 128
	// beat is the interval of the gateway's heartbeat.
	beat = 100 * time.Millisecond
)

// Config is what a station is made with.
type Config struct {
	Name string
	// Deadline is from a trigger to its answer; 0 means 50 ms.
	Deadline time.Duration
	// HeartbeatTimeout is how old the PLC's last heartbeat may be; 0 means 500 ms.
	HeartbeatTimeout time.Duration
	// Slots are the recipes that a PLC chooses by number.
	Slots map[uint16]Recipe
	// Initial is the slot that is prepared at start; 0 means none.
	Initial uint16
	// Values are the names of the numbers that an answer has, at most MaxValues.
	Values []string
}

// Recipe is a recipe on the server.
type Recipe struct {
	Slot    uint16
	Name    string
	Version uint64 // 0 in Config and in commands: the latest one
}

// A Source inspects. Its methods are called without locks of the station; Inspect must not block.
type Source interface {
	// Inspect begins a job, and calls its Answer once. It may stop when the job's context is done.
	Inspect(*Job)
	// Prepare makes a recipe ready and returns its version. Its error may be a Code; others count as Fault.
	Prepare(context.Context, Recipe) (version uint64, err error)
	// Unprepare undoes Prepare.
	Unprepare(Recipe)
	// Reset says that the PLC has begun anew: what is known of the order of parts doesn't count any more.
	Reset()
}

// Ordered is a Source that relies on the order of parts.
type Ordered interface {
	// Skipped says that a trigger was accepted and answered without an inspection, or was refused, where triggers name no
	// parts. Its part may come all the same, and is not that of the next trigger.
	Skipped(id uint32, accepted bool)
}

// Outcome is what a source found out about a job.
type Outcome struct {
	// Reason is ReasonPass or ReasonFail, or why there is no verdict. Anything else becomes ReasonNoVerdict.
	Reason Reason
	// PartID is the part that was inspected. Where the trigger named one, it must be that.
	PartID string
	// Recipe that judged; it must be the job's. Slot is ignored.
	Recipe        string
	RecipeVersion uint64
	// FailedRegions were judged FAIL; FirstFailed is the index of the first, from 0.
	FailedRegions, FirstFailed int
	// Values are in the order of Config.Values; NaN where there is none. Missing ones are NaN.
	Values []float32
	// Origin says where the part is from, such as the lines of a camera, for the log.
	Origin string
	// Steps are those times that the source knows.
	Steps Steps
	// Detail is a text for the log.
	Detail string
}

// Steps is the timeline of a part, from the camera's line to the PLC's acknowledgement. A time that is zero is not
// known.
type Steps struct {
	Exposed   time.Time // the last line, by the camera's clock
	LastLine  time.Time // the server had it, by the server's clock
	Judged    time.Time // the server had the result, by its clock
	Received  time.Time // the gateway had the verdict; this and all below by the gateway's clock
	Triggered time.Time // the trigger was accepted
	Answered  time.Time // the answer was decided
	Presented time.Time // it was the first of the queue
	Read      time.Time // a protocol first handed it out, where it can tell
	Acked     time.Time
}

// Step is one of Steps by its name.
type Step struct {
	Name string
	At   time.Time
}

// All are the steps in the order in which they happen to a part whose trigger comes before its verdict.
func (s *Steps) All() []Step {
	return []Step{
		{"exposed", s.Exposed}, {"last_line", s.LastLine}, {"judged", s.Judged}, {"triggered", s.Triggered},
		{"received", s.Received}, {"answered", s.Answered}, {"presented", s.Presented}, {"read", s.Read}, {"acked", s.Acked},
	}
}

// Answer is what a trigger came to. It never changes, but for the later of its Steps.
type Answer struct {
	TriggerID uint32
	// Sequence counts the answers of a station from 1, in the order of triggers.
	Sequence uint32
	Verdict  Verdict
	Reason   Reason
	PartID   string
	Recipe   Recipe
	// FailedRegions and FirstFailed are as in Outcome.
	FailedRegions, FirstFailed int
	// Latency is from the trigger to the answer.
	Latency time.Duration
	Values  [MaxValues]float32 // NaN where there is none
	Steps   Steps
	// Origin and Detail are as in Outcome.
	Origin, Detail string
}

// Complement is the word that stands beside the verdict.
func (a *Answer) Complement() uint16 { return ^uint16(a.Verdict) }

// Counters count since the station was made. Accepted = Pass + Fail + Reject + what has no answer yet.
type Counters struct {
	Accepted, Pass, Fail, Reject uint32
	// Missed triggers were refused.
	Missed uint32
	// Overruns are triggers that were answered REJECT overrun or refused because the queue was full.
	Overruns uint32
	// Repeated triggers had an id that was seen before.
	Repeated uint32
	// Dropped answers went unacknowledged, by reset or with their holder.
	Dropped uint32
}

// Snapshot is a station at one moment.
type Snapshot struct {
	Station   string
	State     State
	Bits      Bits
	Heartbeat uint16 // moves ten times a second and is never 0
	// Command is the last that was finished, and Error what became of it, or of a trigger that was refused since.
	Command Command
	Error   Code
	// AcceptedID is the id of the last trigger that was accepted or repeated.
	AcceptedID uint32
	// Recipe is the one that judges; Name is empty where none is prepared.
	Recipe Recipe
	// Result is the presented answer. Without one, Sequence and TriggerID are 0 and Verdict is Reject.
	Result Answer
	// Waiting is how many answers wait for their acknowledgement, and Running how many triggers for their answers.
	Waiting, Running int
	Counters         Counters
	Holder           string
	HeldSince        time.Time
	// Missing says what the station lacks to be ready, NoError where it is ready.
	Missing Code
}

// Disposition is what became of a trigger that was not refused.
type Disposition int

// Dispositions.
const (
	Accepted Disposition = iota + 1
	Repeated             // the answer of the same id is, or will be, presented again
)

// CommandResult is what became of a command.
type CommandResult struct {
	Command Command
	Code    Code
	// Recipe is what a recipe command was about, with the version that was prepared.
	Recipe Recipe
}

// CommandArgs are the arguments of commands.
type CommandArgs struct {
	Slot    uint16 // of recipe commands
	Version uint64 // of PrepareRecipe; 0 means what the slot says
	// TriggerID and PartID are of SingleJob.
	TriggerID uint32
	PartID    string
}

// Outputs is the image that a cyclic protocol writes. Edges count: a trigger begins when Trigger rises, a result is
// acknowledged when ResultsAck rises, and a command begins when Command changes to another than NoCommand.
type Outputs struct {
	Enable, Trigger, ResultsAck bool
	Heartbeat                   uint16
	TriggerID                   uint32
	PartID                      string
	Command                     Command
	Slot                        uint16
	Version                     uint64
}

// EventKind is a kind of events.
type EventKind int

// Kinds of events.
const (
	Changed      EventKind = iota + 1 // state, bits, recipe or holder: look at Snapshot
	Answered                          // Answer was decided
	Presented                         // Answer is the first of the queue, and visible
	Acknowledged                      // Answer was acknowledged, or dropped where its Steps.Acked is zero
	CommandDone
)

// Event is something that happened to a station.
type Event struct {
	Kind    EventKind
	Answer  Answer
	Command CommandResult
	// Lost is how many events before this one the subscriber was too slow for.
	Lost uint64
}
