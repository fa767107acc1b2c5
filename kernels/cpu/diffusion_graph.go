// Diffusion with barriers: conjugate gradients, preconditioned by smoothed aggregation. The pixels of a 2x2 block that
// open edges connect within the block become one node of a coarser graph, and so on: pixels on two sides of a barrier
// are never one node before a way around it is.
//
// A level's operator is kept as off-diagonal weights w and sinks s: row i is s x_i + sum of w (x_i - x_j), whose digits
// don't cancel where little flows away. P, from a level to the finer one, is constant on nodes, then smoothed by a step
// of Jacobi; the coarser operator is P' A P. Where P is left constant, as it was here once, couplings of coarse nodes
// are too stiff by a factor that differs from place to place, and mazes take ten times as many iterations.

package cpu

import (
	"math"

	"github.com/polyscan/polyscan/kernels/driver"
)

// The constants are those that took the fewest iterations in scenes of devicetest: 2 to 4 in most, 5 in mazes.
const (
	// graphCaution is what estimates multiply what is left of the last correction by, as if all of that was of the
	// slowest mode. In 116,000 cycles of random images errors were at most 1.92 times the estimate; with 1.25, more
	// than twice.
	graphCaution = 1.5
	// graphLeast is how large a part of the last correction is left at least. After the first cycles, when the slowest
	// mode is not known yet, it is 1 / cycles. With a third some errors were 2.06 times the estimate.
	graphLeast = 0.4
	// graphStrong is how large a weight is at least, without its sign, that joins nodes, as a part of the geometric
	// mean of the diagonals. With less, rows become long.
	graphStrong = 0.04
	// graphLoose is how large all weights of a node are together at most, as a part of the diagonal, where steps of
	// Jacobi alone do: it has no part in coarser levels, which would otherwise carry thousands of such nodes along.
	// With 0.25 corrections next to walls are a third larger after two iterations, with 0.22 a maze takes one more.
	graphLoose = 0.23
	// graphGroup is how many nodes become one at most, besides those that are left over.
	graphGroup = 4
	// graphSmooth damps the step that smooths P. With 3/4 between nodes mazes take fewer iterations, but couplings
	// along rows and columns become so weak that blocks fall apart, and rows of coarse levels are twice as long.
	graphSmooth = 2.0 / 3
	// graphJacobi damps the steps of nodes before and after the coarse correction: one each. Steps of 1 would leave
	// rough modes of corridors as they are; with 0.8 walls are off by a half more after three iterations.
	graphJacobi = 0.95
	// graphDense is how many nodes a level has at most that is solved exactly, and is the last one. Where Jacobi's
	// steps had the last word, a corridor's long way took an iteration more, and one of 111x111 had estimates 3 times
	// too low.
	graphDense = 192
	// graphBottom is how many steps the coarsest level gets where it has more nodes.
	graphBottom = 8
)

// graphLevel is a coarse graph. Its nodes are in the order of the cells that they lie in, squares of 2^level pixels.
type graphLevel struct {
	n, w, h int
	cell    []int32    // of the nodes of each cell, w*h+1
	regular []bool     // of each cell, w*h: it has one node, whose row is as those of other such cells
	rows    []graphRow // of the operator, without the diagonal; each edge is there twice
	sink    []float32
	inv     []float32  // 1/(sum of weights + sink), or less where weights are negative
	parent  []int32    // the node of the next level, or -1: it has none
	pRows   []graphRow // of P: the nodes of the next level that it takes corrections from
	rRows   []graphRow // of P' of the level before, but not of the first level
	pool    *graphPool
	x, b, r []nodeValues
}

// nodeValues has a value for each channel, and 0 for those that there are none of.
type nodeValues [driver.MaxDiffusionChannels]float32

// graphRow is which entries of a pool are a row of a sparse matrix.
type graphRow struct{ from, to int32 }

type graphEdge struct {
	to     int32
	weight float32
}

func (l *graphLevel) edges(i int) []graphEdge   { return l.pool.edges[l.rows[i].from:l.rows[i].to] }
func (l *graphLevel) prolong(i int) []graphEdge { return l.pool.prolong[l.pRows[i].from:l.pRows[i].to] }
func (l *graphLevel) restrict(i int) []graphEdge {
	return l.pool.restrict[l.rRows[i].from:l.rRows[i].to]
}

