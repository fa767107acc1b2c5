package server

import (
	"bytes"
	"encoding/csv"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// located is a part of 160 by 120 pixels with three round marks and a patch, where a shift puts it. mark says which marks
// are there.
func located(dx, dy float64, mark ...bool) *pb.Frame {
	data := make([]byte, 160*120)
	for y := range 120 {
		for x := range 160 {
			px, py := float64(x)-dx+0.5, float64(y)-dy+0.5
			v := 60.
			for k, at := range [][2]float64{{30, 30}, {130, 30}, {30, 90}} {
				if len(mark) > k && !mark[k] {
					continue
				}
				if d := math.Hypot(px-at[0], py-at[1]); d < 7 {
					v += 120 * math.Min(7-d, 1)
				}
			}
			if px >= 70 && px < 90 && py >= 50 && py < 70 {
				v = 100 + math.Trunc(px-70)
			}
			data[y*160+x] = byte(v)
		}
	}
	return rawFrame(160, 120, gray8, data)
}

func fiducialAt(name string, x, y float64) *pb.Fiducial {
	return &pb.Fiducial{Window: rect(name, x-20, y-20, x+20, y+20), At: &pb.Point{X: x, Y: y},
		Kind: pb.FiducialKind_FIDUCIAL_KIND_CIRCLE}
}

func locating() *pb.Inspection {
	in := inspecting(rect("patch", 70, 50, 90, 70, "min >= 100", "count == 400"), rect("free", 100, 80, 110, 90))
	in.GetRegionSet().Locate = &pb.Locate{Fiducials: []*pb.Fiducial{fiducialAt("A", 30, 30), fiducialAt("B", 130, 30),
		fiducialAt("C", 30, 90)}}
	return in
}

// TestLocate: the regions are measured where the part is found, the result says where, and a part that isn't found
// fails, with the reason in all limits.
func TestLocate(t *testing.T) {
	ts := start(t, Config{})
	if _, err := ts.recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: &pb.Recipe{Name: "board",
		RegionSet: locating().GetRegionSet()}}); err != nil {
		t.Fatal(err)
	}
	recipe := &pb.Inspection{Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "board"}}}
	for _, in := range []*pb.Inspection{locating(), recipe} {
		st := ts.open(t, in)
		for _, shift := range [][2]float64{{0, 0}, {5, -3}, {-7, 8}, {-7, 8}} {
			st.send(located(shift[0], shift[1]))
			for _, res := range []*pb.FrameResult{ts.reduced(t, in, located(shift[0], shift[1])), st.recv().GetResult()} {
				l := res.GetLocation()
				if res.GetVerdict() != pb.Verdict_VERDICT_PASS || !l.GetFound() || l.GetReason() != "" || len(l.GetFiducials()) != 3 {
					t.Fatalf("at %v: %v", shift, res)
				}
				want := []float64{1, 0, shift[0], 0, 1, shift[1]}
				for i, v := range res.GetPose().GetAffine() {
					if math.Abs(v-want[i]) > 0.01 {
						t.Errorf("at %v: pose %v", shift, res.GetPose())
					}
				}
				if !proto.Equal(res.GetPose(), l.GetPose()) || l.GetResidual() > 0.01 || math.Abs(l.GetRotation()) > 0.01 {
					t.Errorf("at %v: %v", shift, l)
				}
				if f := l.GetFiducials()[1]; math.Abs(f.GetAt().GetX()-130-shift[0]) > 0.01 || f.GetName() != "B" ||
					f.GetArea() < 120 || f.GetThreshold() < 61 {
					t.Errorf("at %v: %v", shift, f)
				}
			}
		}
		st.send(located(0, 0, true, false, true))
		for _, res := range []*pb.FrameResult{ts.reduced(t, in, located(0, 0, true, false, true)), st.recv().GetResult()} {
			l := res.GetLocation()
			if res.GetVerdict() != pb.Verdict_VERDICT_FAIL || l.GetFound() || res.GetPose() != nil ||
				!strings.Contains(l.GetReason(), `fiducial "B": no bright circle`) || l.GetFiducials()[1].GetFound() ||
				!l.GetFiducials()[0].GetFound() {
				t.Errorf("without a mark: %v", res)
			}
			for _, lim := range res.GetRegions()[0].GetLimits() {
				if lim.GetVerdict() != pb.Verdict_VERDICT_FAIL || lim.Value != nil ||
					!strings.HasPrefix(lim.GetReason(), `the part was not found: fiducial "B"`) {
					t.Errorf("without a mark: %v", lim)
				}
			}
			if res.GetRegions()[0].GetCount() != 0 || res.GetRegions()[1].GetVerdict() != pb.Verdict_VERDICT_UNSPECIFIED {
				t.Errorf("without a mark: %v", res.GetRegions())
			}
		}
		st.end(nil)
	}
	// Without limits, and in columns, the frame fails all the same.
	in := locating()
	in.GetRegionSet().Regions[0].Limits = nil
	if res := ts.reduced(t, in, located(0, 0, false)); res.GetVerdict() != pb.Verdict_VERDICT_FAIL {
		t.Errorf("without limits: %v", res)
	}
	in = locating()
	in.Result = &pb.ResultOptions{Form: columnsForm}
	if res := ts.reduced(t, in, located(0, 0, false)); res.GetVerdict() != pb.Verdict_VERDICT_FAIL ||
		pb.Verdict(res.GetColumns().GetVerdict()[0]) != pb.Verdict_VERDICT_FAIL {
		t.Errorf("in columns: %v", res)
	}
	if l := ts.reduced(t, in, located(0, 0, false)).GetColumns().GetLimits(); !strings.Contains(l.String(),
		"the part was not found") || strings.Contains(l.String(), "outside the frame") {
		t.Errorf("in columns: %v", l)
	}
	in.Result = &pb.ResultOptions{Regions: pb.RegionChoice_REGION_CHOICE_FAILED}
	if res := ts.reduced(t, in, located(0, 0, false)); res.GetVerdict() != pb.Verdict_VERDICT_FAIL ||
		len(res.GetRegions()) != 1 {
		t.Errorf("those that failed: %v", res)
	}
	// A pose of the request goes before.
	in = locating()
	in.Pose = shiftBy(5, 0)
	if res := ts.reduced(t, in, located(5, 0, false)); res.GetVerdict() != pb.Verdict_VERDICT_PASS || res.GetLocation() != nil {
		t.Errorf("with a pose: %v", res)
	}
}

