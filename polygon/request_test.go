package polygon

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// violationsOf lists the violations of an error.
func violationsOf(t *testing.T, err error) (list []string) {
	t.Helper()
	var bad *kernels.InvalidError
	if !errors.As(err, &bad) {
		t.Fatalf("error %v is no InvalidError", err)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q has several lines", err)
	}
	for _, v := range bad.Violations {
		list = append(list, v.String())
	}
	return list
}

func pieces(n ...int) (p [][]byte) {
	for _, k := range n {
		p = append(p, make([]byte, k))
	}
	return p
}

func TestBadRequests(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	s := mustSet(t, Region{Rings: []Ring{triangle}})
	kept, err := kernels.AllocPersistent[byte](dev, 12, "frame")
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Free()
	good := kernels.Picture{Width: 4, Height: 3, Format: driver.Gray8, Data: pieces(12)}
	frame := func(change func(*kernels.Picture)) kernels.Picture {
		f := good
		change(&f)
		return f
	}
	for _, c := range []struct {
		name   string
		frame  kernels.Picture
		r      Reductions
		method driver.Method
		want   []string
	}{
		{"width 0", frame(func(f *kernels.Picture) {
			f.Width = 0
		}), Reductions{}, 0, []string{"frame.width = 0: must be 1 to 1048576"}},
		{"negative", frame(func(f *kernels.Picture) { f.Width, f.Height = -1, -5 }), Reductions{}, 0, []string{
			"frame.width = -1: must be 1 to 1048576", "frame.height = -5: must be 1 to 1048576"}},
		{"too wide", frame(func(f *kernels.Picture) {
			f.Width = 1<<20 + 1
		}), Reductions{}, 0, []string{"frame.width = 1048577: must be 1 to 1048576"}},
		{"too many pixels", frame(func(f *kernels.Picture) { f.Width, f.Height = 1<<20, 513 }), Reductions{}, 0, []string{
			"frame.height = 513: makes 537919488 pixels with a width of 1048576: the limit is 536870912 pixels"}},
		{"stride", frame(func(f *kernels.Picture) { f.Stride = 3 }), Reductions{}, 0, []string{
			"frame.stride = 3: is less than a row of 4 bytes (4 pixels of GRAY8)"}},
		{"stride of colour", frame(func(f *kernels.Picture) { f.Stride, f.Format = 4, driver.BGR8 }), Reductions{}, 0,
			[]string{
				"frame.stride = 4: is less than a row of 12 bytes (4 pixels of BGR8)"}},
		{"negative stride", frame(func(f *kernels.Picture) { f.Stride = -8 }), Reductions{}, 0, []string{
			"frame.stride = -8: is less than a row of 4 bytes (4 pixels of GRAY8)"}},
		{"huge stride", frame(func(f *kernels.Picture) { f.Stride = math.MaxInt }), Reductions{}, 0, []string{
			"frame.stride = 9223372036854775807: must be at most 2147483647"}},
		{"odd stride", frame(func(f *kernels.Picture) { f.Stride, f.Format = 9, driver.Gray16(12) }), Reductions{}, 0,
			[]string{
				"frame.stride = 9: must be even for 16-bit samples"}},
		{"no data", frame(func(f *kernels.Picture) { f.Data = nil }), Reductions{}, 0, []string{
			"frame.data = 0 bytes: must hold 12 bytes: 3 rows of GRAY8 with 4 pixels, 4 bytes apart"}},
		{"short", frame(func(f *kernels.Picture) { f.Data = pieces(5, 6) }), Reductions{}, 0, []string{
			"frame.data = 11 bytes: must hold 12 bytes: 3 rows of GRAY8 with 4 pixels, 4 bytes apart"}},
		{"long", frame(func(f *kernels.Picture) { f.Data = pieces(12, 1) }), Reductions{}, 0, []string{
			"frame.data = 13 bytes: must hold 12 bytes: 3 rows of GRAY8 with 4 pixels, 4 bytes apart"}},
		{"a gap too long", frame(func(f *kernels.Picture) { f.Stride, f.Data = 6, pieces(19) }), Reductions{}, 0, []string{
			"frame.data = 19 bytes: must hold 18 bytes (or 16 without the gap behind the last row): 3 rows of GRAY8 with 4 pixels, 6 bytes apart"}},
		{"resident too short", frame(func(f *kernels.Picture) { f.Resident = kept.Range(0, 11) }), Reductions{}, 0, []string{
			"frame.resident = 11 bytes: must hold 12 bytes: 3 rows of GRAY8 with 4 pixels, 4 bytes apart"}},
		{"16 bits as 8", frame(func(f *kernels.Picture) { f.Data = pieces(24) }), Reductions{}, 0, []string{
			"frame.data = 24 bytes: must hold 12 bytes: 3 rows of GRAY8 with 4 pixels, 4 bytes apart"}},
		{"8 bits as 16", frame(func(f *kernels.Picture) { f.Format = driver.Gray16(12) }), Reductions{}, 0, []string{
			"frame.data = 12 bytes: must hold 24 bytes: 3 rows of GRAY16LE with 12 bits with 4 pixels, 8 bytes apart"}},
		{"no format", frame(func(f *kernels.Picture) {
			f.Format = driver.PixelFormat{}
		}), Reductions{}, 0, []string{"frame.format: must be given"}},
		{"17 bits", frame(func(f *kernels.Picture) {
			f.Format = driver.PixelFormat{Channels: 1, SampleBytes: 2, Bits: 17}
		}), Reductions{}, 0, []string{
			"frame.format = GRAY16LE with 17 bits: 16-bit samples must be of one channel and have 8 to 16 significant bits"}},
		{"no such format", frame(func(f *kernels.Picture) {
			f.Format = driver.PixelFormat{Channels: 5, SampleBytes: 1, Bits: 8}
		}), Reductions{}, 0, []string{
			"frame.format = 5 channels of 1 bytes with 8 bits: is no known pixel format"}},
		{"statistics", good, Reductions{Statistics: 1 << 24}, 0,
			[]string{"reductions.statistics = 0x1000000: are no known statistics"}},
		{"the internal statistic", good, Reductions{Statistics: needDistribution | Count}, 0, []string{
			"reductions.statistics = 0x400000: are no known statistics"}},
		{"percentiles", good, Reductions{Percentiles: []float64{50, -1, 100.5, nan}}, 0, []string{
			"reductions.percentiles[1] = -1: must be 0 to 100", "reductions.percentiles[2] = 100.5: must be 0 to 100",
			"reductions.percentiles[3] = NaN: must be 0 to 100"}},
		{"many percentiles", good, Reductions{Percentiles: make([]float64, 1025)}, 0, []string{
			"reductions.percentiles = 1025: are too many: the limit is 1024"}},
		{"percentile method", good, Reductions{PercentileMethod: 2}, 0, []string{
			"reductions.percentile_method = 2: must be 0 (NEAREST_RANK) or 1 (LINEAR)"}},
		{"bins", good, Reductions{Histogram: HistogramSpec{Bins: 65537}}, 0,
			[]string{"reductions.histogram.bins = 65537: must be 0 to 65536"}},
		{"negative bins", good, Reductions{Histogram: HistogramSpec{Bins: -1}}, 0,
			[]string{"reductions.histogram.bins = -1: must be 0 to 65536"}},
		{"no bins", good, Reductions{Histogram: HistogramSpec{Lower: 1, Upper: 2}}, 0, []string{
			"reductions.histogram.bins = 0: must be 1 to 65536 where lower and upper are given"}},
		{"range", good, Reductions{Histogram: HistogramSpec{Bins: 4, Lower: 2, Upper: 2}}, 0, []string{
			"reductions.histogram.upper = 2: must be above lower, 2"}},
		{"range of NaN", good, Reductions{Histogram: HistogramSpec{Bins: 4, Lower: nan, Upper: inf}}, 0, []string{
			"reductions.histogram.lower = NaN: must be a finite number",
			"reductions.histogram.upper = +Inf: must be a finite number"}},
		{"method", good, Reductions{}, 6, []string{"method = 6: must be 0 to 5"}},
		{"several", frame(func(f *kernels.Picture) {
			f.Width, f.Stride = 0, -1
		}), Reductions{PercentileMethod: 9, Histogram: HistogramSpec{Bins: -1}}, 0, []string{
			"frame.width = 0: must be 1 to 1048576",
			"reductions.percentile_method = 9: must be 0 (NEAREST_RANK) or 1 (LINEAR)",
			"reductions.histogram.bins = -1: must be 0 to 65536"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, err := Reduce(context.Background(), dev, s, c.frame, c.r, c.method)
			if res != nil {
				t.Error("there is a result all the same")
			}
			if got := violationsOf(t, err); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
	if _, err := Reduce(context.Background(), dev, s, good, Reductions{}, driver.MethodDefault); err != nil {
		t.Errorf("the good frame: %v", err)
	}
	for _, f := range []kernels.Picture{
		{Width: 4, Height: 3, Stride: 6, Format: driver.Gray8, Data: pieces(16)},
		{Width: 4, Height: 3, Stride: 6, Format: driver.Gray8, Data: pieces(17)},
		{Width: 4, Height: 3, Stride: 6, Format: driver.Gray8, Data: pieces(0, 1, 0, 17, 0)},
		{Width: 4, Height: 3, Stride: 14, Format: driver.RGB8, Data: pieces(40)},
		{Width: 4, Height: 1, Stride: math.MaxInt32, Format: driver.Gray8, Data: pieces(4)},
	} {
		if _, err := Reduce(context.Background(), dev, s, f, Reductions{}, driver.MethodDefault); err != nil {
			t.Errorf("stride %d: %v", f.Stride, err)
		}
	}
}

// TestFrameCheck: a frame is refused for the same reasons without regions, and its sizes are the bounds of what it
// takes.
func TestFrameCheck(t *testing.T) {
	f := kernels.Picture{Width: 4, Height: 3, Stride: 6, Format: driver.Gray8}
	least, most, err := f.Sizes("frame")
	if least != 16 || most != 18 || err != nil {
		t.Errorf("%d to %d bytes, %v", least, most, err)
	}
	for n := range 21 {
		f.Data = pieces(n)
		if err := f.Check("frame"); (err == nil) != (n >= 16 && n <= 18) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	f.Stride = 3
	want := "kernels: frame.stride = 3: is less than a row of 4 bytes (4 pixels of GRAY8)"
	if err := f.Check("frame"); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	if _, _, err := f.Sizes("frame"); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

func TestResultsAreBounded(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	s := mustSet(t, manyRegions(3000, 3, 100, 100)...)
	f := noise(100, 100, driver.Gray8)
	_, err := Reduce(context.Background(), dev, s, f,
		Reductions{Statistics: Histogram, Histogram: HistogramSpec{Bins: 65536}}, driver.MethodDefault)
	if got, want := violationsOf(t, err), []string{
		"reductions.histogram.bins = 65536: makes 196608000 counts for 3000 regions of 1 channels: the limit is " +
			"134217728"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	s = mustSet(t, manyRegions(50_000, 3, 100, 100)...)
	_, err = Reduce(context.Background(), dev, s, noise(100, 100, driver.RGB8),
		Reductions{Statistics: Percentiles, Percentiles: make([]float64, 1000)}, driver.MethodDefault)
	if got, want := violationsOf(t, err), []string{
		"reductions.percentiles = 1000: makes 150000000 values for 50000 regions of 3 channels: the limit is " +
			"134217728"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestSampleAboveBits: a 16-bit sample above what the bits hold is an error where a region looks, and nowhere else.
func TestSampleAboveBits(t *testing.T) {
	dev := openCPU(t, kernels.Config{Poison: true})
	data := make([]byte, 10*6*2)
	set := func(x, y, v int) { data[2*(10*y+x)], data[2*(10*y+x)+1] = byte(v), byte(v>>8) }
	set(7, 4, 5000)
	set(2, 2, 4095)
	left := Region{Rings: []Ring{rectangle(0, 0, 5, 6)}}
	right := Region{Name: "right half", Rings: []Ring{rectangle(5, 0, 5, 6)}}
	for _, request := range []Reductions{{}, {Statistics: Count}, {Statistics: AllStatistics}, {Statistics: Median}} {
		for bits := 8; bits <= 16; bits++ {
			f := kernels.Picture{Width: 10, Height: 6, Format: driver.Gray16(bits), Data: [][]byte{data}}
			for _, c := range []struct {
				regions []Region
				most    int // sample inside
				want    string
			}{
				{[]Region{left}, 4095, `frame.data = pixel (2, 2) in region 0: 4095 is above `},
				{[]Region{right}, 5000,
					`frame.data = pixel (7, 4) in region 0 "right half": 5000 is above `},
				{[]Region{{Rings: []Ring{rectangle(0, 0, 2, 6)}}, right, left}, 5000,
					`frame.data = pixel (7, 4) in region 1 "right half": 5000 is above `},
			} {
				_, err := Reduce(context.Background(), dev, mustSet(t, c.regions...), f, request, driver.MethodDefault)
				if c.most < 1<<bits {
					if err != nil {
						t.Errorf("%d bits: %v", bits, err)
					}
					continue
				}
				tail := map[int]string{8: "255, the most that 8 bits hold", 9: "511, the most that 9 bits hold",
					10: "1023, the most that 10 bits hold",
					11: "2047, the most that 11 bits hold", 12: "4095, the most that 12 bits hold"}[bits]
				if got := violationsOf(t, err); !slices.Equal(got, []string{c.want + tail}) {
					t.Errorf("%d bits, %v: got %q, want %q", bits, request.Statistics, got, c.want+tail)
				}
			}
		}
	}
}

func TestStatisticsString(t *testing.T) {
	for s, want := range map[Statistics]string{
		0: "0", Count: "COUNT", Count | Mean: "COUNT|MEAN", Centroid | 1<<24: "CENTROID|0x1000000",
		AllStatistics: "COUNT|SUM|SUM_OF_SQUARES|MEAN|VARIANCE|STDDEV|MIN|MAX|HISTOGRAM|PERCENTILES|MEDIAN|MODE|DISTINCT|CENTROID|" +
			"SKEWNESS|KURTOSIS|ENTROPY|MEAN_ABSOLUTE_DEVIATION|INTERQUARTILE_RANGE|CUMULATIVE|DISTANCES|PLANE",
	} {
		if got := s.String(); got != want {
			t.Errorf("%#x is %s, want %s", uint32(s), got, want)
		}
	}
	if !AllStatistics.Has(Basic) || Basic.Has(Count|Median) {
		t.Error("Has")
	}
}
