package main

// Pacing: when the lines of a camera are due.

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/polyscan/polyscan/internal/digits"
)

// profile is the line rate over time: rate at first, and with a ramp evenly faster or slower until the ramp's end.
type profile struct {
	rate float64       // lines in a second
	to   float64       // at the end of the ramp
	over time.Duration // of the ramp; 0: none
	// burst hands strips over in groups of so many, when the last of them is due; 1 or 0: one by one.
	burst int
}

// parseRamp reads FROM:TO:TIME, lines in a second.
func parseRamp(s string) (profile, error) {
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return profile{}, usage("--ramp %q: want FROM:TO:TIME, such as 5000:40000:30s", s)
	}
	var p profile
	var err error
	for i, dst := range []*float64{&p.rate, &p.to} {
		if *dst, err = digits.Float(parts[i]); err != nil || !(*dst > 0) {
			return profile{}, usage("--ramp %q: %q is no line rate", s, parts[i])
		}
	}
	if p.over, err = time.ParseDuration(parts[2]); err != nil || p.over <= 0 {
		return profile{}, usage("--ramp %q: %q is no time", s, parts[2])
	}
	return p, nil
}

func (p profile) String() string {
	if p.over == 0 {
		return fmt.Sprintf("%.0f lines/s", p.rate)
	}
	return fmt.Sprintf("%.0f to %.0f lines/s in %v", p.rate, p.to, p.over)
}

// due is the time from the start until the given number of lines has been exposed.
func (p profile) due(lines float64) time.Duration {
	if p.over == 0 {
		return seconds(lines / p.rate)
	}
	// Until the ramp's end lines = rate t + slope t²/2.
	over := p.over.Seconds()
	inRamp := (p.rate + p.to) / 2 * over
	if lines >= inRamp {
		return p.over + seconds((lines-inRamp)/p.to)
	}
	slope := (p.to - p.rate) / over
	// The form of the root that holds for slope 0, too.
	return seconds(2 * lines / (p.rate + math.Sqrt(p.rate*p.rate+2*slope*lines)))
}

// strip is when strip n of so many lines is handed over.
func (p profile) strip(n uint64, lines int) time.Duration {
	last := n + 1
	if b := uint64(max(p.burst, 1)); b > 1 {
		last = (n/b + 1) * b
	}
	return p.due(float64(last) * float64(lines))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// clock tells and waits; tests have one of their own.
type clock interface {
	Now() time.Time
	// Sleep returns at t, or when ctx ends.
	Sleep(ctx context.Context, t time.Time) error
}

// pacer hands out the due times of strips.
type pacer struct {
	clock   clock
	profile profile
	lines   int // of a strip
	start   time.Time
	next    uint64
}

// wait sleeps until the next strip is due. ready is when it was in the camera's memory: now, if the camera was asleep,
// so that the sleep's inaccuracy, which is slip, isn't the server's; and the time it was due, if the camera came late
// because something held it up. late is how late it came.
func (p *pacer) wait(ctx context.Context) (ready time.Time, late, slip time.Duration, err error) {
	if p.start.IsZero() {
		p.start = p.clock.Now()
	}
	due := p.start.Add(p.profile.strip(p.next, p.lines))
	p.next++
	if now := p.clock.Now(); !due.After(now) {
		return due, now.Sub(due), 0, context.Cause(ctx)
	}
	err = p.clock.Sleep(ctx, due)
	ready = p.clock.Now()
	return ready, 0, ready.Sub(due), err
}