func (ts *testServer) reduced(t *testing.T, in *pb.Inspection, f *pb.Frame) *pb.FrameResult {
	t.Helper()
	res, err := ts.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: f})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetResult()
}

// TestLocateErrors: what can't be located is refused when it is put, with its field, and so are calls that don't
// locate.
func TestLocateErrors(t *testing.T) {
	ts := start(t, Config{})
	for _, c := range []struct {
		change func(*pb.RegionSet)
		want   string
	}{
		{func(s *pb.RegionSet) { s.Locate.Fiducials = nil }, "locate.fiducials"},
		{func(s *pb.RegionSet) { s.Locate.Fiducials[1].At = nil }, "locate.fiducials[1].at"},
		{func(s *pb.RegionSet) { s.Locate.Fiducials[1].At.X = math.NaN() }, "locate.fiducials[1].at.x"},
		{func(s *pb.RegionSet) { s.Locate.Fiducials[2].Window.Rings[0].Xy = []float64{1, 2, 3} },
			"locate.fiducials[2].window.rings[0].xy = 3 numbers: must be pairs"},
		{func(s *pb.RegionSet) { s.Locate.Fiducials[2].Window.Rings[0].Xy[3] = math.Inf(1) },
			"locate.fiducials[2].window.rings[0].xy[3] = +Inf"},
		{func(s *pb.RegionSet) { s.Locate.Fiducials[0].Window.Limits = []string{"max < 3"} },
			"locate.fiducials[0].window.limits = 1: must not be given"},
		{func(s *pb.RegionSet) {
			s.Locate.Fiducials = s.Locate.Fiducials[:2]
			s.Locate.Model = pb.LocateModel_LOCATE_MODEL_AFFINE
		},
			"locate.fiducials = 2: are too few: the model needs 3"},
		{func(s *pb.RegionSet) { s.Locate.MaxDistortionPercent = 26 }, "locate.max_distortion_percent"},
		{func(s *pb.RegionSet) { s.Regions[1] = &pb.Region{Name: "m", Mask: &pb.Mask{Runs: []int32{1, 2, 3}}} },
			"regions[1].mask"},
		{func(s *pb.RegionSet) { s.Regions[1] = &pb.Region{Name: "c", Shape: "circle(30, 30, 5)"} }, "regions[1].shape"},
	} {
		set := proto.Clone(locating().GetRegionSet()).(*pb.RegionSet)
		c.change(set)
		_, err := ts.recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: &pb.Recipe{Name: "board", RegionSet: set}})
		if err == nil {
			t.Errorf("%s: no error", c.want)
			continue
		}
		wantCanonical(t, err)
		if d := detailsOf(t, err); d.status.Code() != codes.InvalidArgument ||
			!strings.Contains(d.status.Message(), "recipe.region_set."+c.want) {
			t.Errorf("%q lacks %q", d.status.Message(), c.want)
		}
	}
	// An empty pose is no pose, and one that changes nothing is one.
	const empty = "pose = {}: is empty, and the regions have a locate section"
	in := locating()
	in.Pose = &pb.Pose{}
	if _, err := ts.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: located(5, 0)}); err == nil ||
		!strings.Contains(err.Error(), "inspection."+empty) {
		t.Errorf("%v, want %q", err, empty)
	}
	st := ts.open(t, locating())
	st.request(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: located(5, 0)}, Pose: &pb.Pose{}})
	if m := st.recv().GetError().GetMessage(); !strings.HasPrefix(m, empty) {
		t.Errorf("%q, want %q", m, empty)
	}
	st.end(nil)
	in.Pose.Scale = 1
	if res := ts.reduced(t, in, located(0, 0, false)); res.GetVerdict() != pb.Verdict_VERDICT_PASS || res.GetLocation() != nil {
		t.Errorf("as drawn: %v", res)
	}
	similar := locating() // a circle stays one
	similar.GetRegionSet().Regions[1] = &pb.Region{Name: "c", Shape: "circle(30, 30, 5)"}
	similar.GetRegionSet().Locate.Model = pb.LocateModel_LOCATE_MODEL_SIMILARITY
	if res := ts.reduced(t, similar, located(1, 1)); res.GetVerdict() != pb.Verdict_VERDICT_PASS {
		t.Errorf("%v", res)
	}
	c := scanOver(t, ts.conn)
	c.request(openRequest(scanOpen(locating(), 160, 20, 120, 120)))
	if _, err := c.Recv(); err == nil || !strings.Contains(err.Error(), "parts of line-scans aren't located") {
		t.Errorf("a line-scan: %v", err)
	}
	teach, err := pb.NewTeachServiceClient(ts.conn).Teach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := teach.Send(&pb.TeachRequest{Message: &pb.TeachRequest_Open{Open: &pb.TeachOpen{
		Regions: &pb.TeachOpen_RegionSet{RegionSet: locating().GetRegionSet()}}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := teach.CloseAndRecv(); err == nil || !strings.Contains(err.Error(), "open.region_set.locate") {
		t.Errorf("Teach: %v", err)
	}
}

// TestPosedPictures: the history's overlay and the places of previews show regions where they were measured, of results
// in rows and in columns.
func TestPosedPictures(t *testing.T) {
	ts := start(t, Config{HistoryDir: t.TempDir()})
	w := ts.watch(t, &pb.WatchRequest{Preview: &pb.PreviewOptions{Rate: 60, MaxPixels: 1 << 16}})
	in := inspecting(rect("patch", 70, 50, 90, 70, "min < 100"))
	in.Pose = shiftBy(5, -3)
	for n, form := range []pb.ResultForm{pb.ResultForm_RESULT_FORM_UNSPECIFIED, columnsForm} {
		in.Result = &pb.ResultOptions{Form: form}
		st := ts.open(t, in)
		st.send(located(5, -3))
		st.recv()
		st.end(nil)
		all := historyOf(t, ts.conn, t.Context(), nil, n+1)
		_, svg := evidenceOf(t, t.Context(), ts.conn, &pb.GetEvidenceRequest{Id: all[n].GetId(),
			Kind: pb.EvidenceKind_EVIDENCE_KIND_OVERLAY})
		if !strings.Contains(string(svg), "M75 47L95 47L95 67L75 67Z") {
			t.Errorf("%v: %s", form, svg)
		}
		var p *pb.Preview
		for p == nil {
			p = w.event().GetPreview()
		}
		if xy := p.GetPlaces()[0].GetRings()[0].GetXy(); !slices.Equal(xy, []float32{75, 47, 95, 47, 95, 67, 75, 67}) {
			t.Errorf("%v: at %v", form, xy)
		}
	}
}

// TestTryLocating: Try refuses a recipe that locates, to judge by and to judge beside.
func TestTryLocating(t *testing.T) {
	ts := start(t, Config{})
	located := &pb.Recipe{Name: "located", RegionSet: locating().GetRegionSet()}
	plain := &pb.Recipe{Name: "plain", RegionSet: inspecting(rect("r", 0, 0, 4, 4, "mean > 3")).GetRegionSet()}
	for _, m := range []*pb.Recipe{located, plain} {
		if _, err := ts.recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: m}); err != nil {
			t.Fatal(err)
		}
	}
	by := func(name string) *pb.TryOpen_Recipe { return &pb.TryOpen_Recipe{Recipe: &pb.RecipeRef{Name: name}} }
	for want, open := range map[string]*pb.TryOpen{
		"open.recipe = located@1: locates its parts":                  {Regions: by("located")},
		"open.beside = located@1: locates its parts":                  {Regions: by("plain"), Beside: by("located").Recipe},
		"open.draft.region_set.locate = a section: locates its parts": {Regions: &pb.TryOpen_Draft{Draft: located}},
	} {
		try, err := pb.NewTeachServiceClient(ts.conn).Try(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := try.Send(&pb.TryRequest{Message: &pb.TryRequest_Open{Open: open}}); err != nil {
			t.Fatal(err)
		}
		if _, err := try.CloseAndRecv(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestExportNotFound: exported regions of a part that was not found say so in the column error, and no others do.
func TestExportNotFound(t *testing.T) {
	ts := start(t, Config{HistoryDir: t.TempDir()})
	ts.reduced(t, locating(), located(0, 0, true, false, true))
	ts.reduced(t, locating(), located(0, 0))
	historyOf(t, ts.conn, t.Context(), nil, 2)
	call, err := pb.NewHistoryServiceClient(ts.conn).ExportParts(t.Context(),
		&pb.ExportPartsRequest{Rows: pb.ExportRows_EXPORT_ROWS_REGIONS})
	if err != nil {
		t.Fatal(err)
	}
	var file []byte
	for m, err := call.Recv(); err == nil; m, err = call.Recv() {
		file = append(file, m.GetData()...)
	}
	lines, err := csv.NewReader(bytes.NewReader(file)).ReadAll()
	if err != nil || len(lines) != 1+4 {
		t.Fatalf("%q: %v", lines, err)
	}
	at := func(line int, column string) string { return lines[line][slices.Index(lines[0], column)] }
	for i := 1; i < len(lines); i++ {
		lost := at(i, "region") == "patch" && at(i, "verdict") == "FAIL"
		if got := at(i, "error"); strings.HasPrefix(got, `the part was not found: fiducial "B"`) != lost || !lost && got != "" {
			t.Errorf("%q", lines[i])
		}
	}
}

// TestLocationKept: the history, its files and Watch tell where each part lay, or why it was not found; such a part has
// that reason whether its regions have limits or not.
func TestLocationKept(t *testing.T) {
	ts := start(t, Config{HistoryDir: t.TempDir()})
	w := ts.watch(t, &pb.WatchRequest{Kinds: []pb.WatchKind{pb.WatchKind_WATCH_KIND_VERDICT}})
	bare := locating()
	bare.GetRegionSet().Regions[0].Limits = nil
	posed := inspecting(locating().GetRegionSet().GetRegions()[0])
	posed.Pose = shiftBy(5, -3)
	plain := inspecting(locating().GetRegionSet().GetRegions()[0])
	cases := []struct {
		in     *pb.Inspection
		frame  *pb.Frame
		want   string // beginning of the reason
		shift  []float64
		search bool
	}{
		{locating(), located(5, -3), "", []float64{5, -3}, true},
		{locating(), located(0, 0, true, false, true), `the part was not found: fiducial "B"`, nil, true},
		{bare, located(0, 0, true, false, true), `the part was not found: fiducial "B"`, nil, true},
		{posed, located(5, -3), "", []float64{5, -3}, false},
		{plain, located(0, 0), "", nil, false},
	}
	for _, c := range cases {
		res := ts.reduced(t, c.in, c.frame)
		var v *pb.WatchVerdict
		for v == nil {
			v = w.event().GetVerdict()
		}
		want := proto.CloneOf(res.GetLocation())
		if want != nil {
			want.Fiducials = nil
		}
		if !proto.Equal(v.GetLocation(), want) || !proto.Equal(v.GetPose(), res.GetPose()) {
			t.Errorf("watched: %v, want %v and %v", v, want, res.GetPose())
		}
	}
	st := ts.open(t, bare)
	st.send(cases[1].frame)
	st.recv()
	st.end(nil)
	for i, p := range historyOf(t, ts.conn, t.Context(), nil, len(cases)+1) {
		c := cases[min(i, len(cases)-1)]
		if i == len(cases) { // of the stream
			c = cases[2]
		}
		if !strings.HasPrefix(p.GetReason(), c.want) || c.want == "" && p.GetReason() != "" {
			t.Errorf("part %d: %q, want %q", i, p.GetReason(), c.want)
		}
		v := p.GetPose().GetAffine()
		if (v == nil) != (c.shift == nil) || v != nil && math.Hypot(v[2]-c.shift[0], v[5]-c.shift[1]) > 0.05 {
			t.Errorf("part %d: at %v, want %v", i, v, c.shift)
		}
		if l := p.GetLocation(); (l != nil) != c.search || c.search && l.GetFound() != (c.want == "") ||
			l.GetReason() != strings.TrimPrefix(p.GetReason(), "the part was not found: ") || l.GetFiducials() != nil {
			t.Errorf("part %d: %v", i, l)
		}
	}
	for rows, want := range map[pb.ExportRows][]string{
		pb.ExportRows_EXPORT_ROWS_PARTS: {"id,at,method,name,part_id,recipe,recipe_version,server_id,stream_id,result_number," +
			"part_number,first_line,frame_id,verdict,reason,late,incomplete,missing_lines,error,latency_ms,queue_ms,compute_ms," +
			"regions,failed_regions,backend,tenant,evidence,found,pose_a,pose_b,pose_c,pose_d,pose_e,pose_f,residual\r\n",
			",true,1", ",false,,,,,,,\r\n", ",,1,0,5,0,1,-3,\r\n", ",,,,,,,,\r\n"},
		pb.ExportRows_EXPORT_ROWS_REGIONS: {`the part was not found: fiducial ""B""`},
	} {
		call, err := pb.NewHistoryServiceClient(ts.conn).ExportParts(t.Context(), &pb.ExportPartsRequest{Rows: rows})
		if err != nil {
			t.Fatal(err)
		}
		var file []byte
		for m, err := call.Recv(); err == nil; m, err = call.Recv() {
			file = append(file, m.GetData()...)
		}
		for _, text := range want {
			if !bytes.Contains(file, []byte(text)) {
				t.Errorf("%v: %s lacks %q", rows, file, text)
			}
		}
		// Each region of a part that was not found says so where none has a limit: two parts of two, and one of one.
		if n := strings.Count(string(file), "the part was not found"); rows == pb.ExportRows_EXPORT_ROWS_REGIONS && n != 5 {
			t.Errorf("%d rows say why: %s", n, file)
		}
	}
}

// TestFoundPoseAsked: a limit that can't fail where a part was found is no error, and is one where a request asks for
// that very pose afterwards: what is kept of the one is not taken for the other.
func TestFoundPoseAsked(t *testing.T) {
	ts := start(t, Config{})
	set := locating().GetRegionSet()
	// Drawn over the centres of 21 columns, and of 20 where it is moved by a fraction of a pixel.
	set.Regions[0] = rect("patch", 70.498, 50, 90.502, 70, "count of pixels above 0 <= 400")
	if _, err := ts.recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: &pb.Recipe{Name: "board",
		RegionSet: set}}); err != nil {
		t.Fatal(err)
	}
	recipe := func(pose *pb.Pose) *pb.Inspection {
		return &pb.Inspection{Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "board"}}, Pose: pose}
	}
	frame := located(0.3, 0)
	for range 2 {
		found := ts.reduced(t, recipe(nil), frame)
		if found.GetVerdict() != pb.Verdict_VERDICT_PASS || !found.GetLocation().GetFound() {
			t.Fatalf("%v", found)
		}
		_, err := ts.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: recipe(found.GetPose()), Frame: frame})
		if err == nil || !strings.Contains(err.Error(), "with the pose, can't fail: count of pixels above 0 is 0 to 400") {
			t.Errorf("%v", err)
		}
	}
}
