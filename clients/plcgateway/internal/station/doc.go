// Package station is the handshake between a PLC and an inspection, as every protocol of the gateway speaks it. It
// knows no protocol and no server: protocols call a [Session], and a [Source] gives verdicts.
//
// # A trigger and its answer
//
// The PLC chooses a trigger's id, any number but 0, and may name the part. [Session.Trigger] accepts it, says that the
// id was seen before, or refuses it. An accepted trigger gets exactly one [Answer], no later than the station's
// deadline after it was accepted: PASS or FAIL as the source says, or REJECT with a [Reason]. An answer never changes
// once it was given. An id that is repeated gets the same answer, under the same sequence number, and never a second
// inspection; the last [History] answers are remembered for that. An id that is remembered and comes with another part,
// from another holder, or behind a reset, is refused: it is no repetition, and what it means can't be known. Where the
// source relies on the order of parts, all triggers from one reset to the next name their parts, or none does; others
// are refused.
//
// Answers wait in a queue in the order of their triggers until the PLC acknowledges them; the first is presented in
// [Snapshot.Result]. As all triggers of a station have the same deadline, waiting for the one before makes none late.
// The order holds where triggers name their parts, too: a PLC may count answers along its belt, and what could be had
// without it is less than a deadline, behind a trigger that is late. While [Queue] triggers are unanswered or
// unacknowledged, another one is accepted and answered REJECT overrun, without an inspection; while twice as many are,
// it is refused.
//
// # States
//
// The states are those of OPC 40100-1. A station begins preoperational, and so it does for each new holder: nothing can
// be triggered until the PLC has sent [AckError]. It is initialized without a prepared recipe, and ready with one. A
// trigger in the state ready is a single job; in continuous execution triggers may overlap. Halt leaves only by reset.
//
//	preoperational --ack error--> initialized --prepare--> ready --single job, trigger--> single execution --> ready
//	                                                       ready --continuous--> continuous execution --stop, abort--> ready
//	any --halt--> halted --reset--> initialized or ready          any --fault--> error --ack error--> initialized or ready
//
// # What stops an answer from being good
//
// The verdict is PASS only where the source gave PASS for the very job that the trigger started, in time, by the recipe
// that is prepared, and about the part that the trigger named. While the PLC's heartbeat is stale the outputs show
// REJECT and no trigger id, whatever waits in the queue; what waits is presented again when the heartbeat is back. When
// the source loses its server, all that runs is answered REJECT server lost.
//
// # Holders
//
// One session at a time holds a station ([Station.Acquire]), and [Snapshot.Holder] shows which. Others may look on. A
// holder whose heartbeat is stale loses the station to the next one that asks. With a holder go what it triggered and
// did not acknowledge: those answers are counted in [Counters.Dropped].
//
// # Following a station
//
// [Station.Snapshot] is what a polling protocol shows. A protocol that pushes has a [Subscription], which never delays
// the station: one that reads too slowly loses events, and is told how many.
//
// All methods may be called from several goroutines. Times are those of package time, so that tests run in a bubble of
// testing/synctest.
package station
