package server

import (
	"encoding/binary"
	"image"
	"image/color"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/budget"
)

// imaged is a region whose mask is an image, with its first pixel at (x, y).
func imaged(name string, f *pb.Frame, x, y int32) *pb.Region {
	return &pb.Region{Name: name, Mask: &pb.Mask{Image: &pb.MaskImage{Frame: f, X: x, Y: y}}}
}

// blot is a mask of 23x17 pixels as an image, and its runs with its first pixel at (x, y).
func blot(x, y int) (*image.Gray, []int32) {
	m := image.NewGray(image.Rect(0, 0, 23, 17))
	for i := range m.Pix {
		if px, py := i%23, i/23; (px*px+3*py*py+px*py)%7 < 3 || px == 22 || py == 16 {
			m.Pix[i] = byte(1 + i%255)
		}
	}
	var runs []int32
	for _, u := range polygon.MaskOf(m, x, y) {
		runs = append(runs, u.Y, u.X0, u.X1)
	}
	return m, runs
}

// blots are the ways in which that mask can come in a message, of any format.
func blots(t testing.TB, m *image.Gray) map[string]*pb.Frame {
	wide, rgba := image.NewGray16(m.Rect), image.NewNRGBA(m.Rect)
	two := image.NewPaletted(m.Rect, color.Palette{color.Black, color.RGBA{0, 0, 9, 255}})
	bgr, gaps := make([]byte, 3*len(m.Pix)), make([]byte, 32*17)
	for i, v := range m.Pix {
		wide.Pix[2*i+i%2] = v
		rgba.Pix[4*i+i%3], rgba.Pix[4*i+3] = v, 255
		if v != 0 {
			two.Pix[i] = 1
		} else {
			rgba.Pix[4*i+3] = byte(255 * (i % 2)) // what is black may be transparent
		}
		bgr[3*i+i%3] = v
		gaps[i/23*32+i%23] = v
	}
	for i := range gaps {
		if i%32 >= 23 {
			gaps[i] = 77
		}
	}
	strided := rawFrame(23, 17, gray8, gaps)
	strided.Layout.Stride = 32
	le := make([]byte, len(wide.Pix))
	for i := range m.Pix {
		binary.LittleEndian.PutUint16(le[2*i:], binary.BigEndian.Uint16(wide.Pix[2*i:]))
	}
	return map[string]*pb.Frame{
		"PNG": fileFrame(encodePicture(t, "png", m)), "BMP": fileFrame(encodePicture(t, "bmp", m)),
		"PNG of 16 bits":     fileFrame(encodePicture(t, "png", wide)),
		"PNG with alpha":     fileFrame(encodePicture(t, "png", rgba)),
		"PNG with a palette": fileFrame(encodePicture(t, "png", two)), "GRAY8": rawFrame(23, 17, gray8, m.Pix),
		"GRAY8 with a stride": strided, "GRAY16LE": rawFrame(23, 17, gray16, le),
		"BGR8": rawFrame(23, 17, pb.PixelFormat_PIXEL_FORMAT_BGR8, bgr),
	}
}

