// The suite: triangulations by way of Voronoi diagrams.

package devicetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// MeshOps are the ops from sites to a triangulation, over the same memory.
type MeshOps struct {
	Voronoi driver.Voronoi
	Islands driver.Islands
	Dual    driver.DualTriangles
	Hull    driver.HullCompletion
	Flips   driver.Flips
}

// NewMeshOps makes the ops for up to so many sites and pixels, in memory that alloc returns: of sites, labels,
// triangles, count, counts, status and scratch.
func NewMeshOps(sites, pixels int, scratch int64, alloc func(bytes int64) driver.Slice) *MeshOps {
	at, labels, triangles := alloc(8*int64(sites)), alloc(4*int64(pixels)), alloc(24*int64(sites))
	count, counts, status, s := alloc(4), alloc(16), alloc(32), alloc(scratch)
	return &MeshOps{
		Voronoi: driver.Voronoi{Sites: at, Labels: labels, Scratch: s},
		Islands: driver.Islands{Sites: at, Labels: labels, Count: count, Scratch: s},
		Dual:    driver.DualTriangles{Sites: at, Labels: labels, Triangles: triangles, Counts: counts, Scratch: s},
		Hull:    driver.HullCompletion{Sites: at, Labels: labels, Triangles: triangles, Counts: counts, Scratch: s},
		Flips:   driver.Flips{Points: at, Triangles: triangles, Counts: counts, Rounds: 1000, Status: status, Scratch: s},
	}
}

// Sized is a copy for n sites in a picture, with the front of the same memory.
func (m MeshOps) Sized(n, width, height int) *MeshOps {
	sites, labels, triangles := m.Voronoi.Sites, m.Voronoi.Labels, m.Flips.Triangles
	sites.Len, labels.Len, triangles.Len = 8*int64(n), 4*int64(width)*int64(height), 24*int64(n)
	v, i, d, h, f := &m.Voronoi, &m.Islands, &m.Dual, &m.Hull, &m.Flips
	v.N, v.Width, v.Height, v.Sites, v.Labels = n, width, height, sites, labels
	i.N, i.Width, i.Height, i.Sites, i.Labels = n, width, height, sites, labels
	d.N, d.Width, d.Height, d.Sites, d.Labels, d.Triangles = n, width, height, sites, labels, triangles
	h.N, h.Width, h.Height, h.Sites, h.Labels, h.Triangles = n, width, height, sites, labels, triangles
	f.N, f.Points, f.Triangles = n, sites, triangles
	return &m
}

// Scratch is what any of the ops takes of a device's memory.
func (m *MeshOps) Scratch(dev driver.Device) (most int64, err error) {
	for _, op := range m.all() {
		n, e := dev.Scratch(op)
		most, err = max(most, n), errors.Join(err, e)
	}
	return most, err
}

// Run enqueues all of them.
func (m *MeshOps) Run(s driver.Stream) (err error) {
	for _, op := range m.all() {
		err = errors.Join(err, s.Run(op))
	}
	return err
}

func (m *MeshOps) all() []driver.Op {
	return []driver.Op{&m.Voronoi, &m.Islands, &m.Dual, &m.Hull, &m.Flips}
}

// mesh is the memory of a diagram on its way to a triangulation.
type mesh struct {
	*rig
	Diagram
	sites, labels, count, triangles, counts, status driver.Slice
	scratch                                         [4]driver.Slice // of Islands, DualTriangles, HullCompletion, Flips
}

func (r *rig) mesh(t T, d Diagram) *mesh {
	t.Helper()
	n := len(d.Sites)
	var scratch [4]int64
	for i, op := range []driver.Op{
		&driver.Islands{N: n, Width: d.Width, Height: d.Height},
		&driver.DualTriangles{N: n, Width: d.Width, Height: d.Height},
		&driver.HullCompletion{N: n, Width: d.Width, Height: d.Height},
		&driver.Flips{N: n},
	} {
		var err error
		if scratch[i], err = r.dev.Scratch(op); err != nil {
			t.Fatalf("%s: scratch of op %d: %v", d.Name, i, err)
		}
	}
	m := &mesh{rig: r, Diagram: d}
	r.reserve(t, 10, int64(n)*32+4*int64(d.Width*d.Height)+64+scratch[0]+scratch[1]+scratch[2]+scratch[3])
	m.sites = r.slice(t, 8*int64(n), 0)
	m.labels = r.slice(t, 4*int64(d.Width*d.Height), 0)
	m.count = r.slice(t, 4, 0)
	m.triangles = r.slice(t, 24*int64(n), 0)
	m.counts = r.slice(t, 16, 0)
	m.status = r.slice(t, 32, 0)
	for i, size := range scratch {
		m.scratch[i] = r.slice(t, size, 0)
		r.fill(t, m.scratch[i], dirtyByte)
	}
	for _, s := range []driver.Slice{m.count, m.triangles, m.counts, m.status} {
		r.fill(t, s, dirtyByte)
	}
	r.upload(t, m.sites, bytesOf(d.Sites))
	r.wait(t)
	return m
}

