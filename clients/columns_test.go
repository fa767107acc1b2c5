package clients

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// column is that of values of a fixed size.
func column(values any) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, values)
	if err != nil {
		panic(err)
	}
	return b
}

// twoRows are columns of regions 1 and 4 of 5, in two channels, with everything in them; the histogram has one bin a
// value, of which there are four, or two bins with samples beside them.
func twoRows(full bool) *polyscanv1.RegionColumns {
	m := &polyscanv1.RegionColumns{
		Rows: 2, Regions: 5, Channels: []polyscanv1.Channel{polyscanv1.Channel_CHANNEL_GRAY,
			polyscanv1.Channel_CHANNEL_ALPHA},
		Index:        column([]uint32{1, 4}),
		Verdict:      []byte{1, 2},
		Name:         &polyscanv1.TextColumn{Text: []byte("oneé"), Ends: column([]uint32{3, 5})},
		Count:        column([]uint64{4, 0}),
		Area:         column([]float64{4.5, 1}),
		Coverage:     column([]float64{0.5, math.NaN()}),
		Bounds:       column([]uint32{1, 2, 3, 4, 0, 0, 0, 0}),
		Centroid:     column([]float64{2, 3, math.NaN(), math.NaN()}),
		Sum:          column([]uint64{6, 4, 0, 0}),
		SumOfSquares: column([]uint64{14, 4, 0, 0}),
		Min:          column([]uint32{0, 1, 0, 0}),
		Max:          column([]uint32{3, 1, 0, 0}),
		MinAt:        column([]uint32{1, 2, 1, 3, 0, 0, 0, 0}),
		MaxAt:        column([]uint32{2, 2, 2, 3, 0, 0, 0, 0}),
		Percentiles:  []float64{25, 99.9},

		Skewness:              column([]float64{0, math.NaN(), math.NaN(), math.NaN()}),
		Kurtosis:              column([]float64{1.64, math.NaN(), math.NaN(), math.NaN()}),
		Entropy:               column([]float64{2, 0, math.NaN(), math.NaN()}),
		MeanAbsoluteDeviation: column([]float64{1, 0, math.NaN(), math.NaN()}),
		InterquartileRange:    column([]float64{1.5, 0, math.NaN(), math.NaN()}),
		KolmogorovSmirnov:     column([]float64{0.25, math.NaN(), math.NaN(), math.NaN()}),
		Wasserstein:           column([]float64{7, math.NaN(), math.NaN(), math.NaN()}),
		JensenShannon:         column([]float64{0.5, math.NaN(), math.NaN(), math.NaN()}),
		ChiSquare:             column([]float64{0.75, math.NaN(), math.NaN(), math.NaN()}),
		PlaneX:                column([]float64{-0.5, math.NaN(), math.NaN(), math.NaN()}),
		PlaneY:                column([]float64{3, math.NaN(), math.NaN(), math.NaN()}),
		PlaneResidual:         column([]float64{0.125, math.NaN(), math.NaN(), math.NaN()}),

		WeightedCentroid: column([]float64{1, 2, 3, 4, math.NaN(), math.NaN(), math.NaN(), math.NaN()}),
		Histogram: &polyscanv1.HistogramColumns{Bins: 4, Upper: 4, Full: true,
			Counts: column([]uint32{1, 1, 1, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})},
		Limits: &polyscanv1.LimitColumns{
			Ends: column([]uint32{1, 3}), Verdict: []byte{1, 2, 2}, Channel: []byte{1, 0, 5},
			Expression: &polyscanv1.TextColumn{Text: []byte("abbccc"), Ends: column([]uint32{1, 3, 6})},
			Value:      column([]float64{2, math.NaN(), 7}),
			Reason:     &polyscanv1.TextColumn{Text: []byte("whyhow"), Ends: column([]uint32{0, 3, 6})},
			Parts:      column([]uint32{0, 7, 0}),
		},
		Textures: &polyscanv1.TextureColumns{Levels: 2, Offsets: []*polyscanv1.PixelOffset{{Dx: 1}},
			Pairs:       column([]uint32{3, 2, 0, 0}),
			Contrast:    column([]float64{1.5, 0, math.NaN(), math.NaN()}),
			Homogeneity: column([]float64{0.5, 1, math.NaN(), math.NaN()}),
			Energy:      column([]float64{0.25, 1, math.NaN(), math.NaN()}),
			Entropy:     column([]float64{0.75, 0, math.NaN(), math.NaN()}),
			Correlation: column([]float64{-0.5, math.NaN(), math.NaN(), math.NaN()}),
			Counts:      column([]uint32{1, 2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0})},
		Covered: &polyscanv1.CoveredColumns{Count: column([]float64{3.5, 0}),
			Sum:      column([]float64{7, math.NaN(), 0, math.NaN()}),
			Mean:     column([]float64{2, math.NaN(), math.NaN(), math.NaN()}),
			Variance: column([]float64{2.25, math.NaN(), math.NaN(), math.NaN()}),
			Histogram: &polyscanv1.CoveredHistogramColumns{Bins: 2, Lower: 1, Upper: 3,
				Counts: column([]float64{1.5, 1, 0, 0, 0, 0, 0, 0}), Below: column([]float64{0.25, 0, 0, 0}),
				Above: column([]float64{0.75, 0, 0, 0})}},
		BlobsFound: column([]uint32{9, 0}), BlobsKept: column([]uint32{7, 0}), BlobsSeen: column([]uint32{6, 0}),
		BlobArea: column([]uint64{44, 0}),
		Correlations: &polyscanv1.CorrelationColumns{
			Terms: []*polyscanv1.CorrelationTerm{{Kind: polyscanv1.CorrelationKind_CORRELATION_KIND_RADIAL, Radius: 1}},
			Pairs: column([]uint64{1 << 33, 2, 0, 0}), Product: column([]float64{6.5, 1, math.NaN(), math.NaN()}),
			Covariance:  column([]float64{-1.5, 0, math.NaN(), math.NaN()}),
			Correlation: column([]float64{-0.25, math.NaN(), math.NaN(), math.NaN()})},
		PercentileMethod: polyscanv1.PercentileMethod_PERCENTILE_METHOD_LINEAR,
		Statistics:       AllStatistics().GetStatistics(),
	}
	if !full {
		m.Histogram = &polyscanv1.HistogramColumns{Bins: 2, Lower: 1, Upper: 3,
			Counts: column([]uint32{1, 1, 4, 0, 0, 0, 0, 0}),
			Below:  column([]uint32{1, 0, 0, 0}), Above: column([]uint32{1, 0, 0, 0})}
		m.Median = column([]float64{1.5, 1, math.NaN(), math.NaN()})
		m.Mode, m.Distinct = column([]uint32{0, 1, 0, 0}), column([]uint32{4, 1, 0, 0})
		nan := math.NaN()
		m.Steps, m.Zeros = []float64{0, 0}, []uint32{0, 0} // as where a channel is derived from colours
		m.Mean, m.Variance = column([]float64{1.5, 1, nan, nan}), column([]float64{1.25, 0, nan, nan})
		m.Stddev = column([]float64{math.Sqrt(1.25), 0, nan, nan})
		m.Percentile = column([]float64{0.75, 2.997, 1, 1, nan, nan, nan, nan})
	}
	return m
}

