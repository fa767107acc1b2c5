package devicetest

import (
	"testing"

	"github.com/polyscan/polyscan/internal/race"
)

// The two oracles agree, whatever the start.
// Values are up to 100.
func TestRefine(t *testing.T) {
	race.Skip(t)
	for _, s := range Scenes(5, 60) {
		if d := CompareDiffusion(s.Refine(make([]float32, len(s.Colours))), s.Exact(), s.Width, 1e-4); d != nil {
			t.Errorf("%s: %v", s.Name, d)
		}
	}
}
