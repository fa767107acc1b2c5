package polygon

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/race"
	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// oracleProfile is the bins of a profile from the definition, in fractions, bin by bin from the one that begins at start.
func oracleProfile(mask []bool, f kernels.Picture, c int, what Profile, start float64) (counts, sums map[int]uint64) {
	counts, sums = map[int]uint64{}, map[int]uint64{}
	width := big.NewRat(int64(max(what.Bin, 1)), 1)
	floor := func(v *big.Rat) int { return int(new(big.Int).Div(v.Num(), v.Denom()).Int64()) } // Div is Euclid's
	bins := oracleBins(what, width)
	for y := range f.Height {
		for x := range f.Width {
			if !mask[y*f.Width+x] {
				continue
			}
			b, ok := 0, true
			switch what.Kind {
			case RowProfile:
				b = floor(new(big.Rat).Quo(ratio(int64(y)-int64(start), 1), width))
			case ColumnProfile:
				b = floor(new(big.Rat).Quo(ratio(int64(x)-int64(start), 1), width))
			case RadialProfile:
				b = oracleRing(what.Points[0], x, y, width) - int(start)/max(what.Bin, 1)
			case LineProfile:
				b, ok = oracleAlong(what, x, y, bins)
			}
			if ok {
				counts[b]++
				sums[b] += uint64(sample(f, x, y, c))
			}
		}
	}
	return counts, sums
}

// oracleRing is the number of the ring around a centre that a pixel is in.
func oracleRing(centre Point, x, y int, width *big.Rat) int {
	dx := new(big.Rat).Sub(ratio(int64(2*x+1), 2), oracleQuantise(centre.X))
	dy := new(big.Rat).Sub(ratio(int64(2*y+1), 2), oracleQuantise(centre.Y))
	square := new(big.Rat).Add(new(big.Rat).Mul(dx, dx), new(big.Rat).Mul(dy, dy))
	for b := int64(0); ; b++ {
		end := new(big.Rat).Mul(ratio(b+1, 1), width)
		if square.Cmp(end.Mul(end, end)) < 0 {
			return int(b)
		}
	}
}

// oracleBins is how many bins each segment of a line has: the least n for which the length is less than (n + 1/2) of them,
// and 1 at least.
func oracleBins(what Profile, width *big.Rat) (out []int64) {
	for i := 0; what.Kind == LineProfile && i < len(what.Points)-1; i++ {
		dx := new(big.Rat).Sub(oracleQuantise(what.Points[i+1].X), oracleQuantise(what.Points[i].X))
		dy := new(big.Rat).Sub(oracleQuantise(what.Points[i+1].Y), oracleQuantise(what.Points[i].Y))
		square, n := dx.Mul(dx, dx).Add(dx, dy.Mul(dy, dy)), int64(1)
		for {
			end := new(big.Rat).Mul(ratio(2*n+1, 2), width)
			if square.Cmp(end.Mul(end, end)) < 0 {
				break
			}
			n++
		}
		out = append(out, n)
	}
	return out
}

