// Package scan answers the calls of LineScanService: sessions of cameras whose strips come one after another, and whose
// parts are done the moment their last line is in.
//
// A strip goes from its call (call.go: receiving, which never waits) through the order of its session (order.go: pure)
// to the session's worker (work.go: the device), and results go through the outbox (outbox.go) to the call that sends
// them. A session (session.go) outlives its calls; sessions.go finds it again. Nothing on this path may wait for what a
// client does, and a strip takes no allocation beyond its message.
package scan
