// Diffusion with barriers: conjugate gradients, preconditioned by smoothed aggregation. The pixels of a 2x2 block that open edges
// connect within the block become one node of a coarser graph, and so on: pixels on two sides of a barrier are never one node
// before a way around it is.
//
// A level's operator is kept as off-diagonal weights w and sinks s: row i is s x_i + sum of w (x_i - x_j), whose digits don't cancel
// where little flows away. P, from a level to the finer one, is constant on nodes, then smoothed by a step of Jacobi; the coarser operator
// is P' A P. Where P is left constant, as it was here once, couplings of coarse nodes are too stiff by a factor that differs from
// place to place, and mazes take ten times as many iterations.

package cpu

import (
	"math"

	"github.com/polyscan/polyscan/kernels/driver"
)

// The constants are those that took the fewest iterations in scenes of devicetest: 4 to 5 in most, 10 in mazes.
const (
	// graphCaution is what the largest correction is multiplied by to say how large the error is. With 2.5 estimates were up to 2.1 times too
	// low in early cycles of a corridor, and 1.5 times in mazes.
	graphCaution = 3
	// graphStrong is how large a weight is at least, without its sign, that joins nodes, as a part of the geometric mean of the diagonals. With
	// less, rows become long.
	graphStrong = 0.04
	// graphLoose is how large all weights of a node are together at most, as a part of the diagonal, where steps of Jacobi alone do: it
	// has no part in coarser levels, which would otherwise carry thousands of such nodes along.
	graphLoose = 0.25
	// graphSmooth damps the step that smooths P.
	graphSmooth = 2.0 / 3
	// graphJacobi damps the steps before and after the coarse correction: one each.
	graphJacobi = 0.8
	// graphBottom is how many steps the coarsest level gets.
	graphBottom = 8
)

// graphLevel is a coarse graph. Its nodes are in the order of the cells that they lie in, squares of 2^level pixels.
type graphLevel struct {
	n, w, h int
	cell    []int32   // of the nodes of each cell, w*h+1
	start   []int32   // of the edges of each node, n+1
	to      []int32   // where each edge leads; each is there twice
	weight  []float32 // of edges
	sink    []float32
	inv     []float32 // 1/(sum of weights + sink), or less where weights are negative
	parent  []int32   // the node of the next level, or -1: it has none
	pStart  []int32   // of the nodes of the next level that it takes corrections from, n+1
	pTo     []int32
	pWeight []float32
	rStart  []int32 // of the nodes of the level before that it takes residuals from, n+1; not of the first level
	rTo     []int32
	rWeight []float32
	x, b, r []float32 // channels values a node
}

// graphTable is where a level's parts begin, as it is kept in the set-up.
type graphTable struct{ Nodes, Edges, Prolong uint32 }

const graphLevels = 24 // enough for sides of 2^20

// maxGraphPixels keeps the numbers of edges, up to graphEdges a pixel, within int32.
const maxGraphPixels = 1 << 27

// Room for nodes, for edges and for the entries of P of all levels. In scenes of devicetest there are at most 0.9 nodes, 5.8 edges and 2.4
// entries a pixel. Where there are more, levels end early, and iterations become more.
func graphNodes(pixels int) int   { return 2*pixels + 64 }
func graphEdges(pixels int) int   { return 8*pixels + 64 }
func graphProlong(pixels int) int { return 3*pixels + 64 }

// graph is the preconditioner and the image's operator.
type graph struct {
	lattice
	parent []int32
	pool   graphPool
	table  *[graphLevels]graphTable
	levels []graphLevel
	state  graphState
}

// graphPool is the memory of all levels.
type graphPool struct {
	cell, start, pStart, rStart, parent []int32
	sink, inv                           []float32
	to, pTo, rTo                        []int32
	weight, pWeight, rWeight            []float32
	// While levels are made: the node that stands for a component, who last looked at a node, the diagonal, and the sums of rows of P.
	root, seen     []int32
	diagonal, sums []float32
}

