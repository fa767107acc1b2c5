package polygon

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/race"
	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// oracleTexture is a texture from the definition: pairs of pixels one by one, and rational arithmetic.
type oracleTexture struct {
	pairs                                  int64
	counts                                 []uint32
	contrast, homogeneity, energy, entropy float64
	correlation                            float64
}

// oracleTextureOf counts the pairs of channel c.
func oracleTextureOf(mask []bool, f kernels.Picture, c, levels int, o Offset) oracleTexture {
	level := func(x, y int) int {
		v := floorRat(ratio(int64(sample(f, x, y, c))*int64(levels), int64(f.Format.Levels()))).Int64()
		return int(min(v, int64(levels-1)))
	}
	inside := func(x, y int) bool {
		return x >= 0 && y >= 0 && x < f.Width && y < f.Height && mask[y*f.Width+x]
	}
	t := oracleTexture{counts: make([]uint32, levels*levels)}
	for y := range f.Height {
		for x := range f.Width {
			if inside(x, y) && inside(x+o.DX, y+o.DY) {
				t.pairs++
				t.counts[level(x, y)*levels+level(x+o.DX, y+o.DY)]++
			}
		}
	}
	return t.derived(levels)
}

func (t oracleTexture) derived(levels int) oracleTexture {
	if t.pairs == 0 {
		nan := math.NaN()
		t.contrast, t.homogeneity, t.energy, t.entropy, t.correlation = nan, nan, nan, nan, nan
		return t
	}
	contrast, homogeneity, squares := new(big.Rat), new(big.Rat), new(big.Rat)
	mean, both, second := new(big.Rat), new(big.Rat), new(big.Rat)
	entropy := new(big.Float).SetPrec(200)
	add := func(to, p *big.Rat, times *big.Rat) { to.Add(to, new(big.Rat).Mul(p, times)) }
	for i := range levels {
		for j := range levels {
			k := int64(t.counts[i*levels+j]) + int64(t.counts[j*levels+i])
			if k == 0 {
				continue
			}
			p := ratio(k, 2*t.pairs)
			d := int64(i - j)
			add(contrast, p, ratio(d*d, 1))
			add(homogeneity, p, ratio(1, 1+d*d))
			add(squares, p, p)
			add(mean, p, ratio(int64(i), 1))
			add(both, p, ratio(int64(i*j), 1))
			add(second, p, ratio(int64(i*i), 1))
			term := new(big.Float).SetPrec(200).SetRat(p)
			entropy.Add(entropy, term.Mul(term, log2Big(2*t.pairs, k)))
		}
	}
	t.contrast, t.homogeneity = nearest(contrast), nearest(homogeneity)
	root := new(big.Float).SetPrec(300).SetRat(squares)
	t.energy, _ = root.Sqrt(root).Float64()
	t.entropy, _ = entropy.Float64()
	mean.Mul(mean, mean)
	if variance := second.Sub(second, mean); variance.Sign() == 0 {
		t.correlation = math.NaN()
	} else {
		t.correlation = nearest(both.Sub(both, mean).Quo(both, variance))
	}
	return t
}

// log2Big is log2(a/b) by bisection of squares: 120 binary digits.
func log2Big(a, b int64) *big.Float {
	x := new(big.Float).SetPrec(300).Quo(new(big.Float).SetPrec(300).SetInt64(a), new(big.Float).SetPrec(300).SetInt64(b))
	two, out, bit := big.NewFloat(2), new(big.Float).SetPrec(200), new(big.Float).SetPrec(200).SetInt64(1)
	for x.Cmp(two) >= 0 {
		x.Quo(x, two)
		out.Add(out, bit)
	}
	for range 120 {
		bit.Quo(bit, two)
		if x.Mul(x, x); x.Cmp(two) >= 0 {
			x.Quo(x, two)
			out.Add(out, bit)
		}
	}
	return out
}

// textureError bounds the relative error of a homogeneity and of an entropy.
const textureError = 0x1p-49

