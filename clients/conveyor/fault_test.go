package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseFault(t *testing.T) {
	for s, want := range map[string]fault{
		"kill:0.001":      {faultKill, 0.001, defaultStall},
		"stall:0.5:300ms": {faultStall, 0.5, 300 * time.Millisecond},
		"stall:1":         {faultStall, 1, defaultStall},
		"drop:0":          {faultDrop, 0, defaultStall},
	} {
		if f, err := parseFault(s); err != nil || f != want {
			t.Errorf("%s: %v, %v", s, f, err)
		}
	}
	for _, s := range []string{"", "kill", "explode:0.1", "kill:2", "kill:-1", "kill:x", "kill:NaN", "kill:0.1:1s",
		"stall:0.1:0s", "stall:0.1:1s:2"} {
		if _, err := parseFault(s); exitCode(err) != exitUsage || !strings.HasPrefix(err.Error(), "--fault") {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// TestFaultPlan: the same seed has the same faults, another one others, and each about as often as was asked.
func TestFaultPlan(t *testing.T) {
	faults := []fault{{kind: faultDuplicate, rate: 0.1}, {kind: faultDrop, rate: 0.02}, {kind: faultKill, rate: 0.01}}
	const strips = 20000
	list := func(p faultPlan) (hits []string, by map[faultKind]int) {
		by = map[faultKind]int{}
		for n := range uint64(strips) {
			if f, ok := p.of(n); ok {
				hits = append(hits, fmt.Sprint(n, f.kind))
				by[f.kind]++
				if p.dropped(n) != (f.kind == faultDrop) {
					t.Fatalf("strip %d: %v, dropped %v", n, f, p.dropped(n))
				}
			} else if p.dropped(n) {
				t.Fatalf("strip %d is dropped without a fault", n)
			}
		}
		return hits, by
	}
	a, by := list(faultPlan{faults, 1, 0})
	for _, f := range faults {
		if share := float64(by[f.kind]) / strips; share < f.rate*0.7 || share > f.rate*1.3 {
			t.Errorf("%s: %v of the strips, want %v", f.kind, share, f.rate)
		}
	}
	if again, _ := list(faultPlan{faults, 1, 0}); !slices.Equal(a, again) {
		t.Error("the same plan is another one the second time")
	}
	for _, p := range []faultPlan{{faults, 2, 0}, {faults, 1, 1}} {
		if other, _ := list(p); slices.Equal(a, other) {
			t.Errorf("seed %d, camera %d: the same faults", p.seed, p.camera)
		}
	}
	if _, ok := (faultPlan{}).of(3); ok {
		t.Error("a fault without faults")
	}
	if !reorders([]fault{{kind: faultReorder, rate: 0.1}}) || reorders(faults) ||
		reorders([]fault{{kind: faultReorder}}) {
		t.Error("reorders")
	}
	if got := faults[1].String() + " " +
		(fault{faultStall, 0.5, time.Second}).String(); got != "drop:0.02 stall:0.5:1s" {
		t.Error(got)
	}
}
