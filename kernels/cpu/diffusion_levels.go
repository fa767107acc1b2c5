// The levels of diffusion with barriers, as they are made: each step by all threads, row by row of cells. Rows of
// matrices are put where there is room, in whatever order they come; what is in them doesn't depend on that.

package cpu

import (
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
)

// Those that a pixel takes from and that have equations are in the upper half of what it takes from, too.
const openInner = 4

// openAll is of a pixel amid others: it takes from four, and all have equations.
const openAll = 0xff

// productBand is how many rows of cells a thread multiplies at a time. Rows of products at its borders are made twice.
const productBand = 8

// setUp computes the operators, and returns how many pixels are void.
func (g *graph) setUp(flags []byte) (void int, err error) {
	if void, err = g.operator(flags, g.parent, true); err != nil {
		return 0, err
	}
	if err := g.bands(g.h, 4*g.w, func(y0, y1 int) {
		for i := y0 * g.w; i < y1*g.w; i++ {
			for k, j := range g.around(i) {
				if j >= 0 && g.inv[j] != 0 {
					g.open[i] |= 1 << (openInner + k)
				}
			}
		}
	}); err != nil {
		return 0, err
	}
	*g.table = [graphLevels]uint32{}
	room := graphNodes(g.w * g.h)
	c := coarsener{graph: g}
	last := 0
	for k := range graphLevels {
		nodes, err := c.coarsen(k, room)
		if err != nil {
			return 0, err
		}
		if nodes == 0 {
			break
		}
		g.table[k] = uint32(nodes)
		room -= nodes
		last = k
	}
	if n := g.table[last]; n > 0 && n <= graphDense {
		l := g.level(last)
		g.factor(&l)
	}
	return void, nil
}

// coarsener makes a level.
type coarsener struct {
	*graph
	pixels  bool // are what the level is made of; otherwise from is
	from    graphLevel
	w, h    int // cells of what the level is made of
	parent  []int32
	next    graphLevel
	first   []int32 // of the nodes of each row of cells; at first how many it has
	k       int     // the level that is made
	reach   int     // how far a block of the next level looks around itself
	helpers sync.Pool

	// How many entries of the pools are taken, and whether there were too few.
	edges, prolong, restrict atomic.Int64
	full                     atomic.Bool
}

// coarsenHelper is the memory of one thread.
type coarsenHelper struct {
	k        int     // the level that it is for
	where    []int32 // where the entry of each coarse node is among row, plus 1
	row      []int32
	sums     []float64
	seen     []int32 // by which coarse node each node was
	support  []int32
	known    []int32 // where the product of each node is, plus 1
	products []graphProduct
	pool     []graphEdge
	// Rows that are not yet in the pools of all.
	entries, rEntries []graphEdge
	pattern           graphPattern
}

// graphPattern is the row of a block of whole cells amid others, where all rows are the same: to is by how many cells
// further on. It is empty while none is known.
type graphPattern struct {
	row, restrict []graphEdge // of the level, and of what it is made of
	inv, sink     float32
}

// graphProduct is a row of -A P, of which entries from at to end are, and of A times the sums of the rows of P.
type graphProduct struct {
	node, at, end int32
	lack          float64
}

// coarsen makes level k, and returns how many nodes it has: none where it is not to be, or there was no room.
func (c *coarsener) coarsen(k, room int) (nodes int, err error) {
	c.k = k
	if c.pixels = k == 0; c.pixels {
		c.w, c.h, c.parent = c.graph.w, c.graph.h, c.graph.parent
	} else {
		c.from = c.level(k - 1)
		c.w, c.h, c.parent = c.from.w, c.from.h, c.from.parent
	}
	orphans := func(err error) (int, error) {
		for i := range c.count() {
			c.parent[i] = -1
		}
		return 0, err
	}
	if c.w*c.h == 1 || !c.pixels && c.from.n <= graphDense {
		return orphans(nil)
	}
	c.next = c.level(k)
	if err := c.join(); err != nil {
		return 0, err
	}
	if c.next.n == 0 || c.next.n > room {
		return orphans(nil)
	}
	if c.pixels {
		err = c.smoothPixels()
	} else {
		err = c.smooth()
	}
	if err == nil && !c.full.Load() {
		err = c.multiply()
	}
	if err != nil {
		return 0, err
	}
	if c.full.Load() {
		return orphans(nil)
	}
	return c.next.n, nil
}

