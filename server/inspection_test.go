package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// inside is the slow way: even-odd by casting a ray from the pixel's centre to the right, for polygons that don't cross
// themselves and whose edges avoid centres.
func inside(xy []float64, i, j int) bool {
	x, y := float64(i)+0.5, float64(j)+0.5
	in := false
	for k := 0; k < len(xy); k += 2 {
		x0, y0 := xy[k], xy[k+1]
		x1, y1 := xy[(k+2)%len(xy)], xy[(k+3)%len(xy)]
		if (y0 <= y) != (y1 <= y) && x < x0+(y-y0)*(x1-x0)/(y1-y0) {
			in = !in
		}
	}
	return in
}

// onGrid moves vertices to multiples of 1/256 px that no centre lies on.
func onGrid(r *pb.Region) *pb.Region {
	for _, ring := range r.Rings {
		for i, v := range ring.Xy {
			ring.Xy[i] = math.Round(v*64)/64 + 1.0/256
		}
	}
	return r
}

// channelsOf reads the samples of a pixel, red first.
func channelsOf(f pb.PixelFormat, p []byte) []uint32 {
	switch f {
	case gray16:
		return []uint32{uint32(binary.LittleEndian.Uint16(p))}
	case bgr8:
		return []uint32{uint32(p[2]), uint32(p[1]), uint32(p[0])}
	}
	out := []uint32{}
	for _, v := range p {
		out = append(out, uint32(v))
	}
	return out
}

var pixelBytes = map[pb.PixelFormat]int{gray8: 1, gray16: 2, rgb8: 3, bgr8: 3, rgba8: 4}

// Every format, every statistic, with a gap behind rows, against sums made pixel by pixel.
func TestReduceAgainstSlow(t *testing.T) {
	s := start(t, Config{}, frameCodec())
	const w, h = 57, 43
	everything := &pb.Reductions{Percentiles: []float64{0, 25, 50, 99.5, 100}}
	for v := range pb.Statistic_name {
		if v != 0 {
			everything.Statistics = append(everything.Statistics, pb.Statistic(v))
		}
	}
	for format, n := range pixelBytes {
		for _, method := range []pb.MaskMethod{0, pb.MaskMethod_MASK_METHOD_NAIVE,
			pb.MaskMethod_MASK_METHOD_TILED_EDGE_FILTERED, pb.MaskMethod_MASK_METHOD_ROW_SPANS} {
			t.Run(fmt.Sprintf("%s/%v", wire.FormatName(format), method), func(t *testing.T) {
				stride := w*n + 6
				data := randomBytes(stride * h)
				f := rawFrame(w, h, format, data)
				f.Layout.Stride = uint32(stride)
				in := inspecting(onGrid(star("big", 20, 30, 20, 25)), onGrid(star("beside", 9, 300, 20, 25)),
					onGrid(star("half out", 7, 55, 40, 10)))
				in.Reductions, in.Method = everything, method
				res, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: f})
				if err != nil {
					t.Fatal(err)
				}
				if method != 0 && res.Result.Method != method {
					t.Errorf("method %v", res.Result.Method)
				}
				for k, region := range in.GetRegionSet().Regions {
					checkRegion(t, res.Result.Regions[k], region, k, func(x, y int) []uint32 {
						return channelsOf(format, data[y*stride+x*n:][:n])
					}, w, h, map[bool]int{true: 65536, false: 256}[format == gray16])
				}
			})
		}
	}
}