func (a *arena) ints(n int) []int32 {
	at := a.end
	a.floats(n)
	if a.b == nil || n == 0 {
		return nil
	}
	return sliceAt[int32](a.b, at, n)
}

func layGraph(a *arena, w, h int) *graph {
	n := w * h
	g := &graph{lattice: layLattice(a, w, h), parent: a.ints(n)}
	at := a.end
	a.floats(3 * graphLevels)
	if a.b != nil {
		g.table = &sliceAt[[graphLevels]graphTable](a.b, at, 1)[0]
	}
	cells := 0
	for x, y := w, h; x > 1 || y > 1; cells += x*y + 1 {
		x, y = (x+1)/2, (y+1)/2
	}
	nodes, edges, prolong := graphNodes(n), graphEdges(n), graphProlong(n)
	p := &g.pool
	p.cell, p.start, p.pStart, p.rStart, p.parent = a.ints(cells), a.ints(nodes+graphLevels), a.ints(nodes+graphLevels), a.ints(nodes+graphLevels), a.ints(nodes)
	p.sink, p.inv = a.floats(nodes), a.floats(nodes)
	p.to, p.weight = a.ints(edges), a.floats(edges)
	p.pTo, p.pWeight = a.ints(prolong), a.floats(prolong)
	p.rTo, p.rWeight = a.ints(prolong), a.floats(prolong)
	p.root, p.seen, p.diagonal, p.sums = a.ints(n), a.ints(n), a.floats(n), a.floats(n)
	return g
}

// graphState is the vectors of the conjugate gradients.
type graphState struct {
	head       *solveHeader
	r, p, z, q []float32 // planes
	rows       []float32 // a number for each row and channel
	nodes      []float32 // the levels' vectors
}

func layGraphState(a *arena, w, h, channels int) (s graphState) {
	n := w * h * channels
	s.r, s.p, s.z, s.q = a.floats(n), a.floats(n), a.floats(n), a.floats(n)
	s.rows = a.floats(h * channels)
	s.nodes = a.floats(3 * channels * graphNodes(w*h))
	return s
}

// level cuts level k out of the pools, after those before it. Parts that are not filled in yet are as long as there is room.
func (g *graph) level(k int) graphLevel {
	node, edge, prolong, restrict, cell := 0, 0, 0, 0, 0
	w, h := (g.w+1)/2, (g.h+1)/2
	for i, t := range g.table[:k] {
		node += int(t.Nodes)
		edge += int(t.Edges)
		prolong += int(t.Prolong)
		if i > 0 {
			restrict += int(g.table[i-1].Prolong)
		}
		cell += w*h + 1
		w, h = (w+1)/2, (h+1)/2
	}
	p := &g.pool
	return graphLevel{
		n: int(g.table[k].Nodes), w: w, h: h, cell: p.cell[cell:][:w*h+1],
		start: p.start[node+k:], sink: p.sink[node:], inv: p.inv[node:], parent: p.parent[node:],
		to: p.to[edge:], weight: p.weight[edge:],
		pStart: p.pStart[node+k:], pTo: p.pTo[prolong:], pWeight: p.pWeight[prolong:],
		rStart: p.rStart[node+k:], rTo: p.rTo[restrict:], rWeight: p.rWeight[restrict:],
	}
}

// open makes the levels of a set-up usable, with memory for their vectors.
func (g *graph) open(s graphState, channels int) {
	g.state = s
	nodes := s.nodes
	for k := 0; k < graphLevels && g.table[k].Nodes > 0; k++ {
		l := g.level(k)
		m := l.n * channels
		l.x, l.b, l.r, nodes = nodes[:m], nodes[m:][:m], nodes[2*m:][:m], nodes[3*m:]
		g.levels = append(g.levels, l)
	}
}