// oracleAlong is the bin of a line that a pixel is in, if it is in one.
func oracleAlong(what Profile, x, y int, bins []int64) (int, bool) {
	first := 0
	for i, n := range bins {
		from, to := what.Points[i], what.Points[i+1]
		px, py := oracleQuantise(from.X), oracleQuantise(from.Y)
		dx, dy := new(big.Rat).Sub(oracleQuantise(to.X), px), new(big.Rat).Sub(oracleQuantise(to.Y), py)
		cx, cy := new(big.Rat).Sub(ratio(int64(2*x+1), 2), px), new(big.Rat).Sub(ratio(int64(2*y+1), 2), py)
		mul := func(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
		square := new(big.Rat).Add(mul(dx, dx), mul(dy, dy))
		t := new(big.Rat).Add(mul(cx, dx), mul(cy, dy))
		t.Quo(t, square)
		aside := new(big.Rat).Sub(mul(cx, dy), mul(cy, dx)) // above 0 on the left
		far := mul(aside, aside)
		far.Quo(far, square).Mul(far, ratio(4, 1))
		within := true
		if what.Width > 0 {
			w := oracleQuantise(what.Width)
			order := far.Cmp(mul(w, w))
			within = order < 0 || order == 0 && aside.Sign() < 0
		}
		if t.Sign() >= 0 && t.Cmp(ratio(1, 1)) < 0 && within {
			t.Mul(t, ratio(n, 1))
			return first + int(new(big.Int).Div(t.Num(), t.Denom()).Int64()), true
		}
		first += int(n)
	}
	return 0, false
}

// oracleNumbers are those of a profile, made of exact means that are rounded once.
func oracleNumbers(v *ProfileValue) [5]float64 {
	nan := math.NaN()
	out := [5]float64{nan, nan, nan, nan, nan}
	means := make([]float64, len(v.Counts))
	var there []float64
	for b, n := range v.Counts {
		if means[b] = nan; n > 0 {
			means[b] = nearest(new(big.Rat).SetFrac(new(big.Int).SetUint64(v.Sums[b]), new(big.Int).SetUint64(n)))
			there = append(there, means[b])
		}
	}
	if len(there) == 0 {
		return out
	}
	out[0], out[1] = slices.Max(there), slices.Min(there)
	out[2] = out[0] - out[1]
	var ends, sizes []float64 // of bins: where each ends
	for _, p := range v.Pieces {
		for k := range p.Bins {
			at := float64(float64(k+1) * p.Size)
			ends, sizes = append(ends, p.Start+at), append(sizes, p.Size)
		}
	}
	for i, at := 0, 0; i < len(v.Pieces)-1; i++ { // the next piece says where it begins
		at += v.Pieces[i].Bins
		ends[at-1] = v.Pieces[i+1].Start
	}
	steepest := -1
	jump := func(b int) float64 {
		if b < 0 || b+1 >= len(means) {
			return nan
		}
		return means[b+1] - means[b]
	}
	for b := range means {
		if j := math.Abs(jump(b)); !math.IsNaN(j) && (steepest < 0 || j > math.Abs(jump(steepest))) {
			steepest = b
		}
	}
	if steepest < 0 {
		return out
	}
	if out[3] = jump(steepest); out[3] == 0 {
		return out
	}
	out[4] = ends[steepest]
	l, m, r := jump(steepest-1), jump(steepest), jump(steepest+1)
	if !math.IsNaN(l) && !math.IsNaN(r) {
		if m < 0 {
			l, m, r = -l, -m, -r
		}
		shift := (l - r) * 0.5 / (l - 2*m + r)
		size := sizes[steepest+1]
		if shift < 0 {
			size = sizes[steepest]
		}
		by := float64(shift * size)
		out[4] += by
	}
	return out
}

// profileDiffers says how a value differs from the oracle's bins and numbers.
func profileDiffers(v *ProfileValue, counts, sums map[int]uint64) string {
	for b := range counts {
		if b < 0 || b >= len(v.Counts) {
			return fmt.Sprintf("there is no bin %d of %d pixels", b, counts[b])
		}
	}
	bins := 0
	for _, p := range v.Pieces {
		bins += p.Bins
	}
	if bins != len(v.Counts) || bins != len(v.Sums) {
		return fmt.Sprintf("%d bins have %d counts and %d sums", bins, len(v.Counts), len(v.Sums))
	}
	for b := range v.Counts {
		if v.Counts[b] != counts[b] || v.Sums[b] != sums[b] {
			return fmt.Sprintf("bin %d has %d pixels that sum to %d, want %d and %d", b, v.Counts[b], v.Sums[b], counts[b],
				sums[b])
		}
	}
	want := oracleNumbers(v)
	for i, got := range v.numbers() {
		if math.Float64bits(*got) != math.Float64bits(want[i]) && !(math.IsNaN(*got) && math.IsNaN(want[i])) {
			return fmt.Sprintf("%s is %v, want %v", profileNumbers[i], *got, want[i])
		}
	}
	return ""
}

// sameProfile says whether two are the same, bit for bit.
func sameProfile(a, b *ProfileValue) bool {
	for i, v := range a.numbers() {
		if w := *b.numbers()[i]; math.Float64bits(*v) != math.Float64bits(w) && !(math.IsNaN(*v) && math.IsNaN(w)) {
			return false
		}
	}
	return a.Profile.same(&b.Profile) && slices.Equal(a.Pieces, b.Pieces) && slices.Equal(a.Counts, b.Counts) &&
		slices.Equal(a.Sums, b.Sums)
}

func randomProfiles(c choices, w, h int) (out []Profile) {
	at := func() Point {
		return Point{float64(c.IntN(512*w)-128*w) / 256, float64(c.IntN(4*h)-h) / 2}
	}
	for range 1 + c.IntN(4) {
		f := Profile{Kind: RowProfile + ProfileKind(c.IntN(4)), Bin: c.IntN(4)}
		switch f.Kind {
		case RadialProfile:
			f.Points = []Point{at()}
		case LineProfile:
			f.Points = []Point{at()}
			for range 1 + c.IntN(4) {
				next := at()
				if next == f.Points[len(f.Points)-1] {
					next.X++
				}
				f.Points = append(f.Points, next)
			}
			f.Width = pick(c, 0, 1, 2.5, 0.00390625, float64(1+c.IntN(20)))
		}
		out = append(out, f)
	}
	return out
}

func checkProfiles(dev *kernels.Device, tc testCase, wanted []Profile) error {
	for i := range tc.regions {
		tc.regions[i].Limits, tc.regions[i].Reference = nil, nil
	}
	r := Reductions{Statistics: Count, Profiles: wanted}
	set, err := NewSet(tc.regions, Bounds{})
	if err != nil {
		return err
	}
	res, err := Reduce(context.Background(), dev, set, tc.frame, r, driver.MethodDefault)
	if err != nil {
		return err
	}
	r.Output.Columns = true
	columns, err := Reduce(context.Background(), dev, set, tc.frame, r, driver.MethodDefault)
	if err != nil {
		return err
	}
	rows := columns.AsRows()
	for i, region := range res.Regions {
		mask := oracle(tc.regions[i], tc.frame).mask
		for c, ch := range region.Channels {
			for k := range ch.Profiles {
				v := &ch.Profiles[k]
				start := 0.0
				if len(v.Pieces) > 0 {
					start = v.Pieces[0].Start
				}
				counts, sums := oracleProfile(mask, tc.frame, c, v.Profile, start)
				if diff := profileDiffers(v, counts, sums); diff != "" {
					return fmt.Errorf("region %d, channel %d, %v: %s", i, c, v.Profile, diff)
				}
				if got := &rows.Regions[i].Channels[c].Profiles[k]; !sameProfile(got, v) {
					return fmt.Errorf("region %d, channel %d: as columns %+v, as rows %+v", i, c, got, v)
				}
			}
		}
	}
	return nil
}

// TestProfiles compares random regions, frames and profiles with the oracle, as rows and as columns.
func TestProfiles(t *testing.T) {
	dev := openCPU(t, kernels.Config{Poison: true})
	n := 400
	if testing.Short() || race.Enabled {
		n = 60
	}
	for seed := range uint64(n) {
		rng := testseed.New(t, seed, 31)
		tc := randomCase(rng)
		wanted := randomProfiles(rng, tc.frame.Width, tc.frame.Height)
		if err := checkProfiles(dev, tc, wanted); err != nil {
			t.Fatalf("seed %d, %v: %v", seed, wanted, err)
		}
	}
}

func FuzzProfiles(f *testing.F) {
	f.Add([]byte{})
	for seed := range uint64(4) {
		rng := testseed.New(f, seed, 32)
		data := make([]byte, 400)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		f.Add(data)
	}
	dev := openCPU(f, kernels.Config{})
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &byteChoices{data}
		tc := randomCase(c)
		if err := checkProfiles(dev, tc, randomProfiles(c, tc.frame.Width, tc.frame.Height)); err != nil {
			t.Error(err)
		}
	})
}

