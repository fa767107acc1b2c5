// The suite: Voronoi diagrams.

package devicetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Diagram is what a Voronoi diagram is made of.
type Diagram struct {
	Name          string
	Sites         []driver.Point
	Width, Height int
}

// Diagrams are what Voronoi diagrams are tested on: no sites, one, all pixels, lines, corners, lattices with ties
// everywhere, images of one row or column, and random ones, of n pixels at most.
func Diagrams(seed uint64, random, n int) []Diagram {
	r := rand.New(rand.NewPCG(seed, 11))
	var out []Diagram
	add := func(name string, w, h int, p ...driver.Point) { out = append(out, Diagram{name, p, w, h}) }
	at := func(x, y int) driver.Point { return driver.Point{X: int32(x), Y: int32(y)} }
	add("no sites", 7, 5)
	add("no sites in one pixel", 1, 1)
	add("one pixel", 1, 1, at(0, 0))
	add("one pixel, three sites", 1, 1, at(0, 0), at(0, 0), at(0, 0))
	add("one site", 33, 17, at(5, 16))
	add("corners", 64, 64, at(63, 63), at(0, 63), at(63, 0), at(0, 0))
	add("twice the same", 9, 9, at(4, 4), at(1, 1), at(4, 4), at(1, 1))
	add("three that tie in one pixel, the middle one first", 21, 12, at(10, 11), at(1, 9), at(19, 9))
	var all, column, row, diagonal, lattice []driver.Point
	for i := range 20 * 13 {
		all = append(all, at(i%20, i/20))
	}
	for i := range 40 {
		column, row, diagonal = append(column, at(17, i)), append(row, at(i, 17)), append(diagonal, at(i, 39-i))
	}
	for i := range 49 {
		lattice = append(lattice, at(i%7*6+2, i/7*6+2))
	}
	for _, p := range [][]driver.Point{all, column, row, diagonal, lattice} {
		r.Shuffle(len(p), func(i, j int) { p[i], p[j] = p[j], p[i] })
	}
	add("all pixels", 20, 13, all...)
	add("column", 40, 40, column...)
	add("row", 40, 40, row...)
	add("diagonal", 40, 40, diagonal...)
	add("lattice", 44, 44, lattice...)
	for i := range random {
		w, h := 1+r.IntN(100), 1+r.IntN(100)
		switch i % 8 {
		case 0:
			w, h = 1, 1+r.IntN(1000)
		case 1:
			w, h = 1+r.IntN(1000), 1
		}
		if w*h > n {
			w, h = n, 1
		}
		p := make([]driver.Point, 1+r.IntN(1<<(i%9)))
		wide := max(1, w>>(i%3)) // some leave parts of the image empty
		for j := range p {
			p[j] = at(r.IntN(wide), r.IntN(h))
		}
		add(fmt.Sprintf("random %d: %d sites in %dx%d", i, len(p), w, h), w, h, p...)
	}
	return out
}

// wideDiagrams are those that need more room: far from all sites in rows and columns of several thousand pixels, images
// where many sites are almost equally near, and where all pixels are sites.
func wideDiagrams(seed uint64) []Diagram {
	r := rand.New(rand.NewPCG(seed, 12))
	at := func(x, y int) driver.Point { return driver.Point{X: int32(x), Y: int32(y)} }
	var circle, all, clumps, ends, column []driver.Point
	for i := range 2000 {
		s, c := math.Sincos(float64(i) * math.Pi / 1000)
		circle = append(circle, at(int(math.Round(77+76*c)), int(math.Round(77+76*s))))
	}
	slices.SortFunc(circle, func(a, b driver.Point) int { return cmp.Or(cmp.Compare(a.Y, b.Y), cmp.Compare(a.X, b.X)) })
	circle = slices.Compact(circle)
	for i := range 50 * 49 {
		all = append(all, at(i%50, i/50))
	}
	for range 30 {
		clumps = append(clumps, at(r.IntN(9), r.IntN(20)), at(2090+r.IntN(9), r.IntN(20)))
	}
	for i := range 20 {
		ends = append(ends, at(r.IntN(30), 5*i), at(r.IntN(30), 2999-5*i))
	}
	for i := range 150 {
		column = append(column, at(0, i), at(99, i))
	}
	for _, p := range [][]driver.Point{circle, all, clumps, column} {
		r.Shuffle(len(p), func(i, j int) { p[i], p[j] = p[j], p[i] })
	}
	return []Diagram{
		{"circle", circle, 155, 155},
		{"all of 50x49 pixels", all, 50, 49},
		{"clumps at both ends", clumps, 2100, 20},
		{"one site in a long row", []driver.Point{at(7, 1)}, 5000, 3},
		{"top and bottom", ends, 30, 3000},
		{"one site in a long column", []driver.Point{at(2, 4990)}, 3, 5000},
		{"both sides", column, 100, 150},
	}
}