// What a mean, a variance and percentiles come to is written here by hand.
func TestColumns(t *testing.T) {
	for _, full := range []bool{true, false} {
		c, err := ColumnsOf(nil, &polyscanv1.FrameResult{Columns: twoRows(full)})
		if err != nil {
			t.Fatal(err)
		}
		ring := &polyscanv1.CorrelationTerm{Kind: polyscanv1.CorrelationKind_CORRELATION_KIND_RADIAL, Radius: 1}
		want := &polyscanv1.RegionResult{
			Index: 1, Name: "one", Count: 4, Area: 4.5, Coverage: proto.Float64(0.5), Verdict: 1,
			Blobs:        &polyscanv1.RegionBlobs{Found: 9, Kept: 7, Area: 44, TooMany: true},
			CoveredCount: proto.Float64(3.5),
			Bounds:       &polyscanv1.PixelRect{X0: 1, Y0: 2, X1: 3, Y1: 4},
			Centroid:     &polyscanv1.Point{X: 2, Y: 3},
			Limits:       []*polyscanv1.LimitResult{{Expression: "a", Verdict: 1, Channel: 1, Value: proto.Float64(2)}},
			Channels: []*polyscanv1.ChannelStatistics{{
				Channel: polyscanv1.Channel_CHANNEL_GRAY, Count: proto.Uint64(4), Sum: proto.Uint64(6),
				SumOfSquares: proto.Uint64(14), Mean: proto.Float64(1.5), Variance: proto.Float64(1.25),
				Stddev: proto.Float64(math.Sqrt(1.25)), Min: proto.Uint32(0), Max: proto.Uint32(3),
				MinAt: &polyscanv1.PixelPosition{X: 1, Y: 2}, MaxAt: &polyscanv1.PixelPosition{X: 2, Y: 2},
				Median: proto.Float64(1.5), Mode: proto.Uint32(0), Distinct: proto.Uint32(4),
				Percentiles: []*polyscanv1.PercentileValue{{Percentile: 25, Value: 0.75},
					{Percentile: 99.9, Value: 2.997}},
				Histogram:        &polyscanv1.Histogram{Upper: 4, Counts: []uint64{1, 1, 1, 1}},
				WeightedCentroid: &polyscanv1.Point{X: 1, Y: 2},
				Skewness:         proto.Float64(0), Kurtosis: proto.Float64(1.64), Entropy: proto.Float64(2),
				MeanAbsoluteDeviation: proto.Float64(1), InterquartileRange: proto.Float64(1.5),
				Cumulative: []uint64{1, 2, 3, 4}, KolmogorovSmirnov: proto.Float64(0.25), Wasserstein: proto.Float64(7),
				JensenShannon: proto.Float64(0.5), ChiSquare: proto.Float64(0.75), PlaneX: proto.Float64(-0.5),
				PlaneY: proto.Float64(3), PlaneResidual: proto.Float64(0.125),
				Textures: []*polyscanv1.Texture{{Offset: &polyscanv1.PixelOffset{Dx: 1}, Levels: 2, Pairs: 3,
					Contrast: proto.Float64(1.5), Homogeneity: proto.Float64(0.5), Energy: proto.Float64(0.25),
					Correlation: proto.Float64(-0.5), Entropy: proto.Float64(0.75), Counts: []uint32{1, 2, 0, 0}}},
				Covered: &polyscanv1.Covered{Sum: 7, Mean: proto.Float64(2), Variance: proto.Float64(2.25),
					Stddev: proto.Float64(1.5), Histogram: &polyscanv1.CoveredHistogram{Lower: 1, Upper: 3,
						Counts: []float64{1.5, 1}, Below: 0.25, Above: 0.75}},
				Correlations: []*polyscanv1.Correlation{{Of: ring, Pairs: 1 << 33, Product: proto.Float64(6.5),
					Covariance: proto.Float64(-1.5), Correlation: proto.Float64(-0.25)}},
			}, {
				Channel: polyscanv1.Channel_CHANNEL_ALPHA, Count: proto.Uint64(4), Sum: proto.Uint64(4),
				SumOfSquares: proto.Uint64(4), Mean: proto.Float64(1), Variance: proto.Float64(0),
				Stddev: proto.Float64(0), Min: proto.Uint32(1), Max: proto.Uint32(1),
				MinAt: &polyscanv1.PixelPosition{X: 1, Y: 3}, MaxAt: &polyscanv1.PixelPosition{X: 2, Y: 3},
				Median: proto.Float64(1), Mode: proto.Uint32(1), Distinct: proto.Uint32(1),
				Percentiles: []*polyscanv1.PercentileValue{{Percentile: 25, Value: 1},
					{Percentile: 99.9, Value: 1}},
				Histogram:        &polyscanv1.Histogram{Upper: 4, Counts: []uint64{0, 4, 0, 0}},
				WeightedCentroid: &polyscanv1.Point{X: 3, Y: 4},
				Entropy:          proto.Float64(0), MeanAbsoluteDeviation: proto.Float64(0),
				InterquartileRange: proto.Float64(0), Cumulative: []uint64{0, 4, 4, 4},
				Textures: []*polyscanv1.Texture{{Offset: &polyscanv1.PixelOffset{Dx: 1}, Levels: 2, Pairs: 2,
					Contrast: proto.Float64(0), Homogeneity: proto.Float64(1), Energy: proto.Float64(1),
					Entropy: proto.Float64(0), Counts: []uint32{0, 0, 0, 2}}},
				Correlations: []*polyscanv1.Correlation{{Of: ring, Pairs: 2, Product: proto.Float64(1),
					Covariance: proto.Float64(0)}},
			}},
		}
		if !full {
			want.Channels[0].Histogram = &polyscanv1.Histogram{Lower: 1, Upper: 3, Counts: []uint64{1, 1}, Below: 1,
				Above: 1}
			want.Channels[1].Histogram = &polyscanv1.Histogram{Lower: 1, Upper: 3, Counts: []uint64{4, 0}}
			want.Channels[0].Cumulative, want.Channels[1].Cumulative = []uint64{2, 3}, []uint64{4, 4}
		}
		if got := c.Row(0); !proto.Equal(got, want) {
			t.Errorf("full %v: row 0:\n got %v\nwant %v", full, got, want)
		}
		// The second region has no pixels.
		empty := c.Row(1)
		if empty.Name != "é" || empty.Index != 4 || empty.Coverage != nil || empty.Bounds != nil ||
			empty.Centroid != nil || len(empty.Limits) != 2 || empty.Limits[0].Value != nil ||
			empty.Limits[1].Reason != "how" {
			t.Errorf("row 1: %v", empty)
		}
		for ch := range 2 {
			s := empty.Channels[ch]
			if s.Mean != nil || s.Min != nil || s.Median != nil || s.Mode != nil || len(s.Percentiles) > 0 ||
				s.Stddev != nil || s.WeightedCentroid != nil || s.GetCount() != 0 || s.Count == nil ||
				s.Distinct == nil || s.Sum == nil {
				t.Errorf("row 1, channel %d: %v", ch, s)
			}
		}
	}
}

