package polygon

import (
	"math"
	"testing"
	"unsafe"

	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

func TestFloorSum(t *testing.T) {
	rng := seed.New(t, 5, 6)
	for range 2000 {
		n, m := uint64(rng.IntN(300)), 1+rng.Uint64()>>(63-rng.IntN(39))
		a, b := rng.Uint64N(m), rng.Uint64N(m)
		var want uint64
		for i := range n {
			want += (a*i + b) / m
		}
		if got := floorSum(n, m, a, b); got != want {
			t.Fatalf("floorSum(%d, %d, %d, %d) = %d, want %d", n, m, a, b, got, want)
		}
	}
}

// TestExtentBytes: what is counted for extents is about what they take, and nothing where no region sticks out.
func TestExtentBytes(t *testing.T) {
	n := 2000
	if race.Enabled || testing.Short() { // it takes the square
		n = 400
	}
	comb, wheel := make(Ring, n), make(Ring, n)
	for i := range comb {
		comb[i] = Point{float64(i), float64(i%2*8_000_000 - 4_000_000)}
		a := float64(i) * 2 * math.Pi / float64(n)
		wheel[i] = Point{5000 * math.Cos(a), 5000 * math.Sin(a)}
	}
	for name, ring := range map[string]Ring{"a comb": comb, "a wheel": wheel} {
		set := mustSet(t, Region{Rings: []Ring{ring}})
		x := extent{ctx: t.Context(), steps: 1 << 40}
		if _, ok := x.pixels(set.edgesOf(0), driver.NonZero); !ok {
			t.Fatal("the pixels were not counted")
		}
		took := int64(4*(cap(x.order)+cap(x.live))) + int64(cap(x.band))*int64(unsafe.Sizeof(bandEdge{}))
		if n := set.ExtentBytes(64, 48); n < took*3/4 || n > 4*took {
			t.Errorf("%s: %d bytes are counted of %d", name, n, took)
		}
	}
	if n := mustSet(t, Region{Rings: []Ring{rectangle(0, 0, 9, 9)}}).ExtentBytes(64, 48); n != 0 {
		t.Errorf("%d bytes for a region that does not stick out", n)
	}
}
