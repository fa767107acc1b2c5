package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
)

// TestShapesCount: what shapes come to counts for the request that has them until it ends, or is refused.
func TestShapesCount(t *testing.T) {
	memory := budget.New(4 << 20)
	ctx, end := memory.WithRequest(t.Context())
	set := func(rows string) error {
		_, err := NewSet(ctx, &pb.RegionSet{Regions: []*pb.Region{{Shape: "rect(0, 0, 9, " + rows + ")"}}},
			Paths{Set: "set"}, polygon.Bounds{MaxRegions: 9, MaxVertices: 1 << 22, MaxRegionVertices: 1 << 22}, nil)
		return err
	}
	budget.RequestOf(ctx).Hold(5)
	if err := set("1000"); err != nil || memory.Used(budget.Requests) != 12_005 {
		t.Errorf("%v, %d bytes", err, memory.Used(budget.Requests))
	}
	if err := set("1000 9"); err == nil || memory.Used(budget.Requests) != 12_005 {
		t.Errorf("%v, %d bytes of a shape that is none", err, memory.Used(budget.Requests))
	}
	var quota *apierr.QuotaError
	if err := set("1000000"); !errors.As(err, &quota) ||
		!strings.Contains(err.Error(), " bytes that shapes and limits") || memory.Used(budget.Requests) != 12_005 {
		t.Errorf("%v, %d bytes", err, memory.Used(budget.Requests))
	}
	if end(); memory.Used(budget.Requests) != 0 {
		t.Errorf("%d bytes afterwards", memory.Used(budget.Requests))
	}
}

// TestRegionsOf: masks and shapes reach package polygon, and no set is small whose work nobody knows.
func TestRegionsOf(t *testing.T) {
	list := []*pb.Region{{Name: "m", Mask: &pb.Mask{Runs: []int32{1, 2, 3, 4, 5, 6}}}, {Shape: "circle(1, 2, 3)"},
		{Mask: &pb.Mask{}}}
	got, err := regionsOf(list, Paths{}, polygon.Bounds{MaxRegions: 3})
	if err != nil || len(got[0].Mask) != 2 || got[0].Mask[1] != (polygon.Run{Y: 4, X0: 5, X1: 6}) ||
		len(got[0].Rings) > 0 || got[1].Shape != "circle(1, 2, 3)" || got[1].Mask != nil || got[2].Mask == nil {
		t.Errorf("%+v, %v", got, err)
	}
	if n := SetWork(&pb.RegionSet{Regions: list[:1]}); n != 9 {
		t.Errorf("two runs are work for %d vertices", n)
	}
	if n := SetWork(&pb.RegionSet{Regions: list[1:2]}); n <= SmallSet {
		t.Errorf("a shape is work for %d vertices", n)
	}
}
