//go:build !purego

package cpu

// flowsStep is how many pixels rowFlowsAVX2 takes at a time.
const flowsStep = 8

// n is a multiple of flowsStep; reads x[-1] and x[n], too. dst is apart from the others.
//
//go:noescape
func rowFlowsAVX2(dst, up, x, down *float32, open *uint8, n int)

// What rows and edges refer to is not checked. dst is apart from the others.
//
//go:noescape
func nodeResidualsAVX2(dst, x, b *nodeValues, sink *float32, rows *graphRow, edges *graphEdge, from, to int)

func rowFlows(dst, up, x, down []float32, open []uint8) {
	n := len(open)
	if simd < levelAVX2 || n < flowsStep+2 {
		rowFlowsGo(dst, up, x, down, open, 0, n)
		return
	}
	dst, up, x, down = dst[:n], up[:n], x[:n], down[:n]
	inner := (n - 2) / flowsStep * flowsStep
	rowFlowsGo(dst, up, x, down, open, 0, 1)
	rowFlowsAVX2(&dst[1], &up[1], &x[1], &down[1], &open[1], inner)
	rowFlowsGo(dst, up, x, down, open, 1+inner, n)
}

func (l *graphLevel) residuals(from, to int) {
	if simd < levelAVX2 || from >= to {
		l.residualsGo(from, to)
		return
	}
	n := to
	nodeResidualsAVX2(&l.r[:n][0], &l.x[:n][0], &l.b[:n][0], &l.sink[:n][0], &l.rows[:n][0], &l.pool.edges[0], from, to)
}
