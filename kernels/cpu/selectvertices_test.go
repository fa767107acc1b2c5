package cpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/driver"
)

// The conformance suite compares SelectVertices with its definition; here are arbitrary input, what the definition is
// to give, and its speed.

func newSelection(t testing.TB, threads int, c devicetest.Choice) (*fixture, driver.SelectVertices) {
	t.Helper()
	scratch, err := (&device{threads: threads}).Scratch(&driver.SelectVertices{N: c.N, Width: c.Width, Height: c.Height,
		VertexRule: c.Rule})
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, threads, int64(2*len(c.Edges)+8*len(c.Previous)+8*c.N)+scratch+6*driver.Align)
	op := driver.SelectVertices{
		Edges: f.upload(bytesOf(c.Edges)), Width: c.Width, Height: c.Height, VertexRule: c.Rule, N: c.N,
		Previous: f.upload(bytesOf(c.Previous)), NPrevious: len(c.Previous),
		Points: f.slice(8 * int64(c.N)), Count: f.slice(4), Scratch: f.slice(scratch),
	}
	return f, op
}

func selectVertices(t testing.TB, threads int, c devicetest.Choice) []driver.Point {
	t.Helper()
	f, op := newSelection(t, threads, c)
	f.ok(f.s.Run(&op))
	points := download[driver.Point](f, op.Points)
	return points[:download[uint32](f, op.Count)[0]]
}

func FuzzSelectVertices(f *testing.F) {
	for i, c := range devicetest.Choices(1, 8) {
		if c.Width < 256 && c.Height < 256 {
			f.Add(bytesOf(c.Edges), uint8(c.Width), uint64(i), uint16(c.Rule.Floor), uint8(c.Rule.Spacing),
				uint8(c.Rule.Border), uint8(c.Rule.Cell), uint16(c.N))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, w uint8, seed uint64, floor uint16, spacing, border, cell uint8, n uint16) {
		c := devicetest.Choice{Width: 1 + int(w)%64}
		if c.Height = min(len(b)/2/c.Width, 48); c.Height == 0 {
			return
		}
		for i := range c.Width * c.Height {
			c.Edges = append(c.Edges, binary.LittleEndian.Uint16(b[2*i:]))
		}
		for i := 0; i+1 < min(len(b), 40); i += 2 {
			c.Previous = append(c.Previous, driver.Point{X: int32(b[i]), Y: int32(b[i+1])})
		}
		c.Rule = driver.VertexRule{
			Seed: seed, Floor: 1 + int(floor), Spacing: int(spacing) % 16, Border: 1 + int(border), Cell: int(cell),
			Strength: int(seed % 64),
		}
		if c.Rule.Cell <= c.Rule.Spacing {
			c.Rule.Cell = 0
		}
		c.N = 2*((c.Width+c.Rule.Border-1)/c.Rule.Border+(c.Height+c.Rule.Border-1)/c.Rule.Border) + int(n)
		if c.Rule.Cell > 0 {
			c.N += ((c.Width + c.Rule.Cell - 1) / c.Rule.Cell) * ((c.Height + c.Rule.Cell - 1) / c.Rule.Cell)
		}
		want := devicetest.ChooseVertices(c.Edges, c.Width, c.Height, c.N, c.Rule, c.Previous)
		if d := devicetest.CompareVertices(selectVertices(t, 2, c), want); d != nil {
			t.Fatal(d)
		}
	})
}

// What the doc comment promises about the vertices, rather than how they are found: their number, their distance, the
// corners, and one in each cell.
func TestSelectVerticesPromises(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := devicetest.Choice{Width: rapid.IntRange(1, 150).Draw(r, "width"),
			Height: rapid.IntRange(1, 150).Draw(r, "height")}
		c.Rule = driver.VertexRule{
			Seed: rapid.Uint64().Draw(r, "seed"), Floor: rapid.IntRange(1, 500).Draw(r, "floor"),
			Spacing: rapid.IntRange(0, 7).Draw(r, "spacing"), Border: rapid.IntRange(1, 200).Draw(r, "border"),
		}
		c.Rule.Cell = rapid.IntRange(2*c.Rule.Spacing+2, 60).Draw(r, "cell")
		ramp := rapid.IntRange(0, 50).Draw(r, "ramp")
		for i := range c.Width * c.Height {
			c.Edges = append(c.Edges, uint16(i%c.Width*ramp%2040))
		}
		cells := ((c.Width + c.Rule.Cell - 1) / c.Rule.Cell) * ((c.Height + c.Rule.Cell - 1) / c.Rule.Cell)
		border := 2 * ((c.Width+c.Rule.Border-1)/c.Rule.Border + (c.Height+c.Rule.Border-1)/c.Rule.Border)
		side := c.Rule.Spacing + 1
		// A square of twice the spacing around each vertex is all that can be lost to it.
		sure := max(c.Width-1-2*c.Rule.Spacing, 0) * max(c.Height-1-2*c.Rule.Spacing, 0) / (4 * side * side) / 4
		extra := rapid.IntRange(0, sure).Draw(r, "extra")
		c.N = border + cells + extra
		v := selectVertices(t, 1, c)
		if len(v) > c.N || len(v) < border+extra {
			r.Fatalf("%d vertices, %d are wanted", len(v), c.N)
		}
		for _, p := range []driver.Point{{}, {X: int32(c.Width)}, {Y: int32(c.Height)},
			{X: int32(c.Width), Y: int32(c.Height)}} {
			if !slices.Contains(v, p) {
				r.Fatalf("%v is missing", p)
			}
		}
		has := map[[2]int]bool{}
		inside := 0
		for i, p := range v {
			if p.X <= 0 || int(p.X) >= c.Width || p.Y <= 0 || int(p.Y) >= c.Height {
				continue
			}
			inside++
			has[[2]int{int(p.X) / c.Rule.Cell, int(p.Y) / c.Rule.Cell}] = true
			for j, q := range v {
				if dx, dy := p.X-q.X, p.Y-q.Y; i != j && int(max(dx, -dx, dy, -dy)) <= c.Rule.Spacing {
					r.Fatalf("%v and %v are within %d", p, q, c.Rule.Spacing)
				}
			}
		}
		if inside+border != len(v) {
			r.Fatalf("%d of %d are inside, %d should be on the border", inside, len(v), border)
		}
		for y := range c.Height / c.Rule.Cell {
			for x := range c.Width / c.Rule.Cell {
				// Cells that are whole and have columns and rows of candidates that take part.
				if (x+1)*c.Rule.Cell+1 < c.Width && (y+1)*c.Rule.Cell+1 < c.Height && !has[[2]int{x, y}] {
					r.Fatalf("no vertex in cell (%d, %d)", x, y)
				}
			}
		}
	})
}

