package history

import (
	"testing"

	spb "google.golang.org/genproto/googleapis/rpc/status"

	"github.com/polyscan/polyscan/server/internal/events"
)

// TestReasonOfErrors: whoever reads a history sees no paths of requests.
func TestReasonOfErrors(t *testing.T) {
	for message, want := range map[string]string{
		"inspection.region_set.regions[0].limits[0] = \"max < 300\": can't fail": "regions[0].limits[0] = \"max < 300\": can't fail",
		"open.inspection.frames[\"golden\"] = \"x\": is no resident frame":       "frames[\"golden\"] = \"x\": is no resident frame",
		"frame.data: is empty": "frame.data: is empty",
	} {
		if got := reasonOf(&events.Verdict{Error: &spb.Status{Message: message}}, nil); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
