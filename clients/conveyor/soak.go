package main

// conveyor soak: a share of the capacity for a long time, with faults, every part checked.

import (
	"context"
	"fmt"
	"time"
)

type soakCmd struct {
	sceneFlags
	// How long, after the capacity is known.
	Duration time.Duration `default:"30m" group:"camera"`
	// Share of the measured capacity to run at.
	Share float64 `default:"0.8" group:"load"`
	// Lines a second of each camera to take for the capacity, instead of measuring it.
	Capacity float64 `placeholder:"RATE" group:"load"`
	// How long each step of the measurement takes.
	Step time.Duration `default:"2s" group:"load" without:"capacity"`
	// As for a plain run; these replace the ones of the soak.
	Fault []string `placeholder:"KIND:RATE" group:"load"`
	// Lines a second of each camera below which the run is void (default: 90% of what it should be).
	MinRate float64 `placeholder:"RATE" group:"check"`
	// By how many MiB the server's memory may grow after the warm-up.
	MaxRSS float64 `name:"max-rss-growth" default:"10" group:"check"`
	outputFlags
	serverFlags
}

func (c *soakCmd) Help() string {
	return `
Measures the highest line rate that the server keeps up with, and then plays 80% of it, for --duration, while strips
are sent twice, swapped or lost, and connections stall and break at random. Every part must come back once, with the
numbers and the verdict that an oracle in this process has computed from the pixels that were not lost. It fails where
one doesn't, or where the server's memory grew by more than --max-rss-growth, and is void where the cameras didn't
reach --min-rate.
`
}

// soakFaults happen to a strip in a thousand or so each; breaking a connection takes the longest to recover from.
var soakFaults = []fault{
	{kind: faultDuplicate, rate: 1e-3},
	{kind: faultReorder, rate: 1e-3},
	{kind: faultDrop, rate: 5e-4},
	{kind: faultStall, rate: 1e-4, time: 100 * time.Millisecond},
	{kind: faultKill, rate: 2e-4},
}

// soakMinRate is the share of the line rate that must be reached.
const soakMinRate = 0.9

func (c *soakCmd) Run(e *env) error {
	faults := soakFaults
	if len(c.Fault) > 0 {
		var err error
		if faults, err = parseFaults(c.Fault); err != nil {
			return err
		}
	}
	switch {
	case c.Duration <= 0:
		return usage("--duration %v: must be above 0", c.Duration)
	case !(c.Share > 0 && c.Share <= 1):
		return usage("--share %v: must be above 0, and 1 at most", c.Share)
	case !(c.Capacity >= 0 && c.Capacity <= 1e9):
		return usage("--capacity %v: must be 0 to 1e9", c.Capacity)
	case c.Step <= 0:
		return usage("--step %v: must be above 0", c.Step)
	case !(c.MinRate >= 0):
		return usage("--min-rate %v: must not be negative", c.MinRate)
	}
	return c.outputFlags.with(e, &c.sceneFlags, &c.serverFlags, func(ctx context.Context, l *load) (*report, error) {
		capacity := &capacityReport{Lines: c.Capacity, Most: c.Capacity}
		if c.Capacity == 0 {
			var err error
			if capacity, _, err = measureCapacity(ctx, e, l, c.Step); err != nil {
				return nil, err
			}
			if capacity.Lines == 0 {
				return nil, fmt.Errorf("no line rate was kept up, starting from %.0f lines/s", l.profile.rate)
			}
		}
		capacity.Bytes = capacity.Lines * float64(l.cameras*l.scene.belt.rowBytes())
		l.profile = profile{rate: c.Share * capacity.Lines}
		l.duration, l.faults, l.verify = c.Duration, faults, true
		least := c.MinRate
		if least == 0 {
			least = soakMinRate * l.profile.rate
		}
		o, err := l.run(ctx)
		if err != nil {
			return nil, err
		}
		r := newReport(l, o, demands{minRate: least, maxHeldUp: defaultMaxHeldUp})
		r.Capacity = capacity
		switch {
		case r.Memory == nil:
			r.Warnings = append(r.Warnings,
				"the server's memory was not watched; --rss-pid or --metrics-url says where")
		case float64(r.Memory.Growth) > c.MaxRSS*(1<<20):
			r.Outcome = runBad
			r.Reasons = append(r.Reasons,
				fmt.Sprintf("the server's memory grew by %.1f MiB: %v MiB are allowed", mib(r.Memory.Growth), c.MaxRSS))
		}
		return r, nil
	})
}
