package polygon

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// levelFrame has one value everywhere.
func levelFrame(v byte) kernels.Picture {
	f := kernels.Picture{Width: 16, Height: 1, Format: driver.Gray8, Data: [][]byte{make([]byte, 16)}}
	for i := range f.Data[0] {
		f.Data[0][i] = v
	}
	return f
}

// judged is the result of a frame as a part of a stream.
func judged(t testing.TB, dev *kernels.Device, p *Parts, set *Set, number uint64, v byte, out Output) *Result {
	t.Helper()
	out.Later = true
	res, err := Reduce(t.Context(), dev, set, levelFrame(v), Reductions{Output: out}, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	if res.Verdict != Fail {
		t.Errorf("part %d has the verdict %v before it is judged", number, res.Verdict)
	}
	p.Judge(number, res)
	return res.AsRows()
}

func TestLimitsOverParts(t *testing.T) {
	dev := openCPU(t, kernels.Config{MemoryBytes: 1 << 20})
	for _, c := range []struct {
		expr   string
		levels []byte
		value  float64 // of the last part
		parts  int
		reason string
	}{
		{"mean over the last 3 parts of mean == 20", []byte{90, 10, 20, 30}, 20, 3, ""},
		{"mean over last 3 of mean in [0, 19]", []byte{90, 10, 20, 30}, 20, 3, "mean over last 3 of mean 20 is above 19"},
		{"MEAN OVER THE LAST 9 PARTS OF mean < 40", []byte{30, 10, 20}, 20, 3, ""},
		{"mean over the last 9 of mean < 20", []byte{30, 10, 20}, 20, 3, "mean over the last 9 of mean 20 is not below 20 (of 3 parts)"},
		{"slope over the last 4 parts of mean in [-0.5, 0.5]", []byte{200, 10, 12, 14, 16}, 2, 4,
			"slope over the last 4 parts of mean 2 is above 0.5"},
		{"slope over the last 4 parts of mean == 0", []byte{7}, 0, 1, ""},
		{"spread over the last 3 of mean <= 20", []byte{255, 40, 20, 30}, 20, 3, ""},
		{"mean - mean over the last 4 of mean < 15", []byte{10, 10, 10, 50}, 30, 4,
			"mean - mean over the last 4 of mean 30 is above 15"},
		{`spread over the last 2 of "ref".mean + 0 * mean == 5`, []byte{10, 15}, 5, 2, ""},
		{"2 * (slope over the last 3 of mean) == 4", []byte{1, 3, 5}, 4, 3, ""},
		{"count of failed of the last 4 parts <= 1", []byte{10, 250, 10, 20}, 1, 4, ""},
		{"count of failed of the last 4 < 2", []byte{250, 10, 250, 10}, 2, 4, "count of failed of the last 4 2 is not below 2"},
		{"count of failed of last 4 < 2", []byte{250, 250, 250, 250, 10, 10, 10}, 1, 4, ""},
		{"count of failed of the last 1 == 0", []byte{250, 10}, 0, 1, ""},
		{"spread over the last 5 of count < 0.03 mm2", []byte{1, 2}, 0, 2, ""},
		{"mean over the last 5 of max.x == 0.05 mm", []byte{1, 2}, 0.05, 2, ""},
		{"slope over the last 5 of max.x - 1 mm == -1 mm", []byte{1, 2}, -1, 2, ""},
	} {
		set, err := NewSetInPieces(between4("mean < 240", c.expr), &Scale{X: 0.1, Y: 0.1}, Bounds{}, nil)
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
			continue
		}
		for _, out := range []Output{{}, {Columns: true}, {Columns: true, Failed: true}, {Failed: true}} {
			p := set.NewParts()
			var res *Result
			for i, v := range c.levels {
				res = judged(t, dev, p, set, 100+uint64(i), v, out)
			}
			if c.reason == "" {
				if out.Failed != (len(res.Regions) == 0) || res.Verdict != Pass {
					t.Errorf("%s: %+v: %v, %d regions", c.expr, out, res.Verdict, len(res.Regions))
				}
				if out.Failed {
					continue
				}
			}
			l := res.Regions[0].Limits[1]
			if l.Reason != c.reason || (l.Verdict == Pass) != (c.reason == "") || l.Value != c.value || l.Parts != c.parts ||
				res.Verdict != l.Verdict || res.Regions[0].Verdict != l.Verdict || res.Regions[0].Limits[0].Parts != 0 {
				t.Errorf("%s: %+v: %+v, want %v of %d, %q", c.expr, out, l, c.value, c.parts, c.reason)
			}
		}
	}
}