// setUp computes the operators, and returns how many pixels are void.
func (g *graph) setUp(flags []byte) (void int, err error) {
	if void, err = g.operator(flags, g.parent); err != nil {
		return 0, err
	}
	*g.table = [graphLevels]graphTable{}
	pace := newPace(g.stop)
	room := graphNodes(g.w * g.h)
	for k := range graphLevels {
		// The P of pixels is not kept. It has the room that others get later.
		c := coarsener{pool: &g.pool, pace: &pace, from: finestGraph{g}, parent: g.parent, first: true, pTo: g.pool.pTo, pWeight: g.pool.pWeight}
		if k > 0 {
			l := g.level(k - 1)
			c.from, c.parent, c.first, c.pTo, c.pWeight, c.pStart = &l, l.parent, false, l.pTo, l.pWeight, l.pStart
		}
		if w, h := c.from.size(); w*h == 1 {
			c.orphan()
			return void, nil
		}
		c.next = g.level(k)
		if err := c.join(room); err != nil || c.next.n == 0 {
			return void, err
		}
		entries, ok, err := c.smooth()
		if err != nil {
			return 0, err
		}
		edges := 0
		if ok {
			edges, ok, err = c.multiply()
		}
		if err != nil {
			return 0, err
		}
		if !ok {
			c.orphan()
			return void, nil
		}
		if k > 0 {
			g.table[k-1].Prolong = uint32(entries)
		}
		g.table[k] = graphTable{Nodes: uint32(c.next.n), Edges: uint32(edges)}
		room -= c.next.n
	}
	return void, nil
}

// fineGraph is what a level is made of.
type fineGraph interface {
	size() (w, h int)   // of the cells
	begin(cell int) int // the first node of a cell, or of one after it
	row(i int, list []graphEdge) []graphEdge
	drain(i int) float32 // the sink
}

type graphEdge struct {
	to     int32
	weight float32
}

type finestGraph struct{ *graph }

func (g finestGraph) size() (w, h int)   { return g.w, g.h }
func (g finestGraph) begin(cell int) int { return cell }

func (g finestGraph) drain(i int) (sum float32) {
	if g.inv[i] != 0 {
		for _, j := range g.around(i) {
			if j >= 0 && g.inv[j] == 0 {
				sum++
			}
		}
	}
	return sum
}

func (g finestGraph) row(i int, list []graphEdge) []graphEdge {
	if g.inv[i] == 0 {
		return list
	}
	for _, j := range g.around(i) {
		if j >= 0 && g.inv[j] != 0 {
			list = append(list, graphEdge{int32(j), 1})
		}
	}
	return list
}

func (l *graphLevel) size() (w, h int)    { return l.w, l.h }
func (l *graphLevel) begin(cell int) int  { return int(l.cell[cell]) }
func (l *graphLevel) drain(i int) float32 { return l.sink[i] }

func (l *graphLevel) row(i int, list []graphEdge) []graphEdge {
	for e := l.start[i]; e < l.start[i+1]; e++ {
		list = append(list, graphEdge{l.to[e], l.weight[e]})
	}
	return list
}

// coarsener makes a level.
type coarsener struct {
	pool    *graphPool
	pace    *pace
	from    fineGraph
	parent  []int32 // of the nodes of from
	first   bool    // from is the image: rows of P are three entries long, the first of which is the own node
	pStart  []int32
	pTo     []int32
	pWeight []float32
	next    graphLevel

	list, others []graphEdge
}

// block is the nodes of two rows of cells that lie in a block: those from a to b, and from c to d.
func (c *coarsener) block(x, y int) (a, b, c2, d int) {
	w, h := c.from.size()
	x0, x1 := 2*x, min(2*x+2, w)
	a, b = c.from.begin(2*y*w+x0), c.from.begin(2*y*w+x1)
	if 2*y+1 < h {
		c2, d = c.from.begin((2*y+1)*w+x0), c.from.begin((2*y+1)*w+x1)
	}
	return a, b, c2, d
}

// strong reports whether an edge of node i joins. Those of positive weight smooth, too.
func (c *coarsener) strong(i int, e graphEdge) bool {
	return e.weight*e.weight > graphStrong*graphStrong*c.pool.diagonal[i]*c.pool.diagonal[e.to]
}

