package clients_test

import (
	"context"
	"fmt"
	"log"

	"github.com/polyscan/polyscan/clients"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// redBlue is a curve down a canvas. Who walks along it has blue to the left, which is where x is larger, and red to the
// right.
func redBlue(id string, x float64) *polyscanv1.Curve {
	return &polyscanv1.Curve{
		Id: id, Xy: []float64{x, 0, x, 30, x, 60, x, 90},
		Left: []*polyscanv1.ColorStop{{Blue: 255}}, Right: []*polyscanv1.ColorStop{{Red: 255}},
	}
}

// A canvas: changes go out as they are made, and pictures of the latest state come back.
func ExampleClient_Edit() {
	addr, stop := start()
	defer stop()
	c, err := clients.Dial(addr)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	canvas, err := c.Edit(context.Background(), &polyscanv1.SolveRequest{
		Drawing: &polyscanv1.Drawing{Width: 160, Height: 90, Curves: []*polyscanv1.Curve{redBlue("wall", 40)}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer canvas.Close()

	// A program would change the canvas as its user does, and receive in another goroutine.
	if _, err := canvas.MoveCurve("wall", 60, 0); err != nil {
		log.Fatal(err)
	}
	if _, err := canvas.RemoveCurve("door"); err != nil {
		log.Fatal(err)
	}
	if err := canvas.CloseSend(); err != nil {
		log.Fatal(err)
	}
	var last *polyscanv1.Frame
	for u, err := range canvas.Updates() {
		switch {
		case err != nil:
			log.Fatal(err) // the canvas is gone
		case u.Err != nil:
			fmt.Println("change", u.Edits, "was refused:", u.Err.Violations[0].Field)
		default:
			last = u.Result.Picture
		}
	}
	row := last.GetData()[3*160*45:]
	fmt.Println("at 99:", row[3*99:3*99+3], "at 101:", row[3*101:3*101+3])

	// Output:
	// change 2 was refused: remove_curve
	// at 99: [255 0 0] at 101: [0 0 255]
}

// The picture on the way, from coarse to fine.
func ExampleClient_SolveProgressively() {
	addr, stop := start()
	defer stop()
	c, err := clients.Dial(addr)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	req := &polyscanv1.SolveRequest{
		Drawing: &polyscanv1.Drawing{Width: 160, Height: 90, Curves: []*polyscanv1.Curve{redBlue("wall", 40)}},
	}
	for res, err := range c.SolveProgressively(context.Background(), req) {
		if err != nil {
			log.Fatal(err)
		}
		if res.Last {
			fmt.Println("converged:", res.Result.Converged, "at 41:", res.Result.Picture.GetData()[3*41:3*42])
		}
	}

	// Output:
	// converged: true at 41: [0 0 255]
}

// A stain on a surface that is not evenly lit: what the frame has over its background stays on the device, and is
// measured there.
func ExampleClient_Background() {
	addr, stop := start()
	defer stop()
	ctx := context.Background()
	c, err := clients.Dial(addr)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	const w, h = 60, 40
	pixels := make([]byte, w*h)
	for i := range pixels {
		pixels[i] = byte(60 + 2*(i%w))
		if x, y := i%w, i/w; x >= 20 && x < 30 && y >= 15 && y < 25 {
			pixels[i] -= 30
		}
	}

	stain := clients.Polygon("stain", 18, 13, 32, 13, 32, 27, 18, 27)
	res, err := c.Background(ctx, &polyscanv1.BackgroundRequest{
		Frame: clients.Raw{Width: w, Height: h, Format: clients.Gray8}.Frame(pixels),
		Foreground: &polyscanv1.BackgroundRequest_RegionSet{
			RegionSet: &polyscanv1.RegionSet{Regions: []*polyscanv1.Region{stain}},
		},
		Background: &polyscanv1.PictureOutput{Omit: true},
		Residual:   &polyscanv1.PictureOutput{Keep: true},
	})
	if err != nil {
		log.Fatal(err)
	}
	residual := res.GetKeptResidual().GetName()
	stain.Limits = []string{"count of pixels below 108 <= 20"} // 128 is no difference
	sum, err := c.Reduce(ctx, clients.UseRegions(stain), clients.Resident(residual))
	if err != nil {
		log.Fatal(err)
	}
	r := sum.Regions[0]
	fmt.Println(r.Name, "differs by", int(r.Channels[0].GetMin())-128, "at most:", r.Verdict)
	if err := c.ReleaseFrame(ctx, residual); err != nil {
		log.Fatal(err)
	}

	// Output: stain differs by -30 at most: VERDICT_FAIL
}
