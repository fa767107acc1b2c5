package kernels

import (
	"context"
	"errors"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

func TestSelectVerticesChecks(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 1 << 20})
	tests := []struct {
		field string // of the error; "": none
		spoil func(op *driver.SelectVertices)
	}{
		{"", func(*driver.SelectVertices) {}},
		{"", func(op *driver.SelectVertices) { op.NPrevious, op.Previous = 0, driver.Slice{} }},
		{"", func(op *driver.SelectVertices) { op.Cell = 0 }},
		{"", func(op *driver.SelectVertices) { op.N, op.Points.Len = 26+6, 8*32 }},
		{"N", func(op *driver.SelectVertices) { op.N, op.Points.Len = 25+6, 8*31 }},
		{"N", func(op *driver.SelectVertices) { op.N = -1 }},
		{"N", func(op *driver.SelectVertices) { op.N = driver.MaxPoints + 1 }},
		{"N", func(op *driver.SelectVertices) { op.Border = 1 }},
		{"Width", func(op *driver.SelectVertices) { op.Width = 0 }},
		{"Height", func(op *driver.SelectVertices) { op.Height = driver.MaxSide + 1 }},
		{"Width, Height", func(op *driver.SelectVertices) { op.Width, op.Height = 1<<16, 1<<16 }},
		{"Floor", func(op *driver.SelectVertices) { op.Floor = 0 }},
		{"Floor", func(op *driver.SelectVertices) { op.Floor = driver.MaxVertexFloor + 1 }},
		{"Spacing", func(op *driver.SelectVertices) { op.Spacing = -1 }},
		{"Spacing", func(op *driver.SelectVertices) { op.Spacing = driver.MaxVertexSpacing + 1 }},
		{"Border", func(op *driver.SelectVertices) { op.Border = 0 }},
		{"Border", func(op *driver.SelectVertices) { op.Border = driver.MaxSide + 1 }},
		{"Cell", func(op *driver.SelectVertices) { op.Cell = 2 }},
		{"Cell", func(op *driver.SelectVertices) { op.Cell = -1 }},
		{"Strength", func(op *driver.SelectVertices) { op.Strength = driver.MaxVertexStrength + 1 }},
		{"NPrevious", func(op *driver.SelectVertices) { op.NPrevious = -1 }},
		{"Previous", func(op *driver.SelectVertices) { op.NPrevious-- }},
		{"Edges", func(op *driver.SelectVertices) { op.Width-- }},
		{"Edges.Mem", func(op *driver.SelectVertices) { op.Edges.Mem = nil }},
		{"Points", func(op *driver.SelectVertices) { op.N++ }},
		{"Points.Off", func(op *driver.SelectVertices) { op.Points.Off += 8 }},
		{"Count", func(op *driver.SelectVertices) { op.Count.Len = 8 }},
		{"Scratch", func(op *driver.SelectVertices) { op.Scratch.Len = 999 }},
		{"Scratch", func(op *driver.SelectVertices) { op.Scratch.Off = -256 }},
	}
	for i, x := range tests {
		err := d.Do(context.Background(), Job{Label: "test", Footprint: 100 << 10}, func(q *Queue) error {
			edges, err := Alloc[uint16](q, 1000, "edges")
			if err != nil {
				return err
			}
			points, err := Alloc[driver.Point](q, 75, "points")
			if err != nil {
				return err
			}
			count, err := Alloc[uint32](q, 1, "count")
			if err != nil {
				return err
			}
			scratch, err := Alloc[byte](q, 2000, "scratch")
			if err != nil {
				return err
			}
			op := driver.SelectVertices{
				Edges: edges.Slice(), Width: 40, Height: 25, N: 75, Points: points.Slice(), Count: count.Slice(),
				Scratch: scratch.Slice(),
				// 26 on the border, 3x2 cells
				VertexRule: driver.VertexRule{Floor: 10, Spacing: 2, Border: 5, Cell: 15},
				Previous:   points.Range(0, 20).Slice(), NPrevious: 20,
			}
			x.spoil(&op)
			return q.Run(&op)
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
