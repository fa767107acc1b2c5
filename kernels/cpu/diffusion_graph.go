// Diffusion with barriers: conjugate gradients, preconditioned by multigrid on graphs. The pixels of a 2x2 block that open edges
// connect within the block become one node of a coarser graph, and so on: pixels on two sides of a barrier are never one node
// before a way around it is.

package cpu

import (
	"errors"
	"math"

	"github.com/polyscan/polyscan/kernels/driver"
)

const (
	// graphCaution is what the largest correction is multiplied by to say how large the error is. Without it estimates were up to
	// four times too low, in mazes.
	graphCaution = 4
	// graphSmooth is how many sweeps go before and after the coarse correction.
	graphSmooth = 2
	// graphStiffness is what couplings of coarse nodes are multiplied by. Corrections that are constant within nodes of two
	// pixels a side make couplings twice as stiff as smooth ones would, in the plane as well as along a corridor.
	graphStiffness = 0.5
)

// graphLevel is a coarse graph. Its nodes are numbered so that those of even blocks come first; blocks are coloured like a
// chequerboard, and edges lead from one colour to the other only.
type graphLevel struct {
	n, even int
	start   []int32   // of the edges of each node, n+1
	to      []int32   // where each edge leads; each is there twice
	weight  []float32 // of edges
	sink    []float32
	inv     []float32 // 1/(sum of weights + sink)
	parent  []int32   // the node of the next level, or -1: it has no edge there
	x, b    []float32 // channels values a node
}

// graphTable is where a level's parts begin, as it is kept in the set-up.
type graphTable struct{ Nodes, Even, Edges uint32 }

const graphLevels = 24 // enough for sides of 2^20

// maxGraphPixels keeps the numbers of edges, up to four a pixel, within int32.
const maxGraphPixels = 1 << 28

// graph is the preconditioner and the image's operator.
type graph struct {
	lattice
	parent []int32
	pool   graphPool
	table  *[graphLevels]graphTable
	levels []graphLevel
	state  graphState
}

// graphPool is the memory of all levels. At level k, edges cross the lines between blocks of 2^k pixels, of which there are
// less than 2N/2^k, and each node has at least one: so there are less than 4N/2^k nodes, and never more than a level before.
type graphPool struct {
	start, to, parent []int32
	weight, sink, inv []float32
	x, y              []int32 // blocks of nodes, while levels are made
	// While levels are made:
	root, first, member, mark []int32
}

func (a *arena) ints(n int) []int32 {
	at := a.end
	a.floats(n)
	if a.b == nil || n == 0 {
		return nil
	}
	return sliceAt[int32](a.b, at, n)
}

func graphNodes(pixels int) int { return 3*pixels + graphLevels }

func layGraph(a *arena, w, h int) *graph {
	n := w * h
	g := &graph{lattice: layLattice(a, w, h), parent: a.ints(n)}
	nodes, edges := graphNodes(n), 4*n
	at := a.end
	a.floats(3 * graphLevels)
	if a.b != nil {
		g.table = &sliceAt[[graphLevels]graphTable](a.b, at, 1)[0]
	}
	p := &g.pool
	p.start, p.parent, p.x, p.y = a.ints(nodes), a.ints(nodes), a.ints(nodes), a.ints(nodes)
	p.sink, p.inv = a.floats(nodes), a.floats(nodes)
	p.to, p.weight = a.ints(edges), a.floats(edges)
	p.root, p.first, p.member, p.mark = a.ints(n), a.ints(n+1), a.ints(n), a.ints(n)
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
	s.nodes = a.floats(2 * channels * graphNodes(w*h))
	return s
}

var errGraphRoom = errors.New("the graph has more edges than there can be")

// level cuts level k out of the pools, after those before it.
func (g *graph) level(k int) graphLevel {
	node, edge := 0, 0
	for _, t := range g.table[:k] {
		node += int(t.Nodes) + 1 // of start there is one more
		edge += int(t.Edges)
	}
	t, p := g.table[k], &g.pool
	n, m := int(t.Nodes), int(t.Edges)
	return graphLevel{
		n: n, even: int(t.Even), start: p.start[node:][:n+1], parent: p.parent[node:][:n],
		sink: p.sink[node:][:n], inv: p.inv[node:][:n], to: p.to[edge:][:m], weight: p.weight[edge:][:m],
	}
}

// open makes the levels of a set-up usable, with memory for their vectors.
func (g *graph) open(s graphState, channels int) {
	g.state = s
	nodes := s.nodes
	for k := 0; k < graphLevels && g.table[k].Nodes > 0; k++ {
		l := g.level(k)
		l.x, l.b = nodes[:l.n*channels], nodes[l.n*channels:][:l.n*channels]
		nodes = nodes[2*l.n*channels:]
		g.levels = append(g.levels, l)
	}
}