// A column of another length than the message says is refused by its name, as is one whose words don't ascend.
func TestOddColumns(t *testing.T) {
	check := func(want string, change func(m *polyscanv1.RegionColumns)) {
		t.Helper()
		for _, full := range []bool{true, false} {
			m := twoRows(full)
			change(m)
			_, err := ColumnsOf(nil, &polyscanv1.PartResult{Columns: m})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v", want, err)
			}
		}
	}
	// Each column, cut off and with a byte more.
	var walk func(prefix string, of func(*polyscanv1.RegionColumns) protoreflect.Message)
	columns := 0
	walk = func(prefix string, of func(*polyscanv1.RegionColumns) protoreflect.Message) {
		whole := of(twoRows(false))
		fields := whole.Descriptor().Fields()
		for i := range fields.Len() {
			fd := fields.Get(i)
			name := prefix + string(fd.Name())
			switch {
			case fd.IsList():
			case fd.Kind() == protoreflect.MessageKind:
				walk(name+".", func(m *polyscanv1.RegionColumns) protoreflect.Message { return of(m).Mutable(fd).Message() })
			case fd.Kind() == protoreflect.BytesKind && fd.Name() != "text":
				columns++
				if len(whole.Get(fd).Bytes()) == 0 {
					t.Fatalf("%s is empty: nothing is tested", name)
				}
				for _, by := range []int{-1, 1} {
					m := twoRows(false)
					b := of(m).Get(fd).Bytes()
					b = append(slices.Clone(b), 0)[:len(b)+by]
					of(m).Set(fd, protoreflect.ValueOfBytes(b))
					want := name
					if name == "limits.verdict" { // the others are held to it
						want = "limits."
					}
					if _, err := ColumnsOf(nil, &polyscanv1.PartResult{Columns: m}); err == nil ||
						!strings.Contains(err.Error(), "columns: "+want) {
						t.Errorf("%s and %d bytes: error %v", name, by, err)
					}
				}
			}
		}
	}
	walk("", func(m *polyscanv1.RegionColumns) protoreflect.Message { return m.ProtoReflect() })
	if columns < 25 {
		t.Errorf("%d columns seen", columns)
	}
	for _, s := range []*polyscanv1.Scale{{Y: 1}, {X: -1, Y: 1}, {X: 1, Y: math.NaN()}, {X: math.Inf(1), Y: 1},
		{X: 1, Y: 1, Origin: &polyscanv1.Point{X: math.NaN()}},
		{X: 1, Y: 1, Origin: &polyscanv1.Point{Y: math.Inf(-1)}}} {
		check("scale: ", func(m *polyscanv1.RegionColumns) { m.Scale = s })
	}
	check("verdict: 0 bytes, want 2", func(m *polyscanv1.RegionColumns) { m.Verdict = nil })
	check("sum: 0 bytes, want 32", func(m *polyscanv1.RegionColumns) { m.Sum = nil })
	check("index[1]: 1, must be 2 to 4", func(m *polyscanv1.RegionColumns) { m.Index = column([]uint32{1, 1}) })
	check("index[1]: 5, must be 2 to 4", func(m *polyscanv1.RegionColumns) { m.Index = column([]uint32{1, 5}) })
	check("index: 0 bytes", func(m *polyscanv1.RegionColumns) { m.Index = nil })
	check("rows: 2 of 1 regions", func(m *polyscanv1.RegionColumns) { m.Regions = 1 })
	check("histogram: is missing", func(m *polyscanv1.RegionColumns) { m.Histogram = nil })
	check("histogram.counts", func(m *polyscanv1.RegionColumns) { m.Histogram.Bins = math.MaxUint32 })
	check("verdict", func(m *polyscanv1.RegionColumns) {
		m.Rows, m.Regions, m.Index = math.MaxUint32, math.MaxUint32, nil
	})
	check("channels: 65", func(m *polyscanv1.RegionColumns) { m.Channels = make([]polyscanv1.Channel, 65) })
	check("percentiles[0] = NaN", func(m *polyscanv1.RegionColumns) { m.Percentiles[0] = math.NaN() })
	check("name.ends[1]: 2, must be 3 to 5", func(m *polyscanv1.RegionColumns) { m.Name.Ends = column([]uint32{3, 2}) })
	check("name.ends: ends at 4, must end at 5", func(m *polyscanv1.RegionColumns) {
		m.Name.Ends = column([]uint32{3, 4})
	})
	check("limits.ends[1]: 4", func(m *polyscanv1.RegionColumns) { m.Limits.Ends = column([]uint32{1, 4}) })
	check("limits.reason.ends: ends at 5", func(m *polyscanv1.RegionColumns) {
		m.Limits.Reason.Ends = column([]uint32{0, 3, 5})
	})
}