// TestProfileComparator: each number that is another goes noticed.
func TestProfileComparator(t *testing.T) {
	fresh := func() ProfileValue {
		v := ProfileValue{Profile: Profile{Kind: RowProfile}, Pieces: []ProfilePiece{{5, 3, 1}},
			Counts: []uint64{2, 2, 2, 0, 1}, Sums: []uint64{2, 4, 20, 0, 7}}
		bins := make([]driver.ProfileBin, len(v.Counts))
		for _, x := range v.numbers() {
			*x = math.NaN()
		}
		for b := range bins {
			bins[b] = driver.ProfileBin{Sum: v.Sums[b], Count: v.Counts[b]}
		}
		v.derive(bins, nil)
		return v
	}
	v := fresh()
	counts, sums := map[int]uint64{0: 2, 1: 2, 2: 2, 4: 1}, map[int]uint64{0: 2, 1: 4, 2: 20, 4: 7}
	if diff := profileDiffers(&v, counts, sums); diff != "" {
		t.Fatal(diff)
	}
	if v.Max != 10 || v.Min != 1 || v.Range != 9 || v.Step != 8 || v.Edge != 5 {
		t.Errorf("of 1, 2, 10, nothing, 7: %+v", v)
	}
	for n, change := range []func(*ProfileValue){
		func(v *ProfileValue) { v.Counts[1]++ }, func(v *ProfileValue) { v.Sums[4]++ },
		func(v *ProfileValue) { v.Counts[3]++ }, func(v *ProfileValue) { v.Pieces[0].Bins-- },
		func(v *ProfileValue) { v.Max = math.Nextafter(v.Max, 99) }, func(v *ProfileValue) { v.Min = math.NaN() },
		func(v *ProfileValue) { v.Range++ }, func(v *ProfileValue) { v.Step = -v.Step },
		func(v *ProfileValue) { v.Edge = math.Nextafter(v.Edge, 99) },
	} {
		wrong := fresh()
		change(&wrong)
		if profileDiffers(&wrong, counts, sums) == "" {
			t.Errorf("number %d can be another", n)
		}
		if sameProfile(&wrong, &v) {
			t.Errorf("with number %d of another both are the same", n)
		}
	}
}

