// The suite: vertex selection.

package devicetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Choice is what vertices are chosen by.
type Choice struct {
	Name          string
	Width, Height int
	Edges         []uint16
	N             int
	Rule          driver.VertexRule
	Previous      []driver.Point
}

// Choices are what vertex selection is tested on: the edges of [Pictures], with rules of every kind, and edges that no
// picture has.
func Choices(seed uint64, random int) []Choice {
	r := rand.New(rand.NewPCG(seed, 17))
	var out []Choice
	for i, p := range Pictures(seed, random) {
		c := Choice{Name: p.Name, Width: p.Width, Height: p.Height, Edges: p.Edges()}
		c.Rule = driver.VertexRule{
			Seed: r.Uint64() >> r.IntN(65), Floor: 1 + r.IntN(1<<r.IntN(17)), Border: 1 +
				r.IntN(max(c.Width, c.Height)+10),
			Spacing: r.IntN(1 + i%9), Strength: r.IntN(64) * (i % 2),
		}
		switch i % 4 {
		case 0:
			c.Rule.Cell = c.Rule.Spacing + 1 + r.IntN(40)
		case 1:
			c.Rule.Border = 1 << 20
		case 2:
			for j := range c.Edges {
				c.Edges[j] = uint16(r.Uint32())
			}
		}
		columns, rows := (c.Width+c.Rule.Border-1)/c.Rule.Border, (c.Height+c.Rule.Border-1)/c.Rule.Border
		c.N = 2 * (columns + rows)
		if c.Rule.Cell > 0 {
			c.N += ((c.Width + c.Rule.Cell - 1) / c.Rule.Cell) * ((c.Height + c.Rule.Cell - 1) / c.Rule.Cell)
		}
		c.N += r.IntN(1+c.Width*c.Height>>r.IntN(8)) * (i % 5) / 4
		for range r.IntN(100) {
			c.Previous = append(c.Previous,
				driver.Point{X: r.Int32N(int32(c.Width)+9) - 4, Y: r.Int32N(int32(c.Height)+9) - 4})
		}
		c.Name = fmt.Sprintf("%d of %s by %+v after %d", c.N, c.Name, c.Rule, len(c.Previous))
		out = append(out, c)
	}
	return out
}

// vertices checks choices against the oracle.
func (s Suite) vertices(t T, dev driver.Device) {
	if _, err := dev.Scratch(&driver.SelectVertices{N: 4, Width: 1, Height: 1, VertexRule: driver.VertexRule{Floor: 1,
		Border: 1}}); errors.Is(err,
		driver.ErrNotSupported) {
		t.Logf("%s lacks the op: %v", s.Driver.Name(), err)
		return
	}
	r := newRig(t, dev)
	defer r.close(t)
	for _, c := range Choices(s.Seed, s.Random/4) {
		got, err := r.vertices(t, c)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		want := ChooseVertices(c.Edges, c.Width, c.Height, c.N, c.Rule, c.Previous)
		if d := CompareVertices(got, want); d != nil {
			t.Errorf("%s: %v", c.Name, d)
			continue
		}
		for i, p := range got[len(got):cap(got)] {
			if p != (driver.Point{}) {
				t.Errorf("%s: place %d behind the vertices is %v", c.Name, i, p)
				break
			}
		}
	}
}

// vertices runs one SelectVertices. Behind the vertices that it returns is what else was written.
func (r *rig) vertices(t T, c Choice) ([]driver.Point, error) {
	t.Helper()
	scratch, err := r.dev.Scratch(&driver.SelectVertices{N: c.N, Width: c.Width, Height: c.Height, VertexRule: c.Rule})
	if err != nil {
		return nil, err
	}
	r.reserve(t, 5, int64(2*len(c.Edges)+8*len(c.Previous)+8*c.N+4)+scratch)
	op := driver.SelectVertices{Width: c.Width, Height: c.Height, VertexRule: c.Rule, N: c.N,
		NPrevious: len(c.Previous)}
	op.Edges = r.slice(t, 2*int64(len(c.Edges)), 0)
	op.Previous = r.slice(t, 8*int64(len(c.Previous)), 0)
	op.Points = r.slice(t, 8*int64(c.N), 0)
	op.Count = r.slice(t, 4, 0)
	op.Scratch = r.slice(t, scratch, 0)
	r.upload(t, op.Edges, bytesOf(c.Edges))
	if len(c.Previous) > 0 {
		r.upload(t, op.Previous, bytesOf(c.Previous))
	}
	for _, dirty := range []driver.Slice{op.Points, op.Count, op.Scratch} {
		r.fill(t, dirty, dirtyByte)
	}
	r.wait(t)
	if err := errors.Join(r.stream.Run(&op), r.stream.Wait(context.Background())); err != nil {
		return nil, err
	}
	var count [1]uint32
	out := make([]driver.Point, c.N)
	r.download(t, bytesOf(count[:]), op.Count)
	r.download(t, bytesOf(out), op.Points)
	r.wait(t)
	r.checkGuards(t)
	if int(count[0]) > len(out) {
		return nil, fmt.Errorf("%d vertices, %d were wanted", count[0], c.N)
	}
	return out[:count[0]], nil
}
