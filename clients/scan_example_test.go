package clients_test

import (
	"context"
	"fmt"
	"log"

	"github.com/polyscan/polyscan/clients"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// A line-scan camera: strips of lines go out, and each part's result comes back when its last line is in.
func ExampleClient_OpenScan() {
	addr, stop := start()
	defer stop()
	ctx := context.Background()
	c, err := clients.Dial(addr)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	const width, stripLines, partLines = 64, 8, 16
	plate := clients.Polygon("plate", 8, 2, 56, 2, 56, 14, 8, 14)
	plate.Limits = []string{"mean in [10, 150]"}
	scan, err := c.OpenScan(ctx, &polyscanv1.ScanOpen{
		Inspection: clients.UseRegions(plate),
		Layout:     &polyscanv1.FrameLayout{Width: width, Height: stripLines, PixelFormat: clients.Gray8},
		PartLines:  partLines,
		Trigger:    &polyscanv1.ScanOpen_EveryLines{EveryLines: partLines},
	}, clients.ScanOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer scan.Close()

	go func() {
		defer scan.CloseSend()
		pixels := make([]byte, width*stripLines)
		for n := range 8 {
			for i := range pixels {
				pixels[i] = byte(30 * n) // what the camera sees: each strip is brighter than the one before
			}
			if _, err := scan.Send(ctx, clients.Strip{Pixels: pixels}); err != nil {
				log.Print(err) // the loop below gets the reason
				return
			}
		}
	}()
	for u, err := range scan.Updates() {
		switch {
		case err != nil:
			log.Fatal(err)
		case u.Part != nil:
			r := u.Part.Regions[0]
			fmt.Println("part", u.Part.PartNumber, "mean", r.Channels[0].GetMean(), u.Part.Verdict)
		case u.Event != nil:
			fmt.Println(u.Event.Kind) // lines were lost, or came twice
		case u.Reconnected != nil:
			fmt.Println("went on after", u.Reconnected.Outage)
		}
	}

	// Output:
	// part 0 mean 15 VERDICT_PASS
	// part 1 mean 75 VERDICT_PASS
	// part 2 mean 135 VERDICT_PASS
	// part 3 mean 195 VERDICT_FAIL
}
