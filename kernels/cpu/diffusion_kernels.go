// Inner loops of diffusion with barriers, for which there are instructions: those here are the twins that every machine
// can run. All compute the same bits.

package cpu

// rowFlowsGo computes the flow of the pixels from one to another of a row: the sum of the differences between what they
// take from and themselves. What is closed counts as a difference of 0.
func rowFlowsGo(dst, up, x, down []float32, open []uint8, from, to int) {
	n := len(open)
	dst, up, x, down = dst[:n], up[:n], x[:n], down[:n]
	const four = openRight | openLeft | openDown | openUp
	for i := from; i < to; i++ {
		v, o := x[i], open[i]
		if o&four == four && i > 0 && i+1 < n { // which it is then
			dst[i] = ((x[i+1] - v) + (x[i-1] - v)) + ((down[i] - v) + (up[i] - v))
			continue
		}
		var right, left, below, above float32
		if o&openRight != 0 {
			right = x[i+1] - v
		}
		if o&openLeft != 0 {
			left = x[i-1] - v
		}
		if o&openDown != 0 {
			below = down[i] - v
		}
		if o&openUp != 0 {
			above = up[i] - v
		}
		dst[i] = (right + left) + (below + above)
	}
}

// residualsGo computes r = b - A x at the nodes from one to another.
func (l *graphLevel) residualsGo(from, to int) {
	for i := from; i < to; i++ {
		own, rhs, sink := &l.x[i], &l.b[i], l.sink[i]
		a0, b0, c0, d0 := own[0], own[1], own[2], own[3]
		a, b, c, d := rhs[0]-sink*a0, rhs[1]-sink*b0, rhs[2]-sink*c0, rhs[3]-sink*d0
		for _, e := range l.edges(i) {
			v := &l.x[e.to]
			a += e.weight * (v[0] - a0)
			b += e.weight * (v[1] - b0)
			c += e.weight * (v[2] - c0)
			d += e.weight * (v[3] - d0)
		}
		l.r[i] = nodeValues{a, b, c, d}
	}
}
