// Edges of pictures, as chains of points. Source: Canny, A computational approach to edge detection, 1986; Di Zenzo, A
// note on the gradient of a multi-image, 1986.

package diffusion

import "math"

// edge is a chain of points, about a pixel from one to the next.
type edge struct{ points []Point }

// direction is that of the chain at a point, of length 1.
func (e *edge) direction(i int) Point {
	const reach = 3
	a, b := e.points[max(i-reach, 0)], e.points[min(i+reach, len(e.points)-1)]
	dx, dy := b.X-a.X, b.Y-a.Y
	if l := math.Hypot(dx, dy); l > 0 {
		return Point{dx / l, dy / l}
	}
	return Point{1, 0}
}

// continues is how steep an edge is at least, in parts of the threshold.
const continues = 0.4

// gradients of a picture: how steep it is, and in which direction.
type gradients struct {
	w, h         int
	size, dx, dy []float32 // size in levels a pixel
}

// About what a pixel on an edge takes in maps that are two thirds full, and in slices that have grown by half: its
// point there and in its place, and whether it is taken.
const (
	pointBytes = (8+16)*3/2 + 2*8*3/2
	aliveBytes = (8 + 1 + 1) * 3 / 2
)

// traceEdges finds the edges of a picture, in the order of their first pixels; less where pace ends it.
func traceEdges(p *Planes, o ExtractOptions, pace *pacer) []edge {
	g := gradientsOf(p, pace)
	points := make(map[int]Point) // of pixels on an edge
	strong := make([]int, 0, 1024)
	order := make([]int, 0, 1024)
	for i, size := range g.size {
		if !pace.spend(1) {
			return nil
		}
		if float64(size) < continues*o.Threshold {
			continue
		}
		if q, ok := g.ridge(i); ok {
			points[i] = q
			order = append(order, i)
			if float64(size) >= o.Threshold {
				strong = append(strong, i)
			}
		}
	}
	// What hangs together with something strong.
	alive := make(map[int]bool, len(points))
	pace.made(len(points) * (pointBytes + aliveBytes))
	for len(strong) > 0 {
		i := strong[len(strong)-1]
		strong = strong[:len(strong)-1]
		if !pace.spend(1) {
			return nil
		}
		if alive[i] {
			continue
		}
		alive[i] = true
		g.neighbours(i, func(j int) {
			if _, ok := points[j]; ok && !alive[j] {
				strong = append(strong, j)
			}
		})
	}
	var out []edge
	for _, i := range order {
		if !alive[i] {
			continue
		}
		delete(alive, i)
		forth := g.follow(points, alive, i, Point{}, pace)
		back := g.follow(points, alive, i, g.heading(points, i, forth), pace)
		if pace.err != nil {
			return nil
		}
		if len(forth)+len(back)+1 < o.Length {
			continue
		}
		var e edge
		for k := len(back) - 1; k >= 0; k-- {
			e.points = append(e.points, points[back[k]])
		}
		e.points = append(e.points, points[i])
		for _, j := range forth {
			e.points = append(e.points, points[j])
		}
		first, last := e.points[0], e.points[len(e.points)-1]
		if len(e.points) > 8 && math.Hypot(first.X-last.X, first.Y-last.Y) < 2 {
			e.points = append(e.points, first) // a loop
		}
		out = append(out, e)
	}
	return out
}

// heading is opposite to where a chain goes from i, or nothing.
func (g *gradients) heading(points map[int]Point, i int, forth []int) Point {
	if len(forth) == 0 {
		return Point{}
	}
	a, b := points[i], points[forth[min(2, len(forth)-1)]]
	return Point{a.X - b.X, a.Y - b.Y}
}

// follow takes what is alive from pixel i on, straight ahead first. heading is where it comes from, if anywhere.
func (g *gradients) follow(points map[int]Point, alive map[int]bool, i int, heading Point, pace *pacer) []int {
	var out []int
	for {
		if !pace.spend(10) {
			return out
		}
		best, score := -1, math.Inf(-1)
		a := points[i]
		g.neighbours(i, func(j int) {
			if !alive[j] {
				return
			}
			b := points[j]
			dx, dy := b.X-a.X, b.Y-a.Y
			l := max(math.Hypot(dx, dy), 1e-6)
			s := -l / 4
			if h := math.Hypot(heading.X, heading.Y); h > 0 {
				turn := (dx*heading.X + dy*heading.Y) / l / h
				if turn < -0.2 { // back along the edge, or a sharp corner: another one begins there
					return
				}
				s += turn
			}
			if s > score {
				best, score = j, s
			}
		})
		if best < 0 {
			return out
		}
		// Neighbours that lie beside the way are the same edge.
		b := points[best]
		g.neighbours(i, func(j int) {
			if q, ok := points[j]; ok && alive[j] && j != best && math.Hypot(q.X-b.X, q.Y-b.Y) < 0.8 {
				delete(alive, j)
			}
		})
		delete(alive, best)
		out = append(out, best)
		heading = Point{0.5*heading.X + b.X - a.X, 0.5*heading.Y + b.Y - a.Y}
		i = best
	}
}

