package polygon

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// derivativeValues are the values of a derivative inside a box of pixels, of samples and rounded to bins.
func derivativeValues(f kernels.Picture, c Channel, k coding, box [4]int) (exactly, bins []float64) {
	p := devicetest.Picture{Width: f.Width, Height: f.Height, Stride: f.Width * f.Format.PixelBytes(), Format: f.Format,
		Pixels: f.Data[0]}
	all, laplacian := p.Derivatives()
	if c == Laplacian {
		all = laplacian
	}
	for y := box[1]; y < box[3]; y++ {
		for x := box[0]; x < box[2]; x++ {
			v := float64(all[y*f.Width+x])
			exactly = append(exactly, (v-float64(k.zero))*k.step)
			size := float64(int(1) << k.shift)
			bin := min(math.Floor(v/size+0.5), float64(f.Format.Levels()-1))
			bins = append(bins, (bin*size-float64(k.zero))*k.step)
		}
	}
	return exactly, bins
}

// TestDerivatives compares all statistics of derivatives with what their definitions say, in rows and in columns, of
// regions at the borders of frames and inside, beside colours and alone.
func TestDerivatives(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	g := rand.New(rand.NewPCG(5, 6))
	for _, format := range []kernels.PixelFormat{kernels.Gray8, kernels.RGB8, kernels.RGBA8, driver.Gray16(10),
		driver.Gray16(12), driver.Gray16(14), driver.Gray16(16)} {
		f := colorFrame(g, 61, 40, format)
		for i := 1; format.SampleBytes == 2 && i < len(f.Data[0]); i += 2 {
			f.Data[0][i] &= byte(format.Levels()>>8 - 1)
		}
		boxes := [][4]int{{0, 0, 61, 40}, {3, 12, 58, 30}, {60, 39, 61, 40}}
		regions := []Region{colorBox("nothing", 70, 70, 80, 80)}
		for i, b := range boxes {
			regions = append(regions, colorBox(fmt.Sprint(i), float64(b[0]), float64(b[1]), float64(b[2]), float64(b[3])))
		}
		for _, only := range [][]Region{regions, {regions[0], regions[2]}} { // the second needs rows of the middle
			set, err := NewSet(only, Bounds{})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range []Reductions{
				{Derivatives: []Channel{Laplacian, Gradient, Laplacian}},
				{Derivatives: []Channel{Laplacian}, Histogram: HistogramSpec{Bins: 16}},
				{Derivatives: []Channel{Laplacian, Gradient, Laplacian}, Histogram: HistogramSpec{Bins: 10, Lower: -20, Upper: 60},
					Colors: Colors{Spaces: ColorLab}},
			} {
				if format.Channels < 3 {
					r.Colors = Colors{}
				}
				r.Statistics, r.Percentiles = AllStatistics&^Distances, []float64{5, 50, 99}
				checkDerivatives(t, dev, set, f, r, boxes)
			}
		}
	}
}

