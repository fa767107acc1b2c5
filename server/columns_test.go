package server

// Results as columns hold what rows hold, and what of either comes back is what was asked for.

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	testseed "github.com/polyscan/polyscan/internal/seed"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// randomInspection is one of a few regions, in and about a frame of that size, with limits that hold or don't.
func randomInspection(rng *rand.Rand, width, height int, format pb.PixelFormat) *pb.Inspection {
	in := inspecting()
	set := in.GetRegionSet()
	if rng.IntN(3) == 0 {
		set.Scale = &pb.Scale{X: rng.Float64() + 0.01, Origin: &pb.Point{X: rng.NormFloat64() * 20, Y: 7.1}}
		if rng.IntN(2) == 0 {
			set.Scale.Y = 0.04
		}
	}
	for i := range 1 + rng.IntN(12) {
		r := &pb.Region{Name: fmt.Sprintf("région %d", i)}
		for range 1 + rng.IntN(2) {
			ring := &pb.Ring{}
			x, y, size := rng.Float64()*float64(width)*1.4-float64(width)/5, rng.Float64()*float64(height), rng.ExpFloat64()*8
			for range 3 + rng.IntN(6) {
				ring.Xy = append(ring.Xy, x+rng.NormFloat64()*size, y+rng.NormFloat64()*size)
			}
			r.Rings = append(r.Rings, ring)
		}
		r.FillRule = pb.FillRule(rng.IntN(3))
		limits := []string{"mean < 120", "stddev >= 60", "count > 20", "p75 in [10, 200]", "coverage >= 0.8",
			"count of pixels above 200 <= 9", "area < 90", "max <= 250", "distinct > 3", "median != 17",
			`mean - "région 0".mean < 20`, `largest of "région*".max > 250`,
			"skewness < 0.5", "kurtosis < 3", "entropy > 2", "mad < 40", "iqr > 3",
			"plane.x < 1", "plane.y >= -2", "plane.residual > 30",
			"gradient.p90 > 3", "laplacian.variance > 90", "laplacian.iqr - gradient.max < 9"}
		if rng.IntN(3) == 0 {
			limits = append(limits, "ks < 0.4", "wasserstein <= 30", "js > 0.1", "chisquare <= 0.5")
			r.Reference = &pb.Reference{Counts: []*pb.ReferenceCounts{{Counts: []uint32{1, 0, 3, 4}}}}
			if len(set.Regions) > 0 {
				r.Reference = &pb.Reference{Region: set.Regions[0].Name}
			}
		}
		if set.Scale != nil {
			limits = append(limits, "area >= 2 mm2", "count of pixels above 90 <= 0.7 mm2", "max.x in [-3, 9] mm",
				"weighted.y - centroid.y < 0.1 mm", "width <= 4 mm")
		}
		if format == pb.PixelFormat_PIXEL_FORMAT_RGB8 {
			limits = append(limits, "g.mean > 100", "b.min == 0")
		}
		for range rng.IntN(3) {
			r.Limits = append(r.Limits, limits[rng.IntN(len(limits))])
		}
		set.Regions = append(set.Regions, r)
	}
	if rng.IntN(5) == 0 {
		return in // the default statistics
	}
	in.Reductions = &pb.Reductions{PercentileMethod: pb.PercentileMethod(rng.IntN(3))}
	for s := pb.Statistic_STATISTIC_COUNT; int(s) < len(pb.Statistic_name); s++ {
		if rng.IntN(3) > 0 {
			in.Reductions.Statistics = append(in.Reductions.Statistics, s)
		}
	}
	for range rng.IntN(3) * rng.IntN(2) {
		in.Reductions.Derivatives = append(in.Reductions.Derivatives, pb.Derivative(1+rng.IntN(2)))
	}
	if rng.IntN(3) == 0 && format == pb.PixelFormat_PIXEL_FORMAT_RGB8 {
		in.Reductions.Colors = []pb.ColorSpace{pb.ColorSpace_COLOR_SPACE_HSV, pb.ColorSpace_COLOR_SPACE_LAB}
	}
	rng.Shuffle(len(in.Reductions.Statistics), func(i, k int) {
		s := in.Reductions.Statistics
		s[i], s[k] = s[k], s[i]
	})
	if rng.IntN(2) == 0 {
		in.Reductions.Percentiles = []float64{rng.Float64() * 100, 50, 99.9, 0}
	}
	switch rng.IntN(3) {
	case 0:
		in.Reductions.Histogram = &pb.HistogramSpec{Bins: uint32(1 + rng.IntN(40)), Lower: rng.Float64() * 50, Upper: 200}
	case 1:
		in.Reductions.Histogram = &pb.HistogramSpec{Bins: uint32(1 + rng.IntN(300))}
	}
	return in
}

