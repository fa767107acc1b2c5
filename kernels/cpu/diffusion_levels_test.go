package cpu

import (
	"math"
	"slices"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
)

// denseMatrix is an oracle's.
type denseMatrix [][]float64

func newDense(rows, columns int) denseMatrix {
	m := make(denseMatrix, rows)
	for i := range m {
		m[i] = make([]float64, columns)
	}
	return m
}

// pixelMatrices are the image's operator, and P by its definition: constant on nodes, smoothed by a step of Jacobi.
func pixelMatrices(g *graph, nodes int) (a, p denseMatrix) {
	n := g.w * g.h
	a, p = newDense(n, n), newDense(n, nodes)
	for i := range n {
		for _, j := range g.around(i) {
			if j < 0 {
				continue
			}
			a[i][i]++
			if g.inv[j] != 0 {
				a[i][j]--
			}
		}
		if own := g.parent[i]; own >= 0 {
			p[i][own]++
			for _, j := range g.around(i) {
				if j >= 0 {
					p[i][own] -= graphSmooth * float64(g.inv[i])
				}
				if j >= 0 && g.parent[j] >= 0 {
					p[i][g.parent[j]] += graphSmooth * float64(g.inv[i])
				}
			}
		}
	}
	return a, p
}

func operatorMatrix(l *graphLevel) denseMatrix {
	a := newDense(l.n, l.n)
	for i := range l.n {
		a[i][i] += float64(l.sink[i])
		for _, e := range l.edges(i) {
			a[i][i] += float64(e.weight)
			a[i][e.to] -= float64(e.weight)
		}
	}
	return a
}

func rowsMatrix(n, columns int, row func(i int) []graphEdge) denseMatrix {
	m := newDense(n, columns)
	for i := range n {
		for _, e := range row(i) {
			m[i][e.to] += float64(e.weight)
		}
	}
	return m
}

// differ is the largest difference of what should be the same.
func (p denseMatrix) differ(other denseMatrix) (most float64) {
	for i, row := range p {
		for j, v := range row {
			most = max(most, math.Abs(v-other[i][j]))
		}
	}
	return most
}

// triple is p' a p.
func (p denseMatrix) triple(a denseMatrix) denseMatrix {
	columns := len(p[0])
	product, out := newDense(len(p), columns), newDense(columns, columns)
	for i, row := range a {
		for j, v := range row {
			for k := 0; v != 0 && k < columns; k++ {
				product[i][k] += v * p[j][k]
			}
		}
	}
	for i, row := range p {
		for k, v := range row {
			for m := 0; v != 0 && m < columns; m++ {
				out[k][m] += v * product[i][m]
			}
		}
	}
	return out
}

func (p denseMatrix) transposed() denseMatrix {
	out := newDense(len(p[0]), len(p))
	for i, row := range p {
		for j, v := range row {
			out[j][i] = v
		}
	}
	return out
}

// Each level is P' A P of the one before, also amid pixels with nothing near, where rows are copied.
func TestDiffusionLevels(t *testing.T) {
	empty := devicetest.NewScene("nearly empty", 33, 30, 1)
	empty.Fix(1, 1, 1)
	empty.Block(30, 20, true)
	large := devicetest.NewScene("large and nearly empty", 79, 70, 1) // amid nodes, too
	large.Fix(1, 1, 1)
	large.Block(74, 66, true)
	const close = 1e-5
	for _, s := range append(devicetest.BarrierScenes(3, 50), empty, large) {
		g := setUpGraph(t, 2, s)
		for k := 0; g.table[k] > 0; k++ {
			next := g.level(k)
			if s == large {
				if k == 1 && !slices.Contains(next.regular, true) {
					t.Errorf("%s: no row of level %d is copied", s.Name, k+1)
				}
				if k == 0 || next.n > 1000 {
					continue // too large for the oracle
				}
			}
			var a, p denseMatrix
			if k == 0 {
				a, p = pixelMatrices(g, next.n)
			} else {
				l := g.level(k - 1)
				a, p = operatorMatrix(&l), rowsMatrix(l.n, next.n, l.prolong)
				if off := p.transposed().differ(rowsMatrix(next.n, l.n, next.restrict)); off != 0 {
					t.Errorf("%s, level %d: P' is not P, transposed: off by %v", s.Name, k+1, off)
				}
			}
			if off := p.triple(a).differ(operatorMatrix(&next)); !(off < close) {
				t.Errorf("%s, level %d of %d nodes: off by %v from P' A P", s.Name, k+1, next.n, off)
			}
		}
	}
}