// Candidates are chosen in proportion to their weights while few are, and by chance: seeds give other ones.
func TestSelectVerticesFollowsWeights(t *testing.T) {
	const w, h, n, seeds = 100, 100, 204, 60
	c := devicetest.Choice{Width: w, Height: h, N: n, Rule: driver.VertexRule{Floor: 100, Border: w}}
	for i := range w * h {
		c.Edges = append(c.Edges, uint16(i%w/(w/2)*75)) // weights of 100 on the left, and of 400 on the right
	}
	left, right := 0, 0
	counts := map[driver.Point]int{}
	for seed := range uint64(seeds) {
		c.Rule.Seed = seed
		for _, p := range selectVertices(t, 1, c) {
			counts[p]++
			switch {
			case p.X == 0 || p.X == w:
			case p.X < w/2:
				left++
			case p.X > w/2:
				right++
			}
		}
	}
	// Poisson's spread, five times.
	if ratio := float64(right) / float64(left); math.Abs(ratio-4) > 5*4*math.Sqrt(1/float64(left)+1/float64(right)) {
		t.Errorf("%d of weight 100 and %d of weight 400 were chosen, a ratio of %.2f", left, right, ratio)
	}
	for p, k := range counts {
		if k > 12 && k < seeds {
			t.Errorf("%v was chosen %d times", p, k)
		}
	}
}

// With hysteresis, vertices stay where they are in a picture that has noise.
func TestSelectVerticesHysteresis(t *testing.T) {
	const w, h, n = 200, 150, 400
	frame := func(k int) (e []uint16) {
		for i := range w * h {
			e = append(e, uint16(mix(uint64(i))%300+mix(uint64(k*w*h+i))%100))
		}
		return e
	}
	kept := func(strength int) (kept int) {
		c := devicetest.Choice{Width: w, Height: h, N: n,
			Rule: driver.VertexRule{Seed: 1, Floor: 32, Border: 50, Spacing: 2, Cell: 30, Strength: strength}}
		for k := range 5 {
			c.Edges = frame(k)
			v := selectVertices(t, 1, c)
			for _, p := range v {
				if slices.Contains(c.Previous, p) {
					kept++
				}
			}
			c.Previous = v
		}
		return kept
	}
	without, with := kept(0), kept(3)
	if with < 4*n*98/100 || without > with {
		t.Errorf("%d of %d vertices stayed, %d without hysteresis", with, 4*n, without)
	}
}

func TestNth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfNDistinct(rapid.Uint64(), 1, 300, rapid.ID).Draw(t, "ranks")
		n := rapid.IntRange(0, len(v)-1).Draw(t, "n")
		p := newPace(new(stopFlag))
		got, ok := nth(slices.Clone(v), make([]rank, len(v)), n, &p)
		slices.Sort(v)
		if got != v[n] || !ok {
			t.Fatalf("number %d is %d, want %d", n, got, v[n])
		}
	})
}

func BenchmarkSelectVertices(b *testing.B) {
	const w, h = 1920, 1080
	for _, n := range []int{2500, 20_000} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%dx%d/vertices=%d/threads=%d", w, h, n, threads), func(b *testing.B) {
				c := devicetest.Choice{Width: w, Height: h, N: n}
				apart := int(math.Sqrt(w * h / float64(n)))
				c.Rule = driver.VertexRule{Seed: 1, Floor: 32, Spacing: apart / 5, Border: 2 * apart, Cell: 4 * apart}
				for i := range w * h {
					c.Edges = append(c.Edges, uint16(mix(uint64(i))%64))
				}
				f, op := newSelection(b, threads, c)
				for b.Loop() {
					if err := errors.Join(f.s.Run(&op), f.s.Wait(context.Background())); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(w*h)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mpx/s")
			})
		}
	}
}