// randomFrame has one of the formats, few values or many.
func randomFrame(rng *rand.Rand) *pb.Frame {
	formats := []pb.PixelFormat{gray8, pb.PixelFormat_PIXEL_FORMAT_GRAY16LE, pb.PixelFormat_PIXEL_FORMAT_RGB8,
		pb.PixelFormat_PIXEL_FORMAT_BGR8, pb.PixelFormat_PIXEL_FORMAT_RGBA8}
	format := formats[rng.IntN(len(formats))]
	w, h := 1+rng.IntN(70), 1+rng.IntN(60)
	bytesOf := map[pb.PixelFormat]int{gray8: 1, formats[1]: 2, formats[2]: 3, formats[3]: 3, formats[4]: 4}[format]
	data := make([]byte, w*h*bytesOf)
	most := []uint32{1, 4, 256}[rng.IntN(3)]
	for i := range data {
		data[i] = byte(rng.Uint32N(most))
	}
	f := rawFrame(w, h, format, data)
	if format == formats[1] {
		f.Layout.SignificantBits = []uint32{10, 12, 14, 16}[rng.IntN(4)]
		for i := 0; i < len(data); i += 2 {
			v := rng.Uint32N(1 << f.Layout.SignificantBits)
			if most == 4 {
				v %= 3
			}
			binary.LittleEndian.PutUint16(data[i:], uint16(v))
		}
	}
	return f
}

// randomFields is a choice of fields, all of them as often as not.
func randomFields(rng *rand.Rand) (fields []pb.RegionField) {
	if rng.IntN(2) == 0 {
		return nil
	}
	for f := pb.RegionField_REGION_FIELD_VERDICT; f <= pb.RegionField_REGION_FIELD_LIMITS; f++ {
		if rng.IntN(2) == 0 {
			fields = append(fields, f)
		}
	}
	return fields
}

// chosen is what of rows that hold everything has to come back: the definition of ResultOptions.
func chosen(all []*pb.RegionResult, o *pb.ResultOptions) (out []*pb.RegionResult) {
	has := func(f ...pb.RegionField) bool {
		return len(o.GetFields()) == 0 || slices.ContainsFunc(f, func(f pb.RegionField) bool {
			return slices.Contains(o.GetFields(), f)
		})
	}
	for _, full := range all {
		if o.GetRegions() == pb.RegionChoice_REGION_CHOICE_FAILED && full.GetVerdict() != pb.Verdict_VERDICT_FAIL {
			continue
		}
		r := proto.Clone(full).(*pb.RegionResult)
		if !has(pb.RegionField_REGION_FIELD_NAME) {
			r.Name = ""
		}
		if !has(pb.RegionField_REGION_FIELD_COUNT, pb.RegionField_REGION_FIELD_CHANNELS) {
			r.Count, r.CountMm2 = 0, nil
		}
		if !has(pb.RegionField_REGION_FIELD_AREA) {
			r.Area, r.AreaMm2 = 0, nil
		}
		if !has(pb.RegionField_REGION_FIELD_COVERAGE) {
			r.Coverage = nil
		}
		if !has(pb.RegionField_REGION_FIELD_BOUNDS) {
			r.Bounds, r.BoundsMm = nil, nil
		}
		if !has(pb.RegionField_REGION_FIELD_CENTROID) {
			r.Centroid, r.CentroidMm = nil, nil
		}
		if !has(pb.RegionField_REGION_FIELD_CHANNELS) {
			r.Channels = nil
		}
		if !has(pb.RegionField_REGION_FIELD_LIMITS) {
			r.Limits = nil
		}
		out = append(out, r)
	}
	return out
}

