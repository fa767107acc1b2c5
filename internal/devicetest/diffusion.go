// The oracle of diffusion, and the scenes that it is tested on.

package devicetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Scene is constraints of a diffusion.
type Scene struct {
	Name          string
	Width, Height int
	Channels      int
	Flags         []byte
	Method        driver.DiffusionMethod
	Threshold     float32   // by which it is to be solved; 0 for a tolerance
	Colours       []float32 // in planes; NaN where pixels are not fixed, as nobody may look at them there
}

// Barriers reports whether the scene blocks edges.
func (s *Scene) Barriers() bool { return s.any(driver.DiffusionBlocks) }

// OneWay reports whether the scene has edges that are open one way.
func (s *Scene) OneWay() bool { return s.any(driver.DiffusionShuts) }

func (s *Scene) any(flags byte) bool {
	return slices.ContainsFunc(s.Flags, func(f byte) bool { return f&flags != 0 })
}

// Grid is the scene's.
func (s *Scene) Grid() driver.DiffusionGrid {
	return driver.DiffusionGrid{Width: s.Width, Height: s.Height, Barriers: s.Barriers(), OneWay: s.OneWay(),
		Method: s.Method}
}

// NewScene returns one without constraints.
func NewScene(name string, width, height, channels int) *Scene {
	s := &Scene{Name: name, Width: width, Height: height, Channels: channels,
		Flags: make([]byte, width*height), Colours: make([]float32, channels*width*height)}
	for i := range s.Colours {
		s.Colours[i] = float32(math.NaN())
	}
	return s
}

// Fix gives a pixel a colour; outside of the image it does nothing.
func (s *Scene) Fix(x, y int, colour ...float32) {
	if x < 0 || y < 0 || x >= s.Width || y >= s.Height {
		return
	}
	i := y*s.Width + x
	s.Flags[i] |= driver.DiffusionFixed
	for c := range s.Channels {
		s.Colours[c*s.Width*s.Height+i] = colour[c%len(colour)]
	}
}

func randomColour(r *rand.Rand) []float32 { return []float32{r.Float32(), r.Float32(), r.Float32()} }

// bezier is a random curve: about length long, bent.
func bezier(r *rand.Rand, w, h int, length float64) (at, along func(t float64) (x, y float64)) {
	var px, py [4]float64
	px[0], py[0] = r.Float64()*float64(w), r.Float64()*float64(h)
	a := r.Float64() * 2 * math.Pi
	for k := 1; k < 4; k++ {
		a += 0.7 * r.NormFloat64()
		px[k], py[k] = px[k-1]+length/3*math.Cos(a), py[k-1]+length/3*math.Sin(a)
	}
	at = func(t float64) (float64, float64) {
		u := 1 - t
		b := [4]float64{u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t}
		return b[0]*px[0] + b[1]*px[1] + b[2]*px[2] + b[3]*px[3], b[0]*py[0] + b[1]*py[1] + b[2]*py[2] + b[3]*py[3]
	}
	along = func(t float64) (float64, float64) {
		u := 1 - t
		b := [3]float64{u * u, 2 * u * t, t * t}
		return b[0]*(px[1]-px[0]) + b[1]*(px[2]-px[1]) + b[2]*(px[3]-px[2]), b[0]*(py[1]-py[0]) + b[1]*(py[2]-py[1]) +
			b[2]*(py[3]-py[2])
	}
	return at, along
}

// Curves adds n curves with a colour along each side, lo to hi pixels long in an image of 1024x1024.
func (s *Scene) Curves(r *rand.Rand, n int, lo, hi float64) {
	scale := float64(max(s.Width, s.Height)) / 1024
	for range n {
		length := (lo + (hi-lo)*r.Float64()) * scale
		at, along := bezier(r, s.Width, s.Height, length)
		steps := int(6*length) + 8
		for _, side := range []float64{0.71, -0.71} {
			from, to := randomColour(r), randomColour(r)
			for i := range steps {
				t := float64(i) / float64(steps-1)
				x, y := at(t)
				dx, dy := along(t)
				d := math.Hypot(dx, dy) + 1e-9
				var colour []float32
				for c := range from {
					colour = append(colour, from[c]*float32(1-t)+to[c]*float32(t))
				}
				s.Fix(int(math.Floor(x-side*dy/d)), int(math.Floor(y+side*dx/d)), colour...)
			}
		}
	}
}