func checkRegion(t *testing.T, got *pb.RegionResult, region *pb.Region, index int, at func(x, y int) []uint32, w, h,
	levels int) {
	t.Helper()
	var samples [][]uint32 // by channel
	var count, sumX, sumY uint64
	first := map[string][2]uint32{}
	var weighted [4][2]float64
	x0, y0, x1, y1 := w, h, 0, 0
	for y := range h {
		for x := range w {
			if !inside(region.Rings[0].Xy, x, y) {
				continue
			}
			count++
			sumX, sumY = sumX+uint64(x), sumY+uint64(y)
			x0, y0, x1, y1 = min(x0, x), min(y0, y), max(x1, x+1), max(y1, y+1)
			for c, v := range at(x, y) {
				if c == len(samples) {
					samples = append(samples, nil)
				}
				samples[c] = append(samples[c], v)
				if key := fmt.Sprint(c, v); first[key] == [2]uint32{} {
					first[key] = [2]uint32{uint32(x) + 1, uint32(y)}
				}
				weighted[c][0] += float64(v) * (float64(x) + 0.5)
				weighted[c][1] += float64(v) * (float64(y) + 0.5)
			}
		}
	}
	if got.Index != uint32(index) || got.Name != region.Name || got.Count != count {
		t.Fatalf("%s: index %d, name %q, count %d, want %d", region.Name, got.Index, got.Name, got.Count, count)
	}
	near := func(what string, got *float64, want float64) {
		t.Helper()
		if got == nil || math.Abs(*got-want) > 1e-9*max(1, math.Abs(want)) {
			t.Errorf("%s: %s = %v, want %v", region.Name, what, got, want)
		}
	}
	if count == 0 {
		if got.Bounds != nil || got.Centroid != nil {
			t.Errorf("%s: %v", region.Name, got)
		}
		for _, c := range got.Channels {
			if c.GetSum() != 0 || c.Sum == nil || c.Mean != nil || c.Min != nil || c.MinAt != nil || c.Median != nil ||
				len(c.Percentiles) != 0 || c.WeightedCentroid != nil {
				t.Errorf("%s: %v", region.Name, c)
			}
		}
		return
	}
	if b := got.Bounds; int(b.X0) != x0 || int(b.Y0) != y0 || int(b.X1) != x1 || int(b.Y1) != y1 {
		t.Errorf("%s: bounds %v, want %d %d %d %d", region.Name, b, x0, y0, x1, y1)
	}
	near("centroid x", &got.Centroid.X, float64(sumX)/float64(count)+0.5)
	near("centroid y", &got.Centroid.Y, float64(sumY)/float64(count)+0.5)
	if len(got.Channels) != len(samples) {
		t.Fatalf("%s: %d channels, want %d", region.Name, len(got.Channels), len(samples))
	}
	for c, list := range samples {
		g := got.Channels[c]
		hist := make([]uint64, levels)
		var sum, sumSq uint64
		for _, v := range list {
			hist[v]++
			sum += uint64(v)
			sumSq += uint64(v) * uint64(v)
		}
		sorted := slices.Sorted(slices.Values(list))
		n := float64(count)
		if g.GetCount() != count || g.GetSum() != sum || g.GetSumOfSquares() != sumSq {
			t.Errorf("%s[%d]: %d %d %d, want %d %d %d", region.Name, c, g.GetCount(), g.GetSum(), g.GetSumOfSquares(),
				count, sum, sumSq)
		}
		near("mean", g.Mean, float64(sum)/n)
		variance := float64(sumSq)/n - float64(sum)/n*float64(sum)/n
		near("variance", g.Variance, variance)
		near("stddev", g.Stddev, math.Sqrt(variance))
		lo, hi := sorted[0], sorted[len(sorted)-1]
		if g.GetMin() != lo || g.GetMax() != hi {
			t.Errorf("%s[%d]: min %d max %d, want %d %d", region.Name, c, g.GetMin(), g.GetMax(), lo, hi)
		}
		if p := first[fmt.Sprint(c, lo)]; g.MinAt.X+1 != p[0] || g.MinAt.Y != p[1] {
			t.Errorf("%s[%d]: min at %v, want %v", region.Name, c, g.MinAt, p)
		}
		if p := first[fmt.Sprint(c, hi)]; g.MaxAt.X+1 != p[0] || g.MaxAt.Y != p[1] {
			t.Errorf("%s[%d]: max at %v, want %v", region.Name, c, g.MaxAt, p)
		}
		near("median", g.Median, (float64(sorted[(len(sorted)-1)/2])+float64(sorted[len(sorted)/2]))/2)
		mode, distinct := 0, uint32(0)
		for v, k := range hist {
			if k > hist[mode] {
				mode = v
			}
			if k > 0 {
				distinct++
			}
		}
		if g.GetMode() != uint32(mode) || g.GetDistinct() != distinct {
			t.Errorf("%s[%d]: mode %d, distinct %d, want %d %d", region.Name, c, g.GetMode(), g.GetDistinct(), mode,
				distinct)
		}
		if !slices.Equal(g.Histogram.Counts, hist) {
			t.Errorf("%s[%d]: histogram differs", region.Name, c)
		}
		for _, p := range g.Percentiles {
			rank := max(1, int(math.Ceil(p.Percentile*n/100)))
			if p.Value != float64(sorted[rank-1]) {
				t.Errorf("%s[%d]: p%v = %v, want %d", region.Name, c, p.Percentile, p.Value, sorted[rank-1])
			}
		}
		if sum > 0 {
			near("weighted x", &g.WeightedCentroid.X, weighted[c][0]/float64(sum))
			near("weighted y", &g.WeightedCentroid.Y, weighted[c][1]/float64(sum))
		}
	}
}