// run runs an op. It returns false where the backend doesn't take so many points.
func (m *mesh) run(t T, name string, enqueue func() error) bool {
	t.Helper()
	err := errors.Join(enqueue(), m.stream.Wait(context.Background()))
	if errors.Is(err, driver.ErrNotSupported) {
		t.Logf("%s: %v", m.Name, err)
		return false
	}
	if err != nil {
		t.Errorf("%s: %s: %v", m.Name, name, err)
	}
	return true
}

// islands makes the labels whole, and returns them and how many pixels changed hands.
func (m *mesh) islands(t T, labels []uint32) ([]uint32, uint32) {
	t.Helper()
	m.upload(t, m.labels, bytesOf(labels))
	m.run(t, "Islands", func() error {
		return m.stream.Run(&driver.Islands{
			Sites: m.sites, N: len(m.Sites), Width: m.Width, Height: m.Height, Labels: m.labels, Count: m.count,
			Scratch: m.scratch[0],
		})
	})
	out, count := make([]uint32, len(labels)), make([]uint32, 1)
	m.download(t, bytesOf(out), m.labels)
	m.download(t, bytesOf(count), m.count)
	m.wait(t)
	return out, count[0]
}

func (m *mesh) dual(t T) ([]driver.Triangle, driver.MeshCounts) {
	t.Helper()
	m.run(t, "DualTriangles", func() error {
		return m.stream.Run(&driver.DualTriangles{
			Sites: m.sites, N: len(m.Sites), Width: m.Width, Height: m.Height, Labels: m.labels, Triangles: m.triangles,
			Counts: m.counts, Scratch: m.scratch[1],
		})
	})
	return m.result(t)
}

func (m *mesh) hull(t T) ([]driver.Triangle, driver.MeshCounts) {
	t.Helper()
	m.run(t, "HullCompletion", func() error {
		return m.stream.Run(&driver.HullCompletion{
			Sites: m.sites, N: len(m.Sites), Width: m.Width, Height: m.Height, Labels: m.labels, Triangles: m.triangles,
			Counts: m.counts, Scratch: m.scratch[2],
		})
	})
	return m.result(t)
}

func (m *mesh) flips(t T, rounds int) (_ []driver.Triangle, _ driver.FlipStatus, ok bool) {
	t.Helper()
	ok = m.run(t, "Flips", func() error {
		return m.stream.Run(&driver.Flips{
			Points: m.sites, N: len(m.Sites), Triangles: m.triangles, Counts: m.counts, Rounds: rounds,
			Status: m.status, Scratch: m.scratch[3],
		})
	})
	out, _ := m.result(t)
	status := make([]driver.FlipStatus, 1)
	m.download(t, bytesOf(status), m.status)
	m.wait(t)
	return out, status[0], ok
}

// put uploads triangles for flips.
func (m *mesh) put(t T, triangles []driver.Triangle, sites int) {
	t.Helper()
	m.upload(t, driver.Slice{Mem: m.triangles.Mem, Off: m.triangles.Off, Len: int64(12 * len(triangles))},
		bytesOf(triangles))
	m.upload(t, m.counts, bytesOf([]driver.MeshCounts{{Triangles: uint32(len(triangles)), Sites: uint32(sites)}}))
	m.wait(t)
}

// result is the triangles and the counts that there are now.
func (m *mesh) result(t T) ([]driver.Triangle, driver.MeshCounts) {
	t.Helper()
	out, counts := make([]driver.Triangle, 2*len(m.Sites)), make([]driver.MeshCounts, 1)
	m.download(t, bytesOf(out), m.triangles)
	m.download(t, bytesOf(counts), m.counts)
	m.wait(t)
	return out[:min(int(counts[0].Triangles), len(out))], counts[0]
}

