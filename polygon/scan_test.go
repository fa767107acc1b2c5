package polygon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/race"
	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// belt is what passes under the camera: rows of pixels without gaps.
type belt struct {
	width, lines int
	format       driver.PixelFormat
	data         []byte
}

func randomBelt(c choices, width, lines int, format driver.PixelFormat) belt {
	b := belt{width, lines, format, make([]byte, width*lines*format.PixelBytes())}
	most := format.Levels()
	if c.IntN(8) == 0 && format.SampleBytes == 2 && format.Bits < 16 {
		most += 1 + c.IntN(3) // some samples are out of range
	}
	size := int(format.SampleBytes)
	few := 1 + c.IntN(most)
	seed := rand.New(rand.NewPCG(uint64(c.IntN(1<<30)), 1))
	for i := 0; i < len(b.data); i += size {
		v := seed.IntN(few)
		if seed.IntN(4) == 0 {
			v = seed.IntN(most)
		}
		b.data[i] = byte(v)
		if size == 2 {
			b.data[i+1] = byte(v >> 8)
		}
	}
	return b
}

// frame is lines [from, to), with some stride and in some pieces. Lines behind the belt's end are zero.
func (b belt) frame(c choices, from, to int) kernels.Picture {
	row := b.width * b.format.PixelBytes()
	f := kernels.Picture{Width: b.width, Height: to - from, Format: b.format}
	stride := row
	if c.IntN(2) == 0 {
		stride += c.IntN(4) * int(b.format.SampleBytes)
		f.Stride = stride
	}
	data := make([]byte, stride*(to-from))
	for i := range data {
		data[i] = 0xff
	}
	for y := from; y < to; y++ {
		line := data[(y-from)*stride:][:row]
		if clear(line); y < b.lines {
			copy(line, b.data[y*row:])
		}
	}
	if c.IntN(2) == 0 {
		data = data[:len(data)-stride+row]
	}
	for len(data) > 0 {
		k := len(data)
		if c.IntN(3) == 0 {
			k = 1 + c.IntN(k)
		}
		f.Data = append(f.Data, data[:k])
		data = data[k:]
	}
	return f
}

// span is lines [from, to).
type span struct{ from, to int }

// cut cuts lines into strips.
func cut(c choices, lines, most int) (out []span) {
	for at := 0; at < lines; {
		n := min(1+c.IntN(most), lines-at)
		out = append(out, span{at, at + n})
		at += n
	}
	return out
}

func shuffle[T any](c choices, s []T) {
	for i := len(s) - 1; i > 0; i-- {
		k := c.IntN(i + 1)
		s[i], s[k] = s[k], s[i]
	}
}

var formats = []driver.PixelFormat{
	driver.Gray8, driver.Gray8, driver.RGB8, driver.BGR8, driver.RGBA8, driver.Gray16(10), driver.Gray16(12),
	driver.Gray16(16),
	{Channels: 2, SampleBytes: 1, Bits: 8, Order: [4]uint8{1, 0}},
}

// scanCase is parts of a belt.
type scanCase struct {
	belt    belt
	regions []Region
	request Reductions
	height  int
	starts  []int
	strips  []span // as they are sent
	lost    []span // not sent
	ordered bool
	whole   bool // parts have to be
}

func randomScan(c choices) scanCase {
	s := scanCase{height: 1 + c.IntN(24)}
	w := 1 + c.IntN(14)
	format := formats[c.IntN(len(formats))]
	for range 1 + c.IntN(5) {
		s.regions = append(s.regions, randomShape(c, w, s.height))
	}
	if c.IntN(3) == 0 {
		for i := range s.regions {
			s.regions[i].Limits = []string{"count > 3", "mean < 100"}
		}
	}
	s.request = randomRequest(c, format)
	at := c.IntN(4)
	for range 1 + c.IntN(4) {
		s.starts = append(s.starts, at)
		at += c.IntN(s.height + 6)
	}
	s.belt = randomBelt(c, w, at+s.height, format)
	for _, strip := range cut(c, s.belt.lines, pick(c, 1, 5, 40)) {
		if c.IntN(12) == 0 {
			s.lost = append(s.lost, strip)
		} else {
			s.strips = append(s.strips, strip)
		}
	}
	if s.ordered = c.IntN(2) == 0; !s.ordered {
		shuffle(c, s.strips)
	}
	s.whole = c.IntN(3) == 0
	return s
}

