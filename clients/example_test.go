package clients_test

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"log"
	"net"
	"os"

	"google.golang.org/grpc/codes"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/polygon"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server"
)

// start runs a server for an example, and returns its address and what ends it. Programs have a server elsewhere:
// polyscand.
func start() (addr string, stop func()) {
	s, err := server.New(server.Config{Device: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	return l.Addr().String(), func() {
		if err := errors.Join(s.Shutdown(context.Background()), <-done); err != nil {
			log.Fatal(err)
		}
	}
}

// What the README shows of a program with a server.
func Example() {
	addr, stop := start()
	defer stop()
	ctx := context.Background()
	frame, err := os.ReadFile("../testdata/board.png")
	if err != nil {
		log.Fatal(err)
	}

	// README: begin
	c, err := clients.Dial(addr) // where polyscand listens, such as "localhost:7465"
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	chip := clients.Polygon("U1", 398, 270, 546, 270, 546, 418, 398, 418)
	chip.Limits = []string{"mean in [35, 75]", "count of pixels above 200 <= 40"}
	res, err := c.Reduce(ctx, clients.UseRegions(chip), clients.Encoded(frame))
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range res.Regions {
		fmt.Println(r.Name, r.Count, r.Channels[0].GetMax(), r.Verdict)
	}
	// README: end

	// Output: U1 21904 165 VERDICT_PASS
}

// What the README shows of a program without one.
func Example_withoutServer() {
	ctx := context.Background()
	file, err := os.Open("../testdata/board.png")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	img, err := png.Decode(file)
	if err != nil {
		log.Fatal(err)
	}

	// README: begin
	dev, err := kernels.Open(cpu.Driver, kernels.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	chip := polygon.Region{Name: "U1", Limits: []string{"mean in [35, 75]"},
		Rings: []polygon.Ring{{{X: 398, Y: 270}, {X: 546, Y: 270}, {X: 546, Y: 418}, {X: 398, Y: 418}}}}
	set, err := polygon.NewSet([]polygon.Region{chip}, polygon.Bounds{})
	if err != nil {
		log.Fatal(err)
	}
	res, err := polygon.Reduce(ctx, dev, set, kernels.PictureOf(img), polygon.Reductions{}, polygon.MethodDefault)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Regions[0].Count, res.Regions[0].Channels[0].Max, res.Verdict)
	// README: end

	// Output: 21904 165 PASS
}

// Frames of a line, several of them on the way at a time.
func ExampleClient_StreamFrames() {
	addr, stop := start()
	defer stop()
	c, err := clients.Dial(addr)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	// A camera, or what stands for one: each frame is brighter than the one before.
	frames := func(yield func(*polyscanv1.Frame, error) bool) {
		for i := range 5 {
			img := image.NewGray(image.Rect(0, 0, 64, 64))
			for p := range img.Pix {
				img.Pix[p] = uint8(50 * i)
			}
			f, err := clients.FromImage(img)
			if !yield(f, err) {
				return
			}
		}
	}
	gate := clients.Polygon("gate", 8, 8, 56, 8, 56, 56, 8, 56)
	gate.Limits = []string{"mean < 175"}
	in := clients.UseRegions(gate)
	in.Reductions = &polyscanv1.Reductions{Statistics: []polyscanv1.Statistic{polyscanv1.Statistic_STATISTIC_MEAN}}
	for a, err := range c.StreamFrames(context.Background(), in, frames, clients.StreamOptions{Window: 3}) {
		if err != nil {
			log.Fatal(err) // the stream is over
		}
		if a.Err != nil {
			fmt.Println(a.Sequence, "refused:", a.Err)
			continue
		}
		fmt.Println(a.Sequence, a.Result.Regions[0].Channels[0].GetMean(), a.Result.Verdict)
	}

	// Output:
	// 0 0 VERDICT_PASS
	// 1 50 VERDICT_PASS
	// 2 100 VERDICT_PASS
	// 3 150 VERDICT_PASS
	// 4 200 VERDICT_FAIL
}

// Errors say which field of the request was wrong.
func ExampleClient_ConvertFrames() {
	addr, stop := start()
	defer stop()
	c, err := clients.Dial(addr)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	// A film, or what stands for one.
	frames := func(yield func(*polyscanv1.Frame, error) bool) {
		for i := range 3 {
			img := image.NewGray(image.Rect(0, 0, 160, 90))
			for p := range img.Pix {
				img.Pix[p] = uint8(p / 160 / 30 * (80 + i))
			}
			f, err := clients.FromImage(img)
			if !yield(f, err) {
				return
			}
		}
	}
	open := &polyscanv1.ConvertFramesOpen{
		Options:  &polyscanv1.ConvertOptions{Vertices: 100},
		Encoding: polyscanv1.Encoding_ENCODING_PNG,
	}
	for a, err := range c.ConvertFrames(context.Background(), open, frames, clients.StreamOptions{}) {
		if err != nil {
			log.Fatal(err) // the stream is over
		}
		if a.Err != nil {
			fmt.Println(a.Sequence, "refused:", a.Err)
			continue
		}
		// a.Result.Picture.GetData() is the PNG file.
		fmt.Println(a.Sequence, a.Result.Vertices, a.Result.Picture.Layout.Width, a.Result.Picture.Layout.Height)
	}

	// Output:
	// 0 100 160 90
	// 1 100 160 90
	// 2 100 160 90
}

func ExampleAsError() {
	addr, stop := start()
	defer stop()
	c, err := clients.Dial(addr)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	pixels := make([]byte, 640*480)
	frame := clients.Raw{Width: 640, Height: 480, Format: clients.Gray8, Stride: 600}.Frame(pixels)
	_, err = c.Reduce(context.Background(), clients.UseRegions(clients.Polygon("a", 0, 0, 9, 0, 9, 9)), frame)
	if e := clients.AsError(err); e != nil && e.Code == codes.InvalidArgument {
		for _, v := range e.Violations {
			fmt.Println(v.Field, "is", v.Description)
		}
	}

	// Output: frame.layout.stride is 600: is less than a row of 640 bytes (640 pixels of GRAY8)
}

// A recipe is stored once and used by name from then on.
func ExampleClient_PutRecipe() {
	addr, stop := start()
	defer stop()
	ctx := context.Background()
	c, err := clients.Dial(addr)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	hole := clients.Polygon("hole", 1, 1, 3, 1, 3, 3, 1, 3)
	hole.Limits = []string{"max <= 40"}
	stored, err := c.PutRecipe(ctx, &polyscanv1.Recipe{
		Name:      "bracket",
		RegionSet: &polyscanv1.RegionSet{Regions: []*polyscanv1.Region{hole}},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stored.Name, stored.Version)

	img := image.NewGray(image.Rect(0, 0, 4, 4))
	img.SetGray(2, 1, color.Gray{Y: 90})
	frame, err := clients.FromImage(img)
	if err != nil {
		log.Fatal(err)
	}
	res, err := c.Reduce(ctx, clients.UseRecipe("bracket", 0), frame)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Verdict, "because", res.Regions[0].Limits[0].Reason)

	// Output:
	// bracket 1
	// VERDICT_FAIL because max 90 is above 40
}

// Columns are read where they lie: of many regions, one call answers which failed, and nothing else is made of the
// rest.
func ExampleColumnsOf() {
	addr, stop := start()
	defer stop()
	frame, err := os.ReadFile("../testdata/board.png")
	if err != nil {
		log.Fatal(err)
	}
	c, err := clients.Dial(addr)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	bright := clients.Polygon("U1", 398, 270, 546, 270, 546, 418, 398, 418)
	bright.Limits = []string{"mean > 200"}
	dark := clients.Polygon("U1, too", 398, 270, 546, 270, 546, 418, 398, 418)
	dark.Limits = []string{"mean < 200"}

	in := clients.AsColumns(clients.UseRegions(bright, dark))
	res, err := c.Reduce(context.Background(), in, clients.Encoded(frame))
	if err != nil {
		log.Fatal(err)
	}
	columns, err := clients.ColumnsOf(in, res)
	if err != nil {
		log.Fatal(err)
	}
	for i := range columns.Len() {
		n, _ := columns.Count(i)
		mean, ok := columns.Mean(i, 0) // false where the region has no pixels
		fmt.Printf("%s: %d pixels, mean %.2f %v, %v\n", columns.Name(i), n, mean, ok, columns.Verdict(i))
	}
	// Output:
	// U1: 21904 pixels, mean 54.36 true, VERDICT_FAIL
	// U1, too: 21904 pixels, mean 54.36 true, VERDICT_PASS
}