// setUp computes the operators, and returns how many pixels are void.
func (g *graph) setUp(flags []byte) (void int, err error) {
	if void, err = g.operator(flags, g.pool.root); err != nil {
		return 0, err
	}
	pace := newPace(g.stop)
	*g.table = [graphLevels]graphTable{}
	if err := g.coarsen(0, finestGraph{g}, g.parent, &pace); err != nil {
		return 0, err
	}
	for k := 0; k+1 < graphLevels && g.table[k].Nodes > 1; k++ {
		l := g.level(k)
		node := 0
		for _, t := range g.table[:k] {
			node += int(t.Nodes) + 1
		}
		if err := g.coarsen(k+1, coarseGraph{&l, g.pool.x[node:], g.pool.y[node:]}, l.parent, &pace); err != nil {
			return 0, err
		}
	}
	return void, nil
}

// fineGraph is what a level is made of.
type fineGraph interface {
	size() int
	at(i int) (x, y int32)
	sink(i int) float32
	edges(i int, f func(j int, weight float32))
}

type finestGraph struct{ *graph }

func (g finestGraph) size() int             { return g.w * g.h }
func (g finestGraph) at(i int) (x, y int32) { return int32(i % g.w), int32(i / g.w) }

func (g finestGraph) sink(i int) (sum float32) {
	if g.inv[i] != 0 {
		for _, j := range g.around(i) {
			if j >= 0 && g.inv[j] == 0 {
				sum++
			}
		}
	}
	return sum
}

func (g finestGraph) edges(i int, f func(j int, weight float32)) {
	if g.inv[i] == 0 {
		return
	}
	for _, j := range g.around(i) {
		if j >= 0 && g.inv[j] != 0 {
			f(j, 1)
		}
	}
}

type coarseGraph struct {
	l    *graphLevel
	x, y []int32
}

func (g coarseGraph) size() int             { return g.l.n }
func (g coarseGraph) at(i int) (x, y int32) { return g.x[i], g.y[i] }
func (g coarseGraph) sink(i int) float32    { return g.l.sink[i] }

func (g coarseGraph) edges(i int, f func(j int, weight float32)) {
	for k := g.l.start[i]; k < g.l.start[i+1]; k++ {
		f(int(g.l.to[k]), g.l.weight[k])
	}
}