// meshes checks the steps from diagrams to triangulations one by one, and all together. A subtest is a diagram, or a
// set of points for Flips.
func (s Suite) meshes(t T, dev driver.Device) {
	if _, err := dev.Scratch(&driver.Islands{N: 3, Width: 3, Height: 3}); errors.Is(err, driver.ErrNotSupported) {
		t.Logf("%s lacks the ops: %v", s.Driver.Name(), err)
		return
	}
	r := newRig(t, dev)
	defer r.close(t)
	g := rand.New(rand.NewPCG(s.Seed, 17))
	for _, d := range Diagrams(s.Seed, s.Random/8, 4000) {
		exact := NearestSites(d.Sites, d.Width, d.Height)
		wild := make([]uint32, len(exact)) // drawn out here, so that it does not depend on which subtests run
		for i := range wild {
			switch g.IntN(8) {
			case 0:
				wild[i] = g.Uint32()
			case 1, 2:
				wild[i] = exact[g.IntN(len(exact))]
			default:
				wild[i] = exact[i]
			}
		}
		t.Run("from "+d.Name, func(t T) { r.meshOf(t, d, exact, wild) })
	}
	s.flips(t, r)
}

// meshOf checks the steps on a diagram, and on labels that come of no diagram.
func (r *rig) meshOf(t T, d Diagram, exact, wild []uint32) {
	m := r.mesh(t, d)
	m.steps(t, exact)
	if got, status, ok := m.flips(t, 1000); ok {
		if !status.Delaunay(len(got)) {
			t.Errorf("%s: Flips: %+v", d.Name, status)
		}
		if err := CheckTriangles(d.Sites, got); err != nil {
			t.Errorf("%s: Flips: %v", d.Name, err)
		}
	}
	// Each step does what it says, and the last one tells what came of it.
	m.Name += ", wild"
	m.steps(t, wild)
	before, counts := m.result(t)
	if got, status, ok := m.flips(t, 1000); ok {
		if diff := CompareFlaws(status, MeshFlaws(d.Sites, before, int(counts.Sites))); diff != nil {
			t.Errorf("%s: %v", m.Name, diff)
		}
		if status.Delaunay(len(got)) && counts.Sites == uint32(distinctSites(d.Sites)) {
			if err := CheckTriangles(d.Sites, got); err != nil {
				t.Errorf("%s: Flips says that all is well: %v", m.Name, err)
			}
		}
	}
	r.checkGuards(t)
}

func distinctSites(sites []driver.Point) int {
	seen := map[driver.Point]bool{}
	for _, p := range sites {
		seen[p] = true
	}
	return len(seen)
}

// steps checks all but Flips.
func (m *mesh) steps(t T, labels []uint32) {
	t.Helper()
	want := append([]uint32(nil), labels...)
	n := Reassign(m.Sites, want, m.Width, m.Height)
	got, count := m.islands(t, labels)
	if d := CompareIslands(got, want, m.Width, count, uint32(n)); d != nil {
		t.Errorf("%s: %v", m.Name, d)
	}
	m.upload(t, m.labels, bytesOf(want)) // so that each step is judged by itself
	dual, used := Dual(m.Sites, want, m.Width, m.Height)
	room := 2 * len(m.Sites)
	dual = dual[:min(len(dual), room)]
	counts := driver.MeshCounts{Triangles: uint32(len(dual)), Sites: uint32(used)}
	found, foundCounts := m.dual(t)
	if d := CompareMesh("DualTriangles", found, dual, foundCounts, counts); d != nil {
		t.Errorf("%s: %v", m.Name, d)
	}
	more, border, hull := Complete(m.Sites, want, m.Width, m.Height)
	all := append(dual, more...)
	all = all[:min(len(all), room)]
	counts.Triangles, counts.Border, counts.Hull = uint32(len(all)), uint32(border), uint32(hull)
	found, foundCounts = m.hull(t)
	if d := CompareMesh("HullCompletion", found, all, foundCounts, counts); d != nil {
		t.Errorf("%s: %v", m.Name, d)
	}
}

