package polygon

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/race"
	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
)

// striped is a mask of so many rows of so many runs.
func striped(rows, runs int) []Run {
	out := make([]Run, 0, rows*runs)
	for y := range int32(rows) {
		for x := range int32(runs) {
			out = append(out, Run{Y: y, X0: 4*x + y%3, X1: 4*x + y%3 + 2})
		}
	}
	return out
}

// heavy are shapes of which each step takes long: of few bytes, or of a mask of 300,000 runs.
var heavy = map[string]string{
	"a circle":        `circle(0, 0, 400000)`,
	"a sector":        `sector(0, 0, 100, 300000, 10, 200)`,
	"a rectangle":     `rect(0, 0, 9, 900000)`,
	"a turned one":    `turn of rect(0, 0, 9, 900000) by 30 about (0, 0)`,
	"a set":           `"m" xor move of "m" by (1, 0)`,
	"a moved mask":    `move of "m" by (1, 1)`,
	"a mirrored mask": `mirror of "m" at x 0`,
	"a turned mask":   `turn of "m" by 90 about (0, 0)`,
	"one row turned":  `turn of "row" by 90 about (0, 0)`,
	"an outset":       `outset of "m" by 1`,
	"an inset":        `inset of "m" by 1`,
	"a map of rings":  `scale of "ring" by 2 about (0, 0)`,
}

func heavyRegions(shape string) []Region {
	ring := make(Ring, 300_000)
	for i := range ring {
		ring[i] = Point{float64(i * 7919 % 100_003), float64(i%2) * 0.4}
	}
	return []Region{{Name: "m", Mask: striped(1000, 300)}, {Name: "row", Mask: striped(1, 300_000)},
		{Name: "ring", Rings: []Ring{ring}}, {Shape: shape}}
}

// TestShapesLetOthersGoFirst: however long a step of a shape takes, others go first in the midst of it, and its end is
// heeded at any time.
func TestShapesLetOthersGoFirst(t *testing.T) {
	if race.Enabled {
		t.Skip("it computes in one goroutine")
	}
	alone := 0
	if _, err := NewSetInPieces(heavyRegions(`circle(0, 0, 1)`), nil, Bounds{},
		func() error { alone++; return nil }); err != nil {
		t.Fatal(err)
	}
	for name, shape := range heavy {
		all := 0
		if _, err := NewSetInPieces(heavyRegions(shape), nil, Bounds{},
			func() error { all++; return nil }); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if least := alone + 100; all < least { // 300,000 runs or more, in pieces of 2,048 or less
			t.Errorf("%s: others go first %d times, want %d", name, all, least)
		}
		stop := errors.New("stop")
		ends := []int{alone - 90, alone + 1, (alone + all) / 2, all}
		if testing.Short() {
			ends = ends[:2]
		}
		for _, at := range ends {
			n := 0
			_, err := NewSetInPieces(heavyRegions(shape), nil, Bounds{}, func() error {
				if n++; n >= at {
					return stop
				}
				return nil
			})
			if err != stop || n > at {
				t.Errorf("%s: ended at %d of %d: %v, and asked %d times", name, at, all, err, n)
			}
		}
	}
}