// Whatever the client's codec, the numbers are the same.
func TestReduceCodecs(t *testing.T) {
	s := start(t, Config{})
	other := pb.NewInspectionServiceClient(s.connectCleanly(t, frameCodec()))
	req := &pb.ReduceRequest{Inspection: inspecting(star("s", 50, 400, 300, 250)),
		Frame: rawFrame(800, 600, rgb8, randomBytes(800*600*3))}
	a, err := s.inspection.Reduce(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	b, err := other.Reduce(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	a.Result.Times, b.Result.Times = nil, nil
	if !proto.Equal(a, b) {
		t.Errorf("%v, and through the frame codec\n%v", a, b)
	}
}

func (ts *testServer) connectCleanly(t testing.TB, opts ...grpc.DialOption) *grpc.ClientConn {
	conn := ts.connect(t, opts...)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestLimitsAndVerdicts(t *testing.T) {
	s := start(t, Config{})
	res, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{
		Inspection: inspecting(
			rect("good", 0, 0, 2, 2, "mean in [1, 4]", "max < 10"),
			rect("bad", 0, 0, 2, 2, "count of pixels below 3 <= 1", "min >= 1"),
			rect("free", 0, 0, 2, 2),
			rect("outside", 9, 9, 10, 10, "mean < 3", "count < 1"),
			rect("half", 1, 0, 3, 1, "count of pixels above 200 <= 1"),
			rect("half, and known to be", 1, 0, 3, 1, "count of pixels above 200 <= 1", "coverage >= 0.5"),
		),
		Frame: rawFrame(2, 2, gray8, []byte{1, 2, 3, 4}),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := res.Result
	pass, fail := pb.Verdict_VERDICT_PASS, pb.Verdict_VERDICT_FAIL
	for i, want := range []pb.Verdict{pass, fail, 0, fail, fail, pass} {
		if r.Regions[i].Verdict != want {
			t.Errorf("%s: %v, want %v", r.Regions[i].Name, r.Regions[i].Verdict, want)
		}
	}
	if r.Verdict != fail {
		t.Errorf("frame: %v", r.Verdict)
	}
	bad := r.Regions[1].Limits
	if bad[0].Verdict != fail || bad[0].GetValue() != 2 || bad[0].Reason == "" ||
		bad[0].Expression != "count of pixels below 3 <= 1" || bad[0].Channel != pb.Channel_CHANNEL_GRAY {
		t.Errorf("%v", bad[0])
	}
	if bad[1].Verdict != pass || bad[1].Reason != "" {
		t.Errorf("%v", bad[1])
	}
	out := r.Regions[3].Limits
	if out[0].Value != nil || out[0].Verdict != fail || !strings.Contains(out[0].Reason, "outside the frame") ||
		out[1].Verdict != fail || out[1].Value == nil {
		t.Errorf("%v", out)
	}
	const reason = "outside the frame: 50 % of the region's pixels"
	if l := r.Regions[4].Limits[0]; l.Reason != reason || l.Value == nil || r.Regions[4].GetCoverage() != 0.5 {
		t.Errorf("%v", r.Regions[4])
	}
}

func TestRefusesRequests(t *testing.T) {
	s := start(t, Config{MaxRegions: 5, MaxVertices: 100, MaxRegionVertices: 50,
		MaxFramePixels: 1000}, frameCodec())
	frame := func(edit func(*pb.Frame)) *pb.Frame {
		f := rawFrame(10, 10, gray8, make([]byte, 100))
		edit(f)
		return f
	}
	fine := frame(func(*pb.Frame) {})
	region := rect("r", 0, 0, 5, 5)
	ring := func(xy ...float64) *pb.Region { return &pb.Region{Rings: []*pb.Ring{{Xy: xy}}} }
	with := func(edit func(*pb.Inspection)) *pb.Inspection {
		in := inspecting(region)
		edit(in)
		return in
	}
	drawnOn := func(w, h uint32, limits ...string) *pb.Inspection {
		in := inspecting(rect("r", 0, 0, 1, 1, limits...))
		in.GetRegionSet().DrawnOn = &pb.FrameSize{Width: w, Height: h}
		return in
	}
	many := make([]*pb.Region, 6)
	for i := range many {
		many[i] = region
	}
	for _, c := range []struct {
		name  string
		in    *pb.Inspection
		frame *pb.Frame
		field string
		words []string
	}{
		{"nothing", nil, nil, "inspection", nil},
		{"no frame", inspecting(region), nil, "frame", nil},
		{"no regions", &pb.Inspection{}, fine, "inspection.regions", nil},
		{"empty set", inspecting(), fine, "inspection.region_set.regions", []string{"at least 1"}},
		{"six regions", inspecting(many...), fine, "inspection.region_set.regions", []string{"6", "5 regions"}},
		{"no ring", inspecting(region, &pb.Region{Name: "x"}), fine, "inspection.region_set.regions[1].rings", nil},
		{"two points", inspecting(ring(0, 0, 1, 1)), fine, "inspection.region_set.regions[0].rings[0]",
			[]string{"2 vertices", "at least 3"}},
		{"odd list", inspecting(ring(0, 0, 1, 1, 5)), fine, "inspection.region_set.regions[0].rings[0].xy",
			[]string{"5 numbers", "pairs"}},
		{"NaN", inspecting(region, ring(0, 0, 1, 1, 2, math.NaN())), fine,
			"inspection.region_set.regions[1].rings[0].xy[5]", []string{"NaN", "finite"}},
		{"infinite", inspecting(ring(0, 0, math.Inf(-1), 1, 2, 0)), fine,
			"inspection.region_set.regions[0].rings[0].xy[2]", []string{"-Inf"}},
		{"too far", inspecting(ring(0, 0, 1<<22, 1, 2, 0)), fine, "inspection.region_set.regions[0].rings[0].xy[2]",
			[]string{"4194304"}},
		{"many vertices", inspecting(star("s", 51, 0, 0, 9)), fine, "inspection.region_set.regions[0].rings",
			[]string{"51", "50"}},
		{"long name", inspecting(rect(strings.Repeat("n", 257), 0, 0, 1, 1)), fine,
			"inspection.region_set.regions[0].name", []string{"257", "256"}},
		{"fill rule", inspecting(&pb.Region{Rings: region.Rings, FillRule: 9}), fine,
			"inspection.region_set.regions[0].fill_rule", []string{"9"}},
		{"limit", inspecting(region, rect("x", 0, 0, 1, 1, "mean < 3", "mean about 3")), fine,
			"inspection.region_set.regions[1].limits[1]", []string{"mean about 3"}},
		{"limit on a channel that gray lacks", inspecting(rect("x", 0, 0, 1, 1, "r.mean < 3")), fine,
			"inspection.region_set.regions[0].limits[0]", []string{"r.mean < 3", "no red channel"}},
		{"drawn on another size", drawnOn(11, 10, "mean < 3"), fine, "frame", []string{"10x", "drawn on 11x10 pixels"}},
		{"drawn on no size", drawnOn(0, 10), fine, "inspection.region_set.drawn_on.width", []string{"0"}},
		{"drawn on too much", drawnOn(10, 1<<20+1), fine, "inspection.region_set.drawn_on.height", []string{"1048577"}},
		{"method", with(func(in *pb.Inspection) { in.Method = 77 }), fine, "inspection.method", []string{"77"}},
		{"statistic", with(func(in *pb.Inspection) {
			in.Reductions = &pb.Reductions{Statistics: []pb.Statistic{1, 99}}
		}), fine, "inspection.reductions.statistics[1]", []string{"99"}},
		{"statistic 0", with(func(in *pb.Inspection) {
			in.Reductions = &pb.Reductions{Statistics: []pb.Statistic{0}}
		}), fine, "inspection.reductions.statistics[0]", nil},
		{"percentile", with(func(in *pb.Inspection) {
			in.Reductions = &pb.Reductions{Percentiles: []float64{5, 101}}
		}), fine, "inspection.reductions.percentiles[1]", []string{"101"}},
		{"percentile NaN", with(func(in *pb.Inspection) {
			in.Reductions = &pb.Reductions{Percentiles: []float64{math.NaN()}}
		}), fine, "inspection.reductions.percentiles[0]", []string{"NaN"}},
		{"bins", with(func(in *pb.Inspection) {
			in.Reductions = &pb.Reductions{Histogram: &pb.HistogramSpec{Bins: 65537}}
		}), fine, "inspection.reductions.histogram.bins", []string{"65537", "65536"}},
		{"bounds of bins", with(func(in *pb.Inspection) {
			in.Reductions = &pb.Reductions{Histogram: &pb.HistogramSpec{Bins: 5, Lower: 9, Upper: 3}}
		}), fine, "inspection.reductions.histogram.upper", []string{"3", "9"}},
		{"recipe's name", &pb.Inspection{Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "a b"}}}, fine,
			"inspection.recipe.name", []string{`"a b"`}},

		{"no layout", inspecting(region), frame(func(f *pb.Frame) {
			f.Layout = nil
		}), "frame.layout", []string{"raw pixels"}},
		{"no format", inspecting(region), frame(func(f *pb.Frame) {
			f.Layout.PixelFormat = 0
		}), "frame.layout.pixel_format", []string{"raw pixels"}},
		{"format", inspecting(region), frame(func(f *pb.Frame) {
			f.Layout.PixelFormat = 50
		}), "frame.layout.pixel_format", []string{"50"}},
		{"no width", inspecting(region), frame(func(f *pb.Frame) {
			f.Layout.Width = 0
		}), "frame.layout.width", []string{"0", "1048576"}},
		{"height", inspecting(region), frame(func(f *pb.Frame) {
			f.Layout.Height = 1 << 21
		}), "frame.layout.height", []string{"2097152", "1048576"}},
		{"pixels", inspecting(region), frame(func(f *pb.Frame) {
			f.Layout.Height = 101
		}), "frame.layout", []string{"10 x 101", "1010", "1000"}},
		{"short data", inspecting(region), frame(func(f *pb.Frame) {
			f.Layout.Height = 11
		}), "frame.data", []string{"100 bytes", "110 bytes"}},
		{"long data", inspecting(region), frame(func(f *pb.Frame) {
			f.Layout.Height = 9
		}), "frame.data", []string{"100 bytes", "90 bytes"}},
		{"no data", inspecting(region), frame(func(f *pb.Frame) {
			f.Source = nil
		}), "frame.data", []string{"0 bytes", "100 bytes"}},
		{"stride", inspecting(region), frame(func(f *pb.Frame) {
			f.Layout.Stride = 9
		}), "frame.layout.stride", []string{"9", "10 bytes"}},
		{"odd stride", inspecting(region), frame(func(f *pb.Frame) {
			f.Layout.PixelFormat, f.Layout.Width, f.Layout.Stride = gray16, 4, 9
		}), "frame.layout.stride", []string{"9", "even"}},
		{"bits", inspecting(region), frame(func(f *pb.Frame) {
			f.Layout.SignificantBits = 11
		}), "frame.layout.significant_bits", []string{"11"}},
		{"12 bits of 8", inspecting(region), frame(func(f *pb.Frame) {
			f.Layout.SignificantBits = 12
		}), "frame.layout.significant_bits", []string{"12", "GRAY8"}},
		{"8 bits of 16", inspecting(region), frame(func(f *pb.Frame) {
			f.Layout.PixelFormat, f.Layout.Width, f.Layout.SignificantBits = gray16, 5, 8
		}), "frame.layout.significant_bits", []string{"8", "GRAY16LE"}},
		{"encoding", inspecting(region), frame(func(f *pb.Frame) { f.Encoding = 40 }), "frame.encoding", []string{"40"}},
		{"frame ID", inspecting(region), frame(func(f *pb.Frame) {
			f.FrameId = strings.Repeat("f", 257)
		}), "frame.frame_id", []string{"256"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: c.in, Frame: c.frame})
			wantRefused(t, err, c.field, c.words...)
		})
	}
}

