package main

import (
	"slices"
	"testing"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// A part has no id only where the strip with its first line was lost, whether or not its regions miss a line.
func TestPartWithoutID(t *testing.T) {
	for name, c := range map[string]struct {
		lost uint64 // the first line of the strip of 10 lines that is lost
		part *polyscanv1.PartResult
		want []string
	}{
		"first strip lost, regions below": {40, &polyscanv1.PartResult{PartNumber: 1, FirstLine: 40}, nil},
		"first strip lost":                {40, &polyscanv1.PartResult{PartNumber: 1, FirstLine: 40, Incomplete: true}, nil},
		"another strip lost": {50, &polyscanv1.PartResult{PartNumber: 1, FirstLine: 40, Incomplete: true},
			[]string{`part at line 40 has the id "": want "0-40"`}},
		"first strip lost, another id": {40, &polyscanv1.PartResult{PartNumber: 1, FirstLine: 40, PartId: "0-0"},
			[]string{`part at line 40 has the id "0-0": want "0-40"`}},
		"nothing lost": {1000, &polyscanv1.PartResult{PartNumber: 1, FirstLine: 40},
			[]string{`part at line 40 has the id "": want "0-40"`}},
	} {
		k := newChecker(nil, 40, 40)
		for first := uint64(0); first < 80; first += 10 {
			k.sent(first, 10, nil, first == c.lost)
		}
		if k.take(c.part); !slices.Equal(k.problems, c.want) {
			t.Errorf("%s: %q, want %q", name, k.problems, c.want)
		}
	}
}

// Parts whose lines were all dropped have no result, which is no problem, and are counted: that every part came back
// isn't true of them. Of marked parts, those are the ones whose marks were dropped.
func TestDroppedPartsAreCounted(t *testing.T) {
	for name, c := range map[string]struct {
		every   uint64
		dropped func(strip int) bool
		want    int
	}{
		"all strips of two parts": {40, func(strip int) bool { return strip/4 == 1 || strip/4 == 3 }, 2},
		"a strip of each part":    {40, func(strip int) bool { return strip%4 == 0 }, 0},
		"the marks of each part":  {0, func(strip int) bool { return strip%4 == 0 }, 5},
		"no marks":                {0, func(strip int) bool { return strip%4 == 1 }, 0},
	} {
		k := newChecker(nil, c.every, 40)
		came := map[uint64]bool{} // parts of which the server has heard
		for strip := range 20 {
			first, lost := uint64(10*strip), c.dropped(strip)
			var starts []uint64
			if c.every == 0 && strip%4 == 0 {
				starts = []uint64{first}
			}
			k.sent(first, 10, starts, lost)
			if !lost && (c.every > 0 || strip%4 == 0) {
				came[first/40] = true
			}
		}
		for number := range uint64(5) {
			if came[number] {
				first := number * 40
				k.take(&polyscanv1.PartResult{PartNumber: k.open[first], FirstLine: first, PartId: partID(0, first)})
			}
		}
		k.problems = nil // of ids, which are of no matter here
		if lost := k.finish(); lost != 0 || k.dropped != c.want || len(k.problems) != 0 {
			t.Errorf("%s: %d dropped, want %d; %d lost, %q", name, k.dropped, c.want, lost, k.problems)
		}
	}
}
