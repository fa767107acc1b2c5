package polygon

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// A panic in a goroutine reaches the caller, who can recover from it, and after all others have ended.
func TestPanicsReachTheCaller(t *testing.T) {
	ended := make([]bool, 4)
	defer func() {
		p, _ := recover().(string)
		if !strings.Contains(p, "planted") || !strings.Contains(p, "TestPanicsReachTheCaller") {
			t.Errorf("recovered %q", p)
		}
		if ended[0] != true || ended[1] != true || ended[3] != true {
			t.Errorf("ended: %v", ended)
		}
	}()
	inParallel(4, func(i int) error {
		if i == 2 {
			panic("planted")
		}
		ended[i] = true
		return nil
	})
	t.Error("no panic")
}

func TestParallelErrorsAreThoseOfTheLowest(t *testing.T) {
	first, second := errors.New("1"), errors.New("2")
	if err := inParallel(4, func(i int) error { return []error{nil, first, second, nil}[i] }); err != first {
		t.Errorf("%v, want %v", err, first)
	}
	if err := inParallel(3, func(int) error { return nil }); err != nil {
		t.Error(err)
	}
}

// Counting the pixels of a region of any shape ends soon after its context.
func TestExtentEnds(t *testing.T) {
	r := seed.New(t, 7, 8)
	random := make(Ring, 300_000)
	for i := range random {
		random[i] = Point{X: (2*r.Float64() - 1) * 4e6, Y: (2*r.Float64() - 1) * 4e6}
	}
	comb := make(Ring, 300_000)
	for i := range comb {
		comb[i] = Point{X: float64(i), Y: float64(i%2*2-1) * 4e6}
	}
	for name, ring := range map[string]Ring{"random": random, "comb": comb} {
		set := mustSet(t, Region{Rings: []Ring{ring}})
		for _, after := range []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			x := extent{ctx: ctx, steps: 1 << 40}
			_, ok := x.pixels(set.edgesOf(0), driver.NonZero)
			end, _ := ctx.Deadline()
			if late := time.Since(end); ok || late > 500*time.Millisecond {
				t.Errorf("%s: counted: %t, %v after the end", name, ok, late)
			}
			cancel()
		}
	}
}
