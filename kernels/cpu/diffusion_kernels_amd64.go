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

// n is a multiple of 16. x[-1] and x[n] are read, too. dst is apart from x and down.
//
//go:noescape
func sweepRowAVX2(dst, up, x, down, inv *float32, n int)

//go:noescape
func sweepWaveAVX512(x *[rowSlots][ringRow]float32, masks *[passSweeps + 1][ringRow / 16]uint16,
	weights *[ringRow]float32, slot, equations, sweeps, n int)

//go:noescape
func equationsAVX512(mask *[ringRow / 16]uint16, inv *[ringRow]float32)

//go:noescape
func sweepWallsAVX2(dst, up, x, down, inv *float32, open *uint8, n int)

// n is a multiple of apartLanes.
//
//go:noescape
func apartByAVX2(sums, most *[apartLanes]float32, a, b *float32, n int)

// fetch asks for memory that is read or written soon.
func fetch(a []float32) {
	if len(a) > 0 {
		prefetch(&a[0], len(a))
	}
}

//go:noescape
func prefetch(a *float32, n int)

// sweepRow is sweepRowGo. It may change what is behind the pixels, up to a multiple of 16.
func sweepRow(dst, up, x, down, inv *[ringRow]float32, open *[ringRow]uint8, n int, walls bool) {
	if simd < levelAVX2 {
		sweepRowGo(dst, up, x, down, inv, open, n, walls)
		return
	}
	n = (n + 15) &^ 15
	d, u, v, w := &dst[ringPad], &up[ringPad], &x[ringPad], &down[ringPad]
	if walls {
		sweepWallsAVX2(d, u, v, w, &inv[0], &open[0], n)
	} else {
		sweepRowAVX2(d, u, v, w, &inv[0], n)
	}
}

// sweepsInWaves reports whether there is sweepWave for images without walls.
func sweepsInWaves() bool { return simd >= levelAVX512 }

// sweepWave replaces rows as sweepRow does, each by one sweep more than the one before and a row above it. The first is
// in the slot; all have rows above and below. masks say which pixels have an equation, from that of the first row on
// backwards, and weights what they take of the differences. The pixels left and right of a row are copies of its first
// and last then.
func sweepWave(r *sweepRows, weights *[ringRow]float32, slot, equations, sweeps, n int) {
	sweepWaveAVX512(&r.x, &r.masks, weights, slot, equations, sweeps, n)
}

// equationMask says which pixels of a row have an equation.
func equationMask(mask *[ringRow / 16]uint16, inv *[ringRow]float32) { equationsAVX512(mask, inv) }

// apartBySIMD is apartByGo for as many values as it returns.
func apartBySIMD(sums, most *[apartLanes]float32, a, b []float32) int {
	n := len(a) / apartLanes * apartLanes
	if simd < levelAVX2 || n == 0 {
		return 0
	}
	apartByAVX2(sums, most, &a[0], &b[:n][0], n)
	return n
}

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
