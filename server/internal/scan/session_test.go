package scan

import (
	"testing"

	"github.com/polyscan/polyscan/server/internal/observe"
)

// A client is told once that it doesn't read, and only by its own call.
func TestTellSlow(t *testing.T) {
	now, older := &call{wake: make(chan struct{}, 1)}, &call{}
	ss := &session{service: New(Config{Metrics: observe.New().Scan}), conn: now}
	ss.tellSlow(older)
	if len(ss.outbox) != 0 {
		t.Errorf("the client of another call was told: %v", ss.outbox)
	}
	ss.tellSlow(now)
	ss.tellSlow(now)
	if len(ss.outbox) != 1 {
		t.Errorf("%d events, want one", len(ss.outbox))
	}
}