// readAll calls everything that a reader of columns can.
func readAll(c *Columns) {
	for i := range c.Len() {
		c.Row(i)
		for ch := range c.Channels() {
			c.Channel(ch)
			c.Mean(i, ch)
			c.Variance(i, ch)
			c.StdDev(i, ch)
			c.Median(i, ch)
			c.Mode(i, ch)
			c.Distinct(i, ch)
			for _, p := range []float64{0, 1e-300, 33.3, 100, math.NaN(), -1} {
				c.Percentile(i, ch, p)
			}
			h, _ := c.Histogram(i, ch)
			for k := range h.Bins() {
				h.Count(k)
			}
		}
	}
}

// Columns of any bytes are read, or refused by an error that names a column.
func FuzzColumns(f *testing.F) {
	for _, full := range []bool{true, false} {
		b, err := proto.Marshal(&polyscanv1.FrameResult{Columns: twoRows(full)})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		res := &polyscanv1.FrameResult{}
		if proto.Unmarshal(b, res) != nil {
			return
		}
		c, err := ColumnsOf(nil, res)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "clients: columns: ") {
				t.Errorf("error %v", err)
			}
			return
		}
		readAll(c)
	})
}

// Any single change of the bytes of a column, and of the numbers that describe columns, is read or refused.
func TestChangedColumns(t *testing.T) {
	for _, full := range []bool{true, false} {
		whole, err := proto.Marshal(&polyscanv1.FrameResult{Columns: twoRows(full)})
		if err != nil {
			t.Fatal(err)
		}
		read := 0
		for i := range whole {
			for _, x := range []byte{1, 0x80, 0xff} {
				b := slices.Clone(whole)
				b[i] ^= x
				res := &polyscanv1.FrameResult{}
				if proto.Unmarshal(b, res) != nil {
					continue
				}
				if c, err := ColumnsOf(nil, res); err == nil {
					readAll(c)
					read++
				}
			}
		}
		if read == 0 {
			t.Error("nothing was read")
		}
	}
}