// neighbours calls f for the up to eight of a pixel.
func (g *gradients) neighbours(i int, f func(j int)) {
	x, y := i%g.w, i/g.w
	for dy := -1; dy <= 1; dy++ {
		for dx := -1; dx <= 1; dx++ {
			if (dx != 0 || dy != 0) && x+dx >= 0 && x+dx < g.w && y+dy >= 0 && y+dy < g.h {
				f(i + dy*g.w + dx)
			}
		}
	}
}

// ridge reports whether a pixel is steeper than what lies before and behind it, and where between them the steepest
// place is.
func (g *gradients) ridge(i int) (Point, bool) {
	x, y := i%g.w, i/g.w
	dx, dy := float64(g.dx[i]), float64(g.dy[i])
	here, behind, ahead := float64(g.size[i]), g.at(float64(x)-dx, float64(y)-dy), g.at(float64(x)+dx, float64(y)+dy)
	if !(here > behind && here >= ahead) {
		return Point{}, false
	}
	off := 0.0
	if bend := behind - 2*here + ahead; bend < 0 {
		off = min(max(0.5*(behind-ahead)/bend, -0.5), 0.5)
	}
	return Point{float64(x) + 0.5 + off*dx, float64(y) + 0.5 + off*dy}, true
}

// at interpolates the size.
func (g *gradients) at(x, y float64) float64 {
	x, y = min(max(x, 0), float64(g.w-1)), min(max(y, 0), float64(g.h-1))
	i, j := int(x), int(y)
	fx, fy := x-float64(i), y-float64(j)
	v := func(i, j int) float64 { return float64(g.size[min(j, g.h-1)*g.w+min(i, g.w-1)]) }
	return (1-fy)*((1-fx)*v(i, j)+fx*v(i+1, j)) + fy*((1-fx)*v(i, j+1)+fx*v(i+1, j+1))
}

// gradientsOf smooths a picture by 1 4 6 4 1, and takes central differences of all channels together; less where pace
// ends it.
func gradientsOf(p *Planes, pace *pacer) *gradients {
	w, h := p.Width, p.Height
	g := &gradients{w: w, h: h, size: make([]float32, w*h), dx: make([]float32, w*h), dy: make([]float32, w*h)}
	xx, xy, yy := make([]float32, w*h), make([]float32, w*h), make([]float32, w*h)
	rows, smooth := make([]float32, w*h), make([]float32, w*h)
	pace.made(8 * 4 * w * h)
	for c := range p.Channels {
		src := p.Values[c*w*h:][:w*h]
		// i is the pixel, j its place along a line of n, step from one to the next
		mean := func(dst, src []float32, i, j, step, n int) {
			at := func(d int) float32 { return src[i+(min(max(j+d, 0), n-1)-j)*step] }
			dst[i] = ((at(-2) + at(2)) + 4*(at(-1)+at(1)) + 6*at(0)) / 16
		}
		for i := range src {
			if !pace.spend(1) {
				return g
			}
			mean(rows, src, i, i%w, 1, w)
		}
		for i := range src {
			if !pace.spend(1) {
				return g
			}
			mean(smooth, rows, i, i/w, w, h)
		}
		for i := range src {
			if !pace.spend(1) {
				return g
			}
			x, y := i%w, i/w
			gx := (smooth[y*w+min(x+1, w-1)] - smooth[y*w+max(x-1, 0)]) * 127.5
			gy := (smooth[min(y+1, h-1)*w+x] - smooth[max(y-1, 0)*w+x]) * 127.5
			xx[i], xy[i], yy[i] = xx[i]+gx*gx, xy[i]+gx*gy, yy[i]+gy*gy
		}
	}
	for i := range g.size {
		if !pace.spend(4) {
			return g
		}
		a, b, c := float64(xx[i]), float64(xy[i]), float64(yy[i])
		angle := 0.5 * math.Atan2(2*b, a-c)
		sin, cos := math.Sincos(angle)
		g.dx[i], g.dy[i] = float32(cos), float32(sin)
		g.size[i] = float32(math.Sqrt((a + c + math.Hypot(a-c, 2*b)) / 2))
	}
	return g
}