// join makes nodes of what strong edges connect within blocks, and says which they are: parent and next.cell. Nodes with weak edges only are
// part of none. Where there is no room next.n is 0.
func (c *coarsener) join(room int) error {
	root := c.pool.root
	find := func(i int32) int32 {
		for root[i] != i {
			root[i] = root[root[i]]
			i = root[i]
		}
		return i
	}
	w, h := c.from.size()
	loose := float32(graphLoose)
	if c.first {
		loose = 0
	}
	for i := range c.from.begin(w * h) {
		sum, size := c.from.drain(i), float32(0)
		c.list = c.from.row(i, c.list[:0])
		for _, e := range c.list {
			sum += e.weight
			size += max(e.weight, -e.weight)
		}
		c.pool.diagonal[i] = sum
		if c.parent[i] = -1; size > loose*sum {
			c.parent[i] = 0
		}
	}
	count := int32(0)
	for y := range c.next.h {
		for x := range c.next.w {
			c.next.cell[y*c.next.w+x] = count
			a, b, a2, b2 := c.block(x, y)
			for i := a; i < b; i++ {
				root[i] = int32(i)
			}
			for i := a2; i < b2; i++ {
				root[i] = int32(i)
			}
			for _, r := range [2][2]int{{a, b}, {a2, b2}} {
				for i := r[0]; i < r[1]; i++ {
					if c.parent[i] < 0 {
						continue
					}
					c.list = c.from.row(i, c.list[:0])
					for _, e := range c.list {
						if j := int(e.to); (j >= a && j < b || j >= a2 && j < b2) && c.parent[j] >= 0 && c.strong(i, e) {
							p, q := find(int32(i)), find(e.to)
							root[max(p, q)] = min(p, q)
						}
					}
				}
			}
			for _, r := range [2][2]int{{a, b}, {a2, b2}} {
				for i := r[0]; i < r[1]; i++ {
					if c.parent[i] < 0 {
						continue
					}
					if p := find(int32(i)); p != int32(i) {
						c.parent[i] = c.parent[p] // which is less, and has been numbered
						continue
					}
					c.parent[i] = count
					count++
				}
			}
			if c.pace.spend(60 * (b - a + b2 - a2)) {
				return errAborted
			}
		}
	}
	c.next.cell[c.next.w*c.next.h] = count
	if c.next.n = int(count); c.next.n > room {
		c.next.n = 0
		c.orphan()
	}
	return nil
}

// orphan makes from the last level.
func (c *coarsener) orphan() {
	w, h := c.from.size()
	for i := range c.from.begin(w * h) {
		c.parent[i] = -1
	}
}

// smooth makes P, and the sums of its rows; it reports whether there was room, and how many entries there are.
func (c *coarsener) smooth() (entries int, ok bool, err error) {
	w, h := c.from.size()
	for i := range c.from.begin(w * h) {
		at := entries
		if c.first {
			at = 3 * i
			c.pTo[at], c.pTo[at+1], c.pTo[at+2] = -1, -1, -1
		} else {
			c.pStart[i], c.pStart[i+1] = int32(at), int32(at)
		}
		own := c.parent[i]
		if c.pool.sums[i] = 0; own < 0 {
			continue
		}
		sink := c.from.drain(i)
		diagonal, alone := sink, true
		c.others = c.others[:0]
		c.list = c.from.row(i, c.list[:0])
		for _, e := range c.list {
			if e.weight < 0 || !c.strong(i, e) {
				continue
			}
			diagonal += e.weight
			alone = false
			if p := c.parent[e.to]; p < 0 {
				sink += e.weight // no correction comes from there
			} else if p != own {
				k := 0
				for k < len(c.others) && c.others[k].to != p {
					k++
				}
				if k == len(c.others) {
					c.others = append(c.others, graphEdge{to: p})
				}
				c.others[k].weight += e.weight
			}
		}
		if at+len(c.others)+1 > len(c.pTo) {
			return 0, false, nil
		}
		c.pool.sums[i] = 1
		rest := float32(1)
		if !alone {
			rest -= graphSmooth * sink / diagonal
			c.pool.sums[i] = rest
		}
		for k, o := range c.others {
			v := graphSmooth * o.weight / diagonal
			c.pTo[at+1+k], c.pWeight[at+1+k] = o.to, v
			rest -= v
		}
		c.pTo[at], c.pWeight[at] = own, rest
		if entries = at + len(c.others) + 1; !c.first {
			c.pStart[i+1] = int32(entries)
		}
		if c.pace.spend(60) {
			return 0, false, errAborted
		}
	}
	return entries, true, nil
}

