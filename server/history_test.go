package server

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"image/png"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/polyscan/polyscan/clients"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// all lists parts with all numbers, the oldest first, once there are as many as that; pages are small.
func historyOf(t testing.TB, conn grpc.ClientConnInterface, ctx context.Context, f *pb.PartFilter,
	want int) []*pb.HistoryPart {
	t.Helper()
	c := pb.NewHistoryServiceClient(conn)
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		var all []*pb.HistoryPart
		req := &pb.ListPartsRequest{Filter: f, PageSize: 7, Numbers: pb.RegionNumbers_REGION_NUMBERS_ALL, OldestFirst: true}
		for {
			res, err := c.ListParts(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, res.GetParts()...)
			if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
				break
			}
		}
		if len(all) >= want {
			if len(all) > want {
				t.Fatalf("%d parts in the history, want %d", len(all), want)
			}
			return all
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d parts in the history, want %d", len(all), want)
		}
	}
}

// evidence reads a picture, once it is there.
func evidenceOf(t testing.TB, ctx context.Context, conn grpc.ClientConnInterface,
	req *pb.GetEvidenceRequest) (*pb.EvidenceInfo, []byte) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		call, err := pb.NewHistoryServiceClient(conn).GetEvidence(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		var info *pb.EvidenceInfo
		var data []byte
		for {
			m, err := call.Recv()
			if errors.Is(err, io.EOF) {
				if uint64(len(data)) != info.GetBytes() {
					t.Errorf("%d bytes, and %d were announced", len(data), info.GetBytes())
				}
				return info, data
			} else if err != nil {
				if status.Code(err) == codes.NotFound && time.Now().Before(deadline) {
					break
				}
				t.Fatal(err)
			}
			if m.GetInfo() != nil {
				info = m.GetInfo()
			}
			data = append(data, m.GetData()...)
		}
	}
}

