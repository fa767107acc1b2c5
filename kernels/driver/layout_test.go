package driver

import (
	"testing"
	"unsafe"
)

// Sizes and offsets that kernels/cu/common.cuh and prepared regions in memory count on.
func TestLayouts(t *testing.T) {
	var (
		e Edge
		s MaskStats
		d DiffusionStatus
	)
	for _, l := range []struct {
		name      string
		got, want uintptr
	}{
		{"Edge", unsafe.Sizeof(e), 16},
		{"Edge.X0", unsafe.Offsetof(e.X0), 0},
		{"Edge.Y0", unsafe.Offsetof(e.Y0), 4},
		{"Edge.X1", unsafe.Offsetof(e.X1), 8},
		{"Edge.Y1", unsafe.Offsetof(e.Y1), 12},
		{"MaskStats", unsafe.Sizeof(s), 80},
		{"MaskStats.Count", unsafe.Offsetof(s.Count), 0},
		{"MaskStats.Sum", unsafe.Offsetof(s.Sum), 8},
		{"MaskStats.SumSq", unsafe.Offsetof(s.SumSq), 16},
		{"MaskStats.MinKey", unsafe.Offsetof(s.MinKey), 24},
		{"MaskStats.MaxKey", unsafe.Offsetof(s.MaxKey), 32},
		{"MaskStats.SumX", unsafe.Offsetof(s.SumX), 40},
		{"MaskStats.SumY", unsafe.Offsetof(s.SumY), 48},
		{"MaskStats.SumVX", unsafe.Offsetof(s.SumVX), 56},
		{"MaskStats.SumVY", unsafe.Offsetof(s.SumVY), 64},
		{"PairSums", unsafe.Sizeof(PairSums{}), pairSumsBytes},
		{"PairSums.Pairs", unsafe.Offsetof(PairSums{}.Pairs), 0},
		{"PairSums.A", unsafe.Offsetof(PairSums{}.A), 8},
		{"PairSums.B", unsafe.Offsetof(PairSums{}.B), 16},
		{"PairSums.SqA", unsafe.Offsetof(PairSums{}.SqA), 24},
		{"PairSums.SqB", unsafe.Offsetof(PairSums{}.SqB), 32},
		{"PairSums.Product", unsafe.Offsetof(PairSums{}.Product), 40},
		{"MeshCounts", unsafe.Sizeof(MeshCounts{}), 16},
		{"MeshCounts.Triangles", unsafe.Offsetof(MeshCounts{}.Triangles), 0},
		{"MeshCounts.Sites", unsafe.Offsetof(MeshCounts{}.Sites), 4},
		{"MeshCounts.Border", unsafe.Offsetof(MeshCounts{}.Border), 8},
		{"MeshCounts.Hull", unsafe.Offsetof(MeshCounts{}.Hull), 12},
		{"FlipStatus", unsafe.Sizeof(FlipStatus{}), 32},
		{"FlipStatus.Rounds", unsafe.Offsetof(FlipStatus{}.Rounds), 0},
		{"FlipStatus.Flips", unsafe.Offsetof(FlipStatus{}.Flips), 4},
		{"FlipStatus.Left", unsafe.Offsetof(FlipStatus{}.Left), 8},
		{"FlipStatus.Inverted", unsafe.Offsetof(FlipStatus{}.Inverted), 12},
		{"FlipStatus.Double", unsafe.Offsetof(FlipStatus{}.Double), 16},
		{"FlipStatus.Concave", unsafe.Offsetof(FlipStatus{}.Concave), 20},
		{"FlipStatus.Rings", unsafe.Offsetof(FlipStatus{}.Rings), 24},
		{"FlipStatus.Missing", unsafe.Offsetof(FlipStatus{}.Missing), 28},
		{"DiffusionCounts", unsafe.Sizeof(DiffusionCounts{}), 8},
		{"DiffusionCounts.Void", unsafe.Offsetof(DiffusionCounts{}.Void), 4},
		{"DiffusionStatus", unsafe.Sizeof(d), 32},
		{"DiffusionStatus.Cycles", unsafe.Offsetof(d.Cycles), 0},
		{"DiffusionStatus.Converged", unsafe.Offsetof(d.Converged), 4},
		{"DiffusionStatus.Update", unsafe.Offsetof(d.Update), 8},
		{"DiffusionStatus.Ratio", unsafe.Offsetof(d.Ratio), 12},
		{"DiffusionStatus.Estimate", unsafe.Offsetof(d.Estimate), 16},
		{"DiffusionStatus.Residual", unsafe.Offsetof(d.Residual), 20},
	} {
		if l.got != l.want {
			t.Errorf("%s is %d, want %d", l.name, l.got, l.want)
		}
	}
}

// The bounds that make sums exact: the worst image for each field.
func TestBoundsKeepSumsIn64Bits(t *testing.T) {
	const maxSample = 1<<16 - 1
	// The sum of x over all pixels of an image of the greatest width; a part has less.
	const columns = MaxSide
	const rows = MaxPixels / columns
	sumX := uint64(rows) * columns * (columns - 1) / 2
	if hi := sumX * maxSample / maxSample; hi != sumX {
		t.Errorf("SumVX overflows: %d * %d", sumX, maxSample)
	}
	var sumSq uint64 = MaxPixels * maxSample * maxSample
	if sumSq/maxSample/maxSample != MaxPixels {
		t.Errorf("SumSq overflows")
	}
	if uint64(MaxPixels-1) > 1<<32-1 {
		t.Errorf("positions need more than 32 bits")
	}
	// The crossing rule: products of a difference of coordinates (at most 2^31) and one with a centre.
	const centre = MaxSide * Subpixel
	var worst int64 = 2 * (MaxCoord + centre) * (2 * MaxCoord) // would not compile beyond int64
	if worst <= 0 {
		t.Errorf("the crossing rule overflows")
	}
}

