package server

// Limits over the last parts of a stream: what streams remember outlives a connection, not a stream, and a recipe that
// is put meanwhile has no part in it.

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/clients"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// ofParts says what limits came to: each value, and of how many parts it is.
func ofParts(r []*pb.RegionResult) string {
	var out []string
	for _, l := range r[0].GetLimits()[1:] {
		out = append(out, fmt.Sprintf("%v of %d", l.GetValue(), l.GetParts()))
	}
	return strings.Join(out, ", ")
}

func driftRecipe(limits ...string) *pb.PutRecipeRequest {
	set := inspecting(rect("a", 0, 0, 4, 2, append([]string{"mean < 200"}, limits...)...)).GetRegionSet()
	return &pb.PutRecipeRequest{Recipe: &pb.Recipe{Name: "drift", RegionSet: set}}
}

func TestStreamOverParts(t *testing.T) {
	s := start(t, Config{})
	limits := []string{"mean over the last 3 parts of mean < 250", "slope over the last 3 parts of mean < 250",
		"count of failed of the last 4 parts < 4"}
	if _, err := s.recipe.PutRecipe(t.Context(), driftRecipe(limits...)); err != nil {
		t.Fatal(err)
	}
	level := func(v byte) *pb.Frame { return rawFrame(4, 2, gray8, bytes.Repeat([]byte{v}, 8)) }
	for _, form := range []pb.ResultForm{pb.ResultForm_RESULT_FORM_ROWS, pb.ResultForm_RESULT_FORM_COLUMNS} {
		in := clients.UseRecipe("drift", 0)
		in.Result = &pb.ResultOptions{Form: form}
		stream := s.open(t, in)
		var got []string
		// Many at a time: they are judged in the order in which they came.
		frames := []*pb.Frame{level(10), level(20), rawFrame(3, 3, gray8, nil), level(60), level(220), level(90)}
		go func() {
			for _, f := range frames {
				if stream.Send(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: f}}) != nil {
					return
				}
			}
		}()
		for i := range frames {
			m := stream.recv()
			if m.GetError() != nil {
				got = append(got, "error")
				continue
			}
			c, err := clients.ColumnsOf(in, m.GetResult())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, ofParts([]*pb.RegionResult{c.Row(0)}))
			if i == 3 { // a new version is another stream's business
				if _, err := s.recipe.PutRecipe(t.Context(), driftRecipe("mean over the last 9 parts of mean < 250")); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := []string{"10 of 1, 0 of 1, 0 of 1", "15 of 2, 10 of 2, 0 of 2", "error", "40 of 2, 20 of 2, 1 of 4",
			"140 of 2, 160 of 2, 2 of 4", "123.33333333333333 of 3, 15 of 3, 2 of 4"}
		if !slices.Equal(got, want) {
			t.Errorf("%v:\n%q, want\n%q", form, got, want)
		}
		stream.end(nil)
		again := s.open(t, in)
		again.send(level(30))
		c, err := clients.ColumnsOf(in, again.recv().GetResult())
		if err != nil {
			t.Fatal(err)
		}
		if got := ofParts([]*pb.RegionResult{c.Row(0)}); got != "30 of 1" {
			t.Errorf("a new stream: %s", got)
		}
		if _, err := s.recipe.PutRecipe(t.Context(), driftRecipe(limits...)); err != nil {
			t.Fatal(err)
		}
	}
	// A frame alone fails, and frames that a recipe is tried on are a stream.
	client := clients.New(s.conn)
	res, err := client.Reduce(t.Context(), clients.UseRecipe("drift", 0), level(10))
	if err != nil || res.GetVerdict() != pb.Verdict_VERDICT_FAIL ||
		!strings.Contains(res.GetRegions()[0].GetLimits()[1].GetReason(), "this is a frame alone") {
		t.Errorf("%v, %v", res, err)
	}
	tried, err := client.Try(t.Context(), &pb.TryOpen{Regions: &pb.TryOpen_Recipe{Recipe: &pb.RecipeRef{Name: "drift"}}},
		sequence([]clients.Labeled{{Frame: level(10)}, {Frame: level(220)}, {Frame: level(30)}}))
	if err != nil || tried.GetTally().GetOtherPassed() != 2 || tried.GetTally().GetOtherFailed() != 1 {
		t.Errorf("%v, %v", tried, err)
	}
}

func TestScanOverParts(t *testing.T) {
	s := start(t, Config{})
	if _, err := s.recipe.PutRecipe(t.Context(), driftRecipe("mean over the last 3 parts of mean < 250",
		"count of failed of the last 4 parts < 4")); err != nil {
		t.Fatal(err)
	}
	strip := func(n, part int, v byte) *pb.Strip {
		return &pb.Strip{Sequence: uint64(n), FirstLine: uint64(2 * part),
			Frame: &pb.Frame{Source: &pb.Frame_Data{Data: bytes.Repeat([]byte{v}, 8)}}}
	}
	call := s.scan(t, scanOpen(clients.UseRecipe("drift", 0), 4, 2, 2, 2))
	parts := func(n int) func(*scanned) bool { return func(s *scanned) bool { return len(s.parts) == n } }
	var got []string
	keep := func(s *scanned) {
		for _, p := range s.parts {
			got = append(got, ofParts(p.GetRegions()))
		}
	}
	call.strip(strip(0, 0, 10), strip(1, 1, 20))
	keep(call.until(parts(2)))
	// The connection breaks, and a recipe is put: the session goes on with its own.
	call.cancel()
	if _, err := s.recipe.PutRecipe(t.Context(), driftRecipe("mean over the last 2 parts of mean < 250")); err != nil {
		t.Fatal(err)
	}
	call = scanOver(t, s.conn).begin(resumeRequest(call.opened.GetSessionToken(), 2))
	call.strip(strip(2, 2, 60), strip(3, 3, 220))
	keep(call.until(parts(2)))
	// Lines of two parts are lost: these never come, and have failed.
	call.strip(strip(4, 6, 40))
	keep(call.until(parts(1)))
	call.strip(strip(5, 7, 50))
	keep(call.until(parts(1)))
	call.finish()
	want := []string{"10 of 1, 0 of 1", "15 of 2, 0 of 2", "30 of 3, 0 of 3", "100 of 3, 1 of 4", "40 of 1, 3 of 4",
		"45 of 2, 2 of 4"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want\n%q", got, want)
	}
	// Another session begins anew, with the recipe as it is.
	call = s.scan(t, scanOpen(clients.UseRecipe("drift", 0), 4, 2, 2, 2))
	call.strip(strip(0, 0, 90))
	if got := ofParts(call.until(parts(1)).parts[0].GetRegions()); got != "90 of 1" {
		t.Errorf("a new session: %s", got)
	}
	call.finish()
	s.idle(t)
}

// What a line-scan session looks back at is in the ledger of host memory.
func TestScanOverPartsIsCounted(t *testing.T) {
	s := start(t, Config{})
	used := func(limit string) float64 {
		if _, err := s.recipe.PutRecipe(t.Context(), driftRecipe(limit)); err != nil {
			t.Fatal(err)
		}
		call := s.scan(t, scanOpen(clients.UseRecipe("drift", 0), 4, 2, 2, 2))
		defer call.cancel()
		return gather(t, s.gatherer).sum(t, "polyscan_host_memory_bytes", "kind", "sessions")
	}
	one := used("mean over the last 2 parts of mean < 250")
	if both, least := used("mean over the last 1000 parts of mean < 250"), 1000*8.0; both < 2*one+least {
		t.Errorf("sessions that look back at 2 and at 1000 parts count as %v bytes, the first as %v", both, one)
	}
}