// TestMaskImages: a mask that is an image is the mask of its runs, however it comes and whatever takes it; recipes keep
// the runs.
func TestMaskImages(t *testing.T) {
	s := start(t, Config{})
	m, runs := blot(5, -3)
	b := newBelt(3, 32, 260) // parts are whole once their regions are
	frame := rawFrame(32, 40, gray8, b.lines(0, 40))
	limits := []string{"count > 90", "coverage > 0.2"}
	as := func(r *pb.Region) *pb.Inspection {
		r.Limits = limits
		return inspecting(rect("a", 2, 3, 20, 9), r)
	}
	want, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: as(masked("m", runs...)), Frame: frame})
	if err != nil {
		t.Fatal(err)
	}
	if r := want.GetResult().GetRegions()[1]; r.GetCount() < 90 || r.GetVerdict() != pb.Verdict_VERDICT_PASS {
		t.Fatalf("%v", r)
	}
	frames := blots(t, m)
	for _, kind := range slices.Collect(maps.Keys(frames)) {
		frames["resident "+kind] = keptFrame(s.frameClient().put(t, frames[kind]).GetName())
	}
	for kind, f := range frames {
		in := as(imaged("m", f, 5, -3))
		got, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: frame})
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if !sameNumbers(got.GetResult(), want.GetResult()) {
			t.Errorf("%s: %v, want %v", kind, got, want)
		}
		st := s.open(t, in)
		st.send(frame)
		if r := st.recv(); !sameNumbers(r.GetResult(), want.GetResult()) {
			t.Errorf("%s, in a stream: %v, want %v", kind, r, want)
		}
		st.end(nil)
		if _, err := s.recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: &pb.Recipe{Name: "m",
			RegionSet: in.GetRegionSet()}}); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		kept, err := s.recipe.GetRecipe(t.Context(), &pb.GetRecipeRequest{Recipe: &pb.RecipeRef{Name: "m"}})
		if err != nil || !proto.Equal(kept.GetRecipe().GetRegionSet(), as(masked("m", runs...)).GetRegionSet()) {
			t.Errorf("%s: the recipe is %v, %v", kind, kept, err)
		}
		res, err := s.inspection.Rasterize(t.Context(), &pb.RasterizeRequest{Width: 32, Height: 40,
			Regions: &pb.RasterizeRequest_RegionSet{RegionSet: in.GetRegionSet()}})
		if err != nil || res.GetCounts()[1] != want.GetResult().GetRegions()[1].GetCount() {
			t.Errorf("%s: rasterised %v, %v", kind, res.GetCounts(), err)
		}
	}
	call := s.scan(t, scanOpen(as(imaged("m", frames["PNG"], 5, -3)), 32, 16, 40, 33))
	for n := range uint64(20) {
		call.strip(b.strip(n, int(n)*10, int(n)*10+10))
	}
	parts := call.finish().parts
	if len(parts) < 4 {
		t.Fatalf("%d parts", len(parts))
	}
	for _, p := range parts {
		if !p.GetIncomplete() {
			s.wantPart(t, p, as(masked("m", runs...)), b, 40)
		}
	}
	s.idleHost(t)
}

// A mask that comes as an image again and again is decoded for the first two calls alone; its regions are prepared, as
// those of others are.
func TestMaskImagesKept(t *testing.T) {
	s := start(t, Config{})
	noise := image.NewGray(image.Rect(0, 0, 120, 90))
	for i := range noise.Pix {
		noise.Pix[i] = byte(i * i >> 3 & 16)
	}
	file := encodePicture(t, "png", noise)
	file = append(file, make([]byte, max(0, 5000-len(file)))...) // what is shorter is read in no time
	in := inspecting(imaged("m", fileFrame(file), 0, 0))
	frame := noisyFrame(200, 200, 1)
	var first *pb.FrameResult
	for i := range 5 {
		res, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: frame})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = res.GetResult()
		}
		if !sameNumbers(res.GetResult(), first) {
			t.Errorf("call %d: %v, want %v", i, res.GetResult(), first)
		}
		decoded := gather(t, s.gatherer).sum(t, "polyscan_frames_total", "encoding", "png")
		p := s.inspector.Prepared.Stats()
		if want := min(i+1, 2); int(decoded) != want || int(p.Misses) != min(i, 1) || int(p.Hits) != max(i-1, 0) {
			t.Errorf("call %d: %v files were decoded, want %d; %+v", i, decoded, want, p)
		}
	}
	if n := s.host.Used(budget.RegionSets); n < int64(len(file)) || n > 1<<20 {
		t.Errorf("%d bytes count as kept", n)
	}
	// Pixels that are elsewhere may be others by the next call, and an image that can't be used is refused each time.
	kept := keptFrame(s.frameClient().put(t, rawFrame(23, 17, gray8, make([]byte, 23*17))).GetName())
	other := inspecting(imaged("m", kept, 0, 0), rect(strings.Repeat("n", 250), 0, 0, 9, 9))
	for range 40 {
		other.GetRegionSet().Regions = append(other.GetRegionSet().Regions, star("s", 8, 40, 50, 9))
	}
	bad := inspecting(imaged("m", fileFrame(append(slices.Clone(file[:200]), make([]byte, 5000)...)), 0, 0))
	for range 3 {
		if _, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: other, Frame: frame}); err != nil {
			t.Fatal(err)
		}
		_, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: bad, Frame: frame})
		wantRefused(t, err, "inspection.region_set.regions[0].mask.image.frame.data")
	}
	if p := s.inspector.Prepared.Stats(); p.Misses != 1 {
		t.Errorf("%+v", p)
	}
	s.idleHost(t)
}

