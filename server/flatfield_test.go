package server

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/server/internal/budget"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// halfGains is a field of a row, whose gain is 1 for a frame's left half and a half for its right one, and whose dark
// value is 10.
func halfGains(width int) *pb.FlatField {
	m := &pb.FlatField{Layout: &pb.FrameLayout{Width: uint32(width), Height: 1, PixelFormat: gray8}, FractionBits: 14,
		Dark: bytes.Repeat([]byte{10}, width)}
	for x := range width {
		m.Gain = append(m.Gain, 0, byte(64>>(2*x/width)))
	}
	return m
}

// tall is a field of 40 columns and so many rows, which changes nothing.
func tall(rows int) *pb.FlatField {
	return &pb.FlatField{Layout: &pb.FrameLayout{Width: 40, Height: uint32(rows), PixelFormat: gray8}, FractionBits: 14,
		Dark: make([]byte, 40*rows), Gain: bytes.Repeat([]byte{0, 64}, 40*rows)}
}

// Calls, streams, line-scan sessions and recipes have frames corrected, those that are compared with among them. A
// recipe keeps its field by its hash, through versions that name it, over a restart, and no longer than it is used.
func TestFlatFields(t *testing.T) {
	dir := t.TempDir()
	s := start(t, Config{RecipeDir: dir})
	c := clients.New(s.connectCleanly(t))
	pixels := bytes.Repeat([]byte{110}, 40*30)
	frame := func() *pb.Frame { return rawFrame(40, 30, gray8, pixels) }
	flat := halfGains(40)
	in := inspecting(rect("left", 0, 0, 20, 30, "mean == 100"), rect("right", 20, 0, 40, 30, "mean == 50"))
	in.FlatField = flat
	passes := func(what string, r *pb.FrameResult, err error) {
		t.Helper()
		if err != nil || r.GetVerdict() != pb.Verdict_VERDICT_PASS {
			t.Errorf("%s: %v, %v", what, r, err)
		}
	}
	res, err := c.Reduce(t.Context(), in, frame())
	passes("a call", res, err)
	kept, err := c.PutFrame(t.Context(), frame(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	res, err = c.Reduce(t.Context(), in, clients.Resident(kept.GetName()))
	passes("a resident frame", res, err)
	for a, err := range c.StreamFrames(t.Context(), in, func(yield func(*pb.Frame, error) bool) {
		for range 2 {
			if !yield(frame(), nil) {
				return
			}
		}
	}, clients.StreamOptions{}) {
		passes("a stream", a.Result, err)
	}
	call := s.scan(t, scanOpen(in, 40, 10, 30, 30))
	for i := range 3 {
		call.strip(&pb.Strip{Sequence: uint64(i), FirstLine: uint64(10 * i),
			Frame: rawFrame(40, 10, gray8, pixels[:400])})
	}
	if got := call.finish(); len(got.parts) != 1 || got.parts[0].Verdict != pb.Verdict_VERDICT_PASS {
		t.Errorf("strips: %+v", got)
	}

	file := func() (names []string) {
		names, _ = filepath.Glob(filepath.Join(dir, "*.flat"))
		return names
	}
	put := func(name string, f *pb.FlatField) error {
		_, err := c.PutRecipe(t.Context(), &pb.Recipe{Name: name, RegionSet: in.GetRegionSet(), FlatField: f}, nil)
		return err
	}
	before := s.host.Used(budget.Recipes)
	if err := put("flat", flat); err != nil {
		t.Fatal(err)
	}
	one := s.host.Used(budget.Recipes) - before
	stored, err := c.GetRecipe(t.Context(), "flat", 0)
	ref := stored.GetFlatField()
	if err != nil || len(ref.GetSha256()) != 64 || ref.Dark != nil || ref.Gain != nil || ref.FractionBits != 14 ||
		ref.GetLayout().GetWidth() != 40 {
		t.Fatalf("%v, %v", stored, err)
	}
	bare := &pb.FlatField{Sha256: ref.GetSha256()}
	for _, err := range []error{put("flat", ref), put("other", bare), put("third", flat)} {
		if err != nil {
			t.Error(err)
		}
	}
	if n := s.host.Used(budget.Recipes) - before; n > 4*one-3*256 {
		t.Errorf("four versions take %d bytes, the first %d", n, one)
	}
	if names := file(); len(names) != 1 || !strings.HasSuffix(names[0], ref.GetSha256()+".flat") {
		t.Errorf("%v", names)
	}
	res, err = c.Reduce(t.Context(), clients.UseRecipe("flat", 0), frame())
	passes("a recipe", res, err)
	good := sequence([]clients.Labeled{{Frame: frame(), Label: pb.FrameLabel_FRAME_LABEL_GOOD}, {Frame: frame()}})
	draft := &pb.Recipe{Name: "draft", RegionSet: in.GetRegionSet(), FlatField: flat}
	for _, open := range []*pb.TryOpen{
		{Regions: &pb.TryOpen_Recipe{Recipe: &pb.RecipeRef{Name: "flat"}}}, {Regions: &pb.TryOpen_Draft{Draft: draft}},
	} {
		tried, err := c.Try(t.Context(), open, good)
		if err != nil || tried.Tally.GoodPassed != 1 || tried.Tally.OtherPassed != 1 {
			t.Errorf("tried: %v, %v", tried, err)
		}
	}
	taught, err := c.Teach(t.Context(), &pb.TeachOpen{Regions: &pb.TeachOpen_Draft{Draft: draft}}, good)
	if err != nil || taught.Limits[0].Mean != 100 || taught.Limits[4].Mean != 50 ||
		!proto.Equal(taught.Recipe.FlatField, ref) {
		t.Errorf("taught: %v, %v", taught, err)
	}
	_, err = c.Reduce(t.Context(), clients.UseRecipe("flat", 0), rawFrame(39, 30, gray8, pixels[:39*30]))
	wantRefused(t, err, "inspection.recipe", "flat_field = 40x1 of GRAY8")
	s.stop(t)

	orphan := filepath.Join(dir, strings.Repeat("0", 64)+".flat")
	if err := os.WriteFile(orphan, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = start(t, Config{RecipeDir: dir})
	c = clients.New(s.connectCleanly(t))
	res, err = c.Reduce(t.Context(), clients.UseRecipe("flat", 1), frame())
	passes("a recipe after a restart", res, err)
	if names := file(); len(names) != 1 {
		t.Errorf("%v", names)
	}
	for _, name := range []string{"flat", "other", "third"} {
		if len(file()) != 1 {
			t.Errorf("the field went before %s", name)
		}
		s.remove(t, name, 0)
	}
	if names := file(); len(names) != 0 || s.host.Used(budget.Recipes) != before {
		t.Errorf("%v and %d bytes are left", names, s.host.Used(budget.Recipes)-before)
	}
	err = put("flat", ref)
	wantRefused(t, err, "recipe.flat_field.sha256", "is that of no field")

	// A field that corrects no frame of the size that the regions were drawn on is an error of the recipe, not of frames.
	for _, d := range []struct {
		field  *pb.FlatField
		limits bool
		ok     bool
	}{{halfGains(40), true, true}, {halfGains(42), true, false}, {halfGains(42), false, true}, {tall(29), true, false},
		{tall(30), true, true}} {
		set := &pb.RegionSet{Regions: []*pb.Region{rect("a", 0, 0, 20, 30)}, DrawnOn: &pb.FrameSize{Width: 40, Height: 30}}
		if d.limits {
			set.Regions[0].Limits = []string{"mean < 50"}
		}
		_, err := c.PutRecipe(t.Context(), &pb.Recipe{Name: "drawn", RegionSet: set, FlatField: d.field}, nil)
		if d.ok && err != nil {
			t.Errorf("%v: %v", d.field.GetLayout(), err)
		} else if !d.ok {
			wantRefused(t, err, "recipe.flat_field", "corrects no frame of 40x30 pixels, on which the regions")
		}
	}
	s.remove(t, "drawn", 0)

	// A recipe whose field is damaged can't be used, and says why.
	if err := put("flat", flat); err != nil {
		t.Fatal(err)
	}
	s.stop(t)
	data, err := os.ReadFile(file()[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	data[len(data)/2] ^= 1
	if err := os.WriteFile(file()[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	s = start(t, Config{RecipeDir: dir})
	c = clients.New(s.connectCleanly(t))
	if _, err := c.Reduce(t.Context(), clients.UseRecipe("flat", 0), frame()); err == nil ||
		!strings.Contains(err.Error(), "flat_field") {
		t.Errorf("a damaged field: %v", err)
	}
}

// What is wrong with a field is said of its fields.
func TestRefusesFlatFields(t *testing.T) {
	s := start(t, Config{})
	frame := rawFrame(40, 3, gray8, make([]byte, 120))
	for _, c := range []struct {
		change      func(*pb.FlatField)
		field, says string
	}{
		{func(f *pb.FlatField) { f.Layout.PixelFormat = 0 }, "layout.pixel_format", "must be given"},
		{func(f *pb.FlatField) { f.Layout.PixelFormat = rgb8 }, "dark", "must hold 120"},
		{func(f *pb.FlatField) { f.Layout.PixelFormat = pb.PixelFormat_PIXEL_FORMAT_MONO12P }, "layout.pixel_format",
			"must be what it is converted to"},
		{func(f *pb.FlatField) { f.Layout.Width = 0 }, "layout.width", "must be 1 to"},
		{func(f *pb.FlatField) { f.Layout.Stride = 41 }, "layout.stride", "must be 40"},
		{func(f *pb.FlatField) { f.Gain = f.Gain[1:] }, "gain", "must hold 80"},
		{func(f *pb.FlatField) { f.Gain[7] = 0 }, "gain", "the first at (3, 0)"},
		{func(f *pb.FlatField) { f.FractionBits = 8 }, "fraction_bits", "must be 9 to 15"},
		{func(f *pb.FlatField) { f.FractionBits = 16 }, "fraction_bits", "15"},
		{func(f *pb.FlatField) { f.Sha256 = strings.Repeat("a", 64) }, "sha256", "is not that of the field"},
		{func(f *pb.FlatField) { f.Sha256 = "A" }, "sha256", "64 hexadecimal digits"},
		{func(f *pb.FlatField) { f.Dark, f.Gain, f.Sha256 = nil, nil, strings.Repeat("a", 64) }, "sha256", "no field"},
	} {
		in := inspecting(rect("r", 0, 0, 4, 3))
		in.FlatField = halfGains(40)
		c.change(in.FlatField)
		_, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: frame})
		wantRefused(t, err, "inspection.flat_field."+c.field, c.says)
	}
	in := inspecting(rect("r", 0, 0, 4, 3))
	in.FlatField = halfGains(41)
	_, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: frame})
	wantRefused(t, err, "inspection.flat_field", "must be of GRAY8 for a frame of 40x3")
	whole := proto.Clone(halfGains(40)).(*pb.FlatField)
	whole.Layout.Height, whole.Dark, whole.Gain = 2, append(whole.Dark, whole.Dark...), append(whole.Gain, whole.Gain...)
	in.FlatField = whole
	_, err = s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: frame})
	wantRefused(t, err, "inspection.flat_field", "40x2 of GRAY8")
	call := scanOver(t, s.conn)
	call.request(openRequest(scanOpen(in, 40, 1, 2, 2)))
	_, err = call.Recv()
	wantRefused(t, err, "open.inspection.flat_field", "must have 1 row")
}