// came says whether a line was sent.
func (s *scanCase) came(line int) bool {
	return !slices.ContainsFunc(s.lost, func(l span) bool { return l.from <= line && line < l.to })
}

// missing is how many lines of a part the regions need that were not sent, by drawing each region.
func (s *scanCase) missing(start int) (n int) {
	needed := make([]bool, s.height)
	for _, r := range s.regions {
		rings := oracleRings(r)
		first, last := s.height, -1
		for y := range s.height {
			if slices.Contains(oracleInside(r, rings, y, 0, s.belt.width), true) {
				first, last = min(first, y), max(last, y)
			}
		}
		for y := first; y <= last; y++ {
			needed[y] = true
		}
	}
	for y, need := range needed {
		if (need || s.whole) && !s.came(start+y) {
			n++
		}
	}
	return n
}

// run scans a case and returns the parts by number.
func (s *scanCase) run(c choices, dev *kernels.Device, set *Set, m driver.Method) (map[uint64]*ScannedPart, error) {
	ctx := context.Background()
	scan, err := set.NewScanner(ctx, dev, ScanConfig{
		Width: s.belt.width, Format: s.belt.format, PartLines: s.height, WholeParts: s.whole, Reductions: s.request,
		Method: m, Parts: c.IntN(2), MaxParts: len(s.starts), StripBytes: c.IntN(3) * 1000, // none, some strips, most
	})
	if err != nil {
		return nil, err
	}
	defer scan.Close()
	out := map[uint64]*ScannedPart{}
	take := func(parts []*ScannedPart, err error) error {
		for _, p := range parts {
			if out[p.Number] != nil {
				return fmt.Errorf("part %d came twice", p.Number)
			}
			out[p.Number] = p
		}
		return err
	}
	start := func(before int) error {
		for i, at := range s.starts {
			if at < before && out[uint64(i)] == nil &&
				!slices.ContainsFunc(scan.parts, func(p *scanPart) bool { return p.number == uint64(i) }) {
				if err := scan.Start(uint64(i), uint64(at)); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if !s.ordered {
		if err := start(s.belt.lines); err != nil {
			return nil, err
		}
	}
	for _, strip := range s.strips {
		st := ScanStrip{FirstLine: uint64(strip.from), Frame: s.belt.frame(c, strip.from, strip.to)}
		if s.ordered {
			if err := start(strip.to); err != nil {
				return nil, err
			}
			st.Settled = uint64(strip.to)
		}
		if err := take(scan.Strip(ctx, st)); err != nil {
			return nil, err
		}
	}
	if s.ordered { // parts of which nothing came
		if err := start(s.belt.lines); err != nil && !errors.As(err, new(*kernels.InvalidError)) {
			return nil, err
		}
	}
	if err := take(scan.Settle(ctx, uint64(s.belt.lines))); err != nil {
		return nil, err
	}
	if scan.Open() != 0 {
		return nil, fmt.Errorf("%d parts are open when all lines are settled", scan.Open())
	}
	return out, nil
}

// checkScan compares the parts of a case with Reduce and with the oracle.
func checkScan(c choices, dev *kernels.Device, s scanCase) error {
	ctx := context.Background()
	set, err := NewSet(s.regions, Bounds{})
	if err != nil {
		return err
	}
	m := methods[c.IntN(len(methods))]
	got, err := s.run(c, dev, set, m)
	if err != nil {
		return err
	}
	for i, start := range s.starts {
		part := got[uint64(i)]
		if part == nil {
			if s.ordered && len(s.lost) > 0 {
				continue // it would have started in lines that were lost
			}
			return fmt.Errorf("part %d did not come back", i)
		}
		if part.FirstLine != uint64(start) {
			return fmt.Errorf("part %d begins at %d, want %d", i, part.FirstLine, start)
		}
		if want := s.missing(start); part.MissingLines != want {
			return fmt.Errorf("part %d lacks %d lines, want %d", i, part.MissingLines, want)
		}
		f := s.belt.frame(c, start, start+s.height)
		if part.MissingLines > 0 {
			if part.Err == nil {
				if err := s.checkIncomplete(part, f); err != nil {
					return fmt.Errorf("part %d: %w", i, err)
				}
			}
			continue
		}
		want, err := Reduce(ctx, dev, set, f, s.request, m)
		if err != nil || part.Err != nil {
			if fmt.Sprint(err) != fmt.Sprint(part.Err) {
				return fmt.Errorf("part %d: error %v, want %v", i, part.Err, err)
			}
			continue
		}
		if !reflect.DeepEqual(untimed(part.Result), untimed(want)) {
			return fmt.Errorf("part %d:\n%+v, want\n%+v", i, part.Result, want)
		}
		for k, r := range s.regions {
			g := part.Result.Regions[k]
			g.Limits, g.Verdict = nil, NoVerdict
			request := s.request
			if diff := differences(g, oracle(r, f), f, request); diff != nil {
				return fmt.Errorf("part %d, region %d: %v", i, k, diff)
			}
		}
	}
	return nil
}

// checkIncomplete compares a part that lacks lines with the pixels of those that came.
func (s *scanCase) checkIncomplete(p *ScannedPart, f kernels.Picture) error {
	for k, r := range s.regions {
		rings := oracleRings(r)
		var count uint64
		sums := make([]uint64, f.Format.Channels)
		for y := range f.Height {
			if !s.came(int(p.FirstLine) + y) {
				continue
			}
			for x, in := range oracleInside(r, rings, y, 0, f.Width) {
				if in {
					count++
					for c := range sums {
						sums[c] += uint64(sample(f, x, y, c))
					}
				}
			}
		}
		got := p.Result.Regions[k]
		if got.Count != count {
			return fmt.Errorf("region %d has %d pixels, want %d", k, got.Count, count)
		}
		for c, ch := range got.Channels {
			if ch.Has.Has(Sum) && ch.Sum != sums[c] {
				return fmt.Errorf("region %d, %v: sum %d, want %d", k, ch.Channel, ch.Sum, sums[c])
			}
		}
	}
	return nil
}

func TestScanProperty(t *testing.T) {
	dev := openCPU(t, kernels.Config{Poison: true})
	rapid.Check(t, func(t *rapid.T) {
		if err := checkScan(drawn{t}, dev, randomScan(drawn{t})); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzScan(f *testing.F) {
	f.Add([]byte("lines"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dev := openCPU(t, kernels.Config{Poison: true, MemoryBytes: 32 << 20})
		c := &byteChoices{data}
		if err := checkScan(c, dev, randomScan(c)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestScanRandom goes through more cases than rapid does, and larger ones.
func TestScanRandom(t *testing.T) {
	dev := openCPU(t, kernels.Config{Poison: true})
	cases := 250
	if testing.Short() || race.Enabled {
		cases = 50
	}
	incomplete := 0
	for seed := range cases {
		rng := testseed.New(t, uint64(seed), 8)
		s := randomScan(rng)
		if len(s.lost) > 0 {
			incomplete++
		}
		if err := checkScan(rng, dev, s); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if incomplete < cases/10 || incomplete > cases*9/10 {
		t.Errorf("%d of %d cases lack lines", incomplete, cases)
	}
}

// TestScanManyRegions: ops that go through many regions, with some that begin late and some that reach far.
func TestScanManyRegions(t *testing.T) {
	dev := openCPU(t, kernels.Config{Poison: true})
	for _, n := range []int{15, 16, 17, 300} {
		for _, format := range []driver.PixelFormat{driver.Gray8, driver.RGB8, driver.RGBA8, driver.Gray16(12)} {
			rng := testseed.New(t, uint64(n), 9)
			s := scanCase{height: 200,
				request: Reductions{Statistics: AllStatistics, Histogram: HistogramSpec{Bins: 4}}, ordered: true}
			s.regions = manyRegions(n, 7, 60, 200)
			s.regions = append(s.regions, Region{Rings: []Ring{rectangle(0, 0, 3, 200)}},
				Region{Rings: []Ring{rectangle(2, 1, 1, 190)}},
				Region{Rings: []Ring{rectangle(100, 0, 4, 4)}}, Region{Rings: []Ring{rectangle(0, -50, 4, 20)}})
			s.starts = []int{0, 90, 130, 200}
			s.belt = randomBelt(rng, 60, 400, format)
			s.belt.data = slices.Clone(s.belt.data)
			if format.Bits == 12 {
				for i := 1; i < len(s.belt.data); i += 2 {
					s.belt.data[i] &= 15
				}
			}
			s.strips = cut(rng, 400, 64)
			set := mustSet(t, s.regions...)
			got, err := s.run(rng, dev, set, driver.MethodDefault)
			if err != nil {
				t.Fatal(err)
			}
			for i, start := range s.starts {
				want, err := Reduce(t.Context(), dev, set, s.belt.frame(rng, start, start+200), s.request,
					driver.MethodDefault)
				if err != nil {
					t.Fatal(err)
				}
				if p := got[uint64(i)]; p.Err != nil || p.MissingLines != 0 ||
					!reflect.DeepEqual(untimed(p.Result), untimed(want)) {
					t.Errorf("%d regions, %s, part %d differs", n, format, i)
				}
			}
		}
	}
}

// TestScanSoon: a part comes back with the strip that has its last needed line, not with its own last line.
func TestScanSoon(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	set := mustSet(t, Region{Rings: []Ring{rectangle(0, 2, 4, 3)}}, Region{Rings: []Ring{rectangle(1, 4, 2, 3)}})
	scan, err := set.NewScanner(t.Context(), dev,
		ScanConfig{Width: 8, Format: driver.Gray8, PartLines: 20, MaxParts: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer scan.Close()
	if want := (lineSet{{2, 7}}); !slices.Equal(scan.need, want) {
		t.Errorf("lines %v are needed, want %v", scan.need, want)
	}
	b := randomBelt(testseed.New(t, 1, 1), 8, 40, driver.Gray8)
	for i := range 2 {
		if err := scan.Start(uint64(i), uint64(5*i)); err != nil {
			t.Fatal(err)
		}
	}
	for line := range 20 {
		parts, err := scan.Strip(t.Context(),
			ScanStrip{FirstLine: uint64(line), Frame: b.frame(&byteChoices{}, line, line+1)})
		if err != nil {
			t.Fatal(err)
		}
		if want := line == 6 || line == 11; (len(parts) == 1) != want {
			t.Errorf("line %d: %d parts", line, len(parts))
		}
	}
	if scan.Open() != 0 {
		t.Errorf("%d parts are open", scan.Open())
	}
}

// TestScanWhole: a part that has to be whole is done with its last line, and doesn't pass without one that no region
// needs. One whose regions were done when the device was lost has all that it needs.
func TestScanWhole(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	limited := []Region{{Rings: []Ring{rectangle(0, 0, 8, 2)}, Limits: []string{"count == 16"}}}
	for _, c := range []struct {
		name           string
		regions        []Region
		whole          bool
		lost           span
		reset, missing int
		done           int // behind this line
		verdict        Verdict
	}{
		{"as regions need", limited, false, span{7, 9}, -1, 0, 1, Pass},
		{"whole", limited, true, span{}, -1, 0, 9, Pass},
		{"without two lines", limited, true, span{7, 9}, -1, 2, 9, Fail},
		{"without its last", limited, true, span{9, 10}, -1, 1, 10, Fail},
		{"with another device", limited, true, span{}, 5, 0, 9, Pass},
		{"without limits", []Region{{Rings: []Ring{rectangle(0, 0, 8, 2)}}}, true, span{4, 5}, -1, 1, 9, NoVerdict},
		{"without pixels", []Region{{Rings: []Ring{rectangle(90, 0, 8, 2)}}}, true, span{4, 5}, -1, 1, 9, NoVerdict},
	} {
		t.Run(c.name, func(t *testing.T) {
			scan, err := mustSet(t, c.regions...).NewScanner(t.Context(), dev,
				ScanConfig{Width: 8, Format: driver.Gray8, PartLines: 10, WholeParts: c.whole})
			if err != nil {
				t.Fatal(err)
			}
			defer scan.Close()
			if err := scan.Start(0, 0); err != nil {
				t.Fatal(err)
			}
			var part *ScannedPart
			for line := range 11 {
				var parts []*ScannedPart
				if line < 10 && (line < c.lost.from || line >= c.lost.to) {
					parts, err = scan.Strip(t.Context(),
						ScanStrip{FirstLine: uint64(line), Frame: noise(8, 1, driver.Gray8), Settled: uint64(line) + 1})
				} else if line == 10 {
					parts, err = scan.Settle(t.Context(), 10)
				}
				if err != nil {
					t.Fatal(err)
				}
				if line == c.reset {
					if err := scan.Reset(t.Context(), openCPU(t, kernels.Config{})); err != nil {
						t.Fatal(err)
					}
				}
				if (len(parts) == 1) != (line == c.done) {
					t.Fatalf("line %d: %d parts", line, len(parts))
				}
				if len(parts) == 1 {
					part = parts[0]
				}
			}
			if part.MissingLines != c.missing || part.Result.Verdict != c.verdict {
				t.Errorf("lacks %d lines, %v; want %d, %v", part.MissingLines, part.Result.Verdict, c.missing,
					c.verdict)
			}
		})
	}
}

// TestScanOutside: columns beyond the line, and rows beyond the part, are outside the frame.
func TestScanOutside(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	const limit = "count of pixels above 254 <= 7"
	set := mustSet(t,
		Region{Rings: []Ring{rectangle(0, 0, 8, 4)}, Limits: []string{limit}},
		Region{Rings: []Ring{rectangle(6, 0, 4, 2)}, Limits: []string{limit}},
		Region{Rings: []Ring{rectangle(0, 2, 2, 4)}, Limits: []string{limit}},
		Region{Rings: []Ring{rectangle(0, 2, 2, 4)}, Limits: []string{limit, "coverage >= 0.5"}})
	scan, err := set.NewScanner(t.Context(), dev, ScanConfig{Width: 8, Format: driver.Gray8, PartLines: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer scan.Close()
	if err := scan.Start(0, 0); err != nil {
		t.Fatal(err)
	}
	b := randomBelt(testseed.New(t, 1, 1), 8, 8, driver.Gray8)
	parts, err := scan.Strip(t.Context(), ScanStrip{Frame: b.frame(&byteChoices{}, 0, 8)})
	if err != nil || len(parts) != 1 {
		t.Fatal(parts, err)
	}
	const half = "outside the frame: 50 % of the region's pixels"
	for i, want := range []string{"", half, half, ""} {
		if got := parts[0].Result.Regions[i].Limits[0]; got.Reason != want || (got.Verdict == Pass) != (want == "") {
			t.Errorf("region %d: %+v, want %q", i, got, want)
		}
	}
}

func TestScanRefuses(t *testing.T) {
	dev := openCPU(t, kernels.Config{MemoryBytes: 1 << 20})
	ctx := t.Context()
	set := mustSet(t, Region{Rings: []Ring{rectangle(0, 0, 8, 8)}})
	cfg := ScanConfig{Width: 8, Format: driver.Gray8, PartLines: 10}
	wantError := func(what string, err error, want string) {
		t.Helper()
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
	bad := cfg
	bad.Width = 0
	_, err := set.NewScanner(ctx, dev, bad)
	wantError("no width", err, "polygon: frame.width = 0: must be 1 to 1048576")
	bad = cfg
	bad.Method = 9
	_, err = set.NewScanner(ctx, dev, bad)
	wantError("method", err, "polygon: method = 9: must be 0 to 5")
	bad = cfg
	bad.Reductions.Statistics, bad.Format = Median, driver.Gray16(16)
	bad.Parts = 10
	var capacity *kernels.CapacityError
	if _, err := set.NewScanner(ctx, dev, bad); !errors.As(err, &capacity) {
		t.Errorf("ten parts of 256 KiB: %v", err)
	}
	if n := dev.Memory().Used; n != 0 {
		t.Errorf("%d bytes in use after refusals", n)
	}

	cfg.MaxParts = 2
	scan, err := set.NewScanner(ctx, dev, cfg)
	if err != nil {
		t.Fatal(err)
	}
	strip := func(first uint64, lines int, change func(*kernels.Picture)) error {
		f := noise(8, lines, driver.Gray8)
		if change != nil {
			change(&f)
		}
		_, err := scan.Strip(ctx, ScanStrip{FirstLine: first, Frame: f})
		return err
	}
	for i := range 2 {
		if err := scan.Start(uint64(i), uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := scan.Start(2, 2); !errors.Is(err, ErrTooManyParts) {
		t.Errorf("a third part: %v", err)
	}
	wantError("width", strip(0, 1, func(f *kernels.Picture) {
		*f = noise(9, 1, driver.Gray8)
	}), "polygon: frame.width = 9: must be 8, that of the scan")
	wantError("format", strip(0, 1, func(f *kernels.Picture) {
		*f = noise(8, 1, driver.RGB8)
	}), "polygon: frame.format = RGB8: must be GRAY8, that of the scan")
	wantError("data", strip(0, 1, func(f *kernels.Picture) { f.Data = pieces(7) }),
		"polygon: frame.data = 7 bytes: must hold 8 bytes: 1 rows of GRAY8 with 8 pixels, 8 bytes apart")
	wantError("far", strip(1<<64-2, 2, nil),
		"polygon: first_line = 18446744073709551614: must be at most 18446744073709551613")
	if err := strip(2, 2, nil); err != nil {
		t.Fatal(err)
	}
	wantError("again", strip(3, 2, nil), "polygon: first_line = 3: and the lines after it have come before")
	if _, err := scan.Settle(ctx, 3); err != nil {
		t.Fatal(err)
	}
	wantError("settled", strip(1, 1, nil), "polygon: first_line = 1: must not be below 3, where lines are settled")
	wantError("start", scan.Start(3, 2), "polygon: start = 2: must not be below 3, where lines are settled")
	wantError("far start", scan.Start(3, 1<<64-1),
		"polygon: start = 18446744073709551615: must be at most 18446744073709551605")
	if label := dev.Memory().ByLabel; label["line-scan sums"] != 2*kernels.Bytes[driver.MaskStats](scan.set.Len()) ||
		label["line-scan regions"] == 0 {
		t.Errorf("in use: %v", label)
	}
	for range 2 {
		scan.Close()
	}
	if err := strip(20, 1, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := scan.Start(9, 9); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if n := dev.Memory().Used; n != 0 {
		t.Errorf("%d bytes in use after Close", n)
	}
}

// A strip that fits in the memory kept for strips goes ahead while jobs hold all other memory; one that doesn't has to
// wait.
func TestScanStripsWaitForNoMemory(t *testing.T) {
	dev := openCPU(t, kernels.Config{MemoryBytes: 1 << 20})
	set := mustSet(t, Region{Rings: []Ring{rectangle(0, 0, 8, 10)}})
	for kept, waits := range map[int]bool{0: true, 8*10 - 1: true, 8 * 10: false} {
		scan, err := set.NewScanner(t.Context(), dev,
			ScanConfig{Width: 8, Format: driver.Gray8, PartLines: 10, StripBytes: kept})
		if err != nil {
			t.Fatal(err)
		}
		if err := scan.Start(0, 0); err != nil {
			t.Fatal(err)
		}
		holding, done := make(chan struct{}), make(chan struct{})
		var holder sync.WaitGroup
		holder.Go(func() {
			err := dev.Do(t.Context(), kernels.Job{Label: "all of it", Footprint: dev.Memory().Largest},
				func(*kernels.Queue) error {
					close(holding)
					<-done
					return nil
				})
			if err != nil {
				t.Error(err)
				close(holding)
			}
		})
		<-holding
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if waits {
			holder.Go(func() {
				for dev.Memory().Waiting == 0 && ctx.Err() == nil {
					time.Sleep(time.Millisecond)
				}
				cancel()
			})
		}
		parts, err := scan.Strip(ctx, ScanStrip{Frame: noise(8, 10, driver.Gray8)})
		cancel()
		var capacity *kernels.CapacityError
		switch {
		case waits && !errors.As(err, &capacity):
			t.Errorf("%d bytes kept: %v, want an error for want of memory", kept, err)
		case !waits && (err != nil || len(parts) != 1 || parts[0].MissingLines != 0):
			t.Errorf("%d bytes kept: %v, %v", kept, parts, err)
		}
		close(done)
		holder.Wait()
		scan.Close()
	}
	if n := dev.Memory().Used; n != 0 {
		t.Errorf("%d bytes in use", n)
	}
}

// TestScanFailures makes each event of the driver fail in turn. The strip's error says so; what parts report afterwards
// is of the lines that were not lost, and says how many were; the next parts are whole; and all memory comes back.
func TestScanFailures(t *testing.T) {
	broken := errors.New("the device smells of smoke")
	for _, format := range []driver.PixelFormat{driver.Gray8, driver.Gray16(16)} {
		for _, inWait := range []bool{false, true} {
			for n := 1; ; n++ {
				faulty := devicetest.Fault(cpu.Driver, devicetest.Failure{})
				dev, err := kernels.Open(faulty, kernels.Config{MemoryBytes: 8 << 20, Poison: true})
				if err != nil {
					t.Fatal(err)
				}
				fired := scanWithFailure(t, dev, faulty, format, devicetest.Failure{N: n, Err: broken, InWait: inWait})
				if used := dev.Memory().Used; used != 0 {
					t.Errorf("failure %d: %d bytes in use", n, used)
				}
				if err := dev.Close(); err != nil {
					t.Error(err)
				}
				if !fired {
					if n < 20 {
						t.Errorf("only %d events", n)
					}
					break
				}
			}
		}
	}
}

func scanWithFailure(t *testing.T, dev *kernels.Device, faulty *devicetest.Faulty, format driver.PixelFormat,
	failure devicetest.Failure) (fired bool) {
	ctx := context.Background()
	const height, every, step, lines = 20, 15, 7, 70
	regions := append(manyRegions(6, 5, 12, height), Region{Rings: []Ring{rectangle(0, 0, 12, height)}})
	set := mustSet(t, regions...)
	b := randomBelt(testseed.New(t, 3, 3), 12, lines+height, format)
	request := Reductions{Statistics: Sum | Count | Median}
	faulty.Arm(failure)
	scan, err := set.NewScanner(ctx, dev,
		ScanConfig{Width: 12, Format: format, PartLines: height, Reductions: request, Parts: 1, MaxParts: 4})
	if err != nil {
		if _, fired = faulty.Fired(); !fired || !errors.Is(err, failure.Err) {
			t.Errorf("NewScanner: %v", err)
		}
		return fired
	}
	defer scan.Close()
	lost := span{} // lines of the failed strip
	var parts []*ScannedPart
	for at, next := 0, 0; at < lines; at += step {
		for ; next*every < at+step; next++ {
			err := scan.Start(uint64(next), uint64(next*every))
			if _, fired := faulty.Fired(); fired && errors.Is(err, failure.Err) {
				err = scan.Start(uint64(next), uint64(next*every)) // nothing had happened
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		end := at + step
		got, err := scan.Strip(ctx,
			ScanStrip{FirstLine: uint64(at), Frame: b.frame(&byteChoices{}, at, end), Settled: uint64(end)})
		if err != nil {
			if _, fired := faulty.Fired(); !fired || lost.to > 0 || !errors.Is(err, failure.Err) {
				t.Errorf("failure %d, strip at %d: %v", failure.N, at, err)
			}
			lost = span{at, end}
		}
		parts = append(parts, got...)
	}
	_, fired = faulty.Fired()
	got, err := scan.Settle(ctx, lines+height)
	if err != nil && !fired {
		if _, fired = faulty.Fired(); fired {
			got, err = scan.Settle(ctx, lines+height)
		}
	}
	if err != nil {
		t.Errorf("Settle: %v", err)
	}
	parts = append(parts, got...)
	faulty.Arm(devicetest.Failure{})
	slices.SortFunc(parts, func(a, b *ScannedPart) int { return cmp.Compare(a.Number, b.Number) })
	if want := (lines + every - 1) / every; len(parts) != want {
		t.Errorf("failure %d: %d parts, want %d", failure.N, len(parts), want)
	}
	for _, p := range parts {
		first := int(p.FirstLine)
		touched := lost.from < first+height && first < lost.to
		tail := max(0, first+height-lines)
		if p.Err != nil || !touched && p.MissingLines != tail {
			t.Errorf("failure %d at [%d, %d): part at %d lacks %d lines, error %v", failure.N, lost.from, lost.to,
				first, p.MissingLines, p.Err)
		}
		if p.MissingLines == 0 {
			want, err := Reduce(ctx, dev, set, b.frame(&byteChoices{}, first, first+height), request, 0)
			if err != nil || !reflect.DeepEqual(untimed(want), untimed(p.Result)) {
				t.Errorf("failure %d: part at %d differs (%v)", failure.N, first, err)
			}
			continue
		}
		// The region that covers the part holds whole lines: as many as are not missing at least.
		all := p.Result.Regions[len(regions)-1]
		if want := uint64(12 * (height - p.MissingLines)); all.Count != want {
			t.Errorf("failure %d: part at %d lacks %d lines and has %d pixels, want %d", failure.N, first,
				p.MissingLines, all.Count, want)
		}
	}
	return fired
}

// TestScanReset goes on with another device.
func TestScanReset(t *testing.T) {
	a, b := openCPU(t, kernels.Config{Poison: true}), openCPU(t, kernels.Config{Poison: true})
	ctx := t.Context()
	set := mustSet(t, Region{Rings: []Ring{rectangle(0, 0, 8, 10)}})
	scan, err := set.NewScanner(ctx, a, ScanConfig{Width: 8, Format: driver.Gray8, PartLines: 10, MaxParts: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer scan.Close()
	take := func(line int) []*ScannedPart {
		t.Helper()
		parts, err := scan.Strip(ctx,
			ScanStrip{FirstLine: uint64(line), Frame: noise(8, 5, driver.Gray8), Settled: uint64(line + 5)})
		if err != nil {
			t.Fatal(err)
		}
		return parts
	}
	for i := range 2 {
		if err := scan.Start(uint64(i), uint64(10*i)); err != nil {
			t.Fatal(err)
		}
	}
	take(0)
	if err := scan.Reset(ctx, b); err != nil {
		t.Fatal(err)
	}
	if n := a.Memory().Used; n != 0 {
		t.Errorf("%d bytes in use on the device that was left", n)
	}
	if p := take(5); len(p) != 1 || p[0].MissingLines != 5 || p[0].Result.Regions[0].Count != 40 {
		t.Errorf("%+v", p)
	}
	take(10)
	if p := take(15); len(p) != 1 || p[0].MissingLines != 0 || p[0].Result.Regions[0].Count != 80 {
		t.Errorf("%+v", p)
	}
	gone, err := kernels.Open(cpu.Driver, kernels.Config{MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	if err := scan.Reset(ctx, gone); !errors.Is(err, kernels.ErrClosed) {
		t.Errorf("a device that is closed: %v", err)
	}
	if _, err := scan.Strip(ctx, ScanStrip{FirstLine: 20, Frame: noise(8, 5, driver.Gray8)}); !errors.Is(err,
		ErrClosed) {
		t.Errorf("without a device: %v", err)
	}
}

// TestLineSet compares with a set of numbers.
func TestLineSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s lineSet
		var want [40]bool
		for range rapid.IntRange(1, 12).Draw(t, "ops") {
			from := rapid.IntRange(0, 39).Draw(t, "from")
			to := rapid.IntRange(0, 40).Draw(t, "to")
			add := rapid.Bool().Draw(t, "add")
			any, all := false, true
			for i := from; i < to; i++ {
				any, all = any || want[i], all && want[i]
			}
			if s.overlaps(from, to) != any || s.contains(from, to) != all {
				t.Fatalf("%v: [%d, %d): overlaps %v, contains %v", s, from, to, s.overlaps(from, to),
					s.contains(from, to))
			}
			for i := from; i < to; i++ {
				want[i] = add
			}
			if add {
				s.add(from, to)
			} else {
				s.subtract(from, to)
			}
			n := 0
			for i, in := range want {
				if in {
					n++
				}
				if s.contains(i, i+1) != in {
					t.Fatalf("%v: line %d is %v", s, i, in)
				}
			}
			for i := range s {
				if s[i].from >= s[i].to || i > 0 && s[i-1].to >= s[i].from {
					t.Fatalf("%v is not in order", s)
				}
			}
			if s.size() != n || s.common(s) != n ||
				s.common(lineSet{{5, 9}, {12, 40}}) != n-s.sizeIn(0, 5)-s.sizeIn(9, 12) {
				t.Fatalf("%v has %d lines, want %d", s, s.size(), n)
			}
		}
	})
}

// sizeIn is the number of lines in [from, to), the slow way.
func (s lineSet) sizeIn(from, to int) (n int) {
	for i := from; i < to; i++ {
		if s.contains(i, i+1) {
			n++
		}
	}
	return n
}