func TestRefusesMaskImages(t *testing.T) {
	s := start(t, Config{MaxRegionVertices: 100, MaxFramePixels: 1000})
	m, _ := blot(0, 0)
	good := fileFrame(encodePicture(t, "png", m))
	seen := image.NewNRGBA(image.Rect(0, 0, 3, 3))
	seen.SetNRGBA(2, 1, color.NRGBA{0, 9, 0, 254})
	many := image.NewGray(image.Rect(0, 0, 30, 30))
	for i := range many.Pix {
		many.Pix[i] = byte(i % 2)
	}
	both := masked("m", 1, 2, 3)
	both.Mask.Image = imaged("", good, 0, 0).Mask.Image
	rings := imaged("m", good, 0, 0)
	rings.Rings = rect("", 0, 0, 1, 1).Rings
	packed := rawFrame(4, 1, pb.PixelFormat_PIXEL_FORMAT_MONO10P, make([]byte, 5))
	const at = "inspection.region_set.regions[1].mask"
	for _, c := range []struct {
		region *pb.Region
		field  string
		words  []string
	}{
		{imaged("m", nil, 0, 0), at + ".image.frame", nil},
		{imaged("m", &pb.Frame{}, 0, 0), at + ".image.frame.layout", []string{"raw pixels"}},
		{imaged("m", fileFrame([]byte("text")), 0, 0), at + ".image.frame.data", []string{"PNG, JPEG, TIFF or BMP"}},
		{imaged("m", rawFrame(3, 3, gray8, make([]byte, 8)), 0, 0), at + ".image.frame.data", []string{"8 bytes", "9 bytes"}},
		{imaged("m", rawFrame(100, 11, gray8, make([]byte, 1100)), 0, 0), at + ".image.frame.layout",
			[]string{"100 x 11", "1000"}},
		{imaged("m", packed, 0, 0), at + ".image.frame.layout.pixel_format", []string{"MONO10P"}},
		{imaged("m", fileFrame(encodePicture(t, "png", seen)), 0, 0), at + ".image.frame",
			[]string{"pixel (2, 1)", "not opaque"}},
		{imaged("m", fileFrame(encodePicture(t, "png", many)), 0, 0), at, []string{"more than 100 runs", "limit"}},
		{imaged("m", good, 1<<22, 0), at + ".image.x", []string{"4194304", "4194303"}},
		{imaged("m", good, 0, 1<<22-5), at + ".runs[", []string{"4194304"}},
		{imaged("m", &pb.Frame{FrameId: string(make([]byte, 300))}, 0, 0), at + ".image.frame.frame_id", []string{"256"}},
		{both, at + ".image", []string{"3 numbers"}},
		{rings, at, []string{"1 rings"}},
	} {
		_, err := s.inspection.Reduce(t.Context(),
			&pb.ReduceRequest{Inspection: inspecting(rect("r", 0, 0, 1, 1), c.region), Frame: smallFrame(1)})
		if err == nil {
			t.Errorf("%v is taken", c.region)
			continue
		}
		field := c.field
		if d := detailsOf(t, err); field[len(field)-1] == '[' && d.bad != nil {
			if f := d.bad.FieldViolations[0].Field; len(f) > len(field) && f[:len(field)] == field {
				field = f
			}
		}
		wantRefused(t, err, field, c.words...)
	}
	// Those of a set together.
	in := inspecting(imaged("a", good, 0, 0), imaged("b", good, 0, 0), imaged("c", good, 0, 0))
	s2 := start(t, Config{MaxFramePixels: 1000})
	_, err := s2.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: smallFrame(1)})
	wantRefused(t, err, "inspection.region_set.regions[2].mask.image.frame", "23 x 17", "1000 pixels")
	// A frame that isn't there, and a window, which takes runs.
	_, err = s.inspection.Reduce(t.Context(), &pb.ReduceRequest{
		Inspection: inspecting(imaged("a", keptFrame("nothing"), 0, 0)), Frame: smallFrame(1)})
	if d := detailsOf(t, err); d.res == nil || d.res.GetResourceName() != "nothing" {
		t.Errorf("%v", err)
	}
	in = inspecting(rect("r", 0, 0, 1, 1))
	in.GetRegionSet().Locate = &pb.Locate{Fiducials: []*pb.Fiducial{{Window: imaged("w", good, 0, 0),
		At: &pb.Point{X: 3, Y: 3}}}}
	_, err = s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: smallFrame(1)})
	if err == nil || !strings.Contains(err.Error(), "mask.image") {
		t.Errorf("a window: %v", err)
	}
	s.idleHost(t)
	s2.idleHost(t)
}