// textureDiffers says how a texture differs from the oracle's.
func textureDiffers(got TextureValue, want oracleTexture, counts bool) (diff []string) {
	same := func(what string, a, b float64) {
		if a != b && !(math.IsNaN(a) && math.IsNaN(b)) {
			diff = append(diff, fmt.Sprintf("%s = %v, want %v", what, a, b))
		}
	}
	near := func(what string, a, b float64) {
		if math.IsNaN(a) != math.IsNaN(b) || math.Abs(a-b) > textureError*math.Abs(b) {
			diff = append(diff, fmt.Sprintf("%s = %v, want %v", what, a, b))
		}
	}
	if got.Pairs != uint64(want.pairs) {
		diff = append(diff, fmt.Sprintf("%d pairs, want %d", got.Pairs, want.pairs))
	}
	same("contrast", got.Contrast, want.contrast)
	near("homogeneity", got.Homogeneity, want.homogeneity)
	same("energy", got.Energy, want.energy)
	same("correlation", got.Correlation, want.correlation)
	near("entropy", got.Entropy, want.entropy)
	if counts && !slices.Equal(got.Counts, want.counts) {
		diff = append(diff, "other counts")
	} else if !counts && got.Counts != nil {
		diff = append(diff, "counts that weren't asked for")
	}
	return diff
}