const graphLevels = 24 // enough for sides of 2^20

// maxGraphPixels keeps the numbers of edges, up to graphEdges a pixel, within int32.
const maxGraphPixels = 1 << 27

// Room for nodes, for edges and for the entries of P of all levels. In scenes of devicetest there are at most 0.9
// nodes, 5.8 edges and 2.4 entries a pixel, in mazes and corridors of other forms 8.9 edges and 3.9 entries. Where
// there are more, levels end early, and long ways take many iterations.
func graphNodes(pixels int) int   { return 2*pixels + 64 }
func graphEdges(pixels int) int   { return 10*pixels + 64 }
func graphProlong(pixels int) int { return 5*pixels + 64 }

// graph is the preconditioner and the image's operator.
type graph struct {
	lattice
	parent []int32
	pool   graphPool
	table  *[graphLevels]uint32 // how many nodes levels have
	levels []graphLevel
	dense  []float64 // the factor of the last level, where it has no more than graphDense nodes
	state  graphState
}

// graphPool is the memory of all levels.
type graphPool struct {
	cell, parent             []int32
	rows, pRows, rRows       []graphRow
	sink, inv                []float32
	edges, prolong, restrict []graphEdge
	// While levels are made: the node that stands for a component, the first of rows of cells, the diagonal, the sums
	// of rows of P, and which rows are the same.
	root, first    []int32
	diagonal, sums []float32
	regular        []bool
}

func layGraph(a *arena, w, h int) *graph {
	n := w * h
	g := &graph{lattice: layLattice(a, w, h), parent: layOut[int32](a, n)}
	if table := layOut[[graphLevels]uint32](a, 1); table != nil {
		g.table = &table[0]
	}
	g.dense = layOut[float64](a, lowerTriangle(min(n, graphDense)))
	cells := 0
	for x, y := w, h; x > 1 || y > 1; cells += x*y + 1 {
		x, y = (x+1)/2, (y+1)/2
	}
	nodes, edges, prolong := graphNodes(n), graphEdges(n), graphProlong(n)
	p := &g.pool
	p.cell, p.parent = layOut[int32](a, cells), layOut[int32](a, nodes)
	p.rows, p.pRows, p.rRows = layOut[graphRow](a, nodes), layOut[graphRow](a, nodes), layOut[graphRow](a, nodes)
	p.sink, p.inv = a.floats(nodes), a.floats(nodes)
	p.edges, p.prolong, p.restrict = layOut[graphEdge](a, edges), layOut[graphEdge](a, prolong),
		layOut[graphEdge](a, prolong)
	p.root, p.first, p.diagonal, p.sums = layOut[int32](a, n), layOut[int32](a, h), a.floats(n), a.floats(n)
	p.regular = layOut[bool](a, cells)
	return g
}

// graphState is the vectors of the conjugate gradients.
type graphState struct {
	head    *solveHeader
	r, p, q []float32    // planes
	rows    []float32    // a number for each row and channel
	nodes   []nodeValues // the levels' vectors
}

func layGraphState(a *arena, w, h, channels int) (s graphState) {
	n := w * h * channels
	s.r, s.p, s.q = a.floats(n), a.floats(n), a.floats(n)
	s.rows = a.floats(h * channels)
	s.nodes = layOut[nodeValues](a, 3*graphNodes(w*h))
	return s
}

// level cuts level k out of the pools, after those before it. Parts that are not filled in yet are as long as there is
// room.
func (g *graph) level(k int) graphLevel {
	node, cell := 0, 0
	w, h := (g.w+1)/2, (g.h+1)/2
	for _, n := range g.table[:k] {
		node += int(n)
		cell += w*h + 1
		w, h = (w+1)/2, (h+1)/2
	}
	p := &g.pool
	return graphLevel{
		n: int(g.table[k]), w: w, h: h, cell: p.cell[cell:][:w*h+1], regular: p.regular[cell:][:w*h],
		parent: p.parent[node:],
		rows:   p.rows[node:], pRows: p.pRows[node:], rRows: p.rRows[node:], sink: p.sink[node:], inv: p.inv[node:],
		pool: p,
	}
}

