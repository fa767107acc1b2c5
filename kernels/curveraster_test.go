package kernels

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

// checkRefusals runs an op with each way of spoiling it, "" being none, and compares the field that is refused.
func checkRefusals[Op any](t *testing.T, good func(q *Queue) (Op, error), run func(*Queue, Op) error,
	tests []badArg[Op]) {
	t.Helper()
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 1 << 20})
	for i, x := range tests {
		err := d.Do(context.Background(), Job{Label: "test", Footprint: 100 << 10}, func(q *Queue) error {
			op, err := good(q)
			if err != nil {
				return err
			}
			x.spoil(&op)
			return run(q, op)
		})
		var arg *ArgError
		switch {
		case x.field == "" && err != nil:
			t.Errorf("%d: %v", i, err)
		case x.field != "" && (!errors.As(err, &arg) || arg.Field != x.field):
			t.Errorf("%d: %v, want an error about %s", i, err, x.field)
		}
	}
}

type badArg[Op any] struct {
	field string // of the error; "": none
	spoil func(*Op)
}

func allocate(q *Queue, n int) (driver.Slice, error) {
	b, err := Alloc[byte](q, n, "test")
	return b.Slice(), err
}

func TestCurveRasterChecks(t *testing.T) {
	type op = driver.CurveRaster
	good := func(q *Queue) (op, error) {
		r := op{
			Width: 20, Height: 5, Channels: 2,
			Segments: []driver.CurveSegment{{LogPieces: 3}, {Start: driver.CurveUnit, LogPieces: 11}, {Curve: 2}},
			Curves: []driver.Curve{{Left: driver.CurveStops{Count: 2}}, {},
				{Barrier: 1, Right: driver.CurveStops{First: 1, Count: 1}}},
			Stops: []driver.CurveStop{{At: 3}, {At: 9}},
		}
		var errs [3]error
		r.Flags, errs[0] = allocate(q, 100)
		r.Values, errs[1] = allocate(q, 800)
		r.Scratch, errs[2] = allocate(q, int(r.ScratchBytes()))
		return r, errors.Join(errs[:]...)
	}
	checkRefusals(t, good, func(q *Queue, op op) error { return q.Run(&op) }, []badArg[op]{
		{"", func(*op) {}},
		{"", func(r *op) { r.Segments, r.Curves, r.Stops = nil, nil, nil }},
		{"", func(r *op) { r.Stops[1].At = 3 }},
		{"", func(r *op) { r.Stops[1].Values[2] = float32(math.NaN()) }}, // of a channel that there is not
		{"Width", func(r *op) { r.Width = 0 }},
		{"Height", func(r *op) { r.Height = driver.MaxSide + 1 }},
		{"Channels", func(r *op) { r.Channels = 5 }},
		{"Segments[1].X[3]", func(r *op) { r.Segments[1].X[3] = driver.MaxCurveCoord + 1 }},
		{"Segments[0].Y[0]", func(r *op) { r.Segments[0].Y[0] = -driver.MaxCurveCoord - 1 }},
		{"Segments[0].LogPieces", func(r *op) { r.Segments[0].LogPieces = 12 }},
		{"Segments[0].LogPieces", func(r *op) { r.Segments[0].LogPieces = 64 }},
		{"Segments[2].Curve", func(r *op) { r.Segments[2].Curve = 3 }},
		{"Segments[1]", func(r *op) { r.Segments[1].Start = 0 }},
		{"Segments[0]", func(r *op) { r.Segments = r.Segments[1:] }},
		{"Segments[2]", func(r *op) { slices.Reverse(r.Segments[1:]) }},
		{"Curves[2].Barrier", func(r *op) { r.Curves[2].Barrier = 2 }},
		{"Curves[0].Left", func(r *op) { r.Curves[0].Left.Count = 3 }},
		{"Curves[1].Right", func(r *op) { r.Curves[1].Right.First = math.MaxUint32; r.Curves[1].Right.Count = 1 }},
		{"Stops[1].At", func(r *op) { r.Stops[1].At = 2 }},
		{"Stops[1].Values[1]", func(r *op) { r.Stops[1].Values[1] = float32(math.NaN()) }},
		{"Stops[0].Values[0]", func(r *op) { r.Stops[0].Values[0] = float32(math.Inf(-1)) }},
		{"Flags", func(r *op) { r.Flags.Len-- }},
		{"Values", func(r *op) { r.Channels = 1 }},
		{"Scratch", func(r *op) { r.Scratch.Len-- }},
		{"Flags.Off", func(r *op) { r.Flags.Off++ }},
		{"Values.Mem", func(r *op) { r.Values.Mem = nil }},
		{"Scratch", func(r *op) { r.Scratch.Off = 1 << 20 }},
	})
}

func TestBlurChecks(t *testing.T) {
	type op = driver.Blur
	good := func(q *Queue) (op, error) {
		r := op{Width: 20, Height: 5, Channels: 2, Scale: 1}
		var errs [4]error
		r.Src, errs[0] = allocate(q, 800)
		r.Sigma, errs[1] = allocate(q, 400)
		r.Dst, errs[2] = allocate(q, 800)
		r.Scratch, errs[3] = allocate(q, int(r.ScratchBytes()))
		return r, errors.Join(errs[:]...)
	}
	checkRefusals(t, good, func(q *Queue, op op) error { return q.Run(&op) }, []badArg[op]{
		{"", func(*op) {}},
		{"", func(r *op) { r.Sigma = r.Src; r.Sigma.Off += 400; r.Sigma.Len = 400 }},
		{"Width", func(r *op) { r.Width = -1 }},
		{"Height", func(r *op) { r.Height = 0 }},
		{"Channels", func(r *op) { r.Channels = 0 }},
		{"Scale", func(r *op) { r.Scale = 0 }},
		{"Scale", func(r *op) { r.Scale = float32(math.NaN()) }},
		{"Scale", func(r *op) { r.Scale = float32(math.Inf(1)) }},
		{"Src", func(r *op) { r.Src.Len-- }},
		{"Sigma", func(r *op) { r.Sigma.Len += 4 }},
		{"Dst", func(r *op) { r.Height, r.Width = 4, 25; r.Dst.Len++ }},
		{"Scratch", func(r *op) { r.Scratch.Len-- }},
		{"Src.Off", func(r *op) { r.Src.Off += 4 }},
		{"Sigma.Off", func(r *op) { r.Sigma.Off++ }},
		{"Dst", func(r *op) { r.Dst = r.Src }},
		{"Dst", func(r *op) { r.Sigma = r.Dst; r.Sigma.Len = 400 }},
	})
}
