package kernels

import (
	"context"
	"errors"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

// The ops that make a triangulation of a Voronoi diagram: what the front lets through keeps its promises to backends
// (the fake driver checks them); what it refuses names the field.

// meshOps are the arguments of the four ops, over the same memory.
type meshOps struct {
	islands driver.Islands
	dual    driver.DualTriangles
	hull    driver.HullCompletion
	flips   driver.Flips
}

func newMeshOps(q *Queue) (m meshOps, err error) {
	const n, w, h = 10, 40, 25
	alloc := func(bytes int) (s driver.Slice) {
		if err == nil {
			var b Buffer[byte]
			b, err = Alloc[byte](q, bytes, "test")
			s = b.Slice()
		}
		return s
	}
	sites, labels, triangles, scratch := alloc(8*n), alloc(4*w*h), alloc(24*n), alloc(2000)
	count, counts, status := alloc(4), alloc(16), alloc(32)
	m.islands = driver.Islands{Sites: sites, N: n, Width: w, Height: h, Labels: labels, Count: count, Scratch: scratch}
	m.dual = driver.DualTriangles{Sites: sites, N: n, Width: w, Height: h, Labels: labels, Triangles: triangles,
		Counts: counts, Scratch: scratch}
	m.hull = driver.HullCompletion{Sites: sites, N: n, Width: w, Height: h, Labels: labels, Triangles: triangles,
		Counts: counts, Scratch: scratch}
	m.flips = driver.Flips{Points: sites, N: n, Triangles: triangles, Counts: counts, Rounds: 50, Status: status,
		Scratch: scratch}
	return m, err
}

func TestMeshChecks(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 1 << 20})
	type test struct {
		op, field string // field of the error; "": none
		spoil     func(m *meshOps)
	}
	tests := []test{
		{"Islands", "", func(*meshOps) {}},
		{"Islands", "", func(m *meshOps) { m.islands.N, m.islands.Sites.Len = 0, 0 }},
		{"Islands", "N", func(m *meshOps) { m.islands.N = -1 }},
		{"Islands", "N", func(m *meshOps) { m.islands.N = driver.MaxPoints + 1 }},
		{"Islands", "Width", func(m *meshOps) { m.islands.Width = 0 }},
		{"Islands", "Height", func(m *meshOps) { m.islands.Height = driver.MaxSide + 1 }},
		{"Islands", "Width, Height", func(m *meshOps) { m.islands.Width, m.islands.Height = 1<<16, 1<<16 }},
		{"Islands", "Sites", func(m *meshOps) { m.islands.Sites.Len-- }},
		{"Islands", "Sites.Off", func(m *meshOps) { m.islands.Sites.Off += 8 }},
		{"Islands", "Labels", func(m *meshOps) { m.islands.Width++ }},
		{"Islands", "Labels.Mem", func(m *meshOps) { m.islands.Labels.Mem = nil }},
		{"Islands", "Count", func(m *meshOps) { m.islands.Count.Len = 8 }},
		{"Islands", "Scratch", func(m *meshOps) { m.islands.Scratch.Len = 999 }},

		{"DualTriangles", "", func(*meshOps) {}},
		{"DualTriangles", "", func(m *meshOps) { m.dual.Width, m.dual.Height = 25, 40 }},
		{"DualTriangles", "N", func(m *meshOps) { m.dual.N = -1 }},
		{"DualTriangles", "Width", func(m *meshOps) { m.dual.Width = driver.MaxSide + 1 }},
		{"DualTriangles", "Sites", func(m *meshOps) { m.dual.Sites.Len = 72 }},
		{"DualTriangles", "Labels", func(m *meshOps) { m.dual.Labels.Len-- }},
		{"DualTriangles", "Labels.Off", func(m *meshOps) { m.dual.Labels.Off += 4 }},
		{"DualTriangles", "Triangles", func(m *meshOps) { m.dual.Triangles.Len -= 12 }},
		{"DualTriangles", "Triangles.Off", func(m *meshOps) { m.dual.Triangles.Off++ }},
		{"DualTriangles", "Counts", func(m *meshOps) { m.dual.Counts.Len = 4 }},
		{"DualTriangles", "Scratch", func(m *meshOps) { m.dual.Scratch.Off = -256 }},

		{"HullCompletion", "", func(*meshOps) {}},
		{"HullCompletion", "N", func(m *meshOps) { m.hull.N = driver.MaxPoints + 1 }},
		{"HullCompletion", "Height", func(m *meshOps) { m.hull.Height = -5 }},
		{"HullCompletion", "Sites.Mem", func(m *meshOps) { m.hull.Sites.Mem = nil }},
		{"HullCompletion", "Labels", func(m *meshOps) { m.hull.Height-- }},
		{"HullCompletion", "Triangles", func(m *meshOps) { m.hull.Triangles.Len += 12 }},
		{"HullCompletion", "Counts.Off", func(m *meshOps) { m.hull.Counts.Off += 16 }},
		{"HullCompletion", "Scratch", func(m *meshOps) { m.hull.Scratch.Len = 0 }},

		{"Flips", "", func(*meshOps) {}},
		{"Flips", "", func(m *meshOps) { m.flips.Rounds = driver.MaxFlipRounds }},
		{"Flips", "N", func(m *meshOps) { m.flips.N = -1 }},
		{"Flips", "Rounds", func(m *meshOps) { m.flips.Rounds = 0 }},
		{"Flips", "Rounds", func(m *meshOps) { m.flips.Rounds = driver.MaxFlipRounds + 1 }},
		{"Flips", "Points", func(m *meshOps) { m.flips.Points.Len++ }},
		{"Flips", "Triangles", func(m *meshOps) { m.flips.N++; m.flips.Points.Len += 8 }},
		{"Flips", "Counts", func(m *meshOps) { m.flips.Counts.Len = 32 }},
		{"Flips", "Status", func(m *meshOps) { m.flips.Status.Len = 16 }},
		{"Flips", "Status.Off", func(m *meshOps) { m.flips.Status.Off += 16 }},
		{"Flips", "Scratch", func(m *meshOps) { m.flips.Scratch.Len = 999 }},
	}
	for i, x := range tests {
		err := d.Do(context.Background(), Job{Label: "test", Footprint: 100 << 10}, func(q *Queue) error {
			m, err := newMeshOps(q)
			if err != nil {
				return err
			}
			x.spoil(&m)
			switch x.op {
			case "Islands":
				return q.Run(&m.islands)
			case "DualTriangles":
				return q.Run(&m.dual)
			case "HullCompletion":
				return q.Run(&m.hull)
			}
			return q.Run(&m.flips)
		})
		var arg *ArgError
		switch {
		case x.field == "" && err != nil:
			t.Errorf("%d: %v", i, err)
		case x.field != "" && (!errors.As(err, &arg) || arg.Field != x.field || arg.Op != x.op):
			t.Errorf("%d: %v, want an error about %s of %s", i, err, x.field, x.op)
		}
	}
	for _, op := range []driver.Op{
		&driver.Islands{N: -1, Width: 5, Height: 5}, &driver.DualTriangles{N: -1, Width: 5, Height: 5},
		&driver.HullCompletion{N: -1, Width: 5, Height: 5}, &driver.Flips{N: -1, Rounds: 1},
	} {
		if _, err := d.Scratch(op); err == nil {
			t.Error("scratch of -1 points: no error")
		}
	}
}
