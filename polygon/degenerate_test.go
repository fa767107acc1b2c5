// The degenerate and the borderline, drawn by hand: what each pixel is worth has been worked out from the crossing rule
// and not by a program.

package polygon

import (
	"context"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

func TestDegenerate(t *testing.T) {
	square := rectangle(1, 1, 3, 3)
	for _, c := range []struct {
		name  string
		rings []Ring
		fill  FillRule
		want  string // rows of a frame of 6x5, separated by spaces; "" for nothing
	}{
		{"pixel edges", []Ring{square}, NonZero, "...... .###.. .###.. .###.. ......"},
		{"the other way round", []Ring{reversed(square, true)}, NonZero, "...... .###.. .###.. .###.. ......"},
		{"through centres: left and top are in, right and bottom are not", []Ring{rectangle(1.5, 1.5, 2, 2)}, NonZero,
			"...... .##... .##... ...... ......"},
		{"just off the centres", []Ring{rectangle(1.5+1./256, 1.5+1./256, 2, 2)}, NonZero,
			"...... ...... ..##.. ..##.. ......"},
		{"rounded onto the centres", []Ring{rectangle(1.5+0.49/256, 1.5+0.5/256, 2, 2)}, NonZero,
			"...... .##... .##... ...... ......"},
		{"triangle with its vertices on centres", []Ring{{{0.5, 0.5}, {4.5, 0.5}, {0.5, 4.5}}}, NonZero,
			"####.. ###... ##.... #..... ......"},
		{"the other half of that square", []Ring{{{4.5, 0.5}, {4.5, 4.5}, {0.5, 4.5}}}, NonZero,
			"...... ...#.. ..##.. .###.. ......"},
		{"a pixel's centre alone", []Ring{rectangle(2.5, 2.5, 1./256, 1./256)}, NonZero,
			"...... ...... ..#... ...... ......"},
		{"beside a pixel's centre", []Ring{rectangle(2.5+1./256, 2.5, 254./256, 1)}, NonZero, ""},
		{"between centres", []Ring{rectangle(1.6, 1.6, 0.8, 0.8)}, NonZero, ""},
		{"one point", []Ring{{{2.5, 2.5}, {2.5, 2.5}, {2.5, 2.5}}}, NonZero, ""},
		{"there and back", []Ring{{{0.5, 0.5}, {5.5, 4.5}, {0.5, 0.5}}}, NonZero, ""},
		{"a line through centres", []Ring{{{0.5, 2.5}, {5.5, 2.5}, {3.5, 2.5}}}, NonZero, ""},
		{"a line down", []Ring{{{2.5, 0}, {2.5, 5}, {2.5, 2}}}, EvenOdd, ""},
		{"repeated vertices", []Ring{{{1, 1}, {1, 1}, {4, 1}, {4, 1}, {4, 1}, {4, 4}, {1, 4}, {1, 4}, {1, 1}}}, NonZero,
			"...... .###.. .###.. .###.. ......"},
		{"collinear vertices", []Ring{{{1, 1}, {2.25, 1}, {3, 1}, {4, 1}, {4, 3.3}, {4, 4}, {2, 4}, {1, 4}, {1, 2}}},
			NonZero, "...... .###.. .###.. .###.. ......"},
		{"spike outwards", []Ring{{{1, 1}, {4, 1}, {4, 2.5}, {5.9, 2.5}, {4, 2.5}, {4, 4}, {1, 4}}}, NonZero,
			"...... .###.. .###.. .###.. ......"},
		{"spike inwards", []Ring{{{1, 1}, {4, 1}, {4, 2.5}, {1.5, 2.5}, {4, 2.5}, {4, 4}, {1, 4}}}, EvenOdd,
			"...... .###.. .###.. .###.. ......"},
		{"left of the frame", []Ring{rectangle(-9, 1, 9, 3)}, NonZero, ""},
		{"right of the frame", []Ring{rectangle(6, 1, 9, 3)}, NonZero, ""},
		{"above", []Ring{rectangle(1, -9, 3, 9)}, NonZero, ""},
		{"below", []Ring{rectangle(1, 5, 3, 9)}, NonZero, ""},
		{"a centre's width inside", []Ring{rectangle(-9, -9, 9.5+1./256, 9.5+1./256)}, NonZero,
			"#..... ...... ...... ...... ......"},
		{"the frame itself", []Ring{rectangle(0, 0, 6, 5)}, NonZero, "###### ###### ###### ###### ######"},
		{"around the frame", []Ring{rectangle(-100, -100, 1000, 1000)}, EvenOdd, "###### ###### ###### ###### ######"},
		{"as far as can be", []Ring{rectangle(-4194303, -4194303, 8388606, 8388606)}, NonZero,
			"###### ###### ###### ###### ######"},
		{"diagonal as far as can be", []Ring{{{-4194303, -4194303}, {4194303, 4194303}, {-4194303, 4194303}}}, NonZero,
			// The edge runs up through all centres on the diagonal, which are on its right side: out... see below
			"...... #..... ##.... ###... ####.."},
		{"bow-tie", []Ring{{{0, 0}, {6, 5}, {6, 0}, {0, 5}}}, NonZero, "#....# ##..## ###### ##..## #....#"},
		{"hole of the opposite direction", []Ring{rectangle(0, 0, 6, 5), reversed(rectangle(1, 1, 4, 3), true)},
			NonZero, "###### #....# #....# #....# ######"},
		{"hole of the same direction is none", []Ring{rectangle(0, 0, 6, 5), rectangle(1, 1, 4, 3)}, NonZero,
			"###### ###### ###### ###### ######"},
		{"but under even-odd", []Ring{rectangle(0, 0, 6, 5), rectangle(1, 1, 4, 3)}, EvenOdd,
			"###### #....# #....# #....# ######"},
		{"hole as large as the ring", []Ring{square, reversed(square, true)}, NonZero, ""},
		{"twice the same", []Ring{square, square}, EvenOdd, ""},
		{"twice the same, winding 2", []Ring{square, square}, NonZero, "...... .###.. .###.. .###.. ......"},
		{"island in a hole",
			[]Ring{rectangle(0, 0, 6, 5), reversed(rectangle(1, 1, 4, 3), true), rectangle(2, 2, 2, 1)}, NonZero,
			"###### #....# #.##.# #....# ######"},
		{"two that overlap", []Ring{rectangle(0, 0, 4, 3), rectangle(2, 2, 4, 3)}, EvenOdd,
			"####.. ####.. ##..## ..#### ..####"},
		{"two that overlap, both in", []Ring{rectangle(0, 0, 4, 3), rectangle(2, 2, 4, 3)}, NonZero,
			"####.. ####.. ###### ..#### ..####"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := c.want
			if want == "" {
				want = "...... ...... ...... ...... ......"
			}
			dev := openCPU(t, kernels.Config{MemoryBytes: 1 << 20})
			set := mustSet(t, Region{Rings: c.rings, Fill: c.fill})
			f := noise(6, 5, driver.Gray8)
			for _, m := range methods {
				r, err := Rasterize(context.Background(), dev, set, 6, 5, driver.RasterMask, m)
				if err != nil {
					t.Fatal(err)
				}
				var rows []string
				for y := range 5 {
					var row strings.Builder
					for x := range 6 {
						row.WriteByte(map[byte]byte{0: '.', 255: '#'}[r.Data[0][y*r.Stride+x]])
					}
					rows = append(rows, row.String())
				}
				if got := strings.Join(rows, " "); got != want {
					t.Errorf("%v:\n got %s\nwant %s", m, got, want)
				}
				res, err := Reduce(context.Background(), dev, set, f, Reductions{Statistics: AllStatistics}, m)
				if err != nil {
					t.Fatal(err)
				}
				if n := uint64(strings.Count(want, "#")); res.Regions[0].Count != n || r.Counts[0] != n {
					t.Errorf("%v: count %d and %d, want %d", m, res.Regions[0].Count, r.Counts[0], n)
				}
				if ch := res.Regions[0].Channels[0]; c.want == "" &&
					(ch.Has != Count|Sum|SumOfSquares|Distinct|Histogram|Cumulative ||
						ch.Sum != 0 || ch.Percentiles != nil || !res.Regions[0].Bounds.Empty() ||
						res.Regions[0].HasCentroid) {
					t.Errorf("%v: an empty region has %+v", m, res.Regions[0])
				}
			}
		})
	}
}
