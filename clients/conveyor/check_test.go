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
