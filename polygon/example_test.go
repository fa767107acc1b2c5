package polygon_test

import (
	"context"
	"fmt"
	"log"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/polygon"
)

func Example() {
	dev, err := kernels.Open(cpu.Driver, kernels.Config{MemoryBytes: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	// A frame of 8x4 pixels, each with the number of its column times ten.
	pixels := make([]byte, 8*4)
	for i := range pixels {
		pixels[i] = byte(i % 8 * 10)
	}
	frame := kernels.Picture{Width: 8, Height: 4, Format: kernels.Gray8, Data: [][]byte{pixels}}

	set, err := polygon.NewSet([]polygon.Region{
		{Name: "left", Rings: []polygon.Ring{{{X: 0, Y: 0}, {X: 4, Y: 0}, {X: 4, Y: 4}, {X: 0, Y: 4}}},
			Limits: []string{"mean < 20"}},
		{Name: "right", Rings: []polygon.Ring{{{X: 4, Y: 0}, {X: 8, Y: 0}, {X: 8, Y: 4}, {X: 4, Y: 4}}},
			Limits: []string{"mean < 20", "max <= 70"}},
	}, polygon.Bounds{})
	if err != nil {
		log.Fatal(err)
	}
	res, err := polygon.Reduce(context.Background(), dev, set, frame, polygon.Reductions{}, polygon.MethodDefault)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range res.Regions {
		gray := r.Channels[0]
		fmt.Println(r.Name, r.Count, gray.Mean, gray.Max, gray.MaxAt, r.Verdict)
		for _, l := range r.Limits {
			if l.Verdict == polygon.Fail {
				fmt.Println(" ", l.Reason)
			}
		}
	}
	// Output:
	// left 16 15 30 {3 0} PASS
	// right 16 55 70 {7 0} FAIL
	//   mean 55 is above 20
}

func ExampleSet_Prepare() {
	dev, err := kernels.Open(cpu.Driver, kernels.Config{MemoryBytes: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	ctx := context.Background()

	set, err := polygon.NewSet([]polygon.Region{{Rings: []polygon.Ring{{{X: 1, Y: 1}, {X: 7, Y: 1}, {X: 4, Y: 7}}}}},
		polygon.Bounds{})
	if err != nil {
		log.Fatal(err)
	}
	prepared, err := set.Prepare(ctx, dev, 8, 8, polygon.MethodDefault)
	if err != nil {
		log.Fatal(err)
	}
	defer prepared.Close()
	for n := range 3 { // frames of a conveyor
		frame := kernels.Picture{Width: 8, Height: 8, Format: kernels.Gray8, Data: [][]byte{make([]byte, 64)}}
		frame.Data[0][4*8+4] = byte(n)
		res, err := prepared.Reduce(ctx, frame, polygon.Reductions{Statistics: polygon.Count | polygon.Sum})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Regions[0].Count, res.Regions[0].Channels[0].Sum)
	}
	// Output:
	// 18 0
	// 18 1
	// 18 2
}

func ExampleNewSet_invalid() {
	_, err := polygon.NewSet([]polygon.Region{{Rings: []polygon.Ring{{{X: 1, Y: 1}, {X: 7, Y: 1}}},
		Limits: []string{"mean > 10", "mean below 9"}}}, polygon.Bounds{})
	fmt.Println(err)
	for _, v := range err.(*kernels.InvalidError).Violations {
		fmt.Println(v)
	}
	// Output:
	// polygon: regions[0].rings[0] = 2 vertices: must hold at least 3 vertices (and 1 more)
	// regions[0].rings[0] = 2 vertices: must hold at least 3 vertices
	// regions[0].limits[1] = "mean below 9": column 6: expected <, <=, >, >=, ==, != or "in", found "below"
}
