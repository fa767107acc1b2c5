package main

// Whether what blocks come from is there: a stream that ends while its source is away saw nothing of the time before.

import (
	"fmt"
	"sync"
	"time"
)

// presence is whether the source of a stream is there.
type presence struct {
	mu    sync.Mutex
	since time.Time // when it went; zero while it is there
	why   error
}

// lost says that the source went at a time, or can't be found; its first loss since it was there counts.
func (p *presence) lost(at time.Time, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		p.since = at
	}
	p.why = why
}

// found says that the source is there.
func (p *presence) found() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since, p.why = time.Time{}, nil
}

// away is the error of a source that is away at the end of its stream, and nil where it is there.
func (p *presence) away() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		return nil
	}
	return fmt.Errorf("away when the stream ended, since %s: %v", p.since.Format(time.DateTime), p.why)
}
