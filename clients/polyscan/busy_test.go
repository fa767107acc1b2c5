package main

import (
	"strings"
	"testing"
	"time"
)

// TestBusy: the line comes, changes, fits a terminal, and goes; nothing is written where nobody looks.
func TestBusy(t *testing.T) {
	var out strings.Builder
	e := &env{stderr: &out, live: true}
	ticks := make(chan time.Time)
	b := e.startBusy("solve 1", ticks)
	ticks <- time.Time{}
	ticks <- time.Time{} // the first line has been written
	b.say("solve 2 of a picture with a long name: %s\x1b[2J", strings.Repeat("x", 100))
	ticks <- time.Time{}
	ticks <- time.Time{}
	b.end()
	lines := strings.Split(out.String(), "\r\x1b[K")
	if len(lines) < 4 || !strings.HasPrefix(lines[1], "solve 1  0 s") || lines[len(lines)-1] != "" {
		t.Errorf("%q", lines)
	}
	if last := lines[len(lines)-2]; !strings.HasPrefix(last, "solve 2") || len([]rune(last)) > busyColumns ||
		strings.Contains(last, "\x1b") {
		t.Errorf("%q", last)
	}
	out.Reset()
	e.busy("done at once").end()
	e.live = false
	b = e.startBusy("to a file", nil)
	b.say("more")
	b.end()
	if out.Len() > 0 {
		t.Errorf("%q", out.String())
	}
}
