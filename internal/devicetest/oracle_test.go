package devicetest

import (
	"math/big"
	"testing"
	"time"

	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// The rule as it is written in package driver, for one pixel and one edge, in rationals.
func literalWinding(e driver.Edge, x, y int) int32 {
	xc := int64(x)*driver.Subpixel + driver.Subpixel/2
	yc := int64(y)*driver.Subpixel + driver.Subpixel/2
	if min(int64(e.Y0), int64(e.Y1)) > yc || yc >= max(int64(e.Y0), int64(e.Y1)) {
		return 0
	}
	t := big.NewRat(yc-int64(e.Y0), int64(e.Y1)-int64(e.Y0))
	crossing := t.Mul(t, new(big.Rat).SetInt64(int64(e.X1)-int64(e.X0)))
	crossing.Add(crossing, new(big.Rat).SetInt64(int64(e.X0)))
	if new(big.Rat).SetInt64(xc).Cmp(crossing) >= 0 {
		return 0
	}
	if e.Y1 > e.Y0 {
		return 1
	}
	return -1
}

// Roundings of the oracles are those of rationals, halves and numbers below zero included.
func TestRounding(t *testing.T) {
	for _, b := range []int64{1, 2, 3, 256, 1 << 20, 1<<39 - 1} {
		for _, n := range []int64{0, 1, 2, b / 2, b - 1, b, b + 1, 3 * b / 2, 3*b/2 + 1, 1 << 61} {
			for _, a := range []int64{n, -n} {
				exact := big.NewRat(a, b)
				if want := new(big.Int).Div(exact.Num(), exact.Denom()).Int64(); floorDiv(a, b) != want {
					t.Errorf("floorDiv(%d, %d) is %d, want %d", a, b, floorDiv(a, b), want)
				}
				exact.Add(exact, big.NewRat(1, 2))
				if want := new(big.Int).Div(exact.Num(), exact.Denom()).Int64(); roundHalfUp(a, b) != want {
					t.Errorf("roundHalfUp(%d, %d) is %d, want %d", a, b, roundHalfUp(a, b), want)
				}
			}
		}
	}
}

func TestOracleAppliesTheRuleAsWritten(t *testing.T) {
	g := seed.New(t, 11, 12)
	pixels, inside := 0, 0
	for n := range 250 {
		p := frame(g, 1+g.IntN(9), 1+g.IntN(9), driver.Gray8, noise)
		place := placement(n % int(placements))
		addBoth(&p.Regions, scribble(g, place, p.Width, p.Height, 3+g.IntN(8)),
			scribble(g, place, p.Width, p.Height, 3))
		for i, r := range p.Regions.Regions {
			for y := range p.Height {
				got := p.windings(i, y)
				for x := range p.Width {
					var want int32
					for _, e := range p.Regions.Edges[r.First:][:r.Count] {
						want += literalWinding(e, x, y)
					}
					var w int32
					if got != nil {
						w = got[x]
					}
					if w != want {
						t.Fatalf("problem %d region %d pixel (%d, %d): winding %d, want %d", n, i, x, y, w, want)
					}
					pixels++
					if want != 0 {
						inside++
					}
				}
			}
		}
	}
	if inside < pixels/10 || inside > pixels*9/10 {
		t.Errorf("%d of %d pixels have a winding number: the test sees one side only", inside, pixels)
	}
}

// By hand: a 4x3 frame and a triangle whose corners are on centres.
func TestOracleByHand(t *testing.T) {
	p := &Problem{Width: 4, Height: 3, Format: driver.RGB8, Stride: 13, Pixels: make([]byte, 13*2+12)}
	for y := range 3 {
		for x := range 4 {
			copy(p.Pixels[y*13+3*x:], []byte{byte(10*y + x), 7, byte(200 - x)})
		}
	}
	// Centres of (0,0), (3,0) and (0,2): the top and the left side belong to it, the hypotenuse does not.
	add(&p.Regions, driver.NonZero, ring{at(0.5, 0.5), at(3.5, 0.5), at(0.5, 2.5)})
	p.all()
	e := p.Expect()
	wantMask := []byte{
		255, 255, 255, 0,
		255, 255, 0, 0,
		0, 0, 0, 0,
	}
	if string(e.Mask) != string(wantMask) {
		t.Fatalf("mask %v", e.Mask)
	}
	for i, m := range e.Mask {
		if e.Labels[i] != uint16(m/255) {
			t.Fatalf("labels %v", e.Labels)
		}
	}
	// Values of red: 0 1 2 10 11.
	want := []driver.MaskStats{
		{Count: 5, Sum: 24, SumSq: 226, MinKey: 0, MaxKey: 11<<32 | 0xffffffff - 5, SumX: 4, SumY: 2, SumVX: 1 + 4 + 11,
			SumVY: 21},
		{Count: 5, Sum: 35, SumSq: 245, MinKey: 7 << 32, MaxKey: 7<<32 | 0xffffffff, SumX: 4, SumY: 2, SumVX: 28,
			SumVY: 14},
		{Count: 5, Sum: 996, SumSq: 2*200*200 + 2*199*199 + 198*198, MinKey: 198<<32 | 2, MaxKey: 200<<32 | 0xffffffff,
			SumX: 4, SumY: 2, SumVX: 199*2 + 198*2, SumVY: 399},
	}
	if d := CompareStats(e.Stats, want, 0, 3); d != nil {
		t.Error(d)
	}
	for c, bins := range []map[int]uint32{{0: 1, 1: 1, 2: 1, 10: 1, 11: 1}, {7: 5}, {200: 2, 199: 2, 198: 1}} {
		for v, n := range e.Hist[256*c : 256*c+256] {
			if bins[v] != n {
				t.Errorf("channel %d: %d pixels of value %d, want %d", c, n, v, bins[v])
			}
		}
	}
}

// Cases are the same each time they are made, and keep what package kernels promises to backends.
func TestCases(t *testing.T) {
	race.Skip(t)
	seen := map[string]bool{}
	var slow time.Duration
	for _, c := range Cases(3, 60) {
		if seen[c.Name] {
			t.Errorf("two cases are named %q", c.Name)
		}
		seen[c.Name] = true
		if c.Heavy && (testing.Short() || race.Enabled) {
			continue
		}
		p, q := c.Problem(), c.Problem()
		if string(p.Pixels) != string(q.Pixels) || len(p.Regions.Edges) != len(q.Regions.Edges) || p.What != q.What {
			t.Errorf("%s differs from one time to the next", c.Name)
		}
		if err := p.check(); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		if p.Tolerance() != 0 || p.Traffic().Raster != int64(p.Width)*int64(p.Height) ||
			p.Traffic().Reduce < p.statsBytes() {
			t.Errorf("%s: %+v", c.Name, p.Traffic())
		}
		start := time.Now()
		p.Expect()
		if d := time.Since(start); d > slow {
			slow = d
			t.Logf("%s takes the oracle %v", c.Name, d)
		}
	}
}