func TestBadLimitsOverParts(t *testing.T) {
	for expr, want := range map[string]string{
		"mean over last 0 of mean < 3":             "column 16: the last 0 parts tell nothing",
		"slope over last 1 of mean < 3":            "column 17: the last 1 parts tell nothing",
		"mean over last 1001 of mean < 3":          "column 16: expected a whole number up to 1000",
		"mean over 5 of mean < 3":                  `column 11: expected "last", found "5"`,
		"mean over last 5 mean < 3":                `column 18: expected "of", found "mean"`,
		"mean over last 5 of < 3":                  "column 21: expected a quantity",
		"slope over last 5 of ks < 3":              "can't be part of an expression",
		"slope of mean < 3":                        "column 1: expected a quantity",
		"count of failed < 3":                      `column 17: expected "of", found "<"`,
		"count of failed of the last < 3":          "column 29: expected a whole number",
		"count of failed of the last 0 < 3":        "column 29: the last 0 parts tell nothing",
		"count of failed of the last 5 < 3 mm2":    "column 35: mm² is no unit of count of failed of the last 5",
		"slope over last 5 of mean < 3 mm":         "column 31: mm is no unit of",
		`spread over last 5 of "pad*".mean < 3`:    "is a group of regions",
		`largest of slope over last 5 of mean < 3`: "expected a group of regions",
	} {
		_, err := NewSetInPieces(between4(expr), &Scale{X: 1, Y: 1}, Bounds{}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", expr, err, want)
		}
	}
	// What streams remember is bounded.
	many := make([]Region, 200)
	for i := range many {
		many[i] = Region{Name: fmt.Sprint(i), Rings: box4(0), Limits: []string{"slope over the last 1000 of mean < 3"}}
	}
	if _, err := NewSet(many, Bounds{}); err == nil || !strings.Contains(err.Error(), "limits over parts remember more than 1048576 numbers") {
		t.Errorf("%v", err)
	}
	set, err := NewSet(many[:170], Bounds{})
	if err != nil || set.NewParts().Bytes() < 1<<20 || set.NewParts().Bytes() > 16<<20 {
		t.Errorf("%v", err)
	}
	if p := mustSet(t, between4("mean < 3")...).NewParts(); p != nil || p.Bytes() != 0 {
		t.Error("parts are remembered for no limit")
	}
}

