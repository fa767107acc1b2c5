package attack

// Regions of few bytes that come to many pixels.

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

var shapeAttacks = []attack{
	{row: 11, name: "huge circles", cancelled: true, run: shaped(strings.Repeat("circle(0, 0, 400000) + ", 90) +
		"circle(0, 0, 9)")},
	{row: 11, name: "circles that are nested", cancelled: true,
		run: shaped(strings.Repeat("circle(0, 0, 500000) - (", 60) + "circle(0, 0, 9)" + strings.Repeat(")", 60))},
	{row: 11, name: "arrays of circles", cancelled: true,
		run: shaped("array of circle(2000, 2000, 1900) 80 by 80 every (10, 10)")},
	{row: 11, name: "bands around arrays", cancelled: true,
		run: shaped("band of (array of circle(40, 40, 15) 80 by 80 every (40, 40)) outwards 900")},
	{row: 5, name: "recipes of many limits", run: manyRecipes},
	{row: 11, name: "turned stripes with a deadline", cancelled: true,
		run: func(ctx context.Context, a *attempt) {
			stripes := &pb.Region{Name: "m", Mask: &pb.Mask{}}
			for y := range int32(1000) {
				for x := range int32(300) {
					stripes.Mask.Runs = append(stripes.Mask.Runs, y, 4*x+y%3, 4*x+y%3+2)
				}
			}
			flood(ctx, a, 2, pb.InspectionService_Reduce_FullMethodName,
				marshal(&pb.ReduceRequest{Frame: grayFrame(8, 8),
					Inspection: inspect(stripes, &pb.Region{Shape: `turn of "m" by 90 about (0, 0)`})}), deadline...)
		}},
	{row: 11, name: "long texts of shapes with a deadline", cancelled: true,
		run: func(ctx context.Context, a *attempt) {
			var regions []*pb.Region
			for i := range 2000 {
				regions = append(regions, &pb.Region{Name: fmt.Sprint(i), Shape: "circle(9, 9, 1)" +
					strings.Repeat(`+"0"`, 1000)})
			}
			flood(ctx, a, 2, pb.InspectionService_Reduce_FullMethodName,
				marshal(&pb.ReduceRequest{Frame: grayFrame(8, 8), Inspection: inspect(regions...)}), deadline...)
		}},
}

// manyRecipes stores one recipe after the other, each of 0.7 MB that comes to 9 MB, and deletes none.
func manyRecipes(ctx context.Context, a *attempt) {
	w := dial(a, a.addr, 1<<20)
	defer w.close()
	for n := 0; ctx.Err() == nil; n++ {
		var regions []*pb.Region
		for i := range 500 {
			r := rectangle(fmt.Sprint(i), 9, 9)
			for k := range 60 {
				r.Limits = append(r.Limits, fmt.Sprintf("mean < %d.%03d", i%200+1, i/200*60+k))
			}
			regions = append(regions, r)
		}
		c := w.call(pb.RecipeService_PutRecipe_FullMethodName)
		err := c.send(ctx, marshal(&pb.PutRecipeRequest{Recipe: &pb.Recipe{Name: fmt.Sprintf("r%d", n),
			RegionSet: &pb.RegionSet{Regions: regions}}}))
		if err == nil || err == errEnded {
			var code codes.Code
			if code, err = c.wait(ctx); err == nil {
				a.answered(code)
			}
		}
		if err != nil {
			c.reset()
			return
		}
	}
}

// shaped floods a server with a region of a shape.
func shaped(shape string) func(context.Context, *attempt) {
	return func(ctx context.Context, a *attempt) {
		flood(ctx, a, 4, pb.InspectionService_Reduce_FullMethodName,
			marshal(&pb.ReduceRequest{Frame: grayFrame(8, 8), Inspection: inspect(&pb.Region{Shape: shape})}))
	}
}
