// Package events tells those who look on what happens on the server: verdicts, streams that open and close, gaps,
// recipes, the device.
//
// Whoever publishes never waits: an event takes one place in a ring (bus.go), and where nobody looks on it is counted
// and no more. One goroutine hands events on to subscriptions (subscription.go), whose queues are bounded in events and
// bytes and lose the oldest. A Stream (stream.go) counts what came of it, and publishes that. A Sketch (sketch.go) is
// the small picture of a frame that is drawn while its pixels pass.
package events
