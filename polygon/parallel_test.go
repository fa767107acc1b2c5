package polygon

import (
	"context"
	"errors"
	"strings"
	"testing"

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

// endsWhenAsked is a context that has ended once ended says so, which it is asked each time that somebody looks.
type endsWhenAsked struct {
	context.Context
	ended func() bool
}

func (c endsWhenAsked) Err() error {
	if c.ended() {
		return context.Canceled
	}
	return nil
}

// Counting the pixels of a region of any shape ends once it has seen that its context has: with the pass over the edges
// that it is in.
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
		for _, after := range []int{0, 1, 5, 25} {
			x := extent{steps: 1 << 40}
			left := int64(-1) // steps, when the context had ended
			x.ctx = endsWhenAsked{context.Background(), func() bool {
				if after--; after >= 0 {
					return false
				}
				left = x.steps
				return true
			}}
			_, ok := x.pixels(set.edgesOf(0), driver.NonZero)
			if more := left - x.steps; ok || left < 0 || more > int64(len(ring)) {
				t.Errorf("%s: counted: %t, and %d steps after the end", name, ok, more)
			}
		}
	}
}