// TestMaskImageSizes: a mask that is an image is never used on a frame of another size without a word.
func TestMaskImageSizes(t *testing.T) {
	s := start(t, Config{})
	file := func(side int) *pb.Frame {
		m := image.NewGray(image.Rect(0, 0, side, side))
		for i := range m.Pix {
			m.Pix[i] = byte(i % 2)
		}
		return fileFrame(encodePicture(t, "png", m))
	}
	limited := func(f *pb.Frame, x, y int32) *pb.Region {
		r := imaged("m", f, x, y)
		r.Limits = []string{"mean < 1"}
		return r
	}
	frame := rawFrame(64, 64, gray8, make([]byte, 64*64))
	const at = "inspection.region_set.regions[%].mask.image.frame"
	for _, c := range []struct {
		name    string
		on      uint32 // side of drawn_on
		regions []*pb.Region
		field   string // refused; none if the frame passes
		words   []string
	}{
		{"the frame's size", 0, []*pb.Region{limited(file(64), 0, 0)}, "", nil},
		{"also drawn on it", 64, []*pb.Region{limited(file(64), 0, 0)}, "", nil},
		{"smaller", 0, []*pb.Region{limited(file(32), 0, 0)}, "frame", []string{"64x64", "32x32"}},
		{"larger", 0, []*pb.Region{limited(file(65), 0, 0)}, "frame", []string{"64x64", "65x65"}},
		{"limits of another region", 0, []*pb.Region{imaged("i", file(32), 0, 0), limited(file(9), 1, 1)}, "frame",
			[]string{"64x64", "32x32"}},
		{"another than drawn_on", 64, []*pb.Region{limited(file(32), 0, 0)}, strings.Replace(at, "%", "0", 1),
			[]string{"32x32", "64x64", "drawn_on"}},
		{"two sizes", 0, []*pb.Region{limited(file(64), 0, 0), limited(file(32), 0, 0)}, strings.Replace(at, "%", "1", 1),
			[]string{"32x32", "64x64", "regions[0]"}},
		{"a patch", 64, []*pb.Region{limited(file(32), 32, 32)}, "", nil},
		{"a patch beside drawn_on", 64, []*pb.Region{limited(file(32), 32, 33)}, strings.Replace(at, "%", "0", 1),
			[]string{"32x32", "(32, 33)", "64x64"}},
		{"a patch before the image", 0, []*pb.Region{limited(file(32), -1, 0), limited(file(64), 0, 0)},
			strings.Replace(at, "%", "0", 1), []string{"(-1, 0)", "64x64", "regions[1]"}},
	} {
		in := inspecting(c.regions...)
		if c.on != 0 {
			in.GetRegionSet().DrawnOn = &pb.FrameSize{Width: c.on, Height: c.on}
		}
		res, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: frame})
		if c.field != "" {
			wantRefused(t, err, c.field, c.words...)
		} else if err != nil || res.GetResult().GetVerdict() != pb.Verdict_VERDICT_PASS {
			t.Errorf("%s: %v, %v", c.name, res, err)
		}
	}
	// A recipe remembers the size.
	_, err := s.recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: &pb.Recipe{Name: "m",
		RegionSet: inspecting(limited(file(32), 0, 0)).GetRegionSet()}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Frame: frame, Inspection: &pb.Inspection{
		Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "m"}}}})
	wantRefused(t, err, "frame", "64x64", "32x32")
	for _, req := range []*pb.RasterizeRequest{
		{Regions: &pb.RasterizeRequest_Recipe{Recipe: &pb.RecipeRef{Name: "m"}}},
		{Regions: &pb.RasterizeRequest_RegionSet{RegionSet: inspecting(limited(file(32), 0, 0)).GetRegionSet()}},
	} {
		req.Width, req.Height = 32, 64
		_, err = s.inspection.Rasterize(t.Context(), req)
		wantRefused(t, err, "width", "32x64", "32x32")
		req.Height = 32
		if _, err = s.inspection.Rasterize(t.Context(), req); err != nil {
			t.Error(err)
		}
	}
	s.idleHost(t)
}