// Frame fixes what is around the image, with waves of colour.
func (s *Scene) Frame() {
	for y := range s.Height {
		for x := range s.Width {
			if x == 0 || y == 0 || x == s.Width-1 || y == s.Height-1 {
				s.Fix(x, y, 0.5+0.5*float32(math.Sin(float64(x+2*y)/9)), float32(x)/float32(s.Width), 0.25)
			}
		}
	}
}

// Holes fixes all but n ellipses.
func (s *Scene) Holes(r *rand.Rand, n int) {
	w, h := float64(s.Width), float64(s.Height)
	free := make([]bool, s.Width*s.Height)
	for range n {
		cx, cy := r.Float64(), r.Float64()
		a, b := 0.01+0.13*r.Float64(), 0.01+0.13*r.Float64()
		sin, cos := math.Sincos(3.14 * r.Float64())
		reach := max(a, b)
		for y := max(0, int((cy-reach)*h)); y < min(s.Height, int((cy+reach)*h)+2); y++ {
			for x := max(0, int((cx-reach)*w)); x < min(s.Width, int((cx+reach)*w)+2); x++ {
				dx, dy := float64(x)/w-cx, float64(y)/h-cy
				u, v := (dx*cos+dy*sin)/a, (dy*cos-dx*sin)/b
				if u*u+v*v < 1 {
					free[y*s.Width+x] = true
				}
			}
		}
	}
	for i := range free {
		if !free[i] {
			x, y := i%s.Width, i/s.Width
			s.Fix(x, y, 0.55+0.1*float32(x)/float32(s.Width)+0.03*r.Float32(), 0.3+0.03*r.Float32(),
				0.9-0.5*float32(y)/float32(s.Height))
		}
	}
}

// everyThird fixes about as many pixels, at random.
func everyThird(r *rand.Rand, w, h int) *Scene {
	s := NewScene(fmt.Sprintf("every third %dx%d", w, h), w, h, 4)
	for i := range s.Flags {
		if r.IntN(3) == 0 {
			s.Fix(i%w, i/w, r.Float32(), r.Float32(), -r.Float32(), 100*r.Float32())
		}
	}
	return s
}

// Scenes are what diffusion is tested on without barriers: curves, single pixels, holes, a frame, checkers, and the
// extremes, in images of about so many pixels a side.
func Scenes(seed uint64, side int) []*Scene {
	r := rand.New(rand.NewPCG(seed, 23))
	var out []*Scene
	add := func(name string, w, h, channels int) *Scene {
		s := NewScene(fmt.Sprintf("%s %dx%d", name, w, h), w, h, channels)
		out = append(out, s)
		return s
	}
	add("many curves", side, side, 3).Curves(r, 300, 80, 600)
	add("few curves", side+side/3, side-3, 3).Curves(r, 40, 100, 700)
	points := add("points", side-1, side, 3)
	for range 16 {
		points.Fix(r.IntN(points.Width), r.IntN(points.Height), randomColour(r)...)
	}
	add("one point", side/2+1, side/2, 1).Fix(3, 5, 0.75)
	pair := add("two points in corners", side, side/3, 1)
	pair.Fix(0, 0, 0)
	pair.Fix(pair.Width-1, pair.Height-1, 1)
	add("holes", side, side-7, 3).Holes(r, 60)
	add("frame", side+1, side+1, 3).Frame()
	checkers := add("checkers", 33, 31, 2)
	for i := range checkers.Flags {
		if x, y := i%33, i/33; (x+y)%2 == 0 {
			checkers.Fix(x, y, r.Float32(), r.Float32())
		}
	}
	out = append(out, everyThird(r, 50, 47))
	row := add("row", 301, 1, 1)
	row.Fix(0, 0, -1)
	row.Fix(200, 0, 1)
	column := add("column", 1, 77, 3)
	column.Fix(0, 76, 1, 2, 3)
	column.Fix(0, 33, 0, 0, 0)
	add("one pixel", 1, 1, 1).Fix(0, 0, 0.5)
	for _, d := range [][2]int{{2, 2}, {3, 2}, {2, 5}, {3, 3}, {4, 4}, {5, 9}, {17, 2}} {
		s := add("small", d[0], d[1], 2)
		s.Fix(0, d[1]-1, 1, 0)
		s.Fix(d[0]-1, 0, 0, 3)
	}
	full := add("all fixed", 6, 7, 1)
	for i := range full.Flags {
		full.Fix(i%6, i/6, r.Float32())
	}
	add("nothing given", 25, 1, 1)
	add("nothing given", 19, 34, 2)
	return out
}