// TestScanProfiles: strips, in any order, give the profiles of the whole part, bit for bit, whatever region ends first.
func TestScanProfiles(t *testing.T) {
	dev := openCPU(t, kernels.Config{Poison: true})
	n := 300
	if testing.Short() || race.Enabled {
		n = 60
	}
	compared := 0
	for seed := range uint64(n) {
		rng := testseed.New(t, seed, 33)
		s := randomScan(rng)
		for i := range s.regions {
			s.regions[i].Limits = nil
		}
		s.request = Reductions{Statistics: Count, Profiles: randomProfiles(rng, s.belt.width, s.height)}
		s.request.Output.Columns = seed%3 == 0
		set := mustSet(t, s.regions...)
		got, err := s.run(rng, dev, set, driver.MethodDefault)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for i, start := range s.starts {
			part := got[uint64(i)]
			if part == nil || part.MissingLines > 0 || part.Err != nil {
				if part != nil && part.Err != nil && !strings.Contains(part.Err.Error(), "is above") {
					t.Fatalf("seed %d: %v", seed, part.Err)
				}
				continue
			}
			want, err := Reduce(context.Background(), dev, set, s.belt.frame(rng, start, start+s.height), s.request,
				driver.MethodDefault)
			if err != nil {
				t.Fatal(err)
			}
			rows, wanted := part.Result.AsRows(), want.AsRows()
			for k := range wanted.Regions {
				for c := range wanted.Regions[k].Channels {
					a, b := rows.Regions[k].Channels[c].Profiles, wanted.Regions[k].Channels[c].Profiles
					if !slices.EqualFunc(a, b, func(a, b ProfileValue) bool { return sameProfile(&a, &b) }) {
						t.Fatalf("seed %d, part %d, region %d, channel %d:\n%+v, want\n%+v", seed, i, k, c, a, b)
					}
					compared += len(a)
				}
			}
		}
	}
	if compared < n {
		t.Errorf("only %d profiles were compared", compared)
	}
}

