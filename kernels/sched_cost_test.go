package kernels

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/polyscan/polyscan/internal/seed"
)

// near reports whether a is within a part of b.
func near(a, b time.Duration, part float64) bool {
	return math.Abs(float64(a-b)) <= part*float64(b)
}

// jobs feeds a cost jobs of random sizes that take fixed + perUnit*units, give or take 5 %, and returns that function.
func feed(c *cost, rng *rand.Rand, n int, fixed, perUnit time.Duration) func(units int64) time.Duration {
	truth := func(units int64) time.Duration { return fixed + perUnit*time.Duration(units) }
	for range n {
		u := int64(100 + rng.IntN(10_000))
		c.observe(u, time.Duration(float64(truth(u))*(0.95+0.1*rng.Float64())))
	}
	return truth
}

func TestCostKnowsNothing(t *testing.T) {
	if d := (&cost{}).estimate(1000); d != 0 {
		t.Errorf("%v", d)
	}
	if d := (costs{}).estimate("x", 1000); d != 0 {
		t.Errorf("%v", d)
	}
}

func TestCostFitsALine(t *testing.T) {
	rng := seed.New(t, 1, 1)
	c := &cost{}
	truth := feed(c, rng, 200, 2*time.Millisecond, time.Microsecond)
	for _, u := range []int64{100, 1000, 5000, 10_000, 20_000} {
		if got, want := c.estimate(u), truth(u); !near(got, want, 0.1) {
			t.Errorf("%d units: %v, want %v", u, got, want)
		}
	}
	if got := c.units(12 * time.Millisecond); math.Abs(got-10_000) > 1000 {
		t.Errorf("12ms are %v units, want 10000", got)
	}
	if got := c.units(2 * time.Millisecond); math.Abs(got-1000) > 200 {
		t.Errorf("2ms, all of it fixed, are %v units, want 1000", got)
	}
}

// Where all jobs are alike, smaller ones are taken to be in proportion, and larger ones to take no longer, for what is
// known; and where time does not grow with units it is constant.
func TestCostWithoutSpread(t *testing.T) {
	c := &cost{}
	for range 10 {
		c.observe(1000, time.Millisecond)
	}
	if d := c.estimate(3000); !near(d, time.Millisecond, 0.01) {
		t.Errorf("three times as much takes %v", d)
	}
	if d := c.estimate(500); !near(d, time.Millisecond/2, 0.01) {
		t.Errorf("half as much takes %v", d)
	}
	c = &cost{}
	for range 10 {
		c.observe(0, time.Millisecond)
	}
	if d := c.estimate(3000); !near(d, time.Millisecond, 0.01) {
		t.Errorf("no units were known, and 3000 take %v", d)
	}
	rng := seed.New(t, 2, 2)
	c = &cost{}
	feed(c, rng, 200, 3*time.Millisecond, 0)
	if d := c.estimate(1_000_000); d < 2*time.Millisecond || d > 50*time.Millisecond {
		t.Errorf("constant: %v", d)
	}
}

// Where more units took no longer, nothing is known of how many more would.
func TestCostOfUnitsByChance(t *testing.T) {
	c := &cost{}
	c.observe(1000, 3*time.Millisecond)
	for n := int64(2000); n <= 4000; n += 1000 {
		c.observe(n, 2*time.Millisecond)
		if got := c.units(time.Millisecond); got < 1000 || got > 4*float64(n) {
			t.Errorf("a millisecond is %v units, after one of %d", got, n)
		}
	}
}

func TestCostIgnoresOutliers(t *testing.T) {
	rng := seed.New(t, 3, 3)
	c := &cost{}
	truth := feed(c, rng, 100, time.Millisecond, time.Microsecond)
	for range 10 {
		for range rng.IntN(costStreak) {
			c.observe(5000, time.Second)
		}
		feed(c, rng, 20, time.Millisecond, time.Microsecond)
		if got, want := c.estimate(5000), truth(5000); !near(got, want, 0.35) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func TestCostFollowsChange(t *testing.T) {
	rng := seed.New(t, 4, 4)
	c := &cost{}
	feed(c, rng, 1000, time.Millisecond, time.Microsecond)
	for _, factor := range []time.Duration{20, 1, 3, 1} {
		truth := feed(c, rng, 40, factor*time.Millisecond, factor*time.Microsecond)
		if got, want := c.estimate(5000), truth(5000); !near(got, want, 0.25) {
			t.Errorf("after 40 jobs that took %d times as long: %v, want %v", factor, got, want)
		}
	}
}

// Differences that are noise at the scale of microseconds are no outliers.
func TestCostOfShortJobs(t *testing.T) {
	c := &cost{}
	for i := range 100 {
		c.observe(1, time.Duration(1+i%3*5)*time.Microsecond)
	}
	if d := c.estimate(1); d < 3*time.Microsecond || d > 9*time.Microsecond {
		t.Errorf("%v", d)
	}
}

func TestCostsAreBounded(t *testing.T) {
	m := costs{}
	for i := range 2 * maxLabels {
		m.observe(string(rune(i)), 1, 1)
	}
	if len(m) != maxLabels {
		t.Errorf("%d labels", len(m))
	}
}
