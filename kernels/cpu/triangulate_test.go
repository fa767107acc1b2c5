package cpu

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// The conformance suite has the cases of Triangulate; here are its parts, arbitrary input, and its speed.

// triangulator runs Triangulate over points of one number.
type triangulator struct {
	*fixture
	op driver.Triangulate
}

func newTriangulator(t testing.TB, threads, n int) *triangulator {
	t.Helper()
	scratch := layoutTriangulate(n).end
	f := newFixture(t, threads, scratch+int64(n)*32+4*driver.Align)
	return &triangulator{f, driver.Triangulate{
		N: n, Points: f.slice(8 * int64(n)), Triangles: f.slice(24 * int64(n)), Count: f.slice(4),
		Scratch: f.slice(scratch),
	}}
}

func (x *triangulator) run(points []driver.Point) ([]driver.Triangle, error) {
	var n [1]uint32
	out := make([]driver.Triangle, 2*x.op.N)
	err := errors.Join(
		x.s.Upload(x.op.Points, [][]byte{bytesOf(points)}),
		x.s.Run(&x.op),
		x.s.Download(bytesOf(n[:]), x.op.Count),
		x.s.Download(bytesOf(out), x.op.Triangles),
		x.s.Wait(context.Background()),
	)
	return out[:n[0]], err
}

// A million points, checked edge by edge.
func TestTriangulateMillion(t *testing.T) {
	n := 1_000_000
	if testing.Short() || race.Enabled {
		n = 50_000
	}
	r := seed.New(t, 1, 2)
	for name, next := range map[string]func() driver.Point{
		"uniform, 16384": func() driver.Point { return driver.Point{X: r.Int32N(1 << 14), Y: r.Int32N(1 << 14)} },
		"Gaussian, 4096": func() driver.Point {
			return driver.Point{X: int32(2048 + r.NormFloat64()*512), Y: int32(2048 + r.NormFloat64()*512)}
		},
	} {
		points := make([]driver.Point, n)
		for i := range points {
			points[i] = next()
		}
		var sets [2][]driver.Triangle
		for i, threads := range []int{1, 2} {
			var err error
			if sets[i], err = newTriangulator(t, threads, n).run(points); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if err := devicetest.CheckTriangles(points, sets[0]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(sets[0]) != len(sets[1]) {
			t.Fatalf("%s: %d triangles with one thread and %d with two", name, len(sets[0]), len(sets[1]))
		}
		for i, v := range sets[0] { // the order is the same, too
			if v != sets[1][i] {
				t.Fatalf("%s: triangle %d is %v with one thread and %v with two", name, i, v, sets[1][i])
			}
		}
	}
}

// The order is that of a stable sort, however many runs and threads there are.
func TestSortRuns(t *testing.T) {
	r := seed.New(t, 3, 4)
	sizes := []int{1, 2, 3, digits, 2*sortRun - 1, 2 * sortRun, 9*sortRun + 17}
	if race.Enabled {
		sizes = []int{digits, 2*sortRun + 17}
	}
	for _, n := range sizes {
		for _, bits := range []uint{0, 1, digitBits, digitBits + 1, 29, 60} {
			list := make([]keyed, n)
			for i := range list {
				list[i] = keyed{r.Uint64() & (1<<bits - 1), uint32(i)}
			}
			want := slices.Clone(list)
			slices.SortStableFunc(want, func(a, b keyed) int { return cmp.Compare(a.key, b.key) })
			for _, threads := range []int{1, 3} {
				d := newFixture(t, threads, 0).dev.(*device)
				runs := d.runsOf(n)
				p := newPace(new(stopFlag))
				got, other, err := d.sortRuns(slices.Clone(list), make([]keyed, n), bits, runs,
					make([][digits]uint32, runs.n), &p)
				if err != nil || len(other) != n {
					t.Fatalf("%d of %d bits: %d others, %v", n, bits, len(other), err)
				}
				if !slices.Equal(got, want) {
					t.Errorf("%d of %d bits, %d threads, %d runs: out of order", n, bits, threads, runs.n)
				}
			}
		}
	}
}

func FuzzTriangulate(f *testing.F) {
	for _, set := range devicetest.PointSets(1, 4, 10) {
		if len(set.Points) <= 64 {
			f.Add(bytesOf(set.Points), uint8(len(set.Points)))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, bits uint8) {
		points := make([]driver.Point, min(len(b)/8, 200))
		for i := range points {
			v := binary.LittleEndian.Uint64(b[8*i:])
			shift := bits % 32 // small ranges have the ties
			points[i] = driver.Point{X: int32(v) >> shift, Y: int32(v>>32) >> shift}
		}
		inRange := true
		for _, p := range points {
			for _, c := range []int32{p.X, p.Y} {
				inRange = inRange && c >= -driver.MaxPoint && c <= driver.MaxPoint
			}
		}
		got, err := newTriangulator(t, 2, len(points)).run(points)
		switch {
		case err == nil && (inRange || len(points) < 3):
			if !inRange {
				return // nothing is looked at where nothing can come of it
			}
			if err := devicetest.CheckTriangles(points, got); err != nil {
				t.Fatal(err)
			}
		case err == nil:
			t.Fatal("a coordinate is out of range: no error")
		case inRange:
			t.Fatal(err)
		}
	})
}

func TestSumSign(t *testing.T) {
	r := seed.New(t, 1, 2)
	value := func() int64 { return int64(r.Uint64()) >> (2 + r.IntN(62)) }
	zeros := 0
	for range 100_000 {
		a, b, c, d := value(), value(), value(), value()
		e, f := value(), value()
		if r.IntN(4) == 0 {
			a, b, c, d, e, f = a>>30, b>>30, b>>30, -a>>30, 0, d // cancels
			if r.IntN(2) == 0 {
				d = -a
			}
		}
		sum := new(big.Int)
		for _, p := range [][2]int64{{a, b}, {c, d}, {e, f}} {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(p[0]), big.NewInt(p[1])))
		}
		if got, want := sumSign(a, b, c, d, e, f), sum.Sign(); got != want {
			t.Fatalf("%d*%d + %d*%d + %d*%d: sign %d, want %d", a, b, c, d, e, f, got, want)
		}
		if sum.Sign() == 0 {
			zeros++
		}
	}
	if zeros < 100 {
		t.Errorf("%d sums were 0", zeros)
	}
}

func BenchmarkTriangulate(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		r := seed.New(b, 1, 2)
		points := make([]driver.Point, n)
		for i := range points {
			points[i] = driver.Point{X: r.Int32N(1 << 14), Y: r.Int32N(1 << 14)}
		}
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("points=%d/threads=%d", n, threads), func(b *testing.B) {
				x := newTriangulator(b, threads, n)
				if _, err := x.run(points); err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					if err := errors.Join(x.s.Run(&x.op), x.s.Wait(context.Background())); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "points/s")
			})
		}
	}
}