func TestRasterize(t *testing.T) {
	s := start(t, Config{}, frameCodec())
	const w, h = 61, 37
	regions := []*pb.Region{onGrid(star("a", 11, 20, 20, 15)), onGrid(star("b", 8, 35, 20, 15)), rect("c", 0, 0, 1, 1),
		rect("none", 90, 90, 91, 91)}
	want := make([]int, w*h)
	counts := make([]uint64, len(regions))
	for k, r := range regions {
		for i := range want {
			if inside(r.Rings[0].Xy, i%w, i/w) {
				want[i] = k + 1
				counts[k]++
			}
		}
	}
	set := &pb.RasterizeRequest_RegionSet{RegionSet: &pb.RegionSet{Regions: regions}}
	for _, mode := range []pb.RasterMode{0, pb.RasterMode_RASTER_MODE_MASK, pb.RasterMode_RASTER_MODE_LABELS} {
		for _, encoding := range []pb.Encoding{0, pb.Encoding_ENCODING_RAW, pb.Encoding_ENCODING_PNG} {
			res, err := s.inspection.Rasterize(t.Context(),
				&pb.RasterizeRequest{Regions: set, Width: w, Height: h, Mode: mode, Encoding: encoding})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(res.Counts, counts) || res.Backend != s.dev.Info().Backend {
				t.Errorf("%v, want counts %v", res, counts)
			}
			labels := mode == pb.RasterMode_RASTER_MODE_LABELS
			at := func(i int) int { return int(res.Image.GetData()[i]) }
			if labels {
				at = func(i int) int { return int(binary.LittleEndian.Uint16(res.Image.GetData()[2*i:])) }
			}
			if encoding == pb.Encoding_ENCODING_PNG {
				img, err := png.Decode(bytes.NewReader(res.Image.GetData()))
				if err != nil {
					t.Fatal(err)
				}
				at = func(i int) int { return int(img.At(i%w, i/w).(color.Gray).Y) }
				if labels {
					at = func(i int) int { return int(img.(*image.Gray16).Gray16At(i%w, i/w).Y) }
				}
			}
			for i, v := range want {
				if !labels && v > 0 {
					v = 255
				}
				if got := at(i); got != v {
					t.Fatalf("%v %v: pixel (%d, %d) is %d, want %d", mode, encoding, i%w, i/w, got, v)
				}
			}
			l := res.Image.Layout
			if l.Width != w || l.Height != h || (l.PixelFormat == gray16) != labels {
				t.Errorf("layout %v", l)
			}
		}
	}
}