// flips checks Flips on triangulations that are far from Delaunay, and on what is no triangulation: each is spoiled in
// all ways, or when Short in one, in turn.
func (s Suite) flips(t T, r *rig) {
	n := 2000
	if s.Short || s.small {
		n = 600
	}
	for i, set := range PointSets(s.Seed, s.Random/8, n) {
		t.Run("Flips of "+set.Name, func(t T) {
			m := r.mesh(t, Diagram{set.Name, set.Points, 1, 1})
			start, distinct := Sweep(set.Points)
			m.put(t, start, distinct)
			got, status, ok := m.flips(t, 1)
			if !ok {
				return
			}
			if len(got) != len(start) || status.Rounds > 1 || (status.Left == 0) != status.Delaunay(len(got)) {
				t.Errorf("%s: %d of %d triangles after a round: %+v", set.Name, len(got), len(start), status)
			}
			if _, status, _ = m.flips(t, driver.MaxFlipRounds); !status.Delaunay(len(got)) {
				t.Errorf("%s: %+v", set.Name, status)
			}
			got, _ = m.result(t)
			if err := CheckTriangles(set.Points, got); err != nil {
				t.Errorf("%s: Flips: %v", set.Name, err)
			}
			r.checkGuards(t)
			if len(start) == 0 || len(set.Points) > 2000 {
				return
			}
			ways := spoil(set.Points, start, distinct, rand.New(rand.NewPCG(s.Seed, uint64(len(start)))))
			if s.Short {
				ways = ways[i%len(ways):][:1]
			}
			for _, w := range ways {
				m.put(t, w.triangles, w.sites)
				after, status, _ := m.flips(t, 100)
				if d := CompareFlaws(status, MeshFlaws(set.Points, w.triangles, w.sites)); d != nil {
					t.Errorf("%s, %s: %v", set.Name, w.how, d)
				}
				if status.Sound(len(w.triangles)) || status.Flips+status.Rounds+status.Left != 0 ||
					len(after) != len(w.triangles) {
					t.Errorf("%s, %s: %+v", set.Name, w.how, status)
				}
			}
			r.checkGuards(t)
		})
	}
	t.Run("Flips of nothing", func(t T) {
		m := r.mesh(t, Diagram{"nothing for three points", []driver.Point{{}, {X: 1}, {Y: 1}}, 1, 1})
		m.put(t, nil, 3)
		if _, status, _ := m.flips(t, 1); status != (driver.FlipStatus{Missing: 3}) {
			t.Errorf("%s: %+v", m.Name, status)
		}
		m.upload(t, m.counts, bytesOf([]driver.MeshCounts{{Triangles: 7, Sites: 3}}))
		m.wait(t)
		if err := errors.Join(m.stream.Run(&driver.Flips{
			Points: m.sites, N: 3, Triangles: m.triangles, Counts: m.counts, Rounds: 1, Status: m.status,
			Scratch: m.scratch[3],
		}), m.stream.Wait(context.Background())); err == nil {
			t.Errorf("7 triangles of 3 points: no error")
		}
	})
}

// spoiledMesh is triangles that are no triangulation, and of how many points they are said to be one.
type spoiledMesh struct {
	how       string
	triangles []driver.Triangle
	sites     int
}

// spoil spoils a triangulation at a random triangle, in each way that there is.
func spoil(points []driver.Point, mesh []driver.Triangle, sites int, g *rand.Rand) []spoiledMesh {
	k := g.IntN(len(mesh))
	v := mesh[k]
	with := func(t ...driver.Triangle) []driver.Triangle { return slices.Concat(mesh[:k], t, mesh[k+1:]) }
	ways := []spoiledMesh{
		{"a triangle is missing", with(), sites},
		{"a triangle is turned", with(driver.Triangle{A: v.A, B: v.C, C: v.B}), sites},
		{"a corner is no point", with(driver.Triangle{A: v.A, B: uint32(len(points)), C: v.C}), sites},
		{"a corner is far from any point", with(driver.Triangle{A: v.A, B: v.B, C: 1<<32 - 1}), sites},
		{"two corners are the same", with(driver.Triangle{A: v.A, B: v.B, C: v.A}), sites},
		{"a point is missing", mesh, sites + 1},
	}
	if len(mesh) < 2*len(points) {
		ways = append(ways, spoiledMesh{"a triangle is there twice", slices.Concat(mesh, []driver.Triangle{v}), sites})
	}
	return ways
}
