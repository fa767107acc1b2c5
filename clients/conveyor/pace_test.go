package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fakeClock moves when it is slept on, or told to; sleeps end a little late, as they do.
type fakeClock struct {
	now   time.Time
	over  time.Duration
	slept int
}

func (c *fakeClock) Now() time.Time { return c.now }

func (c *fakeClock) Sleep(ctx context.Context, t time.Time) error {
	c.slept++
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.now = t.Add(c.over)
	return nil
}

func TestPacer(t *testing.T) {
	start := time.Unix(1000, 0)
	clock := &fakeClock{now: start, over: 50 * time.Microsecond}
	p := &pacer{clock: clock, profile: profile{rate: 20000}, lines: 128}
	const strip = 6400 * time.Microsecond
	for n := range 10 {
		ready, late, slip, err := p.wait(t.Context())
		if want := start.Add(time.Duration(n+1)*strip + clock.over); err != nil || late != 0 || slip != clock.over ||
			!ready.Equal(want) {
			t.Fatalf("strip %d: ready %v, late %v, %v; want %v", n, ready.Sub(start), late, err, want.Sub(start))
		}
	}
	// Held up for three strips and a half: they are handed over at once, and were ready when they were due.
	clock.now = clock.now.Add(3*strip + strip/2)
	for n := 10; n < 13; n++ {
		slept := clock.slept
		ready, late, slip, err := p.wait(t.Context())
		due := start.Add(time.Duration(n+1) * strip)
		if err != nil || !ready.Equal(due) || late != clock.now.Sub(due) || late <= 0 || slip != 0 ||
			clock.slept != slept {
			t.Fatalf("strip %d: ready %v, late %v, %v", n, ready.Sub(start), late, err)
		}
	}
	// And the pace is kept: nothing is lost of the time.
	if ready, late, _, _ := p.wait(t.Context()); !ready.Equal(start.Add(14*strip+clock.over)) || late != 0 {
		t.Errorf("after catching up: ready %v, late %v", ready.Sub(start), late)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	if _, _, _, err := p.wait(ctx); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

func TestProfile(t *testing.T) {
	near := func(a time.Duration, b float64) bool { return math.Abs(a.Seconds()-b) < 1e-6*(1+b) }
	up := profile{rate: 1000, to: 3000, over: 10 * time.Second}
	for _, tt := range []struct {
		p     profile
		lines float64
		want  float64
	}{
		{profile{rate: 500}, 1000, 2},
		{up, 0, 0},
		{up, 20000, 10},
		{up, 26000, 12},
		{up, 1000*5 + 100*25, 5}, // 1000 t + 100 t²
		{profile{rate: 3000, to: 1000, over: 10 * time.Second}, 3000*5 - 100*25, 5},
		{profile{rate: 1000, to: 1000, over: 10 * time.Second}, 7000, 7},
	} {
		if got := tt.p.due(tt.lines); !near(got, tt.want) {
			t.Errorf("%v: %v lines are due at %v, want %v s", tt.p, tt.lines, got, tt.want)
		}
	}
	// Bursts of four: the same rate, in groups.
	b := profile{rate: 1000, burst: 4}
	var at []time.Duration
	for n := range uint64(9) {
		at = append(at, b.strip(n, 100))
	}
	if want := []time.Duration{4, 4, 4, 4, 8, 8, 8, 8, 12}; !slices.EqualFunc(at, want, func(a, b time.Duration) bool {
		return near(a, b.Seconds()*1e8)
	}) {
		t.Errorf("%v", at)
	}
	rapid.Check(t, func(t *rapid.T) {
		p := profile{rate: rapid.Float64Range(1, 1e6).Draw(t, "rate"), to: rapid.Float64Range(1, 1e6).Draw(t, "to"),
			over:  time.Duration(rapid.Int64Range(1, 1e11).Draw(t, "over")),
			burst: rapid.IntRange(0, 5).Draw(t, "burst")}
		last := time.Duration(0)
		for n := range uint64(50) {
			d := p.strip(n, 64)
			if d < last {
				t.Fatalf("strip %d is due at %v, before %v", n, d, last)
			}
			last = d
		}
	})
}

func TestParseRamp(t *testing.T) {
	if p, err := parseRamp("5000:40000:30s"); err != nil ||
		p != (profile{rate: 5000, to: 40000, over: 30 * time.Second}) {
		t.Errorf("%v, %v", p, err)
	}
	for _, s := range []string{"", "1:2", "1:2:3", "0:1:1s", "a:1:1s", "1:-1:1s", "1:inf:1s", "1:2:-1s", "1:2:1s:4"} {
		if _, err := parseRamp(s); exitCode(err) != exitUsage || !strings.HasPrefix(err.Error(), "--ramp") {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// TestSystemClock: it doesn't wake up early, and not after ctx has ended.
func TestSystemClock(t *testing.T) {
	c := systemClock{}
	for _, d := range []time.Duration{-time.Second, 0, 300 * time.Microsecond, 45 * time.Millisecond} {
		until := time.Now().Add(d)
		if err := c.Sleep(t.Context(), until); err != nil || c.Now().Before(until) {
			t.Errorf("%v: %v, %v", d, c.Now().Sub(until), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := c.Sleep(ctx, time.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestSearch(t *testing.T) {
	for _, tt := range []struct{ from, limit, least float64 }{{1000, 20_300, 19_000}, {20_000, 1_500, 1_400},
		{1000, 1000, 1000}, {1000, 1e12, 1000 * 1 << 11}, {1000, 0, 0}} {
		tries := 0
		got, err := search(tt.from, func(rate float64) (bool, error) { tries++; return rate <= tt.limit, nil })
		if err != nil || got > tt.limit || got < tt.least || tries > capacityDoublings+capacityHalvings {
			t.Errorf("from %v with a limit of %v: %v in %d tries, %v", tt.from, tt.limit, got, tries, err)
		}
	}
	for _, tt := range []struct {
		o    outcome
		want bool
	}{
		{outcome{elapsed: time.Second, counts: counters{Lines: 2000, Parts: 10, Strips: 100, LateEither: 2, HeldUp: 2}},
			true},
		{outcome{elapsed: time.Second, counts: counters{Lines: 2000, Parts: 10, Strips: 100, LateEither: 3}}, false},
		{outcome{elapsed: time.Second, counts: counters{Lines: 2000, Parts: 1000, Strips: 1000, LateEither: 10, HeldUp: 10}},
			true},
		{outcome{elapsed: time.Second, counts: counters{Lines: 2000, Parts: 1000, Strips: 1000, HeldUp: 11}}, false},
		{outcome{elapsed: time.Second, counts: counters{Lines: 1900, Parts: 10, Strips: 100}}, false},
		{outcome{elapsed: time.Second, counts: counters{Lines: 2000, Strips: 100}}, false},
		{outcome{elapsed: time.Second, counts: counters{Lines: 2000, Parts: 10, Strips: 100}, wrong: 1}, false},
	} {
		if got := sustained(&tt.o, 1000, 2); got != tt.want {
			t.Errorf("%+v: kept up: %v", tt.o.counts, got)
		}
	}
	boom := errors.New("boom")
	if _, err := search(1, func(float64) (bool, error) { return false, boom }); !errors.Is(err, boom) {
		t.Error(err)
	}
}