// TestRasterizeFields: winding numbers and distances come as package polygon makes them, raw and as PNG, for rings,
// masks and shapes.
func TestRasterizeFields(t *testing.T) {
	s := start(t, Config{}, frameCodec())
	const w, h = 261, 137
	regions := []*pb.Region{rect("a", 20, 20, 200, 90), rect("b", 30, 30, 120, 120), masked("m", 10, 3, 60, 11, 3, 40),
		{Name: "c", Shape: `circle(150, 70, 40)`}}
	regions[1].FillRule = pb.FillRule_FILL_RULE_EVEN_ODD
	regions[1].Rings = append(regions[1].Rings, rect("", 100, 100, 40, 40).Rings...)
	set, err := polygon.NewSet([]polygon.Region{
		{Rings: []polygon.Ring{{{X: 20, Y: 20}, {X: 200, Y: 20}, {X: 200, Y: 90}, {X: 20, Y: 90}}}},
		{Fill: polygon.EvenOdd, Rings: []polygon.Ring{{{X: 30, Y: 30}, {X: 120, Y: 30}, {X: 120, Y: 120}, {X: 30, Y: 120}},
			{{X: 100, Y: 100}, {X: 40, Y: 100}, {X: 40, Y: 40}, {X: 100, Y: 40}}}},
		{Mask: []polygon.Run{{Y: 10, X0: 3, X1: 60}, {Y: 11, X0: 3, X1: 40}}},
		{Shape: `circle(150, 70, 40)`},
	}, polygon.Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	dev, err := s.dev.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer dev.End()
	for mode, draw := range map[pb.RasterMode]func(r *polygon.Raster) error{
		pb.RasterMode_RASTER_MODE_WINDING:  func(r *polygon.Raster) error { return r.Windings(set, nil) },
		pb.RasterMode_RASTER_MODE_DISTANCE: func(r *polygon.Raster) error { return r.Distances(nil) },
	} {
		want, err := polygon.Rasterize(t.Context(), dev.Device, set, w, h, polygon.RasterMask, polygon.MethodDefault)
		if err == nil {
			err = draw(want)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, encoding := range []pb.Encoding{pb.Encoding_ENCODING_RAW, pb.Encoding_ENCODING_PNG} {
			res, err := s.inspection.Rasterize(t.Context(), &pb.RasterizeRequest{Width: w, Height: h, Mode: mode,
				Encoding: encoding, Regions: &pb.RasterizeRequest_RegionSet{RegionSet: &pb.RegionSet{Regions: regions}}})
			if err != nil {
				t.Fatal(err)
			}
			got := res.GetImage().GetData()
			if encoding == pb.Encoding_ENCODING_PNG {
				img, err := png.Decode(bytes.NewReader(got))
				if err != nil {
					t.Fatal(err)
				}
				got = slices.Clone(img.(*image.Gray16).Pix)
				for i := 0; i < len(got); i += 2 {
					got[i], got[i+1] = got[i+1], got[i]
				}
			}
			if l := res.GetImage().GetLayout(); l.GetPixelFormat() != gray16 || l.GetStride() != 2*w ||
				!slices.Equal(res.GetCounts(), want.Counts) || !bytes.Equal(got, want.Bytes()) {
				t.Errorf("%v %v: layout %v, counts %v, want %v", mode, encoding, l, res.GetCounts(), want.Counts)
			}
		}
	}
	s.idleHost(t)
}

func TestRefusesRasterize(t *testing.T) {
	s := start(t, Config{MaxFramePixels: 40_000, MaxMessageBytes: 64 << 10})
	set := &pb.RasterizeRequest_RegionSet{RegionSet: inspecting(rect("r", 0, 0, 3, 3)).GetRegionSet()}
	labels := pb.RasterMode_RASTER_MODE_LABELS
	for _, c := range []struct {
		name  string
		req   *pb.RasterizeRequest
		field string
		words []string
	}{
		{"no regions", &pb.RasterizeRequest{Width: 3, Height: 3}, "regions", nil},
		{"two points", &pb.RasterizeRequest{Width: 3, Height: 3,
			Regions: &pb.RasterizeRequest_RegionSet{RegionSet: inspecting(&pb.Region{Rings: []*pb.Ring{{Xy: []float64{1, 2,
				3, 4}}}}).GetRegionSet()}}, "region_set.regions[0].rings[0]", []string{"2 vertices"}},
		{"no width", &pb.RasterizeRequest{Regions: set, Height: 3}, "width", []string{"0"}},
		{"height", &pb.RasterizeRequest{Regions: set, Width: 3, Height: 1 << 30}, "height", []string{"1073741824"}},
		{"pixels", &pb.RasterizeRequest{Regions: set, Width: 3, Height: 1 << 20}, "height",
			[]string{"3 x 1048576", "40000"}},
		{"bytes", &pb.RasterizeRequest{Regions: set, Width: 200, Height: 200, Mode: labels}, "height",
			[]string{"80000 bytes", "65536"}},
		{"bytes of distances", &pb.RasterizeRequest{Regions: set, Width: 200, Height: 200,
			Mode: pb.RasterMode_RASTER_MODE_DISTANCE}, "height", []string{"80000 bytes", "65536"}},
		{"mode", &pb.RasterizeRequest{Regions: set, Width: 3, Height: 3, Mode: 7}, "mode", []string{"7"}},
		{"encoding", &pb.RasterizeRequest{Regions: set, Width: 3, Height: 3, Encoding: pb.Encoding_ENCODING_JPEG},
			"encoding", []string{"JPEG"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s.inspection.Rasterize(t.Context(), c.req)
			wantRefused(t, err, c.field, c.words...)
		})
	}
	_, err := s.inspection.Rasterize(t.Context(),
		&pb.RasterizeRequest{Width: 3, Height: 3,
			Regions: &pb.RasterizeRequest_Recipe{Recipe: &pb.RecipeRef{Name: "none"}}})
	if d := detailsOf(t, err); d.status.Code() != codes.NotFound || d.res == nil || d.res.ResourceName != "none" {
		t.Errorf("%v", err)
	}
}

func TestMessageTooLarge(t *testing.T) {
	s := start(t, Config{MaxMessageBytes: 100_000})
	_, err := s.inspection.Reduce(t.Context(),
		&pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 3, 3)),
			Frame: rawFrame(400, 250, gray8, make([]byte, 100_000))})
	d := detailsOf(t, err)
	if d.status.Code() != codes.ResourceExhausted || !strings.Contains(d.status.Message(), "100000") {
		t.Errorf("%v", err)
	}
	// The next one is answered.
	if _, err := s.device.GetDevice(t.Context(), &pb.GetDeviceRequest{}); err != nil {
		t.Error(err)
	}
}

