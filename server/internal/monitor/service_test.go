package monitor

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/events"
)

// What is a watcher's own and what is the same for all are one message on the wire.
func TestMessageInTwo(t *testing.T) {
	at := time.Unix(1_700_000_000, 5)
	for _, n := range [][3]uint64{{}, {1, 2, 3}, {0, 1 << 40, 0}, {1<<64 - 1, 1<<64 - 1, 1<<64 - 1}} {
		w := &watch{filter: &events.Filter{}}
		i := events.Item{Event: &events.Event{Kind: events.RecipeKind, At: at, Recipe: &pb.RecipeChange{Name: "board"}}}
		body, err := proto.Marshal(w.body(i))
		if err != nil {
			t.Fatal(err)
		}
		var got pb.WatchResponse
		if err := proto.Unmarshal(append(head(n[0], n[1], n[2]), body...), &got); err != nil {
			t.Fatal(err)
		}
		want := &pb.WatchResponse{Number: n[0], Sequence: n[1], Thinned: n[2], At: timestamppb.New(at),
			Event: &pb.WatchResponse_Recipe{Recipe: i.Recipe}}
		if !proto.Equal(&got, want) {
			t.Errorf("%v, want %v", &got, want)
		}
	}
}

// Watchers who want the same numbers share what is encoded, and others don't.
func TestBodyIsEncodedOnce(t *testing.T) {
	encoded := 0
	of := func(e *events.Event, n pb.RegionNumbers) {
		if _, err := e.Body(n, func() ([]byte, error) { encoded++; return nil, nil }); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []struct {
		event *events.Event
		want  int
	}{{&events.Event{Verdict: &events.Verdict{}}, len(pb.RegionNumbers_name)}, {&events.Event{}, 1}} {
		encoded = 0
		for range 3 {
			for n := range pb.RegionNumbers_name {
				of(c.event, pb.RegionNumbers(n))
			}
		}
		if encoded != c.want {
			t.Errorf("encoded %d times, want %d", encoded, c.want)
		}
	}
}