// sameRows compares columns with the rows that must come of them.
func sameRows(c *clients.Columns, want []*pb.RegionResult) error {
	if c.Len() != len(want) {
		return fmt.Errorf("%d rows, want %d", c.Len(), len(want))
	}
	for i, w := range want {
		if got := c.Row(i); !proto.Equal(got, w) {
			return fmt.Errorf("row %d:\n got %v\nwant %v", i, got, w)
		}
	}
	return nil
}

// withResult is in with options for results.
func withResult(in *pb.Inspection, o *pb.ResultOptions) *pb.Inspection {
	out := proto.Clone(in).(*pb.Inspection)
	out.Result = o
	return out
}

// isPointless reports whether an error is about a random limit that can't fail.
func isPointless(err error) bool {
	return err != nil && strings.Contains(err.Error(), ": can't fail: ")
}

const columnsForm = pb.ResultForm_RESULT_FORM_COLUMNS

// Columns of random regions, frames, reductions and choices are the rows that the server answers without any, less what
// was not asked for; rows with the same choices are, too.
func TestColumnsAreRows(t *testing.T) {
	s := start(t, Config{})
	c := clients.New(s.connectCleanly(t))
	rng := testseed.New(t, 25, 1)
	n := 600
	if testing.Short() {
		n = 150
	}
	for n > 0 {
		f := randomFrame(rng)
		in := randomInspection(rng, int(f.Layout.Width), int(f.Layout.Height), f.Layout.PixelFormat)
		all, err := c.Reduce(t.Context(), in, f)
		if isPointless(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		n--
		o := &pb.ResultOptions{Regions: pb.RegionChoice(rng.IntN(3)), Fields: randomFields(rng)}
		want := chosen(all.Regions, o)
		rows, err := c.Reduce(t.Context(), withResult(in, o), f)
		if err != nil {
			t.Fatal(err)
		}
		if rows.Verdict != all.Verdict || rows.Columns != nil || len(rows.Regions) != len(want) {
			t.Fatalf("%v: verdict %v, want %v; %d rows, want %d", o, rows.Verdict, all.Verdict, len(rows.Regions), len(want))
		}
		for i, w := range want {
			if !proto.Equal(rows.Regions[i], w) {
				t.Fatalf("%v: row %d:\n got %v\nwant %v", o, i, rows.Regions[i], w)
			}
		}
		o.Form = columnsForm
		in = withResult(in, o)
		res, err := c.Reduce(t.Context(), in, f)
		if err != nil {
			t.Fatal(err)
		}
		if res.Verdict != all.Verdict || len(res.Regions) > 0 || res.Columns == nil ||
			int(res.Columns.Regions) != len(all.Regions) {
			t.Fatalf("%v: verdict %v, want %v; %d rows; columns of %d", o, res.Verdict, all.Verdict, len(res.Regions),
				res.Columns.GetRegions())
		}
		columns, err := clients.ColumnsOf(in, res)
		if err != nil {
			t.Fatalf("%v\nof %v %v", err, o, in.Reductions)
		}
		if err := sameRows(columns, want); err != nil {
			t.Fatalf("%v %v: %v", o, in.Reductions, err)
		}
		// What an older server answers reads the same.
		old := &pb.FrameResult{Regions: all.Regions}
		if columns, err = clients.ColumnsOf(in, old); err != nil {
			t.Fatal(err)
		}
		for i, w := range want {
			got := columns.Row(i)
			if got.Index != w.Index || got.Verdict != w.Verdict {
				t.Fatalf("%v: row %d of an older server is region %d, want %d", o, i, got.Index, w.Index)
			}
		}
	}
}

// The comparison above finds a difference in any column.
func TestColumnsDiffer(t *testing.T) {
	s := start(t, Config{})
	c := clients.New(s.connectCleanly(t))
	f := rawFrame(40, 30, gray8, randomBytes(1200))
	in := inspecting(rect("a", 1, 1, 20, 20, "mean > 300"), rect("b", 5, 5, 39, 29, "mean > 0", "p50 > 0"))
	in.Reductions = clients.AllStatistics()
	in.Reductions.Cooccurrence = &pb.CooccurrenceSpec{Levels: 8, Counts: true}
	in.Reductions.Covered = &pb.CoveredSpec{Histogram: true}
	for _, histogram := range []*pb.HistogramSpec{nil, {Bins: 7, Lower: 10, Upper: 90}} {
		in.Reductions.Histogram = histogram
		all, err := c.Reduce(t.Context(), in, f)
		if err != nil {
			t.Fatal(err)
		}
		asked := clients.AsColumns(in)
		res, err := c.Reduce(t.Context(), asked, f)
		if err != nil {
			t.Fatal(err)
		}
		m := res.Columns
		columns := map[string]*[]byte{"verdict": &m.Verdict, "count": &m.Count, "area": &m.Area, "coverage": &m.Coverage,
			"bounds": &m.Bounds, "centroid": &m.Centroid, "sum": &m.Sum, "squares": &m.SumOfSquares, "min": &m.Min,
			"max": &m.Max, "min_at": &m.MinAt, "max_at": &m.MaxAt, "weighted": &m.WeightedCentroid,
			"name": &m.Name.Text, "counts": &m.Histogram.Counts,
			"expression": &m.Limits.Expression.Text, "limit": &m.Limits.Verdict, "value": &m.Limits.Value,
			"channel": &m.Limits.Channel, "reason": &m.Limits.Reason.Text,
			"pairs": &m.Textures.Pairs, "contrast": &m.Textures.Contrast, "homogeneity": &m.Textures.Homogeneity,
			"energy": &m.Textures.Energy, "correlation": &m.Textures.Correlation, "pair entropy": &m.Textures.Entropy,
			"pair counts": &m.Textures.Counts, "covered count": &m.Covered.Count, "covered sum": &m.Covered.Sum,
			"covered mean": &m.Covered.Mean, "covered variance": &m.Covered.Variance,
			"covered counts": &m.Covered.Histogram.Counts}
		if histogram != nil {
			columns["below"], columns["above"] = &m.Histogram.Below, &m.Histogram.Above
			columns["covered below"], columns["covered above"] = &m.Covered.Histogram.Below, &m.Covered.Histogram.Above
			columns["median"], columns["mode"] = &m.Median, &m.Mode
			columns["distinct"], columns["percentile"] = &m.Distinct, &m.Percentile
		}
		for name, b := range columns {
			if len(*b) == 0 {
				t.Errorf("%s: is empty", name)
				continue
			}
			kept := bytes.Clone(*b)
			(*b)[0] ^= 1
			changed, err := clients.ColumnsOf(asked, res)
			if err == nil {
				err = sameRows(changed, all.Regions)
			}
			if err == nil {
				t.Errorf("%s: a changed column passes", name)
			}
			*b = kept
			if changed, err = clients.ColumnsOf(asked, res); err != nil {
				t.Error(err)
			} else if err := sameRows(changed, all.Regions); err != nil {
				t.Errorf("%s: put back: %v", name, err)
			}
		}
	}
}

// A stream of frames and a line-scan answer in columns, too.
func TestColumnsOfStreams(t *testing.T) {
	s := start(t, Config{})
	c := clients.New(s.connectCleanly(t))
	rng := testseed.New(t, 25, 2)
	b := newBelt(3, 64, 400)
	in := randomInspection(rng, 64, 50, gray8)
	for {
		_, err := c.Reduce(t.Context(), in, rawFrame(64, 50, gray8, b.lines(0, 50)))
		if !isPointless(err) && len(in.GetRegionSet().Regions) > 2 {
			break
		}
		in = randomInspection(rng, 64, 50, gray8)
	}
	o := &pb.ResultOptions{Form: columnsForm, Regions: pb.RegionChoice_REGION_CHOICE_FAILED}
	for _, o := range []*pb.ResultOptions{{Form: columnsForm}, o,
		{Form: columnsForm, Fields: []pb.RegionField{pb.RegionField_REGION_FIELD_VERDICT}}} {
		asked := withResult(in, o)
		frames := func(yield func(*pb.Frame, error) bool) {
			for i := range 4 {
				if !yield(rawFrame(64, 50, gray8, b.lines(50*i, 50*i+50)), nil) {
					return
				}
			}
		}
		n := 0
		for a, err := range c.StreamFrames(t.Context(), asked, frames, clients.StreamOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			want, err := c.Reduce(t.Context(), in, a.Frame)
			if err != nil {
				t.Fatal(err)
			}
			columns, err := clients.ColumnsOf(asked, a.Result)
			if err != nil {
				t.Fatal(err)
			}
			if err := sameRows(columns, chosen(want.Regions, o)); err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 4 {
			t.Errorf("%d answers", n)
		}
		var parts [2][]*pb.PartResult
		for i, in := range []*pb.Inspection{in, asked} {
			call := s.scan(t, scanOpen(in, 64, 40, 50, 50))
			for k := range 10 {
				call.strip(b.strip(uint64(k), 40*k, 40*k+40))
			}
			parts[i] = call.finish().parts
		}
		if len(parts[0]) != 8 || len(parts[1]) != 8 {
			t.Fatalf("%d and %d parts, want 8", len(parts[0]), len(parts[1]))
		}
		for i, want := range parts[0] {
			columns, err := clients.ColumnsOf(asked, parts[1][i])
			if err != nil {
				t.Fatal(err)
			}
			if err := sameRows(columns, chosen(want.Regions, o)); err != nil || parts[1][i].Verdict != want.Verdict {
				t.Fatalf("part %d: %v; verdict %v, want %v", i, err, parts[1][i].Verdict, want.Verdict)
			}
		}
	}
}

// BenchmarkForms is the whole call on a resident frame with 1000 regions of a recipe: rows and columns, over TCP.
func BenchmarkForms(b *testing.B) {
	const w, h = 2880, 1440
	s := start(b, Config{})
	conn := listen(b, s, "tcp")
	c := clients.New(conn)
	ctx := context.Background()
	kept, err := c.PutFrame(ctx, rawFrame(w, h, gray8, randomBytes(w*h)), time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	frame := clients.Resident(kept.GetName())
	recipe := &pb.Recipe{Name: "r", RegionSet: &pb.RegionSet{}}
	for i := range 1000 {
		cw, ch := float64(w)/40, float64(h)/25
		r := &pb.Ring{}
		for k := range 6 {
			sin, cos := math.Sincos(2 * math.Pi * float64(k) / 6)
			r.Xy = append(r.Xy, (float64(i%40)+0.5)*cw+cos*ch/3, (float64(i/40)+0.5)*ch+sin*ch/3)
		}
		recipe.RegionSet.Regions = append(recipe.RegionSet.Regions, &pb.Region{Name: fmt.Sprintf("hexagon %d", i),
			Rings: []*pb.Ring{r}, Limits: []string{"mean in [20, 240]"}})
	}
	if _, err := c.PutRecipe(ctx, recipe, nil); err != nil {
		b.Fatal(err)
	}
	for _, form := range []string{"rows", "columns"} {
		for _, what := range []string{"sums", "all", "verdicts"} {
			b.Run(form+"/"+what, func(b *testing.B) {
				in := clients.UseRecipe("r", 0)
				in.Result = &pb.ResultOptions{}
				switch what {
				case "all":
					in.Reductions = clients.AllStatistics()
				case "verdicts":
					in.Result.Fields = []pb.RegionField{pb.RegionField_REGION_FIELD_VERDICT}
				}
				if form == "columns" {
					in.Result.Form = columnsForm
				}
				b.ReportAllocs()
				var compute float64
				for b.Loop() {
					res, err := c.Reduce(ctx, in, frame)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := clients.ColumnsOf(in, res); err != nil {
						b.Fatal(err)
					}
					compute += res.Times.Compute.AsDuration().Seconds() * 1e3
				}
				b.ReportMetric(compute/float64(b.N), "compute-ms")
			})
		}
	}
}