func TestResultTooLarge(t *testing.T) {
	s := start(t, Config{MaxMessageBytes: 1 << 20})
	in := inspecting()
	for range 1000 {
		in.GetRegionSet().Regions = append(in.GetRegionSet().Regions, rect("", 0, 0, 1, 1))
	}
	in.Reductions = &pb.Reductions{Statistics: []pb.Statistic{pb.Statistic_STATISTIC_HISTOGRAM}}
	_, err := s.inspection.Reduce(t.Context(),
		&pb.ReduceRequest{Inspection: in, Frame: rawFrame(2, 1, gray16, make([]byte, 4))})
	d := detailsOf(t, err)
	if d.status.Code() != codes.ResourceExhausted || d.info.Reason != apierr.ReasonResultTooLarge ||
		!strings.Contains(d.status.Message(), "1000 regions would take 524288000 bytes; the limit is 1048576") {
		t.Errorf("%v", err)
	}
}

// A device without room says how much is missing, and when to come back.
func TestDeviceFull(t *testing.T) {
	s := start(t, Config{MemoryBytes: 1 << 20})
	_, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 2000, 2000)),
		Frame: rawFrame(2000, 2000, gray8, make([]byte, 4_000_000))})
	d := detailsOf(t, err)
	if d.status.Code() != codes.ResourceExhausted || d.quota == nil || d.info.Reason != apierr.ReasonNoRoom ||
		!strings.Contains(d.status.Message(), "1048576") {
		t.Errorf("%v", err)
	}
	if d.retry != nil {
		t.Errorf("retrying never helps: %v", d.retry)
	}
}

// A call that waits for the device gives up with its deadline, and says what it waited for.
func TestDeadlineInQueue(t *testing.T) {
	h := newHooked()
	s := start(t, Config{Driver: h, MemoryBytes: 3 << 20, Streams: 4})
	entered, leave := make(chan struct{}, 1), make(chan struct{})
	h.set(func() error { entered <- struct{}{}; <-leave; return nil })
	req := &pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 1400, 1400)),
		Frame: rawFrame(1400, 1400, gray8, make([]byte, 1400*1400))}
	first := make(chan error, 1)
	go func() {
		_, err := s.inspection.Reduce(context.Background(), req)
		first <- err
	}()
	<-entered
	h.set(func() error { return nil })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	// Directly: over a connection the client's own deadline may speak first.
	_, err := s.inspector.HandleReduce(ctx, req, framecodec.New(req))
	st := apierr.StatusOf(ctx, s.Server.log, err)
	if d := detailsOf(t, st.Err()); d.status.Code() != codes.DeadlineExceeded || d.quota == nil ||
		d.info.Reason != apierr.ReasonDeadline {
		t.Errorf("%v", st)
	}
	close(leave)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func TestDriverErrors(t *testing.T) {
	h := newHooked()
	s := start(t, Config{Driver: h})
	req := &pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 2, 2)), Frame: rawFrame(2, 2, gray8, make([]byte, 4))}
	for _, c := range []struct {
		hook func() error
		code codes.Code
		log  string
	}{
		{func() error { return fmt.Errorf("launch: %w", driver.ErrDeviceLost) }, codes.Unavailable, "launch"},
		{func() error { return driver.ErrNotSupported }, codes.Unimplemented, ""},
		{func() error { return errors.New("the secret is 42") }, codes.Internal, "the secret is 42"},
		{func() error { panic("the secret is 43") }, codes.Internal, "the secret is 43"},
	} {
		h.set(c.hook)
		_, err := s.inspection.Reduce(t.Context(), req)
		d := detailsOf(t, err)
		if d.status.Code() != c.code || strings.Contains(d.status.Message(), "secret") {
			t.Errorf("%v, want %v", err, c.code)
		}
		if !strings.Contains(s.logs.String(), c.log) {
			t.Errorf("the log lacks %q", c.log)
		}
		if c.code == codes.Unavailable {
			waitFor(t, "the device to be back", func() bool { return s.dev.Regained() == 1 })
		}
		if c.code == codes.Internal && !strings.Contains(s.logs.String(), d.info.Metadata["id"]) {
			t.Errorf("the log lacks the id %v", d.info)
		}
	}
	if !strings.Contains(s.logs.String(), "hookedStream") {
		t.Error("the log has no stack of the panic")
	}
	// In a stream each costs its frame.
	h.set(func() error { panic("again") })
	stream := s.open(t, inspecting(rect("r", 0, 0, 2, 2)))
	stream.send(req.Frame)
	if e := stream.recv().GetError(); codes.Code(e.GetCode()) != codes.Internal {
		t.Errorf("%v", e)
	}
	h.set(func() error { return nil })
	stream.send(req.Frame)
	if r := stream.recv(); r.GetResult() == nil || r.Sequence != 1 {
		t.Errorf("%v", r)
	}
	stream.end(nil)
	if got := metric(t, s, "polyscan_panics_total"); got != 2 {
		t.Errorf("polyscan_panics_total = %v", got)
	}
}