// p is a row of P.
func (c *coarsener) p(i int) ([]int32, []float32) {
	if !c.first {
		from, to := c.pStart[i], c.pStart[i+1]
		return c.pTo[from:to], c.pWeight[from:to]
	}
	n := 0
	for n < 3 && c.pTo[3*i+n] >= 0 {
		n++
	}
	return c.pTo[3*i:][:n], c.pWeight[3*i:][:n]
}

// multiply makes P' and P' A P, row by row; it reports whether there was room, and how many edges there are.
func (c *coarsener) multiply() (edges int, ok bool, err error) {
	l := &c.next
	seen, where := c.pool.seen, c.pool.root // by whom each fine node, and where the edge to each coarse node is, plus 1
	w, h := c.from.size()
	n := c.from.begin(w * h)
	for i := range n {
		seen[i] = -1
	}
	clear(where[:l.n])
	var support []int
	var sums []float64 // of the edges of a node
	restrict := 0
	for y := range l.h {
		for x := range l.w {
			a, b, a2, b2 := c.block(x, y)
			for k := l.cell[y*l.w+x]; k < l.cell[y*l.w+x+1]; k++ {
				// Who takes corrections from node k: its members, and those around them.
				support = support[:0]
				for _, r := range [2][2]int{{a, b}, {a2, b2}} {
					for i := r[0]; i < r[1]; i++ {
						if c.parent[i] != k {
							continue
						}
						if seen[i] != k {
							seen[i] = k
							support = append(support, i)
						}
						c.list = c.from.row(i, c.list[:0])
						for _, e := range c.list {
							if seen[e.to] != k && e.weight > 0 && c.strong(i, e) {
								seen[e.to] = k
								support = append(support, int(e.to))
							}
						}
					}
				}
				l.start[k], l.rStart[k] = int32(edges), int32(restrict)
				sums = sums[:0]
				add := func(to int32, v float64) {
					if to == k {
						return
					}
					if where[to] == 0 {
						if edges+len(sums) == len(l.to) {
							ok = false
							return
						}
						l.to[edges+len(sums)] = to
						sums = append(sums, 0)
						where[to] = int32(len(sums))
					}
					sums[where[to]-1] += v
				}
				ok = true
				sink := 0.0
				for _, i := range support {
					to, weight := c.p(i)
					at := 0
					for at < len(to) && to[at] != k {
						at++
					}
					if at == len(to) {
						continue // the edge was strong, the node without one
					}
					share := float64(weight[at])
					if !c.first {
						l.rTo[restrict], l.rWeight[restrict] = int32(i), weight[at]
						restrict++
					}
					// -(P' A)[k, i], in differences, and of the sums of P's rows, that the sink is 0 where it should be.
					own := float64(c.from.drain(i))
					diagonal := own
					sum := float64(c.pool.sums[i])
					own *= sum
					c.list = c.from.row(i, c.list[:0])
					for _, e := range c.list {
						v := float64(e.weight)
						diagonal += v
						own += v * (sum - float64(c.pool.sums[e.to]))
						to, weight := c.p(int(e.to))
						for m, j := range to {
							add(j, share*v*float64(weight[m]))
						}
					}
					for m, j := range to {
						add(j, -share*diagonal*float64(weight[m]))
					}
					sink += share * own
				}
				if !ok {
					return 0, false, nil
				}
				sum, size := sink, sink
				kept := edges
				for m, v := range sums {
					to := l.to[edges+m]
					where[to] = 0
					if v32 := float32(v); v32 != 0 {
						l.to[kept], l.weight[kept] = to, v32
						kept++
						sum += v
						size += math.Abs(v)
					}
				}
				edges = kept
				l.sink[k], l.inv[k] = float32(sink), 0
				if sum > 0 {
					l.inv[k] = float32(1 / max(sum, (sum+size)/2))
				}
				if c.pace.spend(100 * len(support)) {
					return 0, false, errAborted
				}
			}
		}
	}
	l.start[l.n], l.rStart[l.n] = int32(edges), int32(restrict)
	return edges, true, nil
}

