package polygon

import (
	"testing"

	"github.com/polyscan/polyscan/internal/seed"
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
