package server

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

// halves covers half of each pixel in a column and a whole one beside it.
func halves(name string, limits ...string) *pb.Region {
	r := clients.Polygon(name, 1.5, 2, 3, 2, 3, 4, 1.5, 4)
	r.Limits = limits
	return r
}

// Weighted pixels are the same of a request and a recipe, as rows and as columns, of a frame, a stream and a line-scan.
func TestCoveredEverywhere(t *testing.T) {
	s := start(t, Config{})
	c := clients.New(s.connectCleanly(t))
	pixels := randomBytes(8 * 6)
	f := rawFrame(8, 6, gray8, pixels)
	in := inspecting(halves("a", "covered.count == 3", "covered.mean > 300"))
	in.Reductions = &pb.Reductions{Covered: &pb.CoveredSpec{Histogram: true}}
	res, err := c.Reduce(t.Context(), in, f)
	if err != nil {
		t.Fatal(err)
	}
	r := res.Regions[0]
	v := r.Channels[0].GetCovered()
	sum := 0.0
	for y := 2; y < 4; y++ {
		sum += float64(pixels[8*y+1])/2 + float64(pixels[8*y+2])
	}
	n := 0.0
	for _, k := range v.GetHistogram().GetCounts() {
		n += k
	}
	if r.GetCoveredCount() != 3 || v.GetSum() != sum || v.GetMean() != sum/3 || n != 3 || v.Stddev == nil {
		t.Errorf("%v", r)
	}
	if r.Limits[0].Verdict != pb.Verdict_VERDICT_PASS || r.Limits[1].GetValue() != sum/3 {
		t.Errorf("limits %v", r.Limits)
	}
	columns, err := c.Reduce(t.Context(), clients.AsColumns(in), f)
	if err != nil {
		t.Fatal(err)
	}
	m, err := clients.ColumnsOf(in, columns)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Row(0); !proto.Equal(got.Channels[0].Covered, v) || got.GetCoveredCount() != 3 {
		t.Errorf("as a column %v, as a row %v", got, v)
	}
	recipe := &pb.Recipe{Name: "edges", RegionSet: &pb.RegionSet{Regions: []*pb.Region{halves("a")}},
		Reductions: in.Reductions}
	if _, err := c.PutRecipe(t.Context(), recipe, nil); err != nil {
		t.Fatal(err)
	}
	named := clients.UseRecipe("edges", 0)
	for range 2 { // the second finds it prepared
		got, err := c.Reduce(t.Context(), named, f)
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(got.Regions[0].Channels[0].Covered, v) {
			t.Errorf("of a recipe %v, want %v", got.Regions[0], v)
		}
	}
	for a, err := range c.StreamFrames(t.Context(), named, func(yield func(*pb.Frame, error) bool) { yield(f, nil) },
		clients.StreamOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(a.Result.GetRegions()[0].GetChannels()[0].GetCovered(), v) {
			t.Errorf("a stream says %v, want %v", a.Result, v)
		}
	}
	b := belt{width: 8, data: pixels}
	call := s.scan(t, scanOpen(in, 8, 2, 6, 6))
	for k := range 3 {
		call.strip(b.strip(uint64(k), 2*k, 2*k+2))
	}
	found := call.finish()
	if len(found.parts) != 1 || !proto.Equal(found.parts[0].GetRegions()[0].GetChannels()[0].GetCovered(), v) {
		t.Errorf("a line-scan says %v, want %v", found.parts, v)
	}
}

// A result whose histograms no message can carry is refused before anything is computed, and so are regions whose
// boundaries cross too many pixels, by their name.
func TestCoveredTooLarge(t *testing.T) {
	s := start(t, Config{})
	c := clients.New(s.connectCleanly(t))
	var regions []*pb.Region
	for range 9000 {
		regions = append(regions, halves("a"))
	}
	in := inspecting(regions...)
	in.Reductions = &pb.Reductions{Covered: &pb.CoveredSpec{Histogram: true}}
	_, err := c.Reduce(t.Context(), in, rawFrame(8, 6, pb.PixelFormat_PIXEL_FORMAT_GRAY16LE, randomBytes(96)))
	if d := detailsOf(t, err); d.status.Code() != codes.ResourceExhausted ||
		d.info.GetReason() != apierr.ReasonResultTooLarge {
		t.Errorf("thousands of histograms of 16 bits: %v", err)
	}
}