// apply computes q = A p for planes, where p is 0 wherever there is no equation, and the products p q of each row.
func (g *graph) apply(q, p, rows []float32) error {
	return g.each(len(p)/len(g.inv), rows, 8, func(c, y, from, to int) float32 {
		plane := p[c*len(g.inv):][:len(g.inv)]
		out := q[c*len(g.inv):][:len(g.inv)]
		sum := 0.0
		for i := from; i < to; i++ {
			out[i] = 0
			if g.inv[i] != 0 {
				v := -g.flow(plane, i)
				out[i] = v
				sum += float64(v) * float64(plane[i])
			}
		}
		return float32(sum)
	})
}

// each runs f on the rows of all planes and keeps what it returns: row y of channel c in rows[c*h+y].
func (g *graph) each(channels int, rows []float32, ns int, f func(c, y, from, to int) float32) error {
	return g.bands(g.h, ns*g.w*channels, func(y0, y1 int) {
		for y := y0; y < y1; y++ {
			for c := range channels {
				rows[c*g.h+y] = f(c, y, y*g.w, (y+1)*g.w)
			}
		}
	})
}

// sum adds up the rows of a channel, always in the same order.
func (g *graph) sum(rows []float32, c int) float64 {
	s := 0.0
	for _, v := range rows[c*g.h:][:g.h] {
		s += float64(v)
	}
	return s
}

// begin starts the conjugate gradients at x.
func (g *graph) begin(x []float32) error {
	s := &g.state
	n := len(g.inv)
	channels := len(x) / n
	if err := g.each(channels, s.rows, 8, func(c, y, from, to int) float32 {
		for i := from; i < to; i++ {
			s.r[c*n+i] = 0
			if g.inv[i] != 0 {
				s.r[c*n+i] = g.flow(x[c*n:][:n], i)
			}
		}
		return 0
	}); err != nil {
		return err
	}
	if err := g.precondition(s.z, s.r, s.q, channels); err != nil {
		return err
	}
	err := g.each(channels, s.rows, 2, func(c, y, from, to int) float32 {
		copy(s.p[c*n+from:c*n+to], s.z[c*n+from:c*n+to])
		return g.dot(s.r[c*n+from:c*n+to], s.z[c*n+from:c*n+to])
	})
	for c := range channels {
		s.head.Rho[c] = g.sum(s.rows, c)
	}
	return err
}

func (g *graph) dot(a, b []float32) float32 {
	s := 0.0
	for i, v := range a {
		s += float64(v) * float64(b[i])
	}
	return float32(s)
}