// TestShapesAskForMemory: shapes ask before they take memory, take no more than they ask for, and keep what the set
// has.
func TestShapesAskForMemory(t *testing.T) {
	if race.Enabled {
		t.Skip("it computes in one goroutine")
	}
	for name, shape := range map[string]string{
		"a board's holes":     `array of circle(30, 30, 20) 80 by 80 every (60, 60)`,
		"circles that cover":  `array of circle(300, 300, 290) 80 by 80 every (10, 10)`,
		"a band":              `band of circle(900, 900, 500) outwards 90`,
		"a band around holes": `band of (array of circle(40, 40, 15) 40 by 40 every (40, 40)) outwards 300`,
		"a set":               heavy["a set"],
		"a turned mask":       heavy["a turned mask"],
		"an inset":            heavy["an inset"],
		"a map of rings":      heavy["a map of rings"],
	} {
		regions := heavyRegions(shape)
		now, peak, written := int64(0), int64(0), int64(0)
		b := Bounds{Memory: func(n int64) error {
			now += n
			peak = max(peak, now)
			return nil
		}, Written: func(n int64) {
			if written += n; n <= 0 || written > peak {
				t.Errorf("%s: %d bytes are written, %d more than before, of %d", name, written, n, peak)
			}
		}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		set, err := NewSetInPieces(regions, nil, b, nil)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		runs, given := int64(len(set.Pixels(3)))*runBytes, 600_000*runBytes
		if now < runs || now > (runs+given)*5/4 {
			t.Errorf("%s: %d bytes are held for %d of runs", name, now, runs)
		}
		if written < now || name == "a band around holes" && written-now > (peak-now)*2/3 {
			t.Errorf("%s: %d bytes are written of %d, and %d are kept", name, written, peak, now)
		}
		const others = 32 << 20 // what the set takes of what it was given, and of masks that grow
		if took := int64(after.TotalAlloc - before.TotalAlloc); took > peak+others {
			t.Errorf("%s: %d bytes were allocated, %d asked for", name, took, peak)
		}
	}
	full := errors.New("full")
	for name, shape := range heavy {
		asked := int64(0)
		b := Bounds{Memory: func(n int64) error {
			if asked += n; asked > 1<<20 {
				return full
			}
			return nil
		}}
		regions := heavyRegions(shape)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := NewSetInPieces(regions, nil, b, nil)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err != full || took > 21<<20 { // 600,000 runs and 300,000 edges are given
			t.Errorf("%s: %v, %d bytes were allocated where 1 MiB was there", name, err, took)
		}
	}
}

// TestShapesHoldFewRuns: what shapes hold at a time is bounded, whatever they come to; small sets have the bound of
// large ones.
func TestShapesHoldFewRuns(t *testing.T) {
	circles := slices.Repeat([]string{"circle(0, 0, 500000)"}, 30)
	nested := strings.Join(circles, " - (") + strings.Repeat(")", len(circles)-1)
	_, err := NewSet([]Region{{Shape: nested}}, Bounds{})
	var invalid *kernels.InvalidError
	want := fmt.Sprintf("runs of pixels at a time: the limit is %d", shapeRuns+DefaultMaxVertices)
	if !errors.As(err, &invalid) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	// Each takes buffers of sizes that the others have no use for.
	var all []string
	for size := 1; size <= 1<<20; size *= 2 {
		all = append(all, fmt.Sprintf("(rect(0, 0, 1, %d) and rect(5, 0, 6, %[1]d))", size))
	}
	if _, err := NewSet([]Region{{Shape: strings.Join(all, " + ")}}, Bounds{MaxVertices: 1 << 20}); err != nil {
		t.Error(err)
	}
}

// TestShapesInBuffers: a shape that is written in one piece, whose parts are in buffers that are used again and again,
// has the pixels of one whose parts are regions, which are kept.
func TestShapesInBuffers(t *testing.T) {
	rng := testseed.New(t, 3, 1)
	for range 300 {
		var regions []Region
		var draw func(depth int) string // appends the regions of a shape, and returns it in one piece
		name := func(i int) string { return fmt.Sprintf(`"%d"`, i) }
		add := func(shape string) int {
			regions = append(regions, Region{Name: fmt.Sprint(len(regions)), Shape: shape})
			return len(regions) - 1
		}
		draw = func(depth int) string {
			if depth == 0 || rng.IntN(8) == 0 {
				text := fmt.Sprintf([]string{"circle(%v, %v, %v)", "ring(%v, %v, 2, %v)",
					"sector(%v, %v, 1, %v, 30, 300)",
					"turn of rect(3, 3, 20, 15, 3) by 30 about (%v, %v) - circle(9, 9, %v)"}[rng.IntN(4)],
					rng.IntN(40), rng.IntN(40), 2+rng.IntN(12))
				add(text)
				return "(" + text + ")"
			}
			a := draw(depth - 1)
			at := len(regions) - 1
			if rng.IntN(2) == 0 {
				b := draw(depth - 1)
				op := []string{" + ", " - ", " xor ", " and "}[rng.IntN(4)]
				add(name(at) + op + name(len(regions)-1))
				return "(" + a + op + b + ")"
			}
			of := []string{"inset of %s by 2", "outset of %s by 3", "band of %s inwards 3", "band of %s outwards 2",
				"array of %s 3 by 2 every (7, 9)", "outset of %s by 0", "inset of %s by 0"}[rng.IntN(7)]
			add(fmt.Sprintf(of, name(at)))
			return "(" + fmt.Sprintf(of, a) + ")"
		}
		whole := draw(4)
		set, err := NewSet(append(regions, Region{Shape: whole}), Bounds{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := set.Pixels(len(regions)), set.Pixels(len(regions)-1); !slices.Equal(got, want) {
			t.Fatalf("%s: %d runs, and %d by way of regions", whole, len(got), len(want))
		}
	}
}

// TestLimitsAskForMemory: what limits are compiled to is asked for and is part of a set, each once.
func TestLimitsAskForMemory(t *testing.T) {
	few := func(regions, limits int) (asked, bytes int64) {
		list := make([]Region, regions)
		for i := range list {
			list[i].Rings = box4(0)
			for k := range limits {
				list[i].Limits = append(list[i].Limits, fmt.Sprintf("mean < %d.5", k+1),
					fmt.Sprintf(`mean - min < %d`, k+1))
			}
		}
		set, err := NewSet(list, Bounds{Memory: func(n int64) error { asked += n; return nil }})
		if err != nil {
			t.Fatal(err)
		}
		return asked, set.Bytes()
	}
	none, of := few(1, 0)
	asked, bytes := few(1, 30)
	if none != 0 || bytes < of+60*230 || asked < bytes-of-60*16 {
		t.Errorf("60 limits ask for %d bytes, and their set is of %d instead of %d", asked, bytes, of)
	}
	if again, _ := few(50, 30); again != asked {
		t.Errorf("limits that are the same ask for %d bytes, once for %d", again, asked)
	}
	full := errors.New("full")
	_, err := NewSet([]Region{{Rings: box4(0), Limits: []string{"mean < 3"}}},
		Bounds{Memory: func(int64) error { return full }})
	if err != full {
		t.Error(err)
	}
}

// TestNestedNamesAreCounted: a region whose shape holds on to others while more are found holds the memory that they
// were in, which is asked for beside that of the set.
func TestNestedNamesAreCounted(t *testing.T) {
	parts := []Region{{Name: "all", Shape: `"a" + "b" + "c"`}, {Name: "a", Shape: "circle(0, 0, 4000)"},
		{Name: "b", Shape: "circle(9000, 0, 4000)"}, {Name: "c", Shape: "circle(0, 9000, 4000)"}}
	most := func(list []Region) (most int64) {
		asked := int64(0)
		_, err := NewSet(list, Bounds{Memory: func(n int64) error {
			asked += n
			most = max(most, asked)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		return most
	}
	// Of one circle the array that it was in, when the next one comes; of two that of both.
	nested, flat := most(parts), most([]Region{parts[1], parts[2], parts[3], parts[0]})
	if nested < flat+(1+2)*8000*runBytes {
		t.Errorf("%d bytes where regions are found within one another, %d one after the other", nested, flat)
	}
}
