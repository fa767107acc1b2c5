package main

import (
	"errors"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/polygon"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// pixelsBelt is a belt of one picture of random samples.
func pixelsBelt(format polyscanv1.PixelFormat, width, rows int, seed uint64) *belt {
	b := &belt{width: width, format: format}
	r := rand.New(rand.NewPCG(seed, 0))
	p := picture{rows: rows, pix: make([]byte, rows*b.rowBytes())}
	for i := range p.pix {
		p.pix[i] = byte(r.Uint32())
		if r.IntN(3) == 0 {
			p.pix[i] &= 3 // values that come often
		}
	}
	b.pictures = []picture{p}
	b.at = func(line uint64) stretch {
		row := int(line % uint64(rows))
		return stretch{0, row, rows - row}
	}
	return b
}

var formats = []struct {
	proto  polyscanv1.PixelFormat
	driver driver.PixelFormat
}{{clients.Gray8, driver.Gray8}, {clients.Gray16LE, driver.Gray16(16)}, {clients.RGB8, driver.RGB8},
	{clients.BGR8, driver.BGR8}, {clients.RGBA8, driver.RGBA8}}

var limitQuantities = []string{"count", "area", "coverage", "sum", "mean", "variance", "stddev", "min", "max", "median",
	"mode", "distinct",
	"p0", "p12.5", "p50", "p99.9", "p100", "count of pixels below 40", "Count of Pixels above 7",
	"count of pixels in (3, 100]", "count of pixels in [0,2e1]"}

// TestOracle compares the oracle with package polygon: neither knows how the other finds pixels or holds limits.
func TestOracle(t *testing.T) {
	dev, err := kernels.Open(cpu.New(cpu.Options{}), kernels.Config{MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		f := formats[rapid.IntRange(0, len(formats)-1).Draw(t, "format")]
		width, rows := rapid.IntRange(1, 20).Draw(t, "width"), rapid.IntRange(1, 12).Draw(t, "rows")
		b := pixelsBelt(f.proto, width, rows, rapid.Uint64().Draw(t, "pixels"))
		coordinate := rapid.Map(rapid.IntRange(-8*256, 28*256), func(v int) float64 {
			if v%3 == 0 {
				v = v / 128 * 128 // on pixel centres and corners, where ties are
			}
			return float64(v) / 256
		})
		var regions []*polyscanv1.Region
		var same []polygon.Region
		for i := range rapid.IntRange(1, 3).Draw(t, "regions") {
			g := &polyscanv1.Region{Name: fmt.Sprint(i), FillRule: polyscanv1.FillRule_FILL_RULE_NON_ZERO}
			s := polygon.Region{Name: g.Name, Fill: polygon.NonZero}
			if rapid.Bool().Draw(t, "even-odd") {
				g.FillRule, s.Fill = polyscanv1.FillRule_FILL_RULE_EVEN_ODD, polygon.EvenOdd
			}
			for range rapid.IntRange(1, 3).Draw(t, "rings") {
				xy := rapid.SliceOfN(coordinate, 6, 14).Draw(t, "xy")
				xy = xy[:len(xy)/2*2]
				g.Rings = append(g.Rings, &polyscanv1.Ring{Xy: xy})
				var ring polygon.Ring
				for k := 0; k < len(xy); k += 2 {
					ring = append(ring, polygon.Point{X: xy[k], Y: xy[k+1]})
				}
				s.Rings = append(s.Rings, ring)
			}
			for range rapid.IntRange(0, 2).Draw(t, "limits") {
				q := rapid.SampledFrom(limitQuantities).Draw(t, "quantity")
				op := rapid.SampledFrom([]string{"<", "<=", ">", ">=", "==", "!=", "in [", "in ("}).Draw(t, "op")
				v := rapid.SampledFrom([]float64{0, 1, 2, 3, 7.5, 40, 128, 255, 1000}).Draw(t, "bound")
				text := fmt.Sprintf("%s %s %v", q, op, v)
				if strings.HasPrefix(op, "in") {
					text += fmt.Sprintf(", %v]", v+100)
				}
				g.Limits, s.Limits = append(g.Limits, text), append(s.Limits, text)
			}
			regions, same = append(regions, g), append(same, s)
		}
		frame := kernels.Picture{Width: width, Height: rows, Format: f.driver, Data: [][]byte{b.pictures[0].pix}}
		res := reduceWhatCanFail(t, dev, same, frame)
		for i := range same {
			regions[i].Limits = same[i].Limits
		}
		o, err := newOracle(b, rows, regions)
		if err != nil {
			t.Fatal(err)
		}
		part := &polyscanv1.PartResult{Verdict: polyscanv1.Verdict(res.Verdict)}
		for i, g := range res.Regions {
			m := &polyscanv1.RegionResult{Index: uint32(i), Name: g.Name, Count: g.Count,
				Verdict: polyscanv1.Verdict(g.Verdict)}
			for k, c := range g.Channels {
				want := o.part(0, nil)[i].channels[k].channel
				s := &polyscanv1.ChannelStatistics{Channel: want, Count: &c.Count, Sum: &c.Sum,
					SumOfSquares: &c.SumOfSquares}
				if c.Count > 0 {
					s.Mean, s.Variance, s.Stddev, s.Min, s.Max = &c.Mean, &c.Variance, &c.StdDev, &c.Min, &c.Max
					s.MinAt = &polyscanv1.PixelPosition{X: uint32(c.MinAt.X), Y: uint32(c.MinAt.Y)}
					s.MaxAt = &polyscanv1.PixelPosition{X: uint32(c.MaxAt.X), Y: uint32(c.MaxAt.Y)}
				}
				m.Channels = append(m.Channels, s)
			}
			part.Regions = append(part.Regions, m)
		}
		if text := o.compare(o.part(0, nil), part); text != "" {
			t.Fatalf("%s\n%v", text, res.Regions)
		}
		// A comparison that can't fail is none.
		for what, spoil := range spoilers(part) {
			wrong := proto.CloneOf(part)
			if spoil(wrong); o.compare(o.part(0, nil), wrong) == "" {
				t.Errorf("%s: not noticed", what)
			}
		}
		// Without the last row, as if it had been lost: what a picture without it would be, where rows are lost below.
		missing := make([]bool, rows)
		missing[rows-1] = true
		short := *b
		short.pictures = []picture{{rows: rows, pix: b.pictures[0].pix}}
		less, err := newOracle(&short, rows-1, regions)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range less.part(0, nil) {
			got := o.part(0, missing)[i]
			if got.count != want.count || fmt.Sprint(got.channels) != fmt.Sprint(want.channels) {
				t.Fatalf("region %d without the last row: %v, want %v", i, got, want)
			}
		}
	})
}

// spoilers change a result in one place each.
func spoilers(p *polyscanv1.PartResult) map[string]func(*polyscanv1.PartResult) {
	out := map[string]func(*polyscanv1.PartResult){
		"verdict": func(p *polyscanv1.PartResult) { p.Verdict = (p.Verdict + 1) % 3 },
		"region's verdict": func(p *polyscanv1.PartResult) {
			p.Regions[0].Verdict = (p.Regions[0].Verdict + 1) % 3
		},
		"count":         func(p *polyscanv1.PartResult) { p.Regions[0].Count++ },
		"name":          func(p *polyscanv1.PartResult) { p.Regions[0].Name = "x" },
		"region":        func(p *polyscanv1.PartResult) { p.Regions = p.Regions[1:] },
		"channel":       func(p *polyscanv1.PartResult) { p.Regions[0].Channels = p.Regions[0].Channels[1:] },
		"channel count": func(p *polyscanv1.PartResult) { *p.Regions[0].Channels[0].Count++ },
		"sum":           func(p *polyscanv1.PartResult) { *p.Regions[0].Channels[0].Sum++ },
		"no sum":        func(p *polyscanv1.PartResult) { p.Regions[0].Channels[0].Sum = nil },
		"squares":       func(p *polyscanv1.PartResult) { *p.Regions[0].Channels[0].SumOfSquares++ },
	}
	if p.GetRegions()[0].GetCount() > 0 {
		out["mean"] = func(p *polyscanv1.PartResult) {
			*p.Regions[0].Channels[0].Mean += 1e-9 * (1 + *p.Regions[0].Channels[0].Mean)
		}
		out["min"] = func(p *polyscanv1.PartResult) { *p.Regions[0].Channels[0].Min++ }
		out["max"] = func(p *polyscanv1.PartResult) { *p.Regions[0].Channels[0].Max++ }
		out["place"] = func(p *polyscanv1.PartResult) { p.Regions[0].Channels[0].MaxAt.X++ }
		out["variance"] = func(p *polyscanv1.PartResult) { *p.Regions[0].Channels[0].Variance += 1 }
		out["stddev"] = func(p *polyscanv1.PartResult) { p.Regions[0].Channels[0].Stddev = nil }
	}
	return out
}

// TestSynthetic: plates have the verdict that they are made to have.
func TestSynthetic(t *testing.T) {
	for _, s := range []synthetic{
		{width: 200, partLines: 60, regions: 12, defects: 0.3, seed: 1},
		{width: 64, partLines: 64, regions: 1, defects: 0.5, seed: 2, gap: 10, jitter: 10},
		{width: 1024, partLines: 100, regions: 50, defects: 0.5, seed: 3, gap: 7},
	} {
		b, err := s.belt()
		if err != nil {
			t.Fatal(err)
		}
		o, err := newOracle(b, s.partLines, s.inspection())
		if err != nil {
			t.Fatal(err)
		}
		wrong, shifts := 0, map[uint64]bool{}
		const parts = 200
		for p := range uint64(parts) {
			first, pic := b.part(p)
			shifts[first-p*s.pitch()] = true
			if r := b.runs(nil, first, s.partLines); len(r) != 1 || r[0] != (stretch{pic, 0, s.partLines}) {
				t.Fatalf("part %d is %v, want picture %d", p, r, pic)
			}
			verdict := polyscanv1.Verdict_VERDICT_PASS
			for _, r := range o.part(first, nil) {
				if r.verdict == polyscanv1.Verdict_VERDICT_FAIL {
					verdict = r.verdict
				}
			}
			if (verdict == polyscanv1.Verdict_VERDICT_FAIL) != b.pictures[pic].wrong {
				t.Errorf("part %d: %v; has a defect: %v", p, verdict, b.pictures[pic].wrong)
			}
			if b.pictures[pic].wrong {
				wrong++
			}
		}
		if share := float64(wrong) / parts; share < s.defects/2 || share > s.defects*1.5 {
			t.Errorf("%.2f of the plates have a defect, want about %.2f", share, s.defects)
		}
		if (len(shifts) > 1) != (s.jitter > 0) {
			t.Errorf("jitter %d: %d different shifts", s.jitter, len(shifts))
		}
		// Lines in one piece and one by one are the same.
		const lines = 500
		whole := make([]byte, lines*s.width)
		b.copy(whole, b.runs(nil, 3, lines))
		for i := range lines {
			one := make([]byte, s.width)
			b.copy(one, b.runs(nil, uint64(3+i), 1))
			if string(one) != string(whole[i*s.width:][:s.width]) {
				t.Fatalf("line %d differs", i)
			}
		}
	}
	if _, err := (synthetic{width: 20, partLines: 20, regions: 50}).belt(); err == nil {
		t.Error("regions of two pixels: no error")
	}
}

// TestRandom pins the generator: recorded runs must be repeatable.
func TestRandom(t *testing.T) {
	const golden = "[775655bc67e299b5 2601a5e5982e898a e220a8397b1dcdaf]"
	if got := []uint64{random(1, 2, 3), random(1, 3, 2), random(0)}; fmt.Sprintf("%x", got) != golden {
		t.Errorf("%x, want %s", got, golden)
	}
	sum := 0.0
	for i := range uint64(10000) {
		sum += share(7, i)
	}
	if sum < 4800 || sum > 5200 {
		t.Errorf("mean %v", sum/10000)
	}
}

func TestFrameBelt(t *testing.T) {
	var said []string
	warn := func(text string) { said = append(said, text) }
	b, err := frameBelt("../../testdata/conveyor", 2, warn)
	if err != nil {
		t.Fatal(err)
	}
	if b.width != 640 || b.format != clients.Gray8 || len(b.pictures) != 12 || b.pictures[0].rows != 400 ||
		b.end != 2*12*400 {
		t.Errorf("%d px %v, %d pictures, %d lines", b.width, b.format, len(b.pictures), b.end)
	}
	if r := b.at(400*13 + 7); r != (stretch{1, 7, 393}) {
		t.Errorf("%v", r)
	}
	dir := t.TempDir()
	if _, err := frameBelt(dir, 1, warn); exitCode(err) != exitUsage {
		t.Errorf("an empty folder: %v", err)
	}
	for i, size := range []image.Rectangle{image.Rect(0, 0, 8, 4), image.Rect(0, 0, 8, 5)} {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.PNG", i)))
		if err != nil {
			t.Fatal(err)
		}
		if err := png.Encode(f, image.NewGray16(size)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := frameBelt(dir, 1, warn); err == nil || !strings.Contains(err.Error(), "1.PNG: 8x5 ") {
		t.Errorf("frames of two sizes: %v", err)
	}
	if len(said) > 0 {
		t.Errorf("%q", said)
	}
	if err := os.Remove(filepath.Join(dir, "1.PNG")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "1.PNG2"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err = frameBelt(dir, 1, warn)
	if err != nil || len(b.pictures) != 1 || len(said) != 1 || !strings.Contains(said[0], "skipped, such as 1.PNG2") {
		t.Errorf("%v, %q", err, said)
	}
}

// TestOracleReads: what it can't check it refuses, and doesn't pass over.
func TestOracleReads(t *testing.T) {
	b := pixelsBelt(clients.Gray8, 8, 8, 0)
	for _, text := range []string{"mean", "mean ~ 3", "kurtosis < 3", "mean in [1 2]", "p < 3",
		"count of pixels near 3 < 4", "mean in 1,2", "x.mean < 3"} {
		g := clients.Polygon("a", 0, 0, 4, 0, 4, 4)
		g.Limits = []string{text}
		if _, err := newOracle(b, 8, []*polyscanv1.Region{g}); err == nil || !strings.Contains(err.Error(), `limit "`) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// reduceWhatCanFail reduces regions without those of their limits that are refused because they can't fail.
func reduceWhatCanFail(t *rapid.T, dev *kernels.Device, regions []polygon.Region, f kernels.Picture) *polygon.Result {
	for {
		set, err := polygon.NewSet(regions, polygon.Bounds{})
		var res *polygon.Result
		if err == nil {
			res, err = polygon.Reduce(t.Context(), dev, set, f, polygon.Reductions{}, 0)
		}
		if err == nil {
			return res
		}
		var invalid *kernels.InvalidError
		var i, k int
		if !errors.As(err, &invalid) {
			t.Fatal(err)
		}
		_, e := fmt.Sscanf(invalid.Violations[0].Path.String(), "regions[%d].limits[%d]", &i, &k)
		if e != nil || !strings.Contains(err.Error(), "can't fail") && !strings.Contains(err.Error(), ": counts ") {
			t.Fatal(err)
		}
		regions[i].Limits = slices.Delete(regions[i].Limits, k, k+1)
	}
}

// TestOracleOfMasks: a mask has the pixels of the squares around its runs.
func TestOracleOfMasks(t *testing.T) {
	runs := []int32{-1, 0, 3, 2, -4, 2, 2, 5, 9, 3, 9, 12, 8, 0, 1}
	mask := &polyscanv1.Region{Name: "m", Mask: &polyscanv1.Mask{Runs: runs}}
	squares := &polyscanv1.Region{Name: "m"}
	for r := runs; len(r) > 0; r = r[3:] {
		y, x0, x1 := float64(r[0]), float64(r[1]), float64(r[2])
		squares.Rings = append(squares.Rings, &polyscanv1.Ring{Xy: []float64{x0, y, x1, y, x1, y + 1, x0, y + 1}})
	}
	got, err := newShape(mask, 10, 8)
	want, err2 := newShape(squares, 10, 8)
	if err != nil || err2 != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v, %v", got, err, want, err2)
	}
}