// cycle is one step of the conjugate gradients. It returns the largest correction that the preconditioner sees after it, which
// is about what the error is.
func (g *graph) cycle(x []float32) (float32, error) {
	s := &g.state
	n := len(g.inv)
	channels := len(x) / n
	if err := g.apply(s.q, s.p, s.rows); err != nil {
		return 0, err
	}
	var alpha, beta [driver.MaxDiffusionChannels]float32
	for c := range channels {
		if pq := g.sum(s.rows, c); pq > 0 {
			alpha[c] = float32(s.head.Rho[c] / pq)
		}
	}
	if err := g.each(channels, s.rows, 3, func(c, y, from, to int) float32 {
		a := alpha[c]
		if a == 0 {
			return 0
		}
		for i := c*n + from; i < c*n+to; i++ {
			x[i] += a * s.p[i]
			s.r[i] -= a * s.q[i]
		}
		return 0
	}); err != nil {
		return 0, err
	}
	if err := g.precondition(s.z, s.r, s.q, channels); err != nil {
		return 0, err
	}
	if err := g.each(channels, s.rows, 2, func(c, y, from, to int) float32 {
		return g.dot(s.r[c*n+from:c*n+to], s.z[c*n+from:c*n+to])
	}); err != nil {
		return 0, err
	}
	for c := range channels {
		rho := g.sum(s.rows, c)
		if s.head.Rho[c] > 0 {
			beta[c] = float32(rho / s.head.Rho[c])
		}
		s.head.Rho[c] = rho
	}
	err := g.each(channels, s.rows, 3, func(c, y, from, to int) float32 {
		m := float32(0)
		for i := c*n + from; i < c*n+to; i++ {
			v := s.z[i]
			m = max(m, v, -v)
			s.p[i] = v + beta[c]*s.p[i]
		}
		return m
	})
	return graphCaution * largest(s.rows), err
}

// residual is the largest one of x itself.
func (g *graph) residual(x []float32) (float32, error) {
	s := &g.state
	n := len(g.inv)
	err := g.each(len(x)/n, s.rows, 8, func(c, y, from, to int) float32 {
		m := float32(0)
		for i := from; i < to; i++ {
			if g.inv[i] != 0 {
				m = max(m, float32(math.Abs(float64(g.flow(x[c*n:][:n], i)))))
			}
		}
		return m
	})
	return largest(s.rows), err
}

// precondition computes z, about the solution of A z = r, by a symmetric multigrid cycle from 0. q is overwritten.
func (g *graph) precondition(z, r, q []float32, channels int) error {
	n := len(g.inv)
	if err := g.planes(channels, 1, func(c, i int) { z[c*n+i] = graphJacobi * g.inv[i] * r[c*n+i] }); err != nil {
		return err
	}
	if len(g.levels) > 0 {
		if err := g.planes(channels, 5, func(c, i int) {
			q[c*n+i] = 0
			if g.inv[i] != 0 {
				q[c*n+i] = r[c*n+i] + g.flow(z[c*n:][:n], i)
			}
		}); err != nil {
			return err
		}
		l := &g.levels[0]
		// Rows of blocks have nodes of their own.
		if err := g.bands(l.h, 15*g.w*channels, func(y0, y1 int) {
			clear(l.b[int(l.cell[y0*l.w])*channels : int(l.cell[y1*l.w])*channels])
			for i := 2 * y0 * g.w; i < min(2*y1, g.h)*g.w; i++ {
				if p := int(g.parent[i]); p >= 0 {
					for c := range channels {
						l.b[p*channels+c] += q[c*n+i] + graphSmooth*g.scaledFlow(q[c*n:][:n], i)
					}
				}
			}
		}); err != nil {
			return err
		}
		if err := g.coarse(0, channels); err != nil {
			return err
		}
		if err := g.planes(channels, 2, func(c, i int) {
			q[c*n+i] = 0
			if p := int(g.parent[i]); p >= 0 {
				q[c*n+i] = l.x[p*channels+c]
			}
		}); err != nil {
			return err
		}
		if err := g.planes(channels, 5, func(c, i int) {
			if g.parent[i] >= 0 {
				z[c*n+i] += q[c*n+i] + graphSmooth*g.inv[i]*g.flow(q[c*n:][:n], i)
			}
		}); err != nil {
			return err
		}
	}
	if err := g.planes(channels, 5, func(c, i int) {
		q[c*n+i] = 0
		if inv := g.inv[i]; inv != 0 {
			q[c*n+i] = z[c*n+i] + graphJacobi*inv*(r[c*n+i]+g.flow(z[c*n:][:n], i))
		}
	}); err != nil {
		return err
	}
	return g.planes(channels, 1, func(c, i int) { z[c*n+i] = q[c*n+i] })
}

