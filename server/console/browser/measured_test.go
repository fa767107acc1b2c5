package browser

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// asking has textures, correlations and blobs.
func asking() *pb.Reductions {
	return &pb.Reductions{
		Statistics:   []pb.Statistic{pb.Statistic_STATISTIC_COUNT, pb.Statistic_STATISTIC_MEAN},
		Cooccurrence: &pb.CooccurrenceSpec{Offsets: []*pb.PixelOffset{{Dx: 1}}},
		Correlations: []*pb.CorrelationTerm{{Kind: pb.CorrelationKind_CORRELATION_KIND_LAG,
			Offset: &pb.PixelOffset{Dy: 2}}},
		Blobs: &pb.BlobSpec{Upper: proto.Float64(60), MinArea: 12},
	}
}

// The page Recipe shows the textures, correlations and blobs that a recipe asks for, judges limits on them, draws the
// outlines of the blobs, and saves a recipe as it was but for what was changed.
func TestRecipeMeasures(t *testing.T) {
	s := serve(t, "")
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	recipes := pb.NewRecipeServiceClient(conn)
	metal, err := os.ReadFile(testdata("metal.png"))
	if err != nil {
		t.Fatal(err)
	}
	golden, err := pb.NewFrameServiceClient(conn).PutFrame(t.Context(), &pb.PutFrameRequest{
		Frame: &pb.Frame{Encoding: pb.Encoding_ENCODING_PNG, Source: &pb.Frame_Data{Data: metal}}})
	if err != nil {
		t.Fatal(err)
	}
	want := &pb.Recipe{Name: "metal", Reductions: asking(),
		Frames: map[string]string{"golden": golden.GetFrame().GetName()},
		RegionSet: &pb.RegionSet{Regions: []*pb.Region{
			{Name: "pits", Limits: []string{"blobs(area > 12) == 0"},
				Rings: []*pb.Ring{{Xy: []float64{215, 305, 335, 305, 335, 425, 215, 425}}}},
			{Name: "all of it", Limits: []string{`ncc of "golden" > 0.99`},
				Rings: []*pb.Ring{{Xy: []float64{0, 0, 1024, 0, 1024, 512, 0, 512}}}},
		}}}
	if _, err := recipes.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: want}); err != nil {
		t.Fatal(err)
	}
	e := s.editor(t, "?recipe=metal")
	e.await(`document.querySelectorAll(".list .regions button").length === 2`)
	e.frame(testdata("metal.png"))
	e.verdict("fail")
	e.do(`document.querySelector(".list .regions button").click()`)
	for _, name := range []string{"texture (1, 0): contrast", "correlation at (0, 2)", "blobs", "largest blob"} {
		e.until(name, func() bool { return e.number(name) != "" && !strings.Contains(e.number(name), "–") })
	}
	var found, kept int
	if _, err := fmt.Sscanf(e.number("blobs"), "%d of %d found", &kept, &found); err != nil || kept < 5 ||
		found < kept {
		t.Fatalf("blobs: %q: %v", e.number("blobs"), err)
	}
	e.until("the outline of each blob", func() bool { // drawn after the numbers
		outlines := eval[string](e.tab, `document.querySelector(".editor .blobs")?.getAttribute("d") ?? ""`)
		return strings.Count(outlines, "M") >= kept
	})
	e.shot("recipe-blobs")
	e.axe("blobs")
	e.save("", "version 2")
	got, err := recipes.GetRecipe(t.Context(), &pb.GetRecipeRequest{Recipe: &pb.RecipeRef{Name: "metal"}})
	if err != nil {
		t.Fatal(err)
	}
	if r := got.GetRecipe(); !proto.Equal(r.GetReductions(), want.GetReductions()) ||
		!maps.Equal(r.GetFrames(), want.GetFrames()) {
		t.Errorf("saved: %v, frames %v", r.GetReductions(), r.GetFrames())
	}
}

// The page Live shows them, too, and limits on blobs like all others.
func TestBrowserLiveMeasures(t *testing.T) {
	p := open(t, "")
	conn, err := grpc.NewClient(p.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p.goTo("/live")
	data := make([]byte, 64*64)
	for i := range data {
		data[i] = 200
		if x, y := i%64, i/64; x >= 20 && x < 26 && y >= 20 && y < 24 {
			data[i] = 10
		}
	}
	reduce := func() {
		_, err := pb.NewInspectionServiceClient(conn).Reduce(t.Context(), &pb.ReduceRequest{
			Inspection: &pb.Inspection{Name: "desk", Reductions: asking(),
				Regions: &pb.Inspection_RegionSet{RegionSet: &pb.RegionSet{Regions: []*pb.Region{{Name: "plate",
					Limits: []string{"max blob.area <= 20"},
					Rings:  []*pb.Ring{{Xy: []float64{4, 4, 60, 4, 60, 60, 4, 60}}}}}}}},
			Frame: &pb.Frame{Layout: &pb.FrameLayout{Width: 64, Height: 64,
				PixelFormat: pb.PixelFormat_PIXEL_FORMAT_GRAY8}, Source: &pb.Frame_Data{Data: data}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	const row = `[...document.querySelectorAll(".region .numbers div")].find(
		(d) => d.querySelector("dt").textContent === %q)?.querySelector("dd").textContent ?? ""`
	for name, want := range map[string]string{
		"blobs": "1 of 1 found", "largest blob": "24 pixels", "texture (1, 0): contrast": "",
		"correlation at (0, 2)": "",
	} {
		p.until(name, func() bool {
			reduce()
			got := eval[string](p, fmt.Sprintf(row, name))
			return got != "" && !strings.Contains(got, "–") && strings.HasPrefix(got, want)
		})
	}
	if got := eval[string](p, `document.querySelector(".region .limits").textContent`); !strings.Contains(got,
		"max blob.area") {
		t.Errorf("limits: %q", got)
	}
	p.shot("live-blobs")
	p.axe("blobs")
}
