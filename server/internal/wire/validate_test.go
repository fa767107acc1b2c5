package wire

import (
	"errors"
	"testing"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

// All violations of a small message are told, and of a large one the first, which takes no memory for the others.
func TestValidateStopsEarly(t *testing.T) {
	v, err := NewValidator()
	if err != nil {
		t.Fatal(err)
	}
	request := func(n int) *pb.ReduceRequest {
		return &pb.ReduceRequest{
			Inspection: &pb.Inspection{
				Regions:    &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "none"}},
				Reductions: &pb.Reductions{Statistics: make([]pb.Statistic, n)},
			},
			Frame: &pb.Frame{},
		}
	}
	violations := func(n int) int {
		var fields *apierr.FieldError
		if err := v.Validate(request(n)); !errors.As(err, &fields) {
			t.Fatalf("%d bad values: %v", n, err)
		}
		return len(fields.Violations) + fields.More
	}
	if got := violations(10); got != 10 {
		t.Errorf("10 bad values: %d violations", got)
	}
	if got := violations(100_000); got != 1 {
		t.Errorf("100,000 bad values: %d violations, want the first", got)
	}
	many := request(100_000)
	if n := testing.AllocsPerRun(3, func() { v.Validate(many) }); n > 1000 {
		t.Errorf("100,000 bad values take %v allocations", n)
	}
}