// TestProfileLimits: limits see the numbers of profiles, of all output forms and of other regions, and say why there is
// no value.
func TestProfileLimits(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	f := kernels.Picture{Width: 20, Height: 10, Format: driver.Gray8, Data: [][]byte{make([]byte, 200)}}
	for i := range f.Data[0] { // 10, and 200 from column 8 on, with column 8 half way
		f.Data[0][i] = map[bool]byte{false: 10, true: 200}[i%20 > 8]
		if i%20 == 8 {
			f.Data[0][i] = 105
		}
	}
	box := func(name string, x0, y0, x1, y1 float64, limits ...string) Region {
		return Region{Name: name, Limits: limits, Rings: []Ring{{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}}}
	}
	limits := []struct {
		text string
		want float64
		pass bool
	}{
		{"profile(columns).edge in [8.4, 8.6]", 8.5, false}, // two steps of the same height: the first, moved half a bin
		{"Profile( COLUMNS by 2 ) . edge > 8", 8.25, true},
		{"profile(columns).step == 95", 95, true},
		{"gray.profile(columns).max <= 200", 200, true},
		{"profile(columns).min < 10", 10, false},
		{"profile(columns).range > 189", 190, true},
		{"profile(rows).range < 1", 0, true},
		{"profile(radius about (2,5)).min < 11", 10, true},
		{"profile(line (1,5)-(19,5) width 3 by 2).step > 90", 0, true},
		{`profile(columns).max - "b".profile(rows by 3).max <= 0`, 0, true},
	}
	var texts []string
	for _, l := range limits {
		texts = append(texts, l.text)
	}
	set := mustSet(t, box("a", 0, 0, 20, 10, texts...), box("b", 9, 0, 20, 10, "profile(columns).edge > 0"),
		box("c", 30, 0, 40, 10, "profile(rows).max > 0"), box("d", 3, 3, 4, 4, "profile(rows).step > 0"))
	for _, out := range []Output{{}, {Columns: true}, {Fields: FieldLimits}} {
		res, err := Reduce(context.Background(), dev, set, f, Reductions{Output: out}, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		res = res.AsRows()
		for k, l := range limits {
			got := res.Regions[0].Limits[k]
			if !got.Measured || l.want != 0 && k != 1 && k != 0 && got.Value != l.want || l.pass != (got.Verdict == Pass) && k != 0 {
				t.Errorf("%+v: %s: %+v", out, l.text, got)
			}
		}
		for i, why := range map[int]string{1: "profile(columns).edge has no value: there is no step", 2: outsideFrame,
			3: "no two bins beside each other have pixels"} {
			if l := res.Regions[i].Limits[0]; l.Verdict != Fail || !strings.Contains(l.Reason, why) {
				t.Errorf("%+v: region %d: %+v, want %q", out, i, l, why)
			}
		}
		for _, c := range res.Regions[0].Channels {
			if c.Profiles != nil {
				t.Errorf("%+v: profiles that nobody asked for", out)
			}
		}
	}
	for _, c := range []struct{ text, why string }{
		{"profile(rows).max <= 255", "can't fail"}, // on 8 bits alone: a set doesn't know them
		{"profile(rows).mean < 5", `column 15: expected max, min, range, step or edge, found "mean"`},
		{"profile(diagonal).max < 5", `column 9: expected rows, columns,`},
		{"profile rows", `column 9: expected "(" and a profile`},
		{"profile(radius).max < 5", `column 15: expected "about", found ")"`},
		{"profile(radius about (1,2)-(3,4)).max < 5", `column 27: expected ")", found "-"`},
		{"profile(line (1,2)).max < 5", "points 1 must be 2 to 33"},
		{"profile(line (1,2)-(1,2)).max < 5", "have a segment of no length from point 0"},
		{"profile(line (1,2)-(70000,2)).max < 5", "longer than 32768 px along an axis"},
		{"profile(line (0,0)-(32768,0)-(0,0)).max < 5", "make more than 65535 bins"},
		{"profile(line (1,2)-(5,2) width 0).max < 5", "a width must be above 0"},
		{"profile(rows width 3).max < 5", `expected ")", found "width"`},
		{"profile(rows by 0).max < 5", "bins must be 1 to 4096 whole pixels wide"},
		{"profile(rows by 4097).max < 5", "bins must be 1 to 4096 whole pixels wide"},
		{"profile(radius about (5000000,0)).max < 5", "must be less than 4194304 px from 0"},
		{"hue.profile(rows).max < 5", "hue is an angle"},
		{"lab.l.profile(rows).max < 5", "profiles are of the frame's own channels"},
	} {
		_, err := NewSet([]Region{box("a", 0, 0, 5, 5, c.text)}, Bounds{})
		if err == nil && strings.Contains(c.why, "can't fail") {
			_, err = Reduce(context.Background(), dev, mustSet(t, box("a", 0, 0, 5, 5, c.text)), f, Reductions{},
				driver.MethodDefault)
		}
		if err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", c.text, err, c.why)
		}
	}
}

