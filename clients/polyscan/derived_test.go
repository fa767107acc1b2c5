package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/clients/internal/reductions"
)

// A recipe keeps which derivatives it has.
func TestDerivedRecipes(t *testing.T) {
	all := []string{"mean", "derivative(gradient, laplacian)"}
	r, err := reductions.Parse(all)
	if err != nil {
		t.Fatal(err)
	}
	if got := reductions.Format(r); !slices.Equal(got, all) {
		t.Errorf("%q comes back as %q", all, got)
	}
	for text, want := range map[string]string{
		"derivative": "or derivative(gradient, laplacian)", "derivative(lab)": "or derivative(gradient, laplacian)",
		"derivativ(gradient)": `did you mean "derivative"`,
	} {
		if _, err := reductions.Parse([]string{text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	folder := t.TempDir()
	succeed(t, "recipe", "put", "metal", "-r", frames+"metal.regions.json", "--recipes", folder, "--derivative",
		"laplacian,gradient", "--limit", "*: laplacian.variance > 1")
	out := succeed(t, "recipe", "get", "metal", "--recipes", folder)
	if !strings.Contains(out, `"derivative(gradient, laplacian)"`) {
		t.Errorf("the recipe lacks its derivatives:\n%.400s", out)
	}
}

func TestDerivatives(t *testing.T) {
	out := succeed(t, "reduce", frames+"plank.png", "-r", frames+"plank.regions.json", "--derivative",
		"gradient,Laplacian")
	for _, word := range []string{" grad ", " lap "} {
		if !strings.Contains(out, word) {
			t.Errorf("the table lacks %q:\n%.600s", word, out)
		}
	}
	_, errs, code := polyscan(t, "reduce", frames+"plank.png", "-r", frames+"plank.regions.json", "--derivative", "lab")
	if code != exitUsage || !strings.Contains(errs, "want gradient or laplacian") {
		t.Errorf("--derivative lab: exit %d, %s", code, errs)
	}
}