// use makes the levels of a set-up usable, with memory for their vectors.
func (g *graph) use(s graphState) {
	g.state = s
	nodes := s.nodes
	for k := 0; k < graphLevels && g.table[k] > 0; k++ {
		l := g.level(k)
		l.x, l.b, l.r, nodes = nodes[:l.n], nodes[l.n:][:l.n], nodes[2*l.n:][:l.n], nodes[3*l.n:]
		g.levels = append(g.levels, l)
	}
}

// graphBand is how many rows of the image a thread has at a time where it computes rows around them, too.
const graphBand = 32

// each runs f on the rows of all planes, of about so many nanoseconds a value, and keeps what it returns: row y of
// channel c in rows[c*h+y].
func (g *graph) each(channels, ns int, f func(c, y int) float32) error {
	return g.bands(g.h, ns*g.w*channels, func(y0, y1 int) {
		for y := y0; y < y1; y++ {
			for c := range channels {
				g.state.rows[c*g.h+y] = f(c, y)
			}
		}
	})
}

// sum adds up the rows of a channel, always in the same order.
func (g *graph) sum(c int) float64 {
	s := 0.0
	for _, v := range g.state.rows[c*g.h:][:g.h] {
		s += float64(v)
	}
	return s
}

// row is row y of channel c of planes.
func (g *graph) row(planes []float32, c, y int) []float32 {
	return planes[(c*g.h+y)*g.w:][:g.w]
}

// flows computes the flow of row y, which lies between up and down. Those may be anything where there is no such row.
func (g *graph) flows(dst, up, x, down []float32, y int) {
	rowFlows(dst, up, x, down, g.open[y*g.w:][:g.w])
}

// windowFlows is flows of a row of a window, which has those around it.
func (g *graph) windowFlows(dst []float32, v *window, y int) {
	g.flows(dst, v.row(y-1), v.row(y), v.row(y+1), y)
}

// planeFlows is flows of a row of planes.
func (g *graph) planeFlows(dst, planes []float32, c, y int) {
	g.flows(dst, g.row(planes, c, max(y-1, 0)), g.row(planes, c, y), g.row(planes, c, min(y+1, g.h-1)), y)
}

// dot adds up in four parts, which don't wait for each other.
func dot(a, b []float32) float32 {
	var s [4]float64
	b = b[:len(a)]
	for len(a) >= 4 && len(b) >= 4 {
		s[0] += float64(a[0]) * float64(b[0])
		s[1] += float64(a[1]) * float64(b[1])
		s[2] += float64(a[2]) * float64(b[2])
		s[3] += float64(a[3]) * float64(b[3])
		a, b = a[4:], b[4:]
	}
	for i, v := range a {
		s[0] += float64(v) * float64(b[i])
	}
	return float32((s[0] + s[1]) + (s[2] + s[3]))
}

// largestSize is the largest number without its sign.
func largestSize(v []float32) float32 {
	most := uint32(0) // numbers without a sign are in the order of their bits
	for _, x := range v {
		most = max(most, math.Float32bits(x)&^(1<<31))
	}
	return math.Float32frombits(most)
}

// begin starts the conjugate gradients at x.
func (g *graph) begin(x []float32) error {
	s := &g.state
	return g.each(len(x)/len(g.inv), 5, func(c, y int) float32 {
		g.planeFlows(g.row(s.r, c, y), x, c, y)
		clear(g.row(s.p, c, y))
		return 0
	})
}