func TestPixelFormats(t *testing.T) {
	for _, f := range []struct {
		f                      PixelFormat
		bytes, levels, samples int
	}{
		{Gray8, 1, 256, 1}, {RGB8, 3, 256, 3}, {BGR8, 3, 256, 3}, {RGBA8, 4, 256, 4},
		{Gray16(8), 2, 256, 1}, {Gray16(10), 2, 1024, 1}, {Gray16(12), 2, 4096, 1}, {Gray16(14), 2, 16384, 1},
		{Gray16(16), 2, 65536, 1},
		{PixelFormat{Channels: 2, SampleBytes: 1, Bits: 8, Order: [4]uint8{1, 0}}, 2, 256, 2},
	} {
		if !f.f.Valid() || f.f.PixelBytes() != f.bytes || f.f.Levels() != f.levels || int(f.f.Channels) != f.samples {
			t.Errorf("%+v: valid %v, %d bytes, %d levels", f.f, f.f.Valid(), f.f.PixelBytes(), f.f.Levels())
		}
	}
	for _, f := range []PixelFormat{
		{},
		Gray16(7), Gray16(17), Gray16(0), Gray16(-240), Gray16(256 + 12),
		{Channels: 1, SampleBytes: 1, Bits: 7},
		{Channels: 1, SampleBytes: 1, Bits: 9},
		{Channels: 0, SampleBytes: 1, Bits: 8},
		{Channels: 5, SampleBytes: 1, Bits: 8},
		{Channels: 1, SampleBytes: 1, Bits: 8, Order: [4]uint8{1}},
		{Channels: 3, SampleBytes: 1, Bits: 8, Order: [4]uint8{0, 1, 1}},
		{Channels: 3, SampleBytes: 1, Bits: 8, Order: [4]uint8{0, 1, 3}},
		{Channels: 3, SampleBytes: 1, Bits: 8, Order: [4]uint8{0, 1, 200}},
		{Channels: 4, SampleBytes: 1, Bits: 8},
		{Channels: 3, SampleBytes: 2, Bits: 16, Order: [4]uint8{0, 1, 2}},
		{Channels: 1, SampleBytes: 2, Bits: 12, Order: [4]uint8{1}},
		{Channels: 1, SampleBytes: 4, Bits: 8},
	} {
		if f.Valid() {
			t.Errorf("%+v is valid", f)
		}
	}
}

func TestMergeIsTheSumsOverBoth(t *testing.T) {
	key := func(v, p uint64) (least, greatest uint64) { return v<<32 | p, v<<32 | (1<<32 - 1 - p) }
	l7, g7 := key(7, 30)
	l9, g9 := key(9, 2)
	a := MaskStats{Count: 1, Sum: 7, SumSq: 49, MinKey: l7, MaxKey: g7, SumX: 3, SumY: 4, SumVX: 21, SumVY: 28}
	b := MaskStats{Count: 1, Sum: 9, SumSq: 81, MinKey: l9, MaxKey: g9, SumX: 1, SumY: 2, SumVX: 9, SumVY: 18}
	want := MaskStats{Count: 2, Sum: 16, SumSq: 130, MinKey: l7, MaxKey: g9, SumX: 4, SumY: 6, SumVX: 30, SumVY: 46}
	for _, s := range [][]MaskStats{{a, b}, {b, a}, {a, EmptyMaskStats, b}, {EmptyMaskStats, b, a, EmptyMaskStats}} {
		got := EmptyMaskStats
		for _, o := range s {
			got.Merge(o)
		}
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if v, p := want.Min(); v != 7 || p != 30 {
		t.Errorf("Min is %d at %d", v, p)
	}
	if v, p := want.Max(); v != 9 || p != 2 {
		t.Errorf("Max is %d at %d", v, p)
	}
	// Among equal values the first position wins both ways.
	l1, g1 := key(5, 100)
	l2, g2 := key(5, 8)
	x := MaskStats{Count: 1, MinKey: l1, MaxKey: g1}
	x.Merge(MaskStats{Count: 1, MinKey: l2, MaxKey: g2})
	if _, p := x.Min(); p != 8 {
		t.Errorf("the first least is at %d", p)
	}
	if _, p := x.Max(); p != 8 {
		t.Errorf("the first greatest is at %d", p)
	}
}

func TestFillRulesAndNames(t *testing.T) {
	for _, w := range []int32{-3, -2, -1, 0, 1, 2, 3, -1 << 31, 1<<31 - 1} {
		if NonZero.Inside(w) != (w != 0) || EvenOdd.Inside(w) != (w%2 != 0) {
			t.Errorf("winding %d: %v %v", w, NonZero.Inside(w), EvenOdd.Inside(w))
		}
	}
	seen := map[string]bool{}
	for m := MethodDefault; m <= RowSpans; m++ {
		if s := m.String(); s == "" || s == "INVALID" || seen[s] {
			t.Errorf("method %d is called %q", m, s)
		}
		seen[m.String()] = true
	}
	if (RowSpans + 1).String() != "INVALID" {
		t.Errorf("a method that is none is called %q", RowSpans+1)
	}
}