// TestProfileBounds: what is beyond a bound is refused by its name, before anything runs.
func TestProfileBounds(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	tall := kernels.Picture{Width: 1, Height: 70001, Format: driver.Gray8, Data: [][]byte{make([]byte, 70001)}}
	all := Region{Rings: []Ring{{{0, 0}, {1, 0}, {1, 70001}, {0, 70001}}}}
	many := make([]Profile, MaxProfiles+1)
	for i := range many {
		many[i] = Profile{Kind: RowProfile, Bin: 2 + i}
	}
	var regions []Region
	for range 130 {
		regions = append(regions, Region{Rings: []Ring{{{0, 0}, {1, 0}, {1, 65536}, {0, 65536}}}})
	}
	for _, c := range []struct {
		profiles []Profile
		regions  []Region
		why      string
	}{
		{[]Profile{{}}, []Region{all}, "reductions.profiles[0].kind"},
		{[]Profile{{Kind: RowProfile, Width: 1}}, []Region{all}, "reductions.profiles[0].width"},
		{[]Profile{{Kind: RowProfile, Bin: -1}}, []Region{all}, "reductions.profiles[0].bin"},
		{[]Profile{{Kind: RadialProfile}}, []Region{all}, "reductions.profiles[0].points"},
		{[]Profile{{Kind: RadialProfile, Points: []Point{{math.NaN(), 0}}}}, []Region{all}, "reductions.profiles[0].points"},
		{[]Profile{{Kind: RowProfile}}, []Region{all}, "makes 70001 bins of region 0: the limit is 65536"},
		{[]Profile{{Kind: RowProfile, Bin: 2}}, []Region{all}, ""},
		{many, []Region{all}, "17"},
		{many[:MaxProfiles], []Region{all}, ""},
		{[]Profile{{Kind: RowProfile}}, regions, "the limit is 4194304"},
	} {
		_, err := Reduce(context.Background(), dev, mustSet(t, c.regions...), tall, Reductions{Profiles: c.profiles},
			driver.MethodDefault)
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%d profiles, %d regions: %v, want %q", len(c.profiles), len(c.regions), err, c.why)
		}
	}
	// A pose moves lines and centres, and what that makes too long is refused.
	part := Region{Rings: []Ring{{{2, 2}, {8, 2}, {8, 8}, {2, 8}}}}
	set := mustSet(t, part)
	moved, err := set.Moved([]Region{part}, Pose{A: 2, E: 2, C: 10, F: 20}, false, Bounds{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := kernels.Picture{Width: 40, Height: 50, Format: driver.Gray8, Data: [][]byte{make([]byte, 2000)}}
	for _, c := range []struct{ drawn, there Profile }{
		{Profile{Kind: LineProfile, Points: []Point{{1, 3}, {9, 4}}, Width: 3},
			Profile{Kind: LineProfile, Points: []Point{{12, 26}, {28, 28}}, Width: 3}},
		{Profile{Kind: RadialProfile, Points: []Point{{5, 5}}}, Profile{Kind: RadialProfile, Points: []Point{{20, 30}}}},
	} {
		res, err := Reduce(context.Background(), dev, moved, f, Reductions{Profiles: []Profile{c.drawn}}, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		v := &res.Regions[0].Channels[0].Profiles[0]
		mask := oracle(Region{Rings: []Ring{{{14, 24}, {26, 24}, {26, 36}, {14, 36}}}}, f).mask
		counts, sums := oracleProfile(mask, f, 0, c.there, v.Pieces[0].Start)
		if diff := profileDiffers(v, counts, sums); diff != "" {
			t.Errorf("%v, moved: %s", c.drawn, diff)
		}
	}
	long := Reductions{Profiles: []Profile{{Kind: LineProfile, Points: []Point{{0, 0}, {32768, 0}}}}}
	if _, err := Reduce(context.Background(), dev, moved, f, long, driver.MethodDefault); err == nil ||
		!strings.Contains(err.Error(), "longer than 32768 px") {
		t.Errorf("a line of 65,536 px: %v", err)
	}
}

// TestBinsOf: as many bins as the length is, rounded, for lengths around halves.
func TestBinsOf(t *testing.T) {
	for _, c := range []struct{ square, bin, want int64 }{
		{1, 256, 1}, {127 * 127, 256, 1}, {384*384 - 1, 256, 1}, {384 * 384, 256, 2}, {640*640 - 1, 256, 2}, {640 * 640, 256, 3},
		{1 << 47, 256, 46341}, {1 << 47, 512, 23170}, {3, 1 << 20, 1},
	} {
		if got := binsOf(c.square, c.bin); got != c.want {
			t.Errorf("the root of %d has %d bins of %d, want %d", c.square, got, c.bin, c.want)
		}
	}
}

// TestProfileTextReadsBack: what a profile is spelled as is read as the same.
func TestProfileTextReadsBack(t *testing.T) {
	for seed := range uint64(300) {
		for _, f := range randomProfiles(testseed.New(t, seed, 34), 30, 20) {
			got, err := ParseProfile(f.String())
			if err != nil || !got.same(&f) || got.String() != f.String() {
				t.Errorf("%v is read as %v: %v", f, got, err)
			}
		}
	}
}

// TestProfileBins: a result is never larger than what is said before its frame is there, and a line is measured once,
// however many regions there are.
func TestProfileBins(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	for seed := range uint64(100) {
		rng := testseed.New(t, seed, 35)
		tc := randomCase(rng)
		for i := range tc.regions {
			tc.regions[i].Limits, tc.regions[i].Reference = nil, nil
		}
		set, wanted := mustSet(t, tc.regions...), randomProfiles(rng, tc.frame.Width, tc.frame.Height)
		res, err := Reduce(context.Background(), dev, set, tc.frame, Reductions{Profiles: wanted}, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		bins := 0
		for _, r := range res.Regions {
			for _, v := range r.Channels[0].Profiles {
				bins += len(v.Counts)
			}
		}
		if most := set.ProfileBins(wanted); int64(bins) > most {
			t.Errorf("seed %d: %v have %d bins, more than %d", seed, wanted, bins, most)
		}
	}
	long := Profile{Kind: LineProfile, Width: 5}
	for i := range MaxProfilePoints {
		long.Points = append(long.Points, Point{float64(i%2) * 2000, float64(i)})
	}
	regions := make([]Region, 20000)
	for i := range regions {
		regions[i] = Region{Rings: []Ring{{{0, 0}, {1, 0}, {1, 1}}}}
	}
	set := mustSet(t, regions...)
	if n := testing.AllocsPerRun(1, func() { set.ProfileBins([]Profile{long}) }); n > 2000 {
		t.Errorf("%v allocations for one line of %d regions", n, len(regions))
	}
}
