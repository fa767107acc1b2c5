package kernels

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

// What the front lets through keeps its promises to backends (the fake driver checks them); what it refuses names the
// field.
func TestDiffusionChecks(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 1 << 20})
	type ops struct {
		setup driver.DiffusionSetup
		solve driver.DiffusionSolve
	}
	tests := []struct {
		field string // of the error; "": none
		spoil func(*ops)
	}{
		{"", func(*ops) {}},
		{"", func(o *ops) { o.solve.Start = driver.DiffusionContinue }},
		{"", func(o *ops) { o.setup.Grid.Width, o.setup.Grid.Height = 25, 40 }},
		{"Grid.Width", func(o *ops) { o.setup.Grid.Width = 0 }},
		{"Grid.Height", func(o *ops) { o.setup.Grid.Height = driver.MaxSide + 1 }},
		{"Grid", func(o *ops) { o.setup.Grid.Width, o.setup.Grid.Height = 1<<16, 1<<16 }},
		{"Flags", func(o *ops) { o.setup.Flags.Len-- }},
		{"Flags.Off", func(o *ops) { o.setup.Flags.Off++ }},
		{"Dst", func(o *ops) { o.setup.Dst.Len = 999 }},
		{"Dst.Off", func(o *ops) { o.setup.Dst.Off += 8 }},
		{"Counts", func(o *ops) { o.setup.Counts.Len = 4 }},
		{"Counts.Mem", func(o *ops) { o.setup.Counts.Mem = nil }},
		{"", func(o *ops) { o.setup.Grid.Method = driver.DiffusionVariableStencil }},
		{"Grid.Method", func(o *ops) { o.setup.Grid.Method = driver.DiffusionVariableStencil + 1 }},
		{"Grid.Width", func(o *ops) { o.solve.Grid.Width = -1 }},
		{"Grid.Height", func(o *ops) { o.solve.Grid.Height = 0 }},
		{"Channels", func(o *ops) { o.solve.Channels = 0 }},
		{"Channels", func(o *ops) { o.solve.Channels = driver.MaxDiffusionChannels + 1 }},
		{"Start", func(o *ops) { o.solve.Start = driver.DiffusionContinue + 1 }},
		{"Cycles", func(o *ops) { o.solve.Cycles = 0 }},
		{"Tolerance", func(o *ops) { o.solve.Tolerance = 0 }},
		{"Tolerance", func(o *ops) { o.solve.Tolerance = float32(math.NaN()) }},
		{"Flags", func(o *ops) { o.solve.Flags.Len++ }},
		{"Colours", func(o *ops) { o.solve.Colours.Len -= 4 }},
		{"Colours.Off", func(o *ops) { o.solve.Colours.Off += 4 }},
		{"X", func(o *ops) { o.solve.Channels = 1; o.solve.Colours.Len /= 2 }},
		{"X.Mem", func(o *ops) { o.solve.X.Mem = nil }},
		{"State", func(o *ops) { o.solve.State.Len = 499 }},
		{"Status", func(o *ops) { o.solve.Status.Len = 28 }},
	}
	for i, x := range tests {
		err := d.Do(context.Background(), Job{Label: "test", Footprint: 100 << 10}, func(q *Queue) error {
			var s [8]driver.Slice
			for k, n := range []int{1000, 1000, 8, 8000, 8000, 500, 32} {
				b, err := Alloc[byte](q, n, "test")
				if err != nil {
					return err
				}
				s[k] = b.Slice()
			}
			g := driver.DiffusionGrid{Width: 40, Height: 25}
			o := ops{
				driver.DiffusionSetup{Grid: g, Flags: s[0], Dst: s[1], Counts: s[2]},
				driver.DiffusionSolve{Grid: g, Channels: 2, Cycles: 3, Tolerance: 0.1, Flags: s[0], Setup: s[1],
					Colours: s[3], X: s[4], State: s[5], Status: s[6]},
			}
			x.spoil(&o)
			if err := q.Run(&o.setup); err != nil {
				return err
			}
			return q.Run(&o.solve)
		})
		var arg *ArgError
		switch {
		case x.field == "" && err != nil:
			t.Errorf("%d: %v", i, err)
		case x.field != "" && (!errors.As(err, &arg) || arg.Field != x.field):
			t.Errorf("%d: %v, want an error about %s", i, err, x.field)
		}
	}
	for _, g := range []driver.DiffusionGrid{{Width: 0, Height: 1}, {Width: 1, Height: -1},
		{Width: 1 << 17, Height: 1 << 17}} {
		var arg *ArgError
		if _, err := d.Scratch(&driver.DiffusionSetup{Grid: g}); !errors.As(err, &arg) {
			t.Errorf("DiffusionSetupBytes(%v): %v", g, err)
		}
		if _, err := d.Scratch(&driver.DiffusionSolve{Grid: g, Channels: 1}); !errors.As(err, &arg) {
			t.Errorf("DiffusionStateBytes(%v): %v", g, err)
		}
	}
	if _, err := d.Scratch(&driver.DiffusionSolve{Grid: driver.DiffusionGrid{Width: 1, Height: 1},
		Channels: 5}); err == nil {
		t.Error("DiffusionStateBytes of 5 channels: no error")
	}
}