// cycle is one step of the conjugate gradients. It returns the largest correction that the preconditioner sees before
// it.
func (g *graph) cycle(x []float32) (float32, error) {
	s := &g.state
	channels := len(x) / len(g.inv)
	if err := g.precondition(channels); err != nil {
		return 0, err
	}
	var alpha, beta [driver.MaxDiffusionChannels]float32
	for c := range channels {
		rho := g.sum(c)
		if s.head.Rho[c] > 0 {
			beta[c] = float32(rho / s.head.Rho[c])
		}
		s.head.Rho[c] = rho
	}
	if err := g.each(channels, 3, func(c, y int) float32 {
		p := g.row(s.p, c, y)
		z := g.row(s.q, c, y)[:len(p)]
		b := beta[c]
		for i, v := range z {
			p[i] = v + b*p[i]
		}
		return largestSize(z)
	}); err != nil {
		return 0, err
	}
	update := largest(s.rows)
	// q = -A p, which is 0 wherever there is no equation.
	if err := g.each(channels, 5, func(c, y int) float32 {
		q := g.row(s.q, c, y)
		g.planeFlows(q, s.p, c, y)
		return dot(q, g.row(s.p, c, y))
	}); err != nil {
		return 0, err
	}
	for c := range channels {
		if pq := -g.sum(c); pq > 0 {
			alpha[c] = float32(s.head.Rho[c] / pq)
			s.head.Modes[c].step(float64(alpha[c]), float64(beta[c]))
		}
	}
	err := g.each(channels, 4, func(c, y int) float32 {
		a := alpha[c]
		if a == 0 {
			return 0
		}
		r, x := g.row(s.r, c, y), g.row(x, c, y)
		p, q := g.row(s.p, c, y)[:len(x)], g.row(s.q, c, y)[:len(x)]
		for i := range x {
			x[i] += a * p[i]
		}
		for i := range r {
			r[i] += a * q[i]
		}
		return 0
	})
	return update, err
}

// slowMode is what the steps of conjugate gradients tell of the slowest mode: of the preconditioned operator, whose
// eigenvalues are at most 1, about the least one. It is that of the tridiagonal matrix of Lanczos; of its Cholesky
// factor, a column of which comes with each step, the norm of the inverse is followed as by Duff and Vömel. In random
// images that was at most 6 % too low.
type slowMode struct {
	Inverse float64 // of the eigenvalue
	alpha   float64 // of the step before
	last    float64 // component of the vector that the inverse makes largest
}

// step takes another step into account.
func (m *slowMode) step(alpha, beta float64) {
	if m.alpha == 0 {
		*m = slowMode{alpha, alpha, math.Sqrt(alpha)}
		return
	}
	// The vector is turned so far towards the new component that its image, whose new component is last, becomes
	// longest.
	along := math.Sqrt(beta/m.alpha) * m.last
	across := along * alpha
	own := m.Inverse + along*across
	longest := (own + alpha + math.Hypot(own-alpha, 2*across)) / 2
	m.last = math.Sqrt(alpha)
	if size := math.Hypot(longest-alpha, across); size > 0 {
		m.last *= along * longest / size
	}
	m.Inverse, m.alpha = longest, alpha
}

// slowest is how large a part of the correction that a cycle began with is left at most, after which head has seen the
// cycle's step.
func slowest(head *solveHeader) float32 {
	left := max(graphLeast, 1/float32(head.Cycles+1))
	for _, m := range head.Modes {
		left = max(left, graphCaution*float32(m.Inverse-1))
	}
	return left
}

// residual is the largest one of x itself.
func (g *graph) residual(x []float32) (float32, error) {
	s := &g.state
	err := g.each(len(x)/len(g.inv), 5, func(c, y int) float32 {
		q := g.row(s.q, c, y)
		g.planeFlows(q, x, c, y)
		return largestSize(q)
	})
	return largest(s.rows), err
}

// precondition computes q, about the solution of A q = r, by a symmetric multigrid cycle from 0, and the products q r
// of each row. Pixels are coloured as a chessboard is, and take from those of the other colour only: before the
// correction first those of one colour are solved for, then the others, and after it the other way round. That is twice
// as good as steps of Jacobi, which would cost as much.
func (g *graph) precondition(channels int) error {
	if len(g.levels) > 0 {
		if err := g.restrictPixels(channels); err != nil {
			return err
		}
		if err := g.coarse(0); err != nil {
			return err
		}
	}
	return g.prolongPixels(channels)
}

// window keeps the last rows of a sequence that is computed row by row.
type window struct {
	rows [3][]float32
	of   func(dst []float32, y int)
}

func newWindow(w int, of func(dst []float32, y int)) *window {
	memory := make([]float32, 3*w)
	return &window{[3][]float32{memory[:w], memory[w : 2*w], memory[2*w:]}, of}
}