// Block blocks the edge between pixel (x, y) and the one at its right, or below it where down is set; outside of the
// image it does nothing.
func (s *Scene) Block(x, y int, down bool) {
	if x < 0 || y < 0 || x >= s.Width || y >= s.Height {
		return
	}
	f := driver.DiffusionBlockRight
	if down {
		f = driver.DiffusionBlockDown
	}
	s.Flags[y*s.Width+x] |= f
}

// Walls adds n curves of blocked edges, lo to hi pixels long in an image of 1024x1024.
func (s *Scene) Walls(r *rand.Rand, n int, lo, hi float64) {
	scale := float64(max(s.Width, s.Height)) / 1024
	for range n {
		length := (lo + (hi-lo)*r.Float64()) * scale
		at, _ := bezier(r, s.Width, s.Height, length)
		steps := int(8*length) + 8
		x0, y0 := at(0)
		px, py := int(math.Floor(x0)), int(math.Floor(y0)) // the corner at the top left of a pixel
		for i := range steps {
			fx, fy := at(float64(i+1) / float64(steps))
			x, y := int(math.Floor(fx)), int(math.Floor(fy))
			for k := min(px, x); k < max(px, x); k++ {
				s.Block(k, py-1, true)
			}
			for k := min(py, y); k < max(py, y); k++ {
				s.Block(x-1, k, false)
			}
			px, py = x, y
		}
	}
}

// Snake makes one corridor, so many pixels wide, of the image, from 0 at its begin to 1 at its end.
func (s *Scene) Snake(wide int) {
	last := 0
	for k, y := 0, wide; y < s.Height; k, y = k+1, y+wide {
		for x := range s.Width {
			if gap := k%2 == 0 && x >= s.Width-wide || k%2 == 1 && x < wide; !gap {
				s.Block(x, y-1, true)
			}
		}
		last = y
	}
	for y := range min(wide, s.Height) {
		s.Fix(0, y, 0)
	}
	x := s.Width - 1
	if last/wide%2 == 1 {
		x = 0
	}
	for y := last; y < s.Height; y++ {
		s.Fix(x, y, 1)
	}
}

// Maze makes a maze of corridors one pixel wide, with one way between any two pixels, by depth-first search.
func (s *Scene) Maze(r *rand.Rand) {
	for i := range s.Flags {
		s.Flags[i] |= driver.DiffusionBlockRight | driver.DiffusionBlockDown
	}
	seen := make([]bool, len(s.Flags))
	stack := []int{0}
	seen[0] = true
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		x, y := i%s.Width, i/s.Width
		ways := make([]int, 0, 4)
		for k, d := range [4][2]int{{1, 0}, {0, 1}, {-1, 0}, {0, -1}} {
			if a, b := x+d[0], y+d[1]; a >= 0 && b >= 0 && a < s.Width && b < s.Height && !seen[b*s.Width+a] {
				ways = append(ways, k)
			}
		}
		if len(ways) == 0 {
			stack = stack[:len(stack)-1]
			continue
		}
		j := i
		switch ways[r.IntN(len(ways))] {
		case 0:
			s.Flags[i] &^= driver.DiffusionBlockRight
			j = i + 1
		case 1:
			s.Flags[i] &^= driver.DiffusionBlockDown
			j = i + s.Width
		case 2:
			j = i - 1
			s.Flags[j] &^= driver.DiffusionBlockRight
		case 3:
			j = i - s.Width
			s.Flags[j] &^= driver.DiffusionBlockDown
		}
		seen[j] = true
		stack = append(stack, j)
	}
}

// Rooms blocks every so many rows and columns, so that closed rooms are left.
func (s *Scene) Rooms(side int) {
	for i := range s.Flags {
		x, y := i%s.Width, i/s.Width
		if x%side == side-1 {
			s.Block(x, y, false)
		}
		if y%side == side-1 {
			s.Block(x, y, true)
		}
	}
}