// coarsen makes level k of the one before it, and fills in which of its nodes those become.
func (g *graph) coarsen(k int, from fineGraph, parent []int32, pace *pace) error {
	n := from.size()
	root := g.pool.root[:n]
	for i := range root {
		root[i] = int32(i)
	}
	find := func(i int32) int32 {
		for root[i] != i {
			root[i] = root[root[i]]
			i = root[i]
		}
		return i
	}
	// Join what is connected within a block; the least index is the root. mark: it has an edge that leaves the block.
	mark := g.pool.mark[:n]
	clear(mark)
	for i := range n {
		x, y := from.at(i)
		from.edges(i, func(j int, _ float32) {
			xj, yj := from.at(j)
			if xj>>1 != x>>1 || yj>>1 != y>>1 {
				mark[i] = 1
				return
			}
			a, b := find(int32(i)), find(int32(j))
			root[max(a, b)] = min(a, b)
		})
		if pace.spend(30) {
			return errAborted
		}
	}
	for i := range n {
		if mark[i] != 0 {
			mark[find(int32(i))] = 1
		}
	}
	// Number the roots, even blocks first.
	node := 0
	for _, t := range g.table[:k] {
		node += int(t.Nodes) + 1
	}
	blockX, blockY := g.pool.x[node:], g.pool.y[node:]
	count, even := 0, 0
	for colour := range int32(2) {
		for i := range n {
			x, y := from.at(i)
			if root[i] != int32(i) || (x>>1+y>>1)&1 != colour {
				continue
			}
			if parent[i] = -1; mark[i] != 0 {
				if count >= len(blockX) {
					return errGraphRoom
				}
				parent[i] = int32(count)
				blockX[count], blockY[count] = x>>1, y>>1
				count++
			}
		}
		if colour == 0 {
			even = count
		}
	}
	for i := range n {
		parent[i] = parent[find(int32(i))]
	}
	if pace.spend(20 * n) {
		return errAborted
	}
	if count == 0 {
		return nil
	}
	// The members of each.
	first, member := g.pool.first[:count+1], g.pool.member[:n]
	clear(first)
	for _, p := range parent[:n] {
		if p >= 0 {
			first[p+1]++
		}
	}
	for i := range count {
		first[i+1] += first[i]
	}
	for i := n - 1; i >= 0; i-- { // so that first ends where it belongs, after being counted down from the end of each
		if p := parent[i]; p >= 0 {
			first[p+1]--
			member[first[p+1]] = int32(i)
		}
	}
	// Now first[p+1] is where the members of p begin, and where those of p+1 begin is what follows.
	begins := first[1:]
	total := 0
	for _, p := range parent[:n] {
		if p >= 0 {
			total++
		}
	}
	g.table[k] = graphTable{Nodes: uint32(count), Even: uint32(even)}
	edge := 0
	for _, t := range g.table[:k] {
		edge += int(t.Edges)
	}
	to, weight := g.pool.to[edge:], g.pool.weight[edge:]
	start, sink, inv := g.pool.start[node:], g.pool.sink[node:], g.pool.inv[node:]
	where := mark[:count] // of the edge to a node, if not less than where the edges of this one begin
	for i := range where {
		where[i] = -1
	}
	m, full := int32(0), false
	for c := range count {
		start[c] = m
		end := total
		if c+1 < count {
			end = int(begins[c+1])
		}
		sum := float32(0)
		for _, i := range member[begins[c]:end] {
			sum += from.sink(int(i))
			from.edges(int(i), func(j int, v float32) {
				p := parent[j]
				if p == int32(c) {
					return
				}
				if where[p] < start[c] {
					if full = int(m) == len(to); full {
						return
					}
					where[p] = m
					to[m], weight[m] = p, 0
					m++
				}
				weight[where[p]] += graphStiffness * v
			})
			if pace.spend(40) {
				return errAborted
			}
			if full {
				return errGraphRoom
			}
		}
		sink[c] = sum
		for e := start[c]; e < m; e++ {
			sum += weight[e]
		}
		inv[c] = 1 / sum
	}
	start[count] = m
	g.table[k].Edges = uint32(m)
	return nil
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
	if err := g.precondition(s.z, s.r, channels); err != nil {
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
	if err := g.precondition(s.z, s.r, channels); err != nil {
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

// precondition computes z, about the solution of A z = r, by a symmetric multigrid cycle from 0.
func (g *graph) precondition(z, r []float32, channels int) error {
	n := len(g.inv)
	clear(z)
	for range graphSmooth {
		if err := g.sweep(z, r, channels, 0, 1); err != nil {
			return err
		}
	}
	if len(g.levels) > 0 {
		l := &g.levels[0]
		// Pixels are in the order of rows, nodes are not: so this is one thread's.
		clear(l.b)
		for c := range channels {
			zc, rc := z[c*n:][:n], r[c*n:][:n]
			for i, p := range g.parent {
				if p >= 0 {
					l.b[int(p)*channels+c] += rc[i] + g.flow(zc, i)
				}
			}
		}
		if err := g.coarse(0, channels); err != nil {
			return err
		}
		if err := g.bands(g.h, 3*g.w*channels, func(y0, y1 int) {
			for i := y0 * g.w; i < y1*g.w; i++ {
				if p := int(g.parent[i]); p >= 0 {
					for c := range channels {
						z[c*n+i] += l.x[p*channels+c]
					}
				}
			}
		}); err != nil {
			return err
		}
	}
	for range graphSmooth {
		if err := g.sweep(z, r, channels, 1, 0); err != nil {
			return err
		}
	}
	return nil
}

// sweep relaxes the pixels of one colour, then of the other.
func (g *graph) sweep(z, r []float32, channels int, colours ...int) error {
	n := len(g.inv)
	for _, colour := range colours {
		if err := g.bands(g.h, 4*g.w*channels, func(y0, y1 int) {
			for y := y0; y < y1; y++ {
				for c := range channels {
					zc, rc := z[c*n:][:n], r[c*n:][:n]
					for i := y*g.w + (y+colour)&1; i < (y+1)*g.w; i += 2 {
						if inv := g.inv[i]; inv != 0 {
							zc[i] += inv * (rc[i] + g.flow(zc, i))
						}
					}
				}
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// coarse solves level k by cycles from 0.
func (g *graph) coarse(k, channels int) error {
	l := &g.levels[k]
	clear(l.x)
	for range graphSmooth {
		if err := g.relax(l, channels, false); err != nil {
			return err
		}
	}
	if k+1 < len(g.levels) {
		next := &g.levels[k+1]
		clear(next.b)
		var r [driver.MaxDiffusionChannels]float32
		for i, p := range l.parent {
			if p >= 0 {
				l.residual(i, channels, &r)
				for c := range channels {
					next.b[int(p)*channels+c] += r[c]
				}
			}
		}
		if err := g.coarse(k+1, channels); err != nil {
			return err
		}
		for i, p := range l.parent {
			if p >= 0 {
				for c := range channels {
					l.x[i*channels+c] += next.x[int(p)*channels+c]
				}
			}
		}
	}
	for range graphSmooth {
		if err := g.relax(l, channels, true); err != nil {
			return err
		}
	}
	return nil
}

// residual computes b - A x at node i.
func (l *graphLevel) residual(i, channels int, r *[driver.MaxDiffusionChannels]float32) {
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

// relax solves for the nodes of one colour, then for those of the other.
func (g *graph) relax(l *graphLevel, channels int, reverse bool) error {
	for i := range 2 {
		from, to := 0, l.even
		if (i == 1) != reverse {
			from, to = l.even, l.n
		}
		if err := g.bands(to-from, 10*channels, func(a, b int) {
			var r [driver.MaxDiffusionChannels]float32
			for i := from + a; i < from+b; i++ {
				l.residual(i, channels, &r)
				for c := range channels {
					l.x[i*channels+c] += l.inv[i] * r[c]
				}
			}
		}); err != nil {
			return err
		}
	}
	return nil
}
