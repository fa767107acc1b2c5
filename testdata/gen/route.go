// route.go lays the board's traces: a maze router on a 4 px grid with 45 degree bends, one net after another.

package main

import (
	"cmp"
	"container/heap"
	"slices"
)

const (
	gridPitch = 4
	traceHalf = 2 // half a trace's width, px
	clearance = 3 // copper to copper, px
	viaRadius = 5
)

// free and taken are cell owners; positive owners are nets.
const (
	free  = 0
	taken = -1
)

// router owns the grid. A cell belongs to a net when that net's copper is too close for a trace of any other net to
// pass.
type router struct {
	w, h  int
	owner []int32
}

func newRouter(w, h int) *router {
	r := &router{w: w/gridPitch + 1, h: h/gridPitch + 1}
	r.owner = make([]int32, r.w*r.h)
	return r
}

// cell is the grid cell nearest to a point.
func (r *router) cell(v pt) int {
	g := func(f fix) int { return int((f + px(gridPitch)/2) >> 16 / gridPitch) }
	return g(v.y)*r.w + g(v.x)
}

func (r *router) point(c int) pt { return pt{px(c % r.w * gridPitch), px(c / r.w * gridPitch)} }

// claim gives net the cells closer to s than reach. What two nets claim is taken for good.
func (r *router) claim(s shape, reach fix, net int32) {
	for c := range r.owner {
		v := r.point(c)
		if v.x < s.x0-reach || v.x > s.x1+reach || v.y < s.y0-reach || v.y > s.y1+reach || s.d(v.x, v.y) >= reach {
			continue
		}
		if r.owner[c] == free {
			r.owner[c] = net
		} else if r.owner[c] != net {
			r.owner[c] = taken
		}
	}
}

// room tells whether a via of net fits at cell c.
func (r *router) room(c int, net int32) bool {
	x, y := c%r.w, c/r.w
	for dy := -2; dy <= 2; dy++ {
		for dx := -2; dx <= 2; dx++ {
			if x+dx < 0 || x+dx >= r.w || y+dy < 0 || y+dy >= r.h {
				return false
			}
			if o := r.owner[(y+dy)*r.w+x+dx]; o != free && o != net {
				return false
			}
		}
	}
	return true
}

// step is a search state: a cell entered in one of eight directions.
type step struct {
	key  int // cell*8 + direction
	cost int // so far
	est  int // cost plus the lower bound to the goal
}

type frontier []step

func (f frontier) Len() int { return len(f) }
func (f frontier) Less(i, j int) bool {
	// Ties go by key, so that the route does not depend on the heap's inner order.
	return cmp.Or(cmp.Compare(f[i].est, f[j].est), cmp.Compare(f[i].key, f[j].key)) < 0
}
func (f frontier) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *frontier) Push(v any)   { *f = append(*f, v.(step)) }
func (f *frontier) Pop() any {
	old := *f
	v := old[len(old)-1]
	*f = old[:len(old)-1]
	return v
}

var compass = [8][2]int{{1, 0}, {1, 1}, {0, 1}, {-1, 1}, {-1, 0}, {-1, -1}, {0, -1}, {1, -1}}

// route finds the cheapest way of net from one point to another (A*), or, when to is nil, from a point to the nearest
// place for a via at least four cells away. Straight steps cost 10, diagonal ones 14, each eighth of a turn 8; sharper
// bends than 45 degrees are not made. It claims what it uses and returns the corners, or nil.
func (r *router) route(from pt, to *pt, net int32) []pt {
	start, goal := r.cell(from), -1
	if to != nil {
		goal = r.cell(*to)
	}
	bound := func(c int) int {
		if goal < 0 {
			return 0
		}
		dx, dy := c%r.w-goal%r.w, c/r.w-goal/r.w
		dx, dy = max(dx, -dx), max(dy, -dy)
		return 10*max(dx, dy) + 4*min(dx, dy)
	}
	best := map[int]int{}
	parent := map[int]int{}
	var open frontier
	for dir := range 8 {
		k := start*8 + dir
		best[k], parent[k] = 0, -1
		heap.Push(&open, step{k, 0, bound(start)})
	}
	for open.Len() > 0 {
		s := heap.Pop(&open).(step)
		if s.cost > best[s.key] {
			continue
		}
		c, dir := s.key/8, s.key%8
		cx, cy := c%r.w, c/r.w
		if c == goal || goal < 0 && max(cx-start%r.w, start%r.w-cx)+max(cy-start/r.w, start/r.w-cy) >= 4 &&
			r.room(c, net) {
			return r.lay(s.key, parent, net)
		}
		for turn := -1; turn <= 1; turn++ {
			nd := (dir + turn + 8) % 8
			nx, ny := cx+compass[nd][0], cy+compass[nd][1]
			if nx < 0 || nx >= r.w || ny < 0 || ny >= r.h {
				continue
			}
			n := ny*r.w + nx
			if o := r.owner[n]; o != free && o != net {
				continue
			}
			cost := s.cost + 10 + 4*(nd%2) + 8*turn*turn
			k := n*8 + nd
			if old, seen := best[k]; !seen || cost < old {
				best[k], parent[k] = cost, s.key
				heap.Push(&open, step{k, cost, cost + bound(n)})
			}
		}
	}
	return nil
}

// lay walks back from the last state, claims the way and returns its corners.
func (r *router) lay(last int, parent map[int]int, net int32) []pt {
	var pts []pt
	prev := -1
	for k := last; k >= 0; k = parent[k] {
		if v := r.point(k / 8); k%8 != prev || parent[k] < 0 {
			pts = append(pts, v)
			prev = k % 8
		}
	}
	slices.Reverse(pts)
	r.claim(path(pts, 0), px(2*traceHalf+clearance), net)
	return pts
}
