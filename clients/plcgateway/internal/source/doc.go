// Package source gives stations their verdicts, over the client library: of line-scan parts, as others send them and
// MonitorService.Watch shows them; and of frames that it has reduced itself, resident ones or files.
//
// A [Link] is a server. It watches that with short heartbeats, and tells its stations when the server is lost: no later
// than 180 ms after the last that was heard, and at once when the connection breaks.
//
// # Which part a verdict is about
//
// A trigger that names a part gets the verdict of the part with that id, whether that came before the trigger (up to
// [Keep] ago) or comes after. An id that two parts had within that time belongs to neither.
//
// A trigger without a name gets the first verdict of its stream that comes after it. That is right as long as the order
// is known: each part of a stream has a verdict, and their numbers have no gap. A trigger that ended without its part
// is remembered, and the part that comes for it later is skipped. Where verdicts were lost, or the stream is another
// one while triggers wait, the order is not known any more: triggers without a name are then answered REJECT other part
// until the PLC sends a reset.
package source