// Cancelling stops the work, not only the client's wait for it: while a frame is reduced, and while a mask is drawn.
func TestCancel(t *testing.T) {
	regions := []*pb.Region{rect("r", 0, 0, 2, 2)}
	for op, call := range map[string]func(context.Context, *testServer) error{
		"MaskReduce": func(ctx context.Context, s *testServer) error {
			_, err := s.inspection.Reduce(ctx, &pb.ReduceRequest{Inspection: inspecting(regions...),
				Frame: rawFrame(2, 2, gray8, make([]byte, 4))})
			return err
		},
		"MaskRaster": func(ctx context.Context, s *testServer) error {
			_, err := s.inspection.Rasterize(ctx, &pb.RasterizeRequest{Width: 2, Height: 2,
				Regions: &pb.RasterizeRequest_RegionSet{RegionSet: &pb.RegionSet{Regions: regions}},
				Mode:    pb.RasterMode_RASTER_MODE_MASK})
			return err
		},
	} {
		t.Run(op, func(t *testing.T) {
			h := newHooked()
			s := start(t, Config{Driver: h})
			entered, leave := make(chan struct{}), make(chan struct{})
			h.on(op, func() error { close(entered); <-leave; return nil })
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- call(ctx, s) }()
			<-entered
			cancel()
			err := <-done // before the op ends, or an answer may still come in time
			close(leave)
			if d := detailsOf(t, err); d.status.Code() != codes.Canceled {
				t.Errorf("%v", d.status)
			}
			waitFor(t, "the call to end", func() bool { return metric(t, s, "polyscan_requests_in_flight") == 0 })
			waitFor(t, "its memory to be free", func() bool { return s.dev.Memory().Used == 0 })
		})
	}
}

// waitFor polls for something that happens in another goroutine.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s in vain", what)
		}
	}
}

// metric is the sum of a metric's series, of the count of observations for a histogram.
func metric(t testing.TB, s *testServer, name string, labels ...string) float64 {
	t.Helper()
	families, err := s.gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	series:
		for _, m := range f.Metric {
			for i := 0; i < len(labels); i += 2 {
				found := false
				for _, l := range m.Label {
					found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
				}
				if !found {
					continue series
				}
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

func TestMetrics(t *testing.T) {
	s := start(t, Config{})
	ok := &pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 4, 4, "mean < 3"), rect("q", 0, 0, 4, 4)),
		Frame: rawFrame(4, 4, gray8, make([]byte, 16))}
	img := &pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 4, 4, "mean > 300")),
		Frame: fileFrame(encodePicture(t, "png", image.NewGray(image.Rect(0, 0, 5, 5))))}
	for _, req := range []*pb.ReduceRequest{ok, ok, img} {
		if _, err := s.inspection.Reduce(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	bad := &pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 4, 4)), Frame: fileFrame([]byte("x"))}
	if _, err := s.inspection.Reduce(t.Context(), bad); err == nil {
		t.Fatal("no error")
	}
	for _, c := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"grpc_server_handled_total", []string{"grpc_method", "Reduce", "grpc_code", "OK"}, 3},
		{"grpc_server_handled_total", []string{"grpc_method", "Reduce", "grpc_code", "InvalidArgument"}, 1},
		{"grpc_server_handling_seconds", []string{"grpc_method", "Reduce"}, 4},
		{"polyscan_requests_in_flight", nil, 0},
		{"polyscan_frames_total", []string{"encoding", "raw"}, 2},
		{"polyscan_frames_total", []string{"encoding", "png"}, 1},
		{"polyscan_frame_pixels_total", nil, 16 + 16 + 25},
		{"polyscan_regions_total", nil, 5},
		{"polyscan_verdicts_total", []string{"verdict", "pass"}, 2},
		{"polyscan_verdicts_total", []string{"verdict", "fail"}, 1},
		{"polyscan_stage_seconds", []string{"stage", "decode"}, 1},
		{"polyscan_stage_seconds", []string{"stage", "compute"}, 3},
		{"polyscan_stage_seconds", []string{"stage", "queue"}, 3},
		{"polyscan_stage_seconds", []string{"stage", "encode"}, 3},
		{"polyscan_decode_refused_total", []string{"reason", "kind"}, 1},
		{"polyscan_device_memory_bytes", []string{"kind", "reserved"}, 256 << 20},
		{"polyscan_device_memory_bytes", []string{"kind", "used"}, 0},
		{"polyscan_build_info", []string{"backend", s.dev.Info().Backend}, 1},
	} {
		if got := metric(t, s, c.name, c.labels...); got != c.want {
			t.Errorf("%s%v = %v, want %v", c.name, c.labels, got, c.want)
		}
	}
	in := float64(2*proto.Size(ok) + proto.Size(img) + proto.Size(bad))
	if got := metric(t, s, "polyscan_message_bytes_total", "direction", "received"); got != in {
		t.Errorf("%v bytes received, want %v", got, in)
	}
	if got := metric(t, s, "polyscan_message_bytes_total", "direction", "sent"); got <= 0 {
		t.Errorf("%v bytes sent", got)
	}
}

