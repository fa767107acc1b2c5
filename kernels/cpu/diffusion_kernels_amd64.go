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
func sweepRowAVX2(dst, up, x, down, inv *float32, n int, weight float32)

// The pixels left and right of the rows and the 16 after those are read, too.
//
//go:noescape
func sweepPairsAVX512(x *[rowSlots][ringRow]float32, inv *[invSlots][ringRow]float32, slot, equations, sweeps, n int,
	weights *float32)

// The pixels left and right of the rows and the 8 after those are read, too.
//
//go:noescape
func sweepPairsAVX2(x *[rowSlots][ringRow]float32, inv *[invSlots][ringRow]float32, slot, equations, sweeps, n int,
	weights *float32)

// Its weight is 1.
//
//go:noescape
func sweepWallsAVX2(dst, up, x, down, inv *float32, open *uint8, n int)

// n is a multiple of apartLanes.
//
//go:noescape
func apartByAVX2(sums, most *[apartLanes]float32, a, b *float32, n int)

// fetch asks for memory that is read soon.
func fetch(a []float32) {
	if len(a) > 0 {
		prefetch(&a[0], len(a))
	}
}

//go:noescape
func prefetch(a *float32, n int)

// sweepRow is sweepRowGo. It may change what is behind the pixels, up to a multiple of 16.
func sweepRow(dst, up, x, down, inv *[ringRow]float32, open *[ringRow]uint8, n int, weight float32, walls bool) {
	if simd < levelAVX2 {
		sweepRowGo(dst, up, x, down, inv, open, n, weight, walls)
		return
	}
	n = (n + 15) &^ 15
	d, u, v, w := &dst[ringPad], &up[ringPad], &x[ringPad], &down[ringPad]
	if walls {
		sweepWallsAVX2(d, u, v, w, &inv[0], &open[0], n)
	} else {
		sweepRowAVX2(d, u, v, w, &inv[0], n, weight)
	}
}

// sweepsInPairs reports whether there is sweepPairs for images without walls.
func sweepsInPairs() bool { return simd >= levelAVX2 }

// sweepPairs replaces rows y and y+1 after t-1 sweeps as sweepRow does, then the rows above each as they are after t,
// and so on, once for each weight. All have rows above and below. The difference between the two is computed once, and
// so is the one between neighbours within a row. The pixels left and right of a row are copies of its first and last
// then.
func sweepPairs(r *sweepRows, y, t int, weights []float32, n int) {
	slot, equations := (y-t+rowSlots)%rowSlots, y%invSlots
	if simd < levelAVX512 {
		sweepPairsAVX2(&r.x, &r.inv, slot, equations, len(weights), n, &weights[0])
	} else {
		sweepPairsAVX512(&r.x, &r.inv, slot, equations, len(weights), n, &weights[0])
	}
}

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