// BarrierScenes are what diffusion is tested on with barriers: strokes and walls, a corridor, mazes, closed rooms of
// which some hold nothing fixed, and flags at random.
func BarrierScenes(seed uint64, side int) []*Scene {
	r := rand.New(rand.NewPCG(seed, 29))
	var out []*Scene
	add := func(name string, w, h, channels int) *Scene {
		s := NewScene(fmt.Sprintf("%s %dx%d", name, w, h), w, h, channels)
		out = append(out, s)
		return s
	}
	few := add("few walls", side, side, 3)
	few.Curves(r, 60, 30, 300)
	few.Walls(r, 30, 100, 600)
	many := add("many walls", side+5, side-2, 3)
	many.Curves(r, 60, 30, 200)
	many.Walls(r, 200, 100, 700)
	mixed := add("curves and walls", side-3, side, 3)
	mixed.Curves(r, 150, 60, 400)
	mixed.Walls(r, 60, 100, 600)
	add("corridor", side, side, 1).Snake(max(2, side/16))
	maze := add("maze", side/2+1, side/2, 1)
	maze.Maze(r)
	maze.Fix(0, 0, 0)
	maze.Fix(maze.Width-1, maze.Height-1, 1)
	for range side / 4 {
		maze.Fix(r.IntN(maze.Width), r.IntN(maze.Height), r.Float32())
	}
	rooms := add("rooms", side-1, side/2, 2)
	rooms.Rooms(7)
	for range side {
		rooms.Fix(r.IntN(rooms.Width), r.IntN(rooms.Height), r.Float32(), r.Float32())
	}
	flags := add("any flags", side/2, side/2+3, 2)
	for i := range flags.Flags {
		if r.IntN(20) == 0 {
			flags.Fix(i%flags.Width, i/flags.Width, r.Float32(), r.Float32())
		}
		x, y := i%flags.Width, i/flags.Width
		if r.IntN(4) == 0 {
			flags.Block(x, y, false)
		}
		if r.IntN(4) == 0 {
			flags.Block(x, y, true)
		}
	}
	open := add("walls around nothing", 2, 3, 1)
	open.Fix(0, 0, 0.25)
	open.Block(1, 2, false)
	closed := add("a closed pixel", 3, 3, 1)
	closed.Fix(0, 0, 0.25)
	closed.Fix(2, 2, 0.75)
	closed.Block(1, 1, false)
	closed.Block(1, 1, true)
	closed.Block(0, 1, false)
	closed.Block(1, 0, true)
	void := add("nothing fixed", 9, 4, 1)
	void.Block(3, 2, true)
	return out
}

// OneWayScenes are what diffusion is tested on with edges that are open one way: valves across an image, flags at
// random, and pixels that take from nothing but each other.
func OneWayScenes(seed uint64, side int) []*Scene {
	r := rand.New(rand.NewPCG(seed, 31))
	shut := func(s *Scene, x, y int, f byte) { s.Flags[y*s.Width+x] |= f }
	valves := NewScene(fmt.Sprintf("valves %dx%d", side, side-3), side, side-3, 3)
	valves.Curves(r, 20, 80, 300)
	for y := range valves.Height {
		shut(valves, side/3, y, driver.DiffusionShutLeft)
		shut(valves, 2*side/3, y, driver.DiffusionShutRight)
	}
	for x := range side {
		shut(valves, x, side/2, driver.DiffusionShutUp)
	}
	flags := NewScene(fmt.Sprintf("any one way %dx%d", side/2+1, side/2), side/2+1, side/2, 2)
	for i := range flags.Flags {
		if r.IntN(15) == 0 {
			flags.Fix(i%flags.Width, i/flags.Width, r.Float32(), r.Float32())
		}
		one, other := r.Uint32(), r.Uint32()
		flags.Flags[i] |= byte(one&other) & (driver.DiffusionBlocks | driver.DiffusionShuts)
	}
	// The island takes from nothing else, and those around it take from the fixed pixel only.
	island := NewScene("island 9x9", 9, 9, 1)
	island.Fix(0, 0, 0.25)
	island.Fix(8, 3, 0.75)
	for k := 3; k < 6; k++ {
		shut(island, 3, k, driver.DiffusionShutLeft)
		shut(island, 5, k, driver.DiffusionShutRight)
		shut(island, k, 3, driver.DiffusionShutUp)
		shut(island, k, 5, driver.DiffusionShutDown)
	}
	// A pixel that is open to nothing is not blocked for its neighbours.
	closed := NewScene("shut in 3x3", 3, 3, 2)
	closed.Fix(0, 0, 0, 1)
	closed.Fix(2, 1, 1, 3)
	shut(closed, 1, 1, driver.DiffusionShuts)
	return []*Scene{valves, flags, island, closed}
}

