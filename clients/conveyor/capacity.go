package main

// --find-capacity: the highest line rate at which nothing is late.

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/polyscan/polyscan/clients/internal/cli"
)

// capacityReport is the outcome of the searches.
type capacityReport struct {
	Lines float64        `json:"lines_per_second"` // of each camera, that of the slowest search
	Most  float64        `json:"at_most"`          // that of the fastest one
	Bytes float64        `json:"bytes_per_second"` // of all cameras
	Steps []capacityStep `json:"steps"`
}

type capacityStep struct {
	Lines    float64 `json:"lines_per_second"`
	Achieved float64 `json:"achieved"`
	P99      float64 `json:"p99_ms"`
	Late     int64   `json:"late"`
	Parts    int64   `json:"parts"`
	OK       bool    `json:"ok"`
}

// capacityStepTime is how long a step of a plain run takes. Tests have less.
var capacityStepTime = 2 * time.Second

// The search.
const (
	// capacityHalvings is how often the interval between a rate that works and one that doesn't is halved: to 1/16 of
	// it.
	capacityHalvings = 4
	// capacityDoublings bounds how far up the search goes.
	capacityDoublings = 12
	// The machine does other things, too: so many of the results and strips may be late, and a step that isn't kept up
	// is tried again.
	lateShare, lateFew = 0.01, 2
	capacityTries      = 2
	// capacitySearches is how often --find-capacity searches, and capacitySpread by how much the outcomes differ on a
	// machine that does nothing else: a step or two of the last halving.
	capacitySearches = 3
	capacitySpread   = 0.15
)

// rates is the capacity as people read it: a number, or a range.
func (c *capacityReport) rates() string {
	low, high := thousands(int64(math.Round(c.Lines))), thousands(int64(math.Round(c.Most)))
	if low == high {
		return low
	}
	return low + " to " + high
}

// sustained reports whether a run at a rate was kept up.
func sustained(o *outcome, rate float64, cameras int) bool {
	achieved := float64(o.counts.Lines) / o.elapsed.Seconds() / float64(cameras)
	few := func(n, of int64) bool { return float64(n) <= max(lateFew, lateShare*float64(of)) }
	return len(o.failures) == 0 && o.wrong == 0 && o.counts.Parts > 0 && achieved >= 0.97*rate &&
		few(o.counts.LateEither, o.counts.Parts) && few(o.counts.HeldUp, o.counts.Strips)
}

// search finds the highest rate at which try is true, from a rate to start at: up or down by factors of two to an
// interval, and then by halves. 0 if there is none.
func search(from float64, try func(rate float64) (bool, error)) (float64, error) {
	good, bad := 0.0, 0.0
	for rate, n := from, 0; n < capacityDoublings; n++ {
		ok, err := try(rate)
		if err != nil {
			return 0, err
		}
		if ok {
			good = rate
		} else {
			bad = rate
		}
		if good > 0 && bad > 0 {
			break
		}
		if ok {
			rate *= 2
		} else {
			rate /= 2
		}
	}
	if good == 0 || bad == 0 {
		return good, nil
	}
	for range capacityHalvings {
		middle := (good + bad) / 2
		ok, err := try(middle)
		if err != nil {
			return 0, err
		}
		if ok {
			good = middle
		} else {
			bad = middle
		}
	}
	return good, nil
}

// measureCapacity searches from the load's own line rate.
func measureCapacity(ctx context.Context, e *env, l *load, stepTime time.Duration) (*capacityReport, *outcome, error) {
	step := *l
	step.duration, step.faults, step.batch, step.watch, step.verify = stepTime, nil, 0, nil, false
	r := &capacityReport{}
	var best *outcome
	try := func(rate float64) (bool, error) {
		step.profile = profile{rate: rate}
		o, err := step.run(ctx)
		if err == nil {
			err = cmp.Or(ctx.Err(), o.gone())
		}
		if err != nil {
			return false, err
		}
		s := capacityStep{rate, float64(o.counts.Lines) / o.elapsed.Seconds() / float64(l.cameras), o.latency.P99,
			o.counts.LateEither, o.counts.Parts, sustained(o, rate, l.cameras)}
		r.Steps = append(r.Steps, s)
		if l.watch != nil {
			word := e.paint(cli.Green, "kept up")
			if !s.OK {
				word = e.paint(cli.Yellow, "too fast")
			}
			fmt.Fprintf(e.stdout, "%s lines/s: %s (%s late of %s parts, p99 %s ms)\n", thousands(int64(rate)), word,
				thousands(s.Late), thousands(s.Parts), short(s.P99))
		}
		if s.OK || best == nil {
			best = o
		}
		return s.OK, nil
	}
	rate, err := search(l.profile.rate, func(rate float64) (ok bool, err error) {
		for n := 0; n < capacityTries && !ok && err == nil; n++ {
			ok, err = try(rate)
		}
		return ok, err
	})
	if err != nil {
		return nil, nil, err
	}
	r.Lines, r.Most = rate, rate
	r.Bytes = rate * float64(l.cameras*l.scene.belt.rowBytes())
	return r, best, nil
}

// findCapacity is a run of its own: several searches, each from where the one before has ended. What it reports is the
// step that the slowest of them ended with.
func findCapacity(ctx context.Context, e *env, l *load, step time.Duration, want demands) (*report, error) {
	var all *capacityReport
	var played *outcome
	from := *l
	for n := range capacitySearches {
		if n > 0 && l.watch != nil {
			fmt.Fprintf(e.stdout, "again, to see how sure that is (%d of %d)\n", n+1, capacitySearches)
		}
		c, o, err := measureCapacity(ctx, e, &from, step)
		if err != nil {
			return nil, err
		}
		if all = all.with(c); all.Lines == c.Lines {
			played = o
		}
		if c.Lines == 0 {
			break
		}
		from.profile = profile{rate: c.Lines}
	}
	best := *l
	best.profile = profile{rate: all.Lines}
	r := newReport(&best, played, want)
	r.Capacity = all
	switch {
	case all.Lines == 0:
		r.Outcome, r.Reasons = runVoid, []string{"no line rate was kept up"}
	case all.Most > (1+capacitySpread)*all.Lines:
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d searches ended at %s lines/s: the machine is busy with other "+
			"things, or its clock changes; close other programs and try again, or count on the lower number",
			capacitySearches, all.rates()))
	}
	return r, nil
}

// with is two searches as one, of which c may be none.
func (c *capacityReport) with(next *capacityReport) *capacityReport {
	if c == nil {
		return next
	}
	out := *next
	if c.Lines < out.Lines {
		out.Lines, out.Bytes = c.Lines, c.Bytes
	}
	out.Most = max(out.Most, c.Most)
	out.Steps = append(slices.Clone(c.Steps), next.Steps...)
	return &out
}
