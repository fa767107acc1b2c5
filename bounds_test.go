package polyscan_test

// The bounds that schemas state are those of the packages behind them.

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/lowpoly"
	"github.com/polyscan/polyscan/polygon"
	_ "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// most says what a field may be at most: a constant, or a call that takes what is in bounds and refuses the rest.
type most struct {
	constant int64
	try      func(n int) error
}

// wire marks bounds that are the protocol's alone: no package behind it has another.
func wire(n int64) most { return most{constant: n} }

func side() most { return most{constant: driver.MaxSide} }

func TestSchemaBounds(t *testing.T) {
	dev, err := kernels.Open(cpu.New(cpu.Options{Threads: 1}), kernels.Config{MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	convert := func(field string, set func(*lowpoly.Options, int)) most {
		return most{try: func(n int) error {
			o := lowpoly.Options{Vertices: 4}
			set(&o, n)
			f := kernels.Picture{Width: 8, Height: 8, Format: driver.Gray8, Data: [][]byte{make([]byte, 64)}}
			_, err := lowpoly.Convert(t.Context(), dev, f, o)
			return about(err, field+" = ", "must be")
		}}
	}
	cycles := most{try: func(n int) error {
		p := &diffusion.Problem{Width: 1, Height: 1, Flags: []uint8{diffusion.Fixed}, Channels: 1, Values: []float32{0}}
		_, err := diffusion.Solve(t.Context(), dev, p, &diffusion.Options{MaxCycles: n})
		return about(err, "max cycles")
	}}
	morph := func(of func(n int) polygon.Morph) most {
		return most{try: func(n int) error {
			steps := []polygon.Morph{of(n)}
			return polygon.Reductions{Blobs: &polygon.BlobSpec{Range: polygon.Span{To: 9}, Steps: steps}}.Validate()
		}}
	}
	bounds := map[string]most{
		"FrameLayout.width":       side(),
		"FrameLayout.height":      side(),
		"RasterizeRequest.width":  side(),
		"RasterizeRequest.height": side(),
		"VoronoiRequest.width":    side(),
		"VoronoiRequest.height":   side(),
		"FrameSize.width":         side(),
		"FrameSize.height":        side(),
		"ScanOpen.part_lines":     side(),
		"HistogramSpec.bins": {try: func(n int) error {
			return polygon.Reductions{Histogram: polygon.HistogramSpec{Bins: n, Lower: 0, Upper: 1}}.Validate()
		}},
		"Reductions.colors":      wire(16),
		"Reductions.derivatives": wire(16),
		"Reductions.percentiles": {try: func(n int) error {
			return polygon.Reductions{Percentiles: make([]float64, n)}.Validate()
		}},
		"Reductions.percentiles[]": {try: func(n int) error {
			return polygon.Reductions{Percentiles: []float64{float64(n)}}.Validate()
		}},
		"CooccurrenceSpec.levels": {try: func(n int) error {
			return polygon.Reductions{Cooccurrence: &polygon.CooccurrenceSpec{Levels: n}}.Validate()
		}},
		"Reductions.correlations": {try: func(n int) error {
			c := make([]polygon.Correlation, n)
			for i := range c {
				c[i].Kind = polygon.Lagged
			}
			return polygon.Reductions{Correlations: c}.Validate()
		}},
		"CorrelationTerm.radius": {try: func(n int) error {
			return polygon.Reductions{Correlations: []polygon.Correlation{{Kind: polygon.Radial, Radius: n}}}.Validate()
		}},
		"CorrelationTerm.frame":         wire(128),
		"Inspection.frames":             wire(128), // names on both sides
		"Recipe.frames":                 wire(128),
		"MaskImage.x":                   {constant: driver.MaxCoord/driver.Subpixel - 1},
		"MaskImage.y":                   {constant: driver.MaxCoord/driver.Subpixel - 1},
		"Pose.affine":                   wire(6),
		"Locate.fiducials":              wire(16), // and those behind it are of server/internal/locate
		"Locate.max_residual":           wire(1000),
		"Locate.max_distortion_percent": wire(25),
		"Fiducial.threshold":            wire(math.MaxUint16),
		"Fiducial.min_area":             {constant: polygon.MostMinArea},
		"Fiducial.max_area":             {constant: polygon.MostMinArea},
		"FlatField.fraction_bits":       {constant: driver.MaxFraction},
		"CooccurrenceSpec.offsets":      {constant: polygon.MaxOffsets},
		"PixelOffset.dx": {try: func(n int) error {
			return polygon.Reductions{Cooccurrence: &polygon.CooccurrenceSpec{Offsets: []polygon.Offset{{DX: n}}}}.Validate()
		}},
		"PixelOffset.dy": {try: func(n int) error {
			return polygon.Reductions{Cooccurrence: &polygon.CooccurrenceSpec{Offsets: []polygon.Offset{{DY: n}}}}.Validate()
		}},
		"BlobSpec.steps": {constant: driver.MaxBlobSteps},
		"BlobSpec.min_area": {try: func(n int) error {
			return polygon.Reductions{Blobs: &polygon.BlobSpec{Range: polygon.Span{To: 9}, MinArea: n}}.Validate()
		}},
		"BlobSpec.max_blobs": {try: func(n int) error {
			return polygon.Reductions{Blobs: &polygon.BlobSpec{Range: polygon.Span{To: 9}, MaxBlobs: n}}.Validate()
		}},
		"Morph.width":                 morph(func(n int) polygon.Morph { return polygon.Morph{Width: n, Height: 1} }),
		"Morph.height":                morph(func(n int) polygon.Morph { return polygon.Morph{Width: 1, Height: n} }),
		"Morph.radius":                morph(func(n int) polygon.Morph { return polygon.Morph{Radius: n} }),
		"Reductions.statistics":       wire(64),
		"DiffusionOptions.tolerance":  wire(255), // the levels of an image
		"DiffusionOptions.max_cycles": cycles,
		"SetAccuracy.tolerance":       wire(255),
		"SetAccuracy.max_cycles":      cycles,
		"ConvertOptions.floor":        convert("floor", func(o *lowpoly.Options, n int) { o.Floor = n }),
		"ConvertOptions.spacing":      convert("spacing", func(o *lowpoly.Options, n int) { o.Spacing = n }),
		"ConvertOptions.border":       convert("border", func(o *lowpoly.Options, n int) { o.Border = n }),
		"ConvertOptions.cell":         convert("cell", func(o *lowpoly.Options, n int) { o.Cell = n }),
		"ConvertOptions.strength":     convert("strength", func(o *lowpoly.Options, n int) { o.Strength = n }),
		"ConvertOptions.hold":         convert("hold", func(o *lowpoly.Options, n int) { o.Hold = n }),

		"ResultOptions.fields":           wire(64),
		"Frame.frame_id":                 wire(256),
		"Frame.resident":                 wire(128),
		"GetFrameRequest.name":           wire(128),
		"ReleaseFrameRequest.name":       wire(128),
		"Recipe.description":             wire(4096),
		"ListRecipesRequest.name_prefix": wire(128),
		"ListRecipesRequest.page_size":   wire(1000),
		"ListRecipesRequest.page_token":  wire(512),
		"ListFramesRequest.page_size":    wire(1000),
		"ListFramesRequest.page_token":   wire(512),
		"ScanOpen.reorder_strips":        wire(64),
		"ScanOpen.camera_id":             wire(64),
		"ScanOpen.source":                wire(256),
		"ScanResume.session_token":       wire(64),
		"Strip.part_starts":              wire(4096),
		"Strip.part_ids":                 wire(4096),
		"Strip.lost_part_ids":            wire(4096),
		"WatchRequest.names":             wire(64),
		"WatchRequest.names[]":           wire(65), // a name, and a star
		"WatchRequest.recipes":           wire(64),
		"WatchRequest.kinds":             wire(16),
		"WatchResume.server_id":          wire(64),
		"PartFilter.names":               wire(64),
		"PartFilter.names[]":             wire(65), // a name, and a star
		"PartFilter.recipes":             wire(64),
		"PartFilter.recipe_version":      wire(math.MaxInt64),
		"PartFilter.verdicts":            wire(3),
		"PartFilter.region":              wire(256),
		"PartFilter.part_id":             wire(128),
		"PartFilter.marks":               wire(8),
		"StreamRef.server_id":            wire(64),
		"StreamRef.stream_id":            wire(math.MaxInt64),
		"StreamRef.result_number":        wire(math.MaxInt64),
		"ListPartsRequest.page_size":     wire(1000),
		"ListPartsRequest.page_token":    wire(512),
		"GetParetoRequest.limit":         wire(1000),
		"GetSeriesRequest.region":        wire(256),
		"GetSeriesRequest.quantity":      wire(32),
		"GetSeriesRequest.limit":         wire(10000),
		"GetSeriesRequest.subgroup":      wire(25),
		"GetEvidenceRequest.id":          wire(math.MaxInt64),
		"GetEvidenceRequest.max_pixels":  wire(1 << 22),
		"ListAuditRequest.recipe":        wire(128),
		"ListAuditRequest.page_size":     wire(1000),
		"ListAuditRequest.page_token":    wire(512),
		"PreviewOptions.rate":            wire(60),
		"PreviewOptions.max_pixels":      wire(1 << 18),
		"TeachOpen.quantities":           wire(16),
		"Margin.sigma":                   wire(100),
		"QuantileMargin.share_percent":   wire(1000),
	}
	stated := schemaBounds()
	for name, n := range stated {
		b, ok := bounds[name]
		switch {
		case !ok:
			t.Errorf("%s: at most %d by its schema, and nothing here says whose bound that is", name, n)
		case b.try == nil && b.constant != n:
			t.Errorf("%s: at most %d by its schema, and %d", name, n, b.constant)
		case b.try != nil && b.try(int(n)) != nil:
			t.Errorf("%s: at most %d by its schema, and refused: %v", name, n, b.try(int(n)))
		case b.try != nil && b.try(int(n)+1) == nil:
			t.Errorf("%s: at most %d by its schema, and more is taken", name, n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(bounds)) {
		if _, ok := stated[name]; !ok {
			t.Errorf("%s: no schema states a bound", name)
		}
	}
}

// about returns err where it is a violation that says all of the words.
func about(err error, words ...string) error {
	var bad *kernels.InvalidError
	for _, w := range words {
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), w) {
			return nil
		}
	}
	return err
}

// schemaBounds are what fields may be at most, by the annotations of the schemas: "Message.field", with "[]" behind it
// for each item.
func schemaBounds() map[string]int64 {
	out := map[string]int64{}
	var messages func(ms protoreflect.MessageDescriptors)
	messages = func(ms protoreflect.MessageDescriptors) {
		for i := range ms.Len() {
			messages(ms.Get(i).Messages())
			fields := ms.Get(i).Fields()
			for j := range fields.Len() {
				if rules, ok := proto.GetExtension(fields.Get(j).Options(), validate.E_Field).(*validate.FieldRules); ok {
					addBounds(out, fmt.Sprintf("%s.%s", ms.Get(i).Name(), fields.Get(j).Name()), rules.ProtoReflect())
				}
			}
		}
	}
	protoregistry.GlobalFiles.RangeFilesByPackage("polyscan.v1", func(f protoreflect.FileDescriptor) bool {
		messages(f.Messages())
		return true
	})
	return out
}

func addBounds(out map[string]int64, name string, rules protoreflect.Message) {
	rules.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Name() == "items":
			addBounds(out, name+"[]", v.Message())
		case f.Kind() == protoreflect.MessageKind && !f.IsList():
			addBounds(out, name, v.Message())
		case slices.Contains([]protoreflect.Name{"lte", "max_len", "max_bytes", "max_items"}, f.Name()):
			n, err := strconv.ParseInt(v.String(), 10, 64)
			if err != nil { // of a number with a fraction
				f, err := strconv.ParseFloat(v.String(), 64)
				if err != nil {
					panic(err)
				}
				n = int64(f)
			}
			out[name] = n
		}
		return true
	})
}