// An older server answers with rows of all regions, and these are read as if they were the columns that were asked for.
func TestColumnsOfRows(t *testing.T) {
	rows := []*polyscanv1.RegionResult{
		{Index: 0, Name: "a", Verdict: polyscanv1.Verdict_VERDICT_PASS, Count: 3,
			Channels: []*polyscanv1.ChannelStatistics{
				{Channel: polyscanv1.Channel_CHANNEL_GRAY, Mean: proto.Float64(7), Max: proto.Uint32(9),
					MaxAt: &polyscanv1.PixelPosition{X: 1, Y: 2}}}},
		{Index: 1, Name: "b", Verdict: polyscanv1.Verdict_VERDICT_FAIL, Channels: []*polyscanv1.ChannelStatistics{{}}},
	}
	in := UseRecipe("r", 0)
	c, err := ColumnsOf(AsColumns(in), &polyscanv1.FrameResult{Regions: rows})
	if err != nil {
		t.Fatal(err)
	}
	mean, ok := c.Mean(0, 0)
	at, has := c.MaxAt(0, 0)
	if c.Len() != 2 || c.Channels() != 1 || mean != 7 || !ok || at.X != 1 || at.Y != 2 || !has || c.Row(1) != rows[1] {
		t.Errorf("%d rows of %d channels, mean %v, %v, max at %v, %v", c.Len(), c.Channels(), mean, ok, at, has)
	}
	if _, ok := c.Mean(1, 0); ok {
		t.Error("a region without pixels has a mean")
	}
	readAll(c)
	in.Result = &polyscanv1.ResultOptions{Regions: polyscanv1.RegionChoice_REGION_CHOICE_FAILED}
	c, err = ColumnsOf(AsColumns(in, polyscanv1.RegionField_REGION_FIELD_VERDICT),
		&polyscanv1.FrameResult{Regions: rows})
	if err != nil {
		t.Fatal(err)
	}
	if c.Len() != 1 || c.Index(0) != 1 {
		t.Errorf("%d failed, the first is %d", c.Len(), c.Index(0))
	}
	rows[1].Channels = nil
	if _, err = ColumnsOf(nil, &polyscanv1.FrameResult{Regions: rows}); err == nil {
		t.Error("rows of different channels are read")
	}
}

