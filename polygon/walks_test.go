package polygon

import (
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

// An op that was sized is not checked again when a copy of it runs: of an unprepared Reduce the edges are walked once
// to check them, once to size the set and once to plan it, before a pixel is looked at.
func TestPreparationIsCheckedOnce(t *testing.T) {
	s := mustSet(t, Region{Rings: []Ring{rectangle(0, 0, 4, 4)}})
	op := &driver.MaskPrepare{Regions: s.maskRegions(), Width: 8, Height: 8}
	if err := driver.Check(op); err != nil {
		t.Fatal(err)
	}
	run := *op
	// What a second check would find shows that there is none.
	old := run.Regions.Edges[0]
	run.Regions.Edges[0].X0 = driver.MaxCoord + 1
	err := driver.Check(&run)
	run.Regions.Edges[0] = old
	if err != nil {
		t.Errorf("a copy is checked again: %v", err)
	}
	fresh := driver.MaskPrepare{Regions: driver.MaskRegions{Edges: append([]driver.Edge(nil), run.Regions.Edges...),
		Regions: run.Regions.Regions}, Width: 8, Height: 8}
	fresh.Regions.Edges[0].X0 = driver.MaxCoord + 1
	if driver.Check(&fresh) == nil {
		t.Error("other edges are not checked")
	}
}