// TestTextures compares random regions, frames, levels and offsets with the oracle, as rows and as columns, and those
// of an offset with those of its opposite.
func TestTextures(t *testing.T) {
	dev := openCPU(t, kernels.Config{Poison: true})
	n := 250
	if testing.Short() {
		n = 40
	}
	for seed := range uint64(n) {
		rng := testseed.New(t, seed, 11)
		tc := randomCase(rng)
		for i := range tc.regions {
			tc.regions[i].Limits, tc.regions[i].Reference = nil, nil
		}
		spec := &CooccurrenceSpec{Levels: []int{0, 2, 3, 16, 64, 100, 256}[rng.IntN(7)], Counts: rng.IntN(2) == 0}
		for range rng.IntN(5) {
			if o := (Offset{rng.IntN(9) - 4, rng.IntN(9) - 4}); o != (Offset{}) {
				spec.Offsets = append(spec.Offsets, o, Offset{-o.DX, -o.DY})
			}
		}
		set := mustSet(t, tc.regions...)
		r := Reductions{Statistics: Count, Cooccurrence: spec}
		res, err := Reduce(context.Background(), dev, set, tc.frame, r, driver.MethodDefault)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		r.Output.Columns = true
		columns, err := Reduce(context.Background(), dev, set, tc.frame, r, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		rows := columns.AsRows()
		offsets, levels := spec.Offsets, spec.Levels
		if offsets == nil {
			offsets = DefaultOffsets()
		}
		if levels == 0 {
			levels = DefaultLevels
		}
		for i, region := range res.Regions {
			want := oracle(tc.regions[i], tc.frame)
			for c, ch := range region.Channels {
				if len(ch.Textures) != len(offsets) {
					t.Fatalf("seed %d: %d textures of %d offsets", seed, len(ch.Textures), len(offsets))
				}
				for k, o := range offsets {
					v := ch.Textures[k]
					if diff := textureDiffers(v, oracleTextureOf(want.mask, tc.frame, c, levels, o), spec.Counts); diff != nil ||
						v.Offset != o || v.Levels != levels {
						t.Fatalf("seed %d, region %d, channel %d, %v: %v", seed, i, c, o, diff)
					}
					if got := rows.Regions[i].Channels[c].Textures[k]; fmt.Sprint(got) != fmt.Sprint(v) {
						t.Fatalf("seed %d: as columns %v, as rows %v", seed, got, v)
					}
					if len(spec.Offsets) == 0 {
						continue
					}
					twin := ch.Textures[k^1]
					twin.Offset, twin.Counts = v.Offset, v.Counts
					if fmt.Sprint(twin) != fmt.Sprint(v) {
						t.Fatalf("seed %d: at the opposite offset %v, not %v", seed, twin, v)
					}
				}
			}
		}
	}
}

// TestTextureComparator: each number that is another, and counts that are, go noticed.
func TestTextureComparator(t *testing.T) {
	counts := []uint32{3, 1, 0, 2}
	want := oracleTexture{pairs: 6, counts: counts}.derived(2)
	right := TextureValue{Levels: 2, Counts: slices.Clone(counts)}
	new(pairWork).derive(&right, counts)
	if diff := textureDiffers(right, want, true); diff != nil {
		t.Fatal(diff)
	}
	for n := range right.numbers() {
		wrong := right
		*wrong.numbers()[n] *= 1 + 0x1p-47
		if textureDiffers(wrong, want, true) == nil {
			t.Errorf("number %d can be another", n)
		}
	}
	wrong := right
	wrong.Pairs++
	if textureDiffers(wrong, want, true) == nil {
		t.Error("pairs can be others")
	}
	right.Counts[1]++
	if textureDiffers(right, want, true) == nil {
		t.Error("counts can be others")
	}
}

// TestLargeTextures derives numbers of as many pairs as a frame can have, and of correlations that are all but 1 and
// -1.
func TestLargeTextures(t *testing.T) {
	const most = driver.MaxPixels
	for _, levels := range []int{2, 64, 256} {
		last := levels*levels - 1
		for name, counts := range map[string]map[int]uint32{
			"one level":     {last: most},
			"two levels":    {0: most / 2, last: most / 2},
			"all but equal": {0: most - 3, last: 2, 1: 1},
			"opposites":     {levels - 1: most - 1, last: 1},
			"one pair":      {1: 1},
			"both ends":     {0: 1, levels - 1: most / 3, last - levels + 1: most / 3, last: 1},
		} {
			v := TextureValue{Levels: levels, Counts: make([]uint32, levels*levels)}
			want := oracleTexture{counts: v.Counts}
			for at, n := range counts {
				v.Counts[at] = n
				want.pairs += int64(n)
			}
			new(pairWork).derive(&v, v.Counts)
			if diff := textureDiffers(v, want.derived(levels), true); diff != nil {
				t.Errorf("%d levels, %s: %v", levels, name, diff)
			}
		}
	}
}

// TestTextureLimits judges limits on textures by the values that come back, alone, in expressions and with columns.
func TestTextureLimits(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	f := kernels.Picture{Width: 12, Height: 10, Format: driver.Gray8, Data: [][]byte{make([]byte, 120)}}
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range f.Data[0] {
		f.Data[0][i] = byte(rng.IntN(4) * 60)
	}
	square := func(name string, x, y, side float64, limits ...string) Region {
		return Region{Name: name, Limits: limits, Rings: []Ring{{{x, y}, {x + side, y}, {x + side, y + side}, {x, y + side}}}}
	}
	limits := []string{"contrast(1,0) < 900", "contrast( 1 , 0 ) == 0", "gray.homogeneity(0,1) in [0, 2]",
		"energy(-1,1) > 0.2",
		"entropy(1,1) in [0, 5]", "correlation(2,0) in [-0.9, 0.9]", "entropy < 5",
		`contrast(1,0) - "b".contrast(1,0) in [-900, 900]`, `largest of "*".entropy(0,1) < 5.5`}
	spec := &CooccurrenceSpec{Levels: 32, Offsets: []Offset{{1, 0}, {0, 1}, {-1, 1}, {1, 1}, {2, 0}}}
	// A limit that can't fail is one that is refused: "homogeneity in [0, 2]" is.
	_, err := NewSet([]Region{square("a", 0, 0, 5, limits[2])}, Bounds{})
	if err == nil || !strings.Contains(err.Error(), "can't fail: homogeneity(0,1) is 1.53") {
		t.Errorf("a homogeneity up to 2: %v", err)
	}
	limits[2] = "gray.homogeneity(0,1) in [0.01, 0.99]"
	set := mustSet(t, square("a", 0, 0, 6, limits...), square("b", 6, 2, 6), square("dot", 3, 8, 1, "contrast(1,0) < 5"))
	res, err := Reduce(context.Background(), dev, set, f, Reductions{Cooccurrence: spec}, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	a, b := res.Regions[0].Channels[0], res.Regions[1].Channels[0]
	for k, want := range []float64{a.Textures[0].Contrast, a.Textures[0].Contrast, a.Textures[1].Homogeneity,
		a.Textures[2].Energy, a.Textures[3].Entropy, a.Textures[4].Correlation, math.NaN(),
		a.Textures[0].Contrast - b.Textures[0].Contrast, max(a.Textures[1].Entropy, b.Textures[1].Entropy)} {
		l := res.Regions[0].Limits[k]
		if k == 8 {
			// "dot" has no pair, so that the group has no value there.
			if l.Measured || l.Verdict != Fail {
				t.Errorf("%s: %+v", l.Expression, l)
			}
			continue
		}
		if k != 6 && l.Value != want {
			t.Errorf("%s measures %v, want %v", l.Expression, l.Value, want)
		}
		if fails := k == 1; fails != (l.Verdict == Fail) {
			t.Errorf("%s: %+v", l.Expression, l)
		}
	}
	dot := res.Regions[2].Limits[0]
	if dot.Verdict != Fail || dot.Measured || dot.Reason != "contrast(1,0) has no value: no two pixels of the region lie so" {
		t.Errorf("of one pixel: %+v", dot)
	}
	// Limits see the same without being asked for textures, but at 64 levels.
	plain, err := Reduce(context.Background(), dev, set, f, Reductions{Cooccurrence: &CooccurrenceSpec{}}, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []Output{{}, {Columns: true}, {Fields: FieldLimits}} {
		none, err := Reduce(context.Background(), dev, set, f, Reductions{Output: out}, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		rows := none.AsRows()
		if !reflect.DeepEqual(rows.Regions[0].Limits, plain.Regions[0].Limits) {
			t.Errorf("%+v: limits %+v, want %+v", out, rows.Regions[0].Limits, plain.Regions[0].Limits)
		}
		for _, c := range rows.Regions[0].Channels {
			if c.Textures != nil {
				t.Errorf("%+v: textures that nobody asked for", out)
			}
		}
	}
}

// TestBadTextures: what is wrong with a request or a limit is named.
func TestBadTextures(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	f := kernels.Picture{Width: 8, Height: 8, Format: driver.Gray8, Data: [][]byte{make([]byte, 64)}}
	ring := []Ring{{{0, 0}, {8, 0}, {8, 8}, {0, 8}}}
	set := mustSet(t, Region{Rings: ring})
	seventeen := make([]Offset, MaxOffsets+1)
	for i := range seventeen {
		seventeen[i] = Offset{i + 1, 0}
	}
	for _, c := range []struct {
		spec CooccurrenceSpec
		says string
	}{
		{CooccurrenceSpec{Levels: 1}, "reductions.cooccurrence.levels"},
		{CooccurrenceSpec{Levels: 257}, "reductions.cooccurrence.levels"},
		{CooccurrenceSpec{Levels: -1}, "reductions.cooccurrence.levels"},
		{CooccurrenceSpec{Offsets: seventeen}, "reductions.cooccurrence.offsets"},
		{CooccurrenceSpec{Offsets: []Offset{{1, 0}, {}}}, "reductions.cooccurrence.offsets[1]"},
		{CooccurrenceSpec{Offsets: []Offset{{MaxReach + 1, 0}}}, "reductions.cooccurrence.offsets[0]"},
		{CooccurrenceSpec{Offsets: []Offset{{0, -MaxReach - 1}}}, "reductions.cooccurrence.offsets[0]"},
	} {
		_, err := Reduce(context.Background(), dev, set, f, Reductions{Cooccurrence: &c.spec}, driver.MethodDefault)
		var invalid *kernels.InvalidError
		if !errors.As(err, &invalid) || invalid.Violations[0].Path.String() != c.says {
			t.Errorf("%+v: %v", c.spec, err)
		}
	}
	many := make([]Region, 2049)
	for i := range many {
		many[i].Rings = ring
	}
	_, err := Reduce(context.Background(), dev, mustSet(t, many...), f,
		Reductions{Cooccurrence: &CooccurrenceSpec{Levels: 256, Counts: true, Offsets: []Offset{{1, 0}}}}, driver.MethodDefault)
	if err == nil || !strings.Contains(err.Error(), "reductions.cooccurrence.levels") {
		t.Errorf("2049 matrices of 65,536 counts: %v", err)
	}
	for _, c := range []struct{ limit, says string }{
		{"contrast < 5", `column 10: expected "(" and the offset of a pair of pixels, such as (1,0), found "<"`},
		{"contrast(1 < 5", `column 12: expected ",", found "<"`},
		{"contrast(1.5,0) < 5", `column 10: expected a whole number of pixels, found "1.5"`},
		{"contrast(0,0) < 5", "column 9: the offset (0,0) is a pixel and itself"},
		{"energy(9999,0) < 5", "column 7: the offset (9999,0) has a coordinate beyond 4096"},
		{"correlation(1,0 > 5", `column 17: expected ")", found ">"`},
		{"homogeneity(1,0) <= 1", "can't fail"},
	} {
		_, err := NewSet([]Region{{Rings: ring, Limits: []string{c.limit}}}, Bounds{})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.limit, err)
		}
	}
	var limits []string
	for i := range seventeen {
		limits = append(limits, fmt.Sprintf("contrast(%d,0) < 5", i+1))
	}
	_, err = NewSet([]Region{{Rings: ring, Limits: limits[:9]}, {Rings: ring, Limits: limits[9:]}}, Bounds{})
	if err == nil || !strings.Contains(err.Error(), "regions[1].limits[7]") {
		t.Errorf("limits with 17 offsets: %v", err)
	}
	set = mustSet(t, Region{Rings: ring, Limits: limits[:16]})
	_, err = Reduce(context.Background(), dev, set, f, Reductions{Cooccurrence: &CooccurrenceSpec{Offsets: []Offset{{0, 1}}}},
		driver.MethodDefault)
	if err == nil || !strings.Contains(err.Error(), "reductions.cooccurrence.offsets") {
		t.Errorf("17 offsets with those of limits: %v", err)
	}
	// Line-scans refuse both by name.
	cfg := ScanConfig{Width: 8, PartLines: 8, Format: driver.Gray8, Reductions: Reductions{Cooccurrence: &CooccurrenceSpec{}}}
	if _, err := mustSet(t, Region{Rings: ring}).NewScanner(context.Background(), dev, cfg); err == nil ||
		!strings.Contains(err.Error(), "reductions.cooccurrence") {
		t.Errorf("a line-scan with textures: %v", err)
	}
	cfg.Reductions = Reductions{}
	for _, limit := range []string{"contrast(1,0) < 5", "contrast(1,0) - energy(0,1) < 5"} {
		_, err := mustSet(t, Region{Rings: ring, Limits: []string{"mean < 3", limit}}).NewScanner(context.Background(), dev, cfg)
		if err == nil || !strings.Contains(err.Error(), "regions[0].limits[1]") {
			t.Errorf("a line-scan with a limit %s: %v", limit, err)
		}
	}
}

// sameTexture says whether two are the same, bit for bit.
func sameTexture(a, b TextureValue) bool {
	for n, v := range a.numbers() {
		if math.Float64bits(*v) != math.Float64bits(*b.numbers()[n]) {
			return false
		}
	}
	return a.Offset == b.Offset && a.Levels == b.Levels && a.Pairs == b.Pairs && slices.Equal(a.Counts, b.Counts)
}

// TestTexturesInBatches: regions in several batches, a frame so large that it is counted in bands of rows, and prepared
// regions give the numbers that each region gives alone.
func TestTexturesInBatches(t *testing.T) {
	if race.Enabled {
		t.Skip("it takes minutes, and TestTextures has as many goroutines")
	}
	dev := openCPU(t, kernels.Config{MemoryBytes: 64 << 20})
	const width, height = 1600, 900
	f := kernels.Picture{Width: width, Height: height, Format: driver.Gray8, Data: [][]byte{make([]byte, width*height)}}
	rng := testseed.New(t, 3, 3)
	for i := range f.Data[0] {
		f.Data[0][i] = byte(rng.IntN(256))
	}
	rect := func(x0, y0, x1, y1 float64) Region {
		return Region{Rings: []Ring{{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}}}
	}
	regions := []Region{rect(0, 0, width, height)}
	for range 90 {
		x, y := float64(rng.IntN(width)), float64(rng.IntN(height))
		regions = append(regions, rect(x, y, x+float64(rng.IntN(60)), y+float64(rng.IntN(60))))
	}
	r := Reductions{Cooccurrence: &CooccurrenceSpec{Levels: 256, Counts: true, Offsets: []Offset{{1, 0}, {-2, 31}}}}
	set := mustSet(t, regions...)
	all, err := Reduce(context.Background(), dev, set, f, r, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := set.Prepare(context.Background(), dev, width, height, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	defer prepared.Close()
	again, err := prepared.Reduce(context.Background(), f, r)
	if err != nil {
		t.Fatal(err)
	}
	for i := range regions {
		got := all.Regions[i].Channels[0].Textures
		if !slices.EqualFunc(got, again.Regions[i].Channels[0].Textures, sameTexture) {
			t.Fatalf("region %d: prepared regions give others", i)
		}
		one, err := Reduce(context.Background(), dev, mustSet(t, regions[i]), f, r, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got, one.Regions[0].Channels[0].Textures, sameTexture) {
			t.Fatalf("region %d: alone it has others", i)
		}
	}
	// The frame as a whole, from the definition.
	for k, o := range r.Cooccurrence.Offsets {
		want := make([]uint32, 256*256)
		for y := range height - o.DY {
			for x := max(-o.DX, 0); x < width-max(o.DX, 0); x++ {
				want[int(f.Data[0][y*width+x])*256+int(f.Data[0][(y+o.DY)*width+x+o.DX])]++
			}
		}
		if !slices.Equal(all.Regions[0].Channels[0].Textures[k].Counts, want) {
			t.Errorf("the frame at %v: other counts", o)
		}
	}
}