// Calls, streams and line-scan parts are found in the history with the numbers that their callers got, also after the
// server was started anew, and those that failed with their pixels.
func TestHistory(t *testing.T) {
	dir := t.TempDir()
	s := start(t, Config{HistoryDir: dir})
	bright := bytes.Repeat([]byte{200}, 63)
	bright = append(bright, 17)
	in := named(inspecting(rect("pad<&>", 0, 0, 4, 4, "mean < 100"), rect("", 0, 0, 8, 8)), "station 7")
	frame := rawFrame(8, 8, gray8, bright)
	frame.PartId, frame.FrameId = "B-2041-17", "f1"
	res, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: frame})
	if err != nil {
		t.Fatal(err)
	}
	columns := proto.Clone(in).(*pb.Inspection)
	columns.Result = &pb.ResultOptions{Form: pb.ResultForm_RESULT_FORM_COLUMNS}
	columns.Reductions = &pb.Reductions{Statistics: []pb.Statistic{pb.Statistic_STATISTIC_HISTOGRAM,
		pb.Statistic_STATISTIC_MEAN}}
	if _, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: columns, Frame: frame}); err != nil {
		t.Fatal(err)
	}
	frame.Layout.Width = 9
	if _, err := s.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: frame}); err == nil {
		t.Error("9 x 8 pixels in 64 bytes")
	}

	b := newBelt(3, 8, 200)
	call := s.scan(t, scanOpen(named(inspecting(rect("r", 0, 0, 8, 10, "mean < 1")), "camera-3"), 8, 20, 10, 10))
	first := b.strip(0, 0, 20)
	first.PartIds = []string{"A", "B"}
	call.strip(first, b.strip(1, 20, 40), b.strip(3, 60, 80))
	got := call.finish()
	if len(got.parts) < 6 {
		t.Fatalf("%d parts", len(got.parts))
	}

	check := func(s *testServer) {
		t.Helper()
		all := historyOf(t, s.conn, t.Context(), nil, 3+len(got.parts))
		p := all[0]
		if p.GetName() != "station 7" || p.GetPartId() != "B-2041-17" || p.GetFrameId() != "f1" ||
			p.GetVerdict() != pb.Verdict_VERDICT_FAIL ||
			p.GetMethod() != pb.StreamMethod_STREAM_METHOD_REDUCE || p.GetStreamId() != 0 || p.GetRegions() != 2 ||
			p.GetFailedRegions() != 1 || !strings.HasPrefix(p.GetReason(), "pad<&>: mean < 100") || p.GetBackend() != "cpu" ||
			p.GetLatency().AsDuration() <= 0 || time.Since(p.GetAt().AsTime()) > time.Hour || p.GetError() {
			t.Errorf("%v", p)
		}
		for i, r := range res.GetResult().GetRegions() {
			if !proto.Equal(r, p.GetResults()[i]) {
				t.Errorf("kept\n%v\nand the caller got\n%v", p.GetResults()[i], r)
			}
		}
		if h := all[1].GetResults()[0].GetChannels()[0].GetHistogram(); len(h.GetCounts()) != 256 ||
			h.GetCounts()[200] != 16 {
			t.Errorf("histogram of columns: %v", h)
		}
		if p := all[2]; !p.GetError() || p.GetVerdict() != 0 || len(p.GetResults()) != 0 ||
			!strings.Contains(p.GetReason(), "frame") {
			t.Errorf("%v", p)
		}
		for i, want := range got.parts {
			p := all[3+i]
			if p.GetResultNumber() != want.GetResultNumber() || p.GetPartId() != want.GetPartId() || p.GetStreamId() == 0 ||
				p.GetPartNumber() != want.GetPartNumber() || p.GetFirstLine() != want.GetFirstLine() ||
				p.GetVerdict() != want.GetVerdict() ||
				p.GetIncomplete() != want.GetIncomplete() || p.GetMissingLines() != want.GetMissingLines() ||
				p.GetLate() != want.GetLate() ||
				p.GetName() != "camera-3" || len(p.GetResults()) != 1 || !proto.Equal(p.GetResults()[0], want.GetRegions()[0]) {
				t.Errorf("kept %v\nand the client got %v", p, want)
			}
		}
	}
	check(s)

	// The picture of a call.
	all := historyOf(t, s.conn, t.Context(), nil, 3+len(got.parts))
	info, data := evidenceOf(t, t.Context(), s.conn, &pb.GetEvidenceRequest{Id: all[0].GetId()})
	im, err := png.Decode(bytes.NewReader(data))
	if err != nil || info.GetMediaType() != "image/png" || info.GetWidth() != 8 || info.GetHeight() != 8 {
		t.Fatalf("%v: %v", info, err)
	}
	for i, want := range bright {
		if v, _, _, _ := im.At(i%8, i/8).RGBA(); byte(v>>8) != want {
			t.Errorf("pixel %d is %d, want %d", i, v>>8, want)
		}
	}
	info, data = evidenceOf(t, t.Context(), s.conn, &pb.GetEvidenceRequest{Id: all[0].GetId(),
		Kind: pb.EvidenceKind_EVIDENCE_KIND_OVERLAY})
	if svg := string(data); info.GetMediaType() != "image/svg+xml" || !strings.Contains(svg, "M0 0L4 0L4 4L0 4Z") ||
		!strings.Contains(svg, "pad&lt;&amp;&gt; FAIL") || strings.Contains(svg, "<image") {
		t.Errorf("%v\n%s", info, svg)
	}
	// The picture of a part, of the lines that came.
	part := all[3]
	info, data = evidenceOf(t, t.Context(), s.conn, &pb.GetEvidenceRequest{Id: part.GetId()})
	if im, err = png.Decode(bytes.NewReader(data)); err != nil || info.GetWidth() != 8 || info.GetHeight() != 10 ||
		info.GetMissingLines() != 0 {
		t.Fatalf("%v: %v", info, err)
	}
	for i := range 80 {
		if v, _, _, _ := im.At(i%8, i/8).RGBA(); byte(v>>8) != first.GetFrame().GetData()[i] {
			t.Fatalf("pixel %d is %d, want %d", i, v>>8, first.GetFrame().GetData()[i])
		}
	}
	info, _ = evidenceOf(t, t.Context(), s.conn, &pb.GetEvidenceRequest{Id: part.GetId(),
		Kind: pb.EvidenceKind_EVIDENCE_KIND_PREVIEW, MaxPixels: 20})
	if info.GetMediaType() != "image/jpeg" || info.GetWidth()*info.GetHeight() > 20 || info.GetScale() != 2 {
		t.Errorf("%v", info)
	}
	_, err = pb.NewHistoryServiceClient(s.conn).ListParts(t.Context(), &pb.ListPartsRequest{PageToken: "x"})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("a token that is none: %v", err)
	}

	c := pb.NewHistoryServiceClient(s.conn)
	counts, err := c.CountParts(t.Context(), &pb.CountPartsRequest{Group: pb.CountGroup_COUNT_GROUP_NAME})
	if n := counts.GetTotal(); err != nil || n.GetParts() != uint64(len(all)) || n.GetErrors() != 1 ||
		len(counts.GetGroups()) != 2 ||
		counts.GetGroups()[1].GetName() != "station 7" || counts.GetGroups()[1].GetFailed() != 2 ||
		counts.GetLostParts() != 0 {
		t.Errorf("%v: %v", counts, err)
	}
	// The same counts where tallies can't be used, for the bounds are within minutes.
	precise, err := c.CountParts(t.Context(), &pb.CountPartsRequest{Group: pb.CountGroup_COUNT_GROUP_NAME,
		Filter: &pb.PartFilter{
			From: all[0].GetAt(), To: timestamppb.New(all[len(all)-1].GetAt().AsTime().Add(time.Microsecond))}})
	if err != nil || !proto.Equal(precise, counts) {
		t.Errorf("%v: %v", precise, err)
	}
	pareto, err := c.GetPareto(t.Context(), &pb.GetParetoRequest{})
	if bars := pareto.GetBars(); err != nil || len(bars) != 2 || bars[0].GetRegion() != "r" ||
		bars[0].GetFailures() != uint64(len(got.parts)) ||
		bars[1].GetRegion() != "pad<&>" || bars[1].GetCumulative() != 1 {
		t.Errorf("%v: %v", pareto, err)
	}
	series, err := c.GetSeries(t.Context(), &pb.GetSeriesRequest{Region: "r", Quantity: "mean",
		Filter: &pb.PartFilter{Names: []string{"cam*"}}})
	if err != nil || len(series.GetPoints()) == 0 || series.GetChart().Upper == nil {
		t.Errorf("%v: %v", series, err)
	}
	for i, p := range series.GetPoints() {
		if want := got.parts[i].GetRegions()[0].GetChannels()[0].GetMean(); p.GetValue() != want {
			t.Errorf("point %d is %v, want %v", i, p.GetValue(), want)
		}
	}
	if _, err := c.GetSeries(t.Context(), &pb.GetSeriesRequest{Region: "r",
		Quantity: "median"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a quantity that nobody computed: %v", err)
	}
	exported, err := c.ExportParts(t.Context(), &pb.ExportPartsRequest{Rows: pb.ExportRows_EXPORT_ROWS_REGIONS})
	if err != nil {
		t.Fatal(err)
	}
	var file []byte
	for {
		m, err := exported.Recv()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		file = append(file, m.GetData()...)
	}
	lines, err := csv.NewReader(bytes.NewReader(file)).ReadAll()
	if err != nil || len(lines) != 1+4+1+len(got.parts) || !slices.Contains(lines[0], "mean") {
		t.Fatalf("%d lines: %v", len(lines), err)
	}
	// The call that ended with an error has a row without a region, which says why.
	refused := map[string]string{}
	for i, title := range lines[0] {
		if v := lines[1+4][i]; v != "" {
			refused[title] = v
		}
	}
	delete(refused, "at")
	want := map[string]string{"id": fmt.Sprint(all[2].GetId()), "name": "station 7", "part_id": "B-2041-17",
		"recipe_version": "0", "error": all[2].GetReason()}
	if !maps.Equal(refused, want) {
		t.Errorf("the row of an error is %v, want %v", refused, want)
	}

	// After a restart it is all there; kill -9 is in the proofs of the daemon.
	s.conn.Close()
	s.stop(t)
	s = start(t, Config{HistoryDir: dir})
	check(s)
	st, err := pb.NewHistoryServiceClient(s.conn).GetHistory(t.Context(), &pb.GetHistoryRequest{})
	if err != nil || st.GetParts() != uint64(len(all)) || st.GetPictureBytes() == 0 || st.GetDatabaseBytes() == 0 ||
		st.GetFailure() != "" ||
		!proto.Equal(st.GetOldest(), all[0].GetAt()) || !proto.Equal(st.GetNewest(), all[len(all)-1].GetAt()) {
		t.Errorf("%v: %v", st, err)
	}
}