// helper takes the memory of a thread, to be put back to helpers.
func (c *coarsener) helper() *coarsenHelper {
	h, _ := c.helpers.Get().(*coarsenHelper)
	if h == nil {
		h = &coarsenHelper{k: -1}
	}
	if h.k != c.k {
		h.k, h.products = c.k, h.products[:0]
		h.pattern = graphPattern{h.pattern.row[:0], h.pattern.restrict[:0], 0, 0}
		if h.where = zeros(h.where, c.next.n); !c.pixels {
			h.known, h.seen = zeros(h.known, c.from.n), zeros(h.seen, c.from.n)
		}
	}
	return h
}

// zeros is so many, in the memory of s if there is enough.
func zeros(s []int32, n int) []int32 {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// count is how many nodes the level is made of.
func (c *coarsener) count() int {
	if c.pixels {
		return c.w * c.h
	}
	return c.from.n
}

// rows runs f on bands of so many rows of cells of the next level.
func (c *coarsener) rows(band int, f func(y0, y1 int, p *pace) bool) error {
	return c.dev.longPieces("Diffusion", (c.next.h+band-1)/band, c.stop, func(i int, p *pace) bool {
		return f(i*band, min((i+1)*band, c.next.h), p)
	})
}

// block is the nodes of two rows of cells that lie in a block: those from a to b, and from a2 to b2.
func (c *coarsener) block(x, y int) (a, b, a2, b2 int) {
	x0, x1 := 2*x, min(2*x+2, c.w)
	at := 2 * y * c.w
	if c.pixels {
		if a, b = at+x0, at+x1; 2*y+1 < c.h {
			a2, b2 = a+c.w, b+c.w
		}
		return a, b, a2, b2
	}
	if a, b = int(c.from.cell[at+x0]), int(c.from.cell[at+x1]); 2*y+1 < c.h {
		a2, b2 = int(c.from.cell[at+c.w+x0]), int(c.from.cell[at+c.w+x1])
	}
	return a, b, a2, b2
}

// strong reports whether an edge of node i joins. Those of positive weight smooth, too.
func (c *coarsener) strong(i int, e graphEdge) bool {
	return e.weight*e.weight > graphStrong*graphStrong*c.pool.diagonal[i]*c.pool.diagonal[e.to]
}

// join makes nodes of what strong edges connect within blocks, and says which they are: parent and next.cell. Nodes
// with weak edges only are part of none; all edges of pixels are strong.
func (c *coarsener) join() error {
	l := &c.next
	if !c.pixels {
		if err := c.bands(c.from.n, 20, func(from, to int) {
			for i := from; i < to; i++ {
				sum, size := c.from.sink[i], float32(0)
				for _, e := range c.from.edges(i) {
					sum += e.weight
					size += max(e.weight, -e.weight)
				}
				c.pool.diagonal[i] = sum
				if c.parent[i] = -1; size > graphLoose*sum {
					c.parent[i] = 0
				}
			}
		}); err != nil {
			return err
		}
	}
	c.first = c.pool.first[:l.h]
	if err := c.rows(1, func(y, _ int, p *pace) bool {
		count := int32(0)
		for x := range l.w {
			l.cell[y*l.w+x] = count
			a, b, a2, b2 := c.block(x, y)
			if c.pixels {
				count = c.joinPixels(count, a, b, a2, b2)
			} else {
				count = c.joinNodes(count, a, b, a2, b2)
			}
			if p.spend(5 + 40*(b-a+b2-a2)) {
				return false
			}
		}
		c.first[y] = count
		return true
	}); err != nil {
		return err
	}
	count := int32(0)
	for y, n := range c.first {
		c.first[y] = count
		count += n
	}
	l.n = int(count)
	l.cell[l.w*l.h] = count
	return c.bands(l.h, 3*c.w, func(y0, y1 int) {
		for y := y0; y < y1; y++ {
			before := c.first[y]
			for x := range l.w {
				l.cell[y*l.w+x] += before
			}
			a, _, a2, _ := c.block(0, y)
			_, b, _, b2 := c.block(l.w-1, y)
			for _, row := range [2][]int32{c.parent[a:b], c.parent[a2:b2]} {
				for i := range row {
					if row[i] >= 0 {
						row[i] += before
					}
				}
			}
		}
	})
}

// joinPixels numbers the nodes of a block of pixels from count on, and returns what comes after.
func (c *coarsener) joinPixels(count int32, a, b, a2, b2 int) int32 {
	at := [4]int{a, a + 1, a2, a2 + 1}
	root := [4]int8{-1, -1, -1, -1}
	var open [4]uint8
	for k, i := range at {
		if k < 2 && i < b || k >= 2 && i < b2 {
			if open[k] = c.open[i] >> openInner; open[k] != 0 {
				root[k] = int8(k)
			} else {
				c.parent[i] = -1
			}
		}
	}
	join := func(k, m int) {
		lo, hi := min(root[k], root[m]), max(root[k], root[m])
		for i, r := range root {
			if r == hi {
				root[i] = lo
			}
		}
	}
	if open[0]&openRight != 0 {
		join(0, 1)
	}
	if open[2]&openRight != 0 {
		join(2, 3)
	}
	if open[0]&openDown != 0 {
		join(0, 2)
	}
	if open[1]&openDown != 0 {
		join(1, 3)
	}
	for k, r := range root {
		if r < 0 {
			continue
		}
		if int(r) < k {
			c.parent[at[k]] = c.parent[at[r]]
			continue
		}
		c.parent[at[k]] = count
		count++
	}
	return count
}

// joinNodes is joinPixels for nodes, those of which that join have a parent already. In turn, each that has no node yet
// makes one with those around it that have none either, ring by ring, until there are graphGroup; where all its
// neighbours have one it becomes a part of that of the first. Where all that strong edges connect becomes one node,
// corridors wound up within a block do, and take four times as many iterations.
func (c *coarsener) joinNodes(count int32, a, b, a2, b2 int) int32 {
	const none = math.MaxInt32
	parts := [2][2]int{{a, b}, {a2, b2}}
	for _, r := range parts {
		for i := r[0]; i < r[1]; i++ {
			if c.parent[i] >= 0 {
				c.parent[i] = none
			}
		}
	}
	for _, r := range parts {
		for i := r[0]; i < r[1]; i++ {
			if c.parent[i] != none {
				continue
			}
			first := int32(none) // of the neighbours that have a node
			c.parent[i] = count
			var group [graphGroup]int32
			group[0] = int32(i)
			size := 1
			for ring := 0; ring < size && size < graphGroup; {
				end := size
				for _, k := range group[ring:end] {
					for _, e := range c.from.edges(int(k)) {
						if j := int(e.to); (j < a || j >= b) && (j < a2 || j >= b2) || c.parent[j] < 0 ||
							!c.strong(int(k), e) {
							continue
						}
						if p := c.parent[e.to]; p < count {
							first = min(first, e.to)
						}
						if c.parent[e.to] != none {
							continue
						}
						// The first ones of a ring, where there are too many.
						at := size
						if size == graphGroup {
							at--
							if group[at] < e.to {
								continue
							}
							c.parent[group[at]] = none
						} else {
							size++
						}
						for ; at > end && group[at-1] > e.to; at-- {
							group[at] = group[at-1]
						}
						group[at] = e.to
						c.parent[e.to] = count
					}
				}
				ring = end
			}
			if size == 1 && first != none {
				c.parent[i] = c.parent[first]
				continue
			}
			count++
		}
	}
	return count
}

// smoothPixels makes P of the pixels, three entries each: the first is of the own node, those that are none have no
// weight.
func (c *coarsener) smoothPixels() error {
	return c.bands(c.h, 12*c.w, func(y0, y1 int) {
		for i := y0 * c.w; i < y1*c.w; i++ {
			row := (*[3]graphEdge)(c.pool.prolong[3*i:])
			*row = [3]graphEdge{}
			own := c.parent[i]
			if own < 0 {
				continue
			}
			unit := graphSmooth * c.inv[i]
			n := 1
			for _, j := range c.beside(i, c.open[i]>>openInner) {
				if j < 0 || c.parent[j] == own {
					continue
				}
				p, k := c.parent[j], 1
				for k < n && row[k].to != p {
					k++
				}
				if k == n {
					row[k].to = p
					n++
				}
				row[k].weight += unit
			}
			row[0] = graphEdge{own, c.pixelSum(i) - row[1].weight - row[2].weight}
		}
	})
}

// pixelSum is the sum of a row of P.
func (c *coarsener) pixelSum(i int) float32 {
	if c.open[i] == openAll {
		return 1
	}
	if c.parent[i] < 0 {
		return 0
	}
	return 1 - graphSmooth*c.inv[i]*float32(c.drained(i))
}

// drained is how many fixed pixels a pixel takes from.
func (c *coarsener) drained(i int) int {
	return bits.OnesCount8(c.open[i]&(1<<openInner-1)) - bits.OnesCount8(c.open[i]>>openInner)
}

// smooth makes P, and the sums of its rows.
func (c *coarsener) smooth() error {
	from := &c.from
	return c.rows(1, func(y, _ int, p *pace) bool {
		h := c.helper()
		defer c.helpers.Put(h)
		h.entries = h.entries[:0]
		a, _, a2, _ := c.block(0, y)
		_, b, _, b2 := c.block(c.next.w-1, y)
		for _, r := range [2][2]int{{a, b}, {a2, b2}} {
			for i := r[0]; i < r[1]; i++ {
				at := len(h.entries)
				c.smoothNode(i, h)
				from.pRows[i] = graphRow{int32(at), int32(len(h.entries))}
				if p.spend(80) {
					return false
				}
			}
		}
		before, ok := c.put(&c.prolong, c.pool.prolong, h.entries)
		if !ok {
			return true
		}
		for _, r := range [2][2]int{{a, b}, {a2, b2}} {
			for i := r[0]; i < r[1]; i++ {
				from.pRows[i].from += before
				from.pRows[i].to += before
			}
		}
		return true
	})
}

// put copies entries to where there is room in a pool, and returns where.
func (c *coarsener) put(taken *atomic.Int64, pool, entries []graphEdge) (at int32, ok bool) {
	end := taken.Add(int64(len(entries)))
	if end > int64(len(pool)) {
		c.full.Store(true)
		return 0, false
	}
	begin := end - int64(len(entries))
	copy(pool[begin:end], entries)
	return int32(begin), true
}

// smoothNode appends a row of P to entries, of which the first is that of the own node.
func (c *coarsener) smoothNode(i int, h *coarsenHelper) {
	own := c.parent[i]
	if c.pool.sums[i] = 0; own < 0 {
		return
	}
	sink := c.from.sink[i]
	diagonal, alone := sink, true
	at := len(h.entries)
	h.entries = append(h.entries, graphEdge{own, 0})
	for _, e := range c.from.edges(i) {
		if e.weight < 0 || !c.strong(i, e) {
			continue
		}
		diagonal += e.weight
		alone = false
		if p := c.parent[e.to]; p < 0 {
			sink += e.weight // no correction comes from there
		} else if p != own {
			others := h.entries[at+1:]
			k := 0
			for k < len(others) && others[k].to != p {
				k++
			}
			if k == len(others) {
				h.entries = append(h.entries, graphEdge{to: p})
				others = h.entries[at+1:]
			}
			others[k].weight += e.weight
		}
	}
	rest := float32(1)
	if !alone {
		rest -= graphSmooth * sink / diagonal
	}
	c.pool.sums[i] = rest
	for k := range h.entries[at+1:] {
		o := &h.entries[at+1+k]
		o.weight *= graphSmooth / diagonal
		rest -= o.weight
	}
	h.entries[at].weight = rest
}

// add adds to the entry of a row.
func (h *coarsenHelper) add(to int32, v float64) {
	k := h.where[to]
	if k == 0 {
		h.row = append(h.row, to)
		h.sums = append(h.sums, 0)
		k = int32(len(h.row))
		h.where[to] = k
	}
	h.sums[k-1] += v
}

// multiply makes P' and P' A P.
func (c *coarsener) multiply() error {
	l := &c.next
	if err := c.findWhole(); err != nil {
		return err
	}
	return c.rows(productBand, func(y0, y1 int, p *pace) bool {
		h := c.helper()
		defer c.helpers.Put(h)
		h.entries, h.rEntries = h.entries[:0], h.rEntries[:0]
		for _, q := range h.products {
			h.known[q.node] = 0
		}
		h.products, h.pool = h.products[:0], h.pool[:0]
		for cell := y0 * l.w; cell < y1*l.w; cell++ {
			x, y := cell%l.w, cell/l.w
			amid := c.amid(x, y)
			l.regular[cell] = amid
			for k := l.cell[cell]; k < l.cell[cell+1]; k++ {
				at, rAt, ns := len(h.entries), len(h.rEntries), 40
				switch {
				case amid && len(h.pattern.row) > 0:
					c.repeat(x, y, k, h)
				case c.pixels:
					ns = c.multiplyPixels(x, y, k, h)
				default:
					ns = c.multiplyNodes(x, y, k, h)
				}
				if amid && len(h.pattern.row) == 0 {
					c.learn(x, y, k, h.entries[at:], h.rEntries[rAt:], &h.pattern)
				}
				l.rows[k] = graphRow{int32(at), int32(len(h.entries))}
				l.rRows[k] = graphRow{int32(rAt), int32(len(h.rEntries))}
				if p.spend(ns) {
					return false
				}
			}
		}
		before, ok := c.put(&c.edges, c.pool.edges, h.entries)
		rBefore, rOK := c.put(&c.restrict, c.pool.restrict, h.rEntries)
		if !ok || !rOK {
			return true
		}
		for k := l.cell[y0*l.w]; k < l.cell[y1*l.w]; k++ {
			l.rows[k].from += before
			l.rows[k].to += before
			l.rRows[k].from += rBefore
			l.rRows[k].to += rBefore
		}
		return true
	})
}

// finish makes a row of the operator of what add has added up.
func (c *coarsener) finish(k int32, sink float64, h *coarsenHelper) {
	sum, size := sink, sink
	for m, to := range h.row {
		h.where[to] = 0
		if v := h.sums[m]; to != k && float32(v) != 0 {
			h.entries = append(h.entries, graphEdge{to, float32(v)})
			sum += v
			size += math.Abs(v)
		}
	}
	h.row, h.sums = h.row[:0], h.sums[:0]
	c.next.sink[k], c.next.inv[k] = float32(sink), 0
	if sum > 0 {
		c.next.inv[k] = float32(1 / max(sum, (sum+size)/2))
	}
}

// multiplyNodes makes the row of node k, which lies in a block of nodes, and returns about how many nanoseconds that
// took.
func (c *coarsener) multiplyNodes(x, y int, k int32, h *coarsenHelper) int {
	// Who takes corrections from node k: its members, and those around them.
	h.support = h.support[:0]
	see := func(i int32) {
		if h.seen[i] != k+1 {
			h.seen[i] = k + 1
			h.support = append(h.support, i)
		}
	}
	a, b, a2, b2 := c.block(x, y)
	for _, r := range [2][2]int{{a, b}, {a2, b2}} {
		for i := r[0]; i < r[1]; i++ {
			if c.parent[i] != k {
				continue
			}
			see(int32(i))
			for _, e := range c.from.edges(i) {
				if e.weight > 0 && c.strong(i, e) {
					see(e.to)
				}
			}
		}
	}
	ns := 20 * len(h.support)
	for _, i := range h.support {
		if h.known[i] == 0 {
			ns += c.product(i, h)
		}
	}
	sink := 0.0
	for _, i := range h.support {
		share := float64(-1)
		for _, p := range c.from.prolong(int(i)) {
			if p.to == k {
				share = float64(p.weight)
			}
		}
		if share < 0 {
			continue // the edge was strong, the node without one
		}
		h.rEntries = append(h.rEntries, graphEdge{i, float32(share)})
		p := &h.products[h.known[i]-1]
		for _, e := range h.pool[p.at:p.end] {
			h.add(e.to, share*float64(e.weight))
		}
		sink += share * p.lack
		ns += 3 * int(p.end-p.at)
	}
	c.finish(k, sink, h)
	return ns
}

// product makes the row of -A P of a node, and returns about how many nanoseconds that took. In differences, and of the
// sums of P's rows, that the sink is 0 where it should be.
func (c *coarsener) product(i int32, h *coarsenHelper) int {
	sum := float64(c.pool.sums[i])
	diagonal := float64(c.from.sink[i])
	lack := diagonal * sum
	ns := 20
	edges := c.from.edges(int(i))
	for _, e := range edges {
		v := float64(e.weight)
		diagonal += v
		lack += v * (sum - float64(c.pool.sums[e.to]))
		row := c.from.prolong(int(e.to))
		for _, p := range row {
			h.add(p.to, v*float64(p.weight))
		}
		ns += 3 * len(row)
	}
	for _, p := range c.from.prolong(int(i)) {
		h.add(p.to, -diagonal*float64(p.weight))
	}
	at := len(h.pool)
	for m, to := range h.row {
		h.where[to] = 0
		h.pool = append(h.pool, graphEdge{to, float32(h.sums[m])})
	}
	h.row, h.sums = h.row[:0], h.sums[:0]
	h.products = append(h.products, graphProduct{i, int32(at), int32(len(h.pool)), lack})
	h.known[i] = int32(len(h.products))
	return ns
}

// amidOffsets are of the blocks that a block of pixels may be coupled with.
var amidOffsets = [...][2]int{{0, -2}, {-1, -1}, {0, -1}, {1, -1}, {-2, 0}, {-1, 0}, {0, 0}, {1, 0}, {2, 0}, {-1, 1},
	{0, 1}, {1, 1}, {0, 2}}

// findWhole marks whole blocks, in root: those of four open pixels, or of four cells whose rows are as those of others,
// that are one node. And it finds out how far the rows of such blocks depend on what is around.
func (c *coarsener) findWhole() error {
	l := &c.next
	c.reach = 2
	if !c.pixels {
		c.reach = c.nodesReach()
	}
	return c.bands(l.h, 4*l.w, func(y0, y1 int) {
		for y := y0; y < y1; y++ {
			for x := range l.w {
				whole := int32(0)
				if i := 2*y*c.w + 2*x; 2*x+1 < c.w && 2*y+1 < c.h && c.alike(i, i+1, i+c.w, i+c.w+1) {
					whole = 1
				}
				c.pool.root[y*l.w+x] = whole
			}
		}
	})
}

// alike reports whether cells are pixels amid others, or have one node each, of a row as others have, and one parent.
func (c *coarsener) alike(cells ...int) bool {
	if c.pixels {
		return c.open[cells[0]]&c.open[cells[1]]&c.open[cells[2]]&c.open[cells[3]] == openAll
	}
	parent := c.parent[c.from.cell[cells[0]]]
	for _, i := range cells {
		if !c.from.regular[i] || c.parent[c.from.cell[i]] != parent {
			return false
		}
	}
	return parent >= 0
}

// nodesReach is how far, in blocks, the row of a block of nodes depends on what is around, where all rows are the same.
// Corrections from its node go along edges of positive weight; a row of A there takes from all edges, and each of those
// nodes has a row of P, which again depends on edges of positive weight.
func (c *coarsener) nodesReach() int {
	from := &c.from
	at := slices.Index(from.regular, true)
	if at < 0 {
		return 0
	}
	all, positive := 0, 0
	for _, e := range from.edges(int(from.cell[at])) {
		dx, dy := from.find(at%from.w, at/from.w, e.to)
		d := max(dx, -dx, dy, -dy)
		if all = max(all, d); e.weight > 0 {
			positive = max(positive, d)
		}
	}
	return (2*positive + all + 1) / 2
}

// find is by how many cells further on a node is than cell (x, y), around which cells have one node each.
func (l *graphLevel) find(x, y int, node int32) (dx, dy int) {
	for r := 0; ; r++ {
		for dy = -r; dy <= r; dy++ {
			for dx = -r; dx <= r; dx++ {
				if x+dx < 0 || x+dx >= l.w || y+dy < 0 || y+dy >= l.h {
					continue
				}
				if cell := (y+dy)*l.w + x + dx; l.cell[cell] == node && l.cell[cell+1] == node+1 {
					return dx, dy
				}
			}
		}
	}
}

// amid reports whether all blocks that the row of a block depends on are whole. Then it is as the rows of others.
func (c *coarsener) amid(x, y int) bool {
	l, r := &c.next, c.reach
	whole := c.pool.root
	if whole[y*l.w+x] == 0 || x < r || y < r || x+r >= l.w || y+r >= l.h {
		return false
	}
	if c.pixels {
		for _, d := range amidOffsets {
			if whole[(y+d[1])*l.w+x+d[0]] == 0 {
				return false
			}
		}
		return true
	}
	for v := y - r; v <= y+r; v++ {
		for _, whole := range whole[v*l.w+x-r:][:2*r+1] {
			if whole == 0 {
				return false
			}
		}
	}
	return true
}

// learn keeps the row of node k, of a block amid others.
func (c *coarsener) learn(x, y int, k int32, row, restrict []graphEdge, p *graphPattern) {
	l := &c.next
	for _, e := range row {
		dx, dy := l.find(x, y, e.to)
		p.row = append(p.row, graphEdge{int32(dy*l.w + dx), e.weight})
	}
	for _, e := range restrict {
		dx, dy := c.from.find(2*x, 2*y, e.to)
		p.restrict = append(p.restrict, graphEdge{int32(dy*c.w + dx), e.weight})
	}
	p.sink, p.inv = l.sink[k], l.inv[k]
}

// repeat makes the row of node k, of a block amid others, as that of another one.
func (c *coarsener) repeat(x, y int, k int32, h *coarsenHelper) {
	l, p := &c.next, &h.pattern
	for _, e := range p.row {
		h.entries = append(h.entries, graphEdge{l.cell[y*l.w+x+int(e.to)], e.weight})
	}
	for _, e := range p.restrict {
		h.rEntries = append(h.rEntries, graphEdge{c.from.cell[2*y*c.w+2*x+int(e.to)], e.weight})
	}
	l.sink[k], l.inv[k] = p.sink, p.inv
}

// multiplyPixels makes the row of node k, which lies in a block of pixels, and returns about how many nanoseconds that
// took.
func (c *coarsener) multiplyPixels(x, y int, k int32, h *coarsenHelper) int {
	// Members and those around them lie in 4x4 pixels.
	x0, y0 := 2*x-1, 2*y-1
	support := 0
	a, b, a2, b2 := c.block(x, y)
	for row, r := range [2][2]int{{a, b}, {a2, b2}} {
		for i := r[0]; i < r[1]; i++ {
			if c.parent[i] != k {
				continue
			}
			at := 4*(row+1) + i - r[0] + 1
			open := int(c.open[i] >> openInner)
			support |= 1<<at | open&openRight/openRight<<(at+1) | open&openLeft/openLeft<<(at-1) |
				open&openDown/openDown<<(at+4) | open&openUp/openUp<<(at-4)
		}
	}
	sink := 0.0
	for s := support; s != 0; s &= s - 1 {
		at := bits.TrailingZeros(uint(s))
		i := (y0+at/4)*c.w + x0 + at%4
		row := (*[3]graphEdge)(c.pool.prolong[3*i:])
		share := 0.0
		for _, p := range row {
			if p.to == k && p.weight != 0 {
				share = float64(p.weight)
			}
		}
		sum := float64(c.pixelSum(i))
		drained := c.drained(i)
		own := float64(drained) * sum
		diagonal := float64(drained)
		for _, j := range c.beside(i, c.open[i]>>openInner) {
			if j < 0 {
				continue
			}
			diagonal++
			own += sum - float64(c.pixelSum(j))
			for _, p := range (*[3]graphEdge)(c.pool.prolong[3*j:]) {
				if p.weight != 0 {
					h.add(p.to, share*float64(p.weight))
				}
			}
		}
		for _, p := range row {
			if p.weight != 0 {
				h.add(p.to, -share*diagonal*float64(p.weight))
			}
		}
		sink += share * own
	}
	c.finish(k, sink, h)
	return 800
}