// A hundred at the same time, each with its own numbers.
func TestReduceConcurrently(t *testing.T) {
	s := start(t, Config{MemoryBytes: 4 << 20}, frameCodec())
	errs := make(chan error)
	for i := range 100 {
		go func() {
			w, h := 1+rand.IntN(300), 1+rand.IntN(300)
			data := bytes.Repeat([]byte{byte(i)}, w*h)
			res, err := s.inspection.Reduce(t.Context(),
				&pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, float64(w), float64(h))),
					Frame: rawFrame(w, h, gray8, data)})
			if err == nil && res.Result.Regions[0].Channels[0].GetSum() != uint64(w*h*i) {
				err = fmt.Errorf("%d x %d of %d: %v", w, h, i, res.Result.Regions[0])
			}
			errs <- err
		}()
	}
	for range 100 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if m := s.dev.Memory(); m.Used != 0 {
		t.Errorf("%v", m)
	}
}

func TestGetDevice(t *testing.T) {
	s := start(t, Config{Device: "cpu", Threads: 2, Version: "v1.2.3", MemoryBytes: 1 << 20})
	d, err := s.device.GetDevice(t.Context(), &pb.GetDeviceRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if d.Backend != "cpu" || d.ComputeUnits != 2 || d.ServerVersion != "v1.2.3" ||
		!strings.HasPrefix(d.GoVersion, "go1") || d.DeviceName == "" ||
		!slices.Contains(d.Drivers, "cpu") || d.Memory.ReservedBytes != 1<<20 ||
		time.Since(d.StartedAt.AsTime()) > time.Minute {
		t.Errorf("%v", d)
	}
	want := &pb.ServerLimits{MaxMessageBytes: 256 << 20, MaxFramePixels: 1 << 28, MaxRegions: 100_000,
		MaxVertices: 8 << 20, MaxStreamsPerConnection: 100}
	if !proto.Equal(d.Limits, want) {
		t.Errorf("%v, want %v", d.Limits, want)
	}
}

// The payload's buffers go back before the response is made; what is left is what the server keeps of a frame: nothing.
func TestPayloadIsFreed(t *testing.T) {
	s := start(t, Config{})
	req := &pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 2, 2)), Frame: rawFrame(2, 2, gray8, make([]byte, 4))}
	in := framecodec.New(req)
	freed := 0
	buf := make([]byte, 4096)
	in.SetPayload(mem.BufferSlice{framecodec.NewBuffer(buf, func() { freed++ })})
	req.Frame.Layout.Width, req.Frame.Layout.Height = 64, 64
	if _, err := s.inspector.HandleReduce(t.Context(), req, in); err != nil {
		t.Fatal(err)
	}
	if freed != 1 {
		t.Errorf("freed %d times", freed)
	}
}

// Two bytes a region on the wire, and a hundred in memory: refused before they are there, in every call.
func TestRequestTooLarge(t *testing.T) {
	s := start(t, Config{MaxRegions: 1000, MaxVertices: 10_000})
	set := make([]byte, 0, 2<<20)
	for range 1 << 20 {
		set = append(set, 0x0a, 0)
	}
	field := func(inner []byte, numbers ...protowire.Number) []byte {
		for i := len(numbers) - 1; i >= 0; i-- {
			inner = protowire.AppendBytes(protowire.AppendTag(nil, numbers[i], protowire.BytesType), inner)
		}
		return inner
	}
	check := func(what string, err error) {
		t.Helper()
		if d := detailsOf(t, err); d.status.Code() != codes.ResourceExhausted ||
			d.info.GetReason() != apierr.ReasonRequestTooLarge || d.quota == nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for method, wire := range map[string][]byte{
		pb.InspectionService_Reduce_FullMethodName:    field(set, 1, 1),
		pb.InspectionService_Rasterize_FullMethodName: field(set, 1),
		pb.RecipeService_PutRecipe_FullMethodName:     field(set, 1, 4),
	} {
		check(method, s.conn.Invoke(t.Context(), method, wire, &pb.GetDeviceResponse{},
			grpc.ForceCodecV2(bytesCodec{framecodec.Codec()})))
	}
	if got := metric(t, s, "grpc_server_handled_total", "grpc_code", "ResourceExhausted"); got != 3 {
		t.Errorf("%v refusals are counted", got)
	}
	for name, messages := range map[string][][]byte{
		"open": {field(set, 1, 1)},
		"later": {mustMarshal(t,
			&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Open{Open: inspecting(rect("r", 0, 0, 1, 1))}}),
			field(set, 1, 1)},
	} {
		stream, err := s.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
			pb.InspectionService_StreamFrames_FullMethodName, grpc.ForceCodecV2(bytesCodec{framecodec.Codec()}))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			if err := stream.SendMsg(m); err != nil {
				t.Fatal(err)
			}
		}
		check(name, stream.RecvMsg(&pb.StreamFramesResponse{}))
	}
	// The largest that is allowed passes.
	in := inspecting()
	for range 1000 {
		in.GetRegionSet().Regions = append(in.GetRegionSet().Regions,
			rect("a region with a long name, so that the request is large", 0, 0, 1, 1,
				slices.Repeat([]string{"mean in [0, 200.000000000]"}, polygon.MaxLimits)...))
	}
	if _, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: smallFrame(1)}); err != nil {
		t.Error(err)
	}
}

// bytesCodec sends bytes as they are.
type bytesCodec struct{ encoding.CodecV2 }

func (c bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return c.CodecV2.Marshal(v)
}

func mustMarshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