// A resident frame has no picture: none is lost, and the frames that are sent have theirs as often as without it.
func TestHistoryResident(t *testing.T) {
	s := start(t, Config{HistoryDir: t.TempDir(), HistoryGood: 2})
	sent := rawFrame(8, 8, gray8, bytes.Repeat([]byte{200}, 64))
	c := clients.New(s.conn)
	kept, err := c.PutFrame(t.Context(), sent, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []string{"mean < 100", "mean > 100"} {
		for range 2 {
			for _, frame := range []*pb.Frame{clients.Resident(kept.GetName()), sent} {
				if _, err := c.Reduce(t.Context(), inspecting(rect("r", 0, 0, 8, 8, limit)), frame); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	// Two that failed, and one of two that passed.
	all := historyOf(t, s.conn, t.Context(), nil, 8)
	for _, i := range []int{1, 3, 7} {
		evidenceOf(t, t.Context(), s.conn, &pb.GetEvidenceRequest{Id: all[i].GetId()})
	}
	st, err := pb.NewHistoryServiceClient(s.conn).GetHistory(t.Context(), &pb.GetHistoryRequest{})
	if err != nil || st.GetLostPictures() != 0 {
		t.Errorf("%v: %v", st, err)
	}
}

// A server without a folder says so.
func TestNoHistory(t *testing.T) {
	s := start(t, Config{})
	_, err := pb.NewHistoryServiceClient(s.conn).ListParts(t.Context(), &pb.ListPartsRequest{})
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "--history") {
		t.Errorf("%v", err)
	}
}

// A second server doesn't take the folder, and one that nothing can be written to is refused.
func TestHistoryFolder(t *testing.T) {
	dir := t.TempDir()
	start(t, Config{HistoryDir: dir})
	if _, err := New(Config{HistoryDir: dir}); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("%v", err)
	}
	if _, err := New(Config{HistoryDir: "/proc/self/history"}); !errors.Is(err, ErrConfig) {
		t.Errorf("%v", err)
	}
}

// Tenants see their own, and admins all.
func TestHistoryTenants(t *testing.T) {
	file := writeFile(t, t.TempDir()+"/tokens", "x name=x role=teach\ny name=y role=teach\na name=a role=admin\n")
	s := start(t, Config{TokenFile: file, HistoryDir: t.TempDir()})
	as := func(token string) context.Context { return bearer(t.Context(), "Bearer "+token) }
	for i := range 6 {
		token := []string{"x", "y"}[i%2]
		in := named(inspecting(rect("pad "+token, 0, 0, 4, 4, "mean < 100")), "camera")
		frame := rawFrame(8, 8, gray8, bytes.Repeat([]byte{200}, 64))
		frame.PartId = fmt.Sprintf("%s%d", token, i)
		if _, err := s.inspection.Reduce(as(token), &pb.ReduceRequest{Inspection: in, Frame: frame}); err != nil {
			t.Fatal(err)
		}
		put := &pb.PutRecipeRequest{Recipe: &pb.Recipe{Name: "recipe-" + token, RegionSet: in.GetRegionSet(),
			Description: fmt.Sprint(i)}}
		if _, err := s.recipe.PutRecipe(as(token), put); err != nil {
			t.Fatal(err)
		}
	}
	all := historyOf(t, s.conn, as("a"), nil, 6)
	c := pb.NewHistoryServiceClient(s.conn)
	for _, token := range []string{"x", "y"} {
		for _, f := range []*pb.PartFilter{nil, {Names: []string{"camera"}}, {Region: "pad " + token},
			{Verdicts: []pb.Verdict{2}}} {
			for _, p := range historyOf(t, s.conn, as(token), f, 3) {
				if p.GetTenant() != token || p.GetPartId()[:1] != token {
					t.Errorf("%s sees %v", token, p)
				}
			}
		}
		n, err := c.CountParts(as(token), &pb.CountPartsRequest{})
		if err != nil || n.GetTotal().GetParts() != 3 {
			t.Errorf("%v: %v", n, err)
		}
		pareto, err := c.GetPareto(as(token), &pb.GetParetoRequest{})
		if err != nil || len(pareto.GetBars()) != 1 || pareto.GetBars()[0].GetRegion() != "pad "+token {
			t.Errorf("%v: %v", pareto, err)
		}
		audit, err := c.ListAudit(as(token), &pb.ListAuditRequest{PageSize: 2})
		if err != nil || len(audit.GetEntries()) != 2 || audit.GetNextPageToken() == "" {
			t.Fatalf("%v: %v", audit, err)
		}
		e := audit.GetEntries()[0]
		if e.GetTenant() != token || e.GetVersion() != 3 || e.GetVersionBefore() != 2 || len(e.GetChanges()) != 1 ||
			!strings.HasPrefix(e.GetChanges()[0], `description: "`) {
			t.Errorf("%v", e)
		}
		audit, err = c.ListAudit(as(token), &pb.ListAuditRequest{PageSize: 2, PageToken: audit.GetNextPageToken()})
		if err != nil || len(audit.GetEntries()) != 1 || audit.GetNextPageToken() != "" ||
			!strings.Contains(audit.String(), "the first version: 1 regions with 1 limits") {
			t.Errorf("%v: %v", audit, err)
		}
	}
	var other *pb.HistoryPart
	for _, p := range all {
		if p.GetTenant() == "y" {
			other = p
		}
	}
	evidenceOf(t, as("a"), s.conn, &pb.GetEvidenceRequest{Id: other.GetId()})
	call, err := c.GetEvidence(as("x"), &pb.GetEvidenceRequest{Id: other.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call.Recv(); status.Code(err) != codes.NotFound {
		t.Errorf("x gets the picture of y: %v", err)
	}
}
