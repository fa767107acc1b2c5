package main

// A line on the terminal while something takes long.

import (
	"fmt"
	"sync"
	"time"

	"github.com/polyscan/polyscan/clients/internal/cli"
)

// When the line comes, and how often it changes.
const (
	busyAfter = 700 * time.Millisecond
	busyEvery = 200 * time.Millisecond
)

// busyColumns is how much of a line is used, so that it doesn't wrap.
const busyColumns = 78

// busy shows what is done, and for how long already, on a terminal. It writes nothing for what is done soon. It must be
// ended before anything else is written.
type busy struct {
	mu   sync.Mutex
	what string

	stop chan struct{}
	done sync.WaitGroup
}

// startBusy begins, with ticks of a clock in place of time's own if there are any.
func (e *env) startBusy(what string, ticks <-chan time.Time) *busy {
	b := &busy{what: what, stop: make(chan struct{})}
	if !e.live {
		return b
	}
	b.done.Go(func() {
		begun := time.Now()
		shown := false
		wait := time.NewTimer(busyAfter)
		defer wait.Stop()
		for {
			select {
			case <-b.stop:
				if shown {
					fmt.Fprint(e.stderr, "\r\x1b[K")
				}
				return
			case <-ticks:
			case <-wait.C:
				wait.Reset(busyEvery)
			}
			b.mu.Lock()
			what := b.what
			b.mu.Unlock()
			line := shorten(cli.Printable(what), busyColumns-8) + fmt.Sprintf("  %.0f s", time.Since(begun).Seconds())
			fmt.Fprint(e.stderr, "\r\x1b[K"+line)
			shown = true
		}
	})
	return b
}

// busy begins to show what is done.
func (e *env) busy(what string) *busy { return e.startBusy(what, nil) }

// say changes what is shown.
func (b *busy) say(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.what = fmt.Sprintf(format, args...)
}

// end takes the line away.
func (b *busy) end() {
	close(b.stop)
	b.done.Wait()
}