// voronoi checks each method against an oracle. What floods may be wrong in some pixels, and has to be in the same
// ones.
func (s Suite) voronoi(t T, dev driver.Device) {
	methods := []driver.VoronoiMethod{driver.VoronoiDefault, driver.BruteForce, driver.Grid, driver.JumpFlood,
		driver.Banding}
	if _, err := dev.Scratch(&driver.Voronoi{N: 1, Width: 1, Height: 1,
		Method: driver.VoronoiDefault}); errors.Is(err, driver.ErrNotSupported) {
		t.Logf("%s lacks the op: %v", s.Driver.Name(), err)
		return
	}
	r := newRig(t, dev)
	defer r.close(t)
	random := s.Random
	if s.Short {
		random = min(random, 24) // each size three times
	}
	diagrams := append(Diagrams(s.Seed, random, 4000), wideDiagrams(s.Seed)...)
	if !s.small { // distances of which the squares take more than 31 bits
		diagrams = append(diagrams, Diagram{"left end of two rows", []driver.Point{{X: 5, Y: 1}, {}}, 46500, 2})
	}
	if !s.Short { // BANDING has a block for each row
		diagrams = append(diagrams,
			Diagram{"top of two columns", []driver.Point{{X: 1, Y: 3}, {X: 0, Y: 9}, {X: 1, Y: 9}}, 2, 46500})
	}
	exact := sync.OnceValue(func() [][]uint32 {
		labels := make([][]uint32, len(diagrams))
		for i, d := range diagrams {
			labels[i] = NearestSites(d.Sites, d.Width, d.Height)
		}
		return labels
	})
	for _, m := range methods {
		if _, err := dev.Scratch(&driver.Voronoi{N: 1, Width: 1, Height: 1, Method: m}); m == driver.JumpFlood &&
			errors.Is(err, driver.ErrNotSupported) {
			t.Logf("%s lacks the method %v: %v", s.Driver.Name(), m, err)
			continue
		}
		t.Run(m.String(), func(t T) { r.voronoiMethod(t, m, diagrams, exact()) })
	}
	if !s.small {
		t.Run("WIDE", r.voronoiWide)
	}
}

// halfRing has pixels whose squared distance to all sites takes more than 31 bits, and 8x8 pixels, in the middle of the
// ring, that have some 500 sites to choose from.
func halfRing() Diagram {
	d := Diagram{Name: "half a ring at one end", Width: 46500, Height: 41}
	const cx, cy, inner, outer = 52, 4, 26, 36
	for y := range d.Height {
		for x := range 2 * cx {
			if r := (x-cx)*(x-cx) + (y-cy)*(y-cy); r >= inner*inner && r <= outer*outer {
				d.Sites = append(d.Sites, driver.Point{X: int32(x), Y: int32(y)})
			}
		}
	}
	return d
}

// voronoiWide compares exact methods with each other in an image that is too large to ask an oracle for all pixels, and
// to have others wait for GRID on a CPU: its time grows with how far sites are.
func (r *rig) voronoiWide(t T) {
	d := halfRing()
	var want []uint32
	for _, m := range []driver.VoronoiMethod{driver.VoronoiDefault, driver.Banding} {
		got, err := r.labels(t, d, m)
		if err != nil {
			t.Errorf("%s, %v: %v", d.Name, m, err)
			continue
		}
		if want == nil {
			want = slices.Clone(got)
			for i := range want {
				if x, y := i%d.Width, i/d.Width; x < 120 || i%97 == 0 {
					want[i] = nearestSite(d.Sites, x, y)
				}
			}
		}
		if diff := CompareLabels(got, want, d.Width); diff != nil {
			t.Errorf("%s, %v: %v", d.Name, m, diff)
		}
	}
}

// voronoiMethod is voronoi for one method.
func (r *rig) voronoiMethod(t T, m driver.VoronoiMethod, diagrams []Diagram, exact [][]uint32) {
	pixels, wrong := 0, 0
	for i, d := range diagrams {
		got, err := r.labels(t, d, m)
		if err != nil {
			t.Errorf("%s: %v", d.Name, err)
			continue
		}
		want := exact[i]
		if m == driver.JumpFlood {
			want = FloodedSites(d.Sites, d.Width, d.Height)
		}
		if diff := CompareLabels(got, want, d.Width); diff != nil {
			t.Errorf("%s: %v", d.Name, diff)
		}
		for k, l := range got {
			if pixels++; l != exact[i][k] {
				wrong++
			}
		}
	}
	if m == driver.JumpFlood && wrong*50 > pixels {
		t.Errorf("%d of %d pixels are wrong, more than 2 %%", wrong, pixels)
	}
	for _, p := range []driver.Point{{X: -1}, {X: 5}, {Y: -1}, {Y: 4}} {
		if _, err := r.labels(t, Diagram{Sites: []driver.Point{{}, p}, Width: 5, Height: 4}, m); err == nil {
			t.Errorf("a site at %v of 5x4: no error", p)
		}
	}
}

// labels runs one Voronoi.
func (r *rig) labels(t T, d Diagram, m driver.VoronoiMethod) ([]uint32, error) {
	t.Helper()
	n := len(d.Sites)
	scratch, err := r.dev.Scratch(&driver.Voronoi{N: n, Width: d.Width, Height: d.Height, Method: m})
	if err != nil {
		return nil, err
	}
	out := make([]uint32, d.Width*d.Height)
	r.reserve(t, 3, int64(n)*8+int64(len(out))*4+scratch)
	op := driver.Voronoi{N: n, Width: d.Width, Height: d.Height, Method: m}
	op.Sites = r.slice(t, int64(n)*8, 0)
	op.Labels = r.slice(t, int64(len(out))*4, 0)
	op.Scratch = r.slice(t, scratch, 0)
	r.upload(t, op.Sites, bytesOf(d.Sites))
	r.fill(t, op.Labels, dirtyByte)
	r.fill(t, op.Scratch, dirtyByte)
	r.wait(t)
	if err := errors.Join(r.stream.Run(&op), r.stream.Wait(context.Background())); err != nil {
		return nil, err
	}
	r.download(t, bytesOf(out), op.Labels)
	r.wait(t)
	r.checkGuards(t)
	return out, nil
}