// Open reports whether something flows between pixel (x, y) and the one at its right, or below it where down is set.
func (s *Scene) Open(x, y int, down bool) bool {
	f := s.Flags[y*s.Width+x]
	if down {
		return y+1 < s.Height && f&driver.DiffusionBlockDown == 0
	}
	return x+1 < s.Width && f&driver.DiffusionBlockRight == 0
}

// around lists the neighbours that pixel i takes from.
func (s *Scene) around(i int, list []int) []int {
	x, y := i%s.Width, i/s.Width
	f := s.Flags[i]
	list = list[:0]
	if s.Open(x, y, false) && f&driver.DiffusionShutRight == 0 {
		list = append(list, i+1)
	}
	if x > 0 && s.Open(x-1, y, false) && f&driver.DiffusionShutLeft == 0 {
		list = append(list, i-1)
	}
	if s.Open(x, y, true) && f&driver.DiffusionShutDown == 0 {
		list = append(list, i+s.Width)
	}
	if y > 0 && s.Open(x, y-1, true) && f&driver.DiffusionShutUp == 0 {
		list = append(list, i-s.Width)
	}
	return list
}

// Void marks the pixels that take from a fixed one by no path, by flooding from those.
func (s *Scene) Void() []bool {
	void := make([]bool, len(s.Flags))
	takers := make([][]int, len(s.Flags))
	var queue, list []int
	for i, f := range s.Flags {
		if void[i] = f&driver.DiffusionFixed == 0; !void[i] {
			queue = append(queue, i)
		}
		list = s.around(i, list)
		for _, j := range list {
			takers[j] = append(takers[j], i)
		}
	}
	for len(queue) > 0 {
		i := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, j := range takers[i] {
			if void[j] {
				void[j] = false
				queue = append(queue, j)
			}
		}
	}
	return void
}

// Exact is the solution of the equations, by conjugate gradients in double precision with the diagonal as
// preconditioner, until the residual is rounding; where edges are open one way, by as many sweeps as that takes. Void
// pixels are the mean of the fixed ones. It shares nothing with other goroutines, and takes most of the time under the
// race detector if that looks.
//
//go:norace
func (s *Scene) Exact() []float64 {
	if s.OneWay() {
		return s.exactBySweeps()
	}
	n := len(s.Flags)
	void := s.Void()
	fixed := 0
	for _, f := range s.Flags {
		fixed += int(f & driver.DiffusionFixed)
	}
	// The unknowns, and for each the neighbours.
	var unknown []int
	for i, f := range s.Flags {
		if f&driver.DiffusionFixed == 0 && !void[i] {
			unknown = append(unknown, i)
		}
	}
	at := make([]int32, n) // of an unknown among them, and -1
	for i := range at {
		at[i] = -1
	}
	for k, i := range unknown {
		at[i] = int32(k)
	}
	next := make([][4]int32, len(unknown)) // unknown, or -1
	degree := make([]float64, len(unknown))
	var list []int
	for k, i := range unknown {
		list = s.around(i, list)
		degree[k] = float64(len(list))
		next[k] = [4]int32{-1, -1, -1, -1}
		for m, j := range list {
			next[k][m] = at[j]
		}
	}
	out := make([]float64, s.Channels*n)
	for c := range s.Channels {
		given, x := s.Colours[c*n:][:n], out[c*n:][:n]
		mean := 0.0
		for i, f := range s.Flags {
			if f&driver.DiffusionFixed != 0 {
				x[i] = float64(given[i])
				mean += x[i] / float64(fixed)
			}
		}
		for i := range x {
			if void[i] {
				x[i] = mean
			}
		}
		r, p, q := make([]float64, len(unknown)), make([]float64, len(unknown)), make([]float64, len(unknown))
		v := make([]float64, len(unknown))
		start, rho := 0.0, 0.0
		for k, i := range unknown {
			v[k] = mean
			list = s.around(i, list)
			for _, j := range list {
				if at[j] < 0 {
					r[k] += x[j] - mean
				}
			}
			start = max(start, math.Abs(r[k]))
			p[k] = r[k] / degree[k]
			rho += r[k] * p[k]
		}
		for steps := 0; rho > 0 && steps < 100*(s.Width+s.Height); steps++ {
			pq, largest := 0.0, 0.0
			for k := range unknown {
				a := degree[k] * p[k]
				for _, j := range next[k] {
					if j >= 0 {
						a -= p[j]
					}
				}
				q[k] = a
				pq += p[k] * a
			}
			alpha, old := rho/pq, rho
			rho = 0
			for k := range unknown {
				v[k] += alpha * p[k]
				r[k] -= alpha * q[k]
				rho += r[k] * r[k] / degree[k]
				largest = max(largest, math.Abs(r[k]))
			}
			if largest <= 1e-11*start {
				break
			}
			beta := rho / old
			for k := range unknown {
				p[k] = r[k]/degree[k] + beta*p[k]
			}
		}
		for k, i := range unknown {
			x[i] = v[k]
		}
	}
	return out
}