// A frame alone has no parts before it: the limit fails and says so, and others are as ever.
func TestLimitsOverPartsAlone(t *testing.T) {
	dev := openCPU(t, kernels.Config{MemoryBytes: 1 << 20})
	set := mustSet(t, between4("mean < 240", "slope over the last 9 of mean < 3")...)
	for _, out := range []Output{{}, {Columns: true}, {Columns: true, Failed: true}} {
		res, err := Reduce(t.Context(), dev, set, levelFrame(1), Reductions{Output: out}, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		res = res.AsRows()
		l := res.Regions[0].Limits
		if res.Verdict != Fail || l[0].Verdict != Pass || l[1].Verdict != Fail || l[1].Measured || l[1].Parts != 0 ||
			l[1].Reason != "slope over the last 9 of mean: it is of the last parts of a stream, and this is a frame alone" {
			t.Errorf("%+v: %v, %+v", out, res.Verdict, l)
		}
	}
}

// Parts that are missing, have no result or no value, and parts that come late.
func TestPartsThatAreMissing(t *testing.T) {
	dev := openCPU(t, kernels.Config{MemoryBytes: 1 << 20})
	set := mustSet(t, between4("mean < 240", "count of failed of the last 5 < 5", "mean over the last 5 of mean < 250",
		"slope over the last 5 of mean < 250")...)
	p := set.NewParts()
	see := func(number uint64, v byte, failed, mean, slope float64, failedOf, meanOf int) {
		t.Helper()
		l := judged(t, dev, p, set, number, v, Output{}).Regions[0].Limits
		if l[1].Value != failed || l[1].Parts != failedOf || l[2].Value != mean || l[2].Parts != meanOf ||
			math.Abs(l[3].Value-slope) > 1e-12 || l[3].Parts != meanOf {
			t.Errorf("part %d: %+v, want %v of %d, %v and %v of %d", number, l, failed, failedOf, mean, slope, meanOf)
		}
	}
	see(7, 10, 0, 10, 0, 1, 1)
	see(8, 20, 0, 15, 10, 2, 2)
	p.Judge(9, nil)                 // an error
	see(11, 50, 2, 80./3, 10, 5, 3) // 10 never came: it failed, and 9 has; the slope goes by numbers
	see(10, 30, 1, 20, 45./7, 4, 3) // late: by those before it
	see(12, 60, 1, 40, 72./7, 5, 4) // and it counts from now on
	see(12, 60, 1, 40, 72./7, 5, 4) // once, whoever asks again
	see(1000, 5, 4, 5, 0, 5, 1)
	see(13, 5, 4, 5, 0, 5, 1) // long ago: those before it are forgotten, and count as failed
}

// Values over parts against exact arithmetic on all that came, for random streams with gaps and errors.
func TestPartsProperty(t *testing.T) {
	dev := openCPU(t, kernels.Config{MemoryBytes: 1 << 20})
	rng := seed.New(t, 18, 22)
	set := mustSet(t, between4("mean < 200", "mean over the last 6 of mean > 1", "slope over the last 4 of mean > -99",
		"spread over the last 7 of mean > 1", "count of failed of the last 5 > 1")...)
	for range 40 {
		p := set.NewParts()
		type past struct {
			v      int64
			failed bool
		}
		came := map[uint64]past{}
		number := uint64(1000)
		first := number
		for range 40 {
			if rng.IntN(8) == 0 {
				number += uint64(rng.IntN(4))
			}
			if len(came) == 0 {
				first = number
			}
			if rng.IntN(9) == 0 {
				p.Judge(number, nil)
				came[number] = past{-1, true}
				number++
				continue
			}
			v := byte(rng.IntN(256))
			came[number] = past{int64(v), v >= 200}
			l := judged(t, dev, p, set, number, v, Output{Columns: rng.IntN(2) == 0}).Regions[0].Limits
			window := func(n uint64) (numbers []uint64, from uint64) {
				from = max(first, number+1-n)
				for k := from; k <= number; k++ {
					if q, ok := came[k]; ok && q.v >= 0 {
						numbers = append(numbers, k)
					}
				}
				return numbers, from
			}
			in6, _ := window(6)
			total := int64(0)
			for _, k := range in6 {
				total += came[k].v
			}
			if want := nearest(big.NewRat(total, int64(len(in6)))); l[1].Value != want || l[1].Parts != len(in6) {
				t.Fatalf("part %d: mean %v of %d, want %v of %d", number, l[1].Value, l[1].Parts, want, len(in6))
			}
			in4, _ := window(4)
			var n, sx, sv, sxx, sxv int64
			for _, k := range in4 {
				x := int64(k - first)
				n, sx, sv, sxx, sxv = n+1, sx+x, sv+came[k].v, sxx+x*x, sxv+x*came[k].v
			}
			want := 0.0
			if n > 1 {
				want = nearest(big.NewRat(n*sxv-sx*sv, n*sxx-sx*sx))
			}
			if math.Abs(l[2].Value-want) > 1e-12 || l[2].Parts != int(n) {
				t.Fatalf("part %d: slope %v of %d, want %v of %d", number, l[2].Value, l[2].Parts, want, n)
			}
			in7, _ := window(7)
			var values []int64
			for _, k := range in7 {
				values = append(values, came[k].v)
			}
			if want := float64(slices.Max(values) - slices.Min(values)); l[3].Value != want || l[3].Parts != len(in7) {
				t.Fatalf("part %d: spread %v of %d, want %v of %d", number, l[3].Value, l[3].Parts, want, len(in7))
			}
			_, from := window(5)
			failed := 0
			for k := from; k <= number; k++ {
				if q, ok := came[k]; !ok || q.failed {
					failed++
				}
			}
			if l[4].Value != float64(failed) || l[4].Parts != int(number-from)+1 {
				t.Fatalf("part %d: %v failed of %d, want %d of %d", number, l[4].Value, l[4].Parts, failed, number-from+1)
			}
			number++
		}
	}
}

// A scanner remembers its parts: those that lack lines have failed and give no value, whatever came of them, and what
// is remembered outlives the device.
func TestScanOverParts(t *testing.T) {
	dev := openCPU(t, kernels.Config{MemoryBytes: 1 << 20})
	set := mustSet(t, Region{Name: "a", Rings: []Ring{rectangle(0, 0, 4, 2)}, Limits: []string{"mean < 200",
		"mean over the last 4 parts of mean <= 30", "count of failed of the last 4 parts <= 1"}})
	scan, err := set.NewScanner(t.Context(), dev, ScanConfig{Width: 4, Format: driver.Gray8, PartLines: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer scan.Close()
	line := uint64(0)
	part := func(number uint64, v byte, lines int) []LimitResult {
		t.Helper()
		if err := scan.Start(number, line); err != nil {
			t.Fatal(err)
		}
		f := kernels.Picture{Width: 4, Height: lines, Format: driver.Gray8, Data: [][]byte{make([]byte, 4*lines)}}
		for i := range f.Data[0] {
			f.Data[0][i] = v
		}
		parts, err := scan.Strip(t.Context(), ScanStrip{FirstLine: line, Frame: f})
		if err != nil {
			t.Fatal(err)
		}
		line += 2
		if len(parts) == 0 {
			if parts, err = scan.Settle(t.Context(), line); err != nil {
				t.Fatal(err)
			}
		}
		if len(parts) != 1 || parts[0].Err != nil {
			t.Fatalf("%+v", parts)
		}
		return parts[0].Result.Regions[0].Limits
	}
	want := func(l []LimitResult, mean, failed float64, parts int, pass bool) {
		t.Helper()
		if l[1].Value != mean || l[2].Value != failed || l[1].Parts != parts || (l[1].Verdict == Pass) != pass {
			t.Errorf("%+v, want %v of %d, %v failed", l, mean, parts, failed)
		}
	}
	want(part(0, 10, 2), 10, 0, 1, true)
	want(part(1, 20, 2), 15, 0, 2, true)
	if l := part(2, 30, 1); l[1].Verdict != Fail || l[2].Verdict != Fail ||
		!strings.Contains(l[1].Reason, "1 of the region's 2 lines did not come") || l[2].Value != 1 {
		t.Errorf("a part that lacks a line: %+v", l)
	}
	scan.Detach()
	if err := scan.Reset(t.Context(), dev); err != nil {
		t.Fatal(err)
	}
	want(part(3, 60, 2), 30, 1, 3, true)
	want(part(4, 100, 2), 60, 1, 3, false)
	want(part(6, 0, 2), 160./3, 1, 3, false)
}

func FuzzOverParts(f *testing.F) {
	for _, s := range []string{"slope over the last 4 parts of mean in [-0.5, 0.5]", "count of failed of the last 4 < 2",
		`mean - mean over last 3 of "ref".mean < 4`} {
		f.Add(s, uint64(7), uint64(9))
	}
	dev := openCPU(f, kernels.Config{MemoryBytes: 1 << 20})
	f.Fuzz(func(t *testing.T, expr string, a, b uint64) {
		set, err := NewSet(between4(expr), Bounds{})
		if err != nil {
			return
		}
		p := set.NewParts()
		for i, number := range []uint64{a, b, a + 1, b} {
			res, err := Reduce(t.Context(), dev, set, levelFrame(byte(60*i)), Reductions{Output: Output{Later: true}}, driver.MethodDefault)
			if err != nil {
				return
			}
			p.Judge(number, res)
			l := res.Regions[0].Limits[0]
			if l.Verdict != Pass && l.Reason == "" || l.Verdict == NoVerdict || math.IsNaN(l.Value) || l.Expression != expr ||
				res.Verdict != l.Verdict {
				t.Errorf("%q: %+v", expr, l)
			}
		}
	})
}

// TestFailedOfNone: failed parts are counted where another limit can fail one, and else the limit is an error.
func TestFailedOfNone(t *testing.T) {
	const failed = "count of failed of the last 5 parts"
	for _, c := range []struct {
		limits []string
		taken  bool
	}{
		{[]string{failed + " <= 2"}, false},
		{[]string{failed + " - mean over the last 3 of mean < 2"}, false},
		{[]string{failed + " <= 2", "mean over the last 3 of mean < 200", "coverage >= 0"}, false},
		{[]string{failed + " <= 2", "coverage >= 0.5"}, true},
		{[]string{failed + " <= 2", "mean < 200"}, true},
	} {
		_, err := NewSet([]Region{{Name: "a", Rings: []Ring{rectangle(0, 0, 4, 4)}, Limits: c.limits}}, Bounds{})
		if c.taken != (err == nil) || err != nil &&
			!strings.Contains(err.Error(), "count of failed counts nothing: the regions have no limit that can fail, ") {
			t.Errorf("%q: %v", c.limits, err)
		}
	}
	if _, err := NewSet([]Region{{Name: "a", Rings: []Ring{rectangle(0, 0, 4, 4)}, Limits: []string{failed + " <= 2"}},
		{Name: "b", Rings: []Ring{rectangle(0, 0, 4, 4)}, Limits: []string{"mean < 200"}}}, Bounds{}); err != nil {
		t.Errorf("a limit of another region fails parts, too: %v", err)
	}
}
