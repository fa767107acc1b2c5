package cpu

import (
	"math"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/seed"
)

// What the last level is solved to fulfils its equations, also where those don't say what is the case.
func TestDiffusionDense(t *testing.T) {
	for _, s := range devicetest.BarrierScenes(4, 60) {
		g := setUpGraph(t, 1, s)
		last := -1
		for g.table[last+1] > 0 {
			last++
		}
		if last < 0 {
			continue // closed pixels are no nodes
		}
		l := g.level(last)
		if l.n > graphDense {
			t.Errorf("%s: the last level has %d nodes", s.Name, l.n)
			continue
		}
		// Of something, as two nodes may say the same of what is finer: then not every right side has a solution.
		l.x, l.b = make([]nodeValues, l.n), make([]nodeValues, l.n)
		a := operatorMatrix(&l)
		r := seed.New(t, 1, 2)
		for j := range l.n {
			for c := range l.b[j] {
				x := r.Float32() - 0.5
				for i := range a {
					l.b[i][c] += x * float32(a[i][j])
				}
			}
		}
		g.solveDense(&l)
		for i, row := range a {
			for c := range l.b[i] {
				sum, size := 0.0, 1.0
				for j, v := range row {
					sum += v * float64(l.x[j][c])
					size += math.Abs(v * float64(l.x[j][c]))
				}
				if off := math.Abs(sum - float64(l.b[i][c])); off > 1e-5*size {
					t.Fatalf("%s: row %d of %d is off by %v", s.Name, i, l.n, off)
				}
			}
		}
	}
	g := &graph{dense: make([]float64, lowerTriangle(2))}
	closed := &graphLevel{
		n: 2, rows: []graphRow{{0, 1}, {1, 2}}, sink: []float32{0, 0},
		pool: &graphPool{edges: []graphEdge{{1, 0.5}, {0, 0.5}}},
		x:    make([]nodeValues, 2), b: []nodeValues{{1}, {-1}},
	}
	g.factor(closed)
	if g.solveDense(closed); closed.x[0][0]-closed.x[1][0] != 2 {
		t.Errorf("where nothing flows away: %v", closed.x)
	}
}