// exactBySweeps goes over the pixels, again and again, giving each the mean of those that it takes from.
//
//go:norace
func (s *Scene) exactBySweeps() []float64 {
	n := len(s.Flags)
	void := s.Void()
	from := make([][]int, n)
	fixed := 0
	for i, f := range s.Flags {
		if f&driver.DiffusionFixed != 0 {
			fixed++
			continue
		}
		if !void[i] {
			from[i] = slices.DeleteFunc(s.around(i, nil), func(j int) bool { return void[j] })
		}
	}
	out := make([]float64, s.Channels*n)
	for c := range s.Channels {
		given, x := s.Colours[c*n:][:n], out[c*n:][:n]
		mean := 0.0
		for i, f := range s.Flags {
			if f&driver.DiffusionFixed != 0 {
				x[i] = float64(given[i])
				mean += x[i] / float64(fixed)
			}
		}
		for i, f := range s.Flags {
			if f&driver.DiffusionFixed == 0 {
				x[i] = mean
			}
		}
		for change := 1.0; change > 1e-13; {
			change = 0
			for i, list := range from {
				if len(list) == 0 {
					continue
				}
				sum := 0.0
				for _, j := range list {
					sum += x[j]
				}
				sum /= float64(len(list))
				change = max(change, math.Abs(sum-x[i]))
				x[i] = sum
			}
		}
	}
	return out
}

// CompareDiffusion says where solutions differ by more than a tolerance, or are no numbers.
func CompareDiffusion[A, B float32 | float64](a []A, b []B, width int, tolerance float64) *Difference {
	const op = "DiffusionSolve"
	var f found
	f.add(op, -1, 0, func() string { return "len(X)" }, uint64(len(a)), uint64(len(b)))
	for i := range min(len(a), len(b)) {
		if math.Abs(float64(a[i])-float64(b[i])) <= tolerance {
			continue
		}
		// The bits differ even where both are NaN.
		f.add(op, -1, 0, func() string {
			return fmt.Sprintf("value %d (width %d; %v and %v, %v allowed)", i, width, a[i], b[i], tolerance)
		}, math.Float64bits(float64(a[i])), ^math.Float64bits(float64(b[i])))
	}
	return f.d
}

// DiffusionRounding is by how much converged solutions of two backends may differ besides what their estimates say, for
// values up to 1: a twentieth of a level of 8 bits.
const DiffusionRounding = 0.05 / 255

// magnitude is the largest absolute value, and 1 at least.
func magnitude(v []float32) float64 {
	m := 1.0
	for _, x := range v {
		m = max(m, math.Abs(float64(x)))
	}
	return m
}

// CompareCounts compares what set-ups found.
func CompareCounts(a, b driver.DiffusionCounts) *Difference {
	const op = "DiffusionSetup"
	var f found
	f.add(op, -1, 0, func() string { return "Fixed" }, uint64(a.Fixed), uint64(b.Fixed))
	f.add(op, -1, 0, func() string { return "Void" }, uint64(a.Void), uint64(b.Void))
	return f.d
}
