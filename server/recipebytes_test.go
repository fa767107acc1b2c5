package server

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
)

// Recipes count in the ledger of host memory for as long as they are stored, those of a folder as well, and what limits
// are compiled to counts.
func TestRecipesAreInTheLedger(t *testing.T) {
	cfg := Config{RecipeDir: t.TempDir(), HostBytes: 16 << 20, MaxMessageBytes: 4 << 20}
	s := start(t, cfg)
	region := rect("r", 0, 0, 9, 9)
	for i := range 60 {
		region.Limits = append(region.Limits, fmt.Sprintf("mean < %d.5", i+1))
	}
	s.put(t, "a", region)
	one := s.host.Used(budget.Recipes)
	if one < 60*200 || one > 60*500 { // a limit is 232 bytes, with a pointer and its text
		t.Errorf("60 limits take %d bytes", one)
	}
	s.put(t, "a", region)
	s.put(t, "b", region)
	if n := s.host.Used(budget.Recipes); n < 3*one || n > 3*one+100 {
		t.Errorf("three recipes take %d bytes, one %d", n, one)
	}
	s.remove(t, "a", 1)
	s.remove(t, "b", 1)
	if n := s.host.Used(budget.Recipes); n < one || n > one+50 {
		t.Errorf("one recipe is left, of %d bytes, and %d are out", one, n)
	}
	// Where others hold all there is a recipe of more than 1 MiB finds no room, and small ones do.
	large := rect("l", 0, 0, 9, 9)
	for range 33_000 {
		large.Rings[0].Xy = append(large.Rings[0].Xy, 1, 2)
	}
	release, ok := s.host.Try(budget.Results, s.host.Cap)
	if !ok {
		t.Fatal("the results of others found no room")
	}
	before := s.host.Used(budget.Recipes)
	_, err := s.recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: recipeOf("large", large)})
	if d := detailsOf(t, err); d.status.Code() != codes.ResourceExhausted || d.info == nil ||
		d.info.Reason != apierr.ReasonHostMemory {
		t.Errorf("%v", err)
	}
	s.put(t, "small", region)
	if n := s.host.Used(budget.Recipes); n < before+one || n > before+one+50 {
		t.Errorf("%d bytes are out, %d before a refused recipe and one of %d", n, before, one)
	}
	release()
	s.put(t, "large", large)
	out := s.host.Used(budget.Recipes)
	s.stop(t)
	if n := start(t, cfg).host.Used(budget.Recipes); n < out-100 || n > out+100 {
		t.Errorf("%d bytes after a start, %d before", n, out)
	}
}

// Recipes may have half of the host's memory at most: else there would be too little for the rest.
func TestRecipesLeaveRoom(t *testing.T) {
	for _, c := range []struct {
		given, host, recipes int64
		ok                   bool
	}{{0, 1 << 30, 256 << 20, true}, {400 << 20, 1 << 30, 400 << 20, true}, {1 << 30, 2 << 30, 1 << 30, true}} {
		got, err := Config{MaxRecipeBytes: c.given, MaxMessageBytes: 1 << 20}.withDefaults()
		if err != nil || got.HostBytes != c.host || got.MaxRecipeBytes != c.recipes {
			t.Errorf("%d given: %d of %d, %v", c.given, got.MaxRecipeBytes, got.HostBytes, err)
		}
	}
	if _, err := (Config{MaxRecipeBytes: 3 << 20, HostBytes: 5 << 20}).withDefaults(); err == nil {
		t.Error("recipes may have more than half of the host's memory")
	}
}