// row is row y. Between 0 and h, y rises by one from call to call of fill.
func (v *window) row(y int) []float32 { return v.rows[(y+3)%3] }

// begin fills in what comes before row y of h.
func (v *window) begin(y, h int) {
	for k := y - 1; k <= y; k++ {
		v.fill(k, h)
	}
}

func (v *window) fill(y, h int) {
	if y >= 0 && y < h {
		v.of(v.row(y), y)
	}
}

// tall runs f on bands of rows of a channel.
func (g *graph) tall(channels int, f func(c, y0, y1 int, p *pace) bool) error {
	bands := (g.h + graphBand - 1) / graphBand
	return g.dev.longPieces("Diffusion", bands*channels, g.stop, func(i int, p *pace) bool {
		y0 := i / channels * graphBand
		return f(i%channels, y0, min(y0+graphBand, g.h), p)
	})
}

// The colours: where pixels of each begin in row y.
func firstColour(y int) int  { return y & 1 }
func secondColour(y int) int { return y&1 ^ 1 }

// solveFor solves for every other pixel of a row, from the first one on, with the flow from those around it.
func (g *graph) solveFor(first int, dst, flow []float32, c, y int) {
	r, inv := g.row(g.state.r, c, y)[:len(dst)], g.inv[y*g.w:][:len(dst)]
	flow = flow[:len(dst)]
	for i := first; i < len(dst); i += 2 {
		dst[i] = inv[i] * (r[i] + flow[i])
	}
}

// afterFirst is the step of the second colour, with 0 at the first one, whose step is in a window. It uses flow, of a
// row.
func (g *graph) afterFirst(c int, first *window, flow []float32) *window {
	return newWindow(g.w, func(dst []float32, y int) {
		first.fill(y+1, g.h)
		g.windowFlows(flow, first, y)
		clear(dst)
		g.solveFor(secondColour(y), dst, flow, c, y)
	})
}

// restrictPixels computes what is left of r behind the first steps, for the first level, and the first step there.
func (g *graph) restrictPixels(channels int) error {
	s, l := &g.state, &g.levels[0]
	return g.tall(channels, func(c, y0, y1 int, p *pace) bool {
		nodes, end := l.cell[y0/2*l.w], l.cell[(y1+1)/2*l.w]
		for k := nodes; k < end; k++ {
			if c == 0 {
				clear(l.b[k][channels:])
				clear(l.x[k][channels:])
			}
			l.b[k][c] = 0
		}
		first := newWindow(g.w, func(dst []float32, y int) {
			clear(dst)
			r, inv := g.row(s.r, c, y)[:len(dst)], g.inv[y*g.w:][:len(dst)]
			for i := firstColour(y); i < len(dst); i += 2 {
				dst[i] = inv[i] * r[i]
			}
		})
		flow := make([]float32, g.w)
		second := g.afterFirst(c, first, flow)
		// Nothing is left of the second colour; of the first what came from the second one later.
		left := newWindow(g.w, func(dst []float32, y int) {
			second.fill(y+1, g.h)
			g.windowFlows(flow, second, y)
			clear(dst)
			inv, flow := g.inv[y*g.w:][:len(dst)], flow[:len(dst)]
			for i := firstColour(y); i < len(dst); i += 2 {
				dst[i] = inv[i] * flow[i]
			}
		})
		first.begin(max(y0-2, 0), g.h)
		second.begin(max(y0-1, 0), g.h)
		left.begin(y0, g.h)
		for y := y0; y < y1; y++ {
			left.fill(y+1, g.h)
			g.windowFlows(flow, left, y)
			parent := g.parent[y*g.w:][:len(flow)]
			for i, v := range flow {
				k := parent[i]
				if k < 0 {
					continue
				}
				if i&1 == firstColour(y) {
					v *= graphSmooth - 1 // the flow out of it is what is left of it
				} else {
					v *= graphSmooth
				}
				l.b[k][c] += v
			}
			if p.spend(8 * g.w) {
				return false
			}
		}
		for k := nodes; k < end; k++ {
			l.x[k][c] = graphJacobi * l.inv[k] * l.b[k][c]
		}
		return true
	})
}

