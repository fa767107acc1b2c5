// The last level of diffusion with barriers, which is solved exactly: by Cholesky factors, without square roots.

package cpu

// deadPivot is the largest part of its diagonal that rounding leaves of a pivot that is none: of nodes that nothing
// flows away from.
const deadPivot = 1e-6

// lowerTriangle is the size of the lower triangle of a matrix, whose rows are kept one after the other.
func lowerTriangle(n int) int { return n * (n + 1) / 2 }

// factor factors the operator of a level: L D L', of which L is below the diagonal, and on it is the inverse of D, or 0
// where there is none.
func (g *graph) factor(l *graphLevel) {
	m := g.dense[:lowerTriangle(l.n)]
	clear(m)
	row := func(i int) []float64 { return m[lowerTriangle(i):][:i+1] }
	var scaled [graphDense]float64
	for i := range l.n {
		r := row(i)
		r[i] = float64(l.sink[i])
		for _, e := range l.edges(i) {
			r[i] += float64(e.weight)
			if int(e.to) < i {
				r[e.to] -= float64(e.weight)
			}
		}
		whole := r[i]
		for j := range i {
			o := row(j)
			v := r[j]
			for k, x := range scaled[:j] {
				v -= x * o[k]
			}
			scaled[j] = v // the entry of L D
			r[j] = v * o[j]
		}
		for j, x := range scaled[:i] {
			r[i] -= x * r[j]
		}
		if r[i] > deadPivot*whole {
			r[i] = 1 / r[i]
		} else {
			r[i] = 0
		}
	}
}

// solveDense solves for l.b, into l.x.
func (g *graph) solveDense(l *graphLevel) {
	m := g.dense
	var x [graphDense][len(nodeValues{})]float64
	for i := range l.n {
		r := m[lowerTriangle(i):][:i+1]
		v := &x[i]
		for c, b := range l.b[i] {
			v[c] = float64(b)
		}
		for j, a := range r[:i] {
			for c := range v {
				v[c] -= a * x[j][c]
			}
		}
	}
	for i := range l.n {
		for c := range x[i] {
			x[i][c] *= m[lowerTriangle(i)+i]
		}
	}
	for i := l.n - 1; i >= 0; i-- {
		r := m[lowerTriangle(i):][:i+1]
		for j, a := range r[:i] {
			for c := range x[j] {
				x[j][c] -= a * x[i][c]
			}
		}
		for c, v := range x[i] {
			l.x[i][c] = float32(v)
		}
	}
}