// planes runs f for all pixels and channels.
func (g *graph) planes(channels, ns int, f func(c, i int)) error {
	return g.bands(g.h, ns*g.w*channels, func(y0, y1 int) {
		for c := range channels {
			for i := y0 * g.w; i < y1*g.w; i++ {
				f(c, i)
			}
		}
	})
}

// scaledFlow is the flow of x times inv.
func (g *lattice) scaledFlow(x []float32, i int) float32 {
	v := x[i] * g.inv[i]
	s := float32(0)
	open := g.open[i]
	if open&openRight != 0 {
		s += x[i+1]*g.inv[i+1] - v
	}
	if open&openLeft != 0 {
		s += x[i-1]*g.inv[i-1] - v
	}
	if open&openDown != 0 {
		s += x[i+g.w]*g.inv[i+g.w] - v
	}
	if open&openUp != 0 {
		s += x[i-g.w]*g.inv[i-g.w] - v
	}
	return s
}

// coarse solves level k for l.b by a cycle from 0, into l.x.
func (g *graph) coarse(k, channels int) error {
	l := &g.levels[k]
	for i, b := range l.b {
		l.x[i] = graphJacobi * l.inv[i/channels] * b
	}
	if k+1 < len(g.levels) {
		next := &g.levels[k+1]
		if err := g.bands(l.n, 20*channels, func(from, to int) {
			for i := from; i < to; i++ {
				l.residual(i, l.r[i*channels:][:channels])
			}
		}); err != nil {
			return err
		}
		if err := g.bands(next.n, 20*channels, func(from, to int) {
			gather(next.b, l.r, next.rStart, next.rTo, next.rWeight, channels, from, to, true)
		}); err != nil {
			return err
		}
		if err := g.coarse(k+1, channels); err != nil {
			return err
		}
		if err := g.bands(l.n, 8*channels, func(from, to int) {
			gather(l.x, next.x, l.pStart, l.pTo, l.pWeight, channels, from, to, false)
		}); err != nil {
			return err
		}
		return g.relax(l, channels)
	}
	for range graphBottom {
		if err := g.relax(l, channels); err != nil {
			return err
		}
	}
	return nil
}

// gather adds to rows of a those of b that a sparse matrix says, or sets them to their sum.
func gather(a, b []float32, start, to []int32, weight []float32, channels, from, end int, set bool) {
	for i := from; i < end; i++ {
		row := a[i*channels:][:channels]
		if set {
			clear(row)
		}
		for e := start[i]; e < start[i+1]; e++ {
			for c, v := range b[int(to[e])*channels:][:channels] {
				row[c] += weight[e] * v
			}
		}
	}
}

// residual computes b - A x at node i.
func (l *graphLevel) residual(i int, r []float32) {
	channels := len(r)
	own := l.x[i*channels:][:channels]
	for c, v := range own {
		r[c] = l.b[i*channels+c] - l.sink[i]*v
	}
	for e := l.start[i]; e < l.start[i+1]; e++ {
		other := l.x[int(l.to[e])*channels:][:channels]
		for c, v := range own {
			r[c] += l.weight[e] * (other[c] - v)
		}
	}
}

// relax takes a step of Jacobi.
func (g *graph) relax(l *graphLevel, channels int) error {
	if err := g.bands(l.n, 20*channels, func(from, to int) {
		for i := from; i < to; i++ {
			l.residual(i, l.r[i*channels:][:channels])
		}
	}); err != nil {
		return err
	}
	return g.bands(l.n, 2*channels, func(from, to int) {
		for i := from * channels; i < to*channels; i++ {
			l.x[i] += graphJacobi * l.inv[i/channels] * l.r[i]
		}
	})
}