func checkDerivatives(t *testing.T, dev *kernels.Device, set *Set, f kernels.Picture, r Reductions, boxes [][4]int) {
	t.Helper()
	res, err := Reduce(context.Background(), dev, set, f, r, MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPlan(set, f, r)
	if err != nil {
		t.Fatal(err)
	}
	plain := r
	plain.Derivatives = nil
	without, err := Reduce(context.Background(), dev, set, f, plain, MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	first := len(p.channels) - p.slopes
	for i, got := range res.Regions {
		for c, at := range without.Regions[i].Channels {
			if !reflect.DeepEqual(got.Channels[c], at) {
				t.Errorf("%v: %v beside derivatives is\n%+v\nwithout\n%+v", f.Format, at.Channel, got.Channels[c], at)
			}
		}
		if len(got.Channels) != set.Channels(&r, f.Format) {
			t.Errorf("%v: %d channels, want %d", f.Format, len(got.Channels), set.Channels(&r, f.Format))
		}
		var box [4]int
		if _, err := fmt.Sscan(got.Name, new(int)); err != nil {
			if got.Channels[first].Count != 0 {
				t.Errorf("%v: %d pixels where there are none", f.Format, got.Channels[first].Count)
			}
			continue
		}
		box = boxes[got.Name[0]-'0']
		for c := first; c < len(got.Channels); c++ {
			k, at := p.codings[c], &got.Channels[c]
			all, bins := derivativeValues(f, at.Channel, k, box)
			checkColor(t, fmt.Sprintf("%v, region %s, %v", f.Format, got.Name, at.Channel), at, k, all, bins, r.Histogram)
		}
	}
	r.Output.Columns = true
	columns, err := Reduce(context.Background(), dev, set, f, r, MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range columns.AsRows().Regions {
		for c := range row.Channels {
			if a, b := row.Channels[c], res.Regions[i].Channels[c]; !reflect.DeepEqual(a, b) {
				t.Errorf("%v, region %d: columns make\n%+v\nof\n%+v", f.Format, i, a, b)
			}
		}
	}
}

// Limits ask for the derivatives that they name, of regions in any number of batches.
func TestDerivativesOfLimits(t *testing.T) {
	dev := openCPU(t, kernels.Config{MemoryBytes: 16 << 20})
	g := rand.New(rand.NewPCG(7, 8))
	f := colorFrame(g, 64, 48, kernels.Gray8)
	for y := range 48 { // sharp on the left, flat on the right
		for x := 32; x < 64; x++ {
			f.Data[0][64*y+x] = 100
		}
	}
	var regions []Region
	for i := range 300 {
		x := float64(i % 2 * 34)
		regions = append(regions, colorBox(fmt.Sprint(i), x, float64(13+i%20), x+30, float64(22+i%20),
			"laplacian.variance > 4", "gradient.p90 - gradient.median >= 0.25"))
	}
	set, err := NewSet(regions, Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := set.Prepare(context.Background(), dev, 64, 48, MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	defer prepared.Close()
	for range 2 {
		res, err := prepared.Reduce(context.Background(), f, Reductions{Statistics: Histogram})
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range res.Regions {
			if want := [2]Verdict{Pass, Fail}[i%2]; r.Verdict != want {
				t.Errorf("region %d: %v, want %v: %+v", i, r.Verdict, want, r.Limits)
			}
		}
	}
}

func TestDerivativesRefused(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	for limit, why := range map[string]string{
		"gradient.mean < 200":                   "can't fail",
		"laplacian.mean in [-2000, 2000]":       "can't fail",
		"laplacian.weighted.x < 3":              "it is no weight",
		"gradient.contrast(1,0) < 3":            "frame's own channels",
		"gradient.covered.mean < 3":             "frame's own channels",
		"gradient.sharpness < 3":                "expected a quantity",
		"gradient.mean - laplacian.count > 100": "is of the region",
	} {
		set, err := NewSet([]Region{colorBox("a", 0, 0, 9, 9, limit)}, Bounds{})
		if err == nil {
			_, err = Reduce(context.Background(), dev, set, colorFrame(rand.New(rand.NewPCG(1, 2)), 20, 20, kernels.Gray8),
				Reductions{}, MethodDefault)
		}
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", limit, err, why)
		}
	}
	set, err := NewSet([]Region{colorBox("a", 0, 0, 9, 9), colorBox("b", 0, 0, 9, 9, "gradient.mean + mean > 3")}, Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	scan := func(s *Set, r Reductions) error {
		c, err := s.NewScanner(context.Background(), dev, ScanConfig{Width: 20, PartLines: 20, Format: kernels.Gray8,
			Reductions: r})
		if err == nil {
			c.Close()
		}
		return err
	}
	var bad *kernels.InvalidError
	if err := scan(set, Reductions{}); !errors.As(err, &bad) || !strings.Contains(err.Error(), "regions[1].limits[0]") ||
		!strings.Contains(err.Error(), "above and below") {
		t.Errorf("a line-scan with a limit: %v", err)
	}
	plain, err := NewSet([]Region{colorBox("a", 0, 0, 9, 9)}, Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	if err := scan(plain, Reductions{Derivatives: []Channel{Gradient}}); !errors.As(err, &bad) ||
		!strings.Contains(err.Error(), "reductions.derivatives") {
		t.Errorf("a line-scan: %v", err)
	}
	if err := scan(plain, Reductions{}); err != nil {
		t.Errorf("a line-scan without: %v", err)
	}
	f := colorFrame(rand.New(rand.NewPCG(1, 2)), 20, 20, kernels.Gray8)
	if _, err := Reduce(context.Background(), dev, plain, f, Reductions{Derivatives: []Channel{Hue}}, MethodDefault); err == nil ||
		!strings.Contains(err.Error(), "reductions.derivatives[0]") {
		t.Errorf("an unknown derivative: %v", err)
	}
}
