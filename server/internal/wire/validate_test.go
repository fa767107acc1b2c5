package wire

import (
	"errors"
	"strings"
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

// Names that choose streams are those that streams can have, by the rule in the schema, or begin as these do.
func TestCheckNames(t *testing.T) {
	v, err := NewValidator()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"a", "0", "camera 3", "camera ", " camera", "-a", "a-", "a*b", "*a", "ä",
		strings.Repeat("n", 64), strings.Repeat("n", 65), "a . _ : / @ # + -"} {
		in := &pb.Inspection{Name: n, Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "none"}}}
		if can, err := v.Validate(in) == nil, CheckNames("names", []string{"x*", n}); can != (err == nil) {
			t.Errorf("%q: a stream can have it: %v; %v", n, can, err)
		}
	}
	for n, ok := range map[string]bool{"*": true, "a*": true, "camera *": true, strings.Repeat("n", 64) + "*": true,
		"": false, "**": false, " *": false, "-*": false, strings.Repeat("n", 65) + "*": false} {
		if err := CheckNames("names", []string{n}); ok != (err == nil) {
			t.Errorf("%q: %v", n, err)
		}
	}
}