// prolongPixels computes q: the first step, which only pixels of the first colour are needed of, the correction by the
// first level, and the last steps. And the products q r of each row.
func (g *graph) prolongPixels(channels int) error {
	s := &g.state
	return g.tall(channels, func(c, y0, y1 int, p *pace) bool {
		constant := newWindow(g.w, func(dst []float32, y int) {
			parent := g.parent[y*g.w:][:len(dst)]
			for i, k := range parent {
				if dst[i] = 0; k >= 0 {
					dst[i] = g.levels[0].x[k][c]
				}
			}
		})
		flow := make([]float32, g.w)
		first := newWindow(g.w, func(dst []float32, y int) {
			constant.fill(y+1, g.h)
			g.windowFlows(flow, constant, y)
			clear(dst)
			r, inv, flow := g.row(s.r, c, y)[:len(dst)], g.inv[y*g.w:][:len(dst)], flow[:len(dst)]
			own := constant.row(y)[:len(dst)]
			for i := firstColour(y); i < len(dst); i += 2 {
				dst[i] = own[i] + inv[i]*(r[i]+graphSmooth*flow[i])
			}
		})
		second := g.afterFirst(c, first, flow)
		constant.begin(max(y0-2, 0), g.h)
		first.begin(max(y0-1, 0), g.h)
		second.begin(y0, g.h)
		for y := y0; y < y1; y++ {
			second.fill(y+1, g.h)
			g.windowFlows(flow, second, y)
			q := g.row(s.q, c, y)
			copy(q, second.row(y))
			g.solveFor(firstColour(y), q, flow, c, y)
			s.rows[c*g.h+y] = dot(g.row(s.r, c, y), q)
			if p.spend(8 * g.w) {
				return false
			}
		}
		return true
	})
}

// coarse solves level k for l.b by a cycle, into l.x, which is the first step.
func (g *graph) coarse(k int) error {
	l := &g.levels[k]
	if k+1 == len(g.levels) {
		if l.n <= graphDense {
			g.solveDense(l)
			return nil
		}
		for range graphBottom {
			if err := g.relax(l); err != nil {
				return err
			}
		}
		return nil
	}
	next := &g.levels[k+1]
	if err := g.bands(l.n, nodeNs, l.residuals); err != nil {
		return err
	}
	if err := g.nodes(next, func(i int) {
		b := gather(nodeValues{}, l.r, next.restrict(i))
		next.b[i] = b
		next.x[i] = nodeValues{}.plus(graphJacobi*next.inv[i], &b)
	}); err != nil {
		return err
	}
	if err := g.coarse(k + 1); err != nil {
		return err
	}
	if err := g.nodes(l, func(i int) { l.x[i] = gather(l.x[i], next.x, l.prolong(i)) }); err != nil {
		return err
	}
	return g.relax(l)
}

// nodeNs is about how many nanoseconds a step at a node takes.
const nodeNs = 60

// nodes runs f on the nodes of a level.
func (g *graph) nodes(l *graphLevel, f func(i int)) error {
	return g.bands(l.n, nodeNs, func(from, to int) {
		for i := from; i < to; i++ {
			f(i)
		}
	})
}

func (a nodeValues) plus(by float32, b *nodeValues) nodeValues {
	return nodeValues{a[0] + by*b[0], a[1] + by*b[1], a[2] + by*b[2], a[3] + by*b[3]}
}

// gather adds what a row of a sparse matrix says of x.
func gather(sum nodeValues, x []nodeValues, row []graphEdge) nodeValues {
	a, b, c, d := sum[0], sum[1], sum[2], sum[3]
	for _, e := range row {
		v := &x[e.to]
		a += e.weight * v[0]
		b += e.weight * v[1]
		c += e.weight * v[2]
		d += e.weight * v[3]
	}
	return nodeValues{a, b, c, d}
}

// relax takes a step of Jacobi.
func (g *graph) relax(l *graphLevel) error {
	if err := g.bands(l.n, nodeNs, func(from, to int) {
		l.residuals(from, to)
		for i := from; i < to; i++ {
			l.r[i] = l.x[i].plus(graphJacobi*l.inv[i], &l.r[i])
		}
	}); err != nil {
		return err
	}
	l.x, l.r = l.r, l.x
	return nil
}