// older is the schema before there were columns.
func older(t *testing.T, name protoreflect.FullName) protoreflect.MessageDescriptor {
	t.Helper()
	files := &descriptorpb.FileDescriptorSet{}
	seen := map[string]bool{}
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] || strings.HasSuffix(f.Path(), "columns.proto") {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		p := protodesc.ToFileDescriptorProto(f)
		p.Dependency = slices.DeleteFunc(p.Dependency, func(s string) bool {
			return strings.HasSuffix(s, "columns.proto")
		})
		for _, m := range p.MessageType {
			m.Field = slices.DeleteFunc(m.Field, func(f *descriptorpb.FieldDescriptorProto) bool {
				return f.GetTypeName() == ".polyscan.v1.RegionColumns" ||
					f.GetTypeName() == ".polyscan.v1.ResultOptions"
			})
		}
		files.File = append(files.File, p)
	}
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		t.Fatal(err)
	}
	add(d.ParentFile())
	all, err := protodesc.NewFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	if d, err = all.FindDescriptorByName(name); err != nil {
		t.Fatal(err)
	}
	return d.(protoreflect.MessageDescriptor)
}

// Messages with columns cross to programs that don't know them and back: what they know reads as before.
func TestColumnsOnOlderWire(t *testing.T) {
	req := &polyscanv1.ReduceRequest{Inspection: AsColumns(UseRecipe("r", 3))}
	res := &polyscanv1.ReduceResponse{Result: &polyscanv1.FrameResult{Verdict: 2, Backend: "cpu",
		Columns: twoRows(true)}}
	for _, m := range []proto.Message{req, res} {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		old := dynamicpb.NewMessage(older(t, m.ProtoReflect().Descriptor().FullName()))
		if err := proto.Unmarshal(b, old); err != nil {
			t.Fatal(err)
		}
		bare := proto.Clone(m)
		switch m := bare.(type) {
		case *polyscanv1.ReduceRequest:
			m.Inspection.Result = nil
		case *polyscanv1.ReduceResponse:
			m.Result.Columns = nil
		}
		known := proto.Clone(old).ProtoReflect()
		known.Range(func(_ protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			if len(v.Message().GetUnknown()) == 0 {
				t.Errorf("%s: the older schema knows all of it", m.ProtoReflect().Descriptor().Name())
			}
			v.Message().SetUnknown(nil)
			return true
		})
		kb, _ := proto.MarshalOptions{Deterministic: true}.Marshal(known.Interface())
		bb, _ := proto.MarshalOptions{Deterministic: true}.Marshal(bare)
		if string(kb) != string(bb) {
			t.Errorf("%s: the older program reads %v, want %v", m.ProtoReflect().Descriptor().Name(), known, bare)
		}
	}
}
